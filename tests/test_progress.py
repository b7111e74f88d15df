"""How far the work is, on a terminal and where there is none."""

import io
import json
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from anabranch import cli
from anabranch.errors import Terminated
from anabranch.support import progress


def test_lines_say_what_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.steps("figures", 2, "figures") as step:
        step()
        step()
    captured = capsys.readouterr()
    first, *_, last = captured.err.splitlines()
    assert first == "figures: 0/2 figures"
    assert last.startswith("figures: 2/2 figures, ")
    assert captured.out == ""


def test_programs_get_one_object_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress.form("json"), progress.shown("a sweep", kept=True) as update:
        for done in range(0, 101, 5):
            update(progress.Status(done, 100, is_estimate=done < 50, note="so far – good"))
            now += 25
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (message,) = [line for line in lines if "message" in line]
    assert message["message"].startswith("a sweep: 90 more runs take about 8 minutes")
    steps = [line for line in lines if "message" not in line]
    assert [line["done"] for line in steps] == list(range(0, 101, 5))
    assert steps[0] == {
        "work": "a sweep",
        "unit": "runs",
        "done": 0,
        "total": 100,
        "total_is_estimate": True,
        "per_s": None,
        "eta_s": None,
        "note": "so far – good",
    }
    assert (steps[10]["per_s"], steps[10]["eta_s"]) == (0.2, 250.0)
    assert (steps[-1]["done"], steps[-1]["eta_s"]) == (100, 0.0)
    # Afterwards people get words again.
    with progress.steps("figures", 1) as step:
        step()
    assert "figures: 1/1 runs" in capsys.readouterr().err


def test_quick_work_does_not_flood_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.form("json"), progress.steps("a sweep", 2000) as step:
        for _ in range(2000):
            step()
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) < 100
    assert json.loads(lines[-1])["done"] == 2000


def test_every_command_has_the_form_of_its_progress(
    sweep_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = str(tmp_path / "study")
    words = ["sweep", str(sweep_file), "--out", study, "--replications", "1", "--progress", "json"]
    assert cli.main(words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (lines[-1]["work"], lines[-1]["done"], lines[-1]["total"]) == ("small", 6, 6)
    assert cli.main(["--progress", "json", "report", study]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines[-1]["unit"] == "tables"


def test_a_log_of_a_day_has_few_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress.shown("a sweep") as update:
        for done in range(24 * 360 + 1):
            update(progress.Status(done, 24 * 360))
            now += 10
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("a sweep: 8640/8640 runs")
    assert 10 < len(lines) < 40


@pytest.mark.parametrize(
    ("seconds_per_run", "kept", "said"),
    [
        (0.5, True, ""),
        (0.8, True, "a sweep: 97 more runs take about a minute; Ctrl-C stops it"),
        (5, True, "a sweep: 98 more runs take about 8 minutes; Ctrl-C stops it, finished ones are"),
        (90, False, "a sweep: 98 more runs take about 2.5 hours\n"),
    ],
)
def test_what_takes_more_than_a_minute_says_so_once(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seconds_per_run: float,
    *,
    kept: bool,
    said: str,
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress.shown("a sweep", kept=kept) as update:
        for done in range(101):
            update(progress.Status(done, 100))
            now += seconds_per_run
    err = capsys.readouterr().err
    assert err.count("anabranch: ") == (1 if said else 0)
    assert said in err


def test_the_start_of_workers_is_no_rate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster takes seconds until its first runs are finished; then a thousand come a second."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress.shown("a sweep", kept=True) as update:
        for seconds, done in ((0, 500), (6, 506), (1, 1506), (1, 2506), (7, 10_000)):
            now += seconds
            update(progress.Status(done, 10_000))
    assert "anabranch: " not in capsys.readouterr().err


def test_nothing_to_do_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.steps("figures", 0):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Terminated])
def test_a_signal_says_how_to_go_on_where_work_is_kept(kind: type[KeyboardInterrupt]) -> None:
    def work(*, kept: bool, done: int | None) -> None:
        with progress.shown("sweep", kept=kept) as shown:
            if done is not None:
                shown(progress.Status(done, 10))
            raise kind

    def stopped(*, kept: bool, done: int | None = 3) -> str:
        with pytest.raises(kind) as error:
            work(kept=kept, done=done)
        return str(error.value)

    assert stopped(kept=True) == "3 of 10 runs are finished; the same command continues"
    assert stopped(kept=False) == ""
    assert stopped(kept=True, done=None) == "", "before it is known what is finished"


def test_without_standard_error_standard_output_stays_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress.steps("figures", 1) as step:
        step()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("rate", "text"), [(0.31, "0.31"), (7.46, "7.5"), (1234.5, "1,234")])
def test_slow_work_has_a_rate(rate: float, text: str) -> None:
    assert progress.rate_text(rate) == text


def test_a_bar_says_how_long_it_takes_though_the_total_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a stopping rule, the total changes with every batch."""
    now = 100.0
    monkeypatch.setattr("anabranch.support.progress.time.monotonic", lambda: now)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    bar = progress._Bar("sweep", "runs", console)
    for done, total in ((50, 100), (60, 200), (70, 1000)):
        bar.update(progress.Status(done, total, is_estimate=True))
        now += 10.0
    bar.close()
    (task,) = bar._bar.tasks
    assert task.fields["rate"] == "1"
    # Of 1000 runs 930 are left, at one a second: 20 in 20 seconds.
    assert task.fields["left"] == "0:15:30"
    assert "0:15:30" in screen.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_alone_says_that_runs_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, sweep_file: Path, tmp_path: Path, *, is_terminal: bool
) -> None:
    screen = io.StringIO()

    def console(*, stderr: bool) -> Console:
        assert stderr, "standard output is for results"
        return Console(file=screen, force_terminal=is_terminal, width=100)

    monkeypatch.setattr("anabranch.support.progress.Console", console)
    assert cli.main(["sweep", str(sweep_file), "--out", str(tmp_path / "out")]) == 0
    shown = screen.getvalue()
    found = shown.find("small: finding the runs of 6 cells")
    assert (found >= 0) is is_terminal
    # The line disappears before the bar appears.
    assert not is_terminal or found < shown.find("\x1b[2K", found) < shown.find("36/36")


def test_what_is_waited_for_goes_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        "anabranch.support.progress.Console", lambda **_: Console(file=screen, force_terminal=True)
    )
    with pytest.raises(ValueError, match="no"), progress.waiting("[bold]work"):
        raise ValueError("no")
    said = screen.getvalue()
    assert "[bold]work" in said, "a name is no markup"
    assert said.rindex("\x1b[2K") > said.rindex("work"), "the line is empty again"
