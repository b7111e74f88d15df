"""The bench for congestion controls: its scenarios, its comparison, and its checks."""

import io
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

import cellular_trace
from anabranch import bench_cc, load, run, stats
from anabranch.bench_cc import checks, figures, measures, reports, scenarios
from anabranch.bench_cc.measures import METRICS, Cell
from anabranch.bench_cc.page import of as page_of
from anabranch.errors import AnabranchError
from anabranch.stats import Interval
from conftest import Command, one_error

NAMES = (
    "clean",
    "lossy",
    "bursty",
    "deep-buffer",
    "shallow-buffer",
    "long-fat",
    "rate-step",
    "equal-pair",
    "rtt-unfair",
    "versus-cubic",
    "reverse-congestion",
    "cellular",
    "marking-queue",
)
FEW = ("--scenario", "shallow-buffer", "--scenario", "versus-cubic", "--jobs", 2)


def test_there_are_thirteen_scenarios_and_seventeen_controls() -> None:
    assert tuple(about.name for about in scenarios.load((), "linux_6")) == NAMES
    assert {path.stem for path in scenarios.FOLDER.glob("*.toml")} == set(NAMES)
    assert len(scenarios.controls()) == 17
    known = scenarios.controls()
    assert scenarios.chosen(("all",), known) == known
    assert scenarios.chosen(("reno", "cubic", "reno"), known) == ("reno", "cubic")


@pytest.mark.parametrize("name", NAMES)
def test_the_bench_knows_its_scenario(name: str) -> None:
    file = scenarios.FOLDER / f"{name}.toml"
    plain = load(file)
    assert plain.name == name
    assert plain.description
    about = scenarios.load((name,), "linux_6")[0]
    content = tomllib.loads(file.read_text("utf-8"))
    path = content["paths"][content["flows"]["probe"]["paths"][0]]["via"]
    delays = [content["links"][link].get("delay", "0 ms") for link in path]
    assert sum(int(delay.removesuffix(" ms")) for delay in delays) == about.delay_ms
    assert content["run"] == {"duration": "60 s", "warm_up": "5 s"}
    assert content["flows"]["probe"]["app"]["start"] == "5 s"
    assert about.capacity_mbit_per_s == pytest.approx(_mean_rate(content), rel=1e-4)
    flows = content["flows"]
    assert {flow for flow in flows if flow.startswith("test")} == set(about.tested)
    assert all(
        flow["transport"].get("cc", {}).get("kind") in (None, "cubic") for flow in flows.values()
    )


def _mean_rate(content: dict[str, Any]) -> float:
    """The rate of the bottleneck in Mbit/s, from 5 s to 60 s."""
    rate = content["links"]["bottleneck"]["rate"]
    if isinstance(rate, str):
        return float(rate.removesuffix(" Mbit/s"))
    if "mahimahi" in rate:
        lines = (scenarios.FOLDER / rate["mahimahi"]).read_text("utf-8").splitlines()[1:]
        times = [int(line) / 1000 for line in lines]
        period = times[-1]
        laps = range(math.ceil(60 / period))
        sent = sum(5 < time + lap * period <= 60 for lap in laps for time in times)
        return sent * 1500 * 8 / 55e6
    steps = [
        (float(at.removesuffix(" s")), float(value.split()[0])) for at, value in rate["timetable"]
    ]
    ends = [at for at, _ in steps[1:]] + [60.0]
    return (
        sum(
            (end - max(start, 5.0)) * value for (start, value), end in zip(steps, ends, strict=True)
        )
        / 55
    )


def test_the_trace_is_what_its_script_makes() -> None:
    assert cellular_trace.TRACE.read_text("utf-8") == cellular_trace.trace()


def test_the_control_is_in_the_tested_place_only() -> None:
    about = scenarios.load(("versus-cubic",), "linux_2_6_20")[0]
    cell = tomllib.loads(about.scenario.cell_toml(about.cell(0, "vegas")))
    kinds = {
        name: flow["transport"].get("cc", {}).get("kind") for name, flow in cell["flows"].items()
    }
    assert kinds == {"test": "vegas", "cubic": "cubic", "probe": None}
    assert cell["flows"]["cubic"]["transport"]["profile"] == "linux_2_6_20"
    lossy = scenarios.load(("lossy",), "rfc")[0]
    assert lossy.cases == ["lossy 0.1 %", "lossy 1 %", "lossy 5 %", "lossy 10 %"]
    cell = tomllib.loads(lossy.scenario.cell_toml(lossy.cell(2, "reno")))
    assert cell["flows"]["test"]["transport"]["cc"]["kind"] == "reno"
    assert cell["links"]["bottleneck"]["loss"]["probability"] == "0.05"


