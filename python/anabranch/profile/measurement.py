"""What a measurement says about a path, whatever kind of file it comes from."""

from dataclasses import dataclass, field
from pathlib import Path

from .intervals import Vector
from .loss import Flags


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays in the order of their packets."""

    seconds: Vector
    legs: int
    """The number of directions that a delay covers: 2 for a round trip, 1 for one way."""
    what: str
    absolute: bool = True
    """Whether these are absolute delays; otherwise they only say how delays differ."""
    resolution_s: float = 0.0
    """The steps in which delays are given, in seconds."""
    times_s: Vector | None = None
    """When each delay was measured, by the clock of the losses' times."""
    octets: Vector | None = None
    """The packets' lengths, where their transmission is part of the delay."""


@dataclass(frozen=True, slots=True)
class LossSequence:
    """Which packets of a sequence were lost."""

    lost: Flags
    what: str
    is_estimate: bool = False
    """Whether losses are only inferred, for example from retransmissions."""
    spacing_s: float | None = None
    """The time between packets in seconds, where it is regular."""
    round_trip: bool = False
    """Whether a loss may have happened in either direction."""
    times_s: Vector | None = None
    """When each packet was seen, or should have been seen."""
    octets: Vector | None = None
    """The packets' lengths, where a queue before the loss delays them by their transmission."""


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What arrived at the receiver, by packet or as it was acknowledged."""

    times_s: Vector
    octets: Vector
    """Bytes of IP packets."""
    packet_octets: float
    """The length of a full packet."""
    what: str


@dataclass(frozen=True, slots=True)
class Opportunities:
    """A packet-delivery trace in Mahimahi's format."""

    file: Path
    milliseconds: Vector


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything that one or two files say."""

    title: str
    delays: Delays | None = None
    losses: LossSequence | None = None
    deliveries: Deliveries | None = None
    opportunities: Opportunities | None = None
    notes: list[str] = field(default_factory=list)
    """Sentences for the reader."""
