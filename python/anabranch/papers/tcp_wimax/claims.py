"""The paper's five claims, each a predicate on intervals (see `papers.verdicts`).

Each is judged once for every reading of "segment size". Controls are compared where the paper does:
writes of 4 KB, buffers of 512 KB. Where words like "alike" or "clearly" need a number, the number
is a constant here, chosen before any run. A few parts count or rank means; their evidence says so.
The best and the worst control are those of our means, so that a difference between them is a
little flattered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from anabranch.papers.intervals import Interval, difference, interval
from anabranch.papers.verdicts import Claim, Finding, Part, above, all_of, below, verdict

from . import published
from .factors import (
    BUFFERS,
    CLAIMED_BUFFER,
    CLAIMED_SEGMENT,
    CONTROL_NAMES,
    CONTROLS,
    SEGMENTS,
    size,
)
from .link import Link
from .samples import Runs

NO_LOSS = 0.1
"""Percent of packets below which "no packet loss" holds."""
ALIKE = 10.0
"""Controls are alike when best and worst differ by less than this, in percent of their mean."""
CLEARLY = 20.0
"""They differ clearly when the best is this much above the worst, in percent."""
AT_THE_LIMIT = 90.0
"""A transfer that reaches this share of what datagrams reach is at the radio's limit, in
percent."""
BETTER = 1.0
"""A setting is better than another when it brings more than this, in percent."""

LARGE_SEGMENTS = [segment for segment in SEGMENTS if segment >= 1024]
SMALL_SEGMENTS = [segment for segment in SEGMENTS if segment < 1024]

PerReplication = Mapping[int, float]


@dataclass(frozen=True)
class Material:
    """What the claims are judged on, under one reading."""

    runs: Runs
    links: dict[str, Link]
    capacity: dict[str, dict[int, float]]
    """By profile and replication, what datagrams reach over the same channel, in Mbit/s."""
    distance: pl.DataFrame
    """profile, distance_km, replication, goodput_mbps, bits_per_symbol."""

    def controls(self, profile: str, value: str = "goodput_mbps") -> dict[str, dict[int, float]]:
        """Each control's values by replication where the paper compares them."""
        cells = self.runs.claimed(profile)
        return {
            control: cells.where(control=control).per_replication(value) for control in CONTROLS
        }

    def replications(self, profile: str) -> int:
        """Of the compared cell of this link that has fewest."""
        return min(map(len, self.controls(profile).values()))


def judge_all(material: Material) -> list[Finding]:
    """Every claim under the material's reading."""
    return [claim.judge(material, material.runs.reading) for claim in CLAIMS]


def good_link(material: Material) -> list[Part]:
    """Claim 1."""
    cells = material.runs.claimed("nlos30")
    lost = cells.mean("air_lost_percent")
    dropped = cells.mean("queue_full_packets")
    values = material.controls("nlos30")
    spread = _percent_of(
        {key: max(row) - min(row) for key, row in _rows(values).items()},
        {key: sum(row) / len(row) for key, row in _rows(values).items()},
    )
    worst = {key: min(row) for key, row in _rows(values).items()}
    limit = _percent_of(worst, material.capacity["nlos30"])
    grid = material.runs.where(profile="nlos30")
    large = grid.where(segment=LARGE_SEGMENTS).per_replication()
    small = grid.where(segment=SMALL_SEGMENTS).per_replication()
    gain = _percent_of({key: large[key] - small[key] for key in large if key in small}, small)
    best, best_mean = _best_segments(grid)
    return [
        Part(
            f"{lost.text()} % of packets are lost in the air, {dropped.text(1)} in the queue",
            below(lost, NO_LOSS),
        ),
        Part(
            f"best and worst control differ by {spread.text(1)} % of their mean",
            below(spread, ALIKE),
        ),
        Part(
            f"the slowest control reaches {limit.text(1)} % of what datagrams reach",
            above(limit, AT_THE_LIMIT),
        ),
        Part(
            f"segments of 1 KB or more bring {gain.text(1, signed=True)} % over smaller ones in the"
            f" mean of controls and buffers; best: {best} with {best_mean:.2f} Mbit/s",
            above(gain, BETTER),
        ),
    ]


def bad_link(material: Material) -> list[Part]:
    """Claim 2."""
    loss = material.links["nlos10"].loss_percent
    cells = material.runs.claimed("nlos10")
    of_tcp = cells.mean("air_lost_percent")
    values = material.controls("nlos10")
    ranked = ranking(values)
    best, worst = ranked[0], ranked[-1]
    gap = gain_percent(values[best], values[worst])
    parts = [
        Part(
            f"the link loses {loss.text(1)} % of full-size probe packets ({of_tcp.text(1)} % of"
            " TCP's, which pauses in fades)",
            above(loss, 10.0),
        ),
        Part(
            f"the best, {CONTROL_NAMES[best]}, is {gap.text(1, signed=True)} % above the worst,"
            f" {CONTROL_NAMES[worst]} (a transfer has {cells.mean('timeouts').text(1)} timeouts and"
            f" {cells.mean('fast_recoveries').text(1)} fast recoveries)",
            above(gap, CLEARLY),
        ),
    ]
    others = [control for control in CONTROLS if control not in {"westwood", "bic"}]
    rest = _mean_of([values[control] for control in others])
    for control in ("westwood", "bic"):
        lead = gain_percent(values[control], rest)
        parts.append(
            Part(
                f"{CONTROL_NAMES[control]} is {lead.text(1, signed=True)} % above the mean of the"
                f" other seven, number {ranked.index(control) + 1} of nine",
                above(lead),
            )
        )
    return parts


def westwood_above_worst(material: Material) -> list[Part]:
    """Claim 3."""
    claimed = published.value("nlos10", "westwood_above_worst_percent")
    gain = westwood_gain(material.runs)
    came = verdict(claimed, gain.mean, gain.half_width, published.tolerance(claimed))
    worst = ranking(material.controls("nlos10"))[-1]
    largest, at = largest_westwood_gain(material.runs)
    return [
        Part.number(
            f"at 4 KB and 512 KB Westwood+ is {gain.text(1, signed=True)} % above the worst,"
            f" {CONTROL_NAMES[worst]} (paper: up to {claimed:g} %)",
            came,
        ),
        Part("that is above 0", above(gain)),
        Part(
            f"over all sizes its largest lead is {largest:.0f} %, at {size(at[0])} and"
            f" {size(at[1])}",
            at == (CLAIMED_SEGMENT, CLAIMED_BUFFER),
        ),
    ]


def bic_is_fast_and_steady(material: Material) -> list[Part]:
    """Claim 4."""
    rates, covs = material.controls("nlos10"), material.controls("nlos10", "cov")
    others = [control for control in CONTROLS if control != "bic"]
    lead = gain_percent(rates["bic"], _mean_of([rates[control] for control in others]))
    steadier = difference(_mean_of([covs[control] for control in others]), covs["bic"])
    faster = [above(difference(rates["bic"], rates[control])) for control in others]
    calmer = [above(difference(covs[control], covs["bic"])) for control in others]
    rank = ranking(rates).index("bic") + 1
    calm_rank = list(reversed(ranking(covs))).index("bic") + 1
    return [
        Part(
            f"BIC is {lead.text(1, signed=True)} % above the mean of the other eight, number {rank}"
            f" of nine, above {faster.count(True)} and below {faster.count(False)} beyond the"
            " interval",
            all_of(faster),
        ),
        Part(
            "the coefficient of variation of its 1 s goodput is"
            f" {_interval(covs['bic']).text(3)}, {steadier.text(3, signed=True)} below the mean of"
            f" the others, number {calm_rank} of nine, below {calmer.count(True)} and above"
            f" {calmer.count(False)} beyond the interval",
            all_of(calmer),
        ),
    ]


def modulation_follows_the_signal(material: Material) -> list[Part]:
    """Claim 5."""
    parts = []
    for sight in ("nlos", "los"):
        strong, weak = material.links[f"{sight}30"], material.links[f"{sight}10"]
        rates = [_mean_of(list(material.controls(f"{sight}{snr}").values())) for snr in (30, 10)]
        more = difference(*rates)
        parts.append(
            Part(
                f"{sight.upper()}: {strong.bits_per_symbol.text(0)} bits in a symbol at 30 dB,"
                f" {weak.bits_per_symbol.text(0)} at 10 dB, and the nine controls"
                f" {more.text(1, signed=True)} Mbit/s more",
                all_of([strong.bits_per_symbol.low > weak.bits_per_symbol.high, above(more)]),
            )
        )
    for profile in material.distance["profile"].unique(maintain_order=True):
        rows = material.distance.filter(profile=profile)
        steps = [
            difference(_at(rows, near, value), _at(rows, far, value))
            for near, far in pairwise(sorted(rows["distance_km"].unique()))
            for value in ("bits_per_symbol", "goodput_mbps")
        ]
        wrong = [step for step in steps if step.negative]
        near, far = (_interval(_at(rows, km, "bits_per_symbol")) for km in _ends(rows))
        parts.append(
            Part(
                f"{profile}: from {near.text(0)} bits in a symbol at {_ends(rows)[0]:g} km to"
                f" {far.text(0)} at {_ends(rows)[1]:g} km; bits or throughput grow with the"
                f" distance beyond the interval in {len(wrong)} of {len(steps)} steps",
                all_of([near.low > far.high, not wrong]),
            )
        )
    return parts


