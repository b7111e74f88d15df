"""The paper's claims: rows of `claims.toml`, and functions for what no row can say.

Those count or rank means ("most cases", "the best cell"), have several inequalities in one part, or
ask whether an effect is detected; their evidence says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from scipy import stats

from anabranch.papers import rows
from anabranch.papers.intervals import difference, interval, variance
from anabranch.papers.rows import Judgement
from anabranch.papers.verdicts import (
    DECIDABLE_REPLICATIONS,
    Claim,
    above,
    all_of,
    within,
)
from anabranch.stats import paired

from . import published
from .factors import (
    COLUMNS,
    FACTORS,
    LOSSES,
    PMR,
    RTO_MAX_S,
    SETTING,
    Runs,
    Setting,
    table2_means,
)

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
class Material(rows.Evidence):
    """What the claims are judged on, under one loss clock."""

    runs: Runs
    interruptions: pl.DataFrame
    """Per traced call.

    Columns: pmr, replication, interrupted_s, dormant, backed_off (shares of the interrupted time).
    """

    @property
    def studies(self) -> Mapping[str, Runs]:
        """Table 2's cells, those with equal losses at 25/25 ms, and the traced calls."""
        return {
            "table2": self.runs.both_losses(0.1),
            "losses_10": self.runs.both_losses(0.1).at_25_ms(),
            "losses_2": self.runs.both_losses(0.02).at_25_ms(),
            "losses_0_5": self.runs.both_losses(LOSSES[0]).at_25_ms(),
            "traced": Runs(self.interruptions, self.runs.profile),
        }

    def replications(self, study: str) -> int:
        """The fewest of the study's cells; claim 5 compares 2 % loss with 10 %."""
        cells = {"traced": ["pmr"]}.get(study, FACTORS)
        compared = ["losses_2", "losses_10"] if study == "losses_2" else [study]
        return min(_fewest(self.studies[name].frame, cells) for name in compared)


def lower_rto_max_raises_mos(material: Material) -> Iterator[Judgement]:
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
    best = max(RTO_MAX_S, key=lambda rto: _mean(at[rto]))
    regret = difference(at[best], at[0.1])
    yield (
        all_of([above(rise, INDIFFERENT), *map(above, columns), *map(above, steps)]),
        {
            "rise": rise,
            "columns": sum(column.positive for column in columns),
            "all_columns": len(columns),
            "steps": sum(step.positive for step in steps),
            "all_steps": len(steps),
        },
    )
    yield _largest_change(at, [10.0, 5.0, 2.0], 1.0)
    yield _largest_change(at, [0.08, 0.05, 0.02], 0.1)
    yield best == 0.1 or within(regret, INDIFFERENT), {"best": best, "regret": regret}


def pmr_0_or_1_is_best(material: Material) -> Iterator[Judgement]:
    """Claim 4, mean over all of Table 2's other factors."""
    table = material.runs.both_losses(0.1)
    at = {pmr: table.where(pmr=pmr).per_replication() for pmr in PMR}
    slight = difference(at[1], at[0])
    yield all_of([above(slight), within(slight, SLIGHTLY)]), {"slight": slight}
    for low in (0, 1):
        gains = {high: difference(at[low], at[high]) for high in (2, 5)}
        yield all_of([above(gain) for gain in gains.values()]), {"gains": gains}


