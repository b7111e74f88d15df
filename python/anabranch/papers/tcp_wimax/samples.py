"""Rows of the studies in the paper's factors and in units for people."""

import polars as pl

from anabranch.papers import runs

from .factors import BUFFERS, CLAIMED_BUFFER, CLAIMED_SEGMENT, CONTROLS, SEGMENTS

FACTORS = ["profile", "control", "segment", "buffer"]


class Runs(runs.Runs):
    """Runs of the grid under one reading: FACTORS, `replication`, `goodput_mbps`, `cov`, ..."""

    VALUE = "goodput_mbps"

    @property
    def reading(self) -> str:
        """What the segment sizes are."""
        return self.profile

    def claimed(self, profile: str) -> "Runs":
        """Where the paper compares the controls: writes of 4 KB, buffers of 512 KB."""
        return self.where(profile=profile, segment=CLAIMED_SEGMENT, buffer=CLAIMED_BUFFER)

    def has_grid(self, profile: str) -> bool:
        """Whether every cell of a profile was run, not only the compared ones."""
        cells = self.where(profile=profile).frame.select("control", "segment", "buffer").unique()
        return cells.height == len(CONTROLS) * len(SEGMENTS) * len(BUFFERS)


def tidy(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with short names, what there is of them.

    Columns: the axes (sizes in bytes), replication, goodput_mbps, cov, jain, timeouts,
    fast_recoveries, air_lost_percent, queue_full_packets, bits_per_symbol, packets (in both
    directions over the air), snr_db, sent.
    """
    axes = [
        name
        for name in rows.columns
        if "." not in name and name not in {"cell", "replication", "segment", "buffer"}
    ]
    sizes = [pl.col(name).cast(pl.Int64) for name in ("segment", "buffer") if name in rows.columns]
    forward, reverse = "link.air.forward", "link.air.reverse"
    lost, delivered = (
        pl.col(f"{forward}.{name}") for name in ("air_lost_packets", "delivered_packets")
    )
    values = {
        "bulk.goodput_kbit_per_s": (pl.col("bulk.goodput_kbit_per_s") / 1e3).alias("goodput_mbps"),
        "bulk.cov": pl.col("bulk.cov").alias("cov"),
        "bulk.jain": pl.col("bulk.jain").alias("jain"),
        "bulk.sent": pl.col("bulk.sent").alias("sent"),
        "bulk.tcp.a.timeouts": pl.col("bulk.tcp.a.timeouts").alias("timeouts"),
        "bulk.tcp.a.fast_retransmits": pl.col("bulk.tcp.a.fast_retransmits").alias(
            "fast_recoveries"
        ),
        f"{forward}.air_lost_packets": (
            (100 * lost / (lost + delivered)).fill_nan(0).alias("air_lost_percent")
        ),
        f"{forward}.queue_full_packets": pl.col(f"{forward}.queue_full_packets").alias(
            "queue_full_packets"
        ),
        f"{forward}.mean_bits_per_symbol": pl.col(f"{forward}.mean_bits_per_symbol").alias(
            "bits_per_symbol"
        ),
        f"{forward}.mean_snr_db": pl.col(f"{forward}.mean_snr_db").alias("snr_db"),
        f"{reverse}.arrived_packets": (
            pl.col(f"{forward}.arrived_packets") + pl.col(f"{reverse}.arrived_packets")
        ).alias("packets"),
    }
    present = [expression for name, expression in values.items() if name in rows.columns]
    return rows.select(pl.col("replication").cast(pl.Int64), *axes, *sizes, *present)


def pair_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """Per run: profile, first, second, replication, share of the first in percent.

    A pair in both orders is one pair: what starts first by chance is averaged out.
    """
    first, second = (pl.col(f"{name}.goodput_kbit_per_s") for name in ("first", "second"))
    share = rows.select(
        "profile",
        "first",
        "second",
        pl.col("replication").cast(pl.Int64),
        percent=100 * first / (first + second),
    )
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
