"""Traces of tables: times, and rates, delays or losses beside them.

A table has headings (`headings.py`), or is one of those without that public sets have.
"""

import itertools
import math
import re
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_BIT_PER_S, MOST_SECONDS, amount
from anabranch.support.wording import counted, harmless

from ..intervals import Vector
from ..logs import table
from ..loss import Flags
from . import headings
from .headings import Column
from .options import Options
from .series import (
    Direction,
    Series,
    Trace,
    check_length,
    halves,
    mean_of,
    one_way,
    steps,
    typical_step,
    window_of,
)

_BYTES = re.compile(r"^\s*\d+\s+\d+\s+\S+\s+\S+\s+-?\d+\s+-?\d+\s*$")
"""Time of day, ms since the start, latitude, longitude, bytes and ms since the line before: HSDPA
of Simula (Riiser et al. 2013), 4G of Ghent (van der Hooft et al. 2016)."""
_RATES = re.compile(r"^\s*-?\d+(?:\.\d+)?\s*[,;\t]\s*([KMG]?)bits/sec\s*$")
"""A rate of iperf and its unit in each row: the sample traces of NYU-METS."""
_UNDERSCORED = re.compile(r"(\d{4})\.(\d\d)\.(\d\d)_(\d\d)\.(\d\d)\.(\d\d)")
"""Times of G-NetTrack: 2019.12.14_10.16.30."""
_UNANSWERED = ("*", "lost", "timeout")
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_MOST_MISSING = 10_000
"""The most pings in a row whose numbers are missing; more are another run."""
_EARLIEST_S = 1e8
"""Later times, in seconds, are those since 1970."""
_GAP = 5.0
"""A gap is longer than this many usual steps."""
_LOSS_WINDOW_S = 1.0
_LOSS_WINDOW_PACKETS = 10


def recognises(head: str) -> bool:
    """Whether a text is a table without headings that is known."""
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith("#")][:20]
    lines = lines[:-1] or lines
    return bool(lines) and any(all(form.match(line) for line in lines) for form in (_BYTES, _RATES))


def trace(file: Path, options: Options) -> Trace:
    """Reads a table."""
    rows = table.rows(file)
    number, first = next(rows)
    line = " ".join(first)
    if not options.columns and _BYTES.match(line):
        return _of_bytes(file, itertools.chain([(number, first)], rows), options)
    if not options.columns and len(first) == 2 and _RATES.match(",".join(first)):
        return _of_rates(file, itertools.chain([(number, first)], rows), options)
    if options.columns and all(name.isdecimal() for name in options.columns.values()):
        # Only columns by number: the first row is one of values, unless it cannot be.
        header = [str(n + 1) for n in range(len(first))]
        if all(
            _is_value(first[int(n) - 1])
            for n in options.columns.values()
            if 0 < int(n) <= len(first)
        ):
            rows = itertools.chain([(number, first)], rows)
    else:
        header = [name.strip() for name in first]
    return _Table(file, header, options).trace(rows)


def _is_value(text: str) -> bool:
    """Whether a cell has a number or a date, and no heading."""
    text = text.strip()
    try:
        float(text)
    except ValueError:
        return text.lower() in table.NONE or _date(text) is not None
    return True


def _date(text: str) -> float | None:
    """A date in seconds since 1970; None where it is none that is read."""
    try:
        if match := _UNDERSCORED.match(text):
            found = datetime.strptime(match[0], "%Y.%m.%d_%H.%M.%S")  # noqa: DTZ007 - below
        else:
            found = datetime.fromisoformat(text)
        zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return zoned.timestamp()
    except (ValueError, OverflowError):
        return None


def _of_bytes(file: Path, rows: table.Rows, options: Options) -> Trace:
    """Bytes since the line before: each rate held for the time before its line."""
    _only_rates(file, options)
    times, values = array("d"), array("d")
    began = None
    last = -math.inf
    for number, row in table.cells(rows, file, [""] * 6, 5):
        where = f"{file}, line {number}"
        at = amount(row[1], f"{where}: the time", 1e15) or 0.0
        octets = amount(row[4], f"{where}: the bytes", 1e15) or 0.0
        passed = amount(row[5], f"{where}: the time since the line before", 1e12) or 0.0
        if at < last:
            raise _backwards(file, number, last / 1e3, at / 1e3)
        last = at
        if began is None:
            epoch = amount(row[0], f"{where}: the time of day", 1e15) or 0.0
            began = epoch * _magnitude(epoch)
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
    _only_rates(file, options)
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


