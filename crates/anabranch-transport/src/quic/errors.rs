//! Transport errors (RFC 9000 section 20.1).

/// Codes of errors.
pub mod code {
    /// The connection ends in order.
    pub const NO_ERROR: u64 = 0x00;
    /// A flow-control limit was not kept (section 4).
    pub const FLOW_CONTROL_ERROR: u64 = 0x03;
    /// A stream was opened beyond the limit (section 4.6).
    pub const STREAM_LIMIT_ERROR: u64 = 0x04;
    /// A frame came for a stream that does not permit it (section 3).
    pub const STREAM_STATE_ERROR: u64 = 0x05;
    /// The size of a stream has changed (section 4.5).
    pub const FINAL_SIZE_ERROR: u64 = 0x06;
    /// There are too many connection IDs (section 5.1.1).
    pub const CONNECTION_ID_LIMIT_ERROR: u64 = 0x09;
    /// A transport parameter is wrong (section 7.4).
    pub const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;
    /// A rule that has no code of its own was broken.
    pub const PROTOCOL_VIOLATION: u64 = 0x0a;
    /// The token of a Retry packet does not hold (section 8.1.2).
    pub const INVALID_TOKEN: u64 = 0x0b;
    /// The application closed during the handshake (section 10.2.3).
    pub const APPLICATION_ERROR: u64 = 0x0c;
    /// More of the handshake came out of order than is kept (section 7.5).
    pub const CRYPTO_BUFFER_EXCEEDED: u64 = 0x0d;
    /// A key was updated against the rules (RFC 9001 section 6.7).
    pub const KEY_UPDATE_ERROR: u64 = 0x0e;
    /// More packets were forged than a key stands (RFC 9001 section 6.6).
    pub const AEAD_LIMIT_REACHED: u64 = 0x0f;
    /// A frame is not whole, or impossible.
    pub const FRAME_ENCODING_ERROR: u64 = 0x07;
    /// The interface of a path is not stable, or it works badly (RFC 10069 section 4.2.1).
    pub const PATH_UNSTABLE_OR_POOR: u64 = 0x3e76;
    /// TLS has failed with the alert that is added to it.
    pub const CRYPTO_ERROR: u64 = 0x100;
    /// The code with which this house's applications give up; in order they close with 0.
    pub const APPLICATION_ABORT: u64 = 0x01;
}

/// A rule that the peer has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The code.
    pub(super) code: u64,
    /// What was wrong, for whoever reads a log.
    pub(super) reason: &'static str,
}

pub(super) const fn violation(code: u64, reason: &'static str) -> Violation {
    Violation { code, reason }
}
