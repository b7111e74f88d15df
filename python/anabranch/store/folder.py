"""A study folder: opened by a sweep, and read."""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import polars as pl

from anabranch._engine import ENGINE_VERSION, Scenario
from anabranch.errors import StoreError
from anabranch.support.columns import INDEX
from anabranch.support.files import write_atomically

from . import shard_files
from .definitions import (
    Asked,
    cells_in,
    check_comparable,
    has_definition,
    identity_of,
    read_any_identity,
    read_identity,
    write_definition,
)
from .locks import hold
from .memory import Matrix, mark
from .rows import ADDRESS, SCHEMA_VERSION, cells_of, frame, scalars_in
from .shard_files import FileShard
from .tables import is_complete, parquet

_MANY = 100
"""During a sweep, this many small shards are merged into one."""

_LOOKS = 5
"""How often a folder is read again because a sweep has just merged shards."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class FolderStore:
    """A study folder opened for a sweep.

    Parameters
    ----------
    folder
        The folder; it is created if it does not exist.
    scenario
        The definition, which becomes the folder's current one.
    shared
        Whether other processes that also set this may write to the folder meanwhile; otherwise no
        other process may.
    asked
        The runs of each cell that the sweep is to have, recorded for those who read the folder.
    engine
        The name of the engine that makes the rows; those of other engines cannot be combined with
        them.

    Raises
    ------
    StoreError
        When the folder's rows cannot be combined with those of the scenario, or another process
        writes to it.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        *,
        shared: bool = False,
        asked: Asked = None,
        engine: str = ENGINE_VERSION,
    ) -> None:
        self._folder = folder
        self._engine = engine
        self._scenario = scenario
        self._rows = folder / "rows"
        self._shared = shared
        self._cells = cells_of(scenario)
        self._tables = scenario.traces
        shard_files.check_folder(self._rows)
        self._rows.mkdir(parents=True, exist_ok=True)
        self._held = ExitStack()
        self._held.enter_context(hold(folder, shared=shared))
        try:
            self._check()
            whole = shard_files.set_aside_damaged(self._rows)
            self._small = len(whole)
            self._check_shards(whole)
            write_definition(folder, scenario, identity_of(scenario, asked, engine))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.compact()
        finally:
            self.close()

    def finished(self, replications: int) -> Matrix:
        """See `Store`. A run that lacks a trace kept by the definition is not finished."""

        def look() -> Matrix:
            matrix = np.zeros((self._cells.height, replications), dtype=np.bool_)
            for shard in shard_files.files(self._rows):
                mark(matrix, self._cells, FileShard(shard).read(ADDRESS))
            return matrix

        matrix = _while_it_changes(look)
        for table in self._tables:
            traced = np.zeros_like(matrix)
            mark(traced, self._cells, _addresses(_trace_files(self._folder, table)))
            matrix &= traced
        return matrix

    def append(self, rows: pl.DataFrame) -> None:
        """See `Store`."""
        shard_files.write(
            self._rows, rows.with_columns(pl.lit(self._engine).alias("engine_version"))
        )
        self._small += 1
        if self._small > _MANY:
            self.compact()

    def append_traces(self, cell: int, replication: int, tables: Mapping[str, Any]) -> None:
        """See `Store`. For a table that the run does not have, the file is empty."""
        address = f"{self._cells['scenario_hash'][cell]}-{replication}.parquet"
        for table in self._tables:
            folder = self._folder / "traces" / table
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / address, parquet(pl.DataFrame(tables.get(table, {}))))

    def read(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """See `Store`."""
        return _read(self._folder, self._scenario, columns, self._engine)

    def compact(self) -> None:
        """Merges many small shards into few, unless other processes also write to the folder."""
        if self._shared:
            return
        try:
            shards = [FileShard(path) for path in shard_files.files(self._rows)]
            large = shard_files.compact(self._rows, shards)
        except OSError as error:
            _log.warning("%s: small shards stay as they are (%s)", self._rows, error.strerror)
            large = 0
        self._small = min(large, _MANY // 2)

    def close(self) -> None:
        """Lets another sweep use the folder."""
        self._held.close()

    def _check(self) -> None:
        """Raises if `study.json` says that its rows cannot be combined with the scenario's."""
        if (self._folder / "study.json").exists():
            check_comparable(
                self._folder, read_identity(self._folder), self._scenario, self._engine
            )
        elif shard_files.files(self._rows) and not has_definition(self._folder, self._scenario):
            raise StoreError(
                f"{self._folder} has rows but no study.json that says what they are:"
                " choose another output folder"
            )

    def _check_shards(self, whole: Sequence[FileShard]) -> None:
        """Checks the shards of a folder without `study.json`; warns if no run is the scenario's."""
        if not (self._folder / "study.json").exists():
            engines = {name for s in whole for name in s.read(["engine_version"]).to_series()}
            if others := engines - {self._engine}:
                raise StoreError(
                    f"{self._folder} holds rows of anabranch {min(others)}, not {self._engine}:"
                    " choose another output folder"
                )
            return
        shard_files.check_engine(whole, self._engine)
        if whole and not has_definition(self._folder, self._scenario):
            shared = (s.read(ADDRESS[:1]).join(self._cells, "scenario_hash", "semi") for s in whole)
            if all(rows.is_empty() for rows in shared):
                message = "%s holds no run of this scenario; those of other scenarios stay in it"
                _log.warning(message, self._folder)


def free_of_other_engines(folder: Path, own: str = ENGINE_VERSION) -> None:
    """Renames a study folder with rows of another engine, so that its name is free.

    It is for folders that a command fills by itself: nothing is lost, and everything is computed
    again.

    Parameters
    ----------
    folder
        The study folder.
    own
        The engine whose rows may stay.

    Raises
    ------
    StoreError
        When another process writes to the folder.
    """
    try:
        identity = read_any_identity(folder)
    except StoreError:
        return  # a new folder, or a damaged one, which opening reports
    engine = str(identity.get("engine_version"))
    if identity["schema_version"] == SCHEMA_VERSION and engine == own:
        return
    names = (f"{folder.name}.{number}" for number in itertools.count(1))
    aside = next(path for name in names if not (path := folder.with_name(name)).exists())
    with hold(folder):
        folder.rename(aside)
    message = "%s holds rows of anabranch %s, not %s: set aside as %s, its runs are computed again"
    _log.warning(message, folder, engine, own, aside.name)


def read(
    folder: str | Path, scenario: Scenario | None = None, columns: Sequence[str] | None = None
) -> pl.DataFrame:
    """Reads the rows of a study folder.

    Parameters
    ----------
    folder
        The study folder.
    scenario
        The scenario whose runs are read; the folder's current definition if not given.
    columns
        The scalars to read; all if not given. A scalar that no row has is left out, and so is one
        without any value unless it is named.

    Returns
    -------
    One row for each run, sorted by cell and replication: cell, replication, study (with
    sub-studies), seed, the axes, the scalars by name, engine_version, schema_version,
    scenario_hash.

    Raises
    ------
    StoreError
        When it is not a study folder (with runs of this scenario), or one of its shards is damaged;
        the message names the file.

    Examples
    --------
    >>> study = anabranch.Study("scenarios/rto-sweep.toml", "results/rows", replications=2)
    >>> study.run()
    >>> rows = anabranch.read("results/rows", columns=["call.mos"])
    >>> rows.columns
    ['cell', 'replication', 'seed', 'rto_max', 'pmr', 'call.mos',
     'engine_version', 'schema_version', 'scenario_hash']
    """
    return _read(Path(folder), scenario, columns)


def _read(
    folder: Path,
    scenario: Scenario | None,
    columns: Sequence[str] | None,
    engine: str = ENGINE_VERSION,
) -> pl.DataFrame:
    identity = read_identity(folder)
    if scenario is None:
        cells = cells_in(folder, identity)
    else:
        check_comparable(folder, identity, scenario, engine)
        cells = cells_of(scenario)

    def look() -> pl.DataFrame:
        files = shard_files.checked(folder / "rows")
        shard_files.check_engine(files, identity["engine_version"])
        rows = frame(cells, files, identity["engine_version"], columns)
        if rows.is_empty() and files and scenario is not None:
            raise StoreError(f"{folder} holds no run of this scenario, only of another scenario")
        return rows

    return _while_it_changes(look)


def read_cells(folder: str | Path) -> pl.DataFrame:
    """The cells of a study folder's current definition, as `cells_of` gives them.

    Raises
    ------
    StoreError
        When it is not a study folder.
    """
    folder = Path(folder)
    return cells_in(folder, read_identity(folder))


def scalars(folder: str | Path) -> set[str]:
    """The names of all scalars in a study folder.

    Raises
    ------
    StoreError
        The same as for `shards`.
    """
    return scalars_in([FileShard(path) for path in shards(folder)])


def shards(folder: str | Path) -> list[Path]:
    """The shards of a study folder, each checked against its digest.

    Raises
    ------
    StoreError
        When it is not a study folder, or one of them is damaged or another engine's; the message
        names the file.
    """
    folder = Path(folder)
    engine = read_identity(folder)["engine_version"]

    def look() -> list[Path]:
        files = shard_files.checked(folder / "rows")
        shard_files.check_engine(files, engine)
        return [shard.path for shard in files]

    return _while_it_changes(look)


def traces(folder: str | Path, table: str, scenario: Scenario | None = None) -> pl.LazyFrame:
    """The traces of a study folder: cell, replication, and the table's columns.

    Parameters
    ----------
    folder
        The study folder.
    table
        The name of the table.
    scenario
        The same as for `read`.
    """
    folder = Path(folder)
    identity = read_identity(folder)
    cells = cells_in(folder, identity) if scenario is None else cells_of(scenario)
    files = _trace_files(folder, table)
    if not files:
        there = sorted(path.name for path in (folder / "traces").glob("*"))
        known = f"there are {', '.join(there)}" if there else "none are kept"
        raise StoreError(f"{folder} has no traces `{table}`; {known}")
    files = [path for path in files if not _is_empty(path)]
    wanted = (
        cells.select("cell", "scenario_hash")
        .join(_addresses(files).with_row_index("place"), on="scenario_hash")
        .sort(INDEX)
    )
    if wanted.is_empty():
        return pl.LazyFrame(schema={"cell": pl.UInt32, "replication": pl.UInt32})
    paths = [str(files[place]) for place in wanted["place"]]
    rows = pl.scan_parquet(
        list(dict.fromkeys(paths)),
        include_file_paths="file",
        glob=False,
        hive_partitioning=False,
        missing_columns="insert",
        extra_columns="ignore",
    )
    runs = wanted.select(*INDEX, file=pl.Series(paths)).lazy()
    tables = rows.join(runs, on="file", maintain_order="left_right").drop("file")
    if wanted["place"].is_duplicated().any():  # equal cells share a file
        tables = tables.sort(INDEX, maintain_order=True)
    return tables.select(*INDEX, pl.exclude(INDEX))


def _while_it_changes(look: Callable[[], T]) -> T:
    """Reads again if a file is gone because a sweep has merged shards."""
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except FileNotFoundError:
            pass
    return look()


def _trace_files(folder: Path, table: str) -> list[Path]:
    """The complete files of a table."""
    shard_files.check_folder(folder / "traces")
    paths = sorted((folder / "traces" / table).glob("[0-9a-f]*-*.parquet"))
    return [path for path in paths if is_complete(path)]


def _is_empty(path: Path) -> bool:
    """Whether the file stands for a run that had no such table."""
    return path.stat().st_size < 1000 and not pl.read_parquet_schema(path)


def _addresses(files: Sequence[Path]) -> pl.DataFrame:
    parts = [path.stem.rpartition("-") for path in files]
    return pl.DataFrame(
        {
            "scenario_hash": [part[0] for part in parts],
            "replication": [int(part[2]) for part in parts],
        },
        schema={"scenario_hash": pl.String, "replication": pl.UInt32},
    )
