"""The seeds of the fuzz targets: packets of our own captures.

python tools/fuzz_seeds.py FOLDER

It writes a folder of seeds for each target that reads packets (see fuzz/). From every scenario in
scenarios/ that has such packets, it takes the first ones of each length. The target `capture` has a
folder for each link layer, tunnel and format of file, so that each can be fuzzed by itself.
"""

import gzip
import struct
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import anabranch
from anabranch.errors import ScenarioError

SCENARIOS = Path(__file__).parent.parent / "scenarios"
MOST_PACKETS = 20_000
"""How many packets of each capture are looked at."""
MOST_SEEDS = 300
"""How many seeds each target gets at most."""

PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}
"""IP protocol -> the target that reads what follows the IP header."""


def packets(capture: Path) -> Iterator[bytes]:
    """The first packets of a capture of ours."""
    data = capture.read_bytes()
    at = count = 0
    while at < len(data) and count < MOST_PACKETS:
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:  # Enhanced Packet Block
            (captured,) = struct.unpack_from("<I", data, at + 20)
            yield data[at + 28 : at + 28 + captured]
            count += 1
        at += length


def parts(packet: bytes) -> Iterator[tuple[str, bytes]]:
    """The parts of a packet, each with its target. Their first byte tells how they are read."""
    is_v6 = packet[0] >> 4 == 6
    header, protocol = (40, packet[6]) if is_v6 else (20, packet[9])
    yield "ip", b"\0" + packet
    if len(packet) < 160:
        for name, link, frame in frames(packet):
            # The target makes a file of frames: its link type, then each behind its length.
            yield f"capture/{name}", bytes([LINKS.index(link) << 1 | 1, *[len(frame), *frame] * 2])
            if name == "ethernet":
                for kind, data in files(frame):
                    yield f"capture/{kind}", b"\0" + data
    if protocol in PROTOCOLS:
        yield PROTOCOLS[protocol], bytes([is_v6]) + packet[header:]
    if protocol == 132:
        # Scripts of one act: forged chunks to an end, or a packet to the server.
        chunks = packet[header + 12 :]
        yield (
            "association",
            bytes([0, 0x8F, 0, 0]) + struct.pack(">H", len(chunks)) + chunks + b"\1",
        )
        yield "sctp_listener", bytes([0, 6]) + struct.pack(">H", len(chunks) + 12) + packet[header:]
    if protocol == 6:
        flags, words = packet[header + 13], packet[header + 12] >> 4
        payload = min(255, len(packet) - header - 4 * words)
        how = bytes([is_v6]) + bytes(6) + bytes([flags, payload])
        for value in mptcp_options(packet[header + 20 : header + 4 * words]):
            yield "mptcp", how + bytes([value[0], len(value) - 1]) + value[1:]


LINKS = (0, 1, 9, 50, 51, 101, 104, 105, 108, 113, 127, 204, 219, 228, 229, 239, 276, 12, 147)
"""The link types of `fuzz_targets/capture.rs`."""


