"""What the reproduction found: for each topology the times of the four transports, compared.

The unit of every mean is the point of a design: its two orders are averaged, and the interval is
over the points, since a design is a sample of networks.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from anabranch.papers import outcome, rows
from anabranch.papers.runs import Runs

from .studies import DESIGNS, TRANSPORTS

VALUES = {
    "single": "QUIC beside TCP, one path",
    "multi": "MP-QUIC beside MPTCP",
    "benefit_tcp": "what MPTCP makes of the second path",
    "benefit_quic": "what MP-QUIC makes of the second path",
}
"""Of a topology. The first two are 100 ln(time / time), about per cent, positive where QUIC is
sooner; the benefits are those of `benefit`."""


def benefit(multi: float, first: float, second: float) -> float:
    """How much of what the second path could add is there (experimental aggregation benefit).

    From the goodputs over both paths and over each alone: 0 is that of the better path, 1 that of
    both together, -1 nothing at all (Kaspar 2012; C. Paasch, R. Khalili, O. Bonaventure, "On the
    Benefits of Applying Experimental Design to Improve Multipath TCP", CoNEXT 2013).
    """
    best = max(first, second)
    if multi >= best:
        return (multi - best) / (first + second - best)
    return (multi - best) / best


def compared(times: pl.DataFrame) -> pl.DataFrame:
    """A row for each topology: `replication` (its point), `reversed`, and `VALUES`.

    `times` has topology, transport and `get.max_completion_ms` of each run; a topology over which a
    transport never ended its download is left out, in both orders.
    """
    medians = (
        times.filter(pl.col("get.completed") == 1)
        .group_by("topology", "transport")
        .agg(pl.col("get.max_completion_ms").median().alias("ms"))
        .pivot("transport", index="topology", values="ms")
        .drop_nulls()
    )
    found = {row["topology"]: row for row in medians.iter_rows(named=True)}
    made = []
    for name, row in found.items():
        is_reversed = name.endswith("r")
        other = found.get(name.removesuffix("r") if is_reversed else f"{name}r")
        if other is None:
            continue
        goodput = {one: 1 / row[one] for one in TRANSPORTS}
        made.append(
            {
                "replication": int(name.removesuffix("r")),
                "reversed": is_reversed,
                "single": 100 * math.log(row["tcp"] / row["quic"]),
                "multi": 100 * math.log(row["mptcp"] / row["mpquic"]),
                "benefit_tcp": benefit(goodput["mptcp"], goodput["tcp"], 1 / other["tcp"]),
                "benefit_quic": benefit(goodput["mpquic"], goodput["quic"], 1 / other["quic"]),
                **{f"{one}_ms": row[one] for one in TRANSPORTS},
            }
        )
    schema = {"replication": pl.Int64, "reversed": pl.Boolean}
    values = (*VALUES, *(f"{one}_ms" for one in TRANSPORTS))
    schema |= dict.fromkeys(values, pl.Float64)
    return pl.DataFrame(made, schema=schema).sort("replication", "reversed")


@dataclass(frozen=True)
class Material(rows.Evidence):
    """What claims are judged on: the topologies of every design under one reading."""

    runs: Mapping[str, Runs]

    @property
    def studies(self) -> Mapping[str, Runs]:
        """`low`, `high`, `low-loss`, `high-loss`, and `short`."""
        return self.runs

    def replications(self, study: str) -> int:
        """Points of a study."""
        return self.runs[study].frame["replication"].n_unique()


@dataclass(frozen=True)
class MultipathQuicOutcome(outcome.PaperOutcome):
    """Everything that terminal, page, record and JSON show."""

    compared: Mapping[str, Material]
    """By reading."""
    handovers: pl.DataFrame
    """`handover.rows`."""

    @property
    def base(self) -> Material:
        """Under the first reading."""
        return next(iter(self.compared.values()))


def study_of(design: str, size: str) -> str:
    """The name of a study in claims and tables."""
    return "short" if size == "short" else design


TITLES = {**DESIGNS, "short": "256 kB, low"}
"""Study -> what people call it."""
