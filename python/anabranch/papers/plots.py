"""Kinds of figure that several papers have: verdicts as a matrix, ours beside the published."""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.figures import marks, plots
from anabranch.figures.marks import Mark

from .intervals import Interval
from .studies import label
from .verdicts import WORDS, Verdict

VERDICT_COLOURS: dict[Verdict, str] = {
    "reproduced": "#b7e0c8",
    "partly": "#f6df9b",
    "not_reproduced": "#f3b8a6",
    "open": "#dddddd",
}
_LETTERS: dict[Verdict, str] = {
    "reproduced": "yes",
    "partly": "partly",
    "not_reproduced": "no",
    "open": "open",
}
Style = dict[str, Any]
"""Arguments for what Matplotlib draws."""
MARK: Style = {"marker": "D", "color": "white", "markeredgecolor": "black"}
"""How a published number is drawn."""
DASHED = (0, (4, 3))
"""The line style of what is drawn for comparison."""
_LINE = 3
"""From so many numeric places on, ours is drawn as a line, not as bars."""
_TICKS = 8
"""Up to so many places, each has its name on the axis."""
_DECADE = 10
"""From this ratio of the last place to the first on, the axis is logarithmic."""
_NAME = 60
"""Characters of a claim's words beside the matrix."""


@dataclass(frozen=True)
class Point:
    """Ours at one place, and what was published for it."""

    key: tuple[str, ...]
    """The place, a text for each of the axes."""
    ours: Interval
    published: float | None = None


def verdict_matrix(
    rows: Mapping[str, Sequence[Verdict]], columns: Sequence[str], gap: int | None = None
) -> Figure:
    """Claims down, readings across; a gap stands before the column `gap`."""

    def left(column: int) -> float:
        return column + (0.25 if gap is not None and column >= gap else 0)

    with plots.style():
        figure = plots.blank(10, 1.6 + 0.26 * len(rows))
        axes = figure.add_subplot()
        own = []
        for line, (claim, verdicts) in enumerate(rows.items()):
            for column, verdict in enumerate(verdicts):
                x, colour = left(column), VERDICT_COLOURS[verdict]
                axes.barh(line, 0.94, left=x, height=0.86, color=colour)
                axes.text(x + 0.47, line, _LETTERS[verdict], ha="center", va="center")
                key = {"claim": claim, "under": columns[column]}
                own.append(Mark(x + 0.47, line, key, WORDS[verdict], width=0.94, height=0.86))
        marks.add(axes, "verdict", own)
        names = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in rows]
        axes.set_yticks(range(len(rows)), names)
        places = [left(column) + 0.47 for column in range(len(columns))]
        axes.set_xticks(places, [textwrap.fill(name, 11) for name in columns])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.invert_yaxis()
        for spine in axes.spines.values():
            spine.set_visible(False)
        return figure


def beside_published(points: Sequence[Point], axes_names: Sequence[str], label: str) -> Figure:
    """Ours with 95 % intervals, the published numbers as diamonds.

    A line for each series where the last numeric axis has three values or more, else bars.
    """
    numeric = [
        index
        for index in range(len(axes_names))
        if len({point.key[index] for point in points}) >= _LINE
        and all(math.isfinite(_number(point.key[index])) for point in points)
    ]
    with plots.style():
        figure = plots.blank(10, 4)
        axes = figure.add_subplot()
        if numeric:
            series = _lines(axes, points, numeric[-1])
            across = numeric[-1]
            own = [
                _mark(axes_names, point, (_number(point.key[across]), point.ours.mean))
                for point in points
            ]
            axes.set_xlabel(axes_names[numeric[-1]].replace("_", " "))
        else:
            series, own = _bars(axes, points, axes_names)
        axes.set_ylabel(label)
        marks.add(axes, label, own)
        handles: list[Line2D | Patch] = [
            Patch(color=colour, label=name) for name, colour in series.items() if name
        ]
        if any(point.published is not None for point in points):
            handles.append(paper_mark())
        plots.legend(figure, handles)
        return figure


