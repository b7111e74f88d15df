"""The axes and values of a paper's runs, and the tables and figures made of them, as described.

`sheet.toml` of a paper's package has

- `axes`: factors of the runs, each with its places in order: what a place is called, its colour;
- `values`: what is computed from a run's scalars, as an SQL expression;
- `tables` and `figures`: which values are shown of which runs, and over which axes. `listed.py`
  makes the tables, `facets.py` draws the figures.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Annotated, Literal, TypeVar

import polars as pl
from pydantic import BaseModel, Field

from anabranch.figures import plots

from .rows import STRICT, Cells
from .runs import Runs, Setting
from .studies import file_text, label

AnyRuns = TypeVar("AnyRuns", bound=Runs)

FILE = "sheet.toml"
Shared = bool | Literal["all", "col", "none", "row"]
VALUES = "values"
"""Panels stand for values where a figure says this in an axis' place."""
_NAMED = {"accent": plots.ACCENT, "black": "black", "quiet": plots.QUIET}
_AXES = {"number": pl.Float64, "text": pl.String, "whole": pl.Int64}


class _Model(BaseModel):
    model_config = STRICT


@dataclass(frozen=True)
class Place:
    """A value of an axis."""

    value: Setting
    title: str
    colour: str
    marker: str


class Axis(_Model):
    """A factor of the runs, or some of its values."""

    of: str = ""
    """The axis of the scenario's sweep; the same name if not given."""
    column: str = ""
    """The factor of which this axis has some values only; it is one itself if not given."""
    kind: Literal["number", "text", "whole"] = "text"
    """What its values are in the runs; a number may be a quantity such as `10 %`."""
    scale: float = 1.0
    """A number is that of the sweep times this."""
    names: dict[str, str] = {}
    """What people call values that are words, in order."""
    file: str = ""
    """A file of the package whose rows have `name` and `title`, instead of `names`."""
    rows: str = ""
    """The table of that file."""
    key: str = "title"
    """The key of its rows that is what people call them."""
    numbers: list[float] = []
    text: str = "{:g}"
    """How a number is written: `{size}` is one in bytes with its unit, `{percent}` a share."""
    colours: list[int | str] = []
    """Of each place: a number of the palette, or a name. In order if not given."""
    markers: str = ""


class Value(_Model):
    """What is computed of every run."""

    of: str
    """SQL of its scalars and of values before it; what `{NAME}` is, the package says."""
    head: str = ""
    digits: Annotated[int, Field(ge=0, le=9)] = 2
    is_less_better: bool = False
    high: float | None = None
    """The highest value that there is: drawn intervals end there."""


class Table(_Model):
    """A table: a row for each combination of the places of its keys."""

    title: str
    study: str
    keys: dict[str, str]
    """Axes with their heads."""
    columns: list[str] | dict[str, str]
    """Values; or texts with their heads, in which `{VALUE:2}` is a mean with two digits and
    `{VALUE:±2}` has its interval."""
    across: str = ""
    """An axis: each column stands once for each of its places."""
    head: str = "{column}, {place}"
    """The heads then."""
    by_place: bool = False
    """Whether all columns of a place stand side by side then; heads are those of `columns`."""
    where: Cells = {}
    has_intervals: bool = True
    texts: int | None = None
    is_merged: bool = False
    lead: str = ""


class Records(_Model):
    """A table with a row for each thing that the package has found, such as a link."""

    title: str
    columns: dict[str, str]
    """Texts with their heads; `{NAME}` is what the package says of the thing, a number as in
    `Table.columns`."""
    keys: int = 1
    lead: str = ""


class Numbers(_Model):
    """A table with a row for each published number."""

    title: str
    keys: dict[str, str]
    """Axes that say what a number is, with their heads."""
    paper: str
    """What was published: `{published:g}`, and `{AXIS}` or `{AXIS_word}` for what people or files
    call what else says what a number is."""
    digits: int = 2
    in_words: bool = False
    """Whether the verdict has a column of its own."""


