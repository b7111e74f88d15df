"""The flow of a capture that is measured: the one with the most bytes."""

from collections import Counter

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support import bounded, quic, wording
from anabranch.support.capture import Capture, left_out
from anabranch.support.flows import DATA_CHUNKS
from anabranch.support.packets import ICMP, ICMP6, SCTP, SYN, TCP, UDP

from . import echoes, opened, rtp, transfer
from .loss import Flags
from .measurement import Measurement
from .numbers import Integers
from .once import Seen, is_used, once, unused
from .regular import FEWEST_PACKETS
from .transfer import Flow

_NAMES = {ICMP: "ICMP echo", ICMP6: "ICMP echo", SCTP: "SCTP", TCP: "TCP", UDP: "UDP"}

_MP_CAPABLE, _MP_JOIN = 0, 1
"""Subtypes of Multipath TCP's option (RFC 8684 section 3)."""


_FEWEST = {TCP: 5, SCTP: 5}
"""Packets with which a connection is measured; other flows need `FEWEST_PACKETS`."""

MOST = 1 << 20
"""Packets of a capture that are kept, about 500 bytes each at the most: 1.5 GB of full frames."""

_MOST_TRIED = 20
"""Flows that are tried: those of UDP may have no numbers."""


def measure(capture: Capture) -> Measurement:
    """The measurement of the main flow of a capture."""
    unread: Counter[str] = Counter()
    kept = bounded.read(capture, is_used, _to_try, MOST, lambda batch: unread.update(unused(batch)))
    seen = once(kept.packets, unread)
    flows = by_payload(seen)
    encrypted = 0
    for tried, flow in enumerate(flows[:_MOST_TRIED].tolist()):
        part = seen.of(np.flatnonzero(seen.flow == flow))
        side = _direction(part)
        way = part.of(np.flatnonzero(part.forward == side))
        if int(part.packets.protocol[0]) == UDP and not opened.has_numbers(way.packets):
            if quic.packets_that_open(part.packets).any():
                encrypted += 1
                continue
            if not rtp.streams(way.packets, way.seen_s):
                continue
        notes = []
        if tried:
            quic_too = f" ({encrypted} of them QUIC)" if encrypted else ""
            notes.append(
                f"larger flows of UDP without RTP, which has no numbers: {tried}{quic_too}"
            )
        if (others := len(flows) - tried - 1 + kept.others) > 0:
            notes.append(f"the flow of the most bytes; {others} more are not looked at")
        if kept.is_cut and part.packets.time_ns[-1] < kept.end_ns:
            end_s = (kept.end_ns - seen.began_ns) / 1e9
            notes.append(
                f"the first {len(part.packets)} packets are looked at, of which the last one came "
                f"after {wording.number(float(part.seen_s[-1]), 4)} s; the flow goes on until "
                f"{wording.number(end_s, 4)} s"
            )
        return _measured(capture, seen, part, notes, side=side)
    raise AnabranchError(rtp.ENCRYPTED if encrypted else rtp.NO_NUMBERS)


def _to_try(listed: bounded.Listed) -> range:
    """The largest flow, and where those before it are of UDP, which may have no numbers, those."""
    others = np.flatnonzero(listed.protocol != UDP)
    return range(min(_MOST_TRIED, int(others[0]) + 1 if len(others) else len(listed.protocol)))


def _measured(
    capture: Capture, seen: Seen, part: Seen, others: list[str], *, side: bool
) -> Measurement:
    packets = part.packets
    protocol = int(packets.protocol[0])
    if protocol in (ICMP, ICMP6):
        measured = echoes.measure(packets, part.seen_s, part.clock)
    elif protocol == UDP:
        way = part.of(np.flatnonzero(part.forward == side))
        reader = opened if opened.has_numbers(way.packets) else rtp
        measured = reader.measure(way.packets, way.seen_s)
    else:
        measured = transfer.measure(_flow(seen, part, side, capture))
    first = int(np.flatnonzero(part.forward == side)[0])
    start = _end(capture, protocol, packets.source[first], packets.source_port[first])
    end = _end(capture, protocol, packets.destination[first], packets.destination_port[first])
    notes = [*measured.notes, *seen.notes, *left_out(seen.left_out)]
    if (said := _multipath(seen, int(part.flow[0]))) is not None:
        notes.append(said)
    return Measurement(
        f"{_NAMES[protocol]} from {start} to {end}, {len(packets)} packets",
        measured.delays, measured.losses, measured.deliveries, None, [*notes, *others],
    )  # fmt: skip


