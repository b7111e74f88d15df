"""The study `mptcp-aqm`: scenarios, claims, the account of theta, figures, page."""

import io
import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from rich.console import Console

import mptcp_aqm_world as world
from anabranch.figures.pages import drawing
from anabranch.papers.mptcp_aqm import HANDOVERS, PAPER, TRACED, figures, outcome, story, studies
from anabranch.papers.mptcp_aqm.claims import CLAIMS, SHORT, Material, ratio
from anabranch.papers.mptcp_aqm.factors import (
    COLUMNS,
    COUPLINGS,
    DELAYS,
    LIA,
    PAPERS_QUEUES,
    QUEUES,
    Runs,
)
from anabranch.papers.mptcp_aqm.outcome import MptcpAqmOutcome, Speed
from anabranch.papers.mptcp_aqm.published import numbers, round_trip_times
from anabranch.papers.mptcp_aqm.studies import EFFORTS
from anabranch.papers.traces import path_rates
from anabranch.papers.verdicts import Claim
from anabranch.studies import result
from papers_checks import QUICK, check_page, schema

PROFILES = [one.name for one in studies.profiles()]


def test_every_study_is_a_scenario_that_the_engine_takes() -> None:
    works = list(studies.all_studies(EFFORTS["quick"]))
    assert len({work.name for work in works}) == len(works)
    assert PROFILES[0] == "clean-textbook"
    grid = works[0].scenario
    assert grid.cell_count == len(QUEUES) * len(COUPLINGS) * len(DELAYS)
    assert len(PROFILES) == 6


def test_every_claim_has_a_few_words() -> None:
    assert list(SHORT) == [claim.id for claim in CLAIMS]


def test_the_paper_has_35_replications() -> None:
    assert EFFORTS["full"].of("grid") == EFFORTS["validate"].of("grid") == 35


@pytest.mark.parametrize("name", PROFILES)
def test_a_quarter_of_c_is_udp(name: str) -> None:
    settings = next(one for one in studies.profiles() if one.name == name).settings
    udp = float(settings["links.c.cross_traffic.0.rate"].split()[0])
    assert udp == pytest.approx(0.25 * studies.rate_mbps(settings))


def run(queue: str, *, delay_ms: float = 10, name: str = "clean-textbook") -> dict[str, float]:
    """A row of the grid, as `tidy` gives it."""
    settings = {
        **next(one for one in studies.profiles() if one.name == name).settings,
        **studies.case("queue", queue),
        **studies.case("delay_ms", delay_ms),
        "flows.transfer.app.bytes": "500 kB",
    }
    summary = result.run(studies.single(settings)).summary
    assert set(COLUMNS) <= set(summary)
    row = pl.DataFrame([summary]).with_columns(queue=pl.lit(queue), replication=0)
    return studies.tidy(row, settings).row(0, named=True)


def test_drop_tail_takes_what_udp_leaves_and_no_more() -> None:
    found = run("drop_tail")
    assert 0.5 < found["goodput_share"] < 0.75 * 1400 / 1440
    assert 0 < found["queue_packets"] <= 50
    assert found["max_ms"] <= 1e3 * 51 * 1502 * 8 / 0.75e6
    assert found["aqm_drops"] == 0


def test_codel_shortens_the_queue() -> None:
    full, short = run("drop_tail"), run("codel")
    assert short["queue_packets"] < full["queue_packets"] / 2
    assert short["rtt_b_ms"] < full["rtt_b_ms"] / 2
    assert short["aqm_drops"] > 0


def test_the_delay_of_a_is_in_its_round_trip_time() -> None:
    near, far = run("codel", delay_ms=1), run("codel", delay_ms=100)
    assert far["rtt_a_ms"] - near["rtt_a_ms"] == pytest.approx(198, abs=60)


def test_a_fragmented_segment_is_two_packets() -> None:
    settings = studies.profile("fitted").settings
    drop_tail = {
        **settings,
        **studies.case("queue", "drop_tail"),
        "flows.transfer.app.bytes": "100 kB",
    }
    summary = result.run(studies.single(drop_tail)).summary
    segments = math.ceil(100_000 / 1458)
    assert summary["link.c.forward.delivered_packets"] >= 2 * segments


