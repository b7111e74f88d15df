"""The paper's two tables."""

from dataclasses import dataclass
from functools import cache

import polars as pl

from anabranch.papers.studies import published

FAILOVER_S = 63.0
"""How long plain SCTP takes to leave a path that has died, in the paper's text."""


@dataclass(frozen=True)
class Phase:
    """A part of an experiment and the throughputs that the paper gives for it, in Mbit/s."""

    experiment: int
    number: int
    """The number of the phase, from 1 on."""
    from_s: float
    to_s: float
    plain_mbps: float
    proposed_mbps: float

    @property
    def key(self) -> str:
        """What terminal and page call it."""
        return f"{self.from_s:g}-{self.to_s:g} s"

    def of(self, sender: str) -> float:
        """The throughput of one of `factors.SENDERS`."""
        return {"plain": self.plain_mbps, "proposed": self.proposed_mbps}[sender]


@cache
def phases() -> tuple[Phase, ...]:
    """Every phase of both experiments, in order."""
    rows = published(__package__).cast(pl.Float64)
    listed: list[Phase] = []
    for row in rows.iter_rows(named=True):
        experiment = int(row.pop("experiment"))
        number = 1 + sum(phase.experiment == experiment for phase in listed)
        listed.append(Phase(experiment, number, **row))
    return tuple(listed)


def of_experiment(experiment: int) -> tuple[Phase, ...]:
    """The phases of one experiment."""
    return tuple(phase for phase in phases() if phase.experiment == experiment)
