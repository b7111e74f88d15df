//! The settings of RTP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cc::media;
use crate::path::{self, ErrorLimits, scheduler};
use crate::time::Duration;
use crate::udp::UdpEcn;
use crate::units::{Bytes, check_range};

/// RTP as a flow's transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RtpConfig")]
pub struct Config {
    /// The congestion control; default `{ kind = "nada" }`.
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub cc: media::Config,
    /// The path that both ends send on, counted from 0 in the flow's list of paths; default 0. With `policy`
    /// it is the primary path at first.
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub path: u8,
    /// With it one path at a time carries media, and this says which; a path that falls silent is left.
    /// Default: none, and all packets go on `path`. Not `heartbeat_pair` and `throughput_checkpoint`, which
    /// send probes of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub policy: Option<path::Config>,
    /// With it several paths carry media at the same time, and this says which of them the next packet:
    /// "proportional" divides packets by what the paths' congestion controls allow, "redundant" sends each
    /// on every path. `policy` then says only on which path packets are sent again. Not "blest" and "ecf",
    /// which compare windows. Default: none, and one path at a time is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub scheduler: Option<scheduler::Config>,
    /// With `scheduler`: paths that carry media only while no other one can, by their position in the flow's
    /// list; default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backup: Vec<u8>,
    /// With `policy` or `scheduler`: after how long a path on which nothing was sent gets a copy of a packet
    /// of media, by which the sender learns how it is; default "200 ms".
    pub probe_interval: Duration,
    /// With `policy` or `scheduler`: a path is left when nothing is reported to have arrived there for this
    /// long, beyond its round trip; default "500 ms".
    pub path_timeout: Duration,
    /// How often the receiver of media reports on what arrived (RFC 8888); default "100 ms". There is no
    /// report while nothing arrives.
    pub feedback_interval: Duration,
    /// Whether it also reports as soon as the last packet of a frame arrives, as SCReAM's draft recommends;
    /// default false.
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub feedback_per_frame: bool,
    /// The mean time between sender and receiver reports (RFC 3550); default "1 s".
    pub report_interval: Duration,
    /// Whether the receiver asks for packets that are missing (RFC 4585), and its peer sends them again (RFC
    /// 4588); default true.
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub nack: bool,
    /// The time after which a packet is asked for again; default "100 ms".
    pub nack_interval: Duration,
    /// How often a packet is asked for at most, from 1 to 100; default 10.
    pub nack_limit: u8,
    /// How much of the target rate retransmissions may take, from 0 to 1; default 0.5. Half a second's worth
    /// may be sent at once, and what is beyond is not sent again. The encoder gets the target less the share
    /// of the last second's bytes that were sent again, at most a half.
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub retransmission_share: f64,
    /// What packets of media say of explicit congestion notification; default "off". The receiver reports
    /// marks.
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub ecn: UdpEcn,
    /// How many bytes of media may wait for the pacer; default "1 MB". Messages beyond are refused.
    pub send_buffer: Bytes,
    /// The payload type of the media, from 96 to 126 (RFC 3551); default 96. Retransmissions have the one
    /// above it.
    pub payload_type: u8,
    /// Ticks of the time stamps per second, from 1 to 1000000; default 90000, that of video (RFC 3551).
    pub clock_hz: u32,
    /// Port of the flow's end `from`; default 49152, the first dynamic port (RFC 6335 section 6).
    pub source_port: u16,
    /// Port of the flow's end `to`; default 5004, the port RTP is registered at (RFC 3551 section 8).
    pub destination_port: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cc: media::Config::default(),
            path: 0,
            policy: None,
            scheduler: None,
            backup: Vec::new(),
            probe_interval: Duration::from_millis(200),
            path_timeout: Duration::from_millis(500),
            feedback_interval: Duration::from_millis(100),
            feedback_per_frame: false,
            report_interval: Duration::from_secs(1),
            nack: true,
            nack_interval: Duration::from_millis(100),
            nack_limit: 10,
            retransmission_share: 0.5,
            ecn: UdpEcn::Off,
            send_buffer: Bytes(1_000_000),
            payload_type: 96,
            clock_hz: 90_000,
            source_port: 49_152,
            destination_port: 5_004,
        }
    }
}

impl Config {
    /// Checks the settings against the number of paths that the flow has.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn check(&self, path_count: usize) -> Result<(), String> {
        if usize::from(self.path) >= path_count {
            let last = path_count.saturating_sub(1);
            return Err(format!("path = {} is not one of the flow's paths, 0 to {last}", self.path));
        }
        let times = Duration::from_millis(1)..=Duration::from_secs(10);
        for (key, value) in [
            ("feedback_interval", self.feedback_interval),
            ("report_interval", self.report_interval),
            ("nack_interval", self.nack_interval),
            ("path_timeout", self.path_timeout),
            ("probe_interval", self.probe_interval),
        ] {
            if !times.contains(&value) {
                return Err(format!("{key} = \"{value}\" is out of range; it must be from 1 ms to 10 s"));
            }
        }
        check_range("nack_limit", self.nack_limit.into(), 1.0, 100.0)?;
        check_range("retransmission_share", self.retransmission_share, 0.0, 1.0)?;
        check_range("payload_type", self.payload_type.into(), 96.0, 126.0)?;
        check_range("clock_hz", self.clock_hz.into(), 1.0, 1e6)?;
        for (key, port) in [("source_port", self.source_port), ("destination_port", self.destination_port)] {
            if port == 0 {
                return Err(format!("{key} = 0 is not a port from 1 to 65535"));
            }
        }
        self.check_paths(path_count)?;
        self.cc.check().map_err(|problem| format!("cc.{problem}"))
    }

    /// Whether more than one path is used.
    pub(super) const fn has_several(&self) -> bool {
        self.policy.is_some() || self.scheduler.is_some()
    }

    fn check_paths(&self, path_count: usize) -> Result<(), String> {
        match &self.policy {
            Some(path::Config::HeartbeatPair(_) | path::Config::ThroughputCheckpoint(_)) => {
                return Err(
                    "policy.kind sends probes of its own, which \"rtp\" has none of; use one such as \
                            \"delay_centric\", \"echo\" or \"failover\""
                        .to_owned(),
                );
            }
            Some(policy) => {
                let limits = ErrorLimits { pf_max_retrans: None, path_max_retrans: 0 };
                policy.check(limits).map_err(|problem| format!("policy.{problem}"))?;
            }
            None => {}
        }
        match &self.scheduler {
            Some(scheduler::Config::Blest | scheduler::Config::Ecf) => {
                return Err("scheduler compares windows, which \"rtp\" has none of; use one such as \
                            \"proportional\" or \"redundant\""
                    .to_owned());
            }
            Some(scheduler) => {
                scheduler.check(path_count).map_err(|problem| format!("scheduler.{problem}"))?;
            }
            None if !self.backup.is_empty() => {
                return Err("backup needs a scheduler, such as \"proportional\"".to_owned());
            }
            None => {}
        }
        if let Some(backup) = self.backup.iter().find(|backup| usize::from(**backup) >= path_count) {
            let last = path_count.saturating_sub(1);
            return Err(format!("backup = {backup} is not one of the flow's paths, 0 to {last}"));
        }
        Ok(())
    }
}
