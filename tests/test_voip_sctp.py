"""The study of voip-sctp: its facts, its plan, and its output, on synthetic runs."""

import io
import json
import math
import re
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from rich.console import Console

import voip_sctp_world as world
from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.figures.pages import drawing
from anabranch.papers.intervals import Interval
from anabranch.papers.studies import Effort, Work, compute, described, simulated
from anabranch.papers.voip_sctp import PAPER, figures, outcome, published, story, studies, traced
from anabranch.papers.voip_sctp.factors import CLOCKS, PMR, RTO_MAX_S, SHEET, Runs, Setting
from anabranch.papers.voip_sctp.outcome import FollowedAdvice, VoipSctpOutcome
from anabranch.papers.voip_sctp.studies import EFFORTS
from anabranch.papers.voip_sctp.traced import TracedCall
from papers_checks import check_page, schema

PACKAGE = files("anabranch.papers.voip_sctp")
SHARED = Path(__file__).parents[2] / "shared" / "published"

SCHEMA = schema("voip-sctp", "loss_clock", CLOCKS)


@pytest.mark.parametrize("name", ["table2", "figures"])
def test_published_numbers_are_the_papers(name: str) -> None:
    source = SHARED / f"voip-sctp-{name}.csv"
    if not source.exists():
        pytest.skip("only where the published numbers lie beside the checkout")
    assert PACKAGE.joinpath(f"published_{name}.csv").read_bytes() == source.read_bytes()


def test_table_2_has_every_cell_once() -> None:
    table = published.table2()
    assert table.height == 88
    assert table.select("rto_max_s", "delay_centric", "pmr").is_unique().all()
    assert set(table["rto_max_s"]) == set(RTO_MAX_S)
    assert set(table["pmr"]) == set(PMR)
    assert float(table["mos"].sum()) == pytest.approx(210.292, abs=1e-9)


@pytest.mark.parametrize(
    ("measured", "half_width", "verdict"),
    [
        (2.15, 0.02, "reproduced"),
        (2.16, 0.02, "partly"),
        (2.16, 0.15, "partly"),
        (2.16, 0.17, "open"),
        (2.00, 0.76, "open"),
        (1.71, 0.02, "partly"),
        (1.69, 0.02, "not_reproduced"),
        (1.69, 0.16, "open"),
        (2.10, math.nan, "open"),
        (math.nan, math.nan, "open"),
    ],
)
def test_verdict_of_a_cell(measured: float, half_width: float, verdict: str) -> None:
    assert published.compare("2", {}, 2.0, measured, half_width).verdict == verdict


def test_other_quantities_have_a_tolerance_of_ten_per_cent() -> None:
    assert published.compare("figure 3", {}, 70.0, 76.9, 1.0, unit="ms").verdict == "reproduced"
    assert published.compare("figure 3", {}, 70.0, 77.1, 1.0, unit="ms").verdict == "partly"


def scenario_text(name: str) -> dict[str, Any]:
    return tomllib.loads(PACKAGE.joinpath(name).read_text(encoding="utf-8"))


def axis_values(name: str) -> dict[str, list[Any]]:
    axes = scenario_text(name)["sweep"]["axes"]
    return {axis: found.get("values") or list(found["cases"]) for axis, found in axes.items()}


def test_the_sweep_is_the_papers_7128_cells() -> None:
    values = axis_values("scenario.toml")
    assert math.prod(map(len, values.values())) == 7_128
    assert values["rto_max"] == [f"{rto:g} s" for rto in RTO_MAX_S]
    assert values["pmr"] == list(PMR)
    assert values["wait0"] == values["wait1"] == ["5 ms", "25 ms", "75 ms"]
    assert values["loss0"] == values["loss1"] == ["0.5 %", "2 %", "10 %"]
    table2 = axis_values("sweep_table2.toml")
    assert table2 == {axis: values[axis] for axis in table2}
    assert math.prod(map(len, table2.values())) == 792


def test_losses_and_background_are_where_the_paper_has_them() -> None:
    links = scenario_text("scenario.toml")["links"]
    assert {name for name, link in links.items() if "loss" in link} == {"p0-last", "p1-last"}
    loaded = {name for name, link in links.items() if "cross_traffic" in link}
    assert loaded == {"p0-middle", "p1-middle"}
    assert all(
        link["cross_traffic"][0]["direction"] == "forward"
        for name, link in links.items()
        if name in loaded
    )
    assert {link["rate"] for link in links.values()} == {"1 Mbit/s"}


