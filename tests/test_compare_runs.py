"""`anabranch compare A B`: differences between two studies or runs, and refused comparisons."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats as scipy_stats

from anabranch import AnabranchError, Study, store
from anabranch.compare import compare, side, sides
from anabranch.compare.overlays import overlays
from anabranch.stats import comparison
from anabranch.stats.many import differences, half_widths, screened
from conftest import SWEEP, Command, one_error, written

BULK = """\
name = "bulk"
seed = 5

[run]
duration = "6 s"

[links.wan]
ends = ["here", "there"]
rate = "2 Mbit/s"
delay = "20 ms"
queue = { kind = "drop_tail", packets = 20 }
loss = { kind = "bernoulli", probability = "1 %" }

[paths.p]
via = ["wan"]

[flows.load]
from = "here"
to = "there"
paths = ["p"]

[flows.load.transport]
kind = "tcp"

[flows.load.app]
kind = "bulk"
"""

SMALL = {"call.mos": 4.0, "link.wan.forward.lost_packets": 3.0, "run.events": 100.0}


def emulated(path: Path, **changes: Any) -> Path:
    """A file of scalars alone; their names have `__` for a dot here."""
    scalars = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
    return written(path, json.dumps(scalars))


def simulated(path: Path, seed: int, replication: int = 0, **scalars: float) -> Path:
    """A file as `run --json` writes it."""
    content = {
        "kind": "simulation",
        "scenario": "small",
        "seed": seed,
        "cell": 0,
        "key": {},
        "replication": replication,
        "summary": SMALL | {name.replace("__", "."): value for name, value in scalars.items()},
    }
    path.parent.mkdir(exist_ok=True)
    return written(path, json.dumps(content))


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Small studies of one scenario: `plain`, `other` with another seed, `slow` with more delay."""
    folder = tmp_path_factory.mktemp("studies")
    sets: dict[str, dict[str, str | float | bool]] = {
        "plain": {},
        "other": {"seed": 4},
        "slow": {"links.first.delay": "24 ms", "links.second.delay": "34 ms"},
        "fewer": {"sweep.axes.pmr.values": "[0, 2]"},
    }

    def study(name: str) -> Path:
        if not (folder / name).exists():
            Study(SWEEP, folder / name, set=sets[name], jobs=2).run(progress=False)
        return folder / name

    return study


# Statistics


def test_many_differences_are_those_of_one_scalar_at_a_time() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(1, 1, (4, 9)), rng.normal(0, 3, (4, 7))
    a[1, 2] = b[2, 0] = a[3, 8] = math.nan
    apart, pairs = differences(a, b, 0), differences(a, b, 6)
    assert not apart.paired.any()
    assert pairs.paired.all()
    for i in range(4):
        first, second = (values[i][~np.isnan(values[i])] for values in (a, b))
        estimate, p, _ = comparison.welch(first, second, 0.9)
        width = half_widths(apart.error, apart.freedom, 0.9)[i]
        assert (apart.difference[i], width, apart.p[i]) == pytest.approx(
            (estimate.mean, estimate.half_width, p)
        )
        assert (apart.n_a[i], apart.n_b[i]) == (len(first), len(second))
        inside = a[i, :6] - b[i, :6]
        test = scipy_stats.ttest_1samp(inside[~np.isnan(inside)], 0)
        low, high = test.confidence_interval(0.9)
        width = half_widths(pairs.error, pairs.freedom, 0.9)[i]
        assert (2 * width, pairs.p[i]) == pytest.approx((high - low, test.pvalue))


def test_values_that_do_not_vary_are_certain_and_those_that_are_alone_are_not() -> None:
    nan = math.nan
    a = np.array([[1.0, 1.0], [0.1, 0.1], [2.0, nan], [nan, nan], [1.0, 2.0]])
    b = np.array([[1.0, 1.0], [0.3, 0.3], [1.0, nan], [1.0, 1.0], [1.0, 2.0]])
    for pairs in (0, 2):
        found = differences(a, b, pairs)
        assert found.error[:2].tolist() == [0, 0]
        assert found.p[:2].tolist() == [1, 0]
        assert np.isnan(found.error[2:4]).all()
        assert found.difference[2] == 1
        assert found.n_a.tolist() == [2, 2, 1, 0, 2]
        # Equal in each replication; as independent samples they only have equal means.
        assert found.equal.tolist() == [True, False, False, False, pairs == 2]


