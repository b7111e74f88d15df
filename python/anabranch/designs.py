"""Points of a sweep's `design`: Latin hypercubes and Sobol' sequences, by scipy."""

import numpy as np
from numpy.typing import NDArray

from anabranch._engine import Scenario


def points(kind: str, count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    """Points in the unit cube.

    Parameters
    ----------
    kind
        `latin_hypercube`: each of `count` equal parts of each axis has one point. `sobol`: a
        Sobol' sequence with Owen's scrambling; `count` is a power of two.
    count, dimensions
        How many points of how many numbers.
    seed
        What they are drawn with.

    Returns
    -------
    One row a point, each number from 0 to below 1. The same for the same arguments, whatever the
    platform; a later release of scipy may give others, so a study keeps its points.
    """
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import

    generator = np.random.default_rng(seed)
    sampler = (
        qmc.Sobol(dimensions, scramble=True, rng=generator)
        if kind == "sobol"
        else qmc.LatinHypercube(dimensions, rng=generator)
    )
    return np.asarray(sampler.random(count), dtype=np.float64)


def expanded(scenario: Scenario) -> Scenario:
    """The scenario with the points of those of its designs that have none yet."""
    for part in scenario.parts:
        design = part["design"]
        if design is not None and part["is_open"]:
            of_part = points(design["kind"], design["points"], len(part["axes"]), design["seed"])
            scenario = scenario.with_points(of_part.tolist(), part["study"])
    return scenario
