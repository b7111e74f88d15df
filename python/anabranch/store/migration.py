"""Brings study folders of an older schema version up to date without computing anything.

Schema version 1 numbered its shards (`rows/0000.parquet`), and identified a row by the number of
its cell in the folder's only definition.
"""

import logging
import re
from pathlib import Path

import polars as pl

from anabranch._engine import Scenario
from anabranch.errors import StoreError
from anabranch.support import progress
from anabranch.support.columns import INDEX, axes_of, is_scalar

from . import shard_files
from .definitions import (
    identity_of,
    read_any_identity,
    read_identity,
    write_definition,
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
        read_identity(folder)
        return False
    rows = folder / "rows"
    shard_files.check_folder(rows)
    rows.mkdir(exist_ok=True)
    with hold(folder):
        scenario = Scenario.parse((folder / "scenario.toml").read_text(encoding="utf-8"))
        cells = cells_of(scenario)
        numbered = sorted(path for path in rows.iterdir() if _NUMBERED.fullmatch(path.name))
        with progress.steps("migrate", len(numbered), "shards") as step:
            for path in numbered:
                _migrate_shard(path, cells)
                step()
        shard_files.compact(rows, shard_files.set_aside_damaged(rows))
        identity = identity_of(scenario) | {"engine_version": old["engine_version"]}
        write_definition(folder, scenario, identity)  # the last step: now it is of this version
    return True


def _migrate_shard(path: Path, cells: pl.DataFrame) -> None:
    """Writes the shard in the new form, then removes the old one."""
    try:
        old = read_table(path)
        old.select(*INDEX, "engine_version")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
        aside = path.with_name(path.name + ".corrupt")
        path.replace(aside)
        _log.warning("%s is damaged; set aside as %s, its runs are missing", path, aside.name)
        return
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
    ).with_columns(pl.lit(SCHEMA_VERSION, pl.UInt32).alias("schema_version"))
    shard_files.write(path.parent, new)
    path.unlink()
