"""The paper's figures 3 to 6 as it draws them, Table 2 as a picture, and what lies beyond.

Every function returns a figure. Path.Max.Retrans keeps its colour in all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anabranch.figures import plots, run_plots
from anabranch.papers import choice
from anabranch.papers.intervals import Interval
from anabranch.papers.plots import (
    DASHED,
    colour_bar,
    dot,
    intervals,
    level,
    named_lines,
    ranges,
    stroke,
)

from . import published
from .outcome import Table2, VoipSctpOutcome
from .published import CLOCKS, COLUMNS, DELAY_CENTRIC, LOSSES, PMR, RTO_MAX_S
from .samples import Runs
from .traced import TracedCall

PMR_COLOURS = dict(zip(PMR, plots.COLOURS, strict=False))
CLOCK_COLOURS = {"on_arrival": plots.COLOURS[0], "slot": plots.COLOURS[1]}
CLOCK_LABELS = {"on_arrival": "losses drawn on arrival (ns-2)", "slot": "losses drawn every 5 ms"}
SETTING_NAMES = {
    "udp": "plain UDP, path 0 only",
    "rfc9260": "RFC 9260 defaults",
    "linux": "Linux defaults",
    "ns2": "ns-2 defaults (RTO 1 s to 60 s, PMR 5)",
    "paper_timers": "heartbeat 0.1 s, RTO.Min 20 ms, RTO.Max 10 s, PMR 5",
    "rto_max": "... with RTO.Max 0.1 s",
    "rto_max_pmr": "... and PMR 1",
    "recommended": "... and delay-centric: the recommendation",
}
"""The settings of sweep_settings.toml, in the order of its file."""

LOW, HIGH = 1.0, 4.5
"""MOS from the least to a little over what G.711 has without any impairment (4.41)."""


def of(outcome: VoipSctpOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures of an outcome by file name, drawn when called."""
    figures: dict[str, Callable[[], Figure]] = {
        "table2": partial(table2, outcome.tables),
        "advice": partial(advice, [(item.text, item.effects) for item in outcome.advice]),
    }
    for number, call in outcome.single_runs.items():
        figures[f"figure{number}"] = partial(single_run, number, call)
    for number, loss in ((5, 0.1), (6, 0.02)):
        for clock in CLOCKS:
            name = f"figure{number}" + ("" if clock == "on_arrival" else "-slot")
            plain_udp = _plain_udp(outcome, loss, clock)
            figures[name] = partial(
                mos_against_rto_max, outcome.runs[clock], loss, number, plain_udp
            )
    if not outcome.is_smoke:
        figures["heatmaps"] = partial(heat_maps, outcome.runs["on_arrival"])
    figures["settings"] = partial(settings, outcome.settings)
    figures["potentially-failed"] = partial(potentially_failed, outcome.potentially_failed)
    if not outcome.sensitivity.is_empty():
        figures["sensitivity"] = partial(sensitivity, outcome.sensitivity)
    return figures


def table2(tables: dict[str, Table2]) -> Figure:
    """Table 2's eight columns against RTO.Max.

    The paper's points, ours under both clocks with 95 % bands.
    """
    with plots.style():
        figure = plots.blank(10, 5.6)
        grid = figure.subplots(2, 4, sharex=True, sharey=True)
        for axes, (state, pmr) in zip(grid.flat, COLUMNS, strict=True):
            for clock in CLOCKS:
                rows = tables[clock].means.filter(delay_centric=state, pmr=pmr).sort("rto_max_s")
                _band(axes, rows, CLOCK_COLOURS[clock])
            axes.plot(rows["rto_max_s"], rows["mos"], "o", color="black", markersize=3.6, zorder=4)
            _rto_axis(axes, (0.02, 0.1, 0.5, 2, 10))
            axes.set_title(f"delay-centric {state}, PMR {pmr}")
            axes.set_ylim(LOW, 3.9)
        for axes in grid[:, 0]:
            axes.set_ylabel("MOS")
        for axes in grid[1]:
            axes.set_xlabel("RTO.Max (s)")
        handles = [stroke(f"ours, {CLOCK_LABELS[clock]}", CLOCK_COLOURS[clock]) for clock in CLOCKS]
        handles.append(dot("the paper's Table 2", "black", markersize=4))
        plots.legend(figure, handles)
        return figure


