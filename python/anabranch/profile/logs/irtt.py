"""irtt: its JSON (`-o`), its lines of text and its raw lines (`-r`) (heistp/irtt, irtt-client(1)).

The server's time stamps give one-way delays as far as both clocks agree, and what it has received
says on which way a packet was lost.
"""

import math
import re
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_SECONDS, amount, at, head, items, lines, tree

from ..measurement import Delays, LossCounts, LossSequence, Measurement
from .rounds import Rounds, measurement

NAME = "irtt (JSON, text, `-r`)"

_LINE = re.compile(r"^seq=(\d{1,10}) rtt=(\S+)(?: rd=(\S+))?(?: sd=(\S+))?")
_RAW = re.compile(r"^\d{1,10}(?: (?:-?\d+\.\d+|NaN)){4} [01] (?:[01]|NaN)\s*$")
_SENT = re.compile(r"packets sent/received: (\d{1,10})/(\d{1,10})")
_SERVER = re.compile(r"server packets received: (\d{1,10})/(\d{1,10})")
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|µs|μs|us|ns)")
_DURATION = re.compile(rf"-?(?:{_PART.pattern})+|0")
_UNIT_S = {
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ns": 1e-9,
}


@dataclass(slots=True)
class _Seen:
    """What irtt has written of each packet."""

    rounds: Rounds
    there: "array[float]" = field(default_factory=lambda: array("d"))
    """One-way delays in seconds, as both clocks say, of the packets that came back."""
    back: "array[float]" = field(default_factory=lambda: array("d"))
    fates: dict[int, str] = field(default_factory=dict)
    """Of lost packets: `true_up`, `true_down`, or `true` where nobody knows."""
    sent: int | None = None
    server_received: int | None = None
    began_s: float | None = None

    def add(self, number: int, rtt: float, back: float | None, there: float | None) -> None:
        self.rounds.answer(number, rtt, 9)
        if there is not None and back is not None:
            self.there.append(there)
            self.back.append(back)


def recognises(text: str) -> bool:
    """Whether a text begins like one of irtt's forms."""
    if text.lstrip().startswith("{"):
        return '"irtt"' in text and '"json_format"' in text
    begin = [line for line in text.splitlines()[:-1] if line.strip()][:20]
    return any(_LINE.match(line) for line in begin) or (
        bool(begin) and all(_RAW.match(line) for line in begin)
    )


def read(file: Path) -> Measurement:
    """Reads any of the forms."""
    seen = _tree(file) if head(file).lstrip().startswith("{") else _text(file)
    return _measurement(file, seen)


def _tree(file: Path) -> _Seen:
    result = tree(file)
    seen = _Seen(Rounds(file))
    interval = amount(at(result, "config", "params", "interval"), f"{file}: `interval`", 1e14)
    seen.rounds.spacing_s = interval * 1e-9 if interval else None
    received = amount(
        at(result, "stats", "server_packets_received"), f"{file}: `server_packets_received`", 1e10
    )
    for index, trip in enumerate(items(at(result, "round_trips"))):
        where = f"{file}: of round trip {index}"
        number = int(amount(at(trip, "seqno"), f"{where} `seqno`", 1e10) or 0)
        lost = str(at(trip, "lost")).lower()
        rtt = amount(at(trip, "delay", "rtt"), f"{where} `rtt`", MOST_SECONDS * 1e9)
        if lost.startswith("true") or rtt is None:
            seen.rounds.lose(number)
            seen.fates[number] = lost
            continue
        one_way = [
            _signed(at(trip, "delay", way), f"{where} `{way}`") for way in ("receive", "send")
        ]
        seen.add(number, rtt * 1e-9, *one_way)
    wall = amount(at(result, "stats", "start_time", "wall"), f"{file}: `wall`", 1e19)
    seen.began_s = wall * 1e-9 if wall else None
    seen.sent = len(seen.rounds)
    # Zero also means that the server did not count.
    seen.server_received = int(received) if received else None
    return seen


def _signed(value: Any, what: str) -> float | None:
    """A delay in seconds by two clocks, which may be below 0."""
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    sign = -1.0 if value < 0 else 1.0
    return sign * (amount(abs(value), what, 1e19) or 0.0) * 1e-9


