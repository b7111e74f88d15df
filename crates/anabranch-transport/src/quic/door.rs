//! What an end says to datagrams that belong to no connection: who may open one (RFC 9000 sections 7.2, 8.1.2
//! and 14.1), which versions there are (section 6), and that a connection is forgotten (section 10.3). It
//! keeps nothing about peers but one key.

use smallvec::SmallVec;

use super::connection_ids::{Numbers, is_equal};
use super::errors::code;
use crate::rng::Draw as _;
use crate::secret::Secret;
use crate::time::{Duration, Time};
use crate::wire::quic::{
    ConnectionId, Content, Frame, LEAST_RESET_BYTES, LEAST_SAMPLED, Level, Packet, VERSION_1,
};

/// How long a token of a Retry packet holds, as in quinn (`ServerConfig::retry_token_lifetime`).
const TOKEN_HOLDS: Duration = Duration::from_secs(15);
/// The kind of a token (section 8.1.1).
const OF_RETRY: u8 = 1;
/// Bytes of a token's seal, and of the code of an address in it.
const SEAL_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
/// The longest stateless reset: as a packet with the longest connection ID and packet number, and one byte.
const MOST_RESET_BYTES: usize = 1 + 20 + 4 + 1 + 16;
/// Of an ID that a client makes up (section 7.2).
const LEAST_FIRST_ID: usize = 8;

/// A key for tokens, and whether they are asked for.
#[derive(Clone, Debug)]
pub(super) struct Door {
    secret: Secret,
    /// Whether a client's address is validated by a Retry packet before there is a connection.
    pub(super) asks: bool,
}

/// What follows from a client's first packet.
#[derive(Debug)]
pub(super) enum Verdict {
    Answer(Content),
    Accept(Admission),
    Nothing,
}

/// What a server knows of a client that it admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admission {
    /// Where the client's first packet went.
    pub(super) original: ConnectionId,
    /// The source of the Retry packet of which the client has shown the token, which validates its address.
    pub(super) retry: Option<ConnectionId>,
}

/// What a token says.
enum Token {
    /// This end has issued it for another address, or long ago.
    Bad,
    /// It answers a Retry packet; this is where the client's first packet went.
    Good(ConnectionId),
    /// There is none, or none that this end has issued.
    None,
}

impl Door {
    pub(super) fn new(numbers: &mut Numbers, asks: bool) -> Self {
        let mut key = [0; 32];
        for part in key.chunks_exact_mut(8) {
            part.copy_from_slice(&numbers.bits().to_be_bytes());
        }
        Self { secret: Secret(key), asks }
    }

    /// The token of a connection ID of this end (section 10.3.2).
    pub(super) fn reset_token(&self, id: ConnectionId) -> [u8; 16] {
        first(&self.secret.code(b"quic reset", id.bytes()))
    }

    /// The answer to a packet with a short header to an ID that is not known, in a datagram of this length;
    /// [`None`] where it would not be shorter (sections 10.3 and 10.3.3).
    pub(super) fn reset(&self, id: ConnectionId, bytes: u32, numbers: &mut Numbers) -> Option<Content> {
        let size = (bytes as usize).saturating_sub(1).min(MOST_RESET_BYTES);
        let length = size.checked_sub(16).filter(|_| size >= LEAST_RESET_BYTES)?;
        let noise = (0..length).map(|_| numbers.bits() as u8).collect();
        Some(Content::Reset { noise, token: self.reset_token(id) })
    }

    /// The answer to a packet of a version that is not known, in a datagram of this length (sections 5.2.2
    /// and 6.1).
    pub(super) fn versions([to, from]: &[Box<[u8]>; 2], bytes: u32) -> Option<Content> {
        let ids = [from.clone(), to.clone()];
        let is_long = bytes >= super::parameters::LEAST_DATAGRAM;
        is_long.then(|| Content::VersionNegotiation { ids, versions: [VERSION_1].into() })
    }

    /// Whether a packet may open a connection, in a datagram of this length (sections 7.2 and 14.1).
    pub(super) fn is_first(packet: &Packet, bytes: u32) -> bool {
        packet.level == Level::Initial
            && bytes >= super::parameters::LEAST_DATAGRAM
            && packet.frames.iter().any(|frame| matches!(frame, Frame::Crypto { .. }))
    }

    /// What becomes of a client at the address `from` that sends a packet which [may
    /// open](Self::is_first) a connection.
    pub(super) fn admit(&self, now: Time, from: &[u8], packet: &Packet, numbers: &mut Numbers) -> Verdict {
        let original = packet.destination;
        match self.read_token(now, from, packet) {
            Token::Bad => Verdict::Answer(refuse(packet)),
            Token::Good(original) => Verdict::Accept(Admission { original, retry: Some(packet.destination) }),
            Token::None if original.len() < LEAST_FIRST_ID => Verdict::Nothing,
            Token::None if self.asks => Verdict::Answer(self.retry(now, from, packet, numbers)),
            Token::None => Verdict::Accept(Admission { original, retry: None }),
        }
    }

