"""Round-trip times and losses from the output of ping, or from a table."""

import csv
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError

from .measurement import Delays, LossSequence, Measurement

MOST_PINGS = 10_000_000
"""The most pings, answered or not, that one file may have."""
MOST_LATE = 1_000
"""How many later pings may be answered before a ping's own answer comes."""

_REPLY = re.compile(r"(?:icmp_)?seq=(\d+).*?time[=<]([\d.]+) ?(us|ms|s)\b")
_STAMP = re.compile(r"^\[(\d+\.\d+)\]")
_SUMMARY = re.compile(r"^(\d+) packets transmitted.*?(?:time (\d+) ?ms)?$")
_UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_SEQUENCE = ("seq", "icmp_seq", "sequence")
_RTT = {"rtt": 1e-3, "rtt_ms": 1e-3, "rtt_s": 1.0, "rtt_us": 1e-6, "time_ms": 1e-3, "time": 1e-3}
"""Column -> its unit in s; the first one that the table has counts."""
_NONE = ("", "*", "-", "nan", "none", "null", "lost", "timeout")


def read_ping(file: Path) -> Measurement:
    """Reads the output of ping (iputils, BusyBox, macOS), with or without `-D`."""
    times: dict[int, float] = {}
    stamps: dict[int, float] = {}
    sent, duration, digits, last = 0, None, 9, 0
    is_whole = False
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            is_whole = is_whole or line.startswith("PING ")
            if summary := _SUMMARY.search(line.strip()):
                sent = int(summary[1])
                duration = int(summary[2]) / 1e3 if summary[2] else None
            match = _REPLY.search(line)
            if not match or "DUP" in line:
                continue
            sequence = int(match[1])
            # The number has 16 bits on the wire: of those it can stand for, the one nearest to the
            # last is taken.
            if times:
                near = last + (sequence - last + 32768) % 65536 - 32768
                # If that is further back than answers come late, it belongs to a time after a long
                # outage.
                sequence = near if near > last - MOST_LATE else max(near, sequence)
            last = max(last, sequence)
            unit = _UNIT_S[match[3]]
            times[sequence] = _seconds(match[2], unit, file, number)
            digits = min(digits, len(match[2].partition(".")[2]) - round(math.log10(unit)))
            if stamp := _STAMP.match(line):
                stamps[sequence] = float(stamp[1])
    if not times:
        raise AnabranchError(f"{file}: no ping was answered, so there is nothing to estimate")
    # Output without its beginning does not show which pings were sent before.
    first = min(1, *times) if is_whole else min(times)
    last = max(*times, first + sent - 1)
    spacing = None
    if len(stamps) > 1:
        # A stamp is the time of an answer, so the round-trip time is subtracted.
        begin, end = min(stamps), max(stamps)
        at = [stamps[key] - times[key] for key in (begin, end)]
        spacing = (at[1] - at[0]) / (end - begin)
    elif duration and sent > 1:
        spacing = duration / (sent - 1)
    return _measurement(file, times, (first, last), spacing=spacing, resolution=10.0**-digits)


def read_csv(file: Path) -> Measurement:
    """Reads a table with a header: `seq`, and `rtt` or `time` in ms (or `rtt_s`, `rtt_us`).

    Pings without an answer are missing or have an empty cell.
    """
    times: dict[int, float] = {}
    asked: list[int] = []
    digits = 9
    with file.open(encoding="utf-8", errors="replace", newline="") as lines:
        rows = _table(lines, file)
        header = [name.strip().lower() for name in next(rows)]
        sequence = next((header.index(name) for name in _SEQUENCE if name in header), None)
        rtt = next((name for name in _RTT if name in header), None)
        if sequence is None or rtt is None:
            raise AnabranchError(
                f"{file}: a table of pings needs the columns `seq` and `rtt` (ms), not "
                f"`{', '.join(header)[:80]}`"
            )
        column, unit = header.index(rtt), _RTT[rtt]
        for number, row in enumerate(rows, 2):
            if not row:
                continue
            if len(row) <= max(sequence, column):
                raise AnabranchError(f"{file}, line {number}: {len(row)} cells, not {len(header)}")
            if not re.fullmatch(r"\s*\d{1,12}\s*", row[sequence]):
                what = f"`{row[sequence][:20]}` is no sequence number"
                raise AnabranchError(f"{file}, line {number}: {what}")
            asked.append(int(row[sequence]))
            text = row[column].strip()
            if text.lower() in _NONE:
                continue
            times[asked[-1]] = _seconds(text, unit, file, number)
            digits = min(digits, len(text.partition(".")[2]) - round(math.log10(unit)))
    if not times:
        raise AnabranchError(f"{file}: no ping was answered, so there is nothing to estimate")
    numbers = min(asked), max(asked)
    return _measurement(file, times, numbers, spacing=None, resolution=10.0**-digits)


def _table(lines: Iterator[str], file: Path) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines)
    except csv.Error as error:
        raise AnabranchError(f"{file}: not a table of comma-separated values ({error})") from None


def _seconds(text: str, unit: float, file: Path, line: int) -> float:
    try:
        value = float(text) * unit
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e5:
        raise AnabranchError(
            f"{file}, line {line}: `{text[:20]}` is not a round-trip time; allowed is 0 to 100000 s"
        )
    return value


def _measurement(
    file: Path,
    times: dict[int, float],
    numbers: tuple[int, int],
    *,
    spacing: float | None,
    resolution: float,
) -> Measurement:
    """The measurement from the times by sequence number.

    `numbers` are the first and last one sent.
    """
    first, last = numbers
    count = last - first + 1
    if count > MOST_PINGS:
        raise AnabranchError(
            f"{file}: sequence numbers from {first} to {last}; allowed are {MOST_PINGS:,} pings"
        )
    order = sorted(times)
    lost = np.ones(count, dtype=bool)
    lost[np.array(order) - first] = False
    return Measurement(
        title="1 ping" if count == 1 else f"{count} pings",
        delays=Delays(
            np.array([times[sequence] for sequence in order]),
            legs=2,
            what="round-trip times of pings",
            resolution_s=resolution,
        ),
        losses=LossSequence(lost, "pings without an answer", spacing_s=spacing, round_trip=True),
    )


def looks_like_ping(head: str) -> bool:
    """Whether a text begins like ping's output."""
    lines = itertools.islice((line for line in head.splitlines() if line.strip()), 20)
    return any(
        line.startswith("PING ") or "bytes from" in line or "icmp_seq" in line for line in lines
    )
