"""Holes in numbers that packets fill: what was only overtaken, and what was sent again.

A packet that is missing opens a hole when the next one passes. What fills the hole was either
overtaken on its way (reordering, RFC 4737) or sent again. A sender learns of the hole from its
peer, so nothing that it sends again because of it passes the same place sooner than a round trip
after the hole was opened. The rule holds wherever on the path the packets were captured.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import clocks

IN_ORDER, OVERTAKEN, SENT_AGAIN, REPEATED = range(4)
"""What a packet is by its number: above all before it; late in a hole; sent once more to fill a
hole; without anything that had not passed."""

UNKNOWN_ROUND_TRIP_S = 3e-3
"""Taken for the round trip where none is known; as tshark does (tcp.analysis.out_of_order)."""

CLEARLY = 2.0
"""Of the ways from a place to both ends, one is the longer from this ratio of their times on."""

MOST_HOLES = 4096
"""Open ones that are kept; the oldest is given up for another, and what fills it was sent again."""

Integers = NDArray[np.int64]
Vector = NDArray[np.float64]


def unwrapped(numbers: NDArray[np.integer], bits: int) -> Integers:
    """Numbers of this many bits that start over, as numbers that do not.

    A step forward is less than half of all numbers (RFC 1982).
    """
    whole = numbers.astype(np.int64)
    if not len(whole):
        return whole
    modulus = 1 << bits
    steps = (np.diff(whole) + modulus // 2) % modulus - modulus // 2
    return np.concatenate([whole[:1], whole[0] + np.cumsum(steps)])


def apart(numbers: NDArray[np.integer], from_: NDArray[np.integer]) -> Integers:
    """How far numbers of 32 bits are behind others; negative where they are before (RFC 1982)."""
    return (numbers.astype(np.int64) - from_ + (1 << 31)) % (1 << 32) - (1 << 31)


def least_round_trip(samples_s: Sequence[float] | Vector) -> float:
    """The round trip to give to `kinds`: the least of those that were measured."""
    known = [float(sample) for sample in samples_s if sample > 0]
    return min(known, default=UNKNOWN_ROUND_TRIP_S)


class Unseen(NamedTuple):
    """Numbers of what had come to its receiver without being seen here: runs in their order.

    A capture that begins in the middle shows how holes fill that were there before it.
    """

    starts: Integers
    ends: Integers

    @classmethod
    def of(
        cls, ends: Integers, seen_s: Vector, told: Integers, above: Integers, told_s: Vector
    ) -> "Unseen":
        """What acknowledgements report above all that had passed.

        Parameters
        ----------
        ends, seen_s
            The number behind each packet of one direction, and when it was seen.
        told, above, told_s
            Of each report: what was acknowledged, the number behind what it reports above that,
            and when it was seen.
        """
        highest = np.maximum.accumulate(ends)
        at = np.searchsorted(seen_s, told_s, side="right") - 1
        passed = np.where(at >= 0, highest[np.maximum(at, 0)], told)
        low = np.maximum(passed, told)
        rows = np.flatnonzero(above > low)
        rows = rows[np.argsort(low[rows], kind="stable")]
        low, high = low[rows], np.maximum.accumulate(above[rows])
        # Runs that touch are one.
        first = np.concatenate([[True], low[1:] > high[:-1]])[: len(low)]
        last = np.concatenate([first[1:], [True]])[: len(low)]
        return cls(low[first], high[last])

    def within(self, starts: Integers, ends: Integers) -> Integers:
        """How many of the numbers of each of these runs they are."""
        if not len(self.starts):
            return np.zeros(len(starts), dtype=np.int64)
        sizes = np.concatenate([[0], np.cumsum(self.ends - self.starts)])

        def below(number: Integers) -> Integers:
            at = np.searchsorted(self.starts, number, side="right") - 1
            part = np.minimum(number, self.ends[np.maximum(at, 0)]) - self.starts[np.maximum(at, 0)]
            return np.where(at >= 0, sizes[np.maximum(at, 0)] + part, 0)

        return np.asarray(below(np.maximum(ends, starts)) - below(starts))


def kinds(
    starts: Integers,
    ends: Integers,
    seen_s: Vector,
    round_trip_s: float,
    stamps: Integers | None = None,
    *,
    unseen: Unseen | None = None,
) -> NDArray[np.uint8]:
    """Says what each packet of one direction is by its number, at one place.

    Parameters
    ----------
    starts, ends
        The number of each packet's first byte (chunk, packet), and the one behind its last, as
        `unwrapped` gives them; packets without data are left out before.
    seen_s
        When each passed, in the order of the file.
    round_trip_s
        The least round trip between both ends, in s: see `least_round_trip`.
    stamps
        The sender's time stamps (TSval, RFC 7323), `unwrapped`; -1 where a packet has none. An
        older one than that of the packet which opened the hole says that it was overtaken, however
        late it comes; a newer one, that it was sent again.
    unseen
        In these numbers nothing is known to be missing: what comes late there repeats.

    Returns
    -------
    For each packet `IN_ORDER`, `OVERTAKEN`, `SENT_AGAIN` or `REPEATED`.
    """
    found = np.full(len(starts), IN_ORDER, dtype=np.uint8)
    if not len(starts):
        return found
    before = np.concatenate([starts[:1], np.maximum.accumulate(ends)[:-1]])
    opens = starts > before
    below = starts < before
    if not below.any():
        return found
    # A clock in ticks may show this up to a tick too short, and the round trip a tick too long.
    tick_s = clocks.tick_s(seen_s)
    soon_s = max(round_trip_s - 2 * tick_s, tick_s / 2)
    holes: list[_Hole] = []
    given_up = int(starts.min())
    for index in np.flatnonzero(opens | below).tolist():
        if opens[index]:
            holes.append((int(before[index]), int(starts[index]), index))
            if len(holes) > MOST_HOLES:
                given_up = holes.pop(0)[1]
            continue
        start, end = int(starts[index]), int(min(ends[index], before[index]))
        opened = _fill(holes, start, end)
        if opened is None:
            # What begins below and ends above is a larger packet sent again; where it begins one
            # byte below, that byte had asked a closed window (RFC 9293 section 3.8.6.1).
            is_probed = ends[index] > before[index] == starts[index] + 1
            is_new = ends[index] > before[index] or start < given_up
            found[index] = IN_ORDER if is_probed else SENT_AGAIN if is_new else REPEATED
            continue
        late_s = float(seen_s[index] - seen_s[opened])
        is_overtaken = late_s < soon_s
        if stamps is not None and min(stamps[index], stamps[opened]) >= 0:
            older = int(stamps[opened] - stamps[index])
            is_overtaken = older > 0 or (older == 0 and is_overtaken)
        found[index] = OVERTAKEN if is_overtaken else SENT_AGAIN
    if unseen is not None:
        found[(found == SENT_AGAIN) & (unseen.within(starts, ends) > 0)] = REPEATED
    return found


_Hole = tuple[int, int, int]
"""The first number that is missing, the one behind the last, and the packet that opened it."""


def _fill(holes: list[_Hole], start: int, end: int) -> int | None:
    """Fills what is missing of these numbers; gives the packet that opened the first such hole."""
    low, high = 0, len(holes)
    while low < high:
        middle = (low + high) // 2
        if holes[middle][1] <= start:
            low = middle + 1
        else:
            high = middle
    last, left = low, []
    while last < len(holes) and holes[last][0] < end:
        first, behind, opened = holes[last]
        if first < start:
            left.append((first, start, opened))
        if end < behind:
            left.append((end, behind, opened))
        last += 1
    if last == low:
        return None
    opened = holes[low][2]
    holes[low:last] = left
    return opened
