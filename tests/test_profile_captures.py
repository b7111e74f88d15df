"""Captures as others make them: mirrored, with offload, with keep-alives, clocks that were set.

Each case of tests/cases/captures has its right answer; beside it, its whole kind is made with
random numbers, and compared with the same transfer without what makes it hard.
"""

import itertools
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import dpkt
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anabranch
import capture_kinds
import captures
from anabranch.errors import AnabranchError
from anabranch.profile import Profile, estimate, measure, output
from anabranch.profile.measurement import LossSequence
from anabranch.profile.numbers import Data
from anabranch.profile.sent_again import at_receiver

CASES = Path(__file__).parent / "cases" / "captures"

FEW = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


def case(*names: str) -> Profile:
    return estimate(measure([CASES / f"{name}.pcap" for name in names]))


def note(profile: Profile, words: str) -> bool:
    return any(words in said for said in profile.measurement.notes)


def lost(profile: Profile) -> tuple[int, int]:
    """Lost packets, and those that count."""
    assert profile.losses is not None
    return profile.losses.count, profile.losses.sent


def delay_ms(profile: Profile) -> float:
    assert profile.delay_s is not None
    return profile.delay_s.value * 1e3


BASES = ["clean-base-v4", "clean-base-v6"]
COPIES = ["dup-20us-v4", "dup-20us-v6", "dup-3ms-v4"]
STEPS = ["clock-step-back", "clock-step-back-v6"]


@pytest.mark.parametrize("name", [*BASES, *COPIES, *STEPS])
def test_five_of_405_packets_are_lost(name: str) -> None:
    """Packets near the end, which may be sent again after it, do not count."""
    found = case(name)
    count, sent = lost(found)
    assert count == 5
    assert 395 <= sent <= 405
    assert delay_ms(found) == pytest.approx(10, abs=0.1)
    assert found.jitter_s is not None
    assert found.jitter_s.value == 0  # all differ by less than a nanosecond
    assert note(found, "copies of one that was captured before") == (name in COPIES)
    assert note(found, "the clock was set back once") == (name in STEPS)


@pytest.mark.parametrize(
    ("name", "delay"), [("dup-4x-id0", 10), ("keepalive-1-byte", 10), ("interactive-crash", 10),
                        ("zero-window-linux", 10), ("zero-window-windows", 10),
                        ("reordered-at-receiver", 10), ("mptcp-v0-two-subflows", 10),
                        ("mptcp-v1-two-subflows", 10), ("sctp-dup-208us", 5),
                        ("sctp-signalling-hb", 5), ("sctp-zero-tail", 5)]
)  # fmt: skip
def test_nothing_is_lost(name: str, delay: float) -> None:
    found = case(name)
    assert lost(found)[0] == 0
    assert delay_ms(found) == pytest.approx(delay, abs=0.1)
    assert not found.delay_is_bound
    assert found.rate_bit_per_s is None or found.rate_is_bound
    assert found.queue_packets is None


@pytest.mark.parametrize("name", ["pppoe", "mpls", "sll-vlan"])
def test_one_of_61_is_lost_behind_another_link_layer(name: str) -> None:
    count, sent = lost(case(name))
    assert count == 1
    assert sent >= 55


def test_probes_and_closed_windows_are_told() -> None:
    assert note(case("keepalive-1-byte"), "12 keep-alives")
    for name in ("zero-window-linux", "zero-window-windows"):
        assert note(case(name), "5 keep-alives and probes")
        assert note(case(name), "window was closed for 90 % of the time")


def test_datagrams_without_numbers_have_no_losses() -> None:
    with pytest.raises(AnabranchError, match="UDP without RTP, whose packets have no numbers"):
        case("bacnet-is-not-rtp")


def test_an_answer_belongs_to_the_last_question() -> None:
    found = case("icmp-same-number")
    assert lost(found) == (3, 60)
    assert delay_ms(found) == pytest.approx(10, abs=0.01)
    assert note(found, "60 questions have one number")


