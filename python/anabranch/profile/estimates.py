"""A path's numbers, each with its interval and how it was found."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import scatter
from .counted import CountedLosses
from .intervals import LEVEL, Bounds, Vector, block_interval, minimum_interval
from .logs.mahimahi import OCTETS
from .loss import Fit, Losses, best
from .measurement import (
    Delays,
    Deliveries,
    Jitters,
    LossCounts,
    LossSequence,
    Measurement,
    Opportunities,
    Rates,
)
from .regular import FEWEST_PACKETS
from .timed import TimedFit, TimedLosses

FEWEST_LOSSES_TO_CHOOSE = 10
"""With fewer losses, every model but independent losses would be a guess."""

OUTAGE_S = 0.25
"""A packet-delivery trace has an outage if it has no opportunity for this long, in seconds."""

BAD_STATE_S = 0.1
"""Seconds. Where no loss is seen, there may still be bad states; a bound allows for states this
long.
"""

_AT_FIRST = 10
"""So many delays are the first ones of a measurement."""

_WINDOW_S = 0.1
"""The shortest time, in seconds, over which a rate is taken."""
_WINDOW_PACKETS = 16
_UNFILLED = "; the traffic never filled the link"

_FINEST_S = 1e-9
"""The least difference, in seconds, between times that captures and logs have."""

_MEDIAN_DIFFERENCE = {1: 1 - 0.5**0.5, 2: 0.40273}
"""Legs -> median of |X - Y|, where X and Y are each a sum of that many uniform numbers from 0 to 1.
For two legs it is the quartile of Irwin and Hall's distribution of four.
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, its 95 % interval in the same unit, and how it was found."""

    value: float
    interval: Bounds
    how: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A path as a scenario's link has it: SI units, shares from 0 to 1."""

    measurement: Measurement
    delay_s: Estimate | None = None
    """The delay of one way."""
    delay_is_bound: bool = False
    """Whether it is only an upper bound: timers of the receiver may be a part of it."""
    jitter_s: Estimate | None = None
    """The jitter of one way: the random part of the delay is uniform from 0 to this."""
    rate_bit_per_s: Estimate | None = None
    rate_is_bound: bool = False
    """Whether the rate is only a lower bound, which the traffic reached."""
    queue_packets: Estimate | None = None
    packet_octets: float = 1500.0
    mean_loss: Estimate | None = None
    losses: Losses | CountedLosses | None = None
    fits: Sequence[Fit | TimedFit] = ()
    """Models in time where packets have times but no regular spacing, elsewhere models by packets.
    """
    loss: Fit | TimedFit | None = None
    """The model that is chosen."""
    outages: list[tuple[float, float]] = field(default_factory=list)
    """Start and length of each outage, in seconds."""
    back: "Profile | None" = None
    """The other direction, where it was measured by itself."""


def estimate(measurement: Measurement) -> Profile:
    """Estimates everything that a measurement allows."""
    rate, is_bound, packet = None, False, 1500.0
    if measurement.deliveries is not None:
        packet = measurement.deliveries.packet_octets
        rate, is_bound = _rate(measurement.deliveries, measurement.delays)
    if measurement.rates is not None:
        packet, is_bound = measurement.rates.packet_octets, measurement.rates.is_bound
        rate = _rate_by_interval(measurement.rates)
    outages: list[tuple[float, float]] = []
    if measurement.opportunities is not None:
        rate, outages = _rate_of_trace(measurement.opportunities)
    known_rate = rate.value if rate is not None and not is_bound else None
    lines = None
    if known_rate and rate is not None and measurement.deliveries is not None:
        lines = scatter.Lines(measurement.deliveries, known_rate)
        if lines.are_broken:
            rate, is_bound, note = _among_others(rate, measurement.deliveries)
            delays = measurement.delays
            if is_bound and delays is not None:
                delays = replace(delays, octets=None)  # how long the link sent them is not known
            notes = [*measurement.notes, note]
            measurement = replace(measurement, delays=delays, notes=notes)
    of_delays = _OfDelays()
    if measurement.delays is not None:
        known = rate if known_rate else None
        of_delays = _of_delays(measurement.delays, measurement.deliveries, known, packet, lines)
        if lines is not None and of_delays.queue is None and rate is not None and not is_bound:
            # Without a queue, the delays that varied were those of jitter.
            rate, is_bound, known_rate = replace(rate, how=f"{rate.how}{_UNFILLED}"), True, None
            of_delays = _of_delays(measurement.delays, measurement.deliveries, None, packet, None)
        measurement = replace(measurement, notes=[*measurement.notes, *of_delays.notes])
    jitter, queue = of_delays.jitter, of_delays.queue
    if measurement.jitters is not None:
        jitter = _jitter_by_interval(measurement.jitters)
    if known_rate:
        measurement = _behind_the_queue(measurement, known_rate, known=queue is not None)
    if is_bound:
        queue = None
    profile = Profile(
        measurement,
        delay_s=of_delays.delay,
        delay_is_bound=of_delays.is_bound,
        jitter_s=jitter,
        rate_bit_per_s=rate,
        rate_is_bound=is_bound,
        queue_packets=queue,
        packet_octets=packet,
        outages=outages,
        back=None if measurement.back is None else estimate(measurement.back),
    )
    if measurement.losses is not None:
        profile = _with_losses(profile, measurement.losses)
    return _sound(profile)


