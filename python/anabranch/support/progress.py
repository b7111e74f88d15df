"""The progress of a sweep on standard error: a bar on a terminal, otherwise a line now and then.

For programs it is one JSON object a line (`form`).
"""

import html
import json
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from anabranch.support import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

Item = TypeVar("Item")

_PLAIN_SECONDS = 10.0
"""Seconds until the second line where there is no terminal; later lines come at doubling times.

So the log of a day has few lines, and the last of them is never older than half of the time.
"""
_MOST_PLAIN_SECONDS = 3600.0


_JUDGED_SECONDS = 2.0
"""Seconds after which the speed of the first runs tells how long all of them take."""
_LONG_SECONDS = 60.0
"""Work that takes longer than this, in seconds, is announced."""

_NOTEBOOK_SECONDS = 0.2
"""Seconds between two updates of a notebook's bar."""


Form = Literal["text", "json"]
"""Words for people, or one JSON object a line for programs."""

_JSON_SECONDS = 1.0
"""Seconds between two such lines; the last one of some work comes at once."""

_form: ContextVar[Form] = ContextVar("form", default="text")


def wants_json() -> bool:
    """Whether what happens is said to programs, one JSON object a line."""
    return _form.get() == "json"


@contextmanager
def form(name: Form) -> "Iterator[None]":
    """Within this context progress has this form."""
    token = _form.set(name)
    try:
        yield
    finally:
        _form.reset(token)


@dataclass(frozen=True)
class Status:
    """How far some work has come."""

    done: int
    total: int
    is_estimate: bool = False
    """Whether the total may change, because a stopping rule has not decided yet."""
    note: str = ""
    """A line on what the work has found so far."""

    def of_total(self) -> str:
        """The total in words, marked as an estimate where it is one."""
        return f"{'about ' if self.is_estimate else ''}{self.total}"

    def __str__(self) -> str:
        """A line for people."""
        return f"{self.done} of {self.of_total()}{self.note and f'; {self.note}'}"


_QUIET_SECONDS = 1.5
"""Before it is shown how far a file is read."""
_MEGABYTE = 1_000_000


