"""Studies are defined in `[sweep]` or from Python; mistakes in them are one sentence."""

import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch
from anabranch import _engine
from conftest import CALL, ROOT, SCENARIOS
from support.processes import until

BASE = ROOT / "scenarios" / "rto-sweep.toml"
PAGE = (ROOT / "docs" / "sweeps.md").read_text("utf-8")
TRANSPORT = "flows.call.transport"

RTO_MIN = {"set": f"{TRANSPORT}.rto_min", "range": {"from": "20 ms", "to": "220 ms", "count": 3}}
RTO_MAX = {"set": f"{TRANSPORT}.rto_max", "values": ["0.1 s", "1 s"]}


def load(sweep: Any, **sets: Any) -> anabranch.Scenario:
    return anabranch.load(BASE, sets, sweep=sweep)


def keys(scenario: anabranch.Scenario) -> list[dict[str, Any]]:
    return [scenario.cell_key(cell) for cell in range(scenario.cell_count)]


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_of_the_page_have_the_cells_that_it_says(example: str) -> None:
    said = re.match(r"# (\d+) cells?\n", example)
    assert said, "an example begins with the number of its cells"
    text, _, _ = BASE.read_text("utf-8").partition("[sweep]")
    assert anabranch.load(text + example).cell_count == int(said[1])


def test_the_python_example_of_the_page_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(compile(example, "docs/sweeps.md", "exec"), {})
    assert "shape: (3, " in capsys.readouterr().out


def test_a_run_of_a_cell_has_the_seed_that_an_axis_sets() -> None:
    scenario = load({"axes": {"draws": {"set": "seed", "values": [5, 6]}}})
    study = anabranch.Study(scenario)
    study.run()
    rows = study.frame(columns=["call.*"])
    assert rows["seed"].to_list() == [5, 6]
    for row in rows.iter_rows(named=True):
        run = anabranch.run(scenario, cell=row["cell"])
        assert run.seed == row["seed"]
        assert run.summary["call.mean_delay_ms"] == row["call.mean_delay_ms"]
    assert anabranch.run(scenario, cell=1, seed=5).summary["call.mos"] == rows["call.mos"][0]
    with pytest.raises(anabranch.ScenarioError, match="cell 2 is not in the sweep"):
        anabranch.run(scenario, cell=2)


def test_a_dict_is_the_same_as_the_file() -> None:
    in_file = anabranch.load(BASE)
    values = {"rto_max": ("10 s", "1 s", "0.1 s"), "path_max_retrans": np.array([0, 1, 5])}
    names = {"rto_max": "rto_max", "path_max_retrans": "pmr"}
    axes = {
        names[key]: {"set": f"{TRANSPORT}.{key}", "values": value} for key, value in values.items()
    }
    from_python = load({"replications": np.int64(20), "axes": axes})
    assert from_python.hash == in_file.hash
    assert from_python.to_toml() == in_file.to_toml()
    assert load({"axes": axes}, **{"sweep.replications": 3}).replications == 3


def test_text_of_any_kind_arrives() -> None:
    odd = 'a "b" \\ \x7f \t ü 𝄞'
    scenario = load(
        {"axes": {"what": {"cases": {odd: {}, "other": {f"{TRANSPORT}.rto_max": "2 s"}}}}}
    )
    assert keys(scenario) == [{"what": odd}, {"what": "other"}]


def test_the_cells_of_sub_studies() -> None:
    sweep = {
        "replications": 4,
        "axes": {"rto_max": RTO_MAX},
        "studies": {
            "minimum": {
                "axes": {"rto_min": RTO_MIN, "rto_max": {"set": RTO_MAX["set"], "values": ["3 s"]}},
                "where": ["rto_min < 0.2 s"],
                "until": {"metric": "call.mos", "half_width": 0.5},
            },
            "one": {"replications": 7},
        },
    }
    scenario = load(sweep)
    assert scenario.studies == ["main", "minimum", "one"]
    assert [scenario.cell_study(cell) for cell in range(scenario.cell_count)] == [
        *["main"] * 2,
        *["minimum"] * 2,
        "one",
    ]
    assert keys(scenario) == [
        {"rto_max": 0.1},
        {"rto_max": 1.0},
        {"rto_min": 0.02, "rto_max": 3.0},
        {"rto_min": 0.12, "rto_max": 3.0},
        {},
    ]
    main, minimum, one = scenario.parts
    assert (main["replications"], minimum["replications"], one["replications"]) == (4, 4, 7)
    assert (main["until"], one["until"]) == (None, None)
    assert minimum["until"] == {
        "metric": "call.mos", "half_width": 0.5, "level": 0.95, "least": 10, "most": 1000,
    }  # fmt: skip
    assert (minimum["first_cell"], minimum["cell_count"]) == (2, 2)
    labels = {axis["name"]: axis["labels"] for axis in scenario.axes}
    assert labels["rto_max"] == ["0.1 s", "1 s", "3 s"]
    assert anabranch.load(BASE).studies == []


