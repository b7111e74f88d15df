"""Packets of captures, read in pieces: pcap and its relatives, pcapng, snoop, ERF.

The engine takes frames and headers apart (`crates/anabranch-capture`) and gives columns
(`anabranch.support.packets`); a capture may be compressed, and may have been cut to its headers
(`tcpdump -s 128`). What is left out is counted.
"""

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import BinaryIO, NamedTuple

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.support import wording
from anabranch.support.packets import Packets, Place

ICMP, TCP, UDP, ICMP6, SCTP = 1, 6, 17, 58, 132

MAGICS = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
"""First bytes of a pcap file -> its byte order, and the unit of its fractions of a second in ns."""

PCAPNG = b"\x0a\x0d\x0d\x0a"
GZIP = b"\x1f\x8b"

_LONGEST = 1 << 24
"""Larger frames or blocks, in bytes, mean that a file is damaged; captures of loopbacks have 64
KiB.
"""


class Packet(NamedTuple):
    """The parts of a packet that matter here.

    Numbers of its transport are read from `payload` later.
    """

    time_ns: int
    """Nanoseconds since 1970; seconds in a float would have steps of 200 ns and more."""
    source: bytes
    destination: bytes
    protocol: int
    """The protocol after IP's own headers and the extensions of IPv6."""
    identification: int
    octets: int
    """Length of the IP packet in bytes."""
    payload: bytes
    """The payload of IP, as far as it was captured."""
    length: int
    """Its length in the packet."""
    interface: str = ""
    """Where it was seen: the interface's name, or its number."""
    comment: str = ""
    """What somebody has written about it; captures of `anabranch run` say why one was dropped."""

    def identity(self) -> bytes:
        """The same wherever it is seen, in every process: of its start what no router changes."""
        kept = bytearray(self.payload[:64])
        kept[_CHECKSUM.get(self.protocol, slice(0, 0))] = b""
        numbers = (self.protocol << 32 | self.identification).to_bytes(8)
        said = b"".join((self.source, self.destination, numbers, kept))
        return hashlib.blake2b(said, digest_size=12).digest()


_CHECKSUM = {TCP: slice(16, 18), UDP: slice(6, 8)}
"""Left out of a packet's identity: a sender's network card computes it after the capture."""


CLOCK_SET_NS = 100_000_000
"""A clock that steps back by more than this was set; by less, packets are only out of order."""

NO_IP = "frames without an IP packet"
FRAGMENTS = "fragments other than the first of their packet"
CUT = "packets whose headers are cut off"
DAMAGED = "packets whose lengths contradict each other"
UNTIMED = "packets without a time (simple packet blocks)"
"""What packets are called that have no time."""


def short_of_header(payload: bytes, length: int) -> str:
    """Says whether the capture or a payload itself, `length` bytes long, ends within a header."""
    return CUT if len(payload) < length else DAMAGED


