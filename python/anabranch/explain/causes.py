"""What held a flow back, in words: every sentence follows from numbers of its accounts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.explain.accounts import REPAIRS, Account, End, Flow
from anabranch.support import wording
from anabranch.support.transports import can

FULL = 0.9
"""A path is full when it carries at least this share of its narrowest link's rate."""

OBSTACLE = 0.2
"""The share of the time from which on a limit counts as what holds a path back."""

BLOCKED = 0.75
"""One path blocks the others if at least this share of their waiting is for its data."""

GROUPS = {
    "application": ("application_limited",),
    "receive_window": ("receive_window_limited",),
    "send_buffer": ("send_buffer_limited",),
    "scheduler": ("scheduler_waiting",),
    "losses": REPAIRS,
    "path_down": ("path_down",),
    "handshake": ("handshake",),
}
"""Kinds of obstacle, and the limits that belong to each."""


SIMPLE = {
    "application": (
        "the application had nothing to send {}",
        "The application sets the pace; the path could carry more.",
    ),
    "scheduler": (
        "data waited and the path had room {}, but the scheduler left it idle",
        "Choose another scheduler: `anabranch list scheduler` shows what there is.",
    ),
    "path_down": (
        "the path was down {}",
        "Look at the `up` of its links, and at how failures are found out.",
    ),
    "handshake": (
        "{} went by until the connection was open",
        "The transfer is short beside the round-trip time.",
    ),
}
"""What the share of the time of each obstacle means, and what to change."""

UNOPENED = "Look at the `loss` and the `up` of its links, or let the run last longer."
"""What to change where the handshake takes all the time."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What holds a path back most."""

    kind: str
    """`capacity` (the path is full), one of the groups, `head_of_line`, `slow_reader`, `window`, or
    `nothing_arrived`.
    """
    path: str
    text: str
    """What the numbers say."""
    advice: str
    """What to change."""


def of_paths(flow: Flow) -> list[Cause]:
    """The cause for each path that is meant to carry data of the end that has more to send."""
    sender = flow.sender
    used = [path for path in sender.paths if not path.share("standby") > 1 / 2]
    return [_cause(flow, sender, path) for path in used or sender.paths]


def main(flow: Flow, causes: Sequence[Cause], alone: Mapping[str, float]) -> Cause:
    """The cause that counts most: that of the path furthest short of what it could carry.

    What it could carry is its goodput alone, in bit/s, or else the rate of its narrowest link.
    Where neither is known, the path counts most whose window is used for the smallest part of the
    time.
    """
    behind = {}
    for path in flow.sender.paths:
        rate, carried = (math.nan, 0.0)
        if path.carried is not None:
            rate, carried = path.carried.rate, path.carried.carried
        behind[path.name] = alone.get(path.name, rate) - carried
    if any(math.isnan(rate) for rate in behind.values()):
        behind = {path.name: 1 - path.share("cwnd_limited") for path in flow.sender.paths}
    return max(causes, key=lambda cause: (cause.kind != "capacity", behind[cause.path]))


def _cause(flow: Flow, sender: End, path: Account) -> Cause:
    shares = {kind: path.share(*limits) for kind, limits in GROUPS.items()}
    kind = max(shares, key=lambda kind: shares[kind])
    if path.carried is not None and path.carried.used >= FULL:
        text = f"{path.name} is full: {_carries(path)}."
        return Cause("capacity", path.name, text, "Only a faster path would help.")
    if not shares[kind] >= OBSTACLE:
        return _window(flow, sender, path)
    time = f"{_percent(shares[kind])} of the time"
    if kind == "handshake" and math.isclose(shares[kind], 1):
        return Cause(kind, path.name, f"{path.name}: the connection never opened.", UNOPENED)
    if kind in SIMPLE:
        text, advice = SIMPLE[kind]
        return Cause(kind, path.name, f"{path.name}: {text.format(time)}.", advice)
    if kind == "losses":
        return _losses(flow, sender, path, f"losses were repaired {time}")
    return _buffer(flow, sender, path, kind, time)


