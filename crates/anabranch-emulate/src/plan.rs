//! The nodes of an emulation, with their addresses and devices.
//!
//! Path P of the scenario, counted from 0, is a network of its own: 10.177.0.0 + 4 P with 30 bits of IPv4,
//! and `fd61:6e61:P::` with 126 bits of IPv6, where the paths' MTU carries IPv6 at all. Its side `a` has the
//! first address there, side `b` the second.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch::sim::EmulatedPath;
use anabranch_transport::flow::Side;

use crate::veth::{CARRIER_ADDRESS, NODE_ADDRESS};

/// All nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The nodes, in the order in which paths name them.
    pub nodes: Vec<Node>,
}

/// A node: an end of one path or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name in the scenario.
    pub name: String,
    /// Its interfaces, one for each path, in their order.
    pub interfaces: Vec<Interface>,
}

/// A device of a node, at one end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The number of the path.
    pub path: usize,
    /// The path's name.
    pub path_name: String,
    /// The side of the path that is here.
    pub side: Side,
    /// The device's name.
    pub device: String,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The node at the other end.
    pub peer: String,
    /// The addresses here, IPv4 first.
    pub own: Vec<IpAddr>,
    /// The addresses at the other end.
    pub remote: Vec<IpAddr>,
}

/// The smallest MTU that carries IPv6, in bytes (RFC 8200 section 5).
const LEAST_MTU_OF_IPV6: u32 = 1280;

/// The most paths: their numbers have 14 bits in the addresses.
const MAX_PATHS: usize = 1 << 14;

/// Routing tables of interfaces are numbered from here on.
const FIRST_TABLE: usize = 1000;

/// Packets from programs that wait in a device until the loop runs: the most packets that the device carries
/// in a second, for 70 ms.
const DEVICE_QUEUE: usize = 10_000;

/// The most bytes of a device's name (IFNAMSIZ).
const LONGEST_NAME: usize = 15;

impl Plan {
    /// The plan for these paths.
    ///
    /// # Errors
    /// When there are too many.
    pub fn new(paths: &[EmulatedPath]) -> Result<Self, String> {
        if paths.len() > MAX_PATHS {
            return Err(format!(
                "paths: {} paths are too many to emulate; at most {MAX_PATHS} are",
                paths.len()
            ));
        }
        let mut plan = Self { nodes: Vec::new() };
        for (number, path) in paths.iter().enumerate() {
            for side in [Side::A, Side::B] {
                let [own, remote] = [side, side.peer()].map(|side| addresses(number, side, path.mtu));
                let interface = Interface {
                    path: number,
                    path_name: path.name.clone(),
                    side,
                    device: device(&path.name, number),
                    mtu: path.mtu,
                    peer: path.ends[side.peer().index()].clone(),
                    own,
                    remote,
                };
                plan.node_mut(&path.ends[side.index()]).interfaces.push(interface);
            }
        }
        Ok(plan)
    }

    /// The numbers of the paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = usize> {
        0..self.nodes.iter().map(|node| node.interfaces.len()).sum::<usize>() / 2
    }

    /// Checks that programs can find each node by its name.
    ///
    /// # Errors
    /// A sentence about the first name that is none of a host.
    pub(crate) fn check_hosts(&self) -> Result<(), String> {
        let mut seen: BTreeMap<String, &str> = BTreeMap::new();
        for Node { name, .. } in &self.nodes {
            if !is_host(name) {
                return Err(format!(
                    "node `{name}`: programs find it by this name, so it must be one of a host: at most \
                     {LONGEST_HOST} letters, digits, `-`, `_` and `.`, the first and the last a letter or a digit, \
                     and neither an address nor `localhost`"
                ));
            }
            if let Some(other) = seen.insert(name.to_ascii_lowercase(), name) {
                return Err(format!("nodes `{other}` and `{name}`: they are the same name of a host"));
            }
        }
        Ok(())
    }

    fn node_mut(&mut self, name: &str) -> &mut Node {
        let index = self.nodes.iter().position(|node| node.name == name).unwrap_or_else(|| {
            self.nodes.push(Node { name: name.to_owned(), interfaces: Vec::new() });
            self.nodes.len() - 1
        });
        &mut self.nodes[index]
    }
}

/// The most bytes of a host's name; `NODE.PATH` is one, too (RFC 1123 section 2.1).
const LONGEST_HOST: usize = 63;

