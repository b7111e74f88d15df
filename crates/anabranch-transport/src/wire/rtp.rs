//! The header of RTP (RFC 3550 section 5.1), and that of retransmissions behind it (RFC 4588 section 4).

use super::bytes::{Append as _, Malformed, Reader};

/// The header without contributing sources and extensions, in bytes.
pub const HEADER_BYTES: u32 = 12;
/// The original sequence number in front of a retransmitted payload (RFC 4588 section 4), in bytes.
pub const RETRANSMISSION_BYTES: u32 = 2;

/// Version 2, without padding, extension and contributing sources.
const BEGINNING: u16 = 0x8000;
const VERSION: u16 = 0xc000;
const PADDING: u16 = 0x2000;
const EXTENSION: u16 = 0x1000;
const MARKER: u16 = 0x80;
const PAYLOAD_TYPE: u16 = 0x7f;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether the packet is the last one of its frame (RFC 3551 section 5), or begins a talkspurt.
    pub marker: bool,
    /// What the payload is, 7 bits.
    pub payload_type: u8,
    /// The number of the packet.
    pub sequence: u16,
    /// When the first sample was taken, in ticks of the clock that belongs to the payload type.
    pub timestamp: u32,
    /// The synchronisation source: the stream to which the number belongs.
    pub ssrc: u32,
    /// In a retransmission, the number that the payload had first.
    pub original_sequence: Option<u16>,
}

impl Header {
    /// The length in bytes.
    pub const fn bytes(&self) -> u32 {
        HEADER_BYTES + if self.original_sequence.is_some() { RETRANSMISSION_BYTES } else { 0 }
    }

    /// Appends the bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let marker = if self.marker { MARKER } else { 0 };
        out.u16(BEGINNING | marker | u16::from(self.payload_type) & PAYLOAD_TYPE);
        out.u16(self.sequence);
        out.u32(self.timestamp);
        out.u32(self.ssrc);
        if let Some(original) = self.original_sequence {
            out.u16(original);
        }
    }

    /// Reads a header, and returns it with what follows it. Contributing sources, header extensions and
    /// padding are passed over. Payloads of the type `retransmissions` are retransmissions.
    ///
    /// # Errors
    /// When the bytes do not begin with a whole header, or have less padding than they say.
    pub fn parse(bytes: &[u8], retransmissions: Option<u8>) -> Result<(Self, &[u8]), Malformed> {
        const SHORT: Malformed = Malformed { protocol: "RTP", problem: "there is no whole header" };
        let mut reader = Reader(bytes);
        let mut fixed = || Some((reader.u16()?, reader.u16()?, reader.u32()?, reader.u32()?));
        let (beginning, sequence, timestamp, ssrc) = fixed().ok_or(SHORT)?;
        if beginning & VERSION != BEGINNING {
            return Err(Malformed { protocol: "RTP", problem: "the version is not 2" });
        }
        let sources = usize::from(beginning >> 8 & 0xf);
        reader.take(sources * 4).ok_or(SHORT)?;
        if beginning & EXTENSION != 0 {
            let mut words = || {
                reader.u16()?;
                reader.u16()
            };
            let words = words().ok_or(SHORT)?;
            reader.take(usize::from(words) * 4).ok_or(SHORT)?;
        }
        let mut payload = reader.0;
        if beginning & PADDING != 0 {
            let length = payload.last().map(|&last| usize::from(last)).filter(|&length| length > 0);
            let rest = length.and_then(|length| payload.len().checked_sub(length));
            let rest = rest.ok_or(Malformed { protocol: "RTP", problem: "the padding is longer than it" })?;
            payload = &payload[..rest];
        }
        let payload_type = (beginning & PAYLOAD_TYPE) as u8;
        let mut rest = Reader(payload);
        let original_sequence = match retransmissions {
            Some(kind) if kind == payload_type => Some(rest.u16().ok_or(SHORT)?),
            _ => None,
        };
        let marker = beginning & MARKER != 0;
        Ok((Self { marker, payload_type, sequence, timestamp, ssrc, original_sequence }, rest.0))
    }
}

/// Whether a datagram that may be one of RTP or of RTCP is one of RTCP, by its second byte (RFC 5761 section
/// 4).
pub fn is_rtcp(datagram: &[u8]) -> bool {
    datagram.get(1).is_some_and(|kind| (192..=223).contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        marker: true,
        payload_type: 96,
        sequence: 0x1234,
        timestamp: 0x0506_0708,
        ssrc: 0x0a0b_0c0d,
        original_sequence: None,
    };

    #[test]
    fn a_header_is_that_of_the_rfc() {
        let mut bytes = Vec::new();
        HEADER.emit(&mut bytes);
        assert_eq!(bytes, [0x80, 0xe0, 0x12, 0x34, 5, 6, 7, 8, 10, 11, 12, 13]);
        bytes.extend([1, 2]);
        assert_eq!(Header::parse(&bytes, None), Ok((HEADER, &[1, 2][..])));
        let retransmission = Header { original_sequence: Some(0x0102), ..HEADER };
        assert_eq!(Header::parse(&bytes, Some(96)), Ok((retransmission, &[][..])));
        let mut again = Vec::new();
        retransmission.emit(&mut again);
        assert_eq!((again.len(), again), (retransmission.bytes() as usize, bytes));
    }

    #[test]
    fn sources_extensions_and_padding_are_passed_over() {
        // One contributing source, an extension of one word (RFC 8285), and two bytes of padding.
        let mut bytes = vec![0xb1, 0xe0, 0x12, 0x34, 5, 6, 7, 8, 10, 11, 12, 13];
        bytes.extend([9, 9, 9, 9, 0xbe, 0xde, 0, 1, 0x51, 0, 7, 0, 42, 0, 2]);
        assert_eq!(Header::parse(&bytes, None), Ok((HEADER, &[42][..])));
        for length in 0..bytes.len() {
            let _ = Header::parse(&bytes[..length], Some(96));
        }
        *bytes.last_mut().unwrap() = 4;
        assert!(Header::parse(&bytes, None).is_err());
        assert!(Header::parse(&[0x40; 12], None).is_err());
    }
}
