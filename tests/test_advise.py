"""`anabranch advise`: its findings and its sentences."""

import io
import json
import math
import sys
import tomllib
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from anabranch import _engine, advise, cli, stats
from anabranch.advise import numbers, search, tables, timeouts
from anabranch.advise.goals import GOALS
from anabranch.advise.paths import read
from anabranch.advise.settings import TRANSPORTS, Candidate, possible, settings_of
from anabranch.cli.app import json_text
from anabranch.errors import AnabranchError
from anabranch.studies.execution import Progress
from anabranch.support.progress import Status
from support.advising import SMALL, written

STUDY = Path(__file__).parents[1] / "python/anabranch/papers/voip_sctp/scenario.toml"


TEN_PERCENT: dict[str, str | float | bool] = {
    f"links.{path}-last.loss.{key}": value
    for path in ("p0", "p1")
    for key, value in (("mean_loss", "10 %"), ("loss_in_bad", "0.85"), ("mean_bad", "133.3 ms"))
}


def test_on_the_paths_of_voip_sctp_it_agrees_with_that_study() -> None:
    """RFC 9260 without RFC 7829, as there: a small RTO.Max, one retransmission, far better."""
    found = advise.advise(STUDY, "mos", profile="rfc9260", set=TEN_PERCENT)
    assert found.recommended["rto_max"] in ("0.1 s", "0.05 s")
    assert found.recommended["path_max_retrans"] == "1"
    gain, half_width = found.gain
    assert gain - half_width > 1.5
    rfc = next(row for row in found.ranked if row.candidate == Candidate("rfc9260"))
    assert rfc.mean < 1.7
    assert not rfc.among_best
    # The RFC's value is also said to be far worse for each setting by itself.
    effects = {effect.setting.name: effect for effect in found.effects}
    mean, half_width = effects["rto_max"].changes["default"]
    assert mean + half_width < -1
    assert effects["path_max_retrans"].verdict == "matters"
    assert "net.sctp.path_max_retrans = 1" in found.paste.sysctl


def test_for_linux_it_recommends_nothing_that_linux_lacks() -> None:
    found = advise.advise("lossy-two-paths", "mos")
    assert found.recommended["rto_max"] == "0.1 s"
    assert found.recommended["policy"] == "default"
    assert found.recommended["association_max_retrans"] == "1000"
    assert {effect.setting.name for effect in found.effects} >= {"policy", "rto_min"}
    assert any(line.startswith("net.sctp.rto_max = ") for line in found.paste.sysctl)
    # With potentially-failed paths, data leaves at the first timeout; without, it is as there.
    retrans = next(e for e in found.effects if e.setting.name == "path_max_retrans")
    assert retrans.unmasked is not None
    name, value, mean, _ = retrans.unmasked
    assert (name, value) == ("pf_max_retrans", "1")
    assert mean > 0.05
    assert "(were pf_max_retrans off, 1 instead of default: +" in tables.sentence(retrans, "MOS")


def test_on_clean_paths_nothing_matters() -> None:
    found = advise.advise("clean-two-paths", "mos", effort=SMALL)
    assert found.keep_defaults
    assert found.recommended == Candidate("linux")
    assert {effect.verdict for effect in found.effects} == {"none"}
    assert found.paste.text() == ""
    said = tables.conclusion(found)
    assert said.startswith("Nothing matters here: none of the settings makes a")
    assert "significant" not in said
    each = [tables.sentence(effect, "MOS") for effect in found.effects]
    assert all(text.startswith("makes no difference that matters") for text in each)


def test_failover_is_faster_with_a_small_rto_min() -> None:
    found = advise.advise("clean-two-paths", "failover", effort=search.Effort(24, 2, 8))
    assert found.recommended["rto_min"] in ("0.02 s", "0.05 s")
    means = {row.candidate.name: row.mean for row in found.ranked}
    # One RTO of 1 s for Linux, which moves at the first; up to the last of six for the RFC.
    assert 1000 < means["Linux defaults"] < 1200
    assert means["RFC 9260 defaults"] > 30_000
    assert found.ranked[0].mean < 100


