"""The paper's own numbers, and the rule that compares ours with them."""

import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import polars as pl

Verdict = Literal["reproduced", "partly", "not_reproduced"]

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
SHARE_TOLERANCE = 0.10
"""The same for other quantities, as a share of the published value."""


@dataclass(frozen=True)
class Comparison:
    """One published number beside ours, as the JSON of `reproduce` has it."""

    table: str
    key: dict[str, float | int | str]
    published: float
    measured: float
    half_width: float
    verdict: Verdict
    unit: str = "MOS"

    @property
    def deviation(self) -> float:
        """Ours minus the published value."""
        return self.measured - self.published

    def as_json(self) -> dict[str, Any]:
        """As the JSON of `reproduce` has it."""
        return {
            "table": self.table,
            "key": self.key,
            "published": self.published,
            "measured": finite_or_none(self.measured),
            "half_width": finite_or_none(self.half_width),
            "verdict": self.verdict,
        }


def compare(
    table: str,
    key: dict[str, float | int | str],
    published: float,
    measured: float,
    half_width: float,
    *,
    unit: str = "MOS",
) -> Comparison:
    """A comparison with its verdict."""
    tolerance = MOS_TOLERANCE if unit == "MOS" else SHARE_TOLERANCE * abs(published)
    return Comparison(
        table,
        key,
        published,
        measured,
        half_width,
        verdict(published, measured, half_width, tolerance),
        unit,
    )


def verdict(published: float, measured: float, half_width: float, tolerance: float) -> Verdict:
    """Reproduced within the larger of half-width and tolerance, partly within twice that.

    The paper gives no half-widths for its table, so the combined half-width is ours alone; one
    run's, NaN, counts as 0.
    """
    allowed = max(0.0 if math.isnan(half_width) else half_width, tolerance)
    distance = abs(measured - published)
    if distance <= allowed:
        return "reproduced"
    return "partly" if distance <= 2 * allowed else "not_reproduced"


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


def finite_or_none(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return value if math.isfinite(value) else None


def _read(name: str) -> pl.DataFrame:
    return pl.read_csv(files(__package__).joinpath(name).read_bytes(), comment_prefix="#")
