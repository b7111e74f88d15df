"""Packets of a capture on their way: where and when each was seen, and what became of it.

A capture has one place where packets are seen (tcpdump), or several: one of `anabranch run` has
both ends of every link. Where a direction's first packet is seen is its near place, and each
packet seen there has been sent once more. The other places that see it tell when it came there.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.support import bounded, clocks, segments, wording
from anabranch.support.capture import Capture
from anabranch.support.flows import DATA_CHUNKS, INIT_CHUNKS, connections
from anabranch.support.gathered import bytes_of
from anabranch.support.packets import FIN, ICMP, ICMP6, SYN, TCP, Packets

from .columns import Looked, look
from .packets import PROTOCOLS, is_used

DROPPED = "dropped here: "
"""How the comments begin with which `anabranch run` says that a packet goes no further."""

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Vector = NDArray[np.float64]

REPEATED, AWAITED, KEEPALIVE, PROBE = 2, 4, 8, 16
"""Bits of a packet's fate: something of it was sent again, or given up, before it was acknowledged;
its peer still said that it waits for just this when it was sent again, so that it was lost behind
this place; it asks whether the peer, or its window, is still there.
"""

MOST = 1 << 18
"""Packets of a capture that are kept."""

MOST_FLOWS = 3
"""That are explained unless one is asked for."""

FEWEST_PACKETS = 10
"""Of a flow that says anything."""


@dataclass(slots=True)
class Sent:
    """Packets that were sent, in the order of time: a value of each column for each."""

    row: Integers
    """Its row in the capture's packets; segments of one packet have the same."""
    sent_s: Vector
    octets: Integers
    sequence: Integers
    """Of TCP: the number of its first byte, and how many it has, SYN and FIN among them."""
    length: Integers
    is_first: Flags
    """Of the segments of one packet, the first one, which acknowledges, and the last one, which
    has FIN and PSH.
    """
    is_last: Flags
    places: Sequence[str]
    """The names of the capture's places."""
    near: int
    """The place where all of these are sent, by its number."""
    of: Integers
    """Where packets came later, in the order of packets and of time: which packet, ..."""
    at_s: Vector
    """... when, ..."""
    place: Integers
    """... and at which place, by its number."""
    dropped: dict[int, str] = field(default_factory=dict)
    """By packet: why, and at which place, as a comment says."""

    def __len__(self) -> int:
        """How many packets these are."""
        return len(self.row)

    def at(self, places: Collection[str]) -> Vector:
        """When each was first seen at one of these places; NaN where it was not."""
        if self.places[self.near] in places:
            return self.sent_s
        found = np.full(len(self), np.nan)
        numbers = [number for number, name in enumerate(self.places) if name in places]
        seen = np.flatnonzero(np.isin(self.place, numbers))[::-1]
        found[self.of[seen]] = self.at_s[seen]
        return found

    def last(self) -> tuple[Vector, Integers]:
        """When and at which place each was seen last."""
        last_s = self.sent_s.copy()
        place = np.full(len(self), self.near, dtype=np.int64)
        last_s[self.of], place[self.of] = self.at_s, self.place
        return last_s, place

    def is_dropped(self) -> Flags:
        """Whether a comment says that each goes no further."""
        found = np.zeros(len(self), dtype=bool)
        found[list(self.dropped)] = True
        return found


class End(NamedTuple):
    """An address with a port."""

    address: IPv4Address | IPv6Address
    port: int


Ends = tuple[End, End]
"""The source, and the destination."""


