"""The figures. Every function returns one.

Path A is blue and path B green where paths are compared; a queue has one colour in all of them.
"""

import math
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from anabranch.figures import plots
from anabranch.papers import choice, timeline
from anabranch.papers.plots import (
    DASHED,
    bar_groups,
    dot,
    named_lines,
    paper_mark,
    ranges,
    stroke,
    verdict_matrix,
)
from anabranch.papers.timeline import Course
from anabranch.papers.verdicts import by_claim

from .claims import SHORT
from .factors import (
    COUPLING_NAMES,
    COUPLINGS,
    DELAYS,
    LIA,
    PAPERS_QUEUES,
    PATH_NAMES,
    PATHS,
    QUEUE_NAMES,
)
from .outcome import MptcpAqmOutcome, misfit_percent
from .published import Number, numbers
from .samples import Runs
from .studies import (
    BASE,
    LONG_DELAYS,
    Profile,
    changes,
    events,
    networks,
    profile,
    profiles,
    queues,
    receivers,
    transports,
)
from .traced import Traced

QUEUE_COLOURS = {
    "drop_tail": plots.QUIET,
    "codel": plots.COLOURS[0],
    "fq_codel": plots.COLOURS[4],
    "lifo_codel": plots.COLOURS[1],
    "fq_lifo_codel": plots.COLOURS[5],
    "lifo_plain": plots.COLOURS[3],
}
PATH_COLOURS = dict(zip(PATHS, (plots.COLOURS[0], plots.COLOURS[2]), strict=True))
DELAY_COLOURS = dict(
    zip(DELAYS, (plots.COLOURS[4], plots.COLOURS[0], plots.COLOURS[1]), strict=True)
)

METRICS = {
    "goodput": ("goodput_share", "goodput / C"),
    "drops": ("drops", "dropped packets"),
    "queue": ("queue_packets", "mean queue (packets)"),
    "sojourn": ("sojourn_ms", "mean sojourn (ms)"),
}
"""Figures with one value of a run."""
LOGARITHMIC = {"queue_packets", "sojourn_ms", "rtt_{}_ms", "cwnd_{}_packets"}
"""Values of which some are ten times others: points on a logarithmic axis instead of bars."""
PATH_METRICS = {
    "rtt": ("rtt_{}_ms", "mean RTT (ms)"),
    "cwnd": ("cwnd_{}_packets", "mean cwnd (packets)"),
}
"""Figures with one value of each path."""
TRACED_QUEUES = ("drop_tail", "codel", "lifo_codel")


