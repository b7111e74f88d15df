"""What a trace is: values of a link that change with time, for each direction."""

import math
from dataclasses import dataclass, field

import numpy as np

from anabranch.errors import AnabranchError

from ..intervals import Vector

MOST_STEPS = 100_000
"""The most values of a timetable: a link with four of them stays below the 16 MB of a scenario."""
LONGEST_S = 1e9
"""The longest trace: what a scenario takes as a time, in seconds."""
_LOSS_WINDOW_S = 1.0
_LOSS_WINDOW_PACKETS = 10
"""Losses are shares of at least this long, and of at least this many packets."""
_LATE = 1.2
"""A round of pings that is later than this many usual steps is late."""
_GAP, _SHORTEST_GAP_S = 5.0, 1.0
"""A gap is longer than this many usual steps, and than this, in seconds."""
_INSTANT_S = 1e-6
"""Times in a timetable are whole microseconds."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values, and the times from which they hold."""

    times_s: Vector
    """They increase from 0."""
    values: Vector

    def mean(self, length_s: float) -> float:
        """The mean over time, until the trace is over."""
        spans = np.diff(self.times_s, append=max(length_s, float(self.times_s[-1]) + _INSTANT_S))
        return float(np.sum(self.values * spans) / np.sum(spans))


@dataclass(slots=True)
class Direction:
    """One direction of a link; None where nothing is known."""

    rate: Series | None = None
    """bit/s of IP packets; 0 while nothing can be sent."""
    delay: Series | None = None
    """Seconds."""
    loss: Series | None = None
    """Shares of packets, 0 to 1."""
    opportunities_ms: Vector | None = None
    """A packet-delivery trace in the place of a rate: when 1500 bytes can be sent."""


@dataclass(slots=True)
class Trace:
    """What a log says about a path over time."""

    title: str
    """What was measured."""
    length_s: float
    """After this time a trace starts over."""
    there: Direction
    back: Direction | None = None
    """The other direction where it is different; what it does not know is as there, without
    losses."""
    notes: list[str] = field(default_factory=list)
    """How it was converted, in sentences."""
    began_s: float | None = None
    """When the first value was measured, in seconds since 1970."""
    spacing_s: float | None = None
    """The time between measurements, where it is regular."""
    mean_rtt_s: float | None = None
    """The mean of the round trips that were measured."""
    mean_loss: float | None = None
    """The share of what was sent that was lost, on either way."""
    file: str = ""
    """The name of the log."""
    kept: list[str] = field(default_factory=list)
    """The comments in the head of the log."""

    @property
    def mean_bit_per_s(self) -> float | None:
        """The mean rate there, over time."""
        if self.there.opportunities_ms is not None:
            return len(self.there.opportunities_ms) * 12_000 / self.length_s
        return None if self.there.rate is None else self.there.rate.mean(self.length_s)


def constant(value: float) -> Series:
    """A value that does not change."""
    return Series(np.zeros(1), np.array([value]))


def steps(
    times_s: Vector, values: Vector, weights: Vector | None = None, window_s: float | None = None
) -> Series:
    """The means of what was measured in each window, or at one moment.

    Windows without a measurement take the value before them. Times begin at 0.
    """
    width = _INSTANT_S if window_s is None else window_s
    # A time at a border belongs to the window that it begins, however it was rounded.
    numbers = np.floor(times_s / width + (0.5 if window_s is None else 1e-6)).astype(np.int64)
    kept, index = np.unique(numbers, return_inverse=True)
    weight = np.ones(len(values)) if weights is None else weights
    sums = np.bincount(index, weights=values * weight)
    counts = np.bincount(index, weights=weight)
    means = sums / np.where(counts > 0, counts, 1.0)
    known = counts > 0
    at, means = kept[known] * width, means[known]
    if not len(means):
        return constant(0.0)
    changes = np.append(True, np.diff(means) != 0)
    at, means = at[changes], means[changes]
    at[0] = 0.0
    return Series(at, means)


def without_gaps(
    times_s: Vector,
    values: Vector,
    length_s: float,
    weights: Vector | None = None,
    *,
    is_probed: bool = False,
) -> tuple[Vector, Vector, Vector]:
    """What was measured, its weights, and the mean of the log where nothing was.

    So the mean over time is that of the log: the value before a gap would else count for all of it.
    Rounds of pings (`is_probed`) take longer when some are lost: what is late counts no longer.
    """
    weights = np.ones(len(values)) if weights is None else weights
    usual = typical_step(times_s)
    if usual is None:
        return times_s, values, weights
    further = np.append(times_s[1:], length_s) - times_s
    longest = max(_LATE * usual, _SHORTEST_GAP_S) if is_probed else gap_after(usual)
    at = np.flatnonzero(further > longest)
    mean = float(np.average(values, weights=weights)) if weights.any() else 0.0
    return (
        np.insert(times_s, at + 1, times_s[at] + usual),
        np.insert(values, at + 1, mean),
        np.insert(weights, at + 1, np.median(weights)),
    )


def gap_after(spacing_s: float) -> float:
    """The least length of a gap, where this is the usual time between two values."""
    return max(_GAP * spacing_s, _SHORTEST_GAP_S)


def window_of(
    count: int, length_s: float, window_s: float | None, notes: list[str]
) -> float | None:
    """The window with which a timetable is not too long; None for a value for each measurement."""
    if window_s is not None:
        if length_s / window_s > MOST_STEPS:
            raise AnabranchError(
                f"windows of {window_s:g} s: {length_s:.6g} s of measurement have more than "
                f"{MOST_STEPS:,} of them, the most that a timetable has; give a longer window"
            )
        return window_s
    if count <= MOST_STEPS:
        return None
    wide = length_s / MOST_STEPS
    size = 10.0 ** math.floor(math.log10(wide))
    window = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= wide)
    said = f"a timetable has at most {MOST_STEPS:,} values: each is the mean over {window:g} s"
    if said not in notes:
        notes.append(said)
    return window


def loss_window(count: int, found: Trace, window_s: float | None) -> float:
    """The window over which losses of this many packets are shares."""
    window = window_s or max(_LOSS_WINDOW_S, _LOSS_WINDOW_PACKETS * (found.spacing_s or 1.0))
    window = max(window, window_of(count, found.length_s, None, []) or 0.0)
    window_of(count, found.length_s, window, found.notes)
    return window


def typical_step(times_s: Vector) -> float | None:
    """The median distance of times; None where there is none above 0."""
    further = np.diff(times_s)
    further = further[further > 0]
    return float(np.median(further)) if len(further) else None


def check_length(what: str, length_s: float) -> None:
    """Raises where a scenario could not have a timetable of this length."""
    if not 0 < length_s <= LONGEST_S:
        raise AnabranchError(f"{what}: {length_s:g} s long; allowed are up to {LONGEST_S:g} s")


def one_way(loss: Series) -> Series:
    """The losses of each way, both alike, that together are those of the round trip."""
    return Series(loss.times_s, 1 - np.sqrt(1 - np.minimum(loss.values, 1.0)))


def halves(round_trips: Series) -> Series:
    """The delay of each way, both alike."""
    return Series(round_trips.times_s, round_trips.values / 2)


def mean_of(values: Vector) -> float | None:
    """The mean; None of nothing."""
    return float(np.mean(values)) if len(values) else None
