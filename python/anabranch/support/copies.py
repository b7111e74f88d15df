"""Packets that a capture has more than once: seen twice is not sent twice.

A mirror port, a bridge, a router, `tcpdump -i any` and a tunnel's two ends show a packet several
times, up to some milliseconds apart; only its TTL, its MAC addresses and its VLAN may differ. What
an end sends again has another identification (RFC 6864), another time stamp (RFC 7323), or comes
no sooner than a round trip after the first one, since only an answer or its absence calls for it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Vector = NDArray[np.float64]

SAME_IDENTIFICATION_S = 0.5
"""Equal packets with an identification that tells packets apart are one packet for this long: some
paths are captured at both of their ends.
"""

UNKNOWN_ROUND_TRIP_S = 1e-3
"""Taken for the least round trip where none is known: nobody sends again so soon."""

_TICKS = 2
"""Of two looks at a clock that are further apart than so many of its ticks, each one sees another
time, although packets take unequally long to where they are captured.
"""

_STEP_S = 1e-6
"""The step of most captures' times, in s."""

_MOST_ROUNDS = 100
"""In each, copies are found that wait somewhat longer than those that were found before."""

_FEWEST = 3
"""An identification tells packets apart if at least so many packets have different ones."""


def keys(identity: Hashes, content: Hashes, octets: NDArray[np.integer]) -> Hashes:
    """A number for each packet that its copies have, too, and no other packet.

    Parameters
    ----------
    identity, content
        Hashes of what no router changes, and of all that was captured behind IP's header.
    octets
        Lengths of the IP packets: of two with equal headers the payload may not be captured.
    """
    mixed = (content ^ octets.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(identity ^ mixed ^ (mixed >> np.uint64(32)), dtype=np.uint64)


def tells(key: Hashes, identification: NDArray[np.integer], sender: Integers) -> Flags:
    """Whether each packet's identification tells it apart from what its sender sends again.

    Some systems set 0, or a constant, in packets that are never fragmented (RFC 6864 section 4.1).

    Parameters
    ----------
    key
        See `keys`.
    identification
        Of IPv4, or of a fragment of IPv6; -1 if there is none.
    sender
        A number for the direction of the flow to which each packet belongs.
    """
    if not len(key):
        return np.zeros(0, dtype=bool)
    _, first = np.unique(key, return_index=True)
    of = sender[first]
    pairs = np.unique(np.stack([of, identification[first].astype(np.int64)]), axis=1)
    count = int(sender.max()) + 1
    different = np.bincount(pairs[0], minlength=count)
    packets = np.bincount(of, minlength=count)
    varies = (different >= _FEWEST) & (2 * different > packets)
    return np.asarray(varies[sender] & (identification > 0))


def ticks(stamp: Integers, sender: Integers, seen_s: Vector) -> Vector:
    """How long the time stamps of each packet's sender stay the same, in s; infinite without any.

    What is sent again later than that has another one (RFC 7323 section 3.2).

    Parameters
    ----------
    stamp
        TSval of each packet, in the order of their times; negative without one.
    sender
        A number for the direction of the flow to which each packet belongs.
    seen_s
        When each was captured, in s.
    """
    found = np.full(len(stamp), np.inf)
    rows = np.flatnonzero(stamp >= 0)
    if not len(rows):
        return found
    of = sender[rows]
    first, last = (np.zeros(int(of.max()) + 1, dtype=np.int64) for _ in range(2))
    first[of[::-1]], last[of] = rows[::-1], rows
    passed = (stamp[last].astype(np.int64) - stamp[first]) & 0xFFFFFFFF
    grows = (passed > 0) & (passed < 1 << 31)
    took_s = np.where(grows, seen_s[last] - seen_s[first], np.inf)
    found[rows] = (took_s / np.maximum(passed, 1))[of]
    return found


def copies(
    key: Hashes,
    seen_s: Vector,
    flow: Integers,
    *,
    forward: Flags,
    tells_apart: Flags,
    is_numbered: Flags,
    round_trip_s: Vector,
    tick_s: Vector,
) -> Flags:
    """Which packets are copies of one that the capture has before them.

    Parameters
    ----------
    key
        See `keys`.
    seen_s
        When each was captured, in s, in the order of the file.
    flow
        A number for the flow, of both directions, to which each packet belongs.
    forward
        Its direction there.
    tells_apart
        See `tells`.
    is_numbered
        Whether the packet has numbered content, such as data or SYN. Acknowledgements alone may
        come several times with equal content; they are copies where the flow's other packets have
        some, as far apart.
    round_trip_s
        The least round trip of each packet's flow, in s; infinite or not a number if it is not
        known.
    tick_s
        See `ticks`.
    """
    found = np.zeros(len(key), dtype=bool)
    if not len(key):
        return found
    known_s = np.where(np.isfinite(round_trip_s) & (round_trip_s > 0), round_trip_s, 0.0)
    least_s = np.where(known_s > 0, known_s, UNKNOWN_ROUND_TRIP_S)
    most_s = np.where(tells_apart, SAME_IDENTIFICATION_S, least_s)
    sure = np.flatnonzero(is_numbered | tells_apart)
    later, apart_s = _soon(key[sure], seen_s[sure], most_s[sure], tick_s[sure])
    later = sure[later]
    found[later] = True
    count = int(flow.max()) + 1
    copied = np.bincount(flow[later[is_numbered[later]]], minlength=count)
    numbered = np.bincount(flow[is_numbered], minlength=count)
    furthest_s = np.zeros(count)
    np.maximum.at(furthest_s, flow[later], apart_s)
    # Of packets that were captured twice, half are copies.
    apart_s = np.where((copied > 0) & (3 * copied >= numbered), 2 * furthest_s + 1.5 * _STEP_S, 0.0)
    others = np.flatnonzero(~is_numbered & ~tells_apart)
    later, _ = _soon(key[others], seen_s[others], apart_s[flow[others]], tick_s[others])
    found[others[later]] = True
    if not found.any():
        return found
    rows = np.flatnonzero(is_numbered & ~tells_apart)
    for one in _both_ends(rows, key, seen_s, 2 * flow + forward, found):
        _behind_a_queue(one, found, known_s)
    return found


class _Pairs(NamedTuple):
    """Packets of one direction, and the next one that is equal to each."""

    first: Integers
    second: Integers
    at_s: Vector
    """When the first was captured."""
    apart_s: Vector


def _both_ends(
    rows: Integers, key: Hashes, seen_s: Vector, sender: Integers, found: Flags
) -> Iterator[_Pairs]:
    """For each direction that was captured at both of its ends, packets that may be copies.

    There, a third or more come again soon, and all copies later than a mirror shows them.
    """
    order = rows[np.lexsort((seen_s[rows], key[rows], sender[rows]))]
    is_next = (np.diff(key[order]) == 0) & (np.diff(sender[order]) == 0)
    first, second = order[:-1][is_next], order[1:][is_next]
    apart_s = seen_s[second] - seen_s[first]
    is_soon = apart_s < SAME_IDENTIFICATION_S
    first, second, apart_s = first[is_soon], second[is_soon], apart_s[is_soon]
    if not len(first):
        return
    numbered = np.bincount(sender[rows])
    starts = np.flatnonzero(np.diff(sender[first], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(first)], strict=True):
        pairs = np.arange(start, end)
        pairs = pairs[np.argsort(first[pairs])]
        copied = pairs[found[second[pairs]]]
        if not len(copied) or 3 * len(pairs) < numbered[sender[first[start]]]:
            continue
        if apart_s[copied].min() > UNKNOWN_ROUND_TRIP_S:
            yield _Pairs(first[pairs], second[pairs], seen_s[first[pairs]], apart_s[pairs])


def _behind_a_queue(pairs: _Pairs, found: Flags, round_trip_s: Vector) -> None:
    """Marks copies that come later than a round trip, since they waited in the path's queue.

    The packets next to them wait as long. What an end sends again comes later than the copy would,
    by the way back at least: half of that is how much more a packet may wait than the one next to
    it.
    """
    is_copy = found[pairs.second]
    there_s = float(pairs.apart_s[is_copy].min())
    back_s = float(round_trip_s[pairs.first[0]]) - there_s
    if back_s <= 0:
        return
    for _ in range(_MOST_ROUNDS):
        known = np.flatnonzero(is_copy)
        asked = np.flatnonzero(~is_copy & ~found[pairs.first] & (pairs.apart_s > 0))
        after = np.searchsorted(known, asked)
        before = known[np.maximum(after - 1, 0)]
        behind = known[np.minimum(after, len(known) - 1)]
        at_s = pairs.at_s[asked]
        is_nearer = np.abs(pairs.at_s[behind] - at_s) < np.abs(at_s - pairs.at_s[before])
        waits_s = pairs.apart_s[np.where(is_nearer, behind, before)]
        new = asked[pairs.apart_s[asked] <= waits_s + min(there_s, back_s) / 2 + _STEP_S]
        # What is equal to a copy that was just found was sent again after it.
        new = new[~np.isin(pairs.first[new], pairs.second[new])]
        if not len(new):
            break
        is_copy[new] = True
        found[pairs.second[new]] = True


def _soon(key: Hashes, seen_s: Vector, most_s: Vector, tick_s: Vector) -> tuple[Integers, Vector]:
    """The packets with a key that one has not long before them, and how much later they come.

    Or so long after it that a time stamp would have changed. The time runs from the first packet of
    several, not from one of its copies: what was sent again may come sooner after them than after
    it.
    """
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=~key[order[:1]]) != 0)
    sizes = np.diff([*starts, len(key)])
    by_size = np.argsort(-sizes, kind="stable")
    starts, sizes = starts[by_size], sizes[by_size]
    began_s = seen_s[order[starts]]
    later, apart = [], []
    for nth in range(1, int(sizes[0]) if len(sizes) else 0):
        has = int(np.searchsorted(-sizes, -nth))
        rows = order[starts[:has] + nth]
        since_s = np.abs(seen_s[rows] - began_s[:has])
        is_soon = (since_s < most_s[rows]) | (since_s > _TICKS * tick_s[rows])
        began_s[:has] = np.where(is_soon, began_s[:has], seen_s[rows])
        later.append(rows[is_soon])
        apart.append(since_s[is_soon])
    if not later:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    return np.concatenate(later), np.concatenate(apart)


