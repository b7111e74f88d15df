//! UDP datagrams of QUIC, as endpoints hand them over (RFC 9000 section 12).

use super::{Content, Fields, Frame, Keys, Packet, Part};
use crate::flow::{PathId, Payload};
use crate::wire::bytes::Sending;
use crate::wire::udp::{self, HEADER_BYTES};

/// A UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Which of the client's addresses on its path it has: 0 is its own, and others are those that NATs gave
    /// it one after the other.
    pub client_host: u8,
    /// What it carries.
    pub content: Content,
}

impl Datagram {
    /// The packets that are coalesced in it (section 12.2), at most one of each level.
    pub fn packets(&self) -> &[Packet] {
        if let Content::Packets(packets) = &self.content { packets } else { &[] }
    }

    /// The length of what UDP carries, in bytes.
    pub fn payload_bytes(&self) -> u32 {
        self.content.size() as u32
    }

    /// Length on the wire in bytes, without the IP header.
    pub fn wire_size(&self) -> u32 {
        HEADER_BYTES + self.payload_bytes()
    }

    /// The name of the frame that matters most to a reader, and the number of its packet.
    pub fn describe(&self) -> (&'static str, Option<u32>) {
        let packets = match &self.content {
            Content::OtherVersion { .. } => return ("other_version", None),
            Content::Packets(packets) => packets,
            Content::Reset { .. } => return ("stateless_reset", None),
            Content::Retry { .. } => return ("retry", None),
            Content::VersionNegotiation { .. } => return ("version_negotiation", None),
        };
        let Some(packet) = packets.last() else { return ("datagram", None) };
        let frames = || packets.iter().flat_map(|packet| &packet.frames);
        let data = frames().find(|frame| matches!(frame, Frame::Stream(_) | Frame::Datagram { .. }));
        let other = || frames().find(|frame| !matches!(frame, Frame::Ack(_) | Frame::Padding { .. }));
        let name = data.or_else(other).or_else(|| frames().next()).map_or("datagram", Frame::name);
        (name, Some(packet.number as u32))
    }

    /// The bytes of an application that it carries.
    pub fn data_bytes(&self) -> u32 {
        let frames = self.packets().iter().flat_map(|packet| &packet.frames);
        frames
            .map(|frame| match frame {
                Frame::Stream(stream) => stream.data.length,
                Frame::Datagram { data, .. } => data.length,
                _ => 0,
            })
            .sum()
    }

    /// Appends the bytes of the UDP datagram, without protection: tags are zeros, and so is the handshake.
    pub fn emit(&self, path: PathId, sending: &impl Sending, out: &mut Vec<u8>) {
        let ports = [self.source_port, self.destination_port];
        udp::wrap(ports, sending.addresses(path), out, |out| {
            self.content.emit(&mut Keys::plain(), &mut OfSender(sending), out);
        });
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
