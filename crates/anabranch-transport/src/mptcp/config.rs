//! The settings of an MPTCP endpoint: a named profile, and what is to differ from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cc::{self, coupled};
use crate::path::scheduler;
use crate::tcp;
use crate::time::Duration;
use crate::units::Bytes;

/// Settings of an MPTCP endpoint. A setting that is left out has its profile's value; defaults in the
/// descriptions are those of profile `rfc8684`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "MptcpConfig")]
pub struct Config {
    /// Whose defaults: "rfc8684" (default), "`linux_6`" (6.12) or "`kheirkhah_v1`" (M. Kheirkhah's model for
    /// ns-3).
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub profile: Profile,
    /// Which of the subflows with room carries the next data; default "`min_rtt`", in profile `linux_6`
    /// "linux", in profile `kheirkhah_v1` "`round_robin`".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub scheduler: Option<scheduler::Config>,
    /// How the congestion windows of the subflows depend on each other; default "lia" (RFC 6356), in the
    /// other profiles "`per_path`", in which they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub coupling: Option<coupled::Config>,
    /// The congestion control of each subflow with coupling "`per_path`"; default cubic, in profile
    /// `kheirkhah_v1` that of its subflows, reno.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub cc: Option<cc::Config>,
    /// Settings of every subflow, as those of transport tcp; control, buffers and path are set here instead.
    /// Default: those of profile rfc, in profiles `linux_6` and `kheirkhah_v1` those of the same name; where
    /// settings are given, their own profile counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub tcp: Option<tcp::Config>,
    /// Bytes that the application may write ahead of what is acknowledged on the connection level, from one
    /// MSS to 1 GiB; default 1 MiB, in profile `kheirkhah_v1` 1 GiB. In profile `linux_6` what the queue of
    /// each subflow grows to; default 4 MiB (Linux: the largest of `tcp_wmem`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub send_buffer: Option<Bytes>,
    /// Whether data waits in queues of the subflows that grow with their congestion windows (Linux:
    /// `tcp_sndbuf_expand`), and the send buffer is as large as these together; default true in profile
    /// `linux_6` with scheduler "linux". With false there, queues and send buffer have their size from the
    /// beginning (`SO_SNDBUF`). Elsewhere data waits above the subflows until their windows have room.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub send_autotuning: Option<bool>,
    /// The receive buffer that all subflows share, which is the largest window that is advertised (RFC 8684
    /// section 3.3.4), from one MSS to 1 GiB; default 1 MiB, in profile `linux_6` 6 MiB. Not in profile
    /// `kheirkhah_v1`, where each subflow has a window of 65535 B and the connection has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub receive_buffer: Option<Bytes>,
    /// What a subflow acknowledges when a segment fills a gap in it: "textbook" (default), or in profile
    /// `kheirkhah_v1` "`as_cited`".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub receiver: Option<Receiver>,
    /// Whether data is retransmitted on another subflow when its own has failed or ended, and when the
    /// connection's timer expires (RFC 8684 section 3.3.6); default true, in profile `kheirkhah_v1` false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub reinjection: Option<bool>,
    /// Whether a subflow with room sends the data again that fills the receive window from its beginning
    /// (Raiciu et al. 2012, section 4.2, mechanism 1); default true, in the other profiles false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub opportunistic_retransmission: Option<bool>,
    /// Whether the congestion window of the slower subflow that holds this data is then reduced (the same,
    /// mechanism 2); default true, in the other profiles false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub penalisation: Option<bool>,
    /// Timeouts in a row after which a subflow has failed: it gets no data until it makes progress again,
    /// from 1 to 100; default 1 (the first Linux implementation's `pf`), in profile `kheirkhah_v1` 100. In
    /// profile `linux_6` it has failed after more intervals of the connection's timer than this in which it
    /// hears nothing, most of them 200 ms, if another subflow works; default 4 (`net.mptcp.stale_loss_cnt`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub stale_after: Option<u32>,
    /// How long after the end of a subflow the side that opens tries to join again; "never" or a time;
    /// default 1 s, in the other profiles "never".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub rejoin: Option<Rejoin>,
    /// How long a connection lives that has no subflow, or for which only the acknowledgement of its own
    /// `DATA_FIN` is missing; default 60 s (Linux: `net.mptcp.close_timeout`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub close_timeout: Option<Duration>,
    /// Whether this end asks for checksums of mappings (RFC 8684 section 3.3.1), which the options have room
    /// for; both ends then have them; default false (Linux: `net.mptcp.checksum_enabled`). Data that was
    /// changed on its way ends its subflow; if that is the only one, the connection goes on as one of TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub checksums: Option<bool>,
    /// Paths that carry data only while no other one can, by their position in the flow's list (RFC 8684
    /// section 3.3.8); default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub backup: Vec<u8>,
}

/// Whose defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MptcpProfile")]
pub enum Profile {
    /// M. Kheirkhah's model for ns-3, which the paper mptcp-aqm uses.
    #[serde(rename = "kheirkhah_v1")]
    KheirkhahV1,
    /// Linux 6.12.
    #[serde(rename = "linux_6")]
    Linux6,
    /// The RFC, with the mechanisms of Raiciu et al. 2012.
    #[default]
    Rfc8684,
}

/// What a subflow acknowledges when a segment fills a gap in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MptcpReceiver")]
pub enum Receiver {
    /// It acknowledges that segment alone, though others behind it have arrived, until one fills the gap of
    /// the whole connection (a defect of M. Kheirkhah's model). The sender then sends again what has arrived,
    /// and may have to wait for a timeout.
    AsCited,
    /// It also acknowledges everything that has arrived behind that segment (RFC 9293 section 3.10.7.4).
    #[default]
    Textbook,
}

/// When a subflow that has ended is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rejoin {
    /// It is opened this long after its end, and after each attempt that failed; at least 1 ms.
    After(Duration),
    /// It is not opened again by itself.
    Never,
}
