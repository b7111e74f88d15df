"""Folders of the sweep that the tests of stores fill."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

from anabranch import Scenario, _engine, store
from anabranch.store import (
    FolderStore,
    shard_files,
)
from conftest import SWEEP

Runs = Sequence[tuple[int, int]]

ALL = [(cell, replication) for replication in range(6) for cell in range(6)]
"""The runs of `SWEEP`."""


def rows_of(scenario: Scenario, runs: Runs) -> pl.DataFrame:
    return store.rows_of(scenario, _engine.run_batch(scenario, runs, 2))


def fill(out: Path, scenario: Scenario, *batches: Runs) -> Path:
    """A study folder with a shard for each batch."""
    with FolderStore(out, scenario, shared=True) as opened:
        for runs in batches:
            opened.append(rows_of(scenario, runs))
    return out


def assert_same(first: pl.DataFrame, second: pl.DataFrame) -> None:
    """Equal to the bit."""
    assert_frame_equal(first, second, check_exact=True)


def shards_in(out: Path) -> list[Path]:
    return sorted(out.glob("rows/*.parquet"))


TRACED = SWEEP.replace("replications = 6", 'replications = 6\ntraces = ["exchanges", "frames"]')


def cut(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])


def edit_identity(out: Path, **changes: object) -> None:
    path = out / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def make_by_engine(out: Path, version: str) -> None:
    """The folder as another engine would have made it."""
    edit_identity(out, engine_version=version)
    for shard in shards_in(out):
        rows = pl.read_parquet(shard)
        shard.unlink()
        engine = pl.lit(version).alias("engine_version")
        shard_files.write(out / "rows", rows.with_columns(engine))
