"""Clocks that were set back while a capture ran: one line of time from several.

NTP, a suspended host or a virtual machine that moves set a clock back. The order of the file is
that in which packets were seen, so it goes on where times do not.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import wording

Integers = NDArray[np.int64]

STEP_NS = 100_000_000
"""A step back that is smaller, in ns, is one of several queues that are captured side by side."""

_MOST_SHIFT_NS = 1 << 62
"""The most that a clock is taken to have been set back, in ns: 146 years."""

_FEWEST_TICKS = 20
"""From so many differences of times on, their being whole ticks is no chance."""

_LEAST_TICK_S = 1e-4
"""Shorter ticks, in s, are no part of a round trip that matters."""

_ROUNDED_S = 2e-6
"""By how much a tick differs from another in times that are written in us."""

_LASTS = 8
"""Packets after a step that all have to be before it; single packets are late, not the clock."""


def clocks(time_ns: Integers) -> Integers:
    """For each packet of one interface, how often its clock has been set back before.

    Parameters
    ----------
    time_ns
        Times in the order of the file.
    """
    steps = np.flatnonzero(np.diff(time_ns) < -STEP_NS) + 1
    lasting = [at for at in steps.tolist() if time_ns[at : at + _LASTS].max() < time_ns[at - 1]]
    found = np.zeros(len(time_ns), dtype=np.int64)
    found[lasting] = 1
    return np.cumsum(found)


def tick_s(seen_s: NDArray[np.float64]) -> float:
    """How long the ticks of the clock are by which packets were captured, in s; 0 for a fine one.

    Some cards and simulators have a clock of 1 or 10 ms: all times are whole ticks, and two packets
    are up to a tick further apart than their times are.
    """
    steps = np.diff(np.unique(seen_s))
    steps = steps[steps > _ROUNDED_S]
    if len(steps) < _FEWEST_TICKS or (least := float(steps.min())) < _LEAST_TICK_S:
        return 0.0
    ticks = np.round(steps / least)
    return least if (np.abs(steps - ticks * least) <= _ROUNDED_S * ticks).all() else 0.0


def continued(time_ns: Integers, clock: Integers) -> Integers:
    """Nanoseconds since the first packet, without the steps.

    What comes after a step begins as long after the packets before it as packets usually do. How
    long it was is not known, so that no delay may be taken across a step.
    """
    found = time_ns - time_ns[:1]
    starts = np.flatnonzero(np.diff(clock)) + 1
    if not len(starts):
        return found
    steps = np.diff(found)
    forward = steps[(steps >= 0) & (np.diff(clock) == 0)]
    usual = int(np.median(forward)) if len(forward) else 0
    starts = np.concatenate([[0], starts])
    lasts = np.maximum.reduceat(found, starts)
    shifts = np.zeros(len(starts), dtype=np.int64)
    for i in range(1, len(starts)):
        shift = int(lasts[i - 1]) + int(shifts[i - 1]) + usual - int(found[starts[i]])
        # Times that a damaged file makes up may be further apart than 64 bits can say.
        shifts[i] = max(-_MOST_SHIFT_NS, min(shift, _MOST_SHIFT_NS))
    return np.asarray(found + np.repeat(shifts, np.diff([*starts, len(found)])))


def largest_s(time_ns: Integers, clock: Integers) -> float:
    """How far back the clock was set, at most, in s; 0 where it never was."""
    cuts = np.flatnonzero(np.diff(clock))
    return float((time_ns[cuts] - time_ns[cuts + 1]).max(initial=0)) / 1e9


def said(cuts_s: Sequence[float], largest_s: float) -> list[str]:
    """A sentence about clocks that were set back; none where none was.

    Parameters
    ----------
    cuts_s
        When they were, in s after the first packet.
    largest_s
        By how much, at most, in s.
    """
    if not cuts_s:
        return []
    times = "once" if len(cuts_s) == 1 else f"{len(cuts_s)} times"
    return [
        f"the clock was set back {times}, by up to {wording.number(largest_s, 3)} s, first "
        f"{wording.number(cuts_s[0], 4)} s after the first packet: the order of the file counts, "
        "and no delay is taken across a step"
    ]
