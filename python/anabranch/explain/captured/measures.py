"""What became of a direction's packets, and how long they took."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from .journeys import Direction, Sent, has_data
from .packets import Datagram

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
    again, `holes` where those do that fill one, `numbers` where those of RTP have gaps, or
    `nothing`."""

    @property
    def share(self) -> float:
        """Of the packets; NaN where nothing tells."""
        return self.lost / self.packets if self.packets and self.known_by != "nothing" else np.nan


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


def losses(way: Direction, end_s: float, *, at_receiver: bool = False) -> Losses:
    """What was lost of what a direction sent, and how it is known."""
    data = [packet for packet in way.sent if has_data(packet.content)]
    far = way.far()
    numbers = _rtp_gaps(data)
    times = [packet.sent_s for packet in data]
    if far is not None:
        reach = {far}
        took = [at - p.sent_s for p in data if (at := p.at(reach)) is not None]
        # What is still on its way when the capture ends is not lost.
        latest = end_s - max(took, default=0.0)
        flags = [bool(p.dropped) or (p.at(reach) is None and p.sent_s < latest) for p in data]
        known_by = "places"
    elif numbers is not None:
        flags, times = numbers
        known_by = "numbers"
    elif data and isinstance(data[0].content, Datagram):
        flags, known_by = [False] * len(data), "nothing"
    elif at_receiver:
        flags, known_by = [packet.is_again for packet in data], "holes"
    else:
        flags, known_by = [packet.was_repeated for packet in data], "repeats"
    reasons = Counter(packet.dropped for packet in data if packet.dropped)
    lost = np.array(flags, dtype=bool)
    edges = np.flatnonzero(np.diff(lost, prepend=False, append=False))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    longest = int(lengths.argmax()) if len(lengths) else -1
    at_s = times[int(starts[longest])] if longest >= 0 else np.nan
    return Losses(
        len(flags),
        int(lost.sum()),
        len(lengths),
        int(lengths.max(initial=0)),
        float(at_s),
        dict(reasons.most_common()),
        known_by,
    )


def _rtp_gaps(data: list[Sent]) -> tuple[list[bool], list[float]] | None:
    """Of the numbers of RTP's main source which are missing; None where there are none.

    With the time of each: for one that is missing, when the last one before it was sent.
    """
    rtp = [
        (p.content.rtp, p.sent_s) for p in data if isinstance(p.content, Datagram) and p.content.rtp
    ]
    if len(rtp) < max(2, len(data) / 2):
        return None
    source = Counter(one.source for one, _ in rtp).most_common(1)[0][0]
    numbers = np.array([one.number for one, _ in rtp if one.source == source], dtype=np.int64)
    sent_s = np.array([at for one, at in rtp if one.source == source])
    steps = (np.diff(numbers) + 32_768) % 65_536 - 32_768
    whole = np.concatenate([[0], np.cumsum(steps)])
    whole -= whole.min()
    if whole.max() > 100 * len(rtp):
        return None  # it jumps, so it is not RTP
    lost = np.ones(int(whole.max()) + 1, dtype=bool)
    lost[whole] = False
    times = np.full(len(lost), -np.inf)
    np.maximum.at(times, whole, sent_s)
    return [bool(flag) for flag in lost], [float(at) for at in np.maximum.accumulate(times)]


def waits(way: Direction, round_trips: list[tuple[float, float]]) -> Waits | None:
    """From one place to the other, or else from round trips; None where neither is known."""
    far = way.far()
    is_one_way = far is not None
    if far is not None:
        took = [at - p.sent_s for p in way.sent if (at := p.at({far})) and has_data(p.content)]
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
    )
