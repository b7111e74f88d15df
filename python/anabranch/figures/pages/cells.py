"""The cells of studies on a page: each can be opened in the lab, as a scenario of its own.

A page has the scenario of one cell and what is other in each of the others; `interactive.js` puts a
cell's text together and into an address. Where that does not run, a command opens the same.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup

from anabranch._engine import Scenario
from anabranch.errors import AnabranchError

from . import interactive

MOST_CELLS = 20_000
"""Cells of a study up to which a page opens them, if they are all combinations of some values."""

MOST_LISTED = 500
"""Otherwise: each of them is in the page by itself."""

LAB = "http://127.0.0.1:8417/"
"""Where `anabranch lab` serves the lab if nothing else is said."""


def address(text: str) -> str:
    """The address of a lab, as a page may link to it.

    Raises
    ------
    AnabranchError
        If it is neither http nor https nor a relative address.
    """
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https", ""} or parts.fragment or not text.strip():
        raise AnabranchError(
            f"--lab {text!r} is not the address of a lab: it begins with http:// or https://, or is"
            " relative to the page, and has no fragment"
        )
    return text


Edit = tuple[int, int, tuple[str, ...]]
"""From which line of the first cell's text on, how many lines are replaced, and by what."""


def section(studies: Mapping[Path, Scenario], lab: str = LAB, level: int = 2) -> Markup:
    """The part of a page that opens cells of studies in the lab.

    Parameters
    ----------
    studies
        By their folders.
    lab
        The lab's address.
    level
        Of its heading.
    """
    if not studies:
        return Markup("")
    folders = list(studies)
    made = {folder: of_study(studies[folder]) for folder in folders if studies[folder].cell_count}
    known = {folder: content for folder, content in made.items() if content is not None}
    content = [{"folder": str(folder), **own} for folder, own in known.items()]
    shown = shlex.quote(str(folders[0])) if len(folders) == 1 else "STUDY"
    which = "" if len(folders) == 1 else ", where STUDY is a folder below <code>studies</code>"
    served = ", which <code>anabranch lab</code> serves while it runs" if lab == LAB else ""
    more = Markup(
        '<p class="note">Studies with too many cells for a page are left to the command.</p>'
        if len(known) < len(folders)
        else ""
    )
    return Markup(
        '<h{level} id="lab">A cell in the lab</h{level}>\n<div class="lab">\n'
        "<p>The lab shows a run of a cell packet by packet, and lets its settings be changed. "
        "<code>anabranch lab {shown} --cell N</code> opens cell N" + which + ". Where this page "
        "has links, they lead to the lab at <code>{lab}</code>"
        + served
        + ".</p>\n{more}{data}</div>"
    ).format(
        level=level,
        shown=shown,
        lab=lab,
        more=more,
        data=interactive.cells_of_studies(content, lab),
    )


def of_study(scenario: Scenario) -> dict[str, Any] | None:
    """The cells of a study, as a page carries them; None if they are too many for that."""
    grid = _Grid(scenario)
    content: dict[str, Any] = {"name": scenario.name, "base": "\n".join(grid.base)}
    if grid.is_whole():
        content["axes"] = [
            {"name": axis["name"], "labels": axis["labels"]} for axis in scenario.axes
        ]
        content["values"] = grid.of_values
    elif scenario.cell_count <= MOST_LISTED:
        content |= _listed(scenario, grid)
    else:
        return None
    return content | {"edits": [[at, count, list(lines)] for at, count, lines in grid.pool]}


class _Grid:
    """A study whose cells are all combinations of the values of its axes.

    What other values do to the first cell's scenario is then what each of them does.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.base = scenario.cell_toml(0).split("\n")
        self.pool: dict[Edit, int] = {}
        """The edits with their numbers."""
        self.of_values: list[list[list[int]]] = []
        """Axis -> value -> its edits."""

    def numbers(self, cell: int) -> list[int]:
        """The edits that make the scenario of a cell."""
        edits = _edits(self.base, self._scenario.cell_toml(cell).split("\n"))
        return [self.pool.setdefault(edit, len(self.pool)) for edit in edits]

    def is_whole(self) -> bool:
        """Whether it is one; says then what each value does."""
        scenario = self._scenario
        sizes = [len(axis["values"]) for axis in scenario.axes]
        count = scenario.cell_count
        if math.prod(sizes) != count or len(scenario.studies) > 1 or count > MOST_CELLS:
            return False
        steps = [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
        self.of_values = [
            [self.numbers(step * value) for value in range(size)]
            for step, size in zip(steps, sizes, strict=True)
        ]
        edits = list(self.pool)
        for cell, values in enumerate(product(*(range(size) for size in sizes))):
            chosen = zip(self.of_values, values, strict=True)
            numbers = {number for own, value in chosen for number in own[value]}
            if _edited(self.base, [edits[number] for number in sorted(numbers)]) != (
                scenario.cell_toml(cell).split("\n")
            ):
                return False
        keys = (scenario.cell_key(cell) for cell in (0, count - 1))
        ends = ([axis["values"][end] for axis in scenario.axes] for end in (0, -1))
        return all(list(key.values()) == end for key, end in zip(keys, ends, strict=True))


def _listed(scenario: Scenario, grid: _Grid) -> dict[str, Any]:
    """The cells one by one: their axes' values and their edits."""
    parts = scenario.studies if len(scenario.studies) > 1 else []
    keys, changes = [], []
    for cell in range(scenario.cell_count):
        key = scenario.cell_key(cell)
        place = [parts.index(scenario.cell_study(cell))] if parts else []
        for axis in scenario.axes:
            values: list[Any] = list(axis["values"])
            value = key.get(axis["name"])
            place.append(values.index(value) if value in values else -1)
        keys.append(place)
        changes.append(grid.numbers(cell))
    names = [{"name": "study", "labels": parts}] if parts else []
    axes = [{"name": axis["name"], "labels": axis["labels"]} for axis in scenario.axes]
    return {"axes": [*names, *axes], "keys": keys, "changes": changes}


def _edited(base: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """The text that edits make of another; as in `interactive.js`."""
    lines = list(base)
    for at, count, new in sorted(edits, key=lambda edit: -edit[0]):
        lines[at : at + count] = new
    return lines


def _edits(base: Sequence[str], other: Sequence[str]) -> list[Edit]:
    """What makes one text of another, from top to bottom."""
    if len(base) == len(other):
        return [
            (at, 1, (line,))
            for at, (old, line) in enumerate(zip(base, other, strict=True))
            if old != line
        ]
    matcher = SequenceMatcher(None, base, other, autojunk=False)
    return [
        (start, end - start, tuple(other[first:last]))
        for kind, start, end, first, last in matcher.get_opcodes()
        if kind != "equal"
    ]
