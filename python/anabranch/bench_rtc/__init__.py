"""A bench for congestion controls of media: the test cases of RFC 8867 and of RFC 8869 with wires.

Capacities that change, calls that come and go, unequal round-trip times, TCP beside them, feedback
on a congested way, priorities, queues that mark, two bottlenecks, and a Wi-Fi before a wired
bottleneck; the measures are those of RFC 8868.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from anabranch import bench_cc
from anabranch.bench_cc import measures as shared
from anabranch.bench_cc import scenarios as of_transfers
from anabranch.bench_cc.files import Files
from anabranch.bench_cc.measures import Bench, Cell, Drawn
from anabranch.bench_rtc import measures, periods, scenarios
from anabranch.bench_rtc.runs import Measured
from anabranch.bench_rtc.scenarios import MediaScenario
from anabranch.errors import whole
from anabranch.support import cores

__all__ = ["MEDIA", "bench", "compare"]

REPLICATIONS = 10
"""Default replications of each cell."""

_PROFILE = "rtp"
"""Stands for the profile of TCP in files of results."""


def _of_run(about: MediaScenario, row: Mapping[str, float]) -> dict[str, float]:
    # The cases of a scenario have the same flows and periods.
    return measures.of_run(about.courses[0], row)


def _scalars(about: MediaScenario) -> list[str]:
    return measures.scalars(about.courses[0])


def _timelines(cells: Sequence[Cell]) -> Mapping[str, Drawn]:
    from anabranch.bench_rtc import figures  # noqa: PLC0415 - slow to import

    return figures.of(cells)


MEDIA = Bench(
    command="bench-rtc",
    what="control",
    title="Congestion controls of media in the test cases of RFC 8867 and RFC 8869",
    span="while there is media",
    question="Which congestion control should a call use?",
    asked={
        "goodput_mbit_per_s": "the most goodput",
        "frame_delay_p95_ms": "the shortest delay of frames",
        "frozen_percent": "the least time in freezes",
    },
    metrics=measures.METRICS,
    drawn={
        "goodput": ("goodput_mbit_per_s", "goodput of all calls (Mbit/s)"),
        "queueing": ("queueing_p95_ms", "queueing delay, 95 % quantile (ms)"),
        "loss": ("loss_percent", "packets of media lost (%)"),
        "frame-delay": ("frame_delay_p95_ms", "delay of frames, 95 % quantile (ms)"),
        "freezes": ("frozen_percent", "time in freezes (%)"),
        "fairness": ("jain", "Jain's index of the calls (1: equal)"),
        "convergence": ("convergence_s", "time until the rate has converged (s)"),
    },
    of_run=_of_run,
    scalars=_scalars,
    rival="TCP",
    workers=Measured,
    further=_timelines,
    parts=periods.tables,
)
"""What is compared, and in which words."""


def compare(
    controls: Sequence[str],
    out: Path,
    *,
    only: Sequence[str] = (),
    replications: int = REPLICATIONS,
    jobs: int | None = None,
) -> list[Cell]:
    """Runs what the folder `out` lacks; gives a cell for each test case and control.

    Parameters
    ----------
    controls
        Names of congestion controls of media, `all`, or classes of Python, `mine.py:Mine`.
    out
        Where the studies are kept.
    only
        Names of scenarios or sections, `5.1`; all of them if empty.
    replications
        Runs of each cell.
    jobs
        Threads; all cores if not given. Never changes a result.
    """
    names = of_transfers.chosen(tuple(controls), scenarios.controls())
    threads = cores.threads(jobs)
    replications = whole("replications", replications, 1)
    chosen = scenarios.load(tuple(only), names)
    return shared.compute_all(
        chosen, names, replications, folder=out / "studies", jobs=threads, bench=MEDIA
    )


def bench(
    controls: Sequence[str],
    console: Console,
    files: Files,
    *,
    only: Sequence[str] = (),
    replications: int = REPLICATIONS,
    jobs: int | None = None,
) -> int:
    """Compares, prints the table, and writes the page with its figures and the files asked for.

    Returns
    -------
    The exit code: 1 if a check failed.
    """
    names = of_transfers.chosen(tuple(controls), scenarios.controls())
    files.check()
    cases = [case for about in scenarios.load(tuple(only)) for case in about.cases]
    baseline = files.compared(
        MEDIA, _PROFILE, replications, [(case, name) for case in cases for name in names]
    )
    cells = compare(controls, files.out, only=only, replications=replications, jobs=jobs)
    return bench_cc.conclude(cells, baseline, console, files, _PROFILE)
