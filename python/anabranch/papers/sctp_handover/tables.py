"""The tables: the terminal, the page and the record show them, some in short."""

from rich.console import RenderableType

from anabranch.figures.table import Cell, Table, known
from anabranch.papers.verdicts import WORDS

from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SENDER_NAMES, SENDERS
from .outcome import SctpHandoverOutcome, names
from .published import of_experiment
from .samples import Runs
from .studies import Arena, policies, variants_of

COUNT_HEADS = ("switches", "to worse", "undone", "checkpoints", "probe kB", "timeouts")
COUNTS = ("switches", "to_worse", "reverted", "checkpoints", "probe_kb", "timeouts")


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
    """The same of both experiments, a line for each number."""
    return Table(
        "The two tables, Mbit/s",
        ["experiment", "phase", "sender", "paper", "ours", "verdict"],
        [
            [
                str(cell.key["experiment"]),
                str(cell.key["phase"]),
                SENDER_NAMES[str(cell.key["sender"])],
                f"{cell.published:g} ({cell.key['published_as']})",
                cell.ours().text,
                WORDS[cell.verdict],
            ]
            for cell in outcome.cells
        ],
        keys=3,
    )


def tournament(outcome: SctpHandoverOutcome, arena: Arena) -> Table:
    """Every policy in an arena."""
    runs = outcome.tournament[arena.name]
    titles = {policy.name: policy.title for policy in policies()}
    rows = [
        [titles[name], *results(arena, runs.where(policy=name))]
        for name in names(runs.frame, "policy")
    ]
    return Table(f"Tournament: {arena.title}", ["", *heads(arena)], rows)


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


def heads(arena: Arena) -> list[str]:
    """What `results` gives, in a few words each."""
    quality = ["MOS", "loss %"] if arena.is_call else ["Mbit/s"]
    counts = [head for head in COUNT_HEADS if head != "to worse" or arena.experiment is not None]
    return [*quality, "longest gap s", *counts, "heartbeats"]


def results(arena: Arena, runs: Runs) -> list[str]:
    """One policy's results in an arena."""
    quality = [("mos", 2), ("loss_percent", 1)] if arena.is_call else [("goodput_mbps", 2)]
    counts = [name for name in COUNTS if name in runs.frame.columns]
    return [
        *(runs.mean(name).text(digits) for name, digits in quality),
        known(runs.mean("interruption_s").mean, 2),
        *(known(runs.mean(name).mean, 0 if name == "probe_kb" else 1) for name in counts),
        known(runs.mean("heartbeats").mean, 0),
    ]


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
