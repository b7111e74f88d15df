"""Figures of runs and studies. Every function returns a figure; none shows or saves it.

Colours are Okabe and Ito's (Color Universal Design, 2008): they stay apart for all common kinds of
colour vision. Lines are labelled where they end, so no legend has to be matched to colours.
"""

import io
import math
import textwrap
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogFormatter
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from anabranch.studies import frames as packets
from anabranch.studies.result import Result
from anabranch.support import wording
from anabranch.support.files import write_atomically
from anabranch.support.quantities import milliseconds

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""For lines, in this order."""

ACCENT = "#D55E00"
QUIET = "#666666"
FAILED = "#EEEEEE"
"""Behind the time in which something is not there."""

ON_DARK, ON_LIGHT = "#FEFEFE", "#010101"
"""For text on a colour that stays when a page makes black white: neither is exactly that."""

SIZE, TITLE_SIZE = 9, 10
"""Of all text in points, and of titles. No figure has others, so that text is equally large in all
figures of a page, which shows them on one scale."""

NAME = 24
"""Characters of a link's, path's or flow's name in a figure."""

CHARACTER = 0.0075 * SIZE
"""Width of one of that size in inches, somewhat more than the mean."""

_KEY = 0.55
"""Width of a legend's mark and the space around it, in inches."""

_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": TITLE_SIZE,
    "axes.labelsize": SIZE,
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "figure.labelsize": SIZE,
    "figure.titlesize": TITLE_SIZE,
    "font.size": SIZE,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "legend.fontsize": SIZE,
    "lines.linewidth": 1.5,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "anabranch",
    "xtick.color": QUIET,
    "xtick.labelcolor": "black",
    "xtick.labelsize": SIZE,
    "ytick.color": QUIET,
    "ytick.labelcolor": "black",
    "ytick.labelsize": SIZE,
}


def style() -> AbstractContextManager[None]:
    """The style of all figures; a context, so it changes nothing for the caller."""
    return mpl.rc_context(_STYLE)


@contextmanager
def laid_out(figure: Figure) -> Iterator[None]:
    """The figure with a layout that is computed once, however often it is drawn within.

    That takes longer than drawing, and each drawing would do it twice. What is drawn has one layout
    in all formats, too. Within another one for the same figure it does nothing.
    """
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    with style(), warnings.catch_warnings():
        # Where text leaves no room for the axes, they stay as they are.
        warnings.filterwarnings("ignore", "constrained_layout not applied")
        figure.draw_without_rendering()
    figure.set_layout_engine(None)
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def save(
    figure: Figure, path: str | Path, formats: Sequence[str] = ("png", "svg", "pdf")
) -> list[Path]:
    """Writes `path` plus a suffix for each format; the same figure gives the same bytes."""
    no_date = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    with laid_out(figure), style():
        for suffix in formats:
            target = path.with_name(f"{path.name}.{suffix}")
            content = io.BytesIO()
            figure.savefig(content, format=suffix, metadata=no_date.get(suffix))
            write_atomically(target, content.getvalue())
            paths.append(target)
    return paths


def of_run(result: Result) -> dict[str, Figure]:
    """The figures of a traced run: `<flow>-delay` and `<flow>-mos` for calls, `<flow>-paths`.

    The first of a call over several paths shows which of them carried each frame. With two
    senders in a flow, `<flow>-<side>-delay` and so on.
    """
    figures = {}
    for table, name, draw in (
        ("frames", "delay", _delay_of),
        ("ratings", "mos", _rating_of),
        ("paths", "paths", _paths_of),
    ):
        trace = result.traces.get(table)
        if trace is None or trace.is_empty():
            continue
        for (flow,), rows in trace.group_by("flow", maintain_order=True):
            sides = rows["side"].unique(maintain_order=True).to_list()
            for side in sides:
                # A flow with one sender needs no name for it.
                key = f"{flow}-{name}" if len(sides) == 1 else f"{flow}-{side}-{name}"
                figures[key] = draw(result, str(flow), rows.filter(pl.col("side") == side))
    return figures