def single_run(number: int, call: TracedCall) -> Figure:
    """Figure 3 or 4.

    Packet delay over time in one call, the jitter buffer's line, losses on the axis.
    """
    title = (
        f"Figure {number}: one call, RTO.Max {call.rto_max_s:g} s, PMR 5, 2 % loss: MOS"
        f" {call.mos:.2f} (paper {call.published:g})"
    )
    figure = run_plots.frame_delay(call.frames, playout_limit_ms=call.playout_limit_ms, title=title)
    for line in figure.axes[0].lines:
        if line.get_gid() in {"played", "late", "lost"}:
            line.set_rasterized(True)  # six thousand dots as paths would be half of the page
    return figure


def mos_against_rto_max(
    runs: Runs, loss: float, number: int, plain_udp: float | None = None
) -> Figure:
    """Figure 5 or 6: MOS against RTO.Max with 95 % intervals, at 25/25 ms.

    One line for each PMR, one panel for each delay-centric state.
    `plain_udp`: the MOS of plain UDP, drawn as the baseline.
    """
    means = runs.both_losses(loss).at_25_ms().by(["delay_centric", "pmr", "rto_max_s"])
    points = published.figures().filter(figure=number)
    labelled: list[tuple[Axes, list[tuple[float, str, str]]]] = []
    with plots.style():
        figure = plots.blank(10, 4.1)
        for axes, state in zip(figure.subplots(1, 2, sharey=True), DELAY_CENTRIC, strict=True):
            ends = []
            for offset, pmr in enumerate(PMR):
                rows = means.filter(delay_centric=state, pmr=pmr).sort("rto_max_s")
                # Moved apart by 2 % each, so that intervals at the same RTO.Max can be told apart.
                x = rows["rto_max_s"] * 1.02 ** (2 * offset - 3)
                ends.append((rows["mean"][-1], f"PMR {pmr}", PMR_COLOURS[pmr]))
                style: dict[str, Any] = {"markersize": 3.5, "elinewidth": 1, "linewidth": 1.3}
                ranges(axes, x, intervals(rows), PMR_COLOURS[pmr], marker="o", **style)
            if not points.is_empty():
                axes.plot(
                    points["rto_max_s"], points["value"], "*", color="black", markersize=9, zorder=5
                )
            if plain_udp is not None:
                axes.axhline(plain_udp, color=plots.QUIET, linewidth=1, linestyle=DASHED)
            _rto_axis(axes)
            axes.set_title(f"delay-centric {state}")
            axes.set_xlabel("RTO.Max (s)")
            labelled.append((axes, ends))
        # The panels share the axis: only when all has been drawn are the heights known.
        for axes, ends in labelled:
            plots.label_ends(figure, axes, ends)
        figure.axes[0].set_ylabel("MOS")
        handles = []
        if plain_udp is not None:
            handles.append(stroke("plain UDP", plots.QUIET, linewidth=1, linestyle=DASHED))
        if not points.is_empty():
            label = "about, over all curves (the paper's text)"
            handles.append(dot(label, "black", "*", markersize=9))
        plots.legend(figure, handles)
        return figure


