"""`anabranch list`."""

from anabranch import _engine, library, papers, terminal
from anabranch.errors import AnabranchError

from .app import app


@app.command(
    name="list",
    help_epilogue="""\
Examples:
  anabranch list
  anabranch list loss
  anabranch list codecs""",
)
def list_(category: str | None = None, /) -> None:
    """List what there is: models by category, codecs, templates and papers.

    Parameters
    ----------
    category
        One of the categories; all of them if not given.
    """
    models = dict(_engine.models())
    models["templates"] = library.described()
    models["papers"] = [(name, "anabranch reproduce " + name) for name in papers.names()]
    tables = {
        name: terminal.choices(rows, name, "what it is") for name, rows in models.items() if rows
    }
    codecs = _engine.codecs()
    tables["codecs"] = terminal.choices(
        [tuple(terminal.number(value) for value in codec.values()) for codec in codecs],
        *(codecs[0] if codecs else ()),
    )
    if category is not None and category not in tables:
        raise AnabranchError(f"there is no category `{category}`; there are {', '.join(tables)}")
    out = terminal.console()
    for name, table in tables.items():
        if category in (None, name):
            out.print(table)
