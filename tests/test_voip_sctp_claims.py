"""Each claim on a world in which it holds and on one in which it does not."""

import math
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import voip_sctp_world as world
from anabranch.papers.intervals import Interval, interval
from anabranch.papers.verdicts import Claim, Part, above, combine, judge, verdict, within
from anabranch.papers.voip_sctp import claims
from anabranch.papers.voip_sctp.claims import CLAIMS, Material
from anabranch.papers.voip_sctp.interruptions import interruptions, shares

CLOCK = "on_arrival"
BY_ID = {claim.id: claim for claim in CLAIMS}


def ideal(
    *, rto_max_s: float, pmr: int, delay_centric: str, loss0: float, loss1: float, **_: object
) -> float:
    """Every claim of the paper, taken at its word."""
    short = rto_max_s <= 0.2
    rise = {0.5: 0.6, 1.0: 0.05}.get(rto_max_s, 1.78 + 0.02 * (rto_max_s <= 0.1) if short else 0.0)
    best = 0.1 * (rto_max_s == 0.08 and pmr == 1 and delay_centric == "on")
    at_10 = 1.45 + rise + {0: 0.0, 1: 0.08, 2: -0.1, 5: -0.15}[pmr]
    at_10 += 0.1 * (delay_centric == "on") + best
    loss = (loss0 + loss1) / 2
    if loss == 0.1:
        return at_10
    if loss == 0.02:
        return 3.6 + rise * (0.25 if pmr == 0 else 0.15)
    return 4.2


def spread(rto_max_s: float) -> float:
    """Intervals that are narrowest near 0.1 s."""
    return 0.6 if rto_max_s in {0.08, 0.1, 0.12} else 1.5


def material(mos: world.Mos = ideal, causes: pl.DataFrame | None = None) -> Material:
    runs = world.runs(mos, noise=0.03, noise_at=spread)
    return Material(runs, world.interruptions() if causes is None else causes)


@pytest.fixture(scope="module")
def holding() -> Material:
    return material()


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"claim {claim.id}")
def test_a_claim_is_reproduced_where_it_holds(claim: Claim[Material], holding: Material) -> None:
    finding = claim.judge(holding, CLOCK)
    assert finding.verdict == "reproduced", finding.evidence
    assert any(character.isdigit() for character in finding.evidence)


def no_rise(**cell: Any) -> float:
    return ideal(**cell | {"rto_max_s": 10.0})


def far_off(**cell: Any) -> float:
    return ideal(**cell) + 0.8


WORSE_PMR_FIRST = {0: 3, 1: 0, 2: 4, 5: 5}


def high_pmr_is_best(**cell: Any) -> float:
    return ideal(**cell | {"pmr": 0}) + 0.2 * WORSE_PMR_FIRST[cell["pmr"]]


def same_gain_at_2_percent(**cell: Any) -> float:
    return ideal(**cell | {"loss0": 0.1, "loss1": 0.1})


def delay_centric_harms(**cell: Any) -> float:
    return ideal(**cell) - (0.4 if cell["delay_centric"] == "on" else 0.0)


def another_cell_is_best(**cell: Any) -> float:
    there = cell["rto_max_s"] == 0.02 and cell["pmr"] == 2
    return ideal(**cell) + 0.9 * float(there)


def effect_at_low_loss(**cell: Any) -> float:
    return ideal(**cell) - (0.3 if cell["rto_max_s"] == 10.0 else 0.0)


@pytest.mark.parametrize(
    ("number", "mos"),
    [
        ("2", no_rise),
        ("3", far_off),
        ("4", high_pmr_is_best),
        ("5", same_gain_at_2_percent),
        ("6", delay_centric_harms),
        ("7", another_cell_is_best),
        ("8", effect_at_low_loss),
    ],
)
def test_a_claim_is_not_reproduced_where_it_does_not_hold(number: str, mos: world.Mos) -> None:
    finding = BY_ID[number].judge(material(mos), CLOCK)
    assert finding.verdict == "not_reproduced", finding.evidence
    assert "contradicted" in finding.evidence


