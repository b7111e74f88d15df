//! Real protection, with the keys that rustls makes (RFC 9001 section 5).

use std::mem;

use ring::aead;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::ring::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256};
use rustls::crypto::tls13::{self, OkmBlock};
use rustls::quic::{self, DirectionalKeys, HeaderProtectionKey, PacketKey, Secrets};
use rustls::{Side, SupportedCipherSuite, Tls13CipherSuite};

use super::{Envelope, Protection, SAMPLE_BYTES, TAG_BYTES};
use crate::wire::quic::ConnectionId;

/// The key of a level and a direction, with those of the key phases around it.
///
/// Keys are updated by the bit in packets (RFC 9001 section 6): when one of the other phase is sealed, or one
/// that is not older than those of this phase is genuine, the next phase has begun.
pub struct Real {
    /// The key of header protection, which all phases share.
    header: Box<dyn HeaderProtectionKey>,
    /// The key of the phase before.
    previous: Option<Box<dyn PacketKey>>,
    current: Box<dyn PacketKey>,
    /// The key of the next phase, and where those after it come from.
    next: Option<(Box<dyn PacketKey>, Later)>,
    phase: bool,
    /// How many phases came before the current one.
    updates: u32,
    /// The lowest number of the current phase on each path ID on which it has been seen.
    first: Vec<(u32, u64)>,
}

/// Where the keys of later phases come from.
enum Later {
    /// The secrets of both directions.
    Handshake {
        secrets: Secrets,
        /// Whether the key seals what this end sends.
        is_sealing: bool,
    },
    /// The secret of the phase that [`Real::of_secret`] was made for.
    Secret([u8; 32]),
}

impl Later {
    /// The key of the next phase.
    fn advance(mut self) -> (Box<dyn PacketKey>, Self) {
        match &mut self {
            Self::Handshake { secrets, is_sealing } => {
                let keys = secrets.next_packet_keys();
                (if *is_sealing { keys.local } else { keys.remote }, self)
            }
            Self::Secret(secret) => {
                *secret = expand(secret, b"quic ku");
                (packet_key(secret), self)
            }
        }
    }
}

impl Real {
    /// The keys for sealing and opening Initial packets of a connection whose client first sent to this
    /// destination (RFC 9001 section 5.2).
    pub fn initial(destination: ConnectionId, is_client: bool) -> [Self; 2] {
        let side = if is_client { Side::Client } else { Side::Server };
        let suite = &TLS13_AES_128_GCM_SHA256;
        let suite = suite.tls13().and_then(Tls13CipherSuite::quic_suite).expect("it is a suite for QUIC");
        Self::handshake(suite.keys(destination.bytes(), side, quic::Version::V1))
    }

    /// The keys for sealing and opening Handshake packets that TLS has agreed on.
    pub fn handshake(keys: quic::Keys) -> [Self; 2] {
        [keys.local, keys.remote].map(|keys| Self::new(keys, None))
    }

    /// The keys for sealing and opening packets with short headers that TLS has agreed on, and the secrets of
    /// later phases.
    pub fn one_rtt(keys: quic::Keys, secrets: &Secrets) -> [Self; 2] {
        let later = |is_sealing| Some(Later::Handshake { secrets: secrets.clone(), is_sealing });
        [Self::new(keys.local, later(true)), Self::new(keys.remote, later(false))]
    }

    /// A key of ChaCha20-Poly1305 that is made of a traffic secret (RFC 9001 section 5.1).
    pub fn of_secret(secret: [u8; 32]) -> Self {
        let header = chacha20().header_protection_key(AeadKey::from(expand(&secret, b"quic hp")));
        let packet = packet_key(&secret);
        Self::new(DirectionalKeys { header, packet }, Some(Later::Secret(secret)))
    }

    /// A key of ChaCha20-Poly1305 with this IV.
    #[cfg(test)]
    pub(in crate::wire::quic) fn of_key(key: [u8; 32], iv: [u8; 12]) -> Self {
        let header = chacha20().header_protection_key(AeadKey::from(key));
        let packet = chacha20().packet_key(AeadKey::from(key), Iv::from(iv));
        Self::new(DirectionalKeys { header, packet }, None)
    }

    fn new(keys: DirectionalKeys, later: Option<Later>) -> Self {
        let next = later.map(Later::advance);
        let (header, current) = (keys.header, keys.packet);
        Self { header, previous: None, current, next, phase: false, updates: 0, first: vec![(0, 0)] }
    }

    /// Whether a packet is of the next phase: with the other key phase bit, and no older than this phase.
    fn is_next(&self, envelope: Envelope<'_>) -> bool {
        self.next.is_some()
            && envelope.key_phase != self.phase
            && match self.first(envelope.path) {
                Some(first) => envelope.number >= first,
                // On a path that is new in this phase it may be late, of the one before.
                None => self.previous.is_none() || envelope.key_updates > self.updates,
            }
    }

    /// Opens a packet with the key of the next phase, on a path that is new in this one, where its number
    /// does not say that it is of the next phase; whether it is.
    fn opens_as_next(&mut self, envelope: Envelope<'_>, sealed: &mut [u8]) -> bool {
        if envelope.key_phase == self.phase || self.first(envelope.path).is_some() {
            return false;
        }
        let Some((next, _)) = &self.next else { return false };
        // What a key does not open is lost, and the one before may open it.
        let mut content = sealed.to_vec();
        let Envelope { path, number, header, .. } = envelope;
        let is_next = next.decrypt_in_place_for_path(path, number, header, &mut content).is_ok();
        if is_next {
            sealed.copy_from_slice(&content);
            self.update(envelope);
        }
        is_next
    }

