"""`anabranch explain CAPTURE`: what the flows of a capture lost time and data to.

Packets are followed over the places where they are seen (`journeys`), put together to flows with
paths (`flows`), and played to a sender of which only those are known (`sender`); `measures` has
what was lost and how long it took, `causes` says it. Times count from the capture's first packet.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from rich.console import Group

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.explain import accounts, qlogs, tables, waits
from anabranch.explain.calls import Call
from anabranch.explain.causes import Cause
from anabranch.support import capture, holes, quic, stdin, terminal, wording

from . import calls, causes, decrypted, measures
from .calls import Rated
from .causes import Way
from .flows import Flow, find
from .journeys import (
    FEWEST_PACKETS,
    MOST_FLOWS,
    REPEATED,
    Direction,
    End,
    Journeys,
    follow,
)
from .rtcp import reported
from .sender import Sender, Track

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

_DATAGRAMS = ("QUIC", "UDP")
"""Protocols of flows whose packets have no numbers that can be read."""

_ORDER = (
    "receive_window_limited",
    "under_way",
    "in_recovery",
    "in_timeout",
    "application_limited",
    "handshake",
    "path_down",
    "standby",
)
"""What holds the connection: the first of these that one of its paths is in."""


def is_capture(file: Path) -> bool:
    """Whether a file is one, by its name or its first bytes."""
    return file.suffix in {".pcap", ".pcapng"} or (file.is_file() and capture.is_capture(file))


@dataclass(frozen=True, slots=True)
class Explained:
    """A flow of a capture, explained."""

    flow: Flow
    account: accounts.Flow | None
    """The time of its paths; None for UDP, and where the capture is of the receiver or one way."""
    senders: tuple[Sender | None, Sender | None]
    ways: tuple[list[Way], list[Way]]
    """What each end sent, by path."""
    causes: list[Cause]
    main: Cause | None
    notes: list[str]
    calls: tuple[Rated, ...] = ()
    """What each direction in RTP is worth."""
    seen: tuple[int, ...] = (0, 1)
    """The sides of which the capture shows what held them back: not of one that is far away."""
    inside: tuple[qlogs.Explained, ...] = ()
    """Of QUIC the ends, where its packets could be opened."""

    def parts(self, width: int) -> "Iterator[RenderableType]":
        """Tables and sentences for people."""
        flow = self.flow
        times = f"{wording.number(flow.start_s, 4)} s to {wording.number(flow.end_s, 4)} s"
        yield f"{flow.name}, {flow.packets:,} packets, {times}:"
        ends = self.account.ends if self.account is not None else ()
        for side, end in enumerate(ends):
            if side in self.seen and any(path.carried is not None for path in end.paths):
                yield f"what held {end.host} (side {end.side}) back:"
                yield tables.shares(end, width)
        yield from self._table(width)
        for rated in self.calls:
            if rated.call is not None:
                yield f"what {rated.section} costs:"
                yield rated.call.table(width)
        yield "\n".join(self.sentences())
        for opened in self.inside:
            yield from opened.parts(width)

    def _table(self, width: int) -> "Iterator[RenderableType]":
        heads = (
            "from", "path", "packets", "lost", "bursts", "longest", "retransmitted",
            "least ms", "wait ms", "95 % ms", "most ms",
        )  # fmt: skip
        rows = [_row(way) for ways in self.ways for way in ways]
        # Nothing shows delays of one end's datagrams, and none of them is retransmitted.
        shown = [
            index
            for index, head in enumerate(heads)
            if any(row[index] for row in rows)
            and not (head == "retransmitted" and self.flow.protocol in _DATAGRAMS)
        ]
        kept = [[row[index] for index in shown] for row in rows]
        if shown:
            yield terminal.side_by_side([heads[index] for index in shown], kept, width, 2)

    def sentences(self) -> list[str]:
        """What it lost time and data to, with amounts; the main cause first."""
        said = []
        if self.main is not None:
            kind = "none" if self.main.kind == "nothing" else self.main.kind
            on = f", on {self.main.path}" if self.main.path else ""
            if kind != "none" and (call := _worst(self.calls)) is not None:
                on = f", on {call.section}"
            said.append(f"Main cause: {kind}{on}. {self.main.advice}".rstrip())
        said += self.notes
        sender = self._main_sender()
        if sender is not None:
            said += causes.of_connection(sender, self.flow.start_s)
        said += [cause.text for cause in self.causes]
        return said

    def _main_sender(self) -> Sender | None:
        if self.account is None:
            return None
        return self.senders["ab".index(self.account.sender.side)]

    def figure(self) -> "Figure | None":
        """What held each path of the sender back over time; None where that is not known."""
        if self.account is None:
            return None
        from anabranch.explain import figure  # noqa: PLC0415 - slow to import

        title = f"what holds {self.account.sender.host} back: {self.flow.name}"
        return figure.draw(self.account, title, knows_waiting=False)

    def sequence(self, file: Path, from_s: float = 0.0) -> "Figure | None":
        """The time-sequence graph of the end that sends; None for UDP and where there is no data.

        Parameters
        ----------
        file
            The capture, of which the packets of this flow are read again.
        from_s
            What comes sooner after its first packet was left out.
        """
        if self.flow.protocol in _DATAGRAMS:
            return None
        from anabranch.figures import sequences  # noqa: PLC0415 - slow to import

        from . import sequence  # noqa: PLC0415 - slow to import

        side = sequence.sender(self.flow)
        sent = sequence.sent(file, self.flow, side, from_s)
        if not sent:
            return None
        title = f"{self.flow.protocol}, sent by {self.flow.hosts[side]}"
        return sequences.draw(sent, title, several=len(sent) > 1)

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        flow = self.flow
        return {
            "flow": flow.name,
            "protocol": flow.protocol,
            "packets": flow.packets,
            "start_s": flow.start_s,
            "end_s": flow.end_s,
            "sender": None if self.account is None else self.account.sender.side,
            "ends": {
                side: {
                    "host": flow.hosts[index],
                    "paths": {way.path: self._way_json(index, way) for way in self.ways[index]},
                }
                for index, side in enumerate("ab")
            },
            "moves": [asdict(move) for sender in self.senders if sender for move in sender.moves],
            "timeouts": [
                asdict(one) for sender in self.senders if sender for one in sender.expiries
            ],
            "calls": [rated.as_json() for rated in self.calls],
            "inside": [end.as_json() for end in self.inside],
            "causes": [asdict(cause) for cause in self.causes],
            "main_cause": None if self.main is None else asdict(self.main),
            "sentences": self.sentences(),
        }

    def _way_json(self, side: int, way: Way) -> dict[str, Any]:
        content: dict[str, Any] = {
            "losses": asdict(way.losses),
            "waits": None if way.waits is None else asdict(way.waits),
            "packets_sent_again": way.again,
        }
        if self.account is not None and side in self.seen:
            path = next(one for one in self.account.ends[side].paths if one.name == way.path)
            content |= {
                "seconds": path.seconds,
                "recoveries": path.recoveries,
                "timeouts": path.timeouts,
                "srtt_ms": path.srtt_ms,
            }
        return content


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture, explained."""

    file: Path
    flows: list[Explained]
    notes: list[str]

    def tables(self, width: int) -> "RenderableType":
        """What a person reads, for a terminal of this width."""
        parts = [part for explained in self.flows for part in explained.parts(width)]
        return Group(*parts, *self.notes)

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "capture": self.file.name,
            "version": _engine.__version__,
            "flows": [explained.as_json() for explained in self.flows],
            "notes": self.notes,
        }


