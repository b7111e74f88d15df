"""Sweeps: equal rows however the work is split, stopped and continued."""

import copy
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import anabranch as package
from anabranch import StoreError, Study
from anabranch.store import FolderStore
from anabranch.support.progress import Status
from conftest import COMMAND, HANGS_S, SWEEP, Command, one_error, written
from support.processes import ended, processor_s, until, until_it_has_worked

REPLICATIONS = 400
"""Enough that a sweep can be stopped in the middle."""


def rows(folder: Path) -> pl.DataFrame:
    return package.read(folder)


def assert_same(first: pl.DataFrame, second: pl.DataFrame) -> None:
    """Equal to the bit."""
    assert_frame_equal(first, second, check_exact=True)


def start_sweep(sweep_file: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "sweep", str(sweep_file), "--out", str(out)]
    command += ["--replications", str(REPLICATIONS), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.fixture(scope="module")
def reference() -> pl.DataFrame:
    """All rows, computed in memory without a stop, on one thread."""
    study = Study(SWEEP, replications=REPLICATIONS, jobs=1)
    study.run()
    return study.frame()


def test_a_row_has_what_identifies_it(sweep_file: Path, tmp_path: Path) -> None:
    study = Study(sweep_file, tmp_path / "out", jobs=2)
    study.run()
    frame = study.frame()
    assert frame.height == study.total == 36
    assert frame.columns[:5] == ["cell", "replication", "seed", "rto_max", "pmr"]
    assert frame.columns[-3:] == ["engine_version", "schema_version", "scenario_hash"]
    assert frame.select("cell", "replication").rows() == [
        (c, r) for c in range(6) for r in range(6)
    ]
    assert frame["rto_max"].unique(maintain_order=True).to_list() == [1.0, 0.1, 0.05]
    assert set(frame["seed"]) == {3}
    assert frame["scenario_hash"].unique(maintain_order=True).to_list() == (
        study.scenario.cell_hashes()
    )
    assert "call.mos" in frame.columns


def test_a_row_is_what_a_single_run_gives(sweep_file: Path) -> None:
    study = Study(sweep_file, jobs=2)
    study.run()
    summary = package.run(study.scenario, cell=4, replication=5).summary
    row = study.frame(columns=list(summary)).row(
        by_predicate=(pl.col("cell") == 4) & (pl.col("replication") == 5), named=True
    )
    assert {name: repr(row[name]) for name in summary} == {k: repr(v) for k, v in summary.items()}


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_threads_change_nothing(
    sweep_file: Path, tmp_path: Path, reference: pl.DataFrame, jobs: int
) -> None:
    study = Study(sweep_file, tmp_path / "out", replications=50, jobs=jobs)
    study.run()
    assert_same(study.frame(), reference.filter(pl.col("replication") < 50))


def test_replications_can_be_extended(
    sweep_file: Path, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = tmp_path / "out"
    computed = []
    for replications in (2, 5, 3):
        study = Study(sweep_file, out, replications=replications)
        heard: list[Status] = []
        study.run(heard.append)
        assert_same(study.frame(), reference.filter(pl.col("replication") < replications))
        computed.append([(status.done, status.total) for status in (heard[0], heard[-1])])
    assert computed == [[(0, 12), (12, 12)], [(12, 30), (30, 30)], [(18, 18), (18, 18)]]


def test_a_kill_while_a_shard_is_written_leaves_nothing_behind(
    sweep_file: Path, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = tmp_path / "out"
    Study(sweep_file, out, replications=1).run()
    # The file left by a process that is killed between creating and renaming it.
    (whole,) = (out / "rows").iterdir()
    (out / "rows" / ".0123456789abcdef.parquet.4711-0a1b2c3d").write_bytes(whole.read_bytes()[:100])
    study = Study(sweep_file, out, replications=2)
    study.run()
    assert_same(study.frame(), reference.filter(pl.col("replication") < 2))
    assert all(path.suffix == ".parquet" for path in (out / "rows").iterdir())


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_keeps_what_is_finished(
    sweep_file: Path, tmp_path: Path, reference: pl.DataFrame, number: int, code: int
) -> None:
    out = tmp_path / "out"
    sweep = start_sweep(sweep_file, out, "--jobs", "1")
    until(lambda: list(out.glob("rows/*.parquet")), sweep)
    os.killpg(sweep.pid, number)
    _, errors = sweep.communicate(timeout=HANGS_S)
    if sweep.returncode == 0:
        pytest.fail(f"{REPLICATIONS} replications were over before they could be stopped")
    assert sweep.returncode == code, errors
    assert "Traceback" not in errors
    last = errors.splitlines()[-1]
    saved = rows(out)
    assert f"{saved.height} of {6 * REPLICATIONS} runs are finished" in last
    assert "the same command continues" in last
    assert 0 < saved.height < 6 * REPLICATIONS
    study = Study(sweep_file, out, replications=REPLICATIONS)
    study.run()
    assert_same(study.frame(), reference)


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_does_not_wait_for_long_runs(
    sweep_file: Path, tmp_path: Path, signals: int
) -> None:
    # Runs that take seconds.
    hours = ("flows.call.app.duration=80 h", "run.duration=90 h")
    sets = [word for value in hours for word in ("--set", value)]
    sweep = start_sweep(sweep_file, tmp_path / "out", "--jobs", "2", *sets)
    assert sweep.stderr is not None
    assert "0/2400" in sweep.stderr.readline()
    until_it_has_worked(sweep, 0.2)
    before = processor_s(sweep.pid)
    for _ in range(signals):
        sweep.send_signal(signal.SIGINT)
    _, errors, taken = ended(sweep)
    assert taken < before + 1
    assert (sweep.returncode, errors.count("\n")) == (130, 1)
    assert "stopped: 0 of 2400 runs are finished" in errors


def test_two_sweeps_into_one_folder_exclude_each_other(
    anabranch: Command, sweep_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with FolderStore(out, package.load(sweep_file)):
        error = one_error(anabranch("sweep", sweep_file, "--out", out))
    assert "another sweep is writing to" in error
    assert anabranch("sweep", sweep_file, "--out", out).returncode == 0


def test_another_scenario_in_a_folder_loses_nothing(
    anabranch: Command, sweep_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert anabranch("sweep", sweep_file, "--out", out).returncode == 0
    first = rows(out)
    with pytest.raises(StoreError, match="holds no run of this scenario"):
        Study(sweep_file, out, set={"seed": 4}).frame()
    other = anabranch("sweep", sweep_file, "--out", out, "--set", "links.second.delay=31 ms")
    assert other.returncode == 0
    assert "holds no run of this scenario" in other.stderr.splitlines()[0]
    assert not set(rows(out)["scenario_hash"]) & set(first["scenario_hash"])
    again = anabranch("sweep", sweep_file, "--out", out)
    assert again.returncode == 0
    assert re.fullmatch(r"small: 36/36 runs; call.mos [^\n]*\n", again.stderr)
    assert_same(rows(out), first)
    assert len(list((out / "definitions").glob("*.toml"))) == 2


def test_a_sweep_names_a_damaged_shard_and_goes_on(
    anabranch: Command, sweep_file: Path, tmp_path: Path, reference: pl.DataFrame
) -> None:
    out = tmp_path / "out"
    study = Study(sweep_file, out, replications=3)
    study.run()
    (shard,) = out.glob("rows/*.parquet")
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    result = anabranch("sweep", sweep_file, "--out", out, "--replications", "3")
    assert result.returncode == 0, result.stderr
    assert f"{shard} is damaged: its bytes do not give its name" in result.stderr.splitlines()[0]
    assert (out / "rows" / f"{shard.name}.corrupt").exists()
    assert_same(study.frame(), reference.filter(pl.col("replication") < 3))


def test_a_folder_that_is_no_study_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"it has no study\.json"):
        package.read(tmp_path)
    written(tmp_path / "study.json", "{")
    with pytest.raises(StoreError, match=r"study\.json is damaged"):
        package.read(tmp_path)
    written(tmp_path / "study.json", '{"schema_version": 99}')
    with pytest.raises(StoreError, match="schema version 99"):
        package.read(tmp_path)


def test_cells_have_mean_interval_and_number(sweep_file: Path) -> None:
    study = Study(sweep_file)
    study.run()
    cells = study.cells("call.mos")
    assert cells.columns == ["cell", "rto_max", "pmr", "mean", "half_width", "n"]
    assert cells["cell"].to_list() == list(range(6))
    assert set(cells["n"]) == {6}
    first = study.frame().filter(pl.col("cell") == 0)["call.mos"]
    assert cells["mean"][0] == pytest.approx(first.mean())
    with pytest.raises(package.AnabranchError, match=r"did you mean `call\.mos`"):
        study.cells("call.moss")


def test_an_interrupt_in_python_reaches_the_caller(sweep_file: Path) -> None:
    study = Study(sweep_file, replications=REPLICATIONS, jobs=1)
    before = signal.getsignal(signal.SIGINT)

    def stop(status: Status) -> None:
        if status.done:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        study.run(stop)
    assert signal.getsignal(signal.SIGINT) is before
    assert 0 < study.frame().height < study.total


def test_load_takes_a_path_or_text_and_values(sweep_file: Path) -> None:
    from_path, from_text = package.load(sweep_file), package.load(SWEEP)
    assert from_path.hash == from_text.hash
    changed = package.load(SWEEP, set={"seed": 9, "flows.call.transport.hb_interval": "9 s"})
    assert (changed.seed, from_text.seed) == (9, 3)
    assert changed.hash != from_text.hash
    with pytest.raises(package.AnabranchError, match="already loaded"):
        package.run(from_path, set={"seed": 1})
    with pytest.raises(package.ScenarioError):
        package.load(SWEEP, set={"sed": 9})


def test_equal_cells_are_one_computation(tmp_path: Path) -> None:
    network, _, _ = SWEEP.partition("[sweep]")
    rto_max = {"set": "flows.call.transport.rto_max", "values": ["1 s", "1000 ms", "2 s"]}
    study = Study(package.load(network, sweep={"axes": {"rto_max": rto_max}}), tmp_path / "out")
    heard: list[Status] = []
    study.run(heard.append)
    assert (heard[-1].done, heard[-1].total) == (2, 2)
    assert study.frame()["rto_max"].to_list() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("name", ["n", "mean", "best", "Cell", "P", "RTO"])
def test_an_axis_is_a_column_of_its_own(name: str) -> None:
    axes = {
        "rto": {"set": "flows.call.transport.rto_max", "values": ["1 s", "10 s"]},
        name: {"set": "flows.call.transport.path_max_retrans", "values": [0, 5]},
    }
    with pytest.raises(
        package.ScenarioError, match=rf"^sweep\.axes\.{name}: .*; use another name$"
    ):
        package.load(SWEEP, sweep={"axes": axes})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replications": 2.5}, "replications is 2.5; it must be a whole number"),
        ({"replications": "3"}, "replications is '3'; it must be a whole number"),
        ({"replications": 0}, "replications is 0; it must be at least 1"),
        ({"replications": 2**70}, "at most 100,000,000 are allowed"),
        ({"jobs": 1.5}, "jobs is 1.5; it must be a whole number"),
        ({"jobs": -1}, "jobs is -1; it must be from 1 to 1024"),
        ({"seed": -1}, f"seed is -1; it must be from 0 to {2**64 - 1}"),
        ({"seed": 2**64}, f"seed is {2**64}; it must be from 0 to {2**64 - 1}"),
        ({"seed": 1.0}, "seed is 1.0; it must be a whole number"),
        ({"replication": -1}, f"replication is -1; it must be from 0 to {2**64 - 1}"),
        ({"cell": -1}, "cell is -1; it must be at least 0"),
        ({"cell": 2**70}, f"cell {2**70} is not in the sweep; its cells are 0 to 5"),
        ({"shard": (1.5, 2)}, "shard is 1.5; it must be a whole number"),
        ({"shard": (3, 2)}, "the share 3/2 is not i/n with i from 1 to n"),
    ],
)
def test_a_number_that_cannot_be_is_one_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(package.AnabranchError, match=re.escape(message)):
        taking(*arguments)(**arguments)


def taking(argument: str) -> Callable[..., object]:
    """The functions that take an argument of this name."""
    if argument == "shard":
        return Study(SWEEP).run
    return partial(Study if argument in ("replications", "jobs") else package.run, SWEEP)


def test_numbers_of_numpy_are_numbers() -> None:
    study = Study(SWEEP, replications=np.int64(2), jobs=np.int32(1))  # type: ignore[arg-type]
    assert (study.replications, study.total) == (2, 12)
    seed, cell = np.uint64(7), np.int8(2)
    one = package.run(SWEEP, seed=seed, cell=cell)  # type: ignore[arg-type]
    assert str(one.summary) == str(package.run(SWEEP, seed=7, cell=2).summary)
    scenario = package.load(SWEEP)
    with pytest.raises(package.ScenarioError, match=r"cell -1 is not in the sweep"):
        scenario.cell_key(-1)


def test_studies_of_too_many_runs_are_counted_exactly() -> None:
    pmr = {"set": "flows.call.transport.path_max_retrans", "values": [0, 1, 2, 3]}
    sub = {"replications": 2**62, "axes": {"pmr": pmr}}
    with pytest.raises(package.AnabranchError, match=f"has {2**64:,} runs; at most"):
        Study(package.load(SWEEP, sweep={"studies": {"sub": sub}}))


def copies(of: Any) -> list[Any]:
    return [copy.copy(of), copy.deepcopy(of), pickle.loads(pickle.dumps(of))]


def test_results_and_scenarios_can_be_copied() -> None:
    pmr = {"set": "flows.call.transport.path_max_retrans", "range": {"from": 0, "to": 9}}
    design = {"design": {"kind": "sobol", "points": 4}, "axes": {"pmr": pmr}}
    for scenario in (package.load(SWEEP), package.load(SWEEP, sweep=design)):
        for other in copies(scenario):
            assert (other.hash, other.name) == (scenario.hash, scenario.name)
            assert other.cell_hashes() == scenario.cell_hashes()
    result = package.run(SWEEP, cell=3, trace=True)
    for other in copies(result):
        assert str(other.summary) == str(result.summary)
        assert other.scenario.hash == result.scenario.hash
        for name, table in result.traces.items():
            assert_same(other.traces[name], table)


def test_studies_can_be_copied_and_go_on(sweep_file: Path, tmp_path: Path) -> None:
    in_memory = Study(sweep_file, replications=2, jobs=1)
    in_memory.run()
    in_folder = Study(sweep_file, tmp_path / "out", replications=2)
    in_folder.run()
    for study in (in_memory, in_folder, Study(tmp_path / "out")):
        for other in copies(study):
            assert_same(other.frame(), study.frame())
            other.run()
            assert_same(other.frame(), study.frame())
    # A copy rather than a view, so that it owns what it computes.
    fresh = Study(sweep_file, replications=1, jobs=1)
    copy.deepcopy(fresh).run()
    with pytest.raises(package.AnabranchError, match="no run of the study is finished"):
        fresh.frame()


def _mos_of(study: Study) -> list[float]:
    study.run()
    return study.frame()["call.mos"].to_list()


def test_studies_go_to_other_processes(sweep_file: Path) -> None:
    study = Study(sweep_file, replications=1, jobs=1)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        [found] = pool.map(_mos_of, [study])
        failed = pool.submit(package.load, SWEEP, {"sed": 9})
        with pytest.raises(package.ScenarioError, match="sed"):
            failed.result()
    study.run()
    assert found == study.frame()["call.mos"].to_list()


def test_what_is_wrong_with_a_scenario_is_an_error_of_anabranch() -> None:
    for kind, builtin in ((package.ScenarioError, ValueError), (package.RunError, RuntimeError)):
        assert issubclass(kind, package.AnabranchError)
        assert issubclass(kind, builtin)
        assert isinstance(pickle.loads(pickle.dumps(kind("said"))), kind)
    with pytest.raises(package.AnabranchError):
        package.load(SWEEP, set={"sed": 9})
    with pytest.raises(package.AnabranchError, match="max_events"):
        package.run(SWEEP, set={"run.max_events": 10})


@pytest.mark.parametrize("content", [None, b"junk = [", b"\xff\xfe"])
def test_a_damaged_definition_is_named(
    sweep_file: Path, tmp_path: Path, content: bytes | None
) -> None:
    out = tmp_path / "out"
    Study(sweep_file, out, replications=1).run()
    [definition] = out.glob("definitions/*.toml")
    definition.unlink()
    if content is not None:
        definition.write_bytes(content)
    with pytest.raises(StoreError, match=r"\.toml is .*: the same sweep writes it again$"):
        _ = Study(out).scenario
    Study(sweep_file, out, replications=1).run()
    assert Study(out).scenario.cell_count == 6


def test_replications_and_a_stopping_rule_exclude_each_other(
    anabranch: Command, sweep_file: Path
) -> None:
    options = ("--until", "call.mos=0.1", "--replications", 3)
    error = one_error(anabranch("sweep", sweep_file, "--out", "out", *options))
    assert "--until and --replications exclude each other" in error
