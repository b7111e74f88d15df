"""Packet-delivery traces in Mahimahi's format: when a link could send 1500 bytes, in ms."""

from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError

from .measurement import Measurement, Opportunities

OCTETS = 1500
"""Bytes that one line stands for (R. Netravali et al., USENIX ATC 2015)."""

_MOST_MEGABYTES = 500


def read(file: Path) -> Measurement:
    """Reads the times and checks that they do not decrease."""
    if file.stat().st_size > _MOST_MEGABYTES * 1e6:
        raise AnabranchError(f"{file}: more than {_MOST_MEGABYTES} MB, the most that is read")
    values: list[float] = []
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
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
    if len(values) < 2 or values[-1] <= 0:
        raise AnabranchError(f"{file}: a packet-delivery trace needs two lines and a time above 0")
    times = np.array(values)
    return Measurement(
        title=f"packet-delivery trace of {times[-1] / 1e3:.6g} s",
        opportunities=Opportunities(file, times),
    )
