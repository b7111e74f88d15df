"""Our numbers beside those of independent implementations."""

import csv
import json
from pathlib import Path

import pytest

from anabranch.oracles import __main__ as pages
from anabranch.oracles import (
    failover,
    linux_aqm,
    linux_mptcp,
    linux_sctp,
    linux_tcp,
    ns3_shared_queue,
)
from conftest import ROOT, Command, one_error

GOLDEN = ROOT / "docs" / "linux-sctp.csv"
# Path.Max.Retrans, PF threshold and RTOs -> how far the means may be from the kernel's numbers: as
# far as a timer's granularity allows, 8 ms of 128, 64 ms of 1000.
BOUNDS = {
    "1,off,100,100,100": {"gap_ms": 0.06, "first_unreachable_s": 0.04},
    "2,off,1000,1000,1000": {"gap_ms": 0.06, "stalled_s": 0.03, "first_unreachable_s": 0.03},
    "5,off,100,100,100": {"gap_ms": 0.02, "stalled_s": 0.02, "first_unreachable_s": 0.06},
}


@pytest.fixture(scope="module")
def compared() -> dict[str, linux_sctp.Row]:
    kernel = [row for row in linux_sctp.kernel_rows() if _name(row) in BOUNDS]
    return {row.name: row for row in linux_sctp.compare(kernel, replications=20, jobs=2)}


def _name(row: dict[str, str]) -> str:
    return ",".join(row[name] for name in linux_sctp.KEY)


@pytest.mark.parametrize("name", BOUNDS)
def test_linux_sctp_is_near_the_kernel(compared: dict[str, linux_sctp.Row], name: str) -> None:
    for quantity, bound in BOUNDS[name].items():
        assert abs(compared[name].values[quantity].deviation) <= bound, quantity
    assert compared[name].values["first_pf_s"].happens == 0


def test_the_golden_table_holds_these_runs(compared: dict[str, linux_sctp.Row]) -> None:
    with GOLDEN.open(encoding="utf-8") as lines:
        golden = {_name(row): row for row in csv.DictReader(lines)}
    assert list(golden) == [_name(row) for row in linux_sctp.kernel_rows()]
    for name, row in compared.items():
        for quantity in ("gap_ms", "stalled_s", "first_unreachable_s"):
            value = row.values[quantity]
            low, high = (float(golden[name][f"{quantity}.{end}"]) for end in ("low", "high"))
            assert low - 1e-6 <= value.low <= value.high <= high + 1e-6, (name, quantity)


def test_every_deviation_of_the_golden_table_has_a_cause() -> None:
    page = (ROOT / "docs" / "linux-sctp.md").read_text("utf-8")
    table = [line for line in page.splitlines() if line.startswith("| ") and "(" in line]
    causes = {cell.strip() for line in table for cell in line.split("|")[8::3]}
    assert causes <= {"", *linux_sctp.CAUSES}
    assert set(linux_sctp.CAUSES) <= causes


def test_verdicts() -> None:
    def value(kernel: float, mean: float, low: float, high: float) -> linux_sctp.Value:
        return linux_sctp.Value(kernel, mean, low, high, happens=1, below=0.5, origin=5.0)

    assert value(6.0, 6.09, 6.0, 6.2).verdict == "within"
    assert value(6.0, 6.2, 5.9, 6.4).verdict == "in_range", "20 % from the blackout on"
    assert value(6.0, 6.2, 6.1, 6.4).verdict == "outside"
    assert value(float("nan"), 50.0, 40.0, 80.0).verdict == "outside"
    assert value(float("nan"), 50.0, 40.0, 90.0).verdict == "in_range", "later than it was observed"


def test_compare_prints_every_row(anabranch: Command, tmp_path: Path) -> None:
    target = tmp_path / "deviations.json"
    folder = tmp_path / "f"
    result = anabranch(
        "compare", "linux-sctp", "--replications", 1, "--json", target, "--plot", folder
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("off") >= 21
    values = json.loads(target.read_text("utf-8"))
    assert len(values) == 4 * len(linux_sctp.kernel_rows())
    assert {"key", "quantity", "kernel", "mean", "verdict"} <= values[0].keys()
    assert (folder / "failover-closed-form.png").stat().st_size > 10_000


def test_compare_refuses_no_replications(anabranch: Command) -> None:
    message = one_error(anabranch("compare", "linux-sctp", "--replications", 0))
    assert "replications is 0; it must be at least 1" in message


def test_a_stale_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for oracle in (linux_aqm, linux_mptcp, linux_sctp, linux_tcp, ns3_shared_queue):
        monkeypatch.setattr(oracle, "compare", lambda *_, **__: iter(()))
    monkeypatch.setattr(failover, "sweep", lambda: iter(()))
    monkeypatch.setattr(linux_sctp, "heartbeat_test", lambda _: (0, 1.0))
    monkeypatch.setattr(linux_tcp, "summary", lambda _: [])
    pages_with_tables = ("linux-aqm", "linux-mptcp", "linux-sctp", "linux-tcp", "ns3-shared-queue")
    for name in ("failover", *pages_with_tables):
        (tmp_path / f"{name}.md").write_text("before <!-- generated: make oracles --> after")
    monkeypatch.setattr("sys.argv", ["oracles", "--check", str(tmp_path)])
    assert pages.main() == 1
    assert "linux-sctp.csv is stale" in capsys.readouterr().err
