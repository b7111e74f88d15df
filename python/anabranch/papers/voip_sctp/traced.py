"""Calls that are run once more with traces.

Figures 3 and 4, and what interruptions come from (claim 1).
"""

from dataclasses import dataclass
from itertools import product

import polars as pl

from anabranch._engine import Scenario
from anabranch.papers.studies import find_cell
from anabranch.studies.result import run
from anabranch.support import progress

from . import published
from .factors import PMR, Runs
from .interruptions import interruptions, shares

JITTER_BUFFER_MS = 100.0
"""Depth after the first packet's delay (paper)."""

AT_25_MS: dict[str, float | str] = {"wait0": 0.025, "wait1": 0.025, "delay_centric": "off"}


@dataclass(frozen=True)
class TracedCall:
    """The call that figure 3 or 4 draws.

    Of all replications the one whose MOS is closest to the published run's.
    """

    frames: pl.DataFrame
    rto_max_s: float
    replication: int
    candidates: int
    mos: float
    published: float
    mean_delay_ms: float

    @property
    def playout_limit_ms(self) -> float:
        """The delay beyond which a frame is late."""
        arrived = self.frames.filter(pl.col("arrived_s").is_not_nan()).sort("arrived_s")
        return float(arrived["delay_ms"][0]) + JITTER_BUFFER_MS


def single_runs(scenario: Scenario, runs: Runs) -> dict[int, TracedCall]:
    """Figures 3 and 4 by number."""
    chosen = {}
    for row in published.figures().filter(quantity="mos_of_one_run").iter_rows(named=True):
        rto, target = row["rto_max_s"], row["value"]
        mos = (
            runs.both_losses(row["loss"])
            .at_25_ms()
            .where(rto_max_s=rto, pmr=int(row["pmr"]), delay_centric=row["delay_centric"])
            .per_replication()
        )
        replication = min(mos, key=lambda key: (abs(mos[key] - target), key))
        where = {"loss0": row["loss"], "loss1": row["loss"], "pmr": int(row["pmr"]), "rto_max": rto}
        cell = find_cell(scenario, AT_25_MS | where)
        result = run(scenario, cell=cell, replication=replication, trace=True)
        chosen[int(row["figure"])] = TracedCall(
            result.traces["frames"],
            rto,
            replication,
            len(mos),
            result.summary["call.mos"],
            target,
            result.summary["call.mean_delay_ms"],
        )
    return chosen


def interruption_causes(scenario: Scenario, replications: int) -> pl.DataFrame:
    """Claim 1's material: pmr, replication, interrupted_s, dormant, backed_off.

    At 10 s, 10 % loss and 25/25 ms.
    """
    rows = []
    for pmr, replication in progress.each("traced calls", list(product(PMR, range(replications)))):
        where = {"loss0": 0.1, "loss1": 0.1, "pmr": pmr, "rto_max": 10.0}
        cell = find_cell(scenario, AT_25_MS | where)
        traces = run(scenario, cell=cell, replication=replication, trace=True).traces
        causes = shares(interruptions(traces["frames"], traces["paths"]))
        rows.append({"pmr": pmr, "replication": replication} | causes)
    return pl.DataFrame(rows)
