"""Video over two paths: what docs/media.md says of the ways to use them."""

import polars as pl
import pytest

import anabranch
import video_two_paths
from anabranch.studies import library


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return video_two_paths.measured(replications=3)


def mean(rows: pl.DataFrame, way: str, name: str) -> float:
    value = rows.filter(pl.col("way") == way)[name].mean()
    assert isinstance(value, float)
    return value


def test_copies_on_both_paths_freeze_least_and_cost_twice_the_bytes(rows: pl.DataFrame) -> None:
    frozen = {
        way: mean(rows, way, "call.frozen_percent")
        for way in ("Wi-Fi alone", "LTE alone", "copies on both")
    }
    assert frozen["copies on both"] < 0.5 * frozen["Wi-Fi alone"]
    for link in ("wifi_mb", "lte_mb"):
        # 7.8 MB are sent on each; Wi-Fi loses 5 % of them.
        assert mean(rows, "copies on both", link) > 7.2


def test_every_way_of_the_scenario_is_a_row_of_the_table(rows: pl.DataFrame) -> None:
    ways = rows["way"].unique(maintain_order=True).to_list()
    table = video_two_paths.table(rows).splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in table[2:]] == ways
    assert rows.height == 3 * len(ways)


def test_feedback_in_the_trace_names_its_path() -> None:
    study = anabranch.load(library.scenarios()[video_two_paths.SCENARIO])
    keys = [study.cell_key(cell)["way"] for cell in range(study.cell_count)]
    result = anabranch.run(study, cell=keys.index("copies on both"), trace=True)
    media = result.traces["media"].filter(pl.col("side") == "a")
    delays = media.group_by("path").agg(pl.col("one_way_delay_ms").median()).sort("path")
    assert delays["path"].to_list() == [0, 1]
    wifi, lte = delays["one_way_delay_ms"]
    assert 12 <= wifi < 20
    assert 35 <= lte < 45
    reported = result.summary["call.rtp.a.path1.mean_delay_ms"]
    assert reported == pytest.approx(lte, abs=3)
