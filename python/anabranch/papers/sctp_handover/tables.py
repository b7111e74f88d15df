"""The tables: the terminal, the page and the record show them, some in short."""

from anabranch.figures.table import Cell, Table, head, known, line
from anabranch.papers import facets
from anabranch.papers.page import Context
from anabranch.papers.tables import listed, of_published, recorded

from .claims import PROFILE
from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SENDER_NAMES, SENDERS, SHEET
from .outcome import SctpHandoverOutcome
from .published import of_experiment
from .studies import Arena, variants_of

WIDE = 120
"""From this width on, intervals are shown in every table."""


def of(outcome: SctpHandoverOutcome, width: int) -> list[Table]:
    """The published tables, the tournament in short, the ablations."""
    wide = width >= WIDE
    changed = [ablations(outcome, number) for number in EXPERIMENTS]
    return [
        *(published(outcome, number, digits=1) for number in EXPERIMENTS),
        listed(SHEET, "transfers", outcome.studies),
        listed(SHEET, "calls" if wide else "mean_calls", outcome.studies),
        # Narrow, it has the phases only.
        *(table if wide else table.first(len(table.heads) - 2) for table in changed),
    ]


def published(outcome: SctpHandoverOutcome, number: int, digits: int = 2) -> Table:
    """One experiment's throughputs beside the paper's, by phase."""
    heads = [
        f"{SENDER_NAMES[sender]}: {whose}" for sender in SENDERS for whose in ("paper", "ours")
    ]
    rows: dict[str, list[Cell | str]] = {phase.key: [] for phase in of_experiment(number)}
    for cell in outcome.cells:
        if cell.key["experiment"] == number:
            computed = " (computed)" if cell.key["published_as"] == "computed" else ""
            rows[str(cell.key["phase"])] += [f"{cell.published:g}{computed}", cell.ours(digits)]
    return Table(
        f"Throughput in Mbit/s, {EXPERIMENT_NAMES[number]}",
        ["", *heads],
        [[phase, *cells] for phase, cells in rows.items()],
    )


def tournament(outcome: SctpHandoverOutcome, arena: Arena) -> Table:
    """Every policy in an arena."""
    name, title = "call" if arena.is_call else "experiment", f"Tournament: {arena.title}"
    return listed(SHEET, name, {"arena": outcome.tournament[arena.name]}, title=title)


def ablations(outcome: SctpHandoverOutcome, number: int) -> Table:
    """Throughputs of plain and proposed sender with one thing changed at a time, and handovers."""
    return Table(
        f"One thing changed at a time, {EXPERIMENT_NAMES[number]}",
        ["changed", *(phase.key for phase in of_experiment(number)), "switches", "to worse"],
        [
            [variant.title, *_ablation_cells(outcome, number, variant.title)]
            for variant in variants_of(number)
        ],
        lead="Mbit/s of plain and proposed sender.",
    )


def _ablation_cells(outcome: SctpHandoverOutcome, number: int, title: str) -> list[str]:
    """One variant's throughputs by phase, and its handovers."""
    plain, proposed = (outcome.ablations[number, sender].where(variant=title) for sender in SENDERS)
    return [
        *(
            " / ".join(
                known(runs.mean(f"mbps_{phase.number}").mean, 1) for runs in (plain, proposed)
            )
            for phase in of_experiment(number)
        ),
        *(known(proposed.mean(name).mean, 1) for name in ("switches", "to_worse")),
    ]


def context(outcome: SctpHandoverOutcome) -> Context:
    """What the page's template needs of its own."""
    return {
        "profiles": {PROFILE: PROFILE},
        "experiments": EXPERIMENT_NAMES,
        "published": {number: published(outcome, number) for number in EXPERIMENTS},
        "ablations": {number: ablations(outcome, number) for number in EXPERIMENTS},
        "counts": facets.counts(SHEET, outcome.studies),
        "tournament": [(arena.title, tournament(outcome, arena)) for arena in outcome.arenas],
    }


def sections(outcome: SctpHandoverOutcome) -> list[Table | list[str]]:
    """What the record says after the finding."""
    return [
        of_published(SHEET, "both", outcome.cells),
        recorded(outcome.claims, {PROFILE: PROFILE}),
        _handovers(outcome),
        *(tournament(outcome, arena) for arena in outcome.arenas),
        *(ablations(outcome, number) for number in EXPERIMENTS),
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
