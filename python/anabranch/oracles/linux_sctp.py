"""SCTP of profile `linux` beside the SCTP of Linux 6.12 when paths turn black.

The kernel was measured once for each setting, in virtual time; what is random in it (the phase of
its timer wheel, the jitter of its heartbeats) was drawn once. Ours is drawn for each of many
replications, so that the kernel's number has a mean to be compared with and a range to lie in.

There are four set-ups: `black` (path 1 of two turns black), `all_black` (both do), `return` (path 1
comes back), and `hb100` (heartbeats every 100 ms). Path 1 is the primary one, our path 0. Times are
compared as times since the path turned black, or since it came back.
"""

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from statistics import fmean
from typing import Any, Literal

from matplotlib.figure import Figure
from scipy.stats import kstest

import anabranch
from anabranch import _engine

Verdict = Literal["within", "in_range", "outside"]

BLACKOUT_S = 5.0
RETURN_S = 60.0
TOLERANCE = 0.10
REPLICATIONS = 1000

SETTINGS = ("pmr", "pf", "rto_initial_ms", "rto_min_ms", "rto_max_ms")
KEY = ("setup", *SETTINGS)
"""What says which row of the kernel's files it is."""


@dataclass(frozen=True)
class Quantity:
    """A column of the kernel's file, and where ours is."""

    scalar: str | None = None
    """Our scalar; if there is none, a trace has it (`_traced`)."""
    origin: float = BLACKOUT_S
    """What it is counted from, in seconds."""
    is_random: bool = False
    """Whether the random times of heartbeats decide it where unanswered ones count as errors."""


@dataclass(frozen=True)
class Setup:
    """What was done to the paths, and what was measured."""

    file: str
    """The kernel's numbers."""
    text: str
    """The set-up in a few words."""
    quantities: dict[str, Quantity]
    tested: str | None = None
    """The quantity whose random times are tested against our distribution."""
    settings: dict[str, str] = field(default_factory=dict)
    """What differs from `linux_sctp_failover.toml`."""
    observed_s: float = math.inf
    """The kernel's run was at least so long."""
    runs_per_trace: int = 1
    """Only one of so many replications is run: traces take their time."""

    @property
    def is_traced(self) -> bool:
        """Whether ours comes from traces, too."""
        return any(quantity.scalar is None for quantity in self.quantities.values())


def _path(path: int, scalar: str, *, is_random: bool = False) -> Quantity:
    return Quantity(f"call.sctp.a.path{path}.{scalar}", is_random=is_random)


_GAP = Quantity("call.longest_gap_ms", origin=0.0)
_STALLED = Quantity("call.stalled_s", origin=0.0)

