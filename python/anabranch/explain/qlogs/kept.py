"""What is kept of a connection while its events are read: bounded, however long the file is.

Of packets these are the newest `MOST_KEPT` of each packet number space that are neither
acknowledged nor lost, and as many that were lost. Ranges of acknowledgements are looked up, not
walked, since each ACK frame repeats what earlier ones have.
"""

import math
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field

MOST_KEPT = 65_536
MOST_STREAMS = 65_536
MOST_SAMPLES = 131_072
MOST_LIMITS = 262_144
"""The most that is kept: packets, streams, round trips, changes of what holds the sender back."""


@dataclass(slots=True)
class Data:
    """The application's data that came to the other end of a direction."""

    other: int = 0
    """Bytes of which no stream is known: datagrams, or payloads of packets."""
    has_headers: bool = False
    """Whether these are whole packets, since the file has only their sizes."""
    begun_s: float = math.nan
    ended_s: float = math.nan
    _streams: dict[int, list[int]] = field(default_factory=dict)

    def add(self, pieces: "list[tuple[int, int, int]]", at_s: float) -> None:
        """Pieces of streams: which (-1 is none), where they begin, how long they are."""
        for stream, start, length in pieces:
            if length:
                self.ended_s = at_s
            known = self._streams.get(stream)
            if known is not None:
                known[0] = min(known[0], start)
                known[1] = max(known[1], start + length)
                known[2] += length
            elif stream < 0 or len(self._streams) >= MOST_STREAMS:
                self.other += length
            else:
                self._streams[stream] = [start, start + length, length]

    @property
    def octets(self) -> int:
        """How much there was, what came twice counted once as far as streams show it."""
        of_streams = (min(end - start, sum_) for start, end, sum_ in self._streams.values())
        return self.other + sum(of_streams)

    @property
    def took_s(self) -> float:
        """From when the first of it was sent, or came, to when the last of it had come."""
        return self.ended_s - self.begun_s

    @property
    def rate(self) -> float:
        """The goodput in bit/s; NaN where that is not known."""
        return self.octets * 8 / self.took_s if self.took_s > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet that was sent, with its pieces of streams (`Data.add`)."""

    sent_s: float
    size: int
    pieces: list[tuple[int, int, int]]


class Space:
    """Packets of one packet number space that are under way, and those that were lost."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._packets: dict[int, Packet] = {}
        self._lost: list[int] = []

    def sent(self, number: int, packet: Packet) -> list[Packet]:
        """Keeps a packet; gives those that are forgotten for it."""
        if number in self._packets:
            return []
        insort(self._numbers, number)
        self._packets[number] = packet
        if len(self._numbers) <= MOST_KEPT:
            return []
        old = self._numbers[: MOST_KEPT // 2]
        del self._numbers[: MOST_KEPT // 2]
        return [self._packets.pop(one) for one in old]

    def acked(self, first: int, last: int) -> tuple[list[Packet], int]:
        """What a range acknowledges anew, and how many of it had been taken for lost."""
        start, end = bisect_left(self._numbers, first), bisect_right(self._numbers, last)
        taken = self._numbers[start:end]
        del self._numbers[start:end]
        start, end = bisect_left(self._lost, first), bisect_right(self._lost, last)
        del self._lost[start:end]
        return [self._packets.pop(one) for one in taken], end - start

    def lost(self, number: int) -> Packet | None:
        """Takes a packet for lost; None where it is not among those under way."""
        packet = self._packets.pop(number, None)
        if packet is not None:
            del self._numbers[bisect_left(self._numbers, number)]
            insort(self._lost, number)
            del self._lost[:-MOST_KEPT]
        return packet


class Samples:
    """Round trips in ms; of more than `MOST_SAMPLES` every second one, and so on."""

    def __init__(self) -> None:
        self.kept = array("d")
        self._every = 1
        self._seen = 0

    def add(self, value: float) -> None:
        """One more, in ms."""
        if self._seen % self._every == 0:
            self.kept.append(value)
            if len(self.kept) > MOST_SAMPLES:
                self.kept = self.kept[::2]
                self._every *= 2
        self._seen += 1


@dataclass(slots=True)
class OfPath:
    """What is known of one path of several."""

    sent: int = 0
    sent_octets: int = 0
    received: int = 0
    lost: int = 0
    trips: Samples = field(default_factory=Samples)


class Held:
    """What held a sender back, from when to when."""

    def __init__(self) -> None:
        self.limits: list[tuple[float, float, str]] = []
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.is_all_there = True
        """Whether `limits` has all the time."""
        self._limit = "handshake"
        self._since_s = math.nan

    def change(self, limit: str, at_s: float) -> None:
        """From now on it is this one."""
        if limit != self._limit:
            self.until(at_s)
            self._limit = limit

    def until(self, at_s: float) -> None:
        """It has not changed up to now."""
        if at_s > self._since_s:
            self.seconds[self._limit] += at_s - self._since_s
            self.is_all_there &= len(self.limits) < MOST_LIMITS
            if self.is_all_there:
                self.limits.append((self._since_s, at_s, self._limit))
        self._since_s = at_s
