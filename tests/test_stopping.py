"""Sequential stopping: when it stops, and that nothing but the data decides."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import stats
from anabranch.studies import stopping
from interval_coverage import one_exponential, one_normal, one_share, stopped

UNTIL = {"metric": "call.mos", "half_width": 0.4}


def test_looks_begin_with_least_grow_by_a_quarter_and_end_with_most() -> None:
    assert stopping.looks({"least": 8, "most": 30}) == [8, 10, 13, 17, 22, 28, 30]
    assert stopping.looks({"least": 50, "most": 20}) == [20]
    assert stopping.looks(UNTIL)[0] == 10
    assert stopping.looks(UNTIL)[-1] == 1000
    assert stopping.next_look(0, UNTIL) == 10
    assert stopping.next_look(10, UNTIL) == 13
    assert stopping.next_look(1000, UNTIL) is None


def test_it_stops_at_the_first_look_that_is_narrow_enough() -> None:
    values = np.random.default_rng(5).normal(3, 1, 200)
    needed = stopping.replications_needed(values, UNTIL)
    widths = {n: stats.mean_interval(values[:n].tolist()).half_width for n in stopping.looks(UNTIL)}
    assert needed == next(n for n, width in widths.items() if width <= 0.4)
    assert needed is not None
    assert needed > 10
    # At another level another number.
    assert stopping.replications_needed(values, UNTIL | {"level": 0.999}) > needed  # type: ignore[operator]


@given(
    st.lists(st.floats(-10, 10) | st.just(math.nan), max_size=60),
    st.floats(0.01, 20),
    st.integers(2, 12),
)
def test_more_values_never_change_the_answer(
    values: list[float], half_width: float, least: int
) -> None:
    until = {"half_width": half_width, "least": least, "most": 50}
    final = stopping.replications_needed([*values, *[0.0] * 60], until)
    for n in range(len(values) + 1):
        found = stopping.replications_needed(values[:n], until)
        assert found is None or found == stopping.replications_needed(values, until) == final
        # None only until the look that decides has been reached.
        assert found is not None or n < final  # type: ignore[operator]


@pytest.mark.parametrize("draw", [one_normal, one_exponential, one_share])
def test_the_half_width_asked_for_is_reached_in_every_trial(draw: object) -> None:
    trials = stopped(0.5, np.random.default_rng(4), draw, 1.0)  # type: ignore[arg-type]
    assert max(width for _, width, _ in trials) <= 0.5 * (1 + 1e-12)
    assert all(n < 1000 for n, _, _ in trials)


def test_too_wide_an_interval_ends_with_most() -> None:
    until = {"metric": "call.mos", "half_width": 0.01, "least": 4, "most": 20}
    values = np.random.default_rng(1).normal(3, 1, 20)
    assert stopping.replications_needed(values[:19], until) is None
    assert stopping.replications_needed(values, until) == 20


def test_runs_without_a_value_say_nothing() -> None:
    assert stopping.replications_needed([math.nan] * 12, UNTIL | {"most": 100}) is None
    assert stopping.replications_needed([math.nan] * 1000, UNTIL) == 1000
    values = np.random.default_rng(5).normal(3, 0.3, 10)
    mixed = np.full(20, math.nan)
    mixed[::2] = values
    until = {"half_width": 0.4}
    assert stopping.replications_needed(values, until) == 10
    assert stopping.replications_needed(mixed, until) == 10
    assert stopping.replications_needed(np.append([math.nan] * 9, values), until) == 13


def test_equal_values_are_no_certainty_before_there_are_many() -> None:
    assert stopping.replications_needed([0.0] * 58, UNTIL) is None
    assert stopping.replications_needed([0.0] * 100, UNTIL) == 69
    assert stopping.replications_needed([0.0] * 30, UNTIL | {"most": 30}) == 30
    # It takes this many values; runs without one do not count.
    assert stopping.replications_needed([0.0, 0.0, *[math.nan] * 98], UNTIL) is None


def test_a_large_mean_costs_no_digits() -> None:
    values = np.random.default_rng(5).normal(0, 1, 300)
    expected = stopping.replications_needed(values, UNTIL)
    assert stopping.replications_needed(values + 1e9, UNTIL) == expected
