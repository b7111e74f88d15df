"""Golden tables and pages of the comparisons.

`python tools/comparison_pages.py FOLDER` writes a table (CSV), figures and the generated part of
its page there for each comparison, and the generated part of `failover.md`; with `--check` it fails
when tables and pages are not what it would write. Takes some minutes on two cores.
"""

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

import marked
from anabranch.figures import plots

sys.path.append(str(Path(__file__).parent.parent / "validation"))

from oracles import (
    failover,
    linux_aqm,
    linux_mptcp,
    linux_sctp,
    linux_sctp_rows,
    linux_tcp,
    media_controls,
    ns3_shared_queue,
    values,
)

_BEGIN = "<!-- generated: make oracles -->"
_END = "<!-- end of generated -->"
_BY_VALUE = {
    "linux-aqm": linux_aqm,
    "linux-mptcp": linux_mptcp,
    "ns3-shared-queue": ns3_shared_queue,
}
"""Comparisons that put one number beside another."""


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def generated(folder: Path) -> tuple[dict[str, str], list[Callable[[], dict[str, Figure]]]]:
    """The content of each generated file by name, and functions that draw the figures."""
    jobs = os.cpu_count() or 1
    sctp = list(linux_sctp.compare(linux_sctp.kernel_rows(), jobs=jobs))
    tcp = list(linux_tcp.compare(linux_tcp.kernel_rows(), jobs=jobs))
    sctp_table = "\n\n".join(
        f"### {text[0].upper()}{text[1:]}\n\n" + _table(heads, [linux_sctp.cells(x) for x in rows])
        for text, heads, rows in linux_sctp.tables(sctp)
    )
    tcp_table = _table(linux_tcp.HEADS, [linux_tcp.cells(row) for row in tcp])
    failover_table = _table(failover.HEADS, [failover.cells(row) for row in failover.sweep()])
    media = list(media_controls.compare())
    media_rows = [
        media_controls.cells(comparison.name, *pair)
        for comparison, pairs, _ in media
        for pair in pairs
    ]
    files = {
        "failover.md": _page(folder / "failover.md", _failover_summary(), failover_table),
        "linux-sctp.csv": linux_sctp.as_csv(sctp),
        "linux-sctp.md": _page(folder / "linux-sctp.md", _sctp_summary(sctp), sctp_table),
        "linux-tcp.csv": linux_tcp.as_csv(tcp),
        "linux-tcp.md": _page(folder / "linux-tcp.md", _tcp_summary(tcp), tcp_table),
        "media.md": _page(
            folder / "media.md", _media_summary(media), _table(media_controls.HEADS, media_rows)
        ),
    }
    drawings: list[Callable[[], dict[str, Figure]]] = [
        partial(linux_sctp.figures, sctp),
        partial(linux_tcp.figures, tcp),
    ]
    for name, oracle in _BY_VALUE.items():
        rows = list(oracle.compare(oracle.kernel_rows(), oracle.REPLICATIONS, jobs))
        table = _table(oracle.HEADS, [values.cells(row) for row in rows])
        files[f"{name}.csv"] = values.as_csv(rows)
        page = folder / f"{name}.md"
        files[page.name] = _page(page, _values_summary(oracle.CAUSES, rows), table)
        drawings.append(partial(oracle.figures, rows))
    return files, drawings


def _page(path: Path, summary: str, table: str) -> str:
    return marked.replaced(path.read_text("utf-8"), _BEGIN, _END, f"{summary}\n\n{table}")


def _sctp_summary(rows: list[linux_sctp_rows.Row]) -> str:
    lines = [
        "| set-up | quantity | mean within 10 % | else the kernel's in our range | outside |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {linux_sctp_rows.SETUPS[setup].text} | {name} | {count['within']} | {count['in_range']}"
        f" | {count['outside']} |"
        for (setup, name), count in linux_sctp.counts(rows).items()
    ]
    letters = [row.cause(name) for row in rows for name in row.values]
    lines += ["", *_causes(linux_sctp.CAUSES, letters), ""]
    for name, setup in linux_sctp_rows.SETUPS.items():
        if setup.tested is not None:
            number, p = linux_sctp.heartbeat_test(linux_sctp_rows.of_setup(rows, name))
            lines.append(
                f"- {setup.tested} where {setup.text}: {number} random rows, Kolmogorov-Smirnov"
                f" p = {p:.2f} that the kernel's are draws from ours."
            )
    return "\n".join(lines)


def _failover_summary() -> str:
    rows = failover.kernel_rows()
    ratios = [row.inactive_s / row.expected_inactive_s for row in rows if not row.is_spurious]
    spurious = [row.inactive_s / row.expected_inactive_s for row in rows if row.is_spurious]
    return (
        "Linux 6.12 without the potentially-failed state, measured over closed form: from"
        f" {min(ratios):.3f} to {max(ratios):.3f} in {len(ratios)} settings; up to"
        f" {max(spurious):.3f} in {len(spurious)} whose RTO.Initial is below the SACK delay: the"
        " healthy path's timer expires spuriously too."
    )


def _media_summary(media: list[media_controls.Compared]) -> str:
    near = [f"{share:.0%} beside {comparison.name}" for comparison, _, share in media]
    return (
        "The targets of a second differ by at most 10 % in this share of the seconds after the"
        f" first ten: {'; '.join(near)}."
    )


def _tcp_summary(rows: list[linux_tcp.Row]) -> str:
    letters = [row.cause for row in rows]
    causes = _causes(linux_tcp.CAUSES, letters)
    parts = [*linux_tcp.summary(rows), *(("", *causes) if causes else ())]
    return "\n".join([*parts, *(line for note in linux_tcp.notes(rows) for line in ("", note))])


def _values_summary(causes: Mapping[str, str], rows: list[values.Value]) -> str:
    lines = [
        "| quantity | within 10 % | else theirs in our 95 % range | outside |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {count['within']} | {count['in_range']} | {count['outside']} |"
        for name, count in values.counts(rows).items()
    ]
    letters = [row.cause for row in rows]
    return "\n".join([*lines, "", *_causes(causes, letters)]).rstrip()


def _causes(causes: Mapping[str, str], letters: list[str]) -> list[str]:
    named = [
        f"- **{letter}** ({_values(letters.count(letter))}): {text}"
        for letter, text in causes.items()
        if letter in letters
    ]
    return ["Causes of the deviations over 10 %:", "", *named] if named else []


def _table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---:|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def main() -> int:
    """Writes or checks the files."""
    arguments = sys.argv[1:]
    is_check = "--check" in arguments
    folder = Path(next((a for a in arguments if not a.startswith("-")), "docs"))
    code = 0
    files, drawings = generated(folder)
    for name, content in files.items():
        path = folder / name
        if not is_check:
            path.write_text(content, encoding="utf-8")
            print(f"wrote {path}")
        elif not path.exists() or path.read_text("utf-8") != content:
            print(f"{path} is stale: run `make oracles`", file=sys.stderr)
            code = 1
    if not is_check:
        for draw in drawings:
            for name, figure in draw().items():
                for path in plots.save(figure, folder / name, ("png",)):
                    print(f"wrote {path}")
    return code


if __name__ == "__main__":
    sys.exit(main())
