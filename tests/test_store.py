"""Study folders: what is found again, what damage does, and what a kill leaves."""

import errno
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import anabranch as package
from anabranch import Scenario, ScenarioError, StoreError, Study, _engine, store
from anabranch.store import (
    FolderStore,
    MemoryStore,
    folder,
    read,
    shard_files,
)
from anabranch.support import files
from conftest import COMMAND, HANGS_S, SWEEP, Command, one_error, written

Runs = Sequence[tuple[int, int]]

ALL = [(cell, replication) for replication in range(6) for cell in range(6)]
"""The runs of `SWEEP`."""


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return package.load(SWEEP)


@pytest.fixture(scope="module")
def reference(scenario: Scenario) -> pl.DataFrame:
    """All rows, from memory."""
    memory = MemoryStore(scenario)
    memory.append(rows_of(scenario, ALL))
    return memory.read()


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


def with_axes(text: str) -> Scenario:
    """The same network with other axes."""
    return package.load(SWEEP.partition("[sweep.axes]")[0] + f"[sweep.axes]\n{text}")


RTO_MAX = 'rto_max = { set = "flows.call.transport.rto_max", values = [%s] }\n'
PMR = 'pmr = { set = "flows.call.transport.path_max_retrans", values = [%s] }\n'
ACCOUNTS = 'accounts = { set = "run.time_accounts", values = [%s] }\n'
DELAY = 'delay = { set = "links.second.delay", values = ["30 ms", "35 ms"] }\n'


# --- What is found again ---


def test_a_folder_says_what_it_is(scenario: Scenario, tmp_path: Path) -> None:
    out = fill(tmp_path / "out", scenario, ALL)
    identity = json.loads((out / "study.json").read_text())
    assert identity["schema_version"] == store.SCHEMA_VERSION == 3
    assert identity["engine_version"] == _engine.ENGINE_VERSION
    assert identity["scenario_hash"] == scenario.hash
    assert identity["metrics"] == []
    definition = out / "definitions" / f"{scenario.hash}.toml"
    assert (out / "scenario.toml").read_text() == definition.read_text() == scenario.to_toml()
    (shard,) = shards_in(out)
    assert shard.stem == shard_files.digest(shard)
    row = pl.read_parquet(shard)
    assert row.columns[:5] == ["scenario_hash", "replication", "seed", "rto_max", "pmr"]
    assert "cell" not in row.columns
    assert set(row["scenario_hash"]) == set(scenario.cell_hashes())
    assert row["schema_version"].unique().to_list() == [3]


@pytest.mark.parametrize(
    ("axes", "known"),
    [
        (RTO_MAX % '"1 s", "0.1 s", "0.05 s", "0.2 s"' + PMR % "0, 1", 36),
        (RTO_MAX % '"0.05 s", "1 s"' + PMR % "1", 12),
        (PMR % "1, 0" + RTO_MAX % '"0.1 s", "1 s", "0.05 s"', 36),
        (RTO_MAX % '"100 ms", "50 ms"', 12),  # the scenario itself has path_max_retrans = 1
        (DELAY + RTO_MAX % '"1 s"' + PMR % "0, 1", 12),
    ],
    ids=["a value more", "values less", "another order", "an axis less", "an axis more"],
)
def test_a_changed_definition_computes_what_is_missing(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame, axes: str, known: int
) -> None:
    out = fill(tmp_path / "out", scenario, ALL)
    changed = with_axes(axes)
    heard: list[tuple[int, int]] = []
    study = Study(changed, out, jobs=2)
    study.run(lambda status: heard.append((status.done, status.total)))
    assert heard[0] == (known, changed.cell_count * 6)
    fresh = Study(changed, jobs=2)
    fresh.run()
    assert_same(study.frame(), fresh.frame())
    assert_same(read(out), fresh.frame())
    # The earlier content is still there, and none of it is computed again.
    back = Study(scenario, out)
    assert_same(back.frame(), reference)
    back.run(lambda status: heard.append((status.done, status.total)))
    assert heard[-1] == (36, 36)
    assert_same(read(out), reference)


def test_a_folder_says_what_was_asked_for_last(scenario: Scenario, tmp_path: Path) -> None:
    def said() -> object:
        return json.loads((tmp_path / "study.json").read_text()).get("replications")

    for asked, known in ((2, 2), ([3] * 6, 3), ([0, 2, 0, 2, 0, 2],) * 2, (None, None)):
        with FolderStore(tmp_path, scenario, asked=asked):
            pass
        assert said() == known
        cells = store.asked_of(tmp_path, store.read_identity(tmp_path), 6)
        assert cells == ([known] * 6 if isinstance(known, int) else known)
    Study(scenario, tmp_path, replications=np.arange(1, 2)[0]).run()
    assert said() == 1, "NumPy's whole numbers are numbers, too"
    Study(tmp_path).frame()
    assert said() == 1, "reading asks for nothing"


