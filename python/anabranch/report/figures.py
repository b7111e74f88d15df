"""Figures of a report about one scalar."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anabranch.figures import marks, plots
from anabranch.figures.marks import Mark

from .analysis import Analysis, Axis, Effect

MOST_BOXES = 16
"""The most cells whose runs are shown as boxes."""

_PANELS = 3
"""Panels side by side."""

_MOST_LINES = 6
"""The most values of an axis that are told apart by colour."""

_QUANTILES = 21
"""Places of a distribution that answer to a pointer."""

_LONG = 14
"""The longest label, in characters, that is written horizontally below an axis."""


def main_effects(analysis: Analysis) -> Figure:
    """A panel for each axis: the mean at each of its values over all cells, with its interval."""
    axes = analysis.axes
    lines = math.ceil(len(axes) / _PANELS)
    with plots.style():
        height = 3.2 if any(map(_is_crowded, axes)) else 2.7
        figure = plots.blank(2.7 * min(len(axes), _PANELS) + 0.6, height * lines)
        panels = figure.subplots(lines, min(len(axes), _PANELS), sharey=True, squeeze=False).flat
        for panel, axis in zip_longest(panels, axes):
            if axis is None:
                panel.set_visible(False)
                continue
            effects = analysis.effects(axis)
            _points(panel, range(len(axis.labels)), effects, color=plots.COLOURS[0])
            _mark(panel, analysis, [axis], list(enumerate(effects)))
            _ticks(panel, axis)
        for first in list(figure.axes)[::_PANELS]:
            first.set_ylabel(analysis.metric)
        return figure


def interaction(analysis: Analysis, one: Axis, other: Axis) -> Figure:
    """The mean over the axis with more values, with a line for each value of the other axis."""
    across, by = sorted((one, other), key=lambda axis: -len(axis.labels))
    effects = {effect.labels: effect for effect in analysis.interaction(across, by)}
    shown = _spread(len(by.labels), _MOST_LINES)
    with plots.style():
        figure = plots.blank(6.4, 3.6)
        panel = figure.subplots()
        handles = []
        for k, i in enumerate(shown):
            line: dict[str, Any] = {"color": plots.COLOURS[k]}
            label = by.labels[i]
            places = [j for j, value in enumerate(across.labels) if (value, label) in effects]
            own = [effects[across.labels[j], label] for j in places]
            _points(panel, places, own, **line)
            _mark(panel, analysis, [across, by], list(zip(places, own, strict=True)))
            handles.append(Line2D([], [], marker="o", label=_short(label), **line))
        _ticks(panel, across)
        panel.set_ylabel(analysis.metric)
        # The legend is above, where a long name takes no room from the figure.
        plots.legend(figure, handles, columns=min(len(handles), 4))
        figure.axes[0].set_title(f"lines: {_short(by.name, 40)}", color=plots.QUIET)
        return figure


def heat_map(analysis: Analysis, one: Axis, other: Axis) -> Figure:
    """The mean at each pair of values of two axes.

    If there are no other axes, so that a pair is a cell, the cells that may be the best are framed.
    """
    across, down = sorted((one, other), key=lambda axis: -len(axis.labels))
    columns, lines = (list(map(_short, axis.labels)) for axis in (across, down))
    grid = [[math.nan] * len(columns) for _ in lines]
    own = []
    for effect in analysis.interaction(across, down):
        i, j = (axis.labels.index(k) for axis, k in zip((across, down), effect.labels, strict=True))
        grid[j][i] = effect.interval.mean
        own.append(_of_effect(effect, [across, down], i, j, 1.0))
    with plots.style():
        figure = plots.blank(max(1.8 + 0.62 * len(columns), 4), 1.4 + 0.42 * len(lines))
        panel = figure.subplots()
        image = plots.heat(panel, grid, None, columns, lines, digits=_digits(grid))
        marks.add(panel, analysis.metric, filter(_has_value, own))
        plots.frame_cells(panel, _best_places(analysis, across, down))
        if any(len(column) > 6 for column in columns):
            panel.tick_params(axis="x", labelrotation=45)
        panel.set_xlabel(_short(across.name, 40))
        panel.set_ylabel(_short(down.name, 40))
        bar = figure.colorbar(image, ax=panel, label=analysis.metric, fraction=0.05, pad=0.02)
        bar.outline.set_visible(False)
        return figure


def has_best_cells(analysis: Analysis) -> bool:
    """Whether each place of a heat map is one cell, and some cells are certainly not the best."""
    return (
        analysis.maximise is not None
        and len(analysis.axes) == 2
        and not any(axis.grouped for axis in analysis.axes)
        and int(analysis.ranking["best"].sum()) < analysis.ranking.height
    )


def _best_places(analysis: Analysis, across: Axis, down: Axis) -> list[tuple[int, int]]:
    """Column and line of each cell in a heat map that may be the best."""
    if not has_best_cells(analysis):
        return []
    keys = [
        dict(analysis.key(row)) for row in analysis.ranking.filter("best").iter_rows(named=True)
    ]
    return [
        (across.labels.index(key[across.name]), down.labels.index(key[down.name]))
        for key in keys
        if {across.name, down.name} <= key.keys()  # a cell may lack an axis
    ]


def distribution(analysis: Analysis) -> Figure:
    """Each cell's runs as a box: quartiles, whiskers of 1.5 times their range, what lies outside.

    With more than `MOST_BOXES` cells, the first and the last of the ranking.
    """
    places, names, own = [], [], []
    ranked = analysis.ranking.filter(pl.col("n") > 0)
    row_of = {cell: i for i, cell in enumerate(analysis.cells["cell"])}
    half = MOST_BOXES // 2
    shown = [
        row
        for i, row in enumerate(ranked.iter_rows(named=True))
        if ranked.height <= MOST_BOXES or i < half or i >= ranked.height - half
    ]
    # Where all have the same axes, these stand once, in the title.
    axes = {tuple(name for name, _ in _varied(analysis, row)) for row in shown}
    for row in shown:
        values = analysis.values[row_of[row["cell"]]]
        places.append(values[~np.isnan(values)])
        name = box_name(analysis, row, is_short=len(axes) == 1)
        names.append(f"{row['rank']}: {_short(name, 44)}")
        ends = float(places[-1].min()), float(places[-1].max())
        middle, width = sum(ends) / 2, ends[1] - ends[0]
        mark = of_cell(analysis, row)
        own.append(replace(mark, x=middle, y=len(names), width=width, height=0.8))
    with plots.style():
        figure = plots.blank(7, 0.8 + 0.28 * len(places))
        panel = figure.subplots()
        panel.boxplot(
            places,
            orientation="horizontal",
            tick_labels=names,
            widths=0.55,
            showmeans=True,
            boxprops={"color": plots.COLOURS[0]},
            whiskerprops={"color": plots.COLOURS[0]},
            capprops={"color": plots.COLOURS[0]},
            medianprops={"color": plots.ACCENT},
            meanprops={
                "marker": "D",
                "markersize": 4,
                "markerfacecolor": "black",
                "markeredgecolor": "black",
            },
            flierprops={
                "marker": ".",
                "markersize": 3,
                "markerfacecolor": plots.QUIET,
                "markeredgecolor": plots.QUIET,
            },
        )
        marks.add(panel, analysis.metric, own)
        panel.invert_yaxis()
        panel.grid(visible=True, axis="x")
        panel.grid(visible=False, axis="y")
        panel.set_xlabel(analysis.metric)
        if len(axes) == 1:
            panel.set_title(f"rank: {', '.join(*axes)}", color=plots.QUIET)
        if ranked.height > MOST_BOXES:
            panel.axhline(half + 0.5, color=plots.QUIET, linewidth=1, linestyle=(0, (4, 3)))
        return figure


def cumulative(analysis: Analysis) -> Figure:
    """The share of runs with at most each value: for all cells together, the first and the last."""
    ranked = analysis.ranking.filter(pl.col("n") > 0)
    row_of = {cell: i for i, cell in enumerate(analysis.cells["cell"])}
    with plots.style():
        figure = plots.blank(6.4, 3.2)
        panel = figure.subplots()
        shown = [("all cells", analysis.values.ravel(), "black")]
        if ranked.height > 1:
            ends = ((0, "rank 1", plots.COLOURS[2]), (-1, "last", plots.COLOURS[1]))
            for i, name, colour in ends:
                shown.append((name, analysis.values[row_of[ranked["cell"][i]]], colour))
        for name, values, colour in shown:
            known = np.sort(values[~np.isnan(values)])
            # As many points as a figure can show, even for a million runs.
            parts = np.linspace(0, 1, min(len(known), 400))
            steps = np.quantile(known, parts, method="inverted_cdf")
            panel.step(steps, parts, where="post", color=colour, label=name)
            shares = np.linspace(0, 1, _QUANTILES)
            quantiles = np.quantile(known, shares, method="inverted_cdf")
            own = [
                Mark(
                    float(value),
                    float(share),
                    {"runs of": name, "part of them up to the value": plots.percent(share)},
                    float(value),
                    n=len(known),
                )
                for value, share in zip(quantiles, shares.round(6), strict=True)
            ]
            marks.add(panel, analysis.metric, own)
        handles, _ = panel.get_legend_handles_labels()
        plots.legend(figure, handles)
        panel.set_xlabel(analysis.metric)
        panel.set_ylabel("part of the runs")
        panel.set_ylim(0, 1)
        return figure


def bars(names: Sequence[str], series: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """Parts of the variance, with the first name on top.

    Each series has a value and a half-width for each name; a legend distinguishes several series.
    """
    several = len(series) > 1
    height = 0.8 / len(series) if several else 0.6
    with plots.style():
        figure = plots.blank(6.4, 1.0 + 0.42 * len(names) if several else 0.7 + 0.27 * len(names))
        panel = figure.subplots()
        for i, (label, own) in enumerate(series.items()):
            places = np.arange(len(names)) + (i - (len(series) - 1) / 2) * height
            values = [value for value, _ in own]
            # A part of the variance is between 0 and 1, even if an estimate of it is not.
            ends = [plots.bar(value, width, 0.0, 1.0) for value, width in own]
            widths = [[low for (low,), _ in ends], [high for _, (high,) in ends]]
            panel.barh(places, values, height=height, color=plots.COLOURS[i], label=label)
            series_name = {"index": label} if label else {}
            shown = zip(names, places, own, strict=True)
            rows = [
                Mark(
                    value / 2,
                    float(place),
                    {"axis": name} | series_name,
                    value,
                    width,
                    width=abs(value),
                    height=height,
                )
                for name, place, (value, width) in shown
            ]
            marks.add(panel, "part of the variance between cells", rows)
            if any(width > 0 for width in (*widths[0], *widths[1])):
                line: dict[str, Any] = {"ecolor": "black", "elinewidth": 1, "capsize": 2.5}
                panel.errorbar(values, places, xerr=widths, fmt="none", **line)
        if several:
            plots.legend(figure, panel.get_legend_handles_labels()[0])
        panel.set_yticks(range(len(names)), [_short(name, 40) for name in names])
        panel.invert_yaxis()
        panel.set_xlim(min(0.0, 1.03 * panel.dataLim.x0), max(1.0, 1.03 * panel.dataLim.x1))
        panel.grid(visible=True, axis="x")
        panel.grid(visible=False, axis="y")
        panel.set_xlabel("part of the variance between cells")
        return figure


def box_name(analysis: Analysis, row: dict[str, object], *, is_short: bool = False) -> str:
    """A cell's values on the axes that differ, in a line; without the axes' names if short."""
    own = _varied(analysis, row)
    return ", ".join(str(value) if is_short else f"{name} = {value}" for name, value in own)


def _varied(analysis: Analysis, row: dict[str, object]) -> list[tuple[str, object]]:
    """The axes that differ, each with a cell's value."""
    names = {axis.name for axis in analysis.axes}
    return [(name, value) for name, value in analysis.key(row) if name in names]


