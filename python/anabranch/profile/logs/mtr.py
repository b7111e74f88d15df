"""mtr: single probes of `--raw` (ui/raw.c), or the report of `--json` (ui/report.c).

Measured is the way to the last host that answered.
"""

import re
from pathlib import Path

import numpy as np

from anabranch.errors import AnabranchError
from anabranch.support.reading import MOST_SECONDS, amount, at, head, items, lines, tree

from ..measurement import Delays, LossCounts, Measurement
from .rounds import Rounds, measurement

NAME = "mtr (`--raw`, `--json`)"

_RAW = re.compile(r"^(?:x \d+ \d+|h \d+ \S+|p \d+ \d+(?: \d+)?|d \d+ .*|m \d+ .*)$")
_MOST_HOPS = 256


def recognises(text: str) -> bool:
    """Whether a text begins like one of mtr's two forms."""
    return _is_report(text) or _is_raw(text)


def _is_report(text: str) -> bool:
    return text.lstrip().startswith("{") and '"report"' in text and '"mtr"' in text


def _is_raw(text: str) -> bool:
    begin = [line for line in text.splitlines()[:-1] if line.strip()][:20]
    return bool(begin) and all(_RAW.match(line.strip()) for line in begin)


def read(file: Path) -> Measurement:
    """Reads either form."""
    return _report(file) if head(file).lstrip().startswith("{") else _raw(file)


def _raw(file: Path) -> Measurement:
    """The probes to the nearest hop that has the address of the last one that answered."""
    hosts: dict[int, str] = {}
    hops: dict[int, Rounds] = {}
    waiting: dict[int, dict[int, int]] = {}
    for number, line in lines(file):
        words = line.split()
        if len(words) < 3 or words[0] not in ("x", "h", "p") or not words[1].isdecimal():
            continue
        hop = int(words[1][:6])
        if hop >= _MOST_HOPS:
            raise AnabranchError(f"{file}, line {number}: hop {hop}; allowed are 0 to 255")
        if words[0] == "h":
            hosts[hop] = words[2]
            continue
        where = f"{file}, line {number}"
        if words[0] == "p" and len(words) < 4:
            raise AnabranchError(
                f"{where}: an answer without its number, as mtr before 0.87 writes; `mtr --json` "
                "is read instead"
            )
        sequence = int(amount(words[-1], f"{where}: the number", 1e9) or 0)
        rounds = hops.setdefault(hop, Rounds(file))
        if words[0] == "x":
            # The numbers are shared by all hops and come again after the last port.
            waiting.setdefault(hop, {})[sequence] = len(rounds)
            rounds.ask(len(rounds))
        elif (place := waiting.get(hop, {}).get(sequence)) is not None:
            took = amount(words[2], f"{where}: the round-trip time", MOST_SECONDS * 1e6) or 0.0
            rounds.answer(place, took * 1e-6, 6)
    answered = [hop for hop in sorted(hops) if hops[hop].answered]
    if not answered:
        return measurement(file, [], unit="probe")
    host = hosts.get(answered[-1])
    hop = next(h for h in answered if h == answered[-1] or (host and hosts.get(h) == host))
    return measurement(
        file,
        [hops[hop]],
        what="round-trip times of probes",
        unit="probe",
        notes=[f"the way to {host or 'the last host that answered'}, hop {hop + 1}"],
    )


def _report(file: Path) -> Measurement:
    report = at(tree(file), "report")
    hubs = [hub for hub in items(at(report, "hubs")) if at(hub, "host") not in (None, "???")]
    if not hubs:
        raise AnabranchError(f"{file}: no host answered mtr, so there is nothing to estimate")
    hub = hubs[-1]
    name = str(hub["host"])[:100]
    where = f"{file}: of {name}"
    share = amount(at(hub, "Loss%"), f"{where} `Loss%`", 100)
    sent = amount(at(hub, "Snt"), f"{where} `Snt`", 1e9)
    best = amount(at(hub, "Best"), f"{where} `Best`", MOST_SECONDS * 1e3)
    if sent is None:
        sent = amount(at(report, "mtr", "tests"), f"{where} `tests`", 1e9)
    lost = None
    if share is not None and sent:
        lost = round(share / 100 * int(sent))
    answers = int(sent) - lost if lost is not None and sent else 1
    if best is None or answers < 1:
        raise AnabranchError(f"{file}: {name} answered no probe, so there is nothing to estimate")
    return Measurement(
        title=f"mtr's report of {int(sent or 0)} probes to {name}",
        delays=Delays(
            np.array([best * 1e-3]), legs=2, what="least round-trip time", resolution_s=1e-5
        ),
        losses=None
        if lost is None
        else LossCounts(
            np.array([float(lost)]), np.array([float(int(sent or 0))]),
            "probes without an answer", round_trip=True,
        ),
        notes=["a report has no single round trips: jitter and bursts of losses are not known; "
               "`mtr --raw` has them"],
    )  # fmt: skip
