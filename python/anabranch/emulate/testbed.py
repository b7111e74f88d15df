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
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import polars as pl

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError, LiveError, whole
from anabranch.studies.plan import Run
from anabranch.studies.result import Result, Value, checked, result_of
from anabranch.studies.workers import Batch, Pool
from anabranch.support.files import path_atomically
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
    scenario, cell, seed, replication = checked(scenario, set, cell, seed, replication)
    interval_ms = whole("interval_ms", interval_ms, *INTERVALS_MS)
    _check_system()
    with ExitStack() as stack:
        capture = None
        if pcap is not None:
            capture = os.fspath(stack.enter_context(path_atomically(Path(pcap))))
        bed = _engine.Testbed(scenario, cell, seed, replication, trace, interval_ms, capture)
        found = _waited(bed, Event())
    return result_of(found, scenario, cell, seed, replication)


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


class _Testbeds(Pool):
    """Workers of a study whose runs are on kernels, each run a batch of its own."""

    batch_seconds = 0.0

    def __init__(self, scenario: Scenario, interval_ms: int, jobs: int) -> None:
        super().__init__(jobs)
        self._scenario = scenario
        self._interval_ms = whole("interval_ms", interval_ms, *INTERVALS_MS)
        self._jobs = jobs
        self._cancelled = Event()

    def places(self) -> int:
        """See `Workers`."""
        return self._jobs

    def compute(self, runs: Sequence[Run]) -> Batch:
        """See `Pool`."""
        started = time.monotonic()
        rows: list[tuple[Run, dict[str, float]]] = []
        traces, failures = [], []
        for cell, replication in runs:
            if self._cancelled.is_set():
                break
            try:
                summary, tables = self._run(cell, replication)
            except AnabranchError as error:
                if self._cancelled.is_set():
                    break
                failures.append(((cell, replication), str(error)))
                continue
            rows.append(((cell, replication), summary))
            traces.append((cell, replication, tables))
        names = dict.fromkeys(name for _, row in rows for name in row)
        columns = {name: np.array([row.get(name, np.nan) for _, row in rows]) for name in names}
        if rows:
            columns["cell"], columns["replication"] = np.array([run for run, _ in rows], float).T
        return Batch(columns, time.monotonic() - started, traces, failures)

    @abstractmethod
    def _run(self, cell: int, replication: int) -> tuple[dict[str, float], dict[str, Any]]:
        """The scalars, and the traces that the scenario wants kept; raises if it was given up."""

    def cancel(self) -> None:
        """See `Workers`."""
        self._cancelled.set()


class Kernel(_Testbeds):
    """The worker of a study whose runs are on this kernel; see `Workers`.

    They come one after another: two at a time would be in each other's way.
    """

    def __init__(self, scenario: Scenario, interval_ms: int = 20) -> None:
        _check_system()
        super().__init__(scenario, interval_ms, jobs=1)

    @property
    def engine(self) -> str:
        """See `Workers`."""
        return f"{_engine.ENGINE_VERSION} on Linux {release()}"

    def _run(self, cell: int, replication: int) -> tuple[dict[str, float], dict[str, Any]]:
        tables = self._scenario.traces
        setup = (cell, self._scenario.seed, replication, bool(tables), self._interval_ms, None)
        found = _waited(_engine.Testbed(self._scenario, *setup), self._cancelled)
        if self._cancelled.is_set():
            raise LiveError("the run was given up")
        return found["summary"], {name: found["traces"][name] for name in tables}


class VirtualKernel(_Testbeds):
    """The workers of a study whose runs are in virtual kernels, one for each; see `Workers`.

    The same run gives the same bytes again: what a kernel draws follows from the scenario's seed
    and the replication.
    """

    def __init__(self, scenario: Scenario, interval_ms: int = 20, jobs: int = 1) -> None:
        super().__init__(scenario, interval_ms, jobs)
        self._release = virtual_release()

    @property
    def engine(self) -> str:
        """See `Workers`."""
        return f"{_engine.ENGINE_VERSION} on Linux {self._release} in virtual time"

    def _run(self, cell: int, replication: int) -> tuple[dict[str, float], dict[str, Any]]:
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
                cancelled=self._cancelled,
            )
            if done.returncode != 0:
                raise LiveError(done.stderr.decode(errors="replace").strip() or "it said nothing")
            summary = json.loads((folder / "result.json").read_text())["summary"]
            files = {name: folder / "traces" / f"{name}.parquet" for name in wanted}
            tables = {
                name: pl.read_parquet(file).to_dict(as_series=False) for name, file in files.items()
            }
        return {name: np.nan if v is None else v for name, v in summary.items()}, tables


def kernel_seed(seed: int, replication: int) -> int:
    """What the virtual kernel's random numbers follow from, from 0 to 2⁶⁴ - 1."""
    text = f"{seed} {replication}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8])


def virtual_release() -> str:
    """The release of the virtual kernel, `6.12.41`."""
    return run_in_kernel(["uname", "-r"], folder=tempfile.gettempdir()).stdout.decode().strip()


def release() -> str:
    """The release of the kernel that flows run on, `6.12.5`."""
    _check_system()
    return _engine.Testbed.kernel()


def kind() -> str:
    """Which kernel that is: `virtual`, in virtual time, or `host`."""
    _check_system()
    return "virtual" if _engine.Testbed.is_virtual() else "host"


def _check_system() -> None:
    # Not where the system has neither network namespaces nor such devices.
    if not hasattr(_engine, "Testbed"):
        raise LiveError("a testbed needs network namespaces, which only Linux has")
