"""Transfers that are run once more with traces, as the paper did with tcpprobe."""

from itertools import product

import polars as pl

from anabranch._engine import Scenario
from anabranch.papers.intervals import Interval, interval
from anabranch.papers.studies import find_cell
from anabranch.studies.result import run
from anabranch.support import progress

from .factors import CLAIMED_BUFFER, CLAIMED_SEGMENT, CONTROLS, PROFILES

STEP_S = 0.05
"""The state of the window is kept so often."""
SILENT_S = 0.2
"""Linux's shortest retransmission timeout: a longer gap is more than a round trip without an
acknowledgement."""


def windows(scenario: Scenario, replication: int = 0) -> dict[str, pl.DataFrame]:
    """By profile: control, time_s, cwnd_bytes, outstanding_bytes.

    All nine controls meet the same channel: writes of 4 KB, buffers of 512 KB.
    """
    frames: dict[str, list[pl.DataFrame]] = {profile: [] for profile in PROFILES}
    for profile, control in progress.each("traced transfers", list(product(PROFILES, CONTROLS))):
        cell = find_cell(scenario, claimed(profile, control))
        result = run(scenario, cell=cell, replication=replication, trace=True)
        frames[profile].append(thinned(result.traces["paths"], control))
    return {profile: pl.concat(own) for profile, own in frames.items()}


def silences(scenario: Scenario, profile: str, replications: int) -> dict[str, Interval]:
    """By control, the percentage of time in which nothing arrives for more than SILENT_S."""
    shares: dict[str, list[float]] = {control: [] for control in CONTROLS}
    runs = list(product(CONTROLS, range(replications)))
    for control, replication in progress.each("silences", runs):
        cell = find_cell(scenario, claimed(profile, control))
        result = run(scenario, cell=cell, replication=replication, trace=True)
        shares[control].append(silent_percent(result.traces["packets"]))
    return {control: interval(own) for control, own in shares.items()}


def silent_percent(packets: pl.DataFrame) -> float:
    """The part of the run's time in gaps between the arrivals of data."""
    data = packets.filter((pl.col("side") == "a") & (pl.col("fate") == "delivered"))
    gaps = data["delivered_s"].sort().diff().drop_nulls()
    length = max(packets["sent_s"].to_list(), default=0.0)
    return 100 * float(gaps.filter(gaps > SILENT_S).sum()) / length if length else 0.0


def claimed(profile: str, control: str) -> dict[str, str | int]:
    """The cell of the grid in which the paper compares the controls."""
    sizes = {"segment": CLAIMED_SEGMENT, "buffer": CLAIMED_BUFFER}
    return {"profile": profile, "control": control} | sizes


def thinned(paths: pl.DataFrame, control: str) -> pl.DataFrame:
    """The sender's window at the end of each step in which it changed, and most bytes under way."""
    return (
        paths.filter(side="a")
        .group_by((pl.col("time_s") / STEP_S).floor().alias("step"), maintain_order=True)
        .agg(
            pl.lit(control).alias("control"),
            pl.col("time_s", "cwnd_bytes").last(),
            pl.col("outstanding_bytes").max(),
        )
        .drop("step")
    )
