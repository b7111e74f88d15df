"""A paper's cells on real stacks: what stands beside published and simulated numbers."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
from rich.console import RenderableType
from rich.text import Text

from anabranch._engine import Scenario
from anabranch.figures.table import Cell, Shade, Table
from anabranch.store import traces
from anabranch.studies.workers import Workers
from anabranch.support.wording import counted

from . import tables
from .intervals import Interval, interval
from .rows import ratios
from .runs import Runs
from .studies import Key, Place, Work, compute_all, folder_of, simulated
from .verdicts import WORDS, Finding, Verdict, by_claim, plain

REAL = "real_stack"
"""What claims are judged under that are about a real stack's runs."""


SCTP_PROFILES = {"usrsctp": "freebsd_10", "kernel": "linux"}
"""The simulated SCTP that is like each stack's."""
SCTP_ALIKE = {"usrsctp": "simulated, FreeBSD 10", "kernel": "simulated, Linux"}
"""What its column is called."""


@dataclass(frozen=True)
class Stack:
    """A real stack, and how runs are made on it."""

    name: str
    """The name that folders of its runs end with, such as `virtual`."""
    title: str
    """What people call it, such as `Linux 6.12.41 in virtual time`."""
    workers: Callable[[Scenario], Workers]
    lacks: Callable[[Scenario, int], str | None] = lambda _scenario, _cell: None
    """Why a cell cannot run on it, in a sentence; None where it can."""
    sctp: Literal["kernel", "usrsctp"] = "kernel"
    """What flows of SCTP run on."""


@dataclass(frozen=True)
class LeftOut:
    """Cells that a real stack cannot do."""

    what: str
    reason: str

    def __str__(self) -> str:
        """The line that lists it."""
        return f"{self.what}: {self.reason}"


@dataclass(frozen=True)
class Bench:
    """Where a paper has its runs computed: simulated, and on a real stack."""

    stack: Stack
    out: Path
    jobs: int
    """The number of threads that simulate."""
    runs: str
    """What they are, in the plural."""

    def simulated(self, works: Sequence[Work]) -> dict[str, pl.DataFrame]:
        """The rows of simulated studies by name; see `studies.compute`."""
        return compute_all(works, self.out, self.jobs, self.runs)

    def real(self, works: Sequence[Work]) -> tuple[dict[str, pl.DataFrame], list[LeftOut]]:
        """The rows of the same studies on the stack, and the cells that it cannot do."""
        able, left_out = [], []
        for work in works:
            taken, lacking = self._able(work)
            able.append(taken)
            left_out += lacking
        rows = compute_all(
            able, self.out, self.jobs, f"{self.runs} on {self.stack.title}", self._place
        )
        return rows, left_out

    def everywhere(
        self, works: Mapping[str, Sequence[Work]]
    ) -> tuple[dict[str, dict[str, pl.DataFrame]], list[LeftOut]]:
        """The rows of studies by where they run, REAL among it, and what the stack cannot do."""
        own, left_out = self.real(works[REAL])
        rows = {name: own if name == REAL else self.simulated(each) for name, each in works.items()}
        return rows, left_out

    def traces(self, work: Work, table: str, *, is_real: bool) -> pl.LazyFrame:
        """A table of the traces that a study has kept, on the stack or simulated."""
        place = self._place if is_real else simulated(self.jobs)
        return traces(folder_of(work, self.out, place), table, work.scenario)

    @property
    def _place(self) -> Place:
        return Place(f"-{self.stack.name}", self.stack.workers)

    def _able(self, work: Work) -> tuple[Work, list[LeftOut]]:
        """A study without the cells that the stack cannot do."""
        wanted = work.wanted()
        refused: dict[tuple[Any, ...], str] = {}
        for cell in range(work.scenario.cell_count):
            if wanted[cell] and (reason := self.stack.lacks(work.scenario, cell)):
                refused[_place_of(work.scenario.cell_key(cell))] = reason

        def replications(key: Key) -> int:
            return 0 if _place_of(key) in refused else work.replications(key)

        left_out = [
            LeftOut(f"{counted(cells, 'cell')} of {work.title}", reason)
            for reason, cells in Counter(refused.values()).items()
        ]
        return replace(work, replications=replications), left_out


@dataclass(frozen=True)
class Number:
    """One number of a table: as published, as simulated, and on a real stack."""

    table: str
    key: dict[str, float | int | str]
    """What it is of, by the heads of the table's first columns."""
    published: float
    """NaN where nothing is published."""
    simulated: dict[str, Interval]
    """Ours by what is simulated; the last one is like the real stack."""
    real: Interval
    deviation_percent: Interval
    """The real stack's mean above the last simulated one, in percent, replication by replication on
    the same random numbers."""
    digits: int = 2
    verdict: Verdict | None = None
    """How the real stack's number compares with the published one."""


