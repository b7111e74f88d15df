"""What held a sender back, as far as packets show it: the time of each of its paths.

Everything is seen from where the sender sends: data when it leaves, acknowledgements when they
come in. A retransmission follows an acknowledgement at once where that reported a loss; one that
comes out of silence is a timer's. The congestion window is not on the wire, so what waits for it
and what waits for the network's round trip are one limit here, `under_way`.
"""

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from anabranch.support.holes import OVERTAKEN
from anabranch.support.packets import ACK, FIN, RST, SYN

from .flows import Flow, begins, data_of
from .journeys import Sent, has_data
from .packets import Chunks, Datagram, Run, Segment

_HALF = 1 << 31
_PROMPT_S = 0.005
"""Within this time after an acknowledgement a retransmission is its consequence, at least."""

_SHARED = 0.02
"""Changes of the path per packet of new data from which on all paths are in use at once."""

IDLE_S = 0.2
"""The least pause that is called one."""

_CLOSED = "window_closed"
"""A limit that becomes `receive_window_limited` if data waited behind the closed window, which
probes and what follows its opening at once say, and `application_limited` otherwise.
"""


@dataclass(slots=True)
class _Record:
    """Data that was sent, and is acknowledged together or not."""

    run: Run
    path: int
    """On which it was sent last."""
    sent: Sent
    times: int = 1
    is_acknowledged: bool = False


@dataclass(slots=True)
class Expiry:
    """A retransmission timer that expired."""

    at_s: float
    path: str
    waited_s: float
    """Since something was heard on the path, or since the timer had expired before."""
    row: int
    """Its number among those that followed each other with nothing heard in between."""


@dataclass(slots=True)
class Move:
    """New data goes on another path than before."""

    at_s: float
    source: str
    target: str
    silent_s: float
    """How long nothing had been heard on the path that it leaves."""
    is_failover: bool
    """Whether that path was in a retransmission timeout."""


@dataclass(slots=True)
class Track:
    """One path of a sender."""

    name: str
    packets: int = 0
    """With data, and with what is sent again."""
    octets: int = 0
    again: int = 0
    """Packets with data that had been sent before."""
    probes: int = 0
    """Of these, tail loss probes (RFC 8985 section 7)."""
    recoveries: int = 0
    timeouts: int = 0
    attempts: int = 0
    """SYN of this path, or of this subflow."""
    keepalives: int = 0
    """Packets that ask whether the peer is still there (RFC 9293 section 3.8.4)."""
    probed_s: list[float] = field(default_factory=list)
    """When the peer was asked whether its closed window is open (RFC 9293 section 3.8.6.1)."""
    round_trips: list[tuple[float, float]] = field(default_factory=list)
    """When, and how long in s, of data whose acknowledgement nothing delayed; without what was sent
    twice (Karn's algorithm).
    """
    answers: list[tuple[float, float]] = field(default_factory=list)
    """The same of what is answered at once: handshakes, heartbeats, keep-alives, probes."""
    bounds: list[tuple[float, float]] = field(default_factory=list)
    """The same of single messages, whose acknowledgement may have waited for a second one."""
    fresh_s: list[float] = field(default_factory=list)
    """When new data was sent."""
    limits: list[tuple[float, float, str]] = field(default_factory=list)
    outstanding: int = 0
    recovery: int | None = None
    """Until this number is acknowledged it is in fast recovery."""
    timeout: int | None = None
    row: int = 0
    expired_s: float = -1.0
    is_down: bool = False
    is_open: bool = False
    heard_s: float = 0.0
    state: str | None = None
    since_s: float = 0.0
    room: float = math.inf
    """The least that the peer has taken in this state, in bytes."""
    shut: tuple[int, float] | None = None
    """The limit that was last called the receive window's, and what the peer took meanwhile."""

    @property
    def measured(self) -> list[tuple[float, float]]:
        """Round trips that no timer made longer: when, and how long in s."""
        return sorted(self.round_trips + self.answers)


