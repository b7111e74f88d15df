"""Traces of two runs over each other: goodput, round trips, windows, queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anabranch.figures.plots import (
    COLOURS,
    blank,
    legend,
    shortened,
    style,
    thinned,
    titled,
)
from anabranch.store import members

from .outcome import SideBySide
from .sides import Settings

MOST_PANELS = 12
"""Panels of a figure at most; the caption names the others."""

_COLUMNS = 2
_PANEL_INCHES = 1.7


@dataclass(frozen=True)
class _Quantity:
    """What one figure shows."""

    name: str
    label: str
    table: str
    keys: tuple[str, ...]
    value: str
    scale: float
    words: str
    least: int
    """How many different values a line must have: the side that only receives data has few."""


_QUANTITIES = (
    _Quantity(
        "goodput",
        "goodput (Mbit/s)",
        "intervals",
        ("flow", "side"),
        "goodput_kbit_per_s",
        1e-3,
        "goodput of each flow, as it arrived",
        1,
    ),
    _Quantity(
        "srtt",
        "SRTT (ms)",
        "paths",
        ("flow", "side", "path"),
        "srtt_ms",
        1.0,
        "smoothed round-trip time of each sender and path",
        3,
    ),
    _Quantity(
        "cwnd",
        "cwnd (kB)",
        "paths",
        ("flow", "side", "path"),
        "cwnd_bytes",
        1e-3,
        "congestion window of each sender and path",
        3,
    ),
    _Quantity(
        "queue",
        "waiting (packets)",
        "queues",
        ("link", "direction"),
        "waiting_packets",
        1.0,
        "packets that wait in front of each link",
        2,
    ),
)


@dataclass(frozen=True)
class Overlays:
    """The figures, and what to say about them."""

    figures: Mapping[str, Figure]
    """The figures by quantity (`goodput`, `srtt`, `cwnd`, `queue`), as far as both runs have them.
    """
    captions: Mapping[str, str]
    note: str
    """Which runs they show, or why there are none."""


def overlays(outcome: SideBySide) -> Overlays:
    """Lays traces of A and B over each other.

    They come from the first cell in which both have traces: from one replication if both have
    traces of it, otherwise from the first replication of each.
    """
    a, b = outcome.a, outcome.b
    for cell in outcome.cells:
        mine, other = a.traced(cell.a), b.traced(cell.b)
        if mine and other:
            one = next((run for run in mine if run in other), mine[0])
            two = one if one in other else other[0]
            tables = (a.traces(cell.a, one), b.traces(cell.b, two))
            drawn = _drawn(outcome, tables, a.settings(cell.a) or b.settings(cell.b) or {})
            numbers = " and ".join(dict.fromkeys(str(run[1]) for run in (one, two)))
            at_cell = f" at {cell.name}" if cell.name else ""
            figures = {name: figure for name, (figure, _) in drawn.items()}
            captions = {name: caption for name, (_, caption) in drawn.items()}
            if not figures:
                return Overlays({}, {}, f"the traces{at_cell} have no line in common")
            return Overlays(
                figures, captions, f"the traces are those of replication {numbers}{at_cell}"
            )
    lacks = [
        name
        for name, cells in (
            ("A", any(a.traced(cell.a) for cell in outcome.cells)),
            ("B", any(b.traced(cell.b) for cell in outcome.cells)),
        )
        if not cells
    ]
    who = " and ".join(lacks)
    said = f"{who} ha{'ve' if len(lacks) > 1 else 's'} none" if lacks else "no cell of both has any"
    return Overlays({}, {}, f"no traces are laid over each other: {said}")


def _drawn(
    outcome: SideBySide, tables: Sequence[Mapping[str, pl.DataFrame]], settings: Settings
) -> dict[str, tuple[Figure, str]]:
    """A figure and a caption for each quantity that both runs have."""
    drawn = {}
    for quantity in _QUANTITIES:
        series = _series(quantity, tables)
        if series:
            words = f"{quantity.words[0].upper()}{quantity.words[1:]}: A and B on one scale."
            if (more := len(series) - MOST_PANELS) > 0:
                words += f" {more} more are not drawn."
            names = (outcome.a.name, outcome.b.name)
            drawn[quantity.name] = (_figure(quantity, series, names, settings), words)
    return drawn


_Lines = tuple[pl.DataFrame, pl.DataFrame]
"""The lines of A and of B."""


def _series(
    quantity: _Quantity, tables: Sequence[Mapping[str, pl.DataFrame]]
) -> dict[tuple[object, ...], _Lines]:
    """The lines of both runs by subject, without those that hardly move in either run."""
    sides = []
    for of_run in tables:
        rows = of_run.get(quantity.table)
        if rows is None or rows.is_empty():
            return {}
        sides.append(
            {
                key: _line(quantity, part)
                for key, part in rows.group_by(quantity.keys, maintain_order=True)
            }
        )
    both = {key: (line, sides[1][key]) for key, line in sides[0].items() if key in sides[1]}
    return {
        key: lines
        for key, lines in sorted(both.items(), key=lambda item: tuple(map(str, item[0])))
        if any(line["value"].n_unique() >= quantity.least for line in lines)
    }


def _line(quantity: _Quantity, rows: pl.DataFrame) -> pl.DataFrame:
    """Times and values as steps: each value holds until the next time."""
    value = (pl.col(quantity.value).cast(pl.Float64) * quantity.scale).alias("value")
    if "start_s" in rows.columns:
        line = rows.select(pl.col("start_s").alias("time_s"), value)
        last = rows.tail(1).select(pl.col("end_s").alias("time_s"), value)
        return pl.concat([line, last])
    return rows.select("time_s", value).sort("time_s", maintain_order=True)


def _figure(
    quantity: _Quantity,
    series: Mapping[tuple[object, ...], _Lines],
    names: tuple[str, str],
    settings: Settings,
) -> Figure:
    shown = list(series.items())[:MOST_PANELS]
    until_s = max(float(line["time_s"].max() or 0.0) for _, lines in shown for line in lines)  # type: ignore[arg-type]
    columns = min(_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    with style():
        figure = blank(8, 0.7 + _PANEL_INCHES * max(lines, 1.4))
        grid = figure.subplots(lines, columns, squeeze=False, sharex=True)
        for axes in list(grid.flat)[len(shown) :]:
            axes.set_visible(False)
        for axes, (key, pair) in zip(grid.flat, shown, strict=False):
            for i, line in enumerate(pair):
                drawn = thinned(line, "value", until_s or 1.0)
                axes.step(
                    drawn["time_s"],
                    drawn["value"],
                    where="post",
                    color=COLOURS[i],
                    linewidth=1.2 if i == 0 else 0.9,
                    gid=f"{quantity.name}-{'AB'[i]}",
                )
            axes.set_ylim(bottom=0)
            axes.set_xlim(0, until_s or 1.0)
            titled(axes, _title(quantity, key, settings), pad=6)
        for row in grid:
            row[0].set_ylabel(quantity.label)
        for i in range(columns):
            # The lowest visible panel of each column has the label of the axis.
            lowest = [row[i] for row in grid if row[i].get_visible()][-1]
            lowest.set_xlabel("time (s)")
            lowest.tick_params(labelbottom=True)
        handles = [
            Line2D([], [], color=COLOURS[i], label=f"{'AB'[i]}: {shortened(name, 40)}")
            for i, name in enumerate(names)
        ]
        legend(figure, handles)
        return figure


def _title(quantity: _Quantity, key: tuple[object, ...], settings: Settings) -> str:
    """What a panel shows, such as `call at caller, p0` or `wan forward`."""
    if quantity.table == "queues":
        return f"{shortened(str(key[0]))} {key[1]}"
    flow, side = str(key[0]), str(key[1])
    tree = _flow(settings, flow)
    host = str(tree.get("from" if side == "a" else "to", f"side {side}"))
    text = f"{shortened(flow)} at {shortened(host)}"
    if "path" not in quantity.keys:
        return text
    names: dict[object, Any] = (
        dict(enumerate(tree["paths"])) if isinstance(tree.get("paths"), list) else {}
    )
    return f"{text}, {shortened(str(names.get(key[2], f'path {key[2]}')))}"


def _flow(settings: Settings, flow: str) -> Settings:
    """The settings of a flow; empty where the tree has none of the expected shape."""
    flows = settings.get("flows")
    flows = flows if isinstance(flows, dict) else {}
    tree = members.settings_of(flows, flow)
    return tree if isinstance(tree, dict) else {}
