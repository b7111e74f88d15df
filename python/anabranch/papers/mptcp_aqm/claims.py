"""The paper's claims: rows of `claims.toml`, and functions for what no row can say.

What is compared is compared within each replication.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anabranch.papers import rows
from anabranch.papers.intervals import Interval, difference, interval
from anabranch.papers.rows import Judgement
from anabranch.papers.verdicts import Claim, above, between

from .factors import DELAYS, LIA, PAPERS_QUEUES, Runs

ABOUT = 0.5
"""A difference in per cent is about what the paper gives within this share of it."""


@dataclass(frozen=True)
class Material(rows.Evidence):
    """What the claims are judged on: the grid under one profile."""

    runs: Runs

    def cell(self, queue: str, delay_ms: int | None = None, coupling: str = LIA) -> Runs:
        """One queue, at one delay or all."""
        runs = self.runs.where(queue=queue, coupling=coupling)
        return runs if delay_ms is None else runs.where(delay_ms=delay_ms)

    @property
    def studies(self) -> Mapping[str, Runs]:
        """There is one study, the grid."""
        return {"main": self.runs}

    def replications(self, study: str) -> int:  # noqa: ARG002 - there is one study
        """The fewest of any cell of the paper."""
        return min(
            len(self.cell(queue, delay).per_replication())
            for queue in PAPERS_QUEUES
            for delay in DELAYS
        )


def ratio(first: Runs, second: Runs, value: str) -> Interval:
    """The ratio of two means, with its interval."""
    return interval(rows.ratios(first, second, value).values())


def percent_off(first: Runs, second: Runs, value: str) -> Interval:
    """By how much the first is above the second, in per cent."""
    off = ratio(first, second, value)
    return Interval(100 * (off.mean - 1), 100 * off.half_width, off.n)


def couplings_alike(material: Material) -> Iterator[Judgement]:
    """Claim 8: the largest difference of any queue and delay."""
    others = ("rtt_compensator", "RTT_Compensator", 5.0), ("per_path", "Uncoupled", 8.0)
    for coupling, name, paper in others:
        differences = [
            percent_off(
                material.cell(queue, delay, coupling), material.cell(queue, delay), "goodput_share"
            )
            for queue in ("drop_tail", "codel")
            for delay in DELAYS
        ]
        largest = max(differences, key=lambda one: abs(one.mean))
        size = Interval(abs(largest.mean), largest.half_width, largest.n)
        yield _about(size, paper), {"name": name, "largest": largest}


def gain_falls_with_the_delay(material: Material) -> Iterator[Judgement]:
    """Claim 9: the difference of two ratios."""
    gains = [
        rows.ratios(
            material.cell("lifo_codel", delay), material.cell("codel", delay), "goodput_share"
        )
        for delay in DELAYS
    ]
    shown = [interval(gain.values()) for gain in gains]
    yield above(difference(gains[0], gains[-1])), {"gains": shown}


def uncoupled_waits(material: Material) -> Iterator[Judgement]:
    """Claim 13: the largest difference of any delay."""
    for value, name in (("queue_packets", "queue"), ("sojourn_ms", "sojourn")):
        waits = {
            delay: percent_off(
                material.cell("lifo_codel", delay, "per_path"),
                material.cell("lifo_codel", delay),
                value,
            )
            for delay in DELAYS
        }
        delay, largest = max(waits.items(), key=lambda item: item[1].mean)
        yield _about(largest, 50.0), {"name": name, "largest": largest, "delay": delay}


CLAIMS: list[Claim[Material]] = rows.load(__name__)
SHORT = {claim.id: claim.short for claim in CLAIMS}
"""The claims in a few words, for a figure."""


def _about(value: Interval, paper: float) -> bool | None:
    return between(value, (1 - ABOUT) * paper, (1 + ABOUT) * paper)
