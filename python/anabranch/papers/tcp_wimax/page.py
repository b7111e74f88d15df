"""What the page shows beside what every paper's has."""

from typing import Any

from . import story
from .factors import (
    CONTROL_NAMES,
    PROFILE_NAMES,
    PROFILES,
    READING_NAMES,
    READINGS,
    SEGMENTS,
    size,
)
from .outcome import Outcome, aggression


def context(outcome: Outcome) -> dict[str, Any]:
    """What the template needs of its own."""
    there = set(outcome.pairs["profile"])
    return {
        "speed": story.speed(outcome),
        "readings": READINGS,
        "reading_names": READING_NAMES,
        "profiles": PROFILES,
        "profile_names": PROFILE_NAMES,
        "control_names": CONTROL_NAMES,
        "segments_tried": len(SEGMENTS),
        "size": size,
        "aggression": {
            profile: aggression(outcome.pairs, profile) for profile in PROFILES if profile in there
        },
    }
