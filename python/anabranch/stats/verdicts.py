"""Verdicts: what is best, what is equal to it for all purposes, and what is still open.

Reports, sweeps, comparisons, notebooks and advice say them in the same words. A difference is
judged by its interval and by the smallest difference that matters: whether an interval lies within
what does not matter is a test of equivalence (Schuirmann, Journal of Pharmacokinetics and
Biopharmaceutics 15, 1987). docs/statistics.md explains both.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import polars as pl

from anabranch.errors import AnabranchError
from anabranch.stats.metrics import more_is_better
from anabranch.support import wording

Word = Literal["equal", "open", "resolved"]
"""A difference is too small to matter, within its interval, or neither."""

_NAMED = 2
"""The most cells whose names stand in a sentence."""


class Matters(NamedTuple):
    """The smallest difference that matters: in the scalar's unit, or a share of its value."""

    size: float
    is_share: bool = False

    def of(self, value: float) -> float:
        """In the scalar's unit, for this value."""
        return self.size * abs(value) if self.is_share else self.size

    def __str__(self) -> str:
        """Such as `0.1` or `5 %`."""
        size = wording.number(100 * self.size if self.is_share else self.size, 4)
        return f"{size} %" if self.is_share else size


NOTHING = Matters(0.0)
"""Every difference matters."""

MOS = Matters(0.1)
"""Nobody hears less."""

SHARE = Matters(0.05, is_share=True)
"""Of scalars in other units."""


def usual(metric: str) -> Matters:
    """What matters of a scalar unless the reader says otherwise.

    That is every difference in a scalar of which nobody knows whether more is better.
    """
    if metric.rpartition(".")[2] == "mos":
        return MOS
    return NOTHING if more_is_better(metric) is None else SHARE


def matters(text: str) -> Matters:
    """Parses what `--matters` takes, such as `0.1` or `5%`.

    Raises
    ------
    AnabranchError
        When it is neither.
    """
    match = re.fullmatch(r"\s*([0-9]*[.]?[0-9]+(?:e-?[0-9]+)?)\s*(%?)\s*", text)
    size = float(match[1]) if match else math.inf
    if match is None or not math.isfinite(size):
        raise AnabranchError(
            f"what matters is `{text}`; it must be a number from 0 on in the scalar's unit, such as"
            " 0.1, or a share such as 5%"
        )
    return Matters(size / 100, is_share=True) if match[2] else Matters(size)


def of_difference(difference: float, half_width: float, least: float) -> Word:
    """The verdict on a difference with the half-width of its interval (NaN if it has none).

    `least` is the smallest difference that matters, in the same unit.
    """
    if abs(difference) + half_width <= least:  # not where the half-width is NaN
        return "equal"
    return "resolved" if abs(difference) > half_width else "open"


def with_verdicts(ranking: pl.DataFrame, what: Matters) -> pl.DataFrame:
    """A ranking with a column `verdict`.

    `ranking` is what `comparison.best_set` makes of one set of cells. The verdict is `best` for
    rank 1, `equal` where all of the interval of what a cell is behind is too small to matter,
    `open` where the cell may yet be the best, and `worse` otherwise.
    """
    least = what.of(float(ranking["mean"][0])) if len(ranking) else 0.0
    most_behind = (pl.col("behind") + pl.col("behind_half_width")).fill_nan(None)
    return ranking.with_columns(
        verdict=pl.when((pl.col("rank") == 1) & pl.col("mean").is_not_nan())
        .then(pl.lit("best"))
        .when(most_behind <= least)
        .then(pl.lit("equal"))
        .when("best")
        .then(pl.lit("open"))
        .otherwise(pl.lit("worse"))
    )


@dataclass(frozen=True)
class Region:
    """The values of some axes that all good cells have, and no cell that is worse."""

    axes: dict[str, list[Any]]
    """The axes that matter, each with the values that are good, in order."""
    words: str
    """Such as `rto_max from 0.16 s up with pmr = 0`."""


