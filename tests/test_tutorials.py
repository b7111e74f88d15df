"""The tutorials: every command in them works, and shows what the page says.

A block of TOML that begins with a comment `# NAME` is a file to save; with `# NAME, at its end` it
is added to that file. Blocks of `sh` have one command of ours a line. A block of `text` is what the
commands or the Python before it print on standard output, with `...` for what is left out.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import cli
from conftest import ROOT

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_shows_what_its_commands_print(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    shown = 0
    for printed, expected in outputs(page.read_text("utf-8")):
        assert matches(printed, expected), f"{page.name} shows:\n{expected}\nprinted:\n{printed}"
        shown += 1
    assert shown >= 5


def outputs(text: str) -> Iterator[tuple[str, str]]:
    """What is printed and what the page shows of it, for each block of `text`."""
    printed = ""
    for kind, body in BLOCK.findall(text):
        match kind:
            case "toml":
                save(body)
            case "sh":
                printed = "".join(run(line) for line in body.splitlines())
            case "python":
                printed = run_python(body)
            case "text":
                yield printed, body
            case _:
                raise AssertionError(f"a block of kind {kind!r} would not be run")


def save(body: str) -> None:
    heading = body.partition("\n")[0]
    match = re.fullmatch(r"# ([\w.-]+)(, at its end)?", heading)
    assert match, f"the block does not say which file it is: {heading}"
    with Path(match[1]).open("a" if match[2] else "w", encoding="utf-8") as file:
        file.write(f"\n{body}")


def run(line: str) -> str:
    program, *words = shlex.split(line)
    assert program == "anabranch", line
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        assert cli.main(words) == 0, line
    return stdout.getvalue()


def run_python(code: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        exec(compile(code, "tutorial", "exec"), {})
    return stdout.getvalue()


DECIMAL = r"\d[\d,]*\.\d+"


def matches(printed: str, expected: str) -> bool:
    """Whether they are equal but for white space, lengths of rules, and what `...` leaves out.

    Decimal numbers may differ by one per cent: those that are fitted do so between processors.
    """
    parts = re.split(f"({DECIMAL})", plain(expected))
    words = [re.escape(part).replace(r"\.\.\.", ".*") for part in parts[::2]]
    found = re.fullmatch(f"({DECIMAL})".join(words), plain(printed), re.DOTALL)
    return found is not None and [number(text) for text in found.groups()] == pytest.approx(
        [number(text) for text in parts[1::2]], rel=0.01
    )


def number(text: str) -> float:
    return float(text.replace(",", ""))


def plain(text: str) -> str:
    return " ".join(re.sub("─+", "─", text).split())


def test_a_difference_is_seen() -> None:
    assert matches("MOS 4.11;  3 frames\n ──── \n end", "MOS 4.11; 3 frames\n──\nend\n")
    assert matches("first\nMOS 4.11\nlast", "...\nMOS 4.11\n...")
    assert matches("MOS 4.11, 0.25 ± 0.02", "MOS 4.12, 0.25 ± 0.02")
    assert not matches("MOS 4.11, 0.25 ± 0.02", "MOS 4.11, 0.25 ± 0.03")
    assert not matches("3 frames", "4 frames")
    assert not matches("MOS 4.11\nmore", "MOS 4.11")
    assert not matches("first\nMOS 4.11", "...\nMOS 4.2")
