"""The paper's studies: those of `studies.toml`, and several stations at one base station."""

import tomllib
from collections.abc import Iterator
from functools import partial

import polars as pl

from anabranch._engine import Scenario
from anabranch.papers import studies
from anabranch.papers.studies import (
    Effort,
    Key,
    Reading,
    Sets,
    Settings,
    Work,
    described,
    efforts,
    file_text,
    readings,
    with_sweep,
)
from anabranch.support.toml_text import inline

from .factors import CONTROLS, PAPERS_PROFILES, SHEET

_text = partial(file_text, __package__)

CONCURRENT: Sets = (("run.warm_up", "5 s"),)
DURATION_S = 30.0
"""The length of a run of the grid, as `scenario.toml` has it."""

UNCHANGED = "as chosen: Linux 2.6.20, downlink, queue of 1000 packets"
"""What the sensitivity list changes."""

STATIONS = (1, 2, 4, 8)
FLOWS = (2, 4, 8, 16)


EFFORTS = efforts(__package__)
"""The effort of each mode."""


VARIANTS: tuple[Reading, ...] = readings(__package__, "sensitivity.toml", "variant")
"""The sensitivity list."""


def all_studies(effort: Effort) -> Iterator[Work]:
    """Every study of a mode."""
    yield from studies.works(__package__, effort)
    lasts = (("run.duration", effort.text("duration")),) if "duration" in effort.amounts else ()

    def replications(key: Key) -> int:
        return effort.of(f"stations.{'papers' if key['profile'] in PAPERS_PROFILES else 'others'}")

    for count in STATIONS:
        yield Work(
            f"stations/{count}",
            f"{count} stations per base station",
            Scenario.parse(stations_text(count), CONCURRENT + lasts),
            replications,
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
    links: Settings = {"server-lan": lan}
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