def test_intervals_leave_out_0_for_just_what_is_resolved() -> None:
    rng = np.random.default_rng(4)
    shift = np.concatenate((np.zeros(150), np.full(50, 1.5)))
    for _ in range(20):
        a, b = rng.normal(shift[:, None], 1, (200, 10)), rng.normal(0, 1, (200, 10))
        found = differences(a, b, 0)
        resolved, level = screened(found.p, 0.95)
        width = half_widths(found.error, found.freedom, level)
        assert (np.abs(found.difference) > width).tolist() == resolved.tolist()
        assert 0.95 < level < 1


def test_as_many_are_told_apart_by_chance_as_is_said() -> None:
    rng = np.random.default_rng(5)
    shares = []
    for _ in range(200):
        shift = np.concatenate((np.zeros(80), np.full(20, 3.0)))
        found = differences(rng.normal(shift[:, None], 1, (100, 8)), rng.normal(0, 1, (100, 8)), 0)
        resolved, _ = screened(found.p, 0.95)
        shares.append(resolved[:80].sum() / max(resolved.sum(), 1))
        assert resolved[80:].mean() > 0.5
    # 0.8 x 5 % is Benjamini and Hochberg's rate where 80 of 100 do not differ.
    assert np.mean(shares) == pytest.approx(0.04, abs=0.012)


# Studies


def test_one_study_does_not_differ_from_itself(anabranch: Command, studies: Any) -> None:
    result = anabranch("compare", studies("plain"), studies("plain"))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1].startswith("nothing differs: ")
    assert "equal in every run" in result.stdout
    assert "settings" not in result.stdout


