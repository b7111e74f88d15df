"""Rows of the studies in units for people."""

from collections.abc import Sequence

import polars as pl

from .factors import SHEET, better_path
from .studies import Arena


def tidy(rows: pl.DataFrame, arena: Arena) -> pl.DataFrame:
    """Rows with the values of `sheet.toml`.

    In an experiment also, for each phase from 1 on, mbps_1, switches_1 and timeouts_1, and to_worse
    (switches to the path with less for the transfer by the timetable).
    """
    gap, per_s = ("longest_gap_ms", 1e3) if arena.is_call else ("stalled_s", 1.0)
    tidied = SHEET.tidy(rows, application=arena.application, flow=arena.flow, gap=gap, per_s=per_s)
    values: dict[str, pl.Series] = {}
    for phase in range(1, arena.phases + 1):
        prefix = f"run.phase_{phase}.{arena.flow}"
        values |= {
            f"mbps_{phase}": rows[f"{prefix}.goodput_kbit_per_s"] / 1e3,
            f"switches_{phase}": rows[f"{prefix}.sctp.a.primary_changes"],
            f"timeouts_{phase}": rows[f"{prefix}.sctp.a.timeouts"],
        }
    tidied = tidied.with_columns(**values)
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