class DescribedFigure(_Model):
    """A figure: values over the places of an axis, for each place of another, in panels."""

    kind: Literal["bars", "heat", "levels", "lines"]
    study: str
    size: tuple[float, float]
    panel: tuple[float, float] = (0, 0)
    """What each column and each line of panels adds to the size."""
    values: dict[str, str]
    """What is drawn, with its label."""
    where: Cells = {}
    is_balanced: bool = False
    """Whether only replications count that all cells of a panel have."""
    down: str = ""
    """The axis, or `values`, with a line of panels for each place."""
    across: str = ""
    """The same with a column of panels."""
    wrap: int = 0
    """So many panels stand side by side, the others below."""
    spare: int = 0
    """Panels at the end that the package fills."""
    title: str = ""
    """Of each panel: `{AXIS}` is the title of its place, `{label}` and `{name}` are its value's."""
    names: dict[str, str] = {}
    """What a title calls values."""
    labels: Literal["x", "y", "title", "none"] = "y"
    """Where a value's label stands."""
    along: str
    """The axis whose places stand side by side: of lines and heat maps x, of levels y."""
    along_label: str = ""
    series: str = ""
    """The axis with a colour for each place; of a heat map y."""
    has_legend: bool = True
    is_numeric: bool = False
    """Whether places along are where their numbers are, on a logarithmic axis."""
    ticks: list[float] = []
    spread: float = 0.0
    """How far series are moved apart; the factor of it if places are numeric."""
    is_band: bool = False
    is_cut: bool = False
    """Whether intervals are cut to what is above 0."""
    fewest: int = 0
    """With fewer runs a mean has no interval."""
    logarithmic: list[str] = []
    """Values with a logarithmic axis."""
    limits: tuple[float, float] | None = None
    """Of the values' axis, or of the colours; where the axis ends by itself, they are infinite."""
    high: float | None = None
    """The highest value that there is: intervals end there."""
    is_published: bool = False
    """Whether published numbers are drawn, too."""
    colours: str = ""
    """A heat map's colours."""
    bar: str = ""
    """What a heat map's colours mean, beside it."""
    digits: int | None = None
    is_framed: bool = False
    """Whether what may be the best of each line of a heat map is framed."""
    slant: int = 0
    """Degrees by which names along are turned."""
    fill: int = 0
    """Characters on a line of the names along."""
    share: tuple[Shared, Shared] = (False, False)
    """Whether panels share x and y: `row` and `col`, too."""
    runs: str = "Means of {} runs"
    """What the page says of the number of runs."""


class Count(_Model):
    """What the page says of the number of runs behind a figure that the package draws."""

    text: str
    """`{}` is the number."""
    study: str = ""
    where: Cells = {}
    each: str = ""
    """An axis: the number is said for each of its places then."""
    one: str = "{runs} ({place})"
    """How it is said of a place."""
    between: str = ", "


class _File(_Model):
    axes: dict[str, Axis] = {}
    values: dict[str, Value] = {}
    tables: dict[str, Table] = {}
    records: dict[str, Records] = {}
    numbers: dict[str, Numbers] = {}
    figures: dict[str, DescribedFigure] = {}
    counts: dict[str, Count] = {}


