"""What the texts of `story.j2` show: the same on the terminal, on the page and in the record."""

import polars as pl

from anabranch.papers import choice
from anabranch.papers.texts import Means, Texts
from anabranch.papers.verdicts import above, counted
from anabranch.support.wording import counted as counted_runs

from .claims import PROFILE
from .factors import EXPERIMENTS, SENDERS, Runs
from .outcome import SctpHandoverOutcome, names
from .published import of_experiment
from .studies import policies

AFTER_S = 2.0
"""A timeout within this time of a checkpoint comes from it: RTO.Min and the recovery before."""
COMPARED = ["policy", "replication", "mos"]
TITLES = {policy.name: policy.title for policy in policies()}
_LISTED = 4
"""Policies that a sentence names at most."""

said = Texts(__package__, titles=TITLES, listed=_LISTED, counted=counted_runs)


def headline(outcome: SctpHandoverOutcome) -> str:
    """One sentence on what the proposal brings in each experiment."""
    parts, gains = [], []
    for number in EXPERIMENTS:
        runs = outcome.experiment(number)
        plain, proposed = (runs.where(policy=sender) for sender in SENDERS)
        gains.append(proposed.minus(plain))
        lengths = {phase: phase.to_s - phase.from_s for phase in of_experiment(number)}
        paper = sum(
            (phase.proposed_mbps - phase.plain_mbps) * length for phase, length in lengths.items()
        ) / sum(lengths.values())
        means = {"proposed": proposed.mean(), "plain": plain.mean(), "gain": gains[-1]}
        parts.append({"number": number, "paper": paper} | means)
    helps, fewest = [above(gain) for gain in gains], min(gain.n for gain in gains)
    return said("headline", parts=parts, helps=helps, fewest=fewest)


def sentences(outcome: SctpHandoverOutcome) -> list[str]:
    """Verdicts, spurious handovers, failover, checkpoints, and the tournament."""
    experiments = {number: outcome.experiment(number) for number in EXPERIMENTS}
    arenas = [arena.name for arena in outcome.arenas if arena.is_call]
    frame = pl.concat([outcome.tournament[name].frame.select(COMPARED) for name in arenas])
    calls = Runs(frame, PROFILE)
    best, worst = choice.best(calls, ["policy"], "mos"), ranking(calls, "mos")[-1]
    first, last = (_compared(calls, name, "mos") for name in (best.candidates[0], worst))
    return said.several(
        "sentences",
        claims=len(outcome.claims),
        verdicts=counted(outcome.claims),
        proposed={
            number: Means(runs.where(policy="proposed")) for number, runs in experiments.items()
        },
        failover_s=outcome.failover_s,
        after_s=AFTER_S,
        lossy=_followed_percent(outcome, is_lossy=True),
        clean=_followed_percent(outcome, is_lossy=False),
        winners={
            number: {"best": one} | _compared(runs, one.candidates[0], "goodput_mbps")
            for number, runs in experiments.items()
            for one in [choice.best(runs, ["policy"])]
        },
        places=len(arenas),
        calls=best,
        first=first,
        last=last,
        worst=worst,
    )


def _compared(runs: Runs, policy: str, value: str) -> dict[str, object]:
    """A policy beside plain SCTP."""
    own = runs.where(policy=policy)
    return {"runs": Means(own), "lead": own.minus(runs.where(policy="plain"), value)}


def _followed_percent(outcome: SctpHandoverOutcome, *, is_lossy: bool) -> str:
    shares = [
        any(0 < time_s - checkpoint.time_s <= AFTER_S for time_s in run.timeouts_s)
        for runs in outcome.traced.values()
        for run in runs
        for checkpoint in run.checkpoints
        if (checkpoint.lost > 0) == is_lossy
    ]
    return f"{100 * sum(shares) / len(shares):.0f} %" if shares else "none"


def ranking(runs: Runs, value: str) -> list[str]:
    """The policies from the best mean to the worst."""
    means = {name: runs.where(policy=name).mean(value).mean for name in names(runs.frame, "policy")}
    return sorted(means, key=lambda name: -means[name])
