//! The types that every layer uses: the ends and the paths of a flow, the version of IP, the ECN field, and a
//! piece of an application's stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A path of a flow: the position in its list of paths, the same number at both ends.
///
/// A path is a pair of addresses, one per end, and the links between them; source and destination
/// address of a packet follow from the path and the sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

impl PathId {
    /// The index in a list of paths.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One of a flow's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opens the association, the flow's `from`.
    A,
    /// The other end, the flow's `to`.
    B,
}

impl Side {
    /// The other end.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The index in a pair: 0 for A.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// `a` or `b`, as names of streams and metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// The version of IP a flow runs over; decides the size of its packets' headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IpVersion {
    /// IPv4, 20 bytes of header.
    #[default]
    Ipv4,
    /// IPv6, 40 bytes of header.
    Ipv6,
}

impl IpVersion {
    /// The size of the header without options, in bytes.
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::Ipv4 => 20,
            Self::Ipv6 => 40,
        }
    }
}

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Congestion experienced.
    Ce,
    /// ECN-capable transport, codepoint 0.
    Ect0,
    /// ECN-capable transport, codepoint 1 (L4S, RFC 9331).
    Ect1,
    /// Not ECN-capable.
    #[default]
    NotEct,
}

/// A piece of an application's stream: it says which bytes are meant and does not hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Payload {
    /// The position in the application's stream at which the piece starts, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u32,
}