class _Space:
    """A sequence of numbers, the path's own or one of the whole association."""

    def __init__(self) -> None:
        self.records: list[_Record] = []
        self.starts: list[int] = []
        self.base = 0
        """The first record that is not acknowledged cumulatively."""
        self.highest: int | None = None
        """The number of what is sent next."""
        self.cumulative: int | None = None
        self.told_s = -math.inf
        """When the peer said so last."""
        self._reported: dict[int, int] = {}

    def near(self, number: int) -> int:
        """A number of 32 bits as one that does not start over."""
        known = self.highest if self.highest is not None else number
        return known + (number - known + _HALF) % (1 << 32) - _HALF

    def add(self, run: Run, path: int, sent: Sent) -> None:
        self.records.append(_Record(run, path, sent))
        self.starts.append(run.start)
        self.highest = run.end

    def take(self, cumulative: int) -> None:
        """The peer has taken a byte or chunk of which a probe was sent, and no record kept."""
        if self.highest is not None and cumulative == self.highest + 1:
            self.highest = cumulative

    def within(self, run: Run) -> Iterator[_Record]:
        """Those that are not acknowledged cumulatively and have a part of these numbers."""
        index = max(bisect_left(self.starts, run.start, self.base), self.base)
        if index > self.base and self.records[index - 1].run.end > run.start:
            index -= 1
        while index < len(self.records) and self.records[index].run.start < run.end:
            yield self.records[index]
            index += 1

    def acknowledge(self, cumulative: int) -> Iterator[_Record]:
        """What is acknowledged by this number for the first time."""
        if self.cumulative is None or cumulative > self.cumulative:
            self.cumulative = cumulative
            self._reported.clear()
        while self.base < len(self.records) and self.records[self.base].run.end <= cumulative:
            yield self.records[self.base]
            self.base += 1

    def select(self, run: Run) -> Iterator[_Record]:
        """What of a report above a gap has not been reported before."""
        start = max(run.start, self._reported.get(run.start, run.start))
        if start >= run.end:
            return
        self._reported[run.start] = run.end
        for record in self.within(Run(start, run.end)):
            if record.run.start >= run.start and record.run.end <= run.end:
                yield record


