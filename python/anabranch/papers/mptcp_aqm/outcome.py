"""What a reproduction found: everything that tables, figures, page and JSON show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import polars as pl

from anabranch.papers import outcome
from anabranch.papers.intervals import Interval, interval
from anabranch.papers.sheet import together
from anabranch.papers.verdicts import WORDS, Finding, PublishedNumber, Verdict, by_claim

from .claims import CLAIMS, Material, ratio
from .factors import LIA, Runs
from .published import Number, numbers, round_trip_times
from .traced import Traced

LITERAL = "codel_literal"
"""The base with CoDel as the paper's prose has it in CoDel's place."""


@dataclass(frozen=True)
class MptcpAqmOutcome(outcome.PaperOutcome):
    """Everything that tables, figures, page and JSON show."""

    grids: dict[str, Runs]
    """The grid under each profile."""
    attribution: list[Finding]
    """Every claim with one thing of the base changed; the profile is what was changed."""
    fits: dict[str, Runs]
    """The runs that vary C's rate, by profile, with the factors `rate_mbps` and `point`."""
    others: dict[str, Runs]
    """The studies of the base with other factors: ablations, theta, beyond and mobility."""
    traced: dict[str, Traced]
    """The first run of the base at 100 ms, by queue."""
    handovers: dict[tuple[str, str], Traced]
    """The first run in which the Wi-Fi goes, by transport and queue."""
    speed: "Speed"

    @cached_property
    def studies(self) -> Mapping[str, Runs]:
        """What tables and figures are made of."""
        grid = together(self.grids, "profile")
        parts = pl.col("profile").str.split("-")
        named = grid.frame.with_columns(network=parts.list.first(), receiver=parts.list.last())
        return {
            "base": self.base,
            "grid": Runs(named, grid.profile),
            "fit": self.fits[self.base.profile],
        } | self.others

    @property
    def base(self) -> Runs:
        """The grid under the first profile."""
        return next(iter(self.grids.values()))

    @property
    def judged(self) -> dict[str, dict[str, Finding]]:
        """Claim's number -> profile, or what of the base was changed -> its finding."""
        return by_claim([*self.claims, *self.attribution])


@dataclass(frozen=True)
class Speed:
    """How fast one core computes the base's cells."""

    ms_per_transfer: float
    packets_per_s: float
    """Packets that come to C in both directions, those of UDP included."""


def cells(grids: Mapping[str, Runs]) -> list[PublishedNumber]:
    """The published numbers beside ours under each profile."""
    named = ("queue", "delay_ms", "quantity", "bound")
    listed = []
    for (profile, runs), number in product(grids.items(), numbers()):
        ours = measured(runs, number)
        key = {"profile": profile} | {name: getattr(number, name) for name in named}
        unit = {"ms": "ms", "packets": "packets"}.get(number.quantity.rpartition("_")[2], "")
        beside = number.value, ours.mean, ours.half_width, number.judge(ours), unit
        listed.append(PublishedNumber("text", key, *beside))
    return listed


def measured(runs: Runs, number: Number) -> Interval:
    """Our value of a published number; the mean over the delays where the paper says no delay."""
    own = runs.where(coupling=LIA)
    if number.delay_ms:
        own = own.where(delay_ms=number.delay_ms)
    ours = own.where(queue=number.queue)
    if number.quantity == "goodput_over_codel":
        return ratio(ours, own.where(queue="codel"), "goodput_share")
    return ours.mean(number.quantity)


def judge(grids: Mapping[str, Runs]) -> list[Finding]:
    """Every claim under each profile, claim by claim."""
    return [
        claim.judge(Material(runs), profile) for claim in CLAIMS for profile, runs in grids.items()
    ]


def literal(runs: Runs) -> Runs:
    """A grid in which CoDel does as the paper's prose says."""
    frame = runs.frame
    replaced = frame.filter(pl.col("queue") == LITERAL).with_columns(queue=pl.lit("codel"))
    others = frame.filter(~pl.col("queue").is_in(["codel", LITERAL]))
    return Runs(pl.concat([others, replaced]), runs.profile)


def overall(findings: Sequence[Finding], titles: Mapping[str, str]) -> str:
    """A claim's verdict over all profiles, in words."""
    by_verdict: dict[Verdict, list[str]] = {verdict: [] for verdict in WORDS}
    for finding in findings:
        by_verdict[finding.verdict].append(titles[finding.profile])
    if len(by_verdict["reproduced"]) == len(findings):
        return "reproduced"
    if by_verdict["reproduced"]:
        return "only under " + "; ".join(by_verdict["reproduced"])
    if by_verdict["partly"]:
        return WORDS["partly"]
    if not by_verdict["open"]:
        return WORDS["not_reproduced"]
    return "open at best" if by_verdict["not_reproduced"] else WORDS["open"]


def misfit_percent(runs: Runs, rate_mbps: float) -> Interval:
    """Root mean square of the six round-trip times' deviations from the paper's, by replication."""
    samples: dict[int, list[float]] = {}
    for number in round_trip_times():
        cell = runs.where(rate_mbps=rate_mbps, point=f"{number.queue}-{number.delay_ms}")
        for replication, value in cell.per_replication(number.quantity).items():
            samples.setdefault(replication, []).append((value / number.value - 1) ** 2)
    wanted = len(round_trip_times())
    return interval(
        100 * (sum(squares) / wanted) ** 0.5
        for squares in samples.values()
        if len(squares) == wanted
    )


def best_fit(runs: Runs) -> tuple[float, Interval]:
    """The rate of C in Mbit/s with the smallest misfit, and that."""
    rates = runs.frame["rate_mbps"].unique().sort().to_list()
    misfits = {rate: misfit_percent(runs, rate) for rate in rates}
    best = min(misfits, key=lambda rate: misfits[rate].mean)
    return best, misfits[best]
