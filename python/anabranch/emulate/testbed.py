"""Scenarios on the kernel's own stacks: flows are sockets, links are emulated, in real time.

>>> from anabranch.emulate import testbed
>>> result = testbed.run("scenarios/tcp-wan.toml", trace=True)
>>> result.summary["bulk.goodput_kbit_per_s"], testbed.release()

A run gives what `anabranch.run` gives, by the same names.
"""

import hashlib
import json
import os
import sys
import tempfile
import time
import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any, Literal, get_args

import numpy as np

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError, LiveError, whole
from anabranch.studies.plan import Run
from anabranch.studies.result import Result, Value, checked, result_of, seed_of
from anabranch.studies.workers import Batch, Pool
from anabranch.support.files import path_atomically
from anabranch.support.quantities import milliseconds
from anabranch.virtual import kernel_file, run_in_kernel

from . import usrsctp
from .emulator import serve_first

SctpStack = Literal["kernel", "usrsctp"]
"""What SCTP flows run on: the kernel like all others, or FreeBSD's SCTP in user space."""

INTERVALS_MS = (10, 1000)
"""The shortest and longest interval, in ms, at which connections are asked for their state."""

BOOT_PAYS_MS = 20_000
"""Virtual time, in ms, after which booting is a small part of what a kernel has cost."""

_LOOK_EVERY = 0.02
"""Seconds between two looks at whether the run has ended or was cancelled."""


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
    stack: SctpStack = "kernel",
) -> Result:
    """Runs a scenario once on this machine's kernel; it takes as long as the scenario does.

    Parameters
    ----------
    scenario
        A loaded scenario, a path or TOML text.
    seed
        Replaces the scenario's seed, from which losses, cross traffic and applications draw.
    replication
        Which of the independent repetitions.
    set
        Values to change, by dotted path; only with a path or text.
    cell
        Which cell of the scenario's sweep.
    trace
        Whether to record traces: all that a simulated run has but packets.
    pcap
        The pcapng file for what the nodes send and receive.
    interval_ms
        How often the kernel is asked for the state of its connections, for the trace `paths`.
    stack
        What SCTP flows run on.

    Raises
    ------
    ScenarioError
        The scenario is wrong, or asks for something that no kernel, or usrsctp, has.
    LiveError
        The system does not permit what a run needs, or this kernel does not have it.

    Examples
    --------
    Two seconds of a download on this kernel's TCP, over a link of 10 Mbit/s:

    >>> from anabranch.emulate import testbed
    >>> scenario = '''
    ... run.duration = "2 s"
    ... links.wan = { ends = ["server", "home"], rate = "10 Mbit/s", delay = "10 ms" }
    ... paths.only.via = ["wan"]
    ... [flows.load]
    ... from = "server"
    ... to = "home"
    ... paths = ["only"]
    ... transport.kind = "tcp"
    ... app.kind = "bulk"
    ... '''
    >>> result = testbed.run(scenario)
    >>> 1000 < result.summary["load.goodput_kbit_per_s"] < 10_000
    True
    """
    scenario, cell, seed, replication = checked(scenario, set, cell, seed, replication)
    interval_ms = whole("interval_ms", interval_ms, *INTERVALS_MS)
    _check_system()
    program = _program(stack)
    with ExitStack() as files:
        capture = None
        if pcap is not None:
            capture = os.fspath(files.enter_context(path_atomically(Path(pcap))))
        setup = (cell, seed, replication, trace, interval_ms, capture, program)
        found = _waited(_engine.Testbed(scenario, *setup), Event())
    return result_of(found, scenario, cell, seed, replication)


def _waited(bed: _engine.Testbed, cancelled: Event) -> Any:
    """Waits until a run ends or is cancelled; gives its result."""
    serve_first(bed.thread_id)
    try:
        while not bed.is_over() and not cancelled.is_set():
            time.sleep(_LOOK_EVERY)
    except BaseException:
        bed.finish()
        raise
    return bed.finish()


Found = tuple[dict[str, float], dict[str, Any]]
"""The result of a run: its scalars, and the traces that the scenario wants kept."""