def test_equal_cells_are_one_run(tmp_path: Path) -> None:
    twins = with_axes(RTO_MAX % '"0.1 s", "100 ms"')
    out = fill(tmp_path / "out", twins, [(0, replication) for replication in range(6)])
    with FolderStore(out, twins) as opened:
        assert opened.finished(6).all()
    frame = read(out)
    assert frame.height == 12
    assert_same(
        frame.filter(pl.col("cell") == 0).drop("cell", "rto_max"),
        frame.filter(pl.col("cell") == 1).drop("cell", "rto_max"),
    )


def test_finished_is_a_matrix_of_cells_and_replications(scenario: Scenario, tmp_path: Path) -> None:
    runs = [(0, 0), (5, 0), (3, 2), (1, 9)]
    memory = MemoryStore(scenario)
    memory.append(rows_of(scenario, runs))
    with FolderStore(fill(tmp_path / "out", scenario, runs), scenario) as opened:
        for place in (memory, opened):
            assert place.finished(3).shape == (6, 3)
            found = [(int(c), int(r)) for c, r in zip(*place.finished(3).nonzero(), strict=True)]
            assert found == [(0, 0), (3, 2), (5, 0)]
            assert place.finished(10)[1, 9]


def test_only_some_scalars_are_read(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:10], ALL[10:])
    some = read(out, columns=["call.mos", "no.such"])
    about = [name for name in reference.columns if "." not in name]
    assert_same(some, reference.select(*about[:5], "call.mos", *about[5:]))


def test_a_scalar_of_other_cells_is_nan_and_of_another_definition_is_not_there(
    tmp_path: Path,
) -> None:
    accounts = with_axes(ACCOUNTS % "false, true")
    computed = rows_of(accounts, [(0, 0), (1, 0)])
    own = [name for name in computed.columns if name.endswith("_share")]
    out = tmp_path / "out"
    with FolderStore(out, accounts) as opened:
        opened.append(computed.with_columns(pl.lit(1.0).alias("call.of_both")))
        opened.append(
            computed.with_columns(
                pl.Series("scenario_hash", ["0" * 16, "1" * 16]),
                pl.lit(2.0).alias("call.of_another"),
            )
        )
    frame = read(out)
    assert frame["call.of_both"].to_list() == [1.0, 1.0]
    assert "call.of_another" not in frame.columns
    assert own
    assert all(frame[name].is_nan()[0] for name in own)
    assert read(out, columns=["call.of_another"])["call.of_another"].is_nan().all()


def test_scalars_of_cells_that_left_are_no_columns(tmp_path: Path) -> None:
    """The batch had cells with and without accounts: its shard has their shares as NaN."""
    both = with_axes(ACCOUNTS % "false, true")
    out = fill(tmp_path / "out", both, [(0, 0), (1, 0), (0, 1), (1, 1)])
    whole = Study(out).frame()
    left = [name for name in whole.columns if name.endswith("_share")]
    assert left
    assert all(whole[name].is_nan().to_list() == [True, True, False, False] for name in left)
    plain = with_axes(ACCOUNTS % "false")
    Study(plain, out, replications=2).run()
    for frame in (Study(out).frame(), Study(plain, out, replications=2).frame(), read(out)):
        assert frame.height == 2
        assert not set(left) & set(frame.columns)
        assert "call.mos" in frame.columns
    assert "call.mos" in Study(out).frame(columns=["call.*"]).columns
    assert not set(left) & set(Study(out).frame(columns=["*"]).columns)
    named = Study(out).frame(columns=left)
    assert all(named[name].is_nan().all() for name in left)
    # SQL has the columns of the folder's rows, whatever is in them.
    assert Study(out).query(f'SELECT count("{left[0]}") AS n FROM rows')["n"].item() == 0


