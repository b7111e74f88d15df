"""HTML pages of one file: templates, light and dark, figures inside.

`frame.html.j2` has the head and the styles that all pages share; what makes a page extends it.
"""

import io
import re
from collections.abc import Mapping
from importlib.resources import files

import jinja2
from matplotlib.figure import Figure

from anabranch import plots

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


def environment(templates: Mapping[str, str]) -> jinja2.Environment:
    """Templates by file name, each with the package that it lies in, and the frame of all pages."""
    sources = {"frame.html.j2": __package__, **templates}
    texts = {
        name: files(package).joinpath(name).read_text(encoding="utf-8")
        for name, package in sources.items()
    }
    made = jinja2.Environment(
        autoescape=True,
        loader=jinja2.DictLoader(texts),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["sentence"] = sentence
    return made


def sentence(text: str) -> str:
    """The text with a capital at its beginning; `capitalize` makes all others small: TCP, Wi-Fi."""
    return text[:1].upper() + text[1:]


def inline(figure: Figure, name: str, *, natural: bool = False) -> str:
    """A figure as SVG to stand in a page.

    Without background, its colours the page's, its ids its own; as wide as the page, or at most
    about as wide as it was made.
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
    width = figure.get_size_inches()[0]
    size = f'style="max-width: {120 * width:.0f}px; min-width: min({80 * width:.0f}px, 34rem)" '
    return text.replace("<svg ", f'<svg role="img" class="plot" {size if natural else ""}', 1)
