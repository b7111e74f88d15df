"""The page of a report: what it says about each scalar, and where the numbers come from."""

import math
import platform
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from anabranch import store
from anabranch._engine import Scenario, __version__
from anabranch.figures import pages
from anabranch.figures.diagram import Diagram, varied
from anabranch.figures.pages import cells as lab_cells
from anabranch.figures.pages import interactive
from anabranch.stats.labels import label_table
from anabranch.studies.plan import wanted_of
from anabranch.support import wording
from anabranch.support.wording import counted

from . import figures, sensitivity
from .analysis import MOST_LEVELS, MOST_SCREENED, Analysis
from .environments import Environments

MOST_CELLS = 60
"""Up to this number of cells, a table lists all of them."""

FIRST, LAST = 25, 5
"""Otherwise, it lists this many from the beginning and from the end of the ranking."""

FIRST_OF_EACH = 5
"""Cells in the table for one combination of values of `--per`."""

LEVEL = 0.95

_MARKS = {"best": "★", "open": "★", "equal": "=", "worse": ""}
"""The mark of a cell in the ranking, by its verdict."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure as the page contains it."""

    svg: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a report about one scalar, within one sub-study if there are any."""

    id: str
    title: str
    analysis: Analysis
    figures: dict[str, Drawn]
    rows: list[dict[str, Any]]
    """The rows of the ranking's table."""
    left_out: int
    """Cells that the table does not have."""
    data: Markup
    """The table's rows, for the page's script."""
    runs: Markup
    """All cells' runs, for the same, if they are few enough."""
    indices: list[dict[str, str]]
    """The rows of the table of Sobol indices with a total order."""
    finding: str
    per: list[str]
    """The axes for each of whose values the best cells are found separately."""
    tables: list["FirstCells"]
    """The best cells for each combination of these values."""


@dataclass(frozen=True, slots=True)
class FirstCells:
    """The first cells for one combination of values of some axes."""

    title: str
    axes: list[str]
    rows: list[dict[str, Any]]
    cells: int
    """The number of all cells."""
    good: int
    """Those that are the best, or equal to it."""
    open: int
    """Those that may be."""
    data: Markup
    """The rows, for the page's script."""


def section(
    analysis: Analysis,
    part: str | None,
    place: int,
    environments: Environments | None = None,
    save: Callable[[str, Figure], None] | None = None,
) -> Section:
    """The section at this place in the page, of a sub-study if there are any.

    `save` is called with each figure, and with a name that tells it from all others.
    """
    title = analysis.metric if part is None else f"{analysis.metric} in {part}"
    name = f"metric{place}"
    drawn = {}
    for key, caption, figure in _figures(analysis, title):
        if save is not None:
            words = [*([part] if part else []), *analysis.metric.split("."), key]
            save(re.sub(r"[^\w-]", "_", "-".join(words)), figure)
        svg = pages.responsive(figure, f"{name}-{key}", name)
        label = f'role="img" aria-label="{escape(caption)}"'
        drawn[key] = Drawn(Markup(svg.replace('role="img"', label)), caption)
    rows, left_out = _table(analysis)
    if environments:
        finding = environments.finding if part is None else f"In {part}: {environments.finding}"
    else:
        finding = str(analysis.finding)
        if part is not None:
            finding = f"In {part}: {finding}"
    return Section(
        id=name,
        title=title,
        analysis=analysis,
        figures=drawn,
        rows=rows,
        left_out=left_out,
        data=_data(analysis, _shown(analysis), name),
        runs=Markup(interactive.samples(name, analysis.cells["cell"].to_list(), analysis.values)),
        indices=_indices(analysis),
        finding=finding,
        per=environments.division.per if environments else [],
        tables=_tables(environments, name) if environments else [],
    )


