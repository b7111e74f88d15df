"""`anabranch run --qlog`: every event is one of its schema, and says what the run's traces do."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import anabranch
from anabranch import Result
from anabranch.errors import AnabranchError
from anabranch.studies import qlog
from conftest import Command, one_error
from qlog_schema import Event, QlogFile, QlogFileSeq, data_of
from support.two_links import two_links

SCENARIOS = Path(__file__).parent.parent / "scenarios"
BULK = '{ kind = "bulk" }'
CALL = '{ kind = "voip", start = "0 s", duration = "4 s" }'
KINDS = {
    "tcp": ('["p"]', '{ kind = "tcp" }', BULK),
    "mptcp": ('["p", "q"]', '{ kind = "mptcp" }', BULK),
    "quic": ('["p"]', '{ kind = "quic" }', BULK),
    "sctp": ('["p", "q"]', '{ kind = "sctp", load_sharing = {} }', BULK),
    "udp": ('["p"]', '{ kind = "udp", rtp = true }', CALL),
}


def scenario_of(kind: str) -> str:
    return two_links(*KINDS[kind], duration="6 s", of_one='duplicate = "0.3 %"')


def traced(kind: str) -> Result:
    return anabranch.run(anabranch.load(scenario_of(kind)), trace=True)


def sequence(file: Path) -> tuple[QlogFileSeq, list[Event]]:
    """A JSON text sequence (RFC 7464), checked."""
    content = file.read_bytes()
    assert content.startswith(b"\x1e")
    assert content.endswith(b"\n")
    head, *records = (json.loads(record) for record in content.split(b"\x1e")[1:])
    assert b'"serialization_format"' in content[:256]
    # What qvis asks for; the draft's schema knows neither.
    assert (head.pop("qlog_version"), head.pop("qlog_format")) == ("0.3", "JSON-SEQ")
    return QlogFileSeq.model_validate(head), [Event.model_validate(record) for record in records]


def document(file: Path) -> QlogFile:
    content = json.loads(file.read_bytes())
    assert (content.pop("qlog_version"), content.pop("qlog_format")) == ("0.3", "JSON")
    return QlogFile.model_validate(content)


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A transport, its run, and the run as qlog."""
    result = traced(request.param)
    file = tmp_path_factory.mktemp("qlog") / "run.sqlog"
    qlog.write(result, file)
    return request.param, result, file


def test_every_event_is_one_of_its_schema(run: tuple[str, Result, Path]) -> None:
    kind, result, file = run
    head, events = sequence(file)
    namespaces = {event.name.partition(":")[0] for event in events}
    listed = {uri.rpartition(":")[2] for uri in head.trace.event_schemas}
    assert namespaces <= listed == {"transport", "recovery", kind}
    for event in events:
        data_of(event)
    # Tools split a file by its groups: all events have one.
    assert all(event.group_id for event in events)
    times = [event.time for event in events]
    assert times == sorted(times)
    assert head.title == result.scenario.name


def test_both_forms_have_the_same_events(run: tuple[str, Result, Path], tmp_path: Path) -> None:
    _, result, file = run
    qlog.write(result, tmp_path / "run.qlog")
    traces = document(tmp_path / "run.qlog").traces
    assert traces is not None
    _, events = sequence(file)
    by_group: dict[str | None, list[Event]] = defaultdict(list)
    for event in events:
        by_group[event.group_id].append(event.model_copy(update={"group_id": None}))
    assert {trace.title: trace.events for trace in traces} == by_group
    assert {trace.vantage_point.type for trace in traces if trace.vantage_point} <= {
        "client",
        "server",
    }


