"""A traced run as qlog, the log that qvis and other tools read.

The file is a QlogFileSeq (`.sqlog`, JSON text sequences of RFC 7464: a record an event) or a
QlogFile (`.qlog`, one document) of draft-ietf-quic-qlog-main-schema. It has two keys more,
`qlog_version` and `qlog_format` of version 0.3, without which qvis reads no file. The events are of
schemas of our own; docs/captures.md says what they have. Those of packets and windows have the
names and fields that qvis's congestion view reads.
"""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from anabranch import _engine
from anabranch.errors import AnabranchError
from anabranch.store import members
from anabranch.support.files import opened_atomically
from anabranch.support.transports import can

from .acknowledged import LossRule, Outcome, outcome, outcome_by_number, reported_runs
from .result import Result

SUFFIXES = (".sqlog", ".qlog")

_SCHEMA = "urn:anabranch:qlog:events:"
_UNSET = 2**31 - 1
"""A slow-start threshold from here on is none."""

_SEQUENCE = b"\x1e"
"""RFC 7464: what a record begins with."""

_RECEIVED, _TOLD, _LOST, _SENT, _METRICS = range(5)
"""What comes first of what happens at the same time."""

_ECN = {"ce": "CE", "ect0": "ECT(0)", "ect1": "ECT(1)"}
"""The codepoints as draft-ietf-quic-qlog-quic-events has them; not-ECT is left out."""