def _tables(environments: Environments, name: str) -> list[FirstCells]:
    """The first cells of each ranking."""
    return [
        FirstCells(
            title=title,
            axes=environments.division.choice,
            rows=_rows(analysis, analysis.ranking.head(FIRST_OF_EACH)),
            cells=analysis.ranking.height,
            good=int(analysis.ranking["verdict"].is_in(["best", "equal"]).sum()),
            open=int(analysis.ranking["verdict"].eq("open").sum()),
            data=_data(analysis, analysis.ranking.head(FIRST_OF_EACH), name),
        )
        for title, analysis in environments.analyses
    ]


def _figures(analysis: Analysis, title: str) -> Iterator[tuple[str, str, Figure]]:
    """Key, caption and figure."""
    if not analysis.runs:
        return
    if analysis.axes:
        caption = (
            f"Mean of {title} at each value of an axis, or range of values, over all cells that"
            " have it, with its interval over replications."
        )
        yield "effects", caption, figures.main_effects(analysis)
    for i, (one, other) in enumerate(analysis.pairs):
        caption = f"Mean of {title} by {one.name} and {other.name}."
        if figures.has_best_cells(analysis):
            caption += " Framed: the cells that may be the best."
        yield f"heat{i}", caption, figures.heat_map(analysis, one, other)
        caption = "The same as lines, with intervals: where they are parallel, nothing interacts."
        yield f"pair{i}", caption, figures.interaction(analysis, one, other)
    if figure := _shares(analysis, title):
        yield "shares", *figure
    if analysis.runs > analysis.cells.height:
        whole = analysis.cells.height <= figures.MOST_BOXES
        which = "each cell" if whole else "the first and the last cells of the ranking"
        caption = (
            f"{title} in the runs of {which}. Box: quartiles and median; diamond: mean; whiskers:"
            " 1.5 times the box."
        )
        yield "boxes", caption, figures.distribution(analysis)
    if analysis.runs > 1:
        caption = f"Part of the runs whose {title} is at most a value."
        yield "cumulative", caption, figures.cumulative(analysis)


def _shares(analysis: Analysis, title: str) -> tuple[str, Figure] | None:
    """Parts of the variance: exact for a full factorial, otherwise estimates from a design."""
    if analysis.shares:
        caption = (
            f"Part of the variance of {title} between cells that each axis explains alone, and"
            " each pair beyond that; exact, as the cells are a full factorial."
        )
        shown = [share for share in analysis.shares if share.share >= 0.001][:12]
        exact = {"": [(share.share, math.nan) for share in shown]}
        return caption, figures.bars([share.name for share in shown], exact)
    indices = [index for index in analysis.indices if not math.isnan(index.first_order)]
    if not indices:
        return None
    series = {"first order": [(index.first_order, index.half_width) for index in indices]}
    if analysis.design is None:
        caption = (
            f"First-order Sobol indices of {title} with bootstrap intervals: the part of the"
            " variance between cells that each axis explains alone (SALib, from the cells as they"
            " are)."
        )
    else:
        series["total order"] = [(index.total_order, index.total_half_width) for index in indices]
        caption = (
            f"Sobol indices of {title} with bootstrap intervals (SALib, from Saltelli's design)."
            " First order: the part of the variance that an axis explains alone. Total order: the"
            " part in which it has a share, alone or with other axes, which is what would be left"
            " on average if all others were fixed. The difference is interaction."
        )
    return caption, figures.bars([index.name for index in indices], series)


def _indices(analysis: Analysis) -> list[dict[str, str]]:
    rows = []
    for index in analysis.indices if analysis.design is not None else ():
        first, first_half_width = wording.rounded(index.first_order, index.half_width)
        total, total_half_width = wording.rounded(index.total_order, index.total_half_width)
        rows.append(
            {
                "name": index.name,
                "first": first,
                "first_half_width": first_half_width,
                "total": total,
                "total_half_width": total_half_width,
            }
        )
    return rows