def tcp_options(options: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of each option of a TCP header (RFC 9293 section 3.1), up to a damaged one."""
    at = 0
    while at < len(options) and options[at] != 0:
        if options[at] == 1:
            at += 1
            continue
        if at + 2 > len(options) or options[at + 1] < 2:
            return
        yield options[at], options[at + 2 : at + options[at + 1]]
        at += options[at + 1]


class Rtp(NamedTuple):
    """The header of an RTP packet (RFC 3550 section 5.1)."""

    number: int
    stamp: int
    source: int


def rtp_of(datagram: bytes) -> Rtp | None:
    """The RTP header in a UDP datagram with its header; None if there is none.

    It has version 2, and no packet type of RTCP (RFC 5761 section 4).
    """
    if len(datagram) >= 20 and datagram[8] >> 6 == 2 and not 192 <= datagram[9] <= 223:
        return Rtp(*struct.unpack_from(">HII", datagram, 10))
    return None


class _Frame(NamedTuple):
    """What of a file is one packet."""

    time_ns: int
    linktype: int
    octets: int
    """How long it was."""
    data: bytes
    """What was captured of it."""
    interface: str
    comment: str = ""


@dataclass
class Capture:
    """A capture file that is being read."""

    file: Path
    progress: Callable[[int], None] | None = None
    """Called from time to time with the number of bytes read."""
    interface: str | None = None
    """The only interface whose packets are wanted, by its name or number, or the only place of one
    (as `eth0.5`); None for all.
    """
    interfaces: Counter[str] = field(default_factory=Counter)
    """How many frames of each interface the file has, so far, wanted or not."""
    names: dict[bytes, str] = field(default_factory=dict)
    """Of hosts, by packed addresses, as far as the file says them (name resolution blocks)."""
    places: list[Place] = field(default_factory=list)
    """Where packets were seen, so far; the number of one is its index."""
    addresses: list[IPv4Address | IPv6Address] = field(default_factory=list)
    """The hosts so far."""
    comments: list[str] = field(default_factory=list)
    """What is written about packets, so far."""
    steps_back: int = 0
    """How often a frame's time is before that of the one before it, of the same interface."""
    largest_step_back_ns: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """What has been left out so far, with the number of frames."""
    damage: str | None = None
    """Why the file could not be read to its end; None where it could."""

    def batches(self) -> Iterator[Packets]:
        """The IP packets of the file; from a damaged or cut file, those before the damage.

        Raises
        ------
        AnabranchError
            Where the file is no capture, or damaged before its first frame.
        """
        reader = _engine.CaptureReader(self.file, self.interface)
        counted: Counter[str] = Counter()
        while (batch := reader.next_batch()) is not None:
            self._take(reader, counted)
            if self.progress is not None:
                self.progress(reader.position)
            packets = Packets.of(batch)
            if len(packets):
                yield packets

    def _take(self, reader: _engine.CaptureReader, counted: Counter[str]) -> None:
        """Takes what the reader knows besides packets; `counted` is what was left out before."""
        for name, frames in reader.interfaces:
            self.interfaces[_plain_text(name)] = frames
        self.places += (
            Place(*map(_plain_text, place)) for place in reader.places(len(self.places))
        )
        self.addresses += map(ip_address, reader.addresses(len(self.addresses)))
        self.comments += map(_plain, reader.comments(len(self.comments)))
        self.names = {address: _plain(name) for address, name in reader.names}
        left_out = Counter(dict(reader.left_out))
        self.left_out.update(left_out - counted)
        counted.update(left_out - counted)
        self.damage = reader.damage
        self.steps_back, self.largest_step_back_ns = reader.steps_back

    def packets(self) -> Iterator[Packet]:
        """The IP packets of the file; from a damaged or cut file, those before the damage."""
        count = 0
        with self.file.open("rb") as stream:
            try:
                for frame in self._frames(stream):
                    count += 1
                    if self.progress is not None and count % 4096 == 0:
                        self.progress(stream.tell())
                    try:
                        packet = _ip(frame)
                    except _LeftOutError as what:
                        self.left_out[str(what)] += 1
                    else:
                        yield packet
            except _DamageError as damage:
                if count == 0 and not self.left_out:
                    raise AnabranchError(f"{self.file}: {damage}") from None
                self.damage = str(damage)

    def check_interface(self) -> None:
        """Checks, once the packets have been read, that it is clear which interface is meant.

        A packet that several interfaces have seen would count several times.

        Raises
        ------
        AnabranchError
            Where the file has several interfaces and none is asked for, or lacks the one that is.
        """
        names = ", ".join(self.interfaces)
        if self.interface is None and len(self.interfaces) > 1:
            raise AnabranchError(
                f"{self.file}: there are packets of {len(self.interfaces)} interfaces ({names});"
                " name one with --interface, or two, that of the sender first"
            )
        known = {*self.interfaces, *(place.name for place in self.places)}
        if self.interface is not None and self.interface not in known:
            raise AnabranchError(
                f"{self.file}: --interface {self.interface}: there is none of this name that has"
                f" packets; those are {names or 'none'}"
            )

    @property
    def notes(self) -> list[str]:
        """Sentences about the parts of the file that are not used."""
        sentences = left_out(self.left_out, self.file.name)
        if self.largest_step_back_ns > CLOCK_SET_NS:
            step_s = wording.number(self.largest_step_back_ns / 1e9, 3)
            sentences.append(
                f"{self.file.name}: times go backwards by up to {step_s} s, as when a clock is set"
            )
        if self.damage is not None:
            sentences.append(f"{self.file.name}: {self.damage}; what comes before it is used")
        return sentences

    def _frames(self, stream: BinaryIO) -> Iterator[_Frame]:
        magic = stream.read(4)
        if magic in MAGICS:
            return self._pcap(stream, *MAGICS[magic])
        if magic == PCAPNG:
            stream.seek(0)
            return self._pcapng(stream)
        if magic[:2] == GZIP:
            raise AnabranchError(f"{self.file} is compressed; `gunzip` makes a capture of it")
        raise AnabranchError(f"{self.file}: neither pcap nor pcapng")

    def _pcap(self, stream: BinaryIO, order: str, fraction: int) -> Iterator[_Frame]:
        linktype = struct.unpack(f"{order}I", _exactly(stream, 20)[16:])[0] & 0xFFFF
        record = struct.Struct(f"{order}IIII")
        while header := stream.read(16):
            if len(header) < 16:
                raise _DamageError("the last packet is cut off")
            seconds, part, captured, octets = record.unpack(header)
            if captured > _LONGEST:
                raise _DamageError(f"a packet cannot have {captured} bytes; the file is damaged")
            time_ns = seconds * 1_000_000_000 + part * fraction
            self.interfaces["0"] += 1
            if self.interface not in {None, "0"}:
                continue
            yield _Frame(time_ns, linktype, octets, _exactly(stream, captured), "0")

    def _pcapng(self, stream: BinaryIO) -> Iterator[_Frame]:
        order = "<"
        interfaces: list[_Interface] = []
        while head := stream.read(8):
            if len(head) < 8:
                raise _DamageError("the last block is cut off")
            if head[:4] == PCAPNG:
                mark = _exactly(stream, 4)
                if mark not in _MARKS:
                    raise _DamageError("a section has no byte order; the file is damaged")
                order = _MARKS[mark]
                interfaces = []
                _body(stream, order, head, mark)
                continue
            kind = struct.unpack(f"{order}I", head[:4])[0]
            body = _body(stream, order, head)
            if kind == 1:
                interfaces.append(_interface(order, body))
            elif kind in _PACKET_BLOCKS:
                fields = struct.unpack(order + _PACKET_BLOCKS[kind], _needed(body, 20))
                number, high, low, captured, octets = fields
                if number >= len(interfaces) or captured > len(body) - 20:
                    raise _DamageError("a packet's block contradicts itself; the file is damaged")
                interface = interfaces[number]
                name = interface.name or str(number)
                self.interfaces[name] += 1
                if self.interface not in {None, name}:
                    continue
                time_ns = interface.time_ns((high << 32) | low)
                data, comment = body[20 : 20 + captured], _comment(order, body, captured)
                yield _Frame(time_ns, interface.linktype, octets, data, name, comment)
            elif kind == _NAMES:
                self.names |= _host_names(order, body)
            elif kind == _SIMPLE_PACKET:
                self.left_out[UNTIMED] += 1
            elif kind not in _WITHOUT_PACKETS:
                self.left_out[f"blocks of the unknown type {kind:#x}"] += 1


def left_out(counts: Counter[str], file: str = "") -> list[str]:
    """A sentence for each kind of packet that is left out."""
    of = f"{file}: " if file else ""
    return [f"{of}left out: {count} {what}" for what, count in sorted(counts.items())]


_MARKS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
"""The byte order of a pcapng section, by its mark."""

_PACKET_BLOCKS = {2: "HxxIIII", 6: "IIIII"}
"""Packet blocks (obsolete) and enhanced packet blocks: interface, time, captured length, length."""

_SIMPLE_PACKET = 3
_NAMES = 4
_WITHOUT_PACKETS = (5, 9, 10, 0xBAD, 0x40000BAD)
"""Statistics, journals, secrets and what is custom."""


class _LeftOutError(Exception):
    """Raised for a frame that is not used; the text says what it is."""


class _DamageError(Exception):
    """Raised where a file cannot be read any further."""


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise _DamageError("the file is cut off in a packet")
    return data


def _needed(body: bytes, count: int) -> bytes:
    if len(body) < count:
        raise _DamageError("a block is too short; the file is damaged")
    return body[:count]


def _body(stream: BinaryIO, order: str, head: bytes, read: bytes = b"") -> bytes:
    """The rest of a block, without the length repeated at its end."""
    length = struct.unpack(f"{order}I", head[4:])[0]
    if not 12 + len(read) <= length <= _LONGEST:
        raise _DamageError(f"a block cannot have {length} bytes; the file is damaged")
    return (read + _exactly(stream, length - 8 - len(read)))[:-4]


class _Interface(NamedTuple):
    """What a section says about one interface."""

    linktype: int
    resolution: int
    """`if_tsresol`: a negative power of 10, or of 2 if the highest bit is set."""
    offset_s: int
    name: str = ""
    """`if_name`, where it has one."""

    def time_ns(self, ticks: int) -> int:
        power = self.resolution & 127
        if self.resolution & 128:
            since = (ticks * 1_000_000_000) >> power
        else:
            since = ticks * 1_000_000_000 // 10**power
        return self.offset_s * 1_000_000_000 + since


_COMMENT = 1
_IF_NAME = 2


def _options(order: str, body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """What follows in fields of a code, a length and a value, padded to whole words."""
    while at + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, at)
        yield code, body[at + 4 : at + 4 + length]
        at += 4 + (length + 3) // 4 * 4


def _interface(order: str, body: bytes) -> _Interface:
    linktype = struct.unpack(f"{order}H", _needed(body, 8)[:2])[0]
    resolution, offset, name = 6, 0, ""
    for code, value in _options(order, body, 8):
        if code == _IF_NAME:
            name = value.decode("utf-8", errors="replace")
        elif code == 9 and len(value) == 1:
            resolution = value[0]
        elif code == 14 and len(value) == 8:
            offset = struct.unpack(f"{order}q", value)[0]
    return _Interface(linktype, resolution, offset, name)


def _comment(order: str, body: bytes, captured: int) -> str:
    """What is written about a packet."""
    at = 20 + (captured + 3) // 4 * 4
    said = (value for code, value in _options(order, body, at) if code == _COMMENT)
    return _plain(next(said, b""))


def _host_names(order: str, body: bytes) -> dict[bytes, str]:
    """The first name of each address in a name resolution block."""
    names: dict[bytes, str] = {}
    for kind, value in _options(order, body, 0):
        if kind == 0:
            break
        octets = {1: 4, 2: 16}.get(kind)
        if octets is not None and len(value) > octets:
            name = value[octets:].split(b"\0")[0]
            names.setdefault(value[:octets], _plain(name))
    return names


def _plain(text: bytes) -> str:
    """A file's text as a terminal may have it, in one line."""
    return _plain_text(text.decode("utf-8", errors="replace"))


def _plain_text(text: str) -> str:
    return wording.harmless(" ".join(text.split("\n")))


def is_capture(file: Path) -> bool:
    """Whether a file is a capture, also if it is compressed."""
    return _engine.is_capture(file)


_ETHERNET = 1
_TAGS = (0x8100, 0x88A8, 0x9100)
_HEADERS = {
    **dict.fromkeys((12, 14, 101, 228, 229), 0),  # raw IP
    **dict.fromkeys((0, 108), 4),  # loopbacks of BSD
    113: 16,  # Linux's captures of all interfaces, and their second version
    276: 20,
}
"""Link type -> octets before the IP header."""


def _network_at(linktype: int, frame: bytes) -> int:
    """The position in a frame at which the IP header begins."""
    if linktype == _ETHERNET:
        at = 12
        while len(frame) >= at + 2 and int.from_bytes(frame[at : at + 2]) in _TAGS:
            at += 4
        if frame[at : at + 2] not in (b"\x08\x00", b"\x86\xdd"):
            raise _LeftOutError(NO_IP)
        return at + 2
    if linktype in _HEADERS:
        return _HEADERS[linktype]
    raise _LeftOutError(f"frames of link type {linktype}, which is not read")


_IP4 = struct.Struct(">BxHHHxB2x4s4s")
_IP6 = struct.Struct(">IHBx16s16s")
_FRAGMENT, _AUTHENTICATION = 44, 51
_EXTENSIONS = (0, 43, _FRAGMENT, _AUTHENTICATION, 60, 135, 139, 140)
"""Headers before the payload of IP (RFC 8200 section 4, RFC 4302). Hop-by-hop options, routing,
destination options, mobility, HIP and Shim6 have one form; fragments and authentication have their
own.
"""


def _ip(seen: _Frame) -> Packet:
    """The IP packet of a frame, or a `_LeftOutError`."""
    time_ns, linktype, wire_octets, frame, interface, comment = seen
    at = _network_at(linktype, frame)
    version = frame[at] >> 4 if len(frame) > at else 4
    if version not in (4, 6):
        raise _LeftOutError(NO_IP)
    if len(frame) < at + (20 if version == 4 else 40):
        raise _LeftOutError(CUT)
    if version == 4:
        first, octets, identification, fragment, protocol, source, destination = _IP4.unpack_from(
            frame, at
        )
        header = (first & 15) * 4
        if header < 20:
            raise _LeftOutError(DAMAGED)
        if fragment & 0x1FFF:
            raise _LeftOutError(FRAGMENTS)
    else:
        _, length, protocol, source, destination = _IP6.unpack_from(frame, at)
        identification, header = 0, 40
        octets = length + 40 if length else 0
    # With segmentation offload, large packets have a length of 0.
    octets = octets or max(wire_octets, len(frame)) - at
    while protocol in _EXTENSIONS and (version == 6 or protocol == _AUTHENTICATION):
        extension = frame[at + header : at + min(header + 8, octets)]
        if len(extension) < 8:
            raise _LeftOutError(CUT if header + 8 <= octets else DAMAGED)
        length = (extension[1] + 1) * 8
        if protocol == _FRAGMENT:
            if int.from_bytes(extension[2:4]) >> 3:
                raise _LeftOutError(FRAGMENTS)
            identification = int.from_bytes(extension[4:])
            length = 8
        elif protocol == _AUTHENTICATION:
            length = (extension[1] + 2) * 4
        protocol, header = extension[0], header + length
    if octets < header:
        raise _LeftOutError(DAMAGED)
    payload = frame[at + header : at + octets]
    return Packet(
        time_ns, source, destination, protocol, identification, octets, payload, octets - header,
        interface, comment,
    )  # fmt: skip
