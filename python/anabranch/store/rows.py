"""Rows: the stored results of runs, and the frame of rows for a definition's cells."""

import fnmatch
import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import polars as pl

from anabranch._engine import ENGINE_VERSION, Scenario
from anabranch.errors import StoreError
from anabranch.support.columns import INDEX, OWN_COLUMNS, axes_of, is_scalar

from . import members

SCHEMA_VERSION = 3
"""The version of the folder's layout and of its shards' columns."""

ADDRESS = ("scenario_hash", "replication")
"""The columns that identify a stored row, independent of the definition."""

_GROUP = 16
"""Stored columns that are read at a time, so that the rows need not fit into memory twice."""


class Shard(Protocol):
    """Some stored rows."""

    @property
    def name(self) -> str:
        """The shard's name, for messages."""

    def names(self) -> Sequence[str]:
        """The names of its columns."""

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """These columns of all its rows."""


@lru_cache(maxsize=8)
def cells_of(scenario: Scenario) -> pl.DataFrame:
    """The cells of a scenario's sweep, in their order.

    Returns
    -------
    cell, study (with sub-studies), the axes (null where a cell has none), seed, scenario_hash.
    """
    axes = [axis["name"] for axis in scenario.axes]
    for name in axes:
        if name in OWN_COLUMNS or "." in name:
            message = f"the axis `{name}` has the name of another column: choose another one"
            raise StoreError(message)
    count = scenario.cell_count
    keys = [scenario.cell_key(cell) for cell in range(count)]
    columns = [pl.Series("cell", range(count), dtype=pl.UInt32)]
    if scenario.studies:
        studies = [scenario.cell_study(cell) for cell in range(count)]
        columns.append(pl.Series("study", studies, dtype=pl.String))
    columns += [_axis(name, [key.get(name) for key in keys]) for name in axes]
    columns.append(pl.Series("seed", _seeds(scenario), dtype=pl.UInt64))
    columns.append(pl.Series("scenario_hash", scenario.cell_hashes(), dtype=pl.String))
    return pl.DataFrame(columns)


def rows_of(scenario: Scenario, batch: Mapping[str, Any]) -> pl.DataFrame:
    """What is stored of a batch of the engine: its columns, and what identifies the runs.

    The axes are there for readers of a single shard; frames take them from the definition.
    """
    cells = cells_of(scenario)
    numbers = {name: pl.Series(name, batch[name], dtype=pl.Float64) for name in INDEX}
    numbers["cell"] = numbers["cell"].cast(pl.UInt32)
    about = cells[numbers["cell"]]
    counts = [members.counts_of(scenario, cell) for cell in numbers["cell"]]
    scalars = {
        name: np.asarray(values, dtype=float) for name, values in batch.items() if is_scalar(name)
    }
    return pl.DataFrame(
        [
            about["scenario_hash"],
            numbers["replication"].cast(pl.UInt32),
            about["seed"],
            *(about[name] for name in axes_of(cells)),
            *members.together(scalars, counts),
        ]
    ).with_columns(
        pl.lit(ENGINE_VERSION).alias("engine_version"),
        pl.lit(SCHEMA_VERSION, pl.UInt32).alias("schema_version"),
    )


