//! Signatures: of State Cookies by the end that made them (RFC 9260 section 5.1.3), and of chunks by both
//! ends, with AUTH (RFC 4895 section 4.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Type = 15   |   Flags = 0   |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Shared Key Identifier     |        HMAC Identifier        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! /                              HMAC                             /
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use hmac::{KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;

use super::codes::{chunk, parameter};
use super::fault::malformed;
use super::tlv::next_whole;
use super::writer::Writer;
use crate::wire::bytes::{Append as _, Malformed, Reader, Secret};
use crate::wire::sctp::context::{SctpReceiving, SctpSending};

/// Length in bytes of the code at the end of a State Cookie.
pub(super) const COOKIE_CODE_BYTES: usize = 20;

/// The HMAC of AUTH chunks (RFC 4895 section 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hmac {
    /// HMAC-SHA-1, which every end must support.
    #[default]
    Sha1,
    /// HMAC-SHA-256.
    Sha256,
}

impl Hmac {
    /// Its identifier (RFC 4895 section 8.4).
    pub(super) const fn identifier(self) -> u16 {
        match self {
            Self::Sha1 => 1,
            Self::Sha256 => 3,
        }
    }

    pub(super) fn of(identifier: u16) -> Option<Self> {
        [Self::Sha1, Self::Sha256].into_iter().find(|it| it.identifier() == identifier)
    }

    /// The length of the codes in bytes.
    const fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// The size of an AUTH chunk (RFC 4895 section 4.1).
    pub(super) const fn chunk_bytes(self) -> u32 {
        8 + self.bytes() as u32
    }

    /// Writes an AUTH chunk, with zeros in place of the code.
    pub(super) fn emit(self, writer: &mut Writer<'_, impl SctpSending>) {
        writer.with_header(chunk::AUTH, 0, |writer| {
            // Shared key identifier 0, the only one, which stands for the secret of the users if they have
            // one.
            writer.out.u16(0);
            writer.out.u16(self.identifier());
            let end = writer.out.len() + self.bytes();
            writer.out.resize(end, 0);
        });
    }

    /// The algorithms that an end accepts if this is its best one, the best first.
    pub(super) const fn accepted(self) -> &'static [Self] {
        match self {
            Self::Sha1 => &[Self::Sha1],
            Self::Sha256 => &[Self::Sha256, Self::Sha1],
        }
    }
}

/// The parameters in which an end says how it signs and which chunks are to be signed: Random, Chunk List and
/// Requested HMAC Algorithm, each with its header and without padding (RFC 4895 section 3).
pub(super) fn offer(secret: &Secret, tag: u32, best: Hmac) -> [Vec<u8>; 3] {
    let parameter = |kind: u16, value: &[u8]| {
        let mut whole = Vec::with_capacity(4 + value.len());
        whole.u16(kind);
        whole.u16((4 + value.len()) as u16);
        whole.extend(value);
        whole
    };
    let algorithms: Vec<u8> =
        best.accepted().iter().flat_map(|hmac| hmac.identifier().to_be_bytes()).collect();
    [
        parameter(parameter::RANDOM, &random_number(secret, tag)),
        parameter(parameter::CHUNK_LIST, &[chunk::ASCONF, chunk::ASCONF_ACK]),
        parameter(parameter::HMAC_ALGORITHMS, &algorithms),
    ]
}

/// The key vector of the end that has chosen this tag, as [`key_vector`] finds it in its INIT or INIT ACK.
pub fn own_key_vector(secret: &Secret, tag: u32, best: Hmac) -> Vec<u8> {
    offer(secret, tag, best).concat()
}

/// The code of a State Cookie: HMAC-SHA-256, cut to its length. The ports, in either order, are signed with
/// it: a cookie is valid only between the ports for which it was made (RFC 9260 section 5.1.5 step 2).
pub(super) fn cookie_code(secret: &Secret, ports: [u16; 2], cookie: &[u8]) -> [u8; COOKIE_CODE_BYTES] {
    let [one, other] = ports.map(u16::to_be_bytes);
    let message = [cookie, &one.min(other)[..], &one.max(other)[..]].concat();
    let code = secret.code(b"cookie", &message);
    code[..COOKIE_CODE_BYTES].try_into().expect("it is longer")
}

/// The number in the Random parameter of the end that has chosen this tag (RFC 4895 section 3.1).
fn random_number(secret: &Secret, tag: u32) -> [u8; 32] {
    secret.code(b"random", &tag.to_be_bytes())
}

