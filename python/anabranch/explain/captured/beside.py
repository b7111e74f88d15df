"""What else was sent while packets of a call came too late.

Hosts behind one access link have addresses of their own, so it is told by time, not by addresses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from anabranch.support import wording

from .journeys import Direction, Vector, name_of

_MORE = 2.0
"""So many times as much while packets were late as otherwise: then it is not by chance."""

_SECONDS = 86_400
"""Of longer captures, or whose clock jumps, more than a second at a time is looked at together."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Traffic beside a call."""

    name: str
    protocol: str
    from_s: float
    until_s: float
    """When packets of the call were late."""
    rate: float
    """Of this traffic in the seconds with late packets, in bit/s."""
    otherwise: float
    """Its rate in the other seconds."""

    def sentence(self) -> str:
        """When packets were late, and what was sent meanwhile."""
        times = f"{wording.number(self.from_s, 4)} s to {wording.number(self.until_s, 4)} s"
        rates = [f"{wording.number(rate / 1e6, 3)} Mbit/s" for rate in (self.rate, self.otherwise)]
        return (
            f"Packets were late from {times}, while {self.name} sent {rates[0]} "
            f"({rates[1]} in the seconds without late packets): the call waits behind it."
        )


def find(
    own: Direction,
    late_s: Vector,
    every: Iterable[Direction],
    names: Mapping[bytes, str],
) -> Beside | None:
    """The traffic that filled the way while packets were late; None where the capture has none.

    Parameters
    ----------
    own
        The call's direction.
    late_s
        When its packets that were late came.
    every
        All directions of the capture.
    names
        Of hosts, by address.
    """
    if not len(late_s):
        return None
    first, last = float(own.sent.sent_s[0]), float(own.sent.last()[0].max())
    width_s = max(1.0, (last - first) / _SECONDS)
    count = int((last - first) / width_s) + 1
    late = np.zeros(count, dtype=bool)
    late[np.clip(((late_s - first) / width_s).astype(np.int64), 0, count - 1)] = True
    rate_of_call = own.octets * 8 / max(last - first, 1e-9)
    found: Beside | None = None
    for other in every:
        if other is own or other.near != own.near:
            continue
        at = np.floor((other.sent.sent_s - first) / width_s).astype(np.int64)
        within = (at >= 0) & (at < count)
        bits = np.bincount(at[within], 8 * other.sent.octets[within], minlength=count)
        rate = float(bits[late].mean()) / width_s
        otherwise = float(bits[~late].mean()) / width_s if not late.all() else 0.0
        if rate < max(rate_of_call, _MORE * otherwise) or (found and rate <= found.rate):
            continue
        source = other.ends[0]
        name = f"{other.protocol} from {name_of(source.address, names)}:{source.port}"
        times = float(late_s.min()), float(late_s.max())
        found = Beside(name, other.protocol, *times, rate, otherwise)
    return found
