"""How a study's runs are computed: in batches, by threads or a cluster; signals lose no result.

One loop hands batches to workers and takes the results in any order; one process writes the rows.
So the loop is the same for threads of this process (`workers.Threads`) and for the workers of a
Dask cluster (`cluster.Cluster`), and memory holds no more than the batches in progress.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anabranch._engine import RunError, Scenario
from anabranch.errors import AnabranchError, whole
from anabranch.stats import labels
from anabranch.store import Store, cells_of, rows_of
from anabranch.studies import scalars, stopping, watch
from anabranch.studies.cluster import Cluster, connected
from anabranch.studies.plan import Plan, Run, Shard, ask_once, wanted_of
from anabranch.studies.workers import Batch, Threads, Workers
from anabranch.support import wording
from anabranch.support.columns import is_scalar
from anabranch.support.interruption import interruptible
from anabranch.support.progress import Status

_NOTE_SECONDS = 1.0
"""Seconds between two updates of the interval that progress shows."""

_WAIT_SECONDS = 0.2
"""Seconds that the loop waits for a batch before it looks for signals and new workers."""

_MOST_IN_BATCH = 5_000
"""The most runs of a batch, whatever they cost, as all their results are in memory at once."""

_MOST_VALUES = 25_000_000
"""The most scalars of all runs of a batch together, 200 MB, except that it has one run or more."""

_MUCH = 1_000_000_000
"""From this many scalars of all runs together, 8 GB, a study warns that it is large."""

_LEAST_SHARE = 1 / 20
"""Of a batch's usual size: the last ones are not smaller, as each batch has costs of its own."""

_MOST_FAILURES = 100
"""After this many failed runs a study is given up, as the others would fail, too."""

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

    On Ctrl-C or SIGTERM it gives up the runs in progress, saves the finished ones and then lets the
    signal take effect; Ctrl-C raises KeyboardInterrupt. A second signal takes effect at once.

    Parameters
    ----------
    scenario
        The definition of the study.
    store
        Where finished runs are kept, and where new rows are stored.
    plan
        Which runs are missing.
    workers
        What computes the runs.
    progress
        Called with the state that the store has at first, then after every batch.
    metrics
        Scalars that must exist: a wrong name ends the study before its first run. The status has
        the interval of the first one.

    Raises
    ------
    AnabranchError
        If there is no such scalar.
    RunError
        At the end, if runs failed; all others are stored.
    """
    scalars.check(scenario, [*metrics, *plan.metrics])
    work = _Work(scenario, store, plan, workers, metrics)
    with interruptible(work.cancel) as interruption:
        try:
            _log.info("%d of %d runs are finished", plan.done, plan.total)
            work.tell(progress)
            while not interruption.is_heard and work.hand_out():
                work.save()  # while the workers are busy
                work.take_in()
                work.tell(progress)
            while workers.under_way:  # batches that were finished when the signal came
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
    workers: Workers,
    progress: Progress | None,
) -> None:
    """Computes this many runs of each cell, whatever the definition asks for."""
    replications = np.array(wanted)
    plan = Plan(replications, store.finished(int(replications.max())))
    compute(scenario, store, plan, workers, progress=progress)


def compute_study(
    scenario: Scenario,
    store: Store,
    replications: int | None,
    *,
    jobs: int,
    cluster: Any = None,
    workers: Workers | None = None,
    shard: Shard | None = None,
    progress: Progress | None = None,
    metrics: Sequence[str] = (),
) -> None:
    """Computes what a definition asks for, or this many replications of each cell.

    Parameters
    ----------
    replications
        Overrides the definition's replications and stopping rules.
    jobs
        Threads, or workers of a local cluster.
    cluster
        None, or what `cluster.connected` takes.
    workers
        What computes the runs, instead of threads or a cluster.
    shard
        The same as for `Plan`.
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
    if workers is None and cluster is None:
        workers = Threads(scenario, jobs, traces)
    if workers is not None:
        compute(scenario, store, plan, workers, progress=progress, metrics=metrics)
        return
    with connected(cluster, jobs) as client:
        workers = Cluster(scenario, client, traces)
        compute(scenario, store, plan, workers, progress=progress, metrics=metrics)


