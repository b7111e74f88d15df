"""What the page shows beside what every paper's has."""

from anabranch.papers import facets
from anabranch.papers.page import Context
from anabranch.papers.tables import listed, of_published

from . import story, tables
from .factors import CLOCK_NAMES, CLOCKS, SHEET
from .figures import MOS_FIGURES
from .outcome import VoipSctpOutcome, potentially_failed_effect


def context(outcome: VoipSctpOutcome) -> Context:
    """What the template needs of its own."""
    return {
        "summaries": {clock: story.table_summary(outcome.tables[clock]) for clock in CLOCKS},
        "clocks": CLOCKS,
        "clock_names": CLOCK_NAMES,
        "tables": {clock: tables.shown_table2(outcome.tables[clock]) for clock in CLOCKS},
        "settings": listed(SHEET, "settings", outcome.studies),
        "potentially_failed_effect": potentially_failed_effect(outcome.potentially_failed),
        "sensitivity": tables.sensitivity(outcome, "shown_sensitivity"),
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
