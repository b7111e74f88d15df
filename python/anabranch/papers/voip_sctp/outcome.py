"""What a reproduction found.

Every published number beside ours, the claims, and the sentences the page leads with.
"""

import math
import statistics
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from anabranch.papers import choice, outcome
from anabranch.papers.choice import Best
from anabranch.papers.intervals import Interval, interval, prediction_half_width
from anabranch.papers.sheet import together
from anabranch.papers.studies import file_text
from anabranch.papers.verdicts import Finding, PublishedNumber
from anabranch.stats import verdicts

from . import published
from .claims import CLAIMS, Material
from .factors import CLOCKS, RTO_MAX_S, SETTING, Runs, Setting, table2_means
from .traced import TracedCall

TABLE_2 = "2"
"""The number of the table in the paper."""

NEAR_BEST = verdicts.MOS.size
"""MOS below the best at which a setting is as good as the best for every practical purpose.

As in the claims.
"""


HELPS, HURTS, OPEN = "helps", "hurts", "not resolved"


def effect_word(effect: Interval) -> str:
    """Whether following advice helps, hurts, or does neither beyond the interval."""
    if effect.positive:
        return HELPS
    return HURTS if effect.negative else OPEN


@dataclass(frozen=True)
class FollowedAdvice:
    """One of the paper's recommendations, and what following it brings.

    On the configurations of Table 2.
    """

    text: str
    effects: dict[str, Interval]
    """What it brings in MOS, by loss clock."""

    @property
    def words(self) -> dict[str, str]:
        """What it does under each clock: `HELPS`, `HURTS` or `OPEN`, as the interval decides."""
        return {clock: effect_word(effect) for clock, effect in self.effects.items()}

    @property
    def word(self) -> str | None:
        """What it does under every clock; None where the clocks disagree."""
        words = set(self.words.values())
        return words.pop() if len(words) == 1 else None


@dataclass(frozen=True)
class Table2:
    """Table 2 under one loss clock."""

    clock: str
    cells: list[PublishedNumber]
    means: pl.DataFrame

    @property
    def mean_absolute_error(self) -> float:
        """Over the 88 cells, in MOS."""
        return mean_absolute_error(self.means)

    @property
    def worst(self) -> list[PublishedNumber]:
        """The three cells furthest from the paper."""
        return sorted(self.cells, key=lambda cell: -abs(cell.deviation))[:3]

    @property
    def replications(self) -> int:
        """The fewest replications of any cell."""
        return int(min(self.means["n"].to_list()))

    def count(self, verdict: str) -> int:
        """How many cells have this verdict."""
        return sum(cell.verdict == verdict for cell in self.cells)

    def find(self, rto_max_s: float, delay_centric: str, pmr: int) -> PublishedNumber:
        """The cell of these settings."""
        key = {"rto_max_s": rto_max_s, "delay_centric": delay_centric, "pmr": pmr}
        return next(cell for cell in self.cells if key.items() <= cell.key.items())


@dataclass(frozen=True)
class Optimum:
    """Which RTO.Max is best under one loss clock, by the mean of Table 2's eight columns."""

    best_s: float
    """The one with the best mean."""
    near_best_s: list[float]
    """Every RTO.Max that is surely less than NEAR_BEST behind it."""
    gain: Interval
    """What the best RTO.Max brings against 10 s."""
    setting: Setting
    """The best mean of the 88 cells."""
    rto_max: Best
    """Which RTO.Max may be the best."""
    cell: Best
    """Which of the 88 cells may be: `Setting`s."""


@dataclass(frozen=True)
class VoipSctpOutcome(outcome.PaperOutcome):
    """Everything that tables, figures, page and JSON show."""

    runs: dict[str, Runs]
    tables: dict[str, Table2]
    optima: dict[str, Optimum]
    advice: list[FollowedAdvice]
    pmr_effects: dict[float, dict[str, Interval]]
    """RTO.Max in seconds -> loss clock -> what PMR 1 brings instead of 0, in MOS."""
    robust: Setting
    """The cell that surely loses least to the best mean under the worse of the two clocks."""
    robust_loss: float
    """At most so much, in MOS (95 %); NaN with a single replication."""
    settings: Runs
    """Named settings, by `setting` and `loss_share`."""
    potentially_failed: Runs
    """By `potentially_failed`, `pmr` and `rto_max_s`."""
    sensitivity: pl.DataFrame
    """group, name, prototype, mean_absolute_error, bias; empty in quick mode."""
    single_runs: dict[int, TracedCall] = field(default_factory=dict)
    """Figure number -> the traced run that figures 3 and 4 draw."""

    @cached_property
    def studies(self) -> Mapping[str, Runs]:
        """What tables and figures are made of."""
        return {
            "table2": together(
                {clock: own.both_losses(0.1) for clock, own in self.runs.items()}, "clock"
            ),
            "settings": self.settings,
            "potentially-failed": self.potentially_failed,
        }

    @property
    def figure_cells(self) -> list[PublishedNumber]:
        """The numbers that the text gives for figures 3 to 6."""
        return [cell for cell in self.cells if cell.table != TABLE_2]


def table2(runs: Runs) -> Table2:
    """Table 2 beside ours under one loss clock."""
    means = published.table2().join(
        table2_means(runs), on=["rto_max_s", "delay_centric", "pmr"], maintain_order="left"
    )
    compared = []
    for row in means.iter_rows(named=True):
        key = {name: row[name] for name in ("rto_max_s", "delay_centric", "pmr")}
        beside = row["mos"], row["mean"], row["half_width"]
        compared.append(published.compare(TABLE_2, key | {"loss_clock": runs.profile}, *beside))
    return Table2(runs.profile, compared, means)