def test_claim_1_needs_the_cause_that_it_names() -> None:
    swapped = world.interruptions(pmr_5="dormant", pmr_0_and_1="backed_off")
    assert BY_ID["1"].judge(material(causes=swapped), CLOCK).verdict == "not_reproduced"
    half = world.interruptions(pmr_0_and_1="backed_off")
    assert BY_ID["1"].judge(material(causes=half), CLOCK).verdict == "partly"


def test_the_published_table_itself_does_not_have_its_best_cell_where_the_paper_says() -> None:
    paper = Material(world.runs(noise=0.01), world.interruptions())
    finding = BY_ID["7"].judge(paper, CLOCK)
    assert finding.verdict == "partly"
    assert "RTO.Max 0.02 s, PMR 2, delay-centric on" in finding.evidence


def test_paired_cases_take_out_what_replications_share() -> None:
    found = claims.paired_cases(world.runs(ideal, noise=0.03).both_losses(0.1))
    assert found.height == 9 * 4 * 11
    assert found["n"].unique().to_list() == [world.REPLICATIONS]


def with_replications(count: int) -> Material:
    whole = material()
    runs = replace(whole.runs, frame=whole.runs.frame.filter(pl.col("replication") < count))
    return Material(runs, whole.interruptions.filter(pl.col("replication") < count))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"claim {claim.id}")
def test_one_replication_decides_nothing_and_the_evidence_says_so(claim: Claim[Material]) -> None:
    finding = claim.judge(with_replications(1), CLOCK)
    assert finding.verdict == "open"
    assert "contradicted" not in finding.evidence
    assert finding.evidence.count("(not decided)") == len(claim.parts(material()))
    assert finding.evidence.endswith("With so few replications (1) what is open cannot be decided.")


def test_an_open_part_says_whether_more_replications_may_decide_it() -> None:
    noisy = replace(material(), runs=world.runs(ideal, noise=9.0))
    assert BY_ID["4"].judge(noisy, CLOCK).evidence.count("replications") == 0
    few = noisy.runs.frame.filter(pl.col("replication") < 3)
    finding = BY_ID["4"].judge(replace(noisy, runs=replace(noisy.runs, frame=few)), CLOCK)
    assert "(not decided)" in finding.evidence
    assert finding.evidence.endswith("With so few replications (3) what is open cannot be decided.")


@pytest.mark.parametrize(
    ("measured", "half_width", "found"),
    [
        (1.05, 0.02, "reproduced"),
        (1.15, 0.02, "partly"),
        (1.25, 0.02, "not_reproduced"),
        (1.05, 0.15, "open"),
        (1.30, 0.15, "open"),
        (1.40, 0.15, "not_reproduced"),
        (1.40, float("nan"), "open"),
    ],
)
def test_a_number_that_no_more_runs_would_bring_near_is_not_open(
    measured: float, half_width: float, found: str
) -> None:
    assert verdict(1.0, measured, half_width, 0.1) == found


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ([True, True], "reproduced"),
        ([True, None], "partly"),
        ([None, True], "partly"),
        ([True, False], "partly"),
        ([False, True], "not_reproduced"),
        ([False, False], "not_reproduced"),
        ([None, None], "open"),
        ([None, False], "open"),
    ],
)
def test_parts_combine_to_a_verdict(holds: list[bool | None], verdict: str) -> None:
    assert combine([Part("x", part) for part in holds]) == verdict


def test_a_number_that_is_met_partly_is_decided() -> None:
    part = Part.number("x", "partly")
    assert (part.holds, part.is_open) == (None, False)
    assert combine([part, Part("y", None)]) == "partly"
    assert combine([Part.number("x", "open"), Part("y", None)]) == "open"
    finding = judge("1", "", CLOCK, [part], replications=3)
    assert finding.evidence == "X (partly)."
    assert judge("1", "", CLOCK, [part], replications=1).verdict == "open"


