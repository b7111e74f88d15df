"""Sobol indices from the cells of a design, by SALib (the extra `anabranch[sensitivity]`)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from anabranch import stats

LEAST = 40
"""Cells, or base points of Saltelli's design, below which no indices are estimated, as their
intervals would say nothing.
"""

_SEED = 1
_RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class Saltelli:
    """The points of a sweep's design of kind `saltelli`."""

    axes: list[str]
    cells: np.ndarray
    """The cell of each point, with a line for each base point: A, A with the first axis of B, A
    with the second, ..., B. Several points may share a cell.
    """


@dataclass(frozen=True, slots=True)
class Index:
    """Sobol indices of an axis, with the half-widths of their bootstrap intervals."""

    name: str
    first_order: float
    """The part of the variance that the axis explains alone."""
    half_width: float
    total_order: float = math.nan
    """The part that it explains alone or with others; NaN where the design does not allow it."""
    total_half_width: float = math.nan


def is_available() -> bool:
    """Whether SALib is installed."""
    return find_spec("SALib") is not None


def sobol_indices(
    columns: Mapping[str, np.ndarray], values: np.ndarray, level: float = 0.95
) -> list[Index]:
    """First-order indices of inputs of any design, largest first; none without SALib.

    The estimator is that of Plischke, Borgonovo and Smith (European Journal of Operational Research
    226, 2013), which works with any design, such as Latin hypercubes and Sobol' sequences.

    Parameters
    ----------
    columns
        The value of each input in each cell.
    values
        The output in each cell; cells without one are left out.
    level
        Confidence level.
    """
    stats.check_level(level)
    if not columns or not is_available():
        return []
    has = ~np.isnan(values) & ~np.isnan(np.stack(list(columns.values()))).any(axis=0)
    if has.sum() < LEAST or stats.are_equal(values[has]):
        return []
    from SALib.analyze import delta  # noqa: PLC0415 - slow to import, and an extra

    inputs = np.column_stack([column[has] for column in columns.values()])
    problem = {
        "num_vars": len(columns),
        "names": list(columns),
        "bounds": [[float(c.min()), float(c.max())] for c in inputs.T],
    }
    with np.errstate(all="ignore"):
        estimates = delta.analyze(
            problem, inputs, values[has], conf_level=level, seed=_SEED, method="sobol"
        )
    indices = [
        Index(name, float(first), float(half_width))
        for name, first, half_width in zip(
            columns, estimates["S1"], estimates["S1_conf"], strict=True
        )
    ]
    return sorted(
        indices, key=lambda index: -(0 if math.isnan(index.first_order) else index.first_order)
    )


def saltelli_indices(axes: Sequence[str], values: np.ndarray, level: float = 0.95) -> list[Index]:
    """First-order and total-order indices, largest total order first; none without SALib.

    The estimators are those of Saltelli et al. (Computer Physics Communications 181, 2010), for the
    total order Jansen's.

    Parameters
    ----------
    axes
        The names of the axes.
    values
        The output at each point, with a line for each base point as in `Saltelli.cells`; base
        points that lack a value are left out.
    level
        Confidence level.
    """
    stats.check_level(level)
    values = values[~np.isnan(values).any(axis=1)]
    if not is_available() or len(values) < LEAST or stats.are_equal(values[:, [0, -1]].ravel()):
        return []
    from SALib.analyze import sobol  # noqa: PLC0415 - slow to import, and an extra

    problem = {"num_vars": len(axes), "names": list(axes), "bounds": [[0.0, 1.0]] * len(axes)}
    raw = sobol.analyze(
        problem,
        values.ravel(),
        calc_second_order=False,
        num_resamples=_RESAMPLES,
        conf_level=level,
        seed=_SEED,
    )
    columns = (raw[key].tolist() for key in ("S1", "S1_conf", "ST", "ST_conf"))
    indices = [Index(*of_axis) for of_axis in zip(axes, *columns, strict=True)]
    return sorted(indices, key=lambda index: -index.total_order)