class _Testbeds(Pool):
    """Workers of a study whose runs are on kernels."""

    batch_runs = 1
    batch_seconds = None

    def __init__(self, scenario: Scenario, interval_ms: int, jobs: int, stack: SctpStack) -> None:
        super().__init__(jobs)
        # It is built before any run and, for a virtual kernel, outside of it.
        self._program = _program(stack)
        self._scenario = scenario
        self._interval_ms = whole("interval_ms", interval_ms, *INTERVALS_MS)
        self._jobs = jobs
        self._cancelled = Event()

    @property
    def _on(self) -> str:
        """The part of the engine's name before the kernel's release."""
        with_it = "" if self._program is None else " with usrsctp"
        return f"{_engine.ENGINE_VERSION}{with_it} on Linux"

    def places(self) -> int:
        """See `Workers`."""
        return self._jobs

    def compute(self, runs: Sequence[Run]) -> Batch:
        """See `Pool`."""
        started = time.monotonic()
        rows: list[tuple[Run, dict[str, float]]] = []
        traces, failures = [], []
        for run, found in zip(runs, self._run(runs), strict=False):
            if isinstance(found, str):
                failures.append((run, found))
                continue
            summary, tables = found
            rows.append((run, summary))
            traces.append((*run, tables))
        names = dict.fromkeys(name for _, row in rows for name in row)
        columns = {name: np.array([row.get(name, np.nan) for _, row in rows]) for name in names}
        if rows:
            columns["cell"], columns["replication"] = np.array([run for run, _ in rows], float).T
        return Batch(columns, time.monotonic() - started, traces, failures)

    @abstractmethod
    def _run(self, runs: Sequence[Run]) -> Iterator[Found | str]:
        """The result of each run, or why it failed; fewer entries if the batch was given up."""

    def cancel(self) -> None:
        """See `Workers`."""
        self._cancelled.set()


class Kernel(_Testbeds):
    """The worker of a study whose runs use this machine's kernel; see `Workers`.

    Runs come one after another, as two at a time would disturb each other.
    """

    def __init__(
        self, scenario: Scenario, interval_ms: int = 20, stack: SctpStack = "kernel"
    ) -> None:
        _check_system()
        super().__init__(scenario, interval_ms, 1, stack)

    @property
    def engine(self) -> str:
        """See `Workers`."""
        return f"{self._on} {release()}"

    def _run(self, runs: Sequence[Run]) -> Iterator[Found | str]:
        tables = self._scenario.traces
        for cell, replication in runs:
            seed = seed_of(self._scenario, cell)
            setup = (cell, seed, replication, bool(tables), self._interval_ms, None)
            try:
                bed = _engine.Testbed(self._scenario, *setup, self._program)
                found = _waited(bed, self._cancelled)
            except AnabranchError as error:
                yield str(error)
                continue
            if self._cancelled.is_set():
                return
            yield found["summary"], {name: found["traces"][name] for name in tables}


