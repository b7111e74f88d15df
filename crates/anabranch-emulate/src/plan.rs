//! The nodes of an emulation, with their addresses and devices.
//!
//! Path P of the scenario, counted from 0, is a network of its own: 10.177.0.0 + 4 P with 30 bits of IPv4,
//! and `fd61:6e61:P::` with 126 bits of IPv6, where the paths' MTU carries IPv6 at all. Its side `a` has the
//! first address there, side `b` the second.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch::sim::EmulatedPath;
use anabranch_transport::ground::Side;

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

    fn node_mut(&mut self, name: &str) -> &mut Node {
        let index = self.nodes.iter().position(|node| node.name == name).unwrap_or_else(|| {
            self.nodes.push(Node { name: name.to_owned(), interfaces: Vec::new() });
            self.nodes.len() - 1
        });
        &mut self.nodes[index]
    }
}

fn addresses(path: usize, side: Side, mtu: u32) -> Vec<IpAddr> {
    let host = side.index() as u32 + 1;
    let v4 = Ipv4Addr::from_bits(Ipv4Addr::new(10, 177, 0, 0).to_bits() + 4 * path as u32 + host);
    let v6 = Ipv6Addr::new(0xfd61, 0x6e61, path as u16, 0, 0, 0, 0, host as u16);
    let has_v6 = mtu >= LEAST_MTU_OF_IPV6;
    [Some(v4.into()), has_v6.then(|| v6.into())].into_iter().flatten().collect()
}

/// The name of a path's devices, which is that of the path if the kernel takes it.
fn device(path: &str, number: usize) -> String {
    // These names mean something else to the kernel, or to `ip`, or may be those of other paths.
    let is_numbered = path.strip_prefix("path").is_some_and(|rest| rest.parse::<usize>().is_ok());
    let is_taken = ["lo", "all", "default", "dev"].contains(&path) || path.starts_with('-') || is_numbered;
    if path.len() <= LONGEST_NAME && !is_taken { path.to_owned() } else { format!("path{number}") }
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
        for (number, Interface { device, own, peer, .. }) in self.interfaces.iter().enumerate() {
            let table = FIRST_TABLE + number;
            let to_peer = self.interfaces.iter().filter(|other| other.peer == *peer);
            let remotes: Vec<IpAddr> = to_peer.flat_map(|interface| interface.remote.clone()).collect();
            for address in own {
                let batch = &mut batches[usize::from(address.is_ipv6())];
                let mut line = |words: std::fmt::Arguments<'_>| {
                    let _ = writeln!(batch, "{words}");
                };
                let (bits, no_detection) = if address.is_ipv4() { (30, "") } else { (126, " nodad") };
                line(format_args!("address add {address}/{bits} dev {device}{no_detection}"));
                line(format_args!("rule add from {address} table {table}"));
                for remote in remotes.iter().filter(|remote| remote.is_ipv4() == address.is_ipv4()) {
                    line(format_args!("route add {remote} dev {device} table {table}"));
                }
            }
        }
        batches
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
        let mut named: Vec<&str> = Vec::new();
        for Interface { path_name, peer, own, remote, .. } in &self.interfaces {
            for (name, addresses) in [(&self.name, own), (peer, remote)] {
                let is_first = !named.contains(&name.as_str());
                for address in addresses {
                    let plain = if is_first { format!("{name} ") } else { String::new() };
                    let _ = writeln!(lines, "{address} {plain}{name}.{path_name}");
                }
                if is_first {
                    named.push(name);
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
            "route add 10.177.0.2 dev lte table 1001",
            "route add 10.177.0.5 dev wifi table 1000",
            "link set dev path2 up",
            "rule add from fd61:6e61:2::1 table 1002",
        ] {
            assert!(batch.lines().any(|other| other == line), "{line} is not in\n{batch}");
        }
        assert!(!batch.contains("10.177.0.10 dev wifi"), "no path of it leads there");
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
    fn names_that_mean_something_else_are_not_given_to_devices() {
        assert_eq!(
            ["lo", "-x", "path5", "wifi"].map(|name| device(name, 4)),
            ["path4", "path4", "path4", "wifi"]
        );
    }
}