    /// A Retry packet (section 17.2.5.1), from an ID that is not the one that the client has made up.
    fn retry(&self, now: Time, from: &[u8], packet: &Packet, numbers: &mut Numbers) -> Content {
        let mut source = packet.destination;
        while source == packet.destination {
            source = ConnectionId::new(&numbers.bits().to_be_bytes()).unwrap_or_default();
        }
        let mut token = vec![OF_RETRY];
        token.extend(now.as_nanos().to_be_bytes());
        token.extend(self.address(from));
        token.extend(packet.destination.bytes());
        token.extend(self.seal(&token, source));
        let ids = [packet.source, source];
        Content::Retry { ids, original: packet.destination, token: token.into() }
    }

    /// The seal of a token, which holds only for packets to this ID.
    fn seal(&self, token: &[u8], source: ConnectionId) -> [u8; SEAL_BYTES] {
        let message = [&[source.len() as u8], source.bytes(), token].concat();
        first(&self.secret.code(b"quic retry", &message))
    }

    fn address(&self, from: &[u8]) -> [u8; ADDRESS_BYTES] {
        first(&self.secret.code(b"quic address", from))
    }

    fn read_token(&self, now: Time, from: &[u8], packet: &Packet) -> Token {
        let token = &packet.token[..];
        let Some((body, seal)) = token.split_last_chunk() else { return Token::None };
        let Some((&[OF_RETRY, ref issued @ ..], rest)) = body.split_first_chunk::<9>() else {
            return Token::None;
        };
        let Some((address, original)) = rest.split_first_chunk() else { return Token::None };
        let Some(original) = ConnectionId::new(original) else { return Token::None };
        if !is_equal(seal, &self.seal(body, packet.destination)) {
            return Token::None;
        }
        let issued = Time::from_nanos(u64::from_be_bytes(*issued));
        let is_fresh = issued <= now && now.saturating_since(issued) <= TOKEN_HOLDS;
        if is_fresh && *address == self.address(from) { Token::Good(original) } else { Token::Bad }
    }
}

/// A close in an Initial packet, for a token of this end that does not hold (section 8.1.2).
fn refuse(packet: &Packet) -> Content {
    let frame = Frame::ConnectionClose { code: code::INVALID_TOKEN, frame: Some(0), reason: 0 };
    let refusal = Packet {
        level: Level::Initial,
        destination: packet.source,
        source: packet.destination,
        token: Box::default(),
        path_id: 0,
        number: 0,
        number_bytes: 1,
        key_phase: false,
        key_updates: 0,
        frames: [frame].into_iter().collect(),
        parameters: None,
    };
    debug_assert!(refusal.content() + 1 >= LEAST_SAMPLED);
    Content::Packets(SmallVec::from_iter([refusal]))
}

