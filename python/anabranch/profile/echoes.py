"""Round-trip times and losses of ICMP echoes."""

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.packets import ICMP, Packets

from .intervals import Vector
from .measurement import Delays, LossSequence, Measurement
from .numbers import Integers
from .regular import spacing

ASKING = {ICMP: 8}
_ASKING6 = 128
"""Types of echo requests (RFC 792, RFC 4443 section 4.1)."""


def is_question(packets: Packets) -> np.ndarray:
    """Which packets are echo requests; the others of a flow of echoes are replies."""
    asking = np.where(packets.protocol == ICMP, ASKING[ICMP], _ASKING6)
    return np.asarray(packets.icmp_kind == asking)


def measure(packets: Packets, seen_s: Vector, clock: Integers) -> Measurement:
    """The measurement of echoes with one identifier.

    An answer belongs to the last question before it that has its number: numbers start over after
    65,536, and some programs have one number only.
    """
    asks = is_question(packets)
    last: dict[int, int] = {}
    answer: dict[int, int] = {}
    numbers = packets.icmp_sequence.tolist()
    for row, (asking, number) in enumerate(zip(asks.tolist(), numbers, strict=True)):
        if asking:
            last[number] = row
        elif number in last:
            answer.setdefault(last[number], row)
    pairs = np.array(list(answer.items()), dtype=np.int64).reshape(-1, 2)
    pairs = pairs[clock[pairs[:, 0]] == clock[pairs[:, 1]]]
    if not len(pairs):
        raise AnabranchError("no echo was answered, so there is nothing to estimate")
    back = np.full(len(packets), np.nan)
    back[pairs[:, 0]] = seen_s[pairs[:, 1]] - seen_s[pairs[:, 0]]
    answered = np.zeros(len(packets), dtype=bool)
    answered[list(answer)] = True
    # Questions that may be answered only after the capture's end are left out.
    latest = seen_s[-1] - np.nanmax(back)
    used = asks & (answered | (seen_s <= latest))
    delays = back[used]
    notes = []
    asked = int(asks.sum())
    if 2 * len(last) < min(asked, 1 << 16):
        numbers_said = "one number" if len(last) == 1 else f"{len(last)} numbers"
        notes.append(
            f"{asked} questions have {numbers_said}: an answer is that of the last question before "
            "it"
        )
    return Measurement(
        "",
        Delays(delays[np.isfinite(delays)], 2, "round-trip times of echoes"),
        LossSequence(
            ~answered[used], "echoes without an answer", spacing_s=spacing(seen_s[used]),
            round_trip=True,
        ),
        notes=notes,
    )  # fmt: skip
