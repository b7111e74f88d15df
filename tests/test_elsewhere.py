"""What the page for people from elsewhere says of ours is so: keys are read, options exist."""

import contextlib
import io
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

import anabranch as package
from anabranch import cli
from anabranch.cli.app import app
from conftest import CALL, ROOT, SWEEP, written

PAGE = (ROOT / "docs" / "elsewhere.md").read_text("utf-8")

LOAD = """
[flows.load]
from = "caller"
to = "callee"
paths = ["p0"]
transport = { kind = "tcp", profile = "linux_6", cc = { kind = "cubic" } }
app = { kind = "bulk" }
"""

ROWS = [
    (there.strip(), here.strip())
    for there, here in re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|$", PAGE)
    if there.strip() != "there"
]
SPANS = [
    span
    for text in (PAGE.partition("## ns-3")[0], *(here for _, here in ROWS))
    for span in re.findall("`([^`]+)`", text)
]
KEYS = [
    span for span in SPANS if re.match(r"(links|flows|paths|run|sweep)\.[\w.]+ = |seed = ", span)
]
COMMANDS = [span for span in SPANS if span.startswith("anabranch ")]


@pytest.mark.parametrize("setting", dict.fromkeys(KEYS))
def test_a_key_is_read(tmp_path: Path, setting: str) -> None:
    path, _, value = setting.partition(" = ")
    written(tmp_path / "up.trace", "1\n2\n3\n")
    written(tmp_path / "losses.txt", "0\n0\n1\n")
    text = CALL + LOAD
    if path == "sweep.where":
        text = SWEEP + LOAD
    scenario = written(tmp_path / "scenario.toml", text)
    if path == "paths.p0.via" and "second" in value:
        text = text.replace(
            'ends = ["caller", "callee"]\nrate = "1 Mbit/s"\ndelay = "30 ms"',
            'ends = ["callee", "hop"]',
        )
        text = text.replace('ends = ["caller", "callee"]', 'ends = ["caller", "hop"]', 1)
        text = text.replace('[paths.p1]\nvia = ["second"]\n', "").replace(
            'paths = ["p0", "p1"]', 'paths = ["p0"]'
        )
        scenario.write_text(text, encoding="utf-8")
    value = value.replace('"up.trace"', f'"{tmp_path / "up.trace"}"').replace(
        '"losses.txt"', f'"{tmp_path / "losses.txt"}"'
    )
    if path == "links.air":  # a link of its own
        air = f"\n[links]\nair = {value}\n\n[links.first]"
        scenario.write_text(text.replace("\n[links.first]", air, 1), encoding="utf-8")
        path, value = "seed", "1"
    loaded = package.load(scenario, {path: value})
    assert loaded.cell_count >= 1


@cache
def options(command: tuple[str, ...]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli.main([*command, "--help"]) == 0
    return out.getvalue()


@pytest.mark.parametrize("line", dict.fromkeys(COMMANDS))
def test_a_command_has_these_options(line: str) -> None:
    words = shlex.split(line)[1:]
    words = words[: words.index("--")] if "--" in words else words
    assert words[0] in app
    text = options((words[0],))
    for word in words[1:]:
        if word.startswith("--"):
            assert re.search(rf"(?m)^│[ *]+{word}[ =]", text), word


def test_every_row_names_something_of_ours() -> None:
    assert len(ROWS) > 50
    assert [there for there, here in ROWS if "`" not in here] == []
    assert len(KEYS) > 30
    assert len(COMMANDS) > 20


def test_every_link_leads_to_a_page() -> None:
    for target in re.findall(r"\]\(([\w-]+\.md)[)#]", PAGE):
        assert (ROOT / "docs" / target).is_file(), target
