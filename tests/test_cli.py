"""The command line from its users' point of view: what it prints, writes and returns."""

import html
import json
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import anabranch as package
import scenario_reference
from anabranch import _engine, cli, papers
from anabranch.errors import HungUp, Terminated
from anabranch.papers import new as made
from anabranch.studies import library
from anabranch.support import terminal, wording
from conftest import CALL, COMMAND, HANGS_S, ROOT, Command, one_error, written
from support.processes import until_it_hears

COMMANDS = [
    "run",
    "sweep",
    "list",
    "new",
    "validate",
    "emodel",
    "reproduce",
    "compare",
    "explain",
    "bench-cc",
    "bench-quic",
    "bench-rtc",
    "lab",
    "advise",
    "profile",
    "query",
    "report",
    "plot",
    "methods",
]


def test_version(anabranch: Command) -> None:
    result = anabranch("--version")
    guided = "profile-guided" if _engine.PROFILE_GUIDED else "not profile-guided"
    said = f"{package.__version__} (engine {_engine.ENGINE_VERSION}, {guided})\n"
    assert (result.returncode, result.stdout) == (0, said)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(anabranch: Command, command: str) -> None:
    result = anabranch(command, "--help")
    assert result.returncode == 0
    assert "Examples:" in result.stdout
    assert f"anabranch {command}" in result.stdout
    assert command in anabranch("--help").stdout


@pytest.mark.parametrize("name", cli.RENAMED)
def test_an_old_name_says_the_new_one(anabranch: Command, name: str) -> None:
    command = cli.RENAMED[name].split()[0]
    assert f"`{name}` is `anabranch {command} " in one_error(anabranch(name, "x"))
    assert anabranch(command, "--help").returncode == 0


def test_commands_are_grouped_by_what_people_do(anabranch: Command) -> None:
    said = anabranch("--help").stdout
    titles = ("Model and run", "Study", "Understand", "Real networks", "Check", "Options")
    places = [said.index(f"╭─ {title} ─") for title in titles]
    assert places == sorted(places)
    assert all(said.index(f" {name} ") < places[-1] for name in COMMANDS)


