"""`anabranch list`."""

from anabranch import _engine, papers
from anabranch.errors import AnabranchError, suggestion
from anabranch.papers import templates
from anabranch.studies import library
from anabranch.support import terminal, wording

from .app import MODEL, app

_FIRST = 4
"""How many names of each category the overview shows."""


@app.command(
    group=MODEL,
    sort_key=2,
    name="list",
    help_epilogue="""\
Examples:
  anabranch list
  anabranch list loss
  anabranch list all
  anabranch list codecs
  anabranch list schema > scenario.schema.json""",
)
def list_(category: str | None = None, /) -> None:
    """List what can be named in scenarios and commands: the categories, or all in one of them.

    Parameters
    ----------
    category
        One of the categories, or `all`; an overview of them if not given. `schema` prints the JSON
        Schema of scenario files, for editors.
    """
    if category == "schema":
        print(_engine.schema())
        return
    models = dict(_engine.models())
    of_papers = [(name, templates.described(name)) for name in papers.names()]
    models["templates"] = library.described() + of_papers
    models["papers"] = [(name, "anabranch reproduce " + name) for name in papers.names()]
    tables = {
        name: terminal.choices(rows, name, "what it is") for name, rows in models.items() if rows
    }
    codecs = _engine.codecs()
    tables["codecs"] = terminal.choices(
        [tuple(wording.number(value) for value in codec.values()) for codec in codecs],
        *(codecs[0] if codecs else ()),
    )
    if category not in (None, "all", *tables):
        hint = suggestion(str(category), tables)
        there = f"there are {', '.join(tables)}, schema"
        raise AnabranchError(f"there is no category `{category}`{hint}; {there}")
    out = terminal.console()
    if category in (None, "all"):
        names = {name: [row[0] for row in rows] for name, rows in models.items() if rows}
        names["codecs"] = [str(codec["name"]) for codec in codecs]
        rows = [
            (name, str(len(of_kind)), ", ".join(of_kind[:_FIRST]))
            for name, of_kind in names.items()
        ]
        out.print(terminal.choices(rows, "category", "how many", f"the first {_FIRST} of them"))
        out.print("`anabranch list CATEGORY` says what each is, `anabranch list all` everything.")
    for name, table in tables.items():
        if category in ("all", name):
            out.print(table)