@dataclass(slots=True)
class Direction:
    """Packets from one address and port to another, in the order in which they were sent."""

    protocol: str
    ends: Ends
    domain: int
    """Which of the networks with these addresses."""
    generation: int
    """Which connection of those between the same ends."""
    packets: Packets
    """Those of the capture."""
    sent: Sent
    fills: NDArray[np.uint8]
    """What each packet is by its numbers at its place (`support.holes`)."""
    fate: NDArray[np.uint8]
    """What the sender's walk says of each packet: bits of `REPEATED` and others."""
    copies: int = 0
    """Packets that the capture has once more."""
    offloaded: int = 0
    """Packets that were larger than a segment of the path."""
    largest: int = 0
    """The payload of the largest of them, in bytes."""
    segment: int = 0
    """The most payload that a segment of the path has."""
    cuts_s: list[float] = field(default_factory=list)
    """When the capture's clock was set back: no time is measured across it."""
    round_trip_s: float = float("nan")
    """The least round trip between its ends, both ways, as far as this place shows it."""

    @property
    def near(self) -> str:
        """The place where they are sent."""
        return self.sent.places[self.sent.near]

    @property
    def octets(self) -> int:
        """Bytes of all packets."""
        return int(self.sent.octets.sum())

    def far(self) -> str | None:
        """The place to which most packets that went farthest came; None if there is only one."""
        sent = self.sent
        if not len(sent.of):
            return None
        times = np.bincount(sent.of, minlength=len(sent))
        _, place = sent.last()
        farthest = Counter(place[times == times.max()].tolist())
        return sent.places[farthest.most_common(1)[0][0]]

    def has_data(self) -> Flags:
        """Which packets carry something of the application's."""
        row = self.sent.row
        if self.protocol == "TCP":
            carries = (self.sent.length > 0) & (self.packets.flags[row] & SYN == 0)
            return np.asarray(carries & (self.fate & (KEEPALIVE | PROBE) == 0))
        if self.protocol == "SCTP":
            return self.has_chunk(DATA_CHUNKS)
        return np.ones(len(row), dtype=bool)

    def has_chunk(self, kinds: Sequence[int]) -> Flags:
        """Which packets of SCTP have a chunk of these types."""
        chunks = self.packets.chunks
        found = np.zeros(len(self.packets), dtype=bool)
        found[chunks.packet[np.isin(chunks.kind, kinds) & (chunks.number >= 0)]] = True
        return found[self.sent.row]

    def is_asking(self, most: int | None = None) -> Flags:
        """Which packets, of the first ones, ask for a connection or grant one: SYN, INIT."""
        rows = self.sent.row[:most]
        if self.protocol == "TCP":
            return np.asarray(self.packets.flags[rows] & SYN != 0)
        chunks = self.packets.chunks
        asking = chunks.packet[np.isin(chunks.kind, INIT_CHUNKS)]
        return np.isin(rows, asking)


@dataclass(slots=True)
class Journeys:
    """All packets of a capture that are looked at."""

    directions: list[Direction]
    names: dict[bytes, str]
    """Of hosts, by address."""
    end_s: float
    """When the last packet was seen; times count from the first."""
    notes: list[str]
    others: int = 0
    """Flows that are not among these directions, of a capture that has more than `MOST` packets."""


