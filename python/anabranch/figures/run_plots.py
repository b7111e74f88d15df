"""Figures of one run: delays and ratings of calls, and what the paths of a flow did."""

import math
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.store import members
from anabranch.studies import frames as packets
from anabranch.studies.result import Result
from anabranch.support.quantities import milliseconds
from anabranch.support.transports import can

from . import sequences, transfers
from .plots import (
    ACCENT,
    COLOURS,
    FAILED,
    QUIET,
    blank,
    label_ends,
    legend,
    logarithmic,
    panel,
    shortened,
    strip,
    style,
    titled,
)

_FAR = 4.0
"""Limits above this multiple of the drawn values are left out, as they would flatten the rest."""


def of_run(result: Result) -> dict[str, Figure]:
    """The figures of a traced run by name.

    These are `<flow>-transfer` and `<flow>-sequence` for what TCP and Multipath TCP carry, but for
    calls, and for others `<flow>-delay` and `<flow>-mos` of calls, and `<flow>-paths`.

    For a call over several paths, the delay figure shows which path carried each frame. If both
    ends of a flow send, the names are `<flow>-<side>-delay` and so on.
    """
    figures, drawn = _transfers(result)
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
                if name == "paths" and flow in drawn:
                    continue
                # The side is named only where both ends send.
                key = f"{flow}-{name}" if len(sides) == 1 else f"{flow}-{side}-{name}"
                figures[key] = draw(result, str(flow), rows.filter(pl.col("side") == side))
    return figures


def _transfers(result: Result) -> tuple[dict[str, Figure], set[str]]:
    """The figures of flows that number bytes and are no calls, of the ends that send.

    Gives these flows, too.
    """
    if not {"intervals", "packets", "paths", "limits", "queues"} <= result.traces.keys():
        return {}, set()
    frames = result.traces.get("frames")
    calls = set() if frames is None else set(frames["flow"])
    scenario = tomllib.loads(result.scenario.cell_toml(result.cell))
    figures, flows = {}, set()
    for flow in result.traces["intervals"]["flow"].unique(maintain_order=True):
        tree = _flow(result, flow)
        if flow in calls or can(tree["transport"]["kind"]).numbering != "bytes":
            continue
        sides = transfers.senders(result, flow)
        flows |= {flow} if sides else set()
        for side in sides:
            key = f"{flow}-transfer" if len(sides) == 1 else f"{flow}-{side}-transfer"
            figures[key] = transfers.transfer(result, flow, side, tree, scenario)
            if (graph := sequences.sequence(result, flow, side, tree)) is not None:
                figures[key.replace("-transfer", "-sequence")] = graph
    return figures, flows


def _direction(result: Result, flow: str, side: str) -> str:
    """The host from which the side sends and the one to which it sends."""
    ends = [shortened(_flow(result, flow)[end]) for end in ("from", "to")]
    sender, receiver = ends if side == "a" else reversed(ends)
    return f"flow {shortened(flow)} from {sender} to {receiver}"


def delays(result: Result, flow: str, side: str) -> Figure:
    """The delay of each frame that this side of a call sent."""
    sent = (pl.col("flow") == flow) & (pl.col("side") == side)
    return _delay_of(result, flow, result.traces["frames"].filter(sent))


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
    """The times at which another path became primary at this side, each with its name."""
    names = _flow(result, flow)["paths"]
    primary = _primary(result, flow, side)
    changed = primary.filter(pl.col("path").ne_missing(pl.col("path").shift()))
    return [(row["time_s"], names[row["path"]]) for row in changed.iter_rows(named=True)]


def primary_failures(result: Result, flow: str, side: str) -> list[tuple[float, float]]:
    """When, from start to end, the primary path at this side of a flow was not active."""
    primary = _primary(result, flow, side).with_columns(failed=pl.col("state") != "active")
    turns = primary.filter(pl.col("failed").ne_missing(pl.col("failed").shift()))
    ends = [*turns["time_s"][1:], math.inf]
    return [
        (start, end)
        for start, end, failed in zip(turns["time_s"], ends, turns["failed"], strict=False)
        if failed
    ]


def _primary(result: Result, flow: str, side: str) -> pl.DataFrame:
    """The rows of the trace `paths` that belong to the path that was primary at the time."""
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
    """The delay of each frame over its creation time.

    Lost frames stand on the axis, late ones are marked.

    Parameters
    ----------
    frames
        The trace `frames` of one flow: created_s, delay_ms, status. If it has `path`, the name of
        the path that each frame took, every path has its colour and late frames are rings.
    playout_limit_ms
        The delay beyond which a frame is too late to be played; it is drawn as a line.
    title
        The title above the figure.
    """
    with style():
        figure, axes = panel(8, 3.6)
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
        titled(axes, title)
        legend(figure, handles)
        return figure


def _dot(label: str, colour: str) -> Line2D:
    """A legend entry for dots."""
    return Line2D([], [], color=colour, marker="o", markersize=4, linestyle="none", label=label)


def _tick(label: str, colour: str) -> Line2D:
    """A legend entry for marks on the axis."""
    return Line2D([], [], color=colour, marker="|", markersize=9, linestyle="none", label=label)


