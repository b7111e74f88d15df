"""Figures of what lies beyond the paper: distance, fairness, stations, sensitivity."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from anabranch.figures import plots
from anabranch.papers.plots import colour_bar, intervals, ranges, stroke

from .factors import CONTROL_NAMES, CONTROLS, PROFILE_NAMES, PROFILES
from .outcome import TcpWimaxOutcome, Variant, means
from .studies import FLOWS, STATIONS

PROFILE_COLOURS = dict(zip(PROFILES, plots.COLOURS, strict=False))
NAMES = list(CONTROL_NAMES.values())


def of(outcome: TcpWimaxOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures by file name, drawn when called."""
    return {
        "distance": partial(distance, outcome.distance),
        "flows": partial(flows, outcome.flows),
        "pairs": partial(pairs, outcome.pairs),
        "stations": partial(stations, outcome.stations),
        "sensitivity": partial(sensitivity, outcome.variants),
        "coherence": partial(coherence, outcome.coherence),
    }


def distance(rows: pl.DataFrame) -> Figure:
    """Bits in a symbol and throughput against distance at 20 dBm."""
    panels = (("bits_per_symbol", "bits in a symbol"), ("goodput_mbps", "throughput (Mbit/s)"))
    with plots.style():
        figure = plots.blank(9, 3.6)
        profiles = rows["profile"].unique(maintain_order=True).to_list()
        for axes, (value, label) in zip(figure.subplots(1, 2), panels, strict=True):
            for profile in profiles:
                own = means(rows.filter(profile=profile), ["distance_km"], value)
                colour = PROFILE_COLOURS[profile]
                ranges(axes, own["distance_km"], intervals(own), colour, marker="o", markersize=4)
            plots.logarithmic(axes.xaxis)
            ticks = (1, 2, 5, 10, 20)
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
            axes.set_xlabel("distance (km)")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
        names = {"los30": "line of sight", "nlos30": "no line of sight"}
        plots.legend(
            figure,
            [stroke(names[name], PROFILE_COLOURS[name], marker="o") for name in profiles],
        )
        return figure


def flows(rows: pl.DataFrame) -> Figure:
    """Jain's index of 2 to 16 transfers with the same control, one panel for each profile."""
    profiles = _present(rows)
    with plots.style():
        figure = plots.blank(1.6 + 2.3 * len(profiles), 3.9)
        panels = figure.subplots(1, len(profiles), sharey=True, squeeze=False)[0]
        for axes, profile in zip(panels, profiles, strict=True):
            own = means(rows.filter(profile=profile), ["control", "flows"], "jain")
            grid = [
                [_mean(own, control=control, flows=count) for count in FLOWS]
                for control in CONTROLS
            ]
            image = plots.heat(axes, grid, (0.5, 1.0), [str(count) for count in FLOWS], NAMES)
            axes.set_title(PROFILE_NAMES[profile])
            axes.set_xlabel("transfers at once")
        colour_bar(figure, image, panels, "Jain's index")
        return figure


def pairs(shares: pl.DataFrame) -> Figure:
    """What the control of the row gets of a link that it shares with that of the column."""
    profiles = _present(shares)
    columns = min(2, len(profiles))
    lines = -(-len(profiles) // columns)
    with plots.style():
        figure = plots.blank(1 + 4.6 * columns, 0.4 + 4.1 * lines)
        panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        for axes, profile in zip(panels.flat, profiles, strict=True):
            rows = shares.filter(profile=profile)
            grid = [
                [_mean(rows, first=first, second=second) for second in CONTROLS]
                for first in CONTROLS
            ]
            image = plots.heat(axes, grid, (0.0, 100.0), NAMES, NAMES, digits=0, colours="PuOr")
            axes.set_title(PROFILE_NAMES[profile])
        for axes in panels[-1]:
            axes.set_xticks(range(len(NAMES)), NAMES, rotation=40, ha="right")
        colour_bar(figure, image, panels, "share of the row's control (%)", share=0.03)
        return figure


def stations(rows: pl.DataFrame) -> Figure:
    """Throughput and fairness of 1 to 8 stations at one base station, mean of the nine controls.

    Dots: each control.
    """
    profiles = _present(rows)
    each = rows.with_columns(per_station=pl.col("goodput_mbps") / pl.col("stations"))
    panels = (
        ("goodput_mbps", "all stations (Mbit/s)"),
        ("per_station", "per station (Mbit/s)"),
        ("jain", "Jain's index"),
    )
    with plots.style():
        figure = plots.blank(10, 3.7)
        for axes, (value, label) in zip(figure.subplots(1, 3), panels, strict=True):
            for offset, profile in enumerate(profiles):
                here = each.filter(profile=profile)
                shift = 0.06 * (offset - (len(profiles) - 1) / 2)
                x = np.arange(len(STATIONS)) + shift
                controls = means(here, ["stations", "control"], value)
                for place, count in zip(x, STATIONS, strict=True):
                    of_controls = controls.filter(stations=count)["mean"].to_list()
                    axes.plot(
                        [place] * len(of_controls),
                        of_controls,
                        "o",
                        color=PROFILE_COLOURS[profile],
                        markersize=2.6,
                        alpha=0.5,
                        markeredgewidth=0,
                    )
                average = here.group_by("stations", "replication").agg(pl.col(value).mean())
                line = means(average, ["stations"], value)
                most = 1.0 if value == "jain" else math.inf
                ranges(axes, x, intervals(line), PROFILE_COLOURS[profile], is_cut=True, high=most)
            axes.set_xticks(range(len(STATIONS)), [str(count) for count in STATIONS])
            axes.set_xlabel("stations")
            axes.set_ylabel(label)
            axes.set_ylim(0, 1.03 if value == "jain" else None)
        plots.legend(
            figure,
            [stroke(PROFILE_NAMES[name], PROFILE_COLOURS[name]) for name in profiles],
        )
        return figure


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
        image = plots.heat(axes, grid, (-most, most), NAMES, names, digits=0, colours="PuOr")
        axes.set_xticks(range(len(NAMES)), NAMES, rotation=40, ha="right")
        axes.set_title("in brackets: mean of the nine (Mbit/s)", color=plots.QUIET)
        colour_bar(figure, image, axes, "above the mean of the nine (%)", share=0.03)
        return figure


def coherence(rows: pl.DataFrame) -> Figure:
    """Goodput against how fast the channel changes, NLOS at 10 dB."""
    own = means(rows, ["doppler_hz", "control"], "goodput_mbps")
    shifts = sorted(own["doppler_hz"].unique())
    grid = [
        [_mean(own, control=control, doppler_hz=shift) for shift in shifts] for control in CONTROLS
    ]
    with plots.style():
        figure = plots.blank(7.5, 4)
        axes = figure.add_subplot()
        image = plots.heat(axes, grid, None, [f"{shift:g}" for shift in shifts], NAMES)
        axes.set_xlabel("largest Doppler shift (Hz); the profile has 0.4")
        colour_bar(figure, image, axes, "goodput (Mbit/s)", pad=0.02)
        return figure


def _present(rows: pl.DataFrame) -> list[str]:
    there = set(rows["profile"])
    return [profile for profile in PROFILES if profile in there]


def _mean(means: pl.DataFrame, **key: str | float) -> float:
    return float(means.filter(**key)["mean"].item())
