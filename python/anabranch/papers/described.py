"""A paper described in files (`description.py`): its runs, verdicts, tables, figures and page.

What a paper needs besides is Python: a `PAPER` made of this one with `dataclasses.replace`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from anabranch import _engine
from anabranch.figures.table import Cell, Table
from anabranch.support.wording import counted

from . import outcome, plots, rows, runs
from .description import (
    REPLICATIONS,
    Description,
    Files,
    Mode,
    Published,
    Value,
    check_axes,
    read,
    same,
    shown,
    works,
)
from .intervals import Interval
from .page import Context
from .reproduction import Paper
from .rows import ClaimRows
from .runs import Factor
from .studies import compute_all
from .tables import recorded
from .verdicts import (
    WORDS,
    Claim,
    Finding,
    Part,
    PublishedNumber,
    by_claim,
    verdict,
)
from .verdicts import counted as by_verdict


class Runs(runs.Runs):
    """Runs of one study under one reading: axes as text, `replication`, values."""

    def where(self, **factors: Factor) -> "Runs":
        """The runs whose axes have these values (a list: any of them), however they are spelled."""
        spelled = {
            name: [text for text in self.frame[name].unique() if same(text, value)]
            for name, value in factors.items()
        }
        return super().where(**spelled)


@dataclass(frozen=True)
class DescribedOutcome(outcome.PaperOutcome):
    """What a reproduction found."""

    description: Description
    rows: Mapping[str, Mapping[str, Runs]]
    """Reading -> study -> its runs."""


def described(name: str, folder: Traversable) -> Paper[DescribedOutcome, Mode]:
    """The paper in a folder.

    Raises
    ------
    AnabranchError
        If a file is not there or says what cannot be: one sentence that names the file and the key.
    """
    files = read(folder)
    return Paper(
        name=name,
        package=__package__,
        template="described.html.j2",
        runs=files.description.runs,
        efforts={mode: mode for mode in REPLICATIONS},
        compute=partial(_compute, files),
        headline=_headline,
        sentences=_sentences,
        tables=_terminal,
        figures=figures,
        context=_context,
        sections=_sections,
    )


def _compute(files: Files, _mode: str, effort: Mode, out: Path, jobs: int) -> DescribedOutcome:
    description = files.description
    wanted = list(works(files, effort))
    check_axes(files, {work.name: work for _, work in wanted})
    frames = compute_all([work for _, work in wanted], out, jobs, description.runs)
    rows: dict[str, dict[str, Runs]] = {}
    for reading, work in wanted:
        study = work.name.removeprefix(f"{reading}/")
        tidied = _tidy(frames[work.name], description.values)
        rows.setdefault(reading, {})[study] = Runs(tidied, description.readings[reading].title)
    return DescribedOutcome(
        mode=effort,
        version=_engine.__version__,
        total_runs=sum(work.total for _, work in wanted),
        cells=[
            _beside(number, description, reading, rows[reading][number.study])
            for reading in rows
            for number in files.published
        ],
        claims=[one for reading in rows for one in judged(description, reading, rows[reading])],
        description=description,
        rows=rows,
    )


def _tidy(rows: pl.DataFrame, values: Mapping[str, Value]) -> pl.DataFrame:
    """Axes as text, `replication`, and the values in their units."""
    columns = {value.column for value in values.values()}
    axes = [name for name in rows.columns if name not in {"cell", "replication", *columns}]
    return rows.select(
        *(pl.Series(axis, [shown(value) for value in rows[axis]], pl.String) for axis in axes),
        pl.col("replication").cast(pl.Int64),
        **{name: pl.col(value.column) * value.scale for name, value in values.items()},
    )


def _beside(
    number: Published, description: Description, reading: str, own: Runs
) -> PublishedNumber:
    ours = own.where(**number.cells).mean(number.value)
    tolerance = abs(number.tolerance * number.published)
    return PublishedNumber(
        number.table,
        {"reading": reading, "study": number.study, "value": number.value, **number.cells},
        number.published,
        ours.mean,
        ours.half_width,
        verdict(number.published, ours.mean, ours.half_width, tolerance),
        description.values[number.value].unit,
    )


def judged(description: Description, reading: str, own: Mapping[str, Runs]) -> list[Finding]:
    """Every claim under one reading."""

    def parts(claim: ClaimRows, own: Mapping[str, Runs]) -> list[Part]:
        values = description.values
        return [
            rows.part(
                row,
                own[row.study],
                title=values[row.value].title,
                unit=values[row.value].unit,
                digits=values[row.value].digits,
            )
            for each in claim.parts
            for row in each.parts()
        ]

    def fewest(claim: ClaimRows, own: Mapping[str, Runs]) -> int:
        each = (row for several in claim.parts for row in several.parts())
        return min(rows.measured(row, own[row.study]).n for row in each)

    return [
        Claim(claim.id, claim.text, partial(parts, claim), partial(fewest, claim)).judge(
            own, reading
        )
        for claim in description.claims
    ]


def _headline(outcome: DescribedOutcome) -> str:
    parts = []
    if outcome.cells:
        words = [cell.verdict for cell in outcome.cells]
        counts = [f"{words.count(word)} {text}" for word, text in WORDS.items() if word in words]
        parts.append(f"of {counted(len(words), 'published number')} {', '.join(counts)}")
    if outcome.claims:
        parts.append(f"of {counted(len(outcome.claims), 'claim')} {by_verdict(outcome.claims)}")
    text = "; ".join(parts) or "nothing is published to compare with"
    return f"{outcome.description.title}: {text}."


def _sentences(outcome: DescribedOutcome) -> list[str]:
    """How far the published numbers are missed, under each reading."""
    said = []
    for reading, meant in outcome.description.readings.items():
        cells = [
            cell for cell in outcome.cells if cell.key["reading"] == reading and cell.published
        ]
        missed = [100 * (cell.measured / cell.published - 1) for cell in cells]
        if missed:
            mean = sum(map(abs, missed)) / len(missed)
            worst = max(missed, key=abs)
            said.append(
                f"{meant.title[:1].upper()}{meant.title[1:]}, the published numbers are missed by"
                f" {mean:.0f} % on average, the worst by {worst:+.0f} %."
            )
    return said


def tables(outcome: DescribedOutcome) -> list[Table]:
    """The published tables beside ours."""
    readings = outcome.description.readings
    made = []
    for name in dict.fromkeys(cell.table for cell in outcome.cells):
        cells = [cell for cell in outcome.cells if cell.table == name]
        axes = list(dict.fromkeys(key for cell in cells for key in cell.key))
        keys = [axis for axis in axes if axis != "reading" and _varies(cells, axis)] or ["value"]
        if len(readings) > 1:
            keys = ["reading", *keys]
        values = outcome.description.values
        rows: list[list[Cell | str]] = [
            [
                *(_key(outcome.description, axis, cell.key.get(axis, "")) for axis in keys),
                f"{cell.published:g}",
                cell.ours(values[str(cell.key["value"])].digits),
            ]
            for cell in cells
        ]
        units = list(dict.fromkeys(cell.unit for cell in cells if cell.unit))
        unit = f", {units[0]}" if len(units) == 1 else ""
        made.append(Table(f"{name}{unit}", [*keys, "paper", "ours"], rows, keys=len(keys)))
    return made


def _varies(cells: Sequence[PublishedNumber], axis: str) -> bool:
    return len({cell.key.get(axis) for cell in cells}) > 1


def _key(description: Description, axis: str, value: float | str) -> str:
    if axis == "value":
        return description.values[str(value)].title
    if axis == "reading":
        return description.readings[str(value)].title
    if axis == "study":
        return description.studies[str(value)].title
    return str(value)


def everything(outcome: DescribedOutcome) -> list[Table]:
    """Every value of every cell, a table for each study and reading."""
    values = outcome.description.values
    heads = [f"{one.title}{f', {one.unit}' if one.unit else ''}" for one in values.values()]
    made = []
    for reading, studies in outcome.rows.items():
        for name, own in studies.items():
            axes = [axis for axis in own.frame.columns if axis not in {"replication", *values}]
            keys = own.frame.select(axes).unique(maintain_order=True).rows() if axes else [()]
            rows = [
                [
                    *key,
                    *(
                        own.where(**dict(zip(axes, key, strict=True))).mean(value).text(one.digits)
                        for value, one in values.items()
                    ),
                ]
                for key in keys
            ]
            title = outcome.description.studies[name].title
            if len(outcome.rows) > 1:
                title += f", {outcome.description.readings[reading].title}"
            made.append(Table(title, [*axes, *heads], rows, keys=len(axes)))
    return made


def _terminal(outcome: DescribedOutcome, _width: int) -> list[Table]:
    return tables(outcome) or everything(outcome)


def figures(outcome: DescribedOutcome) -> dict[str, partial[Figure]]:
    """A figure of each published table, and the verdicts where there are several readings."""
    readings = outcome.description.readings
    made = {}
    if len(readings) > 1 and outcome.claims:
        rows = {
            f"{number}. {next(iter(findings.values())).text}": [
                findings[reading].verdict for reading in readings
            ]
            for number, findings in by_claim(outcome.claims).items()
        }
        titles = [reading.title for reading in readings.values()]
        made["verdicts"] = partial(plots.verdict_matrix, rows, titles)
    for index, name in enumerate(dict.fromkeys(cell.table for cell in outcome.cells)):
        cells = [cell for cell in outcome.cells if cell.table == name]
        axes = [key for key in cells[0].key if _varies(cells, key)]
        value = outcome.description.values[str(cells[0].key["value"])]
        label_ = f"{value.title}{f' ({value.unit})' if value.unit else ''}"
        points = [
            plots.Point(
                tuple(_key(outcome.description, axis, cell.key.get(axis, "")) for axis in axes),
                Interval(cell.measured, cell.half_width, 0),
                cell.published,
            )
            for cell in cells
        ]
        made[f"table{index + 1}"] = partial(plots.beside_published, points, axes, label_)
    return made


def _context(outcome: DescribedOutcome) -> Context:
    names = list(dict.fromkeys(cell.table for cell in outcome.cells))
    repeated = {own.repeated for studies in outcome.rows.values() for own in studies.values()}
    return {
        "description": outcome.description,
        "profiles": {name: one.title for name, one in outcome.description.readings.items()},
        "published": tables(outcome),
        "captions": {f"table{index + 1}": name for index, name in enumerate(names)},
        "everything": everything(outcome),
        "counts": {
            f"table{index + 1}": f"Means of {' or '.join(sorted(repeated))} runs of each cell"
            for index in range(len(names))
        },
    }


def _sections(outcome: DescribedOutcome) -> list[Table | list[str]]:
    titles = {name: one.title for name, one in outcome.description.readings.items()}
    claims = [recorded(outcome.claims, titles)] if outcome.claims else []
    return [*tables(outcome), *claims, *everything(outcome)]
