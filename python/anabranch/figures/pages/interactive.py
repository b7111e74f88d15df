"""What `interactive.js` needs of a page: the figures' marks as data, itself, and the page's policy.

A page without it, or without script, is the same page with still pictures.
"""

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from scipy.special import stdtrit

from anabranch.figures import marks
from anabranch.figures.marks import Mark, Placed

MOST_SAMPLES = 20_000
"""Numbers of runs that a section of a page carries; with more, two cells are compared by their
intervals alone."""

_QUANTILES = 200
"""Degrees of freedom up to which a page has Student's quantiles; more have the last one."""

_POLICY = (
    "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; img-src data:;"
    " base-uri 'none'; form-action 'none'"
)
"""Nothing is loaded, nothing is sent. Styles stand in the page: each figure has its own."""


def data(kind: str, content: object, **attributes: str) -> str:
    """Data in a page, as JSON that cannot end its element."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Also no `<!--`, after which a parser reads on beyond the end of the element.
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    named = "".join(f' data-{name}="{escape(value)}"' for name, value in attributes.items())
    return f'<script type="application/json" class="{kind}"{named}>{text}</script>'


def of_marks(found: Sequence[tuple[str, Mark]], section: str = "", name: str = "") -> str:
    """Marks as data: quantity and mark.

    Parameters
    ----------
    found
        Quantity and mark, in the order in which their places name them.
    section
        Of the page: marks of one section that have the same cell are the same thing.
    name
        What the data are called when they are downloaded.
    """
    quantities = list(dict.fromkeys(quantity for quantity, _ in found))
    names = list(dict.fromkeys(name for _, mark in found for name in mark.names))
    texts: dict[str, int] = {}
    carried = sum(len(mark.samples) for _, mark in found) <= MOST_SAMPLES
    rows = []
    for quantity, mark in found:
        row = {} if quantity == quantities[0] else {"q": quantities.index(quantity)}
        own = (mark.names.get(name) for name in names)
        key = [-1 if text is None else texts.setdefault(text, len(texts)) for text in own]
        rows.append({**row, "k": key, **_row(mark if carried else replace(mark, samples=()))})
    content = {"quantities": quantities, "names": names, "texts": list(texts), "marks": rows}
    return data("marks", content, section=section, name=name)


def _row(mark: Mark) -> dict[str, Any]:
    value = mark.value if isinstance(mark.value, str) else rounded(mark.value)
    row: dict[str, Any] = {"v": value}
    if math.isfinite(mark.half_width):
        row["h"] = rounded(mark.half_width)
    if mark.n:
        row["n"] = mark.n
    if mark.published is not None and math.isfinite(mark.published):
        row["p"] = rounded(mark.published)
    if mark.cell is not None:
        row["c"] = mark.cell
    if len(mark.samples):
        row["s"] = [rounded(value) for value in mark.samples]
    return row


def rounded(value: float) -> float | None:
    """A number as a page carries it: six digits; none if there is none."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def samples(section: str, cells: Sequence[int], values: np.ndarray) -> str:
    """The runs of cells, once for all marks of a section: a line a cell, a column a replication.

    Empty where they are too many, or less than two.
    """
    if values.size > MOST_SAMPLES or values.shape[1] < 2:
        return ""
    runs = {
        str(cell): [rounded(float(value)) for value in line]
        for cell, line in zip(cells, values, strict=True)
    }
    return data("samples", runs, section=section)


def places(found: Sequence[Placed], figure: Figure) -> str:
    """Where the marks are in a figure that has been laid out, as an attribute of its SVG."""
    height = 72 * figure.get_size_inches()[1]
    known = [
        (index, place)
        for index, each in enumerate(found)
        if (place := marks.place(each, height)) is not None
    ]
    text = " ".join(
        ",".join([str(index), *(f"{number:.1f}".removesuffix(".0") for number in place)])
        for index, place in known
    )
    return f' data-at="{text}"' if text else ""


@cache
def script() -> str:
    """The module; empty where the installation lacks it."""
    file = files(__package__).joinpath("interactive.js")
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def finished(text: str) -> str:
    """The page with its policy, and with the script if there is something for it to do."""
    code = script() if '<script type="application/json"' in text else ""
    allowed = "'none'"
    if code:
        digest = hashlib.sha256(code.encode()).digest()
        allowed = f"'sha256-{base64.b64encode(digest).decode()}'"
        tail = f'{_quantiles()}\n<script type="module">{code}</script>\n</body>'
        text = tail.join(text.rsplit("</body>", 1))
    policy = _POLICY.format(script=allowed)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return text.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}', 1)


@cache
def _quantiles() -> str:
    """Student's quantiles of 95 % intervals, from one degree of freedom on."""
    freedom = np.arange(1, _QUANTILES + 1)
    return data("quantiles", [rounded(float(value)) for value in stdtrit(freedom, 0.975)])


def cells_of_studies(studies: Sequence[Mapping[str, Any]], lab: str) -> Markup:
    """The studies' cells as data, for links to the lab at this address."""
    return Markup(data("cells", {"lab": lab, "studies": list(studies)}))
