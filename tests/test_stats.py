"""Means and intervals against known values."""

import math
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from anabranch import stats

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


def test_interval_of_a_known_sample() -> None:
    # t(0.975, 4) = 2.776 (any table); s = sqrt(2.5), n = 5.
    mean, half_width, n = stats.mean_interval([1, 2, 3, 4, 5])
    assert (mean, n) == (3, 5)
    assert half_width == pytest.approx(2.776445 * math.sqrt(2.5 / 5), rel=1e-6)


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


def test_coverage_of_the_interval() -> None:
    draw = random.Random(7)
    hits = 0
    for _ in range(2000):
        mean, half_width, _ = stats.mean_interval([draw.gauss(1, 2) for _ in range(8)])
        hits += abs(mean - 1) <= half_width
    # 95 % of 2000, within four standard deviations of the binomial.
    assert abs(hits - 1900) < 4 * math.sqrt(2000 * 0.95 * 0.05)


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


def test_cells_keep_the_order_of_the_rows_and_skip_missing_values() -> None:
    rows = pl.DataFrame({"axis": ["b", "a", "b", "a"], "x": [1.0, 2.0, 3.0, math.nan]})
    cells = stats.cells(rows, ["axis"], "x")
    assert cells.select("axis", "mean", "n").rows() == [("b", 2.0, 2), ("a", 2.0, 1)]
