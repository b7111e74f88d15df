"""What the page shows beside what every paper's has."""

from typing import Any

from .claims import PROFILE
from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SENDER_NAMES, SENDERS
from .outcome import SctpHandoverOutcome, names
from .published import of_experiment
from .studies import policies, variants_of
from .tables import ablation_cells, ablation_heads, heads, results


def context(outcome: SctpHandoverOutcome) -> dict[str, Any]:
    """What the template needs of its own."""
    titles = {policy.name: policy.title for policy in policies()}
    by_key = {
        (cell.key["experiment"], cell.key["phase"], cell.key["sender"]): cell
        for cell in outcome.cells
    }
    return {
        "profiles": {PROFILE: PROFILE},
        "experiments": {
            number: {
                "name": EXPERIMENT_NAMES[number],
                "rows": [
                    (phase.key, [by_key[number, phase.key, sender] for sender in SENDERS])
                    for phase in of_experiment(number)
                ],
                "ablation_heads": ablation_heads(number),
                "ablations": [
                    (variant.title, ablation_cells(outcome, number, variant.title))
                    for variant in variants_of(number)
                ],
            }
            for number in EXPERIMENTS
        },
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
        "senders": SENDER_NAMES,
        "tournament": [
            (
                arena,
                heads(arena),
                [
                    (
                        titles[name],
                        results(arena, outcome.tournament[arena.name].where(policy=name)),
                    )
                    for name in names(outcome.tournament[arena.name].frame, "policy")
                ],
            )
            for arena in outcome.arenas
        ],
    }