_METRIC_FIELDS = (
    "congestion_window", "bytes_in_flight", "ssthresh", "smoothed_rtt", "latest_rtt", "min_rtt",
    "rto",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Group:
    """What one end of a flow does on one path: a trace of its own in qvis."""

    flow: str
    side: str
    path: int
    host: str
    path_name: str
    is_only_path: bool

    @property
    def name(self) -> str:
        over = "" if self.is_only_path else f" over {self.path_name}"
        return f"{self.flow} at {self.host}{over}"


@dataclass(frozen=True, slots=True)
class _Flow:
    name: str
    protocol: str
    hosts: tuple[str, str]
    paths: list[str]


def check(file: Path) -> None:
    """Raises where the name of a file does not say which form it is to have.

    Raises
    ------
    AnabranchError
        One sentence that says which names do.
    """
    if file.suffix not in SUFFIXES:
        raise AnabranchError(
            f"--qlog {file}: the name must end in .sqlog (a record for each event) or .qlog "
            "(one JSON document)"
        )


def write(result: Result, file: Path) -> None:
    """Writes a traced run as qlog: what each end of each flow sends, receives and takes for lost.

    Parameters
    ----------
    result
        A run with traces.
    file
        Where to; its name ends in `.sqlog` or `.qlog`.

    Raises
    ------
    AnabranchError
        When the name ends otherwise, or the run kept no traces.
    """
    check(file)
    flows = _flows(result)
    groups = [
        _Group(flow.name, side, path, host, name, len(flow.paths) == 1)
        for flow in flows
        for side, host in zip("ab", flow.hosts, strict=True)
        for path, name in enumerate(flow.paths)
    ]
    numbers = {(one.flow, one.side, one.path): i for i, one in enumerate(groups)}
    parts = [part for flow in flows for part in _of_flow(result, flow, numbers)]
    events = pl.concat(parts, how="diagonal_relaxed").sort("time_s", "rank", maintain_order=True)
    schemas = [
        _SCHEMA + name
        for name in ("transport", "recovery", *sorted({flow.protocol for flow in flows}))
    ]
    with opened_atomically(file, is_long=True) as out:
        if file.suffix == ".sqlog":
            _write_sequence(out, result, groups, events, schemas)
        else:
            _write_document(out, result, groups, events, schemas)


def _head(result: Result, kind: str, media: str, version: str) -> dict[str, Any]:
    return {
        "file_schema": f"urn:ietf:params:qlog:file:{kind}",
        "serialization_format": media,
        "qlog_version": "0.3",
        "qlog_format": version,
        "title": result.scenario.name,
        "description": f"anabranch {_engine.__version__}, cell {result.cell}, seed {result.seed}, "
        f"replication {result.replication}",
    }


_COMMON = {
    "time_format": "relative_to_epoch",
    "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _write_sequence(
    out: BinaryIO, result: Result, groups: list[_Group], events: pl.DataFrame, schemas: list[str]
) -> None:
    head = _head(result, "sequential", "application/qlog+json-seq", "JSON-SEQ")
    head["trace"] = {
        "common_fields": _COMMON,
        "vantage_point": {"name": result.scenario.name, "type": "unknown"},
        "event_schemas": schemas,
    }
    out.write(_SEQUENCE + _json(head) + b"\n")
    for group, event in _events(events):
        out.write(_SEQUENCE + _json({**event, "group_id": groups[group].name}) + b"\n")


def _write_document(
    out: BinaryIO, result: Result, groups: list[_Group], events: pl.DataFrame, schemas: list[str]
) -> None:
    head = _head(result, "contained", "application/qlog+json", "JSON")
    out.write(_json(head)[:-1])
    between = b',"traces":['
    for number, group in enumerate(groups):
        own = events.filter(pl.col("group") == number)
        if own.is_empty():
            continue
        trace = {
            "title": group.name,
            "common_fields": {**_COMMON, "group_id": group.name},
            "vantage_point": {
                "name": group.host, "type": "client" if group.side == "a" else "server",
            },
            "event_schemas": schemas,
        }  # fmt: skip
        out.write(between + _json(trace)[:-1] + b',"events":[')
        between = b""
        for _, event in _events(own):
            out.write(between + b"\n" + _json(event))
            between = b","
        out.write(b"]}")
        between = b",\n"
    out.write(b"}" if between.startswith(b',"traces"') else b"]}")


def _flows(result: Result) -> list[_Flow]:
    """The flows of the trace: of a `count` each by itself."""
    tree = tomllib.loads(result.scenario.cell_toml(result.cell))["flows"]
    found = []
    for name in result.traces["packets"]["flow"].unique(maintain_order=True):
        flow = members.settings_of(tree, name)
        paths = [str(path) for path in flow["paths"]]
        hosts = (str(flow["from"]), str(flow["to"]))
        found.append(_Flow(str(name), str(flow["transport"]["kind"]), hosts, paths))
    return found


def _of_flow(
    result: Result, flow: _Flow, numbers: dict[tuple[str, str, int], int]
) -> Iterator[pl.DataFrame]:
    """The events of a flow, in frames whose columns differ."""

    def group(side: pl.Expr) -> pl.Expr:
        key = side + pl.col("path").cast(pl.String)
        groups = {
            f"{side}{path}": number
            for (name, side, path), number in numbers.items()
            if name == flow.name
        }
        return key.replace_strict(groups, return_dtype=pl.Int64).alias("group")

    other = pl.when(pl.col("side") == "a").then(pl.lit("b")).otherwise(pl.lit("a"))
    packets = result.traces["packets"].filter(flow=flow.name)
    counted = pl.when(~pl.col("is_copy")).then((~pl.col("is_copy")).cum_sum().over("side", "path"))
    packets = packets.with_columns(
        # A copy follows its packet.
        number=(counted.cast(pl.Int64) - 1).forward_fill(),
        group=group(pl.col("side")),
        at=group(other),
        protocol=pl.lit(flow.protocol),
    )
    answers = _Answers(packets, _outcomes(result, flow, packets))
    sent = packets.with_columns(again=answers.again, time_s="sent_s")
    sent = sent.filter(~pl.col("is_copy")).drop("at")
    yield sent.with_columns(rank=pl.lit(_SENT), event=pl.lit("packet_sent"))
    received = packets.with_columns(acked=answers.here, time_s="delivered_s")
    received = received.filter(fate="delivered").drop("group").rename({"at": "group"})
    yield received.with_columns(rank=pl.lit(_RECEIVED), event=pl.lit("packet_received"))
    columns = {"rank": pl.lit(_RECEIVED), "event": pl.lit("packet_received")}
    yield answers.elsewhere(flow.paths).with_columns(**columns)
    yield answers.lost().with_columns(rank=pl.lit(_LOST), event=pl.lit("packet_lost"))
    metrics = answers.round_trips()
    # A table without rows has columns without types.
    if not (paths := result.traces["paths"].filter(flow=flow.name)).is_empty():
        windows = paths.select(
            "time_s",
            group(pl.col("side")),
            congestion_window="cwnd_bytes",
            bytes_in_flight="outstanding_bytes",
            ssthresh=pl.when(pl.col("ssthresh_bytes") < _UNSET).then("ssthresh_bytes"),
            smoothed_rtt=pl.col("srtt_ms").fill_nan(None),
            rto="rto_ms",
        )
        # Of several states at one time the last.
        windows = windows.unique(["time_s", "group"], keep="last", maintain_order=True)
        metrics = windows.join(metrics, on=["time_s", "group"], how="full", coalesce=True)
    yield metrics.with_columns(rank=pl.lit(_METRICS), event=pl.lit("metrics_updated"))
    if not (told := result.traces["events"].filter(flow=flow.name)).is_empty():
        path = pl.col("detail").str.extract(r"^path (\d+)\b").cast(pl.Int64).fill_null(0)
        told = told.with_columns(path=path).with_columns(group(pl.col("side")))
        yield told.select(
            "time_s", "group", "detail", "event", rank=pl.lit(_TOLD),
            protocol=pl.lit(flow.protocol),
        )  # fmt: skip


def _outcomes(result: Result, flow: _Flow, packets: pl.DataFrame) -> list[Outcome]:
    """What became of the packets of both ends."""
    numbering = can(flow.protocol).numbering
    if numbering != "packets":
        return [outcome(packets, side, is_shared=numbering == "chunks") for side in "ab"]
    tree = tomllib.loads(result.scenario.cell_toml(result.cell))["flows"]
    settings = members.settings_of(tree, flow.name)["transport"]
    found = []
    for side in "ab":
        paths = result.traces["paths"].filter(flow=flow.name, side=side).sort("time_s")
        known = paths.filter(pl.col("srtt_ms").is_not_nan())
        by_space = [known]
        if settings.get("multipath"):
            by_space = [known.filter(path=path) for path in range(len(flow.paths))]
        rules = [
            LossRule(
                packets=int(settings.get("packet_threshold", 3)),
                rounds=float(settings.get("time_threshold", 1.125)),
                times_s=space["time_s"].to_numpy(),
                round_trips_s=space["srtt_ms"].to_numpy() / 1e3,
            )
            for space in by_space
        ]
        found.append(outcome_by_number(packets, side, rules))
    return found


class _Answers:
    """What acknowledgements say of a flow's packets."""

    def __init__(self, packets: pl.DataFrame, outcomes: list[Outcome]) -> None:
        self._packets = packets
        self._number = packets["number"].to_list()
        self._group = packets["group"].to_list()
        self._at = packets["at"].to_list()
        self._outcomes = outcomes
        again = np.zeros(packets.height, dtype=bool)
        for one in self._outcomes:
            again[list(one.again)] = True
        self.again = pl.Series(again)
        """Which packets carry data again."""
        here: list[str | None] = [None] * packets.height
        self._elsewhere: list[tuple[int, int, str]] = []
        for one in self._outcomes:
            for row, covered in one.acked.items():
                by_group: dict[int, list[int]] = {}
                for packet in covered:
                    by_group.setdefault(self._group[packet], []).append(self._number[packet])
                for group, numbers in by_group.items():
                    if group == self._at[row]:
                        here[row] = _ranges(numbers)
                    else:
                        self._elsewhere.append((row, group, _ranges(numbers)))
        self.here = pl.Series(here, dtype=pl.String)
        """What each packet acknowledges of the path that it comes over, as JSON."""

    def elsewhere(self, names: list[str]) -> pl.DataFrame:
        """Acknowledgements of one path's packets that came over another path, which is named."""
        rows = [row for row, _, _ in self._elsewhere]
        path = pl.col("path").replace_strict(dict(enumerate(names)), return_dtype=pl.String)
        return self._packets[rows].select(
            "number", "kind", "ack", "window_bytes", "sack", "protocol", "side", "payload_bytes",
            "tsn", time_s="delivered_s", tuple=path,
            group=pl.Series([group for _, group, _ in self._elsewhere], dtype=pl.Int64),
            acked=pl.Series([numbers for _, _, numbers in self._elsewhere], dtype=pl.String),
        )  # fmt: skip

    def lost(self) -> pl.DataFrame:
        """Packets that are given up, when their data is sent again."""
        pairs = [pair for one in self._outcomes for pair in one.given_up]
        lost = self._packets[[packet for packet, _ in pairs]].select("group", "number")
        again = self._packets[[packet for _, packet in pairs]].select(time_s="sent_s")
        by_number = [pair for one in self._outcomes for pair in one.lost]
        gone = self._packets[[packet for packet, _ in by_number]].select("group", "number")
        when = pl.Series("time_s", [at_s for _, at_s in by_number], dtype=pl.Float64)
        return pl.concat([pl.concat([lost, again], how="horizontal"), gone.with_columns(when)])

    def round_trips(self) -> pl.DataFrame:
        """The round trip that each acknowledgement measures, and the least so far.

        It is that of the newest packet that it covers and that carries its data for the first time
        (RFC 9002 section 5.1, RFC 6298 section 3).
        """
        sent_s = self._packets["sent_s"].to_list()
        known_s = self._packets["delivered_s"].to_list()
        times: dict[tuple[float, int], float] = {}
        for one in self._outcomes:
            for row, covered in one.acked.items():
                for packet in covered:
                    if packet not in one.again:
                        key = (known_s[row], self._group[packet])
                        times[key] = max(times.get(key, 0.0), sent_s[packet])
        columns: dict[str, list[Any]] = {
            "time_s": [at_s for at_s, _ in times],
            "group": [group for _, group in times],
            "latest_rtt": [round(1e3 * (key[0] - begun), 6) for key, begun in times.items()],
        }
        kinds = {"time_s": pl.Float64, "group": pl.Int64, "latest_rtt": pl.Float64}
        frame = pl.DataFrame(columns, schema=kinds).sort("time_s")
        return frame.with_columns(min_rtt=pl.col("latest_rtt").cum_min().over("group"))


def _ranges(numbers: list[int]) -> str:
    """Packet numbers as ranges of the first and the last, as JSON."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return json.dumps(ranges)


def _events(events: pl.DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
    """The events with the numbers of their groups."""
    last: dict[int, dict[str, Any]] = {}
    for row in events.iter_rows(named=True):
        group = row["group"]
        event: dict[str, Any] = {"time": round(1e3 * row["time_s"], 6)}
        rank = row["rank"]
        if rank in {_SENT, _RECEIVED}:
            event |= {"name": f"transport:{row['event']}", "data": _packet(row)}
            if row["tuple"] is not None:
                event["tuple"] = row["tuple"]
        elif rank == _LOST:
            header = {"packet_number": row["number"]}
            event |= {"name": "recovery:packet_lost", "data": {"header": header}}
        elif rank == _METRICS:
            known = last.setdefault(group, {})
            changed = {
                name: row[name]
                for name in _METRIC_FIELDS
                if row.get(name) is not None and known.get(name) != row[name]
            }
            if not changed:
                continue
            known |= changed
            event |= {"name": "recovery:metrics_updated", "data": changed}
        else:
            data = {"detail": row["detail"]} if row["detail"] else {}
            event |= {"name": f"{row['protocol']}:{row['event']}", "data": data}
        yield group, event


def _packet(row: dict[str, Any]) -> dict[str, Any]:
    """What is said of a packet that is sent or received."""
    header: dict[str, Any] = {"packet_number": row["number"], "kind": row["kind"]}
    if row["payload_bytes"] > 0 and row["tsn"] >= 0:
        header["tsn" if can(row["protocol"]).numbering == "chunks" else "sequence"] = row["tsn"]
    if row["ack"] >= 0:
        header["next_expected"] = row["ack"]
    if row["window_bytes"] >= 0:
        header["window"] = row["window_bytes"]
    if row["sack"] and can(row["protocol"]).numbering != "packets":
        header["sack"] = reported_runs(row["sack"])
    data: dict[str, Any] = {"header": header}
    if row["size_bytes"] is not None:
        data["raw"] = {"length": row["size_bytes"], "payload_length": row["payload_bytes"]}
    ecn = row["ecn_sent" if row["event"] == "packet_sent" else "ecn_delivered"]
    if ecn in _ECN:
        data["ecn"] = _ECN[ecn]
    if row["acked"] is not None:
        frame = {"frame_type": "ack", "acked_ranges": json.loads(row["acked"])}
        data["frames"] = [frame]
    if row["event"] == "packet_sent":
        if row["again"]:
            data["is_retransmission"] = True
        data["fate"] = row["fate"]
        if row["dropped_at"]:
            data["dropped_at"] = row["dropped_at"]
    return data
