"""Why a flow delivered nothing, in words."""

import math
from collections.abc import Mapping

from anabranch.support import wording

_FATES = {
    "unsent": "made while the connection was not open",
    "refused": "refused, since the send buffer had no room",
    "abandoned": "given up before they arrived (`reliability`)",
}
"""Counter of messages that went no further -> what became of them."""

_CONNECTING = ("mptcp", "quic", "sctp", "tcp")
_ARRIVED = ("received", "completed", "received_bytes")
_TIMERS = ("sctp.a.timeouts", "sctp.b.timeouts", "tcp.a.timeouts", "tcp.b.timeouts")


def why(summary: Mapping[str, float], flow: str, way: str = "") -> str:
    """Why nothing of a flow arrived, in a sentence; empty if something did, or it is not known.

    Parameters
    ----------
    summary
        The run's scalars.
    flow
        The flow's name.
    way
        `.a_to_b` or `.b_to_a`, if it has results for each direction.
    """

    def count(name: str) -> float:
        return summary.get(f"{flow}{way}.{name}", math.nan)

    # The last counter that the application has says most: bytes of a request that is not complete
    # have arrived, too.
    arrived = [value for name in _ARRIVED if not math.isnan(value := count(name))]
    if not arrived or any(value > 0 for value in arrived):
        return ""
    made = next(
        (value for name in ("sent", "started", "sent_bytes") if (value := count(name)) >= 0),
        math.nan,
    )
    if made == 0 and any(
        summary.get(f"{flow}.{kind}.a.packets_sent", 0) > 0
        and summary.get(f"{flow}.{kind}.a.packets_received") == 0
        for kind in _CONNECTING
    ):
        return "nothing arrived: its connection never opened"
    if made == 0:
        return "nothing arrived: its application made nothing to send"
    if count("failed") > 0:
        return f"nothing arrived: {wording.counted(int(count('failed')), 'exchange')} failed"
    fates = [f"{count(name):,.0f} {what}" for name, what in _FATES.items() if count(name) > 0]
    left = made - sum(count(name) for name in _FATES if count(name) > 0)
    if fates:
        if left > 0:
            fates.append(f"{left:,.0f} still on their way at the end")
        return f"nothing arrived: of {made:,.0f} messages {' and '.join(fates)}"
    chunks = summary.get(f"{flow}.sctp.a.data_chunks_received", 0.0)
    chunks += summary.get(f"{flow}.sctp.b.data_chunks_received", 0.0)
    expired = sum(summary.get(f"{flow}.{timer}", 0.0) for timer in _TIMERS)
    reason = "all that was sent was lost, or was still on its way at the end"
    if chunks > 0:
        reason = f"{wording.counted(int(chunks), 'chunk')} did, but no whole message"
    elif expired:
        times = wording.counted(int(expired), "retransmission timeout")
        reason = f"what was sent was lost, again and again ({times})"
    return f"nothing arrived: {reason}"
