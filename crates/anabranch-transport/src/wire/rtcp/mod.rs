//! RTCP (RFC 3550 section 6): what the ends of an RTP session tell each other, on the port of the media (RFC
//! 5761).
//!
//! Packets of types that are not here are passed over, as RFC 3550 section 6.1 asks for.

mod feedback;
mod reports;

use std::net::IpAddr;

use super::bytes::{Append as _, Malformed, Reader, Sending};
use super::udp;
use crate::flow::PathId;

pub use feedback::{Arrival, CongestionFeedback, Lost, MOST_METRICS, Metric, Nack, StreamReport};
pub use reports::{ReportBlock, SenderInfo};

/// The header of each packet, in bytes.
const HEADER_BYTES: u32 = 4;
/// Version 2.
const VERSION: u8 = 0x80;
const PADDING: u8 = 0x20;

/// Packet types (RFC 3550 section 12.1, RFC 4585 section 6.1).
mod kind {
    pub(super) const SENDER_REPORT: u8 = 200;
    pub(super) const RECEIVER_REPORT: u8 = 201;
    pub(super) const SOURCE_DESCRIPTION: u8 = 202;
    pub(super) const TRANSPORT_FEEDBACK: u8 = 205;
    pub(super) const PAYLOAD_FEEDBACK: u8 = 206;
}

/// Formats of feedback (RFC 4585 section 6.2, RFC 8888 section 3.1, RFC 4585 section 6.3).
mod format {
    pub(super) const NACK: u8 = 1;
    pub(super) const CONGESTION: u8 = 11;
    pub(super) const PICTURE_LOSS: u8 = 1;
}

/// The item of a source description that names the end (RFC 3550 section 6.5.1).
const CNAME: u8 = 1;

const fn malformed(problem: &'static str) -> Malformed {
    Malformed { protocol: "RTCP", problem }
}

/// A UDP datagram of RTCP: a compound packet, or one of reduced size (RFC 5506).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// What it says.
    pub packets: Vec<Packet>,
}

/// A packet of RTCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// When each packet of some streams arrived, if it did (RFC 8888).
    CongestionFeedback(CongestionFeedback),
    /// Packets that are missing (RFC 4585 section 6.2.1).
    Nack(Nack),
    /// The decoder has lost the picture and needs a key frame (PLI, RFC 4585 section 6.3.1).
    PictureLoss {
        /// Who says so.
        sender: u32,
        /// The stream of the picture.
        media: u32,
    },
    /// How streams arrive, from an end that sends none (RFC 3550 section 6.4.2).
    ReceiverReport {
        /// Who says so.
        sender: u32,
        /// Each stream.
        blocks: Vec<ReportBlock>,
    },
    /// What an end has sent, and how the streams of others arrive (RFC 3550 section 6.4.1).
    SenderReport {
        /// Who says so.
        sender: u32,
        /// What it has sent.
        info: SenderInfo,
        /// Each stream of others.
        blocks: Vec<ReportBlock>,
    },
    /// The name of an end, which stays the same if its sources change (RFC 3550 section 6.5.1).
    SourceDescription {
        /// Its source.
        source: u32,
        /// The name, up to 255 bytes.
        cname: Vec<u8>,
    },
}

impl Packet {
    /// Its length in bytes.
    pub fn bytes(&self) -> u32 {
        HEADER_BYTES
            + match self {
                Self::CongestionFeedback(feedback) => feedback.bytes(),
                Self::Nack(nack) => nack.bytes(),
                Self::PictureLoss { .. } => 8,
                Self::ReceiverReport { blocks, .. } => 4 + ReportBlock::BYTES * blocks.len() as u32,
                Self::SenderReport { blocks, .. } => {
                    4 + SenderInfo::BYTES + ReportBlock::BYTES * blocks.len() as u32
                }
                // At least one zero ends the list of items.
                Self::SourceDescription { cname, .. } => 4 + (3 + cname.len() as u32).next_multiple_of(4),
            }
    }

