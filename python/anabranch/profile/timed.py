"""Models of loss in time, fitted to packets that may have been sent at any times.

These are the four models of `loss.py` with a chain that changes its state in time, whether or not
there are packets: it leaves the good state at the rate `1 / mean_good` and the bad one at `1 /
mean_bad`, and a packet meets the state of its moment. Over a gap of d seconds the chain changes by
the exponential of its generator: with k the sum of both rates and B the share of time in the bad
state, it goes from good to bad with probability B (1 - exp(-k d)), and back with (1 - B) (1 -
exp(-k d)).

A sender such as TCP sends less once it has lost something, so it samples the bad state less often
than the good one: its share of lost packets is below that of a sender who continues at the same
rate. The likelihood has no such bias. It is a product over the packets of two kinds of factor: the
density of the time of sending given all earlier outcomes, and the probability of the outcome given
all earlier outcomes and the time. As long as the chain does not depend on the sender, its
parameters are only in the second kind, and the product of those is what the forward algorithm gives
for the times as they were (the sampling is ignorable: D. B. Rubin, Biometrika 63(3), 1976).

The mean is the mean over time: what packets at equal intervals would lose. Its interval is that of
the profile likelihood, which needs no normal distribution: with two visits to the bad state it is
wide.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize, special

from .intervals import LEVEL, Bounds, Vector
from .loss import (
    FEWEST_LOSSES,
    Flags,
    Losses,
    Stretches,
    information_widths,
    share_of_bad,
)

PARAMETERS = {
    "bernoulli": ("probability",),
    "simple_gilbert": ("mean_bad", "mean_good"),
    "gilbert": ("mean_bad", "mean_good", "loss_in_bad"),
    "gilbert_elliott": ("mean_bad", "mean_good", "loss_in_bad", "loss_in_good"),
}
"""Model -> its parameters; means are the states' mean lengths in s."""

_BLOCKS = (512, 64, 8)
"""Possible numbers of packets in a block of the likelihood, powers of two."""

_FEWEST_FOR_A_PART = 5
"""With fewer losses, a bad state that loses only a part of the packets is not tried."""

_NEAR = 8
"""Packets on either side of a loss that belong to no block."""

_EVEN = 4
"""Packets form a block only if none of its gaps exceeds the mean gap by more than this factor."""

_EDGE = 1e-9
"""How near a probability may come to 0 and 1 during the search."""

_SHORTEST_S, _LONGEST_S = 1e-5, 1e4
"""The bounds of the search for the mean length of the bad state."""

_SLOT_SHARE = 10
"""The length of the shorter state in slots; in a scenario the chain may change once in each slot.
"""


@dataclass(frozen=True, slots=True)
class TimedFit:
    """A model in time with its maximum-likelihood parameters."""

    model: str
    values: dict[str, float]
    intervals: dict[str, Bounds]
    """95 % intervals from the observed information."""
    mean_loss: float
    """The share of packets lost when packets are sent at equal intervals."""
    log_likelihood: float
    packets: int
    _coordinates: Vector = field(repr=False)

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2 * len(self.values) - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return len(self.values) * float(np.log(self.packets)) - 2 * self.log_likelihood

    def values_with(self, mean: float) -> dict[str, float]:
        """The parameters for another mean loss (above 0): more or fewer bad states, as long."""
        if self.model == "bernoulli":
            return {"probability": mean}
        share, losses = share_of_bad(self.values, mean / self.mean_loss, mean)
        bad = self.values["mean_bad"]
        return {"mean_bad": bad, "mean_good": bad * (1 - share) / share} | losses


def slot_of(values: dict[str, float]) -> float:
    """A round slot length in s that is short compared with both states of a chain in time."""
    shorter = min(values["mean_bad"], values["mean_good"])
    return float(f"{min(max(shorter / _SLOT_SHARE, 1e-5), 5e-3):.0e}")


