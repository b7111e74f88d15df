"""What is better: the best cells of a study, two settings side by side, and doubts about either.

Replication r of every cell draws from the same random streams, so cells are compared by their
differences within each replication. docs/statistics.md has the methods with their sources.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from anabranch import stats
from anabranch.errors import AnabranchError
from anabranch.stats import Interval, labels, verdicts
from anabranch.stats.intervals import student_quantile
from anabranch.stats.metrics import more_is_better
from anabranch.stats.verdicts import Matters
from anabranch.support import declared, wording
from anabranch.support.columns import axes_of
from anabranch.support.views import views

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Selection = Mapping[str, Any] | int | Sequence[int]
"""Selects cells by values of axes (all cells that have them), by a cell's number, or by several."""

MOST_REPLICATIONS = 10**9
"""Above this, no number of replications is said to be enough."""

_BLOCK = 128
"""How many rows are compared with all others at a time."""

_ROUNDING = 1e-9
"""A bound on the relative rounding error of a sum of squares, many times what it really is."""


def keys_of(rows: pl.DataFrame) -> list[str]:
    """The columns of a study's rows that identify its cells: the sub-study, and the axes."""
    axes = axes_of(rows)
    return [name for name in rows.columns if name == "study" or name in axes]


def best_set(
    rows: pl.DataFrame,
    by: Sequence[str],
    metric: str,
    *,
    per: Sequence[str] = (),
    maximise: bool | None = None,
    level: float = 0.95,
    matters: Matters | None = None,
) -> pl.DataFrame:
    """The groups of `by` from best to worst, and which of them may be the best.

    The set contains the truly best group with a probability of at least `level`: a group is left
    out if another one beats it in a one-sided paired t test at (1 - level) / (groups - 1). This is
    the screening of Nelson, Swann, Goldsman and Song (Operations Research 49, 2001), with
    Bonferroni's level since common random numbers correlate the groups (Nelson and Matejcik,
    Management Science 41, 1995).

    Parameters
    ----------
    rows
        Rows of a study.
    by
        The columns whose combinations are compared. Where several cells belong to one, they are
        averaged within each replication.
    metric
        A scalar. A group without any value of it is never best; one with a single value may be.
    per
        The columns of `by` that no one chooses, such as a loss: groups are compared separately for
        each combination of their values, each time with probability `level`.
    maximise
        Whether more is better; if not given, what the scalar's name says.
    level
        Confidence level.
    matters
        The smallest difference that matters; `verdicts.usual` of the scalar if not given.

    Returns
    -------
    One row for each group, sorted by rank, one combination of `per` after the other: `by`, mean,
    half_width (t), n, rank (1 is best), best (whether it may be), behind (how much worse than rank
    1 in the replications that both have), behind_half_width (simultaneous: at the level of the
    screening), resolved_by (about how many replications would tell it from rank 1, or show that
    what is between them is too small to matter; NaN if none would), verdict
    (`verdicts.with_verdicts`).
    """
    stats.check_level(level)
    _check_metric(rows, metric)
    if maximise is None and (maximise := more_is_better(metric)) is None:
        raise AnabranchError(
            f"whether more of `{metric}` is better is not known: say maximise=True or False"
        )
    if per:
        if not axes_left(rows, [name for name in by if name != "cell"], per):
            raise none_is_left(per)
        parts = rows.partition_by(per, maintain_order=True)
        return pl.concat(
            best_set(part, by, metric, maximise=maximise, level=level, matters=matters)
            for part in parts
        )
    samples = stats.per_replication(rows, by, metric)
    groups = stats.cells(samples, by, metric, level)
    sign = 1 if maximise else -1
    groups = groups[np.argsort(-sign * groups["mean"].to_numpy(), kind="stable")]  # NaN last
    values = sign * _matrix(samples, groups.select(by), metric)
    rivals = int(groups["mean"].is_not_nan().sum())
    tail = 1 - (1 - level) / max(rivals - 1, 1)
    best = _screened(values, rivals, tail)
    n, behind, deviation = _differences(values[:1], values)
    with np.errstate(invalid="ignore"):
        behind_half_width = _t_quantile(n, tail) * deviation / np.sqrt(n)
    resolved_by = np.full(len(values), math.nan)
    others = np.flatnonzero(best)
    others = others[others > 0]
    what = verdicts.usual(metric) if matters is None else matters
    least = what.of(float(groups["mean"][0])) if len(groups) else 0.0
    apart = np.maximum(behind[others], least - behind[others])
    resolved_by[others] = enough(apart, deviation[others], tail)
    ranking = groups.with_columns(
        pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).alias("rank"),
        best=best,
        behind=behind,
        behind_half_width=behind_half_width,
        resolved_by=resolved_by,
    )
    return verdicts.with_verdicts(ranking, what)


