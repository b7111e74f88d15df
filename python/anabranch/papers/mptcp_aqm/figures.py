"""The figures. Every function returns one.

Path A is blue and path B green where paths are compared; a queue has one colour in all of them.
"""

import math
from collections.abc import Callable
from functools import partial

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.figures import plots
from anabranch.papers import facets, timeline
from anabranch.papers.facets import Facets
from anabranch.papers.plots import DASHED, Style, dot, ranges, stroke, verdict_matrix
from anabranch.papers.rows import Cells
from anabranch.papers.timeline import Course

from .claims import SHORT
from .factors import (
    DELAYS,
    LIA,
    PAPERS_QUEUES,
    PATH_NAMES,
    PATHS,
    QUEUE_NAMES,
    SHEET,
    Runs,
)
from .outcome import MptcpAqmOutcome, misfit_percent
from .published import numbers
from .studies import BASE, profile, profiles, transports
from .traced import Traced

QUEUE_COLOURS = SHEET.colours("queue")
PATH_COLOURS = dict(zip(PATHS, (plots.COLOURS[0], plots.COLOURS[2]), strict=True))
TRACED_QUEUES = ("drop_tail", "codel", "lifo_codel")


def of(outcome: MptcpAqmOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures of an outcome by file name, drawn when called."""
    return facets.of(SHEET, outcome.studies, published) | {
        "verdicts": partial(verdicts, outcome),
        "fit": partial(fit, outcome),
        "time": partial(time, outcome.traced),
        "delays": partial(delays, outcome.traced),
        "starvation": partial(starvation, outcome.base),
        "theta": partial(theta, outcome.others["theta"]),
        "handover": partial(handover, outcome.handovers),
    }


def published(value: str, cells: Cells) -> list[float]:
    """The numbers of the text for a value in some cells."""
    return [
        one.value
        for one in numbers()
        if one.quantity == value
        and one.bound == "is"
        and one.queue == cells["queue"]
        and one.delay_ms in {0, cells["delay_ms"]}
    ]


def verdicts(outcome: MptcpAqmOutcome) -> Figure:
    """Every claim under every profile, and with one thing of the base changed."""
    rows = {
        f"{number}. {SHORT[number]}": [finding.verdict for finding in findings.values()]
        for number, findings in outcome.judged.items()
    }
    columns = [one.title for one in profiles()]
    changed = dict.fromkeys(one.profile for one in outcome.attribution)
    return verdict_matrix(rows, [*columns, *changed], gap=len(columns))


def fit(outcome: MptcpAqmOutcome) -> Figure:
    """How far the six published round-trip times are missed against the rate of C."""
    titles = {one.name: one.title for one in profiles()}
    with plots.style():
        figure = plots.blank(10, 4)
        left, right = figure.subplots(1, 2)
        left_ends, right_ends = [], []
        for index, (name, runs) in enumerate(outcome.fits.items()):
            rates = runs.frame["rate_mbps"].unique().sort().to_list()
            misfits = [misfit_percent(runs, rate) for rate in rates]
            # Those of one network are nearly equal: the second is dashed.
            marker, linestyle = "os"[index % 2], ("-", DASHED)[index % 2]
            style: Style = {"marker": marker, "linestyle": linestyle, "markersize": 3.5}
            ranges(left, rates, misfits, plots.COLOURS[index], is_cut=True, elinewidth=1, **style)
            left_ends.append((misfits[-1].mean, titles[name], plots.COLOURS[index]))
        left.set_ylim(bottom=0)
        left.set_xlabel("rate of C (Mbit/s)")
        left.set_ylabel("RMS deviation of the six RTTs (%)")
        plots.label_ends(figure, left, left_ends)
        runs = outcome.fits[profile(*BASE).name]
        rates = runs.frame["rate_mbps"].unique().sort().to_list()
        styles = {("codel", 1): "o", ("codel", 100): "s", ("drop_tail", 100): "^"}
        for (queue, delay), marker in styles.items():
            for path in PATHS:
                paper = next(
                    one.value
                    for one in numbers()
                    if (one.queue, one.delay_ms, one.quantity) == (queue, delay, f"rtt_{path}_ms")
                )
                ours = [
                    runs.where(rate_mbps=rate, point=f"{queue}-{delay}").mean(f"rtt_{path}_ms").mean
                    for rate in rates
                ]
                right.plot(
                    rates,
                    [value / paper for value in ours],
                    color=PATH_COLOURS[path],
                    marker=marker,
                    markersize=3.5,
                    linewidth=1.2,
                )
                label = f"{QUEUE_NAMES[queue]}, {delay} ms,\n{path.upper()}: {paper:g} ms"
                right_ends.append((ours[-1] / paper, label, PATH_COLOURS[path]))
        right.axhline(1, color=plots.QUIET, linestyle=DASHED, linewidth=1)
        plots.logarithmic(right.yaxis)
        right.set_yticks([0.5, 0.7, 1, 1.5, 2, 3], ["0.5", "0.7", "1", "1.5", "2", "3"])
        right.minorticks_off()
        right.set_xlabel("rate of C (Mbit/s)")
        right.set_ylabel("our RTT / the paper's")
        right.set_title("clean, textbook")
        plots.label_ends(figure, right, right_ends)
        return figure


def time(traced: dict[str, Traced]) -> Figure:
    """Windows, round-trip times and the queue of one run for each of three queues."""
    end_s = max(traced[kind].ended_s for kind in TRACED_QUEUES)
    with plots.style():
        figure = plots.blank(10, 6)
        panels = figure.subplots(3, len(TRACED_QUEUES), sharey="row", squeeze=False)
        for column, queue in zip(panels.T, TRACED_QUEUES, strict=True):
            for axes, courses in zip(column, _courses(traced[queue], queue, end_s), strict=True):
                timeline.draw(axes, courses)
                axes.set_xlim(0, end_s)
            column[0].set_title(QUEUE_NAMES[queue])
            column[-1].set_xlabel("time (s)")
        for line, label in zip(panels, ("cwnd (kB)", "SRTT (ms)", "queue (packets)"), strict=True):
            line[0].set_ylabel(label)
            line[0].set_ylim(bottom=0)
        plots.legend(figure, _path_handles())
        return figure


def _courses(run: Traced, queue: str, end_s: float) -> list[list[Course]]:
    """The windows of both paths, their round-trip times, and the queue."""

    def course(rows: pl.DataFrame, name: str, scale: float, colour: str, width: float) -> Course:
        shown = plots.thinned(rows, name, end_s)
        style = {"linewidth": width}
        return Course(
            "", colour, shown["time_s"], shown[name] * scale, is_stepped=True, style=style
        )

    of_paths = [
        [
            course(run.paths.filter(path=number), name, scale, PATH_COLOURS[path], 1)
            for number, path in enumerate(PATHS)
        ]
        for name, scale in (("cwnd_bytes", 1e-3), ("srtt_ms", 1.0))
    ]
    return [*of_paths, [course(run.waiting, "waiting_packets", 1, QUEUE_COLOURS[queue], 0.8)]]


def delays(traced: dict[str, Traced]) -> Figure:
    """The share of delivered packets that took longer, on each path."""
    with plots.style():
        figure = plots.blank(10, 3.8)
        panels = figure.subplots(1, len(PATHS), sharey=True)
        for number, (axes, path) in enumerate(zip(panels, PATHS, strict=True)):
            for queue, run in traced.items():
                values = run.delays_ms[number]
                shares = [1 - index / len(values) for index in range(len(values))]
                axes.step(values, shares, where="post", color=QUEUE_COLOURS[queue], linewidth=1.3)
            plots.logarithmic(axes.xaxis)
            axes.set_xticks([10, 30, 100, 300, 1000, 3000, 10000])
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            plots.logarithmic(axes.yaxis)
            axes.set_yticks([0.001, 0.01, 0.1, 1], ["0.1 %", "1 %", "10 %", "100 %"])
            axes.minorticks_off()
            axes.set_xlim(8, 12000)
            axes.set_ylim(5e-4, 1.1)
            axes.set_xlabel("one-way delay (ms)")
            axes.set_title(f"path {PATH_NAMES[path]}")
            axes.grid(visible=True, axis="both")
        panels[0].set_ylabel("share of packets that took longer")
        handles = [stroke(QUEUE_NAMES[queue], QUEUE_COLOURS[queue]) for queue in traced]
        plots.legend(figure, handles)
        return figure


def starvation(runs: Runs) -> Figure:
    """Sojourn: mean, 99th percentile and maximum by queue and delay."""
    marks = {"sojourn_ms": "o", "p99_ms": "^", "max_ms": "x"}
    kinds = [*PAPERS_QUEUES, "fq_lifo_codel"]
    with plots.style():
        figure = plots.blank(10, 3.6)
        axes = figure.add_subplot()
        for index, queue in enumerate(kinds):
            for position, delay in enumerate(DELAYS):
                x = position + 0.14 * (index - (len(kinds) - 1) / 2)
                own = runs.where(queue=queue, coupling=LIA, delay_ms=delay)
                means = {value: own.mean(value) for value in marks}
                axes.plot(
                    [x, x],
                    [means["sojourn_ms"].mean, means["max_ms"].mean],
                    color=QUEUE_COLOURS[queue],
                    linewidth=1,
                )
                for value, marker in marks.items():
                    axes.errorbar(
                        x,
                        means[value].mean,
                        yerr=plots.bar(*means[value][:2], low=0.1 * means[value].mean),
                        color=QUEUE_COLOURS[queue],
                        marker=marker,
                        markersize=6,
                        capsize=2,
                        elinewidth=1,
                    )
        plots.logarithmic(axes.yaxis)
        axes.set_xticks(range(len(DELAYS)), [f"{delay} ms" for delay in DELAYS])
        axes.set_ylabel("sojourn in C's queue (ms)")
        axes.set_xlabel("delay of A")
        words = {"sojourn_ms": "mean", "p99_ms": "99th percentile", "max_ms": "maximum"}
        handles: list[Line2D | Patch] = [
            Patch(color=QUEUE_COLOURS[queue], label=QUEUE_NAMES[queue]) for queue in kinds
        ]
        handles += [dot(words[value], "black", marker) for value, marker in marks.items()]
        plots.legend(figure, handles)
        return figure


def theta(runs: Runs) -> Figure:
    """Longer delays on A, and the bound under which a growing delay is dropped."""
    figure = Facets(SHEET, SHEET.figures["theta"], runs).draw()
    bound, steps = figure.axes[-1], range(1, 7)
    with plots.style():
        growth = [k * math.factorial(k) for k in steps]
        bound.step(steps, growth, where="mid", color="black", linewidth=1.4)
        plots.logarithmic(bound.yaxis)
        bound.set_xticks(list(steps))
        bound.set_xlabel("k: growths in a row")
        bound.set_title("never dropped: delay from k k!\ntimes the first delay on")
    return figure


def handover(runs: dict[tuple[str, str], Traced]) -> Figure:
    """Data that arrives over each path when the Wi-Fi goes."""
    names = {one.name: one.title for one in transports()}
    labels = [f"path {PATH_NAMES[path]}" for path in PATHS]
    read: Style = {"linewidth": 0.9, "linestyle": DASHED}

    def goes(axes: Axes) -> None:
        axes.axvline(15, color=plots.QUIET, linestyle=DASHED, linewidth=1)

    panels = [
        timeline.Panel(
            [
                *timeline.over_paths(run.rates, list(PATH_COLOURS.values()), labels),
                Course(
                    "read by the application",
                    "black",
                    run.goodput["time_s"],
                    run.goodput["mbps"],
                    style=read,
                ),
            ],
            f"{names[transport]}, {QUEUE_NAMES[queue]}",
            goes,
        )
        for (transport, queue), run in runs.items()
    ]
    return timeline.stacked(
        panels,
        1.9 * len(runs),
        "Mbit/s",
        max(run.ended_s for run in runs.values()),
        time_label="time (s); dashed across: the Wi-Fi goes",
    )


def _path_handles() -> list[Line2D]:
    return [stroke(f"path {PATH_NAMES[path]}", PATH_COLOURS[path]) for path in PATHS]
