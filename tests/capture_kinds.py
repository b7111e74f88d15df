"""Captures as others make them, from those of our own runs and packet by packet.

`Frames` are IP packets with their times. What mirror ports, network cards, clocks and VLANs do to a
capture is a function from frames to frames.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

IP, ETHERNET, COOKED = 101, 1, 276


class Frame(NamedTuple):
    """A packet of IP, or with a link layer before it, and when it was captured."""

    time_s: float
    data: bytes


Frames = list[Frame]


def save(path: Path, frames: Iterable[Frame], link: int = IP, snap: int = 65_535) -> Path:
    """A pcap file with ns, in the order of the frames; each cut to `snap` bytes."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, snap, link))
        for time_s, data in frames:
            ns = 1_700_000_000_000_000_000 + round(time_s * 1e9)
            head = struct.pack("<IIII", *divmod(ns, 1_000_000_000), min(len(data), snap), len(data))
            file.write(head + data[:snap])
    return path


def blocks(data: bytes) -> Iterator[bytes]:
    """Those of a pcapng file."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        assert length >= 12
        yield data[at : at + length]
        at += length


def at(file: Path, interface: str) -> Frames:
    """What a capture of `anabranch run` has of one interface."""
    names: list[str] = []
    found = []
    for block in blocks(file.read_bytes()):
        kind = int.from_bytes(block[:4], "little")
        if kind == 1:
            names.append(_name(block))
        elif kind == 6:
            number, high, low, captured, _ = struct.unpack_from("<IIIII", block, 8)
            if names[number] == interface:
                found.append(Frame((high << 32 | low) / 1e9, block[28 : 28 + captured]))
    return found


def _name(block: bytes) -> str:
    """The `if_name` of an interface's block."""
    offset = 16
    while offset + 4 <= len(block) - 4:
        code, length = struct.unpack_from("<HH", block, offset)
        if code == 2:
            return block[offset + 4 : offset + 4 + length].decode()
        offset += 4 + (length + 3) // 4 * 4
    raise AssertionError("an interface of our captures has a name")


def mirrored(frames: Frames, times: int, apart_s: float, *, identified: bool) -> Frames:
    """Each packet as often, so far apart; with another TTL, and identification 0 if not told."""
    found = []
    for number, (time_s, data) in enumerate(frames):
        packet = bytearray(data)
        if packet[0] >> 4 == 4:
            packet[4:6] = (1 + number % 65_535 if identified else 0).to_bytes(2)
        for copy in range(times):
            if packet[0] >> 4 == 4:
                packet[8] = 64 - copy
            found.append(Frame(time_s + copy * apart_s, bytes(packet)))
    return sorted(found, key=lambda frame: frame.time_s)


def set_back(frames: Frames, by_s: float) -> Frames:
    """The clock is set back in the middle."""
    half = len(frames) // 2
    return frames[:half] + [Frame(time_s - by_s, data) for time_s, data in frames[half:]]


def in_vlan(frames: Frames, vlan: int) -> Frames:
    """With Ethernet and a tag before IP."""
    head = bytes(12) + struct.pack(">HH", 0x8100, vlan)
    return [
        Frame(time_s, head + (b"\x08\x00" if data[0] >> 4 == 4 else b"\x86\xdd") + data)
        for time_s, data in frames
    ]


def cooked(frames: Frames, interface: int) -> Frames:
    """With the header of `tcpdump -i any` before IP (SLL2), as seen at this interface."""
    found = []
    for time_s, data in frames:
        kind = b"\x08\x00" if data[0] >> 4 == 4 else b"\x86\xdd"
        head = kind + bytes(2) + struct.pack(">IHBB", interface, 1, 0, 6) + bytes(8)
        found.append(Frame(time_s, head + data))
    return found


