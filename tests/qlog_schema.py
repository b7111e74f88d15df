"""The schemas of a qlog as models: those of the draft, and those of our own events.

`LogFile` to `TraceSeq` and `Event` follow the CDDL of draft-ietf-quic-qlog-main-schema (the
editor's copy of July 2026); where it has no `* text => any`, more keys are an error. The events are
those that docs/captures.md describes.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictStr

Uint = Annotated[int, Field(strict=True, ge=0, lt=2**64)]
Uint32 = Annotated[int, Field(strict=True, ge=0, lt=2**32)]
Float = Annotated[float, Field(allow_inf_nan=False)]


def _absolute(text: str) -> str:
    scheme, colon, rest = text.partition(":")
    if not (colon and rest and scheme.isalpha()):
        raise ValueError(f"{text} is no absolute URI")
    return text


Uri = Annotated[StrictStr, AfterValidator(_absolute)]


class Closed(BaseModel):
    """A map with no other keys."""

    model_config = ConfigDict(extra="forbid")


class ReferenceTime(Closed):
    clock_type: StrictStr
    # "When using the monotonic clock type, the epoch field MUST have the value unknown."
    epoch: Literal["unknown"]
    wall_clock_time: StrictStr | None = None


TimeFormat = Literal["relative_to_epoch", "relative_to_previous_event"]


class CommonFields(BaseModel):
    tuple: StrictStr | None = None
    time_format: TimeFormat | None = None
    reference_time: ReferenceTime | None = None
    group_id: StrictStr | None = None


class VantagePoint(Closed):
    name: StrictStr | None = None
    type: Literal["client", "server", "network", "unknown"]
    flow: Literal["client", "server", "unknown"] | None = None


class Event(BaseModel):
    # More fields are allowed, but we write none.
    model_config = ConfigDict(extra="forbid")
    time: Float
    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9._~-]+:[A-Za-z0-9._~-]+$")]
    data: dict[StrictStr, Any]
    tuple: StrictStr | None = None
    time_format: TimeFormat | None = None
    group_id: StrictStr | None = None


class TraceSeq(Closed):
    title: StrictStr | None = None
    description: StrictStr | None = None
    common_fields: CommonFields | None = None
    vantage_point: VantagePoint | None = None
    event_schemas: Annotated[list[Uri], Field(min_length=1)]


class Trace(TraceSeq):
    events: list[Event]


class LogFile(Closed):
    file_schema: Uri
    serialization_format: StrictStr
    title: StrictStr | None = None
    description: StrictStr | None = None


class QlogFile(LogFile):
    file_schema: Literal["urn:ietf:params:qlog:file:contained"]
    serialization_format: Literal["application/qlog+json"]
    traces: Annotated[list[Trace], Field(min_length=1)] | None = None


class QlogFileSeq(LogFile):
    file_schema: Literal["urn:ietf:params:qlog:file:sequential"]
    serialization_format: Literal["application/qlog+json-seq"]
    trace: TraceSeq


Pair = Annotated[list[Uint], Field(min_length=2, max_length=2)]


class RawInfo(Closed):
    length: Uint
    payload_length: Uint


class PacketHeader(Closed):
    packet_number: Uint
    kind: StrictStr
    sequence: Uint32 | None = None
    tsn: Uint32 | None = None
    next_expected: Uint32 | None = None
    window: Uint | None = None
    sack: list[Pair] | None = None


class AckFrame(Closed):
    frame_type: Literal["ack"]
    acked_ranges: Annotated[list[Pair], Field(min_length=1)]


# Of draft-ietf-quic-qlog-quic-events; not-ECT is left out.
Ecn = Literal["ECT(0)", "ECT(1)", "CE"]


class PacketSent(Closed):
    header: PacketHeader
    raw: RawInfo
    ecn: Ecn | None = None
    is_retransmission: StrictBool = False
    fate: StrictStr
    dropped_at: StrictStr | None = None


class PacketReceived(Closed):
    header: PacketHeader
    raw: RawInfo | None = None
    ecn: Ecn | None = None
    frames: list[AckFrame] = []


class LostHeader(Closed):
    packet_number: Uint


class PacketLost(Closed):
    header: LostHeader


class MetricsUpdated(Closed):
    congestion_window: Uint | None = None
    bytes_in_flight: Uint | None = None
    ssthresh: Uint | None = None
    smoothed_rtt: Float | None = None
    latest_rtt: Float | None = None
    min_rtt: Float | None = None
    rto: Float | None = None


class Told(Closed):
    detail: StrictStr | None = None


OWN: dict[str, type[BaseModel]] = {
    "transport:packet_sent": PacketSent,
    "transport:packet_received": PacketReceived,
    "recovery:packet_lost": PacketLost,
    "recovery:metrics_updated": MetricsUpdated,
}
TRANSPORTS = ("mptcp", "quic", "sctp", "tcp", "udp")


def data_of(event: Event) -> BaseModel:
    """An event's data, checked by the schema that its name says."""
    namespace = event.name.partition(":")[0]
    model = OWN.get(event.name, Told if namespace in TRANSPORTS else None)
    assert model is not None, f"nothing says what {event.name} has"
    return model.model_validate(event.data)
