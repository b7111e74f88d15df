"""`ss -ti`, once or often: what Linux knows of its TCP connections (iproute2, misc/ss.c).

Measured is the connection that has sent most. Times are TCP's smoothed round trips and its least
one, rates those at which data was delivered, losses what was retransmitted.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_BIT_PER_S, MOST_SECONDS, amount, lines

from ..measurement import LossCounts, Measurement, Rates
from . import transfer

NAME = "logs of `ss -ti`"

_PAIR = re.compile(r"(?:^|\s)(\S+:[\w*-]+)\s+(\S+:[\w*-]+)(?:\s|$)")
_STATE = re.compile(
    r"^(?:tcp\s+)?(?:ESTAB|CLOSE-WAIT|FIN-WAIT-[12]|LAST-ACK|CLOSING|SYN-\S+|TIME-WAIT)\s+\d+\s+\d+\s"
)
_VALUE = re.compile(
    r"\b(rtt|mss|minrtt|data_segs_out|segs_out|bytes_sent|bytes_acked|retrans):([\d.]+)(?:/([\d.]+))?"
)
_DELIVERY = re.compile(r"\bdelivery_rate ([\d.]+)([KMGT]?)bps")
_INFO = re.compile(r"\brtt:[\d.]+/[\d.]+.*\bmss:\d+|\bmss:\d+.*\brtt:[\d.]+/[\d.]+")
_FACTOR = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_MOST_CONNECTIONS = 10_000
_MOST_SAMPLES = 10_000_000


@dataclass(slots=True)
class _Connection:
    name: str
    octets: float = 0.0
    mss: float = 1448.0
    sent: float = 0.0
    again: float = 0.0
    least_ms: float | None = None
    round_trips_ms: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)


def recognises(head: str) -> bool:
    """Whether a text begins like the output of `ss -ti`."""
    begin = [line for line in head.splitlines() if line.strip()][:40]
    return any(_INFO.search(line) for line in begin) and any(
        _STATE.match(line) or line.startswith("State ") for line in begin
    )


def read(file: Path) -> Measurement:
    """Reads one or many outputs in one file."""
    connections: dict[str, _Connection] = {}
    current: _Connection | None = None
    left_out, samples = 0, 0
    for number, line in lines(file):
        if _STATE.match(line) and (pair := _PAIR.search(line)):
            name = f"{pair[1]} to {pair[2]}"
            if name not in connections and len(connections) >= _MOST_CONNECTIONS:
                current, left_out = None, left_out + 1
            else:
                current = connections.setdefault(name, _Connection(name))
        if current is not None and _INFO.search(line):
            samples += 1
            if samples > _MOST_SAMPLES:
                raise AnabranchError(f"{file}: more than {_MOST_SAMPLES:,} samples")
            _take(current, line, f"{file}, line {number}")
    if not any(each.round_trips_ms for each in connections.values()):
        raise AnabranchError(f"{file}: no connection with a round-trip time; `ss -ti` has them")
    chosen = max(connections.values(), key=lambda each: (each.octets, len(each.round_trips_ms)))
    notes = []
    if len(connections) > 1:
        notes.append(
            f"of {len(connections)} connections that from {chosen.name} is measured, which sent "
            "most"
        )
    if left_out:
        notes.append(
            f"{left_out} more lines are of connections beyond the first {_MOST_CONNECTIONS:,}"
        )
    return _measurement(chosen, notes)


def _take(connection: _Connection, line: str, where: str) -> None:
    is_limited = " app_limited" in line
    for key, value, second in _VALUE.findall(line):
        number = amount(value, f"{where}: `{key}`", 1e18) or 0.0
        if key == "rtt" and 0 < number <= MOST_SECONDS * 1e3:
            connection.round_trips_ms.append(number)
        elif key == "minrtt" and 0 < number <= MOST_SECONDS * 1e3:
            connection.least_ms = min(number, connection.least_ms or number)
        elif key == "mss" and number > 0:
            connection.mss = min(number, 65_535)
        elif key in ("bytes_sent", "bytes_acked"):
            connection.octets = max(connection.octets, number)
        elif key == "data_segs_out":
            connection.sent = max(connection.sent, number)
        elif key == "retrans":
            total = amount(second or "0", f"{where}: `retrans`", 1e18) or 0.0
            connection.again = max(connection.again, total)
    if (match := _DELIVERY.search(line)) and not is_limited:
        rate = amount(match[1], f"{where}: `delivery_rate`", 1e15) or 0.0
        rate *= _FACTOR[match[2]]
        if 0 < rate <= MOST_BIT_PER_S:
            connection.rates.append(rate)


def _measurement(chosen: _Connection, notes: list[str]) -> Measurement:
    round_trips = [value * 1e-3 for value in chosen.round_trips_ms]
    least = min([*round_trips, *([chosen.least_ms * 1e-3] if chosen.least_ms else [])])
    packet = transfer.packet_octets(chosen.mss, is_ipv6=chosen.name.startswith("["))
    rates = None
    if chosen.rates:
        scaled = np.array(chosen.rates) * packet / chosen.mss
        full = transfer.is_full(round_trips, least, packet * 8 / float(np.median(scaled)))
        rates = Rates(
            scaled, "data delivered with its headers, of samples that no application held back",
            is_bound=not full, packet_octets=packet,
        )  # fmt: skip
        if not full:
            notes.append(
                "the log does not show that a queue stood: the path has at least this rate"
            )
    losses = None
    if chosen.sent >= 1:
        losses = LossCounts(
            np.array([min(chosen.again, chosen.sent)]), np.array([chosen.sent]),
            "segments retransmitted", is_estimate=True,
        )  # fmt: skip
        notes.append("which segments were lost is not known: bursts of losses are not either")
    count = len(round_trips)
    return Measurement(
        f"{count} sample{'s' if count > 1 else ''} of a TCP connection by ss",
        delays=transfer.smoothed(round_trips, least),
        losses=losses,
        rates=rates,
        notes=notes,
    )
