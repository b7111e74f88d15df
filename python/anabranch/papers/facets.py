"""Figures as `sheet.toml` describes them: lines, bars, levels and heat maps, in panels."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from anabranch.figures import plots

from . import choice
from .intervals import Interval
from .plots import (
    Style,
    band,
    bar_groups,
    colour_bar,
    dot,
    named_lines,
    named_places,
    paper_mark,
    ranges,
    stroke,
)
from .rows import Cells
from .runs import Runs
from .sheet import VALUES, Count, DescribedFigure, Place, Sheet

Published = Callable[[str, Cells], Sequence[float]]
"""The published numbers of a value in some cells."""


@dataclass(frozen=True)
class Panel:
    """One panel of a figure."""

    axes: Axes
    cells: Cells
    """The places that it stands for."""
    value: str
    label: str
    runs: Runs
    is_first: bool
    """Whether it is the first of its line."""
    is_last: bool
    """Whether it is the last of its column."""


@dataclass(frozen=True)
class Facets:
    """A described figure, to be drawn."""

    sheet: Sheet
    row: DescribedFigure
    runs: Runs
    published: Published = lambda _value, _cells: ()
    decorate: Callable[[Panel], None] = lambda _: None
    """Draws what only this figure has."""
    handles: Sequence[Artist] = ()
    """Further entries of the legend."""

    def draw(self) -> Figure:
        """The figure."""
        row = self.row
        rules: Any = {"axes.grid.axis": "x"} if row.kind == "levels" else {}
        with plots.style(), mpl.rc_context(rules):
            figure, panels = self._panels()
            images = [one for panel in panels for one in [self._fill(panel)] if one is not None]
            for panel in panels:
                self._finish(panel)
                if row.kind == "levels" and row.series:
                    panel.axes.grid(visible=True, axis="both")
            if row.bar:
                shown = [panel.axes for panel in panels]
                colour_bar(figure, images[-1], shown if len(shown) > 1 else shown[0], row.bar)
            handles = [*self._handles(), *self.handles] if row.has_legend else list(self.handles)
            if row.is_published:
                handles.append(paper_mark())
            plots.legend(figure, handles)
            return figure

    def _panels(self) -> tuple[Figure, list[Panel]]:
        row = self.row
        down, across = (self._dimension(axis) for axis in (row.down, row.across))
        columns = min(row.wrap, len(across)) or len(across) + row.spare
        lines = math.ceil(len(across) / columns) if row.wrap else len(down)
        (width, height), (wider, higher) = row.size, row.panel
        figure = plots.blank(width + wider * columns, height + higher * lines)
        share_x, share_y = row.share
        grid = figure.subplots(lines, columns, sharex=share_x, sharey=share_y, squeeze=False)
        made = []
        for index, axes in enumerate(grid.flat):
            line, column = divmod(index, columns)
            if row.wrap:
                if index >= len(across):
                    axes.set_visible(False)
                    continue
                places = {row.across: across[index]}
            elif column >= len(across):
                continue
            else:
                places = {row.down: down[line], row.across: across[column]}
            value, label = next(iter(row.values.items()))
            cells: Cells = {}
            titles: dict[str, str] = {}
            for axis, place in places.items():
                if place is None:
                    continue
                if axis == VALUES:
                    value, label = str(place.value), place.title
                else:
                    cells[self.sheet.column(axis)] = place.value
                    titles[axis] = place.title
            runs = self.runs.where(**cells)
            runs = runs.balanced() if row.is_balanced else runs
            is_last = line == lines - 1 or (row.wrap > 0 and index + columns >= len(across))
            made.append(Panel(axes, cells, value, label, runs, column == 0, is_last))
            is_named = line == 0 or row.down != VALUES or not row.across
            if row.title and is_named:
                names = {"label": label, "name": row.names.get(value, ""), **titles}
                axes.set_title(row.title.format_map(names))
        if row.wrap and row.labels == "y":
            figure.supylabel(next(iter(row.values.values())))
        return figure, made

    def _dimension(self, axis: str) -> Sequence[Place | None]:
        if axis == VALUES:
            return [Place(name, label, "", "") for name, label in self.row.values.items()]
        return self.sheet.places(axis, self.runs) if axis else [None]

    def _fill(self, panel: Panel) -> AxesImage | None:
        kinds = {"bars": self._bars, "heat": self._heat, "levels": self._levels}
        image = kinds.get(self.row.kind, self._lines)(panel)
        self.decorate(panel)
        return image

    def _finish(self, panel: Panel) -> None:
        row, axes = self.row, panel.axes
        is_log = panel.value in row.logarithmic
        axis = axes.xaxis if row.kind == "levels" else axes.yaxis
        if is_log:
            plots.logarithmic(axis)
            if row.kind == "levels":
                axis.set_minor_formatter(NullFormatter())
        elif row.kind != "heat" and row.limits is not None:
            low, high = (one if math.isfinite(one) else None for one in row.limits)
            (axes.set_xlim if row.kind == "levels" else axes.set_ylim)(low, high)
        are_told = row.across == VALUES and len(set(row.values.values())) > 1
        is_labelled = panel.is_first or are_told
        if row.labels == "x" or (row.labels == "y" and is_labelled and not row.wrap):
            (axes.set_xlabel if row.labels == "x" else axes.set_ylabel)(panel.label)
        if row.along_label and panel.is_last and row.kind != "levels":
            axes.set_xlabel(row.along_label)

    def _mean(self, runs: Runs, panel: Panel, cells: Cells) -> Interval:
        mean = runs.where(**cells).mean(panel.value)
        return mean._replace(half_width=0.0) if mean.n < self.row.fewest else mean

    def _along(self) -> list[Place]:
        return self.sheet.places(self.row.along, self.runs)

    def _series(self) -> list[Place]:
        return self.sheet.places(self.row.series, self.runs)

    def _lines(self, panel: Panel) -> None:
        row, axes = self.row, panel.axes
        along, column = self._along(), self.sheet.column(row.along)
        series = self._series()
        if row.is_numeric:
            plots.logarithmic(axes.xaxis)
        for index, one in enumerate(series):
            own = panel.runs.where(**{self.sheet.column(row.series): one.value})
            there = [place for place in along if place.value in set(own.frame[column])]
            means = [self._mean(own, panel, {column: place.value}) for place in there]
            apart = index - (len(series) - 1) / 2
            x = (
                [float(place.value) * (row.spread or 1.0) ** apart for place in there]
                if row.is_numeric
                else [along.index(place) + row.spread * apart for place in there]
            )
            if row.is_band:
                band(axes, x, means, one.colour)
                continue
            style: Style = {"markersize": 3.5, "linewidth": 1.3, "elinewidth": 1}
            ranges(
                axes,
                x,
                means,
                one.colour,
                is_cut=row.is_cut,
                high=self._high(panel),
                marker=one.marker,
                **style,
            )
        if row.is_numeric:
            axes.set_xticks(row.ticks, [f"{tick:g}" for tick in row.ticks])
            axes.minorticks_off()
        else:
            axes.set_xticks(range(len(along)), [place.title for place in along])

    def _bars(self, panel: Panel) -> None:
        row = self.row
        groups, bars = self._along(), self._series() if row.series else [None]
        columns = self.sheet.column(row.along), self.sheet.column(row.series) if row.series else ""

        def cells(group: int, bar: int) -> Cells:
            one = bars[bar]
            there: Cells = {columns[0]: groups[group].value}
            return there if one is None else there | {columns[1]: one.value}

        bar_groups(
            panel.axes,
            [self._name(place) for place in groups],
            [plots.COLOURS[0] if one is None else one.colour for one in bars],
            lambda group, bar: self._mean(panel.runs, panel, cells(group, bar)),
            published=lambda group, bar: (
                self.published(panel.value, panel.cells | cells(group, bar))
                if row.is_published
                else ()
            ),
            is_logarithmic=panel.value in row.logarithmic,
            high=self._high(panel),
        )
        if row.slant:
            named_places(
                panel.axes, [self._name(one) for one in groups], rotation=row.slant, ha="right"
            )

    def _levels(self, panel: Panel) -> None:
        row, axes = self.row, panel.axes
        along, series = self._along(), self._series() if row.series else [None]
        for line, place in enumerate(along):
            for index, one in enumerate(series):
                cells: Cells = {self.sheet.column(row.along): place.value}
                if one is not None:
                    cells[self.sheet.column(row.series)] = one.value
                mean = self._mean(panel.runs, panel, cells)
                low = 0.1 * mean.mean if panel.value in row.logarithmic else 0.0
                axes.errorbar(
                    mean.mean,
                    line + row.spread * (index - (len(series) - 1) / 2),
                    xerr=plots.bar(*mean[:2], low=low)
                    if row.is_cut
                    else plots.finite(mean.half_width),
                    color=place.colour if one is None else one.colour,
                    marker="o",
                    markersize=4,
                    capsize=2,
                    elinewidth=1,
                )
        axes.tick_params(axis="y", length=0)
        if panel.is_first:
            named_lines(axes, [place.title for place in along])

    def _heat(self, panel: Panel) -> AxesImage:
        row, value = self.row, self.sheet.values[panel.value]
        lines, columns = self._series(), self._along()
        names = self.sheet.column(row.series), self.sheet.column(row.along)
        own = [panel.runs.where(**{names[0]: line.value}) for line in lines]
        grid = [
            [runs.where(**{names[1]: place.value}).mean(panel.value).mean for place in columns]
            for runs in own
        ]
        image = plots.heat(
            panel.axes,
            grid,
            row.limits,
            [self._name(place) for place in columns],
            [place.title for place in lines],
            digits=value.digits if row.digits is None else row.digits,
            colours=row.colours or ("cividis_r" if value.is_less_better else "cividis"),
        )
        if row.slant and panel.is_last:
            panel.axes.set_xticks(
                range(len(columns)),
                [self._name(one) for one in columns],
                rotation=row.slant,
                ha="right",
            )
        if row.is_framed:
            kinds = [place.value for place in columns]
            for line, runs in enumerate(own):
                best = choice.best(runs, [names[1]], panel.value, maximise=not value.is_less_better)
                plots.frame_cells(panel.axes, ((kinds.index(one), line) for one in best.candidates))
        return image

    def _high(self, panel: Panel) -> float:
        known = (self.row.high, self.sheet.values[panel.value].high)
        return min((one for one in known if one is not None), default=math.inf)

    def _name(self, place: Place) -> str:
        return textwrap.fill(place.title, self.row.fill) if self.row.fill else place.title

    def _handles(self) -> list[Artist]:
        row = self.row
        if not row.series or row.kind == "heat":
            return []
        made: list[Artist] = []
        for place in self._series():
            if row.kind == "bars":
                made.append(Patch(color=place.colour, label=place.title))
            elif row.kind == "levels":
                made.append(dot(place.title, place.colour))
            elif row.is_band:
                made.append(stroke(place.title, place.colour))
            else:
                made.append(stroke(place.title, place.colour, marker=place.marker))
        return made


def of(
    drawn: Sheet,
    studies: Mapping[str, Runs],
    published: Published = lambda _value, _cells: (),
) -> dict[str, Callable[[], Figure]]:
    """The described figures by file name, drawn when called; those whose runs there are."""
    return {
        name: partial(_drawn, drawn, row, studies, published)
        for name, row in drawn.figures.items()
        if row.study in studies
    }


def _drawn(
    drawn: Sheet, row: DescribedFigure, studies: Mapping[str, Runs], published: Published
) -> Figure:
    return Facets(drawn, row, studies[row.study].where(**row.where), published).draw()


def counts(drawn: Sheet, studies: Mapping[str, Runs]) -> dict[str, str]:
    """Figure -> how many runs its numbers come from."""
    rows = {
        name: Count(study=row.study, where=row.where, text=row.runs)
        for name, row in drawn.figures.items()
        if row.study in studies
    }
    return {name: _counted(drawn, row, studies) for name, row in (rows | drawn.counts).items()}


def _counted(drawn: Sheet, row: Count, studies: Mapping[str, Runs]) -> str:
    if not row.study:
        return row.text
    runs = studies[row.study].where(**row.where)
    if not row.each:
        return row.text.format(runs.repeated)
    column = drawn.column(row.each)
    said = (
        row.one.format(runs=runs.where(**{column: place.value}).repeated, place=place.title)
        for place in drawn.places(row.each, runs)
    )
    return row.text.format(row.between.join(said))
