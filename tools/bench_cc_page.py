"""`python tools/bench_cc_page.py docs/bench-cc.md` writes the generated part of that page.

It runs every control in every scenario ten times, which takes a few minutes on two cores.
"""

import sys
import tempfile
from pathlib import Path

from anabranch import bench_cc
from anabranch.bench_cc import checks, reports
from anabranch.support.files import write_atomically

_BEGIN = "<!-- generated: python tools/bench_cc_page.py docs/bench-cc.md -->"


def main() -> None:
    """Writes the page; everything before the mark stays."""
    page = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        cells = bench_cc.compare(("all",), Path(folder))
    failed = [
        f"- {check.cell.control}, {check.cell.case}: {check.what}; {check.message}"
        for check in checks.run(cells, None)
        if check.verdict in ("failed", "known")
    ]
    head, _, _ = page.read_text("utf-8").partition(_BEGIN)
    parts = [_BEGIN, reports.markdown(cells), "## Thresholds that are not kept", "\n".join(failed)]
    write_atomically(page, (head + "\n\n".join(parts) + "\n").encode())


if __name__ == "__main__":
    main()
