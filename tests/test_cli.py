"""The command line as its users meet it: what it prints, writes and returns."""

import json
import subprocess
from pathlib import Path

import polars as pl
import pytest

import anabranch as package
from anabranch import docs, library
from conftest import CALL, COMMAND, ROOT, SWEEP, Command, one_error, written

COMMANDS = ["run", "sweep", "list", "new", "validate", "emodel", "schema", "reproduce", "compare"]


def test_version(anabranch: Command) -> None:
    result = anabranch("--version")
    assert (result.returncode, result.stdout) == (0, package.__version__ + "\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(anabranch: Command, command: str) -> None:
    result = anabranch(command, "--help")
    assert result.returncode == 0
    assert "Examples:" in result.stdout
    assert f"anabranch {command}" in result.stdout
    assert command in anabranch("--help").stdout


def test_run_prints_every_scalar_and_the_same_each_time(
    anabranch: Command, call_file: Path
) -> None:
    first, second = (anabranch("run", call_file) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    summary = package.run(package.load(call_file)).summary
    assert summary["call.sent"] == 200
    for name in summary:
        assert name in first.stdout


def test_run_with_another_value_seed_and_replication(
    anabranch: Command, call_file: Path, tmp_path: Path
) -> None:
    def scalars(*options: str) -> dict[str, float | None]:
        result = anabranch("run", call_file, "--json", "out.json", *options)
        assert result.returncode == 0, result.stderr
        content = json.loads((tmp_path / "out.json").read_text())
        assert content["version"] == package.__version__
        summary: dict[str, float | None] = content["summary"]
        return summary

    base = scalars()
    assert base == scalars("--seed", "3", "--replication", "0")
    assert base != scalars("--seed", "4")
    assert base != scalars("--replication", "1")
    longer = scalars("--set", "flows.call.app.duration=6 s")
    assert (base["call.sent"], longer["call.sent"]) == (200, 300)


def test_run_chooses_a_cell_of_a_sweep(anabranch: Command, sweep_file: Path) -> None:
    result = anabranch("run", sweep_file, "--cell", "3")
    assert "cell 3 of 6: rto_max = 0.1, pmr = 1" in result.stdout
    assert "cell" in one_error(anabranch("run", sweep_file, "--cell", "6"))


def test_run_writes_traces_and_figures(anabranch: Command, call_file: Path, tmp_path: Path) -> None:
    result = anabranch("run", call_file, "--trace", "traces", "--plot")
    assert result.returncode == 0, result.stderr
    frames = pl.read_parquet(tmp_path / "traces" / "frames.parquet")
    assert frames.height == 200
    assert set(frames["status"]) <= {"played", "late", "lost"}
    for suffix in ("png", "svg", "pdf"):
        path = tmp_path / "traces" / f"small-call-delay.{suffix}"
        assert path.stat().st_size > 1000
        assert str(path.relative_to(tmp_path)) in result.stdout


def test_new_gives_a_valid_scenario_and_never_overwrites(
    anabranch: Command, tmp_path: Path
) -> None:
    result = anabranch("new", "my-call")
    assert (result.returncode, "my-call.toml" in result.stdout) == (0, True), result.stderr
    assert package.load(tmp_path / "my-call.toml").name == "my-call"
    before = (tmp_path / "my-call.toml").read_text()
    assert "exists already" in one_error(anabranch("new", "my-call", "--template", "failover"))
    assert (tmp_path / "my-call.toml").read_text() == before
    assert "two-path-call" in one_error(anabranch("new", "x", "--template", "two-paths"))


@pytest.mark.parametrize("template", library.scenarios())
def test_every_template_can_be_copied(tmp_path: Path, template: str) -> None:
    copy = library.create(tmp_path / "my-copy", template)
    assert copy == tmp_path / "my-copy.toml"
    assert package.load(copy).name == "my-copy"
    assert package.load(copy).hash == package.load(library.scenarios()[template]).hash


def test_validate_tells_good_files_from_bad_ones(
    anabranch: Command, call_file: Path, tmp_path: Path
) -> None:
    bad = written(tmp_path / "bad.toml", CALL.replace("delay =", "dealy ="))
    result = anabranch("validate", call_file, bad)
    assert "dealy" in one_error(result)
    assert f"{call_file}: ok" in result.stdout


def test_list_shows_models_codecs_templates(anabranch: Command) -> None:
    everything = anabranch("list").stdout
    for word in ("gilbert", "drop_tail", "two-path-call", "g711+plc"):
        assert word in everything
    assert "gilbert" not in anabranch("list", "codecs").stdout
    assert "templates" in one_error(anabranch("list", "template"))


def test_emodel_prints_every_term(anabranch: Command) -> None:
    arguments = ("emodel", "--codec", "g711+plc", "--delay", "63ms", "--loss", "2%")
    table = anabranch(*arguments)
    assert table.returncode == 0, table.stderr
    terms = json.loads(anabranch(*arguments, "--json").stdout)
    for name in terms:
        assert name in table.stdout


def test_emodel_without_impairments_gives_the_recommendations_rating() -> None:
    # G.107 section 7.7: R = 93.2, MOS 4.41 with all parameters at their defaults.
    result = subprocess.run(
        [*COMMAND, "emodel", "--codec", "g711", "--json"], capture_output=True, check=True
    )
    terms = {name.lower(): value for name, value in json.loads(result.stdout).items()}
    assert terms["r"] == pytest.approx(93.2, abs=0.05)
    assert terms["mos"] == pytest.approx(4.41, abs=0.005)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--delay", "63"], "length of time"),
        (["--delay=-1ms"], "length of time"),
        (["--loss", "120%"], "from 0 to 1"),
        (["--codec", "g7111"], "g7111"),
        (["--set", "TELR"], "=VALUE"),
        (["--set", "TELR=loud"], "loud"),
    ],
)
def test_emodel_mistakes(anabranch: Command, options: list[str], words: str) -> None:
    assert words in one_error(anabranch("emodel", *options))


