"""The sections of the golden record."""

from anabranch.papers.tables import recorded

from . import tables
from .factors import READING_NAMES
from .outcome import TcpWimaxOutcome


def sections(outcome: TcpWimaxOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    before = (tables.links, tables.throughput, tables.recorded_numbers)
    after = (tables.flows, tables.pairs, tables.stations, tables.sensitivity, tables.coherence)
    return [
        *(table(outcome).markdown() for table in before),
        recorded(outcome.claims, READING_NAMES),
        *(table(outcome).markdown() for table in after),
    ]
