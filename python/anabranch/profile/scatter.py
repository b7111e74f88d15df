"""The jitter of a link that is busy, from how its deliveries scatter around its rate.

While a link has a queue, its packets leave it one after another, whatever their sender does: each
delivery is due when the link has sent the bytes before it. How far deliveries lie from a straight
line of bytes over time is jitter, and no queue. A link that keeps their order delivers none before
the packet ahead of it, so that they scatter less than by its jitter: how much less is found with
simulated packets of the same length, rate and acknowledgements (a simulated moment: D. McFadden,
Econometrica 57(5), 1989).
"""

from typing import NamedTuple

import numpy as np

from .intervals import Bounds, Vector, block_interval
from .loss import Flags
from .measurement import Deliveries

_DELIVERIES = 64
"""In a window."""
_PARTS = 4
"""Of a window, each of which is looked at by itself, too."""
_FEWEST_WINDOWS = 4
_BUSY = 0.1
"""The rate of a window in which the link was busy is this near to the link's."""
_AT_ONCE = 0.1
"""Deliveries that follow each other within this part of a packet's transmission come at once."""
_SIMULATED = 128 * _DELIVERIES
"""Deliveries; fewer where each is of so many packets that there would be too many of these."""
_MOST_PACKETS = 16 * _SIMULATED
_MOST_EACH = 128
_STEPS = 20
"""Doublings and halvings of the range in which the jitter lies."""
_LEAST_S = 1e-9
"""What scatters less than this, in seconds, does not: times have no finer steps."""

_WALK = 2.0
"""What scatters as a random walk does, as a queue of others' packets or a rate that changes,
scatters this much more in a window than in a fourth of it.
"""


class Scatter(NamedTuple):
    """Jitter while a queue stood."""

    jitter_s: float
    """The width of a uniform delay in each direction; 0 up to a packet's transmission."""
    interval: Bounds
    delay_s: float
    """How much the jitter adds to a delay of as many legs, in the mean, above its least."""
    how: str


