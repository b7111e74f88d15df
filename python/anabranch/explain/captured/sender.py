"""What held a sender back, as far as packets show it: the time of each of its paths.

The engine goes over what is sent and what comes in (`crates/anabranch-capture/src/sender`); here it
gets the columns of a flow, and what it finds has its names.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anabranch import _engine
from anabranch.support.gathered import beside, bytes_of
from anabranch.support.holes import OVERTAKEN
from anabranch.support.packets import FIN, PSH, Packets

from .flows import Flow, begins
from .journeys import Direction, Integers, Vector

IDLE_S = 0.2
"""The least pause that is called one."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """A retransmission timer that expired."""

    at_s: float
    path: str
    waited_s: float
    """Since something was heard on the path, or since the timer had expired before."""
    row: int
    """Its number among those that followed each other with nothing heard in between."""


@dataclass(frozen=True, slots=True)
class Move:
    """New data goes on another path than before."""

    at_s: float
    source: str
    target: str
    silent_s: float
    """How long nothing had been heard on the path that it leaves."""
    is_failover: bool
    """Whether that path was in a retransmission timeout."""


@dataclass(frozen=True, slots=True)
class Track:
    """One path of a sender."""

    name: str
    packets: int
    """With data, and with what is sent again."""
    octets: int
    again: int
    """Packets with data that had been sent before."""
    probes: int
    """Of these, tail loss probes (RFC 8985 section 7)."""
    recoveries: int
    timeouts: int
    attempts: int
    """SYN of this path, or of this subflow."""
    keepalives: int
    """Packets that ask whether the peer is still there (RFC 9293 section 3.8.4)."""
    probed_s: list[float]
    """When the peer was asked whether its closed window is open (RFC 9293 section 3.8.6.1)."""
    round_trips: Vector
    """When, and how long in s, shape (n, 2), of data whose acknowledgement nothing delayed; without
    what was sent twice (Karn's algorithm).
    """
    answers: Vector
    """The same of what is answered at once: handshakes, heartbeats, keep-alives, probes."""
    bounds: Vector
    """The same of single messages, whose acknowledgement may have waited for a second one."""
    limits: list[tuple[float, float, str]]
    """What it waited for, from when to when."""

    @property
    def measured(self) -> Vector:
        """Round trips that no timer made longer: when, and how long in s."""
        both = np.concatenate([self.round_trips, self.answers])
        return np.asarray(both[np.lexsort((both[:, 1], both[:, 0]))])

    @property
    def usual(self) -> Vector:
        """How long round trips took in s: of data, where there are some, else of any."""
        return (self.round_trips if len(self.round_trips) else self.measured)[:, 1]


class Sender:
    """One end of a flow of TCP, Multipath TCP or SCTP as a sender of data.

    It says of the packets of its directions what became of them (`Direction.fate`).
    """

    def __init__(self, flow: Flow, side: int) -> None:
        self.is_sctp = flow.protocol == "SCTP"
        own = [path.ways[side] for path in flow.paths]
        back = [path.ways[1 - side] for path in flow.paths]
        begun = [begins(path) for path in flow.paths]
        # What the capture does not see being opened was open before.
        is_open = [not (any(begun) if self.is_sctp else one) for one in begun]
        cuts_s = next((way.cuts_s for way in own if way is not None), [])
        ways = [way for pair in zip(own, back, strict=True) for way in pair if way is not None]
        columns, first = _columns(ways, is_sctp=self.is_sctp)
        columns |= _events(flow, side, first)
        trips_s = [way.round_trip_s for way in ways if np.isfinite(way.round_trip_s)]
        found = _engine.walk_sender(
            flow.protocol,
            (flow.start_s, flow.end_s, min(trips_s, default=np.inf)),
            is_open,
            cuts_s,
            bytes_of(columns),
        )
        fates = np.frombuffer(found["fates"], np.uint8)
        for way in own:
            if way is not None:
                at = first[id(way)]
                way.fate = fates[at : at + len(way.sent)]
        names = [path.name for path in flow.paths]
        self.tracks = [
            Track(name, **_arrays(track))
            for name, track in zip(names, found["tracks"], strict=True)
        ]
        self.expiries = [
            Expiry(at_s, names[path], *others) for at_s, path, *others in found["expiries"]
        ]
        self.moves = [
            Move(at_s, names[source], names[target], *others)
            for at_s, source, target, *others in found["moves"]
        ]
        self.came_twice: int = found["came_twice"]
        """Packets that the peer reported to have had before (RFC 2883)."""
        self.opened_s: float | None = found["opened_s"]
        """When it could send; when it did first, where it was open before the capture began."""
        self.attempts: int = found["attempts"]
        """Packets with which it asked for the connection, or granted it."""
        self.knows_window: bool = found["knows_window"]
        """Whether the capture has the scale of the peer's window, wherever it is not closed."""
        self.beyond: int = found["beyond"]
        """Packets of TCP that went beyond the peer's window as it is in the capture."""


def _arrays(track: dict[str, Any]) -> dict[str, Any]:
    trips = ("round_trips", "answers", "bounds")
    return track | {name: np.frombuffer(track[name]).reshape(-1, 2) for name in trips}


def _columns(
    ways: list[Direction], *, is_sctp: bool
) -> tuple[dict[str, NDArray[Any]], dict[int, int]]:
    """What the packets of these directions say, and the number of the first one of each."""
    counts = np.cumsum([0, *(len(way.sent) for way in ways)]).tolist()
    first = {id(way): count for way, count in zip(ways, counts, strict=False)}

    def whole(column: str) -> NDArray[Any]:
        return np.concatenate([getattr(way.sent, column) for way in ways])

    packets, row = ways[0].packets, whole("row")
    columns: dict[str, NDArray[Any]] = {
        "sent_s": whole("sent_s"),
        "octets": whole("octets"),
        "is_overtaken": np.concatenate([way.fills for way in ways]) == OVERTAKEN,
    }
    if is_sctp:
        return columns | _chunks(packets, row), first
    is_first, is_last = whole("is_first"), whole("is_last")
    data_end, data_acknowledgement = _data_sequence(packets, row)
    sacks, _ = beside(packets.sacks, "packet", row[is_first], len(packets))
    columns |= {
        "flags": packets.flags[row] & np.where(is_last, -1, ~(FIN | PSH)),
        "sequence": whole("sequence"),
        "length": whole("length"),
        # Of the segments of a packet, the first one acknowledges.
        "acknowledgement": np.where(is_first, packets.acknowledgement[row], -1),
        "window": packets.window[row],
        "scale": packets.window_scale[row],
        "data_end": np.where(is_last, data_end, -1),
        "data_acknowledgement": data_acknowledgement,
        "sacks.packet": np.flatnonzero(is_first)[sacks.packet],
        "sacks.start": sacks.start,
        "sacks.end": sacks.end,
    }
    return columns, first


def _chunks(packets: Packets, row: Integers) -> dict[str, NDArray[Any]]:
    """The chunks of these packets."""
    chunks, kept = beside(packets.chunks, "packet", row, len(packets))
    gaps, _ = beside(packets.gaps, "chunk", kept, len(packets.chunks.packet))
    columns = {
        f"chunks.{name}": getattr(chunks, name)
        for name in ("packet", "kind", "number", "data", "window", "identity")
    }
    return columns | {f"gaps.{name}": getattr(gaps, name) for name in ("chunk", "start", "end")}


_DSS, _HAS_ACK, _HAS_MAPPING = 2, 1, 4


def _data_sequence(packets: Packets, row: Integers) -> tuple[Integers, Integers]:
    """The number behind each packet's data on the connection level, and what it acknowledges there.

    A mapping may be longer than the segment; what has been sent is what is there.
    """
    table = packets.multipath
    ends, acknowledged = (np.full(len(packets), -1, dtype=np.int64) for _ in range(2))
    is_dss = table.kind == _DSS
    maps = is_dss & (table.flags & _HAS_MAPPING != 0) & (table.data_sequence >= 0)
    of = table.packet[maps]
    ends[of] = (table.data_sequence[maps] + packets.payload[of]) & 0xFFFFFFFF
    acks = is_dss & (table.flags & _HAS_ACK != 0) & (table.data_ack >= 0)
    acknowledged[table.packet[acks]] = table.data_ack[acks]
    return ends[row], acknowledged[row]


def _events(flow: Flow, side: int, first: dict[int, int]) -> dict[str, NDArray[Any]]:
    """What is sent and what comes in, in the order of the times at this end."""
    places = flow.places(side)
    parts: list[tuple[Vector, Integers, Integers, Integers]] = []
    for number, path in enumerate(flow.paths):
        own, back = path.ways[side], path.ways[1 - side]
        for way, is_own in ((own, 1), (back, 0)):
            if way is None:
                continue
            at_s = way.sent.sent_s if is_own else way.sent.at(places)
            kept = ~np.isnan(at_s)
            if not is_own and way.sent.dropped:
                # What was dropped where it was seen at this time does not come in.
                kept &= ~(way.sent.is_dropped() & (way.sent.last()[0] <= at_s))
            at = np.flatnonzero(kept)
            path_of, own_of = np.full(len(at), number), np.full(len(at), is_own)
            parts.append((at_s[at], path_of, first[id(way)] + at, own_of))
    at_s, path_of, packet, own_of = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Of one moment, what comes in is the cause of what goes out.
    order = np.lexsort((own_of, at_s))
    return {
        "event.at_s": at_s[order],
        "event.path": path_of[order],
        "event.packet": packet[order],
        "event.is_own": own_of[order],
    }