def test_schema_is_the_schema_of_the_scenarios(anabranch: Command) -> None:
    schema = json.loads(anabranch("schema").stdout)
    assert {"links", "paths", "flows"} <= schema["properties"].keys()


MISTAKES = {
    "unknown key": ("delay =", "dealy =", "dealy"),
    "misspelt kind": ('kind = "gilbert"', 'kind = "gilbet"', "gilbet"),
    "negative rate": ('rate = "1 Mbit/s"', 'rate = "-1 Mbit/s"', "rate"),
    "loss of 120 %": ('mean_loss = "5 %"', 'mean_loss = "120 %"', "120 %"),
    "RTO.Min above RTO.Max": ('rto_min = "0.02 s"', 'rto_min = "2 s"', "rto_min"),
    "path to nowhere": ('to = "callee"', 'to = "nobody"', "nobody"),
    "path over an unknown link": ('via = ["second"]', 'via = ["third"]', "third"),
    "not TOML": ("[run]", "[run", "line 4"),
    "quantity without a unit": ('delay = "20 ms"', "delay = 20", "delay"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_scenario_is_one_sentence(
    anabranch: Command, tmp_path: Path, mistake: str
) -> None:
    right, wrong, word = MISTAKES[mistake]
    assert right in CALL
    bad = written(tmp_path / "bad.toml", CALL.replace(right, wrong))
    assert word in one_error(anabranch("run", bad))


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_run_that_a_guard_stops_is_one_sentence(
    anabranch: Command, call_file: Path, command: str
) -> None:
    options = ("--out", "out") if command == "sweep" else ()
    result = anabranch(command, call_file, "--set", "run.max_events=10", *options)
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert result.stderr.splitlines()[-1].startswith("anabranch: error: ")
    assert "max_events" in result.stderr


def test_an_empty_sweep_axis_is_a_mistake(anabranch: Command, tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.toml", SWEEP.replace('["1 s", "0.1 s", "0.05 s"]', "[]"))
    assert "rto_max" in one_error(anabranch("sweep", bad, "--out", "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["rn", "x.toml"], '"run"'),
        (["run", "call.toml", "--sed", "3"], "--seed"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["run"], "SCENARIO"),
        (["run", "call.toml", "--seed", "three"], "three"),
        (["run", "call.toml", "--seed", "1.9"], "1.9"),
        (["run", "call.toml", "--seed", "-1"], "from 0 on"),
        (["run", "call.toml", "--seed", "99999999999999999999"], "whole number"),
        (["run", "call.toml", "--set", "name=../x"], "name"),
        (["new", "/"], "letters"),
        (["sweep", "call.toml", "--out", "out", "--jobs", "1.5"], "1.5"),
        (["sweep", "call.toml", "--out", "out", "--replications", "999999999999"], "at most"),
        (["run", "call.toml", "--set", "seed"], "PATH=VALUE"),
        (["run", "call.toml", "--set", "sed=3"], "sed"),
        (["run", "call.toml", "--json", "nowhere/x.json"], "nowhere/x.json"),
        (["run", "call.toml", "--trace", "call.toml/traces"], "call.toml"),
        (["sweep", "call.toml", "--out", "call.toml/out"], "call.toml"),
        (["sweep", "call.toml", "--out", "out", "--jobs", "0"], "jobs"),
        (["sweep", "call.toml", "--out", "out", "--replications", "0"], "replications"),
        (["sweep", "call.toml", "--out", "out", "--metric", "call.moss"], "call.mos"),
        (["reproduce", "no-such-paper"], "no-such-paper"),
        (["reproduce", "voip-sctp", "--quick", "--full"], "exclude"),
        (["--log-level", "loud", "list"], "loud"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(
    anabranch: Command, call_file: Path, arguments: list[str], word: str
) -> None:
    assert call_file.name == "call.toml"
    if arguments[0] == "sweep" and "--metric" in arguments:
        result = anabranch(*arguments)
        assert (result.returncode, "Traceback" in result.stderr) == (2, False)
        assert f"did you mean `{word}`?" in result.stderr.splitlines()[-1]
    else:
        assert word in one_error(anabranch(*arguments))


def test_a_full_disk_is_one_sentence(anabranch: Command, call_file: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    assert "No space left" in one_error(anabranch("run", call_file, "--json", "/dev/full"))


def test_a_reader_that_goes_away_is_no_error(call_file: Path) -> None:
    run = subprocess.Popen(
        [*COMMAND, "run", str(call_file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.stderr.read() == ""
    run.stderr.close()
    assert run.wait(60) == 0


def test_generated_files_are_fresh() -> None:
    assert docs.stale(ROOT / "docs") == [], "run `make docs`"
