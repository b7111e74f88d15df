"""The figure of a transfer over TCP: of the end that sends, with what held it back."""

import math
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.lines import Line2D

from anabranch import Result, load, run
from anabranch.figures import run_plots, sequences, transfers
from conftest import CALL, written

TRANSFER = """\
name = "transfer"
seed = 1

[run]
duration = "4 s"
time_accounts = true

[links.lan]
ends = ["gateway", "office"]
rate = "100 Mbit/s"
delay = "1 ms"

[links.wan]
ends = ["gateway", "phone"]
rate = "4 Mbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", packets = 40 }

[paths.only]
via = ["lan", "wan"]

[flows.load]
from = "office"
to = "phone"
paths = ["only"]
transport = { kind = "tcp" }
app = { kind = "bulk", interval = "1 s" }
"""


def traced(tmp_path: Path, text: str = TRANSFER) -> Result:
    return run(load(written(tmp_path / "transfer.toml", text)), trace=True)


def highest(line: Line2D) -> float:
    return float(np.max(np.asarray(line.get_ydata())))


def test_a_transfer_has_one_figure_of_the_end_that_sends(tmp_path: Path) -> None:
    figures = run_plots.of_run(traced(tmp_path))
    assert list(figures) == ["load-transfer", "load-sequence"]
    figure = figures["load-transfer"]
    labels = [axes.get_ylabel().partition("\n")[0] for axes in figure.axes]
    assert labels == ["goodput", "round trip", "window", "queue", "of time"]
    assert "sent by office" in figure.axes[0].get_title(loc="left")
    # The queue is that of the narrow link, where the data goes.
    goodput, round_trip, window, queue, _ = (axes.get_lines() for axes in figure.axes)
    assert highest(queue[0]) == 40
    assert 3 < float(np.median(np.asarray(goodput[0].get_ydata()))) < 4
    assert highest(round_trip[0]) > 42
    assert len(window) == 1


def test_what_held_it_back_fills_all_of_the_time(tmp_path: Path) -> None:
    result = traced(tmp_path)
    held = run_plots.of_run(result)["load-transfer"].axes[-1]
    stacks = {patch.get_gid(): patch.get_data() for patch in held.patches}  # type: ignore[attr-defined]
    assert "cwnd_limited" in stacks
    limits = result.traces["limits"].filter(side="a", path=-1)
    assert set(stacks) == set(limits["limit"])
    until_s = limits["end_s"].max()
    for limit, (tops, edges, base) in stacks.items():
        took = float(np.sum((tops - base) * np.diff(edges)))
        of_limit = limits.filter(limit=limit).select(pl.col("end_s") - pl.col("start_s")).sum()
        assert took == pytest.approx(of_limit.item(), abs=0.02)
    assert sum(np.sum((t - b) * np.diff(e)) for t, e, b in stacks.values()) == pytest.approx(
        until_s, abs=0.02
    )


def test_the_other_end_is_the_sender_of_a_download(tmp_path: Path) -> None:
    text = TRANSFER.replace("interval =", 'direction = "b_to_a", interval =')
    figures = run_plots.of_run(traced(tmp_path, text))
    assert list(figures) == ["load-transfer", "load-sequence"]
    figure = figures["load-transfer"]
    assert "sent by phone" in figure.axes[0].get_title(loc="left")
    assert figure.axes[3].get_ylabel().startswith("queue")
    assert highest(figure.axes[3].get_lines()[0]) == 40


def test_both_ends_that_send_have_a_figure(tmp_path: Path) -> None:
    text = TRANSFER.replace("interval =", 'direction = "both", interval =')
    assert list(run_plots.of_run(traced(tmp_path, text))) == [
        "load-a-transfer",
        "load-a-sequence",
        "load-b-transfer",
        "load-b-sequence",
    ]


def test_links_are_crossed_in_the_direction_of_the_data(tmp_path: Path) -> None:
    tree = tomllib.loads(traced(tmp_path).scenario.cell_toml(0))
    flow = tree["flows"]["load"]
    assert transfers._crossed(flow, tree, "a") == {"only": [("lan", "reverse"), ("wan", "forward")]}
    assert transfers._crossed(flow, tree, "b") == {"only": [("lan", "forward"), ("wan", "reverse")]}


def test_calls_and_other_transports_keep_their_figures(tmp_path: Path) -> None:
    figures = run_plots.of_run(traced(tmp_path, CALL))
    assert list(figures) == ["call-delay", "call-mos", "call-a-paths", "call-b-paths"]


HEADERS = 52
NEAR_THE_END = 2**32 - 3000


Row = tuple[float, str, str, int, float] | tuple[float, str, str, int, float, str]


