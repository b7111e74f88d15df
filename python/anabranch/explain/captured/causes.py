"""What packets of a capture say that a flow lost time or data to, in sentences with amounts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from anabranch.explain.accounts import Account
from anabranch.explain.causes import GROUPS, OBSTACLE, Cause
from anabranch.support import wording

from .measures import STANDING, Losses, Waits
from .sender import IDLE_S, Expiry, Move, Sender, Track

_BULK = 8.0
"""Packets under way on average from which on a sender fills the path as far as it may."""

ADVICE = {
    "application": "The application sets the pace; the path could carry more.",
    "capacity": "Only a faster path would help, or a shorter queue against the delay.",
    "handshake": "The transfer is short beside the round-trip time, or its opening was lost.",
    "losses": "Look where the path loses packets; a control such as bbr is less sensitive to it.",
    "nothing": "",
    "path_down": "Timers find failures out: a lower RTO, or fewer expiries, moves data sooner.",
    "receive_window": "Enlarge the receive buffer, or let the application read faster.",
    "spurious_losses": "Most of what was sent again was only late: look for what reorders packets.",
    "window": "Nothing was lost: the congestion window was still growing, or its control holds it.",
}
"""What to change."""


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
    return Cause(kind, track.name, " ".join(_path(sender, track, account, way)), ADVICE[kind])


def _kind(sender: Sender, track: Track, account: Account, way: Way) -> str:
    shares = {kind: account.share(*limits) for kind, limits in GROUPS.items()}
    kind = max(shares, key=lambda kind: shares[kind])
    trips = [delay for _, delay in track.round_trips]
    mean_s = sum(trips) / len(trips) if trips else 0.0
    is_bulk = track.packets * mean_s >= _BULK * (account.total or math.inf)
    is_full = is_bulk and way.waits is not None and way.waits.standing >= STANDING
    if is_full and kind not in {"application", "path_down"}:
        return "capacity"
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
        yield waits(way.waits)
    closed_s = account.seconds["receive_window_limited"]
    if closed_s > 0:
        yield f"The receive window was closed for {_seconds(closed_s)} ({_of(account, closed_s)})."
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
        return f"{wording.counted(lost.packets, 'packet')}, whose losses nothing tells"
    packets = f"{lost.lost:,} of {wording.counted(lost.packets, 'packet')}"
    share = f"{wording.number(100 * lost.share, 3)} %"
    text = {
        "places": f"{packets} were lost ({share})",
        "repeats": f"{packets} were sent again or given up, and are counted as lost ({share})",
        "holes": f"{packets} filled a hole, and are counted as lost before ({share})",
        "numbers": f"{packets} are missing by RTP's numbers ({share})",
    }[lost.known_by]
    if lost.lost:
        text += f", in {wording.counted(lost.bursts, 'burst')}"
        if lost.longest > 1:
            text += f", the longest of {lost.longest} at {wording.number(lost.longest_s, 4)} s"
    reasons = [f"{count:,} {reason}" for reason, count in lost.reasons.items()]
    return f"{text}: {', '.join(reasons)}" if reasons else text


def waits(waited: Waits) -> str:
    """What queues cost."""
    what = "packets took" if waited.is_one_way else "round trips took"
    return (
        f"Its {what} {_ms(waited.mean_ms)} longer on average than the least, "
        f"{_ms(waited.least_ms)}: 95 % at most {_ms(waited.most_of_ms)} longer, the longest "
        f"{_ms(waited.most_ms)}."
    )


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


_MOST_MOVES = 5
"""That are told one by one."""


def _move(move: Move) -> str:
    return (
        f"At {move.at_s:.2f} s data moved from {move.source} to {move.target}: nothing had been "
        f"heard on {move.source} for {_seconds(move.silent_s)}."
    )


def _of(account: Account, seconds: float) -> str:
    return f"{wording.number(100 * seconds / account.total, 3)} % of the time"


def _seconds(value: float) -> str:
    return f"{wording.number(value, 3)} s"


def _ms(value: float) -> str:
    return f"{wording.number(round(value, 2), 4)} ms"
