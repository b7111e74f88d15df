"""The figures that `sheet.toml` does not say, or not all of. A control keeps its place in all."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial

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
    keys = ["control", "segment", "buffer"]
    means = here.by(keys)
    high = max(means["mean"].to_list())
    may_be = set(choice.best(here, keys).candidates)
    # Frames around most cells would hide the rest.
    is_told = len(may_be) <= means.height / 2
    grids = {tuple(key): mean for *key, mean in means.select(*keys, "mean").iter_rows()}
    buffers = BUFFERS[::-1]
    values = {
        control: [[grids[control, segment, buffer] for segment in SEGMENTS] for buffer in buffers]
        for control in CONTROLS
    }
    shown = {key: [f"{x:.1f}" for row in grid for x in row] for key, grid in values.items()}
    images = []

    def draw(axes: Axes, controls: Sequence[str]) -> None:
        names = [list(map(size, sizes)) for sizes in (SEGMENTS, buffers)]
        images.append(plots.heat(axes, values[controls[0]], (0.0, high), *names, digits=1))
        places = (
            (column, line)
            for column, segment in enumerate(SEGMENTS)
            for line, buffer in enumerate(buffers)
            if any((control, segment, buffer) in may_be for control in controls)
        )
        if is_told:
            plots.frame_cells(axes, places)

    with plots.style():
        figure = _grouped(shown, 2.3, (READING_NAMES[runs.profile], "buffer"), draw)
        colour_bar(figure, images[-1], figure.axes, "goodput (Mbit/s)", share=0.025)
        figure.suptitle(
            f"{PROFILE_NAMES[profile]}; segment size = {READING_NAMES[runs.profile]}"
            + ("" if is_told else f"; {len(may_be)} of {means.height} cells may be the best"),
            x=0.01,
            ha="left",
        )
        return figure


def _grouped(
    drawn: Mapping[str, object],
    height: float,
    labels: tuple[str, str],
    draw: Callable[[Axes, Sequence[str]], None],
) -> Figure:
    """A panel for each group of controls of which nothing that is drawn differs."""
    groups: list[list[str]] = []
    for control, what in drawn.items():
        same = next((group for group in groups if drawn[group[0]] == what), None)
        if same is None:
            groups.append([control])
        else:
            same.append(control)
    columns = min(3, len(groups))
    lines = math.ceil(len(groups) / columns)
    figure = plots.blank(max(4.2, 10 * columns / 3), 0.5 + height * lines)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    for axes, controls in zip(grid.flat, groups, strict=False):
        draw(axes, controls)
        names = ", ".join(CONTROL_NAMES[control] for control in controls)
        is_all = len(controls) == len(CONTROLS)
        axes.set_title("equal for all nine controls" if is_all else textwrap.fill(names, 40))
    for axes in grid[:, 0]:
        axes.set_ylabel(labels[1])
    for column in grid.T:
        lowest = [axes for axes in column if axes.get_visible()][-1]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel(labels[0])
    return figure


def windows(traces: pl.DataFrame, link: Link, profile: str) -> Figure:
    """The congestion window over time, a panel for each control, all on the same channel.

    Controls with the same window share a panel.
    """
    high, buffer = max(traces["cwnd_bytes"].to_list()) / 1024, CLAIMED_BUFFER / 1024
    shown = pl.col("cwnd_bytes", "outstanding_bytes", "time_s")
    drawn = {control: traces.filter(control=control).select(shown).rows() for control in CONTROLS}
    under_way: Style = {"color": plots.COLOURS[4], "alpha": 0.45, "linewidth": 0}
    line: Style = {"color": plots.QUIET, "linestyle": DASHED}

    def draw(axes: Axes, controls: Sequence[str]) -> None:
        rows = traces.filter(control=controls[0])
        time_s, cwnd = rows["time_s"], rows["cwnd_bytes"] / 1024
        axes.fill_between(time_s, rows["outstanding_bytes"] / 1024, step="post", **under_way)
        axes.step(time_s, cwnd, where="post", color=plots.COLOURS[0], linewidth=1.1)
        if high > buffer:
            axes.axhline(buffer, linewidth=0.9, **line)
        axes.set_ylim(0, 1.05 * high)
        axes.set_xlim(0, 30)

    with plots.style():
        figure = _grouped(drawn, 2.1, ("time (s)", "KB"), draw)
        handles = [
            stroke("congestion window", plots.COLOURS[0]),
            stroke("under way", plots.COLOURS[4], linewidth=6, alpha=0.45),
        ]
        if high > buffer:
            handles.append(stroke("the buffer, 512 KB", plots.QUIET, linestyle=DASHED))
        title = f"{PROFILE_NAMES[profile]} ({link.loss_percent.text(1)} % loss)"
        plots.legend(figure, [*handles, stroke(title, linestyle="")])
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
    grid = [
        [100 * (line.goodput_mbps[control].mean / line.mean_mbps - 1) for control in CONTROLS]
        for line in variants
    ]
    most = max(20.0, min(100.0, max(abs(value) for line in grid for value in line)))
    names = [f"{line.name}  ({line.mean_mbps:.2f})" for line in variants]
    controls = list(CONTROL_NAMES.values())
    with plots.style():
        figure = plots.blank(10, 1.4 + 0.36 * len(variants))
        axes = figure.add_subplot()
        image = plots.heat(axes, grid, (-most, most), controls, names, digits=0, colours="PuOr")
        axes.set_xticks(range(len(controls)), controls, rotation=40, ha="right")
        axes.set_title("in brackets: mean of the nine (Mbit/s)", color=plots.QUIET)
        colour_bar(figure, image, axes, "above the mean of the nine (%)", share=0.03)
        return figure
