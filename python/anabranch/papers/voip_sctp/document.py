"""The sections of the golden record."""

from anabranch.papers.tables import recorded

from .outcome import VoipSctpOutcome
from .published import CLOCKS
from .tables import recorded_figures, recorded_table2, sensitivity


def sections(outcome: VoipSctpOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        *(recorded_table2(outcome.tables[clock]).markdown() for clock in CLOCKS),
        recorded_figures(outcome.figure_cells).markdown(),
        recorded(outcome.claims, {clock: clock.replace("_", " ") for clock in CLOCKS}),
        sensitivity(outcome).markdown(),
    ]
