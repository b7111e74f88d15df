"""Traces of what the readers of logs have measured: pings, irtt, iperf3, flent, Mahimahi."""

from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError

from ..intervals import Vector
from ..measurement import Delays, LossCounts, LossSequence, Measurement, Rates
from .options import Options
from .series import (
    Direction,
    Series,
    Trace,
    check_length,
    constant,
    halves,
    loss_window,
    mean_of,
    one_way,
    steps,
    typical_step,
    window_of,
    without_gaps,
)
from .times import note_gaps

_LONGEST_MS = 1e9
"""The longest packet-delivery trace that a scenario takes."""
_LATE_S = 0.05
"""By how much the stamp of a later packet may be the earlier one, as programs are late."""
_SAME = 1e-3
"""What two times between packets may differ by that are meant to be the same."""

_PROFILE = "`anabranch profile` estimates a path that does not change from it"


def trace(file: Path, measured: Measurement, options: Options) -> Trace:
    """The trace of a measurement; of a packet-delivery trace that itself."""
    if measured.opportunities is not None:
        return _of_opportunities(file, measured, options)
    notes = list(measured.notes)
    has_rates = measured.rates is not None and options.takes("rate")
    found = (
        _of_transfer(file, measured, options, notes)
        if has_rates
        else _of_packets(file, measured, options, notes)
    )
    check_length(str(file), found.length_s)
    found.began_s = measured.began_s
    return found


def _of_opportunities(file: Path, measured: Measurement, options: Options) -> Trace:
    assert measured.opportunities is not None
    if not options.takes("rate"):
        raise _missing(file, options)
    times = measured.opportunities.milliseconds
    if times[-1] > _LONGEST_MS:
        raise AnabranchError(
            f"{file}: the trace ends at {times[-1]:.0f} ms; allowed is up to {_LONGEST_MS:.0f} ms"
        )
    return Trace(
        measured.title,
        float(times[-1]) / 1e3,
        Direction(opportunities_ms=times),
        notes=["the packet-delivery trace is taken over as it is"],
    )


def _of_transfer(file: Path, measured: Measurement, options: Options, notes: list[str]) -> Trace:
    """A log of data that filled the path: its rates, and the delay of the path without a queue."""
    rates = measured.rates
    assert rates is not None
    times = _begins(file, rates, options)
    spacing = options.interval_s or typical_step(times) or 1.0
    length = float(times[-1]) + spacing
    check_length(str(file), length)
    there = Direction()
    window = window_of(len(times), length, options.window_s, notes)
    there.rate = steps(times, rates.bit_per_s, window_s=window)
    notes.append(f"rates are {rates.what}")
    back = None
    if measured.back is not None and measured.back.rates is not None:
        ways = measured.back.rates
        back_times = _begins(file, ways, options)
        window = window_of(len(back_times), length, options.window_s, notes)
        back = Direction(rate=steps(back_times, ways.bit_per_s, window_s=window))
        length = max(length, float(back_times[-1]) + spacing)
    delays = measured.delays
    if delays is not None and delays.absolute and options.takes("delay"):
        least = float(delays.seconds.min()) / delays.legs
        there.delay = constant(least)
        notes.append(
            "delays were measured beside the data, with its queue in them: the link's delay is the "
            f"least of them{', halved' if delays.legs == 2 else ''}"
        )
    if measured.losses is not None:
        if "loss" in options.take:
            there.loss = _counted(measured.losses, notes)
            if back is not None and measured.losses.round_trip:
                back.loss = there.loss
        else:
            notes.append(
                "losses are left out, since a full queue of the path may have made them; "
                "`--take rate delay loss` has them"
            )
    return Trace(measured.title, length, there, back, notes, spacing_s=spacing)


