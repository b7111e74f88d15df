"""Which packets of a traced run each acknowledgement covers first, and which are given up.

The trace `packets` has what is on the wire: numbers of data, the number that is expected next, and
runs beyond it. An acknowledgement covers a packet if it names its data and left after the packet
had come: so each of several transmissions of the same data is known by itself, as in QUIC. A packet
is given up when its data is sent again before that.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anabranch.support.holes import unwrapped

Integers = NDArray[np.int64]
Vector = NDArray[np.float64]

_OPENS = ("syn", "syn_ack", "init", "init_ack")
"""Packets after which numbers start anew."""

_HALF = 2**31


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the data that one end of a flow sent; rows are those of the given packets."""

    acked: dict[int, list[int]] = field(default_factory=dict)
    """For each acknowledgement that is the first to cover something: what it covers."""
    given_up: list[tuple[int, int]] = field(default_factory=list)
    """Packets that are given up, each with the packet that carries its data again."""
    again: set[int] = field(default_factory=set)
    """Packets that carry data again."""
    lost: list[tuple[int, float]] = field(default_factory=list)
    """Packets that are taken for lost by their numbers, and when."""


def outcome(packets: pl.DataFrame, side: str, *, is_shared: bool) -> Outcome:
    """What became of the data that this side sent.

    Parameters
    ----------
    packets
        The trace `packets` of one flow.
    side
        The side that sent the data.
    is_shared
        Whether all paths share one space of numbers, as in SCTP.
    """
    found = Outcome()
    packets = packets.with_row_index("row")
    is_data = (pl.col("side") == side) & (pl.col("payload_bytes") > 0) & ~pl.col("is_copy")
    is_data &= pl.col("tsn") >= 0  # datagrams of UDP have no number
    is_ack = (pl.col("side") != side) & (pl.col("ack") >= 0) & (pl.col("fate") == "delivered")
    is_opening = (pl.col("side") == side) & pl.col("kind").is_in(_OPENS)
    for space in [packets] if is_shared else packets.partition_by("path", maintain_order=True):
        opened_s = space.filter(is_opening)["sent_s"].unique().sort().to_numpy()
        data = space.filter(is_data).sort("sent_s", maintain_order=True)
        acks = space.filter(is_ack).sort("delivered_s", maintain_order=True)
        of_data = np.searchsorted(opened_s, data["sent_s"].to_numpy(), side="right")
        of_acks = np.searchsorted(opened_s, acks["delivered_s"].to_numpy(), side="right")
        for connection in np.unique(of_data):
            own = data.filter(of_data == connection)
            _add(found, own, acks.filter(of_acks == connection), is_shared=is_shared)
    return found


@dataclass(frozen=True, slots=True)
class LossRule:
    """When a packet of QUIC is taken for lost (RFC 9002 section 6.1)."""

    packets: int
    """So many numbers before one that is acknowledged,"""
    rounds: float
    """or sent so many round trips ago, and before one that is acknowledged."""
    times_s: Vector
    """Times from which on a smoothed round trip holds,"""
    round_trips_s: Vector
    """and these."""

    def patience_s(self, at_s: float, latest_s: float) -> float:
        """How long a packet may be without an acknowledgement that others have."""
        place = int(np.searchsorted(self.times_s, at_s, side="right")) - 1
        smoothed_s = float(self.round_trips_s[place]) if place >= 0 else latest_s
        return self.rounds * max(smoothed_s, latest_s)


_UNNUMBERED = ("ack", "crypto", "padding")
"""Packets of QUIC that no other one waits for, or with numbers of the handshake."""


def outcome_by_number(packets: pl.DataFrame, side: str, rules: Sequence[LossRule]) -> Outcome:
    """The same for QUIC, where no packet is sent again and what is acknowledged are their numbers.

    Those of the handshake, which have numbers of their own, are left out.

    Parameters
    ----------
    packets
        The trace `packets` of one flow.
    side
        The side that sent the data.
    rules
        One for all paths, or where each path has numbers of its own (RFC 10069) one for each.
    """
    found = Outcome()
    packets = packets.with_row_index("row")
    is_own = (pl.col("side") == side) & ~pl.col("is_copy") & (pl.col("tsn") >= 0)
    is_ack = (pl.col("side") != side) & (pl.col("sack") != "") & (pl.col("fate") == "delivered")
    sent = packets.filter(is_own & ~pl.col("kind").is_in(_UNNUMBERED))
    acks = packets.filter(is_ack).sort("delivered_s", maintain_order=True)
    told = [
        (row, at_s, _runs_by_path(sack, path))
        for row, at_s, path, sack in acks.select("row", "delivered_s", "path", "sack").iter_rows()
    ]
    if len(rules) == 1:
        whole = [(row, at_s, sorted(itertools.chain(*runs.values()))) for row, at_s, runs in told]
        add_numbers(found, sent, whole, rules[0])
        return found
    for path, rule in enumerate(rules):
        of_path = [(row, at_s, runs[path]) for row, at_s, runs in told if path in runs]
        add_numbers(found, sent.filter(pl.col("path") == path), of_path, rule)
    return found


Runs = list[tuple[int, int]]


def _runs_by_path(sack: str, path: int) -> dict[int, Runs]:
    """The runs of a packet that came on this path, by the path that they are about."""
    found: dict[int, Runs] = {}
    for run in sack.split():
        where, _, numbers = run.rpartition(":")
        found.setdefault(int(where or path), []).extend(reported_runs(numbers))
    return found


