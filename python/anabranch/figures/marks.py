"""What the marks of a figure say, for pages on which they answer to a pointer and to keys.

A mark is a number at a place: a bar, a point of a line, a cell of a heat map. Kinds of figure that
know more than they draw (replications, the cell of a study) say it with `add`; of other axes the
marks are read from what matplotlib draws: bars, points with intervals, lines, heat maps.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation
from matplotlib.ticker import FixedLocator

Names = dict[str, str]

MOST_OF_LINE = 120
"""Points of a line that are marks; one with more is a curve of time, and has none."""

MOST_PLAIN = 30
"""The same for a line whose points are not drawn."""

MOST = 2000
"""Marks of a figure; one with more has none, since nobody could go through them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A number at a place of a figure."""

    x: float
    y: float
    """Its middle, in the units of its axes."""
    names: Mapping[str, str]
    """What tells it from the others: axis -> value as text."""
    value: float | str
    """A number, or the word of a verdict."""
    half_width: float = math.nan
    n: int = 0
    """Runs behind it; 0 where that is not known."""
    published: float | None = None
    width: float = 0.0
    height: float = 0.0
    """In the units of its axes; 0 and 0: a point."""
    cell: int | None = None
    """Of the study, if it is one cell."""
    samples: Sequence[float] = ()
    """Its value in each replication, NaN where there is none; none for a cell, whose runs the page
    has once."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A mark, and where it belongs."""

    axes: Axes
    quantity: str
    """What its value is, with its unit: only marks of one quantity are compared."""
    mark: Mark


class _Marks(Artist):
    """Marks as a part of their axes, which is never drawn: it goes wherever the axes go."""

    def __init__(self, quantity: str, marks: Iterable[Mark]) -> None:
        super().__init__()
        self.quantity = quantity
        self.marks = tuple(marks)
        self.set_in_layout(False)

    def draw(self, renderer: RendererBase) -> None:
        """Draws nothing."""


def add(axes: Axes, quantity: str, marks: Iterable[Mark]) -> None:
    """Says what the marks of axes are; nothing is read from what is drawn there then."""
    axes.add_artist(_Marks(quantity, marks))


def of(figure: Figure) -> list[Placed]:
    """All marks of a figure."""
    shown = [axes for axes in figure.axes if axes.get_visible() and axes.axison]
    panels = [axes for axes in shown if axes.get_label() != "<colorbar>"]
    found = []
    for axes in panels:
        own = [artist for artist in axes.artists if isinstance(artist, _Marks)]
        if own:
            found += [Placed(axes, each.quantity, mark) for each in own for mark in each.marks]
        else:
            found += _read(axes, is_alone=len(panels) == 1)
    return found if len(found) <= MOST else []


def table(figure: Figure) -> pl.DataFrame:
    """The numbers of a figure: a row for each mark, with a column for each name that it has."""
    found = of(figure)
    heads = list(dict.fromkeys(name for each in found for name in each.mark.names))
    return pl.DataFrame(
        {
            **{name: [each.mark.names.get(name) for each in found] for name in heads},
            "quantity": [each.quantity for each in found],
            "value": [each.mark.value for each in found],
            "half_width": [each.mark.half_width for each in found],
            "n": [each.mark.n or None for each in found],
        },
        schema_overrides={"half_width": pl.Float64, "n": pl.Int64},
    )


def place(placed: Placed, height: float) -> tuple[float, float, float, float] | None:
    """Left, top, width and height in points from the top left of a figure that has been laid out.

    None where the axes do not show it.

    Parameters
    ----------
    placed
        The mark.
    height
        Of the figure in points.
    """
    axes, mark = placed.axes, placed.mark
    figure = axes.get_figure(root=True)
    assert figure is not None
    half = mark.width / 2, mark.height / 2
    ends = [(mark.x - half[0], mark.y - half[1]), (mark.x + half[0], mark.y + half[1])]
    middle, *corners = axes.transData.transform([(mark.x, mark.y), *ends])
    box = axes.get_window_extent()
    slack = 0.5
    if not (
        np.isfinite(middle).all()
        and box.x0 - slack <= middle[0] <= box.x1 + slack
        and box.y0 - slack <= middle[1] <= box.y1 + slack
    ):
        return None
    # What reaches beyond the axes is not seen there; the foot of a bar on a logarithmic axis is far
    # below.
    low = np.clip(np.nan_to_num(np.min(corners, axis=0), nan=-math.inf), box.min, box.max)
    high = np.clip(np.max(corners, axis=0), box.min, box.max)
    scale = 72 / figure.dpi
    left, bottom, right, top = (float(scale * end) for end in (*low, *high))
    return left, height - top, right - left, top - bottom


