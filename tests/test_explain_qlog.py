"""`anabranch explain FILE.sqlog` says of one end's qlog what it says: of others and of ours."""

import gzip
import itertools
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch.errors import AnabranchError
from anabranch.explain import accounts, qlogs
from anabranch.explain.qlogs import kept, records
from anabranch.studies import qlog
from conftest import Command, one_error
from support.two_links import two_links

Events = list[tuple[float, str, dict[str, Any]]]
"""Times in ms, names without their category, data."""

RS = "\x1e"
HEAD_03 = {
    "qlog_version": "0.3",
    "qlog_format": "JSON-SEQ",
    "trace": {
        "vantage_point": {"type": "client"},
        "common_fields": {"group_id": "0a1b", "time_format": "relative", "reference_time": 1.7e12},
    },
}
HEAD_NEW = {
    "file_schema": "urn:ietf:params:qlog:file:sequential",
    "serialization_format": "application/qlog+json-seq",
    "trace": {
        "event_schemas": ["urn:ietf:params:qlog:events:quic-12"],
        "vantage_point": {"type": "client"},
        "common_fields": {"group_id": "0a1b", "time_format": "relative_to_epoch"},
    },
}


def sent(number: int, length: Any = 1200, *frames: dict[str, Any], kind: str = "1RTT") -> Any:
    header = {"packet_type": kind, "packet_number": number}
    return {"header": header, "raw": {"length": length}, "frames": list(frames)}


def stream(offset: int, length: int = 1000, stream_id: int = 0) -> dict[str, Any]:
    frame = {"frame_type": "stream", "stream_id": stream_id, "offset": offset}
    return {**frame, "raw": {"payload_length": length}}


def ack(*ranges: list[Any]) -> dict[str, Any]:
    return {"frame_type": "ack", "acked_ranges": list(ranges)}


def transfer() -> Events:
    """A handshake, packets of which two are taken for lost, one of them wrongly, and a close."""
    events: Events = [
        (0, "packet_sent", sent(0, 1200, {"frame_type": "crypto"}, kind="initial")),
        (40, "packet_received", sent(0, 1200, {"frame_type": "crypto"}, ack([0]), kind="initial")),
        (41, "metrics_updated", {"latest_rtt": 40, "congestion_window": 12000}),
    ]
    events += [(50, "packet_sent", sent(n, 1050, stream(1000 * n))) for n in range(10)]
    events += [
        (90, "packet_received", sent(1, 40, ack([0, 2], [5, 9]))),
        (90, "metrics_updated", {"latest_rtt": 42.5, "congestion_window": 12000}),
        (90, "packet_lost", {"header": {"packet_type": "1RTT", "packet_number": 3}}),
        (90, "packet_lost", {
            "header": {"packet_type": "1RTT", "packet_number": 4}, "trigger": "time_threshold",
        }),
        (91, "packet_sent", sent(10, 1050, stream(3000), stream(4000))),
        (100, "packet_received", sent(2, 40, ack([0, 3], [5, 9]))),
        (100, "packet_sent", sent(11, 40, {"frame_type": "data_blocked", "limit": 10000})),
        (131, "packet_received", sent(3, 40, ack([0, 3], [5, 11]), {"frame_type": "max_data"})),
        (200, "metrics_updated", {"pto_count": 1}),
        (210, "metrics_updated", {"pto_count": 0}),
        (250, "marked_by_somebody", {"what": [1, 2]}),
        (300, "connection_closed", {
            "initiator": "remote", "connection_error": "flow_control_error", "reason": "too much",
        }),
    ]  # fmt: skip
    return events


def sequence(
    events: Iterable[tuple[float, str, Any]], head: dict[str, Any] = HEAD_03, mark: str = RS
) -> str:
    """A JSON-SEQ file, with the names of 0.3."""
    lines = [head]
    for time, name, data in events:
        category = "recovery" if name in {"metrics_updated", "packet_lost"} else "transport"
        lines.append({"time": time, "name": f"{category}:{name}", "data": data})
    return "".join(f"{mark}{json.dumps(line)}\n" for line in lines)


