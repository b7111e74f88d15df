"""A study's runs on the workers of a Dask cluster.

A task is a batch of runs that takes some seconds. It carries the study's definition as text and
returns columns; only this process writes rows. Dask computes the tasks of a lost worker elsewhere,
and gives up tasks that were on several workers that died. The runs of such a batch are computed
again one by one, and a run that is given up again once more, at last with nothing beside it: only
runs that kill their workers are lost.
"""

import logging
import os
import re
import signal
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anabranch import _engine
from anabranch._engine import Scenario, ScenarioError
from anabranch.errors import AnabranchError
from anabranch.studies.plan import Run
from anabranch.studies.workers import Batch, run_batch

if TYPE_CHECKING:
    from distributed import Client, Future

LOCAL = "local"
"""Instead of an address: a cluster of processes on this machine, only for this study."""

_ADDRESS = re.compile(r"([a-z]+://)?[^\s:/]+:[0-9]+|[a-z]+://\[[0-9a-fA-F:]+\]:[0-9]+")

_TASKS_A_THREAD = 3
"""Tasks at work or waiting for each thread of a worker, so that it never waits for this process."""

_CONNECT_SECONDS = 10.0
_REFRESH_SECONDS = 1.0
"""Seconds for which a known number of workers is used before it is asked again."""

_STOP_SECONDS = 0.5
"""Seconds that a stopped study waits for what its workers have finished."""

_POLL_SECONDS = 0.02

_GONE = "the Dask scheduler is gone; what is finished is kept, and the same study goes on with it"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Definition:
    """What a worker has to know about a study."""

    study: str
    """A name that no other study on the same workers has."""
    text: str
    folder: str
    """The folder to which names of files in the scenario are relative."""
    hash: str
    engine_version: str
    traces: tuple[str, ...]


class Cluster:
    """The workers of a Dask cluster; see `workers.Workers`."""

    engine = _engine.ENGINE_VERSION
    batch_runs = 1
    batch_seconds = 5.0

    def __init__(self, scenario: Scenario, client: "Client", traces: Sequence[str] = ()) -> None:
        from distributed import as_completed  # noqa: PLC0415 - slow to import

        self._client = client
        self._definition = _Definition(
            study=uuid.uuid4().hex,
            text=scenario.to_toml(),
            folder=os.getcwd(),  # noqa: PTH109 - as text
            hash=scenario.hash,
            engine_version=_engine.ENGINE_VERSION,
            traces=tuple(traces),
        )
        self._completed = as_completed(loop=client.loop, with_results=True, raise_errors=False)
        self._open: dict[Future[Batch], Sequence[Run]] = {}
        self._suspects: deque[Run] = deque()
        self._is_alone = False
        self._threads = 0
        self._counted = -1.0
        self._is_cancelled = False
        self._stop_at: float | None = None

    def places(self) -> int:
        """See `Workers`."""
        now = time.monotonic()
        if now > self._counted + _REFRESH_SECONDS:
            try:
                threads = sum(self._client.nthreads().values())
            except OSError as error:
                raise AnabranchError(_GONE) from error
            if not threads and (self._threads or self._counted < 0):
                _log.warning("the Dask cluster has no workers; waiting for some")
            self._threads, self._counted = threads, now
        return _TASKS_A_THREAD * max(self._threads, 1)

    def begin(self, runs: Sequence[Run]) -> None:
        """See `Workers`."""
        future = self._client.submit(_compute, self._definition, runs, pure=False)
        self._open[future] = runs
        self._is_alone = False
        self._completed.add(future)

    def wait(self, seconds: float) -> Batch | None:
        """See `Workers`."""
        if self._is_cancelled and self._stop_at is None:
            self._stop_at = time.monotonic() + _STOP_SECONDS
            self._tell_workers_to_stop()
        if self._suspects and not self._open and not self._is_cancelled:
            self.begin([self._suspects.popleft()])
            self._is_alone = True
        deadline = time.monotonic() + seconds
        while not self._completed.has_ready():
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS)
        future, result = next(self._completed)
        runs = self._open.pop(future)
        return result if isinstance(result, Batch) else self._failed(future, runs)

    def _failed(self, future: "Future[Batch]", runs: Sequence[Run]) -> Batch | None:
        """Handles a batch that Dask has given up: starts its runs one by one, or raises why not."""
        from distributed import KilledWorker  # noqa: PLC0415 - slow to import

        error = future.exception() if future.status == "error" else None
        if isinstance(error, AnabranchError):
            raise error
        if isinstance(error, KilledWorker):
            if len(runs) > 1:
                for run in runs:
                    self.begin([run])
                return None
            if not self._is_alone:
                self._suspects.append(runs[0])
                return None
            return Batch({}, 0.0, failures=[(runs[0], "all Dask workers that tried it died")])
        if error is None:
            raise AnabranchError(_GONE)
        raise AnabranchError(
            f"a Dask worker cannot compute runs ({type(error).__name__}: {error}); it needs"
            f" anabranch {_engine.ENGINE_VERSION}"
        )

    def _tell_workers_to_stop(self) -> None:
        self._client.run(_give_up, self._definition.study, wait=False, on_error="ignore")

    def cancel(self) -> None:
        """See `Workers`. A signal handler may not talk to the cluster, so `wait` does that."""
        self._is_cancelled = True

    @property
    def under_way(self) -> int:
        """See `Workers`."""
        is_late = self._stop_at is not None and time.monotonic() > self._stop_at
        if is_late and not self._completed.has_ready():
            return 0
        return len(self._open) + (0 if self._is_cancelled else len(self._suspects))

    def close(self) -> None:
        """See `Workers`."""
        if self._open:
            with suppress(OSError):  # if the scheduler is gone, there is nothing to give up
                self._tell_workers_to_stop()
                self._client.cancel(list(self._open))
            self._open.clear()


