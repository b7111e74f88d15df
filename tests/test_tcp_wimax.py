"""The study `tcp-wimax`: scenarios, claims, figures, page."""

import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import polars as pl
import pytest
from rich.console import Console

import tcp_wimax_world as world
from anabranch.figures.pages import drawing
from anabranch.papers.intervals import Interval
from anabranch.papers.studies import Effort, Work, compute, described, simulated
from anabranch.papers.tcp_wimax import (
    PAPER,
    claims,
    figures,
    link,
    outcome,
    story,
    studies,
    traced,
)
from anabranch.papers.tcp_wimax.claims import CLAIMS, Material
from anabranch.papers.tcp_wimax.factors import (
    BUFFERS,
    CONTROL_NAMES,
    CONTROLS,
    PROFILES,
    READINGS,
    SEGMENTS,
    SHEET,
    Runs,
)
from anabranch.papers.tcp_wimax.outcome import Speed, TcpWimaxOutcome
from anabranch.papers.tcp_wimax.studies import EFFORTS, FLOWS, STATIONS, pair_shares, station_rows
from anabranch.papers.verdicts import Claim
from papers_checks import QUICK, check_page, schema

EFFORT = EFFORTS["quick"]


def grids(effort: Effort) -> Iterator[Work]:
    """The grid under each reading."""
    return described(studies.__package__)["grid/{name}"].works(effort)


def test_the_grid_is_the_papers_1080_cells() -> None:
    for work in grids(EFFORTS["full"]):
        keys = [work.scenario.cell_key(cell) for cell in range(work.scenario.cell_count)]
        assert len(keys) == 1080
        assert {key["profile"] for key in keys} == set(PROFILES)
        assert {key["control"] for key in keys} == set(CONTROLS)
        assert {key["segment"] for key in keys} == set(SEGMENTS)
        assert {key["buffer"] for key in keys} == set(BUFFERS)
        assert work.total >= 10 * 1080


def test_every_study_is_a_scenario_that_the_engine_takes() -> None:
    works = list(studies.all_studies(EFFORT))
    assert len({work.name for work in works}) == len(works)
    # About three minutes on two cores, at 40 ms of processor per transfer.
    assert 4_000 <= sum(work.total for work in works) <= 9_000
    text = works[0].scenario.to_toml()
    assert 'profile = "linux_2_6_20"' in text
    assert 'duration = "30 s"' in text


def test_a_reading_changes_what_its_name_says() -> None:
    write, nodelay, mss = (work.scenario for work in grids(EFFORT))
    assert 'mss = "88 B"' in mss.cell_toml(0)
    assert 'nagle = "off"' in nodelay.cell_toml(0)
    assert "nagle" not in write.cell_toml(0)
    assert "mss" not in write.cell_toml(0)


@pytest.fixture(scope="module")
def transfers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    """Goodput of CUBIC at 2 KB and 512 KB of buffer over the good link, by reading."""
    out = tmp_path_factory.mktemp("out")
    found = {}
    for work in grids(EFFORT):
        few = replace(
            work,
            replications=lambda key: int(
                key["profile"] == "nlos30"
                and key["control"] == "cubic"
                and key["segment"] in {256, 4096}
                and key["buffer"] in {2048, 524_288}
            ),
        )
        found[work.name.removeprefix("grid/")] = SHEET.tidy(
            compute(few, out, simulated(2), lambda _: None)
        )
    return found


def goodput(rows: pl.DataFrame, segment: int, buffer: int) -> float:
    return float(rows.filter(segment=segment, buffer=buffer)["goodput_mbps"].item())


def test_the_write_size_alone_changes_nothing(transfers: dict[str, pl.DataFrame]) -> None:
    rows = transfers["write"]
    assert rows.height == 4
    for buffer in (2048, 524_288):
        assert goodput(rows, 256, buffer) == goodput(rows, 4096, buffer)