def test_settings_with_which_runs_fail_are_not_recommended(tmp_path: Path) -> None:
    """RTO.Max below the round-trip time: ten timeouts in a row, and the association ends."""
    paths = written(
        tmp_path,
        '[links.near]\nrate = "20 Mbit/s"\ndelay = "10 ms"\n'
        '[links.far]\nrate = "20 Mbit/s"\ndelay = "150 ms"\n',
    )
    found = advise.advise(paths, "failover", effort=search.Effort(24, 2, 6))
    # Without an end of the association, everything would be sent twice.
    rto_max = next(e for e in found.effects if e.setting.name == "rto_max")
    assert rto_max.recommended not in ("0.05 s", "0.1 s", "0.2 s")
    assert math.isnan(rto_max.changes["0.1 s"][0])
    assert "0.1 s: some runs fail" in tables.sentence(rto_max, "ms")
    assert "NaN" not in json_text(found.as_json())


def trials_of(values: dict[Candidate, list[float]], goal: str) -> search.Trials:
    """Without runs: these values are known."""
    settings = {s.name: s for s in settings_of("sctp", goal, read(["wifi-and-lte"]), "linux")}
    return search.Trials(
        scenario="",
        flows=[],
        goal=advise.GOALS[goal],
        metric="",
        within={},
        settings=settings,
        searched=list(settings),
        folder=Path(),
        sets={},
        jobs=1,
        rounds=advise._silent,
        values=values,
    )


def test_what_makes_runs_fail_is_not_among_the_best_and_beats_nothing() -> None:
    fails = Candidate.of("linux", {"rto_max": "1 s"})
    default, rfc = Candidate("linux"), Candidate("rfc9260")
    values = {
        default: [300.0, 310.0, 320.0, 330.0],
        rfc: [3000.0, 3100.0, 3000.0, 3100.0],
        fails: [30.0, 31.0, 30.0, math.nan],
    }
    trials = trials_of(values, "failover")
    rows = advise._ranked(trials, list(values), default, [default, rfc])
    among = {row.candidate: row.among_best for row in rows}
    assert among == {default: True, rfc: False, fails: False}


def test_the_changes_of_all_settings_hold_together() -> None:
    recommended = Candidate("linux")
    around = [Candidate.of("linux", {"rto_min": v}) for v in ("0.2 s", "0.1 s", "0.05 s")]
    noise = [0.0, 3.0, 1.0, 7.0, 2.0]
    values = {one: [300 + i * x for x in noise] for i, one in enumerate([recommended, *around])}
    trials = trials_of(values, "failover")
    (effect,) = advise._effects(trials, recommended, around, 20.0)
    level = 1 - 0.05 / 3
    assert effect.changes["0.1 s"] == pytest.approx(
        stats.mean_interval([2 * x for x in noise], level)[:2]
    )


def test_what_each_goal_measures() -> None:
    better = {name for name, goal in advise.GOALS.items() if goal.higher_is_better}
    assert better == {"mos", "video", "goodput"}
    assert advise.GOALS.keys() - better == {"failover", "latency"}
    assert {name for name, goal in advise.GOALS.items() if goal.relative} == {"goodput", "latency"}
    assert advise.GOALS["failover"].within("sctp")["messages.unsent"] == (0, 0)


def test_a_share_that_matters_is_one_of_the_linux_defaults_mean() -> None:
    found = advise.advise("wifi-and-lte", "goodput", transport="tcp", effort=search.Effort(2, 2, 3))
    linux_mean = next(r.mean for r in found.ranked if r.candidate == Candidate("linux_6"))
    assert found.relevant == pytest.approx(0.03 * linux_mean)


