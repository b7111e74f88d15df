//! Sender and receiver reports (RFC 3550 section 6.4).

use crate::wire::bytes::{Append as _, Reader};

/// What a sender report says of the sender (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderInfo {
    /// When it was sent: seconds, and in the lower half their fraction.
    pub ntp: u64,
    /// The same time in ticks of the media's clock.
    pub rtp_timestamp: u32,
    /// Packets sent so far.
    pub packets: u32,
    /// Bytes of payload sent so far.
    pub octets: u32,
}

impl SenderInfo {
    pub(super) const BYTES: u32 = 20;

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.u64(self.ntp);
        out.u32(self.rtp_timestamp);
        out.u32(self.packets);
        out.u32(self.octets);
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let (ntp, rtp_timestamp) = (reader.u64()?, reader.u32()?);
        Some(Self { ntp, rtp_timestamp, packets: reader.u32()?, octets: reader.u32()? })
    }
}

/// How a stream arrives (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBlock {
    /// The stream.
    pub source: u32,
    /// The share of the packets since the last report that did not arrive, in 1/256.
    pub fraction_lost: u8,
    /// Packets that did not arrive so far; 24 bits on the wire, negative if packets came twice.
    pub cumulative_lost: i32,
    /// The highest sequence number, and in the upper half how often the numbers began again.
    pub highest_sequence: u32,
    /// The jitter of arrivals, in ticks of the media's clock.
    pub jitter: u32,
    /// The middle 32 bits of the time in the last sender report; 0 if there was none.
    pub last_sender_report: u32,
    /// The time since then, in 1/65536 s.
    pub delay_since: u32,
}

impl ReportBlock {
    pub(super) const BYTES: u32 = 24;

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.u32(self.source);
        out.u32(u32::from(self.fraction_lost) << 24 | self.cumulative_lost as u32 & 0x00ff_ffff);
        out.u32(self.highest_sequence);
        out.u32(self.jitter);
        out.u32(self.last_sender_report);
        out.u32(self.delay_since);
    }

    fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        let (source, lost) = (reader.u32()?, reader.u32()?);
        Some(Self {
            source,
            fraction_lost: (lost >> 24) as u8,
            // The sign is that of 24 bits.
            cumulative_lost: (lost << 8) as i32 >> 8,
            highest_sequence: reader.u32()?,
            jitter: reader.u32()?,
            last_sender_report: reader.u32()?,
            delay_since: reader.u32()?,
        })
    }

    pub(super) fn parse_all(reader: &mut Reader<'_>, count: u8) -> Option<Vec<Self>> {
        (0..count).map(|_| Self::parse(reader)).collect()
    }
}
