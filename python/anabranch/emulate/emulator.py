"""An emulation that runs, and the programs in it."""

import os
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from anabranch import _engine
from anabranch.errors import LiveError, MissingError, suggestion

_PRIORITY = 10
"""Of the thread that carries packets, among those that the system serves first (SCHED_FIFO)."""


@dataclass(frozen=True)
class Interface:
    """A device of a node, at one end of a path."""

    path: str
    device: str
    peer: str
    """The node at the other end."""
    addresses: tuple[str, ...]
    """Those here, IPv4 first."""
    peer_addresses: tuple[str, ...]


@dataclass(frozen=True)
class LinkCounters:
    """A direction of a link, as it is now."""

    link: str
    direction: str
    """`forward` or `reverse`."""
    rate: int | None
    """In bit/s, 0 while it is down; None for a radio and for a link without a rate."""
    queue: int
    """Packets that wait or are being sent."""
    packets: int
    """Those that have come to the other end."""
    bytes: int
    drops: Mapping[str, int]
    """Packets by cause: aqm, corrupted, down, lost, queue_full."""

    @property
    def dropped(self) -> int:
        """Packets dropped, whatever for."""
        return sum(self.drops.values())


class Emulator:
    """A scenario in real time, from here until it is closed.

    To be used in `with`: leaving it ends all programs that run in it.

    Parameters
    ----------
    scenario
        A scenario file, or the text of one; it may have no flows. Flows that it has run along as
        load. Limits of a run (`run`) and a sweep do not count.
    sets
        Settings by path, as `--set` has them: {"links.wan.delay": "30 ms"}.
    replication
        Which random numbers links and flows have.
    pcap
        A file of pcapng for what the nodes send and receive.

    Raises
    ------
    ScenarioError
        The scenario is wrong.
    LiveError
        The system does not permit what it takes.
    """

    def __init__(
        self,
        scenario: str | Path,
        *,
        sets: Mapping[str, str] | None = None,
        replication: int = 0,
        pcap: str | Path | None = None,
    ) -> None:
        # Not where the system has neither network namespaces nor such devices.
        if not hasattr(_engine, "Emulation"):
            raise LiveError("an emulation needs network namespaces, which only Linux has")
        pairs = list((sets or {}).items())
        capture = None if pcap is None else os.fspath(pcap)
        if isinstance(scenario, str) and "\n" in scenario:
            self._engine = _engine.Emulation.parse(scenario, pairs, ".", replication, capture)
        else:
            self._engine = _engine.Emulation.load(os.fspath(scenario), pairs, replication, capture)
        self.is_real_time = serve_first(self._engine.thread_id)
        """Whether the system serves the thread that carries packets before all others."""
        self._row: dict[str, float] = {}
        self._started: list[subprocess.Popen[Any]] = []

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self._engine.name

    @property
    def seed(self) -> int:
        """The scenario's."""
        return self._engine.seed

    @property
    def settings(self) -> dict[str, Any]:
        """The scenario as it was at the start, as a tree, with every default filled in."""
        return tomllib.loads(self._engine.settings)

    @property
    def devices(self) -> str:
        """What the nodes have: `tun`, or `veth` where /dev/net/tun may not be opened.

        The variable ANABRANCH_EMULATE_DEVICES asks for one of them.
        """
        return self._engine.devices

    @property
    def links(self) -> list[str]:
        """The names of the links."""
        return self._engine.links

    @property
    def nodes(self) -> dict[str, list[Interface]]:
        """The nodes at ends of paths, in the order in which paths name them, by name."""
        return {
            name: [
                Interface(path, device, peer, tuple(own), tuple(remote))
                for path, device, peer, own, remote in rows
            ]
            for name, rows in self._engine.nodes()
        }

    def places(self, node: str) -> tuple[str, str, str]:
        """The files that stand for a node's network, its mounts and the processes in it.

        They are there for other programs of this user, too, such as `nsenter`.
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

        The names of nodes that a path leads to are in its `/etc/hosts`.
        """
        process = start_within(self.places(node), command, **options)
        self._started = [other for other in self._started if other.poll() is None] + [process]
        return process

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
        """Change a link from now on; what waits in its queue stays there.

        Parameters
        ----------
        link
            Its name.
        values
            `rate`, `delay` or `loss` as a scenario has them, a loss also as a probability; the same
            for the way back in `reverse={"rate": ...}`.
        """
        for key, value in _flat(values):
            self._engine.set(link, key, value)

    def counters(self) -> list[LinkCounters]:
        """Each direction of each link as it is now."""
        return [
            LinkCounters(link, direction, rate, queue, packets, size, dict(drops))
            for link, direction, rate, queue, packets, size, drops in self._engine.states()
        ]

    @property
    def summary(self) -> dict[str, float]:
        """The scalars up to now, or at the end: those that a simulated run has.

        `emulation.lateness_p50_ms`, `_p99_ms` and `_max_ms` say how much later than due packets
        were written to the devices of the nodes, and `emulation.overrun_packets` how many these
        have dropped since nobody read them in time.
        """
        with suppress(LiveError):
            self._row = self._engine.row()
        return self._row

    def close(self) -> None:
        """End it, with all programs that run in it."""
        _ = self.summary
        # A namespace of processes ends only when somebody has asked for the end of each of them.
        for process in self._started:
            process.kill()
            process.wait()
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
    """Have the system serve a thread before all others, where that is permitted."""
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
    places: tuple[str, str, str], command: Sequence[str | Path], **options: Any
) -> "subprocess.Popen[Any]":
    """Start a program in the namespaces that these files stand for."""
    options.setdefault("cwd", Path.cwd())

    def begin() -> "subprocess.Popen[Any]":
        # Only this thread moves, and what it starts is where it is.
        _engine.enter_namespaces(*places)
        return subprocess.Popen([os.fspath(word) for word in command], **options)

    with ThreadPoolExecutor(1) as apart:
        return apart.submit(begin).result()