def _only_rates(file: Path, options: Options) -> None:
    if set(options.take) - {"rate"}:
        raise AnabranchError(f"{file}: the table has rates alone; leave --take out")
    if options.where:
        raise AnabranchError(f"{file}: the table has no headings; --where does not go with it")


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
    _note_gaps(times, spacing, notes)
    window = window_of(len(times), length, options.window_s, notes)
    there = Direction(rate=steps(times, values, window))
    title = f"{counted(len(values), 'rate')} over {length:.6g} s"
    return Trace(title, length, there, notes=notes, spacing_s=spacing)


def _note_gaps(times: Vector, spacing: float, notes: list[str]) -> None:
    further = np.diff(times)
    gaps = further[further > _GAP * spacing]
    if len(gaps):
        notes.append(
            f"{counted(len(gaps), 'gap')} in the times, the longest of {gaps.max():.6g} s: the "
            "value before a gap holds until it is over"
        )


def _backwards(file: Path, number: int, before: float, after: float) -> AnabranchError:
    return AnabranchError(
        f"{file}, line {number}: the time goes back from {before:.12g} s to {after:.12g} s; where "
        "a table has several runs, choose one with --where"
    )


def _magnitude(value: float) -> float:
    """The unit of a time since 1970, or of a short one: nobody measured before 1973."""
    for least, unit in ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3)):
        if abs(value) >= least:
            return unit
    return 1.0