@pytest.mark.parametrize("clock", CLOCKS)
def test_every_study_is_a_scenario_that_the_engine_takes(clock: str) -> None:
    works = list(studies.all_studies(EFFORTS["full"]))
    assert len({work.name for work in works}) == len(works)
    paper = next(work for work in works if work.name == f"paper-{clock}")
    assert paper.scenario.cell_count == 7_128
    assert f'clock = "{clock}"' in paper.scenario.to_toml()
    sensitivities = [work for work in works if work.name.startswith("sensitivity/")]
    assert len(sensitivities) == len(studies.variants())
    assert {work.scenario.cell_count for work in sensitivities} == {792}


def test_full_runs_the_papers_712800_calls_and_quick_few_enough() -> None:
    assert next(studies.all_studies(EFFORTS["full"])).total == 712_800
    quick = sum(work.total for work in studies.all_studies(EFFORTS["quick"]))
    # Two minutes on two cores, at the 4 ms of CPU that a call takes (docs/performance.md).
    assert 45_000 <= quick <= 60_000


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """An engine that only counts the runs it is asked for."""
    asked: list[tuple[int, int]] = []

    def run_batch(
        _: object, jobs: list[tuple[int, int]], *__: object, **___: object
    ) -> dict[str, list[float]]:
        asked.extend(jobs)
        return {
            "cell": [float(cell) for cell, _ in jobs],
            "replication": [float(replication) for _, replication in jobs],
            "call.mos": [1.0 + cell / 100 for cell, _ in jobs],
            "call.mean_delay_ms": [60.0 for _ in jobs],
            "call.lost": [0.0 for _ in jobs],
        }

    monkeypatch.setattr(_engine, "run_batch", run_batch)
    return asked


def test_a_study_is_resumed_where_it_stopped(
    counted: list[tuple[int, int]], tmp_path: Path
) -> None:
    (work,) = described("anabranch.papers.voip_sctp")["potentially-failed"].works(EFFORTS["quick"])
    fewer = Work(work.name, work.title, work.scenario, lambda _: 2, work.columns)
    progressed: list[int] = []
    first = compute(fewer, tmp_path, simulated(1), progressed.append)
    assert sum(progressed) == fewer.total == first.height == len(counted) == 64
    more = Work(work.name, work.title, work.scenario, lambda _: 3, work.columns)
    second = compute(more, tmp_path, simulated(1), progressed.append)
    assert len(counted) == 96
    assert second.height == 96
    again = compute(fewer, tmp_path, simulated(1), progressed.append)
    assert again.equals(first)
    assert len(counted) == 96
    assert set(SHEET.tidy(first).columns) >= {"potentially_failed", "pmr", "rto_max_s", "mos"}


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(AnabranchError, match="cannot write"):
        PAPER.reproduce("quick", 1, blocked / "out", None, Console(quiet=True))
    with pytest.raises(AnabranchError, match="`fast`"):
        PAPER.reproduce("fast", 1, tmp_path, None, Console(quiet=True))


def traced_call() -> TracedCall:
    count = 600
    status = [
        "lost" if index % 50 < 3 else "late" if index % 97 == 0 else "played"
        for index in range(count)
    ]
    delay = [
        math.nan if state == "lost" else 250.0 if state == "late" else 60.0 + index % 7
        for index, state in enumerate(status)
    ]
    created = [12 + 0.02 * index for index in range(count)]
    frames = pl.DataFrame(
        {
            "created_s": created,
            "arrived_s": [time + ms / 1000 for time, ms in zip(created, delay, strict=True)],
            "delay_ms": delay,
            "status": status,
        }
    )
    return TracedCall(frames, 10.0, 17, 100, 2.61, 2.58, 68.0)


@pytest.fixture(scope="module")
def found() -> VoipSctpOutcome:
    """An outcome of runs as published under one clock, of an indifferent world under the other."""
    runs = {
        # Two replications with little noise: half-widths within the tolerance.
        "on_arrival": world.runs(everywhere=True, noise=0.005),
        "slot": world.runs(world.slot, clock="slot"),
    }
    table = {clock: outcome.table2(runs[clock]) for clock in CLOCKS}
    robust, robust_loss = outcome.robust_setting(runs)
    causes = {clock: world.interruptions() for clock in CLOCKS}
    setting_rows = [
        {
            "loss_share": loss,
            "setting": name,
            "replication": replication,
            "mos": 2.0 + index / 5 + replication / 50,
        }
        for loss in (0.005, 0.02, 0.1)
        for index, name in enumerate(SHEET.axes["setting"].names)
        for replication in range(4)
    ]
    pf_rows = [
        {
            "rto_max_s": rto,
            "potentially_failed": state,
            "pmr": pmr,
            "replication": replication,
            "mos": 2.0 - pmr / 10 * (state == "off") + replication / 50,
        }
        for rto in (10.0, 1.0)
        for state in ("off", "on")
        for pmr in PMR
        for replication in range(4)
    ]
    sensitivity = pl.DataFrame(
        {
            "group": ["interpretation", "association"],
            "name": ["as inferred", "no bundling"],
            "prototype": [0.11, None],
            "mean_absolute_error": [0.1, 0.18],
            "bias": [0.01, -0.1],
        }
    )
    return VoipSctpOutcome(
        mode="validate",
        version="0.0.0",
        runs=runs,
        tables=table,
        optima={clock: outcome.optimum(runs[clock]) for clock in CLOCKS},
        advice=outcome.advice(runs),
        pmr_effects=outcome.pmr_effects(runs),
        robust=robust,
        robust_loss=robust_loss,
        cells=outcome.cells(runs, table),
        claims=outcome.judge(runs, causes),
        settings=Runs(pl.DataFrame(setting_rows), CLOCKS[0]),
        potentially_failed=Runs(pl.DataFrame(pf_rows), CLOCKS[0]),
        sensitivity=sensitivity,
        total_runs=123_456,
        single_runs={3: traced_call(), 4: traced_call()},
    )


