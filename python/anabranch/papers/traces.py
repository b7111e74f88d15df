"""What papers read of traced runs alike: throughput over time."""

import polars as pl

STEP_S = 1.0
"""Throughput is counted in steps of so many seconds."""


def path_rates(arrived: pl.DataFrame, steps: int, headers_bytes: int = 0) -> pl.DataFrame:
    """Throughput over each of two paths.

    Parameters
    ----------
    arrived
        Packets with data, of the trace `packets`, that were delivered.
    steps
        How many steps of STEP_S there are from the start of the run.
    headers_bytes
        What of a packet is no data, if that is not to be counted.

    Returns
    -------
    time_s (the middle of the step), path and mbps, sorted by path and time.
    """
    grid = pl.DataFrame({"step": range(steps)}, schema={"step": pl.Int64}).join(
        pl.DataFrame({"path": [0, 1]}), how="cross"
    )
    counted = arrived.group_by(
        (pl.col("delivered_s") / STEP_S).floor().cast(pl.Int64).alias("step"), "path"
    ).agg(((pl.col("size_bytes") - headers_bytes).sum() * 8 / STEP_S / 1e6).alias("mbps"))
    return (
        grid.join(counted, on=["step", "path"], how="left")
        .select(
            ((pl.col("step") + 0.5) * STEP_S).alias("time_s"), "path", pl.col("mbps").fill_null(0)
        )
        .sort("path", "time_s")
    )
