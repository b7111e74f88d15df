"""Papers on real stacks, as far as that needs no kernel: a simulation stands in for it."""

import json
import math
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
from rich.console import Console

from anabranch import cli, papers
from anabranch._engine import Scenario
from anabranch.errors import AnabranchError
from anabranch.papers import mptcp_aqm, sctp_handover, tcp_wimax, voip_sctp
from anabranch.papers.intervals import Interval
from anabranch.papers.mptcp_aqm.real import window_means
from anabranch.papers.real import (
    REAL,
    SCTP_ALIKE,
    LeftOut,
    Number,
    RealStack,
    Stack,
    deviation_percent,
)
from anabranch.papers.sctp_handover.real import DEATH_S, failover_times, shortened
from anabranch.papers.studies import Effort
from anabranch.papers.tcp_wimax.factors import Runs
from anabranch.papers.tcp_wimax.real import AS_PAPER
from anabranch.studies.workers import Threads


class StandIn(Threads):
    """The simulation under another name; it counts what it computes."""

    engine = "stand-in"
    computed = 0

    def compute(self, runs: Any) -> Any:
        """See `Pool`."""
        StandIn.computed += len(runs)
        return super().compute(runs)


def stack(
    lacks: Any = lambda _scenario, _cell: None, sctp: Literal["kernel", "usrsctp"] = "kernel"
) -> Stack:
    def workers(scenario: Scenario) -> StandIn:
        return StandIn(scenario, 2, scenario.traces)

    return Stack("stand-in", "a stand-in", workers, lacks, sctp)


@pytest.fixture(scope="module")
def wimax(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RealStack]:
    out = tmp_path_factory.mktemp("wimax")
    return out, tcp_wimax.PAPER.on_stack("smoke", 2, out, stack())


def test_a_stack_that_does_as_the_simulation_deviates_by_nothing(
    wimax: tuple[Path, RealStack],
) -> None:
    _, found = wimax
    goodputs = [one for one in found.numbers if one.table.startswith("Goodput in Mbit/s, writes")]
    assert len(goodputs) == 18
    assert all(one.real.mean == one.simulated[AS_PAPER].mean for one in goodputs)
    # The last of the simulated ones has another TCP.
    assert any(one.deviation_percent.mean != 0 for one in goodputs)
    assert found.total_runs == 18
    assert found.claims == []


def test_its_runs_are_kept_beside_the_simulated_ones(wimax: tuple[Path, RealStack]) -> None:
    out, found = wimax
    studies = (path.parent for path in (out / "studies").rglob("study.json"))
    simulated = {
        f"{name}/{part}"
        for part in ("nlos10", "nlos30")
        for name in ("real-2.6.20", "real-linux-6")
    }
    real = {f"real/{part}-stand-in" for part in ("nlos10", "nlos30")}
    assert {str(path.relative_to(out / "studies")) for path in studies} == simulated | real
    before = StandIn.computed
    again = tcp_wimax.PAPER.on_stack("smoke", 2, out, stack())
    assert StandIn.computed == before
    assert again.as_json() == found.as_json()


def test_what_a_stack_lacks_is_left_out_in_a_sentence(tmp_path: Path) -> None:
    def lacks(scenario: Scenario, cell: int) -> str | None:
        return "it has no Vegas" if scenario.cell_key(cell)["control"] == "vegas" else None

    found = tcp_wimax.PAPER.on_stack("smoke", 2, tmp_path, stack(lacks))
    assert str(found.left_out[0]) == "1 cell of the weak link: it has no Vegas"
    assert found.total_runs == 16
    assert not any(one.key["control"] == "Vegas" for one in found.numbers)


