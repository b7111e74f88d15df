"""The packets of one place of capture, each once and in one line of time."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support import clocks, copies
from anabranch.support.gathered import chosen, joined
from anabranch.support.packets import ICMP, ICMP6, SCTP, SYN, TCP, UDP, Packets

from . import round_trips
from .intervals import Vector
from .loss import Flags
from .numbers import Integers, of_sctp, of_tcp

USED = (ICMP, ICMP6, SCTP, TCP, UDP)
"""The protocols that are measured."""

_CUT = 2
"""`Packets.fault` up to which nothing of the transport is known."""

NO_ECHO = "ICMP messages other than echoes"


@dataclass(frozen=True, slots=True)
class Seen:
    """Packets in the order of their times, and the flows that they belong to."""

    packets: Packets
    seen_s: Vector
    """In seconds since the first packet; seconds since 1970 would have steps of 200 ns and more."""
    clock: Integers
    """How often the clock was set back before each: no delay is known across a step."""
    flow: Integers
    """A number for the flow of each, both directions alike."""
    forward: Flags
    """Whether it goes from the end with the smaller address and port."""
    notes: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """What is not used, with the number of packets."""

    def of(self, rows: Integers) -> "Seen":
        """Some of the packets."""
        return Seen(
            chosen(self.packets, rows), self.seen_s[rows], self.clock[rows], self.flow[rows],
            self.forward[rows], self.notes, self.left_out,
        )  # fmt: skip


def once(batches: Iterable[Packets]) -> Seen:
    """The packets without their copies.

    Raises
    ------
    AnabranchError
        Where there is none that is used.
    """
    left_out: Counter[str] = Counter()

    def usable() -> Iterable[Packets]:
        for batch in batches:
            left_out.update(batch.unused(USED))
            is_icmp = np.isin(batch.protocol, (ICMP, ICMP6))
            other = is_icmp & (batch.icmp_identifier < 0)
            if other.any():
                left_out[NO_ECHO] += int(other.sum())
            kept = np.isin(batch.protocol, USED) & ~other
            kept &= (batch.fault == 0) | (batch.fault > _CUT)
            if kept.any():
                yield chosen(batch, np.flatnonzero(kept))

    packets = joined(usable())
    if packets is None:
        raise AnabranchError("no flow of TCP, SCTP, RTP or ICMP echoes")
    clock = clocks.clocks(packets.time_ns)
    seen_ns = clocks.continued(packets.time_ns, clock)
    order = np.argsort(seen_ns, kind="stable")
    packets, clock, seen_s = chosen(packets, order), clock[order], seen_ns[order] / 1e9
    flow, forward = flows(packets)
    seen = Seen(packets, seen_s, clock, flow, forward, left_out=left_out)
    if clock[-1]:
        seen.notes.append(
            f"the clock was set back {clock[-1]} times: what comes after goes on where it was, and "
            "no delay is taken across a step"
        )
    return _without_copies(seen)


def flows(packets: Packets) -> tuple[Integers, Flags]:
    """A number for each packet's flow, and whether it goes from the smaller end to the larger."""
    is_icmp = np.isin(packets.protocol, (ICMP, ICMP6))
    ends = [
        address.astype(np.int64) << 17 | np.where(is_icmp, packets.icmp_identifier, port) + 1
        for address, port in (
            (packets.source, packets.source_port),
            (packets.destination, packets.destination_port),
        )
    ]
    low, high = np.minimum(*ends), np.maximum(*ends)
    names, at = np.unique(np.concatenate([low, high]), return_inverse=True)
    one, other = at[: len(low)].astype(np.int64), at[len(low) :].astype(np.int64)
    pairs, pair = np.unique(one * len(names) + other, return_inverse=True)
    _, flow = np.unique(pair * 256 + packets.protocol, return_inverse=True)
    return flow.astype(np.int64), np.asarray(ends[0] <= ends[1])


def _without_copies(seen: Seen) -> Seen:
    packets = seen.packets
    key = copies.keys(packets.identity, packets.content)
    _, first = np.unique(key, return_index=True)
    if len(first) == len(key):
        return _apart(seen, seen, np.zeros(len(key), dtype=bool))
    sender = 2 * seen.flow + seen.forward
    is_tcp = packets.protocol == TCP
    is_numbered = ~is_tcp | (packets.payload > 0) | (packets.flags & SYN != 0)
    is_sctp = packets.protocol == SCTP
    has_data = np.zeros(len(key), dtype=bool)
    has_data[packets.chunks.packet[np.isin(packets.chunks.kind, (0, 64))]] = True
    is_numbered &= ~is_sctp | has_data
    is_copy = copies.copies(
        key,
        seen.seen_s,
        seen.flow,
        tells_apart=copies.tells(key, packets.identification, sender),
        is_numbered=is_numbered,
        round_trip_s=_round_trips(seen.of(np.sort(first)))[seen.flow],
    )
    if not is_copy.any():
        return _apart(seen, seen, is_copy)
    count = int(is_copy.sum())
    whole = seen.of(np.flatnonzero(~is_copy))
    seen.notes.append(
        f"{count} of {len(key)} packets are copies of one that was captured before; they are left "
        "out"
    )
    return _apart(whole, seen, is_copy)


def _round_trips(seen: Seen) -> Vector:
    """For each flow, the least round trip between both ends; not a number where it is unknown."""
    found = np.full(int(seen.flow.max()) + 1, np.nan)
    order = np.argsort(seen.flow, kind="stable")
    edges = np.flatnonzero(np.diff(seen.flow[order], prepend=-1, append=-1))
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        rows = order[start:end]
        if end - start < 2 or seen.packets.protocol[rows[0]] not in (TCP, SCTP):
            continue
        part = seen.of(rows)
        sums = 0.0
        for own in (part.forward, ~part.forward):
            if part.packets.protocol[0] == TCP:
                side = of_tcp(part.packets, part.seen_s, own, 40)
            else:
                side = of_sctp(part.packets, part.seen_s, own, np.ones(len(rows), dtype=bool))
            sums += float(round_trips.of_data(side, part.clock).delay_s.min(initial=np.inf))
        ...
        found[seen.flow[rows[0]]] = sums
    return found
