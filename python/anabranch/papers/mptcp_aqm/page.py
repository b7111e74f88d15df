"""What the page shows beside what every paper's has."""

from anabranch.papers import facets
from anabranch.papers.page import Context
from anabranch.papers.tables import listed

from . import story, tables
from .factors import SHEET
from .outcome import MptcpAqmOutcome, best_fit
from .studies import attributions, networks, profiles, receivers


def context(outcome: MptcpAqmOutcome) -> Context:
    """What the template needs of its own."""
    return {
        "profiles": {one.name: one.title for one in profiles()},
        "networks": networks(),
        "receivers": receivers(),
        "attributions": attributions(),
        "numbers": tables.published(outcome, profiles()),
        "counts": facets.counts(SHEET, outcome.studies),
        "in_short": tables.in_short(outcome),
        "fits": [(story.TITLES[name], *best_fit(runs)) for name, runs in outcome.fits.items()],
        "grids": [(story.TITLES[name], tables.grid(outcome, name)) for name in outcome.grids],
        "described": {
            name: listed(SHEET, name, outcome.studies)
            for name in ("ablations", "beyond", "mobility")
        },
        "choices": tables.choices(outcome),
        "recommendation": story.recommendation(outcome),
        "speed": story.speed(outcome),
    }
