"""Queries: the rows of a study folder in SQL, each run once, and nothing else."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from anabranch import AnabranchError, StoreError, Study, store
from anabranch.store.query import Tables
from anabranch.support.columns import is_scalar
from conftest import COMMAND, HANGS_S, ROOT, SWEEP, Command, one_error, written
from support.processes import until, until_it_has_worked
from synthetic import write_study

SIZES = {"delay": 4, "loss": 3, "pmr": 2}
MOST_MEMORY = 1_200_000_000
"""Bytes that a process may have at its peak with a million rows: the 0.7 GB that DuckDB may use
(docs/query.md), the frame of all rows, and the libraries, 0.2 GB each; mostly it has 0.6 to 0.8."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("query") / "study"
    write_study(made, SIZES, 30, 4)
    return made


def test_rows_are_the_frame_with_null_for_no_value(folder: Path) -> None:
    asked = Study(folder).query()
    known = Study(folder).frame().with_columns(pl.col(pl.Float64).fill_nan(None))
    assert_frame_equal(asked, known, check_exact=True)
    assert asked["call.loss_percent"].null_count() > 0


def test_aggregates_leave_out_what_has_no_value(folder: Path) -> None:
    asked = Study(folder).query(
        'SELECT delay, avg("call.loss_percent") AS mean, count("call.loss_percent") AS n,'
        " count(*) AS runs FROM rows GROUP BY ALL ORDER BY delay"
    )
    rows = Study(folder).frame().group_by("delay", maintain_order=True)
    known = rows.agg(
        pl.col("call.loss_percent").fill_nan(None).mean().alias("mean"),
        pl.col("call.loss_percent").is_not_nan().sum().cast(pl.Int64).alias("n"),
        pl.len().cast(pl.Int64).alias("runs"),
    )
    assert_frame_equal(asked, known.sort("delay"))
    assert (asked["n"] < asked["runs"]).all()


def test_cells(folder: Path) -> None:
    cells = Study(folder).query("SELECT * FROM cells ORDER BY cell")
    assert cells.columns == ["cell", *SIZES, "seed", "scenario_hash"]
    assert cells.height == 24
    assert cells["scenario_hash"].to_list() == Study(folder).scenario.cell_hashes()


