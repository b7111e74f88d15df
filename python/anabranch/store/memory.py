"""What a sweep needs from a store of rows, and a store in memory."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from anabranch._engine import ENGINE_VERSION, Scenario

from .rows import ADDRESS, cells_of, frame

Run = tuple[int, int]
"""Cell and replication."""

Matrix = npt.NDArray[np.bool_]


class Store(Protocol):
    """Finished rows of a definition."""

    def finished(self, replications: int) -> Matrix:
        """Which runs are finished at this moment: a matrix of cells by replications."""

    def append(self, rows: pl.DataFrame) -> None:
        """Adds the rows of `rows_of`; they are stored safely when this returns."""

    def append_traces(self, cell: int, replication: int, tables: Mapping[str, Any]) -> None:
        """Adds the traces of a run (table -> column -> values); its row is added after them."""

    def read(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The frame of the definition's finished runs; see `anabranch.store.read`."""


class MemoryStore:
    """A store whose rows last as long as the object."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._shards: list[_Rows] = []
        self._traces: dict[str, dict[tuple[str, int], pl.DataFrame]] = {}

    def finished(self, replications: int) -> Matrix:
        """See `Store`."""
        cells = cells_of(self._scenario)
        matrix = np.zeros((cells.height, replications), dtype=np.bool_)
        for shard in self._shards:
            mark(matrix, cells, shard.read(ADDRESS))
        return matrix

    def append(self, rows: pl.DataFrame) -> None:
        """See `Store`."""
        self._shards.append(_Rows(rows))

    def append_traces(self, cell: int, replication: int, tables: Mapping[str, Any]) -> None:
        """See `Store`."""
        address = cells_of(self._scenario)["scenario_hash"][cell], replication
        for name, columns in tables.items():
            self._traces.setdefault(name, {})[address] = pl.DataFrame(columns)

    def read(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """See `Store`."""
        return frame(cells_of(self._scenario), self._shards, ENGINE_VERSION, columns)

    def traces(self, table: str) -> pl.LazyFrame:
        """See `anabranch.store.traces`."""
        parts = self._traces.get(table, {})
        cells: dict[str, list[int]] = {}  # equal cells share their runs
        for cell, address in enumerate(cells_of(self._scenario)["scenario_hash"]):
            cells.setdefault(address, []).append(cell)
        runs = sorted(
            (cell, replication, address)
            for address, replication in parts
            for cell in cells[address]
        )
        tables = [
            parts[address, replication].select(
                pl.lit(cell, pl.UInt32).alias("cell"),
                pl.lit(replication, pl.UInt32).alias("replication"),
                pl.all(),
            )
            for cell, replication, address in runs
        ]
        return pl.concat(tables, how="diagonal_relaxed").lazy() if tables else pl.LazyFrame()


def mark(matrix: Matrix, cells: pl.DataFrame, addresses: pl.DataFrame) -> None:
    """Sets the entries of a matrix of cells by replications whose runs have these addresses."""
    marked = cells.select("cell", "scenario_hash").join(
        addresses.filter(pl.col("replication") < matrix.shape[1]), on="scenario_hash"
    )
    matrix[marked["cell"].to_numpy(), marked["replication"].to_numpy()] = True


class _Rows:
    name = "memory"

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows

    def names(self) -> Sequence[str]:
        return self._rows.columns

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        return self._rows.select(columns)
