"""A telephone call over an association: both ends talk, and it is rated like a simulated call.

Each end sends a frame every packetisation interval on stream 0, unordered, and rates what it hears.
One-way delays are computed from the clocks of both ends, whose difference is estimated from round
trips (as NTP does it, from the fastest of them); this assumes that both directions take equally
long. At the end each tells the other what it has heard, on stream 1, where the clocks are compared,
too.
"""

import asyncio
import json
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch._engine import LiveCall
from anabranch.errors import AnabranchError, LiveError
from anabranch.live.waiting import Changed, until
from anabranch.support.arguments import keys
from anabranch.support.settings_text import settings_text

from .association import Abandoned, Association, AssociationClosedError, Message

SPEECH, TALK_ABOUT = 0, 1
"""Streams: one for frames, one for what the ends tell each other about them."""
_INDEX_BYTES = 4
_PROBES = 8
"""Round trips to compare the clocks before the first frame."""
_PROBE_EVERY = 0.5
_PATIENCE = 10.0
"""Seconds that the peer may take to report what it has heard."""
_RATED_SECONDS = 10
_MOST = 1e15
"""The largest number accepted in the peer's report."""


_WAYS = {
    "a_to_b": "From the caller to the called end",
    "b_to_a": "From the called end to the caller",
}

_LIKINGS = (
    (4.34, "so users are very satisfied"),
    (4.03, "so users are satisfied"),
    (3.60, "so some users are dissatisfied"),
    (3.10, "so many users are dissatisfied"),
    (2.58, "so nearly all users are dissatisfied"),
)
"""The least MOS for each judgement."""


def _liking(mos: float) -> str:
    return next((words for least, words in _LIKINGS if mos >= least), "which is not recommended")


@dataclass
class CallOutcome:
    """What came of a call."""

    scalars: dict[str, float] = field(default_factory=dict)
    """`a_to_b.mos` and so on, as for a simulated call; A is the end that called."""
    round_trip_ms: float = math.nan
    """The fastest round trip; the delays may be wrong by half of it."""

    @property
    def sentence(self) -> str:
        """What came out, the worse direction first.

        The words for a MOS are those of ITU-T G.107 (12/2011), Annex B, table B.1.
        """
        known = sorted(
            (self.scalars[f"{way}.mos"], way)
            for way in _WAYS
            if not math.isnan(self.scalars.get(f"{way}.mos", math.nan))
        )
        if not known:
            return "Neither end heard enough of the other to rate the call."
        mos, way = known[0]
        lost, late = (self.scalars.get(f"{way}.{name}", math.nan) for name in ("lost", "late"))
        sent = self.scalars.get(f"{way}.sent", math.nan)
        delay = self.scalars.get(f"{way}.mean_delay_ms", math.nan)
        missing = f"{lost + late:,.0f} of {sent:,.0f} frames were not played"
        text = (
            f"{_WAYS[way]} the MOS is {mos:.2f}, {_liking(mos)}: {missing}, and they took"
            f" {delay:.3g} ms one way"
        )
        if len(known) == 1:
            return f"{text}; nothing is known of the other direction."
        return f"{text}; {_WAYS[known[1][1]].lower()} it is {known[1][0]:.2f}."


@dataclass(frozen=True)
class Sight:
    """The state of a call in progress."""

    seconds: float
    mos: float
    """The MOS of the last ten seconds; NaN before the first full second."""
    heard: Mapping[str, float]


class _Clocks:
    """How far the peer's clock is ahead of ours."""

    def __init__(self) -> None:
        self.round_trip = math.inf
        self.ahead = 0.0

    def take(self, asked: float, at_peer: float, answered: float) -> None:
        round_trip = answered - asked
        if 0.0 <= round_trip < self.round_trip:
            self.round_trip = round_trip
            self.ahead = at_peer - (asked + answered) / 2


def check_call(settings: Mapping[str, object]) -> None:
    """Raises an AnabranchError if no call is possible with these settings."""
    LiveCall(settings_text(keys("settings", settings)), 0)


