"""Felix, Santos and Nogueira on bufferbloat, MPTCP and LIFO-CoDel over wireless paths.

"Reduzindo os Efeitos do Bufferbloat sobre Multi-Caminhos em Redes Sem Fio Heterogêneas" (UFPR;
ns-3): DropTail, CoDel, FQ-CoDel and LIFO-CoDel below three ways to couple the windows of MPTCP.
"""

from pathlib import Path

from anabranch import _engine
from anabranch._engine import Scenario
from anabranch.papers import studies as shared
from anabranch.papers.reproduction import packaged
from anabranch.papers.studies import Effort, compute_all

from . import outcome, studies, traced
from .factors import DELAYS, LIA, PACKETS, PAPERS_QUEUES, Runs
from .outcome import MptcpAqmOutcome, Speed
from .studies import EFFORTS, tidy

__all__ = ["PAPER"]

OTHERS = ("ablations", "theta", "beyond", "mobility")
TRACED = ("drop_tail", "codel", "fq_codel", "lifo_codel", "fq_lifo_codel")
HANDOVERS = (("model", "codel"), ("rfc", "codel"), ("linux", "codel"))


def compute(mode: str, effort: Effort, out: Path, jobs: int) -> MptcpAqmOutcome:
    """Runs the studies and puts together what they say."""
    works = list(studies.all_studies(effort))
    rows = compute_all(works, out, jobs, "transfers")
    base = studies.profile()
    grids = {
        one.name: Runs(tidy(rows[f"grid/{one.name}"], one.settings), one.name)
        for one in studies.profiles()
    }
    attribution = {
        change.title: Runs(
            tidy(rows[f"attribution/{change.name}"], studies.attributed(change)), change.name
        )
        for change in studies.attributions()
    }
    attribution["CoDel as in the prose"] = outcome.literal(grids[base.name])
    fits = {
        one.name: Runs(tidy(rows[f"fit/{one.name}"], one.settings, rate_mbps=1.0), one.name)
        for one in (studies.profile(*key) for key in studies.FIT_PROFILES)
    }

    return MptcpAqmOutcome(
        mode=mode,
        version=_engine.__version__,
        total_runs=sum(work.total for work in works),
        cells=outcome.cells(grids),
        claims=outcome.judge(grids),
        grids=grids,
        attribution=outcome.judge(attribution),
        fits=fits,
        others={name: Runs(tidy(rows[name], base.settings), name) for name in OTHERS},
        traced={queue: traced.base(queue, DELAYS[-1]) for queue in TRACED},
        handovers={key: traced.handover(*key) for key in HANDOVERS},
        speed=speed(works[0].scenario),
    )


def speed(scenario: Scenario) -> Speed:
    """Computes a part of the base's grid once more, on one core, with a clock beside it."""
    keys = [
        {"queue": queue, "coupling": LIA, "delay_ms": str(delay)}
        for queue in PAPERS_QUEUES
        for delay in DELAYS
    ]
    each_s, packets_per_s = shared.speed(scenario, keys, PACKETS)
    return Speed(1e3 * each_s, packets_per_s)


PAPER = packaged(__package__, "transfers of 4 MB", EFFORTS, compute)
