"""The tables of the terminal, the page and the record."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from anabranch.figures.table import Cell, Table, known
from anabranch.papers import facets
from anabranch.papers.page import Context
from anabranch.papers.tables import listed, of_published, of_records, recorded
from anabranch.papers.verdicts import PublishedNumber

from . import story
from .factors import CLOCK_NAMES, CLOCKS, COLUMNS, DELAY_CENTRIC, PMR, RTO_MAX_S, SHEET
from .figures import MOS_FIGURES
from .outcome import Table2, VoipSctpOutcome, potentially_failed_effect

HEADS = [f"d-c {state}, PMR {pmr}" for state, pmr in COLUMNS]
WIDE = 128
"""Characters that Table 2 needs on one line a row; below, its cells have two lines."""


def of(outcome: VoipSctpOutcome, width: int) -> list[Table | RenderableType]:
    """Table 2 under both clocks, figures' numbers."""
    return [
        *(
            Group(compared(table, compact=width < WIDE).rich(), Text(story.table_summary(table)))
            for table in outcome.tables.values()
        ),
        of_published(SHEET, "figures", outcome.figure_cells),
    ]


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


def sensitivity(outcome: VoipSctpOutcome, name: str = "sensitivity") -> Table:
    """What each choice is worth."""
    rows = outcome.sensitivity.iter_rows(named=True)
    tried = (
        row | {"tried": "" if row["prototype"] is None else f"{row['prototype']:.2f}"}
        for row in rows
    )
    return of_records(SHEET, name, tried)


def context(outcome: VoipSctpOutcome) -> Context:
    """What the page's template needs of its own."""
    return {
        "summaries": {clock: story.table_summary(outcome.tables[clock]) for clock in CLOCKS},
        "clocks": CLOCKS,
        "clock_names": CLOCK_NAMES,
        "tables": {clock: shown_table2(outcome.tables[clock]) for clock in CLOCKS},
        "settings": listed(SHEET, "settings", outcome.studies),
        "potentially_failed_effect": potentially_failed_effect(outcome.potentially_failed),
        "sensitivity": sensitivity(outcome, "shown_sensitivity"),
        "counts": _counts(outcome),
        "numbers": of_published(SHEET, "figures", outcome.figure_cells),
    }


def _counts(outcome: VoipSctpOutcome) -> dict[str, str]:
    """Figure -> how many calls its numbers come from."""
    table = " and ".join(
        f"{outcome.tables[clock].replications} ({CLOCK_NAMES[clock]})" for clock in CLOCKS
    )
    first = outcome.runs[CLOCKS[0]]
    return (
        facets.counts(SHEET, outcome.studies)
        | {
            name: SHEET.figures["mos"].runs.format(
                outcome.runs[clock].both_losses(loss).at_25_ms().repeated
            )
            for (_, clock), (name, loss) in MOS_FIGURES.items()
        }
        | {
            "table2": f"Calls of each configuration: {table}",
            "advice": f"Calls of each configuration: {table}",
            "heatmaps": f"Calls of each configuration: {first.repeated}",
        }
    )


def sections(outcome: VoipSctpOutcome) -> list[Table | list[str]]:
    """What the record says after the finding."""
    return [
        *map(recorded_table2, outcome.tables.values()),
        of_published(SHEET, "recorded", outcome.figure_cells),
        recorded(outcome.claims, {clock: clock.replace("_", " ") for clock in CLOCKS}),
        sensitivity(outcome),
    ]
