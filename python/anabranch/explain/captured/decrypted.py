"""A connection of QUIC in a capture, as the qlogs that its ends could have written.

The engine has opened the packets (`anabranch.support.packets.Quic`). An end sends what is seen
first where it is, and receives what comes there; what it takes for lost follows from the
acknowledgements that come there (RFC 9002 section 6.1).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from anabranch.explain.qlogs import Event
from anabranch.studies.acknowledged import LossRule, Outcome, Runs, add_numbers
from anabranch.support.packets import Packets

from .flows import Flow

_LEVELS = ("initial", "0RTT", "handshake", "1RTT")
_SPACES = (0, 2, 1, 2)
"""The packet number space of each level."""

_EXPONENT = 3
"""`ack_delay_exponent` where nobody says another (RFC 9000 section 18.2)."""

_PACKETS, _ROUNDS = 3, 1.125
"""The thresholds that RFC 9002 recommends."""


@dataclass(frozen=True, slots=True)
class _Packet:
    """A packet at one end."""

    at_s: float
    is_sent: bool
    row: int
    """In the table `quic`."""


def events(flow: Flow) -> Iterator[Event]:
    """The events of both ends, one end after the other; none where no packet could be opened."""
    for side, name in enumerate(("client", "server")):
        packets = sorted(_packets(flow, side), key=lambda one: one.at_s)
        if packets:
            yield from _End(flow, name, packets).events()


def _packets(flow: Flow, side: int) -> Iterator[_Packet]:
    """What an end sent and what came to it."""
    for way in flow.directions(side):
        for at_s, row in zip(way.sent.sent_s.tolist(), way.sent.row.tolist(), strict=True):
            yield from _opened(way.packets, at_s, row, is_sent=True)
    places = flow.places(side)
    for way in flow.directions(1 - side):
        for at_s, row in zip(way.sent.at(places).tolist(), way.sent.row.tolist(), strict=True):
            if not np.isnan(at_s):
                yield from _opened(way.packets, at_s, row, is_sent=False)


def _opened(packets: Packets, at_s: float, row: int, *, is_sent: bool) -> Iterator[_Packet]:
    first, end = np.searchsorted(packets.quic.packet, [row, row + 1])
    for quic in range(int(first), int(end)):
        yield _Packet(at_s, is_sent, quic)


class _End:
    """One end of a connection."""

    def __init__(self, flow: Flow, name: str, packets: list[_Packet]) -> None:
        self._name, self._side, self._all = flow.name, name, packets
        self._table = flow.directions(0)[0].packets
        quic = self._table.quic
        rows = np.array([one.row for one in packets])
        self._level = dict(zip(rows.tolist(), quic.level[rows].tolist(), strict=True))
        self._path = dict(zip(rows.tolist(), quic.path[rows].tolist(), strict=True))
        self._number = dict(zip(rows.tolist(), quic.number[rows].tolist(), strict=True))
        self._names = self._path_names(flow)

    def _path_names(self, flow: Flow) -> dict[int, str]:
        """The path of the capture over which the first packet of each path ID goes."""
        names: dict[int, tuple[float, str]] = {}
        for path in flow.paths:
            for way in path.ways:
                if way is None:
                    continue
                own = np.isin(self._table.quic.packet, way.sent.row)
                for number in np.unique(self._table.quic.path[own]).tolist():
                    began = (float(way.sent.sent_s[0]), path.name)
                    names[number] = min(names.get(number, began), began)
        return {number: name for number, (_, name) in names.items()}

    def _acks(self, row: int) -> dict[int, tuple[Runs, int]]:
        """Runs with the end behind them, in their order, and the delay, by path ID."""
        table = self._table.quic_acks
        first, end = np.searchsorted(table.quic, [row, row + 1])
        found: dict[int, tuple[Runs, int]] = {}
        for at in range(int(first), int(end)):
            runs, _ = found.setdefault(int(table.path[at]), ([], int(table.delay[at])))
            runs.insert(0, (int(table.first[at]), int(table.last[at]) + 1))
        return found

    def events(self) -> list[Event]:
        """All that this end could have written, in the order of time."""
        found = [
            (one.at_s, self._event(one.at_s, "packet_sent" if one.is_sent else "packet_received",
                                   one.row, self._data(one.row)))
            for one in self._all
        ]  # fmt: skip
        for path in sorted(set(self._path.values())):
            found += self._recovery(path)
        return [event for _, event in sorted(found, key=itemgetter(0))]

    def _event(self, at_s: float, name: str, row: int, data: dict[str, Any]) -> Event:
        path = self._names.get(self._path[row], str(self._path[row]))
        return Event(self._name, at_s, "quic", name, data, self._name, self._side, path, 1.0)

    def _data(self, row: int) -> dict[str, Any]:
        quic, data = self._table.quic, self._table.quic_data
        frames: list[dict[str, Any]] = [
            {"frame_type": "ack", "path_id": self._names.get(path, str(path)),
             "acked_ranges": [[start, end - 1] for start, end in runs]}
            for path, (runs, _) in self._acks(row).items()
        ]  # fmt: skip
        first, end = np.searchsorted(data.quic, [row, row + 1])
        for at in range(int(first), int(end)):
            stream, start = int(data.stream[at]), int(data.start[at])
            kind = {"frame_type": "datagram"}
            if stream >= 0:
                kind = {"frame_type": "stream", "stream_id": stream, "offset": start}  # type: ignore[dict-item]
            frames.append({**kind, "length": int(data.octets[at])})
        if quic.elicits[row] and len(frames) == len(self._acks(row)):
            frames.append({"frame_type": "other"})
        return {
            "header": {
                "packet_type": _LEVELS[self._level[row]], "packet_number": self._number[row],
            },
            "raw": {"length": int(quic.octets[row])},
            "frames": frames or [{"frame_type": "padding"}],
        }  # fmt: skip

    def _recovery(self, path: int) -> Iterator[tuple[float, Event]]:
        """Round trips and losses of the packets with short headers, or 0-RTT, of a path ID."""
        elicits = self._table.quic.elicits
        sent = [
            one for one in self._all
            if one.is_sent and self._path[one.row] == path and elicits[one.row]
            and _SPACES[self._level[one.row]] == 2
        ]  # fmt: skip
        told = []
        for one in self._all:
            if not one.is_sent and _SPACES[self._level[one.row]] == 2:
                acks = self._acks(one.row).get(path)
                if acks is not None:
                    told.append((one.row, one.at_s, *acks))
        if not sent or not told:
            return
        by_number = {self._number[one.row]: one for one in sent}
        times, smoothed, latest = self._round_trips(by_number, told)
        for (row, at_s), trip_s in latest.items():
            data = {"latest_rtt": 1e3 * trip_s}
            yield at_s, self._event(at_s, "metrics_updated", row, data | self._named(path))
        rule = LossRule(_PACKETS, _ROUNDS, np.array(times), np.array(smoothed))
        frame = pl.DataFrame(
            {
                "tsn": [self._number[one.row] for one in sent],
                "row": [one.row for one in sent],
                "sent_s": [one.at_s for one in sent],
            }
        )
        outcome = Outcome()
        add_numbers(outcome, frame, [(row, at_s, runs) for row, at_s, runs, _ in told], rule)
        for row, at_s in outcome.lost:
            header = {"packet_number": self._number[row], "packet_type": "1RTT"}
            yield at_s, self._event(at_s, "packet_lost", row, {"header": header})

    def _named(self, path: int) -> dict[str, Any]:
        return {"path_id": self._names.get(path, str(path))}

    def _round_trips(
        self, by_number: dict[int, _Packet], told: list[tuple[int, float, Runs, int]]
    ) -> tuple[list[float], list[float], dict[tuple[int, float], float]]:
        """Times and smoothed round trips from then on, and each sample (RFC 9002 section 5)."""
        times: list[float] = []
        smoothed: list[float] = []
        latest: dict[tuple[int, float], float] = {}
        newest, least_s = -1, np.inf
        for row, at_s, runs, delay in told:
            largest = runs[-1][1] - 1
            if largest <= newest or largest not in by_number:
                continue
            newest = largest
            trip_s = at_s - by_number[largest].at_s
            latest[row, at_s] = trip_s
            least_s = min(least_s, trip_s)
            delay_s = (delay << _EXPONENT) / 1e6
            if trip_s >= least_s + delay_s:
                trip_s -= delay_s
            smoothed.append(smoothed[-1] * 7 / 8 + trip_s / 8 if smoothed else trip_s)
            times.append(at_s)
        return times, smoothed, latest
