"""Reports: their numbers, their drawings, and the page in a real browser."""

import math
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import anabranch as package
from anabranch import AnabranchError, Study, report
from anabranch.papers import studies
from anabranch.store import shard_files
from conftest import CALL, SWEEP, Command, one_error, written
from support.reports import SIZES
from synthetic import write_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report") / "study"
    write_study(made, SIZES, 30, 3)
    return made


def test_scalars_that_say_how_good_a_cell_is(folder: Path, tmp_path: Path) -> None:
    assert report.write(folder, tmp_path / "mos.html").metrics == ["call.mos"]
    both = ["call.loss_percent", "call.s2"]
    assert report.write(folder, tmp_path / "two.html", both).metrics == both
    page = (tmp_path / "two.html").read_text(encoding="utf-8")
    assert re.search('class="finding">.* from it after .* replications', page)  # less is better
    assert "call.s2 is highest with" in page  # nobody knows
    assert "call.mos" not in re.sub(r"<details>.*</details>", "", page, flags=re.DOTALL)


def test_scalars_without_any_value_are_left_out(folder: Path, tmp_path: Path) -> None:
    """Such as those of cells that only an earlier definition has."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for path in list((copy / "rows").iterdir()):
        rows = pl.read_parquet(path).rename({"call.mos": "call.goodput_kbit_per_s"})
        path.unlink()
        shard_files.write(copy / "rows", rows.with_columns(pl.lit(math.nan).alias("call.mos")))
    assert report.write(copy, tmp_path / "page.html").metrics == ["call.goodput_kbit_per_s"]
    assert report.write(copy, tmp_path / "page.html", ["call.mos"]).metrics == ["call.mos"]
    assert "No run has a value of call.mos." in (tmp_path / "page.html").read_text(encoding="utf-8")
    few = {f"a{i}.mos": pl.lit(math.nan) for i in range(5)} | {f"b{i}.mos": 4.0 for i in range(5)}
    for path in list((copy / "rows").iterdir()):
        rows = pl.read_parquet(path).with_columns(**few)
        path.unlink()
        shard_files.write(copy / "rows", rows)
    assert report.write(copy, tmp_path / "page.html").metrics == [f"b{i}.mos" for i in range(4)]


def test_the_table_has_the_cells_means(folder: Path, tmp_path: Path) -> None:
    report.write(folder, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    lines = re.findall(r'<tr class="[^"]*"><td>(.*?)</td></tr>', page)
    found = {}
    for line in lines:
        *_, mean, half_width, _, _, n, cell = line.split("</td><td>")
        found[int(cell)] = (float(mean), float(half_width), int(n))
    known = {row[0]: row[-3:] for row in Study(folder).cells("call.mos").rows()}
    assert set(found) == set(known)
    for cell, (mean, half_width, n) in found.items():
        assert mean == pytest.approx(known[cell][0], abs=0.005)
        assert half_width == pytest.approx(known[cell][1], abs=0.005)
        assert n == known[cell][2]
    assert "is not finished" not in page


def test_a_study_of_many_cells_has_short_tables(tmp_path: Path) -> None:
    write_study(tmp_path / "study", {"delay": 10, "loss": 10, "rto_max": 5}, 3, 2)
    report.write(tmp_path / "study", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The first 25 and the last 5 of 500 cells" in page
    assert page.count("<tr class=") == 30
    assert "anabranch query" in page


def test_what_was_asked_for_and_is_missing_is_said(sweep_file: Path, tmp_path: Path) -> None:
    def said(study: Study, rows: int) -> str:
        study.run()
        out = tmp_path / "out"
        for path in (out / "rows").glob("*.parquet"):
            kept = pl.read_parquet(path).sort("replication").head(rows)
            path.unlink()
            shard_files.write(out / "rows", kept)
        report.write(out, tmp_path / "report.html")
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    page = said(Study(sweep_file, tmp_path / "out", replications=2), 99)
    assert "Asked for: 12 runs, 2 of each cell; the scenario itself asks for 36." in page
    assert "not finished" not in page
    page = said(Study(sweep_file, tmp_path / "out", replications=2), 4)
    assert "4 simulated runs of 4 of 6 cells, 1 replication each" in page
    assert "not finished: 8 of the runs asked for are missing" in page
    page = said(Study(sweep_file, tmp_path / "out"), 35)
    assert "Asked for" not in page
    assert "not finished: 1 of the runs asked for is missing" in page


def test_what_was_asked_of_some_cells_is_said(tmp_path: Path) -> None:
    """The axes that papers use whose quick study has only the cells that carry the claims."""
    few = studies.Work(
        name="few",
        title="few",
        scenario=package.load(SWEEP),
        replications=lambda key: 2 if key["pmr"] else 0,
        columns=("call.mos",),
    )
    studies.compute(few, tmp_path, studies.simulated(2), lambda _: None)
    report.write(tmp_path / "studies" / "few", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Asked for: 6 runs, 0 to 2 of each cell; the scenario itself asks for 36." in page
    assert "6 simulated runs of 3 of 6 cells" in page
    assert "not finished" not in page
    identity = tmp_path / "studies" / "few" / "study.json"
    identity.write_text(identity.read_text().replace('"replications": [', '"replications": [7, '))
    with pytest.raises(AnabranchError, match=r"damaged \(its `replications` is \[7, 0"):
        report.write(tmp_path / "studies" / "few", tmp_path / "report.html")


def test_a_stopping_rule_is_said(tmp_path: Path) -> None:
    text = CALL + (
        "[sweep]\nreplications = 2\n"
        'until = { metric = "call.mos", half_width = 0.5, least = 3, most = 6 }\n'
    )
    Study(text, tmp_path / "out").run()
    report.write(tmp_path / "out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<code>call.mos</code> was ± 0.5, from 3 to 6 times" in page
    assert "is not finished" not in page
    # A number of replications overrules it.
    Study(text, tmp_path / "fixed", replications=2).run()
    report.write(tmp_path / "fixed", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "2 of each cell; the scenario itself asks for at least 3." in page
    assert "cell was repeated until" not in page


def test_sub_studies_have_sections_of_their_own(tmp_path: Path) -> None:
    text = CALL + (
        "[sweep]\nreplications = 2\n"
        "[sweep.studies.timers.axes]\n"
        'rto_max = { set = "flows.call.transport.rto_max", values = ["1 s", "0.1 s"] }\n'
        "[sweep.studies.network.axes]\n"
        'loss = { set = "links.first.loss.mean_loss", values = ["1 %", "5 %"] }\n'
    )
    Study(text, tmp_path / "out").run()
    report.write(tmp_path / "out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == [
        "What was run",
        "call.mos in timers",
        "call.mos in network",
        "A cell in the lab",
        "Provenance",
    ]
    assert re.search(r"In network: loss = [15] % has the best mean of call.mos: ", page)
    assert re.search(r"loss = [15] % cannot be told from it after 2 replications", page)


def test_a_study_of_one_run(tmp_path: Path) -> None:
    Study(CALL, tmp_path / "out").run()
    report.write(tmp_path / "out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1 simulated run of 1 cell" in page
    assert page.count("<svg") == 1


def test_the_command(folder: Path, tmp_path: Path, anabranch: Command) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    done = anabranch("report", copy)
    assert done.returncode == 0, done.stderr
    assert f"wrote {copy / 'report.html'}: call.mos" in done.stdout
    assert (copy / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "is not a study folder" in one_error(anabranch("report", tmp_path))
    assert "a folder, not a file" in one_error(anabranch("report", copy, "--out", copy))


def test_mistakes_are_one_sentence(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    with pytest.raises(AnabranchError, match=r"no scalar `call.moss`; did you mean `call.mos`"):
        report.write(copy, tmp_path / "report.html", ["call.moss"])
    for shard in (copy / "rows").iterdir():
        shard.unlink()
    with pytest.raises(AnabranchError, match="copy has no rows yet: `anabranch sweep` computes"):
        report.write(copy, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("replications", [2, None])
def test_the_commands_of_a_report_make_it_again(
    replications: int | None,
    tmp_path: Path,
    anabranch: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = (
        "[sweep.studies.less]\nreplications = 2\n"
        "axes.pmr = { set = 'flows.call.transport.path_max_retrans', values = [1, 2] }\n"
    )
    Study(written(Path("parts.toml"), SWEEP + parts), "study", replications=replications).run()
    report.write(Path("study"), Path("report.html"))
    page = Path("report.html").read_text(encoding="utf-8")
    [commands] = re.findall(r"<pre[^>]*>(anabranch .*?)</pre>", page, re.DOTALL)
    sweep, again = (command.split()[1:] for command in commands.strip().splitlines())
    assert anabranch(*sweep).returncode == 0
    assert Study("NEW").frame().equals(Study("study").frame())
    assert anabranch(*again).returncode == 0


def test_figures_of_pages_keep_their_ids_apart(folder: Path, tmp_path: Path) -> None:
    report.write(folder, tmp_path / "report.html", ["call.mos", "call.loss_percent"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page))
    assert targets <= set(ids)


def test_a_part_with_one_cell_a_value_is_ranked_as_a_whole(tmp_path: Path) -> None:
    two = 'loss = { set = "links.first.loss.mean_loss", values = ["1 %", "9 %"] }\n'
    points = """