def of(outcome: MptcpAqmOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures of an outcome by file name, drawn when called."""
    figures: dict[str, Callable[[], Figure]] = {"verdicts": partial(verdicts, outcome)}
    figures |= {name: partial(metric, outcome, name) for name in METRICS}
    figures |= {name: partial(path_metric, outcome, name) for name in PATH_METRICS}
    return figures | {
        "couplings": partial(couplings, outcome.base),
        "fit": partial(fit, outcome),
        "time": partial(time, outcome.traced),
        "delays": partial(delays, outcome.traced),
        "starvation": partial(starvation, outcome.base),
        "ablations": partial(ablations, outcome.ablations),
        "theta": partial(theta, outcome.theta),
        "beyond": partial(beyond, outcome.beyond),
        "mobility": partial(mobility, outcome.mobility),
        "handover": partial(handover, outcome.handovers),
    }


def verdicts(outcome: MptcpAqmOutcome) -> Figure:
    """Every claim under every profile, and with one thing of the base changed."""
    rows = {
        f"{number}. {SHORT[number]}": [
            *(findings[one.name].verdict for one in profiles()),
            *(
                next(one.verdict for one in changed if one.id == number)
                for changed in outcome.attribution.values()
            ),
        ]
        for number, findings in by_claim(outcome.claims).items()
    }
    columns = [one.title for one in profiles()]
    return verdict_matrix(rows, [*columns, *outcome.attribution], gap=len(columns))


def metric(outcome: MptcpAqmOutcome, name: str) -> Figure:
    """A value against the delay: bars by queue, a panel for each profile."""
    value, label = METRICS[name]
    with plots.style():
        figure = plots.blank(10, 7.4)
        panels = figure.subplots(len(networks()), len(receivers()), sharey=True, sharex=True)
        for line, network in zip(panels, networks(), strict=True):
            for axes, receiver in zip(line, receivers(), strict=True):
                one = Profile(network, receiver)
                _marks(
                    axes,
                    outcome.grids[one.name],
                    value,
                    _numbers(value),
                    is_logarithmic=value in LOGARITHMIC,
                )
                axes.set_title(one.title)
            line[0].set_ylabel(label)
        # The panels share the axis: only when all has been drawn is its end known.
        if value not in LOGARITHMIC:
            panels[0][0].set_ylim(bottom=0)
        for axes in panels[-1]:
            axes.set_xlabel("delay of A (ms)")
        _queue_legend(figure, paper=bool(_numbers(value)))
        return figure


def path_metric(outcome: MptcpAqmOutcome, name: str) -> Figure:
    """A value of each path against the delay: bars by queue, a line for each network."""
    pattern, label = PATH_METRICS[name]
    with plots.style():
        figure = plots.blank(10, 7.4)
        panels = figure.subplots(len(networks()), len(PATHS), sharey=True, sharex=True)
        for line, network in zip(panels, networks(), strict=True):
            for axes, path in zip(line, PATHS, strict=True):
                runs = outcome.grids[Profile(network, receivers()[0]).name]
                value = pattern.format(path)
                _marks(axes, runs, value, _numbers(value), is_logarithmic=pattern in LOGARITHMIC)
                axes.set_title(f"{network.title}, path {PATH_NAMES[path]}")
            line[0].set_ylabel(label)
        for axes in panels[-1]:
            axes.set_xlabel("delay of A (ms)")
        _queue_legend(figure, paper=name == "rtt")
        return figure


def _marks(
    axes: Axes, runs: Runs, value: str, published: Sequence[Number], *, is_logarithmic: bool
) -> None:
    """Bars by queue at each delay, or points where the axis is logarithmic."""
    lia = runs.where(coupling=LIA)
    bar_groups(
        axes,
        [str(delay) for delay in DELAYS],
        [QUEUE_COLOURS[queue] for queue in PAPERS_QUEUES],
        lambda delay, queue: lia.where(queue=PAPERS_QUEUES[queue], delay_ms=DELAYS[delay]).mean(
            value
        ),
        published=lambda delay, queue: [
            number.value
            for number in published
            if number.queue == PAPERS_QUEUES[queue] and number.delay_ms in {0, DELAYS[delay]}
        ],
        is_logarithmic=is_logarithmic,
    )


def _numbers(value: str) -> list[Number]:
    return [one for one in numbers() if one.quantity == value and one.bound == "is"]


def _queue_legend(figure: Figure, *, paper: bool) -> None:
    handles: list[Any] = [
        Patch(color=QUEUE_COLOURS[queue], label=QUEUE_NAMES[queue]) for queue in PAPERS_QUEUES
    ]
    if paper:
        handles.append(paper_mark())
    plots.legend(figure, handles)


def couplings(runs: Runs) -> Figure:
    """The three couplings against the delay, a panel for each queue and value."""
    values = [
        ("goodput_share", "goodput / C"),
        ("queue_packets", "queue (packets)"),
        ("sojourn_ms", "sojourn (ms)"),
        ("rtt_a_ms", "RTT of A (ms)"),
        ("rtt_b_ms", "RTT of B (ms)"),
        ("cwnd_share_a", "A's part of cwnd"),
    ]
    with plots.style():
        figure = plots.blank(10, 1.75 * len(values))
        panels = figure.subplots(len(values), len(PAPERS_QUEUES), sharex=True, sharey="row")
        for line, (value, label) in zip(panels, values, strict=True):
            for axes, queue in zip(line, PAPERS_QUEUES, strict=True):
                for index, coupling in enumerate(COUPLINGS):
                    own = runs.where(queue=queue, coupling=coupling)
                    # Two of them are nearly equal: moved apart, with marks of their own.
                    shift, colour = 0.12 * (index - 1), plots.COLOURS[index]
                    _line(axes, own, value, colour, DELAYS, marker="osD"[index], shift=shift)
            line[0].set_ylabel(label)
            if "share" in value:
                line[0].set_ylim(0, 1)
            else:
                plots.logarithmic(line[0].yaxis)
        for axes, queue in zip(panels[0], PAPERS_QUEUES, strict=True):
            axes.set_title(QUEUE_NAMES[queue])
        for axes in panels[-1]:
            axes.set_xlabel("delay of A (ms)")
        handles = [
            stroke(COUPLING_NAMES[coupling], plots.COLOURS[index], marker="osD"[index])
            for index, coupling in enumerate(COUPLINGS)
        ]
        plots.legend(figure, handles)
        return figure


def _line(
    axes: Axes,
    runs: Runs,
    value: str,
    colour: str,
    at: Sequence[int],
    *,
    marker: str = "o",
    shift: float = 0.0,
) -> None:
    means = [runs.where(delay_ms=delay).mean(value) for delay in at]
    places = [place + shift for place in range(len(at))]
    ranges(
        axes,
        places,
        means,
        colour,
        is_cut=True,
        marker=marker,
        markersize=3.5,
        linewidth=1.3,
        elinewidth=1,
    )
    axes.set_xticks(range(len(at)), [str(delay) for delay in at])


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
            style: dict[str, Any] = {"marker": marker, "linestyle": linestyle, "markersize": 3.5}
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
        handles: list[Any] = [
            Patch(color=QUEUE_COLOURS[queue], label=QUEUE_NAMES[queue]) for queue in kinds
        ]
        handles += [dot(words[value], "black", marker) for value, marker in marks.items()]
        plots.legend(figure, handles)
        return figure


def ablations(runs: Runs) -> Figure:
    """Queue disciplines with one thing changed: a dot for each delay."""
    values = [
        ("goodput_share", "goodput / C", False),
        ("drops", "dropped packets", True),
        ("sojourn_ms", "mean sojourn (ms)", True),
        ("p99_ms", "99th percentile (ms)", True),
    ]
    with plots.style():
        figure = plots.blank(10, 1.1 + 0.3 * len(changes()))
        panels = figure.subplots(1, len(values), sharey=True)
        for axes, (value, label, is_log) in zip(panels, values, strict=True):
            for line, change in enumerate(changes()):
                for index, delay in enumerate(DELAYS):
                    mean = runs.where(change=change.name, delay_ms=delay).mean(value)
                    axes.errorbar(
                        mean.mean,
                        line + 0.2 * (index - 1),
                        xerr=plots.bar(*mean[:2], low=0.1 * mean.mean if is_log else 0.0),
                        color=DELAY_COLOURS[delay],
                        marker="o",
                        markersize=4,
                        capsize=2,
                        elinewidth=1,
                    )
            if is_log:
                plots.logarithmic(axes.xaxis)
                axes.xaxis.set_minor_formatter(NullFormatter())
            else:
                axes.set_xlim(left=0)
            axes.grid(visible=True, axis="both")
            axes.set_xlabel(label)
            axes.tick_params(axis="y", length=0)
        named_lines(panels[0], [change.title for change in changes()])
        handles = [dot(f"A: {delay} ms", colour) for delay, colour in DELAY_COLOURS.items()]
        plots.legend(figure, handles)
        return figure


def theta(runs: Runs) -> Figure:
    """Longer delays on A, and the bound under which a growing delay is dropped."""
    kinds = {
        "codel": "CoDel",
        "fq_codel": "FQ-CoDel",
        "lifo_codel": "LIFO-CoDel",
        "lifo_plain": "plain stack",
    }
    values = [
        ("goodput_share", "goodput / C"),
        ("aqm_drops", "drops by k > theta or CoDel"),
        ("max_ms", "longest sojourn (ms)"),
    ]
    with plots.style():
        figure = plots.blank(10, 3.6)
        panels = figure.subplots(1, len(values) + 1)
        for axes, (value, label) in zip(panels, values, strict=False):
            for queue in kinds:
                own = runs.where(queue=queue)
                _line(axes, own, value, QUEUE_COLOURS[queue], LONG_DELAYS)
            axes.set_xlabel("delay of A (ms)")
            axes.set_title(label)
            if value == "max_ms":
                plots.logarithmic(axes.yaxis)
            else:
                axes.set_ylim(bottom=0)
        bound = panels[-1]
        steps = range(1, 7)
        bound.step(
            steps,
            [k * math.factorial(k) for k in steps],
            where="mid",
            color="black",
            linewidth=1.4,
        )
        plots.logarithmic(bound.yaxis)
        bound.set_xticks(list(steps))
        bound.set_xlabel("k: growths in a row")
        bound.set_title("never dropped: delay from k k!\ntimes the first delay on")
        handles = [stroke(name, QUEUE_COLOURS[queue], marker="o") for queue, name in kinds.items()]
        plots.legend(figure, handles)
        return figure


def beyond(runs: Runs) -> Figure:
    """Every transport with every queue: goodput and tail of the sojourn, mean over the delays."""
    values = [
        ("goodput_share", "goodput / C", 2, "cividis"),
        ("p95_ms", "95th percentile of the sojourn (ms)", 0, "cividis_r"),
        ("longest_gap_s", "longest time without data at the server (s)", 1, "cividis_r"),
    ]
    kinds = [queue.name for queue in queues()]
    with plots.style():
        figure = plots.blank(10, 4.1 * len(values))
        panels = figure.subplots(len(values), 1)
        for axes, (value, label, digits, colours) in zip(panels, values, strict=True):
            grid = [
                [
                    runs.where(transport=transport.name, queue=queue.name).mean(value).mean
                    for queue in queues()
                ]
                for transport in transports()
            ]
            plots.heat(
                axes,
                grid,
                None,
                [textwrap.fill(queue.title, 10) for queue in queues()],
                [transport.title for transport in transports()],
                digits=digits,
                colours=colours,
            )
            for line, transport in enumerate(transports()):
                own = runs.where(transport=transport.name)
                best = choice.best(own, ["queue"], value, maximise=value == "goodput_share")
                plots.frame_cells(axes, ((kinds.index(name), line) for name in best.candidates))
            axes.set_title(f"{label}; framed: may be the best of its line")
        return figure


def mobility(runs: Runs) -> Figure:
    """Goodput with losses and when the Wi-Fi goes."""
    there = runs.frame["transport"].unique(maintain_order=True).to_list()
    kinds = runs.frame["queue"].unique(maintain_order=True).to_list()
    names = {one.name: one.title for one in transports()}
    with plots.style():
        figure = plots.blank(10, 3.4)
        panels = figure.subplots(1, len(there), sharey=True)
        for axes, transport in zip(panels, there, strict=True):
            own = runs.where(transport=transport)
            bar_groups(
                axes,
                [textwrap.fill(event.title, 11) for event in events()],
                [QUEUE_COLOURS[queue] for queue in kinds],
                lambda event, queue, own=own: own.where(  # type: ignore[misc]
                    queue=kinds[queue], event=events()[event].name
                ).mean(),
                high=1.0,
            )
            axes.set_title(names[transport])
        panels[0].set_ylabel("goodput / C")
        panels[0].set_ylim(0, 1)
        _queue_legend(figure, paper=False)
        return figure


def handover(runs: dict[tuple[str, str], Traced]) -> Figure:
    """Data that arrives over each path when the Wi-Fi goes."""
    names = {one.name: one.title for one in transports()}
    labels = [f"path {PATH_NAMES[path]}" for path in PATHS]
    read: dict[str, Any] = {"linewidth": 0.9, "linestyle": DASHED}

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
