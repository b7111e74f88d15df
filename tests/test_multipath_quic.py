"""The study `multipath-quic`: points, queues under each reading, comparisons, claims, the page."""

import math
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from anabranch.papers.multipath_quic import PAPER, studies
from anabranch.papers.multipath_quic.outcome import benefit, compared
from anabranch.papers.multipath_quic.studies import DESIGNS
from anabranch.papers.multipath_quic.studies import Path as NetworkPath
from anabranch.papers.studies import Effort

RATE = st.floats(0.1, 100)


def test_every_design_has_253_points() -> None:
    points = studies.designs()
    assert points.group_by("design").len().sort("design").rows() == sorted(
        (design, 253) for design in DESIGNS
    )
    for design in DESIGNS:
        assert points.filter(design=design)["point"].sort().to_list() == list(range(253))
        losses = points.filter(design=design).select(pl.max_horizontal("loss1", "loss2").max())
        assert (losses.item() > 0) == design.endswith("loss")


def test_a_topology_is_there_in_both_orders() -> None:
    found = dict(studies.topologies("low", 84))
    assert list(found) == ["0", "0r", "84", "84r", "168", "168r", "252", "252r"]
    assert found["84r"] == found["84"][::-1]


def test_the_queues_of_each_reading() -> None:
    path = NetworkPath(rate=51.83, delay=10.5, queue=0.048, loss=0)
    assert path.packets("netem") == 1_000
    assert path.packets("delay") == 207  # 51.83 Mbit/s in 48 ms
    assert path.packets("bdp") == 90  # in 21 ms
    assert NetworkPath(0.14, 13.6, 0.034, 0).packets("delay") == 10


@given(multi=RATE, first=RATE, second=RATE)
def test_the_benefit_is_0_at_the_better_path_and_1_at_both(
    multi: float, first: float, second: float
) -> None:
    best = max(first, second)
    assert benefit(first + second, first, second) == pytest.approx(1)
    assert benefit(best, first, second) == 0
    assert (benefit(multi, first, second) > 0) == (multi > best)
    assert benefit(multi, first, second) > -1


def _times(**ms: float) -> pl.DataFrame:
    """A point in both orders, with these times of each transport."""
    rows = [
        {"topology": topology, "transport": transport, "get.completed": 1.0, COLUMN: value}
        for topology in ("3", "3r")
        for transport, value in ms.items()
    ]
    return pl.DataFrame(rows)


COLUMN = "get.max_completion_ms"


def test_topologies_are_compared() -> None:
    found = compared(_times(tcp=200, quic=100, mptcp=150, mpquic=50))
    assert found["replication"].to_list() == [3, 3]
    assert found["reversed"].to_list() == [False, True]
    for row in found.iter_rows(named=True):
        assert row["single"] == pytest.approx(100 * math.log(2))
        assert row["multi"] == pytest.approx(100 * math.log(3))
        # Over both paths QUIC has what both have alone, MPTCP a third more than the better one.
        assert row["benefit_quic"] == pytest.approx(1)
        assert row["benefit_tcp"] == pytest.approx(1 / 3)


def test_a_download_that_does_not_end_leaves_its_topology_out() -> None:
    times = _times(tcp=200, quic=100, mptcp=150, mpquic=50).with_columns(
        pl.when(pl.col("transport") == "mpquic", pl.col("topology") == "3r")
        .then(0.0)
        .otherwise(pl.col("get.completed"))
        .alias("get.completed")
    )
    assert compared(times).is_empty()


def test_the_paper_is_reproduced_end_to_end(tmp_path: Path) -> None:
    effort = Effort({"step": 252, "short": 252, "runs": 1})
    found = PAPER.compute("smoke", effort, tmp_path, 1)
    # Points 0 and 252 in both orders, four transports, five studies, four readings; five handovers.
    assert found.total_runs == 4 * 4 * 5 * 4 + 5
    for material in found.compared.values():
        assert all(runs.frame.height == 4 for runs in material.runs.values())
    assert {one.verdict for one in found.claims} <= {
        "open",
        "partly",
        "not_reproduced",
        "reproduced",
    }
    answered = found.handovers.filter(pl.col("transport").str.starts_with("MP-QUIC"))
    assert answered["answered"].to_list() == [25, 25]
    page = PAPER.page(found, dict.fromkeys(PAPER.figures(found), "<svg/>"))
    assert "Multipath QUIC" in page
    assert all(make() for make in PAPER.figures(found).values())
    assert "## Claims" in PAPER.record(found)
    PAPER.show(found, Console(width=80))
