"""What a call lost quality to: each cause with its cost in MOS.

Every frame that was not played, and every millisecond of the mean delay, belongs to one cause. The
E-model says what the call would be worth without some of the causes. It is not linear, so the cost
of one cause depends on which others are gone. A cause's cost here is the mean over all orders in
which causes can be taken away (its Shapley value, L. S. Shapley, "A value for n-person games",
1953), so the costs add up to what the call falls short of its codec's best.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from anabranch import _engine
from anabranch.explain.accounts import Flow, Tree, is_open_loop
from anabranch.explain.causes import Cause
from anabranch.studies import frames
from anabranch.studies.result import Result
from anabranch.support import terminal

RELEVANT = 0.1
"""MOS from which on a cause is worth mending; advice uses the same threshold."""

_MOST = 10
"""How many causes are told apart; with more, the smallest are merged into one, `others`."""

KINDS = {
    "loss": "frames lost on the way",
    "queue": "frames dropped by a queue",
    "down": "frames sent while a link was down",
    "late": "frames too late on the way",
    "again": "frames lost and sent again",
    "timeout": "frames held back by a timeout",
    "failover": "frames held back by a failed path",
    "recovery": "frames held back by fast recovery",
    "window": "frames held back by the window",
    "not_open": "frames before the connection was open",
    "delay": "delay of the path",
    "listening": "codec and jitter buffer",
    "others": "other causes",
}
"""What can cost a call quality, in words."""

FATES = {
    "lost": "loss",
    "corrupted": "loss",
    "down": "down",
    "queue_full": "queue",
    "aqm": "queue",
}
"""What the fate of a packet is called here."""

_HELD = {
    "in_timeout": "timeout",
    "path_down": "failover",
    "in_recovery": "recovery",
    "handshake": "not_open",
}
"""Why frames wait at the sender, by the limit that held the path back meanwhile; the first match
counts.
"""

_ADVICE = {
    "loss": "Concealment (`codec`), a second copy or one retransmission would hide some of it.",
    "queue": "A shorter queue, an AQM or less load there would help.",
    "down": "A faster failover (rto_max, path_max_retrans, a heartbeat) would lose fewer frames.",
    "late": "A queue of its own at the slowest link (`fq_codel`, `cake`, priority) would not hold "
    "them up; a deeper jitter buffer would play them, at the cost of delay.",
    "again": "A copy on a second path would be there in time; `nack` takes a round trip.",
    "timeout": "A smaller rto_max ends the wait earlier; a smaller rto_min makes it shorter.",
    "failover": "A smaller rto_max and path_max_retrans find the failed path out earlier.",
    "recovery": "A larger window, or no retransmission of frames, would not hold them back.",
    "window": "The window is too small for the call's rate and delay.",
    "not_open": "Open the connection earlier (`connect`).",
    "listening": "A shorter packetisation or a shallower jitter buffer makes it smaller.",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one cause."""

    kind: str
    """One of the keys of `KINDS`."""
    path: str
    """The path that it belongs to; empty where it belongs to none."""
    frames: int
    """Frames that were not played because of it."""
    delay_ms: float
    """Its part, in ms, of the mean delay that goes into the E-model."""
    mos: float
    """What the call would gain in MOS without it: the mean over all orders of taking causes away.
    """

    @property
    def text(self) -> str:
        """The cause in words."""
        return f"{KINDS[self.kind]}{self.path and f', {self.path}'}"