def explained(folder: Path, content: str | bytes, name: str = "one.sqlog") -> qlogs.Explained:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = qlogs.explain(file)
    assert len(found.connections) == 1
    return found.connections[0]


def check_transfer(found: qlogs.Explained) -> None:
    """What the events of `transfer` say, whatever form they have."""
    tree = found.as_json()
    assert tree["events"] == len(transfer())
    assert tree["is_sender"]
    assert tree["handshake_s"] == pytest.approx(0.05)
    assert tree["sent"]["data_bytes"] == 10_000
    assert tree["sent"]["goodput_bit_per_s"] == pytest.approx(80_000 / 0.081)
    assert tree["sent"]["packets"] == 13
    assert tree["received"]["packets"] == 4
    assert tree["lost"] == {"": 1, "time_threshold": 1}
    assert tree["spurious"] == 1
    assert tree["round_trips_ms"]["least_ms"] == 40
    assert tree["round_trips_ms"]["most_ms"] == 2.5
    assert tree["timeouts"] == 1
    assert tree["recoveries"] == 1
    assert tree["seconds"]["in_timeout"] == pytest.approx(0.01)
    assert tree["seconds"]["in_recovery"] == pytest.approx(0.041)
    assert tree["seconds"]["application_limited"] == pytest.approx(0.159)
    assert sum(tree["seconds"].values()) == pytest.approx(0.3)
    assert tree["blocked"] == {"data_blocked": 1}
    assert tree["unknown_events"] == {"marked_by_somebody": 1}
    close = tree["close"]
    assert (close["by"], close["code"]) == ("remote", "flow_control_error")
    text = "\n".join(found.sentences())
    assert "2 of 13 packets sent were taken for lost" in text
    assert "1 of them were acknowledged after all" in text
    assert "The other end closed the connection at 0.3 s" in text
    assert "“too much”" in text


def test_a_sequence_of_0_3(tmp_path: Path) -> None:
    check_transfer(explained(tmp_path, sequence(transfer())))


def test_a_sequence_without_marks(tmp_path: Path) -> None:
    check_transfer(explained(tmp_path, sequence(transfer(), mark="")))


def test_records_over_several_lines(tmp_path: Path) -> None:
    """RFC 7464: a JSON text ends where the next mark is, not at the end of a line."""
    texts = sequence(transfer()).split(RS)[1:]
    pretty = "".join(f"{RS}{json.dumps(json.loads(text), indent=1)}\n" for text in texts)
    check_transfer(explained(tmp_path, pretty))


def test_packed_with_gzip(tmp_path: Path) -> None:
    check_transfer(explained(tmp_path, gzip.compress(sequence(transfer()).encode()), "a.sqlog.gz"))


def test_the_newer_drafts_with_times_since_the_event_before(tmp_path: Path) -> None:
    head = json.loads(json.dumps(HEAD_NEW))
    head["trace"]["common_fields"]["time_format"] = "relative_to_previous_event"
    renamed = {"metrics_updated": "recovery_metrics_updated"}
    lines, last = [head], 0.0
    for time, name, data in transfer():
        new = renamed.get(name, name)
        lines.append({"time": time - last, "name": f"quic:{new}", "data": data})
        last = time
    check_transfer(explained(tmp_path, "".join(f"{RS}{json.dumps(one)}\n" for one in lines)))


def test_a_document_with_absolute_times(tmp_path: Path) -> None:
    events = [
        {"time": 1.7e12 + time, "name": f"transport:{name}", "data": data}
        for time, name, data in transfer()
    ]
    trace = {"vantage_point": {"type": "client"}, "events": events}
    document = {"qlog_version": "0.3", "qlog_format": "JSON", "traces": [trace]}
    for indent in (None, 1):
        check_transfer(explained(tmp_path, json.dumps(document, indent=indent), "one.qlog"))


