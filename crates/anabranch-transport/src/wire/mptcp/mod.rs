//! The MPTCP option (RFC 8684 section 3) as it travels with a TCP segment, and how many bytes it takes on the
//! wire.

mod checksum;
pub mod context;
mod emit;
pub mod keys;
mod parse;

use crate::flow::IpVersion;
use crate::wire::tcp;

pub(super) use parse::Carrier;
pub use parse::{Capable, Dss, Mapping, Number, Said};

/// A TCP segment of a subflow with its MPTCP option.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The segment without the option.
    pub tcp: tcp::Segment,
    /// The option.
    pub options: Options,
    /// Bytes that the options take besides TCP's own.
    pub option_bytes: u32,
}

/// The contents of the MPTCP options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `MP_CAPABLE` or `MP_JOIN`.
    pub handshake: Option<Handshake>,
    /// The position that is expected next on the connection level (DSS: Data ACK).
    pub data_ack: Option<u64>,
    /// The position on the connection level of the segment's payload (DSS: mapping).
    pub data_position: Option<u64>,
    /// The end of the stream (DSS: `DATA_FIN`).
    pub data_fin: Option<u64>,
    /// A mapping of everything that follows (DSS: data-level length 0). It comes without another mapping.
    pub infinite: Option<InfiniteMapping>,
    /// Whether the number of the mapping, where there is one, has only 4 bytes, its low half (DSS without
    /// flag m). A long one for which there is no room is short on the wire, too.
    pub has_short_number: bool,
    /// A signal about addresses or the connection.
    pub signal: Option<Signal>,
    /// `MP_TCPRST` (section 3.6): why the subflow is reset.
    pub reset: Option<Reset>,
    /// Whether the mapping has a checksum (section 3.3.1); with `MP_CAPABLE`, flag A: whether mappings are to
    /// have one.
    pub has_checksum: bool,
    /// Whether the checksum was wrong, so that the payload is not to be trusted (section 3.7). It can be
    /// computed if the segment has everything that is mapped.
    pub is_damaged: bool,
}

/// A mapping without an end (section 3.3.1), with which a connection goes on as one of TCP (section 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfiniteMapping {
    /// The position on the connection level at which it begins.
    pub data: u64,
    /// The same place in the subflow's stream: the low 32 bits of the position.
    pub position: u32,
}

/// Why a subflow is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The reason code (section 3.6).
    pub reason: u8,
    /// Flag T: whether it may work later.
    pub is_transient: bool,
}

impl Reset {
    /// Without a particular reason: the connection has been given up.
    pub const UNSPECIFIED: Self = Self { reason: 0, is_transient: false };
    /// Something that MPTCP demands was wrong, such as a token or a code (section 3.2).
    pub const MPTCP_ERROR: Self = Self { reason: 1, is_transient: false };
    /// Data was changed between the ends (section 3.7).
    pub const MIDDLEBOX: Self = Self { reason: 6, is_transient: false };
    /// The option's length on the wire.
    pub const BYTES: u32 = 4;
}

/// Identifiers of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identifiers {
    count: u8,
    list: [u8; Self::MOST],
}

impl Identifiers {
    /// How many identifiers are kept. A connection has eight paths at most, and Linux lists eight at most.
    pub const MOST: usize = 13;

    /// The identifiers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.list[..usize::from(self.count)].iter().copied()
    }
}

/// The first [`Identifiers::MOST`] of them.
impl FromIterator<u8> for Identifiers {
    fn from_iter<I: IntoIterator<Item = u8>>(identifiers: I) -> Self {
        let mut all = Self::default();
        for (place, identifier) in all.list.iter_mut().zip(identifiers) {
            *place = identifier;
            all.count += 1;
        }
        all
    }
}

/// The exchange that begins a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// `MP_CAPABLE` (section 3.1): the first subflow. It has no keys on SYN, the sender's on SYN-ACK, and
    /// both on the third segment and the first data.
    Capable {
        /// The key of the end that sends the option.
        sender_key: Option<u64>,
        /// The key of the other end.
        receiver_key: Option<u64>,
    },
    /// `MP_JOIN` (section 3.2): a further subflow.
    Join(Join),
}

/// The three segments that join a subflow to a connection, each with what it proves. The nonces are of the
/// ends of the subflow, the codes of [`keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// On SYN-ACK.
    Answer {
        /// [`keys::short_join_code`] of the end that answers.
        code: u64,
        /// Its nonce.
        nonce: u32,
        /// The identifier of its address.
        address: u8,
        /// Whether the path is a backup.
        is_backup: bool,
    },
    /// On SYN.
    Syn {
        /// Names the connection: [`keys::token_of`] for the key of the end that the SYN goes to.
        token: u32,
        /// The nonce of the end that opens the subflow.
        nonce: u32,
        /// The identifier of its address.
        address: u8,
        /// Whether the path is a backup.
        is_backup: bool,
    },
    /// On the third segment.
    Third {
        /// [`keys::join_code`] of the end that opens the subflow.
        code: [u8; 20],
    },
}

/// Information about addresses, paths and the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `ADD_ADDR` (section 3.4.1): the end has another address.
    AddAddress {
        /// The identifier of the address.
        address: u8,
        /// Whether the peer has heard of it.
        is_echo: bool,
        /// The port at that address, if it differs from that of the connection.
        port: Option<u16>,
    },
    /// `MP_FAIL` (section 3.7): the checksum of a mapping was wrong.
    Fail {
        /// Where the mapping began, in the stream of the end that gets this signal.
        position: u64,
    },
    /// `MP_FASTCLOSE` (section 3.5): the connection is aborted.
    FastClose,
    /// `MP_PRIO` (section 3.3.8): the subflow is to be a backup, or no longer.
    Priority {
        /// Whether the path becomes a backup.
        is_backup: bool,
    },
    /// `REMOVE_ADDR` (section 3.4.2): addresses no longer exist.
    RemoveAddress {
        /// The identifiers of these addresses.
        addresses: Identifiers,
    },
}

impl Signal {
    /// Bytes on the wire, padded to whole words.
    pub const fn wire_bytes(self, ip: IpVersion) -> u32 {
        let address = match ip {
            IpVersion::Ipv4 => 4,
            IpVersion::Ipv6 => 16,
        };
        match self {
            // An HMAC of 8 bytes comes with it except in the echo; the port and its padding take 4.
            Self::AddAddress { is_echo, port, .. } => {
                4 + address + if is_echo { 0 } else { 8 } + if port.is_some() { 4 } else { 0 }
            }
            Self::Fail { .. } | Self::FastClose => 12,
            Self::Priority { .. } => 4,
            Self::RemoveAddress { addresses } => (3 + addresses.count as u32).next_multiple_of(4),
        }
    }

    /// The name that output shows.
    const fn name(self) -> &'static str {
        match self {
            Self::AddAddress { is_echo: false, .. } => "add_addr",
            Self::AddAddress { is_echo: true, .. } => "add_addr_echo",
            Self::Fail { .. } => "mp_fail",
            Self::FastClose => "mp_fastclose",
            Self::Priority { .. } => "mp_prio",
            Self::RemoveAddress { .. } => "remove_addr",
        }
    }
}

impl Segment {
    /// The name that output shows, and the sequence number if the segment carries data.
    pub fn describe(&self) -> (&'static str, Option<u32>) {
        let (name, number) = self.tcp.describe();
        let name = match (self.options.handshake, self.options.signal, name) {
            (_, Some(signal), _) => signal.name(),
            (Some(Handshake::Capable { .. }), _, "syn") => "mp_capable_syn",
            (Some(Handshake::Capable { .. }), _, "syn_ack") => "mp_capable_syn_ack",
            (Some(Handshake::Capable { .. }), _, "ack") => "mp_capable_ack",
            (Some(Handshake::Join(_)), _, "syn") => "mp_join_syn",
            (Some(Handshake::Join(_)), _, "syn_ack") => "mp_join_syn_ack",
            (Some(Handshake::Join(_)), _, "ack") => "mp_join_ack",
            (None, None, "ack") if self.options.data_fin.is_some() => "data_fin",
            _ => name,
        };
        (name, number)
    }
}
