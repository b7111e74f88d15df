"""Workers compute batches of runs: the interface that a study's loop uses, and threads."""

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anabranch import _engine
from anabranch._engine import RunError, Scenario, ScenarioError
from anabranch.errors import AnabranchError
from anabranch.plugins import watchdog
from anabranch.studies.plan import Run

_CANCEL_AGAIN_SECONDS = 0.2
"""Seconds that `close` waits for batches before it gives up what has begun since."""


@dataclass(frozen=True)
class Batch:
    """The result of a batch of runs."""

    columns: dict[str, NDArray[np.float64]]
    """The columns of `_engine.run_batch`, without runs that failed or were given up."""
    seconds: float
    """Seconds that the batch took."""
    traces: Sequence[tuple[int, int, Mapping[str, Any]]] = ()
    failures: Sequence[tuple[Run, str]] = ()
    """The runs that failed, each with its reason."""

    def __len__(self) -> int:
        """The number of finished runs."""
        return len(self.columns.get("cell", ()))


class Workers(Protocol):
    """Where batches are computed."""

    @property
    def engine(self) -> str:
        """The name of the engine in rows; rows of other engines cannot be combined with these."""

    @property
    def batch_runs(self) -> int:
        """The number of runs in the first batch."""

    @property
    def batch_seconds(self) -> float | None:
        """Seconds that a later batch should take; None if all have as many runs as the first."""

    def places(self) -> int:
        """How many batches should be in progress so that no worker waits."""

    def begin(self, runs: Sequence[Run]) -> None:
        """Starts to compute a batch."""

    def wait(self, seconds: float) -> Batch | None:
        """The next finished batch; None if there is none within this many seconds."""

    def cancel(self) -> None:
        """Gives up the runs in progress; called from a signal handler.

        `wait` then gives what is finished.
        """

    @property
    def under_way(self) -> int:
        """The number of batches that `wait` still has to give."""

    def close(self) -> None:
        """Gives up all batches in progress."""


def run_batch(
    scenario: Scenario,
    runs: Sequence[Run],
    traces: Sequence[str] = (),
    cancel: _engine.Cancel | None = None,
) -> Batch:
    """Computes some runs in this thread; runs that fail do not affect the rows of the others."""
    started = time.monotonic()

    def engine(some: Sequence[Run]) -> dict[str, Any]:
        return _engine.run_batch(scenario, some, 1, cancel=cancel, traces=traces)

    failures: list[tuple[Run, str]] = []
    try:
        columns = engine(runs)
    except (RunError, ScenarioError):
        # The engine names the first run that failed and keeps no result of the others, so each run
        # is computed separately now.
        columns, failures = _each(engine, runs)
    kept = columns.pop("traces", ())
    # Arrays take a quarter of the memory of lists until the rows are written.
    arrays = {name: np.asarray(values, dtype=float) for name, values in columns.items()}
    return Batch(arrays, time.monotonic() - started, kept, failures)


def _each(
    engine: Callable[[Sequence[Run]], dict[str, Any]], runs: Sequence[Run]
) -> tuple[dict[str, Any], list[tuple[Run, str]]]:
    results: dict[str, Any] = {}
    failures, rows = [], 0
    for run in runs:
        try:
            one = engine([run])
        except (RunError, ScenarioError) as error:
            failures.append((run, str(error)))
            continue
        results.setdefault("traces", []).extend(one.pop("traces", ()))
        if not one["cell"]:  # the run was given up
            continue
        for name, values in one.items():
            results.setdefault(name, [np.nan] * rows).extend(values)
        rows += 1
        for name, values in results.items():
            if name != "traces" and len(values) < rows:
                values.append(np.nan)
    return results, failures


class Pool(ABC):
    """Workers that are threads of this process; subclasses compute and give up batches."""

    def __init__(self, threads: int) -> None:
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix="anabranch")
        self._process = os.getpid()
        self._begun: set[futures.Future[None]] = set()
        self._results: SimpleQueue[Batch | BaseException] = SimpleQueue()
        self._under_way = 0

    @abstractmethod
    def compute(self, runs: Sequence[Run]) -> Batch:
        """Computes a batch; called in one of the threads."""

    @abstractmethod
    def cancel(self) -> None:
        """See `Workers`; may be called again, for what has begun since."""

    def begin(self, runs: Sequence[Run]) -> None:
        """See `Workers`."""
        self._under_way += 1
        future = self._pool.submit(self._compute, runs)
        self._begun.add(future)
        future.add_done_callback(self._begun.discard)

    def _compute(self, runs: Sequence[Run]) -> None:
        try:
            self._results.put(self.compute(runs))
        except BaseException as error:
            self._results.put(error)

    def wait(self, seconds: float) -> Batch | None:
        """See `Workers`."""
        self._check_process()
        try:
            result = self._results.get(timeout=seconds)
        except Empty:
            return None
        self._under_way -= 1
        if isinstance(result, BaseException):
            raise result
        return result

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise AnabranchError(
                f"the study belongs to the process {self._process}, which this one was forked from;"
                " its threads are not in this one"
            )

    @property
    def under_way(self) -> int:
        """See `Workers`."""
        return self._under_way

    def close(self) -> None:
        """See `Workers`."""
        if self._process != os.getpid():
            return
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.cancel()
        while futures.wait(self._begun.copy(), _CANCEL_AGAIN_SECONDS).not_done:
            self.cancel()


class Threads(Pool):
    """Threads, as many as there are jobs, in which the engine computes without Python's lock."""

    engine = _engine.ENGINE_VERSION
    batch_runs = 1
    batch_seconds = 1.0

    def __init__(self, scenario: Scenario, jobs: int, traces: Sequence[str] = ()) -> None:
        super().__init__(jobs)
        self._scenario = scenario
        self._jobs = jobs
        self._traces = traces
        self._cancel = _engine.Cancel()
        self._is_cancelled = False
        self._numbers: set[int] = set()  # Python's, of the threads

    def places(self) -> int:
        """See `Workers`: for each thread, a further batch waits."""
        return 2 * self._jobs

    def compute(self, runs: Sequence[Run]) -> Batch:
        """See `Pool`."""
        self._numbers.add(threading.get_ident())
        return run_batch(self._scenario, runs, self._traces, self._cancel)

    def wait(self, seconds: float) -> Batch | None:
        """See `Workers`."""
        if self._is_cancelled:
            self.cancel()
        return super().wait(seconds)

    def cancel(self) -> None:
        """See `Workers`."""
        self._is_cancelled = True
        self._cancel.set()
        # The engine asks between many events; a hook that does not return would let it wait, also
        # one that begins only after this.
        watchdog.interrupt(self._numbers)