def number(
    table: str,
    key: Mapping[str, float | int | str],
    value: str,
    runs: Mapping[str, Runs],
    *,
    published: float = math.nan,
    verdict: Callable[[Interval], Verdict] | None = None,
    digits: int = 2,
) -> Number:
    """A number of some cells, whose runs are given by where they were made: REAL, and simulated.

    Other factors are averaged.
    """
    simulated = {name: own for name, own in runs.items() if name != REAL}
    *_, alike = simulated.values()
    mean = runs[REAL].mean(value)
    return Number(
        table,
        dict(key),
        published,
        {name: own.mean(value) for name, own in simulated.items()},
        mean,
        deviation_percent(runs[REAL], alike, value),
        digits,
        None if verdict is None else verdict(mean),
    )


def numbers(
    table: str,
    value: str,
    runs: Mapping[str, Runs],
    cells: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
    digits: int = 2,
) -> Iterator[Number]:
    """A number for each of these cells, with its key, that the real stack has run."""
    for key, where in cells:
        own = {name: one.where(**where) for name, one in runs.items()}
        if not own[REAL].frame.is_empty():
            yield number(table, key, value, own, digits=digits)


def farthest(numbers: Sequence[Number]) -> Number:
    """The number that deviates most from the simulated one beside it."""
    return max(
        numbers, key=lambda one: abs(one.deviation_percent.mean) if one.deviation_percent.n else 0.0
    )


def deviation_percent(real: Runs, simulated: Runs, value: str) -> Interval:
    """How far the real mean is above the simulated one, over the replications that both have."""
    ratio = interval(ratios(real, simulated, value).values())
    return Interval(100 * (ratio.mean - 1), 100 * ratio.half_width, ratio.n)


@dataclass(frozen=True)
class RealStack:
    """What a paper's cells did on a real stack."""

    title: str
    """The stack's title."""
    total_runs: int
    """The number of runs on the stack."""
    sentences: list[str]
    """What was found, and how the runs differ from the paper's simulated ones."""
    numbers: list[Number]
    claims: list[Finding]
    """Under profiles of which the last is REAL."""
    profiles: dict[str, str]
    """The claims' profiles, and what people call them."""
    left_out: list[LeftOut]

    def as_json(self) -> dict[str, Any]:
        """All of it as the JSON of `reproduce` has it."""
        return {
            "stack": self.title,
            "runs": self.total_runs,
            "cells": [plain(one, "digits") for one in self.numbers],
            "claims": plain(self.claims),
            "left_out": plain(self.left_out),
        }

    def tables(self) -> list[Table]:
        """Each table of the numbers, with a column for the real stack."""
        names = dict.fromkeys(one.table for one in self.numbers)
        return [_table([one for one in self.numbers if one.table == name]) for name in names]

    def claims_table(self) -> Table:
        """Every claim with its verdicts, and the real stack's evidence."""
        rows: list[list[Cell | str]] = []
        for claim, findings in by_claim(self.claims).items():
            verdicts = [
                Cell(WORDS[findings[profile].verdict], findings[profile].verdict)
                for profile in self.profiles
            ]
            rows.append([claim, findings[REAL].text, *verdicts, findings[REAL].evidence])
        heads = ["claim", "", *self.profiles.values(), "on the real stack"]
        return Table("Claims on the real stack", heads, rows, keys=2)

    def shown(self) -> list[RenderableType]:
        """What a terminal shows."""
        lines = [f"- {sentence}" for sentence in self.sentences]
        lines += [f"- left out: {one}" for one in self.left_out]
        shown: list[RenderableType] = [
            Text(f"On a real stack: {self.title}", style="bold"),
            Text("\n".join(lines)),
            *(table.rich() for table in self.tables()),
        ]
        return [*shown, tables.claims(self.claims).rich()] if self.claims else shown

    def record(self) -> list[str]:
        """The lines of its part of the golden record."""
        lines = [f"{self.title}, {counted(self.total_runs, 'run')}.", ""]
        lines += [f"- {sentence}" for sentence in self.sentences]
        lines += [f"- Left out: {one}" for one in self.left_out]
        for table in self.tables():
            title, *rest = table.markdown()
            lines += ["", f"#{title}", *rest]
        if self.claims:
            title, *rest = tables.recorded(self.claims, self.profiles)
            lines += ["", f"#{title}", *rest]
        return lines


def _table(numbers: Sequence[Number]) -> Table:
    first = numbers[0]
    is_published = any(not math.isnan(one.published) for one in numbers)

    def row(one: Number) -> list[Cell | str]:
        shade: Shade | None = one.verdict
        published = [] if math.isnan(one.published) else [f"{one.published:g}"]
        return [
            *map(str, one.key.values()),
            *((published or [""]) if is_published else []),
            *(simulated.text(one.digits) for simulated in one.simulated.values()),
            Cell(one.real.text(one.digits), shade),
            one.deviation_percent.text(1, signed=True),
        ]

    heads = [*first.key, *(["paper"] if is_published else []), *first.simulated]
    return Table(
        first.table,
        [*heads, "real stack", "deviation, %"],
        [row(one) for one in numbers],
        keys=len(first.key),
    )


def _place_of(key: Key) -> tuple[Any, ...]:
    return tuple(key.items())
