"""Who computes batches of runs: what the loop of a study asks of them, and threads that do it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anabranch import _engine
from anabranch._engine import RunError, Scenario, ScenarioError
from anabranch.studies.plan import Run


@dataclass(frozen=True)
class Batch:
    """What a batch of runs gave."""

    columns: dict[str, NDArray[np.float64]]
    """Those of `_engine.run_batch`; without runs that failed or were given up."""
    seconds: float
    """That the batch took."""
    traces: Sequence[tuple[int, int, Mapping[str, Any]]] = ()
    failures: Sequence[tuple[Run, str]] = ()
    """Runs that failed, and why."""

    def __len__(self) -> int:
        """Finished runs."""
        return len(self.columns.get("cell", ()))


class Workers(Protocol):
    """Where batches are computed."""

    @property
    def engine(self) -> str:
        """What names who computes them, in rows: those of others do not stand beside these."""

    @property
    def batch_runs(self) -> int:
        """Runs of the first batch."""

    @property
    def batch_seconds(self) -> float | None:
        """How long a later batch should take; None: all have as many runs as the first."""

    def places(self) -> int:
        """Batches that should be under way, so that no worker waits."""

    def begin(self, runs: Sequence[Run]) -> None:
        """Has a batch computed."""

    def wait(self, seconds: float) -> Batch | None:
        """The next finished batch, if there is one within so many seconds."""

    def cancel(self) -> None:
        """Gives up the runs at work; called from a signal's handler.

        `wait` gives what is finished.
        """

    @property
    def under_way(self) -> int:
        """Batches that `wait` has still to give."""

    def close(self) -> None:
        """Gives up what is under way."""


def run_batch(
    scenario: Scenario,
    runs: Sequence[Run],
    traces: Sequence[str] = (),
    cancel: _engine.Cancel | None = None,
) -> Batch:
    """Computes some runs in this thread; those that fail do not keep the others from their rows."""
    started = time.monotonic()

    def engine(some: Sequence[Run]) -> dict[str, Any]:
        return _engine.run_batch(scenario, some, 1, cancel=cancel, traces=traces)

    failures: list[tuple[Run, str]] = []
    try:
        columns = engine(runs)
    except (RunError, ScenarioError):
        # The engine names the first run that failed and keeps none of the others' results, so each
        # run is computed by itself now.
        columns, failures = _each(engine, runs)
    kept = columns.pop("traces", ())
    # A quarter of the memory that lists take, until the rows are written.
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
        if not one["cell"]:  # given up
            continue
        for name, values in one.items():
            results.setdefault(name, [np.nan] * rows).extend(values)
        rows += 1
        for name, values in results.items():
            if name != "traces" and len(values) < rows:
                values.append(np.nan)
    return results, failures


class Pool(ABC):
    """Workers that are threads of this process; how a batch is computed and given up differs."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="anabranch")
        self._results: SimpleQueue[Batch | BaseException] = SimpleQueue()
        self._under_way = 0

    @abstractmethod
    def compute(self, runs: Sequence[Run]) -> Batch:
        """Computes a batch, in one of the threads."""

    @abstractmethod
    def cancel(self) -> None:
        """See `Workers`."""

    def begin(self, runs: Sequence[Run]) -> None:
        """See `Workers`."""
        self._under_way += 1
        self._pool.submit(self._compute, runs)

    def _compute(self, runs: Sequence[Run]) -> None:
        try:
            self._results.put(self.compute(runs))
        except BaseException as error:
            self._results.put(error)

    def wait(self, seconds: float) -> Batch | None:
        """See `Workers`."""
        try:
            result = self._results.get(timeout=seconds)
        except Empty:
            return None
        self._under_way -= 1
        if isinstance(result, BaseException):
            raise result
        return result

    @property
    def under_way(self) -> int:
        """See `Workers`."""
        return self._under_way

    def close(self) -> None:
        """See `Workers`."""
        self.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)


class Threads(Pool):
    """The engine computes without Python's lock, in as many threads as there are jobs."""

    engine = _engine.ENGINE_VERSION
    batch_runs = 1
    batch_seconds = 1.0

    def __init__(self, scenario: Scenario, jobs: int, traces: Sequence[str] = ()) -> None:
        super().__init__(jobs)
        self._scenario = scenario
        self._jobs = jobs
        self._traces = traces
        self._cancel = _engine.Cancel()

    def places(self) -> int:
        """See `Workers`: another batch lies ready for each thread."""
        return 2 * self._jobs

    def compute(self, runs: Sequence[Run]) -> Batch:
        """See `Pool`."""
        return run_batch(self._scenario, runs, self._traces, self._cancel)

    def cancel(self) -> None:
        """See `Workers`."""
        self._cancel.set()