def _direction(result: Result, flow: str, side: str) -> str:
    """From which host to which the side sends."""
    ends = [shortened(_flow(result, flow)[end]) for end in ("from", "to")]
    sender, receiver = ends if side == "a" else reversed(ends)
    return f"flow {shortened(flow)} from {sender} to {receiver}"


def _delay_of(result: Result, flow: str, frames: pl.DataFrame) -> Figure:
    names = _flow(result, flow)["paths"]
    if len(names) > 1:
        carried = packets.carried(result, flow, frames["side"][0])
        numbers = dict(enumerate(names))
        frames = carried.with_columns(
            pl.col("path").replace_strict(numbers, default=None, return_dtype=pl.String)
        )
    return frame_delay(
        frames,
        playout_limit_ms=_playout_limit_ms(result, flow, frames),
        title=f"{result.scenario.name}: delay of each frame, "
        + _direction(result, flow, frames["side"][0]),
    )


def _rating_of(result: Result, flow: str, rows: pl.DataFrame) -> Figure:
    side = rows["side"][0]
    return rating(
        rows,
        changes=primary_changes(result, flow, side),
        failures=primary_failures(result, flow, side),
        names=_flow(result, flow)["paths"],
        title=f"{result.scenario.name}: MOS of each second, {_direction(result, flow, side)}",
    )


def primary_changes(result: Result, flow: str, side: str) -> list[tuple[float, str]]:
    """When another path became the primary one at this side of a flow, and its name."""
    names = _flow(result, flow)["paths"]
    primary = _primary(result, flow, side)
    changed = primary.filter(pl.col("path").ne_missing(pl.col("path").shift()))
    return [(row["time_s"], names[row["path"]]) for row in changed.iter_rows(named=True)]


def primary_failures(result: Result, flow: str, side: str) -> list[tuple[float, float]]:
    """From when to when the primary path at this side of a flow was not active."""
    primary = _primary(result, flow, side).with_columns(failed=pl.col("state") != "active")
    turns = primary.filter(pl.col("failed").ne_missing(pl.col("failed").shift()))
    ends = [*turns["time_s"][1:], math.inf]
    return [
        (start, end)
        for start, end, failed in zip(turns["time_s"], ends, turns["failed"], strict=False)
        if failed
    ]


def _primary(result: Result, flow: str, side: str) -> pl.DataFrame:
    """The rows of the trace `paths` that are of the primary path of the time."""
    of_side = (pl.col("flow") == flow) & (pl.col("side") == side)
    return result.traces["paths"].filter(of_side & pl.col("is_primary"))


def _paths_of(result: Result, flow: str, rows: pl.DataFrame) -> Figure:
    names = _flow(result, flow)["paths"]
    host = _flow(result, flow)["from" if rows["side"][0] == "a" else "to"]
    rows = rows.with_columns(pl.Series("path", [names[number] for number in rows["path"]]))
    return paths(
        rows,
        rto_limits_ms=_rto_limits_ms(result, flow),
        title=f"{result.scenario.name}: paths, flow {shortened(flow)} at {shortened(host)}",
    )


def _rto_limits_ms(result: Result, flow: str) -> tuple[float, float] | None:
    """RTO.Min and RTO.Max of a flow, where its transport names both."""
    transport = _flow(result, flow)["transport"]
    if not {"rto_min", "rto_max"} <= transport.keys():
        return None
    return milliseconds(transport["rto_min"]), milliseconds(transport["rto_max"])