def test_a_timer_bounds_the_delay() -> None:
    found = case("sctp-signalling-delayed-sack")
    assert found.delay_is_bound
    assert found.delay_s is not None
    assert found.delay_s.interval == pytest.approx((0, 0.105))
    assert found.jitter_s is None
    assert note(found, "delayed by up to 200 ms")
    assert "delay" not in " ".join(output.netem(found))
    assert "\ndelay" not in output.toml(found, "x", ("a", "b"))
    assert output.rows(found)[0][1] == "≤ 105 ms"
    assert output.as_json(found, "x")["delay_is_upper_bound"]


def test_a_few_delays_are_not_extrapolated() -> None:
    assert delay_ms(case("short-request")) == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize("loss", [1, 4])
def test_what_an_association_sends_again_on_another_path_was_lost(
    tmp_path: Path, loss: int
) -> None:
    """SCTP sends again where it was not lost (RFC 9260 section 6.4.1)."""
    file = tmp_path / "two.pcapng"
    scenario = anabranch.load(TWO_PATHS.format(loss=loss))
    scalars = anabranch.run(scenario, pcap=file).summary
    frames = capture_kinds.at(file, "one@a") + capture_kinds.at(file, "two@a")
    frames.sort(key=lambda frame: frame.time_s)
    whole = capture_kinds.save(tmp_path / "whole.pcap", frames)
    count, sent = lost(estimate(measure([whole])))
    dropped = scalars["link.one.forward.lost_packets"]
    assert dropped > 20
    # Packets near the end, which may be sent again after it, do not count.
    assert dropped * 0.95 - 2 <= count <= dropped
    assert sent <= scalars["link.one.forward.delivered_packets"] + dropped


TWO_PATHS = """\
name = "two"
run.duration = "20 s"
[links.one]
ends = ["a", "b"]
rate = "8 Mbit/s"
delay = "20 ms"
loss = "{loss} %"
[links.two]
ends = ["a", "b"]
rate = "8 Mbit/s"
delay = "40 ms"
[paths.one]
via = ["one"]
[paths.two]
via = ["two"]
[flows.load]
from = "a"
to = "b"
paths = ["one", "two"]
transport = "sctp"
app = "bulk"
"""


def test_a_path_of_a_multipath_connection_says_so() -> None:
    for name in ("mptcp-v0-two-subflows", "mptcp-v1-two-subflows"):
        found = case(name)
        assert note(found, "Multipath TCP connection, which has 2")
        assert "192.0.2.1:5001" in found.measurement.title


@pytest.mark.parametrize("name", ["tso-base-1mss", "tso-10mss", "tso-far-1mss"])
def test_twelve_of_1212_segments_are_lost(name: str) -> None:
    found = case(name)
    count, sent = lost(found)
    assert count == 12
    assert 1190 <= sent <= 1212
    assert delay_ms(found) == pytest.approx(10, abs=0.1)
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(10e6, rel=0.01)
    assert note(found, "segmentation offload") == (name == "tso-10mss")


@pytest.mark.parametrize("near", ["tso-base-1mss", "tso-10mss"])
@pytest.mark.parametrize("exchanged", [False, True])
def test_offload_at_one_end_of_two_captures(near: str, *, exchanged: bool) -> None:
    found = case(*(["tso-far-1mss", near] if exchanged else [near, "tso-far-1mss"]))
    count, sent = lost(found)
    assert count == 12
    assert sent in (1212, 1214)  # with SYN and the handshake's last packet
    assert delay_ms(found) == pytest.approx(10, abs=0.01)
    assert found.rate_bit_per_s is not None
    assert found.rate_bit_per_s.value == pytest.approx(10e6, rel=0.01)
    assert found.jitter_s is not None
    assert found.jitter_s.value < 1e-3


# Whole kinds.

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


def as_copy(frame: bytes, change: str) -> bytes:
    """The same packet at another place."""
    if change == "mac":
        return bytes([2, 0, 0, 0, 0, 9]) + frame[6:]
    if change == "vlan":
        return frame[:12] + b"\x81\0\0\7" + frame[12:]
    if change == "ttl":
        at = 14 + (8 if frame[14] >> 4 == 4 else 7)
        return frame[:at] + bytes([frame[at] - 1]) + frame[at + 1 :]
    return frame