def frames(packet: bytes) -> Iterator[tuple[str, int, bytes]]:
    """The packet behind each link layer and in each tunnel: its name, its link type, the frame."""
    is_v6 = packet[0] >> 4 == 6
    kind = b"\x86\xdd" if is_v6 else b"\x08\x00"
    macs = bytes(range(2, 14))
    ppp = (b"\x00\x57" if is_v6 else b"\x00\x21") + packet
    pppoe = struct.pack(">BBHH", 0x11, 0, 7, len(ppp)) + ppp
    mpls = struct.pack(">II", 16 << 12 | 64, 17 << 12 | 0x100 | 64) + packet
    ethernet = macs + kind + packet
    snap = b"\xaa\xaa\x03\0\0\0" + kind + packet
    wireless = b"\x88\x01\0\0" + bytes(20) + bytes(2) + snap
    yield "loopback", 0, b"\x02\0\0\0" + packet
    yield "ethernet", 1, ethernet
    yield "vlan", 1, macs + b"\x88\xa8\0\x05\x81\0\0\x07" + kind + packet
    yield "802.2", 1, macs + struct.pack(">H", len(snap)) + snap
    yield "ppp", 9, b"\xff\x03" + ppp
    yield "ppp", 204, b"\x01" + ppp
    yield "hdlc", 104, b"\x0f\0" + kind + packet
    yield "pppoe", 51, pppoe
    yield "pppoe", 1, macs + b"\x88\x64" + pppoe
    yield "mpls", 219, mpls
    yield "mpls", 1, macs + b"\x88\x47" + mpls[:8] + bytes(4) + ethernet
    yield "raw", 101, packet
    yield "wireless", 105, wireless
    yield "radiotap", 127, struct.pack("<BBHIQBB", 0, 0, 18, 3, 1, 0, 0) + wireless
    yield "sll", 113, b"\0\x04\0\x01\0\x06" + macs[:8] + kind + packet
    yield "sll2", 276, kind + struct.pack(">HIHBB", 0, 3, 1, 0, 6) + macs[:8] + packet
    fields = [(1, b"\x08\0\x03\0"), (9, packet)]
    attributes = (
        struct.pack("<HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
        for number, value in fields
    )
    yield "nflog", 239, b"\x02\0\0\0" + b"".join(attributes)
    yield "gre", 101, outer(47, b"\x30\0" + kind + bytes(8) + packet)
    yield "gre", 101, outer(47, b"\0\0\x65\x58" + ethernet)
    yield "vxlan", 101, outer(17, udp(4789, b"\x08\0\0\0\0\0\x05\0" + ethernet))
    gtp = struct.pack(">BBHIHBB", 0x34, 255, len(packet) + 8, 9, 1, 0, 0x85)
    yield "gtp-u", 101, outer(17, udp(2152, gtp + b"\x01\0\x09\0" + packet))
    yield "ip-in-ip", 101, outer(41 if is_v6 else 4, packet)


def outer(protocol: int, payload: bytes) -> bytes:
    """An IPv4 packet."""
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0)
    return head + b"\x0a\0\0\x01\x0a\0\0\x02" + payload


def udp(port: int, payload: bytes) -> bytes:
    """A datagram to a tunnel's port."""
    return struct.pack(">HHHH", 40_000, port, 8 + len(payload), 0) + payload


class Seen(NamedTuple):
    """A frame of a capture."""

    time_ns: int
    octets: int
    """How long it was; a capture may have less of it."""
    data: bytes


FORMATS = (
    "pcap-little", "pcap-big", "nano-little", "nano-big", "modified-little", "modified-big",
    "pcapng-little", "pcapng-big", "snoop", "erf", "gzip", "zstd",
)  # fmt: skip


def files(frame: bytes) -> Iterator[tuple[str, bytes]]:
    """Whole files with an Ethernet frame three times, by their format."""
    seen = [Seen(time * 1_000_000_000 + 5_000, len(frame), frame) for time in (1, 2, 3)]
    for kind in FORMATS:
        yield kind, file_of(kind, 1, seen)


def file_of(kind: str, link: int, seen: Sequence[Seen]) -> bytes:
    """A file of one of FORMATS; snoop and ERF have Ethernet only."""
    name, _, end = kind.partition("-")
    order = ">" if end == "big" else "<"
    match name:
        case "pcapng":
            return b"".join(_pcapng(order, link, seen))
        case "snoop":
            return b"".join(_snoop(seen))
        case "erf":
            return b"".join(_erf(seen))
        case "gzip":
            return gzip.compress(file_of("pcap-little", link, seen), 1, mtime=0)
        case "zstd":
            return zstandard(file_of("pcap-little", link, seen))
    return b"".join(_pcap(name, order, link, seen))


MAGIC = {"pcap": 0xA1B2C3D4, "nano": 0xA1B23C4D, "modified": 0xA1B2CD34}


def _pcap(name: str, order: str, link: int, seen: Sequence[Seen]) -> Iterator[bytes]:
    unit_ns = 1 if name == "nano" else 1_000
    yield struct.pack(f"{order}IHHIIII", MAGIC[name], 2, 4, 0, 0, 262_144, link)
    for time_ns, octets, data in seen:
        seconds, rest_ns = divmod(time_ns, 1_000_000_000)
        times = seconds & 0xFFFFFFFF, rest_ns // unit_ns
        yield struct.pack(f"{order}IIII", *times, len(data), octets & 0xFFFFFFFF)
        if name == "modified":
            yield struct.pack(f"{order}IHBB", 1, 0x800, 4, 0)
        yield data


