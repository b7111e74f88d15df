"""The finding in words, made from the numbers.

The same sentences on the terminal, on the page and in the record.
"""

import math

import polars as pl

from anabranch.papers.intervals import Interval
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


def headline(outcome: TcpWimaxOutcome) -> str:
    """Which control the weak link without line of sight should run."""
    best = outcome.recommendations.get(WEAK)
    if best is None:
        return ranking(outcome)
    link = f"Which TCP should run over a weak fixed WiMAX link ({PROFILE_NAMES[WEAK]})?"
    if not best.is_resolved:
        count = len(best.candidates)
        which = "Any of the nine" if count == len(CONTROL_NAMES) else f"Any of {count} of the nine"
        return f"{link} {which}, which {_alike(best)}."
    others = len(best.candidates) - 1
    return (
        f"{link} {CONTROL_NAMES[best.control]} with buffers of {size(best.buffer)}:"
        f" {best.goodput_mbps.text()} Mbit/s"
        + (f", {others} others are as good." if others else ", no other is as good.")
    )


def ranking(outcome: TcpWimaxOutcome) -> str:
    """One sentence on what is left of the paper's ranking."""
    base = outcome.claimed
    link = outcome.links["nlos10"]
    ranks = {
        True: "the nine controls differ clearly",
        False: "the nine controls differ little",
        None: "the nine controls may differ",
    }[above(base.gap_percent, CLEARLY)]
    return (
        f"On the weak link without line of sight ({link.loss_percent.text(0)} % loss, in fades)"
        f" {ranks}: the best, {CONTROL_NAMES[base.best]}, is {base.gap_percent.text(0)} % above the"
        f" worst, {CONTROL_NAMES[base.worst]}; Westwood+ is {base.westwood_percent.text(0)} % above"
        " the worst, where the paper has up to 300 %."
    )


def sentences(outcome: TcpWimaxOutcome) -> list[str]:
    """Verdicts, readings, recommendations and what lies beyond, one sentence each."""
    return [
        *([ranking(outcome)] if WEAK in outcome.recommendations else []),
        _verdicts(outcome),
        _silence(outcome),
        _readings(outcome),
        *(
            recommendation(outcome.recommendations[profile])
            for profile in PROFILES
            if profile in outcome.recommendations
        ),
        *_fairness(outcome),
    ]


def _alike(best: Recommendation) -> str:
    """That the candidates are not told apart, and how many replications would do."""
    runs = counted_runs(best.goodput_mbps.n, "replication")
    return (
        f"cannot be told apart after {runs} ({needed(best.resolved_by)} tell the first two apart)"
    )


def recommendation(best: Recommendation) -> str:
    """One profile's setting, or that it is not resolved."""
    names = ", ".join(CONTROL_NAMES[control] for control in best.candidates)
    others = len(best.candidates) - 1
    link, runs = PROFILE_NAMES[best.profile], best.goodput_mbps.n
    if not best.is_resolved:
        return f"For {link}: any of {names}; as to goodput they {_alike(best)}."
    segments = (
        "any write size"
        if len(best.segments) == len(SEGMENTS)
        else "writes of " + " or ".join(size(segment) for segment in best.segments)
    )
    return (
        f"For {link}: {CONTROL_NAMES[best.control]}, buffers of {size(best.buffer)}, {segments}:"
        f" {best.goodput_mbps.text()} Mbit/s, coefficient of variation {best.cov:.2f} ({runs}"
        f" replications); {f'as good: {names}' if others else 'no other control is as good'}."
    )


def speed(outcome: TcpWimaxOutcome) -> str | None:
    """How fast it was computed, where that was measured."""
    if outcome.speed is None:
        return None
    measured = outcome.speed
    return (
        f"One core computes {measured.simulated_s_per_s:,.0f} simulated seconds or"
        f" {measured.packets_per_s:,.0f} packets over the air per second; CUBIC over a wire of 10"
        f" Mbit/s takes {measured.cubic_ms_per_s:.1f} ms of processor per simulated second"
        f" (ns-3.48: {NS3_CUBIC_MS:g} ms)."
    )


def _verdicts(outcome: TcpWimaxOutcome) -> str:
    parts = [
        f"{counted([one for one in outcome.claims if one.profile == reading])}"
        f" ({READING_NAMES[reading]})"
        for reading in READINGS
    ]
    return f"Of {len(by_claim(outcome.claims))} claims: {'; '.join(parts)}."


def _silence(outcome: TcpWimaxOutcome) -> str:
    least, most = (
        choose(outcome.silences, key=lambda control: outcome.silences[control].mean)
        for choose in (min, max)
    )
    timeouts = outcome.write.claimed("nlos10").mean("timeouts")
    return (
        "What the nine have in common on the weak link without line of sight: fades outlast the"
        f" retransmission timer. A transfer of 30 s has {timeouts.text(0)} timeouts, and nothing"
        f" arrives for {outcome.silences[least].text(0)} % ({CONTROL_NAMES[least]}) to"
        f" {outcome.silences[most].text(0)} % ({CONTROL_NAMES[most]}) of its time, in gaps of more"
        f" than {1e3 * SILENT_S:g} ms."
    )


def _readings(outcome: TcpWimaxOutcome) -> str:
    effects = {
        reading: {
            profile: reading_effect(outcome.grid, reading, profile)
            for profile in ("nlos30", "nlos10")
        }
        for reading in READINGS[1:]
    }
    nodelay, mss = (
        f"{effect['nlos30'].text(0, signed=True)} % at 30 dB and"
        f" {effect['nlos10'].text(0, signed=True)} % at 10 dB"
        for effect in effects.values()
    )
    return (
        "With Nagle's algorithm the write size changes nothing; handed over one by one without"
        f" it, writes of 64 B with 512 KB of buffer change goodput by {nodelay}, and as segment"
        f" sizes by {mss} (no line of sight, mean of the nine)."
    )


def _fairness(outcome: TcpWimaxOutcome) -> list[str]:
    """Which control takes most of a link from another, and which least."""
    parts = []
    for profile in ("nlos30", "nlos10"):
        ranked = aggression(outcome.shares, profile)
        if not ranked.is_empty():
            link = PROFILE_NAMES[profile]
            ends = _end(ranked, "best", "most"), _end(ranked.reverse(), "least", "least")
            parts.append(f"Two controls on one link ({link}): {'; '.join(ends)}.")
    return parts


def _end(ranked: pl.DataFrame, may_be: str, word: str) -> str:
    """Which control takes most, or least, from the end of the ranking on."""
    first = ranked.row(0, named=True)
    taken = Interval(first["mean"], first["half_width"], first["n"])
    there = ranked.filter(may_be)["mean"].to_list()
    if len(there) > 1 or not math.isfinite(taken.half_width):
        return (
            f"any of {len(there)} takes {word}, {min(there):.0f} to {max(there):.0f} % on average"
            " against the others: they cannot be told apart after"
            f" {counted_runs(taken.n, 'replication')}"
        )
    return (
        f"{CONTROL_NAMES[first['first']]} takes {word}, {taken.text(0)} % on average against the"
        " others"
    )
