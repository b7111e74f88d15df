//! UDP (RFC 768), with or without RTP (RFC 3550) over it.
//!
//! There is no connection: the sender's [`Command::Connect`] is answered at once, the receiver is
//! always ready, and reliability is ignored, since nothing is ever sent twice. RTP is its 12 bytes of
//! header and nothing else; no RTCP is sent.

mod endpoint;
mod listener;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capabilities::{Capabilities, Messages, Numbering};
use crate::flow::Ecn;
use crate::wire::rtp;
use crate::wire::udp::HEADER_BYTES;

pub use endpoint::{SCALARS, UdpEndpoint};
pub use listener::Listener;

#[cfg(doc)]
use crate::endpoint::Command;

/// What it can do.
pub const CAPABILITIES: Capabilities = Capabilities {
    title: "UDP",
    flow_control: false,
    messages: Messages::Always,
    several_paths: false,
    changing_addresses: false,
    rebinding: false,
    pauses_reading: false,
    choice_of_control: false,
    numbering: Numbering::Nothing,
    numbers_by_path: false,
};

/// UDP as a flow's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "UdpConfig")]
pub struct Config {
    /// Whether every datagram carries an RTP header of 12 bytes; default false.
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub rtp: bool,
    /// The path that both ends send on, counted from 0 in the flow's list of paths; default 0.
    #[schemars(extend("x-known-by" = ["kernel", "advise"]))]
    pub path: u8,
    /// Another path on which every datagram is sent, too: a copy with the same RTP header, of which the
    /// receiver takes the one that comes first (spatial redundancy, as RFC 7198 calls it). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-known-by" = ["advise"]))]
    pub duplicate_on: Option<u8>,
    /// What its packets say of explicit congestion notification; default "off". Nothing answers marks: they
    /// are counted where they arrive.
    #[serde(skip_serializing_if = "UdpEcn::is_off")]
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub ecn: UdpEcn,
    /// Port of the flow's end `from`; default 49152, the first dynamic port (RFC 6335 section 6).
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub source_port: u16,
    /// Port of the flow's end `to`; default 5004, the port RTP is registered at (RFC 3551 section 8).
    #[schemars(extend("x-known-by" = ["kernel"]))]
    pub destination_port: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rtp: false,
            path: 0,
            duplicate_on: None,
            ecn: UdpEcn::Off,
            source_port: 49_152,
            destination_port: 5_004,
        }
    }
}

/// What packets of UDP say of explicit congestion notification (RFC 8085 section 3.1.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UdpEcn {
    /// They are not ECN-capable.
    #[default]
    Off,
    /// ECT(0): queues may mark them in place of a drop (RFC 3168).
    Ect0,
    /// ECT(1): `dualpi2` puts them into its queue for L4S (RFC 9331). It asks for a sender that answers marks
    /// (section 4.3), or for one so slow and even that it builds no queue.
    Ect1,
}

impl UdpEcn {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_off(&self) -> bool {
        *self == Self::Off
    }

    /// The ECN field of its packets.
    pub const fn field(self) -> Ecn {
        match self {
            Self::Off => Ecn::NotEct,
            Self::Ect0 => Ecn::Ect0,
            Self::Ect1 => Ecn::Ect1,
        }
    }
}

impl Config {
    /// Checks the configuration against the number of paths that the flow has.
    ///
    /// # Errors
    /// One sentence when the path does not exist or the ports cannot be told apart.
    pub fn check(&self, path_count: usize) -> Result<(), String> {
        if usize::from(self.path) >= path_count {
            return Err(format!(
                "path = {} is not one of the flow's paths, 0 to {}",
                self.path,
                path_count.saturating_sub(1)
            ));
        }
        if let Some(other) = self.duplicate_on
            && (usize::from(other) >= path_count || other == self.path)
        {
            return Err(format!(
                "duplicate_on = {other} is not another one of the flow's paths, 0 to {}, than path = {}",
                path_count.saturating_sub(1),
                self.path
            ));
        }
        for (key, port) in [("source_port", self.source_port), ("destination_port", self.destination_port)] {
            if port == 0 {
                return Err(format!("{key} = 0 is not a port from 1 to 65535"));
            }
        }
        Ok(())
    }

    /// Bytes of headers in front of a payload, without the IP header.
    pub const fn header_bytes(&self) -> u32 {
        HEADER_BYTES + if self.rtp { rtp::HEADER_BYTES } else { 0 }
    }
}