def _lines(axes: Axes, points: Sequence[Point], across: int) -> dict[str, str]:
    """A line with a band for each of the other keys; gives their colours."""
    series: dict[str, list[Point]] = {}
    for point in points:
        name = ", ".join(key for index, key in enumerate(point.key) if index != across)
        series.setdefault(name, []).append(point)
    colours = {}
    for index, (name, own) in enumerate(series.items()):
        colour = plots.COLOURS[index % len(plots.COLOURS)]
        colours[name] = colour
        ordered = sorted(own, key=lambda point: _number(point.key[across]))
        x = [_number(point.key[across]) for point in ordered]
        band(axes, x, [point.ours for point in ordered], colour)
        for at, point in zip(x, ordered, strict=True):
            if point.published is not None:
                axes.plot(at, point.published, linestyle="none", **(MARK | {"color": colour}))
    ticks = dict(sorted((_number(point.key[across]), point.key[across]) for point in points))
    if min(ticks) > 0 and max(ticks) / min(ticks) >= _DECADE:
        plots.logarithmic(axes.xaxis)
    if len(ticks) <= _TICKS:
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
    return colours


def band(axes: Axes, x: Sequence[float], ours: Sequence[Interval], colour: str) -> None:
    """A line of means with the band of their intervals."""
    half_widths = [plots.finite(one.half_width) for one in ours]
    means = [one.mean for one in ours]
    axes.fill_between(
        x,
        [mean - half_width for mean, half_width in zip(means, half_widths, strict=True)],
        [mean + half_width for mean, half_width in zip(means, half_widths, strict=True)],
        color=colour,
        alpha=0.22,
        linewidth=0,
    )
    axes.plot(x, means, color=colour, marker="o", markersize=3.5, linewidth=1.5)


def _mark(
    axes_names: Sequence[str],
    point: Point,
    at: tuple[float, float],
    size: tuple[float, float] = (0, 0),
) -> Mark:
    """What a point says that is drawn at a place, with a width and a height if it is a bar."""
    key = {name.replace("_", " "): text for name, text in zip(axes_names, point.key, strict=True)}
    ours, (width, height) = point.ours, size
    return Mark(
        *at, key, ours.mean, ours.half_width, ours.n, point.published, width=width, height=height
    )


def _bars(
    axes: Axes, points: Sequence[Point], axes_names: Sequence[str]
) -> tuple[dict[str, str], list[Mark]]:
    """Bars in groups by the first key, a colour for each of the others.

    Gives the colours and the bars' marks.
    """
    groups = list(dict.fromkeys(point.key[0] if point.key else "" for point in points))
    series = list(dict.fromkeys(", ".join(point.key[1:]) for point in points))
    width = 0.8 / len(series)
    colours = {name: plots.COLOURS[index % len(plots.COLOURS)] for index, name in enumerate(series)}
    own = []
    for point in points:
        index = series.index(", ".join(point.key[1:]))
        place = groups.index(point.key[0] if point.key else "")
        x = place + (index - (len(series) - 1) / 2) * width
        name = series[index]
        axes.bar(x, point.ours.mean, width=0.92 * width, color=colours[name])
        whisker(axes, x, point.ours)
        mean = point.ours.mean
        own.append(_mark(axes_names, point, (x, mean / 2), (0.92 * width, abs(mean))))
        if point.published is not None:
            axes.plot(x, point.published, markersize=6, linestyle="none", **MARK)
    axes.set_xticks(range(len(groups)), [textwrap.fill(name, 16) for name in groups])
    axes.tick_params(axis="x", length=0)
    return colours, own


def bars(intervals: Iterable[tuple[float, float]], high: float = math.inf) -> list[list[float]]:
    """The intervals of a line, each a mean and a half-width, cut to what is possible."""
    cut = [plots.bar(mean, half_width, high=high) for mean, half_width in intervals]
    return [[below for (below,), _ in cut], [above for _, (above,) in cut]]


def stroke(label: str, colour: str | None = None, **style: Any) -> Line2D:
    """A legend's entry for a line."""
    return Line2D([], [], color=colour, label=label, **style)


def dot(label: str, colour: str, marker: str = "o", **style: Any) -> Line2D:
    """A legend's entry for a mark."""
    return stroke(label, colour, linestyle="", marker=marker, **style)


