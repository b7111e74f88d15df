"""Path policies as classes of Python: the base class, and what it is given."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch._engine import (
    Failover,
    HeartbeatPair,
    PathEvent,
    PathStatus,
    Probe,
    Retransmission,
    Selection,
)

HOOKS = ("select", "retransmission_path", "measures", "next_tick", "next_request")
"""The methods that the engine calls."""


@dataclass(frozen=True)
class PathPolicySetup:
    """What a path policy begins with."""

    failover: Failover
    """The standard's failover (RFC 9260 section 6.4) with the settings of the transport's profile.

    `PathPolicy` leaves to it whatever a class does not do itself.
    """
    skip_failed: bool
    """Whether policies of this profile that compare paths pass failed ones over."""
    random: random.Random
    """The only random numbers that a policy may draw.

    They follow from the seed and the replication of the run.
    """


class PathPolicy:
    """Decides which path of an SCTP association carries data, to derive from.

    Each end of an association has one. A class that defines nothing is the standard's failover;
    one that defines `select` leaves events that it does not care about to that, with
    `super().select(event, paths, selection)`. Amounts are in bytes, times in nanoseconds; paths
    have the numbers 0, 1 and so on, in the order of the flow. A class must not look at the clock,
    nor draw random numbers but those of its setup: equal runs have equal results.

    Parameters
    ----------
    setup
        What it begins with. The settings of the scenario follow as keyword arguments, which a class
        that has any takes in an `__init__` of its own.

    Examples
    --------
    The path with the smallest smoothed round-trip time becomes the primary one:

    >>> from anabranch.plugins import PathPolicy
    >>> class Fastest(PathPolicy):
    ...     def select(self, event, paths, selection):
    ...         super().select(event, paths, selection)
    ...         usable = [path for path in paths if path.is_usable and path.srtt is not None]
    ...         best = min(usable, key=lambda path: path.srtt, default=None)
    ...         if event.kind == "srtt_updated" and best and best.path != selection.primary:
    ...             selection.switch(best.path, "fastest")

    In a file `fastest.py`, it is the `policy` of a flow over SCTP in a scenario beside it as
    `{ kind = "python", class = "fastest:Fastest" }`.
    """

    def __init__(self, setup: PathPolicySetup) -> None:
        self.setup = setup

    def select(self, event: PathEvent, paths: Sequence[PathStatus], selection: Selection) -> None:
        """Something happened to a path: changes `selection` if need be.

        By itself it does what the standard says: it leaves a primary path that has failed, and
        returns to it.
        """
        self.setup.failover.select(event, paths, selection)

    def retransmission_path(
        self, loss: Retransmission, paths: Sequence[PathStatus], selection: Selection
    ) -> int:
        """Decides where lost data is retransmitted; changes of `selection` do not count here.

        Returns
        -------
        The number of a path; by itself what the profile of the transport says.
        """
        return self.setup.failover.retransmission_path(loss, paths, selection)

    def measures(self) -> bool:
        """Whether it needs ticks, requests, or all that `PathStatus` has.

        It is asked once, before the association opens; an endpoint spends time on these only if
        so. A class that defines `next_tick` or `next_request` measures by itself.
        """
        return False

    def next_tick(self) -> int | None:
        """When it wants the next event `tick`, in nanoseconds since the run began.

        It is asked after every event while the association is open, and after a tick for a later
        time. None: not at all.
        """
        return None

    def next_request(self) -> HeartbeatPair | Probe | None:
        """Its next request; called after every event until it gives None."""
        return None
