"""Golden tables and pages of the comparisons.

`python -m anabranch.oracles FOLDER` writes `linux-sctp.csv` there and the generated part of
`linux-sctp.md`; `python -m anabranch.oracles --check FOLDER` fails when they are not what it would
write. Takes about a minute on two cores.
"""

import os
import sys
from pathlib import Path

from anabranch.oracles import linux_sctp

_BEGIN = "<!-- generated: make oracles -->"
_END = "<!-- end of generated -->"


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def generated(folder: Path) -> dict[str, str]:
    """File name -> content."""
    rows = linux_sctp.kernel_rows()
    compared = list(linux_sctp.compare(rows, jobs=os.cpu_count() or 1))
    page = (folder / "linux-sctp.md").read_text("utf-8")
    head, _, rest = page.partition(_BEGIN)
    tail = rest.partition(_END)[2]
    middle = "\n\n".join([_BEGIN, _summary(compared), _table(compared), _END])
    return {"linux-sctp.csv": linux_sctp.as_csv(compared), "linux-sctp.md": head + middle + tail}


def _summary(rows: list[linux_sctp.Row]) -> str:
    lines = [
        "| quantity | mean within 10 % | else the kernel's in our range | outside |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {count['within']} | {count['in_range']} | {count['outside']} |"
        for name, count in linux_sctp.counts(rows).items()
    ]
    letters = [row.cause(name) for row in rows for name in row.values]
    lines += ["", "Causes of the deviations over 10 %:", ""]
    lines += [
        f"- **{letter}** ({_values(letters.count(letter))}): {text}"
        for letter, text in linux_sctp.CAUSES.items()
    ]
    number, p = linux_sctp.heartbeat_test(rows)
    lines += [
        "",
        f"Heartbeat times: {number} rows, Kolmogorov-Smirnov p = {p:.2f} that the kernel's are"
        " draws from ours.",
    ]
    return "\n".join(lines)


def _table(rows: list[linux_sctp.Row]) -> str:
    heads = linux_sctp.HEADS
    lines = ["| " + " | ".join(heads) + " |", "|" + "---:|" * len(heads)]
    lines += ["| " + " | ".join(linux_sctp.cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def main() -> int:
    """Write or check the files."""
    arguments = sys.argv[1:]
    folder = Path(next((a for a in arguments if not a.startswith("-")), "docs"))
    code = 0
    for name, content in generated(folder).items():
        path = folder / name
        if "--check" not in arguments:
            path.write_text(content, encoding="utf-8")
            print(f"wrote {path}")
        elif not path.exists() or path.read_text("utf-8") != content:
            print(f"{path} is stale: run `make oracles`", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
