"""The figure of a transfer: what arrived, the round trip, the window, the queue, and what held it.

It is of the end that sends, so that its panels stand one above the other as cause and effect.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from anabranch.studies.result import Result
from anabranch.support import declared

from .plots import COLOURS, QUIET, blank, label_ends, legend, shortened, style, thinned, titled

LIMIT_COLOURS = {
    "cwnd_limited": "#009E73",
    "application_limited": "#9AD3BD",
    "receive_window_limited": "#D55E00",
    "send_buffer_limited": "#E69F00",
    "scheduler_waiting": "#CC79A7",
    "in_recovery": "#56B4E9",
    "in_timeout": "#0072B2",
    "path_down": "#000000",
    "standby": "#F2F2F2",
    "handshake": QUIET,
}
"""What can hold a sender back, in Okabe and Ito's colours."""


class _Line(NamedTuple):
    """A line of a panel."""

    path: str
    """The path whose colour it has."""
    label: str
    rows: pl.DataFrame
    """Columns time_s and value."""


_LEAST_SHARE = 0.05
"""An end that sends a smaller share of what the other one does only answers."""

_BINS = 150
"""Steps of the time axis in which the limits are summed up."""


def senders(result: Result, flow: str) -> list[str]:
    """The sides of a flow that send data: one, unless both send much."""
    rows = result.traces["intervals"].filter(flow=flow)
    sums = dict(rows.group_by("side").agg(pl.col("bytes").sum()).iter_rows())
    most = max(sums.values(), default=0)
    return sorted(side for side, sent in sums.items() if sent and sent >= _LEAST_SHARE * most)


def transfer(
    result: Result, flow: str, side: str, tree: Mapping[str, Any], scenario: Mapping[str, Any]
) -> Figure:
    """The figure of one end of a flow.

    Parameters
    ----------
    result
        A traced run.
    flow, side
        The flow, and the end that sends.
    tree, scenario
        The flow's settings, and those of the whole scenario.
    """
    own = (pl.col("flow") == flow) & (pl.col("side") == side)
    names = [str(name) for name in tree["paths"]]
    colours = dict(zip(names, COLOURS, strict=False))
    paths = result.traces["paths"].filter(own).with_columns(_named(names))
    goodput = _steps(result.traces["intervals"].filter(own))
    queues = _queues(result, _crossed(tree, scenario, side))
    limits = result.traces["limits"].filter(own)
    until_s = float(max(_end(paths, "time_s"), _end(goodput, "time_s"), _end(limits, "end_s")))
    panels = [
        ("goodput\n(Mbit/s)", [_Line("", "", goodput.select("time_s", value="mbit_per_s"))]),
        ("round trip\n(ms)", _by_path(paths, "srtt_ms", 1.0)),
        ("window\n(kB)", _by_path(paths, "cwnd_bytes", 1e-3)),
        ("queue\n(packets)", queues),
    ]
    panels = [(label, lines) for label, lines in panels if lines]
    with style():
        figure = blank(8, 1.4 + 1.15 * (len(panels) + 1))
        heights = [*(1.0 for _ in panels), 0.6]
        stacked = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        for axes, (label, lines) in zip(stacked, panels, strict=False):
            ends = []
            for each in lines:
                colour = colours.get(each.path, COLOURS[0] if len(colours) < 2 else QUIET)
                drawn = thinned(each.rows, "value", until_s or 1.0)
                axes.step(
                    drawn["time_s"], drawn["value"], where="post", color=colour, linewidth=1.2
                )
                ends.append((each.rows["value"][-1], each.label, colour))
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            if len(lines) > 1 or label.startswith("queue"):
                label_ends(figure, axes, ends)
        handles = _held(stacked[-1], limits, until_s)
        stacked[-1].set_xlabel("time (s)")
        stacked[-1].set_xlim(0, until_s or 1.0)
        host = shortened(str(tree["from" if side == "a" else "to"]))
        titled(
            stacked[0],
            f"{result.scenario.name}: flow {shortened(flow)}, sent by {host}; below: what held it"
            " back",
            pad=8,
        )
        legend(figure, handles)
        return figure