def _begins(file: Path, rates: Rates, options: Options) -> Vector:
    """When each rate began to hold, in seconds from the first."""
    if options.interval_s is not None or len(rates.bit_per_s) == 1:
        return np.arange(len(rates.bit_per_s), dtype=np.float64) * (options.interval_s or 1.0)
    if rates.times_s is None:
        raise AnabranchError(
            f"{file}: the log does not say when its rates were; give the time between them with "
            f"--interval, or: {_PROFILE}"
        )
    times: Vector = rates.times_s - rates.times_s[0]
    if (np.diff(times) < 0).any():
        raise AnabranchError(f"{file}: the times of the intervals go back")
    return times


def _counted(losses: LossSequence | LossCounts, notes: list[str]) -> Series | None:
    """The losses of intervals, where which packets were lost is not known."""
    if losses.is_estimate:
        notes.append(f"{losses.what} are no losses of the path for sure, and are left out")
        return None
    if isinstance(losses, LossCounts):
        share = losses.lost / np.maximum(losses.packets, 1.0)
        if losses.times_s is not None:
            found = steps(losses.times_s - losses.times_s[0], share)
        else:
            found = constant(losses.count / max(losses.sent, 1))
    else:
        found = constant(float(losses.lost.mean()))
    return (one_way(found) if losses.round_trip else found) if found.values.any() else None


def _of_packets(file: Path, measured: Measurement, options: Options, notes: list[str]) -> Trace:
    """Pings and other packets that were sent one by one: their delays and losses."""
    delays, losses = measured.delays, measured.losses
    behind = measured.back or Measurement("")
    if delays is not None and (not delays.absolute or delays.is_smoothed or delays.is_bound):
        delays = None
    if losses is not None and losses.is_estimate:
        losses = None
    wanted = [
        what
        for what, there in (("delay", delays), ("loss", losses))
        if there is not None and options.takes(what)
    ]
    if not wanted or set(options.take) - set(wanted):
        raise _missing(file, options)
    count = max(0 if losses is None else losses.sent, 0 if delays is None else len(delays.seconds))
    stamps = None if options.interval_s is not None else measured.sent_s
    times = _sent(file, stamps, losses, options, count)
    spacing = typical_step(times) or float(times[-1]) or 1.0
    length = float(times[-1]) + spacing
    check_length(str(file), length)
    note_gaps(times, spacing, notes)
    found = Trace(measured.title, length, Direction(), None, notes, spacing_s=spacing)
    if measured.back is not None:
        found.back = Direction()
    if delays is not None and "delay" in wanted:
        at = _answered(times, len(delays.seconds), losses, behind.losses)
        _take_delays(found, delays, behind.delays, at, options)
    if losses is not None and "loss" in wanted:
        _take_losses(found, losses, behind.losses, times, options)
    if isinstance(losses, LossSequence):
        lost = int(losses.lost.sum())
        lost += 0 if behind.losses is None else int(np.sum(behind.losses.lost))
        found.mean_loss = lost / max(len(losses.lost), 1)
    elif losses is not None:
        on_way_back = behind.losses.count if isinstance(behind.losses, LossCounts) else 0
        found.mean_loss = (losses.count + on_way_back) / max(losses.sent, 1)
    if found.back == Direction() and found.there.loss is None:
        found.back = None
    return found


def _sent(
    file: Path,
    stamps: Vector | None,
    losses: LossSequence | LossCounts | None,
    options: Options,
    count: int,
) -> Vector:
    """When the packets were sent, from the first one on; evenly, unless stamps say otherwise."""
    spacing = options.interval_s or (None if losses is None else losses.spacing_s)
    if stamps is not None and len(stamps) == count > 1:
        steps_s = np.diff(stamps)
        if (steps_s < -_LATE_S).any():
            at = int(np.argmin(steps_s))
            raise AnabranchError(
                f"{file}: the time goes back by {-steps_s[at]:.6g} s behind packet {at + 1}; cut "
                "the file where the clock was set"
            )
        spacing = typical_step(stamps) or spacing
    if spacing is None and isinstance(losses, LossCounts) and losses.times_s is not None:
        length = float(losses.times_s[-1] - losses.times_s[0])
        spacing = (length + (typical_step(losses.times_s) or 1.0)) / max(count, 1)
    if spacing is None:
        raise AnabranchError(
            f"{file}: the log does not say when its packets were sent; give the time between them "
            f"with --interval, or: {_PROFILE}"
        )
    # Stamps of a program that pauses for 100 ms are 100.02 ms apart.
    usual = float(f"{spacing:.2g}")
    spacing = usual if abs(usual / spacing - 1) < _SAME else spacing
    even = np.arange(count, dtype=np.float64) * spacing
    if stamps is None or len(stamps) != count:
        return even
    times = stamps - stamps[0]
    return even if (np.abs(times - even) < spacing / 2).all() else np.maximum.accumulate(times)


