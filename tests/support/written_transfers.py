"""Transfers over TCP, written packet by packet as their sender has captured them."""

import itertools
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import dpkt
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import anabranch
import captures
from anabranch.profile import Profile, estimate, measure, output

FEW = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


def note(profile: Profile, words: str) -> bool:
    return any(words in said for said in profile.measurement.notes)


def lost(profile: Profile) -> tuple[int, int]:
    """Lost packets, and those that count."""
    assert profile.losses is not None
    return profile.losses.count, profile.losses.sent


def delay_ms(profile: Profile) -> float:
    assert profile.delay_s is not None
    return profile.delay_s.value * 1e3


Frames = list[tuple[float, bytes]]


class Ends(NamedTuple):
    """Both ends of a connection, as their packets show them."""

    version: int = 4
    identification: str = "counts"
    """`counts`, `zero` or `constant`."""
    stamps: bool = False
    vlan: int | None = None
    isn: int = 1000

    @property
    def mss(self) -> int:
        """Of packets of 1500 bytes."""
        return 1460 if self.version == 4 else 1440


class Writer:
    """Ethernet frames of one connection, in the order in which they are written."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.count = 0
        self.frames: Frames = []

    def segment(
        self,
        time: float,
        *,
        forward: bool,
        number: int,
        acknowledged: int,
        length: int = 0,
        flags: int = dpkt.tcp.TH_ACK,
        window: int = 60_000,
    ) -> None:
        """A segment; numbers are relative to the initial ones."""
        ends = self.ends
        options = b"\2\4" + ends.mss.to_bytes(2) if flags & dpkt.tcp.TH_SYN else b""
        if ends.stamps:
            stamp = 5000 + int(time * 1000)
            options += b"\1\1\10\12" + struct.pack(">II", stamp, 0)
        isn = ends.isn, 9000
        own, peer = isn if forward else isn[::-1]
        header = dpkt.tcp.TCP(
            sport=40_000 if forward else 5000, dport=5000 if forward else 40_000,
            seq=(own + number) % 2**32, ack=(peer + acknowledged) % 2**32, flags=flags, win=window,
            opts=options,
        )  # fmt: skip
        header.off = 5 + len(options) // 4
        octets = bytes(header)
        self.frames.append((time, self._frame(octets, length, forward=forward)))

    def _frame(self, header: bytes, length: int, *, forward: bool) -> bytes:
        ends = self.ends
        self.count += 1
        hosts = (b"\x0a\0\0\1", b"\x0a\0\0\2") if forward else (b"\x0a\0\0\2", b"\x0a\0\0\1")
        size = len(header) + length
        if ends.version == 4:
            number = {"counts": self.count, "zero": 0, "constant": 77}[ends.identification]
            fields = (0x45, 0, 20 + size, number, 0x4000, 64, 6, 0)
            packet = struct.pack(">BBHHHBBH", *fields) + b"".join(hosts) + header
        else:
            hosts = tuple(bytes(12) + host for host in hosts)  # type: ignore[assignment]
            packet = struct.pack(">IHBB", 0x60000000, size, 6, 64) + b"".join(hosts) + header
        kind = b"\x08\0" if ends.version == 4 else b"\x86\xdd"
        tag = b"" if ends.vlan is None else b"\x81\0" + ends.vlan.to_bytes(2)
        return bytes(12) + tag + kind + packet


def transfer(
    ends: Ends,
    count: int,
    missing: Iterable[int] = (),
    *,
    round_trip_s: float = 0.02,
    joined: int = 1,
    begins_s: float = 0.0,
    writer: Writer | None = None,
) -> Writer:
    """A transfer at 10 Mbit/s that its sender has captured.

    Parameters
    ----------
    ends
        Its ends.
    count
        Full segments.
    missing
        Those that are lost the first time, and sent again 1.2 round trips later.
    round_trip_s
        The round trip.
    joined
        How many segments are one packet where it is captured.
    begins_s
        When it begins.
    writer
        What writes it.
    """
    writer = writer or Writer(ends)
    size = ends.mss - (12 if ends.stamps else 0)
    at = begins_s
    writer.segment(at, forward=True, number=0, acknowledged=0, flags=dpkt.tcp.TH_SYN)
    at += round_trip_s
    both = dpkt.tcp.TH_SYN | dpkt.tcp.TH_ACK
    writer.segment(at, forward=False, number=0, acknowledged=1, flags=both)
    writer.segment(at + 1e-4, forward=True, number=1, acknowledged=1)
    at += 2e-4
    gone = set(missing)
    sent: list[tuple[float, str, int, int]] = []
    arrivals: list[tuple[float, int]] = []
    for first in range(0, count, joined):
        of = min(joined, count - first)
        begin = at + first * 0.0012
        sent.append((begin, "data", first, of))
        for nth in range(first, first + of):
            leaves = at + nth * 0.0012
            if nth in gone:
                again = leaves + 1.2 * round_trip_s
                sent.append((again, "data", nth, 1))
                leaves = again
            arrivals.append((leaves + round_trip_s, nth))
    received: set[int] = set()
    expected = 0
    for time, nth in sorted(arrivals):
        received.add(nth)
        while expected in received:
            expected += 1
        sent.append((time, "ack", expected, 0))
    for time, kind, nth, of in sorted(sent):
        if kind == "data":
            writer.segment(time, forward=True, number=1 + nth * size, acknowledged=1,
                           length=of * size)  # fmt: skip
        else:
            writer.segment(time, forward=False, number=1, acknowledged=1 + nth * size)
    return writer


def profile_of(folder: Path, frames: Frames, name: str = "c.pcap") -> Profile:
    return estimate(measure([captures.write(folder / name, frames)]))


def in_order(path: Path, frames: Frames) -> Path:
    """Frames in the order of the list, whatever their times are."""
    with path.open("wb") as file:
        writer = dpkt.pcap.Writer(file, snaplen=128, linktype=dpkt.pcap.DLT_EN10MB)
        for time, frame in frames:
            writer.writepkt(frame[:128], ts=captures.START + time)
    return path


ENDS = st.sampled_from(
    [Ends(version, identification, stamps) for version, identification, stamps in
     itertools.product((4, 6), ("counts", "zero", "constant"), (False, True))]
)  # fmt: skip


MISSING = st.sets(st.integers(5, 100), max_size=6)


def sctp(version: int, nth: int, *, forward: bool) -> bytes:
    """A packet with one DATA or SACK chunk."""
    chunk = (
        struct.pack(">BBHIHHI", 0, 3, 116, 100 + nth, 0, nth, 0) + bytes(100)
        if forward
        else struct.pack(">BBHIIHH", 3, 0, 16, 100 + nth, 65_535, 0, 0)
    )
    ports = struct.pack(">HHII", *((2905, 2906) if forward else (2906, 2905)), 5 + forward, 0)
    data = ports + chunk
    if version == 4:
        return captures.frame(data, 132, 20 + len(data), 0, forward=forward)
    hosts = [bytes(15) + b"\1", bytes(15) + b"\2"]
    header = struct.pack(">IHBB", 0x60000000, len(data), 132, 64)
    return bytes(12) + b"\x86\xdd" + header + b"".join(hosts[:: 1 if forward else -1]) + data


# Whatever a capture has, its profile is a link of a scenario.
LINK = """
[flows.f]
from = "a"
to = "b"
paths = ["x"]
transport = { kind = "udp" }
app = { kind = "datagrams", rate = "100 kbit/s", intervals = { kind = "cbr" } }
"""


def is_valid(found: Profile) -> None:
    anabranch.load('run.duration = "1 s"\n' + output.toml(found, "x", ("a", "b")) + LINK)
    for each in (found.delay_s, found.jitter_s, found.rate_bit_per_s, found.mean_loss):
        if each is not None:
            low, high = each.interval
            assert 0 <= low <= each.value <= high
    assert not any("-" in word for line in output.netem(found) for word in line.split()[6:]
                   if word[:1].isdigit())  # fmt: skip
