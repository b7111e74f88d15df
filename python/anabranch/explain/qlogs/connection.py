"""One end of a connection, as the events of its qlog show it.

`_HANDLERS` says what each event means. What is kept is bounded (`kept`).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.support import wording
from anabranch.support.reading import amount, at, items

from .kept import MOST_STREAMS, Data, Held, OfPath, Packet, Samples, Space
from .records import MOST_NUMBER, Event, whole

_SPACES_OF_A_PATH = 3

MOST_PATHS = 64
MOST_SAID = 5
"""The most paths that there may be, and the most migrations that are said one by one."""

_NOT_ELICITING = {"ack", "ack_mp", "path_ack", "padding", "connection_close"}
"""Frames that are not acknowledged by themselves (RFC 9000 section 13.2)."""

_ACKS = {"ack", "ack_mp", "path_ack"}

_ONE_RTT = {"1rtt", "onertt", "short"}
_DATA_TYPES = {"0rtt", "zerortt", *_ONE_RTT}
"""Packets that carry data of applications, as the drafts and implementations name them."""

_OURS = {"tcp", "sctp", "mptcp", "quic", "udp"}
"""The schemas of `anabranch run --qlog` beside `transport` and `recovery`."""

_OF_APPLICATIONS = {"http", "h3", "http3", "qpack"}
"""Schemas of what is above QUIC, with some of the same names."""

_RENAMED = {
    "recovery_metrics_updated": "metrics_updated",
    "metric_update": "metrics_updated",
    "congestion_metric_update": "metrics_updated",
    "connection_close": "connection_closed",
    "loss_timer_updated": "timer_updated",
    "packet_ack": "packets_acked",
}
"""Names of events in other drafts, and those of mvfst, by the names of 0.3."""

_FIRST_PATH = "0"
"""The path of a connection that names none."""

_REASONS = {
    "congestion_control": "cwnd_limited",
    "connection_flow_control": "receive_window_limited",
    "stream_flow_control": "receive_window_limited",
    "stream_id": "receive_window_limited",
    "application": "application_limited",
}
"""What the reasons of `connection_data_blocked_updated` are among the limits."""

BLOCKED = {
    "data_blocked": "max_data",
    "stream_data_blocked": "max_stream_data",
    "streams_blocked": "max_streams",
}
"""Frames that say that flow control holds data back, and those that end it (RFC 9000 section 4)."""


@dataclass(slots=True)
class Close:
    """How a connection ended."""

    at_s: float
    by: str
    """`local`, `remote` or empty."""
    code: str
    """The error in the file's words, empty if it names none."""
    error: int | None
    is_of_application: bool
    reason: str
    trigger: str


