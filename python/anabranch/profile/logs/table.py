"""Tables with a head, separated by commas, semicolons or tabs: of pings, or of times and rates.

`seq` and `rtt` (ms; or `rtt_s`, `rtt_us`) is a table of pings, in which an answer that is missing
or empty is a loss; so is `time` and `rtt_ms`. `time` and a rate (`rate_bit_per_s`, `bps`,
`kbit_per_s`, `mbit_per_s`, `mbps`) is a table of rates.
"""

import csv
import itertools
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_BIT_PER_S, amount, lines, places, seconds

from ..measurement import Measurement, Rates
from .rounds import Rounds, measurement

NAME = "a table (CSV) of pings or of times and rates"

Rows = Iterator[tuple[int, list[str]]]
"""Rows, each with the number of its line."""

MOST_ROWS = 10_000_000
"""The most rows of a table of rates or times."""

SEQUENCE = ("seq", "icmp_seq", "sequence")
_RTT = {"rtt": 1e-3, "rtt_ms": 1e-3, "rtt_s": 1.0, "rtt_us": 1e-6, "time_ms": 1e-3, "time": 1e-3}
"""Column -> its unit in s; the first one that the table has counts."""
TIMED_RTT = {**{key: _RTT[key] for key in ("rtt", "rtt_ms", "rtt_s", "rtt_us")},
              "latency_ms": 1e-3, "ping_ms": 1e-3, "round_trip_ms": 1e-3}  # fmt: skip
TIME = {"time_s": 1.0, "time": 1.0, "t": 1.0, "timestamp": 1.0, "seconds": 1.0, "time_ms": 1e-3}
"""Column -> its unit in s."""
RATE = {
    "rate_bit_per_s": 1.0, "bit_per_s": 1.0, "bits_per_second": 1.0, "bps": 1.0,
    "kbit_per_s": 1e3, "kbps": 1e3, "rate_kbit_per_s": 1e3,
    "mbit_per_s": 1e6, "mbps": 1e6, "rate_mbit_per_s": 1e6, "rate_mbps": 1e6,
    "throughput_mbps": 1e6,
}  # fmt: skip
"""Column -> its unit in bit/s."""
NONE = ("", "*", "-", "nan", "none", "null", "lost", "timeout")


def recognises(head: str) -> bool:
    """Whether a text begins with a row of several cells."""
    return separator_of(_first(head)) is not None and "\0" not in head and "\ufffd" not in head


def has_columns(head: str) -> bool:
    """Whether the first row names a column that is read; a comma alone may be a sentence's."""
    first = _first(head)
    names = {cell.strip().lower() for cell in first.split(separator_of(first))}
    return not names.isdisjoint({*SEQUENCE, *TIME})


def _first(head: str) -> str:
    """The first line that has something, and is no comment."""
    return next((line for line in head.splitlines() if _has_cells(line)), "")


