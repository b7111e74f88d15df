//! A TCP segment from bytes that cannot be trusted (RFC 9293 section 3.1).

use std::net::IpAddr;

use super::emit::{checksum, option};
use super::{Flags, HEADER_BYTES, SackBlock, Segment, Timestamps};
use crate::flow::Payload;
use crate::wire::bytes::{Malformed, Reader};
use crate::wire::mptcp;
use crate::wire::mptcp::context::MptcpReceiving;

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "TCP", problem }
}

const SHORT: Malformed = malformed("there is no whole header");

/// The header without its options, whose fields nothing has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source and destination port.
    pub ports: [u16; 2],
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgement number, also without [`Flags::ACK`].
    pub acknowledgement: u32,
    /// The length of the header with its options in bytes.
    pub length: usize,
    /// The nine control bits.
    pub bits: u16,
    /// The window field.
    pub window: u16,
}

impl Header {
    /// Reads the header with which a segment begins; [`None`] if there are less than [`HEADER_BYTES`].
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let ports = [reader.u16()?, reader.u16()?];
        let (sequence, acknowledgement) = (reader.u32()?, reader.u32()?);
        let (offset, window) = (reader.u16()?, reader.u16()?);
        // The checksum and the urgent pointer are skipped.
        reader.u32()?;
        let length = usize::from(offset >> 12) * 4;
        Some(Self { ports, sequence, acknowledgement, length, bits: offset & 0x1ff, window })
    }
}

/// Kind and value of each option. What follows a malformed option is not read (RFC 9293 section 3.1, MUST-7:
/// an option that is not known is passed over by its length).
pub fn options(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut reader = Reader(bytes);
    std::iter::from_fn(move || {
        loop {
            let kind = reader.u8()?;
            if kind == option::END {
                return None;
            }
            if kind == option::NOP {
                continue;
            }
            let length = reader.u8().and_then(|length| usize::from(length).checked_sub(2));
            return Some((kind, length.and_then(|length| reader.take(length))?));
        }
    })
    .fuse()
}

impl Segment {
    /// Reads a segment and the MPTCP options in it: everything behind an IP header with these addresses.
    ///
    /// # Errors
    /// When the bytes are not a segment, or the checksum is wrong.
    pub fn parse(
        bytes: &[u8],
        addresses: [IpAddr; 2],
        receiving: &mut impl MptcpReceiving,
    ) -> Result<(Self, Option<mptcp::Options>), Malformed> {
        let header = Header::read(bytes).ok_or(SHORT)?;
        let Header { ports: [source_port, destination_port], sequence, acknowledgement, window, .. } = header;
        let mut reader = Reader(&bytes[HEADER_BYTES as usize..]);
        if checksum(addresses, bytes) != 0 {
            return Err(malformed("the checksum is wrong"));
        }
        if source_port == 0 || destination_port == 0 {
            return Err(malformed("a port is 0"));
        }
        let options = header.length.checked_sub(HEADER_BYTES as usize).and_then(|length| reader.take(length));
        let options = options.ok_or(malformed("the data offset lies outside"))?;
        let mut segment = Self {
            source_port,
            destination_port,
            sequence,
            acknowledgement,
            flags: Flags::from_bits(header.bits),
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

    /// Notes the options and returns those of MPTCP.
    fn take_options<'a>(&mut self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut mptcp = Vec::new();
        for (kind, value) in options(bytes) {
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
