"""The paper's studies: the grid of 1080 cells under three readings, and what lies beyond it.

Every study is the network of `scenario.toml`, most with a sweep of their own (`sweep_*.toml`).
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

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

from .factors import CLAIMED_BUFFER, CLAIMED_SEGMENT, CONTROLS, PAPERS_PROFILES, READINGS, SHEET

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
DURATION_S = 30.0
"""The length of a run of the grid, as `scenario.toml` has it."""

UNCHANGED = "as chosen: Linux 2.6.20, downlink, queue of 1000 packets"
"""What the sensitivity list changes."""

STATIONS = (1, 2, 4, 8)
FLOWS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Effort:
    """Replications of each kind of cell; `efforts.toml` says what each kind is."""

    claimed: dict[str, int]
    grid: dict[str, int]
    los_grid: dict[str, int]
    probes: int
    distance: int
    coherence: int
    sensitivity: int
    flows: int
    pairs: int
    stations: int
    traced_transfers: int
    traced_probes: int
    only_papers_profiles: bool
    duration: str | None = None

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
        is_claimed = (key["segment"], key["buffer"]) == (CLAIMED_SEGMENT, CLAIMED_BUFFER)
        return max(others[reading.name], effort.claimed[reading.name] if is_claimed else 0)

    loaded = network(reading.sets + effort.sets)
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
    before_flows = _text("scenario.toml").partition("\n[flows.")[0]
    text = f"{before_flows}\n\n{_text('sweep_pairs.toml')}"
    yield Work(
        "pairs",
        "two controls against each other",
        Scenario.parse(text, CONCURRENT + effort.sets),
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
    return with_sweep(_text("scenario.toml"), "", (*sets, ("links.air.radio.profile", profile)))


def wire() -> Scenario:
    """A transfer over a wire of 10 Mbit/s instead of the radio, with CUBIC: ns-3's is known."""
    air = '{ ends = ["base", "station"], rate = "10 Mbit/s", delay = "20 ms" }'
    transport = '{ kind = "tcp", cc = { kind = "cubic" } }'
    sets = (("links.air", air), ("flows.bulk.transport", transport))
    return with_sweep(_text("scenario.toml"), "", sets)


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
    content |= {"links": links, "paths": paths, "flows": flows, "sweep": sweep}
    return "".join(f"{name} = {inline(value)}\n" for name, value in content.items())


def pair_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """Per run: profile, first, second, replication, share of the first in percent.

    A pair in both orders is one pair: what starts first by chance is averaged out.
    """
    pair = ["profile", "first", "second", "replication"]
    share = SHEET.tidy(rows).select(*pair, "percent")
    swapped = share.rename({"first": "second", "second": "first"})
    mirrored = swapped.select(*pair, percent=100 - pl.col("percent"))
    each = pl.concat([share, mirrored]).group_by(pair, maintain_order=True)
    return each.agg(pl.col("percent").mean())


def station_rows(rows: pl.DataFrame, stations: int) -> pl.DataFrame:
    """Per run: profile, control, replication, stations, goodput_mbps of all, jain."""
    columns = [f"s{number}.goodput_kbit_per_s" for number in range(1, stations + 1)]
    total = pl.sum_horizontal(columns)
    squares = pl.sum_horizontal(pl.col(name) ** 2 for name in columns)
    return rows.select(
        "profile",
        "control",
        pl.col("replication").cast(pl.Int64),
        stations=pl.lit(stations),
        goodput_mbps=total / 1e3,
        jain=total**2 / (stations * squares),
    )
