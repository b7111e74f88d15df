"""The time-sequence graph of a transfer, as tcptrace draws it (S. Ostermann, Ohio University).

Each packet is a bar from its first byte to its last one at the time when it was sent; the line
below is what the sender knows to be acknowledged, the one above how far the receiver's window goes,
and short bars to the right of a hole what a selective acknowledgement reports. Numbers of SCTP are
those of chunks: they are drawn as the bytes of user data that come before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from anabranch.studies.acknowledged import reported_runs
from anabranch.studies.result import Result
from anabranch.support.holes import apart, unwrapped
from anabranch.support.transports import can

from .plots import ACCENT, COLOURS, QUIET, blank, legend, shortened, style, thinned, titled

Numbers = NDArray[np.int64]
Times = NDArray[np.float64]

_CLOSE = 160
"""Segments of the close-up."""

_BEFORE = 0.35
"""The part of them before the first one that is sent again."""

ACKED = "#009E73"
REPORTED = "#CC79A7"
WINDOW = "#E69F00"


class Data(NamedTuple):
    """Packets with data that one end sent, in the order of time."""

    path: NDArray[np.int64]
    """The number of the path that each took."""
    sent_s: Times
    number: Numbers
    """Of the first byte or chunk, 32 bits as on the wire."""
    octets: Numbers
    """Bytes of data."""
    is_lost: NDArray[np.bool_]


class Told(NamedTuple):
    """Acknowledgements that came to it, in the order of time."""

    path: NDArray[np.int64]
    at_s: Times
    expected: Numbers
    """The number that is expected next, 32 bits."""
    window: Numbers
    """In bytes; -1 where it is not known."""
    reported: list[list[tuple[int, int]]]
    """Runs of numbers above a gap: the first, and the one behind the last."""


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
    edge: Numbers
    """The byte up to which the receiver lets the sender go then; -1 where it is not known."""
    reports: NDArray[np.float64]
    """What acknowledgements report above gaps: times, first bytes, ends; shape (n, 3)."""


def of_ends(data: Data, told: Told, names: Sequence[str], *, in_chunks: bool) -> list[Sent]:
    """What one end sent, by path; without paths over which it sent less than two packets.

    Parameters
    ----------
    data, told
        What it sent, and what came back.
    names
        The names of the paths.
    in_chunks
        Whether numbers are those of chunks, which all paths share (SCTP), and not those of bytes on
        a path (TCP).
    """
    found = []
    shared = _Scale(data) if in_chunks and len(data.number) else None
    for path, name in enumerate(names):
        own = Data(*(column[data.path == path] for column in data))
        if len(own.number) < 2:
            continue
        scale = shared or _Scale(own, in_bytes=True)
        # A report about chunks may come over any path.
        here = np.flatnonzero(told.path == path) if shared is None else np.arange(len(told.at_s))
        first, end = scale.of_data(own)
        is_again = first <= np.concatenate(([-1], np.maximum.accumulate(first)[:-1]))
        acked = scale.at(told.expected[here])
        window = told.window[here]
        reports = [
            (told.at_s[row], *scale.at(np.array(run, dtype=np.int64)).tolist())
            for row in here.tolist()
            for run in told.reported[row]
        ]
        found.append(
            Sent(
                name, own.sent_s, first, end, is_again, own.is_lost, told.at_s[here],
                np.maximum.accumulate(acked) if len(acked) else acked,
                np.where(window >= 0, acked + window, -1),
                np.array(reports, dtype=np.float64).reshape(-1, 3),
            )
        )  # fmt: skip
    return found


class _Scale:
    """Numbers of the wire as bytes, counted from the first one."""

    def __init__(self, data: Data, *, in_bytes: bool = False) -> None:
        self._base = data.number[:1]
        self._in_bytes = in_bytes
        if not in_bytes:
            numbers, order = np.unique(self._counted(data.number), return_index=True)
            self._numbers = np.append(numbers, numbers[-1] + 1)
            self._bytes = np.concatenate(([0], np.cumsum(data.octets[order])))

    def at(self, numbers: Numbers) -> Numbers:
        """The byte at which each number stands."""
        if not len(numbers):
            return numbers
        counted = self._counted(numbers)
        if self._in_bytes:
            return counted
        found = np.interp(counted, self._numbers, self._bytes)
        return np.asarray(np.rint(found), dtype=np.int64)

    def _counted(self, numbers: Numbers) -> Numbers:
        """Numbers counted from the base, before which the first of them may be."""
        ahead = apart(numbers[:1], self._base)
        return np.asarray(unwrapped(numbers, 32) - numbers[0] + ahead)

    def of_data(self, data: Data) -> tuple[Numbers, Numbers]:
        """The first byte of each packet, and the one behind the last."""
        first = self.at(data.number)
        return first, first + np.maximum(data.octets, 1)


def of_run(packets: pl.DataFrame, side: str, names: Sequence[str], protocol: str) -> list[Sent]:
    """What a side of a flow sent, by path: `packets` is the flow's part of the trace."""
    sent = packets.filter(
        (pl.col("side") == side) & (pl.col("payload_bytes") > 0) & ~pl.col("is_copy")
    )
    told = packets.filter(
        (pl.col("side") != side) & (pl.col("ack") >= 0) & (pl.col("fate") == "delivered")
    ).sort("delivered_s", maintain_order=True)
    # Where each path numbers by itself, windows are the connection's.
    window = told["window_bytes"].to_numpy()
    return of_ends(
        Data(
            sent["path"].to_numpy(), sent["sent_s"].to_numpy(), sent["tsn"].to_numpy(),
            sent["payload_bytes"].to_numpy(), (sent["fate"] != "delivered").to_numpy(),
        ),
        Told(
            told["path"].to_numpy(), told["delivered_s"].to_numpy(), told["ack"].to_numpy(),
            np.full_like(window, -1) if can(protocol).numbers_by_path else window,
            [reported_runs(text) for text in told["sack"]],
        ),
        names,
        in_chunks=can(protocol).numbering == "chunks",
    )  # fmt: skip


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
    sent = of_run(packets, side, names, str(tree["transport"]["kind"]))
    if not sent:
        return None
    host = shortened(str(tree["from" if side == "a" else "to"]))
    return draw(sent, f"flow {shortened(flow)}, sent by {host}", several=len(names) > 1)