def test_arrays_in_microseconds_as_picoquic_writes_them(tmp_path: Path) -> None:
    events = []
    for time, name, told in transfer():
        data = json.loads(json.dumps(told))
        if "latest_rtt" in data:
            data["latest_rtt"] *= 1000
        if "raw" in data:
            data["packet_type"] = data["header"].pop("packet_type")
            data["header"]["packet_size"] = data.pop("raw")["length"]
        events.append([time * 1000, "transport", name, data])
    trace = {
        "vantage_point": {"type": "client"},
        "event_fields": ["relative_time", "category", "event", "data"],
        "configuration": {"time_units": "us"},
        "common_fields": {"reference_time": "11001"},
        "events": events,
    }
    document = {"qlog_version": "draft-00", "title": "picoquic", "traces": [trace]}
    check_transfer(explained(tmp_path, json.dumps(document), "one.qlog"))


def test_names_and_texts_for_numbers_as_mvfst_writes_them(tmp_path: Path) -> None:
    def packet(number: int, **more: Any) -> dict[str, Any]:
        return {"header": {"packet_number": number, "packet_size": 1000}, "packet_type": "1RTT",
                "frames": [{"frame_type": "stream", "id": 0, "length": 900,
                            "offset": 900 * number}], **more}  # fmt: skip

    events = [["0", "transport", "packet_sent", packet(0)]]
    events += [["10", "transport", "packet_sent", packet(number)] for number in (1, 2, 3)]
    events += [
        ["20000", "transport", "packet_ack", {"packet_num_space": "AppData", "packet_num": number}]
        for number in (0, 1)
    ]
    events += [
        ["20000", "recovery", "metric_update", {"latest_rtt": 20000, "smoothed_rtt": 21000}],
        ["20000", "metric_update", "congestion_metric_update",
         {"bytes_in_flight": 1000, "current_cwnd": 10_000}],
        ["30000", "loss", "packets_lost", {"largest_lost_packet_num": 3, "lost_packets": 2}],
    ]  # fmt: skip
    trace = {
        "vantage_point": {"type": "server", "name": "server"},
        "event_fields": ["relative_time", "category", "event_type", "data"],
        "configuration": {"time_units": "us"},
        "events": events,
    }
    document = {"qlog_version": "draft-00", "traces": [trace]}
    tree = explained(tmp_path, json.dumps(document), "one.qlog").as_json()
    assert tree["lost"] == {"": 2}
    assert tree["sent"]["data_bytes"] == 1800
    assert tree["round_trips_ms"]["least_ms"] == 20


def test_what_flow_control_holds_back(tmp_path: Path) -> None:
    blocked = {"frame_type": "stream_data_blocked", "stream_id": 4, "limit": 1000}
    freed = {"frame_type": "max_stream_data", "stream_id": 4, "maximum": 2000}
    of_another = {**freed, "stream_id": 8}
    events: Events = [
        (0, "packet_sent", sent(0, 1000, stream(0, stream_id=4))),
        (10, "packet_sent", sent(1, 30, blocked)),
        (20, "packet_received", sent(0, 40, ack([0, 1]), of_another)),
        (110, "packet_received", sent(1, 40, freed)),
        (120, "packet_sent", sent(2, 1000, stream(1000, stream_id=4))),
        (140, "packet_received", sent(2, 40, ack([0, 2]))),
    ]
    found = explained(tmp_path, sequence(events))
    assert found.connection.held.seconds["receive_window_limited"] == pytest.approx(0.1)
    assert found.main is not None
    assert found.main.kind == "receive_window"
    assert any("1 STREAM_DATA_BLOCKED" in line for line in found.sentences())


def test_the_congestion_window_and_the_events_that_name_a_reason(tmp_path: Path) -> None:
    events: Events = [
        (0, "metrics_updated", {"congestion_window": 2400}),
        (0, "packet_sent", sent(0, 1200, stream(0))),
        (0, "packet_sent", sent(1, 1200, stream(1000))),
        (100, "packet_received", sent(0, 40, ack([0, 1]))),
        (100, "connection_data_blocked_updated", {"new": "blocked", "reason": "stream_id"}),
        (130, "connection_data_blocked_updated", {"new": "unblocked"}),
        (150, "packet_sent", sent(2, 1200, stream(2000))),
    ]
    seconds = explained(tmp_path, sequence(events)).connection.held.seconds
    assert seconds["cwnd_limited"] == pytest.approx(0.1)
    assert seconds["receive_window_limited"] == pytest.approx(0.03)
    assert seconds["application_limited"] == pytest.approx(0.02)