/// Whether programs would look this up as the name of a host (RFC 952, RFC 1123 section 2.1), with `_`, which
/// the C library takes in `/etc/hosts`.
fn is_host(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let has_ends = [name.chars().next(), name.chars().next_back()]
        .iter()
        .all(|end| end.is_some_and(|end| end.is_ascii_alphanumeric()));
    // inet_aton takes from one to four numbers, also hexadecimal ones, as an address.
    let is_number = |part: &str| {
        let hexadecimal = part.strip_prefix("0x").or(part.strip_prefix("0X"));
        part.chars().all(|c| c.is_ascii_digit())
            || hexadecimal.is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_hexdigit()))
    };
    let is_local = |part: &str| part.eq_ignore_ascii_case("localhost");
    name.len() <= LONGEST_HOST
        && name.chars().all(is_fine)
        && has_ends
        && !name.contains("..")
        && !name.split('.').all(is_number)
        && !name.rsplit('.').next().is_some_and(is_local)
        && !name.split('.').next().is_some_and(is_local)
}

fn addresses(path: usize, side: Side, mtu: u32) -> Vec<IpAddr> {
    let host = side.index() as u16 + 1;
    let has_v6 = mtu >= LEAST_MTU_OF_IPV6;
    [Some(v4(path, host).into()), has_v6.then(|| v6(path, host).into())].into_iter().flatten().collect()
}

fn v4(path: usize, host: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 177, 0, 0).to_bits() + 4 * path as u32 + u32::from(host))
}

fn v6(path: usize, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd61, 0x6e61, path as u16, 0, 0, 0, 0, host)
}

/// The name of a path's devices, which is that of the path if the kernel takes it.
fn device(path: &str, number: usize) -> String {
    // These names mean something else to the kernel, or to `ip`, or may be those of other paths.
    let is_numbered = path.strip_prefix("path").is_some_and(|rest| rest.parse::<usize>().is_ok());
    let is_taken = ["lo", "all", "default", "dev"].contains(&path) || path.starts_with('-') || is_numbered;
    if path.len() <= LONGEST_NAME && !is_taken { path.to_owned() } else { format!("path{number}") }
}

/// The networks of paths whose numbers differ in their last bits alone.
struct Network {
    block: Block,
    is_v4: bool,
}

impl Network {
    const fn is_ipv4(&self) -> bool {
        self.is_v4
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Block { first, bits } = self.block;
        if self.is_v4 {
            write!(f, "{}/{}", v4(first, 0), 30 - bits)
        } else {
            write!(f, "{}/{}", v6(first, 0), 48 - bits)
        }
    }
}

/// The numbers from `first` on that differ from it in their last `bits` bits alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: usize,
    bits: u32,
}

/// The fewest blocks that have exactly these numbers, which ascend.
fn blocks(numbers: &[usize]) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    for &first in numbers {
        let mut last = Block { first, bits: 0 };
        // Two blocks of one size that begin a larger one are that.
        while let Some(before) = found.last()
            && before.bits == last.bits
            && before.first % (2 << last.bits) == 0
            && before.first + (1 << last.bits) == last.first
        {
            last = Block { first: before.first, bits: last.bits + 1 };
            found.pop();
        }
        found.push(last);
    }
    found
}

impl Interface {
    /// The name of the emulator's end of the device, if that is one of a pair.
    pub(crate) fn outer(&self) -> String {
        format!("{}{}", self.path, ["a", "b"][self.side.index()])
    }

    /// The words for `ip link set` that stop the kernel from sending packets of its own and from resolving
    /// hardware addresses.
    fn quiet(&self) -> String {
        // A device without IPv6 has no link-local addresses, and their modes mean nothing to it.
        let has_v6 = self.own.iter().any(IpAddr::is_ipv6);
        let addresses = if has_v6 { " addrgenmode none" } else { "" };
        format!("arp off multicast off{addresses}")
    }
}

