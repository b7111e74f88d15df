"""The reference of scenario files has every key of the schema."""

import json
import re
from typing import Any

import scenario_reference
from anabranch import _engine
from conftest import ROOT


def test_every_key_and_kind_is_in_the_reference() -> None:
    schema = json.loads(_engine.schema())
    text = scenario_reference.markdown(schema)
    keys: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            keys.update(node.get("properties", {}))
            if isinstance(constant := node.get("const"), str):
                assert f'"{constant}"' in text
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for item in node:
                collect(item)

    collect(schema)
    assert len(keys) > 10
    for key in keys - {"kind"}:
        # In a table, or inside a value such as `{ timed = ... }`.
        assert f"`{key}`" in text or f"{{ {key} = " in text, key


def test_every_link_has_its_section() -> None:
    text = scenario_reference.markdown(json.loads(_engine.schema()))
    heads = {head.lower() for head in re.findall(r"^## (\w+)$", text, re.MULTILINE)}
    links = set(re.findall(r"\]\(#(\w+)\)", text))
    assert links
    assert links <= heads


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+\.(?:rs|py|pyi|toml|md|j2|yml|txt)|[\w./-]+/)`", text))
    assert len(named) > 150
    missing = {name for name in named if not any(ROOT.glob(name)) and not any_below(name)}
    assert missing == set()


def any_below(name: str) -> bool:
    """Whether a file of this path lies in some folder of the sources."""
    folders = ("crates", "python", "tests", "tools")
    return any(True for folder in folders for _ in (ROOT / folder).glob(f"**/{name.rstrip('/')}"))
