//! A TCP segment as bytes (RFC 9293 section 3.1).

use std::net::IpAddr;

use super::{Flags, HEADER_BYTES, Segment};
use crate::flow::PathId;
use crate::wire::bytes::Append as _;
use crate::wire::checksum::Sum;
use crate::wire::mptcp::context::MptcpSending;
use crate::wire::protocol::TCP;

/// Kinds of options.
pub mod option {
    /// The end of the list.
    pub const END: u8 = 0;
    /// No operation: one byte of padding.
    pub const NOP: u8 = 1;
    /// Maximum Segment Size (RFC 9293 section 3.7.1).
    pub const MSS: u8 = 2;
    /// Window Scale (RFC 7323 section 2).
    pub const WINDOW_SCALE: u8 = 3;
    /// SACK-Permitted (RFC 2018 section 2).
    pub const SACK_PERMITTED: u8 = 4;
    /// SACK (RFC 2018 section 3).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323 section 3).
    pub const TIMESTAMPS: u8 = 8;
    /// Multipath TCP (RFC 8684 section 3).
    pub const MPTCP: u8 = 30;
    pub(crate) const FAST_OPEN: u8 = 34;
    pub(crate) const ACCURATE_ECN_0: u8 = 172;
    pub(crate) const ACCURATE_ECN_1: u8 = 174;
    pub(crate) const EXPERIMENT: u8 = 254;
}

impl Segment {
    /// Appends the bytes of the segment, checksum included, as they are sent on a path.
    pub fn emit(&self, path: PathId, sending: &impl MptcpSending, out: &mut Vec<u8>) {
        self.emit_with(&[], path, sending, out);
    }

    /// Appends its bytes with further options after its own; they are padded to whole words.
    pub(in crate::wire) fn emit_with(
        &self,
        options: &[u8],
        path: PathId,
        sending: &impl MptcpSending,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let header = HEADER_BYTES + self.option_bytes() + options.len() as u32;
        debug_assert!(
            header.is_multiple_of(4) && header <= 60,
            "{self:?} and {} B of options",
            options.len()
        );
        out.u16(self.source_port);
        out.u16(self.destination_port);
        out.u32(self.sequence);
        out.u32(if self.flags.has(Flags::ACK) { self.acknowledgement } else { 0 });
        out.u16(((header / 4) << 12) as u16 | self.flags.bits());
        out.u16(self.window);
        // The checksum, and an urgent pointer, which is not used.
        out.u32(0);
        self.emit_options(out);
        out.extend(options);
        // End of Option List, then zeros.
        out.extend((0..self.padding).map(|_| option::END));
        sending.payload(self.payload, out);
        let checksum = checksum(sending.addresses(path), &out[start..]);
        out[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Appends the options in the order in which Linux does (`tcp_options_write`).
    fn emit_options(&self, out: &mut Vec<u8>) {
        if let Some(mss) = self.mss {
            out.extend([option::MSS, 4]);
            out.u16(mss);
        }
        let permitted = [option::SACK_PERMITTED, 2];
        if let Some(timestamps) = self.timestamps {
            out.extend(if self.sack_permitted { permitted } else { [option::NOP; 2] });
            out.extend([option::TIMESTAMPS, 10]);
            out.u32(timestamps.value);
            out.u32(timestamps.echo);
        }
        let start = out.len();
        if let Some(rare) = &self.rare {
            rare.emit_counters(out);
        }
        if self.sack_permitted && self.timestamps.is_none() {
            pad(start, permitted.len(), out);
            out.extend(permitted);
        }
        if let Some(scale) = self.window_scale {
            pad(start, 3, out);
            out.extend([option::WINDOW_SCALE, 3, scale]);
        }
        if !self.sack.is_empty() {
            pad(start, 2, out);
            out.extend([option::SACK, 2 + 8 * self.sack.len() as u8]);
            for block in &self.sack {
                out.u32(block.start);
                out.u32(block.end);
            }
        }
        pad(start, 0, out);
        if let Some(rare) = &self.rare {
            rare.emit_last(out);
        }
    }
}

/// Appends padding, so that options which begin at `start` end with a whole word after `more` bytes.
fn pad(start: usize, more: usize, out: &mut Vec<u8>) {
    let end = start + (out.len() - start + more).next_multiple_of(4) - more;
    out.resize(end, option::NOP);
}

/// The checksum of a segment in which its place is zero. Over a segment that has its checksum, it is zero if
/// that is right (RFC 9293 section 3.1).
pub(super) fn checksum(addresses: [IpAddr; 2], segment: &[u8]) -> u16 {
    Sum::pseudo_header(addresses, TCP, segment.len()).bytes(segment).checksum()
}