[sweep.studies.points]
replications = 2
design = { kind = "latin_hypercube", points = 64 }

[sweep.studies.points.axes]
loss = { set = "links.first.loss.mean_loss", range = { from = "1 %", to = "9 %" } }
pmr = { set = "flows.call.transport.path_max_retrans", range = { from = 1, to = 3 } }
"""
    study, out = tmp_path / "study", tmp_path / "report.html"
    Study(written(tmp_path / "parts.toml", SWEEP + two + points), study).run()
    report.write(study, out, ["call.mos"], per=["loss"])
    assert out.read_text(encoding="utf-8").count("Best for each loss") == 1


def test_the_best_cells_of_each_value_of_an_axis(folder: Path, tmp_path: Path) -> None:
    report.write(folder, tmp_path / "report.html", per=["loss"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    # The model: the longest delay is best at every loss, pmr does nothing.
    assert re.search(
        r'class="finding">delay = 4\xa0ms, pmr = [12] may be best in call.mos, or within 0.1 of the'
        r" best, at each of 3 values of loss; 1 other choice may be as well\.<",
        page,
    )
    tables = re.findall(r"<caption><span><b>(.*?)</b>: (\d) of 8 (.*?)</table>", page, re.S)
    assert [title for title, *_ in tables] == ["loss = 1 %", "loss = 2 %", "loss = 3 %"]
    known = Study(folder).best_set("call.mos", per=["loss"])
    for (_, count, table), ranking in zip(tables, known.partition_by("loss"), strict=True):
        lines = re.findall(r'<tr class="(.*?)"><td>(.*?)</td></tr>', table)
        cells = [line.split("</td><td>") for _, line in lines]
        first = ranking.head(5)
        good = ranking["verdict"].is_in(["best", "equal"])
        assert int(count) == good.sum()
        marked = ranking["verdict"].head(5) != "worse"
        assert [kind == "best" for kind, _ in lines] == marked.to_list()
        assert [float(cell[3]) for cell in cells] == pytest.approx(first["mean"], abs=0.005)
        assert [float(c[5]) for c in cells[1:]] == pytest.approx(first["behind"][1:], abs=0.006)
        assert [cell[1] for cell in cells] == [f"{1e3 * delay:g} ms" for delay in first["delay"]]
    assert "--per loss" in page
    report.write(folder, tmp_path / "without.html")
    assert "Best for each" not in (tmp_path / "without.html").read_text(encoding="utf-8")


def test_tables_of_values_have_the_same_columns(tmp_path: Path) -> None:
    """Also where a condition leaves one value of an axis, and without axes of `per`."""
    text = CALL + (
        '[sweep]\nreplications = 2\nzip = [["loss", "bad"]]\n'
        "where = ['loss < 4 % or rto_max < 0.5 s']\n"
        "[sweep.axes]\n"
        'loss = { set = "links.first.loss.mean_loss", values = ["1 %", "5 %"] }\n'
        'bad = { set = "links.first.loss.mean_bad", values = ["30 ms", "60 ms"] }\n'
        'rto_max = { set = "flows.call.transport.rto_max", values = ["1 s", "0.1 s"] }\n'
        'pmr = { set = "flows.call.transport.path_max_retrans", values = [0, 1] }\n'
    )
    Study(text, tmp_path / "out").run()
    report.write(tmp_path / "out", tmp_path / "report.html", per=["loss"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tables = re.findall(r"<b>loss = [15] %</b>.*?</thead>", page, re.S)
    heads = [re.findall(r'<th scope="col">(.*?)</th>', table) for table in tables]
    assert heads == [["rank", "rto_max", "pmr", "mean", "±", "behind", "±"]] * 2
    assert "rto_max = " in re.findall(r'class="finding">(.*?)<', page)[0]


def test_mistakes_about_axes_are_one_sentence(folder: Path, anabranch: Command) -> None:
    said = one_error(anabranch("report", folder, "--per", "los"))
    assert said == "anabranch: error: there is no axis `los`: the axes are delay, loss, pmr"
    every = [word for axis in SIZES for word in ("--per", axis)]
    said = one_error(anabranch("report", folder, *every))
    assert said.endswith("one cell for each delay and loss and pmr: none is left to choose")