def chain(values: dict[str, float], slot_s: float) -> dict[str, float]:
    """The chain in time sampled once in each slot: p, r and the states' losses."""
    bad, good = values["mean_bad"], values["mean_good"]
    changed = -np.expm1(-slot_s * (1 / bad + 1 / good))
    losses = {name: value for name, value in values.items() if name.startswith("loss_")}
    share = bad / (bad + good)
    return {"p": float(share * changed), "r": float((1 - share) * changed)} | losses


@dataclass(frozen=True, slots=True)
class AfterLoss:
    """Packets by the time since the last lost packet before them."""

    edges_s: Vector
    """The start of each class of times; the last class has no end."""
    packets: Vector
    lost: Vector
    expected: Vector
    """Sums of each packet's loss probability given all packets before it, which holds for any
    sender.
    """
    variance: Vector

    def p_value(self, parameters: int) -> float:
        """The p-value of this distance from the model, of which `parameters` were fitted."""
        enough = (self.expected >= 5) & (self.packets - self.expected >= 5)
        degrees = int(enough.sum()) - parameters
        if degrees < 1:
            return float("nan")
        distance = (self.lost - self.expected)[enough] ** 2 / self.variance[enough]
        return float(special.chdtrc(degrees, distance.sum()))


class TimedLosses(Losses):
    """Packets with their times, True where one was lost.

    Parameters
    ----------
    lost
        The outcomes in order of time.
    times_s
        When each packet met the lossy link.
    """

    def __init__(self, lost: Flags, times_s: Vector) -> None:
        super().__init__(lost)
        # Packets are in order, and the state may change between any two of them.
        order = np.arange(len(times_s)) * _SHORTEST_S
        self.times_s = np.maximum.accumulate(np.asarray(times_s, dtype=float) - order) + order
        self._factors = _Factors(self.lost, self.times_s)

    def timed_fits(self) -> list[TimedFit]:
        """The fitted models, the simplest first.

        Those with hidden states only if there are enough losses.
        """
        fits = [self._bernoulli_timed()]
        if self.count < 2 or self.count == len(self.lost) or self.times_s[-1] <= self.times_s[0]:
            return fits
        fits.append(self._fit_timed("simple_gilbert", None))
        if self.count >= _FEWEST_FOR_A_PART:
            # Without it, a bad state that some packets pass would look like several, and intervals
            # would be too narrow.
            fits.append(self._fit_timed("gilbert", fits[-1]))
        if self.count >= FEWEST_LOSSES:
            fits.append(self._fit_timed("gilbert_elliott", fits[-1]))
        return fits

    def mean_interval(self, fit: TimedFit) -> Bounds:
        """The interval of the mean loss over time under a model, by its profile likelihood."""
        if fit.model == "bernoulli":
            return fit.intervals["probability"]
        best, rest = fit._coordinates[0], fit._coordinates[1:]
        limit = special.chdtri(1, 1 - LEVEL) / 2

        def edge_of(sign: float) -> float:
            start = rest.copy()
            # The minimum that is found may depend on where the search begins: one for each.
            known = {0.0: -float(limit)}

            def excess(distance: float) -> float:
                nonlocal start
                if distance not in known:
                    at = best + sign * distance
                    least = _minimum(
                        lambda other: self._cost(fit.model, np.concatenate([[at], other])), start
                    )
                    start = least.x
                    known[distance] = float(least.fun + fit.log_likelihood - limit)
                return known[distance]

            near, far = 0.0, 0.1
            while excess(far) < 0:
                near, far = far, 2 * far
                if far > _FARTHEST:
                    return float(special.expit(best + sign * far))
            return float(special.expit(best + sign * optimize.brentq(excess, near, far, xtol=5e-3)))

        return edge_of(-1.0), edge_of(1.0)

    def after_loss(self, fit: TimedFit) -> AfterLoss:
        """How many packets are lost in each time after a loss, beside what a model expects."""
        at = np.flatnonzero(self.lost)
        last = np.searchsorted(at, np.arange(len(self.lost)), side="left") - 1
        known = last >= 0
        since = self.times_s[known] - self.times_s[at[last[known]]]
        edges = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 9)])
        which = np.clip(np.searchsorted(edges, since, side="right") - 1, 0, len(edges) - 1)
        chance = self._ahead(fit)[known]
        sums = [
            np.bincount(which, weights, minlength=len(edges)).astype(float)
            for weights in (np.ones(len(which)), self.lost[known], chance, chance * (1 - chance))
        ]
        return AfterLoss(edges, *sums)

    def _ahead(self, fit: TimedFit) -> Vector:
        """The probability of each packet's loss given all packets before it."""
        bad_share, total, good, bad = _chain(fit.model, fit._coordinates)
        changed = (-np.expm1(-total * np.diff(self.times_s, prepend=self.times_s[0]))).tolist()
        counts = []
        weight = bad_share
        for lost, change in zip(self.lost.tolist(), changed, strict=True):
            weight += (bad_share - weight) * change
            chance = weight * bad + (1 - weight) * good
            counts.append(chance)
            seen = bad / max(chance, _EDGE) if lost else (1 - bad) / max(1 - chance, _EDGE)
            weight = min(weight * seen, 1.0)
        return np.array(counts)

    def _cost(self, model: str, coordinates: Vector) -> float:
        return -self._factors.log_likelihood(*_chain(model, coordinates))

    def _bernoulli_timed(self) -> TimedFit:
        plain = self.fit("bernoulli")
        share = self.count / len(self.lost)
        at = np.array([special.logit(min(max(share, _EDGE), 1 - _EDGE))])
        return TimedFit(
            plain.model, plain.values, plain.intervals, share, plain.log_likelihood,
            len(self.lost), at,
        )  # fmt: skip

    def _fit_timed(self, model: str, simpler: TimedFit | None) -> TimedFit:
        share = min(max(self.count / len(self.lost), _EDGE), 1 - _EDGE)
        if model == "simple_gilbert":
            starts = [[special.logit(share), np.log(length)] for length in self._lengths()]
        else:
            assert simpler is not None
            # A further loss parameter starts near where the simpler model has it, and far from
            # there.
            known = simpler._coordinates.tolist()
            extras = (2.0, 0.0) if model == "gilbert" else (-4.0, 0.0)
            starts = [[*known, extra] for extra in extras]

        def cost(coordinates: Vector) -> float:
            return self._cost(model, coordinates)

        tries = [_minimum(cost, np.array(start)) for start in starts]
        best = min(tries, key=lambda logs: float(logs.fun))
        at = np.asarray(best.x, dtype=float)
        natural, values = _natural(model, at)
        intervals = _intervals(model, natural, lambda x: -self._of_natural(x))
        return TimedFit(
            model, values, intervals, float(special.expit(at[0])), -float(cost(at)),
            len(self.lost), at,
        )  # fmt: skip

    def _of_natural(self, natural: Vector) -> float:
        bad, good = np.exp(natural[:2])
        loss = special.expit(natural[2:])
        return self._factors.log_likelihood(
            bad / (bad + good),
            1 / bad + 1 / good,
            float(loss[1]) if len(loss) > 1 else 0.0,
            float(loss[0]) if len(loss) > 0 else 1.0,
        )

    def _lengths(self) -> list[float]:
        """Starting values for the bad state's mean length: that of runs of losses, and longer."""
        edges = np.flatnonzero(np.diff(self.lost)) + 1
        bounds = np.concatenate([[0], edges, [len(self.lost)]])
        runs = [
            float(self.times_s[end - 1] - self.times_s[start])
            for start, end in itertools.pairwise(bounds)
            if self.lost[start]
        ]
        length = min(max(float(np.mean(runs)), 1e-3), 100.0)
        return [length, 10 * length]