impl Node {
    /// The commands for `ip -4 -batch -` and then `ip -6 -batch -`: addresses, and rules by which packets
    /// from an address leave by its path, whichever address of the other node they go to.
    pub(crate) fn batches(&self) -> [String; 2] {
        let mut batches = [self.devices_batch(), String::new()];
        let networks = self.networks();
        for (number, Interface { device, own, peer, .. }) in self.interfaces.iter().enumerate() {
            let table = FIRST_TABLE + number;
            let networks = &networks[peer.as_str()];
            for address in own {
                let batch = &mut batches[usize::from(address.is_ipv6())];
                let mut line = |words: std::fmt::Arguments<'_>| {
                    let _ = writeln!(batch, "{words}");
                };
                let (bits, no_detection) = if address.is_ipv4() { (30, "") } else { (126, " nodad") };
                line(format_args!("address add {address}/{bits} dev {device}{no_detection}"));
                line(format_args!("rule add from {address} table {table}"));
                for network in networks.iter().filter(|network| network.is_ipv4() == address.is_ipv4()) {
                    line(format_args!("route add {network} dev {device} table {table}"));
                }
            }
        }
        batches
    }

    /// The networks of the paths to each other node, as few as hold all of them and no other: neighbours are
    /// one, so that a node with many paths has few routes for each.
    fn networks(&self) -> BTreeMap<&str, Vec<Network>> {
        let mut paths: BTreeMap<&str, Vec<&Interface>> = BTreeMap::new();
        for interface in &self.interfaces {
            paths.entry(&interface.peer).or_default().push(interface);
        }
        let of_peer = |interfaces: Vec<&Interface>| {
            let numbers = |is_v4: bool| {
                let has = |interface: &&&Interface| interface.own.iter().any(|own| own.is_ipv4() == is_v4);
                interfaces.iter().filter(has).map(|interface| interface.path).collect::<Vec<_>>()
            };
            let of_version =
                |is_v4| blocks(&numbers(is_v4)).into_iter().map(move |block| Network { block, is_v4 });
            [true, false].into_iter().flat_map(of_version).collect()
        };
        paths.into_iter().map(|(peer, interfaces)| (peer, of_peer(interfaces))).collect()
    }

    fn devices_batch(&self) -> String {
        let mut batch = String::from("link set dev lo up\n");
        for interface in &self.interfaces {
            let Interface { device, mtu, .. } = interface;
            let quiet = interface.quiet();
            let _ = writeln!(batch, "link set dev {device} mtu {mtu} txqueuelen {DEVICE_QUEUE} {quiet}");
            let _ = writeln!(batch, "link set dev {device} up");
        }
        batch
    }

    /// The commands for `ip -batch -` that make the node's devices as veth, whose other ends
    /// ([`Interface::outer`]) are in the network of the file `outside`. These ends come up before the node's
    /// own.
    pub(crate) fn veth_batch(&self, outside: &str) -> String {
        let address = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
        let [here, there] = [NODE_ADDRESS, CARRIER_ADDRESS].map(address);
        let mut batch = String::new();
        for interface in &self.interfaces {
            let Interface { device, mtu, .. } = interface;
            let outer = interface.outer();
            let peer = format!("peer name {outer} address {there} mtu {mtu} netns {outside}");
            let _ = writeln!(batch, "link add name {device} address {here} mtu {mtu} type veth {peer}");
        }
        batch
    }

    /// The commands for `ip` in that network.
    pub(crate) fn outer_batch(&self) -> String {
        let up =
            |end: &Interface| format!("link set dev {} {}\nlink set dev {0} up\n", end.outer(), end.quiet());
        self.interfaces.iter().map(up).collect()
    }

    /// Lines for `/etc/hosts`: each node that a path leads to, by its addresses on the first path there, and
    /// `NODE.PATH` for each path; this node by its first addresses.
    pub(crate) fn hosts(&self) -> String {
        let mut lines = String::new();
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for Interface { path_name, peer, own, remote, .. } in &self.interfaces {
            for (name, addresses) in [(&self.name, own), (peer, remote)] {
                // A testbed's flows need no names.
                if !is_host(name) {
                    continue;
                }
                let is_first = named.insert(name);
                for address in addresses {
                    let plain = if is_first { format!("{name} ") } else { String::new() };
                    let _ = writeln!(lines, "{address} {plain}{name}.{path_name}");
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str, from: &str, to: &str, mtu: u32) -> EmulatedPath {
        EmulatedPath { name: name.into(), ends: [from.into(), to.into()], mtu }
    }

    #[test]
    fn each_path_has_a_network_of_its_own() {
        let paths = [
            path("wifi", "phone", "server", 1500),
            path("lte", "server", "phone", 1000),
            path("a-path-with-a-long-name", "phone", "desk", 1400),
        ];
        let Plan { nodes } = Plan::new(&paths).unwrap();
        let names: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.interfaces.len())).collect();
        assert_eq!(names, [("phone", 3), ("server", 2), ("desk", 1)]);
        assert_eq!(
            nodes[0].hosts(),
            "10.177.0.1 phone phone.wifi\nfd61:6e61::1 phone phone.wifi\n\
             10.177.0.2 server server.wifi\nfd61:6e61::2 server server.wifi\n\
             10.177.0.6 phone.lte\n10.177.0.5 server.lte\n\
             10.177.0.9 phone.a-path-with-a-long-name\nfd61:6e61:2::1 phone.a-path-with-a-long-name\n\
             10.177.0.10 desk desk.a-path-with-a-long-name\nfd61:6e61:2::2 desk desk.a-path-with-a-long-name\n"
        );
        let batch = nodes[0].batches().concat();
        for line in [
            "link set dev lte mtu 1000 txqueuelen 10000 arp off multicast off",
            "link set dev wifi mtu 1500 txqueuelen 10000 arp off multicast off addrgenmode none",
            "address add 10.177.0.1/30 dev wifi",
            "address add fd61:6e61::1/126 dev wifi nodad",
            "rule add from 10.177.0.6 table 1001",
            "route add 10.177.0.0/29 dev lte table 1001",
            "route add 10.177.0.0/29 dev wifi table 1000",
            "route add fd61:6e61::/48 dev wifi table 1000",
            "route add 10.177.0.8/30 dev path2 table 1002",
            "route add fd61:6e61:2::/48 dev path2 table 1002",
            "link set dev path2 up",
            "rule add from fd61:6e61:2::1 table 1002",
        ] {
            assert!(batch.lines().any(|other| other == line), "{line} is not in\n{batch}");
        }
        assert!(!batch.contains("10.177.0.8/30 dev wifi"), "no path of it leads there");
        assert!(!batch.contains("::/48 dev lte"), "it carries no IPv6");
        assert_eq!(
            nodes[1].veth_batch("/n"),
            "link add name wifi address 02:61:6e:61:00:01 mtu 1500 type veth \
             peer name 0b address 02:61:6e:61:00:02 mtu 1500 netns /n\n\
             link add name lte address 02:61:6e:61:00:01 mtu 1000 type veth \
             peer name 1a address 02:61:6e:61:00:02 mtu 1000 netns /n\n"
        );
        assert_eq!(
            nodes[2].outer_batch(),
            "link set dev 2a arp off multicast off addrgenmode none\nlink set dev 2a up\n"
                .replace("2a", "2b")
        );
    }

    #[test]
    fn there_are_only_so_many_addresses() {
        let paths = vec![path("p", "a", "b", 1500); MAX_PATHS + 1];
        assert!(Plan::new(&paths).unwrap_err().contains("16385 paths are too many"));
        assert!(Plan::new(&paths[1..]).is_ok());
    }

    #[test]
    fn blocks_have_the_numbers_and_no_others() {
        for subset in 0_u32..1 << 12 {
            let numbers: Vec<usize> = (0..12).filter(|number| subset >> number & 1 == 1).collect();
            let found = blocks(&numbers);
            let all: Vec<usize> =
                found.iter().flat_map(|&Block { first, bits }| first..first + (1 << bits)).collect();
            assert_eq!(all, numbers);
            for &Block { first, bits } in &found {
                assert_eq!(first % (1 << bits), 0, "{numbers:?}");
                // None could be larger.
                assert!(!found.contains(&Block { first: first ^ (1 << bits), bits }), "{numbers:?}");
            }
        }
    }

    #[test]
    fn a_node_with_many_paths_has_routes_in_proportion() {
        let count = |paths: usize| {
            let paths: Vec<_> = (0..paths).map(|path_| path(&format!("p{path_}"), "a", "b", 1500)).collect();
            Plan::new(&paths).unwrap().nodes[0].batches().concat().lines().count()
        };
        let (few, many) = (count(160), count(4096));
        assert!(few <= 160 * 11, "{few}");
        assert!(many <= 4096 * 11, "{many}");
    }

    #[test]
    fn programs_find_nodes_by_their_names() {
        let check = |names: [&str; 2]| {
            Plan::new(&[path("p", names[0], names[1], 1500)]).and_then(|plan| plan.check_hosts())
        };
        for name in
            ["phone", "Phone-2", "a_b", "host.example", "5g", "0x", "b".repeat(63).as_str(), "1.phone"]
        {
            assert_eq!(check([name, "b"]), Ok(()), "{name}");
        }
        for name in [
            "",
            "a b",
            "a\n127.0.0.1 evil",
            "a\tb",
            "#a",
            "-a",
            ".a",
            "a.",
            "a..b",
            "ä",
            "$a",
            "localhost",
            "LocalHost",
            "localhost.localdomain",
            "a.localhost",
            "1",
            "10.177.0.1",
            "0x7f.1",
            "1.2.3",
            "b".repeat(64).as_str(),
        ] {
            let message = check(["a", name]).unwrap_err();
            assert!(
                message.starts_with(&format!("node `{name}`: programs find it by this name")),
                "{message}"
            );
            // A testbed has such nodes, and writes nothing of them to the file of hosts.
            let plan = Plan::new(&[path("p", "a", name, 1500)]).unwrap();
            assert_eq!(plan.nodes[0].hosts(), "10.177.0.1 a a.p\nfd61:6e61::1 a a.p\n");
        }
        assert!(check(["phone", "Phone"]).unwrap_err().contains("are the same name of a host"));
    }

    #[test]
    fn names_that_mean_something_else_are_not_given_to_devices() {
        assert_eq!(
            ["lo", "-x", "path5", "wifi"].map(|name| device(name, 4)),
            ["path4", "path4", "path4", "wifi"]
        );
    }
}
