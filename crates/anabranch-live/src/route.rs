//! The addresses that packets of a path go between.

use std::net::IpAddr;

use anabranch_transport::flow::IpVersion;

/// A pair of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The address at this end; unspecified if the system chooses it.
    pub local: IpAddr,
    /// The address at the peer's end.
    pub remote: IpAddr,
    /// The peer's UDP port, if SCTP travels in UDP (RFC 6951).
    pub port: Option<u16>,
}

/// The version of IP of an address.
pub(crate) const fn version(address: IpAddr) -> IpVersion {
    match address {
        IpAddr::V4(_) => IpVersion::Ipv4,
        IpAddr::V6(_) => IpVersion::Ipv6,
    }
}

/// Whether an address can be that of a single host, to which something may be sent.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address == IpAddr::from([255; 4]))
}

/// The address of ours from which packets to `remote` should leave: the one that shares the most leading bits
/// with it, as addresses in one network do. If all are of the other version, or there is none, the system
/// chooses.
pub(crate) fn source_for(locals: &[IpAddr], remote: IpAddr) -> IpAddr {
    let unspecified = match remote {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let same = locals.iter().filter(|local| local.is_ipv4() == remote.is_ipv4());
    same.copied().rev().max_by_key(|local| common_bits(*local, remote)).unwrap_or(unspecified)
}

fn common_bits(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_from_the_address_of_the_same_network() {
        let locals: Vec<IpAddr> =
            ["10.0.1.1", "10.0.2.1", "fd00::1"].map(|text| text.parse().expect("an address")).into();
        for (remote, local) in [
            ("10.0.1.2", "10.0.1.1"),
            ("10.0.2.2", "10.0.2.1"),
            ("192.0.2.1", "10.0.1.1"),
            ("fd00::2", "fd00::1"),
        ] {
            assert_eq!(
                source_for(&locals, remote.parse().expect("an address")),
                local.parse::<IpAddr>().expect("one")
            );
        }
        assert!(source_for(&locals[..2], "fd00::2".parse().expect("an address")).is_unspecified());
    }
}
