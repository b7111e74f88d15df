"""Comparisons with the numbers of other implementations, which lie beside the modules."""

from typing import Any


def tables(oracle: Any, rows: list[Any]) -> list[tuple[str, tuple[str, ...], list[Any]]]:
    """Title, heads and rows of each table of a comparison: one table, or one for each set-up."""
    if hasattr(oracle, "tables"):
        all_tables: list[tuple[str, tuple[str, ...], list[Any]]] = oracle.tables(rows)
        return all_tables
    return [("", oracle.HEADS, rows)]
