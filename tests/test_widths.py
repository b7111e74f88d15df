"""What commands print fits a terminal of 80 columns: their help, and the examples in it.

The examples run in turn in one folder, as a reader would type them.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from anabranch import cli
from anabranch.advise.paths import read
from anabranch.cli.app import app
from anabranch.support import terminal, wording
from conftest import CALL, ROOT, SWEEP, written

COLUMNS = 80

CLUSTER = "a cluster; tests/test_cluster.py has such commands"
KERNEL = "a kernel, and root or minutes; tests/test_testbed.py has such commands"
MEASURED = "needs a measurement of the reader's; tests/test_tutorials.py has such a command"
MINUTES = "takes minutes of all cores"
NAMESPACES = "real programs in network namespaces; tests/test_emulate_command.py has such commands"
PAPERS = "the tests of each paper print its tables at 80 columns"
PEER = "sockets of several terminals; tests/test_sctp_commands.py has such commands"
PROGRAM = "prints a text for programs"
READERS = "needs files of the reader's"
SERVER = "serves until Ctrl-C"

NOT_RUN = {
    "advise --paths my-paths.toml": READERS,
    "advise --paths wifi.toml": READERS,
    "advise --paths wifi-and-lte": MINUTES,
    "bench-cc all": MINUTES,
    "bench-quic live": NAMESPACES,
    "bench-rtc all": MINUTES,
    "drill scripts": READERS,
    "drill --suite": READERS,
    "emulate": NAMESPACES,
    "explain my-transfer.toml": READERS,
    "explain transfer.pcap": MEASURED,
    "lab": SERVER,
    "list schema": PROGRAM,
    "new mine.py": "it writes no file that is there already, as the folder's own is",
    "profile": MEASURED,
    "report results/paths": READERS,
    "quic": PEER,
    "reproduce": PAPERS,
    "sctp": PEER,
    "sweep my-sweep.toml --out mine --array": PROGRAM,
    "sweep my-sweep.toml --out mine --dask": CLUSTER,
    "sweep my-sweep.toml --out mine --merge": READERS,
    "testbed": KERNEL,
    "trace": "needs logs of the reader's; tests/test_trace_import.py has such commands",
    "validate scenarios/*.toml": "a pattern that the shell replaces",
}
"""The beginnings of examples that do not run here, with the reason."""

SHORTER = {
    "bench-cc": ("--scenario=lossy", "--quick"),
    "bench-quic": ("--scenario=lossy", "--quick"),
    "bench-rtc": ("--scenario=wifi-one-flow", "--quick"),
}
"""What is added to examples of a command, so that they take seconds."""

TO_PASTE = re.compile(r"(# )?(before that: )?(struct |setsockopt\(|sysctl |tc )")
"""Code and commands that `advise` prints to be copied, which no line break may cut."""


def commands(of: Any = app, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands, those of commands among them."""
    for name in of:
        if not name.startswith("-"):
            yield (*path, name), of[name]
            yield from commands(of[name], (*path, name))


def examples() -> Iterator[str]:
    """The lines of the commands' examples, without `anabranch`."""
    for _, command in commands():
        for line in re.sub(r"\\\n *", "", command.help_epilogue or "").splitlines():
            if line.strip().startswith("anabranch "):
                yield line.strip().removeprefix("anabranch ")


def excuse(line: str) -> str | None:
    """The beginning in `NOT_RUN` that the example has."""
    return next((start for start in NOT_RUN if line.startswith(start)), None)


