"""Ping of Linux (iputils, BusyBox), macOS and the BSDs: one or several runs, with or without `-D`.

A line `PING ` begins a run; so does an answer to a request that has been answered, unless it is
marked as a duplicate. Of requests to a broadcast or multicast address the answers of one host are
taken, which is the one that answered most.
"""

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.support.reading import lines, places, seconds

from ..measurement import Measurement
from .rounds import MOST_LATE, Rounds, measurement

NAME = "the output of ping"

_ANSWER = re.compile(
    r"(?:bytes from (\S+?)[:,]?\s.*?)?(icmp_)?seq[= ](\d+).*?time[=<]([\d.]+) ?(us|ms|s)\b"
)
_ASKED = re.compile(r"icmp_seq[= ](\d+)")
_STAMP = re.compile(r"^\[(\d+\.\d+)\]")
_SUMMARY = re.compile(
    r"^(\d{1,12}) packets transmitted, (\d{1,12}) (packets )?received.*?(?:time (\d+) ?ms)?$"
)
_TARGET = re.compile(r"^PING6?(?:\([^)]*\))? (\S+)")
_UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_MOST_HOSTS = 256
"""The most hosts whose answers are kept apart."""


@dataclass(slots=True)
class _Run:
    """What one run of ping has printed."""

    file: Path
    target: str | None = None
    is_whole: bool = False
    """Whether its first line is there."""
    counts_from_0: bool = False
    """As BusyBox and macOS do."""
    sent: int = 0
    received: int = 0
    """As its last lines say."""
    took_s: float | None = None
    asked: int | None = None
    last: int = 0
    hosts: dict[str, Rounds] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """The request's number; on the wire it has 16 bits: the one nearest to the last is taken.

        If that is further back than answers come late, it belongs to a time after a long outage.
        """
        sequence = int(text[:12])
        if self.hosts:
            near = self.last + (sequence - self.last + 32768) % 65536 - 32768
            sequence = near if near > self.last - MOST_LATE else max(near, sequence)
        return sequence

    def answer(self, host: str, number: int, time_s: float, digits: int) -> None:
        if host not in self.hosts and len(self.hosts) >= _MOST_HOSTS:
            return
        self.last = max(self.last, number)
        self.hosts.setdefault(host, Rounds(self.file)).answer(number, time_s, digits)

    def rounds(self, host: str) -> Rounds:
        """The run as this host answered it."""
        found = self.hosts.get(host, Rounds(self.file))
        first = 0 if self.counts_from_0 else 1
        if self.is_whole:
            # Output without its beginning does not show which pings were sent before.
            found.ask(min(first, found.first if found.first is not None else first))
        if self.sent:
            found.ask((found.first if found.first is not None else first) + self.sent - 1)
        if self.asked is not None:
            found.ask(max(self.asked, found.first if found.first is not None else first))
        if found.has_steps():
            found.spacing_s = found.mean_step_s()
        elif self.took_s and self.sent > 1:
            found.spacing_s = self.took_s / (self.sent - 1)
        return found


def recognises(head: str) -> bool:
    """Whether a text begins like ping's output."""
    begin = itertools.islice((line for line in head.splitlines() if line.strip()), 20)
    return any(
        line.startswith(("PING ", "PING6(")) or " bytes from " in line or "icmp_seq" in line
        for line in begin
    )


def read(file: Path) -> Measurement:
    """Reads one or several runs."""
    runs = _runs(file)
    notes = []
    targets: dict[str | None, int] = {}
    for run in runs:
        answers = sum(rounds.answered for rounds in run.hosts.values())
        targets[run.target] = targets.get(run.target, 0) + max(answers, run.sent)
    if len(targets) > 1:
        chosen = max(targets, key=lambda target: targets[target])
        others = ", ".join(str(target)[:60] for target in targets if target != chosen)[:200]
        notes.append(f"only the pings to {chosen} are measured; others in the file: {others}")
        runs = [run for run in runs if run.target == chosen]
    if any(run.received for run in runs) and not any(run.hosts for run in runs):
        raise AnabranchError(
            f"{file}: ping's summary without its answers; the output without `-q` and `-f` is read"
        )
    # The same host answers in each run; where several do, one is a path and all together none.
    answered: dict[str, int] = {}
    for run in runs:
        for host, rounds in run.hosts.items():
            answered[host] = answered.get(host, 0) + rounds.answered
    host = max(answered, key=lambda name: answered[name], default="")
    if len(answered) > 1:
        notes.append(
            f"{len(answered)} hosts answered, as to a broadcast; only the answers of "
            f"{host or 'one'} are measured"
        )
    stamps = [run.hosts[host].began_s() for run in runs if host in run.hosts]
    began_s = min((stamp for stamp in stamps if stamp is not None), default=None)
    return measurement(file, [run.rounds(host) for run in runs], notes=notes, began_s=began_s)


def _runs(file: Path) -> list[_Run]:
    run = _Run(file)
    runs = [run]
    for number, line in lines(file):
        if target := _TARGET.match(line):
            run = _Run(file, target=target[1], is_whole=True)
            runs.append(run)
        if summary := _SUMMARY.search(line.strip()):
            run.sent = int(summary[1])
            run.received = int(summary[2])
            run.took_s = int(summary[4][:12]) / 1e3 if summary[4] else None
            run.counts_from_0 |= summary[3] is not None
        match = _ANSWER.search(line)
        if match is None:
            if asked := _ASKED.search(line):
                run.asked = max(run.asked or 0, run.number(asked[1]))
                run.counts_from_0 |= line.startswith("Request timeout")
            continue
        host = match[1] or ""
        sequence = run.number(match[3])
        answered = run.hosts.get(host)
        if "DUP" in line:
            if answered is not None and answered.is_settled(sequence):
                continue
        elif answered is not None and answered.is_settled(sequence):
            run = _Run(file, target=run.target)
            runs.append(run)
            sequence = run.number(match[3])
        run.counts_from_0 |= match[2] is None
        unit = _UNIT_S[match[5]]
        time_s = seconds(match[4], unit, file, number)
        run.answer(host, sequence, time_s, places(match[4], unit))
        if (stamp := _STAMP.match(line)) and host in run.hosts:
            # A stamp is the time of an answer, so the round-trip time is subtracted.
            run.hosts[host].stamp(sequence, float(stamp[1][:24]) - time_s)
    return [run for run in runs if run.hosts or run.sent or run.asked is not None]
