"""Means with confidence intervals over replications.

The intervals are Student's t for the mean of independent replications (Law, Simulation Modeling and
Analysis, 5th ed., section 4.5). A NaN is a run without a value; it is left out, and `n` counts the
rest.
"""

import math
import statistics
from collections.abc import Sequence

import polars as pl


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, int]:
    """Mean, half-width of its confidence interval and number of the values that are not NaN.

    The half-width is NaN below two values, the mean below one.
    """
    values = [value for value in values if not math.isnan(value)]
    n = len(values)
    mean = statistics.fmean(values) if n else math.nan
    if n < 2:
        return mean, math.nan, n
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

    quantile = float(stdtrit(n - 1, (1 + level) / 2))
    return mean, quantile * statistics.stdev(values, xbar=mean) / math.sqrt(n), n


def cells(rows: pl.DataFrame, by: Sequence[str], metric: str, level: float = 0.95) -> pl.DataFrame:
    """One row a group of `by`, in order of appearance: `by`, mean, half_width, n."""
    return _summarise(rows, by, metric, level)


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

    Replication r of every cell draws from the same random streams, so the difference within a
    replication has most of the noise taken out (Law, section 11.2).

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
    One row a group and value except the baseline: `by`, `axis`, mean of the difference,
    half_width, n.
    """
    pair = [*by, "replication"]
    base = rows.filter(pl.col(axis) == baseline).select(*pair, pl.col(metric).alias("_base"))
    others = rows.filter(pl.col(axis) != baseline)
    differences = others.join(
        base, on=pair, how="inner", maintain_order="left", validate="m:1"
    ).select(*by, axis, (pl.col(metric) - pl.col("_base")).alias("_difference"))
    return _summarise(differences, [*by, axis], "_difference", level)


def _summarise(rows: pl.DataFrame, by: Sequence[str], metric: str, level: float) -> pl.DataFrame:
    # Sums are taken in Python, in the order of the rows: the same bits on any number of threads.
    if by:
        groups = rows.group_by(by, maintain_order=True).agg(pl.col(metric))
    else:
        groups = rows.select(pl.col(metric).implode())
    found = [mean_interval(values, level) for values in groups[metric].to_list()]
    mean, half_width, n = zip(*found, strict=True) if found else ((), (), ())
    return groups.select(by).with_columns(
        pl.Series("mean", mean, dtype=pl.Float64),
        pl.Series("half_width", half_width, dtype=pl.Float64),
        pl.Series("n", n, dtype=pl.UInt32),
    )
