"""Rules over what a capture shows: holes that fill, and datagrams that are RTP."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.support import clocks, holes, rtp
from anabranch.support.holes import IN_ORDER, OVERTAKEN, REPEATED, SENT_AGAIN


def kinds(
    packets: list[tuple[int, int, float]], round_trip_s: float, stamps: list[int] | None = None
) -> list[int]:
    starts, ends, seen_s = (np.array(column) for column in zip(*packets, strict=True))
    ticks = None if stamps is None else np.array(stamps)
    return list(holes.kinds(starts, ends, seen_s, round_trip_s, ticks).tolist())


def test_a_hole_that_fills_sooner_than_a_round_trip_was_overtaken() -> None:
    hole = [(0, 10, 0.0), (20, 30, 0.001), (30, 40, 0.002)]
    assert kinds([*hole, (10, 20, 0.003)], 0.02) == [IN_ORDER] * 3 + [OVERTAKEN]
    assert kinds([*hole, (10, 20, 0.021)], 0.02) == [IN_ORDER] * 3 + [SENT_AGAIN]
    # The handshake is not there: as tshark, 3 ms.
    assert kinds([*hole, (10, 20, 0.003)], holes.least_round_trip([]))[-1] == OVERTAKEN
    assert kinds([*hole, (10, 20, 0.005)], holes.least_round_trip([]))[-1] == SENT_AGAIN


def test_a_clock_of_whole_ticks_is_known_by_its_times() -> None:
    rng = np.random.default_rng(1)
    times_s = np.sort(rng.uniform(0, 3, 500))
    assert clocks.tick_s(times_s) == 0
    for tick_s in (1e-3, 0.01, 1 / 64):
        whole = np.floor(times_s / tick_s) * tick_s
        assert clocks.tick_s(whole) == pytest.approx(tick_s, rel=1e-3)
        assert clocks.tick_s(np.floor(whole * 1e6) / 1e6) == pytest.approx(tick_s, rel=1e-3)
        assert clocks.tick_s(np.append(whole, 3.1234567)) == 0
        # A few may be whole by chance.
        assert clocks.tick_s(whole[:10]) == 0
    assert clocks.tick_s(np.zeros(0)) == clocks.tick_s(np.zeros(500)) == 0


def test_a_hole_in_ticks() -> None:
    """Sent again after 40 ms, which ticks of 8 ms may show as 32."""
    packets = [(10 * nth, 10 * nth + 10, 0.008 * nth) for nth in range(30)]
    hole = (310, 320, 0.24)
    assert kinds([*packets, hole, (300, 310, 0.272)], 0.04)[-1] == SENT_AGAIN
    assert kinds([*packets, hole, (300, 310, 0.256)], 0.04)[-1] == OVERTAKEN
    assert kinds([*packets, hole, (300, 310, 0.24)], 0.003)[-1] == OVERTAKEN


def test_time_stamps_know_better_than_times() -> None:
    hole = [(0, 10, 0.0), (20, 30, 0.001), (10, 20, 0.5)]
    assert kinds(hole, 0.02, [100, 102, 101])[-1] == OVERTAKEN
    assert kinds(hole, 0.02, [100, 102, 102])[-1] == SENT_AGAIN
    assert kinds(hole, 0.9, [100, 102, 140])[-1] == SENT_AGAIN
    assert kinds(hole, 0.9, [100, 102, -1])[-1] == OVERTAKEN


def test_what_brings_nothing_new_repeats() -> None:
    packets = [(0, 10, 0.0), (20, 30, 0.0), (10, 20, 0.1), (10, 20, 0.2), (0, 30, 0.3)]
    assert kinds(packets, 0.02)[2:] == [SENT_AGAIN, REPEATED, REPEATED]
    # One of which a part is new was sent again, and what is above it is no hole.
    assert kinds([(0, 10, 0.0), (5, 15, 0.1), (15, 20, 0.2)], 0.02) == [0, SENT_AGAIN, IN_ORDER]


def test_a_byte_that_asked_a_closed_window_goes_with_what_follows() -> None:
    packets = [(0, 10, 0.0), (10, 11, 0.3), (10, 11, 0.9), (10, 30, 1.5), (30, 40, 1.6)]
    assert kinds(packets, 0.02) == [IN_ORDER, IN_ORDER, REPEATED, IN_ORDER, IN_ORDER]


def test_many_holes_cost_no_more_than_few() -> None:
    """Every second packet is missing, and comes at last: bounded, and without a quadratic cost."""
    count = 200_000
    first = [(2 * i, 2 * i + 1, i * 1e-6) for i in range(count)]
    late = [(2 * i + 1, 2 * i + 2, 1.0 + i * 1e-6) for i in range(count - 1)]
    found = np.array(kinds(first + late, 0.01))
    assert (found[:count] == IN_ORDER).all()
    assert (found[count:] == SENT_AGAIN).sum() == count - 1


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=60),
    st.floats(1e-4, 0.05),
)
def test_kinds_are_those_of_the_numbers(packets: list[tuple[int, int]], trip_s: float) -> None:
    """Beside a set of all numbers that have passed."""
    rows = [(start, start + size, index * 1e-3) for index, (start, size) in enumerate(packets)]
    seen: set[int] = set()
    for (start, end, _), kind in zip(rows, kinds(rows, trip_s), strict=True):
        new = set(range(start, end)) - seen
        highest = max(seen, default=start - 1)
        if kind == IN_ORDER:
            assert start >= highest
        elif kind == REPEATED:
            # What was before the first packet of all is no hole that anything opened.
            assert not {number for number in new if number >= packets[0][0]}
            assert end - 1 <= highest
        else:
            assert new
            assert start <= highest
        seen |= set(range(start, end))


def test_what_had_come_before_the_capture_is_no_hole() -> None:
    """At first 30 to 40 had come, with holes before it; 10 to 20 and 40 to 50 are seen."""
    packets = [(10, 20, 0.1), (40, 50, 0.2), (20, 30, 0.5)]
    starts, ends, seen_s = (np.array(column) for column in zip(*packets, strict=True))
    told, above, told_s = np.array([10, 10, 20]), np.array([40, 40, 50]), np.array([0.0, 0.1, 0.3])
    unseen = holes.Unseen.of(ends, seen_s, told, above, told_s)
    assert [unseen.starts.tolist(), unseen.ends.tolist()] == [[10], [40]]
    assert kinds(packets, 0.01)[-1] == SENT_AGAIN
    assert holes.kinds(starts, ends, seen_s, 0.01, unseen=unseen)[-1] == REPEATED


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(-1, 20)), max_size=20),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=10),
)
def test_unseen_are_those_above_all_that_had_passed(
    packets: list[tuple[int, int]],
    reports: list[tuple[int, int, int]],
    runs: list[tuple[int, int]],
) -> None:
    """Beside a set of all numbers."""
    expected: set[int] = set()
    for acknowledged, beyond, index in reports:
        passed = max((start + size for start, size in packets[: index + 1]), default=acknowledged)
        expected |= set(range(max(acknowledged, passed), acknowledged + beyond))
    told, above, at = np.array(reports, dtype=np.int64).reshape(-1, 3).T
    ends = np.array([start + size for start, size in packets])
    unseen = holes.Unseen.of(
        ends,
        np.arange(len(ends)).astype(np.float64),
        told,
        told + above,
        at.astype(np.float64) + 0.5,
    )
    starts, sizes = np.array(runs, dtype=np.int64).reshape(-1, 2).T
    found = unseen.within(starts, starts + sizes).tolist()
    assert found == [len(expected & set(range(one, one + size))) for one, size in runs]


def streams(rows: list[tuple[int, int, int, int, float]]) -> list[rtp.Stream]:
    kind, number, stamp, source, at = (np.array(column) for column in zip(*rows, strict=True))
    return rtp.streams(np.ones(len(rows), dtype=bool), kind, number, stamp, source, seen_s=at)


def speech(
    count: int, kind: int = 0, first: int = 65_500
) -> list[tuple[int, int, int, int, float]]:
    stamp = (1 << 32) - 1000
    return [
        (kind, (first + i) % 65_536, (stamp + 160 * i) % (1 << 32), 7, i * 0.02)
        for i in range(count)
    ]


def test_a_stream_with_losses_and_reordering() -> None:
    rows = speech(400)
    source = random.Random(1)
    lost = {i for i in range(1, 399) if source.random() < 0.3}
    kept = [row for i, row in enumerate(rows) if i not in lost]
    for i in range(0, len(kept) - 1, 7):
        kept[i], kept[i + 1] = kept[i + 1], kept[i]
    (stream,) = streams(kept)
    assert (stream.source, stream.payload_type, stream.clock_hz) == (7, 0, 8000)
    assert rtp.missing(stream).sum() == len(lost)
    assert rtp.codec_of(stream.payload_type) == "g711+plc"


def test_the_clock_of_a_dynamic_type_is_that_which_fits() -> None:
    rows = [(111, i, 960 * i, 3, i * 0.02) for i in range(100)]
    (stream,) = streams(rows)
    assert stream.clock_hz == 48_000
    assert rtp.codec_of(111) is None


def test_comfort_noise_is_not_the_codec() -> None:
    rows = [(13 if i % 5 else 8, *row[1:]) for i, row in enumerate(speech(100))]
    (stream,) = streams(rows)
    assert stream.payload_type == 8


def test_two_sources_between_the_same_ports() -> None:
    other = [(8, i, 160 * i, 9, i * 0.02) for i in range(50)]
    both = [row for pair in zip(speech(50), other, strict=True) for row in pair]
    assert sorted(stream.source for stream in streams(both)) == [7, 9]


@pytest.mark.parametrize(
    "rows",
    [
        # BACnet/IP: the number is a length, the stamp and the source are addresses.
        [(11, 12 + 7 * (i % 5) % 40, 0x0120FFFF, i * 0x01010101, i * 0.5) for i in range(60)],
        [(11, 12 + 13 * i % 40, 0x0120FFFF, 5, i * 0.5) for i in range(200)],
        # A number that jumps, one that never changes, a stamp that stands still.
        [(0, 7919 * i % 65_536, 160 * i, 7, i * 0.02) for i in range(200)],
        [(0, 5, 160 * i, 7, i * 0.02) for i in range(200)],
        [(0, i, 5, 7, i * 0.02) for i in range(200)],
        # An unassigned type; too few of them.
        [(80, i, 160 * i, 7, i * 0.02) for i in range(200)],
        speech(9),
    ],
)
def test_what_behaves_otherwise_is_no_rtp(rows: list[tuple[int, int, int, int, float]]) -> None:
    assert streams(rows) == []
