"""Tables for people: the same in a terminal and in a pipe, numbers never cut off."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table

if TYPE_CHECKING:
    import polars as pl


MOST_DIGITS = 17
"""As many as tell any two numbers apart."""

_GAP = 3
"""Characters between two columns."""


def console() -> Console:
    """Standard output; in a pipe as wide as its content needs."""
    out = _Console(highlight=False)
    return out if out.is_terminal else _Console(highlight=False, width=10_000)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which knows the exit code."""
        raise BrokenPipeError


def number(value: float | str | bool | None, digits: int = 6) -> str:  # noqa: FBT001 - a table's cell
    """A number as people write it: no trailing zeros, no exponent for what fits; a dash for NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def counted(count: int, thing: str) -> str:
    """A number of things in words: `1 row`, `2,000 rows`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def told_apart(
    values: Iterable[Any], digits: int = 6, write: Callable[[Any, int], str] = number
) -> list[str]:
    """Values as `number` writes them; those that would look alike have as many digits as differ."""
    values = list(values)
    alike, texts = list(dict.fromkeys(values)), dict[Any, str]()
    for more in range(digits, MOST_DIGITS + 1):
        texts |= (written := {value: write(value, more) for value in alike})
        counts = Counter(written.values())
        alike = [value for value in alike if counts[written[value]] > 1 and not _is_nan(value)]
        if not alike:
            break
    return [texts[value] for value in values]


def _is_nan(value: object) -> bool:
    return value is None or value != value  # noqa: PLR0124 - NaN differs from itself


def key_text(
    key: Mapping[str, float | str | bool], among: Mapping[str, Iterable[Any]] | None = None
) -> str:
    """A cell's place on the axes, `rto_max = 0.1, pmr = 0`.

    `among` has other values of the axes; a value does not look like one of those.
    """
    others = among or {}
    return ", ".join(
        f"{name} = {told_apart([*others.get(name, ()), value])[-1]}" for name, value in key.items()
    )


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


def cells(frame: "pl.DataFrame", axes: Sequence[str], metric: str) -> Table:
    """Mean and interval of a metric for each cell; a star for those that may be the best.

    `frame` has the columns of `stats.cells`, and `best` where that is known. Where all may be the
    best, none has a star.
    """
    heads = [*axes, metric, "± 95 %", "runs"]
    starred = "best" in frame.columns and not frame["best"].all()
    table = _table([*heads, "best"] if starred else heads, right=range(len(axes), len(heads)))
    shown = zip(*(told_apart(frame[axis]) for axis in axes), strict=True) if axes else None
    for row in frame.iter_rows(named=True):
        star = ["*" if row["best"] else ""] if starred else []
        table.add_row(
            *(next(shown) if shown else ()),
            number(row["mean"], 4),
            number(row["half_width"], 2),
            number(row["n"]),
            *star,
        )
    return table


def frame(rows: "pl.DataFrame", width: int, axes: Iterable[str] = ()) -> Group:
    """Rows of any kind, below each other where their columns do not fit beside each other.

    Different values of `axes` do not look alike.
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


def side_by_side(
    heads: Sequence[str], rows: Iterable[Sequence[str]], width: int, keys: int
) -> Group:
    """Numbers as text, each beside its counterpart.

    As many tables, one below the other, as a terminal of this width needs; the first `keys` columns
    say what a row is and stand in all of them.
    """
    lines = [list(row) for row in rows]
    tables = []
    for kept in groups(heads, lines, width, keys):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i in kept:
            table.add_column(heads[i], justify="right", overflow="fold")
        for line in lines:
            table.add_row(*(line[i] for i in kept))
        tables.append(table)
    return Group(*tables)


def groups(
    heads: Sequence[str], rows: Iterable[Sequence[str]], width: int, keys: int
) -> list[list[int]]:
    """The columns of each table where one with all of them would be too wide, none cut off.

    Each begins with the first `keys` columns; where there are no others, they are the one table.
    """
    widths = [max(map(len, column)) + _GAP for column in zip(heads, *rows, strict=True)]
    left = width + 1 - sum(widths[:keys])
    found: list[list[int]] = []
    for i in range(keys, len(heads)):
        if not found or sum(widths[j] for j in (*found[-1], i)) > left:
            found.append([])
        found[-1].append(i)
    return [[*range(keys), *group] for group in found or [[]]]


def _cell(value: object) -> str:
    if value is None or isinstance(value, float | str | bool | int):
        return number(value)
    return str(value)


def _table(heads: Sequence[str], right: Iterable[int] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rights = set(right)
    for i, head in enumerate(heads):
        # What names a row is never broken in two, nor a number; words go to the next line.
        table.add_column(
            head,
            justify="right" if i in rights else "left",
            overflow="fold",
            no_wrap=i in rights or i == 0,
        )
    return table
