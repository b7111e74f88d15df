"""Checks that the scalars asked for exist, before a study computes for hours."""

from collections.abc import Callable, Iterable, Sequence

from anabranch._engine import Scenario
from anabranch.errors import AnabranchError, suggestion
from anabranch.studies.workers import Threads

_WAIT_SECONDS = 0.2
"""Seconds that a run is waited for before looking again whether to go on."""


def check(
    scenario: Scenario,
    metrics: Sequence[str],
    known: Iterable[str],
    is_cancelled: Callable[[], bool],
) -> None:
    """Raises unless all scalars exist, among the known ones or in another kind of cell.

    Parameters
    ----------
    scenario
        The definition of the study.
    metrics
        The scalars that are asked for.
    known
        The scalars of some runs.
    is_cancelled
        Whether the study has been given up; in that case nothing is checked.
    """
    names = set(known)
    if names.issuperset(metrics):
        return
    others = Threads(scenario, 1)  # another thread, so that this one gets signals meanwhile
    try:
        for cell in _kinds(scenario):
            others.begin([(cell, 0)])
        while others.under_way and not is_cancelled():
            if (batch := others.wait(_WAIT_SECONDS)) is not None:
                names |= batch.columns.keys()
    finally:
        others.close()
    if is_cancelled():
        return
    for metric in metrics:
        if metric not in names:
            raise AnabranchError(f"there is no scalar `{metric}`{suggestion(metric, names)}")


def _kinds(scenario: Scenario) -> list[int]:
    """A few cells with the first values of each axis, as other settings may have other scalars."""
    seen: set[tuple[str, object]] = set()
    kinds = []
    for cell in range(min(scenario.cell_count, 10_000)):
        values = set(scenario.cell_key(cell).items())
        if not values <= seen:
            seen |= values
            kinds.append(cell)
        if len(kinds) == 32:
            break
    return kinds
