"""What of a capture is looked at, as columns: each packet once, put to its flow, in order of time.

Copies are left out (`support.copies`), a clock that was set back goes on where it was, and packets
that a network card cuts apart later become segments (`support.segments`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anabranch.support import clocks, copies, flows, segments
from anabranch.support.capture import Capture
from anabranch.support.packets import SCTP, SYN, TCP, Packets

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Vector = NDArray[np.float64]

BESIDE = 0.25
"""Places are at one end of the path if packets come from one to the other within this part of their
round trip: both directions of it, and the far end's time, are more."""

_BESIDE_S = 1e-3
"""The same, where no round trip is known."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The packets of a capture that are looked at, in the order of their times."""

    packets: Packets
    rows: Integers
    """Those that are used, once each, in the order of time."""
    seen_s: Vector
    """When each of all packets was captured, in s after the first, by a clock that never went back.
    """
    flow: Integers
    """For each of all packets, a number for its addresses, ports and protocol, both ways."""
    sender: Integers
    """The same of one way: twice the flow's, and 1 in one of both."""
    place: Integers
    """Where each was seen: an index into `Capture.places`, of those that are beside each other the
    first.
    """
    copied: Counter[int]
    """By flow, how many packets the capture has once more."""
    most: Integers
    """Of TCP, the payload that one segment of the path has at most; 0 for others."""
    round_trip_s: Vector
    """The least round trip of each flow; NaN where it is not known."""
    cuts_s: list[float]
    """When clocks were set back; times before and after it cannot be compared."""
    set_back_s: float
    """By how much at most."""


def look(capture: Capture, packets: Packets) -> Looked:
    """What is looked at of the packets that are used."""
    at = [place.interface for place in capture.places]
    seen_s, cuts_s, set_back_s = _times(packets, at)
    rows = np.argsort(seen_s, kind="stable")
    flow, forward = flows.numbered(packets)
    sender = 2 * flow + forward
    key = copies.keys(packets.identity, packets.content, packets.octets)
    place = packets.place.astype(np.int64)
    # Of a packet and its copies the first.
    _, first = np.unique(key[rows], return_index=True)
    once = rows[np.sort(first)]
    trips = _trips(packets, once, flow, sender, seen_s)
    meetings = _meetings(key, rows, place, flow, seen_s)
    place = _beside(place, flow, meetings, trips, at)
    flow = _domains(place, sender, rows, meetings, at)
    sender = 2 * flow + forward
    trips = _trips(packets, once, flow, sender, seen_s)
    tells = copies.tells(key[rows], packets.identification[rows], sender[rows])
    is_copy = copies.copies(
        key[rows] ^ place[rows].astype(np.uint64),
        seen_s[rows],
        flow[rows],
        forward=forward[rows],
        tells_apart=tells,
        is_numbered=_is_numbered(packets)[rows],
        round_trip_s=trips[flow[rows]],
        tick_s=copies.ticks(packets.stamp[rows], sender[rows], seen_s[rows]),
    )
    is_copy |= copies.wholes(
        np.where(packets.protocol == TCP, sender * (int(place.max()) + 1) + place, -1)[rows],
        (packets.sequence[rows], packets.stamp[rows]), packets.payload[rows],
        where=copies.devices(packets.place, packets.direction, packets.ttl)[rows],
        seen_s=seen_s[rows], most_s=copies.longest_apart(packets.stamp[rows], trips[flow[rows]]),
    )  # fmt: skip
    copied = Counter(flow[rows[is_copy]].tolist())
    rows = rows[~is_copy]
    most = _most(packets, rows, flow, sender, capture)
    return Looked(
        packets, rows, seen_s, flow, sender, place, copied, most, trips, cuts_s, set_back_s
    )


def _times(packets: Packets, interface_of: Sequence[str]) -> tuple[Vector, list[float], float]:
    """Seconds since the first packet; where an interface's clock was set back, it goes on.

    With the times at which it was, and by how much at most.
    """
    names = sorted(set(interface_of))
    interface = np.array([names.index(name) for name in interface_of], dtype=np.int64)
    of = interface[packets.place]
    time_ns = packets.time_ns.astype(np.int64)
    cuts_ns: list[int] = []
    set_back_s = 0.0
    for number in range(len(names)):
        rows = np.flatnonzero(of == number)
        own_ns = packets.time_ns[rows]
        clock = clocks.clocks(own_ns)
        cuts = np.flatnonzero(np.diff(clock)) + 1
        if not len(cuts):
            continue
        time_ns = time_ns.copy()
        time_ns[rows] = own_ns[0] + clocks.continued(own_ns, clock)
        cuts_ns += (time_ns[rows[cuts]] - 1).tolist()
        set_back_s = max(set_back_s, clocks.largest_s(own_ns, clock))
    first = time_ns.min()
    cuts_s = sorted((cut - int(first)) / 1e9 for cut in cuts_ns)
    return (time_ns - first) / 1e9, cuts_s, set_back_s


_NUMBERED = (0, 1, 2, 4, 5, 10, 11, 64)
"""DATA, INIT, INIT ACK, HEARTBEAT and its answer, COOKIE ECHO, COOKIE ACK, I-DATA."""


def _is_numbered(packets: Packets) -> Flags:
    """Which packets have content with a number: data, SYN, FIN, datagrams.

    Of SCTP those with data, heartbeats or the handshake. Reports of what came (SACK, FORWARD TSN)
    may be sent again as they are.
    """
    is_alone = (packets.protocol == TCP) & (packets.payload == 0)
    is_alone &= (packets.flags & 3) == 0
    numbered: Flags = np.logical_not(is_alone)
    chunks = packets.chunks
    has_number = np.zeros(len(packets), dtype=bool)
    has_number[chunks.packet[np.isin(chunks.kind, _NUMBERED)]] = True
    numbered[packets.protocol == SCTP] = has_number[packets.protocol == SCTP]
    return numbered


