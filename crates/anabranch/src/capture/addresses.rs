//! The addresses of a capture. Every end of every link has one: 10.L.0.1 and 10.L.0.2 at link L, over IPv6
//! `2001:db8:L::1` and `2001:db8:L::2`.
//!
//! A reader would take two flows between the same addresses for one. So each further flow between the same
//! ends has the next pair, 10.L.1.1 and 10.L.1.2 and so on, as if its hosts had several addresses there.
//! Where there are more than 256 links, or more than 256 flows between the same ends, the rest are numbered
//! from 100.64.0.1 on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_transport::flow::IpVersion;
use indexmap::{IndexMap, IndexSet};

use crate::scenario::{FlowConfig, PathConfig, Scenario};

/// One end of a link: the link's number, and 0 or 1.
type End = (u32, u32);

/// The addresses of sides A and B on each path.
pub(super) type OfFlow = Vec<[IpAddr; 2]>;

/// The first address for ends that have no room elsewhere.
const MORE: u32 = Ipv4Addr::new(100, 64, 0, 0).to_bits();

/// The addresses of each flow.
pub(super) fn of_flows(scenario: &Scenario) -> Vec<OfFlow> {
    let mut aliases = IndexMap::new();
    let mut book = Book::default();
    let flows = scenario.flows.values().map(|flow| {
        let mut alias = 0;
        let paths = flow.paths.iter().map(|path| {
            let [a, b] = ends(scenario, flow, &scenario.paths[path]);
            // The first pair between these two ends, in either direction, that is free, and none before that
            // of the path before.
            let free = aliases.entry((a.min(b), a.max(b), flow.ip)).or_insert(0);
            alias = alias.max(*free);
            *free = alias + 1;
            [a, b].map(|end| book.address(end, alias, flow.ip))
        });
        paths.collect()
    });
    flows.collect()
}

/// An address that a NAT gives an end in place of its own, the `host`-th; 0 is its own.
pub(super) fn behind_nat(own: IpAddr, host: u8) -> IpAddr {
    // The last byte of an end's own address is 1 or 2.
    let further = u32::from(host) * 2;
    match own {
        IpAddr::V4(own) => Ipv4Addr::from_bits(own.to_bits() + further).into(),
        IpAddr::V6(own) => Ipv6Addr::from_bits(own.to_bits() + u128::from(further)).into(),
    }
}

/// The name of each address.
pub(super) fn names(scenario: &Scenario) -> Vec<(IpAddr, String)> {
    let mut names = Vec::new();
    let mut known = IndexSet::new();
    for (flow, addresses) in scenario.flows.values().zip(of_flows(scenario)) {
        for (path, pair) in flow.paths.iter().zip(addresses) {
            for (node, address) in [&flow.from, &flow.to].into_iter().zip(pair) {
                if known.insert(address) {
                    names.push((address, format!("{node}.{path}")));
                }
            }
            let rebound = flow.addresses.iter().filter(|change| change.rebind_address.as_ref() == Some(path));
            for host in 1..=rebound.count().min(usize::from(u8::MAX)) as u8 {
                let address = behind_nat(pair[0], host);
                if known.insert(address) {
                    names.push((address, format!("{}.{path}", flow.from)));
                }
            }
        }
    }
    names
}

/// The ends of links at which a path has its hosts.
fn ends(scenario: &Scenario, flow: &FlowConfig, path: &PathConfig) -> [End; 2] {
    let end = |link: Option<&String>, node: &str| {
        let link = link.expect("a path has links");
        let (index, _, config) = scenario.links.get_full(link).expect("the path has been followed");
        (index as u32, u32::from(config.ends[0] != node))
    };
    [end(path.via.first(), &flow.from), end(path.via.last(), &flow.to)]
}

/// The addresses that have been given out of the usual form.
#[derive(Default)]
struct Book {
    /// Ends whose addresses are numbered from [`MORE`] on, each with which of its addresses it is.
    beyond: IndexSet<(End, u32)>,
}

