"""Windows' ping, in any language: an answer is told by its numbers, `=12ms TTL=57` or `<1ms`.

Between the heading of a run and that of its statistics every line that is no answer stands for a
request without one: words for that differ between languages, and a router's "unreachable" is no
answer either.
"""

import re
from pathlib import Path

from anabranch.support.reading import lines, seconds

from ..measurement import Measurement
from .rounds import Rounds, measurement

NAME = "the output of Windows' ping"

_TTL = r"[=<] ?(\d{1,9}) ?[^\s\d=]{1,4}\s+TTL[= ]\d+\s*$"
_ANSWER = re.compile(rf"{_TTL}|[=<] ?(\d{{1,9}}) ?(?:ms|мс|毫秒)\s*$")
"""IPv6 has no TTL. A unit in another code page is as good as any."""
_WITH_TTL = re.compile(rf"^\S.*{_TTL}", re.MULTILINE)
_LESS = re.compile(r"< ?1 ?[^\s\d=]{1,4}(?:\s|$)")
_COUNTS = re.compile(r"^\s+\S.*?= ?(\d{1,9})\D.*?= ?(\d{1,9})\D.*?= ?(\d{1,9})(?:\D|$)")
_INTERRUPTED = ("Control-C", "^C", "Strg-C", "Ctrl-C")


def recognises(head: str) -> bool:
    """Whether a text begins like the output of Windows' ping."""
    if _WITH_TTL.search(head) is not None:
        return True
    begin = [line for line in head.splitlines() if line.strip()][:20]
    return bool(begin) and begin[0].rstrip().endswith(":") and any(
        _COUNTS.match(line) or (_ANSWER.search(line) and not line.startswith(" ")) for line in begin
    )  # fmt: skip


def read(file: Path) -> Measurement:
    """Reads one or several runs."""
    run = Rounds(file)
    runs = [run]
    # Other text may stand before the first run.
    is_asking = False
    for number, line in lines(file):
        text = line.rstrip()
        if not text:
            continue
        if text.startswith((" ", "\t")):
            # Statistics, which may say that more were sent.
            counts = _COUNTS.match(text)
            if counts and int(counts[1]) == int(counts[2]) + int(counts[3]) and len(run):
                run.ask(int(counts[1]) - 1)
            is_asking = False
            continue
        match = _ANSWER.search(text)
        if match is None and text.endswith((":", "：")):
            # The heading of a run, or that of the statistics, which ends the run.
            is_asking = not is_asking
            if is_asking and len(run):
                run = Rounds(file)
                runs.append(run)
        elif match is not None:
            if not is_asking and len(run):
                run = Rounds(file)
                runs.append(run)
            is_asking = True
            time_s = seconds(match[1] or match[2], 1e-3, file, number)
            # `<1ms` is anything below 1 ms.
            run.answer(len(run), 0.5e-3 if _LESS.search(text) else time_s, 3)
        elif is_asking and not text.startswith(_INTERRUPTED):
            run.lose(len(run))
    note = "Windows gives whole milliseconds, so that jitter below that is not seen"
    return measurement(file, runs, notes=[note])