def test_small_segments_are_slower_and_small_buffers_slowest(
    transfers: dict[str, pl.DataFrame],
) -> None:
    rows = transfers["mss"]
    assert goodput(rows, 256, 524_288) < 0.9 * goodput(rows, 4096, 524_288)
    assert goodput(rows, 4096, 2048) < 0.1 * goodput(rows, 4096, 524_288)
    # 30 Mbit/s for IP packets of 1500 B with 1448 B in each.
    assert 0.9 < goodput(rows, 4096, 524_288) / (30 * 1448 / 1500) <= 1


def test_bursts_of_loss() -> None:
    sent = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    found = link.bursts_of_loss(sent, [False, True, True, False, True, False])
    assert [packets for packets, _ in found] == [2, 1]
    assert [seconds for _, seconds in found] == pytest.approx([0.2, 0.1])
    assert link.bursts_of_loss(sent, [True] * 6) == [(6, 0.5)]
    assert link.bursts_of_loss(sent, [False] * 6) == []


def test_coherence_time_of_a_sine_is_a_sixth_of_its_period() -> None:
    times = np.arange(0, 400, 0.01)
    snr = 10 * np.log10(10 + np.sin(2 * np.pi * times / 3.0))
    run = pl.DataFrame({"time_s": times, "effective_snr_db": snr})
    assert link.coherence_time_s([run]) == pytest.approx(0.5, abs=0.02)
    steady = run.with_columns(effective_snr_db=pl.lit(10.0))
    assert math.isnan(link.coherence_time_s([steady]))


def test_a_traced_probe_has_signal_and_losses() -> None:
    good, bad = (link.trace(profile, 0) for profile in ("nlos30", "nlos10"))
    assert good.lost_s == []
    assert len(bad.lost_s) == sum(packets for packets, _ in bad.bursts) > 100
    assert bad.snr["time_s"].is_sorted()


def test_silence_is_time_between_arrivals() -> None:
    packets = pl.DataFrame(
        {
            "side": ["a", "a", "a", "b", "a"],
            "fate": ["delivered", "delivered", "lost", "delivered", "delivered"],
            "sent_s": [0.0, 1.0, 2.0, 3.0, 4.0],
            "delivered_s": [0.1, 1.1, None, 3.1, 4.1],
        }
    )
    assert traced.silent_percent(packets) == pytest.approx(100.0)
    often = packets.with_columns(delivered_s=pl.Series([0.1, 0.25, None, 3.1, 0.4]))
    assert traced.silent_percent(often) == 0.0


def test_windows_are_thinned_but_keep_their_last_value() -> None:
    paths = pl.DataFrame(
        {
            "time_s": [0.0, 0.01, 0.02, 0.06],
            "side": ["a"] * 4,
            "cwnd_bytes": [10, 20, 30, 40],
            "outstanding_bytes": [1, 5, 2, 3],
        }
    )
    found = traced.thinned(paths, "bic")
    assert found["cwnd_bytes"].to_list() == [30, 40]
    assert found["outstanding_bytes"].to_list() == [5, 3]


@pytest.fixture(scope="module")
def holding() -> Material:
    return world.material()


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"claim {claim.id}")
def test_a_claim_is_reproduced_where_it_holds(claim: Claim[Material], holding: Material) -> None:
    finding = claim.judge(holding, READINGS[0])
    assert finding.verdict == "reproduced", finding.evidence


def nothing_matters(profile: str, _control: str, _segment: int, buffer: int) -> float:
    return 0.97 * world.LIMIT[profile] * min(1.0, buffer / 131_072)


def reversed_signal(profile: str, control: str, segment: int, buffer: int) -> float:
    other = profile[:-2] + ("10" if profile.endswith("30") else "30")
    return world.as_published(other, control, segment, buffer)


@pytest.mark.parametrize(
    ("number", "made"),
    [
        ("1", lambda: world.material(nothing_matters)),
        ("2", lambda: world.material(nothing_matters)),
        ("2", lambda: world.material(loss_percent=3.0)),
        ("3", lambda: world.material(nothing_matters)),
        ("4", lambda: world.material(nothing_matters)),
        ("5", lambda: world.material(reversed_signal)),
    ],
)
def test_a_claim_is_not_reproduced_where_it_does_not_hold(number: str, made: object) -> None:
    assert callable(made)
    claim = next(claim for claim in CLAIMS if claim.id == number)
    finding = claim.judge(made(), READINGS[0])
    assert finding.verdict != "reproduced", finding.evidence
    assert "(contradicted)" in finding.evidence or "(not decided)" in finding.evidence


