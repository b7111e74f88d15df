//! Packets under their protection (RFC 9001 section 5).

use super::header::{Level, LongHeader, ShortHeader, VERSION_1};
use super::packet::{Packet, TAG_BYTES};
use super::protection::{Envelope, Protection, SAMPLE_BYTES};
use super::{Fields, decode_packet_number};

/// The bits of the first byte that are masked, in a long and in a short header (RFC 9001 section 5.4.1).
const MASKED: [u8; 2] = [0x0f, 0x1f];
/// The sample begins as if the packet number had as many bytes (section 5.4.2).
const MOST_NUMBER_BYTES: usize = 4;

/// Appends the bytes of a packet.
pub(super) fn seal<P: Protection>(packet: &Packet, key: &mut P, fields: &mut impl Fields, out: &mut Vec<u8>) {
    let (start, number_bytes) = (out.len(), usize::from(packet.number_bytes));
    let ids = [packet.destination, packet.source];
    let is_short = packet.level == Level::OneRtt;
    if is_short {
        let header = ShortHeader { destination: packet.destination, spin: false, protected: &[] };
        header.emit(number_bytes, packet.key_phase, out);
    } else {
        let (level, token) = (packet.level, &packet.token[..]);
        let header = LongHeader { level, version: VERSION_1, ids, token, protected: &[] };
        header.emit(number_bytes, number_bytes + packet.content() + TAG_BYTES, out);
    }
    let number_at = out.len();
    out.extend(&packet.number.to_be_bytes()[8 - number_bytes..]);
    let content_at = out.len();
    fields.begin(packet.level);
    packet.frames.iter().for_each(|frame| frame.emit(fields, out));
    let (header, content) = out[start..].split_at_mut(content_at - start);
    let key_phase = packet.key_phase && is_short;
    let (path, number, key_updates) = (packet.path_id, packet.number, packet.key_updates);
    let envelope = Envelope { path, number, key_phase, key_updates, header };
    let tag = key.seal(envelope, content);
    out.extend(tag);
    let bits = key.mask(sample(&out[number_at..]).expect("number and content have four bytes together"));
    mask(&mut out[start..], number_at - start, number_bytes, bits);
}

/// The sample of a packet, from its number on.
fn sample(protected: &[u8]) -> Option<&[u8; SAMPLE_BYTES]> {
    protected.get(MOST_NUMBER_BYTES..)?.first_chunk()
}

/// Masks the first byte and the number of a packet, or removes the mask.
fn mask(packet: &mut [u8], number_at: usize, number_bytes: usize, mask: [u8; 5]) {
    packet[0] ^= mask[0] & masked(packet[0]);
    for (byte, mask) in packet[number_at..][..number_bytes].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
}

/// The bits of a first byte that are masked.
const fn masked(first: u8) -> u8 {
    MASKED[if first & 0x80 == 0 { 1 } else { 0 }]
}

/// What is found under the protection of a packet.
pub(super) struct Opened<'a> {
    pub(super) number: u64,
    pub(super) number_bytes: u8,
    pub(super) key_phase: bool,
    pub(super) key_updates: u32,
    /// Whether the bits that have to be 0 are.
    pub(super) is_regular: bool,
    pub(super) content: &'a [u8],
}

/// Opens a packet of a path ID, whose number begins at `number_at`; [`None`] if it is not genuine.
pub(super) fn open<'a, P: Protection>(
    packet: &'a mut [u8],
    number_at: usize,
    path: u32,
    largest: Option<u64>,
    key: &mut P,
) -> Option<Opened<'a>> {
    let bits = key.mask(sample(packet.get(number_at..)?)?);
    let first = packet[0] ^ bits[0] & masked(packet[0]);
    let number_bytes = usize::from(first & 3) + 1;
    mask(packet, number_at, number_bytes, bits);
    let (header, sealed) = packet.split_at_mut(number_at + number_bytes);
    let truncated = header[number_at..].iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    let number = decode_packet_number(truncated, number_bytes, largest);
    let is_short = first & 0x80 == 0;
    let key_phase = is_short && first & 4 != 0;
    let key_updates = key.open(Envelope { path, number, key_phase, key_updates: 0, header }, sealed)?;
    let reserved = if is_short { 0x18 } else { 0x0c };
    let content = sealed.split_at(sealed.len() - TAG_BYTES).0;
    let is_regular = first & reserved == 0;
    let number_bytes = number_bytes as u8;
    Some(Opened { number, number_bytes, key_phase, key_updates, is_regular, content })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Payload;
    use crate::wire::quic::{ConnectionId, Frame, Header, Part, Plain};

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
                    path_id: 0,
                    number: 0x0102_0304,
                    number_bytes,
                    key_phase: false,
                    key_updates: 0,
                    frames: [
                        Frame::Ping,
                        Frame::Crypto { position: 9, data: Payload { offset: 0, length: 80 } },
                    ]
                    .into_iter()
                    .collect(),
                    parameters: None,
                };
                let mut bytes = Vec::new();
                seal(&packet, &mut Plain, &mut Nothing, &mut bytes);
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
