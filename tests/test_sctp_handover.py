"""The study `sctp-handover`: scenarios, claims, tournament, figures, page."""

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import polars as pl
import pytest
from rich.console import Console

import sctp_handover_world as world
from anabranch.figures.pages import drawing
from anabranch.papers.intervals import Interval
from anabranch.papers.sctp_handover import PAPER, figures, outcome, published, studies
from anabranch.papers.sctp_handover.claims import CLAIMS, PROFILE, Material
from anabranch.papers.sctp_handover.factors import (
    AVAILABLE_MBPS,
    EXPERIMENTS,
    SENDERS,
    better_path,
)
from anabranch.papers.sctp_handover.outcome import SctpHandoverOutcome
from anabranch.papers.sctp_handover.published import of_experiment
from anabranch.papers.sctp_handover.samples import tidy, to_worse
from anabranch.papers.sctp_handover.studies import EFFORTS, policies
from anabranch.papers.sctp_handover.traced import checkpoints, handovers, rates, timeouts, trace
from anabranch.papers.verdicts import Claim
from anabranch.studies import result
from papers_checks import QUICK, check_page, schema

EXPERIMENT_ARENAS = [studies.experiment(number) for number in EXPERIMENTS]


def test_the_published_tables_are_whole() -> None:
    assert [len(of_experiment(number)) for number in EXPERIMENTS] == [3, 4]
    for number in EXPERIMENTS:
        found = of_experiment(number)
        assert [phase.number for phase in found] == list(range(1, len(found) + 1))
        assert all(one.to_s == two.from_s for one, two in pairwise(found))
        assert len(AVAILABLE_MBPS[number]) == len(found)
    assert published.phases()[1].of("proposed") == 5.7


def test_every_study_is_a_scenario_that_the_engine_takes() -> None:
    works = list(studies.all_studies(EFFORTS["quick"]))
    assert len({work.name for work in works}) == len(works)
    names = [policy.name for policy in policies()]
    assert len(set(names)) == len(names)
    assert set(SENDERS) <= set(names)
    for arena in studies.arenas():
        work = arena.tournament(EFFORTS["quick"])
        assert [work.scenario.cell_key(cell)["policy"] for cell in range(len(names))] == names
    for number, arena in zip(EXPERIMENTS, EXPERIMENT_ARENAS, strict=True):
        text = arena.only("plain").to_toml()
        phases = of_experiment(number)
        assert f'duration = "{phases[-1].to_s:g} s"' in text
        for phase in phases[1:]:
            assert f'"{phase.from_s:g} s"' in text


def test_the_tables_have_twenty_seeds_at_least() -> None:
    assert all(
        effort.of("tables") >= 20
        for mode, effort in EFFORTS.items()
        if mode not in ("smoke", "first")
    )


def short(number: int, sender: str, *sets: tuple[str, str]) -> dict[str, float]:
    """A run of 20 s in the first phase."""
    arena = EXPERIMENT_ARENAS[number - 1]
    quick = (("run.duration", "20 s"), ("run.phases", "[]"), *sets)
    scenario = replace(arena, sets=(*arena.sets, *quick)).only(sender)
    return result.run(scenario).summary


def test_plain_sctp_gets_what_the_constant_bit_rate_leaves() -> None:
    found = short(1, "plain")
    # 15 Mbit/s less 7 Mbit/s of payload in packets of 1498 B, of which 1452 B of 1500 B are data.
    limit = (15 - 7 * 1498 / 1470) * 1452 / 1500
    assert 0.9 * limit < found["transfer.goodput_kbit_per_s"] / 1e3 <= 1.01 * limit
    assert found["transfer.sctp.a.primary_changes"] == 0


def test_a_cross_tcp_is_held_by_its_access_link() -> None:
    found = short(2, "plain", ("flows.transfer.app.start", "19 s"))
    assert 7.0 < found["cross1a.goodput_kbit_per_s"] / 1e3 < 8.3
    assert 7.0 < found["cross2a.goodput_kbit_per_s"] / 1e3 < 8.3


def test_the_proposal_hands_over_when_path_1_gets_more_load() -> None:
    later = ("links.path1.cross_traffic.0.stop", "20 s")
    load = ("links.path1.cross_traffic.1.start", "20 s")
    run = (("run.duration", "40 s"), ("run.phases", "[]"), later, load)
    arena = replace(EXPERIMENT_ARENAS[0], sets=(*EXPERIMENT_ARENAS[0].sets, *run))
    traces = result.run(arena.only("proposed"), trace=True).traces
    moves = handovers(traces["events"].filter(flow="transfer", side="a"))
    assert moves
    assert moves[0].to == 1
    assert 20 < moves[0].time_s < 40
    assert moves[0].new_mbps > moves[0].old_mbps