class Sender:
    """One end of a flow of TCP, Multipath TCP or SCTP as a sender of data."""

    def __init__(self, flow: Flow, side: int) -> None:
        self.tracks = [Track(path.name) for path in flow.paths]
        self.expiries: list[Expiry] = []
        self.moves: list[Move] = []
        self.came_twice = 0
        """Packets that the peer reported to have had before (RFC 2883)."""
        self.given_up = 0
        """Chunks that were not sent again (partial reliability)."""
        self.opened_s: float | None = None
        """When it could send; when it did first, where it was open before the capture began."""
        self.attempts = 0
        """Packets with which it asked for the connection, or granted it."""
        self.is_sctp = flow.protocol == "SCTP"
        self._flow, self._side = flow, side
        self._opening: Track | None = None
        """The path on which the connection began, of TCP."""
        self._cuts_s = flow.directions(side)[0].cuts_s if flow.directions(side) else []
        self._asked: dict[Hashable, tuple[float, int] | None] = {}
        """When and on which path the peer was asked what is not answered yet; None if twice."""
        one = _Space()
        self._spaces = [one if self.is_sctp else _Space() for _ in flow.paths]
        self._data = _Space()
        """Of Multipath TCP, what has been sent and acknowledged on the connection level."""
        self._window: float | None = None
        """What the peer still takes, as it said last, from what it had acknowledged on."""
        self._scale: int | None = None
        """By how many bits the peer shifts its window; None where its SYN was not captured."""
        self._edge: int | None = None
        self._is_zero = False
        """Whether the peer said last that it takes nothing."""
        self._largest = 0
        self._primary: int | None = None
        self._is_shared = self._shares()
        self._least_s = float("inf")
        self._now = flow.start_s
        begun = [begins(path) for path in flow.paths]
        for track, is_begun in zip(self.tracks, begun, strict=True):
            track.since_s = track.heard_s = flow.start_s
            # What the capture does not see being opened was open before.
            track.is_open = not (any(begun) if self.is_sctp else is_begun)
        self._carries = [
            any(has_data(packet) for packet in way.sent) if way is not None else False
            for way in (path.ways[side] for path in flow.paths)
        ]
        for at_s, path, packet, is_own in self._events():
            self._now = at_s
            if is_own:
                self._on_sent(path, packet)
            else:
                self._on_heard(path, packet)
            self._note_limits()
        self._now = max(flow.end_s, self._now)
        for track in self.tracks:
            self._close(track)
            _settle(track)

    def _events(self) -> list[tuple[float, int, Sent, bool]]:
        """What is sent and what comes in, in the order of the times at this end."""
        places = self._flow.places(self._side)
        events: list[tuple[float, int, Sent, bool]] = []
        for index, path in enumerate(self._flow.paths):
            own, back = path.ways[self._side], path.ways[1 - self._side]
            sent = own.sent if own is not None else ()
            events += [(packet.sent_s, index, packet, True) for packet in sent]
            sent = back.sent if back is not None else ()
            events += [
                (at_s, index, packet, False)
                for packet in sent
                if (at_s := packet.at(places)) is not None and not _is_lost_at(packet, at_s)
            ]
        # Of one moment, what comes in is the cause of what goes out.
        events.sort(key=lambda event: (event[0], event[3]))
        return events

    def _shares(self) -> bool:
        """Whether new data goes on several paths at once, rather than on one after another."""
        ways = [path.ways[self._side] for path in self._flow.paths]
        of = {id(p): i for i, way in enumerate(ways) if way is not None for p in way.sent}
        order = [
            of[id(packet)]
            for packet in data_of(way for way in ways if way is not None)
            if has_data(packet)
        ]
        changes = sum(one != other for one, other in itertools.pairwise(order))
        return changes > _SHARED * len(order)

    def _on_sent(self, path: int, packet: Sent) -> None:
        track, content = self.tracks[path], packet.content
        if isinstance(content, Segment) and content.flags & SYN:
            is_first = track is self._opening or self._opening is None
            self._opening = self._opening or track
            self.attempts += is_first
            track.attempts += 1
            self._scale_of(content, is_own=True)
        if isinstance(content, Chunks) and content.begins:
            self.attempts += 1
        if isinstance(content, Chunks) and content.passes is not None:
            self._on_passed(path, content.passes)
        self._ask(path, packet)
        if packet.purpose or packet.fills == OVERTAKEN:
            return
        runs = list(_runs(packet))
        if not runs:
            return
        if not self.is_sctp or not self.attempts:
            self._open(track)  # it has been, although the capture may lack how
        track.packets += 1
        track.octets += packet.octets
        space = self._spaces[path]
        is_new = False
        for run, octets in runs:
            start = space.near(run.start)
            whole = Run(start, start + run.end - run.start)
            if space.highest is None or whole.start >= space.highest:
                space.add(whole, path, packet)
                track.outstanding += octets
                is_new = True
                self._largest = max(self._largest, octets)
            else:
                self._on_again(path, packet, whole)
                if whole.end > space.highest:
                    space.add(Run(space.highest, whole.end), path, packet)
        if isinstance(content, Segment) and content.data_end is not None:
            end = self._data.near(content.data_end)
            self._data.highest = max(end, self._data.highest or end)
        track.again += packet.is_again
        if is_new:
            self._on_new(path, sum(octets for _, octets in runs))

    def _ask(self, path: int, packet: Sent) -> None:
        """Remembers what the peer answers at once."""
        track, content = self.tracks[path], packet.content
        packet.purpose = self._purpose(path, packet)
        track.keepalives += packet.purpose == "keepalive"
        if packet.purpose == "probe":
            track.probed_s.append(self._now)
        if packet.purpose and not self.is_sctp:
            self._asked[path, "purpose"] = (self._now, path)
        for question in () if isinstance(content, Datagram) else content.asks:
            key = question if self.is_sctp else (path, question)
            self._asked[key] = None if key in self._asked else (self._now, path)

    def _purpose(self, path: int, packet: Sent) -> str:
        """Whether a packet asks for the peer or its window, rather than to bring something.

        A keep-alive has the number before the next one, and that byte or none; so has a probe of
        Linux. Others' probes have the next byte, which the peer does not take.
        """
        content, space = packet.content, self._spaces[path]
        is_idle = space.highest is not None and space.cumulative == space.highest
        if not is_idle:
            return ""
        if isinstance(content, Chunks):
            is_next = [space.near(tsn) for tsn, _ in content.data] == [space.highest]
            return "probe" if self._is_zero and is_next else ""
        if not isinstance(content, Segment) or content.flags & (SYN | FIN | RST):
            return ""
        octets = content.data.end - content.data.start if content.data is not None else 0
        start = space.near(content.sequence)
        if octets <= 1 and start == (space.highest or 0) - 1:
            return "probe" if self._is_zero else "keepalive"
        return "probe" if self._is_zero and octets == 1 and start == space.highest else ""

    def _answered(self, path: int, packet: Sent) -> None:
        """Round trips of what is answered at once."""
        content = packet.content
        if isinstance(content, Datagram):
            return
        keys: list[Hashable] = [one if self.is_sctp else (path, one) for one in content.answers]
        if isinstance(content, Segment) and content.flags & ACK:
            keys.append((path, "purpose"))
        for key in keys:
            asked = self._asked.pop(key, None)
            if asked is not None and self._is_measured(asked[0]):
                delay_s = self._now - asked[0]
                self.tracks[asked[1]].answers.append((self._now, delay_s))
                self._least_s = min(self._least_s, delay_s)

    def _on_passed(self, path: int, last: int) -> None:
        """Data up to this TSN is given up rather than sent again."""
        space = self._spaces[path]
        end = space.near(last) + 1
        given_up = [one for one in space.acknowledge(end) if not one.is_acknowledged]
        for count, record in enumerate(given_up):
            if not count:
                self._classify(space, record)
            record.is_acknowledged = record.sent.was_repeated = True
            size = _octets(record, is_sctp=True)
            self.tracks[record.path].outstanding -= size
        self.given_up += len(given_up)

    def _on_new(self, path: int, octets: int) -> None:
        """New data goes on this path."""
        track = self.tracks[path]
        track.fresh_s.append(self._now)
        if track.shut is not None:
            index, room = track.shut
            if octets <= room:
                # It would have fit before: the window was not what it waited for.
                track.limits[index] = (*track.limits[index][:2], "under_way")
            track.shut = None
        before, self._primary = self._primary, path
        if before is None or before == path or self._is_shared:
            return
        old = self.tracks[before]
        silent_s = self._now - old.heard_s
        usual_s = max((delay_s for _, delay_s in old.round_trips), default=float("inf"))
        waits = old.outstanding > 0 and silent_s > 2 * usual_s
        is_failover = old.timeout is not None or waits
        old.is_down |= is_failover
        names = (old.name, self.tracks[path].name)
        self.moves.append(Move(self._now, *names, silent_s, is_failover))

    def _on_again(self, path: int, packet: Sent, run: Run) -> None:
        space = self._spaces[path]
        open_ = [one for one in space.within(run) if not one.is_acknowledged]
        for record in open_:
            if not packet.is_again:
                self._classify(space, record)
                packet.is_again = True
            record.sent.was_repeated = True
            record.sent.was_awaited |= (
                space.cumulative is not None
                and record.run.start <= space.cumulative < record.run.end
                and space.told_s > record.sent.sent_s
            )
            if record.path != path:
                size = _octets(record, is_sctp=self.is_sctp)
                self.tracks[record.path].outstanding -= size
                self.tracks[path].outstanding += size
            record.path, record.sent, record.times = path, packet, record.times + 1
        # What has been acknowledged meanwhile, and is sent all the same, was sent again too.
        packet.is_again = True

    def _classify(self, space: _Space, record: _Record) -> None:
        """Whether a loss was reported, or a timer has expired, on the path of what was lost."""
        track = self.tracks[record.path]
        prompt_s = max(_PROMPT_S, self._least_s / 2 if self._least_s < 1e9 else 0.0)
        silent_s = self._now - track.heard_s
        highest = space.highest or 0
        if silent_s <= prompt_s:
            if track.timeout is None and track.recovery is None:
                track.recovery, track.recoveries = highest, track.recoveries + 1
            return
        if self._now - track.expired_s <= prompt_s:
            return  # what was lost goes out packet by packet
        is_last = record is space.records[-1]
        is_first = space.base < len(space.records) and record is space.records[space.base]
        if not self.is_sctp and is_last and not is_first and track.timeout is None:
            track.probes += 1
            return
        track.row = track.row + 1 if track.expired_s >= track.heard_s else 1
        since_s = max(track.heard_s, track.expired_s)
        self.expiries.append(Expiry(self._now, track.name, self._now - since_s, track.row))
        track.timeouts += 1
        track.expired_s = self._now
        track.timeout, track.recovery = highest, None
        if track.row > 1:
            # Others are heard while it is silent.
            track.is_down |= any(one.heard_s > track.heard_s for one in self.tracks)

    def _on_heard(self, path: int, packet: Sent) -> None:
        track, content = self.tracks[path], packet.content
        self._answered(path, packet)
        if isinstance(content, Segment):
            self._scale_of(content, is_own=False)
            track.heard_s, track.is_down = self._now, False
            if content.flags & ACK:
                self._open(track)
            if content.acknowledgement is not None:
                self._on_segment(path, content)
        elif isinstance(content, Chunks):
            if content.is_open:
                for each in self.tracks:
                    self._open(each)
            if content.answers:
                track.heard_s, track.is_down = self._now, False
            if content.cumulative is not None:
                self._on_sack(path, content)
        self._end_episodes()

    def _open(self, track: Track) -> None:
        if self.opened_s is None:
            self.opened_s = self._now
        track.is_open = True

    def _on_segment(self, path: int, segment: Segment) -> None:
        space = self._spaces[path]
        assert segment.acknowledgement is not None
        cumulative = space.near(segment.acknowledgement)
        space.take(cumulative)
        space.told_s = self._now
        known = [Run(space.near(run.start), space.near(run.end)) for run in segment.selective]
        # What lies below the acknowledgement, or in the second report, came twice (RFC 2883).
        is_twice = bool(known) and known[0].end <= cumulative
        if len(known) > 1:
            is_twice |= known[1].start <= known[0].start and known[0].end <= known[1].end
        is_asked = self.tracks[path].keepalives > 0 and known[:1] == [
            Run(cumulative - 1, cumulative)
        ]
        self.came_twice += is_twice and not is_asked
        done = [r for r in space.acknowledge(cumulative) if not r.is_acknowledged]
        for run in known[is_twice:]:
            done += [r for r in space.select(run) if not r.is_acknowledged]
        self._acknowledged(done)
        self._is_zero = segment.window == 0
        scale = 0 if segment.flags & SYN or self._is_zero else self._scale
        if scale is None:
            self._edge = None
            return
        window = segment.window << scale
        if self._flow.protocol != "MPTCP":
            self._edge = cumulative + window
        elif segment.data_acknowledgement is not None:
            self._edge = self._data.near(segment.data_acknowledgement) + window

    def _on_sack(self, path: int, chunks: Chunks) -> None:
        space = self._spaces[path]
        assert chunks.cumulative is not None
        cumulative = space.near(chunks.cumulative) + 1
        space.take(cumulative)
        space.told_s = self._now
        done = [r for r in space.acknowledge(cumulative) if not r.is_acknowledged]
        offset = cumulative - 1 - chunks.cumulative
        for start, end in chunks.gaps:
            reported = space.select(Run(start + offset, end + offset))
            done += [r for r in reported if not r.is_acknowledged]
        self._acknowledged(done)
        self.tracks[path].heard_s = self._now
        self._window = chunks.window
        self._is_zero = chunks.window == 0

    def _acknowledged(self, done: Sequence[_Record]) -> None:
        newest: dict[int, _Record] = {}
        packets: dict[int, set[int]] = {}
        for record in done:
            packets.setdefault(record.path, set()).add(id(record.sent))
            record.is_acknowledged = True
            track = self.tracks[record.path]
            track.outstanding -= _octets(record, is_sctp=self.is_sctp)
            track.heard_s = self._now
            if record.times == 1:
                track.is_down = False
                best = newest.get(record.path)
                if best is None or record.sent.sent_s > best.sent.sent_s:
                    newest[record.path] = record
        for path, record in newest.items():
            if not self._is_measured(record.sent.sent_s):
                continue
            delay_s = self._now - record.sent.sent_s
            # A second packet is acknowledged at once (RFC 9293 section 3.8.6.3, RFC 9260 section
            # 6.2); one with nothing behind it may have waited for one.
            is_single = len(packets[path]) == 1
            is_last = record.sent is self._spaces[path].records[-1].sent
            track = self.tracks[path]
            samples = track.bounds if is_single and is_last else track.round_trips
            samples.append((self._now, delay_s))
            self._least_s = min(self._least_s, delay_s)

    def _is_measured(self, since_s: float) -> bool:
        """Whether the clock was not set meanwhile."""
        return bisect_left(self._cuts_s, since_s) == bisect_left(self._cuts_s, self._now)

    def _end_episodes(self) -> None:
        for track, space in zip(self.tracks, self._spaces, strict=True):
            done = space.cumulative if space.cumulative is not None else -1
            is_empty = track.outstanding <= 0
            if track.recovery is not None and (done >= track.recovery or is_empty):
                track.recovery = None
            if track.timeout is not None and (done >= track.timeout or is_empty):
                track.timeout = None

    def _scale_of(self, segment: Segment, *, is_own: bool) -> None:
        """The peer's window has the scale of its SYN, if both have one (RFC 7323 section 2.2)."""
        if segment.flags & SYN and not is_own:
            self._scale = segment.scale or 0
        elif segment.flags & SYN and segment.scale is None:
            self._scale = 0

    def _room(self, path: int) -> float:
        """What the peer takes beyond what it has been sent, in bytes; infinite if not known."""
        if self.is_sctp:
            outstanding = sum(track.outstanding for track in self.tracks)
            return math.inf if self._window is None else self._window - outstanding
        space = self._data if self._flow.protocol == "MPTCP" else self._spaces[path]
        if self._edge is None or space.highest is None:
            return math.inf
        return self._edge - space.highest

    def _limit(self, path: int) -> str:
        track = self.tracks[path]
        is_elsewhere = any(other.outstanding > 0 for other in self.tracks if other is not track)
        room = self._room(path)
        # A path that others carry data beside, and that never has any, stands by.
        is_spare = not self._carries[path] and any(self._carries)
        holds = (
            (not track.is_open, "handshake"),
            (track.is_down, "path_down"),
            (track.timeout is not None, "in_timeout"),
            (track.recovery is not None, "in_recovery"),
            (track.outstanding > 0 and room < self._largest, "receive_window_limited"),
            (track.outstanding > 0, "under_way"),
            (self._is_zero and self._primary in {None, path}, _CLOSED),
            (is_spare or is_elsewhere or self._primary not in {None, path}, "standby"),
        )
        return next((limit for is_so, limit in holds if is_so), "application_limited")

    def _note_limits(self) -> None:
        for path, track in enumerate(self.tracks):
            limit = self._limit(path)
            if limit != track.state:
                self._close(track)
                track.state, track.since_s, track.room = limit, self._now, math.inf
            track.room = min(track.room, self._room(path))

    def _close(self, track: Track) -> None:
        if track.state is not None and self._now > track.since_s:
            track.limits.append((track.since_s, self._now, track.state))
            if track.state == "receive_window_limited":
                track.shut = (len(track.limits) - 1, track.room)


