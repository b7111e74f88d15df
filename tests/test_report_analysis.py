"""What a report computes: main effects, shares of the variance, and which choice is best."""

import math
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest

from anabranch import AnabranchError, Study, stats
from anabranch.report import figures, page
from anabranch.report.analysis import Analysis
from anabranch.report.environments import Environments, divisions
from anabranch.report.sensitivity import sobol_indices
from anabranch.stats.labels import label_table
from anabranch.stats.verdicts import NOTHING, Matters
from support.reports import SIZES
from synthetic import write_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report") / "study"
    write_study(made, SIZES, 30, 3)
    return made


@pytest.fixture(scope="module")
def analysis(folder: Path) -> Analysis:
    study = Study(folder)
    return Analysis(study.frame(), "call.mos", label_table(study.scenario.axes))


def rows_of(values: np.ndarray, axes: dict[str, list[Any]]) -> pl.DataFrame:
    """Rows of cells (lines) and replications (columns); NaN stays a run without a value."""
    cells, replications = values.shape
    columns = {name: np.repeat(np.array(of), replications) for name, of in axes.items()}
    return pl.DataFrame(
        {
            "cell": np.repeat(np.arange(cells, dtype=np.uint32), replications),
            "replication": np.tile(np.arange(replications, dtype=np.uint32), cells),
            **columns,
            "call.mos": values.ravel(),
        }
    )


def test_main_effects_are_means_over_the_other_axes(folder: Path, analysis: Analysis) -> None:
    rows = Study(folder).frame()
    for axis in analysis.axes:
        means = stats.per_replication(rows, [axis.name], "call.mos")
        known = stats.cells(means, [axis.name], "call.mos").sort(axis.name)
        found = [effect.interval for effect in analysis.effects(axis)]
        assert [i.mean for i in found] == pytest.approx(known["mean"].to_list())
        assert [i.half_width for i in found] == pytest.approx(known["half_width"].to_list())
    assert analysis.axes[0].labels == ["1 ms", "2 ms", "3 ms", "4 ms"]


def test_shares_of_a_full_factorial_are_those_of_the_model(analysis: Analysis) -> None:
    # The model's cells: 3 + a - b / 2 + a b with a in thirds and b in halves, pmr does nothing.
    a, b, _ = np.array(list(product([0, 1 / 3, 2 / 3, 1], [0, 0.5, 1], [0, 1]))).T
    cells = 3 + a - b / 2 + a * b
    of_a, of_b = 1.5 * (a - a.mean()), (a.mean() - 0.5) * (b - b.mean())
    both = cells - cells.mean() - of_a - of_b
    known = {"delay": of_a, "loss": of_b, "delay × loss": both}
    found = {share.name: share.share for share in analysis.shares}
    assert analysis.is_factorial
    assert sum(found.values()) == pytest.approx(1)
    for name, part in known.items():
        assert found[name] == pytest.approx(np.var(part) / np.var(cells), abs=0.01)
    assert found["pmr"] < 0.01
    assert [axis.name for axis in analysis.pairs[0]] == ["delay", "loss"]
    assert 0 < analysis.noise < 0.02


def test_what_may_be_the_best_is_framed_where_a_pair_is_a_cell() -> None:
    random = np.random.default_rng(3)
    axes: dict[str, list[Any]] = {"a": [1, 1, 2, 2, 3, 3], "b": ["x", "y"] * 3}
    means = np.array([1.0, 2.0, 3.0, 4.0, 2.5, 4.0])
    values = means[:, None] + 0.1 * random.standard_normal((6, 20))
    found = Analysis(rows_of(values, axes), "call.mos", {})
    figure = figures.heat_map(found, *found.axes)
    frames: list[Any] = [one for one in figure.axes[0].patches if one.get_gid() == "best"]
    places = {(round(one.get_x() + 0.46), round(one.get_y() + 0.44)) for one in frames}
    # Two cells are alike: the second and the third value of one axis with the second of the other.
    assert places == {(1, 1), (2, 1)}
    equal = Analysis(rows_of(np.full((6, 3), 1.0), axes), "call.mos", {})
    assert not figures.heat_map(equal, *equal.axes).axes[0].patches


