//! Headers of packets (RFC 9000 section 17), as far as protection leaves them readable: without the packet
//! number and the bits of the first byte that are masked.

use super::connection_id::ConnectionId;
use super::{malformed, varint};
use crate::wire::bytes::{Append as _, Malformed, Reader};

/// QUIC version 1.
pub const VERSION_1: u32 = 1;

/// Bits of the first byte (section 17.2).
pub(super) const FORM: u8 = 0x80;
pub(super) const FIXED: u8 = 0x40;
/// The latency spin bit (section 17.4).
const SPIN: u8 = 0x20;

/// The level of protection of a packet, and with it its kind (RFC 9001 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Initial packets.
    Initial,
    /// Data of the client before the handshake is complete.
    ZeroRtt,
    /// Handshake packets.
    Handshake,
    /// Packets with a short header.
    OneRtt,
}

/// The readable part of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header<'a> {
    /// A packet of the handshake, or early data.
    Long(LongHeader<'a>),
    /// A packet of another version, of which nothing else is known (RFC 8999 section 5.1).
    OtherVersion {
        /// The version, which is neither 0 nor 1.
        version: u32,
        /// Where it goes to, and where it comes from, each of up to 255 bytes.
        ids: [&'a [u8]; 2],
        /// What follows.
        rest: &'a [u8],
    },
    /// The server wants a token first (section 17.2.5).
    Retry {
        /// Where it goes to, and where it comes from.
        ids: [ConnectionId; 2],
        /// The token.
        token: &'a [u8],
        /// What protects it (RFC 9001 section 5.8).
        tag: [u8; 16],
    },
    /// A packet with a short header (section 17.3.1).
    Short(ShortHeader<'a>),
    /// The server's versions (section 17.2.1).
    VersionNegotiation {
        /// Where it goes to, and where it comes from, each of up to 255 bytes.
        ids: [&'a [u8]; 2],
        /// Four bytes for each version.
        versions: &'a [u8],
    },
}

/// A long header with a packet number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongHeader<'a> {
    /// Which packet it is; not [`Level::OneRtt`].
    pub level: Level,
    /// The version.
    pub version: u32,
    /// Where it goes to, and where it comes from.
    pub ids: [ConnectionId; 2],
    /// The token of an Initial packet.
    pub token: &'a [u8],
    /// The protected packet number and content.
    pub protected: &'a [u8],
}

/// A short header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortHeader<'a> {
    /// Where it goes to.
    pub destination: ConnectionId,
    /// The spin bit.
    pub spin: bool,
    /// The protected packet number and content.
    pub protected: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the header with which a datagram, or the rest of one, begins, and gives the rest behind its
    /// packet. Connection IDs of this end have `id_bytes` bytes.
    ///
    /// # Errors
    /// When it is not whole, or breaks a rule of its version.
    pub fn read(bytes: &'a [u8], id_bytes: usize) -> Result<(Self, &'a [u8]), Malformed> {
        const SHORT: Malformed = malformed("there is no whole header");
        let mut reader = Reader(bytes);
        let first = reader.u8().ok_or(SHORT)?;
        if first & FORM == 0 {
            if first & FIXED == 0 {
                return Err(malformed("the fixed bit is 0"));
            }
            let id = reader.take(id_bytes).and_then(ConnectionId::new).ok_or(SHORT)?;
            let header = ShortHeader { destination: id, spin: first & SPIN != 0, protected: reader.0 };
            return Ok((Self::Short(header), &[]));
        }
        let version = reader.u32().ok_or(SHORT)?;
        let mut id = || {
            let length = usize::from(reader.u8().ok_or(SHORT)?);
            reader.take(length).ok_or(SHORT)
        };
        let ids = [id()?, id()?];
        if version == 0 {
            let versions = reader.0;
            if versions.is_empty() || !versions.len().is_multiple_of(4) {
                return Err(malformed("versions have four bytes each, and there is at least one"));
            }
            return Ok((Self::VersionNegotiation { ids, versions }, &[]));
        }
        if version != VERSION_1 {
            return Ok((Self::OtherVersion { version, ids, rest: reader.0 }, &[]));
        }
        let id = |bytes| ConnectionId::new(bytes).ok_or(malformed("a connection ID has more than 20 bytes"));
        let ids = [id(ids[0])?, id(ids[1])?];
        if first & FIXED == 0 {
            return Err(malformed("the fixed bit is 0"));
        }
        let level = match first >> 4 & 3 {
            0 => Level::Initial,
            1 => Level::ZeroRtt,
            2 => Level::Handshake,
            _ => {
                let split = reader.0.len().checked_sub(16).ok_or(SHORT)?;
                let (token, tag) = reader.0.split_at(split);
                let tag = tag.try_into().map_err(|_| SHORT)?;
                return Ok((Self::Retry { ids, token, tag }, &[]));
            }
        };
        let mut sized = || {
            let length = usize::try_from(varint::read(&mut reader)?).ok()?;
            reader.take(length)
        };
        let token = if level == Level::Initial { sized().ok_or(SHORT)? } else { &[] };
        let protected = sized().ok_or(SHORT)?;
        Ok((Self::Long(LongHeader { level, version, ids, token, protected }), reader.0))
    }
}

impl LongHeader<'_> {
    /// Appends the header with a length for `length` bytes of packet number and protected content, with a
    /// packet number of `number_bytes` bytes, which does not follow yet.
    pub fn emit(&self, number_bytes: usize, length: usize, out: &mut Vec<u8>) {
        let kind = match self.level {
            Level::Initial => 0,
            Level::ZeroRtt => 1,
            Level::Handshake | Level::OneRtt => 2,
        };
        out.u8(FORM | FIXED | kind << 4 | (number_bytes - 1) as u8);
        out.u32(self.version);
        for id in &self.ids {
            out.u8(id.len() as u8);
            out.extend(id.bytes());
        }
        if self.level == Level::Initial {
            varint::emit(self.token.len() as u64, out);
            out.extend(self.token);
        }
        // Two bytes, so that the length need not be known before the frames are.
        out.u16(0x4000 | length as u16);
    }
}

