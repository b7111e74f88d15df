"""Where a study keeps its rows: a folder of Parquet shards, or memory.

A study folder has

- `study.json`: what makes rows comparable (versions, kept metrics), which definition is current,
  and the runs of each cell that were asked for where they are not the definition's,
- `scenario.toml`: the current definition, with every default filled in,
- `definitions/HASH.toml` and `.parquet`: every definition the folder has had, and its cells,
- `rows/DIGEST.parquet`: one row a run, in shards that are named by a digest of their bytes; the
  scalars of a flow with a `count` are lists with an entry for each member (`members`),
- `traces/TABLE/HASH-REPLICATION.parquet`: the traces that the sweep keeps.

A run is identified by the hash of its cell's own scenario and by its replication. So a definition
may change: cells that it shares with an earlier one are not computed again. A file appears whole or
not at all (temporary file, fsync, rename), so a sweep may be killed at any moment; a shard whose
bytes do not match its name is damaged. Rows are read in the order of the definition's cells, so
nothing shows how the work was split.
"""

from .definitions import asked_of, read_definition, read_identity
from .folder import FolderStore, free_of_other_engines, read, read_cells, scalars, shards, traces
from .memory import MemoryStore, Run, Store
from .merging import merge
from .rows import (
    SCHEMA_VERSION,
    cells_of,
    rows_of,
    without_empty,
)
from .tables import write_tables

__all__ = [
    "SCHEMA_VERSION",
    "FolderStore",
    "MemoryStore",
    "Run",
    "Store",
    "asked_of",
    "cells_of",
    "free_of_other_engines",
    "merge",
    "read",
    "read_cells",
    "read_definition",
    "read_identity",
    "rows_of",
    "scalars",
    "shards",
    "traces",
    "without_empty",
    "write_tables",
]