def _pcapng(order: str, link: int, seen: Sequence[Seen]) -> Iterator[bytes]:
    def block(kind: int, body: bytes) -> bytes:
        length = struct.pack(f"{order}I", 12 + len(body))
        return struct.pack(f"{order}I", kind) + length + body + length

    yield block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    yield block(1, struct.pack(f"{order}HHI", link, 0, 0) + struct.pack(f"{order}HHB3x", 9, 1, 9))
    for number, (time_ns, octets, data) in enumerate(seen):
        high, low = divmod(time_ns & 0xFFFFFFFFFFFFFFFF, 1 << 32)
        lengths = len(data), octets & 0xFFFFFFFF
        padded = data + bytes(-len(data) % 4)
        if number == 1:  # a Simple Packet Block has no time
            yield block(3, struct.pack(f"{order}I", len(data)) + padded)
        yield block(6, struct.pack(f"{order}IIIII", 0, high, low, *lengths) + padded)


def _snoop(seen: Sequence[Seen]) -> Iterator[bytes]:
    """RFC 1761: Ethernet has number 4 there."""
    yield b"snoop\0\0\0" + struct.pack(">II", 2, 4)
    for time_ns, octets, data in seen:
        seconds, rest_ns = divmod(time_ns, 1_000_000_000)
        padded = data + bytes(-len(data) % 4)
        yield struct.pack(
            ">IIIIII", octets & 0xFFFFFFFF, len(data), 24 + len(padded), 0,
            seconds & 0xFFFFFFFF, rest_ns // 1_000,
        ) + padded  # fmt: skip


def _erf(seen: Sequence[Seen]) -> Iterator[bytes]:
    """The time's upper half is in seconds; type 2 is Ethernet, with two bytes before it."""
    for time_ns, octets, data in seen:
        seconds, rest_ns = divmod(time_ns, 1_000_000_000)
        head = struct.pack("<II", (rest_ns << 32) // 1_000_000_000, seconds & 0xFFFFFFFF)
        kept = data[: 0xFFFF - 18]
        head += struct.pack(">BBHHH", 2, 4, 18 + len(kept), 0, octets & 0xFFFF)
        yield head + bytes(2) + kept


def zstandard(content: bytes) -> bytes:
    """A frame with its content as it is (RFC 8878 section 3.1.1)."""
    frame = b"\x28\xb5\x2f\xfd\xa0" + len(content).to_bytes(4, "little")
    for at in range(0, max(1, len(content)), 1 << 17):
        block = content[at : at + (1 << 17)]
        is_last = at + len(block) == len(content)
        frame += (len(block) << 3 | is_last).to_bytes(3, "little") + block
    return frame


def mptcp_options(options: bytes) -> Iterator[bytes]:
    """The values of MPTCP's options among TCP's options."""
    at = 0
    while at + 1 < len(options) and options[at] != 0:
        if options[at] == 1:
            at += 1
            continue
        if options[at] == 30:
            yield options[at + 2 : at + options[at + 1]]
        at += options[at + 1]


def main() -> int:
    """Writes the seeds."""
    folder = Path(sys.argv[1])
    seeds: dict[str, dict[tuple[int, bytes], bytes]] = defaultdict(dict)
    with tempfile.TemporaryDirectory() as name:
        for path in sorted(SCENARIOS.glob("*.toml")):
            capture = Path(name) / "run.pcapng"
            try:
                scenario = anabranch.load(path, {"run.duration": "12 s"})
            except ScenarioError:  # its phases come later
                scenario = anabranch.load(path)
            anabranch.run(scenario, pcap=capture, pcap_at="all")
            for packet in packets(capture):
                for target, seed in parts(packet):
                    # One seed of each length and beginning: flags, types of chunks, kinds of
                    # options.
                    seeds[target].setdefault((len(seed), seed[13:18]), seed[:2048])
    for target, found in seeds.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        chosen = sorted(found.values(), key=lambda seed: (len(seed), seed))
        step = max(1, len(chosen) // MOST_SEEDS)
        for number, seed in enumerate(chosen[::step]):
            (folder / target / f"{number:04}").write_bytes(seed)
        print(f"{target}: {len(chosen[::step])} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
