"""Rules for packets of captures: copies, segments, clocks, and rows with what is beside them."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.support import clocks, copies, flows, segments
from anabranch.support.capture import Capture
from anabranch.support.gathered import chosen, joined
from anabranch.support.packets import Packets
from capture_kinds import ONE, OTHER, Frame, save

CASES = Path(__file__).parent / "cases" / "captures"


def found(
    names: str,
    seen_s: list[float],
    *,
    tells: bool = False,
    numbered: str = "",
    round_trip_s: float = 0.02,
    tick_s: float = np.inf,
) -> list[int]:
    """The rows that are copies, where equal letters are equal packets."""
    count = len(names)
    key = np.array([ord(name) for name in names], dtype=np.uint64)
    return np.flatnonzero(
        copies.copies(
            key,
            np.array(seen_s),
            np.zeros(count, dtype=np.int64),
            forward=np.zeros(count, dtype=bool),
            tells_apart=np.full(count, tells),
            is_numbered=np.array([name in (numbered or names) for name in names]),
            round_trip_s=np.full(count, round_trip_s),
            tick_s=np.full(count, tick_s),
        )
    ).tolist()


def test_what_comes_again_within_a_round_trip_is_a_copy() -> None:
    assert found("aabb", [0, 0.019, 0.03, 0.051]) == [1]
    # The round trip counts from the first packet, not from its copy.
    assert found("aaa", [0, 0.015, 0.024]) == [1]
    assert found("aaaa", [0, 0.015, 0.024, 0.03]) == [1, 3]
    assert found("aa", [0, 0.1], tells=True) == [1]
    assert found("aa", [0, 0.6], tells=True) == []


def test_copies_behind_a_queue_wait_as_long_as_those_beside_them() -> None:
    """Captured at both ends: sent every 1 ms, each waits 2 ms more than the one before."""
    names = [chr(ord("A") + nth) for nth in range(20)]
    sent = [(name, nth * 1e-3) for nth, name in enumerate(names)]
    come = [(name, nth * 1e-3 + 0.01 + nth * 2e-3) for nth, name in enumerate(names)]
    # One was lost, and is sent again a way back after those beside it came.
    come[12] = (names[12], come[12][1] + 0.012)
    seen = sorted([*sent, *come, (names[12], come[12][1] + 0.05)], key=lambda one: one[1])
    letters, seen_s = "".join(name for name, _ in seen), [at_s for _, at_s in seen]
    wanted = [row for row in range(len(seen)) if letters.index(letters[row]) < row]
    again = next(row for row in wanted if letters[row] == names[12])
    assert found(letters, seen_s) == [row for row in wanted if row != again]
    # Of a mirror, which shows all at once, nothing else is a copy.
    mirrored = [(name, at_s + 5e-4) for name, at_s in sent] + [(names[3], 0.05)]
    seen = sorted([*sent, *mirrored], key=lambda one: one[1])
    assert len(found("".join(name for name, _ in seen), [at_s for _, at_s in seen])) == 20


def test_a_time_stamp_that_should_have_changed_is_that_of_a_copy() -> None:
    """Sent again later than a tick, a packet has another one (RFC 7323 section 3.2)."""
    assert found("aabb", [0, 0.05, 0.06, 0.9], tick_s=1e-3) == [1, 3]
    assert found("aa", [0, 0.05], tick_s=0.1) == []
    assert found("aa", [0, 0.0015], tick_s=1e-3, round_trip_s=1e-4) == []
    assert found("aa", [0, 0.0021], tick_s=1e-3, round_trip_s=1e-4) == [1]
    # Acknowledgements too, but for those that are sent in one tick.
    assert found("kkk", [0, 0.0001, 0.7], numbered="c", tick_s=1e-3) == [2]


def test_ticks() -> None:
    stamp = np.array([-1, 5, (1 << 32) - 100, 15, 900, 15, -1, 77, 77, 9, 3])
    sender = np.array([0, 0, 1, 0, 1, 0, 1, 2, 2, 3, 3])
    seen_s = np.arange(len(stamp)) / 10
    # From 5 to 15 in 0.4 s; from 100 before the numbers start over to 900 in 0.2 s; never; back.
    expected = [0.04, 0.0002, np.inf, np.inf]
    ticks = copies.ticks(stamp, sender, seen_s)
    assert ticks == pytest.approx(
        [expected[of] if has else np.inf for of, has in zip(sender, stamp >= 0, strict=True)]
    )
    assert (
        copies.ticks(np.full(3, -1), np.zeros(3, dtype=int), np.zeros(3)).tolist() == [np.inf] * 3
    )
    assert len(copies.ticks(np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.zeros(0))) == 0


@pytest.mark.parametrize("unknown", [np.inf, np.nan, 0.0])
def test_an_unknown_round_trip_is_short(unknown: float) -> None:
    assert found("aabb", [0, 0.0009, 0.1, 0.1011], round_trip_s=unknown) == [1]


def test_acknowledgements_alone_may_be_equal() -> None:
    """They are copies where the data has copies, and no further apart than twice as these."""
    assert found("ackkk", [0, 0.01, 0.02, 0.021, 0.022], numbered="ac") == []
    times = [0, 0.001, 0.01, 0.011, 0.02, 0.021, 0.023]
    assert found("aacckkk", times, numbered="ac") == [1, 3, 5]


def test_an_identification_tells_if_it_differs() -> None:
    key = np.arange(10, dtype=np.uint64) // 2
    sender = np.zeros(10, dtype=np.int64)
    assert copies.tells(key, np.arange(10) // 2 + 1, sender).all()
    for useless in (0, 77, -1):
        assert not copies.tells(key, np.full(10, useless), sender).any()


def test_places_of_copies_are_one() -> None:
    key = np.array([1, 1, 2, 3, 3, 4], dtype=np.uint64)
    place = np.array([0, 2, 2, 1, 1, 3])
    is_copy = np.array([False, True, False, False, True, False])
    assert copies.places(key, place, is_copy).tolist() == [0, 0, 0, 1, 1, 3]


INIT, INIT_ACK, ABORT, COOKIE_ECHO, DATA, SACK = 1, 2, 6, 10, 0, 3


def connections(folder: Path, talk: list[tuple[str, int, int, int]]) -> list[int]:
    """The associations of packets: way, verification tag, chunk, and tag that this asks for."""
    frames = []
    for number, (way, tag, kind, asked) in enumerate(talk):
        body = struct.pack(">IIHHI", asked, 9000, 1, 1, 7)
        chunk = struct.pack(">BBH", kind, 3, 4 + len(body)) + body
        ports, ends = ((5, 6), ONE + OTHER) if way == ">" else ((6, 5), OTHER + ONE)
        sctp = struct.pack(">HHII", *ports, tag, 0) + chunk
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(sctp), number, 0, 64, 132, 0)
        frames.append(Frame(number / 100, head + ends + sctp))
    (packets,) = Capture(save(folder / "talk.pcap", frames)).batches()
    assert len(packets) == len(talk)
    flow, forward = flows.numbered(packets)
    of = flows.connections(packets, np.arange(len(packets)), flow, forward)
    return [int(one) for one in of]


def test_ports_of_sctp_that_are_used_again(tmp_path: Path) -> None:
    """Tags tell associations apart (RFC 9260 section 8.5)."""

    def association(mine: int, yours: int) -> list[tuple[str, int, int, int]]:
        return [
            (">", 0, INIT, mine), (">", 0, INIT, mine), ("<", mine, INIT_ACK, yours),
            (">", yours, COOKIE_ECHO, 0), (">", yours, DATA, 0), ("<", mine, SACK, 0),
        ]  # fmt: skip

    first, second = association(11, 22), association(33, 44)
    assert connections(tmp_path, first + second) == [0] * 6 + [1] * 6
    assert connections(tmp_path, first[4:] + second) == [0] * 2 + [1] * 6
    assert connections(tmp_path, [first[4], second[4]]) == [0, 1]
    # The other end begins the next one.
    back = [("<" if way == ">" else ">", tag, kind, own) for way, tag, kind, own in second]
    assert connections(tmp_path, first + back) == [0] * 6 + [1] * 6
    # An INIT that is not answered, and what comes late, change nothing of the others.
    late = [*first, (">", 0, INIT, 55), first[4], *second, first[5], second[5]]
    assert connections(tmp_path, late) == [0] * 6 + [1, 0] + [2] * 6 + [0, 2]
    # Both ends ask at once (section 5.2.1); an ABORT has the tag of what it answers (8.5.1).
    both = [(">", 0, INIT, 11), ("<", 0, INIT, 22), *first[2:], (">", 11, ABORT, 0), first[4]]
    assert connections(tmp_path, both) == [0] * 8
    # Made by hand: one tag for both ends.
    assert connections(tmp_path, association(7, 7)) == [0] * 6


def most(payload: list[int], header: int = 40, mss: int | None = None, peers: int = 0) -> int:
    sizes = np.array(payload)
    whole = np.full(len(sizes), header)
    (one,) = set(segments.largest(sizes, whole, 40, (mss, peers or mss)).tolist())
    return int(one)


def test_the_largest_segment() -> None:
    assert most([14_600], mss=1460) == 1460
    assert most([14_480], header=52, mss=1460) == 1448  # RFC 6691
    assert most([14_600, 100]) == 1460
    # A tunnel's packets, and jumbo frames.
    assert most([1360] * 5 + [13_600] * 20) == 1360
    assert most([8960] * 30 + [3000]) == 8960
    assert most([8760] * 30 + [1460] * 2) == 1460
    assert most([10], mss=1) == 216


def test_an_end_may_send_more_than_it_takes() -> None:
    """Full segments of one size that the peer takes are no work of a network card."""
    assert most([1446] * 9 + [600], mss=1430, peers=1460) == 1460
    assert most([2860] * 9 + [600], mss=1430, peers=1460) == 1430
    assert most([1446, 1435, 1440, 600], mss=1430, peers=1460) == 1430
    assert most([14_600], mss=1460, peers=1380) == 1380


@settings(max_examples=100)
@given(
    packets=st.lists(
        st.tuples(st.integers(0, 70_000), st.sampled_from([40, 52, 60]), st.integers(0, 1)),
        min_size=1,
        max_size=20,
    ),
    most=st.integers(216, 9000),
)
def test_segments_are_the_whole_packet(packets: list[tuple[int, int, int]], most: int) -> None:
    payload, header, fin = np.array(packets).T
    start = np.concatenate([[7], 7 + np.cumsum(payload + fin)[:-1]])
    end = start + payload + fin
    cut = segments.split(start, end, payload, payload + header, np.full(len(start), most))
    count = np.bincount(cut.packet)
    assert (count == np.maximum(-(-payload // most), 1)).all()
    assert (
        np.bincount(cut.packet, weights=cut.octets).astype(int).tolist()
        == (payload + header * count).tolist()
    )
    assert (cut.octets - header[cut.packet] <= most).all()
    # One after the other, without a hole.
    assert cut.start[0] == 7
    assert (cut.start[1:] == cut.end[:-1]).all()
    assert cut.end[-1] == end[-1]
    last = np.flatnonzero(np.diff(cut.packet, append=-1))
    assert cut.sent[last].tolist() == (payload + header * count).tolist()


def test_a_clock_that_was_set_back_is_not_a_late_packet() -> None:
    second = 1_000_000_000
    times = np.arange(100, dtype=np.int64) * second // 100
    late = times.copy()
    late[50] -= second // 2
    assert not clocks.clocks(late).any()
    late[50:] = times[50:] - second // 100 * 5  # by less than 0.1 s
    assert not clocks.clocks(late).any()
    for back in (second // 5, 30 * second):
        stepped = times.copy()
        stepped[50:] -= back
        clock = clocks.clocks(stepped)
        assert clock.tolist() == [0] * 50 + [1] * 50
        assert (np.diff(clocks.continued(stepped, clock)) == second // 100).all()


@pytest.mark.filterwarnings("error")
def test_times_that_no_clock_has_are_no_overflow() -> None:
    times = np.repeat([2**62, -(2**62), 2**62, 0, 2**62, 5], 10)
    clock = clocks.clocks(times)
    assert clock.max() > 0
    assert len(clocks.continued(times, clock)) == len(times)


def test_many_steps_take_no_longer() -> None:
    """Each packet is before the last one: no piece is looked at twice."""
    times = -np.arange(100_000, dtype=np.int64) * 1_000_000_000
    clock = clocks.clocks(times)
    assert clock[-1] == len(times) - 1
    assert (np.diff(clocks.continued(times, clock)) >= 0).all()


def batch(name: str) -> Packets:
    (packets,) = Capture(CASES / f"{name}.pcap").batches()
    return packets


@pytest.mark.parametrize("name", ["sctp-signalling-hb", "mptcp-v0-two-subflows"])
def test_rows_keep_what_is_beside_them(name: str) -> None:
    whole = batch(name)
    rows = np.arange(len(whole))
    one, other = chosen(whole, rows[:30]), chosen(whole, rows[30:])
    again = joined([one, other])
    assert again is not None
    for table, column in (("chunks", "number"), ("multipath", "kind"), ("gaps", "start")):
        for key in {"packet", column} & set(getattr(whole, table).__dataclass_fields__):
            assert (
                getattr(getattr(again, table), key) == getattr(getattr(whole, table), key)
            ).all()
    assert (again.time_ns == whole.time_ns).all()
    reversed_ = chosen(whole, rows[::-1])
    back = chosen(reversed_, rows[::-1])
    assert (back.chunks.packet == whole.chunks.packet).all()
    assert (back.multipath.token == whole.multipath.token).all()
    assert joined([]) is None


def test_more_segments_than_are_looked_at() -> None:
    payload = np.full(200_000, 65_000)
    most = np.full(200_000, 1460)
    used = segments.within(payload, most)
    assert used * 45 <= segments.MOST < (used + 1) * 45
    assert segments.within(payload[:10], most[:10]) == 10
