//! Reads the headers of a real program's packet.

use std::net::IpAddr;

use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::fnv1a;
use anabranch_transport::wire::ip::Split;

/// Protocols whose first four bytes are the ports.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// A packet's ECN field, and a hash of its addresses, protocol and ports, by which queues tell flows apart;
/// [`None`] for bytes that are not an IP packet. The ports of fragments are not looked at, so that those of a
/// flow stay together.
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
    use anabranch_transport::wire::ip;

    use super::*;

    /// A datagram of IPv4 between these ports.
    fn datagram(ports: [u8; 4], ecn: Ecn) -> Vec<u8> {
        let payload = [&ports[..], &[0, 40, 0, 0], &[7; 32]].concat();
        let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        ip::wrap(17, addresses, ecn, Some(1), &payload)
    }

    #[test]
    fn flows_differ_by_their_ports() {
        let one = look_at(&datagram([0, 1, 0, 2], Ecn::Ect0)).unwrap();
        let other = look_at(&datagram([0, 1, 0, 3], Ecn::Ect0)).unwrap();
        assert_eq!(one.0, Ecn::Ect0);
        assert_ne!(one.1, other.1);
        assert_eq!(one, look_at(&datagram([0, 1, 0, 2], Ecn::Ect0)).unwrap());
    }

    #[test]
    fn fragments_of_a_flow_stay_together() {
        let packet = datagram([0, 1, 0, 2], Ecn::NotEct);
        let pieces = [(0, 16), (16, 40)].map(|(start, end)| ip::fragment(&packet, start, end));
        let [first, second] = pieces.map(|piece| look_at(&piece).unwrap());
        assert_eq!(first, second);
    }

    #[test]
    fn what_is_no_packet_has_no_flow() {
        for bytes in [&[][..], &[0x45], &[0x60; 12], &[0; 60], &[0xff; 60]] {
            assert_eq!(look_at(bytes), None, "{bytes:?}");
        }
        let mut short = datagram([0, 1, 0, 2], Ecn::NotEct);
        short.truncate(22);
        assert_eq!(look_at(&short), None);
    }
}