impl Book {
    /// The address of a link's end; `alias` says which of those that the end has.
    fn address(&mut self, end: End, alias: u32, ip: IpVersion) -> IpAddr {
        let (link, side) = end;
        match ip {
            IpVersion::Ipv4 if link < 256 && alias < 256 => {
                Ipv4Addr::new(10, link as u8, alias as u8, side as u8 + 1).into()
            }
            IpVersion::Ipv4 => {
                let (number, _) = self.beyond.insert_full((end, alias));
                Ipv4Addr::from_bits(MORE + 1 + number as u32).into()
            }
            IpVersion::Ipv6 => {
                let (link, alias) = (link as u16, alias as u16);
                Ipv6Addr::new(0x2001, 0xdb8, link, alias, 0, 0, 0, side as u16 + 1).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Study;

    fn of(paths: &str) -> Vec<Vec<[String; 2]>> {
        let text = format!(
            r#"
            [links]
            wifi = {{ ends = ["phone", "core"], delay = "5 ms" }}
            lte = {{ ends = ["phone", "core"], delay = "20 ms" }}
            wan = {{ ends = ["core", "server"], delay = "10 ms" }}
            [paths]
            wifi.via = ["wifi", "wan"]
            lte.via = ["lte", "wan"]
            {paths}
            "#
        );
        let study = Study::parse(&text, &[], ".".as_ref()).expect("it is a scenario");
        let text = |addresses: [IpAddr; 2]| addresses.map(|address| address.to_string());
        of_flows(&study.scenario).into_iter().map(|flow| flow.into_iter().map(text).collect()).collect()
    }

    #[test]
    fn every_end_of_a_link_has_one() {
        let flows = of(r#"
            [flows.call]
            from = "phone"
            to = "server"
            paths = ["wifi", "lte"]
            transport.kind = "sctp"
            app.kind = "voip"
        "#);
        assert_eq!(flows, [[["10.0.0.1", "10.2.0.2"], ["10.1.0.1", "10.2.0.2"]]]);
    }

    #[test]
    fn flows_between_the_same_ends_differ() {
        let flows = of(r#"
            [flows.first]
            from = "phone"
            to = "server"
            paths = ["wifi"]
            transport.kind = "tcp"
            app.kind = "bulk"
            [flows.second]
            from = "phone"
            to = "server"
            paths = ["wifi"]
            ip = "ipv6"
            transport.kind = "tcp"
            app.kind = "bulk"
            [flows.third]
            from = "phone"
            to = "server"
            paths = ["wifi", "lte"]
            transport.kind = "mptcp"
            app.kind = "bulk"
        "#);
        assert_eq!(flows[0], [["10.0.0.1", "10.2.0.2"]]);
        assert_eq!(flows[1], [["2001:db8::1", "2001:db8:2::2"]]);
        assert_eq!(flows[2], [["10.0.1.1", "10.2.1.2"], ["10.1.1.1", "10.2.1.2"]]);
    }

    /// Between the same addresses, fragments of one flow would be taken for those of the other, since each
    /// flow counts its own packets.
    #[test]
    fn flows_in_opposite_directions_differ() {
        let flows = of(r#"
            back.via = ["wan", "wifi"]
            [flows.down]
            from = "server"
            to = "phone"
            paths = ["back"]
            transport.kind = "tcp"
            app.kind = "bulk"
            [flows.up]
            from = "phone"
            to = "server"
            paths = ["wifi"]
            transport.kind = "udp"
            app.kind = "voip"
        "#);
        assert_eq!(flows, [[["10.2.0.2", "10.0.0.1"]], [["10.0.1.1", "10.2.1.2"]]]);
    }

    #[test]
    fn there_is_one_for_every_number() {
        let mut book = Book::default();
        let mut all = IndexMap::new();
        for link in [0, 255, 256, 5_000] {
            for alias in [0, 255, 256, 40_000] {
                for side in [0, 1] {
                    let address = book.address((link, side), alias, IpVersion::Ipv4);
                    assert_eq!(address, book.address((link, side), alias, IpVersion::Ipv4));
                    assert_eq!(all.insert(address, (link, alias, side)), None);
                }
            }
        }
    }
}
