"""Folders of several processes and machines, which become one."""

import errno
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import anabranch as package
from anabranch import Scenario, StoreError, Study, store
from anabranch.store import (
    FolderStore,
    MemoryStore,
    folder,
    read,
    shard_files,
)
from conftest import SWEEP, Command
from support.stores import (
    ALL,
    TRACED,
    assert_same,
    cut,
    edit_identity,
    fill,
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
