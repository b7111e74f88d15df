"""The finding in words, made from the numbers.

The same sentences on the terminal, on the page and in the record.
"""

from collections.abc import Sequence

import polars as pl

from anabranch.papers import choice
from anabranch.papers.intervals import Interval, difference
from anabranch.papers.verdicts import above, counted
from anabranch.support.wording import counted as counted_runs

from .claims import PROFILE
from .factors import EXPERIMENTS, Runs
from .outcome import SctpHandoverOutcome, names
from .published import of_experiment
from .studies import policies

AFTER_S = 2.0
"""A timeout within this time of a checkpoint comes from it: RTO.Min and the recovery before."""
COMPARED = ["policy", "replication", "mos"]
TITLES = {policy.name: policy.title for policy in policies()}
_LISTED = 4
"""Policies that a sentence names at most."""


def headline(outcome: SctpHandoverOutcome) -> str:
    """One sentence on what the proposal brings in each experiment."""
    parts, gains = [], []
    for number in EXPERIMENTS:
        runs = outcome.experiment(number)
        plain, proposed = (runs.where(policy=sender).mean() for sender in ("plain", "proposed"))
        gain = runs.where(policy="proposed").minus(runs.where(policy="plain"))
        gains.append(gain)
        phases = of_experiment(number)
        length = sum(phase.to_s - phase.from_s for phase in phases)
        paper = sum(
            (phase.proposed_mbps - phase.plain_mbps) * (phase.to_s - phase.from_s)
            for phase in phases
        )
        parts.append(
            f"{proposed.text()} against {plain.text()} Mbit/s in experiment {number}"
            f" ({gain.text(signed=True)}; paper: {paper / length:+.1f})"
        )
    helps = [above(gain) for gain in gains]
    if all(helps):
        word = "Yes"
    elif all(verdict is False for verdict in helps):
        word = "No"
    elif any(verdict is False for verdict in helps):
        word = "Not in every place"
    else:
        fewest = min(gain.n for gain in gains)
        word = f"That is not resolved for every place after {counted_runs(fewest, 'replication')}"
    return (
        f"Should SCTP switch its primary path by measured throughput? {word}: it carries"
        f" {' and '.join(parts)}."
    )


def sentences(outcome: SctpHandoverOutcome) -> list[str]:
    """Verdicts, spurious handovers, failover, checkpoints, and the tournament."""
    return [
        f"Of {len(outcome.claims)} claims: {counted(outcome.claims)}.",
        *(_spurious(outcome, number) for number in EXPERIMENTS),
        "A path that dies is declared inactive by plain SCTP after"
        f" {outcome.failover_s.text(1)} s (paper: 63 s).",
        _after_losses(outcome),
        *(_winner(outcome, number) for number in EXPERIMENTS),
        _calls(outcome),
    ]


def _spurious(outcome: SctpHandoverOutcome, number: int) -> str:
    runs = outcome.experiment(number).where(policy="proposed")
    switches, worse, reverted, checkpoints, probe_kb, timeouts = (
        runs.mean(name)
        for name in ("switches", "to_worse", "reverted", "checkpoints", "probe_kb", "timeouts")
    )
    return (
        f"Experiment {number}: the proposal makes {checkpoints.text(1)} checkpoints"
        f" ({probe_kb.text(0)} kB of data) and {switches.text(1)} handovers a run;"
        f" {worse.text(1)} of these are to the path that has less by the timetable,"
        f" {reverted.text(1)} are undone within 10 s; {timeouts.text(1)} retransmission timeouts."
    )


def _after_losses(outcome: SctpHandoverOutcome) -> str:
    lossy, clean = (_followed_percent(outcome, is_lossy=is_lossy) for is_lossy in (True, False))
    return (
        "A checkpoint is a burst, and what a full queue takes from the end of a burst only a"
        f" timeout brings back: one follows within {AFTER_S:g} s of {lossy} of the checkpoints that"
        f" meet a loss and of {clean} of the others."
    )


def _followed_percent(outcome: SctpHandoverOutcome, *, is_lossy: bool) -> str:
    shares = [
        any(0 < time_s - checkpoint.time_s <= AFTER_S for time_s in run.timeouts_s)
        for runs in outcome.traced.values()
        for run in runs
        for checkpoint in run.checkpoints
        if (checkpoint.lost > 0) == is_lossy
    ]
    return f"{100 * sum(shares) / len(shares):.0f} %" if shares else "none"


def _winner(outcome: SctpHandoverOutcome, number: int) -> str:
    runs = outcome.experiment(number)
    best = choice.best(runs, ["policy"], "goodput_mbps")
    first = best.candidates[0]
    lead = _difference(runs, first, "plain", "goodput_mbps")
    switches = runs.where(policy=first).mean("switches")
    value = (
        f"{best.mean.text(2)} Mbit/s ({lead.text(2, signed=True)} against plain SCTP) and"
        f" {switches.text(1)} switches a run"
    )
    said = f"Tournament, experiment {number}: {TITLES[first]} is best with {value}"
    if best.is_resolved:
        return f"{said}."
    return f"{said}; {best.doubt(best.others)}: {_titles(best.candidates[1:])}."


def _titles(policies: Sequence[str]) -> str:
    """The first few, apart by semicolons: the names have commas."""
    listed = [TITLES[name] for name in policies[:_LISTED]]
    more = len(policies) - len(listed)
    return "; ".join(listed) + (f"; and {more} more" if more else "")


def _calls(outcome: SctpHandoverOutcome) -> str:
    arenas = [arena.name for arena in outcome.arenas if arena.is_call]
    frame = pl.concat([outcome.tournament[name].frame.select(COMPARED) for name in arenas])
    runs = Runs(frame, PROFILE)
    last = ranking(runs, "mos")[-1]
    ranked = choice.best(runs, ["policy"], "mos")
    first, worst = (
        f"{runs.where(policy=name).mean('mos').text(2)}"
        f" ({_difference(runs, name, 'plain', 'mos').text(2, signed=True)} against each place's own"
        " failover)"
        for name in (ranked.candidates[0], last)
    )
    head = f"Tournament of calls, mean MOS over {len(arenas)} places"
    said = f"{head}: {TITLES[ranked.candidates[0]]} is best with {first}"
    if not ranked.is_resolved:
        said += f"; {ranked.doubt(ranked.others)}: {_titles(ranked.candidates[1:])}"
    return f"{said}; the last is {TITLES[last]} with {worst}."


def ranking(runs: Runs, value: str) -> list[str]:
    """The policies from the best mean to the worst."""
    means = {name: runs.where(policy=name).mean(value).mean for name in names(runs.frame, "policy")}
    return sorted(means, key=lambda name: -means[name])


def _difference(runs: Runs, first: str, second: str, value: str) -> Interval:
    return difference(*(runs.where(policy=name).per_replication(value) for name in (first, second)))
