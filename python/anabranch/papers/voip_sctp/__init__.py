"""Rüncos and Ribeiro on SCTP parameters for VoIP over lossy, loaded paths.

"Avaliação de parâmetros do SCTP para transporte de tráfego VoIP em cenários com perdas" (UFPR), an
ns-2 study of 7,128 configurations with 100 calls each.
"""

import statistics
from pathlib import Path

import polars as pl

from anabranch import _engine
from anabranch.papers.reproduction import packaged
from anabranch.papers.studies import Effort, compute_all

from . import outcome, studies, traced
from .factors import CLOCKS, SHEET, Runs
from .outcome import VoipSctpOutcome
from .studies import EFFORTS

__all__ = ["PAPER"]


def compute(mode: str, effort: Effort, out: Path, jobs: int) -> VoipSctpOutcome:
    """Runs the studies and puts together what they say."""
    works = list(studies.all_studies(effort))
    rows = compute_all(works, out, jobs, "calls")
    frames = {name: SHEET.tidy(frame) for name, frame in rows.items()}
    runs = {clock: Runs(frames[f"paper-{clock}"], clock) for clock in CLOCKS}
    scenarios = {
        clock: next(work.scenario for work in works if work.name == f"paper-{clock}")
        for clock in CLOCKS
    }
    table = {clock: outcome.table2(runs[clock]) for clock in CLOCKS}
    robust, robust_loss = outcome.robust_setting(runs)
    causes = {
        clock: traced.interruption_causes(scenarios[clock], effort.of("traced")) for clock in CLOCKS
    }
    return VoipSctpOutcome(
        mode=mode,
        version=_engine.__version__,
        runs=runs,
        tables=table,
        optima={clock: outcome.optimum(runs[clock]) for clock in CLOCKS},
        advice=outcome.advice(runs),
        pmr_effects=outcome.pmr_effects(runs),
        robust=robust,
        robust_loss=robust_loss,
        cells=outcome.cells(runs, table),
        claims=outcome.judge(runs, causes),
        settings=Runs(frames["settings"], CLOCKS[0]),
        potentially_failed=Runs(frames["potentially-failed"], CLOCKS[0]),
        sensitivity=_sensitivity(effort, frames),
        total_runs=sum(work.total for work in works),
        single_runs=traced.single_runs(scenarios["on_arrival"], runs["on_arrival"]),
    )


def _sensitivity(effort: Effort, frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    rows = []
    for number, variant in enumerate(studies.variants() if effort.of("sensitivity") else []):
        tenth = pl.lit(0.1)
        frame = frames[f"sensitivity/{number:02}"].with_columns(loss0=tenth, loss1=tenth)
        means = outcome.table2(Runs(frame, variant.name)).means
        error = outcome.mean_absolute_error(means)
        bias = statistics.fmean((means["mean"] - means["mos"]).to_list())
        named = variant.model_dump(include={"group", "name", "prototype"})
        rows.append(named | {"mean_absolute_error": error, "bias": bias})
    return pl.DataFrame(rows)


PAPER = packaged(__package__, "calls", EFFORTS, compute)