def test_equal_cells_of_different_sweeps_have_one_hash() -> None:
    first = load({"axes": {"rto_max": RTO_MAX}})
    second = load(
        {
            "cells": [{"longest": "1000 ms"}, {"longest": "3 s"}],
            "axes": {"longest": {"set": RTO_MAX["set"]}},
        }
    )
    assert first.cell_hashes()[1] == second.cell_hashes()[0]
    assert len({*first.cell_hashes(), *second.cell_hashes()}) == 3
    assert first.hash != second.hash


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_a_cell_hash_is_that_of_the_cell_alone(path: Path) -> None:
    scenario = anabranch.load(path)
    hashes = scenario.cell_hashes()
    assert len(hashes) == scenario.cell_count
    assert len(set(hashes)) == len(hashes)
    for cell in (0, scenario.cell_count - 1):
        assert anabranch.load(scenario.cell_toml(cell)).hash == hashes[cell]


def test_files_count_by_what_they_hold(tmp_path: Path) -> None:
    text = CALL.replace('rate = "1 Mbit/s"', 'rate = { mahimahi = "rate.trace" }', 1) + (
        "\n[sweep.axes.rate.cases]\n"
        'file = { "links.second.rate" = { mahimahi = "other.trace" } }\n'
        'plain = { "links.second.rate" = "2 Mbit/s" }\n'
    )
    found = []
    for folder, rate in (("one", "12\n24\n"), ("two", "12\n24\n"), ("three", "12\n25\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rate.trace").write_text(rate)
        (tmp_path / folder / "other.trace").write_text("5\n10\n")
        file = tmp_path / folder / "a.toml"
        file.write_text(text)
        scenario = anabranch.load(file)
        # From anywhere: the resolved form says where the files are.
        assert anabranch.load(scenario.to_toml()).cell_hashes() == scenario.cell_hashes()
        found.append((scenario.hash, scenario.cell_hashes()))
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]
    assert not set(found[0][1]) & set(found[2][1])
    (tmp_path / "one" / "other.trace").write_text("5\n11\n")
    changed = anabranch.load(tmp_path / "one" / "a.toml").cell_hashes()
    assert changed[0] != found[0][1][0]
    assert changed[1] == found[0][1][1]