LOSSY = """\
name = "lossy"
seed = 1

[run]
duration = "30 s"

[links.wan]
ends = ["here", "there"]
rate = "1 Mbit/s"
delay = "20 ms"
loss = { kind = "bernoulli", probability = "2 %" }

[paths.p]
via = ["wan"]

[flows.call]
from = "here"
to = "there"
paths = ["p"]

[flows.call.transport]
kind = "udp"

[flows.call.app]
kind = "voip"
codec = "g711+plc"
duration = "10 s"

[sweep]
replications = 20

[sweep.axes]
delay = { set = "links.wan.delay", values = ["10 ms", "30 ms"] }
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_a_known_shift_lies_in_its_interval(tmp_path: Path, seed: int) -> None:
    """Over UDP, 5 % of 500 frames are lost in one study and 2 % in the other."""
    for name, loss, own in (("a", "5 %", seed), ("b", "2 %", 1)):
        sets: dict[str, str | float | bool] = {"links.wan.loss.probability": loss, "seed": own}
        Study(LOSSY, tmp_path / name, set=sets, jobs=2).run(progress=False)
    outcome = compare(tmp_path / "a", tmp_path / "b", metrics=["call.loss_percent"])
    assert [cell.name for cell in outcome.cells] == ["delay = 10 ms", "delay = 30 ms"]
    assert outcome.rows["paired"].all() == (seed == 1)
    assert any("one seed" in note for note in outcome.notes) == (seed == 1)
    for row in outcome.rows.iter_rows(named=True):
        assert abs(row["difference"] - 3) < row["half_width"], row
        # Each mean's variance is p (1 - p) / 10,000 frames; here is twice the t interval of both.
        assert row["half_width"] < 1.1
        assert row["deviation"] == pytest.approx(row["difference"] / row["b"])
        assert row["verdict"] == "resolved"
    assert outcome.settings is not None
    assert outcome.settings[-1] == ("links.wan.loss.probability", "0.05", "0.02")
    assert ("seed" in [path for path, *_ in outcome.settings]) == (seed == 2)


def test_a_study_is_compared_as_one_with_an_axis_is(studies: Any) -> None:
    """The same two settings as cells of one study, compared by `Study.compare`."""
    outcome = compare(studies("slow"), studies("plain"), metrics=["call.mos"])
    delays = '{ "links.first.delay" = "DELAY", "links.second.delay" = "OTHER" }'
    cases = ", ".join(
        f"{name} = {delays.replace('DELAY', one).replace('OTHER', two)}"
        for name, one, two in (("slow", "24 ms", "34 ms"), ("plain", "20 ms", "30 ms"))
    )
    both = Study(f"{SWEEP}where_ = {{ cases = {{ {cases} }} }}\n", jobs=2)
    both.run(progress=False)
    for row in outcome.rows.iter_rows(named=True):
        cell = dict(part.split(" = ") for part in row["cell"].split(", "))
        same = {"rto_max": cell["rto_max"], "pmr": cell["pmr"]}
        theirs = both.compare({**same, "where_": "slow"}, {**same, "where_": "plain"}, "call.mos")
        assert row["difference"] == pytest.approx(theirs.difference.mean)
        assert (row["a"], row["b"]) == pytest.approx([mean.mean for mean in theirs.means])


def test_other_seeds_are_independent_samples(studies: Any) -> None:
    outcome = compare(studies("other"), studies("plain"))
    assert not outcome.rows["paired"].any()
    assert outcome.settings == [("seed", "4", "3")]
    assert any("Welch" in note for note in outcome.notes)
    # If nothing differs, almost nothing is told apart.
    tested = outcome.count("resolved", "open")
    assert tested > 100
    assert outcome.count("resolved") <= 0.05 * tested
    assert "by chance" in outcome.sentence or not outcome.count("resolved")


def test_cells_of_one_side_are_named(anabranch: Command, studies: Any) -> None:
    result = anabranch("compare", studies("plain"), studies("fewer"), "--metric", "call.mos")
    assert result.returncode == 0
    assert "only A has 3 cells: pmr = 1, rto_max = 1 s;" in result.stdout
    assert "only B has 3 cells: pmr = 2, rto_max = 1 s;" in result.stdout
    assert "nothing differs: 3 comparisons (1 scalar, 3 cells)" in result.stdout


def test_nothing_in_common_is_one_sentence(
    anabranch: Command, studies: Any, tmp_path: Path
) -> None:
    nowhere = {"sweep.axes.pmr.values": "[7, 8]"}
    Study(SWEEP, tmp_path / "far", set=nowhere, replications=1, jobs=2).run(progress=False)
    message = one_error(anabranch("compare", studies("plain"), "far"))
    assert "no cell in common" in message
    assert "pmr = 7" in message
    Study(BULK, tmp_path / "bulk", replications=1).run(progress=False)
    message = one_error(anabranch("compare", studies("plain"), "bulk"))
    assert "not of the same scenario: they have no flow in common (call | load)" in message


# Runs


def test_two_seeds_have_no_interval_and_it_is_said(anabranch: Command, call_file: Path) -> None:
    for seed in (1, 2):
        assert anabranch("run", call_file, "--seed", seed, "--json", f"{seed}.json").returncode == 0
    result = anabranch("compare", "1.json", "2.json", "--json", "c.json", "--csv", "c.csv")
    assert (result.returncode, result.stderr) == (0, "")
    assert "a difference needs two runs or more of each side to have an interval" in result.stdout
    assert "settings that differ, A | B: seed = 1 | 2" in result.stdout
    content = json.loads((call_file.parent / "c.json").read_text())
    assert content["settings"] == {"seed": {"a": "1", "b": "2"}}
    rows = content["rows"]
    assert {row["verdict"] for row in rows} == {"single", "equal"}
    assert all(row["half_width"] is None for row in rows if row["verdict"] == "single")
    first, second = (
        json.loads((call_file.parent / f"{seed}.json").read_text())["summary"] for seed in (1, 2)
    )
    for row in rows:
        assert (row["a"], row["b"]) == (first[row["scalar"]], second[row["scalar"]])
    with (call_file.parent / "c.csv").open() as file:
        assert [row["scalar"] for row in csv.DictReader(file)] == [row["scalar"] for row in rows]
    # How the call fared comes first, then the largest differences, whichever side is larger.
    leads = [row["scalar"].endswith(("mean_delay_ms", "loss_percent", ".mos")) for row in rows]
    differ = [lead for lead, row in zip(leads, rows, strict=True) if row["verdict"] == "single"]
    assert any(differ)
    assert differ == sorted(differ, reverse=True)
    others = [row for lead, row in zip(leads, rows, strict=True) if not lead and row["a"]]
    apart = [abs(row["a"] - row["b"]) / max(row["a"], row["b"]) for row in others]
    told = [value for value in apart if value > 0]
    assert told == sorted(told, reverse=True)
    listed = result.stdout
    everything = anabranch("compare", "1.json", "2.json", "--all").stdout
    assert len(everything.splitlines()) > len(rows)
    assert len(listed.splitlines()) < len(everything.splitlines())


def test_equal_runs_differ_in_nothing(anabranch: Command, call_file: Path) -> None:
    for name in ("a", "b"):
        anabranch("run", call_file, "--json", f"{name}.json")
    result = anabranch("compare", "a.json", "b.json")
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1].startswith("nothing differs: ")


def test_variants_say_what_differs(anabranch: Command, call_file: Path) -> None:
    anabranch("run", call_file, "--json", "a.json")
    anabranch("run", call_file, "--set", "links.first.rate=2 Mbit/s", "--json", "b.json")
    result = anabranch("compare", "a.json", "b.json")
    assert "settings that differ, A | B: links.first.rate = 1 Mbit/s | 2 Mbit/s" in result.stdout


def test_of_another_kind_only_the_kind_is_said(anabranch: Command, tmp_path: Path) -> None:
    file = written(tmp_path / "bulk.toml", BULK)
    for name in ("cubic", "reno"):
        sets = ["--set", f"flows.load.transport.cc.kind={name}"]
        assert anabranch("run", file, *sets, "--json", f"{name}.json").returncode == 0
    outcome = compare(tmp_path / "cubic.json", tmp_path / "reno.json")
    assert outcome.settings == [("flows.load.transport.cc.kind", "cubic", "reno")]


def test_a_cell_of_a_run_is_that_of_the_study(
    anabranch: Command, sweep_file: Path, studies: Any
) -> None:
    for cell in (2, 3):
        for r in range(2):
            target = f"{cell}-{r}.json"
            words = ["--cell", cell, "--replication", r, "--json", target]
            assert anabranch("run", sweep_file, *words).returncode == 0
    result = anabranch("compare", sweep_file.parent, studies("plain"))
    assert result.returncode == 0, result.stderr
    assert "only B has 4 cells" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("nothing differs: ")


def test_replications_are_paired_by_seed_and_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    noise = rng.normal(0, 1, 8)
    for r in range(8):
        simulated(tmp_path / "a" / f"{r}.json", 1, r, call__mos=3.5 + noise[r])
        simulated(tmp_path / "b" / f"{7 - r}.json", 1, r, call__mos=3 + noise[r] + 0.01 * r)
        simulated(tmp_path / "c" / f"{r}.json", 2, r, call__mos=3 + noise[r])
    row = compare(tmp_path / "a", tmp_path / "b", metrics=["call.mos"]).rows.row(0, named=True)
    assert (row["paired"], row["runs_a"], row["verdict"]) == (True, 8, "resolved")
    assert row["difference"] == pytest.approx(0.5 - 0.035)
    assert row["half_width"] < 0.05
    row = compare(tmp_path / "a", tmp_path / "c", metrics=["call.mos"]).rows.row(0, named=True)
    assert (row["paired"], row["verdict"]) == (False, "open")
    assert row["half_width"] > 0.5


@pytest.mark.parametrize(("runs", "doubted"), [(5, True), (6, False)])
def test_what_differs_alike_in_few_runs_is_doubted(
    tmp_path: Path, runs: int, *, doubted: bool
) -> None:
    for r in range(runs):
        simulated(tmp_path / "a" / f"{r}.json", 1, r, call__mos=3.5 + r)
        simulated(tmp_path / "b" / f"{r}.json", 1, r, call__mos=3.0 + r)
    outcome = compare(tmp_path / "a", tmp_path / "b")
    row = outcome.rows.row(0, named=True)
    assert (row["scalar"], row["half_width"], row["verdict"]) == ("call.mos", 0, "same")
    assert "1 differs by the same amount in every run" in outcome.sentence
    assert ("may be chance" in outcome.sentence) == doubted


def test_what_was_not_simulated_is_never_paired(tmp_path: Path) -> None:
    runs = [{**SMALL, "call.mos": 4 + 0.1 * r} for r in range(4)]
    several = {"kind": "testbed", "seed": 1, "scenario": "small"}
    content = several | {"runs": [{"replication": r, "summary": run} for r, run in enumerate(runs)]}
    real = written(tmp_path / "testbed.json", json.dumps(content))
    for r in range(4):
        simulated(tmp_path / "sim" / f"{r}.json", 1, r, call__mos=3 + 0.1 * r)
    outcome = compare(real, tmp_path / "sim")
    row = outcome.rows.filter(pl.col("scalar") == "call.mos").row(0, named=True)
    assert (row["paired"], row["runs_a"], row["runs_b"]) == (False, 4, 4)
    steps = 0.1 * np.arange(4)
    estimate, p, _ = comparison.welch(4 + steps, 3 + steps, 0.95)
    assert (row["difference"], row["p"]) == pytest.approx((estimate.mean, p))
    assert row["verdict"] == "resolved"


def test_rows_that_a_kernel_made_are_not_simulated(
    studies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their folder names the kernel behind the engine."""
    known = store.read_identity

    def identity(folder: Path) -> dict[str, Any]:
        kernel = " on Linux 6.12" if folder.name == "slow" else ""
        return {**known(folder), "engine_version": known(folder)["engine_version"] + kernel}

    monkeypatch.setattr(sides, "read_identity", identity)
    outcome = compare(studies("slow"), studies("plain"), metrics=["call.mos"])
    assert not outcome.rows["paired"].any()
    assert any("not simulated" in note for note in outcome.notes)
    assert any("the versions differ" in note for note in outcome.notes)


