"""Traces of tables: times, and rates, delays or losses beside them.

`headings.py` says what the columns are; tables that need none are in `unheaded.py`.
"""

import itertools
import math
from array import array
from collections.abc import Sequence
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
    constant,
    halves,
    loss_window,
    mean_of,
    one_way,
    steps,
    typical_step,
    window_of,
    without_gaps,
)
from .times import backwards, date, magnitude, note_gaps

_UNANSWERED = ("*", "lost", "timeout")
_MOST_MISSING = 10_000
"""The most pings in a row whose numbers are missing; more are another run."""
_EARLIEST_S = 1e8
"""Later times, in seconds, are those since 1970."""


def trace(file: Path, options: Options) -> Trace:
    """Reads a table."""
    rows = table.rows(file)
    number, first = next(rows)
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
        return text.lower() in table.NONE or date(text) is not None
    return True


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
        note_gaps(times, spacing, notes)
        title = f"{counted(len(times), 'row')} over {length:.6g} s"
        if self.known is not None:
            title += f" of {self.known.name}"
            if self.known.forward:
                notes.append(f"forward is {self.known.forward}")
        found = Trace(title, length, Direction(), None, notes, spacing_s=spacing)
        found.began_s = began if began > _EARLIEST_S else None
        self._take_rates(found, times)
        if found.there.rate is not None and not self.options.take:
            self._take_least(found, times)
        else:
            self._take_delays(found, times)
            self._take_losses(found, times)
        if found.there == Direction() and found.back is None:
            raise AnabranchError(f"{self.file}: no row has a value of what is to be taken")
        if found.there.rate is not None and "delay" in self.options.take:
            notes.append(
                "delays were measured beside the data, with its queue in them: a scenario's own "
                "data adds its queue"
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
                raise backwards(self.file, number, last, at)
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
            found = date(text)
        else:
            found = value * (column.unit if column.unit is not None else magnitude(value))
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

    def _steps(
        self, samples: tuple[Vector, Vector], found: Trace, *, is_probed: bool = True
    ) -> Series:
        times, values = samples
        window = window_of(len(times), found.length_s, self.options.window_s, found.notes)
        every = without_gaps(times, values, found.length_s, is_probed=is_probed)
        return steps(*every, window)

    def _take_rates(self, found: Trace, times: Vector) -> None:
        for name in ("rate", "rate_back"):
            samples = self._samples(name, times)
            if samples is None:
                continue
            if not samples[1].any():
                raise AnabranchError(f"{self.file}: every rate is 0, so that nothing could be sent")
            series = self._steps(samples, found, is_probed=False)
            if name == "rate":
                found.there.rate = series
            else:
                found.back = found.back or Direction()
                found.back.rate = series

    def _take_least(self, found: Trace, times: Vector) -> None:
        """Beside rates: the least delay, without the queue of the data that was measured."""
        trips = self._samples("rtt", times)
        there, back = self._samples("delay", times), self._samples("delay_back", times)
        if trips is not None:
            found.mean_rtt_s = mean_of(trips[1])
            found.there.delay = constant(float(trips[1].min()) / 2)
        elif there is not None:
            found.there.delay = constant(float(there[1].min()))
            if back is not None:
                found.back = found.back or Direction()
                found.back.delay = constant(float(back[1].min()))
        if found.there.delay is not None:
            half = ", halved" if trips is not None else ""
            found.notes.append(
                "delays were measured beside the data, with its queue in them: the link's delay is "
                f"the least of them{half}; `--take delay loss` has them over time, without rates"
            )
        if (shares := self._shares(times)) is not None:
            found.mean_loss = float(np.average(shares[1], weights=shares[2]))
            found.notes.append(
                "losses are left out, since a full queue of the path may have made them; "
                "`--take delay loss` has them"
            )

    def _take_delays(self, found: Trace, times: Vector) -> None:
        wanted = self.options.takes("delay")
        trips = self._samples("rtt", times)
        there, back = self._samples("delay", times), self._samples("delay_back", times)

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
            found.there.delay = self._steps(there, found)
            if back is not None:
                found.back = found.back or Direction()
                found.back.delay = self._steps(back, found)
        elif trips is not None:
            found.there.delay = halves(self._steps(trips, found))
            found.notes.append("each way has half of the round trip")

    def _take_losses(self, found: Trace, times: Vector) -> None:
        if not self.options.takes("loss"):
            return
        shares = self._shares(times)
        if shares is not None:
            at, values, weights = shares
            found.mean_loss = float(np.average(values, weights=weights))
            window = window_of(len(at), found.length_s, self.options.window_s, found.notes)
            series = steps(
                *without_gaps(at, values, found.length_s, weights, is_probed=True), window
            )
            self._share_losses(found, series, "of its row", is_of_round_trip="rtt" in self.columns)
            return
        trips = self._all("rtt", times)
        if "rtt" not in self.values or np.isnan(trips).all():
            return
        window = loss_window(len(times), found, self.options.window_s)
        up, down = (np.isinf(self._all(name, times)) for name in ("rtt", "delay_back"))
        up |= np.isinf(self._all("delay", times))
        if self.known is not None and self.known.has_minus_one:
            found.mean_loss = float((up | down).mean())
            if up.any():
                found.there.loss = steps(times, up.astype(float), window_s=window)
            if found.back is None and (up.any() or down.any()):
                # Both ways have half of the round trip.
                found.back = Direction(delay=found.there.delay)
            if found.back is not None and down.any():
                found.back.loss = steps(times[~up], down[~up].astype(float), window_s=window)
            found.notes.append(
                f"losses are shares over {window:g} s, of each way by itself; those of which the "
                "set does not say it were on the way there"
            )
            return
        at, lost = self._with_missing(times[~np.isnan(trips)], up[~np.isnan(trips)])
        if not lost.any() and "sequence" not in self.values:
            return  # what was not answered may have no row
        found.mean_loss = float(lost.mean())
        series = steps(at, lost.astype(float), window_s=window)
        self._share_losses(found, series, f"over {window:g} s", is_of_round_trip=True)

    def _all(self, name: str, times: Vector) -> Vector:
        return np.array(self.values.get(name, np.full(len(times), np.nan)))

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
