//! The settings of a TCP endpoint: a named profile, and what is to differ from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::procedures;
use crate::cc;
pub use crate::recovery::prr::WindowReduction;
use crate::time::Duration;
use crate::units::Bytes;

/// Settings of a TCP endpoint. A setting that is left out has its profile's value; defaults in the
/// descriptions are those of profile `linux_6`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TcpConfig")]
pub struct Config {
    /// Whose defaults: "`linux_6`" (default; 6.12), "`linux_2_6_20`" (2007), "rfc" or "`kheirkhah_v1`" (the
    /// subflows of an ns-3 model of MPTCP). What is said of the other profiles does not hold for the last
    /// one, whose defaults its own description has.
    #[schemars(extend("x-known-by" = ["kernel", "advise", "drill"]))]
    pub profile: Profile,
    /// Congestion control; default that of the profile: cubic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise", "drill"]))]
    pub cc: Option<cc::Config>,
    /// Bytes that the application may write ahead of what is acknowledged, from one MSS to 1 GiB; default
    /// 4 MiB (Linux: the largest of `tcp_wmem`), in profile rfc 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise", "drill"]))]
    pub send_buffer: Option<Bytes>,
    /// The largest window that is advertised, from one MSS to 1 GiB; default 6 MiB (Linux: the largest of
    /// `tcp_rmem`), in profile rfc 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise", "drill"]))]
    pub receive_buffer: Option<Bytes>,
    /// Whether the receive buffer begins small (`first_receive_buffer`) and follows what the application
    /// reads in a round trip, and the window opens with each segment, which is then acknowledged at once
    /// (Linux: `tcp_moderate_rcvbuf`, `tcp_grow_window`); default true, in the other profiles false: the
    /// window is the whole buffer from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub receive_autotuning: Option<bool>,
    /// Memory of a receive buffer that begins small, from 2304 B to 1 GiB, of which half is for data at
    /// first; default 131072 B (Linux: the second of `tcp_rmem`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub first_receive_buffer: Option<Bytes>,
    /// Upper limit of the maximum segment size without options, from 88 B; default what the path's MTU
    /// allows (1460 B for 1500 B over IPv4).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub mss: Option<Bytes>,
    /// The initial congestion window; default 10 segments, in profile rfc "rfc6928", in
    /// profile `linux_2_6_20` "rfc3390".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub initial_window: Option<InitialWindow>,
    /// When a segment that is not full waits; default "minshall", in profile rfc "rfc896".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub nagle: Option<Nagle>,
    /// Timestamps (RFC 7323); default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub timestamps: Option<bool>,
    /// Selective acknowledgements (RFC 2018); default true. Without them, NewReno (RFC 6582).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub sack: Option<bool>,
    /// Duplicate selective acknowledgements (RFC 2883); default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub dsack: Option<bool>,
    /// Window scaling (RFC 7323); default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub window_scaling: Option<bool>,
    /// How long an acknowledgement may be delayed, at most 500 ms (RFC 9293 section 3.8.6.3); default
    /// 40 ms, in profile rfc 200 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub ack_delay: Option<Duration>,
    /// The number of full segments after which an acknowledgement leaves at once; default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub ack_every: Option<u32>,
    /// How many acknowledgements at the beginning, and after a long pause, are not delayed; default 16, in
    /// profile rfc 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub quick_acks: Option<u32>,
    /// How long duplicate acknowledgements after the third may be held back, so that one stands for several,
    /// at most; also at most 1/20 of the round-trip time, and 44 are held at most; default 1 ms, in the other
    /// profiles 0 s, so none is held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub compressed_ack_delay: Option<Duration>,
    /// The retransmission timeout before the first measurement; default 1 s (RFC 6298 section 2), in
    /// profile `linux_2_6_20` 3 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub rto_initial: Option<Duration>,
    /// The smallest retransmission timeout; default 200 ms, in profile rfc 1 s (RFC 6298 section 2.4). With
    /// `rto_estimator` linux it is the smallest variation that is added to the smoothed round-trip time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub rto_min: Option<Duration>,
    /// The largest retransmission timeout; default 120 s, in profile rfc 60 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub rto_max: Option<Duration>,
    /// The formula of the retransmission timeout; default "linux", in profile rfc "rfc6298".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub rto_estimator: Option<RtoEstimator>,
    /// Clock granularity of the timers; default 1 ms with the kernel's timer wheel, in profile rfc 0 s
    /// (exact).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_granularity: Option<Duration>,
    /// Retransmissions of SYN before the connection is given up; default 6, in profile `linux_2_6_20` 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub syn_retries: Option<u32>,
    /// Timeouts in a row before the connection is given up; default 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub retries: Option<u32>,
    /// How lost segments are told from late ones; default "rack", in profile `linux_2_6_20` "fack", in
    /// profile rfc "rack".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub loss_detection: Option<LossDetection>,
    /// How the window is reduced in recovery; default "prr", in profile `linux_2_6_20` "`rate_halving`".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub window_reduction: Option<WindowReduction>,
    /// Whether duplicate acknowledgements let new data out before recovery (RFC 3042); default true. Linux
    /// sends one segment for each, the RFC two at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub limited_transmit: Option<bool>,
    /// Tail loss probes (RFC 8985 section 7); default true, in profile `linux_2_6_20` false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub tail_loss_probe: Option<bool>,
    /// F-RTO (RFC 5682); default true, in profile `linux_2_6_20` false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub f_rto: Option<bool>,
    /// Whether a reduction that timestamps (RFC 3522, RFC 4015) or DSACK (RFC 3708) show to be a mistake is
    /// undone; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub undo: Option<bool>,
    /// Explicit congestion notification; default "off".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise", "drill"]))]
    pub ecn: Option<EcnMode>,
    /// With accurate ECN: whether acknowledgements carry the counters of bytes in an option where there is
    /// room (RFC 9768 section 3.2.3); default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["drill"]))]
    pub ecn_option: Option<bool>,
    /// Whether connections after the first one to a server are opened fast (RFC 7413): the SYN carries the
    /// beginning of what the client writes at once, and the server answers without waiting for the end of the
    /// handshake, which saves a round trip; the first connection gets the server's cookie; default false. In
    /// profiles `linux_2_6_20` and `kheirkhah_v1`, and over MPTCP, there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub fast_open: Option<bool>,
    /// Whether segments are paced where the control does not say so itself: at twice the window per
    /// round-trip time in slow start, at 1.2 times later (Linux: `tcp_update_pacing_rate`); default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub pacing: Option<bool>,
    /// Whether an idle sender's window is reduced (RFC 2861; Linux: `tcp_slow_start_after_idle`); default
    /// true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "drill"]))]
    pub idle_restart: Option<bool>,
    /// Whether the window grows by what is acknowledged (RFC 3465) instead of once per acknowledgement;
    /// default true, in profiles `linux_2_6_20` and rfc false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub byte_counting: Option<bool>,
    /// Rules in which Linux differs from the RFCs; default those of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["drill"]))]
    pub procedures: Option<procedures::Config>,
    /// Whether means are reported as well: of the window over time, of all samples of the round-trip time,
    /// and of window and smoothed round-trip time over the changes of the window; default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub measure: Option<bool>,
    /// Port of the flow's end `from`; each further connection takes the next one; default 49152, the first
    /// dynamic port (RFC 6335 section 6).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub source_port: Option<u16>,
    /// Port of the flow's end `to`; default 5001, that of iperf.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub destination_port: Option<u16>,
    /// The path that is used, by its position in the flow's list; default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub path: Option<u8>,
}

