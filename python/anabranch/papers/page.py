"""A paper's page: one HTML file with its figures inside, light and dark.

`base.html.j2` and `macros.html.j2` have what all pages share; a paper's `page.html.j2` fills its
blocks.
"""

import io
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from anabranch import plots, progress

from .markdown import known
from .outcome import Outcome
from .verdicts import WORDS, by_claim

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


def render(
    package: str, outcome: Outcome, figures: Mapping[str, str], context: Mapping[str, Any]
) -> str:
    """The page of a paper's package as text.

    `figures` are those of `draw`; the context is what the package's template needs.
    """
    sources = {"base.html.j2": __package__, "macros.html.j2": __package__, "page.html.j2": package}
    templates = {
        name: files(source).joinpath(name).read_text(encoding="utf-8")
        for name, source in sources.items()
    }
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.DictLoader(templates),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = sentence
    return environment.get_template("page.html.j2").render(
        outcome=outcome,
        figure={name: Markup(text) for name, text in figures.items()},
        claims=by_claim(outcome.claims),
        known=known,
        words=WORDS,
        **context,
    )


def sentence(text: str) -> str:
    """The text with a capital at its beginning; `capitalize` makes all others small: TCP, Wi-Fi."""
    return text[:1].upper() + text[1:]


def draw(figures: Mapping[str, Callable[[], Figure]], folder: Path) -> dict[str, str]:
    """Draws the figures into files; gives each as SVG to stand in the page."""
    drawn = {}
    with progress.steps("figures", len(figures), "figures") as step:
        for name, make in figures.items():
            figure = make()
            plots.save(figure, folder / name)
            drawn[name] = inline(figure, name)
            step()
    return drawn


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
    # Named by their content, which two of them may share; nothing refers to them.
    text = re.sub(r'(<image[^>]*?) id="[^"]*"', r"\1", text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    for colour, variable in INK.items():
        text = re.sub(
            rf"(fill|stroke): {colour}\b", rf"\1: var({variable})", text, flags=re.IGNORECASE
        )
    # Text without a colour is black to SVG.
    return text.replace("<svg ", '<svg role="img" class="plot" ', 1)