@FEW
@given(
    ends=ENDS,
    missing=MISSING,
    times=st.integers(2, 4),
    part=st.floats(1e-5, 0.3),
    round_trip=st.floats(0.004, 0.1),
    change=st.sampled_from(["", "mac", "ttl", "vlan"]),
)
def test_copies_change_nothing(  # noqa: PLR0917 - one for each that is drawn
    tmp_path: Path, ends: Ends, missing: set[int], times: int, part: float, round_trip: float,
    change: str,
) -> None:  # fmt: skip
    """However far apart within a round trip, and whatever tells them apart."""
    plain = transfer(ends, 120, missing, round_trip_s=round_trip).frames
    copied = [
        (time + nth * part * round_trip, as_copy(frame, change if nth else ""))
        for time, frame in plain
        for nth in range(times)
    ]
    found, expected = profile_of(tmp_path, copied), profile_of(tmp_path, plain)
    assert lost(found)[0] == lost(expected)[0], (lost(found), lost(expected))
    assert delay_ms(found) == pytest.approx(delay_ms(expected))
    tells = ends.version == 4 and ends.identification == "counts"
    if tells or (not missing and (times - 1) * part * round_trip < 0.0005):
        # Elsewhere, acknowledgements that repeat a number cannot be told from copies.
        copies = (times - 1) * len(plain)
        assert note(found, f"{copies} of {times * len(plain)} packets are copies")
    assert note(found, "are copies")
    assert not note(expected, "copies")


@FEW
@given(ends=ENDS, missing=MISSING, joined=st.integers(2, 44))
def test_offload_is_counted_in_segments(
    tmp_path: Path, ends: Ends, missing: set[int], joined: int
) -> None:
    expected = profile_of(tmp_path, transfer(ends, 150, missing).frames)
    for known in (True, False):  # with SYN, and without
        frames = transfer(ends, 150, missing, joined=joined).frames
        found = profile_of(tmp_path, frames if known else frames[2:])
        assert lost(found)[0] == lost(expected)[0] == len(missing)
        assert delay_ms(found) == pytest.approx(delay_ms(expected), abs=0.7), (
            output.rows(found),
            output.rows(expected),
        )
        assert note(found, "segmentation offload")
        assert found.packet_octets == expected.packet_octets
        assert found.jitter_s is None or found.jitter_s.value < 1e-3


@FEW
@given(ends=ENDS, missing=MISSING, joined=st.integers(2, 44), moved=st.floats(-50, 50))
def test_offload_at_one_end_matches_bytes(
    tmp_path: Path, ends: Ends, missing: set[int], joined: int, moved: float
) -> None:
    """The far end has no offload, and its clock does not agree."""
    near = captures.write(
        tmp_path / "near.pcap", transfer(ends, 150, missing, joined=joined).frames
    )
    # It sees what was sent 10 ms later, and sends 10 ms before what comes back was seen.
    far = []
    of_first = set(missing)
    size = ends.mss - (12 if ends.stamps else 0)
    for time, frame in transfer(ends, 150, missing).frames:
        at = 14 + (20 if ends.version == 4 else 40)
        from_a = frame[at : at + 2] == (40_000).to_bytes(2)
        number = int.from_bytes(frame[at + 4 : at + 8]) - ends.isn - 1
        nth = number // size
        is_data = from_a and number >= 0 and nth in of_first and time > 0.0201
        if is_data and number % size == 0:
            of_first.discard(nth)  # the first time it is lost
            continue
        far.append((time + (0.01 if from_a else -0.01) + moved, frame))
    second = captures.write(tmp_path / "far.pcap", far)
    for files in ([near, second], [second, near]):
        found = estimate(measure(files))
        assert lost(found) == (len(missing), 150 + len(missing))
        assert delay_ms(found) == pytest.approx(10, abs=0.1), (
            output.rows(found),
            found.measurement.notes,
        )


def large(frames: Frames, *, sent: bool) -> Frames:
    """Frames of `captures.transfer` as an end with offload has them.

    Segments of one direction that follow each other within 0.8 ms are one packet: seen with the
    first of up to 16 where they are sent, with the last of two where they arrive.
    """
    most = 16 if sent else 2
    found: Frames = []
    at, follows, time_, count = -1, -1, 0.0, 0
    for time, frame in frames:
        length = int.from_bytes(frame[16:18]) - 52
        number = int.from_bytes(frame[38:42])
        if length > 0 and number == follows and time - time_ < 0.0008 and count < most:
            before, whole = found[at]
            size = int.from_bytes(whole[16:18]) + length
            found[at] = before if sent else time, whole[:16] + size.to_bytes(2) + whole[18:]
            count += 1
        else:
            found.append((time, frame))
            if length <= 0:
                continue
            at, count = len(found) - 1, 1
        follows, time_ = (number + length) % 2**32, time
    return found


