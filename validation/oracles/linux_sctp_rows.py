"""The kernel's rows of `linux_sctp`: set-ups, settings and numbers, with ours beside them."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal

from anabranch._engine import Scenario
from anabranch.studies.result import load

Verdict = Literal["within", "in_range", "outside"]

BLACKOUT_S = 5.0

RETURN_S = 60.0

TOLERANCE = 0.10

SETTINGS = ("pmr", "pf", "rto_initial_ms", "rto_min_ms", "rto_max_ms")

KEY = ("setup", *SETTINGS)
"""The columns that identify a row of the kernel's files."""


@dataclass(frozen=True)
class Quantity:
    """A column of the kernel's file, and where our value is found."""

    scalar: str | None = None
    """Our scalar; if there is none, the value comes from a trace (`_traced`)."""
    origin: float = BLACKOUT_S
    """The time from which it counts, in seconds."""
    is_random: bool = False
    """Whether the random times of heartbeats decide it if unanswered heartbeats count as errors."""


@dataclass(frozen=True)
class Setup:
    """What happened to the paths, and what was measured."""

    file: str
    """The file with the kernel's numbers."""
    text: str
    """The set-up in a few words."""
    quantities: dict[str, Quantity]
    tested: str | None = None
    """The quantity whose random times are tested against our distribution."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings that differ from `linux_sctp_failover.toml`."""
    observed_s: float = math.inf
    """A lower bound of the length of the kernel's run, in seconds."""
    runs_per_trace: int = 1
    """Only one of this many replications is run, as traces take time."""

    @property
    def is_traced(self) -> bool:
        """Whether some of our values come from traces."""
        return any(quantity.scalar is None for quantity in self.quantities.values())


def _path(path: int, scalar: str, *, is_random: bool = False) -> Quantity:
    return Quantity(f"call.sctp.a.path{path}.{scalar}", is_random=is_random)


_GAP = Quantity("call.longest_gap_ms", origin=0.0)

_STALLED = Quantity("call.stalled_s", origin=0.0)

SETUPS: dict[str, Setup] = {
    "black": Setup(
        file="linux_sctp_failover.csv",
        text="path 1 turns black at 5 s",
        quantities={
            "gap_ms": _GAP,
            "stalled_s": _STALLED,
            "first_pf_s": _path(0, "first_pf_s"),
            "first_unreachable_s": _path(0, "first_inactive_s", is_random=True),
        },
        tested="first_unreachable_s",
        # The time of the latest event in the kernel's file.
        observed_s=89.511523,
    ),
    "all_black": Setup(
        file="linux_sctp_all_black.csv",
        text="both paths turn black at 5 s",
        quantities={
            "first_pf_s": _path(0, "first_pf_s"),
            "p2_first_pf_s": _path(1, "first_pf_s"),
            "first_unreachable_s": _path(0, "first_inactive_s", is_random=True),
            "p2_first_unreachable_s": _path(1, "first_inactive_s", is_random=True),
            "first_hb_p1_s": Quantity(is_random=True),
            "first_hb_p2_s": Quantity(is_random=True),
            "comm_lost_s": Quantity(is_random=True),
        },
        tested="comm_lost_s",
        settings={
            "run.duration": "202 s",
            "flows.call.app.duration": "200 s",
            "links.second.up": '{ timetable = [["0 s", true], ["5 s", false]] }',
            "links.second.down": "blackhole",
        },
        runs_per_trace=5,
    ),
    "return": Setup(
        file="linux_sctp_return.csv",
        text="path 1 is black from 5 to 60 s",
        quantities={
            "gap_ms": _GAP,
            "first_pf_s": _path(0, "first_pf_s"),
            "first_unreachable_s": _path(0, "first_inactive_s", is_random=True),
            "first_hb_p1_s": Quantity(is_random=True),
            "available_s": Quantity(origin=RETURN_S, is_random=True),
            "first_data_p1_s": Quantity(origin=RETURN_S, is_random=True),
        },
        tested="available_s",
        settings={
            "run.duration": "152 s",
            "flows.call.app.duration": "149 s",
            "links.first.up": '{ timetable = [["0 s", true], ["5 s", false], ["60 s", true]] }',
        },
        observed_s=150.0,
        runs_per_trace=5,
    ),
    "hb100": Setup(
        file="linux_sctp_hb100.csv",
        text="path 1 turns black at 5 s, heartbeats every 100 ms",
        quantities={
            "gap_ms": _GAP,
            "stalled_s": _STALLED,
            "first_unreachable_s": _path(0, "first_inactive_s"),
        },
        settings={
            "run.duration": "62 s",
            "flows.call.app.duration": "59 s",
            "flows.call.transport.hb_interval": "100 ms",
            # The message of 5.000 s still arrives: `resume_s - gap_ms` is 5.0201 s where the first
            # gap is the longest.
            "links.first.up": '{ timetable = [["0 s", true], ["5.001 s", false]] }',
        },
        observed_s=60.0,
    ),
}
"""Name -> set-up."""


