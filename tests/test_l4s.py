"""Prague over DualPI2: the law of its rate, UDP Prague's own shares, and the published pairs."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import anabranch
from anabranch import papers
from anabranch.papers import l4s_pairs
from anabranch.studies import qlog
from conftest import ROOT, Command, written

SCENARIO = Path(l4s_pairs.__file__).parent / "scenario.toml"

UDP_PRAGUE = {(160, 10): (3.90, 44.64), (80, 20): (5.97, 42.22), (20, 10): (24.64, 23.68)}
"""Round-trip times of two senders of UDP Prague (e8e3435) in ms -> their goodputs in Mbit/s, as
`validation/oracles/udp_prague.cpp` prints them."""


@pytest.fixture
def command(request: pytest.FixtureRequest) -> Command:
    """The command line; its fixture has the name of the package."""
    found: Command = request.getfixturevalue("anabranch")
    return found


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The paper's network, without its sweep."""
    file = tmp_path / "pair.toml"
    file.write_text(SCENARIO.read_text("utf-8").partition("\n[sweep]\n")[0], "utf-8")
    return file


def pair(
    scenario: Path,
    rtts: tuple[float, float],
    transport: dict[str, Any],
    more: dict[str, Any] | None = None,
    seed: int = 1,
) -> list[float]:
    """The goodputs of two flows with this transport in the last minute of three, in Mbit/s."""
    set_: dict[str, Any] = {
        "links.a.delay": f"{rtts[0] / 2} ms",
        "links.b.delay": f"{rtts[1] / 2} ms",
        "flows.one.transport": transport,
        "flows.two.transport": transport,
        **(more or {}),
    }
    found = anabranch.run(scenario, set=set_, seed=seed).summary
    return [found[f"{flow}.goodput_kbit_per_s"] / 1e3 for flow in ("one", "two")]


def test_unequal_paths_share_as_with_udp_prague(scenario: Path) -> None:
    """Packets of 1412 B, no delayed acknowledgements, and its beginning without an estimate."""
    cc = {"kind": "prague", "transition_rounds": 0, "initial_alpha": 0.0}
    transport = {
        "kind": "tcp", "profile": "rfc", "ecn": "l4s", "cc": cc, "ack_delay": "0 s",
        "mss": "1412 B",
    }  # fmt: skip
    theirs = UDP_PRAGUE[160, 10]
    ours = pair(scenario, (160, 10), transport)
    assert ours[1] / ours[0] == pytest.approx(theirs[1] / theirs[0], rel=0.2)
    # Shorter than 25 ms on both sides: equal shares.
    ours = pair(scenario, (20, 10), transport)
    assert ours[1] / ours[0] == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("noise", ["0.3 ms", "0.5 ms", "0.7 ms"])
def test_unequal_paths_share_as_published_where_timing_is_not_exact(
    scenario: Path, noise: str
) -> None:
    """29:1 and 15.8 beside 30.8 Mbit/s were measured, with control of round-trip times off."""
    cc = {"kind": "prague", "rtt_control": "off"}
    transport = {"kind": "tcp", "ecn": "l4s", "cc": cc}
    set_ = {"links.a.jitter": noise, "links.b.jitter": noise}
    one, two = pair(scenario, (160, 10), transport, set_)
    assert 25 <= two / one <= 35
    assert pair(scenario, (20, 10), transport, set_) == pytest.approx([15.84, 30.77], rel=0.1)


def test_equal_paths_have_equal_shares(scenario: Path) -> None:
    """As means: one run of a minute at 80 ms has a standard deviation of 2.5 %."""
    cc = {"kind": "prague", "rtt_control": "off"}
    transport = {"kind": "tcp", "ecn": "l4s", "cc": cc}
    for rtt in (10, 20, 80):
        found = [pair(scenario, (rtt, rtt), transport, seed=seed) for seed in range(1, 9)]
        one, two = (mean(shares) for shares in zip(*found, strict=True))
        assert one == pytest.approx(two, rel=0.03), rtt


