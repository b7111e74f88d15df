"""The figures. Every function returns one; path 1 is blue and path 2 green in all of them."""

import math
from collections.abc import Callable
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from anabranch.figures import plots
from anabranch.papers import timeline
from anabranch.papers.intervals import Interval
from anabranch.papers.plots import DASHED, Style, dot, level, named_places, ranges
from anabranch.papers.timeline import Moments

from .factors import (
    AVAILABLE_MBPS,
    EXPERIMENT_NAMES,
    EXPERIMENTS,
    SENDER_NAMES,
    SENDERS,
    SHEET,
    better_path,
)
from .outcome import SctpHandoverOutcome, names
from .published import of_experiment
from .studies import Arena, policies
from .traced import Traced

PATH_COLOURS = (plots.COLOURS[0], plots.COLOURS[2])
SENDER_COLOURS = SHEET.colours("sender")
COLUMNS = 5
"""How many of the tournament's panels stand side by side."""


def of(outcome: SctpHandoverOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures of an outcome by file name, drawn when called."""
    figures: dict[str, Callable[[], Figure]] = {
        "tables": partial(tables, outcome),
        "handovers": partial(handovers, outcome.traced),
        "tournament": partial(tournament, outcome),
        "switching": partial(switching, outcome),
    }
    for (number, sender), run in outcome.timelines.items():
        figures[f"timeline-{number}-{sender}"] = partial(over_time, run, number, sender)
    return figures


def tables(outcome: SctpHandoverOutcome) -> Figure:
    """Throughput in each phase: ours as bars with intervals, the paper's as marks."""
    with plots.style():
        figure = plots.blank(10, 3.8)
        panels = figure.subplots(1, len(EXPERIMENTS), sharey=True, width_ratios=(3, 4))
        for axes, number in zip(panels, EXPERIMENTS, strict=True):
            keys = [phase.key for phase in of_experiment(number)]
            for cell in outcome.cells:
                if cell.key["experiment"] != number:
                    continue
                sender = str(cell.key["sender"])
                x = keys.index(str(cell.key["phase"])) + 0.36 * (SENDERS.index(sender) - 0.5)
                axes.bar(x, cell.measured, width=0.32, color=SENDER_COLOURS[sender])
                ours = Interval(cell.measured, cell.half_width, 0)
                ranges(axes, [x], [ours], "black", elinewidth=1.2, capsize=3)
                axes.plot(
                    x,
                    cell.published,
                    marker="D",
                    markersize=6,
                    color="none" if cell.key["published_as"] == "computed" else plots.ACCENT,
                    markeredgecolor=plots.ACCENT,
                    linestyle="none",
                )
            named_places(axes, keys)
            axes.set_title(EXPERIMENT_NAMES[number])
        # The panels share the axis: only when all has been drawn is its top known.
        panels[0].set_ylim(bottom=0)
        panels[0].set_ylabel("throughput (Mbit/s)")
        handles = [
            *(
                Patch(color=SENDER_COLOURS[name], label=f"{SENDER_NAMES[name]}, ours")
                for name in SENDERS
            ),
            dot("paper, measured", plots.ACCENT, "D", markeredgecolor=plots.ACCENT),
            dot("paper, computed", "none", "D", markeredgecolor=plots.ACCENT),
        ]
        plots.legend(figure, handles)
        return figure


def over_time(run: Traced, number: int, sender: str) -> Figure:
    """Throughput over each path, with handovers, checkpoints and timeouts."""
    end_s = of_experiment(number)[-1].to_s

    def decorate(axes: Axes) -> None:
        _phases(axes, number)
        _primary(axes, run, end_s)

    ticks: Style = {"markersize": 5, "markeredgecolor": "black"}
    clean, lossy = (
        [one.time_s for one in run.checkpoints if (one.lost > 0) == is_lossy]
        for is_lossy in (False, True)
    )
    shown: list[timeline.Shown] = [
        *timeline.over_paths(
            run.rates, PATH_COLOURS, [f"path {path}; strip: it is primary" for path in (1, 2)]
        ),
        Moments("checkpoint", "none", clean, "v", 0.97, ticks, {"markeredgecolor": "black"}),
        Moments("with a loss", "black", lossy, "v", 0.97, ticks),
        Moments("timeout", plots.ACCENT, run.timeouts_s, "x", 0.03),
    ]
    title = f"{EXPERIMENT_NAMES[number]}; {SENDER_NAMES[sender]}"
    return timeline.stacked(
        [timeline.Panel(shown, title, decorate)], 3.6, "throughput (Mbit/s)", end_s, pad=24
    )


def _primary(axes: Axes, run: Traced, end_s: float) -> None:
    """The primary path as a strip above the axes."""
    changes = [
        (0.0, "path 1"),
        *((handover.time_s, f"path {handover.to + 1}") for handover in run.handovers),
    ]
    colours = {f"path {path + 1}": colour for path, colour in enumerate(PATH_COLOURS)}
    plots.strip(axes, changes, 0.0, end_s, colours)


def handovers(traced: dict[int, list[Traced]]) -> Figure:
    """When each traced run handed over, and whether to the better path."""
    with plots.style():
        figure = plots.blank(10, 4.6)
        panels = figure.subplots(len(traced), 1)
        for axes, (number, runs) in zip(panels, traced.items(), strict=True):
            phases = of_experiment(number)
            for index, run in enumerate(runs):
                for handover in run.handovers:
                    phase = next(
                        (phase for phase in phases if handover.time_s < phase.to_s), phases[-1]
                    )
                    good = handover.to == better_path(number, phase.number)
                    axes.plot(
                        handover.time_s,
                        index + 1,
                        marker=">" if handover.to else "<",
                        markersize=5,
                        markeredgewidth=0,
                        color="black" if good else plots.ACCENT,
                    )
            _phases(axes, number)
            axes.set_xlim(0, phases[-1].to_s)
            axes.set_ylim(0, len(runs) + 1)
            axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
            axes.set_ylabel("run")
            axes.set_title(EXPERIMENT_NAMES[number], pad=24)
        panels[-1].set_xlabel("time (s)")
        handles = [
            dot("to path 2", "black", ">"),
            dot("to path 1", "black", "<"),
            dot("to the path that has less", plots.ACCENT, ">"),
        ]
        plots.legend(figure, handles)
        return figure


def tournament(outcome: SctpHandoverOutcome) -> Figure:
    """Throughput or MOS of every policy, one panel for each arena."""
    order = [policy.name for policy in policies()]
    lines = math.ceil(len(outcome.arenas) / COLUMNS)
    with plots.style():
        figure = plots.blank(10, (1 + 0.2 * len(order)) * lines)
        panels = figure.subplots(lines, COLUMNS, sharey=True, squeeze=False)
        for axes, arena in zip(panels.flat, outcome.arenas, strict=False):
            _ranks(axes, outcome, arena, order)
        for is_call in (False, True):
            alike = [
                axes
                for axes, arena in zip(panels.flat, outcome.arenas, strict=False)
                if arena.is_call == is_call
            ]
            _one_scale(alike)
        for axes in panels.flat[len(outcome.arenas) :]:
            axes.set_visible(False)
        for line in panels:
            line[0].set_yticks(range(len(order)), [policy.title for policy in policies()])
        panels[0][0].set_ylim(len(order) - 0.5, -0.5)
        return figure


def _ranks(axes: Axes, outcome: SctpHandoverOutcome, arena: Arena, order: list[str]) -> None:
    value, unit = ("mos", "MOS") if arena.is_call else ("goodput_mbps", "throughput (Mbit/s)")
    runs = outcome.tournament[arena.name]
    for index, name in enumerate(order):
        mean = runs.where(policy=name).mean(value)
        colour = plots.ACCENT if name == "proposed" else plots.COLOURS[0]
        level(axes, mean, index, colour, markersize=4, elinewidth=1.2, capsize=2.5)
    axes.axvline(
        runs.where(policy="plain").mean(value).mean,
        color=plots.QUIET,
        linewidth=1,
        linestyle=DASHED,
    )
    axes.grid(visible=True, axis="both")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.set_xlabel(unit)
    axes.set_title(SHEET.title("arena", arena.name))


def _one_scale(panels: list[Axes]) -> None:
    """Panels with the same quantity on one scale, so that what is alike looks alike."""
    limits = [axes.get_xlim() for axes in panels]
    for axes in panels:
        axes.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))