RUN = [line for line in dict.fromkeys(examples()) if excuse(line) is None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that examples name."""
    made = tmp_path_factory.mktemp("examples")
    (made / "scenarios").symlink_to(ROOT / "scenarios")
    written(made / "my-sweep.toml", SWEEP)
    mine = "from anabranch.plugins.examples import Reno\n\n\nclass Mine(Reno):\n    pass\n"
    written(made / "mine.py", mine)
    of_media = "from anabranch.plugins.starter_media import Mine  # noqa: F401\n"
    written(made / "rate.py", of_media)
    link = 'rate = "10 Mbit/s"\ndelay = "20 ms"\nqueue = { kind = "drop_tail", packets = 100 }\n'
    dsl = f'[links.dsl]\nends = ["here", "there"]\n{link}[paths.dsl]\nvia = ["dsl"]\n'
    written(made / "dsl.toml", dsl)
    written(made / "my-handshake.pkt", "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n")
    for words in (
        ("new", "my-call"),
        ("sweep", "scenarios/rto-sweep.toml", "--out", "results/rto"),
        ("bench-cc", "vegas", *SHORTER["bench-cc"], "--json", "vegas.json"),
        ("bench-rtc", "nada", *SHORTER["bench-rtc"], "--json", "nada.json"),
        ("run", "scenarios/quic-upload.toml", "--set=run.duration='2 s'", "--qlog", "server.sqlog"),
    ):
        assert printed(made, *words)
    small = CALL.replace('duration = "4 s"', 'duration = "2 s"')
    for name, seed in (("before", 1), ("after", 2)):
        settled = f"{small.replace('seed = 3', f'seed = {seed}')}\n[sweep]\nreplications = 3\n"
        scenario = written(made / f"{name}.toml", settled)
        assert printed(made, "sweep", str(scenario), "--out", f"results/{name}")
    for path in ("simulated/run.json", "emulated.json", "out/cubic/run.json", "out/bbr/run.json"):
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        assert printed(made, "run", "before.toml", "--seed", str(len(path)), "--json", path)
    return made


def printed(folder: Path, *words: str, allowed: tuple[int, ...] = (0,)) -> str:
    """What a command prints at this width."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli.main(words) in allowed, words
    return out.getvalue()


def too_wide(text: str, columns: int = COLUMNS) -> list[str]:
    lines = (line.rstrip() for line in text.splitlines())
    return [line for line in lines if cell_len(line) > columns and not TO_PASTE.match(line)]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.mark.parametrize("line", RUN)
def test_an_example_fits_80_columns(folder: Path, line: str) -> None:
    words = shlex.split(line.partition(" && ")[0])
    words += (word for word in SHORTER.get(words[0], ()) if word not in words)
    if words[0] == "new":
        (folder / f"{words[1]}.toml").unlink(missing_ok=True)
    # A check of a bench may fail, which is a finding; and so may a script of `drill`.
    findings = ("bench-cc", "bench-quic", "bench-rtc", "drill")
    allowed = (0, 1) if words[0] in findings else (0,)
    text = printed(folder, *words, allowed=allowed)
    assert text or "--csv" in words
    assert too_wide(text) == []


def test_a_profile_fits_80_columns(tmp_path: Path) -> None:
    """But for what no line break may cut: a value of TOML, and a command of tc."""
    answers = [
        f"[{1700000000 + 0.02 * n:.6f}] 64 bytes from 192.0.2.1: "
        f"icmp_seq={n} ttl=64 time={20 + n % 7}.1 ms"
        for n in range(1, 3000)
        if n % 400 > 5
    ]
    head = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."
    log = written(tmp_path / "pings.txt", "\n".join([head, *answers]) + "\n")
    text = printed(tmp_path, "profile", str(log), "--out", "path.toml")
    file = (tmp_path / "path.toml").read_text("utf-8")
    assert "at least" in text + file
    whole = re.compile(r"loss = |tc qdisc ")
    for lines in (text, printed(tmp_path, "profile", str(log)), file):
        assert [line for line in too_wide(lines) if not whole.match(line)] == []
    # What is folded is read as it was meant.
    assert {bound.end for bound in read([tmp_path / "path.toml"]).bounds} == {"least", "most"}
    assert all("ping -D" in bound.remedy for bound in read([tmp_path / "path.toml"]).bounds)


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_the_help_of_a_command_fits_80_columns(tmp_path: Path, path: tuple[str, ...]) -> None:
    assert too_wide(printed(tmp_path, *path, "--help")) == []


def test_an_example_is_copied_as_it_stands() -> None:
    """A terminal of 80 columns breaks none of them."""
    for _, command in commands():
        assert not too_wide(command.help_epilogue or "")


def test_every_reason_is_needed() -> None:
    lines = list(examples())
    assert {excuse(line) for line in lines} - {None} == set(NOT_RUN)
    assert len(RUN) >= 30


def test_more_columns_are_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    text = printed(folder, "query", "results/before")
    assert COLUMNS < max(map(cell_len, map(str.rstrip, text.splitlines()))) <= 160


def test_a_pipe_is_as_wide_as_its_content(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    assert too_wide(printed(folder, "run", "before.toml"))


class Terminal(io.StringIO):
    """What looks like a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_a_mistake_is_broken_between_words_on_a_terminal_only(
    kind: type[io.StringIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    words = ["list", "nothing-of-this-kind"]
    with contextlib.chdir(tmp_path), contextlib.redirect_stderr(kind()) as error:
        assert cli.main(words) == 2
    lines = error.getvalue().splitlines()
    assert " ".join(map(str.strip, lines)).startswith("anabranch: error: there is no category")
    assert (len(lines) > 1 and too_wide(error.getvalue()) == []) == (kind is Terminal)


def shown(rows: Sequence[Mapping[str, str]], width: int, keys: int) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        console = terminal.console()
        lines = [list(row.values()) for row in rows]
        console.print(terminal.side_by_side(list(rows[0]), lines, width, keys))
    return out.getvalue()


def test_rows_whose_keys_are_too_wide_are_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = {f"a_rather_long_axis_{i}": f"{i}.5" for i in range(4)}
    rows = [axes | {"call.mos": mos, "runs": "20"} for mos in ("3.61", "3.59")]
    heads = list(rows[0])
    assert not wording.fit(heads, [list(row.values()) for row in rows], COLUMNS, 4)
    narrow = shown(rows, COLUMNS, 4)
    assert too_wide(narrow) == []
    for row in rows:
        for head, value in row.items():
            line = rf"^{re.escape(head)} +{re.escape(value)} *$"
            assert re.search(line, narrow, re.MULTILINE)
    monkeypatch.setenv("COLUMNS", "160")
    wide = shown(rows, 160, 4)
    assert re.search(" +".join(heads), wide)