def test_inequalities_are_judged_on_the_whole_interval() -> None:
    assert above(Interval(1.0, 0.5, 9)) is True
    assert above(Interval(-1.0, 0.5, 9)) is False
    assert above(Interval(0.3, 0.5, 9)) is None
    assert above(Interval(0.3, math.nan, 1)) is None
    assert within(Interval(0.0, 0.1, 9), 0.2) is True
    assert within(Interval(0.25, 0.1, 9), 0.2) is None
    assert within(Interval(0.5, 0.1, 9), 0.2) is False


def test_interval_of_a_known_sample() -> None:
    found = interval([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    assert found.half_width == pytest.approx(2.054260, abs=1e-6)  # t(0.975, 3) = 3.182446
    assert found._replace(half_width=0.1).text() == "2.50 ± 0.10"


def frames_with_gap(start: float, end: float) -> pl.DataFrame:
    times = [0.02 * index for index in range(500)]
    arrived = [math.nan if start < time < end else time for time in times]
    return pl.DataFrame({"created_s": times, "arrived_s": arrived})


def path_rows(*rows: tuple[float, str, float, str, bool]) -> pl.DataFrame:
    columns = ["time_s", "path", "rto_ms", "state", "is_primary"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    frame = frame.with_columns(srtt_ms=pl.lit(40.0))
    other = frame.with_columns(side=pl.lit("b"), state=pl.lit("active"))
    return pl.concat([frame.with_columns(side=pl.lit("a")), other])


def test_an_interruption_is_dormant_while_every_path_is_inactive() -> None:
    trace = path_rows(
        (0.0, "p0", 60.0, "active", True),
        (0.0, "p1", 60.0, "active", False),
        (2.2, "p0", 120.0, "inactive", True),
        (2.5, "p1", 120.0, "inactive", False),
        (2.9, "p1", 60.0, "active", False),
    )
    found = interruptions(frames_with_gap(2.0, 3.0), trace)
    assert found.height == 1
    assert found["length_s"].item() == pytest.approx(1.0, abs=0.05)
    assert found["dormant_s"].item() == pytest.approx(0.4, abs=1e-6)
    assert found["backed_off_s"].item() == pytest.approx(0.4, abs=0.05)


def test_an_interruption_is_backed_off_while_the_primary_waits_twice_as_long() -> None:
    trace = path_rows(
        (0.0, "p0", 60.0, "active", True),
        (0.0, "p1", 60.0, "active", False),
        (2.1, "p0", 110.0, "active", True),
        (2.3, "p0", 240.0, "active", True),
        (2.4, "p1", 900.0, "active", False),
    )
    found = interruptions(frames_with_gap(2.0, 3.0), trace)
    assert shares(found)["dormant"] == 0.0
    assert found["backed_off_s"].item() == pytest.approx(0.7, abs=0.05)


def test_a_back_off_outlasts_the_interruption_that_began_it() -> None:
    trace = path_rows(
        (0.0, "p0", 60.0, "active", True),
        (0.0, "p1", 60.0, "active", False),
        (1.9, "p0", 960.0, "active", True),
    )
    assert shares(interruptions(frames_with_gap(2.0, 3.0), trace))["backed_off"] == 1.0
    measured = trace.with_columns(srtt_ms=pl.when(pl.col("time_s") > 1).then(500.0).otherwise(40.0))
    assert shares(interruptions(frames_with_gap(2.0, 3.0), measured))["backed_off"] == 0.0


def test_a_call_without_interruptions_has_no_shares() -> None:
    trace = path_rows((0.0, "p0", 60.0, "active", True), (0.0, "p1", 60.0, "active", False))
    found = shares(interruptions(frames_with_gap(2.0, 2.1), trace))
    assert found["interrupted_s"] == 0.0
    assert math.isnan(found["dormant"])
