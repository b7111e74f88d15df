"""A scalar of a study against an axis, as a figure for a publication, and its numbers.

Lines are the values of a second axis, panels those of a third one. The figure is in the user's
style where the user has one (`plots.users_style`).
"""

import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import polars as pl
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis as DrawnAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation

from anabranch.errors import AnabranchError, suggestion
from anabranch.stats import metrics
from anabranch.studies.where import Where, selected
from anabranch.support import quantities, wording

from . import plots
from .swept import Axis, axis_of

if TYPE_CHECKING:
    from anabranch.studies.study import Study

MOST_LINES = 7
"""Lines in one panel at most: more colours cannot be told apart."""

MOST_PANELS = 12

_WIDTH_MM = 160.0
"""The width of a page's text."""

_SHAPE = 0.66
"""A panel's height as a share of its width."""

_MOST_HEIGHT = 4.0
"""The height of a panel in inches, where none is asked for."""

_PANEL = 1.5
"""The least width of a panel in inches."""

_ALL_TICKS = 8
"""Up to so many values, each has its tick."""

_ROOM = 0.3
"""The part of a figure's width that names at the ends of lines may take."""

_ASIDE, _ASIDE_OF_NAMES = 2.0, 7.0
"""Points between the intervals of two lines at one place; where places are names, there is room."""

_MARKER = 2 / 3
"""The size of marks, as a part of that of the style."""

_WRAPPED = 12
"""Characters of a line of a name below an axis, where names do not fit side by side otherwise."""


@dataclass(frozen=True, slots=True)
class Looks:
    """How a figure is made for the place where it is printed."""

    width: str | None = None
    """Such as `84mm`; units are mm, cm, in and pt."""
    height: str | None = None
    font: str | None = None
    """A family such as `serif`, or the name of a font."""
    font_size: float | None = None
    """In points."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Words for axes and the scalar, by name; `RTO.Max (s)` says the unit of the axis, too."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a figure shows."""

    metric: str
    cells: pl.DataFrame
    """cell, the axes, mean, half_width, n: a row for each point."""
    x: Axis
    by: Axis | None
    panels: Axis | None


def chosen(  # noqa: PLR0917 - as `Study.plot` has them
    study: "Study",
    metric: str,
    x: str | None = None,
    by: str | None = None,
    panels: str | None = None,
    where: Where = (),
) -> Chosen:
    """Which cells a figure shows, and along which axes.

    Axes that are not given are chosen: for `x` the one with the most numbers, else the first one
    with several values; for `by` and `panels` those that are left, in their order.

    Raises
    ------
    AnabranchError
        If there is no such axis, or more of them vary than a figure has room for.
    """
    cells = _cells(study, metric, where)
    names = [name for name in study.axes if not cells[name].is_null().all()]
    for argument, axis in (("x", x), ("by", by), ("panels", panels)):
        if axis is not None and axis not in names:
            there = ", ".join(names) or "none"
            raise AnabranchError(
                f"{argument}: there is no axis `{axis}`{suggestion(axis, names)}; there are {there}"
            )
    given = [axis for axis in (x, by, panels) if axis is not None]
    if len(set(given)) < len(given):
        raise AnabranchError(f"x, by and panels are {', '.join(given)}: name each axis once")
    free = [name for name in names if name not in given and cells[name].n_unique() > 1]
    if x is None:
        if not free:
            raise AnabranchError("x: the study has no axis of several values to draw against")
        x = min(free, key=lambda name: _rank(cells[name]))
        given.append(x)
    cells = cells.filter(pl.col(x).is_not_null())
    left = _left(cells, given, [name for name in free if name != x])
    if by is None and left:
        by = left[0]
        given.append(by)
        left = _left(cells, given, left[1:])
    if panels is None and left:
        panels = left[0]
        given.append(panels)
        left = _left(cells, given, left[1:])
    if left:
        raise AnabranchError(
            f"the study varies {', '.join(left)}, too, and a figure shows three axes: choose a"
            f" value with --where (`where`), such as {left[0]}={_example(cells[left[0]])}"
        )
    scenario = study.scenario
    own = [None if name is None else axis_of(scenario, cells, name) for name in (x, by, panels)]
    assert own[0] is not None
    for argument, several, most in (("by", own[1], MOST_LINES), ("panels", own[2], MOST_PANELS)):
        if several is not None and len(several.values) > most:
            raise AnabranchError(
                f"{argument}: `{several.name}` has {len(several.values)} values; a figure shows at"
                f" most {most} {'lines' if argument == 'by' else 'panels'}, and `where` chooses"
                " them"
            )
    drawn = [axis.name for axis in own if axis is not None]
    others = [name for name in names if name not in drawn]
    order = [pl.col(axis.name) for axis in reversed(own) if axis is not None]
    kept = cells.select("cell", *drawn, *others, "mean", "half_width", "n").sort(
        order, nulls_last=True, maintain_order=True
    )
    return Chosen(metric, kept, own[0], own[1], own[2])


