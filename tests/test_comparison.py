"""The best set of cells, two selections side by side, and the sentences about both."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Group
from rich.table import Table
from scipy import stats as scipy_stats

from anabranch import AnabranchError, Study, cli, stats
from anabranch.stats import comparison, labels, verdicts
from anabranch.stats.metrics import more_is_better
from anabranch.stats.verdicts import NOTHING, Matters
from anabranch.support import terminal, wording
from interval_coverage import in_best_set, world
from interval_coverage import rows as rows_of

MEANS = [3.0, 3.05, 1.0, -2.0]


def study(**changes: Any) -> pl.DataFrame:
    """Two axes of two values, 12 replications; rto = 0.1 is 0.5 better on noise that all share."""
    rng = np.random.default_rng(8)
    noise, own = rng.normal(0, 1, 12), rng.normal(0, 0.05, (4, 12))
    cells = [(0.1, "off", 0.5), (0.1, "on", 0.6), (1.0, "off", 0.0), (1.0, "on", 0.0)]
    return pl.DataFrame(
        [
            {"cell": cell, "replication": r, "seed": 1, "rto": rto, "policy": policy}
            | {"call.mos": 3 + gain + noise[r] + own[cell, r], "call.x": 0.0, "engine_version": "1"}
            for cell, (rto, policy, gain) in enumerate(cells)
            for r in range(12)
        ]
    ).with_columns(**changes)


@pytest.mark.parametrize(
    ("metric", "answer"),
    [
        ("call.mos", True),
        ("a.tcp.goodput_kbit_per_s", True),
        ("call.loss_percent", False),
        ("call.p95_delay_ms", False),
        ("bulk.completion_s", False),
        ("run.simulated_s", None),
        ("call.sctp.a.path0.first_pf_s", None),
        ("tcp.a.loss_probes", None),
        ("run.events", None),
    ],
)
def test_what_a_name_says_about_better(metric: str, *, answer: bool | None) -> None:
    assert more_is_better(metric) is answer


def test_far_worse_cells_are_not_in_the_best_set() -> None:
    ranking = comparison.best_set(world(np.random.default_rng(1), MEANS, 20), ["cell"], "x.mos")
    assert ranking["cell"].to_list()[2:] == [2, 3]
    assert ranking["rank"].to_list() == [1, 2, 3, 4]
    assert ranking["best"].to_list() == [True, True, False, False]
    # Cell 2 is 2 worse; the common noise of deviation 3 is no part of the lead's interval.
    assert ranking["behind"][2] == pytest.approx(2, abs=0.7)
    assert ranking["behind_half_width"][2] < 1 < ranking["half_width"][2]
    assert ranking["resolved_by"].is_nan().to_list() == [True, False, True, True]


def test_less_may_be_better() -> None:
    rows = world(np.random.default_rng(1), MEANS, 20)
    ranking = comparison.best_set(rows, ["cell"], "x.mos", maximise=False)
    assert ranking.filter("best")["cell"].to_list() == [3]
    assert ranking["behind"].to_list()[1] == pytest.approx(3, abs=0.7)
    renamed = rows.rename({"x.mos": "x.loss_percent"})
    assert comparison.best_set(renamed, ["cell"], "x.loss_percent").equals(ranking)


@pytest.mark.parametrize(
    ("means", "n"), [([1.0] * 8, 10), ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 20), ([0.0, 0.3], 10)]
)
def test_the_best_is_in_the_set_as_often_as_promised(means: list[float], n: int) -> None:
    # 500 trials: three standard deviations of the binomial are 3 points of 100.
    assert in_best_set(means, n, np.random.default_rng(2)) >= 0.92


def test_more_replications_leave_one_cell_in_the_set() -> None:
    sizes = [
        len(comparison.best_set(rows, ["cell"], "x.mos").filter("best"))
        for n in (5, 20, 80, 2000)
        for rows in [world(np.random.default_rng(6), [1.0, 0.8, 0.6, 0.4, 0.2], n)]
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2
    assert sizes[-1] == 1


@pytest.mark.parametrize("lacking", [0.0, 0.3])
def test_the_screening_is_that_of_all_pairs(lacking: float) -> None:
    rng = np.random.default_rng(11)
    # Some equal each other, some differ by a constant.
    values = rng.normal(rng.normal(0, 0.5, 40)[:, np.newaxis], 1, (40, 12))
    values[20:25] = values[:5]
    values[30:35] = values[5:10] + 1e-3
    values[rng.random(values.shape) < lacking] = math.nan
    found = comparison.best_set(rows_of(values), ["trial"], "x.mos", level=0.5).sort("trial")[
        "best"
    ]
    tail = 0.5 / 39
    for i, row in enumerate(values):
        beaten = False
        for other in np.delete(values, i, axis=0):
            pairs = (other - row)[~np.isnan(other - row)]
            if len(pairs) > 1 and np.ptp(pairs) > 1e-12:
                beaten |= scipy_stats.ttest_1samp(pairs, 0, alternative="greater").pvalue < tail
            else:
                beaten |= len(pairs) > 1 and pairs.min() > 0
        assert found[i] is not beaten
    assert 5 < found.sum() < 35


def test_missing_replications_and_values_are_left_out_of_pairs() -> None:
    whole = world(np.random.default_rng(1), MEANS, 20)
    lacking = whole.filter(~((pl.col("cell") == 2) & (pl.col("replication") > 9)))
    lacking = lacking.with_columns(
        pl.when(pl.col("replication") == 3).then(math.nan).otherwise("x.mos").alias("x.mos")
    )
    empty = whole.filter(pl.col("cell") == 0).with_columns(
        pl.lit(9).cast(pl.Int64).alias("cell"), pl.lit(math.nan).alias("x.mos")
    )
    rows = pl.concat((empty, lacking))
    ranking = comparison.best_set(rows, ["cell"], "x.mos")
    assert ranking.select("cell", "n", "best").rows()[2:] == [
        (2, 9, False),
        (3, 19, False),
        (9, 0, False),
    ]
    first = lacking.filter(cell=ranking["cell"][0]).join(lacking.filter(cell=2), on="replication")
    pairs = first.filter(pl.col("x.mos").is_not_nan())
    assert len(pairs) == 9
    difference = pairs["x.mos"] - pairs["x.mos_right"]
    assert ranking["behind"][2] == pytest.approx(difference.mean())


def test_cells_of_a_group_are_averaged_within_replications() -> None:
    ranking = comparison.best_set(study(), ["rto"], "call.mos")
    assert ranking.select("rto", "n", "best").rows() == [(0.1, 12, True), (1.0, 12, False)]
    assert ranking["behind"][1] == pytest.approx(0.55, abs=0.05)


def test_one_cell_ties_and_too_few_replications() -> None:
    one = comparison.best_set(study().filter(cell=0), ["cell"], "call.mos")
    assert one["best"].to_list() == [True]
    assert one["verdict"].to_list() == ["best"]
    ties = comparison.best_set(study(), ["rto", "policy"], "call.x", maximise=True)
    assert ties["best"].all()
    assert ties["verdict"].to_list() == ["best", "equal", "equal", "equal"]
    single = comparison.best_set(study().filter(replication=0), ["cell"], "call.mos")
    assert single["best"].all()
    assert single["verdict"].to_list() == ["best", "open", "open", "open"]
    none = comparison.best_set(study().clear(), ["cell"], "call.mos")
    assert none.is_empty()
    nothing = study().with_columns(pl.lit(math.nan).alias("call.mos"))
    assert not comparison.best_set(nothing, ["cell"], "call.mos")["best"].any()


def test_the_doubt_says_how_many_replications_would_do() -> None:
    rows = world(np.random.default_rng(1), [1.0, 0.9], 20).rename({"cell": "rto"})
    ranking = comparison.best_set(rows, ["rto"], "x.mos", matters=NOTHING)
    said = verdicts.of_ranking(ranking, ["rto"], "x.mos", NOTHING).doubt
    assert said is not None
    assert " cannot be told from it after 20 replications (about " in said
    needed = int(ranking["resolved_by"][1])
    behind, half_width = ranking["behind"][1], ranking["behind_half_width"][1]
    deviation = half_width * math.sqrt(20) / scipy_stats.t.ppf(0.95, 19)
    for n, enough in ((needed, True), (needed - 1, False)):
        width = scipy_stats.t.ppf(0.95, n - 1) * deviation / math.sqrt(n)
        assert bool(width < behind) is enough
    assert comparison.enough(1.0, 0.0, 0.975) == 2
    many = comparison.enough(np.array([1.0, 0.5, 0.0]), np.array([2.0, 2.0, 1.0]), 0.975)
    assert many.tolist()[:2] == [comparison.enough(of, 2.0, 0.975) for of in (1.0, 0.5)]
    assert math.isnan(many[2])
    assert math.isnan(comparison.enough(0.0, 1.0, 0.975))


def test_settings_are_compared_within_replications_and_within_other_axes() -> None:
    found = comparison.compare(study(), {"rto": 0.1}, {"rto": 1}, "call.mos")
    assert found.paired
    assert found.difference.n == 12
    expected = scipy_stats.ttest_rel(
        *(
            study()
            .filter(rto=rto)
            .group_by("replication")
            .agg(pl.mean("call.mos"))
            .sort(pl.first())["call.mos"]
            .to_numpy()
            for rto in (0.1, 1.0)
        )
    )
    low, high = expected.confidence_interval()
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.low == pytest.approx(low, abs=0.1 * (high - low))
    assert found.better == "rto = 0.1"
    assert found.doubt is None
    assert found.sentence.startswith(
        "`call.mos` is higher, so better, at rto = 0.1 than at rto = 1: "
    )
    # The other way round it is the same difference.
    back = comparison.compare(study(), {"rto": 1}, {"rto": 0.1}, "call.mos", maximise=False)
    assert back.difference.mean == -found.difference.mean
    assert back.better == "rto = 1"


def test_a_cell_without_a_partner_is_left_out() -> None:
    # rto = 1 lacks policy "on": only "off" is compared, where the gain is 0.5 and not 0.55.
    rows = study().filter(pl.col("cell") != 3)
    found = comparison.compare(rows, {"rto": 0.1}, {"rto": 1.0}, "call.mos")
    assert found.difference.mean == pytest.approx(0.5, abs=0.04)
    same = comparison.compare(study(), 0, 2, "call.mos")
    assert found.difference == same.difference
    assert same.names == ("cell 0", "cell 2")
    both = comparison.compare(study(), [0, 1], [2, 3], "call.mos")
    assert both.difference.mean == pytest.approx(0.55, abs=0.04)
    # An axis named on one side only is averaged on the other.
    crossed = comparison.compare(study(), {"policy": "on"}, {"rto": 1.0}, "call.mos")
    assert crossed.difference.mean == pytest.approx(0.3, abs=0.04)


def test_without_pairs_the_samples_are_independent() -> None:
    shifted = study().with_columns(
        pl.when(pl.col("cell") < 2).then("replication").otherwise(pl.col("replication") + 12)
    )
    found = comparison.compare(shifted, 0, 2, "call.mos")
    assert not found.paired
    first, second = (study().filter(cell=cell)["call.mos"].to_numpy() for cell in (0, 2))
    expected = scipy_stats.ttest_ind(first, second, equal_var=False)
    low, high = expected.confidence_interval()
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.low == pytest.approx(low, abs=0.15 * (high - low))
    # The noise that pairs share hides the gain.
    assert not found.resolved
    assert found.better is None
    assert found.verdict == "open"
    assert "`call.mos` cannot be told apart at cell 0 and cell 2: " in found.sentence
    assert found.doubt is not None
    assert "12 replications do not resolve it; about " in found.doubt


@pytest.mark.parametrize("shift", [0, 12])
def test_values_without_spread(shift: int) -> None:
    rows = study().with_columns(
        pl.col("replication") + shift * (pl.col("cell") > 1),
        (pl.col("rto") * 2).alias("call.mos"),
    )
    found = comparison.compare(rows, 0, 2, "call.mos")
    assert (found.difference.mean, found.difference.half_width) == pytest.approx((-1.8, 0))
    assert (found.low, found.high, found.p) == pytest.approx((-1.8, -1.8, 0))
    none = comparison.compare(rows, 0, 2, "call.x")
    assert (none.difference.half_width, none.p, none.doubt) == (0, 1, None)
    assert not none.resolved
    assert "`call.x` is equal at cell 0 and cell 2, in every run: " in none.sentence


def test_a_difference_that_does_not_matter_is_equal() -> None:
    little = comparison.compare(study(), 0, 1, "call.mos", matters=Matters(0.5))
    assert little.resolved
    assert (little.verdict, little.better, little.doubt) == ("equal", None, None)
    assert little.sentence.startswith("`call.mos` is equal at cell 0 and cell 1, within 0.5: ")
    # The gain is 0.1, which is what matters by default.
    usual = comparison.compare(study(), 0, 1, "call.mos")
    assert usual.verdict == "resolved"
    assert usual.doubt == "the difference may be too small to matter: less than 0.1"
    share = comparison.compare(study(), 0, 1, "call.mos", matters=Matters(0.1, is_share=True))
    assert (share.verdict, share.matters.of(share.means[1].mean) > 0.25) == ("equal", True)


def test_one_replication_shows_no_difference() -> None:
    found = comparison.compare(study().filter(replication=3), 0, 2, "call.mos")
    assert math.isnan(found.difference.half_width)
    assert math.isnan(found.p)
    assert not found.resolved
    assert found.doubt == "a difference needs two replications or more to have an interval"


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ({"rt": 1}, {"rto": 1}, "there is no axis `rt`: the axes are rto, policy"),
        ({"rto": 7}, {"rto": 1}, "`rto` is never 7: it is 0.1, 1"),
        ({"rto": "fast"}, {"rto": 1}, "`rto` is never fast: it is 0.1, 1"),
        ({"rto": "0.10"}, {"rto": 0.1}, "rto = 0.1 and rto = 0.1 are the same cells"),
        (9, 0, "there are no rows of cell 9"),
    ],
)
def test_selections_that_are_none(a: Any, b: Any, message: str) -> None:
    with pytest.raises(AnabranchError) as error:
        comparison.compare(study(), a, b, "call.mos")
    assert str(error.value) == message


def test_a_selection_without_values_is_no_missing_difference() -> None:
    rows = study(**{"call.mos": pl.when(pl.col("cell") == 1).then(math.nan).otherwise("call.mos")})
    with pytest.raises(AnabranchError, match=r"`call.mos` never has a value in all cells of rto ="):
        comparison.compare(rows, {"rto": 0.1}, {"rto": 1.0}, "call.mos")
    two, none = np.argsort([5, 7, 3])[[0, 1]]  # numbers as NumPy gives them
    assert comparison.compare(rows, two, none, "call.mos").names == ("cell 2", "cell 0")


def test_unknown_metrics_and_directions() -> None:
    with pytest.raises(AnabranchError, match=r"no scalar `call\.mo`; did you mean `call\.mos`"):
        comparison.compare(study(), 0, 1, "call.mo")
    with pytest.raises(AnabranchError, match=r"whether more of `call\.x` is better is not known"):
        comparison.best_set(study(), ["cell"], "call.x")


def beaten_by_none(values: np.ndarray, tail: float) -> list[bool]:
    """The screening as it is defined, pair by pair."""
    found = []
    for i in range(len(values)):
        others = np.delete(values, i, axis=0)
        n, lead, deviation = comparison._differences(-values[i : i + 1], -others)
        with np.errstate(divide="ignore", invalid="ignore"):
            beaten = lead > comparison._t_quantile(n, tail) * deviation / np.sqrt(n)
        found.append(not beaten.any())
    return found


@pytest.mark.parametrize("lacking", [0.0, 0.3])
@pytest.mark.parametrize(
    "kind", ["noise", "levels", "ties", "constant", "shifted", "offset", "nearly"]
)
def test_the_screening_is_that_of_each_pair(
    kind: str, lacking: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "_BLOCK", 7)
    random = np.random.default_rng(3)
    left = 0
    for replications in (1, 2, 3, 12):
        size = (40, replications)
        noise, shared = random.normal(0, 1, size), random.normal(0, 5, replications)
        values = {
            "noise": noise + shared,
            "levels": noise + random.normal(0, 2, (40, 1)),
            "ties": random.integers(0, 3, size).astype(float),
            "constant": noise * 0 + random.integers(0, 4, (40, 1)),
            "shifted": shared + 0.1 * random.integers(0, 4, (40, 1)),
            "offset": 1e6 + 1e-6 * noise,
            "nearly": shared + 1e-9 * random.normal(0, 1, (40, 1)),
        }[kind]
        values = np.where(random.random(size) < lacking, math.nan, values)
        known = ~np.isnan(values)
        values = values[np.argsort(-known.any(axis=1).astype(float), kind="stable")]
        rivals = int(known.any(axis=1).sum())
        with np.errstate(all="ignore"):
            means = np.nansum(values, axis=1) / (~np.isnan(values)).sum(axis=1)
            values[:rivals] = values[np.argsort(-means, kind="stable")][:rivals]
            for tail in (0.6, 0.95, 0.9999):
                found = comparison._screened(values, rivals, tail)
                expected = beaten_by_none(values[:rivals], tail)
                assert found[:rivals].tolist() == expected
                assert not found[rivals:].any()
                left += sum(expected)
    assert left > 0


def test_an_infinite_value_shields_nobody() -> None:
    values = np.sort(np.random.default_rng(3).normal(0, 1, (6, 1)), axis=0)[::-1] + np.zeros(4)
    values[:, 0] += [0, 0.1, 0, 0.1, 0, 0.1]
    infinite = np.vstack([[math.inf, 0, 0, 0], values])
    with np.errstate(invalid="ignore"):
        found = comparison._screened(infinite, 7, 0.95)[1:]
    assert found.tolist() == comparison._screened(values, 6, 0.95).tolist()
    assert not found.all()


def test_the_best_of_each_value_of_what_nobody_chooses() -> None:
    by = ["cell", "rto", "policy"]
    rows = study()
    ranking = comparison.best_set(rows, by, "call.mos", per=["policy"])
    alone = [
        comparison.best_set(rows.filter(policy=policy), by, "call.mos") for policy in ("off", "on")
    ]
    assert ranking.equals(pl.concat(alone))
    assert ranking["best"].to_list() == [True, False, True, False]
    everywhere = comparison.best_everywhere(ranking, ["rto"], ["policy"])
    assert everywhere.rows(named=True) == [{"rto": 0.1, "is_sure": True, "firsts": 2}]
    # At rto = 1 the policy makes no difference.
    ranking = comparison.best_set(rows, by, "call.mos", per=["rto"])
    assert ranking["best"].to_list() == [True, False, True, True]
    everywhere = comparison.best_everywhere(ranking, ["policy"], ["rto"])
    assert everywhere.rows() == [("on", True, 2)]
    small = comparison.best_set(rows, by, "call.mos", per=["rto"], matters=Matters(0.5))
    everywhere = comparison.best_everywhere(small, ["policy"], ["rto"])
    assert everywhere["policy"].to_list() == ["on", "off"]
    assert everywhere["is_sure"].all()
    worse = comparison.best_set(rows, by, "call.mos", per=["rto"], maximise=False)
    assert comparison.best_everywhere(worse, ["policy"], ["rto"])["policy"].to_list() == ["off"]
    # Where the better one depends on it, none is best everywhere.
    turned = study(**{"call.mos": pl.col("call.mos") - 2 * (pl.col("cell") == 0).cast(pl.Float64)})
    ranking = comparison.best_set(turned, by, "call.mos", per=["policy"])
    assert ranking["best"].to_list() == [True, False, True, False]
    assert ranking["rto"].to_list() == [1.0, 0.1, 0.1, 1.0]
    assert comparison.best_everywhere(ranking, ["rto"], ["policy"]).is_empty()


def test_what_has_no_value_decides_nothing_about_everywhere() -> None:
    by = ["cell", "rto", "policy"]
    never = study(
        **{"call.mos": pl.when(pl.col("policy") == "on").then(math.nan).otherwise("call.mos")}
    )
    ranking = comparison.best_set(never, by, "call.mos", per=["policy"])
    assert ranking["best"].to_list() == [True, False, False, False]
    assert comparison.best_everywhere(ranking, ["rto"], ["policy"])["rto"].to_list() == [0.1]
    gone = comparison.best_set(study().filter(pl.col("cell") != 0), by, "call.mos", per=["policy"])
    assert comparison.best_everywhere(gone, ["rto"], ["policy"]).is_empty(), "off lacks rto = 0.1"


@pytest.mark.parametrize(
    ("per", "message"),
    [
        (["rt"], "there is no axis `rt`: the axes are rto, policy"),
        (["cell"], "there is no axis `cell`: the axes are rto, policy"),
        (["policy", "rto"], "there is one cell for each policy and rto: none is left to choose"),
    ],
)
def test_what_is_not_chosen_are_axes_and_not_all(per: list[str], message: str) -> None:
    with pytest.raises(AnabranchError) as error:
        comparison.best_set(study(), ["cell", "rto", "policy"], "call.mos", per=per)
    assert str(error.value) == message


def test_an_axis_that_advances_with_another_is_no_choice() -> None:
    rows = study(rto_min=pl.col("rto") / 2, one=pl.lit("x"))
    by = ["cell", "rto", "policy", "rto_min", "one"]
    assert comparison.axes_left(rows, by[1:], ["rto"]) == ["policy"]
    assert comparison.axes_left(rows, by[1:], ["policy"]) == ["rto", "rto_min"]
    assert comparison.axes_left(rows, by[1:], ["rto", "policy", "rto"]) == []
    ranking = comparison.best_set(rows, by, "call.mos", per=["rto"])
    everywhere = comparison.best_everywhere(ranking, ["policy"], ["rto"])
    assert everywhere.rows() == [("on", True, 2)]
    small = comparison.best_set(rows, by, "call.mos", per=["rto"], matters=Matters(0.5))
    everywhere = comparison.best_everywhere(small, ["policy"], ["rto"])
    assert everywhere["policy"].to_list() == ["on", "off"]
    assert everywhere["is_sure"].all()
    for per in (["rto", "policy"], ["rto_min", "policy"], by[1:]):
        with pytest.raises(AnabranchError, match="there is one cell for each"):
            comparison.best_set(rows, by, "call.mos", per=per)
    assert comparison.best_set(rows, by, "call.mos", per=["rto", "rto"]).equals(ranking)


def test_the_table_stars_the_best_set_of_each_sub_study() -> None:
    def heads_of(shown: Group) -> list[str]:
        tables = [table for table in shown.renderables if isinstance(table, Table)]
        return [str(column.header) for table in tables for column in table.columns]

    rows = study()
    table, (said,) = comparison.judged(rows, "call.mos", matters=NOTHING)
    assert table["verdict"].to_list() == ["worse", "best", "worse", "worse"]
    assert said.startswith("call.mos is best with rto = 0.1, policy = on: ")
    assert table.drop("verdict").equals(stats.cells(rows, ["cell", "rto", "policy"], "call.mos"))
    named = rows.with_columns(
        study=pl.when(pl.col("rto") < 1).then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    table, (first, second) = comparison.judged(named, "call.mos", matters=NOTHING)
    assert sorted(table["verdict"][:2]) == ["best", "worse"]
    assert sorted(table["verdict"][2:]) == ["best", "open"]
    assert first.startswith("In a: call.mos is best with policy = on: ")
    assert re.search("^In b: policy = .* cannot be told from it after 12 replications", second)
    plain, findings = comparison.judged(rows, "call.x")
    assert "verdict" not in plain.columns
    assert findings == []
    heads = heads_of(
        terminal.cells(table, ["policy"], "call.mos", 80, labels.written(table, ["policy"], []))
    )
    assert heads == ["policy", "call.mos", "± 95 %", "runs", "best"]
    heads = heads_of(
        terminal.cells(plain, ["policy"], "call.x", 80, labels.written(plain, ["policy"], []))
    )
    assert heads[-1] == "runs"


def test_a_study_and_the_command_line_compare(
    sweep_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert cli.main(["sweep", str(sweep_file), "--out", out]) == 0
    # 6 cells of 6 replications; the sentence is about those with a star.
    printed = capsys.readouterr().out
    found = Study(out).compare({"rto_max": 0.05}, {"rto_max": 1}, "call.mos")
    ranking = Study(out).best_set("call.mos")
    assert ranking.columns[:3] == ["cell", "rto_max", "pmr"]
    each = Study(out).best_set("call.mos", per=["pmr"])
    assert each["rank"].to_list() == [1, 2, 3] * 2
    assert each["pmr"].to_list() == [0] * 3 + [1] * 3
    stars = ranking["verdict"].is_in(["best", "open"])
    assert printed.count("*") == (stars.sum() if "worse" in ranking["verdict"] else 0)
    axes = ["rto_max", "pmr"]
    shown = labels.written(ranking, axes, Study(out).scenario.axes)
    assert str(verdicts.of_ranking(ranking, axes, "call.mos", verdicts.MOS, shown=shown)) in printed
    assert "rto_max = 0.1 s, pmr = 0" in printed
    spelled = Study(out).compare({"rto_max": "50 ms"}, {"rto_max": "1 s"}, "call.mos")
    assert spelled.sentence == found.sentence

    def difference(*arguments: str) -> tuple[int, list[str], str]:
        metric = [] if "--metric" in arguments else ["--metric", "call.mos"]
        code = cli.main(["compare", out, *arguments, *metric])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    pair = ("--a", "rto_max=0.05", "--b", "rto_max=1")
    assert found.difference.n == 6
    assert found.doubt is not None
    assert difference(*pair) == (0, [found.sentence, found.doubt], "")
    events = ("--metric", "call.sent", "--better", "lower")
    _, (said, *_), _ = difference("--a", "pmr=0", "--b", "pmr=1", *events)
    assert said.startswith("`call.sent` is equal at pmr = 0 and pmr = 1, in every run: ")
    for wrong, message in (
        (("--a", "rto_max", "--b", "rto_max=1"), "`--a rto_max` is not AXIS=VALUE"),
        (
            ("--a", "rto_max=2", "--b", "rto_max=1"),
            "`rto_max` is never 2: it is 1 s, 0.1 s, 0.05 s",
        ),
        (
            (*pair, "--level", "95"),
            "level is 95.0; it must lie between 0 and 1, as 0.95 does for 95 %",
        ),
    ):
        assert difference(*wrong) == (2, [], f"anabranch: error: {message}\n")


def test_values_that_print_alike_are_not_taken_for_each_other() -> None:
    values = [0.1234561, 0.1234562, 0.5, 0.98765432109]
    rows = pl.DataFrame(
        {
            "cell": [i for i in range(4) for _ in range(2)],
            "replication": [0, 1] * 4,
            "rto_max": [value for value in values for _ in range(2)],
            "call.mos": [1.0, 1.5, 2.0, 2.1, 3.0, 3.2, 4.0, 4.4],
        }
    )

    def means(a: Any, b: Any) -> tuple[float, ...]:
        return tuple(mean.mean for mean in comparison.compare(rows, a, b, "call.mos").means)

    assert means({"rto_max": 0.1234561}, {"rto_max": 0.1234562}) == (1.25, 2.05)
    assert means({"rto_max": "0.1234561"}, {"rto_max": "0.50"}) == (1.25, 3.1)
    # As tables show it: with as many digits as its neighbour needs.
    for text in ("0.9877", "0.987654"):
        assert means({"rto_max": text}, {"rto_max": 0.1234562}) == (4.2, 2.05)
    assert wording.told_apart(values) == ["0.1234561", "0.1234562", "0.5", "0.987654"]
    said = comparison.compare(
        rows, {"rto_max": 0.1234561}, {"rto_max": 0.1234562}, "call.mos"
    ).sentence
    assert "at rto_max = 0.1234561 and rto_max = 0.1234562" in said
    known = "`rto_max` is never 0.123456: it is 0.1234561, 0.1234562, 0.5, 0.9877"
    for ambiguous in ("0.123456", 0.123456):
        with pytest.raises(AnabranchError, match=re.escape(known)):
            comparison.compare(rows, {"rto_max": ambiguous}, {"rto_max": 0.5}, "call.mos")
    close = rows.with_columns(pl.Series("call.mos", [1.0, 1.5, 1.2, 1.1, 0.2, 0.1, 0.1, 0.2]))
    ranking = comparison.best_set(close, ["cell", "rto_max"], "call.mos")
    found = verdicts.of_ranking(ranking, ["rto_max"], "call.mos", verdicts.MOS)
    assert found.sentence.startswith("rto_max = 0.1234561 has the best mean of call.mos: ")
    assert (found.doubt or "").startswith("rto_max = 0.1234562 and rto_max = ")
    cells, _ = comparison.judged(rows, "call.mos")
    (table,) = terminal.cells(
        cells, ["rto_max"], "call.mos", 80, labels.written(cells, ["rto_max"], [])
    ).renderables
    assert isinstance(table, Table)
    assert list(table.columns[0].cells) == ["0.1234561", "0.1234562", "0.5", "0.9877"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.1, 0.1, 1 / 3], ["0.1", "0.1", "0.333333"]),
        ([0.1, 0.1 + 1e-16], ["0.1", "0.1000000000000001"]),
        ([2.0**60, 2.0**60 + 512], ["1.152921504606847e+18", "1.1529215046068475e+18"]),
        ([math.nan, None, 1.0, math.nan], ["–", "–", "1", "–"]),
        (["a", "b", "a"], ["a", "b", "a"]),
        ([True, False], ["True", "False"]),
        ([], []),
    ],
)
def test_values_are_told_apart(values: list[Any], texts: list[str]) -> None:
    assert wording.told_apart(values) == texts


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    assert wording.filled("1: rto_max = 0.1 s, pmr = 0", 17) == "1: rto_max =\n0.1 s, pmr = 0"
    assert wording.filled("", 17) == ""
    joined = wording.unbroken("3.2 % of 10 Mbit/s in 5 sweeps, 20 ms")
    assert joined.replace("\xa0", "_") == "3.2_% of 10_Mbit/s in 5 sweeps, 20_ms"
