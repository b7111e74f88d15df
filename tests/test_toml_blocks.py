"""The blocks of TOML in the pages are accepted: scenarios, and parts of one in a scenario.

A part is completed with what it leaves out: the ends of a link, a path over each link, a flow.
"""

import json
import re
import tomllib
from typing import Any

import pytest

from anabranch import Scenario, ScenarioError
from conftest import ROOT

ELSEWHERE = {
    "bench-quic.md": "programs; tests/test_bench_quic.py has such files",
    "papers.md": "a claim of a paper; tests/test_described_papers.py",
    "plugins.md": "names a class; tests/test_plugins.py",
    "profile.md": "includes what a profile wrote; tests/test_include.py has such files",
    "sweeps.md": "tests/test_sweeps.py counts the cells of its blocks",
    "tutorials/engineer.md": "tests/test_tutorials.py runs its files",
    "tutorials/researcher.md": "tests/test_tutorials.py runs its files",
}
"""Pages whose blocks other tests read."""

LINK = {"ends": ["a", "b"], "rate": "10 Mbit/s", "delay": "20 ms"}
OF_A_LINK = ("queue", "loss", "radio")


def parts_of(block: str) -> list[dict[str, Any]]:
    """What a block says; alternatives for one key, a line each, are parts of their own."""
    lines = [line for line in block.splitlines() if line.strip()]
    names = [line.partition(" = ")[0] for line in lines]
    if len(set(names)) < len(names) and not any(line.startswith("[") for line in lines):
        return [tomllib.loads(line) for line in lines]
    return [tomllib.loads(block)]


def completed(part: dict[str, Any]) -> dict[str, Any]:
    """A scenario with this part."""
    whole = {key: value for key, value in part.items() if key in ("links", "paths", "flows", "run")}
    # What a page includes is the reader's own, whose paths are made below.
    loose = {key: value for key, value in part.items() if key not in {*whole, "include"}}
    whole.setdefault("run", {"duration": "5 s"})
    links = whole.setdefault("links", {})
    if any(key in loose for key in OF_A_LINK):
        links["wan"] = {key: loose.pop(key) for key in OF_A_LINK if key in loose}
    named = [path for flow in whole.get("flows", {}).values() for path in flow.get("paths", [])]
    for name in named or ([] if links else ["wan", "lan"]):
        links.setdefault(name, {})
    for link in links.values():
        for key, value in LINK.items():
            if "radio" not in link or key == "ends":
                link.setdefault(key, value)
    whole.setdefault("paths", {name: {"via": [name]} for name in links})
    (call,) = whole.setdefault("flows", {"call": {}}).values()
    call.update(loose)
    (call["from"], call["to"]), *_ = [link["ends"] for link in links.values()]
    call.setdefault("transport", {"kind": "sctp" if named else "udp"})
    has_several = call["transport"]["kind"] in ("sctp", "mptcp")
    call.setdefault("paths", list(links) if has_several else list(links)[:1])
    streams = call["transport"]["kind"] in ("tcp", "mptcp")
    call.setdefault("app", {"kind": "bulk" if streams else "voip"})
    return whole


def toml(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def read(whole: dict[str, Any]) -> Scenario:
    return Scenario.parse("".join(f"{key} = {toml(value)}\n" for key, value in whole.items()))


PARTS = [
    pytest.param(part, id=f"{name}-{number}-{line}")
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if (name := page.relative_to(ROOT / "docs").as_posix()) not in ELSEWHERE
    for number, block in enumerate(
        re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    )
    for line, part in enumerate(parts_of(block))
    if part  # not only a comment
]


@pytest.mark.parametrize("part", PARTS)
def test_a_block_of_a_page_is_accepted(part: dict[str, Any]) -> None:
    assert read(completed(part)).cell_count == 1


def test_a_block_with_a_mistake_is_not_accepted() -> None:
    for block in ('transport = { kind = "tpc" }', 'queue = { kind = "red", packet = 3 }'):
        with pytest.raises(ScenarioError):
            read(completed(*parts_of(block)))


def test_the_pages_of_models_have_blocks() -> None:
    pages = {str(part.id).partition(".md-")[0] for part in PARTS}
    assert pages >= {"calls", "congestion-control", "losses", "path-policies", "queues"}
    assert len(PARTS) >= 15