@pytest.mark.parametrize("side", ["a", "b"])
def test_offload_at_either_end_of_a_path_changes_little(tmp_path: Path, side: str) -> None:
    link = 'rate = "16 Mbit/s"\ndelay = "20 ms"\nqueue = { kind = "drop_tail", packets = 60 }'
    seen = captures.simulate(link, '{ kind = "tcp" }', '{ kind = "bulk" }', 2, 8)
    frames = captures.transfer(seen, side)
    joined = large(frames, sent=side == "a")
    assert len(joined) < 0.9 * len(frames)
    measured = [measure([captures.write(tmp_path / "c.pcap", each)]) for each in (joined, frames)]
    counts = []
    for each in measured:
        assert isinstance(each.losses, LossSequence)
        counts.append(int(each.losses.lost.sum()))
    assert counts[0] == counts[1] > 5
    found, expected = map(estimate, measured)
    assert note(found, "segmentation offload")
    assert delay_ms(found) == pytest.approx(delay_ms(expected), rel=0.05)
    for one, other in (
        (found.rate_bit_per_s, expected.rate_bit_per_s),
        (found.queue_packets, expected.queue_packets),
    ):
        assert one is not None
        assert other is not None
        assert one.value == pytest.approx(other.value, rel=0.05)


@FEW
@given(
    ends=ENDS,
    # Further apart than a round trip: equal bytes that come sooner are a copy.
    beats=st.lists(st.tuples(st.floats(0.021, 3.0), st.integers(0, 1)), min_size=1, max_size=8),
    closed=st.booleans(),
)
def test_what_repeats_bytes_on_purpose_is_no_loss(
    tmp_path: Path, ends: Ends, beats: list[tuple[float, int]], *, closed: bool
) -> None:
    """Keep-alives with the last byte or none, and probes of a closed window with the next one."""
    writer = transfer(ends, 60)
    time = writer.frames[-1][0] + 0.01
    number = 1 + 60 * (ends.mss - (12 if ends.stamps else 0))
    window = 0 if closed else 60_000
    if closed:
        writer.segment(time, forward=False, number=1, acknowledged=number, window=0)
    for wait, length in beats:
        time += wait
        own = number if closed and length else number - 1
        writer.segment(time, forward=True, number=own, acknowledged=1, length=length)
        writer.segment(time + 0.02, forward=False, number=1, acknowledged=number, window=window)
    time += 0.5
    writer.segment(time, forward=False, number=1, acknowledged=number)
    for nth in range(40):
        begins = time + nth * 0.03
        writer.segment(begins, forward=True, number=number, acknowledged=1, length=100)
        number += 100
        writer.segment(begins + 0.02, forward=False, number=1, acknowledged=number)
    found = profile_of(tmp_path, writer.frames)
    assert lost(found)[0] == 0
    assert note(found, f"{len(beats)} keep-alives and probes")
    assert delay_ms(found) == pytest.approx(10, abs=0.1)


def test_a_byte_that_is_lost_is_no_keep_alive(tmp_path: Path) -> None:
    """What a user types comes a byte at a time; without an answer it is sent again."""
    writer = transfer(Ends(), 1)
    size = Ends().mss
    time = 1.0
    for nth in range(40):
        tries = 2 if nth == 10 else 1
        for one in range(tries):
            writer.segment(time + 0.3 * one, forward=True, number=1 + size + nth, acknowledged=1,
                           length=1)  # fmt: skip
        time += 0.3 * tries
        writer.segment(time - 0.28, forward=False, number=1, acknowledged=2 + size + nth)
    assert lost(profile_of(tmp_path, writer.frames))[0] == 1


