"""The paper's own numbers, and the rule that compares ours with them."""

from importlib.resources import files

import polars as pl

from anabranch.papers.verdicts import SHARE_TOLERANCE, PublishedNumber, verdict

MOS_TOLERANCE = 0.15
"""A cell in MOS is reproduced at least this far from the published value."""


def compare(
    table: str,
    key: dict[str, float | int | str],
    published: float,
    measured: float,
    half_width: float,
    *,
    unit: str = "MOS",
) -> PublishedNumber:
    """A comparison with its verdict."""
    tolerance = MOS_TOLERANCE if unit == "MOS" else SHARE_TOLERANCE * abs(published)
    return PublishedNumber(
        table,
        key,
        published,
        measured,
        half_width,
        verdict(published, measured, half_width, tolerance),
        unit,
    )


def table2() -> pl.DataFrame:
    """Table 2: rto_max_s, delay_centric, pmr, mos.

    88 rows, 10 % loss on both paths, means of the 9 delay combinations.
    """
    return _read("published_table2.csv").with_columns(
        pl.col("rto_max_s").cast(pl.Float64), pl.col("pmr").cast(pl.Int64)
    )


def figures() -> pl.DataFrame:
    """What the text says about figures 3 to 6.

    Figure, loss, pmr, rto_max_s, delay_centric, quantity, value.
    """
    return _read("published_figures.csv").with_columns(
        pl.col("rto_max_s").cast(pl.Float64), pl.col("pmr").cast(pl.String)
    )


def _read(name: str) -> pl.DataFrame:
    return pl.read_csv(files(__package__).joinpath(name).read_bytes(), comment_prefix="#")