def by_payload(seen: Seen) -> Integers:
    """The flows with enough packets, those with most payload first.

    Among flows with as much, the one that began first counts.
    """
    # Of a part of a capture, some flows may have no packets.
    names, first, flow = np.unique(seen.flow, return_index=True, return_inverse=True)
    count = np.bincount(flow)
    octets = np.bincount(flow, weights=seen.packets.payload)
    protocol = seen.packets.protocol[first]
    fewest = np.full(len(count), FEWEST_PACKETS)
    for each, packets in _FEWEST.items():
        fewest[protocol == each] = packets
    wanted = np.flatnonzero(count >= fewest)
    if not len(wanted):
        raise AnabranchError(
            f"no flow of TCP or SCTP has {_FEWEST[TCP]} packets, and none of RTP or ICMP echoes "
            f"{FEWEST_PACKETS}"
        )
    return np.asarray(names[wanted[np.lexsort((first[wanted], -octets[wanted]))]])


def _direction(part: Seen) -> bool:
    """The direction with the most data; if both have as much, that of the first packet."""
    packets = part.packets
    protocol = int(packets.protocol[0])
    weights = np.ones(len(packets))
    if protocol in (ICMP, ICMP6):
        weights = echoes.is_question(packets).astype(float)
    elif protocol == TCP:
        length = packets.payload > 0
        weights = packets.octets * (length | (packets.flags & SYN != 0)).astype(float)
    elif protocol == SCTP:
        carries = np.zeros(len(packets), dtype=bool)
        carries[packets.chunks.packet[np.isin(packets.chunks.kind, DATA_CHUNKS)]] = True
        weights = packets.octets * carries.astype(float)
    ahead, back = (float(weights[part.forward == side].sum()) for side in (True, False))
    return bool(part.forward[0]) if ahead == back else ahead > back


def _flow(seen: Seen, part: Seen, side: bool, capture: Capture) -> Flow:  # noqa: FBT001
    """The packets of the connection; of an association, those on all of its addresses."""
    packets = part.packets
    if int(packets.protocol[0]) == TCP:
        address = capture.addresses[int(packets.source[0])]
        fixed = 40 if address.version == 4 else 60
        forward = part.forward == side
        every = np.ones(len(packets), dtype=bool)
        return Flow(packets, part.seen_s - part.seen_s[0], part.clock, forward, every, fixed)
    rows, forward = _association(seen, part, side)
    whole = seen.of(rows)
    on_path = whole.flow == part.flow[0]
    seen_s = whole.seen_s - whole.seen_s[0]
    return Flow(whole.packets, seen_s, whole.clock, forward, on_path, 0)


def _association(seen: Seen, part: Seen, side: bool) -> tuple[Integers, Flags]:  # noqa: FBT001
    """The packets with the ports and the tags of these, and which ones go the same way.

    The verification tag is that of the end to which a packet goes (RFC 9260 section 8.5).
    """
    packets = part.packets
    first = int(np.flatnonzero(part.forward == side)[0])
    ports = int(packets.source_port[first]), int(packets.destination_port[first])
    way = part.forward == side
    there, back = (_most_frequent(packets.tag[one & (packets.tag > 0)]) for one in (way, ~way))
    every = seen.packets
    same = every.protocol == SCTP
    from_, to = every.source_port, every.destination_port
    on = seen.flow == part.flow[0]
    ahead = same & (from_ == ports[0]) & (to == ports[1]) & (every.tag == there)
    behind = same & (from_ == ports[1]) & (to == ports[0]) & (every.tag == back)
    if there == back:
        behind &= on
        ahead &= on
    forward = np.where(on, seen.forward == side, ahead)
    rows = np.flatnonzero(on | ahead | behind)
    return rows, np.asarray(forward[rows], dtype=bool)


def _most_frequent(values: Integers) -> int:
    if not len(values):
        return -2
    different, counts = np.unique(values, return_counts=True)
    return int(different[np.argmax(counts)])


def _multipath(seen: Seen, flow: int) -> str | None:
    """A sentence where the flow is a path of Multipath TCP."""
    options = seen.packets.multipath
    of = seen.flow[options.packet]
    if not len(of) or not (of == flow).any():
        return None
    leader: dict[int, int] = {}
    """Of flows: the connection of each, by the smallest number of a flow in it."""
    owner: dict[int, int] = {}
    """Of tokens: a flow of their connection."""
    capable = options.kind == _MP_CAPABLE
    for tokens in (options.token, options.peer_token):
        known = capable & (tokens >= 0)
        for token, one in zip(tokens[known].tolist(), of[known].tolist(), strict=True):
            owner.setdefault(token, one)
    for row in np.flatnonzero((options.kind == _MP_JOIN) & (options.token >= 0)).tolist():
        joined = owner.get(int(options.token[row]))
        if joined is not None:
            leader[int(of[row])] = joined
    own = leader.get(flow, flow)
    paths = 1 + sum(one == own for one in leader.values())
    return f"a path of a Multipath TCP connection, which has {paths} in this capture"


def _end(capture: Capture, protocol: int, address: int, port: int) -> str:
    host = capture.addresses[int(address)]
    if protocol in (ICMP, ICMP6):
        return str(host)
    return f"{host}:{port}" if host.version == 4 else f"[{host}]:{port}"