class Talk:
    """One end of a call over an association."""

    def __init__(
        self,
        association: Association,
        settings: Mapping[str, object] | None = None,
        *,
        calls: bool,
    ) -> None:
        self._association = association
        self._calls = calls
        self._settings = dict(keys("settings", settings))
        self._clocks = _Clocks()
        self._call: LiveCall | None = None
        self._peer_start: float | None = None
        self._peer_heard: dict[str, float] | None = None
        self._began = 0.0
        self._answered = Changed()
        self._numbers: set[int] = set()

    async def run(
        self, watch: Callable[[Sight], None] | None = None, *, stop: asyncio.Event | None = None
    ) -> CallOutcome:
        """Talks until the call's duration is over, the peer ends it, or `stop` is set."""
        listening = asyncio.create_task(self._listen())
        giving_up = asyncio.create_task(self._watch_events())
        try:
            await self._agree(listening)
            await self._talk(watch, stop)
            return await self._compare()
        finally:
            for task in (listening, giving_up):
                task.cancel()
            await asyncio.gather(listening, giving_up, return_exceptions=True)

    async def _agree(self, listening: asyncio.Task[None]) -> None:
        """Compares the clocks, and tells the peer the settings of the call."""
        if self._calls:
            self._call = LiveCall(settings_text(self._settings), secrets.randbits(32))
            await self._tell({"call": self._settings})
        for _ in range(_PROBES):
            await self._tell({"asked": time.monotonic()})
            await asyncio.sleep(0.02)
        try:
            async with asyncio.timeout(_PATIENCE):
                await until(self._answered, lambda: self._has_agreed() or listening.done())
        except TimeoutError:
            raise LiveError("the peer does not answer as in a call") from None
        if listening.done():
            listening.result()
            raise AssociationClosedError(self._association.reason or "lost")

    def _has_agreed(self) -> bool:
        return self._call is not None and not math.isinf(self._clocks.round_trip)

    async def _talk(
        self, watch: Callable[[Sight], None] | None, stop: asyncio.Event | None
    ) -> None:
        call = self._ready()
        self._began = time.monotonic()
        await self._tell({"start": self._began})
        index, next_probe, next_sight = 0, 0.0, 1.0
        frame = secrets.token_bytes(max(call.frame_bytes - _INDEX_BYTES, 0))
        while not (stop and stop.is_set()) and self._peer_heard is None:
            speaks = call.make_frame()
            if speaks is None:
                return
            if speaks:
                content = index.to_bytes(_INDEX_BYTES, "big") + frame
                try:
                    number = self._association.send_now(
                        content, stream=SPEECH, unordered=True, retransmissions=0
                    )
                except AssociationClosedError:
                    return
                if number is None:
                    call.failed(was_refused=True)
                else:
                    self._numbers.add(number)
            index += 1
            passed = time.monotonic() - self._began
            if passed >= next_probe:
                next_probe = passed + _PROBE_EVERY
                await self._tell({"asked": time.monotonic()})
            if watch is not None and passed >= next_sight:
                next_sight = passed + 1.0
                watch(self._sight(passed))
            await asyncio.sleep(max(0.0, self._began + index * call.period_s - time.monotonic()))

    def _sight(self, passed: float) -> Sight:
        call = self._ready()
        # Frames of the current second may still arrive, so it is not rated yet.
        rated = call.ratings()[:-1][-_RATED_SECONDS:]
        return Sight(passed, sum(rated) / len(rated) if rated else math.nan, call.heard())

    async def _compare(self) -> CallOutcome:
        """Waits for the last frames, and for what the peer has heard."""
        await asyncio.sleep(1.0)
        heard = self._ready().heard()
        try:
            await self._tell({"heard": heard})
            async with asyncio.timeout(_PATIENCE):
                await until(
                    self._answered,
                    lambda: self._peer_heard is not None or self._association.reason is not None,
                )
        except (AssociationClosedError, TimeoutError):
            pass
        ours, theirs = ("b_to_a", "a_to_b") if self._calls else ("a_to_b", "b_to_a")
        scalars = {f"{ours}.{name}": value for name, value in heard.items()}
        scalars |= {f"{theirs}.{name}": value for name, value in (self._peer_heard or {}).items()}
        return CallOutcome(dict(sorted(scalars.items())), self._clocks.round_trip * 1e3)

    async def _listen(self) -> None:
        try:
            async for message in self._association:
                if message.stream == SPEECH:
                    self._hear(message)
                else:
                    await self._hear_about(message)
                self._answered.set()
        except AssociationClosedError:
            pass
        finally:
            self._answered.set()

    def _hear(self, message: Message) -> None:
        if self._call is None or self._peer_start is None or len(message.data) < _INDEX_BYTES:
            return
        index = int.from_bytes(message.data[:_INDEX_BYTES], "big")
        made = self._peer_start - self._clocks.ahead + index * self._call.period_s
        self._call.arrived(index, max(0.0, time.monotonic() - made))

    async def _hear_about(self, message: Message) -> None:
        try:
            told: Any = json.loads(message.data)
        except (ValueError, RecursionError):
            return
        match told:
            case {"call": dict(settings)} if not self._calls and self._call is None:
                self._settings = settings
                try:
                    self._call = LiveCall(json.dumps(settings), secrets.randbits(32))
                except AnabranchError as error:
                    raise LiveError(f"the peer asks for an impossible call: {error}") from error
            case {"asked": float(asked)}:
                await self._tell({"answer": asked, "at": time.monotonic()})
            case {"answer": float(asked), "at": float(at)}:
                self._clocks.take(asked, at, time.monotonic())
            case {"start": float(start)}:
                self._peer_start = start
            case {"heard": dict(heard)}:
                # The peer's report is printed, so only our names are accepted, and only finite
                # numbers in bounds.
                names = () if self._call is None else self._call.heard()
                self._peer_heard = {
                    name: float(heard[name])
                    for name in names
                    if isinstance(heard.get(name), int | float) and abs(heard[name]) < _MOST
                }

    async def _watch_events(self) -> None:
        async for event in self._association.events():
            if isinstance(event, Abandoned) and event.number in self._numbers:
                self._numbers.discard(event.number)
                self._ready().failed(was_refused=False)

    async def _tell(self, what: Mapping[str, object]) -> None:
        await self._association.send(json.dumps(what).encode(), stream=TALK_ABOUT)

    def _ready(self) -> LiveCall:
        assert self._call is not None, "the ends have agreed"
        return self._call
