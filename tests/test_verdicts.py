"""Verdicts: what is best, what is equal to it for all purposes, and what is open, in words."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from anabranch.errors import AnabranchError
from anabranch.stats import comparison, verdicts
from anabranch.stats.verdicts import MOS, NOTHING, SHARE, Finding, Matters


@pytest.mark.parametrize(
    ("text", "matters", "shown"),
    [
        ("0.1", Matters(0.1), "0.1"),
        ("5%", Matters(0.05, is_share=True), "5 %"),
        (" 2.5 % ", Matters(0.025, is_share=True), "2.5 %"),
        ("0", NOTHING, "0"),
        ("1e-3", Matters(0.001), "0.001"),
    ],
)
def test_what_matters_is_read(text: str, matters: Matters, shown: str) -> None:
    assert verdicts.matters(text) == matters
    assert str(matters) == shown
    assert verdicts.matters(shown) == matters


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "5 per cent", "1e999", "%", "1,5"])
def test_what_matters_is_a_number_or_a_share(text: str) -> None:
    with pytest.raises(AnabranchError, match="it must be a number from 0 on in the scalar's unit"):
        verdicts.matters(text)


def test_what_matters_by_default() -> None:
    assert verdicts.usual("call.mos") == verdicts.usual("call.a_to_b.mos") == MOS
    assert verdicts.usual("load.goodput_kbit_per_s") == SHARE
    assert (MOS.of(4.0), SHARE.of(-4000.0)) == (0.1, 200.0)


@pytest.mark.parametrize(
    ("difference", "half_width", "least", "word"),
    [
        (0.05, 0.04, 0.1, "equal"),
        (-0.05, 0.04, 0.1, "equal"),
        (0.0, 0.0, 0.0, "equal"),
        (0.08, 0.04, 0.1, "resolved"),  # the interval ends above what matters
        (-2.0, 0.5, 0.1, "resolved"),
        (0.05, 0.06, 0.1, "open"),
        (0.0, 0.2, 0.1, "open"),
        (0.5, math.nan, 0.1, "open"),
        (0.0, math.nan, 0.1, "open"),
        (0.01, 0.0, 0.0, "resolved"),
    ],
)
def test_the_verdict_on_a_difference(
    difference: float, half_width: float, least: float, word: str
) -> None:
    assert verdicts.of_difference(difference, half_width, least) == word


def study(
    axes: Mapping[str, Sequence[Any]], mean: Any, noise: float = 0.02, n: int = 12
) -> pl.DataFrame:
    """Rows of all combinations of the axes' values; `mean` gives the mean of a cell's MOS."""
    random = np.random.default_rng(5)
    rows = []
    for cell, values in enumerate(itertools.product(*axes.values())):
        key = dict(zip(axes, values, strict=True))
        for replication, by_chance in enumerate(random.normal(0, noise, n)):
            mos = mean(**key) + by_chance
            rows.append({"cell": cell, "replication": replication, **key, "call.mos": mos})
    return pl.DataFrame(rows)


def found(
    axes: Mapping[str, Sequence[Any]], mean: Any, matters: Matters = MOS, **further: Any
) -> Finding:
    by = ["cell", *axes]
    ranking = comparison.best_set(study(axes, mean, **further), by, "call.mos", matters=matters)
    return verdicts.of_ranking(ranking, list(axes), "call.mos", matters)


RTO = [0.05, 0.08, 0.16, 0.5, 1.0, 2.0]


def test_a_plateau_of_an_axis_is_found_and_said() -> None:
    axes: dict[str, list[Any]] = {"rto_max": RTO, "pmr": [0, 1, 5]}
    edge = found(axes, lambda rto_max, **_: 3.8 if rto_max >= 0.16 else 2.0)
    assert re.fullmatch(
        r"rto_max from 0\.16 up is all that matters for call\.mos: the 12 cells there are within"
        r" 0\.1 of the best, 3\.8\d+ ± 0\.\d+ with rto_max = .*, pmr = \d\.",
        edge.sentence,
    )
    assert edge.doubt is None
    assert edge.region is not None
    assert edge.region.axes == {"rto_max": [0.16, 0.5, 1.0, 2.0]}
    below = found(axes, lambda rto_max, **_: 3.8 if rto_max < 0.16 else 2.0)
    assert below.sentence.startswith("rto_max up to 0.08 is all that matters for call.mos: the 6 ")
    middle = found(axes, lambda rto_max, **_: 3.8 if 0.1 < rto_max < 2 else 2.0)
    assert middle.sentence.startswith("rto_max from 0.16 to 1 is all that matters")
    one = found(axes, lambda rto_max, **_: 3.8 if rto_max == 1 else 2.0)
    assert one.sentence.startswith("rto_max = 1 is all that matters for call.mos: the 3 cells")


def test_a_plateau_may_take_several_axes_and_words() -> None:
    axes: dict[str, list[Any]] = {"rto_max": RTO, "policy": ["off", "on", "auto"]}
    both = found(axes, lambda rto_max, policy: 3.8 if rto_max > 0.1 and policy != "off" else 2.0)
    assert both.sentence.startswith(
        "rto_max from 0.16 up with policy = auto or on is all that matters for call.mos: the 8"
    )
    axes = {"rto_max": RTO, "loss": [1, 2, 3], "pmr": [0, 1, 5]}
    three = found(
        axes, lambda rto_max, loss, pmr: 3.8 if rto_max > 0.1 and loss == 1 and pmr < 5 else 2.0
    )
    assert three.sentence.startswith(
        "rto_max from 0.16 up with loss = 1 and pmr up to 1 is all that matters for call.mos: the 8"
    )


def test_what_is_no_plateau_is_not_called_one() -> None:
    axes: dict[str, list[Any]] = {"rto_max": RTO, "pmr": [0, 1]}
    # Good are two opposite corners, so no range of an axis has good cells only.
    crossed = found(axes, lambda rto_max, pmr: 3.8 if (rto_max > 0.1) == (pmr == 1) else 2.0)
    assert crossed.region is None
    assert re.fullmatch(
        r"call\.mos is best with .*; rto_max = .*, pmr = \d and 4 more are equal, within 0\.1 of"
        r" the best\.",
        crossed.sentence,
    )


def test_where_not_all_cells_were_compared_no_plateau_is_said() -> None:
    axes: dict[str, list[Any]] = {"rto_max": RTO}
    rows = study(axes, lambda rto_max: 3.8 if rto_max >= 0.16 else 2.0)
    ranking = comparison.best_set(rows, ["cell", "rto_max"], "call.mos")
    assert verdicts.of_ranking(ranking, ["rto_max"], "call.mos", MOS).region is not None
    last = pl.col("rank") == len(RTO)
    some = ranking.with_columns(behind=pl.when(last).then(None).otherwise("behind"))
    assert verdicts.of_ranking(some, ["rto_max"], "call.mos", MOS).region is None


def test_cells_that_are_all_equal_need_no_choice() -> None:
    same = found({"pmr": [0, 1, 5]}, lambda pmr: 3.0 + 0.01 * pmr)
    assert re.fullmatch(
        r"call\.mos is equal in all 3 cells, within 0\.1 of the best: .* with pmr = 5\.",
        same.sentence,
    )
    assert (same.doubt, same.worst) == (None, None)
    exact = found({"pmr": [0, 1]}, lambda **_: 3.0, noise=0.0)
    assert str(exact) == "call.mos is 3 ± 0 in each of 2 cells."


def test_a_doubt_comes_after_the_verdict_and_asks_for_few_replications() -> None:
    near = found({"pmr": [0, 1, 5]}, lambda pmr: {0: 3.0, 1: 2.995, 5: 1.0}[pmr], noise=0.3)
    assert re.fullmatch(r"pmr = [01] has the best mean of call\.mos: \S+ ± \S+\.", near.sentence)
    said = re.fullmatch(
        r"pmr = [01] cannot be told from it after 12 replications \(about ([\d,]+) would\)\.",
        near.doubt or "",
    )
    # So many show that the difference does not matter, which may be far fewer than show its sign.
    assert said is not None
    assert int(said[1].replace(",", "")) < 1000
    assert str(near).endswith(f"{near.doubt} {near.worst}")
    one = found({"pmr": [0, 1, 5]}, lambda pmr: 3.0 + pmr, n=1)
    assert "needs two replications or more" in (one.doubt or "")


def test_where_nobody_knows_what_is_good_nothing_is_best() -> None:
    ranking = comparison.best_set(
        study({"pmr": [0, 1]}, lambda pmr: 3.0 + pmr), ["cell", "pmr"], "call.mos"
    )
    said = str(verdicts.of_ranking(ranking, ["pmr"], "call.s2", SHARE, maximise=None))
    assert re.fullmatch(r"call\.s2 is highest with pmr = 1: .*; lowest with pmr = 0: .*\.", said)
    nothing = ranking.with_columns(n=pl.lit(0))
    assert str(verdicts.of_ranking(nothing, ["pmr"], "call.mos", MOS)) == (
        "No run has a value of call.mos."
    )
