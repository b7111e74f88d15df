"""What the page shows beside what every paper's has."""

from anabranch.papers import facets
from anabranch.papers.page import Context

from .claims import PROFILE
from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SHEET
from .outcome import SctpHandoverOutcome
from .tables import ablations, published, tournament


def context(outcome: SctpHandoverOutcome) -> Context:
    """What the template needs of its own."""
    return {
        "profiles": {PROFILE: PROFILE},
        "experiments": EXPERIMENT_NAMES,
        "published": {number: published(outcome, number) for number in EXPERIMENTS},
        "ablations": {number: ablations(outcome, number) for number in EXPERIMENTS},
        "counts": facets.counts(SHEET, outcome.studies),
        "tournament": [(arena.title, tournament(outcome, arena)) for arena in outcome.arenas],
    }
