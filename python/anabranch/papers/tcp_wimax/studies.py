"""The paper's studies: the grid of 1080 cells under three readings, and what lies beyond it.

Every study is the network of `scenario.toml`, most with a sweep of their own (`sweep_*.toml`).
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from anabranch._engine import Scenario
from anabranch.papers import studies
from anabranch.papers.studies import (
    Key,
    Reading,
    Sets,
    Work,
    described,
    efforts,
    file_text,
    with_sweep,
)
from anabranch.support.toml_text import inline

from .factors import CLAIMED_BUFFER, CLAIMED_SEGMENT, CONTROLS, PAPERS_PROFILES, READINGS

_text = partial(file_text, __package__)

GRID_COLUMNS = (
    "bulk.goodput_kbit_per_s",
    "bulk.cov",
    "bulk.tcp.a.timeouts",
    "bulk.tcp.a.fast_retransmits",
    "link.air.forward.arrived_packets",
    "link.air.reverse.arrived_packets",
    "link.air.forward.delivered_packets",
    "link.air.forward.air_lost_packets",
    "link.air.forward.queue_full_packets",
    "link.air.forward.mean_bits_per_symbol",
)
CONCURRENT: Sets = (("run.warm_up", "5 s"),)
WIRE: Sets = (
    ("links.air", '{ ends = ["base", "station"], rate = "10 Mbit/s", delay = "20 ms" }'),
    ("flows.bulk.transport", '{ kind = "tcp", cc = { kind = "cubic" } }'),
)
"""A wire of 10 Mbit/s instead of the radio, with CUBIC, whose speed in ns-3 is known."""

DURATION_S = 30.0
"""The length of a run of the grid, as `scenario.toml` has it."""

UNCHANGED = "as chosen: Linux 2.6.20, downlink, queue of 1000 packets"
"""What the sensitivity list changes."""

STATIONS = (1, 2, 4, 8)
FLOWS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Effort:
    """Replications of each kind of cell."""

    claimed: dict[str, int]
    """Per reading: cells with writes of 4 KB and buffers of 512 KB, all profiles."""
    grid: dict[str, int]
    """Per reading: all other cells of the profiles that the paper has results of."""
    los_grid: dict[str, int]
    """Per reading: all other cells."""
    probes: int
    distance: int
    coherence: int
    sensitivity: int
    flows: int
    pairs: int
    stations: int
    traced_transfers: int
    """Traced transfers per control over the weak link, for what a transfer's time goes into."""
    traced_probes: int
    """Traced runs of the probe per profile, for burst lengths and coherence times."""
    only_papers_profiles: bool
    """Whether concurrent flows and stations are left out with line of sight."""
    duration: str | None = None
    """The length of every run, instead of its scenario's."""

    @property
    def sets(self) -> Sets:
        """Values on top of every scenario."""
        return () if self.duration is None else (("run.duration", self.duration),)

    def has_profile(self, key: Key) -> bool:
        """Whether a cell of concurrent transfers or stations is run."""
        return not self.only_papers_profiles or key["profile"] in PAPERS_PROFILES


EFFORTS = efforts(__package__, Effort)
"""The effort of each mode."""


_readings = partial(studies.readings, __package__)
readings = partial(_readings, "readings.toml", "reading")
"""What "segment size" may have meant."""
variants = partial(_readings, "sensitivity.toml", "variant")
"""The sensitivity list."""


def grid(reading: Reading, effort: Effort) -> Work:
    """The paper's 1080 cells under one reading."""

    def replications(key: Key) -> int:
        others = effort.grid if key["profile"] in PAPERS_PROFILES else effort.los_grid
        wanted = others[reading.name]
        if _is_claimed(key):
            wanted = max(wanted, effort.claimed[reading.name])
        return wanted

    loaded = Scenario.parse(_text("scenario.toml"), reading.sets + effort.sets)
    return Work(f"grid/{reading.name}", reading.title, loaded, replications, GRID_COLUMNS)


def network(sets: Sets) -> Scenario:
    """The grid's scenario with these values on top."""
    return Scenario.parse(_text("scenario.toml"), sets)