def test_a_folder_is_opened_without_its_scenario(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = fill(tmp_path / "[odd] *name*", scenario, ALL[:20])
    study = Study(out)
    assert study.axes == ["rto_max", "pmr"]
    cells = study.cells("call.mos")
    assert cells.columns == ["cell", "rto_max", "pmr", "mean", "half_width", "n"]
    assert cells["n"].to_list() == [4, 4, 3, 3, 3, 3]
    study.run()
    assert_same(study.frame(), reference)
    assert_same(Study(out, replications=2).frame(), reference.filter(pl.col("replication") < 2))
    assert study.scenario.hash == scenario.hash
    with pytest.raises(package.AnabranchError, match="has no sub-study `x`; it has none"):
        study.frame("x")
    with pytest.raises(package.AnabranchError, match="is a folder: `out` and `set` need a scen"):
        Study(out, tmp_path / "other")
    with pytest.raises(StoreError, match=r"is not a study folder: it has no study\.json"):
        Study(tmp_path)


STUDIES = (
    SWEEP
    + """
[sweep.studies.few]
replications = 2
axes.rto_max = { set = "flows.call.transport.rto_max", values = ["0.1 s", "0.2 s"] }

[sweep.studies.delays]
axes.delay = { set = "links.second.delay", values = ["30 ms", "35 ms"] }
"""
)


def test_sub_studies_share_the_folder(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = fill(tmp_path / "out", scenario, ALL)
    whole = package.load(STUDIES)
    assert whole.cell_count == 10
    heard: list[int] = []
    study = Study(whole, out)
    study.run(lambda status: heard.append(status.done))
    # Cells of sub-studies that equal one of the sweep's own have its runs.
    assert (heard[0], heard[-1]) == (36, 36 + 2 + 6)
    frame = study.frame()
    assert frame.columns[:7] == ["cell", "replication", "study", "seed", "rto_max", "pmr", "delay"]
    assert frame["study"].value_counts(sort=True).rows() == [
        ("main", 36),
        ("delays", 12),
        ("few", 4),
    ]
    assert_same(study.frame("main").drop("study", "delay"), reference)
    few = study.frame("few")
    assert few["rto_max"].unique(maintain_order=True).to_list() == [0.1, 0.2]
    assert few["pmr"].is_null().all()
    assert few["delay"].is_null().all()
    with pytest.raises(package.AnabranchError, match="there are delays, few, main"):
        study.frame("fewer")
    # Opened without the scenario, all runs that the cells have are there.
    assert Study(out).frame("few")["replication"].max() == 5
    assert Study(out).frame().columns == frame.columns


def test_conditions_and_stopping_rules(tmp_path: Path) -> None:
    network, _, axes = SWEEP.partition("[sweep]")
    until = "until = { metric = 'call.mos', half_width = 0.4, least = 5, most = 12 }\n"
    text = f"{network}[sweep]\n{until}where = ['rto_max > 0.05 s or pmr == 1']\n"
    conditioned = package.load(text + axes.partition("replications = 6")[2])
    assert conditioned.cell_count == 5
    study = Study(conditioned, tmp_path / "out")
    study.run()
    counts = study.frame()["cell"].value_counts()["count"].to_list()
    assert all(5 <= count <= 12 for count in counts)
    assert len(counts) == 5
    assert study.total == 5 * 12
    assert_same(read(tmp_path / "out"), study.frame())


def test_a_folder_whose_name_is_not_utf_8_is_refused(scenario: Scenario, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not valid UTF-8; use another name"):
        FolderStore(tmp_path / "a\udcff", scenario)
    assert list(tmp_path.iterdir()) == []


def test_an_axis_may_not_have_a_columns_name(tmp_path: Path) -> None:
    network, _, _ = SWEEP.partition("[sweep")
    text = f"{network}[sweep.axes]\n" + PMR.replace("pmr", "seed") % "0, 1"
    with pytest.raises(ScenarioError, match="`seed` is another column of the results"):
        package.load(text)
    with pytest.raises(StoreError, match="the axis `seed` has the name of another column"):
        Study(Scenario.parse(text), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_axis_that_sets_the_seed_is_in_the_seed_column(tmp_path: Path) -> None:
    seeds = with_axes("s = { set = 'seed', values = [11, 12] }")
    out = fill(tmp_path / "out", seeds, [(0, 0), (1, 0)])
    frame = read(out)
    assert frame["seed"].to_list() == [11, 12]
    assert frame["call.mos"][1] == package.run(SWEEP, cell=3, seed=12).summary["call.mos"]


# --- Traces ---


TRACED = SWEEP.replace("replications = 6", 'replications = 6\ntraces = ["exchanges", "frames"]')


def test_traces_are_read_lazily_and_belong_to_finished_runs(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame
) -> None:
    # `exchanges` is a table that a call does not have.
    out = tmp_path / "out"
    fill(out, scenario, ALL[:6])
    study = Study(package.load(TRACED), out, replications=1)
    with FolderStore(out, study.scenario) as opened:
        assert not opened.finished(1).any()  # without its traces a run is computed again
    study.run()
    with FolderStore(out, study.scenario) as opened:
        assert opened.finished(1).all()
    assert_same(study.frame(), reference.filter(pl.col("replication") < 1))
    frames = Study(out).traces("frames")
    assert isinstance(frames, pl.LazyFrame)
    found = frames.collect()
    assert found.columns[:2] == ["cell", "replication"]
    assert found["cell"].unique(maintain_order=True).to_list() == list(range(6))
    alone = package.run(scenario, cell=1, trace=True).traces["frames"]
    assert_same(found.filter(pl.col("cell") == 1).drop("cell", "replication"), alone)
    assert Study(out).traces("exchanges").collect().is_empty()
    memory = Study(package.load(TRACED), replications=1)
    memory.run()
    assert_same(memory.traces("frames").collect(), found)
    kept = r"keeps no trace `packets` \(it keeps `exchanges`, `frames`\)"
    with pytest.raises(package.AnabranchError, match=kept):
        study.traces("packets")


def test_equal_cells_share_their_traces(tmp_path: Path) -> None:
    twins = package.load(
        STUDIES.replace("replications = 6", 'replications = 1\ntraces = ["frames"]')
    )
    memory, kept = Study(twins), Study(twins, tmp_path / "out")
    memory.run()
    kept.run()
    found = memory.traces("frames").collect()
    assert found["cell"].unique().to_list() == list(range(10))
    assert_same(found, kept.traces("frames").collect())


def test_a_trace_cut_off_is_made_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    study = Study(package.load(TRACED), out, replications=1)
    study.run()
    trace = next((out / "traces" / "frames").iterdir())
    whole = trace.read_bytes()
    trace.write_bytes(whole[:-100])
    cell = study.scenario.cell_hashes().index(trace.stem.partition("-")[0])
    with FolderStore(out, study.scenario) as opened:
        assert (~opened.finished(1)).nonzero()[0].tolist() == [cell]
    study.run()
    assert trace.read_bytes() == whole


# --- Damage ---


def cut(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])


def flip(shard: Path) -> None:
    content = bytearray(shard.read_bytes())
    content[len(content) // 3] ^= 1
    shard.write_bytes(content)


def rename(shard: Path) -> None:
    shard.replace(shard.with_name("0123456789abcdef.parquet"))


def number(shard: Path) -> None:
    shard.replace(shard.with_name("0000.parquet"))


def overwrite(shard: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(shard)


def empty(shard: Path) -> None:
    shard.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flip, rename, number, overwrite, empty])
def test_a_damaged_shard_is_named_set_aside_and_computed_again(
    scenario: Scenario,
    tmp_path: Path,
    reference: pl.DataFrame,
    caplog: pytest.LogCaptureFixture,
    damage: object,
) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:30], ALL[30:])
    whole = set(shards_in(out))
    damage(shards_in(out)[0])  # type: ignore[operator]
    (damaged,) = (path for path in shards_in(out) if shard_files.digest(path) != path.stem)
    study = Study(scenario, out)
    for reading in (study.frame, lambda: store.shards(out)):
        with pytest.raises(StoreError, match=f"{damaged.name} is damaged") as error:
            reading()
        assert str(error.value).endswith(
            "; the same sweep sets it aside and computes its runs again"
        )
        assert "\n" not in str(error.value)
    with caplog.at_level(logging.WARNING):
        study.run()
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.count(damaged.name) == 2
    assert "the same sweep" not in said, "it is this one"
    assert (out / "rows" / f"{damaged.name}.corrupt").exists()
    assert_same(study.frame(), reference)
    assert not whole & {damaged} & set(shards_in(out)) or damaged.stem == shard_files.digest(
        damaged
    )


def test_a_foreign_parquet_file_with_its_digest_for_a_name(
    scenario: Scenario, tmp_path: Path
) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:3])
    shard_files.write(out / "rows", pl.DataFrame({"a": [1]}))
    with pytest.raises(StoreError, match="is damaged: it has no column `scenario_hash`"):
        read(out)


