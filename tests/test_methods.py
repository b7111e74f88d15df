"""The paragraph for a paper's methods says what the study folder says."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

import anabranch as package
from anabranch import cli
from anabranch.report import methods
from conftest import CALL, ROOT, SWEEP, written

UNTIL = """
[sweep]
until = { metric = "call.mos", half_width = 2.0, least = 2, most = 4 }
[sweep.axes]
pmr = { set = "flows.call.transport.path_max_retrans", values = [0, 1] }
[sweep.studies.other]
replications = 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("methods")
    package.Study(written(made / "sweep.toml", SWEEP), made / "study", replications=3).run()
    return made / "study"


def test_it_states_the_study(folder: Path) -> None:
    text = methods.paragraph(folder)
    study = package.Study(folder)
    identity = json.loads((folder / "study.json").read_text("utf-8"))
    for said in (
        f"(engine {identity['engine_version']})",
        f"(hash {study.scenario.hash})",
        "the flow call (voip, codec g711+plc, packetisation 20 ms, ",
        ") goes from caller to callee over p0 and p1 by SCTP (",
        "RTO maximum varied, path maximum retrans varied",
        "the link first has 1 Mbit/s, 20 ms of delay, drop-tail queue (50 packets), Gilbert losses"
        " (clock slot, slot 5 ms, mean loss 0.05, mean bad 60 ms, loss in bad 0.8",
        "We varied 2 axes in 6 cells: rto_max (flows.call.transport.rto_max): 1 s, 0.1 s, 0.05 s;",
        "Each cell was run 3 times, each of at most 20 s of simulated time: 18 runs in all.",
        "a hash of the seed (3)",
        "95 % confidence intervals of Student's t",
    ):
        assert said in text
    assert "\n" not in text


def test_what_a_template_sets_is_said_and_links_alike_are_named_together(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    assert cli.main(["new", str(tmp_path / "mine"), "--template", "voip-sctp"]) == 0
    study = package.Study(file, tmp_path / "study", replications=1)
    study.run(shard=(1, 24))
    text = methods.paragraph(tmp_path / "study")
    queue = "1 Mbit/s, 10 ms of delay, drop-tail queue (50 packets)"
    for said in (
        f"the links p0-first and p1-first have {queue}; ",
        f"the links p0-middle and p1-middle have {queue}, Poisson cross traffic (direction forward,"
        " packet 500 B, mean wait 25 ms, minus 75.2 kbit/s); ",
        f"the links p0-last and p1-last have {queue}, Gilbert losses (clock on-arrival, slot 5 ms,"
        " mean loss varied, mean bad varied, loss in bad varied, at ingress",
        "reliability limited retransmissions 0",
        "start 10 s to 20 s",
        "policy varied",
    ):
        assert said in text


def test_it_counts_what_was_run(tmp_path: Path) -> None:
    study = package.Study(written(tmp_path / "until.toml", CALL + UNTIL), tmp_path / "study")
    study.run()
    runs = pl.concat(map(pl.read_parquet, (tmp_path / "study" / "rows").iterdir())).height
    text = methods.paragraph(tmp_path / "study")
    assert f"{runs:,} runs in all" in text
    assert "We varied 1 axis in 3 cells, in 2 sub-studies: pmr" in text
    assert "In main, each cell was repeated until the 95 % interval of `call.mos` was ± 2," in text


def test_the_entry_is_that_of_the_citation_file(folder: Path) -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    read = methods.citation((ROOT / "CITATION.cff").read_text("utf-8"))
    assert read["title"] == cited["title"]
    assert read["date-released"] == str(cited["date-released"])
    assert read["author"] == " and ".join(author["name"] for author in cited["authors"])
    entry = methods.bibtex(folder)
    fields = dict(re.findall(r"(?m)^  (\w+) = \{(.*)\},$", entry))
    assert fields["title"] == cited["title"]
    assert fields["version"] == package.__version__
    assert fields["year"] == str(cited["date-released"].year)
    assert fields["author"] == "{The Anabranch developers}"
    assert entry.startswith("@software{anabranch,\n")
    assert entry.endswith("\n}")


def test_latex_source_has_no_bare_signs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["methods", str(folder), "--latex"]) == 0
    text = capsys.readouterr().out.partition("\n\n@software")[0]
    assert r"Anabranch 0.1.0~\cite{anabranch}" in " ".join(text.split())
    assert re.findall(r"(?<!\\)[%_&#$]", text) == []


def test_a_study_of_a_kernel_was_not_simulated(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = json.loads((folder / "study.json").read_text("utf-8"))
    (tmp_path / "study").mkdir()
    other = identity | {"engine_version": "Linux 6.12"}
    (tmp_path / "study" / "study.json").write_text(json.dumps(other), encoding="utf-8")
    assert cli.main(["methods", str(tmp_path / "study")]) == 2
    assert "the rows are not simulated: Linux 6.12 made them" in capsys.readouterr().err
