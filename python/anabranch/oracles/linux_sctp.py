"""SCTP of profile `linux` beside the SCTP of Linux 6.12 when a path turns black.

The kernel was measured once for each setting, in virtual time; what is random in it (the phase of
its timer wheel, the jitter of its heartbeats) was drawn once. Ours is drawn for each of many
replications, so that the kernel's number has a mean to be compared with and a range to lie in.

Times are compared as times since the path turned black.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from statistics import fmean
from typing import Any, Literal

import anabranch
from anabranch import _engine

Verdict = Literal["within", "in_range", "outside"]

BLACKOUT_S = 5.0
TOLERANCE = 0.10
REPLICATIONS = 200
KEY = ("pmr", "pf", "rto_initial_ms", "rto_min_ms", "rto_max_ms")

QUANTITIES: dict[str, tuple[str, float]] = {
    "gap_ms": ("call.longest_gap_ms", 0.0),
    "stalled_s": ("call.stalled_s", 0.0),
    "first_pf_s": ("call.sctp.a.path0.first_pf_s", BLACKOUT_S),
    "first_unreachable_s": ("call.sctp.a.path0.first_inactive_s", BLACKOUT_S),
}
"""Column of the kernel's file -> our scalar, and the time that it is counted from."""


@dataclass(frozen=True)
class Value:
    """One of the kernel's numbers beside ours. NaN: it never happens."""

    kernel: float
    mean: float
    low: float
    high: float
    happens: float
    """The share of our replications in which it happens."""
    origin: float

    @property
    def deviation(self) -> float:
        """Our mean as a share of the kernel's number, less one; NaN where either never happens."""
        ours, theirs = self.mean - self.origin, self.kernel - self.origin
        if ours == theirs:
            return 0.0
        return math.inf if theirs == 0 else ours / theirs - 1

    @property
    def verdict(self) -> Verdict:
        """Whether the mean is within the tolerance, or else the kernel's number within our range."""
        if math.isnan(self.kernel):
            if self.happens == 0:
                return "within"
            return "in_range" if self.happens < 1 else "outside"
        if abs(self.deviation) <= TOLERANCE:
            return "within"
        return "in_range" if self.low <= self.kernel <= self.high else "outside"


@dataclass(frozen=True)
class Row:
    """One setting."""

    key: dict[str, str]
    values: dict[str, Value]

    @property
    def name(self) -> str:
        """The setting in short: Path.Max.Retrans, PF threshold, the three RTOs in ms."""
        return ",".join(self.key.values())


def kernel_rows() -> list[dict[str, str]]:
    """The kernel's file, its comments left out."""
    text = (files(__package__) / "linux_sctp_failover.csv").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def scenario(row: Mapping[str, str]) -> anabranch.Scenario:
    """The set-up with one row's settings."""
    transport = "flows.call.transport"
    settings: dict[str, str | float | bool] = {
        f"{transport}.path_max_retrans": int(row["pmr"]),
        f"{transport}.pf_max_retrans": "off" if row["pf"] == "off" else int(row["pf"]),
        f"{transport}.rto_initial": f"{row['rto_initial_ms']} ms",
        f"{transport}.rto_min": f"{row['rto_min_ms']} ms",
        f"{transport}.rto_max": f"{row['rto_max_ms']} ms",
    }
    text = (files(__package__) / "linux_sctp_failover.toml").read_text("utf-8")
    return anabranch.load(text, settings)


def compare(
    rows: Sequence[Mapping[str, str]], replications: int = REPLICATIONS, jobs: int = 1
) -> Iterator[Row]:
    """The kernel's rows beside ours, each as soon as it is computed."""
    for row in rows:
        runs = [(0, replication) for replication in range(replications)]
        columns = _engine.run_batch(scenario(row), runs, jobs)
        yield Row(
            key={name: row[name] for name in KEY},
            values={
                name: _value(float(row[name]), columns[scalar], origin)
                for name, (scalar, origin) in QUANTITIES.items()
            },
        )


def _value(kernel: float, ours: Sequence[float], origin: float) -> Value:
    finite = [value for value in ours if not math.isnan(value)]
    return Value(
        kernel=math.nan if kernel == -1 else kernel,
        mean=fmean(finite) if finite else math.nan,
        low=min(finite, default=math.nan),
        high=max(finite, default=math.nan),
        happens=len(finite) / len(ours),
        origin=origin,
    )