def test_only_runs_of_the_current_definition_each_once(sweep_file: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    Study(sweep_file, out, replications=2).run()
    # The same runs from another machine, in a shard split differently, and with a smaller
    # definition.
    Study(sweep_file, other, replications=3).run()
    for shard in (other / "rows").iterdir():
        shutil.copy(shard, out / "rows")
    counts = Study(out).query("SELECT count(*), count(DISTINCT (cell, replication)) FROM rows")
    assert counts.row(0) == (18, 18)
    fewer = written(tmp_path / "fewer.toml", SWEEP.replace('["1 s", "0.1 s", ', '["0.1 s", '))
    Study(fewer, out, replications=1).run()
    rows = Study(out).query()
    assert rows.height == 4 * 3
    assert rows["rto_max"].unique().sort().to_list() == [0.05, 0.1]
    known = Study(out).frame(columns=[name for name in rows.columns if is_scalar(name)])
    known = known.with_columns(pl.col(pl.Float64).fill_nan(None))
    assert_frame_equal(rows, known, check_exact=True)
    # A column of NULL is one in SQL alone.
    empty = [column.name for column in rows if column.null_count() == rows.height]
    assert empty
    assert Study(out).frame().columns == [name for name in rows.columns if name not in empty]


def test_traces(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    frames = copy / "traces" / "frames"
    frames.mkdir(parents=True)
    cells = Study(copy).scenario.cell_hashes()
    for cell, replication in ((0, 0), (5, 2)):
        table = pl.DataFrame({"delay_ms": [cell + 0.5, cell + 1.5]})
        table.write_parquet(frames / f"{cells[cell]}-{replication}.parquet")
    asked = Study(copy).query(
        "SELECT cell, replication, sum(delay_ms), any_value(pmr) FROM traces_frames"
        " JOIN cells USING (cell) GROUP BY ALL ORDER BY cell"
    )
    assert asked.rows() == [(0, 0, 2.0, 1.0), (5, 2, 12.0, 2.0)]


def test_without_rows(sweep_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    Study(sweep_file, out, replications=1).run()
    for shard in (out / "rows").iterdir():
        shard.unlink()
    assert Study(out).query("SELECT count(*) AS n FROM rows").item() == 0
    assert Study(out).query("SELECT count(*) AS n FROM cells").item() == 6


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ('SELECT "call.moss" FROM rows', 'no column `call.moss`; did you mean `"call.mos"`?'),
        ("SELECT dely FROM rows", "no column `dely`; did you mean `delay`?"),
        ("SELECT avg(call.mos) FROM rows", '`call.mos` needs double quotes, "call.mos"'),
        ("SELECT * FROM row", "no table `row`; there are `cells`, `rows`"),
        ("SELEC 1", 'the query cannot be run: syntax error at or near "SELEC"'),
        ("SELECT 1; SELECT 2", "a query is one SELECT statement"),
        ("", "a query is one SELECT statement"),
        ("DROP VIEW rows", "a query is one SELECT statement"),
        ("COPY rows TO 'rows.csv'", "a query is one SELECT statement"),
        ("ATTACH 'other.db'", "a query is one SELECT statement"),
        ("INSTALL httpfs", "a query is one SELECT statement"),
        ("SET enable_external_access = true", "a query is one SELECT statement"),
        ("SELECT * FROM read_csv('/etc/passwd')", "the study's own tables, and no files"),
        ("SELECT * FROM read_text('scenario.toml')", "the study's own tables, and no files"),
        ("SELECT * FROM glob('/*')", "the study's own tables, and no files"),
        ("SELECT * FROM 'https://example.org/rows.parquet'", ""),
        ("SELECT avg(cell) FROM rows GROUP BY avg(cell)", "the query cannot be run: "),
        ("SELECT error('no')", "the query cannot be run: no"),
        ("SELECT INTERVAL 1 DAY", "such types, say `::VARCHAR`"),
        ("SELECT * FROM duckdb_settings()", "such types, say `::VARCHAR`"),
    ],
)
def test_mistakes_are_one_sentence(folder: Path, sql: str, message: str) -> None:
    with pytest.raises(AnabranchError) as error:
        Study(folder).query(sql)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_variables_of_python_are_not_tables(folder: Path) -> None:
    frame = pl.DataFrame({"a": [1]})
    with pytest.raises(AnabranchError, match="there is no table `frame`"):
        Study(folder).query("SELECT * FROM frame")
    assert frame.height == 1


def test_a_query_changes_nothing(folder: Path) -> None:
    def state() -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}

    before = state()
    Study(folder).query("SELECT sum(cell) FROM rows")
    with Tables(folder) as tables:
        tables.head(None, 3)
    assert state() == before


def test_a_damaged_shard_is_named(folder: Path, tmp_path: Path, anabranch: Command) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shard = next((copy / "rows").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:1000])
    with pytest.raises(StoreError, match=shard.name):
        Study(copy).query()
    said = one_error(anabranch("query", copy))
    assert shard.name in said
    assert "the same sweep sets it aside" in said