_FARTHEST = 20.0
"""A limit on the scale of logits: beyond it, the data say nothing."""


class _Factors:
    """The factors of a chain's likelihood: packets, and blocks of packets that all arrived.

    Far from a loss, a block that is nearly evenly spaced is treated as evenly spaced, so that its
    factor is a power. The error only concerns what a state does unseen between two packets of the
    block.
    """

    def __init__(self, lost: Flags, times_s: Vector) -> None:
        gaps = np.diff(times_s, append=times_s[-1:])
        totals = np.concatenate([[0.0], np.cumsum(gaps)])
        edges = np.flatnonzero(np.diff(lost)) + 1
        begins: list[int] = []
        for begin, end in zip([0, *edges], [*edges, len(lost)], strict=True):
            at = int(begin)
            while at < end:
                far = not lost[at] and at >= begin + _NEAR
                for size in _BLOCKS if far else ():
                    if at + size > end - _NEAR:
                        continue
                    if gaps[at : at + size].max() * size <= _EVEN * (
                        totals[at + size] - totals[at]
                    ):
                        break
                else:
                    size = 1
                begins.append(at)
                at += size
        first = np.array(begins)
        sizes = np.diff(first, append=len(lost))
        self._spacing = (totals[first + sizes] - totals[first]) / sizes
        self.count = len(first)
        self._stretches = Stretches(sizes, lost[first])

    def log_likelihood(self, bad_share: float, total: float, good: float, bad: float) -> float:
        changes = -np.expm1(-self._spacing * total)
        return self._stretches.log_likelihood(changes, bad_share, good, bad)


