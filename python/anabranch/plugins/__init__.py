"""Models of one's own as classes of Python, which a scenario names (docs/plugins.md).

A congestion control is a class derived from `CongestionControl`, one of media over RTP a class
derived from `MediaControl`, a path policy one derived from
`PathPolicy`, a queue discipline one derived from `QueueDiscipline`, a scheduler one derived from
`Scheduler`. A scenario has them as `cc` and `policy` of a transport and as `queue` of a link,
`{ kind = "python", class = "module:Class" }`, and as `scheduler`,
`{ python = { class = "module:Class" } }`. The module is a file beside the scenario or
one that Python can import. `examples` has classes that give the results of built-in models.
"""

from anabranch._engine import (
    AckEvent,
    ArrivalEvent,
    CongestionEvent,
    Cumulative,
    Drops,
    DuplicateEvent,
    Failover,
    HeartbeatPair,
    IdleEvent,
    LostEvent,
    MediaFeedback,
    Packet,
    PacketReport,
    PathEvent,
    PathStatus,
    PathView,
    Pending,
    Probe,
    ProbeEvent,
    RateSample,
    RecoveryEndEvent,
    Retransmission,
    RttEvent,
    Selection,
    SentEvent,
    UndoEvent,
)
from anabranch.plugins.control import CongestionControl, Setup, State
from anabranch.plugins.media import MediaControl, MediaSetup
from anabranch.plugins.policy import PathPolicy, PathPolicySetup
from anabranch.plugins.queue import QueueDiscipline, QueueSetup
from anabranch.plugins.scheduler import Scheduler, SchedulerSetup


def reload() -> None:
    """Forgets the sources of all classes, so that a changed one is read anew.

    For notebooks: by itself a module is read once in a process. Load the scenarios again after
    that; those that were loaded before have the new source, too, and with it another hash.

    Examples
    --------
    >>> from anabranch import plugins
    >>> plugins.reload()
    """
    from anabranch.plugins import loading  # noqa: PLC0415 - it needs what is above

    loading.reload()


__all__ = [
    "AckEvent",
    "ArrivalEvent",
    "CongestionControl",
    "CongestionEvent",
    "Cumulative",
    "Drops",
    "DuplicateEvent",
    "Failover",
    "HeartbeatPair",
    "IdleEvent",
    "LostEvent",
    "MediaControl",
    "MediaFeedback",
    "MediaSetup",
    "Packet",
    "PacketReport",
    "PathEvent",
    "PathPolicy",
    "PathPolicySetup",
    "PathStatus",
    "PathView",
    "Pending",
    "Probe",
    "ProbeEvent",
    "QueueDiscipline",
    "QueueSetup",
    "RateSample",
    "RecoveryEndEvent",
    "Retransmission",
    "RttEvent",
    "Scheduler",
    "SchedulerSetup",
    "Selection",
    "SentEvent",
    "Setup",
    "State",
    "UndoEvent",
    "reload",
]