class VirtualKernel(_Testbeds):
    """The workers of a study whose runs are in virtual kernels; see `Workers`.

    With a kernel for each run, the same run gives the same bytes again: the kernel's random numbers
    follow from the cell's seed and the replication. Several runs in one kernel save the time to
    boot it, about 0.7 s of CPU each. A run then depends on those before it, which change the
    kernel's random numbers and where the run begins between two ticks of its timers.
    """

    @classmethod
    def of_short_runs(
        cls, scenario: Scenario, jobs: int, stack: SctpStack = "kernel"
    ) -> "VirtualKernel":
        """The workers with as many runs in a kernel as keep it busy for BOOT_PAYS_MS."""
        duration = milliseconds(tomllib.loads(scenario.to_toml())["run"]["duration"])
        shared = max(1, round(BOOT_PAYS_MS / duration))
        return cls(scenario, jobs=jobs, stack=stack, runs_per_boot=shared)

    def __init__(
        self,
        scenario: Scenario,
        interval_ms: int = 20,
        jobs: int = 1,
        stack: SctpStack = "kernel",
        *,
        runs_per_boot: int = 1,
    ) -> None:
        super().__init__(scenario, interval_ms, jobs, stack)
        self._release = virtual_release()
        self.batch_runs = whole("runs_per_boot", runs_per_boot, 1)

    @property
    def engine(self) -> str:
        """See `Workers`."""
        return f"{self._on} {self._release} in virtual time"

    def _run(self, runs: Sequence[Run]) -> Iterator[Found | str]:
        cell, replication = runs[0]
        seed = kernel_seed(seed_of(self._scenario, cell), replication)
        with tempfile.TemporaryDirectory(prefix="anabranch-testbed-") as base:
            folder = Path(base)
            for cell, replication in runs:
                text = self._scenario.cell_toml(cell)
                (folder / f"{cell}-{replication}.toml").write_text(text, encoding="utf-8")
            names = [f"{cell}-{replication}" for cell, replication in runs]
            kept = ",".join(self._scenario.traces)
            words = [self._interval_ms, self._program or "", kept, *names]
            # The script is started by its path: `-m` would import its package, too.
            script = Path(__file__).with_name("guest.py")
            try:
                done = run_in_kernel(
                    [sys.executable, "-P", script, *map(str, words)],
                    folder=folder,
                    seed=seed,
                    cancelled=self._cancelled,
                )
            except (LiveError, OSError) as error:
                # Raised, for example, when somebody has removed the files of a kernel.
                said = str(error)
            else:
                said = done.stderr.decode(errors="replace").strip() or "it said nothing"
            for name in names:
                file = folder / f"{name}.json"
                if file.exists():
                    found = json.loads(file.read_text(encoding="utf-8"))
                    yield found["error"] or (found["summary"], found["traces"])
                elif self._cancelled.is_set():
                    return
                else:
                    yield said


def kernel_seed(seed: int, replication: int) -> int:
    """The seed of the virtual kernel's random numbers, from 0 to 2⁶⁴ - 1."""
    text = f"{seed} {replication}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8])


class Lacking:
    """Says in a sentence why a cell cannot run on this machine's kernel; None where it can.

    Cells with equal flows are tried only once.
    """

    def __init__(self, stack: SctpStack = "kernel") -> None:
        self._known: dict[str, str | None] = {}
        self._program = _program(stack)

    def __call__(self, scenario: Scenario, cell: int) -> str | None:
        """Opens the cell's sockets for a moment, to see whether the kernel allows it."""
        flows = json.dumps(tomllib.loads(scenario.cell_toml(cell))["flows"])
        if flows not in self._known:
            try:
                setup = (cell, scenario.seed, 0, False, INTERVALS_MS[0], None, self._program)
                _engine.Testbed(scenario, *setup).finish()
                self._known[flows] = None
            except AnabranchError as error:
                self._known[flows] = str(error)
        return self._known[flows]


def virtual_release() -> str:
    """The release of the virtual kernel, such as `6.12.41`."""
    return _release_of(kernel_file())


@cache
def _release_of(_: Path) -> str:
    return run_in_kernel(["uname", "-r"], folder=tempfile.gettempdir()).stdout.decode().strip()


def release() -> str:
    """The release of the kernel that flows run on, such as `6.12.5`."""
    _check_system()
    return _engine.Testbed.kernel()


def kind() -> str:
    """The kind of that kernel: `virtual` (in virtual time) or `host`."""
    _check_system()
    return "virtual" if _engine.Testbed.is_virtual() else "host"


def _program(stack: SctpStack) -> str | None:
    """The program that runs an end of an SCTP flow on usrsctp.

    None where the kernel's SCTP is used.
    """
    if stack not in get_args(SctpStack):
        choices = " or ".join(f"`{name}`" for name in get_args(SctpStack))
        raise AnabranchError(f"stack is `{stack}`; it is {choices}")
    return str(usrsctp.program()) if stack == "usrsctp" else None


def _check_system() -> None:
    # The engine lacks it where the system has neither network namespaces nor such devices.
    if not hasattr(_engine, "Testbed"):
        raise LiveError("a testbed needs network namespaces, which only Linux has")