def test_table_2_is_reproduced_by_runs_as_published(found: VoipSctpOutcome) -> None:
    arrival, slot = found.tables["on_arrival"], found.tables["slot"]
    assert arrival.count("reproduced") == 88
    assert arrival.mean_absolute_error < 0.05
    assert slot.count("not_reproduced") > 30
    assert abs(slot.worst[0].deviation) >= abs(slot.worst[1].deviation) > 1.0
    assert found.optima["on_arrival"].best_s in {0.02, 0.05, 0.08, 0.1}
    assert found.robust.delay_centric == "on"


def test_advice_helps_hurts_or_is_not_resolved(found: VoipSctpOutcome) -> None:
    helps, hurts, open_ = Interval(0.5, 0.1, 9), Interval(-0.2, 0.1, 9), Interval(0.05, 0.1, 9)
    effects = {"a": (helps, helps), "b": (hurts, hurts), "c": (open_, open_), "d": (helps, open_)}
    advice = [
        FollowedAdvice(text, dict(zip(CLOCKS, of, strict=True))) for text, of in effects.items()
    ]
    assert [item.word for item in advice] == ["helps", "hurts", "not resolved", None]
    said = " ".join(story.sentences(replace(found, advice=advice)))
    assert (
        "Helps under both clocks: a (+0.50 and +0.50)."
        " Hurts under both clocks: b (-0.20 and -0.20)."
        " Not resolved under both clocks: c (+0.05 and +0.05). Not the same under both clocks: d"
        " (+0.50 helps and +0.05 not resolved)." in said
    )
    said = " ".join(story.sentences(replace(found, advice=advice[1:2])))
    assert "No recommendation helps under both clocks. Hurts under both clocks: b" in said


def test_why_a_harmful_value_is_in_the_best_cell_is_said(found: VoipSctpOutcome) -> None:
    gain, loss = (dict.fromkeys(CLOCKS, Interval(mean, 0.05, 9)) for mean in (0.2, -0.15))
    effects = {rto: gain if rto < 0.08 else loss for rto in RTO_MAX_S}
    best = replace(found.optima["on_arrival"], setting=Setting(0.05, 1, "on"))
    known = replace(found, pmr_effects=effects, optima=found.optima | {"on_arrival": best})
    assert (
        "PMR 1 hurts at RTO.Max 0.1 s and is in the best cell with losses on arrival all the same:"
        " what it does instead of PMR 0 depends on RTO.Max. It brings -0.15 and -0.15 MOS at 0.1 s"
        " and +0.20 and +0.20 MOS at the 0.05 s of that cell; on arrival it helps at 0.05 s,"
        " 0.02 s."
    ) in story.sentences(known)
    helpful = replace(known, pmr_effects=dict.fromkeys(RTO_MAX_S, gain))
    assert not any("all the same" in sentence for sentence in story.sentences(helpful))


def test_the_robust_setting_loses_least_under_the_worse_clock(found: VoipSctpOutcome) -> None:
    setting, loss = outcome.robust_setting(found.runs)
    assert isinstance(setting, Setting)
    for table in found.tables.values():
        best = max(cell.measured for cell in table.cells)
        here = table.find(setting.rto_max_s, setting.delay_centric, setting.pmr)
        assert best - here.measured <= loss + 1e-12


def test_json_has_the_shape_that_every_paper_has(found: VoipSctpOutcome) -> None:
    text = json.dumps(found.as_json("voip-sctp"), allow_nan=False)
    document = json.loads(text)
    jsonschema.validate(document, SCHEMA)
    table2 = [cell for cell in document["cells"] if cell["table"] == "2"]
    assert len(table2) == 2 * 88
    assert {tuple(cell["key"]) for cell in table2} == {
        ("rto_max_s", "delay_centric", "pmr", "loss_clock")
    }
    assert len(document["cells"]) == 2 * (88 + 6)
    assert [(claim["id"], claim["profile"]) for claim in document["claims"]] == [
        (str(number), clock) for clock in CLOCKS for number in range(1, 9)
    ]


