"""The paper's factors and runs. `sheet.toml` says how figures and tables name their values."""

from typing import NamedTuple, Self

import polars as pl

from anabranch.papers import runs
from anabranch.papers.sheet import Sheet

SHEET = Sheet(__package__)

CLOCKS = ("on_arrival", "slot")
CLOCK_NAMES = {"on_arrival": "on arrival (ns-2)", "slot": "every 5 ms (the paper's words)"}

RTO_MAX_S = tuple(reversed(SHEET.axes["rto_max_s"].numbers))
PMR = (0, 1, 2, 5)
DELAY_CENTRIC = ("off", "on")
LOSSES = (0.005, 0.02, 0.1)
WAITS_MS = (5, 25, 75)

COLUMNS = [(state, pmr) for state in DELAY_CENTRIC for pmr in PMR]
"""Table 2's columns: delay-centric state and Path.Max.Retrans."""
FACTORS = ["delay_centric", "wait0_ms", "wait1_ms", "loss0", "loss1", "pmr", "rto_max_s"]


class Setting(NamedTuple):
    """A cell of Table 2."""

    rto_max_s: float
    pmr: int
    delay_centric: str

    def __str__(self) -> str:
        return f"RTO.Max {self.rto_max_s:g} s, PMR {self.pmr}, delay-centric {self.delay_centric}"


SETTING = list(Setting._fields)


class Runs(runs.Runs):
    """Runs of the paper's configurations under one loss clock: FACTORS, `replication`, values."""

    VALUE = "mos"

    def both_losses(self, loss: float) -> Self:
        """The runs with this mean loss on both paths."""
        return self.where(loss0=loss, loss1=loss)

    def at_25_ms(self) -> Self:
        """Mean queue delays of 25 ms on both paths."""
        return self.where(wait0_ms=25, wait1_ms=25)


def table2_means(runs: Runs) -> pl.DataFrame:
    """Table 2 as ours: rto_max_s, delay_centric, pmr, mean, half_width, n."""
    return runs.both_losses(0.1).by(["rto_max_s", "delay_centric", "pmr"])