@pytest.fixture(scope="module")
def udp_prague(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[float]]:
    """Its class in `validation/oracles/udp_prague.cpp`, built from its sources: what it prints."""
    folder = os.environ.get("ANABRANCH_UDP_PRAGUE")
    if not folder:
        pytest.skip("ANABRANCH_UDP_PRAGUE names no folder with the sources of UDP Prague")
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to build UDP Prague with")
    program = tmp_path_factory.mktemp("oracle") / "udp_prague"
    sources = [ROOT / "validation/oracles/udp_prague.cpp", Path(folder) / "prague_cc.cpp"]
    flags = ["-O2", "-std=c++17", "-include", "cstddef", "-I", folder]
    subprocess.run(["g++", *flags, *map(str, sources), "-o", program], check=True, timeout=300)

    def prints(*words: object) -> list[float]:
        line = [str(program), *map(str, words)]
        done = subprocess.run(line, check=True, capture_output=True, text=True, timeout=300)
        return [float(word) for word in done.stdout.split()]

    return prints


def test_the_shares_of_udp_prague_are_what_its_class_gives(
    udp_prague: Callable[..., list[float]],
) -> None:
    for rtts, expected in UDP_PRAGUE.items():
        assert udp_prague("pair", *rtts) == pytest.approx(expected, abs=0.01), rtts


def test_the_windows_of_udp_prague_are_what_its_class_gives(
    udp_prague: Callable[..., list[float]],
) -> None:
    """Those that Prague's own are held to within 1 %, in the Rust tests of `cc/prague.rs`."""
    source = ROOT / "crates/anabranch-transport/src/cc/prague.rs"
    table = source.read_text("utf-8").partition("const UDP_PRAGUE:")[2].partition("];\n\n")[0]
    cases = re.findall(r"\(\s*([\d_]+),\s*([\d_]+),\s*([\d_]+),\s*([\d_]+),\s*\[([^]]*)\]", table)
    assert len(cases) == 8
    for *fed, windows in cases:
        expected = [float(word) for word in windows.split(",")]
        assert udp_prague("feed", *map(int, fed)) == pytest.approx(expected, abs=5e-4), fed


MARKS = """
from collections import deque
from anabranch.plugins import QueueDiscipline

class Marks(QueueDiscipline):
    def __init__(self, setup, share):
        self.packets, self.share, self.sum = deque(), share, 0.0

    def enqueue(self, now, packet, drops):
        self.sum += self.share
        if self.sum >= 1:
            self.sum -= 1
            packet.mark()
        self.packets.append(packet)

    def dequeue(self, now, drops):
        return self.packets.popleft() if self.packets else None

    def clear(self, now, drops):
        self.packets.clear()
"""


def even_marks(folder: Path, share: float, transport: str, loss: float = 0.0) -> Path:
    """A download over 1 Gbit/s and 50 ms, with marks that are evenly spread and random losses."""
    (folder / "marks.py").write_text(MARKS, "utf-8")
    queue = f'{{ kind = "python", class = "marks.py:Marks", settings = {{ share = {share} }} }}'
    return written(
        folder / "law.toml",
        f"""
[run]
duration = "60 s"
warm_up = "30 s"
[links.c]
ends = ["a", "b"]
rate = "1 Gbit/s"
delay = "25 ms"
queue = {queue}
loss = {{ kind = "bernoulli", probability = {loss} }}
reverse = {{ queue = {{ kind = "drop_tail" }}, loss = {{ kind = "none" }} }}
[paths.p]
via = ["c"]
[flows.f]
from = "a"
to = "b"
paths = ["p"]
app = {{ kind = "bulk" }}
transport = {transport}
""",
    )


PRAGUE = 'cc = { kind = "prague", rtt_control = "off" }'


@pytest.mark.parametrize("share", [0.005, 0.02, 0.1, 0.2])
def test_the_rate_follows_the_share_of_marks(tmp_path: Path, share: float) -> None:
    """PI2's scalable law: rate = 2 / p x MSS / RTT for marks that are evenly spread, and 1 - p of
    that, as Prague grows for what is not marked only (section 2.3.3 of its draft)."""
    scenario = even_marks(tmp_path, share, f'{{ kind = "tcp", ecn = "l4s", {PRAGUE} }}')
    found = anabranch.run(scenario).summary
    marks = found["f.tcp.b.ce_received"] / found["f.tcp.b.packets_received"]
    assert marks == pytest.approx(share, rel=0.02)
    law = 2 * (1 - share) / share * 1448 * 8 / 50
    assert found["f.goodput_kbit_per_s"] == pytest.approx(law, rel=0.05)


