"""A paper's page: one HTML file with its figures inside, light and dark.

`base.html.j2` has what all papers' pages share (and `figures.pages` what all pages do); a paper's
`page.html.j2` fills its blocks.
"""

import re
from collections.abc import Callable, Mapping

from markupsafe import Markup
from matplotlib.figure import Figure

from anabranch.figures import pages

from .outcome import PaperOutcome
from .verdicts import WORDS, by_claim

Context = dict[str, object]
"""What a template needs, by the names that it has there."""


def render(
    template: tuple[str, str],
    outcome: PaperOutcome,
    figures: Mapping[str, str],
    context: Mapping[str, object],
) -> str:
    """The page of a paper as text, from a template: its package and file.

    `figures` are those of `drawing.draw`; the context is what the package's template needs, among
    it `counts`: figure -> how many runs its numbers come from.
    """
    package, file = template
    environment = pages.environment(
        {"base.html.j2": __package__, "macros.html.j2": pages.__package__, file: package}
    )
    return environment.get_template(file).render(
        outcome=outcome,
        figure={name: Markup(text) for name, text in figures.items()},
        claims=by_claim(outcome.claims),
        words=WORDS,
        **context,
    )


def marked(text: str, mark: str) -> str:
    """The page with a mark on its title, headline, sentences, tables, figures and evidence."""
    text = text.replace("<main>", f'<main><p class="smoke" role="note">{mark}.</p>')
    text = re.sub(r"<table\b[^>]*>", rf'\g<0><caption class="smoke">{mark}</caption>', text)
    places = r'<title>|<figcaption>|<li>|<p class="(?:finding|evidence|note)">'
    return re.sub(places, rf"\g<0>{mark}: ", text)


def watermarked(make: Callable[[], Figure]) -> Figure:
    """The figure with the words "smoke run" across it."""
    figure = make()
    figure.text(
        0.5,
        0.5,
        "smoke run",
        ha="center",
        va="center",
        fontsize=40,
        color="#888888",
        alpha=0.5,
        rotation=25,
    )
    return figure