def cells(runs: dict[str, Runs], tables: dict[str, Table2]) -> list[PublishedNumber]:
    """Table 2 and the figures' numbers beside ours, under both clocks."""
    return [
        *(cell for clock in CLOCKS for cell in tables[clock].cells),
        *(cell for clock in CLOCKS for cell in figure_cells(runs[clock])),
    ]


def mean_absolute_error(means: pl.DataFrame) -> float:
    """The mean distance of `mean` from `mos` over the 88 cells."""
    return statistics.fmean(
        abs(ours - theirs) for ours, theirs in means.select("mean", "mos").iter_rows()
    )


def optimum(runs: Runs) -> Optimum:
    """Which RTO.Max is best under the runs' loss clock."""
    ten = runs.both_losses(0.1)
    ranking = choice.ranked(ten, ["rto_max_s"])
    is_near = pl.col("behind") + pl.col("behind_half_width") <= NEAR_BEST
    rto_max = choice.best(ten, ["rto_max_s"])
    best = ranking["rto_max_s"][0]
    cell = choice.best(ten, SETTING)
    cell = replace(cell, candidates=list(map(Setting._make, cell.candidates)))
    return Optimum(
        best,
        ranking.filter(is_near)["rto_max_s"].sort(descending=True).to_list(),
        ten.where(rto_max_s=best).minus(ten.where(rto_max_s=10.0)),
        cell.candidates[0],
        rto_max,
        cell,
    )


def advice(runs: dict[str, Runs]) -> list[FollowedAdvice]:
    """The paper's recommendations, each against its opposite with all else averaged."""
    table = {clock: own.both_losses(0.1) for clock, own in runs.items()}
    return [
        FollowedAdvice(
            row["text"],
            {
                clock: table[clock]
                .where(**row["follow"])
                .minus(table[clock].where(**row["against"]))
                for clock in CLOCKS
            },
        )
        for row in tomllib.loads(file_text(__package__, "advice.toml"))["advice"]
    ]


def pmr_effects(runs: dict[str, Runs]) -> dict[float, dict[str, Interval]]:
    """What PMR 1 brings instead of 0 at each RTO.Max, on the configurations of Table 2."""
    table = {clock: runs[clock].both_losses(0.1) for clock in CLOCKS}
    return {
        rto: {
            clock: own.where(rto_max_s=rto, pmr=1).minus(own.where(rto_max_s=rto, pmr=0))
            for clock, own in table.items()
        }
        for rto in RTO_MAX_S
    }


def robust_setting(runs: dict[str, Runs]) -> tuple[Setting, float]:
    """The cell whose loss against its clock's best mean has the smallest upper bound (95 %).

    Under the clock where that bound is larger; and that bound.
    """
    bounds = [
        choice.ranked(of.both_losses(0.1), SETTING).select(
            *SETTING,
            bound=pl.when(pl.col("rank") == 1)
            .then(0.0)
            .otherwise(pl.col("behind") + pl.col("behind_half_width")),
        )
        for of in runs.values()
    ]
    worst = pl.concat(bounds).group_by(SETTING).agg(pl.col("bound").max())
    row = worst.sort(pl.col("bound").fill_nan(math.inf), *SETTING).row(0, named=True)
    return Setting(*(row[name] for name in SETTING)), float(row["bound"])


def figure_cells(runs: Runs) -> list[PublishedNumber]:
    """What the text says about figures 3 to 6, beside ours.

    One published run is compared with the spread of ours: its half-width is that of the interval
    for one more run.
    """
    numbers = []
    for row in published.figures().iter_rows(named=True):
        where = {"rto_max_s": row["rto_max_s"]}
        if row["pmr"] != "all":
            where["pmr"] = int(row["pmr"])
        if row["delay_centric"] != "both":
            where["delay_centric"] = row["delay_centric"]
        value, unit = ("mean_delay_ms", "ms") if "delay" in row["quantity"] else ("mos", "MOS")
        chosen = runs.both_losses(row["loss"]).at_25_ms().where(**where)
        samples = np.array(list(chosen.per_replication(value).values()))
        single = row["quantity"].endswith("of_one_run")
        half_width = prediction_half_width(samples) if single else interval(samples).half_width
        named = ("figure", "loss", "rto_max_s", "delay_centric", "quantity")
        key = {name: row[name] for name in named} | {"pmr": where.get("pmr", row["pmr"])}
        beside = row["value"], float(samples.mean()), half_width
        key |= {"loss_clock": runs.profile}
        numbers.append(published.compare(f"figure {row['figure']}", key, *beside, unit=unit))
    return numbers


def potentially_failed_effect(runs: Runs) -> list[tuple[str, Interval]]:
    """Is a low PMR still needed with PF? What PMR 1 gains on PMR 5, without and with PF."""
    return [
        (
            f"RTO.Max {rto:g} s, PF {state}: PMR 1 instead of 5",
            here.where(pmr=1).minus(here.where(pmr=5)),
        )
        for rto in sorted(runs.frame["rto_max_s"].unique(), reverse=True)
        for state in ("off", "on")
        for here in [runs.where(rto_max_s=rto, potentially_failed=state)]
    ]


def judge(runs: dict[str, Runs], interruptions: dict[str, pl.DataFrame]) -> list[Finding]:
    """Every claim under both loss clocks."""
    return [
        claim.judge(Material(runs[clock], interruptions[clock]), clock)
        for clock in CLOCKS
        for claim in CLAIMS
    ]
