"""Flows with a `count`: their scalars are stored as lists, and cost what is asked of them."""

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import anabranch as package
from anabranch import AnabranchError, Scenario, StoreError, Study, report
from anabranch.store import query, shard_files, tables
from anabranch.store.query import Tables
from conftest import Command, written

FLOWS = """\
name = "many"
[run]
duration = "2 s"
[links.wire]
ends = ["a", "b"]
rate = "2 Mbit/s"
delay = "5 ms"
[paths.wire]
via = ["wire"]
[flows.call]
from = "a"
to = "b"
paths = ["wire"]
count = 3
transport = { kind = "udp" }
app = { kind = "voip", codec = "g711", start = "0 s", duration = "1 s" }
[flows.last_7]
from = "a"
to = "b"
paths = ["wire"]
transport = { kind = "tcp" }
app = { kind = "bulk", bytes = "2 kB" }
"""

AXES = """\
[sweep]
replications = 2
[sweep.axes]
calls = { set = "flows.call.count", values = [3, 1, 5] }
delay = { set = "links.wire.delay", values = ["5 ms", "6 ms"] }
"""


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return package.load(FLOWS + AXES)


@pytest.fixture(scope="module")
def reference(scenario: Scenario) -> pl.DataFrame:
    """The frame from a column for each scalar of each run, as single runs have them."""
    runs = [
        package.run(scenario, cell=cell, replication=replication)
        for cell in range(6)
        for replication in range(2)
    ]
    names = sorted({name for run in runs for name in run.summary})
    table = {name: [dict(run.summary).get(name, float("nan")) for run in runs] for name in names}
    found = pl.DataFrame(table, schema=dict.fromkeys(names, pl.Float64))
    return found.select(column for column in found if column.is_not_nan().any())