@contextmanager
def reading() -> "Iterator[Callable[[Path], Callable[[int], None]]]":
    """Gives a function that is asked for each file for one to call with the bytes that are read."""
    with shown("reading", "MB") as update:
        began = time.monotonic()

        def of_file(file: "Path") -> "Callable[[int], None]":
            of_all = file.stat().st_size // _MEGABYTE

            def report(read: int) -> None:
                if time.monotonic() - began > _QUIET_SECONDS:
                    update(Status(read // _MEGABYTE, of_all))

            return report

        yield of_file


@contextmanager
def shown(
    what: str, unit: str = "runs", *, kept: bool = False
) -> "Iterator[Callable[[Status], None]]":
    """Gives a function to call with the state of the work; nothing is shown before that.

    Work of more than a minute is announced on standard error once its first runs allow an estimate.

    Parameters
    ----------
    what
        The work.
    unit
        What is counted, in the plural.
    kept
        Whether finished work is kept if the work is stopped: Ctrl-C then says so.
    """
    console = Console(stderr=True)
    reporter: _Bar | _Json | _Lines | _Notebook
    if _form.get() == "json":
        reporter = _Json(what, unit)
    elif in_notebook():
        reporter = _Notebook(what, unit)
    else:
        reporter = _Bar(what, unit, console) if console.is_terminal else _Lines(what, unit)
    length = _Length(what, unit, kept=kept)
    last: Status | None = None

    def update(status: Status) -> None:
        nonlocal last
        last = status
        length.update(status)
        reporter.update(status)

    try:
        yield update
    except KeyboardInterrupt as interrupt:
        if not kept or last is None:
            raise
        message = (
            f"{last.done} of {last.of_total()} {unit} are finished; the same command continues"
        )
        raise type(interrupt)(message) from None
    finally:
        reporter.close()


def announce(sentence: str) -> None:
    """Prints on standard error how long something takes, before it starts."""
    if _form.get() == "json":
        _write(json.dumps({"message": sentence}, ensure_ascii=False))
    else:
        terminal.say_on_error(f"anabranch: {sentence}")


@contextmanager
def waiting(what: str) -> "Iterator[None]":
    """Shows on a terminal what is going on while nothing can be counted."""
    console = Console(stderr=True)
    is_shown = console.is_terminal and _form.get() == "text"
    with console.status(Text(what)) if is_shown else nullcontext():
        yield


@contextmanager
def steps(what: str, total: int, unit: str = "runs") -> "Iterator[Callable[[], None]]":
    """Gives a function to call after each of `total` steps."""
    done = 0
    with shown(what, unit) as update:

        def step() -> None:
            nonlocal done
            done += 1
            update(Status(done, total))

        if total:
            update(Status(0, total))
        yield step


def each(what: str, items: "Sequence[Item]") -> "Iterator[Item]":
    """Gives the items one by one, and shows how many are done."""
    with steps(what, len(items)) as step:
        for item in items:
            yield item
            step()


class _Rate:
    """Runs per second since the first report, so runs that were finished before do not count."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int) -> float:
        now = time.monotonic()
        if self._first is None:
            self._first = (now, done)
        since, before = self._first
        return (done - before) / max(now - since, 1e-9)


def rate_text(rate: float) -> str:
    """A rate in words; slow work gets decimal places instead of 0."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _left(status: Status, rate: float) -> float:
    """The seconds that are left."""
    return (status.total - status.done) / rate


class _Length:
    """Announces once how long the work takes, if that is long."""

    def __init__(self, what: str, unit: str, *, kept: bool) -> None:
        self._what = what
        self._unit = unit
        self._kept = kept
        self._rate = _Rate()
        self._begun = time.monotonic()
        self._is_judged = False
        self._since_first: _Rate | None = None
        """Counts from the first runs that finish: before them, workers may have had to start."""

    def update(self, status: Status) -> None:
        rate = self._rate(status.done)
        if self._is_judged or rate <= 0:
            return
        if self._since_first is None:
            self._since_first = _Rate()
        later = self._since_first(status.done)
        if later <= 0 or time.monotonic() - self._begun < _JUDGED_SECONDS:
            return
        rate = max(rate, later)
        self._is_judged = True
        seconds = _left(status, rate)
        if seconds <= _LONG_SECONDS or in_notebook():
            return
        sentence = (
            f"{self._what}: {status.total - status.done:,} more {self._unit} take about"
            f" {_duration(seconds)}"
        )
        announce(sentence + "; Ctrl-C stops it, finished ones are kept" * self._kept)


def _duration(seconds: float) -> str:
    """A duration in a unit that suits an estimate."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    return "a minute" if seconds < 90 else f"{seconds / 60:.0f} minutes"


class _Bar:
    def __init__(self, what: str, unit: str, console: Console) -> None:
        self._rate = _Rate()
        self._bar = _WithNote(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.fields[of_total]}"),
            TextColumn("{task.fields[rate]} " + unit + "/s"),
            # Rich's own column starts again with every change of the total.
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._task = self._bar.add_task(what, total=None, rate="0", of_total="", left="")

    def update(self, status: Status) -> None:
        rate = self._rate(status.done)
        self._bar.note = status.note
        self._bar.update(
            self._task,
            completed=status.done,
            total=status.total,
            of_total=status.of_total(),
            rate=rate_text(rate),
            left=str(timedelta(seconds=round(_left(status, rate)))) if rate > 0 else "-:--:--",
        )
        self._bar.start()

    def close(self) -> None:
        self._bar.stop()


def in_notebook() -> bool:
    """Whether this is a notebook, where output is HTML."""
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    return type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


class _Notebook:
    """A bar in the output of a notebook's cell."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._rate = _Rate()
        self._next = 0.0
        self._shown: Any = None

    def update(self, status: Status) -> None:
        rate = self._rate(status.done)
        now = time.monotonic()
        if now < self._next and status.done < status.total:
            return
        self._next = now + _NOTEBOOK_SECONDS
        text = f"{self._what}: {status.done}/{status.of_total()}"
        if rate > 0:
            left = timedelta(seconds=round(_left(status, rate)))
            text += f", {rate_text(rate)} {self._unit}/s, {left} left"
        if status.note:
            text += f"; {status.note}"
        bar = f'<progress value="{status.done}" max="{max(status.total, 1)}"></progress>'
        self._show({"text/html": f"{bar} {html.escape(text)}", "text/plain": text})

    def _show(self, content: dict[str, str]) -> None:
        if self._shown is None:
            display = sys.modules["IPython"].display.display
            self._shown = display(content, raw=True, display_id=True)
        else:
            self._shown.update(content, raw=True)

    def close(self) -> None:
        pass


class _WithNote(Progress):
    note = ""

    def get_renderables(self) -> "Iterable[RenderableType]":
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note)


class _Lines:
    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._rate = _Rate()
        self._begun = time.monotonic()
        self._next = 0.0

    def update(self, status: Status) -> None:
        rate = self._rate(status.done)
        now = time.monotonic()
        if now < self._next and (status.is_estimate or status.done < status.total):
            return
        self._next = now + min(max(_PLAIN_SECONDS, now - self._begun), _MOST_PLAIN_SECONDS)
        line = f"{self._what}: {status.done}/{status.of_total()} {self._unit}"
        if rate > 0:
            line += f", {rate_text(rate)} {self._unit}/s, {_left(status, rate):,.0f} s left"
        if status.note:
            line += f"; {status.note}"
        _write(line)

    def close(self) -> None:
        pass


class _Json:
    """A line for programs, now and then."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._rate = _Rate()
        self._next = 0.0

    def update(self, status: Status) -> None:
        rate = self._rate(status.done)
        now = time.monotonic()
        if now < self._next and (status.is_estimate or status.done < status.total):
            return
        self._next = now + _JSON_SECONDS
        line = {
            "work": self._what,
            "unit": self._unit,
            "done": status.done,
            "total": status.total,
            "total_is_estimate": status.is_estimate,
            "per_s": round(rate, 3) if rate > 0 else None,
            "eta_s": round(_left(status, rate), 1) if rate > 0 else None,
            "note": status.note,
        }
        _write(json.dumps(line, ensure_ascii=False))

    def close(self) -> None:
        pass


def _write(line: str) -> None:
    if sys.stderr is None:  # standard error is closed; `print` would use standard output instead
        return
    # A run is not given up because its progress cannot be printed.
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
