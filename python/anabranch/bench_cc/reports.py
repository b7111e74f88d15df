"""The comparison as a table for people, as JSON and as JUnit XML for other programs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from anabranch import _engine
from anabranch.bench_cc.checks import Check
from anabranch.bench_cc.measures import CONTROLS, Bench, Cell, best
from anabranch.bench_cc.scenarios import is_plugin
from anabranch.stats import Interval
from anabranch.support import wording

BEST = "*"
"""Marks the best of a column in each case, and all that cannot be told from it."""

Lines = list[list[str]]
"""For each control, its name and its values."""


_Counts = Mapping[str, tuple[Mapping[str, int], int]]


def headline(cells: Sequence[Cell]) -> str:
    """How classes of the reader fare, or else which control a sender should run, and for what."""
    controls = list(dict.fromkeys(cell.control for cell in cells))
    if len(controls) == 1:
        return f"{_alone(cells)}{_beside(cells, controls)}."
    counts = _counted(cells, controls)
    own = [control for control in controls if is_plugin(control)]
    if own:
        return " ".join(_fares(cells, control, controls, counts) for control in own)
    answers = []
    for words, (of, total) in counts.items():
        most = max(of.values())
        names = " or ".join(name for name, count in of.items() if count == most)
        answers.append(f"for {words} {names} (among the best in {most} of {total})")
    question = cells[0].bench.question
    if not answers:
        compared = wording.counted(len(controls), cells[0].bench.what)
        return f"{question} {compared} compared: nothing tells them apart."
    text = ", ".join(answers)
    return f"{question} Of the cases that differ, {text}{_beside(cells, controls)}."


def _fares(cells: Sequence[Cell], control: str, controls: Sequence[str], counts: _Counts) -> str:
    rivals = ", ".join(name for name in controls if name != control)
    question = f"How does {control} fare beside {rivals}?"
    among = [f"for {words} in {of[control]} of {total}" for words, (of, total) in counts.items()]
    fares = (
        f"It is among the best {', '.join(among)} cases that differ"
        if among
        else "Nothing tells it from them"
    )
    return f"{question} {fares}{_beside(cells, [control])}."


def _counted(cells: Sequence[Cell], controls: Sequence[str]) -> _Counts:
    """For each question: how often each control is among the best, of how many cases."""
    top = best(cells)
    counted = {}
    for metric, words in cells[0].bench.asked.items():
        sets = [names for (_, name), names in top.items() if name == metric]
        if sets:
            of = {control: sum(control in names for names in sets) for control in controls}
            counted[words] = (of, len(sets))
    return counted


def _alone(cells: Sequence[Cell]) -> str:
    used = [cell.values["utilisation_percent"].mean for cell in cells]
    used = [share for share in used if not math.isnan(share)]
    if not used:
        return f"{cells[0].control} moves no data"
    least, most = f"{min(used):.0f}", f"{max(used):.0f}"
    span = most if least == most else f"{least} to {most}"
    return f"{cells[0].control} uses {span} % of the link"


def _beside(cells: Sequence[Cell], controls: Sequence[str]) -> str:
    """What the rival leaves these controls, where that is far from half."""
    shares = [
        (cell.control, cell.values["share_percent"].mean)
        for cell in cells
        if cell.control in controls and "share_percent" in cell.values
    ]
    shares = [(name, share) for name, share in shares if not math.isnan(share)]
    if len(controls) > 1:
        shares = [(name, share) for name, share in shares if not 25 <= share <= 75]
    if not shares:
        return ""
    named = ", ".join(f"{name} {share:.0f} %" for name, share in shares)
    if len(controls) == 1:
        return f"; beside {cells[0].bench.rival} it takes {shares[0][1]:.0f} % of what both have"
    return f"; beside {cells[0].bench.rival}, of what both have, {named}"


def rows(cells: Sequence[Cell]) -> tuple[list[str], dict[str, Lines]]:
    """The columns, and for each case a line for each control; every value has its interval.

    A metric that no case has is left out, and so is one that follows from another.
    """
    kept = [
        metric
        for metric in cells[0].bench.metrics
        if metric.is_shown and not all(math.isnan(cell.values[metric.name].mean) for cell in cells)
    ]
    top = best(cells)
    lines: dict[str, Lines] = {}
    for cell in cells:
        marks = [cell.control in top.get((cell.case, metric.name), ()) for metric in kept]
        values = [value_text(cell.values[metric.name]) for metric in kept]
        marked = [value + BEST * mark for value, mark in zip(values, marks, strict=True)]
        lines.setdefault(cell.case, []).append([cell.control, *marked])
    return [cells[0].bench.what, *(metric.head for metric in kept)], lines


def tables(cells: Sequence[Cell], width: int) -> Group:
    """The comparison with a section for each case.

    It is split into as many tables, one below the other, as a terminal of this width needs.
    """
    heads, cases = rows(cells)
    shown = [
        line
        for case, lines in cases.items()
        for line in (
            [case, *[""] * (len(heads) - 1)],
            *([f"  {control}", *values] for control, *values in lines),
        )
    ]
    return Group(*(_table(heads, cases, kept) for kept in wording.groups(heads, shown, width, 1)))


def _table(heads: Sequence[str], cases: Mapping[str, Lines], kept: Sequence[int]) -> Table:
    """One of these tables, with the columns of `kept`."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i in kept:
        made.add_column(heads[i], justify="right" if i else "left", overflow="fold")
    for case, lines in cases.items():
        made.add_row(Text(case, style="bold"))
        for control, *values in lines:
            texts = (values[i - 1] for i in kept[1:])
            made.add_row(
                f"  {control}", *(Text(t, style="bold" if t.endswith(BEST) else "") for t in texts)
            )
        made.add_section()
    return made


