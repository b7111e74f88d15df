//! What a UDP datagram carries, as bytes under their protection (RFC 9000 section 12.2).

use std::mem;

use smallvec::SmallVec;

use super::connection_id::ConnectionId;
use super::frame::Frame;
use super::header::{FIXED, FORM, Header, Level, VERSION_1};
use super::keys::Keys;
use super::packet::{Packet, TAG_BYTES};
use super::protection::Protection;
use super::sealed::{self, Opened};
use super::{Fields, malformed};
use crate::wire::bytes::{Append as _, Malformed};

/// Packets of one datagram that are read: one of each level is as many.
pub const MOST_PACKETS: usize = 4;
/// A stateless reset is no shorter (section 10.3).
pub const LEAST_RESET_BYTES: usize = 21;

/// What a datagram carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A packet of another version, of which nothing else is known (section 6).
    OtherVersion {
        /// The version, which is neither 0 nor 1.
        version: u32,
        /// Where it goes to, and where it comes from, each of up to 255 bytes.
        ids: [Box<[u8]>; 2],
        /// How many bytes follow.
        rest: u32,
    },
    /// Packets, at most [`MOST_PACKETS`]; one with a short header is the last.
    Packets(SmallVec<[Packet; 1]>),
    /// The server does not know the connection any more (section 10.3).
    Reset {
        /// What makes it look like a packet, at least five bytes, of which two bits are replaced.
        noise: Box<[u8]>,
        /// The token of a connection ID.
        token: [u8; 16],
    },
    /// The server wants to see a token first (section 17.2.5).
    Retry {
        /// Where it goes to, and where it comes from.
        ids: [ConnectionId; 2],
        /// Where the packet went that it answers, which its tag proves.
        original: ConnectionId,
        /// The token.
        token: Box<[u8]>,
    },
    /// The server knows these versions only (section 17.2.1).
    VersionNegotiation {
        /// Where it goes to, and where it comes from, each of up to 255 bytes.
        ids: [Box<[u8]>; 2],
        /// The versions.
        versions: Box<[u32]>,
    },
}

/// What was found in a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// What could be opened, which may be no packet at all.
    pub content: Content,
    /// Packets of a level for which there is no key.
    pub without_key: u32,
    /// Where the first of these begins, whose bytes are as they came.
    pub without_key_at: Option<usize>,
    /// Packets that are not genuine: their tags are wrong.
    pub forged: u32,
    /// How a genuine packet breaks a rule, for which the connection is to be closed. What comes behind it is
    /// not read.
    pub violation: Option<Malformed>,
    /// The token that the datagram has if it is a stateless reset, where its first packet was not opened
    /// (section 10.3.1).
    pub reset: Option<[u8; 16]>,
}

impl Content {
    /// Its length in bytes.
    pub fn size(&self) -> usize {
        let header = |[to, from]: [usize; 2]| 1 + 4 + 1 + to + 1 + from;
        match self {
            Self::OtherVersion { ids, rest, .. } => {
                header(ids.each_ref().map(|id| id.len())) + *rest as usize
            }
            Self::Packets(packets) => packets.iter().map(Packet::wire_size).sum(),
            Self::Reset { noise, token } => noise.len() + token.len(),
            Self::Retry { ids, token, .. } => header(ids.map(|id| id.len())) + token.len() + TAG_BYTES,
            Self::VersionNegotiation { ids, versions } => {
                header(ids.each_ref().map(|id| id.len())) + 4 * versions.len()
            }
        }
    }

    /// Appends its bytes.
    pub fn emit<P: Protection>(&self, keys: &mut Keys<P>, fields: &mut impl Fields, out: &mut Vec<u8>) {
        match self {
            Self::OtherVersion { version, ids, rest } => {
                emit_header(FORM | FIXED, *version, ids.each_ref().map(|id| &**id), out);
                out.resize(out.len() + *rest as usize, 0);
            }
            Self::Packets(packets) => keys.seal(packets, fields, out),
            Self::Reset { noise, token } => {
                let start = out.len();
                out.extend(noise);
                if let Some(first) = out.get_mut(start) {
                    *first = *first & !FORM | FIXED;
                }
                out.extend(token);
            }
            Self::Retry { ids, original, token } => {
                let start = out.len();
                // The bits that nobody uses are those of appendix A.4.
                let ids = ids.each_ref().map(ConnectionId::bytes);
                emit_header(FORM | FIXED | 0x3f, VERSION_1, ids, out);
                out.extend(token);
                let tag = P::retry_tag(*original, &out[start..]);
                out.extend(tag);
            }
            Self::VersionNegotiation { ids, versions } => {
                emit_header(FORM | FIXED, 0, ids.each_ref().map(|id| &**id), out);
                versions.iter().for_each(|version| out.u32(*version));
            }
        }
    }

    /// Reads a datagram that came to an end whose connection IDs have `id_bytes` bytes. Its bytes are lost.
    ///
    /// # Errors
    /// When it begins with no whole header, or with a Retry packet that answers nothing.
    pub fn parse<P: Protection>(
        bytes: &mut [u8],
        id_bytes: usize,
        keys: &mut Keys<P>,
        fields: &mut impl Fields,
    ) -> Result<Parsed, Malformed> {
        // Opening what is no packet destroys it.
        let total = bytes.len();
        let last = bytes.last_chunk().copied().filter(|_| total >= LEAST_RESET_BYTES);
        let mut parsed = Parsed::of(Self::Packets(SmallVec::new()));
        parsed.reset = last;
        let mut packets = SmallVec::new();
        let (mut rest, mut destination) = (bytes, None);
        while !rest.is_empty() && packets.len() < MOST_PACKETS {
            let at = total - rest.len();
            let (found, length) = match Header::read(rest, id_bytes) {
                Ok((header, behind)) => {
                    let length = rest.len() - behind.len();
                    (Found::of::<P>(header, &rest[..length], keys.original), length)
                }
                Err(error) if destination.is_none() => return Err(error),
                Err(_) => break,
            };
            let (packet, behind) = mem::take(&mut rest).split_at_mut(length);
            rest = behind;
            let (level, [to, source], token, number_at) = match found {
                Found::Packet { level, ids, token, number_at } => (level, ids, token, number_at),
                // What has no number stands alone.
                Found::Whole(content) if destination.is_none() => return Ok(Parsed::of(content)),
                Found::Forged if destination.is_none() => {
                    return Err(malformed("a Retry packet answers nothing"));
                }
                Found::Whole(_) | Found::Forged => break,
            };
            // Section 12.2: packets of another connection are not read.
            if *destination.get_or_insert(to) != to {
                continue;
            }
            let other = keys.paths.iter().position(|(id, ..)| level == Level::OneRtt && *id == to);
            let path_id = other.map_or(0, |at| keys.paths[at].1);
            // A path's numbers go on whichever of its IDs it is called by.
            let of_path = keys.paths.iter().filter(|(_, path, _)| *path == path_id);
            let known = of_path.filter_map(|(.., largest)| *largest).max();
            let largest = match other {
                None => &mut keys.largest[level.space()],
                Some(at) => &mut keys.paths[at].2,
            };
            *largest = (*largest).max(known.filter(|_| other.is_some()));
            let Some(key) = &mut keys.opening[level as usize] else {
                parsed.without_key += 1;
                parsed.without_key_at.get_or_insert(at);
                continue;
            };
            let Some(opened) = sealed::open(packet, number_at, path_id, *largest, key) else {
                parsed.forged += 1;
                continue;
            };
            let Opened { number, number_bytes, key_phase, is_regular, content } = opened;
            *largest = (*largest).max(Some(number));
            if parsed.without_key + parsed.forged == 0 {
                parsed.reset = None;
            }
            fields.begin(level);
            let frames = if is_regular {
                Frame::parse_all(content, fields)
            } else {
                Err(malformed("reserved bits of a header are not 0"))
            };
            match frames {
                Ok(frames) => packets.push(Packet {
                    level,
                    destination: to,
                    source,
                    token,
                    path_id,
                    number,
                    number_bytes,
                    key_phase,
                    key_updates: 0,
                    frames: frames.into(),
                    parameters: None,
                }),
                Err(problem) => {
                    parsed.violation = Some(problem);
                    break;
                }
            }
        }
        parsed.content = Self::Packets(packets);
        Ok(parsed)
    }
}

impl Parsed {
    const fn of(content: Content) -> Self {
        Self { content, without_key: 0, without_key_at: None, forged: 0, violation: None, reset: None }
    }
}

