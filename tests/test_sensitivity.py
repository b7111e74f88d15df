"""Sobol indices from Saltelli's design: from a sweep's points to the page of a report."""

import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import anabranch as package
from anabranch import Scenario, Study, report
from anabranch.report import sensitivity
from conftest import CALL
from synthetic import ISHIGAMI, ishigami, write_model

pytest.importorskip("SALib", reason="needs the extra anabranch[sensitivity]")

RANGES: dict[str, Any] = {
    "x1": {"set": "links.first.delay", "range": {"from": "10 ms", "to": "110 ms"}},
    "x2": {"set": "links.second.delay", "range": {"from": "10 ms", "to": "110 ms"}},
    "x3": {"set": "links.first.loss.mean_loss", "range": {"from": "1 %", "to": "11 %"}},
}
"""Each from 0.01 to 0.11."""

LISTED: dict[str, Any] = {
    "pmr": {"set": "flows.call.transport.path_max_retrans", "range": {"from": 0, "to": 2}},
    "rto_max": {"set": "flows.call.transport.rto_max", "values": ["0.1 s", "1 s"]},
    "policy": {
        "cases": {
            name: {"flows.call.transport.policy": {"kind": name}}
            for name in ("failover", "delay_centric")
        }
    },
}

Model = Callable[[pl.DataFrame], np.ndarray]
Found = dict[str, tuple[float, float, float, float]]


def saltelli(points: int, axes: dict[str, Any] = RANGES) -> dict[str, Any]:
    return {"design": {"kind": "saltelli", "points": points}, "axes": axes}


def shares(cells: pl.DataFrame) -> np.ndarray:
    """Where each cell is in the ranges, from 0 to 1: a column an axis."""
    return 10 * cells.select(*RANGES).to_numpy() - 0.1


def additive(cells: pl.DataFrame) -> np.ndarray:
    return shares(cells) @ [3, 1, 0]


ADDITIVE = {"x1": (0.9, 0.9), "x2": (0.1, 0.1), "x3": (0.0, 0.0)}
"""The function's indices."""


