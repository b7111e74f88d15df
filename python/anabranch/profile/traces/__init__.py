"""Traces from logs: how the rate, the delay and the losses of a path change with time.

`import_trace(file)` reads a log, `write(trace, out)` gives a link that scenarios `include`, and a
first scenario over it.
"""

import re
from collections.abc import Callable
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.support import reading
from anabranch.support.files import write_atomically

from .. import kinds
from ..logs import table
from . import of_logs, output, tables, unheaded
from .options import Options
from .output import summary
from .series import Direction, Series, Trace

_MOST_KEPT = 20
"""The most lines of comments that are taken over from the head of a log."""

__all__ = [
    "Direction",
    "Options",
    "Series",
    "Trace",
    "import_trace",
    "name_of",
    "names",
    "summary",
    "text",
    "write",
]


def import_trace(
    file: Path,
    options: Options | None = None,
    progress: Callable[[Path], Callable[[int], None]] | None = None,
) -> Trace:
    r"""Reads a log as values that change with time, and recognises its kind by its content.

    Parameters
    ----------
    file
        A log of ping, fping, mtr (--raw), irtt, iperf3 (--json), flent or mm-link; a table (CSV) of
        times and rates, delays or losses; a packet-delivery trace (Mahimahi). It may be packed with
        gzip.
    options
        What the log does not say: columns, units, the time between packets.
    progress
        Called for the file; gives a function that is told how many of its bytes have been read.

    Raises
    ------
    AnabranchError
        Where a file is no such log, says nothing over time, or goes back in time.

    Examples
    --------
    >>> from pathlib import Path
    >>> from anabranch.profile.traces import import_trace, write
    >>> log = Path("road.csv")
    >>> _ = log.write_text("time_s,mbit_per_s\n0,12\n1,8\n2,0\n3,10\n")
    >>> trace = import_trace(log)
    >>> trace.mean_bit_per_s
    7500000.0
    >>> [path.name for path in write(trace, Path("road.toml"), licence="CC BY 4.0")]
    ['road.toml', 'road-run.toml']
    """
    said = options or Options()
    kinds.start(file)
    head = reading.head(file)
    with reading.watched(progress):
        is_text = "\0" not in head and "\ufffd" not in head
        if is_text and said.columns:
            trace = tables.trace(file, said)
        elif is_text and unheaded.recognises(head):
            trace = unheaded.trace(file, said)
        else:
            reader = kinds.reader(file)
            if reader is None:
                raise AnabranchError(
                    f"{file}: a capture has no values over time that are imported; `anabranch "
                    "profile` estimates a path from it"
                )
            if reader is table:
                trace = tables.trace(file, said)
            else:
                _check_log(file, reader.NAME, said)
                trace = of_logs.trace(file, reader.read(file), said)
    trace.file = file.name
    trace.kept = [line[1:].strip() for line in _comments(head)]
    return trace


def _check_log(file: Path, name: str, options: Options) -> None:
    for option in ("where", "time_unit", "rate_unit", "delay_unit", "loss_unit"):
        if getattr(options, option):
            flag = option.replace("_", "-")
            raise AnabranchError(f"{file}: {name}, which has no columns; leave --{flag} out")


def _comments(head: str) -> list[str]:
    """The comments in front of the first line of data."""
    found = []
    for line in head.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if line.strip("# \t"):
            found.append(line[:500])
    return found[:_MOST_KEPT]


def write(
    trace: Trace,
    out: Path,
    *,
    name: str | None = None,
    ends: tuple[str, str] = ("a", "b"),
    source: str | None = None,
    licence: str | None = None,
    mahimahi: bool = False,
) -> list[Path]:
    """Writes the link, its packet-delivery traces and, where there is none yet, a first scenario.

    Parameters
    ----------
    trace
        What a log says.
    out
        The file of the link, which scenarios `include`; the others are written beside it.
    name
        The name of the link and the path; that of the file if not given.
    ends
        The link's nodes: forward is from the first to the second.
    source, licence
        Where the log is had, and under which licence; they are kept in the heads of the files.
    mahimahi
        Whether rates become packet-delivery traces, which other programs read.

    Returns
    -------
    The files that were written, that of the link first.
    """
    name = name or name_of(out.stem)
    of = output.origin(trace, source, licence)
    files = names(trace, out, mahimahi=mahimahi)
    traces = _traces(trace, out, mahimahi=mahimahi)
    texts = {}
    for way, file in traces:
        times = way.opportunities_ms
        if times is None:
            assert way.rate is not None
            times = output.deliveries(way.rate, trace.length_s)
        texts[file] = output.delivery_text(trace, of, times)
    named = {id(way): file.name for way, file in traces}
    link = output.link(trace, name, ends, of=of, file=out.name, deliveries=named)
    run = output.scenario(trace, name, ends, out.name)
    written = dict(zip(files, [link, run, *texts.values()], strict=True))
    if files[1].exists():
        # A user may have changed it.
        del written[files[1]]
    for file, text in written.items():
        write_atomically(file, text.encode())
    return [*written]


def text(
    trace: Trace,
    name: str,
    ends: tuple[str, str] = ("a", "b"),
    *,
    source: str | None = None,
    licence: str | None = None,
) -> str:
    """The file of the link alone, as `write` writes it; rates are a timetable."""
    of = output.origin(trace, source, licence)
    way = trace.there
    if way.opportunities_ms is not None:
        way.rate = output.rate_of(way.opportunities_ms)
    return output.link(trace, name, ends, of=of, file=f"{name}.toml")


def name_of(stem: str) -> str:
    """A name that a scenario takes, made of that of a file."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", stem)[:100] or "path"


def names(trace: Trace, out: Path, *, mahimahi: bool) -> list[Path]:
    """The files that `write` writes: the link, the scenario, packet-delivery traces."""
    traces = [file for _, file in _traces(trace, out, mahimahi=mahimahi)]
    return [out, out.with_name(f"{out.stem}-run.toml"), *traces]


def _traces(trace: Trace, out: Path, *, mahimahi: bool) -> list[tuple[Direction, Path]]:
    """The directions whose rates become packet-delivery traces, and their files."""
    return [
        (way, out.with_name(f"{out.stem}{end}.trace"))
        for way, end in ((trace.there, ""), (trace.back, "-back"))
        if way is not None
        and (way.opportunities_ms is not None or (mahimahi and way.rate is not None))
    ]