SETUPS: dict[str, Setup] = {
    "black": Setup(
        file="linux_sctp_failover.csv",
        text="path 1 turns black at 5 s",
        quantities={
            "gap_ms": _GAP,
            "stalled_s": _STALLED,
            "first_pf_s": _path(0, "first_pf_s"),
            "first_unreachable_s": _path(0, "first_inactive_s", is_random=True),
        },
        tested="first_unreachable_s",
        # The latest event in the kernel's file.
        observed_s=89.511523,
    ),
    "all_black": Setup(
        file="linux_sctp_all_black.csv",
        text="both paths turn black at 5 s",
        quantities={
            "first_pf_s": _path(0, "first_pf_s"),
            "p2_first_pf_s": _path(1, "first_pf_s"),
            "first_unreachable_s": _path(0, "first_inactive_s", is_random=True),
            "p2_first_unreachable_s": _path(1, "first_inactive_s", is_random=True),
            "first_hb_p1_s": Quantity(is_random=True),
            "first_hb_p2_s": Quantity(is_random=True),
            "comm_lost_s": Quantity(is_random=True),
        },
        tested="comm_lost_s",
        settings={
            "run.duration": "202 s",
            "flows.call.app.duration": "200 s",
            "links.second.up": '{ timetable = [["0 s", true], ["5 s", false]] }',
            "links.second.down": "blackhole",
        },
        runs_per_trace=5,
    ),
    "return": Setup(
        file="linux_sctp_return.csv",
        text="path 1 is black from 5 to 60 s",
        quantities={
            "gap_ms": _GAP,
            "first_pf_s": _path(0, "first_pf_s"),
            "first_unreachable_s": _path(0, "first_inactive_s", is_random=True),
            "first_hb_p1_s": Quantity(is_random=True),
            "available_s": Quantity(origin=RETURN_S, is_random=True),
            "first_data_p1_s": Quantity(origin=RETURN_S, is_random=True),
        },
        tested="available_s",
        settings={
            "run.duration": "152 s",
            "flows.call.app.duration": "149 s",
            "links.first.up": '{ timetable = [["0 s", true], ["5 s", false], ["60 s", true]] }',
        },
        observed_s=150.0,
        runs_per_trace=5,
    ),
    "hb100": Setup(
        file="linux_sctp_hb100.csv",
        text="path 1 turns black at 5 s, heartbeats every 100 ms",
        quantities={
            "gap_ms": _GAP,
            "stalled_s": _STALLED,
            "first_unreachable_s": _path(0, "first_inactive_s"),
        },
        settings={
            "run.duration": "62 s",
            "flows.call.app.duration": "59 s",
            "flows.call.transport.hb_interval": "100 ms",
            # The message of 5.000 s still arrives: `resume_s - gap_ms` is 5.0201 s where the first
            # gap is the longest.
            "links.first.up": '{ timetable = [["0 s", true], ["5.001 s", false]] }',
        },
        observed_s=60.0,
    ),
}
"""Name -> set-up."""

