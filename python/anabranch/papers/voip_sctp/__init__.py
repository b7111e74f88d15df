"""Rüncos and Ribeiro on SCTP parameters for VoIP over lossy, loaded paths.

"Avaliação de parâmetros do SCTP para transporte de tráfego VoIP em cenários com perdas" (UFPR), an
ns-2 study of 7,128 configurations with 100 calls each.
"""

import statistics
from pathlib import Path

import polars as pl
from rich.console import Console

from anabranch import _engine
from anabranch.papers import reproduction
from anabranch.papers.studies import compute_all

from . import figures, outcome, page, studies, tables, traced
from .outcome import Outcome
from .published import CLOCKS
from .samples import Runs, tidy
from .studies import EFFORTS, Effort

__all__ = ["reproduce"]


def reproduce(
    mode: str, jobs: int | None, out: Path, json_file: Path | None, console: Console
) -> int:
    """Runs what the mode asks for, unless it is in `out` already, and shows it beside the paper.

    Parameters
    ----------
    mode
        `quick` (one to two minutes on two cores), `full` (the paper's 712,800 calls and more), or
        `validate`: as many replications as `full` in every published cell, without the rest of the
        grid.
    jobs
        Threads; all cores if not given.
    out
        Where studies, figures and page go.
    json_file
        Also writes cells and claims with their verdicts there.
    console
        For the tables.

    Returns
    -------
    The exit code: 0 whatever the verdicts are.
    """
    return reproduction.reproduce(
        mode,
        jobs,
        out,
        json_file,
        console,
        paper="voip-sctp",
        efforts=EFFORTS,
        compute=compute,
        figures=figures.of,
        render=page.render,
        show=tables.show,
    )


def compute(mode: str, effort: Effort, out: Path, jobs: int) -> Outcome:
    """Runs the studies and puts together what they say."""
    works = list(studies.all_studies(effort))
    rows = compute_all(works, out, jobs, "calls")
    frames = {name: tidy(frame) for name, frame in rows.items()}
    runs = {clock: Runs(frames[f"paper-{clock}"], clock) for clock in CLOCKS}
    scenarios = {
        clock: next(work.scenario for work in works if work.name == f"paper-{clock}")
        for clock in CLOCKS
    }
    table = {clock: outcome.table2(runs[clock]) for clock in CLOCKS}
    robust, robust_loss = outcome.robust_setting(table)
    causes = {
        clock: traced.interruption_causes(scenarios[clock], effort.traced) for clock in CLOCKS
    }
    return Outcome(
        mode=mode,
        version=_engine.__version__,
        runs=runs,
        tables=table,
        optima={clock: outcome.optimum(runs[clock], table[clock]) for clock in CLOCKS},
        advice=outcome.advice(runs),
        robust=robust,
        robust_loss=robust_loss,
        figure_cells=[cell for clock in CLOCKS for cell in outcome.figure_cells(runs[clock])],
        claims=outcome.judge(runs, causes),
        settings=outcome.settings(frames["settings"]),
        potentially_failed=outcome.potentially_failed(frames["potentially-failed"]),
        potentially_failed_effect=outcome.potentially_failed_effect(frames["potentially-failed"]),
        sensitivity=_sensitivity(effort, frames),
        calls=sum(len(work.runs()) for work in works),
        single_runs=traced.single_runs(scenarios["on_arrival"], runs["on_arrival"]),
    )


def _sensitivity(effort: Effort, frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    rows = []
    for number, variant in enumerate(studies.variants() if effort.sensitivity else []):
        frame = frames[f"sensitivity/{number:02}"].with_columns(
            loss0=pl.lit(0.1), loss1=pl.lit(0.1)
        )
        means = outcome.table2(Runs(frame, variant.name)).means
        rows.append(
            {
                "group": variant.group,
                "name": variant.name,
                "prototype": variant.prototype,
                "mean_absolute_error": outcome.mean_absolute_error(means),
                "bias": statistics.fmean((means["mean"] - means["mos"]).to_list()),
            }
        )
    schema = {
        "group": pl.String,
        "name": pl.String,
        "prototype": pl.Float64,
        "mean_absolute_error": pl.Float64,
        "bias": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)