@dataclass(frozen=True)
class Value:
    """One of the kernel's numbers beside ours; NaN means that it never happens."""

    kernel: float
    mean: float
    low: float
    high: float
    happens: float
    """The share of our replications in which it happens."""
    below: float
    """The share of these that are below the kernel's number."""
    origin: float
    observed_s: float = math.inf
    """How long the kernel was observed at least, in seconds."""

    @property
    def deviation(self) -> float:
        """Our mean as a share of the kernel's number, less one; NaN where either never happens."""
        ours, theirs = self.mean - self.origin, self.kernel - self.origin
        if ours == theirs:
            return 0.0
        return math.inf if theirs == 0 else ours / theirs - 1

    @property
    def verdict(self) -> Verdict:
        """Whether our mean is within the tolerance, or else the kernel's within our range."""
        if math.isnan(self.kernel):
            never = self.happens < 1 or self.high > self.observed_s
            return "within" if self.happens == 0 else "in_range" if never else "outside"
        if abs(self.deviation) <= TOLERANCE:
            return "within"
        return "in_range" if self.low <= self.kernel <= self.high else "outside"


@dataclass(frozen=True)
class Row:
    """All values of one setting."""

    key: dict[str, str]
    values: dict[str, Value]

    @property
    def setup(self) -> Setup:
        """The set-up that the row belongs to."""
        return SETUPS[self.key["setup"]]

    @property
    def name(self) -> str:
        """The setting in short: set-up, Path.Max.Retrans, PF threshold, the three RTOs in ms."""
        return ",".join(self.key.values())

    def cause(self, name: str) -> str:
        """The letter for the cause of a deviation above the tolerance; `?` if it is unknown."""
        value = self.values[name]
        if value.verdict == "within":
            return ""
        if self.setup.quantities[name].is_random and value.verdict == "in_range":
            return "b" if math.isnan(value.kernel) else "a"
        return "?"


def kernel_rows() -> list[dict[str, str]]:
    """The rows of the kernel's files, with the set-up and the times of the first heartbeats."""
    rows = []
    for name, setup in SETUPS.items():
        text = (files(__package__) / setup.file).read_text("utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            first = {
                f"first_{path}_s": (row[path].split() or ["-1"])[0]
                for path in ("hb_p1", "hb_p2")
                if path in row
            }
            rows.append({"setup": name, **row, **first})
    return rows


def scenario(row: Mapping[str, str]) -> Scenario:
    """The scenario of a set-up with one row's settings."""
    transport = "flows.call.transport"
    settings: dict[str, str | float | bool] = {
        **SETUPS[row["setup"]].settings,
        f"{transport}.path_max_retrans": int(row["pmr"]),
        f"{transport}.pf_max_retrans": "off" if row["pf"] == "off" else int(row["pf"]),
        f"{transport}.rto_initial": f"{row['rto_initial_ms']} ms",
        f"{transport}.rto_min": f"{row['rto_min_ms']} ms",
        f"{transport}.rto_max": f"{row['rto_max_ms']} ms",
    }
    text = (files(__package__) / "linux_sctp_failover.toml").read_text("utf-8")
    return load(text, settings)


def of_setup(rows: Sequence[Row], setup: str) -> list[Row]:
    """The rows of one set-up."""
    return [row for row in rows if row.key["setup"] == setup]


HEADS = {
    "gap_ms": "gap, ms",
    "stalled_s": "stalled, s",
    "first_pf_s": "PF, s",
    "first_unreachable_s": "down, s",
    "p2_first_pf_s": "path 2 PF, s",
    "p2_first_unreachable_s": "path 2 down, s",
    "first_hb_p1_s": "HB 1, s",
    "first_hb_p2_s": "HB 2, s",
    "comm_lost_s": "lost, s",
    "available_s": "up again, s",
    "first_data_p1_s": "data 1, s",
}
"""Quantity -> the heads of its columns."""