def test_the_whole_grid_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims that are about TCP have a verdict from each place where the grid ran."""
    lengths = {"weak_duration": "1 s", "strong_duration": "0.5 s", "grid_duration": "0.2 s"}
    counts = dict.fromkeys(("weak", "strong", "grid", "los_grid", "probes"), 1)
    effort = Effort({**counts, **lengths})
    monkeypatch.setitem(tcp_wimax.real.EFFORTS, "smoke", effort)
    found = tcp_wimax.PAPER.on_stack("smoke", 2, tmp_path, stack())
    assert found.total_runs == 18 + 1080
    assert {finding.id for finding in found.claims} == {"1", "2", "3", "4"}
    assert {finding.profile for finding in found.claims} == set(found.profiles)
    assert {finding.verdict for finding in found.claims} == {"open"}
    grid = [one for one in found.numbers if one.table.endswith("over the whole grid")]
    assert len(grid) == 4 * (5 + 6 + 9)
    assert all(one.real.mean == one.simulated[AS_PAPER].mean for one in grid)
    assert any("Of 1080 of the grid (0.2 s each)" in said for said in found.sentences)
    assert "reproduced" not in found.claims_table().cells[0][2].text


@pytest.fixture(scope="module")
def aqm(tmp_path_factory: pytest.TempPathFactory) -> RealStack:
    return mptcp_aqm.PAPER.on_stack("smoke", 2, tmp_path_factory.mktemp("aqm"), stack())


def test_multipath_tcp_stands_in_the_cited_models_place(aqm: RealStack) -> None:
    alike = mptcp_aqm.real.ALIKE
    for one in aqm.numbers:
        if not math.isnan(one.real.mean):
            assert one.real.mean == one.simulated[alike].mean, one
            assert one.real.mean == 0 or one.deviation_percent.mean == pytest.approx(0, abs=1e-9), (
                one
            )
    assert len({one.table for one in aqm.numbers}) == 10
    profiles = {finding.profile for finding in aqm.claims}
    assert profiles == {mptcp_aqm.real.MODEL, alike, REAL}
    assert not {finding.id for finding in aqm.claims} & {"8", "13", "19"}
    assert any(one.reason == "they compare couplings" for one in aqm.left_out)


def test_windows_count_for_as_long_as_they_last() -> None:
    paths = pl.LazyFrame(
        {
            "cell": [0] * 5,
            "replication": [0] * 5,
            "side": ["a", "a", "a", "a", "b"],
            "path": [0, 0, 0, 1, 0],
            "time_s": [0.0, 1.0, 4.0, 0.0, 0.0],
            "cwnd_bytes": [1000, 5000, 9000, 7000, 1],
            "srtt_ms": [math.nan, 20.0, 40.0, 30.0, 1.0],
        }
    )
    row = window_means(paths).row(0, named=True)
    assert row["transfer.mptcp.a.subflow_0.mean_cwnd_bytes"] == 4000
    # Before the first sample there is none.
    assert row["transfer.mptcp.a.subflow_0.mean_rtt_ms"] == 20
    assert math.isnan(row["transfer.mptcp.a.subflow_1.mean_cwnd_bytes"])


def test_a_deviation_is_that_of_equal_replications() -> None:
    def runs(values: list[float]) -> Runs:
        rows = {"replication": list(range(len(values))), "goodput_mbps": values}
        return Runs(pl.DataFrame(rows), "")

    found = deviation_percent(runs([1.1, 2.2]), runs([1.0, 2.0]), "goodput_mbps")
    assert found.mean == pytest.approx(10)
    assert found.half_width == pytest.approx(0, abs=1e-9)
    assert math.isnan(deviation_percent(runs([1.1]), runs([1.0]), "goodput_mbps").half_width)


def example() -> RealStack:
    nothing = Interval(math.nan, math.nan, 0)
    number = Number(
        "Goodput",
        {"link": "weak"},
        300.0,
        {"simulated": Interval(2.0, 0.1, 3)},
        Interval(2.2, 0.2, 3),
        Interval(10.0, 1.0, 3),
        verdict="partly",
    )
    bare = Number("Other", {"link": "weak"}, math.nan, {"simulated": nothing}, nothing, nothing)
    left_out = [LeftOut("2 cells", "it has no Vegas")]
    return RealStack("Linux 9", 3, ["It did."], [number, bare], [], {}, left_out)


def test_tables_have_a_column_for_the_real_stack() -> None:
    first, second = example().tables()
    assert list(first.heads) == ["link", "paper", "simulated", "real stack", "deviation, %"]
    assert [cell.text for cell in first.cells[0]] == [
        "weak",
        "300",
        "2.00 ± 0.10",
        "2.20 ± 0.20",
        "+10.0 ± 1.0",
    ]
    assert first.cells[0][3].shade == "partly"
    assert list(second.heads) == ["link", "simulated", "real stack", "deviation, %"]
    record = example().record()
    assert record[0] == "Linux 9, 3 runs."
    assert "- Left out: 2 cells: it has no Vegas" in record
    assert "### Goodput" in record


def test_json_has_numbers_or_null() -> None:
    content = json.loads(json.dumps(example().as_json(), allow_nan=False))
    first, second = content["cells"]
    assert first["real"] == {"mean": 2.2, "half_width": 0.2, "n": 3}
    assert first["published"] == 300
    assert second["published"] is second["real"]["mean"] is None
    assert content["left_out"] == [{"what": "2 cells", "reason": "it has no Vegas"}]


def test_reproduce_shows_it_beside_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = papers.load(str(make_paper(tmp_path)))
    monkeypatch.setattr(type(paper), "on_stack", lambda *_: example())
    object.__setattr__(paper, "real", lambda *_: example())
    console = Console(record=True, width=100)
    out = tmp_path / "out"
    assert paper.reproduce("smoke", 1, out, None, console, stack=stack()) == 0
    assert "On a real stack: Linux 9" in console.export_text()
    page = (out / "index.html").read_text(encoding="utf-8")
    assert '<h2 id="real">On a real stack</h2>' in page
    assert "Left out: 2 cells: it has no Vegas" in page
    content = json.loads((out / f"{paper.name}.json").read_text(encoding="utf-8"))
    assert content["real_stack"]["stack"] == "Linux 9"


def test_a_paper_without_any_says_so(tmp_path: Path) -> None:
    paper = papers.load(str(make_paper(tmp_path)))
    with pytest.raises(AnabranchError, match="does not say what of it runs on real stacks"):
        paper.reproduce("smoke", 1, tmp_path / "out", None, Console(quiet=True), stack=stack())


def test_without_a_kernel_a_sentence_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANABRANCH_KERNEL", str(tmp_path / "none"))
    words = ["reproduce", "tcp-wimax", "--smoke", "--kernel", "virtual"]
    assert cli.main([*words, "--out", str(tmp_path / "out")]) == 2
    assert "`make kernel` in the source tree builds it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def make_paper(folder: Path) -> Path:
    """A paper that is only described."""
    from anabranch.papers.new import create  # noqa: PLC0415 - only here

    return create("a-paper", folder)


@pytest.mark.parametrize("sctp", ["kernel", "usrsctp"])
def test_plain_sctp_stands_beside_the_one_that_is_like_it(
    sctp: Literal["kernel", "usrsctp"], tmp_path: Path
) -> None:
    found = sctp_handover.PAPER.on_stack("smoke", 2, tmp_path, stack(sctp=sctp))
    alike = SCTP_ALIKE[sctp]
    assert [one.published for one in found.numbers] == [7.4, 3.7, 3.7, 7.5, 4, 4, 2.7, 63]
    # A larger MTU moves the first window by a little. Beside TCP (experiment 2) each phase begins
    # where the one before ended, and a single run of it may differ by a third: the whole
    # experiment is judged there.
    whole = [one for one in found.numbers if one.key.get("experiment") == 2]
    means = [[one.real.mean, one.simulated[alike].mean] for one in whole]
    real, simulated = (sum(each) for each in zip(*means, strict=True))
    assert real == pytest.approx(simulated, rel=0.2 if sctp == "usrsctp" else 0, abs=0)
    for one in found.numbers:
        if sctp == "kernel" or one not in whole:
            off = 0.05 if sctp == "usrsctp" else 0.0
            assert one.real.mean == pytest.approx(one.simulated[alike].mean, rel=off, abs=0), one
        assert one.real.mean > 0
    *_, failover = found.numbers
    # RTO.Max is 60 s: 1 + 2 + 4 + 8 + 16 + 32 s in FreeBSD.
    assert 60 < failover.simulated[sctp_handover.real.AS_PAPER].mean < 70
    assert [finding.profile for finding in found.claims] == list(found.profiles)
    assert {finding.id for finding in found.claims} == {"2"}
    assert ("UDP" in found.sentences[0]) == (sctp == "usrsctp")
    mtu = '"1508 B"' if sctp == "usrsctp" else None
    sets = dict(sctp_handover.real.mtus(sctp))
    assert sets.get("paths.path1.mtu") == mtu


def test_an_experiment_with_shorter_phases_keeps_its_order() -> None:
    loaded = {
        "run": {"duration": "200 s", "phases": ["50 s", "100 s", "150 s"]},
        "links": {"one": {"cross_traffic": [{"start": "50 s"}]}, "other": {}},
        "flows": {"late": {"app": {"start": {"from": "150 s", "to": "151 s"}}}},
    }
    assert shortened(json.loads(json.dumps(loaded)), 0) == loaded
    short = shortened(loaded, 20)
    assert short["run"] == {"duration": "80 s", "phases": ["20 s", "40 s", "60 s"]}
    assert short["links"]["one"]["cross_traffic"] == [{"start": "20 s"}]
    assert short["flows"]["late"]["app"]["start"] == {"from": "60 s", "to": "61 s"}


def test_a_failover_is_the_senders_first_word_on_the_dead_path() -> None:
    columns = ["replication", "time_s", "flow", "side", "event", "detail"]
    rows = [
        (0, DEATH_S + 64.0, "transfer", "a", "path_changed", "path 0 is inactive"),
        (0, DEATH_S + 90.0, "transfer", "a", "path_changed", "path 0 is inactive"),
        (0, DEATH_S + 9.0, "transfer", "b", "path_changed", "path 0 is inactive"),
        (1, DEATH_S + 50.0, "transfer", "a", "path_changed", "path 1 is inactive"),
    ]
    events = pl.DataFrame(rows, schema=columns, orient="row").lazy()
    assert failover_times(events).collect().rows() == [(0, 64.0)]


@pytest.mark.parametrize("sctp", ["kernel", "usrsctp"])
def test_calls_have_the_cells_that_a_stack_can_do(
    sctp: Literal["kernel", "usrsctp"], tmp_path: Path
) -> None:
    found = voip_sctp.PAPER.on_stack("smoke", 2, tmp_path, stack(sctp=sctp))
    alike = SCTP_ALIKE[sctp]
    limits = [1, 2, 5] if sctp == "kernel" else [0, 1, 2, 5]
    assert [(one.key["RTO.Max, s"], one.key["PMR"]) for one in found.numbers] == [
        (rto_max, pmr) for rto_max in (10.0, 0.1) for pmr in limits
    ]
    for one in found.numbers:
        assert one.real.mean == one.simulated[alike].mean
        assert one.verdict is None
        assert 1 <= one.published <= 5
    left_out = {one.what for one in found.left_out}
    assert left_out == {"delay-centric on"} | ({"PMR 0"} if sctp == "kernel" else set())
    assert found.total_runs == 2 * len(limits)
