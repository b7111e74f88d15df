"""Plug-ins that give the results of built-in models, bit for bit: to begin one's own with.

In a scenario, `{ kind = "python", class = "anabranch.plugins.examples:Reno" }`.
"""

import math
from collections import deque
from collections.abc import Sequence

from anabranch._engine import (
    AckEvent,
    CongestionEvent,
    Drops,
    IdleEvent,
    Packet,
    PathEvent,
    PathStatus,
    PathView,
    Pending,
    RecoveryEndEvent,
    Selection,
    UndoEvent,
)
from anabranch.plugins.control import CongestionControl, Setup, State
from anabranch.plugins.policy import PathPolicy, PathPolicySetup
from anabranch.plugins.queue import QueueDiscipline, QueueSetup
from anabranch.plugins.scheduler import Scheduler

_MAX_BYTES = 1 << 30
"""The most that TCP's window field can express (RFC 7323 section 2.3)."""
_INFINITE = (1 << 32) - 1
"""The threshold before the first loss, in segments."""


class Reno(CongestionControl):
    """Reno with NewReno's recovery (RFC 5681, RFC 6582), as the kind `reno` with its defaults.

    The window is in whole segments, as Linux counts it. A class of one's own that differs only in
    how the window grows and shrinks overrides `grow` and `threshold`.

    Parameters
    ----------
    setup
        What it begins with; the rules of Linux 2.6.20 are not among those it knows.

    Raises
    ------
    ValueError
        If the rules are those of Linux 2.6.20.

    Examples
    --------
    Scalable TCP's answer to a loss, an eighth less:

    >>> from anabranch.plugins.examples import Reno
    >>> class Gentle(Reno):
    ...     def threshold(self, event):
    ...         return max(self.cwnd - self.cwnd // 8, 2)
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.rules == "linux_2_6_20":
            raise ValueError("Linux 2.6.20 had rules of its own; use another profile")
        self.mss = setup.mss
        self.most = _MAX_BYTES // setup.mss
        self.initial = min(max(setup.initial_cwnd // setup.mss, 1), self.most)
        self.cwnd = self.initial
        self.ssthresh = _INFINITE
        self.count = 0
        """Segments acknowledged since the window last grew in congestion avoidance."""
        self.phase = "open"
        """`open`, `reducing` after a loss or a mark, or `loss` after a timeout."""
        self.loss_ends_at: int | None = None
        self.progressed = False
        self.prior = (0, 0)
        """The window and the threshold that an undo restores."""

    def limits(self) -> int:
        """The window in bytes."""
        return self.cwnd * self.mss

    def state(self) -> State:
        """Window, threshold and phase."""
        word = {"loss": "loss", "reducing": "recovery"}.get(self.phase)
        if word is None:
            word = "slow_start" if self.cwnd < self.ssthresh else "congestion_avoidance"
        ssthresh = self.ssthresh * self.mss
        return State(self.cwnd * self.mss, ssthresh if ssthresh < _INFINITE else None, word)

    def grow(self, event: AckEvent) -> None:
        """Data was acknowledged cumulatively outside recovery: the window may grow."""
        if not event.is_window_limited:
            return
        acked = event.segments_acked
        if self.cwnd < self.ssthresh:
            used = min(acked, self.ssthresh - self.cwnd)
            self.set(self.cwnd + used)
            acked -= used
            if acked == 0:
                return
        # One segment more for each window that is acknowledged (Linux: tcp_cong_avoid_ai).
        per = self.cwnd
        if self.count >= per:
            self.count = 0
            self.set(self.cwnd + 1)
        self.count += acked
        if self.count >= per:
            growth, self.count = divmod(self.count, per)
            self.set(self.cwnd + growth)

    def threshold(self, event: CongestionEvent) -> int:  # noqa: ARG002 - for those that override it
        """The slow-start threshold in segments after a sign of congestion."""
        return max(self.cwnd // 2, 2)

    def set(self, segments: int) -> None:
        """Sets the window, at least a segment and at most what TCP can express."""
        self.cwnd = min(max(segments, 1), self.most)

    def on_ack(self, event: AckEvent) -> None:
        """Leaves a state that is over; outside recovery the window grows."""
        self.progressed = self.progressed or event.cumulative_advanced
        if self.phase == "reducing" and not event.in_recovery:
            self.phase = "open"
        elif self.phase == "loss":
            if self.loss_ends_at is None:
                self.loss_ends_at = event.sent_to
            if event.acknowledged_to >= self.loss_ends_at:
                self.phase = "open"
        if event.cumulative_advanced and not event.in_recovery:
            self.grow(event)

    def on_congestion(self, event: CongestionEvent) -> None:
        """Reduces the window, once for a window of data."""
        if event.kind == "restart":
            self.set(1)
        elif event.kind == "timeout":
            # RFC 5681 section 3.1: the threshold stays when a retransmission is lost.
            if self.phase == "open" or (self.phase == "loss" and self.progressed):
                self._reduce(event)
            self.set(event.remaining // self.mss + 1)
            self.count = 0
            self.loss_ends_at, self.progressed = None, False
            self.phase = "loss"
        elif self.phase == "open" or (self.phase == "loss" and event.kind == "fast_retransmit"):
            self._reduce(event)
            self.set(self.ssthresh)
            self.count = 0
            self.phase = "reducing"

    def on_recovery_end(self, event: RecoveryEndEvent) -> None:
        """The window is the threshold."""
        if self.phase == "reducing":
            reached = _INFINITE if event.reached is None else event.reached // self.mss
            self.set(min(reached, self.ssthresh))
        self.phase = "open"

    def on_undo(self, event: UndoEvent) -> None:  # noqa: ARG002 - the engine gives it
        """Window and threshold are as before the last reduction."""
        cwnd, ssthresh = self.prior
        if cwnd > 0:
            self.set(max(self.cwnd, cwnd))
            self.ssthresh = max(self.ssthresh, ssthresh)
            self.prior = (0, 0)
        self.phase = "open"

    def on_idle(self, event: IdleEvent) -> None:
        """After a time without data, the window goes back towards the initial one."""
        if event.idle <= event.rto:
            return
        self.ssthresh = self._current_ssthresh()
        floor = min(self.initial, self.cwnd)
        if self.setup.rules == "rfc" or event.rto == 0:
            self.set(floor)  # RFC 5681 section 4.1
        else:
            # Linux: halved once per timeout (tcp_cwnd_restart).
            left = event.idle
            while left > event.rto and self.cwnd > floor:
                self.cwnd //= 2
                left -= event.rto
            self.set(max(self.cwnd, floor))
        self.count = 0

    def _reduce(self, event: CongestionEvent) -> None:
        self.prior = (self.cwnd, self._current_ssthresh())
        self.ssthresh = max(self.threshold(event), 1)

    def _current_ssthresh(self) -> int:
        if self.phase == "reducing":
            return self.ssthresh
        return max(self.ssthresh, self.cwnd // 2 + self.cwnd // 4)


class Codel(QueueDiscipline):
    """CoDel (RFC 8289), as the kind `codel` with exact square roots.

    Parameters
    ----------
    setup
        What it begins with.
    packets
        Most packets that wait.
    target_ms, interval_ms
        Acceptable standing delay, and for how long it is above that before the first drop, in
        milliseconds.
    mtu
        Nothing is dropped while no more bytes than this wait behind the packet.
    ecn
        Whether it marks packets that can be marked, instead of dropping them.

    Examples
    --------
    >>> from anabranch.plugins.examples import Codel
    >>> class Patient(Codel):
    ...     def __init__(self, setup):
    ...         super().__init__(setup, target_ms=20)
    """

    def __init__(
        self,
        setup: QueueSetup,
        *,
        packets: int = 1000,
        target_ms: float = 5,
        interval_ms: float = 100,
        mtu: int = 1500,
        ecn: bool = False,
    ) -> None:
        super().__init__(setup)
        self.packets, self.mtu, self.ecn = packets, mtu, ecn
        self.target, self.interval = round(target_ms * 1e6), round(interval_ms * 1e6)
        self.queue: deque[Packet] = deque()
        self.bytes = 0
        self.first_above = 0
        """When the delay will have been above the target for an interval; 0 while it is below."""
        self.is_dropping = False
        self.drop_next = 0
        self.count = 0
        """Drops since dropping began."""
        self.last_count = 0

    def enqueue(self, now: int, packet: Packet, drops: Drops) -> None:  # noqa: ARG002
        """Drops what finds the queue full."""
        if len(self.queue) < self.packets:
            self.queue.append(packet)
            self.bytes += packet.size
        else:
            drops.overflow(packet)

    def dequeue(self, now: int, drops: Drops) -> Packet | None:
        """The next packet to send (RFC 8289 section 5.5)."""
        packet, is_sustained = self._pop(now)
        if packet is None:
            self.is_dropping = False
            return None
        if self.is_dropping:
            self.is_dropping = is_sustained
            while self.is_dropping and now >= self.drop_next:
                self.count += 1
                if self.ecn and packet.mark():
                    self.drop_next = self._control_law(self.drop_next)
                    return packet
                drops.early(packet)
                packet, is_sustained = self._pop(now)
                if packet is None:
                    self.is_dropping = False
                    return None
                if is_sustained:
                    self.drop_next = self._control_law(self.drop_next)
                else:
                    self.is_dropping = False
        elif is_sustained:
            is_marked = self.ecn and packet.mark()
            self._begin(now)
            if not is_marked:
                drops.early(packet)
                packet, _ = self._pop(now)
        return packet

    def clear(self, now: int, drops: Drops) -> None:
        """The link is down: takes everything out."""
        while self.dequeue(now, drops) is not None:
            pass

    def _pop(self, now: int) -> tuple[Packet | None, bool]:
        """The packet that has waited longest, and whether the delay is sustained (section 5.6)."""
        if not self.queue:
            self.first_above = 0
            return None, False
        packet = self.queue.popleft()
        self.bytes -= packet.size
        if now - packet.arrived < self.target or self.bytes <= self.mtu:
            self.first_above = 0
            return packet, False
        if self.first_above == 0:
            self.first_above = now + self.interval
            return packet, False
        return packet, now >= self.first_above

    def _begin(self, now: int) -> None:
        """Dropping begins: where it left off if that is not long ago."""
        self.is_dropping = True
        since_last = self.count - self.last_count
        is_recent = max(now - self.drop_next, 0) < 16 * self.interval
        self.count = since_last if since_last > 1 and is_recent else 1
        self.last_count = self.count
        self.drop_next = self._control_law(now)

    def _control_law(self, start: int) -> int:
        return start + int(self.interval / math.sqrt(self.count))


class MinRtt(Scheduler):
    """The path with the smallest smoothed round-trip time of those with room, as `min_rtt`.

    A path that has not been measured yet comes first, so that it will be.

    Examples
    --------
    >>> from anabranch.plugins.examples import MinRtt
    >>> class Cautious(MinRtt):
    ...     def schedule(self, data, paths):
    ...         return super().schedule(data, [path for path in paths if not path.in_recovery])
    """

    def schedule(self, data: Pending, paths: Sequence[PathView]) -> int | None:  # noqa: ARG002
        """The fastest path; backups only while no other path is usable."""
        usable = [path for path in paths if path.is_usable]
        if any(not path.is_backup for path in usable):
            usable = [path for path in usable if not path.is_backup]
        rooms = [path for path in usable if path.has_room]
        if not rooms:
            return None
        return min(rooms, key=_quickest).path


def _quickest(path: PathView) -> tuple[int, int]:
    return -1 if path.srtt is None else path.srtt, path.path


class DelayCentric(PathPolicy):
    """Delay-centric selection (Kelly et al.), as the kind `delay_centric`.

    The usable path with the smallest smoothed round-trip time is the primary one; failures are
    left to the standard.

    Parameters
    ----------
    setup
        What it begins with.
    margin_ms
        How much smaller the other path's smoothed round-trip time must be, in milliseconds.
    dwell_ms
        How long a new primary path is kept at least, while it is active, in milliseconds.

    Examples
    --------
    >>> from anabranch.plugins.examples import DelayCentric
    >>> class Settled(DelayCentric):
    ...     def __init__(self, setup):
    ...         super().__init__(setup, margin_ms=10, dwell_ms=1000)
    """

    def __init__(
        self, setup: PathPolicySetup, *, margin_ms: float = 0, dwell_ms: float = 0
    ) -> None:
        super().__init__(setup)
        self.margin, self.dwell = round(margin_ms * 1e6), round(dwell_ms * 1e6)
        self.changed_at: int | None = None

    def select(self, event: PathEvent, paths: Sequence[PathStatus], selection: Selection) -> None:
        """At each new round-trip time, the fastest path becomes the primary one."""
        if event.kind != "srtt_updated":
            super().select(event, paths, selection)
            return
        if self.changed_at is not None and event.now - self.changed_at < self.dwell:
            return
        old = paths[selection.primary].srtt
        if old is None:
            return
        best, new = selection.primary, None
        for path in paths:
            srtt = path.srtt
            if srtt is None or (self.setup.skip_failed and not path.is_usable):
                continue
            if new is None or srtt < new:
                best, new = path.path, srtt
        if new is not None and new + self.margin < old:
            selection.switch(best, "smaller delay", numbers=(new / 1e6, old / 1e6), unit="ms")
            self.changed_at = event.now