@dataclass(frozen=True)
class Finding:
    """A verdict in words."""

    sentence: str
    """What is best."""
    doubt: str | None = None
    """What cannot be told yet."""
    worst: str | None = None
    """The other end of the ranking."""
    region: Region | None = None

    def __str__(self) -> str:
        """The verdict, then the doubt, then what is worst."""
        return " ".join(filter(None, (self.sentence, self.doubt, self.worst)))


Shown = Callable[[str, Any], str]
"""An axis and one of its values -> the value as people write it."""


def of_ranking(
    ranking: pl.DataFrame,
    axes: Sequence[str],
    metric: str,
    what: Matters,
    *,
    maximise: bool | None = True,
    shown: Shown | None = None,
) -> Finding:
    """The verdict on a ranking.

    Parameters
    ----------
    ranking
        `with_verdicts` of it; rows without a value are passed over.
    axes
        The axes that differ between its cells.
    metric
        The scalar.
    what
        The smallest difference that matters.
    maximise
        Whether more is better; where that is not known (None), nothing is best.
    shown
        How values of axes are written; as tables of numbers do if it is not given.
    """
    known = ranking.filter(pl.col("n") > 0)
    if known.is_empty():
        return Finding(f"No run has a value of {metric}.")
    words = _Words(known, axes, metric, what, shown or _told_apart(known, axes))
    first, last = known.row(0, named=True), known.row(-1, named=True)
    if known.height == 1:
        return Finding(f"{metric} is {wording.with_interval(first)}.")
    if first["mean"] == last["mean"]:
        value = wording.with_interval(first)
        return Finding(f"{metric} is {value} in each of {known.height:,} cells.")
    if maximise is None:
        return Finding(
            f"{metric} is highest with {words.of(first)}: {wording.with_interval(first)};"
            f" lowest with {words.of(last)}: {wording.with_interval(last)}."
        )
    return words.finding()


class _Words:
    """The sentences about a ranking with values, of which it is known what is good."""

    def __init__(
        self,
        known: pl.DataFrame,
        axes: Sequence[str],
        metric: str,
        what: Matters,
        shown: Shown,
    ) -> None:
        self._known, self._axes, self._metric, self._what = known, axes, metric, what
        self._shown = shown
        self._first = known.row(0, named=True)
        self._equal = known.filter(pl.col("verdict") == "equal")
        self._open = known.filter(pl.col("verdict") == "open")

    def of(self, row: Mapping[str, Any]) -> str:
        """A cell's values on the axes that differ; its number where there are none."""
        named = ", ".join(
            f"{axis} = {self._shown(axis, row[axis])}"
            for axis in self._axes
            if row[axis] not in (None, "")
        )
        return named or f"cell {row['cell']}"

    def finding(self) -> Finding:
        """The verdict, and the doubt about it."""
        value, where = wording.with_interval(self._first), self.of(self._first)
        least = f"within {self._what} of the best"
        every = "in every run" if self._is_certain(self._equal) else least
        if 1 + self._equal.height == self._known.height:
            return Finding(
                f"{self._metric} is equal in all {self._known.height:,} cells, {every}: {value}"
                f" with {where}."
            )
        region = _region(self._known, self._axes, self._shown)
        if region is not None:
            inside = self._known.filter(_within(region.axes))
            good = inside.filter(pl.col("verdict") != "open").height
            cells = (
                f"the {good:,}" if good == inside.height else f"{good:,} of the {inside.height:,}"
            )
            said = (
                f"{region.words} is all that matters for {self._metric}: {cells} cells there are"
                f" {least}, {value} with {where}"
            )
        elif self._equal.is_empty() and not self._open.is_empty():
            said = f"{where} has the best mean of {self._metric}: {value}"
        else:
            said = f"{self._metric} is best with {where}: {value}"
            if not self._equal.is_empty():
                verb = "is" if self._equal.height == 1 else "are"
                said += f"; {self._names(self._equal)} {verb} equal, {every}"
        return Finding(f"{said}.", self._doubt(), self._worst(), region)

    def _worst(self) -> str:
        last = self._known.row(-1, named=True)
        return f"The worst is {wording.with_interval(last)}, with {self.of(last)}."

    def _names(self, cells: pl.DataFrame) -> str:
        names = [self.of(row) for row in cells.head(_NAMED).iter_rows(named=True)]
        more = cells.height - len(names)
        if more:
            names = [names[0], f"{more + len(names) - 1:,} more"]
        return " and ".join(names)

    @staticmethod
    def _is_certain(cells: pl.DataFrame) -> bool:
        """Whether these cells are equal to the first in every run."""
        return bool(((cells["behind"] == 0) & (cells["behind_half_width"] == 0)).all())

    def _doubt(self) -> str | None:
        """A sentence about cells of which it cannot be told whether they are as good."""
        if self._open.is_empty():
            return None
        nearest = self._open.row(0, named=True)
        runs = min(self._first["n"], nearest["n"])
        said = doubt(self._names(self._open), runs, nearest["resolved_by"])
        return f"{said[0].upper()}{said[1:]}." if runs < 2 else f"{said}."