class _Work:
    """A study in progress: hands out runs, and handles their results."""

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
        self._pace = _Pace(workers.batch_runs, workers.batch_seconds)
        self._note = _Note(scenario, store, plan, self._metrics)
        self._failures = _Failures(scenario)
        self._rows: list[pl.DataFrame] = []
        self._is_begun = False
        self._is_cancelled = False
        for metric in plan.metrics if plan.is_resumed else ():
            rows = store.read([metric])
            # A scalar that no row has counts as "no value" in all of them, as for runs that come
            # in.
            values = pl.col(metric) if metric in rows.columns else pl.lit(math.nan)
            plan.learn(metric, rows.select("cell", "replication", values).iter_rows())

    def cancel(self) -> None:
        """Gives up the runs in progress; called from a signal handler."""
        self._is_cancelled = True
        self._workers.cancel()

    def tell(self, progress: Progress | None) -> None:
        """Reports the state to `progress`; at the end with the values of all rows."""
        if progress is None:
            return
        plan = self._plan
        if plan.done >= plan.total and not plan.is_estimate:
            self.save()
            note = self._note.of_rows()
        else:
            note = self._note.text()
        progress(Status(plan.done, plan.total, plan.is_estimate, note))

    def hand_out(self) -> bool:
        """Gives work to all workers; gives whether any batch is in progress."""
        workers, plan = self._workers, self._plan
        while workers.under_way < (places := workers.places()) and (
            runs := plan.take(self._pace.batch(plan.left, places))
        ):
            workers.begin(runs)
        return workers.under_way > 0

    def take_in(self) -> None:
        """Takes all finished batches; waits a moment for the first one."""
        batch = self._workers.wait(_WAIT_SECONDS)
        while batch is not None:
            self._failures.add(batch.failures)
            if finished := len(batch):
                self._pace.learn(finished, batch.seconds, len(batch.columns))
                self._keep(batch)
            if len(self._failures) > _MOST_FAILURES:
                self.conclude()
            batch = self._workers.wait(0.0)

    def _keep(self, batch: Batch) -> None:
        rows = rows_of(self._scenario, batch.columns)
        cells = batch.columns["cell"].astype(np.int64)
        replications = rows["replication"].to_list()
        self._note.hear(cells, batch.columns)
        if self._scenario.traces:
            traces = {(cell, replication): tables for cell, replication, tables in batch.traces}
            for run in zip(cells.tolist(), replications, strict=True):
                self._store.append_traces(*run, traces.get(run, {}))
        self._rows.append(rows)
        self._plan.done += rows.height
        for metric in self._plan.metrics:
            column = batch.columns.get(metric)
            values = [math.nan] * len(cells) if column is None else column.tolist()
            self._plan.learn(metric, zip(cells.tolist(), replications, values, strict=True))
        if not self._is_begun:
            self._is_begun = True
            names = [name for name in batch.columns if is_scalar(name)]
            self._warn_of_size(len(names))

    def _warn_of_size(self, scalars: int) -> None:
        if scalars * self._plan.total > _MUCH:
            _log.warning(
                "each of %s has %s scalars, %s GB in all before they are compressed;"
                " `sweep.metrics` keeps only those that you need",
                wording.counted(self._plan.total, "run"),
                f"{scalars:,}",
                f"{8e-9 * scalars * self._plan.total:,.0f}",
            )

    def save(self) -> None:
        """Stores the rows that have come since the last time."""
        rows, self._rows = self._rows, []
        if rows:
            self._store.append(pl.concat(rows, how="diagonal"))

    def conclude(self) -> None:
        """Raises if runs failed; warns of cells that are less precise than asked."""
        if short := sorted(self._plan.short):
            _log.warning(
                "%s reached the most replications of the stopping rule with an interval wider than"
                " it asks; the first is cell %d (%s)",
                wording.counted(len(short), "cell"),
                short[0],
                _place(self._scenario, self._scenario.cell_key(short[0])),
            )
        self._failures.conclude(self._plan.total)


