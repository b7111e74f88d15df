"""What packets of a capture say to each other's ends: numbers, acknowledgements, windows.

The engine has taken the packets apart (`anabranch.support.packets`); here their columns become what
an explanation follows packet by packet. SCTP (RFC 9260) also inside UDP (RFC 6951); TCP (RFC 9293)
with selective acknowledgements (RFC 2018) and options of Multipath TCP (RFC 8684, RFC 6824); what
would be the header of RTP (RFC 3550).
"""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.support.packets import ACK, FIN, SCTP, SYN, TCP, UDP, Packets

PROTOCOLS = {SCTP: "SCTP", TCP: "TCP", UDP: "UDP"}


class Run(NamedTuple):
    """Numbers of data: of bytes in TCP, of chunks in SCTP."""

    start: int
    end: int
    """Behind the last one."""


class Segment(NamedTuple):
    """What a TCP segment says."""

    flags: int
    sequence: int
    data: Run | None
    """Its numbers, SYN and FIN among them; None where it has none."""
    acknowledgement: int | None
    window: int
    scale: int | None = None
    selective: tuple[Run, ...] = ()
    """What has arrived above a gap; where that lies below the acknowledgement, what came twice."""
    stamp: int = -1
    """Its time stamp (TSval); -1 without one."""
    mss: int = -1
    """What a SYN says that its sender takes; -1 without it."""
    tokens: tuple[int, ...] = ()
    """Of Multipath TCP: those of the keys in it, each of which names a connection."""
    joins: int | None = None
    """The token of the connection that it joins."""
    data_end: int | None = None
    """The number behind its data on the connection level."""
    data_acknowledgement: int | None = None
    """What is acknowledged on the connection level."""

    @property
    def asks(self) -> tuple[Hashable, ...]:
        """What its peer answers at once."""
        return ("SYN",) if self.flags & SYN else ()

    @property
    def answers(self) -> tuple[Hashable, ...]:
        """What it answers: a SYN, by any acknowledgement."""
        return ("SYN",) if self.flags & ACK else ()


class Chunks(NamedTuple):
    """What an SCTP packet says."""

    tag: int
    data: tuple[tuple[int, int], ...]
    """TSNs with their bytes of user data."""
    cumulative: int | None = None
    """The TSN up to which everything has arrived."""
    window: int = 0
    gaps: tuple[Run, ...] = ()
    """What has arrived above it."""
    begins: bool = False
    """INIT or INIT ACK."""
    is_open: bool = False
    """COOKIE ECHO or COOKIE ACK."""
    passes: int | None = None
    """The TSN up to which the sender has given data up (FORWARD TSN, RFC 3758)."""
    asks: tuple[Hashable, ...] = ()
    """What its peer answers at once: heartbeats by their information, chunks of the handshake."""
    answers: tuple[Hashable, ...] = ()
    """What of that it answers."""


class Rtp(NamedTuple):
    """What a datagram's header would say if it were RTP (RFC 3550 section 5.1)."""

    payload_type: int
    number: int
    stamp: int
    source: int


class Datagram(NamedTuple):
    """A UDP datagram."""

    rtp: Rtp | None


Content = Segment | Chunks | Datagram


def is_used(packets: Packets) -> NDArray[np.bool_]:
    """Packets of the protocols that are explained, whose headers are whole."""
    return np.isin(packets.protocol, list(PROTOCOLS)) & ~np.isin(packets.fault, (1, 2))


def contents(packets: Packets) -> list[Content | None]:
    """What each packet says; None for those that are not used."""
    found: list[Content | None] = [None] * len(packets)
    used = is_used(packets)
    _segments(packets, used & (packets.protocol == TCP), found)
    _chunks(packets, used & (packets.protocol == SCTP), found)
    _datagrams(packets, used & (packets.protocol == UDP), found)
    return found


def _segments(packets: Packets, which: NDArray[np.bool_], found: list[Content | None]) -> None:
    rows = np.flatnonzero(which)
    flags = packets.flags[rows].astype(np.int64)
    counts = packets.payload[rows] + ((flags & FIN) != 0) + ((flags & SYN) != 0)
    names = ("sequence", "acknowledgement", "window", "window_scale", "stamp", "mss", "payload")
    columns = [getattr(packets, name)[rows].tolist() for name in names]
    selective = _by_packet(packets.sacks.packet, packets.sacks.start, packets.sacks.end)
    multipath = _multipath(packets)
    for row, flag, count, *values in zip(
        rows.tolist(), flags.tolist(), counts.tolist(), *columns, strict=True
    ):
        sequence, acknowledged, window, scale, stamp, mss, payload = values
        said: dict[str, Any] = multipath.get(row, {})
        if "data_end" in said:
            # A mapping may be longer than the segment; what has been sent is what is there.
            said["data_end"] = (said["data_end"] + payload) & 0xFFFFFFFF
        if "joins" in said and flag & (SYN | ACK) != SYN:
            del said["joins"]
        found[row] = Segment(
            flag,
            sequence,
            Run(sequence, sequence + count) if count else None,
            None if acknowledged < 0 else acknowledged,
            window,
            scale if scale >= 0 else None,
            tuple(Run(start, end) for start, end in selective.get(row, ())),
            stamp,
            mss,
            **said,
        )


