"""The interval of one scalar while a study runs: kept up to date batch by batch."""

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anabranch import stats, store
from anabranch.errors import AnabranchError
from anabranch.stats.intervals import student_quantile
from anabranch.support import wording

USUAL = ("*.mos", "*.goodput*")
"""Scalars to watch if none is asked for; the first one that a study has is used."""


def usual(names: Iterable[str]) -> str | None:
    """The scalar to watch if none is asked for."""
    names = list(names)
    return next((name for form in USUAL for name in names if fnmatchcase(name, form)), None)


def usual_of(folder: Path) -> str:
    """The scalar to show of a study folder if none is asked for: the usual one, or the first."""
    store.read_identity(folder)
    known = sorted(store.scalars(folder))
    metric = usual(known) or next(iter(known), None)
    if metric is None:
        raise AnabranchError(f"{folder} has no rows yet: `anabranch sweep` computes them")
    return metric


class Watch:
    """Mean and variance of a scalar in every cell.

    Sums are merged as Chan, Golub and LeVeque do ("Updating formulae and a pairwise algorithm for
    computing sample variances", 1979): numerically stable, in one pass, with any number of values
    at once. They are only shown to people; results are computed from the rows.
    """

    def __init__(self, metric: str, cells: int, level: float = 0.95) -> None:
        stats.check_level(level)
        self.metric = metric
        self._level = level
        self._n = np.zeros(cells)
        self._mean = np.zeros(cells)
        self._squares = np.zeros(cells)

    def add(self, cells: ArrayLike, values: ArrayLike) -> None:
        """Adds the scalar's values in finished runs, each with its cell; NaN means no value."""
        at, new_values = np.asarray(cells, dtype=np.int64), np.asarray(values, dtype=float)
        known = ~np.isnan(new_values)
        at, new_values = at[known], new_values[known]
        touched, group = np.unique(at, return_inverse=True)
        n = np.bincount(group, minlength=len(touched)).astype(float)
        mean = np.bincount(group, new_values, len(touched)) / n
        squares = np.bincount(group, (new_values - mean[group]) ** 2, len(touched))
        before, step = self._n[touched], mean - self._mean[touched]
        self._n[touched] += n
        self._mean[touched] += step * n / (before + n)
        self._squares[touched] += squares + step**2 * before * n / (before + n)

    def half_widths(self) -> NDArray[np.float64]:
        """Half-widths of Student's t interval for every cell; NaN for fewer than two values."""
        enough = np.where(self._n > 1, self._n, math.nan)
        quantile = student_quantile(enough - 1, (1 + self._level) / 2)
        widths: NDArray[np.float64] = quantile * np.sqrt(self._squares / (enough - 1) / enough)
        return widths

    def text(self) -> str:
        """Such as `call.mos 3.91 ± 0.04`.

        For many cells, their range and the typical and widest interval.
        """
        known = self._n > 0
        if not known.any():
            return ""
        means, widths = self._mean[known], self.half_widths()[known]
        widths[widths < 1e-9 * np.abs(means)] = 0.0  # equal values, except for rounding
        widths = widths[~np.isnan(widths)]
        values = wording.number(means.min(), 4)
        if len(means) > 1:
            values += f" to {wording.number(means.max(), 4)} in {len(means)} cells"
        if not len(widths):
            return f"{self.metric} {values}"
        widest = wording.number(widths.max(), 2)
        if len(means) == 1:
            return f"{self.metric} {values} ± {widest}"
        typical = wording.number(float(np.median(widths)), 2)
        return f"{self.metric} {values}, ± {typical} (widest ± {widest})"
