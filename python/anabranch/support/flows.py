"""The flows of a capture's packets, and the least round trip of each."""

import numpy as np
from numpy.typing import NDArray

from . import copies
from .packets import ACK, FIN, ICMP, ICMP6, SCTP, SYN, TCP, Packets

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Vector = NDArray[np.float64]

DATA_CHUNKS, SACK_CHUNKS, INIT_CHUNKS = (0, 64), (3, 16), (1, 2)
"""DATA and I-DATA, SACK and NR-SACK, INIT and INIT ACK (RFC 9260 section 3.2, RFC 8260 section 2.1,
draft-natarajan-tsvwg-sctp-nrsack).
"""

_ANSWERS = {1: 2, 2: 10, 10: 11, 4: 5}
"""Chunks that are answered at once: INIT, INIT ACK, COOKIE ECHO (RFC 9260 section 5.1), HEARTBEAT
(section 8.3)."""

_INIT, _HEARTBEAT = 1, 4


PORT_BITS = 17
"""Of the number of an end, below its address."""


def ends(packets: Packets, rows: Integers | slice = slice(None)) -> list[Integers]:
    """A number for the source of each packet and one for its destination.

    It is made of the address and, above 0, the port; of ICMP it is the identifier.
    """
    is_icmp = np.isin(packets.protocol[rows], (ICMP, ICMP6))
    identifier = packets.icmp_identifier[rows]
    return [
        address[rows].astype(np.int64) << PORT_BITS | np.where(is_icmp, identifier, port[rows]) + 1
        for address, port in (
            (packets.source, packets.source_port),
            (packets.destination, packets.destination_port),
        )
    ]


def numbered(packets: Packets) -> tuple[Integers, Flags]:
    """A number for each packet's flow, and whether it goes from the smaller end to the larger."""
    source, destination = ends(packets)
    low, high = np.minimum(source, destination), np.maximum(source, destination)
    names, at = np.unique(np.concatenate([low, high]), return_inverse=True)
    one, other = at[: len(low)].astype(np.int64), at[len(low) :].astype(np.int64)
    _, pair = np.unique(one * len(names) + other, return_inverse=True)
    _, flow = np.unique(pair * 256 + packets.protocol, return_inverse=True)
    return flow.astype(np.int64), np.asarray(source <= destination)


def connections(packets: Packets, rows: Integers, flow: Integers, forward: Flags) -> Integers:
    """Which connection of its flow each packet is of, from 0: the same ports may be used again.

    Parameters
    ----------
    packets
        In the order of their times.
    rows
        Which ones are asked for.
    flow
        The number of the flow of each of these.
    forward
        The direction of each.
    """
    return _of_tcp(packets, rows, flow, forward) + _of_sctp(packets, rows, flow, forward)


def _of_tcp(packets: Packets, rows: Integers, flow: Integers, forward: Flags) -> Integers:
    """A SYN begins the next if its end has sent another one, or other packets, before."""
    begins = np.zeros(len(rows), dtype=np.int64)
    flags, number, sender = packets.flags[rows], packets.sequence[rows], 2 * flow + forward
    asking = np.flatnonzero((packets.protocol[rows] == TCP) & (flags & SYN != 0))
    asking = asking[np.lexsort((asking, sender[asking]))]
    first = np.zeros(int(sender.max(initial=0)) + 1, dtype=np.int64)
    first[sender[::-1]] = np.arange(len(sender))[::-1]
    anew = np.where(
        np.diff(sender[asking], prepend=-1) != 0,
        first[sender[asking]] < asking,
        np.diff(number[asking], prepend=-1) != 0,
    )
    anew &= flags[asking] & ACK == 0
    if not anew.any():
        return begins
    begins[asking[anew]] = 1
    order = np.argsort(flow, kind="stable")
    count = np.cumsum(begins[order])
    starts = np.flatnonzero(np.diff(flow[order], prepend=-1))
    before = (count - begins[order])[starts]
    found = np.empty(len(rows), dtype=np.int64)
    found[order] = count - np.repeat(before, np.diff([*starts, len(rows)]))
    return found


