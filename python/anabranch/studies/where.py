"""Which cells of a study are meant: conditions such as `pmr=0` and `rto_max<=1 s`."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from anabranch import _engine
from anabranch._engine import Scenario, ScenarioError
from anabranch.errors import AnabranchError, suggestion
from anabranch.stats import comparison
from anabranch.stats.comparison import Selection
from anabranch.support import wording

Where = Mapping[str, Any] | str | Sequence[str]
"""Values by axis, `{"pmr": 0}` or several of them `{"pmr": [0, 1]}`; or conditions as text."""

_CONDITION = re.compile(r"\s*([\w-]+)\s*(<=|>=|==|!=|=|<|>)\s*(.+?)\s*", re.DOTALL)

_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_BASE: dict[Literal["duration", "rate", "size"], float] = {"duration": 1e9, "rate": 1, "size": 1}
"""Quantities that the engine reads, and how many of its units are one of those of results."""


@dataclass(frozen=True, slots=True)
class _Condition:
    axis: str
    sign: str
    value: Any


def selected(cells: pl.DataFrame, where: Where, scenario: Scenario) -> pl.DataFrame:
    """The cells for which all conditions are true.

    Values that an axis is said to equal are alternatives; a cell without the axis is left out.

    Parameters
    ----------
    cells
        A row for each cell, with its values on the axes and its `study` if there are any.
    where
        The conditions.
    scenario
        The study's definition, whose spelling of the values may be used, too.

    Raises
    ------
    AnabranchError
        If there is no such axis or value, or no cell is left.
    """
    labels = _by_label(scenario)
    known = [name for name in cells.columns if name in labels or name == "study"]
    equal: dict[str, list[Any]] = {}
    for condition in _conditions(where):
        axis = condition.axis
        if axis not in known:
            there = f"there are {', '.join(known)}" if known else "the study has none"
            raise AnabranchError(
                f"where: there is no axis `{axis}`{suggestion(axis, known)}; {there}"
            )
        if condition.sign in _ORDERS:
            bound = _number(axis, condition.value, cells)
            cells = cells.filter(_ORDERS[condition.sign](pl.col(axis), bound))
            continue
        value = _value(axis, condition.value, cells, labels.get(axis, {}))
        if condition.sign == "!=":
            cells = cells.filter(pl.col(axis) != value)
        else:
            equal.setdefault(axis, []).append(value)
    for axis, values in equal.items():
        cells = cells.filter(pl.col(axis).is_in(values))
    if cells.is_empty():
        raise AnabranchError("where: no cell of the study is as the conditions say")
    return cells


def spelled(selection: Selection, rows: pl.DataFrame, scenario: Scenario) -> Selection:
    """A selection with the values that rows have, where it spells them as the scenario does."""
    if not isinstance(selection, Mapping):
        return selection
    labels = _by_label(scenario)
    found = {}
    for axis, value in selection.items():
        own = _found(value, rows[axis], labels.get(axis, {})) if axis in rows.columns else None
        found[axis] = value if own is None else own
    return found


def _by_label(scenario: Scenario) -> dict[str, dict[str, Any]]:
    return {
        axis["name"]: dict(zip(axis["labels"], axis["values"], strict=True))
        for axis in scenario.axes
    }


def _conditions(where: Where) -> list[_Condition]:
    if isinstance(where, Mapping):
        return [
            _Condition(str(axis), "=", value)
            for axis, values in where.items()
            for value in (values if isinstance(values, list | tuple) else [values])
        ]
    found = []
    for text in [where] if isinstance(where, str) else where:
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise AnabranchError(
                f"where: `{text}` is not AXIS=VALUE; <, <=, >, >= and != are allowed"
            )
        found.append(_Condition(match[1], match[2], match[3]))
    return found


def _value(axis: str, value: Any, cells: pl.DataFrame, labels: Mapping[str, Any]) -> Any:
    found = _found(value, cells[axis], labels)
    if found is not None:
        return found
    own = cells[axis].drop_nulls().unique(maintain_order=True).to_list()
    *known, never = wording.told_apart([*own, value])
    raise AnabranchError(f"where: `{axis}` is never {never}: it is {', '.join(known)}")


def _found(value: Any, column: pl.Series, labels: Mapping[str, Any]) -> Any:
    """The value of a column that is meant, spelled as in results or as in the scenario, or None."""
    own = column.drop_nulls().unique(maintain_order=True).to_list()
    for wanted in (value, labels.get(str(value)), _in_base(value)):
        if wanted is not None and (found := comparison.meant(own, wanted, own)) is not None:
            return found
    return None


def _number(axis: str, value: Any, cells: pl.DataFrame) -> float:
    if not cells[axis].dtype.is_numeric():
        raise AnabranchError(f"where: `{axis}` has no numbers to compare; use = or !=")
    if (bound := _in_base(value)) is None:
        raise AnabranchError(f"where: `{axis}` is compared with `{value}`, which is not a number")
    return bound


def _in_base(text: Any) -> float | None:
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