fn first<const N: usize>(code: &[u8; 32]) -> [u8; N] {
    *code.first_chunk().expect("a code is longer")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::Payload;
    use crate::rng::Streams;

    fn numbers(seed: u64) -> Numbers {
        Numbers::Stream(Streams { seed, replication: 0 }.stream("door"))
    }

    fn id(bytes: &[u8]) -> ConnectionId {
        ConnectionId::new(bytes).unwrap()
    }

    fn first_packet(destination: ConnectionId, token: &[u8]) -> Packet {
        let data = Payload { offset: 0, length: 241 };
        Packet {
            level: Level::Initial,
            destination,
            source: id(&[7; 5]),
            token: token.into(),
            path_id: 0,
            number: 0,
            number_bytes: 1,
            key_phase: false,
            key_updates: 0,
            frames: [Frame::Crypto { position: 0, data }].into_iter().collect(),
            parameters: None,
        }
    }

    fn asking() -> Door {
        Door::new(&mut numbers(1), true)
    }

    const ORIGINAL: [u8; 8] = [3; 8];
    const HERE: &[u8] = &[10, 0, 0, 1, 0xc0, 0];

    /// The source and the token of a Retry packet that was sent at 1 s.
    fn retry(door: &Door) -> (ConnectionId, Box<[u8]>) {
        let packet = first_packet(id(&ORIGINAL), &[]);
        match door.admit(Time::from_secs(1), HERE, &packet, &mut numbers(2)) {
            Verdict::Answer(Content::Retry { ids, original, token }) => {
                assert_eq!((ids[0], original), (packet.source, packet.destination));
                assert_ne!(ids[1], packet.destination);
                (ids[1], token)
            }
            verdict => panic!("{verdict:?}"),
        }
    }

    fn is_refused(verdict: &Verdict) -> bool {
        let Verdict::Answer(Content::Packets(packets)) = verdict else { return false };
        let code = code::INVALID_TOKEN;
        packets[0].frames[..] == [Frame::ConnectionClose { code, frame: Some(0), reason: 0 }]
    }

    /// RFC 9000 section 8.1.2: the token is good for one address, one ID and a short time.
    #[test]
    fn a_token_opens_the_door_where_it_was_sent() {
        let door = asking();
        let (source, token) = retry(&door);
        let packet = first_packet(source, &token);
        let at = |millis, from| door.admit(Time::from_millis(millis), from, &packet, &mut numbers(3));
        for millis in [1_000, 1_100, 16_000] {
            match at(millis, HERE) {
                Verdict::Accept(admission) => {
                    assert_eq!(admission, Admission { original: id(&ORIGINAL), retry: Some(source) });
                }
                verdict => panic!("{verdict:?}"),
            }
        }
        assert!(is_refused(&at(16_001, HERE)));
        assert!(is_refused(&at(999, HERE)));
        assert!(is_refused(&at(1_100, &[10, 0, 0, 1, 0xc0, 1])), "another port");
        let (other, elsewhere) = (Door::new(&mut numbers(9), true), first_packet(id(&ORIGINAL), &token));
        for (door, packet) in [(&other, &packet), (&door, &elsewhere)] {
            let verdict = door.admit(Time::from_millis(1_100), HERE, packet, &mut numbers(3));
            assert!(matches!(verdict, Verdict::Answer(Content::Retry { .. })), "{verdict:?}");
        }
    }

    proptest! {
        /// Whatever is changed in a token, it opens nothing.
        #[test]
        fn a_changed_token_is_none(at in any::<prop::sample::Index>(), bit in 0..8_u8, length in 0..60_usize) {
            let door = asking();
            let (source, token) = retry(&door);
            let now = Time::from_millis(1_100);
            let mut changed = token.to_vec();
            changed[at.index(token.len())] ^= 1_u8 << bit;
            let shorter = token[..length.min(token.len() - 1)].to_vec();
            for token in [changed, shorter] {
                let verdict = door.admit(now, HERE, &first_packet(source, &token), &mut numbers(3));
                let is_asked_again = matches!(verdict, Verdict::Answer(Content::Retry { .. }));
                prop_assert!(is_asked_again, "{:?}", verdict);
            }
        }

        /// Sections 10.3 and 10.3.3: a reset has 21 bytes or more, and is shorter than its cause.
        #[test]
        fn a_reset_is_shorter_than_its_cause(bytes in 0..2_000_u32) {
            let door = asking();
            match door.reset(id(&[5; 8]), bytes, &mut numbers(4)) {
                Some(reset) => {
                    let size = reset.size() as u32;
                    prop_assert!((21..bytes).contains(&size));
                    prop_assert!(bytes > 43 || size == bytes - 1);
                    let token = door.reset_token(id(&[5; 8]));
                    let is_known = matches!(reset, Content::Reset { token: found, .. } if found == token);
                    prop_assert!(is_known);
                }
                None => prop_assert!(bytes < 22),
            }
        }
    }

    /// Sections 5.2.2 and 6.1.
    #[test]
    fn versions_are_named_to_whoever_sends_enough() {
        let ids = [Box::from([1_u8; 255]), Box::from([2_u8; 3])];
        assert_eq!(Door::versions(&ids, 1_199), None);
        let [to, from] = ids.clone();
        let expected = Content::VersionNegotiation { ids: [from, to], versions: [1].into() };
        assert_eq!(Door::versions(&ids, 1_200), Some(expected));
    }

    /// Sections 7.2 and 14.1.
    #[test]
    fn not_every_packet_opens_a_connection() {
        let packet = first_packet(id(&ORIGINAL), &[]);
        assert!(Door::is_first(&packet, 1_200) && !Door::is_first(&packet, 1_199));
        assert!(!Door::is_first(&Packet { level: Level::Handshake, ..packet.clone() }, 1_200));
        let frames = [Frame::Ping].into_iter().collect();
        assert!(!Door::is_first(&Packet { frames, ..packet }, 1_200));
        let short = first_packet(id(&[3; 7]), &[]);
        let open = Door { asks: false, ..asking() };
        for door in [asking(), open] {
            let verdict = door.admit(Time::ZERO, HERE, &short, &mut numbers(3));
            assert!(matches!(verdict, Verdict::Nothing), "{verdict:?}");
        }
    }
}
