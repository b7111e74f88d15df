"""A few of the inputs of `reader_fuzzing.py`, the same in every run; and findings are found."""

import subprocess
import sys
from pathlib import Path

import pytest

import capture_mutations
import log_mutations
import reader_fuzzing
from conftest import HANGS_S
from reader_fuzzing import DRAWN, kinds, search, tried


@pytest.mark.parametrize("kind", kinds())
def test_what_is_damaged_gives_a_result_or_a_sentence(kind: str, tmp_path: Path) -> None:
    for number in range(5):
        tried(kind, 0, number, tmp_path)


@pytest.mark.parametrize("kind", kinds())
def test_what_is_whole_gives_a_result(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((capture_mutations, "damaged"), (log_mutations, "changed")):
        monkeypatch.setattr(module, name, lambda content, _: content)
    monkeypatch.setattr(capture_mutations, "changed", lambda seen, _: seen)
    assert any(any(tried(kind, 0, number, tmp_path)) for number in range(3))


@pytest.mark.parametrize("kind", ["ethernet", "two-captures", "ping", "mahimahi", "sqlog"])
def test_what_is_damaged_is_drawn(kind: str, tmp_path: Path) -> None:
    for nth in range(1, 4):
        tried(kind, 0, nth * DRAWN - 1, tmp_path)


def test_what_is_neither_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: list[Path], *, draws: bool) -> None:  # noqa: ARG001
        raise ValueError("no sentence")

    monkeypatch.setattr(reader_fuzzing, "_profiled", fails)
    assert search("ping", 0.001, 7, tmp_path / "found") > 0
    assert (tmp_path / "found" / "ping-7-0" / "log").read_bytes()
    assert "no sentence" in capsys.readouterr().out


def test_what_takes_long_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_fuzzing, "LONGEST_S", 0.0)
    with pytest.raises(AssertionError, match="s of CPU"):
        tried("ping", 0, 0, tmp_path)


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    program = [sys.executable, reader_fuzzing.__file__, "--minutes", "0.0001", "--kind", "ping"]
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=HANGS_S, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("ping: 0.0001 minutes, 1 inputs")