def test_one_published_run_is_compared_with_the_spread_of_ours(found: VoipSctpOutcome) -> None:
    single = next(cell for cell in found.figure_cells if cell.key["quantity"] == "mos_of_one_run")
    mean = next(cell for cell in found.figure_cells if cell.key["quantity"] == "mean_mos_about")
    assert single.half_width > 3 * mean.half_width


@pytest.fixture(scope="module")
def rendered(found: VoipSctpOutcome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    drawn = drawing.draw(figures.of(found), out / "figures")
    (out / "index.html").write_text(PAPER.page(found, drawn), encoding="utf-8")
    return out


def test_figures_are_written_in_three_formats(rendered: Path) -> None:
    names = {
        "table2",
        "advice",
        "figure3",
        "figure4",
        "figure5",
        "figure5-slot",
        "figure6",
        "figure6-slot",
        "heatmaps",
        "settings",
        "potentially-failed",
        "sensitivity",
    }
    written = {path.name for path in (rendered / "figures").iterdir()}
    assert written == {f"{name}.{suffix}" for name in names for suffix in ("png", "svg", "pdf")}
    assert all(path.stat().st_size > 5_000 for path in (rendered / "figures").iterdir())


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(rendered: Path) -> None:
    check_page(rendered, 12)


def test_the_page_leads_with_the_finding(rendered: Path, found: VoipSctpOutcome) -> None:
    text = (rendered / "index.html").read_text(encoding="utf-8")
    body = text[text.index("<body>") :]
    assert body.index("loss model&#39;s clock decides") < body.index("<table")
    for finding in found.claims:
        assert finding.verdict.replace("_", " ") in body


@pytest.mark.parametrize("width", [80, 130])
def test_table_2_fits_the_terminal(found: VoipSctpOutcome, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    PAPER.show(found, console)
    text = console.export_text()
    assert "…" not in text
    for rto in RTO_MAX_S:
        assert re.search(rf"^\s*{re.escape(f'{rto:g}')} ", text, flags=re.MULTILINE)
    assert all(len(line.rstrip()) <= width for line in text.splitlines())


def test_the_drawn_run_is_the_one_closest_to_the_published(
    monkeypatch: pytest.MonkeyPatch, found: VoipSctpOutcome
) -> None:
    asked = {}

    def run(_: object, *, cell: int, replication: int, trace: bool) -> Any:
        asked[cell] = (replication, trace)
        summary = {"call.mos": 2.6, "call.mean_delay_ms": 70.0}
        return type("Result", (), {"traces": {"frames": traced_call().frames}, "summary": summary})

    monkeypatch.setattr("anabranch.papers.voip_sctp.traced.run", run)
    scenario = next(studies.all_studies(EFFORTS["quick"])).scenario
    runs = found.runs["on_arrival"]
    drawn = traced.single_runs(scenario, runs)
    assert set(drawn) == {3, 4}
    cells = runs.both_losses(0.02).at_25_ms().where(pmr=5, delay_centric="off", rto_max_s=10.0)
    distances = {key: abs(mos - 2.58) for key, mos in cells.per_replication().items()}
    assert distances[drawn[3].replication] == min(distances.values())
    assert all(trace for _, trace in asked.values())
    assert len(asked) == 2


def test_a_first_look_comes_before_the_rest(
    found: VoipSctpOutcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Effort] = []

    def computed(mode: str, effort: Effort, out: Path, jobs: int) -> VoipSctpOutcome:
        assert (mode, out, jobs) == ("quick", tmp_path, 2)
        asked.append(effort)
        return replace(found, total_runs=7 if effort is EFFORTS["first"] else 70)

    monkeypatch.setattr(drawing, "draw", lambda *_: {})
    paper = replace(PAPER, compute=computed)
    monkeypatch.setattr(type(paper), "page", lambda *_: "page")

    def shown() -> str:
        console = Console(file=io.StringIO(), width=80)
        assert paper.reproduce("quick", 2, tmp_path, None, console) == 0
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    first, last = shown().split("The other runs refine this; claims are judged with all of them.")
    assert first.lstrip().startswith("First look, after 7 calls: ")
    assert "Table 2, MOS at 10 % loss" in first
    assert "claim" not in first
    assert asked == [EFFORTS["first"], EFFORTS["quick"]]
    # What is complete is not looked at once more.
    assert shown().strip() == last.strip()
    assert asked == [EFFORTS["first"], EFFORTS["quick"], EFFORTS["quick"]]
