"""The handover: requests while the first path goes away, by transport."""

import polars as pl

from anabranch._engine import Scenario
from anabranch.figures.table import Table
from anabranch.papers.intervals import interval
from anabranch.papers.studies import Work, file_text

COLUMNS = ("get.completed", "get.p50_completion_ms", "get.max_completion_ms")
REQUESTS = 25
"""Of each run, as `handover.toml` has them."""


def work(runs: int) -> Work:
    """The runs of all transports; each draws when its requests begin."""
    scenario = Scenario.parse(file_text(__package__, "handover.toml"))
    return Work("handover", "handover", scenario, lambda _key: runs, COLUMNS)


def rows(found: pl.DataFrame) -> pl.DataFrame:
    """For each run: transport, replication, requests answered, the median and the longest in ms."""
    return found.select(
        "transport",
        "replication",
        pl.col("get.completed").alias("answered"),
        pl.col("get.p50_completion_ms").alias("median_ms"),
        pl.col("get.max_completion_ms").alias("longest_ms"),
    )


def table(found: pl.DataFrame) -> Table:
    """What the longest request takes: mean with its interval, least and most."""
    lines = []
    for transport in found["transport"].unique(maintain_order=True):
        own = found.filter(transport=transport)
        longest: list[float] = own["longest_ms"].drop_nulls().to_list()
        whole = own.filter(pl.col("answered") == REQUESTS).height
        lines.append(
            [
                str(transport),
                f"{whole} of {own.height}",
                interval(own["median_ms"].drop_nulls()).text(1),
                interval(longest).text(0),
                f"{min(longest):.0f} to {max(longest):.0f}" if longest else "none",
            ]
        )
    heads = ["transport", "all answered in", "median, ms", "longest, ms", "least to most, ms"]
    return Table("Requests while the first path goes away at 3 s", heads, lines, keys=1)
