"""Two captures of the same packets, one at each end: one-way delays and losses.

Packets are told by what no router changes of them. Where one end has segmentation offload, it shows
no packet of the path: there the bytes of a connection are matched, by their sequence numbers.
"""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.errors import AnabranchError
from anabranch.support import segments
from anabranch.support.capture import Capture, left_out
from anabranch.support.packets import SCTP, TCP

from . import main_flow, transfer
from .intervals import Vector
from .measurement import Delays, Deliveries, LossSequence, Measurement
from .numbers import Integers, of_tcp
from .once import Seen, whole
from .regular import FEWEST_PACKETS, spacing


class _Passed(NamedTuple):
    """What of one direction passed one of the ends, in the order of its times."""

    key: NDArray[np.integer]
    """The same at both ends, and for what is sent again."""
    seen_ns: Integers
    octets: Vector
    sent: Vector
    """Bytes that a link transmits until it has passed."""


class _Ends(NamedTuple):
    """One direction at both ends, and how far their clocks are apart."""

    sender: _Passed
    receiver: _Passed
    offset_ns: int
    """To add to the sender's times."""
    what: str
    notes: list[str]


def measure(near: Capture, far: Capture) -> Measurement:
    """Measures the direction with the most packets, by the packets that both captures have.

    If both directions have equally many, as with pings, the direction of the packet counts which
    the first capture saw first. Clocks need not agree where both directions have packets: half the
    sum of the least delays is taken as the least delay of each direction.
    """
    first = _on_one_clock(whole(near))
    second = _renamed(_on_one_clock(whole(far)), near, far)
    both = _both(first, second)
    ends = _by_bytes(first, second, both, near)
    if ends is None:
        ends = _by_packets(first, second, both)
    found = _measurement(ends)
    has_connection = np.isin(first.packets.protocol, (SCTP, TCP)).any()
    if found.delays is not None and has_connection and not transfer.begins(first.packets):
        found = replace(found, delays=replace(found.delays, is_from_start=False))
    left: Counter[str] = first.left_out + second.left_out
    found.notes.extend(dict.fromkeys([*first.notes, *second.notes, *left_out(left)]))
    return found


def _on_one_clock(seen: Seen) -> Seen:
    """The longest part of a capture whose clock was not set back in it."""
    if not seen.clock[-1]:
        return seen
    counts = np.bincount(seen.clock)
    seen.notes.append(
        f"of the parts between the steps of a clock, the longest one counts: {counts.max()} of "
        f"{counts.sum()} packets"
    )
    return seen.of(np.flatnonzero(seen.clock == counts.argmax()))


def _renamed(seen: Seen, near: Capture, far: Capture) -> Seen:
    """The second capture, with the numbers that addresses have in the first; others have none."""
    known = {address: index for index, address in enumerate(near.addresses)}
    names = np.array([known.get(address, -1) for address in far.addresses], dtype=np.int32)
    packets = replace(
        seen.packets,
        source=names[seen.packets.source],
        destination=names[seen.packets.destination],
    )
    return replace(seen, packets=packets)


class _Both(NamedTuple):
    """The packets that are in both captures, each at its first occurrence."""

    first: Integers
    second: Integers
    """Their rows."""


def _both(first: Seen, second: Seen) -> _Both:
    keys, at = np.unique(_key(first), return_index=True)
    others, where = np.unique(_key(second), return_index=True)
    _, one, other = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    rows = at[one]
    order = np.argsort(rows)
    return _Both(rows[order], where[other][order])


def _key(seen: Seen) -> NDArray[np.uint64]:
    """What is the same in both captures; of headers alone, lengths tell their packets apart."""
    return seen.packets.identity ^ (seen.packets.octets.astype(np.uint64) << np.uint64(32))


def _later_ns(first: Seen, second: Seen, rows: Integers, others: Integers) -> Integers:
    """How much later the second capture has these packets, by the two clocks."""
    return np.asarray(second.time_ns[others] - first.time_ns[rows])


def _aligned(ahead: Integers, behind: Integers) -> tuple[bool, int, list[str]]:
    """Whether the captures are exchanged, the offset to add to the sender's times, and notes.

    Parameters
    ----------
    ahead, behind
        How much later the second capture has what goes the measured way, and what goes back.
    """
    # The sum of both delays is positive; if it seems negative, the captures are exchanged.
    exchanged = len(behind) > 0 and int(ahead.min()) < int(behind.max())
    exchanged |= not len(behind) and int(ahead.min()) < 0
    if exchanged:
        ahead, behind = -ahead, -behind
    notes = ["the second capture is taken to be the sender's, as its times tell"][: int(exchanged)]
    if not len(behind):
        notes.append("one direction only: the clocks of both captures are taken to agree")
        return exchanged, 0, notes
    notes.append("the clocks are aligned by assuming the same least delay both ways")
    return exchanged, (int(ahead.min()) + int(behind.max())) // 2, notes


