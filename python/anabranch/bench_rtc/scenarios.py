"""The test cases of RFC 8867 and RFC 8869: each file runs by itself, with NADA in the tested place.

`bench.toml` says what the files do not: which links are bottlenecks, and what a control has to
keep. It also has cases that are variants of others: RFC 8867 section 6.1 gives priorities to the
flows of 5.4, and 6.2 runs the basic cases over a queue that marks.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.bench_cc import scenarios as shared
from anabranch.bench_cc.scenarios import MOVES, BenchScenario, Keep
from anabranch.bench_rtc.series import Course, course
from anabranch.support.toml_text import inline

_OWN = Path(__file__).parent
FOLDER = _OWN / "scenarios"

_RTP_ECN = "ect0"
"""What packets of media carry where queues mark (RFC 6679 section 7.3.1)."""


@dataclass(frozen=True)
class MediaScenario(BenchScenario):
    """One of the test cases."""

    section: str
    """Where it is defined: `RFC 8867 section 5.1`."""
    bottlenecks: tuple[str, ...]
    """The links whose queues count."""
    rival: tuple[str, ...]
    """The flows over TCP that share the way, if there are any."""
    priorities: Mapping[str, float]
    """What flows are to have in proportion to each other; 1 where it says nothing."""

    @cached_property
    def courses(self) -> tuple[Course, ...]:
        """What happens in each case."""
        cases = range(len(self.cases))
        return tuple(course(self.settings(case), self.bottlenecks) for case in cases)

    def settings(self, case: int) -> dict[str, Any]:
        """The scenario of a case, as a tree."""
        cell = self.cell(case, self.controls[0])
        return tomllib.loads(self.scenario.cell_toml(cell))


@cache
def controls() -> tuple[str, ...]:
    """The names of the congestion controls of media."""
    kinds = dict(_engine.models()["media_control"])
    # A class of Python has no name.
    return tuple(name for name in kinds if name != "python")


def load(names: tuple[str, ...], tested: tuple[str, ...] = ()) -> list[MediaScenario]:
    """The test cases of these names or sections, `5.1`; all of them if there are none."""
    content = tomllib.loads((_OWN / "bench.toml").read_text("utf-8"))
    about = content["cases"]
    numbers = {each["section"].rpartition(" ")[2]: None for each in about.values()}
    shared.check_names(names, [*about, *numbers])
    return [
        _load(name, each, about, content["known"] | each.get("known", {}), those)
        for name, each in about.items()
        if not names or name in names or each["section"].rpartition(" ")[2] in names
        for those in shared.sets_of(tested, controls())
    ]


def _load(
    name: str,
    about: dict[str, Any],
    all_about: dict[str, Any],
    known: dict[str, str],
    tested_controls: tuple[str, ...],
) -> MediaScenario:
    base = about.get("variant_of", name)
    text = (FOLDER / f"{base}.toml").read_text("utf-8")
    if base != name:
        # A variant has none of the other one's axes, which stand at the end of its file.
        text, _, _ = text.partition("\n[sweep.")
    flows = tomllib.loads(text)["flows"]
    tested = tuple(flow for flow in flows if flows[flow]["app"]["kind"] == "video")
    rival = tuple(flow for flow in flows if flows[flow]["transport"]["kind"] == "tcp")
    bottlenecks = (all_about[base] | about)["bottlenecks"]
    priorities = about.get("priorities", {})
    sets = []
    if queue := about.get("queue"):
        sets += [(f"links.{link}.queue", inline(queue)) for link in bottlenecks]
        sets += [(f"flows.{flow}.transport.ecn", _RTP_ECN) for flow in tested]
        sets += [(f"flows.{flow}.transport.ecn", "rfc3168") for flow in rival]
    axis = shared.axis_of(tested_controls, tested)
    if priorities and not shared.is_plugin(tested_controls[0]):
        cases = (f"{control} = {_with(priorities, control, tested)}" for control in tested_controls)
        axis = "\n".join(["[sweep.axes.control.cases]", *cases])
    return MediaScenario(
        name=name,
        title=f"{_short(about['section'])} {about['title']}",
        tested=tested,
        keeps=(MOVES, *(Keep(**keep) for keep in about.get("keeps", ()))),
        known=known,
        controls=tested_controls,
        folder=shared.folder_of(name, tested_controls),
        scenario=Scenario.parse(f"{text}\n{axis}\n", sets, str(FOLDER)),
        section=about["section"],
        bottlenecks=tuple(bottlenecks),
        rival=rival,
        priorities=priorities,
    )


def _with(priorities: Mapping[str, float], control: str, flows: tuple[str, ...]) -> str:
    """The control of each flow with its priority, if the control has such a setting, as TOML."""
    has_one = control in _with_priority()
    return inline(
        {
            f"flows.{flow}.transport.cc": {"kind": control}
            | ({"priority": priorities[flow]} if has_one and flow in priorities else {})
            for flow in flows
        }
    )


@cache
def _with_priority() -> frozenset[str]:
    """The controls with a setting `priority`."""
    definitions = json.loads(_engine.schema())["$defs"]
    kinds = definitions["MediaControlConfig"]["oneOf"]
    found = set()
    for kind in kinds:
        own = kind.get("properties", {})
        if "$ref" in kind:
            own = own | definitions[kind["$ref"].rpartition("/")[2]].get("properties", {})
        if "priority" in own:
            found.add(own["kind"]["const"])
    return frozenset(found)


def _short(section: str) -> str:
    """A section as titles name it: those of RFC 8867 without the RFC."""
    return section.removeprefix("RFC 8867 section ").replace("RFC 8869 section ", "8869, ")
