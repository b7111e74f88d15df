"""A running emulation, and the programs in it."""

import os
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from anabranch import _engine
from anabranch.errors import LiveError, MissingError, suggestion
from anabranch.support.files import path_atomically
from anabranch.support.interruption import interruptible

_PRIORITY = 10
"""The SCHED_FIFO priority of the thread that carries packets."""


@dataclass(frozen=True)
class Interface:
    """A device of a node, at one end of a path."""

    path: str
    device: str
    peer: str
    """The node at the other end of the path."""
    addresses: tuple[str, ...]
    """The device's own addresses, IPv4 first."""
    peer_addresses: tuple[str, ...]


@dataclass(frozen=True)
class LinkCounters:
    """The state of one direction of a link at this moment."""

    link: str
    direction: str
    """`forward` or `reverse`."""
    rate: int | None
    """In bit/s, 0 while it is down; None for a radio and for a link without a rate."""
    queue: int
    """Packets that wait in the queue or are being sent."""
    packets: int
    """Packets that have arrived at the other end."""
    bytes: int
    drops: Mapping[str, int]
    """Packets by cause: aqm, corrupted, down, lost, queue_full."""

    @property
    def dropped(self) -> int:
        """Packets dropped, for whatever cause."""
        return sum(self.drops.values())


class Emulator:
    """A scenario that runs in real time from construction until it is closed.

    Use it in `with`: leaving the block ends all programs that run in it.

    Parameters
    ----------
    scenario
        A scenario file, or the text of one; it may have no flows. Its flows run along as load.
        Limits of a run (`run`) and the sweep are ignored.
    sets
        Settings by path, as `--set` has them: {"links.wan.delay": "30 ms"}.
    replication
        Which random numbers links and flows have.
    pcap
        A pcapng file for what the nodes send and receive; it has this name once it is complete.

    Raises
    ------
    ScenarioError
        The scenario is wrong.
    LiveError
        The system does not permit what an emulation needs.
    """

    def __init__(
        self,
        scenario: str | Path,
        *,
        sets: Mapping[str, str] | None = None,
        replication: int = 0,
        pcap: str | Path | None = None,
    ) -> None:
        # The engine lacks it where the system has neither network namespaces nor such devices.
        if not hasattr(_engine, "Emulation"):
            raise LiveError("an emulation needs network namespaces, which only Linux has")
        pairs = list((sets or {}).items())
        with ExitStack() as stack:
            capture = None
            if pcap is not None:
                capture = os.fspath(stack.enter_context(path_atomically(Path(pcap))))
            self.part = capture
            """The file that the capture is written to until it is complete."""
            if isinstance(scenario, str) and "\n" in scenario:
                self._engine = _engine.Emulation.parse(scenario, pairs, ".", replication, capture)
            else:
                file = os.fspath(scenario)
                self._engine = _engine.Emulation.load(file, pairs, replication, capture)
            self._capture = stack.pop_all()
        self.is_real_time = serve_first(self._engine.thread_id)
        """Whether the system runs the thread that carries packets before all others."""
        self._process = os.getpid()
        self._row: dict[str, float] = {}
        self._started: list[subprocess.Popen[Any]] = []

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self._engine.name

    @property
    def seed(self) -> int:
        """The scenario's seed."""
        return self._engine.seed

    @property
    def settings(self) -> dict[str, Any]:
        """The scenario as it was at the start, as a tree, with every default filled in."""
        return tomllib.loads(self._engine.settings)

    @property
    def devices(self) -> str:
        """The kind of the nodes' devices: `tun`, or `veth` where /dev/net/tun cannot be opened.

        The environment variable ANABRANCH_EMULATE_DEVICES asks for one of them.
        """
        return self._engine.devices

    @property
    def links(self) -> list[str]:
        """The names of the links."""
        return self._engine.links

    @property
    def nodes(self) -> dict[str, list[Interface]]:
        """The interfaces of each node that is an end of a path.

        Nodes are in the order of the paths.
        """
        return {
            name: [
                Interface(path, device, peer, tuple(own), tuple(remote))
                for path, device, peer, own, remote in rows
            ]
            for name, rows in self._engine.nodes()
        }

    def places(self, node: str) -> tuple[str, str, str]:
        """The files for a node's network namespace, its mount namespace and its process namespace.

        Other programs of this user, such as `nsenter`, can use them too.
        """
        found = self._engine.descriptors(node)
        if found is None:
            names = list(self.nodes)
            close = suggestion(node, names)
            raise MissingError(f"there is no node `{node}`, only {', '.join(names)}{close}")
        network, mounts, processes = (f"/proc/{os.getpid()}/fd/{number}" for number in found)
        return network, mounts, processes

    def start(
        self, node: str, command: Sequence[str | Path], **options: Any
    ) -> "subprocess.Popen[Any]":
        """Start a program in a node; `options` are those of `subprocess.Popen`.

        The program's `/etc/hosts` has the names of the nodes that a path leads to.
        """
        self._started = [process for process in self._started if process.poll() is None]
        return start_within(self.places(node), command, self._started.append, **options)

    def run(
        self,
        node: str,
        command: Sequence[str | Path],
        *,
        input: Any = None,  # noqa: A002 - as `subprocess.run` has it
        timeout: float | None = None,
        check: bool = False,
        capture_output: bool = False,
        **options: Any,
    ) -> "subprocess.CompletedProcess[Any]":
        """Run a program in a node to its end, as `subprocess.run` does."""
        if capture_output:
            options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if input is not None:
            options["stdin"] = subprocess.PIPE
        with self.start(node, command, **options) as process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        if check:
            done.check_returncode()
        return done

    def set(self, link: str, **values: object) -> None:
        """Change a link from now on, all values or none; packets that wait in its queue stay there.

        Parameters
        ----------
        link
            Its name.
        values
            `rate`, `delay` or `loss` as a scenario has them (a loss may also be a probability), and
            the same for the reverse direction in `reverse={"rate": ...}`.
        """
        self._engine.set(link, _flat(values))

    def counters(self) -> list[LinkCounters]:
        """The state of each direction of each link at this moment."""
        return [
            LinkCounters(link, direction, rate, queue, packets, size, dict(drops))
            for link, direction, rate, queue, packets, size, drops in self._engine.states()
        ]

    @property
    def summary(self) -> dict[str, float]:
        """The scalars up to now, or at the end: those of a simulated run, and a few more.

        `emulation.lateness_p50_ms`, `_p99_ms` and `_max_ms` say how much later than due packets
        were written to the nodes' devices, and `emulation.overrun_packets` how many packets these
        devices have dropped because they were not read in time.
        """
        with suppress(LiveError):
            self._row = self._engine.row()
        return self._row

    def close(self) -> None:
        """End it, with all programs that run in it.

        In a process that was forked from the one that has started it, it goes on there.
        """
        if self._process != os.getpid():
            return
        _ = self.summary
        # A process namespace ends only once each of its processes has been waited for.
        for process in self._started:
            process.kill()
            process.wait()
        with self._capture:
            self._engine.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self.close()


