"""Sequential stopping: as many replications as the wanted half-width requires.

A study with `until = { metric, half_width }` continues in each cell until the interval of the
metric's mean is as narrow as asked. That is decided only at fixed looks: after `least`
replications, then after each growth by a quarter, and finally at `most`. A look uses only the
cell's first replications, so the result never depends on how the work was split, stopped and
resumed.

The rule is that of Chow and Robbins (Annals of Mathematical Statistics 36, 1965; Law, Simulation
Modeling and Analysis, 5th ed., section 9.4.1). In the limit of small half-widths its interval
covers as asked. Before that it covers less, because a study is more likely to stop where the
variance happens to look small. Three things limit this: `least` replications, looks that are not
close to each other, and that a few equal values do not count as certainty (docs/statistics.md has
the measured coverage).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anabranch import stats
from anabranch.stats.intervals import student_quantile

LEVEL = 0.95
LEAST = 10
MOST = 1000
GROWTH = 1.25
"""The replications at a look divided by those at the previous look."""
EQUAL = 59
"""From this many equal values on they count as having no spread: a different value that one run in
twenty has would have been among them with probability 0.95 (1 - 0.95^59).
"""


def looks(until: Mapping[str, Any]) -> list[int]:
    """The numbers of replications after which `until` is checked, ascending.

    The first is `least`, the last is `most`.
    """
    most = int(until.get("most", MOST))
    wanted = [min(int(until.get("least", LEAST)), most)]
    while wanted[-1] < most:
        wanted.append(min(math.ceil(wanted[-1] * GROWTH), most))
    return wanted


def next_look(replications: int, until: Mapping[str, Any]) -> int | None:
    """The first look after this many replications; None after the last one."""
    return next((look for look in looks(until) if look > replications), None)


def replications_needed(
    values: Sequence[float] | np.ndarray, until: Mapping[str, Any]
) -> int | None:
    """How many of a cell's replications suffice.

    Parameters
    ----------
    values
        The metric in replications 0, 1, ... of one cell. A NaN is a run without a value: it counts
        as a replication but says nothing about the mean.
    until
        `half_width`, in the metric's unit, and where they differ from 0.95, 10 and 1000: `level`,
        `least`, `most`.

    Returns
    -------
    The number at the first look at which the interval is no wider than asked, or `most` if the
    interval never is; None if more replications are needed to decide.

    Raises
    ------
    AnabranchError
        When the level is not between 0 and 1.
    """
    level = until.get("level", LEVEL)
    stats.check_level(level)
    seen = np.asarray(values, dtype=float)
    at = looks(until)
    reached = [look for look in at if look <= len(seen)]
    n, widths = _half_widths(seen, np.array(reached, dtype=int), level)
    narrow = (widths <= float(until["half_width"])) & ((widths > 0) | (n >= EQUAL))
    enough = np.flatnonzero(narrow)
    if len(enough):
        return reached[int(enough[0])]
    return at[-1] if len(reached) == len(at) else None


def _half_widths(values: np.ndarray, at: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The number of values in the first `at` replications, and Student's t half-width.

    The half-width is NaN for fewer than two values.
    """
    known = ~np.isnan(values)
    if not known.any() or not len(at):
        return np.zeros(len(at)), np.full(len(at), math.nan)
    # Sums of differences from the first value lose no digits to a large mean, and a longer series
    # has the same sums at the same positions.
    offset = np.where(known, values - values[np.argmax(known)], 0.0)
    n, total, squares = (np.cumsum(terms)[at - 1] for terms in (known, offset, offset**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(squares - total**2 / n, 0) / (n - 1)
        half_widths = student_quantile(n - 1, (1 + level) / 2) * np.sqrt(variance / n)
    return n, np.where(n < 2, math.nan, half_widths)