def page_of(folder: Path, definition: Scenario, model: Model) -> str:
    """The page of a study whose `call.mos` is this function of its cells."""
    write_model(folder, definition, model)
    report.write(folder, folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


def table(page: str) -> Found:
    """For each axis: first order, its half-width, total order, its half-width."""
    [body] = re.findall(r"<caption><span>Sobol indices of .*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    found = {}
    for name, cells in re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', body):
        first, half, total, total_half = map(float, re.findall("<td>(.*?)</td>", cells))
        found[name] = (first, half, total, total_half)
    return found


def check(found: Found, known: dict[str, tuple[float, float]], most: float) -> None:
    """Whether known indices (first, total) are in intervals of at most this half-width."""
    assert set(found) == set(known)
    for name, (first, half, total, total_half) in found.items():
        assert max(half, total_half) < most
        assert abs(first - known[name][0]) <= half, f"{name}, first order"
        assert abs(total - known[name][1]) <= total_half, f"{name}, total order"


def test_ishigamis_function(tmp_path: Path) -> None:
    definition = package.load(CALL, sweep=saltelli(1024))
    assert definition.cell_count == 1024 * 5
    page = page_of(tmp_path, definition, lambda cells: ishigami((2 * shares(cells) - 1) * math.pi))
    found = table(page)
    known = zip(ISHIGAMI["first"], ISHIGAMI["total"], strict=True)
    check(found, dict(zip(RANGES, known, strict=True)), 0.12)
    assert list(found) == ["x1", "x2", "x3"]  # by total order
    assert found["x3"][0] - found["x3"][2] < -0.15  # works in interactions alone
    assert "The difference is interaction." in page
    assert "Left out" not in page
    assert 'id="metric0-shares' in page


def test_without_interactions_total_order_is_first_order(tmp_path: Path) -> None:
    found = table(page_of(tmp_path, package.load(CALL, sweep=saltelli(256)), additive))
    check(found, ADDITIVE, 0.16)
    assert found["x1"][0] == pytest.approx(found["x1"][2], abs=0.02)
    assert found["x3"] == (0, 0, 0, 0)


def test_interactions_alone_have_no_first_order(tmp_path: Path) -> None:
    def model(cells: pl.DataFrame) -> np.ndarray:
        return np.asarray(np.prod(shares(cells)[:, :2] - 0.5, axis=1))

    found = table(page_of(tmp_path, package.load(CALL, sweep=saltelli(256)), model))
    check(found, {"x1": (0, 1), "x2": (0, 1), "x3": (0, 0)}, 0.25)


def test_values_that_only_rounding_tells_apart_have_no_indices(tmp_path: Path) -> None:
    def model(cells: pl.DataFrame) -> np.ndarray:
        return np.where(cells["cell"].to_numpy() % 3 == 0, 0.1, 0.1 + 1.4e-17)

    page = page_of(tmp_path, package.load(CALL, sweep=saltelli(64)), model)
    assert "Sobol indices of" not in page
    assert "with values that are not all the same; 64 of 64 have values" in page


def test_points_that_meet_count_each_time(tmp_path: Path) -> None:
    definition = package.load(CALL, sweep=saltelli(256, LISTED))
    points = np.array(definition.point_cells()).reshape(256, 5)
    assert definition.cell_count == 12
    assert set(points.ravel()) == set(range(12))
    # Words are numbers by their place: y = pmr + [rto_max = 1 s] + 2 [both], by counting.
    y = {
        (pmr, rto, policy): pmr + rto + 2 * rto * (policy == "delay_centric")
        for pmr, rto, policy in product((0, 1, 2), (0.1, 1), ("failover", "delay_centric"))
    }

    def model(cells: pl.DataFrame) -> np.ndarray:
        return np.array([y[key] for key in cells.select(*LISTED).rows()])

    values = np.array(list(y.values())).reshape(3, 2, 2)
    known = {}
    for axis, name in enumerate(LISTED):
        others = tuple(other for other in range(3) if other != axis)
        alone = values.mean(axis=others).var() / values.var()
        known[name] = (alone, values.var(axis=axis).mean() / values.var())
    page = page_of(tmp_path, definition, model)
    check(table(page), known, 0.2)
    assert "full factorial" not in page


def test_a_point_without_a_value_is_left_out_whole(tmp_path: Path) -> None:
    definition = package.load(CALL, sweep=saltelli(64))
    points = np.array(definition.point_cells()).reshape(64, 5)
    lost = [points[3, 0], points[3, 4], points[20, 2]]

    def model(cells: pl.DataFrame) -> np.ndarray:
        values = ishigami((2 * shares(cells) - 1) * math.pi)
        values[lost] = math.nan
        return values

    page = page_of(tmp_path / "some", definition, model)
    assert "Left out: 2 of 64 base points, where a cell has no value." in page
    whole = np.delete(points, [3, 20], axis=0)
    mos = ishigami((2 * shares(package.store.cells_of(definition)) - 1) * math.pi)
    expected = {i.name: i for i in sensitivity.saltelli_indices(list(RANGES), mos[whole])}
    found = table(page)
    for name, (first, half, total, total_half) in found.items():
        index = expected[name]
        of_index = (index.first_order, index.half_width, index.total_order, index.total_half_width)
        assert (first, half, total, total_half) == pytest.approx(of_index, abs=0.005)

    lost = points[:25, 1].tolist()
    page = page_of(tmp_path / "few", definition, model)
    assert "Sobol indices need 40 base points" in page
    assert "39 of 64 have values" in page


def test_a_scalar_that_is_everywhere_the_same_has_none(tmp_path: Path) -> None:
    definition = package.load(CALL, sweep=saltelli(64))
    page = page_of(tmp_path, definition, lambda cells: np.ones(cells.height))
    assert "with values that are not all the same; 64 of 64 have values" in page


def test_sub_studies_have_points_of_their_own(tmp_path: Path) -> None:
    sweep = {
        "axes": {"x1": {**RANGES["x1"], "range": {"from": "10 ms", "to": "20 ms", "count": 7}}},
        "studies": {"listed": saltelli(64, LISTED), "ranges": saltelli(256)},
    }
    definition = package.load(CALL, sweep=sweep)
    assert definition.point_cells() == []
    assert min(definition.point_cells("listed")) == 7
    assert min(definition.point_cells("ranges")) == 7 + 12
    with pytest.raises(package.ScenarioError, match="there is no sub-study `range`"):
        definition.point_cells("range")

    def model(cells: pl.DataFrame) -> np.ndarray:
        return np.where(cells["study"] == "ranges", additive(cells), 1.0)

    page = page_of(tmp_path, definition, model)
    check(table(page), ADDITIVE, 0.16)
    assert "Sobol indices of call.mos in ranges" in page


def test_without_salib_the_page_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "is_available", lambda: False)
    definition = package.load(CALL, sweep=saltelli(64, LISTED))
    page = page_of(tmp_path, definition, lambda cells: cells["pmr"].to_numpy())
    assert "pip install anabranch[sensitivity]" in page
    assert "<span>Sobol indices" not in page


def test_a_study_goes_on_and_grows(tmp_path: Path) -> None:
    text = CALL.replace('duration = "4 s"', 'duration = "1 s"')
    axes = {"x1": RANGES["x1"], "pmr": LISTED["pmr"]}
    small, large = (package.load(text, sweep=saltelli(points, axes)) for points in (4, 8))
    assert large.point_cells()[:16] == small.point_cells()
    assert large.cell_hashes()[: small.cell_count] == small.cell_hashes()
    assert 4 < small.cell_count <= 16  # some points meet

    def computed() -> int:
        return sum(pl.read_parquet(path).height for path in package.store.shards(tmp_path / "out"))

    Study(small, tmp_path / "out").run(shard=(1, 2))
    part = computed()
    assert 0 < part < small.cell_count
    Study(small, tmp_path / "out").run()
    assert computed() == small.cell_count
    Study(large, tmp_path / "out").run()
    assert computed() == large.cell_count
    opened = Study(tmp_path / "out")
    assert opened.scenario.point_cells() == large.point_cells()
    assert opened.frame().drop("engine_version").equals(_fresh(large).drop("engine_version"))


def _fresh(definition: Scenario) -> pl.DataFrame:
    study = Study(definition)
    study.run()
    return study.frame()
