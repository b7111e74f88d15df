"""Timelines of a test case: rates, queueing delays and losses around each change, and each call.

They show the first replication, which is run once more for them.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anabranch import _engine
from anabranch.bench_cc.measures import Cell, Drawn
from anabranch.bench_rtc.scenarios import MediaScenario
from anabranch.bench_rtc.series import (
    BIN_S,
    TABLES,
    Course,
    Numbers,
    Packets,
    packets,
    per_bin,
    rate,
    smooth,
)
from anabranch.figures import plots

BEFORE_S, SPAN_S = 10.0, 50.0
"""What is shown of a change: 50 s, of which so many are before it."""

_RATE_S, _DELAY_S, _LOSS_S = 1.0, 0.5, 1.0
"""Over how long rates, delays and losses are averaged (RFC 8868 section 3: 1 s in plots)."""


def of(cells: Sequence[Cell]) -> dict[str, Drawn]:
    """The timelines of all cases, by the names of their files."""
    made: dict[str, Drawn] = {}
    for case in dict.fromkeys(cell.case for cell in cells):
        own = [cell for cell in cells if cell.case == case]
        about = own[0].scenario
        assert isinstance(about, MediaScenario)
        name = "".join(letter if letter.isalnum() else "-" for letter in case.lower())
        name = "-".join(part for part in name.split("-") if part)
        made[f"changes-{name}"] = Drawn(
            partial(around_changes, own),
            f"{case} ({about.section}), the first run, {SPAN_S:g} s around each change, of calls"
            f" over the link {about.bottlenecks[0]}: what arrived over 1 s and the capacity (grey),"
            " the mean wait in queues over 0.5 s, and lost packets of media over 1 s.",
        )
        if len(about.tested) > 1:
            made[f"calls-{name}"] = Drawn(
                partial(each_call, own),
                f"{case} ({about.section}), the first run: what arrived of each call over 1 s, and"
                " the capacity (grey).",
            )
    return made


def _seen(cell: Cell) -> tuple[Packets, Course]:
    about = cell.scenario
    assert isinstance(about, MediaScenario)
    case = about.cases.index(cell.case)
    what = about.courses[case]
    run = (about.cell(case, cell.control), 0)
    ((_, _, tables),) = _engine.run_batch(about.scenario, [run], 1, traces=TABLES)["traces"]
    return packets(tables, what, about.rival), what


def _changes(what: Course) -> list[float]:
    """When something changes, or the start where nothing does."""
    return [start for start, _ in what.periods[1:]] or [what.window[0]]


def around_changes(cells: Sequence[Cell]) -> Figure:
    """Rates, delays and losses around each change, with a line for each control."""
    seen = {cell.control: _seen(cell) for cell in cells}
    what = next(iter(seen.values()))[1]
    changes = _changes(what)
    end = what.window[1]
    with plots.style():
        figure = plots.blank(1.2 + 2.6 * len(changes), 5.6)
        grid = figure.subplots(3, len(changes), squeeze=False, sharey="row")
        for column, at in enumerate(changes):
            since = max(at - BEFORE_S, 0.0)
            until = min(since + SPAN_S, end)
            for axes in grid[:, column]:
                axes.set_xlim(since, until)
                axes.axvline(at, color=plots.QUIET, linewidth=0.8, linestyle=":")
            grid[0, column].set_title(f"{at:g} s")
            _draw_capacity(grid[0, column], what, end)
            for number, (control, (shown, _)) in enumerate(seen.items()):
                style = {"color": plots.COLOURS[number % len(plots.COLOURS)], "linewidth": 1.2}
                times = np.arange(0, end - BIN_S / 2, BIN_S)
                for axes, values in zip(grid[:, column], _lines(shown, what, end), strict=True):
                    axes.plot(times[: len(values)], values[: len(times)], label=control, **style)
            grid[2, column].set_xlabel("time (s)")
        for axes, label in zip(
            grid[:, 0], ("arrived (Mbit/s)", "queueing delay (ms)", "lost (%)"), strict=True
        ):
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
        return figure


def _lines(shown: Packets, what: Course, end: float) -> tuple[Numbers, Numbers, Numbers]:
    """Rate, delay and losses of the calls over the bottleneck whose capacity is drawn."""
    hop = next(iter(what.capacities))
    crossing = [flow.name for flow in what.flows if hop in flow.hops]
    media = shown.media.filter(pl.col("flow").is_in(crossing))
    arrived = media.filter(pl.col("delivered_s").is_not_nan())
    lost = media.filter(pl.col("delivered_s").is_nan())
    waits = per_bin(arrived["sent_s"], arrived["waited_ms"], end)
    counts = per_bin(arrived["sent_s"], pl.Series([1.0] * arrived.height), end)
    all_lost = per_bin(lost["sent_s"], pl.Series([1.0] * lost.height, dtype=pl.Float64), end)
    return (
        smooth(rate(arrived, "delivered_s", end), _RATE_S),
        _ratio(smooth(waits, _DELAY_S), smooth(counts, _DELAY_S)),
        100 * _ratio(smooth(all_lost, _LOSS_S), smooth(all_lost + counts, _LOSS_S)),
    )


def _ratio(part: Numbers, whole: Numbers) -> Numbers:
    return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))


def _draw_capacity(axes: Axes, what: Course, end: float) -> None:
    capacity = next(iter(what.capacities.values()))
    times = [*capacity.times, end]
    values = [*capacity.values, capacity.values[-1]]
    axes.fill_between(times, values, step="post", color=plots.FAILED)


def each_call(cells: Sequence[Cell]) -> Figure:
    """What arrived of each call over the whole run, with a panel for each control."""
    with plots.style():
        figure = plots.blank(7.2, 0.7 + 1.6 * len(cells))
        grid = figure.subplots(len(cells), 1, squeeze=False, sharex=True, sharey=True)
        for axes, cell in zip(grid[:, 0], cells, strict=True):
            shown, what = _seen(cell)
            end = what.window[1]
            times = np.arange(0, end - BIN_S / 2, BIN_S)
            _draw_capacity(axes, what, end)
            arrived = shown.media.filter(pl.col("delivered_s").is_not_nan())
            for number, flow in enumerate(what.flows):
                own = arrived.filter(flow=flow.name)
                values = smooth(rate(own, "delivered_s", end), _RATE_S)
                colour = plots.COLOURS[number % len(plots.COLOURS)]
                axes.plot(
                    times[: len(values)],
                    values[: len(times)],
                    label=flow.name,
                    color=colour,
                    linewidth=1.2,
                )
            axes.set_title(cell.control)
            axes.set_ylabel("arrived (Mbit/s)")
            axes.set_ylim(bottom=0)
        grid[-1, 0].set_xlabel("time (s)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure
