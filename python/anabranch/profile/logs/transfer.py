"""What logs of TCP transfers have in common: smoothed round trips, and rates of payload."""

from collections.abc import Sequence

import numpy as np

from ..measurement import Delays

TIME_STAMPS = 12
"""Bytes of TCP's time stamps option in each segment, which its MSS leaves out."""

_STANDING = 1.1
"""A queue stands while the round trip is longer than the least one by this factor."""


def packet_octets(mss: float, *, is_ipv6: bool = False) -> float:
    """The length of a full packet of IP: the payload, the time stamps, and both headers."""
    return mss + TIME_STAMPS + (60 if is_ipv6 else 40)


def is_full(round_trips_s: Sequence[float], least_s: float, packet_s: float) -> bool:
    """Whether a queue stood most of the time, so that the path was full and the rate is its own."""
    if len(round_trips_s) < 4:
        return False
    times = np.array(round_trips_s)
    return bool(np.mean(times >= max(least_s * _STANDING, least_s + 2 * packet_s)) >= 0.5)


def smoothed(round_trips_s: Sequence[float], least_s: float | None) -> Delays | None:
    """The delays of a log that has TCP's smoothed round-trip times, and perhaps the least one."""
    values = [*round_trips_s, *([] if least_s is None else [least_s])]
    if not values:
        return None
    what = "smoothed round-trip times of TCP"
    return Delays(np.array(values), legs=2, what=what, resolution_s=1e-6, is_smoothed=True)
