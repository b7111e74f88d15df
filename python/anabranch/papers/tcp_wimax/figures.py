"""The figures of the paper's own questions; those that lie beyond it are in `beyond.py`.

Every function returns a figure. A control keeps its place in all of them.
"""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anabranch.figures import plots
from anabranch.papers import choice, timeline
from anabranch.papers.plots import (
    DASHED,
    colour_bar,
    intervals,
    named_places,
    ranges,
    stroke,
    whisker,
)
from anabranch.papers.timeline import Course, Moments

from . import beyond
from .factors import (
    BUFFERS,
    CLAIMED_BUFFER,
    CONTROL_NAMES,
    CONTROLS,
    PROFILE_NAMES,
    PROFILES,
    READING_NAMES,
    READINGS,
    SEGMENTS,
    size,
)
from .link import Link
from .outcome import TcpWimaxOutcome
from .samples import Runs

SHOWN_S = 60.0
"""How many seconds of the SNR are shown."""


def of(outcome: TcpWimaxOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures of an outcome by file name, drawn when called."""
    figures: dict[str, Callable[[], Figure]] = {
        "throughput": partial(throughput, outcome.write, outcome.links),
        "cov": partial(variation, outcome.write),
        "links": partial(links, outcome.links),
        "readings": partial(readings, outcome.grid),
    }
    for profile in PROFILES:
        for reading, runs in outcome.grid.items():
            if runs.has_grid(profile):
                figures[f"heatmap-{profile}-{reading}"] = partial(heat_maps, runs, profile)
        figures[f"cwnd-{profile}"] = partial(
            windows, outcome.windows[profile], outcome.links[profile], profile
        )
    return figures | beyond.of(outcome)


def throughput(runs: Runs, links_: dict[str, Link]) -> Figure:
    """Goodput of each control with its interval, one panel for each profile."""
    return _per_control(runs, "goodput_mbps", "goodput (Mbit/s)", links_)


def variation(runs: Runs) -> Figure:
    """The coefficient of variation of 1 s goodput, one panel for each profile."""
    return _per_control(runs, "cov", "coefficient of variation of 1 s goodput", None)


def _per_control(runs: Runs, value: str, label: str, links_: dict[str, Link] | None) -> Figure:
    with plots.style():
        figure = plots.blank(10, 6.2)
        for axes, profile in zip(figure.subplots(2, 2).flat, PROFILES, strict=True):
            means = runs.claimed(profile).by(["control"], value)
            for index, control in enumerate(CONTROLS):
                (mean,) = intervals(means.filter(control=control))
                axes.bar(index, mean.mean, width=0.66, color=plots.COLOURS[0], alpha=0.75)
                whisker(axes, index, mean, elinewidth=1.2, capsize=3)
            if links_ is not None:
                axes.axhline(
                    links_[profile].capacity_mbps.mean,
                    color=plots.ACCENT,
                    linewidth=1.2,
                    linestyle=DASHED,
                )
            axes.set_ylim(bottom=0)
            axes.set_title(PROFILE_NAMES[profile])
            named_places(axes, list(CONTROL_NAMES.values()), rotation=35, ha="right")
        figure.supylabel(label)
        if links_ is not None:
            plots.legend(
                figure,
                [
                    stroke(
                        "datagrams without congestion control, as many as fit",
                        plots.ACCENT,
                        linestyle=DASHED,
                    )
                ],
            )
        return figure


def heat_maps(runs: Runs, profile: str) -> Figure:
    """Goodput by segment and buffer, a panel for each control, one colour scale.

    Controls with the same numbers share a panel. Framed: what may be the best of all, compared run
    by run.
    """
    here = runs.where(profile=profile).balanced()
    means = here.by(["control", "segment", "buffer"])
    high = max(means["mean"].to_list())
    may_be = set(choice.best(here, ["control", "segment", "buffer"]).candidates)
    # Frames around most cells would hide the rest.
    is_told = len(may_be) <= means.height / 2
    grids = {
        (row["control"], row["segment"], row["buffer"]): row["mean"]
        for row in means.iter_rows(named=True)
    }
    values = {
        control: [
            [grids[control, segment, buffer] for segment in SEGMENTS]
            for buffer in reversed(BUFFERS)
        ]
        for control in CONTROLS
    }
    groups = _alike(
        {key: [f"{x:.1f}" for row in grid for x in row] for key, grid in values.items()}
    )
    with plots.style():
        figure, grid = _panels(groups, 2.3)
        for axes, controls in zip(grid.flat, groups, strict=False):
            image = plots.heat(
                axes,
                values[controls[0]],
                (0.0, high),
                [size(segment) for segment in SEGMENTS],
                [size(buffer) for buffer in reversed(BUFFERS)],
                digits=1,
            )
            places = (
                (column, line)
                for column, segment in enumerate(SEGMENTS)
                for line, buffer in enumerate(reversed(BUFFERS))
                if any((control, segment, buffer) in may_be for control in controls)
            )
            if is_told:
                plots.frame_cells(axes, places)
            axes.set_title(_names(controls))
        for axes in grid[:, 0]:
            axes.set_ylabel("buffer")
        for axes in _lowest(grid):
            axes.set_xlabel(READING_NAMES[runs.reading])
        colour_bar(figure, image, grid, "goodput (Mbit/s)", share=0.025)
        figure.suptitle(
            f"{PROFILE_NAMES[profile]}; segment size = {READING_NAMES[runs.reading]}"
            + ("" if is_told else f"; {len(may_be)} of {means.height} cells may be the best"),
            x=0.01,
            ha="left",
        )
        return figure


def _alike(drawn: Mapping[str, object]) -> list[list[str]]:
    """The controls in groups of which nothing that is drawn differs."""
    groups: list[list[str]] = []
    for control, what in drawn.items():
        same = (group for group in groups if drawn[group[0]] == what)
        group = next(same, None)
        if group is None:
            groups.append([control])
        else:
            group.append(control)
    return groups


def _panels(groups: Sequence[Sequence[str]], height: float) -> tuple[Figure, np.ndarray]:
    """A figure with a panel for each group, at most three beside each other."""
    columns = min(3, len(groups))
    lines = math.ceil(len(groups) / columns)
    figure = plots.blank(max(4.2, 10 * columns / 3), 0.5 + height * lines)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    for axes in _lowest(grid):
        axes.tick_params(labelbottom=True)
    return figure, grid


def _lowest(grid: np.ndarray) -> list[Axes]:
    """The last panel that is shown in each column."""
    return [[axes for axes in column if axes.get_visible()][-1] for column in grid.T]


def _names(controls: Sequence[str]) -> str:
    """Whose panel it is."""
    if len(controls) == len(CONTROLS):
        return "equal for all nine controls"
    return textwrap.fill(", ".join(CONTROL_NAMES[control] for control in controls), 40)


def windows(traces: pl.DataFrame, link: Link, profile: str) -> Figure:
    """The congestion window over time, a panel for each control, all on the same channel.

    Controls with the same window share a panel.
    """
    high = max(traces["cwnd_bytes"].to_list()) / 1024
    shown = pl.col("cwnd_bytes", "outstanding_bytes", "time_s")
    groups = _alike(
        {control: traces.filter(control=control).select(shown).rows() for control in CONTROLS}
    )
    with plots.style():
        figure, grid = _panels(groups, 2.1)
        for axes, controls in zip(grid.flat, groups, strict=False):
            rows = traces.filter(control=controls[0])
            axes.fill_between(
                rows["time_s"],
                rows["outstanding_bytes"] / 1024,
                step="post",
                color=plots.COLOURS[4],
                alpha=0.45,
                linewidth=0,
            )
            axes.step(
                rows["time_s"],
                rows["cwnd_bytes"] / 1024,
                where="post",
                color=plots.COLOURS[0],
                linewidth=1.1,
            )
            if high > CLAIMED_BUFFER / 1024:
                axes.axhline(
                    CLAIMED_BUFFER / 1024,
                    color=plots.QUIET,
                    linewidth=0.9,
                    linestyle=DASHED,
                )
            axes.set_title(_names(controls))
            axes.set_ylim(0, 1.05 * high)
            axes.set_xlim(0, 30)
        for axes in grid[:, 0]:
            axes.set_ylabel("KB")
        for axes in _lowest(grid):
            axes.set_xlabel("time (s)")
        handles = [
            stroke("congestion window", plots.COLOURS[0]),
            stroke("under way", plots.COLOURS[4], linewidth=6, alpha=0.45),
        ]
        if high > CLAIMED_BUFFER / 1024:
            handles.append(stroke("the buffer, 512 KB", plots.QUIET, linestyle=DASHED))
        title = f"{PROFILE_NAMES[profile]} ({link.loss_percent.text(1)} % loss)"
        handles.append(stroke(title, linestyle=""))
        plots.legend(figure, handles)
        return figure


def links(by_profile: dict[str, Link]) -> Figure:
    """The effective SNR of each link over one minute, with the probe packets that were lost."""
    snr: dict[str, Any] = {"linewidth": 1.2}
    ticks: dict[str, Any] = {"markersize": 7, "markeredgewidth": 0.8, "rasterized": True}
    panels = []
    for profile, link in by_profile.items():
        rows = link.traced.snr.filter(pl.col("time_s") <= SHOWN_S)
        lost = [time for time in link.traced.lost_s if time <= SHOWN_S]
        statistics = f"{PROFILE_NAMES[profile]}: {link.loss_percent.text(1)} % loss"
        if not math.isnan(link.burst_s):
            statistics += f", bursts of {1e3 * link.burst_s:.0f} ms"
        statistics += f", coherence time {link.coherence_s:.2f} s"
        time_s, values = rows["time_s"], rows["effective_snr_db"]
        shown: list[timeline.Shown] = [
            Course("effective SNR", plots.COLOURS[0], time_s, values, style=snr),
            Moments("probe packet lost", plots.ACCENT, lost, "|", 0.04, ticks, {"markersize": 7}),
        ]
        panels.append(timeline.Panel(shown, statistics))
    return timeline.stacked(panels, 7, "SNR (dB)", SHOWN_S, bottom=None)


def readings(grid: dict[str, Runs]) -> Figure:
    """Goodput against the segment size under each reading, mean of the nine controls.

    One line for each buffer of 32 KB and more.
    """
    buffers = BUFFERS[2:]
    profiles = ("nlos30", "nlos10")
    with plots.style():
        figure = plots.blank(10, 5.6)
        panels = figure.subplots(len(profiles), len(READINGS), sharex=True, sharey="row")
        for line, profile in zip(panels, profiles, strict=True):
            for axes, reading in zip(line, READINGS, strict=True):
                means = grid[reading].where(profile=profile).balanced().by(["segment", "buffer"])
                for index, buffer in enumerate(buffers):
                    rows = means.filter(buffer=buffer).sort("segment")
                    # With two replications the interval says nothing but that there are two.
                    means_of_buffer = [
                        one if one.n > 2 else one._replace(half_width=0.0)
                        for one in intervals(rows)
                    ]
                    # Moved apart, with marks of their own: some are equal.
                    places = [place + 0.12 * (index - 1) for place in range(len(SEGMENTS))]
                    style: dict[str, Any] = {"marker": "osD"[index], "linewidth": 1.3}
                    ranges(
                        axes, places, means_of_buffer, plots.COLOURS[index], markersize=4, **style
                    )
                axes.set_ylim(bottom=0)
                axes.set_title(f"{profile}: {READING_NAMES[reading]}")
                axes.set_xticks(range(len(SEGMENTS)), [size(segment) for segment in SEGMENTS])
            line[0].set_ylabel("goodput (Mbit/s)")
        plots.legend(
            figure,
            [
                stroke(f"buffer {size(buffer)}", plots.COLOURS[index], marker="osD"[index])
                for index, buffer in enumerate(buffers)
            ],
        )
        return figure
