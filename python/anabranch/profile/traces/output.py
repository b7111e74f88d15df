"""Writes a trace as a part of a scenario, as a packet-delivery trace, and a first scenario."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support import toml_text

from ..intervals import Vector
from ..logs.mahimahi import OCTETS
from ..output import check_names, comment, fixed, folded
from .series import MOST_STEPS, Direction, Series, Trace

MOST_OPPORTUNITIES = 20_000_000
"""The most lines of a packet-delivery trace that is written."""
_LEAST_BIT_PER_S = 1.0
"""A slower link is one that stands still: a scenario has no rate below this."""
_MOST_BIT_PER_S = 1e13
_LONGEST_DOWNLOAD_S, _LONGEST_PROBING_S = 600.0, 86_400.0
"""How long a first scenario takes at most, in seconds."""
_REST_S = 10.0
"""How long a run may go on for what is on its way, in seconds."""
_PROBE_OCTETS, _LEAST_PROBE_S, _PROBE_S = 64, 1e-3, 0.1
"""The bytes of a probe, and the least and the most time between two of them, in seconds."""
_NOT_STATED = "not stated"
_KEPT = re.compile(r"(source|licen[cs]e)\s*:\s*(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a log comes from."""

    file: str
    """The name of the file."""
    source: str | None = None
    """Who has measured it, and where it is had."""
    licence: str | None = None


def origin(trace: Trace, source: str | None, licence: str | None) -> Origin:
    """What the user says about the origin, else what the head of the log says."""
    said = dict[str, str]()
    for line in trace.kept:
        if match := _KEPT.match(line):
            said.setdefault("source" if match[1].lower() == "source" else "licence", match[2])
    return Origin(trace.file, source or said.get("source"), licence or said.get("licence"))


def header(trace: Trace, of: Origin) -> list[str]:
    """What a file says of its origin, without marks of comments."""
    lines = [
        f"Source: {of.source or _NOT_STATED}",
        f"Licence: {of.licence or _NOT_STATED}",
        f"File: {of.file}",
        f"Measured: {_when(trace)}",
    ]
    lines += [f"{name}: {value}" for name, value in summary(trace)]
    lines += [f"Converted: {note}" for note in trace.notes]
    kept = [line for line in trace.kept if not _KEPT.match(line)]
    return lines + [f"From the log's head: {line}" for line in kept]


def _when(trace: Trace) -> str:
    if trace.began_s is None or not 0 < trace.began_s + trace.length_s < 2e11:
        return f"over {trace.length_s:.6g} s; the log does not say when"
    begin, end = (
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        for at in (trace.began_s, trace.began_s + trace.length_s)
    )
    return f"{begin} to {end}, by the log's clock"


def summary(trace: Trace) -> list[tuple[str, str]]:
    """What a trace has, in words."""
    found = []
    rate = trace.mean_bit_per_s
    if rate is not None:
        found.append(("Rate", f"mean {fixed(rate / 1e6, 4)} Mbit/s{_range(trace.there.rate, 1e6)}"))
    if trace.back is not None and trace.back.rate is not None:
        mean = trace.back.rate.mean(trace.length_s)
        found.append(("Rate back", f"mean {fixed(mean / 1e6, 4)} Mbit/s"))
    if trace.mean_rtt_s is not None:
        found.append(("Round trip", f"mean {fixed(trace.mean_rtt_s * 1e3, 3)} ms"))
    for name, way in (("Delay", trace.there), ("Delay back", trace.back)):
        if way is not None and way.delay is not None:
            mean = way.delay.mean(trace.length_s)
            found.append((name, f"mean {fixed(mean * 1e3, 3)} ms{_range(way.delay, 1e-3)}"))
    if trace.mean_loss is not None:
        found.append(("Lost", f"{fixed(trace.mean_loss * 100, 3)} %"))
    return found


def _range(series: Series | None, unit: float) -> str:
    if series is None or len(series.values) == 1:
        return ""
    low, high = (fixed(float(f(series.values)) / unit, 3) for f in (np.min, np.max))
    return f", from {low} to {high}, {len(series.values):,} values"


