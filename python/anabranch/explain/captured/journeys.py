"""Packets of a capture on their way: where and when each was seen, and what became of it.

A capture has one place where packets are seen (tcpdump), or several: one of `anabranch run` has
both ends of every link. Where a direction's first packet is seen is its near place, and each
packet seen there has been sent once more. The other places that see it tell when it came there.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.support.capture import Capture, Packet

from .packets import ACK, SYN, Chunks, Content, Segment, read

DROPPED = "dropped here: "
"""How the comments begin with which `anabranch run` says that a packet goes no further."""

_LONGEST_S = 60.0
"""A packet that takes longer from one place to another is not told from the next that is equal."""

_TWICE_S = 1e-3
"""A packet that is seen again at its place within this time was captured twice, as on a bridge."""

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

    def at(self, places: Collection[str]) -> float | None:
        """When it was first seen at one of these places."""
        return next((time for time, place in self.seen if place in places), None)


Ends = tuple[bytes, bytes]
"""Address and port of the source, and of the destination."""


@dataclass(slots=True)
class Direction:
    """Packets from one address and port to another, in the order in which they were sent."""

    protocol: str
    ends: Ends
    generation: int
    """Which connection of those between the same ends."""
    near: str
    """The place where they are sent."""
    sent: list[Sent] = field(default_factory=list)
    copies: int = 0
    """Packets that came to a place once more: something on the way had made a copy."""

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


def follow(
    file: Path,
    interfaces: Collection[str] = (),
    progress: Callable[[int], None] | None = None,
) -> Journeys:
    """Reads a capture.

    Parameters
    ----------
    file
        A pcap or pcapng file.
    interfaces
        The only places to look at; all if there are none.
    progress
        Told how many bytes are read, now and then.

    Raises
    ------
    AnabranchError
        Where it is no capture, has no such interface, or nothing in it says anything.
    """
    if not file.is_file():
        raise AnabranchError(f"{file}: not a file" if file.exists() else f"{file}: no such file")
    capture = Capture(file, progress)
    follower = _Follower(frozenset(interfaces))
    for packet in capture.packets():
        follower.take(packet)
    for wanted in interfaces:
        if wanted not in capture.interfaces:
            there = ", ".join(capture.interfaces) or "none"
            raise AnabranchError(
                f"{file}: --interface {wanted}: there is none of this name that has packets; "
                f"those are {there}"
            )
    capture.left_out.update(follower.left_out)
    if not follower.directions:
        said = "; ".join(["it has no packets of SCTP, TCP or UDP", *capture.notes])
        raise AnabranchError(f"{file}: {said}")
    return Journeys(
        list(follower.directions.values()),
        capture.names,
        follower.end_s,
        capture.notes,
        follower.is_ours,
    )


class _Follower:
    """Packets are put to their directions as they are read."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.directions: dict[tuple[str, Ends, int], Direction] = {}
        self.left_out: Counter[str] = Counter()
        self.end_s = 0.0
        self.is_ours = False
        self._first_ns: int | None = None
        self._generations: dict[frozenset[bytes], tuple[int, int]] = {}
        """Of the connections between two ends: which one it is, and its first number."""
        self._waiting: dict[tuple[str, bytes], deque[Sent]] = defaultdict(deque)

    def take(self, packet: Packet) -> None:
        if self.wanted and packet.interface not in self.wanted:
            return
        got = read(packet)
        if isinstance(got, str):
            self.left_out[got] += 1
            return
        if self._first_ns is None:
            self._first_ns = packet.time_ns
        time_s = (packet.time_ns - self._first_ns) / 1e9
        self.end_s = max(self.end_s, time_s)
        ends = (packet.source + got.ports[0], packet.destination + got.ports[1])
        key = (got.protocol, ends, self._generation(ends, got.content))
        place = packet.interface
        direction = self.directions.get(key)
        if direction is None:
            direction = self.directions[key] = Direction(*key, near=place)
        waiting = self._waiting[got.protocol, packet.identity()]
        sent = None
        if place == direction.near:
            if packet.identification and waiting and time_s - waiting[-1].sent_s < _TWICE_S:
                direction.copies += 1  # what is sent again has another number of its IP packet
                return
            sent = Sent(time_s, packet.octets, got.content, [(time_s, place)])
            direction.sent.append(sent)
            waiting.append(sent)
            if waiting[0].sent_s < time_s - _LONGEST_S:
                waiting.popleft()
        else:
            # What is sent again may be the same to the bit: what arrives is the one sent last.
            sent = next((o for o in reversed(waiting) if not o.dropped and not o.at({place})), None)
            if sent is None:
                direction.copies += bool(waiting)
                return
            sent.seen.append((time_s, place))
        if packet.comment.startswith(DROPPED):
            self.is_ours = True
            sent.dropped = f"{packet.comment.removeprefix(DROPPED)} ({place})"

    def _generation(self, ends: Ends, content: Content) -> int:
        """Which connection between these ends: another SYN than the first one begins the next."""
        pair = frozenset(ends)
        number, first = self._generations.get(pair, (0, -1))
        if isinstance(content, Segment) and content.flags & (SYN | ACK) == SYN and content.data:
            begins = content.data.start
            if first not in {begins, -1}:
                number += 1
            self._generations[pair] = (number, begins)
        return number


def has_data(content: Content) -> bool:
    """Whether a packet carries something of the application's."""
    if isinstance(content, Segment):
        return content.data is not None and not content.flags & SYN
    return bool(content.data) if isinstance(content, Chunks) else True
