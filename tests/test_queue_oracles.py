"""Queues and MPTCP compared with Linux, and queues compared with ns-3."""

import csv
from types import ModuleType

import pytest

from conftest import ROOT
from oracles import linux_aqm, linux_mptcp, ns3_shared_queue, values
from oracles.values import Measured, Value

ORACLES: dict[str, ModuleType] = {
    "linux-aqm": linux_aqm,
    "linux-mptcp": linux_mptcp,
    "ns3-shared-queue": ns3_shared_queue,
}


def _near(oracle: ModuleType, replications: int = 12, **key: str) -> dict[str, Value]:
    rows = [row for row in oracle.kernel_rows() if row.key == key]
    assert rows
    return {value.quantity: value for value in oracle.compare(rows, replications, 2)}


def test_the_kernels_slow_start_is_repeated_to_the_packet() -> None:
    found = _near(linux_aqm, queue="pfifo-limit-1000", control="reno")
    assert found["dropped"].mean == found["dropped"].theirs == 1038
    assert abs(found["worst flow"].deviation) < 0.001


@pytest.mark.parametrize("queue", ["codel", "fq_codel", "fq_pie", "cake-10mbit"])
def test_queues_drop_as_the_kernels_do(queue: str) -> None:
    found = _near(linux_aqm, queue=queue, control="cubic")
    assert abs(found["goodput"].deviation) < 0.01
    assert abs(found["dropped"].deviation) < 0.12


def test_a_shared_queue_is_near_that_of_ns3() -> None:
    found = _near(ns3_shared_queue, rate="1", profile="linux", delay="10", queue="codel")
    for quantity in ("goodput / C", "rtt A", "rtt B", "sojourn"):
        assert found[quantity].verdict == "within", quantity


def test_only_the_receivers_window_limits_as_in_ns3() -> None:
    # A send buffer of the window's size is filled in bursts, which path A's window outgrows.
    found = _near(ns3_shared_queue, rate="10", profile="linux", delay="100", queue="fqcodel")
    for quantity in ("cwnd A", "dropped", "queue"):
        assert found[quantity].verdict in ("within", "in_range"), quantity


def test_runs_end_when_both_flows_have_delivered_everything() -> None:
    key = {"rate": "10", "profile": "linux", "delay": "1", "queue": "pfifo"}
    run = ns3_shared_queue._run(key, "cbr", 0)
    # 4 MB at 72 % of 10 Mbit/s.
    assert 0.6 < run["goodput / C"] < 0.75
    assert run["rtt A"] > 10


def test_two_subflows_carry_what_two_paths_do() -> None:
    found = _near(linux_mptcp, case="mptcp", control="cubic")
    assert abs(found["goodput"].deviation) < 0.03
    found = _near(linux_mptcp, case="tcp", control="cubic")
    assert abs(found["goodput"].deviation) < 0.01


@pytest.mark.parametrize("case", ["path 1 black", "path 1 black, path 2 a backup"])
def test_a_black_path_stalls_a_transfer_as_long_as_in_the_kernel(case: str) -> None:
    # CUBIC's and BBR's are compared at more moments (docs/beside-linux.md).
    found = _near(linux_mptcp, 1, case=case, control="reno")
    assert found["stall"].verdict in ("within", "in_range")


def test_files_have_every_setting() -> None:
    assert len(linux_aqm.kernel_rows()) == 8 * 2 * 7
    assert len(linux_mptcp.kernel_rows()) == 3 * (2 + 3) + 3 * 3 - 1  # BBR does not return
    assert len(ns3_shared_queue.kernel_rows()) == 27 * 9


def test_verdicts_and_causes() -> None:
    def value(theirs: float, mean: float, low: float, high: float, known: str = "") -> Value:
        return Value({"queue": "codel"}, "dropped", theirs, mean, low, high, known)

    assert (value(100, 109, 108, 110).verdict, value(100, 109, 108, 110).cause) == ("within", "")
    assert (value(100, 120, 99, 140).verdict, value(100, 120, 99, 140).cause) == ("in_range", "a")
    assert value(100, 120, 101, 140, "b").cause == "b"
    assert value(100, 120, 101, 140).cause == "?"
    assert value(0, 1, 1, 1).verdict == "outside"
    assert value(0, 0, 0, 0).deviation == 0


def test_ranges() -> None:
    assert values.quantiles([float(i) for i in range(201)]) == (5.0, 195.0)
    # Student's t for two degrees of freedom: 4.303 x 1 x sqrt(1/3 + 1/10).
    low, high = values.range_of_means([1.0, 2.0, 3.0], 10)
    assert (low, high) == pytest.approx((2 - 2.8325, 2 + 2.8325), abs=1e-3)
    assert values.range_of_means([2.0], 10) == (2.0, 2.0)


def test_settings_come_with_their_quantities() -> None:
    rows = [Measured({"queue": q}, name, 1.0) for q in ("a", "b") for name in ("x", "y")]
    assert [(key["queue"], len(group)) for key, group in values.settings(rows)] == [
        ("a", 2),
        ("b", 2),
    ]


@pytest.mark.parametrize("name", ORACLES)
def test_golden_tables_have_every_value_and_cause(name: str) -> None:
    with (ROOT / "docs" / f"{name}.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(ORACLES[name].kernel_rows())
    causes = {row["cause"] for row in rows}
    assert causes <= {"", *ORACLES[name].CAUSES}, "every deviation has a known cause"


@pytest.mark.parametrize("name", ORACLES)
def test_every_column_has_a_name_and_a_unit(name: str) -> None:
    oracle = ORACLES[name]
    assert len(set(oracle.HEADS)) == len(oracle.HEADS)
    assert {row.quantity for row in oracle.kernel_rows()} <= set(values.UNITS)
    value = values.Value(oracle.kernel_rows()[0].key, oracle.kernel_rows()[0].quantity, 2, 1, 0, 3)
    cells = dict(zip(oracle.HEADS, oracle.cells(value), strict=True))
    assert cells["unit"] == values.UNITS[value.quantity]
    assert cells["deviation, %"] == "-50.0"


def test_panels_of_a_figure_have_one_scale() -> None:
    found = [
        values.Value({"case": case}, quantity, 10, mean, mean - 1, mean + 1)
        for case in ("one", "two")
        for quantity, mean in (("rtt", 10), ("sent", 35), ("dropped", 12), ("goodput", 9))
    ] + [values.Value({"case": "one"}, "queue", 0, 0, 0, 0)]
    figure = values.figure(found, "Linux")
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == [
        "rtt",
        "sent",
        "dropped",
        "goodput",
        "queue",
    ]
    assert len({axes.get_xlim() for axes in shown}) == 1
    assert shown[0].get_xlim()[1] < 3, "one far off does not squash the others"
    assert [line.get_marker() for line in shown[1].lines if line.get_marker() == ">"]