def test_phases_add_up_to_the_whole() -> None:
    arena = EXPERIMENT_ARENAS[0]
    run = (("run.duration", "9 s"), ("run.phases", '["3 s", "6 s"]'))
    work = replace(arena, sets=(*arena.sets, *run)).tournament(EFFORTS["quick"])
    rows = pl.DataFrame([result.run(work.scenario, cell=0).summary])
    found = tidy(rows.with_columns(policy=pl.lit("plain"), replication=0), arena).row(0, named=True)
    whole = found["goodput_mbps"]
    assert whole == pytest.approx(sum(found[f"mbps_{phase}"] for phase in (1, 2, 3)) / 3, rel=0.1)
    assert found["to_worse"] == 0


def test_a_switch_is_to_the_worse_path_by_the_timetable() -> None:
    assert [better_path(1, phase) for phase in (1, 2, 3)] == [0, 1, 0]
    assert [better_path(2, phase) for phase in (1, 2, 3, 4)] == [0, 1, 0, 1]
    assert to_worse(1, [0, 1, 1]) == 0
    assert to_worse(1, [1, 0, 1]) == 1
    assert to_worse(1, [2, 1, 1]) == 1
    assert to_worse(2, [0, 3, 0, 0]) == 1
    assert max(max(found) for found in AVAILABLE_MBPS[1]) < 15.0  # the rate of path 1


def test_checkpoints_are_first_transmissions_on_the_other_path() -> None:
    data = pl.DataFrame(
        {
            "sent_s": [0.0, 1.0, 5.0, 5.001, 5.5, 8.0, 20.0],
            "tsn": [1, 2, 3, 4, 2, 5, 6],
            "path": [0, 0, 1, 1, 1, 1, 0],
            "fate": ["delivered", "lost", "delivered", "queue_full", *["delivered"] * 3],
        }
    )
    moves = [world.handover(6.0, 1, 5.0, 3.0)]
    found = checkpoints(data, moves)
    # TSN 2 is sent again after a timeout; TSN 5 is sent on the path that is primary by then.
    assert [(one.time_s, one.packets, one.lost) for one in found] == [(5.0, 2, 1), (20.0, 1, 0)]


def test_handovers_say_what_they_are_based_on() -> None:
    events = pl.DataFrame(
        {
            "time_s": [1.0, 2.0, 3.0],
            "event": ["connected", "primary_changed", "primary_changed"],
            "detail": [
                "",
                "from path 0 to path 1: measured throughput: 5.9 Mbit/s > 3.6 Mbit/s",
                "from path 1 to path 0: the path failed",
            ],
        }
    )
    first, second = handovers(events)
    assert (first.time_s, first.to, first.new_mbps, first.old_mbps) == (2.0, 1, 5.9, 3.6)
    assert (second.to, second.reason) == (0, "the path failed")
    assert second.new_mbps != second.new_mbps


def test_timeouts_and_rates() -> None:
    paths = pl.DataFrame(
        {"time_s": [0.0, 1.0, 2.0, 3.0], "path": [0, 0, 1, 0], "error_count": [0, 1, 0, 0]}
    )
    assert timeouts(paths) == [1.0]
    data = pl.DataFrame(
        {
            "delivered_s": [0.1, 0.2, 2.5, None],
            "path": [0, 0, 1, 0],
            "size_bytes": [1048, 1048, 1048, 1048],
            "fate": ["delivered"] * 3 + ["lost"],
        }
    )
    found = rates(data)
    assert found.filter(path=0)["mbps"].to_list() == [0.016, 0.0]
    assert found.filter(path=1)["mbps"].to_list() == [0.0, 0.0]


@pytest.fixture(scope="module")
def holding() -> Material:
    return world.material(EXPERIMENT_ARENAS)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"claim {claim.id}")
def test_a_claim_is_reproduced_where_it_holds(claim: Claim[Material], holding: Material) -> None:
    finding = claim.judge(holding, PROFILE)
    assert finding.verdict == "reproduced", finding.evidence


@pytest.mark.parametrize("number", ["3", "4", "5", "6", "7", "8", "9"])
def test_a_claim_is_not_reproduced_without_handovers(number: str, holding: Material) -> None:
    claim = next(claim for claim in CLAIMS if claim.id == number)
    finding = claim.judge(world.without_handovers(holding), PROFILE)
    assert finding.verdict != "reproduced", finding.evidence


