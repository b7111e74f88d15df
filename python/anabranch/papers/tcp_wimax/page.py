"""The page, which leads with the finding."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from anabranch.papers import page

from . import story
from .factors import CONTROL_NAMES, PROFILE_NAMES, PROFILES, READINGS, size
from .figures import READING_NAMES
from .outcome import Outcome, aggression


def render(outcome: Outcome, drawn: Mapping[str, Figure]) -> str:
    """The page as text."""
    by_id: dict[str, dict[str, Any]] = {}
    for finding in outcome.claims:
        by_id.setdefault(finding.id, {})[finding.profile] = finding
    there = set(outcome.pairs["profile"])
    context: dict[str, Any] = {
        "outcome": outcome,
        "headline": story.headline(outcome),
        "sentences": story.sentences(outcome),
        "speed": story.speed(outcome),
        "claims": by_id,
        "readings": READINGS,
        "reading_names": READING_NAMES,
        "profiles": PROFILES,
        "profile_names": PROFILE_NAMES,
        "control_names": CONTROL_NAMES,
        "size": size,
        "aggression": {
            profile: aggression(outcome.pairs, profile) for profile in PROFILES if profile in there
        },
    }
    return page.render(__package__, drawn, context)