def test_other_files_and_folders_are_let_alone(scenario: Scenario, tmp_path: Path) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:3])
    notes = written(out / "rows" / "notes.txt", "mine")
    hidden = written(out / "rows" / ".hidden", "mine")
    (out / "rows" / "old.parquet").mkdir()
    Study(scenario, out).run()
    assert (notes.read_text(), hidden.read_text()) == ("mine", "mine")
    assert read(out).height == 36


def test_a_run_in_two_shards_counts_once(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:20], ALL[10:], ALL[5:8])
    assert_same(read(out), reference)
    with FolderStore(out, scenario) as opened:
        assert opened.finished(6).all()
    (shard,) = shards_in(out)  # made one
    assert pl.read_parquet(shard).height == 36
    assert_same(read(out), reference)


@pytest.mark.parametrize("value", [1.0, None, -0.0])
def test_shards_that_disagree_are_damage(
    scenario: Scenario, tmp_path: Path, value: float | None
) -> None:
    rows = rows_of(scenario, ALL[:3]).with_columns(pl.lit(0.0).alias("call.zero"))
    other = rows.with_columns(pl.lit(value, pl.Float64).alias("call.zero"))
    out = tmp_path / "out"
    with FolderStore(out, scenario, shared=True) as opened:
        opened.append(rows)
        opened.append(other)
    match = "disagree about `call.zero` of run [0-9a-f]{16}-0"
    with pytest.raises(StoreError, match=match):
        read(out)
    with pytest.raises(StoreError, match=match), FolderStore(out, scenario):
        pass
    assert len(shards_in(out)) == 2