def test_states_and_timers_as_quic_go_writes_them(tmp_path: Path) -> None:
    """A timer that expires and the count that grows with it are one timeout."""
    lost = {"header": {"packet_type": "1RTT", "packet_number": 0}, "trigger": "time_threshold"}
    timer = {"timer_type": "pto", "packet_number_space": "application_data"}
    late = {"packet_number_space": "application_data", "packet_number": 0, "reordering_packets": 3}
    events: Events = [
        (0, "congestion_state_updated", {"new": "slow_start"}),
        (0, "packet_sent", sent(0, 1200, stream(0))),
        (0, "loss_timer_updated", {"event_type": "set", "delta": 30, **timer}),
        (30, "loss_timer_updated", {"event_type": "expired", **timer}),
        (30, "metrics_updated", {"pto_count": 1}),
        (30, "packet_sent", sent(1, 1200, stream(0))),
        (50, "packet_received", sent(0, 40, ack([1]))),
        (50, "metrics_updated", {"pto_count": 0}),
        (50, "packet_lost", lost),
        (50, "congestion_state_updated", {"new": "recovery"}),
        (60, "packet_received", sent(1, 40, ack([0, 1]))),
        (60, "spurious_loss", late),
        (80, "congestion_state_updated", {"new": "congestion_avoidance"}),
        (90, "packet_sent", sent(2, 1200, stream(1000))),
    ]
    tree = explained(tmp_path, sequence(events)).as_json()
    assert tree["timeouts"] == 1
    assert tree["seconds"]["in_timeout"] == pytest.approx(0.02)
    assert tree["recoveries"] == 1
    assert tree["seconds"]["in_recovery"] == pytest.approx(0.03)
    assert tree["spurious"] == 1
    assert tree["sent"]["data_bytes"] == 1000
    assert list(tree["congestion_states"]) == ["slow_start", "recovery", "congestion_avoidance"]


def test_paths_have_numbers_of_their_own(tmp_path: Path) -> None:
    """PATH_ACK names its path, and ACK is about path 0 whatever path it comes over (RFC 10069)."""

    def over(path: int, number: int, *frames: Any) -> Any:
        data = sent(number, 1000, *frames)
        return {**data, "header": {**data["header"], "path_id": path}}

    path_ack = {"frame_type": "path_ack", "path_id": 1, "acked_ranges": [[1]]}
    events: Events = [
        (0, "packet_sent", over(0, 0, stream(0))),
        (0, "packet_sent", over(1, 0, stream(1000))),
        (0, "packet_sent", over(1, 1, stream(2000))),
        (20, "packet_received", over(1, 0, ack([0, 5]))),
        (30, "packet_received", over(0, 0, path_ack)),
    ]
    found = explained(tmp_path, sequence(events)).connection
    assert found.out.octets == 2000
    assert found.out.ended_s == pytest.approx(0.03)


def test_the_end_that_receives(tmp_path: Path) -> None:
    numbers = [0, 1, 2, 4, 5, 8]
    events: Events = [(0, "packet_sent", sent(0, 1200, {"frame_type": "crypto"}, kind="initial"))]
    events += [(20 + n, "packet_received", sent(n, 1100, stream(1000 * n))) for n in numbers]
    # What comes twice is data once.
    events.append((40, "packet_received", sent(9, 1100, stream(0))))
    found = explained(tmp_path, sequence(events))
    assert found.main is None
    assert found.connection.into.octets == 7000
    text = "\n".join(found.sentences())
    assert "This end received" in text
    assert "3 of 10 packet numbers did not come (30 %)" in text


