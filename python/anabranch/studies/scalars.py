"""Checks that the scalars asked for exist, before a study computes for hours."""

from collections.abc import Sequence

from anabranch._engine import Scenario
from anabranch.support import declared


def check(scenario: Scenario, metrics: Sequence[str]) -> None:
    """Raises an AnabranchError unless all scalars exist in some kind of cell."""
    missing = set(metrics)
    names: set[str] = set()
    for cell in _kinds(scenario):
        if not missing:
            return
        names.update(scenario.scalars(cell))
        missing -= names
    for metric in metrics:
        if metric in missing:
            raise declared.no_scalar(metric, names)


def _kinds(scenario: Scenario) -> list[int]:
    """A few cells with the first values of each axis, as other settings may have other scalars."""
    seen: set[tuple[str, object]] = set()
    kinds: list[int] = []
    for cell in range(min(scenario.cell_count, 10_000)):
        values = set(scenario.cell_key(cell).items())
        if not kinds or not values <= seen:
            seen |= values
            kinds.append(cell)
        if len(kinds) == 32:
            break
    return kinds
