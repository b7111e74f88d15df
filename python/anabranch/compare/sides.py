"""Reads the sides of a comparison: finds their runs, and what they say about themselves.

A side is a path to one of these, tried in this order:

- a study folder, which has a `study.json`: its finished runs, and the traces that its sweep keeps;
- any other folder: the runs in each `.json` file in it and in the folders directly in it;
- a file: the runs in it.

A file has what `run --json` and `emulate --json` write, an object whose `summary` has the scalars;
or an object of scalars alone; or several of these as a list, which may be `runs` of an object whose
other keys hold for all of them. A run's traces are the Parquet tables beside its file, as `run
--trace DIR --json DIR/run.json` leaves them, if no other run is in that folder.
"""

import json
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from anabranch.errors import AnabranchError, StoreError
from anabranch.stats import labels
from anabranch.store import read, read_cells, read_definition, read_identity, traces
from anabranch.store.tables import read_table
from anabranch.support import declared, wording
from anabranch.support.columns import axes_of, is_scalar
from anabranch.support.files import read_text

Key = tuple[tuple[str, Any], ...]
"""A cell's place on the axes: names and values, sorted by name."""

RunId = tuple[int | None, int]
"""The seed, if it is known, and the replication of a run within a cell."""

Settings = dict[str, Any]
"""A scenario as a tree, with every default filled in."""

TRACES = {
    "paths": ("time_s", "flow", "side", "path", "cwnd_bytes", "srtt_ms"),
    "intervals": ("flow", "side", "start_s", "end_s", "goodput_kbit_per_s"),
    "queues": ("time_s", "link", "direction", "waiting_packets"),
}
"""The traces that are laid over each other, and the columns needed for that."""

_WORDS = ("direction", "flow", "link", "side")
"""The columns among these that hold text; all others hold numbers."""

SIMULATION = "simulation"
"""The `kind` of runs that a simulation made; those with the same seed share random numbers."""

_MOST = 1e60
"""The largest absolute value of a scalar, so that its fourth power is still finite."""

_MOST_MEGABYTES = 500

_NO_FLOWS = ("emulation", "link", "run")
"""First words of scalars that belong to no flow."""


@dataclass(frozen=True)
class Side:
    """One of the two sides of a comparison."""

    name: str
    """The path, as it was given."""
    is_study: bool
    scenario: str | None
    """The scenario's name; None if the runs do not tell it."""
    version: str | None
    """The version of the package that made the runs."""
    hashes: frozenset[str]
    """The hashes of the scenarios, as far as the runs tell them."""
    is_simulated: bool
    keys: Sequence[Key]
    """The keys of the cells."""
    rows: pl.DataFrame
    """One row for each run: _cell (its index in `keys`), _seed, _replication, and the scalars."""
    axes: Callable[[], labels.Axes] = field(repr=False)
    """The axes of the scenario, which say how values are written; none if they are not known."""
    settings: Callable[[int], Settings | None] = field(repr=False)
    """Cell -> its settings; None if they are not known."""
    traced: Callable[[int], Sequence[RunId]] = field(repr=False)
    """The runs of a cell that have traces."""
    traces: Callable[[int, RunId], Mapping[str, pl.DataFrame]] = field(repr=False)
    """Cell and run -> those traces of `TRACES` that the run has."""

    @property
    def scalars(self) -> list[str]:
        """The names of the scalars."""
        return [name for name in self.rows.columns if is_scalar(name)]

    @property
    def flows(self) -> set[str]:
        """The names of the flows that have scalars."""
        return {name.partition(".")[0] for name in self.scalars}.difference(_NO_FLOWS)

    @property
    def links(self) -> set[str]:
        """The names of the links that have scalars."""
        return {name.split(".")[1] for name in self.scalars if name.startswith("link.")}

    @property
    def description(self) -> str:
        """A description of the side in words."""
        runs = wording.counted(self.rows.height, "run")
        how = "simulated" if self.is_simulated else "not simulated, or not known to be"
        if self.is_study:
            return f"study {self.name}, {wording.counted(len(self.keys), 'cell')}, {runs}, {how}"
        cells = f" of {wording.counted(len(self.keys), 'cell')}" if len(self.keys) > 1 else ""
        return f"{self.name}, {runs}{cells}, {how}"

    def runs(self, cell: int) -> list[RunId]:
        """The runs of a cell, in the order of `values`."""
        rows = self._rows(cell)
        return list(zip(rows["_seed"].to_list(), rows["_replication"].to_list(), strict=True))

    def values(self, cell: int, scalars: Sequence[str]) -> np.ndarray:
        """The values of these scalars: a row for each scalar, a column for each run, or NaN."""
        rows = self._rows(cell).select(pl.col(scalars).cast(pl.Float64).fill_null(math.nan))
        return rows.to_numpy().T.reshape(len(scalars), -1)

    def _rows(self, cell: int) -> pl.DataFrame:
        return self.rows.filter(pl.col("_cell") == cell)