def explain(
    file: str | Path,
    *,
    flow: str | None = None,
    codec: str | None = None,
    interfaces: Collection[str] = (),
    from_s: float = 0.0,
    progress: Callable[[int], None] | None = None,
) -> Capture:
    """Says what the flows of a capture lost time and data to.

    Parameters
    ----------
    file
        A pcap or pcapng file, of tcpdump or of `anabranch run --pcap`.
    flow
        A part of the name of the flow; those of the most bytes if not given.
    codec
        That of calls in RTP, one of `anabranch list codecs`; that of the payload type if not given.
    interfaces
        The only places to look at; all if there are none.
    from_s
        What comes sooner after the capture's first packet is left out.
    progress
        Told how many bytes are read, now and then.

    Raises
    ------
    AnabranchError
        Where the file is no capture, or nothing in it can be explained.
    """
    file = Path(file)
    names = [str(one["name"]) for one in _engine.codecs()]
    if codec is not None and codec not in names:
        raise AnabranchError(f"codec = `{codec}` is not one of {', '.join(names)}")
    journeys = follow(file, interfaces, progress, flow=flow, from_s=from_s)
    found = find(journeys)
    notes = list(journeys.notes)
    if not found:
        said = f"no flow of SCTP, TCP or UDP has {FEWEST_PACKETS} packets"
        raise AnabranchError("; ".join([f"{file}: {said}", *notes]))
    chosen = [one for one in found if flow is None or flow in one.name]
    if not chosen:
        there = wording.some(one.name for one in found)
        raise AnabranchError(f"{file}: no flow's name has `{flow}` in it; there are {there}")
    if (more := len(chosen) - MOST_FLOWS + (journeys.others if flow is None else 0)) > 0:
        others = "1 flow of fewer bytes is" if more == 1 else f"{more} flows of fewer bytes are"
        notes.append(f"{others} not explained; --flow names one")
    return Capture(
        file, [_explained(one, journeys, codec, file) for one in chosen[:MOST_FLOWS]], notes
    )


