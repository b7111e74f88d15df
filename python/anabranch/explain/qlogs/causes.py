"""What the qlog of one end says that a connection lost time or data to, in sentences."""

import math
from collections.abc import Iterator

import numpy as np

from anabranch.explain.accounts import Account
from anabranch.explain.causes import GROUPS, OBSTACLE, Cause
from anabranch.explain.waits import ADVICE, STANDING, Waits, said
from anabranch.support import wording
from anabranch.support.quic_errors import error_name

from .connection import BLOCKED, Close, Connection
from .kept import Data, Samples

_ADVICE = {
    **ADVICE,
    "nothing": "The file shows nothing that held it back.",
    "receive_window": "Let the receiver raise its limits sooner (MAX_DATA, MAX_STREAM_DATA), or "
    "enlarge them.",
    "spurious_losses": "Most packets that were taken for lost were only late: look for what "
    "reorders them.",
}


def is_sender(connection: Connection) -> bool:
    """Whether this end sent more than it received."""
    out, into = connection.out.octets, connection.into.octets
    if out == into:
        return connection.sent_octets >= connection.received_octets
    return out > into


def trips(samples: Samples) -> Waits | None:
    """Round trips, as captures have them; None where the file has none."""
    kept = np.asarray(samples.kept)
    if not len(kept):
        return None
    longer = kept - kept.min()
    return Waits(
        float(kept.min()), float(longer.mean()), float(np.quantile(longer, 0.95)),
        float(longer.max()), float((longer > max(1.0, kept.min() / 20)).mean()),
        is_one_way=False, samples=len(kept),
    )  # fmt: skip


def main(connection: Connection, account: Account) -> Cause | None:
    """What held the sender back most; None for an end that received, and where nothing tells."""
    if not is_sender(connection) or not connection.knows_flight:
        return None
    kind = _kind(connection, account)
    return Cause(kind, "", "", _ADVICE[kind])


def _kind(connection: Connection, account: Account) -> str:
    shares = {kind: account.share(*limits) for kind, limits in GROUPS.items() if kind in _ADVICE}
    shares["window"] = account.share("cwnd_limited")
    kind = max(shares, key=lambda kind: shares[kind])
    if not shares[kind] >= OBSTACLE:
        return "nothing"
    found = trips(connection.trips)
    if kind in {"window", "losses"} and found is not None and found.standing >= STANDING:
        return "capacity"
    lost = connection.lost.total()
    if kind in {"window", "losses"} and lost:
        return "spurious_losses" if connection.spurious > lost / 2 else "losses"
    return kind


def sentences(connection: Connection, account: Account) -> Iterator[str]:
    """What the events say, amount by amount."""
    yield from _moved(connection)
    opened_s = connection.handshake_s - connection.start_s
    if opened_s > 0:
        yield f"The handshake took {wording.ms(1e3 * opened_s)}."
    elif math.isnan(opened_s) and not connection.schema:
        yield "The handshake did not end, as far as the file shows."
    found = trips(connection.trips)
    if found is not None:
        smoothed = " (smoothed ones)" if connection.trips_kind == "smoothed_rtt" else ""
        yield said(found)[:-1] + f"{smoothed}."
    yield from _losses(connection)
    yield from _by_path(connection)
    yield from _repairs(connection, account)
    least, most = connection.window_range
    if connection.windows:
        ends = wording.number(sum(connection.windows.values()) / 1e3, 4)
        yield (
            f"The congestion window was {wording.number(least / 1e3, 4)} kB to "
            f"{wording.number(most / 1e3, 4)} kB, and {ends} kB at the end."
        )
    yield from _flow_control(connection, account)
    yield from connection.migrations
    if (more := connection.migrated - len(connection.migrations)) > 0:
        yield f"{wording.counted(more, 'more event')} of paths and migration."
    if connection.close is not None:
        yield _closed(connection.close)


def _moved(connection: Connection) -> Iterator[str]:
    for verb, data in (("sent", connection.out), ("received", connection.into)):
        if data.octets:
            yield f"It {verb} {_amount(data)}."
    yield (
        f"{wording.counted(connection.sent, 'packet')} of "
        f"{wording.size(connection.sent_octets)} sent, {connection.received:,} of "
        f"{wording.size(connection.received_octets)} received."
    )


def _amount(data: Data) -> str:
    what = "in packets, with their headers" if data.has_headers else "of data"
    text = f"{wording.size(data.octets)} {what}"
    if not math.isnan(data.rate):
        text += (
            f" in {wording.number(data.took_s, 4)} s ({wording.number(data.begun_s, 4)} s to "
            f"{wording.number(data.ended_s, 4)} s): goodput {wording.rate(data.rate)}"
        )
    return text