def test_packets_are_those_of_the_trace(run: tuple[str, Result, Path]) -> None:
    kind, result, file = run
    _, events = sequence(file)
    packets = result.traces["packets"]
    sent = [event.data for event in events if event.name == "transport:packet_sent"]
    first = packets.filter(~pl.col("is_copy"))
    assert packets.height > first.height or kind == "udp"
    assert len(sent) == first.height
    assert sum(data["raw"]["length"] for data in sent) == first["size_bytes"].sum()
    assert sorted(data["fate"] for data in sent) == sorted(first["fate"])
    came = [event.data for event in events if event.name == "transport:packet_received"]
    assert sum("raw" in data for data in came) == packets.filter(fate="delivered").height
    told = [event for event in events if event.name.startswith(f"{kind}:")]
    assert len(told) == result.traces["events"].height


def test_what_is_acknowledged_had_come_and_is_so_once(run: tuple[str, Result, Path]) -> None:
    kind, _, file = run
    _, events = sequence(file)
    fates: dict[str | None, dict[int, Any]] = defaultdict(dict)
    acked: dict[str | None, dict[int, float]] = defaultdict(dict)
    lost: dict[str | None, dict[int, float]] = defaultdict(dict)
    for event in events:
        header = event.data.get("header", {})
        group = event.group_id
        if event.name == "transport:packet_sent":
            assert header["packet_number"] == len(fates[group])
            fates[group][header["packet_number"]] = event
        elif event.name == "recovery:packet_lost":
            assert header["packet_number"] not in lost[group]
            lost[group][header["packet_number"]] = event.time
        for frame in event.data.get("frames", []):
            for begin, end in frame["acked_ranges"]:
                for number in range(begin, end + 1):
                    # It was sent, it had come, and nothing acknowledged it before.
                    assert fates[group][number].data["fate"] == "delivered"
                    assert number not in acked[group]
                    acked[group][number] = event.time
    if kind == "udp":
        assert not any(acked.values())
        assert not any(lost.values())
        assert not any("is_retransmission" in event.data for event in events)
        return
    end_ms = max(event.time for event in events)
    for group, packets in fates.items():
        for number, event in packets.items():
            data = event.data
            if data["raw"]["payload_length"] == 0 or event.time > end_ms - 1500:
                continue
            # Whatever came is acknowledged in the end, and what did not is given up.
            if data["fate"] == "delivered":
                assert number in acked[group], (group, event)
            else:
                assert number in lost[group], (group, event)
    assert sum(map(len, lost.values())) >= 5


def test_losses_of_quic_are_those_that_its_sender_counts(tmp_path: Path) -> None:
    """By number and by time (RFC 9002 section 6.1)."""
    for threshold, replication in [(3, 0), (3, 1), (20, 2)]:
        chosen: dict[str, str | float] = {
            "run.duration": "10 s",
            "flows.upload.transport.packet_threshold": threshold,
        }
        file = SCENARIOS / "quic-upload.toml"
        result = anabranch.run(file, set=chosen, replication=replication, trace=True)
        qlog.write(result, tmp_path / "run.sqlog")
        _, events = sequence(tmp_path / "run.sqlog")
        lost = [event for event in events if event.name == "recovery:packet_lost"]
        assert len(lost) == result.summary["upload.quic.a.packets_lost"] > 10


