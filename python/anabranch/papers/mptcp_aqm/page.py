"""What the page shows beside what every paper's has."""

from typing import Any

from anabranch.papers.verdicts import by_claim

from . import story
from .claims import SHORT
from .factors import DELAYS
from .outcome import MptcpAqmOutcome, best_fit, overall
from .published import numbers
from .studies import attributions, events, networks, profiles, receivers
from .tables import (
    ABLATION_VALUES,
    BEYOND_VALUES,
    FULL,
    VALUES,
    ablation_rows,
    beyond_rows,
    digits_of,
    grid_rows,
    mobility_rows,
    number_title,
)


def context(outcome: MptcpAqmOutcome) -> dict[str, Any]:
    """What the template needs of its own."""
    return {
        "profiles": {one.name: one.title for one in profiles()},
        "networks": networks(),
        "receivers": receivers(),
        "attributions": attributions(),
        "numbers": [
            (number_title(index), number.text(), outcome.cells[index :: len(numbers())])
            for index, number in enumerate(numbers())
        ],
        "counts": _counts(outcome),
        "digits_of": digits_of,
        "short": SHORT,
        "overall": {
            number: overall(list(found.values()), story.TITLES)
            for number, found in by_claim(outcome.claims).items()
        },
        "attribution": outcome.attribution,
        "fits": [(story.TITLES[name], *best_fit(runs)) for name, runs in outcome.fits.items()],
        "grid_heads": [title for title, _ in FULL.values()],
        "grids": [(story.TITLES[name], grid_rows(runs)) for name, runs in outcome.grids.items()],
        "ablation_heads": [VALUES[value][0] for value in ABLATION_VALUES],
        "ablations": ablation_rows(outcome.ablations),
        "beyond_heads": [title for title, _ in BEYOND_VALUES.values()],
        "delays": DELAYS,
        "beyond": beyond_rows(outcome.beyond),
        "events": events(),
        "mobility": mobility_rows(outcome.mobility),
        "choices": story.choices(outcome),
        "recommended": [one.name for one in story.recommended(outcome).candidates],
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
