"""Tables that papers have alike: those of `sheet.toml`, claims, published numbers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from anabranch.figures.table import Cell, Table

from .intervals import Interval
from .runs import Runs
from .sheet import Place, Sheet
from .sheet import Table as Described
from .texts import Means, fill
from .verdicts import WORDS, Finding, PublishedNumber, Verdict, by_claim

FEW = 3
"""Up to so many profiles have a column each."""
_SHOWN: tuple[Verdict, ...] = ("reproduced", "partly", "open")
"""Verdicts that have a column each where there are more profiles."""


def listed(sheet: Sheet, name: str, studies: Mapping[str, Runs], **changed: Any) -> Table:
    """A table that `sheet.toml` describes, with a row for each combination that runs have.

    `changed` are keys of the description with other values.
    """
    row = sheet.tables[name].model_copy(update=changed)
    runs = studies[row.study].where(**row.where)
    # Several keys of one factor say the same thing in other words.
    columns = list(dict.fromkeys(map(sheet.column, row.keys)))
    first = {sheet.column(axis): axis for axis in reversed(row.keys)}
    across: Sequence[Place | None] = sheet.places(row.across, runs) if row.across else [None]
    texts = _texts(sheet, row)
    made = []
    for combination in product(*(sheet.places(first[column], runs) for column in columns)):
        cells = dict(zip(columns, (place.value for place in combination), strict=True))
        own = runs.where(**cells)
        if own.frame.is_empty():
            continue
        parts = [
            own if place is None else own.where(**{sheet.column(row.across): place.value})
            for place in across
        ]
        shown = [[fill(text, Means(part)) for text, _ in texts] for part in parts]
        keys = (sheet.title(axis, cells[sheet.column(axis)]) for axis in row.keys)
        made.append([*keys, *_ordered(row, shown)])
    heads = [[_head(row, head, place) for _, head in texts] for place in across]
    return Table(
        row.title,
        [*row.keys.values(), *_ordered(row, heads)],
        made,
        keys=len(row.keys) if row.texts is None else row.texts,
        is_merged=row.is_merged,
        lead=row.lead,
    )


def _head(row: Described, head: str, place: Place | None) -> str:
    if place is None:
        return head
    return (head if row.by_place else row.head).format(column=head, place=place.title)


def _ordered(row: Described, by_place: Sequence[Sequence[str]]) -> list[str]:
    """What stands in a line: the columns of each place, or each column at every place."""
    columns = by_place if row.by_place else zip(*by_place, strict=True)
    return [text for one in columns for text in one]


def _texts(sheet: Sheet, row: Described) -> list[tuple[str, str]]:
    """The texts of a table's columns, with their heads."""
    if isinstance(row.columns, dict):
        return list(row.columns.items())
    interval = "±" if row.has_intervals else ""
    values = [(name, sheet.values[name]) for name in row.columns]
    return [(f"{{{name}:{interval}{value.digits}}}", value.head) for name, value in values]


def of_records(
    sheet: Sheet, name: str, records: Iterable[Mapping[str, Interval | float | str]]
) -> Table:
    """A table of what the package has found, as `sheet.toml` describes it."""
    row = sheet.records[name]
    rows = []
    for record in records:
        said = {
            key: Interval(value, math.nan, 1) if isinstance(value, int | float) else value
            for key, value in record.items()
        }
        rows.append([fill(text, said) for text in row.columns])
    return Table(row.title, list(row.columns.values()), rows, keys=row.keys, lead=row.lead)


def of_published(sheet: Sheet, name: str, cells: Iterable[PublishedNumber]) -> Table:
    """Published numbers beside ours, as `sheet.toml` describes it.

    Ours have the verdict as a shade, or in a column of its own.
    """
    row = sheet.numbers[name]
    rows: list[list[Cell | str]] = []
    for cell in cells:
        said = {axis: sheet.said(axis, value) for axis, value in cell.key.items()}
        keys = (sheet.said(axis, cell.key[axis_of(sheet, axis)]) for axis in row.keys)
        words = {f"{axis}_word": value for axis, value in cell.key.items()}
        paper = row.paper.format(published=cell.published, **said, **words)
        ours = cell.ours(row.digits)
        shown = [ours.text, WORDS[cell.verdict]] if row.in_words else [ours]
        rows.append([*keys, paper, *shown])
    verdict = ["verdict"] if row.in_words else []
    heads = [*row.keys.values(), "paper", "ours", *verdict]
    return Table(row.title, heads, rows, keys=len(row.keys))


def axis_of(sheet: Sheet, axis: str) -> str:
    """The key of published numbers that an axis has values of."""
    return sheet.column(axis) if axis in sheet.axes else axis


def claims(findings: Sequence[Finding]) -> Table:
    """Every claim with its verdict under each profile.

    Where there are many profiles, those under which it holds, does so partly, or is not decided.
    """
    profiles = list(dict.fromkeys(finding.profile for finding in findings))
    few = len(profiles) <= FEW
    heads = [profile.replace("_", " ").replace("-", "\n") for profile in profiles]
    rows: list[list[Cell | str]] = []
    for number, by_profile in by_claim(findings).items():
        if few:
            verdicts = [by_profile[profile].verdict for profile in profiles]
            cells = [Cell(WORDS[verdict], verdict) for verdict in verdicts]
        else:
            cells = [Cell(_profiles(by_profile, verdict), verdict) for verdict in _SHOWN]
        rows.append([number, next(iter(by_profile.values())).text, *cells])
    shown = heads if few else [WORDS[verdict] for verdict in _SHOWN]
    return Table("The paper's claims", ["", "claim", *shown], rows, keys=2 + len(shown))


def _profiles(by_profile: Mapping[str, Finding], verdict: Verdict) -> str:
    names = [
        profile.replace("_", " ").replace("-", " ")
        for profile, finding in by_profile.items()
        if finding.verdict == verdict
    ]
    return "all" if len(names) == len(by_profile) else ", ".join(names)


def recorded(findings: Iterable[Finding], profiles: Mapping[str, str]) -> list[str]:
    """The record's section of every claim; `profiles` names what it was judged under."""
    return [
        "## Claims",
        "",
        *(
            f"- **{finding.id}** ({profiles[finding.profile]}): {WORDS[finding.verdict]}."
            f" {finding.text} {finding.evidence}"
            for finding in findings
        ),
    ]