def _told_apart(known: pl.DataFrame, axes: Sequence[str]) -> Shown:
    """Writes values as tables do, with enough digits to tell those of an axis apart."""
    texts = {
        axis: dict(zip(known[axis].to_list(), wording.told_apart(known[axis]), strict=True))
        for axis in axes
    }
    return lambda axis, value: texts[axis][value]


def _region(known: pl.DataFrame, axes: Sequence[str], shown: Shown) -> Region | None:
    """The region of the good cells, if there are two or more and it has no worse cell."""
    good = known.filter(pl.col("verdict").is_in(["best", "equal"]))
    # Of very many cells only the first are compared; nothing is known of the others.
    if good.height < 2 or known["behind"].null_count():
        return None
    kept, words = dict[str, list[Any]](), []
    for axis in axes:
        if known[axis].null_count():
            return None
        every = known[axis].unique().sort().to_list()
        is_ordered = known[axis].dtype.is_numeric()
        there = set(good[axis].to_list())
        places = [i for i, value in enumerate(every) if value in there]
        # Where an axis has an order, what lies between good values is good unless a cell is worse.
        values = every[places[0] : places[-1] + 1] if is_ordered else [every[i] for i in places]
        if len(values) < len(every):
            kept[axis] = values
            words.append(_range(axis, values, every, shown, is_ordered=is_ordered))
    if not kept or (known.filter(_within(kept))["verdict"] == "worse").any():
        return None
    first, *others = words
    if not others:
        return Region(kept, first)
    *before, last = others
    more = f"{', '.join(before)} and {last}" if before else last
    return Region(kept, f"{first} with {more}")


def _within(axes: Mapping[str, Sequence[Any]]) -> pl.Expr:
    return pl.all_horizontal(pl.col(axis).is_in(list(values)) for axis, values in axes.items())


def _range(
    axis: str, values: Sequence[Any], every: Sequence[Any], shown: Shown, *, is_ordered: bool
) -> str:
    """Values of an axis in words."""
    if len(values) == 1 or not is_ordered:
        *most, last = (shown(axis, value) for value in values)
        return f"{axis} = {', '.join(most)}{' or ' if most else ''}{last}"
    low, high = shown(axis, values[0]), shown(axis, values[-1])
    if values[-1] == every[-1]:
        return f"{axis} from {low} up"
    return f"{axis} up to {high}" if values[0] == every[0] else f"{axis} from {low} to {high}"


def needed(replications: float) -> str:
    """How many replications would suffice, in words with two digits, as it is an estimate."""
    if math.isnan(replications):
        return "no number of replications would"
    digits = 10 ** max(len(str(int(replications))) - 2, 0)
    return f"about {math.ceil(replications / digits) * digits:,} would"


def doubt(others: str, replications: int, resolved_by: float) -> str:
    """What cannot be told from the best after so many replications, and how many would do."""
    if replications < 2:
        return (
            "what else is as good cannot be told: a difference needs two replications or more to"
            " have an interval"
        )
    counted = wording.counted(replications, "replication")
    return f"{others} cannot be told from it after {counted} ({needed(resolved_by)})"
