"""The tables of the terminal."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from anabranch.papers.markdown import known
from anabranch.papers.tables import STYLES, titled

from .factors import EXPERIMENT_NAMES, EXPERIMENTS, SENDER_NAMES, SENDERS
from .outcome import SctpHandoverOutcome
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
    return [
        *(published(outcome, number) for number in EXPERIMENTS),
        transfers(outcome),
        calls(outcome, wide=wide),
        *(ablations(outcome, number, wide=wide) for number in EXPERIMENTS),
    ]


def published(outcome: SctpHandoverOutcome, number: int) -> Table:
    """One experiment's throughputs beside the paper's."""
    grid = titled(f"Throughput in Mbit/s, {EXPERIMENT_NAMES[number]}")
    grid.add_column("", no_wrap=True)
    for sender in SENDERS:
        grid.add_column(f"{SENDER_NAMES[sender]}: paper", justify="right")
        grid.add_column("ours", justify="right")
    for phase in of_experiment(number):
        texts: list[str | Text] = [phase.key]
        for cell in outcome.cells:
            if (cell.key["experiment"], cell.key["phase"]) == (number, phase.key):
                ours = f"{cell.measured:.1f} ± {known(cell.half_width, 1)}"
                texts += [f"{cell.published:g}", Text(ours, style=STYLES[cell.verdict])]
        grid.add_row(*texts)
    return grid


def transfers(outcome: SctpHandoverOutcome) -> Table:
    """The tournament in the experiments: throughput, and switches with those to the worse path."""
    grid = titled("Tournament in the experiments (worse: to the path that has less)")
    grid.add_column("", ratio=1)
    for number in EXPERIMENTS:
        for head in (f"{number}: Mbit/s", "switches", "worse"):
            grid.add_column(head, justify="right", no_wrap=True)
    for policy in policies():
        runs = [outcome.experiment(number).where(policy=policy.name) for number in EXPERIMENTS]
        cells = [
            text
            for own in runs
            for text in (
                own.mean().text(),
                known(own.mean("switches").mean, 1),
                known(own.mean("to_worse").mean, 1),
            )
        ]
        grid.add_row(policy.title, *cells)
    return grid


def calls(outcome: SctpHandoverOutcome, *, wide: bool) -> Table:
    """The tournament's calls: MOS."""
    grid = titled("Tournament of calls: MOS")
    grid.add_column("", min_width=14)
    arenas = [arena for arena in outcome.arenas if arena.is_call]
    for arena in arenas:
        grid.add_column(arena.short, justify="right")
    for policy in policies():
        found = [outcome.tournament[arena.name].where(policy=policy.name) for arena in arenas]
        means = [runs.mean("mos") for runs in found]
        grid.add_row(
            policy.title, *(mean.text() if wide else known(mean.mean, 2) for mean in means)
        )
    return grid


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


def ablations(outcome: SctpHandoverOutcome, number: int, *, wide: bool) -> Table:
    """The proposed sender's throughputs with one thing changed at a time."""
    grid = titled(f"One thing changed, Mbit/s (plain | proposed), {EXPERIMENT_NAMES[number]}")
    grid.add_column("", ratio=1)
    shown = len(ablation_heads(number)) if wide else len(of_experiment(number))
    for head in ablation_heads(number)[:shown]:
        grid.add_column(head, justify="right", no_wrap=True)
    for variant in variants_of(number):
        cells = ablation_cells(outcome, number, variant.title)
        grid.add_row(variant.title, *cells[:shown])
    return grid


def ablation_heads(number: int) -> list[str]:
    """What `ablation_cells` gives."""
    return [*(phase.key for phase in of_experiment(number)), "switches", "to worse"]


def ablation_cells(outcome: SctpHandoverOutcome, number: int, title: str) -> list[str]:
    """One variant's throughputs by phase, and its handovers."""
    plain, proposed = (outcome.ablations[number, sender].where(variant=title) for sender in SENDERS)
    return [
        *(
            " | ".join(
                known(runs.mean(f"mbps_{phase.number}").mean, 1) for runs in (plain, proposed)
            )
            for phase in of_experiment(number)
        ),
        *(known(proposed.mean(name).mean, 1) for name in ("switches", "to_worse")),
    ]
