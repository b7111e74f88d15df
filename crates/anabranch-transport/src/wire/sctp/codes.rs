//! Numbers of chunks, parameters and error causes (the IANA registry "Stream Control Transmission Protocol
//! (SCTP) Parameters").

/// Types of chunks.
pub mod chunk {
    /// DATA.
    pub const DATA: u8 = 0;
    /// INIT.
    pub const INIT: u8 = 1;
    /// INIT ACK.
    pub const INIT_ACK: u8 = 2;
    /// SACK.
    pub const SACK: u8 = 3;
    /// HEARTBEAT.
    pub const HEARTBEAT: u8 = 4;
    /// HEARTBEAT ACK.
    pub const HEARTBEAT_ACK: u8 = 5;
    pub(crate) const ABORT: u8 = 6;
    pub(crate) const SHUTDOWN: u8 = 7;
    pub(crate) const SHUTDOWN_ACK: u8 = 8;
    pub(crate) const ERROR: u8 = 9;
    pub(crate) const COOKIE_ECHO: u8 = 10;
    pub(crate) const COOKIE_ACK: u8 = 11;
    pub(crate) const SHUTDOWN_COMPLETE: u8 = 14;
    pub(crate) const AUTH: u8 = 15;
    pub(crate) const NR_SACK: u8 = 16;
    pub(crate) const I_DATA: u8 = 64;
    pub(crate) const ASCONF_ACK: u8 = 128;
    pub(crate) const RECONFIG: u8 = 130;
    pub(crate) const PAD: u8 = 132;
    pub(crate) const FORWARD_TSN: u8 = 192;
    pub(crate) const ASCONF: u8 = 193;
    pub(crate) const I_FORWARD_TSN: u8 = 194;
}

/// What an end does with a chunk whose type it does not know (RFC 9260 section 3.2): this bit is set if the
/// chunk is to be reported, the other one if what follows in the packet is to be read. For parameters
/// (section 3.2.1), these are the same bits of the upper byte.
pub(super) const REPORT: u8 = 0x40;
pub(super) const READ_ON: u8 = 0x80;

/// How many bytes of a chunk or of parameters a report on them repeats at most, so that it fits into any
/// packet.
pub(super) const MOST_REPORTED: usize = 256;

/// Whether this is the type of a chunk that is understood.
pub(super) const fn is_known(kind: u8) -> bool {
    matches!(
        kind,
        chunk::DATA
            ..=chunk::COOKIE_ACK
                | chunk::SHUTDOWN_COMPLETE
                | chunk::AUTH
                | chunk::NR_SACK
                | chunk::I_DATA
                | chunk::ASCONF_ACK
                | chunk::RECONFIG
                | chunk::PAD
                | chunk::FORWARD_TSN
                | chunk::ASCONF
                | chunk::I_FORWARD_TSN
    )
}

/// Whether a parameter of this type has this bit (section 3.2.1).
pub(super) const fn does(kind: u16, bit: u8) -> bool {
    kind & ((bit as u16) << 8) != 0
}

/// Flags of DATA and I-DATA (RFC 9260 section 3.3.1, RFC 8260 section 2.1).
pub(super) mod data_flag {
    pub(crate) const ENDING: u8 = 1;
    pub(crate) const BEGINNING: u8 = 2;
    pub(crate) const UNORDERED: u8 = 4;
    pub(crate) const IMMEDIATE: u8 = 8;
}

/// The T bit of ABORT and SHUTDOWN COMPLETE.
pub(super) const TAG_REFLECTED: u8 = 1;
/// The U bit of a message in I-FORWARD-TSN (RFC 8260 section 2.3.1).
pub(super) const SKIPPED_UNORDERED: u16 = 1;

/// Types of parameters.
pub(super) mod parameter {
    pub(crate) const HEARTBEAT_INFO: u16 = 1;
    pub(crate) const IPV4_ADDRESS: u16 = 5;
    pub(crate) const IPV6_ADDRESS: u16 = 6;
    pub(crate) const STATE_COOKIE: u16 = 7;
    pub(crate) const UNRECOGNIZED: u16 = 8;
    pub(crate) const COOKIE_PRESERVATIVE: u16 = 9;
    pub(crate) const HOST_NAME_ADDRESS: u16 = 11;
    pub(crate) const SUPPORTED_ADDRESS_TYPES: u16 = 12;
    pub(crate) const RESET_OUTGOING: u16 = 13;
    pub(crate) const RESET_INCOMING: u16 = 14;
    pub(crate) const RESET_TSN: u16 = 15;
    pub(crate) const RECONFIGURATION_RESPONSE: u16 = 16;
    pub(crate) const ADD_OUTGOING_STREAMS: u16 = 17;
    pub(crate) const ADD_INCOMING_STREAMS: u16 = 18;
    pub(crate) const ECN_CAPABLE: u16 = 0x8000;
    pub(crate) const RANDOM: u16 = 0x8002;
    pub(crate) const CHUNK_LIST: u16 = 0x8003;
    pub(crate) const HMAC_ALGORITHMS: u16 = 0x8004;
    pub(crate) const SUPPORTED_EXTENSIONS: u16 = 0x8008;
    pub(crate) const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
    pub(crate) const ADD_ADDRESS: u16 = 0xc001;
    pub(crate) const DELETE_ADDRESS: u16 = 0xc002;
    pub(crate) const ERROR_CAUSE_INDICATION: u16 = 0xc003;
    pub(crate) const SET_PRIMARY: u16 = 0xc004;
    pub(crate) const SUCCESS_INDICATION: u16 = 0xc005;
    pub(crate) const ADAPTATION_LAYER: u16 = 0xc006;
}

/// Codes of error causes.
pub(super) mod cause {
    pub(crate) const INVALID_STREAM: u16 = 1;
    pub(crate) const MISSING_PARAMETER: u16 = 2;
    pub(crate) const STALE_COOKIE: u16 = 3;
    pub(crate) const UNRESOLVABLE_ADDRESS: u16 = 5;
    pub(crate) const UNRECOGNIZED_CHUNK: u16 = 6;
    pub(crate) const INVALID_PARAMETER: u16 = 7;
    pub(crate) const UNRECOGNIZED_PARAMETERS: u16 = 8;
    pub(crate) const NO_USER_DATA: u16 = 9;
    pub(crate) const COOKIE_WHILE_SHUTTING_DOWN: u16 = 10;
    pub(crate) const RESTART_WITH_NEW_ADDRESSES: u16 = 11;
    pub(crate) const USER_INITIATED_ABORT: u16 = 12;
    pub(crate) const PROTOCOL_VIOLATION: u16 = 13;
    pub(crate) const LAST_ADDRESS: u16 = 0xa0;
    pub(crate) const RESOURCE_SHORTAGE: u16 = 0xa1;
    pub(crate) const SOURCE_ADDRESS: u16 = 0xa2;
    pub(crate) const ILLEGAL_ASCONF_ACK: u16 = 0xa3;
}
