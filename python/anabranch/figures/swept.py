"""An axis of a sweep as figures show it: unit, order, and whether it was swept in equal ratios."""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import polars as pl

from anabranch._engine import Scenario
from anabranch.support import quantities, wording

Value = float | str | bool | None

_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:e[+-]?[0-9]+)?)\s*(\D.*)")

_WIDE = 8.0
"""From this ratio of the largest value to the smallest on, an axis may be logarithmic."""

_NONE = "–"
"""What stands for an axis that a cell does not have."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a sweep."""

    name: str
    values: list[Any]
    """Its values as results have them, in the order in which they are drawn."""
    unit: str
    """As the scenario writes it; empty if there is none."""
    scale: float
    """How much of the results' unit it is."""
    is_numeric: bool
    is_logarithmic: bool
    """Whether its values are in about equal ratios."""
    text: Callable[[Value], str]
    """A value as people read it."""

    @property
    def title(self) -> str:
        """The name with the unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def places(self) -> list[float]:
        """Where all of them are drawn."""
        return [self.place(value) for value in self.values]

    def place(self, value: Value) -> float:
        """Where a value is drawn: in the axis's unit, or by its number where there are none."""
        return float(value) / self.scale if self.is_numeric else self.values.index(value)  # type: ignore[arg-type]

    def in_unit(self, unit: str) -> "Axis | None":
        """The same axis in another unit, such as `s` for `ms`; None if its values have no such."""
        ratio = quantities.ratio(unit, self.unit) if self.unit else None
        if ratio is None:
            return None
        known = [value for value in self.values if value is not None]
        places = [value / (self.scale * ratio) for value in known]
        texts = dict(zip(known, _texts(known, places, unit, {}), strict=True))
        return replace(
            self,
            unit=unit,
            scale=self.scale * ratio,
            text=lambda value: _NONE if value is None else texts[value],
        )


def axis_of(scenario: Scenario, cells: pl.DataFrame, name: str) -> Axis:
    """An axis, with the values that some cells have."""
    swept = [axis for axis in scenario.axes if axis["name"] == name]
    column = cells[name]
    labels: dict[Any, str] = {}
    for axis in swept:
        labels |= dict(zip(axis["values"], axis["labels"], strict=True))
    known = column.drop_nulls().unique(maintain_order=True)
    is_numeric = column.dtype.is_numeric()
    values: list[Any] = known.sort().to_list() if is_numeric else known.to_list()
    unit, scale = _unit(labels, values) if is_numeric else ("", 1.0)
    places = [value / scale for value in values] if is_numeric else []
    texts = dict(zip(values, _texts(values, places, unit, labels), strict=True))
    if column.null_count():
        values.append(None)
    return Axis(
        name,
        values,
        unit,
        scale,
        is_numeric=is_numeric,
        is_logarithmic=is_numeric and _is_logarithmic(scenario, name, places),
        text=lambda value: _NONE if value is None else texts[value],
    )


def _is_logarithmic(scenario: Scenario, name: str, places: Sequence[float]) -> bool:
    """Whether the sweep says so, or else its values."""
    kinds = set(_kinds(tomllib.loads(scenario.to_toml()).get("sweep", {}), name))
    if len(places) < 2 or places[0] <= 0 or kinds == {"range"}:
        return False
    return kinds == {"log_range"} or is_geometric(places)


def _kinds(sweep: Mapping[str, Any], name: str) -> Iterator[str]:
    """How the sweep and its sub-studies give the values of an axis."""
    if own := sweep.get("axes", {}).get(name):
        yield from own.keys() & {"range", "log_range", "values"}
    for study in sweep.get("studies", {}).values():
        yield from _kinds(study, name)


def _texts(
    values: Sequence[Any], places: Sequence[float], unit: str, labels: dict[Any, str]
) -> list[str]:
    if not places:
        return [labels.get(value, str(value)) for value in values]
    return [f"{text} {unit}".strip() for text in wording.told_apart(places, 4)]


def _unit(labels: dict[Any, str], values: Sequence[float]) -> tuple[str, float]:
    """The unit in which the scenario writes most of these values, and how large it is."""
    scales: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for value in values:
        match = _QUANTITY.fullmatch(labels.get(value, ""))
        if match is None or not float(match[1]) or not value:
            continue
        unit = match[2].strip()
        counts[unit] += 1
        # A label may have fewer digits than the value, so the scale is one of a few round numbers.
        scales.setdefault(unit, _round(value / float(match[1])))
    if not counts:
        return "", 1.0
    unit = counts.most_common(1)[0][0]
    return unit, scales[unit]


def _round(scale: float) -> float:
    return float(f"{scale:.6g}")


def is_geometric(values: Sequence[float]) -> bool:
    """Whether values were swept in ratios: as 1, 10, 100 or 1, 2, 5, 10, not as 1, 2, 3.

    They are if there are three or more, all above 0 and over a wide range, and their ratios differ
    less than their distances do.
    """
    ordered = sorted(set(values))
    if len(ordered) < 3 or ordered[0] <= 0 or ordered[-1] < _WIDE * ordered[0]:
        return False
    steps = [math.log(high / low) for low, high in pairwise(ordered)]
    return _spread(steps) < _spread([high - low for low, high in pairwise(ordered)])


def _spread(steps: Sequence[float]) -> float:
    """Standard deviation as a share of the mean."""
    mean = math.fsum(steps) / len(steps)
    return math.sqrt(math.fsum((step - mean) ** 2 for step in steps) / len(steps)) / mean