def test_scenarios_that_differ_in_what_is_not_known(tmp_path: Path) -> None:
    for name, number in (("a", "0" * 16), ("b", "1" * 16)):
        content = {"scenario": "small", "scenario_hash": number, "summary": SMALL}
        written(tmp_path / f"{name}.json", json.dumps(content))
    outcome = compare(tmp_path / "a.json", tmp_path / "b.json")
    assert outcome.settings is None
    said = f"the scenarios differ (hashes {'0' * 16} | {'1' * 16}), the files do not say in what"
    assert said in outcome.notes


def test_an_emulation_lacks_what_it_cannot_know(anabranch: Command, tmp_path: Path) -> None:
    content = {"link.wan.forward.lost_packets": 4, "emulation.lateness_p99_ms": 0.2}
    written(tmp_path / "real.json", json.dumps(content))
    simulated(tmp_path / "sim.json", 1)
    result = anabranch("compare", "real.json", "sim.json", "--all")
    assert result.returncode == 0, result.stderr
    assert "only A has 1 scalar: emulation.lateness_p99_ms" in result.stdout
    assert "only B has 2 scalars: call.mos, run.events" in result.stdout
    assert "+1 " in result.stdout
    assert "+33.3 %" in result.stdout


def test_names_are_shown_as_they_are(anabranch: Command, tmp_path: Path) -> None:
    """Text in brackets would be a style for a terminal, and `[/x]` the end of no style."""
    for name, value in (("a[red]", 1.0), ("b[blue]", 2.0)):
        content = {"scenario": f"[/{name}]", "summary": {"call.[/i]": value, "call.[bold]": value}}
        written(tmp_path / f"{name}.json", json.dumps(content))
    result = anabranch("compare", "a[red].json", "b[blue].json", "--plot", "page")
    assert result.returncode == 0, result.stderr
    for name in ("a[red].json", "b[blue].json", "call.[/i]", "call.[bold]", "[/a[red]]"):
        assert name in result.stdout