def _table(analysis: Analysis) -> tuple[list[dict[str, Any]], int]:
    rows = _rows(analysis, _shown(analysis))
    left_out = analysis.ranking.height - len(rows)
    for i, row in enumerate(rows):
        row["after_gap"] = left_out > 0 and i == FIRST
    return rows, left_out


def _shown(analysis: Analysis) -> pl.DataFrame:
    """The part of the ranking that the table has."""
    ranked = analysis.ranking
    if ranked.height <= MOST_CELLS:
        return ranked
    return pl.concat([ranked.head(FIRST), ranked.tail(LAST)])


def _data(analysis: Analysis, shown: pl.DataFrame, name: str) -> Markup:
    """Rows of a ranking as the marks of the section with this name."""
    rows = [figures.of_cell(analysis, row) for row in shown.iter_rows(named=True)]
    own = [(analysis.metric, row) for row in rows]
    return Markup(interactive.of_marks(own, name, f"{name}-cells"))


def _rows(analysis: Analysis, shown: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of a ranking as text."""
    rows = []
    for row in shown.iter_rows(named=True):
        mean, half_width = wording.rounded(row["mean"], row["half_width"])
        behind, behind_half_width = wording.rounded(row["behind"], row["behind_half_width"])
        rows.append(
            {
                "rank": row["rank"],
                "cell": row["cell"],
                "key": dict(analysis.key(row)),
                "mean": mean,
                "half_width": half_width,
                "n": row["n"],
                "mark": _MARKS[row["verdict"]] if analysis.ranking.height > 1 else "",
                "behind": behind if row["rank"] > 1 else "",
                "behind_half_width": behind_half_width if row["rank"] > 1 else "",
            }
        )
    return rows


def as_json(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The verdicts of a report, for other programs."""

    def known(value: Any) -> Any:
        return None if isinstance(value, float) and math.isnan(value) else value

    return [
        {
            "title": section.title,
            "metric": section.analysis.metric,
            "finding": section.finding,
            "matters": str(section.analysis.matters),
            "region": region.axes if (region := section.analysis.finding.region) else None,
            "cells": [
                {name: known(value) for name, value in row.items()}
                for row in section.analysis.ranking.iter_rows(named=True)
            ],
        }
        for section in sections
    ]


def _code(text: str) -> Markup:
    """Text for the page, with parts in backticks as code."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def render(
    folder: Path,
    scenario: Scenario,
    counts: pl.DataFrame,
    options: Sequence[str],
    sections: Sequence[Section],
    *,
    lab: str = lab_cells.LAB,
) -> str:
    """The page as text; `counts` has the runs of each cell, `options` are the command's.

    `lab` is the address of the lab that opens cells.
    """
    identity, cells = store.read_identity(folder), store.read_cells(folder)
    runs = int(counts["len"].sum())
    asked = store.asked_of(folder, identity, scenario.cell_count)
    wanted, asked_for = _wanted(scenario, asked)
    environment = pages.environment({"report.html.j2": __package__, "network.css": pages.__name__})
    environment.filters["code"] = _code
    return environment.get_template("report.html.j2").render(
        name=identity["name"],
        description=scenario.description,
        network=Markup(Diagram(scenario).svg()),
        axes=axes_of(scenario),
        sections=sections,
        headline=sections[0].finding if sections else "No run has a value.",
        runs=counted(runs, "simulated run"),
        cells=f"{f'{counts.height:,} of ' if counts.height < cells.height else ''}"
        + counted(cells.height, "cell"),
        replications=range_text(counts["len"].to_numpy()),
        asked_for=asked_for,
        missing=_missing(wanted, counts),
        stopping=stopping(scenario) if asked is None else [],
        level=100 * LEVEL,
        toml=scenario.to_toml(),
        facts=_facts(folder, scenario, identity, cells) | {"runs": f"{runs:,}"},
        commands=[
            f"anabranch sweep {shlex.quote(str(folder / 'scenario.toml'))} --out NEW"
            + (f" --replications {wanted.max(initial=1)}" if asked_for else ""),
            shlex.join(["anabranch", "report", str(folder), *options]),
        ],
        query=f"anabranch query {shlex.quote(str(folder))}",
        in_lab=lab_cells.section({folder: scenario}, lab),
        screened=MOST_SCREENED,
        first=FIRST,
        first_of_each=FIRST_OF_EACH,
        last=LAST,
        salib=sensitivity.is_available(),
        least=sensitivity.LEAST,
    )


def _wanted(scenario: Scenario, asked: Sequence[int] | None) -> tuple[np.ndarray, str]:
    """The runs of each cell that were asked for, and a sentence if the definition differs.

    With a stopping rule, `least` runs are asked for.
    """
    defined, rules = wanted_of(scenario)
    for cell, rule in rules.items():
        defined[cell] = rule["least"]
    wanted = defined if asked is None else np.array(asked)
    if (wanted == defined).all():
        return wanted, ""
    runs, its = counted(int(wanted.sum()), "run"), f"{int(defined.sum()):,}"
    least = "at least " if rules else ""
    return wanted, (
        f"Asked for: {runs}, {range_text(wanted)} of each cell; the scenario itself asks for"
        f" {least}{its}."
    )


def _missing(wanted: np.ndarray, counts: pl.DataFrame) -> int:
    """The number of runs that were asked for and are missing."""
    there = np.zeros_like(wanted)
    there[counts["cell"].to_numpy()] = counts["len"].to_numpy()
    return int(np.maximum(wanted - there, 0).sum())


def stopping(scenario: Scenario) -> list[str]:
    """Sentences on the stopping rules of the parts."""
    rules = [(part["study"], part["until"]) for part in scenario.parts if part["until"]]
    return [
        f"{f'In {study}, each' if scenario.studies else 'Each'} cell was repeated until the"
        f" {100 * rule['level']:g} % interval of `{rule['metric']}` was ± {rule['half_width']:g},"
        f" from {rule['least']:,} to {rule['most']:,} times."
        for study, rule in rules
    ]


def _facts(
    folder: Path, scenario: Scenario, identity: Mapping[str, Any], cells: pl.DataFrame
) -> dict[str, str]:
    """Where the numbers come from."""
    shards = store.shards(folder)
    sizes = [path.stat().st_size for path in shards]
    dates = sorted({_date(path.stat().st_mtime) for path in shards})
    seeds = cells["seed"].unique().sort().to_list()
    return {
        "study folder": folder.resolve().name,
        "scenario hash": scenario.hash,
        "engine": f"anabranch {identity['engine_version']}",
        "read with": f"anabranch {__version__}, Python {platform.python_version()},"
        f" Polars {pl.__version__}",
        "seed": ", ".join(map(str, seeds[:5])) + (", …" if len(seeds) > 5 else ""),
        "metrics kept": ", ".join(identity["metrics"]) or "all",
        "rows": f"{counted(len(shards), 'shard')}, {sum(sizes) / 1e6:,.1f} MB,"
        f" schema version {identity['schema_version']}",
        "written": " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "–",
    }


def axes_of(scenario: Scenario) -> list[dict[str, str]]:
    """The axes: name, settings that they change, and values."""
    sweep = tomllib.loads(scenario.to_toml()).get("sweep", {})
    keys = dict(varied(sweep))
    rows = []
    for name, labels in label_table(scenario.axes).items():
        values = list(labels.values())
        shown = ", ".join(values)
        if len(values) > MOST_LEVELS:
            ordered = sorted(labels, key=float) if all(map(_is_number, labels)) else list(labels)
            low, high = labels[ordered[0]], labels[ordered[-1]]
            shown = f"{len(values):,} from {low} to {high}"
        rows.append({"name": name, "keys": ", ".join(keys.get(name, [])), "values": shown})
    return rows


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def range_text(counts: np.ndarray) -> str:
    """Numbers of runs as one number, or from the least to the most."""
    if not len(counts):
        return "0"
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