@dataclass(frozen=True, slots=True)
class Call:
    """One direction of a call: what it is worth, and what it lost."""

    flow: str
    side: str
    """The side that speaks; empty of a capture."""
    section: str
    """The part of their name in front of its scalars: `call` or `call.a_to_b`."""
    frames: int
    mos: float
    best: float
    """The MOS of this codec and E-model without losses and without delay."""
    costs: tuple[Cost, ...]
    """The costs, with the dearest first."""
    remainder: float
    """The part of `best - mos` that the costs do not explain; 0 unless the frames give a rating
    other than the engine's.
    """

    heading = "what its quality was lost to"

    def table(self, width: int) -> Any:
        """The costs, for a terminal of this width."""
        rows = [
            (cost.text, str(cost.frames), f"{cost.delay_ms:.1f}", f"{cost.mos:.3f}")
            for cost in self.costs
        ]
        if abs(self.remainder) >= 5e-4:
            rows.append(("not explained", "", "", f"{self.remainder:.3f}"))
        delay, lost = sum(c.delay_ms for c in self.costs), sum(c.frames for c in self.costs)
        rows.append(("together", str(lost), f"{delay:.1f}", f"{self.best - self.mos:.3f}"))
        heads = ("lost to", "frames", "delay ms", "MOS")
        return terminal.side_by_side(heads, rows, width, 1)

    def causes(self, alone: Sequence[tuple[str, float]]) -> list[Cause]:
        """The causes that are worth mending, the dearest first; or one that says there is none.

        Parameters
        ----------
        alone
            Paths, each with the MOS that it reaches alone.
        """
        losing = [self._cause(cost, alone) for cost in self.costs if cost.mos >= RELEVANT]
        if losing:
            return losing
        most = ""
        if self.costs:
            first = self.costs[0]
            most = f" The most costs {first.text}: {first.mos:.2f}."
        text = f"Nothing costs this call {RELEVANT} MOS by itself.{most}"
        return [Cause("nothing", "", text, "")]

    def _cause(self, cost: Cost, alone: Sequence[tuple[str, float]]) -> Cause:
        parts = []
        if cost.frames:
            share = 100 * cost.frames / self.frames
            parts.append(f"{cost.frames} of {self.frames} frames ({share:.1f} %)")
        if cost.delay_ms >= 0.05:
            parts.append(f"{cost.delay_ms:.1f} ms of the mean delay")
        text = f"{cost.text}: {' and '.join(parts)} cost {cost.mos:.2f} MOS."
        better = [one for one in alone if one[0] != cost.path and one[1] >= self.mos + RELEVANT]
        advice = _ADVICE.get(cost.kind, "")
        if cost.path and better:
            path, mos = max(better, key=lambda one: one[1])
            advice = f"Prefer {path}, which alone reaches {mos:.2f}. {advice}".rstrip()
        elif cost.kind == "delay":
            advice = "Only a shorter way, or shorter queues on it, would help."
        return Cause(cost.kind, cost.path, text, advice)

    def sentences(self) -> list[str]:
        """Sentences on what the call is worth, and on whether the costs add up."""
        first = (
            f"{self.section}: MOS {self.mos:.2f}; without loss and delay this codec reaches "
            f"{self.best:.2f}."
        )
        if abs(self.remainder) < 5e-4:
            return [first]
        return [
            first,
            f"The traced frames leave {self.remainder:.3f} MOS of the difference unexplained.",
        ]

    def as_json(self) -> dict[str, Any]:
        """The same, as a tree for JSON."""
        return {
            "section": self.section,
            "mos": self.mos,
            "best_mos": self.best,
            "frames": self.frames,
            "costs": [asdict(cost) for cost in self.costs],
            "remainder_mos": self.remainder,
        }


def is_call(settings: Tree) -> bool:
    """Whether a flow is one whose frames are rated."""
    return bool(settings["app"]["kind"] == "voip")


def worst(result: Result, flow: Flow) -> Call | None:
    """The direction of a call that is worth less; None if no frame of the call was heard."""
    sides = frames.sides(result, flow.name)
    calls = [_Direction(result, flow, side).call() for side in sides]
    return min(calls, key=lambda call: call.mos, default=None)


