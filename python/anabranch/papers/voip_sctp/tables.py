"""The tables of the terminal, the page and the record."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from anabranch.figures.table import Cell, Table, known
from anabranch.papers.tables import of_published, recorded
from anabranch.papers.verdicts import PublishedNumber

from . import story
from .figures import SETTING_NAMES
from .outcome import Table2, VoipSctpOutcome
from .published import CLOCK_NAMES, CLOCKS, COLUMNS, DELAY_CENTRIC, PMR, RTO_MAX_S

HEADS = [f"d-c {state}, PMR {pmr}" for state, pmr in COLUMNS]
WIDE = 128
"""Characters that Table 2 needs on one line a row; below, its cells have two lines."""


def of(outcome: VoipSctpOutcome, width: int) -> list[RenderableType]:
    """Table 2 under both clocks, figures' numbers."""
    shown: list[RenderableType] = [
        Group(compared(table, compact=width < WIDE).rich(), Text(story.table_summary(table)))
        for table in outcome.tables.values()
    ]
    return [*shown, figures(outcome.figure_cells).rich()]


def table2(
    table: Table2,
    title: str,
    cell: Callable[[PublishedNumber], Cell | str],
    *,
    heads: Sequence[str] = HEADS,
    unit: str = " s",
    **further: Any,
) -> Table:
    """Table 2 beside ours: 11 rows by 8 columns."""
    rows = [
        [f"{rto:g}{unit}", *(cell(table.find(rto, state, pmr)) for state, pmr in COLUMNS)]
        for rto in RTO_MAX_S
    ]
    return Table(title, ["RTO.Max", *heads], rows, **further)


def compared(table: Table2, *, compact: bool) -> Table:
    """For a terminal: ours with the difference, and the paper's.

    Compact, it fits on 80 characters: the paper's stands below.
    """

    def cell(number: PublishedNumber) -> Cell:
        # Two digits, as the half-widths allow; "-.04", without its zero, makes eight columns fit.
        deviation = f"{number.deviation:+.1f}"
        if abs(number.deviation) < 1:
            deviation = f"{number.deviation:+.2f}".replace("0.", ".", 1)
        ours = f"{number.measured:.2f}{'' if compact else ' '}{deviation}"
        paper = f"{number.published:.2f}"
        return Cell(ours, number.verdict, f"\n{paper}" if compact else f" {paper}")

    clock = CLOCK_NAMES[table.clock]
    title = f"Table 2, MOS at 10 % loss, losses drawn {clock}: ours, difference, paper"
    return table2(table, title, cell, unit="", is_dense=True)


def shown_table2(table: Table2) -> Table:
    """For the page: ours, and smaller the paper's with the difference, and our half-width."""
    return table2(
        table,
        f"Table 2, losses drawn {CLOCK_NAMES[table.clock]}",
        lambda number: Cell(
            f"{number.measured:.2f}",
            number.verdict,
            f"{number.published:.3f} ({number.deviation:+.2f})\n± {known(number.half_width, 2)}",
        ),
        heads=[f"PMR {pmr}" for _, pmr in COLUMNS],
        bands=[(f"delay-centric {state}", len(PMR)) for state in DELAY_CENTRIC],
    )


def recorded_table2(table: Table2) -> Table:
    """For the record."""
    return table2(
        table,
        f"Table 2, losses drawn {CLOCK_NAMES[table.clock]}",
        lambda number: f"{number.ours().text} ({number.published:.2f})",
        lead=f"{story.table_summary(table)}\nEach cell: ours ± 95 % half-width (paper).",
    )


def figures(cells: list[PublishedNumber]) -> Table:
    """The numbers that the text gives for figures 3 to 6."""
    return of_published(
        "Figures 3 to 6 (±: 95 %, of one run where the paper gives one run)",
        ["figure", "losses", "loss", "RTO.Max", "quantity"],
        cells,
        lambda cell: [
            cell.table.removeprefix("figure "),
            str(cell.key["loss_clock"]).replace("_", " "),
            f"{100 * float(cell.key['loss']):g} %",
            f"{cell.key['rto_max_s']:g} s",
            str(cell.key["quantity"]).replace("_", " ").replace("mos", "MOS"),
        ],
        lambda cell: f"{cell.published:g}",
    )


def recorded_figures(cells: list[PublishedNumber]) -> Table:
    """The numbers for figures 3 to 6 in the record, which has verdicts in a column."""
    return of_published(
        "Numbers that the text gives for figures 3 to 6",
        ["figure", "losses", "RTO.Max", "quantity"],
        cells,
        lambda cell: [
            cell.table.removeprefix("figure "),
            str(cell.key["loss_clock"]).replace("_", " "),
            f"{cell.key['rto_max_s']:g} s",
            str(cell.key["quantity"]).replace("_", " "),
        ],
        lambda cell: f"{cell.published:g}",
        in_words=True,
    )


def settings(outcome: VoipSctpOutcome) -> Table:
    """The named settings, each with its MOS at each loss."""
    losses = outcome.settings["loss_share"].unique().sort().to_list()
    rows = []
    for name, title in SETTING_NAMES.items():
        means = outcome.settings.filter(setting=name).sort("loss_share")
        texts = [
            f"{mean:.2f} ± {known(half_width, 2)}"
            for mean, half_width in means.select("mean", "half_width").iter_rows()
        ]
        rows.append([title, *texts])
    return Table(
        "Named settings", ["setting", *(f"{100 * loss:g} % loss" for loss in losses)], rows
    )


def shown_sensitivity(outcome: VoipSctpOutcome) -> Table:
    """What each choice is worth, on the page."""
    heads = ["factor", "changed to", "mean absolute error", "mean deviation", "prototype"]
    rows = []
    for row in outcome.sensitivity.iter_rows(named=True):
        prototype = "" if row["prototype"] is None else f"{row['prototype']:.2f}"
        error, bias = f"{row['mean_absolute_error']:.3f}", f"{row['bias']:+.3f}"
        rows.append([row["group"], row["name"], error, bias, prototype])
    return Table("One factor changed at a time", heads, rows, keys=2)


def sensitivity(outcome: VoipSctpOutcome) -> Table:
    """What each choice is worth."""
    rows = []
    for row in outcome.sensitivity.iter_rows(named=True):
        prototype = "" if row["prototype"] is None else f"{row['prototype']:.2f}"
        error, bias = f"{row['mean_absolute_error']:.2f}", f"{row['bias']:+.2f}"
        rows.append([row["group"], row["name"], error, bias, prototype])
    return Table(
        "Sensitivity: what each choice of the interpretation is worth",
        ["group", "change", "error", "bias", "prototype"],
        rows,
        keys=2,
        lead="Mean absolute error against Table 2, and mean deviation, when one thing changes"
        " (losses on arrival unless it is the clock that changes). `prototype`: an independent"
        " prototype.",
    )


def sections(outcome: VoipSctpOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        *(recorded_table2(outcome.tables[clock]).markdown() for clock in CLOCKS),
        recorded_figures(outcome.figure_cells).markdown(),
        recorded(outcome.claims, {clock: clock.replace("_", " ") for clock in CLOCKS}),
        sensitivity(outcome).markdown(),
    ]