@pytest.mark.parametrize("kind", scenarios.controls())
def test_every_control_moves_data_in_the_clean_scenario(kind: str) -> None:
    sets = {"flows.test.transport.cc.kind": kind, "run.duration": "10 s"}
    row = run(scenarios.FOLDER / "clean.toml", set=sets).summary
    assert 9_000 < row["test.goodput_kbit_per_s"] < 20_000


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    out = tmp_path_factory.mktemp("bench")
    only = ("lossy", "versus-cubic")
    return bench_cc.compare(("reno", "vegas"), out, only=only, replications=3, jobs=2)


def test_the_comparison_says_what_is_known(compared: list[Cell]) -> None:
    found = {(cell.case, cell.control): cell.values for cell in compared}
    assert len(found) == 2 * 5
    versus = {name: found["versus CUBIC", name] for name in ("reno", "vegas")}
    # Vegas yields to a control that fills the queue (Mo, La, Anantharam, Walrand, INFOCOM 1999).
    assert versus["vegas"]["share_percent"].mean < 25
    assert 25 < versus["reno"]["share_percent"].mean < 60
    assert versus["reno"]["jain"].mean > versus["vegas"]["jain"].mean
    assert math.isnan(found["lossy 1 %", "reno"]["jain"].mean)
    goodputs = [found[f"lossy {p} %", "reno"]["goodput_mbit_per_s"].mean for p in ("0.1", 1, 5, 10)]
    assert goodputs == sorted(goodputs, reverse=True)
    for loss in (1, 5, 10):
        again = found[f"lossy {loss} %", "reno"]["retransmitted_percent"].mean
        assert again == pytest.approx(loss, rel=0.25)
    top = measures.best(compared)
    assert top["versus CUBIC", "jain"] == {"reno"}
    assert ("versus CUBIC", "share_percent") not in top


def test_the_outputs_of_a_comparison(compared: list[Cell]) -> None:
    found = checks.run(compared, None)
    content = reports.as_json(compared, found, "linux_6", 2)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert len(content["cells"]) == len(compared)
    page = reports.markdown(compared)
    assert page.count("| vegas |") == page.count("| reno |") == 5
    drawn = figures.of(compared)
    assert list(drawn) == list(measures.CONTROLS.drawn)
    assert sum(axes.get_visible() for axes in drawn["goodput"]().axes) == 5
    assert sum(axes.get_visible() for axes in drawn["fairness"]().axes) == 1
    text = page_of(compared, found, 3, list(drawn)).text({})
    assert re.search(r"differ, for the most goodput reno \(among the best in \d of \d\), ", text)
    assert "; beside CUBIC, of what both have, vegas " in text
    assert text.count("<table") == 5
    for name in ("goodput, Mbit/s", "queue p95, ms", "Jain index, 0-1"):
        assert f">{name}<" in text
    assert text.count('class="reproduced"') == sum(
        len(names)
        for (_, name), names in measures.best(compared).items()
        if name != "utilisation_percent"
    )


@pytest.mark.parametrize("width", [36, 60, 80, 132])
def test_the_tables_fit_the_terminal_with_every_number_whole(
    compared: list[Cell], width: int
) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(reports.tables(compared, width))
    lines = console.export_text().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    heads, cases = reports.rows(compared)
    shown = [re.split(r"\s{2,}", line.strip()) for line in lines]
    assert {cell for line in shown for cell in line} >= {*heads, *cases}
    for found in cases.values():
        for control, *values in found:
            of_it = [cell for line in shown if line[0] == control for cell in line[1:]]
            assert set(values) - {"–"} <= set(of_it)


def _cell(mean: float, half_width: float, metric: str = "jain") -> Cell:
    about = scenarios.load(("equal-pair",), "linux_6")[0]
    none = Interval(math.nan, math.nan, 0)
    values = {one.name: none for one in METRICS}
    values["utilisation_percent"] = Interval(95.0, 0.1, 5)
    values[metric] = Interval(mean, half_width, 5)
    return Cell(about, about.title, "reno", values, {})