def test_migration(tmp_path: Path) -> None:
    challenge, response = ({"frame_type": f"path_{one}"} for one in ("challenge", "response"))
    events = [
        *transfer()[:-1],
        (260, "packet_sent", sent(12, 1200, challenge)),
        (280, "packet_received", sent(4, 1200, response)),
        (290, "migration_state_updated", {"new": "migration_complete"}),
    ]
    text = "\n".join(explained(tmp_path, sequence(events)).sentences())
    assert "At 0.260 s: a PATH_CHALLENGE asked" in text
    assert "At 0.280 s: a PATH_RESPONSE came" in text
    assert "At 0.290 s: migration complete." in text


def test_words_that_are_no_texts(tmp_path: Path) -> None:
    """Where a word is missing or no text, the rest is read."""
    head = json.loads(json.dumps(HEAD_03))
    head["trace"]["vantage_point"]["type"] = ["client"]
    head["trace"]["common_fields"]["time_format"] = {"a": 1}
    head["trace"]["common_fields"]["group_id"] = [1]
    frame = {"frame_type": "connection_close", "error_space": ["application"], "reason": 7}
    data = {**sent(20, 60, frame), "fate": [1], "trigger": {}}
    data["header"]["packet_type"] = ["1RTT"]
    lost = {"header": 3, "trigger": [1], "packet_number": 5}
    reason = {"new": "blocked", "reason": ["pacing"]}
    events = [
        *transfer()[:-1],
        (260, "packet_sent", data),
        (261, "packet_lost", lost),
        (262, "connection_data_blocked_updated", reason),
        (263, "timer_updated", {"timer_type": ["pto"], "event_type": []}),
    ]
    found = explained(tmp_path, sequence(events, head))
    assert found.name == "[1]"
    assert found.connection.out.octets == 10_000
    assert found.connection.close is not None
    assert not found.connection.close.is_of_application
    json.dumps(found.as_json())


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"error_space": "transport", "error_code": 0xA, "reason": "bad"},
         "with the transport error PROTOCOL_VIOLATION (0xa): “bad”."),
        ({"error_space": "application", "error_code": 7}, "with the application error 0x7."),
        ({"error_space": "transport", "error_code": 0x128},
         "with the transport error TLS alert handshake_failure (0x128)."),
        ({"error_space": "transport", "error_code": "no_error"}, "the transport error no_error."),
    ],
)  # fmt: skip
def test_why_a_connection_was_closed(tmp_path: Path, frame: dict[str, Any], said: str) -> None:
    events = transfer()[:-1]
    close = {"frame_type": "connection_close", **frame}
    events.append((300, "packet_sent", sent(12, 60, close)))
    last = explained(tmp_path, sequence(events)).sentences()[-2]
    assert last.startswith("This end closed the connection at 0.3 s, ")
    assert last.endswith(said)


def test_packet_number_spaces_do_not_mix(tmp_path: Path) -> None:
    """An acknowledgement in a Handshake packet says nothing of 1-RTT packets of the same number."""
    events: Events = [
        (0, "packet_sent", sent(0, 1200, {"frame_type": "crypto"}, kind="handshake")),
        (1, "packet_sent", sent(0, 1200, stream(0))),
        (20, "packet_received", sent(0, 40, ack([0]), kind="handshake")),
        (30, "packet_sent", sent(1, 1200, stream(1000))),
        (50, "packet_received", sent(1, 40, ack([1]))),
    ]
    assert explained(tmp_path, sequence(events)).connection.out.octets == 1000


