"""The time-sequence graph of a capture is that of the run which the capture is of."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import anabranch
from anabranch.explain import captured
from anabranch.explain.captured import sequence
from anabranch.figures import sequences
from support.two_links import two_links
from test_qlog import KINDS, scenario_of


def sent_by_both(
    kind: str, folder: Path, at: str
) -> tuple[list[sequences.Sent], list[sequences.Sent], captured.Explained]:
    """What the sender's packets are, by the run's trace and by its capture."""
    # Without duplicates: a copy of a packet of a link is one packet at the host.
    scenario = anabranch.load(two_links(*KINDS[kind], duration="6 s"))
    file = folder / "run.pcapng"
    result = anabranch.run(scenario, trace=True, pcap=file, pcap_at=at)
    names = tomllib.loads(scenario.cell_toml(0))["flows"]["load"]["paths"]
    trace = sequences.of_run(result.traces["packets"], "a", names, kind)
    (explained,) = captured.explain(file).flows
    return trace, sequence.sent(file, explained.flow, 0), explained


def by_time(sent: sequences.Sent, name: str) -> dict[float, int]:
    """The largest value at each time: of two that come at once either may be the first."""
    found: dict[float, int] = {}
    for time_s, value in zip(sent.known_s.round(7), getattr(sent, name).tolist(), strict=True):
        found[time_s] = max(value, found.get(time_s, -1))
    return found


@pytest.mark.parametrize("at", ["a", "all"])
@pytest.mark.parametrize("kind", ["tcp", "mptcp", "sctp"])
def test_a_capture_has_the_runs_graph(kind: str, at: str, tmp_path: Path) -> None:
    trace, capture, explained = sent_by_both(kind, tmp_path, at)
    assert len(trace) == len(capture) == len(explained.flow.paths)
    for one, other in zip(trace, capture, strict=True):
        assert one.path == other.path
        for name in ("first", "end", "is_again"):
            values = [getattr(sent, name).tolist() for sent in (one, other)]
            assert values[0] == values[1], name
        for name in ("acked", "edge"):
            assert by_time(one, name) == by_time(other, name), name
        assert np.abs(one.sent_s - other.sent_s).max() < 1e-6
        assert np.abs(one.known_s - other.known_s).max() < 1e-6
        assert one.reports.shape == other.reports.shape
        assert len(one.reports) > 10
        # Of two that come at once either may be the first.
        reports = [np.array(sorted(sent.reports.round(7).tolist())) for sent in (one, other)]
        assert np.abs(reports[0] - reports[1]).max() < 2e-7
    if kind != "mptcp":
        assert all((sent.edge > sent.acked).any() for sent in capture)


def test_the_figure_has_what_tcptraces_has(tmp_path: Path) -> None:
    *_, explained = sent_by_both("tcp", tmp_path, "a")
    figure = explained.sequence(tmp_path / "run.pcapng")
    assert figure is not None
    whole, close = figure.axes
    assert whole.get_title(loc="left") == "TCP, sent by a"
    drawn = {part.get_gid() for part in [*close.collections, *close.lines]}
    assert {"sent", "again", "acked", "reported"} <= drawn
    assert "lost" not in {text.get_text() for text in figure.legends[0].get_texts()}


def test_a_part_of_a_capture_has_the_times_of_that_part(tmp_path: Path) -> None:
    trace, _, _ = sent_by_both("tcp", tmp_path, "a")
    (explained,) = captured.explain(tmp_path / "run.pcapng", from_s=3.0).flows
    side = sequence.sender(explained.flow)
    (sent,) = sequence.sent(tmp_path / "run.pcapng", explained.flow, side, 3.0)
    (whole,) = trace
    later = whole.sent_s >= 3.0
    assert len(sent.sent_s) == later.sum() > 100
    shift = whole.sent_s[later] - sent.sent_s
    assert np.ptp(shift) < 1e-6
    assert 3.0 <= shift[0] < 3.1
    # Without the handshake nobody knows the scale of the window.
    assert (sent.edge == -1).all()


def test_datagrams_have_no_such_graph(tmp_path: Path) -> None:
    anabranch.run(anabranch.load(scenario_of("udp")), pcap=tmp_path / "call.pcapng")
    (explained,) = captured.explain(tmp_path / "call.pcapng").flows
    assert explained.sequence(tmp_path / "call.pcapng") is None
