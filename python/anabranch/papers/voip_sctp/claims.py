"""The paper's eight claims, each a predicate on intervals (see `papers.verdicts`).

A few parts count or rank means instead ("most cases", "the best cell"), compare a mean with a
published one, or ask whether an effect is detected; their evidence says so. Where words like
"little" or "slightly" need a number, the number is a constant here, chosen before any run.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from anabranch.papers.intervals import Interval, difference, interval, variance
from anabranch.papers.verdicts import (
    DECIDABLE_REPLICATIONS,
    Claim,
    Finding,
    Part,
    above,
    all_of,
    verdict,
    within,
)
from anabranch.stats import paired

from . import published
from .published import COLUMNS, LOSSES, PMR, RTO_MAX_S
from .samples import FACTORS, Runs, table2_means

LITTLE = 0.25
"""A change is little when it is at most this share of the rise between 1 s and 0.1 s."""
SLIGHTLY = 0.2
"""Up to this a difference in MOS is a slight one."""
NEAR = (0.05, 0.2)
"""RTO.Max values within a factor of two of 0.1 s are near it."""
INDIFFERENT = 0.1
"""A setting within this MOS of the best is at the optimum for every practical purpose."""
MUCH_SMALLER = 0.5
"""A gain is much smaller than another when it is at most this share of it."""


@dataclass(frozen=True)
class Material:
    """What the claims are judged on, under one loss clock."""

    runs: Runs
    interruptions: pl.DataFrame
    """Per traced call.

    Columns: pmr, replication, interrupted_s, dormant, backed_off (shares of the interrupted time).
    """

    @property
    def clock(self) -> str:
        """The loss clock of the runs."""
        return self.runs.clock

    def replications(self, loss: float, *, at_25_ms: bool = True) -> int:
        """Of the cell that has fewest, with this mean loss on both paths."""
        cells = self.runs.both_losses(loss)
        return _fewest((cells.at_25_ms() if at_25_ms else cells).frame, FACTORS)

    @property
    def traced(self) -> int:
        """Traced calls of the PMR that has fewest."""
        return _fewest(self.interruptions, ["pmr"])


def judge_all(material: Material) -> list[Finding]:
    """Every claim under the material's loss clock."""
    return [claim.judge(material, material.clock) for claim in CLAIMS]


def interruptions_from_rto_and_dormancy(material: Material) -> list[Part]:
    """Claim 1, from traces at 25/25 ms, 10 % loss, RTO.Max 10 s.

    Who owns more than half of the interrupted time.
    """
    parts = []
    for pmr, cause, words in (
        (5, "backed_off", "a backed-off RTO"),
        (0, "dormant", "the dormant state"),
        (1, "dormant", "the dormant state"),
    ):
        calls = material.interruptions.filter(pl.col("pmr") == pmr)
        share = interval(100 * calls[cause].drop_nulls())
        length = interval(calls["interrupted_s"])
        parts.append(
            Part(
                f"PMR {pmr}: {share.text(0)} % of {length.text(1)} s of interruptions per call in"
                f" {words}",
                above(share, 50),
            )
        )
    return parts


def lower_rto_max_raises_mos(material: Material) -> list[Part]:
    """Claim 2, on Table 2's configurations; steps on the mean over its eight columns."""
    table = material.runs.both_losses(0.1)
    at = {rto: table.where(rto_max_s=rto).per_replication() for rto in RTO_MAX_S}
    rise = difference(at[0.1], at[1.0])
    columns = [
        table.where(rto_max_s=0.1, pmr=pmr, delay_centric=state).minus(
            table.where(rto_max_s=1.0, pmr=pmr, delay_centric=state)
        )
        for state, pmr in COLUMNS
    ]
    steps = [difference(at[lower], at[higher]) for higher, lower in pairwise((1.0, 0.5, 0.2, 0.1))]
    high = _largest_change(at, [10.0, 5.0, 2.0], 1.0)
    low = _largest_change(at, [0.08, 0.05, 0.02], 0.1)
    best = max(RTO_MAX_S, key=lambda rto: _mean(at[rto]))
    regret = difference(at[best], at[0.1])
    return [
        Part(
            f"0.1 s is {rise.text(signed=True)} MOS above 1 s, in"
            f" {sum(column.positive for column in columns)} of {len(columns)} columns and in"
            f" {sum(step.positive for step in steps)} of {len(steps)} steps",
            all_of([above(rise, INDIFFERENT), *map(above, columns), *map(above, steps)]),
        ),
        Part(
            f"the largest change above 1 s is {high.text(signed=True)}",
            high.is_little,
        ),
        Part(
            f"below 0.1 s {low.text(signed=True)} (little: under {LITTLE:.0%} of the rise)",
            low.is_little,
        ),
        Part(
            f"the best of all is {best:g} s, {regret.text(signed=True)} above 0.1 s",
            best == 0.1 or within(regret, INDIFFERENT),
        ),
    ]


