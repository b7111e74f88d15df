"""Rows of the studies in which several transfers share a link."""

import polars as pl

from .factors import SHEET


def pair_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """Per run: profile, first, second, replication, share of the first in percent.

    A pair in both orders is one pair: what starts first by chance is averaged out.
    """
    share = SHEET.tidy(rows).select("profile", "first", "second", "replication", "percent")
    mirrored = share.select(
        "profile",
        pl.col("second").alias("first"),
        pl.col("first").alias("second"),
        "replication",
        percent=100 - pl.col("percent"),
    )
    return (
        pl.concat([share, mirrored])
        .group_by("profile", "first", "second", "replication", maintain_order=True)
        .agg(pl.col("percent").mean())
    )


def station_rows(rows: pl.DataFrame, stations: int) -> pl.DataFrame:
    """Per run: profile, control, replication, stations, goodput_mbps of all, jain."""
    columns = [f"s{number}.goodput_kbit_per_s" for number in range(1, stations + 1)]
    total = pl.sum_horizontal(columns)
    squares = pl.sum_horizontal(pl.col(name) ** 2 for name in columns)
    return rows.select(
        "profile",
        "control",
        pl.col("replication").cast(pl.Int64),
        stations=pl.lit(stations),
        goodput_mbps=total / 1e3,
        jain=total**2 / (stations * squares),
    )
