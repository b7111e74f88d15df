"""What a run reports is declared once, in the engine; here is what Python makes of it."""

import json
from pathlib import Path

import polars as pl
import pytest

from anabranch import Study, _engine, cli, store
from anabranch.advise import timeouts
from anabranch.compare import sides
from anabranch.errors import AnabranchError
from anabranch.explain import METRICS, accounts
from anabranch.figures import transfers
from anabranch.store import shard_files
from anabranch.studies import headline, nothing, scalars
from anabranch.studies.result import load, run
from anabranch.support import declared

ROOT = Path(__file__).parent.parent

CALL = (ROOT / "scenarios/two-path-call.toml").read_text("utf-8")


def test_what_python_knows_by_name_is_declared() -> None:
    names = [
        *headline._LOST,
        *(f"{name}_packets" for name in ("lost", "queue_full", "aqm")),
        *nothing._FATES,
        *nothing._ARRIVED,
        *(name.rpartition(".")[2] for name in METRICS),
        *timeouts._SCTP,
        *timeouts._TCP,
    ]
    assert [name for name in names if declared.scalar(name) is None] == []
    assert set(transfers.LIMIT_COLOURS) == set(accounts.LIMITS)


def test_the_tables_that_python_reads_have_their_columns() -> None:
    tables = {table.name: [one.name for one in table.columns] for table in declared.tables()}
    result = run(load(CALL, {"run.time_accounts": "true"}), trace=True)
    found = {name: frame.columns for name, frame in result.traces.items()}
    assert found == {name: tables[name] for name in found}
    assert set(tables) - set(found) == {"media", "radio"}
    assert list(accounts._LIMITS) == tables["limits"]
    assert list(accounts._HEAD_OF_LINE) == tables["head_of_line"]


def test_a_wrong_scalar_is_found_before_any_run() -> None:
    scenario = load(CALL, {"run.duration": "100000 s"})
    scalars.check(scenario, ["call.mos", "link.first.forward.cross_arrived_packets"])
    with pytest.raises(AnabranchError, match=r"no scalar `call\.moss`; did you mean `call\.mos`\?"):
        scalars.check(scenario, ["call.mos", "call.moss"])


def test_a_scalar_of_another_kind_of_cell_is_known() -> None:
    axis = {"sweep.axes.t": "{ set = 'flows.call.transport', values = [{ kind = 'udp' }, 'sctp'] }"}
    scenario = load(CALL, {"flows.call.paths": "['p0']", **axis})
    scalars.check(scenario, ["call.sctp.a.sacks_sent", "call.udp.a.refused"])


def test_the_names_of_a_cell_are_those_of_its_row() -> None:
    scenario = load(CALL, {"run.phases": "['5 s']", "run.time_accounts": "true"})
    names = scenario.scalars()
    assert names == list(_engine.run(scenario)["summary"])
    kept = load(CALL, {"sweep.metrics": "['call.m*']"}).scalars()
    assert kept == [name for name in names if name.startswith("call.m")]


def test_every_old_name_has_its_new_one() -> None:
    for old, new in json.loads(_engine.results())["renamed"].items():
        assert declared.present_name(f"x.y.{old}") == f"x.y.{new}"
        with pytest.raises(AnabranchError, match=rf"`x\.{old}`; it is called `x\.{new}` now"):
            raise declared.no_scalar(f"x.{old}", [])


def test_a_list_has_every_scalar_and_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*words: str) -> str:
        assert cli.main(["list", *words]) == 0
        return capsys.readouterr().out

    scalars_, tables = listed("scalars"), listed("tables")
    assert all(one.name in scalars_ for group in declared.groups() for one in group.scalars)
    assert all(one.name in tables for table in declared.tables() for one in table.columns)
    assert "mouth_to_ear_ms" in listed("scalars", "voip")
    assert "mouth_to_ear_ms" not in listed("scalars", "sctp")
    assert "waits_for" in listed("tables", "limits")
    assert cli.main(["list", "scalars", "voop"]) == 2
    assert "nothing of `voop` in scalars; did you mean `voip`?" in capsys.readouterr().err


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    """A study folder whose rows have old names, those of a flow's members included."""
    short = {"run.duration": "3 s", "sweep.replications": "2", "flows.call.count": "2"}
    Study(CALL, tmp_path / "study", set=short).run()
    old = {new: old for old, new in json.loads(_engine.results())["renamed"].items()}

    def renamed(scalar: str) -> str:
        place, _, name = scalar.rpartition(".")
        return f"{place}.{old.get(name, name)}" if ".sctp." in scalar else scalar

    folder = tmp_path / "study" / "rows"
    [path] = shard_files.files(folder)
    rows = pl.read_parquet(path)
    path.unlink()
    shard_files.write(folder, rows.rename(renamed))
    return tmp_path / "study"


def test_old_names_in_a_study_folder_are_read(old_folder: Path) -> None:
    [shard] = shard_files.files(old_folder / "rows")
    assert "call_*.sctp.a.t3_expiries" in pl.read_parquet_schema(shard)
    rows = store.read(old_folder)
    again = load(CALL, {"run.duration": "3 s", "flows.call.count": "2"})
    name = "call_1.sctp.a.timeouts"
    assert rows[name].to_list() == [run(again, replication=i).summary[name] for i in range(2)]
    assert not [name for name in rows.columns if name.endswith("t3_expiries")]
    assert "call_2.sctp.b.timeouts" in store.scalars(old_folder)
    found = Study(old_folder).query(
        'SELECT "call_1.sctp.a.timeouts" AS n FROM rows ORDER BY replication'
    )
    assert found["n"].to_list() == rows["call_1.sctp.a.timeouts"].to_list()
    with pytest.raises(AnabranchError, match=r"it is called `call_1\.sctp\.a\.timeouts` now"):
        raise declared.no_scalar("call_1.sctp.a.t3_expiries", rows.columns)


def test_old_names_in_a_file_of_a_run_are_read(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text('{"summary": {"load.tcp.a.fast_recoveries": 3, "run.events": 5}}', "utf-8")
    assert sides.side(file).scalars == ["load.tcp.a.fast_retransmits", "run.events"]
