"""Which of several alternatives is best, as every paper's page says it: by the paired best set."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from anabranch.stats import verdicts
from anabranch.stats.comparison import best_set
from anabranch.support.wording import counted

from .intervals import Interval
from .runs import Runs


@dataclass(frozen=True)
class Best:
    """The alternatives that may be the best one (95 %), the best mean first."""

    candidates: list[Any]
    """Values of the column that was compared, or tuples of several columns' values."""
    mean: Interval
    """The mean of the first candidate."""
    resolved_by: float
    """About how many replications would tell the first two apart; NaN where none would."""

    @property
    def is_resolved(self) -> bool:
        """Whether it is known which one is best."""
        return len(self.candidates) == 1 and math.isfinite(self.mean.half_width)

    def doubt(self, others: str) -> str:
        """What cannot be told from the first candidate, and how many replications would do."""
        return verdicts.doubt(others, self.mean.n, self.resolved_by)

    @property
    def others(self) -> str:
        """How many candidates there are besides the first, in words."""
        return counted(len(self.candidates) - 1, "other")


def ranked(
    runs: Runs, by: Sequence[str], value: str | None = None, *, maximise: bool = True
) -> pl.DataFrame:
    """What `comparison.best_set` says about the groups of `by`, other factors averaged."""
    return best_set(
        runs.frame,
        list(by),
        value or runs.VALUE,
        maximise=maximise,
        matters=verdicts.NOTHING,  # a paper asks which one is best, however little it leads
    )


def best(runs: Runs, by: Sequence[str], value: str | None = None, *, maximise: bool = True) -> Best:
    """Which groups of `by` may be the best one, on common random numbers."""
    ranking = ranked(runs, by, value, maximise=maximise)
    first = ranking.row(0, named=True)
    may_be = ranking.filter("best")
    keys = may_be.select(by).rows()
    return Best(
        [key[0] if len(by) == 1 else key for key in keys],
        Interval(first["mean"], first["half_width"], first["n"]),
        math.nan if may_be.height < 2 else float(may_be["resolved_by"][1]),
    )
