"""The events of a qlog file, whatever form it has.

Read are draft-ietf-quic-qlog-main-schema (version 0.3, which is its draft 02, and those after it,
with `file_schema`), as one JSON document (`traces`) or as a sequence of records: JSON-SEQ
(RFC 7464), or a record a line. Events that are arrays, in the order of `event_fields` (drafts 00
and 01, which picoquic and mvfst write), are read, too.

A sequence is read as a stream. Of a document all is in the memory, so its size has a limit.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.support import wording
from anabranch.support.reading import MOST_LINE, amount, at, head, items, lines, parsed, tree

MOST_DOCUMENT_MB = 64
"""The most that is read, unpacked, of a file that is one JSON document."""

SUFFIXES = (".qlog", ".sqlog", ".qlog.gz", ".sqlog.gz")

_SEQUENCE = "\x1e"
"""RFC 7464: what a record begins with."""

_MOST_MS = 1e17
"""The farthest time that is read, in units of the file."""

MOST_NUMBER = 2.0**64

_LONGEST_NAME = 100

_OF_TUPLE = re.compile(r"^p(?=\d+$)")

_TOLD_EACH = 1 << 20
"""Characters between two calls of what shows progress."""

_RELATIVE_TO_LAST = {"delta", "relative_to_previous_event"}
"""Formats of time that count from the event before: of 0.3, and of later drafts."""

_OLD_FIELDS = {
    "event_type": "event",
    "type": "event",
    "relative_time": "time",
    "delta_time": "time",
}
"""Names of fields of events in drafts 00 and 01, by those that are used here."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a trace."""

    where: str
    """The file and which event it is, for messages."""
    at_s: float
    """Since the first event of its trace."""
    schema: str
    """Its category (0.3) or namespace: `transport`, `quic`."""
    name: str
    data: Mapping[str, Any]
    group: str
    """What it is about: of a trace with several connections which one."""
    side: str
    """The vantage point: `client`, `server`, `network` or `unknown`."""
    path: str
    """The path, where the event names one outside its data; empty otherwise."""
    unit_ms: float
    """What the durations of its data count in, in ms."""


@dataclass
class Reading:
    """What is to be said of a file besides its events; it grows while they are read."""

    events: int = 0
    back: int = 0
    """Events whose time is before that of the event before."""
    is_cut: bool = False
    """Whether the last record is not whole."""
    errors: list[str] = field(default_factory=list)
    """Traces that a tool could not make, by their descriptions."""


def is_qlog(file: Path) -> bool:
    """Whether a file is one, by its name or how it begins."""
    if file.name.endswith(SUFFIXES):
        return True
    if not file.is_file():
        return False
    begin = _begin(file)
    keys = ('"qlog_version"', '"qlog_format"', "urn:ietf:params:qlog:")
    return begin.startswith((_SEQUENCE, "{")) and any(key in begin for key in keys)


def events(
    file: Path, reading: Reading, progress: Callable[[int], None] | None = None
) -> Iterator[Event]:
    """The events of a file, trace by trace.

    Raises
    ------
    AnabranchError
        Where the file is no qlog, or something in it is not what it has to be.
    """
    begin = _begin(file)
    if not begin:
        raise AnabranchError(f"{file}: not qlog: the file is empty")
    if not begin.startswith((_SEQUENCE, "{")):
        raise AnabranchError(f"{file}: not qlog: it begins with neither a JSON object nor 0x1e")
    if _is_sequence(begin):
        yield from _of_sequence(file, reading, progress, is_marked=begin.startswith(_SEQUENCE))
    else:
        yield from _of_document(file, reading)


def _begin(file: Path) -> str:
    return head(file).lstrip("\ufeff \t\r\n")