def _buffer(flow: Flow, sender: End, path: Account, kind: str, time: str) -> Cause:
    receives = kind == "receive_window"
    key = "receive_buffer" if receives else "send_buffer"
    side = flow.receiver.side if receives else sender.side
    size = flow.buffer(side, key)
    enough, formula = _recommended(sender)
    is_enough = size >= enough
    full = "the receive window was closed" if receives else "the send buffer was full"
    if receives and sender.blocked:
        key = max(sender.blocked, key=lambda key: sender.blocked[key])
        size = flow.buffer(side, key)
        is_enough = size >= enough
        whose = "a stream" if key == "max_stream_data" else "the connection"
        full = f"the flow control of {whose} ({key}) held data back"
    text = f"{path.name}: {full} {time}."
    if not math.isnan(size) and enough > 0:
        text += f" It has {_bytes(size)}; recommended are {_bytes(enough)} ({formula})."
    advice = "" if is_enough else _enlarge(flow, side, key, enough)
    blocking = _blocking(sender, size)
    if blocking is not None:
        text += _waiting(sender, path, blocking)
        other = f"keeps data off {blocking.name} where it would come too late."
        advice = f"{advice} The scheduler blest {other}".lstrip()
        return Cause("head_of_line", path.name, text, advice)
    if is_enough and receives and can(flow.transport(side)["kind"]).keeps_messages:
        # the application reads each message once it is complete
        advice = (
            "Messages wait in the buffer until they are whole: make them shorter, or it larger."
        )
    elif is_enough and receives:
        advice = "The buffer is large enough: the receiving application does not read fast enough."
        return Cause("slow_reader", path.name, text, advice)
    return Cause(kind, path.name, text, advice)


def _waiting(sender: End, path: Account, blocking: Account) -> str:
    """A sentence on which path's data a full buffer waits for."""
    if blocking is path:
        waited, of = _waited(sender, blocking)
        share = _percent(waited / of)
        return f" When the other paths waited, it was for its data {share} of the time."
    part = path.waits.get(blocking.name, 0.0) / (sum(path.waits.values()) or math.nan)
    rtt = f"round-trip time {blocking.srtt_ms:.0f} ms"
    return f" {_percent(part)} of that it waited for data sent on {blocking.name} ({rtt})."


def _enlarge(flow: Flow, side: str, key: str, enough: float) -> str:
    part = "transport_to" if side == "b" and "transport_to" in flow.settings else "transport"
    name = f"flows.{flow.name}.{part}.{key}"
    return f"Set {name} to {_bytes(enough)}." if enough > 0 else f"Make {name} larger."


def _blocking(sender: End, size: float) -> Account | None:
    """The path for whose data full buffers wait on the other paths, if there is one.

    There is none where the buffer is too small even for the waiting paths alone.
    """
    for path in sender.paths:
        on_it, of = _waited(sender, path)
        others = [other for other in sender.paths if other is not path and other.waits]
        is_too_small = any(_delay_product(other) > size for other in others)
        if of > 0 and on_it / of >= BLOCKED and not is_too_small:
            return path
    return None


def _waited(sender: End, path: Account) -> tuple[float, float]:
    """Seconds in which the other paths waited for data of this one, and for data of any path."""
    others = [other for other in sender.paths if other is not path]
    on_it = sum(other.waits.get(path.name, 0.0) for other in others)
    return on_it, sum(sum(other.waits.values()) for other in others)


def _delay_product(path: Account) -> float:
    """Rate times round-trip time in bytes; NaN where either is unknown."""
    return (path.carried.rate if path.carried else math.nan) * path.srtt_ms / 8e3


def _recommended(sender: End) -> tuple[float, str]:
    """The size of both buffers that RFC 6182 section 5.3 recommends, and how it is computed."""
    paths = [path for path in sender.paths if path.carried is not None]
    rates = [path.carried.rate for path in paths if path.carried]
    rtt = max((path.srtt_ms for path in paths), default=math.nan)
    size = 2 * sum(rates) * rtt / 8e3
    many = " + ".join(wording.number(rate / 1e6, 3) for rate in rates)
    many = f"({many})" if len(rates) > 1 else many
    return size, f"2 x {many} Mbit/s x {rtt:.0f} ms, RFC 6182 section 5.3"


