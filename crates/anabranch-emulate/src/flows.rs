//! What a packet of a real program says of itself.

use std::net::IpAddr;

use anabranch_transport::ground::Ecn;
use anabranch_transport::rng::fnv1a;
use anabranch_transport::wire::ip::Split;

/// Protocols whose first four bytes are the ports.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// A packet's ECN field, and a hash of its addresses, protocol and ports, by which queues tell flows apart;
/// none for bytes that are no packet of IP. Of fragments there are no ports, so those of a flow stay together.
pub(crate) fn look_at(bytes: &[u8]) -> Option<(Ecn, u32)> {
    let packet = Split::of(bytes).ok()?;
    let mut key = Vec::with_capacity(37);
    for address in packet.addresses {
        match address {
            IpAddr::V4(address) => key.extend(address.octets()),
            IpAddr::V6(address) => key.extend(address.octets()),
        }
    }
    key.push(packet.protocol);
    if packet.fragment.is_none() && WITH_PORTS.contains(&packet.protocol) {
        key.extend(packet.payload.get(..4)?);
    }
    Some((packet.ecn, fnv1a(&key) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of IPv4 without a checksum.
    fn datagram(ports: [u8; 4], ecn: u8, offset: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, ecn, 0, 28, 0, 1, 0, offset, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend(ports);
        bytes.extend([0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn flows_differ_by_their_ports() {
        let one = look_at(&datagram([0, 1, 0, 2], 2, 0)).unwrap();
        let other = look_at(&datagram([0, 1, 0, 3], 2, 0)).unwrap();
        assert_eq!(one.0, Ecn::Ect0);
        assert_ne!(one.1, other.1);
        assert_eq!(one, look_at(&datagram([0, 1, 0, 2], 2, 0)).unwrap());
    }

    #[test]
    fn fragments_of_a_flow_stay_together() {
        let one = look_at(&datagram([0, 1, 0, 2], 0, 9)).unwrap();
        assert_eq!(one, look_at(&datagram([7, 7, 7, 7], 0, 13)).unwrap());
    }

    #[test]
    fn what_is_no_packet_has_no_flow() {
        for bytes in [&[][..], &[0x45], &[0x60; 12], &[0; 60], &[0xff; 60]] {
            assert_eq!(look_at(bytes), None, "{bytes:?}");
        }
        let mut short = datagram([0, 1, 0, 2], 0, 0);
        short.truncate(22);
        assert_eq!(look_at(&short), None);
    }
}
