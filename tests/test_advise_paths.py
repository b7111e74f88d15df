"""The paths that `anabranch advise` takes, and what their measurements leave open."""

import json
from pathlib import Path

import pytest

from anabranch import ScenarioError, advise, cli
from anabranch.advise import search
from anabranch.advise.paths import read
from anabranch.errors import AnabranchError
from support.advising import SMALL, written


def test_a_path_file_may_leave_out_paths_and_ends() -> None:
    clean = read(["clean-two-paths"])
    assert clean.names == ("fibre", "cable")
    assert clean.hosts == ("here", "there")
    assert clean.bottlenecks() == ["fibre", "cable"]
    assert clean.rate() == 30e6
    lossy = read(["lossy-two-paths"])
    assert lossy.hosts == ("caller", "callee")
    assert lossy.own_link("p0") == "p0-first"


def test_several_files_are_several_paths(tmp_path: Path) -> None:
    """Files as `anabranch profile` writes them, with their traces beside them."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "trace").write_text("1\n2\n3\n")
        name = folder.name
        (folder / "path.toml").write_text(
            f'[links.{name}]\nends = ["a", "b"]\nrate = {{ mahimahi = "trace" }}\n'
            f'[paths.{name}]\nvia = ["{name}"]\n'
        )
    files = [folder / "path.toml" for folder in folders]
    found = read(files, {"links.two.delay": "7 ms"})
    assert found.names == ("one", "two")
    assert found.links["two"]["delay"] == "7 ms"
    assert found.links["one"]["rate"]["mahimahi"] == str(folders[0] / "trace")
    assert found.rate() is None
    with pytest.raises(AnabranchError, match=r"links\.one is in another file"):
        read([files[0], files[0]])
    with pytest.raises(AnabranchError, match="not a and b"):
        read([files[0], "wifi-and-lte"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no links"),
        ("links = 3", "has no links"),
        ("x = 1", "unknown key `x`"),
        ("[links.a", "is not TOML, as path files are.* `anabranch profile` makes one"),
        ('[links.a]\nrate = "1 Mbit/s"\nlossy = 3', r"links\.a\.lossy"),
        ("[links.a]\nrate = nan", r"links\.a\.rate"),
        ("[links.a]\nends = 3", r"links\.a\.ends"),
        ('[links.a]\nrate = "1 Mbit/s"\n[paths.p]\nvia = ["b"]', "`b`"),
        ("[links.a]\n[paths]\np = 3", r"paths\.p"),
        ("[links.a]\n[links.b]\nends = ['x', 'y']", "from one host to one other"),
        ("[links.a]", "no link with a rate"),
    ],
)
def test_bad_path_files_are_refused_in_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises((AnabranchError, ScenarioError), match=message):
        advise.advise(written(tmp_path, text), "goodput", effort=SMALL)


@pytest.mark.parametrize(
    ("goal", "transport", "message"),
    [
        ("speed", None, "goal is speed"),
        ("failover", None, "needs two paths"),
        ("mos", "tcp", "must be sctp"),
        ("goodput", "mptcp", "needs a second path"),
    ],
)
def test_goals_that_cannot_be(
    tmp_path: Path, goal: str, transport: str | None, message: str
) -> None:
    path = written(tmp_path, '[links.a]\nrate = "1 Mbit/s"')
    with pytest.raises(AnabranchError, match=message):
        advise.advise(path, goal, transport=transport, effort=SMALL)


MEASURED = """\
[links.wifi]
ends = ["phone", "server"]
delay = "10 ms"
loss = { kind = "bernoulli", probability = 0.001 }
reverse = { loss = { kind = "none" } }
# links.wifi.loss at least 0 %: { kind = "none" }
# links.wifi.loss at most 20 %: { kind = "bernoulli", probability = 0.2 }
# To know links.wifi.loss better: pings for 3 min: ping -D -i 0.02 -c 9000 HOST

