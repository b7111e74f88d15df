"""`python tools/paper_record.py PAPER RECORD [OUT]`: the long validation, its golden record."""

import os
import sys
from pathlib import Path

from anabranch import papers


def main() -> None:
    """Write the record: runs that are in OUT are not computed again."""
    name, record = sys.argv[1], Path(sys.argv[2])
    out = Path(sys.argv[3] if len(sys.argv) > 3 else f"results/{name}-validation")
    paper = papers.load(name)
    found = paper.compute("validate", paper.efforts["validate"], out, os.cpu_count() or 1)
    record.write_text(paper.record(found), encoding="utf-8")
    print(f"wrote {record}")


if __name__ == "__main__":
    main()