def test_the_best_is_known_by_pairs() -> None:
    """Runs share their random numbers: a difference in each pair is one, however wide they spread.

    And a better mean of three runs is none.
    """
    about = scenarios.load(("clean",), "linux_6")[0]

    def cell(control: str, runs: list[float]) -> Cell:
        values = {metric.name: stats.mean_interval([math.nan] * 3) for metric in METRICS}
        found = {metric.name: [math.nan] * 3 for metric in METRICS} | {"goodput_mbit_per_s": runs}
        values["goodput_mbit_per_s"] = stats.mean_interval(runs)
        return Cell(about, "clean", control, values, found)

    spread = [cell("reno", [10.0, 20.0, 30.0]), cell("cubic", [11.0, 21.1, 30.9])]
    assert measures.best(spread) == {("clean", "goodput_mbit_per_s"): {"cubic"}}
    chance = [cell("reno", [10.0, 20.0, 30.0]), cell("cubic", [30.0, 21.0, 12.0])]
    assert measures.best(chance) == {}


def test_thresholds() -> None:
    verdicts = {mean: checks.run([_cell(mean, 0.3)], None)[-1].verdict for mean in (0.79, 0.81)}
    assert verdicts == {0.79: "failed", 0.81: "passed"}
    assert checks.run([_cell(math.nan, math.nan)], None)[-1].verdict == "failed"


@pytest.mark.parametrize(
    ("metric", "was", "now", "verdict"),
    [
        ("jain", (0.9, 0.03), (0.95, 0.001), "passed"),
        ("jain", (0.9, 0.03), (0.86, 0.03), "passed"),
        ("jain", (0.9, 0.03), (0.85, 0.03), "failed"),
        ("jain", (0.9, 0.0), (0.895, 0.0), "passed"),
        ("queueing_p95_ms", (20.0, 1.0), (25.0, 1.0), "failed"),
        ("queueing_p95_ms", (20.0, 1.0), (15.0, 1.0), "passed"),
        ("goodput_mbit_per_s", (math.nan, math.nan), (15.0, 1.0), "skipped"),
    ],
)
def test_baselines(
    metric: str,
    was: tuple[float, float],
    now: tuple[float, float],
    verdict: str,
    tmp_path: Path,
) -> None:
    file = tmp_path / "before.json"
    file.write_text(json.dumps(reports.as_json([_cell(*was, metric)], [], "linux_6", 5)))
    baseline = checks.Baseline(file, "linux_6", 5)
    found = {check.what: check for check in baseline.checks(_cell(*now, metric))}
    assert found[f"{metric} is no worse than before"].verdict == verdict
    assert found["utilisation_percent is no worse than before"].verdict == "passed"
    root = ET.fromstring(reports.junit(list(found.values())))
    assert len(root.findall(".//failure")) == (verdict == "failed")
    assert len(root.findall(".//skipped")) == (verdict == "skipped")


def test_other_baselines_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "before.json"

    def refusal(text: str, profile: str = "linux_6", replications: int = 5) -> str:
        file.write_text(text)
        with pytest.raises(AnabranchError) as error:
            checks.Baseline(file, profile, replications)
        return str(error.value)

    text = json.dumps(reports.as_json([_cell(0.9, 0.1)], [], "linux_6", 1))
    assert "is not a JSON file of `anabranch bench-cc`" in refusal("[]")
    assert "is not a JSON file of `anabranch bench-cc`" in refusal("{")
    assert "is not a JSON file of `anabranch bench-cc`" in refusal("[" * 100_000)
    for replications in ("", ', "replications": null', ', "replications": "many"'):
        without = f'{{"cells": [], "profile": "linux_6"{replications}}}'
        assert "is not a JSON file of `anabranch bench-cc`" in refusal(without)
    assert "is about the profile linux_6, this run about rfc" in refusal(text, "rfc")
    assert "needs at least 2 replications" in refusal(text, replications=1)
    assert "has one replication" in refusal(text)


