"""How a study's runs are computed: in batches, by threads or by a cluster; a signal loses none.

One loop hands batches to workers and takes what comes back, in whatever order; one process writes
the rows. So the loop is the same for threads of this process (`workers.Threads`) and for those of a
Dask cluster (`cluster.Cluster`), and memory holds no more than the batches at work.
"""

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from anabranch._engine import RunError, Scenario
from anabranch.errors import AnabranchError, suggestion, whole
from anabranch.store import Store, cells_of, rows_of
from anabranch.studies import stopping, watch
from anabranch.studies.cluster import Cluster, connected
from anabranch.studies.plan import Plan, Run, Shard, ask_once, wanted_of
from anabranch.studies.workers import Batch, Threads, Workers
from anabranch.support import wording
from anabranch.support.progress import Status

_NOTE_SECONDS = 1.0
"""Between two looks at the interval that progress shows."""

_WAIT_SECONDS = 0.2
"""How long the loop waits for a batch before it looks for signals and new workers."""

_MOST_IN_BATCH = 5_000
"""Runs of a batch, whatever they cost: their results are in memory at the same time."""

_MOST_FAILURES = 100
"""Runs that may fail before a study is given up: the rest would fail, too."""

_log = logging.getLogger(__name__)


Progress = Callable[[Status], None]
"""Called with the state of the work when a batch is finished."""


def compute(
    scenario: Scenario,
    store: Store,
    plan: Plan,
    workers: Workers,
    *,
    progress: Progress | None = None,
    metrics: Sequence[str] = (),
) -> None:
    """Computes the runs of the plan and stores their rows.

    On Ctrl-C or SIGTERM it gives up the runs at work, saves those that are finished and lets the
    signal have its effect; the first is KeyboardInterrupt. A second one does not wait for that.

    Parameters
    ----------
    scenario
        The definition of the study.
    store
        Where finished runs are, and where rows go.
    plan
        Which runs are missing.
    workers
        Who computes them.
    progress
        Hears of the state first as the store has it, then with every batch.
    metrics
        Scalars that must exist: a wrong name ends the study with its first run. The interval of the
        first is part of the status.

    Raises
    ------
    AnabranchError
        If there is no such scalar.
    RunError
        In the end, if runs failed; all others are stored.
    """
    work = _Work(scenario, store, plan, workers, metrics)
    with _interruptible(work.cancel) as interruption:
        try:
            _log.info("%d of %d runs are finished", plan.done, plan.total)
            work.tell(progress)
            while not interruption.is_heard and work.hand_out():
                work.save()  # while the workers are busy
                work.take_in()
                work.tell(progress)
            while workers.under_way:  # what was finished when the signal came
                work.take_in()
                work.tell(progress)
        finally:
            workers.close()
            work.save()
        interruption.deliver()
    work.conclude()


def compute_fixed(
    scenario: Scenario,
    store: Store,
    wanted: Sequence[int],
    *,
    jobs: int,
    progress: Progress | None,
) -> None:
    """Computes so many runs of each cell by threads, whatever the definition asks for."""
    replications = np.array(wanted)
    plan = Plan(replications, store.finished(int(replications.max())))
    compute(scenario, store, plan, Threads(scenario, jobs, scenario.traces), progress=progress)