def frame_delay(
    frames: pl.DataFrame, *, playout_limit_ms: float | None = None, title: str = ""
) -> Figure:
    """Delay of each frame over the time of its creation; lost ones on the axis, late ones marked.

    Parameters
    ----------
    frames
        The trace `frames` of one flow: created_s, delay_ms, status; with `path`, the name of the
        path that each frame took, every path has its colour and late frames are rings.
    playout_limit_ms
        The delay beyond which a frame comes too late to be played, drawn as a line.
    title
        Above the figure.
    """
    with style():
        figure, axes = _figure(8, 3.6)
        played, late, lost = (
            frames.filter(pl.col("status") == status) for status in ("played", "late", "lost")
        )
        if "path" in frames.columns:
            handles = _frames_by_path(axes, frames)
        else:
            dots: Any = {
                "linestyle": "none",
                "marker": "o",
                "markersize": 2.2,
                "markeredgewidth": 0,
            }
            for rows, colour, gid in ((played, COLOURS[0], "played"), (late, ACCENT, "late")):
                axes.plot(rows["created_s"], rows["delay_ms"], color=colour, gid=gid, **dots)
            _lost(axes, lost, "black", "lost")
            handles = [
                _dot(f"{played.height:,} played", COLOURS[0]),
                _dot(f"{late.height:,} late", ACCENT),
                _tick(f"{lost.height:,} lost (on the axis)", "black"),
            ]
        axes.set_xlabel("frame created at (s)")
        axes.set_ylabel("delay (ms)")
        if playout_limit_ms is not None:
            axes.axhline(playout_limit_ms, color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(
                f"playout limit {playout_limit_ms:.0f} ms",
                (1, playout_limit_ms),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                color=QUIET,
            )
        axes.margins(x=0.01)
        axes.set_ylim(bottom=0)
        _title(axes, title)
        legend(figure, handles)
        return figure


def _dot(label: str, colour: str) -> Line2D:
    """A legend's entry for dots."""
    return Line2D([], [], color=colour, marker="o", markersize=4, linestyle="none", label=label)


def _tick(label: str, colour: str) -> Line2D:
    """A legend's entry for marks on the axis."""
    return Line2D([], [], color=colour, marker="|", markersize=9, linestyle="none", label=label)


def _frames_by_path(axes: Axes, frames: pl.DataFrame) -> list[Line2D]:
    """Draws frames in the colour of their path; gives what to say about each path."""
    handles = []
    names = frames["path"].drop_nulls().unique(maintain_order=True).sort().to_list()
    for i, name in enumerate(names):
        own, colour = frames.filter(pl.col("path") == name), COLOURS[i % len(COLOURS)]
        played, late, lost = (
            own.filter(pl.col("status") == status) for status in ("played", "late", "lost")
        )
        dots: Any = {"linestyle": "none", "marker": "o", "color": colour}
        axes.plot(
            played["created_s"],
            played["delay_ms"],
            markersize=2.2,
            markeredgewidth=0,
            gid=f"played-{name}",
            **dots,
        )
        axes.plot(
            late["created_s"],
            late["delay_ms"],
            markersize=4,
            markeredgewidth=0.8,
            fillstyle="none",
            gid=f"late-{name}",
            **dots,
        )
        _lost(axes, lost, colour, f"lost-{name}")
        text = (
            f"{shortened(name)}: {played.height:,} played, {late.height:,} late (rings),"
            f" {lost.height:,} lost"
        )
        handles.append(_dot(text, colour))
    if (nowhere := frames.filter(pl.col("path").is_null())).height:
        _lost(axes, nowhere.filter(pl.col("status") == "lost"), "black", "never-sent")
        handles.append(_tick(f"{nowhere.height:,} never sent", "black"))
    return handles


def _lost(axes: Axes, frames: pl.DataFrame, colour: str, gid: str) -> None:
    """Marks on the axis, where the delay of a frame that never came belongs to no value."""
    axes.plot(
        frames["created_s"],
        [0.0] * frames.height,
        color=colour,
        linestyle="none",
        marker="|",
        markersize=9,
        markeredgewidth=0.8,
        gid=gid,
        transform=axes.get_xaxis_transform(),
        clip_on=False,
    )


def rating(
    trace: pl.DataFrame,
    *,
    changes: Sequence[tuple[float, str]] = (),
    failures: Sequence[tuple[float, float]] = (),
    names: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """MOS of each second of a call, the primary path above it, grey where that has failed.

    Parameters
    ----------
    trace
        The trace `ratings` of one side of one flow: start_s, end_s, mos.
    changes
        Time in seconds and name of the new path.
    failures
        From when to when, in seconds, the primary path was not active.
    names
        Of all paths, where `changes` may lack some: each keeps its colour.
    title
        Above the figure.
    """
    first, last = trace["start_s"][0], trace["end_s"][-1]
    with style():
        figure, axes = _figure(8, 3)
        handles = draw_rating(axes, trace, changes, names)
        shown = [(max(a, first), min(b, last)) for a, b in failures if a < last and b > first]
        for start, end in shown:
            axes.axvspan(start, end, color=FAILED, linewidth=0, zorder=0, gid="failed")
        if shown:
            handles.append(Patch(color=FAILED, label="grey: the primary path has failed"))
        axes.set_xlabel("time (s)")
        _title(axes, title)
        legend(figure, handles)
        return figure


def draw_rating(
    axes: Axes,
    trace: pl.DataFrame,
    changes: Sequence[tuple[float, str]],
    names: Sequence[str] = (),
    colour: str = "black",
) -> list[Artist]:
    """Draws what `rating` shows; gives what a legend says of the primary path."""
    first, last = trace["start_s"][0], trace["end_s"][-1]
    # A second without a frame has no rating: the line breaks there.
    for _, rows in trace.group_by(
        (pl.col("start_s") > pl.col("end_s").shift() + 1e-6).fill_null(value=False).cum_sum(),
        maintain_order=True,
    ):
        edges = [*rows["start_s"], rows["end_s"][-1]]
        axes.stairs(rows["mos"], edges, baseline=None, color=colour, linewidth=1.5)
    colours = path_colours([*names, *(name for _, name in changes)])
    handles = strip(axes, changes, first, last, colours)
    axes.set_ylim(1, 4.6)
    axes.margins(x=0.01)
    axes.set_ylabel("MOS")
    return handles


_STRIP_INCHES = 0.09
"""Height of the primary path's strip."""


def strip(
    axes: Axes,
    changes: Sequence[tuple[float, str]],
    first_s: float,
    last_s: float,
    colours: Mapping[str, str],
) -> list[Artist]:
    """The primary path as a strip above the axes, in the colours of the paths.

    Parameters
    ----------
    axes
        With time in seconds from left to right.
    changes
        Time in seconds and name of the path that is the primary one from then on.
    first_s, last_s
        From when to when it is drawn.
    colours
        Of the paths, by name.

    Returns
    -------
    What a legend says, one entry for each path that was the primary one.
    """
    ends = [*(time for time, _ in changes[1:]), math.inf]
    pieces = [
        (max(time, first_s), min(end, last_s), name)
        for (time, name), end in zip(changes, ends, strict=False)
        if time < last_s and end > first_s
    ]
    # Time from left to right, inches above the axes' top.
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = figure.dpi_scale_trans + ScaledTranslation(0, 1, axes.transAxes)  # type: ignore[arg-type]
    place = blended_transform_factory(axes.transData, inches)
    for start, end, name in pieces:
        piece = Rectangle(
            (start, 0.03),
            end - start,
            _STRIP_INCHES,
            transform=place,
            color=colours[name],
            linewidth=0,
            clip_on=False,
            gid=f"primary-{name}",
        )
        axes.add_patch(piece)
    seen = dict.fromkeys(name for _, _, name in pieces)
    return [
        Patch(color=colours[name], label=f"strip: {shortened(name)} is the primary path")
        for name in seen
    ]


def path_colours(names: Iterable[str]) -> dict[str, str]:
    """The colour of each path, the same in all figures of a run."""
    ordered = sorted(set(names))
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(ordered)}


def paths(
    trace: pl.DataFrame,
    *,
    rto_limits_ms: tuple[float, float] | None = None,
    title: str = "",
) -> Figure:
    """Congestion window and RTO of each path over time, and which path is the primary one.

    Parameters
    ----------
    trace
        The trace `paths` of one side of one flow: time_s, path, cwnd_bytes, rto_ms; with
        `is_primary`, the primary path is a strip above, if there are several paths.
    rto_limits_ms
        RTO.Min and RTO.Max, drawn as lines where they lie near the RTOs.
    title
        Above the figure.
    """
    panels = (("cwnd_bytes", 1e-3, "cwnd (kB)", "linear"), ("rto_ms", 1.0, "RTO (ms)", "log"))
    colours = path_colours(trace["path"].unique().to_list())
    with style():
        figure = blank(8, 5)
        stacked = figure.subplots(len(panels), 1, sharex=True)
        for axes, (column, scale, label, axis_scale) in zip(stacked, panels, strict=True):
            ends = []
            for (path,), rows in trace.group_by("path", maintain_order=True):
                colour = colours[str(path)]
                values = rows[column] * scale
                axes.step(rows["time_s"], values, where="post", color=colour, linewidth=1.2)
                ends.append((values[-1], str(path), colour))
            axes.set_yscale(axis_scale)
            axes.set_ylabel(label)
            axes.margins(x=0.01)
            if axis_scale == "linear":
                axes.set_ylim(bottom=0)
            else:
                _rto_limits(axes, rto_limits_ms)
                plain_log(axes.yaxis)
            label_ends(figure, axes, ends)
        stacked[-1].set_xlabel("time (s)")
        _title(stacked[0], title, pad=16)
        if len(colours) > 1 and "is_primary" in trace.columns:
            primary = trace.filter("is_primary").sort("time_s", maintain_order=True)
            primary = primary.filter(pl.col("path").ne_missing(pl.col("path").shift()))
            changes = list(primary.select("time_s", "path").iter_rows())
            span = trace["time_s"].min(), trace["time_s"].max()
            legend(figure, strip(stacked[0], changes, *span, colours))  # type: ignore[arg-type]
        return figure


def _rto_limits(axes: Axes, limits_ms: tuple[float, float] | None) -> None:
    """Lines at RTO.Min and RTO.Max, unless they lie far from what is drawn."""
    low, high = axes.get_ylim()
    for name, limit in zip(("RTO.Min", "RTO.Max"), limits_ms or (), strict=False):
        if not low / _FAR <= limit <= high * _FAR:
            continue
        axes.axhline(limit, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), gid=name)
        axes.annotate(
            f"{name} {limit:,g} ms",
            (0, limit),
            xycoords=("axes fraction", "data"),
            xytext=(3, 3),
            textcoords="offset points",
            color=QUIET,
        )


