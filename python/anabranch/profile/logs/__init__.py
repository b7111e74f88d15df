"""Logs of programs that measure a path: a reader for each, recognised by a file's content.

A reader is a module with `NAME` (what it reads, for messages), `recognises(head)`, which is told
the beginning of a text, and `read(file)`, which gives a `Measurement` or raises an AnabranchError
with one sentence. A new one is a line in `READERS`.
"""

from pathlib import Path
from typing import Protocol, cast

from anabranch.errors import AnabranchError
from anabranch.support.reading import head

from ..measurement import Measurement
from . import (
    flent,
    fping,
    iperf3,
    irtt,
    mahimahi,
    mm_link,
    mtr,
    ping,
    ss,
    table,
    unread,
    windows_ping,
)

__all__ = ["READERS", "Reader", "names", "reader_of"]


class Reader(Protocol):
    """What a module of this folder is."""

    NAME: str

    def recognises(self, text: str, /) -> bool:
        """Whether a text begins like what is read here."""

    def read(self, file: Path) -> Measurement:
        """Reads the file."""


READERS = cast(
    "tuple[Reader, ...]",
    # JSON, then what has marks of its own in each line, then what is only columns.
    (irtt, iperf3, flent, mtr, fping, windows_ping, ping, mm_link, ss, mahimahi, table),
)  # fmt: skip
"""The readers, in the order in which they are asked."""


def names() -> str:
    """What is read, for a message."""
    return ", ".join(reader.NAME for reader in READERS)


def reader_of(file: Path) -> Reader | None:
    """The reader of a file; None where it is no log that is known.

    Raises an AnabranchError where it is one that says too little.
    """
    text = head(file)
    found = next((reader for reader in READERS if reader.recognises(text)), None)
    if found in (None, table) and (said := unread.instead(text)) is not None:
        raise AnabranchError(f"{file}: {said}")
    return found
