"""Points of a sweep's `design`: Latin hypercubes, Sobol' sequences and Saltelli's, by scipy."""

from typing import TYPE_CHECKING

from anabranch._engine import Scenario

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def points(kind: str, count: int, dimensions: int, seed: int) -> "NDArray[np.float64]":
    """Points in the unit cube.

    Parameters
    ----------
    kind
        `latin_hypercube`: each of `count` equal parts of each axis has one point. `sobol`: a Sobol'
        sequence with Owen's scrambling; `count` is a power of two. `saltelli`: `count` points of
        such a sequence in twice the dimensions, each cut into two halves, A and B. Each gives as
        many points as there are dimensions, plus two: A; A with its first number replaced by B's, A
        with its second replaced, and so on; B (Saltelli et al., Computer Physics Communications
        181, 2010; the order is SALib's).
    count, dimensions
        The number of points, and how many numbers each has.
    seed
        The seed of the random numbers.

    Returns
    -------
    One row for each point, with numbers from 0 to below 1. The same arguments give the same points
    on all platforms, but a later release of scipy may give others, so a study keeps its points. The
    points of `sobol` and `saltelli` begin with those of half the count.
    """
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import

    if kind == "saltelli":
        return _crossed(qmc.Sobol(2 * dimensions, scramble=True, rng=seed).random(count))
    sampler = (
        qmc.Sobol(dimensions, scramble=True, rng=seed)
        if kind == "sobol"
        else qmc.LatinHypercube(dimensions, rng=seed)
    )
    drawn: NDArray[np.float64] = sampler.random(count)
    return drawn


def _crossed(pairs: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """From rows of A and B, the rows A, A with each number of B in turn, and B."""
    dimensions = pairs.shape[1] // 2
    a, b = pairs[:, :dimensions], pairs[:, dimensions:]
    crossed = a[:, None].repeat(dimensions + 2, axis=1)
    for i in range(dimensions):
        crossed[:, i + 1, i] = b[:, i]
    crossed[:, -1] = b
    return crossed.reshape(-1, dimensions)


def expanded(scenario: Scenario) -> Scenario:
    """The scenario with points for those of its designs that have none yet."""
    for part in scenario.parts:
        design = part["design"]
        if design is not None and part["is_open"]:
            of_part = points(design["kind"], design["points"], len(part["axes"]), design["seed"])
            scenario = scenario.with_points(of_part.tolist(), part["study"])
    return scenario
