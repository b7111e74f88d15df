"""Packet-delivery traces in Mahimahi's format: when a link could send 1500 bytes, in ms."""

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_LINE

from ..measurement import Measurement, Opportunities

NAME = "a packet-delivery trace (Mahimahi)"

OCTETS = 1500
"""Bytes that one line stands for (R. Netravali et al., USENIX ATC 2015)."""

MOST_LINES = 50_000_000
"""The most lines that are read, of 8 bytes each."""


def recognises(head: str) -> bool:
    """Whether a text begins with times in whole milliseconds, one a line."""
    found = [line.strip() for line in head.splitlines() if line.strip()]
    values = [line for line in found[:-1] or found if not line.startswith("#")]
    return bool(values) and all(value.isascii() and value.isdigit() for value in values[:20])


def read(file: Path) -> Measurement:
    """Reads the times and checks that they do not decrease. One line is a whole trace.

    Whatever a scenario would not take is refused, since a profile names the trace as it is.
    """
    values = array("d")
    for number, line in _lines(file):
        text = line.strip(" \t\r\n")  # `strip()` takes more away than a scenario's reader does
        if not text or text.startswith("#"):
            continue
        if not (text.isascii() and text.isdigit() and len(text) <= 12):
            raise AnabranchError(
                f"{file}, line {number}: `{text[:20]}` is not a time in whole milliseconds"
            )
        value = int(text)
        if values and value < values[-1]:
            raise AnabranchError(
                f"{file}, line {number}: {value} ms comes after {values[-1]:.0f} ms; times "
                "must not decrease"
            )
        values.append(float(value))
        if len(values) > MOST_LINES:
            raise AnabranchError(f"{file}: more than {MOST_LINES:,} lines, the most that are read")
    if not values or values[-1] <= 0:
        raise AnabranchError(f"{file}: a packet-delivery trace needs a line with a time above 0")
    times = np.array(values)
    return Measurement(
        title=f"packet-delivery trace of {times[-1] / 1e3:.6g} s",
        opportunities=Opportunities(file, times),
    )


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines as a scenario has them: of UTF-8 without a mark, each ended by LF."""
    with file.open("rb") as stream:
        start = stream.read(3)
        stream.seek(0)
        what = "compressed; unpack it first" if start[:2] == b"\x1f\x8b" else ""
        if start[:2] in (b"\xff\xfe", b"\xfe\xff") or start == b"\xef\xbb\xbf":
            what = "has a byte-order mark; write it in UTF-8 without one"
        if what:
            raise AnabranchError(f"{file}: {what}, since a scenario takes the trace as it is")
        number = 0
        while line := stream.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise AnabranchError(
                    f"{file}, line {number}: more than {MOST_LINE:,} bytes, the most that a line "
                    "may have"
                )
            try:
                yield number, line.decode()
            except UnicodeDecodeError:
                raise AnabranchError(f"{file}, line {number}: not UTF-8 text") from None