def _cells(study: "Study", metric: str, where: Where) -> pl.DataFrame:
    """The means of the cells that are meant, with the axes that they have."""
    cells = study.cells(metric)
    known = study.cell_table
    if "study" in known.columns:
        cells = cells.join(known.select("cell", "study"), on="cell", maintain_order="left")
    cells = selected(cells, where, study.scenario).filter(pl.col("mean").is_not_nan())
    if cells.is_empty():
        raise AnabranchError(f"no run of these cells has a value of `{metric}`")
    if "study" in cells.columns:
        parts = cells["study"].unique(maintain_order=True).to_list()
        if len(parts) > 1:
            raise AnabranchError(
                f"the study has the sub-studies {', '.join(parts)}: choose one with `where`, such"
                f" as study={parts[0]}"
            )
    return cells


def _rank(values: pl.Series) -> tuple[bool, int]:
    """How well an axis suits figures as `x`, the best first: every cell has it, most numbers."""
    return bool(values.null_count()), -values.n_unique() if values.dtype.is_numeric() else 0


def _left(cells: pl.DataFrame, drawn: Sequence[str], names: Sequence[str]) -> list[str]:
    """The axes that a figure of the drawn ones does not show.

    A number that advances together with those needs no room of its own; a name does, as no line
    joins points of different names.
    """
    places = cells.select(drawn).unique().height
    return [
        name
        for name in names
        if not cells[name].dtype.is_numeric() or cells.select(*drawn, name).unique().height > places
    ]


def _together(picture: Chosen) -> str:
    """The axes that advance together with those of the figure, in a sentence's part."""
    cells = picture.cells
    drawn = [axis.name for axis in (picture.x, picture.by, picture.panels) if axis is not None]
    between = cells.columns[1 + len(drawn) : cells.columns.index("mean")]
    others = [name for name in between if cells[name].n_unique() > 1]
    return f" ({' and '.join(others)} with it)" if others else ""


def _example(values: pl.Series) -> str:
    known = values.drop_nulls()
    return wording.told_apart(known)[0]


def caption(picture: Chosen, level: float = 0.95) -> str:
    """What the figure shows, in a sentence to put below it."""
    n = picture.cells["n"]
    low, high = int(n.min()), int(n.max())  # type: ignore[arg-type]
    runs = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    text = f"Mean of {metrics.titled(picture.metric)} against {picture.x.name}{_together(picture)}"
    if picture.by is not None:
        text += f", a line for each {picture.by.name}"
    if picture.panels is not None:
        text += f", a panel for each {picture.panels.name}"
    if high < 2:
        return f"{text}; one run of each cell, so there are no intervals."
    return f"{text}; bars are {100 * level:g} % confidence intervals over {runs} replications."


