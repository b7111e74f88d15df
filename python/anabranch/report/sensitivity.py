"""Sobol indices from the cells of a design, by SALib (the extra `anabranch[sensitivity]`)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

LEAST = 40
"""Cells from which on indices are estimated; with less, their intervals say nothing."""

_SEED = 1


@dataclass(frozen=True, slots=True)
class Index:
    """The first-order Sobol index of an axis: the part of the variance that it explains alone."""

    name: str
    first_order: float
    half_width: float
    """Of its bootstrap interval."""


def is_available() -> bool:
    """Whether SALib is installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - only here

    return find_spec("SALib") is not None


def sobol_indices(
    columns: Mapping[str, np.ndarray], values: np.ndarray, level: float = 0.95
) -> list[Index]:
    """First-order indices of inputs of any design, largest first; none without SALib.

    The estimator is that of Plischke, Borgonovo and Smith (European Journal of Operational Research
    226, 2013), which needs no design of its own: Latin hypercubes and Sobol' sequences will do.

    Parameters
    ----------
    columns
        The value of each input in each cell.
    values
        The output in each cell; cells without one are left out.
    level
        Confidence level.
    """
    if not columns or not is_available():
        return []
    has = ~np.isnan(values) & ~np.isnan(np.stack(list(columns.values()))).any(axis=0)
    if has.sum() < LEAST or np.ptp(values[has]) == 0:
        return []
    from SALib.analyze import delta  # noqa: PLC0415 - slow to import, and an extra

    inputs = np.column_stack([column[has] for column in columns.values()])
    problem = {
        "num_vars": len(columns),
        "names": list(columns),
        "bounds": [[float(c.min()), float(c.max())] for c in inputs.T],
    }
    with np.errstate(all="ignore"):
        found = delta.analyze(
            problem, inputs, values[has], conf_level=level, seed=_SEED, method="sobol"
        )
    indices = [
        Index(name, float(first), float(half_width))
        for name, first, half_width in zip(columns, found["S1"], found["S1_conf"], strict=True)
    ]
    return sorted(
        indices, key=lambda index: -(0 if math.isnan(index.first_order) else index.first_order)
    )