@pytest.mark.parametrize("name", ["definitions", "study.json"])
def test_a_damaged_description_is_written_again(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame, name: str
) -> None:
    out = fill(tmp_path / "out", scenario, ALL)
    path = out / "study.json"
    if name == "definitions":
        path = out / name / f"{scenario.hash}.parquet"
    for content in (path.read_bytes()[:20], b"", b"{}"):
        path.write_bytes(content)
        with pytest.raises(StoreError, match=rf"{path.name} is damaged.* writes it again"):
            read(out)
    path.unlink()
    with pytest.raises(
        StoreError, match="is missing" if name == "definitions" else "no study.json"
    ):
        read(out)
    heard: list[int] = []
    Study(scenario, out).run(lambda status: heard.append(status.done))
    assert heard[0] == 36
    assert_same(read(out), reference)


def test_killed_before_it_says_which_definition_is_current(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = fill(tmp_path / "out", scenario, ALL)
    whole = files.write_atomically

    def write(path: Path, content: bytes) -> None:
        if path.name == "study.json":
            raise KeyboardInterrupt
        whole(path, content)

    monkeypatch.setattr("anabranch.store.definitions.write_atomically", write)
    few = package.load(SWEEP, set={"sweep.axes.pmr.values": "[1]"})
    with pytest.raises(KeyboardInterrupt):
        FolderStore(out, few)
    study = Study(out)
    assert (study.scenario.hash, study.total) == (scenario.hash, 36)
    assert_same(Study(out, replications=6).frame(), reference)


def test_rows_that_nothing_describes_are_refused(scenario: Scenario, tmp_path: Path) -> None:
    out = fill(tmp_path / "out", scenario, ALL)
    (out / "study.json").unlink()
    few = package.load(SWEEP.replace("replications = 6", 'replications = 6\nmetrics = ["call.*"]'))
    other = package.load(SWEEP, set={"seed": 4})
    for another in (few, other):
        with pytest.raises(StoreError, match=r"has rows but no study\.json"):
            FolderStore(out, another)
    rows = pl.read_parquet(shards_in(out)[0])
    shard_files.write(out / "rows", rows.with_columns(pl.lit("0.0.1").alias("engine_version")))
    with pytest.raises(StoreError, match=r"holds rows of anabranch 0\.0\.1"):
        FolderStore(out, scenario)


# --- What cannot stand beside each other ---


def test_a_copied_shard_of_another_engine_is_named(scenario: Scenario, tmp_path: Path) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:6])
    rows = rows_of(scenario, ALL[6:]).with_columns(pl.lit("0.0.1").alias("engine_version"))
    foreign = shard_files.write(out / "rows", rows)
    other = fill(tmp_path / "other", scenario, ALL[:6])
    for attempt in (
        lambda: read(out),
        lambda: store.shards(out),
        lambda: FolderStore(out, scenario),
        lambda: store.merge(other, [out]),
    ):
        with pytest.raises(
            StoreError, match=rf"{foreign.path.name} holds rows of anabranch 0\.0\.1"
        ):
            attempt()
    foreign.path.unlink()
    assert read(out).height == 6


def edit_identity(out: Path, **changes: object) -> None:
    path = out / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": 1},
        {"metrics": [1]},
        {"metrics": None},
        {"engine_version": 1},
        {"scenario_hash": "../x"},
        {"scenario_hash": None},
        {"schema_version": True},
        {"schema_version": 0},
        {"schema_version": "2"},
    ],
)
def test_an_edited_study_json_is_damaged(
    scenario: Scenario, tmp_path: Path, change: dict[str, object]
) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:2])
    edit_identity(out, **change)
    with pytest.raises(StoreError, match=r"study\.json is damaged"):
        read(out)


def test_a_table_of_cells_without_cells_is_damaged(scenario: Scenario, tmp_path: Path) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:2])
    (cells,) = (out / "definitions").glob("*.parquet")
    cells.write_bytes(shards_in(out)[0].read_bytes())
    with pytest.raises(StoreError, match=rf"{cells.name} is damaged"):
        read(out)


def test_what_is_no_file_is_no_shard(scenario: Scenario, tmp_path: Path) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:2])
    os.mkfifo(out / "rows" / "0123456789abcdef.parquet")
    (out / "rows" / "123456789abcdef0.parquet").symlink_to(out / "nowhere")
    assert read(out).height == 2
    fill(out, scenario, ALL[:4])
    assert read(out).height == 4