@FEW
@given(
    waits=st.lists(st.floats(0.04, 0.2), min_size=12, max_size=60),
    handshake=st.booleans(),
    bulk=st.booleans(),
)
def test_timers_do_not_measure_the_path(
    tmp_path: Path, waits: list[float], *, handshake: bool, bulk: bool
) -> None:
    """Single messages are acknowledged late; a handshake and second packets say how long it is."""
    writer = transfer(Ends(), 30 if bulk else 0)
    if not handshake:
        del writer.frames[:3]
    number = 1 + (30 if bulk else 0) * Ends().mss
    time = 1.0
    for wait in waits:
        writer.segment(time, forward=True, number=number, acknowledged=1, length=200)
        number += 200
        writer.segment(time + 0.02 + wait, forward=False, number=1, acknowledged=number)
        time += 0.5
    found = profile_of(tmp_path, writer.frames)
    if handshake or bulk:
        assert not found.delay_is_bound
        assert delay_ms(found) == pytest.approx(10, abs=0.2)
        assert found.jitter_s is None or found.jitter_s.value < 2e-3
    else:
        assert found.delay_is_bound
        assert delay_ms(found) == pytest.approx((0.02 + min(waits)) * 500, abs=0.1)
    assert found.queue_packets is None
    assert found.rate_bit_per_s is None or found.rate_is_bound


@FEW
@given(
    numbers=st.integers(1, 3),
    answered=st.lists(st.booleans(), min_size=20, max_size=80),
    round_trip=st.floats(0.001, 0.4),
)
def test_echoes_with_repeated_numbers(
    tmp_path: Path, numbers: int, answered: list[bool], round_trip: float
) -> None:
    answered = [True, *answered]
    frames = []
    for nth, is_answered in enumerate(answered):
        for kind, at in ((8, 0.0), (0, round_trip))[: 1 + is_answered]:
            echo = dpkt.icmp.ICMP.Echo(id=7, seq=nth % numbers, data=b"x" * 56)
            data = bytes(dpkt.icmp.ICMP(type=kind, data=echo))
            frame = captures.frame(data, 1, 84, 2 * nth + (kind == 0), forward=kind == 8)
            frames.append((nth * 1.0 + at, frame))
    found = profile_of(tmp_path, frames)
    count, sent = lost(found)
    kept = answered[:sent]
    assert count == kept.count(False)
    assert len(answered) - sent <= 1  # the last one, which may be answered later
    assert delay_ms(found) == pytest.approx(round_trip * 500, abs=0.01)
    assert note(found, "that of the last question before it") == (2 * numbers < len(answered))


@pytest.mark.parametrize("identification", ["counts", "zero"])
def test_equal_addresses_in_two_vlans_are_two_flows(tmp_path: Path, identification: str) -> None:
    """Each VLAN is a place of its own, unless what passes one passes the other, too."""
    ends = Ends(identification=identification)
    one = transfer(ends._replace(vlan=5, isn=7_000_000), 80, {20}, begins_s=0.0003)
    other = transfer(ends._replace(vlan=6), 100, {10, 30, 50})
    found = profile_of(tmp_path, one.frames + other.frames)
    assert lost(found)[0] == 3
    assert note(found, "1 more are not looked at")
    # A router between two VLANs: what it has passed on is a copy.
    plain = transfer(ends._replace(vlan=5), 100, {10, 30, 50}).frames
    routed = []
    for time, frame in plain:
        ways = [frame, frame[:12] + b"\x81\0\0\6" + frame[16:]]
        if frame[16 + 12 + 4 + 2 : 16 + 12 + 4 + 6] == b"\x0a\0\0\2":  # what comes back
            ways.reverse()
        routed += [(time, ways[0]), (time + 0.0004, ways[1])]
    found = profile_of(tmp_path, routed)
    assert lost(found) == lost(profile_of(tmp_path, plain))
    assert not note(found, "more are not looked at")


def test_a_time_that_is_far_away_takes_no_memory(tmp_path: Path) -> None:
    """One of the last packets says that it came 79 years later."""
    frames = transfer(Ends(), 2000, {7}).frames
    far = [(2.5e9 if nth == len(frames) - 9 else time, frame)
           for nth, (time, frame) in enumerate(frames)]  # fmt: skip
    found = estimate(measure([in_order(tmp_path / "c.pcap", far)]))
    assert found.rate_bit_per_s is not None
    assert delay_ms(found) == pytest.approx(10, abs=0.1)