def frame(
    cells: pl.DataFrame,
    shards: Sequence[Shard],
    engine_version: str,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """The rows of these cells, each run once, as if they had been computed in order.

    Parameters
    ----------
    cells
        As `cells_of` gives them.
    shards
        Where the rows are.
    engine_version
        The version of the engine that made all rows.
    columns
        The scalars that are wanted, `*` standing for anything; all if None. One that no row has is
        left out, and one that none has a value of unless it is named.

    Raises
    ------
    StoreError
        If two shards have different values for one run.
    """
    parts, twice = _found(cells, shards)
    known = scalars_in(shards)
    forms = ["*"] if columns is None else list(dict.fromkeys(columns))
    names = list(dict.fromkeys(name for form in forms for name in _matching(known, form)))
    named, read = set(forms), dict[str, pl.Series]()
    for group in _groups(names):
        block = pl.concat([_padded(shard, group) for shard in shards])
        _check_equal(block, twice, shards)
        block = block[parts["row"]]
        # A scalar that only some cells have is NaN elsewhere, which is how the engine writes "no
        # value".
        block = block.with_columns(pl.all().fill_null(float("nan")))
        valued = named.union(_valued(block))
        read |= {column.name: column for column in block if column.name in valued}
    scalars = [read[name] for name in names if name in read]
    about = cells[parts["cell"]]
    first = [parts["cell"], parts["replication"]]
    if "study" in cells.columns:
        first.append(about["study"])
    return pl.DataFrame(
        [*first, about["seed"], *(about[name] for name in axes_of(cells)), *scalars]
    ).with_columns(
        pl.lit(engine_version).alias("engine_version"),
        pl.lit(SCHEMA_VERSION, pl.UInt32).alias("schema_version"),
        about["scenario_hash"],
    )


def _matching(known: set[str], form: str) -> list[str]:
    """The names of a form, sorted."""
    if form in known:  # thousands may be named one by one
        return [form]
    return sorted(fnmatch.filter(known, form)) if set(form) & set("*?[") else []


def without_empty(rows: pl.DataFrame, named: Sequence[str] = ()) -> pl.DataFrame:
    """The rows without scalars that have no value in any of them, except those named."""
    scalars = [name for name in rows.columns if is_scalar(name)]
    empty = set(scalars).difference(named, _valued(rows.select(scalars)))
    return rows.select(name for name in rows.columns if name not in empty)


def each_once(shards: Sequence[Shard]) -> pl.DataFrame:
    """All columns and rows of some shards, with each run once, in the order of their addresses.

    Raises
    ------
    StoreError
        If two shards have different values for one run.
    """
    index = index_of(shards)
    names = list(dict.fromkeys(name for shard in shards for name in shard.names()))
    rows = pl.concat([shard.read(shard.names()) for shard in shards], how="diagonal_relaxed")
    first = firsts(index)
    if first.height < index.height:
        check_twins(shards)
        rows = rows[first["row"]]
    return rows.select(names).sort(ADDRESS)


def check_twins(shards: Sequence[Shard]) -> None:
    """Raises StoreError if two shards have different values for one run."""
    index = index_of(shards)
    twice = _twice(index, firsts(index))
    if twice.is_empty():
        return
    for group in _groups(sorted(scalars_in(shards))):
        _check_equal(pl.concat([_padded(shard, group) for shard in shards]), twice, shards)


def scalars_in(shards: Sequence[Shard]) -> set[str]:
    """The names of all scalars that some shards have."""
    scalars: set[str] = set()
    most: dict[str, int] = {}
    for shard in shards:
        columns = [name for name in shard.names() if is_scalar(name)]
        lists = [name for name in columns if members.is_list(name)]
        scalars.update(columns)
        if lists:
            columns = sorted({members.number_column(members.flow_of(name)) for name in lists})
            counts = shard.read(columns).fill_null(0)
            numbers = {column.name: column.to_numpy().max(initial=0) for column in counts}
            for name in lists:
                number = int(numbers[members.number_column(members.flow_of(name))])
                most[name] = max(number, most.get(name, 0))
    scalars.difference_update(most)
    return scalars.union(*(members.names_in(name, number) for name, number in most.items()))


def index_of(shards: Sequence[Shard]) -> pl.DataFrame:
    """The address, shard (its position) and row (counted over all shards) of each stored row."""
    indices = [
        shard.read(ADDRESS).with_columns(pl.lit(number, pl.UInt32).alias("shard"))
        for number, shard in enumerate(shards)
    ]
    empty = pl.DataFrame(
        schema={"scenario_hash": pl.String, "replication": pl.UInt32, "shard": pl.UInt32}
    )
    return pl.concat([empty, *indices]).with_row_index("row")


def firsts(index: pl.DataFrame) -> pl.DataFrame:
    """Each run of `index_of` at its first occurrence."""
    return index.unique(ADDRESS, keep="first", maintain_order=True)


def _valued(scalars: pl.DataFrame) -> list[str]:
    """The scalars that have a value in some row."""
    if scalars.is_empty():
        return []
    has = scalars.select(pl.all().is_not_nan().any()).row(0)
    return list(itertools.compress(scalars.columns, has))


def _found(cells: pl.DataFrame, shards: Sequence[Shard]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cell, replication and row of each run of these cells, in order; and `_twice`."""
    index = index_of(shards)
    wanted = index.join(cells.select("scenario_hash"), on="scenario_hash", how="semi")
    first = firsts(wanted)
    twice = _twice(wanted, first)
    parts = (
        cells.select("cell", "scenario_hash")
        .join(first, on="scenario_hash")
        .select("cell", "replication", "row")
        .sort(INDEX)
    )
    return parts, twice


def _twice(index: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """For runs that occur more than once: their address, both rows, both shards."""
    if first.height == index.height:
        return index.head(0).with_columns(row_first="row", shard_first="shard")
    return index.join(first, on=ADDRESS, suffix="_first").filter(
        pl.col("row") > pl.col("row_first")
    )


def _groups(names: Sequence[str]) -> Iterator[list[str]]:
    """Scalars that are read together: those of one list, and at least `_GROUP`."""
    of_columns: dict[str, list[str]] = {}
    for name in names:
        of_columns.setdefault(members.list_of(name)[0] or name, []).append(name)
    group: list[str] = []
    for column in of_columns.values():
        group += column
        if len(group) >= _GROUP:
            yield group
            group = []
    if group:
        yield group


def _padded(shard: Shard, names: Sequence[str]) -> pl.DataFrame:
    """These scalars; those that the shard lacks are null."""
    there = set(shard.names())
    lists: dict[str, list[str]] = {}
    for name in names:
        if (column := members.list_of(name)[0]) in there:
            lists.setdefault(column, []).append(name)
    own = [name for name in names if name in there]
    rows = shard.read([*own, *lists] or ADDRESS[1:])
    found = {name: rows[name] for name in own}
    for column, wanted in lists.items():
        found |= {scalar.name: scalar for scalar in members.apart(rows[column], wanted)}
    missing = pl.Series([None], dtype=pl.Float64)
    return pl.DataFrame(
        [
            found[name] if name in found else missing.new_from_index(0, rows.height).alias(name)
            for name in names
        ]
    )


def _check_equal(rows: pl.DataFrame, twice: pl.DataFrame, shards: Sequence[Shard]) -> None:
    if twice.is_empty():
        return
    one = rows[twice["row_first"]].fill_null(float("nan"))
    other = rows[twice["row"]].fill_null(float("nan"))
    for name in rows.columns:
        a, b = one[name].to_numpy(), other[name].to_numpy()
        # Values have to be equal to the bit, except that any NaN equals any other.
        same = (a.view(np.uint64) == b.view(np.uint64)) | (np.isnan(a) & np.isnan(b))
        if not same.all():
            run = twice.row(int(same.argmin()), named=True)
            raise StoreError(
                f"{shards[run['shard_first']].name} and {shards[run['shard']].name} disagree about"
                f" `{name}` of run {run['scenario_hash']}-{run['replication']}: one of them is"
                " damaged or was made by another engine; remove it"
            )


def _axis(name: str, values: Iterable[Any]) -> pl.Series:
    """The column of an axis; as text if its values are not all of one type."""
    values = list(values)
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1:
        values = [None if value is None else str(value) for value in values]
    return pl.Series(name, values)


def _seeds(scenario: Scenario) -> list[int]:
    """The seed of each cell, which is the scenario's unless an axis sets it."""
    sweep = tomllib.loads(scenario.to_toml()).get("sweep", {})
    parts = [sweep, *sweep.get("studies", {}).values()]
    if not any("seed" in members.settings(part) for part in parts):
        return [scenario.seed] * scenario.cell_count
    cells = range(scenario.cell_count)
    return [tomllib.loads(scenario.cell_toml(cell))["seed"] for cell in cells]
