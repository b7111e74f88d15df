//! UDP datagrams of QUIC packets, as endpoints hand them over (RFC 9000 section 12).

use smallvec::SmallVec;

use super::{
    ConnectionId, Fields, Frame, Level, LongHeader, Parameters, Part, ShortHeader, VERSION_1, varint,
};
use crate::flow::{PathId, Payload};
use crate::wire::bytes::{Append as _, Sending};
use crate::wire::udp::HEADER_BYTES;

/// What protection adds to a packet (RFC 9001 section 5.3): every cipher has a tag of 16 bytes.
pub const TAG_BYTES: usize = 16;
/// Packet number and content have this many bytes together at least, so that there is something to sample
/// (RFC 9001 section 5.4.2).
pub const LEAST_SAMPLED: usize = 4;

/// A UDP datagram of packets that are coalesced (section 12.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// The packets, at most one of each level.
    pub packets: SmallVec<[Packet; 1]>,
}

/// A packet that is not protected (section 17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The level of protection, which says what the header looks like.
    pub level: Level,
    /// Where it goes to.
    pub destination: ConnectionId,
    /// Where it comes from; only long headers have it.
    pub source: ConnectionId,
    /// The token of an Initial packet.
    pub token: Box<[u8]>,
    /// The packet number, all of it.
    pub number: u64,
    /// How many bytes of it are sent.
    pub number_bytes: u8,
    /// What it carries.
    pub frames: SmallVec<[Frame; 2]>,
    /// The transport parameters in the message of the handshake of which this packet has a part
    /// (RFC 9001 section 8.2).
    pub parameters: Option<Box<Parameters>>,
}

impl Datagram {
    /// The length of what UDP carries, in bytes.
    pub fn payload_bytes(&self) -> u32 {
        self.packets.iter().map(Packet::wire_size).sum::<usize>() as u32
    }

    /// Length on the wire in bytes, without the IP header.
    pub fn wire_size(&self) -> u32 {
        HEADER_BYTES + self.payload_bytes()
    }

    /// The name of the frame that matters most to a reader, and the number of its packet.
    pub fn describe(&self) -> (&'static str, Option<u32>) {
        let Some(packet) = self.packets.last() else { return ("datagram", None) };
        let frames = || self.packets.iter().flat_map(|packet| &packet.frames);
        let data = frames().find(|frame| matches!(frame, Frame::Stream(_) | Frame::Datagram { .. }));
        let other = || frames().find(|frame| !matches!(frame, Frame::Ack(_) | Frame::Padding { .. }));
        let name = data.or_else(other).or_else(|| frames().next()).map_or("datagram", Frame::name);
        (name, Some(packet.number as u32))
    }

    /// The bytes of an application that it carries.
    pub fn data_bytes(&self) -> u32 {
        let frames = self.packets.iter().flat_map(|packet| &packet.frames);
        frames
            .map(|frame| match frame {
                Frame::Stream(stream) => stream.data.length,
                Frame::Datagram { data, .. } => data.length,
                _ => 0,
            })
            .sum()
    }

    /// Appends the bytes of the UDP datagram, without protection: tags are zeros, and so is the handshake.
    pub fn emit(&self, _path: PathId, sending: &impl Sending, out: &mut Vec<u8>) {
        out.u16(self.source_port);
        out.u16(self.destination_port);
        out.u16(self.wire_size() as u16);
        // RFC 768: there is no checksum.
        out.u16(0);
        let mut fields = OfSender(sending);
        for packet in &self.packets {
            packet.emit(&mut fields, out);
        }
    }
}

/// The data of an end's frames; that of the handshake is not kept.
struct OfSender<'a, S>(&'a S);

impl<S: Sending> Fields for OfSender<'_, S> {
    fn append(&mut self, part: Part, data: Payload, out: &mut Vec<u8>) {
        match part {
            Part::Crypto => out.resize(out.len() + data.length as usize, 0),
            Part::Datagram | Part::Stream(_) => self.0.payload(data, out),
        }
    }

    fn keep(&mut self, _: Part, _: u64, _: &[u8]) -> u64 {
        0
    }
}

impl Packet {
    /// The length of header and tag, with the packet number and without frames, in bytes.
    pub fn overhead(&self) -> usize {
        let number = usize::from(self.number_bytes) + TAG_BYTES;
        if self.level == Level::OneRtt {
            return 1 + self.destination.len() + number;
        }
        let token = match self.level {
            Level::Initial => varint::size(self.token.len() as u64) + self.token.len(),
            _ => 0,
        };
        // First byte, version, two IDs with their lengths, and a length of two bytes.
        1 + 4 + 1 + self.destination.len() + 1 + self.source.len() + token + 2 + number
    }

    /// The length of its frames in bytes.
    pub fn content(&self) -> usize {
        self.frames.iter().map(Frame::size).sum()
    }

    /// Its length on the wire in bytes.
    pub fn wire_size(&self) -> usize {
        self.overhead() + self.content()
    }

    /// Whether the peer has to acknowledge it.
    pub fn elicits_ack(&self) -> bool {
        self.frames.iter().any(Frame::elicits_ack)
    }

    /// Appends its bytes without protection; the tag is zeros.
    fn emit(&self, fields: &mut impl Fields, out: &mut Vec<u8>) {
        let number_bytes = usize::from(self.number_bytes);
        if self.level == Level::OneRtt {
            let header = ShortHeader { destination: self.destination, spin: false, protected: &[] };
            header.emit(number_bytes, false, out);
        } else {
            let header = LongHeader {
                level: self.level,
                version: VERSION_1,
                ids: [self.destination, self.source],
                token: &self.token,
                protected: &[],
            };
            header.emit(number_bytes, number_bytes + self.content() + TAG_BYTES, out);
        }
        out.extend(&self.number.to_be_bytes()[8 - number_bytes..]);
        for frame in &self.frames {
            frame.emit(fields, out);
        }
        out.resize(out.len() + TAG_BYTES, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::quic::Header;

    struct Nothing;

    impl Fields for Nothing {
        fn append(&mut self, _: Part, data: Payload, out: &mut Vec<u8>) {
            out.resize(out.len() + data.length as usize, 1);
        }

        fn keep(&mut self, _: Part, _: u64, _: &[u8]) -> u64 {
            0
        }
    }

    #[test]
    fn a_packet_takes_as_many_bytes_as_it_says() {
        let id = |length| ConnectionId::new(&[7; 20][..length]).unwrap();
        for level in [Level::Initial, Level::ZeroRtt, Level::Handshake, Level::OneRtt] {
            for number_bytes in 1..=4 {
                let packet = Packet {
                    level,
                    destination: id(8),
                    source: id(5),
                    token: Box::new([1; 70]),
                    number: 0x0102_0304,
                    number_bytes,
                    frames: [
                        Frame::Ping,
                        Frame::Crypto { position: 9, data: Payload { offset: 0, length: 80 } },
                    ]
                    .into_iter()
                    .collect(),
                    parameters: None,
                };
                let mut bytes = Vec::new();
                packet.emit(&mut Nothing, &mut bytes);
                assert_eq!(bytes.len(), packet.wire_size(), "{level:?}");
                // It is the whole datagram.
                let (header, rest) = Header::read(&bytes, 8).unwrap();
                assert!(rest.is_empty());
                let protected = match header {
                    Header::Long(header) => header.protected,
                    Header::Short(header) => header.protected,
                    _ => panic!("{header:?}"),
                };
                assert_eq!(protected.len(), usize::from(number_bytes) + packet.content() + TAG_BYTES);
            }
        }
    }
}
