"""What a reproduction found: everything that tables, figures, page and JSON show."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import polars as pl

from anabranch.papers import outcome
from anabranch.papers.intervals import Interval, difference, interval
from anabranch.papers.sheet import together
from anabranch.papers.studies import published
from anabranch.papers.verdicts import SHARE_TOLERANCE, Finding, PublishedNumber, Verdict, verdict
from anabranch.stats import verdicts
from anabranch.stats.comparison import best_set

from . import link
from .claims import CLAIMS, Material, gain_percent, mean_of, ranking, westwood_gain
from .factors import CLAIMED_BUFFER, CLAIMED_SEGMENT, CONTROLS, PROFILES, READINGS, Runs
from .link import Link

PUBLISHED = published(__package__, value=pl.Float64)
"""The numbers of the paper's text: table, profile, quantity, value, bound."""
TIED = 0.01
"""Settings whose goodputs differ by surely less than this share are tied."""


@dataclass(frozen=True)
class Recommendation:
    """A setting for one profile, by the rule of `recommend`."""

    profile: str
    control: str
    buffer: int
    segments: list[int]
    """Write sizes that do as well as each other."""
    goodput_mbps: Interval
    cov: float
    candidates: list[str]
    """The controls with a setting that may be the best or is tied with it, itself included."""
    is_resolved: bool
    """Whether all that may be the best are tied with the highest mean."""
    resolved_by: float
    """About how many replications would tell the highest mean from the first that is not tied."""


@dataclass(frozen=True)
class Variant:
    """The controls with one thing changed, where claims 2 to 4 are judged."""

    name: str
    goodput_mbps: dict[str, Interval]
    best: str
    worst: str
    gap_percent: Interval
    """The best above the worst."""
    westwood_percent: Interval
    """Westwood+ above the worst."""
    bic_percent: Interval
    """BIC above the mean of the other eight."""

    @property
    def runs(self) -> int:
        """The fewest runs of any control."""
        return min(goodput.n for goodput in self.goodput_mbps.values())

    @property
    def mean_mbps(self) -> float:
        """The mean of the controls."""
        return sum(goodput.mean for goodput in self.goodput_mbps.values()) / len(CONTROLS)


@dataclass(frozen=True)
class Speed:
    """How fast this machine computed a part of the grid, on one core."""

    simulated_s_per_s: float
    packets_per_s: float
    cubic_ms_per_s: float
    """Processor time in ms per simulated second of CUBIC over a wire of 10 Mbit/s."""


@dataclass(frozen=True)
class TcpWimaxOutcome(outcome.PaperOutcome):
    """Everything that tables, figures, page and JSON show."""

    grid: dict[str, Runs]
    """The grid under each reading."""
    links: dict[str, Link]
    distance: pl.DataFrame
    coherence: pl.DataFrame
    flows: pl.DataFrame
    shares: pl.DataFrame
    """Per run of two controls: profile, first, second, replication, percent that the first got."""
    stations: pl.DataFrame
    claimed: Variant
    """With nothing changed, on all its replications."""
    variants: list[Variant]
    """The first has nothing changed, on as many replications as the others."""
    windows: dict[str, pl.DataFrame]
    silences: dict[str, Interval]
    """By control, the part of a transfer over the weak link without line of sight in which nothing
    arrives, in percent."""
    recommendations: dict[str, Recommendation]
    speed: Speed

    @cached_property
    def studies(self) -> Mapping[str, Runs]:
        """What tables and figures are made of."""
        claimed = {"segment": CLAIMED_SEGMENT, "buffer": CLAIMED_BUFFER}
        others = self.shares.filter(pl.col("first") != pl.col("second"))
        each = self.stations.with_columns(per_station=pl.col("goodput_mbps") / pl.col("stations"))
        frames = {
            "distance": self.distance,
            "coherence": self.coherence,
            "flows": self.flows,
            "shares": self.shares,
            "others": others,
            "stations": each,
        }
        return {
            "claimed": self.write.where(**claimed),
            "grid": together(self.grid, "reading"),
        } | {name: Runs(frame, READINGS[0]) for name, frame in frames.items()}

    @property
    def write(self) -> Runs:
        """The grid under the first reading."""
        return self.grid[READINGS[0]]


def judge(
    grid: dict[str, Runs], links: dict[str, Link], probes: pl.DataFrame, distance: pl.DataFrame
) -> list[Finding]:
    """Every claim under every reading."""
    capacity = link.capacity(probes)
    return [
        claim.judge(Material(grid[reading], links, capacity, distance), reading)
        for reading in READINGS
        for claim in CLAIMS
    ]