# Mistakes and hostile files.


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("no qlog at all", "it begins with neither a JSON object nor 0x1e"),
        ('{"a": 1}\n{"b": 2}\n', "none of qlog_version, file_schema and trace"),
        ('{"qlog_version": "0.3", "traces": 7}', "its `traces` are no list"),
        ('{"qlog_version": "0.3", "traces": [7]}', "trace 1: not qlog: its `events` are no list"),
        ('{"qlog_version": "0.3", "traces": [{"events": [7]}]}', "it is no JSON object"),
        ('{"qlog_version": "0.3", "traces": [{"events": [{', "not JSON"),
        ('{"qlog_version": "0.3", "traces": []}', "it has 0 events, and no packet"),
        ("[" * 100_000, "it begins with neither"),
        ('{"traces":' + "[" * 100_000, "nested too deeply"),
        (sequence([(float("nan"), "packet_sent", sent(0))]), "not JSON: NaN is no number"),
        (sequence([(1e300, "packet_sent", sent(0))]), "`time` is `1e+300`; allowed is"),
        (sequence([(0, "packet_sent", sent(-1))]), "`packet_number` is `-1`; allowed is 0 to"),
        (sequence([(0, "packet_sent", sent(1, "x"))]), "the length of the packet is `x`"),
        (sequence([(0, "packet_sent", [])]), "its `data` is `[]`; it has to be an object"),
        (sequence([(0, "packet_received", sent(0, 9, ack([1, 2, 3])))]), "has to be 1 or 2"),
        (sequence([(0, "packet_received", sent(0, 9, ack([None])))]), "is missing"),
        (sequence([(0, "metrics_updated", {"latest_rtt": -3})]), "`latest_rtt` is `-3`"),
        (sequence([(0, "congestion_state_updated", {"new": 3})]), "`new` has to be a text"),
        (sequence(transfer()).replace("1RTT", '1RTT"', 1), "record 5: not JSON"),
        (sequence([(0, "x", {"y": "z" * 1_100_000})]), "more than 1,000,000 characters"),
        (sequence([(0, "packet_sent", {"path": "9" * 5000})]).replace('"9', "9")
         .replace('9"', "9"), "not JSON: Exceeds the limit"),
        (sequence((0, "metrics_updated", {"path_id": n, "congestion_window": 1})
                  for n in range(65)), "more than 64 paths"),
        (sequence((0, "packet_sent", {"header": {"path_id": n, "packet_number": 1}})
                  for n in range(200)), "more than 64 paths"),
    ],
)  # fmt: skip
def test_each_mistake_is_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "bad.sqlog"
    # Something follows, so that a record that is not whole is not the last one.
    follows = f'{RS}{{"time": 1, "name": "a:b"}}\n' if content.startswith(RS) else ""
    file.write_text(content + follows)
    with pytest.raises(AnabranchError) as caught:
        qlogs.explain(file)
    message = str(caught.value)
    assert message.startswith(str(file))
    assert said in message
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(file)) + 300


def test_mistakes_of_the_command(tmp_path: Path, anabranch: Command) -> None:
    file = tmp_path / "one.sqlog"
    file.write_text(sequence(transfer()))
    for words, said in (
        (("--set", "run.duration=1"), "--set is for scenarios"),
        (("--codec", "g711"), "--codec is for captures"),
        (("--flow", "zz"), "no connection's name has `zz` in it; there are 0a1b"),
    ):
        assert said in one_error(anabranch("explain", file, *words))
    assert "missing.qlog" in one_error(anabranch("explain", tmp_path / "missing.qlog"))
    file.write_text(sequence(transfer()) + "{\n" + sequence(transfer()))
    assert "not JSON" in one_error(anabranch("explain", file))


def test_the_command_prints_draws_and_writes(tmp_path: Path, anabranch: Command) -> None:
    file = tmp_path / "one.sqlog"
    file.write_text(sequence(transfer()))
    result = anabranch("explain", file, "--plot", tmp_path, "--json", tmp_path / "a.json")
    assert result.returncode == 0, result.stderr
    assert "0a1b (client), 25 events, 0 s to 0.3 s:" in result.stdout
    assert "what held this end back:" in result.stdout
    assert (tmp_path / "one-explain.png").stat().st_size > 1000
    tree = json.loads((tmp_path / "a.json").read_text())
    assert tree["connections"][0]["sent"]["data_bytes"] == 10_000


def test_a_last_record_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "one.sqlog"
    file.write_text(sequence(transfer())[:-40])
    found = qlogs.explain(file)
    assert found.notes == ["The last record is not whole and is left out."]
    assert found.connections[0].connection.events == len(transfer()) - 1


