"""Calls that lose their Wi-Fi: what docs/mobility.md says of them."""

from typing import Any

import pytest

import anabranch as package
import mobility
from anabranch.figures import run_plots
from anabranch.studies import library


def found(name: str, replication: int) -> list[mobility.CallSide]:
    way = next(way for way in mobility.WAYS if way.name == name)
    return mobility.outcomes_of(way, replication)


@pytest.mark.parametrize("replication", range(5))
def test_make_before_break_interrupts_less_than_one_rto(replication: int) -> None:
    for outcome in found("ASCONF, make before break", replication):
        assert outcome.interruption_ms < outcome.rto_ms
        assert outcome.worst > 3.5


@pytest.mark.parametrize("replication", range(5))
def test_break_before_make_interrupts_until_the_new_address_is_verified(replication: int) -> None:
    to_server, to_phone = found("ASCONF, break before make", replication)
    # A second without an address, ASCONF and heartbeat of 70 ms each; then frames, 35 ms on their
    # way. What waited for at most the jitter buffer's 100 ms is played.
    assert 1_000 <= to_phone.interruption_ms <= to_server.interruption_ms <= 1_180
    assert to_server.worst < 2


def test_failover_alone_takes_timeouts() -> None:
    for outcome in found("failover alone", 0):
        assert outcome.rto_ms < outcome.interruption_ms < 1_000
    for outcome in found("failover alone, defaults of RFC 9260", 0):
        assert outcome.interruption_ms > 3_000


def test_a_table_has_a_row_for_each_way_and_direction() -> None:
    table = mobility.table([o for way in mobility.WAYS for o in mobility.outcomes_of(way, 0)])
    assert len(table.splitlines()) == 2 + 2 * len(mobility.WAYS)
    assert "nan" not in table.splitlines()[2].split("±")[0]


def test_a_run_shows_its_handover() -> None:
    path = library.scenarios()["mobility-make-before-break"]
    result = package.run(path, trace=True)
    figure = run_plots.of_run(result)["call-a-mos"]
    (axes,) = figure.axes
    pieces: list[Any] = [piece for piece in axes.patches if piece.get_gid()]
    assert [piece.get_gid() for piece in pieces] == ["primary-wifi", "primary-lte"]
    assert round(pieces[1].get_x(), 2) == 12.0
    assert result.traces["ratings"].height == 2 * 28
    assert axes.get_title(loc="left").endswith("flow call from phone to server")
    assert axes.get_xlabel() == "time (s)"


def test_a_run_shows_when_its_primary_path_had_failed() -> None:
    result = package.run(library.scenarios()["mobility-return"], trace=True)
    for side in "ab":
        # Two timeouts of 0.1 and 0.2 s, and the first heartbeat that is answered again: they are
        # apart by the interval of 0.5 s and an RTO of 0.5 s give or take its half (RFC 9260
        # section 8.3).
        ((start, end),) = run_plots.primary_failures(result, "call", side)
        assert 10.2 < start < 10.4
        assert 18 < end < 18 + 1.25 + 0.05
    figure = run_plots.of_run(result)["call-b-mos"]
    (axes,) = figure.axes
    (failed,) = [patch for patch in axes.patches if patch.get_gid() == "failed"]
    assert failed.get_window_extent().width > 0
    assert axes.get_title(loc="left").endswith("flow call from server to phone")
    (legend,) = figure.legends
    assert legend.get_texts()[-1].get_text() == "grey: the primary path has failed"


def test_seconds_add_up_to_the_call() -> None:
    path = library.scenarios()["mobility-break-before-make"]
    result = package.run(path, trace=True)
    seconds = result.traces["ratings"].filter(side="a")
    loss = result.summary["call.a_to_b.loss_percent"]
    assert seconds["loss_percent"].mean() == pytest.approx(loss)
    assert list(seconds["end_s"] - seconds["start_s"]) == pytest.approx([1.0] * 28)
