"""The work of `anabranch compare A B`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from anabranch.compare import SideBySide, compare
from anabranch.errors import AnabranchError
from anabranch.stats import verdicts
from anabranch.support import terminal
from anabranch.support.files import write_atomically

from .app import write_json

_MOST_LISTED = 40
"""Rows of the table on a terminal without --all."""


@dataclass(frozen=True)
class Wanted:
    """The options of the command line."""

    a: Path
    b: Path
    metrics: Sequence[str]
    is_all: bool
    bound_percent: float
    level: float
    matters: str | None
    csv: Path | None
    json: Path | None
    plot: Path | None


def side_by_side(wanted: Wanted) -> None:
    """Compares, prints, and writes the files asked for."""
    if not 0 <= wanted.bound_percent < math.inf:
        raise AnabranchError(f"--bound is {wanted.bound_percent:g}; it must be 0 or more percent")
    what = None if wanted.matters is None else verdicts.matters(wanted.matters)
    outcome = compare(wanted.a, wanted.b, metrics=wanted.metrics, level=wanted.level, matters=what)
    rows = outcome.rows if wanted.is_all else outcome.listed(wanted.bound_percent / 100)
    out = terminal.console()
    for line in outcome.notes:
        out.print(line)
    if rows.height:
        from anabranch.compare import page

        most = rows.height if wanted.is_all else _MOST_LISTED
        table = page.table(outcome, rows.head(most))
        # Some names come from files that others have written.
        lines = [[cell.text for cell in row] for row in table.cells]
        out.print(terminal.side_by_side(table.heads, lines, out.width, table.keys))
        if rows.height > most:
            out.print(f"and {rows.height - most:,} more: --all lists and --csv writes all")
    out.print(outcome.sentence)
    hidden = outcome.count("single") - rows["verdict"].eq("single").sum()
    if hidden:
        they = "1 of these deviates" if hidden == 1 else f"{hidden:,} of these deviate"
        out.print(f"{they} by at most {wanted.bound_percent:g} %: --all lists them")
    written = []
    if wanted.csv is not None:
        write_atomically(wanted.csv, outcome.rows.write_csv().encode())
        written.append(wanted.csv)
    if wanted.json is not None:
        write_json(wanted.json, _as_json(outcome))
        written.append(wanted.json)
    if wanted.plot is not None:
        from anabranch.compare import page

        written += page.write(outcome, rows, wanted.plot)
    for path in written:
        out.print(f"wrote {path}")


def _as_json(outcome: SideBySide) -> dict[str, Any]:
    sides = (("a", outcome.a), ("b", outcome.b))
    rows = outcome.rows.with_columns(pl.col(pl.Float64).fill_nan(None))
    return {
        "summary": outcome.sentence,
        "notes": outcome.notes,
        **{
            name: {
                "path": side.name,
                "scenario": side.scenario,
                "version": side.version,
                "cells": len(side.keys),
                "runs": side.rows.height,
                "is_simulated": side.is_simulated,
                "only_cells": list(outcome.only[i]),
                "only_scalars": list(outcome.only_scalars[i]),
            }
            for i, (name, side) in enumerate(sides)
        },
        "settings": None
        if outcome.settings is None
        else {path: {"a": one, "b": two} for path, one, two in outcome.settings},
        "level": outcome.level,
        "interval_level": outcome.interval_level,
        "rows": rows.to_dicts(),
    }
