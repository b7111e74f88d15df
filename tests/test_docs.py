"""The reference of scenario files has every key of the schema."""

import json
import re
from typing import Any

import scenario_reference
from anabranch import _engine


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
