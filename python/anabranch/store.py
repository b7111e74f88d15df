"""Where a study keeps its rows: a folder of Parquet shards, or memory.

A study folder has

- `scenario.toml`: the scenario with every default filled in,
- `study.json`: what makes rows comparable (scenario hash, engine version, seed, axes),
- `rows/NNNN.parquet`: one row a run, in shards that are never changed once they exist.

A shard appears whole or not at all (temporary file, fsync, rename), so a sweep may be killed at any
moment; the next one computes exactly the rows that are missing. Rows read back are sorted by cell
and replication and columns by name, so nothing shows how the work was split.
"""

import io
import json
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, Self

import polars as pl

from anabranch._engine import Scenario, __version__
from anabranch.errors import StoreError
from anabranch.files import write_atomically

SCHEMA_VERSION = 1
"""Of the folder's layout and of the columns that are not scalars."""

INDEX = ("cell", "replication")
"""What a row is found by."""

_log = logging.getLogger(__name__)

Run = tuple[int, int]
"""Cell and replication."""


class Store(Protocol):
    """Finished rows."""

    def finished(self) -> set[Run]:
        """The runs that need not be computed again."""

    def append(self, rows: pl.DataFrame) -> None:
        """Adds the rows of runs that were not finished before; they are safe when this returns."""


class MemoryStore:
    """Rows that last as long as the object."""

    def __init__(self) -> None:
        self._shards: list[pl.DataFrame] = []

    def finished(self) -> set[Run]:
        """See `Store`."""
        return {run for shard in self._shards for run in _runs(shard)}

    def append(self, rows: pl.DataFrame) -> None:
        """See `Store`."""
        self._shards.append(rows)

    def frame(self) -> pl.DataFrame:
        """All rows, as `read` gives them."""
        return _canonical(self._shards)


class FolderStore:
    """A study folder opened for a sweep; one process at a time."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self._folder = folder
        self._rows = folder / "rows"
        self._rows.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(folder)
        try:
            self._claim(scenario)
            self._finished = self._read_finished()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def finished(self) -> set[Run]:
        """See `Store`."""
        return self._finished

    def append(self, rows: pl.DataFrame) -> None:
        """See `Store`."""
        buffer = io.BytesIO()
        rows.write_parquet(buffer, compression="zstd", statistics=False)
        write_atomically(self._rows / f"{self._next_number:04}.parquet", buffer.getvalue())
        self._next_number += 1
        self._finished.update(_runs(rows))

    def close(self) -> None:
        """Lets another sweep use the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _claim(self, scenario: Scenario) -> None:
        """The folder belongs to this scenario and this engine, or it becomes theirs now."""
        if (self._folder / "study.json").exists():
            _check_identity(self._folder, scenario)
            return
        identity = {
            "schema_version": SCHEMA_VERSION,
            "engine_version": __version__,
            "scenario_hash": scenario.hash,
            "name": scenario.name,
            "seed": scenario.seed,
            "axes": scenario.axes,
        }
        write_atomically(self._folder / "scenario.toml", scenario.to_toml().encode())
        content = json.dumps(identity, indent=2) + "\n"
        write_atomically(self._folder / "study.json", content.encode())

    def _read_finished(self) -> set[Run]:
        """Reads every shard once; one that cannot be read is set aside, and so computed again."""
        finished: set[Run] = set()
        numbers = [-1]
        for path in sorted(self._rows.iterdir()):
            if path.name.startswith("."):  # left by a sweep that was killed while writing
                path.unlink()
                continue
            numbers.append(int(digits) if (digits := path.name.partition(".")[0]).isdigit() else -1)
            if path.suffix != ".parquet":
                continue
            try:
                finished.update(_runs(_read_shard(path)))
            except StoreError as error:
                aside = path.with_name(path.name + ".corrupt")
                path.replace(aside)
                _log.warning("%s; set aside as %s, its runs are computed again", error, aside.name)
        self._next_number = max(numbers) + 1
        return finished


def read(folder: str | Path, scenario: Scenario | None = None) -> pl.DataFrame:
    """Reads the rows of a study folder; those of `scenario` and no others if that is given.

    Returns
    -------
    One row a run, sorted by cell and replication: cell, replication, seed, the axes, every scalar
    by name, engine_version, scenario_hash.

    Raises
    ------
    StoreError
        When it is not a study folder (of this scenario) or a shard of it is damaged; the message
        names the file.
    """
    folder = Path(folder)
    if scenario is None:
        _read_identity(folder)
    else:
        _check_identity(folder, scenario)
    return _canonical([_read_shard(path) for path in sorted((folder / "rows").glob("*.parquet"))])