def test_one_replication_decides_nothing() -> None:
    found = world.material()
    single = replace(found, runs=found.runs.where(replication=0))
    for claim in CLAIMS:
        finding = claim.judge(single, READINGS[0])
        assert finding.verdict == "open"
        assert "cannot be decided" in finding.evidence


@pytest.mark.parametrize(
    ("bound", "measured", "verdict"),
    [
        ("above", 17.0, "reproduced"),
        ("above", 9.5, "reproduced"),
        ("above", 8.5, "partly"),
        ("above", 5.0, "not_reproduced"),
        ("equal", 17.0, "not_reproduced"),
        ("up to", 11.0, "reproduced"),
    ],
)
def test_more_than_a_bound_is_no_deviation(bound: str, measured: float, verdict: str) -> None:
    assert outcome.verdict_of(bound, 10.0, measured, 0.1) == verdict


def test_the_recommendation_is_the_calmest_of_the_best() -> None:
    def nearly(_profile: str, control: str, _segment: int, buffer: int) -> float:
        return {"vegas": 10.02, "bic": 10.0, "reno": 8.0}.get(control, 5.0) * (
            1.0 if buffer >= 131_072 else 0.5
        )

    found = outcome.recommend(world.runs(nearly, noise=0.001), "nlos10")
    assert found is not None
    # Vegas has the highest mean, BIC is tied with it and calmer; the smaller buffer does as well.
    assert (found.control, found.candidates) == ("bic", ["vegas", "bic"])
    assert found.is_resolved
    assert "as good: Vegas, BIC." in story.recommendation(found)
    none = outcome.recommend(world.runs().where(replication=0), "nlos10")
    assert none is None
    assert outcome.recommend(world.runs().claimed("nlos10"), "nlos10") is None


def test_noise_makes_no_recommendation() -> None:
    def slightly(_profile: str, control: str, _segment: int, _buffer: int) -> float:
        return {"bic": 10.0, "cubic": 9.5}.get(control, 2.0)

    runs = world.runs(slightly, noise=1.0)
    found = outcome.recommend(
        replace(runs, frame=runs.frame.filter(pl.col("replication") < 3)), "nlos10"
    )
    assert found is not None
    assert not found.is_resolved
    assert {"bic", "cubic"} <= set(found.candidates)
    sentence = story.recommendation(found)
    assert "they cannot be told apart after 3 replications (about " in sentence
    assert ": any of " in sentence


def test_cells_with_more_replications_are_compared_on_the_common_ones() -> None:
    runs = world.runs()
    extra = runs.claimed("nlos10").frame.with_columns(
        replication=pl.col("replication") + 100, goodput_mbps=pl.lit(1e3)
    )
    more = Runs(pl.concat([runs.frame, extra]), "write")
    assert outcome.recommend(more, "nlos10") == outcome.recommend(runs, "nlos10")


def test_a_pair_in_both_orders_is_one_pair() -> None:
    rows = pl.DataFrame(
        {
            "profile": ["nlos10"] * 3,
            "first": ["bic", "reno", "reno"],
            "second": ["reno", "bic", "reno"],
            "replication": [0, 0, 0],
            "first.goodput_kbit_per_s": [3.0, 2.0, 1.0],
            "second.goodput_kbit_per_s": [1.0, 2.0, 3.0],
        }
    )
    found = pair_shares(rows)
    share = {(row["first"], row["second"]): row["percent"] for row in found.iter_rows(named=True)}
    assert share == {("bic", "reno"): 62.5, ("reno", "bic"): 37.5, ("reno", "reno"): 50.0}