def test_what_has_a_value_on_one_side_only_is_named(tmp_path: Path) -> None:
    a = emulated(tmp_path / "a.json", call__first_pf_s=None, call__x=1.0)
    b = emulated(tmp_path / "b.json", call__first_pf_s=2.5, call__x=None, call__y=None)
    outcome = compare(a, b)
    assert outcome.only_scalars == (["call.x"], ["call.first_pf_s", "call.y"])
    assert "nothing differs" in outcome.sentence


def test_differences_from_zero_have_no_share(anabranch: Command, tmp_path: Path) -> None:
    emulated(tmp_path / "a.json", call__lost=3.0)
    emulated(tmp_path / "b.json", call__lost=0.0)
    result = anabranch("compare", "a.json", "b.json", "--json", "c.json")
    assert "call.lost" in result.stdout
    assert json.loads((tmp_path / "c.json").read_text())["rows"][0]["deviation"] is None


def test_small_deviations_of_single_runs_are_left_to_all(
    anabranch: Command, tmp_path: Path
) -> None:
    emulated(tmp_path / "a.json", call__r=82.0)
    emulated(tmp_path / "b.json", call__r=80.0)
    short = anabranch("compare", "a.json", "b.json").stdout
    assert "1 of these deviates by at most 10 %" in short
    assert "+2" not in short
    assert "+2.5 %" in anabranch("compare", "a.json", "b.json", "--bound", "2").stdout


