"""`anabranch methods`."""

from pathlib import Path
from typing import Annotated

from anabranch.support import terminal

from .app import STUDY, Flag, app


@app.command(
    group=STUDY,
    sort_key=4,
    help_epilogue="""\
Examples:
  anabranch methods results/rto
  anabranch methods results/rto --latex""",
)
def methods(folder: Path, /, *, latex: Annotated[bool, Flag] = False) -> None:
    """State how a study was made, for the methods of a paper, with what to cite.

    The paragraph names the model, the versions, what was varied, replications,
    seeds and intervals, all read from the study folder. A BibTeX entry follows.

    Parameters
    ----------
    folder
        A study folder, as `sweep --out` makes it.
    latex
        Write the paragraph as LaTeX source, which cites the entry.
    """
    from anabranch.report import methods as made

    text = made.paragraph(folder)
    terminal.say(made.as_latex(text) if latex else text)
    terminal.say("")
    terminal.say(made.bibtex(folder))
