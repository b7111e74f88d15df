"""The paper's grid under each profile, the fit of C's rate, ablations, and what lies beyond.

Every study is the network of `scenario.toml` with the values of a profile on top, and with axes
from `studies.toml`.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import polars as pl

from anabranch._engine import Scenario
from anabranch.papers.studies import (
    Effort,
    Key,
    Reading,
    Settings,
    Work,
    as_sets,
    efforts,
    file_text,
    readings,
)
from anabranch.support.toml_text import inline

from .factors import COLUMNS, LIA, SHEET

_text = partial(file_text, __package__)
_STUDIES = tomllib.loads(_text("studies.toml"))

Axes = Mapping[str, Mapping[str, Settings]]
"""The settings of each value of each axis."""

TRANSPORT = "flows.transfer.transport"

BASE = ("clean", "textbook")
"""Ablations and what is beyond the paper are changes of this one."""
FIT_PROFILES = (BASE, ("clean", "as_cited"), ("fitted", "textbook"), ("fitted", "as_cited"))


EFFORTS = efforts(__package__)
"""The effort of each mode."""


networks = cache(partial(readings, __package__, "profiles.toml", "profile"))
"""Readings of what the paper leaves open."""
receivers = cache(partial(readings, __package__, "profiles.toml", "receiver"))
"""The two receivers of the cited model."""
attributions = cache(partial(readings, __package__, "profiles.toml", "attribution"))
"""Single steps from the base to other profiles."""
changes = cache(partial(readings, __package__, "ablations.toml", "change"))
transports = cache(partial(readings, __package__, "beyond.toml", "transport"))
"""The phone's transports; the settings are those of its flow's transport."""
queues = cache(partial(readings, __package__, "beyond.toml", "queue"))
"""C's queues; the settings are those of its queue."""
events = cache(partial(readings, __package__, "beyond.toml", "event"))
"""What the wireless paths do."""


@dataclass(frozen=True)
class Profile:
    """What a grid is run under."""

    network: Reading
    receiver: Reading

    @property
    def name(self) -> str:
        """What JSON and folders call it."""
        return f"{self.network.name}-{self.receiver.name}"

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.network.title}, {self.receiver.title}"

    @property
    def settings(self) -> Settings:
        """Values on top of the scenario."""
        return {**self.network.settings, **self.receiver.settings}


def rate_mbps(settings: Settings) -> float:
    """C's rate."""
    return float(settings["links.c.rate"].split()[0])


def tidy(rows: pl.DataFrame, settings: Settings, **numbers: float) -> pl.DataFrame:
    """A study's rows with the values of `sheet.toml`, under a profile's settings."""
    known = {
        "rate_mbps": rate_mbps(settings),
        "mss": int(settings[f"{TRANSPORT}.tcp.mss"].split()[0]),
    }
    return SHEET.tidy(rows, **known | numbers)


@cache
def profiles() -> tuple[Profile, ...]:
    """Every network with each receiver."""
    return tuple(Profile(network, receiver) for network in networks() for receiver in receivers())


def profile(network: str = BASE[0], receiver: str = BASE[1]) -> Profile:
    """The profile of a network and a receiver."""
    return next(one for one in profiles() if one.name == f"{network}-{receiver}")


def cases(axis: str, only: Sequence[str] = ()) -> dict[str, Settings]:
    """The settings of each case of an axis, or of some cases."""
    rows = {"change": changes, "event": events, "routers_queue": queues, "transport": transports}
    listed: Mapping[str, Settings]
    if axis in rows:
        below = {"routers_queue": "links.c.queue", "transport": TRANSPORT}.get(axis)
        listed = {
            one.name: one.settings if below is None else {below: one.settings}
            for one in rows[axis]()
        }
    else:
        listed = _STUDIES["cases"][axis]
    return {name: listed[name] for name in only or listed}


def case(axis: str, name: float | str) -> Settings:
    """The settings of one case."""
    return dict(cases(axis, [str(name)])[str(name)])


def scenario(name: str, settings: Settings, axes: Axes, traces: Sequence[str] = ()) -> Scenario:
    """The network with these values and this sweep, which keeps these traces."""
    sweep = f"traces = {inline(list(traces))}\n" if traces else ""
    sweep += "".join(f"axes.{axis}.cases = {inline(cases)}\n" for axis, cases in axes.items())
    text = f"{_text('scenario.toml')}\n[sweep]\nmetrics = {inline(COLUMNS)}\n{sweep}"
    return Scenario.parse(
        text, (("name", f"mptcp-aqm-{name.replace('/', '-')}"), *as_sets(settings))
    )


def single(settings: Settings) -> Scenario:
    """The network with these values, without a sweep."""
    return Scenario.parse(_text("scenario.toml"), as_sets(settings))


def work(kind: str, settings: Settings, effort: Effort, name: str = "", title: str = "") -> Work:
    """A study of `studies.toml` with these values, under a name of its own if it has one."""
    row = _STUDIES["study"][kind]
    axes = {axis.removeprefix("routers_"): cases(axis, only) for axis, only in row["axes"].items()}
    wanted, own = effort.of(row["replications"]), effort.of("grid")

    def replications(key: Key) -> int:
        return own if kind == "grid" and key["coupling"] == LIA else wanted

    name = f"{kind}/{name}" if name else kind
    loaded = scenario(name, {**settings, **row.get("set", {})}, axes)
    return Work(name, title or row["title"], loaded, replications, COLUMNS)


def attributed(change: Reading) -> Settings:
    """The base with one thing of another profile."""
    return {**profile().settings, **change.settings}


def all_studies(effort: Effort) -> Iterator[Work]:
    """Every study of a mode."""
    for one in profiles():
        yield work("grid", one.settings, effort, one.name, one.title)
    for change in attributions():
        yield work("attribution", attributed(change), effort, change.name, change.title)
    for key in FIT_PROFILES:
        one = profile(*key)
        yield work("fit", one.settings, effort, one.name, f"rate of C, {one.title}")
    yield work("ablations", profile().settings, effort)
    yield work("theta", profile().settings, effort)
    yield work("beyond", NETWORK, effort)
    yield work("mobility", NETWORK, effort)


MOVING: Settings = _STUDIES["study"]["mobility"]["set"]
"""The values of runs in which the Wi-Fi goes."""
NETWORK: Settings = {
    path: value for path, value in profile().network.settings.items() if path.startswith("links.")
}
"""The base without what is said of the transport."""
