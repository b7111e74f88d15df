"""Logs of Mahimahi's `mm-link --uplink-log` or `--downlink-log` (frontend/link_queue.cc).

A line is a time in ms and `#` (1500 bytes could be sent), `+` (a packet came), `-` (it left, with
its time in the queue in ms) or `d` (the queue dropped packets).
"""

import re
from array import array
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import lines

from ..measurement import Delays, Measurement, Rates
from .mahimahi import OCTETS

NAME = "a log of mm-link"

MOST_LINES = 20_000_000
"""The most departures that are read."""
_LONGEST_S = 1_000_000
"""The longest log, in seconds."""

_LINE = re.compile(r"^(\d{1,16}) ([#+d-]) (\d{1,9})(?: (\d{1,9}))?\s*$")
_HEAD = re.compile(r"^# mahimahi mm-link \(([^)]*)\) \[(.*?)\]")


def recognises(head: str) -> bool:
    """Whether a text begins like such a log."""
    begin = [line for line in head.splitlines() if line.strip()][:20]
    events = [line for line in begin[:-1] or begin if not line.startswith("#")]
    return any(_HEAD.match(line) for line in begin) or (
        bool(events) and all(_LINE.match(line) for line in events)
    )


def read(file: Path) -> Measurement:  # noqa: PLR0912 - an event each
    """Reads the link's rate, by the second, and the delays in its queue."""
    trace, came, dropped = None, 0, 0
    start: int | None = None
    chances: list[int] = []
    waits, left = array("d"), array("d")
    for number, line in lines(file):
        if match := _HEAD.match(line):
            trace = match[2]
        if line.startswith("#") or not line.strip():
            continue
        event = _LINE.match(line)
        if event is None:
            raise AnabranchError(
                f"{file}, line {number}: `{line.strip()[:40]}` is no event of mm-link"
            )
        at = int(event[1])
        start = at if start is None else start
        second = max(at - start, 0) // 1000
        if second >= _LONGEST_S:
            raise AnabranchError(
                f"{file}, line {number}: {second} s after the first line; allowed are "
                f"{_LONGEST_S:,}"
            )
        if event[2] == "#":
            chances.extend([0] * (second + 1 - len(chances)))
            chances[second] += 1
        elif event[2] == "+":
            came += 1
        elif event[2] == "d":
            dropped += int(event[3])
        elif event[4] is not None:
            if len(waits) >= MOST_LINES:
                raise AnabranchError(f"{file}: more than {MOST_LINES:,} departures")
            waits.append(int(event[4]) / 1e3)
            left.append((at - start) / 1e3)
    # The last second is not whole.
    whole = np.array(chances[:-1] if len(chances) > 1 else chances, dtype=float)
    if not whole.sum():
        raise AnabranchError(f"{file}: mm-link sent nothing, so there is nothing to estimate")
    notes = [
        "a log of mm-link has the rate and the queue of its link, not the delay of mm-delay nor "
        "the losses of mm-loss"
    ]
    if trace is not None:
        notes.append(f"the rate over time is in its trace, {trace[:200]}; profile that to have it")
    if dropped:
        notes.append(
            f"the queue dropped {dropped} of {came} packets; those are no losses of the link"
        )
    return Measurement(
        title=f"mm-link's log of {len(chances)} s with {came} packets",
        delays=Delays(
            np.array(waits), legs=1, what="delays in the queue", absolute=False,
            resolution_s=1e-3, times_s=np.array(left),
        ) if len(waits) else None,
        rates=Rates(
            whole * OCTETS * 8,
            "opportunities to send, mean over the log",
            is_bound=False,
            is_mean=True,
            times_s=np.arange(len(whole), dtype=float),
        ),
        notes=notes,
    )  # fmt: skip
