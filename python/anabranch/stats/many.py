"""Differences of many scalars at once, as arrays: a single test takes about a millisecond."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anabranch.stats.intervals import check_level, student_quantile

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

_ROUNDING = 1e-12
"""A relative difference below this is rounding, so the values count as equal."""


@dataclass(frozen=True)
class Differences:
    """Two samples of each scalar, and their difference; all arrays have a value for each scalar."""

    a: Numbers
    """Mean of the first sample; for paired runs, over the replications that both have."""
    b: Numbers
    difference: Numbers
    """The mean of a minus b."""
    error: Numbers
    """The difference's standard error; NaN where a sample has fewer than two values."""
    freedom: Numbers
    """Degrees of freedom of its t distribution."""
    p: Numbers
    """The two-sided p-value of the t test that there is no difference."""
    n_a: NDArray[np.int64]
    """The number of values of the first sample."""
    n_b: NDArray[np.int64]
    paired: Flags
    """Whether the difference is a mean of differences within replications."""
    equal: Flags
    """Whether all values are the same; for paired runs, the same within each replication."""


def half_widths(error: Numbers, freedom: Numbers, level: float) -> Numbers:
    """The half-widths of these differences' intervals: Student's t for pairs, else Welch's."""
    # Without any spread, an interval has no width and there are no degrees of freedom.
    return np.where(error == 0, 0.0, student_quantile(freedom, (1 + level) / 2) * error)


def differences(first: Numbers, second: Numbers, pairs: int) -> Differences:
    """Compares samples of many scalars, the first minus the second.

    A scalar with at least two pairs is compared within them (Law, Simulation Modeling and Analysis,
    5th ed., section 11.2), any other one as two independent samples (Welch, Biometrika 34, 1947),
    just as `comparison.compare` does for one scalar. NaN means no value.

    Parameters
    ----------
    first, second
        A row for each scalar, a column for each run.
    pairs
        This many columns at the beginning of both belong to the same replications, on the same
        random numbers; 0 if the runs are independent.
    """
    of_pairs = _paired(first[:, :pairs], second[:, :pairs])
    apart = _independent(first, second)
    # A single pair has no interval, but it is better than single runs of different replications.
    without = np.minimum(apart.n_a, apart.n_b) < 2
    use = (of_pairs.n_a >= 2) | ((of_pairs.n_a == 1) & without)
    chosen = {
        name: np.where(use, getattr(of_pairs, name), getattr(apart, name))
        for name in Differences.__dataclass_fields__
    }
    return Differences(**chosen)


def screened(p: Numbers, level: float) -> tuple[Flags, float]:
    """Which of many differences are significant, and the level at which intervals agree with that.

    Of the significant ones, a share of 1 - level is due to chance on average (Benjamini and
    Hochberg, Journal of the Royal Statistical Society B 57, 1995). With R of N differences
    significant, intervals of the level 1 - (1 - level) R / N exclude 0 for exactly these, and on
    average the share 1 - level of their intervals misses the true difference (Benjamini and
    Yekutieli, Journal of the American Statistical Association 100, 2005).

    Parameters
    ----------
    p
        The p-value of each test; NaN if there was none.
    level
        The level for all differences together, such as 0.95.
    """
    from scipy.stats import false_discovery_control  # noqa: PLC0415 - slow to import

    check_level(level)
    known = ~np.isnan(p)
    resolved = np.zeros(len(p), dtype=bool)
    if not known.any():
        return resolved, level
    resolved[known] = false_discovery_control(p[known]) <= 1 - level
    return resolved, 1 - (1 - level) * max(int(resolved.sum()), 1) / int(known.sum())


def _paired(first: Numbers, second: Numbers) -> Differences:
    missing = np.isnan(first) | np.isnan(second)
    a, b = (np.where(missing, np.nan, values) for values in (first, second))
    mean, variance, n = _moments(a - b)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(variance / n)
        alike = np.abs(a - b) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))
    freedom = n.astype(np.float64) - 1
    return Differences(
        a=_moments(a)[0],
        b=_moments(b)[0],
        difference=mean,
        error=error,
        freedom=freedom,
        p=_p(mean, error, freedom),
        n_a=n,
        n_b=n,
        paired=np.ones(len(n), dtype=bool),
        equal=(alike | (np.isnan(first) & np.isnan(second))).all(axis=1),
    )


def _independent(first: Numbers, second: Numbers) -> Differences:
    (mean_a, variance_a, n_a), (mean_b, variance_b, n_b) = _moments(first), _moments(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        part_a, part_b = variance_a / n_a, variance_b / n_b
        squares = part_a**2 / (n_a - 1) + part_b**2 / (n_b - 1)
        freedom = (part_a + part_b) ** 2 / squares
        error = np.sqrt(part_a + part_b)
    difference = mean_a - mean_b
    least, most = _ends(np.concatenate((first, second), axis=1))
    has_gaps = np.isnan(first).any(axis=1) | np.isnan(second).any(axis=1)
    has_none = (n_a == 0) & (n_b == 0)
    alike = most - least <= _ROUNDING * np.maximum(np.abs(least), np.abs(most))
    return Differences(
        a=mean_a,
        b=mean_b,
        difference=difference,
        error=error,
        freedom=freedom,
        p=_p(difference, error, freedom),
        n_a=n_a,
        n_b=n_b,
        paired=np.zeros(len(n_a), dtype=bool),
        equal=(alike & ~has_gaps) | has_none,
    )


def _moments(values: Numbers) -> tuple[Numbers, Numbers, NDArray[np.int64]]:
    """Mean, variance and number of the values in each row that are not NaN."""
    n = (~np.isnan(values)).sum(axis=1)
    least, most = _ends(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The mean of equal values is exactly that value.
        mean = np.where(least == most, least, np.nansum(values, axis=1) / n)
        squares = np.nansum((values - mean[:, np.newaxis]) ** 2, axis=1)
        variance = np.where(n < 2, np.nan, squares / (n - 1))
    return mean, variance, n


def _ends(values: Numbers) -> tuple[Numbers, Numbers]:
    """The smallest and the largest value of each row; NaN if there is none."""
    if values.shape[1] == 0:
        nothing = np.full(len(values), np.nan)
        return nothing, nothing
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of rows without any
        return np.nanmin(values, axis=1), np.nanmax(values, axis=1)


def _p(difference: Numbers, error: Numbers, freedom: Numbers) -> Numbers:
    from scipy.special import stdtr  # noqa: PLC0415 - slow to import

    with np.errstate(divide="ignore", invalid="ignore"):
        p: Numbers = 2 * stdtr(freedom, -np.abs(difference) / error)
    # Without any spread a difference is certain, and so is none.
    return np.where(error == 0, (difference == 0).astype(float), p)
