"""Which cells of a study are meant: conditions such as `pmr=0` and `rto_max<=1 s`."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from anabranch._engine import Scenario
from anabranch.errors import AnabranchError, suggestion
from anabranch.stats import labels
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
    axes = {axis["name"] for axis in scenario.axes}
    known = [name for name in cells.columns if name in axes or name == "study"]
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
        value = _value(axis, condition.value, cells[axis], scenario)
        if condition.sign == "!=":
            cells = cells.filter(pl.col(axis) != value)
        else:
            equal.setdefault(axis, []).append(value)
    for axis, values in equal.items():
        cells = cells.filter(pl.col(axis).is_in(values))
    if cells.is_empty():
        raise AnabranchError("where: no cell of the study is as the conditions say")
    return cells


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


def _value(axis: str, value: Any, column: pl.Series, scenario: Scenario) -> Any:
    own = column.drop_nulls().unique(maintain_order=True).to_list()
    by_label = labels.values_by_label(scenario.axes).get(axis, {})
    found = labels.meant(own, value, own, by_label)
    if found is not None:
        return found
    *_, never = wording.told_apart([*own, value])
    shown = labels.of_values({axis: own}, scenario.axes)
    known = ", ".join(shown(axis, of) for of in own)
    raise AnabranchError(f"where: `{axis}` is never {never}: it is {known}")


def _number(axis: str, value: Any, cells: pl.DataFrame) -> float:
    if not cells[axis].dtype.is_numeric():
        raise AnabranchError(f"where: `{axis}` has no numbers to compare; use = or !=")
    if (bound := labels.in_base(value)) is None:
        raise AnabranchError(f"where: `{axis}` is compared with `{value}`, which is not a number")
    return bound
