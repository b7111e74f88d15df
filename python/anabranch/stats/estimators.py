"""Estimates with confidence intervals over replications.

Replications are independent, so textbook intervals hold; docs/statistics.md says which one is used
when, with sources and measured coverage. A NaN means a run without a value; it is left out, and `n`
counts the others. Every result has the same bits on any number of threads and for any order of the
groups.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl

from anabranch.errors import AnabranchError
from anabranch.stats.intervals import check_level, t_intervals
from anabranch.stats.resampling import bca
from anabranch.support import wording

Estimator = Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Samples of equal size (an array with one in each row, no NaN) and a level between 0 and 1 ->
value, low and high of each, in the unit of the samples.
"""


def quantile(
    samples: np.ndarray, level: float = 0.95, *, probability: float = 0.5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An `Estimator`: a quantile between two order statistics, whatever the distribution.

    The number of values below the true quantile is binomial (Conover, Practical Nonparametric
    Statistics, 3rd ed., section 3.2), so the interval covers at least as asked. An end is NaN if
    there are too few values. The value is the median-unbiased estimate (Hyndman and Fan, 1996, 8).

    Examples
    --------
    >>> sample = np.array([[3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0]])  # a row for each sample
    >>> value, low, high = stats.quantile(sample, probability=0.5)
    >>> print(value, low, high)
    [4.] [1.] [7.]
    """
    from scipy.stats import quantile_test  # noqa: PLC0415 - slow to import

    check_level(level)
    count, n = samples.shape
    if n == 0:
        return tuple(np.full((3, count), math.nan))  # type: ignore[return-value]
    # The interval for the numbers 0 to n - 1 gives the order statistics that bound any sample's
    # quantile.
    ranks = quantile_test(np.arange(n), q=0, p=probability).confidence_interval(level)
    ordered = np.sort(samples, axis=1)
    low, high = (
        np.full(count, math.nan) if math.isnan(rank) else ordered[:, int(rank)] for rank in ranks
    )
    return np.quantile(ordered, probability, axis=1, method="median_unbiased"), low, high


def share(samples: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An `Estimator`: the share of ones among zeros and ones, with Wilson's score interval.

    Brown, Cai and DasGupta, Statistical Science 16 (2001), recommend this interval.

    Raises
    ------
    AnabranchError
        When there is a value other than 0 and 1.

    Examples
    --------
    >>> value, low, high = stats.share(np.array([[0, 0, 0, 1]]))
    >>> print(value, low.round(3), high.round(3))
    [0.25] [0.046] [0.699]
    """
    from scipy.stats import binomtest  # noqa: PLC0415 - slow to import

    check_level(level)
    others = samples[(samples != 0) & (samples != 1)]
    if len(others):
        raise AnabranchError(f"a share is one of values 0 and 1, but there is a {others[0]:g}")
    count, n = samples.shape
    if n == 0:
        return tuple(np.full((3, count), math.nan))  # type: ignore[return-value]
    ones = samples.sum(axis=1).astype(int)
    intervals = {
        k: binomtest(k, n).proportion_ci(level, method="wilson") for k in set(ones.tolist())
    }
    low, high = np.array([intervals[k] for k in ones.tolist()]).reshape(-1, 2).T
    return ones / n, low, high


def cells(rows: pl.DataFrame, by: Sequence[str], metric: str, level: float = 0.95) -> pl.DataFrame:
    """One row for each group of `by`, in order of appearance: `by`, mean, half_width (t), n.

    Parameters
    ----------
    rows
        Rows of a study, as `Study.frame` gives them.
    by
        The columns whose combinations are groups.
    metric
        A scalar; `mean` and `half_width` have its unit.
    level
        Confidence level, between 0 and 1.

    Raises
    ------
    AnabranchError
        When `level` is not between 0 and 1.

    Examples
    --------
    >>> rows = pl.DataFrame(
    ...     {
    ...         "rto": [0.1, 0.1, 0.1, 1.0, 1.0, 1.0],
    ...         "replication": [0, 1, 2, 0, 1, 2],
    ...         "call.mos": [4.1, 4.3, 4.2, 3.9, 4.2, 4.0],
    ...     }
    ... )
    >>> for row in stats.cells(rows, ["rto"], "call.mos").iter_rows():
    ...     print([round(value, 3) for value in row])
    [0.1, 4.2, 0.248, 3]
    [1.0, 4.033, 0.379, 3]
    """
    groups, samples = _samples(rows, by, metric)
    mean, half_width, n = t_intervals(samples, level)
    return groups.with_columns(mean=mean, half_width=half_width, n=n)


def estimates(
    rows: pl.DataFrame,
    by: Sequence[str],
    metric: str,
    estimator: Estimator = bca,
    level: float = 0.95,
) -> pl.DataFrame:
    """One row for each group of `by`, in order of appearance: `by`, value, low, high, n.

    Parameters
    ----------
    rows
        Rows of a study.
    by
        The columns whose combinations are groups.
    metric
        A scalar.
    estimator
        The estimator: `bca`, `share`, `quantile`, or `partial(quantile, probability=0.95)`.
    level
        Confidence level.

    Examples
    --------
    >>> rows = pl.DataFrame(
    ...     {
    ...         "rto": [0.1, 0.1, 0.1, 1.0, 1.0, 1.0],
    ...         "replication": [0, 1, 2, 0, 1, 2],
    ...         "call.mos": [4.1, 4.3, 4.2, 3.9, 4.2, 4.0],
    ...     }
    ... )
    >>> stats.estimates(rows, ["rto"], "call.mos", stats.quantile)["value"].to_list()
    [4.2, 4.0]
    """
    check_level(level)
    groups, samples = _samples(rows, by, metric)
    bounds = np.full((3, len(samples)), math.nan)
    for here, some in _of_equal_size(samples):
        bounds[:, here] = estimator(some, level)
    value, low, high = bounds
    sizes = np.array([len(sample) for sample in samples], dtype=np.uint32)
    return groups.with_columns(value=value, low=low, high=high, n=sizes)


def _of_equal_size(samples: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The positions of the samples of each size, and these samples, one in each row."""
    sizes = np.array([len(sample) for sample in samples])
    for size in np.unique(sizes):
        here = np.flatnonzero(sizes == size)
        yield here, np.array([samples[i] for i in here.tolist()])


def paired(
    rows: pl.DataFrame,
    axis: str,
    baseline: float | str | bool,  # noqa: FBT001 - the value of an axis
    metric: str,
    *,
    by: Sequence[str] = (),
    level: float = 0.95,
) -> pl.DataFrame:
    """Differences from a baseline on common random numbers.

    Replication r of every cell draws from the same random streams, so most of the noise cancels in
    differences within a replication (Law, section 11.2).

    Parameters
    ----------
    rows
        Rows of a study.
    axis
        The axis that is compared.
    baseline
        The value of the axis that the others are compared with.
    metric
        A scalar.
    by
        The other axes. Every combination of them with a value of `axis` must be one cell.
    level
        Confidence level.

    Returns
    -------
    One row for each group and value except the baseline: `by`, `axis`, mean of the difference,
    half_width (t), n, low and high (BCa), p (of the paired t test, two-sided, not corrected for the
    number of comparisons).

    Raises
    ------
    AnabranchError
        When the axis never has the baseline's value.

    Examples
    --------
    >>> rows = pl.DataFrame(
    ...     {
    ...         "rto": [0.1, 0.1, 0.1, 1.0, 1.0, 1.0],
    ...         "replication": [0, 1, 2, 0, 1, 2],
    ...         "call.mos": [4.1, 4.3, 4.2, 3.9, 4.2, 4.0],
    ...     }
    ... )
    >>> found = stats.paired(rows, "rto", 1.0, "call.mos")
    >>> found.columns
    ['rto', 'mean', 'half_width', 'n', 'low', 'high', 'p']
    >>> print(found["mean"].round(3).to_list(), found["p"].round(2).to_list())
    [0.167] [0.04]
    """
    check_level(level)
    values = rows[axis].drop_nulls().unique(maintain_order=True).to_list()
    if baseline not in values:
        *known, wanted = wording.told_apart([*values, baseline])
        raise AnabranchError(f"`{axis}` is never {wanted}: it is {', '.join(known)}")
    pair = [*by, "replication"]
    base = rows.filter(pl.col(axis) == baseline).select(*pair, pl.col(metric).alias("_base"))
    others = rows.filter(pl.col(axis) != baseline)
    differences = others.join(
        base, on=pair, how="inner", maintain_order="left", validate="m:1", nulls_equal=True
    ).select(*by, axis, (pl.col(metric) - pl.col("_base")).alias("_difference"))
    names = [*by, axis]
    means = cells(differences, names, "_difference", level)
    bounds = estimates(differences, names, "_difference", bca, level)
    _, samples = _samples(differences, names, "_difference")
    p = np.full(len(samples), math.nan)
    for here, some in _of_equal_size(samples):
        p[here] = p_values(some)
    return means.with_columns(bounds["low"], bounds["high"], p=p)


def p_values(samples: np.ndarray) -> np.ndarray:
    """Two-sided p of the t test that a sample (a row) has mean 0; NaN for fewer than two values.

    Examples
    --------
    >>> stats.p_values(np.array([[0.2, 0.1, 0.2], [0.1, -0.1, 0.0]])).round(2).tolist()
    [0.04, 1.0]
    """
    from scipy.stats import ttest_1samp  # noqa: PLC0415 - slow to import

    count, n = samples.shape
    if n < 2:
        return np.full(count, math.nan)
    # Without any spread a difference is certain, and so is none; SciPy gives NaN for both.
    p: np.ndarray = (samples[:, 0] == 0).astype(float)
    varied = np.ptp(samples, axis=1) > 0
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of a spread near 0
        p[varied] = ttest_1samp(samples[varied], 0, axis=1).pvalue
    return p


def per_replication(rows: pl.DataFrame, by: Sequence[str], metric: str) -> pl.DataFrame:
    """The mean over a group's rows within each replication: `by`, replication, the metric.

    A replication is one sample: cells share its random numbers, so a mean over several cells is
    taken within each replication first. Only replications that have every cell of the group count.

    Examples
    --------
    >>> rows = pl.DataFrame(
    ...     {
    ...         "rto": [0.1, 0.1, 0.1, 1.0, 1.0, 1.0],
    ...         "replication": [0, 1, 2, 0, 1, 2],
    ...         "call.mos": [4.1, 4.3, 4.2, 3.9, 4.2, 4.0],
    ...     }
    ... )
    >>> stats.per_replication(rows, [], "call.mos")["call.mos"].round(2).to_list()
    [4.0, 4.25, 4.1]
    """
    groups, flat, ends = _groups(rows, [*by, "replication"], pl.col(metric))
    sizes = np.diff(ends, prepend=0)
    if (sizes > 1).any():
        parts = np.split(flat, ends[:-1])
        flat = np.array([math.fsum(part.tolist()) / len(part) for part in parts])
    means = groups.with_columns(pl.Series(metric, flat), pl.Series("_size", sizes))
    most = pl.col("_size").max().over(by) if by else pl.col("_size").max()
    return means.filter(pl.col("_size") == most).drop("_size")


def _samples(
    rows: pl.DataFrame, by: Sequence[str], metric: str
) -> tuple[pl.DataFrame, list[np.ndarray]]:
    """The groups, and the values of each that are not NaN, in the order of the rows."""
    value = pl.col(metric).cast(pl.Float64)
    groups, flat, ends = _groups(rows, by, value.filter(value.is_not_nan()))
    return groups, np.split(flat, ends[:-1]) if len(ends) else []


def _groups(
    rows: pl.DataFrame, by: Sequence[str], value: pl.Expr
) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """The groups in order of appearance, their values one after the other, and the end of each."""
    lists = value.cast(pl.Float64).alias("_values")
    if by:
        groups = rows.group_by(by, maintain_order=True).agg(lists)
    else:
        groups = rows.select(lists.implode())
    values = groups["_values"]
    sizes = values.list.len()
    # An empty list would become a null among the values.
    flat = values.filter(sizes > 0).explode().to_numpy()
    return groups.drop("_values"), flat, np.cumsum(sizes.to_numpy().astype(np.int64))