def draw(sent: Sequence[Sent], title: str, *, several: bool) -> Figure:
    """The graph: all of it, and a close-up of the first retransmission.

    Parameters
    ----------
    sent
        What one end sent, a path each; one at least.
    title
        The title of the whole.
    several
        Whether the flow has several paths.
    """
    with style():
        figure = blank(8, 3.4)
        whole, close = figure.subplots(1, 2, width_ratios=(1, 1))
        _whole(whole, sent, several=several)
        which, extras = _close(close, sent, several=several)
        whole.set_ylabel("sequence number (MB)")
        for axes in (whole, close):
            axes.set_xlabel("time (s)")
        titled(whole, title, pad=8)
        on = f", path {shortened(which.path)}" if several else ""
        what = "the first retransmission" if which.is_again.any() else "the first segments"
        titled(close, f"{what}{on}", pad=8)
        legend(figure, [*_handles(sent, several=several), *extras])
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


def _close(axes: Axes, sent: Sequence[Sent], *, several: bool) -> tuple[Sent, list[Line2D]]:
    """Draws each segment of a short time; gives whose they are, and what else the legend has."""
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
    extras = []
    at_s, *run = own.reports.T
    seen = (at_s >= times[0]) & (at_s <= times[-1])
    if seen.any():
        start, stop = (edge[seen] / 1e6 for edge in run)
        axes.vlines(at_s[seen], start, stop, color=REPORTED, linewidth=1, zorder=1, gid="reported")
        extras.append(_entry("selectively acknowledged", color=REPORTED))
    width = max(float(times[-1] - times[0]), 1e-6)
    axes.set_xlim(times[0] - 0.03 * width, times[-1] + 0.03 * width)
    known = np.searchsorted(own.known_s, times[0], side="right")
    low = min(float(first.min()), own.acked[known - 1] / 1e6 if known else float(first.min()))
    height = max(float(end.max()) - low, 1e-6)
    top = float(end.max())
    near = (own.edge >= 0) & (own.known_s <= times[-1]) & (own.known_s >= times[0])
    # A window far above what is sent would flatten the rest.
    if near.any() and (edge := own.edge[near] / 1e6).min() <= top + height:
        axes.step(own.known_s[near], edge, where="post", color=WINDOW, linewidth=1, gid="window")
        extras.append(_entry("end of the receiver's window", color=WINDOW))
        top = max(top, float(min(edge.max(), top + height)))
        height = top - low
    axes.set_ylim(low - 0.04 * height, top + 0.04 * height)
    return own, extras


def _entry(label: str, **looks: Any) -> Line2D:
    return Line2D([], [], label=label, **looks)


def _handles(sent: Sequence[Sent], *, several: bool) -> list[Line2D]:
    if several:
        lines = [
            _entry(f"sent over {shortened(own.path)}", color=colour)
            for colour, own in zip(COLOURS, sent, strict=False)
        ]
        lines.append(_entry("acknowledged", color=QUIET, linestyle=(0, (3, 2))))
        lines.append(_entry("acknowledged (close-up)", color=ACKED))
    else:
        lines = [_entry("sent", color=COLOURS[0]), _entry("acknowledged", color=ACKED)]
    count = sum(int(own.is_again.sum()) for own in sent)
    lines.append(
        _entry(
            f"{count:,} retransmitted", color=_again(several=several), marker=".", linestyle="none"
        )
    )
    if any(own.is_lost.any() for own in sent):
        lines.append(_entry("lost", color="black", marker="x", linestyle="none", markersize=4))
    return lines
