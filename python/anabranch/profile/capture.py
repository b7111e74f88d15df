"""Packets of captures: pcap (also with ns) and pcapng, read in pieces.

Frames and headers are taken apart here, only as far as a path's profile needs; a capture may have
been cut to its headers (`tcpdump -s 128`). Formats: draft-ietf-opsawg-pcap and -pcapng; link layers
by their numbers in the registry of LINKTYPEs.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from anabranch.errors import AnabranchError

ICMP, TCP, UDP, ICMP6, SCTP = 1, 6, 17, 58, 132

MAGICS = {
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
}
"""First bytes of a pcap file -> its byte order and the unit of its fractions of a second."""

PCAPNG = b"\x0a\x0d\x0d\x0a"

_LONGEST = 1 << 24
"""Bytes of a frame or block above which a file is damaged; captures of loopbacks have 64 KiB."""


class Packet(NamedTuple):
    """What of a packet matters; numbers of its transport are taken from `payload` later."""

    time: float
    source: bytes
    destination: bytes
    protocol: int
    identification: int
    octets: int
    """Length of the IP packet."""
    payload: bytes
    """What IP carries, as far as it was captured."""
    length: int
    """Its length in the packet."""


@dataclass
class Capture:
    """A capture that is being read."""

    file: Path
    progress: Callable[[int], None] | None = None
    """Called with the number of bytes read, now and then."""
    notes: list[str] | None = None

    def packets(self) -> Iterator[Packet]:
        """The IP packets of the file; of a damaged or cut file those before the damage."""
        self.notes = []
        count = 0
        with self.file.open("rb") as stream:
            try:
                for time, linktype, frame in self._frames(stream):
                    count += 1
                    if self.progress is not None and count % 4096 == 0:
                        self.progress(stream.tell())
                    packet = _ip(time, linktype, frame)
                    if packet is not None:
                        yield packet
            except _DamageError as damage:
                if count == 0:
                    raise AnabranchError(f"{self.file}: {damage}") from None
                self.notes.append(f"{self.file.name}: {damage}; what comes before it is used")

    def _frames(self, stream: BinaryIO) -> Iterator[tuple[float, int, bytes]]:
        magic = stream.read(4)
        if magic in MAGICS:
            return self._pcap(stream, *MAGICS[magic])
        if magic == PCAPNG:
            stream.seek(0)
            return self._pcapng(stream)
        raise AnabranchError(f"{self.file}: neither pcap nor pcapng")

    def _pcap(
        self, stream: BinaryIO, order: str, fraction: float
    ) -> Iterator[tuple[float, int, bytes]]:
        linktype = struct.unpack(f"{order}I", _exactly(stream, 20)[16:])[0] & 0xFFFF
        record = struct.Struct(f"{order}IIII")
        while header := stream.read(16):
            if len(header) < 16:
                raise _DamageError("the last packet is cut off")
            seconds, part, captured, _ = record.unpack(header)
            if captured > _LONGEST:
                raise _DamageError(f"a packet of {captured} bytes cannot be; the file is damaged")
            yield seconds + part * fraction, linktype, _exactly(stream, captured)

    def _pcapng(self, stream: BinaryIO) -> Iterator[tuple[float, int, bytes]]:
        order = "<"
        interfaces: list[tuple[int, float, int]] = []
        while head := stream.read(8):
            if len(head) < 8:
                raise _DamageError("the last block is cut off")
            if head[:4] == PCAPNG:
                mark = _exactly(stream, 4)
                order = "<" if mark == b"\x4d\x3c\x2b\x1a" else ">"
                interfaces = []
                _body(stream, order, head, mark)
                continue
            kind = struct.unpack(f"{order}I", head[:4])[0]
            body = _body(stream, order, head)
            if kind == 1:
                interfaces.append(_interface(order, body))
            elif kind == 6:
                number, high, low, captured = struct.unpack(f"{order}IIII", _needed(body, 16))
                if number >= len(interfaces) or captured > len(body) - 20:
                    raise _DamageError("a packet's block contradicts itself; the file is damaged")
                linktype, unit, offset = interfaces[number]
                time = offset + ((high << 32) | low) * unit
                yield time, linktype, body[20 : 20 + captured]


class _DamageError(Exception):
    """Where a file cannot be read on."""


def _exactly(stream: BinaryIO, count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise _DamageError("the file is cut off in a packet")
    return found


def _needed(body: bytes, count: int) -> bytes:
    if len(body) < count:
        raise _DamageError("a block is too short; the file is damaged")
    return body[:count]


def _body(stream: BinaryIO, order: str, head: bytes, read: bytes = b"") -> bytes:
    """The rest of a block, without the length that is repeated at its end."""
    length = struct.unpack(f"{order}I", head[4:])[0]
    if not 12 + len(read) <= length <= _LONGEST:
        raise _DamageError(f"a block of {length} bytes cannot be; the file is damaged")
    return (read + _exactly(stream, length - 8 - len(read)))[:-4]


def _interface(order: str, body: bytes) -> tuple[int, float, int]:
    """Link type, unit of the time stamps in s, and what is added to them in s."""
    linktype = struct.unpack(f"{order}H", _needed(body, 8)[:2])[0]
    unit, offset, at = 1e-6, 0, 8
    while at + 4 <= len(body):
        code, length = struct.unpack(f"{order}HH", body[at : at + 4])
        value = body[at + 4 : at + 4 + length]
        if code == 9 and length == 1:
            unit = 2.0 ** -(value[0] & 127) if value[0] & 128 else 10.0 ** -value[0]
        elif code == 14 and length == 8:
            offset = struct.unpack(f"{order}q", value)[0]
        at += 4 + (length + 3) // 4 * 4
    return linktype, unit, offset


_ETHERNET, _NULL, _LOOP, _SLL, _SLL2 = 1, 0, 108, 113, 276
_RAW = (12, 14, 101, 228, 229)
_TAGS = (0x8100, 0x88A8, 0x9100)


def _network_at(linktype: int, frame: bytes) -> int | None:
    """Where in a frame the IP header begins."""
    if linktype == _ETHERNET:
        at = 12
        while len(frame) >= at + 2 and int.from_bytes(frame[at : at + 2]) in _TAGS:
            at += 4
        return at + 2 if frame[at : at + 2] in (b"\x08\x00", b"\x86\xdd") else None
    if linktype in _RAW:
        return 0
    return {_NULL: 4, _LOOP: 4, _SLL: 16, _SLL2: 20}.get(linktype)


_IP4 = struct.Struct(">BxHHHxB2x4s4s")
_IP6 = struct.Struct(">IHBx16s16s")


def _ip(time: float, linktype: int, frame: bytes) -> Packet | None:
    """The IP packet of a frame; None for anything else, and for all fragments but the first."""
    at = _network_at(linktype, frame)
    if at is None or len(frame) < at + 20:
        return None
    version = frame[at] >> 4
    if version == 4:
        first, octets, identification, fragment, protocol, source, destination = _IP4.unpack_from(
            frame, at
        )
        header = (first & 15) * 4
        if fragment & 0x1FFF or header < 20:
            return None
    elif version == 6 and len(frame) >= at + 40:
        _, length, protocol, source, destination = _IP6.unpack_from(frame, at)
        identification, header = 0, 40
        octets = length + 40 if length else 0
    else:
        return None
    # Segmentation offload leaves a length of 0 in large packets.
    octets = octets or len(frame) - at
    payload = frame[at + header : at + octets]
    return Packet(
        time, source, destination, protocol, identification, octets, payload, octets - header
    )
