"""Runs of the paper's configurations, and intervals of means and of differences over them.

A replication is one sample: where a number is a mean over several cells (Table 2 averages nine
delay combinations), the cells are averaged within each replication first, because replications
share their random numbers over cells. For the same reason two sets of cells are compared by their
difference within each replication.
"""

from typing import Self

import polars as pl

from anabranch.papers import runs

FACTORS = ["delay_centric", "wait0_ms", "wait1_ms", "loss0", "loss1", "pmr", "rto_max_s"]


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


class Runs(runs.Runs):
    """Runs of the paper's configurations under one loss clock, one row each.

    FACTORS, `replication`, `mos`, ...
    """

    VALUE = "mos"

    @property
    def clock(self) -> str:
        """The loss clock."""
        return self.profile

    def both_losses(self, loss: float) -> Self:
        """The runs with this mean loss on both paths."""
        return self.where(loss0=loss, loss1=loss)

    def at_25_ms(self) -> Self:
        """Mean queue delays of 25 ms on both paths."""
        return self.where(wait0_ms=25, wait1_ms=25)


def table2_means(runs: Runs) -> pl.DataFrame:
    """Table 2 as ours: rto_max_s, delay_centric, pmr, mean, half_width, n.

    10 % loss on both paths.
    """
    return runs.both_losses(0.1).by(["rto_max_s", "delay_centric", "pmr"])