class _Direction:
    """One direction of a call, from the traces of its run."""

    def __init__(self, result: Result, flow: Flow, side: str) -> None:
        self.flow, self.side = flow, side
        self.app = flow.settings["app"]
        self.names: list[str] = flow.settings["paths"]
        self.section = flow.section(side)
        self.summary = result.summary
        self.frames = frames.carried(result, flow.name, side)
        self.limits = result.traces["limits"].filter(
            (pl.col("flow") == flow.name) & (pl.col("side") == side) & (pl.col("path") >= 0)
        )
        packets = result.traces["packets"].filter(
            (pl.col("flow") == flow.name)
            & (pl.col("side") == side)
            & pl.col("kind").is_in(frames.DATA)
        )
        self.sent = packets["sent_s"].unique().sort().to_numpy()
        states = result.traces["paths"].filter(
            (pl.col("flow") == flow.name) & (pl.col("side") == side) & pl.col("is_primary")
        )
        self.primary = list(states.select("time_s", "path").iter_rows())

    def call(self) -> Call:
        played, delays = self._sorted()
        costs, best, explained = self._costs(played, delays)
        mos = self.summary[f"{self.section}.mos"]
        return Call(
            self.flow.name,
            self.side,
            self.section,
            self.frames.height,
            mos,
            best,
            tuple(sorted(costs, key=lambda cost: -cost.mos)),
            best - mos - explained,
        )

    def _sorted(self) -> tuple[list[tuple[str, str] | None], dict[tuple[str, str], float]]:
        """Why each frame was not played (None if it was), and each cause's part of the delay."""
        rows = list(self.frames.iter_rows(named=True))
        heard = [row for row in rows if row["status"] == "played"]
        longest = max((row["delay_ms"] for row in heard), default=math.inf)
        delays: dict[tuple[str, str], float] = {}

        def add(cause: tuple[str, str], ms: float) -> None:
            if ms > 0:
                delays[cause] = delays.get(cause, 0.0) + ms / len(heard)

        why: list[tuple[str, str] | None] = []
        for row in rows:
            waited = self._waited_ms(row)
            if row["status"] == "played":
                if waited > 0:
                    add(self._held(row), waited)
                add(("delay", self._name(row["path"])), row["delay_ms"] - waited)
                why.append(None)
            elif row["status"] == "late" and row["delay_ms"] - waited > longest:
                why.append(("late", self._name(row["path"])))
            elif row["status"] == "late" or row["path"] is None:
                why.append(self._held(row))
            else:
                why.append((FATES.get(row["fate"], "late"), self._name(row["path"])))
        if self.app["delay"] == "mouth_to_ear" and heard:
            given = self.summary[f"{self.section}.mouth_to_ear_ms"]
            rest = given - self.summary[f"{self.section}.mean_delay_ms"]
            delays["listening", ""] = rest
        return why, delays

    def _name(self, path: int | None) -> str:
        return "" if path is None else self.names[path]

    def _waited_ms(self, row: dict[str, Any]) -> float:
        """How many ms a frame that arrived was at the sender before it was last sent."""
        if row["sent_s"] is None or math.isnan(row["arrived_s"]):
            return 0.0
        waited: float = max(0.0, row["sent_s"] - row["created_s"]) * 1e3
        return waited if waited > 1e-6 else 0.0

    def _held(self, row: dict[str, Any]) -> tuple[str, str]:
        """What held a frame back at the sender, and the path that it was to take then."""
        start = row["created_s"]
        later = self.sent[np.searchsorted(self.sent, start) :]
        end = row["sent_s"] or (float(later[0]) if len(later) else math.inf)
        if is_open_loop(self.flow.settings):
            # Nothing holds such a frame back: it was lost, and is sent once more.
            return ("again", self._name(row["path"]))
        path = next((path for time, path in reversed(self.primary) if time <= start), None)
        if path is None:
            return ("not_open", "")
        own = self.limits.filter(
            (pl.col("path") == path) & (pl.col("start_s") <= end) & (pl.col("end_s") >= start)
        )
        seen = set(own["limit"].to_list())
        kind = next((name for limit, name in _HELD.items() if limit in seen), "window")
        return (kind, "" if kind == "not_open" else self._name(path))

    def _costs(
        self,
        why: list[tuple[str, str] | None],
        delays: dict[tuple[str, str], float],
    ) -> tuple[list[Cost], float, float]:
        """The costs, the best MOS possible, and the MOS that the costs lead to together."""
        counts: dict[tuple[str, str], int] = {}
        for cause in why:
            if cause is not None:
                counts[cause] = counts.get(cause, 0) + 1
        causes = sorted({*counts, *delays}, key=lambda c: (-counts.get(c, 0), -delays.get(c, 0.0)))
        place = {cause: min(i, _MOST - 1) for i, cause in enumerate(causes)}
        groups = min(len(causes), _MOST)
        frame_cause = np.array([-1 if cause is None else place[cause] for cause in why])
        delay = np.zeros(groups)
        for cause, ms in delays.items():
            delay[place[cause]] += ms
        frames_of = np.bincount(frame_cause[frame_cause >= 0], minlength=groups)
        worth = np.array([self._mos(frame_cause, frames_of, delay, s) for s in range(1 << groups)])
        costs = []
        for i in range(groups):
            # With more causes than can be told apart, the last place collects all the small ones.
            kind, path = ("others", "") if i == _MOST - 1 < len(causes) - 1 else causes[i]
            mos = shapley(worth, groups, i)
            costs.append(Cost(kind, path, int(frames_of[i]), float(delay[i]), mos))
        return costs, float(worth[0]), float(worth[0] - worth[-1])

    def _mos(
        self, frame_cause: np.ndarray, frames_of: np.ndarray, delay: np.ndarray, active: int
    ) -> float:
        """The MOS of the call if only the causes in the set `active` were at work."""
        bits = np.array([active >> i & 1 for i in range(len(delay))], dtype=bool)
        total = len(frame_cause)
        terms: dict[str, float | str] = {
            "form": self.app["emodel"],
            "codec": self.app["codec"],
            "delay_ms": float(delay[bits].sum()),
            "loss": float(frames_of[bits].sum()) / total,
        }
        terms |= {key: self.app[key] for key in ("ie", "bpl") if self.app.get(key) is not None}
        if self.app["burst_ratio"] == "measured" and self.app["emodel"] != "g107_1":
            terms["burst_ratio"] = burst_ratio(np.append(bits, [False])[frame_cause])
        return float(_engine.emodel(terms)[-1][1])


def burst_ratio(missing: np.ndarray) -> float:
    """The burst ratio as in the engine (G.107 section 7.5): 1 if none or all are lost."""
    lost = int(missing.sum())
    if lost in (0, len(missing)):
        return 1.0
    bursts = int(missing[0]) + int((missing[1:] & ~missing[:-1]).sum())
    return lost / bursts * (1 - lost / len(missing))


def shapley(worth: np.ndarray, count: int, which: int) -> float:
    """The mean gain from taking this cause away, over all orders.

    `worth` is indexed by the set of active causes.
    """
    sets = np.arange(1 << count)
    without = sets[sets >> which & 1 == 0]
    sizes = np.array([int(s).bit_count() for s in without])
    weights = np.array([1 / (count * math.comb(count - 1, size)) for size in range(count)])
    return float((weights[sizes] * (worth[without] - worth[without | 1 << which])).sum())