def _settle(track: Track) -> None:
    """Says of a closed window whether data waited behind it, and joins what is alike."""
    settled: list[tuple[float, float, str]] = []
    for start_s, end_s, noted in track.limits:
        limit = noted
        if limit == _CLOSED:
            is_probed = bisect_right(track.probed_s, end_s) > bisect_left(track.probed_s, start_s)
            at = bisect_left(track.fresh_s, end_s)
            is_prompt = at < len(track.fresh_s) and track.fresh_s[at] - end_s <= _PROMPT_S
            limit = "receive_window_limited" if is_probed or is_prompt else "application_limited"
        is_same = bool(settled) and settled[-1][2] == limit
        settled.append((settled.pop()[0] if is_same else start_s, end_s, limit))
    track.limits = settled


def _runs(packet: Sent) -> Iterator[tuple[Run, int]]:
    """The numbers of a packet's data, each with its bytes."""
    content = packet.content
    if isinstance(content, Chunks):
        yield from ((Run(tsn, tsn + 1), octets) for tsn, octets in content.data)
    elif isinstance(content, Segment) and content.data is not None and not content.flags & SYN:
        yield content.data, content.data.end - content.data.start


def _octets(record: _Record, *, is_sctp: bool) -> int:
    """Bytes of a record; a chunk's are those of its packet, by its number."""
    if not is_sctp:
        return record.run.end - record.run.start
    content = record.sent.content
    assert isinstance(content, Chunks)
    low = record.run.start & 0xFFFFFFFF
    return next((octets for tsn, octets in content.data if tsn == low), 0)


def _is_lost_at(packet: Sent, at_s: float) -> bool:
    """Whether a packet was dropped where it was seen at this time."""
    return bool(packet.dropped) and packet.seen[-1][0] <= at_s