def _explained(flow: Flow, journeys: Journeys, codec: str | None, file: Path) -> Explained:
    if flow.protocol in _DATAGRAMS:
        return _of_datagrams(flow, journeys, codec, file)
    for side in (0, 1):
        measures.fill(flow, side)
    senders = (Sender(flow, 0), Sender(flow, 1))
    place = _place(flow, senders)
    both: list[list[Way]] = [[], []]
    for side in (0, 1):
        at_receiver = place in {0, 1} and place != side
        for path in _used(flow, side):
            track = senders[side].tracks[path]
            if track.packets:
                both[side].append(_way(flow, journeys, path, side, track, at_receiver=at_receiver))
    account = _account(flow, senders, both)
    main = "ab".index(account.sender.side)
    notes = _notes(flow)
    if place == _UNKNOWN:
        notes.append("There is no handshake: it is taken to be captured where the data is sent.")
    ways = (both[0], both[1])
    far, is_heard = flow.hosts[1 - main], bool(_used(flow, 1 - main))
    if (place in {0, 1} and place != main) or not is_heard:
        why = f"Captured at {far}, which got the data"
        if not is_heard:
            why = f"The capture has nothing that {far} sent"
        notes.append(f"{why}: what held the sender back is not seen.")
        if not both[main]:
            notes.append("No packet carries data.")
        notes += [f"{way.path}: {causes.losses(way.losses)}." for way in both[main]]
        return Explained(flow, None, senders, ways, [], None, notes)
    sender = senders[main]
    notes += causes.timers(sender)
    if not sender.knows_window:
        notes.append(
            f"The scale of {far}'s receive window is not known, since the "
            "connection began before the capture: whether it held the sender back is not seen, "
            "unless it was closed."
        )
    if sender.beyond:
        went = f"{wording.counted(sender.beyond, 'packet')} went"
        notes.append(
            f"{went} beyond {far}'s receive window as it is in the capture, which "
            "lacks acknowledgements, or something on the path changed the window: it does not "
            "count there."
        )
    of_paths = {one.name: one for one in account.ends[main].paths}
    tracks = {track.name: track for track in sender.tracks}
    named = [causes.of_path(sender, tracks[w.path], of_paths[w.path], w) for w in both[main]]
    seen = (0, 1) if place not in {0, 1} else (main,)
    return Explained(flow, account, senders, ways, named, _main(named, of_paths), notes, seen=seen)


