"""The sections of the golden record."""

from anabranch.papers.tables import recorded

from . import tables
from .outcome import MptcpAqmOutcome
from .story import TITLES
from .studies import profiles


def sections(outcome: MptcpAqmOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        tables.published(outcome, profiles()).markdown(),
        tables.verdicts(outcome).markdown(),
        tables.attribution(outcome).markdown(),
        recorded(outcome.claims, TITLES),
        tables.fit(outcome).markdown(),
        *(tables.grid(outcome, name).markdown() for name in outcome.grids),
        tables.ablations(outcome.ablations).markdown(),
        tables.theta(outcome.theta).markdown(),
        tables.beyond(outcome.beyond).markdown(),
        tables.mobility(outcome.mobility).markdown(),
    ]
