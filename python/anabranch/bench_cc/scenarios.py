"""The thirteen scenarios: each file runs by itself, with CUBIC in place of the tested control."""

import json
import re
import tomllib
from collections.abc import Collection, Sequence
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

_SCALABLE = ("dctcp", "prague")
"""Controls that answer to the share of marks: where flows have `ecn`, theirs is `l4s`."""


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
    tested: tuple[str, ...]
    """The flows that use the control under test."""
    keeps: tuple[Keep, ...]
    known: dict[str, str]
    """Why a control does not keep all of that, by the control."""
    controls: tuple[str, ...]
    """The controls among which the last axis chooses."""
    folder: str
    """The name of the folder of its runs."""
    scenario: Scenario

    @property
    def cases(self) -> list[str]:
        """The names of the cases, such as `lossy 1 %`: the title with a value of the own axis."""
        own = [axis for axis in self.scenario.axes if axis["name"] != _AXIS]
        return [f"{self.title} {label}" for axis in own for label in axis["labels"]] or [self.title]

    def cell(self, case: int, control: str) -> int:
        """The number of the cell of a case and a control; the control varies fastest."""
        return case * len(self.controls) + self.controls.index(control)


@dataclass(frozen=True)
class TransferScenario(BenchScenario):
    """A scenario of transfers."""

    capacity_mbit_per_s: float
    delay_ms: float
    rival: str | None


@cache
def controls() -> tuple[str, ...]:
    """The names of TCP's congestion controls."""
    kinds = dict(_engine.models()["congestion_control"])
    # A class of Python has no name.
    return tuple(name for name in kinds if name not in {"python", "sctp"})


def is_plugin(control: str) -> bool:
    """Whether this names a class of Python, `mine.py:Mine`."""
    return ":" in control


def chosen(names: tuple[str, ...], controls: Sequence[str]) -> tuple[str, ...]:
    """The controls of these names, each once; `all` stands for every built-in one."""
    known = ", ".join(controls)
    for name in names:
        if name not in (*controls, "all") and not is_plugin(name):
            raise AnabranchError(
                f"there is no congestion control `{name}`; there are {known}, `all`, and classes of"
                " Python such as `mine.py:Mine`"
            )
        file, _, _ = name.rpartition(":")
        if is_plugin(name) and file.endswith(".py") and not Path(file).is_file():
            raise AnabranchError(
                f"{name}: there is no file {file}; `anabranch new {file}` writes one to start from"
            )
    if not names:
        raise AnabranchError(
            f"name a congestion control: {known}, `all`, or a class of Python such"
            " as `mine.py:Mine`"
        )
    every = [each for name in names for each in (controls if name == "all" else (name,))]
    return tuple(dict.fromkeys(every))


def load(
    names: tuple[str, ...], profile: str, tested: tuple[str, ...] = ()
) -> list[TransferScenario]:
    """The scenarios of these names (all of them if there are none) with this TCP profile."""
    about = tomllib.loads((Path(__file__).parent / "bench.toml").read_text("utf-8"))
    check_names(names, about)
    return [
        _load(name, about[name], profile, those)
        for name in about
        if not names or name in names
        for those in sets_of(tested, controls())
    ]


def check_names(names: Sequence[str], known: Collection[str]) -> None:
    """Raises where one of these is no scenario."""
    for name in names:
        if name not in known:
            raise AnabranchError(f"there is no scenario `{name}`; there are {', '.join(known)}")


def sets_of(tested: Sequence[str], controls: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The controls among which a scenario's last axis chooses, each set in a study of its own.

    There is one of all built-in controls, and one for each class among those tested, as the runs of
    a class are those of its source.
    """
    plugins = [control for control in tested if is_plugin(control)]
    sets: list[tuple[str, ...]] = [(control,) for control in plugins]
    if len(plugins) < len(tested) or not tested:
        sets.insert(0, controls)
    return sets


def axis_of(tested_controls: tuple[str, ...], flows: Sequence[str]) -> str:
    """The last axis of a scenario, as TOML: the control of these flows."""
    own = is_plugin(tested_controls[0])
    paths = [f'"flows.{flow}.transport.cc{"" if own else ".kind"}"' for flow in flows]
    kinds = [_kind(control) for control in tested_controls]
    return f"[sweep.axes.{_AXIS}]\nset = [{', '.join(paths)}]\nvalues = [{', '.join(kinds)}]"


def folder_of(name: str, tested_controls: tuple[str, ...]) -> str:
    """The name of the folder of a scenario's runs."""
    own = tested_controls[0]
    return f"{name}-{re.sub('[^A-Za-z0-9]+', '-', own)}" if is_plugin(own) else name


def _kind(control: str) -> str:
    """The table that chooses a control, as TOML."""
    if not is_plugin(control):
        return f'"{control}"'
    file, _, own = control.rpartition(":")
    place = str(Path(file).absolute()) if file.endswith(".py") else file
    return f'{{ kind = "python", class = {json.dumps(f"{place}:{own}")} }}'


def _settings(control: str, flows: list[str]) -> str:
    """What a built-in control sets in these flows where packets are marked, as TOML."""
    ecn = "l4s" if control in _SCALABLE else "rfc3168"
    each = (
        f'"flows.{flow}.transport.cc.kind" = "{control}", "flows.{flow}.transport.ecn" = "{ecn}"'
        for flow in flows
    )
    return ", ".join(each)


def _load(
    name: str, about: dict[str, Any], profile: str, tested_controls: tuple[str, ...]
) -> TransferScenario:
    text = (FOLDER / f"{name}.toml").read_text("utf-8")
    flows = tomllib.loads(text)["flows"]
    tested = [flow for flow in flows if flow.startswith("test")]
    marked = [flow for flow in tested if "ecn" in flows[flow]["transport"]]
    if marked and not is_plugin(tested_controls[0]):
        cases = [f"{control} = {{ {_settings(control, tested)} }}" for control in tested_controls]
        axis = f"[sweep.axes.{_AXIS}.cases]\n" + "\n".join(cases)
    else:
        axis = axis_of(tested_controls, tested)
    over_tcp = [flow for flow in flows if flows[flow]["transport"]["kind"] == "tcp"]
    return TransferScenario(
        name=name,
        title=about["title"],
        capacity_mbit_per_s=about["capacity_mbit_per_s"],
        delay_ms=about["delay_ms"],
        tested=tuple(tested),
        rival=about.get("rival"),
        keeps=(MOVES, *(Keep(**keep) for keep in about.get("keeps", ()))),
        known=about.get("known", {}),
        controls=tested_controls,
        folder=folder_of(name, tested_controls),
        scenario=Scenario.parse(
            f"{text}\n{axis}\n",
            [(f"flows.{flow}.transport.profile", profile) for flow in over_tcp],
            str(FOLDER),
        ),
    )