class Sheet:
    """What a package's `sheet.toml` says."""

    def __init__(self, package: str) -> None:
        self.package = package
        tree = tomllib.loads(file_text(package, FILE))
        for rows in tree.values():
            for name, row in rows.items():
                rows[name] = rows[row.pop("like")] | row if "like" in row else row
        self._file = _File.model_validate(tree)
        self.axes, self.values = self._file.axes, self._file.values
        self.tables, self.figures = self._file.tables, self._file.figures
        self.records, self.numbers = self._file.records, self._file.numbers
        self.counts = self._file.counts

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        """The scalars of a run that values are computed from."""
        roots = (root for value in self.values.values() for root in _roots(value.of))
        return tuple(dict.fromkeys(root for root in roots if root not in self.values))

    def column(self, axis: str) -> str:
        """The factor that an axis has values of."""
        return self.axes[axis].column or axis

    def places(self, axis: str, runs: Runs | None = None) -> list[Place]:
        """The places of an axis; only those that runs have, if given."""
        row = self.axes[axis]
        if row.file:
            listed = _rows(self.package, row.file)[row.rows]
            named: list[tuple[Setting, str]] = [(one["name"], one[row.key]) for one in listed]
        else:
            named = [*row.names.items(), *((one, _written(row, one)) for one in row.numbers)]
        there = None if runs is None else set(runs.frame[self.column(axis)].unique())
        colours = row.colours or list(range(len(named)))
        return [
            Place(value, title, _colour(colours[index]), row.markers[index] if row.markers else "o")
            for index, (value, title) in enumerate(named)
            if there is None or value in there
        ]

    def colours(self, axis: str) -> dict[str, str]:
        """The colour of each place."""
        return {str(place.value): place.colour for place in self.places(axis)}

    def title(self, axis: str, value: Setting) -> str:
        """What people call a place."""
        return next(place.title for place in self.places(axis) if place.value == value)

    def said(self, axis: str, value: Setting) -> str:
        """What people call a value of an axis; as it is where there is no such axis or place."""
        places = self.places(axis) if axis in self.axes else []
        return next((place.title for place in places if place.value == value), str(value))

    def tidy(self, rows: pl.DataFrame, **words: float | str) -> pl.DataFrame:
        """A study's rows with factors, `replication`, and the values whose scalars are there.

        `words` are the numbers and names that stand in braces in values.
        """
        swept = [name for name in rows.columns if "." not in name and name != "cell"]
        frame = rows
        known = {row.of or name: name for name, row in self.axes.items() if not row.column}
        kept = []
        for name in swept:
            axis = known.get(name, name)
            kept.append(axis)
            if name == "replication":
                frame = frame.with_columns(pl.col(name).cast(pl.Int64))
            elif name in known:
                row = self.axes[axis]
                values = rows[name].unique().to_list()
                read = pl.Series([_read(row, value) for value in values], dtype=_AXES[row.kind])
                frame = frame.with_columns(
                    pl.col(name).replace_strict(values, read, return_dtype=read.dtype).alias(axis)
                )
        for name, value in self.values.items():
            of = pl.sql_expr(value.of.format_map(words))
            if set(of.meta.root_names()) <= set(frame.columns):
                frame = frame.with_columns(of.alias(name))
                kept.append(name)
        return frame.select(kept)


def together(runs: Mapping[str, AnyRuns], axis: str) -> AnyRuns:
    """Runs under several profiles as one, whose factor `axis` says which of them."""
    frames = [one.frame.with_columns(pl.lit(name).alias(axis)) for name, one in runs.items()]
    first = next(iter(runs.values()))
    return replace(first, frame=pl.concat(frames, how="diagonal"))


def size(size_bytes: float) -> str:
    """64 B, 4 KB: as papers write sizes."""
    return f"{size_bytes:g} B" if size_bytes < 1024 else f"{size_bytes / 1024:g} KB"


def _roots(sql: str) -> list[str]:
    """The columns that an expression reads, in its order; numbers of the package stand as 1."""
    return pl.sql_expr(re.sub(r"\{\w+\}", "1", sql)).meta.root_names()


@cache
def _rows(package: str, file: str) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """The rows of a file of a package, by their table."""
    return tomllib.loads(file_text(package, file))


def _written(row: Axis, number: float) -> str:
    return row.text.format(number, size=size(number), percent=plots.percent(number))


def _read(row: Axis, value: Setting) -> Setting:
    if row.kind == "text":
        return str(value)
    number = round(float(label(value) if isinstance(value, str) else value) * row.scale, 6)
    return round(number) if row.kind == "whole" else number


def _colour(colour: int | str) -> str:
    return _NAMED[colour] if isinstance(colour, str) else plots.COLOURS[colour % len(plots.COLOURS)]
