"""What the columns of a table are, told by their headings: those of public sets, and usual ones."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.support.wording import harmless, some

from ..logs.table import RATE, SEQUENCE, TIME, TIMED_RTT
from .options import LOSS_UNITS, RATE_UNITS, TIME_UNITS, Options


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is read."""

    quantity: str
    index: int
    heading: str
    unit: float | None
    """In seconds, bit/s or shares; None where the values say it: of times and of counts."""


@dataclass(frozen=True, slots=True)
class Known:
    """A public set, or a program that many of them were measured with."""

    name: str
    needs: frozenset[str]
    """Headings in small letters."""
    columns: dict[str, tuple[str, float | None]]
    """Heading -> quantity and unit."""
    units: dict[str, float]
    """The units of further columns, which `--column` may choose."""
    forward: str = ""
    """Which way is forward, where the set says that."""
    has_minus_one: bool = False
    """Whether -1 stands for a packet that was lost, and 0 beside it for an unknown delay."""


KNOWN = (
    Known(
        "irtt's packets as LENS has them (CSV)",
        frozenset({"timestamp", "rtt", "uplink", "downlink"}),
        {
            "timestamp": ("time", None), "rtt": ("rtt", 1e-3),
            "uplink": ("delay", 1e-3), "downlink": ("delay_back", 1e-3),
        },
        {}, "the uplink", has_minus_one=True,
    ),
    Known(
        "Lumos5G's downloads",
        frozenset({"run_num", "seq_num", "throughput"}),
        {"seq_num": ("time", 1.0), "throughput": ("rate", 1e6)},
        {}, "the downlink",
    ),
    Known(
        "a log of G-NetTrack Pro, as the Irish 4G and 5G sets have it",
        frozenset({"timestamp", "dl_bitrate"}),
        {
            "timestamp": ("time", None), "dl_bitrate": ("rate", 1e3),
            "pingavg": ("rtt", 1e-3), "pingloss": ("loss", 1e-2),
        },
        {"ul_bitrate": 1e3, "pingmin": 1e-3, "pingmax": 1e-3}, "the downlink",
    ),
    Known(
        "tests of throughput of Measuring Broadband America",
        frozenset({"unit_id", "dtime", "bytes_sec"}),
        {"dtime": ("time", None), "bytes_sec": ("rate", 8.0)},
        {"bytes_sec_interval": 8.0}, "the way of the data",
    ),
    Known(
        "tests of latency of Measuring Broadband America",
        frozenset({"unit_id", "dtime", "rtt_avg"}),
        {
            "dtime": ("time", None), "rtt_avg": ("rtt", 1e-6),
            "successes": ("arrived", None), "failures": ("lost", None),
        },
        {"rtt_min": 1e-6, "rtt_max": 1e-6},
    ),
    Known(
        "pings of MONROE",
        frozenset({"timestamp", "sequencenumber", "rtt"}),
        {
            "timestamp": ("time", None), "sequencenumber": ("sequence", None),
            "rtt": ("rtt", 1e-3),
        },
        {},
    ),
)  # fmt: skip

_TIMES = ("datetime", "date_time", "date", "dtime", "unix_time", "elapsed", "elapsed_time")
_RATE = re.compile(r"rate|throughput|bandwidth|goodput|capacity")
_RTT = re.compile(r"^(?:rtt|ping|latency|round.?trip)(?!.*(?:loss|min|max|std|dev|count))")
_DELAY = re.compile(r"^(?:owd|one.?way|delay)")
_LOSS = re.compile(r"loss")
_UNITS = (
    (r"(?:gbps|gbit/s|gbits/sec|gbit_per_s)", "rate", 1e9),
    (r"(?:mbps|mbit/s|mbits/sec|mbit_per_s)", "rate", 1e6),
    (r"(?:kbps|kbit/s|kbits/sec|kbit_per_s)", "rate", 1e3),
    (r"(?:bps|bit/s|bits/sec|bit_per_s|bits_per_second)", "rate", 1.0),
    (r"(?:mb/s|mbyte/s)", "rate", 8e6),
    (r"(?:kb/s|kbyte/s)", "rate", 8e3),
    (r"(?:b/s|byte/s|bytes_sec|bytes_per_second)", "rate", 8.0),
    (r"(?:ms|msec|milliseconds)", "time", 1e-3),
    (r"(?:us|usec|microseconds)", "time", 1e-6),
    (r"(?:ns|nsec|nanoseconds)", "time", 1e-9),
    (r"(?:s|sec|seconds)", "time", 1.0),
    (r"(?:%|percent|pct)", "loss", 1e-2),
    (r"(?:ratio|share|fraction)", "loss", 1.0),
)
"""How headings end that say their units, in small letters."""


