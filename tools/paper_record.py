"""`python tools/paper_record.py [--kernel] PAPER RECORD [OUT]`: the validation's golden record.

With `--kernel` it is what the virtual kernel's own stacks do, a section at the record's end; either
part stays as it is while the other is written.
"""

import os
import sys
from pathlib import Path

from anabranch import papers
from anabranch.cli.reproduce import stack_of

REAL = "\n## On a real stack\n"


def main() -> None:
    """Write the record: runs that are in OUT are not computed again."""
    words = [word for word in sys.argv[1:] if word != "--kernel"]
    name, record = words[0], Path(words[1])
    out = Path(words[2] if len(words) > 2 else f"results/{name}-validation")
    jobs = os.cpu_count() or 1
    paper = papers.load(name)
    text = record.read_text(encoding="utf-8") if record.exists() else ""
    simulated, mark, real = text.partition(REAL)
    if "--kernel" in sys.argv[1:]:
        found = paper.on_stack("validate", jobs, out, stack_of("virtual", jobs))
        mark, real = REAL, "\n" + "\n".join(found.record()) + "\n"
    else:
        simulated = paper.record(paper.compute("validate", paper.efforts["validate"], out, jobs))
    record.write_text(simulated + mark + real, encoding="utf-8")
    print(f"wrote {record}")


if __name__ == "__main__":
    main()