def of_cell(analysis: Analysis, row: Mapping[str, Any]) -> Mark:
    """A row of the ranking as a mark, which is nowhere yet."""
    names = {axis.name for axis in analysis.axes}
    key = {name: value for name, value in analysis.key(row) if name in names}
    mean, half_width = (math.nan if row[name] is None else row[name] for name in _OF_MEAN)
    return Mark(0, 0, key, mean, half_width, row["n"], cell=row["cell"])


_OF_MEAN = "mean", "half_width"


def _mark(
    panel: Axes, analysis: Analysis, axes: Sequence[Axis], effects: Sequence[tuple[int, Effect]]
) -> None:
    """Says which means stand at places of a panel."""
    own = [_of_effect(effect, axes, at, effect.interval.mean, 0.0) for at, effect in effects]
    marks.add(panel, analysis.metric, filter(_has_value, own))


def _of_effect(effect: Effect, axes: Sequence[Axis], x: float, y: float, size: float) -> Mark:
    """A mean over the cells with values of some axes; of one cell, the page has the runs."""
    return Mark(
        x,
        y,
        {axis.name: label for axis, label in zip(axes, effect.labels, strict=True)},
        effect.interval.mean,
        effect.interval.half_width,
        effect.interval.n,
        width=size,
        height=size,
        cell=effect.cell,
        samples=effect.samples if effect.cell is None else (),
    )


