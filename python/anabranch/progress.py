"""How far a sweep has come, on standard error: a bar on a terminal, else a line now and then."""

import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch import study

_PLAIN_SECONDS = 10.0
"""Between two lines where there is no terminal."""


@contextmanager
def shown(what: str) -> "Iterator[study.Progress]":
    """Gives a function to call with the runs done and all runs; nothing is shown before that."""
    console = Console(stderr=True)
    reporter = _Bar(what, console) if console.is_terminal else _Lines(what)
    try:
        yield reporter.update
    finally:
        reporter.close()


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


class _Bar:
    def __init__(self, what: str, console: Console) -> None:
        self._rate = _Rate()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:,.0f} runs/s"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task(what, total=None, rate=0.0)

    def update(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total, rate=self._rate(done))
        self._bar.start()

    def close(self) -> None:
        self._bar.stop()


class _Lines:
    def __init__(self, what: str) -> None:
        self._what = what
        self._rate = _Rate()
        self._next = 0.0

    def update(self, done: int, total: int) -> None:
        rate = self._rate(done)
        now = time.monotonic()
        if now < self._next and done < total:
            return
        self._next = now + _PLAIN_SECONDS
        line = f"{self._what}: {done}/{total} runs"
        if rate > 0:
            line += f", {rate:,.0f} runs/s, {(total - done) / rate:,.0f} s left"
        # No run is given up because nobody can read how far it is.
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass
