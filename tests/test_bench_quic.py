"""The bench for QUIC: its scenarios, commands of programs, and what packets show."""

import json
import math
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest

from anabranch import _engine, bench_quic
from anabranch.bench_cc import scenarios as of_controls
from anabranch.bench_quic import measures, programs, runs, scenarios
from anabranch.bench_quic.measures import Transfer
from anabranch.bench_quic.programs import Program
from anabranch.errors import AnabranchError
from conftest import Command, one_error, written
from support.emulation import LACKS

# A program that has a port and waits, and one that ends: no QUIC at all.
WAITS = (
    "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
    " s.bind(('0.0.0.0', int(sys.argv[1]))); s.recv(1)"
)
needs_links = pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")


def test_the_scenarios_are_those_of_bench_cc_and_one_with_an_outage() -> None:
    names = [about.name for about in scenarios.load(())]
    assert set(names) == {*(path.stem for path in of_controls.FOLDER.glob("*.toml")), "outage"}
    assert len(names) == 14
    for about in scenarios.load(()):
        assert about.controls == scenarios.profiles()
        cell = tomllib.loads(about.scenario.cell_toml(about.cell(0, "quinn")))
        for flow in about.tested:
            transport = cell["flows"][flow]["transport"]
            assert (transport["kind"], transport["profile"]) == ("quic", "quinn")
            assert cell["flows"][flow]["app"]["bytes"] == f"{about.size} B"
        assert cell["run"]["duration"] == f"{scenarios.LIMIT_S} s"
    with pytest.raises(AnabranchError, match="there is no scenario `absent`"):
        scenarios.load(("absent",))


def test_profiles_are_compared(tmp_path: Path) -> None:
    only = ("outage", "equal-pair")
    cells, faults = bench_quic.compare(("quinn", "picoquic"), tmp_path, only=only, replications=2)
    assert faults == []
    values = {(cell.case, cell.control): cell.values for cell in cells}
    assert set(values) == {
        (case, name) for case in ("equal pair", "outage") for name in ("quinn", "picoquic")
    }
    outage, pair = values["outage", "quinn"], values["equal pair", "quinn"]
    # A round trip of 40 ms, and the time in which packets are sent.
    assert 40 < outage["handshake_ms"].mean < 45
    # 15 MB at 20 Mbit/s, two seconds of outage, and what comes after them.
    assert 8.0 < outage["completion_s"].mean < 11
    assert 0 < outage["recovery_ms"].mean < 2000
    assert math.isnan(pair["recovery_ms"].mean)
    assert math.isnan(outage["jain"].mean)
    assert pair["jain"].mean > 0.9
    assert 80 < pair["utilisation_percent"].mean < 100


