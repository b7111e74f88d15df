//! HEARTBEAT (RFC 9260 section 3.3.5) and HEARTBEAT ACK (section 3.3.6), which has type 5.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Type = 4   |  Chunk Flags  |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Heartbeat Info Type = 1    |         HB Info Length        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                 Sender-Specific Heartbeat Info                /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The information of our own heartbeats; the second half is only in those of a pair:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           When it was sent: nanoseconds, upper half           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                           lower half                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             Nonce                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |      Path     |       0       |              Mark             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Number of the pair                      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         1 in the second heartbeat of the pair, else 0         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            When it arrived: nanoseconds, upper half           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                           lower half                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::codes::{chunk, parameter};
use super::tlv::next_value;
use super::writer::Writer;
use crate::flow::PathId;
use crate::time::Time;
use crate::wire::bytes::{Append as _, Reader};
use crate::wire::sctp::context::SctpSending;

/// A mark that our own heartbeats carry besides what they measure, so that they can be told from those of
/// other implementations.
const HEARTBEAT_MARK: u16 = 0xab4a;

/// Sender-specific heartbeat information: 16 bytes behind a parameter header, 32 in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatInfo {
    /// When the heartbeat was sent.
    pub sent_at: Time,
    /// A random value that proves the path (RFC 9260 section 5.4).
    pub nonce: u32,
    /// The path it was sent on.
    pub path: PathId,
    /// Size of the PAD chunk (RFC 4820) behind the heartbeat, in bytes; the answer has none.
    pub padding: u16,
    /// Its part in a pair of heartbeats that measures the rate of a path (Nishiyama et al.), if it belongs to
    /// one.
    pub pair: Option<PairMark>,
}

/// One heartbeat of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairMark {
    /// The number of the pair.
    pub number: u32,
    /// Whether it is the second heartbeat of the pair.
    pub is_second: bool,
    /// In the answer, when the heartbeat arrived.
    pub arrived_at: Time,
}

impl HeartbeatInfo {
    /// Size of a HEARTBEAT chunk with an ordinary heartbeat: chunk header, parameter header, 16 bytes of
    /// information, as in ns-2.
    pub const ORDINARY_BYTES: u32 = 24;
    /// The length of a heartbeat of a pair.
    pub const PAIR_BYTES: u32 = 40;

    pub(super) const fn bytes(&self) -> u32 {
        if self.pair.is_some() { Self::PAIR_BYTES } else { Self::ORDINARY_BYTES }
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::HEARTBEAT, 0, |writer| self.emit_info(writer));
        if self.padding > 0 {
            // RFC 4820: padding is a chunk of its own.
            writer.with_header(chunk::PAD, 0, |writer| {
                let end = writer.out.len() + usize::from(self.padding) - 4;
                writer.out.resize(end, 0);
            });
        }
    }

    pub(super) fn emit_ack(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::HEARTBEAT_ACK, 0, |writer| self.emit_info(writer));
    }

    fn emit_info(&self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.parameter(parameter::HEARTBEAT_INFO, |writer| {
            let out = &mut *writer.out;
            out.u64(self.sent_at.as_nanos());
            out.u32(self.nonce);
            out.u8(self.path.0);
            out.u8(0);
            out.u16(HEARTBEAT_MARK);
            if let Some(pair) = self.pair {
                out.u32(pair.number);
                out.u32(pair.is_second.into());
                out.u64(pair.arrived_at.as_nanos());
            }
        });
    }

    /// The information, if it is one of ours; that of other implementations is opaque.
    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        let (kind, mut info) = next_value(&mut reader)?;
        if kind != parameter::HEARTBEAT_INFO || !reader.is_empty() {
            return None;
        }
        let (sent_at, nonce, path) = (info.u64()?, info.u32()?, info.u8()?);
        if (info.u8()?, info.u16()?) != (0, HEARTBEAT_MARK) {
            return None;
        }
        let pair = if info.is_empty() {
            None
        } else {
            let (number, is_second) = (info.u32()?, info.u32()?);
            let arrived_at = Time::from_nanos(info.u64()?);
            if is_second > 1 || !info.is_empty() {
                return None;
            }
            Some(PairMark { number, is_second: is_second == 1, arrived_at })
        };
        Some(Self { sent_at: Time::from_nanos(sent_at), nonce, path: PathId(path), padding: 0, pair })
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::super::testing::assert_is;
    use super::*;

    #[test]
    fn bytes_are_as_in_the_picture() {
        let info =
            HeartbeatInfo { sent_at: Time::from_nanos(1), nonce: 2, path: PathId(3), padding: 0, pair: None };
        let mut bytes = [4, 0, 0, 24, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 3, 0, 0xab, 0x4a];
        assert_is(&bytes, &Chunk::Heartbeat(info));
        bytes[0] = 5;
        assert_is(&bytes, &Chunk::HeartbeatAck(info));
        bytes[0] = 4;
        // RFC 4820: padding is a chunk of its own.
        let padded = [&bytes[..], &[132, 0, 0, 8, 0, 0, 0, 0]].concat();
        assert_is(&padded, &Chunk::Heartbeat(HeartbeatInfo { padding: 8, ..info }));
    }
}