def _by_packets(first: Seen, second: Seen, both: _Both) -> _Ends:
    """All packets from one host to another."""
    if len(both.first) < FEWEST_PACKETS:
        raise AnabranchError(
            f"only {len(both.first)} packets are in both captures; they have to be of the same "
            "traffic, without translation of addresses between them"
        )
    hosts = _hosts(first)
    way = Counter(hosts[both.first].tolist()).most_common(1)[0][0]
    back = (way & 0xFFFFFFFF) << 32 | way >> 32
    later = _later_ns(first, second, both.first, both.second)
    exchanged, offset, notes = _aligned(
        later[hosts[both.first] == way], later[hosts[both.first] == back]
    )
    passed = []
    for seen in (first, second):
        rows = np.flatnonzero(_hosts(seen) == way)
        octets = seen.packets.octets[rows].astype(float)
        passed.append(_Passed(_key(seen)[rows], seen.time_ns[rows], octets, octets))
    if exchanged:
        passed.reverse()
    return _Ends(passed[0], passed[1], offset, "packets", notes)


def _hosts(seen: Seen) -> Integers:
    """A number for source and destination of each packet."""
    source, destination = (
        each.astype(np.int64) & 0xFFFFFFFF
        for each in (seen.packets.source, seen.packets.destination)
    )
    return np.asarray(source << 32 | destination)


def _by_bytes(first: Seen, second: Seen, both: _Both, near: Capture) -> _Ends | None:
    """The segments of the main connection; None where no end has larger packets."""
    rows = np.flatnonzero(first.flow == main_flow.by_payload(first)[0])
    if int(first.packets.protocol[rows[0]]) != TCP:
        return None
    one = first.of(rows)
    other = second.of(_same(one, second))
    if not len(other.packets):
        return None
    fixed = 40 if near.addresses[int(one.packets.source[0])].version == 4 else 60
    start = int(one.packets.source[0]), int(one.packets.source_port[0])
    is_start = [
        (each.packets.source == start[0]) & (each.packets.source_port == start[1])
        for each in (one, other)
    ]
    sides = []
    for forward in (True, False):
        own = [each if forward else ~each for each in is_start]
        sides.append([
            of_tcp(each.packets, each.seen_s, mine, fixed)
            for each, mine in zip((one, other), own, strict=True)
        ])  # fmt: skip
    octets = [sum(float(side.data.octets[side.data.is_user].sum()) for side in each)
              for each in sides]  # fmt: skip
    forward = octets[0] >= octets[1]
    side = sides[0 if forward else 1]
    if not any(each.has_offload for each in side):
        return None
    data = [each.data.only(each.data.is_user) for each in side]
    if not (len(data[0].row) and len(data[1].row)):
        return None
    # Both lines of numbers begin anew after 2^32.
    behind_by = np.round((data[0].start[0] - data[1].start[0]) / 2**32).astype(np.int64) << 32
    times = [one.time_ns[data[0].row], other.time_ns[data[1].row]]
    starts = [data[0].start, data[1].start + behind_by]
    ends = [data[0].end, data[1].end + behind_by]
    passed = [
        _Passed(start, time, each.octets, each.sent)
        for start, time, each in zip(starts, times, data, strict=True)
    ]
    received = _pieces(passed[1], ends[1], starts[0])
    _, at, where = np.intersect1d(passed[0].key, received.key, return_indices=True)
    if len(at) < FEWEST_PACKETS:
        return None
    way = (first.packets.source[both.first] == start[0]) == forward
    # Small packets, as a handshake's, are the same at both ends; their transmission takes no time.
    ahead = _later_ns(first, second, both.first[way], both.second[way])
    exchanged, offset, notes = _aligned(
        np.concatenate([received.seen_ns[where] - passed[0].seen_ns[at], ahead]),
        _later_ns(first, second, both.first[~way], both.second[~way]),
    )
    if exchanged:
        passed.reverse()
        received = _pieces(passed[1], ends[0], passed[0].key)
    notes.append(
        "an end has packets above the largest segment (segmentation offload): bytes are matched, "
        "and counted in segments"
    )
    return _Ends(passed[0], received, offset, "segments", notes)


def _same(one: Seen, second: Seen) -> Integers:
    """The rows of the second capture with the same addresses and ports."""
    packets, every = one.packets, second.packets
    names = ("source", "source_port", "destination", "destination_port")
    here = [int(getattr(packets, name)[0]) for name in names]
    found = np.zeros(len(every), dtype=bool)
    for way in (here, [*here[2:], *here[:2]]):
        same = every.protocol == TCP
        for name, value in zip(names, way, strict=True):
            same &= getattr(every, name) == value
        found |= same
    return np.flatnonzero(found)