def all_studies(effort: Effort) -> Iterator[Work]:
    """Every study of a mode."""
    assert tuple(reading.name for reading in readings()) == READINGS
    for reading in readings():
        yield grid(reading, effort)
    for study in described(__package__).values():
        if study.name == "sensitivity":
            for number, variant in enumerate(variants()):
                sets, name = variant.sets + effort.sets, f"sensitivity/{number:02}"
                yield study.work(effort, sets, name=name, title=variant.title)
        elif study.name == "flows":
            yield study.work(effort, effort.sets, ran=effort.has_profile)
        else:
            yield study.work(effort, effort.sets)
    yield Work(
        "pairs",
        "two controls against each other",
        Scenario.parse(_network() + _text("sweep_pairs.toml"), CONCURRENT + effort.sets),
        lambda key: effort.pairs if effort.has_profile(key) else 0,
        ("first.goodput_kbit_per_s", "second.goodput_kbit_per_s"),
    )
    for count in STATIONS:
        yield Work(
            f"stations/{count}",
            f"{count} stations per base station",
            Scenario.parse(stations_text(count), CONCURRENT + effort.sets),
            lambda key: effort.stations if effort.has_profile(key) else 0,
            tuple(f"s{number}.goodput_kbit_per_s" for number in range(1, count + 1)),
        )


def probe(profile: str) -> Scenario:
    """The probe over one profile's link, without a sweep."""
    sets = described(__package__)["probe"].sets
    return _with_sweep("", (*sets, ("links.air.radio.profile", profile)))


def wire() -> Scenario:
    """A transfer over a wire of 10 Mbit/s."""
    return _with_sweep("", WIRE)


def stations_text(count: int) -> str:
    """The scenario with so many stations, each with a link and a transfer of its own."""
    tree = tomllib.loads(_text("scenario.toml"))
    lan, air, end = (tree["links"][name] for name in ("server-lan", "air", "laptop-lan"))
    links: dict[str, Any] = {"server-lan": lan}
    paths, flows = {}, {}
    for number in range(1, count + 1):
        station, laptop = f"station{number}", f"laptop{number}"
        radio = air["radio"] | {"base_station": "base"}
        links[f"air{number}"] = air | {"ends": ["base", station], "radio": radio}
        links[f"lan{number}"] = end | {"ends": [station, laptop]}
        paths[f"p{number}"] = {"via": ["server-lan", f"air{number}", f"lan{number}"]}
        flow = tree["flows"]["bulk"] | {"to": laptop, "paths": [f"p{number}"]}
        flow["app"] = flow["app"] | {"start": {"from": "0 s", "to": "1 s"}}
        flows[f"s{number}"] = flow
    every = range(1, count + 1)
    sweep = {
        "metrics": ["*.goodput_kbit_per_s"],
        "axes": {
            "profile": {
                "set": [f"links.air{number}.radio.profile" for number in every],
                "values": tree["sweep"]["axes"]["profile"]["values"],
            },
            "control": {
                "set": [f"flows.s{number}.transport.cc.kind" for number in every],
                "values": list(CONTROLS),
            },
        },
    }
    content = {"name": "tcp-wimax-stations", "seed": tree["seed"], "run": tree["run"]}
    return _toml(content | {"links": links, "paths": paths, "flows": flows, "sweep": sweep})


def _is_claimed(key: Key) -> bool:
    return (key["segment"], key["buffer"]) == (CLAIMED_SEGMENT, CLAIMED_BUFFER)


def _with_sweep(name: str, sets: Sets) -> Scenario:
    return with_sweep(_text("scenario.toml"), _text(name) if name else "", sets)


def _network() -> str:
    """The scenario up to its flows."""
    network, separator, _ = _text("scenario.toml").partition("\n[flows.")
    assert separator, "the scenario has its flows after its network"
    return f"{network}\n\n"


def _toml(value: Any) -> str:
    """A tree of tables as TOML: those on top as lines, the others inline."""
    return "".join(f"{name} = {inline(item)}\n" for name, item in value.items())
