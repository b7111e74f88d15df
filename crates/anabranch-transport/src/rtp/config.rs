//! The settings of RTP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cc::media;
use crate::time::Duration;
use crate::udp::UdpEcn;
use crate::units::{Bytes, check_range};

/// RTP as a flow's transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RtpConfig")]
pub struct Config {
    /// The congestion control; default `{ kind = "nada" }`.
    pub cc: media::Config,
    /// The path that both ends send on, counted from 0 in the flow's list of paths; default 0.
    pub path: u8,
    /// How often the receiver of media reports on what arrived (RFC 8888); default "100 ms". There is no
    /// report while nothing arrives.
    pub feedback_interval: Duration,
    /// Whether it also reports as soon as the last packet of a frame arrives, as SCReAM's draft recommends;
    /// default false.
    pub feedback_per_frame: bool,
    /// The mean time between sender and receiver reports (RFC 3550); default "1 s".
    pub report_interval: Duration,
    /// Whether the receiver asks for packets that are missing (RFC 4585), and its peer sends them again (RFC
    /// 4588); default true.
    pub nack: bool,
    /// The time after which a packet is asked for again; default "100 ms".
    pub nack_interval: Duration,
    /// How often a packet is asked for at most, from 1 to 100; default 10.
    pub nack_limit: u8,
    /// How much of the target rate retransmissions may take, from 0 to 1; default 0.5. Half a second's worth
    /// may be sent at once, and what is beyond is not sent again.
    pub retransmission_share: f64,
    /// What packets of media say of explicit congestion notification; default "off". The receiver reports
    /// marks.
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
        self.cc.check().map_err(|problem| format!("cc.{problem}"))
    }
}