def test_parts_of_the_variance_are_drawn_from_0_to_1() -> None:
    figure = figures.bars(["a", "b"], {"first order": [(0.97, 0.2), (0.02, 0.1)]})
    (axes,) = figure.axes
    lines: list[Any] = list(axes.collections)
    ends = [end for one in lines for line in one.get_segments() for end in line[:, 0]]
    assert min(ends) == pytest.approx(0)
    assert max(ends) == pytest.approx(1)


@pytest.mark.parametrize("value", [4.1, 0.1, 3.3])
def test_equal_cells_have_no_shares(value: float) -> None:
    """Whatever rounding makes of their variance."""
    axes: dict[str, list[Any]] = {"a": [1, 1, 2, 2, 3, 3], "b": ["x", "y"] * 3}
    found = Analysis(rows_of(np.full((6, 3), value), axes), "call.mos", {})
    assert found.is_factorial
    assert (found.shares, found.indices, found.pairs) == ([], [], [])
    assert math.isnan(found.noise)
    # Means of 3 and of 7 equal values may differ in the last digit.
    few = np.full((6, 7), value)
    few[::2, 3:] = math.nan
    assert Analysis(rows_of(few, axes), "call.mos", {}).shares == []


def test_what_replications_do_to_all_cells_is_no_part_of_the_variance() -> None:
    random = np.random.default_rng(5)
    axes = {"a": list(range(10)) * 10, "b": [i // 10 for i in range(100)]}
    own, shared = random.normal(0, 1, (100, 8)), random.normal(0, 100, 8)
    # Without any effect, noise is all of the variance, whatever the cells share.
    effects = 3 * np.arange(100)[:, np.newaxis]
    lacking = np.where(random.random((100, 8)) < 0.1, math.nan, own)

    def noise(values: np.ndarray) -> float:
        return Analysis(rows_of(values, axes), "call.mos", {}).noise

    assert noise(own) == pytest.approx(1, abs=0.3)
    assert noise(own + shared) == pytest.approx(noise(own))
    known = 1 / 8 / np.var(effects)
    assert noise(own + shared + effects) == pytest.approx(known, rel=0.3)
    assert noise(lacking + effects) == pytest.approx(known / 0.9, rel=0.3)


def test_cells_that_are_no_full_factorial(analysis: Analysis) -> None:
    values = np.arange(12.0).reshape(3, 4)
    found = Analysis(rows_of(values, {"a": [1, 1, 2], "b": ["x", "y", "x"]}), "call.mos", {})
    assert not found.is_factorial
    assert found.shares == []
    assert [e.interval.mean for e in found.effects(found.axes[0])] == [3.5, 9.5]
    assert found.indices == []
    assert analysis.indices == []  # exact ones are there


def test_axes_that_advance_together_do_not_interact() -> None:
    values = np.array([[1.0, 2], [2, 3], [4, 5]])
    together = Analysis(rows_of(values, {"a": [1, 2, 3], "b": [5, 6, 7]}), "call.mos", {})
    assert together.pairs == []
    crossed = Analysis(rows_of(values, {"a": [1, 1, 2], "b": [5, 6, 6]}), "call.mos", {})
    assert len(crossed.pairs) == 1


def test_runs_without_a_value_and_of_unequal_number() -> None:
    nan = math.nan
    values = np.array([[1, 2, 3, nan], [2, nan, nan, 4], [nan] * 4, [5, 5, 5, 5.0]])
    found = Analysis(rows_of(values, {"a": [1, 1, 2, 2]}), "call.mos", {})
    first, second = (effect.interval for effect in found.effects(found.axes[0]))
    assert first.mean == 2.5  # of the cells' means 2 and 3
    assert first.n == 2
    assert second == (5.0, 0.0, 4)
    assert found.ranking["n"].to_list() == [4, 2, 3, 0]
    assert found.runs == 9
    nothing = Analysis(rows_of(values * nan, {"a": [1, 1, 2, 2]}), "call.mos", {})
    assert nothing.runs == 0
    assert page.section(nothing, None, 0).finding == "No run has a value of call.mos."


def test_close_values_of_axes_do_not_look_alike() -> None:
    close = [0.1234561, 0.1234562, 0.5]
    axes = [{"name": "rto", "values": close, "labels": [f"{value} s" for value in close]}]
    labels = label_table(axes)
    shown = ["0.1234561 s", "0.1234562 s", "0.5 s"]
    assert list(labels["rto"].values()) == shown
    assert list(
        label_table([axes[0] | {"values": close[1:], "labels": ["0.1234562 s", "0.5 s"]}])[
            "rto"
        ].values()
    ) == ["0.1235 s", "0.5 s"]
    rows = pl.DataFrame({"cell": [0, 1, 2], "replication": 0, "rto": close, "call.mos": close})
    for known in (labels, {}):
        analysis = Analysis(rows, "call.mos", known)
        found = [
            effect.labels[0].removesuffix(" s") for effect in analysis.effects(analysis.axes[0])
        ]
        assert found == [text.removesuffix(" s") for text in shown]
        assert len({figures.box_name(analysis, row) for row in rows.iter_rows(named=True)}) == 3
    many = [0.1 + i * 1e-6 for i in range(40)]
    rows = pl.DataFrame({"cell": range(40), "replication": 0, "rto": many, "call.mos": many})
    groups = Analysis(rows, "call.mos", {}).axes[0].labels
    assert len(set(groups)) == len(groups) > 1
    assert all(len(set(group.split("–"))) == 2 for group in groups)


def test_of_many_cells_only_the_first_are_screened(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(0, 1, (40, 5))
    rows = rows_of(values, {"a": list(range(40))})
    whole = Analysis(rows, "call.mos", {}).ranking
    monkeypatch.setattr("anabranch.report.analysis.MOST_SCREENED", 10)
    found = Analysis(rows, "call.mos", {}).ranking
    for column in ("cell", "mean", "half_width", "n", "rank"):
        assert found[column].to_list() == whole[column].to_list()
    assert 0 < found["best"].sum() <= 10
    assert not found["best"][10:].any()
    less = Analysis(
        rows.rename({"call.mos": "call.mean_delay_ms"}), "call.mean_delay_ms", {}
    ).ranking
    assert less["mean"].to_list() == pytest.approx(sorted(values.mean(axis=1)))
    values[3] = math.nan
    assert Analysis(rows_of(values, {"a": list(range(40))}), "call.mos", {}).ranking["n"][-1] == 0


def test_an_axis_of_many_values_is_shown_in_groups() -> None:
    random = np.random.default_rng(1)
    delay = random.uniform(0.001, 0.1, 200)
    labels = {"delay": {str(value): f"{1000 * value:.10f} ms" for value in delay}}
    rows = rows_of(delay[:, np.newaxis] + random.normal(0, 1e-4, (200, 3)), {"delay": list(delay)})
    found = Analysis(rows, "call.mos", labels)
    [axis] = found.axes
    effects = found.effects(axis)
    assert axis.grouped
    assert sum(effect.cells for effect in effects) == 200
    assert all(effect.cells == 40 for effect in effects)
    for effect in effects:
        low, high = map(float, re.findall(r"[0-9.]+", effect.labels[0]))
        assert low < 1000 * effect.interval.mean < high
        assert effect.labels[0].endswith(" ms")


def test_sobol_indices_of_a_latin_hypercube() -> None:
    pytest.importorskip("SALib", reason="needs the extra anabranch[sensitivity]")
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import

    x = qmc.LatinHypercube(3, rng=1).random(512)
    # y = 3 x0 + x1 + 4 (x1 - 1/2) (x2 - 1/2): variances 9/12, 1/12 and 16/144.
    y = 3 * x[:, 0] + x[:, 1] + 4 * (x[:, 1] - 0.5) * (x[:, 2] - 0.5)
    total = 9 / 12 + 1 / 12 + 1 / 9
    found = sobol_indices({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}, y)
    assert found[0].name == "a"
    known = {"a": 9 / 12 / total, "b": 1 / 12 / total, "c": 0}
    for index in found:
        assert index.first_order == pytest.approx(known[index.name], abs=0.06)
        assert 0 < index.half_width < 0.15
    y[5] = math.nan
    assert len(sobol_indices({"a": x[:, 0]}, y)) == 1
    assert sobol_indices({"a": x[:20, 0]}, y[:20]) == []
    assert sobol_indices({"a": x[:, 0]}, np.ones(512)) == []


def cells_with(rows: pl.DataFrame) -> pl.DataFrame:
    """The cells of `rows_of`."""
    return rows.drop("replication", cs.contains(".")).unique(maintain_order=True)


def finding(
    values: list[float], per: list[str], metric: str = "call.mos", matters: Matters | None = None
) -> str:
    """The finding on cells with loss 1 and 2, each with rto 1 and 2, with these means."""
    noise = np.random.default_rng(1).normal(0, 0.01, (4, 10))
    axes = {"loss": [1, 1, 2, 2], "rto": [1, 2, 1, 2]}
    rows = rows_of(np.array(values)[:, np.newaxis] + noise, axes).rename({"call.mos": metric})
    division = divisions(cells_with(rows), per)[None]
    return Environments.of(rows, Analysis(rows, metric, {}, matters=matters), division).finding


def test_which_choice_is_best_everywhere_is_said() -> None:
    nan = math.nan
    assert finding([1, 2, 3, 4], ["loss"]) == (
        "call.mos is best with rto = 2 at each of 2 values of loss."
    )
    assert finding([1, 2, 4, 3], ["loss"]) == (
        "No choice is best in call.mos at each of 2 values of loss: it depends on loss."
    )
    assert finding([2, 2, 3, 4], ["loss"]) == (
        "call.mos is best, or within 0.1 of the best, with rto = 2 at each of 2 values of loss."
    )
    assert finding([2, 2, 3, 3], ["loss"]).endswith("of loss; so it is with 1 other choice.")
    assert finding([2, 2, 3, 4], ["loss"], matters=NOTHING) == (
        "rto = 2 may be best in call.mos at each of 2 values of loss; no other choice may be."
    )
    assert finding([1, 2, 3, 4], ["loss"], "call.loss_percent") == (
        "call.loss_percent is best with rto = 1 at each of 2 values of loss."
    )
    assert finding([1, 2, nan, nan], ["loss"]) == "call.mos is best with rto = 2 at loss = 1."
    assert finding([nan] * 4, ["loss"]) == "No run has a value of call.mos."
    assert finding([1, 2, 3, 4], ["loss"], "call.s2") == (
        "Whether more of call.s2 is better is not known, so none is best."
    )


def test_a_choice_that_has_no_value_everywhere_is_best_nowhere() -> None:
    """As with a condition that leaves cells out."""
    values = np.random.default_rng(1).normal(0, 1, (4, 5)) + np.array([[3], [2], [1], [0]])
    rows = rows_of(values, {"loss": [1, 1, 2, 2], "rto": [1, 2, 1, 3]})

    def said(rows: pl.DataFrame) -> str:
        division = divisions(cells_with(rows), ["loss"])[None]
        return Environments.of(rows, Analysis(rows, "call.mos", {}), division).finding

    assert "rto = 1" in said(rows)
    without = rows.filter(pl.col("cell") != 2)
    assert said(without) == "No choice has a value of call.mos at each of 2 values of loss."


def test_only_sub_studies_that_leave_a_choice_are_divided() -> None:
    def cells(study: str, **axes: list[Any]) -> pl.DataFrame:
        return pl.DataFrame({"study": study, **axes})

    grid = cells("grid", loss=[1, 1, 2, 2], burst=[5, 5, 9, 9], rto=[1, 2, 1, 2])
    parts = [
        grid,
        cells("without", rto=[1, 2, 3]),
        cells("alone", loss=[1, 2, 3]),
        cells("points", loss=[1.1, 1.2, 1.3], rto=[1, 2, 3]),
        cells("some", loss=[None, None, 1], rto=[1, 2, 3]),
        cells("many", loss=list(range(61)) * 2, rto=[1] * 61 + [2] * 61),
    ]

    def of(parts: list[pl.DataFrame], *per: str) -> dict[Any, Any]:
        cells = pl.concat(parts, how="diagonal_relaxed").with_row_index("cell")
        return {
            name: (division.per, division.choice, division.combinations)
            for name, division in divisions(cells, per).items()
        }

    some = (["loss"], ["rto"], 2)
    assert of(parts, "loss") == {"grid": some, "some": some}
    assert of(parts, "burst") == {"grid": (["burst"], ["rto"], 2)}
    both = (["loss", "burst"], ["rto"], 2)
    assert of([grid.drop("study")], "burst", "loss") == {None: both}
    assert of(parts) == {}
    with pytest.raises(AnabranchError, match="there are 61 values of loss: a report has the best"):
        of(parts[-1:], "loss")
    for per in (["loss", "rto"], ["rto", "burst"], ["loss", "burst", "rto"]):
        with pytest.raises(AnabranchError, match=f"one cell for each {' and '.join(per)}: none is"):
            of(parts[:4], *per)
