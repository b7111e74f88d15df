"""The commands of the guides work: those of `anabranch` in blocks of `sh` and `console`.

Each page has a folder with the scenarios of the library, in which its commands run in turn. What a
block of `console` shows below a command is compared with what it prints, as tutorials' output is.
The tutorials themselves have tests/test_tutorials.py, docs/studies.md tests/test_studies_docs.py.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from anabranch import cli
from anabranch.papers import __main__ as papers
from conftest import ROOT
from test_tutorials import matches

BLOCK = re.compile(r"^```(sh|console|toml|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OURS = ("anabranch ", "python -m anabranch.")

NAMESPACES = "real programs in network namespaces; tests/test_emulate_command.py has such commands"
TERMINALS = "sockets of several terminals; tests/test_sctp_commands.py has such commands"
KERNEL = "a kernel, and root or minutes; tests/test_testbed.py and tests/test_virtual_kernel.py"
MEASURED = "needs a measurement of the reader's; tests/test_tutorials.py has such a command"

NOT_RUN = {
    "advise.md": {
        "profile": MEASURED,
        "advise --paths wifi.toml": MEASURED,
        "advise --paths call.toml": "tests/test_advise_calls.py runs such commands",
    },
    "bench-quic.md": {"bench-quic live": NAMESPACES},
    "captures.md": {"profile": MEASURED},
    "clusters.md": {"sweep": "a cluster; tests/test_cluster.py has such commands"},
    "drill.md": {"drill": "needs scripts of the reader's; tests/test_drill.py has some"},
    "emulate.md": {"emulate": NAMESPACES},
    "papers.md": {
        "reproduce tcp-wimax": KERNEL,
        "reproduce mptcp": KERNEL,
        "reproduce sctp": KERNEL,
        "reproduce l4s": "minutes; tests/test_l4s.py computes the paper's smoke form",
    },
    "profile.md": {"profile": MEASURED},
    "quic-live.md": {"quic": TERMINALS},
    "report.md": {"report results/paths": "needs a study of the reader's; tests/test_report.py"},
    "sctp.md": {"sctp": TERMINALS},
    "statistics.md": {
        "compare": "needs the runs of a loop of the shell; tests/test_compare_runs.py"
    },
    "studies.md": {"": "tests/test_studies_docs.py runs all of them"},
    "traces.md": {
        "trace": "needs a log or a set of the reader's; tests/test_trace_import.py has some",
        "run sky-run.toml": "of what that command writes",
    },
    "testbed.md": {"testbed": KERNEL, "": "needs a scenario of the reader's and what a kernel did"},
    "virtual-kernel.md": {"emulate": KERNEL},
    "which-multipath.md": {
        "sweep": "minutes; `make validate` has it (tools/which_multipath.py)",
        "plot": "of what that sweep computes",
    },
}
"""The beginnings of commands that are not run here, with the reason, by page."""


@dataclass(frozen=True)
class Line:
    """A command of a page, and what the page shows of its output; empty if it shows none."""

    command: str
    shown: str


def lines_of(page: Path) -> Iterator[Line]:
    """The page's commands of ours, in order."""
    for kind, body in BLOCK.findall(page.read_text("utf-8")):
        if kind == "sh":
            yield from (Line(line, "") for line in body.splitlines() if line.startswith(OURS))
        elif kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                if command.startswith(OURS):
                    yield Line(command, shown)


def excuse(page: str, command: str) -> str | None:
    """The beginning in `NOT_RUN` that the command has."""
    words = command.removeprefix("anabranch ")
    return next((start for start in NOT_RUN.get(page, {}) if words.startswith(start)), None)


PAGES = {
    page.name: found
    for page in sorted((ROOT / "docs").glob("*.md"))
    if (found := list(lines_of(page)))
}
RUN = [name for name, found in PAGES.items() if any(excuse(name, x.command) is None for x in found)]


@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_guide_work(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    for line in PAGES[page]:
        if excuse(page, line.command) is None:
            printed = run(line.command)
            if line.shown:
                assert matches(printed, line.shown), f"{line}\nprinted:\n{printed}"


def run(command: str) -> str:
    """What a command prints on standard output; with `| grep WORD`, the lines with that word."""
    words, keep = shlex.split(command, comments=True), ""
    if "|" in words:
        place = words.index("|")
        words, (grep, keep) = words[:place], words[place + 1 :]
        assert grep == "grep"
    if ">" in words:
        del words[words.index(">") :]
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        if words[0] == "python":
            assert papers.main(words[3:]) == 0, command
        else:
            assert cli.main(words[1:]) == 0, command
    return "".join(line for line in stdout.getvalue().splitlines(keepends=True) if keep in line)


def test_every_reason_is_needed() -> None:
    for page, reasons in NOT_RUN.items():
        used = {excuse(page, line.command) for line in PAGES[page]}
        assert used >= set(reasons), page


def test_most_pages_with_commands_are_run() -> None:
    assert len(RUN) >= 9
    assert sum(excuse(page, x.command) is None for page in RUN for x in PAGES[page]) >= 25