class _OfDelays(NamedTuple):
    """What delays say of a path."""

    delay: Estimate | None = None
    is_bound: bool = False
    jitter: Estimate | None = None
    queue: Estimate | None = None
    notes: tuple[str, ...] = ()


def _of_delays(
    delays: Delays,
    deliveries: Deliveries | None,
    rate: Estimate | None,
    packet: float,
    lines: scatter.Lines | None,
) -> _OfDelays:
    """Estimates what these delays allow; `rate` is that of the link where it was kept busy."""
    known_rate = rate.value if rate is not None else None
    notes: list[str] = []
    jitter = queue = scattered = None
    delay = _base_delay(delays, known_rate) if delays.absolute else None
    if rate is not None and not delays.is_bound:
        if lines is not None:
            scattered = lines.scatter(delays.legs)
        queue = _queue(delays, rate, packet, scattered)
    if queue is None and not delays.is_bound:
        jitter = _jitter(delays, packet * 8 / known_rate if known_rate else 0.0)
    elif queue is not None and scattered is not None:
        jitter = Estimate(scattered.jitter_s, scattered.interval, scattered.how)
    elif queue is not None:
        notes.append("the queue's delays hide what jitter there may be")
    is_bound = delays.is_bound
    if known_rate is not None and _may_stand(delays, deliveries, known_rate, packet, scattered):
        is_bound = True
        if delay is not None:
            how = f"{delay.how}, of which a queue that never emptied may be a part"
            delay = Estimate(delay.value, (0.0, delay.value), how)
            notes.append(
                "the link was never seen idle: a part of the least delay may be its queue's, which "
                "is then deeper"
            )
    return _OfDelays(delay, is_bound, jitter, queue, tuple(notes))


def _sound(profile: Profile) -> Profile:
    """Leaves out what no path can have, and says so; the rest has its value in its interval."""
    kept: dict[str, Estimate | None] = {}
    notes = list(profile.measurement.notes)
    for key, (what, least, most) in _RANGES.items():
        estimate: Estimate | None = getattr(profile, key)
        if estimate is None:
            continue
        if not least <= estimate.value <= most:
            notes.append(f"{what} left out: {estimate.value:g} is no value that a path can have")
            kept[key] = None
            continue
        # Not a number: not known.
        low, high = np.clip(np.nan_to_num(estimate.interval, nan=estimate.value), least, most)
        interval = float(min(low, estimate.value)), float(max(high, estimate.value))
        kept[key] = replace(estimate, interval=interval)
    if notes != profile.measurement.notes:
        profile = replace(profile, measurement=replace(profile.measurement, notes=notes))
    if kept.get("rate_bit_per_s", profile.rate_bit_per_s) is None:
        kept["queue_packets"] = None
    if "mean_loss" in kept and kept["mean_loss"] is None:
        profile = replace(profile, losses=None, fits=(), loss=None)
    return replace(profile, **kept)  # type: ignore[arg-type] # every key is that of an estimate