def theta(deltas: list[int]) -> float:
    """Equation 6 over a run of growing delays, which began with the first."""
    return max(deltas) / (sum(deltas) / len(deltas))


def test_k_is_above_theta_exactly_when_the_last_delay_is_below_k_times_those_before() -> None:
    draw = random.Random(3)
    for _ in range(5000):
        k = draw.randint(1, 8)
        span = draw.choice((20, 500, 10**6))
        deltas = sorted(draw.sample(range(1, span), k + 1))
        before, last = sum(deltas[:-1]), deltas[-1]
        # In whole numbers: k (before + last) > (k + 1) last.
        assert (k * (before + last) > (k + 1) * last) == (last < k * before)
        if abs(theta(deltas) - k) > 1e-9:
            assert (k > theta(deltas)) == (last < k * before)
        assert k > 1 or not last < k * before


@pytest.mark.parametrize("k", range(2, 8))
def test_a_run_that_never_drops_grows_like_a_factorial(k: int) -> None:
    deltas = [1, 2]
    for step in range(2, k + 1):
        deltas.append(step * sum(deltas))
        assert not step > theta(deltas) + 1e-9
    assert deltas[-1] >= k * math.factorial(k)


@pytest.mark.parametrize("k", range(2, 20))
def test_a_stack_that_drains_is_dropped_from_the_second_growth_on(k: int) -> None:
    draw = random.Random(k)
    first, step = draw.randint(1, 50), draw.randint(1, 50)
    deltas = [first + index * step for index in range(k + 1)]
    assert deltas[-1] < k * sum(deltas[:-1])


@pytest.fixture(scope="module")
def holding() -> Material:
    return Material(world.grid(PROFILES[0]))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"claim {claim.id}")
def test_a_claim_is_reproduced_where_it_holds(claim: Claim[Material], holding: Material) -> None:
    finding = claim.judge(holding, PROFILES[0])
    if claim.id == "1":
        # The paper's own numbers contradict it.
        assert finding.verdict == "not_reproduced", finding.evidence
        is_drop_tail = (pl.col("queue") == "drop_tail") & (pl.col("delay_ms") == 100)
        nine = pl.col("rtt_a_ms") * 3.6, pl.col("rtt_b_ms") * 1.318
        frame = holding.runs.frame.with_columns(
            pl.when(is_drop_tail).then(value).otherwise(pl.col(name)).alias(name)
            for name, value in zip(("rtt_a_ms", "rtt_b_ms"), nine, strict=True)
        )
        finding = claim.judge(Material(Runs(frame, PROFILES[0])), PROFILES[0])
    assert finding.verdict == "reproduced", finding.evidence


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"claim {claim.id}")
def test_a_claim_is_not_reproduced_where_queues_do_nothing(
    claim: Claim[Material], holding: Material
) -> None:
    # One queue of the literal kind, one coupling and one delay represent all of them.
    rows = holding.runs.frame.filter(queue="codel_literal", coupling=LIA, delay_ms=1)
    same = pl.concat(
        rows.with_columns(
            queue=pl.lit(queue),
            coupling=pl.lit(coupling),
            delay_ms=pl.lit(delay),
            cwnd_a_packets=pl.col("cwnd_a_packets") * 1.5,
            cwnd_b_packets=pl.col("cwnd_b_packets") * 3.0,
            cwnd_packets=pl.col("cwnd_packets") * 2.0,
            rtt_a_ms=pl.col("rtt_a_ms") * (1 + 3 * (queue == "lifo_codel")) * 0.3,
            rtt_b_ms=pl.col("rtt_b_ms") * (1 + 3 * (queue == "lifo_codel")) * 0.3,
            cwnd_share_a=pl.lit(0.3),
            queue_packets=pl.lit(20.0),
            goodput_share=pl.col("goodput_share")
            * (1 + 0.5 * (queue == "fq_codel") + 0.5 * (coupling == "rtt_compensator")),
        )
        for queue in QUEUES
        for coupling in COUPLINGS
        for delay in DELAYS
    )
    finding = claim.judge(Material(Runs(same, PROFILES[0])), PROFILES[0])
    assert finding.verdict == "not_reproduced", finding.evidence