def test_how_a_call_fared_leads_whether_or_not_it_differs(
    anabranch: Command, tmp_path: Path
) -> None:
    for name, gain, mos in (("a", 0.0, 0.0), ("b", 40.0, 0.02)):
        (tmp_path / name).mkdir()
        for r in range(6):
            scalars = {"call.mos": 4 + mos + r / 100, "link.x.drops": 10.0 + gain + r}
            simulated(tmp_path / name / f"{r}.json", 1, r, **scalars)
    result = anabranch("compare", "a", "b", "--json", "c.json").stdout
    rows = {row["scalar"]: row for row in json.loads((tmp_path / "c.json").read_text())["rows"]}
    # The same in every run, and too little for anyone to hear.
    assert rows["call.mos"]["verdict"] == "small"
    assert rows["link.x.drops"]["verdict"] == "same"
    assert "no flow fares differently; " in result
    assert "1 differs by too little to matter" in result
    lines = [line.split()[0] for line in result.splitlines() if line.strip()]
    assert lines.index("call.mos") < lines.index("link.x.drops")
    exact = anabranch("compare", "a", "b", "--matters", "0", "--json", "c.json").stdout
    rows = {row["scalar"]: row for row in json.loads((tmp_path / "c.json").read_text())["rows"]}
    assert rows["call.mos"]["verdict"] == "same"
    assert "`call.mos`, 4.025 against 4.045; " in exact
    wrong = one_error(anabranch("compare", "a", "b", "--matters", "some"))
    assert "what matters is `some`; it must be a number from 0 on" in wrong


# The settings that are not compared.


BROKEN = {
    "empty": ("", "cannot be read as JSON"),
    "cut off": ('{"summary": {', "cannot be read as JSON"),
    "deep": ("[" * 100_000, "cannot be read as JSON"),
    "no scalars": ("{}", "it has no scalars"),
    "no runs": ("[]", "has no runs"),
    "a number": ("3", "a run is an object, not 3"),
    "foreign": ('{"name": "x"}', "`name` is not a scalar with a number"),
    "text for a number": ('{"call.mos": "high"}', "`call.mos` is not a scalar with a number"),
    "truth for a number": ('{"call.mos": true}', "`call.mos` is not a scalar with a number"),
    "too large": ('{"call.mos": 1' + "0" * 400 + "}", "`call.mos` is too large a number"),
    "hardly smaller": ('{"call.mos": 1e61}', "`call.mos` is too large a number"),
    "summary of nothing": ('{"summary": []}', "it has no scalars"),
    "a wrong seed": ('{"seed": -1, "summary": {"a.b": 1}}', "its `seed` is -1"),
    "a wrong key": ('{"key": {"x": [1]}, "summary": {"a.b": 1}}', "its `key` is"),
    "wrong settings": ('{"settings": 3, "summary": {"a.b": 1}}', "its `settings` is 3"),
    "a wrong name": ('{"scenario": 3, "summary": {"a.b": 1}}', "its `scenario` is 3"),
    "several": (
        '[{"scenario": "a", "summary": {"a.b": 1}}, {"scenario": "c", "summary": {"a.b": 1}}]',
        "has runs of several scenarios: a and c",
    ),
    "twice": (
        '[{"replication": 0, "summary": {"a.b": 1}}, {"replication": 0, "summary": {"a.b": 2}}]',
        "are the same run (replication 0): it would count twice",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_run_is_one_sentence(anabranch: Command, tmp_path: Path, name: str) -> None:
    text, says = BROKEN[name]
    written(tmp_path / "bad.json", text)
    emulated(tmp_path / "good.json")
    for pair in (("bad.json", "good.json"), ("good.json", "bad.json")):
        message = one_error(anabranch("compare", *pair))
        assert "bad.json" in message
        assert says in message


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b'{"a.b": NaN}', b'{"a.b": 1e999}'])
def test_bytes_that_are_no_text_and_numbers_that_are_none(
    anabranch: Command, tmp_path: Path, text: bytes
) -> None:
    (tmp_path / "bad.json").write_bytes(text)
    emulated(tmp_path / "good.json")
    one_error(anabranch("compare", "bad.json", "good.json"))


