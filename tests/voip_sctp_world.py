"""Synthetic studies for the tests of voip-sctp.

Runs whose MOS is a given function of the factors.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from anabranch.papers.voip_sctp import published
from anabranch.papers.voip_sctp.factors import (
    DELAY_CENTRIC,
    FACTORS,
    LOSSES,
    PMR,
    RTO_MAX_S,
    WAITS_MS,
    Runs,
)

Mos = Callable[..., float]
"""MOS without noise by the factors' names."""

REPLICATIONS = 12


def as_published(
    *, delay_centric: str, loss0: float, loss1: float, pmr: int, rto_max_s: float, **_: object
) -> float:
    """The paper's Table 2 at 10 % loss, less and less of its effect at less loss."""
    table: dict[tuple[object, ...], float] = {
        (row["rto_max_s"], row["delay_centric"], row["pmr"]): row["mos"]
        for row in published.table2().iter_rows(named=True)
    }
    share = {0.005: 0.0, 0.02: 0.2, 0.1: 1.0}
    mean_share = (share[loss0] + share[loss1]) / 2
    return 4.2 - mean_share * (4.2 - table[rto_max_s, delay_centric, pmr])


def runs(
    mos: Mos = as_published,
    *,
    clock: str = "on_arrival",
    noise: float = 0.05,
    noise_at: Callable[[float], float] = lambda _: 1.0,
    everywhere: bool = False,
) -> Runs:
    """Table 2's cells and those with 25 ms and equal losses on both paths.

    All 7,128 if `everywhere`.
    """
    cells: list[dict[str, Any]] = [
        dict(zip(FACTORS, values, strict=True))
        for values in product(
            DELAY_CENTRIC, WAITS_MS, WAITS_MS, LOSSES, LOSSES, PMR, sorted(RTO_MAX_S, reverse=True)
        )
    ]
    if not everywhere:
        cells = [cell for cell in cells if _is_needed(cell)]
    count = 2 if everywhere else REPLICATIONS
    rng = np.random.default_rng(7)
    common = rng.normal(size=count)
    frames = []
    for cell in cells:
        expected = mos(**cell)
        own = rng.normal(size=count)
        spread = noise * noise_at(cell["rto_max_s"])
        frames.append(
            {
                **cell,
                "replication": list(range(count)),
                "mos": (expected + spread * (common + own)).tolist(),
                "mean_delay_ms": (65.0 + own).tolist(),
            }
        )
    frame = pl.DataFrame(frames).explode("replication", "mos", "mean_delay_ms")
    return Runs(frame, clock)


def _is_needed(cell: dict[str, Any]) -> bool:
    losses = {cell["loss0"], cell["loss1"]}
    waits = {cell["wait0_ms"], cell["wait1_ms"]}
    return losses == {0.1} or (len(losses) == 1 and waits == {25})


def interruptions(*, pmr_5: str = "backed_off", pmr_0_and_1: str = "dormant") -> pl.DataFrame:
    """Claim 1's material with 80 % of the interrupted time in one cause."""
    rows = []
    for pmr, replication in product(PMR, range(6)):
        cause = pmr_5 if pmr == 5 else pmr_0_and_1
        share = 0.8 + 0.01 * replication
        other = "dormant" if cause == "backed_off" else "backed_off"
        rows.append(
            {"pmr": pmr, "replication": replication, "interrupted_s": 9.0 + replication / 10}
            | {cause: share, other: 1 - share}
        )
    return pl.DataFrame(rows)


def slot(*, rto_max_s: float, delay_centric: str, **_: object) -> float:
    """A world in which RTO.Max hardly matters."""
    return 3.0 + 0.1 * (delay_centric == "on") + 0.05 * (rto_max_s <= 0.2)
