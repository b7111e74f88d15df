"""Packets of a capture on their way: where and when each was seen, and what became of it.

A capture has one place where packets are seen (tcpdump), or several: one of `anabranch run` has
both ends of every link. Where a direction's first packet is seen is its near place, and each
packet seen there has been sent once more. The other places that see it tell when it came there.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.errors import AnabranchError
from anabranch.support import bounded, clocks, segments, wording
from anabranch.support.capture import Capture
from anabranch.support.holes import IN_ORDER
from anabranch.support.packets import ACK, FIN, ICMP, ICMP6, PSH, SYN, TCP, Packets

from .columns import Looked, look
from .packets import PROTOCOLS, Chunks, Content, Run, Segment, contents, is_used

DROPPED = "dropped here: "
"""How the comments begin with which `anabranch run` says that a packet goes no further."""

_LONGEST_S = 60.0
"""A packet that takes longer from one place to another is not told from the next that is equal."""

_MOST_EQUAL = 256
"""Of packets that are equal to the bit, the last ones of which one may be what comes elsewhere."""

MOST = 1 << 18
"""Packets of a capture that are kept, about 2.3 kB each."""

MOST_FLOWS = 3
"""That are explained unless one is asked for."""

FEWEST_PACKETS = 10
"""Of a flow that says anything."""


@dataclass(slots=True)
class Sent:
    """A packet that was sent."""

    sent_s: float
    octets: int
    content: Content
    seen: list[tuple[float, str]]
    """When and at which place, the first one included."""
    dropped: str = ""
    """Why, and at which place, as a comment says."""
    is_again: bool = False
    """Something of it was sent before."""
    was_repeated: bool = False
    """Something of it was sent again, or given up, before it was acknowledged."""
    was_awaited: bool = False
    """Its peer still said that it waits for just this when it was sent again: it was lost behind
    this place.
    """
    fills: int = IN_ORDER
    """What it is by its numbers at its place (`support.holes`)."""
    purpose: str = ""
    """`keepalive` or `probe` for bytes that ask whether the peer, or its window, is still there."""

    def at(self, places: Collection[str]) -> float | None:
        """When it was first seen at one of these places."""
        for time_s, place in self.seen:
            if place in places:
                return time_s
        return None


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
    near: str
    """The place where they are sent."""
    sent: list[Sent] = field(default_factory=list)
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
    def octets(self) -> int:
        """Bytes of all packets."""
        return sum(packet.octets for packet in self.sent)

    def far(self) -> str | None:
        """The place to which most packets that went farthest came; None if there is only one."""
        last = Counter(packet.seen[-1][1] for packet in self.sent if len(packet.seen) > 1)
        most = max((len(packet.seen) for packet in self.sent), default=1)
        farthest = Counter(p.seen[-1][1] for p in self.sent if len(p.seen) == most)
        return farthest.most_common(1)[0][0] if last else None


@dataclass(slots=True)
class Journeys:
    """All packets of a capture that are looked at."""

    directions: list[Direction]
    names: dict[bytes, str]
    """Of hosts, by address."""
    end_s: float
    """When the last packet was seen; times count from the first."""
    notes: list[str]
    is_ours: bool
    """Whether comments say what was dropped."""
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
            there = ", ".join(capture.interfaces) or "none"
            raise AnabranchError(
                f"{file}: --interface {wanted}: there is none of this name that has packets; "
                f"those are {there}"
            )
    capture.left_out.update(unread)
    packets = kept.packets
    if packets is None:
        said = "; ".join(["it has no packets of SCTP, TCP or UDP", *capture.notes])
        after = f" after {wording.number(from_s, 4)} s" if from_s else ""
        raise AnabranchError(f"{file}: {said}{after}")
    follower = _Follower(capture, look(capture, packets))
    return Journeys(
        list(follower.directions.values()),
        capture.names,
        follower.end_s,
        capture.notes + _clocks(follower.looked) + _cut_off(kept, follower.end_s, from_s),
        follower.is_ours,
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


def name_of(address: IPv4Address | IPv6Address, names: dict[bytes, str]) -> str:
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


class _Follower:
    """Packets are put to their directions in the order of their times."""

    def __init__(self, capture: Capture, looked: Looked) -> None:
        self.directions: dict[tuple[int, Ends, int], Direction] = {}
        self.end_s = 0.0
        self.is_ours = False
        self._generations: dict[int, tuple[int, int]] = {}
        """Of the connections of a flow: which one it is, and its first number."""
        self._waiting: dict[tuple[int, int], deque[Sent]] = defaultdict(
            lambda: deque(maxlen=_MOST_EQUAL)
        )
        self.looked = looked
        packets, rows = looked.packets, looked.rows
        said = contents(packets)
        pieces = _pieces(looked)
        places = [place.name for place in capture.places]
        names = ("source", "source_port", "destination", "destination_port")
        ends = [getattr(packets, name)[rows].tolist() for name in names]
        columns = [
            column[rows].tolist()
            for column in (
                packets.protocol, looked.flow, looked.seen_s, looked.place, packets.octets,
                packets.identity, packets.comment,
            )
        ]  # fmt: skip
        for row, *values, source, port, destination, to_port in zip(
            rows.tolist(), *columns, *ends, strict=True
        ):
            protocol, flow, time_s, place, octets, identity, comment = values
            content = said[row]
            assert content is not None
            self.end_s = max(self.end_s, time_s)
            both = (
                End(capture.addresses[source], port),
                End(capture.addresses[destination], to_port),
            )
            generation = self._generation(flow, content)
            direction = self._direction(protocol, flow, both, generation, places[place])
            if row in pieces:
                direction.offloaded += 1
                direction.largest = max(direction.largest, int(packets.payload[row]))
                direction.segment = max(direction.segment, int(looked.most[row]))
            seen = Sent(time_s, octets, content, [(time_s, places[place])])
            sent = self._take(direction, seen, identity)
            if sent is not None:
                _cut(direction, sent, pieces.get(row))
                if comment >= 0 and capture.comments[comment].startswith(DROPPED):
                    self.is_ours = True
                    why = capture.comments[comment].removeprefix(DROPPED)
                    sent.dropped = f"{why} ({places[place]})"

    def _direction(
        self, protocol: int, flow: int, ends: Ends, generation: int, place: str
    ) -> Direction:
        key = (flow, ends, generation)
        direction = self.directions.get(key)
        if direction is None:
            direction = self.directions[key] = Direction(
                PROTOCOLS[protocol], ends, flow, generation, place,
                copies=self.looked.copied.get(flow, 0),
                cuts_s=self.looked.cuts_s,
                round_trip_s=float(self.looked.round_trip_s[flow]),
            )  # fmt: skip
        return direction

    def _take(self, direction: Direction, seen: Sent, identity: int) -> Sent | None:
        """A packet that is sent here, or the one that is seen here once more on its way."""
        waiting = self._waiting[direction.domain, identity]
        place = seen.seen[0][1]
        if place == direction.near:
            direction.sent.append(seen)
            waiting.append(seen)
            if waiting[0].sent_s < seen.sent_s - _LONGEST_S:
                waiting.popleft()
            return seen
        # What is sent again may be the same to the bit: what arrives is the one sent last.
        sent = next((o for o in reversed(waiting) if not o.dropped and o.at({place}) is None), None)
        if sent is not None:
            sent.seen += seen.seen
        return sent

    def _generation(self, flow: int, content: Content) -> int:
        """Which connection of a flow: another SYN than the first one begins the next."""
        number, first = self._generations.get(flow, (0, -1))
        if isinstance(content, Segment) and content.flags & (SYN | ACK) == SYN and content.data:
            begins = content.data.start
            if first not in {begins, -1}:
                number += 1
            self._generations[flow] = (number, begins)
        return number


def _pieces(looked: Looked) -> dict[int, list[tuple[Run, int]]]:
    """The numbers and bytes of each segment of packets that a network card cuts apart later."""
    packets, rows = looked.packets, looked.rows
    most = looked.most[rows]
    large = rows[(packets.protocol[rows] == TCP) & (packets.payload[rows] > most) & (most > 0)]
    flags = packets.flags[large]
    start = packets.sequence[large] + ((flags & SYN) != 0)
    payload, octets = packets.payload[large].astype(np.int64), packets.octets[large]
    end = start + payload + ((flags & FIN) != 0)
    cut = segments.split(start, end, payload, octets.astype(np.int64), looked.most[large])
    found: dict[int, list[tuple[Run, int]]] = {}
    for row, first, behind, octets in zip(
        large[cut.packet].tolist(), cut.start.tolist(), cut.end.tolist(), cut.octets.tolist(),
        strict=True,
    ):  # fmt: skip
        found.setdefault(row, []).append((Run(first, behind), octets))
    return found


def _cut(direction: Direction, sent: Sent, pieces: list[tuple[Run, int]] | None) -> None:
    """Puts the segments of a packet, the last one of a direction, in its place."""
    if pieces is None or direction.sent[-1] is not sent:
        return
    direction.sent.pop()
    direction.sent += [
        Sent(sent.sent_s, octets, content, sent.seen)
        for content, octets in _segments_of(sent.content, pieces)
    ]


def _segments_of(content: Content, pieces: list[tuple[Run, int]]) -> Iterator[tuple[Segment, int]]:
    assert isinstance(content, Segment)
    for index, (run, octets) in enumerate(pieces):
        is_last = index == len(pieces) - 1
        segment = content._replace(sequence=run.start, data=run)
        if not is_last:
            segment = segment._replace(flags=segment.flags & ~(FIN | PSH), data_end=None)
        if index:
            # It is acknowledged once.
            segment = segment._replace(acknowledgement=None, selective=())
        yield segment, octets


def has_data(packet: Sent) -> bool:
    """Whether a packet carries something of the application's."""
    content = packet.content
    if isinstance(content, Segment):
        return content.data is not None and not content.flags & SYN and not packet.purpose
    return bool(content.data) if isinstance(content, Chunks) else True
