"""The paper's grid under each profile, the fit of C's rate, ablations, and what lies beyond.

Every study is the network of `scenario.toml` with the values of a profile on top.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from anabranch._engine import Scenario
from anabranch.papers.studies import Key, Work, as_sets, efforts, file_text
from anabranch.support.toml_text import inline

from .factors import BUFFER_PACKETS, COUPLINGS, DELAYS, LIA, PAPERS_QUEUES, QUEUES, UDP_SHARE
from .samples import COLUMNS

_text = partial(file_text, __package__)

Settings = Mapping[str, Any]
"""Values by dotted path."""
Axes = Mapping[str, Mapping[str, Settings]]
"""The settings of each value of each axis."""

TRANSPORT = "flows.transfer.transport"

FIT_RATES_MBPS = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.0, 1.2, 1.5)
FIT_POINTS = (("codel", 1), ("codel", 100), ("drop_tail", 100))
"""The queues and delays for which the paper gives round-trip times."""

LONG_DELAYS = (1, 10, 50, 100, 200, 400)
"""One-way delays of path A in milliseconds, longer than the paper's."""

BASE = ("clean", "textbook")
"""Ablations and what is beyond the paper are changes of this one."""
FIT_PROFILES = (BASE, ("clean", "as_cited"), ("fitted", "textbook"), ("fitted", "as_cited"))

MOVING = ("model", "rfc", "linux")
"""Transports whose Wi-Fi goes."""
MOVING_DELAY_MS = 10
MOVING_S = 300.0
"""A transfer that has not ended by then stands still."""


@dataclass(frozen=True)
class Effort:
    """Replications of each kind of cell."""

    grid: int
    """LIA, which the paper's numbers are about."""
    couplings: int
    fit: int
    ablations: int
    beyond: int
    theta: int


EFFORTS = efforts(__package__, Effort)
"""The effort of each mode."""


@dataclass(frozen=True)
class Reading:
    """A profile or a receiver: values on top of the scenario."""

    name: str
    title: str
    about: str
    settings: Settings


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
    def settings(self) -> dict[str, Any]:
        """Values on top of the scenario."""
        return {**self.network.settings, **self.receiver.settings}


def rate_mbps(settings: Settings) -> float:
    """C's rate."""
    return float(settings["links.c.rate"].split()[0])


def mss_bytes(settings: Settings) -> int:
    """Data of a segment."""
    return int(settings[f"{TRANSPORT}.tcp.mss"].split()[0])


@cache
def networks() -> tuple[Reading, ...]:
    """Readings of what the paper leaves open."""
    return _readings("profiles.toml", "profile")


@cache
def receivers() -> tuple[Reading, ...]:
    """The two receivers of the cited model."""
    return _readings("profiles.toml", "receiver")


@cache
def profiles() -> tuple[Profile, ...]:
    """Every network with each receiver."""
    return tuple(Profile(network, receiver) for network in networks() for receiver in receivers())


def profile(network: str = BASE[0], receiver: str = BASE[1]) -> Profile:
    """The profile of a network and a receiver."""
    return next(one for one in profiles() if one.name == f"{network}-{receiver}")


def queue(kind: str, **keys: Any) -> Settings:
    """C's queue discipline."""
    measured = {"measure": True} if kind == "drop_tail" else {}
    return {"links.c.queue": {"kind": kind, "packets": BUFFER_PACKETS, **measured, **keys}}


def delay(milliseconds: float) -> Settings:
    """Path A's one-way delay."""
    return {"links.access-a.delay": f"{milliseconds:g} ms"}


def coupling(kind: str) -> Settings:
    """How the windows grow together."""
    return {f"{TRANSPORT}.coupling": {"kind": kind}}


def rate(mbps: float) -> Settings:
    """C's rate, UDP with it."""
    return {
        "links.c.rate": f"{mbps:g} Mbit/s",
        "links.c.cross_traffic.0.rate": f"{UDP_SHARE * mbps:g} Mbit/s",
    }


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


DELAY_AXIS = {str(milliseconds): delay(milliseconds) for milliseconds in DELAYS}


def grid(one: Profile, effort: Effort) -> Work:
    """Queue, coupling and delay under a profile."""
    name = f"grid/{one.name}"
    axes: Axes = {
        "queue": {kind: queue(kind) for kind in QUEUES},
        "coupling": {kind: coupling(kind) for kind in COUPLINGS},
        "delay_ms": DELAY_AXIS,
    }

    def replications(key: Key) -> int:
        return effort.grid if key["coupling"] == LIA else effort.couplings

    return Work(name, one.title, scenario(name, one.settings, axes), replications, COLUMNS)


