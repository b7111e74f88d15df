"""What the page shows beside what every paper's has."""

from typing import Any

from . import story, tables
from .outcome import MptcpAqmOutcome, best_fit
from .studies import attributions, networks, profiles, receivers


def context(outcome: MptcpAqmOutcome) -> dict[str, Any]:
    """What the template needs of its own."""
    return {
        "profiles": {one.name: one.title for one in profiles()},
        "networks": networks(),
        "receivers": receivers(),
        "attributions": attributions(),
        "numbers": tables.published(outcome, profiles()),
        "counts": _counts(outcome),
        "in_short": tables.in_short(outcome),
        "fits": [(story.TITLES[name], *best_fit(runs)) for name, runs in outcome.fits.items()],
        "grids": [(story.TITLES[name], tables.grid(outcome, name)) for name in outcome.grids],
        "ablations": tables.ablations(outcome.ablations),
        "beyond": tables.beyond(outcome.beyond),
        "mobility": tables.mobility(outcome.mobility),
        "choices": tables.choices(outcome),
        "recommendation": story.recommendation(outcome),
        "speed": story.speed(outcome),
    }


def _counts(outcome: MptcpAqmOutcome) -> dict[str, str]:
    """Figure -> how many runs its numbers come from."""
    sources = {
        ("drops", "goodput", "cwnd", "rtt", "queue", "sojourn"): outcome.base,
        ("couplings", "starvation"): outcome.base,
        ("fit",): outcome.fits[profiles()[0].name],
        ("ablations",): outcome.ablations,
        ("theta",): outcome.theta,
        ("beyond",): outcome.beyond,
        ("mobility",): outcome.mobility,
    }
    return {
        name: f"Means of {runs.repeated} runs" for names, runs in sources.items() for name in names
    } | {
        "time": "One run of each queue",
        "delays": "One run of each queue",
        "handover": "One run of each transport",
    }
