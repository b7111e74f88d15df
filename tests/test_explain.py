"""`anabranch explain` names a known cause, and its sentences agree with its numbers."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import explain
from anabranch.explain import accounts, causes
from anabranch.studies import headline, nothing
from anabranch.studies.result import load, run
from anabranch.support.quantities import octets
from conftest import CALL, ROOT, Command, one_error

SCENARIO = """\
name = "known"
seed = 1

[run]
duration = "12 s"
warm_up = "2 s"

[links.first]
ends = ["server", "client"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = { kind = "drop_tail", packets = 50 }

[links.second]
ends = ["server", "client"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = { kind = "drop_tail", packets = 50 }

[paths.near]
via = ["first"]

[paths.far]
via = ["second"]

[flows.transfer]
from = "server"
to = "client"
paths = ["near", "far"]
app = { kind = "bulk" }
transport = { kind = "mptcp", send_buffer = "2 MB", receive_buffer = "2 MB" }
"""

TRANSPORT = "flows.transfer.transport"
SCTP = "{ kind = 'sctp', load_sharing = {}, send_buffer = '2 MB', receive_buffer = '2 MB' }"
TCP = "{ kind = 'tcp', send_buffer = '2 MB', receive_buffer = '2 MB' }"
NO_HELP = "{ buffer_splitting = 'off', chunk_rescheduling = 'off' }"
FAR = {"links.second.delay": "250 ms"}


def explained(sets: Mapping[str, str], **others: Any) -> explain.Explanation:
    return explain.explain(SCENARIO, set=sets, **others)


def test_two_full_paths_need_nothing() -> None:
    found = explained({})
    assert found.main.kind == "capacity"
    assert [cause.path for cause in found.causes] == ["near", "far"]
    one, other = found.alone
    assert found.value == pytest.approx(one.value + other.value, rel=0.05)
    assert "together faster than" in found.sentences()[1]


@pytest.mark.parametrize("transport", ["mptcp", "sctp", "tcp"])
def test_a_small_receive_buffer(transport: str) -> None:
    sets = {f"{TRANSPORT}.receive_buffer": "8 kB"}
    if transport != "mptcp":
        sets = {TRANSPORT: {"sctp": SCTP, "tcp": TCP}[transport], **sets}
    if transport == "sctp":
        sets["flows.transfer.app.write_size"] = "1400 B"
    found = explained({"flows.transfer.paths": "['near']", **sets})
    assert found.main.kind == "receive_window"
    # Twice 10 Mbit/s times a round-trip time of 20 ms, and of delayed acknowledgements.
    size = found.main.advice.removeprefix(f"Set {TRANSPORT}.receive_buffer to ").removesuffix(".")
    assert 50e3 <= octets(size) < 90e3
    assert found.alone == []
    # Its advice helps.
    again = explained(
        {"flows.transfer.paths": "['near']", **sets, f"{TRANSPORT}.receive_buffer": size}
    )
    assert again.value > 3 * found.value
    assert again.main.kind == "capacity"


@pytest.mark.parametrize(
    ("key", "whose"), [("max_stream_data", "a stream"), ("max_data", "the connection")]
)
def test_flow_control_of_quic(key: str, whose: str) -> None:
    """Which of its two limits holds data back, and an advice that helps."""
    sets = {"flows.transfer.paths": "['near']", TRANSPORT: "{ kind = 'quic' }"}
    found = explained({**sets, f"{TRANSPORT}.{key}": "8 kB"})
    assert found.main.kind == "receive_window"
    assert f"the flow control of {whose} ({key}) held data back" in found.main.text
    size = found.main.advice.removeprefix(f"Set {TRANSPORT}.{key} to ").removesuffix(".")
    again = explained({**sets, f"{TRANSPORT}.{key}": size})
    assert again.value > 3 * found.value
    assert again.main.kind == "capacity"


def test_streams_of_quic_wait_each_for_its_own() -> None:
    sets = {
        "flows.transfer.paths": "['near']",
        "flows.transfer.app": "{ kind = 'web', think_time = '100 ms' }",
        "links.first.loss": "{ kind = 'bernoulli', probability = '2 %' }",
    }
    receivers = []
    for transport in ("{ kind = 'quic' }", TCP):
        found = explained({**sets, TRANSPORT: transport})
        # The server of the pages is at the end `to`.
        receivers.append(found.flow.ends[0].receiver)
        streams = re.findall(r"on (\d+) streams, each for its own", " ".join(found.sentences()))
        assert streams == ([str(receivers[0].streams)] if transport != TCP else [])
    quic, tcp = receivers
    assert quic.streams > 4
    assert tcp.streams == 1
    assert quic.mean_bytes < tcp.mean_bytes / 2


@pytest.mark.parametrize(
    "sets",
    [
        {f"{TRANSPORT}.opportunistic_retransmission": "false"},
        {TRANSPORT: SCTP, f"{TRANSPORT}.load_sharing": NO_HELP},
    ],
    ids=["mptcp", "sctp"],
)
def test_a_far_path_blocks_the_near_one(sets: dict[str, str]) -> None:
    found = explained({**FAR, **sets, f"{TRANSPORT}.receive_buffer": "150 kB"})
    assert found.main.kind == "head_of_line"
    assert "sent on far" in next(cause.text for cause in found.causes if cause.path == "near")
    near = found.alone[0]
    assert found.value < 0.8 * near.value
    assert "together slower than near alone" in found.sentences()[1]
    receiver = found.flow.receiver.receiver
    assert receiver.missing["far"] > 5 * receiver.missing.get("near", 0.0)


def test_a_lossy_path() -> None:
    lossy = {"links.first.loss": "{ kind = 'bernoulli', probability = 0.05 }"}
    found = explained({TRANSPORT: TCP, "flows.transfer.paths": "['near']", **lossy})
    assert found.main.kind == "losses"
    path = found.flow.sender.paths[0]
    assert f"{path.recoveries} fast recover" in found.main.text
    assert path.recoveries > 10
    assert path.carried is not None
    assert f"lost {path.carried.lost} packets" in found.main.text
    assert "no congestion" in found.main.advice


def test_a_slow_application() -> None:
    slow = {"flows.transfer.app.write_size": "1 kB", "flows.transfer.app.write_cost": "20 ms"}
    found = explained(slow)
    assert {cause.kind for cause in found.causes} == {"application"}


def test_a_slow_reader() -> None:
    # The application reads half of the time.
    times = [f"['{i} s', {'true' if i % 2 else 'false'}]" for i in range(12)]
    reading = {"flows.transfer.app.reading": f"{{ timetable = [{', '.join(times)}] }}"}
    sets = {
        TRANSPORT: TCP,
        "flows.transfer.paths": "['near']",
        f"{TRANSPORT}.receive_buffer": "400 kB",
    }
    found = explained({**sets, **reading})
    assert found.main.kind == "slow_reader"


def test_messages_as_long_as_the_receive_buffer() -> None:
    sets = {TRANSPORT: SCTP, "flows.transfer.paths": "['near']"}
    found = explained({**sets, f"{TRANSPORT}.receive_buffer": "60 kB"})
    assert found.main.kind == "receive_window"
    assert "until they are whole" in found.main.advice


def test_a_small_send_buffer() -> None:
    small = {f"{TRANSPORT}.send_buffer": "8 kB", "flows.transfer.paths": "['near']"}
    found = explained(small)
    assert found.main.kind == "send_buffer"
    assert f"Set {TRANSPORT}.send_buffer to" in found.main.advice


def test_a_path_that_is_down() -> None:
    down = {"links.second.up": "{ timetable = [['0 s', true], ['3 s', false]] }"}
    found = explained({TRANSPORT: SCTP, f"{TRANSPORT}.path_max_retrans": "0", **down})
    assert next(cause for cause in found.causes if cause.path == "far").kind == "path_down"


@pytest.mark.parametrize("transport", ["quic", "tcp"])
@pytest.mark.parametrize("down", ["hold", "blackhole", "drop"])
def test_a_link_that_dies_is_no_late_packet(transport: str, down: str) -> None:
    """What a dead link keeps was neither lost by it nor dropped by its queue, and not late."""
    found = explained(
        {
            TRANSPORT: f"{{ kind = '{transport}' }}",
            "flows.transfer.paths": "['near']",
            "links.first.queue.packets": "3000",
            "links.first.up": "{ timetable = [['0 s', true], ['5 s', false]] }",
            "links.first.down": f"'{down}'",
        }
    )
    assert found.main.kind == "path_down"
    assert found.main.text.endswith("One of them was down for 7 s.")


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=6),
    st.one_of(st.none(), st.integers(1, 9)),
    st.lists(st.integers(0, 90), min_size=1, max_size=5),
)
def test_the_time_that_a_link_is_down(
    steps: list[tuple[int, bool]], beyond: int | None, times: list[int]
) -> None:
    """Beside a count of seconds."""
    starts = [0, *np.cumsum([length for length, _ in steps]).tolist()]
    values = [True, *(value for _, value in steps)]
    repeat = None if beyond is None else starts[-1] + beyond
    table = [[f"{start} s", value] for start, value in zip(starts, values, strict=True)]
    up: dict[str, Any] = {"timetable": table}
    if repeat is not None:
        up["repeat"] = f"{repeat} s"

    def is_down(second: int) -> bool:
        place = second if repeat is None else second % repeat
        return not values[max(i for i, start in enumerate(starts) if start <= place)]

    until = accounts.down_until(up, np.array(times, dtype=float))
    assert until.tolist() == pytest.approx([sum(map(is_down, range(time))) for time in times])


def test_a_connection_that_never_opens() -> None:
    lost = {f"links.{link}.loss.kind": "bernoulli" for link in ("first", "second")}
    lost |= {f"links.{link}.loss.probability": "1" for link in ("first", "second")}
    found = explained(lost)
    assert found.main.kind == "handshake"
    assert "never opened" in found.main.text
    assert found.main.advice == causes.UNOPENED


def test_shares_are_those_of_the_engine() -> None:
    found = explained(FAR, alone=False)
    for end in found.flow.ends:
        section = f"transfer.mptcp.{end.side}"
        pairs = [(section, end.connection)]
        pairs += [(f"{section}.path{i}", path) for i, path in enumerate(end.paths)]
        for name, account in pairs:
            for limit in accounts.LIMITS:
                own = found.result.summary[f"{name}.{limit}_share"]
                assert account.share(limit) == pytest.approx(own, abs=1e-9), (name, limit)
        assert end.connection.total == pytest.approx(10)


def test_a_call_stands_by_on_its_second_path() -> None:
    found = explain.explain(CALL)
    assert found.metric == "mos"
    # What held the sender back is not a cause for a call: see test_explain_calls.py.
    assert "application" not in {cause.kind for cause in found.causes}
    assert found.flow.sender.paths[1].share("standby") > 0


def test_flows_that_stand_for_several() -> None:
    found = explained({"flows.transfer.count": "2"}, flow="transfer_2", alone=False)
    assert found.flow.name == "transfer_2"


def test_a_path_that_cannot_be_alone_says_so() -> None:
    # A policy that needs two paths.
    found = explained(
        {TRANSPORT: SCTP, "paths.far.mtu": "600 B", f"{TRANSPORT}.load_sharing": "{}"}
    )
    assert all(one.problem or not math.isnan(one.value) for one in found.alone)


def test_the_figure_has_a_panel_a_path_and_one_for_the_receiver() -> None:
    found = explained(
        {**FAR, f"{TRANSPORT}.opportunistic_retransmission": "false"}
        | {f"{TRANSPORT}.receive_buffer": "150 kB"},
        alone=False,
    )
    figure = found.figure()
    assert len(figure.axes) == 3
    names = [{patch.get_gid() for patch in axes.patches} for axes in figure.axes]
    assert "receive_window_limited" in names[0]
    assert "waits-far" in names[2]


def test_the_command(anabranch: Command, tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    result = anabranch(
        "explain", file, "--plot", tmp_path / "figures", "--json", tmp_path / "why.json"
    )
    assert result.returncode == 0, result.stderr
    for text in ("near alone", "far alone", "cwnd_limited", "Main cause: capacity, on"):
        assert text in result.stdout
    assert (tmp_path / "figures" / "known-explain.png").stat().st_size > 10_000
    content = json.loads((tmp_path / "why.json").read_text("utf-8"))
    assert content["main_cause"]["kind"] == "capacity"
    assert set(content["ends"]["a"]["paths"]) == {"near", "far"}
    assert set(content["alone"]) == {"near", "far"}


def test_a_run_without_a_connection(anabranch: Command, tmp_path: Path) -> None:
    file = tmp_path / "udp.toml"
    without = CALL[: CALL.index("[flows.call.app]")]
    app = 'kind = "datagrams"\nsize = "160 B"\nrate = "64 kbit/s"\n'
    text = f'{without}[flows.call.app]\n{app}[flows.call.transport]\nkind = "udp"\n'
    file.write_text(text, encoding="utf-8")
    assert "no connection to account for" in one_error(anabranch("explain", file, "--no-alone"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--flow", "nobody"], "there is no flow `nobody`"),
        (["--plot", __file__], "is a file, not a folder"),
        (["--plot", "why", "--json", "./why"], "--plot and --json are both why"),
        (["--metric", "nothing"], "there is no scalar `transfer.nothing`"),
        (["--cell", "7"], "cell 7"),
    ],
)
def test_mistakes(anabranch: Command, arguments: list[str], words: str) -> None:
    scenario = ROOT / "scenarios" / "slow-second-path.toml"
    assert words in one_error(anabranch("explain", scenario, *arguments))


def test_the_page_has_what_is_printed() -> None:
    found = explain.explain(ROOT / "scenarios" / "slow-second-path.toml")
    page = (ROOT / "docs" / "explain.md").read_text("utf-8")
    for sentence in found.sentences():
        assert sentence in page


def test_the_page_lists_all_limits_and_causes() -> None:
    page = (ROOT / "docs" / "explain.md").read_text("utf-8")
    more = ["capacity", "marks", "slow_reader", "spurious_losses"]
    for name in [*accounts.LIMITS, *causes.GROUPS, *more]:
        assert f"`{name}`" in page


NOTHING = """\
name = "nothing"
seed = 1

[run]
duration = "20 s"

[links.l]
ends = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"

[paths.p]
via = ["l"]

[flows.f]
from = "a"
to = "b"
paths = ["p"]
transport = { kind = "sctp", send_buffer = "30 kB" }
app = { kind = "datagrams", rate = "10 kbit/s", size = "500 B", duration = "10 s", measure = true }
"""


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        ({}, "retransmission timeouts"),
        ({"flows.f.app.reliability": "{ timed = '100 ms' }"}, "given up"),
        ({"flows.f.transport.association_max_retrans": "1"}, "not open"),
    ],
)
def test_a_flow_that_delivers_nothing_says_why(sets: dict[str, str], reason: str) -> None:
    # the link goes down for good before the first message
    down = {"links.l.up": "{ timetable = [['0 s', true], ['0.5 s', false]] }"}
    sets = {**sets, **down, "flows.f.app.start": "'1 s'"}
    result = run(load(NOTHING, sets))
    why = nothing.why(result.summary, "f")
    assert reason in why
    assert any(why in line for line in headline.lines(result))
    told = explain.explain(NOTHING, set=sets)
    assert told.main.kind in {"nothing_arrived", "path_down"}


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"sent": 5, "received": 1}, ""),
        ({}, ""),
        ({"sent": 0, "received": 0}, "made nothing"),
        ({"sent": 5, "received": 0, "unsent": 5}, "not open"),
        ({"sent": 5, "received": 0, "refused": 4}, "4 refused, .* and 1 still on their way"),
        ({"sent": 5, "received": 0, "abandoned": 5}, "5 given up"),
        ({"started": 3, "completed": 0, "failed": 3}, "3 exchanges failed"),
        (
            {"sent": 5, "received": 0, "sctp.b.data_chunks_received": 7},
            "7 chunks did, but no",
        ),
        ({"sent_bytes": 5, "received_bytes": 0, "tcp.a.timeouts": 2}, "2 retransmission timeouts"),
        ({"sent_bytes": 5, "received_bytes": 0}, "all that was sent was lost"),
    ],
)
def test_why_nothing_arrived(counts: dict[str, float], words: str) -> None:
    why = nothing.why({f"f.{name}": value for name, value in counts.items()}, "f")
    assert bool(why) == bool(words)
    assert re.search(words, why)
