"""The sections of the golden record."""

from anabranch.papers.markdown import claims, head, known, line
from anabranch.papers.verdicts import WORDS

from .claims import PROFILE
from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SENDER_NAMES
from .outcome import SctpHandoverOutcome, names
from .studies import Arena, policies, variants_of
from .tables import ablation_cells, ablation_heads, heads, results


def sections(outcome: SctpHandoverOutcome) -> list[list[str]]:
    """What the record says after the finding."""
    return [
        _published(outcome),
        claims(outcome.claims, {PROFILE: PROFILE}),
        _handovers(outcome),
        *(_tournament(outcome, arena) for arena in outcome.arenas),
        *(_ablations(outcome, number) for number in EXPERIMENTS),
    ]


def _published(outcome: SctpHandoverOutcome) -> list[str]:
    return [
        "## The two tables, Mbit/s",
        "",
        *head("experiment", "phase", "sender", "paper", "ours", "verdict"),
        *(
            line(
                str(cell.key["experiment"]),
                str(cell.key["phase"]),
                SENDER_NAMES[str(cell.key["sender"])],
                f"{cell.published:g} ({cell.key['published_as']})",
                f"{cell.measured:.2f} ± {known(cell.half_width, 2)}",
                WORDS[cell.verdict],
            )
            for cell in outcome.cells
        ),
    ]


def _handovers(outcome: SctpHandoverOutcome) -> list[str]:
    lines = ["## Handovers of the proposed sender", "", "First traced runs."]
    for number, runs in outcome.traced.items():
        lines += ["", *head(f"experiment {number}, run", "time s", "to", "why")]
        lines.extend(
            line(str(index), f"{found.time_s:.1f}", f"path {found.to + 1}", found.reason)
            for index, run in enumerate(runs[:3])
            for found in run.handovers
        )
    return lines


def _tournament(outcome: SctpHandoverOutcome, arena: Arena) -> list[str]:
    runs = outcome.tournament[arena.name]
    titles = {policy.name: policy.title for policy in policies()}
    return [
        f"## Tournament: {arena.title}",
        "",
        *head("", *heads(arena)),
        *(
            line(titles[name], *results(arena, runs.where(policy=name)))
            for name in names(runs.frame, "policy")
        ),
    ]


def _ablations(outcome: SctpHandoverOutcome, number: int) -> list[str]:
    return [
        f"## One thing changed at a time, {EXPERIMENT_NAMES[number]}",
        "",
        "Mbit/s of plain and proposed sender.",
        "",
        *head("changed", *ablation_heads(number)),
        *(
            line(
                variant.title,
                *(
                    cell.replace("|", "/")
                    for cell in ablation_cells(outcome, number, variant.title)
                ),
            )
            for variant in variants_of(number)
        ),
    ]
