//! The settings of a QUIC endpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cc;
use crate::cc::coupled;
use crate::path::scheduler;
use crate::time::Duration;
use crate::units::Bytes;

/// Settings of a QUIC endpoint. A setting that is left out has its profile's value; defaults in the
/// descriptions are those of profile `rfc9000`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "QuicConfig")]
pub struct Config {
    /// Whose defaults: "rfc9000" (default), "noq" (1.x), "picoquic" (August 2026), `quic_go` (August 2026) or
    /// "quinn" (0.11).
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub profile: Profile,
    /// Congestion control; default cubic, in profile `picoquic` reno, in `quic_go` reno with `beta` 0.7. In
    /// profiles quinn and noq the `slow_start` of cubic is "standard" by default.
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cc: Option<cc::Config>,
    /// The longest UDP payload that is sent, from 1200 B to what the path's MTU allows; default 1200 B (RFC
    /// 9000 section 14.2), in profile picoquic 1440 B and in the others 1452 B, or less where the MTU is
    /// smaller, as their search for the MTU finds. The congestion control counts in it.
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_datagram: Option<Bytes>,
    /// The round-trip time before the first measurement; default 333 ms (RFC 9002 section 6.2.2), in profile
    /// `quic_go` 100 ms, in profile picoquic 250 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_rtt: Option<Duration>,
    /// How long an acknowledgement may be delayed, less than 16.384 s (RFC 9000 section 18.2); default 25 ms,
    /// in profile picoquic 10 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ack_delay: Option<Duration>,
    /// The number of packets after which an acknowledgement leaves at once; default 2 (RFC 9000 section
    /// 13.2.2).
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_every: Option<u32>,
    /// How this end asks its peer to acknowledge (draft-ietf-quic-ack-frequency-14), if the peer has a
    /// `min_ack_delay`; default: it does not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_frequency: Option<AckFrequency>,
    /// The shortest delay of its acknowledgements that the peer may ask for, at most `max_ack_delay`; default
    /// 1 ms, or `max_ack_delay` if that is shorter, where this end has an `ack_frequency` itself, and
    /// otherwise the peer may not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ack_delay: Option<Duration>,
    /// How many packets behind one that is acknowledged a packet is lost, at least 3; default 3 (RFC 9002
    /// section 6.1.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_threshold: Option<u32>,
    /// How many round-trip times before one that is acknowledged a lost packet was sent, from 1 to 10;
    /// default 1.125 (RFC 9002 section 6.1.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_threshold: Option<f64>,
    /// How many probe timeouts without any arrival are persistent congestion, from 1 to 100; default 3 (RFC
    /// 9002 section 7.6.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_congestion: Option<u32>,
    /// The first congestion window in datagrams, from 2 to 1000; default 10, of at most 14720 B together (RFC
    /// 9002 section 7.2); in profiles quinn and noq 12000 B (cc bbr in quinn: 240000 B), in `quic_go` 40960
    /// B, in picoquic 15360 B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Whether packets are paced where the control does not say so itself, at 1.25 times the window per
    /// round-trip time (RFC 9002 section 7.7), in profile quinn even if it does; default true. With the
    /// profiles quinn, noq and `quic_go`, and on sockets, packets leave in bursts of what the pace lets leave
    /// in 2 ms, ten at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// Whether packets are marked as ECN-capable as long as the path proves to be (RFC 9000 section 13.4);
    /// default false, with cc prague true, whose packets carry ECT(1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Bytes that the application may write ahead of what is acknowledged, from 1200 B to 1 GiB; default 4
    /// MiB, in profiles quinn and noq 10 MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Bytes>,
    /// Bytes of all streams that the peer may send ahead of what the application reads (`MAX_DATA`), from
    /// 1200 B to 1 GiB; default 15 MiB, in profiles quinn and noq 1 GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_data: Option<Bytes>,
    /// The same for each stream (`MAX_STREAM_DATA`); default 6 MiB, in profiles quinn and noq 1.25 MB. Of
    /// both, the peer is told once half has been read, in profile `quic_go` a quarter, in quinn and noq an
    /// eighth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_stream_data: Option<Bytes>,
    /// How many streams of each kind the peer may have open, from 1 to 65536; default 100, in
    /// profile picoquic 512.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u32>,
    /// Whether messages without order may be sent, in DATAGRAM frames (RFC 9221): each by itself and never
    /// again, beside the streams; default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<bool>,
    /// How long nothing may arrive before an end gives the connection up, from 1 s on; the shorter one of
    /// both ends counts, at least three probe timeouts (RFC 9000 section 10.1); default 30 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Duration>,
    /// How long nothing may be sent before a PING keeps the connection alive (RFC 9000 section 10.1.2), from
    /// 100 ms on, while no acknowledgement is outstanding; default: none is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<Duration>,
    /// Bytes of this end's connection IDs, from 4 to 20; default 8, in profile `quic_go` 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_id_bytes: Option<u8>,
    /// Whether the server has a client show the token of a Retry packet before it keeps anything about it,
    /// which costs a round trip (RFC 9000 section 8.1.2); default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// What becomes of data that the client sends before the handshake is complete (0-RTT, RFC 9001 section
    /// 4.6), with a ticket of a connection before: "accepted", by a handshake without certificates, or
    /// "rejected", after which it is sent again. The client remembers the server's limits to be those of its
    /// own settings (RFC 9000 section 7.4.1), and a server with smaller ones rejects the data. Default: none
    /// is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_data: Option<EarlyData>,
    /// After how many packets under one key an end updates the keys (RFC 9001 section 6), from 1 to 8388608,
    /// which is the most that AES-GCM permits (section 6.6); default 4194304. It waits for the peer to have
    /// the update before, and three probe timeouts more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_update: Option<u32>,
    /// Sizes of the messages of the handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Handshake>,
    /// UDP port of the flow's end `from`; default 49152, the first dynamic port (RFC 6335 section 6).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// UDP port of the flow's end `to`; default 443.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Whether the client goes on at its next address, the next of the flow's paths, after two probe timeouts
    /// in a row (RFC 9000 section 9): "never" (default) or `on_failure`. A client that only receives notices
    /// a failure by its `keep_alive`.
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
    /// Whether the connection uses all of the flow's paths at the same time (RFC 10069), each with packet
    /// numbers, recovery and congestion control of its own; default false.
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipath: Option<bool>,
    /// With `multipath`: which of the paths with room carries the next packet of data; default "`min_rtt`".
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<scheduler::Config>,
    /// With `multipath`: how the congestion windows of the paths depend on each other; default "`per_path`",
    /// in which they do not, and each has the control `cc`.
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupling: Option<coupled::Config>,
    /// With `multipath`: the path on which packets are acknowledged (RFC 10069 section 5.4): "same"
    /// (default), the one on which they came; "fastest", the one with the shortest round trip; or "first",
    /// the first one that works.
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_path: Option<AckPath>,
    /// With `multipath`: whether what is outstanding on a path is sent again on another one when its probe
    /// timeout expires (RFC 10069 section 5.7); default true. With false it waits until the path answers, or
    /// is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reinjection: Option<bool>,
    /// With `multipath`: how long a path's packets may be without any acknowledgement before the path is
    /// given up, if another one works (RFC 10069 sections 3.4 and 5.7), from 100 ms on. A path that is given
    /// up does not come back. Default: none is given up for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_idle_timeout: Option<Duration>,
    /// With `multipath`: whether all data of a stream goes on the path that carried the first of it, as long
    /// as that path works, so that packets of one path hold up no stream of another one; default false. Not
    /// with scheduler "redundant".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin_streams: Option<bool>,
    /// With `multipath`: paths that carry data only while no other one can, by their position in the flow's
    /// list (RFC 10069 section 3.3); default none.
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backup: Vec<u8>,
    /// The path that is used, or used first, by its position in the flow's list; default 0.
    #[schemars(extend("x-known-by" = ["advise"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<u8>,
}