def link(
    trace: Trace,
    name: str,
    ends: tuple[str, str],
    *,
    of: Origin,
    file: str,
    deliveries: Mapping[int, str] | None = None,
) -> str:
    """A file that scenarios `include`: the link, and a path over it.

    Parameters
    ----------
    trace
        What was measured.
    name
        The name of the link and the path.
    ends
        The link's nodes.
    of
        Where the log comes from.
    file
        The name of the file that is written.
    deliveries
        The files of packet-delivery traces, which take the place of rates, by the `id` of their
        directions.
    """
    check_names(name, ends)
    lines = [
        f"# Trace of {comment(trace.title)}.",
        f"# Written by `anabranch trace import`; in a scenario: include = [{_text(file)}].",
        *(f"# {comment(line)}" for line in header(trace, of)),
    ]
    lines = [part for line in lines for part in folded(line)]
    lines += ["", f"[links.{name}]", f'ends = ["{ends[0]}", "{ends[1]}"]']
    lines += _rate(trace.there, trace.length_s, deliveries)
    lines += _delay(trace.there, trace.length_s)
    if trace.there.loss is not None:
        lines.append(_loss(trace.there.loss, trace.length_s))
    if (back := trace.back) is not None:
        lines += ["", f"[links.{name}.reverse]"]
        lines += _rate(back, trace.length_s, deliveries)
        lines += _delay(back, trace.length_s)
        if back.loss is not None and back.loss.values.any():
            lines.append(_loss(back.loss, trace.length_s))
        elif trace.there.loss is not None:
            lines.append('loss = { kind = "none" }')
    lines += ["", f"[paths.{name}]", f'via = ["{name}"]']
    return "\n".join(lines) + "\n"


def _rate(way: Direction, length_s: float, deliveries: Mapping[int, str] | None) -> list[str]:
    """The rate; while there is none, the link is down and its queue waits."""
    if deliveries and (file := deliveries.get(id(way))) is not None:
        return [f"rate = {{ mahimahi = {_text(file)} }}"]
    if way.rate is None:
        return []
    values = np.minimum(way.rate.values, _MOST_BIT_PER_S)
    is_up = values >= _LEAST_BIT_PER_S
    if not is_up.any():
        raise AnabranchError(
            f"every rate is below {_LEAST_BIT_PER_S:g} bit/s, so that nothing could be sent"
        )
    # While the link is down its rate is the one before, or of the beginning the first one.
    last = np.maximum.accumulate(np.where(is_up, np.arange(len(values)), -1))
    last[last < 0] = int(np.argmax(is_up))
    rates = [f'"{fixed(value / 1e3, 3)} kbit/s"' for value in values[last]]
    states = ["true" if up else "false" for up in is_up]
    return [
        f"rate = {_timetable(way.rate.times_s, rates, length_s)}",
        f"up = {_timetable(way.rate.times_s, states, length_s)}",
    ]


def _delay(way: Direction, length_s: float) -> list[str]:
    if way.delay is None:
        return []
    texts = [f'"{fixed(value * 1e3, 3)} ms"' for value in way.delay.values]
    return [f"delay = {_timetable(way.delay.times_s, texts, length_s)}"]


def _loss(series: Series, length_s: float) -> str:
    texts = [fixed(float(value), 6) for value in series.values]
    table = _timetable(series.times_s, texts, length_s)
    return f'loss = {{ kind = "bernoulli", probability = {table} }}'


def _timetable(times_s: Vector, texts: Sequence[str], length_s: float) -> str:
    """A value or a timetable as TOML; a value that is as the one before is left out."""
    changes = [
        (at, text)
        for index, (at, text) in enumerate(zip(times_s.tolist(), texts, strict=True))
        if not index or text != texts[index - 1]
    ]
    if len(changes) == 1:
        return changes[0][1]
    over = max(length_s, changes[-1][0] + 1e-6)
    rows = "".join(f'\n  ["{fixed(at, 6)} s", {text}],' for at, text in changes)
    return f'{{ repeat = "{fixed(over, 6)} s", timetable = [{rows}\n] }}'


def rate_of(opportunities_ms: Vector) -> Series:
    """The mean rates of the seconds of a packet-delivery trace, of a long one over more."""
    last_s = float(opportunities_ms[-1]) / 1e3
    width_s = float(math.ceil(max(last_s / MOST_STEPS, 1.0)))
    # An opportunity is the end of the millisecond before it.
    windows = np.floor(np.maximum(opportunities_ms - 1, 0) / (width_s * 1e3))
    number, count = np.unique(windows, return_counts=True)
    rates = np.zeros(int(number[-1]) + 1)
    rates[number.astype(np.int64)] = count * (OCTETS * 8.0 / width_s)
    rates[-1] *= width_s / max(last_s - number[-1] * width_s, 1e-3)
    return Series(np.arange(len(rates), dtype=np.float64) * width_s, rates)