def _is_sequence(begin: str) -> bool:
    """Whether a file has a record for each event: its first line is a whole object by itself."""
    if begin.startswith(_SEQUENCE):
        return True
    try:
        first = json.loads(begin.partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "traces" not in first


def _texts(file: Path, progress: Callable[[int], None] | None, *, is_marked: bool) -> Iterator[str]:
    """The records of a sequence: what stands between two marks, or else each line."""
    kept: list[str] = []
    length = read = told = 0
    size = file.stat().st_size
    for _, line in lines(file):
        read += len(line)
        if progress is not None and read >= told:
            # Of a packed file this is more than its size.
            progress(min(read, size))
            told = read + _TOLD_EACH
        first, *others = line.split(_SEQUENCE) if is_marked else ("", line)
        kept.append(first)
        length += len(first)
        if length > MOST_LINE:
            raise AnabranchError(
                f"{file}: a record of more than {MOST_LINE:,} characters, the most that is read"
            )
        for other in others:
            yield "".join(kept)
            kept, length = [other], len(other)
    yield "".join(kept)


def _of_sequence(
    file: Path, reading: Reading, progress: Callable[[int], None] | None, *, is_marked: bool
) -> Iterator[Event]:
    trace = None
    number = 0
    failed: AnabranchError | None = None
    for text in _texts(file, progress, is_marked=is_marked):
        if not text.strip():
            continue
        if failed is not None:
            raise failed
        number += 1
        where = f"{file}, record {number}"
        try:
            record = parsed(text, where, "record")
        except AnabranchError as error:
            # Whoever wrote the last one may have been stopped: only of others it is a mistake.
            failed = error
            continue
        if trace is None:
            trace = _Trace(at(record, "trace"), file.name, reading)
            if "time" not in record:
                if not {"qlog_version", "qlog_format", "file_schema", "trace"} & record.keys():
                    raise AnabranchError(
                        f"{where}: not qlog: it has none of qlog_version, file_schema and trace"
                    )
                continue
        yield trace.event(record, where)
    if failed is not None:
        if number <= 1:
            raise failed
        reading.is_cut = True


def _of_document(file: Path, reading: Reading) -> Iterator[Event]:
    document = tree(file, MOST_DOCUMENT_MB, "; a JSON-SEQ file (.sqlog) may have any size")
    traces = document.get("traces")
    if not isinstance(traces, list):
        raise AnabranchError(f"{file}: not qlog: its `traces` are no list")
    for number, found in enumerate(traces, 1):
        said = at(found, "error_description")
        if said is not None:
            reading.errors.append(wording.harmless(str(said)[:_LONGEST_NAME]))
            continue
        name = file.name if len(traces) == 1 else f"trace {number}"
        trace = _Trace(found, name, reading)
        if not isinstance(at(found, "events"), list):
            raise AnabranchError(f"{file}, trace {number}: not qlog: its `events` are no list")
        for index, event in enumerate(items(at(found, "events")), 1):
            yield trace.event(event, f"{file}, trace {number}, event {index}")


class _Trace:
    """What the events of a trace have in common."""

    def __init__(self, found: Any, name: str, reading: Reading) -> None:
        self._reading = reading
        common = at(found, "common_fields")
        self._common = common if isinstance(common, dict) else {}
        self._fields = [str(one).lower() for one in items(at(found, "event_fields"))]
        units = at(found, "configuration", "time_units")
        self._unit_ms = 1e-3 if units == "us" else 1.0
        self._name = name
        vantage = at(found, "vantage_point")
        side = at(vantage, "type")
        self._side = side if side in ("client", "server", "network") else "unknown"
        self._first: float | None = None
        self._last = 0.0
        self._last_s = 0.0

    def event(self, found: Any, where: str) -> Event:
        if isinstance(found, list) and self._fields:
            found = dict(zip(self._fields, found, strict=False))
        if not isinstance(found, dict):
            raise AnabranchError(f"{where}: not an event: it is no JSON object")
        for old, new in _OLD_FIELDS.items():
            if old in found and new not in found:
                found[new] = found[old]
        is_after = "delta_time" in found
        name = found.get("name")
        if name is None and isinstance(found.get("event"), str):
            name = f"{found.get('category', '')}:{found['event']}"
        if not isinstance(name, str):
            raise AnabranchError(f"{where}: its `name` is {_shown(name)}; it has to be a text")
        schema, _, kind = name.rpartition(":")
        data = found.get("data")
        if data is not None and not isinstance(data, dict):
            raise AnabranchError(f"{where}: its `data` is {_shown(data)}; it has to be an object")
        self._reading.events += 1
        path = found.get("path_id", found.get("tuple"))
        if isinstance(path, str):
            # The ID of a tuple is that of a path in noq's files, with a letter in front.
            path = _OF_TUPLE.sub("", path, count=1)
        return Event(
            where, self._at_s(found, where, is_after=is_after),
            schema.lower(), kind.lower(), data or {}, self._group(found), self._side,
            "" if path is None else str(path)[:_LONGEST_NAME], self._unit_ms,
        )  # fmt: skip

    def _at_s(self, found: dict[str, Any], where: str, *, is_after: bool) -> float:
        time = amount(found.get("time"), f"{where}: its `time`", _MOST_MS, -_MOST_MS)
        if time is None:
            raise AnabranchError(f"{where}: it has no `time`")
        form = found.get("time_format", self._common.get("time_format"))
        if is_after or (isinstance(form, str) and form in _RELATIVE_TO_LAST):
            time += self._last
        self._last = time
        if self._first is None:
            self._first = time
        at_s = (time - self._first) * self._unit_ms / 1e3
        if at_s < self._last_s:
            self._reading.back += 1
        self._last_s = max(at_s, self._last_s)
        return self._last_s

    def _group(self, found: dict[str, Any]) -> str:
        group = found.get("group_id", self._common.get("group_id"))
        if group is None:
            group = self._common.get("ODCID", self._name)
        text = group if isinstance(group, str) else json.dumps(group)
        return wording.harmless(text[:_LONGEST_NAME])


def whole(value: Any, what: str) -> int | None:
    """A whole number of 64 bits of an event, such as a packet number; None where there is none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value
    found = amount(value, what, MOST_NUMBER)
    return None if found is None else int(found)


def _shown(value: Any) -> str:
    return "missing" if value is None else f"`{wording.harmless(str(value)[:20])}`"
