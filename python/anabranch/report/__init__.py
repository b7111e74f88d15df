"""`anabranch report`: a study folder as one HTML file that needs nothing else."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from anabranch import store
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.figures import marks, plots
from anabranch.figures.pages import cells
from anabranch.stats.labels import label_table
from anabranch.stats.metrics import more_is_better
from anabranch.stats.verdicts import Matters
from anabranch.studies.study import Study
from anabranch.support import declared, progress
from anabranch.support.columns import is_scalar
from anabranch.support.files import write_atomically

from . import page
from .analysis import Analysis
from .environments import Environments, divisions
from .sensitivity import Saltelli

MOST_METRICS = 4
"""How many scalars a report shows if none are asked for."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a report says."""

    metrics: list[str]
    """The scalars that it is about."""
    findings: list[str]
    """A sentence for each of its sections; the first one is its headline."""


def write(
    folder: Path,
    out: Path,
    metrics: Sequence[str] = (),
    per: Sequence[str] = (),
    lab: str = cells.LAB,
    *,
    matters: Matters | None = None,
    json_file: Path | None = None,
    formats: Sequence[str] = (),
) -> Written:
    """Writes the report of a study folder to a file; gives what it is about, and what it finds.

    Parameters
    ----------
    folder
        A study folder with rows.
    out
        The file.
    metrics
        The scalars; if none are given, up to `MOST_METRICS` that say how good a cell is.
    per
        Axes for whose values the best cells are found one by one, in the sub-studies that they
        divide (`environments.divisions`).
    lab
        The address of the lab that opens cells.
    matters
        The smallest difference that matters; `verdicts.usual` of each scalar if not given.
    json_file
        A file for the verdicts as JSON.
    formats
        What each figure is written as, with its numbers, into `figures_of(out)`; none if empty.

    Raises
    ------
    AnabranchError
        When a scalar or an axis does not exist, or `per` leaves nothing to choose.
    StoreError
        When it is not a study folder or a shard is damaged.
    """
    study = Study(folder)
    known = _scalars(folder)
    if not known:
        raise AnabranchError(f"{folder} has no rows yet: `anabranch sweep` computes them")
    for metric in metrics:
        if metric not in known:
            raise declared.no_scalar(metric, known)
    chosen = list(dict.fromkeys(metrics)) or _chosen(study, known)
    its_cells = store.read_cells(folder)
    per = list(dict.fromkeys(per))
    divided = divisions(its_cells, per)
    scenario = study.scenario
    labels = label_table(scenario.axes)
    parts = (
        its_cells["study"].unique(maintain_order=True).to_list()
        if "study" in its_cells.columns
        else [None]
    )
    saltelli = _saltelli(scenario)
    sections: list[page.Section] = []

    def save(name: str, figure: Figure) -> None:
        path = figures_of(out) / name
        plots.save(figure, path, formats)
        plots.save_data(marks.table(figure), path)

    counts: pl.DataFrame | None = None
    with progress.steps("report", len(chosen) * len(parts), "tables") as step:
        for metric in chosen:
            rows = study.frame(columns=[metric])
            if metric not in rows.columns:  # only runs of earlier definitions have it
                rows = rows.with_columns(pl.lit(math.nan).alias(metric))
            counts = rows.group_by("cell").len() if counts is None else counts
            for part in parts:
                own = rows if part is None else rows.filter(pl.col("study") == part)
                if not own.is_empty():
                    design = saltelli.get(part or "main")
                    analysis = Analysis(
                        own, metric, labels, page.LEVEL, design=design, matters=matters
                    )
                    environments = (
                        Environments.of(own, analysis, divided[part]) if part in divided else None
                    )
                    sections.append(
                        page.section(
                            analysis, part, len(sections), environments, save if formats else None
                        )
                    )
                step()
            del rows
    assert counts is not None
    options = [word for metric in metrics for word in ("--metric", metric)]
    options += [word for axis in per for word in ("--per", axis)]
    options += [] if matters is None else ["--matters", str(matters).replace(" ", "")]
    options += [] if lab == cells.LAB else ["--lab", lab]
    text = page.render(folder, scenario, counts, options, sections, lab=lab)
    write_atomically(out, text.encode())
    if json_file is not None:
        write_atomically(json_file, (json.dumps(page.as_json(sections), indent=2) + "\n").encode())
    return Written(chosen, [section.finding for section in sections])


def figures_of(out: Path) -> Path:
    """The folder for the figures of a report, beside its file."""
    return out.with_name(f"{out.stem}-figures")


def _saltelli(scenario: Scenario) -> dict[str, Saltelli]:
    """The points of the sub-studies that have Saltelli's design."""
    indices = {}
    for part in scenario.parts:
        if points := scenario.point_cells(part["study"]):
            cells = np.array(points).reshape(-1, len(part["axes"]) + 2)
            indices[part["study"]] = Saltelli(part["axes"], cells)
    return indices


def _scalars(folder: Path) -> list[str]:
    """The names of all scalars."""
    return sorted(store.scalars(folder))


def _chosen(study: Study, names: Sequence[str]) -> list[str]:
    """Scalars that say how good a cell is: every call's MOS, else goodputs, else whatever exists.

    Scalars without a value in any run are left out, and so are those of cells of earlier
    definitions.
    """
    rules: list[Callable[[str], bool]] = [
        lambda name: name.endswith(".mos"),
        lambda name: ".goodput_" in name,
        lambda name: more_is_better(name) is True,
        lambda name: more_is_better(name) is not None and not name.startswith("run."),
        lambda _: True,
    ]
    for good in rules:
        wanted, chosen = [name for name in names if good(name)], list[str]()
        start, size = 0, MOST_METRICS
        while start < len(wanted) and len(chosen) < MOST_METRICS:
            rows = study.frame(columns=wanted[start : start + size])
            chosen += filter(is_scalar, store.without_empty(rows).columns)
            # Thousands without a value must not be read a few at a time.
            start, size = start + size, 8 * size
        if chosen:
            return chosen[:MOST_METRICS]
    return list(names[:MOST_METRICS])
