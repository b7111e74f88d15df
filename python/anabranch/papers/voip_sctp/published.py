"""The paper's own numbers, and the rule that compares ours with them."""

import polars as pl

from anabranch.papers.studies import published
from anabranch.papers.verdicts import SHARE_TOLERANCE, PublishedNumber, verdict

MOS_TOLERANCE = 0.15
"""A cell in MOS is reproduced at least this far from the published value."""


def compare(
    table: str,
    key: dict[str, float | int | str],
    paper: float,
    measured: float,
    half_width: float,
    *,
    unit: str = "MOS",
) -> PublishedNumber:
    """A comparison with its verdict."""
    tolerance = MOS_TOLERANCE if unit == "MOS" else SHARE_TOLERANCE * abs(paper)
    found = verdict(paper, measured, half_width, tolerance)
    return PublishedNumber(table, key, paper, measured, half_width, found, unit)


def table2() -> pl.DataFrame:
    """Table 2: rto_max_s, delay_centric, pmr, mos.

    88 rows, 10 % loss on both paths, means of the 9 delay combinations.
    """
    return published(__package__, "published_table2.csv", rto_max_s=pl.Float64, pmr=pl.Int64)


def figures() -> pl.DataFrame:
    """What the text says about figures 3 to 6.

    Figure, loss, pmr, rto_max_s, delay_centric, quantity, value.
    """
    return published(__package__, "published_figures.csv", rto_max_s=pl.Float64, pmr=pl.String)