def test_a_baseline_of_something_else_is_refused_before_the_work(
    anabranch: Command, tmp_path: Path
) -> None:
    file = tmp_path / "before.json"
    file.write_text(json.dumps(reports.as_json([_cell(0.9, 0.1)], [], "linux_6", 5)))
    other = ("bench-cc", "reno", "--scenario", "clean", "--quick", "--baseline", file)
    message = one_error(anabranch(*other))
    assert "has none of what is compared; it has reno in equal pair" in message
    assert not (tmp_path / "results").exists()


def test_the_command(anabranch: Command, tmp_path: Path) -> None:
    """Results are the same on one thread and on two; a baseline of the same runs is kept."""
    out = tmp_path / "bench"
    files = ("--json", tmp_path / "a.json", "--junit", tmp_path / "a.xml")
    first = anabranch("bench-cc", "reno", *FEW, "--replications", 2, "--out", out, *files)
    assert first.returncode == 0, first.stderr
    assert "versus CUBIC" in first.stdout
    assert "wrote" in first.stdout
    assert (out / "figures" / "goodput.png").exists()
    page = (out / "index.html").read_text(encoding="utf-8")
    assert re.search(
        r"reno uses \d+ to \d+ % of the link; beside CUBIC it takes \d+ % of what", page
    )
    assert 'href="figures/goodput.png"' in page
    other = ("--json", tmp_path / "b.json", "--baseline", tmp_path / "a.json", "--jobs", 1)
    second = anabranch(
        "bench-cc", "reno", *FEW[:4], "--replications", 2, "--out", tmp_path / "other", *other
    )
    assert second.returncode == 0, second.stdout
    contents = [json.loads((tmp_path / name).read_text("utf-8")) for name in ("a.json", "b.json")]
    assert contents[0]["cells"] == contents[1]["cells"]
    assert len(contents[1]["checks"]) > len(contents[0]["checks"])
    assert f"{len(contents[1]['checks'])} checks, 0 failed, 0 skipped" in second.stdout
    root = ET.parse(tmp_path / "a.xml").getroot()
    assert root.tag == "testsuites"
    tests = root.findall("testsuite/testcase")
    assert len(tests) == int(root.attrib["tests"]) == len(contents[0]["checks"])
    assert {suite.attrib["name"] for suite in root} == {"shallow buffer", "versus CUBIC"}
    assert all(test.attrib["name"] and test.attrib["classname"] for test in tests)


def test_finished_runs_are_not_computed_again(anabranch: Command, tmp_path: Path) -> None:
    command = ("bench-cc", "--scenario", "shallow-buffer", "--out", tmp_path / "out")
    assert anabranch(*command, "reno", "--replications", 1).returncode == 0
    more = anabranch(*command, "reno", "vegas", "--replications", 2)
    assert more.returncode == 0
    assert "1/4 runs" in more.stderr, "one of four is there"
    again = anabranch(*command, "reno", "vegas", "--replications", 2)
    assert "4/4 runs" in again.stderr
    assert again.stdout == more.stdout


