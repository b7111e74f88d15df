"""The figure of a transfer over TCP: of the end that sends, with what held it back."""

import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.lines import Line2D

from anabranch import Result, load, run
from anabranch.figures import run_plots, transfers
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
    assert list(figures) == ["load-transfer"]
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
    assert list(figures) == ["load-transfer"]
    figure = figures["load-transfer"]
    assert "sent by phone" in figure.axes[0].get_title(loc="left")
    assert figure.axes[3].get_ylabel().startswith("queue")
    assert highest(figure.axes[3].get_lines()[0]) == 40


def test_both_ends_that_send_have_a_figure(tmp_path: Path) -> None:
    text = TRANSFER.replace("interval =", 'direction = "both", interval =')
    assert list(run_plots.of_run(traced(tmp_path, text))) == [
        "load-a-transfer",
        "load-b-transfer",
    ]


def test_links_are_crossed_in_the_direction_of_the_data(tmp_path: Path) -> None:
    tree = tomllib.loads(traced(tmp_path).scenario.cell_toml(0))
    flow = tree["flows"]["load"]
    assert transfers._crossed(flow, tree, "a") == {"only": [("lan", "reverse"), ("wan", "forward")]}
    assert transfers._crossed(flow, tree, "b") == {"only": [("lan", "forward"), ("wan", "reverse")]}


def test_calls_and_other_transports_keep_their_figures(tmp_path: Path) -> None:
    figures = run_plots.of_run(traced(tmp_path, CALL))
    assert list(figures) == ["call-delay", "call-mos", "call-a-paths", "call-b-paths"]