    /// The lowest number of the current phase on a path.
    fn first(&self, path: u32) -> Option<u64> {
        self.first.iter().find(|(known, _)| *known == path).map(|(_, first)| *first)
    }

    /// The key of a packet: of this phase, of the next one, or of the one before if the packet is older.
    fn key(&self, envelope: Envelope<'_>) -> &dyn PacketKey {
        match (&self.next, &self.previous) {
            (Some((next, _)), _) if self.is_next(envelope) => next.as_ref(),
            (Some(_), Some(previous)) if envelope.key_phase != self.phase => previous.as_ref(),
            _ => self.current.as_ref(),
        }
    }

    /// Remembers where the present phase begins on a packet's path: those of one phase may overtake each
    /// other.
    fn note(&mut self, Envelope { path, number, key_phase, .. }: Envelope<'_>) {
        if key_phase == self.phase {
            match self.first.iter_mut().find(|(known, _)| *known == path) {
                Some((_, first)) => *first = number.min(*first),
                None => self.first.push((path, number)),
            }
        }
    }

    /// Begins the next phase with a packet.
    fn update(&mut self, envelope: Envelope<'_>) {
        if let Some((next, later)) = self.next.take() {
            self.previous = Some(mem::replace(&mut self.current, next));
            self.next = Some(later.advance());
            self.phase = envelope.key_phase;
            self.updates += 1;
            self.first = vec![(envelope.path, envelope.number)];
        }
    }
}

impl Protection for Real {
    fn seal(&mut self, envelope: Envelope<'_>, content: &mut [u8]) -> [u8; TAG_BYTES] {
        if self.is_next(envelope) {
            self.update(envelope);
        } else {
            self.note(envelope);
        }
        let Envelope { path, number, header, .. } = envelope;
        let tag = self.key(envelope).encrypt_in_place_for_path(path, number, header, content);
        let tag = tag.expect("a packet is shorter than the algorithm allows");
        tag.as_ref().try_into().expect("every tag has 16 bytes")
    }

    fn open(&mut self, envelope: Envelope<'_>, sealed: &mut [u8]) -> Option<u32> {
        let is_next = self.is_next(envelope);
        if !is_next && self.opens_as_next(envelope, sealed) {
            return Some(self.updates);
        }
        let Envelope { path, number, header, .. } = envelope;
        self.key(envelope).decrypt_in_place_for_path(path, number, header, sealed).ok()?;
        if is_next {
            self.update(envelope);
        } else if envelope.key_phase == self.phase {
            // Those of one phase may overtake each other.
            match self.first.iter_mut().find(|(known, _)| *known == path) {
                Some((_, first)) => *first = number.min(*first),
                None => self.first.push((path, number)),
            }
        }
        let is_late = self.next.is_some() && envelope.key_phase != self.phase;
        Some(self.updates.saturating_sub(u32::from(is_late)))
    }

    fn mask(&self, sample: &[u8; SAMPLE_BYTES]) -> [u8; 5] {
        // A short header with a number of four bytes, of whose first byte five bits are masked.
        const FIRST: u8 = 3;
        let (mut first, mut number) = (FIRST, [0; 4]);
        self.header.encrypt_in_place(sample, &mut first, &mut number).expect("samples have 16 bytes");
        let [a, b, c, d] = number;
        [first ^ FIRST, a, b, c, d]
    }

    fn retry_tag(original: ConnectionId, retry: &[u8]) -> [u8; TAG_BYTES] {
        const KEY: [u8; 16] = 0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes();
        const NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, &KEY).expect("the key has 16 bytes");
        let mut pseudo = vec![original.len() as u8];
        pseudo.extend(original.bytes());
        pseudo.extend(retry);
        let nonce = aead::Nonce::assume_unique_for_key(NONCE);
        let tag =
            aead::LessSafeKey::new(key).seal_in_place_separate_tag(nonce, aead::Aad::from(pseudo), &mut []);
        tag.expect("nothing is short enough").as_ref().try_into().expect("every tag has 16 bytes")
    }
}

fn chacha20_suite() -> &'static Tls13CipherSuite {
    let suite: &'static SupportedCipherSuite = &TLS13_CHACHA20_POLY1305_SHA256;
    suite.tls13().expect("it is a suite of TLS 1.3")
}

fn chacha20() -> &'static dyn quic::Algorithm {
    chacha20_suite().quic.expect("it is a suite for QUIC")
}

fn packet_key(secret: &[u8; 32]) -> Box<dyn PacketKey> {
    let (key, iv): ([u8; 32], [u8; 12]) = (expand(secret, b"quic key"), expand(secret, b"quic iv"));
    chacha20().packet_key(AeadKey::from(key), Iv::from(iv))
}

/// HKDF-Expand-Label without context (RFC 8446 section 7.1).
fn expand<const N: usize>(secret: &[u8; 32], label: &[u8]) -> [u8; N] {
    const PREFIX: &[u8] = b"tls13 ";
    let expander = chacha20_suite().hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
    let lengths = [0, N as u8, (PREFIX.len() + label.len()) as u8];
    tls13::expand(expander.as_ref(), &[&lengths, PREFIX, label, &[0]])
}
