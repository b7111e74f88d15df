"""Rows of the studies in units for people."""

from collections.abc import Sequence

import polars as pl

from anabranch.papers import runs

from .factors import better_path
from .studies import Arena


class Runs(runs.Runs):
    """Runs of one arena: `policy` or `variant`, `replication`, `goodput_mbps` or `mos`, ..."""

    VALUE = "goodput_mbps"


def tidy(rows: pl.DataFrame, arena: Arena) -> pl.DataFrame:
    """Rows with short names.

    Columns: the axis, replication, goodput_mbps (a transfer) or mos and loss_percent (a call),
    interruption_s (the longest time without a delivery), switches (of the primary path), reverted,
    checkpoints, probe_kb, timeouts, heartbeats, failures (paths declared inactive). In an
    experiment also, for each phase from 1 on, mbps_1, switches_1 and timeouts_1, and to_worse
    (switches to the path with less for the transfer by the timetable).
    """
    flow, application, endpoint = arena.flow, arena.application, f"{arena.flow}.sctp.a"
    if arena.is_call:
        values = {
            "mos": pl.col(f"{application}.mos"),
            "loss_percent": pl.col(f"{application}.loss_percent"),
            "interruption_s": pl.col(f"{application}.longest_gap_ms") / 1e3,
        }
    else:
        values = {
            "goodput_mbps": pl.col(f"{application}.goodput_kbit_per_s") / 1e3,
            "interruption_s": pl.col(f"{application}.stalled_s"),
        }
    values |= {
        "switches": pl.col(f"{endpoint}.primary_changes"),
        "reverted": pl.col(f"{endpoint}.switches_reverted"),
        "checkpoints": pl.col(f"{endpoint}.checkpoints"),
        "probe_kb": pl.col(f"{endpoint}.probe_bytes") / 1e3,
        "timeouts": pl.col(f"{endpoint}.timeouts"),
        "heartbeats": pl.col(f"{endpoint}.heartbeats_sent"),
        "failures": pl.col(f"{endpoint}.path_failures"),
    }
    for phase in range(1, arena.phases + 1):
        prefix = f"run.phase_{phase}.{flow}"
        values |= {
            f"mbps_{phase}": pl.col(f"{prefix}.goodput_kbit_per_s") / 1e3,
            f"switches_{phase}": pl.col(f"{prefix}.sctp.a.primary_changes"),
            f"timeouts_{phase}": pl.col(f"{prefix}.sctp.a.timeouts"),
        }
    axes = [name for name in ("policy", "variant") if name in rows.columns]
    tidied = rows.select(*axes, pl.col("replication").cast(pl.Int64), **values)
    if arena.experiment is None:
        return tidied
    counts = tidied.select(f"switches_{phase}" for phase in range(1, arena.phases + 1)).rows()
    worse = [to_worse(arena.experiment, switches) for switches in counts]
    return tidied.with_columns(pl.Series("to_worse", worse, dtype=pl.Float64))


def to_worse(experiment: int, switches: Sequence[float]) -> int:
    """How many of each phase's switches were to the path that was worse in it.

    Path 1 is the first primary path, and with two paths every switch is to the other one.
    """
    primary, worse = 0, 0
    for index, count in enumerate(switches):
        for _ in range(round(count)):
            primary = 1 - primary
            worse += primary != better_path(experiment, index + 1)
    return worse
