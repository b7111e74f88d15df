"""Random scenarios through the command line: what must hold of each; and failures are found."""

import json
from pathlib import Path
from random import Random

import pytest

import random_scenarios
import scenario_search
from anabranch import _engine
from conftest import Command, one_error
from random_scenarios import Generator, RandomScenario
from scenario_search import Completed, Report, in_process

COUNT = 300
PARTS = 6


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    return []


@pytest.mark.parametrize("part", range(PARTS))
def test_the_command_line_handles_random_scenarios(
    tmp_path: Path, reports: list[Report], part: int
) -> None:
    each = COUNT // PARTS
    report = scenario_search.search(range(each * part, each * (part + 1)), tmp_path / "found")
    assert not report.failures, report.text()
    reports.append(report)


def test_most_are_valid_and_nearly_every_kind_comes_up(reports: list[Report]) -> None:
    if len(reports) < PARTS:
        pytest.skip("needs the reports of all parts")
    valid = sum(report.valid for report in reports)
    invalid = sum(report.invalid for report in reports)
    assert valid + invalid == COUNT
    assert 0.6 < valid / COUNT < 0.99
    for how in ("swept", "included", "plugged"):
        assert sum(getattr(report, how) for report in reports) > 5, how
    schema = json.loads(_engine.schema())
    kinds = random_scenarios.all_kinds(schema)
    came = {kind for report in reports for kind in report.kinds}
    assert len(kinds - came) < 0.1 * len(kinds), kinds - came
    never = schema["$defs"].keys() - came
    assert len(never) < 0.05 * len(schema["$defs"]), never


@pytest.mark.parametrize("seed", [7, 8, 11])
def test_processes_end_in_the_same_way(process: Command, tmp_path: Path, seed: int) -> None:
    scenario = Generator(Random(seed)).scenario()
    scenario.write(tmp_path)
    done = process("run", "scenario.toml", "--json", "out.json")
    if done.returncode:
        one_error(done)
    else:
        first = (tmp_path / "out.json").read_bytes()
        assert process("run", "scenario.toml", "--json", "out.json").returncode == 0
        assert (tmp_path / "out.json").read_bytes() == first


def test_equal_seeds_give_equal_scenarios() -> None:
    def files(seed: str) -> dict[str, str]:
        return Generator(Random(seed), "LossConfig.gilbert").scenario().files()

    assert files("1") == files("1") != files("2")
    assert "gilbert" in files("1")["scenario.toml"]


TREE = {
    "run": {"duration": "1 s", "max_events": 60_000},
    "links": {"a": {"ends": ["x", "y"], "delay": "1 ms"}, "b": {"ends": ["x", "y"]}},
    "paths": {"p": {"via": ["a"]}},
    "flows": {
        "f": {
            "from": "x",
            "to": "y",
            "paths": ["p"],
            "transport": {"kind": "tcp", "nagle": "off"},
            "app": {"kind": "bulk", "bytes": "9 kB"},
        }
    },
}
"""A scenario with more in it than a failure needs."""


def breaking(words: str, how: str) -> scenario_search.Command:
    """A command line that is wrong about scenarios with `nagle`."""

    def command(*arguments: str) -> Completed:
        done = in_process(*arguments)
        text = Path("scenario.toml").read_text()
        if arguments[0] != words or "nagle" not in text:
            return done
        if how == "traceback":
            return Completed(1, "", "Traceback (most recent call last):\n  ...\nKeyError: 'a'\n")
        if how == "two lines":
            return Completed(2, "", "anabranch: error: one\nanabranch: error: two\n")
        if how == "leaves":
            Path("first.json.part").touch()
        if how == "differs" and "--trace" in arguments:
            traced = Path("traced.json")
            content = json.loads(traced.read_text())
            content["summary"]["run.packets_sent"] += 1
            traced.write_text(json.dumps(content))
        if how == "loses" and Path("first.json").exists():
            content = json.loads(Path("first.json").read_text())
            content["summary"]["link.a.forward.delivered_packets"] -= 1
            Path("first.json").write_text(json.dumps(content))
        return done

    return command


@pytest.mark.parametrize(
    ("words", "how", "what"),
    [
        ("validate", "traceback", "validate ends with code 1"),
        ("run", "traceback", "run ends with code 1"),
        ("run", "two lines", "run refuses with 2 lines"),
        ("run", "leaves", "files are left behind"),
        ("run", "differs", "a run differs with traces"),
        ("run", "loses", "packets of a link do not add up"),
    ],
)
def test_a_failure_is_found_and_made_small(tmp_path: Path, words: str, how: str, what: str) -> None:
    scenario, command = RandomScenario(json.loads(json.dumps(TREE))), breaking(words, how)
    assert scenario_search.check(scenario, tmp_path, in_process) is None
    failure = scenario_search.check(scenario, tmp_path, command)
    assert failure is not None
    assert failure.what == what
    small, again = scenario_search.smaller(scenario, failure, tmp_path, command)
    assert again.what == what
    assert "nagle" in small.files()["scenario.toml"]
    assert "b" not in small.tree.get("links", {})
    assert list(tmp_path.iterdir()) == []


def test_a_refused_key_is_removed() -> None:
    tree = json.loads(json.dumps(TREE))
    tree["flows"]["f"]["count"] = 2
    scenario = RandomScenario(tree)
    assert random_scenarios.repair(scenario, 'flows.f_1.transport.nagle = "off" is not possible')
    assert "nagle" not in tree["flows"]["f"]["transport"]
    assert not random_scenarios.repair(scenario, "the day is too short")