def drawn(picture: Chosen, looks: Looks | None = None) -> Figure:
    """The figure, laid out so that no text covers another."""
    looks = looks or Looks()
    unknown = [name for name in looks.labels if name not in _named(picture)]
    if unknown:
        there = ", ".join(_named(picture))
        raise AnabranchError(f"label: the figure has no `{unknown[0]}`; it has {there}")
    picture = _in_units(picture, looks)
    if looks.font is not None:
        _check_font(looks.font)
    style: Any = plots.users_style(looks.font, looks.font_size)
    width = _inches("width", looks.width) or _WIDTH_MM / 25.4
    height = _inches("height", looks.height)
    _check_tex()
    with mpl.rc_context(style):
        names = [] if picture.panels is None else picture.panels.values
        columns = max(1, min(len(names), int(width / _PANEL))) if names else 1
        # No line of panels is nearly empty: four are two and two, not three and one.
        lines = math.ceil(len(names) / columns) if names else 1
        columns = math.ceil(len(names) / lines) if names else 1
        figure = plots.blank(width, 1)
        assert isinstance(figure, plots.Drawing)
        figure.looks = style
        legend = _legend(picture, looks, width)
        each = min(_MOST_HEIGHT, max(_SHAPE * width / columns, 1.3))
        of_legend = 0.19 * _size() * math.ceil(len(legend) / _columns(legend, width))
        figure.set_size_inches(width, height or each * lines + 0.3 * bool(names) + of_legend)
        grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        panels: list[Axes] = list(grid.flat)
        for panel, name in zip(panels, names or [None], strict=False):
            rows = picture.cells
            if picture.panels is not None:
                rows = rows.filter(pl.col(picture.panels.name).eq_missing(name))
                panel.set_title(f"{_word(picture.panels, looks)} = {picture.panels.text(name)}")
            _lines(panel, rows, picture)
        _empty(panels, len(names) or 1, columns)
        _label(figure, grid, picture, looks)
        _ticks(panels[0].xaxis, picture.x)
        if legend:
            plots.legend(figure, legend, _columns(legend, width))
        elif picture.by is not None:
            _name_ends(figure, panels[0], picture, looks)
        _settle(figure, panels, picture, columns, grows=height is None)
        return figure


def _named(picture: Chosen) -> list[str]:
    axes = (picture.x, picture.by, picture.panels)
    return [picture.metric, *(axis.name for axis in axes if axis is not None)]


def _word(axis: Axis, looks: Looks) -> str:
    """What an axis is called before `= 20 ms`, which has the unit."""
    label = looks.labels.get(axis.name, axis.name)
    return label.removesuffix(f"({axis.unit})").rstrip() if axis.unit else label


def _in_units(picture: Chosen, looks: Looks) -> Chosen:
    """The axes in the units that their labels name, such as `RTO.Max (s)` for values in ms."""

    def own(axis: Axis | None) -> Axis | None:
        named = re.search(r"\(([^()]+)\)$", looks.labels.get(axis.name, "")) if axis else None
        return axis if axis is None or named is None else axis.in_unit(named[1]) or axis

    x = own(picture.x)
    assert x is not None
    return replace(picture, x=x, by=own(picture.by), panels=own(picture.panels))


def _with_unit(label: str, titled: str) -> str:
    """A label of the reader's with the unit of the title in its place, if it has none."""
    unit = re.search(r" (\([^()]+\))$", titled)
    says_one = re.search(r"[])]$", label) or (unit and unit[1][1:-1] in label.split())
    return label if unit is None or says_one else f"{label} {unit[1]}"


def _inches(name: str, text: str | None) -> float | None:
    return None if text is None else quantities.inches(name, text)


def _check_font(font: str) -> None:
    families = ("serif", "sans-serif", "sans", "monospace", "cursive", "fantasy")
    if font in families:
        return
    known = {each.name for each in font_manager.fontManager.ttflist}
    if font not in known:
        raise AnabranchError(
            f"there is no font `{font}` on this machine{suggestion(font, known)}; families such as"
            " `serif` and `sans-serif` are always there"
        )


def _lines(panel: Axes, rows: pl.DataFrame, picture: Chosen) -> None:
    """The points of a panel with their intervals; lines where the axis has numbers."""
    x, by = picture.x, picture.by
    groups = [None] if by is None else by.values
    figure = panel.get_figure(root=True)
    assert figure is not None
    for i, (value, looks) in enumerate(zip(groups, _cycle(len(groups)), strict=True)):
        own = rows if by is None else rows.filter(pl.col(by.name).eq_missing(value))
        if own.is_empty():
            continue
        # Intervals at one place stand side by side, each a little apart from the next.
        aside = (_ASIDE if x.is_numeric else _ASIDE_OF_NAMES) * (i - (len(groups) - 1) / 2) / 72
        points = panel.errorbar(
            [x.place(each) for each in own[x.name]],
            own["mean"],
            yerr=[plots.finite(width) for width in own["half_width"]],
            markersize=mpl.rcParams["lines.markersize"] * _MARKER,
            capsize=2.5,
            elinewidth=1,
            **{"marker": "o"} | looks | ({} if x.is_numeric else {"linestyle": "none"}),
        )
        for part in points.get_children():
            part.set_transform(
                panel.transData + ScaledTranslation(aside, 0, figure.dpi_scale_trans)
            )


