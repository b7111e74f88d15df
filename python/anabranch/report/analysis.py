"""The analysis of a scalar for a report: the ranking of its cells, and the effect of each axis."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
import polars as pl
from scipy.special import stdtrit

from anabranch import stats
from anabranch.stats import Interval, comparison, verdicts
from anabranch.stats.labels import NUMBER, labelled, shown
from anabranch.stats.metrics import more_is_better
from anabranch.stats.verdicts import Finding, Matters
from anabranch.support.columns import axes_of
from anabranch.support.wording import told_apart

from .sensitivity import Index, Saltelli, saltelli_indices, sobol_indices

MOST_LEVELS = 12
"""An axis with more values than this is shown in groups of values."""

GROUPS = 5
"""The number of groups, of about equal size, in which such an axis is shown."""

MOST_SCREENED = 1000
"""How many cells, those with the best means, are screened for which may be the best, as each pair
of them is compared.
"""

MOST_PAIRS = 3
"""How many pairs of axes have their interaction drawn."""

LEAST_SHARE = 0.005
"""The share of the variance between cells from which on a pair is drawn besides the first one."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a sweep, as a report shows it."""

    name: str
    labels: list[str]
    """The labels of its values, or of its groups of values."""
    levels: np.ndarray
    """The position of each cell's label; -1 where the cell does not have the axis."""
    numbers: np.ndarray | None
    """The value in each cell, if the axis has numbers."""
    grouped: bool
    """Whether a label stands for several values."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The mean of the cells that have a value of an axis, or a pair of values of two axes."""

    labels: tuple[str, ...]
    interval: Interval
    cells: int
    samples: tuple[float, ...] = ()
    """The mean over these cells in each replication, NaN where it lacks one of them; empty where
    the interval is not that of these means."""
    cell: int | None = None
    """If it is one alone."""


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the variance between cells that an axis or a pair of axes accounts for."""

    name: str
    share: float


class Analysis:
    """One scalar in the cells of a study, or of one of its sub-studies.

    Parameters
    ----------
    rows
        Rows of this scalar, as `Study.frame` gives them.
    metric
        The scalar.
    labels
        How the scenario writes the values of the axes: axis, value as text, label.
    level
        Confidence level.
    design
        The points of the cells, if they are of Saltelli's design.
    matters
        The smallest difference that matters; `verdicts.usual` of the scalar if not given.
    """

    def __init__(
        self,
        rows: pl.DataFrame,
        metric: str,
        labels: Mapping[str, Mapping[str, str]],
        level: float = 0.95,
        *,
        design: Saltelli | None = None,
        matters: Matters | None = None,
    ) -> None:
        stats.check_level(level)
        self.metric = metric
        self.matters = verdicts.usual(metric) if matters is None else matters
        self.level = level
        self.design = design
        self.maximise = more_is_better(metric)
        names = axes_of(rows)
        firsts = rows.group_by("cell", maintain_order=True).first().select("cell", *names)
        self.cells = firsts
        self.labels = labelled(firsts, names, labels)
        self.axes = [_axis(firsts[name], self.labels[name]) for name in names]
        """The axes that differ between cells."""
        self.axes = [axis for axis in self.axes if len(set(axis.levels.tolist())) > 1]
        self.values = _matrix(rows, firsts["cell"], metric)
        """A line for each cell, a column for each replication; NaN where there is no value."""
        self.ranking = self._ranked(rows)
        """The cells from best to worst, as `comparison.best_set` ranks them; only the first
        `MOST_SCREENED` may be `best`. Where it is not known which is better, cells with the largest
        means come first, and none is `best`.
        """

    @property
    def runs(self) -> int:
        """The number of runs that have a value."""
        return int((~np.isnan(self.values)).sum())

    @cached_property
    def finding(self) -> Finding:
        """Which cells are best, and what is in doubt."""
        axes = [axis.name for axis in self.axes]
        return verdicts.of_ranking(
            self.ranking,
            axes,
            self.metric,
            self.matters,
            maximise=self.maximise,
            shown=self.shown,
        )

    def key(self, row: Mapping[str, object]) -> list[tuple[str, str]]:
        """What identifies a cell: the axes that it has, with their values as people write them."""
        return [
            (name, self.shown(name, row[name]))
            for name in self.cells.columns
            if name != "cell" and row[name] is not None
        ]

    def shown(self, axis: str, value: object) -> str:
        """A value as the scenario writes it."""
        return shown(value, self.labels.get(axis, {}))

    @cached_property
    def means(self) -> np.ndarray:
        """The mean of each cell; NaN where no run has a value."""
        known = ~np.isnan(self.values)
        n = known.sum(axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(known, self.values, 0).sum(axis=1) / np.where(n, n, np.nan))

    def effects(self, axis: Axis) -> list[Effect]:
        """The effect of each value of an axis: the mean over all cells that have it."""
        return [
            self._effect((label,), axis.levels == i)
            for i, label in enumerate(axis.labels)
            if (axis.levels == i).any()
        ]

    def interaction(self, first: Axis, second: Axis) -> list[Effect]:
        """The effects of each pair of values of two axes, as far as cells have them."""
        effects = []
        for i, one in enumerate(first.labels):
            for j, other in enumerate(second.labels):
                cells = (first.levels == i) & (second.levels == j)
                if cells.any():
                    effects.append(self._effect((one, other), cells))
        return effects

    @cached_property
    def pairs(self) -> list[tuple[Axis, Axis]]:
        """The pairs of axes that interact most, by the variance that only the pair explains.

        The first of them, and up to `MOST_PAIRS` in all that explain `LEAST_SHARE` or more.
        """
        if not self._variance:
            return []
        shares = [
            (self._of_pair(*pair), pair)
            for pair in combinations(self.axes, 2)
            if not _advance_together(*pair)
        ]
        shares.sort(key=lambda effect: -effect[0])
        return [
            pair
            for i, (share, pair) in enumerate(shares[:MOST_PAIRS])
            if i == 0 or share >= LEAST_SHARE * self._variance
        ]

    @cached_property
    def is_factorial(self) -> bool:
        """Whether the cells are all combinations of the values of their axes, each once."""
        if not self.axes or any(axis.grouped or (axis.levels < 0).any() for axis in self.axes):
            return False
        size = math.prod(len(axis.labels) for axis in self.axes)
        places = {tuple(levels) for levels in np.stack([a.levels for a in self.axes], axis=1)}
        return size == self.cells.height == len(places) and not np.isnan(self.means).any()

    @cached_property
    def shares(self) -> list[Share]:
        """Parts of the variance between the cells' means, the largest first, and the remainders.

        They are exact in a full factorial (the functional decomposition of variance, Hoeffding
        1948, Sobol' 1993): axes and pairs of axes add up with the joint effects of three and more
        axes. Saltelli's design has `indices` instead, even where its points form a full factorial.
        """
        total = self._variance
        if not total or not self.is_factorial or self.design is not None:
            return []
        all_shares = [Share(axis.name, self._of_axis(axis) / total) for axis in self.axes]
        all_shares += [
            Share(f"{one.name} × {other.name}", self._of_pair(one, other) / total)
            for one, other in combinations(self.axes, 2)
        ]
        all_shares.sort(key=lambda share: -share.share)
        if len(self.axes) > 2:
            rest = 1 - sum(share.share for share in all_shares)
            all_shares.append(Share("three axes and more together", max(rest, 0.0)))
        return all_shares

    @cached_property
    def noise(self) -> float:
        """The part of that variance due to replications alone; NaN with fewer than two of them.

        A replication's common effect on all cells does not count.
        """
        if not self._variance:
            return math.nan
        deviations = self.values - self.means[:, np.newaxis]
        known = ~np.isnan(deviations)
        shared = np.where(known, deviations, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        of_means, n = _variances_of_means(deviations - shared)
        return float(np.mean(of_means[n > 0])) / self._variance

    @cached_property
    def _variance(self) -> float:
        """The variance of the cells' means; 0 where they differ by rounding only."""
        means = self.means[~np.isnan(self.means)]
        return float(np.var(means)) if len(means) and not stats.are_equal(means) else 0.0

    @cached_property
    def indices(self) -> list[Index]:
        """Sobol indices from the cells of a design.

        With Saltelli's design they include a total order; otherwise only axes with numbers have
        indices.
        """
        if not self._variance:
            return []
        if self.design is not None:
            return saltelli_indices(self.design.axes, self._at_points, self.level)
        if self.is_factorial or not any(axis.grouped for axis in self.axes):
            return []
        columns = {axis.name: axis.numbers for axis in self.axes if axis.numbers is not None}
        return sobol_indices(columns, self.means, self.level)

    @property
    def points_left_out(self) -> int:
        """Base points of Saltelli's design that `indices` leave out as a cell has no value."""
        return int(np.isnan(self._at_points).any(axis=1).sum())

    @cached_property
    def _at_points(self) -> np.ndarray:
        """The mean in the cell of each point of Saltelli's design; NaN where there is none."""
        assert self.design is not None
        cells = self.cells["cell"].to_numpy()
        means = np.full(1 + max(cells.max(initial=0), self.design.cells.max()), math.nan)
        means[cells] = self.means
        return np.asarray(means[self.design.cells])

    def _of_axis(self, axis: Axis) -> float:
        means = _group_means(self.means, axis.levels)
        return float(np.nanvar(means[axis.levels]))

    def _of_pair(self, one: Axis, other: Axis) -> float:
        """The joint effect of two axes beyond what each does alone."""
        has = (one.levels >= 0) & (other.levels >= 0) & ~np.isnan(self.means)
        if not has.any():
            return 0.0
        means, first, second = self.means[has], one.levels[has], other.levels[has]
        together = first * len(other.labels) + second
        fitted = _group_means(means, together)[together]
        alone = _group_means(means, first)[first] + _group_means(means, second)[second]
        return float(np.nanvar(fitted - alone + means.mean()))

    def _effect(self, labels: tuple[str, ...], cells: np.ndarray) -> Effect:
        """The mean over some cells, each with the same weight.

        A replication that has all of these cells is one sample, as they share its random numbers.
        If no two replications have all cells, the cells' own intervals are combined.
        """
        values, count = self.values[cells], int(cells.sum())
        of_each = values.mean(axis=0)  # NaN where a replication lacks one of the cells
        complete = of_each[~np.isnan(of_each)]
        if len(complete) >= 2 and len(complete) * 2 >= self.values.shape[1]:
            interval = stats.mean_interval(complete.tolist(), self.level)
            one = int(self.cells["cell"][int(np.argmax(cells))]) if count == 1 else None
            return Effect(labels, interval, count, tuple(of_each.tolist()), one)
        means, variances, n = (of[cells] for of in (self.means, *self._of_means))
        has = ~np.isnan(means)
        if not has.any():
            return Effect(labels, Interval(math.nan, math.nan, 0), count)
        least = int(n[has].min())
        quantile = float(stdtrit(least - 1, (1 + self.level) / 2)) if least > 1 else math.nan
        half_width = quantile * math.sqrt(math.fsum(variances[has])) / int(has.sum())
        return Effect(labels, Interval(float(np.mean(means[has])), half_width, least), count)

    def _ranked(self, rows: pl.DataFrame) -> pl.DataFrame:
        by = ["cell", *(name for name in self.cells.columns if name != "cell")]
        maximise = self.maximise is not False
        order = np.argsort(-self.means if maximise else self.means, kind="stable")  # NaN last
        first = pl.DataFrame(self.cells["cell"][order[:MOST_SCREENED]])
        screened = rows.join(first, on="cell", how="semi", maintain_order="left")
        ranked = comparison.best_set(
            screened, by, self.metric, maximise=maximise, level=self.level, matters=self.matters
        )
        if self.maximise is None:
            ranked = ranked.with_columns(best=pl.lit(value=False), verdict=pl.lit("worse"))
        if len(order) <= MOST_SCREENED:
            return ranked
        others = rows.join(first, on="cell", how="anti", maintain_order="left")
        means = stats.cells(others, by, self.metric, self.level)
        known = pl.col("mean").fill_nan(None)
        means = means.sort(known, descending=maximise, nulls_last=True, maintain_order=True)
        rest = means.with_columns(
            pl.int_range(len(first) + 1, len(order) + 1, dtype=pl.UInt32).alias("rank"),
            best=pl.lit(value=False),
            verdict=pl.lit("worse"),
        )
        return pl.concat([ranked, rest], how="diagonal")

    @cached_property
    def _of_means(self) -> tuple[np.ndarray, np.ndarray]:
        """The variance of each cell's mean, and the number of runs behind it."""
        return _variances_of_means(self.values - self.means[:, np.newaxis])


def _variances_of_means(deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variance of each line's mean, from its values' deviations, and the number of values."""
    known = ~np.isnan(deviations)
    n = known.sum(axis=1)
    squares = np.where(known, deviations, 0) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n < 2, math.nan, squares.sum(axis=1) / (n - 1) / n), n


def _advance_together(one: Axis, other: Axis) -> bool:
    """Whether each value of one axis comes (almost) always with the same value of the other."""
    met = set(zip(one.levels.tolist(), other.levels.tolist(), strict=True))
    return len(met) <= max(len(set(one.levels.tolist())), len(set(other.levels.tolist())))


def _matrix(rows: pl.DataFrame, cells: pl.Series, metric: str) -> np.ndarray:
    position = np.full(int(cells.to_numpy().max(initial=0)) + 1, -1)
    position[cells.to_numpy()] = np.arange(len(cells))
    replications, columns = np.unique(rows["replication"].to_numpy(), return_inverse=True)
    matrix = np.full((len(cells), len(replications)), math.nan)
    matrix[position[rows["cell"].to_numpy()], columns] = rows[metric].to_numpy()
    return matrix


def _axis(column: pl.Series, labels: Mapping[str, str]) -> Axis:
    values = column.drop_nulls().unique(maintain_order=True)
    numeric = column.dtype.is_numeric()
    numbers = column.cast(pl.Float64).fill_null(math.nan).to_numpy() if numeric else None
    if numbers is not None and len(values) > MOST_LEVELS:
        known = numbers[~np.isnan(numbers)]
        edges = np.unique(np.quantile(known, np.linspace(0, 1, GROUPS + 1)))
        levels = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
        texts = _ranges(edges, labels)
        levels = np.where(np.isnan(numbers), -1, levels)
        return Axis(column.name, texts, levels, numbers, grouped=True)
    ordered = values.sort() if numeric else values
    place = {value: i for i, value in enumerate(ordered)}
    levels = np.array([place.get(value, -1) for value in column])
    return Axis(column.name, [shown(v, labels) for v in ordered], levels, numbers, grouped=False)


def _ranges(edges: np.ndarray, labels: Mapping[str, str]) -> list[str]:
    """Ranges of values, in the unit that the scenario uses if all have the same."""
    scale, unit = 1.0, ""
    ranges = [
        (float(value), text, label[text.end() :])
        for value, label in labels.items()
        if (text := NUMBER.match(label)) and float(value)
    ]
    if ranges and len({rest for *_, rest in ranges}) == 1:
        value, text, unit = ranges[-1]
        scale = float(text[0]) / value
    ends = told_apart((edges * scale).tolist(), 3, lambda end, digits: f"{end:.{digits}g}")
    return [f"{low}–{high}{unit}" for low, high in pairwise(ends)]


def _group_means(means: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The mean at each level; cells without a level or a value are left out."""
    has = (levels >= 0) & ~np.isnan(means)
    size = int(levels.max()) + 1
    sums = np.bincount(levels[has], means[has], size)
    counts = np.bincount(levels[has], minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(counts > 0, sums / counts, math.nan))
