"""What is compared: a handful of numbers from the scalars of a run, and their means."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from anabranch.bench_cc.scenarios import BenchScenario, TransferScenario
from anabranch.stats import Interval, mean_interval
from anabranch.stats.comparison import best_set
from anabranch.store import FolderStore, free_of_other_engines
from anabranch.studies import execution
from anabranch.studies.workers import Threads, Workers
from anabranch.support import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Metric:
    """One column of the comparison."""

    name: str
    head: str
    better: int
    """1 if more is better, -1 if less is, 0 if neither."""
    meaning: str
    is_shown: bool = True
    """Whether tables have it; not where it follows from another."""


METRICS = (
    Metric(
        "goodput_mbit_per_s", "goodput, Mbit/s", 1, "what arrives in order, of all tested flows"
    ),
    Metric(
        "utilisation_percent",
        "used, %",
        1,
        "goodput of tested and rival flows, of the link's rate",
        is_shown=False,
    ),
    Metric("share_percent", "share, %", 0, "the tested flow's part of both goodputs"),
    Metric("jain", "Jain index, 0-1", 1, "Jain's index of the goodputs of two flows"),
    Metric(
        "queueing_mean_ms",
        "queue mean, ms",
        -1,
        "mean delay of a probe beyond that of an empty path",
    ),
    Metric("queueing_p95_ms", "queue p95, ms", -1, "the same, exceeded by one probe in twenty"),
    Metric(
        "retransmitted_percent", "retransmitted, %", -1, "segments retransmitted, of all segments"
    ),
    Metric(
        "cov",
        "variation, std/mean",
        -1,
        "standard deviation of the goodput of each second over its mean",
    ),
)


_SEGMENTS = ("sent", "retransmitted")


def of_run(about: TransferScenario, row: Mapping[str, float]) -> dict[str, float]:
    """Every metric of one run."""
    tested = [_goodput(row, flow) for flow in about.tested]
    rivals = [_goodput(row, about.rival)] if about.rival else []
    goodputs = tested + rivals
    total = sum(goodputs)
    new, again = (
        sum(row[f"{flow}.tcp.a.data_segments_{what}"] for flow in about.tested)
        for what in _SEGMENTS
    )
    return {
        "goodput_mbit_per_s": sum(tested),
        "utilisation_percent": 100 * total / about.capacity_mbit_per_s,
        "share_percent": 100 * _ratio(sum(tested), total) if rivals else math.nan,
        "jain": jain(goodputs) if len(goodputs) > 1 else math.nan,
        "queueing_mean_ms": row["probe.mean_delay_ms"] - about.delay_ms,
        "queueing_p95_ms": row["probe.p95_delay_ms"] - about.delay_ms,
        "retransmitted_percent": 100 * _ratio(again, new + again),
        "cov": statistics.fmean(row[f"{flow}.cov"] for flow in about.tested),
    }


def _scalars(about: TransferScenario) -> list[str]:
    """The names of the scalars that `of_run` reads; they are needed before there are values."""
    flows = [*about.tested, *([about.rival] if about.rival else [])]
    return [
        *(f"{flow}.goodput_kbit_per_s" for flow in flows),
        *(f"{flow}.tcp.a.data_segments_{what}" for flow in about.tested for what in _SEGMENTS),
        *(f"{flow}.cov" for flow in about.tested),
        *("probe.mean_delay_ms", "probe.p95_delay_ms"),
    ]


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 for equal values, 1/n if one has everything."""
    return _ratio(sum(values) ** 2, len(values) * sum(value**2 for value in values))


def _goodput(row: Mapping[str, float], flow: str) -> float:
    value = row[f"{flow}.goodput_kbit_per_s"] / 1000
    # A connection that never opened has no goodput to speak of.
    return 0.0 if math.isnan(value) else value


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _threads(about: BenchScenario, jobs: int) -> Workers:
    return Threads(about.scenario, jobs, about.scenario.traces)


@dataclass(frozen=True)
class Drawn:
    """A figure that is drawn when it is needed."""

    draw: "Callable[[], Figure]"
    caption: str


@dataclass(frozen=True)
class Bench:
    """What a bench compares by which numbers, and the words in which it says so."""

    command: str
    what: str
    """What stands beside each other: a `control`."""
    title: str
    span: str
    """Which part of a run counts."""
    question: str
    asked: Mapping[str, str]
    """Metric -> the words in which the headline speaks of it."""
    metrics: tuple[Metric, ...]
    drawn: Mapping[str, tuple[str, str]]
    """Figure -> its metric, and what that is."""
    of_run: Callable[[Any, Mapping[str, float]], dict[str, float]]
    """Every metric of one run of a scenario, from its row."""
    scalars: Callable[[Any], list[str]]
    """The names of the scalars that `of_run` reads; they are needed before there are values."""
    rival: str = "CUBIC"
    """Beside what `share_percent` is measured."""
    workers: Callable[[Any, int], Workers] = _threads
    """What computes the runs of a scenario, with so many threads."""
    further: Callable[[Sequence["Cell"]], Mapping[str, Drawn]] = lambda _: {}
    """Further figures of the page, by their names."""
    parts: Callable[[Sequence["Cell"]], Mapping[str, tuple[list[str], list[list[str]]]]] = (
        lambda _: {}
    )
    """Further tables of the page by their titles: columns and lines."""


