//! The settings of an SCTP endpoint: a named profile, and what is to differ from it, in RFC words.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::load_sharing::Config as LoadSharingConfig;
use super::{procedures, stream_scheduler};
use crate::time::Duration;
use crate::units::{Bytes, Limit};
use crate::{cc, path};

/// Settings of an SCTP endpoint. A setting that is left out has its profile's value; defaults in the
/// descriptions are those of profile rfc9260 (RFC 9260 section 16).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SctpConfig")]
pub struct Config {
    /// Whose defaults: "rfc9260" (default), "rfc4960", "rfc2960", `freebsd_10`, "linux" (6.12) or "ns2".
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise", "drill"]))]
    pub profile: Profile,
    /// RTO.Initial; default 1 s, in profiles rfc2960, rfc4960, `freebsd_10`, linux and ns2 3 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "drill"]))]
    pub rto_initial: Option<Duration>,
    /// RTO.Min; default 1 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise", "drill"]))]
    pub rto_min: Option<Duration>,
    /// RTO.Max; default 60 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise", "drill"]))]
    pub rto_max: Option<Duration>,
    /// RTO.Alpha, from 0 to 1; default 1/8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_alpha: Option<f64>,
    /// RTO.Beta, from 0 to 1; default 1/4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_beta: Option<f64>,
    /// How RTO follows from measurements; default "rfc".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_rule: Option<RtoRule>,
    /// What a retransmission timeout or an unanswered heartbeat does to RTO; default "exponential".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_backoff: Option<RtoBackoff>,
    /// What data is measured for round-trip times; default `round_trip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_sampling: Option<RttSampling>,
    /// Clock granularity; default 0 s (exact), in profile linux 1 ms with the kernel's timer wheel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_granularity: Option<Duration>,
    /// Valid.Cookie.Life; default 60 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "drill"]))]
    pub valid_cookie_life: Option<Duration>,
    /// Association.Max.Retrans or "off"; default 10, in profile ns2 "off".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise", "drill"]))]
    pub association_max_retrans: Option<Limit>,
    /// Path.Max.Retrans; default 5. Profile linux: at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise", "drill"]))]
    pub path_max_retrans: Option<u32>,
    /// Potentially.Failed.Max.Retrans (RFC 7829) or "off"; default "off", in profile linux 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise"]))]
    pub pf_max_retrans: Option<Limit>,
    /// Max.Init.Retransmits; default 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "drill"]))]
    pub max_init_retransmits: Option<u32>,
    /// The longest time after which INIT and COOKIE ECHO are retransmitted (RFC 6458 section 8.1.3); default
    /// RTO.Max.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["usrsctp", "drill"]))]
    pub max_init_timeout: Option<Duration>,
    /// Whether heartbeats are sent; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["usrsctp", "drill"]))]
    pub hb_enabled: Option<bool>,
    /// HB.interval; default 30 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise", "drill"]))]
    pub hb_interval: Option<Duration>,
    /// HB.Max.Burst: heartbeats at most at one time, on paths to be confirmed; default 1, in profile
    /// `freebsd_10` 4. With `hb_rule` linux those wait for their timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["usrsctp"]))]
    pub hb_max_burst: Option<u32>,
    /// When heartbeats are sent; default `per_path`, in profile linux `linux`, in profile ns2
    /// `one_timer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hb_rule: Option<HeartbeatRule>,
    /// The heartbeat period; default "rfc".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hb_period: Option<HeartbeatPeriod>,
    /// Whether an unanswered heartbeat is followed by another at once; default false, in profile ns2
    /// true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hb_after_timeout: Option<bool>,
    /// Whether a retransmission timeout on a path that is inactive, by it or already, sends a heartbeat
    /// there at once; default false, in profile ns2 true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hb_after_failure: Option<bool>,
    /// Whether paths carry data only after a heartbeat was answered on them (RFC 9260 section 5.4);
    /// default true, in profiles rfc2960 and ns2 false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_verification: Option<bool>,
    /// Max.Burst in segments or "off"; default 4, in profile ns2 "off".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["usrsctp", "advise", "drill"]))]
    pub max_burst: Option<Limit>,
    /// How long a SACK may be delayed, at most 500 ms; default 200 ms, in profile ns2 0 s, so none is
    /// delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp"]))]
    pub sack_delay: Option<Duration>,
    /// A SACK is sent for every n-th packet with data at the latest; default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise"]))]
    pub sack_frequency: Option<u32>,
    /// Whether a FORWARD TSN is acknowledged as data is (RFC 3758 section 3.6); default true, in profile
    /// ns2 false: the next data's SACK tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack_forward_tsn: Option<bool>,
    /// Where SACKs go; default `source`, in profile linux `source_unless_failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack_path: Option<SackPath>,
    /// Missing reports that trigger fast retransmit; default 3 (RFC 9260 section 7.2.4), in profile
    /// rfc2960 4 (RFC 2960 section 7.2.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_reports: Option<u32>,
    /// Over what missing reports are counted and fast recovery lasts; default "association" (RFC 9260
    /// section 7.2.4), in profile `freebsd_10` and with load sharing "path".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_reports_per: Option<MissingReportsPer>,
    /// The path that is primary at first, by its position in the flow's list; default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub primary_path: Option<u8>,
    /// Send buffer or "off"; default 212992 B (Linux), in profile `freebsd_10` 233016 B, in profile ns2
    /// "off": unlimited. In profile linux, without load sharing, each chunk counts with the memory that the
    /// kernel takes for it: 1216 B up to 368 B of data, 1536 B up to 688 B, 2560 B up to 1712 B; `SO_SNDBUF`
    /// sets twice its value for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise"]))]
    pub send_buffer: Option<Buffer>,
    /// Receive buffer: the advertised window; default 106496 B (Linux: half its 212992 B), in
    /// profile `freebsd_10` 233016 B, in profile ns2 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "advise"]))]
    pub receive_buffer: Option<Bytes>,
    /// Streams to send on, from 1 to 65535, as far as the peer allows; default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "drill"]))]
    pub streams: Option<u16>,
    /// Streams that the peer may send on, from 1 to 65535; default `streams`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "drill"]))]
    pub max_inbound_streams: Option<u16>,
    /// Which stream sends next (RFC 8260 section 3); default "fcfs": the order in which messages were handed
    /// over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_scheduler: Option<stream_scheduler::Config>,
    /// Whether fragments of different messages may alternate, in I-DATA chunks (RFC 8260 section 2), where
    /// both ends want it; default false. Where the messages of all streams that are on their way do not fit
    /// into the receive buffer together, they are delivered in parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaving: Option<bool>,
    /// Whether out-of-order data is acknowledged for good, in NR-SACK chunks
    /// (draft-natarajan-tsvwg-sctp-nrsack), where both ends want it: it leaves the send buffer although
    /// earlier data is missing; default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["drill"]))]
    pub nr_sack: Option<bool>,
    /// Whether several messages may share a packet; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundling: Option<bool>,
    /// Messages in one packet at most or "off"; default "off", in profile ns2 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_max: Option<Limit>,
    /// Nagle's algorithm: less than a packet waits while data is outstanding; default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "usrsctp", "drill"]))]
    pub nagle: Option<bool>,
    /// Whether partial reliability is offered (RFC 3758); default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["usrsctp", "drill"]))]
    pub partial_reliability: Option<bool>,
    /// Whether a retransmission timeout and an answered heartbeat send FORWARD TSN and new data at
    /// once; default true, in profile ns2 false: the next message or SACK does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_on_timeout: Option<bool>,
    /// Whether abandoned data that the cumulative TSN passes counts as acknowledged: it clears its
    /// path's error counter and starts its timer anew; default false, in profile ns2 true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_abandoned: Option<bool>,
    /// Whether an unordered message that a FORWARD TSN has overtaken is delivered when it arrives all the
    /// same; default false, in profile ns2 true: studies with ns-2 count the packets that arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_overtaken: Option<bool>,
    /// Rules in which Linux differs from RFC 9260; default those of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["drill"]))]
    pub procedures: Option<procedures::Config>,
    /// Congestion control of every path; default SCTP's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["drill"]))]
    pub cc: Option<cc::Config>,
    /// Path policy; default the standard's failover.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub policy: Option<path::Config>,
    /// Concurrent multipath transfer: new data on all usable paths at the same time. Default: none, new
    /// data on one path; an empty table has all of its means.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub load_sharing: Option<LoadSharingConfig>,
}