def deliveries(series: Series, length_s: float) -> Vector:
    """A rate as a packet-delivery trace: when 1500 bytes can be sent, in whole milliseconds."""
    ends = np.append(series.times_s[1:], max(length_s, float(series.times_s[-1]) + 1e-6))
    spans = ends - series.times_s
    bits = np.concatenate([[0.0], np.cumsum(series.values * spans)])
    count = int(bits[-1] // (OCTETS * 8))
    whole = round(length_s * 1e3)
    if not 1 <= count <= MOST_OPPORTUNITIES or not 1 <= whole <= 1_000_000_000:
        raise AnabranchError(
            f"a packet-delivery trace of it would have {count:,} lines in {length_s:.6g} s; there "
            f"can be 1 to {MOST_OPPORTUNITIES:,} in 1 ms to 1e6 s: leave --mahimahi out"
        )
    at = np.interp(
        np.arange(1, count + 1) * OCTETS * 8.0, bits, np.append(series.times_s[:1], ends)
    )
    found = np.clip(np.ceil(at * 1e3 - 1e-6), 1, whole)
    # The last line is the length of the trace.
    found[-1] = whole
    return np.asarray(found, dtype=np.float64)


def delivery_text(trace: Trace, of: Origin, times_ms: Vector) -> str:
    """The file of a packet-delivery trace."""
    head = [f"Packet-delivery trace of {trace.title}.", *header(trace, of)]
    head.append("Each line is a time in ms at which 1500 bytes can be sent.")
    lines = [part for line in head for part in folded(f"# {comment(line)}")]
    return "\n".join([*lines, *(str(int(at)) for at in times_ms.tolist())]) + "\n"


def scenario(trace: Trace, name: str, ends: tuple[str, str], file: str) -> str:
    """A first scenario over the link: a download where it has a rate, else probes."""
    has_rate = trace.there.rate is not None or trace.there.opportunities_ms is not None
    lines = [
        f"# A first scenario over the link of {comment(file)}. Change its flows, or use that file",
        "# in a scenario of your own.",
    ]
    lasts = min(trace.length_s, _LONGEST_DOWNLOAD_S if has_rate else _LONGEST_PROBING_S)
    if not has_rate:
        lines.append("# The mean delays of both flows together are the mean round trip.")
    if lasts < trace.length_s:
        lines.append(f"# The trace has {trace.length_s:.6g} s; a longer run takes more of it.")
    lines += [
        f"include = [{_text(file)}]",
        f'name = "{name}"',
        "seed = 1",
        "",
        "[run]",
        f'duration = "{fixed(lasts + _REST_S, 6)} s"',
    ]
    if has_rate:
        lines += [
            "",
            "[flows.download]",
            *_flow(name, ends),
            'transport = { kind = "tcp", cc = "cubic" }',
            f'app = {{ kind = "bulk", duration = "{fixed(lasts, 6)} s" }}',
        ]
        return "\n".join(lines) + "\n"
    every = min(max(trace.spacing_s or _PROBE_S, _LEAST_PROBE_S), _PROBE_S)
    rate = round(_PROBE_OCTETS * 8 / every)
    for flow, way in (("there", ""), ("back", "reverse = true\n")):
        lines += [
            "",
            f"[flows.{flow}]",
            *_flow(name, ends),
            'transport = { kind = "udp" }',
            "",
            f"[flows.{flow}.app]",
            'kind = "datagrams"',
            f'size = "{_PROBE_OCTETS} B"',
            f'rate = "{rate} bit/s"',
            'intervals = { kind = "cbr" }',
            f'duration = "{fixed(lasts, 6)} s"',
            "measure = true",
            *way.splitlines(),
        ]
    return "\n".join(lines) + "\n"


def _text(name: str) -> str:
    """A name of a file as TOML."""
    return toml_text.inline(name)


def _flow(name: str, ends: tuple[str, str]) -> list[str]:
    return [f'from = "{ends[0]}"', f'to = "{ends[1]}"', f'paths = ["{name}"]']
