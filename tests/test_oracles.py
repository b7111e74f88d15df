"""Our numbers compared with those of independent implementations."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import comparison_pages
from conftest import ROOT
from oracles import (
    failover,
    linux_aqm,
    linux_mptcp,
    linux_sctp,
    linux_sctp_figures,
    linux_sctp_rows,
    linux_tcp,
    media_controls,
    ns3_shared_queue,
)

GOLDEN = ROOT / "docs" / "linux-sctp.csv"
# Set-up, Path.Max.Retrans, PF threshold and RTOs -> how far the means may be from the kernel's
# numbers: as far as a timer's granularity allows, 8 ms of 128, 64 ms of 1000.
BOUNDS = {
    "black,1,off,100,100,100": {"gap_ms": 0.06, "first_unreachable_s": 0.04},
    "black,2,off,1000,1000,1000": {"gap_ms": 0.06, "stalled_s": 0.03, "first_unreachable_s": 0.03},
    "black,5,off,100,100,100": {"gap_ms": 0.02, "stalled_s": 0.02, "first_unreachable_s": 0.06},
    "all_black,5,off,1000,1000,1000": {"first_unreachable_s": 0.01, "comm_lost_s": 0.01},
    # The heartbeat after 30 s without data: the kernel's send buffer was full at 7.76 s.
    "all_black,5,off,3000,100,60000": {"first_unreachable_s": 0.01, "first_hb_p1_s": 0.02},
    "return,5,off,1000,1000,1000": {"first_hb_p1_s": 0.02, "available_s": 0.15},
    "hb100,2,off,3000,100,60000": {"gap_ms": 0.02, "stalled_s": 0.02, "first_unreachable_s": 0.02},
}


@pytest.fixture(scope="module")
def compared() -> dict[str, linux_sctp_rows.Row]:
    kernel = [row for row in linux_sctp_rows.kernel_rows() if _name(row) in BOUNDS]
    return {row.name: row for row in linux_sctp.compare(kernel, replications=20, jobs=2)}


def _name(row: dict[str, str]) -> str:
    return ",".join(row[name] for name in linux_sctp_rows.KEY)


@pytest.mark.parametrize("name", BOUNDS)
def test_linux_sctp_is_near_the_kernel(compared: dict[str, linux_sctp_rows.Row], name: str) -> None:
    for quantity, bound in BOUNDS[name].items():
        assert abs(compared[name].values[quantity].deviation) <= bound, quantity
    if "first_pf_s" in compared[name].values:
        assert compared[name].values["first_pf_s"].happens == 0


def test_the_golden_table_holds_these_runs(compared: dict[str, linux_sctp_rows.Row]) -> None:
    with GOLDEN.open(encoding="utf-8") as lines:
        golden = {_name(row): row for row in csv.DictReader(lines)}
    assert list(golden) == [_name(row) for row in linux_sctp_rows.kernel_rows()]
    for name, row in compared.items():
        for quantity in BOUNDS[name]:
            value = row.values[quantity]
            low, high = (float(golden[name][f"{quantity}.{end}"]) for end in ("low", "high"))
            assert low - 1e-6 <= value.low <= value.high <= high + 1e-6, (name, quantity)


def test_every_deviation_of_the_golden_table_has_a_cause() -> None:
    page = (ROOT / "docs" / "linux-sctp.md").read_text("utf-8")
    table = [line for line in page.splitlines() if line.startswith(("| 1 |", "| 2 |", "| 5 |"))]
    assert len(table) == len(linux_sctp_rows.kernel_rows())
    causes = {cell.strip() for line in table for cell in line.split("|")[8::3]}
    assert causes == {"", *linux_sctp.CAUSES}


def test_kernel_rows_of_all_setups() -> None:
    rows = linux_sctp_rows.kernel_rows()
    assert [row["setup"] for row in rows] == (
        ["black"] * 63 + ["all_black"] * 14 + ["return"] * 6 + ["hb100"] * 12
    )
    for row in rows:
        for name in linux_sctp_rows.SETUPS[row["setup"]].quantities:
            assert float(row[name]) >= -1, (row, name)
    first = next(row for row in rows if row["setup"] == "all_black")
    assert (first["first_hb_p1_s"], first["first_hb_p2_s"]) == ("-1", "45.144")


def test_set_ups_are_what_the_kernel_had() -> None:
    rows = {row["setup"]: row for row in linux_sctp_rows.kernel_rows()}
    toml = {name: linux_sctp_rows.scenario(row).to_toml() for name, row in rows.items()}
    assert toml["black"].count("timetable") == 1
    assert toml["all_black"].count("timetable") == 2
    assert toml["return"].count("timetable") == 1
    assert '"60 s"' in toml["return"]
    assert 'hb_interval = "100 ms"' in toml["hb100"]


def test_times_of_a_trace_are_the_first_ones_of_this_end() -> None:
    packets = [
        (4.0, "a", 0, "heartbeat"),
        (6.0, "b", 0, "heartbeat"),
        (7.0, "a", 1, "heartbeat"),
        (8.0, "a", 1, "heartbeat"),
        (59.0, "a", 0, "data"),
        (61.0, "a", 0, "data"),
    ]
    events = [
        (9.0, "b", "closed", "lost"),
        (10.0, "a", "path_changed", "path 0 is active"),
        (11.0, "a", "path_changed", "path 0 is active"),
        (12.0, "a", "closed", "lost"),
    ]

    def table(names: str, rows: Sequence[tuple[object, ...]]) -> dict[str, list[object]]:
        return dict(zip(names.split(), map(list, zip(*rows, strict=True)), strict=True))

    tables = {
        "packets": table("sent_s side path kind", packets),
        "events": table("time_s side event detail", events),
    }
    assert linux_sctp._traced(tables) == {
        "first_hb_p2_s": 7.0,
        "first_data_p1_s": 61.0,
        "available_s": 10.0,
        "comm_lost_s": 12.0,
    }


def test_the_figure_has_the_kernels_traffic(compared: dict[str, linux_sctp_rows.Row]) -> None:
    figure = linux_sctp_figures.failover(jobs=2)
    for axes in figure.axes:
        curves = [line for line in axes.lines if line.get_linestyle() != "None"]
        crosses = [line for line in axes.lines if line.get_marker() == "x"]
        assert len(curves) == len(crosses) == 7
        for curve, cross in zip(curves, crosses, strict=True):
            ours = dict(np.asarray(curve.get_xydata()))
            for retrans, kernel in np.asarray(cross.get_xydata()):
                assert ours[retrans] == pytest.approx(kernel, rel=0.1)
    times = linux_sctp_figures.times(list(compared.values()))
    assert [axes.get_title(loc="left") for axes in times.axes] == [
        setup.text for setup in linux_sctp_rows.SETUPS.values()
    ]


def test_verdicts() -> None:
    def value(kernel: float, mean: float, low: float, high: float) -> linux_sctp_rows.Value:
        return linux_sctp_rows.Value(kernel, mean, low, high, 1, 0.5, 5.0, observed_s=89.5)

    assert value(6.0, 6.09, 6.0, 6.2).verdict == "within"
    assert value(6.0, 6.2, 5.9, 6.4).verdict == "in_range", "20 % from the blackout on"
    assert value(6.0, 6.2, 6.1, 6.4).verdict == "outside"
    assert value(float("nan"), 50.0, 40.0, 80.0).verdict == "outside"
    assert value(float("nan"), 50.0, 40.0, 90.0).verdict == "in_range", "later than it was observed"


@pytest.mark.parametrize("setup", linux_sctp_rows.SETUPS)
def test_every_column_has_a_name_of_its_own(
    compared: dict[str, linux_sctp_rows.Row], setup: str
) -> None:
    heads = linux_sctp.heads(setup)
    assert len(set(heads)) == len(heads)
    assert all(head.split(":")[0].endswith((", s", ", ms")) for head in heads[2:])
    row = next(row for row in compared.values() if row.key["setup"] == setup)
    assert len(linux_sctp.cells(row)) == len(heads)


def test_a_stale_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for oracle in (linux_aqm, linux_mptcp, linux_sctp, linux_tcp, media_controls, ns3_shared_queue):
        monkeypatch.setattr(oracle, "compare", lambda *_, **__: iter(()))
    monkeypatch.setattr(failover, "sweep", lambda: iter(()))
    monkeypatch.setattr(linux_tcp, "summary", lambda _: [])
    pages_with_tables = ("linux-aqm", "linux-mptcp", "linux-sctp", "linux-tcp", "ns3-shared-queue")
    for name in ("failover", "media", *pages_with_tables):
        (tmp_path / f"{name}.md").write_text("before <!-- generated: make oracles --> after")
    monkeypatch.setattr("sys.argv", ["oracles", "--check", str(tmp_path)])
    assert comparison_pages.main() == 1
    assert "linux-sctp.csv is stale" in capsys.readouterr().err