def _has_cells(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def separator_of(line: str) -> str | None:
    """What separates the cells of a line; None where nothing but spaces does."""
    return next((each for each in (",", ";", "\t") if each in line), None)


def read(file: Path) -> Measurement:
    """Reads a table of either kind."""
    numbered = rows(file)
    header = [name.strip().lower() for name in next(numbered)[1]]
    sequence = next((header.index(name) for name in SEQUENCE if name in header), None)
    if sequence is not None and (rtt := next((n for n in _RTT if n in header), None)) is not None:
        return _pings(file, numbered, header, sequence, rtt)
    time = next((name for name in TIME if name in header), None)
    if time is not None:
        if (rtt := next((n for n in TIMED_RTT if n in header), None)) is not None:
            return _timed_pings(file, numbered, header, time, rtt)
        if (rate := next((n for n in RATE if n in header), None)) is not None:
            return _rates(file, numbered, header, time, rate)
    raise AnabranchError(
        f"{file}: a table of pings needs the columns `seq` and `rtt` (ms), or `time` (s) and "
        "`rtt_ms`, and one of rates `time` (s) and `bps`, `kbit_per_s` or `mbit_per_s`, not "
        f"`{', '.join(header)[:80]}`"
    )


def _pings(file: Path, numbered: Rows, header: list[str], sequence: int, rtt: str) -> Measurement:
    column, unit = header.index(rtt), _RTT[rtt]
    run = Rounds(file)
    for number, row in cells(numbered, file, header, max(sequence, column)):
        if not re.fullmatch(r"\s*\d{1,12}\s*", row[sequence]):
            what = f"`{row[sequence][:20]}` is no sequence number"
            raise AnabranchError(f"{file}, line {number}: {what}")
        _take(run, int(row[sequence]), row[column], unit, number)
    return measurement(file, [run])


def _take(run: Rounds, number: int, text: str, unit: float, line: int) -> None:
    text = text.strip()
    run.ask(number)
    if text.lower() not in NONE:
        run.answer(number, seconds(text, unit, run.file, line), places(text, unit))


def _timed_pings(file: Path, numbered: Rows, header: list[str], time: str, rtt: str) -> Measurement:
    at, column = header.index(time), header.index(rtt)
    run = Rounds(file)
    times = []
    for number, row in cells(numbered, file, header, max(at, column)):
        times.append(_time(row[at], TIME[time], file, number))
        _take(run, len(run), row[column], TIMED_RTT[rtt], number)
    run.spacing_s = _regular(times)
    return measurement(file, [run])


def _rates(file: Path, numbered: Rows, header: list[str], time: str, rate: str) -> Measurement:
    at, column = header.index(time), header.index(rate)
    times, values = [], []
    for number, row in cells(numbered, file, header, max(at, column)):
        if row[column].strip().lower() in NONE:
            continue
        value = amount(row[column], f"{file}, line {number}: `{rate}`", MOST_BIT_PER_S)
        times.append(_time(row[at], TIME[time], file, number))
        values.append((value or 0.0) * RATE[rate])
    if len(values) < 2 or not any(values):
        raise AnabranchError(f"{file}: a table of rates needs two rows, and one above 0")
    if max(values) > MOST_BIT_PER_S:
        raise AnabranchError(f"{file}: {max(values):g} bit/s; allowed is up to {MOST_BIT_PER_S:g}")
    backwards = sum(after < before for before, after in pairwise(times))
    notes = ["a table of rates does not say whether the path was full: it has at least this rate"]
    if backwards:
        notes.append(f"{backwards} times of the table go back")
    return Measurement(
        title=f"table of {len(values)} rates over {max(times) - min(times):.6g} s",
        rates=Rates(np.array(values), f"the column {rate}", is_bound=True),
        notes=notes,
    )


def cells(numbered: Rows, file: Path, header: list[str], last: int) -> Rows:
    """The rows that are not empty; each has to have the column `last`."""
    for number, row in numbered:
        if not row:
            continue
        if number > MOST_ROWS:
            raise AnabranchError(f"{file}: more than {MOST_ROWS:,} rows, the most that are read")
        if len(row) <= last:
            raise AnabranchError(f"{file}, line {number}: {len(row)} cells, not {len(header)}")
        yield number, row


def _time(text: str, unit: float, file: Path, line: int) -> float:
    try:
        value = float(text) * unit
    except ValueError:
        value = math.nan
    if not abs(value) <= 1e12:
        raise AnabranchError(f"{file}, line {line}: `{text[:20]}` is not a time in seconds")
    return value


def _regular(times: list[float]) -> float | None:
    """The distance of the times, if it is nearly always the same."""
    if len(times) < 3:
        return None
    steps = np.diff(np.array(times))
    step = float(np.median(steps))
    return step if step > 0 and np.mean(np.abs(steps - step) <= 0.1 * step) >= 0.95 else None


def rows(file: Path) -> Rows:
    """The rows with the numbers of their lines, but for comments in front of the first one.

    Where no line has a separator, spaces are one.
    """
    numbered = lines(file)
    number, first = next(((n, line) for n, line in numbered if _has_cells(line)), (0, ""))
    separator = separator_of(first)
    text = itertools.chain([first], (line for _, line in numbered))
    try:
        if separator is None:
            yield from enumerate((line.split() for line in text), number)
        else:
            yield from enumerate(csv.reader(text, delimiter=separator), number)
    except csv.Error as error:
        raise AnabranchError(f"{file}: not a table of comma-separated values ({error})") from None
