"""Segments of the path in packets that are larger: segmentation offload at an end.

A network card cuts what a host sends into segments behind the place of the capture, and joins what
arrives before it (TSO, GSO, LRO, GRO). No packet of the path carries more than the least of both
ends' maximum segment sizes, less its options (RFC 6691).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

MTU = 1500
"""Of Ethernet, where neither a SYN nor the packets say another."""

_JUMBO = 8900, 9216
"""MTUs of Ethernet's jumbo frames; six segments of 1500 bytes have less."""

_LEAST = 216
"""Payload of the smallest segment, in bytes, that is believed."""


def largest(
    payload: Integers, header: Integers, fixed: int, mss: tuple[int | None, int | None]
) -> Integers:
    """The most payload in bytes that one segment of the path has, by packet.

    Parameters
    ----------
    payload
        Bytes of TCP's payload of each packet of one direction.
    header
        Bytes of the headers of IP and TCP of each.
    fixed
        Those of headers without options: 40 in IPv4, 60 in IPv6.
    mss
        The maximum segment sizes on both ends' SYN: the sender's own, and the one that its peer
        takes; None for one that is not known.
    """
    known = [one for one in mss if one is not None]
    if not known:
        most = _mtu(payload + header) - header
    else:
        least = min(known) - (header - fixed)
        peers = (mss[1] if mss[1] is not None else min(known)) - (header - fixed)
        # An end that takes less than it sends: full segments have one size, which no card has cut.
        full, times = _most_frequent(payload[payload > least])
        sends_more = (payload > least).any() and full <= int(peers.max())
        most = peers if sends_more and 2 * times >= (payload > least).sum() else least
    return np.maximum(most, _LEAST)


def _mtu(octets: Integers) -> int:
    """The largest packet of the path, where no SYN says it."""
    large = octets[octets > MTU]
    if not len(large):
        return MTU
    full, count = _most_frequent(octets[(octets > MTU // 2) & (octets <= MTU)])
    # Full jumbo frames have one size; super-packets may have any.
    jumbo, times = _most_frequent(large)
    is_largest = jumbo == int(large.max()) and _JUMBO[0] <= jumbo <= _JUMBO[1]
    if is_largest and 2 * times >= len(large):
        return jumbo
    return full if 20 * count >= len(octets) else MTU


def _most_frequent(values: Integers) -> tuple[int, int]:
    """The value, and how often it occurs; 0 and 0 if there is none."""
    if not len(values):
        return 0, 0
    different, counts = np.unique(values, return_counts=True)
    # Of several the largest.
    at = len(counts) - 1 - int(np.argmax(counts[::-1]))
    return int(different[at]), int(counts[at])


MOST = 1 << 23
"""Segments that are looked at: 12 GB of full ones of Ethernet."""


def within(payload: Integers, most: Integers) -> int:
    """How many of the packets have no more than `MOST` segments together."""
    return int(np.searchsorted(np.cumsum(np.maximum(-(-payload // most), 1)), MOST, side="right"))


class Segments(NamedTuple):
    """Segments in the order of their packets."""

    packet: Integers
    """The row of the packet of each."""
    start: Integers
    end: Integers
    """The numbers of its first byte and behind its last."""
    octets: Integers
    """Its length as an IP packet, in bytes."""
    sent: Integers
    """The same, with those of its packet before it: what a link transmits from the packet's first
    byte to the segment's last.
    """


def split(
    start: Integers, end: Integers, payload: Integers, octets: Integers, most: Integers
) -> Segments:
    """The segments of packets with these numbers of bytes.

    Parameters
    ----------
    start, end
        The numbers of a packet's first byte and behind its last; SYN and FIN have one each.
    payload
        Bytes of payload, without those two.
    octets
        Lengths of the IP packets, in bytes.
    most
        See `largest`.
    """
    header = octets - payload
    counts = np.maximum(-(-payload // most), 1)
    packet = np.repeat(np.arange(len(start)), counts)
    nth = np.arange(len(packet)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_last = nth == counts[packet] - 1
    first = start[packet] + nth * most[packet]
    behind = np.where(is_last, end[packet], first + most[packet])
    own = np.where(is_last, payload[packet] - nth * most[packet], most[packet]) + header[packet]
    sent = nth * (most[packet] + header[packet]) + own
    return Segments(packet, first, behind, own, sent)
