"""Models of loss, fitted to a sequence of packets of which some were lost.

Four nested models, by the names that netem's `gemodel` gives them (tc-netem(8); E. N. Gilbert, Bell
System Technical Journal 39, 1960; E. O. Elliott, ibid. 42, 1963):

- `bernoulli`: every packet with the same probability;
- `simple_gilbert`: p and r, a bad state in which every packet is lost;
- `gilbert`: p, r and the loss in the bad state;
- `gilbert_elliott`: these and the loss in the good state.

The parameters are those of a link's `loss` in a scenario. The first two have maximum-likelihood
estimates in closed form; the states of the others are hidden, and their likelihood comes from the
forward algorithm (L. R. Rabiner, Proceedings of the IEEE 77(2), 1989), here as a product of
matrices, one a run of equal outcomes, multiplied pairwise: some ms for a million packets.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from .intervals import LEVEL, Bounds, Vector, block_interval

Flags = NDArray[np.bool_]

PARAMETERS = {
    "bernoulli": ("probability",),
    "simple_gilbert": ("p", "r"),
    "gilbert": ("p", "r", "loss_in_bad"),
    "gilbert_elliott": ("p", "r", "loss_in_bad", "loss_in_good"),
}
"""Model -> its parameters, in the scenario's words."""

FEWEST_LOSSES = 30
"""Below this a hidden state cannot be told from chance, and its models are not fitted."""

_EDGE = 1e-9
"""How near a probability may come to 0 and 1 while it is searched."""


@dataclass(frozen=True, slots=True)
class Goodness:
    """Observed lengths of runs beside those that a model gives."""

    statistic: float
    """G, over the lengths of loss bursts; NaN where there are too few."""
    p_value: float
    degrees: int
    gap_distance: float
    """Kolmogorov and Smirnov's distance between the lengths of gaps and the model's."""
    gap_p_value: float
    """Conservative, since lengths are whole numbers."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A model with the parameters that the packets make most likely."""

    model: str
    values: dict[str, float]
    intervals: dict[str, Bounds]
    """At 95 %: Wilson's where the states are seen, elsewhere from the observed information."""
    moments: dict[str, float]
    """The same parameters by the method of moments; NaN where the moments have no solution."""
    log_likelihood: float
    packets: int
    goodness: Goodness

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2 * len(self.values) - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return len(self.values) * float(np.log(self.packets)) - 2 * self.log_likelihood

    @property
    def mean_loss(self) -> float:
        """Share of packets that the model loses."""
        return float(_stationary(self.states) @ self.states[2:])

    @property
    def states(self) -> Vector:
        """(p, r, loss in the good state, loss in the bad state); `bernoulli` has equal ones."""
        return _states(self.model, np.array(list(self.values.values())))

    def values_with(self, mean: float) -> dict[str, float]:
        """The parameters with another mean loss (above 0): more or fewer bad states, as long."""
        if self.model == "bernoulli":
            return {"probability": mean}
        share, losses = share_of_bad(self.values, mean / self.mean_loss, mean)
        r = self.values["r"]
        return {"p": min(r * share / (1 - share), 1.0), "r": r} | losses

    def survival(self, lengths: Vector, lost: bool = True) -> Vector:  # noqa: FBT001, FBT002
        """Probability that a run of losses (or of none) is at least so long, from length 1."""
        own, other = _step(self.states, lost), _step(self.states, not lost)
        # A run begins with the packet after one of the other kind.
        start = _stationary(self.states) @ other
        reached = _powers(own, np.asarray(lengths, dtype=np.int64))
        first = start @ own @ np.ones(2)
        scaled = np.einsum("i,kij->k", start, reached[0]) * np.exp(reached[1])
        return np.asarray(scaled / first if first > 0 else np.zeros(len(lengths)), dtype=np.float64)


