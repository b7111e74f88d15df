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

from matplotlib.figure import Figure
from scipy.stats import kstest

import anabranch
from anabranch import _engine

Verdict = Literal["within", "in_range", "outside"]

BLACKOUT_S = 5.0
OBSERVED_S = 89.511523
"""The latest event in the kernel's file: its runs were at least so long."""
TOLERANCE = 0.10
REPLICATIONS = 1000

KEY = ("pmr", "pf", "rto_initial_ms", "rto_min_ms", "rto_max_ms")

QUANTITIES: dict[str, tuple[str, float]] = {
    "gap_ms": ("call.longest_gap_ms", 0.0),
    "stalled_s": ("call.stalled_s", 0.0),
    "first_pf_s": ("call.sctp.a.path0.first_pf_s", BLACKOUT_S),
    "first_unreachable_s": ("call.sctp.a.path0.first_inactive_s", BLACKOUT_S),
}
"""Column of the kernel's file -> our scalar, and the time that it is counted from."""

_RESULT_HEADS = [head for name in QUANTITIES for head in (f"{name} Linux", "ours", "cause")]
HEADS = ("PMR", "pf", "RTO.Initial", "RTO.Min", "RTO.Max", *_RESULT_HEADS)
"""The heads of `cells`."""
KEYS = 5
"""How many of them say what a row is."""

CAUSES = {
    "a": "random heartbeat times: the kernel's is one draw, ours is the mean of all",
    "b": "random heartbeat times: the kernel's run ended before it happened",
}
"""What makes a deviation; docs/linux-sctp.md has the evidence."""


@dataclass(frozen=True)
class Value:
    """One of the kernel's numbers beside ours. NaN: it never happens."""

    kernel: float
    mean: float
    low: float
    high: float
    happens: float
    """The share of our replications in which it happens."""
    below: float
    """The share of these that are below the kernel's number."""
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
        """Whether the mean is within the tolerance, or else the kernel's within our range."""
        if math.isnan(self.kernel):
            never = self.happens < 1 or self.high > OBSERVED_S
            return "within" if self.happens == 0 else "in_range" if never else "outside"
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

    @property
    def is_probed(self) -> bool:
        """Whether unanswered heartbeats decide when the path is unreachable."""
        return not math.isnan(self.values["first_pf_s"].kernel)

    def cause(self, name: str) -> str:
        """The letter of what makes a value deviate by more than the tolerance; `?` if unknown."""
        value = self.values[name]
        if value.verdict == "within":
            return ""
        if name == "first_unreachable_s" and self.is_probed and value.verdict == "in_range":
            return "b" if math.isnan(value.kernel) else "a"
        return "?"


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


def _value(written: float, ours: Sequence[float], origin: float) -> Value:
    kernel = math.nan if written == -1 else written
    happened = [value for value in ours if not math.isnan(value)]
    return Value(
        kernel=kernel,
        mean=fmean(happened) if happened else math.nan,
        low=min(happened, default=math.nan),
        high=max(happened, default=math.nan),
        happens=len(happened) / len(ours),
        below=sum(v < kernel for v in happened) / len(happened) if happened else math.nan,
        origin=origin,
    )


def as_csv(rows: Sequence[Row]) -> str:
    """One line a row: the kernel's number, our mean, least and most, and the verdict."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = ("kernel", "mean", "low", "high", "happens", "verdict")
    writer.writerow([*KEY, *(f"{name}.{field}" for name in QUANTITIES for field in fields)])
    for row in rows:
        cells = list(row.key.values())
        for value in row.values.values():
            numbers = (value.kernel, value.mean, value.low, value.high, value.happens)
            cells += ["" if math.isnan(number) else f"{number:.6f}" for number in numbers]
            cells.append(value.verdict)
        writer.writerow(cells)
    return out.getvalue()


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Every value with its key, deviation, verdict and cause; null: it never happens."""
    return [
        {
            "key": row.key,
            "quantity": name,
            "kernel": _finite(value.kernel),
            "mean": _finite(value.mean),
            "low": _finite(value.low),
            "high": _finite(value.high),
            "deviation": _finite(value.deviation),
            "verdict": value.verdict,
            "cause": row.cause(name) or None,
        }
        for row in rows
        for name, value in row.values.items()
    ]


def summary(rows: Sequence[Row]) -> list[str]:
    """How many values of each quantity have which verdict, in sentences."""
    return [
        f"{name}: " + ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
        for name, verdicts in counts(rows).items()
    ]


def counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """How many values have which verdict, for each quantity."""
    verdicts: tuple[Verdict, ...] = ("within", "in_range", "outside")
    return {
        name: {v: sum(row.values[name].verdict == v for row in rows) for v in verdicts}
        for name in QUANTITIES
    }


def figures(_rows: Sequence[Row] = ()) -> dict[str, Figure]:
    """The time to declare a path down, ours and the kernel's, over the closed form."""
    from anabranch.oracles import failover  # noqa: PLC0415 - it needs the kernel's rows

    return failover.figures()


def heartbeat_test(rows: Sequence[Row]) -> tuple[int, float]:
    """Whether the kernel's times of path failure by heartbeats look like draws from ours.

    If they do, the shares of ours that are below them are uniformly distributed. Number of rows,
    and p-value of the Kolmogorov-Smirnov test.
    """
    values = [row.values["first_unreachable_s"] for row in rows if row.is_probed]
    shares = [value.below for value in values if not math.isnan(value.kernel)]
    return len(shares), float(kstest(shares, "uniform").pvalue)


def cells(row: Row) -> list[str]:
    """A row as text: settings, then for each quantity the kernel's number, ours and the cause."""
    texts = list(row.key.values())
    for name, value in row.values.items():
        digits = 0 if name == "gap_ms" else 3
        texts += [_number(value.kernel, digits), _ours(value, digits), row.cause(name)]
    return texts


def _ours(value: Value, digits: int) -> str:
    if value.happens == 0:
        return "never"
    if f"{value.low:.{digits}f}" == f"{value.high:.{digits}f}":
        return _number(value.mean, digits)
    low, high = _number(value.low, digits), _number(value.high, digits)
    return f"{_number(value.mean, digits)} ({low} to {high})"


def _number(number: float, digits: int) -> str:
    return "never" if math.isnan(number) else f"{number:.{digits}f}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