/// How a sender asks its peer to acknowledge (draft-ietf-quic-ack-frequency-14 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "QuicAckFrequency")]
pub struct AckFrequency {
    /// How many packets that elicit an acknowledgement may come without one, from 0 to 1000; default 9.
    pub threshold: u32,
    /// How long an acknowledgement may be delayed, less than 16.384 s; the peer's `min_ack_delay` if that is
    /// longer. Default: the peer's own `max_ack_delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ack_delay: Option<Duration>,
    /// How far packets may be out of order before that is acknowledged at once, from 0 to 10000; 0 is any
    /// distance. Default: `packet_threshold`, from which on a packet is lost (section 9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordering_threshold: Option<u32>,
}

impl Default for AckFrequency {
    fn default() -> Self {
        Self { threshold: 9, max_ack_delay: None, reordering_threshold: None }
    }
}

/// What becomes of early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "QuicEarlyData")]
pub enum EarlyData {
    /// The server takes it.
    Accepted,
    /// The server has forgotten the ticket.
    Rejected,
}

/// The path on which packets are acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "QuicAckPath")]
pub enum AckPath {
    /// The path with the shortest smoothed round-trip time.
    Fastest,
    /// The path with the lowest path ID that works.
    First,
    /// The path on which the packets came.
    #[default]
    Same,
}

/// When a client moves to another of its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "QuicMigration")]
pub enum Migration {
    /// Never.
    #[default]
    Never,
    /// When its packets get no answer.
    OnFailure,
}

/// Whose defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "QuicProfile")]
pub enum Profile {
    /// noq 1.x: `TransportConfig::default`.
    Noq,
    /// picoquic of August 2026.
    Picoquic,
    /// quic-go of August 2026.
    QuicGo,
    /// quinn 0.11: `TransportConfig::default`.
    Quinn,
    /// The RFCs.
    #[default]
    Rfc9000,
}

/// Sizes of the messages of the handshake, each from 1 B to 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "QuicHandshake")]
pub struct Handshake {
    /// The `ClientHello`; default 241 B (RFC 9001 appendix A.2).
    pub client_hello: Bytes,
    /// The `ServerHello`; default 90 B (RFC 9001 appendix A.3).
    pub server_hello: Bytes,
    /// The server's certificate chain; default 2000 B.
    pub certificate: Bytes,
    /// What else the server sends: `EncryptedExtensions`, `CertificateVerify` and `Finished`; default 400 B.
    pub server_rest: Bytes,
    /// The client's `Finished`; default 36 B, that of SHA-256 (RFC 8446 section 4.4.4).
    pub client_finished: Bytes,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            client_hello: Bytes(241),
            server_hello: Bytes(90),
            certificate: Bytes(2_000),
            server_rest: Bytes(400),
            client_finished: Bytes(36),
        }
    }
}