def test_both_directions_of_a_link_are_changed(tmp_path: Path) -> None:
    links = "".join(
        f'[links.{name}]\nrate = "2 Mbit/s"\ndelay = "5 ms"\nreverse = {{ queue = '
        f'{{ kind = "drop_tail", packets = 9 }}, up = {{ timetable = [["0 s", true]] }} }}\n'
        for name in ("one", "two")
    )
    paths = read([written(tmp_path, links)])
    queue = next(s for s in settings_of("tcp", "latency", paths, "linux_6") if s.name == "queue")
    assert queue.values["codel"]["links.two.reverse.queue"] == {"kind": "codel"}
    dead = tomllib.loads(advise.GOALS["failover"].scenario(paths, "sctp"))["links"]
    assert "up" in dead["two"]["reverse"]
    assert "up" not in dead["one"]["reverse"], "it dies in both directions"


def test_the_screening_has_every_value_about_equally_often() -> None:
    trials = trials_of({}, "goodput")
    drawn = search._screen(trials, "linux", 64)
    assert len(drawn) == len(set(drawn)) == 64
    # For a setting that goes with every other, values in Latin hypercubes are nearly equally
    # frequent.
    counts = Counter(candidate["buffers"] for candidate in drawn)
    assert len(counts) == 3
    assert max(counts.values()) - min(counts.values()) <= 10


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (["none", "none"], "Nothing matters here"),
        (["none", "undecided"], "better by 0.1 MOS or more, nor is it ruled out for all of it."),
        (["none", "matters"], "better by 0.1 MOS or more, and some of it is worse."),
        (["not in Linux", "none"], "Keep the defaults: nothing that Linux has makes any"),
    ],
)
def test_the_defaults_are_kept_for_a_reason_that_is_true(verdicts: list[str], said: str) -> None:
    found = advise.advise("clean-two-paths", "mos", effort=search.Effort(4, 2, 3))
    effects = []
    for effect, verdict in zip(found.effects, verdicts, strict=False):
        if verdict == "not in Linux":
            found.searched.remove(effect.setting)
        effects.append(replace(effect, verdict=verdict.replace("not in Linux", "matters")))
    text = tables.conclusion(replace(found, keep_defaults=True, effects=effects, relevant=0.1))
    assert said in text


def test_tcp_has_goodput_and_says_where_it_comes_from(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        '[links.far]\nrate = "8 Mbit/s"\ndelay = "60 ms"\n'
        'loss = { kind = "bernoulli", probability = "1 %" }\n',
    )
    found = advise.advise(paths, "goodput", effort=search.Effort(8, 2, 6))
    assert found.transport == "tcp"  # with one path
    assert found.recommended["cc"] == "bbr"  # which losses do not slow down
    assert "net.ipv4.tcp_congestion_control = bbr" in found.paste.sysctl
    assert any(line.startswith("modprobe tcp_bbr ") for line in found.paste.commands)


def test_the_advice_does_not_depend_on_the_number_of_threads() -> None:
    effort = search.Effort(8, 2, 4)
    one, two = (
        advise.advise("lossy-two-paths", "mos", effort=effort, jobs=jobs).as_json()
        for jobs in (1, 2)
    )
    assert one == two


def test_what_is_in_the_folder_is_not_computed_again(tmp_path: Path) -> None:
    computed: list[int] = []

    def rounds(_: str) -> AbstractContextManager[Progress]:
        before: list[int] = []

        def hear(status: Status) -> None:
            computed[-1] += status.done - (before[-1] if before else status.done)
            before.append(status.done)

        return nullcontext(hear)

    effort = search.Effort(8, 2, 4)
    found = []
    for _ in range(2):
        computed.append(0)
        found.append(
            advise.advise(
                "clean-two-paths", "mos", effort=effort, out=tmp_path / "out", rounds=rounds
            )
        )
    assert computed[0] > 0
    assert computed[1] == 0
    assert found[0].as_json() == found[1].as_json()


def test_optuna_finds_a_small_rto_max() -> None:
    pytest.importorskip("optuna")
    effort = search.Effort(40, 3, 12)
    found = advise.advise("lossy-two-paths", "mos", effort=effort, method="optuna")
    assert found.recommended["rto_max"] in ("0.1 s", "0.2 s")
    means = {row.candidate.name: row.mean for row in found.ranked}
    assert means[found.recommended.name] - means["RFC 9260 defaults"] > 1.5


