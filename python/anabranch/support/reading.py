"""Text, trees and numbers of logs, read with limits and checked."""

import codecs
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from anabranch.errors import AnabranchError

from . import wording

HEAD_OCTETS = 65_536
"""How much of a file's beginning is looked at to recognise it."""
MOST_LINE = 1_000_000
"""The most characters that a line may have."""
MOST_MEGABYTES = 200
"""The most that is read, unpacked, of a file that is one tree in JSON."""
MOST_SECONDS = 1e5
"""The longest delay that is believed, in seconds."""
MOST_BIT_PER_S = 1e15
"""The highest rate that is believed."""

_LINES_A_REPORT = 4096

Watch = Callable[[Path], Callable[[int], None]]
"""Asked for each file for a function that is told how many of its bytes have been read."""

_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)

_GZIP = b"\x1f\x8b"
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; the longer ones first, since one begins as a shorter one does."""
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")
"""What no table has."""
_UNPACKING = (EOFError, zlib.error, gzip.BadGzipFile)


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Within this context it is reported how far the lines of a file have been read."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def head(file: Path) -> str:
    """The beginning of a file as text, unpacked where it is packed with gzip; never fails."""
    with file.open("rb") as stream:
        start = stream.read(HEAD_OCTETS)
    if start[:2] == _GZIP:
        try:
            start = zlib.decompressobj(wbits=31).decompress(start, HEAD_OCTETS)
        except zlib.error:
            return ""
    return start.decode(_encoding(start), errors="replace")


def lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text, packed with gzip or not, with their numbers."""
    with opened(file) as stream:
        encoding = _encoding(stream.read(HEAD_OCTETS))
    watch = _watch.get()
    report = None if watch is None else watch(file)
    with opened(file) as binary:
        packed = getattr(binary, "fileobj", binary)
        text = io.TextIOWrapper(binary, encoding=encoding, errors="replace")
        number = 0
        while True:
            number += 1
            if report is not None and number % _LINES_A_REPORT == 0:
                report(packed.tell())
            line = text.readline(MOST_LINE + 1)
            if not line:
                return
            if len(line) > MOST_LINE:
                raise AnabranchError(
                    f"{file}, line {number}: more than {MOST_LINE:,} characters, the most that a "
                    "line may have"
                )
            yield number, line


def tree(file: Path, most_mb: int = MOST_MEGABYTES, otherwise: str = "") -> dict[str, Any]:
    """The tree of a JSON file, packed with gzip or not; `otherwise` says what to do with more."""
    with opened(file) as stream:
        content = stream.read(most_mb * 1_000_000 + 1)
    if len(content) > most_mb * 1_000_000:
        raise AnabranchError(
            f"{file}: more than {most_mb} MB of JSON, which is the most that is read{otherwise}"
        )
    return parsed(content.decode(_encoding(content[:HEAD_OCTETS]), errors="replace"), str(file))


def parsed(text: str, where: str, one: str = "result") -> dict[str, Any]:
    """A text in JSON that has to be an object; `one` is what it is called."""
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise AnabranchError(f"{where}: not JSON that is read: nested too deeply") from None
    except json.JSONDecodeError as error:
        what = f"line {error.lineno}: {error.msg}"
        if error.msg == "Extra data":
            what = f"a second {one} begins in line {error.lineno}; give each its own file"
        raise AnabranchError(f"{where}: not JSON: {what}") from None
    except ValueError as error:
        raise AnabranchError(f"{where}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise AnabranchError(f"{where}: JSON, but no object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def at(value: Any, *keys: str) -> Any:
    """What is below these keys of a tree, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def items(value: Any) -> list[Any]:
    """A list of a tree; an empty one where there is none."""
    return value if isinstance(value, list) else []


def amount(value: Any, what: str, most: float = 1e15, least: float = 0.0) -> float | None:
    """A number of a tree from `least` to `most`; None where there is none.

    Raises an AnabranchError that begins with `what`: the file and what it is of.
    """
    if value is None:
        return None
    number = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if not least <= number <= most:
        # On one line, as a text of JSON may have several.
        said = wording.harmless(" ".join(str(value)[:20].split()))
        raise AnabranchError(f"{what} is `{said}`; allowed is {least:g} to {most:g}")
    return number


def seconds(text: str, unit: float, file: Path, line: int) -> float:
    """A round-trip time in seconds, from the text of a number in this unit."""
    try:
        value = float(text) * unit
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST_SECONDS:
        raise AnabranchError(
            f"{file}, line {line}: `{text[:20]}` is not a round-trip time; allowed is 0 to 100000 s"
        )
    return value


def places(text: str, unit: float) -> int:
    """The decimal places, in seconds, that a number written in this unit has."""
    return len(text.partition(".")[2]) - round(math.log10(unit))


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """A file as it is unpacked, packed with gzip or not."""
    with file.open("rb") as stream:
        is_packed = stream.read(2) == _GZIP
        stream.seek(0)
        if not is_packed:
            yield stream
            return
        try:
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield cast("BinaryIO", unpacked)
        except _UNPACKING:
            raise AnabranchError(f"{file}: the packed file is damaged or cut off") from None


def _encoding(start: bytes) -> str:
    """The encoding of a text that begins so.

    PowerShell writes UTF-16 with a byte order mark into a file, spreadsheets of Western Europe
    write tables in Windows-1252.
    """
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "utf-8-sig" if _CONTROL.search(start) else "cp1252"
    return "utf-8-sig"
