"""The figure of a video: how late its frames were, when it stood still and why, and its rates."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from anabranch.explain.video import KINDS, Video
from anabranch.figures import plots
from anabranch.studies import frames
from anabranch.studies.result import Result

_COLOURS = dict(zip(KINDS, plots.COLOURS, strict=False))
_BIN_S = 0.5
"""Over so long the rates are means."""


def draw(video: Video, result: Result, title: str) -> Figure:
    """Two panels: the frames' delays with the freezes behind them, and the rates."""
    with plots.style():
        figure = plots.blank(8, 4.6)
        above, below = figure.subplots(2, 1, sharex=True)
        _frames(above, video, result)
        _rates(below, video, result)
        below.set_xlabel("time (s)")
        below.set_xlim(0, result.summary["run.simulated_s"])
        plots.titled(above, title)
        kinds = [kind for kind in KINDS if any(part.kind == kind for part in video.parts)]
        handles = [Patch(color=_COLOURS[kind], label=f"freeze: {KINDS[kind]}") for kind in kinds]
        lines, _ = below.get_legend_handles_labels()
        plots.legend(figure, [*lines, *handles])
        return figure


def _frames(axes: Axes, video: Video, result: Result) -> None:
    for freeze in video.freezes:
        axes.axvspan(freeze.start_s, freeze.end_s, color=_COLOURS[freeze.kind], alpha=0.5, lw=0)
    shown = _of(video, result.traces["frames"]).filter(pl.col("played_s").is_not_nan())
    delays = (shown["played_s"] - shown["created_s"]) * 1e3
    axes.plot(shown["played_s"], delays, ".", color=plots.QUIET, markersize=2, gid="frames")
    if delays.len():
        plots.logarithmic(axes.yaxis)
    axes.set_ylabel("a frame's delay (ms)")


def _rates(axes: Axes, video: Video, result: Result) -> None:
    packets = _of(video, result.traces["packets"]).filter(pl.col("kind").is_in(frames.DATA))
    until = result.summary["run.simulated_s"]
    edges = np.arange(0, until + _BIN_S, _BIN_S)
    media = _of(video, result.traces["media"])
    if media.height:
        target = media.group_by("time_s", maintain_order=True).agg(pl.col("target_bit_per_s").max())
        axes.step(
            target["time_s"],
            target["target_bit_per_s"] / 1e6,
            where="post",
            color=plots.QUIET,
            label="target of the control",
        )
    has_arrived = pl.col("fate") == "delivered"
    for own, colour, label in (
        (packets.filter(has_arrived), plots.COLOURS[2], "arrived, with headers"),
        (packets.filter(~has_arrived), plots.COLOURS[6], "lost"),
    ):
        if own.height:
            sums, _ = np.histogram(own["sent_s"], bins=edges, weights=own["size_bytes"])
            axes.stairs(sums * 8e-6 / _BIN_S, edges, color=colour, label=label)
    axes.set_ylabel("Mbit/s")
    axes.set_ylim(bottom=0)


def _of(video: Video, trace: pl.DataFrame) -> pl.DataFrame:
    """The rows of the direction."""
    return trace.filter((pl.col("flow") == video.flow) & (pl.col("side") == video.side))