def _text(file: Path) -> _Seen:
    seen = _Seen(Rounds(file))
    for number, line in lines(file):
        where = f"{file}, line {number}"
        if match := _LINE.match(line):
            rtt = _duration(match[2])
            if rtt is None or not 0 <= rtt <= MOST_SECONDS:
                raise AnabranchError(f"{where}: `{match[2][:20]}` is not a round-trip time")
            one_way = (_duration(match[3] or ""), _duration(match[4] or ""))
            seen.add(int(match[1]), rtt, *one_way)
        elif _RAW.match(line):
            words = line.split()
            if words[1] == "NaN":
                continue  # a duplicate
            rtt = amount(words[1], f"{where}: the round-trip time", MOST_SECONDS * 1e3) or 0.0
            delays = [float(word) * 1e-3 for word in words[2:4]]
            known = all(math.isfinite(delay) for delay in delays)
            seen.add(int(words[0]), rtt * 1e-3, *(delays if known else (None, None)))
        elif match := _SERVER.search(line):
            seen.server_received = int(match[1])
        elif match := _SENT.search(line):
            seen.sent = int(match[1])
    if seen.rounds.answered:
        seen.rounds.ask(0)
        if seen.sent:
            seen.rounds.ask(seen.sent - 1)
    return seen


def _duration(text: str) -> float | None:
    """Go's way to write a duration, in seconds."""
    if not _DURATION.fullmatch(text[:60]):
        return None
    total = sum(float(value) * _UNIT_S[unit] for value, unit in _PART.findall(text))
    return -total if text.startswith("-") else total


def _measurement(file: Path, seen: _Seen) -> Measurement:
    whole = measurement(
        file, [seen.rounds], what="round-trip times of irtt's packets", unit="packet"
    )
    notes: list[str] = []
    delays, back = whole.delays, None
    there_s, back_s = np.array(seen.there), np.array(seen.back)
    if len(there_s) and len(there_s) == seen.rounds.answered:
        if min(there_s.min(), back_s.min()) < 0 or max(there_s.max(), back_s.max()) > MOST_SECONDS:
            notes.append(
                "the clocks of both ends disagree by more than a packet takes, so that the one-way "
                "delays are not used: each way is taken to have half of the round trip"
            )
        else:
            notes.append(
                "the one-way delays are as true as both clocks agree: what one clock is ahead, one "
                "way is longer by and the other shorter; their sum is sure"
            )
            delays = Delays(there_s, legs=1, what="one-way delays, as both clocks say")
            back = Delays(back_s, legs=1, what="one-way delays of the way back, as both clocks say")
    losses, lost_back = _losses(seen, whole, notes)
    way_back = None
    if back is not None or lost_back is not None:
        way_back = Measurement("the way back", delays=back, losses=lost_back)
    return Measurement(
        whole.title, delays=delays, losses=losses, back=way_back, notes=notes,
        began_s=seen.began_s,
    )  # fmt: skip


def _losses(
    seen: _Seen, whole: Measurement, notes: list[str]
) -> tuple[LossSequence | LossCounts | None, LossSequence | LossCounts | None]:
    """The losses of either way, as far as the server's word goes."""
    assert isinstance(whole.losses, LossSequence)
    lost = whole.losses.lost
    spacing = whole.losses.spacing_s
    first = seen.rounds.first or 0
    up, down = np.zeros(len(lost), dtype=bool), np.zeros(len(lost), dtype=bool)
    for number, fate in seen.fates.items():
        if fate in ("true_up", "true_down"):
            (up if fate == "true_up" else down)[number - first] = True
    unknown = int((lost & ~up & ~down).sum())
    arrived = len(lost) - int(lost.sum())
    what, what_back = (
        "packets that the server did not receive",
        "packets of the server's that did not come back",
    )
    if unknown and seen.server_received is not None:
        # The server's count says how many were lost on each way, perhaps of which kind all are.
        on_way_back = max(seen.server_received - arrived, 0)
        on_way = max(len(lost) - arrived - on_way_back, 0)
        if not on_way_back:
            up |= lost & ~down
        elif not on_way:
            down |= lost & ~up
        else:
            notes.append(
                "how many packets were lost on each way is known, but not which: bursts of losses "
                "are not"
            )
            sent = float(len(lost))
            return (
                LossCounts(np.array([float(on_way)]), np.array([sent]), what),
                LossCounts(
                    np.array([float(on_way_back)]), np.array([max(sent - on_way, 1.0)]), what_back
                ),
            )
    elif unknown:
        if not up.any() and not down.any():
            return whole.losses, None
        notes.append(
            f"of {unknown} of {int(lost.sum())} lost packets the server does not say on which way; "
            "they are taken to be lost on the way there"
        )
        up |= lost & ~down
    elif not lost.any() and seen.server_received is None and not seen.fates:
        return LossSequence(lost, what, spacing_s=spacing), LossSequence(
            lost, what_back, spacing_s=spacing
        )
    reached = ~up
    return (
        LossSequence(up, what, spacing_s=spacing),
        LossSequence(down[reached], what_back, spacing_s=spacing) if reached.any() else None,
    )
