"""What the rows of a study show: estimates with confidence intervals, and what is better.

`comparison` compares cells, `metrics` knows of which scalars more is better.
"""

from anabranch.stats.estimators import (
    Estimator,
    cells,
    estimates,
    p_values,
    paired,
    per_replication,
    quantile,
    share,
)
from anabranch.stats.intervals import Interval, check_level, mean_interval
from anabranch.stats.resampling import RESAMPLES, SEED, are_equal, batch, bca

__all__ = [
    "RESAMPLES",
    "SEED",
    "Estimator",
    "Interval",
    "are_equal",
    "batch",
    "bca",
    "cells",
    "check_level",
    "estimates",
    "mean_interval",
    "p_values",
    "paired",
    "per_replication",
    "quantile",
    "share",
]
