"""How long data, heartbeats and time stamps take to be answered, as a capture saw it.

From data to its acknowledgement, except for data sent twice (P. Karn, C. Partridge, SIGCOMM 1987);
from a heartbeat or a handshake to its answer; in a capture at the receiver, from TCP's time stamps
to their echoes (RFC 7323 section 4).

A timer is not the path: a receiver may acknowledge a single packet only after up to 500 ms (RFC
9293 section 3.8.6.3, RFC 9260 section 6.2), and with an answer of its user when it has one. Such a
time bounds the path's from above. It measures it where a second packet had to be acknowledged at
once, or where the next packets came so soon that there was nothing to wait for.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.support.packets import SYN, Packets

from .intervals import Vector
from .loss import Flags
from .numbers import Integers, Side

_SOON = 0.1
"""The part of a delay within which the next packet makes a timer of no matter."""

_BULK = 536
"""Bytes of payload from which a packet is sent because there is room for it (RFC 9293, the default
maximum segment size), and not because a user has typed something.
"""


class Samples(NamedTuple):
    """Measured delays."""

    seen_s: Vector
    """When each was over."""
    delay_s: Vector
    octets: Vector
    """Bytes whose transmission is part of the delay."""
    is_prompt: Flags
    """Whether nothing but the path took the time; the others bound it from above."""

    def only(self, kept: NDArray[np.bool_] | Integers) -> "Samples":
        """Some of them."""
        return Samples(
            self.seen_s[kept], self.delay_s[kept], self.octets[kept], self.is_prompt[kept]
        )


NONE = Samples(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))


def together(*parts: Samples) -> Samples:
    """All samples in the order of their times."""
    whole = Samples(
        np.concatenate([part.seen_s for part in parts]),
        np.concatenate([part.delay_s for part in parts]),
        np.concatenate([part.octets for part in parts]),
        np.concatenate([part.is_prompt for part in parts]),
    )
    return whole.only(np.argsort(whole.seen_s, kind="stable"))


def of_data(side: Side, clock: Integers) -> Samples:
    """The delays between a side's data and its acknowledgements.

    Parameters
    ----------
    side
        The data, and what acknowledges it.
    clock
        For each row of the flow, how often the clock was set back before.
    """
    data, acks = side.data, side.acknowledgements
    if not len(data.row) or not len(acks.row):
        return NONE
    before = np.concatenate([data.start[:1], np.maximum.accumulate(data.end)[:-1]])
    new = np.flatnonzero(data.end > before)
    ends = data.end[new]
    # Only what acknowledges something new.
    known = np.concatenate([acks.number[:1] - 1, np.maximum.accumulate(acks.number)[:-1]])
    use = np.flatnonzero(acks.number > known)
    number, row = acks.number[use], acks.row[use]
    at = np.searchsorted(ends, number)
    hit = at < len(ends)
    hit[hit] &= ends[at[hit]] == number[hit]
    hit[hit] &= data.row[new[at[hit]]] < row[hit]
    # Up to the highest number at a retransmission, it may be that which is acknowledged.
    whole = data if side.whole is None else side.whole
    highest = np.concatenate([whole.start[:1], np.maximum.accumulate(whole.end)[:-1]])
    again = np.flatnonzero(whole.end <= highest)
    if len(again):
        last = np.searchsorted(whole.row[again], row) - 1
        hit &= (last < 0) | (number > highest[again][np.maximum(last, 0)])
    # How many packets each of these acknowledges: those since the one before it.
    passed = np.searchsorted(ends, number, side="right")
    since = np.concatenate([[0], np.maximum.accumulate(passed)[:-1]])
    use, at, row, since = use[hit], at[hit], row[hit], since[hit]
    of = new[at]
    delay_s = acks.seen_s[use] - data.seen_s[of]
    packets = np.concatenate([[0], np.cumsum(data.octets[new] > 0)])
    second = (packets[at + 1] - packets[since] >= 2) & acks.is_alone[use]
    first = np.minimum(since, at)
    second &= (side.full == 1) | (ends[at] - data.start[new[first]] > side.full)
    after = new[np.minimum(at + 1, len(new) - 1)]
    soon = (at + 1 < len(new)) & (data.row[after] < row)
    soon &= data.seen_s[after] - data.seen_s[of] <= _SOON * delay_s
    samples = Samples(acks.seen_s[use], delay_s, data.sent[of], second | soon | data.is_syn[of])
    kept = clock[data.row[of]] == clock[row]
    # Of the segments of a packet the first that was acknowledged.
    kept &= np.diff(data.row[of], prepend=-1) != 0
    return samples.only(kept)


def of_echoes(
    packets: Packets, seen_s: Vector, clock: Integers, own: Flags, full: float
) -> Samples:
    """The delays from a packet of the other side with a new time stamp to one that echoes it.

    Parameters
    ----------
    packets, seen_s, clock
        Both directions of a connection.
    own
        Which packets echo.
    full
        Bytes of a full packet: of a larger one, the first segment's transmission is part of a
        delay.
    """
    has = (packets.stamp >= 0) & (packets.acknowledgement >= 0)
    theirs, ours = np.flatnonzero(~own & has), np.flatnonzero(own & has)
    if not len(theirs) or not len(ours):
        return NONE
    stamps, first = np.unique(packets.stamp[theirs], return_index=True)
    echoes, heard = np.unique(packets.echo[ours], return_index=True)
    at = np.minimum(np.searchsorted(stamps, echoes), len(stamps) - 1)
    hit = stamps[at] == echoes
    asked, answered = theirs[first[at[hit]]], ours[heard[hit]]
    fits = (asked < answered) & (clock[asked] == clock[answered])
    asked, answered = asked[fits], answered[fits]
    delay_s = seen_s[answered] - seen_s[asked]
    # The first packet of a connection has nothing before it to be near to.
    place = np.searchsorted(ours, answered)
    gap_s = seen_s[answered] - seen_s[ours[np.maximum(place - 1, 0)]]
    busy = (place > 0) & (gap_s <= _SOON * delay_s)
    prompt = busy | (packets.payload[answered] >= _BULK) | (packets.flags[asked] & SYN != 0)
    octets = np.minimum(packets.octets[answered].astype(float), full)
    whole = Samples(seen_s[answered], delay_s, octets, prompt)
    return whole.only(np.argsort(answered, kind="stable"))


_HEARTBEAT, _HEARTBEAT_ACK = 4, 5
_ANSWERS = {1: 2, 2: 10, 10: 11}
"""Chunks that answer each other: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 section 5.1)."""


def of_questions(
    packets: Packets, seen_s: Vector, clock: Integers, own: Flags, on_path: Flags
) -> Samples:
    """The delays between a side's heartbeats, or parts of its handshake, and their answers.

    An answer belongs to the last question before it, on whatever pair of addresses it comes.
    """
    chunks = packets.chunks
    row = chunks.packet.astype(np.int64)
    kinds = [_HEARTBEAT, _HEARTBEAT_ACK, *_ANSWERS, *_ANSWERS.values()]
    asked: dict[tuple[int, int], int] = {}
    found: list[tuple[int, int]] = []
    for index in np.flatnonzero(np.isin(chunks.kind, kinds)).tolist():
        at, kind = int(row[index]), int(chunks.kind[index])
        identity = int(chunks.identity[index]) if kind in (_HEARTBEAT, _HEARTBEAT_ACK) else 0
        if own[at] and on_path[at] and kind in (_HEARTBEAT, *_ANSWERS):
            asked[_ANSWERS.get(kind, _HEARTBEAT_ACK), identity] = at
        elif not own[at] and (kind, identity) in asked:
            found.append((asked.pop((kind, identity)), at))
    if not found:
        return NONE
    questions, answers = np.array(found, dtype=np.int64).T
    kept = clock[questions] == clock[answers]
    questions, answers = questions[kept], answers[kept]
    delay_s = seen_s[answers] - seen_s[questions]
    yes = np.ones(len(answers), dtype=bool)
    return Samples(seen_s[answers], delay_s, np.zeros(len(answers)), yes)