def test_what_a_capture_lacks_is_not_lost(tmp_path: Path) -> None:
    """It was acknowledged, and nobody has sent it again: packets that the capture has missed."""
    writer = Writer(Ends())
    for nth in range(100):
        time, number = nth * 0.01, 1 + nth * 1000
        if nth not in (20, 21, 50, 70):
            writer.segment(time, forward=True, number=number, acknowledged=1, length=1000)
        # Captured at the receiver; one segment is lost, and sent again.
        told = number if 70 <= nth < 75 else number + 1000
        writer.segment(time + 1e-5, forward=False, number=1, acknowledged=min(told, 70_001)
                       if nth < 75 else told)  # fmt: skip
        if nth == 74:
            writer.segment(time + 0.001, forward=True, number=70_001, acknowledged=1, length=1000)
        if nth % 10 == 0:  # what the receiver sends, so that the round trip is known
            writer.segment(time + 2e-5, forward=False, number=1 + nth, acknowledged=told, length=10)
            writer.segment(time + 0.02, forward=True, number=number + 1000, acknowledged=11 + nth)
    assert lost(profile_of(tmp_path, writer.frames))[0] == 1


def test_larger_flows_without_numbers_are_passed_over(tmp_path: Path) -> None:
    plain = transfer(Ends(), 40, {7}).frames
    datagram = bytes(dpkt.udp.UDP(sport=443, dport=443, ulen=1408, data=bytes(1400)))
    quic = [
        (nth * 0.001, captures.frame(datagram, 17, 1428, nth, forward=True)) for nth in range(100)
    ]
    found = profile_of(tmp_path, plain + quic)
    assert found.measurement.title.startswith("TCP from")
    assert lost(found)[0] == 1
    assert note(found, "larger flows of UDP without RTP, which has no numbers: 1")


def test_a_connection_of_few_packets_has_a_delay(tmp_path: Path) -> None:
    found = profile_of(tmp_path, transfer(Ends(), 1).frames)
    assert found.losses is None
    assert delay_ms(found) == pytest.approx(10, abs=0.1)


def test_ports_that_are_used_again_are_two_connections(tmp_path: Path) -> None:
    first = transfer(Ends(), 100, {7, 9})
    whole = transfer(Ends(isn=3_000_000_000), 80, {70}, begins_s=2.0, writer=None)
    found = profile_of(tmp_path, first.frames + whole.frames)
    assert lost(found)[0] == 2
    assert note(found, "1 more are not looked at")


@FEW
@given(
    ends=ENDS,
    missing=MISSING,
    steps=st.lists(st.tuples(st.integers(30, 200), st.floats(0.5, 1e6)), min_size=1, max_size=3),
)
def test_a_clock_that_steps_back_changes_little(
    tmp_path: Path, ends: Ends, missing: set[int], steps: list[tuple[int, float]]
) -> None:
    plain = transfer(ends, 150, missing).frames
    stepped = [
        (time - sum(back for at, back in steps if nth >= at), frame)
        for nth, (time, frame) in enumerate(plain)
    ]
    found = estimate(measure([in_order(tmp_path / "c.pcap", stepped)]))
    expected = profile_of(tmp_path, plain)
    assert lost(found)[0] == lost(expected)[0] == len(missing)
    assert delay_ms(found) == pytest.approx(10, abs=0.1)
    assert note(found, "the clock was set back")


@pytest.mark.parametrize(("version", "repeated"), [(4, False), (6, False), (4, True), (6, True)])
def test_sctp_that_was_captured_twice(tmp_path: Path, version: int, *, repeated: bool) -> None:
    """Equal packets within less than a round trip; a retransmission comes later."""
    frames = []
    for nth in range(40):
        tries = 2 if repeated and nth in (10, 20) else 1
        frame = sctp(version, nth, forward=True)
        frames += [(nth * 0.5 + 0.2 * one, frame) for one in range(tries)]
        answered = nth * 0.5 + 0.2 * (tries - 1) + 0.02
        frames.append((answered, sctp(version, nth, forward=False)))
    twice = [(time + late, frame) for time, frame in frames for late in (0.0, 0.005)]
    found = profile_of(tmp_path, twice)
    assert lost(found)[0] == (2 if repeated else 0)
    assert note(found, f"{len(frames)} of {2 * len(frames)} packets are copies")


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


