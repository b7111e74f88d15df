"""Figures show what they should, and the same figure is the same file."""

import itertools
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from matplotlib.figure import Figure

import anabranch as package
from anabranch import plots
from conftest import CALL

FRAMES = pl.DataFrame(
    {
        "created_s": [1.0, 1.02, 1.04, 1.06],
        "arrived_s": [1.05, 1.08, math.nan, 1.3],
        "delay_ms": [50.0, 60.0, math.nan, 240.0],
        "status": ["played", "played", "lost", "late"],
    }
)

CELLS = pl.DataFrame(
    {
        "rto_max": [0.1, 1.0, 0.1, 1.0],
        "pmr": [0.0, 0.0, 1.0, 1.0],
        "mean": [3.3, 1.5, 3.4, 1.6],
        "half_width": [0.1, 0.2, math.nan, 0.1],
        "n": [9, 9, 1, 9],
    }
)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_frame_delay_marks_late_and_lost_frames() -> None:
    figure = plots.frame_delay(FRAMES, playout_limit_ms=150, title="delay")
    lines: dict[object, Any] = {
        line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()
    }
    assert list(lines["played"].get_xdata()) == [1.0, 1.02]
    assert list(lines["late"].get_ydata()) == [240]
    assert list(lines["lost"].get_xdata()) == [1.04]
    assert "playout limit 150 ms" in texts(figure)
    assert {"2 played", "1 late", "1 lost (on the axis)"} <= set(texts(figure))


def test_each_frame_has_the_colour_of_its_path() -> None:
    frames = FRAMES.with_columns(path=pl.Series(["wifi", "lte", None, "wifi"]))
    figure = plots.frame_delay(frames)
    lines: dict[object, Any] = {
        line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()
    }
    assert list(lines["played-wifi"].get_xdata()) == [1.0]
    assert list(lines["played-lte"].get_xdata()) == [1.02]
    assert list(lines["late-wifi"].get_ydata()) == [240]
    assert list(lines["never-sent"].get_xdata()) == [1.04]
    assert lines["played-wifi"].get_color() != lines["played-lte"].get_color()
    shown = texts(figure)
    assert "wifi: 1 played, 1 late (rings), 0 lost" in shown
    assert "1 never sent" in shown


def test_metric_against_axis_labels_each_line_once() -> None:
    figure = plots.metric_against_axis(CELLS, "rto_max", by="pmr", log_x=True, y_label="MOS")
    assert sorted(texts(figure)) == ["pmr = 0", "pmr = 1"]
    assert figure.axes[0].get_xscale() == "log"


def test_heat_map_shows_the_numbers() -> None:
    figure = plots.heat_map(CELLS, "rto_max", "pmr", value_label="MOS", limits=(1, 4.4))
    assert sorted(texts(figure)) == ["1.50", "1.60", "3.30", "3.40"]


def test_a_traced_run_has_its_figures(tmp_path: Path) -> None:
    result = package.run(CALL, trace=True)
    figures = plots.of_run(result)
    assert "call-delay" in figures
    assert any(name.endswith("-paths") for name in figures)
    limit = [text for text in texts(figures["call-delay"]) if text.startswith("playout limit")]
    frames = result.traces["frames"].filter(pl.col("arrived_s").is_not_nan()).sort("arrived_s")
    # The jitter buffer's depth is 100 ms.
    assert limit == [f"playout limit {frames['delay_ms'][0] + 100:.0f} ms"]
    for name, figure in figures.items():
        plots.save(figure, tmp_path / name)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_figure_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    contents = []
    for name in ("first", "second"):
        figure = plots.frame_delay(FRAMES, playout_limit_ms=150, title="delay")
        (path,) = plots.save(figure, tmp_path / name, [suffix])
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert len(contents[0]) > 1000


def test_an_empty_status_is_no_problem(tmp_path: Path) -> None:
    lost = FRAMES.filter(pl.col("status") == "lost")
    assert plots.save(plots.frame_delay(lost), tmp_path / "lost", ["png"])


def test_names_of_paths_that_change_often_do_not_overlap() -> None:
    seconds = pl.DataFrame({"start_s": [0.0, 1.0], "end_s": [1.0, 2.0], "mos": [4.0, 4.2]})
    changes = [(0.1 * i, ("wifi", "lte")[i % 2]) for i in range(-3, 25)]
    figure = plots.rating(seconds, changes=changes)
    (axes,) = figure.axes
    marks: list[Any] = [line for line in axes.lines if line.get_gid() == "change"]
    # Those within the call.
    assert len(marks) == 20
    figure.draw_without_rendering()
    boxes = sorted(text.get_window_extent().intervalx.tolist() for text in axes.texts)
    assert len(boxes) > 5
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(boxes))
    assert axes.texts[0].get_text() == "wifi"
