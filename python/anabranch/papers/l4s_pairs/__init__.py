"""The pairs of l4s-tests: a paper in files, and Jain's index of each pair."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files

from rich.console import RenderableType

from anabranch.figures.table import Table
from anabranch.papers.described import DescribedOutcome, described
from anabranch.papers.described import tables as published_tables
from anabranch.papers.page import Context
from anabranch.papers.verdicts import PublishedNumber

CLOSE = 0.05
"""Indices that differ by no more are the same here."""

_BASE = described("l4s-pairs", files(__package__))


def jain(first: float, second: float) -> float:
    """Jain's index of two goodputs: 1 where they are equal, 1/2 where one has everything."""
    return (first + second) ** 2 / (2 * (first**2 + second**2))


def pairs(outcome: DescribedOutcome) -> list[tuple[PublishedNumber, PublishedNumber]]:
    """The published pairs: both goodputs of each, in the order of the file."""
    return list(zip(outcome.cells[::2], outcome.cells[1::2], strict=True))


def _jain_table(outcome: DescribedOutcome) -> Table:
    rows = []
    for first, second in pairs(outcome):
        published = jain(first.published, second.published)
        measured = jain(first.measured, second.measured)
        key = [str(first.key[axis]) for axis in ("queue", "rtts", "first", "second")]
        rows.append([*key, f"{published:.3f}", f"{measured:.3f}"])
    return Table(
        "Jain's index", ["queue", "rtts", "first", "second", "paper", "ours"], rows, keys=4
    )


def _sentences(outcome: DescribedOutcome) -> list[str]:
    said = []
    for queue in dict.fromkeys(str(first.key["queue"]) for first, _ in pairs(outcome)):
        own = [pair for pair in pairs(outcome) if pair[0].key["queue"] == queue]
        near = sum(
            all(abs(one.measured / one.published - 1) <= 0.2 for one in pair) for pair in own
        )
        fair = sum(_same_jain(pair) for pair in own)
        said.append(
            f"{queue}: of {len(own)} pairs {near} have both goodputs within 20 % of the published"
            f" ones, {fair} have Jain's index within {CLOSE}."
        )
    return [*_BASE.sentences(outcome), *said]


def _same_jain(pair: Sequence[PublishedNumber]) -> bool:
    first, second = pair
    theirs, ours = jain(first.published, second.published), jain(first.measured, second.measured)
    return abs(theirs - ours) <= CLOSE


def _tables(outcome: DescribedOutcome, width: int) -> list[Table | RenderableType]:
    return [*_BASE.tables(outcome, width), _jain_table(outcome)]


def _context(outcome: DescribedOutcome) -> Context:
    published = [*published_tables(outcome), _jain_table(outcome)]
    return _BASE.context(outcome) | {"published": published}


def _sections(outcome: DescribedOutcome) -> list[Table | list[str]]:
    return [*_BASE.sections(outcome), _jain_table(outcome)]


PAPER = replace(_BASE, sentences=_sentences, tables=_tables, context=_context, sections=_sections)
