"""Figures of runs and studies. Every function returns a figure; none shows or saves it.

Colours are Okabe and Ito's (Color Universal Design, 2008): they stay apart for all common kinds of
colour vision. Lines are labelled where they end, so no legend has to be matched to colours.
"""

import io
import math
import tomllib
from collections.abc import Sequence
from contextlib import AbstractContextManager
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
from matplotlib.ticker import LogFormatter

from anabranch import frames as packets
from anabranch import terminal
from anabranch.files import write_atomically
from anabranch.quantities import milliseconds
from anabranch.study import Result

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""For lines, in this order."""

ACCENT = "#D55E00"
QUIET = "#666666"
FAILED = "#EEEEEE"
"""Behind the time in which something is not there."""

ON_DARK, ON_LIGHT = "#FEFEFE", "#010101"
"""For text on a colour that stays when a page makes black white: neither is exactly that."""

_CHARACTER = 0.0115
"""Width of one in a note above the axes, as a part of theirs."""

_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "figure.constrained_layout.use": True,
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 10,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.5,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "anabranch",
    "xtick.color": QUIET,
    "xtick.labelcolor": "black",
    "ytick.color": QUIET,
    "ytick.labelcolor": "black",
}


def style() -> AbstractContextManager[None]:
    """The style of all figures; a context, so it changes nothing for the caller."""
    return mpl.rc_context(_STYLE)


def save(
    figure: Figure, path: str | Path, formats: Sequence[str] = ("png", "svg", "pdf")
) -> list[Path]:
    """Writes `path` plus a suffix for each format; the same figure gives the same bytes."""
    no_date = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    with style():
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
    ends = [_flow(result, flow)[end] for end in ("from", "to")]
    sender, receiver = ends if side == "a" else reversed(ends)
    return f"flow {flow} from {sender} to {receiver}"


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
    return paths(rows, title=f"{result.scenario.name}: paths, flow {flow} at {host}")


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
            counts = _frames_by_path(axes, frames)
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
            counts = [
                (f"{played.height} played", COLOURS[0]),
                (f"{late.height} late", ACCENT),
                (f"{lost.height} lost (on the axis)", "black"),
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
                fontsize=9,
            )
        axes.margins(x=0.01)
        axes.set_ylim(bottom=0)
        _title(axes, title, pad=22)
        _counts(axes, *counts)
        return figure


def _frames_by_path(axes: Axes, frames: pl.DataFrame) -> list[tuple[str, str]]:
    """Draws frames in the colour of their path; gives what to say about each path."""
    counts = []
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
        text = f"{name}: {played.height} played, {late.height} late (rings), {lost.height} lost"
        counts.append((text, colour))
    if (nowhere := frames.filter(pl.col("path").is_null())).height:
        _lost(axes, nowhere.filter(pl.col("status") == "lost"), "black", "never-sent")
        counts.append((f"{nowhere.height} never sent", "black"))
    return counts


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
    title: str = "",
) -> Figure:
    """MOS of each second of a call, with the changes and failures of the primary path.

    Parameters
    ----------
    trace
        The trace `ratings` of one side of one flow: start_s, end_s, mos.
    changes
        Time in seconds and name of the new path.
    failures
        From when to when, in seconds, the primary path was not active.
    title
        Above the figure.
    """
    first, last = trace["start_s"][0], trace["end_s"][-1]
    notes = ["time (s)"]
    with style():
        figure, axes = _figure(8, 3)
        draw_rating(axes, trace, changes)
        if any(first < time <= last for time, _ in changes):
            notes.append("dashed: the primary path changes")
        shown = [(max(a, first), min(b, last)) for a, b in failures if a < last and b > first]
        for start, end in shown:
            axes.axvspan(start, end, color=FAILED, linewidth=0, zorder=0, gid="failed")
        if shown:
            notes.append("grey: the primary path has failed")
        axes.set_xlabel("; ".join(notes))
        _title(axes, title, pad=20)
        return figure


def draw_rating(
    axes: Axes, trace: pl.DataFrame, changes: Sequence[tuple[float, str]], colour: str = COLOURS[0]
) -> None:
    """Draws what `rating` shows."""
    first, last = trace["start_s"][0], trace["end_s"][-1]
    # A second without a frame has no rating: the line breaks there.
    for _, rows in trace.group_by(
        (pl.col("start_s") > pl.col("end_s").shift() + 1e-6).fill_null(value=False).cum_sum(),
        maintain_order=True,
    ):
        edges = [*rows["start_s"], rows["end_s"][-1]]
        axes.stairs(rows["mos"], edges, baseline=None, color=colour, linewidth=1.5)
    # The path that is primary when the call begins, and those that follow.
    before = [(first, name) for time, name in changes if time <= first][-1:]
    after = [(time, name) for time, name in changes if first < time <= last]
    free = first
    for time, name in before + after:
        if time > first:
            axes.axvline(time, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), gid="change")
        if time < free:
            continue  # no room for its name
        axes.annotate(
            name,
            (time, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2, 3),
            textcoords="offset points",
            color=QUIET,
            fontsize=9,
        )
        free = time + (0.01 + _CHARACTER * len(name)) * (last - first)
    axes.set_ylim(1, 4.6)
    axes.margins(x=0.01)
    axes.set_ylabel("MOS")


def paths(trace: pl.DataFrame, *, title: str = "") -> Figure:
    """Congestion window and RTO of each path over time.

    Parameters
    ----------
    trace
        The trace `paths` of one side of one flow: time_s, path, cwnd_bytes, rto_ms.
    title
        Above the figure.
    """
    panels = (("cwnd_bytes", 1e-3, "cwnd (kB)", "linear"), ("rto_ms", 1.0, "RTO (ms)", "log"))
    with style():
        figure = blank(8, 5)
        stacked = figure.subplots(len(panels), 1, sharex=True)
        for axes, (column, scale, label, axis_scale) in zip(stacked, panels, strict=True):
            ends = []
            for i, ((path,), rows) in enumerate(trace.group_by("path", maintain_order=True)):
                colour = COLOURS[i % len(COLOURS)]
                values = rows[column] * scale
                axes.step(rows["time_s"], values, where="post", color=colour, linewidth=1.2)
                ends.append((values[-1], str(path), colour))
            axes.set_yscale(axis_scale)
            axes.set_ylabel(label)
            axes.margins(x=0.01)
            if axis_scale == "linear":
                axes.set_ylim(bottom=0)
            else:
                _plain_log(axes.yaxis)
            _label_ends(figure, axes, ends)
        stacked[-1].set_xlabel("time (s)")
        _title(stacked[0], title)
        return figure


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
            else terminal.told_apart(cells[by].unique(maintain_order=True), write=_plain)
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
            _plain_log(axes.xaxis)
        axes.set_xlabel(x_label or x)
        axes.set_ylabel(y_label)
        _label_ends(figure, axes, ends)
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
            *(terminal.told_apart(values, write=_plain) for values in (columns, lines)),
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
    size: float = 9,
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
    size
        Of the numbers in points.
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
                size=size,
            )
    return image


def blank(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def legend(figure: Figure, handles: Sequence[Artist], columns: int | None = None) -> None:
    """A legend above everything, in one line if nothing else is said."""
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=columns or len(handles),
        frameon=False,
        fontsize=9,
        handletextpad=0.5,
        columnspacing=1.6,
    )


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
        axes.set_title(title, pad=pad)


def _counts(axes: Axes, *parts: tuple[str, str]) -> None:
    """What the marks mean and how many there are, in their colours, above the axes."""
    x = 0.0
    for text, colour in parts:
        label = axes.annotate(
            text,
            (x, 1),
            xycoords="axes fraction",
            xytext=(0, 4),
            textcoords="offset points",
            color=colour,
            fontsize=9,
        )
        x += 0.022 + _CHARACTER * len(label.get_text())


def _label_ends(figure: Figure, axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Labels right of the axes at the height of each line's last value, moved apart if need be."""
    known = sorted(end for end in ends if math.isfinite(end[0]))
    if not known:
        return
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    left = axes.get_xlim()[0]
    heights = [float(to_axes.transform((left, value))[1]) for value, _, _ in known]
    gap = 0.055 * 4 / figure.get_size_inches()[1] * len(figure.axes)
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + gap)
    overflow = max(0.0, heights[-1] - 1)
    for height, (_, text, colour) in zip(heights, known, strict=True):
        axes.annotate(
            text,
            (1, height - overflow),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9,
        )


def _plain_log(axis: Axis) -> None:
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
    found: dict[str, Any] = flows[flow if flow in flows else flow.rpartition("_")[0]]
    return found
