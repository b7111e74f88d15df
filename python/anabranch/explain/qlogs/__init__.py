"""`anabranch explain FILE.qlog`: what one end of a connection says of it in its qlog.

`records` reads the events, whatever draft and form they have; `connection` plays them to one end;
`causes` says what follows. Times count from the first event of a trace.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Group

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.explain import accounts, tables
from anabranch.explain.causes import Cause
from anabranch.support import wording

from . import causes
from .connection import Connection, by_group
from .records import Event, Reading, events, is_qlog

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

__all__ = ["Event", "Explained", "Qlog", "explain", "is_qlog", "of_events"]

MOST_CONNECTIONS = 1_000
"""The most ends of connections that are read of one file."""

MOST_EXPLAINED = 3

_PATH = "path"


@dataclass(frozen=True, slots=True)
class Explained:
    """One end of a connection, explained."""

    connection: Connection
    account: accounts.Flow
    main: Cause | None

    @property
    def name(self) -> str:
        """What the file calls it, and which end it is."""
        one = self.connection
        return one.name if one.side == "unknown" else f"{one.name} ({one.side})"

    def parts(self, width: int) -> "Iterator[RenderableType]":
        """A table and sentences for people."""
        one = self.connection
        end = self.account.ends[0]
        times = f"{wording.number(one.start_s, 4)} s to {wording.number(one.end_s, 4)} s"
        yield f"{self.name}, {wording.counted(one.events, 'event')}, {times}:"
        if self.main is not None and end.connection.total > 0:
            yield "what held this end back:"
            yield tables.shares(end, width)
        yield "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """What it lost time and data to, with amounts; the main cause first."""
        said = []
        if self.main is not None:
            kind = "none" if self.main.kind == "nothing" else self.main.kind
            said.append(f"Main cause: {kind}. {self.main.advice}")
        elif causes.is_sender(self.connection):
            said.append(
                "The file has no acknowledgements, and not how much was under way: what held the "
                "sender back is not known."
            )
        else:
            said.append("This end received: what held the sender back is in the other end's qlog.")
        said += causes.sentences(self.connection, self.account.ends[0].connection)
        if self.connection.unknown:
            names = ", ".join(
                f"{count:,} {wording.harmless(name[:40]) or '(no name)'}"
                for name, count in self.connection.unknown.most_common(3)
            )
            total = self.connection.unknown.total()
            said.append(f"Not used: {wording.counted(total, 'event')} of other kinds ({names}).")
        return said

    def figure(self) -> "Figure | None":
        """What held this end back over time; None where that is not known."""
        if (
            self.main is None
            or not self.connection.held.limits
            or not self.connection.held.is_all_there
        ):
            return None
        from anabranch.explain import figure  # noqa: PLC0415 - slow to import

        return figure.draw(self.account, f"what holds {self.name} back", knows_waiting=False)

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        one, account = self.connection, self.account.ends[0].connection
        trips = causes.trips(one.trips)
        return {
            "connection": one.name,
            "vantage_point": one.side,
            "events": one.events,
            "start_s": one.start_s,
            "end_s": one.end_s,
            "is_sender": causes.is_sender(one),
            "handshake_s": one.handshake_s - one.start_s,
            "sent": {
                "packets": one.sent, "bytes": one.sent_octets, "data_bytes": one.out.octets,
                "goodput_bit_per_s": one.out.rate,
            },
            "received": {
                "packets": one.received, "bytes": one.received_octets,
                "data_bytes": one.into.octets, "goodput_bit_per_s": one.into.rate,
            },
            "lost": dict(one.lost),
            "paths": {
                name: {
                    "packets_sent": path.sent, "bytes_sent": path.sent_octets,
                    "packets_received": path.received, "lost": path.lost,
                }
                for name, path in one.paths.items()
            },
            "spurious": one.spurious,
            "fates": dict(one.fates),
            "round_trips_ms": None if trips is None else asdict(trips),
            "recoveries": one.recoveries,
            "timeouts": one.timeouts if one.knows_timeouts or one.timeouts else None,
            "congestion_states": dict(one.states),
            "blocked": dict(one.blocked),
            "peer_blocked": dict(one.peer_blocked),
            "seconds": account.seconds,
            "migrations": one.migrated,
            "close": None if one.close is None else asdict(one.close),
            "unknown_events": dict(one.unknown),
            "main_cause": None if self.main is None else asdict(self.main),
            "sentences": self.sentences(),
        }  # fmt: skip


def of_events(events: Iterator[Event], most: int) -> list[Explained]:
    """The ends of connections that these events are about, those first that sent most; `most`."""
    found = sorted(by_group(events, MOST_CONNECTIONS), key=lambda one: -one.out.octets)
    return [_explained(one) for one in found[:most]]


@dataclass(frozen=True, slots=True)
class Qlog:
    """A qlog file, explained."""

    file: Path
    connections: list[Explained]
    notes: list[str]

    def tables(self, width: int) -> "RenderableType":
        """What a person reads, for a terminal of this width."""
        parts = [part for one in self.connections for part in one.parts(width)]
        return Group(*parts, *self.notes)

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "qlog": self.file.name,
            "version": _engine.__version__,
            "connections": [one.as_json() for one in self.connections],
            "notes": self.notes,
        }


def explain(
    file: str | Path,
    *,
    flow: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Qlog:
    """Says what the ends of connections in a qlog file lost time and data to.

    Parameters
    ----------
    file
        A qlog file of QUIC, or of `anabranch run --qlog`; packed with gzip or not.
    flow
        A part of the name of the connection; those of the most bytes if not given.
    progress
        Told how many characters are read, now and then.

    Raises
    ------
    AnabranchError
        Where the file is no qlog, something in it is not what it has to be, or it has no packets.
    """
    file = Path(file)
    reading = Reading()
    found = by_group(events(file, reading, progress), MOST_CONNECTIONS)
    with_packets = [one for one in found if one.sent or one.received]
    notes = _notes(reading)
    if not with_packets:
        count = wording.counted(reading.events, "event")
        said = f"{file}: it has {count}, and no packet that was sent or received"
        raise AnabranchError("; ".join([said, *notes]))
    chosen = [one for one in with_packets if flow is None or flow in one.name]
    if not chosen:
        there = "; ".join(one.name for one in with_packets[:10])
        raise AnabranchError(f"{file}: no connection's name has `{flow}` in it; there are {there}")
    chosen.sort(key=lambda one: -max(one.sent_octets, one.received_octets))
    if (more := len(chosen) - MOST_EXPLAINED) > 0:
        others = "1 end of a connection" if more == 1 else f"{more:,} ends of connections"
        is_ = "is" if more == 1 else "are"
        notes.append(f"{others} of fewer bytes {is_} not explained; --flow names one.")
    return Qlog(file, [_explained(one) for one in chosen[:MOST_EXPLAINED]], notes)


def _notes(reading: Reading) -> list[str]:
    notes = []
    if reading.is_cut:
        notes.append("The last record is not whole and is left out.")
    if reading.back:
        count = wording.counted(reading.back, "event")
        notes.append(f"{count} came with times before that of the event before: taken for as late.")
    notes += [f"A trace has no events: {one}." for one in reading.errors[:3]]
    return notes


def _explained(connection: Connection) -> Explained:
    account = _account(connection)
    return Explained(connection, account, causes.main(connection, account.ends[0].connection))


def _account(connection: Connection) -> accounts.Flow:
    """The time of this end, in the form that simulations have it; of the other one nothing."""
    seconds = dict.fromkeys(accounts.SHOWN, 0.0) | dict(connection.held.seconds)
    trips = causes.trips(connection.trips)
    srtt_ms = float("nan") if trips is None else trips.least_ms + trips.mean_ms
    took_s = max(connection.end_s - connection.start_s, 1e-9)
    rate = connection.sent_octets * 8 / took_s
    carried = accounts.Carried("", float("nan"), rate, connection.lost.total(), 0)
    path = accounts.Account(
        _PATH, seconds, {}, connection.recoveries, connection.timeouts, srtt_ms, carried
    )
    whole = accounts.Account("connection", seconds, {}, 0, 0)
    nothing = accounts.Account("connection", {"application_limited": took_s}, {}, 0, 0)
    nobody = accounts.Receiver(0.0, 0.0, {}, float("nan"))
    rows = [
        (connection.name, "a", number, *limit)
        for limit in connection.held.limits
        for number in (accounts.CONNECTION, 0)
    ]
    columns = ("flow", "side", "path", "start_s", "end_s", "limit")
    return accounts.Flow(
        connection.name,
        {"paths": [_PATH]},
        connection.start_s,
        connection.end_s,
        (
            accounts.End("a", connection.name, whole, (path,), nobody, 0),
            accounts.End("b", "", nothing, (), nobody, 0),
        ),
        pl.DataFrame(rows, columns, orient="row"),
        pl.DataFrame(schema={"side": pl.String}),
    )