CAUSES = {
    "a": "random heartbeat times: the kernel's is one draw, ours is the mean of all",
    "b": "random heartbeat times: it happens in some runs only, or after the kernel's run ended",
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
    observed_s: float = math.inf
    """How long the kernel was observed at least."""

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
            never = self.happens < 1 or self.high > self.observed_s
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
    def setup(self) -> Setup:
        """Its set-up."""
        return SETUPS[self.key["setup"]]

    @property
    def name(self) -> str:
        """The setting in short: set-up, Path.Max.Retrans, PF threshold, the three RTOs in ms."""
        return ",".join(self.key.values())

    def cause(self, name: str) -> str:
        """The letter of what makes a value deviate by more than the tolerance; `?` if unknown."""
        value = self.values[name]
        if value.verdict == "within":
            return ""
        if self.setup.quantities[name].is_random and value.verdict == "in_range":
            return "b" if math.isnan(value.kernel) else "a"
        return "?"


def kernel_rows() -> list[dict[str, str]]:
    """The rows of the kernel's files, with the set-up and the times of the first heartbeats."""
    rows = []
    for name, setup in SETUPS.items():
        text = (files(__package__) / setup.file).read_text("utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            first = {
                f"first_{path}_s": (row[path].split() or ["-1"])[0]
                for path in ("hb_p1", "hb_p2")
                if path in row
            }
            rows.append({"setup": name, **row, **first})
    return rows


def scenario(row: Mapping[str, str]) -> anabranch.Scenario:
    """The set-up with one row's settings."""
    transport = "flows.call.transport"
    settings: dict[str, str | float | bool] = {
        **SETUPS[row["setup"]].settings,
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
        setup = SETUPS[row["setup"]]
        ours = _ours_of(scenario(row), setup, replications, jobs)
        yield Row(
            key={name: row[name] for name in KEY},
            values={
                name: _value(float(row[name]), ours[name], quantity.origin, setup.observed_s)
                for name, quantity in setup.quantities.items()
            },
        )


_RUNS_AT_ONCE = 50
"""With traces, which are held in memory."""


def _ours_of(
    one: anabranch.Scenario, setup: Setup, replications: int, jobs: int
) -> dict[str, list[float]]:
    """Quantity -> one value for each replication; NaN: it never happens."""
    runs = [(0, number) for number in range(math.ceil(replications / setup.runs_per_trace))]
    scalars = {name: q.scalar for name, q in setup.quantities.items() if q.scalar is not None}
    if not setup.is_traced:
        columns = _engine.run_batch(one, runs, jobs)
        return {name: columns[scalar] for name, scalar in scalars.items()}
    ours: dict[str, list[float]] = defaultdict(list)
    for first in range(0, len(runs), _RUNS_AT_ONCE):
        some = runs[first : first + _RUNS_AT_ONCE]
        batch = _engine.run_batch(one, some, jobs, traces=["events", "packets"])
        for name, scalar in scalars.items():
            ours[name] += batch[scalar]
        for _, _, tables in batch["traces"]:
            traced = _traced(tables)
            for name in setup.quantities.keys() - scalars.keys():
                ours[name].append(traced.get(name, math.nan))
    return ours


def _traced(tables: Mapping[str, Mapping[str, list[Any]]]) -> dict[str, float]:
    """When the association is lost, path 1 comes back, data and heartbeats leave: first times."""
    times: dict[str, float] = {}
    events = tables["events"]
    for time_s, side, event, detail in zip(
        *(events[name] for name in ("time_s", "side", "event", "detail")), strict=True
    ):
        if side == "a" and event == "closed" and detail == "lost":
            times.setdefault("comm_lost_s", time_s)
        if side == "a" and event == "path_changed" and detail == "path 0 is active":
            times.setdefault("available_s", time_s)
    packets = tables["packets"]
    for sent_s, side, path, kind in zip(
        *(packets[name] for name in ("sent_s", "side", "path", "kind")), strict=True
    ):
        if side == "a" and kind == "heartbeat" and sent_s > BLACKOUT_S:
            times.setdefault(f"first_hb_p{path + 1}_s", sent_s)
        if side == "a" and kind == "data" and path == 0 and sent_s > RETURN_S:
            times.setdefault("first_data_p1_s", sent_s)
    return times


def _value(written: float, ours: Sequence[float], origin: float, observed_s: float) -> Value:
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
        observed_s=observed_s,
    )


def as_csv(rows: Sequence[Row]) -> str:
    """One line a row: the kernel's number, our mean, least and most, and the verdict.

    Empty where a set-up does not have the quantity.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = dict.fromkeys(name for setup in SETUPS.values() for name in setup.quantities)
    fields = ("kernel", "mean", "low", "high", "happens", "verdict")
    writer.writerow([*KEY, *(f"{name}.{field}" for name in names for field in fields)])
    for row in rows:
        cells = list(row.key.values())
        for name in names:
            value = row.values.get(name)
            if value is None:
                cells += [""] * len(fields)
                continue
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
    """How many values of each quantity have which verdict, a sentence for each set-up."""
    words = {"within": "within 10 %", "in_range": "in our 95 % range", "outside": "outside"}
    found = counts(rows)
    sentences = []
    for setup, what in SETUPS.items():
        parts = [
            f"{HEADS[name].partition(',')[0]}: "
            + ", ".join(f"{n} {words[v]}" for v, n in found[setup, name].items() if n)
            for name in what.quantities
        ]
        sentences.append(f"{what.text[0].upper()}{what.text[1:]}. {'; '.join(parts)}.")
    return sentences


def counts(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, int]]:
    """How many values have which verdict, for each quantity of each set-up."""
    verdicts: tuple[Verdict, ...] = ("within", "in_range", "outside")
    return {
        (setup, name): {
            v: sum(row.values[name].verdict == v for row in of_setup(rows, setup)) for v in verdicts
        }
        for setup in SETUPS
        for name in SETUPS[setup].quantities
    }


def of_setup(rows: Sequence[Row], setup: str) -> list[Row]:
    """The rows of one set-up."""
    return [row for row in rows if row.key["setup"] == setup]


def figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Ours and the kernel's for the same traffic, and ours over the closed form."""
    from anabranch.oracles import failover, linux_sctp_figures  # noqa: PLC0415 - they need the rows

    return {
        "linux-sctp": linux_sctp_figures.failover(),
        "linux-sctp-times": linux_sctp_figures.times(rows),
        **failover.figures(),
    }


def heartbeat_test(rows: Sequence[Row]) -> tuple[int, float]:
    """Whether the kernel's times that heartbeats decide look like draws from ours.

    If they do, the shares of ours that are below them are uniformly distributed. Number of rows,
    and p-value of the Kolmogorov-Smirnov test; NaN without such a row. The rows are those of one
    set-up, where ours differ by more than the tolerance.
    """
    tested = [(row, row.setup.tested) for row in rows]
    values = [row.values[name] for row, name in tested if name is not None]
    shares = [
        value.below
        for value in values
        if value.high - value.low > TOLERANCE * (value.kernel - value.origin)
    ]
    return len(shares), float(kstest(shares, "uniform").pvalue) if shares else math.nan


def tables(rows: Sequence[Row]) -> list[tuple[str, tuple[str, ...], list[Row]]]:
    """For each set-up its text, the heads of its table and its rows."""
    return [(setup.text, heads(name), of_setup(rows, name)) for name, setup in SETUPS.items()]


def heads(setup: str) -> tuple[str, ...]:
    """The heads of `cells`."""
    results = [
        f"{HEADS[name]}: {whose}"
        for name in SETUPS[setup].quantities
        for whose in ("Linux", "ours", "cause")
    ]
    return ("PMR", "PFMR", "RTO.Initial, ms", "RTO.Min, ms", "RTO.Max, ms", *results)


CAPTION = "Lines and dots are ours, crosses the kernel's."
"""Of the figures."""

HEADS = {
    "gap_ms": "gap, ms",
    "stalled_s": "stalled, s",
    "first_pf_s": "PF, s",
    "first_unreachable_s": "down, s",
    "p2_first_pf_s": "path 2 PF, s",
    "p2_first_unreachable_s": "path 2 down, s",
    "first_hb_p1_s": "HB 1, s",
    "first_hb_p2_s": "HB 2, s",
    "comm_lost_s": "lost, s",
    "available_s": "up again, s",
    "first_data_p1_s": "data 1, s",
}
"""Quantity -> what its columns are called."""

MEANINGS = {
    "gap_ms": "the longest time without a delivery",
    "stalled_s": "all times without a delivery that are longer than usual",
    "first_pf_s": "when path 1 became potentially failed",
    "first_unreachable_s": "when path 1 was declared inactive",
    "p2_first_pf_s": "when path 2 became potentially failed",
    "p2_first_unreachable_s": "when path 2 was declared inactive",
    "first_hb_p1_s": "the first heartbeat on path 1 after the blackout",
    "first_hb_p2_s": "the first heartbeat on path 2 after the blackout",
    "comm_lost_s": "when the association was given up",
    "available_s": "when path 1 was active again",
    "first_data_p1_s": "the first data on path 1 after its return",
}
"""Quantity -> what it is; times are those of the run."""


def shades(row: Row) -> dict[int, Verdict]:
    """The columns of a row of `cells` that verdicts are about."""
    return {KEYS + 3 * i + 1: value.verdict for i, value in enumerate(row.values.values())}


KEYS = len(SETTINGS)
"""How many of them say what a row is."""


def cells(row: Row) -> list[str]:
    """A row as text: settings, then for each quantity the kernel's number, ours and the cause."""
    texts = [row.key[name] for name in SETTINGS]
    for name, value in row.values.items():
        digits = 0 if name == "gap_ms" else 3
        texts += [_number(value.kernel, digits), _ours(value, digits), row.cause(name)]
    return texts


def _ours(value: Value, digits: int) -> str:
    if value.happens == 0:
        return "never"
    share = "" if value.happens == 1 else f", in {value.happens:.0%}"
    if f"{value.low:.{digits}f}" == f"{value.high:.{digits}f}":
        return _number(value.mean, digits)
    low, high = _number(value.low, digits), _number(value.high, digits)
    return f"{_number(value.mean, digits)} ({low} to {high}{share})"


def _number(number: float, digits: int) -> str:
    return "never" if math.isnan(number) else f"{number:.{digits}f}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
