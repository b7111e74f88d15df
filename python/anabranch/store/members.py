"""Scalars of flows with a `count`, stored as one column for all members of a flow.

A flow `transfer` with `count = 1000` has a thousand times the scalars of one flow,
`transfer_1.mos` to `transfer_1000.mos`. With a column for each, a file of one row has 96,000
columns, and whoever reads one of them reads the description of all. So a row has the list
`transfer_*.mos` instead, with the values of the members in order, and their number, `transfer_*`.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anabranch._engine import Scenario

_MEMBER = re.compile(r"((?:run\.phase_[0-9]+\.)?)([^.]+)_([1-9][0-9]*)\.(.+)")
_LIST = re.compile(r"((?:run\.phase_[0-9]+\.)?)([^.]+)_\*\.(.+)")

Counts = Mapping[str, int]
"""The number of members of each flow that has more than one."""


def list_of(scalar: str) -> tuple[str, int]:
    """The list that would have a scalar, and its position there from 0; `("", 0)` if none would."""
    if match := _MEMBER.fullmatch(scalar):
        return f"{match[1]}{match[2]}_*.{match[4]}", int(match[3]) - 1
    return "", 0


def is_list(column: str) -> bool:
    """Whether a stored column has the values of all members of a flow."""
    return _LIST.fullmatch(column) is not None


def flow_of(column: str) -> str:
    """The flow whose members' values a list has."""
    match = _LIST.fullmatch(column)
    assert match is not None
    return match[2]


def scalar_of(column: str) -> str:
    """The name that a list's values have within one member: `transfer_*.mos` has `mos`."""
    match = _LIST.fullmatch(column)
    assert match is not None
    return match[1] + match[3]


def number_column(flow: str) -> str:
    """The stored column with the number of a flow's members."""
    return f"{flow}_*"


def names_in(column: str, number: int) -> list[str]:
    """The scalars of so many members that a list has."""
    before, _, after = column.partition("_*.")
    return [f"{before}_{member}.{after}" for member in range(1, number + 1)]


def settings_of(flows: Mapping[str, Any], flow: str) -> Any:
    """The settings of a flow, or of that with a `count` of which it is a member; None if none."""
    return flows.get(flow, flows.get(flow.rpartition("_")[0]))


def counts_of(scenario: Scenario, cell: int) -> Counts:
    """The flows of a cell that have several members."""
    return _counts(scenario, cell if _is_changed(scenario) else 0)


@lru_cache(maxsize=10_000)
def _counts(scenario: Scenario, cell: int) -> Counts:
    flows = tomllib.loads(scenario.cell_toml(cell)).get("flows", {})
    return {name: flow["count"] for name, flow in flows.items() if flow.get("count", 1) > 1}


@lru_cache(maxsize=8)
def _is_changed(scenario: Scenario) -> bool:
    """Whether an axis may change the number of a flow's members."""
    sweep = tomllib.loads(scenario.to_toml()).get("sweep", {})
    parts = [sweep, *sweep.get("studies", {}).values()]
    keys = [path.split(".") for part in parts for path in settings(part)]
    return any(key[0] == "flows" and key[2:3] in ([], ["count"]) for key in keys)


def settings(part: Mapping[str, Any]) -> set[str]:
    """The settings, by path, that the axes of a sweep or of a sub-study change."""
    found: set[str] = set()
    for axis in part.get("axes", {}).values():
        paths = axis.get("set", [])
        found.update([paths] if isinstance(paths, str) else paths)
        found.update(path for case in axis.get("cases", {}).values() for path in case)
    return found


def together(
    scalars: Mapping[str, NDArray[np.float64]], counts: Sequence[Counts]
) -> list[pl.Series]:
    """The stored columns of some runs: lists for flows with several members, and other scalars.

    Parameters
    ----------
    scalars
        The values of each scalar, one for each run.
    counts
        The flows with several members, for each run.
    """
    most: dict[str, int] = {}
    for flows in counts:
        for flow, number in flows.items():
            most[flow] = max(number, most.get(flow, 0))
    stored = {number_column(flow): _numbers(flow, counts) for flow in most}
    lists: dict[str, dict[int, NDArray[np.float64]]] = {}
    for name, values in scalars.items():
        column, position = list_of(name) if most else ("", 0)
        if column and position < most.get(flow_of(column), 0):
            lists.setdefault(column, {})[position] = values
        else:
            stored[name] = pl.Series(name, values, dtype=pl.Float64)
    for column, members in lists.items():
        # Members that lack the scalar, or whose scalar the study does not keep, have no value.
        matrix = np.full((len(counts), most[flow_of(column)]), np.nan)
        for position, values in members.items():
            matrix[:, position] = values
        kind = pl.Array(pl.Float64, matrix.shape[1])
        stored[column] = pl.Series(column, matrix, dtype=kind).cast(pl.List(pl.Float64))
    return list(stored.values())


def _numbers(flow: str, counts: Sequence[Counts]) -> pl.Series:
    numbers = [flows.get(flow, 0) for flows in counts]
    return pl.Series(number_column(flow), numbers, dtype=pl.UInt32)


def apart(column: pl.Series, names: Sequence[str]) -> pl.DataFrame:
    """The scalars of these names, all of this list; null for a run that has no such member."""
    longest = column.list.len().max() or 0
    every = names_in(column.name, int(longest))  # type: ignore[arg-type]
    values = column.list.to_struct(fields=every).struct.unnest() if every else pl.DataFrame()
    known = set(every)
    none = pl.lit(None, pl.Float64)
    absent = [none.alias(name) for name in names if name not in known]
    if not every:
        values = column.to_frame()
    return values.with_columns(absent).select(names)
