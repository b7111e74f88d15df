"""The paper's own numbers, and the rule that compares ours with them."""

from importlib.resources import files

import polars as pl

from anabranch.papers.verdicts import SHARE_TOLERANCE, PublishedNumber, verdict

CLOCKS = ("on_arrival", "slot")
CLOCK_NAMES = {"on_arrival": "on arrival (ns-2)", "slot": "every 5 ms (the paper's words)"}

RTO_MAX_S = (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.12, 0.1, 0.08, 0.05, 0.02)
PMR = (0, 1, 2, 5)
DELAY_CENTRIC = ("off", "on")
LOSSES = (0.005, 0.02, 0.1)
WAITS_MS = (5, 25, 75)

COLUMNS = [(state, pmr) for state in DELAY_CENTRIC for pmr in PMR]
"""Table 2's columns: delay-centric state and Path.Max.Retrans."""

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