def _empty(panels: Sequence[Axes], used: int, columns: int) -> None:
    """Hides panels without content; those above them show the ticks of the axis."""
    for i, panel in enumerate(panels):
        if i >= used:
            panel.set_visible(False)
            panels[i - columns].tick_params(labelbottom=True)


def _label(figure: Figure, grid: Any, picture: Chosen, looks: Looks) -> None:
    """The titles of the axes: once for all panels."""
    titles = {
        picture.x.name: picture.x.title,
        picture.metric: metrics.titled(picture.metric),
    }
    x, y = (_with_unit(looks.labels.get(name, title), title) for name, title in titles.items())
    # What stands below the axes takes about 0.4 inches, and y is centred on the axes.
    inches = figure.get_size_inches() - (0.2, 0.2 + 0.4 * _size())
    x, y = (
        textwrap.fill(text, int(room / _character()))
        for text, room in zip((x, y), inches, strict=True)
    )
    if grid.size == 1:
        grid[0, 0].set_xlabel(x)
        grid[0, 0].set_ylabel(y)
    else:
        figure.supxlabel(x, fontsize=mpl.rcParams["axes.labelsize"])
        figure.supylabel(y, fontsize=mpl.rcParams["axes.labelsize"])


def _ticks(axis: DrawnAxis, swept: Axis) -> None:
    places = swept.places
    if swept.is_logarithmic:
        plots.logarithmic(axis)
    if not swept.is_numeric:
        axis.set_ticks(
            places, labels=[plots.shortened(swept.text(value)) for value in swept.values]
        )
        axis.axes.set_xlim(-0.6, len(places) - 0.4)
        axis.axes.grid(visible=False, axis="x")
    elif len(places) <= _ALL_TICKS:
        axis.set_ticks(places, labels=wording.told_apart(places, 4))
        axis.set_ticks([], minor=True)


def _names(picture: Chosen, looks: Looks) -> list[str]:
    by = picture.by
    return [] if by is None else [f"{_word(by, looks)} = {by.text(value)}" for value in by.values]


def _character() -> float:
    """The width of a character in inches."""
    return plots.CHARACTER * _size()


def _size() -> float:
    """How large text is, beside that of other figures."""
    return float(mpl.rcParams["font.size"]) / plots.SIZE


def _legend(picture: Chosen, looks: Looks, width: float) -> list[Artist]:
    """The entries of a legend; none where the lines have room for their names at their ends."""
    names = _names(picture, looks)
    room = max(map(len, names), default=0) * _character()
    if picture.panels is None and picture.x.is_numeric and room <= _ROOM * width:
        return []
    cycle = _cycle(len(names))
    markersize = mpl.rcParams["lines.markersize"] * _MARKER
    line = {} if picture.x.is_numeric else {"linestyle": "none"}
    return [
        Line2D([], [], label=name, **{"marker": "o", "markersize": markersize} | own | line)
        for name, own in zip(names, cycle, strict=True)
    ]


def _columns(entries: Sequence[Artist], width: float) -> int:
    """How many columns of a legend fit; one if there is no entry."""
    return plots.legend_columns([str(each.get_label()) for each in entries], width / _size())


def _name_ends(figure: Figure, panel: Axes, picture: Chosen, looks: Looks) -> None:
    """Names the lines at their ends."""
    by = picture.by
    assert by is not None
    ends = []
    names = _names(picture, looks)
    for value, name, own in zip(by.values, names, _cycle(len(names)), strict=True):
        rows = picture.cells.filter(pl.col(by.name).eq_missing(value))
        ends.append((float(rows["mean"][-1]), name, own.get("color", "black")))
    plots.label_ends(figure, panel, ends, _size())


def _cycle(count: int) -> list[dict[str, Any]]:
    """The looks of so many lines: colours and marks, as the style has them."""
    own = list(mpl.rcParams["axes.prop_cycle"])
    return [own[i % len(own)] for i in range(count)]