def heat_maps(runs: Runs) -> Figure:
    """PMR x RTO.Max for each of the nine loss pairs.

    Mean MOS over delays and delay-centric states; framed: what may be the best, compared run by
    run.
    """
    means = runs.by(["loss0", "loss1", "pmr", "rto_max_s"])
    rtos = sorted(RTO_MAX_S)
    low, high = min(means["mean"].to_list()), max(means["mean"].to_list())
    with plots.style(), mpl.rc_context({"axes.grid": False}):
        figure = plots.blank(10, 6.4)
        grid = figure.subplots(3, 3, sharex=True, sharey=True)
        for axes, (loss0, loss1) in zip(
            grid.flat, ((first, second) for first in LOSSES for second in LOSSES), strict=True
        ):
            grids = {
                (row["pmr"], row["rto_max_s"]): row["mean"]
                for row in means.filter(loss0=loss0, loss1=loss1).iter_rows(named=True)
            }
            values = [[grids[pmr, rto] for rto in rtos] for pmr in PMR]
            image = axes.imshow(values, cmap="cividis", vmin=low, vmax=high, aspect="auto")
            span = f"MOS {min(grids.values()):.2f} to {max(grids.values()):.2f}"
            best = choice.best(runs.where(loss0=loss0, loss1=loss1), ["pmr", "rto_max_s"])
            title = f"loss {plots.percent(loss0)} / {plots.percent(loss1)}:  {span}"
            if len(best.candidates) <= len(grids) / 2:
                places = ((rtos.index(rto), PMR.index(pmr)) for pmr, rto in best.candidates)
                plots.frame_cells(axes, places)
            else:  # frames around most cells would hide the rest
                title += f"\n{len(best.candidates)} of {len(grids)} cells may be the best"
            for spine in axes.spines.values():
                spine.set_visible(False)
            axes.tick_params(length=0)
            axes.set_title(title)
            axes.set_xticks(range(len(rtos)), [f"{value:g}" for value in rtos], rotation=90)
            axes.set_yticks(range(len(PMR)), [str(value) for value in PMR])
        for axes in grid[:, 0]:
            axes.set_ylabel("PMR")
        for axes in grid[2]:
            axes.set_xlabel("RTO.Max (s)")
        colour_bar(figure, image, grid, "mean MOS", share=0.025)
        return figure


def settings(means: pl.DataFrame) -> Figure:
    """Named settings on the paper's paths: MOS with 95 % intervals, one panel for each loss."""
    names = list(SETTING_NAMES)
    losses = means["loss_share"].unique().sort().to_list()
    with plots.style(), mpl.rc_context({"axes.grid.axis": "x"}):
        figure = plots.blank(10, 3.6)
        panels = figure.subplots(1, len(losses), sharey=True, squeeze=False)[0]
        for axes, loss in zip(panels, losses, strict=True):
            for row in means.filter(loss_share=loss).iter_rows(named=True):
                colour = {"recommended": plots.ACCENT, "udp": "black"}.get(
                    row["setting"], plots.COLOURS[0]
                )
                y = names.index(row["setting"])
                mean = Interval(row["mean"], row["half_width"], row["n"])
                level(axes, mean, y, colour)
            axes.set_title(f"{plots.percent(loss)} loss on both paths")
            axes.set_xlim(LOW, HIGH)
            axes.set_xlabel("MOS")
            axes.tick_params(axis="y", length=0)
        named_lines(panels[0], list(SETTING_NAMES.values()))
        return figure


def potentially_failed(means: pl.DataFrame) -> Figure:
    """MOS against PMR with and without RFC 7829, one panel for each RTO.Max.

    10 % loss, 25/25 ms, delay-centric off.
    """
    rtos = means["rto_max_s"].unique().sort(descending=True).to_list()
    colours = {"off": plots.QUIET, "on": plots.COLOURS[2]}
    with plots.style():
        figure = plots.blank(9, 3.5)
        for axes, rto in zip(
            figure.subplots(1, len(rtos), sharey=True, squeeze=False)[0], rtos, strict=True
        ):
            for offset, (state, colour) in enumerate(colours.items()):
                rows = means.filter(rto_max_s=rto, potentially_failed=state).sort("pmr")
                x = [PMR.index(pmr) + 0.12 * (2 * offset - 1) for pmr in rows["pmr"]]
                style: dict[str, Any] = {"markersize": 5, "capsize": 3, "linewidth": 1}
                ranges(axes, x, intervals(rows), colour, marker="o", **style)
            axes.set_xticks(range(len(PMR)), [str(pmr) for pmr in PMR])
            axes.set_xlabel("PMR")
            axes.set_title(f"RTO.Max {rto:g} s")
        figure.axes[0].set_ylabel("MOS")
        labels = {"off": "plain failover", "on": "potentially failed after one timeout (RFC 7829)"}
        plots.legend(
            figure,
            [stroke(labels[state], colours[state], marker="o") for state in colours],
        )
        return figure


