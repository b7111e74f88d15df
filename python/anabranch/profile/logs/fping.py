"""fping: lines of `-l` and `-c`, the row of `-C`, and JSON (`-J`), for one host (src/output.c)."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.support.reading import amount, at, items, lines, parsed, places, seconds

from ..measurement import Measurement
from .rounds import Rounds, measurement

NAME = "the output of fping"

_LINE = re.compile(
    r"^(?:\[([^\]]*)\] )?(\S+)\s*: \[(\d{1,9})\], (?:\d+ bytes, ([\d.e+-]+) ms|timed out)"
)
_STAMP = re.compile(r"^\d{1,15}(?:\.\d{1,9})?$")
_ROW = re.compile(r"^(\S+)\s*:((?: (?:[\d.]+|-))+)\s*$")
_SENT = re.compile(r"^(\S+)\s*: xmt/rcv/%(?:loss|return) = (\d{1,9})/")
_JSON = re.compile(r'^\{"(?:resp|timeout|vSum|summary|intSum)": ?\{')
_MOST_HOSTS = 1_000


@dataclass(slots=True)
class _Host:
    runs: list[Rounds]
    row: Rounds | None = None
    sent: int = 0

    @property
    def known(self) -> list[Rounds]:
        """The runs; the row of `-C` only says again what the lines above it have said."""
        found = [run for run in self.runs if len(run)]
        if not found and self.row is not None:
            return [self.row]
        if len(found) == 1 and self.sent:
            found[0].ask((found[0].first or 0) + self.sent - 1)
        return found


def recognises(head: str) -> bool:
    """Whether a text begins like fping's output."""
    begin = [line for line in head.splitlines() if line.strip()][:20]
    return any(each.match(line) for line in begin for each in (_LINE, _SENT, _JSON)) or bool(
        begin and _ROW.match(begin[0]) and " : " in begin[0]
    )


def read(file: Path) -> Measurement:
    """Reads the pings of the host that was asked most."""
    hosts: dict[str, _Host] = {}
    for number, line in lines(file):
        if line.startswith("{"):
            _take_json(hosts, line, file, number)
        elif match := _LINE.match(line):
            _take_line(_run(hosts, match[2], int(match[3]), file), match, file, number)
        elif match := _ROW.match(line):
            row = _host(hosts, match[1], file).row = Rounds(file)
            for index, text in enumerate(match[2].split()):
                if text == "-":
                    row.lose(index)
                else:
                    row.answer(index, seconds(text, 1e-3, file, number), places(text, 1e-3))
        elif match := _SENT.match(line):
            _host(hosts, match[1], file).sent = int(match[2])
    if not hosts:
        return measurement(file, [])
    asked = {name: sum(len(run) for run in host.known) for name, host in hosts.items()}
    chosen = max(asked, key=lambda name: asked[name])
    notes = []
    if len(hosts) > 1:
        notes.append(
            f"{len(hosts)} hosts were asked, each over a path of its own; only the pings to "
            f"{chosen} are measured"
        )
    return measurement(file, hosts[chosen].known, notes=notes)


def _take_json(hosts: dict[str, _Host], line: str, file: Path, number: int) -> None:
    where = f"{file}, line {number}"
    tree = parsed(line, where)
    for kind in ("resp", "timeout"):
        if (answer := tree.get(kind)) is not None:
            sequence = int(amount(at(answer, "seq"), f"{where}: seq", 1e9) or 0)
            run = _run(hosts, str(at(answer, "host")), sequence, file)
            rtt = at(answer, "rtt")
            if rtt is None:
                run.lose(sequence)
            else:
                run.answer(sequence, *_written(rtt, where))
    if (summary := tree.get("vSum")) is not None:
        row = _host(hosts, str(at(summary, "host")), file).row = Rounds(file)
        for index, value in enumerate(items(at(summary, "values"))):
            if value is None or value == "-":
                row.lose(index)
            else:
                row.answer(index, *_written(value, where))
    if (summary := tree.get("summary")) is not None:
        sent = amount(at(summary, "xmt"), f"{where}: xmt", 1e9)
        _host(hosts, str(at(summary, "host")), file).sent = int(sent or 0)


def _written(value: Any, where: str) -> tuple[float, int]:
    """A time in seconds and its decimal places."""
    found = amount(value, f"{where}: the round-trip time", 1e8)
    return (found or 0.0) * 1e-3, places(str(value), 1e-3)


def _take_line(run: Rounds, match: re.Match[str], file: Path, number: int) -> None:
    stamp, _, asked, trip = match.groups()
    if trip is None:
        run.lose(int(asked))
        return
    time_s = seconds(trip, 1e-3, file, number)
    run.answer(int(asked), time_s, places(trip, 1e-3))
    if stamp is not None and _STAMP.match(stamp):
        # Of an answer (`-D`), so the round-trip time is subtracted.
        run.stamp(int(asked), float(stamp) - time_s)


def _host(hosts: dict[str, _Host], name: str, file: Path) -> _Host:
    if name not in hosts and len(hosts) >= _MOST_HOSTS:
        # The first ones are as good as any.
        return _Host([Rounds(file)])
    return hosts.setdefault(name, _Host([Rounds(file)]))


def _run(hosts: dict[str, _Host], name: str, number: int, file: Path) -> Rounds:
    """The run that this request is of: numbers that come again are those of the next run."""
    host = _host(hosts, name, file)
    if host.runs[-1].is_settled(number):
        host.runs.append(Rounds(file))
    return host.runs[-1]