def _read(axes: Axes, *, is_alone: bool) -> Iterator[Placed]:
    """The marks of axes that do not say which they have."""
    title = axes.get_title(loc="left") or axes.get_title()
    panel = {"panel": " ".join(title.split())} if title and not is_alone else {}
    names = _by_colour(axes)
    taken: set[Artist] = set()
    intervals: list[_Interval] = []
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer):
            taken.update(part for part in (container.lines[0], *container.lines[1]) if part)
            intervals += _intervals(container)
    for container in axes.containers:
        if isinstance(container, BarContainer):
            yield from _bars(axes, container, panel, names, intervals)
    for one in intervals:
        if not one.is_of_bar:
            key = panel | _series(one.label, one.colour, names)
            yield from _at(axes, one.at, key, one.half_width, is_across=one.is_across)
    across = _is_listed(axes.yaxis) and not _is_listed(axes.xaxis)
    for line in axes.lines:
        if line not in taken and line.get_transform() == axes.transData:
            yield from _line(axes, line, panel, names, is_across=across)
    for image in axes.images:
        bars = [image.colorbar, *(each.colorbar for each in _images(axes))]
        labels = [bar.ax.get_ylabel() or bar.ax.get_xlabel() for bar in bars if bar is not None]
        quantity = labels[0] if labels else ""
        drawn: Any = image.get_array()
        grid: Any = np.ma.filled(np.ma.asarray(drawn, dtype=float), math.nan)
        for (row, column), value in np.ndenumerate(grid) if grid.ndim == 2 else ():
            key = {**panel, **_named(axes.xaxis, column), **_named(axes.yaxis, row)}
            if math.isfinite(value):
                mark = Mark(column, row, key, float(value), width=1.0, height=1.0)
                yield Placed(axes, quantity, mark)


@dataclass(slots=True)
class _Interval:
    """A point with its interval, as it was drawn."""

    at: np.ndarray
    half_width: float
    is_across: bool
    """Whether the value lies along x."""
    label: object
    colour: Any
    is_of_bar: bool = False
    """Whether a bar ends there."""


def _intervals(container: ErrorbarContainer) -> Iterator[_Interval]:
    line, _, bars = container.lines
    is_across = bool(container.has_xerr) and not container.has_yerr
    segments = [np.asarray(each) for each in bars[0].get_segments()] if bars else []
    colour: Any = "black"
    if line:
        places = np.column_stack([np.asarray(line.get_xdata(), float), line.get_ydata()])
        colour = line.get_color()
    else:
        places = np.array([each.mean(axis=0) for each in segments])
    along = 0 if is_across else 1
    for at, segment in zip(places, segments, strict=False):
        # An interval that is cut to what is possible has one whole side.
        sides = np.abs(segment[:, along] - at[along]) if len(segment) else np.array([math.nan])
        half_width = float(np.max(sides)) or math.nan
        yield _Interval(at, half_width, is_across, container.get_label(), colour)


def _bars(
    axes: Axes, container: BarContainer, panel: Names, names: Names, intervals: list[_Interval]
) -> Iterator[Placed]:
    """Bars; an interval at the end of one belongs to it."""
    is_across = container.orientation == "horizontal"
    for patch in container.patches:
        assert isinstance(patch, Rectangle)
        width, height = patch.get_width(), patch.get_height()
        left, bottom = patch.get_x(), patch.get_y()
        x, y = left + width / 2, bottom + height / 2
        value, end = (width, (left + width, y)) if is_across else (height, (x, bottom + height))
        half_width = math.nan
        for one in intervals:
            if one.is_across == is_across and np.allclose(one.at, end, rtol=1e-9, atol=1e-12):
                half_width, one.is_of_bar = one.half_width, True
        key = panel | _series(container.get_label(), patch.get_facecolor(), names)
        axis, middle = (axes.yaxis, y) if is_across else (axes.xaxis, x)
        if not math.isfinite(value):
            continue
        mark = Mark(
            x,
            y,
            {**key, **_named(axis, middle)},
            float(value),
            half_width,
            width=abs(width),
            height=abs(height),
        )
        yield Placed(axes, _label(axes, is_across=is_across), mark)


def _line(
    axes: Axes, line: Line2D, panel: Names, names: Names, *, is_across: bool
) -> Iterator[Placed]:
    """Points of a line, with the width of the band around it."""
    places = np.column_stack(
        [np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)]
    )
    is_plain = line.get_marker() in {"", "None", None}
    if len(places) > (MOST_PLAIN if is_plain else MOST_OF_LINE):
        return
    colour: Any = line.get_color()
    widths = _band(axes, to_hex(colour))
    key = panel | _series(line.get_label(), colour, names)
    for place_ in places:
        half_width = math.nan if is_across else widths.get(float(place_[0]), math.nan)
        yield from _at(axes, place_, key, half_width, is_across=is_across)


