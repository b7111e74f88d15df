"""How far a sweep has come, on standard error: a bar on a terminal, else a line now and then."""

import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch import study

_PLAIN_SECONDS = 10.0
"""Between two lines where there is no terminal."""


@contextmanager
def shown(what: str, unit: str = "runs", *, kept: bool = False) -> "Iterator[study.Progress]":
    """Gives a function to call with what is done and all of it; nothing is shown before that.

    Parameters
    ----------
    what
        The work.
    unit
        What is counted, in the plural.
    kept
        Whether what is done stays done when the work is stopped: Ctrl-C then says so.
    """
    console = Console(stderr=True)
    reporter = _Bar(what, unit, console) if console.is_terminal else _Lines(what, unit)
    done = total = 0

    def update(now_done: int, of_all: int) -> None:
        nonlocal done, total
        done, total = now_done, of_all
        reporter.update(done, total)

    try:
        yield update
    except KeyboardInterrupt as interrupt:
        if not kept or not total:
            raise
        message = f"{done} of {total} {unit} are finished; the same command continues"
        raise type(interrupt)(message) from None
    finally:
        reporter.close()


@contextmanager
def steps(what: str, total: int, unit: str = "runs") -> "Iterator[Callable[[], None]]":
    """Gives a function to call after each of so many steps."""
    done = 0
    with shown(what, unit) as update:

        def step() -> None:
            nonlocal done
            done += 1
            update(done, total)

        if total:
            update(0, total)
        yield step


class _Rate:
    """Runs per second since the first report, so that runs found finished do not count."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int) -> float:
        now = time.monotonic()
        if self._first is None:
            self._first = (now, done)
        since, before = self._first
        return (done - before) / max(now - since, 1e-9)


def rate_text(rate: float) -> str:
    """Slow work has digits behind the point, rather than 0."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


class _Bar:
    def __init__(self, what: str, unit: str, console: Console) -> None:
        self._rate = _Rate()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} " + unit + "/s"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task(what, total=None, rate="0")

    def update(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total, rate=rate_text(self._rate(done)))
        self._bar.start()

    def close(self) -> None:
        self._bar.stop()


class _Lines:
    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._rate = _Rate()
        self._next = 0.0

    def update(self, done: int, total: int) -> None:
        rate = self._rate(done)
        now = time.monotonic()
        if now < self._next and done < total:
            return
        self._next = now + _PLAIN_SECONDS
        line = f"{self._what}: {done}/{total} {self._unit}"
        if rate > 0:
            line += f", {rate_text(rate)} {self._unit}/s, {(total - done) / rate:,.0f} s left"
        if sys.stderr is None:  # closed; `print` would take standard output instead
            return
        # No run is given up because nobody can read how far it is.
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass
