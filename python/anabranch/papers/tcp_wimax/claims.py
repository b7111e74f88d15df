"""The paper's claims: rows of `claims.toml`, and functions for what no row can say.

Those count or rank means, or join inequalities about all controls; their evidence says so. The best
and the worst control are those of our means, so that a difference between them is a little
flattered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import polars as pl

from anabranch.papers import rows
from anabranch.papers.intervals import Interval, difference, interval
from anabranch.papers.rows import Judgement
from anabranch.papers.verdicts import Claim, above, all_of

from .factors import (
    BUFFERS,
    CLAIMED_BUFFER,
    CLAIMED_SEGMENT,
    CONTROL_NAMES,
    CONTROLS,
    SEGMENTS,
    Runs,
    size,
)
from .link import Link

LARGE_SEGMENTS = [segment for segment in SEGMENTS if segment >= 1024]
SMALL_SEGMENTS = [segment for segment in SEGMENTS if segment < 1024]

PerReplication = Mapping[int, float]


@dataclass(frozen=True)
class Material(rows.Evidence):
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

    @cached_property
    def studies(self) -> Mapping[str, Runs]:
        """What the nine controls have in each replication on the two links that claims compare.

        Columns in both: air_lost_percent, queue_full_packets, timeouts and fast_recoveries, means
        of the nine. On the good link, in per cent: the spread of the nine beside their mean
        (spread), the slowest beside datagrams (slowest), and what large segments bring. On the weak
        one by how many per cent the best is above the worst, Westwood+ and BIC above the mean of
        the other seven, and Westwood+ above the worst.
        """
        counts = ("air_lost_percent", "queue_full_packets", "timeouts", "fast_recoveries")
        made = {}
        for profile, values in (("nlos30", self._on_good_link()), ("nlos10", self._on_weak_link())):
            cells = self.runs.claimed(profile)
            columns = {name: cells.per_replication(name) for name in counts} | values
            keys = sorted(set().union(*columns.values()))
            frame = pl.DataFrame(
                {"replication": keys}
                | {name: [by_key.get(key) for key in keys] for name, by_key in columns.items()}
            )
            made[profile] = replace(self.runs, frame=frame.fill_null(float("nan")))
        return made

    @property
    def words(self) -> Mapping[str, str]:
        """The best and the worst on the weak link, ranks there, and the best segments of all."""
        ranked = ranking(self.controls("nlos10"))
        segments, best = _best_segments(self.runs.where(profile="nlos30"))
        return {
            "best": CONTROL_NAMES[ranked[0]],
            "worst": CONTROL_NAMES[ranked[-1]],
            "westwood_rank": str(ranked.index("westwood") + 1),
            "bic_rank": str(ranked.index("bic") + 1),
            "best_segments": f"{segments} with {best:.2f} Mbit/s",
        }

    def replications(self, study: str) -> int:
        """The fewest replications of any compared cell of this link."""
        return min(map(len, self.controls(study).values()))

    def _on_good_link(self) -> dict[str, dict[int, float]]:
        each = _rows(self.controls("nlos30"))
        datagrams = self.capacity["nlos30"]
        grid = self.runs.where(profile="nlos30")
        large = grid.where(segment=LARGE_SEGMENTS).per_replication()
        small = grid.where(segment=SMALL_SEGMENTS).per_replication()
        return {
            "spread_percent": {
                key: 100 * (max(row) - min(row)) / (sum(row) / len(row))
                for key, row in each.items()
            },
            "slowest_percent": {
                key: 100 * min(row) / datagrams[key]
                for key, row in each.items()
                if key in datagrams
            },
            "large_segments_percent": {
                key: 100 * (large[key] - small[key]) / small[key] for key in large if key in small
            },
        }

    def _on_weak_link(self) -> dict[str, dict[int, float]]:
        values = self.controls("nlos10")
        ranked = ranking(values)
        best, worst = values[ranked[0]], values[ranked[-1]]
        rest = mean_of([values[name] for name in CONTROLS if name not in {"westwood", "bic"}])
        return {
            "best_above_worst_percent": percent_above(best, worst),
            "westwood_above_rest_percent": percent_above(values["westwood"], rest),
            "bic_above_rest_percent": percent_above(values["bic"], rest),
            "westwood_above_worst_percent": percent_above(values["westwood"], worst),
        }


def link_loses_packets(material: Material) -> Iterator[Judgement]:
    """Claim 2: the link's own loss, which is that of probe packets, not of transfers."""
    loss = material.links["nlos10"].loss_percent
    of_tcp = material.runs.claimed("nlos10").mean("air_lost_percent")
    yield above(loss, 10.0), {"loss": loss, "of_tcp": of_tcp}


