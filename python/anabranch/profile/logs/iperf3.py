"""iperf3 `--json` of either end, TCP or UDP (esnet/iperf, iperf_api.c and iperf_tcp.c)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_BIT_PER_S, MOST_SECONDS, amount, at, items, tree

from ..measurement import Jitters, LossCounts, Measurement, Rates
from . import transfer

NAME = "iperf3 (`--json`)"


def recognises(head: str) -> bool:
    """Whether a text begins like iperf3's JSON."""
    return (
        head.lstrip().startswith("{")
        and '"start"' in head
        and ('"test_start"' in head or '"connected"' in head or '"iperf ' in head)
    )


def read(file: Path) -> Measurement:
    """Reads the intervals, or the end where there are none."""
    result = tree(file)
    if (error := result.get("error")) is not None and not items(result.get("intervals")):
        raise AnabranchError(f"{file}: iperf3 failed: {' '.join(str(error).split())[:200]}")
    test = at(result, "start", "test_start")
    notes = []
    if at(test, "reverse") or at(test, "bidirectional") or at(test, "bidir"):
        both = not at(test, "reverse")
        notes.append(
            "of both directions that of the client's data is measured" if both else
            "the server sent the data (`-R`): the first of --ends is the server"
        )  # fmt: skip
    is_udp = str(at(test, "protocol")).upper() == "UDP"
    measured = _udp(file, result, notes) if is_udp else _tcp(file, result, notes)
    if measured.rates is None and measured.losses is None:
        raise AnabranchError(f"{file}: no data arrived, so there is nothing to estimate")
    stamp = at(result, "start", "timestamp", "timesecs")
    return replace(measured, began_s=amount(stamp, f"{file}: `timesecs`", 1e12))


def _sums(result: dict[str, Any]) -> list[Any]:
    """The sums of the intervals that count; the first ones may be omitted (`--omit`)."""
    found = [at(interval, "sum") for interval in items(result.get("intervals"))]
    return [each for each in found if isinstance(each, dict) and each.get("omitted") is not True]


def _column(sums: list[Any], key: str, file: Path, most: float) -> list[float]:
    values = [amount(at(each, key), f"{file}: `{key}`", most) for each in sums]
    return [value for value in values if value is not None]


def _begins(sums: list[Any], file: Path) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """When each of these intervals began, in seconds; None where not all of them say it."""
    found = _column(sums, "start", file, 1e7)
    return np.array(found) if found and len(found) == len(sums) else None


def _rates(sums: list[Any], end: Any, file: Path) -> tuple[list[float], list[Any]]:
    """The rates, and the intervals that they are of; none where only the end has one."""
    # A last interval that is much shorter than the others has too little in it.
    longest = max(_column(sums, "seconds", file, MOST_SECONDS), default=0.0)
    whole = [
        each
        for each in sums
        if (amount(at(each, "seconds"), f"{file}: `seconds`", MOST_SECONDS) or 0) >= longest / 2
    ]
    whole = [each for each in whole if at(each, "bits_per_second") is not None]
    values = _column(whole, "bits_per_second", file, MOST_BIT_PER_S)
    return (
        (values, whole) if values else (_column([end], "bits_per_second", file, MOST_BIT_PER_S), [])
    )


def _is_ipv6(result: dict[str, Any]) -> bool:
    connected = items(at(result, "start", "connected"))
    return bool(connected) and ":" in str(at(connected[0], "remote_host"))


def _tcp(file: Path, result: dict[str, Any], notes: list[str]) -> Measurement:
    start, end = result.get("start"), result.get("end")
    sums = _sums(result)
    mss = amount(at(start, "tcp_mss"), f"{file}: `tcp_mss`", 65_535) or amount(
        at(start, "tcp_mss_default"), f"{file}: `tcp_mss_default`", 65_535
    )
    mss = mss or 1448.0
    packet = transfer.packet_octets(mss, is_ipv6=_is_ipv6(result))
    round_trips, least = _round_trips(file, result)
    values, intervals = _rates(sums, at(end, "sum_received"), file)
    rates = None
    if any(values):
        scaled = np.array(values) * packet / mss
        full = least is not None and transfer.is_full(
            round_trips, least, packet * 8 / float(np.median(scaled) or 1.0)
        )
        rates = Rates(
            scaled,
            f"payload of TCP with {packet - mss:.0f} bytes of headers in each packet, by interval",
            is_bound=not full,
            packet_octets=packet,
            times_s=_begins(intervals, file),
        )
        if not full:
            notes.append(
                "the log does not show that a queue stood, so that the rate may be the windows' or "
                "the hosts' limit: the path has at least this"
            )
    losses = _retransmissions(file, sums, end, mss)
    if losses is not None:
        notes.append(
            "losses are TCP's retransmissions by interval: which packets were lost is not known, "
            "nor which of them the path's own queue dropped"
        )
    seconds = amount(at(end, "sum_sent", "seconds"), f"{file}: `seconds`", 1e7)
    title = f"iperf3's transfer over TCP of {seconds or 0:.4g} s"
    return Measurement(
        title, delays=transfer.smoothed(round_trips, least), losses=losses, rates=rates, notes=notes
    )


