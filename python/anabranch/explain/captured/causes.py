"""What packets of a capture say that a flow lost time or data to, in sentences with amounts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from anabranch.explain.accounts import Account
from anabranch.explain.causes import GROUPS, OBSTACLE, Cause
from anabranch.explain.waits import ADVICE, STANDING, Waits, said
from anabranch.support import wording

from .measures import Losses
from .sender import IDLE_S, Expiry, Move, Sender, Track

_BULK = 8.0
"""Packets under way on average from which on a sender fills the path as far as it may."""

_OF_SCTP = {
    "losses": "Look where the path loses packets; how long each loss delays data is a matter of "
    "RTO.Min, RTO.Max and the delay of SACKs, for which `anabranch advise` finds values.",
    "window": "Nothing was lost: the congestion window was still growing (RFC 9260 section 7.2).",
}
"""The same of SCTP, whose stacks have one congestion control and settings of their timers."""


@dataclass(frozen=True, slots=True)
class Way:
    """What one end sent on a path."""

    host: str
    path: str
    losses: Losses
    waits: Waits | None
    again: int = 0
    """Packets with data that had been sent before."""


def of_path(sender: Sender, track: Track, account: Account, way: Way) -> Cause:
    """What held an end back most on a path."""
    kind = _kind(sender, track, account, way)
    advice = _OF_SCTP.get(kind, ADVICE[kind]) if sender.is_sctp else ADVICE[kind]
    return Cause(kind, track.name, " ".join(_path(sender, track, account, way)), advice)


def _kind(sender: Sender, track: Track, account: Account, way: Way) -> str:
    shares = {kind: account.share(*limits) for kind, limits in GROUPS.items()}
    kind = max(shares, key=lambda kind: shares[kind])
    trips_s = track.usual
    mean_s = float(trips_s.mean()) if len(trips_s) else 0.0
    is_bulk = track.packets * mean_s >= _BULK * (account.total or math.inf)
    is_full = is_bulk and way.waits is not None and way.waits.standing >= STANDING
    if is_full and kind not in {"application", "path_down"}:
        return "capacity"
    if kind == "receive_window" and shares[kind] >= OBSTACLE and track.probed_s:
        return "slow_reader"
    if shares[kind] >= OBSTACLE and kind not in {"application", "losses"}:
        return kind
    if shares["losses"] >= OBSTACLE or track.again or (way.losses.lost and kind != "path_down"):
        return "spurious_losses" if sender.came_twice > track.again / 2 > 0 else "losses"
    if shares[kind] >= OBSTACLE:
        return kind
    return "window" if is_bulk else "nothing"


def _path(sender: Sender, track: Track, account: Account, way: Way) -> Iterator[str]:
    """Sentences about a path: losses and what repaired them, waits, pauses."""
    yield f"{track.name}: {losses(way.losses)}."
    repairs = _repairs(track, account, [e for e in sender.expiries if e.path == track.name])
    if repairs:
        yield repairs
    if way.waits is not None:
        yield said(way.waits)
    closed_s = account.seconds["receive_window_limited"]
    if closed_s > 0:
        text = f"The receive window was closed for {_seconds(closed_s)} ({_of(account, closed_s)})"
        if track.probed_s:
            count = wording.counted(len(track.probed_s), "probe")
            text += f", and {count} asked whether it still was: the receiver reads slowly"
        yield f"{text}."
    if track.keepalives:
        count = wording.counted(track.keepalives, "keep-alive")
        yield f"{count} asked whether the peer is still there; they brought no data."
    pauses = [end - start for start, end, limit in track.limits if limit == "application_limited"]
    long = [pause for pause in pauses if pause >= IDLE_S]
    if long:
        count = wording.counted(len(long), "pause")
        yield (
            f"Nothing was under way for {_seconds(sum(long))} in {count} of {IDLE_S:g} s or more, "
            f"the longest {_seconds(max(long))}."
        )


def losses(lost: Losses) -> str:
    """How much was lost, in which bursts, and where."""
    if lost.known_by == "nothing":
        return (
            f"{wording.counted(lost.packets, 'packet')} without numbers, whose losses only "
            "captures of both ends tell (`anabranch profile SENDER RECEIVER`)"
        )
    packets = f"{lost.lost:,} of {wording.counted(lost.packets, 'packet')}"
    share = f"{wording.number(100 * lost.share, 3)} %"
    text = {
        "places": f"{packets} were lost ({share})",
        "repeats": f"{packets} were retransmitted or given up, and are counted as lost ({share})",
        "holes": f"{packets} filled a hole or were waited for, and are counted as lost ({share})",
        "numbers": f"{packets} are missing by RTP's numbers ({share})",
    }[lost.known_by]
    if lost.lost:
        text += f", in {wording.counted(lost.bursts, 'burst')}"
        if lost.longest > 1:
            text += f", the longest of {lost.longest} at {wording.number(lost.longest_s, 4)} s"
    if lost.reasons:
        text += f": {', '.join(f'{count:,} {reason}' for reason, count in lost.reasons.items())}"
    return text + (f"; {lost.out_of_order:,} came out of order" if lost.out_of_order else "")


def _repairs(track: Track, account: Account, expiries: list[Expiry]) -> str:
    parts = []
    if track.recoveries:
        time_s = account.seconds["in_recovery"]
        plural = "fast recovery" if track.recoveries == 1 else "fast recoveries"
        parts.append(
            f"{track.recoveries} {plural} took {_seconds(time_s)} ({_of(account, time_s)})"
        )
    if expiries:
        waited_s = sum(one.waited_s for one in expiries)
        count = wording.counted(len(expiries), "timeout")
        text = f"{count} came after {_seconds(waited_s)} of silence"
        worst = max(expiries, key=lambda one: one.row)
        if worst.row > 1:
            text += f", up to {worst.row} in a row, the last after {_seconds(worst.waited_s)}"
        parts.append(text)
    if track.probes:
        parts.append(f"{wording.counted(track.probes, 'tail loss probe')} found out losses")
    if track.again:
        parts.append(f"{wording.counted(track.again, 'packet')} repeated data")
    if not parts:
        return ""
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def of_connection(sender: Sender, start_s: float) -> list[str]:
    """Sentences about the whole: how it began, and where data moved from one path to another."""
    said = []
    if sender.opened_s is not None and sender.attempts:
        tries = "" if sender.attempts == 1 else f", with {sender.attempts} attempts"
        said.append(f"It was open after {_seconds(sender.opened_s - start_s)}{tries}.")
    said += [
        f"{track.name}: {track.attempts} attempts opened it."
        for track in sender.tracks
        if track.attempts > 1 and len(sender.tracks) > 1
    ]
    moves = [move for move in sender.moves if move.is_failover]
    said += [_move(move) for move in moves[:_MOST_MOVES]]
    rest = len(sender.moves) - min(len(moves), _MOST_MOVES)
    if rest:
        times = ", ".join(f"{move.at_s:.1f} s" for move in sender.moves[:_MOST_MOVES])
        count = wording.counted(len(sender.moves), "time")
        said.append(
            f"Data changed its path {count} in all, {len(moves)} of them after silence, first at "
            f"{times}."
        )
    return said


def timers(sender: Sender) -> list[str]:
    """Round trips that a timer of the peer may have made longer."""
    said = []
    for track in sender.tracks:
        delays = track.bounds[:, 1].tolist()
        if not delays or len(delays) < len(track.round_trips):
            continue
        known_s = min(track.measured[:, 1].tolist(), default=math.nan)
        if max(delays) <= known_s * _DELAYED:
            continue
        is_one = len(delays) == 1
        count = "1 single message was" if is_one else f"{len(delays):,} single messages were"
        least, most = (
            wording.ms(1e3 * min(delays)),
            wording.ms(1e3 * max(delays)),
        )
        range_ = least if least == most else f"{least} to {most}"
        text = f"{track.name}: {count} acknowledged after {range_}"
        if math.isnan(known_s):
            said.append(
                f"{text}, so that its round trip is at most {least}: a receiver may delay such "
                "acknowledgements, usually by up to 200 ms, and nothing here is answered at once."
            )
        else:
            said.append(
                f"{text}; a receiver may delay such acknowledgements, so that its round trip is "
                f"that of what is answered at once, {wording.ms(1e3 * known_s)} at least."
            )
    return said


_DELAYED = 1.5
"""Times the least round trip from which on an acknowledgement is said to have been delayed."""


_MOST_MOVES = 5
"""That are told one by one."""


def _move(move: Move) -> str:
    return (
        f"At {move.at_s:.2f} s data moved from {move.source} to {move.target}: nothing had been "
        f"heard on {move.source} for {_seconds(move.silent_s)}."
    )


def _of(account: Account, seconds: float) -> str:
    # Packets that all have one time took none.
    return f"{wording.number(100 * seconds / (account.total or math.inf), 3)} % of the time"


def _seconds(value: float) -> str:
    return f"{wording.number(value, 3)} s"