def test_stations_share_one_base_station_fairly() -> None:
    text = studies.stations_text(4)
    assert text.count('"base_station" = "base"') == 4
    rows = pl.DataFrame(
        {"profile": ["nlos30"], "control": ["bic"], "replication": [0]}
        | {f"s{number}.goodput_kbit_per_s": [1e3 * number] for number in range(1, 5)}
    )
    found = station_rows(rows, 4).row(0, named=True)
    assert found["goodput_mbps"] == 10.0
    assert found["jain"] == pytest.approx(100 / (4 * 30))


@pytest.fixture(scope="module")
def found() -> TcpWimaxOutcome:
    """An outcome of runs as published."""
    grid = {reading: world.runs(reading=reading) for reading in READINGS}
    links = world.links()
    probes = pl.DataFrame(
        [
            {
                "profile": profile,
                "load": load,
                "replication": replication,
                "goodput_mbps": min(world.LIMIT[profile], load / 1e6),
            }
            for profile in PROFILES
            for load in (1e6, 40e6)
            for replication in range(world.REPLICATIONS)
        ]
    )
    each = [
        {
            "profile": profile,
            "control": control,
            "replication": replication,
            "goodput_mbps": 5.0 + index / 10 + replication / 50,
            "jain": 0.9 - index / 100,
        }
        for profile in PROFILES
        for index, control in enumerate(CONTROLS)
        for replication in range(3)
    ]
    of_one = [
        {
            "profile": "nlos10",
            "control": control,
            "replication": replication,
            "goodput_mbps": 2.0 + (control == "bic") + replication / 99,
        }
        for control in CONTROLS
        for replication in range(3)
    ]
    shares = [
        {
            "profile": profile,
            "first": first,
            "second": second,
            "replication": replication,
            "percent": 50.0 + 5 * (CONTROLS.index(first) - CONTROLS.index(second)),
        }
        for profile in PROFILES
        for first in CONTROLS
        for second in CONTROLS
        for replication in range(2)
    ]
    windows = pl.concat(
        pl.DataFrame(
            {
                "control": [control] * 4,
                "time_s": [0.0, 1.0, 2.0, 30.0],
                "cwnd_bytes": [3000, 600_000, 300_000, 500_000],
                "outstanding_bytes": [3000, 524_288, 300_000, 500_000],
            }
        )
        for control in CONTROLS
    )
    return TcpWimaxOutcome(
        mode="validate",
        version="0.0.0",
        grid=grid,
        links=links,
        distance=world.distances(),
        coherence=pl.DataFrame([row | {"doppler_hz": hz} for row in of_one for hz in (0.1, 0.4)]),
        flows=pl.DataFrame([row | {"flows": count} for row in each for count in FLOWS]),
        shares=pl.DataFrame(shares),
        stations=pl.DataFrame([row | {"stations": count} for row in each for count in STATIONS]),
        claimed=outcome.variant("as chosen", pl.DataFrame(of_one)),
        variants=[outcome.variant(name, pl.DataFrame(of_one)) for name in ("as chosen", "other")],
        windows=dict.fromkeys(PROFILES, windows),
        silences={control: Interval(20.0, 1.0, 4) for control in CONTROLS},
        cells=outcome.cells(grid, links),
        claims=outcome.judge(grid, links, probes, world.distances()),
        recommendations=outcome.recommendations(grid["write"]),
        total_runs=12_345,
        speed=Speed(1000.0, 2e6, 0.5),
    )


def test_json_has_the_shape_that_every_paper_has(found: TcpWimaxOutcome) -> None:
    content = json.loads(json.dumps(found.as_json("tcp-wimax"), allow_nan=False))
    jsonschema.validate(content, schema("tcp-wimax", "segment_reading", READINGS))
    assert [(claim["id"], claim["profile"]) for claim in content["claims"]] == [
        (str(number), reading) for reading in READINGS for number in range(1, 6)
    ]
    assert {cell["verdict"] for cell in content["cells"]} == {"reproduced"}