def serve_first(thread_id: int) -> bool:
    """Asks the system to run a thread before all others; gives whether that is permitted."""
    try:
        kind = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(thread_id, kind, os.sched_param(_PRIORITY))
    except (AttributeError, OSError):
        return False
    return True


def _flat(values: Mapping[str, object]) -> list[tuple[str, str]]:
    pairs = []
    for key, value in values.items():
        if key == "reverse" and isinstance(value, Mapping):
            pairs += [(f"reverse.{inner}", text) for inner, text in _flat(value)]
        elif isinstance(value, Mapping):
            pairs += [(f"{key}.{inner}", text) for inner, text in _flat(value)]
        else:
            pairs.append((key, str(value)))
    return pairs


def start_within(
    places: tuple[str, str, str],
    command: Sequence[str | Path],
    know: "Callable[[subprocess.Popen[Any]], None]" = lambda _: None,
    **options: Any,
) -> "subprocess.Popen[Any]":
    """Start a program in the namespaces that these files stand for.

    `know` is told of it before a signal can end this.
    """
    options.setdefault("cwd", Path.cwd())

    def begin() -> "subprocess.Popen[Any]":
        # Only this thread moves into the namespaces, and the program it starts inherits them.
        _engine.enter_namespaces(*places)
        return subprocess.Popen([os.fspath(word) for word in command], **options)

    # A signal waits meanwhile: nobody else knows the program yet, which would go on, and its
    # namespace with it.
    with interruptible() as interruption, ThreadPoolExecutor(1) as apart:
        process = apart.submit(begin).result()
        know(process)
    if interruption.is_heard:
        process.kill()
        process.wait()
        interruption.deliver()
    return process
