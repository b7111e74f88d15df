"""SCTP of profile `linux` and the SCTP of Linux 6.12 when paths turn black.

The kernel was measured once for each setting, in virtual time, so what is random in it (the phase
of its timer wheel, the jitter of its heartbeats) was drawn once. Ours is drawn for each of many
replications, so the kernel's number can be compared with a mean and a range.

There are four set-ups: `black` (path 1 of two turns black), `all_black` (both do), `return` (path 1
comes back), and `hb100` (heartbeats every 100 ms). Path 1, our path 0, is the primary path. Times
count from when the path turned black, or from when it came back.
"""

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from scipy.stats import kstest

from anabranch import _engine
from anabranch._engine import Scenario
from oracles import failover, linux_sctp_figures, linux_sctp_rows
from oracles.linux_sctp_rows import (
    BLACKOUT_S,
    HEADS,
    KEY,
    RETURN_S,
    SETTINGS,
    SETUPS,
    TOLERANCE,
    Row,
    Setup,
    Value,
    Verdict,
    of_setup,
    scenario,
)

kernel_rows = linux_sctp_rows.kernel_rows

CAUSES = {
    "a": "random heartbeat times: the kernel's is one draw, ours is the mean of all",
    "b": "random heartbeat times: it happens in some runs only, or after the kernel's run ended",
}
"""What causes a deviation; docs/linux-sctp.md has the evidence."""

REPLICATIONS = 1000


def compare(
    rows: Sequence[Mapping[str, str]], replications: int = REPLICATIONS, jobs: int = 1
) -> Iterator[Row]:
    """The kernel's rows beside ours; each is yielded once computed."""
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
"""How many runs with traces are computed together, as traces are held in memory."""


def _ours_of(one: Scenario, setup: Setup, replications: int, jobs: int) -> dict[str, list[float]]:
    """Quantity -> one value for each replication; NaN if it never happens."""
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
    """When first the association is lost, path 1 comes back, data and heartbeats leave."""
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
    """One line for each row: the kernel's number, our mean, least and largest, and verdict.

    A cell is empty where a set-up does not have the quantity.
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


def figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Our times and the kernel's for the same traffic, and ours over the closed form."""
    return {
        "linux-sctp": linux_sctp_figures.failover(),
        "linux-sctp-times": linux_sctp_figures.times(rows),
        **failover.figures(),
    }


def heartbeat_test(rows: Sequence[Row]) -> tuple[int, float]:
    """Tests whether the kernel's times that heartbeats decide look like draws from ours.

    If they do, the shares of our times below them are uniformly distributed. Gives the number of
    rows and the p-value of the Kolmogorov-Smirnov test; NaN if there are no rows. Only rows of one
    set-up count whose times in our runs differ by more than the tolerance.
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
    """For each set-up its text, the heads of its table, and its rows."""
    return [(setup.text, heads(name), of_setup(rows, name)) for name, setup in SETUPS.items()]


def heads(setup: str) -> tuple[str, ...]:
    """The heads of `cells`."""
    results = [
        f"{HEADS[name]}: {whose}"
        for name in SETUPS[setup].quantities
        for whose in ("Linux", "ours", "cause")
    ]
    return ("PMR", "PFMR", "RTO.Initial, ms", "RTO.Min, ms", "RTO.Max, ms", *results)


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
