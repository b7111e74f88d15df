"""The page, which leads with the finding."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from anabranch.papers import page

from . import story
from .figures import SETTING_NAMES
from .outcome import Outcome
from .published import CLOCK_NAMES, CLOCKS, DELAY_CENTRIC, PMR, RTO_MAX_S


def render(outcome: Outcome, drawn: Mapping[str, Figure]) -> str:
    """The page as text."""
    by_id: dict[str, dict[str, Any]] = {}
    for finding in outcome.claims:
        by_id.setdefault(finding.id, {})[finding.profile] = finding
    context: dict[str, Any] = {
        "outcome": outcome,
        "headline": story.headline(outcome),
        "sentences": story.sentences(outcome),
        "summaries": {clock: story.table_summary(outcome.tables[clock]) for clock in CLOCKS},
        "claims": by_id,
        "clocks": CLOCKS,
        "clock_names": CLOCK_NAMES,
        "rtos": RTO_MAX_S,
        "states": DELAY_CENTRIC,
        "pmrs": PMR,
        "setting_names": SETTING_NAMES,
        "settings": _settings(outcome),
    }
    return page.render(__package__, drawn, context)


def _settings(outcome: Outcome) -> dict[str, dict[float, Any]]:
    """Setting -> loss -> row, in the order of the scenario."""
    rows: dict[str, dict[float, Any]] = {name: {} for name in SETTING_NAMES}
    for row in outcome.settings.iter_rows(named=True):
        rows[row["setting"]][row["loss_share"]] = row
    return rows