def small_gain_at_2_percent(material: Material) -> Iterator[Judgement]:
    """Claim 5, at 25/25 ms: the gain is MOS at 0.1 s minus MOS at 10 s."""
    at_2 = material.runs.both_losses(0.02).at_25_ms()
    gain_2, gain_10 = _gain(at_2), _gain(material.runs.both_losses(0.1).at_25_ms())
    excess = interval(
        [MUCH_SMALLER * gain_10[key] - gain_2[key] for key in gain_2 if key in gain_10]
    )
    gains = {pmr: _gain(at_2.where(pmr=pmr)) for pmr in PMR}
    leads = [above(difference(gains[0], gains[pmr])) for pmr in PMR if pmr != 0]
    spread = at_2.by(["rto_max_s", "pmr", "delay_centric"])
    widths = spread.group_by("rto_max_s").agg(pl.col("half_width").mean()).sort("half_width")
    narrowest, width = widths.row(0)
    near, far = (widths.filter(rto_max_s=rto)["half_width"].item() for rto in (0.1, 10.0))
    said = {"far": far, "near": near, "width": width, "narrowest": narrowest}
    yield above(excess), {"gain": interval(gain_2.values()), "gain_10": interval(gain_10.values())}
    yield all_of(leads), {"means": {pmr: _mean(gain) for pmr, gain in gains.items()}}
    yield NEAR[0] <= narrowest <= NEAR[1] and _narrower(spread, 0.1, 10.0), said


def delay_centric_helps(material: Material) -> Iterator[Judgement]:
    """Claim 6: a case is a configuration with delay-centric on against the same with it off."""
    cases = paired_cases(material.runs)
    helped = cases.filter(pl.col("mean") > 0).height
    decidable = cases.filter(pl.col("n") >= DECIDABLE_REPLICATIONS)
    better = decidable.filter(pl.col("mean") - pl.col("half_width") > 0).height
    worse = decidable.filter(pl.col("mean") + pl.col("half_width") < 0).height
    decided = None if better + worse == 0 else better > worse
    yield decided, {"better": better, "worse": worse}
    yield 2 * helped > cases.height, {"helped": helped, "cases": cases.height}


def paired_cases(runs: Runs) -> pl.DataFrame:
    """Delay-centric on minus off per case.

    Columns: wait0_ms, wait1_ms, loss0, loss1, pmr, rto_max_s, delay_centric, mean, half_width, n.
    """
    case = [factor for factor in FACTORS if factor != "delay_centric"]
    return paired(runs.frame, "delay_centric", "off", "mos", by=case)


def best_cell(material: Material) -> Iterator[Judgement]:
    """Claim 7, among the 88 cells of Table 2."""
    table = material.runs.both_losses(0.1)
    row = table2_means(material.runs).sort("mean", descending=True).row(0, named=True)
    of_paper = published.table2().sort("mos", descending=True).row(0, named=True)
    ours, papers = (Setting._make(of[name] for name in SETTING) for of in (row, of_paper))
    claimed = Setting(0.08, 1, "on")
    there = table.where(**claimed._asdict())
    regret = table.where(**ours._asdict()).minus(there)
    in_paper = (
        f" (the paper's own Table 2 has its highest value, {of_paper['mos']:.2f}, at {papers})"
    )
    yield (
        ours == claimed or within(regret, INDIFFERENT),
        {"claimed": there.mean(), "regret": regret},
    )
    said = {"name": ours, "mean": row["mean"], "in_paper": "" if papers == claimed else in_paper}
    yield ours == claimed, said


def no_effect_at_very_low_losses(material: Material) -> Iterator[Judgement]:
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
    said = {"replications": replications, "detected": detected, "columns": len(COLUMNS)}
    yield max(spans) <= INDIFFERENT, {"span": max(spans)}
    yield detected == 0, said


CLAIMS: list[Claim[Material]] = rows.load(__name__)


def _fewest(rows: pl.DataFrame, by: list[str]) -> int:
    return min(rows.group_by(by).len()["len"].to_list(), default=0)


def _mean(per_replication: dict[int, float]) -> float:
    return float(np.mean(list(per_replication.values()))) if per_replication else float("nan")


def _largest_change(
    at: dict[float, dict[int, float]], settings: list[float], reference: float
) -> Judgement:
    """The largest change of MOS over some settings, against that at a reference.

    It holds where every setting's change is less than LITTLE of the rise from 1 s to 0.1 s.
    """
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
    said = {"at": setting, "change": changes[setting], "little": LITTLE}
    return all_of([above(margin) for margin in margins]), said


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