def _take_delays(
    found: Trace, delays: Delays, ways_back: Delays | None, at: Vector, options: Options
) -> None:
    window = window_of(len(at), found.length_s, options.window_s, found.notes)
    series = steps(*without_gaps(at, delays.seconds, found.length_s), window)
    if ways_back is not None and len(ways_back.seconds) == len(delays.seconds):
        found.there.delay = series
        found.back = found.back or Direction()
        found.back.delay = steps(at, ways_back.seconds, window_s=window)
        found.mean_rtt_s = mean_of(delays.seconds + ways_back.seconds)
        return
    if delays.legs == 2:
        found.there.delay = halves(series)
        found.mean_rtt_s = mean_of(delays.seconds)
        found.notes.append("each way has half of the round trip")
    else:
        found.there.delay = series
        found.mean_rtt_s = 2 * float(np.mean(delays.seconds))
        found.notes.append("the way back was not measured: it has the delays of the way there")


def _take_losses(
    found: Trace,
    losses: LossSequence | LossCounts,
    ways_back: LossSequence | LossCounts | None,
    times: Vector,
    options: Options,
) -> None:
    window = loss_window(len(times), found, options.window_s)

    def shares(part: LossSequence | LossCounts, at: Vector) -> Series | None:
        if not np.any(part.lost):
            return None
        if isinstance(part, LossCounts):
            return _counted(part, found.notes)
        return steps(at, part.lost.astype(float), window_s=window)

    series = shares(losses, times)
    if losses.round_trip:
        if series is not None:
            is_whole = isinstance(losses, LossSequence)
            found.there.loss = one_way(series) if is_whole else series
            if found.back is not None:
                found.back.loss = found.there.loss
            found.notes.append(
                f"losses are shares over {window:g} s; each way has those that together make the "
                "loss of the round trip"
            )
        return
    found.there.loss = series
    found.back = found.back or Direction()
    if ways_back is not None:
        at = times[~losses.lost] if isinstance(losses, LossSequence) else times
        found.back.loss = shares(ways_back, at[: ways_back.sent])
    elif series is not None:
        found.notes.append("the way back was not measured: it loses nothing")
    if series is not None or found.back.loss is not None:
        found.notes.append(f"losses are shares over {window:g} s, of each way by itself")


def _answered(
    times: Vector,
    count: int,
    losses: LossSequence | LossCounts | None,
    ways_back: LossSequence | LossCounts | None,
) -> Vector:
    """When those packets were sent that have a delay: where that is not known, evenly."""
    if isinstance(losses, LossSequence):
        answered = ~losses.lost
        if isinstance(ways_back, LossSequence) and len(ways_back.lost) == int(answered.sum()):
            kept = np.flatnonzero(answered)[~ways_back.lost]
            answered = np.zeros(len(answered), dtype=bool)
            answered[kept] = True
        if int(answered.sum()) == count:
            return times[answered]
    return times[(np.arange(count) * len(times)) // max(count, 1)]


def _missing(file: Path, options: Options) -> AnabranchError:
    wanted = " and ".join(options.take) or "rates, delays or losses"
    return AnabranchError(f"{file}: the log has no {wanted} over time; {_PROFILE}")
