"""Scenarios on the kernel's own stacks: flows are sockets, links are emulated, in real time.

>>> from anabranch.emulate import testbed
>>> result = testbed.run("scenarios/tcp-wan.toml", trace=True)
>>> result.summary["bulk.goodput_kbit_per_s"], testbed.release()

What a scenario gives is what `anabranch.run` gives, by the same names.
"""

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import polars as pl

from anabranch import _engine
from anabranch._engine import Scenario, ScenarioError
from anabranch.errors import AnabranchError, LiveError, Named, whole
from anabranch.studies.plan import Run
from anabranch.studies.result import MOST_NUMBER, Result, Value, loaded
from anabranch.studies.workers import Batch
from anabranch.virtual import run_in_kernel

from .emulator import serve_first

INTERVALS_MS = (10, 1000)
"""How often connections may be asked for their state, in ms."""

_LOOK_EVERY = 0.02
"""Seconds."""


def run(
    scenario: Scenario | str | Path,
    *,
    seed: int | None = None,
    replication: int = 0,
    set: Mapping[str, Value] | None = None,  # noqa: A002 - as `--set`
    cell: int = 0,
    trace: bool = False,
    pcap: str | Path | None = None,
    interval_ms: int = 20,
) -> Result:
    """Runs a scenario once on this machine's kernel; it takes as long as the scenario does.

    Parameters
    ----------
    scenario
        A loaded scenario, a path or TOML text.
    seed
        Instead of the scenario's: losses, cross traffic and what applications draw follow from it.
    replication
        Which of the independent repetitions.
    set
        Values to change, by dotted path; only with a path or text.
    cell
        Which cell of the scenario's sweep.
    trace
        Whether to record traces: all that a simulated run has but packets.
    pcap
        Where to write what the nodes send and receive (pcapng).
    interval_ms
        How often the kernel is asked for the state of its connections, which `paths` has.

    Raises
    ------
    ScenarioError
        The scenario is wrong, or asks for what no kernel has.
    LiveError
        The system does not permit what it takes, or this kernel does not have it.
    """
    scenario = loaded(scenario, set)
    seed = scenario.seed if seed is None else whole("seed", seed, 0, MOST_NUMBER)
    replication = whole("replication", replication, 0, MOST_NUMBER)
    cell = whole("cell", cell, 0)
    interval_ms = whole("interval_ms", interval_ms, *INTERVALS_MS)
    _check_system()
    capture = None if pcap is None else os.fspath(pcap)
    bed = _engine.Testbed(scenario, cell, seed, replication, trace, interval_ms, capture)
    result = _waited(bed, Event())
    return Result(
        scenario=scenario,
        seed=seed,
        cell=cell,
        replication=replication,
        summary=Named("scalar", result["summary"]),
        traces=Named(
            "trace",
            {name: pl.DataFrame(columns) for name, columns in result["traces"].items()},
            "the run kept no traces: run it with `trace=True`",
        ),
    )


def _waited(bed: _engine.Testbed, cancelled: Event) -> Any:
    """What a run gives at its end, or when it is cancelled."""
    serve_first(bed.thread_id)
    try:
        while not bed.is_over() and not cancelled.is_set():
            time.sleep(_LOOK_EVERY)
    except BaseException:
        bed.finish()
        raise
    return bed.finish()


class Kernel:
    """The worker of a study whose runs are on this kernel, one after another; see `Workers`."""

    batch_seconds = 0.0

    def __init__(self, scenario: Scenario, interval_ms: int = 20) -> None:
        _check_system()
        self._scenario = scenario
        self._interval_ms = whole("interval_ms", interval_ms, *INTERVALS_MS)
        self._cancelled = Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="testbed")
        self._under_way: list[Future[Batch]] = []

    @property
    def engine(self) -> str:
        """See `Workers`."""
        return f"{_engine.ENGINE_VERSION} on Linux {release()}"

    def places(self) -> int:
        """See `Workers`: two runs at a time would be in each other's way."""
        return 1

    def begin(self, runs: Sequence[Run]) -> None:
        """See `Workers`."""
        self._under_way.append(self._thread.submit(self._batch, runs))

    def _batch(self, runs: Sequence[Run]) -> Batch:
        started = time.monotonic()
        tables = self._scenario.traces
        rows: list[tuple[Run, dict[str, float]]] = []
        traces, failures = [], []
        for cell, replication in runs:
            setup = (cell, self._scenario.seed, replication, bool(tables), self._interval_ms, None)
            try:
                found = _waited(_engine.Testbed(self._scenario, *setup), self._cancelled)
            except (LiveError, ScenarioError) as error:
                failures.append(((cell, replication), str(error)))
                continue
            if self._cancelled.is_set():
                break
            rows.append(((cell, replication), found["summary"]))
            traces.append((cell, replication, {name: found["traces"][name] for name in tables}))
        return _batch_of(rows, time.monotonic() - started, traces, failures)

    def wait(self, seconds: float) -> Batch | None:
        """See `Workers`."""
        if not wait(self._under_way[:1], timeout=seconds).done:
            return None
        return self._under_way.pop(0).result()

    def cancel(self) -> None:
        """See `Workers`."""
        self._cancelled.set()

    @property
    def under_way(self) -> int:
        """See `Workers`."""
        return len(self._under_way)

    def close(self) -> None:
        """See `Workers`."""
        self.cancel()
        self._thread.shutdown()


