"""Means of replications with their intervals, and differences on common random numbers."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from anabranch import stats as anabranch_stats


@dataclass(frozen=True)
class Interval:
    """A mean and the half-width of its 95 % interval (Student's t).

    NaN with fewer than two samples.
    """

    mean: float
    half_width: float
    n: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half_width

    @property
    def positive(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low > 0

    @property
    def negative(self) -> bool:
        """Whether the whole interval lies below 0."""
        return self.high < 0

    def text(self, digits: int = 2, *, signed: bool = False) -> str:
        """Mean and half-width as people write them."""
        sign = "+" if signed else ""
        mean = round(self.mean, digits) + 0.0  # no -0.00
        if math.isnan(self.half_width):
            return f"{mean:{sign}.{digits}f}"
        return f"{mean:{sign}.{digits}f} ± {self.half_width:.{digits}f}"


def interval(samples: Iterable[float]) -> Interval:
    """The mean of independent samples with its 95 % interval."""
    return Interval(*anabranch_stats.mean_interval([float(sample) for sample in samples]))


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
