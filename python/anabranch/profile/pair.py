"""Two captures of the same packets, one at each end: one-way delays and losses."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.capture import Packet

from .flows import FEWEST_PACKETS, spacing
from .measurement import Delays, Deliveries, LossSequence, Measurement

Pair = tuple[bytes, bytes]


class _Seen(NamedTuple):
    """A packet in one of the captures; times are whole nanoseconds, and exact."""

    time_ns: int
    hosts: Pair
    octets: int


def measure(near: Iterable[Packet], far: Iterable[Packet]) -> Measurement:
    """Measures the direction with the most packets, by the packets that both captures have.

    If both directions have equally many, as with pings, the direction of the packet counts which
    the first capture saw first. Clocks need not agree where both directions have packets: half the
    sum of the least delays is taken as the least delay of each direction.
    """
    first, second = _seen(near), _seen(far)
    # In the order of the first capture's times, which decides between directions with equally many
    # packets.
    both = sorted((key for key in first if key in second), key=lambda key: first[key].time_ns)
    if len(both) < FEWEST_PACKETS:
        raise AnabranchError(
            f"only {len(both)} packets are in both captures; they have to be of the same traffic, "
            "without translation of addresses between them"
        )
    pair = Counter(first[key].hosts for key in both).most_common(1)[0][0]
    ends = _aligned(first, second, both, pair)
    journeys = _journeys(ends, pair)
    if any(each.delay_s < 0 for each in journeys):
        raise AnabranchError(
            "packets arrive before they are sent: the clocks of the captures disagree, and packets "
            "of one direction alone cannot align them"
        )
    return _measurement(journeys, ends.notes)


class _Ends(NamedTuple):
    """Both captures, and the offset to add to the sender's times."""

    sender: dict[bytes, _Seen]
    receiver: dict[bytes, _Seen]
    offset_ns: int
    notes: list[str]


class _Journey(NamedTuple):
    """A packet that was sent; its times are in seconds since the first packet was sent."""

    sent_s: float
    arrived_s: float | None
    delay_s: float
    """NaN if it did not arrive."""
    octets: float


def _seen(packets: Iterable[Packet]) -> dict[bytes, _Seen]:
    """The packets of a capture, each at its first occurrence."""
    seen: dict[bytes, _Seen] = {}
    for packet in packets:
        hosts = (packet.source, packet.destination)
        seen.setdefault(packet.identity(), _Seen(packet.time_ns, hosts, packet.octets))
    return seen


def _aligned(
    first: dict[bytes, _Seen], second: dict[bytes, _Seen], both: Sequence[bytes], pair: Pair
) -> _Ends:
    """Finds out which capture is the sender's, and how far its clock is from the receiver's."""
    sender, receiver = first, second
    back = (pair[1], pair[0])

    def later_ns(of: Pair) -> list[int]:
        """How much later the receiver's capture has the common packets, by the two clocks."""
        return [
            receiver[key].time_ns - sender[key].time_ns for key in both if sender[key].hosts == of
        ]

    notes = []
    ahead, behind = later_ns(pair), later_ns(back)
    # The sum of both delays is positive; if it seems negative, the captures are exchanged.
    if min(ahead) < max(behind, default=0):
        sender, receiver = receiver, sender
        ahead, behind = later_ns(pair), later_ns(back)
        notes.append("the second capture is taken to be the sender's, as its times tell")
    if not behind:
        notes.append("one direction only: the clocks of both captures are taken to agree")
        return _Ends(sender, receiver, 0, notes)
    notes.append("the clocks are aligned by assuming the same least delay both ways")
    return _Ends(sender, receiver, (min(ahead) + max(behind)) // 2, notes)


def _journeys(ends: _Ends, pair: Pair) -> list[_Journey]:
    """The journeys of one direction, in the order of departure."""
    sent = sorted(
        ((key, packet) for key, packet in ends.sender.items() if packet.hosts == pair),
        key=lambda each: each[1].time_ns,
    )
    inside = [index for index, (key, _) in enumerate(sent) if key in ends.receiver]
    # Before the first and after the last common packet, one of the captures may not have run.
    sent = sent[inside[0] : inside[-1] + 1]
    offset_ns = ends.offset_ns
    began_ns = sent[0][1].time_ns + offset_ns
    journeys = []
    for key, packet in sent:
        arrived = ends.receiver.get(key)
        journeys.append(
            _Journey(
                sent_s=(packet.time_ns + offset_ns - began_ns) / 1e9,
                arrived_s=None if arrived is None else (arrived.time_ns - began_ns) / 1e9,
                delay_s=math.nan
                if arrived is None
                else (arrived.time_ns - packet.time_ns - offset_ns) / 1e9,
                octets=float(packet.octets),
            )
        )
    return journeys


def _measurement(journeys: Sequence[_Journey], notes: list[str]) -> Measurement:
    sent_s = [each.sent_s for each in journeys]
    lost = np.array([each.arrived_s is None for each in journeys])
    when, sizes = np.array(sent_s), np.array([each.octets for each in journeys])
    delays = np.array([each.delay_s for each in journeys])
    arrivals = sorted(
        (each.arrived_s, each.octets) for each in journeys if each.arrived_s is not None
    )
    times, octets = np.array(arrivals).T
    return Measurement(
        f"{len(journeys)} packets seen at both ends",
        Delays(
            delays[~lost],
            1,
            "one-way delays",
            times_s=when[~lost],
            octets=sizes[~lost],
        ),
        LossSequence(
            lost,
            "packets that only the sender's capture has",
            spacing_s=spacing(sent_s),
            times_s=when,
            octets=sizes,
        ),
        Deliveries(times, octets, float(np.quantile(octets, 0.9)), "packets that arrived"),
        notes=notes,
    )
