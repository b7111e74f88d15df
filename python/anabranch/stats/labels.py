"""How the values of axes are written, and which is meant: as the scenario writes, with units."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import polars as pl

from anabranch import _engine
from anabranch._engine import ScenarioError
from anabranch.support.wording import number, told_apart

from .verdicts import Shown

NUMBER = re.compile(r"^-?[0-9]+(?:[.][0-9]+)?(?:e-?[0-9]+)?")
"""What a label begins with if it is a number with a unit."""

DIGITS = 4
"""How many digits a value has unless it needs more to be told from the others."""

Axes = Sequence[Mapping[str, Any]]
"""The axes of a scenario, `Scenario.axes`."""

_BASE: dict[Literal["duration", "rate", "size"], float] = {"duration": 1e9, "rate": 1, "size": 1}
"""Quantities that the engine reads, and how many of its units are one of those of results."""


def label_table(axes: Axes) -> dict[str, dict[str, str]]:
    """How axes write their values: axis, value as text, label.

    Axes of several scenarios may have one name; the first that has a value says how it is written.
    """
    by_axis: dict[str, dict[str, str]] = {}
    for axis in axes:
        by_value = by_axis.setdefault(axis["name"], {})
        for value, label in zip(axis["values"], axis["labels"], strict=True):
            by_value.setdefault(str(value), str(label))
    return {
        name: dict(zip(by_value, told_apart(by_value.values(), DIGITS, _short_number), strict=True))
        for name, by_value in by_axis.items()
    }


def _short_number(label: str, digits: int) -> str:
    """A label with its number cut to these digits: points of a design have many more."""
    text = NUMBER.match(label)
    if text is None or len(text[0]) <= digits + 3:
        return label
    return f"{float(text[0]):.{digits}g}{label[text.end() :]}"


def labelled(
    cells: pl.DataFrame, axes: Sequence[str], labels: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """A label for each value of these columns of `cells`, with one in `labels` or not."""
    return {axis: _completed(_values(cells[axis]), labels.get(axis, {})) for axis in axes}


def values_by_label(axes: Axes) -> dict[str, dict[str, Any]]:
    """The values of a scenario's axes by how it writes them: axis, label, value."""
    return {axis["name"]: dict(zip(axis["labels"], axis["values"], strict=True)) for axis in axes}


def written(cells: pl.DataFrame, axes: Sequence[str], scenario_axes: Axes) -> Shown:
    """How values of these columns are written, which are those of a scenario's axes."""
    return of_values({axis: _values(cells[axis]) for axis in axes}, scenario_axes)


def of_values(values: Mapping[str, Iterable[Any]], scenario_axes: Axes) -> Shown:
    """How values of a scenario's axes are written, and these values of others."""
    table = label_table(scenario_axes)
    labels = table | {axis: _completed(of, table.get(axis, {})) for axis, of in values.items()}
    return lambda axis, value: shown(value, labels.get(axis, {}))


def _completed(values: Iterable[Any], labels: Mapping[str, str]) -> dict[str, str]:
    """A label for each value of an axis."""
    others = [of for of in values if of is not None and str(of) not in labels]
    return {**labels, **dict(zip(map(str, others), told_apart(others, DIGITS), strict=True))}


def _values(column: pl.Series) -> list[Any]:
    return column.drop_nulls().unique(maintain_order=True).to_list()


def shown(value: object, labels: Mapping[str, str]) -> str:
    """A value of an axis with these labels, by the value as text."""
    if value is None:
        return "–"
    return labels.get(str(value)) or (
        number(value, DIGITS) if isinstance(value, float | bool | str) else str(value)
    )


def key_text(key: Mapping[str, Any], shown: Shown) -> str:
    """A cell's values on the axes, such as `rto_max = 0.1 s, pmr = 0`."""
    return ", ".join(f"{axis} = {shown(axis, value)}" for axis, value in key.items())


def meant(
    matching: Sequence[Any], wanted: Any, axis: Sequence[Any], labels: Mapping[str, Any]
) -> Any:
    """The value among those found that is meant, or None.

    It is the wanted value itself, otherwise the one that tables show like it among all values of
    the axis, otherwise the only one with the same six digits. Text counts as the value that it
    shows, that the scenario writes so (`labels` has value by label), or that it is with its unit.
    """
    for spelled in (wanted, labels.get(str(wanted)), in_base(wanted)):
        if spelled is not None and (found := _alike(matching, spelled, axis)) is not None:
            return found
    return None


def _alike(matching: Sequence[Any], wanted: Any, axis: Sequence[Any]) -> Any:
    """The value among those found that equals the wanted one, or is shown like it."""
    if isinstance(wanted, str):
        for value in matching:
            if wanted == value or (
                isinstance(value, bool) and wanted.lower() == str(value).lower()
            ):
                return value
    elif wanted in matching:
        return matching[matching.index(wanted)]
    try:
        size = float(wanted)
    except (TypeError, ValueError):
        return None
    numbers = [value for value in matching if not isinstance(value, bool | str)]
    texts = dict(zip(axis, told_apart(axis, DIGITS), strict=True))
    alike = [value for value in numbers if number(value) == number(size)]
    for of in (
        [value for value in numbers if value == size],
        [value for value in numbers if float(texts[value]) == size],
        alike if len(alike) == 1 else [],
    ):
        if of:
            return of[0]
    return None


def in_base(text: Any) -> float | None:
    """A number or a quantity in the unit that results have; None for what is neither."""
    with suppress(TypeError, ValueError):
        return float(text)
    if isinstance(text, str):
        if text.endswith("%"):
            with suppress(ValueError):
                return float(text[:-1]) / 100
        for kind, units in _BASE.items():
            with suppress(ScenarioError):
                return _engine.quantity(kind, text) / units
    return None
