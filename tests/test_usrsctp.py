"""Flows of SCTP on usrsctp: built where it is needed, and over the emulator as in a simulation."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import anabranch
from anabranch import cli
from anabranch.emulate import testbed, usrsctp
from anabranch.errors import AnabranchError, LiveError, ScenarioError
from conftest import no_emulation


def lacking() -> str | None:
    """What this machine lacks, in a sentence; None if nothing is missing."""
    try:
        usrsctp.program()
    except LiveError as error:
        return str(error)
    return no_emulation()


LACKS = lacking()
able = pytest.mark.skipif(LACKS is not None, reason=f"left out: {LACKS}")

TWO_PATHS = """
name = "two-paths"
run.duration = "5 s"
paths.wifi.via = ["wifi"]
paths.lte.via = ["lte"]

[links.wifi]
ends = ["phone", "server"]
rate = "8 Mbit/s"
delay = "10 ms"
queue = { kind = "drop_tail", packets = 50 }

[links.lte]
ends = ["phone", "server"]
rate = "4 Mbit/s"
delay = "30 ms"
queue = { kind = "drop_tail", packets = 50 }
"""

CALL = f"""{TWO_PATHS}
[flows.call]
from = "phone"
to = "server"
paths = ["wifi", "lte"]
app = {{ kind = "voip", start = "0 s", duration = "3 s", codec = "g711", reliability = "reliable" }}

[flows.call.transport]
kind = "sctp"
profile = "freebsd_10"
rto_min = "100 ms"
path_max_retrans = 1
sack_frequency = 1
"""

BULK = f"""{TWO_PATHS}
[flows.bulk]
from = "phone"
to = "server"
paths = ["wifi", "lte"]
app = {{ kind = "bulk", bytes = "2 MB", write_size = "1400 B" }}

