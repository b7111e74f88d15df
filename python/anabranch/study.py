"""Runs and studies from Python: scenarios in, Polars frames out."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

import polars as pl

from anabranch import _engine, stats
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.store import FolderStore, MemoryStore, Run, Store, read, rows_of

Value = str | float | bool
"""A value for `set`; text as the scenario file would have it, without quotes."""

Progress = Callable[[int, int], None]
"""Called with the number of finished runs and of all runs."""

_BATCH_SECONDS = 1.0
"""How long a batch should take: progress is shown, rows saved and Ctrl-C heard between batches."""

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

MOST_RUNS = 100_000_000
"""Runs that one study may have: their list is kept in memory."""

MOST_JOBS = 1024
"""Threads that a study may have: more than cores only cost memory."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one run gave."""

    scenario: Scenario
    seed: int
    cell: int
    replication: int
    summary: dict[str, float]
    """Every scalar by name, `call.mos`; the unit is last in the name, NaN is "no value"."""
    traces: dict[str, pl.DataFrame] = field(default_factory=dict)
    """`frames`, `intervals`, `exchanges`, `packets`, `paths`, `queues` and `events`; empty unless
    asked for."""


def load(source: str | Path, set: Mapping[str, Value] | None = None) -> Scenario:  # noqa: A002 - as `--set`
    """Reads a scenario from a file or from TOML text (text has more than one line, a path has one).

    Parameters
    ----------
    source
        Path or text.
    set
        Values to change, by dotted path: `{"flows.call.transport.rto_max": "0.1 s"}`.

    Raises
    ------
    ScenarioError
        One sentence: the key, what was found, what is allowed.
    """
    sets = [(path, _as_text(value)) for path, value in (set or {}).items()]
    if isinstance(source, str) and "\n" in source:
        return Scenario.parse(source, sets)
    return Scenario.load(str(source), sets)


def run(
    scenario: Scenario | str | Path,
    *,
    seed: int | None = None,
    replication: int = 0,
    set: Mapping[str, Value] | None = None,  # noqa: A002 - as `--set`
    cell: int = 0,
    trace: bool = False,
) -> Result:
    """Runs a scenario once.

    Parameters
    ----------
    scenario
        A loaded scenario, a path or TOML text.
    seed
        Instead of the scenario's.
    replication
        Which of the independent repetitions.
    set
        Values to change, by dotted path; only with a path or text.
    cell
        Which cell of the scenario's sweep.
    trace
        Whether to record traces; never changes the summary.
    """
    scenario = _loaded(scenario, set)
    result = _engine.run(scenario, cell, seed, replication, trace)
    return Result(
        scenario=scenario,
        seed=scenario.seed if seed is None else seed,
        cell=cell,
        replication=replication,
        summary=result["summary"],
        traces={name: pl.DataFrame(columns) for name, columns in result["traces"].items()},
    )


class Study:
    """All cells of a scenario's sweep, each replicated.

    Parameters
    ----------
    scenario
        A loaded scenario, a path or TOML text.
    out
        A folder for the rows: finished runs in it are not computed again. Without it, rows are kept
        in memory.
    set
        Values to change, by dotted path; only with a path or text.
    replications
        Runs of each cell, instead of what the sweep asks for.
    jobs
        Threads; all cores if not given. Never changes a result.

    Examples
    --------
    >>> study = Study("scenarios/rto-sweep.toml", replications=20)
    >>> study.run(progress=print)
    >>> study.cells("call.mos")
    """

    def __init__(
        self,
        scenario: Scenario | str | Path,
        out: str | Path | None = None,
        *,
        set: Mapping[str, Value] | None = None,  # noqa: A002 - as `--set`
        replications: int | None = None,
        jobs: int | None = None,
    ) -> None:
        self.scenario = _loaded(scenario, set)
        self.out = None if out is None else Path(out)
        self.replications = self.scenario.replications if replications is None else replications
        self.jobs = threads(jobs)
        if self.replications < 1:
            raise AnabranchError(f"replications is {self.replications}; it must be at least 1")
        if self.total > MOST_RUNS:
            raise AnabranchError(
                f"the study has {self.total:,} runs; at most {MOST_RUNS:,} are allowed"
            )
        self._memory = MemoryStore()

    @property
    def axes(self) -> list[str]:
        """The names of the sweep's axes, which are columns of `frame()`."""
        return [axis["name"] for axis in self.scenario.axes]

    @property
    def total(self) -> int:
        """How many runs the study has."""
        return self.scenario.cell_count * self.replications

    def run(self, progress: Progress | None = None) -> None:
        """Computes the runs that are not finished yet.

        On Ctrl-C it saves what is finished, then raises KeyboardInterrupt.
        """
        # All cells once, then all cells again: a sweep that is stopped early covers everything.
        runs = [
            (cell, replication)
            for replication in range(self.replications)
            for cell in range(self.scenario.cell_count)
        ]
        with self._store() as store:
            compute(self.scenario, store, runs, self.jobs, progress)

    def frame(self) -> pl.DataFrame:
        """One row for each finished run of this study, sorted by cell and replication.

        Its columns: cell, replication, seed, the axes, every scalar by name, engine_version,
        scenario_hash. Equal to the bit however the work was split, stopped and continued.
        """
        rows = self._memory.frame() if self.out is None else read(self.out, self.scenario)
        return rows.filter(pl.col("replication") < self.replications)

    def cells(self, metric: str, level: float = 0.95) -> pl.DataFrame:
        """Mean of a scalar in each cell: cell, the axes, mean, half_width of its interval, n."""
        rows = self.frame()
        if metric not in rows.columns:
            message = f"there is no scalar `{metric}`{_suggestion(metric, rows.columns)}"
            raise AnabranchError(message)
        by = ["cell", *self.axes]
        return stats.cells(rows, by, metric, level)

    @contextmanager
    def _store(self) -> Iterator[Store]:
        if self.out is None:
            yield self._memory
        else:
            with FolderStore(self.out, self.scenario) as store:
                yield store