def mos_at_both_ends(material: Material) -> list[Part]:
    """Claim 3, at 25/25 ms and 10 % loss, mean over the eight columns.

    "about" is the tolerance of a cell.
    """
    cells = material.runs.both_losses(0.1).at_25_ms()
    parts = []
    for row in published.figures().filter(figure=5).iter_rows(named=True):
        mean = cells.where(rto_max_s=row["rto_max_s"]).mean()
        reproduced = verdict(row["value"], mean.mean, mean.half_width, published.MOS_TOLERANCE)
        parts.append(
            Part.number(
                f"MOS {mean.text()} at {row['rto_max_s']:g} s (paper: about {row['value']:g})",
                reproduced,
            )
        )
    return parts


def pmr_0_or_1_is_best(material: Material) -> list[Part]:
    """Claim 4, mean over all of Table 2's other factors."""
    table = material.runs.both_losses(0.1)
    at = {pmr: table.where(pmr=pmr).per_replication() for pmr in PMR}
    slight = difference(at[1], at[0])
    parts = [
        Part(
            f"PMR 1 is {slight.text(signed=True)} MOS above PMR 0",
            all_of([above(slight), within(slight, SLIGHTLY)]),
        )
    ]
    for low in (0, 1):
        gains = {high: difference(at[low], at[high]) for high in (2, 5)}
        numbers = " and ".join(
            f"{gain.text(signed=True)} on PMR {high}" for high, gain in gains.items()
        )
        parts.append(
            Part(f"PMR {low} gains {numbers}", all_of([above(gain) for gain in gains.values()]))
        )
    return parts


def small_gain_at_2_percent(material: Material) -> list[Part]:
    """Claim 5, at 25/25 ms: the gain is MOS at 0.1 s minus MOS at 10 s."""
    at_2 = material.runs.both_losses(0.02).at_25_ms()
    gain_2, gain_10 = _gain(at_2), _gain(material.runs.both_losses(0.1).at_25_ms())
    excess = interval(
        [MUCH_SMALLER * gain_10[key] - gain_2[key] for key in gain_2 if key in gain_10]
    )
    gains = {pmr: _gain(at_2.where(pmr=pmr)) for pmr in PMR}
    means = ", ".join(f"{_mean(gains[pmr]):.2f} (PMR {pmr})" for pmr in PMR)
    leads = [above(difference(gains[0], gains[pmr])) for pmr in PMR if pmr != 0]
    spread = at_2.by(["rto_max_s", "pmr", "delay_centric"])
    widths = spread.group_by("rto_max_s").agg(pl.col("half_width").mean()).sort("half_width")
    narrowest, width = widths.row(0)
    width_near, width_far = (
        widths.filter(rto_max_s=rto)["half_width"].item() for rto in (0.1, 10.0)
    )
    return [
        Part(
            f"the gain from 10 s to 0.1 s is {interval(gain_2.values()).text()} MOS at 2 % loss and"
            f" {interval(gain_10.values()).text()} at 10 %",
            above(excess),
        ),
        Part(f"per PMR it is {means}", all_of(leads)),
        Part(
            f"half-widths average {width_far:.3f} at 10 s, {width_near:.3f} at 0.1 s and are"
            f" narrowest, {width:.3f}, at {narrowest:g} s",
            NEAR[0] <= narrowest <= NEAR[1] and _narrower(spread, 0.1, 10.0),
        ),
    ]


