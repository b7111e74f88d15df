"""Schedulers as classes of Python: the base class, and what it is given."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch._engine import PathView, Pending

HOOKS = ("schedule", "on_blocked")
"""The methods that the engine calls."""


@dataclass(frozen=True)
class SchedulerSetup:
    """What a scheduler begins with."""

    random: random.Random
    """The only random numbers that a scheduler may draw.

    They follow from the seed and the replication of the run.
    """


class Scheduler:
    """Decides on which path the next data is sent where several are used, to derive from.

    Multipath TCP has one at each end, and SCTP with load sharing. A class must not look at the
    clock, nor draw random numbers but those of its setup: equal runs have equal results.

    Parameters
    ----------
    setup
        What it begins with. The settings of the scenario follow as keyword arguments, which a class
        that has any takes in an `__init__` of its own.

    Examples
    --------
    The first path with room:

    >>> from anabranch.plugins import Scheduler
    >>> class First(Scheduler):
    ...     def schedule(self, data, paths):
    ...         return next((path.path for path in paths if path.has_room), None)

    In a file `first.py`, it is the `scheduler` of a flow in a scenario beside it as
    `{ python = { class = "first:First" } }`.
    """

    def __init__(self, setup: SchedulerSetup) -> None:
        self.setup = setup

    def schedule(self, data: Pending, paths: Sequence[PathView]) -> int | Sequence[int] | None:
        """Decides where this data is sent.

        Returns
        -------
        The number of a path with room; several different ones for the same data on each, of which
        the first answers for it; or None: nothing is sent for now. The next acknowledgement or
        timer asks again, so that waiting makes sense only while data is outstanding.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method schedule")

    def on_blocked(self) -> None:
        """The receive window keeps data from leaving although a path has room."""