def _round_trips(file: Path, result: dict[str, Any]) -> tuple[list[float], float | None]:
    """The smoothed round-trip times of the senders that are on this side, and the least one."""
    found: list[float] = []
    for interval in items(result.get("intervals")):
        streams = [each for each in items(at(interval, "streams")) if not at(each, "omitted")]
        found += _column(streams, "rtt", file, MOST_SECONDS * 1e6)
    senders = [at(stream, "sender") for stream in items(at(result, "end", "streams"))]
    least = _column(senders, "min_rtt", file, MOST_SECONDS * 1e6)
    # Where the system tells none, iperf3 writes 0.
    times = [value * 1e-6 for value in found if value > 0]
    minimum = min((value * 1e-6 for value in least if value > 0), default=None)
    return times, minimum if minimum is not None else min(times, default=None)


def _retransmissions(file: Path, sums: list[Any], end: Any, mss: float) -> LossCounts | None:
    what = "retransmissions of TCP"
    rows = [each for each in sums if at(each, "retransmits") is not None] or [
        each for each in [at(end, "sum_sent")] if at(each, "retransmits") is not None
    ]
    lost = _column(rows, "retransmits", file, 1e12)
    octets = _column(rows, "bytes", file, 1e18)
    if not lost or len(octets) != len(lost):
        return None
    # Retransmitted segments were sent, too.
    sent = np.ceil(np.array(octets) / mss) + np.array(lost)
    if not sent.any():
        return None
    return LossCounts(np.array(lost), sent, what, is_estimate=True)


def _udp(file: Path, result: dict[str, Any], notes: list[str]) -> Measurement:
    end = result.get("end")
    at_server = at(result, "server_output_json")
    sums = _sums(at_server) if isinstance(at_server, dict) else []
    if not any(at(each, "packets") and at(each, "lost_packets") is not None for each in sums):
        sums = [each for each in _sums(result) if at(each, "lost_packets") is not None]
    received = at(end, "sum_received")
    total = received if at(received, "packets") else at(end, "sum")
    rows = sums or [total]
    lost = _column(rows, "lost_packets", file, 1e12)
    sent = _column(rows, "packets", file, 1e12)
    losses = None
    if lost and len(lost) == len(sent) and any(sent):
        if any(a > b for a, b in zip(lost, sent, strict=True)):
            raise AnabranchError(f"{file}: more packets lost than sent in an interval")
        losses = LossCounts(
            np.array(lost), np.array(sent), "datagrams that did not arrive",
            times_s=_begins(sums, file) if len(lost) == len(sums) else None,
        )  # fmt: skip
    jitters = [value * 1e-3 for value in _column(rows, "jitter_ms", file, MOST_SECONDS * 1e3)]
    octets = amount(at(result, "start", "test_start", "blksize"), f"{file}: `blksize`", 65_535)
    octets = octets or 1448.0
    headers = 48 if _is_ipv6(result) else 28
    # What arrived: an older client only knows what it has sent, of which the lost are taken off.
    values, intervals = _rates(sums, total, file)
    if not sums and losses is not None and total is not received:
        values = [value * (1 - losses.count / losses.sent) for value in values]
    rates = None
    if any(values):
        rates = Rates(
            np.array(values) * (octets + headers) / octets,
            f"datagrams that arrived, with headers of {headers} bytes each", is_bound=True,
            packet_octets=octets + headers, times_s=_begins(intervals, file),
        )  # fmt: skip
    notes.append(
        "iperf3 sends UDP at a rate of its own: the path has at least what arrived, and losses may "
        "be those of a full queue; which datagrams were lost, and the delay, are not known"
    )
    return Measurement(
        f"iperf3's transfer over UDP of {int(sum(sent))} datagrams",
        losses=losses,
        rates=rates,
        jitters=Jitters(np.array(jitters), "interarrival jitter of RFC 3550") if jitters else None,
        notes=notes,
    )
