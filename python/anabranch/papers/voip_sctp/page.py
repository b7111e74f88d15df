"""What the page shows beside what every paper's has."""

from typing import Any

from . import story
from .figures import SETTING_NAMES
from .outcome import Outcome
from .published import CLOCK_NAMES, CLOCKS, DELAY_CENTRIC, PMR, RTO_MAX_S


def context(outcome: Outcome) -> dict[str, Any]:
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
    }


def _settings(outcome: Outcome) -> dict[str, dict[float, Any]]:
    """Setting -> loss -> row, in the order of the scenario."""
    rows: dict[str, dict[float, Any]] = {name: {} for name in SETTING_NAMES}
    for row in outcome.settings.iter_rows(named=True):
        rows[row["setting"]][row["loss_share"]] = row
    return rows