def test_other_mistakes_are_one_sentence(anabranch: Command, studies: Any, tmp_path: Path) -> None:
    emulated(tmp_path / "a.json")
    emulated(tmp_path / "b.json")
    (tmp_path / "none").mkdir()
    for words, says in (
        (["a.json", "nowhere"], "there is no file or folder nowhere"),
        (["a.json", "/dev/zero"], "it is a device, not a file"),
        (["a.json", "none"], "none has no runs"),
        (["a.json", studies("plain").parent], "has a study folder in it"),
        (["a.json"], "name a second result beside it"),
        (["a.json", "--all"], "--all does not go with one study alone"),
        (["a.json", "b.json", "--a", "x=1"], "--a does not go with two results"),
        (
            ["a", "--a", "x=1", "--b", "x=2", "--metric", "m", "--metric", "n"],
            "--metric names 2 scalars; within one study",
        ),
        (["nowhere", "--a", "x=1", "--b", "x=2"], "nowhere"),
        (["a.json", "b.json", "--metric", "call.moss"], "did you mean `call.mos`?"),
        (["a.json", "b.json", "--level", "95"], "level is 95"),
        (["a.json", "b.json", "--bound", "-1"], "--bound is -1"),
        (["a.json", "b.json", "--json", "nowhere/x.json"], "nowhere/x.json"),
        (["a.json", "b.json", "--json", "x", "--csv", "x"], "use two files"),
    ):
        assert says in one_error(anabranch("compare", *words)), words


def test_a_damaged_trace_is_named(anabranch: Command, tmp_path: Path) -> None:
    for name in ("a", "b"):
        simulated(tmp_path / name / "run.json", 1)
        written(tmp_path / name / "paths.parquet", "no Parquet")
    assert "paths.parquet cannot be read as a Parquet file" in one_error(
        anabranch("compare", "a", "b", "--plot", "page")
    )
    for name in ("a", "b"):
        pl.DataFrame({"time_s": [1.0]}).write_parquet(tmp_path / name / "paths.parquet")
    assert "is not the trace `paths`: it has no column `flow`" in one_error(
        anabranch("compare", "a", "b", "--plot", "page")
    )
    for bad in ({"time_s": ["now"]}, {"path": [None]}, {"flow": [3]}):
        numbers: dict[str, list[Any]] = {column: [1.0] for column in sides.TRACES["paths"]}
        row = numbers | {"flow": ["call"], "side": ["a"]} | bad
        for name in ("a", "b"):
            pl.DataFrame(row).write_parquet(tmp_path / name / "paths.parquet")
        message = one_error(anabranch("compare", "a", "b", "--plot", "page"))
        assert f"its column `{next(iter(bad))}` is not as a run has it" in message
    assert not (tmp_path / "page" / "index.html").exists()


@pytest.mark.parametrize(
    "settings",
    [{"flows": 3}, {"flows": {"load": [1]}}, {"flows": {"load": {"paths": 1, "to": []}}}],
)
def test_settings_of_strangers_do_no_harm(traced: Path, settings: dict[str, Any]) -> None:
    file = traced / "a" / "run.json"
    written(file, json.dumps(json.loads(file.read_text()) | {"settings": settings}))
    outcome = compare(traced / "a", traced / "b")
    assert outcome.settings
    titles = [axes.get_title(loc="left") for axes in overlays(outcome).figures["cwnd"].axes]
    assert len(titles) == 1
    assert titles[0].startswith("load at ")
    assert titles[0].endswith(", path 0")


# Traces and the page


@pytest.fixture
def traced(anabranch: Command, tmp_path: Path) -> Path:
    """Two traced runs of a bulk transfer, at 2 and 1.5 Mbit/s."""
    file = written(tmp_path / "bulk.toml", BULK)
    for name, rate in (("a", "2 Mbit/s"), ("b", "1.5 Mbit/s")):
        words = ["--set", f"links.wan.rate={rate}", "--trace", name, "--json", f"{name}/run.json"]
        assert anabranch("run", file, *words).returncode == 0
    return tmp_path