_FAR = 4.0
"""A limit beyond so many times what is drawn is left out: it would flatten the rest."""


def metric_against_axis(
    cells: pl.DataFrame,
    x: str,
    *,
    by: str | None = None,
    x_label: str = "",
    y_label: str = "",
    log_x: bool = False,
    title: str = "",
) -> Figure:
    """A metric against an axis with its intervals, one line a value of `by`.

    Parameters
    ----------
    cells
        As `Study.cells` gives them: columns `x`, `by`, mean, half_width.
    x, by
        Names of axes; `x` has numbers.
    x_label, y_label
        With units.
    log_x
        Whether the axis is logarithmic.
    title
        Above the figure.
    """
    with style():
        figure, axes = _figure(6.4, 4)
        groups = [("", cells)] if by is None else cells.group_by(by, maintain_order=True)
        ends = []
        names = (
            []
            if by is None
            else wording.told_apart(cells[by].unique(maintain_order=True), write=_plain)
        )
        for i, (_, group) in enumerate(groups):
            rows = group.sort(x)
            colour = COLOURS[i % len(COLOURS)]
            axes.errorbar(
                rows[x],
                rows["mean"],
                yerr=rows["half_width"].fill_nan(0),
                color=colour,
                marker="o",
                markersize=4,
                capsize=2.5,
                elinewidth=1,
            )
            if by is not None:
                ends.append((rows["mean"][-1], f"{by} = {names[i]}", colour))
        if log_x:
            axes.set_xscale("log")
            plain_log(axes.xaxis)
        axes.set_xlabel(x_label or x)
        axes.set_ylabel(y_label)
        label_ends(figure, axes, ends)
        _title(axes, title)
        return figure