_RANGES = {
    "delay_s": ("base delay", 0.0, 1e9),
    "jitter_s": ("jitter", 0.0, 1e9),
    "rate_bit_per_s": ("rate", 1.0, 1e13),
    "queue_packets": ("queue", 1.0, 2.0**32 - 1),
    "mean_loss": ("loss", 0.0, 1.0),
}
"""What a link of a scenario takes."""


def _with_losses(profile: Profile, sequence: LossSequence | LossCounts) -> Profile:
    if isinstance(sequence, LossCounts):
        counted = CountedLosses(sequence.lost, sequence.packets)
        fits = counted.fits()
        share, interval = counted.mean_loss
        mean_loss = Estimate(share, interval, sequence.what)
        return replace(profile, mean_loss=mean_loss, losses=counted, fits=fits, loss=fits[0])
    if sequence.times_s is not None and sequence.spacing_s is None:
        return _with_timed_losses(profile, sequence, sequence.times_s)
    losses = Losses(sequence.lost)
    mean, interval = losses.mean_loss
    fits = losses.fits()
    chosen = best(fits)
    if losses.count < FEWEST_LOSSES_TO_CHOOSE:
        chosen = fits[0]
        interval = chosen.intervals["probability"]
    if not losses.count and sequence.spacing_s is not None:
        interval = _of_none(interval, sequence.spacing_s * len(losses.lost))
    mean_loss = Estimate(mean, interval, sequence.what)
    return replace(profile, mean_loss=mean_loss, losses=losses, fits=fits, loss=chosen)


def _with_timed_losses(profile: Profile, sequence: LossSequence, times_s: Vector) -> Profile:
    losses = TimedLosses(sequence.lost, times_s)
    fits = losses.timed_fits()
    chosen = min(fits, key=lambda fit: fit.bic)
    how = sequence.what
    if chosen.model != "bernoulli":
        how += "; mean over time by the model, interval by its likelihood"
    interval = losses.mean_interval(chosen)
    if not losses.count:
        # A longer gap, where packets were left out for example, may contain a bad state.
        gaps = np.diff(losses.times_s)
        interval = _of_none(interval, float(gaps[gaps <= BAD_STATE_S].sum()))
    mean_loss = Estimate(chosen.mean_loss, interval, how)
    notes = profile.measurement.notes
    seen = losses.count / len(losses.lost)
    if chosen.model != "bernoulli":
        notes = [
            *notes,
            f"{seen * 100:.2g} % of the packets were lost; the loss given is that over time, of "
            "packets at equal intervals: the sender sent less while the path was bad",
        ]
    measurement = replace(profile.measurement, notes=notes)
    return replace(
        profile, measurement=measurement, mean_loss=mean_loss, losses=losses, fits=fits, loss=chosen
    )


def _of_none(interval: Bounds, seconds: float) -> Bounds:
    """The interval of a mean loss if no loss was seen in this many seconds.

    Single losses would have been seen sooner than bad states. The upper end is that of a Poisson
    number of visits to a bad state which is 0 with a probability of 5 %.
    """
    low, high = interval
    visits = -float(np.log(1 - LEVEL))
    return low, max(high, min(visits * BAD_STATE_S / max(seconds, BAD_STATE_S), 1.0))


def _behind_the_queue(measurement: Measurement, rate: float, *, known: bool) -> Measurement:
    """The link's own losses, at the times when its queue sent the packets.

    Packets dropped by a queue that is part of the profile (`known`) are not losses of the link. The
    packets that found room in the full queue are left out, too: otherwise they would count as
    packets that the link cannot lose.
    """
    losses, delays = measurement.losses, measurement.delays
    if not isinstance(losses, LossSequence) or delays is None:
        return measurement
    full = np.zeros(len(losses.lost), dtype=bool)
    if known:
        full = _met_full_queue(losses, delays)
    dropped = losses.lost & full
    losses = _on_the_wire(losses, rate, dropped)
    if not dropped.any():
        return replace(measurement, losses=losses)
    note = (
        f"{dropped.sum()} of {losses.lost.sum()} losses came while the queue was full; they are "
        f"taken for the queue's, and the {full.sum()} packets sent meanwhile are left out of the "
        "loss model"
    )
    kept = ~full
    if kept.sum() < FEWEST_PACKETS:
        return replace(measurement, losses=None, notes=[*measurement.notes, note])
    losses = replace(
        losses,
        lost=losses.lost[kept],
        times_s=None if losses.times_s is None else losses.times_s[kept],
        octets=None if losses.octets is None else losses.octets[kept],
        spacing_s=None,
    )
    return replace(measurement, losses=losses, notes=[*measurement.notes, note])


