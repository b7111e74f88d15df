"""`anabranch list`."""

import json
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from anabranch import _engine, papers
from anabranch.errors import AnabranchError, suggestion
from anabranch.papers import templates
from anabranch.studies import library
from anabranch.support import declared, terminal, wording

from .app import MODEL, app

_FIRST = 4
"""How many names of each category the overview shows."""

_NOT_WRITTEN = re.compile(r"^[a-z]|Timetable$")
"""Types of the schema that are forms of a value, and no tables that people look for."""


@app.command(
    group=MODEL,
    sort_key=2,
    name="list",
    help_epilogue="""\
Examples:
  anabranch list
  anabranch list queue
  anabranch list queue codel
  anabranch list link
  anabranch list all
  anabranch list codecs
  anabranch list scalars sctp
  anabranch list tables packets
  anabranch list schema > scenario.schema.json""",
)
def list_(category: str | None = None, kind: str | None = None, /) -> None:
    """List what can be named in scenarios and commands: the categories, or all in one of them.

    Parameters
    ----------
    category
        One of the categories, or `all`; an overview of them if not given. `schema` prints the JSON
        Schema of scenario files, for editors.
    kind
        One of the kinds of a category, such as `codel`: its keys; of `scalars` a transport, an
        application, `link` or `run`; of `tables` a table.
    """
    if category == "schema":
        print(_engine.schema())
        return
    schema = json.loads(_engine.schema())
    models = dict(_engine.models())
    # Their table has what a line about each cannot say.
    del models["codec"]
    of_papers = [(name, templates.described(name)) for name in papers.names()]
    models["templates"] = library.described() + of_papers
    models["papers"] = [(name, "anabranch reproduce " + name) for name in papers.names()]
    names = {name: [row[0] for row in rows] for name, rows in models.items() if rows}
    tables: dict[str, RenderableType] = {
        name: terminal.choices(rows, name, "what it is") for name, rows in models.items() if rows
    }
    codecs = _engine.codecs()
    names["codecs"] = [str(codec["name"]) for codec in codecs]
    tables["codecs"] = terminal.choices(
        [tuple(wording.number(value) for value in codec.values()) for codec in codecs],
        *(codecs[0] if codecs else ()),
    )
    results = {"scalars": _scalars(), "tables": _columns()}
    names |= {name: list(of_kind) for name, of_kind in results.items()}
    tables |= {name: Group(*of_kind.values()) for name, of_kind in results.items()}
    sections = {
        name: properties for name, properties in _sections(schema).items() if name not in names
    }
    names |= {name: list(properties) for name, properties in sections.items()}
    tables |= {name: _keys(properties) for name, properties in sections.items()}
    if category is not None and category != "all":
        category = _named(category, tables)
    out = terminal.console()
    if category in results and kind is not None:
        of_kind = results[category]
        if kind not in of_kind:
            hint = suggestion(kind, of_kind) or f"; there are {', '.join(of_kind)}"
            raise AnabranchError(f"there is nothing of `{kind}` in {category}{hint}")
        out.print(of_kind[kind])
        return
    if category is not None and kind is not None:
        out.print(_keys(_of_kind(schema, category, kind, names.get(category, []))))
        return
    if category in (None, "all"):
        rows = [
            (name, str(len(of_kind)), ", ".join(of_kind[:_FIRST]))
            for name, of_kind in names.items()
            if name not in sections
        ]
        out.print(terminal.choices(rows, "category", "how many", f"the first {_FIRST} of them"))
        out.print(
            "`anabranch list CATEGORY` says what each is, `anabranch list link` (path, flow, run, "
            "sweep) and `anabranch list queue codel` which keys there are, "
            "`anabranch list all` everything."
        )
    for name, table in tables.items():
        if category in ("all", name):
            out.print(table)


def _scalars() -> dict[str, RenderableType]:
    """The scalars of each component."""
    better = {True: "more is better", False: "less is better", None: ""}
    of_kind: dict[str, list[Table]] = {}
    for group in declared.groups():
        rows = [
            (one.name, one.unit, better[one.more_is_better], one.meaning) for one in group.scalars
        ]
        table = terminal.choices(rows, f"{group.places[0]}.", "unit", "", group.about)
        of_kind.setdefault(group.of, []).append(table)
    return {name: Group(*tables) for name, tables in of_kind.items()}


def _columns() -> dict[str, RenderableType]:
    """The columns of each table of a trace."""
    return {
        table.name: terminal.choices(
            [(one.name, one.unit, one.meaning) for one in table.columns],
            table.name,
            "unit",
            f"a row: {table.row}",
        )
        for table in declared.tables()
    }


def _named(word: str, names: Iterable[str]) -> str:
    """The category that a word means, which may be in the plural or in the singular."""
    asked = word.replace("-", "_").lower()
    for name in names:
        plural = re.sub(r"y$", "ie", re.sub(r"(s|x)$", r"\1e", name)) + "s"
        if asked in (name, plural, name + "s", name.removesuffix("s")):
            return name
    hint = suggestion(word, names)
    there = "" if hint else f"; there are {', '.join(names)}, schema"
    raise AnabranchError(f"there is no category `{word}`{hint}{there}")


def _sections(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The keys of each table of a scenario that has no kinds: category to properties."""
    definitions = schema["$defs"]
    sections = {"scenario": schema["properties"]}
    for name, definition in definitions.items():
        if definition.get("properties") and not _NOT_WRITTEN.search(name):
            sections[_category(name)] = definition["properties"]
    return sections


def _category(definition: str) -> str:
    """The category of a type, as the engine names it in messages: `LinkConfig` is `link`."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", definition.removesuffix("Config")).lower()


def _of_kind(schema: dict[str, Any], category: str, kind: str, kinds: list[str]) -> dict[str, Any]:
    """The keys of a kind."""
    for name, definition in schema["$defs"].items():
        if _category(name) != category:
            continue
        for variant in definition.get("oneOf", ()):
            properties = variant.get("properties", {})
            if properties.get("kind", {}).get("const") == kind:
                inner = schema["$defs"].get(variant.get("$ref", "").rpartition("/")[2], {})
                keys = inner.get("properties", {}) | properties
                return {key: about for key, about in keys.items() if key != "kind"}
    hint = suggestion(kind, kinds) or f"; `anabranch list {category}` says what there is"
    raise AnabranchError(f"`{kind}` is no kind of {category} that has keys{hint}")


def _keys(properties: dict[str, Any]) -> Table:
    rows = [
        (key, " ".join(str(about.get("description", "")).split()))
        for key, about in properties.items()
    ]
    return terminal.choices(rows or [("none", "it has no keys")], "key", "what it is")
