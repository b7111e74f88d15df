"""The twelve scenarios: each file runs by itself, with CUBIC in place of the tested control."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError

FOLDER = Path(__file__).parent / "scenarios"

PROFILES = ("linux_6", "linux_2_6_20", "rfc")
"""The TCP profiles that the flows may have."""

_AXIS = "control"


@dataclass(frozen=True)
class Keep:
    """The bounds of a value that a control has to stay within."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a value is within the bounds; NaN is not."""
        if self.at_least is not None:
            return value >= self.at_least
        assert self.at_most is not None
        return value <= self.at_most

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return f"at most {self.at_most:g}"


MOVES = Keep("utilisation_percent", at_least=1)
"""What every scenario requires besides its own thresholds: that data moves."""


@dataclass(frozen=True)
class BenchScenario:
    """One of the scenarios; the tested control is the last axis of its sweep."""

    name: str
    title: str
    capacity_mbit_per_s: float
    delay_ms: float
    tested: tuple[str, ...]
    """The flows that use the control under test."""
    rival: str | None
    keeps: tuple[Keep, ...]
    scenario: Scenario

    @property
    def cases(self) -> list[str]:
        """The names of the cases, such as `lossy 1 %`: the title with a value of the own axis."""
        own = [axis for axis in self.scenario.axes if axis["name"] != _AXIS]
        return [f"{self.title} {label}" for axis in own for label in axis["labels"]] or [self.title]

    def cell(self, case: int, control: str) -> int:
        """The number of the cell of a case and a control; the control varies fastest."""
        return case * len(controls()) + controls().index(control)


@cache
def controls() -> tuple[str, ...]:
    """The names of TCP's congestion controls."""
    kinds = dict(_engine.models()["congestion_control"])
    # A class of Python has no name.
    return tuple(name for name in kinds if name not in {"python", "sctp"})


def chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    """The controls of these names, each once; `all` stands for every one."""
    for name in names:
        if name not in (*controls(), "all"):
            known = ", ".join(controls())
            raise AnabranchError(
                f"there is no congestion control `{name}`; there are {known}, and `all`"
            )
    if not names:
        raise AnabranchError(f"name a congestion control: {', '.join(controls())}, or `all`")
    return controls() if "all" in names else tuple(dict.fromkeys(names))


def load(names: tuple[str, ...], profile: str) -> list[BenchScenario]:
    """The scenarios of these names (all of them if there are none) with this TCP profile."""
    about = tomllib.loads((Path(__file__).parent / "bench.toml").read_text("utf-8"))
    for name in names:
        if name not in about:
            raise AnabranchError(f"there is no scenario `{name}`; there are {', '.join(about)}")
    return [_load(name, about[name], profile) for name in about if not names or name in names]


def _load(name: str, about: dict[str, Any], profile: str) -> BenchScenario:
    text = (FOLDER / f"{name}.toml").read_text("utf-8")
    flows = tomllib.loads(text)["flows"]
    tested = [flow for flow in flows if flow.startswith("test")]
    paths = [f'"flows.{flow}.transport.cc.kind"' for flow in tested]
    kinds = [f'"{control}"' for control in controls()]
    axis = f"set = [{', '.join(paths)}]\nvalues = [{', '.join(kinds)}]\n"
    over_tcp = [flow for flow in flows if flows[flow]["transport"]["kind"] == "tcp"]
    return BenchScenario(
        name=name,
        title=about["title"],
        capacity_mbit_per_s=about["capacity_mbit_per_s"],
        delay_ms=about["delay_ms"],
        tested=tuple(tested),
        rival=about.get("rival"),
        keeps=(MOVES, *(Keep(**keep) for keep in about.get("keeps", ()))),
        scenario=Scenario.parse(
            f"{text}\n[sweep.axes.{_AXIS}]\n{axis}",
            [(f"flows.{flow}.transport.profile", profile) for flow in over_tcp],
            str(FOLDER),
        ),
    )
