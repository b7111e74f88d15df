"""Logs as they come to hand: cut, appended, edited, of another encoding, with numbers gone wrong.

A kind of log is one of the samples of `test_profile_logs.py`, or of the qlogs of
`test_explain_qlog.py`.
"""

import copy
import json
import random
import re
from pathlib import Path
from typing import Any

from test_explain_qlog import HEAD_NEW, sequence, transfer
from test_profile_logs import SAMPLES, leaves

_DOCUMENT = {"qlog_version": "0.3", "traces": [{"events": [
    {"time": time, "name": f"transport:{name}", "data": data} for time, name, data in transfer()
]}]}  # fmt: skip
_QLOGS = {
    "qlog": json.dumps(_DOCUMENT),
    "sqlog": sequence(transfer()),
    "sqlog-new": sequence(transfer(), HEAD_NEW, mark=""),
}
_TEXTS = SAMPLES | _QLOGS

_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_ODD = (
    b"NaN", b"nan", b"inf", b"-inf", b"Infinity", b"1e400", b"-1", b"-0", b"1e308", b"5e-324",
    b"9" * 30, b"9" * 400, b"4294967295", b"18446744073709551616", b"65536", b"0", b"0x10", b"1_0",
    b"1,5", b"", b"\xd9\xa3", b"\xc2\xb2", b"1e9", b"2147483648",
)  # fmt: skip
"""What stands in the place of a number; some are digits of other scripts."""


def changed(text: bytes, rng: random.Random) -> bytes:
    """The file after one to five accidents."""
    for _ in range(rng.randint(1, 5)):
        text = rng.choice(_CHANGES)(text, rng)
        text = text[: 1 << 20]
    return text


def _lines(text: bytes, rng: random.Random) -> bytes:
    """Deletes, repeats, moves or swaps lines."""
    lines = text.splitlines(keepends=True) or [b""]
    at, other = (rng.randrange(len(lines)) for _ in range(2))
    count = rng.choice([1, 1, 1, 3, len(lines) // 2 + 1])
    match rng.randrange(4):
        case 0:
            del lines[at : at + count]
        case 1:
            lines[at:at] = lines[other : other + count] * rng.choice([1, 1, 50])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            rng.shuffle(lines)
    return b"".join(lines)


def _number(text: bytes, rng: random.Random) -> bytes:
    """Replaces a number, or all that are equal to it."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text + rng.choice(_ODD)
    one, odd = rng.choice(found), rng.choice(_ODD)
    if rng.random() < 0.2:
        return text.replace(one[0], odd)
    return text[: one.start()] + odd + text[one.end() :]


def _digit(text: bytes, rng: random.Random) -> bytes:
    """A number becomes larger or smaller by powers of ten."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    one = rng.choice(found)
    zeros = b"0" * rng.randint(1, 12)
    new = one[0] + zeros if rng.random() < 0.5 else b"0." + zeros + one[0].replace(b".", b"")
    return text[: one.start()] + new + text[one.end() :]


def _cut(text: bytes, rng: random.Random) -> bytes:
    """The beginning or the end is missing."""
    at = rng.randint(0, len(text))
    return text[:at] if rng.random() < 0.7 else text[at:]


def _octets(text: bytes, rng: random.Random) -> bytes:
    """Some bytes are others, such as NUL."""
    for _ in range(rng.choice([1, 1, 20])):
        at = rng.randint(0, len(text))
        new = rng.choice([b"\0", b"\xff", b"\r", b"\n", b"\x1b[31m", bytes([rng.randrange(256)])])
        text = text[:at] + new + text[at + rng.randint(0, 2) :]
    return text


def _encoding(text: bytes, rng: random.Random) -> bytes:
    """Of another encoding, with a mark of the order of bytes or without, or with other ends."""
    said = text.decode("utf-8", "replace")
    match rng.randrange(6):
        case 0:
            return said.encode("utf-16")
        case 1:
            return said.encode("utf-16-be")
        case 2:
            return b"\xef\xbb\xbf" + text
        case 3:
            return said.encode("latin-1", "replace")
        case 4:
            return said.encode("cp1251", "replace")
        case _:
            return text.replace(b"\n", b"\r\n")


def _again(text: bytes, rng: random.Random) -> bytes:
    """Appended to itself, or to another log."""
    other = text if rng.random() < 0.7 else _TEXTS[rng.choice(sorted(_TEXTS))].encode()
    return text + rng.choice([b"", b"\n"]) + other


def _words(text: bytes, rng: random.Random) -> bytes:
    """Two words change places."""
    words = text.split(b" ")
    one, other = (rng.randrange(len(words)) for _ in range(2))
    words[one], words[other] = words[other], words[one]
    return b" ".join(words)


def _tree(text: bytes, rng: random.Random) -> bytes:
    """A value of a JSON document, or of a line of one, is of another kind."""
    lines = [text] if rng.random() < 0.5 else text.split(b"\n")
    at = rng.randrange(len(lines))
    mark = b"\x1e" if lines[at].startswith(b"\x1e") else b""
    try:
        tree = json.loads(lines[at].removeprefix(mark))
    except (ValueError, RecursionError):
        return text
    paths = leaves(tree)[1:]
    if not paths:
        return text
    *above, last = rng.choice(paths)
    place: Any = tree
    for key in above:
        place = place[key]
    match rng.randrange(4):
        case 0:
            del place[last]
        case 1:
            found: Any = tree
            for key in rng.choice(paths):
                found = found[key]
            place[last] = copy.deepcopy(found)
        case _:
            place[last] = rng.choice(_ODD_VALUES)
    lines[at] = mark + json.dumps(tree).encode()
    return b"\n".join(lines)


_ODD_VALUES: tuple[Any, ...] = (
    None, True, False, "", "x", "1", "NaN", [], {}, [1], [[0, 1]], {"a": 1}, 0, -1, 1, 0.5, -0.0,
    1e308, 5e-324, float("nan"), float("inf"), 2**31, 2**53, 2**62, 2**63, 2**64, 10**30, 10**400,
)  # fmt: skip

_CHANGES = (
    _lines, _number, _number, _digit, _cut, _octets, _encoding, _again, _words, _tree, _tree,
)  # fmt: skip


def kinds() -> list[str]:
    """Every kind of log."""
    return sorted(_TEXTS)


def written(kind: str, rng: random.Random, folder: Path) -> list[Path]:
    """Writes a changed log of this kind, and gives its file."""
    file = folder / "log"
    file.write_bytes(changed(_TEXTS[kind].encode(), rng))
    return [file]
