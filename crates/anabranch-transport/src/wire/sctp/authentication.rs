//! What is signed: State Cookies by the end that made them (RFC 9260 section 5.1.3), chunks by both ends (RFC
//! 4895).

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use super::codes::{chunk, parameter};
use crate::wire::bytes::{Reader, Secret};

/// Bytes of the code that a State Cookie ends with.
pub(super) const COOKIE_CODE_BYTES: usize = 20;
/// Bytes of the HMAC of an AUTH chunk: SHA-1's (RFC 4895 section 4.1).
pub(super) const CHUNK_CODE_BYTES: usize = 20;
/// The identifier of HMAC-SHA-1, which all ends have (RFC 4895 section 8.4).
pub(super) const HMAC_SHA_1: u16 = 1;

/// The code of a State Cookie: HMAC-SHA-256, cut to its length. The ports, in either order, are signed with
/// it: a cookie is good between those for which it was made only (RFC 9260 section 5.1.5 step 2).
pub(super) fn cookie_code(secret: &Secret, ports: [u16; 2], cookie: &[u8]) -> [u8; COOKIE_CODE_BYTES] {
    let [one, other] = ports.map(u16::to_be_bytes);
    let message = [cookie, &one.min(other)[..], &one.max(other)[..]].concat();
    let code = secret.code(b"cookie", &message);
    code[..COOKIE_CODE_BYTES].try_into().expect("it is longer")
}

/// The Random parameter's number of the end that has chosen this tag (RFC 4895 section 3.1).
pub(super) fn random_number(secret: &Secret, tag: u32) -> [u8; 32] {
    secret.code(b"random", &tag.to_be_bytes())
}

/// The code of an AUTH chunk over what it signs, in which its own place is zero (RFC 4895 section 6.2).
pub(super) fn chunk_code(key: &[u8], signed: &[u8]) -> [u8; CHUNK_CODE_BYTES] {
    let mut code = Hmac::<Sha1>::new_from_slice(key).expect("any length is a key");
    code.update(signed);
    code.finalize().into_bytes().into()
}

/// Whether the code of an AUTH chunk is right; takes as long whichever byte is wrong.
pub(super) fn is_genuine(key: &[u8], signed: &[u8], code: &[u8]) -> bool {
    let mut right = Hmac::<Sha1>::new_from_slice(key).expect("any length is a key");
    right.update(signed);
    right.verify_slice(code).is_ok()
}

/// The same for the code of a State Cookie.
pub(super) fn is_own_cookie(secret: &Secret, ports: [u16; 2], cookie: &[u8], code: &[u8]) -> bool {
    let right = cookie_code(secret, ports, cookie);
    code.len() == right.len() && right.iter().zip(code).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

/// The key vector of an end: its Random, Chunk List and Requested HMAC Algorithm parameters as they are in
/// the INIT or INIT ACK that a packet begins with (RFC 4895 section 6.1); none if it is not there.
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
    while let Some((kind, whole)) = next_parameter(&mut parameters) {
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

/// The next parameter: its type, and the whole of it without padding.
fn next_parameter<'a>(reader: &mut Reader<'a>) -> Option<(u16, &'a [u8])> {
    let all = reader.0;
    let kind = reader.u16()?;
    let length = usize::from(reader.u16()?);
    let whole = all.get(..length).filter(|_| length >= 4)?;
    reader.0 = all.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, whole))
}

/// The association's key, of both ends' key vectors without a shared secret of their users (RFC 4895 section
/// 6.1): the smaller one first, as a number.
pub fn association_key(one: &[u8], other: &[u8]) -> Vec<u8> {
    let number =
        |vector: &[u8]| -> Vec<u8> { vector.iter().copied().skip_while(|&byte| byte == 0).collect() };
    let (a, b) = (number(one), number(other));
    let order = a.len().cmp(&b.len()).then_with(|| a.cmp(&b)).then_with(|| one.len().cmp(&other.len()));
    if order.is_le() { [one, other].concat() } else { [other, one].concat() }
}
