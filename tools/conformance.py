"""Writes docs/conformance.csv: the result of every script in the suites of others, and why.

Run as `python tools/conformance.py SUITES docs`, where SUITES is the folder that contains a folder
for each suite. The causes of failures are entered by hand: the table keeps them, and a failure
without one is `unknown`.
"""

import csv
import sys
from pathlib import Path

from anabranch import drill

HEADS = ("suite", "script", "verdict", "reason")
UNKNOWN = "unknown"

Row = tuple[str, str, str, str]


def read(file: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """The verdict and the reason of each script, by suite and name."""
    if not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        return {
            (row["suite"], row["script"]): (row["verdict"], row["reason"])
            for row in csv.DictReader(lines)
        }


def run(suite: Path) -> list[drill.Result]:
    """Runs every script of a suite."""
    return [drill.run_script(script) for script in drill.find([], [suite])]


def rows(results: list[drill.Result], known: dict[tuple[str, str], tuple[str, str]]) -> list[Row]:
    """The table of these results, with the causes from the earlier table."""
    made: list[Row] = []
    for result in results:
        script = result.script
        reason = ""
        if result.verdict == "not_applicable":
            reason = f"{result.reason} (line {result.line})"
        elif result.verdict == "failed":
            verdict, cause = known.get((script.suite, script.name), ("", UNKNOWN))
            reason = cause if verdict == "failed" else UNKNOWN
        made.append((script.suite, script.name, result.verdict, reason))
    return made


def main(suites: Path, docs: Path) -> None:
    """Writes the table."""
    file = docs / "conformance.csv"
    known = read(file)
    table: list[Row] = []
    for suite in sorted(path for path in suites.iterdir() if path.is_dir()):
        table += rows(run(suite), known)
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEADS)
        writer.writerows(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
