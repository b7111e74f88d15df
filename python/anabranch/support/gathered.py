"""Batches of packets as one, and some of their rows."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .packets import Packets

_BESIDE = ("sacks", "chunks", "multipath", "datagrams", "quic")
"""Tables whose rows belong to a packet."""

_BELOW = {
    "gaps": ("chunks", "chunk"), "quic_acks": ("quic", "quic"), "quic_data": ("quic", "quic"),
}  # fmt: skip
"""Tables whose rows belong to those of another one: which, and by which column."""


def joined(batches: Iterable[Packets]) -> Packets | None:
    """All packets as one table; None if there are none."""
    parts = list(batches)
    if len(parts) < 2:
        return parts[0] if parts else None
    before = np.cumsum([0, *(len(part) for part in parts)])
    columns: dict[str, Any] = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Packets)
        if field.name not in _BESIDE and field.name not in _BELOW
    }
    for name in _BESIDE:
        columns[name] = _together([getattr(part, name) for part in parts], "packet", before)
    for name, (above, key) in _BELOW.items():
        rows = np.cumsum([0, *(len(getattr(part, above).packet) for part in parts)])
        columns[name] = _together([getattr(part, name) for part in parts], key, rows)
    return Packets(**columns)


def _together(tables: list[Any], key: str, before: NDArray[np.int64]) -> Any:
    columns = {
        field.name: np.concatenate([getattr(table, field.name) for table in tables])
        for field in fields(tables[0])
    }
    columns[key] = np.concatenate(
        [getattr(table, key) + first for table, first in zip(tables, before, strict=False)]
    )
    return type(tables[0])(**columns)


def chosen(packets: Packets, rows: NDArray[np.integer]) -> Packets:
    """The packets with these row numbers, in this order, and what is beside them."""
    if len(rows) == len(packets) and (np.diff(rows) == 1).all():
        return packets
    columns: dict[str, Any] = {
        field.name: getattr(packets, field.name)[rows]
        for field in fields(Packets)
        if field.name not in _BESIDE and field.name not in _BELOW
    }
    kept: dict[str, NDArray[np.integer]] = {}
    for name in _BESIDE:
        columns[name], kept[name] = beside(getattr(packets, name), "packet", rows, len(packets))
    for name, (above, key) in _BELOW.items():
        count = len(getattr(packets, above).packet)
        columns[name], _ = beside(getattr(packets, name), key, kept[above], count)
    return Packets(**columns)


def beside(
    table: Any, key: str, rows: NDArray[np.integer], count: int
) -> tuple[Any, NDArray[np.integer]]:
    """The rows of a table beside these ones, in their order, and which rows of it they were."""
    now = np.full(count, -1, dtype=np.int64)
    now[rows] = np.arange(len(rows))
    belongs = now[getattr(table, key)]
    kept = np.flatnonzero(belongs >= 0)
    kept = kept[np.argsort(belongs[kept], kind="stable")]
    columns = {field.name: getattr(table, field.name)[kept] for field in fields(table)}
    columns[key] = belongs[kept]
    return type(table)(**columns), kept


def bytes_of(columns: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    """Columns as the engine takes them: each number in 64 bits."""
    return {
        name: (
            column if column.dtype.kind == "f" else column.astype(np.int64, copy=False)
        ).tobytes()
        for name, column in columns.items()
    }