def heat_map(
    cells: pl.DataFrame,
    x: str,
    y: str,
    *,
    value: str = "mean",
    value_label: str = "",
    limits: tuple[float, float] | None = None,
    title: str = "",
) -> Figure:
    """A value for each pair of two axes: colour, and the number itself.

    Parameters
    ----------
    cells
        As `Study.cells` gives them, one row a pair.
    x, y
        Names of the axes; their values appear in the order of the rows.
    value
        Which column.
    value_label
        What the colour means.
    limits
        Of the colour scale, so that several maps can be compared.
    title
        Above the figure.
    """
    columns = cells[x].unique(maintain_order=True).to_list()
    lines = cells[y].unique(maintain_order=True).to_list()
    grid = [[math.nan] * len(columns) for _ in lines]
    for row in cells.iter_rows(named=True):
        grid[lines.index(row[y])][columns.index(row[x])] = row[value]
    with style():
        figure, axes = _figure(1.8 + 0.62 * len(columns), 1.5 + 0.5 * len(lines))
        image = heat(
            axes,
            grid,
            limits,
            *(wording.told_apart(values, write=_plain) for values in (columns, lines)),
        )
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        bar = figure.colorbar(image, ax=axes, label=value_label, fraction=0.05, pad=0.02)
        bar.outline.set_visible(False)
        _title(axes, title)
        return figure