def fragmented(frames: Frames, mtu: int, *, last_first: bool = False) -> Frames:
    """Packets of IPv4 that are longer, in as many fragments as it takes (RFC 791 section 3.2)."""
    found = []
    for number, (time_s, data) in enumerate(frames):
        if len(data) <= mtu:
            found.append(Frame(time_s, data))
            continue
        assert data[0] == 0x45
        step = (mtu - 20) // 8 * 8
        payload = data[20:]
        parts = []
        for start in range(0, len(payload), step):
            part, head = payload[start : start + step], bytearray(data[:20])
            more = 0x2000 if start + step < len(payload) else 0
            head[2:4] = (20 + len(part)).to_bytes(2)
            head[4:6] = (1 + number % 65_535).to_bytes(2)
            head[6:8] = (more | start // 8).to_bytes(2)
            parts.append(bytes(head) + part)
        found += [Frame(time_s, part) for part in (parts[::-1] if last_first else parts)]
    return found


def payload_of(data: bytes) -> int:
    """Bytes of TCP's payload of an IPv4 packet."""
    assert data[0] == 0x45
    return int.from_bytes(data[2:4]) - 20 - (data[32] >> 4) * 4


def offloaded(frames: Frames, most: int) -> Frames:
    """At a sender whose card cuts packets: up to `most` segments that follow each other are one.

    Only new data is joined, within 1 ms; what is sent again goes alone.
    """
    found: Frames = []
    joined = 1
    highest: dict[bytes, int] = {}
    for time_s, data in frames:
        last = found[-1] if found else None
        sequence = int.from_bytes(data[24:28])
        length = payload_of(data)
        is_next = (
            last is not None
            and length > 0
            and sequence >= highest.get(data[12:24], 0)
            and last.data[12:24] == data[12:24]
            and payload_of(last.data) > 0
            and int.from_bytes(last.data[24:28]) + payload_of(last.data) == sequence
            and (data[33] | last.data[33]) & 7 == 0
            and joined < most
            and time_s - last.time_s < 1e-3
        )
        highest[data[12:24]] = max(highest.get(data[12:24], 0), sequence + length)
        if not is_next or last is None:
            found.append(Frame(time_s, data))
            joined = 1
            continue
        joined += 1
        whole = bytearray(last.data + data[len(data) - length :])
        whole[2:4] = len(whole).to_bytes(2)
        found[-1] = Frame(last.time_s, bytes(whole))
    return found


SYN, ACK, PSH = 2, 16, 8
ONE, OTHER = b"\xc0\x00\x02\x01", b"\xc0\x00\x02\x02"


class Talk:
    """A connection of TCP, packet by packet, as the side that opens it sees it."""

    def __init__(self, round_trip_s: float) -> None:
        self.frames: Frames = []
        self.trip_s = round_trip_s
        self.now_s = 0.0
        self.sent, self.number = 1000, 0
        self.window = 50_000
        self.packet(SYN, 1000)
        self.wait(round_trip_s)
        self.packet(SYN | ACK, 5000, 1001, forward=False)
        self.sent = 1001
        self.packet(ACK, self.sent, 5001)

    def packet(
        self,
        flags: int,
        sequence: int,
        acknowledged: int = 0,
        length: int = 0,
        *,
        forward: bool = True,
    ) -> None:
        """A packet that is seen now."""
        self.number += 1
        ports = (40_000, 5000) if forward else (5000, 40_000)
        window = 50_000 if forward else self.window
        tcp = struct.pack(">HHIIBBHHH", *ports, sequence, acknowledged, 80, flags, window, 0, 0)
        ends = ONE + OTHER if forward else OTHER + ONE
        octets = 40 + length
        head = struct.pack(">BBHHHBBH", 0x45, 0, octets, self.number, 0x4000, 64, 6, 0)
        self.frames.append(Frame(self.now_s, head + ends + tcp + bytes(length)))

    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.now_s += seconds

    def data(self, length: int) -> None:
        """New data, and its acknowledgement a round trip later."""
        self.packet(ACK | PSH, self.sent, 5001, length)
        self.sent += length
        self.answer()

    def answer(self) -> None:
        """The acknowledgement of all there is."""
        self.wait(self.trip_s)
        self.packet(ACK, 5001, self.sent, forward=False)

    def ask(self, octets: int, *, is_new: bool = False) -> None:
        """A keep-alive or a probe: the byte before the next one, the next one, or none."""
        self.packet(ACK, self.sent if is_new else self.sent - 1, 5001, octets)
        self.answer()


class Call:
    """Speech in RTP both ways with reports of RTCP, as seen at the end of the first side.

    Packets of the far end come half a round trip after they were sent; `lost` of them do not.
    """

    def __init__(self, round_trip_s: float, seconds: float, lost: set[int], *, above: int) -> None:
        self.frames: Frames = []
        half_s = round_trip_s / 2
        count = int(seconds * 50)
        for number in range(count):
            self.rtp(number * 0.02, number, 1, forward=True)
            if number not in lost:
                self.rtp(number * 0.02 + half_s, number, 2, forward=False)
        # Each side says every 2 s what it heard; the other answers that 0.5 s later.
        for number in range(1, int(seconds / 2)):
            at_s = 2.0 * number
            stamp, told = 1000 + 65_536 * 2 * number, 77 + 65_536 * 2 * number
            self.report(at_s, above, 1, stamp, (2, 0, 100 * number, 0, 0.0))
            heard_s = at_s + half_s
            self.report(
                heard_s + 0.5 + half_s, above, 2, told, (1, 3 * number, 100 * number, stamp, 0.5)
            )
        self.frames.sort(key=lambda frame: frame.time_s)

    def rtp(self, time_s: float, number: int, source: int, *, forward: bool) -> None:
        """A packet of 20 ms in PCMU."""
        head = struct.pack(">BBHII", 0x80, 0, number % 65_536, 160 * number, source)
        self.datagram(time_s, 4000, head + bytes(160), forward=forward)

    def report(
        self,
        time_s: float,
        above: int,
        source: int,
        stamp: int,
        about: tuple[int, int, int, int, float],
    ) -> None:
        """A sender report with one block: about whom, lost, highest, LSR and DLSR in s."""
        whom, lost, highest, last, waited_s = about
        data = struct.pack(">BBHI", 0x81, 200, 12, source)
        data += struct.pack(">QIII", stamp << 16, 0, 0, 0)
        data += struct.pack(">II", whom, lost & 0xFFFFFF) + struct.pack(">II", highest, 0)
        data += struct.pack(">II", last, int(waited_s * 65_536))
        self.datagram(time_s, 4000 + above, data, forward=source == 1)

    def datagram(self, time_s: float, port: int, data: bytes, *, forward: bool) -> None:
        """With headers of IP and UDP."""
        udp = struct.pack(">HHHH", port, port, 8 + len(data), 0) + data
        ends = ONE + OTHER if forward else OTHER + ONE
        number = len(self.frames) % 65_535 + 1
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), number, 0x4000, 64, 17, 0)
        self.frames.append(Frame(time_s, head + ends + udp))