def test_a_newer_schema_version_needs_a_newer_anabranch(
    anabranch: Command, scenario: Scenario, sweep_file: Path, tmp_path: Path
) -> None:
    out = fill(tmp_path / "out", scenario, ALL)
    edit_identity(out, schema_version=4)
    before = sorted(path.name for path in out.rglob("*"))
    sweep = ("sweep", sweep_file, "--out", out)
    for arguments in (sweep, ("sweep", sweep_file, "--out", "new", "--merge", out)):
        assert "of schema version 4; this anabranch" in one_error(anabranch(*arguments))
    for reading in (read, Study):
        with pytest.raises(StoreError, match=r"schema version 4; .* reads version 3: update it"):
            reading(out)
    assert sorted(path.name for path in out.rglob("*")) == before


def make_by_engine(out: Path, version: str) -> None:
    """The folder as another engine would have made it."""
    edit_identity(out, engine_version=version)
    for shard in shards_in(out):
        rows = pl.read_parquet(shard)
        shard.unlink()
        engine = pl.lit(version).alias("engine_version")
        shard_files.write(out / "rows", rows.with_columns(engine))


def test_rows_of_another_engine_or_of_other_metrics(scenario: Scenario, tmp_path: Path) -> None:
    out = fill(tmp_path / "out", scenario, ALL)
    few = package.load(SWEEP.replace("replications = 6", 'replications = 6\nmetrics = ["call.*"]'))
    match = r"holds rows with all metrics, not metrics call\.\*: choose another output folder"
    with pytest.raises(StoreError, match=match):
        FolderStore(out, few)
    make_by_engine(out, "0.0.1")
    for work in (lambda: FolderStore(out, scenario), Study(scenario, out).frame):
        with pytest.raises(StoreError, match=r"holds rows of anabranch 0\.0\.1, not"):
            work()
    assert read(out)["engine_version"].unique().to_list() == ["0.0.1"]
    assert Study(out).cells("call.mos").height == 6


# --- Several processes ---