def paper_mark() -> Line2D:
    """The legend's entry for published numbers."""
    return Line2D([], [], linestyle="", label="paper", **MARK)


def colour_bar(
    figure: Figure, image: Any, axes: Any, label: str, *, share: float = 0.04, pad: float = 0.015
) -> None:
    """What the colours of heat maps mean, beside these axes, of whose width it takes a share."""
    bar = figure.colorbar(image, ax=axes, label=label, fraction=share, pad=pad)
    bar.outline.set_visible(False)


def intervals(rows: pl.DataFrame) -> list[Interval]:
    """The means of `stats.cells` or `Runs.by`, in the order of the rows."""
    return [Interval(*row) for row in rows.select("mean", "half_width", "n").iter_rows()]


def ranges(
    axes: Axes,
    x: Iterable[float],
    ours: Sequence[Interval],
    colour: str,
    *,
    is_cut: bool = False,
    high: float = math.inf,
    **style: Any,
) -> None:
    """A line of means with their intervals, cut to what is possible if `is_cut`.

    `style` goes to Matplotlib.
    """
    widths = [plots.finite(one.half_width) for one in ours]
    axes.errorbar(
        list(x),
        [one.mean for one in ours],
        yerr=bars(((one.mean, one.half_width) for one in ours), high) if is_cut else widths,
        color=colour,
        **{"capsize": 2, **style},
    )


def level(axes: Axes, ours: Interval, line: float, colour: str, **style: Any) -> None:
    """A mean with its interval on a line of its own, as `named_lines` names it."""
    axes.errorbar(
        ours.mean,
        line,
        xerr=plots.finite(ours.half_width),
        color=colour,
        **{"marker": "o", "markersize": 5, "capsize": 3, **style},
    )


def named_lines(axes: Axes, names: Sequence[str]) -> None:
    """Names lines from the top, the first one being 0."""
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()


def named_places(axes: Axes, names: Sequence[str], **style: Any) -> None:
    """Names places from the left, the first one being 0; `style` is that of the names."""
    axes.set_xticks(range(len(names)), names, **style)
    axes.tick_params(axis="x", length=0)


def bar_groups(
    axes: Axes,
    groups: Sequence[str],
    colours: Sequence[str],
    ours: Callable[[int, int], Interval],
    *,
    published: Callable[[int, int], Sequence[float]] = lambda _group, _bar: (),
    is_logarithmic: bool = False,
    high: float = math.inf,
) -> None:
    """Bars with intervals side by side in named groups; points on a logarithmic axis.

    `ours` and `published` are given the group and the bar in it, both from 0; published numbers
    are marks on the bar.
    """
    if is_logarithmic:
        plots.logarithmic(axes.yaxis)
    width = 0.8 / len(colours)
    for index, colour in enumerate(colours):
        for group in range(len(groups)):
            mean = ours(group, index)
            x = group + (index - (len(colours) - 1) / 2) * width
            if is_logarithmic:
                axes.plot(x, mean.mean, "o", color=colour, markersize=6)
            else:
                axes.bar(x, mean.mean, width=0.92 * width, color=colour)
            whisker(axes, x, mean, high)
            for number in published(group, index):
                axes.plot(x, number, markersize=5, linestyle="none", **MARK)
    named_places(axes, groups)


def whisker(axes: Axes, x: float, ours: Interval, high: float = math.inf, **style: Any) -> None:
    """The interval of one mean, cut to what is possible."""
    # On a logarithmic axis an interval that reaches 0 would have no end.
    is_log = axes.get_yscale() == "log"
    low = 0.1 * ours.mean if is_log else 0.0 if ours.mean >= 0 else -math.inf
    axes.errorbar(
        x,
        ours.mean,
        yerr=plots.bar(ours.mean, ours.half_width, low=low, high=high),
        color="black",
        **{"elinewidth": 1, "capsize": 2, **style},
    )


def _number(text: str) -> float:
    """The number that a place is, such as 0.1 or 10 %; NaN where it is none."""
    try:
        return float(label(text))
    except ValueError:
        return math.nan
