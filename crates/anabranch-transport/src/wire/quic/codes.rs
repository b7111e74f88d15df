//! Types of frames (RFC 9000 section 12.4, RFC 9221, draft-ietf-quic-ack-frequency-14, RFC 10069 section 4).

pub(super) const PADDING: u64 = 0x00;
pub(super) const PING: u64 = 0x01;
pub(super) const ACK: u64 = 0x02;
pub(super) const ACK_ECN: u64 = 0x03;
pub(super) const RESET_STREAM: u64 = 0x04;
pub(super) const STOP_SENDING: u64 = 0x05;
pub(super) const CRYPTO: u64 = 0x06;
pub(super) const NEW_TOKEN: u64 = 0x07;
/// The first of eight, of which three bits say more.
pub(super) const STREAM: u64 = 0x08;
pub(super) const STREAM_LAST: u64 = 0x0f;
pub(super) const MAX_DATA: u64 = 0x10;
pub(super) const MAX_STREAM_DATA: u64 = 0x11;
pub(super) const MAX_STREAMS_BIDI: u64 = 0x12;
pub(super) const MAX_STREAMS_UNI: u64 = 0x13;
pub(super) const DATA_BLOCKED: u64 = 0x14;
pub(super) const STREAM_DATA_BLOCKED: u64 = 0x15;
pub(super) const STREAMS_BLOCKED_BIDI: u64 = 0x16;
pub(super) const STREAMS_BLOCKED_UNI: u64 = 0x17;
pub(super) const NEW_CONNECTION_ID: u64 = 0x18;
pub(super) const RETIRE_CONNECTION_ID: u64 = 0x19;
pub(super) const PATH_CHALLENGE: u64 = 0x1a;
pub(super) const PATH_RESPONSE: u64 = 0x1b;
pub(super) const CONNECTION_CLOSE: u64 = 0x1c;
pub(super) const CONNECTION_CLOSE_APPLICATION: u64 = 0x1d;
pub(super) const HANDSHAKE_DONE: u64 = 0x1e;
/// draft-ietf-quic-ack-frequency-14 section 11.2.
pub(super) const IMMEDIATE_ACK: u64 = 0x1f;
pub(super) const ACK_FREQUENCY: u64 = 0xaf;
/// RFC 9221.
pub(super) const DATAGRAM: u64 = 0x30;
pub(super) const DATAGRAM_WITH_LENGTH: u64 = 0x31;
/// RFC 10069 section 4, read as draft-ietf-quic-multipath-21.
pub(super) const PATH_ACK: u64 = 0x3e;
pub(super) const PATH_ACK_ECN: u64 = 0x3f;
pub(super) const PATH_ABANDON: u64 = 0x3e75;
pub(super) const PATH_STATUS_BACKUP: u64 = 0x3e76;
pub(super) const PATH_STATUS_AVAILABLE: u64 = 0x3e77;
pub(super) const PATH_NEW_CONNECTION_ID: u64 = 0x3e78;
pub(super) const PATH_RETIRE_CONNECTION_ID: u64 = 0x3e79;
pub(super) const MAX_PATH_ID: u64 = 0x3e7a;
pub(super) const PATHS_BLOCKED: u64 = 0x3e7b;
pub(super) const PATH_CIDS_BLOCKED: u64 = 0x3e7c;
