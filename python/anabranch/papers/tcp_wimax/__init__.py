"""Amorim and Bruno on the nine TCPs of Linux 2.6.20 over fixed WiMAX links.

"Análise de desempenho do TCP sobre redes Wimax" (UNILASALLE), measurements with real radios: 1080
combinations of signal, congestion control, write size and buffer.
"""

from pathlib import Path

import polars as pl

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.papers import studies as shared
from anabranch.papers.reproduction import packaged
from anabranch.papers.studies import Effort, compute_all
from anabranch.studies.result import run

from . import link, outcome, studies, traced
from .factors import CONTROLS, PROFILES, READINGS, SHEET, Runs
from .outcome import Speed, TcpWimaxOutcome
from .studies import EFFORTS, STATIONS, pair_shares, station_rows

__all__ = ["PAPER"]


def compute(mode: str, effort: Effort, out: Path, jobs: int) -> TcpWimaxOutcome:
    """Runs the studies and puts together what they say."""
    works = list(studies.all_studies(effort))
    rows = compute_all(works, out, jobs, "transfers")
    tidy = SHEET.tidy
    grid = {reading: Runs(tidy(rows[f"grid/{reading}"]), reading) for reading in READINGS}
    probes, distance = tidy(rows["probe"]), tidy(rows["distance"])
    links = link.links(probes, effort.of("traced_probes"))
    scenario = works[0].scenario
    base = grid["write"].claimed("nlos10").frame
    few = base.filter(pl.col("replication") < effort.of("sensitivity"))
    return TcpWimaxOutcome(
        mode=mode,
        version=_engine.__version__,
        grid=grid,
        links=links,
        distance=distance,
        coherence=tidy(rows["coherence"]),
        flows=tidy(rows["flows"]),
        shares=pair_shares(rows["pairs"]),
        stations=pl.concat([station_rows(rows[f"stations/{count}"], count) for count in STATIONS]),
        claimed=outcome.variant(studies.UNCHANGED, base),
        variants=[
            outcome.variant(studies.UNCHANGED, few),
            *(
                outcome.variant(described.title, tidy(rows[f"sensitivity/{number:02}"]))
                for number, described in enumerate(studies.VARIANTS)
            ),
        ],
        windows=traced.windows(scenario),
        silences=traced.silences(scenario, "nlos10", effort.of("traced_transfers")),
        cells=outcome.cells(grid, links),
        claims=outcome.judge(grid, links, probes, distance),
        recommendations=outcome.recommendations(grid["write"]),
        total_runs=sum(work.total for work in works),
        speed=speed(scenario),
    )


def speed(scenario: Scenario) -> Speed:
    """Computes a part of the grid once more, on one core, with a clock beside it."""
    keys = [traced.claimed(profile, control) for profile in PROFILES for control in CONTROLS]
    counters = [f"link.air.{way}.arrived_packets" for way in ("forward", "reverse")]
    each_s, packets_per_s = shared.speed(scenario, keys, counters)
    wire = studies.wire()
    _, cubic = shared.timed(lambda: run(wire))
    return Speed(studies.DURATION_S / each_s, packets_per_s, 1e3 * cubic / studies.DURATION_S)


PAPER = packaged(__package__, "transfers of 30 s", EFFORTS, compute)
