"""QUIC among the datagrams of UDP (RFC 9000), known by the packets that open a connection.

Only a connection's beginning says what it is: a long header of a known version in a datagram of
1200 bytes or more. Later packets have short headers, of which almost nothing can be read.
"""

import numpy as np
from numpy.typing import NDArray

from .packets import Packets

Flags = NDArray[np.bool_]

_INITIAL = {1: 0, 0x6B3343CF: 1}
"""Known version -> the type of its Initial packets (RFC 9000 table 5, RFC 9369 section 3.2)."""

_LEAST_OCTETS = 1200
"""Of a client's datagram with an Initial packet (RFC 9000 section 14.1)."""

_LONGEST_ID, _SHORTEST_FIRST_ID = 20, 8
"""Of a connection ID, and of the first one that a client sends to (sections 17.2 and 7.2)."""


def packets_that_open(packets: Packets) -> Flags:
    """Which packets are those with which a client opens a connection."""
    head = packets.datagrams.head
    version, kind = _version(head), head[:, 0] >> 4 & 3
    is_initial = np.zeros(len(head), dtype=bool)
    for known, initial in _INITIAL.items():
        is_initial |= (version == known) & (kind == initial)
    octets = packets.payload[packets.datagrams.packet]
    is_first = (octets >= _LEAST_OCTETS) & (head[:, 5] >= _SHORTEST_FIRST_ID)
    return _of_packets(packets, _has_long_header(packets) & is_initial & is_first)


def packets_with_long_headers(packets: Packets) -> Flags:
    """Which packets begin with a long header of a known version (section 17.2)."""
    return _of_packets(packets, _has_long_header(packets))


def packets_with_short_headers(packets: Packets) -> Flags:
    """Which packets may be those of a connection that is open (RFC 9000 section 17.3)."""
    return _of_packets(packets, packets.datagrams.head[:, 0] >> 6 == 1)


def _has_long_header(packets: Packets) -> Flags:
    head = packets.datagrams.head
    is_known = np.isin(_version(head), list(_INITIAL)) & (packets.datagrams.captured >= 7)
    return np.asarray(is_known & (head[:, 0] >> 6 == 3) & (head[:, 5] <= _LONGEST_ID))


def _of_packets(packets: Packets, datagrams: Flags) -> Flags:
    found = np.zeros(len(packets), dtype=bool)
    found[packets.datagrams.packet[datagrams]] = True
    return found


def _version(head: NDArray[np.uint8]) -> NDArray[np.int64]:
    return np.ascontiguousarray(head[:, 1:5]).view(">u4")[:, 0].astype(np.int64)