def markdown(cells: Sequence[Cell]) -> str:
    """The comparison in Markdown: a table for each case, with the columns that it has."""
    heads, cases = rows(cells)
    return "\n".join(markdown_table(case, (heads, lines)) for case, lines in cases.items())


def markdown_table(title: str, part: tuple[Sequence[str], Lines]) -> str:
    """A table in Markdown below its title, with the columns in which something stands."""
    heads, lines = part
    kept = [i for i in range(len(heads)) if any(line[i] != NONE for line in lines)]
    table = [[heads[i] for i in kept], ["---", *("---:" for _ in kept[1:])]]
    table += [
        [f"**{line[i][:-1]}**" if line[i].endswith(BEST) else line[i] for i in kept]
        for line in lines
    ]
    text = "\n".join(f"| {' | '.join(line)} |" for line in table)
    return f"## {title[0].upper()}{title[1:]}\n\n{text}\n"


def as_json(
    cells: Sequence[Cell], checks: Sequence[Check], profile: str, replications: int
) -> dict[str, Any]:
    """Everything that was found, for other programs and for `--baseline`."""
    bench = cells[0].bench
    return {
        "version": _engine.__version__,
        "profile": profile,
        "replications": replications,
        "headline": headline(cells),
        "metrics": {
            metric.name: {"better": _BETTER[metric.better], "meaning": metric.meaning}
            for metric in bench.metrics
        },
        "cells": [
            {
                "scenario": cell.scenario.name,
                "case": cell.case,
                bench.what: cell.control,
                "metrics": {
                    name: {
                        "mean": _finite(value.mean),
                        "half_width": _finite(value.half_width),
                        "n": value.n,
                    }
                    for name, value in cell.values.items()
                },
            }
            for cell in cells
        ],
        "checks": [
            {
                "scenario": check.cell.scenario.name,
                "case": check.cell.case,
                bench.what: check.cell.control,
                "what": check.what,
                "verdict": check.verdict,
                "message": check.message,
            }
            for check in checks
        ],
    }


def junit(checks: Sequence[Check], bench: Bench = CONTROLS) -> bytes:
    """The checks as JUnit XML: a suite for each case, a test case for each control and check."""
    root = ET.Element("testsuites", _counts(checks), name=f"anabranch {bench.command}")
    for case in dict.fromkeys(check.cell.case for check in checks):
        own = [check for check in checks if check.cell.case == case]
        suite = ET.SubElement(root, "testsuite", _counts(own), name=case, errors="0")
        for check in own:
            test = ET.SubElement(
                suite,
                "testcase",
                classname=f"{check.cell.scenario.name}.{check.cell.control}",
                name=f"{check.cell.control}, {case}: {check.what}",
            )
            if check.verdict == "failed":
                ET.SubElement(test, "failure", message=check.message)
            elif check.verdict == "skipped":
                ET.SubElement(test, "skipped", message=check.message)
            else:
                ET.SubElement(test, "system-out").text = check.message
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


_BETTER = {1: "more", -1: "less", 0: "neither"}


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    def count(verdict: str) -> str:
        return str(sum(check.verdict == verdict for check in checks))

    return {"tests": str(len(checks)), "failures": count("failed"), "skipped": count("skipped")}


def value_text(value: Interval) -> str:
    """A mean with its interval, in as many digits as they have."""
    if math.isnan(value.mean):
        return NONE
    digits = _digits(value)
    text = f"{value.mean:.{digits}f}"
    return text if math.isnan(value.half_width) else f"{text} ± {value.half_width:.{digits}f}"


def _digits(value: Interval) -> int:
    """Digits after the point: three significant digits of the mean, at most two of the interval."""

    def first(number: float) -> int:
        return -math.floor(math.log10(abs(number)))

    wanted = [first(value.mean) + 2] if value.mean else [0]
    if value.half_width > 0:
        wanted.append(first(value.half_width) + 1)
    return max(0, min(*wanted, 3))


NONE = wording.number(math.nan)
"""Stands where a case does not have a metric."""


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