def test_times_that_go_back(tmp_path: Path) -> None:
    events = transfer()
    events[5] = (-1000, *events[5][1:])
    file = tmp_path / "one.sqlog"
    file.write_text(sequence(events))
    found = qlogs.explain(file)
    assert found.notes[0].startswith("1 event came with times before")
    assert sum(found.connections[0].connection.held.seconds.values()) == pytest.approx(0.3)


def test_whatever_is_damaged_it_is_one_sentence_or_none(tmp_path: Path) -> None:
    """Bytes are changed and files cut off at random places: no other error comes."""
    document = {"qlog_version": "0.3", "traces": [{"events": [
        {"time": time, "name": f"transport:{name}", "data": data} for time, name, data in transfer()
    ]}]}  # fmt: skip
    values = ["null", "[]", "{}", "-1", "1e999", "NaN", '"x"', "true", "99999999999999999999999"]
    drawn = random.Random(1)
    file = tmp_path / "one.qlog"
    for text in (sequence(transfer()), sequence(transfer(), mark=""), json.dumps(document)):
        for _ in range(150):
            place = drawn.randrange(1, len(text))
            damaged = text[:place] + chr(drawn.randrange(128)) + text[place + 1 :]
            if drawn.random() < 0.2:
                damaged = text[:place]
            elif drawn.random() < 0.7:
                start = text.find(": ", place) + 2
                end = min(max(text.find(mark, start), start) for mark in (",", "}"))
                damaged = text[:start] + drawn.choice(values) + text[end:]
            file.write_text(damaged)
            said = ""
            try:
                qlogs.explain(file).as_json()
            except AnabranchError as error:
                said = str(error)
            assert len(said.splitlines()) <= 1


def test_wide_and_many_ranges_cost_no_more_than_they_cover(tmp_path: Path) -> None:
    """Each ACK frame repeats all earlier ranges, and one covers all numbers that there can be."""
    count = 5_000
    events = itertools.chain(
        ((n, "packet_sent", sent(n, 1200, stream(1000 * n))) for n in range(count)),
        ((count + n, "packet_received", sent(n, 40, ack([0, n]))) for n in range(count)),
        [(2 * count, "packet_received", sent(count, 40, ack([0, 2**63])))],
    )
    found = explained(tmp_path, sequence(events))
    assert found.connection.out.octets == 1000 * count


