"""`python tools/paper_record.py [--kernel | --usrsctp] PAPER RECORD [OUT]`: its golden record.

With `--kernel` it writes what the virtual kernel's own stacks do, with `--usrsctp` what FreeBSD's
SCTP does over that kernel, each in a section at the record's end; all other parts stay as they are.
"""

import os
import re
import sys
from pathlib import Path
from typing import Literal

from anabranch import papers
from anabranch.cli.reproduce import stack_of

STACKS: dict[str, tuple[str, Literal["kernel", "usrsctp"]]] = {
    "--kernel": ("\n## On a real stack\n", "kernel"),
    "--usrsctp": ("\n## On usrsctp\n", "usrsctp"),
}
"""The beginning of each section, and what SCTP flows run on, in the order of the record."""


def main() -> None:
    """Writes the record; runs that are in OUT are not computed again."""
    words = [word for word in sys.argv[1:] if word not in STACKS]
    chosen = [word for word in sys.argv[1:] if word in STACKS]
    name, record = words[0], Path(words[1])
    out = Path(words[2] if len(words) > 2 else f"results/{name}-validation")
    jobs = os.cpu_count() or 1
    paper = papers.load(name)
    simulated, sections = parts_of(record.read_text(encoding="utf-8") if record.exists() else "")
    if chosen:
        mark, sctp = STACKS[chosen[0]]
        found = paper.on_stack("validate", jobs, out, stack_of("virtual", jobs, sctp))
        sections[mark] = "\n" + "\n".join(found.record()) + "\n"
    else:
        simulated = paper.record(paper.compute("validate", paper.efforts["validate"], out, jobs))
    written = [mark + sections[mark] for mark, _ in STACKS.values() if mark in sections]
    record.write_text(simulated + "".join(written), encoding="utf-8")
    print(f"wrote {record}")


def parts_of(text: str) -> tuple[str, dict[str, str]]:
    """A record without the sections of real stacks, and these sections by their beginnings."""
    marks = "|".join(re.escape(mark) for mark, _ in STACKS.values())
    simulated, *others = re.split(f"({marks})", text)
    return simulated, dict(zip(others[::2], others[1::2], strict=True))


if __name__ == "__main__":
    main()