def test_array_tasks_share_a_folder_and_a_sweep_holds_it_alone(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = tmp_path / "out"
    with (
        FolderStore(out, scenario, shared=True) as one,
        FolderStore(out, scenario, shared=True) as other,
    ):
        one.append(rows_of(scenario, ALL[::2]))
        other.append(rows_of(scenario, ALL[1::2]))
        with pytest.raises(StoreError, match="another sweep is writing to"):
            FolderStore(out, scenario)
        assert one.finished(6).all()
    assert len(shards_in(out)) == 2
    with FolderStore(out, scenario), pytest.raises(StoreError, match="another sweep is writing"):
        FolderStore(out, scenario, shared=True)
    assert len(shards_in(out)) == 1
    assert_same(read(out), reference)


def test_a_filesystem_without_locks_is_a_warning(
    scenario: Scenario,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fcntl = pytest.importorskip("fcntl", reason="this system has other locks")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with FolderStore(tmp_path / "out", scenario) as opened:
        opened.append(rows_of(scenario, ALL[:1]))
    assert "cannot be locked" in caplog.text
    assert read(tmp_path / "out").height == 1


def test_a_reader_survives_that_shards_are_made_one(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: pl.DataFrame
) -> None:
    out = fill(tmp_path / "out", scenario, *([run] for run in ALL))
    look = shard_files.checked

    def look_late(rows: Path) -> list[shard_files.FileShard]:
        found = look(rows)
        monkeypatch.setattr(shard_files, "checked", look)
        with FolderStore(out, scenario):
            pass
        return found

    monkeypatch.setattr(shard_files, "checked", look_late)
    assert_same(read(out), reference)
    assert len(shards_in(out)) == 1


def test_many_small_shards_are_made_one_meanwhile(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: pl.DataFrame
) -> None:
    monkeypatch.setattr(folder, "_MANY", 4)
    counts = []
    with FolderStore(tmp_path / "out", scenario) as opened:
        for run in ALL:
            opened.append(rows_of(scenario, [run]))
            counts.append(len(shards_in(tmp_path / "out")))
    assert max(counts) == 4
    assert_same(read(tmp_path / "out"), reference)


def test_large_shards_stay_as_they_are(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_files, "MOST_ROWS", 12)
    out = fill(tmp_path / "out", scenario, ALL[:6], ALL[6:9], ALL[9:12], *([r] for r in ALL[12:]))
    large = shards_in(fill(tmp_path / "large", scenario, ALL[:6]))[0].name
    with FolderStore(out, scenario):
        pass
    heights = sorted(pl.read_parquet(path).height for path in shards_in(out))
    assert large in {path.name for path in shards_in(out)}
    assert sum(heights) == 36
    assert max(heights) <= 12
    assert len(heights) <= 5


# --- Merging ---


def test_halves_of_two_machines_are_merged(
    anabranch: Command,
    scenario: Scenario,
    sweep_file: Path,
    tmp_path: Path,
    reference: pl.DataFrame,
) -> None:
    fill(tmp_path / "a", scenario, ALL[:10], ALL[10:20])
    fill(tmp_path / "b", scenario, ALL[15:])
    merging = ("sweep", sweep_file, "--out", "all", "--merge", "a", "--merge", "b")
    for found in (36, 0):
        result = anabranch(*merging)
        assert (result.returncode, result.stdout.splitlines()[0]) == (
            0,
            f"{found} runs new in all",
        )
        assert "small: 36/36" in result.stderr, "nothing is computed"
        assert_same(read(tmp_path / "all"), reference)
    assert store.merge(tmp_path / "a", [tmp_path / "b"]) == 16
    assert_same(read(tmp_path / "a"), reference)
    assert read(tmp_path / "b").height == 21
    # A merged folder goes on as any other.
    study = Study(scenario, tmp_path / "all", replications=7)
    heard: list[int] = []
    study.run(lambda status: heard.append(status.done))
    assert (heard[0], heard[-1]) == (36, 42)


def test_shards_may_be_merged_by_copying(
    scenario: Scenario, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = fill(tmp_path / "a", scenario, ALL[:20])
    fill(tmp_path / "b", scenario, ALL[:20], ALL[15:])
    shutil.copytree(tmp_path / "b" / "rows", out / "rows", dirs_exist_ok=True)
    assert_same(read(out), reference)


def test_a_merge_brings_definitions_and_traces(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = package.load(TRACED, set={"sweep.axes.rto_max.values": '["1 s", "0.2 s"]'})
    into = fill(tmp_path / "a", scenario, ALL)
    Study(other, tmp_path / "b", replications=1).run()
    assert store.merge(into, [tmp_path / "b"]) == 2
    assert "has another definition" in caplog.text
    assert Study(into).scenario.hash == scenario.hash
    assert read(into).height == 36
    assert read(into, other).height == 2 * 6 + 2
    assert len(list((into / "definitions").iterdir())) == 4
    assert len(list((into / "traces" / "frames").iterdir())) == 4


def test_a_merge_brings_whole_traces_only(tmp_path: Path) -> None:
    traced = package.load(TRACED)
    for name in ("a", "b"):
        Study(traced, tmp_path / name, replications=1).run()
    names = sorted(path.name for path in (tmp_path / "a" / "traces" / "frames").iterdir())
    content = {}
    for folder_, name in (("a", names[0]), ("b", names[1])):
        path = tmp_path / folder_ / "traces" / "frames" / name
        content[name] = path.read_bytes()
        path.write_bytes(content[name][:-100])
    assert store.merge(tmp_path / "new", [tmp_path / "a", tmp_path / "b"]) == 6
    assert store.merge(tmp_path / "a", [tmp_path / "b"]) == 0
    for into, name in (("new", names[0]), ("new", names[1]), ("a", names[0])):
        path = tmp_path / into / "traces" / "frames" / name
        assert path.read_bytes() == content[name], (into, name)


def test_a_merge_into_rows_that_nothing_describes_is_refused(
    scenario: Scenario, tmp_path: Path
) -> None:
    into, other = (fill(tmp_path / name, scenario, ALL[:6]) for name in "ab")
    (into / "study.json").unlink()
    before = shards_in(into)
    with pytest.raises(StoreError, match=r"has rows but no study\.json"):
        store.merge(into, [other])
    assert shards_in(into) == before
    assert not (into / "study.json").exists()


@pytest.mark.parametrize("mistake", ["damaged", "disagrees", "engine", "nothing", "itself", "none"])
def test_what_cannot_be_merged_changes_nothing(
    scenario: Scenario, tmp_path: Path, mistake: str
) -> None:
    into = fill(tmp_path / "a", scenario, ALL[:10])
    other = fill(tmp_path / "b", scenario, ALL[5:])
    match = {
        "damaged": "is damaged: its bytes do not give its name",
        "disagrees": "disagree about `call.mos`",
        "engine": f"cannot be merged with {into}: it holds rows of anabranch 0.0.1, not",
        "nothing": "b is not a study folder: it has no study.json",
        "itself": "a cannot be merged into itself",
        "none": "name at least one study folder",
    }[mistake]
    if mistake == "damaged":
        cut(shards_in(other)[0])
    elif mistake == "disagrees":
        rows = pl.read_parquet(shards_in(other)[0])
        shards_in(other)[0].unlink()
        shard_files.write(other / "rows", rows.with_columns(pl.col("call.mos") + 1e-12))
    elif mistake == "engine":
        edit_identity(other, engine_version="0.0.1")
    elif mistake == "nothing":
        shutil.rmtree(other)
        other.mkdir()
    before = {path: path.read_bytes() for path in into.rglob("*") if path.is_file()}
    others = {"itself": [other, into], "none": []}.get(mistake, [other])
    with pytest.raises(StoreError, match=re.escape(match)):
        store.merge(into, others)
    assert {path: path.read_bytes() for path in into.rglob("*") if path.is_file()} == before


# --- What the system refuses ---


@contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    """A filesystem of its own; only where the tests may mount one."""
    folder.mkdir(exist_ok=True)
    command = ["mount", *arguments, str(folder)]
    if os.name != "posix" or shutil.which("mount") is None:
        pytest.skip("this system has no mount")
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a filesystem needs more rights")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_loses_nothing(anabranch: Command, sweep_file: Path, tmp_path: Path) -> None:
    replications = ("--replications", "100", "--jobs", "2")
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=128k", "tmpfs") as small:
        out = small / "out"
        result = anabranch("sweep", sweep_file, "--out", out, *replications)
        assert result.returncode == 2, result.stderr
        last = result.stderr.splitlines()[-1]
        assert last.startswith("anabranch: error: ")
        assert last.endswith("No space left on device")
        assert "Traceback" not in result.stderr
        saved = read(out)
        assert 0 < saved.height < 600
        assert all(path.stem == shard_files.digest(path) for path in shards_in(out))
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
        result = anabranch("sweep", sweep_file, "--out", out, *replications)
        assert result.returncode == 0, result.stderr
        assert f"small: {saved.height}/600" in result.stderr
        assert read(out).height == 600


def test_a_folder_that_may_only_be_read(
    anabranch: Command, scenario: Scenario, sweep_file: Path, tmp_path: Path
) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:10])
    with mounted(tmp_path / "ro", "--bind", str(tmp_path)) as there:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(there)], check=True)
        error = one_error(anabranch("sweep", sweep_file, "--out", there / "out"))
        assert error.endswith("Read-only file system")
        assert read(there / "out").height == 10
        # It may still be merged from.
        assert store.merge(tmp_path / "copy", [there / "out"]) == 10
    assert read(out).height == read(tmp_path / "copy").height == 10