/// Whose defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SctpProfile")]
pub enum Profile {
    /// FreeBSD 10 (defaults of 10.4), as the sctp-handover study used it. Windows are counted as with
    /// rfc2960. Known deviations: Max.Burst limits what leaves at once, where the kernel shrinks the window
    /// to it (`net.inet.sctp.cwnd_maxburst`); the slow-start threshold after fast retransmit is at least 4
    /// segments, as the study's, not 2; fast recovery is per path, in the kernel one for all; a chunk is fast
    /// retransmitted once; a timeout sends no heartbeat on a path that was not in use.
    #[serde(rename = "freebsd_10")]
    FreeBsd10,
    /// Linux 6.12. A segment is the path MTU; user data alone fills a window.
    Linux,
    /// ns-2 as the voip-sctp study used it. Windows are counted as with rfc9260.
    Ns2,
    /// RFC 2960. A segment is the path MTU; DATA chunks with their headers fill a window.
    Rfc2960,
    /// RFC 4960. Windows are counted as with rfc2960.
    Rfc4960,
    /// RFC 9260. A segment is the largest DATA chunk that fits into a packet, header included (PMDCS); DATA
    /// chunks with their headers fill a window.
    #[default]
    Rfc9260,
}

/// When heartbeats are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeartbeatRule {
    /// As `per_path`; an unanswered heartbeat is noticed when the next one is due, data postpones the
    /// next one, and a potentially failed path is asked every RTO.
    Linux,
    /// One timer for all paths: at its expiry the path that has been idle longest is asked, if it has
    /// been idle since before the timer was started (ns-2).
    OneTimer,
    /// Every idle path has its own timer, and an answer is awaited for one RTO (RFC 9260 section 8.3).
    #[default]
    PerPath,
}

