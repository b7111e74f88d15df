"""The figures of `linux_sctp`: our times over the kernel's, for the same traffic."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anabranch import _engine
from anabranch.figures import plots
from oracles import linux_sctp_rows
from oracles.linux_sctp_rows import BLACKOUT_S, SETUPS, TOLERANCE, Row

_PATH_MAX_RETRANS = tuple(range(1, 6))
_DASHES: dict[int, Literal["-", "--"]] = {100: "-", 1_000: "-", 10_000: "--", 60_000: "-"}
"""RTO.Max in ms -> the style of its line, chosen so that no line hides another."""
_RUNS = 20
"""Runs for each point of the curves."""
_SHORTEST_S = 0.05
"""Where the axes of `times` begin, in seconds."""


def failover(jobs: int = 1) -> Figure:
    """Time to declare a path down, and the longest gap in deliveries, against Path.Max.Retrans.

    It is without the potentially failed state, in the set-up in which the kernel was measured.
    """
    kernel = [row for row in linux_sctp_rows.kernel_rows() if row["setup"] == "black"]
    kernel = [row for row in kernel if row["pf"] == "off"]
    limits = sorted({(int(row["rto_min_ms"]), int(row["rto_max_ms"])) for row in kernel})
    with plots.style():
        figure = plots.blank(9, 4.4)
        down, gap = figure.subplots(1, 2, sharex=True, sharey=True)
        for colour, (low, high) in zip(plots.COLOURS, limits, strict=True):
            rows = [row for row in kernel if row["rto_min_ms"] == str(low)]
            rows = [row for row in rows if row["rto_max_ms"] == str(high)]
            curves = zip(*(_ours(rows[0], pmr, jobs) for pmr in _PATH_MAX_RETRANS), strict=True)
            # Curves with a higher RTO.Max lie below: they coincide until the limit is reached.
            look, order = _DASHES[high], 3 - high / 60_000
            for axes, ours in zip((down, gap), curves, strict=True):
                axes.plot(_PATH_MAX_RETRANS, ours, color=colour, linestyle=look, zorder=order)
                axes.plot(_PATH_MAX_RETRANS, ours, "o", color=colour, markersize=3)
            measured = (
                (down, [float(row["first_unreachable_s"]) - BLACKOUT_S for row in rows]),
                (gap, [float(row["gap_ms"]) / 1000 for row in rows]),
            )
            retrans = [int(row["pmr"]) for row in rows]
            for axes, values in measured:
                axes.plot(retrans, values, color=colour, marker="x", markersize=9, linestyle="none")
        plots.logarithmic(down.yaxis)
        down.set_ylabel("time (s)")
        down.set_title("Until the path is declared down")
        gap.set_title("Longest gap in deliveries")
        for axes in (down, gap):
            axes.set_xlabel("Path.Max.Retrans")
            axes.set_xticks(_PATH_MAX_RETRANS)
        names = [f"RTO.Min {low / 1000:g} s, RTO.Max {high / 1000:g} s" for low, high in limits]
        keys = [
            Line2D([], [], color=colour, linestyle=_DASHES[high], label=name)
            for colour, name, (_, high) in zip(plots.COLOURS, names, limits, strict=True)
        ]
        plots.legend(figure, [*keys, *_marks()])
    return figure


def _ours(row: dict[str, str], path_max_retrans: int, jobs: int) -> tuple[float, float]:
    """Our mean times in s for the setting of a kernel's row with another Path.Max.Retrans."""
    one = linux_sctp_rows.scenario({**row, "pmr": str(path_max_retrans)})
    columns = _engine.run_batch(one, [(0, number) for number in range(_RUNS)], jobs)
    inactive = fmean(columns["call.sctp.a.path0.first_inactive_s"]) - BLACKOUT_S
    return inactive, fmean(columns["call.longest_gap_ms"]) / 1000


def times(rows: Sequence[Row]) -> Figure:
    """All times of all set-ups: our mean and range over the kernel's single draw."""
    setups = [name for name in SETUPS if linux_sctp_rows.of_setup(rows, name)]
    with plots.style():
        figure = plots.blank(9, 2.6 + 2.6 * ((len(setups) + 1) // 2))
        panels = figure.subplots((len(setups) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False)
        for axes in panels.flat[len(setups) :]:
            axes.set_visible(False)
        for axes, name in zip(panels.flat, setups, strict=False):
            _draw_times(axes, linux_sctp_rows.of_setup(rows, name))
            axes.set_title(SETUPS[name].text)
        for axes in panels[-1]:
            axes.set_xlabel("Linux 6.12 (s)")
        for axes in panels[:, 0]:
            axes.set_ylabel("ours (s)")
        names = dict.fromkeys(name for s in setups for name in SETUPS[s].quantities)
        colours = zip(names, _colours(), strict=False)
        keys = [
            Line2D(
                [],
                [],
                color=colour,
                marker=marker,
                linestyle="none",
                label=linux_sctp_rows.HEADS[name].rpartition(",")[0],
            )
            for name, (colour, marker) in colours
        ]
        band = Line2D([], [], color=plots.QUIET, linewidth=0.8, label="equal, and 10 % off")
        plots.legend(figure, [*keys, band])
    return figure


def _colours() -> list[tuple[str, str]]:
    return [(colour, marker) for marker in "os" for colour in plots.COLOURS]


def _draw_times(axes: Axes, rows: Sequence[Row]) -> None:
    names = dict.fromkeys(name for setup in SETUPS.values() for name in setup.quantities)
    looks = dict(zip(names, _colours(), strict=False))
    for row in rows:
        for name, value in row.values.items():
            if math.isnan(value.kernel) or value.happens == 0:
                continue
            unit = 1000 if name == "gap_ms" else 1
            numbers = (value.kernel, value.mean, value.low, value.high)
            kernel, mean, low, high = ((number - value.origin) / unit for number in numbers)
            if min(kernel, low) < _SHORTEST_S:
                continue
            colour, marker = looks[name]
            axes.plot([kernel, kernel], [low, high], color=colour, linewidth=1, alpha=0.6)
            axes.plot([kernel], [mean], color=colour, marker=marker, markersize=3.5)
    plots.logarithmic(axes.xaxis)
    plots.logarithmic(axes.yaxis)
    axes.set_xlim(_SHORTEST_S, 300)
    axes.set_ylim(_SHORTEST_S, 300)
    ends = (_SHORTEST_S, 300)
    for factor, line in ((1, "-"), (1 - TOLERANCE, ":"), (1 + TOLERANCE, ":")):
        axes.plot(ends, [end * factor for end in ends], color=plots.QUIET, linewidth=0.8, ls=line)


def _marks() -> list[Line2D]:
    grey = plots.QUIET
    return [
        Line2D([], [], color=grey, marker="o", markersize=3, label="ours"),
        Line2D([], [], color=grey, marker="x", linestyle="none", label="Linux 6.12"),
    ]
