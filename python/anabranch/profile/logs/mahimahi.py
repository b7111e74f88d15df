"""Packet-delivery traces in Mahimahi's format: when a link could send 1500 bytes, in ms."""

from array import array
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import lines

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
    """Reads the times and checks that they do not decrease. One line is a whole trace."""
    with file.open("rb") as stream:
        if stream.read(2) == b"\x1f\x8b":
            raise AnabranchError(
                f"{file}: compressed; unpack it first, since a scenario takes the trace as it is"
            )
    values = array("d")
    for number, line in lines(file):
        text = line.strip()
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
