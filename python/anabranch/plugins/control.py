"""Congestion controls as classes of Python: the base class, and what it is given and answers."""

import random
from dataclasses import dataclass
from typing import Literal, NamedTuple

from anabranch._engine import (
    AckEvent,
    ArrivalEvent,
    CongestionEvent,
    DuplicateEvent,
    IdleEvent,
    LostEvent,
    ProbeEvent,
    RecoveryEndEvent,
    RttEvent,
    SentEvent,
    UndoEvent,
)

HOOKS = (
    "on_ack",
    "on_arrival",
    "on_congestion",
    "on_duplicate",
    "on_idle",
    "on_lost",
    "on_probe",
    "on_recovery_end",
    "on_rtt_sample",
    "on_sent",
    "on_undo",
    "limits",
    "state",
    "least_burst",
    "owns_recovery",
)
"""The methods that the engine calls."""


@dataclass(frozen=True)
class Setup:
    """What a congestion control begins with."""

    mss: int
    """Bytes of data in a full segment."""
    initial_cwnd: int
    """The window to start with, in bytes."""
    rules: Literal["linux_2_6_20", "linux_6", "rfc"]
    """Whose form of an algorithm is meant, where its settings leave it open."""
    random: random.Random
    """The only random numbers that a control may draw.

    They follow from the seed and the replication of the run.
    """


class State(NamedTuple):
    """A control's variables, for traces and for the transport's recovery from losses."""

    cwnd: int
    """Congestion window in bytes."""
    ssthresh: int | None
    """Slow-start threshold in bytes; None while there is none.

    In fast recovery, TCP reduces what is on its way to as much (RFC 6937).
    """
    phase: str
    """The phase, in the algorithm's own word."""


class CongestionControl:
    """The congestion control of one path, to derive from.

    It is told what happens by the methods that begin with `on_`, of which only those that a class
    defines are called, and acts through `limits`. Amounts are in bytes, times in nanoseconds. A
    class must not look at the clock, nor draw random numbers but those of its setup: equal runs
    have equal results.

    Parameters
    ----------
    setup
        What it begins with. The settings of the scenario follow as keyword arguments, which a class
        that has any takes in an `__init__` of its own.

    Examples
    --------
    A window that always has 20 segments:

    >>> from anabranch.plugins import CongestionControl
    >>> class Fixed(CongestionControl):
    ...     def __init__(self, setup, segments=20):
    ...         super().__init__(setup)
    ...         self.window = segments * setup.mss
    ...
    ...     def limits(self):
    ...         return self.window

    In a file `fixed.py`, it is the `cc` of a scenario beside it as
    `{ kind = "python", class = "fixed:Fixed", settings = { segments = 10 } }`.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def limits(self) -> int | tuple[int, float | None]:
        """The limits for sending.

        It is called once after each of the other hooks, when the transport asks.

        Returns
        -------
        The window in bytes, from a segment to 2^30; or a tuple of that and the pacing rate in
        bit/s, from 1 to 10^13, or None for no pace of its own.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method limits")

    def state(self) -> State:
        """Its variables; by itself the window as threshold, too, and no word for the phase."""
        limits = self.limits()
        window = limits if isinstance(limits, int) else limits[0]
        return State(window, window, "")

    def on_ack(self, event: AckEvent) -> None:
        """Data was acknowledged."""

    def on_congestion(self, event: CongestionEvent) -> None:
        """Data was lost, or the path was marked congested."""

    def on_duplicate(self, event: DuplicateEvent) -> None:
        """A duplicate acknowledgement arrived in fast recovery.

        Only for a control that owns recovery, where acknowledgements are not selective.
        """

    def on_idle(self, event: IdleEvent) -> None:
        """Nothing was sent on the path for some time."""

    def on_recovery_end(self, event: RecoveryEndEvent) -> None:
        """Recovery is over: all that was outstanding when it began is acknowledged."""

    def on_undo(self, event: UndoEvent) -> None:
        """The last congestion event was a mistake: nothing had been lost."""

    def on_arrival(self, event: ArrivalEvent) -> None:
        """An acknowledgement arrives; its losses are found and `on_ack` is called after that."""

    def on_lost(self, event: LostEvent) -> None:
        """A segment is taken for lost."""

    def on_probe(self, event: ProbeEvent) -> None:
        """The path is about to be probed: window and threshold become the probe's (SCTP)."""

    def on_rtt_sample(self, event: RttEvent) -> None:
        """A round-trip time was measured."""

    def on_sent(self, event: SentEvent) -> None:
        """Data was sent."""

    def least_burst(self) -> int:
        """The fewest segments that are sent together where there are as many, from 1 to 1000."""
        return 2

    def owns_recovery(self) -> bool:
        """Whether the control itself sets the limits in recovery.

        For all others, TCP applies proportional rate reduction (RFC 6937), towards the threshold of
        `state`.
        """
        return False