def heat(
    axes: Axes,
    grid: Sequence[Sequence[float]],
    limits: tuple[float, float] | None,
    columns: Sequence[str],
    lines: Sequence[str],
    *,
    digits: int = 2,
    colours: str = "cividis",
) -> AxesImage:
    """Draws a heat map with the number in each cell, dark ones in white.

    Parameters
    ----------
    axes
        Where.
    grid
        Lines of values; NaN is empty.
    limits
        Of the colour scale; those of the values if not given.
    columns, lines
        What to write below and beside them.
    digits
        After the point.
    colours
        The colour map.
    """
    low, high = limits or (None, None)
    image = axes.imshow(grid, cmap=colours, vmin=low, vmax=high, aspect="auto")
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(lines)), lines)
    for j, line in enumerate(grid):
        for i, value in enumerate(line):
            if math.isnan(value):
                continue
            red, green, blue, _ = image.cmap(float(image.norm(value)))  # type: ignore[arg-type]
            # Perceived brightness (ITU-R BT.601).
            is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            axes.text(
                i,
                j,
                f"{round(value, digits) + 0.0:.{digits}f}",  # no -0
                ha="center",
                va="center",
                color=ON_DARK if is_dark else ON_LIGHT,
            )
    return image


def frame_cells(axes: Axes, cells: Iterable[tuple[int, int]]) -> None:
    """Frames cells of a heat map, by column and line: those that may be the best."""
    for column, line in cells:
        axes.add_patch(
            Rectangle(
                (column - 0.46, line - 0.44),
                0.92,
                0.88,
                fill=False,
                edgecolor=ACCENT,
                linewidth=1.6,
                clip_on=False,
                gid="best",
            )
        )


def blank(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def legend(figure: Figure, handles: Sequence[Artist], columns: int | None = None) -> None:
    """A legend above everything, in as few lines as the figure's width allows."""
    if not handles:
        return
    labels = [str(handle.get_label()) for handle in handles]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=columns or _columns(labels, figure.get_size_inches()[0]),
        frameon=False,
        handletextpad=0.5,
        columnspacing=1.6,
    )


def _columns(labels: Sequence[str], room: float) -> int:
    """How many columns of a legend fit into so many inches."""
    widths = [_KEY + CHARACTER * max(map(len, label.split("\n"))) for label in labels]
    for columns in range(len(widths), 1, -1):
        # Entries go down the columns, the first ones of which may be longer by one.
        few, longer = divmod(len(widths), columns)
        sizes = [few + (i < longer) for i in range(columns)]
        ends = list(accumulate(sizes))
        columns_of = (widths[end - size : end] for end, size in zip(ends, sizes, strict=True))
        if sum(map(max, columns_of)) <= room:
            return columns
    return 1


def shortened(name: str, most: int = NAME) -> str:
    """A name in at most so many characters: of its two ends, since names may differ in either."""
    last = most // 3
    return name if len(name) <= most else f"{name[: most - 1 - last]}…{name[-last:]}"


def finite(value: float) -> float:
    """A half-width to draw: none where there is none."""
    return 0.0 if math.isnan(value) else value


def bar(
    mean: float, half_width: float, low: float = 0.0, high: float = math.inf
) -> list[list[float]]:
    """An interval to draw, cut to what is possible: Jain's index is never above 1."""
    width = finite(half_width)
    return [[max(0.0, min(width, mean - low))], [max(0.0, min(width, high - mean))]]