def delay_centric_helps(material: Material) -> list[Part]:
    """Claim 6: a case is a configuration with delay-centric on against the same with it off."""
    cases = paired_cases(material.runs)
    table = material.runs.both_losses(0.1)
    mean = table.where(delay_centric="on").minus(table.where(delay_centric="off"))
    helped = cases.filter(pl.col("mean") > 0).height
    decidable = cases.filter(pl.col("n") >= DECIDABLE_REPLICATIONS)
    better = decidable.filter(pl.col("mean") - pl.col("half_width") > 0).height
    worse = decidable.filter(pl.col("mean") + pl.col("half_width") < 0).height
    return [
        Part(
            f"of the cases whose sign the interval decides, it helps in {better} and harms in"
            f" {worse}",
            None if better + worse == 0 else better > worse,
        ),
        Part(
            f"the mean difference is positive in {helped} of {cases.height} cases",
            2 * helped > cases.height,
        ),
        Part(
            f"over Table 2's cases it brings {mean.text(signed=True)} MOS on average", above(mean)
        ),
    ]


def paired_cases(runs: Runs) -> pl.DataFrame:
    """Delay-centric on minus off per case.

    Columns: wait0_ms, wait1_ms, loss0, loss1, pmr, rto_max_s, delay_centric, mean, half_width, n.
    """
    case = [factor for factor in FACTORS if factor != "delay_centric"]
    return paired(runs.frame, "delay_centric", "off", "mos", by=case)


def best_cell(material: Material) -> list[Part]:
    """Claim 7, among the 88 cells of Table 2."""
    table = material.runs.both_losses(0.1)
    row = table2_means(material.runs).sort("mean", descending=True).row(0, named=True)
    key = {name: row[name] for name in ("rto_max_s", "pmr", "delay_centric")}
    claimed = {"rto_max_s": 0.08, "pmr": 1, "delay_centric": "on"}
    regret = table.where(**key).minus(table.where(**claimed))
    of_paper = published.table2().sort("mos", descending=True).row(0, named=True)
    in_paper = (
        ""
        if {name: of_paper[name] for name in claimed} == claimed
        else (
            f" (the paper's own Table 2 has its highest value, {of_paper['mos']:.2f}, at"
            f" {_name(of_paper)})"
        )
    )
    claimed_mean = table.where(**claimed).mean()
    return [
        Part(
            f"the claimed cell has {claimed_mean.text()}, {regret.text(signed=True)} below the"
            " best",
            key == claimed or within(regret, INDIFFERENT),
        ),
        Part(
            f"the highest of our 88 cells is {_name(key)} with {row['mean']:.2f}{in_paper}",
            key == claimed,
        ),
    ]


def no_effect_at_very_low_losses(material: Material) -> list[Part]:
    """Claim 8, at 0.5 % on both paths and 25/25 ms.

    Detectable as it could have been to the paper, whose runs were not paired: by a Kruskal-Wallis
    test of the RTO.Max values within a column, at 5 % over all eight columns (Bonferroni). Ranks,
    because MOS without losses is far from normal.
    """
    cells = material.runs.both_losses(LOSSES[0]).at_25_ms()
    spans, detected, replications = [], 0, 0
    for state, pmr in COLUMNS:
        column = cells.where(delay_centric=state, pmr=pmr)
        samples = [column.where(rto_max_s=rto).frame["mos"].to_list() for rto in RTO_MAX_S]
        means = [float(np.mean(sample)) for sample in samples]
        spans.append(max(means) - min(means))
        detected += _differ(samples, 0.05 / len(COLUMNS))
        replications = len(samples[0])
    return [
        Part(
            f"over RTO.Max the means span at most {max(spans):.2f} MOS in a column",
            max(spans) <= INDIFFERENT,
        ),
        Part(
            f"with {replications} replications an effect is detectable in {detected} of"
            f" {len(COLUMNS)} columns",
            detected == 0,
        ),
    ]


def _of_table2(material: Material) -> int:
    """Of Table 2's cells, on which a claim is judged that names no others."""
    return material.replications(0.1, at_25_ms=False)


