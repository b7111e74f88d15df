"""Tables for people: the same on a terminal and in a pipe, with numbers never cut off."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table

from anabranch.support.wording import fit, groups, harmless, number, told_apart

if TYPE_CHECKING:
    import polars as pl


MARKS = {"best": "*", "open": "*", "equal": "=", "worse": ""}
"""The mark of a cell in a table, by its verdict (`stats.verdicts`)."""


def console() -> Console:
    """A console on standard output, as wide as the terminal.

    In a pipe it is as wide as the environment's `COLUMNS` says, or else as its content needs.
    """
    out = _Console()
    is_wide = out.is_terminal or os.environ.get("COLUMNS", "").isdecimal()
    return out if is_wide else _Console(width=10_000)


def say(text: str) -> None:
    """Prints prose on standard output, broken between words where a terminal needs it."""
    console().print(text)


def say_on_error(text: str) -> None:
    """Prints prose on standard error: in a pipe one line, so that programs can read it."""
    # Where standard error is closed or full, the exit code still tells of an error.
    if sys.stderr is not None:
        out = _Console(stderr=True)
        with suppress(OSError):
            out.print(text, soft_wrap=not out.is_terminal)


class _Console(Console):
    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        # Names and labels come from files: `[/x]` and `:x:` in them stand for themselves, and
        # control characters steer nothing (`render`).
        super().__init__(highlight=False, markup=False, emoji=False, width=width, stderr=stderr)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Leaves a broken pipe to the command line, which knows the exit code."""
        raise BrokenPipeError


def summary(scalars: Mapping[str, float]) -> Table:
    """Every scalar of a run."""
    table = _table(("scalar", "value"), right=(1,))
    part = None
    for name, value in scalars.items():
        if part not in (None, name.partition(".")[0]):
            table.add_section()
        part = name.partition(".")[0]
        table.add_row(name, number(value))
    return table


def cells(
    frame: "pl.DataFrame",
    axes: Sequence[str],
    metric: str,
    width: int,
    shown: Callable[[str, Any], str],
) -> Group:
    """Mean and interval of a metric for each cell; a star for those that may be the best.

    `shown` writes a value of an axis.

    `frame` has the columns of `stats.cells`, and `verdict` if it is known what is good. Cells that
    are equal to the best have an equals sign. If all cells are as good, none has a mark.
    """
    starred = "verdict" in frame.columns and "worse" in frame["verdict"]
    heads = [*axes, metric, "± 95 %", "runs", *(["best"] if starred else [])]
    columns = [[shown(axis, value) for value in frame[axis]] for axis in axes]
    columns.append([number(mean, 4) for mean in frame["mean"]])
    columns.append([number(half_width, 2) for half_width in frame["half_width"]])
    columns.append([number(n) for n in frame["n"]])
    if starred:
        columns.append([MARKS[verdict] for verdict in frame["verdict"]])
    return side_by_side(heads, zip(*columns, strict=True), width, len(axes))


def frame(rows: "pl.DataFrame", width: int, axes: Iterable[str] = ()) -> Group:
    """Rows of any kind, in several tables if their columns do not fit side by side.

    Different values of `axes` get different texts.
    """
    known = [name for name in rows.columns[:4] if name in ("study", "cell", "replication")]
    columns = [
        told_apart(column)
        if column.name in axes and column.dtype.is_float()
        else map(_cell, column)
        for column in rows
    ]
    lines = list(zip(*columns, strict=True))
    return side_by_side(rows.columns, lines, width, max(len(known), 1))


def emodel(terms: Iterable[tuple[str, float | str, str]]) -> Table:
    """The terms of the E-model."""
    table = _table(("term", "value", "what it is"), right=(1,))
    for name, value, meaning in terms:
        table.add_row(name, number(value), meaning)
    return table


def choices(rows: Iterable[Sequence[str]], *heads: str) -> Table:
    """Names, and a line about each."""
    table = _table(heads)
    for row in rows:
        table.add_row(*row)
    return table


def plain(heads: Sequence[str], words: int) -> Table:
    """An empty table whose first `words` columns have words, and the others numbers."""
    return _table(heads, right=range(words, len(heads)))


def side_by_side(
    heads: Sequence[str], rows: Iterable[Sequence[str]], width: int, keys: int
) -> Group:
    """Numbers as text, each beside its counterpart.

    There are as many tables, one below the other, as a terminal of this width needs; the first
    `keys` columns identify a row and are in all of them. Where the keys leave no room for another
    column, each row is a block of lines, one for each column.
    """
    lines = [list(row) for row in rows]
    if not fit(heads, lines, width, keys):
        return Group(*(_block(heads, line) for line in lines))
    tables = []
    for kept in groups(heads, lines, width, keys):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i in kept:
            table.add_column(heads[i], justify="right", overflow="fold")
        for line in lines:
            table.add_row(*(line[i] for i in kept))
        tables.append(table)
    return Group(*tables)


def _block(heads: Sequence[str], line: Sequence[str]) -> Table:
    """A row of a table as a line for each column: its head, and its value."""
    block = Table(box=None, pad_edge=False, show_header=False, title="", title_justify="left")
    block.add_column(overflow="fold")
    block.add_column(overflow="fold")
    for head, value in zip(heads, line, strict=True):
        block.add_row(head, value)
    return block


def _cell(value: object) -> str:
    if value is None or isinstance(value, float | str | bool | int):
        return number(value)
    return str(value)


def _table(heads: Sequence[str], right: Iterable[int] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rights = set(right)
    for i, head in enumerate(heads):
        # Keys and numbers are never broken in two; words wrap to the next line.
        table.add_column(
            head,
            justify="right" if i in rights else "left",
            overflow="fold",
            no_wrap=i in rights or i == 0,
        )
    return table