def _has_value(mark: Mark) -> bool:
    return isinstance(mark.value, float) and not math.isnan(mark.value)


def _points(panel: Axes, places: Sequence[int], effects: Sequence[Effect], **line: Any) -> None:
    panel.errorbar(
        places,
        [effect.interval.mean for effect in effects],
        yerr=[plots.finite(effect.interval.half_width) for effect in effects],
        marker="o",
        markersize=4,
        capsize=2.5,
        elinewidth=1,
        **line,
    )


def _ticks(panel: Axes, axis: Axis) -> None:
    labels = [_short(label) for label in axis.labels]
    panel.set_xticks(range(len(labels)), labels)
    panel.margins(x=0.08)
    if _is_crowded(axis):
        panel.tick_params(axis="x", labelrotation=45)
        for label in panel.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    panel.set_xlabel(_short(axis.name, 34))


def _is_crowded(axis: Axis) -> bool:
    """Whether the labels do not fit side by side."""
    labels = list(map(_short, axis.labels))
    return sum(map(len, labels)) > 26 or max(map(len, labels)) > _LONG


def _spread(count: int, most: int) -> list[int]:
    """Chooses `most` of `count` positions, evenly, including the first and the last."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most))})


def _short(text: str, most: int = 18) -> str:
    """A text for a figure: cut, and with dollar signs that do not start mathematics."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut.replace("$", r"\$")


def _digits(grid: Sequence[Sequence[float]]) -> int:
    """Digits after the point that distinguish the cells of a heat map, three or four in all."""
    known = [abs(value) for line in grid for value in line if not math.isnan(value)]
    largest = max(known, default=0)
    return max(0, min(3, 2 - math.floor(math.log10(largest)))) if largest > 0 else 0
