"""What a reproduction found: everything that tables, figures, page and JSON show."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import polars as pl

from anabranch.papers import outcome
from anabranch.papers.intervals import Interval
from anabranch.papers.sheet import together
from anabranch.papers.verdicts import SHARE_TOLERANCE, PublishedNumber, Verdict, verdict

from .factors import EXPERIMENTS, SENDERS, Runs
from .published import phases
from .studies import Arena
from .traced import Traced


@dataclass(frozen=True)
class SctpHandoverOutcome(outcome.PaperOutcome):
    """Everything that tables, figures, page and JSON show."""

    arenas: list[Arena]
    tournament: dict[str, Runs]
    """The runs of every policy, by arena."""
    ablations: dict[tuple[int, str], Runs]
    """Runs with one thing changed, by experiment and sender; the column `variant` says what."""
    traced: dict[int, list[Traced]]
    """The proposed sender's traced runs, by experiment."""
    timelines: dict[tuple[int, str], Traced]
    """The first run of each experiment and sender."""
    failover_s: Interval

    @cached_property
    def studies(self) -> Mapping[str, Runs]:
        """What tables of several arenas are made of."""
        experiments = {str(number): self.experiment(number) for number in EXPERIMENTS}
        calls = {arena.name: self.tournament[arena.name] for arena in self.arenas if arena.is_call}
        return {
            "experiments": together(experiments, "experiment"),
            "calls": together(calls, "arena"),
            "arenas": together(self.tournament, "arena"),
        }

    def experiment(self, number: int) -> Runs:
        """The tournament in one of the paper's experiments."""
        return self.tournament[f"experiment{number}"]


def cells(runs: Mapping[int, Runs]) -> list[PublishedNumber]:
    """The published tables beside ours."""
    numbers = []
    for phase, sender in product(phases(), SENDERS):
        ours = runs[phase.experiment].where(policy=sender).mean(f"mbps_{phase.number}")
        paper = phase.of(sender)
        is_computed = phase.experiment == 2 and sender == "plain"
        key: dict[str, float | int | str] = {
            "experiment": phase.experiment,
            "phase": phase.key,
            "sender": sender,
            "published_as": "computed" if is_computed else "measured",
        }
        table = "2" if phase.experiment == 1 else "4"
        beside = paper, ours.mean, ours.half_width, of_number(paper, ours), "Mbit/s"
        numbers.append(PublishedNumber(table, key, *beside))
    return numbers


def of_number(paper: float, ours: Interval) -> Verdict:
    """The verdict of one throughput."""
    return verdict(paper, ours.mean, ours.half_width, SHARE_TOLERANCE * paper)


def names(frame: pl.DataFrame, axis: str) -> list[str]:
    """The values of an axis, in order of appearance."""
    return frame[axis].unique(maintain_order=True).to_list()


def experiments(tournament: Mapping[str, Runs]) -> dict[int, Runs]:
    """The tournament's runs in the paper's experiments."""
    return {number: tournament[f"experiment{number}"] for number in EXPERIMENTS}
