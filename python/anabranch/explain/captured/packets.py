"""Which packets of a capture are explained, and what datagrams say (RFC 3550).

The engine has taken the packets apart (`anabranch.support.packets`). TCP (RFC 9293), also with
options of Multipath TCP (RFC 8684, RFC 6824), SCTP (RFC 9260), also inside UDP (RFC 6951), UDP.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.support.packets import SCTP, TCP, UDP, Packets

Integers = NDArray[np.int64]

PROTOCOLS = {SCTP: "SCTP", TCP: "TCP", UDP: "UDP"}


def is_used(packets: Packets) -> NDArray[np.bool_]:
    """Packets of the protocols that are explained, whose headers are whole."""
    return np.isin(packets.protocol, list(PROTOCOLS)) & ~np.isin(packets.fault, (1, 2))


class Rtp(NamedTuple):
    """What datagrams' headers would say if they were RTP (RFC 3550 section 5.1)."""

    which: Integers
    """Which of the datagrams may be RTP; the other columns have as many values."""
    payload_type: Integers
    number: Integers
    stamp: Integers
    source: Integers


class Report(NamedTuple):
    """A sender or receiver report of RTCP (RFC 3550 section 6.4), up to its first block."""

    stamp: int | None
    """Of a sender report: the middle 32 bits of its NTP time stamp."""
    about: int | None = None
    """The source (SSRC) that its block is about; None without a block."""
    lost: int = 0
    """Packets of it that were lost, in all; negative if more came than were sent."""
    highest: int = 0
    """The highest number of it, with how often numbers started over."""
    last: int = 0
    """`stamp` of the last sender report that came from it (LSR); 0 if none did."""
    waited: int = 0
    """How long ago that was, in units of 1/65536 s (DLSR)."""


def rtp_of(packets: Packets, rows: Integers) -> Rtp:
    """The headers of those of these datagrams that may be RTP."""
    at, index = _datagrams(packets, rows)
    head = packets.datagrams.head[at]
    # Version 2, and no packet type of RTCP (RFC 5761 section 4).
    may_be = (packets.datagrams.captured[at] >= 12) & (head[:, 0] >> 6 == 2)
    may_be &= (head[:, 1] < 192) | (head[:, 1] > 223)
    head = head[may_be]
    number, stamp, source = (
        np.ascontiguousarray(head[:, first:end]).view(f">u{end - first}")[:, 0].astype(np.int64)
        for first, end in ((2, 4), (4, 8), (8, 12))
    )
    return Rtp(index[may_be], (head[:, 1] & 127).astype(np.int64), number, stamp, source)


def heads_of(
    packets: Packets, rows: Integers
) -> tuple[NDArray[np.uint8], NDArray[np.integer], NDArray[np.integer]]:
    """The first bytes of each of these datagrams, how many are there, and how long each was."""
    at, index = _datagrams(packets, rows)
    table = packets.datagrams
    head = np.zeros((len(rows), table.head.shape[1]), dtype=np.uint8)
    captured = np.zeros(len(rows), dtype=np.int64)
    head[index], captured[index] = table.head[at], table.captured[at]
    return head, captured, packets.payload[rows]


_SENDER_REPORT, _RECEIVER_REPORT = 200, 201
_BLOCK_AT = {_SENDER_REPORT: 28, _RECEIVER_REPORT: 8}
"""Where the first block of a report begins."""


def reports_of(packets: Packets, rows: Integers) -> list[tuple[int, Report]]:
    """Which of these datagrams begin with a report of RTCP (RFC 3550 section 6.1), and that."""
    at, index = _datagrams(packets, rows)
    table = packets.datagrams
    head = table.head[at]
    is_rtcp = (table.captured[at] >= 8) & (head[:, 0] >> 6 == 2)
    is_rtcp &= np.isin(head[:, 1], list(_BLOCK_AT))
    found = []
    for one in np.flatnonzero(is_rtcp).tolist():
        data = head[one, : table.captured[at[one]]].tobytes()
        first, octets = _BLOCK_AT[data[1]], 4 * (int.from_bytes(data[2:4]) + 1)
        blocks = data[0] & 31
        payload = packets.payload[table.packet[at[one]]]
        if not first + 24 * blocks <= octets <= payload or len(data) < first:
            continue
        stamp = int.from_bytes(data[10:14]) if data[1] == _SENDER_REPORT else None
        block = data[first : first + 24]
        report = Report(stamp)
        if blocks and len(block) == 24:
            report = Report(
                stamp,
                int.from_bytes(block[:4]),
                int.from_bytes(block[5:8], signed=True),
                int.from_bytes(block[8:12]),
                int.from_bytes(block[16:20]),
                int.from_bytes(block[20:24]),
            )
        found.append((int(index[one]), report))
    return found


def _datagrams(packets: Packets, rows: Integers) -> tuple[Integers, Integers]:
    """The rows of the table of datagrams that belong to these packets, and to which of them."""
    now = np.full(len(packets), -1, dtype=np.int64)
    now[rows] = np.arange(len(rows))
    index = now[packets.datagrams.packet]
    at = np.flatnonzero(index >= 0)
    at = at[np.argsort(index[at], kind="stable")]
    return at, index[at]
