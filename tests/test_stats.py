"""Means and intervals against known values."""

import math
import time
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from anabranch import AnabranchError, stats
from anabranch.report import sensitivity
from anabranch.report.analysis import Analysis
from anabranch.stats import comparison, resampling
from anabranch.studies import stopping
from anabranch.studies.watch import Watch
from interval_coverage import CASES, Case

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


def test_interval_of_a_known_sample() -> None:
    # t(0.975, 4) = 2.776 (any table); s = sqrt(2.5), n = 5.
    mean, half_width, n = stats.mean_interval([1, 2, 3, 4, 5])
    assert (mean, n) == (3, 5)
    assert half_width == pytest.approx(2.776445 * math.sqrt(2.5 / 5), rel=1e-6)


def test_nothing_measured_is_a_dash() -> None:
    assert stats.mean_interval([math.nan, math.nan]).text() == "–"


def test_too_few_values_have_no_interval() -> None:
    assert math.isnan(stats.mean_interval([])[0])
    mean, half_width, n = stats.mean_interval([2.0, math.nan])
    assert (mean, n) == (2, 1)
    assert math.isnan(half_width)


def test_equal_values_have_an_interval_of_zero() -> None:
    mean, half_width, _ = stats.mean_interval([4.2] * 10)
    assert (mean, half_width) == (4.2, 0)


@given(VALUES)
def test_interval_is_scipys(values: list[float]) -> None:
    mean, half_width, n = stats.mean_interval(values)
    error = scipy_stats.sem(values)
    low, high = scipy_stats.t.interval(0.95, n - 1, loc=0, scale=1)
    assert mean == pytest.approx(sum(values) / n, abs=1e-6)
    assert half_width == pytest.approx((high - low) / 2 * error, rel=1e-6, abs=1e-6)


@given(VALUES, st.randoms())
def test_order_of_the_rows_does_not_matter(values: list[float], shuffler: object) -> None:
    shuffled = list(values)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert stats.mean_interval(values) == stats.mean_interval(shuffled)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.holds],
    ids=lambda case: f"{case.method}, {case.model}, {case.n}",
)
def test_coverage(case: Case) -> None:
    # Of 2000 trials; four standard deviations of the binomial are 2 points of 100. The quantile's
    # interval is conservative, but by less than that here.
    assert 0.93 <= case.share() <= 0.97


def test_paired_differences_take_common_noise_out() -> None:
    noise = [0.0, 10.0, -7.0, 3.0]
    rows = pl.DataFrame(
        [
            {"policy": policy, "delay": delay, "replication": r, "mos": value + gain + r % 2 * 0.2}
            for delay in (5, 25)
            for policy, gain in (("off", 0.0), ("on", 1.0))
            for r, value in enumerate(noise)
        ]
    )
    found = stats.paired(rows, "policy", "off", "mos", by=["delay"])
    assert found.select("delay", "policy", "n").rows() == [(5, "on", 4), (25, "on", 4)]
    assert found["mean"].to_list() == pytest.approx([1.0, 1.0])
    assert found["half_width"].to_list() == pytest.approx([0.0, 0.0], abs=1e-9)
    assert found["p"].to_list() == pytest.approx([0.0, 0.0])


def test_paired_differences_have_the_p_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    off, on = rng.normal(0, 1, 60), rng.normal(0.3, 1, 60)
    rows = pl.DataFrame(
        {
            "policy": ["off"] * 60 + ["on"] * 60,
            "replication": [*range(60)] * 2,
            "mos": np.concatenate((off, on)),
        }
    )
    (found,) = stats.paired(rows, "policy", "off", "mos").iter_rows(named=True)
    expected = scipy_stats.ttest_rel(on, off)
    assert found["p"] == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert found["mean"] - found["half_width"] == pytest.approx(low)
    # BCa and t agree but for sampling of the bootstrap: a tenth of the width.
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_cells_keep_the_order_of_the_rows_and_skip_missing_values() -> None:
    rows = pl.DataFrame({"axis": ["b", "a", "b", "a"], "x": [1.0, 2.0, 3.0, math.nan]})
    cells = stats.cells(rows, ["axis"], "x")
    assert cells.select("axis", "mean", "n").rows() == [("b", 2.0, 2), ("a", 2.0, 1)]


