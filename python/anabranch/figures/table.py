"""A table as a value, with the same content on a terminal, on a page and in a record."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from rich.table import Table as RichTable
from rich.text import Text

Shade = Literal["reproduced", "partly", "not_reproduced", "open"]
"""The verdict on a number, in the words of the pages' styles."""

STYLES: dict[Shade, str] = {
    "reproduced": "green",
    "partly": "yellow",
    "not_reproduced": "red",
    "open": "dim",
}
"""The terminal colour of each shade."""
_LONG = 20
"""A key with more characters may be broken into lines on a terminal."""
_HEAD = 7
"""Characters on a line of a number's head, even if its numbers are shorter."""


@dataclass(frozen=True)
class Cell:
    """The content of one cell."""

    text: str
    shade: Shade | None = None
    note: str = ""
    """What stands beside or below it, smaller or dimmer; not in a record."""

    @property
    def in_words(self) -> str:
        """The text with the shade in words, for output without colours."""
        return self.text if self.shade is None else f"{self.text}, {self.shade.replace('_', ' ')}"


@dataclass(frozen=True)
class Table:
    """Rows under heads."""

    title: str
    heads: Sequence[str]
    """The heads of the columns, with units."""
    rows: Sequence[Sequence[Cell | str]]
    keys: int = 1
    """How many of the first columns say what a row is: their text may be broken."""
    is_merged: bool = False
    """Whether, on a page, rows with equal keys show the common key once."""
    lead: str = ""
    """How to read it, in a record."""
    bands: Sequence[tuple[str, int]] = ()
    """On a page, heads above those of the numbers, each over so many of them."""
    is_dense: bool = False
    """On a terminal without lines between the columns: for many narrow ones."""

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows, with plain text as cells without a shade."""
        return [[Cell(one) if isinstance(one, str) else one for one in row] for row in self.rows]

    def first(self, columns: int) -> "Table":
        """The table with only its first columns, for a narrow terminal."""
        return replace(self, heads=self.heads[:columns], rows=[row[:columns] for row in self.rows])

    def rich(self) -> RichTable:
        """The table for a terminal: keys left-aligned, numbers right-aligned, shades as colours."""
        grid = titled(self.title)
        if self.is_dense:
            grid.box, grid.padding = None, (0, 1, 0, 0)
        for column, head in enumerate(self.heads):
            texts = [row[column].text for row in self.cells]
            widest = max(map(len, texts), default=0)
            if column >= self.keys:
                name = textwrap.fill(head, max(widest, _HEAD), break_long_words=False)
                # A cell with two numbers may be split into two lines.
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
        """The lines of a record: title, lead and rows, with shades in words."""
        lead = [self.lead, ""] if self.lead else []
        rows = (line(*(cell.in_words for cell in row)) for row in self.cells)
        return [f"## {self.title}", "", *lead, *head(*self.heads), *rows]

    @property
    def groups(self) -> list[list[list[Cell]]]:
        """Groups of consecutive rows whose first keys are equal."""
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
    """A table for a terminal with this title, still without columns."""
    return RichTable(title=title, title_justify="left", show_edge=False, pad_edge=False)


def head(*names: str) -> list[str]:
    """The first two lines of a table in Markdown."""
    return [line(*names), line(*["---"] * len(names))]


def line(*cells: str) -> str:
    """A line of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def known(value: float, digits: int) -> str:
    """A number, or a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
