"""`python tools/bench_rtc_page.py docs/bench-rtc.md` writes the generated part of that page.

It runs every control in every test case ten times, which takes some minutes on two cores.
"""

import sys
import tempfile
from pathlib import Path

from anabranch import bench_rtc
from anabranch.bench_cc import checks, reports
from anabranch.bench_rtc import periods
from anabranch.support.files import write_atomically

_BEGIN = "<!-- generated: python tools/bench_rtc_page.py docs/bench-rtc.md -->"

_BY_PERIOD = "5.1 variable capacity"
"""The cases that are shown by period; the page of the bench has all of them."""


def main() -> None:
    """Writes the page; everything before the mark stays."""
    page = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        cells = bench_rtc.compare(("all",), Path(folder))
    cases: dict[tuple[str, str], list[str]] = {}
    for check in checks.run(cells, None):
        if check.verdict in ("failed", "known"):
            cases.setdefault((check.cell.control, check.what), []).append(check.cell.case)
    failed = [
        f"- {control}, {what}: {'; '.join(found)}" for (control, what), found in cases.items()
    ]
    own = [cell for cell in cells if cell.case.startswith(f"{_BY_PERIOD} ")]
    of_periods = [reports.markdown_table(*part) for part in periods.tables(own).items()]
    head, _, _ = page.read_text("utf-8").partition(_BEGIN)
    title = "## Thresholds that are not kept"
    parts = [_BEGIN, reports.markdown(cells), *of_periods, title, "\n".join(failed)]
    write_atomically(page, (head + "\n\n".join(parts) + "\n").encode())


if __name__ == "__main__":
    main()