class _Pace:
    """Chooses how many runs a batch has, from the time that the last ones took."""

    def __init__(self, size: int, batch_seconds: float | None) -> None:
        self._batch_seconds = batch_seconds
        self._size = size

    def batch(self, left: int, places: int) -> int:
        """How many runs the next batch has.

        Where few are left to hand out, it has its share of those, so that all workers are busy
        until the end, unless all batches have the same size.
        """
        if self._batch_seconds is None:
            return self._size
        share = max(math.ceil(left / places), math.ceil(self._size * _LEAST_SHARE))
        return min(self._size, share)

    def learn(self, finished: int, seconds: float, columns: int) -> None:
        """Takes into account that so many runs took so many seconds and gave so many columns."""
        if self._batch_seconds is None:
            return
        rate = finished / max(seconds, 1e-3)
        # At most fourfold, as the first runs say little about the others.
        most = min(4 * finished, _MOST_IN_BATCH, _MOST_VALUES // columns)
        self._size = max(1, min(round(rate * self._batch_seconds), most))


class _Note:
    """The interval of a scalar that the progress line shows."""

    def __init__(
        self, scenario: Scenario, store: Store, plan: Plan, metrics: Sequence[str]
    ) -> None:
        self._scenario = scenario
        self._store = store
        self._plan = plan
        self._metric = metrics[0] if metrics else None
        self._watch: watch.Watch | None = None
        self._is_begun = False
        self._written = time.monotonic()
        self._text = ""

    def hear(self, cells: NDArray[np.int64], columns: Mapping[str, NDArray[np.float64]]) -> None:
        """Adds the values of a batch, with the cells of its runs."""
        if not self._is_begun:
            self._is_begun = True
            self._watch = self._begin(columns)
        if self._watch is not None and self._watch.metric in columns:
            self._watch.add(cells, columns[self._watch.metric])

    def _begin(self, columns: Iterable[str]) -> watch.Watch | None:
        """A watch that already has the values in the store."""
        metric = watch.usual(columns) if self._metric is None else self._metric
        if metric is None:
            return None
        begun = watch.Watch(metric, self._scenario.cell_count, self._plan.level)
        if self._plan.is_resumed:
            _add(begun, self._store.read([metric]))
        return begun

    def of_rows(self) -> str:
        """The interval of all rows in the store, among which equal cells have one run each."""
        metric = self._metric if self._watch is None else self._watch.metric
        rows = self._store.read(watch.USUAL if metric is None else [metric])
        metric = metric or watch.usual(rows.columns)
        if metric is None:
            return ""
        watched = watch.Watch(metric, self._scenario.cell_count, self._plan.level)
        _add(watched, rows)
        return watched.text()

    def text(self) -> str:
        """The interval, at most a moment old."""
        if self._watch is not None and time.monotonic() > self._written + _NOTE_SECONDS:
            self._written = time.monotonic()
            self._text = self._watch.text()
        return self._text


def _add(watched: watch.Watch, rows: pl.DataFrame) -> None:
    """Adds the values of a study's rows, if they have any."""
    if watched.metric in rows.columns:
        watched.add(rows["cell"].to_numpy(), rows[watched.metric].to_numpy())


class _Failures:
    """The runs that failed, with the reasons."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._runs: list[tuple[Run, str]] = []

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, runs: Iterable[tuple[Run, str]]) -> None:
        """Adds the failures of a batch."""
        self._runs += runs

    def conclude(self, total: int) -> None:
        """Raises if runs failed; `total` is the number of all runs."""
        if not self._runs:
            return
        (cell, replication), reason = min(self._runs)
        reason = reason.removeprefix(f"cell {cell}, replication {replication}: ")
        key = {"seed": self._scenario.seed, **self._scenario.cell_key(cell)}
        place = _place(self._scenario, key)
        raise RunError(
            f"{len(self._runs)} of {total} runs failed and have no row; the first is"
            f" cell {cell}, replication {replication} ({place}): {reason}"
        )


def _place(scenario: Scenario, key: Mapping[str, Any]) -> str:
    return labels.key_text(key, labels.of_values({}, scenario.axes))
