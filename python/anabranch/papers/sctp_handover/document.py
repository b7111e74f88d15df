"""The sections of the golden record."""

from anabranch.figures.table import head, line
from anabranch.papers.tables import recorded

from .claims import PROFILE
from .factors import EXPERIMENTS
from .outcome import SctpHandoverOutcome
from .tables import ablations, both, tournament


def sections(outcome: SctpHandoverOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        both(outcome).markdown(),
        recorded(outcome.claims, {PROFILE: PROFILE}),
        _handovers(outcome),
        *(tournament(outcome, arena).markdown() for arena in outcome.arenas),
        *(ablations(outcome, number).markdown() for number in EXPERIMENTS),
    ]


def _handovers(outcome: SctpHandoverOutcome) -> list[str]:
    lines = ["## Handovers of the proposed sender", "", "First traced runs."]
    for number, runs in outcome.traced.items():
        lines += ["", *head(f"experiment {number}, run", "time s", "to", "why")]
        lines.extend(
            line(str(index), f"{handover.time_s:.1f}", f"path {handover.to + 1}", handover.reason)
            for index, run in enumerate(runs[:3])
            for handover in run.handovers
        )
    return lines