def packets(rows: list[Row]) -> pl.DataFrame:
    """Packets of a path: when, side, kind, number, when it arrives (NaN if never), SACK."""
    is_data = [row[2] == "data" for row in rows]
    return pl.DataFrame(
        {
            "sent_s": [row[0] for row in rows],
            "side": [row[1] for row in rows],
            "path": [0 for _ in rows],
            "payload_bytes": [1000 * data for data in is_data],
            "tsn": [row[3] % 2**32 if row[2] == "data" else -1 for row in rows],
            "ack": [-1 if row[2] == "data" else row[3] % 2**32 for row in rows],
            "window_bytes": [-1 if data else 5000 for data in is_data],
            "sack": [row[5] if len(row) > 5 else "" for row in rows],
            "fate": ["lost" if math.isnan(row[4]) else "delivered" for row in rows],
            "delivered_s": [row[4] for row in rows],
            "is_copy": [False for _ in rows],
        }
    )


def test_segments_and_what_is_acknowledged_follow_from_the_packets() -> None:
    first = NEAR_THE_END  # the numbers begin again at 0 after three segments
    reported = f"{first + 2000}-{(first + 4000) % 2**32}"
    (sent,) = sequences.of_run(
        packets(
            [
                (0.0, "a", "data", first, 0.1),
                (0.1, "b", "ack", first + 1000, 0.2),
                (0.2, "a", "data", first + 1000, math.nan),
                (0.21, "a", "data", first + 2000, 0.31),
                (0.22, "a", "data", first + 3000, 0.32),
                (0.32, "b", "ack", first + 1000, 0.42, reported),
                (0.33, "b", "ack", first + 1000, math.nan),
                (0.5, "a", "data", first + 1000, 0.6),
                (0.6, "b", "ack", first + 4000, 0.7),
            ]
        ),
        "a",
        ["only"],
        "tcp",
    )
    assert sent.first.tolist() == [0, 1000, 2000, 3000, 1000]
    assert sent.end.tolist() == [1000, 2000, 3000, 4000, 2000]
    assert sent.is_again.tolist() == [False, False, False, False, True]
    assert sent.is_lost.tolist() == [False, True, False, False, False]
    # The hole keeps what lies behind it from being acknowledged.
    assert list(zip(sent.known_s, sent.acked, strict=True)) == [
        (0.2, 1000),
        (0.42, 1000),
        (0.7, 4000),
    ]
    assert sent.edge.tolist() == [6000, 6000, 9000]
    assert sent.reports.tolist() == [[0.42, 2000, 4000]]
    assert sequences.of_run(packets([(0.0, "a", "data", 5, 0.1)]), "a", ["only"], "tcp") == []


def test_chunks_stand_where_their_bytes_do() -> None:
    """Numbers of SCTP count chunks over all paths: TSN 5 goes over the other path here."""
    data = sequences.Data(
        np.array([0, 1, 0, 0]), np.array([0.0, 0.1, 0.2, 0.3]), np.array([4, 5, 6, 4]),
        np.array([100, 200, 300, 100]), np.zeros(4, dtype=bool),
    )  # fmt: skip
    told = sequences.Told(
        np.array([1]), np.array([0.25]), np.array([4]), np.array([1000]), [[(5, 7)]]
    )
    (sent,) = sequences.of_ends(data, told, ["one", "two"], in_chunks=True)
    assert sent.first.tolist() == [0, 300, 0]
    assert sent.end.tolist() == [100, 600, 100]
    assert sent.is_again.tolist() == [False, False, True]
    assert (sent.acked.tolist(), sent.edge.tolist()) == ([0], [1000])
    assert sent.reports.tolist() == [[0.25, 100, 600]]


def test_the_sequence_graph_shows_every_retransmission(tmp_path: Path) -> None:
    result = traced(tmp_path)
    figure = run_plots.of_run(result)["load-sequence"]
    whole, close = figure.axes
    assert whole.get_ylabel() == "sequence number (MB)"
    data = result.traces["packets"].filter(side="a", kind="data")
    again = data.height - data["tsn"].n_unique()
    assert again >= 3
    (points,) = [line for line in whole.lines if line.get_gid() == "again"]
    assert len(points.get_xdata()) == again  # type: ignore[arg-type]
    assert f"{again} retransmitted" in [text.get_text() for text in figure.legends[0].get_texts()]
    # In the close-up each segment has a bar of its length, and lost ones a cross.
    bars = {part.get_gid(): part for part in close.collections}
    drawn = {name: bars[name].get_segments() for name in ("sent", "again")}  # type: ignore[attr-defined]
    count = sum(map(len, drawn.values()))
    assert count == min(sequences._CLOSE, data.height)
    lengths = {round(1e6 * (one[1][1] - one[0][1])) for one in drawn["sent"]}
    assert lengths == {int(data["size_bytes"].to_numpy().max()) - HEADERS}
    # What is acknowledged is never more than what was sent by then.
    (sent,) = sequences.of_run(result.traces["packets"].filter(flow="load"), "a", ["only"], "tcp")
    assert (np.diff(sent.acked) >= 0).all()
    by_then = np.maximum.accumulate(sent.end)[np.searchsorted(sent.sent_s, sent.known_s) - 1]
    assert (sent.acked <= by_then).all()
    delivered = result.summary["load.tcp.a.bytes_acknowledged"]
    assert sent.acked[-1] == pytest.approx(delivered, abs=3 * 1448)
