"""The mean of independent values with Student's t interval."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.errors import AnabranchError


class Interval(NamedTuple):
    """A mean and the half-width of its interval (Student's t).

    The half-width is NaN for fewer than two values, the mean for none. Both have the unit of the
    values.

    Examples
    --------
    >>> interval = stats.Interval(4.1, 0.2, 10)
    >>> print(interval.text(), round(interval.low, 1), interval.positive)
    4.10 ± 0.20 3.9 True
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
        """Mean and half-width as people write them; a dash if there is no mean."""
        if math.isnan(self.mean):
            return "–"
        sign = "+" if signed else ""
        mean = round(self.mean, digits) + 0.0  # no -0.00
        if math.isnan(self.half_width):
            return f"{mean:{sign}.{digits}f}"
        return f"{mean:{sign}.{digits}f} ± {self.half_width:.{digits}f}"


def check_level(level: Any) -> None:
    """Raises an AnabranchError unless the value is a confidence level.

    Examples
    --------
    >>> stats.check_level(95)
    Traceback (most recent call last):
    anabranch.errors.AnabranchError: level is 95; it must lie between 0 and 1, as 0.95 does for 95 %
    """
    if not (isinstance(level, int | float | np.floating) and 0 < level < 1):
        raise AnabranchError(
            f"level is {level}; it must lie between 0 and 1, as 0.95 does for 95 %"
        )


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """The mean of the values that are not NaN, with Student's t interval.

    Law, Simulation Modeling and Analysis, 5th ed., section 4.5.

    Examples
    --------
    >>> stats.mean_interval([4.1, 4.3, 4.2]).text()
    '4.20 ± 0.25'
    """
    mean, half_width, n = t_intervals([[x for x in values if not math.isnan(x)]], level)
    return Interval(float(mean[0]), float(half_width[0]), int(n[0]))


def t_intervals(
    samples: Iterable[list[float] | np.ndarray], level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, half-width and size of each sample.

    Sums are correctly rounded, so they have the same bits for any order of the values.
    """
    check_level(level)
    sums = []
    for sample in samples:
        values = sample.tolist() if isinstance(sample, np.ndarray) else sample
        centre = math.fsum(values) / len(values) if values else math.nan
        sums.append((len(values), centre, math.fsum([(x - centre) ** 2 for x in values])))
    n, mean, squares = np.array(sums, dtype=float).reshape(-1, 3).T
    with np.errstate(divide="ignore", invalid="ignore"):
        quantile = student_quantile(n - 1, (1 + level) / 2)
        half_width = quantile * np.sqrt(squares / (n - 1)) / np.sqrt(n)
    return mean, np.where(n < 2, math.nan, half_width), n.astype(np.uint32)


def student_quantile(freedom: NDArray[np.float64], probability: float) -> NDArray[np.float64]:
    """The quantile of Student's t with these degrees of freedom; NaN where they are NaN."""
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

    return np.asarray(stdtrit(freedom, probability))
