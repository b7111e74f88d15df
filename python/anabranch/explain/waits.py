"""How much longer than the fastest one packets took, and what to change, for captures and qlogs."""

from dataclasses import dataclass

from anabranch.support import wording

ADVICE = {
    "application": "The application sets the pace; the path could carry more.",
    "capacity": "Only a faster path would help, or a shorter queue against the delay.",
    "handshake": "The transfer is short beside the round-trip time, or its opening was lost.",
    "losses": "Look where the path loses packets; a control such as bbr is less sensitive to it.",
    "nothing": "A capture shows nothing that held it back: `anabranch profile` makes a path of it, "
    "and `anabranch advise` finds settings for that.",
    "path_down": "Timers find failures out: a lower RTO, or fewer expiries, moves data sooner.",
    "slow_reader": "The receiver's application has to read faster; a larger buffer only fills.",
    "receive_window": "Enlarge the receive buffer, or let the application read faster.",
    "spurious_losses": "Most retransmitted packets were only late: look for what reorders them.",
    "window": "Nothing was lost: the congestion window was still growing, or its control holds it.",
}
"""What to change."""

STANDING = 0.75
"""Part of the packets that waited from which on a queue is said to have stood."""

_FEW = 5
"""Values of which a mean and a part of them say nothing."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How much longer than the fastest one packets took: what waiting in queues costs."""

    least_ms: float
    mean_ms: float
    most_of_ms: float
    """Of 95 % of them at most."""
    most_ms: float
    standing: float
    """The part of them that waited: more than 1 ms, and than a twentieth of the least delay."""
    is_one_way: bool
    """Or round trips."""
    samples: int
    """How many were measured."""


def said(waited: Waits) -> str:
    """What queues cost."""
    if waited.samples == 1:
        what = "One packet took" if waited.is_one_way else "One round trip took"
        return f"{what} {wording.ms(waited.least_ms)}."
    what = "packets took" if waited.is_one_way else "round trips took"
    if waited.samples < _FEW:
        least, most = (
            wording.ms(waited.least_ms),
            wording.ms(waited.least_ms + waited.most_ms),
        )
        return f"{waited.samples} {what} {least if least == most else f'{least} to {most}'}."
    return (
        f"Its {what} {wording.ms(waited.mean_ms)} longer on average than the least, "
        f"{wording.ms(waited.least_ms)}: 95 % at most {wording.ms(waited.most_of_ms)} longer, the "
        f"longest {wording.ms(waited.most_ms)}."
    )
