"""Packets that come at regular intervals."""

import numpy as np

from .intervals import Vector
from .numbers import Integers

FEWEST_PACKETS = 10
"""A flow with fewer packets is not used."""


def spacing(times_s: Vector) -> float | None:
    """The time between packets, if it is regular; otherwise None."""
    return between(np.arange(len(times_s)), times_s)


def between(numbers: Integers, times_s: Vector) -> float | None:
    """The time from one number to the next, if it is regular; some numbers may be missing."""
    order = np.argsort(numbers, kind="stable")
    further = np.diff(numbers[order])
    steps = np.diff(times_s[order])[further > 0] / further[further > 0]
    if len(steps) < 2 or np.median(steps) <= 0:
        return None
    regular = np.abs(steps / np.median(steps) - 1) < 0.2
    return float(np.median(steps)) if regular.mean() > 0.8 else None
