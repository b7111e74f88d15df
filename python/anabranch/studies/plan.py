"""Which runs a study still needs, in the order in which they are computed.

All cells are computed once, then all once more: a study that is stopped early has runs of every
cell. Runs are determined when they are asked for; the plan of a hundred million runs is a matrix of
bytes.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anabranch import stats
from anabranch._engine import Scenario
from anabranch.studies import stopping

Run = tuple[int, int]
"""Cell and replication."""

Until = Mapping[str, Any]
"""A rule of sequential stopping: `metric`, `half_width`, `level`, `least`, `most`."""

Shard = tuple[int, int]
"""`(i, n)`: the i-th of n shares, counted from 1, that one of several processes computes."""

_BLOCK = 1 << 16
"""Entries of the matrix that are searched at a time."""


class Plan:
    """The runs that are wanted and not finished.

    Parameters
    ----------
    wanted
        Replications of each cell; for cells with a stopping rule, they are ignored.
    finished
        Cells by replications: the runs that the store has. It must be wide enough for every run
        that may be wanted.
    shard
        Only take this share: every n-th run, or every n-th cell if there are stopping rules.
    until
        Stopping rules by cell. `learn` has to be called with the values of finished runs as well.
    """

    def __init__(
        self,
        wanted: NDArray[np.int64],
        finished: NDArray[np.bool_],
        shard: Shard | None = None,
        until: Mapping[int, Until] | None = None,
    ) -> None:
        until = until or {}
        wanted = wanted.copy()
        for cell, rule in until.items():
            wanted[cell] = stopping.looks(rule)[0]
        mask = np.arange(finished.shape[1])[:, None] < wanted
        if shard is not None:
            _keep_share(mask, shard, whole_cells=bool(until))
        self._open = {
            cell: _Values(rule, int(wanted[cell])) for cell, rule in until.items() if mask[0, cell]
        }
        self.metrics = list(dict.fromkeys(str(rule["metric"]) for rule in until.values()))
        """The scalars that stopping rules depend on."""
        self.is_resumed = bool(finished.any())
        self.level = max(
            (float(rule.get("level", stopping.LEVEL)) for rule in until.values()),
            default=stopping.LEVEL,
        )
        self._expected = mask.sum(axis=0)
        mask &= ~finished.T
        self._finished = finished
        self._left = mask.ravel()
        self._place = 0
        self._extended: deque[Run] = deque()
        self.done = int(self._expected.sum() - np.count_nonzero(mask))
        self._given = self.done
        self.short: list[int] = []
        """Cells whose interval is still wider than asked after the most replications allowed."""

    @property
    def is_estimate(self) -> bool:
        """Whether `total` may change because a stopping rule has not decided yet."""
        return bool(self._open)

    @property
    def total(self) -> int:
        """The number of all wanted runs.

        With stopping rules, an estimate from the variances so far.
        """
        return int(self._expected.sum())

    @property
    def left(self) -> int:
        """The number of runs that are still to be taken; an estimate as `total` is."""
        return self.total - self._given

    def take(self, count: int) -> list[Run]:
        """The next runs, at most this many; none if all runs wanted so far have been taken."""
        runs: list[Run] = []
        cells = self._finished.shape[0]
        while len(runs) < count and self._place < self._left.size:
            block = self._left[self._place : self._place + _BLOCK]
            places = self._place + np.flatnonzero(block)[: count - len(runs)]
            runs += zip((places % cells).tolist(), (places // cells).tolist(), strict=True)
            full = len(runs) == count
            self._place = int(places[-1]) + 1 if full else self._place + len(block)
        while len(runs) < count and self._extended:
            runs.append(self._extended.popleft())
        self._given += len(runs)
        return runs

    def learn(self, metric: str, runs: Iterable[tuple[int, int, float]]) -> None:
        """Adds the metric's value in finished runs: cell, replication, value."""
        touched = set()
        for cell, replication, value in runs:
            values = self._open.get(cell)
            if values is not None and values.rule["metric"] == metric:
                values.add(replication, value)
                touched.add(cell)
        for cell in sorted(touched):
            self._decide(cell, self._open[cell])

    def _decide(self, cell: int, values: "_Values") -> None:
        """Moves on to the next look for which a run is missing, unless enough is known earlier."""
        while values.is_complete():
            needed = stopping.replications_needed(values.seen(), values.rule)
            if needed is not None:
                if values.half_width(needed) > float(values.rule["half_width"]):
                    self.short.append(cell)
                self._expected[cell] = needed
                del self._open[cell]
                return
            look = stopping.next_look(values.wanted, values.rule)
            assert look is not None, "the last look always decides"
            new = np.arange(values.wanted, look)
            self._expected[cell] = values.expected(look)
            values.wanted = look
            missing = new[~self._finished[cell, new]].tolist()
            stored = len(new) - len(missing)
            self.done += stored
            self._given += stored
            self._extended.extend((cell, replication) for replication in missing)


