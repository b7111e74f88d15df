"""A table as a value, shown alike on a terminal, on a page and in a record."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from rich.table import Table as RichTable
from rich.text import Text

Shade = Literal["reproduced", "partly", "not_reproduced", "open"]
"""How a number came out, in the words of the pages' styles."""

STYLES: dict[Shade, str] = {
    "reproduced": "green",
    "partly": "yellow",
    "not_reproduced": "red",
    "open": "dim",
}
"""The colours of a terminal."""
_LONG = 20
"""A key of more characters may be broken into lines on a terminal."""
_HEAD = 7
"""Characters that a number's head may have on a line, however short its numbers are."""


@dataclass(frozen=True)
class Cell:
    """What stands in one place."""

    text: str
    shade: Shade | None = None
    note: str = ""
    """What stands beside or below it, smaller or dimmer; not in a record."""

    @property
    def in_words(self) -> str:
        """As where there are no colours."""
        return self.text if self.shade is None else f"{self.text}, {self.shade.replace('_', ' ')}"


@dataclass(frozen=True)
class Table:
    """Rows under heads."""

    title: str
    heads: Sequence[str]
    """With units."""
    rows: Sequence[Sequence[Cell | str]]
    keys: int = 1
    """The first columns, which say what a row is: their text may be broken."""
    is_merged: bool = False
    """On a page rows that begin alike have their common key once."""
    lead: str = ""
    """How to read it, in a record."""
    bands: Sequence[tuple[str, int]] = ()
    """On a page, heads above those of the numbers, each over so many of them."""
    is_dense: bool = False
    """On a terminal without lines between the columns: for many narrow ones."""

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows, text as cells without a shade."""
        return [[Cell(one) if isinstance(one, str) else one for one in row] for row in self.rows]

    def first(self, columns: int) -> "Table":
        """It with so many columns, for a narrow terminal."""
        return replace(self, heads=self.heads[:columns], rows=[row[:columns] for row in self.rows])

    def rich(self) -> RichTable:
        """For a terminal: keys at the left, numbers at the right, shades as colours."""
        grid = titled(self.title)
        if self.is_dense:
            grid.box, grid.padding = None, (0, 1, 0, 0)
        for column, head in enumerate(self.heads):
            texts = [row[column].text for row in self.cells]
            widest = max(map(len, texts), default=0)
            if column >= self.keys:
                name = textwrap.fill(head, max(widest, _HEAD), break_long_words=False)
                # Two numbers may stand on two lines.
                whole = not any(", " in text for text in texts)
                grid.add_column(name, justify="right", no_wrap=whole)
            elif widest > _LONG:
                words = (word for text in texts for word in text.split())
                grid.add_column(head, ratio=1, min_width=max(map(len, words)))
            else:
                grid.add_column(head, no_wrap=True)
        for row in self.cells:
            grid.add_row(*map(_styled, row))
        return grid

    def markdown(self) -> list[str]:
        """The lines of a record: title, lead, rows; shades in words."""
        lead = [self.lead, ""] if self.lead else []
        rows = (line(*(cell.in_words for cell in row)) for row in self.cells)
        return [f"## {self.title}", "", *lead, *head(*self.heads), *rows]

    @property
    def groups(self) -> list[list[list[Cell]]]:
        """Rows whose first keys are equal, one after the other."""
        return [list(group) for _, group in groupby(self.cells, key=lambda row: row[0].text)]

    @staticmethod
    def is_shared(group: Sequence[Sequence[Cell]], column: int) -> bool:
        """Whether all rows of a group have the same text in a column."""
        return len({row[column].text for row in group}) == 1


def _styled(cell: Cell) -> Text:
    """A cell for a terminal."""
    style = STYLES[cell.shade] if cell.shade else ""
    return (
        Text.assemble((cell.text, style), (cell.note, "dim"))
        if cell.note
        else Text(cell.text, style)
    )


def titled(title: str) -> RichTable:
    """A table for a terminal, without columns yet."""
    return RichTable(title=title, title_justify="left", show_edge=False, pad_edge=False)


def head(*names: str) -> list[str]:
    """The first two lines of a table in Markdown."""
    return [line(*names), line(*["---"] * len(names))]


def line(*cells: str) -> str:
    """A line of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def known(value: float, digits: int) -> str:
    """A number, a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