@pytest.mark.parametrize(
    "transport",
    [
        f'{{ kind = "tcp", ecn = "l4s", {PRAGUE} }}',
        f'{{ kind = "tcp", profile = "linux_6", ecn = "l4s", {PRAGUE} }}',
        '{ kind = "tcp", ecn = "l4s", cc = { kind = "dctcp" } }',
        f'{{ kind = "quic", {PRAGUE} }}',
    ],
    ids=["prague", "linux_6", "dctcp", "quic"],
)
def test_a_loss_shrinks_a_window_that_marks_hold(tmp_path: Path, transport: str) -> None:
    """RFC 8257 section 3.5, RFC 9331 section 4.3: a loss counts in a round with marks as well.

    UDP Prague's class has windows of 18.5 segments with 10 % of marks alone, and of 11.7, 9.0 and
    6.7 with losses of 0.5, 1 and 2 % beside them.
    """

    def rate(marks: float, loss: float) -> float:
        file = even_marks(tmp_path, marks, transport, loss)
        return anabranch.run(file).summary["f.goodput_kbit_per_s"]

    alone = rate(0.1, 0)
    for loss, window in ((0.005, 11.7), (0.01, 9.0), (0.02, 6.7)):
        both = rate(0.1, loss)
        assert both < min(0.95 * alone, rate(0, loss)), loss
        if "prague" in transport:
            assert both / alone == pytest.approx(window / 18.5, rel=0.15), loss


def test_marks_are_what_explain_names(tmp_path: Path, command: Command) -> None:
    for loss in (0.0, 0.001):
        transport = f'{{ kind = "tcp", ecn = "l4s", {PRAGUE} }}'
        done = command("explain", even_marks(tmp_path, 0.1, transport, loss))
        assert done.returncode == 0, done.stderr
        assert "Main cause: marks, on p. A queue marks" in done.stdout, loss


def test_jains_index_is_that_of_the_tests(tmp_path: Path) -> None:
    assert l4s_pairs.jain(15.84, 30.77) == pytest.approx(0.907, abs=5e-4)
    paper = papers.load("l4s-pairs")
    found = paper.compute("smoke", paper.efforts["smoke"], tmp_path, 2)
    assert len(found.cells) == 144
    pairs = l4s_pairs.pairs(found)
    for first, second in pairs:
        axes = ("queue", "rtts", "first", "second")
        assert [first.key[axis] for axis in axes] == [second.key[axis] for axis in axes]
        assert (first.key["value"], second.key["value"]) == ("goodput1", "goodput2")
    over = [pair for pair in pairs if pair[0].key["queue"] == "dualpi2"]
    near = [all(abs(one.measured / one.published - 1) <= 0.2 for one in pair) for pair in over]
    assert len(over) == 24
    assert sum(near) >= 18
    assert sum(l4s_pairs._same_jain(pair) for pair in over) >= 20
    # Every cell is there: those that nobody published as well.
    assert found.rows["kernel2020"]["main"].frame.height == 90
    assert "Jain's index" in paper.record(found)


def test_prague_without_a_queue_that_marks_is_noted(scenario: Path, command: Command) -> None:
    """A note and no error, as any control may run over any queue."""
    assert "note" not in command("validate", scenario).stdout
    own = "links.c.queue"
    for queue, marks in (
        ("{ kind = 'drop_tail' }", False),
        ("{ kind = 'drop_tail', mark_packets = 20 }", True),
        ("{ kind = 'codel' }", False),
        ("{ kind = 'fq_codel', ecn = false }", False),
        ("{ kind = 'fq_codel' }", True),
        ("{ kind = 'token_bucket', rate = '9 Mbit/s', child = { kind = 'dualpi2' } }", True),
        ("{ kind = 'token_bucket', rate = '9 Mbit/s' }", False),
        ("{ kind = 'prio', bands = [{ queue = 'dualpi2' }] }", True),
        ("{ kind = 'prio' }", False),
    ):
        done = command("validate", scenario, "--set", f"{own}={queue}")
        assert done.returncode == 0, done.stderr
        notes = [line for line in done.stdout.splitlines() if ": note: " in line]
        assert len(notes) == (0 if marks else 2), queue
    sets = ("--set", "links.c.queue.kind=pie", "--set", "run.duration=1 s")
    done = command("run", scenario, *sets, "--set", "run.warm_up=0 s")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "note: flows.one: prague answers to marks, and no queue on its paths marks" in said


