"""The time-sequence graph of a transfer, as tcptrace draws it (S. Ostermann, Ohio University).

Each segment is a bar from its first byte to its last one at the time when it was sent; the line
below is what the sender knows to be acknowledged. The trace has no acknowledgement numbers: an
acknowledgement covers what its sender had in order when it left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from anabranch.studies.result import Result

from .plots import ACCENT, COLOURS, QUIET, blank, legend, shortened, style, thinned, titled

Numbers = NDArray[np.int64]
Times = NDArray[np.float64]

_CLOSE = 160
"""Segments of the close-up."""

_BEFORE = 0.35
"""The part of them before the first one that is sent again."""

_HEADERS = 52
"""Of IPv4 and TCP with timestamps, where the trace does not tell."""

ACKED = "#009E73"


@dataclass(frozen=True, slots=True)
class Sent:
    """What one end sent over one path, in the order of time."""

    path: str
    sent_s: Times
    first: Numbers
    """The first byte of each segment, counted from the first one of all."""
    end: Numbers
    is_again: NDArray[np.bool_]
    """Whether bytes of it were sent before."""
    is_lost: NDArray[np.bool_]
    known_s: Times
    """When acknowledgements arrive."""
    acked: Numbers
    """What they cover."""


def of_path(packets: pl.DataFrame, side: str, path: int, name: str) -> Sent | None:
    """What a side of a flow sent over a path; None if that is less than two segments.

    `packets` is the flow's part of the trace.
    """
    over = packets.filter(pl.col("path") == path)
    data = over.filter((pl.col("side") == side) & (pl.col("kind") == "data"))
    if data.height < 2:
        return None
    first = _counted(data["tsn"].to_numpy())
    size = data["size_bytes"].to_numpy()
    end = first + np.maximum(size - _headers(first, size), 1)
    # Headers differ in length, so beginnings tell what is new, not ends.
    newest = np.concatenate(([-1], np.maximum.accumulate(first)[:-1]))
    acks = over.filter(
        (pl.col("side") != side) & (pl.col("kind") == "ack") & (pl.col("fate") == "delivered")
    ).sort("delivered_s", maintain_order=True)
    received = data["delivered_s"].fill_nan(np.inf).to_numpy()
    acked = _in_order(first, end, received, acks["sent_s"].to_numpy())
    return Sent(
        name,
        data["sent_s"].to_numpy(),
        first,
        end,
        first <= newest,
        (data["fate"] != "delivered").to_numpy(),
        acks["delivered_s"].to_numpy(),
        np.maximum.accumulate(acked) if len(acked) else acked,
    )


def _counted(numbers: Numbers) -> Numbers:
    """Sequence numbers of 32 bits, counted on from the first one."""
    steps = np.diff(numbers, prepend=numbers[0])
    return np.cumsum((steps + 2**31) % 2**32 - 2**31)


def _headers(first: Numbers, size: Numbers) -> int:
    """The bytes of a packet that are no data, from segments that follow each other."""
    steps = np.diff(first)
    rest = (size[:-1] - steps)[(steps > 0) & (steps < size[:-1])]
    if not len(rest):
        return _HEADERS
    values, counts = np.unique(rest, return_counts=True)
    return int(values[np.argmax(counts)])


def _in_order(first: Numbers, end: Numbers, received_s: Times, at_s: Times) -> Numbers:
    """The byte up to which all have been received, at each of these times."""
    order = np.lexsort((received_s, first))
    _, earliest = np.unique(first[order], return_index=True)
    kept = order[earliest]
    complete_s = np.maximum.accumulate(received_s[kept])
    reached = np.searchsorted(complete_s, at_s, side="right")
    return np.concatenate(([0], end[kept]))[reached]


def sequence(result: Result, flow: str, side: str, tree: Mapping[str, Any]) -> Figure | None:
    """The graph of one end of a flow: all of it, and a close-up of the first retransmission.

    None if it sent less than two segments.

    Parameters
    ----------
    result
        A traced run.
    flow, side
        The flow, and the end that sends.
    tree
        The flow's settings.
    """
    packets = result.traces["packets"].filter(pl.col("flow") == flow)
    names = [str(name) for name in tree["paths"]]
    every = [of_path(packets, side, i, name) for i, name in enumerate(names)]
    sent = [each for each in every if each is not None]
    if not sent:
        return None
    with style():
        figure = blank(8, 3.4)
        whole, close = figure.subplots(1, 2, width_ratios=(1, 1))
        several = len(names) > 1
        _whole(whole, sent, several=several)
        which = _close(close, sent, several=several)
        whole.set_ylabel("sequence number (MB)")
        for axes in (whole, close):
            axes.set_xlabel("time (s)")
        host = shortened(str(tree["from" if side == "a" else "to"]))
        titled(whole, f"flow {shortened(flow)}, sent by {host}", pad=8)
        on = f", path {shortened(which.path)}" if several else ""
        what = "the first retransmission" if which.is_again.any() else "the first segments"
        titled(close, f"{what}{on}", pad=8)
        legend(figure, _handles(sent, several=several))
        return figure


def _whole(axes: Axes, sent: Sequence[Sent], *, several: bool) -> None:
    for colour, own in zip(COLOURS, sent, strict=False):
        until = float(own.sent_s[-1]) or 1.0
        for times, numbers, ink in (
            (own.sent_s, np.maximum.accumulate(own.end), colour),
            (own.known_s, own.acked, colour if several else ACKED),
        ):
            line = pl.DataFrame({"time_s": times, "value": numbers / 1e6})
            drawn = thinned(line, "value", until)
            dashes = (0, (3, 2)) if ink == colour and numbers is own.acked else "-"
            axes.step(
                drawn["time_s"], drawn["value"], where="post", color=ink, linestyle=dashes, lw=1.1
            )
        again = own.is_again
        points = pl.DataFrame({"time_s": own.sent_s[again], "value": own.first[again] / 1e6})
        points = thinned(points, "value", until)
        axes.plot(
            points["time_s"],
            points["value"],
            ".",
            color=_again(several=several),
            markersize=3,
            gid="again",
        )
    axes.set_ylim(bottom=0)


def _again(*, several: bool) -> str:
    """The colour of retransmissions: none that a path has."""
    return "black" if several else ACCENT


def _close(axes: Axes, sent: Sequence[Sent], *, several: bool) -> Sent:
    """Draws each segment of a short time; gives whose they are."""
    own = min(
        sent, key=lambda each: each.sent_s[each.is_again][0] if each.is_again.any() else np.inf
    )
    place = int(np.argmax(own.is_again)) if own.is_again.any() else 0
    start = max(0, place - int(_BEFORE * _CLOSE))
    shown = slice(start, start + _CLOSE)
    times, first, end = own.sent_s[shown], own.first[shown] / 1e6, own.end[shown] / 1e6
    again, lost = own.is_again[shown], own.is_lost[shown]
    # A path that has sent little may not be the first of them.
    colour = COLOURS[next(i for i, each in enumerate(sent) if each is own) % len(COLOURS)]
    ink = _again(several=several)
    axes.vlines(times[~again], first[~again], end[~again], color=colour, linewidth=2, gid="sent")
    axes.vlines(times[again], first[again], end[again], color=ink, linewidth=2, gid="again")
    axes.plot(times[again], first[again], ".", color=ink, markersize=5)
    middle = (first + end) / 2
    axes.plot(times[lost], middle[lost], "x", color="black", markersize=4, gid="lost")
    axes.step(own.known_s, own.acked / 1e6, where="post", color=ACKED, linewidth=1.2, gid="acked")
    width = max(float(times[-1] - times[0]), 1e-6)
    axes.set_xlim(times[0] - 0.03 * width, times[-1] + 0.03 * width)
    known = np.searchsorted(own.known_s, times[0], side="right")
    low = min(float(first.min()), own.acked[known - 1] / 1e6 if known else float(first.min()))
    height = max(float(end.max()) - low, 1e-6)
    axes.set_ylim(low - 0.04 * height, float(end.max()) + 0.04 * height)
    return own


def _handles(sent: Sequence[Sent], *, several: bool) -> list[Line2D]:
    def entry(label: str, **looks: Any) -> Line2D:
        return Line2D([], [], label=label, **looks)

    if several:
        lines = [
            entry(f"sent over {shortened(own.path)}", color=colour)
            for colour, own in zip(COLOURS, sent, strict=False)
        ]
        lines.append(entry("acknowledged", color=QUIET, linestyle=(0, (3, 2))))
        lines.append(entry("acknowledged (close-up)", color=ACKED))
    else:
        lines = [entry("sent", color=COLOURS[0]), entry("acknowledged", color=ACKED)]
    count = sum(int(own.is_again.sum()) for own in sent)
    lines.append(
        entry(
            f"{count:,} retransmitted", color=_again(several=several), marker=".", linestyle="none"
        )
    )
    lines.append(entry("lost", color="black", marker="x", linestyle="none", markersize=4))
    return lines
