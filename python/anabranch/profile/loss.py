"""Models of loss, fitted to a sequence of packets of which some were lost.

Four nested models, by the names that netem's `gemodel` gives them (tc-netem(8); E. N. Gilbert, Bell
System Technical Journal 39, 1960; E. O. Elliott, ibid. 42, 1963):

- `bernoulli`: every packet with the same probability;
- `simple_gilbert`: p and r, a bad state in which every packet is lost;
- `gilbert`: p, r and the loss in the bad state;
- `gilbert_elliott`: these and the loss in the good state.

The parameters are those of a link's `loss` in a scenario. The first two have maximum-likelihood
estimates in closed form. The states of the others are hidden; their likelihood comes from the
forward algorithm, with a power of a matrix for each run of equal outcomes (`chain.rs` of
`anabranch-capture`).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from anabranch import _engine

from .intervals import LEVEL, Bounds, Vector, block_interval

Flags = NDArray[np.bool_]

PARAMETERS = {
    "bernoulli": ("probability",),
    "simple_gilbert": ("p", "r"),
    "gilbert": ("p", "r", "loss_in_bad"),
    "gilbert_elliott": ("p", "r", "loss_in_bad", "loss_in_good"),
}
"""Model -> the names of its parameters, as a scenario has them."""

FEWEST_LOSSES = 30
"""With fewer losses, a hidden state cannot be told from chance, and models with hidden states are
not fitted.
"""

_EDGE = 1e-9
"""How near a probability may come to 0 and 1 during the search."""


@dataclass(frozen=True, slots=True)
class Goodness:
    """The observed lengths of runs compared with those of a model."""

    statistic: float
    """The statistic G over the lengths of loss bursts; NaN where there are too few."""
    p_value: float
    degrees: int
    gap_distance: float
    """The Kolmogorov-Smirnov distance between the observed lengths of gaps and the model's."""
    gap_p_value: float
    """Conservative, as lengths are whole numbers."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A model with its maximum-likelihood parameters."""

    model: str
    values: dict[str, float]
    intervals: dict[str, Bounds]
    """95 % intervals: Wilson's where the states are seen, otherwise from the observed information.
    """
    moments: dict[str, float]
    """The parameters by the method of moments; NaN where the moments have no solution."""
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
        """The share of packets that the model loses."""
        return float(_stationary(self.states) @ self.states[2:])

    @property
    def states(self) -> Vector:
        """(p, r, loss in the good state, loss in the bad state).

        For `bernoulli`, both losses are equal.
        """
        return _states(self.model, np.array(list(self.values.values())))

    def values_with(self, mean: float) -> dict[str, float]:
        """The parameters for another mean loss (above 0): more or fewer bad states, as long."""
        if self.model == "bernoulli":
            return {"probability": mean}
        share, losses = share_of_bad(self.values, mean / self.mean_loss, mean)
        r = self.values["r"]
        return {"p": min(r * share / (1 - share), 1.0), "r": r} | losses

    def survival(self, lengths: Vector, lost: bool = True) -> Vector:  # noqa: FBT001, FBT002
        """Probability that a run of losses (or arrivals) is at least so long, from length 1 on."""
        own, other = _step(self.states, lost), _step(self.states, not lost)
        # A run begins with the packet after one with the other outcome.
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
        The outcomes in the order in which the packets were sent.
    """

    def __init__(self, lost: Flags) -> None:
        self.lost = np.asarray(lost, dtype=bool)
        edges = np.flatnonzero(np.diff(self.lost)) + 1
        starts = np.concatenate([[0], edges])
        self.lengths = np.diff(np.concatenate([starts, [len(self.lost)]]))
        self.kinds = self.lost[starts] if len(self.lost) else np.zeros(0, dtype=bool)

    @property
    def count(self) -> int:
        """The number of lost packets."""
        return int(self.lost.sum())

    @property
    def sent(self) -> int:
        """The number of packets."""
        return len(self.lost)

    @property
    def bursts(self) -> NDArray[np.int64]:
        """Lengths of runs of lost packets; runs at either end are cut off, so they are left out."""
        return self._whole_runs(lost=True)

    @property
    def gaps(self) -> NDArray[np.int64]:
        """Lengths of runs of packets that arrived, without those at either end."""
        return self._whole_runs(lost=False)

    def _whole_runs(self, *, lost: bool) -> NDArray[np.int64]:
        inner = slice(1, -1)
        return np.asarray(self.lengths[inner][self.kinds[inner] == lost], dtype=np.int64)

    @cached_property
    def mean_loss(self) -> tuple[float, Bounds]:
        """The share of lost packets, and its interval by moving blocks, which bursts make wider."""
        return float(self.lost.mean()), block_interval(self.lost.astype(float))

    def autocovariance(self, lags: int) -> Vector:
        """The autocovariance at lags 0 to `lags`."""
        x = self.lost - self.lost.mean()
        n = len(x)
        # einsum is used because BLAS would start threads for so little work.
        return np.array([np.einsum("i,i", x[: n - lag], x[lag:]) / n for lag in range(lags + 1)])

    def independence(self, lags: int = 20) -> tuple[float, float]:
        """Ljung and Box's statistic and p-value: how likely this is if losses are independent."""
        n = len(self.lost)
        lags = min(lags, n // 4)
        covariance = self.autocovariance(lags)
        if lags < 1 or covariance[0] <= 0:
            return float("nan"), float("nan")
        rho = covariance[1:] / covariance[0]
        statistic = float(n * (n + 2) * np.sum(rho**2 / (n - np.arange(1, lags + 1))))
        return statistic, float(special.chdtrc(lags, statistic))

    def fits(self) -> list[Fit]:
        """The fitted models; those with hidden states only if there are enough losses."""
        models = ["bernoulli"]
        if len(self.bursts) >= 2 and len(self.gaps) >= 2:
            models.append("simple_gilbert")
            if self.count >= FEWEST_LOSSES:
                models += ["gilbert", "gilbert_elliott"]
        return [self.fit(model) for model in models]

    def fit(self, model: str) -> Fit:
        """Fits one model."""
        if model == "bernoulli":
            return self._bernoulli()
        return self._simple_gilbert() if model == "simple_gilbert" else self._hidden(model)

    def _bernoulli(self) -> Fit:
        n, lost = len(self.lost), self.count
        value = {"probability": lost / n}
        interval = {"probability": wilson(lost, n)}
        likelihood = float(special.xlogy(lost, lost / n) + special.xlog1py(n - lost, -lost / n))
        return self._fit("bernoulli", value, interval, value, likelihood)

    def _simple_gilbert(self) -> Fit:
        before, after = self.lost[:-1], self.lost[1:]
        worse, good = int((~before & after).sum()), int((~before).sum())
        better, bad = int((before & ~after).sum()), int(before.sum())
        value = {"p": worse / good, "r": better / bad}
        interval = {"p": wilson(worse, good), "r": wilson(better, bad)}
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

        # The search starts from the moments, where they have a solution, and from longer bad states
        # that lose only a part.
        loss = self.count / len(self.lost)
        starts = [
            [moments[name] for name in names],
            [counted["p"] / 2, counted["r"] / 2, 0.7, loss / 10][: len(names)],
        ]
        tries = [
            # BFGS rather than L-BFGS-B, for which LAPACK would start threads for four numbers.
            optimize.minimize(cost, special.logit(np.clip(start, 1e-4, 1 - 1e-4)), method="BFGS")
            for start in starts
            if np.all(np.isfinite(start))
        ]
        best = min(tries, key=lambda result: float(result.fun))
        values = special.expit(best.x)
        if model == "gilbert_elliott" and values[2] < values[3]:
            # The same chain with the names of its states exchanged.
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

        The covariance of a two-state chain falls by the factor 1 - p - r with each step. With pi
        the share of the bad state and D the difference of the states' losses, its value at lag 0
        without the noise of single packets is C = pi (1 - pi) D^2, and the third joint moment of
        neighbours is D (1 - 2 pi) C (1 - p - r)^2.
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
        # One of the parameters is the share of lost packets, about which the lengths of bursts say
        # nothing.
        degrees = len(observed) - len(fit.values)
        statistic, p_value = float("nan"), float("nan")
        if degrees >= 1:
            expected *= observed.sum() / expected.sum()
            statistic = 2 * float(special.xlogy(observed, observed / expected).sum())
            p_value = float(special.chdtrc(degrees, statistic))
        values, counts = np.unique(gaps, return_counts=True)
        reached = 1 - fit.survival(values.astype(np.float64) + 1, lost=False)
        distance = float(np.abs(np.cumsum(counts) / len(gaps) - reached).max())
        gap_p_value = _kolmogorov(distance, len(gaps))
        return Goodness(statistic, p_value, degrees, distance, gap_p_value)


def best(fits: list[Fit]) -> Fit:
    """The model with the least BIC, which selects the right one as the number of packets grows."""
    return min(fits, key=lambda fit: fit.bic)


def share_of_bad(
    values: dict[str, float], factor: float, mean: float
) -> tuple[float, dict[str, float]]:
    """The share of time in which a chain with this mean loss is bad, and the losses in its states.

    The good state loses `factor` times as much as in `values`. The bad one loses as much as there,
    unless that is too little for the mean, which is below 1.
    """
    losses = {name: value for name, value in values.items() if name.startswith("loss_")}
    if "loss_in_good" in losses:
        # A fit may have its states in the opposite order.
        losses["loss_in_good"] = min(losses["loss_in_good"] * factor, mean)
    bad, good = losses.get("loss_in_bad", 1.0), losses.get("loss_in_good", 0.0)
    if mean > 0.9 * bad or bad <= good:
        bad = losses["loss_in_bad"] = 1.0
    return min(max((mean - good) / (bad - good), 1e-9), 0.99), losses


class _Runs:
    """The likelihood of a sequence under a chain with hidden states."""

    def __init__(self, losses: Losses) -> None:
        self._stretches = Stretches(losses.lengths, losses.kinds)
        self._ones = np.ones(len(losses.lengths))

    def log_likelihood(self, states: Vector) -> float:
        p, r, good, bad = map(float, states)
        share = float(_stationary(states)[1])
        return self._stretches.log_likelihood(self._ones * (p + r), share, good, bad)


class Stretches:
    """Packets in a row that had the same fate, at equal steps of a chain.

    Parameters
    ----------
    packets
        How many they are.
    lost
        Whether they were lost.
    """

    def __init__(self, packets: NDArray[np.integer], lost: Flags) -> None:
        self._packets = np.asarray(packets, dtype=np.int64).tobytes()
        self._lost = np.asarray(lost, dtype=bool).tobytes()

    def log_likelihood(self, changes: Vector, bad_share: float, good: float, bad: float) -> float:
        """The logarithm of the probability of these fates.

        Parameters
        ----------
        changes
            How far the chain forgets its state behind each: the probabilities of both changes
            together.
        bad_share
            That of the bad state.
        good, bad
            The losses in both states.
        """
        return _engine.chain_log_likelihood(
            self._packets, self._lost, changes.tobytes(), bad_share, good, bad
        )


def _step(states: Vector, lost: bool) -> Vector:  # noqa: FBT001 - a kind of packet
    """The matrix of one packet: its outcome's probability in each state, then the change."""
    p, r, good, bad = states
    fate = np.array([good, bad]) if lost else np.array([1 - good, 1 - bad])
    return np.asarray(fate[:, None] * np.array([[1 - p, p], [r, 1 - r]]))


def _powers(matrix: Vector, exponents: NDArray[np.int64]) -> tuple[Vector, Vector]:
    """Powers of a matrix, each divided by a factor; gives the logarithms of these factors, too."""
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


def _kolmogorov(distance: float, count: int) -> float:
    """The p-value of Kolmogorov and Smirnov's distance of so many values from a distribution.

    The limit with a correction for their number, within 0.003 of the exact one for 10 or more (J.
    Vrbik, Pioneer Journal of Theoretical and Applied Statistics 15, 2018): `scipy.stats`, which has
    that one, takes as long to import as 500 MB of a capture to read.
    """
    root = math.sqrt(count)
    at = distance * root + 1 / (6 * root) + (distance * root - 1) / (4 * count)
    return float(special.kolmogorov(at))


def wilson(count: int, trials: int) -> Bounds:
    """The interval of a share (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927)."""
    if trials == 0:
        return 0.0, 1.0
    z, share = float(special.ndtri((1 + LEVEL) / 2)), count / trials
    middle = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    spread = share * (1 - share) / trials + z**2 / (4 * trials**2)
    half = z * math.sqrt(spread) / (1 + z**2 / trials)
    return middle - half if count else 0.0, middle + half if count < trials else 1.0


def _information_intervals(cost: Any, at: Vector) -> list[Bounds]:
    """95 % intervals on the scale of logits."""
    width = information_widths(cost, at)
    low, high = special.expit(at - width), special.expit(at + width)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def information_widths(cost: Any, at: Vector) -> Vector:
    """Half-widths of intervals from the observed information, by central differences."""
    n, step = len(at), 1e-3
    hessian = np.empty((n, n))
    units = np.eye(n) * step
    for i in range(n):
        for j in range(i, n):
            corners = [
                cost(at + a * units[i] + b * units[j]) * a * b for a in (1, -1) for b in (1, -1)
            ]
            hessian[i, j] = hessian[j, i] = sum(corners) / (4 * step**2)
    # Where the packets say nothing, as about a probability at its edge, the interval stays open.
    free = np.diag(hessian) > 1e-4
    z = float(special.ndtri((1 + LEVEL) / 2))
    width = np.full(n, np.inf)
    if free.any():
        eigenvalues, vectors = np.linalg.eigh(hessian[np.ix_(free, free)])
        inverse = (vectors / np.maximum(eigenvalues, 1e-9)) @ vectors.T
        width[free] = z * np.sqrt(np.maximum(np.diag(inverse), 0))
    return width


def _pooled(observed: Vector, expected: Vector, least: float = 5.0) -> tuple[Vector, Vector]:
    """Merges neighbouring classes until at least five are expected in each (Cochran)."""
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