def cells(grid: dict[str, Runs], links: dict[str, Link]) -> list[PublishedNumber]:
    """The numbers of the paper's text beside ours, under every reading."""
    numbers = []
    for row, reading in product(PUBLISHED.rows(named=True), READINGS):
        is_loss = row["quantity"] == "packet_loss_percent"
        ours = links[row["profile"]].loss_percent if is_loss else westwood_gain(grid[reading])
        key = {name: row[name] for name in ("profile", "quantity", "bound")}
        verdict = verdict_of(row["bound"], row["value"], ours.mean, ours.half_width)
        beside = row["value"], ours.mean, ours.half_width, verdict, "%"
        numbers.append(PublishedNumber(row["table"], key | {"segment_reading": reading}, *beside))
    return numbers


def verdict_of(bound: str, published: float, measured: float, half_width: float) -> Verdict:
    """The verdict of a number; where the paper says "more than", more is no deviation.

    Where it says "none", ours may be a tenth of a percent.
    """
    counted = min(measured, published) if bound == "above" else measured
    return verdict(published, counted, half_width, SHARE_TOLERANCE * published or 0.1)


def recommendations(runs: Runs) -> dict[str, Recommendation]:
    """The setting for each profile that has one."""
    found = {profile: recommend(runs, profile) for profile in PROFILES}
    return {profile: best for profile, best in found.items() if best is not None}


def recommend(runs: Runs, profile: str) -> Recommendation | None:
    """The setting for a profile: of the best goodputs the calmest, then the smallest buffer.

    Settings may be the best by `comparison.best_set`, which compares them replication by
    replication. Tied with the highest mean are those that are surely less than TIED behind it; of
    them the one with the lowest coefficient of variation is taken. None without intervals, or where
    only a part of the grid was run.
    """
    if not runs.has_grid(profile):
        return None
    here = runs.where(profile=profile).balanced()
    keys = ["control", "segment", "buffer"]
    ranking = best_set(here.frame, keys, Runs.VALUE, maximise=True, matters=verdicts.NOTHING).join(
        here.by(keys, "cov").select(*keys, cov="mean"), on=keys, maintain_order="left"
    )
    first = ranking.row(0, named=True)
    if not math.isfinite(first["half_width"]):
        return None
    is_tied = pl.col("behind") + pl.col("behind_half_width") <= TIED * first["mean"]
    tied = ranking.filter(is_tied)
    rivals = ranking.filter(pl.col("best") & ~is_tied)
    # To seven digits: two settings with the same course differ by nothing else.
    best = tied.with_columns(pl.col("cov").round(7)).sort("cov", "buffer", "control", "segment")
    row = best.row(0, named=True)
    same = tied.filter(
        (pl.col("control") == row["control"])
        & (pl.col("buffer") == row["buffer"])
        & ((pl.col("mean") - row["mean"]).abs() <= 1e-9 * row["mean"])
    )
    candidates = {*tied["control"], *rivals["control"]}
    return Recommendation(
        profile,
        row["control"],
        row["buffer"],
        sorted(same["segment"].to_list()),
        Interval(row["mean"], row["half_width"], row["n"]),
        row["cov"],
        [control for control in CONTROLS if control in candidates],
        is_resolved=rivals.is_empty(),
        resolved_by=math.nan if rivals.is_empty() else rivals["resolved_by"][0],
    )


def variant(name: str, rows: pl.DataFrame) -> Variant:
    """One line of the sensitivity list from its rows."""
    runs = Runs(rows, name)
    values = {control: runs.where(control=control).per_replication() for control in CONTROLS}
    best, *_, worst = ranking(values)
    rest = mean_of([values[control] for control in CONTROLS if control != "bic"])
    return Variant(
        name,
        {control: interval(by_key.values()) for control, by_key in values.items()},
        best,
        worst,
        gain_percent(values[best], values[worst]),
        gain_percent(values["westwood"], values[worst]),
        gain_percent(values["bic"], rest),
    )


def aggression(shares: pl.DataFrame, profile: str) -> pl.DataFrame:
    """Each control's mean share against the eight others, as `comparison.best_set` ranks them.

    From the highest to the lowest, with a column more: `least`, whether it may be the lowest.
    """
    rows = shares.filter((pl.col("profile") == profile) & (pl.col("first") != pl.col("second")))
    if rows.is_empty():
        return pl.DataFrame(schema={"first": pl.String})
    most, least = (best_set(rows, ["first"], "percent", maximise=most) for most in (True, False))
    return most.join(least.select("first", least="best"), on="first", maintain_order="left")


def reading_effect(grid: dict[str, Runs], reading: str, profile: str) -> Interval:
    """What a reading changes at 64 B and 512 KB, all controls, against the first reading, in %."""
    small = {
        name: grid[name].where(profile=profile, segment=64, buffer=512 * 1024).per_replication()
        for name in (READINGS[0], reading)
    }
    base = interval(small[READINGS[0]].values()).mean / 100
    effect = difference(small[reading], small[READINGS[0]])
    return Interval(effect.mean / base, effect.half_width / base, effect.n)