def test_a_ratio_is_that_of_the_means() -> None:
    rows = [(0, 4.0), (1, 4.0), (2, 0.1), (3, 3.9)]
    first, second = (
        Runs(pl.DataFrame(values, schema=["replication", "goodput_share"], orient="row"), "")
        for values in ([(key, 3.0) for key, _ in rows], rows)
    )
    found = ratio(first, second, "goodput_share")
    # The mean of ratios would be above 8.
    assert found.mean == pytest.approx(1.0)
    same = ratio(first, first, "goodput_share")
    assert (same.mean, same.half_width) == pytest.approx((1.0, 0.0))
    assert found.half_width > 0.5


def test_one_replication_decides_nothing(holding: Material) -> None:
    single = Material(holding.runs.where(replication=0))
    for claim in CLAIMS:
        finding = claim.judge(single, PROFILES[0])
        assert finding.verdict == "open"
        assert "cannot be decided" in finding.evidence


def test_a_verdict_over_all_profiles_names_those_in_which_a_claim_holds(holding: Material) -> None:
    titles = {"x": "X", "y": "Y"}
    good = CLAIMS[1].judge(holding, "x")
    bad = CLAIMS[0].judge(holding, "y")
    assert outcome.overall([good, good], titles) == "reproduced"
    assert outcome.overall([good, bad], titles) == "only under X"
    assert outcome.overall([bad, bad], titles) == "not reproduced"
    undecided = replace(bad, verdict="open")
    assert outcome.overall([undecided, bad], titles) == "open at best"
    assert outcome.overall([undecided, undecided], titles) == "open"


def test_the_rate_with_the_least_misfit_is_found() -> None:
    rate, misfit = outcome.best_fit(world.fit(PROFILES[0]))
    assert rate == 0.75
    assert misfit.mean < 3
    assert len(round_trip_times()) == 6


def test_the_literal_codel_takes_the_place_of_codel() -> None:
    runs = world.grid(PROFILES[0])
    literal = outcome.literal(runs)
    ours = literal.where(queue="codel", coupling=LIA).mean()
    assert ours.mean == runs.where(queue="codel_literal", coupling=LIA).mean().mean
    assert literal.where(queue="codel_literal").frame.is_empty()


def test_rates_count_what_arrived_in_each_second() -> None:
    packets = pl.DataFrame(
        {"delivered_s": [0.1, 0.2, 2.5], "path": [0, 0, 1], "size_bytes": [1000, 1000, 500]}
    )
    found = path_rates(packets, 3)
    assert found.filter(path=0)["mbps"].to_list() == [0.016, 0.0, 0.0]
    assert found.filter(path=1)["mbps"].to_list() == [0.0, 0.0, 0.004]


@pytest.fixture(scope="module")
def found() -> MptcpAqmOutcome:
    """An outcome as published."""
    grids = {name: world.grid(name) for name in PROFILES}
    base = grids[PROFILES[0]]
    titles = [one.title for one in studies.attributions()] + ["CoDel as in the prose"]
    delays: dict[str, Any] = {"delay_ms": DELAYS}
    queues = [one.name for one in studies.queues()]
    moving = [one.name for one in studies.queues() if one.name in PAPERS_QUEUES]
    return MptcpAqmOutcome(
        mode="validate",
        version="0.0.0",
        total_runs=1234,
        cells=outcome.cells(grids),
        claims=outcome.judge(grids),
        grids=grids,
        attribution=outcome.judge({title: outcome.literal(base) for title in titles}),
        fits={studies.profile(*key).name: world.fit("") for key in studies.FIT_PROFILES},
        others={
            "ablations": Runs(
                world.frame({"change": [one.name for one in studies.changes()]} | delays), ""
            ),
            "theta": Runs(
                world.frame(
                    {
                        "queue": ["codel", "fq_codel", "lifo_codel", "lifo_plain"],
                        "delay_ms": list(map(int, studies.cases("delay_ms"))),
                    }
                ),
                "",
            ),
            "beyond": Runs(
                world.frame(
                    {"transport": [one.name for one in studies.transports()], "queue": queues}
                    | delays
                ),
                "",
            ),
            "mobility": Runs(
                world.frame(
                    {
                        "transport": ["model", "rfc", "linux"],
                        "queue": moving,
                        "event": [one.name for one in studies.events()],
                    }
                ),
                "",
            ),
        },
        traced={queue: world.traced() for queue in TRACED},
        handovers={key: world.traced() for key in HANDOVERS},
        speed=Speed(5.0, 100_000.0),
    )


