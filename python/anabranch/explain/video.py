"""Why a video stood still: each freeze with the packets that it waited for.

After the last frame that was shown before a freeze, one frame is missing: each one needs the one
before it. The packet of that frame that came last, or never, says why. The trace `frames` has the
frames, `packets` what became of each of their packets, and of each time one was sent again.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from anabranch.explain.accounts import (
    Flow,
    Tree,
    down_until,
    is_open_loop,
    settings_of,
    up_of,
)
from anabranch.explain.calls import FATES
from anabranch.explain.causes import Cause
from anabranch.studies import frames
from anabranch.studies.result import Result
from anabranch.support import terminal, wording

RELEVANT = 1.0
"""Percent of the time from which on the frozen part is worth mending."""

KINDS = {
    "queue": "packets dropped by a queue",
    "loss": "packets lost on the way",
    "down": "packets sent while a link was down",
    "late": "packets late on the way",
    "pacer": "packets that waited for the pacer",
    "refused": "packets that the sender's buffer had no room for",
    "source": "no frame was made",
}
"""What a picture can stand still for, in words."""

_ADVICE = {
    "queue": "A control that keeps that queue short (`anabranch bench-rtc`), an AQM, or a deeper "
    "queue would lose fewer packets.",
    "down": "With a second path, copies (`scheduler = 'redundant'`) or a policy that leaves a "
    "silent path (`path_timeout`) would go on.",
    "late": "A queue of its own at that link (`fq_codel`, `cake`), or a control that keeps the "
    "queue short, would not hold them up.",
    "pacer": "The encoder makes more than its control lets leave: smaller key frames "
    "(`key_frame_ratio`) or a quicker reaction (`reaction`) would wait less.",
    "refused": "A larger `send_buffer` would take them; a lower target would not fill it.",
    "source": "Nothing on the network did that.",
}
_ADVICE_LOSS = {
    False: "Copies on a second path (`scheduler = 'redundant'`), or retransmissions there, would "
    "hide most of it.",
    True: "Copies on both paths (`scheduler = 'redundant'`), or retransmissions on the other one "
    "(`policy = { kind = 'failover', retransmit_on = 'alternate' }`), would hide most of it.",
}
"""By whether the flow has several paths."""
_WITHOUT_NACK = "With `nack` lost packets would be sent again."

_MENDED = {"retransmission": "a packet sent again", "key_frame": "a key frame"}
"""What ended a freeze, in words, where it was not what was late."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """A time in which the picture stood still."""

    start_s: float
    """When the last frame before it was shown."""
    end_s: float
    kind: str
    """One of the keys of `KINDS`."""
    path: str
    """The path of the packet that it waited for; empty where there was none."""
    link: str
    """The link that lost it, or at which it was longest; empty where there is none."""
    ended_by: str
    """`retransmission`, `key_frame`, or `itself` where what was late came."""

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Part:
    """The freezes of one cause."""

    kind: str
    path: str
    link: str
    freezes: tuple[Freeze, ...]

    @property
    def seconds(self) -> float:
        """How long they were together."""
        return sum(freeze.seconds for freeze in self.freezes)

    @property
    def text(self) -> str:
        """The cause in words."""
        where = f", {self.link}" if self.link else ""
        return f"{KINDS[self.kind]}{where}{self.path and f' on {self.path}'}"


@dataclass(frozen=True, slots=True)
class Video:
    """One direction of a video, and what it stood still for."""

    flow: str
    side: str
    section: str
    """The part of their name in front of its scalars: `call` or `call.a_to_b`."""
    shown: int
    made: int
    frozen_percent: float
    parts: tuple[Part, ...]
    """The causes, the one of the longest time first."""
    has_several: bool
    """Whether the flow has several paths."""
    has_nack: bool

    heading = "what the picture stood still for"

    @property
    def freezes(self) -> list[Freeze]:
        """All freezes, in order."""
        every = (freeze for part in self.parts for freeze in part.freezes)
        return sorted(every, key=lambda freeze: freeze.start_s)

    @property
    def seconds(self) -> float:
        """How long the picture stood still."""
        return sum(part.seconds for part in self.parts)

    def _share(self, part: Part) -> str:
        return f"{100 * part.seconds / self.seconds:.0f} %"

    def table(self, width: int) -> Any:
        """The causes, for a terminal of this width."""
        rows = [
            (part.text, str(len(part.freezes)), _seconds(part.seconds), self._share(part))
            for part in self.parts
        ]
        rows.append(("together", str(len(self.freezes)), _seconds(self.seconds), ""))
        heads = ("stood still for", "freezes", "seconds", "of the frozen time")
        return terminal.side_by_side(heads, rows, width, 1)

    def causes(self, alone: Sequence[tuple[str, float]]) -> list[Cause]:
        """The causes, if the frozen time is worth mending; or one that says that there is none.

        Parameters
        ----------
        alone
            Paths, each with the percentage of the time that is frozen over it alone.
        """
        if self.parts and self.frozen_percent >= RELEVANT:
            return [self._cause(part, alone) for part in self.parts]
        text = f"The picture stands still for less than {RELEVANT:g} % of the time."
        return [Cause("nothing", "", text, "")]

    def _cause(self, part: Part, alone: Sequence[tuple[str, float]]) -> Cause:
        ends = [
            f"{count} ended with {words}"
            for kind, words in _MENDED.items()
            if (count := sum(freeze.ended_by == kind for freeze in part.freezes))
        ]
        text = (
            f"{part.text}: {wording.counted(len(part.freezes), 'freeze')}, "
            f"{_seconds(part.seconds)} s ({self._share(part)} of the frozen time)"
        )
        text = "; ".join([text, ", ".join(ends)] if ends else [text]) + "."
        advice = _ADVICE_LOSS[self.has_several] if part.kind == "loss" else _ADVICE[part.kind]
        if part.kind in {"loss", "queue"} and not self.has_nack:
            advice = f"{_WITHOUT_NACK} {advice}"
        enough = self.frozen_percent - RELEVANT
        better = [one for one in alone if one[0] != part.path and one[1] <= enough]
        if part.path and better:
            path, percent = min(better, key=lambda one: one[1])
            advice = f"Prefer {path}, alone frozen for {percent:.2f} %. {advice}"
        return Cause(part.kind, part.path, text, advice)

    def sentences(self) -> list[str]:
        """How long the picture stood still."""
        freezes = self.freezes
        said = f"{self.section}: frozen for {self.frozen_percent:.2f} % of the time"
        if freezes:
            longest = max(freezes, key=lambda freeze: freeze.seconds)
            said += (
                f", in {wording.counted(len(freezes), 'freeze')}, the longest of "
                f"{_seconds(longest.seconds)} s from {longest.start_s:.1f} s on"
            )
        return [f"{said}; {self.shown} of {self.made} frames were shown."]

    def as_json(self) -> dict[str, Any]:
        """The same, as a tree for JSON."""
        return {
            "section": self.section,
            "frozen_percent": self.frozen_percent,
            "frames_made": self.made,
            "frames_shown": self.shown,
            "freezes": [asdict(freeze) for freeze in self.freezes],
        }


def is_video(settings: Tree) -> bool:
    """Whether a flow is a video whose packets can be told from its frames."""
    return settings["app"]["kind"] == "video" and is_open_loop(settings)


def worst(result: Result, flow: Flow) -> Video | None:
    """The direction that stands still for longer; None if no frame was made."""
    sides = frames.sides(result, flow.name)
    videos = [_Direction(result, flow, side).video() for side in sides]
    return max(videos, key=lambda video: video.frozen_percent, default=None)


class _Direction:
    """One direction of a video, from the traces of its run."""

    def __init__(self, result: Result, flow: Flow, side: str) -> None:
        self.flow, self.side = flow, side
        self.section = flow.section(side)
        self.summary = result.summary
        self.names: list[str] = flow.settings["paths"]
        of_side = (pl.col("flow") == flow.name) & (pl.col("side") == side)
        ends = pl.col("bytes").cum_sum()
        self.frames = (
            result.traces["frames"]
            .filter(of_side)
            .sort("index")
            .with_columns(ends.alias("end"), (ends - pl.col("bytes")).alias("begin"))
        )
        self.hops = result.traces["hops"]
        self.links = settings_of(result.scenario, result.cell)["links"]
        self.packets = (
            result.traces["packets"]
            .with_row_index("row")
            .filter(of_side & pl.col("kind").is_in(frames.DATA) & ~pl.col("is_copy"))
            .sort("tsn", "sent_s", maintain_order=True)
        )

    def video(self) -> Video:
        parts: dict[tuple[str, str, str], list[Freeze]] = {}
        for freeze in self._freezes():
            parts.setdefault((freeze.kind, freeze.path, freeze.link), []).append(freeze)
        found = [Part(*key, tuple(freezes)) for key, freezes in parts.items()]
        return Video(
            self.flow.name,
            self.side,
            self.section,
            int(self.summary[f"{self.section}.frames_shown"]),
            int(self.summary[f"{self.section}.frames_made"]),
            self.summary[f"{self.section}.frozen_percent"],
            tuple(sorted(found, key=lambda part: -part.seconds)),
            len(self.names) > 1,
            bool(self.flow.transport(self.side).get("nack", False)),
        )

    def _freezes(self) -> Iterator[Freeze]:
        rows = self.frames.rows(named=True)
        before = -1
        for number, row in enumerate(rows):
            if math.isnan(row["played_s"]):
                continue
            # What happened before the warm-up counts for nothing.
            if row["freeze_ms"] > 0 and row["played_s"] > self.flow.start_s:
                yield self._freeze(rows[before], rows[before + 1], row)
            before = number

    def _freeze(self, last: Tree, missing: Tree, shown: Tree) -> Freeze:
        """The freeze between two frames that were shown, in which this one was missing."""
        seconds = shown["freeze_ms"] / 1e3
        start = shown["played_s"] - seconds
        ended_by = "itself" if missing is shown else "key_frame"
        if missing["created_s"] - last["created_s"] > seconds / 2:
            return Freeze(start, shown["played_s"], "source", "", "", ended_by)
        (kind, path, link), is_again = self._waited_for(missing)
        if is_again and missing is shown:
            ended_by = "retransmission"
        return Freeze(start, shown["played_s"], kind, path, link, ended_by)

    def _waited_for(self, frame: Tree) -> tuple[tuple[str, str, str], bool]:
        """Why a frame was not there: kind, path and link; and whether it was sent again."""
        begin, end = (self.packets["tsn"].search_sorted(frame[key]) for key in ("begin", "end"))
        own = self.packets.slice(begin, end - begin)
        arrival = pl.col("delivered_s").fill_nan(math.inf).min().over("tsn")
        own = own.with_columns(came=arrival).sort("came", "tsn", "sent_s", maintain_order=True)
        if own.unique("tsn")["payload_bytes"].sum() < frame["bytes"]:
            return ("refused", "", ""), False
        latest = own.filter(pl.col("tsn") == own["tsn"][-1])
        first = latest.row(0, named=True)
        path = self.names[first["path"]]
        kind = FATES.get(first["fate"])
        if kind is not None:
            return (kind, path, first["dropped_at"]), latest.height > 1
        waited = first["sent_s"] - frame["created_s"]
        if waited > first["delivered_s"] - first["sent_s"]:
            return ("pacer", path, ""), False
        kind, link = self._slowest(first["row"])
        return (kind, path, link), False

    def _slowest(self, packet: int) -> tuple[str, str]:
        """The link at which a packet was longest, and whether that was down most of the time."""
        hops = self.hops.filter(pl.col("packet") == packet).fill_nan(0.0)
        took = hops.with_columns(took_s=pl.col("ended_s") - pl.col("entered_s"))
        hop = took.sort("took_s", descending=True).row(0, named=True)
        up = up_of(self.links[hop["link"]], hop["direction"])
        before, after = down_until(up, np.array([hop["entered_s"], hop["ended_s"]]))
        return "down" if after - before > hop["took_s"] / 2 else "late", hop["link"]


def _seconds(value: float) -> str:
    return wording.number(value, 3)