def test_a_folder_that_goes_away_in_the_middle(sweep_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*COMMAND, "sweep", str(sweep_file), "--out", str(out), "--replications", "2000"]
    sweep = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not shards_in(out):
        assert sweep.poll() is None
    while out.exists():
        shutil.rmtree(out, ignore_errors=True)
    _, errors = sweep.communicate(timeout=HANGS_S)
    assert sweep.returncode == 2, errors
    assert errors.splitlines()[-1].endswith("No such file or directory")
    assert "Traceback" not in errors


# --- Kills ---


def crash(kind: str, tmp_path: Path, sweep_file: Path) -> dict[str, list[int]]:
    script = Path(__file__).parent / "study_crashes.py"
    result = subprocess.run(
        [sys.executable, script, kind, tmp_path / "out", sweep_file],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)  # type: ignore[no-any-return]


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@needs_fork
def test_killed_at_20_random_moments(sweep_file: Path, tmp_path: Path) -> None:
    found = crash("random", tmp_path, sweep_file)["found"]
    assert len(set(found)) > 4  # many lives got somewhere
    # A life begins with no less than the one before, but after one that came to its end.
    assert all(later == 0 for runs, later in pairwise(found) if later < runs)


@needs_fork
def test_killed_before_each_step(sweep_file: Path, tmp_path: Path) -> None:
    steps = crash("each", tmp_path, sweep_file)["steps"]
    assert min(steps) > 10


@needs_fork
def test_a_merge_killed_before_each_step(sweep_file: Path, tmp_path: Path) -> None:
    assert crash("merge", tmp_path, sweep_file)["steps"][0] > 10


# --- Folders that a command fills by itself ---


def test_a_folder_of_another_engine_makes_room(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = fill(tmp_path / "out", scenario, ALL[:4])
    store.free_of_other_engines(out)
    store.free_of_other_engines(tmp_path / "none")
    assert len(shards_in(out)) == 1
    for number in (1, 2):
        make_by_engine(out, "0.0.1+00000000")
        before = read(out)
        store.free_of_other_engines(out)
        assert f"of anabranch 0.0.1+00000000, not {_engine.ENGINE_VERSION}" in caplog.text
        assert not out.exists()
        assert_same(read(tmp_path / f"out.{number}"), before)
        fill(out, scenario, ALL[:4])