def test_bca_is_scipys_and_does_not_depend_on_the_other_cells() -> None:
    samples = np.random.default_rng(1).exponential(1, (700, 15))
    mean, low, high = stats.bca(samples)
    assert mean == pytest.approx(samples.mean(axis=1))
    alone = scipy_stats.bootstrap(
        (samples[600],), np.mean, n_resamples=stats.RESAMPLES, rng=np.random.default_rng(stats.SEED)
    ).confidence_interval
    assert (low[600], high[600]) == pytest.approx(tuple(alone), rel=1e-12)
    # Long tails are to the right, and so is more of the interval.
    assert np.mean((high - mean) / (mean - low)) > 1.2
    for others in ([], [1], range(2, 99)):
        few = stats.bca(samples[[*others, 600]])
        assert (few[1][-1], few[2][-1]) == (low[600], high[600])


def test_bca_in_parts_that_fit_into_memory_is_bca(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = np.random.default_rng(1).exponential(1, (5, 20))
    whole = stats.bca(samples)
    monkeypatch.setattr(resampling, "_BATCH", 3 * 20 * 100)
    parts = stats.bca(samples)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    monkeypatch.setattr(resampling, "MOST_BOOTSTRAPPED", 19)
    half_widths = [stats.mean_interval(sample.tolist()).half_width for sample in samples]
    mean, low, high = stats.bca(samples)
    np.testing.assert_allclose(np.array([mean - low, high - mean]), [half_widths] * 2)


def test_estimates_of_equal_too_few_and_no_values() -> None:
    nan = math.nan
    rows = pl.DataFrame(
        {
            "cell": [0] * 4 + [1] * 3 + [2] * 2 + [3],
            "x": [2.0, 2.0, 2.0, nan, 5.0, nan, nan, nan, nan, 1.0],
        }
    )
    found = stats.estimates(rows, ["cell"], "x")
    assert found["n"].to_list() == [3, 1, 0, 1]
    assert found.row(0) == (0, 2.0, 2.0, 2.0, 3)
    assert found["value"].to_list()[1:] == pytest.approx([5.0, nan, 1.0], nan_ok=True)
    assert found["low"].is_nan().to_list() == [False, True, True, True]
    for estimator in (stats.quantile, stats.share):
        empty = stats.estimates(rows.filter(pl.col("cell") == 2), ["cell"], "x", estimator)
        assert empty.select("value", "low", "high").row(0) == pytest.approx([nan] * 3, nan_ok=True)
    # Three values bound no median at 95 %.
    median = stats.estimates(rows.head(4), ["cell"], "x", stats.quantile)
    assert median.select("value", "low").row(0) == pytest.approx((2.0, nan), nan_ok=True)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.95])
def test_quantile_intervals_are_scipys(probability: float) -> None:
    samples = np.random.default_rng(2).exponential(1, (20, 90))
    estimator = partial(stats.quantile, probability=probability)
    value, low, high = estimator(samples, 0.9)
    for i, sample in enumerate(samples):
        test = scipy_stats.quantile_test(sample, p=probability)
        expected = test.confidence_interval(0.9)
        assert (low[i], high[i]) == pytest.approx(tuple(expected), nan_ok=True)
        assert np.nan_to_num(low[i]) <= value[i] <= np.nan_to_num(high[i], nan=math.inf)


def test_shares_are_wilsons() -> None:
    # Brown, Cai and DasGupta (2001): centre (x + z^2 / 2) / (n + z^2), for 2 of 10.
    value, low, high = stats.share(np.array([[1.0] * 2 + [0.0] * 8]))
    z = scipy_stats.norm.ppf(0.975)
    assert value == pytest.approx([0.2])
    assert (low + high) / 2 == pytest.approx([(2 + z**2 / 2) / (10 + z**2)])
    with pytest.raises(AnabranchError, match=r"values 0 and 1, but there is a 0\.5"):
        stats.share(np.array([[0.0, 0.5]]))