def test_an_included_file_finds_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "rate.trace").write_text("5\n10\n")
    first, second = CALL.split("[links.second]")
    links, rest = second.split("[paths.p0]")
    (tmp_path / "sub" / "wifi.toml").write_text(
        "[links.second]" + links.replace('"1 Mbit/s"', '{ mahimahi = "rate.trace" }')
    )
    file = tmp_path / "a.toml"
    file.write_text(f'include = ["sub/wifi.toml"]\n{first}[paths.p0]{rest}')
    monkeypatch.chdir(tmp_path / "sub")
    from_within = anabranch.load("../a.toml").hash
    monkeypatch.chdir("/")
    assert anabranch.load(file).hash == from_within


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"axis": {}}, "sweep.axis: unknown field `axis`"),
    ({"replications": 0}, "sweep.replications: 0 is too few"),
    ({"replications": 1.5}, "sweep.replications: invalid type: floating point `1.5`"),
    ({"metrics": "call.mos"}, 'sweep.metrics: invalid type: string "call.mos", expected a list'),
    ({"traces": ["farmes"]}, "sweep.traces.0: `farmes` is not a table of traces; there are"),
    ({"axes": {"a": {"set": 1, "values": [1]}}}, "sweep.axes.a.set: `set` is a dotted path"),
    ({"axes": {"a": {"set": "x.y", "values": [1]}}}, "sweep.axes.a, value `1`: x: unknown field"),
    ({"axes": {"a": {**RTO_MAX, "values": ["1 B"]}}}, "sweep.axes.a, value `1 B`: flows.call"),
    (
        {"axes": {"a": {**RTO_MIN, "range": {"from": "1 s"}}}},
        "sweep.axes.a.range: missing field `to`",
    ),
    (
        {"axes": {"a": {**RTO_MIN, "range": {"from": [], "to": 1}}}},
        "sweep.axes.a.range.from: expected",
    ),
    (
        {"axes": {"a": {**RTO_MIN, "range": {"from": "2 s", "to": "1 s", "count": 2}}}},
        "sweep.axes.a.range.from: `2 s` is above `to`, which is `1 s`; swap them",
    ),
    (
        {"axes": {"a": {**RTO_MIN, "range": {"from": "1 s", "to": "2 s", "count": 0}}}},
        "sweep.axes.a.range.count: 0 is not possible; use 2 to 100000",
    ),
    (
        {
            "axes": {
                "a": {"set": RTO_MIN["set"], "log_range": {"from": "0 s", "to": "2 s", "count": 3}}
            }
        },
        "sweep.axes.a.log_range.from: `0 s` has no logarithm; use more than 0",
    ),
    (
        {"zip": [["a", "b"]], "axes": {"a": RTO_MAX}},
        "sweep.zip.0: there is no axis `b`; there are `a`",
    ),
    ({"cells": [{"b": 1}], "axes": {"a": RTO_MAX}}, "sweep.cells.0: there is no axis `b`"),
    ({"where": ["a < "], "axes": {"a": RTO_MAX}}, "sweep.where.0: `a < `, character 5: the end"),
    (
        {"where": ["a > 5 s"], "axes": {"a": RTO_MAX}},
        "sweep.where: no cell is left; the conditions",
    ),
    ({"where": "a > 5 s"}, "sweep.where: invalid type: string"),
    ({"design": {"kind": "grid", "points": 3}}, "sweep.design.kind: unknown variant `grid`"),
    ({"design": {"kind": "sobol"}}, "sweep.design: missing field `points`"),
    (
        {"design": {"kind": "sobol", "points": 3}, "axes": {"a": RTO_MAX}},
        "sweep.design.points: a Sobol' sequence is balanced at powers of two, and 3 is none",
    ),
    (
        {"design": {"kind": "saltelli", "points": 48}, "axes": {"a": RTO_MAX, "b": RTO_MAX}},
        "sweep.design.points: a Sobol' sequence is balanced at powers of two, and 48 is none",
    ),
    (
        {"design": {"kind": "saltelli", "points": 64}, "axes": {"a": RTO_MAX}},
        "sweep.design.kind: `saltelli` tells axes apart, and there are 1; give 2 `axes` or more",
    ),
    (
        {"design": {"kind": "saltelli", "points": 2**19}, "axes": {"a": RTO_MAX, "b": RTO_MAX}},
        "sweep.design.points: 524288 points make 2097152 cells with 2 axes, which is more than",
    ),
    (
        {
            "design": {"kind": "saltelli", "points": 64},
            "axes": {"a": RTO_MAX, "b": RTO_MAX},
            "where": ["a < b"],
        },
        "sweep.where: `saltelli` needs every value of an axis with every value of the others",
    ),
    ({"until": {"metric": "call.mos"}}, "sweep.until: missing field `half_width`"),
    ({"until": {"metric": "call.mos", "half_width": -1}}, "sweep.until.half_width: -1 is never"),
    ({"studies": {"a b": {}}}, "sweep.studies.a b: not a name"),
    ({"studies": {"a": {"metrics": []}}}, "sweep.studies.a.metrics: unknown field `metrics`"),
    (
        {"studies": {"a": {"axes": {"b": {**RTO_MAX, "values": ["1 B"]}}}}},
        "sweep.studies.a.axes.b, value `1 B`: flows.call.transport.rto_max: `1 B` is not a length",
    ),
]