def _of_datagrams(flow: Flow, journeys: Journeys, codec: str | None, file: Path) -> Explained:
    """A flow of UDP: numbers of RTP, or none; those of QUIC are encrypted."""
    ways: tuple[list[Way], list[Way]] = ([], [])
    rated = []
    said: list[str] = []
    notes = _notes(flow)
    for side in (0, 1):
        for path in _used(flow, side):
            direction = flow.paths[path].ways[side]
            assert direction is not None
            stream = None if flow.protocol == "QUIC" else measures.stream_of(direction)
            lost = measures.losses(direction, journeys.end_s, stream=stream)
            way = Way(
                flow.hosts[side],
                flow.paths[path].name,
                lost,
                measures.waits(direction, np.zeros(0)),
            )
            ways[side].append(way)
            section = f"{way.path}, from {way.host}"
            waited = "" if way.waits is None else f" {waits.said(way.waits)}"
            notes.append(f"{section}: {causes.losses(lost)}.{waited}")
            if stream is not None:
                told = reported(*_reporting(direction, journeys), stream.source)
                one = calls.rate(
                    flow.name,
                    section,
                    direction,
                    stream,
                    codec=codec,
                    reported=told,
                    every=journeys.directions,
                    names=journeys.names,
                )
                said += one.sentences(_found_by(file, direction, journeys))
                rated.append(one)
    inside = _opened(flow) if flow.protocol == "QUIC" else ()
    if flow.protocol == "QUIC":
        notes += _of_quic(flow, is_opened=bool(inside))
    notes += said
    worst = _worst(rated)
    named = [] if worst is None else worst.causes([])
    main = named[0] if named else None
    return Explained(
        flow, None, (None, None), ways, named, main, notes, tuple(rated), inside=inside
    )


def _worst(rated: Sequence[Rated]) -> Call | None:
    """The direction of a call that is worth least."""
    return min((one.call for one in rated if one.call), key=lambda one: one.mos, default=None)


def _opened(flow: Flow) -> tuple[qlogs.Explained, ...]:
    """The ends of a connection of QUIC whose packets could be opened."""
    # In one place the times are those there, and what held the farther end back is not seen.
    places = {way.near for side in (0, 1) for way in flow.directions(side)}
    return tuple(qlogs.of_events(decrypted.events(flow), 1 if len(places) == 1 else 2))


def _of_quic(flow: Flow, *, is_opened: bool) -> list[str]:
    """What the packets that open a connection of QUIC show."""
    said = []
    if not is_opened:
        said.append(
            "QUIC encrypts its packet numbers and acknowledgements: what held it back is not seen."
        )
    packets = flow.directions(0)[0].packets
    own = np.isin(packets.quic.packet, np.concatenate([way.sent.row for way in flow.directions(0)]))
    several = len(np.unique(packets.quic.path[own])) > 1
    if several:
        names = ", ".join(path.name for path in flow.paths)
        said.append(f"The connection has several paths (RFC 10069): {names}.")
    for path in flow.paths[1:] if not several else ():
        ways = [way for way in path.ways if way is not None]
        began_s = wording.number(min(float(way.sent.sent_s[0]) for way in ways), 4)
        said.append(
            f"{flow.hosts[0]} goes on over {path.name} from {began_s} s on, with other addresses."
        )
    path = next(path for path in flow.paths if path.ways[0] is not None)
    there, back = path.ways
    if there is None or back is None or there.near != back.near:
        return said
    asked_s = there.sent.sent_s[quic.packets_that_open(there.packets)[there.sent.row]]
    answered_s = back.sent.sent_s[quic.packets_with_long_headers(back.packets)[back.sent.row]]
    # Of several questions, it is not known which one is answered.
    if len(asked_s) and len(answered_s) and (asked_s < answered_s[0]).sum() == 1:
        took = wording.number(1000 * float(answered_s[0] - asked_s[0]), 3)
        said.append(f"{flow.hosts[1]} answered the first packet {took} ms after it was seen here.")
    return said


def _found_by(file: Path, direction: Direction, journeys: Journeys) -> list[str]:
    """The words by which `anabranch profile` finds a direction's packets in a capture."""
    places = {one.near for one in journeys.directions}
    far = direction.far()
    if far is None and len(places) == 1:
        return [stdin.shown(file)]
    return [stdin.shown(file), "--interface", direction.near, *([] if far is None else [far])]