def _met_full_queue(losses: LossSequence, delays: Delays) -> NDArray[np.bool_]:
    """Marks packets whose neighbours have delays near the longest: the queue was full."""
    if losses.times_s is None or delays.times_s is None:
        return np.zeros(len(losses.lost), dtype=bool)
    order = np.argsort(delays.times_s, kind="stable")
    seconds = delays.seconds[order]
    after = np.searchsorted(delays.times_s[order], losses.times_s)
    # The longer delay of both neighbours, as not every packet has a delay.
    around = np.maximum(
        seconds[np.maximum(after - 1, 0)], seconds[np.minimum(after, len(seconds) - 1)]
    )
    least, deep = float(delays.seconds.min()), float(np.quantile(delays.seconds, 0.99))
    return np.asarray(around >= least + 0.9 * (deep - least))


def _on_the_wire(losses: LossSequence, rate: float, dropped: NDArray[np.bool_]) -> LossSequence:
    """The losses with the times at which a first-in first-out link of this rate sends the packets.

    Packets that its queue has dropped take no time of the link.
    """
    if losses.times_s is None or losses.octets is None:
        return losses
    sending = np.cumsum(np.where(dropped, 0.0, losses.octets * 8 / rate))
    waits = losses.times_s - np.concatenate([[0.0], sending[:-1]])
    return replace(losses, times_s=np.maximum.accumulate(waits) + sending)


def _may_stand(
    delays: Delays,
    deliveries: Deliveries | None,
    rate: float,
    packet: float,
    scattered: scatter.Scatter | None,
) -> bool:
    """Whether a queue may have stood all the time, as in a part of a transfer that fills its link.

    Then each delivery follows the one before it after its own transmission. The link was idle where
    a delay that is near to the least one ends a break in the deliveries, or is one of the first of
    a capture with the traffic's beginning. A receiver also sees how long an answer takes to what it
    sends at the end. Jitter makes delays of an idle link longer, and breaks where there are none.
    """
    if deliveries is None or (delays.legs == 2 and deliveries.is_seen):
        return False
    jitter_s = scattered.jitter_s if scattered is not None else 0.0
    unit_s = packet * 8 / rate + delays.legs * jitter_s
    near = delays.seconds <= delays.seconds.min() + unit_s
    if delays.times_s is None or (delays.is_from_start and near[:_AT_FIRST].any()):
        return False
    idle_s = np.diff(deliveries.times_s) - deliveries.octets[1:] * 8 / rate
    breaks_s = deliveries.times_s[1:][idle_s >= 2 * unit_s]
    over_s = (delays.times_s + delays.seconds)[near]
    at = np.searchsorted(breaks_s, over_s - unit_s)
    is_over = at < len(breaks_s)
    return not bool((breaks_s[at[is_over]] <= over_s[is_over] + unit_s).any())


def _base_delay(delays: Delays, rate: float | None) -> Estimate:
    """The least delay, less the packet's own transmission where the rate is known."""
    seconds = delays.seconds
    how = "half of the least round-trip time" if delays.legs == 2 else "the least one-way delay"
    if delays.is_smoothed:
        least = float(seconds.min()) / delays.legs
        return Estimate(
            least, (0.0, least), f"{how} that TCP knew, which is no less than the path's"
        )
    if delays.is_bound:
        least = float(seconds.min()) / delays.legs
        how = f"{how}, of which the receiver's timers may be a part"
        return Estimate(least, (0.0, least), how)
    if rate is not None and delays.octets is not None:
        seconds = np.maximum(seconds - delays.octets * 8 / rate, 0.0)
        how += ", less a packet's transmission"
    value, (low, high) = minimum_interval(seconds, delays.legs)
    if rate is not None:
        value = high  # delays of a queue, however short, are no sample of the least one
    half = delays.resolution_s / 2
    bounds = (max(low - half, 0.0) / delays.legs, (high + half) / delays.legs)
    return Estimate(value / delays.legs, bounds, how)