def switching(outcome: SctpHandoverOutcome) -> Figure:
    """Switches of every policy in the experiments, by whether the new path has more."""
    order = [policy.name for policy in policies()]
    with plots.style():
        figure = plots.blank(10, 1.2 + 0.27 * len(order))
        panels = figure.subplots(1, len(EXPERIMENTS), sharex=True, sharey=True)
        for axes, number in zip(panels, EXPERIMENTS, strict=True):
            runs = outcome.experiment(number)
            there = names(runs.frame, "policy")
            for index, name in enumerate(order):
                if name not in there:
                    continue
                own = runs.where(policy=name)
                worse, switches = own.mean("to_worse").mean, own.mean("switches").mean
                axes.plot([0, switches], [index, index], color=plots.COLOURS[4], linewidth=1)
                axes.plot(switches, index, "o", color=plots.COLOURS[0], markersize=5)
                # Narrower, so that it does not hide the other where both are equal.
                axes.plot(worse, index, "D", color=plots.ACCENT, markersize=3, gid="worse")
            axes.grid(visible=True, axis="x")
            axes.grid(visible=False, axis="y")
            # 2 stands beside 213, and 0 among them.
            axes.set_xscale("symlog", linthresh=1)
            ticks = (0, 1, 3, 10, 30, 100)
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
            axes.set_xlim(left=-0.1)
            axes.set_xlabel("switches a run")
            axes.set_title(EXPERIMENT_NAMES[number])
            axes.tick_params(axis="y", length=0)
        panels[0].set_yticks(range(len(order)), [policy.title for policy in policies()])
        panels[0].set_ylim(len(order) - 0.5, -0.5)
        handles = [
            dot("all switches", plots.COLOURS[0]),
            dot("those to the path that has less", plots.ACCENT),
        ]
        plots.legend(figure, handles)
        return figure


def _phases(axes: Axes, number: int) -> None:
    """Where the cross traffic changes, and what each path then has by the timetable."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    inches = figure.dpi_scale_trans
    for phase, (first, second) in zip(of_experiment(number), AVAILABLE_MBPS[number], strict=True):
        if phase.from_s > 0:
            axes.axvline(phase.from_s, color=plots.QUIET, linewidth=0.9, linestyle=DASHED)
        axes.text(
            (phase.from_s + phase.to_s) / 2,
            1.0,
            f"{first:.1f} | {second:.1f}",
            transform=axes.get_xaxis_transform() + ScaledTranslation(0, 0.15, inches),
            ha="center",
            va="bottom",
            color=plots.QUIET,
        )