def side(path: str | Path, scalars: Sequence[str] | None = None) -> Side:
    """Reads a side.

    Parameters
    ----------
    path
        One of the paths that the module's description lists.
    scalars
        Patterns of the scalars to read; all scalars if not given.

    Raises
    ------
    AnabranchError
        When the path has no runs or cannot be read; the message names the file.
    """
    path = Path(path)
    if (path / "study.json").exists():
        return _study(path, scalars)
    if path.is_dir():
        files = sorted([*path.glob("*.json"), *path.glob("*/*.json")])
        if not files:
            raise AnabranchError(
                f"{path} has no runs: it is not a study folder, and neither it nor a folder in it"
                " has a .json file, as `run --json` writes it"
            )
        if inner := next((file for file in files if file.name == "study.json"), None):
            raise AnabranchError(f"{path} has a study folder in it, {inner.parent}: name that one")
    elif path.exists():
        files = [path]
    else:
        raise AnabranchError(f"there is no file or folder {path}")
    return _from_files(path, [run for file in files for run in _runs(file)])


def _study(folder: Path, scalars: Sequence[str] | None) -> Side:
    identity = read_identity(folder)
    cells = read_cells(folder)
    rows = read(folder, columns=scalars)
    if rows.is_empty():
        raise AnabranchError(f"no run of {folder} is finished yet")
    axes = [name for name in ("study", *axes_of(cells)) if name in cells.columns]
    keys = [
        tuple(sorted((name, value) for name, value in row.items() if value is not None))
        for row in cells.select(axes).iter_rows(named=True)
    ]
    if not axes:  # a sweep without axes has no columns for them
        keys = [()] * cells.height

    @lru_cache(maxsize=1)
    def definition() -> Any:
        # Our engine may not understand the definition that another version has written.
        try:
            return read_definition(folder)
        except StoreError:
            return None

    def settings(cell: int) -> Settings | None:
        scenario = definition()
        if scenario is None or cell >= scenario.cell_count:
            return None
        return tomllib.loads(scenario.cell_toml(cell))

    def kept() -> list[str]:
        of_sweep = () if definition() is None else definition().traces
        return [name for name in TRACES if name in of_sweep]

    def traced(cell: int) -> list[RunId]:
        of_cell = rows.filter(pl.col("cell") == cell) if kept() else rows.head(0)
        return list(zip(of_cell["seed"].to_list(), of_cell["replication"].to_list(), strict=True))

    def tables(cell: int, run: RunId) -> dict[str, pl.DataFrame]:
        of_run = (pl.col("cell") == cell) & (pl.col("replication") == run[1])
        found = {name: traces(folder, name).filter(of_run).collect() for name in kept()}
        return {name: _checked(folder, name, of) for name, of in found.items()}

    return Side(
        name=str(folder),
        is_study=True,
        scenario=identity["name"],
        version=identity["engine_version"],
        hashes=frozenset([identity["scenario_hash"]]),
        # Rows that something else made name it after the engine's version.
        is_simulated=" " not in identity["engine_version"],
        keys=keys,
        rows=rows.select(
            pl.col("cell").cast(pl.Int64).alias("_cell"),
            pl.col("seed").alias("_seed"),
            pl.col("replication").cast(pl.Int64).alias("_replication"),
            pl.col([name for name in rows.columns if is_scalar(name)]),
        ),
        axes=lambda: [] if definition() is None else definition().axes,
        settings=settings,
        traced=traced,
        traces=tables,
    )


@dataclass(frozen=True)
class _Run:
    """What a file says about one run."""

    file: Path
    key: Key
    seed: int | None
    replication: int | None
    scalars: dict[str, float]
    about: Mapping[str, Any]
    """The other keys of the run's object."""


