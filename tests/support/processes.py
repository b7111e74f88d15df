"""Waiting for other processes, for as long as it takes on a machine that has others to serve.

What they have done, and how much processor time they have taken, does not depend on these others.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import HANGS_S

Process = subprocess.Popen[Any]


@contextmanager
def killed_at_the_end(process: Process) -> Iterator[Process]:
    """A process that a test which fails does not wait for."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def until(holds: Callable[[], object], process: Process | None = None) -> None:
    """Waits until this holds; a process that is to bring it about must not end before."""
    end = time.monotonic() + HANGS_S
    while not holds():
        if process is not None and process.poll() is not None:
            # It may have been the last thing it did.
            assert holds(), process.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)


def until_it_hears(process: Process) -> None:
    """Until the interpreter has started and the command's own code has begun."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        time.sleep(0.5)
        return

    def hears() -> bool:
        caught = int(status.read_text().partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (signal.SIGTERM - 1) & 1)

    until(hears, process)


def until_it_has_worked(process: Process, seconds: float) -> None:
    """Until it has taken this much processor time from now on."""
    if not Path(f"/proc/{process.pid}/stat").exists():
        time.sleep(seconds)
        return
    before = processor_s(process.pid)
    until(lambda: processor_s(process.pid) >= before + seconds, process)


def processor_s(process: int) -> float:
    """The processor time that a process has taken so far."""
    tail = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, tail[11:13])) / os.sysconf("SC_CLK_TCK")


def ended(process: Process) -> tuple[Any, Any, float]:
    """What a process has said when it has ended, and the processor time that it has taken."""
    import resource  # noqa: PLC0415 - not on Windows

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said, told = process.communicate(timeout=HANGS_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return said, told, taken


def below(process: int) -> set[int]:
    """The processes that a process has started, those that they have, and so on."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}