def test_prague_that_waits_with_the_others_is_noted(scenario: Path, command: Command) -> None:
    plain = "flows.one.transport.ecn=rfc3168"
    done = command("validate", scenario, "--set", "links.c.queue=dualpi2", "--set", plain)
    assert 'with ecn = "rfc3168" prague waits in the classic queue' in " ".join(done.stdout.split())
    cases = '\n[sweep.axes.q.cases]\nfirst = { "links.c.queue" = "dualpi2" }\n'
    cases += 'second = { "links.c.queue" = "drop_tail" }\n'
    scenario.write_text(scenario.read_text("utf-8") + cases, "utf-8")
    assert "no queue on its paths marks" in " ".join(command("validate", scenario).stdout.split())


def test_a_control_for_losses_in_the_queue_for_prague_is_noted(
    scenario: Path, command: Command
) -> None:
    dual = ("--set", "links.c.queue=dualpi2")
    for control, notes in (("cubic", 1), ("bbr", 1), ("dctcp", 0), ("prague", 0)):
        own = f'flows.one.transport={{ kind = "tcp", ecn = "l4s", cc = "{control}" }}'
        done = command("validate", scenario, *dual, "--set", own)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(": note: ") == notes, control
        assert ("answers each mark as a loss" in " ".join(done.stdout.split())) == bool(notes)


def test_an_option_of_accurate_ecn_without_accurate_ecn_is_noted(
    scenario: Path, command: Command
) -> None:
    for own, notes in (
        ('ecn = "off"', 1),
        ('ecn = "rfc3168"', 1),
        ("timestamps = true", 1),
        ('ecn = "accurate"', 0),
        ('cc = "prague"', 0),
        ('kind = "mptcp", tcp = { ecn_option = true }', 1),
        ('kind = "mptcp", tcp = { ecn_option = true, ecn = "accurate" }', 0),
    ):
        settings = own if "kind" in own else f'kind = "tcp", ecn_option = true, {own}'
        transport = f"{{ {settings} }}"
        words = ["--set", f"flows.one.transport={transport}"]
        done = command("validate", scenario, *words)
        assert done.returncode == 0, done.stderr
        said = " ".join(done.stdout.split())
        assert said.count("has the option that ecn_option is about") == notes, own


@pytest.mark.parametrize("kind", ["tcp", "mptcp", "quic"])
def test_traces_have_what_each_packet_says_of_congestion(
    kind: str, scenario: Path, tmp_path: Path
) -> None:
    own = {
        "tcp": 'cc = "prague"',
        "mptcp": 'cc = "prague", coupling = "per_path"',
        "quic": 'cc = "cubic", ecn = true',
    }
    transport = f'{{ kind = "{kind}", {own[kind]} }}'
    set_ = {
        "run.duration": "10 s",
        "run.warm_up": "0 s",
        "links.c.queue": '{ kind = "dualpi2", packets = 100 }',
        "flows.one.transport": transport,
        "flows.two.transport": '{ kind = "tcp", ecn = "off" }',
    }
    result = anabranch.run(scenario, set=set_, trace=True, seed=1)
    packets = result.traces["packets"]
    one = packets.filter(packets["payload_bytes"] > 1000, flow="one", side="a")
    said = "ect0" if kind == "quic" else "ect1"
    assert one.height > 1000
    assert set(one["ecn_sent"].unique()) <= {said, "not_ect"}
    assert one.filter(ecn_sent=said).height > 0.99 * one.height
    came = packets.filter(flow="one", side="a", fate="delivered")
    assert set(came.filter(ecn_sent=said)["ecn_delivered"].unique()) == {said, "ce"}
    assert set(came.filter(ecn_sent="not_ect")["ecn_delivered"].unique()) <= {"not_ect"}
    assert set(packets.filter(flow="two")["ecn_sent"].unique()) == {"not_ect"}
    lost = packets.filter(packets["fate"] != "delivered")
    assert lost.height > 0
    assert set(lost["ecn_delivered"].unique()) == {""}
    marks = came.filter(ecn_delivered="ce").height
    # Of Multipath TCP it is a scalar of the subflow.
    at = "subflow_0." if kind == "mptcp" else ""
    assert marks == result.summary[f"one.{kind}.b.{at}ce_received"]
    ends = result.traces["paths"].filter(flow="one")
    assert ends.filter(side="b")["ce_received"].max() == marks
    reported = result.summary[f"one.{kind}.a.{at}ce_reported"]
    assert 0 < reported <= marks
    assert ends.filter(side="a")["ce_reported"].max() == reported
    qlog.write(result, tmp_path / "run.sqlog")
    text = (tmp_path / "run.sqlog").read_text("utf-8")
    events = [json.loads(line) for line in text.split("\x1e")[2:]]
    received = [one for one in events if one["name"] == "transport:packet_received"]
    assert sum(one["data"].get("ecn") == "CE" for one in received) == marks
    assert not any(one["data"].get("ecn") for one in events if one["group_id"].startswith("two "))