def axes_left(cells: pl.DataFrame, axes: Sequence[str], per: Sequence[str]) -> list[str]:
    """The axes that remain to be chosen: they vary among cells with the same values of `per`.

    An axis that advances with one of `per` is not among them.

    Raises
    ------
    AnabranchError
        Unless all of `per` are axes.
    """
    for name in per:
        _check_axis(name, axes)
    others = [name for name in axes if name not in per]
    values = cells.group_by(list(dict.fromkeys(per))).agg(pl.col(others).n_unique())
    return [name for name in others if (values[name] > 1).any()]


def none_is_left(per: Sequence[str]) -> AnabranchError:
    """The error to raise where `axes_left` finds none."""
    return AnabranchError(f"there is one cell for each {' and '.join(per)}: none is left to choose")


def best_everywhere(
    ranking: pl.DataFrame, choice: Sequence[str], per: Sequence[str]
) -> pl.DataFrame:
    """The choices that may be the best, or are equal to it, for every combination of `per`.

    Parameters
    ----------
    ranking
        The result of `best_set` with this `per`. Combinations without any value are left out.
    choice
        The `axes_left`: a choice is a set of their values.

    Returns
    -------
    One row for each choice, with those on top that are surely good, and among them the one that is
    most often first: `choice`, is_sure (whether it is the best or equal to it for every
    combination), firsts (the number of combinations in which it has rank 1).
    """
    known = ranking.filter(pl.col("best").any().over(per))
    combinations = known.select(per).unique().height
    chosen = known.filter(pl.col("verdict") != "worse").group_by(choice, maintain_order=True)
    return (
        chosen.agg(
            pl.len().alias("_good"),
            is_sure=(pl.col("verdict") != "open").all(),
            firsts=(pl.col("rank") == 1).sum(),
        )
        .filter(pl.col("_good") == combinations)
        .drop("_good")
        .sort("is_sure", "firsts", descending=True, maintain_order=True)
    )


def judged(
    rows: pl.DataFrame,
    metric: str,
    level: float = 0.95,
    matters: Matters | None = None,
    shown: verdicts.Shown | None = None,
) -> tuple[pl.DataFrame, list[str]]:
    """A table of the cells, and the verdicts on them; `shown` writes the values of axes there.

    Returns
    -------
    `stats.cells` of each cell with its `keys_of` and, if it is known whether more of the scalar is
    better, a column `verdict`, as `best_set` has it within its sub-study. Also a sentence or two
    for each sub-study that say which cells are best, and what is in doubt.
    """
    stats.check_level(level)
    _check_metric(rows, metric)
    axes = keys_of(rows)
    by = ["cell", *axes]
    table = stats.cells(rows, by, metric, level)
    if more_is_better(metric) is None or len(table) < 2:
        return table, []
    what = verdicts.usual(metric) if matters is None else matters
    parts = rows.partition_by("study", maintain_order=True) if "study" in axes else [rows]
    rankings = [best_set(part, by, metric, level=level, matters=what) for part in parts]
    found = pl.concat(ranking.select("cell", "verdict") for ranking in rankings)
    sentences = [_found(ranking, axes, metric, what, shown) for ranking in rankings]
    return table.join(found, on="cell", how="left", maintain_order="left"), sentences


