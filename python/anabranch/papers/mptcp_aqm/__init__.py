"""Felix, Santos and Nogueira on bufferbloat, MPTCP and LIFO-CoDel over wireless paths.

"Reduzindo os Efeitos do Bufferbloat sobre Multi-Caminhos em Redes Sem Fio Heterogêneas" (UFPR;
ns-3): DropTail, CoDel, FQ-CoDel and LIFO-CoDel below three ways to couple the windows of MPTCP.
"""

import time
from pathlib import Path

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.papers.reproduction import packaged
from anabranch.papers.studies import compute_all, find_cell

from . import outcome, studies, traced
from .claims import CLAIMS, Material
from .factors import DELAYS, LIA, PAPERS_QUEUES
from .outcome import MptcpAqmOutcome, Speed
from .samples import PACKETS, Runs, tidy
from .studies import EFFORTS, Effort, mss_bytes, rate_mbps

__all__ = ["PAPER"]

GRID_AXES = ["queue", "coupling", "delay_ms"]
TRACED = ("drop_tail", "codel", "fq_codel", "lifo_codel", "fq_lifo_codel")
HANDOVERS = (("model", "codel"), ("rfc", "codel"), ("linux", "codel"))


def compute(mode: str, effort: Effort, out: Path, jobs: int) -> MptcpAqmOutcome:
    """Runs the studies and puts together what they say."""
    works = list(studies.all_studies(effort))
    rows = compute_all(works, out, jobs, "transfers")
    base = studies.profile()
    rate, mss = rate_mbps(base.settings), mss_bytes(base.settings)
    grids = {}
    for one in studies.profiles():
        settings = one.settings
        frame = tidy(rows[f"grid/{one.name}"], GRID_AXES, rate_mbps(settings), mss_bytes(settings))
        grids[one.name] = Runs(frame, one.name)
    attribution = {}
    for change in studies.attributions():
        settings = studies.attributed(change)
        frame = tidy(
            rows[f"attribution/{change.name}"],
            GRID_AXES,
            rate_mbps(settings),
            mss_bytes(settings),
        )
        attribution[change.title] = Runs(frame, change.name)
    attribution["CoDel as in the prose"] = outcome.literal(grids[base.name])
    fits = {}
    for network, receiver in studies.FIT_PROFILES:
        one = studies.profile(network, receiver)
        frame = tidy(rows[f"fit/{one.name}"], ["rate_mbps", "point"], 1.0, mss_bytes(one.settings))
        fits[one.name] = Runs(outcome.with_numbers(frame, "rate_mbps"), one.name)

    def of_base(name: str, axes: list[str]) -> Runs:
        return Runs(tidy(rows[name], axes, rate, mss), name)

    return MptcpAqmOutcome(
        mode=mode,
        version=_engine.__version__,
        total_runs=sum(work.total for work in works),
        cells=outcome.cells(grids),
        claims=outcome.judge(grids),
        grids=grids,
        attribution={
            title: [claim.judge(Material(runs), title) for claim in CLAIMS]
            for title, runs in attribution.items()
        },
        fits=fits,
        ablations=of_base("ablations", ["change", "delay_ms"]),
        theta=of_base("theta", ["queue", "delay_ms"]),
        beyond=of_base("beyond", ["transport", "queue", "delay_ms"]),
        mobility=of_base("mobility", ["transport", "queue", "event"]),
        traced={queue: traced.base(queue, DELAYS[-1]) for queue in TRACED},
        handovers={key: traced.handover(*key) for key in HANDOVERS},
        speed=speed(works[0].scenario),
    )


def speed(scenario: Scenario) -> Speed:
    """Computes a part of the base's grid once more, on one core, with a clock beside it."""
    runs = [
        (find_cell(scenario, {"queue": queue, "coupling": LIA, "delay_ms": str(delay)}), 0)
        for queue in PAPERS_QUEUES
        for delay in DELAYS
    ]
    started = time.process_time()
    batch = _engine.run_batch(scenario, runs, 1)
    elapsed = time.process_time() - started
    packets = sum(sum(batch[name]) for name in PACKETS)
    return Speed(1e3 * elapsed / len(runs), packets / elapsed)


PAPER = packaged(__package__, "transfers of 4 MB", EFFORTS, compute)