def test_traces_are_those_of_the_runs(traced: Path) -> None:
    laid = overlays(compare(traced / "a", traced / "b"))
    assert list(laid.figures) == ["goodput", "srtt", "cwnd", "queue"]
    assert laid.note == "the traces are those of replication 0"
    panels = [axes for axes in laid.figures["goodput"].axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == ["load at here"]
    for name, line in zip("ab", panels[0].lines, strict=True):
        trace = pl.read_parquet(traced / name / "intervals.parquet")
        assert np.asarray(line.get_ydata())[:-1] == pytest.approx(
            (trace["goodput_kbit_per_s"] / 1000).to_list()
        )
        assert line.get_drawstyle() == "steps-post"
    assert panels[0].lines[0].get_color() != panels[0].lines[1].get_color()
    queues = [axes.get_title(loc="left") for axes in laid.figures["queue"].axes]
    assert queues[0] == "wan forward"
    assert laid.figures["cwnd"].axes[0].get_title(loc="left") == "load at here, p"


def test_a_study_that_keeps_traces_has_them(tmp_path: Path) -> None:
    sweep = '\n[sweep]\nreplications = 2\ntraces = ["intervals"]\n'
    for name, rate in (("a", "2 Mbit/s"), ("b", "1.5 Mbit/s")):
        study = Study(BULK + sweep, tmp_path / name, set={"links.wan.rate": rate}, jobs=1)
        study.run(progress=False)
    laid = overlays(compare(tmp_path / "a", tmp_path / "b"))
    assert list(laid.figures) == ["goodput"]
    trace = Study(tmp_path / "b").traces("intervals").collect().filter(pl.col("replication") == 0)
    drawn = np.asarray(laid.figures["goodput"].axes[0].lines[1].get_ydata())
    assert drawn[:-1] == pytest.approx((trace["goodput_kbit_per_s"] / 1000).to_list())


def test_a_run_without_traces_is_compared_without(anabranch: Command, traced: Path) -> None:
    (traced / "alone.json").write_bytes((traced / "b" / "run.json").read_bytes())
    result = anabranch("compare", "a", "alone.json", "--plot", "page")
    assert result.returncode == 0, result.stderr
    page = (traced / "page" / "index.html").read_text()
    assert "no traces are laid over each other: B has none" in page
    assert "load.goodput" in page
    assert "<svg" not in page


def test_traces_of_several_runs_in_one_folder_are_nobodys(traced: Path) -> None:
    second = json.loads((traced / "b" / "run.json").read_text()) | {"replication": 1}
    written(traced / "b" / "second.json", json.dumps(second))
    assert side(traced / "a").traced(0)
    assert side(traced / "b").traced(0) == []


def test_the_page_has_everything_and_is_not_cut(
    anabranch: Command, traced: Path, browser: Any
) -> None:
    result = anabranch("compare", "a", "b", "--plot", "page")
    assert result.returncode == 0, result.stderr
    names = ["index.html"] + [
        f"{name}.{suffix}"
        for name in ("cwnd", "srtt", "goodput", "queue")
        for suffix in ("png", "svg", "pdf")
    ]
    assert sorted(path.name for path in (traced / "page").iterdir()) == sorted(names)
    for name in names:
        assert f"wrote {Path('page') / name}" in result.stdout
    for width in (360, 1200):
        view = {"width": width, "height": 900}
        page = browser.new_context(viewport=view).new_page()
        page.goto((traced / "page" / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        text = page.locator("body").inner_text()
        assert "links.wan.rate = 2 Mbit/s | 1.5 Mbit/s" in text
        assert page.locator("table.numbers tbody tr").count() > 5
        assert page.locator("svg.plot:visible").count() == 4


def test_python_says_what_the_command_says(anabranch: Command, tmp_path: Path) -> None:
    emulated(tmp_path / "a.json", call__mos=4.5)
    emulated(tmp_path / "b.json")
    outcome = compare(tmp_path / "a.json", tmp_path / "b.json")
    assert outcome.sentence in anabranch("compare", "a.json", "b.json").stdout
    with pytest.raises(AnabranchError, match="level is 2"):
        compare(tmp_path / "a.json", tmp_path / "b.json", level=2)