class Losses:
    """A sequence of packets, True where one was lost.

    Parameters
    ----------
    lost
        In the order in which the packets were sent.
    """

    def __init__(self, lost: Flags) -> None:
        self.lost = np.asarray(lost, dtype=bool)
        edges = np.flatnonzero(np.diff(self.lost)) + 1
        starts = np.concatenate([[0], edges])
        self.lengths = np.diff(np.concatenate([starts, [len(self.lost)]]))
        self.kinds = self.lost[starts] if len(self.lost) else np.zeros(0, dtype=bool)

    @property
    def count(self) -> int:
        """Packets that were lost."""
        return int(self.lost.sum())

    @property
    def bursts(self) -> NDArray[np.int64]:
        """Lengths of runs of lost packets; those at either end are cut off and left out."""
        return self._whole_runs(lost=True)

    @property
    def gaps(self) -> NDArray[np.int64]:
        """The same of packets that arrived."""
        return self._whole_runs(lost=False)

    def _whole_runs(self, *, lost: bool) -> NDArray[np.int64]:
        inner = slice(1, -1)
        return np.asarray(self.lengths[inner][self.kinds[inner] == lost], dtype=np.int64)

    @cached_property
    def mean_loss(self) -> tuple[float, Bounds]:
        """Share of lost packets, and its interval by moving blocks: bursts make it wider."""
        return float(self.lost.mean()), block_interval(self.lost.astype(float))

    def autocovariance(self, lags: int) -> Vector:
        """At lags 0 to `lags`."""
        x = self.lost - self.lost.mean()
        n = len(x)
        # einsum, as BLAS would start threads for so little.
        return np.array([np.einsum("i,i", x[: n - lag], x[lag:]) / n for lag in range(lags + 1)])

    def independence(self, lags: int = 20) -> tuple[float, float]:
        """Statistic and p-value of Ljung and Box: how likely such correlation is without bursts."""
        n = len(self.lost)
        lags = min(lags, n // 4)
        covariance = self.autocovariance(lags)
        if lags < 1 or covariance[0] <= 0:
            return float("nan"), float("nan")
        rho = covariance[1:] / covariance[0]
        statistic = float(n * (n + 2) * np.sum(rho**2 / (n - np.arange(1, lags + 1))))
        return statistic, float(stats.chi2.sf(statistic, lags))

    def fits(self) -> list[Fit]:
        """The models, fitted; those with hidden states only where there are losses enough."""
        models = ["bernoulli"]
        if len(self.bursts) >= 2 and len(self.gaps) >= 2:
            models.append("simple_gilbert")
            if self.count >= FEWEST_LOSSES:
                models += ["gilbert", "gilbert_elliott"]
        return [self.fit(model) for model in models]

    def fit(self, model: str) -> Fit:
        """One model, fitted."""
        if model == "bernoulli":
            return self._bernoulli()
        return self._simple_gilbert() if model == "simple_gilbert" else self._hidden(model)

    def _bernoulli(self) -> Fit:
        n, lost = len(self.lost), self.count
        value = {"probability": lost / n}
        interval = {"probability": _wilson(lost, n)}
        likelihood = float(special.xlogy(lost, lost / n) + special.xlog1py(n - lost, -lost / n))
        return self._fit("bernoulli", value, interval, value, likelihood)

    def _simple_gilbert(self) -> Fit:
        before, after = self.lost[:-1], self.lost[1:]
        worse, good = int((~before & after).sum()), int((~before).sum())
        better, bad = int((before & ~after).sum()), int(before.sum())
        value = {"p": worse / good, "r": better / bad}
        interval = {"p": _wilson(worse, good), "r": _wilson(better, bad)}
        first = self.count / len(self.lost)
        likelihood = float(
            np.log(first if self.lost[0] else 1 - first)
            + special.xlogy(worse, value["p"])
            + special.xlog1py(good - worse, -value["p"])
            + special.xlogy(better, value["r"])
            + special.xlog1py(bad - better, -value["r"])
        )
        r = 1 / float(self.bursts.mean())
        moments = {"p": r * first / (1 - first), "r": r}
        return self._fit("simple_gilbert", value, interval, moments, likelihood)

    def _hidden(self, model: str) -> Fit:
        names = PARAMETERS[model]
        moments = self._moments(model)
        counted = self._simple_gilbert().values
        runs = _Runs(self)

        def cost(logits: Vector) -> float:
            values = np.clip(special.expit(logits), _EDGE, 1 - _EDGE)
            return -runs.log_likelihood(_states(model, values))

        # From the moments, where they have a solution, and from longer bad states that lose a part.
        loss = self.count / len(self.lost)
        starts = [
            [moments[name] for name in names],
            [counted["p"] / 2, counted["r"] / 2, 0.7, loss / 10][: len(names)],
        ]
        tries = [
            # BFGS, not L-BFGS-B: LAPACK would start threads for four numbers.
            optimize.minimize(cost, special.logit(np.clip(start, 1e-4, 1 - 1e-4)), method="BFGS")
            for start in starts
            if np.all(np.isfinite(start))
        ]
        best = min(tries, key=lambda result: float(result.fun))
        values = special.expit(best.x)
        if model == "gilbert_elliott" and values[2] < values[3]:
            # The same chain with its states' names exchanged.
            best.x = best.x[[1, 0, 3, 2]]
            values = values[[1, 0, 3, 2]]
        intervals = _information_intervals(cost, best.x)
        return self._fit(
            model,
            dict(zip(names, map(float, values), strict=True)),
            dict(zip(names, intervals, strict=True)),
            moments,
            -float(best.fun),
        )

    def _moments(self, model: str) -> dict[str, float]:
        """Parameters from the mean, the autocovariance at two lags and the third joint moment.

        The covariance of a two-state chain falls by 1 - p - r a step. With pi the share of the bad
        state and D the difference of the states' losses, its value at lag 0 without the noise of
        single packets is C = pi (1 - pi) D^2, and the third joint moment of neighbours is
        D (1 - 2 pi) C (1 - p - r)^2.
        """
        missing = dict.fromkeys(PARAMETERS[model], float("nan"))
        mean = self.count / len(self.lost)
        _, one, two = self.autocovariance(2)
        decay = two / one if one > 0 else float("nan")
        if not 0 < decay < 1:
            return missing
        spread = one / decay
        if model == "gilbert":
            bad = 1 / (1 + spread / mean**2)
            good_loss, bad_loss = 0.0, mean / bad
        else:
            x = self.lost - mean
            skew = float(np.mean(x[:-2] * x[1:-1] * x[2:])) / (decay**2 * spread)
            difference = float(np.sqrt(skew**2 + 4 * spread))
            bad = (1 - skew / difference) / 2
            good_loss, bad_loss = mean - bad * difference, mean + (1 - bad) * difference
        values = (bad * (1 - decay), (1 - bad) * (1 - decay), bad_loss, good_loss)
        if not all(0 <= value <= 1 for value in values):
            return missing
        return dict(zip(PARAMETERS[model], map(float, values), strict=False))

    def _fit(
        self,
        model: str,
        values: dict[str, float],
        intervals: dict[str, Bounds],
        moments: dict[str, float],
        likelihood: float,
    ) -> Fit:
        nothing = Goodness(float("nan"), float("nan"), 0, float("nan"), float("nan"))
        fit = Fit(model, values, intervals, moments, likelihood, len(self.lost), nothing)
        return Fit(
            model, values, intervals, moments, likelihood, len(self.lost), self._goodness(fit)
        )

    def _goodness(self, fit: Fit) -> Goodness:
        bursts, gaps = self.bursts, self.gaps
        if len(bursts) < 10:
            return fit.goodness
        lengths = np.arange(1, int(bursts.max()) + 2)
        survival = fit.survival(lengths.astype(float))
        observed = np.bincount(bursts, minlength=len(lengths) + 1)[1 : len(lengths) + 1].astype(
            float
        )
        expected = len(bursts) * -np.diff(np.append(survival, 0.0))
        observed, expected = _pooled(observed, expected)
        # One of the parameters is the share of lost packets, which bursts say nothing about.
        degrees = len(observed) - len(fit.values)
        statistic, p_value = float("nan"), float("nan")
        if degrees >= 1:
            result = stats.power_divergence(
                observed, expected * observed.sum() / expected.sum(), lambda_="log-likelihood"
            )
            statistic = float(result.statistic)
            p_value = float(stats.chi2.sf(statistic, degrees))
        values, counts = np.unique(gaps, return_counts=True)
        reached = 1 - fit.survival(values.astype(np.float64) + 1, lost=False)
        distance = float(np.abs(np.cumsum(counts) / len(gaps) - reached).max())
        gap_p_value = float(stats.kstwo.sf(distance, len(gaps)))
        return Goodness(statistic, p_value, degrees, distance, gap_p_value)


def best(fits: list[Fit]) -> Fit:
    """The model of the least BIC, which finds the right one as packets become many."""
    return min(fits, key=lambda fit: fit.bic)


def share_of_bad(
    values: dict[str, float], factor: float, mean: float
) -> tuple[float, dict[str, float]]:
    """How much of the time a chain of this mean loss is bad, and what its states lose.

    The good state loses `factor` times as much as in `values`, and the bad one as much, unless that
    is too little for the mean, which is below 1.
    """
    losses = {name: value for name, value in values.items() if name.startswith("loss_")}
    if "loss_in_good" in losses:
        # A fit may have its states the other way round.
        losses["loss_in_good"] = min(losses["loss_in_good"] * factor, mean)
    bad, good = losses.get("loss_in_bad", 1.0), losses.get("loss_in_good", 0.0)
    if mean > 0.9 * bad or bad <= good:
        bad = losses["loss_in_bad"] = 1.0
    return min(max((mean - good) / (bad - good), 1e-9), 0.99), losses


class _Runs:
    """The likelihood of a sequence under a chain whose states are hidden."""

    def __init__(self, losses: Losses) -> None:
        # Which of the distinct lengths each run has; there are few of these.
        self.distinct = [np.unique(losses.lengths[losses.kinds == kind]) for kind in (False, True)]
        self.which = [
            np.searchsorted(self.distinct[int(kind)], losses.lengths[losses.kinds == kind])
            for kind in (False, True)
        ]
        self.kinds = losses.kinds

    def log_likelihood(self, states: Vector) -> float:
        # Entry by entry: far faster than numpy's products of small matrices.
        matrices = np.empty((2, 2, len(self.kinds)))
        scale = 0.0
        for kind in (False, True):
            powers, logs = _powers(_step(states, kind), self.distinct[int(kind)])
            matrices[:, :, self.kinds == kind] = powers.transpose(1, 2, 0)[
                :, :, self.which[int(kind)]
            ]
            scale += float(logs[self.which[int(kind)]].sum())
        return log_product(matrices, _stationary(states)) + scale


def log_product(matrices: Vector, start: Vector) -> float:
    """Logarithm of a row times the product of 2 x 2 matrices, the last axis, times ones.

    Pairwise, so that numpy does each round at once; scaled, so that nothing becomes 0 by its size.
    """
    scale = 0.0
    while (count := matrices.shape[2]) > 1:
        first, second = matrices[:, :, : count - 1 : 2], matrices[:, :, 1::2]
        product = first[:, 0, None] * second[0] + first[:, 1, None] * second[1]
        largest = np.maximum(product.max(axis=(0, 1)), np.finfo(float).tiny)
        product /= largest
        scale += float(np.log(largest).sum())
        odd = matrices[:, :, count // 2 * 2 :]
        matrices = np.concatenate([product, odd], axis=2) if odd.size else product
    total = float(start @ matrices[:, :, 0] @ np.ones(2))
    return float(np.log(max(total, np.finfo(float).tiny))) + scale


def _step(states: Vector, lost: bool) -> Vector:  # noqa: FBT001 - a kind of packet
    """The matrix of one packet: its fate in each state, then the change of state."""
    p, r, good, bad = states
    fate = np.array([good, bad]) if lost else np.array([1 - good, 1 - bad])
    return np.asarray(fate[:, None] * np.array([[1 - p, p], [r, 1 - r]]))


def _powers(matrix: Vector, exponents: NDArray[np.int64]) -> tuple[Vector, Vector]:
    """Powers of a matrix, each divided by a factor whose logarithm comes with it."""
    result = np.broadcast_to(np.eye(2), (len(exponents), 2, 2)).copy()
    logs = np.zeros(len(exponents))
    square, square_log = matrix, 0.0
    for bit in range(int(exponents.max(initial=0)).bit_length()):
        largest = max(float(square.max()), np.finfo(float).tiny)
        square, square_log = square / largest, square_log + float(np.log(largest))
        chosen = (exponents >> bit) & 1 == 1
        result[chosen] = result[chosen] @ square
        logs[chosen] += square_log
        square, square_log = square @ square, 2 * square_log
    return result, logs


def _stationary(states: Vector) -> Vector:
    p, r = states[:2]
    return np.array([r, p]) / (p + r) if p + r > 0 else np.array([1.0, 0.0])


def _states(model: str, values: Vector) -> Vector:
    if model == "bernoulli":
        return np.array([0.5, 0.5, values[0], values[0]])
    bad = values[2] if len(values) > 2 else 1.0
    good = values[3] if len(values) > 3 else 0.0
    return np.array([values[0], values[1], good, bad])


def _wilson(count: int, trials: int) -> Bounds:
    if trials == 0:
        return 0.0, 1.0
    interval = stats.binomtest(count, trials).proportion_ci(LEVEL, method="wilson")
    return float(interval.low), float(interval.high)


def _information_intervals(cost: Any, at: Vector) -> list[Bounds]:
    """Intervals on the scale of logits."""
    width = information_widths(cost, at)
    low, high = special.expit(at - width), special.expit(at + width)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def information_widths(cost: Any, at: Vector) -> Vector:
    """Half of the intervals' widths from the observed information, by central differences."""
    n, step = len(at), 1e-3
    hessian = np.empty((n, n))
    units = np.eye(n) * step
    for i in range(n):
        for j in range(i, n):
            corners = [
                cost(at + a * units[i] + b * units[j]) * a * b for a in (1, -1) for b in (1, -1)
            ]
            hessian[i, j] = hessian[j, i] = sum(corners) / (4 * step**2)
    # What the packets say nothing about, such as a probability at its edge, stays open.
    free = np.diag(hessian) > 1e-4
    z = float(stats.norm.ppf((1 + LEVEL) / 2))
    width = np.full(n, np.inf)
    if free.any():
        eigenvalues, vectors = np.linalg.eigh(hessian[np.ix_(free, free)])
        inverse = (vectors / np.maximum(eigenvalues, 1e-9)) @ vectors.T
        width[free] = z * np.sqrt(np.maximum(np.diag(inverse), 0))
    return width


def _pooled(observed: Vector, expected: Vector, least: float = 5.0) -> tuple[Vector, Vector]:
    """Neighbouring classes put together until at least five are expected in each (Cochran)."""
    pooled: list[list[float]] = []
    sums = [0.0, 0.0]
    for pair in zip(observed, expected, strict=True):
        sums = [sums[0] + float(pair[0]), sums[1] + float(pair[1])]
        if sums[1] >= least:
            pooled.append(sums)
            sums = [0.0, 0.0]
    if pooled:
        pooled[-1] = [pooled[-1][0] + sums[0], pooled[-1][1] + sums[1]]
    else:
        pooled = [sums]
    table = np.array(pooled)
    return table[:, 0], table[:, 1]