def compute_study(
    scenario: Scenario,
    store: Store,
    replications: int | None,
    *,
    jobs: int,
    cluster: Any = None,
    shard: Shard | None = None,
    progress: Progress | None = None,
    metrics: Sequence[str] = (),
) -> None:
    """Computes what a definition asks for, or so many replications of each cell.

    Parameters
    ----------
    replications
        Instead of the definition's replications and stopping rules.
    jobs
        Threads, or workers of a local cluster.
    cluster
        None, or as `cluster.connected` takes it.
    shard
        As for `Plan`.
    """
    if shard is not None:
        shard = whole("shard", shard[0], 1), whole("shard", shard[1], 1)
        if shard[0] > shard[1]:
            raise AnabranchError(f"the share {shard[0]}/{shard[1]} is not i/n with i from 1 to n")
    wanted, until = wanted_of(scenario)
    if replications is not None:
        wanted, until = np.full_like(wanted, replications), {}
    wanted, until = ask_once(cells_of(scenario)["scenario_hash"].to_list(), wanted, until)
    most = max([int(wanted.max()), *(stopping.looks(rule)[-1] for rule in until.values())])
    plan = Plan(wanted, store.finished(most), shard, until)
    traces = scenario.traces
    if cluster is None:
        workers: Workers = Threads(scenario, jobs, traces)
        compute(scenario, store, plan, workers, progress=progress, metrics=metrics)
        return
    with connected(cluster, jobs) as client:
        workers = Cluster(scenario, client, traces)
        compute(scenario, store, plan, workers, progress=progress, metrics=metrics)


