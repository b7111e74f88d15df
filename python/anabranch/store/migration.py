"""Brings study folders of an older schema version up to date without computing anything.

Schema version 1 numbered its shards (`rows/0000.parquet`), and identified a row by the number of
its cell in the folder's only definition. Version 2 had a column for each scalar of each member of a
flow with a `count` (`store.members` says what is stored now); it can also be read as it is.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from anabranch._engine import Scenario, ScenarioError
from anabranch.errors import StoreError
from anabranch.support import progress
from anabranch.support.columns import INDEX, axes_of, is_scalar

from . import members, shard_files
from .definitions import (
    identity_of,
    read_any_identity,
    read_identity,
    write_definition,
    write_identity,
)
from .locks import hold
from .rows import SCHEMA_VERSION, cells_of
from .tables import read_table

_log = logging.getLogger(__name__)

_NUMBERED = re.compile(r"[0-9]{4,15}\.parquet")


def migrate(folder: str | Path) -> bool:
    """Brings a study folder to this schema version; rows keep every bit.

    It may be stopped at any moment; the next call continues.

    Parameters
    ----------
    folder
        A study folder.

    Returns
    -------
    Whether the folder had an older version.

    Raises
    ------
    StoreError
        If it is not a study folder, or has a newer schema version.

    Examples
    --------
    >>> study = anabranch.Study("scenarios/rto-sweep.toml", "results/new", replications=2)
    >>> study.run()
    >>> anabranch.migrate("results/new")  # nothing to do
    False
    """
    folder = Path(folder)
    old = read_any_identity(folder)
    if old["schema_version"] != 1:
        if read_identity(folder)["schema_version"] == SCHEMA_VERSION:
            return False
        with hold(folder):
            put_together(folder)
        return True
    rows = folder / "rows"
    shard_files.check_folder(rows)
    rows.mkdir(exist_ok=True)
    with hold(folder):
        scenario = Scenario.parse((folder / "scenario.toml").read_text(encoding="utf-8"))
        numbered = sorted(path for path in rows.iterdir() if _NUMBERED.fullmatch(path.name))
        with progress.steps("migrate", len(numbered), "shards") as step:
            for path in numbered:
                _migrate_shard(path, scenario)
                step()
        shard_files.compact(rows, shard_files.set_aside_damaged(rows))
        identity = identity_of(scenario) | {"engine_version": old["engine_version"]}
        write_definition(folder, scenario, identity)  # the last step: now it is of this version
    return True


def put_together(folder: Path) -> None:
    """Brings a folder of schema version 2, which is held, to this one.

    It may be stopped at any moment: each shard is written before the one that it replaces is
    removed, and equal runs count once.
    """
    counts = _counts_by_hash(folder)
    shards = shard_files.set_aside_damaged(folder / "rows")
    with progress.steps("migrate", len(shards), "shards") as step:
        for shard in shards:
            if (shard.read(["schema_version"]).to_series() != SCHEMA_VERSION).any():
                rows = shard.read(shard.names())
                about = [counts.get(address, {}) for address in rows["scenario_hash"]]
                shard_files.write(folder / "rows", _together(rows, about))
                shard.path.unlink()
            step()
    identity = read_any_identity(folder) | {"schema_version": SCHEMA_VERSION}
    write_identity(folder, identity)  # the last step: now it is of this version


def _counts_by_hash(folder: Path) -> dict[str, members.Counts]:
    """The flows with several members in each cell of the definitions that the folder has had."""
    counts: dict[str, members.Counts] = {}
    for path in sorted((folder / "definitions").glob("*.toml")):
        try:
            scenario = Scenario.parse(path.read_text(encoding="utf-8"))
            cells = read_table(path.with_suffix(".parquet"), ["cell", "scenario_hash"])
        except (OSError, ValueError, ScenarioError, pl.exceptions.PolarsError):
            _log.warning("%s is damaged: flows with a `count` keep their columns", path)
            continue
        for cell, address in cells.iter_rows():
            if several := members.counts_of(scenario, cell):
                counts[address] = several
    return counts


def _together(rows: pl.DataFrame, counts: Sequence[members.Counts]) -> pl.DataFrame:
    """Rows of version 2 in the form of this version; `counts` has an entry for each."""
    scalars = {
        column.name: column.fill_null(float("nan")).to_numpy()
        for column in rows
        if is_scalar(column.name) and column.dtype == pl.Float64
    }
    others = [name for name in rows.columns if name not in scalars]
    behind = [name for name in others if name in ("engine_version", "schema_version")]
    return pl.DataFrame(
        [
            *(rows[name] for name in others if name not in behind),
            *members.together(scalars, counts),
            *(rows[name] for name in behind),
        ]
    ).with_columns(pl.lit(SCHEMA_VERSION, pl.UInt32).alias("schema_version"))


def _migrate_shard(path: Path, scenario: Scenario) -> None:
    """Writes the shard in the new form, then removes the old one."""
    try:
        old = read_table(path)
        old.select(*INDEX, "engine_version")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
        aside = path.with_name(path.name + ".corrupt")
        path.replace(aside)
        _log.warning("%s is damaged; set aside as %s, its runs are missing", path, aside.name)
        return
    cells = cells_of(scenario)
    axes = axes_of(cells)
    about = cells[old["cell"].clip(upper_bound=cells.height - 1)]
    there = [name for name in axes if name in old.columns]
    if not about.select("cell", *axes).equals(old.select("cell", *there)):
        raise StoreError(
            f"{path} has cells that {path.parent.parent / 'scenario.toml'} does not have:"
            " it is not the scenario of these rows"
        )
    new = pl.DataFrame(
        [
            about["scenario_hash"],
            old["replication"],
            about["seed"],
            *(about[name] for name in axes),
            *(column for column in old if is_scalar(column.name)),
            old["engine_version"],
        ]
    )
    counts = [members.counts_of(scenario, cell) for cell in old["cell"]]
    shard_files.write(path.parent, _together(new, counts))
    path.unlink()
