"""The best cells for each value of axes that nobody chooses: a loss, a delay, who else is there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import polars as pl

from anabranch import comparison, terminal

from .analysis import Analysis

MOST = 60
"""Combinations of values that fit a page; with more, a study is ranked as a whole."""


@dataclass(frozen=True, slots=True)
class Environments:
    """One scalar, ranked for each combination of the values of some axes by itself."""

    per: list[str]
    """The axes; those of the study that this part of it has."""
    found: list[tuple[str, Analysis]]
    """What each combination is, and its cells."""
    finding: str
    """Which choice is best in all of them, in a sentence."""

    @classmethod
    def of(cls, rows: pl.DataFrame, whole: Analysis, per: Sequence[str]) -> Self | None:
        """Those of a study, or of a sub-study.

        None where none of `per` is there to divide it, or divides it into more than `MOST`, as the
        points of a design do.

        Parameters
        ----------
        rows
            As `Study.frame` gives them, with the scalar.
        whole
            The analysis of all of these rows.
        per
            Axes of the study.
        """
        names = [name for name in whole.cells.columns if name in per]
        own = [name for name in names if rows[name].null_count() < rows.height]
        choice = [axis.name for axis in whole.axes if axis.name not in own]
        if not own or not choice or rows.select(pl.struct(own).n_unique()).item() > MOST:
            return None
        found = []
        for part in rows.partition_by(own, maintain_order=True):
            values = part.row(0, named=True)
            named = ", ".join(f"{name} = {whole.shown(name, values[name])}" for name in own)
            found.append((named, Analysis(part, whole.metric, whole.labels, whole.level)))
        return cls(own, found, _finding(whole, found, own, choice))


def _finding(
    whole: Analysis, found: Sequence[tuple[str, Analysis]], per: Sequence[str], choice: list[str]
) -> str:
    metric = whole.metric
    if whole.maximise is None:
        return f"Whether more of {metric} is better is not known, so none is best."
    known = [(name, analysis) for name, analysis in found if not math.isnan(_top(analysis))]
    if not known:
        return f"No run has a value of {metric}."
    ranking = pl.concat(analysis.ranking for _, analysis in known)
    best = comparison.best_everywhere(ranking, whole.cells.columns, per)
    where = (
        f"at each of {len(known)} {_combinations(per)}" if len(known) > 1 else f"at {known[0][0]}"
    )
    if best.is_empty():
        return f"No choice may have the best {metric} {where}: it depends on {_and(per)}."
    first = best.row(0, named=True)
    named = ", ".join(f"{name} = {whole.shown(name, first[name])}" for name in choice)
    if int(ranking["best"].sum()) == len(known):
        return f"{metric} is best with {named} {where}."
    others = terminal.counted(best.height - 1, "other choice")
    more = f"so may {others}" if best.height > 1 else "no other choice may"
    return f"{named} may have the best {metric} {where}; {more}."


def _top(analysis: Analysis) -> float:
    return float(analysis.ranking["mean"][0])


def _combinations(per: Sequence[str]) -> str:
    return f"{'values' if len(per) == 1 else 'combinations'} of {_and(per)}"


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