def test_a_failed_check_is_the_exit_code(anabranch: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    result = anabranch(
        "bench-cc",
        "westwood",
        "--scenario",
        "shallow-buffer",
        "--replications",
        1,
        "--junit",
        file,
    )
    assert result.returncode == 1
    assert "failed: westwood, shallow buffer: utilisation_percent is at least 60" in result.stdout
    assert ET.parse(file).getroot().attrib["failures"] == "1"


def test_what_a_built_in_control_is_known_for_is_explained_and_no_failure(
    anabranch: Command, tmp_path: Path
) -> None:
    files = ("--json", tmp_path / "a.json", "--junit", tmp_path / "a.xml")
    result = anabranch("bench-cc", "bbr", "--scenario", "versus-cubic", "--replications", 1, *files)
    assert result.returncode == 0
    assert "known: bbr, versus CUBIC: share_percent is at most 75; 8" in result.stdout
    assert "version 1 sends at the rate that it has measured" in result.stdout
    assert "3 checks, 0 failed, 1 known, 0 skipped" in result.stdout
    assert ET.parse(tmp_path / "a.xml").getroot().attrib["failures"] == "0"
    verdicts = [one["verdict"] for one in json.loads((tmp_path / "a.json").read_text())["checks"]]
    assert sorted(verdicts) == ["known", "passed", "passed"]
    # A control that moves no data is not excused.
    about = scenarios.load(("versus-cubic",), "linux_6")[0]
    nothing = {one.name: Interval(0.0, 0.0, 2) for one in METRICS}
    found = checks.run([Cell(about, about.title, "bbr", nothing, {})], None)
    assert [one.verdict for one in found] == ["failed", "known", "passed"]


def test_a_class_of_python_is_compared(anabranch: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from anabranch.plugins.examples import Reno\n\n\nclass Mine(Reno):\n    pass\n"
    )
    few = ("--scenario", "clean", "--scenario", "versus-cubic", "--replications", 2)
    result = anabranch("bench-cc", "mine.py:Mine", "reno", "vegas", *few, "--json", "a.json")
    assert result.returncode == 0, result.stderr
    content = json.loads((tmp_path / "a.json").read_text("utf-8"))
    cells = {(cell["case"], cell["control"]): cell["metrics"] for cell in content["cells"]}
    assert [control for case, control in cells if case == "clean"] == [
        "mine.py:Mine",
        "reno",
        "vegas",
    ]
    # It is Reno, with the same random numbers.
    for case in ("clean", "versus CUBIC"):
        assert cells[case, "mine.py:Mine"] == cells[case, "reno"] != cells[case, "vegas"]
    assert content["headline"].startswith(
        "How does mine.py:Mine fare beside reno, vegas? It is among the best for the most goodput"
    )
    assert re.search(r"; beside CUBIC it takes \d+ % of what both have\.$", content["headline"])
    assert content["headline"] in result.stdout
    page = (tmp_path / "results" / "bench-cc" / "index.html").read_text("utf-8")
    assert content["headline"] in page
    wrong = one_error(anabranch("bench-cc", "mine.py:Other", "--scenario", "clean"))
    assert 'class = "mine.py:Other" does not exist: the module has no class Other' in wrong
    absent = one_error(anabranch("bench-cc", "absent.py:Other", "--scenario", "clean"))
    assert "there is no file absent.py; `anabranch new absent.py` writes one" in absent


def test_a_control_to_start_from_can_be_compared(anabranch: Command, tmp_path: Path) -> None:
    result = anabranch("new", "my_cc.py")
    said = " ".join(result.stdout.split())
    assert "try it with: anabranch bench-cc my_cc.py:MyCc cubic bbr --quick" in said, result.stderr
    few = ("--scenario", "clean", "--replications", 1, "--json", "a.json")
    assert anabranch("bench-cc", "my_cc.py:MyCc", *few).returncode == 0
    (cell,) = json.loads((tmp_path / "a.json").read_text("utf-8"))["cells"]
    assert cell["control"] == "my_cc.py:MyCc"
    # It fills the link, and stops where packets begin to wait for 10 ms.
    assert cell["metrics"]["goodput_mbit_per_s"]["mean"] > 18
    assert 5 < cell["metrics"]["queueing_mean_ms"]["mean"] < 15
    assert "my_cc.py exists already" in one_error(anabranch("new", "my_cc.py"))
    assert "`2x.py` is not a name for a module" in one_error(anabranch("new", "2x.py"))
    wrong = one_error(anabranch("new", "x.py", "--template", "failover"))
    assert "there is no class `failover` to start from; there are congestion_control and" in wrong
    assert not (tmp_path / "x.py").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("rene",), "there is no congestion control `rene`; there are bbr, bbr3, bic, cubic"),
        ((), "name a congestion control: bbr,"),
        (("reno", "--scenario", "dirty"), "there is no scenario `dirty`; there are clean, lossy"),
        (("reno", "--replications", 0), "replications is 0; it must be at least 1"),
        (("reno", "--quick", "--replications", 2), "--quick and --replications exclude each other"),
        (("reno", "--jobs", 0), "jobs is 0"),
        (("reno", "--profile", "bsd"), "bsd"),
        (("reno", "--baseline", "absent.json"), "absent.json: No such file"),
        (("reno", "--junit", "no/such/file.xml"), "no/such/file.xml"),
        (("reno", "--junit", "x", "--json", "x"), "--junit and --json are both x"),
        (("reno", "--out", "x", "--json", "x"), "--out and --json are both x"),
    ],
)
def test_mistakes(anabranch: Command, arguments: tuple[str | int, ...], sentence: str) -> None:
    assert sentence in one_error(anabranch("bench-cc", *arguments))
