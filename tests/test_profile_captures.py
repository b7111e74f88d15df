"""Captures as others make them: mirrored, with offload, with keep-alives, with timers.

Each kind is made with random numbers, and compared with the same transfer without what makes it
hard.
"""

from pathlib import Path

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import captures
from anabranch.profile import estimate, measure, output
from anabranch.profile.measurement import LossSequence
from support.written_transfers import (
    ENDS,
    FEW,
    MISSING,
    Ends,
    Frames,
    delay_ms,
    lost,
    note,
    profile_of,
    transfer,
)


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