/// The code of an AUTH chunk over the bytes that it signs, in which the code's own place is zero (RFC 4895
/// section 6.2).
pub(super) fn chunk_code(hmac: Hmac, key: &[u8], signed: &[u8]) -> Vec<u8> {
    match hmac {
        Hmac::Sha1 => keyed::<HmacSha1>(key, signed).finalize().into_bytes().to_vec(),
        Hmac::Sha256 => keyed::<HmacSha256>(key, signed).finalize().into_bytes().to_vec(),
    }
}

/// Whether the code of an AUTH chunk is right; the time does not depend on which byte is wrong.
pub(super) fn is_genuine(hmac: Hmac, key: &[u8], signed: &[u8], code: &[u8]) -> bool {
    match hmac {
        Hmac::Sha1 => keyed::<HmacSha1>(key, signed).verify_slice(code).is_ok(),
        Hmac::Sha256 => keyed::<HmacSha256>(key, signed).verify_slice(code).is_ok(),
    }
}

type HmacSha1 = hmac::Hmac<Sha1>;
type HmacSha256 = hmac::Hmac<Sha256>;

fn keyed<M: Mac + KeyInit>(key: &[u8], signed: &[u8]) -> M {
    let mut code = <M as KeyInit>::new_from_slice(key).expect("any length is a key");
    code.update(signed);
    code
}

/// The same for the code of a State Cookie: whether it is the one that this end makes.
pub(super) fn is_own_cookie(secret: &Secret, ports: [u16; 2], cookie: &[u8], code: &[u8]) -> bool {
    let right = cookie_code(secret, ports, cookie);
    code.len() == right.len() && right.iter().zip(code).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

/// The key vector of an end: its Random, Chunk List and Requested HMAC Algorithm parameters as they are in
/// the INIT or INIT ACK that a packet begins with (RFC 4895 section 6.1); [`None`] if they are missing.
pub fn key_vector(packet: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader(packet.get(12..)?);
    let kind = reader.u8()?;
    if ![chunk::INIT, chunk::INIT_ACK].contains(&kind) {
        return None;
    }
    reader.u8()?;
    let length = usize::from(reader.u16()?);
    let mut parameters = Reader(reader.take(length.checked_sub(4)?)?);
    parameters.take(16)?;
    let mut vector = [parameter::RANDOM, parameter::CHUNK_LIST, parameter::HMAC_ALGORITHMS].map(|_| None);
    while let Some((kind, whole)) = next_whole(&mut parameters) {
        let place = match kind {
            parameter::RANDOM => 0,
            parameter::CHUNK_LIST => 1,
            parameter::HMAC_ALGORITHMS => 2,
            _ => continue,
        };
        vector[place] = Some(whole);
    }
    let [random, chunks, algorithms] = vector;
    Some([random?, chunks?, algorithms?].concat())
}

/// The association's key, made from both ends' key vectors (RFC 4895 section 6.1): the one that is smaller as
/// a number comes first. A secret that the users share comes before both.
pub fn association_key(one: &[u8], other: &[u8]) -> Vec<u8> {
    let number =
        |vector: &[u8]| -> Vec<u8> { vector.iter().copied().skip_while(|&byte| byte == 0).collect() };
    let (a, b) = (number(one), number(other));
    let order = a.len().cmp(&b.len()).then_with(|| a.cmp(&b)).then_with(|| one.len().cmp(&other.len()));
    if order.is_le() { [one, other].concat() } else { [other, one].concat() }
}

/// Checks the signature of a packet (RFC 4895 section 6.3). `value` is that of the AUTH chunk with which
/// `signed` begins.
pub(super) fn check_signature(
    value: &[u8],
    signed: &[u8],
    receiving: &impl SctpReceiving,
) -> Result<Hmac, Malformed> {
    let mut reader = Reader(value);
    let (shared_key, algorithm) = (reader.u16(), reader.u16());
    let algorithm = algorithm.and_then(Hmac::of).filter(|hmac| reader.0.len() == hmac.bytes());
    let Some(hmac) = algorithm.filter(|_| shared_key == Some(0)) else {
        return Err(malformed("an AUTH chunk is signed in a way that was not agreed on"));
    };
    let key = receiving.association_key().ok_or(malformed("an AUTH chunk without an association"))?;
    let mut blank = signed.to_vec();
    blank[8..8 + hmac.bytes()].fill(0);
    if is_genuine(hmac, key, &blank, reader.0) {
        Ok(hmac)
    } else {
        Err(malformed("an AUTH chunk is not genuine"))
    }
}