def _from_files(path: Path, runs: Sequence[_Run]) -> Side:
    if not runs:
        raise AnabranchError(f"{path} has no runs: its lists are empty")
    names = {run.about.get("scenario") for run in runs}
    if len(names) > 1:
        several = " and ".join(sorted(str(name or "one without a name") for name in names))
        raise AnabranchError(f"{path} has runs of several scenarios: {several}")
    cells = {key: cell for cell, key in enumerate(dict.fromkeys(run.key for run in runs))}
    places: dict[tuple[int, RunId], _Run] = {}
    counts = Counter[int]()
    for run in runs:
        cell = cells[run.key]
        # Runs that tell no replication are numbered by their place among the files.
        number = counts[cell] if run.replication is None else run.replication
        counts[cell] += 1
        place = (cell, (run.seed, number))
        if place in places:
            raise AnabranchError(
                f"{places[place].file} and {run.file} are the same run (replication {number}"
                f"{'' if run.seed is None else f', seed {run.seed}'}): it would count twice"
            )
        places[place] = run
    columns = dict.fromkeys(name for run in runs for name in run.scalars)
    folders = Counter(run.file.parent for run in runs)

    def of_cell(cell: int) -> _Run:
        return next(run for (other, _), run in places.items() if other == cell)

    def settings(cell: int) -> Settings | None:
        return of_cell(cell).about.get("settings")

    def beside(run: _Run) -> dict[str, Path]:
        files = {name: run.file.with_name(f"{name}.parquet") for name in TRACES}
        return {name: file for name, file in files.items() if file.is_file()}

    def traced(cell: int) -> list[RunId]:
        return [
            which
            for (other, which), run in places.items()
            if other == cell and folders[run.file.parent] == 1 and beside(run)
        ]

    def tables(cell: int, run: RunId) -> dict[str, pl.DataFrame]:
        files = beside(places[cell, run])
        return {name: _table(file, name) for name, file in files.items()}

    first = runs[0].about
    return Side(
        name=str(path),
        is_study=False,
        scenario=first.get("scenario"),
        version=first.get("version"),
        hashes=frozenset(
            run.about["scenario_hash"] for run in runs if "scenario_hash" in run.about
        ),
        is_simulated=all(run.about.get("kind") == SIMULATION for run in runs),
        keys=list(cells),
        rows=pl.DataFrame(
            {
                "_cell": pl.Series([cell for cell, _ in places], dtype=pl.Int64),
                "_seed": pl.Series([seed for _, (seed, _) in places], dtype=pl.UInt64),
                "_replication": pl.Series([number for _, (_, number) in places], dtype=pl.Int64),
                **{
                    name: pl.Series(
                        [run.scalars.get(name, math.nan) for run in places.values()],
                        dtype=pl.Float64,
                    )
                    for name in columns
                },
            }
        ),
        axes=list,
        settings=settings,
        traced=traced,
        traces=tables,
    )


def _runs(file: Path) -> Iterator[_Run]:
    """The runs in a file."""
    try:
        content = json.loads(read_text(file, _MOST_MEGABYTES))
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, json.JSONDecodeError) else "not text, or nested too deeply"
        raise AnabranchError(f"{file} cannot be read as JSON: {why}") from None
    except OSError as error:
        raise AnabranchError(f"{file} cannot be read: {error.strerror}") from None
    common: dict[str, Any] = {}
    if isinstance(content, dict) and "runs" in content:
        common = {key: value for key, value in content.items() if key != "runs"}
        content = content["runs"]
    for item in content if isinstance(content, list) else [content]:
        yield _run(file, item, common)


def _run(file: Path, item: object, common: Mapping[str, Any]) -> _Run:
    if not isinstance(item, dict):
        raise _foreign(file, f"a run is an object, not {item!r:.40}")
    about, scalars = dict(common), item
    if "summary" in item:
        about |= {key: value for key, value in item.items() if key != "summary"}
        scalars = item["summary"]
    if not isinstance(scalars, dict) or not scalars:
        raise _foreign(file, "it has no scalars")
    values = {}
    for old, value in scalars.items():
        name = declared.present_name(old)
        is_number = value is None or (isinstance(value, int | float) and type(value) is not bool)
        if not is_scalar(name) or not is_number:
            raise _foreign(file, f"`{name}` is not a scalar with a number")
        try:
            values[name] = math.nan if value is None else float(value)
        except OverflowError:
            values[name] = math.inf
        if abs(values[name]) > _MOST:
            raise _foreign(file, f"`{name}` is too large a number")
    kinds = {"scenario": str, "scenario_hash": str, "version": str, "kind": str}
    for name, kind in (*kinds.items(), ("settings", dict), ("key", dict)):
        if name in about and not isinstance(about[name], kind):
            raise _foreign(file, f"its `{name}` is {about[name]!r:.40}")
    for name in ("seed", "replication", "cell"):
        value = about.get(name)
        if value is not None and not (type(value) is int and 0 <= value < 2**64):
            raise _foreign(file, f"its `{name}` is {value!r:.40}")
    cell = about.get("cell") or 0
    key = about.get("key", {"cell": cell} if cell else {})
    if any(isinstance(value, dict | list) for value in key.values()):
        raise _foreign(file, f"its `key` is {key!r:.40}")
    return _Run(
        file=file,
        key=tuple(sorted(key.items())),
        seed=about.get("seed"),
        replication=about.get("replication"),
        scalars=values,
        about=about,
    )


def _foreign(file: Path, why: str) -> AnabranchError:
    return AnabranchError(f"{file} is not what `run --json` or `emulate --json` writes: {why}")


def _table(file: Path, name: str) -> pl.DataFrame:
    try:
        rows = read_table(file)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise AnabranchError(f"{file} cannot be read as a Parquet file") from None
    return _checked(file, name, rows)


def _checked(file: Path, name: str, rows: pl.DataFrame) -> pl.DataFrame:
    if missing := [column for column in TRACES[name] if column not in rows.columns]:
        raise AnabranchError(f"{file} is not the trace `{name}`: it has no column `{missing[0]}`")
    rows = rows.select(TRACES[name])
    for column in rows:
        is_right = column.dtype == pl.String if column.name in _WORDS else column.dtype.is_numeric()
        # A column without rows has no type that could be checked.
        if not (is_right or rows.is_empty()) or column.null_count():
            raise AnabranchError(
                f"{file} is not the trace `{name}`: its column `{column.name}` is not as a run"
                " has it"
            )
    return rows
