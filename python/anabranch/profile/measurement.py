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
    is_smoothed: bool = False
    """Whether each is a mean of many, as TCP keeps it: the least bounds the delay from above, and
    differences say nothing of the jitter.
    """
    is_from_start: bool = True
    """Whether the traffic is seen from its beginning, when it found the link idle."""
    is_bound: bool = False
    """Whether something beside the path may have taken a part of each, as a timer of the receiver
    does: they bound its delay from above, and say nothing of its queue and jitter.
    """


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

    @property
    def sent(self) -> int:
        """The number of packets."""
        return len(self.lost)


@dataclass(frozen=True, slots=True)
class LossCounts:
    """How many packets of each interval were lost, where nobody says which."""

    lost: Vector
    packets: Vector
    """Packets that were sent, lost or not; as many as there are intervals."""
    what: str
    is_estimate: bool = False
    round_trip: bool = False
    spacing_s: None = None
    times_s: Vector | None = None
    """When each interval began, where that is known."""

    @property
    def sent(self) -> int:
        """The number of packets."""
        return int(self.packets.sum())

    @property
    def count(self) -> int:
        """The number of lost packets."""
        return int(self.lost.sum())


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates by interval, as a program that sends has measured them."""

    bit_per_s: Vector
    """Of IP packets."""
    what: str
    is_bound: bool
    """Whether the path may be faster."""
    is_mean: bool = False
    """Whether the rate changes by itself, so that its mean counts; else it is the median."""
    packet_octets: float = 1500.0
    times_s: Vector | None = None
    """When each interval began, where that is known."""


@dataclass(frozen=True, slots=True)
class Jitters:
    """Mean differences of neighbouring one-way delays, in seconds, as RFC 3550 smooths them."""

    seconds: Vector
    what: str


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What arrived at the receiver, by packet or as it was acknowledged."""

    times_s: Vector
    octets: Vector
    """Bytes of IP packets."""
    packet_octets: float
    """The length of a full packet."""
    what: str
    is_seen: bool = True
    """Whether the packets were seen when they arrived; otherwise their acknowledgements were."""
    is_guess: Flags | None = None
    """Which of them have a part of what a later acknowledgement reports; None where none have."""


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
    losses: LossSequence | LossCounts | None = None
    deliveries: Deliveries | None = None
    opportunities: Opportunities | None = None
    notes: list[str] = field(default_factory=list)
    """Sentences for the reader."""
    rates: Rates | None = None
    jitters: Jitters | None = None
    back: "Measurement | None" = None
    """The other direction, where it was measured by itself."""
    began_s: float | None = None
    """When it began, in seconds since 1970, where the log says it."""
    sent_s: Vector | None = None
    """When each packet of the losses' sequence was sent, lost or not, where the log has stamps."""
