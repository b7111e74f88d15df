"""Every scenario that comes with Anabranch is valid, runs, and gives the same result each time."""

import json
import tomllib
from functools import cache
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


@cache
def computed(scenario_file: Path, cell: int) -> dict[str, str]:
    """The scalars of a run with all their digits: once for all tests that compare with it."""
    summary = package.run(package.load(scenario_file), cell=cell).summary
    return {name: repr(value) for name, value in summary.items()}


def test_runs_twice_with_equal_results(scenario_file: Path) -> None:
    scenario = package.load(scenario_file)
    assert scenario.name == scenario_file.stem
    assert scenario.description
    for cell in {0, scenario.cell_count - 1}:
        first, second = computed(scenario_file, cell), package.run(scenario, cell=cell).summary
        assert list(first) == list(second)
        assert list(first.values()) == [repr(value) for value in second.values()]
        ends = (".played", ".received_bytes", ".rpm", ".goodput_kbit_per_s")
        arrived = [value for name, value in second.items() if name.endswith(ends)]
        assert arrived, "every scenario has an application that measures what arrives"
        assert min(arrived) > 0


def test_tracing_changes_nothing(scenario_file: Path) -> None:
    traced = package.run(package.load(scenario_file), trace=True).summary
    assert computed(scenario_file, 0) == {name: repr(value) for name, value in traced.items()}


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
    by_itself = package.run(alone).summary
    assert computed(scenario_file, cell) == {name: repr(v) for name, v in by_itself.items()}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    """A validator of the scenario schema, which is itself checked once."""
    schema = json.loads(_engine.schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_conforms_to_the_schema(
    validator: jsonschema.Draft202012Validator, scenario_file: Path
) -> None:
    assert validator.META_SCHEMA["$id"] == validator.schema["$schema"]
    validator.validate(tomllib.loads(scenario_file.read_text("utf-8")))


def test_the_command_line_runs_it(anabranch: Command, scenario_file: Path) -> None:
    assert anabranch("run", scenario_file).returncode == 0