def _losses(connection: Connection) -> Iterator[str]:
    lost = connection.lost.total()
    if lost:
        share = wording.number(100 * lost / max(connection.sent, 1), 3)
        text = f"{lost:,} of {wording.counted(connection.sent, 'packet')} sent were taken for lost"
        text += f" ({share} %)"
        reasons = ", ".join(
            f"{count:,} by {wording.harmless(why[:40]).replace('_', ' ')}"
            for why, count in connection.lost.items()
            if why
        )
        text += f": {reasons}" if reasons else ""
        if connection.spurious:
            text += f"; {connection.spurious:,} of them were acknowledged after all (spurious)"
        yield f"{text}."
    elif connection.has_acks:
        yield f"None of {wording.counted(connection.sent, 'packet')} sent was taken for lost."
    gone = {why: count for why, count in connection.fates.items() if why not in _ARRIVING}
    if gone:
        parts = ", ".join(f"{count:,} {wording.harmless(why[:40])}" for why, count in gone.items())
        share = wording.number(100 * sum(gone.values()) / connection.sent, 3)
        yield f"{sum(gone.values()):,} packets it sent did not arrive ({share} %): {parts}."
    gaps = [(most - least + 1, count) for least, most, count in connection.gaps.values()]
    missing = sum(max(span - count, 0) for span, count in gaps)
    if missing and not is_sender(connection):
        span = sum(span for span, _ in gaps)
        share = wording.number(100 * missing / span, 3)
        yield (
            f"{missing:,} of {span:,} packet numbers did not come ({share} %): these were lost, or "
            "their sender left them out."
        )


def _by_path(connection: Connection) -> Iterator[str]:
    """Of a connection with several paths, what went over each."""
    used = {name: one for name, one in connection.paths.items() if one.sent or one.received}
    if len(used) < 2:
        return
    for name, one in used.items():
        text = (
            f"Path {wording.harmless(name[:40])}: {wording.counted(one.sent, 'packet')} of "
            f"{wording.size(one.sent_octets)} sent, {one.received:,} received"
        )
        if connection.has_acks and one.sent:
            share = wording.number(100 * one.lost / one.sent, 3)
            text += f", {one.lost:,} taken for lost ({share} %)"
        found = trips(one.trips)
        if found is not None:
            least, mean = found.least_ms, found.least_ms + found.mean_ms
            text += f"; round trips from {wording.number(least, 4)} ms, mean "
            text += f"{wording.number(mean, 4)} ms"
        yield f"{text}."


_ARRIVING = {"delivered", "in_flight"}
"""Fates of packets that were not lost."""


def _repairs(connection: Connection, account: Account) -> Iterator[str]:
    if connection.recoveries:
        plural = "recovery" if connection.recoveries == 1 else "recoveries"
        time_s = account.seconds.get("in_recovery", 0.0)
        yield f"{connection.recoveries:,} {plural} took {wording.number(time_s, 3)} s."
    if connection.timeouts:
        what = "timeout" if connection.schema else "probe timeout"
        time_s = account.seconds.get("in_timeout", 0.0)
        yield (
            f"{wording.counted(connection.timeouts, what)}; what followed took "
            f"{wording.number(time_s, 3)} s."
        )
    elif not connection.knows_timeouts and is_sender(connection) and connection.knows_flight:
        yield "The file does not say whether timers expired."
    states = {state: count for state, count in connection.states.items() if state}
    if states and not connection.schema:
        parts = ", ".join(f"{state} {count}" for state, count in states.items())
        yield f"States of the congestion control, and how often each began: {parts}."


def _flow_control(connection: Connection, account: Account) -> Iterator[str]:
    for verb, counts in (("sent", connection.blocked), ("received", connection.peer_blocked)):
        if counts:
            parts = ", ".join(
                f"{counts[kind]:,} {kind.upper()} (until {limit.upper()})"
                for kind, limit in BLOCKED.items()
                if counts[kind]
            )
            yield f"Flow control held data back, as frames that it {verb} say: {parts}."
    time_s = account.seconds.get("receive_window_limited", 0.0)
    if time_s > 0:
        yield f"It waited for flow control {wording.number(time_s, 3)} s."


def _closed(close: Close) -> str:
    who = {"local": "This end", "remote": "The other end"}.get(close.by, "One end")
    text = f"{who} closed the connection at {wording.number(close.at_s, 4)} s"
    if close.trigger:
        text += f" ({close.trigger.replace('_', ' ')})"
    layer = "application" if close.is_of_application else "transport"
    name = close.code or ("" if close.is_of_application else error_name(close.error))
    if name or close.error is not None:
        number = "" if close.error is None else f"{close.error:#x}"
        named = f"{name} ({number})" if name and number and name != number else name or number
        text += f", with the {layer} error {named}"
    if close.reason:
        text += f": “{close.reason}”"
    return f"{text}."
