"""Means of replications with their intervals, and differences on common random numbers."""

import math
from collections.abc import Iterable, Mapping

import numpy as np
from scipy import stats

from anabranch.stats import Interval, mean_interval

__all__ = ["Interval", "difference", "interval", "prediction_half_width", "variance"]


def interval(samples: Iterable[float]) -> Interval:
    """The mean of independent samples with its 95 % interval."""
    return mean_interval([float(sample) for sample in samples])


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> Interval:
    """The interval of the mean difference over the replications that both have."""
    return interval([first[key] - second[key] for key in first if key in second])


def prediction_half_width(samples: np.ndarray) -> float:
    """Half-width of the 95 % interval in which one more run falls.

    What a single published run is compared with.
    """
    n = len(samples)
    if n < 2:
        return math.nan
    return float(stats.t.ppf(0.975, n - 1) * samples.std(ddof=1) * math.sqrt(1 + 1 / n))


def variance(half_width: float, n: int) -> float:
    """The samples' variance from their mean's half-width; 0 for one sample."""
    return float(half_width**2 * n / stats.t.ppf(0.975, n - 1) ** 2) if n > 1 else 0.0