def _frames_by_path(axes: Axes, frames: pl.DataFrame) -> list[Line2D]:
    """Draws frames in the colour of their path; gives the legend entry of each path."""
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
    """Marks lost frames on the axis, as they have no delay."""
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
    """MOS of each second of a call, with the primary path above and grey while it has failed.

    Parameters
    ----------
    trace
        The trace `ratings` of one side of one flow: start_s, end_s, mos.
    changes
        Times in seconds, each with the name of the new path.
    failures
        Start and end, in seconds, of the times in which the primary path was not active.
    names
        The names of all paths, where `changes` may lack some, so that each keeps its colour.
    title
        The title above the figure.
    """
    first, last = trace["start_s"][0], trace["end_s"][-1]
    with style():
        figure, axes = panel(8, 3)
        handles = draw_rating(axes, trace, changes, names)
        shown = [(max(a, first), min(b, last)) for a, b in failures if a < last and b > first]
        for start, end in shown:
            axes.axvspan(start, end, color=FAILED, linewidth=0, zorder=0, gid="failed")
        if shown:
            handles.append(Patch(color=FAILED, label="grey: the primary path has failed"))
        axes.set_xlabel("time (s)")
        titled(axes, title)
        legend(figure, handles)
        return figure


def draw_rating(
    axes: Axes,
    trace: pl.DataFrame,
    changes: Sequence[tuple[float, str]],
    names: Sequence[str] = (),
    colour: str = "black",
) -> list[Artist]:
    """Draws what `rating` shows; gives the legend entries of the primary path."""
    first, last = trace["start_s"][0], trace["end_s"][-1]
    # A second without a frame has no rating, and the line has a gap there.
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


def path_colours(names: Iterable[str]) -> dict[str, str]:
    """The colour of each path, which is the same in all figures of a run."""
    ordered = sorted(set(names))
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(ordered)}


def paths(
    trace: pl.DataFrame,
    *,
    rto_limits_ms: tuple[float, float] | None = None,
    title: str = "",
) -> Figure:
    """Congestion window and RTO of each path over time, and which path is primary.

    Parameters
    ----------
    trace
        The trace `paths` of one side of one flow: time_s, path, cwnd_bytes, rto_ms. If it has
        `is_primary` and several paths, a strip above shows the primary path.
    rto_limits_ms
        RTO.Min and RTO.Max, drawn as lines if they are near the RTOs.
    title
        The title above the figure.
    """
    panels = (("cwnd_bytes", 1e-3, "cwnd (kB)", False), ("rto_ms", 1.0, "RTO (ms)", True))
    colours = path_colours(trace["path"].unique().to_list())
    with style():
        figure = blank(8, 5)
        stacked = figure.subplots(len(panels), 1, sharex=True)
        for axes, (column, scale, label, is_log) in zip(stacked, panels, strict=True):
            ends = []
            for (path,), rows in trace.group_by("path", maintain_order=True):
                colour = colours[str(path)]
                values = rows[column] * scale
                axes.step(rows["time_s"], values, where="post", color=colour, linewidth=1.2)
                ends.append((values[-1], str(path), colour))
            if is_log:
                logarithmic(axes.yaxis)
            axes.set_ylabel(label)
            axes.margins(x=0.01)
            if is_log:
                _rto_limits(axes, rto_limits_ms)
            else:
                axes.set_ylim(bottom=0)
            label_ends(figure, axes, ends)
        stacked[-1].set_xlabel("time (s)")
        titled(stacked[0], title, pad=16)
        if len(colours) > 1 and "is_primary" in trace.columns:
            primary = trace.filter("is_primary").sort("time_s", maintain_order=True)
            primary = primary.filter(pl.col("path").ne_missing(pl.col("path").shift()))
            changes = list(primary.select("time_s", "path").iter_rows())
            span = trace["time_s"].min(), trace["time_s"].max()
            legend(figure, strip(stacked[0], changes, *span, colours))  # type: ignore[arg-type]
        return figure


def _rto_limits(axes: Axes, limits_ms: tuple[float, float] | None) -> None:
    """Draws lines at RTO.Min and RTO.Max, unless they are far from the drawn values."""
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
            # Lines that pass behind it leave it readable.
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
            zorder=3,
        )


def _playout_limit_ms(result: Result, flow: str, frames: pl.DataFrame) -> float | None:
    """The limit of a fixed jitter buffer: its depth plus the first arrived frame's delay."""
    buffer = _flow(result, flow)["app"].get("jitter_buffer", {})
    arrived = frames.filter(pl.col("arrived_s").is_not_nan()).sort("arrived_s")
    if buffer.get("kind") != "fixed" or "depth" not in buffer or arrived.is_empty():
        return None
    return float(arrived["delay_ms"][0]) + milliseconds(buffer["depth"])


def _flow(result: Result, flow: str) -> dict[str, Any]:
    """The settings of a flow in the scenario, with every default filled in."""
    flows = tomllib.loads(result.scenario.cell_toml(result.cell))["flows"]
    tree: dict[str, Any] = members.settings_of(flows, flow)
    return tree
