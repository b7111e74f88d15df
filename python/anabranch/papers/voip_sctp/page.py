"""What the page shows beside what every paper's has."""

from typing import Any

from . import story, tables
from .outcome import VoipSctpOutcome
from .published import CLOCK_NAMES, CLOCKS


def context(outcome: VoipSctpOutcome) -> dict[str, Any]:
    """What the template needs of its own."""
    return {
        "summaries": {clock: story.table_summary(outcome.tables[clock]) for clock in CLOCKS},
        "clocks": CLOCKS,
        "clock_names": CLOCK_NAMES,
        "tables": {clock: tables.shown_table2(outcome.tables[clock]) for clock in CLOCKS},
        "settings": tables.settings(outcome),
        "sensitivity": tables.shown_sensitivity(outcome),
        "counts": _counts(outcome),
        "numbers": tables.figures(outcome.figure_cells),
    }


def _counts(outcome: VoipSctpOutcome) -> dict[str, str]:
    """Figure -> how many calls its numbers come from."""
    counts = {}
    for number, loss in ((5, 0.1), (6, 0.02)):
        for clock in CLOCKS:
            name = f"figure{number}" + ("" if clock == "on_arrival" else "-slot")
            calls = outcome.runs[clock].both_losses(loss).at_25_ms().repeated
            counts[name] = f"Each point: {calls} calls"
    first = outcome.runs[CLOCKS[0]]
    table = " and ".join(
        f"{outcome.tables[clock].replications} ({CLOCK_NAMES[clock]})" for clock in CLOCKS
    )
    return counts | {
        "table2": f"Calls of each configuration: {table}",
        "advice": f"Calls of each configuration: {table}",
        "heatmaps": f"Calls of each configuration: {first.repeated}",
        "settings": f"Each point: {_range(outcome.settings['n'].to_list())} calls",
        "potentially-failed": f"Each point: {_range(outcome.potentially_failed['n'].to_list())}"
        " calls",
    }


def _range(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{most}" if least == most else f"{least} to {most}"
