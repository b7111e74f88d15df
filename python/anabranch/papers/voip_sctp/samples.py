"""Runs of the paper's configurations, and intervals of means and of differences over them.

A replication is one sample: where a number is a mean over several cells (Table 2 averages nine
delay combinations), the cells are averaged within each replication first, because replications
share their random numbers over cells. For the same reason two sets of cells are compared by their
difference within each replication.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from anabranch import stats as anabranch_stats

FACTORS = ["delay_centric", "wait0_ms", "wait1_ms", "loss0", "loss1", "pmr", "rto_max_s"]


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


def prediction_half_width(samples: np.ndarray) -> float:
    """Half-width of the 95 % interval in which one more run falls.

    What a single published run is compared with.
    """
    n = len(samples)
    if n < 2:
        return math.nan
    return float(stats.t.ppf(0.975, n - 1) * samples.std(ddof=1) * math.sqrt(1 + 1 / n))


def tidy(rows: pl.DataFrame) -> pl.DataFrame:
    """A study's rows with the paper's factors and the call's columns by short names.

    Factors that are no axis of the study are left out; quantities are in s, losses shares.
    """
    axes = {
        "delay_centric": pl.col("delay_centric").cast(pl.String),
        "wait0": (
            (pl.col("wait0").cast(pl.Float64) * 1000).round(0).cast(pl.Int64).alias("wait0_ms")
        ),
        "wait1": (
            (pl.col("wait1").cast(pl.Float64) * 1000).round(0).cast(pl.Int64).alias("wait1_ms")
        ),
        "loss0": _share(rows, "loss0"),
        "loss1": _share(rows, "loss1"),
        "loss": _share(rows, "loss").alias("loss_share"),
        "pmr": pl.col("pmr").cast(pl.Int64),
        "rto_max": pl.col("rto_max").cast(pl.Float64).alias("rto_max_s"),
        "setting": pl.col("setting").cast(pl.String),
        "potentially_failed": pl.col("potentially_failed").cast(pl.String),
    }
    call = [
        pl.col(name).alias(name.removeprefix("call."))
        for name in rows.columns
        if name.startswith("call.")
    ]
    present = [expression for name, expression in axes.items() if name in rows.columns]
    return rows.select(pl.col("replication").cast(pl.Int64), *present, *call)


def _share(rows: pl.DataFrame, name: str) -> pl.Expr:
    if rows.schema.get(name) == pl.String:
        return (pl.col(name).str.strip_suffix("%").str.strip_chars().cast(pl.Float64) / 100).round(
            6
        )
    return pl.col(name).cast(pl.Float64).round(6)


@dataclass(frozen=True)
class Runs:
    """Runs of the paper's configurations under one loss clock, one row each.

    FACTORS, `replication`, `mos`, ...
    """

    frame: pl.DataFrame
    clock: str

    def where(self, **factors: Any) -> "Runs":
        """The runs whose factors have these values (a list: any of them)."""
        conditions = [
            (
                pl.col(name).is_in(list(value))
                if isinstance(value, list | tuple)
                else pl.col(name) == value
            )
            for name, value in factors.items()
        ]
        return Runs(self.frame.filter(conditions), self.clock)

    def both_losses(self, loss: float) -> "Runs":
        """The runs with this mean loss on both paths."""
        return self.where(loss0=loss, loss1=loss)

    def at_25_ms(self) -> "Runs":
        """Mean queue delays of 25 ms on both paths."""
        return self.where(wait0_ms=25, wait1_ms=25)

    def per_replication(self, value: str = "mos") -> dict[int, float]:
        """The mean over the cells within each replication.

        For the replications that have every cell.
        """
        counted = self.frame.group_by("replication").agg(
            pl.col(value).mean(), pl.len().alias("cells")
        )
        if counted.is_empty():
            return {}
        complete = counted.filter(pl.col("cells") == pl.col("cells").max()).sort("replication")
        return dict(zip(complete["replication"].to_list(), complete[value].to_list(), strict=True))

    def mean(self, value: str = "mos") -> Interval:
        """The mean over all cells."""
        return interval(self.per_replication(value).values())

    def minus(self, other: "Runs", value: str = "mos") -> Interval:
        """The mean difference on common random numbers."""
        return difference(self.per_replication(value), other.per_replication(value))

    def by(self, names: list[str], value: str = "mos") -> pl.DataFrame:
        """For each combination of these factors: mean, half_width, n, over replications.

        Other factors averaged.
        """
        within = self.frame.group_by([*names, "replication"]).agg(
            pl.col(value).mean(), pl.len().alias("cells")
        )
        complete = within.filter(pl.col("cells") == pl.col("cells").max().over(names)).sort(
            *names, "replication"
        )
        return anabranch_stats.cells(complete, names, value)


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> Interval:
    """The interval of the mean difference over the replications that both have."""
    return interval([first[key] - second[key] for key in first if key in second])


def table2_means(runs: Runs) -> pl.DataFrame:
    """Table 2 as ours: rto_max_s, delay_centric, pmr, mean, half_width, n.

    10 % loss on both paths.
    """
    return runs.both_losses(0.1).by(["rto_max_s", "delay_centric", "pmr"])


def rto_column(means: pl.DataFrame, state: str, pmr: int) -> pl.DataFrame:
    """One column of Table 2 in the paper's order, RTO.Max falling."""
    return means.filter(delay_centric=state, pmr=pmr).sort("rto_max_s", descending=True)


def variance(half_width: float, n: int) -> float:
    """The samples' variance from their mean's half-width; 0 for one sample."""
    return float(half_width**2 * n / stats.t.ppf(0.975, n - 1) ** 2) if n > 1 else 0.0
