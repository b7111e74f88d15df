"""What became of a direction's packets, and how long they took."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.explain.waits import Waits
from anabranch.support import holes, rtp
from anabranch.support.flows import DATA_CHUNKS
from anabranch.support.gathered import beside

from .flows import Flow
from .journeys import AWAITED, REPEATED, Direction, Flags, Integers, Vector
from .packets import rtp_of


@dataclass(frozen=True, slots=True)
class Losses:
    """Packets with data that did not arrive."""

    packets: int
    lost: int
    bursts: int
    """Rows of packets that were lost one after the other."""
    longest: int
    longest_s: float
    """When the longest row began; NaN without one."""
    reasons: dict[str, int]
    """As the comments of the capture say them."""
    known_by: str
    """`places` where packets were seen to arrive, `repeats` where those count that were sent
    again, `holes` where those do that fill one or that the receiver still waited for, `numbers`
    where those of RTP have gaps, or `nothing`."""
    out_of_order: int = 0
    """Packets that were overtaken on their way, as far as this place shows it."""

    @property
    def share(self) -> float:
        """Of the packets; NaN where nothing tells."""
        return self.lost / self.packets if self.packets and self.known_by != "nothing" else np.nan


def fill(flow: Flow, side: int) -> None:
    """Says of each packet of a side what it is by its numbers: see `support.holes`."""
    ways = flow.directions(side)
    if flow.protocol == "SCTP":
        # One sequence of numbers for all paths; what goes on the slower one comes late.
        _fill(ways, flow.directions(1 - side), flow.round_trip_s())
        return
    for path in flow.paths:
        way, back = path.ways[side], path.ways[1 - side]
        if way is not None:
            trip = way.round_trip_s
            back_ways = [] if back is None else [back]
            _fill([way], back_ways, trip if np.isfinite(trip) else None)


def _fill(ways: Sequence[Direction], back: Sequence[Direction], round_trip_s: float | None) -> None:
    if not ways:
        return
    sent_s = np.concatenate([way.sent.sent_s for way in ways])
    order = np.argsort(sent_s, kind="stable")
    row = np.concatenate([way.sent.row for way in ways])[order]
    packets = ways[0].packets
    if ways[0].protocol == "SCTP":
        chunks, _ = beside(packets.chunks, "packet", row, len(packets))
        is_data = np.isin(chunks.kind, DATA_CHUNKS) & (chunks.number >= 0)
        of, start = chunks.packet[is_data], chunks.number[is_data].astype(np.int64)
        length, stamp = np.ones(len(of), dtype=np.int64), np.full(len(of), -1)
    else:
        length = np.concatenate([way.sent.length for way in ways])[order]
        of = np.flatnonzero(length > 0)
        start = np.concatenate([way.sent.sequence for way in ways])[order][of]
        length, stamp = length[of], packets.stamp[row[of]].astype(np.int64)
    if not len(of):
        return
    first = holes.unwrapped(start, 32)
    known = np.flatnonzero(stamp >= 0)
    stamp[known] = holes.unwrapped(stamp[known], 32)
    kinds = holes.kinds(
        first,
        first + length,
        sent_s[order[of]],
        holes.UNKNOWN_ROUND_TRIP_S if round_trip_s is None else round_trip_s,
        stamp,
        unseen=_unseen(first + length, sent_s[order[of]], back),
    )
    # Of several chunks of a packet, the one that is most out of order.
    whole = np.full(len(row), holes.IN_ORDER, dtype=np.uint8)
    np.maximum.at(whole, order[of], kinds)
    at = 0
    for way in ways:
        way.fills = whole[at : at + len(way.sent)]
        at += len(way.sent)


def _unseen(ends: Integers, sent_s: Vector, back: Sequence[Direction]) -> holes.Unseen | None:
    """What had come to its receiver before, by its reports, without being seen here."""
    if not back:
        return None
    packets = back[0].packets
    first = np.concatenate([way.sent.is_first for way in back])
    row = np.concatenate([way.sent.row for way in back])[first]
    at_s = np.concatenate([way.sent.sent_s for way in back])[first]
    if back[0].protocol == "SCTP":
        chunks, kept = beside(packets.chunks, "packet", row, len(packets))
        gaps, _ = beside(packets.gaps, "chunk", kept, len(packets.chunks.packet))
        told, above = chunks.number[gaps.chunk].astype(np.int64) + 1, gaps.end.astype(np.int64)
        at_s = at_s[chunks.packet[gaps.chunk]]
        above -= told
    else:
        sacks, _ = beside(packets.sacks, "packet", row, len(packets))
        told = packets.acknowledgement[row[sacks.packet]].astype(np.int64)
        above = holes.apart(sacks.end, told)
        at_s = at_s[sacks.packet]
    if not len(told):
        return None
    # The same number as one that does not start over, near to those of the data.
    at = np.searchsorted(sent_s, at_s, side="right") - 1
    near = np.maximum.accumulate(ends)[np.maximum(at, 0)]
    told = near + holes.apart(told, near)
    return holes.Unseen.of(ends, sent_s, told, told + above, at_s)


def losses(
    way: Direction, end_s: float, *, at_receiver: bool = False, stream: rtp.Stream | None = None
) -> Losses:
    """What was lost of what a direction sent, and how it is known."""
    sent, data = way.sent, np.flatnonzero(way.has_data())
    far = way.far()
    times, fills, fate = sent.sent_s[data], way.fills[data], way.fate[data]
    late = int((fills == holes.OVERTAKEN).sum())
    dropped = sent.is_dropped()[data]
    if far is not None:
        at_s = sent.at({far})[data]
        # What is still on its way when the capture ends is not lost.
        latest = end_s - float(np.nan_to_num(at_s - times).max(initial=0.0))
        lost, known_by = dropped | (np.isnan(at_s) & (times < latest)), "places"
    elif stream is not None:
        lost, times = _rtp_gaps(times, stream)
        lost[(stream.numbers - stream.numbers.min())[dropped[stream.rows]]] = True
        known_by = "numbers"
        late = int((np.diff(stream.numbers) < 0).sum())
    elif way.protocol == "UDP":
        lost, known_by = np.zeros(len(data), dtype=bool), "nothing"
    elif at_receiver:
        # A receiver may wait for what this place has seen: a link behind it lost that.
        lost, known_by = (fills == holes.SENT_AGAIN) | (fate & AWAITED != 0), "holes"
    else:
        # On the way, what was lost before this place fills a hole here.
        lost, known_by = (fate & REPEATED != 0) | (fills == holes.SENT_AGAIN), "repeats"
    has_data = set(data.tolist())
    reasons = Counter(why for index, why in sorted(sent.dropped.items()) if index in has_data)
    edges = np.flatnonzero(np.diff(lost, prepend=False, append=False))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    longest = int(lengths.argmax()) if len(lengths) else -1
    began_s = times[int(starts[longest])] if longest >= 0 else np.nan
    # A packet that was lost before it came to this place is not among those that are seen.
    unseen = int((fills == holes.SENT_AGAIN).sum()) if far is None else 0
    return Losses(
        len(lost) + (unseen if stream is None else 0),
        int(lost.sum()),
        len(lengths),
        int(lengths.max(initial=0)),
        float(began_s),
        dict(reasons.most_common()),
        known_by,
        late,
    )


def stream_of(way: Direction) -> rtp.Stream | None:
    """The main stream of RTP that a direction is, if most of its datagrams are one."""
    said = rtp_of(way.packets, way.sent.row)
    count = len(way.sent)
    if len(said.which) < max(rtp.FEWEST_PACKETS, count / 2):
        return None
    found = rtp.streams(
        np.ones(len(said.which), dtype=bool), *said[1:], seen_s=way.sent.sent_s[said.which]
    )
    if not found or sum(len(one.rows) for one in found) < count / 2:
        return None
    return found[0]._replace(rows=said.which[found[0].rows])


def _rtp_gaps(sent_s: Vector, stream: rtp.Stream) -> tuple[Flags, Vector]:
    """Which of the numbers of a stream of RTP are missing.

    With the time of each: for one that is missing, when the last one before it was sent.
    """
    lost = rtp.missing(stream)
    times = np.full(len(lost), -np.inf)
    np.maximum.at(times, stream.numbers - stream.numbers.min(), sent_s[stream.rows])
    return lost, np.maximum.accumulate(times)


def waits(way: Direction, round_trips_s: Vector) -> Waits | None:
    """From one place to the other, or else from round trips; None where neither is known."""
    far = way.far()
    is_one_way = far is not None
    took_s = round_trips_s
    if far is not None:
        took_s = (way.sent.at({far}) - way.sent.sent_s)[way.has_data()]
        took_s = took_s[~np.isnan(took_s)]
    if not len(took_s):
        return None
    delays = took_s * 1e3
    least = float(delays.min())
    longer = delays - least
    return Waits(
        least,
        float(longer.mean()),
        float(np.quantile(longer, 0.95)),
        float(longer.max()),
        float((longer > max(1.0, least / 20)).mean()),
        is_one_way,
        len(took_s),
    )