def tcp_packets(draw: Callable[[Any], Any], count: int) -> Frames:
    writer = Writer(draw(ENDS))
    time = 0.0
    for _ in range(count):
        time += draw(WAITS)
        writer.segment(
            max(time, 0.0), forward=draw(st.booleans()), number=draw(NUMBERS),
            acknowledged=draw(NUMBERS), length=draw(st.sampled_from([0, 0, 1, 100, 1460, 14_600])),
            flags=draw(st.sampled_from([16, 16, 16, 24, 2, 18, 17, 4])),
            window=draw(st.sampled_from([0, 500])),
        )  # fmt: skip
    return writer.frames


def sctp_packets(draw: Callable[[Any], Any], count: int) -> Frames:
    frames, time = [], 0.0
    for _ in range(count):
        time = max(time + draw(WAITS), 0.0)
        frames.append((time, sctp(4, draw(st.integers(0, 30)), forward=draw(st.booleans()))))
    return frames


def other_packets(draw: Callable[[Any], Any], count: int) -> Frames:
    """Echoes, and datagrams that look like RTP."""
    frames, time = [], 0.0
    is_rtp = draw(st.booleans())
    for nth in range(count):
        time = max(time + draw(WAITS), 0.0)
        forward = draw(st.booleans())
        number = draw(st.sampled_from([nth, nth + 1, 7, 65_535]))
        if is_rtp:
            head = struct.pack(">BBHII", 128, 0, number, nth * 160, 1) + bytes(20)
            data, protocol = bytes(dpkt.udp.UDP(sport=9, dport=9, ulen=40, data=head)), 17
        else:
            echo = dpkt.icmp.ICMP.Echo(id=7, seq=number, data=b"x")
            data, protocol = bytes(dpkt.icmp.ICMP(type=8 * forward, data=echo)), 1
        frames.append((time, captures.frame(data, protocol, 20 + len(data), nth, forward=forward)))
    return frames


WAITS = st.sampled_from([0.0, 1e-6, 0.001, 0.02, 0.02, 0.5, 30.0, -0.01, -2.0])
NUMBERS = st.sampled_from([0, 1, 2, 101, 1461, 2921, 14_601, 29_201, 2**31, 2**32 - 1])


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_was_captured_a_profile_is_valid(tmp_path: Path, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([tcp_packets, sctp_packets, other_packets]))
    frames = kind(data.draw, data.draw(st.integers(1, 60)))
    files = [in_order(tmp_path / "c.pcap", frames)]
    if data.draw(st.booleans()):
        files.append(in_order(tmp_path / "d.pcap", frames[data.draw(st.integers(0, 3)) :]))
    try:
        found = estimate(measure(files))
    except AnabranchError:
        return
    is_valid(found)


def is_valid(found: Profile) -> None:
    anabranch.load('run.duration = "1 s"\n' + output.toml(found, "x", ("a", "b")) + LINK)
    for each in (found.delay_s, found.jitter_s, found.rate_bit_per_s, found.mean_loss):
        if each is not None:
            low, high = each.interval
            assert 0 <= low <= each.value <= high
    assert not any("-" in word for line in output.netem(found) for word in line.split()[6:]
                   if word[:1].isdigit())  # fmt: skip


def test_numbers_that_jump_are_no_losses() -> None:
    """However many, they take no memory."""
    jump = 20_000_000
    start = np.arange(2000, dtype=np.int64) * jump
    yes = np.ones(len(start), dtype=bool)
    sizes = np.full(len(start), 1500.0)
    data = Data(np.arange(2000), start / 1e6, start, start + 1460, sizes, sizes, yes, ~yes)
    fates = at_receiver(data, 0.02, None)
    assert len(fates.lost) < 200_000 + 21 * len(start)


@pytest.mark.parametrize("file", sorted(CASES.glob("*.pcap")), ids=lambda file: file.stem)
def test_every_case_has_a_valid_profile_or_a_sentence(file: Path) -> None:
    try:
        found = estimate(measure([file]))
    except AnabranchError:
        assert file.stem == "bacnet-is-not-rtp"
        return
    is_valid(found)
