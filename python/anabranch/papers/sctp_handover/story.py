"""The finding in words: what the texts of `story.toml` show.

The same sentences on the terminal, on the page and in the record.
"""

import polars as pl

from anabranch.papers import choice
from anabranch.papers.choice import Best
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

said = Texts(__package__)


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
        )
        parts.append(
            said(
                "carries",
                number=number,
                proposed=proposed.mean(),
                plain=plain.mean(),
                gain=gains[-1],
                paper=paper / sum(lengths.values()),
            )
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
    return said("headline", answer=word, parts=" and ".join(parts))


def sentences(outcome: SctpHandoverOutcome) -> list[str]:
    """Verdicts, spurious handovers, failover, checkpoints, and the tournament."""
    proposed = {
        number: outcome.experiment(number).where(policy="proposed") for number in EXPERIMENTS
    }
    lossy, clean = (_followed_percent(outcome, is_lossy=is_lossy) for is_lossy in (True, False))
    return [
        f"Of {len(outcome.claims)} claims: {counted(outcome.claims)}.",
        *(said("spurious", number=number, runs=Means(runs)) for number, runs in proposed.items()),
        said("failover", failover_s=outcome.failover_s),
        said("after_losses", after_s=AFTER_S, lossy=lossy, clean=clean),
        *(_winner(outcome, number) for number in EXPERIMENTS),
        _calls(outcome),
    ]


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
    best = choice.best(runs, ["policy"])
    first = runs.where(policy=best.candidates[0])
    lead = first.minus(runs.where(policy="plain"))
    return said(
        "winner",
        number=number,
        first=TITLES[best.candidates[0]],
        mean=best.mean,
        lead=lead,
        switches=first.mean("switches"),
        doubt=_doubt(best),
    )


def _doubt(best: Best) -> str:
    """Which others may be the best; the first few, apart by semicolons: the names have commas."""
    if best.is_resolved:
        return ""
    others = best.candidates[1:]
    more = [f"and {len(others) - _LISTED} more"] if len(others) > _LISTED else []
    named = "; ".join([*(TITLES[name] for name in others[:_LISTED]), *more])
    return f"; {best.doubt(best.others)}: {named}"


def _calls(outcome: SctpHandoverOutcome) -> str:
    arenas = [arena.name for arena in outcome.arenas if arena.is_call]
    frame = pl.concat([outcome.tournament[name].frame.select(COMPARED) for name in arenas])
    runs = Runs(frame, PROFILE)
    best, last = choice.best(runs, ["policy"], "mos"), ranking(runs, "mos")[-1]
    plain = runs.where(policy="plain")
    firsts, lasts = (
        said("call", mos=own.mean("mos"), lead=own.minus(plain, "mos"))
        for own in (runs.where(policy=name) for name in (best.candidates[0], last))
    )
    titles = {"first": TITLES[best.candidates[0]], "last": TITLES[last]}
    about = {"places": len(arenas), "firsts": firsts, "lasts": lasts, "doubt": _doubt(best)}
    return said("calls", **titles, **about)


def ranking(runs: Runs, value: str) -> list[str]:
    """The policies from the best mean to the worst."""
    means = {name: runs.where(policy=name).mean(value).mean for name in names(runs.frame, "policy")}
    return sorted(means, key=lambda name: -means[name])
