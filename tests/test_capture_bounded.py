"""Captures with more packets than are kept: the largest flows, as they are alone."""

import re
from pathlib import Path

import dpkt
import numpy as np
import pytest

from anabranch import profile
from anabranch.errors import AnabranchError
from anabranch.explain import captured
from anabranch.explain.captured import journeys
from anabranch.profile import main_flow
from anabranch.support import bounded
from anabranch.support.capture import Capture
from capture_kinds import Frame, Talk, save

CASES = Path(__file__).parent / "cases" / "captures"


def _talk(messages: int, length: int, host: int) -> list[Frame]:
    """A connection from one of several hosts."""
    talk = Talk(0.02)
    for number in range(messages):
        talk.wait(0.001 + number % 7 * 1e-4)
        talk.data(length)
    # The host's number is in the third byte of both addresses.
    return [
        Frame(time_s, data[:14] + bytes([host]) + data[15:18] + bytes([host]) + data[19:])
        for time_s, data in talk.frames
    ]


@pytest.fixture
def many(tmp_path: Path) -> tuple[Path, Path]:
    """A large flow among 40 small ones, and the large one alone."""
    large = _talk(400, 1000, 1)
    small = [frame for host in range(2, 42) for frame in _talk(8, 30, host)]
    alone = save(tmp_path / "alone.pcap", large)
    return save(tmp_path / "many.pcap", sorted([*large, *small], key=lambda one: one[0])), alone


def test_the_largest_flow_is_measured_as_if_it_were_alone(
    many: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = profile.measure([many[0]])
    monkeypatch.setattr(main_flow, "MOST", 900)
    kept = profile.measure([many[0]])
    assert kept.title == whole.title
    assert kept.notes == whole.notes
    assert "the flow of the most bytes; 40 more are not looked at" in kept.notes
    for one in (whole, profile.measure([many[1]])):
        assert kept.delays is not None
        assert one.delays is not None
        assert np.array_equal(kept.delays.seconds, one.delays.seconds)
        assert kept.losses is not None
        assert one.losses is not None
        assert kept.losses.sent == one.losses.sent


def test_what_is_cut_off_is_said(many: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_flow, "MOST", 300)
    measured = profile.measure([many[0]])
    assert measured.title.endswith("300 packets")
    (said,) = (note for note in measured.notes if "goes on" in note)
    assert re.fullmatch(
        r"the first 300 packets are looked at, of which the last one came after 3\.\d+ s; the flow "
        r"goes on until 8\.\d+ s",
        said,
    )


def test_an_explanation_keeps_the_largest_flows(
    many: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = captured.explain(many[0])
    monkeypatch.setattr(journeys, "MOST", 1000)
    kept = captured.explain(many[0])
    assert kept.flows[0].as_json() == whole.flows[0].as_json()
    assert kept.notes == whole.notes
    assert "38 flows of fewer bytes are not explained; --flow names one" in kept.notes
    named = captured.explain(many[0], flow="192.0.7.1:40000")
    assert named.flows[0].flow.name == "TCP from 192.0.7.1:40000 to 192.0.7.2:5000"
    with pytest.raises(AnabranchError, match=r"no flow's name has `192\.0\.99\.1` in it"):
        captured.explain(many[0], flow="192.0.99.1")


def test_an_explanation_goes_on_where_another_ends(
    many: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = captured.explain(many[1])
    monkeypatch.setattr(journeys, "MOST", 400)
    first = captured.explain(many[1])
    (said,) = (note for note in first.notes if "--from" in note)
    begin = re.search(r"`--from ([\d.]+)`", said)
    assert begin is not None
    second = captured.explain(many[1], from_s=float(begin[1]))
    both = [part.flows[0].flow.packets for part in (first, second)]
    assert both[0] == 400
    # The second part is cut as well, or has the rest.
    assert sum(both) in {800, whole.flows[0].flow.packets, whole.flows[0].flow.packets + 1}
    assert any(note.startswith("What was captured in the first") for note in second.notes)
    with pytest.raises(AnabranchError, match=r"after 1000 s"):
        captured.explain(many[1], from_s=1000)


def test_subflows_stay_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (CASES / "mptcp-v1-two-subflows.pcap").open("rb") as file:
        reader = dpkt.pcap.Reader(file)
        link = reader.datalink()
        frames = [Frame(time_s, data) for time_s, data in reader]
    began_s = frames[0].time_s
    frames = [Frame(time_s - began_s, data) for time_s, data in frames]
    first = save(tmp_path / "own.pcap", frames, link)
    whole = captured.explain(first).flows[0]
    assert whole.flow.protocol == "MPTCP"
    assert len(whole.flow.paths) == 2
    monkeypatch.setattr(journeys, "MOST", len(frames) - 1)
    monkeypatch.setattr(journeys, "MOST_FLOWS", 1)
    kept = captured.explain(first).flows[0]
    assert len(kept.flow.paths) == 2
    assert kept.flow.packets in {whole.flow.packets - 1, whole.flow.packets}


def test_small_flows_are_forgotten_where_there_are_too_many(
    many: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MOST_FLOWS", 8)
    monkeypatch.setattr(main_flow, "MOST", 900)
    assert profile.measure([many[0]]).title.startswith("TCP from 192.0.1.1:40000")


def test_what_is_not_measured_is_counted_once(
    many: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    icmp = bytes.fromhex("4500001c0001000040010000c0000201c0000202") + bytes([3, 1]) + bytes(6)
    with many[0].open("ab") as file:
        file.write(np.array([1_700_000_100, 0, 28, 28], dtype="<u4").tobytes() + icmp)
    monkeypatch.setattr(main_flow, "MOST", 900)
    notes = profile.measure([many[0]]).notes
    assert "left out: 1 ICMP messages other than echoes" in notes
    again = Capture(many[0]).again()
    assert sum(len(batch) for batch in again.batches()) == 803 + 40 * 19 + 1
