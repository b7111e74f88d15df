"""What became of a direction's packets, and how long they took."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.support import holes, rtp

from .flows import Flow, data_of
from .journeys import Direction, Sent, has_data
from .packets import Chunks, Datagram, Run, Segment

STANDING = 0.75
"""Part of the packets that waited from which on a queue is said to have stood."""


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
        _fill(data_of(ways), flow.round_trip_s())
        return
    for way in ways:
        trip = way.round_trip_s
        _fill(way.sent, trip if np.isfinite(trip) else None)


def _fill(sent: Sequence[Sent], round_trip_s: float | None) -> None:
    packets, starts, ends, stamps = [], [], [], []
    for packet in sent:
        content = packet.content
        if isinstance(content, Segment) and content.data is not None:
            runs = [content.data]
        elif isinstance(content, Chunks):
            runs = [Run(tsn, tsn + 1) for tsn, _ in content.data]
        else:
            continue
        for start, end in runs:
            packets.append(packet)
            starts.append(start)
            ends.append(end)
            stamps.append(content.stamp if isinstance(content, Segment) else -1)
    if not packets:
        return
    first = holes.unwrapped(np.array(starts, dtype=np.int64), 32)
    length = np.array(ends, dtype=np.int64) - np.array(starts, dtype=np.int64)
    ticks = np.array(stamps, dtype=np.int64)
    known = np.flatnonzero(ticks >= 0)
    ticks[known] = holes.unwrapped(ticks[known], 32)
    kinds = holes.kinds(
        first,
        first + length,
        np.array([packet.sent_s for packet in packets]),
        holes.UNKNOWN_ROUND_TRIP_S if round_trip_s is None else round_trip_s,
        ticks,
    )
    # Of several chunks of a packet, the one that is most out of order.
    for packet, kind in zip(packets, kinds.tolist(), strict=True):
        packet.fills = max(packet.fills, kind)


@dataclass(frozen=True, slots=True)
class Waits:
    """How much longer than the fastest one packets took: what waiting in queues costs."""

    least_ms: float
    mean_ms: float
    most_of_ms: float
    """Of 95 % of them at most."""
    most_ms: float
    standing: float
    """The part of them that waited: more than 1 ms, and than a twentieth of the least delay."""
    is_one_way: bool
    """Or round trips."""
    samples: int
    """How many were measured."""


def losses(
    way: Direction, end_s: float, *, at_receiver: bool = False, stream: rtp.Stream | None = None
) -> Losses:
    """What was lost of what a direction sent, and how it is known."""
    data = [packet for packet in way.sent if has_data(packet)]
    far = way.far()
    times = [packet.sent_s for packet in data]
    late = sum(packet.fills == holes.OVERTAKEN for packet in data)
    if far is not None:
        reach = {far}
        took = [at - p.sent_s for p in data if (at := p.at(reach)) is not None]
        # What is still on its way when the capture ends is not lost.
        latest = end_s - max(took, default=0.0)
        flags = [bool(p.dropped) or (p.at(reach) is None and p.sent_s < latest) for p in data]
        known_by = "places"
    elif stream is not None:
        flags, times = _rtp_gaps(data, stream)
        known_by = "numbers"
        late = int((np.diff(stream.numbers) < 0).sum())
    elif data and isinstance(data[0].content, Datagram):
        flags, known_by = [False] * len(data), "nothing"
    elif at_receiver:
        # A receiver may wait for what this place has seen: a link behind it lost that.
        flags = [p.fills == holes.SENT_AGAIN or p.was_awaited for p in data]
        known_by = "holes"
    else:
        # On the way, what was lost before this place fills a hole here.
        flags = [p.was_repeated or p.fills == holes.SENT_AGAIN for p in data]
        known_by = "repeats"
    reasons = Counter(packet.dropped for packet in data if packet.dropped)
    lost = np.array(flags, dtype=bool)
    edges = np.flatnonzero(np.diff(lost, prepend=False, append=False))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    longest = int(lengths.argmax()) if len(lengths) else -1
    at_s = times[int(starts[longest])] if longest >= 0 else np.nan
    # A packet that was lost before it came to this place is not among those that are seen.
    unseen = sum(packet.fills == holes.SENT_AGAIN for packet in data) if far is None else 0
    return Losses(
        len(flags) + (unseen if stream is None else 0),
        int(lost.sum()),
        len(lengths),
        int(lengths.max(initial=0)),
        float(at_s),
        dict(reasons.most_common()),
        known_by,
        late,
    )


def stream_of(way: Direction) -> rtp.Stream | None:
    """The main stream of RTP that a direction is, if most of its datagrams are one."""
    said = [
        (index, packet.content.rtp, packet.sent_s)
        for index, packet in enumerate(way.sent)
        if isinstance(packet.content, Datagram) and packet.content.rtp is not None
    ]
    if len(said) < max(rtp.FEWEST_PACKETS, len(way.sent) / 2):
        return None
    fields = np.array([header for _, header, _ in said], dtype=np.int64)
    found = rtp.streams(
        np.ones(len(said), dtype=bool),
        *fields.T,
        seen_s=np.array([sent_s for _, _, sent_s in said]),
    )
    if not found or sum(len(one.rows) for one in found) < len(way.sent) / 2:
        return None
    rows = np.array([index for index, _, _ in said])
    return found[0]._replace(rows=rows[found[0].rows])


def _rtp_gaps(data: list[Sent], stream: rtp.Stream) -> tuple[list[bool], list[float]]:
    """Which of the numbers of a stream of RTP are missing.

    With the time of each: for one that is missing, when the last one before it was sent.
    """
    lost = rtp.missing(stream)
    times = np.full(len(lost), -np.inf)
    sent_s = np.array([data[row].sent_s for row in stream.rows.tolist()])
    np.maximum.at(times, stream.numbers - stream.numbers.min(), sent_s)
    return lost.tolist(), np.maximum.accumulate(times).tolist()


def waits(way: Direction, round_trips: list[tuple[float, float]]) -> Waits | None:
    """From one place to the other, or else from round trips; None where neither is known."""
    far = way.far()
    is_one_way = far is not None
    if far is not None:
        took = [at - p.sent_s for p in way.sent if (at := p.at({far})) and has_data(p)]
    else:
        took = [delay for _, delay in round_trips]
    if not took:
        return None
    delays = np.array(took) * 1e3
    least = float(delays.min())
    longer = delays - least
    return Waits(
        least,
        float(longer.mean()),
        float(np.quantile(longer, 0.95)),
        float(longer.max()),
        float((longer > max(1.0, least / 20)).mean()),
        is_one_way,
        len(took),
    )
