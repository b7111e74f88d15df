//! The keys of an end, by level.

use super::connection_id::ConnectionId;
use super::header::Level;
use super::packet::Packet;
use super::protection::{Plain, Protection};
use super::{Fields, sealed};

/// What an end of a connection seals and opens with.
#[derive(Clone, Debug)]
pub struct Keys<P> {
    /// By level; [`None`] where there is no key yet, or no longer.
    pub sealing: [Option<P>; 4],
    /// By level.
    pub opening: [Option<P>; 4],
    /// Where the first packet of a client went that a Retry packet may still answer.
    pub original: Option<ConnectionId>,
    /// The largest number that has arrived in each packet number space, of data in that of path 0.
    pub(super) largest: [Option<u64>; 3],
    /// The other paths than 0 (RFC 10069).
    pub(super) paths: Vec<Path>,
}

/// What tells the packets of a path from those of others.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) number: u32,
    /// The connection IDs to which they come.
    pub(super) ids: Vec<ConnectionId>,
    /// The largest number that has arrived.
    pub(super) largest: Option<u64>,
}

impl<P> Default for Keys<P> {
    fn default() -> Self {
        let none = || [None, None, None, None];
        Self { sealing: none(), opening: none(), original: None, largest: [None; 3], paths: Vec::new() }
    }
}

impl Keys<Plain> {
    /// Those of an end that protects nothing.
    pub fn plain() -> Self {
        Self { sealing: [Some(Plain); 4], opening: [Some(Plain); 4], ..Self::default() }
    }
}

impl<P> Keys<P> {
    /// Takes the key that seals and the one that opens packets of a level.
    pub fn set(&mut self, level: Level, [sealing, opening]: [P; 2]) {
        self.sealing[level as usize] = Some(sealing);
        self.opening[level as usize] = Some(opening);
    }

    /// The connection IDs to which packets of another path than 0 come from now on.
    pub fn set_ids(&mut self, path: u32, ids: impl IntoIterator<Item = ConnectionId>) {
        let ids = ids.into_iter().collect();
        match self.paths.iter_mut().find(|known| known.number == path) {
            Some(known) => known.ids = ids,
            None => self.paths.push(Path { number: path, ids, largest: None }),
        }
    }
}

impl<P> Keys<P> {
    /// How many connection IDs of other paths than 0 are known.
    pub fn ids_of_paths(&self) -> usize {
        self.paths.iter().map(|path| path.ids.len()).sum()
    }

    /// A further connection ID to which packets of another path than 0 come.
    pub fn add_id(&mut self, path: u32, id: ConnectionId) {
        match self.paths.iter_mut().find(|known| known.number == path) {
            Some(known) => known.ids.push(id),
            None => self.set_ids(path, [id]),
        }
    }
}

impl<P: Protection> Keys<P> {
    /// Appends the bytes of packets of one datagram. Whoever sends at a level has its key.
    pub fn seal(&mut self, packets: &[Packet], fields: &mut impl Fields, out: &mut Vec<u8>) {
        for packet in packets {
            let key = self.sealing[packet.level as usize].as_mut();
            let key = key.expect("whoever sends at a level has its key");
            sealed::seal(packet, key, fields, out);
        }
    }
}

impl Level {
    /// Packets of the levels of a space have numbers in common (RFC 9000 section 12.3).
    pub(super) const fn space(self) -> usize {
        match self {
            Self::Initial => 0,
            Self::Handshake => 1,
            Self::ZeroRtt | Self::OneRtt => 2,
        }
    }
}

