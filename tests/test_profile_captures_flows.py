"""Which flow of a capture is measured, and what of it counts."""

from pathlib import Path

import dpkt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import captures
from anabranch.profile import estimate, measure
from anabranch.profile.numbers import Data
from anabranch.profile.sent_again import at_receiver
from support.written_transfers import (
    ENDS,
    FEW,
    MISSING,
    Ends,
    Writer,
    delay_ms,
    in_order,
    lost,
    note,
    profile_of,
    sctp,
    transfer,
)


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


def test_numbers_that_jump_are_no_losses() -> None:
    """However many, they take no memory."""
    jump = 20_000_000
    start = np.arange(2000, dtype=np.int64) * jump
    yes = np.ones(len(start), dtype=bool)
    sizes = np.full(len(start), 1500.0)
    data = Data(np.arange(2000), start / 1e6, start, start + 1460, sizes, sizes, yes, ~yes)
    fates = at_receiver(data, 0.02, None)
    assert len(fates.lost) < 200_000 + 21 * len(start)