def test_replications_are_averaged_over_the_cells_that_all_are_there() -> None:
    rows = pl.DataFrame(
        {
            "pmr": [0, 0, 1, 1, 0],
            "rto": [1, 1, 1, 1, 1],
            "replication": [0, 1, 0, 1, 2],
            "x": [1.0, 2.0, 3.0, math.nan, 9.0],
        }
    )
    found = stats.per_replication(rows, ["rto"], "x")
    # Replication 2 lacks a cell; in replication 1 a cell has no value, so the mean has none.
    assert found["replication"].to_list() == [0, 1]
    assert found["x"].to_list() == pytest.approx([2.0, math.nan], nan_ok=True)
    assert stats.per_replication(rows, [], "x")["replication"].to_list() == [0, 1]
    assert len(stats.per_replication(rows, ["rto", "pmr"], "x")) == 5


def test_ten_thousand_cells_take_about_a_second() -> None:
    cells, n = 10_000, 100
    values = np.random.default_rng(1).normal(4, 1, cells * n)
    rows = pl.DataFrame({"cell": np.repeat(np.arange(cells), n), "x": values})
    start = time.process_time()
    found = stats.cells(rows, ["cell"], "x")
    # 0.3 s on an idle core; a loop over the rows in Python would take tens of seconds.
    assert time.process_time() - start < 5
    assert found["mean"].to_numpy() == pytest.approx(values.reshape(cells, n).mean(axis=1))


def test_values_that_differ_by_rounding_have_an_interval_of_no_width() -> None:
    samples = np.array([[3.0, 3.0 + 4.5e-16] * 5, [0.3, 0.1 + 0.2] * 5])
    for ends in stats.bca(samples):
        assert ends == pytest.approx(samples[:, 0], rel=1e-12)
    assert not stats.are_equal(np.array([0.0, 1e-300]))


def test_cells_without_some_axis_are_paired_among_themselves() -> None:
    """Like a list of cells of which not all have every axis."""
    rows = pl.DataFrame(
        {
            "a": [1, 1, 2, 2, 1, 1, 2, 2],
            "b": [None, None, None, None, 5, 5, 5, 5],
            "replication": [0, 1] * 4,
            "x.y": [1.0, 2.0, 4.0, 6.0, 1.0, 2.0, 1.5, 2.5],
        }
    )
    found = stats.paired(rows, "a", 1, "x.y", by=["b"])
    assert found.select("b", "mean").rows() == [(None, 3.5), (5, 0.5)]
    with pytest.raises(AnabranchError, match="`a` is never 3: it is 1, 2"):
        stats.paired(rows, "a", 3, "x.y", by=["b"])


@pytest.mark.parametrize("level", [95, 1, 0, -0.5, math.nan, "0.95", None])
def test_a_level_lies_between_0_and_1(level: Any) -> None:
    rows = pl.DataFrame({"cell": [0, 0, 1, 1], "replication": [0, 1, 0, 1], "a": [0.0, 0, 1, 1]})
    rows = rows.with_columns(pl.Series("call.mos", [1.0, 2.0, 3.0, 5.0]))
    metric = "call.mos"
    samples = np.array([[0.0, 1.0, 1.0]])
    for entered in (
        lambda: stats.mean_interval([1.0, 2.0], level),
        lambda: stats.bca(samples, level),
        lambda: stats.quantile(samples, level),
        lambda: stats.share(samples, level),
        lambda: stats.cells(rows, ["cell"], metric, level),
        lambda: stats.estimates(rows, ["cell"], metric, level=level),
        lambda: stats.estimates(rows.clear(), ["cell"], metric, level=level),
        lambda: stats.paired(rows, "a", 0.0, metric, level=level),
        lambda: comparison.best_set(rows, ["cell", "a"], metric, level=level),
        lambda: comparison.compare(rows, {"a": 0.0}, {"a": 1.0}, metric, level=level),
        lambda: comparison.judged(rows, metric, level),
        lambda: comparison.welch(samples[0], samples[0], level),
        lambda: Analysis(rows, metric, {}, level),
        lambda: sensitivity.sobol_indices({}, samples[0], level),
        lambda: sensitivity.saltelli_indices(["a"], samples, level),
        lambda: stopping.replications_needed([1.0], {"half_width": 1, "level": level}),
        lambda: Watch(metric, 1, level),
    ):
        with pytest.raises(AnabranchError, match=r"^level is .*; it must lie between 0 and 1"):
            entered()
