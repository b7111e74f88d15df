"""Every scenario file that comes with Anabranch is valid, runs, and gives the same each time."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

import anabranch as package
from anabranch import _engine
from anabranch.studies import library
from conftest import SCENARIOS, Command


@pytest.fixture(params=SCENARIOS, ids=[path.stem for path in SCENARIOS])
def scenario_file(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_the_package_has_all_of_them() -> None:
    assert {path.name for path in library.scenarios().values()} == {p.name for p in SCENARIOS}
    assert len(SCENARIOS) >= 5


def test_runs_twice_with_equal_results(scenario_file: Path) -> None:
    scenario = package.load(scenario_file)
    assert scenario.name == scenario_file.stem
    assert scenario.description
    for cell in {0, scenario.cell_count - 1}:
        first, second = (package.run(scenario, cell=cell).summary for _ in range(2))
        assert list(first) == list(second)
        assert [repr(value) for value in first.values()] == [repr(v) for v in second.values()]
        ends = (".played", ".received_bytes", ".rpm")
        arrived = [value for name, value in first.items() if name.endswith(ends)]
        assert arrived, "every scenario has an application that measures what arrives"
        assert min(arrived) > 0


def test_tracing_changes_nothing(scenario_file: Path) -> None:
    scenario = package.load(scenario_file)
    plain, traced = (package.run(scenario, trace=trace).summary for trace in (False, True))
    assert {k: repr(v) for k, v in plain.items()} == {k: repr(v) for k, v in traced.items()}


def test_resolved_form_is_the_same_scenario(scenario_file: Path) -> None:
    scenario = package.load(scenario_file)
    resolved = package.load(scenario.to_toml())
    assert resolved.hash == scenario.hash
    assert resolved.to_toml() == scenario.to_toml()


def test_each_cell_is_a_scenario_of_its_own(scenario_file: Path) -> None:
    scenario = package.load(scenario_file)
    cell = scenario.cell_count - 1
    alone = package.load(scenario.cell_toml(cell))
    assert alone.cell_count == 1
    in_sweep, by_itself = package.run(scenario, cell=cell).summary, package.run(alone).summary
    assert {k: repr(v) for k, v in in_sweep.items()} == {k: repr(v) for k, v in by_itself.items()}


def test_conforms_to_the_schema(scenario_file: Path) -> None:
    jsonschema.validate(
        tomllib.loads(scenario_file.read_text("utf-8")), json.loads(_engine.schema())
    )


def test_the_command_line_runs_it(anabranch: Command, scenario_file: Path) -> None:
    assert anabranch("run", scenario_file).returncode == 0
