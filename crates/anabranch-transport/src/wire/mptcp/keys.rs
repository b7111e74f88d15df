//! Values derived from the keys of a connection (RFC 8684 sections 3.1, 3.2 and 3.4.1).

use std::net::IpAddr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

fn hash(key: u64) -> [u8; 32] {
    Sha256::digest(key.to_be_bytes()).into()
}

/// The token of a connection whose end has this key: the first 32 bits of its hash.
pub fn token_of(key: u64) -> u32 {
    let hash = hash(key);
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// The number of the first byte that an end with this key sends: the one after its initial data sequence
/// number, which is the last 64 bits of the hash.
pub fn first_data_sequence(key: u64) -> u64 {
    let hash = hash(key);
    u64::from_be_bytes(hash[24..].try_into().expect("eight bytes")).wrapping_add(1)
}

/// The HMAC with which an end proves that it has both keys; its own key and nonce come first.
pub fn join_code(keys: [u64; 2], nonces: [u32; 2]) -> [u8; 20] {
    let code = code(keys, nonces.map(u32::to_be_bytes).as_flattened());
    code[..20].try_into().expect("it is longer")
}

/// As much of [`join_code`] as the answer to a SYN has room for.
pub fn short_join_code(keys: [u64; 2], nonces: [u32; 2]) -> u64 {
    let code = join_code(keys, nonces);
    u64::from_be_bytes(code[..8].try_into().expect("eight bytes"))
}

/// The code that goes with an announced address and its port, which is 0 if there is none.
pub(super) fn address_code(keys: [u64; 2], identifier: u8, address: IpAddr, port: Option<u16>) -> [u8; 8] {
    let mut message = vec![identifier];
    match address {
        IpAddr::V4(address) => message.extend(address.octets()),
        IpAddr::V6(address) => message.extend(address.octets()),
    }
    message.extend(port.unwrap_or(0).to_be_bytes());
    code(keys, &message)[24..].try_into().expect("eight bytes")
}

/// HMAC-SHA-256 with the sender's key and the receiver's.
fn code(keys: [u64; 2], message: &[u8]) -> [u8; 32] {
    let key = keys.map(u64::to_be_bytes);
    let mut code = Hmac::<Sha256>::new_from_slice(key.as_flattened()).expect("any length is a key");
    code.update(message);
    code.finalize().into_bytes().into()
}
