"""What the page shows beside what every paper's has."""

from typing import Any

from . import story, tables
from .figures import SETTING_NAMES
from .outcome import VoipSctpOutcome
from .published import CLOCK_NAMES, CLOCKS, DELAY_CENTRIC, PMR, RTO_MAX_S


def context(outcome: VoipSctpOutcome) -> dict[str, Any]:
    """What the template needs of its own."""
    return {
        "summaries": {clock: story.table_summary(outcome.tables[clock]) for clock in CLOCKS},
        "clocks": CLOCKS,
        "clock_names": CLOCK_NAMES,
        "rtos": RTO_MAX_S,
        "states": DELAY_CENTRIC,
        "pmrs": PMR,
        "setting_names": SETTING_NAMES,
        "settings": _settings(outcome),
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


def _settings(outcome: VoipSctpOutcome) -> dict[str, dict[float, Any]]:
    """Setting -> loss -> row, in the order of the scenario."""
    rows: dict[str, dict[float, Any]] = {name: {} for name in SETTING_NAMES}
    for row in outcome.settings.iter_rows(named=True):
        rows[row["setting"]][row["loss_share"]] = row
    return rows