def _jitter(delays: Delays, transmission_s: float) -> Estimate | None:
    """The jitter, from the median difference of neighbouring delays, which queues change little.

    The idea is that of RFC 3550's interarrival jitter; the factor turns it into the width of a
    uniform delay in each direction.
    """
    differences = np.abs(np.diff(delays.seconds))
    if len(differences) < 10 or delays.is_smoothed:
        return None
    factor = 1 / _MEDIAN_DIFFERENCE[delays.legs]
    median = float(np.median(differences))
    how = f"differences of neighbouring {delays.what}"
    # Packets in a queue differ by their transmission times, and clocks have steps.
    step_s = max(transmission_s, delays.resolution_s, _FINEST_S)
    if median <= step_s * 1.05:
        edge = step_s * factor
        return Estimate(0.0, (0.0, edge), f"{how}, which differ by no more than a packet's time")
    low, high = block_interval(differences, 0.5)
    half = delays.resolution_s / 2
    return Estimate(median * factor, (max(low - half, 0.0) * factor, (high + half) * factor), how)


def _jitter_by_interval(jitters: Jitters) -> Estimate:
    """The width of a uniform delay, whose values differ by a third of it in the mean."""
    widths = 3 * jitters.seconds
    return Estimate(float(np.median(widths)), _spread(widths), f"three times the {jitters.what}")


def _rate_by_interval(rates: Rates) -> Estimate:
    values = rates.bit_per_s
    if rates.is_mean:
        return Estimate(float(values.mean()), block_interval(values), rates.what)
    # An interval in which nothing was sent says nothing of the path.
    values = values[values > 0]
    return Estimate(float(np.median(values)), _spread(values), rates.what)


def _spread(values: Vector) -> Bounds:
    """The interval of a median; of few values, all of them."""
    if len(values) >= 4:
        low, high = block_interval(values, 0.5)
        return min(low, float(np.median(values))), max(high, float(np.median(values)))
    return float(values.min()), float(values.max())


def _rate(deliveries: Deliveries, delays: Delays | None) -> tuple[Estimate | None, bool]:
    """The rate of the windows in which the link was busy, and whether it is only a lower bound."""
    times = deliveries.times_s - deliveries.times_s[0]
    sums = np.cumsum(deliveries.octets)
    # At least two round trips: within one, a sender's window arrives as a burst.
    width = _WINDOW_S if delays is None else max(_WINDOW_S, 2 * float(np.median(delays.seconds)))
    if len(times) < 4 * _WINDOW_PACKETS or times[-1] < 4 * width:
        return None, False
    rates = []
    start = 0
    while start < len(times) - 1:
        end = max(int(np.searchsorted(times, times[start] + width)), start + _WINDOW_PACKETS)
        if end >= len(times):
            break
        if times[end] > times[start]:
            rates.append((sums[end] - sums[start]) * 8 / (times[end] - times[start]))
        start = end
    windows = np.array(rates)
    if len(windows) < 4:
        return None, False
    # The fastest window is not used: a burst of acknowledgements does not make a link faster.
    top = float(np.quantile(windows, 0.9, method="inverted_cdf"))
    busy = windows[np.abs(windows / top - 1) <= 0.1]
    value = float(np.median(busy))
    interval = (
        block_interval(busy, 0.5) if len(busy) >= 4 else (float(busy.min()), float(busy.max()))
    )
    packet = deliveries.packet_octets * 8 / value
    filled = delays is not None and delays.absolute and not delays.is_bound
    if filled and delays is not None:
        share, is_more = _standing(delays, packet, width)
        # A queue of others' packets does not make a flow's own pace the rate of the link.
        is_rate = is_more or not _come_faster(deliveries, value)
        filled = share >= 0.1 and is_rate and len(busy) >= max(5, 0.1 * len(windows))
    how = f"rate of {deliveries.what}, in {len(busy)} busy windows of {width * 1e3:.0f} ms"
    if not filled:
        how += _UNFILLED
    return Estimate(value, interval, how), not filled