def test_json_has_the_shape_that_every_paper_has(found: MptcpAqmOutcome) -> None:
    content = json.loads(json.dumps(found.as_json("mptcp-aqm"), allow_nan=False))
    jsonschema.validate(content, schema("mptcp-aqm", "profile", PROFILES))
    assert len(content["claims"]) == len(CLAIMS) * len(PROFILES)
    assert len(content["cells"]) == len(numbers()) * len(PROFILES)
    assert {cell["verdict"] for cell in content["cells"]} == {"reproduced"}


def test_figures_and_page_are_whole(found: MptcpAqmOutcome, tmp_path: Path) -> None:
    drawn = drawing.draw(figures.of(found), tmp_path / "figures", QUICK)
    assert len(drawn) == 17
    (tmp_path / "index.html").write_text(PAPER.page(found, drawn), encoding="utf-8")
    check_page(tmp_path, len(drawn), QUICK)


@pytest.mark.parametrize("width", [80, 140])
def test_tables_fit_the_terminal(found: MptcpAqmOutcome, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    PAPER.show(found, console)
    text = console.export_text()
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert "…" not in text
    assert "What should the router run?" in text


def test_the_record_has_every_claim_under_every_profile(found: MptcpAqmOutcome) -> None:
    text = PAPER.record(found)
    assert len(re.findall(r"^- \*\*\d+\*\*", text, flags=re.MULTILINE)) == len(CLAIMS) * 6
    for one in studies.profiles():
        assert f"## Grid: {one.title}" in text
    assert "nan" not in text.split()


def beside(found: MptcpAqmOutcome, beyond: Runs) -> MptcpAqmOutcome:
    """The outcome with other runs of what lies beyond the paper."""
    return replace(found, others=found.others | {"beyond": beyond})


def names_of(found: MptcpAqmOutcome) -> list[str]:
    return [one.name for one in story.recommended(found).candidates]


def test_what_the_router_should_run_may_be_open(found: MptcpAqmOutcome) -> None:
    """A mean that is best by chance is no recommendation: pairs decide, and runs are counted."""
    draw = random.Random(4)
    noise = {
        (queue, replication): draw.gauss(0, 0.05)
        for queue in found.others["beyond"].frame["queue"].unique()
        for replication in range(3)
    }
    frame = found.others["beyond"].frame.filter(pl.col("replication") < 3)
    keys = zip(frame["queue"], frame["replication"], strict=True)
    noisy = frame.with_columns(
        pl.Series("goodput_share", [0.7 + noise[key] for key in keys]),
        p95_ms=pl.lit(100.0),
        udp_loss_percent=pl.lit(0.0),
    )
    few = beside(found, Runs(noisy, ""))
    assert len(names_of(few)) > 1
    said = story.headline(few)
    assert re.fullmatch(
        r"What should the router run\? .*: \d+ % of the link, 95 % of packets below 100 ms; .*"
        r" cannot be told from it after 3 replications \(.* would\)\.",
        said,
    )


def test_the_router_runs_what_harms_the_neighbour_least_among_the_best(
    found: MptcpAqmOutcome,
) -> None:
    choices = story.choices(found)
    assert choices[0].goodput_share.mean == max(one.goodput_share.mean for one in choices)
    best = story.recommended(found).candidates[0]
    assert best.goodput_share.mean >= 0.95 * choices[0].goodput_share.mean
    assert best.title in story.recommendation(found)
    runs = found.others["beyond"].frame.with_columns(
        goodput_share=pl.lit(0.7),
        p95_ms=pl.when(pl.col("queue") == "pie").then(100.0).otherwise(160.0),
        udp_loss_percent=pl.when(pl.col("queue") == "pie").then(3.0).otherwise(0.0),
    )
    assert names_of(beside(found, Runs(runs, ""))) == ["pie"]
    short = runs.with_columns(
        p95_ms=pl.when(pl.col("queue").is_in(["pie", "fq_codel"])).then(100.0).otherwise(160.0)
    )
    assert names_of(beside(found, Runs(short, ""))) == ["fq_codel"]
