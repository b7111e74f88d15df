"""Tables without headings that public sets have: bytes and their times, rates of iperf."""

import itertools
import math
import re
from array import array
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_BIT_PER_S, amount
from anabranch.support.wording import counted, harmless

from ..intervals import Vector
from ..logs import table
from .options import Options
from .series import (
    Direction,
    Trace,
    check_length,
    steps,
    typical_step,
    window_of,
    without_gaps,
)
from .times import backwards, magnitude, note_gaps

_BYTES = re.compile(r"^\s*\d+\s+\d+\s+\S+\s+\S+\s+-?\d+\s+-?\d+\s*$")
"""Time of day, ms since the start, latitude, longitude, bytes and ms since the line before: HSDPA
of Simula (Riiser et al. 2013), 4G of Ghent (van der Hooft et al. 2016)."""
_RATES = re.compile(r"^\s*-?\d+(?:\.\d+)?\s*[,;\t]\s*([KMG]?)bits/sec\s*$")
"""A rate of iperf and its unit in each row: the sample traces of NYU-METS."""
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


def recognises(head: str) -> bool:
    """Whether a text is such a table."""
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith("#")][:20]
    lines = lines[:-1] or lines
    return bool(lines) and any(all(form.match(line) for line in lines) for form in (_BYTES, _RATES))


def trace(file: Path, options: Options) -> Trace:
    """Reads such a table."""
    rows = table.rows(file)
    number, first = next(rows)
    _check(file, options)
    every = itertools.chain([(number, first)], rows)
    is_bytes = _BYTES.match(" ".join(first)) is not None
    return _of_bytes(file, every, options) if is_bytes else _of_rates(file, every, options)


def _check(file: Path, options: Options) -> None:
    """Raises where an option would have no effect."""
    if set(options.take) - {"rate"}:
        raise AnabranchError(f"{file}: the table has rates alone; leave --take out")
    for option in ("where", "time_unit", "rate_unit", "delay_unit", "loss_unit"):
        if getattr(options, option):
            flag = option.replace("_", "-")
            raise AnabranchError(
                f"{file}: a known table without headings; leave --{flag} out, or name its columns "
                "by their numbers with --column"
            )


def _of_bytes(file: Path, rows: table.Rows, options: Options) -> Trace:
    """Bytes since the line before: each rate held for the time before its line."""
    times, values = array("d"), array("d")
    began = None
    last = -math.inf
    for number, row in table.cells(rows, file, [""] * 6, 5):
        where = f"{file}, line {number}"
        at = amount(row[1], f"{where}: the time", 1e15) or 0.0
        octets = amount(row[4], f"{where}: the number of bytes", 1e15) or 0.0
        passed = amount(row[5], f"{where}: the time since the line before", 1e12) or 0.0
        if at < last:
            raise backwards(file, number, last / 1e3, at / 1e3)
        last = at
        if began is None:
            epoch = amount(row[0], f"{where}: the time of day", 1e15) or 0.0
            began = epoch * magnitude(epoch)
        if passed > 0:
            times.append(max((at - passed) / 1e3, times[-1] if times else -math.inf))
            values.append(octets * 8e3 / passed)
    if len(values) < 2:
        raise AnabranchError(f"{file}: fewer than two lines with bytes and the time they took")
    found = _of_samples(file, np.array(times), np.array(values), options)
    found.notes.append("a rate is the bytes of a line over the time since the line before")
    found.began_s = began
    return found


def _of_rates(file: Path, rows: table.Rows, options: Options) -> Trace:
    """A rate a row, one each second."""
    values = array("d")
    for number, row in table.cells(rows, file, ["", ""], 1):
        match = _RATES.match(",".join(row))
        if match is None:
            what = harmless(",".join(row)[:40])
            raise AnabranchError(f"{file}, line {number}: `{what}` is not a rate in bits/sec")
        unit = _FACTORS[match[1]]
        value = amount(row[0], f"{file}, line {number}: the rate", MOST_BIT_PER_S / unit)
        values.append((value or 0.0) * unit)
    spacing = options.interval_s or 1.0
    times = np.arange(len(values), dtype=np.float64) * spacing
    found = _of_samples(file, times, np.array(values), options, spacing)
    said = "" if options.interval_s else ", as iperf's usual intervals"
    found.notes.append(f"the rows have no times: each is taken to be {spacing:g} s{said}")
    return found


def _of_samples(
    file: Path, times: Vector, values: Vector, options: Options, spacing: float | None = None
) -> Trace:
    if not values.any():
        raise AnabranchError(f"{file}: every rate is 0, so that nothing could be sent")
    times = times - times[0]
    notes: list[str] = []
    spacing = spacing or typical_step(times) or 1.0
    length = float(times[-1]) + spacing
    check_length(str(file), length)
    note_gaps(times, spacing, notes)
    window = window_of(len(times), length, options.window_s, notes)
    every, means, _ = without_gaps(times, values, length)
    there = Direction(rate=steps(every, means, window_s=window))
    title = f"{counted(len(values), 'rate')} over {length:.6g} s"
    return Trace(title, length, there, notes=notes, spacing_s=spacing)
