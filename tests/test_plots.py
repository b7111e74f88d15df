"""Figures show what they should, and the same figure is the same file."""

import itertools
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import anabranch as package
from anabranch.figures import plots, run_plots
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


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for one in figure.legends for text in one.get_texts()]


def test_frame_delay_marks_late_and_lost_frames() -> None:
    figure = run_plots.frame_delay(FRAMES, playout_limit_ms=150, title="delay")
    lines: dict[object, Any] = {
        line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()
    }
    assert list(lines["played"].get_xdata()) == [1.0, 1.02]
    assert list(lines["late"].get_ydata()) == [240]
    assert list(lines["lost"].get_xdata()) == [1.04]
    assert "playout limit 150 ms" in texts(figure)
    assert legend(figure) == ["2 played", "1 late", "1 lost (on the axis)"]


def test_each_frame_has_the_colour_of_its_path() -> None:
    frames = FRAMES.with_columns(path=pl.Series(["wifi", "lte", None, "wifi"]))
    figure = run_plots.frame_delay(frames)
    lines: dict[object, Any] = {
        line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()
    }
    assert list(lines["played-wifi"].get_xdata()) == [1.0]
    assert list(lines["played-lte"].get_xdata()) == [1.02]
    assert list(lines["late-wifi"].get_ydata()) == [240]
    assert list(lines["never-sent"].get_xdata()) == [1.04]
    assert lines["played-wifi"].get_color() != lines["played-lte"].get_color()
    shown = legend(figure)
    assert "wifi: 1 played, 1 late (rings), 0 lost" in shown
    assert "1 never sent" in shown


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_heading_with_many_paths_stays_within_the_figure(count: int) -> None:
    names = [f"a-path-with-a-long-name-{i}" for i in range(count)]
    frames = pl.concat(FRAMES.with_columns(path=pl.lit(name)) for name in names)
    figure = run_plots.frame_delay(frames, title="delay")
    figure.draw_without_rendering()
    (box,) = figure.legends
    right = figure.get_size_inches()[0] * figure.dpi
    assert box.get_window_extent().x1 <= right
    assert len(legend(figure)) == count


def test_heat_map_shows_the_numbers() -> None:
    figure = plots.heat_map(CELLS, "rto_max", "pmr", value_label="MOS", limits=(1, 4.4))
    assert sorted(texts(figure)) == ["1.50", "1.60", "3.30", "3.40"]


def test_a_traced_run_has_its_figures(tmp_path: Path) -> None:
    result = package.run(CALL, trace=True)
    figures = run_plots.of_run(result)
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
        figure = run_plots.frame_delay(FRAMES, playout_limit_ms=150, title="delay")
        (path,) = plots.save(figure, tmp_path / name, [suffix])
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert len(contents[0]) > 1000


def test_an_empty_status_is_no_problem(tmp_path: Path) -> None:
    lost = FRAMES.filter(pl.col("status") == "lost")
    assert plots.save(run_plots.frame_delay(lost), tmp_path / "lost", ["png"])


def test_the_primary_path_is_a_strip() -> None:
    seconds = pl.DataFrame({"start_s": [0.0, 1.0], "end_s": [1.0, 2.0], "mos": [4.0, 4.2]})
    changes = [(0.1 * i, ("wifi", "lte")[i % 2]) for i in range(-4, 25)]
    figure = run_plots.rating(seconds, changes=changes, names=["lte", "wifi"])
    (axes,) = figure.axes
    pieces: list[Any] = [piece for piece in axes.patches if piece.get_gid()]
    # The failures within the call, the first of which began before it.
    assert len(pieces) == 20
    assert [piece.get_gid() for piece in pieces[:2]] == ["primary-wifi", "primary-lte"]
    ends = [(piece.get_x(), piece.get_x() + piece.get_width()) for piece in pieces]
    assert ends[0][0] == 0
    assert ends[-1][1] == pytest.approx(2)
    assert all(left[1] == pytest.approx(right[0]) for left, right in itertools.pairwise(ends))
    # The same colours as in the figure of the delays.
    colours = run_plots.path_colours(["lte", "wifi"])
    assert mpl.colors.to_hex(pieces[0].get_facecolor()).upper() == colours["wifi"]
    words = ["wifi is the primary path", "lte is the primary path"]
    assert legend(figure) == [f"strip: {text}" for text in words]


def test_limits_of_the_rto_are_drawn_where_they_are_near() -> None:
    trace = pl.DataFrame(
        {
            "time_s": [0.0, 1.0, 0.0, 0.5],
            "path": ["a", "a", "b", "b"],
            "is_primary": [True, False, False, True],
            "cwnd_bytes": [3000, 6000, 3000, 3000],
            "rto_ms": [100.0, 150.0, 100.0, 120.0],
        }
    )
    figure = run_plots.paths(trace, rto_limits_ms=(100.0, 60_000.0))
    lines = [line.get_gid() for line in figure.axes[1].lines if line.get_gid()]
    assert lines == ["RTO.Min"], "RTO.Max is far from what is drawn"
    assert "RTO.Min 100 ms" in texts(figure)
    assert [text.split()[1] for text in legend(figure)] == ["a", "b"]
    figure = run_plots.paths(trace, rto_limits_ms=(100.0, 300.0))
    assert [line.get_gid() for line in figure.axes[1].lines if line.get_gid()][1:] == ["RTO.Max"]


def test_text_has_one_size_and_titles_another() -> None:
    result = package.run(CALL, trace=True)
    for figure in run_plots.of_run(result).values():
        figure.draw_without_rendering()
        sizes = {text.get_fontsize() for text in figure.findobj(Text) if text.get_text()}
        assert sizes <= {plots.SIZE, plots.TITLE_SIZE}


def test_an_interval_is_cut_to_what_is_possible() -> None:
    assert plots.bar(0.98, 0.05, high=1.0) == [[pytest.approx(0.05)], [pytest.approx(0.02)]]
    assert plots.bar(0.1, 0.3)[0] == [pytest.approx(0.1)]


@pytest.mark.parametrize("lines", [1, 2])
def test_labels_at_the_ends_of_lines_stand_apart(lines: int) -> None:
    figure = plots.blank(10, 4)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1])
    text = "\n".join(["a path"] * lines)
    plots.label_ends(figure, axes, [(0.3, text, "k"), (0.31, text, "r"), (0.32, "b", "b")])
    figure.draw_without_rendering()
    boxes = sorted((each.get_window_extent() for each in axes.texts), key=lambda box: box.y0)
    assert len(boxes) == 3
    assert all(one.y1 <= two.y0 for one, two in pairwise(boxes))