def _chain(model: str, coordinates: Vector) -> tuple[float, float, float, float]:
    """The share of the bad state, the sum of both rates in 1/s, and the losses in both states.

    The coordinates are the logit of the mean, the logarithm of the bad state's mean length, the
    logit of the position of the bad state's loss between the mean and 1, and the logit of the good
    state's loss as a share of the mean. Any values give a possible chain.
    """
    mean = float(np.clip(special.expit(coordinates[0]), _EDGE, 1 - _EDGE))
    if model == "bernoulli":
        return 0.5, 1.0, mean, mean
    length = float(np.exp(np.clip(coordinates[1], np.log(_SHORTEST_S), np.log(_LONGEST_S))))
    bad, good = 1.0, 0.0
    if len(coordinates) > 2:
        bad = mean + (1 - mean) * float(special.expit(coordinates[2]))
    if len(coordinates) > 3:
        good = mean * float(special.expit(coordinates[3]))
    share = float(np.clip((mean - good) / max(bad - good, _EDGE), _EDGE, 1 - _EDGE))
    # The rates of both states have the ratio of their shares of time.
    return share, 1 / length / (1 - share), good, bad


def _natural(model: str, coordinates: Vector) -> tuple[Vector, dict[str, float]]:
    """The parameters on unbounded scales, and as they are."""
    share, total, good, bad = _chain(model, coordinates)
    lengths = [1 / (total * (1 - share)), 1 / (total * share)]
    losses = [bad, good][: len(coordinates) - 2]
    values = dict(zip(PARAMETERS[model], [*lengths, *losses], strict=True))
    clipped = np.clip(losses, _EDGE, 1 - _EDGE)
    return np.concatenate([np.log(lengths), special.logit(clipped)]), values


def _intervals(model: str, at: Vector, cost: Callable[[Vector], float]) -> dict[str, Bounds]:
    widths = information_widths(cost, at)
    intervals = {}
    for name, value, width in zip(PARAMETERS[model], at, widths, strict=True):
        back: Any = np.exp if name.startswith("mean_") else special.expit
        with np.errstate(over="ignore"):
            intervals[name] = (float(back(value - width)), float(back(value + width)))
    return intervals


def _minimum(cost: Callable[[Vector], float], start: Vector) -> Any:
    # BFGS rather than L-BFGS-B, for which LAPACK would start threads for four numbers.
    return optimize.minimize(cost, start, method="BFGS", options={"gtol": 1e-3})
