"""The figure of time accounts: what held each path back, and what waited at the receiver."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from anabranch.explain.accounts import SHOWN, Account, Flow
from anabranch.figures import plots, transfers

COLOURS = {**transfers.LIMIT_COLOURS, "under_way": transfers.LIMIT_COLOURS["cwnd_limited"]}
"""Okabe and Ito's colours, as in all figures; grey and pale where nothing is meant to be sent."""

WAITING = ("#BBBBBB", "#444444", "#888888", "#DDDDDD")
"""Greys for waiting data, by the path on which the missing data was sent."""

_BINS = 150
"""Steps of the time axis."""


def draw(flow: Flow, title: str, *, knows_waiting: bool = True) -> Figure:
    """One panel a path of the end that has more to send, and one for what waits at the other.

    A capture does not show what waits there (`knows_waiting`).
    """
    sender, receiver = flow.sender, flow.receiver
    edges = np.linspace(flow.start_s, flow.end_s, _BINS + 1)
    names: list[str] = flow.settings["paths"]
    waiting = flow.head_of_line.filter(pl.col("side") == receiver.side)
    count = len(sender.paths) + (not waiting.is_empty())
    with plots.style():
        figure = plots.blank(8, 1.5 + 1.25 * count)
        panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
        for axes, path in zip(panels, sender.paths, strict=False):
            number = names.index(path.name)
            own = (pl.col("side") == sender.side) & (pl.col("path") == number)
            _shares(axes, flow.limits.filter(own), edges, path)
        if not knows_waiting:
            pass
        elif waiting.is_empty():
            title += "; nothing waited at the receiver"
        else:
            _waiting(panels[-1], waiting, edges, names)
        panels[-1].set_xlabel("time (s)")
        # Packets that all have one time are a flow, too.
        panels[-1].set_xlim(flow.start_s, max(flow.end_s, flow.start_s + 1e-6))
        figure.suptitle(plots.filled(title, figure), x=0.01, ha="left")
        seen = [limit for limit in SHOWN if any(path.share(limit) > 0 for path in sender.paths)]
        handles = [Patch(color=COLOURS[limit], label=SHOWN[limit]) for limit in seen]
        figure.legend(
            handles=handles,
            loc="outside lower left",
            ncols=min(4, len(handles)),
            frameon=False,
        )
        return figure


def _shares(axes: Axes, rows: pl.DataFrame, edges: np.ndarray, path: Account) -> None:
    """Draws the share of each time step that each limit took, stacked."""
    base = np.zeros(len(edges) - 1)
    for limit in SHOWN:
        own = rows.filter(pl.col("limit") == limit)
        if own.is_empty():
            continue
        lengths = (own["end_s"] - own["start_s"]).to_numpy()
        share = _spread(own, lengths, edges) / np.diff(edges)
        axes.stairs(base + share, edges, baseline=base, fill=True, color=COLOURS[limit], gid=limit)
        base += share
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.set_ylabel("of time")
    axes.set_title(_heading(path), pad=4)
    axes.grid(visible=False)


def _heading(path: Account) -> str:
    name = plots.shortened(path.name)
    text = f"path {name}, round-trip time {path.srtt_ms:.0f} ms"
    if path.carried is None or not path.carried.used >= 0:
        return text
    link = plots.shortened(path.carried.link)
    return f"{text}, {100 * path.carried.used:.0f} % of link {link} used"


def _waiting(axes: Axes, rows: pl.DataFrame, edges: np.ndarray, names: Sequence[str]) -> None:
    """Draws the bytes that wait for data of each path."""
    base = np.zeros(len(edges) - 1)
    handles = []
    for number, name in enumerate(names):
        own = rows.filter(pl.col("missing_path") == number)
        if own.is_empty():
            continue
        colour = WAITING[number % len(WAITING)]
        size = _spread(own, own["waiting_byte_s"].to_numpy(), edges) / np.diff(edges) / 1e3
        axes.stairs(base + size, edges, baseline=base, fill=True, color=colour, gid=f"waits-{name}")
        handles.append(Patch(color=colour, label=f"for data sent on {plots.shortened(name)}"))
        base += size
    axes.set_ylim(0, max(1.0, 1.05 * base.max()))
    axes.set_ylabel("kB")
    axes.set_title("receiver: data that waits for earlier data", pad=4)
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=0.1,
        ncols=len(handles),
        frameon=False,
    )


def _spread(rows: pl.DataFrame, amounts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Spreads each amount evenly over its row's time; gives how much falls into each step."""
    times = np.column_stack((rows["start_s"].to_numpy(), rows["end_s"].to_numpy())).ravel()
    sums = np.cumsum(amounts)
    so_far = np.column_stack((sums - amounts, sums)).ravel()
    spread: np.ndarray = np.diff(np.interp(edges, times, so_far))
    return spread