class Lines:
    """The deliveries of a link of one rate, beside simulated ones of such a link."""

    def __init__(self, deliveries: Deliveries, rate_bit_per_s: float) -> None:
        """Takes bytes as they arrived or were acknowledged, and the link's rate."""
        self._what = deliveries.what
        self._unit_s = deliveries.packet_octets * 8 / rate_bit_per_s
        legs = 1 if deliveries.is_seen else 2
        self._packets = _Packets(self._unit_s, _each(deliveries), legs)
        order = np.argsort(deliveries.times_s, kind="stable")
        is_guess = deliveries.is_guess
        if is_guess is None:
            is_guess = np.zeros(len(order), dtype=bool)
        sending_s = deliveries.octets * 8 / rate_bit_per_s
        seen = _Seen(deliveries.times_s[order], sending_s[order], is_guess[order])
        seen = seen.together(self._unit_s)
        self._whole = seen.around(_DELIVERIES)
        self._parts = seen.around(_DELIVERIES // _PARTS)
        self._has_windows = len(seen.times_s) >= _FEWEST_WINDOWS * _DELIVERIES
        self._jitter_s = 0.0
        if len(self._whole) >= _FEWEST_WINDOWS:
            self._jitter_s = self._packets.jitter_of(float(np.median(self._whole)))

    @property
    def are_broken(self) -> bool:
        """Whether there are windows enough, and in hardly any do deliveries follow the rate.

        Or they wander from it as far as others' packets or a rate that changes makes them.
        """
        return self._has_windows and (len(self._whole) < _FEWEST_WINDOWS or self._walk())

    def scatter(self, legs: int) -> Scatter | None:
        """The jitter, `legs` times of which a delay has; None where it cannot be told.

        A round trip has 2 legs.
        """
        if len(self._whole) < _FEWEST_WINDOWS or self._walk():
            return None
        interval = self._interval()
        how = f"how far {self._what} lies from a line while the link is busy"
        if self._jitter_s <= self._unit_s:
            return Scatter(
                0.0, (0.0, max(interval[1], self._unit_s)), 0.0, f"{how}: less than a packet"
            )
        late_s = self._packets.late_s(self._jitter_s, legs)
        return Scatter(self._jitter_s, interval, late_s, how)

    def _interval(self) -> Bounds:
        """From the windows and from their parts, which both have jitter as it is.

        What else there is, such as a link that was idle for a moment or a loss, scatters long
        windows more than short ones, so that where they differ neither is known to be right.
        """
        lows, highs = [self._jitter_s], [self._jitter_s]
        for around, length in (
            (self._whole, _DELIVERIES),
            (self._parts, _DELIVERIES // _PARTS),
        ):
            if not len(around):
                continue
            low, high = block_interval(around, 0.5)
            middle = float(np.median(around))
            found = (min(low, middle), middle, max(high, middle))
            least_s, value_s, most_s = (self._packets.jitter_of(one, length) for one in found)
            # What is simulated has an error, too, that of its own number of windows.
            wider = np.sqrt(1 + len(around) / self._packets.windows(length))
            lows.append(value_s - wider * (value_s - least_s))
            highs.append(value_s + wider * (most_s - value_s))
        return max(float(min(lows)), 0.0), float(max(highs))

    def _walk(self) -> bool:
        middle = float(np.median(self._whole))
        if middle <= _LEAST_S:
            return False
        if not len(self._parts):
            return True
        of_part = self._packets.scatter(self._jitter_s, _DELIVERIES // _PARTS)
        grows = self._packets.scatter(self._jitter_s) / of_part
        return bool(middle > np.median(self._parts) * np.sqrt(grows * _WALK))


def _each(deliveries: Deliveries) -> int:
    """How many packets an acknowledgement is for, as most are."""
    each = round(float(np.median(deliveries.octets)) / deliveries.packet_octets)
    return min(max(each, 1), _MOST_EACH)


class _Seen(NamedTuple):
    """Deliveries in the order of time."""

    times_s: Vector
    sending_s: Vector
    """How long the link sends each."""
    is_guess: Flags
    """Which have a length that nobody has told."""

    def together(self, unit_s: float) -> "_Seen":
        """What comes at one time, beside a packet's transmission, as one delivery."""
        is_last = np.append(np.diff(self.times_s) > _AT_ONCE * unit_s, True)
        sums = np.cumsum(self.sending_s)[is_last]
        guesses = np.cumsum(self.is_guess)[is_last]
        return _Seen(
            self.times_s[is_last], np.diff(sums, prepend=0.0), np.diff(guesses, prepend=0) > 0
        )

    def around(self, length: int) -> Vector:
        """For each window in which the link was busy, how far deliveries lie from their line."""
        count = len(self.times_s) // length
        due_s = np.cumsum(self.sending_s)[: count * length].reshape(count, length)
        times_s = self.times_s[: count * length].reshape(count, length)
        due_s = due_s - due_s.mean(axis=1, keepdims=True)
        times_s = times_s - times_s.mean(axis=1, keepdims=True)
        slopes = (due_s * times_s).sum(axis=1) / (due_s**2).sum(axis=1)
        around = (times_s - slopes[:, None] * due_s).std(axis=1)
        is_guess = self.is_guess[: count * length].reshape(count, length).any(axis=1)
        return np.asarray(around[(np.abs(slopes - 1) <= _BUSY) & ~is_guess])


class _Packets:
    """Packets that leave a link one after another, and what acknowledges them."""

    def __init__(self, unit_s: float, each: int, legs: int) -> None:
        """`each` packets have one acknowledgement; what is seen of one leg has none."""
        rng = np.random.default_rng(1)
        self._unit_s, self._each, self._legs = unit_s, each, legs
        count = min(_SIMULATED, _MOST_PACKETS // each)
        self._left_s = np.arange(count * each) * unit_s
        self._there = rng.random(count * each)
        self._back = rng.random(count)

    def _arrivals(self, jitter_s: float, legs: int) -> tuple[Vector, Vector]:
        """When deliveries are due without jitter, and when they come."""
        due_s = self._left_s[self._each - 1 :: self._each]
        there_s = np.maximum.accumulate(self._left_s + jitter_s * self._there)
        times_s = there_s[self._each - 1 :: self._each]
        if legs == 2:
            times_s = np.maximum.accumulate(times_s + jitter_s * self._back)
        return np.asarray(due_s), np.asarray(times_s)

    def late_s(self, jitter_s: float, legs: int) -> float:
        """By how much a delivery is later than the least one, in the mean."""
        due_s, times_s = self._arrivals(jitter_s, legs)
        return float((times_s - due_s).mean() - (times_s - due_s).min())

    def scatter(self, jitter_s: float, length: int = _DELIVERIES) -> float:
        """How far deliveries of this jitter lie from the line of a window of this length."""
        due_s, times_s = self._arrivals(jitter_s, self._legs)
        sending_s = np.diff(due_s, prepend=0.0)
        seen = _Seen(times_s, sending_s, np.zeros(len(due_s), dtype=bool)).together(self._unit_s)
        around = seen.around(length)
        return float(np.median(around)) if len(around) else np.inf

    def windows(self, length: int) -> int:
        """How many windows of this length are simulated."""
        return len(self._back) // length

    def jitter_of(self, scatter_s: float, length: int = _DELIVERIES) -> float:
        """The jitter with which deliveries scatter so much; a greater one scatters them more."""
        low, high = 0.0, self._unit_s
        for _ in range(_STEPS):
            if self.scatter(high, length) >= scatter_s:
                break
            low, high = high, 2 * high
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if self.scatter(middle, length) < scatter_s:
                low = middle
            else:
                high = middle
        return (low + high) / 2
