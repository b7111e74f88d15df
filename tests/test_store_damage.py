"""What a store does with damaged and foreign files, with kills, and what the system refuses."""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import anabranch as package
from anabranch import Scenario, StoreError, Study, store
from anabranch.store import (
    FolderStore,
    MemoryStore,
    read,
    shard_files,
)
from anabranch.support import files
from conftest import COMMAND, HANGS_S, SWEEP, Command, one_error, written
from support.processes import until
from support.stores import (
    ALL,
    assert_same,
    cut,
    edit_identity,
    fill,
    make_by_engine,
    rows_of,
    shards_in,
)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return package.load(SWEEP)


@pytest.fixture(scope="module")
def reference(scenario: Scenario) -> pl.DataFrame:
    """All rows, from memory."""
    memory = MemoryStore(scenario)
    memory.append(rows_of(scenario, ALL))
    return memory.read()


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
    command = [*COMMAND, "sweep", str(sweep_file), "--out", str(out), "--replications", "100000"]
    sweep = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(lambda: shards_in(out), sweep)
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