def add_numbers(
    found: Outcome, sent: pl.DataFrame, told: list[tuple[int, float, Runs]], rule: LossRule
) -> None:
    """Adds what became of packets that have numbers in common; those grow as they are sent.

    Parameters
    ----------
    found
        Where to.
    sent
        The packets, in their order: their numbers (`tsn`), rows and times (`sent_s`).
    told
        What acknowledged them, in the order of time: the row, when, and runs of numbers, each with
        the number behind it, in their order.
    rule
        When one is lost.
    """
    coming = iter(sent.select("tsn", "row", "sent_s").iter_rows())
    ahead = next(coming, None)
    outstanding: dict[int, tuple[int, float]] = {}
    due: dict[int, float] = {}
    largest = -1
    for row, at_s, runs in told:
        while ahead is not None and ahead[2] <= at_s:
            outstanding[ahead[0]] = ahead[1:]
            ahead = next(coming, None)
        for number in [number for number, due_s in due.items() if due_s < at_s]:
            found.lost.append((outstanding.pop(number)[0], due.pop(number)))
        oldest = next(iter(outstanding), 0)
        covered = [
            number
            for first, end in runs
            for number in range(max(first, oldest), end)
            if number in outstanding
        ]
        if not covered:
            continue
        largest = max(largest, covered[-1])
        patience_s = rule.patience_s(at_s, at_s - outstanding[covered[-1]][1])
        # One packet may acknowledge those of several paths.
        acked = found.acked.setdefault(row, [])
        acked += [outstanding.pop(number)[0] for number in covered]
        for number in covered:
            due.pop(number, None)
        for number in [*itertools.takewhile(largest.__gt__, outstanding)]:
            due_s = outstanding[number][1] + patience_s
            if number + rule.packets <= largest or due_s <= at_s:
                found.lost.append((outstanding.pop(number)[0], at_s))
                due.pop(number, None)
            else:
                due[number] = due_s


def _add(found: Outcome, data: pl.DataFrame, acks: pl.DataFrame, *, is_shared: bool) -> None:
    """Adds what became of the data of one connection, or of one subflow."""
    base = data["tsn"][0]
    first = unwrapped(data["tsn"].to_numpy(), 32) - base
    size = np.ones_like(first) if is_shared else data["payload_bytes"].to_numpy()
    is_new = first > np.concatenate(([-1], np.maximum.accumulate(first)[:-1]))
    end = first + size
    # New data follows new data, so that a packet of several chunks reaches to the next one.
    end[is_new] = np.maximum(end[is_new], np.append(first[is_new][1:], 0))
    rows = data["row"].to_numpy().astype(np.int64)
    sent_s = data["sent_s"].to_numpy()
    came_s = data["delivered_s"].fill_nan(np.inf).to_numpy()
    found.again.update(rows[~is_new].tolist())
    known_s = np.full(len(rows), np.inf)
    acked = _Acked(first, end, came_s)
    for row, left_s, at_s, upto, runs in _acknowledgements(acks, base):
        covered = acked.take(-1, upto, left_s)
        for start, stop in runs:
            covered += acked.take(start, stop, left_s)
        if covered:
            known_s[covered] = at_s
            found.acked[row] = rows[covered].tolist()
    latest = np.flatnonzero(is_new)
    starts, ends = first[latest], end[latest]
    for again in np.flatnonzero(~is_new):
        place = int(np.searchsorted(starts, first[again], side="right")) - 1
        while 0 <= place < len(starts) and starts[place] < end[again]:
            before = latest[place]
            if ends[place] > first[again] and known_s[before] > sent_s[again]:
                found.given_up.append((int(rows[before]), int(rows[again])))
            latest[place] = again
            place += 1


def _acknowledgements(
    acks: pl.DataFrame, base: int
) -> Iterator[tuple[int, float, float, int, list[tuple[int, int]]]]:
    """Row, times of leaving and coming, the number expected next, and the runs beyond it."""
    reference = 0
    columns = acks.select("row", "sent_s", "delivered_s", "ack", "sack")
    for row, left_s, at_s, number, sack in columns.iter_rows():
        upto = reference + _signed(number - base - reference)
        reference = max(reference, upto)
        runs = [
            (upto + _signed(start - number), upto + _signed(stop - number))
            for start, stop in reported_runs(sack)
        ]
        yield row, left_s, at_s, upto, runs


def reported_runs(sack: str) -> list[tuple[int, int]]:
    """The runs of a trace's column `sack`: the first number, and the one behind the last."""
    edges = (run.split("-") for run in sack.split())
    return [(int(start), int(stop)) for start, stop in edges]


def _signed(difference: int) -> int:
    """A difference of numbers of 32 bits, which may be negative."""
    return (difference + _HALF) % 2**32 - _HALF


class _Acked:
    """Packets that have come, by number: those that are not acknowledged yet can be found."""

    def __init__(self, first: Integers, end: Integers, came_s: Vector) -> None:
        came = np.flatnonzero(np.isfinite(came_s))
        self._order = came[np.argsort(first[came], kind="stable")]
        self._first = first[self._order]
        self._end = end[self._order].tolist()
        self._came_s = came_s[self._order].tolist()
        self._next = list(range(len(self._order) + 1))
        """The next place that is not acknowledged; the entries lead there."""

    def take(self, start: int, stop: int, left_s: float) -> list[int]:
        """Marks what lies from start to stop and had come by then; gives it."""
        place = self._find(int(np.searchsorted(self._first, start)) if start >= 0 else 0)
        taken = []
        while place < len(self._order) and self._first[place] < stop:
            if self._end[place] <= stop and self._came_s[place] <= left_s:
                taken.append(int(self._order[place]))
                self._next[place] = place + 1
            place = self._find(place + 1)
        return taken

    def _find(self, place: int) -> int:
        while (after := self._next[place]) != place:
            self._next[place] = self._next[after]
            place = after
        return place
