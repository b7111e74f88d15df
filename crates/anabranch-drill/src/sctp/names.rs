//! Names of chunks, parameters and error causes in scripts, and their numbers (RFC 9260 sections 3.2, 3.3.2.1
//! and 3.3.10, RFC 3758, RFC 8260).

use crate::script::Term;

/// Chunks by type.
pub(super) const CHUNKS: [(&str, u8); 17] = [
    ("ABORT", 6),
    ("COOKIE_ACK", 11),
    ("COOKIE_ECHO", 10),
    ("DATA", 0),
    ("ERROR", 9),
    ("FORWARD_TSN", 192),
    ("HEARTBEAT", 4),
    ("HEARTBEAT_ACK", 5),
    ("INIT", 1),
    ("INIT_ACK", 2),
    ("I_DATA", 64),
    ("I_FORWARD_TSN", 194),
    ("NR_SACK", 16),
    ("SACK", 3),
    ("SHUTDOWN", 7),
    ("SHUTDOWN_ACK", 8),
    ("SHUTDOWN_COMPLETE", 14),
];

/// Parameters by type.
pub(super) const PARAMETERS: [(&str, u16); 11] = [
    ("COOKIE_PRESERVATIVE", 9),
    ("ECN_CAPABLE", 0x8000),
    ("FORWARD_TSN_SUPPORTED", 0xc000),
    ("HEARTBEAT_INFORMATION", 1),
    ("HOSTNAME_ADDRESS", 11),
    ("IPV4_ADDRESS", 5),
    ("IPV6_ADDRESS", 6),
    ("STATE_COOKIE", 7),
    ("SUPPORTED_ADDRESS_TYPES", 12),
    ("SUPPORTED_EXTENSIONS", 0x8008),
    ("UNRECOGNIZED_PARAMETER", 8),
];

/// Error causes by code.
pub(super) const CAUSES: [(&str, u16); 12] = [
    ("COOKIE_RECEIVED_WHILE_SHUTDOWN", 10),
    ("INVALID_MANDATORY_PARAMETER", 7),
    ("INVALID_STREAM_IDENTIFIER", 1),
    ("MISSING_MANDATORY_PARAMETER", 2),
    ("NO_USER_DATA", 9),
    ("OUT_OF_RESOURCES", 4),
    ("PROTOCOL_VIOLATION", 13),
    ("STALE_COOKIE_ERROR", 3),
    ("UNRECOGNIZED_CHUNK_TYPE", 6),
    ("UNRECOGNIZED_PARAMETERS", 8),
    ("UNRESOLVABLE_ADDRESS", 5),
    ("USER_INITIATED_ABORT", 12),
];

/// The number that a term is or names.
pub(super) fn code<T: Copy + Into<u64>>(table: &[(&str, T)], term: &Term) -> Option<u64> {
    match term {
        Term::Number(number) => Some(*number as u64),
        Term::Word(word) => table.iter().find(|(name, _)| name == word).map(|(_, number)| (*number).into()),
        _ => None,
    }
}

/// The name of a number.
pub(super) fn name<T: Copy + PartialEq>(table: &[(&'static str, T)], number: T) -> Option<&'static str> {
    table.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}
