"""Congestion controls of media as classes of Python: the base class, and what it is given."""

import random
from dataclasses import dataclass

from anabranch._engine import MediaFeedback

HOOKS = ("on_sent", "on_feedback", "on_tick", "next_tick", "limits")
"""The methods that the engine calls."""


@dataclass(frozen=True)
class MediaSetup:
    """What a congestion control of media begins with."""

    random: random.Random
    """The only random numbers that a control may draw.

    They follow from the seed and the replication of the run.
    """


class MediaControl:
    """The congestion control of a flow of media over RTP, to derive from.

    It is told what is sent and what feedback says of it, and acts through `limits`. Amounts are in
    bytes, times in nanoseconds, rates in bit/s. A class must not look at the clock, nor draw random
    numbers but those of its setup: equal runs have equal results.

    Parameters
    ----------
    setup
        What it begins with. The settings of the scenario follow as keyword arguments, which a class
        that has any takes in an `__init__` of its own.

    Examples
    --------
    A rate that grows by 5 % with each feedback without losses, and falls by a half otherwise:

    >>> from anabranch.plugins import MediaControl
    >>> class Careful(MediaControl):
    ...     def __init__(self, setup, growth=1.05):
    ...         super().__init__(setup)
    ...         self.growth, self.rate = growth, 150_000
    ...
    ...     def on_feedback(self, feedback):
    ...         lost = any(packet.arrival is None for packet in feedback.packets)
    ...         self.rate = min(max(self.rate * (0.5 if lost else self.growth), 150_000), 1_500_000)
    ...
    ...     def limits(self):
    ...         return self.rate

    In a file `careful.py`, it is the `cc` of an RTP transport in a scenario beside it as
    `{ kind = "python", class = "careful:Careful", settings = { growth = 1.02 } }`.
    """

    def __init__(self, setup: MediaSetup) -> None:
        self.setup = setup

    def limits(self) -> float | tuple[float, float]:
        """The target rate for the encoder, or that and the rate at which packets leave.

        It is called once after each of the other hooks, when the transport asks.

        Returns
        -------
        The target in bit/s, a number from 1 to 10^13; or a tuple of that and the pacing rate, which
        by itself is one and a half times the target.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method limits")

    def on_sent(self, now: int, size: int) -> None:
        """A packet of so many bytes, with all headers, leaves the pacer."""

    def on_feedback(self, feedback: MediaFeedback) -> None:
        """The receiver has reported on packets (RFC 8888)."""

    def on_tick(self, now: int) -> None:
        """The time that `next_tick` gave has come, also while there is no feedback."""

    def next_tick(self) -> int | None:
        """When `on_tick` is to be called, in nanoseconds since the run began; later than now.

        It is called once after each of the other hooks. None, as by itself, for no tick.
        """
        return None