def westwood_leads_where_claimed(material: Material) -> Iterator[Judgement]:
    """Claim 3: where the largest of many means is."""
    yield above(westwood_gain(material.runs)), {}
    largest, at = largest_westwood_gain(material.runs)
    said = {"largest": largest, "segment": size(at[0]), "buffer": size(at[1])}
    yield at == (CLAIMED_SEGMENT, CLAIMED_BUFFER), said


def bic_is_fast_and_steady(material: Material) -> Iterator[Judgement]:
    """Claim 4."""
    rates, covs = material.controls("nlos10"), material.controls("nlos10", "cov")
    rest = [control for control in CONTROLS if control != "bic"]
    faster = [above(difference(rates["bic"], rates[control])) for control in rest]
    calmer = [above(difference(covs[control], covs["bic"])) for control in rest]
    mean_rate, mean_cov = (mean_of([of[control] for control in rest]) for of in (rates, covs))
    lead, steadier = gain_percent(rates["bic"], mean_rate), difference(mean_cov, covs["bic"])
    for beyond, ranked, gain in (
        (faster, ranking(rates), lead),
        (calmer, ranking(covs)[::-1], steadier),
    ):
        said = {"yes": beyond.count(True), "no": beyond.count(False), "own": _interval(covs["bic"])}
        yield all_of(beyond), {"lead": gain, "rank": ranked.index("bic") + 1, **said}


def modulation_follows_the_signal(material: Material) -> Iterator[Judgement]:
    """Claim 5."""
    for sight in ("nlos", "los"):
        strong, weak = material.links[f"{sight}30"], material.links[f"{sight}10"]
        rates = [mean_of(list(material.controls(f"{sight}{snr}").values())) for snr in (30, 10)]
        more = difference(*rates)
        holds = [strong.bits_per_symbol.low > weak.bits_per_symbol.high, above(more)]
        said = {"sight": sight.upper(), "strong": strong, "weak": weak, "more": more}
        yield all_of(holds), said


def modulation_follows_the_distance(material: Material) -> Iterator[Judgement]:
    """Claim 5."""
    for profile in material.distance["profile"].unique(maintain_order=True):
        runs = Runs(material.distance.filter(profile=profile), profile)
        places = [runs.where(distance_km=km) for km in sorted(set(runs.frame["distance_km"]))]
        steps = [
            near.minus(far, value)
            for near, far in pairwise(places)
            for value in ("bits_per_symbol", "goodput_mbps")
        ]
        wrong = [step for step in steps if step.negative]
        near, far = (place.mean("bits_per_symbol") for place in (places[0], places[-1]))
        ends = [place.frame["distance_km"][0] for place in (places[0], places[-1])]
        counts = {"wrong": len(wrong), "steps": len(steps)}
        said = {"profile": profile, "bits": (near, far), "ends": ends, **counts}
        yield all_of([near.low > far.high, not wrong]), said


CLAIMS: list[Claim[Material]] = rows.load(__name__)


def ranking(values: Mapping[str, PerReplication]) -> list[str]:
    """The controls from the highest mean to the lowest."""
    return sorted(values, key=lambda control: -_interval(values[control]).mean)


def percent_above(first: PerReplication, second: PerReplication) -> dict[int, float]:
    """By replication, how far the first is above the second, in percent of the second's mean."""
    base = _interval(second).mean / 100
    return {key: (first[key] - second[key]) / base for key in first if key in second}


def gain_percent(first: PerReplication, second: PerReplication) -> Interval:
    """The mean of `percent_above`, with its interval."""
    return _interval(percent_above(first, second))


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


def mean_of(values: list[dict[int, float]]) -> dict[int, float]:
    """By replication, the mean of several, where all have one."""
    common = set.intersection(*map(set, values))
    return {key: sum(by_key[key] for by_key in values) / len(values) for key in sorted(common)}


def _interval(values: PerReplication) -> Interval:
    return interval(values.values())
