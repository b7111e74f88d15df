"""Synthetic studies for the tests of sctp-handover: runs as the paper tells them."""

from dataclasses import replace

import numpy as np
import polars as pl

from anabranch.papers.sctp_handover.claims import PROFILE, Material
from anabranch.papers.sctp_handover.factors import EXPERIMENTS, SENDERS, Runs
from anabranch.papers.sctp_handover.published import of_experiment
from anabranch.papers.sctp_handover.studies import Arena, policies, variants_of
from anabranch.papers.sctp_handover.traced import Checkpoint, Handover, Traced

REPLICATIONS = 12

MEASURED = "measured throughput"


def handover(time_s: float, to: int, new: float, old: float) -> Handover:
    """One whose reason has numbers."""
    return Handover(time_s, to, f"{MEASURED}: {new} Mbit/s > {old} Mbit/s", new, old)


def traced(number: int) -> Traced:
    """A run as the paper's text tells it."""
    steps = np.arange(0.5, of_experiment(number)[-1].to_s)
    rates = pl.DataFrame(
        {
            "time_s": [*steps, *steps],
            "path": [0] * len(steps) + [1] * len(steps),
            "mbps": [4.0] * len(steps) + [2.0] * len(steps),
        }
    )
    if number == 1:
        moves = [handover(100.8, 1, 6.0, 3.6), handover(200.9, 0, 3.0, 2.6)]
        return Traced(moves, [Checkpoint(10.5, 60, 1), Checkpoint(100.4, 50, 0)], [], rates)
    moves = [
        handover(50.5, 1, 5.0, 4.0),
        handover(106.0, 0, 4.0, 3.3),
        handover(113.0, 1, 2.5, 0.5),
        handover(122.9, 0, 4.0, 3.3),
    ]
    return Traced(moves, [Checkpoint(50.2, 40, 0)], [108.0, 112.0], rates)


def frame(arena: Arena, axis: str, keys: list[str]) -> pl.DataFrame:
    """Rows of an arena as published, with a little noise that all keys share."""
    rng = np.random.default_rng(5)
    common = rng.normal(size=REPLICATIONS)
    rows = []
    for key in keys:
        for replication in range(REPLICATIONS):
            noise = 1 + 0.01 * common[replication] + 0.001 * rng.normal()
            proposed = key != "plain"
            row: dict[str, float | str] = {
                axis: key,
                "replication": replication,
                "interruption_s": 0.5 * noise,
                "switches": 2.0 * proposed,
                "reverted": 0.5 * proposed,
                "checkpoints": 9.0 * proposed,
                "probe_kb": 300.0 * proposed,
                "timeouts": 1.0,
                "heartbeats": 10.0,
                "failures": 0.0,
            }
            if arena.experiment is None:
                rows.append(row | {"mos": 3.5 * noise, "loss_percent": 1.0})
                continue
            sender = "proposed" if proposed else "plain"
            phases = of_experiment(arena.experiment)
            for phase in phases:
                row[f"mbps_{phase.number}"] = phase.of(sender) * noise
                row[f"switches_{phase.number}"] = 0.0
                row[f"timeouts_{phase.number}"] = 0.0
            total = sum(phase.of(sender) for phase in phases) / len(phases)
            rows.append(row | {"goodput_mbps": total * noise, "to_worse": 0.0})
    return pl.DataFrame(rows)


def tournament(arena: Arena) -> Runs:
    """Every policy but the plain one is as good as the proposal."""
    return Runs(frame(arena, "policy", [policy.name for policy in policies()]), PROFILE)


def ablations(arena: Arena, sender: str) -> Runs:
    """No variant changes anything."""
    keys = [variant.title for variant in variants_of(arena.experiment) if sender in variant.sets]
    return Runs(frame(arena, "variant", keys), PROFILE)


def death(failover_s: list[float]) -> Runs:
    """Runs in which path 1 dies."""
    return Runs(pl.DataFrame({"failover_s": failover_s}).with_row_index("replication"), PROFILE)


def material(experiments: list[Arena]) -> Material:
    """The values that the claims are judged by."""
    return Material(
        {number: tournament(arena) for number, arena in zip(EXPERIMENTS, experiments, strict=True)},
        {number: [traced(number)] * REPLICATIONS for number in EXPERIMENTS},
        death([63.02] * REPLICATIONS),
    )


def without_handovers(found: Material) -> Material:
    """A proposal that never hands over and brings nothing."""
    still = {
        number: [replace(run, handovers=[], checkpoints=[]) for run in runs]
        for number, runs in found.traced.items()
    }
    runs = {}
    for number, own in found.runs.items():
        plain = own.where(policy="plain").frame
        both = [plain.with_columns(policy=pl.lit(sender)) for sender in SENDERS]
        runs[number] = replace(own, frame=pl.concat(both))
    return replace(found, runs=runs, traced=still)
