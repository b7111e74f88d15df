"""What the same video is over Wi-Fi with bursts of losses and LTE, by how it uses the two paths.

`python tools/video_two_paths.py FOLDER` writes the generated part of `media.md` there and its
figure `video-two-paths.png`. This takes less than a minute.
"""

import os
import sys
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import marked
from anabranch import _engine
from anabranch.figures import plots
from anabranch.stats import mean_interval
from anabranch.studies import library

REPLICATIONS = 30
SCENARIO = "video-two-paths"

_BEGIN = "<!-- generated: python tools/video_two_paths.py docs -->"
_END = "<!-- end of generated -->"

COLUMNS = {
    "call.freezes": "freezes",
    "call.frozen_percent": "frozen, %",
    "call.p99_frame_delay_ms": "p99 of the frames' delays, ms",
    "wifi_mb": "Wi-Fi, MB",
    "lte_mb": "LTE, MB",
}
"""What is measured of each way, and its heading."""
_DIGITS = {"call.freezes": 1, "call.frozen_percent": 2, "call.p99_frame_delay_ms": 0}
_LINKS = ("wifi", "lte")


def measured(replications: int = REPLICATIONS) -> pl.DataFrame:
    """A row for each way and replication, with what is measured of it.

    Bytes are those that the links delivered, in both directions.
    """
    scenario = _engine.Scenario.load(str(library.scenarios()[SCENARIO]), ())
    jobs = [(cell, n) for cell in range(scenario.cell_count) for n in range(replications)]
    batch = _engine.run_batch(scenario, jobs, os.cpu_count() or 1)
    ways = [str(scenario.cell_key(cell)["way"]) for cell, _ in jobs]
    rows = pl.DataFrame({"way": ways} | {name: batch[name] for name in batch if name != "way"})
    sent = {
        f"{link}_mb": sum(
            (pl.col(f"link.{link}.{side}.delivered_bytes") for side in ("forward", "reverse")),
            pl.lit(0),
        )
        / 1e6
        for link in _LINKS
    }
    return rows.with_columns(**sent).select("way", *COLUMNS)


def table(rows: pl.DataFrame) -> str:
    """Every way with means and 95 % intervals, as Markdown."""
    lines = [
        f"| {REPLICATIONS} replications of 60 s | {' | '.join(COLUMNS.values())} |",
        f"|---|{'---:|' * len(COLUMNS)}",
    ]
    for (way,), of_way in rows.group_by("way", maintain_order=True):
        values = [
            mean_interval(of_way[name].to_list()).text(_DIGITS.get(name, 2)) for name in COLUMNS
        ]
        lines.append(f"| {way} | {' | '.join(values)} |")
    return "\n".join(lines)


def figure(rows: pl.DataFrame) -> Figure:
    """Frozen time, the slowest frames and bytes of each way, with intervals."""
    ways = rows["way"].unique(maintain_order=True).to_list()
    with plots.style():
        drawn = plots.blank(10, 4.2)
        panels = drawn.subplots(1, 3, sharey=True)
        for axes, name in zip(panels[:2], list(COLUMNS)[1:3], strict=True):
            _dots(axes, rows, ways, name)
        places = range(len(ways))
        left = [0.0] * len(ways)
        for link, colour, label in zip(_LINKS, plots.COLOURS, ("Wi-Fi", "LTE"), strict=False):
            means = [_mean(rows, way, f"{link}_mb")[0] for way in ways]
            panels[2].barh(places, means, left=left, height=0.6, color=colour, label=label)
            left = [a + b for a, b in zip(left, means, strict=True)]
        plots.titled(panels[2], "bytes on the links")
        panels[2].set_xlabel("MB")
        panels[0].set_yticks(places, ways)
        panels[0].invert_yaxis()
        plots.legend(drawn, panels[2].containers)
    return drawn


def _mean(rows: pl.DataFrame, way: str, name: str) -> tuple[float, float]:
    mean, half_width, _ = mean_interval(rows.filter(pl.col("way") == way)[name].to_list())
    return mean, half_width


def _dots(axes: Axes, rows: pl.DataFrame, ways: list[str], name: str) -> None:
    values = [_mean(rows, way, name) for way in ways]
    axes.errorbar(
        [mean for mean, _ in values],
        range(len(ways)),
        xerr=[half_width for _, half_width in values],
        fmt="o",
        color=plots.QUIET,
        markersize=4,
    )
    axes.set_xlim(left=0)
    title, _, unit = COLUMNS[name].rpartition(", ")
    plots.titled(axes, title)
    axes.set_xlabel(unit)


def main() -> int:
    """Writes the page and its figure."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    path = folder / "media.md"
    rows = measured()
    path.write_text(marked.replaced(path.read_text("utf-8"), _BEGIN, _END, table(rows)), "utf-8")
    print(f"wrote {path}")
    for written in plots.save(figure(rows), folder / "video-two-paths", ("png",)):
        print(f"wrote {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