CLAIMS = [
    Claim(
        "1",
        "NLOS, 30 dB: no packet loss; all nine behave alike and open the window to the radio's"
        " limit; best with segments of 1024 B or more.",
        good_link,
        lambda material: material.replications("nlos30"),
    ),
    Claim(
        "2",
        "NLOS, 10 dB: more than 10 % packet loss; the nine differ clearly; Westwood and BIC stand"
        " out.",
        bad_link,
        lambda material: material.replications("nlos10"),
    ),
    Claim(
        "3",
        "Westwood is up to 300 % above the worst, at 4 KB segments and the 512 KB window.",
        westwood_above_worst,
        lambda material: material.replications("nlos10"),
    ),
    Claim(
        "4",
        "BIC sustains higher rates than the others and is the most stable.",
        bic_is_fast_and_steady,
        lambda material: material.replications("nlos10"),
    ),
    Claim(
        "5",
        "Modulation follows the signal: nearer or with a better SNR there are more bits in a symbol"
        " and more throughput.",
        modulation_follows_the_signal,
        lambda material: material.replications("los10"),
    ),
]


def ranking(values: Mapping[str, PerReplication]) -> list[str]:
    """The controls from the highest mean to the lowest."""
    return sorted(values, key=lambda control: -_interval(values[control]).mean)


def gain_percent(first: PerReplication, second: PerReplication) -> Interval:
    """How far the first is above the second, in percent of the second's mean."""
    gain = difference(first, second)
    base = _interval(second).mean / 100
    return Interval(gain.mean / base, gain.half_width / base, gain.n)


def westwood_gain(runs: Runs) -> Interval:
    """Westwood+ above the worst where the paper compares them, in percent."""
    cells = runs.claimed("nlos10")
    values = {control: cells.where(control=control).per_replication() for control in CONTROLS}
    return gain_percent(values["westwood"], values[ranking(values)[-1]])


def largest_westwood_gain(runs: Runs) -> tuple[float, tuple[int, int]]:
    """The largest lead of Westwood+ over the worst in percent, and its segment and buffer.

    Of means; where several are equal, that of the largest buffer and then the claimed segment.
    """
    means = runs.where(profile="nlos10").balanced().by(["segment", "buffer", "control"])
    gains = {}
    for segment in sorted(SEGMENTS, key=lambda segment: segment != CLAIMED_SEGMENT):
        for buffer in reversed(BUFFERS):
            cell = means.filter(segment=segment, buffer=buffer)
            westwood = cell.filter(control="westwood")["mean"].item()
            worst = min(cell["mean"].to_list())
            gains[segment, buffer] = 100 * (westwood / worst - 1) if worst > 0 else 0.0
    at = max(gains, key=lambda key: round(gains[key], 6))
    return gains[at], at


def _best_segments(grid: Runs) -> tuple[str, float]:
    means = grid.by(["segment"])
    best = max(means["mean"].to_list())
    names = [
        size(row["segment"])
        for row in means.sort("segment").iter_rows(named=True)
        if row["mean"] >= best * (1 - 1e-9)
    ]
    return ("all sizes" if len(names) == len(SEGMENTS) else ", ".join(names)), best


def _rows(values: Mapping[str, PerReplication]) -> dict[int, list[float]]:
    """Replication -> the value of each control, where all have one."""
    common = set.intersection(*(set(by_key) for by_key in values.values()))
    return {key: [by_key[key] for by_key in values.values()] for key in sorted(common)}


def _mean_of(values: list[dict[int, float]]) -> dict[int, float]:
    common = set.intersection(*map(set, values))
    return {key: sum(by_key[key] for by_key in values) / len(values) for key in sorted(common)}


def _percent_of(part: PerReplication, whole: PerReplication) -> Interval:
    return interval([100 * part[key] / whole[key] for key in part if key in whole])


def _interval(values: PerReplication) -> Interval:
    return interval(values.values())


def _at(rows: pl.DataFrame, distance_km: float, value: str) -> dict[int, float]:
    row = rows.filter(distance_km=distance_km)
    return dict(zip(row["replication"].to_list(), row[value].to_list(), strict=True))


def _ends(rows: pl.DataFrame) -> tuple[float, float]:
    distances = rows["distance_km"].to_list()
    return min(distances), max(distances)
