//! Corrects checksums and signatures, so that the code behind their checks is reached.

use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;

use crate::world::World;
use anabranch_transport::wire::sctp::context::SctpSending as _;

/// An SCTP packet: AUTH chunks and the checksum.
pub fn sctp(packet: &mut [u8], world: &World) {
    let mut at = 12;
    while let Some(&[kind, _, high, low]) = packet.get(at..at + 4) {
        let length = usize::from(high) << 8 | usize::from(low);
        // With HMAC-SHA-1, or HMAC-SHA-256.
        if kind == 15 && [28, 40].contains(&length) && packet.len() >= at + length {
            packet[at + 8..at + length].fill(0);
            let signed = &packet[at..];
            let code = if length == 28 {
                code::<Hmac<Sha1>>(world.association_key(), signed)
            } else {
                code::<Hmac<Sha256>>(world.association_key(), signed)
            };
            packet[at + 8..at + length].copy_from_slice(&code);
            break;
        }
        at += length.max(4).next_multiple_of(4);
    }
    if packet.len() >= 12 {
        packet[8..12].fill(0);
        let checksum = crc32c::crc32c(packet);
        packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn code<M: Mac + KeyInit>(key: &[u8], signed: &[u8]) -> Vec<u8> {
    let mut code = <M as KeyInit>::new_from_slice(key).expect("any length is a key");
    code.update(signed);
    code.finalize().into_bytes().to_vec()
}

/// A packet whose checksum is the Internet's and stands there (RFC 1071).
pub fn internet(packet: &mut [u8], place: usize, addresses: [IpAddr; 2], protocol: u8) {
    if packet.len() < place + 2 {
        return;
    }
    packet[place..place + 2].fill(0);
    let mut sum = u64::from(protocol) + packet.len() as u64;
    for address in addresses {
        match address {
            IpAddr::V4(address) => sum += words(&address.octets()),
            IpAddr::V6(address) => sum += words(&address.octets()),
        }
    }
    put(packet, place, sum);
}

/// A message whose checksum covers nothing else.
pub fn plain(packet: &mut [u8], place: usize) {
    if packet.len() >= place + 2 {
        packet[place..place + 2].fill(0);
        put(packet, place, 0);
    }
}

/// Options of TCP: the codes of addresses that MPTCP announces (RFC 8684 section 3.4.1).
pub fn address_codes(options: &mut [u8], world: &World) {
    let mut at = 0;
    while let Some(&[kind, length]) = options.get(at..at + 2) {
        let length = usize::from(length);
        if kind != 30 || length < 3 || at + length > options.len() {
            return;
        }
        let option = &mut options[at..at + length];
        // Subtype 3 without the flag of an echo: identifier, address, perhaps a port, and the code.
        if option[2] == 0x30 && length >= 16 {
            let (said, code) = option.split_at_mut(length - 8);
            let mut message = said[3..].to_vec();
            if matches!(said.len(), 8 | 20) {
                message.extend([0, 0]);
            }
            let keys = world.keys.map(u64::to_be_bytes);
            let mut right = Hmac::<Sha256>::new_from_slice(keys.as_flattened()).expect("any length is a key");
            right.update(&message);
            code.copy_from_slice(&right.finalize().into_bytes()[24..]);
        }
        at += length;
    }
}

/// The header of IPv4.
pub fn ipv4_header(header: &mut [u8]) {
    header[10..12].fill(0);
    put(header, 10, 0);
}

fn put(packet: &mut [u8], place: usize, sum: u64) {
    let mut sum = sum + words(packet);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let checksum = match !(sum as u16) {
        // RFC 768: as zero means that there is none.
        0 => u16::MAX,
        checksum => checksum,
    };
    packet[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

fn words(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low))).sum()
}