def _standing(delays: Delays, packet_s: float, width: float) -> tuple[float, bool]:
    """The share of windows in which there was always a queue, so that the link was never idle.

    Also whether more was sent in these windows than in the others, if there are any.
    """
    if delays.times_s is None:
        return 0.0, False
    # By their numbers: a time that is far away makes no windows between.
    number = np.floor((delays.times_s - delays.times_s.min()) / width)
    _, window, count = np.unique(number, return_inverse=True, return_counts=True)
    least = np.full(len(count), np.inf)
    np.minimum.at(least, window, delays.seconds)
    stood = least >= delays.seconds.min() + 2 * packet_s
    if stood.mean() >= 0.9 or not stood.any():
        return float(stood.mean()), True
    return float(stood.mean()), bool(np.median(count[stood]) > 1.1 * np.median(count[~stood]))


def _come_faster(deliveries: Deliveries, rate: float) -> bool:
    """Whether packets arrived behind each other at much more than this rate.

    Then it is the pace of their sender, and not the rate of a link that sends one after another.
    """
    return deliveries.is_seen and _fastest(deliveries) > _MUCH_FASTER * rate


def _queue(
    delays: Delays, rate: Estimate, packet: float, scattered: scatter.Scatter | None
) -> Estimate | None:
    """The queue's length in packets, from the range of the delays, less what jitter adds to it."""
    least = float(delays.seconds.min())
    if scattered is not None:
        least += scattered.delay_s
    deep = float(np.quantile(delays.seconds, 0.99))
    low, high = block_interval(delays.seconds, 0.99)
    high = max(high, float(delays.seconds.max()))
    unit = packet * 8
    value = (deep - least) * rate.value / unit
    # The packet in service is not part of the queue, but its remaining time is seen: one packet
    # more or less at either end.
    bounds = (
        (low - least) * rate.interval[0] / unit - 1,
        (high - least) * rate.interval[1] / unit + 1,
    )
    if value < 1:
        return None
    return Estimate(
        max(round(value), 1), (max(bounds[0], 1.0), bounds[1]),
        "range of the delays; deeper if it never overflowed",
    )  # fmt: skip


def _among_others(rate: Estimate, deliveries: Deliveries) -> tuple[Estimate, bool, str]:
    """The rate where a flow had a queue all the time, but not the link for itself.

    Then it got a part of the link between others' packets, or the link's rate changes, and the link
    may be as fast as packets followed each other. Where that is much faster, what the flow got is
    only a lower bound. Also a sentence that says so.
    """
    fastest = max(_fastest(deliveries), rate.interval[1])
    said = "others' packets or a rate that changes are between the packets of this flow"
    how = f"{rate.how}; {said}"
    if fastest > _MUCH_FASTER * rate.value:
        note = f"{said}, so that the link's own rate was not seen: it is at least what the flow got"
        return replace(rate, how=how), True, note
    note = f"{said}: the rate is what the flow got, and the link may be faster"
    return Estimate(rate.value, (rate.interval[0], fastest), how), False, note


_MUCH_FASTER = 2.0
_FEWEST_FASTER = 5


def _fastest(deliveries: Deliveries) -> float:
    """How fast deliveries follow each other, in bit/s, but for the fastest fiftieth of them."""
    order = np.argsort(deliveries.times_s, kind="stable")
    times, first = np.unique(deliveries.times_s[order], return_index=True)
    octets = np.add.reduceat(deliveries.octets[order], first)
    rates = np.sort(octets[1:] * 8 / np.diff(times))
    left_out = max(_FEWEST_FASTER, len(rates) // 50)
    return float(rates[-left_out]) if len(rates) >= left_out else 0.0


_MOST_WINDOWS = 1 << 20
"""A trace of twelve days by the second; of a longer one, windows are longer."""


def _rate_of_trace(trace: Opportunities) -> tuple[Estimate, list[tuple[float, float]]]:
    seconds = trace.milliseconds / 1e3
    length = float(seconds[-1])
    mean = len(seconds) * OCTETS * 8 / length
    # By the second, or in four parts, but none shorter than a trace's unit of 1 ms.
    windows = min(max(int(length), min(4, round(length * 1e3))), _MOST_WINDOWS)
    counts = np.histogram(seconds, windows, (0.0, length))[0]
    low, high = block_interval(counts * OCTETS * 8 / (length / windows))
    gaps = np.diff(seconds, prepend=0.0)
    long = np.flatnonzero(gaps >= OUTAGE_S)
    outages = [(float(seconds[i] - gaps[i]), float(gaps[i])) for i in long]
    return Estimate(mean, (low, high), "mean over the trace, which says when"), outages