class _Table:
    """The columns of a table with headings, as they are read."""

    def __init__(self, file: Path, header: Sequence[str], options: Options) -> None:
        self.file, self.header, self.options = file, header, options
        found, self.known = headings.columns(file, header, options)
        self.columns = {column.quantity: column for column in found}
        self.filters = [
            (headings.place(file, header, name), value.strip())
            for name, value in options.where.items()
        ]
        self.times = array("d")
        self.values = {name: array("d") for name in self.columns if name != "time"}
        """Of each row: its value; NaN where it has none, infinite where the packet was lost."""
        self._choose()

    def _choose(self) -> None:
        """Leaves out what the user does not take, and says what is missing."""
        take = self.options.takes
        measured = {
            "rate": {"rate", "rate_back"} & set(self.columns),
            "delay": {"rtt", "delay", "delay_back"} & set(self.columns),
            "loss": {"loss", "lost", "sequence"} & set(self.columns),
        }
        if "rtt" in self.columns and not self.known:
            measured["loss"].add("rtt")  # an empty cell
        if self.known is not None and self.known.has_minus_one:
            measured["loss"].add("rtt")
        lacking = [name for name in self.options.take if not measured[name]]
        if lacking or not any(measured[name] for name in measured if take(name)):
            wanted = " and ".join(lacking) or "rate, round trip, delay or loss"
            names = harmless(", ".join(self.header))[:120]
            raise AnabranchError(
                f"{self.file}: no column with a {wanted} and its unit among `{names}`; name it "
                "with --column, as in `--column rate=HEADING --rate-unit Mbit/s`"
            )
        if not self.options.takes("rate"):
            for name in measured["rate"]:
                del self.columns[name], self.values[name]
        if "time" not in self.columns and self.options.interval_s is None:
            raise AnabranchError(
                f"{self.file}: no column with times; name it with --column time=HEADING, or give "
                "the time between rows with --interval"
            )

    def trace(self, rows: table.Rows) -> Trace:
        """Reads the rows."""
        self._read(rows)
        if len(self.times) < 2:
            chosen = " that --where chooses" if self.filters else ""
            raise AnabranchError(f"{self.file}: a table needs two rows with values{chosen}")
        began = self.times[0]
        times = np.array(self.times) - began
        spacing = self.options.interval_s or typical_step(times) or 1.0
        length = float(times[-1]) + spacing
        check_length(str(self.file), length)
        notes: list[str] = []
        _note_gaps(times, spacing, notes)
        title = f"{counted(len(times), 'row')} over {length:.6g} s"
        if self.known is not None:
            title += f" of {self.known.name}"
            if self.known.forward:
                notes.append(f"forward is {self.known.forward}")
        found = Trace(title, length, Direction(), None, notes, spacing_s=spacing)
        found.began_s = began if began > _EARLIEST_S else None
        self._take_rates(found, times)
        self._take_delays(found, times)
        self._take_losses(found, times)
        if found.there == Direction() and found.back is None:
            raise AnabranchError(f"{self.file}: no row has a value of what is to be taken")
        if found.there.rate is not None and found.there.delay is not None:
            notes.append(
                "delays were measured beside other data, whose queue may be in them: a scenario's "
                "own load adds its queue; `--take rate` leaves them out"
            )
        return found

    def _read(self, rows: table.Rows) -> None:
        last_column = max(
            [column.index for column in self.columns.values()] + [at for at, _ in self.filters]
        )
        time = self.columns.get("time")
        others = [column for column in self.columns.values() if column.quantity != "time"]
        last = -math.inf
        for number, row in table.cells(rows, self.file, [*self.header], last_column):
            if any(not _equal(row[at], value) for at, value in self.filters):
                continue
            if time is None:
                at = len(self.times) * (self.options.interval_s or 1.0)
            else:
                text = row[time.index].strip()
                if text.lower() in table.NONE:
                    continue
                at = self._time(text, time, number)
            values = [self._value(row[column.index].strip(), column, number) for column in others]
            if all(math.isnan(value) for value in values):
                continue
            if at < last:
                raise _backwards(self.file, number, last, at)
            last = at
            self.times.append(at)
            for column, value in zip(others, values, strict=True):
                self.values[column.quantity].append(value)

    def _time(self, text: str, column: Column, line: int) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            found = _date(text)
        else:
            found = value * (column.unit if column.unit is not None else _magnitude(value))
        if found is None or not abs(found) <= 1e12:
            said = harmless(text[:30])
            raise AnabranchError(
                f"{self.file}, line {line}: `{said}` is not a time: a number, "
                "2024-01-20 10:00:00 or 2024.01.20_10.00.00"
            )
        return found

    def _value(self, text: str, column: Column, line: int) -> float:
        word = text.lower()
        if word in table.NONE:
            is_ping = column.quantity == "rtt" and (self.known is None or word in _UNANSWERED)
            return math.inf if is_ping else math.nan
        unit = 1.0 if column.unit is None else column.unit
        what = f"{self.file}, line {line}: `{column.heading[:40]}`"
        if column.quantity in ("rtt", "delay", "delay_back"):
            if self.known is not None and self.known.has_minus_one and _is_value(word):
                value = float(word)
                if value in (-1, 0):
                    return math.inf if value else math.nan
                if column.quantity != "rtt" and -MOST_SECONDS <= value * unit < 0:
                    return value * unit  # of two clocks that disagree
            return (amount(text, what, MOST_SECONDS / unit) or 0.0) * unit
        if column.quantity == "loss":
            return (amount(text, what, 1.0 / unit) or 0.0) * unit
        most = MOST_BIT_PER_S / unit if column.quantity.startswith("rate") else 1e15
        return (amount(text, what, most) or 0.0) * unit

    def _samples(self, name: str, times: Vector) -> tuple[Vector, Vector] | None:
        """The times and values of a quantity where it has some."""
        if name not in self.values:
            return None
        values = np.array(self.values[name])
        use = np.isfinite(values)
        return (times[use], values[use]) if use.any() else None

    def _take_rates(self, found: Trace, times: Vector) -> None:
        for name in ("rate", "rate_back"):
            samples = self._samples(name, times)
            if samples is None:
                continue
            if not samples[1].any():
                raise AnabranchError(f"{self.file}: every rate is 0, so that nothing could be sent")
            window = window_of(len(samples[0]), found.length_s, self.options.window_s, found.notes)
            series = steps(*samples, window)
            if name == "rate":
                found.there.rate = series
            else:
                found.back = found.back or Direction()
                found.back.rate = series

    def _take_delays(self, found: Trace, times: Vector) -> None:
        wanted = self.options.takes("delay")
        trips = self._samples("rtt", times)
        there, back = self._samples("delay", times), self._samples("delay_back", times)

        def series(samples: tuple[Vector, Vector]) -> Series:
            window = window_of(len(samples[0]), found.length_s, self.options.window_s, found.notes)
            return steps(*samples, window)

        if trips is not None:
            found.mean_rtt_s = mean_of(trips[1])
        if not wanted:
            return
        agree = all(way is None or way[1].min() >= 0 for way in (there, back))
        if not agree:
            found.notes.append(
                "the clocks of both ends disagree, so the one-way delays are not used"
            )
        if there is not None and agree and (back is not None or trips is None):
            found.there.delay = series(there)
            if back is not None:
                found.back = found.back or Direction()
                found.back.delay = series(back)
        elif trips is not None:
            found.there.delay = halves(series(trips))
            found.notes.append("each way has half of the round trip")

    def _take_losses(self, found: Trace, times: Vector) -> None:
        if not self.options.takes("loss"):
            return
        shares = self._shares(times)
        if shares is not None:
            at, values, weights = shares
            found.mean_loss = float(np.average(values, weights=weights))
            series = steps(at, values, self.options.window_s, weights)
            self._share_losses(found, series, "of its row", is_of_round_trip="rtt" in self.columns)
            return
        trips = self._all("rtt", times)
        if "rtt" not in self.values or np.isnan(trips).all():
            return
        window = self._loss_window(found)
        up, down = (np.isinf(self._all(name, times)) for name in ("rtt", "delay_back"))
        up |= np.isinf(self._all("delay", times))
        if self.known is not None and self.known.has_minus_one:
            found.mean_loss = float((up | down).mean())
            if up.any():
                found.there.loss = steps(times, up.astype(float), window)
            if found.back is None and (up.any() or down.any()):
                # Both ways have half of the round trip.
                found.back = Direction(delay=found.there.delay)
            if found.back is not None and down.any():
                found.back.loss = steps(times[~up], down[~up].astype(float), window)
            found.notes.append(
                f"losses are shares over {window:g} s, of each way by itself; those of which the "
                "set does not say it were on the way there"
            )
            return
        at, lost = self._with_missing(times[~np.isnan(trips)], up[~np.isnan(trips)])
        if not lost.any() and "sequence" not in self.values:
            return  # what was not answered may have no row
        found.mean_loss = float(lost.mean())
        series = steps(at, lost.astype(float), window)
        self._share_losses(found, series, f"over {window:g} s", is_of_round_trip=True)

    def _all(self, name: str, times: Vector) -> Vector:
        return np.array(self.values.get(name, np.full(len(times), np.nan)))

    def _loss_window(self, found: Trace) -> float:
        spacing = found.spacing_s or 1.0
        window = self.options.window_s or max(_LOSS_WINDOW_S, _LOSS_WINDOW_PACKETS * spacing)
        window = max(window, window_of(len(self.times), found.length_s, None, []) or 0.0)
        window_of(len(self.times), found.length_s, window, found.notes)
        return window

    def _shares(self, times: Vector) -> tuple[Vector, Vector, Vector] | None:
        """The times of rows with a share of losses, the shares, and of how many packets."""
        if (samples := self._samples("loss", times)) is not None:
            return *samples, np.ones(len(samples[0]))
        lost, arrived = self._all("lost", times), self._all("arrived", times)
        use = np.isfinite(lost) & np.isfinite(arrived) & (lost + arrived > 0)
        if not use.any():
            return None
        sent = lost[use] + arrived[use]
        return times[use], lost[use] / sent, sent

    def _with_missing(self, times: Vector, lost: Flags) -> tuple[Vector, Flags]:
        """The packets, those among them that have no row because nothing answered them."""
        if "sequence" not in self.values:
            return times, lost
        numbers = self._all("sequence", times)
        numbers = numbers[~np.isnan(self._all("rtt", times))]
        further = np.diff(numbers) - 1
        missing = np.where((further > 0) & (further <= _MOST_MISSING), further, 0).astype(np.int64)
        if len(lost) + int(missing.sum()) > table.MOST_ROWS:
            raise AnabranchError(f"{self.file}: more than {table.MOST_ROWS:,} pings are missing")
        before = np.repeat(np.arange(len(missing)), missing)
        nth = np.arange(len(before)) - np.repeat(np.cumsum(missing) - missing, missing) + 1
        gaps = np.diff(times)
        at = times[before] + gaps[before] * nth / (missing[before] + 1)
        every = np.concatenate([times, at])
        order = np.argsort(every, kind="stable")
        both = np.concatenate([lost, np.ones(len(at), dtype=bool)])
        return every[order], both[order]

    def _share_losses(
        self, found: Trace, series: Series, over: str, *, is_of_round_trip: bool
    ) -> None:
        if not series.values.any():
            return
        if is_of_round_trip:
            found.there.loss = one_way(series)
            found.notes.append(
                f"losses are shares {over}; each way has those that together make the loss of the "
                "round trip"
            )
            return
        found.there.loss = series
        found.back = found.back or Direction()
        found.notes.append(
            f"losses are shares {over}, on the way there; the way back loses nothing"
        )


def _equal(text: str, wanted: str) -> bool:
    text = text.strip()
    if text == wanted:
        return True
    try:
        return float(text) == float(wanted)
    except ValueError:
        return False