def _reporting(direction: Direction, journeys: Journeys) -> tuple[list[Direction], list[Direction]]:
    """The directions that may carry the sender's reports of RTCP, and those of the listener.

    At the ports of RTP itself (RFC 5761) or at those above them (RFC 3550 section 11).
    """
    source, destination = direction.ends
    above = tuple(End(end.address, end.port + 1) for end in (source, destination))
    pairs = ((source, destination), above)
    ways: tuple[list[Direction], list[Direction]] = ([], [])
    for way in journeys.directions:
        if way.protocol == "UDP":
            ways[0].extend([way] if way.ends in pairs else [])
            ways[1].extend([way] if way.ends[::-1] in pairs else [])
    return ways


_UNKNOWN = -1


def _notes(flow: Flow) -> list[str]:
    """What of a flow's packets is not as the path carried them."""
    said = []
    if flow.copies:
        copies = "copy" if flow.copies == 1 else "copies"
        said.append(
            f"Left out: {flow.copies:,} {copies} of packets, which a mirror port, a bridge or "
            "several interfaces show more than once."
        )
    for side in (0, 1):
        ways = [way for way in flow.directions(side) if way.offloaded]
        if ways:
            count = sum(way.offloaded for way in ways)
            most = max(ways, key=lambda way: way.largest)
            said.append(
                f"{wording.counted(count, 'packet')} from {flow.hosts[side]} of up to "
                f"{most.largest:,} bytes are cut into segments of at most {most.segment:,} by a "
                "network card behind this place (segmentation offload): segments are counted."
            )
    return said


def _place(flow: Flow, senders: Sequence[Sender]) -> int | None:
    """The side at which a flow was captured; None where both ends are seen, -1 if nothing tells.

    At the side that opens the connection the answer takes long to come, and at the other one what
    follows on it. Where that is not in the capture, or both take as long (between the ends, or in
    one file of both), packets that were lost before this place fill holes here, and those that were
    lost behind it are seen twice.
    """
    if not flow.places(0) & flow.places(1):
        return None
    first, second = flow.paths[0].ways
    is_opened = False
    if first is not None and second is not None and first.is_asking(1).any():
        asked_s, answer_s = float(first.sent.sent_s[0]), float(second.sent.sent_s[0])
        later = first.sent.sent_s[1:]
        later = later[later >= answer_s]
        if len(later):
            is_opened = True
            waits_s = answer_s - asked_s, float(later[0]) - answer_s
            if max(waits_s) > holes.CLEARLY * min(waits_s):
                return int(waits_s[1] > waits_s[0])
    side = max((0, 1), key=lambda side: sum(track.octets for track in senders[side].tracks))
    filled = repeated = 0
    for way in flow.directions(side):
        data = way.has_data()
        filled += int((way.fills[data] == holes.SENT_AGAIN).sum())
        repeated += int((way.fate[data] & REPEATED != 0).sum())
    if filled > repeated:
        return 1 - side
    return side if is_opened else _UNKNOWN


def _used(flow: Flow, side: int) -> list[int]:
    return [number for number, path in enumerate(flow.paths) if path.ways[side] is not None]


def _way(
    flow: Flow,
    journeys: Journeys,
    path: int,
    side: int,
    track: Track | None = None,
    *,
    at_receiver: bool = False,
) -> Way:
    way = flow.paths[path].ways[side]
    assert way is not None
    lost = measures.losses(way, journeys.end_s, at_receiver=at_receiver)
    trips_s = np.zeros(0) if track is None or at_receiver else track.usual
    waited = measures.waits(way, trips_s)
    again = 0 if track is None else track.again
    return Way(flow.hosts[side], flow.paths[path].name, lost, waited, again)


