"""Queue disciplines as classes of Python: the base class, and what it is given."""

import random
from dataclasses import dataclass

from anabranch._engine import Drops, Packet

HOOKS = ("enqueue", "dequeue", "not_before", "clear")
"""The methods that the engine calls."""


@dataclass(frozen=True)
class QueueSetup:
    """What a queue discipline begins with."""

    random: random.Random
    """The only random numbers that a discipline may draw.

    They follow from the seed and the replication of the run.
    """


class QueueDiscipline:
    """The queue of one direction of a link, to derive from.

    The link has a server that sends a packet at a time: the discipline keeps the others, and says
    which one is next and which are dropped or marked. Times are in nanoseconds since the run began
    and never decrease. A class must not look at the clock, nor draw random numbers but those of its
    setup: equal runs have equal results.

    Parameters
    ----------
    setup
        What it begins with. The settings of the scenario follow as keyword arguments, which a class
        that has any takes in an `__init__` of its own.

    Examples
    --------
    First in, first out, for at most 50 packets:

    >>> from collections import deque
    >>> from anabranch.plugins import QueueDiscipline
    >>> class Fifo(QueueDiscipline):
    ...     def __init__(self, setup, packets=50):
    ...         super().__init__(setup)
    ...         self.most, self.queue = packets, deque()
    ...
    ...     def enqueue(self, now, packet, drops):
    ...         if len(self.queue) < self.most:
    ...             self.queue.append(packet)
    ...         else:
    ...             drops.overflow(packet)
    ...
    ...     def dequeue(self, now, drops):
    ...         return self.queue.popleft() if self.queue else None
    ...
    ...     def clear(self, now, drops):
    ...         self.queue.clear()

    In a file `fifo.py`, it is the `queue` of a link in a scenario beside it as
    `{ kind = "python", class = "fifo:Fifo", settings = { packets = 20 } }`.
    """

    def __init__(self, setup: QueueSetup) -> None:
        self.setup = setup

    def enqueue(self, now: int, packet: Packet, drops: Drops) -> None:
        """Takes a packet that comes.

        Every packet either waits from now on or is given to `drops`, it or another one in its
        place. A packet that is kept is the same object later.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method enqueue")

    def dequeue(self, now: int, drops: Drops) -> Packet | None:
        """Gives the packet to send; called when the server is free.

        It may give others to `drops` before. None if nothing waits, or if what waits may not leave
        before `not_before`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method dequeue")

    def not_before(self) -> int | None:
        """When to ask again, after `dequeue` has given None while packets wait; later than now."""
        return None

    def clear(self, now: int, drops: Drops) -> None:
        """The link goes down and what waits is gone: forgets all packets.

        What is given to `drops` meanwhile is gone in any case.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method clear")