def _pieces(passed: _Passed, end: Integers, starts: NDArray[np.integer]) -> _Passed:
    """What has passed, cut where the segments of the other end begin."""
    known = np.unique(starts)
    low = np.searchsorted(known, passed.key)
    count = np.maximum(np.searchsorted(known, end) - low, 0)
    if count.sum() > segments.MOST:
        raise AnabranchError(
            f"the segments of both captures overlap {count.sum()} times; at most {segments.MOST} "
            "can be matched"
        )
    packet = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(packet)) - np.repeat(np.cumsum(count) - count, count)
    return _Passed(
        known[low[packet] + nth], passed.seen_ns[packet], passed.octets[packet],
        passed.sent[packet],
    )  # fmt: skip


def _arrivals(ends: _Ends) -> Integers:
    """For each that was sent, the one that arrived; -1 where none did.

    Of what was sent several times, each arrival is of the last that was sent before it, by the
    least delay of the others; by half of that where nothing else is left.
    """
    sent, arrived = ends.sender, ends.receiver
    keys, first, name, times = np.unique(
        sent.key, return_index=True, return_inverse=True, return_counts=True
    )
    others, heard, counts = np.unique(arrived.key, return_index=True, return_counts=True)
    found = np.full(len(sent.key), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(others, keys), len(others) - 1)
    both = others[at] == keys
    single = both & (times == 1) & (counts[at] == 1)
    found[first[single]] = heard[at[single]]
    took = arrived.seen_ns[found[found >= 0]] - sent.seen_ns[found >= 0]
    least = int(took.min()) - ends.offset_ns if len(took) else 0
    several = both & ~single
    if not several.any():
        return found
    wanted: dict[int, list[int]] = {}
    for row in np.flatnonzero(np.isin(arrived.key, keys[several])).tolist():
        wanted.setdefault(int(arrived.key[row]), []).append(row)
    open_: dict[int, list[int]] = {}
    for row in np.flatnonzero(several[name]).tolist():
        open_.setdefault(int(sent.key[row]), []).append(row)
    for key, rows in wanted.items():
        left = open_[key]
        for row in reversed(rows):
            arrived_ns = int(arrived.seen_ns[row]) - ends.offset_ns
            while left and int(sent.seen_ns[left[-1]]) > arrived_ns - max(least, 0) // 2:
                left.pop()
            while len(left) > 1 and int(sent.seen_ns[left[-1]]) > arrived_ns - least * 19 // 20:
                left.pop()
            if left:
                found[left.pop()] = row
    return found


def _measurement(ends: _Ends) -> Measurement:
    arrival = _arrivals(ends)
    inside = np.flatnonzero(arrival >= 0)
    if not len(inside):
        raise AnabranchError("no packet of the captures' main direction is in both of them")
    # Before the first and after the last common packet, one of the captures may not have run.
    kept = slice(int(inside[0]), int(inside[-1]) + 1)
    arrival, sent_ns = arrival[kept], ends.sender.seen_ns[kept] + ends.offset_ns
    lost = arrival < 0
    arrived_ns = ends.receiver.seen_ns[arrival[~lost]]
    delays = (arrived_ns - sent_ns[~lost]) / 1e9
    if (delays < 0).any():
        raise AnabranchError(
            "packets arrive before they are sent: the clocks of the captures disagree, and packets "
            "of one direction alone cannot align them"
        )
    when = (sent_ns - sent_ns[0]) / 1e9
    octets, sent = ends.sender.octets[kept], ends.sender.sent[kept]
    # Of a packet's segments the first: the others wait for it in the network card.
    leads = sent[~lost] == octets[~lost]
    leads |= not leads.any()
    arrived_s = (arrived_ns - sent_ns[0]) / 1e9
    order = np.argsort(arrived_s, kind="stable")
    arrived_octets = octets[~lost][order]
    return Measurement(
        f"{len(lost)} {ends.what} seen at both ends",
        Delays(
            delays[leads], 1, "one-way delays", times_s=when[~lost][leads],
            octets=sent[~lost][leads],
        ),
        LossSequence(
            lost, f"{ends.what} that only the sender's capture has", spacing_s=spacing(when),
            times_s=when, octets=octets,
        ),
        Deliveries(
            arrived_s[order], arrived_octets, float(np.quantile(arrived_octets, 0.9)),
            f"{ends.what} that arrived",
        ),
        notes=ends.notes,
    )  # fmt: skip
