//! A TCP segment from bytes that cannot be trusted (RFC 9293 section 3.1).

use std::net::IpAddr;

use super::emit::{checksum, option};
use super::{Flags, HEADER_BYTES, SackBlock, Segment, Timestamps};
use crate::ground::Payload;
use crate::wire::bytes::{Malformed, Reader, Receiving};
use crate::wire::mptcp;

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "TCP", problem }
}

const SHORT: Malformed = malformed("there is no whole header");

impl Segment {
    /// Reads a segment and the MPTCP options in it: everything behind an IP header with these addresses.
    ///
    /// # Errors
    /// When the bytes are not a segment, or the checksum is wrong.
    pub fn parse(
        bytes: &[u8],
        addresses: [IpAddr; 2],
        receiving: &mut impl Receiving,
    ) -> Result<(Self, Option<mptcp::Options>), Malformed> {
        let mut reader = Reader(bytes);
        let mut header = || {
            let ports = (reader.u16()?, reader.u16()?);
            let numbers = (reader.u32()?, reader.u32()?);
            let rest = (reader.u16()?, reader.u16()?);
            // The checksum and the urgent pointer are skipped.
            reader.u32()?;
            Some((ports, numbers, rest))
        };
        let ((source_port, destination_port), (sequence, acknowledgement), (offset, window)) =
            header().ok_or(SHORT)?;
        if checksum(addresses, bytes) != 0 {
            return Err(malformed("the checksum is wrong"));
        }
        if source_port == 0 || destination_port == 0 {
            return Err(malformed("a port is 0"));
        }
        let length = usize::from(offset >> 12) * 4;
        let options = length.checked_sub(HEADER_BYTES as usize).and_then(|length| reader.take(length));
        let options = options.ok_or(malformed("the data offset lies outside"))?;
        let mut segment = Self {
            source_port,
            destination_port,
            sequence,
            acknowledgement,
            flags: Flags::from_bits(offset),
            window,
            ..Self::blank()
        };
        let mptcp = segment.take_options(options);
        if !reader.is_empty() {
            let data = sequence.wrapping_add(u32::from(segment.flags.has(Flags::SYN)));
            let offset = receiving.keep_stream(data, reader.0);
            segment.payload = Payload { offset, length: reader.0.len() as u32 };
        }
        let carrier = mptcp::Carrier { segment: &segment, payload: reader.0 };
        let mptcp = mptcp::Options::parse(&mptcp, carrier, receiving);
        Ok((segment, mptcp))
    }

    /// Notes the options and returns those of MPTCP. What follows a malformed option is not read (RFC 9293
    /// section 3.1, MUST-7: an option that is not known is passed over by its length).
    fn take_options<'a>(&mut self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut reader = Reader(bytes);
        let mut mptcp = Vec::new();
        while let Some(kind) = reader.u8() {
            if kind == option::END {
                break;
            }
            if kind == option::NOP {
                continue;
            }
            let length = reader.u8().and_then(|length| usize::from(length).checked_sub(2));
            let Some(value) = length.and_then(|length| reader.take(length)) else { break };
            if kind == option::MPTCP {
                mptcp.push(value);
            } else {
                self.take_option(kind, value);
            }
        }
        // What is neither options nor their padding to whole words is that of a model whose header has a
        // fixed size.
        if mptcp.is_empty() {
            self.padding = (bytes.len() as u32).saturating_sub(self.option_bytes()) as u8;
        }
        mptcp
    }

    fn take_option(&mut self, kind: u8, bytes: &[u8]) -> Option<()> {
        let mut value = Reader(bytes);
        match kind {
            option::MSS => self.mss = Some(value.u16()?),
            // RFC 7323 section 2.3: the shift count is at most 14.
            option::WINDOW_SCALE => self.window_scale = Some(value.u8()?.min(14)),
            option::SACK_PERMITTED => self.sack_permitted = true,
            option::TIMESTAMPS => {
                self.timestamps = Some(Timestamps { value: value.u32()?, echo: value.u32()? });
            }
            option::SACK => {
                while let (Some(start), Some(end)) = (value.u32(), value.u32()) {
                    let _ = self.sack.try_push(SackBlock { start, end });
                }
            }
            _ => self.rare.get_or_insert_default().take(kind, bytes),
        }
        Some(())
    }
}
