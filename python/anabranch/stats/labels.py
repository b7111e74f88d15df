"""How the values of axes are written: as their scenario writes them, with its units."""

import re
from collections.abc import Mapping, Sequence

import polars as pl

from anabranch.support.wording import number, told_apart

from .verdicts import Shown

NUMBER = re.compile(r"^-?[0-9]+(?:[.][0-9]+)?(?:e-?[0-9]+)?")
"""What a label begins with if it is a number with a unit."""


def label_table(axes: Sequence[Mapping[str, object]]) -> dict[str, dict[str, str]]:
    """How a scenario's axes (`Scenario.axes`) write their values: axis, value as text, label."""
    by_axis: dict[str, dict[str, str]] = {}
    for axis in axes:
        values, labels = axis["values"], axis["labels"]
        assert isinstance(values, list)
        assert isinstance(labels, list)
        by_value = {str(value): str(label) for value, label in zip(values, labels, strict=True)}
        short = told_apart(by_value.values(), 4, _short_number)
        by_axis[str(axis["name"])] = dict(zip(by_value, short, strict=True))
    return by_axis


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
    return {axis: _completed(cells[axis], labels.get(axis, {})) for axis in axes}


def written(
    cells: pl.DataFrame, axes: Sequence[str], scenario_axes: Sequence[Mapping[str, object]]
) -> Shown:
    """How values of these columns are written, which are those of a scenario's axes."""
    labels = labelled(cells, axes, label_table(scenario_axes))
    return lambda axis, value: shown(value, labels[axis])


def _completed(column: pl.Series, labels: Mapping[str, str]) -> dict[str, str]:
    """A label for each value of an axis."""
    values = [of for of in column.drop_nulls().unique(maintain_order=True) if str(of) not in labels]
    return {**labels, **dict(zip(map(str, values), told_apart(values, 4), strict=True))}


def shown(value: object, labels: Mapping[str, str]) -> str:
    """A value of an axis with these labels, by the value as text."""
    if value is None:
        return "–"
    return labels.get(str(value)) or (
        number(value, 4) if isinstance(value, float | bool | str) else str(value)
    )