class Connection:
    """One end of a connection; the events are told to it in their order."""

    def __init__(self, name: str, side: str) -> None:
        self.name, self.side, self.schema = name, side, ""
        """What the file calls it, which end it is, and of a file of ours the transport."""
        self.events = 0
        self.unknown: Counter[str] = Counter()
        self.start_s = self.end_s = math.nan
        self.sent = self.received = self.sent_octets = self.received_octets = 0
        self.lost: Counter[str] = Counter()
        """Packets that were taken for lost, by what told so."""
        self.spurious = 0
        self.fates: Counter[str] = Counter()
        """What became of packets, which only a simulator knows."""
        self.out, self.into = Data(), Data()
        self.trips = Samples()
        self.trips_kind = ""
        self.windows: dict[str, float] = {}
        self.window_range = (math.inf, -math.inf)
        self.knows_timeouts = False
        self.states: Counter[str] = Counter()
        """How often each state of the congestion control began."""
        self.blocked: Counter[str] = Counter()
        self.peer_blocked: Counter[str] = Counter()
        """Frames of `BLOCKED` that this end sent, and that it received."""
        self.handshake_s = math.nan
        """When the connection was open."""
        self.migrations: list[str] = []
        self.migrated = 0
        self.close: Close | None = None
        self.held = Held()
        self.gaps: dict[str, list[int]] = {}
        """Of received packets with data: least and greatest number, and how many, by path."""
        self.paths: dict[str, OfPath] = {}
        self.has_acks = self.has_frames = False
        self._spaces: dict[tuple[str, str], Space] = {}
        self._in_flight = 0
        self._told_in_flight: dict[str, float] = {}
        self._largest = 0
        self._probes: dict[str, float] = {}
        self._timeouts: Counter[str] = Counter()
        """How many there were, by what told so: several events may be about the same one."""
        self._in_timeout = False
        self._recovery_s = math.nan
        """Since when a loss is being recovered from; NaN where none is."""
        self._recoveries = 0
        self._began_s = -math.inf
        """When the last recovery began."""
        self._trip_s = 0.0
        self._state = ""
        self._closed: dict[str, set[int]] = {kind: set() for kind in BLOCKED}
        self._reason = ""

    @property
    def knows_flight(self) -> bool:
        """Whether the file shows how much was under way."""
        return self.has_acks or bool(self._told_in_flight)

    @property
    def recoveries(self) -> int:
        """How many there were: by the states of the congestion control, else by the losses."""
        told = sum(count for state, count in self.states.items() if "recovery" in state)
        return told or self._recoveries

    @property
    def timeouts(self) -> int:
        """How many timers expired: by `pto_count`, else by the timers, else by the probes."""
        told = (self._timeouts[how] for how in ("counts", "timers", "probes"))
        return next((count for count in told if count), 0)

    def take(self, event: Event) -> None:
        """What an event says."""
        if math.isnan(self.start_s):
            self.start_s = event.at_s
            self.held.until(event.at_s)
        self.end_s = event.at_s
        self.events += 1
        handler = self._handler(event)
        if handler is None:
            _count(self.unknown, event.name)
            return
        handler(event)
        self.held.change(self._now(), event.at_s)

    def finish(self) -> None:
        """What held the sender back up to the last event."""
        self.held.until(self.end_s)

    def _handler(self, event: Event) -> Callable[[Event], None] | None:
        name = _RENAMED.get(event.name, event.name)
        handler = None if event.schema in _OF_APPLICATIONS else _HANDLERS.get(name)
        if event.schema in _OURS and name in _OF_OURS:
            self.schema = event.schema
            handler = _OF_OURS[name]
        return None if handler is None else partial(handler, self)

    # Packets.

    def _packet_sent(self, event: Event) -> None:
        header, size, is_data, path = self._header(event)
        self.sent += 1
        self.sent_octets += size
        of_path = self._of_path(event, path)
        of_path.sent += 1
        of_path.sent_octets += size
        frames = _frames(event)
        kinds = {kind for kind, _ in frames}
        for kind, frame in frames:
            if kind in BLOCKED:
                self.blocked[kind] += 1
                if len(self._closed[kind]) < MOST_STREAMS:
                    self._closed[kind].add(_stream(frame, event))
            elif kind == "path_challenge":
                self._migrated(event, "a PATH_CHALLENGE asked whether a path works")
            elif kind == "connection_close":
                self._closing(event, frame, "local")
        pieces, has_data = self._data(event, frames, is_data=is_data, size=size, is_sent=True)
        fate = event.data.get("fate")
        if isinstance(fate, str):
            self.schema = self.schema or "ours"
            _count(self.fates, fate)
            if fate == "delivered" and not self.has_acks:
                self.out.add(pieces, event.at_s)
        packet_number = whole(header.get("packet_number"), f"{event.where}: `packet_number`")
        is_silent = bool(kinds) and kinds <= _NOT_ELICITING
        if packet_number is None or is_silent or (isinstance(fate, str) and not has_data):
            return
        self._timeouts["probes"] += event.data.get("trigger") == "pto_probe"
        forgotten = self._space(event, header, path).sent(
            packet_number, Packet(event.at_s, size, pieces)
        )
        self._in_flight += size - sum(packet.size for packet in forgotten)
        self._largest = max(self._largest, size)

    def _packet_received(self, event: Event) -> None:
        header, size, is_data, path = self._header(event)
        # An acknowledgement that came over another path is in our files without lengths.
        is_here = size > 0 or "kind" not in header
        self.received += is_here
        self.received_octets += size
        if is_here:
            self._of_path(event, path).received += 1
        frames = _frames(event)
        for kind, frame in frames:
            if kind in _ACKS:
                self._ack(event, frame, header)
            elif kind in BLOCKED:
                self.peer_blocked[kind] += 1
            elif kind in {"max_data", "max_stream_data", "max_streams"}:
                self._freed(kind, frame, event)
            elif kind == "path_response":
                self._migrated(event, "a PATH_RESPONSE came: the path works")
            elif kind == "connection_close":
                self._closing(event, frame, "remote")
        pieces, _ = self._data(event, frames, is_data=is_data, size=size, is_sent=False)
        self.into.add(pieces, event.at_s)
        if not self.has_acks:
            self._in_timeout = False
            if event.at_s - self._recovery_s >= self._trip_s:
                self._recovery_s = math.nan
        packet_number = whole(header.get("packet_number"), f"{event.where}: `packet_number`")
        if packet_number is not None and is_data and is_here:
            _check_room(self.gaps, path, event)
            gap = self.gaps.setdefault(path, [packet_number, packet_number, 0])
            gap[0], gap[1] = min(gap[0], packet_number), max(gap[1], packet_number)
            gap[2] += 1

    def _of_path(self, event: Event, path: str) -> OfPath:
        _check_room(self.paths, path, event)
        return self.paths.setdefault(path, OfPath())

    def _header(self, event: Event) -> tuple[Mapping[str, Any], int, bool, str]:
        """A packet's header, size, whether it may carry data, and its path."""
        header = event.data.get("header")
        header = header if isinstance(header, dict) else {}
        where = f"{event.where}: the length of the packet"
        sizes = (
            at(event.data, "raw", "length"), header.get("packet_size"), header.get("length"),
            event.data.get("packet_size"),
        )  # fmt: skip
        size = whole(next((one for one in sizes if one is not None), None), where)
        kind = _type(event, header)
        path = header.get("path_id", event.path or _FIRST_PATH)
        return header, size or 0, kind in _DATA_TYPES or not kind, str(path)

    def _data(
        self,
        event: Event,
        frames: list[tuple[str, Mapping[str, Any]]],
        *,
        is_data: bool,
        size: int,
        is_sent: bool,
    ) -> tuple[list[tuple[int, int, int]], bool]:
        """The application's data in a packet, and whether there is any, which may begin with it."""
        pieces = self._pieces(event, frames, is_data=is_data, size=size)
        has_data = any(length for _, _, length in pieces)
        data = self.out if is_sent else self.into
        if has_data and math.isnan(data.begun_s):
            data.begun_s = event.at_s
        self._opened_by(event, is_data=is_data, has_data=has_data, is_sent=is_sent)
        return pieces, has_data

    def _pieces(
        self,
        event: Event,
        frames: list[tuple[str, Mapping[str, Any]]],
        *,
        is_data: bool,
        size: int,
    ) -> list[tuple[int, int, int]]:
        """The application's data in a packet; by its payload where the file has no frames."""
        if at(event.data, "header", "kind") is not None:
            length = whole(
                at(event.data, "raw", "payload_length"), f"{event.where}: `payload_length`"
            )
            return [(-1, 0, length or 0)]
        if frames:
            self.has_frames = True
            pieces = []
            for kind, frame in frames:
                if kind in {"stream", "datagram"}:
                    length = frame.get("length", at(frame, "raw", "payload_length"))
                    if length is None:
                        length = at(frame, "raw", "length")
                    found = whole(length, f"{event.where}: the length of a frame") or 0
                    start = whole(frame.get("offset"), f"{event.where}: `offset`") or 0
                    pieces.append((_stream(frame, event) if kind == "stream" else -1, start, found))
            return pieces
        if not is_data or self.has_frames or "frames" in event.data:
            return []
        self.out.has_headers = self.into.has_headers = True
        return [(-1, 0, size)]

    def _space(self, event: Event, header: Mapping[str, Any], path: str) -> Space:
        named = (event.data.get(key) for key in ("packet_number_space", "packet_num_space"))
        kind = next((one.lower() for one in named if isinstance(one, str)), _type(event, header))
        if kind not in {"initial", "handshake"}:
            kind = "data"
        key = (kind, path)
        if key not in self._spaces:
            _check_room(self._spaces, key, event, _SPACES_OF_A_PATH)
            self._spaces[key] = Space()
        return self._spaces[key]

    def _ack(self, event: Event, frame: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        # An ACK frame is about path 0 on whatever path it comes (RFC 10069).
        space = self._space(event, header, str(frame.get("path_id", _FIRST_PATH)))
        for found in items(frame.get("acked_ranges")):
            ends = found if isinstance(found, list) else [found]
            if not 1 <= len(ends) <= 2:
                raise AnabranchError(
                    f"{event.where}: a range of `acked_ranges` has to be 1 or 2 numbers"
                )
            numbers = [whole(one, f"{event.where}: `acked_ranges`") for one in ends]
            if None in numbers:
                raise AnabranchError(f"{event.where}: a number of `acked_ranges` is missing")
            self._acked(event, space, numbers[0] or 0, numbers[-1] or 0)

    def _acked(self, event: Event, space: Space, first: int, last: int) -> None:
        packets, spurious = space.acked(first, last)
        self.spurious += spurious
        if not packets:
            return
        if not self.has_acks and self.fates:
            # What the simulator said of earlier ones counts no more than what is acknowledged.
            begun_s = self.out.begun_s
            self.out = Data(begun_s=begun_s)
        self.has_acks = True
        for packet in packets:
            self._in_flight -= packet.size
            self.out.add(packet.pieces, event.at_s)
        self._in_timeout = False
        if max(packet.sent_s for packet in packets) > self._recovery_s:
            self._recovery_s = math.nan

    def _packets_acked(self, event: Event) -> None:
        numbers = items(event.data.get("packet_numbers"))
        if "packet_num" in event.data:
            numbers = [event.data["packet_num"]]
        space = self._space(event, event.data, event.path or _FIRST_PATH)
        for found in numbers:
            one = whole(found, f"{event.where}: `packet_numbers`")
            if one is not None:
                self._acked(event, space, one, one)

    def _packet_lost(self, event: Event) -> None:
        header, _, _, path = self._header(event)
        value = header.get("packet_number", event.data.get("packet_number"))
        found = whole(value, f"{event.where}: `packet_number`")
        trigger = event.data.get("trigger")
        _count(self.lost, trigger if isinstance(trigger, str) else "")
        self._of_path(event, path).lost += 1
        if event.data.get("is_mtu_probe_packet") is True:
            return
        packet = None
        if found is not None:
            packet = self._space(event, header, path).lost(found)
        if packet is not None:
            self._in_flight -= packet.size
            self._recover(event, packet.sent_s)

    def _packets_lost(self, event: Event) -> None:
        """Of mvfst, which counts them."""
        count = whole(event.data.get("lost_packets"), f"{event.where}: `lost_packets`") or 0
        self.lost[""] += count
        self._recover(event, math.inf)

    def _spurious_loss(self, _: Event) -> None:
        """Of quic-go: it says what the ranges of acknowledgements say as well."""

    def _recover(self, event: Event, sent_s: float) -> None:
        """A loss begins one if its packet was sent after the last (RFC 9002 section 7.3.2)."""
        is_told = any("recovery" in state for state in self.states) or bool(self.fates)
        if sent_s > self._began_s and not is_told:
            self._recoveries += 1
            self._began_s = self._recovery_s = event.at_s

    # Recovery and congestion control.

    def _metrics_updated(self, event: Event) -> None:
        path = str(event.data.get("path_id", event.path or _FIRST_PATH))
        _check_room(self.windows, path, event)

        def value(name: str, most: float = MOST_NUMBER) -> float | None:
            return amount(event.data.get(name), f"{event.where}: `{name}`", most)

        for name in ("congestion_window", "current_cwnd", "cwnd"):
            if (window := value(name)) is not None:
                self.windows[path] = window
                least, most = self.window_range
                self.window_range = min(least, window), max(most, window)
        if (in_flight := value("bytes_in_flight")) is not None:
            self._told_in_flight[path] = in_flight
        for name in ("latest_rtt", "smoothed_rtt"):
            trip = value(name, 1e12)
            # A file has the round trips themselves, or else the smoothed ones.
            if trip is None or trip == 0 or self.trips_kind not in {"", "smoothed_rtt", name}:
                continue
            if self.trips_kind not in {"", name}:
                self.trips = Samples()
            self.trips_kind = name
            self.trips.add(trip * event.unit_ms)
            self._of_path(event, path).trips.add(trip * event.unit_ms)
            self._trip_s = trip * event.unit_ms / 1e3
        probes = value("pto_count")
        if probes is not None:
            self.knows_timeouts = True
            self._timeouts["counts"] += probes > self._probes.get(path, 0.0)
            self._probes[path] = probes
            self._in_timeout = any(self._probes.values())

    def _timer_updated(self, event: Event) -> None:
        if event.data.get("timer_type") == "pto":
            self.knows_timeouts = True
            if event.data.get("event_type") == "expired":
                self._timeouts["timers"] += 1
                self._in_timeout = True

    def _congestion_state_updated(self, event: Event) -> None:
        state = event.data.get("new")
        if not isinstance(state, str):
            raise AnabranchError(f"{event.where}: `new` has to be a text, the state that begins")
        state = wording.harmless(state[:40])
        if state != self._state:
            self.states[
                state if len(self.states) < MOST_PATHS or state in self.states else "other"
            ] += 1
        if "recovery" in state:
            self._recovery_s = math.nan
        self._state = state

    def _data_blocked_updated(self, event: Event) -> None:
        reason = event.data.get("reason")
        is_blocked = event.data.get("new") == "blocked"
        self._reason = _REASONS.get(reason, "") if is_blocked and isinstance(reason, str) else ""

    def _freed(self, kind: str, frame: Mapping[str, Any], event: Event) -> None:
        blocked = next(one for one, other in BLOCKED.items() if other == kind)
        if kind == "max_stream_data":
            self._closed[blocked].discard(_stream(frame, event))
        else:
            self._closed[blocked].clear()

    # How a connection begins, moves and ends.

    def _opened_by(self, event: Event, *, is_data: bool, has_data: bool, is_sent: bool) -> None:
        """The first packet that shows that the handshake is over, where no event says so."""
        if not math.isnan(self.handshake_s):
            return
        is_ours = at(event.data, "header", "kind") is not None
        kind = _type(event, event.data.get("header"))
        is_first = is_sent == (event.side != "server") and kind in _ONE_RTT
        if (has_data and is_ours) or (is_data and is_first and not is_ours):
            self.handshake_s = event.at_s

    def _connection_state_updated(self, event: Event) -> None:
        state = event.data.get("new", event.data.get("connection_state"))
        if isinstance(state, str) and state.startswith(("handshake_co", "confirmed", "connected")):
            self._connected(event)

    def _connected(self, event: Event) -> None:
        if math.isnan(self.handshake_s):
            self.handshake_s = event.at_s

    def _migration(self, event: Event) -> None:
        state = event.data.get("new")
        said = (
            str(state)[:40].replace("_", " ")
            if isinstance(state, str)
            else "the connection migrates"
        )
        self._migrated(event, wording.harmless(said))

    def _migrated(self, event: Event, said: str) -> None:
        self.migrated += 1
        if len(self.migrations) < MOST_SAID:
            self.migrations.append(f"At {event.at_s:.3f} s: {said}.")

    def _connection_closed(self, event: Event) -> None:
        by = event.data.get("initiator", event.data.get("owner"))
        self._closing(event, event.data, by if isinstance(by, str) else "")

    def _closing(self, event: Event, found: Mapping[str, Any], by: str) -> None:
        """The first that is said counts: what follows is its repetition or its answer."""
        if self.close is not None:
            return
        of_application = any(found.get(key) is not None for key in _OF_APPLICATION)
        words = ("connection_error", "connection_code", "application_error", "application_code")
        named = next((found[key] for key in words if found.get(key) is not None), None)
        named = found.get("error") if named is None else named
        codes = (found.get("error_code"), found.get("raw_error_code"), named)
        code = next((one for one in codes if isinstance(one, int) and one >= 0), None)
        space = found.get("error_space")
        texts = [
            wording.harmless(one[:200]) if isinstance(one, str) else ""
            for one in (
                named,
                found.get("reason", found.get("reason_phrase")),
                found.get("trigger"),
            )
        ]
        if not texts[0] and isinstance(found.get("error_code"), str):
            texts[0] = wording.harmless(found["error_code"][:200])
        by = by if by in {"local", "remote"} else ""
        is_of_application = space in ("application", "application_error") or of_application
        self.close = Close(event.at_s, by, texts[0], code, is_of_application, texts[1], texts[2])

    # Of runs of ours.

    def _timeout(self, _: Event) -> None:
        self.knows_timeouts = True
        self._timeouts["timers"] += 1
        self._in_timeout = True

    def _fast_recovery(self, event: Event) -> None:
        self.knows_timeouts = True
        self.states["recovery"] += 1
        self._recovery_s = event.at_s

    # What holds the sender back.

    def _now(self) -> str:
        in_flight = float(self._in_flight)
        if not self.has_acks and self._told_in_flight:
            in_flight = sum(self._told_in_flight.values())
        window = sum(self.windows.values()) if self.windows else math.inf
        is_recovering = "recovery" in self._state or not math.isnan(self._recovery_s)
        is_full = in_flight > 0 and in_flight + max(self._largest, 1) > window
        is_blocked = any(self._closed.values())
        states = (
            (math.isnan(self.handshake_s), "handshake"),
            (self._in_timeout, "in_timeout"),
            (is_recovering, "in_recovery"),
            (is_full, "cwnd_limited"),
            (bool(self._reason), self._reason),
            (is_blocked, "receive_window_limited"),
            (in_flight > 0, "under_way"),
        )
        return next((limit for holds, limit in states if holds), "application_limited")


_OF_APPLICATION = ("application_error", "application_code")

_HANDLERS: dict[str, Callable[[Connection, Event], None]] = {
    "packet_sent": Connection._packet_sent,
    "packet_received": Connection._packet_received,
    "packets_acked": Connection._packets_acked,
    "packet_lost": Connection._packet_lost,
    "packets_lost": Connection._packets_lost,
    "spurious_loss": Connection._spurious_loss,
    "metrics_updated": Connection._metrics_updated,
    "timer_updated": Connection._timer_updated,
    "congestion_state_updated": Connection._congestion_state_updated,
    "connection_data_blocked_updated": Connection._data_blocked_updated,
    "connection_state_updated": Connection._connection_state_updated,
    "migration_state_updated": Connection._migration,
    "connection_migration": Connection._migration,
    "connection_closed": Connection._connection_closed,
}
"""What is done with each event that is read, by its name in 0.3."""

_OF_OURS: dict[str, Callable[[Connection, Event], None]] = {
    "connected": Connection._connected,
    "fast_recovery": Connection._fast_recovery,
    "timeout": Connection._timeout,
}
"""The same of the events of a run of ours."""


def _count(counter: Counter[str], key: str) -> None:
    """Counts one more of this, as long as there are not too many different ones."""
    counter[key if key in counter or len(counter) < MOST_PATHS else "other"] += 1


def _check_room(known: Mapping[Any, Any], key: object, event: Event, of_each: int = 1) -> None:
    """Refuses one more of what a path has so many of, for more than `MOST_PATHS` paths."""
    if key not in known and len(known) >= of_each * MOST_PATHS:
        raise AnabranchError(f"{event.where}: more than {MOST_PATHS} paths")


def _frames(event: Event) -> list[tuple[str, Mapping[str, Any]]]:
    """The frames of a packet, with their types."""
    found = [one for one in items(event.data.get("frames")) if isinstance(one, dict)]
    return [(str(one.get("frame_type", "")).lower(), one) for one in found]


def _type(event: Event, header: Any) -> str:
    """The type of a packet, in small letters; empty where the event names none."""
    kinds = (at(header, "packet_type"), event.data.get("packet_type"), event.data.get("type"))
    return next((one.lower() for one in kinds if isinstance(one, str)), "")


def _stream(frame: Mapping[str, Any], event: Event) -> int:
    found = whole(frame.get("stream_id", frame.get("id")), f"{event.where}: `stream_id`")
    return 0 if found is None else found


def by_group(events: Iterator[Event], most: int) -> list[Connection]:
    """The connections that events are about, of those of one file.

    Raises an AnabranchError where there are more than `most`.
    """
    found: dict[tuple[str, str], Connection] = {}
    for event in events:
        key = (event.group, event.side)
        if key not in found:
            if len(found) >= most:
                raise AnabranchError(
                    f"{event.where}: more than {most:,} connections in one file; split it"
                )
            found[key] = Connection(event.group, event.side)
        found[key].take(event)
    for one in found.values():
        one.finish()
    return list(found.values())
