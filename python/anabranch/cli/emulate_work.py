"""The work of `anabranch emulate`."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from anabranch import _engine
from anabranch.emulate import Emulator, LinkCounters, running, scenario_text
from anabranch.emulate.emulator import start_within
from anabranch.errors import AnabranchError, LiveError, Terminated
from anabranch.support import terminal
from anabranch.support.wording import number

from . import lateness, virtual
from .app import write_json
from .messages import say
from .rooted import become, become_root

_PATIENCE = 3.0
"""Seconds that a command has to end after Ctrl-C."""
_LOOK_EVERY = 0.5
"""Seconds between two looks at whether the emulation or the command has ended."""
_REFUSED = {
    "malformed": "were not IP packets and were not taken",
    "too_large": "were larger than the MTU of their path and were not taken",
    "unfinished": "relied on a device to split them or to add checksums, which it does not do, and"
    " were not taken: its offloads have been turned on",
    "unwritten": "were not taken by the device of the node that they had come to",
    "overrun": "were dropped by the device of the node that sent them, which holds about 10,000:"
    " they were not read in time",
}
"""What has happened to packets that no link counts, by the scalar that counts them."""


@dataclass(frozen=True)
class Wanted:
    """The options of the command line."""

    scenario: Path | None
    link: Mapping[str, Any]
    """The options that describe a link, in place of a scenario."""
    command: Sequence[str]
    node: str | None
    sets: Mapping[str, str]
    duration: float | None
    pcap: Path | None
    json: Path | None
    replication: int
    is_quiet: bool


def start(wanted: Wanted) -> int:
    """Runs the emulation to its end; gives the exit status."""
    become_root("an emulation")
    source = wanted.scenario or scenario_text(**wanted.link)
    with Emulator(
        source, sets=wanted.sets, replication=wanted.replication, pcap=wanted.pcap
    ) as emulator:
        node = wanted.node or next(iter(emulator.nodes))
        emulator.places(node)
        ended: Terminated | None = None
        code = 0
        with running.announced(emulator):
            if wanted.command:
                code = _run(emulator, node, wanted)
            else:
                ended = _watch(emulator, wanted)
        counters, scalars = emulator.counters(), emulator.summary
        devices = emulator.devices
    if wanted.json is not None:
        write_json(wanted.json, _record(emulator, wanted.replication, devices, scalars))
    if not wanted.is_quiet and ended is None:
        # With a command, the summary goes to standard error, as standard output is the command's.
        _sum_up(counters, scalars, to_error=bool(wanted.command))
    _warn(emulator, scalars)
    if ended is not None:
        # Everything is written; the exit status says which signal it was.
        raise ended
    return code


def _record(
    emulator: Emulator, replication: int, devices: str, scalars: Mapping[str, float]
) -> dict[str, object]:
    """What `--json` writes, with the same keys as for a simulated run."""
    return {
        "kind": "emulation",
        "scenario": emulator.name,
        "version": _engine.__version__,
        "seed": emulator.seed,
        "replication": replication,
        "devices": devices,
        "settings": emulator.settings,
        "summary": scalars,
    }


def start_virtual(wanted: Wanted) -> int:
    """Runs the emulation in the virtual kernel; gives the exit status."""
    if not wanted.command and wanted.duration is None:
        raise AnabranchError(
            "an emulation in the virtual kernel cannot be joined: it needs a command, or --duration"
        )
    options: dict[str, object] = {
        "--in": wanted.node,
        "--duration": wanted.duration,
        "--pcap": wanted.pcap,
        "--json": wanted.json,
        "--replication": wanted.replication,
        **{f"--{name}": value for name, value in wanted.link.items()},
    }
    scenario = [] if wanted.scenario is None else [str(wanted.scenario)]
    done = virtual.again(
        "emulate",
        options,
        wanted.sets,
        [*scenario, *wanted.command],
        files=(wanted.pcap, wanted.json),
        seed=wanted.replication,
        is_quiet=wanted.is_quiet,
    )
    if not wanted.is_quiet:
        virtual.say_what_it_took(done)
    return done.returncode


def join(node: str, command: Sequence[str], pid: int | None) -> int:
    """Runs a command in a node of a running emulation; gives its exit status."""
    found = running.find(pid)
    if node not in found.nodes:
        raise AnabranchError(f"there is no node `{node}`, only {', '.join(found.nodes)}")
    _become_who_started(found)
    network, mounts, processes = found.nodes[node]
    with _named(command):
        process = start_within((network, mounts, processes), command)
    return _wait(process, None)


def change(link: str, values: Mapping[str, str], pid: int | None) -> None:
    """Changes a link of a running emulation."""
    running.find(pid).ask(link, values)


def _become_who_started(found: running.Running) -> None:
    """Enters the user namespace of an emulation that a user other than root has started."""
    try:
        own, other = (Path(f"/proc/{who}/ns/user").readlink() for who in ("self", found.pid))
    except OSError as error:
        raise LiveError(f"the emulation {found.pid} is not yours: {error.strerror}") from None
    if own != other:
        become(["nsenter", f"--user=/proc/{found.pid}/ns/user", "--preserve-credentials"])


def _run(emulator: Emulator, node: str, wanted: Wanted) -> int:
    with _named(wanted.command):
        process = emulator.start(node, wanted.command)
    return _wait(process, wanted.duration)


@contextmanager
def _named(command: Sequence[str]) -> Iterator[None]:
    """Says which command cannot be started."""
    try:
        yield
    except OSError as error:
        if shutil.which(command[0]) is None:
            raise AnabranchError(
                f"`{command[0]}` cannot be started: no program of this name is installed"
            ) from None
        raise AnabranchError(f"`{command[0]}` cannot be started: {error.strerror}") from None


def _wait(process: "subprocess.Popen[Any]", duration: float | None) -> int:
    """Waits for a command; gives its exit status as a shell does."""
    try:
        code = process.wait(duration)
    except subprocess.TimeoutExpired:
        process.terminate()
        code = _ended(process)
    except Terminated:
        process.terminate()
        code = _ended(process)
    except KeyboardInterrupt:
        # The terminal has sent Ctrl-C to the command, too.
        code = _ended(process)
    return 128 - code if code < 0 else code


def _ended(process: "subprocess.Popen[Any]") -> int:
    """Gives a command that was told to end some time to do so."""
    try:
        return process.wait(_PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        return process.wait()


def _watch(emulator: Emulator, wanted: Wanted) -> Terminated | None:
    """Waits for Ctrl-C or the end of the duration; gives another signal, if that came."""
    end = None if wanted.duration is None else time.monotonic() + wanted.duration
    out = terminal.console()
    try:
        _welcome(emulator, out.print)
        before, then = emulator.counters(), time.monotonic()
        live = Live(console=out, auto_refresh=False, transient=True) if out.is_terminal else None
        with live or nullcontext():
            while end is None or time.monotonic() < end:
                left = _LOOK_EVERY if end is None else min(_LOOK_EVERY, end - time.monotonic())
                time.sleep(max(left, 0))
                if live is not None:
                    after, now = emulator.counters(), time.monotonic()
                    live.update(_table(before, after, now - then), refresh=True)
                    before, then = after, now
    except Terminated as signal:
        return signal
    except KeyboardInterrupt:
        pass
    return None


def _welcome(emulator: Emulator, tell: Callable[[str], None]) -> None:
    for name, interfaces in emulator.nodes.items():
        places = ", ".join(f"{one.addresses[0]} ({one.path} to {one.peer})" for one in interfaces)
        tell(f"{name}: {places}")
    node = next(iter(emulator.nodes))
    tell(f"join with: anabranch emulate exec {node} COMMAND; Ctrl-C ends it")
    # A reader at the other end of a pipe may wait for the line.
    sys.stdout.flush()


def _table(before: Sequence[LinkCounters], after: Sequence[LinkCounters], seconds: float) -> Table:
    table = terminal.plain(("link", "way", "limit", "Mbit/s", "queue", "packets", "drops"), 2)
    for old, new in zip(before, after, strict=True):
        carried = (new.bytes - old.bytes) * 8 / seconds / 1e6
        limit = "–" if new.rate is None else number(new.rate / 1e6)
        counts = map(str, (new.queue, new.packets, new.dropped))
        table.add_row(new.link, new.direction, limit, f"{carried:.2f}", *counts)
    return table


def _sum_up(
    counters: Sequence[LinkCounters], scalars: Mapping[str, float], *, to_error: bool
) -> None:
    lines = []
    for link in counters:
        causes = [
            f"{count} {cause.replace('_', ' ')}" for cause, count in link.drops.items() if count
        ]
        drops = f"dropped {link.dropped} ({', '.join(causes)})" if causes else "dropped none"
        line = f"{link.link} {link.direction}: {link.packets} packets, {link.bytes} B, {drops}"
        lines.append(line)
    lines += filter(None, [lateness.line(scalars)])
    for line in lines:
        if to_error:
            say(line)
        else:
            terminal.console().print(line, soft_wrap=True)


def _warn(emulator: Emulator, scalars: Mapping[str, float]) -> None:
    if late := lateness.warning(scalars):
        why = "" if emulator.is_real_time else ", and may not serve it before others (SCHED_FIFO)"
        say(f"{late}{why}")
    for cause, what in _REFUSED.items():
        if count := scalars.get(f"emulation.{cause}_packets", 0):
            say(f"{count:.0f} packets {what}")