CLAIMS = [
    Claim(
        "1",
        "Interruptions come from RTO growth with PMR 5 and from the dormant state with PMR 0"
        " and 1.",
        interruptions_from_rto_and_dormancy,
        lambda material: material.traced,
    ),
    Claim(
        "2",
        "Lower RTO.Max raises MOS between 1 s and 0.1 s, with little change above 1 s or below 0.1"
        " s; the optimum is near 0.1 s.",
        lower_rto_max_raises_mos,
        _of_table2,
    ),
    Claim(
        "3",
        "At 25/25 ms and 10 % loss the MOS is about 1.5 at RTO.Max 10 s and about 3.3 at 0.1 s.",
        mos_at_both_ends,
        lambda material: material.replications(0.1),
    ),
    Claim(
        "4",
        "PMR 1 is slightly above PMR 0; PMR 0 or 1 is recommended.",
        pmr_0_or_1_is_best,
        _of_table2,
    ),
    Claim(
        "5",
        "At 2 % loss the gain is much smaller, the largest for PMR 0, and the intervals are"
        " narrowest near 0.1 s.",
        small_gain_at_2_percent,
        lambda material: min(material.replications(loss) for loss in (0.02, 0.1)),
    ),
    Claim("6", "Delay-centric helps in most cases.", delay_centric_helps, _of_table2),
    Claim("7", "The best cell is RTO.Max 0.08 s, PMR 1, delay-centric on.", best_cell, _of_table2),
    Claim(
        "8",
        "With very low losses no effect of RTO.Max is detectable.",
        no_effect_at_very_low_losses,
        lambda material: material.replications(LOSSES[0]),
    ),
]


def _fewest(rows: pl.DataFrame, by: list[str]) -> int:
    return min(rows.group_by(by).len()["len"].to_list(), default=0)


def _mean(per_replication: dict[int, float]) -> float:
    return float(np.mean(list(per_replication.values()))) if per_replication else float("nan")


@dataclass(frozen=True)
class _Change:
    """The largest change of MOS over some settings, against that at a reference."""

    setting: float
    change: Interval
    is_little: bool | None
    """Whether every setting's change is less than LITTLE of the rise from 1 s to 0.1 s."""

    def text(self, *, signed: bool) -> str:
        return f"{self.change.text(signed=signed)} MOS (at {self.setting:g} s)"


def _largest_change(
    at: dict[float, dict[int, float]], settings: list[float], reference: float
) -> _Change:
    changes = {setting: difference(at[setting], at[reference]) for setting in settings}
    setting = max(changes, key=lambda key: abs(changes[key].mean))
    # A ratio of two means has no t interval; that a share of one exceeds the other has.
    rise = {key: at[0.1][key] - at[1.0][key] for key in at[0.1] if key in at[1.0]}
    margins = [
        interval(
            [
                LITTLE * rise[key] + sign * (at[other][key] - at[reference][key])
                for key in at[other]
                if key in at[reference] and key in rise
            ]
        )
        for other in settings
        for sign in (1, -1)
    ]
    return _Change(setting, changes[setting], all_of([above(margin) for margin in margins]))


def _gain(cells: Runs) -> dict[int, float]:
    near, far = (cells.where(rto_max_s=rto).per_replication() for rto in (0.1, 10.0))
    return {key: near[key] - far[key] for key in near if key in far}


def _narrower(spread: pl.DataFrame, first: float, second: float) -> bool | None:
    """Whether the variance at one RTO.Max is below that at another.

    By the F test at 5 % on the pooled variances.
    """
    pooled = {}
    for rto in (first, second):
        rows = spread.filter(rto_max_s=rto)
        freedom = int(rows["n"].cast(pl.Int64).sum()) - rows.height
        squares = sum(
            (n - 1) * variance(half_width, n)
            for half_width, n in rows.select("half_width", "n").iter_rows()
        )
        pooled[rto] = (squares / max(freedom, 1), freedom)
    (low, low_freedom), (high, high_freedom) = pooled[first], pooled[second]
    if low == high or not low_freedom or not high_freedom:
        return None
    if low / high < stats.f.ppf(0.025, low_freedom, high_freedom):
        return True
    return False if low / high > stats.f.ppf(0.975, low_freedom, high_freedom) else None


def _differ(samples: list[list[float]], level: float) -> bool:
    """Whether a Kruskal-Wallis test tells the samples apart."""
    if len({value for sample in samples for value in sample}) < 2:
        return False  # nothing to rank
    return bool(stats.kruskal(*samples).pvalue < level)


def _name(key: dict[str, Any]) -> str:
    return f"RTO.Max {key['rto_max_s']:g} s, PMR {key['pmr']}, delay-centric {key['delay_centric']}"