def _named(names: Sequence[str]) -> pl.Expr:
    numbers = dict(enumerate(names))
    return pl.col("path").replace_strict(numbers, default=None, return_dtype=pl.String)


def _end(rows: pl.DataFrame, column: str) -> float:
    return 0.0 if rows.is_empty() else float(rows[column].max())  # type: ignore[arg-type]


def _steps(rows: pl.DataFrame) -> pl.DataFrame:
    """Goodput over time: each value holds until the next interval."""
    value = (pl.col("goodput_kbit_per_s") / 1e3).alias("mbit_per_s")
    line = rows.select(pl.col("start_s").alias("time_s"), value)
    last = rows.tail(1).select(pl.col("end_s").alias("time_s"), value)
    return pl.concat([line, last])


def _by_path(rows: pl.DataFrame, column: str, scale: float) -> list[_Line]:
    """A line for each path that has values."""
    lines = []
    for (name,), own in rows.group_by("path", maintain_order=True):
        line = own.select("time_s", value=pl.col(column).cast(pl.Float64) * scale)
        line = line.filter(pl.col("value").is_not_nan())
        if not line.is_empty():
            lines.append(_Line(str(name), str(name), line))
    return lines


def _crossed(
    tree: Mapping[str, Any], scenario: Mapping[str, Any], side: str
) -> dict[str, list[tuple[str, str]]]:
    """The links of each path, each with the direction in which this side's data crosses it."""
    crossed: dict[str, list[tuple[str, str]]] = {}
    for name in tree["paths"]:
        place, ways = tree["from"], []
        for link in scenario["paths"][name]["via"]:
            one, other = scenario["links"][link]["ends"]
            is_forward = (one == place) == (side == "a")
            ways.append((link, "forward" if is_forward else "reverse"))
            place = other if one == place else one
        crossed[name] = ways
    return crossed


def _queues(result: Result, crossed: Mapping[str, Sequence[tuple[str, str]]]) -> list[_Line]:
    """The fullest queue on the way of each path; a link that several share stands once."""
    of_way = result.traces["queues"].partition_by(
        "link", "direction", maintain_order=True, as_dict=True
    )
    lines: dict[tuple[str, str], _Line] = {}
    for path, ways in crossed.items():
        means = {way: of_way[way]["waiting_bytes"].mean() for way in ways if way in of_way}
        if not means:
            continue
        fullest = max(means, key=lambda way: float(means[way] or 0))  # type: ignore[arg-type]
        rows = of_way[fullest]
        if rows["waiting_packets"].max():
            line = rows.select("time_s", value=pl.col("waiting_packets").cast(pl.Float64))
            line = line.sort("time_s", maintain_order=True)
            lines.setdefault(fullest, _Line(path, fullest[0], line))
    return list(lines.values())


def _held(axes: Axes, limits: pl.DataFrame, until_s: float) -> list[Patch]:
    """Draws the share of each time step that each limit took, over all paths; gives a legend."""
    own = limits.filter(pl.col("path") == -1)
    rows = limits if own.is_empty() else own
    edges = np.linspace(0, until_s or 1.0, _BINS + 1)
    paths = max(rows["path"].n_unique(), 1)
    base = np.zeros(_BINS)
    handles = []
    for limit, words in declared.limits().items():
        these = rows.filter(pl.col("limit") == limit)
        if these.is_empty():
            continue
        share = np.zeros(_BINS)
        for _, part in these.group_by("path"):
            times = part.select("start_s", "end_s").to_numpy().ravel()
            sums = np.cumsum(part["end_s"] - part["start_s"])
            so_far = np.column_stack((np.concatenate(([0.0], sums[:-1])), sums)).ravel()
            share += np.diff(np.interp(edges, times, so_far)) / np.diff(edges) / paths
        colour = LIMIT_COLOURS[limit]
        axes.stairs(base + share, edges, baseline=base, fill=True, color=colour, gid=limit)
        base = base + share  # another array: the patch keeps the one that it was given
        handles.append(Patch(color=colour, label=words))
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 1], ["0", "100 %"])
    axes.set_ylabel("of time")
    axes.grid(visible=False)
    return handles
