"""Two captures of the same packets, one of each end: delays and losses one way."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from anabranch.errors import AnabranchError

from .capture import TCP, UDP, Packet
from .flows import FEWEST_PACKETS, spacing
from .measurement import Delays, Deliveries, LossSequence, Measurement

Pair = tuple[bytes, bytes]

_CHECKSUM = {TCP: slice(16, 18), UDP: slice(6, 8)}
"""Left out: a sender's network card computes it after the capture."""


def _identity(packet: Packet) -> int:
    """The same at both ends: what no router changes, of the first bytes."""
    kept = bytearray(packet.payload[:64])
    kept[_CHECKSUM.get(packet.protocol, slice(0, 0))] = b""
    return hash(
        (packet.source, packet.destination, packet.protocol, packet.identification, bytes(kept))
    )


def measure(near: Iterable[Packet], far: Iterable[Packet]) -> Measurement:
    """The direction of the most packets, by packets that both captures have.

    Clocks need not agree where both directions have packets: half of the sum of the least delays is
    taken as the least delay of each.
    """
    seen: list[dict[int, tuple[float, Pair, int]]] = []
    for packets in (near, far):
        found: dict[int, tuple[float, Pair, int]] = {}
        for packet in packets:
            found.setdefault(
                _identity(packet), (packet.time, (packet.source, packet.destination), packet.octets)
            )
        seen.append(found)
    both = seen[0].keys() & seen[1].keys()
    if len(both) < FEWEST_PACKETS:
        raise AnabranchError(
            f"only {len(both)} packets are in both captures; they have to be of the same traffic, "
            "without translation of addresses between them"
        )
    count = Counter(seen[0][key][1] for key in both)
    pair = count.most_common(1)[0][0]
    least: dict[Pair, float] = {}
    for key in both:
        time, of, _ = seen[0][key]
        difference = seen[1][key][0] - time
        least[of] = min(least.get(of, np.inf), difference)
    back = (pair[1], pair[0])
    notes = []
    sender, receiver = seen
    offset = 0.0
    if back in least:
        # The least difference of the way back is minus the greatest of what the clocks allow.
        greatest = max(seen[1][key][0] - seen[0][key][0] for key in both if seen[0][key][1] == back)
        # The sum of both delays is positive; where it seems negative, the captures are exchanged.
        if least[pair] - greatest < 0:
            sender, receiver = seen[1], seen[0]
            forward = [receiver[key][0] - sender[key][0] for key in both if sender[key][1] == pair]
            backward = [sender[key][0] - receiver[key][0] for key in both if sender[key][1] == back]
        else:
            forward = [least[pair]]
            backward = [-greatest]
        offset = (min(forward) - min(backward)) / 2
        notes.append("the clocks are aligned by assuming the same least delay both ways")
    else:
        if least[pair] < 0:
            sender, receiver = seen[1], seen[0]
        notes.append("one direction only: the clocks of both captures are taken to agree")
    sent = sorted((time, key, octets) for key, (time, of, octets) in sender.items() if of == pair)
    inside = [index for index, (_, key, _) in enumerate(sent) if key in receiver]
    # Before the first and after the last packet that both have, one capture may not have run.
    sent = sent[inside[0] : inside[-1] + 1]
    lost = np.array([key not in receiver for _, key, _ in sent])
    times_sent = np.array([time for time, _, _ in sent])
    sizes = np.array([float(octets) for _, _, octets in sent])
    delays = np.array(
        [receiver[key][0] - time - offset for time, key, _ in sent if key in receiver]
    )
    if delays.min() < 0:
        raise AnabranchError(
            "packets arrive before they are sent: the clocks of the captures disagree, and packets "
            "of one direction alone cannot align them"
        )
    arrived = sorted((receiver[key][0], octets) for _, key, octets in sent if key in receiver)
    times, octets = np.array(arrived).T
    return Measurement(
        f"{len(sent)} packets seen at both ends",
        Delays(delays, 1, "one-way delays", times_s=times_sent[~lost], octets=sizes[~lost]),
        LossSequence(
            lost,
            "packets that only the sender's capture has",
            spacing_s=spacing(times_sent.tolist()),
            times_s=times_sent,
        ),
        Deliveries(times, octets, float(np.quantile(octets, 0.9)), "packets that arrived"),
        notes=notes,
    )