def scalars(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(name for name in frame.columns if "." in name)


@pytest.mark.parametrize("is_folder", [True, False])
def test_rows_are_those_of_single_runs(
    scenario: Scenario, reference: pl.DataFrame, tmp_path: Path, *, is_folder: bool
) -> None:
    study = Study(scenario, tmp_path / "out" if is_folder else None)
    study.run()
    assert_frame_equal(scalars(study.frame()), reference, check_exact=True)
    some = study.frame(columns=["call_5.*", "last_7.*"])
    wanted = [name for name in reference.columns if name.startswith(("call_5.", "last_7."))]
    assert_frame_equal(scalars(some), reference.select(wanted), check_exact=True)
    # Named, it is there even where no run has a value; a member that no run has is not.
    assert "call_1.nothing" not in study.frame(columns=["call_1.nothing", "call_6.mos"]).columns
    assert scalars(study.frame(columns=["call_6.mos"])).is_empty()


def test_a_file_has_a_column_for_all_members(tmp_path: Path) -> None:
    shapes = []
    for count in (2, 60):
        out = tmp_path / str(count)
        Study(FLOWS.replace("count = 3", f"count = {count}"), out, jobs=1).run()
        (shard,) = out.glob("rows/*.parquet")
        rows = pl.read_parquet(shard)
        assert rows["call_*"].to_list() == [count]
        assert rows["call_*.mos"].list.len().to_list() == [count]
        assert "last_7.sent_bytes" in rows.columns
        shapes.append(rows.columns)
    assert shapes[0] == shapes[1]


def test_reading_one_scalar_costs_one_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[int, list[list[str] | None]] = {}
    for count in (2, 60):
        out = tmp_path / str(count)
        Study(FLOWS.replace("count = 3", f"count = {count}"), out, jobs=1).run()
        asked: list[list[str] | None] = []

        def counting(
            path: Path, columns: list[str] | None = None, asked: list[Any] = asked
        ) -> pl.DataFrame:
            asked.append(columns)
            return tables.read_table(path, columns)

        with monkeypatch.context() as patched:
            patched.setattr(shard_files, "read_table", counting)
            package.read(out, columns=["call_2.mos"])
            assert ["call_*.mos"] in asked
            one = len(asked)
            package.read(out)
        read[count] = asked[one:]
        assert one < 6
    # Not more often for thirty times as many scalars.
    assert len(read[60]) <= 4 * len(read[2])


def test_a_sweep_of_one_takes_a_few_times_as_long_as_its_run(tmp_path: Path) -> None:
    scenario = package.load(FLOWS.replace("count = 3", "count = 1500"), {"run.duration": "1 ms"})
    begun = time.process_time()
    package.run(scenario)
    run = time.process_time() - begun
    study = Study(scenario, tmp_path / "out", jobs=1)
    study.run()
    study.frame(columns=["*.mos"])
    study.query("SELECT count(*), avg(sent) FROM members")
    # With a column for each of 45,000 scalars, the first two took 500 times as long as the run.
    assert time.process_time() - begun - run < 15 * run + 3.0


def test_a_report_reads_thousands_without_a_value_in_a_few_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FLOWS.replace("count = 3", "count = 2000").replace('start = "0 s"', 'start = "9 s"')
    study = Study(text.replace('"2 s"', '"1 ms"'), tmp_path / "out", jobs=1)
    study.run()
    read: list[int] = []

    def frame(study: Study, *, columns: list[str]) -> pl.DataFrame:
        read.append(len(columns))
        return whole(study, columns=columns)

    whole = Study.frame
    monkeypatch.setattr(Study, "frame", frame)
    names = [f"call_{member}.mos" for member in range(1, 2001)]
    assert report._chosen(study, [*names, "last_7.goodput_kbit_per_s"])
    assert sum(read) > 2000
    assert len(read) < 30


def test_members_are_a_table_of_queries(scenario: Scenario, tmp_path: Path) -> None:
    study = Study(scenario, tmp_path / "out")
    study.run()
    rows = study.frame()
    found = study.query("SELECT * FROM members ORDER BY cell, replication, member")
    assert found.columns[:7] == ["cell", "replication", "seed", "calls", "delay", "flow", "member"]
    of_cell = found.group_by("cell", "replication", maintain_order=True).len()["len"].to_list()
    assert of_cell == [3] * 4 + [5] * 4  # a flow alone is no member
    for row in found.iter_rows(named=True):
        (run,) = rows.filter(cell=row["cell"], replication=row["replication"]).to_dicts()
        for name in ("mos", "sent", "p95_delay_ms", "udp.a.packets_sent"):
            expected = run.get(f"call_{row['member']}.{name}", float("nan"))
            assert row.get(name, float("nan")) in (expected, None) or np.isnan(expected)
    assert found["sent"].sum() > 0
    with pytest.raises(AnabranchError, match="the table `members` has it"):
        study.query("SELECT p95_delay_ms FROM rows")


def test_an_axis_keeps_its_name_beside_a_scalar(tmp_path: Path) -> None:
    axis = '[sweep.axes]\nSent = { set = "links.wire.delay", values = ["5 ms", "6 ms"] }\n'
    study = Study(FLOWS + axis, tmp_path / "out")
    study.run()
    found = study.query('SELECT Sent, sum("member.sent") AS n FROM members GROUP BY ALL ORDER BY 1')
    assert found["Sent"].to_list() == [0.005, 0.006]
    assert (found["n"] > 0).all()


def test_many_scalars_are_columns_of_rows_only_when_named(
    scenario: Scenario,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    study = Study(scenario, tmp_path / "out")
    study.run()
    all_columns = study.query("SELECT * FROM rows").columns
    assert "call_5.mos" in all_columns
    monkeypatch.setattr(query, "MOST_COLUMNS", 60)
    with Tables(study.out or "") as opened:
        with caplog.at_level(logging.WARNING):
            assert opened.frame("SELECT count(*) FROM rows").item() == 12
            named = opened.frame('SELECT "Call_5.Mos", "last_7.sent_bytes" FROM rows ORDER BY cell')
        assert not caplog.text
        assert named.columns[0].lower() == "call_5.mos"
        known = study.frame(columns=["call_5.mos"])["call_5.mos"].fill_nan(None)
        assert named[named.columns[0]].to_list() == known.to_list()
        fewer = opened.frame("SELECT * FROM rows").columns
        assert "the table `members` has all of them" in caplog.text
        assert set(fewer) == {name for name in all_columns if not name.startswith("call_")}
        with pytest.raises(AnabranchError, match=r"no column `call_6.mos`"):
            opened.frame('SELECT "call_6.mos" FROM rows')


def test_equal_runs_count_once_and_other_values_are_refused(
    scenario: Scenario, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    Study(scenario, out, jobs=1).run()
    (shard,) = out.glob("rows/*.parquet")
    rows = pl.read_parquet(shard)
    before = package.read(out)
    twin = shard_files.write(out / "rows", rows[:5])
    assert_frame_equal(package.read(out), before, check_exact=True)
    twin.path.unlink()
    shard_files.write(
        out / "rows", rows.with_columns(pl.col("call_*.mos").list.eval(pl.element() + 1))
    )
    with pytest.raises(StoreError, match=r"disagree about `call_1\.mos`"):
        package.read(out)


def test_a_flow_whose_name_ends_with_a_large_number(tmp_path: Path) -> None:
    text = FLOWS.replace("flows.last_7", "flows.call_99999999999")
    study = Study(text, tmp_path / "out")
    study.run()
    names = ["call_99999999999.sent_bytes", "call_3.sent"]
    assert scalars(study.frame(columns=names)).columns == names
    rows = study.query('SELECT "call_99999999999.sent_bytes", "call_3.sent" FROM rows')
    assert rows.height == 1


def test_a_study_that_keeps_one_member(tmp_path: Path) -> None:
    text = FLOWS + '[sweep]\nmetrics = ["call_2.mos"]\n'
    study = Study(text, tmp_path / "out")
    study.run()
    assert scalars(study.frame()).columns == ["call_2.mos"]
    assert study.query("SELECT member, mos FROM members WHERE mos > 0")["member"].to_list() == [2]


def test_a_sweep_prints_a_few_of_many_scalars(anabranch: Command, tmp_path: Path) -> None:
    written(tmp_path / "many.toml", FLOWS.replace("count = 3", "count = 30"))
    result = anabranch("sweep", "many.toml", "--out", "out")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(".mos   ± 95 %") == 10
    assert "these are 10 of 30 scalars" in result.stdout
    assert (
        "call_30.mos"
        in anabranch("sweep", "many.toml", "--out", "out", "--metric", "call_30.mos").stdout
    )


def test_a_large_study_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Study(FLOWS, tmp_path / "small").run()
    assert not caplog.text
    monkeypatch.setattr("anabranch.studies.execution._MUCH", 100)
    Study(FLOWS, tmp_path / "large").run()
    assert "`sweep.metrics` keeps only those that you need" in caplog.text
