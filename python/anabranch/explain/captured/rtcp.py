"""What reports of RTCP say about a stream of RTP (RFC 3550 section 6.4): round trips and losses.

A report says which sender report it heard last (LSR) and how long ago (DLSR). Seen at one place,
what is left of the time between both is the round trip from there to the end that reports.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .journeys import Direction
from .packets import Report, reports_of

_UNITS_HZ = 65_536
"""Of DLSR and of the middle of an NTP time stamp."""

_LONGEST_S = 60.0
"""Between a sender report and a report on it."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What reports say of the stream of one source."""

    round_trip_s: float
    """Between both ends, the median; from the place of the capture to the ends that report, added
    up. NaN where nothing tells.
    """
    samples: int
    lost: int
    """Packets that the listener missed between its first report and its last."""
    expected: int
    """Packets that it should have had; 0 where fewer than two reports tell."""


def reported(forward: Sequence[Direction], back: Sequence[Direction], source: int) -> Reported:
    """What the reports of both ends say.

    Parameters
    ----------
    forward, back
        The directions that carry reports of the stream's sender, and those of its listener.
    source
        The SSRC of the stream.
    """
    own, others = _reports(forward), _reports(back)
    trips = [_round_trips(own, others), _round_trips(others, own)]
    known = [float(np.median(samples)) for samples in trips if samples]
    blocks = [one for _, one in others if one.about == source]
    lost = expected = 0
    if len(blocks) > 1:
        first, last = blocks[0], blocks[-1]
        expected = (last.highest - first.highest) & 0xFFFFFFFF
        lost = last.lost - first.lost
        if not 0 <= lost <= expected < 1 << 31:
            lost = expected = 0  # its counts began anew
    return Reported(
        sum(known) if known else float("nan"), sum(len(one) for one in trips), lost, expected
    )


def _reports(ways: Iterable[Direction]) -> list[tuple[float, Report]]:
    """The reports of some directions, each with the time at which it was seen."""
    found = [
        (float(way.sent.sent_s[index]), report)
        for way in ways
        for index, report in reports_of(way.packets, way.sent.row)
    ]
    return sorted(found, key=lambda one: one[0])


def _round_trips(
    asked: Sequence[tuple[float, Report]], answered: Sequence[tuple[float, Report]]
) -> list[float]:
    """Times from sender reports to reports on them, without how long those waited."""
    sent = {one.stamp: at_s for at_s, one in asked if one.stamp is not None}
    found = []
    for at_s, report in answered:
        since_s = sent.get(report.last) if report.last else None
        if since_s is not None and 0 < at_s - since_s < _LONGEST_S:
            trip_s = at_s - since_s - report.waited / _UNITS_HZ
            if trip_s > 0:
                found.append(trip_s)
    return found
