"""What the texts of `story.j2` show: the same on the terminal, on the page and in the record."""

import math
from dataclasses import dataclass

import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.texts import Texts
from anabranch.papers.verdicts import above, by_claim, counted
from anabranch.stats.verdicts import needed
from anabranch.support import wording

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

said = Texts(
    __package__,
    controls=CONTROL_NAMES,
    profiles=PROFILE_NAMES,
    sizes=len(SEGMENTS),
    size=size,
    counted=wording.counted,
    needed=needed,
)


@dataclass(frozen=True)
class End:
    """The control that takes most of a link from another, or least."""

    control: str
    taken: Interval
    means: list[float]
    """Those of the controls that may be it."""

    @property
    def is_told(self) -> bool:
        """Whether it is known which one that is."""
        return len(self.means) == 1 and math.isfinite(self.taken.half_width)


def headline(outcome: TcpWimaxOutcome) -> str:
    """Which control the weak link without line of sight should run."""
    best = outcome.recommendations.get(WEAK)
    return said("ranking", **_ranking(outcome)) if best is None else said("headline", best=best)


def _ranking(outcome: TcpWimaxOutcome) -> dict[str, object]:
    """What is left of the paper's ranking."""
    base = outcome.claimed
    is_clear = above(base.gap_percent, CLEARLY)
    return {"base": base, "link": outcome.links[WEAK], "is_clear": is_clear}


def sentences(outcome: TcpWimaxOutcome) -> list[str]:
    """Verdicts, readings, recommendations and what lies beyond, one sentence each."""
    advised, silences = outcome.recommendations, outcome.silences
    least, most = (choose(silences, key=lambda name: silences[name].mean) for choose in (min, max))
    ranked = {profile: aggression(outcome.shares, profile) for profile in ("nlos30", WEAK)}
    return said.several(
        "sentences",
        is_told=WEAK in advised,
        **_ranking(outcome),
        claims=len(by_claim(outcome.claims)),
        readings={
            title: counted([one for one in outcome.claims if one.profile == reading])
            for reading, title in READING_NAMES.items()
        },
        timeouts=outcome.write.claimed(WEAK).mean("timeouts"),
        silences=silences,
        least=least,
        most=most,
        gap_ms=1e3 * SILENT_S,
        effects={
            reading: {link: reading_effect(outcome.grid, reading, link) for link in ranked}
            for reading in READINGS[1:]
        },
        recommended=[advised[profile] for profile in PROFILES if profile in advised],
        shares={
            profile: (_end(rows, "best"), _end(rows.reverse(), "least"))
            for profile, rows in ranked.items()
            if not rows.is_empty()
        },
    )


def recommendation(best: Recommendation) -> str:
    """One profile's setting, or that it is not resolved."""
    return said("recommendation", best=best)


def speed(outcome: TcpWimaxOutcome) -> str:
    """How fast it was computed."""
    return said("speed", ns3=NS3_CUBIC_MS, **vars(outcome.speed))


def _end(ranked: pl.DataFrame, may_be: str) -> End:
    """Which control takes most, or least, from the end of the ranking on."""
    first = ranked.row(0, named=True)
    taken = Interval(first["mean"], first["half_width"], first["n"])
    return End(first["first"], taken, ranked.filter(may_be)["mean"].to_list())