def _band(axes: Axes, colour: str) -> dict[float, float]:
    """Half the width of the bands of a colour, by their places."""
    widths: dict[float, float] = {}
    for band in axes.collections:
        fill: Any = band.get_facecolor()
        if not len(fill) or to_hex(fill[0]) != colour:
            continue
        ends: dict[float, list[float]] = {}
        for path in band.get_paths():
            for x, y in np.asarray(path.vertices):
                ends.setdefault(float(x), []).append(float(y))
        widths |= {x: (max(ys) - min(ys)) / 2 for x, ys in ends.items() if max(ys) > min(ys)}
    return widths


def _at(
    axes: Axes, at: np.ndarray, key: Names, half_width: float, *, is_across: bool
) -> Iterator[Placed]:
    """A point; its value lies along x if `is_across`, else along y."""
    x, y = map(float, at)
    if not (math.isfinite(x) and math.isfinite(y)):
        return
    axis, where, value = (axes.yaxis, y, x) if is_across else (axes.xaxis, x, y)
    mark = Mark(x, y, {**key, **_named(axis, where)}, value, half_width)
    yield Placed(axes, _label(axes, is_across=is_across), mark)


def _label(axes: Axes, *, is_across: bool) -> str:
    """What the values are: the label beside the axes, or beside others of their line or column."""
    return _text_of(axes.xaxis if is_across else axes.yaxis)


def _text_of(axis: Axis) -> str:
    """The label of an axis, or of the same one of axes beside it; empty if there is none."""
    axes: Any = axis.axes
    for each in (axes, *_beside(axes)):
        if label := each.get_xlabel() if axis is axes.xaxis else each.get_ylabel():
            return " ".join(label.split())
    return ""


def _images(axes: Axes) -> Iterator[AxesImage]:
    """The heat maps beside these axes, with which they share a scale of colours."""
    for each in _beside(axes):
        yield from each.images


def _beside(axes: Axes) -> list[Axes]:
    """The axes of the same line and of the same column, whose labels count for these."""
    spec, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    if spec is None or figure is None:
        return []
    others = [(each, each.get_subplotspec()) for each in figure.axes]
    return [
        each
        for each, own in others
        if own is not None
        and own.get_gridspec() is spec.get_gridspec()
        and (own.rowspan == spec.rowspan or own.colspan == spec.colspan)
    ]


def _named(axis: Axis, at: float) -> dict[str, str]:
    """What stands at a place of an axis: the name of its tick, or its number."""
    label = _text_of(axis) or "at"
    ticks, texts = _ticks(axis)
    if len(ticks) > 1:
        # As far apart as they are drawn, also on a logarithmic axis.
        drawn = axis.get_transform().transform(np.array([*ticks, at]))
        apart = np.abs(drawn[:-1] - drawn[-1])
        nearest = int(np.argmin(apart))
        gap = float(np.min(np.abs(np.delete(drawn[:-1], nearest) - drawn[nearest])))
        # Several bars of one place stand around it, and points beside each other.
        reach = 0.5 if _is_listed(axis) else 0.1
        if apart[nearest] <= reach * gap and texts[nearest]:
            return {label: texts[nearest]}
    elif ticks and texts[0] and abs(ticks[0] - at) <= 0.5:
        return {label: texts[0]}
    return {label: f"{at:.6g}"}


def _ticks(axis: Axis) -> tuple[list[float], list[str]]:
    """The ticks that were set, and what stands at them, or at those of the axes that share them."""
    if not isinstance(axis.get_major_locator(), FixedLocator):
        return [], []
    ticks = [float(tick) for tick in axis.get_majorticklocs()]
    texts = [" ".join(text.split()) for text in axis.get_major_formatter().format_ticks(ticks)]
    return ticks, texts


def _is_listed(axis: Axis) -> bool:
    """Whether the axis is a list of names, not a scale."""

    def is_number(text: str) -> bool:
        try:
            return math.isfinite(float(text))
        except ValueError:
            return False

    _, texts = _ticks(axis)
    return any(text and not is_number(text) for text in texts)


def _series(label: object, colour: Any, names: Names) -> dict[str, str]:
    """The name of what has this colour."""
    text = str(label or "")
    name = names.get(to_hex(colour), "") if not text or text.startswith("_") else text
    return {"series": " ".join(name.split())} if name else {}


def _by_colour(axes: Axes) -> dict[str, str]:
    """What legends and labels at the ends of lines call each colour."""
    names: dict[str, str] = {}
    figure = axes.get_figure(root=True)
    assert figure is not None
    own = axes.get_legend()
    for legend in (*figure.legends, *([own] if own else [])):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            colour = _colour(handle)
            if colour is not None:
                names.setdefault(to_hex(colour), text.get_text())
    for text in axes.texts:
        if isinstance(text, Annotation) and text.xycoords == "axes fraction":
            names.setdefault(to_hex(text.get_color()), text.get_text())
    return names


def _colour(handle: Any) -> Any:
    for name in ("get_color", "get_facecolor"):
        if hasattr(handle, name):
            colour = getattr(handle, name)()
            if isinstance(colour, np.ndarray) and colour.ndim > 1:
                return colour[0] if len(colour) else None
            return colour
    return None
