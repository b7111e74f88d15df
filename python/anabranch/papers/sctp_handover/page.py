"""What the page shows beside what every paper's has."""

from anabranch.papers.page import Context

from .claims import PROFILE
from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SENDERS
from .outcome import SctpHandoverOutcome
from .tables import ablations, published, tournament


def context(outcome: SctpHandoverOutcome) -> Context:
    """What the template needs of its own."""
    return {
        "profiles": {PROFILE: PROFILE},
        "experiments": EXPERIMENT_NAMES,
        "published": {number: published(outcome, number) for number in EXPERIMENTS},
        "ablations": {number: ablations(outcome, number) for number in EXPERIMENTS},
        "counts": {
            "tables": "Runs of each sender: "
            + ", ".join(
                f"{outcome.experiment(number).where(policy=list(SENDERS)).repeated}"
                f" in experiment {number}"
                for number in EXPERIMENTS
            ),
            "tournament": "Runs of each policy: "
            + ", ".join(
                f"{outcome.tournament[arena.name].repeated} ({arena.short})"
                for arena in outcome.arenas
            ),
            "switching": "Means of "
            + " and ".join(outcome.experiment(number).repeated for number in EXPERIMENTS)
            + " runs",
        },
        "tournament": [(arena.title, tournament(outcome, arena)) for arena in outcome.arenas],
    }
