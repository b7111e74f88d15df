"""Mitsuie et al. on switching SCTP's primary path by measured throughput.

"SCTP におけるプライマリパスの切替に関する研究" (Hiroshima Institute of Technology), measurements
with FreeBSD 10 and Dummynet: two experiments, plain SCTP against the proposal. Beside it a
tournament of every path policy.
"""

from pathlib import Path

import polars as pl

from anabranch import _engine
from anabranch.papers.reproduction import packaged
from anabranch.papers.studies import Effort, compute_all

from . import outcome, studies, traced
from .claims import CLAIMS, PROFILE, Material
from .factors import EXPERIMENTS, SENDERS, Runs
from .outcome import SctpHandoverOutcome
from .samples import tidy
from .studies import EFFORTS

__all__ = ["PAPER"]


def compute(mode: str, effort: Effort, out: Path, jobs: int) -> SctpHandoverOutcome:
    """Runs the studies and puts together what they say."""
    works = list(studies.all_studies(effort))
    rows = compute_all(works, out, jobs, "runs")
    arenas = studies.arenas()
    tournament = {
        arena.name: Runs(tidy(rows[f"tournament/{arena.name}"], arena), PROFILE) for arena in arenas
    }
    ablations = {
        (number, sender): Runs(
            tidy(rows[f"ablations/experiment{number}-{sender}"], studies.experiment(number)),
            PROFILE,
        )
        for number in EXPERIMENTS
        for sender in SENDERS
    }
    runs = outcome.experiments(tournament)
    first_inactive_s = pl.col("transfer.sctp.a.path0.first_inactive_s")
    death = rows["death"].select(
        pl.col("replication").cast(pl.Int64), failover_s=first_inactive_s - studies.DEATH_S
    )
    material = Material(
        runs,
        {number: traced.proposed(number, effort) for number in EXPERIMENTS},
        Runs(death, PROFILE),
    )
    return SctpHandoverOutcome(
        mode=mode,
        version=_engine.__version__,
        total_runs=sum(work.total for work in works),
        cells=outcome.cells(runs),
        claims=[claim.judge(material, PROFILE) for claim in CLAIMS],
        arenas=arenas,
        tournament=tournament,
        ablations=ablations,
        traced=material.traced,
        timelines={
            (number, sender): traced.trace(number, sender)
            for number in EXPERIMENTS
            for sender in SENDERS
        },
        failover_s=material.death.mean("failover_s"),
    )


PAPER = packaged(__package__, "runs", EFFORTS, compute)