def test_run_prints_what_a_person_wants(anabranch: Command, call_file: Path) -> None:
    first, second = (anabranch("run", call_file) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == second.stdout
    what, result, obstacles, more = first.stdout.splitlines()
    assert what.startswith("small: ")
    assert "seed 3, replication 0" in what
    summary = package.run(package.load(call_file)).summary
    assert f"MOS {summary['call.mos']:.2f}" in result
    missing = summary["call.lost"] + summary["call.late"]
    assert f"{missing:.0f} of 200 frames not played" in result
    assert f"mean delay {summary['call.mean_delay_ms']:.3g} ms" in result
    assert "first to callee" in obstacles
    assert "packets lost" in obstacles
    assert f"anabranch explain {call_file}" in more
    assert f"all {len(summary)} scalars" in more


def test_a_process_says_the_same(anabranch: Command, process: Command, sweep_file: Path) -> None:
    """Other tests call the command line within their own process."""
    for words in (
        ("run", sweep_file, "--cell", 2),
        ("run", sweep_file, "--cell", 99),
        ("list", "papers"),
        ("compare", "a.json"),
    ):
        within, without = anabranch(*words), process(*words)
        assert within.returncode == without.returncode
        assert (within.stdout, within.stderr) == (without.stdout, without.stderr)


def test_where_to_look_asks_about_the_same_run(anabranch: Command, sweep_file: Path) -> None:
    sets = "run.duration=9 s"
    result = anabranch("run", sweep_file, "--cell", 2, "--seed", 7, "--set", sets)
    more = result.stdout.splitlines()[-1]
    assert f"explain {sweep_file} --set 'run.duration=9 s' --cell 2 --seed 7` says why" in more
    assert "more: " in more


def test_run_prints_every_scalar_on_request(anabranch: Command, call_file: Path) -> None:
    first, second = (anabranch("run", call_file, "--all") for _ in range(2))
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


def test_run_of_no_time_has_a_headline(anabranch: Command, call_file: Path) -> None:
    result = anabranch("run", call_file, "--set", "run.duration=0 s")
    assert (result.returncode, result.stderr) == (0, "")
    assert "0 s simulated" in result.stdout


def test_run_chooses_a_cell_of_a_sweep(anabranch: Command, sweep_file: Path) -> None:
    result = anabranch("run", sweep_file, "--cell", "3")
    assert "cell 3 of 6: rto_max = 0.1 s, pmr = 1" in result.stdout
    assert "cell" in one_error(anabranch("run", sweep_file, "--cell", "6"))


def test_a_scenario_of_the_package_that_is_not_here_is_a_template(anabranch: Command) -> None:
    """It is so where only the wheel is installed and the documentation's commands are tried."""
    error = one_error(anabranch("run", "scenarios/md1-queue.toml"))
    assert "there is no file scenarios/md1-queue.toml; `md1-queue` is a template" in error
    assert "`anabranch new md1-queue --template md1-queue` writes it" in error
    assert anabranch("new", "md1-queue", "--template", "md1-queue").returncode == 0
    assert anabranch("run", "md1-queue.toml").returncode == 0
    assert "cannot read `nowhere.toml`" in one_error(anabranch("run", "nowhere.toml"))


def test_run_writes_traces_and_figures(anabranch: Command, call_file: Path, tmp_path: Path) -> None:
    result = anabranch(
        "run", call_file, "--trace", "traces", "--plot", "out", "--formats", "png", "svg", "pdf"
    )
    assert result.returncode == 0, result.stderr
    frames = pl.read_parquet(tmp_path / "traces" / "frames.parquet")
    assert frames.height == 200
    assert set(frames["status"]) <= {"played", "late", "lost"}
    for suffix in ("png", "svg", "pdf"):
        path = tmp_path / "out" / f"small-call-delay.{suffix}"
        assert path.stat().st_size > 1000
        assert str(path.relative_to(tmp_path)) in result.stdout
    # The file is the wide figure, 8 inches at 150 dots, not that of a narrow screen.
    header = (tmp_path / "out" / "small-call-delay.png").read_bytes()[:24]
    assert int.from_bytes(header[16:20], "big") == 1200
    page = (tmp_path / "out" / "small.html").read_text("utf-8")
    assert "out/small.html" in result.stdout
    assert page.index("<svg") < page.index("All ")
    # The first figure says which path carried each frame.
    first = page[page.index("<figure") : page.index("</figure>")]
    assert 'id="call-delay"' in first
    for text in ("p0: ", "p1: ", "played", "lost"):
        assert text in first
    for line in result.stdout.splitlines()[:3]:
        assert html.escape(wording.unbroken(line[1:])) in page
    assert "call.sctp.a.timeouts" in page


def test_a_page_alone_has_its_figures_within(
    anabranch: Command, call_file: Path, tmp_path: Path
) -> None:
    assert anabranch("run", call_file, "--plot", "out").returncode == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["small.html"]
    assert "--formats needs --plot" in one_error(anabranch("run", call_file, "--formats", "png"))


def test_new_gives_a_valid_scenario_and_never_overwrites(
    anabranch: Command, tmp_path: Path
) -> None:
    result = anabranch("new", "my-call")
    assert "run it with: anabranch run my-call.toml" in result.stdout, result.stderr
    assert package.load(tmp_path / "my-call.toml").name == "my-call"
    result = anabranch("new", "my-sweep", "--template", "rto-sweep")
    assert "anabranch sweep my-sweep.toml --out results/my-sweep" in result.stdout
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


NETWORKS = {
    "l4s-pairs": ("scenario.toml",),
    "mptcp-aqm": ("scenario.toml",),
    "multipath-quic": ("scenario.toml",),
    "sctp-handover": ("network.toml", "experiment1.toml"),
    "tcp-wimax": ("scenario.toml",),
    "voip-sctp": ("scenario.toml",),
}


@pytest.mark.parametrize("paper", papers.names())
def test_the_scenario_of_a_paper_is_a_template(
    anabranch: Command, tmp_path: Path, paper: str
) -> None:
    result = anabranch("new", "mine", "--template", paper)
    assert "anabranch sweep mine.toml --out results/mine" in result.stdout, result.stderr
    text = (tmp_path / "mine.toml").read_text("utf-8")
    folder = Path(papers.__file__).parent / paper.replace("-", "_")
    own = "\n".join((folder / name).read_text("utf-8") for name in NETWORKS[paper])
    network = own.partition("\n[sweep]\n")[0]
    trees = [tomllib.loads(each) for each in (text, network)]
    for tree in trees:
        for key in ("name", "description", "seed", "sweep"):
            tree.pop(key, None)
    assert trees[0] == trees[1], "the network is the paper's"
    comments = [line for line in network.rstrip().splitlines() if line.startswith("#")]
    assert sum(line in text for line in comments) >= len(comments) - 1
    assert anabranch("validate", "mine.toml").returncode == 0
    assert package.load(tmp_path / "mine.toml").name == "mine"
    assert package.load(tmp_path / "mine.toml").cell_count <= 48
    # The commands that its comments name.
    done = anabranch("sweep", "mine.toml", "--out", "results/mine", "--replications=1")
    assert done.returncode == 0, done.stderr
    (line,) = re.findall("(?m)^#   anabranch (plot .*)$", text)
    assert anabranch(*line.split()).returncode == 0


def test_a_reproduction_takes_no_other_values(anabranch: Command, tmp_path: Path) -> None:
    error = one_error(anabranch("reproduce", "voip-sctp", "--set", "links.p0-last.delay=1 ms"))
    assert "`anabranch new mine --template voip-sctp` writes its scenario" in error
    assert (
        "`anabranch sweep mine.toml --set 'links.p0-last.delay=1 ms' --out results/mine`" in error
    )
    assert "--set" not in anabranch("reproduce", "--help").stdout
    made.create("my-paper", tmp_path)
    error = one_error(anabranch("reproduce", "./my-paper", "--set", "seed=1"))
    assert "change my-paper/scenario.toml" in error


def test_validate_tells_good_files_from_bad_ones(
    anabranch: Command, call_file: Path, tmp_path: Path
) -> None:
    bad = written(tmp_path / "bad.toml", CALL.replace("delay =", "dealy ="))
    result = anabranch("validate", call_file, bad)
    assert "dealy" in one_error(result)
    assert f"{call_file}: ok" in result.stdout


def test_no_name_and_no_number_of_a_list_is_broken_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def words(width: int, *arguments: str) -> set[str]:
        monkeypatch.setattr(
            terminal, "console", lambda: Console(width=width, highlight=False, no_color=True)
        )
        assert cli.main(["list", *arguments]) == 0
        return set(capsys.readouterr().out.replace("─", "").split())

    for arguments in ((), ("all",)):
        assert words(80, *arguments) == words(1000, *arguments)


def test_list_shows_models_codecs_templates(anabranch: Command) -> None:
    everything = anabranch("list", "all").stdout
    for word in ("gilbert", "drop_tail", "two-path-call", "g711+plc"):
        assert word in everything
    assert "gilbert" not in anabranch("list", "codecs").stdout
    assert "did you mean `templates`" in one_error(anabranch("list", "tempaltes"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("queue", "queues"),
        ("loss", "losses"),
        ("path_policy", "path-policies"),
        ("codec", "codecs"),
        ("template", "templates"),
        ("link", "links"),
        ("cross_traffic", "cross_traffics"),
    ],
)
def test_a_category_may_be_in_the_singular_and_in_the_plural(
    one: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(word: str) -> str:
        assert cli.main(["list", word]) == 0
        return capsys.readouterr().out

    assert listed(one) == listed(other) != ""


def test_every_table_that_a_message_names_has_its_keys_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, key in (
        (["link"], "duplicate"),
        (["scenario"], "flows"),
        (["queue", "codel"], "target"),
        (["transport", "tcp"], "loss_detection"),
        (["loss", "none"], "no keys"),
        (["loss", "gilbert"], "mean_bad"),
        (["congestion_controls", "bbr"], "key"),
        (["sweep"], "replications"),
    ):
        assert cli.main(["list", *words]) == 0
        assert key in capsys.readouterr().out, words
    assert cli.main(["list", "queue", "codle"]) == 2
    assert "did you mean `codel`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("sh -c true", "anabranch emulate SCENARIO.toml -- sh -c true, or with a link instead"),
        ("sh", "--delay 20ms -- sh"),
        ("x.toml sh -c true", "anabranch emulate x.toml -- sh -c true"),
        ("--delay 20ms sh -c true", "anabranch emulate --delay 20ms -- sh -c true"),
    ],
)
def test_emulate_says_where_the_dashes_are_missing(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["emulate", *words.split()]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "`sh` is a program; `--` stands before what runs" in error
    assert meant in error


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("pign -c 3 peer", "anabranch emulate SCENARIO.toml -- pign -c 3 peer, or with a link"),
        ("--delay 20ms --reorder pign -c 3", "anabranch emulate --delay 20ms --reorder -- pign -c"),
        ("x.toml --quiet pign -c 3", "anabranch emulate x.toml --quiet -- pign -c 3"),
    ],
)
def test_emulate_says_which_program_is_missing(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["emulate", *words.split()]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "`pign` is no scenario file, and no program of this name is installed" in error
    assert meant in error


def test_an_option_that_is_none_is_said_of_emulate(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["emulate", "x.toml", "--dely", "20ms"]) == 2
    assert "--dely" in capsys.readouterr().err


def test_list_begins_with_an_overview(anabranch: Command) -> None:
    overview = anabranch("list").stdout
    everything = anabranch("list", "all").stdout
    assert 8 * len(overview.splitlines()) < len(everything.splitlines())
    for word in ("loss", "gilbert", "codecs", "templates", "papers", "anabranch list all"):
        assert word in overview
    assert everything.startswith(overview.rstrip())


def test_completion_installs(
    anabranch: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    result = anabranch("--install-completion", "--shell", "bash")
    assert result.returncode == 0, result.stderr
    scripts = [path for path in tmp_path.rglob("anabranch") if path.is_file()]
    assert len(scripts) == 1
    assert "reproduce" in scripts[0].read_text("utf-8")


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
        (["--set", "TELR=-1e300"], "TELR = -1e300 is not from 5 to 65"),
        (["--set", "telr=nan"], "TELR = NaN is not from 5 to 65"),
        (["--set", "qdu=inf"], "qdu = inf is not from 1 to 14"),
        (["--set", "mT=0"], "mT = 0 is not from 100 to 150"),
        (["--set", "Nope=1"], "`Nope` is not a parameter"),
        (["--set", "SLR=8", "--form", "g107_1"], "`SLR` is not a parameter"),
        (["--ie", "nan"], "ie = NaN is not from 0 to 95"),
        (["--bpl", "0"], "bpl = 0 is not from 1 to 40"),
        (["--burst-ratio", "1e9"], "burst_ratio = 1000000000 is not from 0.001 to 1000"),
        (["--delay", "1e400 s"], "`1e400 s` is not a length of time"),
    ],
)
def test_emodel_mistakes(anabranch: Command, options: list[str], words: str) -> None:
    assert words in one_error(anabranch("emodel", *options))


