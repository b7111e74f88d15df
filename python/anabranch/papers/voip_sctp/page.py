"""The page: one HTML file with its figures inside, light and dark, that leads with the finding."""

import io
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from anabranch import plots

from . import story
from .figures import SETTING_NAMES
from .outcome import Outcome
from .published import CLOCK_NAMES, CLOCKS, DELAY_CENTRIC, PMR, RTO_MAX_S

INK = {
    "#000000": "--ink",
    "#ffffff": "--paper",
    "#666666": "--quiet",
    "#e4e4e4": "--line",
    "#0072b2": "--blue",
    "#d55e00": "--orange",
    "#009e73": "--green",
    "#cc79a7": "--pink",
}
"""Colours of the figures that follow the page's light or dark theme when a figure is inside it."""


def write(outcome: Outcome, drawn: dict[str, Figure], out: Path) -> Path:
    """Writes `index.html` and returns its path."""
    index = out / "index.html"
    index.write_text(render(outcome, drawn), encoding="utf-8")
    return index


def render(outcome: Outcome, drawn: dict[str, Figure]) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(
        files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    )
    by_id: dict[str, dict[str, Any]] = {}
    for finding in outcome.claims:
        by_id.setdefault(finding.id, {})[finding.profile] = finding
    context: dict[str, Any] = {
        "outcome": outcome,
        "headline": story.headline(outcome),
        "sentences": story.sentences(outcome),
        "summaries": {clock: story.table_summary(outcome.tables[clock]) for clock in CLOCKS},
        "figure": {name: Markup(inline(figure, name)) for name, figure in drawn.items()},
        "claims": by_id,
        "clocks": CLOCKS,
        "clock_names": CLOCK_NAMES,
        "words": {
            "reproduced": "reproduced",
            "partly": "partly",
            "not_reproduced": "not reproduced",
        },
        "rtos": RTO_MAX_S,
        "states": DELAY_CENTRIC,
        "pmrs": PMR,
        "setting_names": SETTING_NAMES,
        "settings": _settings(outcome),
    }
    return template.render(context)


def inline(figure: Figure, name: str) -> str:
    """A figure as SVG to stand in a page.

    Without fixed size and background, its colours the page's, its ids its own.
    """
    buffer = io.StringIO()
    with plots.style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    for colour, variable in INK.items():
        text = re.sub(
            rf"(fill|stroke): {colour}\b", rf"\1: var({variable})", text, flags=re.IGNORECASE
        )
    # Text without a colour is black to SVG.
    return text.replace("<svg ", '<svg role="img" class="plot" ', 1)


def _settings(outcome: Outcome) -> dict[str, dict[float, Any]]:
    """Setting -> loss -> row, in the order of the scenario."""
    rows: dict[str, dict[float, Any]] = {name: {} for name in SETTING_NAMES}
    for row in outcome.settings.iter_rows(named=True):
        rows[row["setting"]][row["loss_share"]] = row
    return rows