/// Whose defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TcpProfile")]
pub enum Profile {
    /// A subflow of the ns-3 model of MPTCP by Kheirkhah, Wakeman and Parisis ("Multipath-TCP in ns-3",
    /// 2014), or a connection that behaves like one: Reno with a window in bytes that begins with one segment
    /// and a threshold of 65535 B; NewReno's recovery (RFC 6582), the window inflated by duplicates; after a
    /// timeout everything outstanding is retransmitted; no selective acknowledgements, timestamps, window
    /// scaling, limited transmit, loss probes, undo, idle restart or Nagle; every segment acknowledged at
    /// once; buffers of 65535 B to receive and 1 MiB to send; `rto_estimator` "`mean_deviation`",
    /// `rto_initial` 1.5 s, `rto_min` 200 ms, `rto_max` 1 d, timeouts without number. Every segment has 20 B
    /// of options, which do not count in `mss`.
    #[serde(rename = "kheirkhah_v1")]
    KheirkhahV1,
    /// Linux 6.12.
    #[default]
    #[serde(rename = "linux_6")]
    Linux6,
    /// Linux 2.6.20 (2007).
    #[serde(rename = "linux_2_6_20")]
    Linux2620,
    /// The RFCs.
    Rfc,
}

/// The initial congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TcpInitialWindow")]
pub enum InitialWindow {
    /// Two to four segments (RFC 3390): min(4 MSS, max(2 MSS, 4380 B)).
    Rfc3390,
    /// Ten segments, 14600 B at most (RFC 6928).
    Rfc6928,
    /// As many segments as given, from 1 to 1000.
    Segments(u32),
}

/// When a segment that is not full waits for more data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Nagle {
    /// It waits while another one that was not full is outstanding (Minshall; Linux: `tcp_minshall_check`).
    Minshall,
    /// It never waits: `TCP_NODELAY`.
    Off,
    /// It waits while anything is outstanding (RFC 896, RFC 9293 section 3.7.4).
    Rfc896,
}

/// How lost segments are told from late ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossDetection {
    /// A segment is lost when three segments above it have been acknowledged selectively (RFC 6675 section
    /// 4), or three duplicate acknowledgements have come (RFC 6582).
    Dupacks,
    /// A segment is lost when one that lies three segments or more above it has been acknowledged selectively
    /// (Mathis and Mahdavi, forward acknowledgement, SIGCOMM 1996).
    Fack,
    /// A segment is lost when one sent later has arrived and the reordering window has passed (RFC 8985).
    /// Without SACK, the same as `dupacks`.
    Rack,
}

/// Explicit congestion notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EcnMode {
    /// Every mark is counted, and the count is echoed (RFC 9768).
    Accurate,
    /// As `rfc3168`, but the echo follows every change of the marks (RFC 8257 section 3.2).
    Dctcp,
    /// As `accurate`, and data is sent as ECT(1) if the peer counts marks too (L4S, RFC 9331). This asks for
    /// a control such as `prague`, whose default it is; DualPI2 then gives the data the queue for L4S.
    L4s,
    /// Not negotiated.
    #[default]
    Off,
    /// One echo per window (RFC 3168).
    Rfc3168,
}

/// The formula of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RtoEstimator {
    /// Linux's `tcp_rtt_estimator`: the variation decays slowly and is never below the minimum.
    Linux,
    /// As in profile `kheirkhah_v1`: both gains 0.1, the first sample also the first deviation, no sample in
    /// the handshake, and a timeout that doubles up to 64 times.
    MeanDeviation,
    /// RFC 6298 section 2.
    Rfc6298,
}