def percent(share: float) -> str:
    """A share as people write it."""
    return f"{100 * share:g} %"


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = blank(width, height)
    return figure, figure.add_subplot()


def _title(axes: Axes, title: str, pad: float = 12) -> None:
    if title:
        figure = axes.get_figure(root=True)
        assert figure is not None
        axes.set_title(filled(title, figure), pad=pad)


def filled(title: str, figure: Figure) -> str:
    """The title in lines that fit into the figure, beside what stands left of its axes."""
    characters = (figure.get_size_inches()[0] - 1) / (CHARACTER * TITLE_SIZE / SIZE)
    return textwrap.fill(title, int(characters))


def label_ends(figure: Figure, axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Labels right of the axes at the height of each line's end, moved apart if need be.

    Parameters
    ----------
    figure, axes
        Where.
    ends
        Last value, text and colour of each line.
    """
    known = sorted(end for end in ends if math.isfinite(end[0]))
    if not known:
        return
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    left = axes.get_xlim()[0]
    heights = [float(to_axes.transform((left, value))[1]) for value, _, _ in known]
    spec = axes.get_subplotspec()
    panels = spec.get_gridspec().nrows if spec else 1
    line = 0.2 / figure.get_size_inches()[1] * panels
    lines = [1 + text.count("\n") for _, text, _ in known]
    for i in range(1, len(heights)):
        apart = line * (lines[i - 1] + lines[i]) / 2
        heights[i] = max(heights[i], heights[i - 1] + apart)
    overflow = max(0.0, heights[-1] - 1)
    for height, (_, text, colour) in zip(heights, known, strict=True):
        axes.annotate(
            "\n".join(map(shortened, text.split("\n"))),
            (1, height - overflow),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )


STEPS = 400
"""Of a time axis, each narrower than what a panel can show."""


def thinned(rows: pl.DataFrame, value: str, until_s: float) -> pl.DataFrame:
    """The rows of a trace that a line through them shows: first, least, most and last of each step.

    Parameters
    ----------
    rows
        With `time_s`, in order of time.
    value
        What is drawn against the time.
    until_s
        The end of the time axis, which begins at 0 and has STEPS steps.
    """
    if rows.height <= 4 * STEPS:
        return rows
    of_step, place = pl.col("time_s") * STEPS // until_s, pl.int_range(pl.len())
    extremes = [pl.col(value).arg_min(), pl.col(value).arg_max(), pl.lit(0), pl.len() - 1]
    is_kept = pl.any_horizontal(place == extreme for extreme in extremes).over(of_step)
    return rows.filter(is_kept)


def plain_log(axis: Axis) -> None:
    """Numbers on a logarithmic axis as people write them: 0.1, not 10 to the power of -1."""
    axis.set_major_formatter(lambda value, _: _plain(value))
    # Between the powers of ten only where there would be few numbers otherwise.
    axis.set_minor_formatter(_FewMinor(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))


class _FewMinor(LogFormatter):
    def __call__(self, x: float, pos: int | None = None) -> str:
        return _plain(x) if super().__call__(x, pos) else ""


def _plain(value: object, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _playout_limit_ms(result: Result, flow: str, frames: pl.DataFrame) -> float | None:
    """A fixed jitter buffer's limit: its depth after the delay of the first frame that arrived."""
    buffer = _flow(result, flow)["app"].get("jitter_buffer", {})
    arrived = frames.filter(pl.col("arrived_s").is_not_nan()).sort("arrived_s")
    if buffer.get("kind") != "fixed" or "depth" not in buffer or arrived.is_empty():
        return None
    return float(arrived["delay_ms"][0]) + milliseconds(buffer["depth"])


def _flow(result: Result, flow: str) -> dict[str, Any]:
    """What the scenario says about a flow, with every default filled in."""
    flows = tomllib.loads(result.scenario.cell_toml(result.cell))["flows"]
    # `load_2` is one of the flows that `load` with a count stands for.
    flow_tree: dict[str, Any] = flows[flow if flow in flows else flow.rpartition("_")[0]]
    return flow_tree