def _unit_in(heading: str, kind: str) -> float | None:
    """The unit that a heading ends with, in brackets or behind a line or a space."""
    for form, of, unit in _UNITS:
        if of == kind and re.search(rf"(?:^|[\s_.(\[]){form}[)\]]?$", heading):
            return unit
    return None


def _kind(quantity: str) -> str:
    if quantity.startswith("rate"):
        return "rate"
    return "loss" if quantity == "loss" else "time"


def columns(
    file: Path, header: Sequence[str], options: Options
) -> tuple[list[Column], Known | None]:
    """The columns that are read, and the set that the table is of."""
    names = [name.strip().lower() for name in header]
    known = next((each for each in KNOWN if each.needs <= set(names)), None)
    found: dict[str, Column] = {}
    for index, name in enumerate(names):
        quantity, unit = _of_heading(name, known, {*found}, options)
        if quantity is not None and quantity not in found:
            found[quantity] = Column(quantity, index, header[index].strip(), unit)
    for quantity, heading in options.columns.items():
        index = _index(file, heading, names)
        unit = _unit(file, quantity, names[index], known, options)
        found[quantity] = Column(quantity, index, header[index].strip(), unit)
    return list(found.values()), known


def _of_heading(
    name: str, known: Known | None, before: set[str], options: Options
) -> tuple[str | None, float | None]:
    """What a heading says, but nothing that other columns have said `before`."""
    quantity, unit = None, None
    if known is not None:
        quantity, unit = known.columns.get(name, (None, None))
    elif name in TIME or name in _TIMES:
        quantity, unit = "time", _unit_in(name, "time") if name not in ("t", "s") else None
    elif name in SEQUENCE:
        quantity = "sequence"
    elif name in TIMED_RTT:
        quantity, unit = "rtt", TIMED_RTT[name]
    elif name in RATE:
        quantity, unit = "rate", RATE[name]
    else:
        return _of_words(name, before, options)
    return quantity, _said(quantity, unit, options)


def _of_words(name: str, before: set[str], options: Options) -> tuple[str | None, float | None]:
    """What the words of a heading say; one without a unit only counts if a user says its unit."""
    for quantity, form in (("loss", _LOSS), ("rtt", _RTT), ("delay", _DELAY), ("rate", _RATE)):
        if quantity not in before and form.search(name):
            unit = _said(quantity, _unit_in(name, _kind(quantity)), options)
            return (quantity, unit) if unit is not None else (None, None)
    return None, None


def _said(quantity: str | None, unit: float | None, options: Options) -> float | None:
    """The unit that the user says, else that of the heading."""
    if quantity == "time":
        return unit if options.time_unit is None else TIME_UNITS[options.time_unit]
    if quantity in ("rate", "rate_back"):
        return unit if options.rate_unit is None else RATE_UNITS[options.rate_unit]
    if quantity in ("rtt", "delay", "delay_back"):
        return unit if options.delay_unit is None else TIME_UNITS[options.delay_unit]
    if quantity == "loss":
        return unit if options.loss_unit is None else LOSS_UNITS[options.loss_unit]
    return unit


def _unit(
    file: Path, quantity: str, name: str, known: Known | None, options: Options
) -> float | None:
    """The unit of a column that the user has chosen."""
    unit = None
    if known is not None:
        unit = known.units.get(name) or known.columns.get(name, (None, None))[1]
    unit = unit or {**RATE, **TIMED_RTT}.get(name) or _unit_in(name, _kind(quantity))
    unit = _said(quantity, unit, options)
    if unit is None and quantity not in ("time", "sequence", "arrived", "lost"):
        option = {"rate": "rate-unit", "loss": "loss-unit"}.get(_kind(quantity), "delay-unit")
        raise AnabranchError(
            f"{file}: the heading `{harmless(name)[:40]}` does not say its unit; give --{option}"
        )
    return unit


def _index(file: Path, heading: str, names: Sequence[str]) -> int:
    """The place of the column with this heading, or with this number from 1 on."""
    wanted = heading.strip().lower()
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal() and 1 <= int(wanted[:9]) <= len(names):
        return int(wanted) - 1
    raise AnabranchError(
        f"{file}: no column `{heading[:40]}`; there are {harmless(some(names, 12))[:300]}"
    )


def place(file: Path, header: Sequence[str], heading: str) -> int:
    """The place of a column that `--where` names."""
    return _index(file, heading, [name.strip().lower() for name in header])
