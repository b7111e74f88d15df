"""The numbers that the paper's text gives."""

from importlib.resources import files

import polars as pl

from anabranch.papers.verdicts import SHARE_TOLERANCE, Verdict, verdict


def numbers() -> pl.DataFrame:
    """table, profile, quantity, value, bound."""
    content = files(__package__).joinpath("published.csv").read_bytes()
    return pl.read_csv(content, comment_prefix="#").with_columns(pl.col("value").cast(pl.Float64))


def value(profile: str, quantity: str) -> float:
    """The number that the paper gives for a quantity on a link."""
    return float(numbers().filter(profile=profile, quantity=quantity)["value"].item())


def tolerance(published: float) -> float:
    """How far ours may be away; for "none" a tenth of a percent."""
    return SHARE_TOLERANCE * published if published else 0.1


def verdict_of(bound: str, published: float, measured: float, half_width: float) -> Verdict:
    """The verdict of a number; where the paper says "more than", more is no deviation."""
    counted = min(measured, published) if bound == "above" else measured
    return verdict(published, counted, half_width, tolerance(published))
