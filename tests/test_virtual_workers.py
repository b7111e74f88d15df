"""Studies on the virtual kernel, as far as that needs none: who computes what, and what fails."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch.emulate import guest, testbed
from anabranch.errors import LiveError
from anabranch.studies.workers import Batch
from anabranch.virtual import Finished

SCENARIO = """
name = "bulk"
seed = 7
run.duration = "2 s"
paths.only.via = ["link"]
links.link = { ends = ["a", "b"], rate = "1 Mbit/s" }
flows.bulk = { from = "a", to = "b", paths = ["only"], transport.kind = "tcp", app.kind = "bulk" }
sweep.traces = ["paths"]
sweep.axes.cc = { set = "flows.bulk.transport.cc.kind", values = ["reno", "cubic"] }
"""


class Kernels:
    """Stands in for virtual kernels: leaves a result for each run but for some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[Sequence[str | Path]] = []
        self.seeds: list[int] = []
        self.refused: dict[str, str] = {}
        self.ends_before = ""
        """The run before which the kernel ends."""
        self.panics = False
        monkeypatch.setattr(testbed, "run_in_kernel", self.run)
        monkeypatch.setattr(testbed, "virtual_release", lambda: "9.9")

    def run(self, command: Sequence[str | Path], *, folder: Path, seed: int, **_: Any) -> Finished:
        self.commands.append(command)
        self.seeds.append(seed)
        for name in list(map(str, command))[6:]:
            if name == self.ends_before:
                break
            assert 'kind = "bulk"' in (folder / f"{name}.toml").read_text()
            cell, replication = map(float, name.split("-"))
            found = {
                "error": self.refused.get(name),
                "summary": {"bulk.goodput_kbit_per_s": cell + replication / 10},
                "traces": {"paths": {"time_s": [0.0]}},
            }
            (folder / f"{name}.json").write_text(json.dumps(found))
        if self.panics:
            raise LiveError("the virtual kernel has ended early: panic")
        return Finished(1 if self.ends_before else 0, b"", b"it broke\n", 1.0, 1.0)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    return Kernels(monkeypatch)


def computed(runs: list[tuple[int, int]], runs_per_boot: int = 1) -> Batch:
    workers = testbed.VirtualKernel(anabranch.load(SCENARIO), runs_per_boot=runs_per_boot)
    try:
        return workers.compute(runs)
    finally:
        workers.close()


def test_each_run_of_a_kernel_has_its_row(kernels: Kernels) -> None:
    batch = computed([(0, 0), (1, 0), (1, 1)], runs_per_boot=3)
    assert len(kernels.commands) == 1
    # The interval of samples, no program for usrsctp, and the kept traces.
    assert list(map(str, kernels.commands[0]))[3:6] == ["20", "", "paths"]
    assert kernels.seeds == [testbed.kernel_seed(7, 0)]
    assert batch.columns["cell"].tolist() == [0, 1, 1]
    assert batch.columns["replication"].tolist() == [0, 0, 1]
    assert batch.columns["bulk.goodput_kbit_per_s"].tolist() == [0.0, 1.0, 1.1]
    assert [run[:2] for run in batch.traces] == [(0, 0), (1, 0), (1, 1)]
    assert batch.failures == []


OVER_SEEDS = f'{SCENARIO}sweep.axes.seeds = {{ set = "seed", values = [3, 4] }}'


def test_kernels_have_the_seeds_of_their_cells(kernels: Kernels) -> None:
    workers = testbed.VirtualKernel(anabranch.load(OVER_SEEDS))
    for cell in range(4):
        workers.compute([(cell, 1)])
    workers.close()
    assert kernels.seeds == [testbed.kernel_seed(seed, 1) for seed in (3, 4, 3, 4)]


def test_a_run_within_a_kernel_has_the_seed_of_its_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    setups = []

    class Bed:
        def __init__(self, _: object, *setup: object) -> None:
            setups.append(setup)

        def is_over(self) -> bool:
            return True

        def finish(self) -> dict[str, dict[str, float]]:
            return {"summary": {}, "traces": {}}

    monkeypatch.setattr(guest._engine, "Testbed", Bed)
    monkeypatch.chdir(tmp_path)
    scenario = anabranch.load(OVER_SEEDS)
    for cell in range(2):
        Path(f"{cell}-5.toml").write_text(scenario.cell_toml(cell))
    guest.main(["20", "", "", "0-5", "1-5"])
    assert [setup[1:3] for setup in setups] == [(3, 5), (4, 5)]


def test_a_run_that_fails_leaves_the_others_their_rows(kernels: Kernels) -> None:
    kernels.refused["1-0"] = "the kernel lacks it"
    batch = computed([(0, 0), (1, 0), (1, 1)])
    assert batch.columns["cell"].tolist() == [0, 1]
    assert batch.failures == [((1, 0), "the kernel lacks it")]


@pytest.mark.parametrize("panics", [False, True])
def test_a_kernel_that_ends_early_has_the_rows_until_then(
    kernels: Kernels, *, panics: bool
) -> None:
    kernels.ends_before, kernels.panics = "1-0", panics
    batch = computed([(0, 0), (1, 0), (1, 1)])
    said = "the virtual kernel has ended early: panic" if panics else "it broke"
    assert batch.columns["cell"].tolist() == [0]
    assert batch.failures == [((1, 0), said), ((1, 1), said)]


def test_a_study_fills_kernels_with_as_many_runs_as_asked(kernels: Kernels, tmp_path: Path) -> None:
    scenario = anabranch.load(SCENARIO)
    workers = testbed.VirtualKernel(scenario, jobs=2, runs_per_boot=3)
    anabranch.Study(scenario, tmp_path, replications=5).run(progress=False, workers=workers)
    assert sorted(len(command) - 6 for command in kernels.commands) == [1, 3, 3, 3]
    rows = anabranch.read(tmp_path)
    assert rows.height == 10
    assert set(rows["engine_version"].str.extract("on Linux (.*)$")) == {"9.9 in virtual time"}


@pytest.mark.parametrize(("duration", "runs"), [("30 s", 1), ("10 s", 2), ("2 s", 10)])
@pytest.mark.usefixtures("kernels")
def test_short_runs_share_a_kernel(duration: str, runs: int) -> None:
    scenario = anabranch.load(SCENARIO, {"run.duration": duration})
    workers = testbed.VirtualKernel.of_short_runs(scenario, 1)
    workers.close()
    assert workers.batch_runs == runs