CONTROLS = Bench(
    command="bench-cc",
    what="control",
    title="Congestion controls of TCP in thirteen scenarios",
    span="from 5 s to 60 s",
    question="Which congestion control should a sender run?",
    asked={
        "goodput_mbit_per_s": "the most goodput",
        "queueing_p95_ms": "the shortest queues",
        "retransmitted_percent": "the fewest segments retransmitted",
    },
    metrics=METRICS,
    drawn={
        "goodput": ("utilisation_percent", "goodput, % of the link's rate"),
        "queueing": ("queueing_p95_ms", "queueing delay, 95 % quantile (ms)"),
        "retransmissions": ("retransmitted_percent", "segments retransmitted (%)"),
        "variation": ("cov", "coefficient of variation of the goodput of each second (1)"),
        "fairness": ("jain", "Jain's index of two flows (1: equal)"),
    },
    of_run=of_run,
    scalars=_scalars,
)


@dataclass(frozen=True)
class Cell:
    """One control in one case of one scenario."""

    scenario: BenchScenario
    case: str
    control: str
    values: Mapping[str, Interval]
    """The mean of each metric with its interval, and of what else is measured."""
    runs: Mapping[str, Sequence[float]]
    """The values of each metric, run by run; the same index in two cells means the same random
    numbers.
    """
    bench: Bench = CONTROLS


def wanted_of(about: BenchScenario, controls: Sequence[str], replications: int) -> list[int]:
    """The replications of each cell: those asked for at these controls, none elsewhere."""
    cells = {about.cell(case, control) for case in range(len(about.cases)) for control in controls}
    return [replications * (cell in cells) for cell in range(about.scenario.cell_count)]


def compute_all(
    chosen: Sequence[BenchScenario],
    names: Sequence[str],
    replications: int,
    *,
    folder: Path,
    jobs: int,
    bench: Bench,
) -> list[Cell]:
    """Computes the runs that the folder lacks; gives a cell for each scenario, case and control."""
    of_each = [[name for name in names if name in about.controls] for about in chosen]
    total = sum(
        sum(wanted_of(about, own, replications)) for about, own in zip(chosen, of_each, strict=True)
    )
    cells: list[Cell] = []
    before = done = 0
    with progress.shown(bench.command, kept=True) as shown:

        def update(of_this: int) -> None:
            nonlocal done
            done = before + of_this
            shown(progress.Status(done, total))

        for about, own in zip(chosen, of_each, strict=True):
            place = folder / about.folder
            cells += compute(
                about, own, replications, folder=place, jobs=jobs, tell=update, bench=bench
            )
            before = done
    order = list(dict.fromkeys(cell.case for cell in cells))
    return sorted(cells, key=lambda cell: (order.index(cell.case), names.index(cell.control)))


def compute(
    about: BenchScenario,
    controls: Sequence[str],
    replications: int,
    *,
    folder: Path,
    jobs: int,
    tell: Callable[[int], None],
    bench: Bench = CONTROLS,
) -> list[Cell]:
    """Computes the runs that the folder lacks; gives the cells with their metrics.

    Calls `tell` with the number of the scenario's finished runs.
    """
    wanted = wanted_of(about, controls, replications)
    free_of_other_engines(folder)
    with FolderStore(folder, about.scenario, asked=wanted) as store:
        execution.compute_fixed(
            about.scenario,
            store,
            wanted,
            workers=bench.workers(about, jobs),
            progress=lambda status: tell(status.done),
        )
        rows = store.read(bench.scalars(about)).filter(pl.col("replication") < replications)
    ordered = rows.sort("replication")
    cells = []
    for case, title in enumerate(about.cases):
        for control in controls:
            own = ordered.filter(pl.col("cell") == about.cell(case, control))
            measured = [bench.of_run(about, row) for row in own.iter_rows(named=True)]
            cells.append(cell_of(about, title, control, measured, bench))
    return cells


def cell_of(
    about: BenchScenario,
    case: str,
    control: str,
    measured: Sequence[Mapping[str, float]],
    bench: Bench,
) -> Cell:
    """The cell of these runs, of which each has every metric."""
    runs = {name: [values[name] for values in measured] for name in measured[0]}
    means = {name: mean_interval(values) for name, values in runs.items()}
    return Cell(about, case, control, means, runs, bench)


TOLERANCE = 0.01
"""A difference below this share of a mean counts as none, however narrow the intervals are."""


def is_worse(metric: Metric, value: Interval, other: Interval) -> bool:
    """Whether the mean is worse than the other by more than both intervals and the tolerance."""
    difference = metric.better * (other.mean - value.mean)
    widths = [width for width in (value.half_width, other.half_width) if not math.isnan(width)]
    return difference > max(math.hypot(*widths), TOLERANCE * abs(other.mean))


def best(cells: Sequence[Cell]) -> dict[tuple[str, str], set[str]]:
    """The controls of each case that may be the best in a metric, or are within the tolerance.

    They come from `comparison.best_set`, run by run, as the runs of a case share their random
    numbers. The set is empty where only one control is compared, or where all may be the best, as
    with a single run of each.
    """
    bests: dict[tuple[str, str], set[str]] = {}
    for case in dict.fromkeys(cell.case for cell in cells):
        rivals = [cell for cell in cells if cell.case == case]
        for metric in rivals[0].bench.metrics:
            known = [cell for cell in rivals if not math.isnan(cell.values[metric.name].mean)]
            if not metric.better or len(known) < 2:
                continue
            ranking = _ranking(known, metric)
            within = TOLERANCE * abs(ranking["mean"][0])
            names = ranking.filter(pl.col("best") | (pl.col("behind") <= within))
            if len(names) < len(known):
                bests[case, metric.name] = set(names["control"])
    return bests


def _ranking(cells: Sequence[Cell], metric: Metric) -> pl.DataFrame:
    rows = pl.concat(
        pl.DataFrame(
            {
                "control": [cell.control] * len(cell.runs[metric.name]),
                "replication": range(len(cell.runs[metric.name])),
                metric.name: [float(value) for value in cell.runs[metric.name]],
            }
        )
        for cell in cells
    )
    return best_set(rows, ["control"], metric.name, maximise=metric.better > 0)