/// Appends the beginning of a packet with a long header and without a number.
fn emit_header(first: u8, version: u32, ids: [&[u8]; 2], out: &mut Vec<u8>) {
    out.u8(first);
    out.u32(version);
    for id in ids {
        out.u8(id.len() as u8);
        out.extend(id);
    }
}

/// What a header says, without its bytes.
enum Found {
    /// A Retry packet whose tag is wrong, or that answers nothing.
    Forged,
    /// A packet, whose number begins at `number_at`.
    Packet { level: Level, ids: [ConnectionId; 2], token: Box<[u8]>, number_at: usize },
    /// All that the datagram carries.
    Whole(Content),
}

impl Found {
    /// What the header of a packet says.
    fn of<P: Protection>(header: Header<'_>, packet: &[u8], original: Option<ConnectionId>) -> Self {
        match header {
            Header::Long(header) => {
                let number_at = packet.len() - header.protected.len();
                let (level, ids) = (header.level, header.ids);
                Self::Packet { level, ids, token: header.token.into(), number_at }
            }
            Header::Short(header) => {
                let number_at = packet.len() - header.protected.len();
                let ids = [header.destination, ConnectionId::default()];
                Self::Packet { level: Level::OneRtt, ids, token: Box::default(), number_at }
            }
            Header::Retry { ids, token, tag } => match original {
                // Section 17.2.5.2: neither without a token nor with a wrong tag.
                Some(original)
                    if !token.is_empty()
                        && P::retry_tag(original, &packet[..packet.len() - TAG_BYTES]) == tag =>
                {
                    Self::Whole(Content::Retry { ids, original, token: token.into() })
                }
                _ => Self::Forged,
            },
            Header::OtherVersion { version, ids, rest } => {
                let (ids, rest) = (ids.map(Box::from), rest.len() as u32);
                Self::Whole(Content::OtherVersion { version, ids, rest })
            }
            Header::VersionNegotiation { ids, versions } => {
                let versions = versions.as_chunks().0.iter().map(|version| u32::from_be_bytes(*version));
                let ids = ids.map(Box::from);
                Self::Whole(Content::VersionNegotiation { ids, versions: versions.collect() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::quic::testing::{Store, frames, id, number, without_places};
    use crate::wire::quic::{LEAST_SAMPLED, Plain};

    /// A packet of this level, to this destination.
    fn packet(level: Level, destination: ConnectionId, number: u64) -> impl Strategy<Value = Packet> {
        let token = proptest::collection::vec(any::<u8>(), 0..100);
        let header = (id(), token, 1..=4_u8, any::<bool>());
        (header, frames()).prop_map(move |((source, token, number_bytes, key_phase), mut frames)| {
            let content: usize = frames.iter().map(Frame::size).sum();
            let missing = LEAST_SAMPLED.saturating_sub(usize::from(number_bytes) + content) as u32;
            if missing > 0 {
                match frames.first_mut() {
                    Some(Frame::Padding { length }) => *length += missing,
                    _ => frames.insert(0, Frame::Padding { length: missing }),
                }
            }
            Packet {
                level,
                destination,
                source: if level == Level::OneRtt { ConnectionId::default() } else { source },
                token: if level == Level::Initial { token.into() } else { Box::default() },
                path_id: 0,
                number,
                number_bytes,
                key_phase: level == Level::OneRtt && key_phase,
                key_updates: 0,
                frames: frames.into(),
                parameters: None,
            }
        })
    }

    /// Packets of one connection, one of each level that is chosen.
    fn packets() -> impl Strategy<Value = SmallVec<[Packet; 1]>> {
        const LEVELS: [Level; 4] = [Level::Initial, Level::ZeroRtt, Level::Handshake, Level::OneRtt];
        let levels = proptest::sample::subsequence(LEVELS.to_vec(), 1..=4);
        (levels, id(), number())
            .prop_flat_map(|(levels, destination, number)| {
                levels.into_iter().map(|level| packet(level, destination, number)).collect::<Vec<_>>()
            })
            .prop_map(SmallVec::from)
    }

    /// The keys of an end that has what was sent before these packets.
    fn expecting(packets: &[Packet]) -> Keys<Plain> {
        let mut keys = Keys::plain();
        for packet in packets {
            keys.largest[packet.level.space()] = packet.number.checked_sub(1);
        }
        keys
    }

    fn survives(content: &Content, keys: &mut Keys<impl Protection>, peer: &mut Keys<impl Protection>) {
        let mut bytes = Vec::new();
        content.emit(keys, &mut Store::full(), &mut bytes);
        assert_eq!(bytes.len(), content.size());
        let id_bytes = match content {
            Content::Packets(packets) => packets[0].destination.len(),
            _ => 0,
        };
        let mut parsed = Content::parse(&mut bytes, id_bytes, peer, &mut Store::default()).unwrap();
        if let Content::Packets(packets) = &mut parsed.content {
            packets.iter_mut().for_each(|packet| without_places(&mut packet.frames));
        }
        assert_eq!(parsed.content, *content);
        let problems = (parsed.without_key, parsed.forged, parsed.violation, parsed.reset);
        assert_eq!(problems, (0, 0, None, None));
    }

    proptest! {
        /// What is sent arrives, and takes as many bytes as it says.
        #[test]
        fn datagrams_survive(packets in packets()) {
            let mut peer = expecting(&packets);
            survives(&Content::Packets(packets), &mut Keys::plain(), &mut peer);
        }

        #[test]
        fn what_has_no_number_survives(
            ids in [id(), id()],
            original in id(),
            token in proptest::collection::vec(any::<u8>(), 1..100),
            versions in proptest::collection::vec(any::<u32>(), 1..10),
            long_ids in [(); 2].map(|()| proptest::collection::vec(any::<u8>(), 0..=255)),
            version in 2..=u32::MAX,
            rest in 0..2_000_u32,
        ) {
            let mut peer = Keys { original: Some(original), ..Keys::plain() };
            let retry = Content::Retry { ids, original, token: token.into() };
            survives(&retry, &mut Keys::plain(), &mut peer);
            let ids = long_ids.map(Box::from);
            let negotiation = Content::VersionNegotiation { ids: ids.clone(), versions: versions.into() };
            survives(&negotiation, &mut Keys::plain(), &mut peer);
            let other = Content::OtherVersion { version, ids, rest };
            survives(&other, &mut Keys::plain(), &mut peer);
        }

        /// Nothing that comes is too much.
        #[test]
        fn any_bytes_are_a_datagram_or_an_error(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            id_bytes in 0..=20_usize,
            packets in packets(),
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let _ = Content::parse(&mut bytes, id_bytes, &mut Keys::plain(), &mut Store::default());
            let (mut peer, id_bytes) = (expecting(&packets), packets[0].destination.len());
            bytes.clear();
            Content::Packets(packets).emit(&mut Keys::plain(), &mut Store::full(), &mut bytes);
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let length = bytes.len();
            let mut kept = Store::default();
            if let Ok(parsed) = Content::parse(&mut bytes, id_bytes, &mut peer, &mut kept) {
                // A length of one byte is written in two.
                prop_assert!(parsed.content.size() <= length + MOST_PACKETS);
                prop_assert!(kept.0.len() < length);
            }
        }
    }

    fn ping(level: Level, destination: [u8; 4], number: u64) -> Packet {
        Packet {
            level,
            destination: ConnectionId::new(&destination).unwrap(),
            source: ConnectionId::default(),
            token: Box::default(),
            path_id: 0,
            number,
            number_bytes: 4,
            key_phase: false,
            key_updates: 0,
            frames: [Frame::Ping].into_iter().collect(),
            parameters: None,
        }
    }

    fn emitted(packets: &[Packet]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Keys::plain().seal(packets, &mut Store::full(), &mut bytes);
        bytes
    }

    fn parsed(bytes: &[u8], keys: &mut Keys<Plain>) -> Parsed {
        Content::parse(&mut bytes.to_vec(), 4, keys, &mut Store::default()).unwrap()
    }

    const HERE: [u8; 4] = [1, 2, 3, 4];

    /// RFC 9000 section 12.2: each packet is looked at, whatever becomes of the others.
    #[test]
    fn packets_are_looked_at_one_by_one() {
        let bytes = emitted(&[
            ping(Level::Initial, HERE, 7),
            ping(Level::Handshake, HERE, 8),
            ping(Level::Handshake, [5; 4], 9),
            ping(Level::OneRtt, HERE, 10),
        ]);
        let mut keys = Keys::plain();
        keys.opening[Level::Initial as usize] = None;
        let found = parsed(&bytes, &mut keys);
        assert_eq!(
            (found.without_key, found.forged, found.violation, found.reset),
            (1, 0, None, Some([0; 16]))
        );
        let both = [ping(Level::Handshake, HERE, 8), ping(Level::OneRtt, HERE, 10)];
        assert_eq!(found.content, Content::Packets(both.into_iter().collect()));
        // The last byte is the tag's.
        let mut forged = bytes.clone();
        *forged.last_mut().unwrap() = 1;
        let found = parsed(&forged, &mut keys);
        let first = [ping(Level::Handshake, HERE, 8)];
        assert_eq!((found.forged, found.content), (1, Content::Packets(first.into_iter().collect())));
    }

    /// RFC 9000 section 10.3: what cannot be opened may be a stateless reset.
    #[test]
    fn a_reset_is_found_where_the_first_packet_is_not_opened() {
        let reset = Content::Reset { noise: Box::new([0xff; 5]), token: [7; 16] };
        let mut bytes = Vec::new();
        reset.emit(&mut Keys::plain(), &mut Store::full(), &mut bytes);
        assert_eq!((bytes.len(), reset.size(), bytes[0]), (LEAST_RESET_BYTES, LEAST_RESET_BYTES, 0x7f));
        let found = parsed(&bytes, &mut Keys::plain());
        assert_eq!((found.reset, found.content), (Some([7; 16]), Content::Packets(SmallVec::new())));
        assert_eq!(parsed(&bytes[..LEAST_RESET_BYTES - 1], &mut Keys::plain()).reset, None);
        let genuine = emitted(&[ping(Level::OneRtt, HERE, 1)]);
        assert_eq!(parsed(&genuine, &mut Keys::plain()).reset, None);
    }

    /// RFC 9000 sections 17.2, 17.3.1 and 12.4: who breaks a rule inside of the protection is known.
    #[test]
    fn rules_that_a_genuine_packet_breaks_are_named() {
        let (short, long) = (Level::OneRtt, Level::Handshake);
        for (level, bit) in [(short, 0x08), (short, 0x10), (long, 0x04), (long, 0x08)] {
            let mut bytes = emitted(&[ping(level, HERE, 1)]);
            bytes[0] |= bit;
            let violation = parsed(&bytes, &mut Keys::plain()).violation.unwrap();
            assert_eq!(violation.problem, "reserved bits of a header are not 0");
        }
        let mut bytes = emitted(&[ping(short, HERE, 1)]);
        // The frame's type.
        bytes[9] = 0x21;
        let violation = parsed(&bytes, &mut Keys::plain()).violation.unwrap();
        assert_eq!(violation.problem, "a frame's type is not known");
        // Nothing at all: number and tag, and a sample that is long enough.
        bytes.truncate(9);
        bytes.extend([0; TAG_BYTES]);
        let violation = parsed(&bytes, &mut Keys::plain()).violation.unwrap();
        assert_eq!(violation.problem, "a packet has no frame");
    }

    /// RFC 9000 section 17.2.5.2.
    #[test]
    fn a_retry_that_answers_nothing_is_not_taken() {
        let id = ConnectionId::default();
        for (token, original) in [(&[1_u8][..], None), (&[], Some(id))] {
            let retry = Content::Retry { ids: [id; 2], original: id, token: token.into() };
            let mut bytes = Vec::new();
            retry.emit(&mut Keys::plain(), &mut Store::full(), &mut bytes);
            let mut keys = Keys { original, ..Keys::plain() };
            let error = Content::parse(&mut bytes, 0, &mut keys, &mut Store::default()).unwrap_err();
            assert_eq!(error.problem, "a Retry packet answers nothing");
        }
    }

    /// Numbers are found again as long as they are near the largest one that has come.
    #[test]
    fn numbers_follow_the_largest_that_has_come() {
        let mut keys = Keys::plain();
        for (number, number_bytes) in [(0, 1), (1, 1), (200, 2), (5, 2), (70_000, 3), (69_999, 1)] {
            let frames = [Frame::Padding { length: 3 }].into_iter().collect();
            let packet = Packet { number_bytes, frames, ..ping(Level::OneRtt, HERE, number) };
            let found = parsed(&emitted(&[packet]), &mut keys);
            let Content::Packets(packets) = found.content else { panic!("they are packets") };
            assert_eq!(packets[0].number, number);
        }
    }
}