@pytest.mark.parametrize("name", ["it's", "a[1]", "all*", "what?", "ünï 你好", "{a,b}"])
def test_folders_with_any_name(folder: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(folder, tmp_path / name)
    assert Study(tmp_path / name).query("SELECT count(*) FROM rows").item() == 720


def test_not_a_study_folder(tmp_path: Path, anabranch: Command) -> None:
    assert "is not a study folder" in one_error(anabranch("query", tmp_path))
    with pytest.raises(AnabranchError, match="needs a study folder"):
        Study(SWEEP).query()


def test_the_command_prints_a_table(folder: Path, anabranch: Command) -> None:
    sql = 'SELECT pmr, round(avg("call.mos"), 3) AS mos FROM rows GROUP BY ALL ORDER BY pmr'
    known = Study(folder).query(sql)
    printed = anabranch("query", folder, sql)
    assert printed.returncode == 0, printed.stderr
    lines = [line.split() for line in printed.stdout.splitlines() if line.strip()]
    assert lines[0] == ["pmr", "mos"]
    assert [[float(x) for x in line] for line in lines[2:]] == [list(r) for r in known.rows()]
    cut = anabranch("query", folder)
    assert "the first 40 of 720 rows; --csv FILE writes all" in cut.stdout
    assert "rows;" not in anabranch("query", folder, "SELECT * FROM rows LIMIT 40").stdout


def test_exports(folder: Path, tmp_path: Path, anabranch: Command, process: Command) -> None:
    names = {kind: tmp_path / f"rows.{kind}" for kind in ("csv", "arrow", "parquet", "json")}
    options = [text for kind, path in names.items() for text in (f"--{kind}", str(path))]
    written_ = anabranch("query", folder, *options)
    assert written_.returncode == 0, written_.stderr
    assert written_.stderr.count(": 720 rows") == 4
    known = Study(folder).query()
    assert_frame_equal(pl.read_ipc(names["arrow"]), known, check_exact=True)
    assert_frame_equal(pl.read_parquet(names["parquet"]), known, check_exact=True)
    text = pl.read_csv(names["csv"], schema_overrides=known.schema)
    assert_frame_equal(text, known, check_exact=True)
    rows = json.loads(names["json"].read_text(encoding="utf-8"))
    assert [row["call.mos"] for row in rows] == known["call.mos"].to_list()
    assert rows[0]["call.loss_percent"] is None
    piped = process("query", folder, "SELECT 1 AS one", "--csv", "/dev/stdout")
    assert piped.stdout == "one\n1\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
@pytest.mark.parametrize("kind", ["csv", "arrow", "parquet", "json"])
def test_a_full_disk_is_named(folder: Path, anabranch: Command, kind: str) -> None:
    error = one_error(anabranch("query", folder, f"--{kind}", "/dev/full"))
    assert "No space left on device" in error
    assert "None" not in error
    assert "VARCHAR" not in error


def test_a_type_that_a_file_does_not_have(folder: Path, tmp_path: Path, anabranch: Command) -> None:
    target = tmp_path / "list.csv"
    error = one_error(anabranch("query", folder, "SELECT [1, 2] AS a", "--csv", target))
    assert "such types, say `::VARCHAR`" in error
    assert not target.exists()


def test_exports_are_refused_before_the_work(folder: Path, anabranch: Command) -> None:
    assert "a folder, not a file" in one_error(anabranch("query", folder, "--csv", folder))
    both = anabranch("query", folder, "--csv", "x", "--json", "x")
    assert "--csv and --json are both x" in one_error(both)


def test_ctrl_c_ends_a_query_within_seconds(folder: Path, tmp_path: Path) -> None:
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range < b.range"
    query = subprocess.Popen(
        [*COMMAND, "query", str(folder), sql],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: list(tmp_path.glob("anabranch-query-*")), query)
    until_it_has_worked(query, 0.5)  # from the tables to the query
    query.send_signal(signal.SIGINT)
    _, errors = query.communicate(timeout=HANGS_S)
    assert query.returncode == 130
    assert errors == "anabranch: stopped\n"
    assert not list(tmp_path.iterdir())


def test_a_million_rows_in_little_memory(tmp_path: Path) -> None:
    folder = tmp_path / "large"
    write_study(folder, {"delay": 10, "loss": 10, "rto_max": 10, "pmr": 5, "depth": 2}, 100, 20)
    program = """\
        import json, resource, sys
        from pathlib import Path
        import anabranch
        from anabranch import report
        folder = Path(sys.argv[1])
        if sys.argv[2] == "report":
            found = report.write(folder, folder / "report.html").metrics
        else:
            study = anabranch.Study(folder)
            means = study.query(
                'SELECT delay, avg("call.mos") AS mean FROM rows GROUP BY ALL ORDER BY delay'
            )
            found = [study.frame().height, *means["mean"]]
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if sys.platform == "linux":  # where that is the peak of whoever started it, if higher
            status = Path("/proc/self/status").read_text()
            kilobytes = int(status.split("VmHWM:")[1].split()[0])
        print(json.dumps([found, kilobytes * 1024]))
    """
    found = {}
    for work in ("query", "report"):
        command = [sys.executable, "-c", textwrap.dedent(program), str(folder), work]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS_S)
        assert done.returncode == 0, done.stderr
        found[work], peak = json.loads(done.stdout)
        assert peak < MOST_MEMORY, work
    # 3 + a - 0.25 + a / 2 with a from 0 to 1.
    means = [2.75 + 1.5 * i / 9 for i in range(10)]
    assert found["query"] == [1_000_000, *(pytest.approx(mean, abs=0.03) for mean in means)]
    assert found["report"] == ["call.mos"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "1,000,000 simulated runs of 10,000 cells" in page
    assert len(page) < 2_000_000


def test_names_that_differ_only_in_case(tmp_path: Path, anabranch: Command) -> None:
    text = (ROOT / "scenarios" / "rto-sweep.toml").read_text(encoding="utf-8")
    text = text.replace("links.first", "links.Second")
    text = text.replace('["first"]', '["Second"]')
    scenario = tmp_path / "case.toml"
    scenario.write_text(text, encoding="utf-8")
    Study(scenario, tmp_path / "out", replications=1).run()
    error = one_error(anabranch("query", tmp_path / "out", "SELECT 1"))
    assert "SQL does not tell `link.second." in error
    assert "from `link.Second." in error


@pytest.mark.parametrize(
    ("sql", "column", "value"),
    [
        ("SELECT count(*) AS n FROM rows", "n", "720"),
        ("SELECT cell, replication FROM rows ORDER BY ALL", "replication", "29"),
        ("SELECT cell FROM rows WHERE false", "cell", ""),
    ],
)
def test_a_result_of_keys_alone_is_printed(
    folder: Path, anabranch: Command, sql: str, column: str, value: str
) -> None:
    result = anabranch("query", folder, sql)
    assert (result.returncode, result.stderr) == (0, "")
    assert column in result.stdout
    assert value in result.stdout


def test_a_query_may_have_a_time_limit(
    folder: Path, anabranch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range < b.range"
    message = one_error(anabranch("query", folder, sql, "--timeout", "300 ms"))
    assert message == "anabranch: error: the query has not ended within 0.3 s: give it more time"
    with pytest.raises(AnabranchError, match=r"has not ended within 0\.2 s"):
        Study(folder).query(sql, timeout_s=0.2)
    clock, later = time.monotonic, 0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + later)
    with Tables(folder, timeout_s=HANGS_S) as tables:
        for _ in range(2):  # the time is that of each query
            assert tables.frame("SELECT count(*) FROM rows").item() == 720
            later += 2 * HANGS_S
    for wrong in (0, -1, float("nan")):
        with pytest.raises(AnabranchError, match="it must be more than 0 seconds"):
            Study(folder).query(timeout_s=wrong)
    assert "`--timeout` is 0" in one_error(anabranch("query", folder, "--timeout", "0s"))
    assert "`soon` is not a length" in one_error(anabranch("query", folder, "--timeout", "soon"))


def test_a_file_in_place_of_the_rows_is_said(
    folder: Path, tmp_path: Path, anabranch: Command
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    shutil.rmtree(broken / "rows")
    (broken / "rows").write_text("", encoding="utf-8")
    for command in (("query", broken), ("report", broken, "--out", tmp_path / "x.html")):
        assert "rows is damaged: it is a file, not a folder" in one_error(anabranch(*command))
    for read in (Study(broken).frame, Study(broken).query):
        with pytest.raises(StoreError, match="it is a file, not a folder"):
            read()
    with pytest.raises(StoreError, match="it is a file, not a folder"):
        Study(Study(broken).scenario, broken).run()


def test_nested_json_is_damage(folder: Path, tmp_path: Path, anabranch: Command) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "study.json").write_text("[" * 200_000, encoding="utf-8")
    assert "study.json is damaged" in one_error(anabranch("query", broken))
    with pytest.raises(StoreError, match="is damaged"):
        store.read_cells(broken)


def test_long_text_is_not_repeated_in_messages(folder: Path, anabranch: Command) -> None:
    long = "x" * 10_000
    for sql in (long, f'SELECT "{long}" FROM rows', f"SELECT * FROM {long}"):
        assert len(one_error(anabranch("query", folder, sql))) < 600
    with pytest.raises(AnabranchError) as raised:
        Study(folder).cells(long)
    assert len(str(raised.value)) < 400


def test_values_of_axes_that_differ_do_not_look_alike(tmp_path: Path, anabranch: Command) -> None:
    text = SWEEP.replace('["1 s", "0.1 s", ', '["0.1234561 s", "0.1234562 s", ')
    Study(written(tmp_path / "close.toml", text), tmp_path / "out", replications=1).run()
    result = anabranch("query", tmp_path / "out", "SELECT rto_max, 1 / 3 AS x FROM cells")
    assert "0.1234561" in result.stdout
    assert "0.1234562" in result.stdout
    assert "0.333333 " in result.stdout
