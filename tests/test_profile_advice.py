"""Advice from profiles compared with advice from the truth: a short form of `profile_paths.py`."""

import math
from pathlib import Path

import pytest

import profile_paths
from anabranch.advise import search
from anabranch.advise.goals import GOALS
from profile_paths import Comparison, Judged

SMALL = search.Effort(screened=6, first=2, last=6)


@pytest.mark.parametrize("number", [0, 2])
def test_advice_from_a_profile_is_as_good_as_from_the_truth(number: int, tmp_path: Path) -> None:
    """A call and a failover, from a capture and from pings; twenty pairs are in `make validate`."""
    found = profile_paths.case(number, tmp_path, SMALL)
    assert set(found.judged) == {"captures", "pings"}
    assert all(one.is_good for one in found.judged.values()), found


def test_a_loss_is_judged_by_the_goal() -> None:
    assert profile_paths.limit(GOALS["mos"], 4.0) == 0.1
    assert profile_paths.limit(GOALS["goodput"], 20.0) == pytest.approx(1.0)
    assert profile_paths.limit(GOALS["latency"], -300.0) == pytest.approx(15.0)
    assert profile_paths.limit(GOALS["failover"], -60.0) == 20.0
    assert profile_paths.limit(GOALS["failover"], -1000.0) == pytest.approx(50.0)
    assert Judged("x", 0.1, 0.0, 0.1).is_good
    assert not Judged("x", 0.11, 0.0, 0.1).is_fair
    assert Judged("x", 0.11, 0.0, 0.1, ("not enough known",)).is_fair
    assert not Judged(None, unknown=("not enough known",)).is_good


def test_failing_runs_are_worse_than_any_loss() -> None:
    goal, fails = GOALS["failover"], math.nan
    own = [50.0, 60.0, *[70.0] * 28, fails]
    assert profile_paths._loss(goal, [60.0, 70.0, *[80.0] * 29], own)[0] == pytest.approx(10)
    assert profile_paths._loss(goal, [50.0, *[fails] * 30], own)[0] == math.inf
    assert profile_paths._loss(GOALS["mos"], [3.0] * 5, [3.2] * 5)[0] == pytest.approx(0.2)


def test_the_record_fails_where_advice_is_worse_and_sure() -> None:
    paths = profile_paths.OWN
    good, bad = Judged("a", 0.0, 0.0, 0.1), Judged("b", 0.3, 0.1, 0.1)
    own = [Comparison("mos", paths, "a", {"captures": good, "pings": good})]

    def report(count: int) -> tuple[str, bool]:
        """The result with this many worse cases of twenty."""
        cases = [
            Comparison("mos", paths, "a", {"captures": bad if i < count else good})
            for i in range(profile_paths.CASES)
        ]
        return profile_paths.report(own, cases, [])

    assert report(2)[1]
    text, is_good = report(3)
    assert not is_good
    assert "in 17 the advice is as good" in text
    assert "`b`: **worse**: -0.30 ± 0.10 MOS" in text


def test_intervals_of_a_capture_cover(tmp_path: Path) -> None:
    """One of the forty of `make validate`."""
    found = profile_paths.coverage(0, tmp_path)
    assert found.has_mean
    assert found.has_length
    assert profile_paths.least(40) == 34
