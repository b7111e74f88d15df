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
    """Directions of the path that a delay is made of: 2 for a round trip, 1 for one way."""
    what: str
    absolute: bool = True
    """Whether they are delays, or only say how delays differ."""
    resolution_s: float = 0.0
    """Steps in which they are given."""
    times_s: Vector | None = None
    """When, by the clock of the losses' times."""
    octets: Vector | None = None
    """Of the packets, where their transmission is a part of the delay."""


@dataclass(frozen=True, slots=True)
class LossSequence:
    """Which packets were lost."""

    lost: Flags
    what: str
    is_estimate: bool = False
    """Whether losses are only inferred, as from retransmissions."""
    spacing_s: float | None = None
    """Time between packets where it is regular."""
    round_trip: bool = False
    """Whether a loss may have happened on the way there or back."""
    times_s: Vector | None = None
    """When each packet was seen, or should have been."""
    octets: Vector | None = None
    """Of the packets, where a queue before the loss delays them by their transmission."""


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What arrived at the receiver, packet by packet or as it was acknowledged."""

    times_s: Vector
    octets: Vector
    """Of IP packets."""
    packet_octets: float
    """Size of a full packet."""
    what: str


@dataclass(frozen=True, slots=True)
class Opportunities:
    """A packet-delivery trace in Mahimahi's format."""

    file: Path
    milliseconds: Vector


@dataclass(frozen=True, slots=True)
class Measurement:
    """All that one or two files say."""

    title: str
    delays: Delays | None = None
    losses: LossSequence | None = None
    deliveries: Deliveries | None = None
    opportunities: Opportunities | None = None
    notes: list[str] = field(default_factory=list)
    """Sentences for the reader."""
