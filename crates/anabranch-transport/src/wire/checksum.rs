//! The Internet checksum (RFC 1071): of IP's header, TCP, UDP, ICMP and MPTCP's mappings.
//!
//! It adds eight bytes at a time, in two sums that do not wait for each other. Over 1,500 B it takes a third
//! of the time of etherparse's sum, whose carry goes around with every word (`benches/wire.rs`).

use std::net::IpAddr;

/// A sum of 16-bit words in the byte order of this machine, which does not matter (section 2 B).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// What the checksum of a transport covers besides its own bytes (RFC 9293 section 3.1, RFC 8200 section
    /// 8.1).
    pub(super) fn pseudo_header([source, destination]: [IpAddr; 2], protocol: u8, length: usize) -> Self {
        let sum = [source, destination].into_iter().fold(Self::default(), |sum, address| match address {
            IpAddr::V4(address) => sum.bytes(&address.octets()),
            IpAddr::V6(address) => sum.bytes(&address.octets()),
        });
        sum.bytes(&[0, protocol]).bytes(&(length as u32).to_be_bytes())
    }

    /// Adds bytes of which the first is at an even place. If their number is odd, they must be the last ones
    /// to be added.
    #[must_use]
    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let (mut low, mut high) = (0, 0);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_ne_bytes(*word);
            low += word & 0xffff_ffff;
            high += word >> 32;
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = u64::from_ne_bytes(last);
        // A packet of 64 KiB reaches at most 2^45.
        Self(self.0 + low + high + (last & 0xffff_ffff) + (last >> 32))
    }

    /// The checksum. Over data that contains its own checksum, it is 0 if that is right.
    pub(super) fn checksum(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::from_be(!sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071 section 3.
    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).checksum(), !0xddf2);
        let whole = Sum::default().bytes(&bytes).bytes(&(!0xddf2u16).to_be_bytes());
        assert_eq!(whole.checksum(), 0);
    }

    /// For any length it is the sum of words with end-around carry.
    #[test]
    fn any_length() {
        let bytes: Vec<u8> = (0..70_000u32).map(|at| (at.wrapping_mul(at) >> 3) as u8 | 0x80).collect();
        for length in (0..100).chain([1_499, 1_500, 65_535]) {
            let part = &bytes[..length];
            let words = part
                .chunks(2)
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
            let sum = words.fold(0u32, |sum, word| {
                let sum = sum + word;
                (sum & 0xffff) + (sum >> 16)
            });
            assert_eq!(Sum::default().bytes(part).checksum(), !(sum as u16), "{length}");
        }
    }
}