def test_plain_sctp_that_moves_contradicts_the_first_claims(holding: Material) -> None:
    runs = holding.runs[1]
    moving = replace(runs, frame=runs.frame.with_columns(switches=pl.lit(1.0)))
    found = replace(holding, runs=holding.runs | {1: moving}, death=world.death([5.0] * 12))
    verdicts = [claim.judge(found, PROFILE).verdict for claim in CLAIMS[:2]]
    assert verdicts == ["not_reproduced", "not_reproduced"]


def test_one_replication_decides_nothing(holding: Material) -> None:
    single = replace(
        holding,
        runs={number: runs.where(replication=0) for number, runs in holding.runs.items()},
        traced={number: runs[:1] for number, runs in holding.traced.items()},
        death=world.death([63.0]),
    )
    for claim in CLAIMS:
        finding = claim.judge(single, PROFILE)
        assert finding.verdict == "open"
        assert "cannot be decided" in finding.evidence


@pytest.fixture(scope="module")
def found(holding: Material) -> SctpHandoverOutcome:
    """An outcome as published."""
    arenas = studies.arenas()
    tournament = {arena.name: world.tournament(arena) for arena in arenas}
    return SctpHandoverOutcome(
        mode="validate",
        version="0.0.0",
        total_runs=1234,
        cells=outcome.cells(outcome.experiments(tournament)),
        claims=[claim.judge(holding, PROFILE) for claim in CLAIMS],
        arenas=arenas,
        tournament=tournament,
        ablations={
            (number, sender): world.ablations(arena, sender)
            for number, arena in zip(EXPERIMENTS, EXPERIMENT_ARENAS, strict=True)
            for sender in SENDERS
        },
        traced={number: runs[:3] for number, runs in holding.traced.items()},
        timelines={
            (number, sender): world.traced(number) for number in EXPERIMENTS for sender in SENDERS
        },
        failover_s=Interval(63.0, 0.1, 20),
    )


def test_json_has_the_shape_that_every_paper_has(found: SctpHandoverOutcome) -> None:
    content = json.loads(json.dumps(found.as_json("sctp-handover"), allow_nan=False))
    jsonschema.validate(content, schema("sctp-handover", "experiment", [PROFILE]))
    assert [claim["id"] for claim in content["claims"]] == [str(n) for n in range(1, 10)]
    assert len(content["cells"]) == 14
    assert {cell["verdict"] for cell in content["cells"]} == {"reproduced"}


def test_figures_and_page_are_whole(found: SctpHandoverOutcome, tmp_path: Path) -> None:
    drawn = drawing.draw(figures.of(found), tmp_path / "figures", QUICK)
    assert len(drawn) == 4 + 4
    (tmp_path / "index.html").write_text(PAPER.page(found, drawn), encoding="utf-8")
    check_page(tmp_path, len(drawn), QUICK)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<h3>Experiment 2: TCP beside it" in text
    assert "<h3>A call whose Wi-Fi fades" in text


@pytest.mark.parametrize("width", [80, 140])
def test_tables_fit_the_terminal(found: SctpHandoverOutcome, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    PAPER.show(found, console)
    text = console.export_text()
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert "…" not in text
    assert "Tournament" in text


def test_the_record_has_every_claim_and_every_policy(found: SctpHandoverOutcome) -> None:
    text = PAPER.record(found)
    assert len(re.findall(r"^- \*\*\d\*\*", text, flags=re.MULTILINE)) == len(CLAIMS)
    for policy in policies():
        assert text.count(f"| {policy.title} |") >= len(found.arenas)
    assert "nan" not in text.split()


def test_gain_is_of_pairs(holding: Material) -> None:
    runs = holding.studies["experiment1"]
    gain = runs.where(policy="proposed").minus(runs.where(policy="plain"), "mbps_2")
    assert gain.mean == pytest.approx(2.0, rel=0.02)
    assert gain.half_width < 0.05


def test_a_traced_run_has_throughput_over_both_paths() -> None:
    run = trace(1, "plain")
    assert run.handovers == []
    first, second = (sum(run.rates.filter(path=path)["mbps"].to_list()) for path in (0, 1))
    assert first / 300 == pytest.approx(5.0, rel=0.1)
    # Only data that is sent again after a timeout.
    assert second < 0.01 * first