def _by_packet(
    owners: NDArray[np.int32], *columns: NDArray[np.int64]
) -> dict[int, list[tuple[int, ...]]]:
    """Rows of a side table, by their packet or chunk."""
    found: dict[int, list[tuple[int, ...]]] = {}
    for owner, *values in zip(
        owners.tolist(), *(column.tolist() for column in columns), strict=True
    ):
        found.setdefault(owner, []).append(tuple(values))
    return found


def _multipath(packets: Packets) -> dict[int, dict[str, Any]]:
    """The fields of segments that options of Multipath TCP fill."""
    found: dict[int, dict[str, Any]] = {}
    table = packets.multipath
    names = ("packet", "kind", "flags", "token", "peer_token", "data_sequence", "data_ack")
    columns = [getattr(table, name).tolist() for name in names]
    for row, kind, flags, token, peer, sequence, acknowledged in zip(*columns, strict=True):
        said = found.setdefault(row, {})
        if kind == 0:
            said["tokens"] = tuple(one for one in (token, peer) if one >= 0)
        elif kind == 1 and token >= 0:
            said["joins"] = token
        elif kind == 2:
            if flags & 1 and acknowledged >= 0:
                said["data_acknowledgement"] = acknowledged
            if flags & 4 and sequence >= 0:
                said["data_end"] = sequence
    return found


_QUESTIONS = {1: ("INIT",), 2: ("INIT ACK",), 10: ("COOKIE ECHO",)}
_ANSWERS = {2: ("INIT",), 10: ("INIT ACK",), 11: ("COOKIE ECHO",)}
"""Chunks that answer each other at once (RFC 9260 section 5.1), as HEARTBEAT and its answer do."""


def _chunks(packets: Packets, which: NDArray[np.bool_], found: list[Content | None]) -> None:
    table = packets.chunks
    gaps = _by_packet(packets.gaps.chunk, packets.gaps.start, packets.gaps.end)
    names = ("packet", "kind", "number", "data", "window", "identity")
    columns = [getattr(table, name).tolist() for name in names]
    data: dict[int, list[tuple[int, int]]] = {}
    fields: dict[int, dict[str, Any]] = {}
    for chunk, (row, kind, number, octets, window, identity) in enumerate(
        zip(*columns, strict=True)
    ):
        said = fields.setdefault(row, {})
        if kind in (0, 64) and number >= 0:
            data.setdefault(row, []).append((number, octets))
        elif kind in (3, 16) and number >= 0:
            blocks = tuple(Run(start, end) for start, end in gaps.get(chunk, ()))
            said |= {"cumulative": number, "window": window, "gaps": blocks}
        elif kind in (192, 194) and number >= 0:
            said["passes"] = number
        said["begins"] = said.get("begins", False) or kind in (1, 2)
        said["is_open"] = said.get("is_open", False) or kind in (10, 11)
        asks = (("HEARTBEAT", identity),) if kind == 4 else _QUESTIONS.get(kind, ())
        answers = (("HEARTBEAT", identity),) if kind == 5 else _ANSWERS.get(kind, ())
        said["asks"] = said.get("asks", ()) + asks
        said["answers"] = said.get("answers", ()) + answers
    rows = np.flatnonzero(which)
    for row, tag in zip(rows.tolist(), packets.tag[rows].tolist(), strict=True):
        found[row] = Chunks(tag, tuple(data.get(row, ())), **fields.get(row, {}))


def _datagrams(packets: Packets, which: NDArray[np.bool_], found: list[Content | None]) -> None:
    for row in np.flatnonzero(which).tolist():
        found[row] = Datagram(None)
    table = packets.datagrams
    head = table.head
    # Version 2, and no packet type of RTCP (RFC 5761 section 4).
    is_rtp = (table.captured >= 12) & (head[:, 0] >> 6 == 2)
    is_rtp &= (head[:, 1] < 192) | (head[:, 1] > 223)
    rows = np.flatnonzero(is_rtp & which[table.packet])
    kinds = (head[rows, 1] & 127).tolist()
    fields = np.ascontiguousarray(head[rows, 2:12])
    numbers = fields[:, :2].copy().view(">u2")[:, 0].tolist()
    stamps = fields[:, 2:6].copy().view(">u4")[:, 0].tolist()
    sources = fields[:, 6:10].copy().view(">u4")[:, 0].tolist()
    owners = table.packet[rows].tolist()
    for row, *said in zip(owners, kinds, numbers, stamps, sources, strict=True):
        found[row] = Datagram(Rtp(*said))