def _account(flow: Flow, senders: Sequence[Sender], ways: Sequence[list[Way]]) -> accounts.Flow:
    """The time of both ends' paths, in the form that simulations have it."""
    names = [path.name for path in flow.paths]
    rows: list[tuple[str, str, int, float, float, str]] = []
    ends = []
    for side, sender in zip("ab", senders, strict=True):
        whole = _together(sender.tracks)
        if not ways["ab".index(side)]:
            whole = [(flow.start_s, max(flow.end_s, flow.start_s + 1e-9), "application_limited")]
        elif not whole:  # all packets have one time
            whole = [(flow.start_s, flow.start_s + 1e-9, "under_way")]
        for number, limits in [
            (accounts.CONNECTION, whole),
            *enumerate(t.limits for t in sender.tracks),
        ]:
            rows += [(flow.name, side, number, *limit) for limit in limits]
        index = "ab".index(side)
        lost = {way.path: way.losses.lost for way in ways[index]}
        paths = [_path_account(flow, track, lost.get(track.name)) for track in sender.tracks]
        connection = accounts.Account("connection", _seconds(whole), {}, 0, 0)
        nothing = accounts.Receiver(0.0, 0.0, {}, math.nan)
        ends.append(accounts.End(side, flow.hosts[index], connection, tuple(paths), nothing, 0))
    columns = ("flow", "side", "path", "start_s", "end_s", "limit")
    return accounts.Flow(
        flow.name,
        {"paths": names},
        flow.start_s,
        flow.end_s,
        (ends[0], ends[1]),
        pl.DataFrame(rows, columns, orient="row"),
        pl.DataFrame(schema={"side": pl.String}),
    )


def _path_account(flow: Flow, track: Track, lost: int | None) -> accounts.Account:
    trips_s = track.measured[:, 1]
    srtt_ms = 1e3 * float(trips_s.mean()) if len(trips_s) else math.nan
    carried = None
    if lost is not None:
        rate = track.octets * 8 / max(flow.end_s - flow.start_s, 1e-9)
        carried = accounts.Carried("", math.nan, rate, lost, 0)
    seconds = _seconds(track.limits)
    return accounts.Account(
        track.name, seconds, {}, track.recoveries, track.timeouts, srtt_ms, carried
    )


def _seconds(limits: Sequence[tuple[float, float, str]]) -> dict[str, float]:
    seconds = dict.fromkeys(accounts.SHOWN, 0.0)
    for start_s, end_s, limit in limits:
        seconds[limit] += end_s - start_s
    return seconds


def _together(tracks: Sequence[Track]) -> list[tuple[float, float, str]]:
    """What holds the connection back: the state of the path that fares best."""
    changes = sorted(
        (start_s, number, limit)
        for number, track in enumerate(tracks)
        for start_s, _, limit in track.limits
    )
    end_s = max((track.limits[-1][1] for track in tracks if track.limits), default=0.0)
    states: dict[int, str] = {}
    whole: list[tuple[float, float, str]] = []
    ends_s = [start_s for start_s, _, _ in changes[1:]]
    for (start_s, number, limit), until_s in zip(changes, [*ends_s, end_s], strict=False):
        states[number] = limit
        if until_s > start_s:
            whole.append((start_s, until_s, min(states.values(), key=_ORDER.index)))
    return whole


def _main(named: Sequence[Cause], paths: dict[str, accounts.Account]) -> Cause | None:
    """The cause that counts most: that of the path which something held back longest."""
    free = {"under_way", "application_limited", "standby"}

    def held_s(cause: Cause) -> float:
        seconds = paths[cause.path].seconds
        return sum(time for limit, time in seconds.items() if limit not in free)

    none = {"capacity", "nothing", "window"}
    return max(named, key=lambda one: (one.kind not in none, held_s(one)), default=None)


def _row(way: Way) -> list[str]:
    lost, waited = way.losses, way.waits
    is_known = lost.known_by != "nothing"
    delays: tuple[str, ...] = ("",) * 4
    if waited is not None:
        parts = (waited.least_ms, waited.mean_ms, waited.most_of_ms, waited.most_ms)
        delays = tuple(wording.number(round(part, 3), 4) for part in parts)
    return [
        way.host,
        way.path,
        str(lost.packets),
        *([str(lost.lost), str(lost.bursts), str(lost.longest)] if is_known else ["–"] * 3),
        str(way.again),
        *delays,
    ]