impl ShortHeader<'_> {
    /// Appends the header, with a packet number of `number_bytes` bytes, which does not follow yet.
    pub fn emit(&self, number_bytes: usize, is_key_phase: bool, out: &mut Vec<u8>) {
        let spin = if self.spin { SPIN } else { 0 };
        out.u8(FIXED | spin | u8::from(is_key_phase) << 2 | (number_bytes - 1) as u8);
        out.extend(self.destination.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(bytes: &[u8]) -> ConnectionId {
        ConnectionId::new(bytes).unwrap()
    }

    /// RFC 9001 appendix A.2: the unprotected header of the client's first packet, with a packet number of
    /// four bytes and 1182 bytes of packet number and content.
    #[test]
    fn the_clients_first_header_is_that_of_the_rfc() {
        let header = LongHeader {
            level: Level::Initial,
            version: VERSION_1,
            ids: [id(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]), id(&[])],
            token: &[],
            protected: &[],
        };
        let mut out = Vec::new();
        header.emit(4, 1182, &mut out);
        out.u32(2);
        let expected = [
            0xc3, 0x00, 0x00, 0x00, 0x01, 0x08, 0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08, 0x00, 0x00,
            0x44, 0x9e, 0x00, 0x00, 0x00, 0x02,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn headers_survive_and_datagrams_are_cut() {
        let ids = [id(&[1, 2, 3, 4]), id(&[5; 20])];
        let mut datagram = Vec::new();
        let (token, protected) = ([7_u8; 50], [8_u8; 100]);
        for level in [Level::Initial, Level::ZeroRtt, Level::Handshake] {
            let token = if level == Level::Initial { &token[..] } else { &[] };
            let header = LongHeader { level, version: VERSION_1, ids, token, protected: &[] };
            header.emit(2, protected.len(), &mut datagram);
            datagram.extend(protected);
        }
        ShortHeader { destination: ids[0], spin: true, protected: &[] }.emit(1, true, &mut datagram);
        datagram.extend([9; 30]);
        let mut rest = &datagram[..];
        for level in [Level::Initial, Level::ZeroRtt, Level::Handshake] {
            let (header, behind) = Header::read(rest, 4).unwrap();
            let Header::Long(header) = header else { panic!("{header:?}") };
            assert_eq!((header.level, header.ids, header.protected), (level, ids, &protected[..]));
            assert_eq!(header.token.len(), if level == Level::Initial { 50 } else { 0 });
            rest = behind;
        }
        let (header, behind) = Header::read(rest, 4).unwrap();
        let Header::Short(header) = header else { panic!("{header:?}") };
        assert_eq!((header.destination, header.spin, header.protected), (ids[0], true, &[9_u8; 30][..]));
        assert!(behind.is_empty());
        for length in 0..datagram.len() {
            let _ = Header::read(&datagram[..length], 4);
        }
    }

    #[test]
    fn what_is_not_a_header_is_said() {
        for (bytes, problem) in [
            (&[0x40, 1, 2][..], "there is no whole header"),
            (&[0x00, 1, 2, 3, 4], "the fixed bit is 0"),
            (&[0x80, 0, 0, 0, 1, 0, 0, 0, 0], "the fixed bit is 0"),
            (&[0xc0, 0, 0, 0, 2, 0, 1], "there is no whole header"),
            (
                &[
                    0xc0, 0, 0, 0, 1, 21, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
                    20, 21, 0,
                ],
                "a connection ID has more than 20 bytes",
            ),
            (&[0xc0, 0, 0, 0, 1, 21], "there is no whole header"),
            (&[0x80, 0, 0, 0, 0, 0, 0], "versions have four bytes each, and there is at least one"),
            (&[0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3], "versions have four bytes each, and there is at least one"),
            (&[0xc0, 0, 0, 0, 1, 0, 0, 0, 5, 1], "there is no whole header"),
            (&[0xf0, 0, 0, 0, 1, 0, 0, 1, 2], "there is no whole header"),
        ] {
            assert_eq!(Header::read(bytes, 4).unwrap_err().problem, problem, "{bytes:02x?}");
        }
        // RFC 8999: of another version the IDs are known, of whatever length, and no bit.
        let (header, _) = Header::read(&[0x80, 0, 0, 0, 2, 1, 7, 2, 8, 9, 5], 4).unwrap();
        assert_eq!(header, Header::OtherVersion { version: 2, ids: [&[7], &[8, 9]], rest: &[5] });
        // Versions of any kind are read, also without the fixed bit.
        let (header, _) = Header::read(&[0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], 4).unwrap();
        assert!(matches!(header, Header::VersionNegotiation { versions: [1, 2, 3, 4], .. }));
    }
}