def _of_sctp(packets: Packets, rows: Integers, flow: Integers, forward: Flags) -> Integers:
    """All that goes to an end of an association has the tag that this end chose.

    An INIT has none yet, but says which one its answers will have (RFC 9260 section 8.5). An ABORT
    may have the tag of what it answers (section 8.5.1).
    """
    found = np.zeros(len(rows), dtype=np.int64)
    tag = np.where(packets.protocol[rows] == SCTP, packets.tag[rows], 0).astype(np.int64)
    if not (tag > 0).any():
        return found
    way = forward.astype(np.int64)
    at = np.full(len(packets), -1, dtype=np.int64)
    at[rows] = np.arange(len(rows))
    chunks = packets.chunks
    asks = np.flatnonzero((chunks.kind == _INIT) & (chunks.tag > 0) & (at[chunks.packet] >= 0))
    asking = at[chunks.packet[asks]]
    tag[asking], way[asking] = chunks.tag[asks], ~forward[asking]
    known = np.flatnonzero(tag > 0)
    keys, first, of = np.unique(
        (2 * flow[known] + way[known]) << 32 | tag[known], return_index=True, return_inverse=True
    )
    number = np.zeros(len(keys), dtype=np.int64)
    last: dict[int, tuple[int, list[int]]] = {}
    """Of each flow the last association, and the tags of its ways."""
    for nth in np.argsort(first).tolist():
        (one, side), own = divmod(int(keys[nth]) >> 32, 2), int(keys[nth]) & 0xFFFFFFFF
        count, tags = last.setdefault(one, (0, [0, 0]))
        if tags[side] and tags[1 - side] != own:
            count, tags = last[one] = count + 1, [0, 0]
        tags[side] = tags[side] or own
        number[nth] = count
    found[known] = number[of]
    return found


def least_round_trips(
    packets: Packets, rows: Integers, sender: Integers, seen_s: Vector, count: int
) -> Vector:
    """The least round trip of each flow: what passes here, to its answer, both ways.

    Of TCP, SYN, FIN and data to the acknowledgement of just that; of SCTP, chunks of the handshake,
    heartbeats, and data to an acknowledgement. At an end, one way of the two takes no time.

    Parameters
    ----------
    packets
        In the order of their times.
    rows
        Which ones are used: each once, without its copies.
    sender
        For each packet twice the number of its flow, and one more in one of its directions.
    seen_s
        When each was captured.
    count
        How many flows there are. Where nothing was answered, the result is infinite.
    """
    used = np.zeros(len(packets), dtype=bool)
    used[rows] = True
    length = packets.payload + (packets.flags & SYN > 0) + (packets.flags & FIN > 0)
    tcp = used & (packets.protocol == TCP)
    data = np.flatnonzero(tcp & (length > 0))
    acks = np.flatnonzero(tcp & (packets.flags & ACK > 0))
    chunks = packets.chunks
    of = used[chunks.packet]
    tsns = np.flatnonzero(of & np.isin(chunks.kind, DATA_CHUNKS))
    sacks = np.flatnonzero(of & np.isin(chunks.kind, SACK_CHUNKS))
    questions = [
        (
            (np.concatenate([data, chunks.packet[tsns]]),
             np.concatenate([packets.sequence[data] + length[data], chunks.number[tsns] + 1])),
            (np.concatenate([acks, chunks.packet[sacks]]),
             np.concatenate([packets.acknowledgement[acks], chunks.number[sacks] + 1])),
        )
    ]  # fmt: skip
    for kind, answer in _ANSWERS.items():
        asking, answering = (np.flatnonzero(of & (chunks.kind == one)) for one in (kind, answer))
        # A heartbeat is answered with its information.
        same = (chunks.identity >> np.uint64(8)).astype(np.int64) * (kind == _HEARTBEAT)
        questions.append(
            ((chunks.packet[asking], same[asking]), (chunks.packet[answering], same[answering]))
        )
    ways = np.full(2 * count, np.inf)
    for (asks, number), (answers, repeated) in questions:
        if len(asks) and len(answers):
            found = copies.round_trips(
                (sender[asks], number, seen_s[asks]),
                (sender[answers] ^ 1, repeated, seen_s[answers]),
                2 * count,
            )
            ways = np.minimum(ways, found)
    both = ways.reshape(-1, 2)
    known = np.isfinite(both)
    return np.where(known.any(axis=1), np.where(known, both, 0.0).sum(axis=1), np.inf)