def fit(one: Profile, effort: Effort) -> Work:
    """Round-trip times against C."""
    name = f"fit/{one.name}"
    axes: Axes = {
        "rate_mbps": {f"{mbps:g}": rate(mbps) for mbps in FIT_RATES_MBPS},
        "point": {
            f"{kind}-{milliseconds}": {**queue(kind), **delay(milliseconds)}
            for kind, milliseconds in FIT_POINTS
        },
    }
    loaded = scenario(name, one.settings, axes)
    return Work(name, f"rate of C, {one.title}", loaded, lambda _: effort.fit, COLUMNS)


def attribution(change: Reading, effort: Effort) -> Work:
    """The grid of the base with one thing of another profile."""
    name = f"attribution/{change.name}"
    axes: Axes = {
        "queue": {kind: queue(kind) for kind in PAPERS_QUEUES},
        "coupling": {kind: coupling(kind) for kind in COUPLINGS},
        "delay_ms": DELAY_AXIS,
    }
    loaded = scenario(name, attributed(change), axes)
    return Work(name, change.title, loaded, lambda _: effort.couplings, COLUMNS)


def attributed(change: Reading) -> dict[str, Any]:
    """The values of such a grid."""
    return {**profile().settings, **change.settings}


def ablations(effort: Effort) -> Work:
    """The queue disciplines with one thing changed."""
    axes: Axes = {
        "change": {change.name: change.settings for change in changes()},
        "delay_ms": DELAY_AXIS,
    }
    loaded = scenario("ablations", profile().settings, axes)
    return Work("ablations", "one thing changed", loaded, lambda _: effort.ablations, COLUMNS)


def theta(effort: Effort) -> Work:
    """LIFO-CoDel and others with longer and longer delays on A."""
    kinds = ("codel", "fq_codel", "lifo_codel", "lifo_plain")
    cases = {kind: queue(kind) for kind in kinds[:3]}
    cases["lifo_plain"] = queue("lifo_codel", rule="plain")
    axes: Axes = {
        "queue": cases,
        "delay_ms": {str(milliseconds): delay(milliseconds) for milliseconds in LONG_DELAYS},
    }
    loaded = scenario("theta", profile().settings, axes)
    return Work("theta", "longer delays on A", loaded, lambda _: effort.theta, COLUMNS)


def beyond(effort: Effort) -> Work:
    """Every transport with every queue."""
    axes: Axes = {
        "transport": {one.name: {TRANSPORT: one.settings} for one in transports()},
        "queue": {one.name: {"links.c.queue": one.settings} for one in queues()},
        "delay_ms": DELAY_AXIS,
    }
    loaded = scenario("beyond", NETWORK, axes)
    return Work("beyond", "beyond the paper", loaded, lambda _: effort.beyond, COLUMNS)


def mobility(effort: Effort) -> Work:
    """Losses, and a Wi-Fi that goes."""
    axes: Axes = {
        "transport": {
            one.name: {TRANSPORT: one.settings} for one in transports() if one.name in MOVING
        },
        "queue": {
            one.name: {"links.c.queue": one.settings}
            for one in queues()
            if one.name in PAPERS_QUEUES
        },
        "event": {one.name: one.settings for one in events()},
    }
    settings = {**NETWORK, **delay(MOVING_DELAY_MS), "run.duration": f"{MOVING_S:g} s"}
    loaded = scenario("mobility", settings, axes)
    return Work("mobility", "losses and mobility", loaded, lambda _: effort.beyond, COLUMNS)


def all_studies(effort: Effort) -> Iterator[Work]:
    """Every study of a mode."""
    for one in profiles():
        yield grid(one, effort)
    for change in attributions():
        yield attribution(change, effort)
    for network, receiver in FIT_PROFILES:
        yield fit(profile(network, receiver), effort)
    yield ablations(effort)
    yield theta(effort)
    yield beyond(effort)
    yield mobility(effort)


@cache
def attributions() -> tuple[Reading, ...]:
    """Single steps from the base to other profiles."""
    return _readings("profiles.toml", "attribution")


@cache
def changes() -> tuple[Reading, ...]:
    """The ablations."""
    return _readings("ablations.toml", "change")


@cache
def transports() -> tuple[Reading, ...]:
    """The phone's transports; the settings are those of its flow's transport."""
    return _readings("beyond.toml", "transport")


@cache
def queues() -> tuple[Reading, ...]:
    """C's queues; the settings are those of its queue."""
    return _readings("beyond.toml", "queue")


@cache
def events() -> tuple[Reading, ...]:
    """What the wireless paths do."""
    return _readings("beyond.toml", "event")


@cache
def _readings(file: str, kind: str) -> tuple[Reading, ...]:
    return tuple(
        Reading(row["name"], row["title"], row.get("about", ""), row["set"])
        for row in tomllib.loads(_text(file))[kind]
    )


NETWORK: Settings = {
    path: value for path, value in profile().network.settings.items() if path.startswith("links.")
}
"""The base without what is said of the transport."""