def test_schema_is_the_schema_of_the_scenarios(anabranch: Command) -> None:
    schema = json.loads(anabranch("list", "schema").stdout)
    assert {"links", "paths", "flows"} <= schema["properties"].keys()


def test_of_many_cells_the_best_are_printed(anabranch: Command, tmp_path: Path) -> None:
    ends = '{ from = "1 s", to = "2.2 s", count = 120 }'
    axis = f'[sweep.axes]\nend = {{ set = "run.duration", range = {ends} }}\n'
    file = written(tmp_path / "many.toml", f"{CALL}\n{axis}")
    metrics = ["--metric", "call.mos", "--metric", "call.sent"]
    result = anabranch("sweep", file, "--out", "a b", *metrics)
    assert "these are the best 100 of 120 cells; `anabranch query 'a b'` reads all" in result.stdout
    assert "these are the first 100 of 120 cells" in result.stdout
    rows = package.read(tmp_path / "a b")
    table = result.stdout.split("these are")[0]
    shown = [float(line.split()[2]) for line in table.splitlines()[3:] if line.strip()]
    best = rows["call.mos"].fill_nan(None).sort(descending=True, nulls_last=True)
    assert shown == pytest.approx(best.head(100).to_list(), rel=1e-3)


@pytest.mark.parametrize(
    ("number", "raised"),
    [
        (signal.SIGINT, KeyboardInterrupt),
        (signal.SIGTERM, Terminated),
        (signal.SIGHUP, HungUp),
    ],
)
def test_a_signal_where_python_drops_exceptions_is_not_lost(
    number: int, raised: type[BaseException]
) -> None:
    class Dropping:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def wait() -> None:
        with cli._signals():
            Dropping()
            time.sleep(60)
            pytest.fail("the signal was lost")

    with pytest.raises(raised) as caught:
        wait()
    assert type(caught.value) is raised


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.1, 0.2, 1.0])
def test_a_signal_at_any_time_is_one_sentence(
    call_file: Path, tmp_path: Path, number: int, code: int, seconds: float
) -> None:
    # Imports first, then hours of a call.
    hours = ("--set", "flows.call.app.duration=80 h", "--set", "run.duration=90 h")
    run = subprocess.Popen(
        [*COMMAND, "run", str(call_file), *hours, "--json", str(tmp_path / "x.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until_it_hears(run)
    time.sleep(seconds)
    run.send_signal(number)
    output, errors = run.communicate(timeout=HANGS_S)
    assert (run.returncode, output, errors) == (code, "", "anabranch: stopped\n")
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("command", ["--help", "validate", "run"])
def test_frequent_commands_need_no_slow_import(call_file: Path, command: str) -> None:
    slow = {"asyncio", "duckdb", "matplotlib", "numpy", "polars", "scipy"}
    words = [command] if command == "--help" else [command, str(call_file)]
    program = f"""\
import sys
from anabranch import cli
code = cli.main({words})
print(code, sorted({slow} & set(sys.modules)), file=sys.stderr)"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stderr == "0 []\n"


@pytest.mark.parametrize("columns", ["0", "1", "20", "-5", "wide"])
@pytest.mark.parametrize("arguments", [["--help"], ["list", "loss"]])
def test_any_width_of_the_terminal_will_do(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, columns: str, arguments: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    result = anabranch(*arguments)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_locale_without_dashes_gets_question_marks(
    anabranch: Command, call_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    result = anabranch("run", call_file)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.isascii()


def test_the_exit_code_says_what_standard_error_cannot() -> None:
    command = f"{shlex.join(COMMAND)} nothing 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 2


def test_generated_files_are_fresh() -> None:
    assert scenario_reference.stale(ROOT / "docs") == [], "run `make docs`"
