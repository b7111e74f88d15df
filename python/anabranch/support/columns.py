"""The columns of a study's rows: those that all rows have, axes, and scalars."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

INDEX = ("cell", "replication")
"""The columns that identify a row of a frame."""

_PROVENANCE = ("engine_version", "schema_version", "scenario_hash")

OWN_COLUMNS = {"cell", "replication", "study", "seed", *_PROVENANCE}
"""Names that no axis may have."""


def axes_of(rows: "pl.DataFrame") -> list[str]:
    """The axes of a study, from its rows or its cells."""
    return [name for name in rows.columns if name not in OWN_COLUMNS and not is_scalar(name)]


def is_scalar(name: str) -> bool:
    """Whether a column is a scalar metric: its name has a dot, while an axis's name has none."""
    return "." in name