def test_without_optuna_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(AnabranchError, match=r"pip install 'anabranch\[optuna\]'"):
        advise.advise("clean-two-paths", "mos", effort=SMALL, method="optuna")


def test_settings_that_exclude_each_other_are_not_tried() -> None:
    assert not possible(Candidate.of("linux", {"rto_max": "0.1 s"}))  # RTO.Min is 1 s
    assert not possible(Candidate.of("linux", {"rto_max": "0.1 s", "rto_min": "0.2 s"}))
    assert possible(Candidate.of("linux", {"rto_max": "0.1 s", "rto_min": "0.1 s"}))


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advise, "QUICK", search.Effort(8, 2, 4))
    file = tmp_path / "advice.json"
    assert (
        cli.main(["advise", "--paths", "lossy-two-paths", "--goal", "mos", "--json", str(file)])
        == 0
    )
    said = capsys.readouterr().out
    assert "Recommended: " in said
    assert "net.sctp.rto_max = " in said
    content = json.loads(file.read_text())
    assert content["recommended"]["rto_max"] in said
    assert [row["name"] for row in content["ranked"]].count("RFC 9260 defaults") == 1
    assert cli.main(["advise", "--paths", "nowhere", "--goal", "mos"]) == 2
    for sources in ((), (".",)):
        words = ["--paths", *sources] if sources else []
        assert cli.main(["advise", *words, "--goal", "mos"]) == 2
    said = capsys.readouterr().err
    assert "there are no paths: name path files" in said
    assert ". is a folder, not a path file" in said
    assert "there is no file nowhere" in said


def test_nested_tables_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(f"a = {'[' * 100_000}", encoding="utf-8")
    with pytest.raises(AnabranchError, match=r"deep\.toml cannot be read: .* nested too deeply"):
        read([path])


def test_a_difference_below_what_matters_is_called_that() -> None:
    """The sentence is not "no significant difference": +0.042 ± 0.023 is one, but it does not
    matter.
    """
    found = advise.advise("clean-two-paths", "mos", effort=search.Effort(4, 2, 3))
    effect = replace(found.effects[0], changes={"0.1 s": (0.042, 0.023)}, verdict="none")
    text = tables.conclusion(replace(found, keep_defaults=True, effects=[effect], relevant=0.1))
    assert text == (
        "Nothing matters here: none of the settings makes a difference of 0.1 MOS; the most is"
        f" +0.042 ± 0.023 MOS ({effect.setting.name} 0.1 s). Keep the defaults."
    )


def test_numbers_have_the_digits_that_are_known() -> None:
    assert numbers.change(2.01234, 0.1567) == "+2.01 ± 0.16"
    assert numbers.change(-1.9, 3.2) == "-1.9 ± 3.2"
    assert numbers.change(-12345.6, 321.0) == "-12,346 ± 321"
    assert numbers.change(0.00002, 0.000035) == "less than 0.001"
    assert tables._at_most(3.5e-05, "MOS") == ": less than 0.001 MOS"
    assert tables._at_most(0.0543, "MOS") == ": at most ± 0.054 MOS"
    assert "e-" not in numbers.known(0.00001234, 0.0)


def test_no_interval_has_no_width() -> None:
    """Values equal in every run have no width; a tiny width is shown as the least one."""
    assert numbers.change(-0.00488, 0.0, "MOS") == "-0.005 MOS in every run"
    assert numbers.change(0.0, 0.0, "MOS") == "no difference in any run"
    assert numbers.change(-0.00488, 0.00004, "MOS") == "-0.005 ± 0.001 MOS"
    assert numbers.size(0.0) == "–"
    found = advise.advise("clean-two-paths", "mos", effort=search.Effort(4, 2, 3))
    out = io.StringIO()
    console = Console(file=out, width=200)
    for part in (*tables.report(found), *tables.evidence(found)):
        console.print(part)
    assert "in every run (primary_path cable)" in out.getvalue()
    assert "± 0 " not in out.getvalue()
    assert "0.000" not in out.getvalue()
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    (reference,) = (line for line in lines if line.endswith("reference"))
    assert "Linux defaults" in reference