def _losses(flow: Flow, sender: End, path: Account, shares: str) -> Cause:
    """The cause where repairs take the path's time, or keep its window small."""
    text = f"{path.name}: {shares}; {_repairs(path)}; {_carries(path)}."
    if path.carried is None:
        return Cause("losses", path.name, text, "")
    lost, dropped = path.carried.lost, path.carried.dropped
    text += f" Its links lost {lost} packets, and their queues dropped {dropped}."
    repaired_s = sum(path.seconds.get(limit, 0.0) for limit in REPAIRS)
    if path.repairs_down_s > repaired_s / 2:
        # What a link that is down keeps or takes is neither lost nor dropped, and not late either.
        text += f" One of them was down for {wording.number(path.carried.down_s, 3)} s."
        return Cause("path_down", path.name, text, SIMPLE["path_down"][1])
    is_mostly_else = lost + dropped < (path.recoveries + path.timeouts) / 2
    if is_mostly_else and sender.marked:
        return _marks(sender, path, text)
    if is_mostly_else:
        advice = "Most of what was taken for lost was only late"
        if sender.rescheduled:
            text += f" {sender.rescheduled} chunks were rescheduled."
            advice += ", or was rescheduled: load_sharing.chunk_rescheduling counts that as a loss"
        return Cause("spurious_losses", path.name, text, f"{advice}.")
    if lost > dropped and not can(flow.settings["transport"]["kind"]).choice_of_control:
        # SCTP's stacks have one control (RFC 9260 section 7); what they can set are its timers.
        advice = (
            "Most losses are no congestion: how long each one delays data is a matter of "
            "`rto_min`, `rto_max` and `sack_delay`, for which `anabranch advise` finds values."
        )
    elif lost > dropped:
        advice = "Most losses are no congestion: a control such as bbr is less sensitive to them."
    else:
        advice = "Most losses are congestion: a longer queue or an AQM changes them."
    return Cause("losses", path.name, text, advice)


def _window(flow: Flow, sender: End, path: Account) -> Cause:
    """The cause where the congestion window is the limit and the path does not seem full."""
    time = f"{_percent(path.share('cwnd_limited'))} of the time"
    shares = f"data waited for the congestion window {time}"
    text = f"{path.name}: {shares}; {_repairs(path)}; {_carries(path)}."
    gone = path.carried.lost + path.carried.dropped if path.carried is not None else 0
    if sender.marked > gone:
        return _marks(sender, path, text)
    if path.recoveries + path.timeouts > 0:
        return _losses(flow, sender, path, shares)
    advice = "Nothing was lost: the window was still growing, or its congestion control holds it."
    return Cause("window", path.name, text, advice)


def _marks(sender: End, path: Account, text: str) -> Cause:
    """The cause where the congestion control answers marks, and hardly any losses."""
    text += f" {wording.counted(sender.marked, 'packet')} told of congestion by a mark."
    advice = (
        "A queue marks, which holds the window: one that marks later lets it grow, and prague is "
        "for marks that are early and many."
    )
    return Cause("marks", path.name, text, advice)


def _repairs(path: Account) -> str:
    plural = "y" if path.recoveries == 1 else "ies"
    ends = "" if path.timeouts == 1 else "s"
    return f"{path.recoveries} fast recover{plural}, {path.timeouts} timeout{ends}"


def _carries(path: Account) -> str:
    if path.carried is None:
        return "what it carried is not known"
    carried = path.carried
    of = "" if math.isnan(carried.rate) else f" of {wording.number(carried.rate / 1e6, 3)}"
    return f"its link {carried.link} carried {wording.number(carried.carried / 1e6, 3)}{of} Mbit/s"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _bytes(size: float) -> str:
    """A size in bytes as scenarios write it."""
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{wording.number(math.ceil(size / factor * 10) / 10, 4)} {unit}"
    return f"{size:.0f} B"
