"""TCP compared with the Linux kernel and ns-3."""

import csv
import io
from dataclasses import replace

import pytest
from rich.console import Console

from anabranch.support import terminal
from conftest import ROOT
from oracles import linux_tcp

GOLDEN = ROOT / "docs" / "linux-tcp.csv"
NEAR = {("reno", "0"): 0.01, ("cubic", "0"): 0.01, ("reno", "5"): 0.15, ("bbr", "5"): 0.05}
"""Control and loss in percent -> how far our mean of few runs may be from the kernel's."""


@pytest.fixture(scope="module")
def compared() -> dict[tuple[str, str], linux_tcp.Row]:
    kernel = [row for row in linux_tcp.kernel_rows() if (row.control, row.loss_percent) in NEAR]
    rows = linux_tcp.compare(kernel, replications=9, jobs=2)
    return {(row.control, row.loss_percent): row for row in rows}


@pytest.mark.parametrize("key", NEAR)
def test_linux_tcp_is_near_the_kernel(
    compared: dict[tuple[str, str], linux_tcp.Row], key: tuple[str, str]
) -> None:
    assert abs(compared[key].deviation) <= NEAR[key]


def test_the_kernel_has_three_runs_of_every_cell() -> None:
    rows = linux_tcp.kernel_rows()
    assert len(rows) == 13 * 5
    assert all(len(row.kernel) == len(row.lost) == 3 for row in rows)
    assert sum(row.ns3 == row.ns3 for row in rows) == 13 * 5, "ns-3 has them all"


def test_the_golden_table_meets_the_bar() -> None:
    """Over all cells with loss the mean deviation is at most a third of that of ns-3."""
    with GOLDEN.open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["loss_percent"] != "0"]
    assert len(rows) == 13 * 4
    ours, ns3 = (
        sum(abs(float(row[name]) / float(row["kernel"]) - 1) for row in rows) / len(rows)
        for name in ("ours", "ns3")
    )
    assert ours <= ns3 / 3


def test_every_deviation_of_the_golden_table_has_a_cause() -> None:
    page = (ROOT / "docs" / "linux-tcp.md").read_text("utf-8")
    # Behind it the page has the virtual kernel's table.
    page = page.partition("## The same kernel series on our links")[0]
    assert "| ? |" not in page
    assert page.count("| reno |") == 5


def test_verdicts() -> None:
    def row(ours: float, at_its_loss: float = 0.0) -> linux_tcp.Row:
        return linux_tcp.Row("reno", "1", 1000.0, 120.0, ours, 50.0, at_its_loss, 1200.0)

    assert (row(900.0).verdict, row(900.0).cause) == ("within", "")
    assert row(871.0).verdict == "in_interval", "less than hypot(120, 50) = 130 away"
    assert (row(869.0).verdict, row(869.0).cause) == ("outside", "?")
    assert row(869.0, 930.0).cause == "a"


@pytest.mark.parametrize("width", [40, 80, 132])
def test_the_table_fits_the_terminal_with_every_number_whole(width: int) -> None:
    row = linux_tcp.Row("westwood", "0.5", 9480.0, 120.0, 9544.0, 5.0, 9505.0, 9200.0)
    lines = [linux_tcp.cells(row)]
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(terminal.side_by_side(linux_tcp.HEADS, lines, width, 2))
    text = console.export_text()
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert set(lines[0]) - {""} <= set(text.split())
    assert "westwood" in text


def test_what_common_patterns_of_loss_do_is_said_above_the_table() -> None:
    """The kernel's deviations go together, so three patterns are three samples, not 39."""

    def row(control: str, runs: tuple[float, ...], at_its_loss: float) -> linux_tcp.Row:
        kernel = sum(runs) / 3
        ours = 0.9 * kernel
        lost = (0.008, 0.009, 0.01)
        return linux_tcp.Row(control, "1", kernel, 1.0, ours, 1.0, at_its_loss, 1.0, runs, lost)

    low = [row("reno", (900.0, 1000.0, 1100.0), 950.0), row("bbr", (90.0, 100.0, 110.0), 96.0)]
    (said,) = linux_tcp.notes(low)
    assert said == (
        "At 1 % loss all 2 controls read below Linux, by 10.0% on average, because all of the"
        " kernel's saw the same 3 patterns of loss, which took 0.90% of the packets: where as many"
        " are lost, ours are 3.9% below with an interval of ± 24.0% over the 3 patterns, too few"
        " to tell it from none."
    )
    other = replace(low[0], control="cubic", ours=1100.0)
    assert linux_tcp.notes([*low, other]) == []
    assert linux_tcp.notes([replace(one, loss_percent="0") for one in low]) == []


def test_all_controls_read_low_at_ten_percent_and_the_page_says_so() -> None:
    with GOLDEN.open(encoding="utf-8") as lines:
        golden = [row for row in csv.DictReader(lines) if row["loss_percent"] == "10"]
    measured = {row.control: row for row in linux_tcp.kernel_rows() if row.loss_percent == "10"}
    rows = [
        linux_tcp.Row(
            row["control"],
            "10",
            float(row["kernel"]),
            float(row["kernel_half_width"]),
            float(row["ours"]),
            float(row["half_width"]),
            float(row["ours_at_its_loss"]),
            float(row["ns3"]),
            measured[row["control"]].kernel,
            measured[row["control"]].lost,
        )
        for row in golden
    ]
    (said,) = linux_tcp.notes(rows)
    assert said.startswith("At 10 % loss all 13 controls read below Linux, by 6.5% on average")
    assert said.endswith("over the 3 patterns, too few to tell it from none.")
    assert said in (ROOT / "docs" / "linux-tcp.md").read_text("utf-8")
