"""Runs that are made once more with traces: throughput over time, and when handovers came."""

import re
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from anabranch.papers.studies import Effort
from anabranch.papers.traces import STEP_S, path_rates
from anabranch.studies.result import run

from .factors import REVERTED_S
from .studies import experiment

APART_S = 1.0
"""Two checkpoints are at least so many seconds apart."""
HEADERS_BYTES = 48
"""IP, SCTP and DATA header of a packet with one chunk."""
ABOUT_S = 5.0
"""Two times that are at most so far apart are about the same."""


@dataclass(frozen=True)
class Handover:
    """A change of the primary path."""

    time_s: float
    to: int
    """The new primary path: 0 or 1."""
    reason: str
    new_mbps: float
    """Measured throughput of the new primary path; NaN where none was measured."""
    old_mbps: float


@dataclass(frozen=True)
class Checkpoint:
    """New data that was sent on the alternate path."""

    time_s: float
    packets: int
    lost: int


@dataclass(frozen=True)
class Traced:
    """What a run of an experiment tells."""

    handovers: list[Handover]
    checkpoints: list[Checkpoint]
    timeouts_s: list[float]
    """When the retransmission timer of a path expired."""
    rates: pl.DataFrame
    """time_s, path and mbps: data that arrived over each path, in steps of STEP_S."""

    def within(self, from_s: float, to_s: float) -> list[Handover]:
        """Handovers in this time."""
        return [handover for handover in self.handovers if from_s <= handover.time_s < to_s]

    def reverted(self) -> list[Handover]:
        """Handovers that were undone within REVERTED_S."""
        return [
            before
            for before, after in pairwise(self.handovers)
            if after.time_s - before.time_s <= REVERTED_S
        ]

    def follows_timeout(self, handover: Handover) -> bool:
        """Whether a retransmission timer had expired shortly before a handover."""
        return any(0 <= handover.time_s - time_s <= REVERTED_S for time_s in self.timeouts_s)


def values(run: Traced) -> dict[str, float]:
    """What the claims read of a traced run.

    True is 1 and false is 0; NaN where a run has no such checkpoint or handover. Columns:
    first_checkpoint_s and whether its data met a loss; stays_100_s (on path 1, for the first
    100 s); whether it leaves path 1 or returns to it about when the paper says so, as the first
    handover from shortly before on; two_handovers (no more and no fewer); follows_timeout (some
    handover does); and the throughputs that the handovers about 100 s and 200 s were decided by.
    """
    first = run.checkpoints[0] if run.checkpoints else None
    decided = {}
    for time_s, to in ((100, 1), (200, 0)):
        moves = [one for one in run.within(time_s - 5, time_s + 95)[:1] if one.to == to]
        for name in ("new_mbps", "old_mbps"):
            decided[f"{name}_{time_s}_s"] = getattr(moves[0], name) if moves else float("nan")
    return decided | {
        "first_checkpoint_s": first.time_s if first else float("nan"),
        "first_checkpoint_lost": float(first.lost > 0) if first else float("nan"),
        "stays_100_s": float(not run.within(0, 100)),
        "leaves_at_100_s": _is_at(run.within(90, 200), 100.0, to=1),
        "returns_at_200_s": _is_at(run.within(190, 300), 200.0, to=0),
        "two_handovers": float(len(run.handovers) == 2),
        "leaves_at_50_s": _is_at(run.within(45, 100), 50.0, to=1),
        "returns_at_106_s": _is_at(run.within(100, 150), 106.0, to=0),
        "follows_timeout": float(any(map(run.follows_timeout, run.handovers))),
    }


def _is_at(handovers: list[Handover], time_s: float, to: int) -> float:
    """Whether the first of these handovers is to this path and about at this time."""
    first = next(iter(handovers), None)
    return float(first is not None and first.to == to and abs(first.time_s - time_s) <= ABOUT_S)


def proposed(number: int, effort: Effort) -> list[Traced]:
    """The proposed sender's runs of an experiment, by replication."""
    return [trace(number, "proposed", replication) for replication in range(effort.of("traced"))]


def trace(number: int, sender: str, replication: int = 0) -> Traced:
    """One run."""
    arena = experiment(number)
    scenario = arena.only(sender)
    traces = run(scenario, replication=replication, trace=True).traces
    events, packets, paths = (
        traces[table].filter(flow=arena.flow, side="a") for table in ("events", "packets", "paths")
    )
    data = packets.filter(pl.col("tsn") >= 0, pl.col("kind") == "data")
    changes = handovers(events)
    return Traced(changes, checkpoints(data, changes), timeouts(paths), rates(data))


def handovers(events: pl.DataFrame) -> list[Handover]:
    """The handovers that the sending side's events tell of."""
    moves = []
    for row in events.filter(event="primary_changed").iter_rows(named=True):
        match = re.match(r"\D*(\d+)\D+(\d+): (.*)", row["detail"])
        assert match, row["detail"]
        numbers = re.search(r"([\d.]+) Mbit/s > ([\d.]+) Mbit/s", match[3])
        new, old = map(float, numbers.groups()) if numbers else (float("nan"), float("nan"))
        moves.append(Handover(row["time_s"], int(match[2]), match[3], new, old))
    return moves


def checkpoints(data: pl.DataFrame, changes: list[Handover]) -> list[Checkpoint]:
    """Bursts of data that is sent for the first time, on the path that is not primary."""
    primary = pl.DataFrame(
        {
            "sent_s": [0.0, *(change.time_s for change in changes)],
            "primary": [0, *(change.to for change in changes)],
        }
    )
    first = data.unique("tsn", keep="first", maintain_order=True).sort("sent_s")
    probes = (
        first.join_asof(primary, on="sent_s")
        .filter(pl.col("path") != pl.col("primary"))
        .with_columns(burst=(pl.col("sent_s").diff().fill_null(0) > APART_S).cum_sum())
        .group_by("burst", maintain_order=True)
        .agg(
            pl.col("sent_s").first(),
            pl.len().alias("packets"),
            pl.col("fate").is_in(["queue_full", "lost"]).sum().alias("lost"),
        )
    )
    return [Checkpoint(*row) for row in probes.select("sent_s", "packets", "lost").iter_rows()]


def timeouts(paths: pl.DataFrame) -> list[float]:
    """When the error counter of a path grew; in the experiments only timers make it grow."""
    grown = (pl.col("error_count") > pl.col("error_count").shift().over("path")).fill_null(
        pl.col("error_count") > 0
    )
    return paths.filter(grown)["time_s"].to_list()


def rates(data: pl.DataFrame) -> pl.DataFrame:
    """Throughput over each path from the sending side's packets with data."""
    arrived = data.filter(fate="delivered")
    last = arrived["delivered_s"].max()
    steps = int((last if isinstance(last, float) else 0.0) / STEP_S)
    return path_rates(arrived, steps, HEADERS_BYTES)