@pytest.mark.parametrize("ack_path", ["same", "first", "fastest"])
def test_each_path_of_quic_has_what_its_packets_came_to(tmp_path: Path, ack_path: str) -> None:
    """Each path has numbers of its own, wherever they are acknowledged (RFC 10069)."""
    chosen: dict[str, str | float] = {
        "flows.load.transport.multipath": "true", "flows.load.transport.ack_path": ack_path,
    }  # fmt: skip
    text = two_links('["p", "q"]', '{ kind = "quic" }', BULK, duration="6 s")
    result = anabranch.run(anabranch.load(text, chosen), trace=True)
    qlog.write(result, tmp_path / "run.sqlog")
    _, events = sequence(tmp_path / "run.sqlog")
    lost = [
        event for event in events
        if event.name == "recovery:packet_lost" and str(event.group_id).startswith("load at a")
    ]  # fmt: skip
    assert len(lost) == result.summary["load.quic.a.packets_lost"] > 10
    of_paths: dict[str | None, set[int]] = defaultdict(set)
    sent: dict[str | None, dict[int, Any]] = defaultdict(dict)
    for event in events:
        if event.name == "transport:packet_sent":
            sent[event.group_id][event.data["header"]["packet_number"]] = event
        for frame in event.data.get("frames", []):
            for begin, end in frame["acked_ranges"]:
                of_paths[event.group_id] |= set(range(begin, end + 1))
    for path in ("p", "q"):
        group = f"load at a over {path}"
        fates = {number: one.data["fate"] for number, one in sent[group].items()}
        assert {fates[number] for number in of_paths[group]} == {"delivered"}
        early = [
            number
            for number, one in sent[group].items()
            if 1000 < one.time < 4500 and one.data["raw"]["payload_length"] > 0
            and fates[number] == "delivered"
        ]  # fmt: skip
        assert len(early) > 200
        assert set(early) <= of_paths[group]


def test_metrics_are_those_of_the_traces(run: tuple[str, Result, Path]) -> None:
    kind, result, file = run
    _, events = sequence(file)
    state: dict[str | None, dict[str, float]] = defaultdict(dict)
    least: dict[str | None, float] = {}
    for event in events:
        if event.name != "recovery:metrics_updated":
            continue
        assert event.data.items() - state[event.group_id].items(), "nothing is new in it"
        state[event.group_id] |= event.data
        if "min_rtt" in event.data:
            assert event.data["min_rtt"] < least.get(event.group_id, 1e9)
            least[event.group_id] = event.data["min_rtt"]
    if kind == "udp":
        assert not state
        return
    # The least round trip is the path's, with the time of a packet on the link. A SACK about the
    # slow path's packets may come over the fast one.
    names = {"p": 40.0, "q": 60.0 if kind == "sctp" else 80.0}
    several = KINDS[kind][0] != '["p"]'
    for path, delay_ms in list(names.items())[: 2 if several else 1]:
        group = "load at a" + (f" over {path}" if several else "")
        last = (
            result.traces["paths"]
            .filter((pl.col("side") == "a") & (pl.col("path") == "pq".index(path)))
            .row(-1, named=True)
        )
        assert state[group]["congestion_window"] == last["cwnd_bytes"]
        assert state[group]["bytes_in_flight"] == last["outstanding_bytes"]
        assert state[group]["smoothed_rtt"] == last["srtt_ms"]
        assert delay_ms < least[group] < delay_ms + 15
        assert state[group]["latest_rtt"] >= least[group]


def test_the_command_writes_it_and_says_what_is_wrong(
    tmp_path: Path, anabranch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = tmp_path / "links.toml"
    scenario.write_text(scenario_of("tcp"), encoding="utf-8")
    file = tmp_path / "out.sqlog"
    done = anabranch("run", scenario, "--qlog", file, "--json", tmp_path / "with.json")
    assert done.returncode == 0, done.stderr
    assert f"wrote {file}" in done.stdout
    qlog.write(traced("tcp"), tmp_path / "same.sqlog")
    assert file.read_bytes() == (tmp_path / "same.sqlog").read_bytes()
    message = one_error(anabranch("run", scenario, "--qlog", tmp_path / "out.json"))
    assert "the name must end in .sqlog (a record for each event) or .qlog" in message
    message = one_error(anabranch("run", scenario, "--qlog", file, "--pcap", file))
    assert "--pcap and --qlog are both" in message
    with pytest.raises(AnabranchError, match="kept no traces"):
        qlog.write(_plain(scenario_of("tcp")), tmp_path / "none.sqlog")

    def stopped(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(qlog, "_packet", stopped)
    before = file.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        qlog.write(traced("tcp"), file)
    assert file.read_bytes() == before
    assert not list(tmp_path.glob(".out.sqlog.*"))


def _plain(text: str) -> Result:
    return anabranch.run(anabranch.load(text))