def test_what_a_small_rto_min_costs_is_counted() -> None:
    """The counts come from the advice's own runs, with the default's beside them; none if it is
    kept.
    """
    found = advise.advise("lossy-two-paths", "mos", effort=search.Effort(16, 2, 8))
    assert found.recommended["rto_min"] != "default"
    own, other = found.rto_costs
    assert own.failovers is not None
    assert other.failovers is not None
    assert own.timeouts[0] > 2 * other.timeouts[0] > 0
    assert own.failovers[0] > other.failovers[0] > 0
    assert own.packets_in_vain[0] > 0
    (said,) = [cost for cost in found.paste.costs if cost.startswith("In a run here RTO.Min 0.")]
    assert own.text() in said
    assert f"; RTO.Min default (1 s) and RTO.Max default (60 s) {other.text()}." in said
    assert found.as_json()["rto_costs"][0]["timeouts"] == own.timeouts
    kept = advise.advise("clean-two-paths", "mos", effort=search.Effort(4, 2, 3))
    assert kept.rto_costs == []


def test_packets_in_vain_are_those_that_had_arrived() -> None:
    names = timeouts.counted("sctp", ["call"])
    run = dict.fromkeys(names, 0.0) | {
        "call.sctp.a.data_chunks_sent": 100.0,
        "call.sctp.b.data_chunks_received": 93.0,
        "call.sctp.a.data_chunks_abandoned": 10.0,  # 7 did not arrive
        "call.sctp.b.duplicates_received": 4.0,
        "call.sctp.a.timeouts": 5.0,
        "call.sctp.a.potential_failures": 3.0,
        "call.sctp.a.path_failures": 2.0,
        "call.sctp.b.potential_failures": 9.0,  # it sends no data
    }
    frame = pl.DataFrame([run, run])
    found = timeouts.count("sctp", "RTO.Min 1 s", frame, ["call"], several=True)
    assert found.text() == "5 timeouts, 3 failovers and 7 packets taken for lost that had arrived"
    once = timeouts.Count("RTO.Min 1 s", (1.0, 0.0), (0.0, 0.0), (1.0, 0.5))
    assert once.text() == (
        "1 timeout, 0 failovers and 1.00 ± 0.50 packets taken for lost that had arrived"
    )
    alone = timeouts.count("sctp", "RTO.Min 1 s", frame, ["call"], several=False)
    assert alone.failovers is None
    segments = pl.DataFrame([dict.fromkeys(timeouts.counted("tcp", ["load"]), 2.0)] * 2)
    found = timeouts.count("tcp", "RTO.Min 1 s", segments, ["load"], several=False)
    assert found.text() == "4 timeouts and 4 packets taken for lost that had arrived"


def test_the_recommendation_comes_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advise, "QUICK", search.Effort(4, 2, 3))
    assert cli.main(["advise", "--paths", "clean-two-paths", "--goal", "mos"]) == 0
    said = capsys.readouterr().out
    assert said.index("Keep the defaults") < said.index("= may be the best")


@pytest.mark.parametrize("transport", sorted(TRANSPORTS))
def test_the_settings_that_advice_tries_are_declared_where_they_are(transport: str) -> None:
    variants = json.loads(_engine.schema())["$defs"]["TransportConfig"]["oneOf"]
    of_kinds = (variant["properties"] for variant in variants if "properties" in variant)
    settings = next(its for its in of_kinds if its["kind"]["const"] == transport)
    declared = {name for name, its in settings.items() if "advise" in its.get("x-known-by", ())}
    paths = read(["wifi-and-lte"], {})
    tried: set[str] = set()
    for profile in TRANSPORTS[transport].values():
        tried |= Candidate(profile).base.keys()
        for goal in GOALS.values():
            if transport in goal.transports:
                for setting in settings_of(transport, goal.name, paths, profile):
                    tried.update(path for value in setting.values.values() for path in value)
    keys = (path.split(".") for path in tried if path.startswith("transport."))
    assert {key[1] for key in keys} == declared