@pytest.mark.parametrize(("sweep", "sentence"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_a_mistake_is_one_sentence(sweep: dict[str, Any], sentence: str) -> None:
    with pytest.raises(anabranch.ScenarioError) as error:
        load(sweep)
    message = str(error.value).removeprefix(f"{BASE}: ")
    assert message.startswith(sentence)
    assert "\n" not in message


def test_what_no_key_can_be_is_one_sentence() -> None:
    with pytest.raises(anabranch.AnabranchError, match=r"sweep\.axes\.a: NoneType is not possible"):
        load({"axes": {"a": None}})
    with pytest.raises(anabranch.AnabranchError, match=r"sweep\.axes\.a\.values\.1: `nan` is not"):
        load({"axes": {"a": {**RTO_MAX, "values": [1, float("nan")]}}})


def test_values_that_no_file_can_hold_are_one_sentence() -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    cases: list[tuple[Any, str]] = [
        (10**5000, "a.b: the number has too many digits"),
        ({"c": -(10**5000)}, r"a\.b\.c: the number has too many digits"),
        ("\ud800", "a path or a value is not valid UTF-8"),
        (deep, "a.b: the value is nested too deeply"),
    ]
    for value, sentence in cases:
        with pytest.raises(anabranch.AnabranchError, match=sentence):
            anabranch.load(BASE, {"a.b": value})
    with pytest.raises(anabranch.AnabranchError, match="is not valid UTF-8"):
        anabranch.load("\ud800.toml")
    with pytest.raises(anabranch.AnabranchError, match="seed is a value of type int that is too"):
        anabranch.run(BASE, seed=10**5000)


def test_combinations_that_cannot_be_built_may_be_excluded() -> None:
    """On its own `0.5 s` of RTO.Min does not go with the first RTO.Max."""
    axes = {
        "rto_max": {"set": f"{TRANSPORT}.rto_max", "values": ["0.1 s", "1 s"]},
        "rto_min": {"set": f"{TRANSPORT}.rto_min", "values": ["20 ms", "0.5 s"]},
    }
    with pytest.raises(anabranch.ScenarioError, match=r"sweep\.axes\.rto_min, value `0\.5 s`"):
        load({"axes": axes})
    assert load({"axes": axes, "where": ["rto_min <= rto_max"]}).cell_count == 3


SLOW = ROOT / "scenarios" / "shared-bottleneck.toml"


def test_a_batch_that_is_cancelled_has_what_is_finished() -> None:
    how_long = {"set": "run.duration", "values": ["10 ms", "10 h"]}
    scenario = anabranch.load(SLOW, {"run.warm_up": "0 s"}, sweep={"axes": {"how_long": how_long}})
    cancel = _engine.Cancel()
    results: list[dict[str, list[float]]] = []
    jobs = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2)]

    def work() -> None:
        results.append(_engine.run_batch(scenario, jobs, 1, None, cancel))

    thread = threading.Thread(target=work)
    # Until the first two runs are over, which take milliseconds of processor time.
    started = time.process_time()
    thread.start()
    until(lambda: time.process_time() > started + 0.5)
    started = time.process_time()
    cancel.set()
    thread.join()
    # The third would take hours.
    assert time.process_time() < started + 1
    (found,) = results
    assert list(zip(found["cell"], found["replication"], strict=True)) == [(0, 0), (0, 1)]
    whole = _engine.run_batch(scenario, jobs[:2], 2)
    assert {name: list(map(repr, values)) for name, values in found.items()} == {
        name: list(map(repr, values)) for name, values in whole.items()
    }
    nothing = _engine.run_batch(scenario, jobs, 2, cancel=cancel)
    assert nothing["cell"] == []


def test_a_batch_keeps_the_traces_that_were_asked_for() -> None:
    scenario = anabranch.load(CALL)
    batch = _engine.run_batch(scenario, [(0, 1), (0, 0)], 2, traces=["frames", "queues"])
    found = batch.pop("traces")
    assert [(cell, replication) for cell, replication, _ in found] == [(0, 1), (0, 0)]
    for _, replication, tables in found:
        assert set(tables) == {"frames", "queues"}
        alone = anabranch.run(scenario, replication=replication, trace=True)
        assert list(map(repr, tables["frames"]["delay_ms"])) == list(
            map(repr, alone.traces["frames"]["delay_ms"])
        )
    plain = _engine.run_batch(scenario, [(0, 1), (0, 0)], 2)
    assert {name: list(map(repr, values)) for name, values in batch.items()} == {
        name: list(map(repr, values)) for name, values in plain.items()
    }


def test_a_long_condition_is_not_repeated() -> None:
    where = " or ".join(["a > 0"] * 2000)
    with pytest.raises(anabranch.ScenarioError) as raised:
        load({"where": [f"{where} or nobody"], "axes": {"a": RTO_MAX}})
    message = str(raised.value)
    assert "`nobody` is not an axis" in message
    assert len(message) < 600
