"""The paper's figures 3 to 6 as it draws them, Table 2 as a picture, and what lies beyond.

`sheet.toml` says most of them.
"""

from collections.abc import Callable, Iterable
from functools import partial

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure

from anabranch.figures import plots, run_plots
from anabranch.papers import choice
from anabranch.papers.facets import Facets, Panel
from anabranch.papers.intervals import Interval
from anabranch.papers.plots import DASHED, Style, colour_bar, dot, level, named_lines, stroke

from . import published
from .factors import CLOCKS, LOSSES, PMR, RTO_MAX_S, SHEET, Runs
from .outcome import VoipSctpOutcome
from .traced import TracedCall

CLOCK_COLOURS = SHEET.colours("clock")
CLOCK_LABELS = {
    name: text.removeprefix("ours, ") for name, text in SHEET.axes["clock"].names.items()
}


def of(outcome: VoipSctpOutcome) -> dict[str, Callable[[], Figure]]:
    """The figures of an outcome by file name, drawn when called."""
    figures: dict[str, Callable[[], Figure]] = {
        "table2": partial(table2, outcome.studies["table2"]),
        "advice": partial(advice, [(item.text, item.effects) for item in outcome.advice]),
    }
    for number, call in outcome.single_runs.items():
        figures[f"figure{number}"] = partial(single_run, number, call)
    for (number, clock), (name, loss) in MOS_FIGURES.items():
        runs = outcome.runs[clock].both_losses(loss).at_25_ms()
        plain_udp = _plain_udp(outcome, loss, clock)
        figures[name] = partial(mos_against_rto_max, runs, number, plain_udp)
    if not outcome.is_smoke:
        figures["heatmaps"] = partial(heat_maps, outcome.runs["on_arrival"])
    for name in ("settings", "potentially-failed"):
        figures[name] = Facets(SHEET, SHEET.figures[name], outcome.studies[name]).draw
    if not outcome.sensitivity.is_empty():
        figures["sensitivity"] = partial(sensitivity, outcome.sensitivity)
    return figures


MOS_FIGURES = {
    (number, clock): (f"figure{number}" + ("" if clock == "on_arrival" else "-slot"), loss)
    for number, loss in ((5, 0.1), (6, 0.02))
    for clock in CLOCKS
}
"""Figures 5 and 6 under each clock: their files and losses."""


def table2(runs: Runs) -> Figure:
    """Table 2's eight columns against RTO.Max: the paper's points, ours under both clocks."""
    paper = published.table2()

    def points(panel: Panel) -> None:
        own = paper.filter(**panel.cells).sort("rto_max_s")
        style: Style = {"color": "black", "markersize": 3.6, "zorder": 4}
        panel.axes.plot(own["rto_max_s"], own["mos"], "o", **style)

    handles = [dot("the paper's Table 2", "black", markersize=4)]
    return Facets(SHEET, SHEET.figures["table2"], runs, decorate=points, handles=handles).draw()


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


def mos_against_rto_max(runs: Runs, number: int, plain_udp: float | None = None) -> Figure:
    """Figure 5 or 6: MOS against RTO.Max, at 25/25 ms, with plain UDP's as the baseline."""
    points = published.figures().filter(figure=number)
    style: Style = {"linewidth": 1, "linestyle": DASHED}

    def others(panel: Panel) -> None:
        if not points.is_empty():
            x, y = points["rto_max_s"], points["value"]
            panel.axes.plot(x, y, "*", color="black", markersize=9, zorder=5)
        if plain_udp is not None:
            panel.axes.axhline(plain_udp, color=plots.QUIET, **style)

    handles = []
    if plain_udp is not None:
        handles.append(stroke("plain UDP", plots.QUIET, **style))
    if not points.is_empty():
        label = "about, over all curves (the paper's text)"
        handles.append(dot(label, "black", "*", markersize=9))
    figure = Facets(SHEET, SHEET.figures["mos"], runs, decorate=others, handles=handles).draw()
    with plots.style():
        # The panels share the axis: only when all has been drawn are the heights known.
        for axes, state in zip(figure.axes, SHEET.places("delay_centric"), strict=True):
            last = runs.where(delay_centric=state.value, rto_max_s=max(RTO_MAX_S))
            ends = [
                (last.where(pmr=place.value).mean().mean, place.title, place.colour)
                for place in SHEET.places("pmr_line")
            ]
            plots.label_ends(figure, axes, ends)
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
    udp = outcome.settings.where(setting="udp", loss_share=loss)
    return udp.mean().mean if clock == "on_arrival" and not udp.frame.is_empty() else None