def follow(
    file: Path,
    interfaces: Collection[str] = (),
    progress: Callable[[int], None] | None = None,
    *,
    flow: str | None = None,
    from_s: float = 0.0,
) -> Journeys:
    """Reads a capture.

    Parameters
    ----------
    file
        A capture.
    interfaces
        The only places to look at; all if there are none.
    progress
        Told how many bytes are read, now and then.
    flow
        A part of the name of the flow that is kept where there are more than `MOST` packets.
    from_s
        What comes sooner after the first packet is left out.

    Raises
    ------
    AnabranchError
        Where it is no capture, has no such interface, or nothing in it says anything.
    """
    if not file.is_file():
        raise AnabranchError(f"{file}: not a file" if file.exists() else f"{file}: no such file")
    capture = Capture(file, progress)
    unread: Counter[str] = Counter()
    kept = bounded.read(
        capture,
        _Wanted(capture, interfaces, from_s),
        lambda listed: _to_explain(listed, capture, flow),
        MOST,
        lambda batch: unread.update(_unused(batch.unused(PROTOCOLS))),
    )
    names = {place.name for place in capture.places} | set(capture.interfaces)
    for wanted in interfaces:
        if wanted not in names:
            raise AnabranchError(
                f"{file}: --interface {wanted}: there is none of this name that has packets; "
                f"those are {wording.some(capture.interfaces)}"
            )
    capture.left_out.update(unread)
    packets = kept.packets
    if packets is None:
        said = "; ".join(["it has no packets of SCTP, TCP or UDP", *capture.notes])
        after = f" after {wording.number(from_s, 4)} s" if from_s else ""
        raise AnabranchError(f"{file}: {said}{after}")
    looked = look(capture, packets)
    end_s = float(looked.seen_s[looked.rows].max())
    return Journeys(
        _directions(capture, looked),
        capture.names,
        end_s,
        capture.notes + _clocks(looked) + _cut_off(kept, end_s, from_s),
        kept.others,
    )


class _Wanted:
    """Which packets of a batch are looked at."""

    def __init__(self, capture: Capture, interfaces: Collection[str], from_s: float) -> None:
        self._capture, self._interfaces, self._from_s = capture, interfaces, from_s
        self._first_ns: int | None = None

    def __call__(self, batch: Packets) -> NDArray[np.bool_]:
        wanted = is_used(batch)
        if self._interfaces:
            numbers = [
                index
                for index, place in enumerate(self._capture.places)
                if place.name in self._interfaces or place.interface in self._interfaces
            ]
            wanted = wanted & np.isin(batch.place, numbers)
        if self._from_s:
            if self._first_ns is None:
                self._first_ns = int(batch.time_ns[0])
            wanted = wanted & (batch.time_ns - self._first_ns >= self._from_s * 1e9)
        return np.asarray(wanted)


def _to_explain(listed: bounded.Listed, capture: Capture, flow: str | None) -> list[int]:
    """The largest flows, or the largest one whose name has this part."""
    if flow is None:
        return list(range(min(MOST_FLOWS, len(listed.protocol))))
    for number, (protocol, *ends) in enumerate(zip(*(c.tolist() for c in listed), strict=True)):
        source, port, destination, to_port = ends
        texts = [
            f"{name_of(capture.addresses[address], capture.names)}:{at}"
            for address, at in ((source, port), (destination, to_port))
        ]
        kind = PROTOCOLS[protocol]
        ways = (texts, texts[::-1])
        if any(flow in f"MP{kind} from {one} to {other}" for one, other in ways):
            return [number]
    return list(range(min(MOST_FLOWS, len(listed.protocol))))


def name_of(address: IPv4Address | IPv6Address, names: Mapping[bytes, str]) -> str:
    """A host, by its name in the capture if that has one."""
    name = names.get(address.packed)
    return name.rpartition(".")[0] or name if name else str(address)


def _cut_off(kept: bounded.Kept, end_s: float, from_s: float) -> list[str]:
    """What of a long capture is not looked at."""
    said = []
    if from_s:
        said.append(
            f"What was captured in the first {wording.number(from_s, 6)} s is left out; times "
            "count from the first packet after it."
        )
    if kept.is_cut and kept.packets is not None:
        first_ns = int(kept.packets.time_ns[0])
        said.append(
            f"The first {len(kept.packets):,} packets of the largest flows are explained, until "
            f"{wording.number(end_s, 4)} s; they go on until "
            f"{wording.number((kept.end_ns - first_ns) / 1e9, 4)} s: `--from "
            f"{wording.number(from_s + end_s, 6)}` explains what follows."
        )
    return said


def _clocks(looked: Looked) -> list[str]:
    """A sentence about clocks that were set back."""
    said = clocks.said(looked.cuts_s, looked.set_back_s)
    return [f"{text[0].upper()}{text[1:]}." for text in said]


