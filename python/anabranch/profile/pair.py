"""Two captures of the same packets, one of each end: delays and losses one way."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from anabranch.errors import AnabranchError

from .capture import TCP, UDP, Packet
from .flows import FEWEST_PACKETS, spacing
from .measurement import Delays, Deliveries, LossSequence, Measurement

Pair = tuple[bytes, bytes]

_CHECKSUM = {TCP: slice(16, 18), UDP: slice(6, 8)}
"""Left out: a sender's network card computes it after the capture."""


class _Seen(NamedTuple):
    """A packet in one of the captures; times are whole ns, and exact."""

    time_ns: int
    hosts: Pair
    octets: int


def _identity(packet: Packet) -> bytes:
    """The same at both ends and in every process: what no router changes, of the first bytes."""
    kept = bytearray(packet.payload[:64])
    kept[_CHECKSUM.get(packet.protocol, slice(0, 0))] = b""
    numbers = (packet.protocol << 32 | packet.identification).to_bytes(8)
    said = b"".join((packet.source, packet.destination, numbers, kept))
    return hashlib.blake2b(said, digest_size=12).digest()


def measure(near: Iterable[Packet], far: Iterable[Packet]) -> Measurement:
    """The direction of the most packets, by packets that both captures have.

    Of both directions with as many, as pings have, that of the packet which the first capture saw
    first. Clocks need not agree where both directions have packets: half of the sum of the least
    delays is taken as the least delay of each.
    """
    seen: list[dict[bytes, _Seen]] = []
    for packets in (near, far):
        found: dict[bytes, _Seen] = {}
        for each in packets:
            of = (each.source, each.destination)
            found.setdefault(_identity(each), _Seen(each.time_ns, of, each.octets))
        seen.append(found)
    # In the order of the first capture's times, which decides between directions of one count.
    both = sorted((key for key in seen[0] if key in seen[1]), key=lambda key: seen[0][key].time_ns)
    if len(both) < FEWEST_PACKETS:
        raise AnabranchError(
            f"only {len(both)} packets are in both captures; they have to be of the same traffic, "
            "without translation of addresses between them"
        )
    pair = Counter(seen[0][key].hosts for key in both).most_common(1)[0][0]
    back = (pair[1], pair[0])
    sender, receiver = seen

    def later_ns(of: Pair) -> list[int]:
        """How much later the receiver's capture has what both have, by the captures' clocks."""
        return [
            receiver[key].time_ns - sender[key].time_ns for key in both if sender[key].hosts == of
        ]

    notes = []
    ahead, behind = later_ns(pair), later_ns(back)
    # The sum of both delays is positive; where it seems negative, the captures are exchanged.
    if min(ahead) < max(behind, default=0):
        sender, receiver = receiver, sender
        ahead, behind = later_ns(pair), later_ns(back)
        notes.append("the second capture is taken to be the sender's, as its times tell")
    offset_ns = 0
    if behind:
        offset_ns = (min(ahead) + max(behind)) // 2
        notes.append("the clocks are aligned by assuming the same least delay both ways")
    else:
        notes.append("one direction only: the clocks of both captures are taken to agree")
    sent = sorted(
        ((key, packet) for key, packet in sender.items() if packet.hosts == pair),
        key=lambda each: each[1].time_ns,
    )
    inside = [index for index, (key, _) in enumerate(sent) if key in receiver]
    # Before the first and after the last packet that both have, one capture may not have run.
    sent = sent[inside[0] : inside[-1] + 1]
    began_ns = sent[0][1].time_ns + offset_ns
    times_sent, sizes, lost, delays, arrivals = [], [], [], [], []
    for key, packet in sent:
        arrived = receiver.get(key)
        times_sent.append((packet.time_ns + offset_ns - began_ns) / 1e9)
        sizes.append(float(packet.octets))
        lost.append(arrived is None)
        if arrived is not None:
            delays.append((arrived.time_ns - packet.time_ns - offset_ns) / 1e9)
            arrivals.append(((arrived.time_ns - began_ns) / 1e9, float(packet.octets)))
    if min(delays) < 0:
        raise AnabranchError(
            "packets arrive before they are sent: the clocks of the captures disagree, and packets "
            "of one direction alone cannot align them"
        )
    times, octets = np.array(sorted(arrivals)).T
    flags, when = np.array(lost), np.array(times_sent)
    return Measurement(
        f"{len(sent)} packets seen at both ends",
        Delays(
            np.array(delays),
            1,
            "one-way delays",
            times_s=when[~flags],
            octets=np.array(sizes)[~flags],
        ),
        LossSequence(
            flags,
            "packets that only the sender's capture has",
            spacing_s=spacing(times_sent),
            times_s=when,
            octets=np.array(sizes),
        ),
        Deliveries(times, octets, float(np.quantile(octets, 0.9)), "packets that arrived"),
        notes=notes,
    )
