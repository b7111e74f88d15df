"""Bootstrap intervals: bias-corrected and accelerated (BCa), of means and of their differences."""

import numpy as np

from anabranch.stats.intervals import t_intervals

RESAMPLES = 1999
"""The number of bootstrap resamples: about the 2000 that Efron and Tibshirani, An Introduction to
the Bootstrap (1993), take for BCa intervals in chapter 14.
"""

MOST_BOOTSTRAPPED = 10_000
"""With more values in a sample, BCa's corrections, of order 1/n, are negligible: the t interval is
used instead.
"""

SEED = 1
"""The seed of the resamples, so that equal values have equal intervals."""

_ROUNDING = 1e-12
"""A relative difference below this is rounding, so the values count as equal."""

_BATCH = 4_000_000
"""How many numbers are in memory at once while resampling."""


def bca(samples: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An `Estimator`: the mean with its bootstrap interval, bias-corrected and accelerated (BCa).

    Unlike the t interval it follows a skewed sample. Efron and Tibshirani (1993), section 14.3.

    Examples
    --------
    >>> mean, low, high = stats.bca(np.array([[0.0, 0.0, 1.0, 0.0, 7.0, 0.0, 2.0, 0.0]]))
    >>> print(mean, bool(mean - low < high - mean))  # further up than down
    [1.25] True
    """
    from scipy.stats import bootstrap  # noqa: PLC0415 - slow to import

    n = samples.shape[1]
    mean, half_width, _ = t_intervals(samples, level)
    low, high = mean - half_width, mean + half_width
    if n < 2 or n > MOST_BOOTSTRAPPED:
        return mean, low, high
    # Equal values have an interval of no width, but no acceleration.
    varied = np.flatnonzero(~are_equal(samples))
    size = max(1, _BATCH // (RESAMPLES * n))
    for start in range(0, len(varied), size):
        rows = varied[start : start + size]
        # All samples use the same resamples. A single sample is given twice, so that NumPy adds in
        # the same order: a sample's interval does not depend on the others.
        resampled = bootstrap(
            (samples[rows if len(rows) > 1 else [*rows, *rows]],),
            np.mean,
            axis=-1,
            n_resamples=RESAMPLES,
            batch=batch(len(rows) * n),
            confidence_level=level,
            rng=np.random.default_rng(SEED),
        ).confidence_interval
        low[rows], high[rows] = (end[: len(rows)] for end in resampled)
    return mean, low, high


def are_equal(samples: np.ndarray) -> np.ndarray:
    """Whether the values of each sample (a row) are equal, except for rounding.

    Examples
    --------
    >>> stats.are_equal(np.array([[0.3, 0.1 + 0.2], [0.3, 0.4]])).tolist()
    [True, False]
    """
    spread = np.ptp(samples, axis=-1)
    return np.asarray(spread <= _ROUNDING * np.abs(samples).max(axis=-1))


def batch(values: int) -> int:
    """How many resamples of this many values are in memory at once.

    Examples
    --------
    >>> stats.batch(100), stats.batch(1_000_000)
    (1999, 4)
    """
    return max(1, min(RESAMPLES, _BATCH // values))