def _found(
    ranking: pl.DataFrame,
    axes: Sequence[str],
    metric: str,
    what: Matters,
    shown: verdicts.Shown | None,
) -> str:
    """The verdict on the cells of a study or a sub-study, in a sentence or two."""
    differ = [name for name in axes if ranking[name].n_unique() > 1]
    said = verdicts.of_ranking(ranking, differ, metric, what, shown=shown)
    return f"In {ranking['study'][0]}: {said}" if "study" in axes else str(said)


def enough(
    difference: float | np.ndarray, deviation: float | np.ndarray, tail: float
) -> np.ndarray:
    """How many replications resolve differences, if these and their deviations are as estimated.

    The smallest number n with t(tail, n - 1) * deviation / sqrt(n) < |difference|; NaN where there
    is none up to `MOST_REPLICATIONS`.
    """
    least = np.full(np.shape(difference), 2)
    most = np.full_like(least, MOST_REPLICATIONS)
    while (least < most).any():
        n = (least + most) // 2
        resolved = _t_quantile(n, tail) * deviation / np.sqrt(n) < np.abs(difference)
        most = np.where(resolved, n, most)
        least = np.where(resolved, least, np.minimum(n + 1, most))
    return np.where(least < MOST_REPLICATIONS, least, math.nan)


