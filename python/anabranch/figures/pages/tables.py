"""A page of tables with figures: what `compare` and `bench-cc` write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from anabranch import _engine
from anabranch.figures import pages
from anabranch.figures.table import Table
from anabranch.support.files import write_atomically

NAME = "index.html"


@dataclass(frozen=True)
class Page:
    """The content of such a page, in this order."""

    title: str
    headline: str
    sentences: Sequence[str]
    tables: Sequence[Table]
    notes: Sequence[str]
    """Notes below the tables: what marks and letters mean."""
    captions: Mapping[str, str]
    """The captions of the figures, by file name without suffix."""
    facts: str
    """How many runs there were, and of what."""

    def write(self, folder: Path, drawn: Mapping[str, str], figures: str) -> Path:
        """Writes the page into a folder; gives its path.

        Parameters
        ----------
        folder
            Where it goes.
        drawn
            The figures as SVG, as `drawing.draw` gives them.
        figures
            The folder with the figures' files, relative to the page, with a slash at its end, or
            empty.
        """
        path = folder / NAME
        write_atomically(path, self.text(drawn, figures).encode())
        return path

    def text(self, drawn: Mapping[str, str], figures: str = "") -> str:
        """The page as HTML."""
        environment = pages.environment(
            {"tables.html.j2": __package__, "macros.html.j2": __package__}
        )
        return environment.get_template("tables.html.j2").render(
            page=self,
            figure={name: Markup(svg) for name, svg in drawn.items()},
            files=figures,
            counts={},
            words={},
            version=_engine.__version__,
        )