def test_figures_and_page_are_whole(found: TcpWimaxOutcome, tmp_path: Path) -> None:
    to_draw = figures.of(found)
    # Four profiles: windows, and a heat map for each of three readings.
    assert len(to_draw) == 4 + 4 + 12 + 6
    one_link = re.compile(r"(heatmap|cwnd)-(?!nlos10)")
    few = {name: draw for name, draw in to_draw.items() if not one_link.match(name)}
    drawn = drawing.draw(few, tmp_path / "figures", QUICK)
    (tmp_path / "index.html").write_text(PAPER.page(found, drawn), encoding="utf-8")
    check_page(tmp_path, len(drawn), QUICK)
    body = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert body.index("differ clearly: the best") < body.index("<table")


@pytest.mark.parametrize("width", [80, 140])
def test_tables_fit_the_terminal(found: TcpWimaxOutcome, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    PAPER.show(found, console)
    text = console.export_text()
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert "…" not in text
    assert "ns-3" in text
    assert "Westwood+" in text


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ((), "finished runs are kept; the same command continues"),
        (("3 of 9 runs are finished",), "3 of 9 runs are finished"),
    ],
)
def test_a_stopped_reproduction_says_how_to_go_on(
    said: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    def compute(*_: object) -> Any:
        raise KeyboardInterrupt(*said)

    paper = replace(PAPER, compute=compute)
    with pytest.raises(KeyboardInterrupt, match=sentence):
        paper.reproduce("quick", 1, tmp_path / "out", None, Console(quiet=True))


def test_the_record_has_every_claim_and_no_speed(found: TcpWimaxOutcome) -> None:
    text = PAPER.record(found)
    assert len(re.findall(r"^- \*\*[1-5]\*\*", text, flags=re.MULTILINE)) == 15
    # Values that depend on the machine would make every record different.
    assert "per second" not in text
    assert "nan" not in text.split()


def test_gains_are_of_means(holding: Material) -> None:
    values = holding.controls("nlos10")
    gain = claims.gain_percent(values["westwood"], values["vegas"])
    assert gain.mean == pytest.approx(300, rel=0.02)


def test_controls_with_the_same_window_share_a_panel(found: TcpWimaxOutcome) -> None:
    profile = "nlos10"
    traces = found.windows[profile]
    first = traces.filter(control=CONTROLS[0]).drop("control")
    same = pl.concat(first.with_columns(control=pl.lit(control)) for control in CONTROLS)
    (panel,) = figures.windows(same, found.links[profile], profile).axes
    assert panel.get_title(loc="left") == "equal for all nine controls"
    other = first.with_columns(control=pl.lit(CONTROLS[1]), cwnd_bytes=pl.col("cwnd_bytes") + 1)
    mixed = pl.concat([same.filter(pl.col("control") != CONTROLS[1]), other.select(same.columns)])
    shown = figures.windows(mixed, found.links[profile], profile).axes
    names = [axes.get_title(loc="left") for axes in shown if axes.get_visible()]
    assert names[1] == CONTROL_NAMES[CONTROLS[1]]
    assert len(names) == 2
    assert names[0].count(",") == 7


def test_who_takes_most_is_said_where_the_runs_tell(found: TcpWimaxOutcome) -> None:
    clear = story.sentences(found)
    bic, vegas = CONTROLS.index("bic"), CONTROLS.index("vegas")
    assert any(f"{CONTROL_NAMES[CONTROLS[-1]]} takes most, " in s for s in clear)
    assert any(f"{CONTROL_NAMES[CONTROLS[0]]} takes least, " in s for s in clear)
    # One run tells nothing, and neither do runs that contradict each other.
    noise = 40 * (2 * pl.col("replication").cast(pl.Int64) - 1)
    sign = (pl.col("first") == CONTROLS[bic]).cast(pl.Int64) - (
        pl.col("first") == CONTROLS[vegas]
    ).cast(pl.Int64)
    for shares, runs in (
        (found.shares.filter(replication=0), "1 replication"),
        (found.shares.with_columns(percent=50.0 + noise * sign), "2 replications"),
    ):
        said = " ".join(story.sentences(replace(found, shares=shares)))
        assert "any of 9 takes most, " in said
        assert f"they cannot be told apart after {runs}" in said
    assert "mean share against" in PAPER.page(found, {})