def wholes(
    sender: Integers,
    number: tuple[Integers, Integers],
    payload: NDArray[np.integer],
    *,
    where: Integers,
    seen_s: Vector,
    most_s: Vector,
) -> Flags:
    """Which packets of TCP are several segments in one that were captured one by one, too.

    A router shows a packet of a host with segmentation offload as it came, and at another of its
    devices the segments that it was cut into; of a card that joins segments it is the other way
    round. The segments are the packets of the path.

    Parameters
    ----------
    sender
        A number for the direction of the flow to which each packet belongs; negative if none.
    number
        The sequence numbers and the time stamps, which the first segment has from the whole.
    payload
        Bytes of each packet.
    where
        A number for where each was captured, see `devices`.
    seen_s
        When each was captured, in s.
    most_s
        How far a whole and its first segment are apart at most, in s.
    """
    found = np.zeros(len(sender), dtype=bool)
    rows = np.flatnonzero((payload > 0) & (sender >= 0))
    rows = rows[np.lexsort((seen_s[rows], payload[rows], *(of[rows] for of in number),
                            sender[rows]))]  # fmt: skip
    same = np.ones(max(len(rows) - 1, 0), dtype=bool)
    for of in (*number, sender):
        same &= np.diff(of[rows]) == 0
    # The shortest packet with these numbers, for each.
    starts = np.concatenate([[True], ~same])[: len(rows)]
    shortest = rows[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    is_whole = (payload[rows] > payload[shortest]) & (where[rows] != where[shortest])
    is_whole &= np.abs(seen_s[rows] - seen_s[shortest]) < most_s[rows]
    found[rows[is_whole]] = True
    return found


def devices(
    place: NDArray[np.integer], direction: NDArray[np.integer], ttl: NDArray[np.integer]
) -> Integers:
    """A number for the device at which each packet was captured, as far as the capture tells.

    What a host sends again comes to the same place, in the same direction and with the same TTL.
    """
    return place.astype(np.int64) << 16 | (direction.astype(np.int64) + 1) << 8 | ttl


def longest_apart(stamp: Integers, round_trip_s: Vector) -> Vector:
    """How far `wholes` are from their segments, in s: a time stamp tells what is sent again."""
    known_s = np.where(np.isfinite(round_trip_s), round_trip_s, UNKNOWN_ROUND_TRIP_S)
    return np.where(stamp >= 0, SAME_IDENTIFICATION_S, known_s)


def round_trips(
    asked: tuple[Integers, Integers, Vector],
    answered: tuple[Integers, Integers, Vector],
    count: int,
) -> Vector:
    """The least time from a number to its acknowledgement, by the direction of the numbers.

    Numbers that were sent more than once are left out (P. Karn, C. Partridge, SIGCOMM 1987).

    Parameters
    ----------
    asked
        Of each packet with a number: the direction of its flow, the number that follows it, and
        when it was seen in s; without copies.
    answered
        Of each acknowledgement: the direction of what it acknowledges, its number, and when it was
        seen.
    count
        How many directions there are. Where none was measured, the result is infinite.
    """
    found = np.full(count, np.inf)
    question, first, times = np.unique(
        asked[0] << 32 | asked[1] & 0xFFFFFFFF, return_index=True, return_counts=True
    )
    answer, heard = np.unique(answered[0] << 32 | answered[1] & 0xFFFFFFFF, return_index=True)
    if not len(question) or not len(answer):
        return found
    at = np.minimum(np.searchsorted(question, answer), len(question) - 1)
    fits = (question[at] == answer) & (times[at] == 1)
    first, heard = first[at[fits]], heard[fits]
    took_s = answered[2][heard] - asked[2][first]
    np.minimum.at(found, asked[0][first[took_s > 0]], took_s[took_s > 0])
    return found


def places(key: Hashes, place: NDArray[np.integer], is_copy: Flags) -> Integers:
    """Where each packet was seen, with places as one that have copies of the same packets.

    What goes through a router is at one of its places on its way there and at another on its way
    back, if only the first of its copies is kept.
    """
    order = np.argsort(key, kind="stable")
    equal = np.flatnonzero((key[order][1:] == key[order][:-1]) & is_copy[order][1:])
    pairs = np.unique(np.stack([place[order[equal]], place[order[equal + 1]]]), axis=1)
    leader = list(range(int(place.max()) + 1))

    def of(one: int) -> int:
        while leader[one] != one:
            leader[one] = leader[leader[one]]
            one = leader[one]
        return one

    for one, other in pairs.T.tolist():
        low, high = sorted((of(one), of(other)))
        leader[high] = low
    leaders = np.array([of(one) for one in range(len(leader))], dtype=np.int64)
    return np.asarray(leaders[place])
