"""Intervals for estimates from sequences whose values depend on each other."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Bounds = tuple[float, float]

LEVEL = 0.95
"""The level of every interval."""

_MOST_LAGS = 1000
"""How far apart values are taken to be correlated."""

FEWEST_TO_EXTRAPOLATE = 20
"""Of fewer delays, the least is taken for what the least may be."""

_MOST = 10_000
"""The most values from which a quantile is resampled."""


def block_interval(values: Vector, quantile: float | None = None, resamples: int = 999) -> Bounds:
    """Percentile interval of the mean, or of a quantile, of a stationary sequence.

    It resamples moving blocks (H. R. Künsch, Annals of Statistics 17(3), 1989) of n^(1/3) values,
    or as many as a correlation lasts; the random seed is fixed.
    """
    rng = np.random.default_rng(1)
    if quantile is not None and len(values) > _MOST:
        # Every so many values are taken, in order: the interval is wider, but the time is bounded.
        values = values[np.linspace(0, len(values) - 1, _MOST).astype(int)]
    n = len(values)
    block = min(max(round(n ** (1 / 3)), _correlation_length(values)), max(n // 4, 1))
    count = -(-n // block)
    if quantile is None:
        # For a mean, the means of the blocks are enough.
        sums = np.concatenate([[0.0], np.cumsum(values)])
        means = (sums[block:] - sums[:-block]) / block
        drawn = [means[rng.integers(len(means), size=count)].mean() for _ in range(resamples)]
    else:
        within = np.arange(block)
        drawn = [
            np.quantile(
                values[(rng.integers(n - block + 1, size=(count, 1)) + within).ravel()[:n]],
                quantile,
            )
            for _ in range(resamples)
        ]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def minimum_interval(values: Vector, legs: int) -> tuple[float, Bounds]:
    """The least value that a delay can have, median-unbiased, and its interval.

    Near its minimum, a sum of `legs` random delays has the distribution function c x^legs. So the
    ratio of the distances of the least and the m-th least value from the minimum has the
    distribution of the least of m - 1 uniform numbers from 0 to 1, raised to 1 / legs (I. Weissman,
    Communications in Statistics A10(6), 1981).

    The value is the least one where there are fewer than `FEWEST_TO_EXTRAPOLATE` that are
    independent, in the order of time, as where a queue grows; or where what lies below it is as
    wide as what lies between it and 0: then they are no sum of this kind.
    """
    lowest = np.sort(values)
    m = int(np.clip(len(lowest) // 10, 2, 50))
    first = float(lowest[0])
    if len(lowest) < m:
        return first, (0.0, first)
    spread = float(lowest[m - 1]) - first

    def threshold(probability: float) -> float:
        ratio = (1 - (1 - probability) ** (1 / (m - 1))) ** (1 / legs)
        return float(max(first - spread * ratio / (1 - ratio), 0.0))

    value = threshold(0.5)
    independent = len(lowest)
    if independent < FEWEST_TO_EXTRAPOLATE * (1 + 2 * _MOST_LAGS):
        independent //= _correlation_length(values)
    if independent < FEWEST_TO_EXTRAPOLATE or value < first / 2:
        value = first
    return value, (threshold(LEVEL), first)


def _correlation_length(values: Vector) -> int:
    """Integrated autocorrelation time, cut where the correlation is first below its noise."""
    n = len(values)
    x = values - values.mean()
    # einsum is used because BLAS would start threads for so little work.
    variance = float(np.einsum("i,i", x, x)) / n
    if n < 8 or variance <= 0:
        return 1
    noise = 2 / np.sqrt(n)
    total = 1.0
    for lag in range(1, min(n // 4, _MOST_LAGS)):
        rho = float(np.einsum("i,i", x[:-lag], x[lag:])) / n / variance
        if rho < noise:
            break
        total += 2 * rho
    return int(np.ceil(total))