class _Work:
    """A study under way."""

    def __init__(
        self,
        scenario: Scenario,
        store: Store,
        plan: Plan,
        workers: Workers,
        metrics: Sequence[str],
    ) -> None:
        self._scenario = scenario
        self._store = store
        self._plan = plan
        self._workers = workers
        self._metrics = [*metrics, *plan.metrics]
        self._size = 1
        self._rows: list[pl.DataFrame] = []
        self._noted = time.monotonic()
        self._failures: list[tuple[Run, str]] = []
        self._names: set[str] | None = None
        self._watch: watch.Watch | None = None
        self._note = ""
        self._is_cancelled = False
        for metric in plan.metrics if plan.is_resumed else ():
            rows = store.read([metric])
            # What no row has is "no value" in all of them, as in runs that come in.
            values = pl.col(metric) if metric in rows.columns else pl.lit(math.nan)
            plan.learn(metric, rows.select("cell", "replication", values).iter_rows())

    def cancel(self) -> None:
        """Gives up the runs at work; called from a signal's handler."""
        self._is_cancelled = True
        self._workers.cancel()

    def tell(self, progress: Progress | None) -> None:
        """Reports the state."""
        if self._watch is not None and time.monotonic() > self._noted + _NOTE_SECONDS:
            self._noted = time.monotonic()
            self._note = self._watch.text()
        if progress is not None:
            plan = self._plan
            progress(Status(plan.done, plan.total, plan.is_estimate, self._note))

    def hand_out(self) -> bool:
        """Gives work to all workers; says whether any is under way."""
        workers = self._workers
        while workers.under_way < workers.places() and (runs := self._plan.take(self._size)):
            workers.begin(runs)
        return workers.under_way > 0

    def take_in(self) -> None:
        """Takes all finished batches, if there are any soon."""
        batch = self._workers.wait(_WAIT_SECONDS)
        while batch is not None:
            self._failures += batch.failures
            if finished := len(batch):
                rate = finished / max(batch.seconds, 1e-3)
                # At most fourfold: the first runs say little about the others.
                most = min(4 * finished, _MOST_IN_BATCH)
                self._size = max(1, min(round(rate * self._workers.batch_seconds), most))
                self._keep(batch)
            if len(self._failures) > _MOST_FAILURES:
                self.conclude()
            batch = self._workers.wait(0.0)

    def _keep(self, batch: Batch) -> None:
        if self._names is None:
            self._watch = self._watched(batch.columns)
        rows = rows_of(self._scenario, batch.columns)
        cells = batch.columns["cell"].astype(np.int64)
        replications = rows["replication"].to_list()
        if self._scenario.traces:
            traces = {(cell, replication): tables for cell, replication, tables in batch.traces}
            for run in zip(cells.tolist(), replications, strict=True):
                self._store.append_traces(*run, traces.get(run, {}))
        self._rows.append(rows)
        self._plan.done += rows.height
        for metric in self._plan.metrics:
            values = batch.columns.get(metric)
            found = [math.nan] * len(cells) if values is None else values.tolist()
            self._plan.learn(metric, zip(cells.tolist(), replications, found, strict=True))
        if self._watch is not None and self._watch.metric in batch.columns:
            self._watch.add(cells, batch.columns[self._watch.metric])
        if self._names is None:
            self._names = {name for name in batch.columns if "." in name}
            self._check()

    def _watched(self, columns: Iterable[str]) -> watch.Watch | None:
        """The scalar whose interval is shown, with what the store knows of it already."""
        metric = self._metrics[0] if self._metrics else watch.usual(columns)
        if metric is None:
            return None
        found = watch.Watch(metric, self._scenario.cell_count, self._plan.level)
        if self._plan.is_resumed:
            rows = self._store.read([metric])
            if metric in rows.columns:
                found.add(rows["cell"].to_numpy(), rows[metric].to_numpy())
        return found

    def _check(self) -> None:
        """Raises unless all scalars asked for exist, in the first cell or in another kind of it."""
        names = self._names or set()
        if all(metric in names for metric in self._metrics):
            return
        others = Threads(self._scenario, 1)  # this one hears signals
        try:
            for cell in _kinds(self._scenario):
                others.begin([(cell, 0)])
            while others.under_way and not self._is_cancelled:
                if (batch := others.wait(_WAIT_SECONDS)) is not None:
                    names |= batch.columns.keys()
        finally:
            others.close()
        if self._is_cancelled:
            return
        for metric in self._metrics:
            if metric not in names:
                raise AnabranchError(f"there is no scalar `{metric}`{suggestion(metric, names)}")

    def save(self) -> None:
        """Stores the rows that have come since the last time."""
        rows, self._rows = self._rows, []
        if rows:
            self._store.append(pl.concat(rows, how="diagonal"))

    def conclude(self) -> None:
        """Raises if runs failed; says which cells are less precise than asked."""
        if short := sorted(self._plan.short):
            _log.warning(
                "%s reached the most replications of the stopping rule with an interval wider than"
                " it asks; the first is cell %d (%s)",
                wording.counted(len(short), "cell"),
                short[0],
                wording.key_text(self._scenario.cell_key(short[0]), self._axes()),
            )
        if not self._failures:
            return
        (cell, replication), reason = min(self._failures)
        reason = reason.removeprefix(f"cell {cell}, replication {replication}: ")
        key = {"seed": self._scenario.seed, **self._scenario.cell_key(cell)}
        raise RunError(
            f"{len(self._failures)} of {self._plan.total} runs failed and have no row; the first is"
            f" cell {cell}, replication {replication} ({wording.key_text(key, self._axes())}):"
            f" {reason}"
        )

    def _axes(self) -> dict[str, list[Any]]:
        return {axis["name"]: axis["values"] for axis in self._scenario.axes}


def _kinds(scenario: Scenario) -> list[int]:
    """Cells that show the first values of each axis, a few: another setting, other scalars."""
    seen: set[tuple[str, object]] = set()
    found = []
    for cell in range(min(scenario.cell_count, 10_000)):
        values = set(scenario.cell_key(cell).items())
        if not values <= seen:
            seen |= values
            found.append(cell)
        if len(found) == 32:
            break
    return found


class _Interruption:
    """A first Ctrl-C or SIGTERM that waits until it is delivered."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def is_heard(self) -> bool:
        return self.number is not None

    def deliver(self) -> None:
        """Lets the signal have its effect, if there was one."""
        if self.number is not None:
            signal.raise_signal(self.number)


@contextmanager
def _interruptible(cancel: Callable[[], None]) -> Iterator[_Interruption]:
    """While it lasts, a first Ctrl-C or SIGTERM calls `cancel` and waits until it is delivered."""
    interruption = _Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # only the main thread hears signals
        return
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(number)) not in (None, signal.SIG_IGN)
    }

    def hear(number: int, _: object) -> None:
        interruption.number = number
        restore()  # a second one does not wait
        cancel()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, hear)
    try:
        yield interruption
    finally:
        restore()
