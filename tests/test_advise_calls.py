"""`anabranch advise` on a call in RTP: what a SIP or WebRTC engineer can set, and would."""

import re
import shlex
from pathlib import Path

import pytest

from anabranch import advise, cli
from anabranch.advise import search, tables

SMALL = search.Effort(screened=24, first=2, last=12)

# An uplink of 2 Mbit/s whose queue holds 1.2 s, and bursts of an upload that fill it.
BLOATED = """
[links.dsl]
rate = "2 Mbit/s"
delay = "15 ms"
queue = { kind = "drop_tail", packets = 200 }
cross_traffic = [{ kind = "on_off", rate = "4 Mbit/s", packet = "1500 B", on = "1 s", off = "2 s" }]
"""

BURSTY = """
[links.wan]
rate = "10 Mbit/s"
delay = "20 ms"
loss = { kind = "gilbert", mean_loss = "2 %", mean_bad = "60 ms" }
"""

WIFI = """
[links.wifi]
rate = "20 Mbit/s"
delay = "10 ms"
jitter = "220 ms"
reorder = true
"""

TWO_PATHS = """
[links.dsl]
rate = "5 Mbit/s"
delay = "20 ms"
loss = { kind = "gilbert", mean_loss = "4 %", mean_bad = "60 ms" }

[links.lte]
rate = "5 Mbit/s"
delay = "40 ms"
loss = { kind = "gilbert", mean_loss = "4 %", mean_bad = "60 ms" }
"""


def advised(folder: Path, text: str) -> advise.Advice:
    file = folder / "paths.toml"
    file.write_text(text)
    return advise.advise(file, "mos", transport="udp", effort=SMALL)


def test_a_bloated_access_link_gets_a_queue_that_separates_flows(tmp_path: Path) -> None:
    found = advised(tmp_path, BLOATED)
    assert found.recommended["queue"] in ("fq_codel", "cake", "prio"), tables.conclusion(found)
    gain, half_width = found.gain
    assert gain - half_width > 1
    assert any(line.startswith("tc qdisc replace") for line in found.paste.commands)
    # A codec of an eighth of the rate does not repair a queue.
    assert found.recommended["codec"] == "default"


def test_bursty_losses_are_concealed_and_not_repaired(tmp_path: Path) -> None:
    """One path has nothing against losses but concealment, which the usual codec has."""
    found = advised(tmp_path, BURSTY)
    assert found.recommended["codec"] == "default"
    codec = next(one for one in found.effects if one.setting.name == "codec")
    assert codec.verdict == "matters"
    mean, half_width = codec.changes["amr-12.2"]
    assert mean + half_width < 0
    assert found.recommended["packetisation"] in ("default", "10 ms")


def test_jitter_gets_a_deeper_buffer(tmp_path: Path) -> None:
    found = advised(tmp_path, WIFI)
    assert found.recommended["jitter_buffer"] in (
        "fixed, 150 ms",
        "fixed, 200 ms",
        "fixed, 300 ms",
        "adaptive",
    )
    gain, half_width = found.gain
    assert gain - half_width > 0.1
    assert any("jitter buffer of both ends" in line for line in found.paste.call)


LOSSY_CALL = """
[links.wan]
ends = ["phone", "office"]
rate = "2 Mbit/s"
delay = "20 ms"
jitter = "30 ms"
loss = { kind = "gilbert", mean_loss = "6 %", mean_bad = "60 ms" }

[paths.wan]
via = ["wan"]

[flows.call]
from = "phone"
to = "office"
paths = ["wan"]
transport = { kind = "udp", rtp = true }
app = { kind = "voip", start = "1 s", duration = "60 s" }
"""


def test_explain_goes_on_to_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands that it prints for a capture with a bad call are ones that work."""
    monkeypatch.setattr(advise, "QUICK", search.Effort(4, 2, 4))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "call.toml").write_text(LOSSY_CALL)
    assert cli.main(["run", "call.toml", "--pcap", "my call.pcapng", "--pcap-at", "all"]) == 0
    capsys.readouterr()
    assert cli.main(["explain", "my call.pcapng", "--codec", "g711+plc"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    commands = re.findall(r"`anabranch ((?:profile|advise) [^`]*)`", printed)
    assert [one.split()[0] for one in commands] == ["profile", "advise"], printed
    for command in commands:
        assert cli.main(shlex.split(command)) == 0, command
    assert "MOS of a G.711 call of 60 s over udp" in capsys.readouterr().out


def test_over_two_lossy_paths_each_packet_is_sent_on_both(tmp_path: Path) -> None:
    found = advised(tmp_path, TWO_PATHS)
    assert found.recommended["paths"] == "dsl and lte"
    gain, half_width = found.gain
    assert gain - half_width > 0.1
    assert any("on each of the two paths" in cost for cost in found.paste.costs)
