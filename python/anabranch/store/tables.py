"""Writes tables as Parquet files, completely or not at all."""

import io
import os
from pathlib import Path
from typing import Any

import polars as pl

from anabranch.support.files import write_atomically


def write_tables(folder: Path, tables: dict[str, pl.DataFrame]) -> list[Path]:
    """Writes one Parquet file for each table; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        write_atomically(path, parquet(table))
        paths.append(path)
    return paths


def parquet(table: pl.DataFrame, *, statistics: bool = True) -> bytes:
    """The bytes of a Parquet file with this table."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", statistics=statistics)
    return buffer.getvalue()


def read_table(path: Path, columns: list[str] | None = None, **options: Any) -> pl.DataFrame:
    """Reads one Parquet file; special characters in the path have no meaning."""
    return pl.read_parquet(
        path, columns=columns, glob=False, hive_partitioning=False, use_statistics=False, **options
    )


def is_complete(path: Path) -> bool:
    """Whether a file ends like a complete Parquet file."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) < 12:
            return False
        file.seek(-4, os.SEEK_END)
        return file.read() == b"PAR1"
