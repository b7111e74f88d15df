"""SQL over a study folder: DuckDB reads the shards in place; nothing is copied or changed.

The tables of a query:

- `rows`: a row for each finished run of the folder's definition, as `Study.frame` has them;
- `members`: if flows have a `count`, a row for each member of such a flow in each of these runs,
  with the members' scalars by the name that they have within the member;
- `traces_packets`, `traces_frames`, ...: traces that the study has kept, each row with its `cell`
  and `replication`.

NULL means "no value" (NaN in the shards), so aggregates leave it out as all statistics do.

A query has no time limit unless it is given one; Ctrl-C ends it at any moment.
"""

import logging
import math
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb
import polars as pl

from anabranch import store
from anabranch.errors import AnabranchError, StoreError, suggestion
from anabranch.support import declared
from anabranch.support.columns import axes_of, is_scalar
from anabranch.support.cores import threads
from anabranch.support.files import opened_atomically

from . import members

_CAST = "cast columns of such types, say `::VARCHAR`"

_ALL_COLUMNS = re.compile(r"\*|\b(?:columns|describe|summarize)\b", re.IGNORECASE)
_COUNTS = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_log = logging.getLogger(__name__)

T = TypeVar("T")

MEMORY_PER_JOB = 700
"""Megabytes that DuckDB may use for each thread; with more data it works on disk. They suffice to
sort a million rows of 60 scalars.
"""

ALL_ROWS = "SELECT * FROM rows ORDER BY cell, replication"
"""The query that is run if no SQL is given."""

MOST_COLUMNS = 2_000
"""The most scalars of `rows`; where there would be more, it has those of members of flows only if
the query names them.
"""

FORMATS = ("arrow", "csv", "json", "parquet")
"""Types of files that a result can be written to; Arrow is its IPC file format."""