@dataclass(frozen=True)
class Comparison:
    """A metric in two selections of cells, and the difference of the first minus the second."""

    metric: str
    names: tuple[str, str]
    """The selections in words, such as `rto_max = 0.1`."""
    means: tuple[Interval, Interval]
    """The mean of each selection; for paired runs, over the replications that both have."""
    difference: Interval
    """Student's t for pairs, Welch's otherwise; `n` counts the pairs, or the smaller sample."""
    low: float
    high: float
    """The difference's BCa interval."""
    p: float
    """The two-sided p-value of the t test that there is no difference."""
    paired: bool
    """Whether the difference is a mean of differences within replications."""
    maximise: bool | None
    """Whether more is better; None if that is not known."""
    level: float
    needed: float
    """About how many replications would resolve a difference of this size, or show that it is too
    small to matter; NaN if none would.
    """
    matters: Matters
    """The smallest difference that matters; a share is one of the second mean."""

    def __repr__(self) -> str:
        """The result in plain words, with any doubts."""
        return "\n".join(filter(None, (self.sentence, self.doubt)))

    def _repr_html_(self) -> str:
        """The result in plain words with its figure, for a notebook."""
        return views().of_comparison(self)

    def plot(self) -> "Figure":
        """The means of both selections, and the difference, each with its interval."""
        return views().figure_of_comparison(self)

    @property
    def resolved(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        return self.difference.positive or self.difference.negative

    @property
    def verdict(self) -> verdicts.Word:
        """Whether the difference is too small to matter (`equal`), `resolved` or `open`."""
        difference, least = self.difference, self.matters.of(self.means[1].mean)
        return verdicts.of_difference(difference.mean, difference.half_width, least)

    @property
    def better(self) -> str | None:
        """The selection that is better; None if none is, or if that is not resolved or known."""
        if self.verdict != "resolved" or self.maximise is None:
            return None
        return self.names[0 if self.difference.positive == self.maximise else 1]

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        first, second = (wording.number(mean.mean, 4) for mean in self.means)
        interval = self.difference
        numbers = (
            f"{first} against {second}, a difference of {wording.number(interval.mean, 3)}"
            f" ± {wording.number(interval.half_width, 2)} ({100 * self.level:g} %"
            f" {'paired t' if self.paired else 'Welch'}; BCa {wording.number(self.low, 3)} to"
            f" {wording.number(self.high, 3)}; p = {self.p:.2g};"
            f" {interval.n} {'pairs' if self.paired else 'runs or more each'})"
        )
        both = f"at {self.names[0]} and {self.names[1]}"
        if self.verdict == "equal":
            is_certain = (interval.mean, interval.half_width) == (0, 0)
            how = "in every run" if is_certain else f"within {self.matters}"
            return f"`{self.metric}` is equal {both}, {how}: {numbers}"
        if self.verdict == "open":
            return f"`{self.metric}` cannot be told apart {both}: {numbers}"
        how = "higher" if interval.positive else "lower"
        if self.maximise is not None:
            how += ", so better," if self.better == self.names[0] else ", so worse,"
        return f"`{self.metric}` is {how} at {self.names[0]} than at {self.names[1]}: {numbers}"

    @property
    def doubt(self) -> str | None:
        """A sentence when the interval leaves the verdict open; None otherwise."""
        interval = self.difference
        if self.verdict == "equal":
            return None
        if self.verdict == "resolved":
            least = self.matters.of(self.means[1].mean)
            if abs(interval.mean) - interval.half_width >= least:
                return None
            return f"the difference may be too small to matter: less than {self.matters}"
        if math.isnan(interval.half_width):
            return "a difference needs two replications or more to have an interval"
        return (
            f"the interval is wider than the difference: {interval.n} replications do not resolve"
            f" it; {verdicts.needed(self.needed)}"
        )


def compare(
    rows: pl.DataFrame,
    a: Selection,
    b: Selection,
    metric: str,
    *,
    maximise: bool | None = None,
    level: float = 0.95,
    matters: Matters | None = None,
    axes: labels.Axes = (),
) -> Comparison:
    """Compares a scalar in two selections of cells, a minus b.

    Cells with the same values on the axes that neither selection names are compared with each
    other; a cell without such a partner is left out. If the partners are not one to one, the mean
    over each selection's cells is compared. Both ways compare within each replication if the
    selections have at least two replications in common, and as independent samples (Welch)
    otherwise.

    Parameters
    ----------
    rows
        Rows of a study.
    a, b
        Values of axes, `{"rto_max": 0.1}` or `{"rto_max": "100 ms"}`, or numbers of cells.
    metric
        A scalar.
    maximise
        Whether more is better; if not given, what the scalar's name says.
    level
        Confidence level.
    matters
        The smallest difference that matters; `verdicts.usual` of the scalar if not given.
    axes
        The axes of the study's scenario, which say how values are written.

    Raises
    ------
    AnabranchError
        When a selection names an axis or value that does not exist, or has no value of the scalar.
    """
    stats.check_level(level)
    _check_metric(rows, metric)
    shown = labels.written(rows, keys_of(rows), axes)
    (first_rows, name_a), (other_rows, name_b) = (_selected(rows, of, axes, shown) for of in (a, b))
    sides, names = (first_rows, other_rows), (name_a, name_b)
    if set(sides[0]["cell"]) == set(sides[1]["cell"]):
        raise AnabranchError(f"{names[0]} and {names[1]} are the same cells")
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        sides = _matched(sides, [axis for axis in keys_of(rows) if axis not in {*a, *b}])
    values = [
        stats.per_replication(side, [], metric).filter(pl.col(metric).is_not_nan())
        for side in sides
    ]
    for name, samples in zip(names, values, strict=True):
        if samples.is_empty():
            raise AnabranchError(f"`{metric}` never has a value in all cells of {name} at once")
    both = values[0].join(values[1], on="replication", suffix="_b", maintain_order="left")
    first, second = (side[metric].to_numpy() for side in values)
    if paired := len(both) >= 2 or max(len(first), len(second)) < 2:
        first, second = both[metric].to_numpy(), both[f"{metric}_b"].to_numpy()
        difference, p, deviation = _paired(first, second, level)
    else:
        difference, p, deviation = welch(first, second, level)
    low, high = _bca(first, second, level, paired=paired)
    means = (_interval(first, level), _interval(second, level))
    what = verdicts.usual(metric) if matters is None else matters
    apart = max(abs(difference.mean), what.of(means[1].mean) - abs(difference.mean))
    return Comparison(
        metric=metric,
        names=names,
        means=means,
        difference=difference,
        low=low,
        high=high,
        p=p,
        paired=paired,
        maximise=more_is_better(metric) if maximise is None else maximise,
        level=level,
        needed=float(enough(apart, deviation, (1 + level) / 2)),
        matters=what,
    )


def _paired(first: np.ndarray, second: np.ndarray, level: float) -> tuple[Interval, float, float]:
    """The mean difference, p, and the standard deviation of the differences."""
    estimate = _interval(first - second, level)
    deviation = float(np.std(first - second, ddof=1)) if estimate.n > 1 else math.nan
    return estimate, float(stats.p_values((first - second)[np.newaxis])[0]), deviation


def welch(first: np.ndarray, second: np.ndarray, level: float) -> tuple[Interval, float, float]:
    """The same for independent samples with different variances (Welch, Biometrika 34, 1947)."""
    from scipy.stats import ttest_ind  # noqa: PLC0415 - slow to import

    stats.check_level(level)
    n = min(len(first), len(second))
    mean = stats.mean_interval(first.tolist()).mean - stats.mean_interval(second.tolist()).mean
    if n < 2:
        return Interval(mean, math.nan, n), math.nan, math.nan
    deviation = math.sqrt(np.var(first, ddof=1) + np.var(second, ddof=1))
    if deviation == 0:  # a difference is certain, and so is none; of both SciPy says NaN
        return Interval(mean, 0.0, n), float(mean == 0), 0.0
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of a spread near 0
        test = ttest_ind(first, second, equal_var=False)
        low, high = test.confidence_interval(level)
    return Interval(mean, float(high - low) / 2, n), float(test.pvalue), deviation


def _bca(
    first: np.ndarray, second: np.ndarray, level: float, *, paired: bool
) -> tuple[float, float]:
    """The BCa interval of the difference of two means."""
    from scipy.stats import bootstrap  # noqa: PLC0415 - slow to import

    if paired:
        _, low, high = stats.bca((first - second)[np.newaxis, :], level)
        return float(low[0]), float(high[0])
    if min(len(first), len(second)) < 2:
        return math.nan, math.nan
    if stats.are_equal(first) and stats.are_equal(second):
        return (float(first[0] - second[0]),) * 2
    resampled = bootstrap(
        (first, second),
        lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        n_resamples=stats.RESAMPLES,
        batch=stats.batch(len(first) + len(second)),
        confidence_level=level,
        rng=np.random.default_rng(stats.SEED),
    ).confidence_interval
    return float(resampled.low), float(resampled.high)


def _interval(values: np.ndarray, level: float) -> Interval:
    return stats.mean_interval(values.tolist(), level)


def _matrix(samples: pl.DataFrame, groups: pl.DataFrame, metric: str) -> np.ndarray:
    """One row for each group, one column for each replication, NaN where there is no value."""
    # The groups are joined on a number, as their values may be text, or floats such as NaN.
    intervals = (
        samples.join(groups.with_row_index("_row"), on=groups.columns, how="left", nulls_equal=True)
        if groups.columns
        else samples.with_columns(_row=pl.lit(0))
    )
    replications, columns = np.unique(intervals["replication"].to_numpy(), return_inverse=True)
    matrix = np.full((len(groups), len(replications)), math.nan)
    matrix[intervals["_row"].to_numpy(), columns] = intervals[metric].to_numpy()
    return matrix


class _Rivals(NamedTuple):
    """The rows to screen, in the form that sums over pairs of them need."""

    values: np.ndarray
    is_complete: bool
    """Whether no value is missing."""
    has: np.ndarray
    """1 for a value, 0 for a missing one."""
    centred: np.ndarray
    """The values less the mean of all rows in the replication, which cancels in differences; 0
    where a value is missing.
    """
    squares: np.ndarray
    """The squares of the centred values."""
    sums: np.ndarray
    """The sum of each row's centred values."""
    sizes: np.ndarray
    """The sum of each row's squares."""


class _Leads(NamedTuple):
    """Sums, for each pair of rows, over the replications that both have."""

    n: Any
    """The number of these replications; a single number if no value is missing."""
    lead: np.ndarray
    """The sum of the differences, the first row's values minus the other's."""
    spread: np.ndarray
    """The sum of the squares of the differences."""
    size: np.ndarray
    """The sum of the squares of both rows' values, to which the rounding of the other sums is
    relative.
    """


def _rivals(values: np.ndarray, rivals: int) -> _Rivals:
    known = ~np.isnan(values)
    counts = np.maximum(known[:rivals].sum(axis=0), 1)
    shared = np.nan_to_num(np.nansum(values[:rivals], axis=0) / counts, posinf=0, neginf=0)
    centred = np.where(known, values - shared, 0)
    squares = centred**2
    return _Rivals(
        values=values,
        is_complete=bool(known[:rivals].all()),
        has=known.astype(float),
        centred=centred,
        squares=squares,
        sums=centred.sum(axis=1),
        sizes=squares.sum(axis=1),
    )


def _leads(rows: _Rivals, block: np.ndarray, others: np.ndarray) -> _Leads:
    """Compares each row of the block with each of the others, by products of matrices."""
    size = np.add.outer(rows.sizes[block], rows.sizes[others])
    centred, has, squares = rows.centred, rows.has, rows.squares
    if rows.is_complete:
        n: Any = rows.values.shape[1]
        lead, spread = np.subtract.outer(rows.sums[block], rows.sums[others]), size.copy()
    else:
        n = (has[block] @ has[others].T).astype(np.intp)
        lead = centred[block] @ has[others].T - has[block] @ centred[others].T
        spread = squares[block] @ has[others].T + has[block] @ squares[others].T
    spread -= centred[block] @ (2 * centred[others]).T
    return _Leads(n, lead, spread, size)


@np.errstate(invalid="ignore")
def _screened(values: np.ndarray, rivals: int, tail: float) -> np.ndarray:
    """Which rows no other row beats; the first `rivals` rows have values.

    Sums over all pairs are matrix products. Where their rounding could decide, the differences
    themselves are used.
    """
    left = np.zeros(len(values), dtype=bool)
    # Equal rows do not beat each other, and others beat all of them or none.
    firsts: dict[bytes, int] = {}
    equal_to = [firsts.setdefault(row.tobytes(), i) for i, row in enumerate(values[:rivals])]
    different = np.array(list(firsts.values()), dtype=int)
    left[different] = True
    rows = _rivals(values, rivals)
    number = np.arange(values.shape[1] + 1)
    quantiles = _t_quantile(number, tail)
    squared = quantiles * np.abs(quantiles)
    n_squared, bounds = number * squared, _ROUNDING * number * (number + quantiles**2)
    for start in range(0, len(different), _BLOCK):
        block, others = different[start : start + _BLOCK], different[left[different]]
        if rows.is_complete:
            others = others[others > block[0]]  # the order of the means is that of the differences
        n, lead, spread, size = _leads(rows, block, others)
        # The test mean > t deviation / sqrt(n), with both sides squared and multiplied by n^2 (n -
        # 1).
        excess = lead * ((n - 1) * np.abs(lead) + squared[n] * lead) - n_squared[n] * spread
        rounding = bounds[n] * size
        left[others[(excess > rounding).any(axis=0)]] = False
        unsure = (np.abs(excess) <= rounding) & np.not_equal.outer(block, others)
        for i in np.flatnonzero(unsure.any(axis=1)):
            close = others[unsure[i] & left[others]]
            if rows.is_complete:
                close = close[close > block[i]]
            left[_beaten(values, block[i], close, quantiles)] = False
    left[:rivals] = left[equal_to]
    return left


def _beaten(values: np.ndarray, row: int, others: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Those of the other rows that a row beats, by the differences themselves."""
    n, mean, deviation = _differences(values[row : row + 1], values[others])
    beaten: np.ndarray = others[mean > quantiles[n] * deviation / np.sqrt(n)]
    return beaten


def _differences(
    first: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number, mean and standard deviation of the first row minus each other; NaN if too few."""
    difference = first - others
    known = ~np.isnan(difference)
    n = known.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, difference, 0).sum(axis=1) / n
        squares = np.where(known, difference - mean[:, np.newaxis], 0) ** 2
        return n, mean, np.sqrt(squares.sum(axis=1) / (n - 1))


def _t_quantile(n: Any, probability: float) -> np.ndarray:
    """Student's t for a mean of n values; NaN for fewer than two."""
    freedom = np.where(np.asarray(n) < 2, math.nan, np.asarray(n) - 1.0)
    return student_quantile(freedom, probability)


def _selected(
    rows: pl.DataFrame, selection: Selection, scenario_axes: labels.Axes, shown: verdicts.Shown
) -> tuple[pl.DataFrame, str]:
    """The rows of a selection, and the selection in words."""
    if not isinstance(selection, Mapping):
        wanted = [selection] if isinstance(selection, int | np.integer) else list(selection)
        there = set(rows["cell"])
        for cell in wanted:
            if cell not in there:
                raise AnabranchError(f"there are no rows of cell {cell}")
        name = "cell" if isinstance(selection, int | np.integer) else "cells"
        named = f"{name} {', '.join(map(str, wanted))}"
        return rows.filter(pl.col("cell").is_in(wanted)), named
    axes, whole = keys_of(rows), rows
    by_label = labels.values_by_label(scenario_axes)
    key = {}
    for axis, value in selection.items():
        _check_axis(axis, axes)
        own = _values(rows, axis)
        found = labels.meant(own, value, _values(whole, axis), by_label.get(axis, {}))
        if found is None:
            *_, never = wording.told_apart([*own, value])
            raise AnabranchError(
                f"`{axis}` is never {never}"
                f"{' where the rest is as selected' if len(selection) > 1 else ''}: it is"
                f" {', '.join(shown(axis, of) for of in own)}"
            )
        key[axis] = found
        rows = rows.filter(pl.col(axis) == found)
    return rows, labels.key_text(key, shown) or "all cells"


def _values(rows: pl.DataFrame, axis: str) -> list[Any]:
    return rows[axis].drop_nulls().unique(maintain_order=True).to_list()


def _check_axis(name: str, axes: Sequence[str]) -> None:
    if name not in axes:
        allowed = f"the axes are {', '.join(axes)}" if axes else "the study has none"
        raise AnabranchError(f"there is no axis `{name}`: {allowed}")


def _matched(
    sides: tuple[pl.DataFrame, pl.DataFrame], others: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The cells of each side with a partner on the other; all cells, if that is not one to one."""
    if not others:
        return sides
    cells = [side.select("cell", *others).unique() for side in sides]
    if any(rows.select(others).is_duplicated().any() for rows in cells):
        return sides
    both = cells[0].select(others).join(cells[1].select(others), on=others, nulls_equal=True)
    if both.is_empty():
        return sides
    first, second = (side.join(both, on=others, how="semi", nulls_equal=True) for side in sides)
    return first, second


def _check_metric(rows: pl.DataFrame, metric: str) -> None:
    if metric not in rows.columns:
        raise declared.no_scalar(metric, rows.columns)