/// The formula of the heartbeat period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeartbeatPeriod {
    /// RTO + HB.interval (1 + delta), delta uniform in -0.5 to 0.5 (equation 4 of the voip-sctp study).
    Equation4,
    /// HB.interval + RTO (1 + delta), delta uniform in -0.5 to 0.5 (RFC 9260 section 8.3).
    #[default]
    Rfc,
}

/// How RTO follows from measured round-trip times. RTO.Max limits all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RtoRule {
    /// SRTT + max(RTO.Min, 4 times the mean deviation), in which a falling round-trip time counts an
    /// eighth (`tcp_rtt_estimator` of Linux); `rto_alpha` and `rto_beta` have no effect.
    LinuxTcp,
    /// max(23/24 RTO, (1 + B) RTT), at least RTO.Min, where B is 1 after a peak and fades (Ekstroem and
    /// Ludwig, "The Peak-Hopper", INFOCOM 2004).
    PeakHopper,
    /// max(RTO.Min, SRTT + 4 RTTVAR) (RFC 9260 section 6.3.1). Fallon et al., "An Analysis of
    /// Alterations to the SCTP RTO Calculation Mechanism for WLAN Environments" (MWCN 2008), vary
    /// `rto_alpha` and `rto_beta`.
    #[default]
    Rfc,
}

/// What a retransmission timeout or an unanswered heartbeat does to RTO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RtoBackoff {
    /// It is doubled (RFC 9260 section 6.3.3 E2).
    #[default]
    Exponential,
    /// It stays, as AORAN has it where the delay is the wireless link's (Fallon et al., WWIC 2009).
    None,
}

/// What data is measured for round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RttSampling {
    /// One chunk per round trip and path (RFC 9260 section 6.3.1 C4).
    #[default]
    RoundTrip,
    /// The last chunk that each SACK acknowledges on a path, unless it was retransmitted (C5).
    Sack,
}

/// Over what missing reports are counted and fast recovery lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissingReportsPer {
    /// All paths together: a chunk is reported missing by what was sent after it on any path
    /// (RFC 9260 section 7.2.4).
    #[default]
    Association,
    /// Each path: a chunk is reported missing only by what was sent after it on the same path, and the
    /// fast recovery of one path leaves the others alone (split fast retransmit, Iyengar et al. 2006;
    /// FreeBSD).
    Path,
}

/// Where SACKs go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SackPath {
    /// Where new data goes.
    Current,
    /// Where the data came from (RFC 9260 section 6.4).
    #[default]
    Source,
    /// Where the data came from, unless that path is not active (Linux).
    SourceUnlessFailed,
}

/// A size, or no limit: written as a size or "off".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// At most this much.
    At(Bytes),
    /// No limit.
    Off,
}

impl Serialize for Buffer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(size) => size.serialize(serializer),
            Self::Off => serializer.serialize_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|error| de::Error::custom(format!("{error}, or \"off\"")))
    }
}

impl JsonSchema for Buffer {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Buffer")
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<Bytes>(), { "const": "off" }] })
    }
}
