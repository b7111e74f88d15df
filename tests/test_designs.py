"""Designs spread points over the ranges of a sweep's axes."""

import numpy as np
import pytest
from scipy.stats import qmc

import anabranch
from anabranch._engine import Scenario
from anabranch.studies import designs
from conftest import ROOT

FILE = ROOT / "scenarios" / "timer-space.toml"


@pytest.mark.parametrize("kind", ["latin_hypercube", "sobol"])
def test_points_are_spread(kind: str) -> None:
    points = designs.points(kind, 64, 3, seed=1)
    assert points.shape == (64, 3)
    # One in each of 64 equal parts of each axis: Latin, and a scrambled Sobol' sequence too.
    for axis in points.T:
        assert sorted((axis * 64).astype(int)) == list(range(64))
    spread = np.random.default_rng(1).random((64, 3))
    assert qmc.discrepancy(points) < qmc.discrepancy(spread)
    assert (points == designs.points(kind, 64, 3, seed=1)).all()
    assert (points != designs.points(kind, 64, 3, seed=2)).any()


def test_saltellis_points_change_one_axis_at_a_time() -> None:
    points = designs.points("saltelli", 64, 3, seed=1)
    groups = points.reshape(64, 5, 3)
    a, b = groups[:, 0], groups[:, 4]
    for axis in range(3):
        expected = a.copy()
        expected[:, axis] = b[:, axis]
        assert (groups[:, axis + 1] == expected).all()
    # A and B together are a Sobol' sequence: one in each of 64 parts of each of six axes.
    for column in np.hstack([a, b]).T:
        assert sorted((column * 64).astype(int)) == list(range(64))
    assert (points == designs.points("saltelli", 128, 3, seed=1)[: 64 * 5]).all()
    assert (points != designs.points("saltelli", 64, 3, seed=2)).any()


def test_load_chooses_the_points() -> None:
    open_one = Scenario.load(str(FILE))
    assert (open_one.cell_count, open_one.parts[0]["is_open"]) == (0, True)
    scenario = anabranch.load(FILE)
    assert scenario.design == {"kind": "latin_hypercube", "points": 32, "seed": 1}
    assert scenario.cell_count == 32
    keys = [scenario.cell_key(cell) for cell in range(32)]
    # Equal parts of the logarithm, of six whole numbers and of two words.
    logs = np.log([key["rto_max"] for key in keys]) - np.log(0.1)
    assert sorted((logs / np.log(600) * 32).astype(int)) == list(range(32))
    counts = np.bincount([int(key["pmr"]) for key in keys])
    assert len(counts) == 6
    assert set(counts) <= {5, 6}
    assert sum(key["policy"] == "failover" for key in keys) == 16
    # The resolved form has the points: nothing is drawn again.
    again = Scenario.parse(scenario.to_toml())
    assert again.hash == scenario.hash
    assert again.cell_hashes() == scenario.cell_hashes()
    other = anabranch.load(FILE, {"sweep.design.seed": 2})
    assert not set(other.cell_hashes()) & set(scenario.cell_hashes())


def test_conditions_and_sub_studies_have_designs_too() -> None:
    rto = {"set": "flows.call.transport.rto_max", "range": {"from": "1 s", "to": "9 s"}}
    hb = {"set": "flows.call.transport.hb_interval", "range": {"from": "1 s", "to": "9 s"}}
    sweep = {
        "studies": {
            "half": {
                "design": {"kind": "sobol", "points": 64},
                "axes": {"rto": rto, "hb": hb},
                "where": ["rto < hb"],
            },
            "line": {"design": {"kind": "latin_hypercube", "points": 5}, "axes": {"rto": rto}},
        }
    }
    scenario = anabranch.load(FILE, sweep=sweep)
    assert scenario.studies == ["half", "line"]
    half, line = scenario.parts
    assert 24 <= half["cell_count"] <= 40
    assert line["cell_count"] == 5
    keys = [scenario.cell_key(cell) for cell in range(half["cell_count"])]
    assert all(float(key["rto"]) < float(key["hb"]) for key in keys)
    assert scenario.design is None


def test_a_design_without_points_cannot_run() -> None:
    with pytest.raises(anabranch.ScenarioError, match=r"has no points yet; `anabranch\.load`"):
        anabranch.run(Scenario.load(str(FILE)))


def test_equal_points_are_one_cell() -> None:
    pmr = {"set": "flows.call.transport.path_max_retrans", "range": {"from": 0, "to": 2}}
    sweep = {"design": {"kind": "latin_hypercube", "points": 30}, "axes": {"pmr": pmr}}
    scenario = anabranch.load(FILE, sweep=sweep)
    assert [key["pmr"] for key in sorted(map(scenario.cell_key, range(3)), key=str)] == [0, 1, 2]
    assert scenario.cell_count == 3