def advice(effects: Iterable[tuple[str, dict[str, Interval]]]) -> Figure:
    """What each recommendation brings under each clock, on Table 2's configurations."""
    rows = list(effects)
    with plots.style(), mpl.rc_context({"axes.grid.axis": "x"}):
        figure = plots.blank(8.5, 0.9 + 0.5 * len(rows))
        axes = figure.add_subplot()
        for index, (_, by_clock) in enumerate(rows):
            for shift, clock in zip((-0.13, 0.13), CLOCKS, strict=True):
                level(axes, by_clock[clock], index + shift, CLOCK_COLOURS[clock])
        axes.axvline(0, color="black", linewidth=0.8)
        named_lines(axes, [text for text, _ in rows])
        axes.set_xlabel("change of MOS on Table 2's configurations")
        plots.legend(
            figure,
            [dot(CLOCK_LABELS[clock], CLOCK_COLOURS[clock]) for clock in CLOCKS],
        )
        return figure


def sensitivity(rows: pl.DataFrame) -> Figure:
    """Mean absolute error against Table 2 when one factor changes.

    The independent prototype's where it tried that.
    """
    with plots.style(), mpl.rc_context({"axes.grid.axis": "x"}):
        figure = plots.blank(8.5, 0.8 + 0.31 * rows.height)
        axes = figure.add_subplot()
        base = float(rows["mean_absolute_error"][0])
        axes.axvline(base, color=plots.QUIET, linewidth=1, linestyle=DASHED)
        for index, row in enumerate(rows.iter_rows(named=True)):
            axes.plot(
                [base, row["mean_absolute_error"]],
                [index, index],
                color=plots.COLOURS[0],
                linewidth=2.5,
                alpha=0.5,
            )
            axes.plot(row["mean_absolute_error"], index, "o", color=plots.COLOURS[0], markersize=6)
            if row["prototype"] is not None:
                axes.plot(
                    row["prototype"],
                    index,
                    "D",
                    color="none",
                    markeredgecolor="black",
                    markersize=5,
                )
        named_lines(axes, [f"{row['group']}: {row['name']}" for row in rows.iter_rows(named=True)])
        axes.set_xlim(left=0)
        axes.set_xlabel("mean absolute error over Table 2's 88 cells (MOS)")
        handles = [
            dot("ours", plots.COLOURS[0]),
            dot("independent prototype", "none", "D", markeredgecolor="black"),
        ]
        plots.legend(figure, handles)
        return figure


def _plain_udp(outcome: VoipSctpOutcome, loss: float, clock: str) -> float | None:
    """Only known for the clock that the named settings ran with."""
    rows = outcome.settings.filter(setting="udp", loss_share=loss)
    return float(rows["mean"].item()) if clock == "on_arrival" and rows.height else None


def _band(axes: Axes, rows: pl.DataFrame, colour: str) -> None:
    half_width = rows["half_width"].fill_nan(0)
    axes.fill_between(
        rows["rto_max_s"],
        rows["mean"] - half_width,
        rows["mean"] + half_width,
        color=colour,
        alpha=0.22,
        linewidth=0,
    )
    axes.plot(rows["rto_max_s"], rows["mean"], color=colour, linewidth=1.5)


def _rto_axis(
    axes: Axes, ticks: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
) -> None:
    plots.logarithmic(axes.xaxis)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
