"""The best cells for each value of axes that no one chooses: a loss, a delay, other traffic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import polars as pl

from anabranch.errors import AnabranchError
from anabranch.stats import comparison
from anabranch.support import wording
from anabranch.support.columns import axes_of

from .analysis import Analysis

MOST = 60
"""The most combinations of values that fit a page; with more, a study is ranked as a whole."""


@dataclass(frozen=True, slots=True)
class Division:
    """How axes that are given, not chosen, divide the cells of a study or of a sub-study."""

    per: list[str]
    """Those of the given axes that its cells have."""
    choice: list[str]
    """The axes that remain to be chosen."""
    combinations: int
    """The number of combinations of the values of `per`."""


def divisions(cells: pl.DataFrame, per: Sequence[str]) -> dict[str | None, Division]:
    """The division of each sub-study (None without sub-studies) whose cells some axes divide.

    Sub-studies without these axes, without a choice, or with more combinations than `MOST` are left
    out.

    Parameters
    ----------
    cells
        As `store.read_cells` gives them.
    per
        The axes.

    Raises
    ------
    AnabranchError
        When one of these is not an axis, or all sub-studies are left out.
    """
    if not per:
        return {}
    axes = axes_of(cells)
    comparison.axes_left(cells, axes, per)
    parts: dict[str | None, pl.DataFrame] = {None: cells}
    if "study" in cells.columns:
        parts = {str(key): part for (key,), part in cells.group_by("study", maintain_order=True)}
    by_axis: dict[str | None, Division] = {}
    for name, part in parts.items():
        own = [axis for axis in axes if axis in per and part[axis].null_count() < part.height]
        if own and (choice := comparison.axes_left(part, axes, own)):
            by_axis[name] = Division(own, choice, part.select(own).n_unique())
    if not by_axis:
        raise comparison.none_is_left(per)
    least = min(by_axis.values(), key=lambda division: division.combinations)
    if least.combinations > MOST:
        raise AnabranchError(
            f"there are {least.combinations:,} {_combinations(least.per)}: a report has the best"
            f" cells for up to {MOST} of them"
        )
    return {name: of for name, of in by_axis.items() if of.combinations <= MOST}


@dataclass(frozen=True, slots=True)
class Environments:
    """One scalar, ranked separately for each combination of values of some axes."""

    division: Division
    """Which axes are combined, and which are chosen."""
    analyses: list[tuple[str, Analysis]]
    """The description of each combination, and the analysis of its cells."""
    finding: str
    """Which choice is best in all combinations, in a sentence."""

    @classmethod
    def of(cls, rows: pl.DataFrame, whole: Analysis, division: Division) -> Self:
        """The environments of a study, or of a sub-study.

        Parameters
        ----------
        rows
            Rows with the scalar, as `Study.frame` gives them.
        whole
            The analysis of all of these rows.
        division
            The division of these cells.
        """
        analyses = []
        for part in rows.partition_by(division.per, maintain_order=True):
            values = part.row(0, named=True)
            named = ", ".join(
                f"{name} = {whole.shown(name, values[name])}" for name in division.per
            )
            own = Analysis(part, whole.metric, whole.labels, whole.level, matters=whole.matters)
            analyses.append((named, own))
        return cls(division, analyses, _finding(whole, analyses, division))


def _finding(whole: Analysis, analyses: Sequence[tuple[str, Analysis]], division: Division) -> str:
    metric, per, choice = whole.metric, division.per, division.choice
    if whole.maximise is None:
        return f"Whether more of {metric} is better is not known, so none is best."
    known = [(name, analysis) for name, analysis in analyses if not math.isnan(_top(analysis))]
    if not known:
        return f"No run has a value of {metric}."
    ranking = pl.concat(analysis.ranking for _, analysis in known)
    best = comparison.best_everywhere(ranking, choice, per)
    where = (
        f"at each of {len(known)} {_combinations(per)}" if len(known) > 1 else f"at {known[0][0]}"
    )
    if best.is_empty():
        values = ranking.filter(pl.col("mean").is_not_nan()).group_by(choice).len()
        if (values["len"] < len(known)).all():
            return f"No choice has a value of {metric} {where}."
        return f"No choice is best in {metric} {where}: it depends on {' and '.join(per)}."
    is_clear = ranking["verdict"].is_in(["best", "worse"]).all()
    return _best(whole, best, choice, where, is_clear=is_clear)


def _best(
    whole: Analysis, best: pl.DataFrame, choice: Sequence[str], where: str, *, is_clear: bool
) -> str:
    """The first of the choices that may be the best everywhere, and how many others may."""
    metric = whole.metric
    or_equal = f", or within {whole.matters} of the best," if whole.matters.size else ""
    first = best.row(0, named=True)
    named = ", ".join(f"{name} = {whole.shown(name, first[name])}" for name in choice)
    if is_clear:
        return f"{metric} is best with {named} {where}."
    sure = best.filter("is_sure").height
    if sure:
        more = f"; so it is with {wording.counted(sure - 1, 'other choice')}" if sure > 1 else ""
        return f"{metric} is best{or_equal} with {named} {where}{more}."
    others = wording.counted(best.height - 1, "other choice")
    more = f"; {others} may be as well" if best.height > 1 else "; no other choice may be"
    return f"{named} may be best in {metric}{or_equal} {where}{more}."


def _top(analysis: Analysis) -> float:
    return float(analysis.ranking["mean"][0])


def _combinations(per: Sequence[str]) -> str:
    return f"{'values' if len(per) == 1 else 'combinations'} of {' and '.join(per)}"