class _Values:
    """A metric's values in one cell, by replication, up to the next look."""

    def __init__(self, rule: Until, wanted: int) -> None:
        self.rule = rule
        self.wanted = wanted
        self._found = np.empty(0)
        self._known = np.empty(0, dtype=bool)

    def add(self, replication: int, value: float) -> None:
        if replication >= len(self._found):
            length = max(replication + 1, 2 * len(self._found), self.wanted)
            self._found = np.concatenate([self._found, np.empty(length - len(self._found))])
            self._known = np.concatenate(
                [self._known, np.zeros(length - len(self._known), dtype=bool)]
            )
        self._found[replication] = value
        self._known[replication] = True

    def is_complete(self) -> bool:
        return len(self._known) >= self.wanted and bool(self._known[: self.wanted].all())

    def seen(self) -> NDArray[np.float64]:
        return self._found[: self.wanted]

    def half_width(self, replications: int) -> float:
        level = float(self.rule.get("level", stopping.LEVEL))
        _, width, _ = stats.mean_interval(self._found[:replications].tolist(), level)
        return math.inf if math.isnan(width) else width

    def expected(self, least: int) -> int:
        """Replications to expect from the variance so far: the width falls with their root."""
        most = int(self.rule.get("most", stopping.MOST))
        excess = self.half_width(self.wanted) / float(self.rule["half_width"])
        return (
            most
            if math.isinf(excess)
            else min(max(math.ceil(self.wanted * excess**2), least), most)
        )


def wanted_of(scenario: Scenario) -> tuple[NDArray[np.int64], dict[int, Until]]:
    """What a definition asks for: replications of each cell, and stopping rules by cell."""
    wanted = np.empty(scenario.cell_count, dtype=np.int64)
    rules: dict[int, Until] = {}
    for part in scenario.parts:
        cells = range(part["first_cell"], part["first_cell"] + part["cell_count"])
        wanted[cells.start : cells.stop] = part["replications"]
        if part["until"] is not None:
            rules |= dict.fromkeys(cells, part["until"])
    return wanted, rules


def ask_once(
    addresses: Sequence[str], wanted: NDArray[np.int64], rules: Mapping[int, Until]
) -> tuple[NDArray[np.int64], dict[int, Until]]:
    """What is wanted, with the wishes for equal cells assigned to the first of them only.

    Equal cells have the same runs.

    Parameters
    ----------
    addresses
        The scenario hash of each cell.
    wanted, rules
        What `wanted_of` gives.
    """
    wanted, rules = wanted.copy(), dict(rules)
    firsts: dict[tuple[str, str], int] = {}
    for cell, address in enumerate(addresses):
        first = firsts.setdefault((address, repr(rules.get(cell))), cell)
        if first != cell:
            wanted[first] = max(wanted[first], wanted[cell])
            wanted[cell] = 0
            rules.pop(cell, None)
    return wanted, rules


def _keep_share(mask: NDArray[np.bool_], shard: Shard, *, whole_cells: bool) -> None:
    """Keeps only every n-th cell, or every n-th run.

    Each replication starts counting at another cell, so that no share gets all the costly cells.
    """
    number, count = shard
    if whole_cells:
        mask &= np.arange(mask.shape[1]) % count == number - 1
        return
    for replication, row in enumerate(mask):
        places = np.arange(replication, replication + np.count_nonzero(row))
        row[row] = places % count == number - 1
