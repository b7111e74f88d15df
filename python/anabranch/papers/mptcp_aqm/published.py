"""The numbers that the paper's text gives; its figures are lost."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import polars as pl

from anabranch.papers.intervals import Interval
from anabranch.papers.studies import published
from anabranch.papers.verdicts import SHARE_TOLERANCE, Verdict, above, verdict

Bound = Literal["is", "above", "below"]
WORDS = {"is": "", "above": "above ", "below": "below "}


@dataclass(frozen=True)
class Number:
    """One published number."""

    queue: str
    delay_ms: int
    """One-way delay of path A; 0 for a number that is said of all."""
    quantity: str
    bound: Bound
    value: float

    @property
    def is_rtt(self) -> bool:
        """Whether it is one of the six round-trip times."""
        return self.quantity.startswith("rtt_")

    def judge(self, ours: Interval) -> Verdict:
        """Within 10 %, or on the published side of a bound."""
        if self.bound == "is":
            tolerance = SHARE_TOLERANCE * self.value
            return verdict(self.value, ours.mean, ours.half_width, tolerance)
        holds = above(ours, self.value)
        if holds is None:
            return "open"
        return "reproduced" if holds == (self.bound == "above") else "not_reproduced"

    def text(self) -> str:
        """The number with its bound, as a table shows it."""
        return f"{WORDS[self.bound]}{self.value:g}"


@cache
def numbers() -> tuple[Number, ...]:
    """Every number, in the file's order."""
    rows = published(__package__, value=pl.Float64)
    return tuple(Number(**row) for row in rows.iter_rows(named=True))


def round_trip_times() -> tuple[Number, ...]:
    """The six that the rate of C is judged by."""
    return tuple(number for number in numbers() if number.is_rtt)