def test_a_transfer_is_measured_by_its_datagrams() -> None:
    about = scenarios.load(("outage",))[0]
    count = about.size // 1000
    arrivals = np.linspace(60e6, 9e9, count).astype(int)
    arrivals[count // 2 :] += int(3e9)
    rows = [
        # The client's first packet, the end of its handshake, a first one of data.
        (0, True, 999, 4433, 1200, True),
        (40_000_000, True, 999, 4433, 300, True),
        (80_000_000, True, 999, 4433, 1000, False),
        *((int(at), False, 999, 4433, 1000, False) for at in arrivals),
    ]
    seen = pl.DataFrame(rows, schema=runs._SCHEMA, orient="row").sort("time_ns")
    transfer = runs._measured(about, seen, 4433, "server")
    assert transfer.handshake_ms == 40
    assert transfer.completion_s == pytest.approx(12)
    assert transfer.longest_gap_ms == pytest.approx(3000, abs=1)
    values = measures.of_transfers(about, [transfer])
    assert values["recovery_ms"] == pytest.approx(1000, abs=1)
    assert values["goodput_mbit_per_s"] == pytest.approx(about.size * 8e-6 / 12)
    short = runs._measured(about, seen.head(1000), 4433, "server")
    assert math.isnan(short.completion_s)
    nobody = runs._measured(about, seen, 4434, "server")
    assert math.isnan(measures.of_transfers(about, [transfer, nobody])["goodput_mbit_per_s"])
    assert math.isnan(measures.of_transfers(about, [Transfer(1, 1, 1)])["jain"])


def test_programs_are_what_a_file_says(tmp_path: Path) -> None:
    file = written(
        tmp_path / "mine.toml",
        '[one]\nserver = "a {port} \'b c\'"\nclient = "d {address}"\n'
        '[two]\nserver = "e"\nclient = "f"\ndownloads = true\n',
    )
    simulated, chosen = programs.chosen((str(file), "quinn", f"{file}:one"))
    assert simulated == ("quinn",)
    assert chosen == (
        Program("one", ("a", "{port}", "b c"), ("d", "{address}")),
        Program("two", ("e",), ("f",), downloads=True),
    )
    assert programs.filled(chosen[0].server, {"port": 4433}) == ["a", "4433", "b c"]
    assert programs.chosen(())[0] == scenarios.profiles()
    (live,) = programs.chosen(("live:quinn",))[1]
    assert (live.name, live.client[-2:]) == ("live quinn", ("--profile", "quinn"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no program: a table for each, with `server` and `client`"),
        ("[mine", "is not TOML"),
        ("mine = 1", "`mine` must be a table with `server` and `client`"),
        ('[mine]\nserver = "a"', "mine.client must be a command line in quotes"),
        (
            '[mine]\nserver = "a {host}"\nclient = "b"',
            "mine.server: unknown `{host}`; allowed: {address}, {port}",
        ),
        ('[mine]\nserver = "a"\nclient = "\'b"', "mine.client: No closing quotation"),
        (
            '[mine]\nserver = "a"\nclient = "b"\nport = 1',
            "mine.port: unknown key; `server`, `client` and",
        ),
        (
            '[mine]\nserver = "a"\nclient = "b"\ndownloads = 1',
            "mine.downloads is `1`; allowed: true, false",
        ),
    ],
)
def test_a_mistake_in_a_file_of_programs_is_a_sentence(
    anabranch: Command, tmp_path: Path, text: str, sentence: str
) -> None:
    file = written(tmp_path / "mine.toml", text)
    said = one_error(anabranch("bench-quic", file, "--scenario", "clean"))
    assert " ".join(sentence.split()) in " ".join(said.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nobody",), "there is no stack `nobody`; there are noq"),
        (("live:nobody",), "`live:nobody`: there is no profile `nobody`"),
        (("--quick", "--replications", "2"), "--quick and --replications exclude each other"),
        (("--scenario", "none"), "there is no scenario `none`"),
        (("--replications", "0"), "replications"),
    ],
)
def test_a_mistake_is_a_sentence(anabranch: Command, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in " ".join(one_error(anabranch("bench-quic", *words)).split())


def test_the_command_writes_what_another_run_is_held_against(
    anabranch: Command, tmp_path: Path
) -> None:
    few = ("--scenario", "clean", "--replications", 2)
    files = ("--json", tmp_path / "found.json", "--junit", tmp_path / "found.xml")
    first = anabranch("bench-quic", "quinn", *few, "--out", tmp_path / "out", *files)
    assert first.returncode == 0, first.stderr
    assert "Which stack of QUIC" not in first.stdout  # there is one
    assert "quinn uses" in first.stdout
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert [cell["stack"] for cell in found["cells"]] == ["quinn"]
    assert ET.parse(tmp_path / "found.xml").getroot().get("name") == "anabranch bench-quic"
    assert "QUIC in fourteen scenarios" in (tmp_path / "out" / "index.html").read_text("utf-8")
    again = ("--out", tmp_path / "out", "--baseline", tmp_path / "found.json")
    second = anabranch("bench-quic", "quinn", *few, *again)
    assert second.returncode == 0, second.stdout
    other = anabranch("bench-cc", "cubic", *few, "--baseline", tmp_path / "found.json")
    assert "is not a JSON file of `anabranch bench-cc`" in one_error(other)


@needs_links
@pytest.mark.skipif(not _engine.QUIC, reason="this engine was built without QUIC")
def test_our_endpoint_over_sockets_is_compared(tmp_path: Path) -> None:
    cells, _ = bench_quic.compare(
        ("quinn", "live:quinn"), tmp_path, only=("lossy",), replications=1
    )
    values = {(cell.case, cell.control): cell.values for cell in cells}
    live = values["lossy 0.1 %", "live quinn"]
    assert 40 < live["handshake_ms"].mean < 400
    assert 0.5 < live["completion_s"].mean < 10


@needs_links
@pytest.mark.skipif(not _engine.QUIC, reason="this engine was built without QUIC")
@pytest.mark.parametrize(
    ("server", "client", "sentence"),
    [
        (("no-such-program",), ("true",), "`no-such-program` cannot be started"),
        (("false",), ("true",), "the server ended with exit code 1 before it had UDP port 4433"),
    ],
)
def test_what_is_wrong_with_a_server_is_a_sentence(
    server: tuple[str, ...], client: tuple[str, ...], sentence: str
) -> None:
    about = scenarios.load(("clean",))[0]
    with pytest.raises(AnabranchError, match=sentence):
        runs.run(about, 0, Program("mine", server, client), 0)


@needs_links
@pytest.mark.skipif(not _engine.QUIC, reason="this engine was built without QUIC")
def test_a_client_that_fails_makes_no_value() -> None:
    about = scenarios.load(("clean",))[0]
    server = (sys.executable, "-c", WAITS, "{port}")
    client = ("sh", "-c", "echo no such host >&2; exit 3")
    outcome = runs.run(about, 0, Program("mine", server, client), 0)
    assert outcome.fault == "the client ended with exit code 3: no such host"
    assert math.isnan(outcome.values["completion_s"])
    ended = runs.run(about, 0, Program("mine", server, ("true",), downloads=True), 0)
    assert ended.fault == "20 MB did not arrive within 60 s"