class VirtualKernel:
    """The worker of a study whose runs are in virtual kernels, one for each; see `Workers`.

    The same run gives the same bytes again: what a kernel draws follows from the scenario's seed
    and the replication.
    """

    batch_seconds = 0.0

    def __init__(self, scenario: Scenario, interval_ms: int = 20, jobs: int = 1) -> None:
        self._scenario = scenario
        self._interval_ms = whole("interval_ms", interval_ms, *INTERVALS_MS)
        self._release = virtual_release()
        self._cancelled = Event()
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="virtual")
        self._jobs = jobs
        self._under_way: list[Future[Batch]] = []

    @property
    def engine(self) -> str:
        """See `Workers`."""
        return f"{_engine.ENGINE_VERSION} on Linux {self._release} in virtual time"

    def places(self) -> int:
        """See `Workers`."""
        return self._jobs

    def begin(self, runs: Sequence[Run]) -> None:
        """See `Workers`."""
        self._under_way.append(self._threads.submit(self._batch, runs))

    def _batch(self, runs: Sequence[Run]) -> Batch:
        started = time.monotonic()
        rows: list[tuple[Run, dict[str, float]]] = []
        traces, failures = [], []
        for cell, replication in runs:
            if self._cancelled.is_set():
                break
            try:
                summary, tables = self._run(cell, replication)
            except AnabranchError as error:
                failures.append(((cell, replication), str(error)))
                continue
            rows.append(((cell, replication), summary))
            traces.append((cell, replication, tables))
        return _batch_of(rows, time.monotonic() - started, traces, failures)

    def _run(self, cell: int, replication: int) -> tuple[dict[str, float], dict[str, Any]]:
        """The scalars, and the traces that the scenario wants kept."""
        wanted, seed = self._scenario.traces, self._scenario.seed
        with tempfile.TemporaryDirectory(prefix="anabranch-testbed-") as base:
            folder = Path(base)
            (folder / "scenario.toml").write_text(self._scenario.cell_toml(cell))
            words: list[object] = ["scenario.toml", "--json", "result.json", "--quiet"]
            words += ["--seed", seed, "--replication", replication]
            words += ["--interval", self._interval_ms, *(["--trace", "traces"] if wanted else [])]
            done = run_in_kernel(
                [sys.executable, "-m", "anabranch", "testbed", *map(str, words)],
                folder=folder,
                seed=kernel_seed(seed, replication),
            )
            if done.returncode != 0:
                raise LiveError(done.stderr.decode(errors="replace").strip() or "it said nothing")
            summary = json.loads((folder / "result.json").read_text())["summary"]
            tables = {
                name: pl.read_parquet(folder / "traces" / f"{name}.parquet").to_dict(
                    as_series=False
                )
                for name in wanted
            }
        return {name: np.nan if v is None else v for name, v in summary.items()}, tables

    def wait(self, seconds: float) -> Batch | None:
        """See `Workers`."""
        done, _ = wait(self._under_way, timeout=seconds, return_when=FIRST_COMPLETED)
        if not done:
            return None
        first = next(one for one in self._under_way if one in done)
        self._under_way.remove(first)
        return first.result()

    def cancel(self) -> None:
        """See `Workers`."""
        self._cancelled.set()

    @property
    def under_way(self) -> int:
        """See `Workers`."""
        return len(self._under_way)

    def close(self) -> None:
        """See `Workers`."""
        self.cancel()
        self._threads.shutdown(cancel_futures=True)


def kernel_seed(seed: int, replication: int) -> int:
    """What the virtual kernel's random numbers follow from, from 0 to 2⁶⁴ - 1."""
    text = f"{seed} {replication}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8])


def virtual_release() -> str:
    """The release of the virtual kernel, `6.12.41`."""
    return run_in_kernel(["uname", "-r"], folder=tempfile.gettempdir()).stdout.decode().strip()


def _batch_of(
    rows: list[tuple[Run, dict[str, float]]],
    seconds: float,
    traces: list[tuple[int, int, dict[str, Any]]],
    failures: list[tuple[Run, str]],
) -> Batch:
    names = dict.fromkeys(name for _, row in rows for name in row)
    columns = {name: np.array([row.get(name, np.nan) for _, row in rows]) for name in names}
    if rows:
        columns["cell"], columns["replication"] = np.array([run for run, _ in rows], float).T
    return Batch(columns, seconds, traces, failures)


def release() -> str:
    """The release of the kernel that flows run on, `6.12.5`."""
    _check_system()
    return _engine.Testbed.kernel()


def _check_system() -> None:
    # Not where the system has neither network namespaces nor such devices.
    if not hasattr(_engine, "Testbed"):
        raise LiveError("a testbed needs network namespaces, which only Linux has")
