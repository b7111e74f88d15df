"""The reference of scenario files has every key of the schema."""

import json
import re
from typing import Any

import pytest

import imports_page
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
    pages = (ROOT / "ARCHITECTURE.md", ROOT / "docs" / "where.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"`([\w./-]+\.(?:rs|py|pyi|toml|md|j2|yml|txt)|[\w./-]+/)`", text))
    assert len(named) > 150
    missing = {name for name in named if not any(ROOT.glob(name)) and not any_below(name)}
    assert missing == set()


def any_below(name: str) -> bool:
    """Whether a file of this path lies in some folder of the sources."""
    folders = ("crates", "python", "tests", "tools")
    return any(True for folder in folders for _ in (ROOT / folder).glob(f"**/{name.rstrip('/')}"))


def test_the_pictures_of_imports_are_those_of_the_sources() -> None:
    text = (ROOT / "docs" / "imports.md").read_text("utf-8")
    assert imports_page.page(text, ROOT) == text, "run `make docs`"


def test_a_circle_of_files_goes_through_what_a_folder_hands_on() -> None:
    graph = imports_page.files(
        {
            (): "mod net;\nmod sim;\n",
            ("net",): "mod high;\nmod low;\npub use high::High;\npub(crate) use low::{Low};\n",
            ("net", "high"): "use super::Low;\n",
            ("net", "low"): "use crate::net::{High, Low};\n",
            ("sim",): "use crate::net::High;\n",
        }
    )
    assert graph["sim"] == {"net/high"}
    assert imports_page.circles(graph) == [["net/high", "net/low"]]
    assert imports_page.circles(imports_page.modules(graph)) == []


EXPLAINED_IN = {
    "congestion_control": "congestion-control.md",
    "coupling": "coupling.md",
    "cross_traffic": "losses.md",
    "e_model": "calls.md",
    "jitter_buffer": "calls.md",
    "loss": "losses.md",
    "loss_clock": "losses.md",
    "path_policy": "path-policies.md",
    "queue": "queues.md",
    "radio": "wireless.md wimax.md",
    "scheduler": "load-sharing.md",
}


@pytest.mark.parametrize("category", EXPLAINED_IN)
def test_every_model_is_explained(category: str) -> None:
    pages = EXPLAINED_IN[category].split()
    text = "".join((ROOT / "docs" / page).read_text("utf-8") for page in pages)
    kinds = [kind for kind, _ in _engine.models()[category]]
    assert [kind for kind in kinds if f"`{kind}`" not in text and f'"{kind}"' not in text] == []


def test_every_story_of_the_lab_is_listed() -> None:
    source = (ROOT / "lab" / "src" / "stories.ts").read_text("utf-8")
    stories = re.findall(r'^    id: "(.+)",\n    title: "(.+)",$', source, re.MULTILINE)
    assert len(stories) >= 10
    page = (ROOT / "docs" / "lab.md").read_text("utf-8")
    listed = re.findall(r"^\| `#(.+?)` \| (.+?) \|", page, re.MULTILINE)
    assert listed == stories
