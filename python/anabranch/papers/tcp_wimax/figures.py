"""The figures that `sheet.toml` does not say, or not all of. A control keeps its place in all."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anabranch.figures import plots
from anabranch.papers import choice, facets, timeline
from anabranch.papers.facets import Facets, Panel
from anabranch.papers.plots import DASHED, Style, colour_bar, stroke
from anabranch.papers.timeline import Course, Moments

from .factors import (
    BUFFERS,
    CLAIMED_BUFFER,
    CONTROL_NAMES,
    CONTROLS,
    PROFILE_NAMES,
    PROFILES,
    READING_NAMES,
    SEGMENTS,
    SHEET,
    Runs,
    size,
)
from .link import Link
from .outcome import TcpWimaxOutcome, Variant

SHOWN_S = 60.0
"""How many seconds of the SNR are shown."""


def of(outcome: TcpWimaxOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures of an outcome by file name, drawn when called."""
    figures: dict[str, Callable[[], Figure]] = facets.of(SHEET, outcome.studies) | {
        "throughput": partial(throughput, outcome),
        "links": partial(links, outcome.links),
        "stations": partial(stations, outcome),
        "sensitivity": partial(sensitivity, outcome.variants),
    }
    for profile in PROFILES:
        for reading, runs in outcome.grid.items():
            if runs.has_grid(profile):
                figures[f"heatmap-{profile}-{reading}"] = partial(heat_maps, runs, profile)
        figures[f"cwnd-{profile}"] = partial(
            windows, outcome.windows[profile], outcome.links[profile], profile
        )
    return figures


def throughput(outcome: TcpWimaxOutcome) -> Figure:
    """Goodput of each control with its interval, and what datagrams reach."""
    style: Style = {"color": plots.ACCENT, "linewidth": 1.2, "linestyle": DASHED}
    label = "datagrams without congestion control, as many as fit"

    def capacity(panel: Panel) -> None:
        link = outcome.links[str(panel.cells["profile"])]
        panel.axes.axhline(link.capacity_mbps.mean, **style)

    row, runs = SHEET.figures["throughput"], outcome.studies["claimed"]
    handles = [stroke(label, plots.ACCENT, linestyle=DASHED)]
    return Facets(SHEET, row, runs, decorate=capacity, handles=handles).draw()


def stations(outcome: TcpWimaxOutcome) -> Figure:
    """Throughput and fairness of several stations, with a dot for each control."""

    def dots(panel: Panel) -> None:
        profiles = SHEET.places("profile", panel.runs)
        for offset, profile in enumerate(profiles):
            means = panel.runs.where(profile=profile.value).by(["stations", "control"], panel.value)
            for index, place in enumerate(SHEET.places("stations")):
                each = means.filter(stations=place.value)["mean"].to_list()
                x = index + SHEET.figures["stations"].spread * (offset - (len(profiles) - 1) / 2)
                style: Style = {"markersize": 2.6, "alpha": 0.5, "markeredgewidth": 0}
                panel.axes.plot([x] * len(each), each, "o", color=profile.colour, **style)

    row, runs = SHEET.figures["stations"], outcome.studies["stations"]
    figure = Facets(SHEET, row, runs, decorate=dots).draw()
    figure.axes[-1].set_ylim(0, 1.03)
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
    snr: Style = {"linewidth": 1.2}
    ticks: Style = {"markersize": 7, "markeredgewidth": 0.8, "rasterized": True}
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


def sensitivity(variants: Sequence[Variant]) -> Figure:
    """Goodput of each control with one thing changed, against the mean of the nine, in percent."""
    grid = []
    for line in variants:
        goodput = [line.goodput_mbps[control].mean for control in CONTROLS]
        average = sum(goodput) / len(goodput)
        grid.append([100 * (value / average - 1) for value in goodput])
    most = max(20.0, min(100.0, max(abs(value) for line in grid for value in line)))
    names = [
        f"{line.name}  ({sum(v.mean for v in line.goodput_mbps.values()) / len(CONTROLS):.2f})"
        for line in variants
    ]
    with plots.style():
        figure = plots.blank(10, 1.4 + 0.36 * len(variants))
        axes = figure.add_subplot()
        image = plots.heat(
            axes, grid, (-most, most), list(CONTROL_NAMES.values()), names, digits=0, colours="PuOr"
        )
        axes.set_xticks(range(len(CONTROLS)), list(CONTROL_NAMES.values()), rotation=40, ha="right")
        axes.set_title("in brackets: mean of the nine (Mbit/s)", color=plots.QUIET)
        colour_bar(figure, image, axes, "above the mean of the nine (%)", share=0.03)
        return figure
