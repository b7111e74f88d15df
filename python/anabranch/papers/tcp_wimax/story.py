"""The finding in words: what the texts of `story.toml` show.

The same sentences on the terminal, on the page and in the record.
"""

import math

import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.texts import Texts
from anabranch.papers.verdicts import above, by_claim, counted
from anabranch.stats.verdicts import needed
from anabranch.support.wording import counted as counted_runs

from .factors import (
    CONTROL_NAMES,
    PROFILE_NAMES,
    PROFILES,
    READING_NAMES,
    READINGS,
    SEGMENTS,
    size,
)
from .outcome import Recommendation, TcpWimaxOutcome, aggression, reading_effect
from .traced import SILENT_S

WEAK = "nlos10"
"""The link of the paper's ranking."""
CLEARLY = 20.0
"""The nine differ clearly when the best is this much above the worst, in percent; as in claim 2."""
NS3_CUBIC_MS = 14.0
"""Processor time of ns-3.48 in ms per simulated second of CUBIC at 10 Mbit/s, on a machine with two
cores."""

said = Texts(__package__)


def headline(outcome: TcpWimaxOutcome) -> str:
    """Which control the weak link without line of sight should run."""
    best = outcome.recommendations.get(WEAK)
    if best is None:
        return ranking(outcome)
    count, others = len(best.candidates), len(best.candidates) - 1
    if not best.is_resolved:
        which = "Any of the nine" if count == len(CONTROL_NAMES) else f"Any of {count} of the nine"
        return said("open_headline", which=which, **words(best))
    as_good = f"{others} others are as good" if others else "no other is as good"
    return said("headline", others=as_good, **words(best))


def ranking(outcome: TcpWimaxOutcome) -> str:
    """One sentence on what is left of the paper's ranking."""
    base = outcome.claimed
    ranks = {True: "differ clearly", False: "differ little", None: "may differ"}
    return said(
        "ranking",
        base=base,
        link=outcome.links[WEAK],
        differ=ranks[above(base.gap_percent, CLEARLY)],
        best=CONTROL_NAMES[base.best],
        worst=CONTROL_NAMES[base.worst],
    )


def sentences(outcome: TcpWimaxOutcome) -> list[str]:
    """Verdicts, readings, recommendations and what lies beyond, one sentence each."""
    parts = (
        f"{counted([one for one in outcome.claims if one.profile == reading])} ({title})"
        for reading, title in READING_NAMES.items()
    )
    return [
        *([ranking(outcome)] if WEAK in outcome.recommendations else []),
        said("verdicts", count=len(by_claim(outcome.claims)), parts="; ".join(parts)),
        _silence(outcome),
        _readings(outcome),
        *(
            recommendation(outcome.recommendations[profile])
            for profile in PROFILES
            if profile in outcome.recommendations
        ),
        *_fairness(outcome),
    ]


def words(best: Recommendation) -> dict[str, str | int]:
    """What sentences and tables say of a setting."""
    runs = best.goodput_mbps.n
    return {
        "link": PROFILE_NAMES[best.profile],
        "control": CONTROL_NAMES[best.control],
        "buffer": size(best.buffer),
        "goodput": best.goodput_mbps.text(),
        "cov": f"{best.cov:.2f}",
        "names": ", ".join(CONTROL_NAMES[control] for control in best.candidates),
        "runs": runs,
        "alike": said(
            "alike", runs=counted_runs(runs, "replication"), needed=needed(best.resolved_by)
        ),
    }


def recommendation(best: Recommendation) -> str:
    """One profile's setting, or that it is not resolved."""
    about = words(best)
    if not best.is_resolved:
        return said("not_recommended", **about)
    is_any = len(best.segments) == len(SEGMENTS)
    writes = "any write size" if is_any else f"writes of {' or '.join(map(size, best.segments))}"
    is_alone = len(best.candidates) == 1
    others = "no other control is as good" if is_alone else f"as good: {about['names']}"
    return said("recommended", writes=writes, others=others, **about)


def speed(outcome: TcpWimaxOutcome) -> str:
    """How fast it was computed."""
    return said("speed", ns3=NS3_CUBIC_MS, **vars(outcome.speed))


def _silence(outcome: TcpWimaxOutcome) -> str:
    found = outcome.silences
    ends = [choose(found, key=lambda control: found[control].mean) for choose in (min, max)]
    return said(
        "silence",
        timeouts=outcome.write.claimed(WEAK).mean("timeouts"),
        shares=[found[control] for control in ends],
        names=[CONTROL_NAMES[control] for control in ends],
        gap_ms=1e3 * SILENT_S,
    )


def _readings(outcome: TcpWimaxOutcome) -> str:
    effects = {
        reading: {
            profile: reading_effect(outcome.grid, reading, profile) for profile in ("nlos30", WEAK)
        }
        for reading in READINGS[1:]
    }
    return said("readings", **effects)


def _fairness(outcome: TcpWimaxOutcome) -> list[str]:
    """Which control takes most of a link from another, and which least."""
    ranked = {profile: aggression(outcome.shares, profile) for profile in ("nlos30", WEAK)}
    return [
        said(
            "fairness",
            link=PROFILE_NAMES[profile],
            most=_end(rows, "best", "most"),
            least=_end(rows.reverse(), "least", "least"),
        )
        for profile, rows in ranked.items()
        if not rows.is_empty()
    ]


def _end(ranked: pl.DataFrame, may_be: str, word: str) -> str:
    """Which control takes most, or least, from the end of the ranking on."""
    first = ranked.row(0, named=True)
    taken = Interval(first["mean"], first["half_width"], first["n"])
    there = ranked.filter(may_be)["mean"].to_list()
    if len(there) == 1 and math.isfinite(taken.half_width):
        return said("takes", control=CONTROL_NAMES[first["first"]], word=word, taken=taken)
    return said(
        "any_takes",
        count=len(there),
        word=word,
        low=min(there),
        high=max(there),
        runs=counted_runs(taken.n, "replication"),
    )
