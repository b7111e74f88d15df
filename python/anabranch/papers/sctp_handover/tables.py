"""The tables: the terminal, the page and the record show them, some in short."""

from rich.console import RenderableType

from anabranch.figures.table import Cell, Table, head, known, line
from anabranch.papers.tables import Column, of_means, of_published, recorded

from .claims import PROFILE
from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SENDER_NAMES, SENDERS
from .outcome import SctpHandoverOutcome, names
from .published import of_experiment
from .studies import Arena, policies, variants_of

COUNTS = {
    "switches": "switches",
    "to_worse": "to worse",
    "reverted": "undone",
    "checkpoints": "checkpoints",
    "probe_kb": "probe kB",
    "timeouts": "timeouts",
    "heartbeats": "heartbeats",
}
"""Counts of a run, and their heads."""

WIDE = 120
"""From this width on, intervals are shown in every table."""


def of(outcome: SctpHandoverOutcome, width: int) -> list[RenderableType]:
    """The published tables, the tournament in short, the ablations."""
    wide = width >= WIDE
    changed = [ablations(outcome, number) for number in EXPERIMENTS]
    shown = [
        *(published(outcome, number, digits=1) for number in EXPERIMENTS),
        transfers(outcome),
        calls(outcome, wide=wide),
        # Narrow, it has the phases only.
        *(table if wide else table.first(len(table.heads) - 2) for table in changed),
    ]
    return [table.rich() for table in shown]


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


def both(outcome: SctpHandoverOutcome) -> Table:
    """Both experiments' throughputs in the record, a line for each number."""
    return of_published(
        "The two tables, Mbit/s",
        ["experiment", "phase", "sender"],
        outcome.cells,
        lambda cell: [
            str(cell.key["experiment"]),
            str(cell.key["phase"]),
            SENDER_NAMES[str(cell.key["sender"])],
        ],
        lambda cell: f"{cell.published:g} ({cell.key['published_as']})",
        in_words=True,
    )


def tournament(outcome: SctpHandoverOutcome, arena: Arena) -> Table:
    """Every policy in an arena."""
    runs = outcome.tournament[arena.name]
    titles = {policy.name: policy.title for policy in policies()}
    return of_means(
        f"Tournament: {arena.title}",
        [""],
        [([titles[name]], runs.where(policy=name)) for name in names(runs.frame, "policy")],
        columns(arena),
    )


def transfers(outcome: SctpHandoverOutcome) -> Table:
    """The tournament in the experiments: throughput, and switches with those to the worse path."""
    rows = [
        [
            policy.title,
            *(
                text
                for number in EXPERIMENTS
                for own in [outcome.experiment(number).where(policy=policy.name)]
                for text in (
                    own.mean().text(),
                    known(own.mean("switches").mean, 1),
                    known(own.mean("to_worse").mean, 1),
                )
            ),
        ]
        for policy in policies()
    ]
    heads = [head for number in EXPERIMENTS for head in (f"{number}: Mbit/s", "switches", "worse")]
    title = "Tournament in the experiments (worse: to the path that has less)"
    return Table(title, ["", *heads], rows)


def calls(outcome: SctpHandoverOutcome, *, wide: bool) -> Table:
    """The tournament's calls: MOS."""
    arenas = [arena for arena in outcome.arenas if arena.is_call]
    rows = [
        [
            policy.title,
            *(
                mean.text() if wide else known(mean.mean, 2)
                for arena in arenas
                for mean in [outcome.tournament[arena.name].where(policy=policy.name).mean("mos")]
            ),
        ]
        for policy in policies()
    ]
    return Table("Tournament of calls: MOS", ["", *(arena.short for arena in arenas)], rows)


def columns(arena: Arena) -> list[Column]:
    """The columns that a policy has in an arena."""
    quality = (
        [Column("mos", "MOS"), Column("loss_percent", "loss %", 1)]
        if arena.is_call
        else [Column("goodput_mbps", "Mbit/s")]
    )
    counts = (
        Column(name, head, 0 if name in {"probe_kb", "heartbeats"} else 1, has_interval=False)
        for name, head in COUNTS.items()
        if name != "to_worse" or arena.experiment is not None
    )
    gap = Column("interruption_s", "longest gap s", has_interval=False)
    return [*quality, gap, *counts]


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
