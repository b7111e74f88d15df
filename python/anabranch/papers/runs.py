"""Runs of a paper's cells, one row each, and means over them.

A replication is one sample: where a number is a mean over several cells, the cells are averaged
within each replication first, because replications share their random numbers over cells. For the
same reason two sets of cells are compared by their difference within each replication.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import polars as pl

from anabranch import stats

from .intervals import Interval, difference, interval

Setting = bool | int | float | str
"""A value of a factor."""
Factor = Setting | Sequence[Setting]
"""A value of a factor, or several."""


def repeated(rows: pl.DataFrame) -> str:
    """How many runs the cells of these rows have each, from their column `replication`."""
    if rows.is_empty():
        return "no"
    sizes = rows.group_by("replication").len()["len"]
    least, most = int((sizes == sizes.max()).sum()), len(sizes)
    return f"{most}" if least == most else f"{least} to {most}"


@dataclass(frozen=True)
class Runs:
    """Rows of factors, `replication` and values, under one profile: a loss clock, a reading."""

    frame: pl.DataFrame
    profile: str

    VALUE: ClassVar[str]
    """The value that is meant where none is named."""

    def where(self, **factors: Factor) -> Self:
        """The runs whose factors have these values (a list: any of them); all without factors."""
        if not factors:
            return self
        conditions = [
            pl.col(name).is_in(list(value))
            if isinstance(value, list | tuple)
            else pl.col(name).eq(value)
            for name, value in factors.items()
        ]
        return replace(self, frame=self.frame.filter(conditions))

    def balanced(self) -> Self:
        """Only the replications that every cell has.

        Where some cells have more, they are compared with the others on the same random numbers.
        """
        cells = pl.col("cell_runs")
        counted = self.frame.with_columns(cell_runs=pl.len().over("replication"))
        return replace(self, frame=counted.filter(cells == cells.max()).drop("cell_runs"))

    @property
    def repeated(self) -> str:
        """How many runs each cell has: `10`, or `3 to 10` where some have more."""
        return repeated(self.frame)

    def per_replication(self, value: str | None = None) -> dict[int, float]:
        """The mean over the cells within each replication.

        For the replications that have every cell.
        """
        value = value or self.VALUE
        counted = self.frame.group_by("replication").agg(
            pl.col(value).mean(), pl.len().alias("cells")
        )
        if counted.is_empty():
            return {}
        complete = counted.filter(pl.col("cells") == pl.col("cells").max()).sort("replication")
        return dict(zip(complete["replication"].to_list(), complete[value].to_list(), strict=True))

    def mean(self, value: str | None = None) -> Interval:
        """The mean over all cells."""
        return interval(self.per_replication(value).values())

    def minus(self, other: Self, value: str | None = None) -> Interval:
        """The mean difference on common random numbers."""
        return difference(self.per_replication(value), other.per_replication(value))

    def by(self, names: list[str], value: str | None = None) -> pl.DataFrame:
        """The mean of each combination of these factors, with half_width and n, over replications.

        Other factors averaged.
        """
        value = value or self.VALUE
        within = self.frame.group_by([*names, "replication"]).agg(
            pl.col(value).mean(), pl.len().alias("cells")
        )
        complete = within.filter(pl.col("cells") == pl.col("cells").max().over(names)).sort(
            *names, "replication"
        )
        return stats.cells(complete, names, value)
