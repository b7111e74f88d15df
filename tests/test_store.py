"""Study folders: what is found again, what damage does, and what a kill leaves."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import anabranch as package
from anabranch import Scenario, ScenarioError, StoreError, Study, _engine, store
from anabranch.store import (
    FolderStore,
    MemoryStore,
    read,
    shard_files,
)
from conftest import SWEEP
from support.stores import ALL, TRACED, assert_same, fill, make_by_engine, rows_of, shards_in


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return package.load(SWEEP)


@pytest.fixture(scope="module")
def reference(scenario: Scenario) -> pl.DataFrame:
    """All rows, from memory."""
    memory = MemoryStore(scenario)
    memory.append(rows_of(scenario, ALL))
    return memory.read()


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