def _trips(
    packets: Packets, once: Integers, flow: Integers, sender: Integers, seen_s: Vector
) -> Vector:
    """The least round trip of each flow; NaN where it is not known."""
    found = flows.least_round_trips(packets, once, sender, seen_s, int(flow.max(initial=-1)) + 1)
    return np.where(np.isfinite(found), found, np.nan)


_Meetings = tuple[Integers, Integers, Vector]
"""Rows of packets and of the same ones at another place before, and the time between, in s."""


def _meetings(
    key: NDArray[np.uint64], rows: Integers, place: Integers, flow: Integers, seen_s: Vector
) -> _Meetings:
    """Packets that are seen at two places one after the other."""
    order = rows[np.lexsort((seen_s[rows], key[rows], flow[rows]))]
    same = (key[order][1:] == key[order][:-1]) & (flow[order][1:] == flow[order][:-1])
    same &= place[order][1:] != place[order][:-1]
    at = np.flatnonzero(same)
    return order[at + 1], order[at], seen_s[order[at + 1]] - seen_s[order[at]]


def _beside(
    place: Integers, flow: Integers, meetings: _Meetings, trips: Vector, interface_of: Sequence[str]
) -> Integers:
    """The place of each packet, where those that are beside each other for its flow are one.

    Interfaces of `anabranch run` (LINK@NODE) are where they are.
    """
    later, earlier, took_s = meetings
    if not len(later) or any("@" in name for name in interface_of):
        return place
    count = int(place.max()) + 1
    low, high = np.minimum(place[later], place[earlier]), np.maximum(place[later], place[earlier])
    pair = (flow[later] * count + low) * count + high
    pairs, which = np.unique(pair, return_inverse=True)
    least = np.full(len(pairs), np.inf)
    np.minimum.at(least, which, took_s)
    trip = trips[pairs // count // count]
    near = np.where(np.isfinite(trip), trip * BESIDE, _BESIDE_S)
    parent: dict[tuple[int, int], tuple[int, int]] = {}
    for one in pairs[least < near].tolist():
        number, first, second = one // count // count, one // count % count, one % count
        roots = sorted((_root(parent, (number, first)), _root(parent, (number, second))))
        parent[roots[1]] = roots[0]
    if not parent:
        return place
    own = flow * count + place
    moved = np.array([number * count + at for number, at in parent])
    where = np.array([_root(parent, one)[1] for one in parent])
    order = np.argsort(moved)
    at = np.searchsorted(moved[order], own).clip(max=len(moved) - 1)
    return np.where(moved[order][at] == own, where[order][at], place)


def _root(parent: dict[tuple[int, int], tuple[int, int]], one: tuple[int, int]) -> tuple[int, int]:
    while (above := parent.get(one, one)) != one:
        parent[one] = parent.get(above, above)
        one = above
    return one


def _domains(
    place: Integers, sender: Integers, rows: Integers, meetings: _Meetings, at: Sequence[str]
) -> Integers:
    """Flow numbers, where equal addresses in VLANs that share no packet are different flows."""
    flow = sender >> 1
    if not len(rows):
        return flow
    count = int(place.max()) + 1
    parent: dict[tuple[int, int], tuple[int, int]] = {}
    later, earlier, _ = meetings
    met = np.unique(np.stack([flow[later], place[later], place[earlier]]), axis=1)
    for number, one, other in met.T.tolist():
        roots = sorted((_root(parent, (number, one)), _root(parent, (number, other))))
        parent[roots[1]] = roots[0]
    first_of: dict[tuple[int, str], int] = {}
    several = set()
    for one in np.unique(sender[rows] * count + place[rows]).tolist():
        way, where = divmod(one, count)
        root = _root(parent, (way // 2, where))[1]
        if first_of.setdefault((way, at[where]), root) != root:
            several.add(way // 2)
    if not several:
        return flow
    split = rows[np.isin(flow[rows], list(several))]
    own, which = np.unique(flow[split] * count + place[split], return_inverse=True)
    roots_of = np.array([_root(parent, divmod(one, count))[1] for one in own.tolist()])
    _, number = np.unique(own // count * count + roots_of, return_inverse=True)
    new = flow.copy()
    new[split] = int(flow.max()) + 1 + number[which]
    return new


def _most(
    packets: Packets, rows: Integers, flow: Integers, sender: Integers, capture: Capture
) -> Integers:
    """The payload that a segment of TCP has at most, by packet; 0 for others."""
    most = np.zeros(len(packets), dtype=np.int64)
    tcp = rows[(packets.protocol[rows] == TCP)]
    if not len(tcp):
        return most
    is_old = np.array([address.version == 4 for address in capture.addresses], dtype=np.bool_)
    said: dict[int, int] = {}
    asking = tcp[((packets.flags[tcp] & SYN) != 0) & (packets.mss[tcp] > 0)]
    for number, mss in zip(sender[asking].tolist(), packets.mss[asking].tolist(), strict=True):
        said[number] = min(mss, said.get(number, mss))
    order = tcp[np.lexsort((tcp, flow[tcp], sender[tcp]))]
    edges = np.flatnonzero(np.diff(sender[order]) | np.diff(flow[order])) + 1
    for part in np.split(order, edges):
        payload = packets.payload[part].astype(np.int64)
        fixed = 40 if is_old[packets.source[part[0]]] else 60
        header = packets.octets[part] - payload
        way = int(sender[part[0]])
        most[part] = segments.largest(payload, header, fixed, (said.get(way), said.get(way ^ 1)))
    return most