[flows.bulk.transport]
kind = "sctp"
profile = "freebsd_10"
policy = {{ kind = "failover" }}
"""


@able
def test_a_transfer_takes_as_long_as_simulated() -> None:
    # With room for a whole window: after losses two stacks differ.
    sets = {"links.wifi.queue.packets": 500}
    result = testbed.run(BULK, set=sets, stack="usrsctp", trace=True)
    summary, simulated = result.summary, anabranch.run(BULK, set=sets).summary
    # A write that is one packet there has 8 B of UDP more.
    assert summary["bulk.received_bytes"] == simulated["bulk.received_bytes"] == 2_000_000
    assert summary["bulk.completion_s"] == pytest.approx(simulated["bulk.completion_s"], rel=0.1)
    assert summary["bulk.sctp.b.messages_delivered"] == 1429
    assert summary["bulk.sctp.b.usrsctp.malformed_messages"] == 0
    assert summary["bulk.sctp.a.data_chunks_sent"] == 1429
    on_link = summary["link.wifi.forward.delivered_bytes"]
    assert on_link == pytest.approx(1429 * (1400 + 20 + 8 + 12 + 16), rel=0.05)
    # Each path's packets have the path's own addresses: nothing came by the other one.
    assert summary["link.lte.forward.delivered_packets"] < 10
    paths = result.traces["paths"].filter(pl.col("side") == "a", pl.col("path") == 0)
    windows = paths["cwnd_bytes"].to_list()
    assert max(windows) > 3 * windows[0]
    trips = paths["srtt_ms"].drop_nans().to_list()
    assert 20 <= min(trips) < 30
    assert max(trips) > 60
    assert set(paths["is_primary"].cast(pl.Int64)) == {1}


@able
def test_a_call_fails_over() -> None:
    sets = {"links.wifi.up": "{ timetable = [['0 s', true], ['1 s', false]] }"}
    result = testbed.run(CALL, set=sets, stack="usrsctp", trace=True)
    summary, simulated = result.summary, anabranch.run(CALL, set=sets).summary
    assert summary["call.sent"] == simulated["call.sent"]
    assert summary["call.sctp.b.messages_delivered"] == summary["call.received"] > 100
    assert summary["link.lte.forward.delivered_packets"] > 50
    assert summary["call.sctp.a.path_failures"] == simulated["call.sctp.a.path_failures"] == 1
    inactive = result.traces["events"].filter(pl.col("detail") == "path 0 is inactive")
    # After the second of two timeouts of 100 ms, each of which may be as late as the last packet.
    assert 1.2 < inactive["time_s"].item() < 2


@able
def test_settings_become_the_librarys_own() -> None:
    sets = {"links.wifi.up": "{ timetable = [['0 s', true], ['1 s', false]] }"}
    never = testbed.run(CALL, set=sets | {"flows.call.transport.path_max_retrans": 20},
                        stack="usrsctp").summary  # fmt: skip
    assert never["call.sctp.a.path_failures"] == 0
    large: dict[str, int | str] = {
        "links.wifi.queue.packets": 500,
        "flows.bulk.app.bytes": "1 MB",
    }
    every, second = (
        testbed.run(
            BULK, set=large | {"flows.bulk.transport.sack_frequency": frequency}, stack="usrsctp"
        ).summary["bulk.sctp.b.sacks_sent"]
        for frequency in (1, 2)
    )
    # Out of 715 packets with data.
    assert every > 700
    assert second < 500


@able
def test_it_speaks_ipv6_and_ends_as_it_began() -> None:
    sets = {"flows.bulk.ip": "ipv6", "flows.bulk.app.bytes": "100 kB"}
    result = testbed.run(BULK, set=sets, stack="usrsctp", trace=True)
    assert result.summary["bulk.received_bytes"] == 100_000
    program = usrsctp.program().name[:15]
    left = subprocess.run(["pgrep", program], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@able
@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (
            "transport.policy",
            "{ kind = 'delay_centric' }",
            r"transport.policy = .* usrsctp has no such",
        ),
        ("transport.rto_alpha", "0.5", r"transport.rto_alpha = 0.5: usrsctp has no such"),
        (
            "transport.valid_cookie_life",
            "1 ms",
            r"transport.valid_cookie_life: usrsctp does not take 1",
        ),
        ("transport", "{ kind = 'tcp' }", "none of them is SCTP"),
    ],
)
def test_what_it_lacks_is_a_sentence(key: str, value: str, sentence: str) -> None:
    with pytest.raises((LiveError, ScenarioError), match=sentence) as refused:
        testbed.run(BULK, set={f"flows.bulk.{key}": value}, stack="usrsctp")
    assert len(str(refused.value).splitlines()) == 1


def test_a_stack_that_is_none_is_a_sentence() -> None:
    with pytest.raises(AnabranchError, match="stack is `lwip`; it is `kernel` or `usrsctp`"):
        testbed.run(BULK, stack="lwip")  # type: ignore[arg-type]


def test_without_a_compiler_or_the_library_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LiveError, match=r"there is no `cc`; .* in gcc and libusrsctp-dev"):
        usrsctp.program()
    compiler = tmp_path / "cc"
    compiler.write_text(
        "#!/bin/sh\necho 'x.c:1: fatal error: usrsctp.h: No such file' >&2; exit 1\n"
    )
    compiler.chmod(0o755)
    with pytest.raises(LiveError, match=r"`cc` says: .*usrsctp.h: No such file") as refused:
        usrsctp.program()
    assert len(str(refused.value).splitlines()) == 1


@able
def test_it_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    built = usrsctp.program()
    assert os.access(built, os.X_OK)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert usrsctp.program() == built
    assert [path.name for path in built.parent.iterdir()] == [built.name]


@able
def test_the_command_says_what_it_ran_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, result = tmp_path / "bulk.toml", tmp_path / "result.json"
    scenario.write_text(BULK.replace("2 MB", "50 kB"))
    words = ["testbed", str(scenario), "--stack", "usrsctp"]
    assert cli.main([*words, "--json", str(result)]) == 0
    assert f"s with usrsctp on Linux {testbed.release()}" in capsys.readouterr().out
    kernel = json.loads(result.read_text())["kernel"]
    assert kernel == {"kind": "host", "release": testbed.release(), "sctp": "usrsctp"}
    assert cli.main([*words, "--out", str(tmp_path / "out")]) == 0
    (engine,) = anabranch.read(tmp_path / "out")["engine_version"]
    assert engine.endswith(f" with usrsctp on Linux {testbed.release()}")


def wait_until(count: int, path: Path) -> None:
    """Waits until this many programs run whose file is below that path."""
    for _ in range(600):
        command = ["pgrep", "-f", str(path)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if len(found.stdout.split()) == count:
            return
        time.sleep(0.1)
    raise AssertionError(f"not {count} programs, but: {found.stdout}")


@able
def test_nothing_is_left_of_one_that_is_killed(tmp_path: Path) -> None:
    scenario = tmp_path / "long.toml"
    scenario.write_text(BULK.replace("2 MB", "1 GB").replace("5 s", "1000 s"))
    words = [sys.executable, "-m", "anabranch", "testbed", str(scenario), "--stack", "usrsctp"]
    with subprocess.Popen(words, env=os.environ | {"HOME": str(tmp_path)}) as process:
        wait_until(2, tmp_path / ".cache" / "anabranch" / "usrsctp_end")
        process.kill()
    wait_until(0, tmp_path / ".cache")