def rows_of(scenario: Scenario, batch: dict[str, list[float]]) -> pl.DataFrame:
    """The rows of one batch of the engine: its columns, and what tells one cell from another."""
    scalars = {name: values for name, values in batch.items() if name not in INDEX}
    cells = [int(cell) for cell in batch["cell"]]
    columns: list[pl.Series] = [
        pl.Series("cell", cells, dtype=pl.UInt32),
        pl.Series("replication", [int(r) for r in batch["replication"]], dtype=pl.UInt32),
        pl.Series("seed", [scenario.seed] * len(cells), dtype=pl.UInt64),
    ]
    keys = {cell: scenario.cell_key(cell) for cell in set(cells)}
    for axis in scenario.axes:
        name = axis["name"]
        if name in scalars or name in {column.name for column in columns}:
            message = f"the axis `{name}` has the name of another column: choose another one"
            raise StoreError(message)
        columns.append(pl.Series(name, [keys[cell][name] for cell in cells]))
    columns += [pl.Series(name, values, dtype=pl.Float64) for name, values in scalars.items()]
    columns.append(pl.Series("engine_version", [__version__] * len(cells)))
    columns.append(pl.Series("scenario_hash", [scenario.hash] * len(cells)))
    return pl.DataFrame(columns)


def write_tables(folder: Path, tables: dict[str, pl.DataFrame]) -> list[Path]:
    """Writes one Parquet file a table; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in tables.items():
        buffer = io.BytesIO()
        table.write_parquet(buffer, compression="zstd")
        path = folder / f"{name}.parquet"
        write_atomically(path, buffer.getvalue())
        paths.append(path)
    return paths


def _canonical(shards: list[pl.DataFrame]) -> pl.DataFrame:
    """One frame that does not show how the rows were split into shards."""
    if not shards:
        return pl.DataFrame(schema={"cell": pl.UInt32, "replication": pl.UInt32})
    # A scalar that only some cells have is NaN elsewhere, as the engine writes "no value".
    frame = pl.concat(shards, how="diagonal").with_columns(
        pl.col(pl.Float64).fill_null(float("nan"))
    )
    last = ["engine_version", "scenario_hash"]
    # A scalar's name has a dot in it, an axis's has none; the first shard has all axes, in order.
    first = [name for name in shards[0].columns if "." not in name and name not in last]
    scalars = sorted(set(frame.columns) - set(first) - set(last))
    return frame.select(*first, *scalars, *last).sort(INDEX)


def _runs(rows: pl.DataFrame) -> Iterable[Run]:
    return zip(*(rows[name].to_list() for name in INDEX), strict=True)


def _read_shard(path: Path) -> pl.DataFrame:
    try:
        rows = pl.read_parquet(io.BytesIO(path.read_bytes()))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        raise StoreError(f"{path} is damaged: it is not a complete Parquet file") from error
    if missing := [name for name in INDEX if name not in rows.columns]:
        raise StoreError(f"{path} is damaged: it has no column `{missing[0]}`")
    return rows


def _check_identity(folder: Path, scenario: Scenario) -> None:
    found = _read_identity(folder)
    if found.get("scenario_hash") != scenario.hash:
        whose = (
            f"another scenario (hash {found.get('scenario_hash')}, this one has {scenario.hash})"
        )
    elif found.get("engine_version") != __version__:
        whose = f"anabranch {found.get('engine_version')} (this is {__version__})"
    else:
        return
    raise StoreError(f"{folder} holds rows of {whose}: choose another output folder")


def _read_identity(folder: Path) -> dict[str, Any]:
    path = folder / "study.json"
    try:
        identity = json.loads(path.read_text())
        version = identity["schema_version"]
    except FileNotFoundError:
        raise StoreError(f"{folder} is not a study folder: it has no study.json") from None
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{path} is damaged: it is not the description of a study") from error
    if version != SCHEMA_VERSION:
        message = f"{path} has schema version {version}; this anabranch reads {SCHEMA_VERSION}"
        raise StoreError(message)
    return identity  # type: ignore[no-any-return]


def _lock(folder: Path) -> int | None:
    """Holds the folder for this process; the system lets go of it however the process ends."""
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - exists there only

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - exists elsewhere only

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StoreError(f"another sweep is writing to {folder}") from error
    return descriptor
