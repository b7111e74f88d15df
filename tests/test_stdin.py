"""`-` is standard input, where a command reads a file."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import COMMAND, HANGS_S, Command, one_error
from support.processes import until

CASES = Path(__file__).parent / "cases" / "captures"
LOSSY = CASES / "clean-base-v4.pcap"


class Pipe(io.BytesIO):
    """What is piped in; as a terminal, where it says so."""

    def __init__(self, content: bytes, *, is_terminal: bool = False, ends: bool = True) -> None:
        super().__init__(content)
        self.is_terminal, self.ends = is_terminal, ends

    def isatty(self) -> bool:
        return self.is_terminal

    def read1(self, size: int | None = -1, /) -> bytes:
        part = super().read1(-1 if size is None else min(size, 1000))
        if not part and not self.ends:
            raise KeyboardInterrupt
        return part


def pipe(monkeypatch: pytest.MonkeyPatch, content: bytes, **others: bool) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Pipe(content, **others)))


@pytest.mark.parametrize("ends", [True, False])
def test_a_capture(
    anabranch: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """What is read from a pipe is what is read from the file, also if Ctrl-C ends it."""
    for command in ("explain", "profile"):
        name = ["--name", "path"] if command == "profile" else []
        from_file = anabranch(command, LOSSY, *name, "--json", tmp_path / "file.json")
        pipe(monkeypatch, LOSSY.read_bytes(), ends=ends)
        done = anabranch(command, "-", *name, "--json", tmp_path / "pipe.json")
        assert done.returncode == from_file.returncode == 0, done.stderr
        texts = [done.stdout.replace("pipe.json", "file.json"), from_file.stdout]
        assert texts[0] == texts[1]
        contents = [json.loads((tmp_path / f"{one}.json").read_text()) for one in ("file", "pipe")]
        if command == "explain":
            assert [one.pop("capture") for one in contents] == [LOSSY.name, "stdin"]
        assert contents[0] == contents[1]


def test_a_cut_capture_is_said(anabranch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, LOSSY.read_bytes()[:-30])
    done = anabranch("explain", "-")
    assert "stdin: the file is cut off in a packet; what comes before it is used" in done.stdout


def test_a_log_and_a_script(anabranch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"64 bytes from h: icmp_seq={n} ttl=64 time={20 + n % 3}.0 ms" for n in range(1, 50)]
    pipe(monkeypatch, "\n".join(["PING h (192.0.2.1) 56(84) bytes of data.", *lines]).encode())
    done = anabranch("profile", "-")
    assert done.returncode == 0, done.stderr
    assert "[links.stdin]" in done.stdout
    script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"
    pipe(monkeypatch, script.encode())
    assert re.match(r"passed +standard input/stdin", anabranch("drill", "-", "-").stdout)
    pipe(monkeypatch, (script + "+0 (\n").encode())
    done = anabranch("drill", "-")
    assert done.returncode == 1
    assert "-: line 2: " in done.stdout


def test_mistakes_are_one_sentence(anabranch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("explain", "profile", "drill"):
        pipe(monkeypatch, b"")
        assert "standard input is empty" in one_error(anabranch(command, "-"))
        pipe(monkeypatch, b"x", is_terminal=True)
        assert "which is a terminal: pipe a file into it" in one_error(anabranch(command, "-"))
        monkeypatch.setattr(sys, "stdin", None)
        assert "which is closed" in one_error(anabranch(command, "-"))
        assert "unknown option: `--nosuch`" in one_error(anabranch(command, "--nosuch"))
    pipe(monkeypatch, b"neither\n")
    assert "standard input: neither a capture" in one_error(anabranch("profile", "-"))
    pipe(monkeypatch, LOSSY.read_bytes())
    assert "name the other one" in one_error(anabranch("profile", "-", "-"))
    pipe(monkeypatch, LOSSY.read_bytes())
    said = one_error(anabranch("explain", "-", "--flow", "nosuch"))
    assert "standard input: no flow's name has `nosuch` in it" in said


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGTERM")
def test_sigterm_ends_it_all(tmp_path: Path) -> None:
    """Only Ctrl-C is the end of what is piped in. Nothing is left behind."""
    with subprocess.Popen(
        [*COMMAND, "explain", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(LOSSY.read_bytes())
        process.stdin.flush()
        until(lambda: list(tmp_path.glob("*/*/stdin")), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS_S) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())
