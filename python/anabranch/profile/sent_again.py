"""Which packets of a transfer were lost, by what was sent again or is missing in a capture."""

from typing import NamedTuple

import numpy as np

from anabranch.support.holes import IN_ORDER, OVERTAKEN, SENT_AGAIN, Unseen, kinds

from .intervals import Vector
from .loss import Flags
from .numbers import Data, Integers

_MOST_MISSING = 100_000
"""A larger hole, in packets, is no loss: the numbers start again."""
_MOST_TIMES = 20


class Fates(NamedTuple):
    """Packets in the order in which they were sent, and what became of them."""

    lost: Flags
    seen_s: Vector
    """When each was seen, or should have been."""
    octets: Vector

    def only(self, kept: Flags) -> "Fates":
        """Some of them."""
        return Fates(self.lost[kept], self.seen_s[kept], self.octets[kept])


def at_sender(data: Data, end_s: float, round_trip_s: float) -> Fates:
    """Packets that were sent again later count as lost.

    Packets that may have been sent again after the capture's end are left out: those as near to it
    as the longest time between a packet and its retransmission.

    Parameters
    ----------
    data
        What was sent, without SYN and FIN alone.
    end_s
        When the capture ends.
    round_trip_s
        The longest round trip.
    """
    lost = np.zeros(len(data.row), dtype=bool)
    if not len(data.row):
        return Fates(lost, data.seen_s, data.octets)
    before = np.concatenate([data.start[:1], np.maximum.accumulate(data.end)[:-1]])
    new = np.flatnonzero(data.end > before)
    starts, ends = np.maximum(data.start, before)[new], data.end[new]
    holder = new.copy()
    """For each new part the packet that carried it last."""
    longest = round_trip_s
    for again in np.flatnonzero(data.start < before).tolist():
        start, end = int(data.start[again]), int(min(data.end[again], before[again]))
        low, high = np.searchsorted(ends, start, side="right"), np.searchsorted(starts, end)
        earlier = holder[low:high]
        # Segments may be cut elsewhere when they are sent again: at least half of one counts.
        common = np.minimum(data.end[earlier], end) - np.maximum(data.start[earlier], start)
        half = np.minimum((data.end - data.start)[earlier] / 2, common.max(initial=1))
        earlier = earlier[(common > 0) & (common >= half)]
        if len(earlier):
            lost[earlier] = True
            longest = max(longest, float(data.seen_s[again] - data.seen_s[earlier].min()))
        holder[low:high] = again
    # In a short capture, a long pause may be as long as all of it.
    latest = max(end_s - longest, end_s / 2)
    known = int(np.searchsorted(data.seen_s, latest, side="right"))
    return Fates(lost[:known], data.seen_s[:known], data.octets[:known])


def at_receiver(
    data: Data,
    round_trip_s: float,
    stamps: Integers | None,
    acknowledged: int | None = None,
    unseen: Unseen | None = None,
) -> Fates:
    """Holes in the numbers that fill only after a retransmission, or never.

    Lost packets are placed after the last packet that arrived before them, at the usual spacing: a
    sender pauses after its losses, not before them.

    Parameters
    ----------
    data
        What arrived, without SYN and FIN alone.
    round_trip_s
        The least round trip: what fills a hole sooner was overtaken on its way.
    stamps
        TCP's time stamps of the data, if it has some; they do not start over here.
    acknowledged
        The highest number that was acknowledged. What is missing below it did arrive: only the
        capture lacks it.
    unseen
        Numbers in which holes were there before the capture began.
    """
    if not len(data.row):
        return Fates(np.zeros(0, dtype=bool), np.zeros(0), np.zeros(0))
    length = data.end - data.start
    full = max(float(np.median(length)), 1.0)
    usual = float(np.median(np.diff(data.seen_s))) if len(data.row) > 1 else 0.0
    kind = kinds(data.start, data.end, data.seen_s, round_trip_s, stamps, unseen=unseen)
    before = np.concatenate([data.start[:1], np.maximum.accumulate(data.end)[:-1]])
    missing = np.maximum(data.start - before, 0)
    if unseen is not None:
        missing -= unseen.within(before, np.maximum(data.start, before))
    opens = np.flatnonzero(missing)
    if len(opens):
        # What was overtaken did arrive: its hole is that much smaller.
        np.subtract.at(missing, *_late(data, before, opens, kind == OVERTAKEN))
        if acknowledged is not None:
            again = np.zeros_like(missing)
            np.add.at(again, *_late(data, before, opens, kind == SENT_AGAIN))
            missing = np.where(data.start <= acknowledged, np.minimum(missing, again), missing)
    count = np.ceil(np.maximum(missing, 0) / full).astype(np.int64)
    count[(count > _MOST_MISSING) | (kind != IN_ORDER)] = 0
    # Nor are all of them together, if they are many times what arrived.
    order = np.argsort(count, kind="stable")
    count[order[np.cumsum(count[order]) > _MOST_MISSING + _MOST_TIMES * len(count)]] = 0
    # Each packet has its lost ones before it.
    own = np.cumsum(count + 1) - 1
    lost = np.ones(int(own[-1]) + 1, dtype=bool)
    lost[own] = False
    packet = np.repeat(np.arange(len(count)), count + 1)
    nth = np.arange(len(lost)) - (own - count)[packet] + 1
    previous = data.seen_s[np.maximum(packet - 1, 0)]
    apart = np.minimum(usual, (data.seen_s[packet] - previous) / (count[packet] + 1))
    seen_s = np.where(lost, previous + nth * apart, data.seen_s[packet])
    octets = np.where(lost, float(np.median(data.octets)), data.octets[packet])
    return Fates(lost, seen_s, octets)


def _late(data: Data, before: Integers, opens: Integers, which: Flags) -> tuple[Integers, Integers]:
    """The packet that opened the hole which each of these fills, and how much of it."""
    late = np.flatnonzero(which)
    at = np.searchsorted(before[opens], data.start[late], side="right") - 1
    return opens[np.maximum(at, 0)], (data.end - data.start)[late]