    /// What it is, in one word.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CongestionFeedback(_) => "feedback",
            Self::Nack(_) => "nack",
            Self::PictureLoss { .. } => "pli",
            Self::ReceiverReport { .. } => "receiver_report",
            Self::SenderReport { .. } => "sender_report",
            Self::SourceDescription { .. } => "source_description",
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let (count, kind) = match self {
            Self::CongestionFeedback(_) => (format::CONGESTION, kind::TRANSPORT_FEEDBACK),
            Self::Nack(_) => (format::NACK, kind::TRANSPORT_FEEDBACK),
            Self::PictureLoss { .. } => (format::PICTURE_LOSS, kind::PAYLOAD_FEEDBACK),
            Self::ReceiverReport { blocks, .. } => (blocks.len() as u8, kind::RECEIVER_REPORT),
            Self::SenderReport { blocks, .. } => (blocks.len() as u8, kind::SENDER_REPORT),
            Self::SourceDescription { .. } => (1, kind::SOURCE_DESCRIPTION),
        };
        let start = out.len();
        out.u8(VERSION | count);
        out.u8(kind);
        out.u16((self.bytes() / 4 - 1) as u16);
        match self {
            Self::CongestionFeedback(feedback) => feedback.emit(out),
            Self::Nack(nack) => nack.emit(out),
            Self::PictureLoss { sender, media } => {
                out.u32(*sender);
                out.u32(*media);
            }
            Self::ReceiverReport { sender, blocks } => {
                out.u32(*sender);
                for block in blocks {
                    block.emit(out);
                }
            }
            Self::SenderReport { sender, info, blocks } => {
                out.u32(*sender);
                info.emit(out);
                for block in blocks {
                    block.emit(out);
                }
            }
            Self::SourceDescription { source, cname } => {
                out.u32(*source);
                out.u8(CNAME);
                out.u8(cname.len() as u8);
                out.extend(cname);
                out.u8(0);
                out.pad(start);
            }
        }
    }

    /// The packet with this header and this body; `Ok(None)` if it is of another type.
    fn parse(count: u8, kind: u8, body: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut reader = Reader(body);
        let read = match (kind, count) {
            (kind::TRANSPORT_FEEDBACK, format::CONGESTION) => {
                CongestionFeedback::parse(reader).map(Self::CongestionFeedback)
            }
            (kind::TRANSPORT_FEEDBACK, format::NACK) => Nack::parse(reader).map(Self::Nack),
            (kind::PAYLOAD_FEEDBACK, format::PICTURE_LOSS) => {
                let mut read = || Some(Self::PictureLoss { sender: reader.u32()?, media: reader.u32()? });
                read()
            }
            (kind::RECEIVER_REPORT, _) => {
                let mut read = || {
                    let sender = reader.u32()?;
                    let blocks = ReportBlock::parse_all(&mut reader, count)?;
                    Some(Self::ReceiverReport { sender, blocks })
                };
                read()
            }
            (kind::SENDER_REPORT, _) => {
                let mut read = || {
                    let sender = reader.u32()?;
                    let info = SenderInfo::parse(&mut reader)?;
                    let blocks = ReportBlock::parse_all(&mut reader, count)?;
                    Some(Self::SenderReport { sender, info, blocks })
                };
                read()
            }
            // Other items than the name may come first; those are passed over with the packet.
            (kind::SOURCE_DESCRIPTION, 1) => {
                let mut read = || {
                    let source = reader.u32()?;
                    let (item, length) = (reader.u8()?, reader.u8()?);
                    let text = reader.take(length.into())?;
                    Some((item == CNAME).then(|| Self::SourceDescription { source, cname: text.to_vec() }))
                };
                return read().ok_or(malformed("a source description is cut off"));
            }
            _ => return Ok(None),
        };
        read.map(Some).ok_or(malformed("a packet is shorter than what it lists"))
    }
}

impl Datagram {
    /// Its length in bytes, with the header of UDP.
    pub fn bytes(&self) -> u32 {
        udp::HEADER_BYTES + self.packets.iter().map(Packet::bytes).sum::<u32>()
    }

    /// Appends the bytes as they are sent on a path.
    pub fn emit(&self, path: PathId, sending: &impl Sending, out: &mut Vec<u8>) {
        udp::wrap([self.source_port, self.destination_port], sending.addresses(path), out, |out| {
            self.packets.iter().for_each(|packet| packet.emit(out));
        });
    }

    /// Reads a datagram: everything behind an IP header with these addresses.
    ///
    /// # Errors
    /// When the bytes are not a datagram, its checksum is wrong, or it is not one of RTCP.
    pub fn parse(bytes: &[u8], addresses: [IpAddr; 2]) -> Result<Self, Malformed> {
        let ([source_port, destination_port], payload) = udp::unwrap(bytes, addresses)?;
        let mut packets = Vec::new();
        let mut reader = Reader(payload);
        while !reader.is_empty() {
            let mut header = || Some((reader.u8()?, reader.u8()?, reader.u16()?));
            let (first, kind, words) = header().ok_or(malformed("there is no whole header"))?;
            if first & 0xc0 != VERSION {
                return Err(malformed("the version is not 2"));
            }
            let body = reader.take(usize::from(words) * 4).ok_or(malformed("a packet is cut off"))?;
            // RFC 3550 section 6.4.1: the last byte of the padding counts its bytes, itself included.
            let padding = match body.last() {
                Some(&last) if first & PADDING != 0 => usize::from(last),
                _ => 0,
            };
            let body = body.len().checked_sub(padding).map(|length| &body[..length]);
            let body = body.ok_or(malformed("the padding is longer than the packet"))?;
            packets.extend(Packet::parse(first & 0x1f, kind, body)?);
        }
        Ok(Self { source_port, destination_port, packets })
    }
}