class Tables:
    """The tables of a study folder, for queries in SQL.

    Parameters
    ----------
    folder
        A study folder.
    jobs
        Threads; each may use `MEMORY_PER_JOB`.
    timeout_s
        Seconds that each query may take, after which it raises an AnabranchError; no limit if not
        given.

    Raises
    ------
    AnabranchError
        When the time is not above 0.
    StoreError
        When it is not a study folder or a shard is damaged.
    """

    def __init__(
        self, folder: str | Path, jobs: int = 1, *, timeout_s: float | None = None
    ) -> None:
        if timeout_s is not None and not timeout_s > 0:
            raise AnabranchError(f"timeout_s is {timeout_s:g}; it must be more than 0 seconds")
        self._process = os.getpid()
        self._timeout_s = math.inf if timeout_s is None else timeout_s
        self._deadline = math.inf
        self._folder = Path(folder)
        self._identity = store.read_identity(self._folder)
        cells = store.read_cells(self._folder)
        shards = store.shards(self._folder)
        self._scratch = tempfile.TemporaryDirectory(prefix="anabranch-query-")
        self._idle = threading.Event()
        self._idle.set()
        self.columns: dict[str, list[str]] = {}
        """The columns of each table; those of traces only once a query has used them."""
        try:
            self._database = duckdb.connect(
                config={
                    "autoinstall_known_extensions": False,
                    "autoload_known_extensions": False,
                    "memory_limit": f"{MEMORY_PER_JOB * threads(jobs)}MB",
                    "python_enable_replacements": False,
                    "temp_directory": self._scratch.name,
                    "threads": threads(jobs),
                }
            )
            self._lists: dict[str, list[str]] = {}  # flow -> its stored columns
            self._most: dict[str, int] = {}  # flow -> the most members in a run
            self._make(cells, shards)
            self._allow_reading_only()
        except BaseException:
            self._scratch.cleanup()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees memory and disk."""
        if self._process != os.getpid():
            return
        if self._idle.is_set():
            self._database.close()
        self._scratch.cleanup()

    def frame(self, sql: str | None = None) -> pl.DataFrame:
        """The result of a SELECT; without one all rows, sorted by cell and replication."""
        with self._result(self._select(sql)) as path, _typed():
            return pl.read_parquet(path, memory_map=False)

    def head(self, sql: str | None, count: int) -> tuple[pl.DataFrame, int]:
        """The first `count` rows of a SELECT's result, and the number of all its rows."""
        selected = self._select(sql)
        with self._result(selected.limit(count)) as path, _typed():
            first = pl.read_parquet(path, memory_map=False)
        if first.height < count:
            return first, first.height
        [(total,)] = self._compute(lambda: selected.aggregate("count(*)").fetchall())
        return first, total

    def save(self, sql: str | None, files: dict[str, Path]) -> int:
        """Writes a SELECT's result to files, by format (`FORMATS`); gives the number of rows."""
        with self._result(self._select(sql)) as path, _typed():
            for kind, target in files.items():
                _write(path, kind, target)
            return int(pl.scan_parquet(path).select(pl.len()).collect().item())

    def _make(self, cells: pl.DataFrame, shards: Sequence[Path]) -> None:
        """Makes the tables.

        The axes are those of the current definition: a shard has those of when it was written.
        """
        given = self._file("cells")
        cells.write_parquet(given)
        self._execute(f"CREATE TABLE cells AS FROM read_parquet({_text(given)})")
        self.columns["cells"] = cells.columns
        self._source = "(SELECT scenario_hash, 0::UINTEGER AS replication FROM cells WHERE false)"
        self._scalars: list[str] = []
        if shards:
            self._check_names(shards)
            stored = f"read_parquet({_list(shards)}, union_by_name = true)"
            described = self._execute(f"DESCRIBE SELECT * FROM {stored}")
            names = {name: declared.present_name(name) for name, *_ in described}
            self._source = self._once(stored)
            renamed = [f"{_name(old)} AS {_name(new)}" for old, new in names.items() if old != new]
            if renamed:
                self._source = f"(SELECT * RENAME ({', '.join(renamed)}) FROM {self._source})"
            for name in sorted(filter(is_scalar, names.values())):
                if members.is_list(name):
                    self._lists.setdefault(members.flow_of(name), []).append(name)
                else:
                    self._scalars.append(name)
        if self._lists:
            numbers = [f"max({_name(members.number_column(flow))})" for flow in self._lists]
            [most] = self._execute(f"SELECT {', '.join(numbers)} FROM {self._source}")
            self._most = {flow: most or 0 for flow, most in zip(self._lists, most, strict=True)}
        of_members = sum(len(lists) * self._most[flow] for flow, lists in self._lists.items())
        self._is_large = len(self._scalars) + of_members > MOST_COLUMNS
        self._about = [name for name in ("study", "seed", *axes_of(cells)) if name in cells.columns]
        self._make_rows("")
        self._make_members()

    def _make_rows(self, sql: str) -> None:
        """Makes the table `rows`, with all scalars or at least those that the query names."""
        scalars = {name: f"r.{_name(name)}" for name in self._scalars}
        for name in self._named(sql) if self._is_large else self._of_members():
            column, place = members.list_of(name)
            scalars[name] = f"r.{_name(column)}[{place + 1}]"
        chosen = [
            "c.cell",
            "r.replication",
            *(f"c.{_name(name)}" for name in self._about),
            *(f"nullif({scalars[s]}, 'NaN'::DOUBLE) AS {_name(s)}" for s in sorted(scalars)),
            f"{_text(self._identity['engine_version'])} AS engine_version",
            f"{store.SCHEMA_VERSION}::UINTEGER AS schema_version",
            "c.scenario_hash",
        ]
        self._execute(
            f"CREATE OR REPLACE VIEW rows AS SELECT {', '.join(chosen)} FROM {self._source} r"
            " JOIN cells c USING (scenario_hash)"
        )
        self._note_columns("rows")

    def _of_members(self) -> Iterator[str]:
        """The scalars of all members of flows."""
        for flow, lists in self._lists.items():
            for column in lists:
                yield from members.names_in(column, self._most[flow])

    def _named(self, sql: str) -> Iterator[str]:
        """The scalars of members of flows that a query names, in double quotes."""
        columns = {
            column.lower(): (column, self._most[flow])
            for flow, lists in self._lists.items()
            for column in lists
        }
        for name in dict.fromkeys(re.findall(r'"([^"]+)"', sql.lower())):
            lowered, place = members.list_of(name)
            column, most = columns.get(lowered, ("", 0))
            if place < most:
                yield members.names_in(column, place + 1)[-1]

    def _make_members(self) -> None:
        """Makes the table `members`: of each flow with a `count`, a row for each of its members."""
        parts = []
        about = [f"c.{_name(name)}" for name in self._about]
        taken = {name.lower() for name in ("cell", "replication", *self._about, "flow", "member")}
        for flow, lists in self._lists.items():
            named = {column: members.scalar_of(column) for column in lists}
            scalars = [
                f"nullif(r.{_name(column)}[m.member], 'NaN'::DOUBLE)"
                f" AS {_name(f'member.{name}' if name.lower() in taken else name)}"
                for column, name in named.items()
            ]
            chosen = ["c.cell", "r.replication", *about, f"{_text(flow)} AS flow", "m.member"]
            number = f"r.{_name(members.number_column(flow))}"
            parts.append(
                f"SELECT {', '.join([*chosen, *scalars])} FROM {self._source} r"
                " JOIN cells c USING (scenario_hash),"
                f" LATERAL (SELECT unnest(range(1, {number} + 1)) AS member) m"
            )
        if parts:
            self._execute(f"CREATE VIEW members AS {' UNION ALL BY NAME '.join(parts)}")
            self._note_columns("members")

    def _check_names(self, shards: Sequence[Path]) -> None:
        """Raises if scalars differ only in case, as DuckDB would confuse them."""
        named = f"SELECT DISTINCT name FROM parquet_schema({_list(shards)}) ORDER BY name"
        seen: dict[str, str] = {}
        for (name,) in self._execute(named):
            if (other := seen.setdefault(name.lower(), name)) != name and is_scalar(name):
                raise AnabranchError(
                    f"SQL does not tell `{name}` from `{other}`:"
                    " rename what they are of, or read the rows with Study.frame() in Python"
                )

    def _make_traces(self, sql: str) -> None:
        """Makes the tables of traces that a query mentions."""
        for folder in sorted((self._folder / "traces").glob("*/")):
            name = f"traces_{folder.name}"
            if name in sql.lower() and name not in self.columns:
                path = self._file(name)
                store.traces(self._folder, folder.name).sink_parquet(path)
                self._execute(f"CREATE VIEW {_name(name)} AS FROM read_parquet({_text(path)})")
                self._note_columns(name)

    def _note_columns(self, table: str) -> None:
        self.columns[table] = [name for name, *_ in self._execute(f"DESCRIBE {_name(table)}")]

    def _file(self, name: str) -> Path:
        return Path(self._scratch.name, f"{name}.parquet")

    def _execute(self, sql: str) -> list[tuple[Any, ...]]:
        return self._database.execute(sql).fetchall()

    def _once(self, stored: str) -> str:
        """The shards' rows without repetitions: two shards may have equal rows of the same run."""
        key = "scenario_hash, replication"
        [(total, different)] = self._execute(
            f"SELECT count(*), count(DISTINCT ({key})) FROM {stored}"
        )
        if total == different:
            return stored
        # Only the positions of the rows to leave out are kept in memory.
        located = stored[:-1] + ", filename = true, file_row_number = true)"
        self._execute(
            "CREATE TABLE repeated AS SELECT filename, file_row_number FROM"
            f" (SELECT filename, file_row_number, row_number() OVER (PARTITION BY {key}"
            f" ORDER BY filename, file_row_number) AS copy FROM {located}) WHERE copy > 1"
        )
        return f"(FROM {located} ANTI JOIN repeated USING (filename, file_row_number))"

    def _allow_reading_only(self) -> None:
        folders = [self._folder / "rows", Path(self._scratch.name)]
        for setting in (
            f"allowed_directories = {_list(folders)}",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._execute(f"SET {setting}")

    def _select(self, sql: str | None) -> duckdb.DuckDBPyRelation:
        if self._process != os.getpid():
            raise AnabranchError(
                f"the rows were opened by the process {self._process}, which this one was forked"
                " from; open them here"
            )
        self._deadline = time.monotonic() + self._timeout_s
        sql = ALL_ROWS if sql is None else sql
        if self._is_large:
            self._make_rows(sql)
            if _ALL_COLUMNS.search(_COUNTS.sub("", sql)):
                message = (
                    "`rows` lacks the scalars of flows with a `count`, being too many, except for"
                    " those that a query names, as %s; the table `members` has all of them"
                )
                _log.warning(message, _name(next(self._of_members())))
        self._make_traces(sql)
        with self._reading(sql):
            statements = duckdb.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise AnabranchError(
                    "a query is one SELECT statement: it reads, and changes nothing"
                )
            selected = self._database.sql(statements[0].query)
        if any("INTERVAL" in str(kind) for kind in selected.types):
            # Polars would panic, and print that on standard error.
            raise AnabranchError(f"the result has an INTERVAL: {_CAST}")
        return selected

    @contextmanager
    def _result(self, selected: duckdb.DuckDBPyRelation) -> Iterator[Path]:
        """Writes a query's result to a Parquet file, so that it may be larger than memory."""
        path = self._file("result")
        try:
            self._compute(lambda: selected.write_parquet(str(path), row_group_size=20_480))
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _compute(self, work: Callable[[], T]) -> T:
        """Does the work on another thread, so that this one reacts to Ctrl-C at once.

        DuckDB itself may react minutes later.
        """
        results: list[T] = []
        errors: list[BaseException] = []
        self._idle.clear()

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)
            finally:
                self._idle.set()

        threading.Thread(target=run, daemon=True).start()
        try:
            # If DuckDB's thread gets the signal, Python handles it once the wait is over.
            while not self._idle.wait(min(0.1, max(self._deadline - time.monotonic(), 0))):
                if time.monotonic() >= self._deadline:
                    raise AnabranchError(
                        f"the query has not ended within {self._timeout_s:g} s: give it more time"
                    )
        except BaseException:
            self._database.interrupt()
            self._idle.wait(5)
            raise
        with self._reading():
            for error in errors:
                raise error
        return results[0]

    @contextmanager
    def _reading(self, sql: str = "") -> Iterator[None]:
        """Turns DuckDB's errors into messages of one sentence."""
        try:
            yield
        except duckdb.Error as error:
            raise self._explained(str(error), sql) from error

    def _explained(self, message: str, sql: str) -> AnabranchError:
        if match := re.search(r'Referenced column "(.+?)" not found', message):
            return self._without(match[1])
        if (match := re.search(r'Referenced table "(.+?)" not found', message)) and (
            scalar := self._unquoted(match[1], sql)
        ):
            return AnabranchError(
                f'`{scalar}` needs double quotes, "{scalar}", as every name with a dot in SQL'
            )
        if match := re.search(r"(?:Table with name|Referenced table) \"?(\S+?)\"? ", message):
            tables = ", ".join(f"`{name}`" for name in sorted(self.columns))
            return AnabranchError(f"there is no table `{match[1]}`; there are {tables}")
        if "Permission Error" in message:
            return AnabranchError("a query may read the study's own tables, and no files")
        if "Parquet" in message or "parquet" in message:
            return StoreError(f"{self._folder} has a damaged file: {_first_line(message)}")
        return AnabranchError(f"the query cannot be run: {_first_line(message)}")

    def _without(self, column: str) -> AnabranchError:
        """The error of a query that names a column which its tables lack."""
        said = f"there is no column `{column}`"
        for table, columns in self.columns.items():
            if column in columns:
                return AnabranchError(f"{said} in these tables; the table `{table}` has it")
        names = [name for columns in self.columns.values() for name in columns]
        written = [name if name.isidentifier() else _name(name) for name in names]
        return AnabranchError(f"{said}{suggestion(column, written)}")

    def _unquoted(self, first: str, sql: str) -> str | None:
        """The scalar that is meant by a name with dots and without quotes."""
        scalars = {name.lower(): name for names in self.columns.values() for name in names}
        for name in re.findall(rf'(?<!["\w]){re.escape(first)}(?:\.[\w-]+)+', sql, re.IGNORECASE):
            if name.lower() in scalars:
                return scalars[name.lower()]
        return None


@contextmanager
def _typed() -> Iterator[None]:
    """Reports in one sentence that Polars or a type of file does not support a data type."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if "No space left" in str(error):
            raise AnabranchError(
                f"the result cannot be written: {_first_line(str(error))}"
            ) from error
        message = f"the result cannot be read or written ({_first_line(str(error))}): {_CAST}"
        raise AnabranchError(message) from error


def _write(parquet: Path, kind: str, target: Path) -> None:
    """Writes a result as another type of file, in pieces."""
    rows = pl.scan_parquet(parquet)
    with opened_atomically(target) as file:
        if kind == "arrow":
            rows.sink_ipc(file)
        elif kind == "csv":
            rows.sink_csv(file)
        elif kind == "json":
            file.write(rows.collect().write_json().encode() + b"\n")
        else:
            rows.sink_parquet(file, compression="zstd")


def _first_line(message: str) -> str:
    """DuckDB's message without the type of error, its list of candidates and the query's text."""
    line = message.partition("\n")[0]
    return re.sub(r"^[A-Z]\w+(?: \w+)* Error: ", "", line).rstrip(".!")


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _list(values: Sequence[Path]) -> str:
    return f"[{', '.join(map(_text, values))}]"
