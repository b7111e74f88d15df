"""A transfer over TCP or SCTP: one side sends most of the data, the other one answers."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.flows import INIT_CHUNKS
from anabranch.support.holes import CLEARLY, REPEATED, SENT_AGAIN, Unseen, kinds, unwrapped
from anabranch.support.packets import SYN, TCP, Packets

from . import numbers, round_trips, sent_again
from .intervals import Vector
from .loss import Flags
from .measurement import Delays, Deliveries, LossSequence, Measurement
from .numbers import Acknowledgements, Data, Integers, Side
from .regular import FEWEST_PACKETS
from .round_trips import Samples

_TELLING = 0.05
"""The least part of the time for which a closed window is worth a sentence."""


class Flow(NamedTuple):
    """The packets of a connection, or of an association."""

    packets: Packets
    seen_s: Vector
    clock: Integers
    """How often the clock was set back before each."""
    forward: Flags
    """Whether it goes from the end that sends most of the data."""
    on_path: Flags
    """Whether it is on the pair of addresses that is measured: an association has several."""
    fixed: int
    """Bytes of the headers of IP and TCP without options."""


def sides(flow: Flow) -> tuple[Side, Side]:
    """What the end with most of the data sends, and what the other one does."""
    if (flow.packets.protocol == TCP).all():
        one, other = (
            numbers.of_tcp(flow.packets, flow.seen_s, own, flow.fixed)
            for own in (flow.forward, ~flow.forward)
        )
    else:
        one, other = (
            numbers.of_sctp(flow.packets, flow.seen_s, own, flow.on_path)
            for own in (flow.forward, ~flow.forward)
        )
    return one, other


def samples(flow: Flow, side: Side, other: Side) -> tuple[Samples, Samples]:
    """The delays between the capture and the far end, and those to the end that sends."""
    of = (flow.packets, flow.seen_s, flow.clock)
    ahead = round_trips.together(
        round_trips.of_data(side, flow.clock),
        round_trips.of_questions(*of, flow.forward, flow.on_path),
    )
    behind = round_trips.together(
        round_trips.of_data(other, flow.clock),
        round_trips.of_echoes(*of, flow.forward, float(side.data.octets.max(initial=0))),
        round_trips.of_questions(*of, ~flow.forward, flow.on_path),
    )
    return ahead, behind


def measure(flow: Flow) -> Measurement:
    """The measurement of a connection; its title is left empty."""
    name = "TCP" if (flow.packets.protocol == TCP).all() else "SCTP"
    side, other = sides(flow)
    ahead, behind = samples(flow, side, other)
    if flow.forward.all():
        raise AnabranchError(
            f"the capture has only what one end of the {name} flow sent, so there is no delay to "
            "measure; give one of both directions, or two captures, one of each end"
        )
    if not len(ahead.delay_s) and not len(behind.delay_s):
        raise AnabranchError(f"no {name} data was acknowledged, so there is nothing to estimate")
    near = [float(each.delay_s.min(initial=np.inf)) for each in (ahead, behind)]
    near = [value if np.isfinite(value) else 0.0 for value in near]
    data = side.data.only(side.data.is_user)
    at_sender = len(ahead.delay_s) > 0 and (
        not len(behind.delay_s) or _is_at_sender(data, near[0], near[1])
    )
    delays, is_bound = _delays(ahead if at_sender else behind, min(near), name, at_sender=at_sender)
    delays = replace(delays, is_from_start=begins(flow.packets))
    end_s = float(flow.seen_s[-1])
    if at_sender:
        longest_s = float(delays.seconds.max())
        if side.whole is None or side.on_path is None:
            fates = sent_again.at_sender(data, end_s, longest_s)
        else:
            every = sent_again.at_sender(side.whole, end_s, longest_s)
            fates = every.only(side.on_path[: len(every.lost)])
    else:
        stamps = flow.packets.stamp[data.row]
        stamps = np.where(stamps >= 0, unwrapped(stamps, 32), -1)
        acknowledged = int(side.acknowledgements.number.max(initial=data.start[:1].sum()))
        fates = sent_again.at_receiver(
            data, float(delays.seconds.min()), stamps, acknowledged, _unseen(side)
        )
    losses = None
    if len(fates.lost) >= FEWEST_PACKETS:
        losses = LossSequence(
            fates.lost, f"{name}'s retransmissions", is_estimate=True,
            times_s=fates.seen_s, octets=fates.octets,
        )  # fmt: skip
    return Measurement(
        "",
        delays,
        losses,
        _deliveries(side, data, at_sender=at_sender, name=name),
        notes=[
            *_places(both=len(ahead.delay_s) > 0 and len(behind.delay_s) > 0, at_sender=at_sender),
            *_said(side, other, end_s, name, is_bound=is_bound),
        ],
    )


def _is_at_sender(data: Data, ahead_s: float, behind_s: float) -> bool:
    """Whether losses are to be looked for as they are at the sender: what is lost comes twice.

    Where the capture is about as far from both ends, or of both of them, more comes twice than
    fills holes if more was lost behind the place at which data is seen.
    """
    if max(ahead_s, behind_s) > CLEARLY * min(ahead_s, behind_s):
        return ahead_s > behind_s
    kind = kinds(data.start, data.end, data.seen_s, ahead_s + behind_s)
    return int((kind == REPEATED).sum()) >= int((kind == SENT_AGAIN).sum())


def begins(packets: Packets) -> bool:
    """Whether packets have the beginning of their connection: a SYN, or an INIT."""
    is_asking = (packets.flags & SYN != 0).any()
    return bool(is_asking or np.isin(packets.chunks.kind, INIT_CHUNKS).any())


def _unseen(side: Side) -> Unseen:
    """What the receiver had got without its being seen here."""
    acks = side.acknowledgements
    of = acks.selective.of
    return Unseen.of(
        side.data.end, side.data.seen_s, acks.number[of], acks.selective.end, acks.seen_s[of]
    )


def _delays(samples: Samples, near_s: float, name: str, *, at_sender: bool) -> tuple[Delays, bool]:
    """The round trips, and whether they are all bounds from above.

    Bounds are left out where something measures the path, except for one below all of that.
    """
    kept = samples.is_prompt.copy()
    is_bound = not kept.any()
    if is_bound:
        kept[:] = True
    elif samples.delay_s.min() < samples.delay_s[kept].min():
        kept[np.argmin(samples.delay_s)] = True
    used = samples.only(kept)
    # When the packets were sent, at the sender: like the times of the losses.
    times = used.seen_s - used.delay_s if at_sender else used.seen_s
    # For a capture in the middle of the path, each side has a part of the round trip.
    delays = Delays(
        used.delay_s + near_s, 2, f"round-trip times of {name}",
        times_s=times, octets=used.octets, is_bound=is_bound,
    )  # fmt: skip
    return delays, is_bound


def _places(*, both: bool, at_sender: bool) -> list[str]:
    """Where on the path the capture was made."""
    place = "sender" if at_sender else "receiver"
    notes = [f"captured at the {place}, as its delays tell"]
    if not both:
        notes = [
            f"taken to be captured at the {place}: there is no handshake and no time stamp to tell"
        ]
    if not at_sender:
        notes.append(
            "a capture at the receiver does not show losses before a pause, nor those of what was "
            "retransmitted: the loss is at least this"
        )
    return notes


def _said(side: Side, other: Side, end_s: float, name: str, *, is_bound: bool) -> list[str]:
    """What else of the connection matters to who reads its numbers."""
    notes = []
    if is_bound:
        longest = 200 if name == "SCTP" else 500
        notes.append(
            "each round trip is that of a single packet whose acknowledgement may be delayed by up "
            f"to {longest} ms: the delay is at most this"
        )
    if side.has_offload:
        notes.append(
            "packets above the largest segment (segmentation offload) are counted in segments"
        )
    if side.is_cut:
        notes.append(f"the first {len(side.data.row)} segments are looked at")
    if probes := side.probes + other.probes:
        notes.append(f"{probes} keep-alives and probes of a closed window are no data")
    closed = numbers.closed_s(side.acknowledgements, end_s) / end_s if end_s > 0 else 0.0
    if closed >= _TELLING:
        notes.append(
            f"the receiver's window was closed for {closed * 100:.0f} % of the time: its user "
            "reads slowly"
        )
    return notes


def _deliveries(side: Side, data: Data, *, at_sender: bool, name: str) -> Deliveries | None:
    packets = data.only(data.octets > 0)
    if len(data.row) < FEWEST_PACKETS or not len(packets.row):
        return None
    full = float(np.quantile(packets.octets, 0.9))
    if not at_sender:
        return Deliveries(packets.seen_s, packets.octets, full, f"{name} packets that arrived")
    acknowledgements = side.acknowledgements
    if not len(acknowledgements.number):
        return None
    # Bytes of IP packets for each numbered byte: payload and headers.
    factor = packets.octets.sum() / max((data.end - data.start).sum(), 1)
    octets = acknowledgements.news(side.data) * factor
    is_guess = np.zeros(len(octets), dtype=bool)
    if not len(acknowledgements.selective.of):
        exact, octets = octets, _spread(octets, acknowledgements, side.data)
        is_guess = octets != exact
    keep = octets > 0
    if not keep.any():  # nothing new after the first
        return None
    return Deliveries(
        acknowledgements.seen_s[keep], octets[keep].astype(float), full,
        f"what {name} acknowledged", is_seen=False, is_guess=is_guess[keep],
    )  # fmt: skip


def _spread(octets: Vector, acknowledgements: Acknowledgements, data: Data) -> Vector:
    """What acknowledgements report, where they are not selective.

    Each one that does not grow says that something arrived above a hole. Until all is acknowledged
    that had been sent by then, others grow by what arrived before, as holes are filled: what they
    report together, each of them has a part of.
    """
    highest = np.maximum.accumulate(acknowledgements.number)
    before = np.searchsorted(data.row, acknowledgements.row) - 1
    sent = np.maximum.accumulate(data.end)[np.maximum(before, 0)]
    sent[before < 0] = highest[before < 0]
    repeats = np.flatnonzero((octets <= 0) & (highest < sent))
    sums = np.concatenate([[0.0], np.cumsum(octets)])
    spread = octets.astype(float)
    nth = 0
    while nth < len(repeats):
        start = int(repeats[nth])
        end = min(int(np.searchsorted(highest, sent[start])) + 1, len(octets))
        spread[start:end] = (sums[end] - sums[start]) / (end - start)
        nth = int(np.searchsorted(repeats, end))
    return spread