def _unused(counts: Counter[str]) -> Counter[str]:
    """What is left out, with what reads it."""
    named = {
        f"packets of IP protocol {number}": f"packets of {name}, whose echoes `anabranch profile` "
        "reads"
        for number, name in ((ICMP, "ICMP"), (ICMP6, "ICMPv6"))
    }
    return Counter({named.get(what, what): count for what, count in counts.items()})


class _Seen(NamedTuple):
    """Sightings of packets in the order of time, and what has been sent, by direction."""

    rows: Integers
    """The row of each in the capture's packets."""
    way: Integers
    """The direction of each."""
    first: Integers
    """For each direction, its first sighting."""
    place: Integers
    near: Integers
    """Where each direction is sent."""
    sent: Integers
    """For each sighting, that with which its packet was sent; -1 if there is none."""
    generation: Integers


def _directions(capture: Capture, looked: Looked) -> list[Direction]:
    """The packets as journeys, by direction; those first that begin first."""
    names = [place.name for place in capture.places]
    seen, dropped_at = _seen(capture, looked, names)
    packets, rows, count = looked.packets, seen.rows, len(seen.first)
    near_rows = np.flatnonzero(seen.sent == np.arange(len(rows)))
    near_rows = near_rows[np.argsort(seen.way[near_rows], kind="stable")]
    cut = _segments(looked, rows[near_rows])
    behind = np.cumsum(np.bincount(cut.packet, minlength=len(near_rows)))
    last = np.searchsorted(seen.way[near_rows], np.arange(count), side="right") - 1
    edges = np.concatenate([[0], behind[last]])
    sighting, of = _sightings(seen, near_rows, behind)
    dropped: dict[int, dict[int, str]] = {}
    for one in np.flatnonzero(np.isin(sighting, list(dropped_at))).tolist():
        at = int(sighting[one])
        way = int(seen.way[at])
        dropped.setdefault(way, {})[int(of[one] - edges[way])] = dropped_at[at]
    later = np.flatnonzero(seen.sent[sighting] != sighting)
    later = later[np.argsort(of[later], kind="stable")]
    edges_later = np.searchsorted(of[later], edges)
    large = _is_large(looked, rows)
    offloaded = np.bincount(seen.way[large], minlength=count)
    largest, segment = (np.zeros(count, dtype=np.int64) for _ in range(2))
    np.maximum.at(largest, seen.way[large], packets.payload[rows[large]])
    np.maximum.at(segment, seen.way[large], looked.most[rows[large]])
    row = rows[near_rows][cut.packet]
    found = []
    for way, at in enumerate(rows[seen.first].tolist()):
        own = slice(int(edges[way]), int(edges[way + 1]))
        after = later[edges_later[way] : edges_later[way + 1]]
        flow = int(looked.flow[at])
        sent = Sent(
            row[own], looked.seen_s[row[own]], cut.octets[own], cut.start[own],
            cut.end[own] - cut.start[own], cut.is_first[own], cut.is_last[own], names,
            int(seen.near[way]), of[after] - own.start, looked.seen_s[rows[sighting[after]]],
            seen.place[sighting[after]], dropped.get(way, {}),
        )  # fmt: skip
        ends = (
            End(capture.addresses[packets.source[at]], int(packets.source_port[at])),
            End(capture.addresses[packets.destination[at]], int(packets.destination_port[at])),
        )
        none = np.zeros(len(sent), dtype=np.uint8)
        found.append(
            Direction(
                PROTOCOLS[int(packets.protocol[at])], ends, flow,
                int(seen.generation[seen.first[way]]), packets, sent, none, none,
                copies=looked.copied.get(flow, 0), offloaded=int(offloaded[way]),
                largest=int(largest[way]), segment=int(segment[way]),
                cuts_s=looked.cuts_s, round_trip_s=float(looked.round_trip_s[flow]),
            )
        )  # fmt: skip
    return found