def threads(jobs: int | None) -> int:
    """The number of threads that `jobs` asks for; all cores if it is None."""
    count = (os.cpu_count() or 1) if jobs is None else jobs
    if not 1 <= count <= MOST_JOBS:
        raise AnabranchError(f"jobs is {count}; it must be from 1 to {MOST_JOBS}")
    return count


def compute(
    scenario: Scenario, store: Store, runs: Sequence[Run], jobs: int, progress: Progress | None
) -> None:
    """Computes those of the runs that the store lacks, batch by batch.

    `progress` hears of the runs that are finished and of all of them, first of those found in the
    store. On Ctrl-C or SIGTERM it saves what is finished, then lets the signal have its effect; the
    first is KeyboardInterrupt. A second one does not wait for the batch at work.
    """
    with _interruptible() as deliver:
        finished = store.finished()
        missing = [run for run in runs if run not in finished]
        done = len(runs) - len(missing)
        _log.info("%d of %d runs are finished", done, len(runs))
        if progress:
            progress(done, len(runs))
        deliver()
        for batch in _batches(missing, jobs):
            store.append(rows_of(scenario, _hearing(_engine.run_batch, scenario, batch, jobs)))
            done += len(batch)
            if progress:
                progress(done, len(runs))
            deliver()


def _loaded(scenario: Scenario | str | Path, sets: Mapping[str, Value] | None) -> Scenario:
    if not isinstance(scenario, Scenario):
        return load(scenario, sets)
    if sets:
        raise AnabranchError("`set` needs a path or TOML text: this scenario is already loaded")
    return scenario


def _as_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _batches(runs: Sequence[Run], jobs: int) -> Iterator[Sequence[Run]]:
    """Cuts the work so that a batch takes about a second, whatever a run costs."""
    start, size = 0, jobs
    while start < len(runs):
        started = time.monotonic()
        yield runs[start : start + size]
        start += size
        seconds = max(time.monotonic() - started, 1e-3)
        # At most fourfold: the first runs say little about the others.
        size = max(jobs, min(round(size * _BATCH_SECONDS / seconds), 4 * size))


@contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """While it lasts, a first Ctrl-C or SIGTERM waits until the given function is called."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # only the main thread hears signals
        return
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(number)) not in (None, signal.SIG_IGN)
    }
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        heard.append(number)
        restore()  # a second one does not wait

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def deliver() -> None:
        if heard:
            restore()
            signal.raise_signal(heard[0])

    for number in before:
        signal.signal(number, hear)
    try:
        yield deliver
    finally:
        restore()


def _hearing(work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
    """Does the work in another thread, so that this one hears signals meanwhile."""
    results: list[T] = []
    errors: list[BaseException] = []

    def do() -> None:
        try:
            results.append(work(*arguments, **keywords))
        except BaseException as error:
            errors.append(error)

    # A daemon: when a second Ctrl-C ends the process, nobody waits for the batch.
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _suggestion(name: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for a message

    close = get_close_matches(name, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""