@contextmanager
def connected(cluster: Any, jobs: int) -> "Iterator[Client]":
    """A client of a cluster.

    Parameters
    ----------
    cluster
        A `distributed.Client`; a cluster such as `LocalCluster` or dask-jobqueue's `SLURMCluster`;
        an address, `tcp://host:port`; or `local`.
    jobs
        The number of worker processes of a local cluster.

    Raises
    ------
    AnabranchError
        If Dask is not installed, or there is no answer at the address.
    """
    try:
        import distributed  # noqa: PLC0415 - slow to import, and an extra
    except ImportError:
        raise AnabranchError(
            "Dask is not installed; pip install 'anabranch[dask]' installs it"
        ) from None
    # By default, Dask reports every connection.
    logging.getLogger("distributed").setLevel(logging.WARNING)
    with ExitStack() as stack:
        if isinstance(cluster, str) and cluster != LOCAL and not _ADDRESS.fullmatch(cluster):
            raise AnabranchError(
                f"`{cluster}` is not the address of a Dask scheduler: use tcp://HOST:PORT, or local"
            )
        if cluster == LOCAL:
            try:
                cluster = stack.enter_context(_local(jobs))
            except RuntimeError as error:
                raise AnabranchError(
                    "the processes of the local cluster do not start; a script that starts them"
                    ' needs `if __name__ == "__main__":` around its work'
                ) from error
        if isinstance(cluster, distributed.Client):
            client = cluster
        else:
            try:
                client = distributed.Client(cluster, timeout=_CONNECT_SECONDS, set_as_default=False)
            except (OSError, ValueError) as error:
                raise AnabranchError(f"no Dask scheduler answers at {cluster}") from error
            stack.enter_context(client)
        yield client


def _local(jobs: int) -> Any:
    from distributed import LocalCluster  # noqa: PLC0415 - slow to import, and an extra

    return LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        dashboard_address=":0",
        memory_limit=0,  # no limit but the engine's own
        silence_logs=logging.ERROR,
        preload=[__name__],
    )


def dask_setup(_: object) -> None:
    """Dask calls this when a worker of the local cluster starts.

    The worker ignores Ctrl-C, which the terminal sends to it as well: the study's process handles
    it. At the end the scheduler may go before a worker's heartbeat, which is no error; what is one
    comes with the result of a batch.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)


_stopped: dict[str, _engine.Cancel] = {}
"""On a worker: study -> the object that ends its runs."""


async def _give_up(study: str) -> None:
    """On a worker: ends the study's runs, and all that have not started.

    It is a coroutine because Dask would wait for the end of anything else.
    """
    _stopped.setdefault(study, _engine.Cancel()).set()


def _compute(definition: _Definition, runs: Sequence[Run]) -> Batch:
    """On a worker: computes a batch."""
    if definition.engine_version != _engine.ENGINE_VERSION:
        raise AnabranchError(
            f"a Dask worker has anabranch {_engine.ENGINE_VERSION}, this is"
            f" {definition.engine_version}: rows of different versions cannot be in one study"
        )
    cancel = _stopped.setdefault(definition.study, _engine.Cancel())
    return run_batch(_scenario(definition), runs, definition.traces, cancel)


@lru_cache(maxsize=4)
def _scenario(definition: _Definition) -> Scenario:
    try:
        scenario = Scenario.parse(definition.text, [], definition.folder)
    except ScenarioError as error:
        raise AnabranchError(f"a Dask worker cannot read the scenario: {error}") from None
    if scenario.hash != definition.hash:
        raise AnabranchError("a Dask worker has other contents in a file that the scenario names")
    return scenario
