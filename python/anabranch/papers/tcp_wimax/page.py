"""What the page shows beside what every paper's has."""

from anabranch.papers import facets
from anabranch.papers.intervals import Interval
from anabranch.papers.page import Context
from anabranch.papers.tables import of_published

from . import story, tables
from .factors import (
    CONTROL_NAMES,
    PROFILE_NAMES,
    PROFILES,
    READING_NAMES,
    READINGS,
    SHEET,
)
from .outcome import TcpWimaxOutcome, aggression


def context(outcome: TcpWimaxOutcome) -> Context:
    """What the template needs of its own."""
    there = set(outcome.shares["profile"])
    return {
        "counts": _counts(outcome),
        "numbers": of_published(SHEET, "text", outcome.cells),
        "links": tables.links(outcome, "shown_links"),
        "recommendations": tables.recommendations(outcome),
        "sensitivity": tables.sensitivity(outcome, "shown_sensitivity"),
        "speed": story.speed(outcome),
        "readings": READINGS,
        "reading_names": READING_NAMES,
        "profiles": PROFILES,
        "profile_names": PROFILE_NAMES,
        "control_names": CONTROL_NAMES,
        "aggression": {
            profile: [
                (row["first"], Interval(row["mean"], row["half_width"], row["n"]))
                for row in aggression(outcome.shares, profile).iter_rows(named=True)
            ]
            for profile in PROFILES
            if profile in there
        },
    }


def _counts(outcome: TcpWimaxOutcome) -> dict[str, str]:
    """Figure -> how many runs its numbers come from."""
    counts = facets.counts(SHEET, outcome.studies)
    for reading, runs in outcome.grid.items():
        for profile in PROFILES:
            own = runs.where(profile=profile)
            counts[f"heatmap-{profile}-{reading}"] = f"Means of {own.repeated} runs"
    counts["sensitivity"] = f"Means of {outcome.variants[0].runs} runs"
    if pairs := sorted(set(outcome.pairs["n"])):
        counts["pairs"] = (
            f"Means of {' to '.join(map(str, dict.fromkeys((pairs[0], pairs[-1]))))} runs"
        )
    return counts
