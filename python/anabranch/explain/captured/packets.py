"""What packets of a capture say to each other's ends: numbers, acknowledgements, windows.

Read as far as an explanation needs it, and as far as the capture has it: one may have been cut to
its headers. SCTP (RFC 9260) also inside UDP at port 9899 (RFC 6951); TCP (RFC 9293) with selective
acknowledgements (RFC 2018) and options of Multipath TCP (RFC 8684); RTP (RFC 3550).
"""

import hashlib
import struct
from typing import NamedTuple

from anabranch.support.capture import (
    DAMAGED,
    SCTP,
    TCP,
    UDP,
    Packet,
    Rtp,
    rtp_of,
    short_of_header,
    tcp_options,
)

FIN, SYN, RST, ACK = 1, 2, 4, 16

_ENCAPSULATED = b"\x26\xab"
"""The UDP port of SCTP, 9899."""


class Run(NamedTuple):
    """Numbers of data: of bytes in TCP, of chunks in SCTP."""

    start: int
    end: int
    """Behind the last one."""


class Segment(NamedTuple):
    """What a TCP segment says."""

    flags: int
    data: Run | None
    """Its numbers, SYN and FIN among them; None where it has none."""
    acknowledgement: int | None
    window: int
    scale: int | None
    selective: tuple[Run, ...]
    """What has arrived above a gap; where that lies below the acknowledgement, what came twice."""
    keys: tuple[bytes, ...] = ()
    """Of Multipath TCP: keys, each of which names a connection."""
    joins: bytes | None = None
    """The token of the connection that it joins."""
    data_end: int | None = None
    """The number behind its data on the connection level."""
    data_acknowledgement: int | None = None
    """What is acknowledged on the connection level."""


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
    answers: bool = False
    """A heartbeat is answered."""


class Datagram(NamedTuple):
    """A UDP datagram."""

    rtp: Rtp | None


Content = Segment | Chunks | Datagram


class Read(NamedTuple):
    """A packet that is used."""

    protocol: str
    ports: tuple[bytes, bytes]
    content: Content


def read(packet: Packet) -> Read | str:
    """What a packet says, or what it is that says nothing here."""
    reader = {SCTP: _sctp, TCP: _tcp, UDP: _udp}.get(packet.protocol)
    if reader is None:
        return f"packets of IP protocol {packet.protocol}"
    return reader(packet.payload, packet.length)


def token(key: bytes) -> bytes:
    """What names a connection in MP_JOIN (RFC 8684 section 3.2)."""
    return hashlib.sha256(key).digest()[:4]


def _udp(payload: bytes, length: int) -> Read | str:
    if len(payload) < 8:
        return short_of_header(payload, length)
    if _ENCAPSULATED in (payload[:2], payload[2:4]) and length >= 24:
        inner = _sctp(payload[8:], length - 8)
        if isinstance(inner, Read):
            return inner
    return Read("UDP", (payload[:2], payload[2:4]), Datagram(rtp_of(payload)))


def _tcp(payload: bytes, length: int) -> Read | str:
    if len(payload) < 20:
        return short_of_header(payload, length)
    sequence, acknowledged, offset, flags, window = struct.unpack_from(">IIBBH", payload, 4)
    header = (offset >> 4) * 4
    if not 20 <= header <= length:
        return DAMAGED
    count = length - header + (flags & (FIN | SYN)).bit_count()
    said = _tcp_options(payload[20:header], flags, length - header)
    segment = Segment(
        flags,
        Run(sequence, sequence + count) if count else None,
        acknowledged if flags & ACK else None,
        window,
        **said,  # type: ignore[arg-type]
    )
    return Read("TCP", (payload[:2], payload[2:4]), segment)


def _tcp_options(options: bytes, flags: int, length: int) -> dict[str, object]:
    """The fields of a segment that its options fill."""
    said: dict[str, object] = {"scale": None, "selective": ()}
    for kind, value in tcp_options(options):
        if kind == 3 and len(value) == 1:
            said["scale"] = value[0]
        elif kind == 5:
            edges = struct.unpack(f">{len(value) // 8 * 2}I", value[: len(value) // 8 * 8])
            said["selective"] = tuple(map(Run, edges[::2], edges[1::2]))
        elif kind == 30 and value:
            said |= _multipath(value, flags, length)
    return said


def _multipath(value: bytes, flags: int, length: int) -> dict[str, object]:
    """An option of Multipath TCP (RFC 8684 section 3)."""
    kind = value[0] >> 4
    if kind == 0:
        keys = value[2:18]
        return {"keys": tuple(keys[i : i + 8] for i in (0, 8) if len(keys) >= i + 8)}
    if kind == 1 and flags & SYN and not flags & ACK:
        return {"joins": value[2:6]}
    if kind != 2 or len(value) < 2:
        return {}
    said: dict[str, object] = {}
    has, at = value[1], 2
    for bit, long, name in ((1, 2, "data_acknowledgement"), (4, 8, "data_end")):
        if has & bit:
            octets = 8 if has & long else 4
            # The low half is enough to compare by.
            said[name] = int.from_bytes(value[at : at + octets]) & 0xFFFFFFFF
            at += octets
    if "data_end" in said:
        # A mapping may be longer than the segment; what has been sent is what is there.
        said["data_end"] = (int(str(said["data_end"])) + length) & 0xFFFFFFFF
    return said


def _sctp(payload: bytes, length: int) -> Read | str:
    if len(payload) < 16:
        return short_of_header(payload, length)
    tag = int.from_bytes(payload[4:8])
    data: list[tuple[int, int]] = []
    fields: dict[str, object] = {}
    at = 12
    while at + 4 <= len(payload):
        if payload[:8].startswith(payload[at : at + 8]):
            # The next packet of several that the sender's system cuts apart later (UDP_SEGMENT).
            at += 12
            continue
        kind, _, size = struct.unpack_from(">BBH", payload, at)
        if size < 4 or at + size > length + 3:
            return DAMAGED
        value = payload[at + 4 : at + size]
        if kind in (0, 64) and len(value) >= 4:
            # DATA has 12 bytes after its length, I-DATA 16 (RFC 8260 section 2.1).
            data.append((int.from_bytes(value[:4]), max(size - (16 if kind == 0 else 20), 0)))
        elif kind == 3 and len(value) >= 12:
            fields |= _sack(value)
        elif kind in (1, 2):
            fields["begins"] = True
        elif kind in (10, 11):
            fields["is_open"] = True
        elif kind == 5:
            fields["answers"] = True
        elif kind in (192, 194) and len(value) >= 4:
            fields["passes"] = int.from_bytes(value[:4])
        at += (size + 3) // 4 * 4
    chunks = Chunks(tag, tuple(data), **fields)  # type: ignore[arg-type]
    return Read("SCTP", (payload[:2], payload[2:4]), chunks)


def _sack(value: bytes) -> dict[str, object]:
    cumulative, window, count, _ = struct.unpack_from(">IIHH", value)
    edges = value[12 : 12 + 4 * count]
    blocks = struct.iter_unpack(">HH", edges[: len(edges) // 4 * 4])
    gaps = tuple(Run(cumulative + first, cumulative + last + 1) for first, last in blocks)
    return {"cumulative": cumulative, "window": window, "gaps": gaps}
