"""Our congestion controls of media and their references over RFC 8867 section 5.1.

The references were driven in virtual time over the same link, with frames of one size; their rows
of 100 ms lie beside this module. Ours are runs of `scenarios/video-call.toml` with such frames.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anabranch.studies.result import load, run

__all__ = ["COMPARISONS", "HEADS", "Compared", "Phase", "cells", "compare"]

_FOLDER = Path(__file__).parent
_SCENARIO = _FOLDER.parents[1] / "scenarios" / "video-call.toml"

_ENDS_S = (0.0, 40.0, 60.0, 80.0, 98.0)
_CAPACITIES = (1e6, 2.5e6, 0.6e6, 1e6)
"""Capacities in bit/s, and when they begin; the frames of ours end at 98 s."""

_FIRST_S = 5.0
"""Rows before this are not counted."""

_ONE_WAY_MS = 50.0
_ROW_S = 0.1

_EVEN: dict[str, str | float] = {
    "frame_interval": "33333333 ns",
    "interval_deviation": 0,
    "key_frame_ratio": 1,
    "packet_size": "1000 B",
    "reaction": "1 ms",
    "size_deviation": 0,
    "transient_frames": 1,
}
"""Frames of one size, 30 a second."""

_DRAFT = {"kind": "scream", "reduce_jitter": True, "loss_rate_threshold": 0.01}
"""The parts of the draft that the reference always has."""


_MARKS = [["0 s", "625 B"], ["40 s", "1562 B"], ["60 s", "375 B"], ["80 s", "625 B"]]
"""5 ms of each capacity."""


@dataclass(frozen=True)
class Comparison:
    """A reference and what it is compared with."""

    name: str
    rows: str
    """The file with the reference's rows."""
    cc: Mapping[str, object]
    is_l4s: bool = False
    """Whether packets are ECT(1), and marked where they would wait for more than 5 ms."""


COMPARISONS = (
    Comparison("SCReAM as its reference is", "scream_even.csv", _DRAFT),
    Comparison("SCReAM, the draft's values", "scream_draft_even.csv", _DRAFT),
    Comparison("SCReAM, the draft's values, L4S", "scream_draft_l4s.csv", _DRAFT, is_l4s=True),
    Comparison("str0m's GCC", "str0m_even.csv", {"kind": "gcc"}),
)


@dataclass(frozen=True)
class Phase:
    """One capacity, in one run."""

    capacity: float
    """In bit/s."""
    delivered: float
    """What arrived with all headers, in bit/s."""
    queue_mean_ms: float
    queue_p95_ms: float
    """The 95th percentile over rows of 100 ms of the mean wait in each."""


Rows: TypeAlias = NDArray[np.float64]
"""A row per 100 ms: its end in s, the target and what arrived in bit/s, the mean wait in ms."""


@cache
def reference(file: str) -> Rows:
    """The rows of a reference."""
    with (_FOLDER / file).open(encoding="utf-8", newline="") as lines:
        rows = [
            (
                float(row["time_s"]),
                float(row["target_kbit_per_s"]) * 1e3,
                float(row["delivered_kbit_per_s"]) * 1e3,
                float(row["queue_mean_ms"]),
            )
            for row in csv.DictReader(lines)
        ]
    return np.array(rows)


def ours(comparison: Comparison) -> Rows:
    """The rows of our run."""
    changes: dict[str, object] = {
        "flows.call.transport.cc": comparison.cc,
        "flows.call.transport.feedback_interval": "40 ms",
        "flows.call.transport.feedback_per_frame": True,
        "flows.call.transport.nack": False,
    }
    if comparison.is_l4s:
        changes["flows.call.transport.ecn"] = "ect1"
        changes["links.bottleneck.queue.mark_bytes"] = {"timetable": _MARKS}
    changes |= {f"flows.call.app.{key}": value for key, value in _EVEN.items()}
    traces = run(load(_SCENARIO, changes, sweep={}), trace=True).traces  # type: ignore[arg-type]
    is_media = (pl.col("side") == "a") & pl.col("kind").is_in(["datagram", "retransmission"])
    packets = traces["packets"].filter(is_media & (pl.col("delivered_s") < _ENDS_S[-1]))
    sent, arrived, size = (
        packets[name].to_numpy() for name in ("sent_s", "delivered_s", "size_bytes")
    )
    capacity = np.array(_CAPACITIES)[np.searchsorted(_ENDS_S, arrived - _ONE_WAY_MS / 1e3) - 1]
    waits = (arrived - sent) * 1e3 - _ONE_WAY_MS - size * 8e3 / capacity
    count = round(_ENDS_S[-1] / _ROW_S)
    index = np.minimum((arrived / _ROW_S).astype(int), count - 1)
    packets_in = np.bincount(index, minlength=count)
    bits = np.bincount(index, weights=size * 8.0, minlength=count)
    wait = np.bincount(index, weights=waits, minlength=count) / np.maximum(packets_in, 1)
    media = traces["media"].filter(pl.col("side") == "a")
    ends = _ROW_S * np.arange(1, count + 1)
    last = np.searchsorted(media["time_s"].to_numpy(), ends) - 1
    targets = media["target_bit_per_s"].to_numpy()[np.maximum(last, 0)]
    return np.column_stack([ends, targets, bits / _ROW_S, wait])


def phases(rows: Rows) -> Iterator[Phase]:
    """The phases of a run."""
    for start, end, capacity in zip(_ENDS_S, _ENDS_S[1:], _CAPACITIES, strict=False):
        part = rows[(rows[:, 0] > max(start, _FIRST_S) + 1e-6) & (rows[:, 0] < end + 1e-6)]
        some = part[part[:, 2] > 0]
        yield Phase(
            capacity,
            float(part[:, 2].mean()),
            float(np.average(some[:, 3], weights=some[:, 2])),
            float(np.percentile(some[:, 3], 95)),
        )


def near(rows: Rows, other: Rows) -> float:
    """The share of the seconds after the first ten in which the targets differ by at most 10 %."""

    def by_second(values: Rows) -> NDArray[np.float64]:
        seconds = values[: 10 * int(_ENDS_S[-1]), 1].reshape(-1, 10)
        return np.asarray(seconds.mean(axis=1)[10:], dtype=np.float64)

    return float((np.abs(by_second(rows) / by_second(other) - 1) <= 0.1).mean())


Compared: TypeAlias = tuple[Comparison, list[tuple[Phase, Phase]], float]
"""A comparison, the phases of ours and of the reference, and how often targets are near."""


def compare() -> Iterator[Compared]:
    """All comparisons."""
    for comparison in COMPARISONS:
        own, theirs = ours(comparison), reference(comparison.rows)
        pairs = list(zip(phases(own), phases(theirs), strict=True))
        yield comparison, pairs, near(own, theirs)


HEADS = ("reference", "capacity", "ours", "reference's", "queue, ours", "queue, reference's")
"""The heads of `cells`: what arrived in Mbit/s; mean and 95th percentile of the wait in ms."""


def cells(name: str, own: Phase, theirs: Phase) -> list[str]:
    """A row of the table."""
    return [
        name,
        f"{own.capacity / 1e6:g}",
        f"{own.delivered / 1e6:.3f}",
        f"{theirs.delivered / 1e6:.3f}",
        f"{own.queue_mean_ms:.0f}, {own.queue_p95_ms:.0f}",
        f"{theirs.queue_mean_ms:.0f}, {theirs.queue_p95_ms:.0f}",
    ]