def _keep_inside(panels: Sequence[Axes], lines: int) -> None:
    """Leaves so much room at both ends of `x` that the points of all lines are within the axes."""
    mark = mpl.rcParams["lines.markersize"] * _MARKER / 2
    room = (_ASIDE * (lines - 1) / 2 + mark + 1) / 72
    for panel in panels:
        width = panel.bbox.width / panel.get_figure(root=True).dpi  # type: ignore[union-attr]
        share = min(room / width, 0.4)
        margin = share / (1 - 2 * share)
        own, _ = panel.margins() or (0.0, 0.0)
        if margin > own:
            panel.margins(x=margin)


def _settle(
    figure: Figure, panels: Sequence[Axes], picture: Chosen, columns: int, *, grows: bool
) -> None:
    """Breaks, turns or leaves out names of ticks until none covers another.

    `grows` says whether the figure may become higher for names that are turned.
    """
    x, lines = picture.x, 1 if picture.by is None else len(picture.by.values)
    with plots.laid_out(figure):
        pass
    shown = [panel for panel in panels if panel.get_visible()]
    if x.is_numeric:
        _keep_inside(shown, lines)
        for panel in shown:
            _thin(panel.xaxis)
        return
    if not _covers(shown):
        return
    places, names = x.places, [plots.shortened(x.text(value)) for value in x.values]
    panels[0].set_xticks(places, [textwrap.fill(name, _WRAPPED) for name in names])
    with plots.laid_out(figure):
        pass
    if not _covers(shown):
        return
    panels[0].set_xticks(places, names)
    taller = [0.0] * math.ceil(len(panels) / columns)
    for i, panel in enumerate(panels):
        for text in panel.get_xticklabels() if panel.get_visible() else ():
            text.set_rotation(90)
            if text.get_visible():
                height = text.get_window_extent().height / figure.dpi
                taller[i // columns] = max(taller[i // columns], height)
    if grows:
        figure.set_figheight(figure.get_figheight() + sum(taller))
    with plots.laid_out(figure):
        pass
    if _covers(shown):
        raise AnabranchError(
            f"x: `{x.name}` has {len(names)} names, which do not fit side by side: a larger width"
            " or fewer of them (`where`) does"
        )


def _covers(panels: Sequence[Axes]) -> bool:
    return any(overlapping(panel.get_xticklabels()) for panel in panels)


def overlapping(texts: Iterable[Text]) -> list[tuple[str, str]]:
    """Pairs of texts that cover each other in a figure that has been laid out."""
    boxes = [
        (text.get_text(), text.get_window_extent())
        for text in texts
        if text.get_visible() and text.get_text().strip()
    ]
    return [
        (one, other)
        for i, (one, box) in enumerate(boxes)
        for other, its in boxes[i + 1 :]
        if box.overlaps(its)
    ]


def _thin(axis: DrawnAxis) -> None:
    """Leaves out names that would touch the one before; the first and the last value stay."""
    places = list(axis.get_majorticklocs())
    texts = axis.get_majorticklabels()
    if len(texts) != len(places) or not texts:
        return
    boxes = [text.get_window_extent() for text in texts]
    order = sorted(range(len(texts)), key=lambda i: boxes[i].x0)
    if not order:
        return
    gap = 0.4 * boxes[order[0]].height
    kept = [order[0]]
    last = order[-1]
    for i in order[1:-1]:
        if boxes[i].x0 > boxes[kept[-1]].x1 + gap and boxes[i].x1 + gap < boxes[last].x0:
            kept.append(i)
    if last not in kept and boxes[last].x0 > boxes[kept[-1]].x1 + gap:
        kept.append(last)
    if len(kept) < len(order):
        names = [texts[i].get_text() if i in kept else "" for i in range(len(texts))]
        axis.set_ticks(places, labels=names)


def written(
    picture: Chosen, figure: Figure, path: Path, formats: Sequence[str] = ("pdf", "svg")
) -> list[Path]:
    """Writes a figure in each format, its numbers beside it as CSV and Parquet; gives the paths.

    The numbers are those of `Study.cells`: axes in the units of results, mean, half-width and n.
    """
    paths = plots.save(figure, path, formats)
    numbers = picture.cells.rename({"mean": picture.metric})
    return paths + plots.save_data(numbers, path)


def _check_tex() -> None:
    if mpl.rcParams["text.usetex"] and shutil.which("latex") is None:
        raise AnabranchError(
            "the style sets `text.usetex`, so LaTeX writes the text, and there is no `latex` on"
            " this machine"
        )