def _seen(capture: Capture, looked: Looked, names: list[str]) -> tuple[_Seen, dict[int, str]]:
    """All sightings, and the words for those where a comment says that a packet goes no further."""
    packets, rows = looked.packets, looked.rows
    forward = looked.sender[rows] % 2 > 0
    generation = connections(packets, rows, looked.flow[rows], forward)
    place = np.array([names.index(name) for name in names], dtype=np.int64)[looked.place[rows]]
    key = looked.sender[rows] * (int(generation.max()) + 1) + generation
    _, first, way = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    first, way = first[order], np.argsort(order)[way]
    near = place[first]
    is_near = place == near[way]
    why = [
        text.removeprefix(DROPPED) if text.startswith(DROPPED) else "" for text in capture.comments
    ]
    is_dropped = np.array([*map(bool, why), False])[packets.comment[rows]]
    sent = np.arange(len(rows))
    if not is_near.all():
        columns = {
            "at_s": looked.seen_s[rows], "domain": looked.flow[rows],
            "identity": packets.identity[rows], "place": place, "is_near": is_near,
            "is_dropped": is_dropped,
        }  # fmt: skip
        sent = np.frombuffer(_engine.follow_sightings(bytes_of(columns)), np.int64)
    dropped_at = {
        at: f"{why[packets.comment[rows[at]]]} ({names[looked.place[rows[at]]]})"
        for at in np.flatnonzero(is_dropped).tolist()
    }
    return _Seen(rows, way, first, place, near, sent, generation), dropped_at


def _sightings(seen: _Seen, near_rows: Integers, behind: Integers) -> tuple[Integers, Integers]:
    """Sightings that are of a packet, once for each of its segments, and the number of that."""
    number = np.full(len(seen.rows), -1, dtype=np.int64)
    number[near_rows] = np.arange(len(near_rows))
    known = np.flatnonzero(seen.sent >= 0)
    packet = number[seen.sent[known]]
    times = np.diff(behind, prepend=0)[packet]
    nth = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    return np.repeat(known, times), np.repeat(behind[packet] - times, times) + nth


class _Cut(NamedTuple):
    """Segments in the order of their packets."""

    packet: Integers
    start: Integers
    end: Integers
    octets: Integers
    is_first: Flags
    is_last: Flags


def _is_large(looked: Looked, rows: Integers) -> Flags:
    """Which packets a network card cuts apart later."""
    packets, most = looked.packets, looked.most[rows]
    large = (packets.protocol[rows] == TCP) & (packets.payload[rows] > most) & (most > 0)
    return np.asarray(large)


def _segments(looked: Looked, rows: Integers) -> _Cut:
    """These packets, with the segments of those that are cut apart in their places."""
    packets = looked.packets
    flags, payload = packets.flags[rows], packets.payload[rows].astype(np.int64)
    octets, sequence = packets.octets[rows].astype(np.int64), packets.sequence[rows]
    syn, fin = (flags & SYN != 0), (flags & FIN != 0)
    end = sequence + np.where(packets.protocol[rows] == TCP, payload + syn + fin, 0)
    packet, start = np.arange(len(rows)), sequence
    large = np.flatnonzero(_is_large(looked, rows))
    if len(large):
        cut = segments.split(
            sequence[large] + syn[large], end[large], payload[large], octets[large],
            looked.most[rows[large]],
        )  # fmt: skip
        small = np.delete(packet, large)
        packet = np.concatenate([small, large[cut.packet]])
        order = np.argsort(packet, kind="stable")
        packet = packet[order]
        start, end, octets = (
            np.concatenate([whole[small], part])[order]
            for whole, part in ((start, cut.start), (end, cut.end), (octets, cut.octets))
        )
    edges = np.diff(packet, prepend=-1, append=-1) != 0
    return _Cut(packet, start, end, octets, edges[:-1], edges[1:])
