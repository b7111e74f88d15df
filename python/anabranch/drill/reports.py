"""Results of scripts as lines for people, as JSON and as JUnit XML."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anabranch import _engine
from anabranch.support import wording

if TYPE_CHECKING:
    from . import Result

_WORDS = {"passed": "passed", "failed": "FAILED", "not_applicable": "not applicable"}
_MARGIN = 14


def print_line(console: Console, result: "Result") -> None:
    """Prints one line.

    After a failure also what was expected and what was seen, one below the other.
    """
    where = f"{result.script.suite}/{result.script.name}"
    about = f": {result.reason}" if result.verdict == "not_applicable" else ""
    line = f" (line {result.line})" if result.line and result.verdict != "passed" else ""
    console.print(Text(f"{_WORDS[result.verdict]:{_MARGIN}} {where}{line}{about}"), soft_wrap=True)
    if result.verdict == "failed":
        when = "" if result.when_s is None else f" at {result.when_s:.6f} s"
        for label, text in (
            ("expected", result.expected),
            ("seen", result.seen),
            ("why", f"{result.reason}{when}"),
        ):
            if text is None:
                continue
            console.print(Text(f"{'':{_MARGIN}} {label:9}{text}"), soft_wrap=True)


def totals(results: Sequence["Result"]) -> dict[str, dict[str, int]]:
    """How many scripts of each suite got which verdict."""
    counts: dict[str, dict[str, int]] = {}
    for result in results:
        of_suite = counts.setdefault(result.script.suite, dict.fromkeys(_WORDS, 0))
        of_suite[result.verdict] += 1
    return counts


def print_totals(console: Console, results: Sequence["Result"]) -> None:
    """Prints a row for each suite."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, head in enumerate(("suite", "scripts", "passed", "failed", "not applicable", "share")):
        table.add_column(head, justify="right" if i else "left")
    for suite, counts in totals(results).items():
        applicable = counts["passed"] + counts["failed"]
        share = f"{counts['passed'] / applicable:.1%}" if applicable else "-"
        table.add_row(suite, str(sum(counts.values())), *(str(counts[w]) for w in _WORDS), share)
    console.print(table)
    console.print("share: of the scripts that are applicable, those that passed", soft_wrap=True)


def as_json(results: Sequence["Result"], profile: str | None) -> dict[str, Any]:
    """All results, as a tree for JSON."""
    return {
        "profile": profile,
        "version": _engine.__version__,
        "scripts": [
            {"script": result.script.name, "suite": result.script.suite, **_outcome(result)}
            for result in results
        ],
        "totals": totals(results),
    }


def _outcome(result: "Result") -> dict[str, Any]:
    return {key: value for key, value in asdict(result).items() if key != "script"}


def junit(results: Sequence["Result"]) -> bytes:
    """The results as JUnit XML, with a test suite for each suite."""
    root = ET.Element("testsuites", _counts(results), name="anabranch drill")
    for name in totals(results):
        own = [result for result in results if result.script.suite == name]
        suite = ET.SubElement(root, "testsuite", _counts(own), name=name, errors="0")
        for result in own:
            test = ET.SubElement(suite, "testcase", classname=name, name=result.script.name)
            line = f"line {result.line}: " if result.line else ""
            # XML has no control characters.
            message = wording.harmless(f"{line}{result.reason}")
            if result.verdict == "failed":
                failure = ET.SubElement(test, "failure", message=message)
                if result.expected is not None:
                    said = f"expected {result.expected}\nseen     {result.seen}"
                    failure.text = wording.harmless(said)
            elif result.verdict == "not_applicable":
                ET.SubElement(test, "skipped", message=message)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _counts(results: Sequence["Result"]) -> dict[str, str]:
    def count(verdict: str) -> str:
        return str(sum(result.verdict == verdict for result in results))

    return {
        "tests": str(len(results)),
        "failures": count("failed"),
        "skipped": count("not_applicable"),
    }