def test_prague_over_multipath_tcp_fills_its_link_by_marks() -> None:
    """Its data waits above the subflow, and only the pace holds it back."""
    text = """
run.duration = "20 s"
run.warm_up = "5 s"
links.c = { ends = ["a", "b"], rate = "20 Mbit/s", delay = "10 ms", queue = { kind = "dualpi2" } }
paths.p.via = ["c"]
[flows.f]
from = "a"
to = "b"
paths = ["p"]
app.kind = "bulk"
transport = { kind = "mptcp", cc = { kind = "prague" }, coupling = "per_path" }
"""
    rates = {}
    for kind in ("mptcp", "tcp"):
        tcp = '"tcp", cc = { kind = "prague" } }'
        own = text if kind == "mptcp" else re.sub(r'"mptcp", cc.*', tcp, text)
        found = anabranch.run(own).summary
        rates[kind] = found["f.goodput_kbit_per_s"]
        assert found["link.c.forward.marked_packets"] > 100, kind
    assert rates["mptcp"] == pytest.approx(rates["tcp"], rel=0.05)
    with pytest.raises(anabranch.ScenarioError, match="use coupling"):
        anabranch.load(text.replace('"per_path"', '"lia"'))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            'ecn="off"',
            'ecn = "off" leaves cc.kind = "prague" without the marks that steer it; use "l4s"',
        ),
        (
            'cc.target_rtt="-5 ms"',
            'cc.target_rtt: `-5 ms` is not a length of time such as "20 ms", from 0 to 1e9 s'
            " (units: ns, us, ms, s, min, h)",
        ),
        ('cc.target_rtt="2 s"', "cc.target_rtt = 2 s is out of range; it must be from 1 ms to 1 s"),
        ('cc.target_rtt="0 s"', "cc.target_rtt = 0 s is out of range; it must be from 1 ms to 1 s"),
    ],
)
def test_settings_of_prague_that_cannot_be_are_a_sentence(
    scenario: Path, command: Command, change: str, sentence: str
) -> None:
    done = command("validate", scenario, "--set", f"flows.one.transport.{change}")
    assert done.returncode == 2
    message = " ".join(done.stderr.split())
    assert message == f"anabranch: error: {scenario}: flows.one.transport.{sentence}"


def test_udp_says_what_it_is_to_the_queue(command: Command) -> None:
    """Of calls and video in both queues, those that say ECT(1) wait a tenth as long."""
    file = ROOT / "scenarios" / "low-latency-access.toml"
    found = anabranch.run(file, seed=1).summary
    for flow in ("call", "video"):
        low, classic = (found[f"{flow}_{queue}.p99_delay_ms"] for queue in ("l4s", "classic"))
        assert low - 10 < (classic - 10) / 10, flow
        assert found[f"{flow}_l4s.udp.b.ce_received"] > 0
        assert f"{flow}_classic.udp.b.ce_received" not in found
    done = command("validate", file, "--set", 'flows.call_l4s.transport.ecn="yes"')
    assert done.returncode == 2
    message = " ".join(done.stderr.split())
    assert "flows.call_l4s.transport.ecn: unknown" in message
    assert all(f"`{value}`" in message for value in ("off", "ect0", "ect1"))