#[cfg(feature = "quic")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::quic::testing::Store;
    use crate::wire::quic::{Content, Envelope, Frame, Real};

    fn hex(digits: &str) -> Vec<u8> {
        let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn id(digits: &str) -> ConnectionId {
        ConnectionId::new(&hex(digits)).unwrap()
    }

    /// The keys of the client and of the server in appendix A.
    fn initial() -> [Keys<Real>; 2] {
        [true, false].map(|is_client| {
            let mut keys = Keys::default();
            keys.set(Level::Initial, Real::initial(id("8394c8f03e515708"), is_client));
            keys
        })
    }

    /// A packet without frames.
    fn packet(level: Level, [destination, source]: [&str; 2], number: u64, number_bytes: u8) -> Packet {
        let (destination, source, token) = (id(destination), id(source), Box::default());
        let (frames, parameters) = (smallvec::SmallVec::new(), None);
        Packet {
            level,
            destination,
            source,
            token,
            path_id: 0,
            number,
            number_bytes,
            key_phase: false,
            key_updates: 0,
            frames,
            parameters,
        }
    }

    /// Sends a packet whose frames are these bytes, compares it with what the RFC has, and opens it again.
    fn is_that_of_the_rfc([own, peer]: [&mut Keys<Real>; 2], packet: Packet, frames: &[u8], expected: &str) {
        let mut store = Store::default();
        let frames = Frame::parse_all(frames, &mut store).unwrap().into();
        let id_bytes = packet.destination.len();
        let content = Content::Packets([Packet { frames, ..packet }].into_iter().collect());
        let mut bytes = Vec::new();
        content.emit(own, &mut store, &mut bytes);
        assert_eq!(bytes, hex(expected));
        let parsed = Content::parse(&mut bytes, id_bytes, peer, &mut Store::default()).unwrap();
        assert_eq!((parsed.content, parsed.forged), (content, 0));
    }

    /// RFC 9001 appendix A.2.
    #[test]
    fn the_clients_first_packet_is_that_of_the_rfc() {
        let [mut client, mut server] = initial();
        let mut frames = hex(include_str!("protection/a2_crypto.hex"));
        frames.resize(1162, 0);
        let packet = packet(Level::Initial, ["8394c8f03e515708", ""], 2, 4);
        is_that_of_the_rfc(
            [&mut client, &mut server],
            packet,
            &frames,
            include_str!("protection/a2_packet.hex"),
        );
    }

    /// RFC 9001 appendix A.3.
    #[test]
    fn the_servers_first_packet_is_that_of_the_rfc() {
        let [mut client, mut server] = initial();
        let packet = packet(Level::Initial, ["", "f067a5502a4262b5"], 1, 2);
        let frames = hex("02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf739
             88cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94
             0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00
             020304");
        let expected = "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a
             5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3
             dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84
             022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc4
             2158407dd074ee";
        is_that_of_the_rfc([&mut server, &mut client], packet, &frames, expected);
    }

    /// RFC 9001 appendix A.4.
    #[test]
    fn the_retry_is_that_of_the_rfc() {
        let original = id("8394c8f03e515708");
        let ids = [ConnectionId::default(), id("f067a5502a4262b5")];
        let retry = Content::Retry { ids, original, token: b"token".as_slice().into() };
        let (mut keys, mut bytes) = (Keys::<Real>::default(), Vec::new());
        retry.emit(&mut keys, &mut Store::default(), &mut bytes);
        assert_eq!(bytes, hex("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba"));
        keys.original = Some(original);
        let parsed = Content::parse(&mut bytes.clone(), 0, &mut keys, &mut Store::default()).unwrap();
        assert_eq!(parsed.content, retry);
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            let parsed = Content::parse(&mut bytes.clone(), 0, &mut keys, &mut Store::default());
            assert_ne!(parsed.map(|parsed| parsed.content), Ok(retry.clone()));
            bytes[at] ^= 1;
        }
    }

    fn short() -> [Keys<Real>; 2] {
        let secret = hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
        let key = || Real::of_secret(secret.clone().try_into().unwrap());
        [(); 2].map(|()| {
            let mut keys = Keys::default();
            keys.set(Level::OneRtt, [key(), key()]);
            keys
        })
    }

    /// RFC 9001 appendix A.5.
    #[test]
    fn the_short_header_is_that_of_the_rfc() {
        let [mut own, mut peer] = short();
        peer.largest[Level::OneRtt.space()] = Some(654_360_560);
        let packet = packet(Level::OneRtt, [""; 2], 654_360_564, 3);
        let expected = "4cfe4189655e5cd55c41f69080575d7999c25a5bfb";
        is_that_of_the_rfc([&mut own, &mut peer], packet, &[1], expected);
    }

    /// RFC 9001 section 6: packets of the phase before may come late, and no packet is opened by the keys of
    /// another phase.
    #[test]
    fn keys_are_updated_by_the_bit() {
        let [mut own, mut peer] = short();
        let mut sent = |number, key_phase| {
            let frames = [Frame::Ping, Frame::Ping].into_iter().collect();
            let packet = Packet { key_phase, frames, ..packet(Level::OneRtt, [""; 2], number, 2) };
            let mut bytes = Vec::new();
            own.seal(&[packet], &mut Store::default(), &mut bytes);
            bytes
        };
        // A capture seals what it sees: the last packet of a phase behind the first one of the next.
        let mut packets = vec![Vec::new(); 12];
        for number in [0, 1, 3, 2, 4, 6, 5, 7, 9, 8, 10, 11] {
            packets[number] = sent(number as u64, [false, true, false, true][number / 3]);
        }
        let mut arrives = |bytes: &[u8]| {
            let parsed = Content::parse(&mut bytes.to_vec(), 0, &mut peer, &mut Store::default()).unwrap();
            match parsed.content {
                Content::Packets(packets) => packets.first().map(|packet| packet.number),
                _ => None,
            }
        };
        // A forged packet of another phase changes nothing.
        let mut forged = packets[3].clone();
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(arrives(&forged), None);
        for number in [0, 4, 1, 3, 5, 2, 8, 7, 6, 5, 9, 8, 11, 10] {
            assert_eq!(arrives(&packets[number]), Some(number as u64), "{number}");
        }
        // Two phases ago.
        assert_eq!(arrives(&packets[4]), None);
    }

    /// RFC 10069 section 2.5: on a path on which nothing has come since the last update, both the phase
    /// before and the next one have the other bit.
    #[test]
    fn keys_are_updated_on_paths_that_sleep() {
        let [mut own, mut peer] = short();
        let other = id("0102030405060708");
        peer.set_ids(1, [other]);
        let mut sent = |path: u32, number, updates: u32| {
            let frames = [Frame::Ping, Frame::Ping].into_iter().collect();
            let empty = packet(Level::OneRtt, [""; 2], number, 2);
            let destination = if path == 0 { id("0807060504030201") } else { other };
            let (path_id, key_phase) = (path, updates % 2 == 1);
            let packet = Packet { key_phase, key_updates: updates, frames, path_id, destination, ..empty };
            let mut bytes = Vec::new();
            own.seal(&[packet], &mut Store::default(), &mut bytes);
            bytes
        };
        // The last one of path 1 before the first update comes late, and the one of the second update first.
        let late = sent(1, 0, 0);
        let packets = [sent(0, 0, 0), sent(0, 1, 1), sent(1, 1, 2), sent(0, 2, 2), sent(1, 2, 3)];
        let mut arrives = |bytes: &[u8]| {
            let parsed = Content::parse(&mut bytes.to_vec(), 8, &mut peer, &mut Store::default()).unwrap();
            match parsed.content {
                Content::Packets(packets) => packets.first().map(|packet| packet.key_updates),
                _ => None,
            }
        };
        assert_eq!(packets[..2].iter().map(|bytes| arrives(bytes)).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert_eq!(arrives(&late), Some(0));
        let mut forged = packets[2].clone();
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(arrives(&forged), None);
        let rest: Vec<_> = packets[2..].iter().map(|bytes| arrives(bytes)).collect();
        assert_eq!(rest, [Some(2), Some(2), Some(3)]);
    }

    /// RFC 10069 section 2.4: IV, path and number give the nonce.
    #[test]
    fn the_nonce_of_a_path_is_that_of_the_rfc() {
        let key = |iv: &str| Real::of_key([7; 32], hex(iv).try_into().unwrap());
        let sealed = |mut key: Real, path, number| {
            let mut content = *b"content";
            let tag = key
                .seal(Envelope { path, number, key_phase: false, key_updates: 0, header: &[] }, &mut content);
            (content, tag)
        };
        let of_path = sealed(key("6b26114b9cba2b63a9e8dd4f"), 3, 54_321);
        assert_eq!(of_path, sealed(key("6b2611489cba2b63a9e8097e"), 0, 0));
        assert_ne!(of_path, sealed(key("6b26114b9cba2b63a9e8dd4f"), 0, 54_321));
    }

    /// What is sealed has the size that it has without protection, and only the peer opens it.
    #[test]
    fn sizes_are_those_of_no_protection() {
        let [mut client, mut server] = initial();
        for length in 0..40 {
            let data = crate::flow::Payload { offset: 0, length };
            let frames = [Frame::Crypto { position: 0, data }].into_iter().collect();
            let ids = ["8394c8f03e515708", "01020304"];
            let packet = Packet { frames, ..packet(Level::Initial, ids, length.into(), 1) };
            let content = Content::Packets([packet].into_iter().collect());
            let (mut plain, mut real) = (Vec::new(), Vec::new());
            content.emit(&mut Keys::plain(), &mut Store::full(), &mut plain);
            content.emit(&mut client, &mut Store::full(), &mut real);
            assert_eq!((plain.len(), real.len()), (content.size(), content.size()));
            let mut own = real.clone();
            let parsed = Content::parse(&mut own, 8, &mut client, &mut Store::default()).unwrap();
            assert_eq!((parsed.forged, parsed.content.size()), (1, 0));
            let mut kept = Store::default();
            let parsed = Content::parse(&mut real, 8, &mut server, &mut kept).unwrap();
            assert_eq!((parsed.forged, parsed.content, kept.0.len()), (0, content, length as usize));
        }
    }
}
