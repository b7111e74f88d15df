"""Losses of QUIC behind the place of a capture that has the secrets of the connection."""

import numpy as np

from anabranch.support.packets import Packets

from .intervals import Vector
from .measurement import LossSequence, Measurement

_ONE_RTT = 3
"""The level of packets with short headers."""


def measure(packets: Packets, seen_s: Vector) -> Measurement:
    """The measurement of one direction, by the packet numbers of the path ID of most packets.

    Senders leave numbers out on purpose (RFC 9000 section 21.4), few enough to count as losses.
    """
    table = packets.quic
    own = table.level == _ONE_RTT
    paths, counts = np.unique(table.path[own], return_counts=True)
    own &= table.path == paths[np.argmax(counts)]
    numbers = table.number[own] - table.number[own].min()
    lost = np.ones(int(numbers.max()) + 1, dtype=bool)
    lost[numbers] = False
    times = np.full(len(lost), -np.inf)
    np.maximum.at(times, numbers, seen_s[table.packet[own]])
    return Measurement(
        "",
        None,
        LossSequence(lost, "gaps in QUIC's packet numbers", times_s=np.maximum.accumulate(times)),
        notes=["a capture of QUIC at its receiver has no delays"],
    )


def has_numbers(packets: Packets) -> bool:
    """Whether packets with short headers are among those that could be opened."""
    return bool((packets.quic.level == _ONE_RTT).any())
