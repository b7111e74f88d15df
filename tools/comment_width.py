"""Wraps the comments of Rust files at rustfmt's width: rustfmt itself leaves comments as they are.

`python tools/comment_width.py FILE...` wraps the paragraphs that have a line beyond that width, and
no others. With `--check` it changes nothing: it names the files that it would change, and fails if
there are any. Code blocks, tables and headings in comments stay as they are.
"""

import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

_COMMENT = re.compile(r"( *)(///|//!|//)(?!/)(?: (.*)|$)")
_ITEM = re.compile(r" *(?:[-*]|\d+\.) +")
_KEPT = re.compile(r"$| *(?:\||#+ |\[[^\]]*\]: )|    ")
"""Empty lines, tables, headings, link targets and indented code."""


def wrapped(text: str, width: int) -> str:
    """The text of a Rust file with its comments wrapped."""
    lines: list[str] = []
    for mark, group in groupby(text.split("\n"), key=_mark):
        block = list(group)
        lines += block if mark is None else _block(block, mark, width)
    return "\n".join(lines)


def _mark(line: str) -> str | None:
    """The beginning of a line of comment; None for code."""
    match = _COMMENT.fullmatch(line)
    return match and match[1] + match[2]


def _block(lines: Sequence[str], mark: str, width: int) -> Iterator[str]:
    """Wraps consecutive lines of comment of one kind."""
    texts = [line[len(mark) :].removeprefix(" ") for line in lines]
    for paragraph, is_text in _paragraphs(texts):
        if not is_text or max(map(len, paragraph)) + len(mark) + 1 <= width:
            yield from (f"{mark} {line}".rstrip() for line in paragraph)
            continue
        item = _ITEM.match(paragraph[0])
        filled = textwrap.wrap(
            " ".join(line.strip() for line in paragraph),
            width - len(mark) - 1,
            subsequent_indent=" " * item.end() if item else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from (f"{mark} {line}" for line in filled)


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """Groups of lines that belong together, each with whether it is text that may be wrapped."""
    paragraph: list[str] = []
    in_code = False
    for line in lines:
        is_fence = line.lstrip().startswith("```")
        is_kept = in_code or is_fence or _KEPT.match(line) is not None
        in_code ^= is_fence
        if paragraph and (is_kept or _ITEM.match(line)):
            yield paragraph, True
            paragraph = []
        if is_kept:
            yield [line], False
        else:
            paragraph.append(line)
    if paragraph:
        yield paragraph, True


def main(arguments: Sequence[str]) -> int:
    """Wraps the comments of these files, or names those that it would change."""
    is_check = "--check" in arguments
    root = Path(__file__).parent.parent
    width = tomllib.loads((root / "rustfmt.toml").read_text(encoding="utf-8"))["max_width"]
    changed = []
    for file in (Path(argument) for argument in arguments if argument != "--check"):
        text = file.read_text(encoding="utf-8")
        new = wrapped(text, width)
        if new != text:
            changed.append(file)
            if not is_check:
                file.write_text(new, encoding="utf-8")
    for file in changed if is_check else []:
        print(f"{file}: a comment is wider than {width} characters", file=sys.stderr)
    return 1 if is_check and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