[links.lte]
ends = ["phone", "server"]
delay = "30 ms"
"""


def test_what_a_measurement_leaves_open_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the loss that was measured nothing matters; with the most that it may be, lte does."""
    path = tmp_path / "paths.toml"
    path.write_text(MEASURED)
    monkeypatch.setattr(advise, "QUICK", search.Effort(4, 2, 4))
    file, out = tmp_path / "advice.json", tmp_path / "runs"
    asked = ["advise", "--paths", str(path), "--goal", "mos", "--json", str(file)]
    assert cli.main([*asked, "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Keep the defaults. Not enough known of the loss of wifi: at 20 %, the most that" in said
    assert "MOS with primary_path = lte; measure more, such as pings for 3 min: ping -D" in said
    found = json.loads(file.read_text())
    (sentence,) = found["not_enough_known"]
    assert sentence.endswith("ping -D -i 0.02 -c 9000 HOST")
    least, most = found["at_bounds"]
    assert (least["end"], least["holds"], least["better"]) == ("least", True, None)
    assert (most["end"], most["holds"]) == ("most", False)
    assert most["better"] == {"primary_path": "lte"}
    assert most["gain"]["mean"] > 0.5
    # The runs at both ends are also kept.
    assert cli.main([*asked, "--out", str(out)]) == 0
    assert json.loads(file.read_text()) == found


def test_advice_that_holds_says_over_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "paths.toml"
    path.write_text(MEASURED.replace("20 %", "0.15 %").replace("0.2 }", "0.0015 }"))
    monkeypatch.setattr(advise, "QUICK", search.Effort(4, 2, 4))
    assert cli.main(["advise", "--paths", str(path), "--goal", "mos"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "So it is at both ends of what is known of the losses (wifi 0 % to 0.15 %): not" in said
    assert "Not enough" not in said


UNDELAYED = """\
[links.wifi]
rate = "10 Mbit/s"
# delay: not measured; say what it is, such as delay = "20 ms"

[links.lte]
rate = "10 Mbit/s"
delay = "30 ms"
"""


@pytest.mark.parametrize("goal", ["mos", "goodput", "failover", "latency"])
def test_a_path_without_a_delay_is_refused(tmp_path: Path, goal: str) -> None:
    """It would be one on which acknowledgements take no time; a bound or what is set will do."""
    file = written(tmp_path, UNDELAYED)
    with pytest.raises(AnabranchError, match=r"`wifi` has no link with a delay.*pings while noth"):
        advise.advise(file, goal, effort=SMALL)
    read([file], {"links.wifi.delay": "5 ms"}).check_delays()
    read([written(tmp_path, f"{UNDELAYED}# links.wifi.delay at most 8 ms\n")]).check_delays()


def test_a_call_without_acknowledgements_says_that_it_assumes_no_delay(tmp_path: Path) -> None:
    """A capture of RTP at its receiver has none; losses and jitter matter as they are."""
    path = written(tmp_path, UNDELAYED.partition("[links.lte]")[0])
    found = advise.advise(path, "mos", transport="udp", effort=SMALL)
    (sentence,) = found.unknown
    assert sentence.startswith("not enough known of the delay of wifi: none is assumed, so that")
    known = advise.advise(
        path, "mos", transport="udp", set={"links.wifi.delay": "0 ms"}, effort=SMALL
    )
    assert known.unknown == ()


def test_who_sets_a_loss_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "paths.toml"
    path.write_text(MEASURED)
    least, most = read([path]).bounds
    assert least.value == {"kind": "none"}
    assert isinstance(most.value, dict)
    assert most.value["probability"] == 0.2
    worse = read([path]).at(most)
    assert worse.links["wifi"]["loss"] == most.value
    assert worse.links["wifi"]["reverse"]["loss"] == {"kind": "none"}
    assert worse.links["lte"] == read([path]).links["lte"]
    assert read([path], {"links.wifi.loss.probability": 0.1}).bounds == ()
    assert len(read([path], {"links.lte.delay": "5 ms"}).bounds) == 2
    assert read(["wifi-and-lte"]).bounds == ()
    path.write_text(MEASURED.replace("probability = 0.2 }", "probability = }"))
    with pytest.raises(AnabranchError, match=r"paths\.toml: links\.wifi\.loss at most 20 %: "):
        read([path])
