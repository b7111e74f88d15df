"""The packets of one place of capture, each once and in one line of time."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support import clocks, copies, flows
from anabranch.support.capture import Capture
from anabranch.support.flows import DATA_CHUNKS
from anabranch.support.gathered import chosen, joined
from anabranch.support.packets import ICMP, ICMP6, SCTP, SYN, TCP, UDP, Packets

from .intervals import Vector
from .loss import Flags
from .numbers import Integers

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
    began_ns: int
    """When the first packet was seen, in ns since 1970."""
    notes: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """What is not used, with the number of packets."""

    def of(self, rows: Integers) -> "Seen":
        """Some of the packets."""
        return Seen(
            chosen(self.packets, rows), self.seen_s[rows], self.clock[rows], self.flow[rows],
            self.forward[rows], self.began_ns, self.notes, self.left_out,
        )  # fmt: skip

    @property
    def time_ns(self) -> Integers:
        """When each was seen, in ns since 1970, by the clock of the first packet."""
        return np.asarray(self.began_ns + np.round(self.seen_s * 1e9).astype(np.int64))


def is_used(batch: Packets) -> Flags:
    """Which packets are measured: their headers are whole, and ICMP's are echoes."""
    kept = np.isin(batch.protocol, USED) & ~_is_other(batch)
    return np.asarray(kept & ((batch.fault == 0) | (batch.fault > _CUT)))


def unused(batch: Packets) -> Counter[str]:
    """What of a batch is not measured, with the number of packets."""
    counts = batch.unused(USED)
    if others := int(_is_other(batch).sum()):
        counts[NO_ECHO] += others
    return counts


def _is_other(batch: Packets) -> Flags:
    return np.asarray(np.isin(batch.protocol, (ICMP, ICMP6)) & (batch.icmp_identifier < 0))


def whole(capture: Capture) -> Seen:
    """All packets of a capture, without their copies."""
    left_out: Counter[str] = Counter()
    parts = []
    for batch in capture.batches():
        left_out.update(unused(batch))
        if len(rows := np.flatnonzero(is_used(batch))):
            parts.append(chosen(batch, rows))
    return once(joined(parts), left_out)


def once(packets: Packets | None, left_out: Counter[str]) -> Seen:
    """The packets without their copies.

    Raises
    ------
    AnabranchError
        Where there is none.
    """
    if packets is None:
        raise AnabranchError("no packets of TCP, SCTP, RTP or ICMP echoes")
    clock = clocks.clocks(packets.time_ns)
    seen_ns = clocks.continued(packets.time_ns, clock)
    order = np.argsort(seen_ns, kind="stable")
    began_ns, back_s = int(packets.time_ns[0]), clocks.largest_s(packets.time_ns, clock)
    packets, clock, seen_s = chosen(packets, order), clock[order], seen_ns[order] / 1e9
    flow, forward = flows.numbered(packets)
    seen = Seen(packets, seen_s, clock, flow, forward, began_ns, left_out=left_out)
    cuts = np.flatnonzero(np.diff(clock)) + 1
    seen.notes.extend(clocks.said(seen_s[cuts].tolist(), back_s))
    return _without_copies(seen)


def _without_copies(seen: Seen) -> Seen:
    packets = seen.packets
    key = copies.keys(packets.identity, packets.content, packets.octets)
    _, first = np.unique(key, return_index=True)
    if len(first) == len(key):
        return _apart(seen, packets.place.astype(np.int64))
    count = int(seen.flow.max()) + 1
    sender = 2 * seen.flow + seen.forward
    trips = flows.least_round_trips(packets, np.sort(first), sender, seen.seen_s, count)
    trips_s = trips[seen.flow]
    is_copy = copies.copies(
        key,
        seen.seen_s,
        seen.flow,
        forward=seen.forward,
        tells_apart=copies.tells(key, packets.identification, sender),
        is_numbered=_is_numbered(packets),
        round_trip_s=trips_s,
        tick_s=copies.ticks(packets.stamp, sender, seen.seen_s),
    )
    is_copy |= copies.wholes(
        np.where(packets.protocol == TCP, sender, -1),
        (packets.sequence, packets.stamp), packets.payload,
        where=copies.devices(packets.place, packets.direction, packets.ttl),
        seen_s=seen.seen_s, most_s=copies.longest_apart(packets.stamp, trips_s),
    )  # fmt: skip
    if not is_copy.any():
        return _apart(seen, packets.place.astype(np.int64))
    seen.notes.append(
        f"{is_copy.sum()} of {len(key)} packets are copies of one that was captured before; they "
        "are left out"
    )
    place = copies.places(key, packets.place, is_copy)
    kept = np.flatnonzero(~is_copy)
    return _apart(seen.of(kept), place[kept])


def _is_numbered(packets: Packets) -> Flags:
    """Which packets would be counted as sent again if they came twice."""
    found = (packets.payload > 0) | (packets.flags & SYN != 0)
    found[packets.protocol == SCTP] = False
    found[packets.chunks.packet[np.isin(packets.chunks.kind, DATA_CHUNKS)]] = True
    return np.asarray(found)


def _apart(seen: Seen, place: Integers) -> Seen:
    """The packets with a number for each connection.

    Flows of equal addresses and ports are several where both directions pass at each of several
    places (VLANs, interfaces), and where a handshake begins anew with other numbers.
    """
    packets = seen.packets
    _, at = np.unique(seen.flow * (int(place.max()) + 1) + place, return_inverse=True)
    both = np.zeros((int(at.max()) + 1, 2), dtype=bool)
    both[at, seen.forward.astype(int)] = True
    whole = np.zeros((int(at.max()) + 1,), dtype=np.int64)
    whole[at] = seen.flow
    complete = np.bincount(whole[both.all(axis=1)], minlength=int(seen.flow.max()) + 1)
    several = complete[seen.flow] > 1
    _, flow = np.unique(np.where(several, at, 0) + (seen.flow << 32), return_inverse=True)
    flow = flow.astype(np.int64)
    nth = flows.connections(packets, np.arange(len(packets)), flow, seen.forward)
    if nth.any():
        _, flow = np.unique(flow * (int(nth.max()) + 1) + nth, return_inverse=True)
    return replace(seen, flow=flow.astype(np.int64))