def test_memory_stays_bounded_by_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets that nobody acknowledges are forgotten, the oldest first."""
    monkeypatch.setattr(kept, "MOST_KEPT", 1000)
    count = 1400
    events = itertools.chain(
        ((n, "packet_sent", sent(n, 100, stream(100 * n, 100))) for n in range(count)),
        [(count, "packet_received", sent(0, 40, ack([0, count])))],
    )
    found = explained(tmp_path, sequence(events))
    assert found.connection.out.octets == 100 * (count - 500)


def test_a_document_has_a_greatest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_DOCUMENT_MB", 1)
    file = tmp_path / "one.qlog"
    file.write_text(json.dumps({"qlog_version": "0.3", "traces": [], "x": ["y" * 100] * 10_000}))
    with pytest.raises(AnabranchError, match="more than 1 MB of JSON"):
        qlogs.explain(file)


def test_a_packed_file_that_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "one.sqlog.gz"
    file.write_bytes(gzip.compress(sequence(transfer()).encode())[:-30])
    with pytest.raises(AnabranchError, match="the packed file is damaged or cut off"):
        qlogs.explain(file)


# Ours.


@pytest.mark.parametrize("suffix", [".sqlog", ".qlog"])
@pytest.mark.parametrize(
    ("paths", "transport"),
    [
        ('["p"]', '{ kind = "tcp" }'),
        ('["p"]', '{ kind = "sctp" }'),
        ('["p"]', '{ kind = "quic" }'),
        ('["p", "q"]', '{ kind = "quic", multipath = true }'),
        ('["p", "q"]', '{ kind = "quic", multipath = true, ack_path = "first" }'),
        ('["p", "q"]', '{ kind = "mptcp" }'),
        ('["p", "q"]', '{ kind = "sctp", load_sharing = {} }'),
    ],
)
def test_a_run_of_ours_and_its_qlog_agree(
    tmp_path: Path, paths: str, transport: str, suffix: str
) -> None:
    text = two_links(paths, transport)
    result = anabranch.run(anabranch.load(text), trace=True)
    file = tmp_path / f"run{suffix}"
    qlog.write(result, file)
    ends = [one for one in qlogs.explain(file).connections if one.main is not None]
    assert len(ends) == len(json.loads(paths))
    packets = result.traces["packets"].filter(side="a", is_copy=False)
    gone = packets.filter(~packets["fate"].is_in(["delivered", "in_flight"]))
    fates = [one.connection.fates for one in ends]
    told = sum(fate.total() - fate["delivered"] - fate["in_flight"] for fate in fates)
    assert told == len(gone) > 10
    goodput = result.summary["load.goodput_kbit_per_s"] * 1e3
    octets = sum(one.connection.out.octets for one in ends)
    assert octets * 8 / 8.0 == pytest.approx(goodput, rel=0.03)
    if len(ends) == 1:
        assert ends[0].connection.out.rate == pytest.approx(goodput, rel=0.03)
    events = result.traces["events"].filter(side="a")["event"].to_list()
    assert sum(one.connection.recoveries for one in ends) == events.count("fast_recovery") > 2
    assert sum(one.connection.timeouts for one in ends) == events.count("timeout")
    if len(ends) > 1:
        return
    # The accounts of `explain SCENARIO`, which leave a recovery and come back with several paths.
    account = accounts.read(
        anabranch.run(anabranch.load(text, {"run.time_accounts": "true"})), "load"
    )
    (path,) = account.ends[0].paths
    assert ends[0].connection.recoveries == pytest.approx(path.recoveries, abs=1)
    assert ends[0].connection.timeouts == pytest.approx(path.timeouts, abs=1)
    share = ends[0].account.ends[0].connection.share("in_recovery", "in_timeout")
    assert share == pytest.approx(path.share("in_recovery", "in_timeout"), abs=0.05)


def test_a_call_of_ours_over_udp(tmp_path: Path) -> None:
    """UDP has no acknowledgements: losses and the rate are read, and that nothing else is known."""
    call = '{ kind = "voip", duration = "7 s", start = "0 s" }'
    text = two_links('["p"]', '{ kind = "udp", rtp = true }', call)
    result = anabranch.run(anabranch.load(text), trace=True)
    file = tmp_path / "run.sqlog"
    qlog.write(result, file)
    found = next(one for one in qlogs.explain(file).connections if one.connection.fates)
    packets = result.traces["packets"].filter(side="a", is_copy=False)
    delivered = packets.filter(fate="delivered")
    assert found.connection.fates["delivered"] == len(delivered) < len(packets)
    assert found.connection.out.octets == delivered["payload_bytes"].sum()
    assert found.main is None
    assert found.sentences()[0].startswith("The file has no acknowledgements")


# Of others, made here.


def test_a_transfer_of_aioquic(tmp_path: Path) -> None:
    """Every 40th datagram of the server is lost: its qlog says what it sent and what was lost."""
    pytest.importorskip("aioquic")
    from aioquic_transfer import transfer as transfer_of_aioquic  # noqa: PLC0415

    size = 200_000
    log, dropped = transfer_of_aioquic(size, drop_every=40)
    file = tmp_path / "server.qlog"
    file.write_text(json.dumps(log))
    found = qlogs.explain(file).connections[0]
    tree = found.as_json()
    assert tree["vantage_point"] == "server"
    assert tree["is_sender"]
    assert tree["sent"]["data_bytes"] == pytest.approx(size, rel=0.02)
    assert dropped > 3
    assert sum(tree["lost"].values()) == pytest.approx(dropped, abs=2)
    assert tree["round_trips_ms"]["least_ms"] == pytest.approx(20, abs=1)
    assert tree["handshake_s"] == pytest.approx(0.02, abs=0.011)
    assert any("error 0x3: “all sent”." in line for line in found.sentences())
