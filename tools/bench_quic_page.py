"""`python tools/bench_quic_page.py docs/bench-quic.md` writes the generated part of that page.

It runs our profiles, our endpoint over sockets and the peers of the interoperability tests three
times in every scenario, which takes the better part of an hour, and root or user namespaces.
"""

import sys
import tempfile
from pathlib import Path

import marked
from anabranch import bench_quic
from anabranch.bench_cc import checks, reports
from anabranch.support.files import write_atomically

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "interop"))

import quic_program  # noqa: E402 - beside the tests

_BEGIN = "<!-- generated: python tools/bench_quic_page.py docs/bench-quic.md -->"
_END = "<!-- end of generated -->"


def main() -> None:
    """Writes the page; everything outside the marks stays."""
    page = Path(sys.argv[1])
    for stack in quic_program.STACKS.values():
        stack.program()
    words = ("rfc9000", "quinn", "noq", "quic_go", "live", "tests/interop/quic-programs.toml")
    with tempfile.TemporaryDirectory() as folder:
        cells, faults = bench_quic.compare(words, Path(folder), replications=3)
    failed = [
        f"- {check.cell.control}, {check.cell.case}: {check.what}; {check.message}"
        for check in checks.run(cells, None)
        if check.verdict == "failed"
    ]
    parts = [reports.markdown(cells), *failed, *(f"- {fault}" for fault in faults)]
    text = marked.replaced(page.read_text("utf-8"), _BEGIN, _END, "\n".join(parts))
    write_atomically(page, text.encode())


if __name__ == "__main__":
    main()
