//! Routes: which links, in which direction, a flow's packets cross, and when each crossing is computed.

use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::{IpVersion, Side};
use anabranch_transport::rng::fnv1a;
use indexmap::{IndexMap, IndexSet};

use crate::net::{Direction, DuplexLink, LinkConfig};
use crate::scenario::names::closest;
use crate::scenario::{FlowConfig, PathConfig, Scenario, ScenarioError};

/// A link of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// Index of the link.
    pub(super) link: u32,
    pub(super) direction: Direction,
    pub(super) turn: Turn,
    /// Whether the route ends behind it.
    pub(super) is_last: bool,
}

/// When a packet's crossing of a link is computed; `network.rs` has a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Together with the crossing of the link before it, or when the packet is sent.
    Ahead,
    /// At its time, when the link's medium accepts it.
    Held,
    /// At the time of the crossing, as an event.
    Waits,
}

/// The label by which queue disciplines distinguish packets of different routes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    /// A hash of the names of the route's flow, sender and path, so that it does not depend on other flows.
    pub(super) flow: u32,
    /// The nodes at which the route begins and ends, numbered in the order in which flows name them. The
    /// numbers of more than 256 nodes begin again with 0.
    pub(super) hosts: [u8; 2],
    /// The treatment that the flow's packets ask for.
    pub(super) dscp: Dscp,
}

/// The routes of every flow, side and path, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Routes {
    pub(super) hops: Vec<Hop>,
    /// The index of each route's first hop.
    starts: Vec<u32>,
    /// The flow and the side at which each route ends.
    receivers: Vec<(u32, Side)>,
    /// The label of each route.
    labels: Vec<Label>,
    /// The first route of each flow and side; its paths' routes follow.
    firsts: Vec<[u32; 2]>,
}

impl Routes {
    /// The routes of a scenario.
    pub(super) fn resolve(scenario: &Scenario) -> Result<Self, ScenarioError> {
        let mut routes = Self::default();
        let mut nodes = IndexSet::new();
        ScenarioError::all(scenario.flows.iter().map(|(name, flow)| {
            let hosts = [&flow.from, &flow.to].map(|node| nodes.insert_full(node.as_str()).0 as u8);
            routes.add_flow(scenario, name, flow, hosts)
        }))?;
        Ok(routes)
    }

    /// The number of a route, as events know it.
    pub(super) fn route(&self, flow: u32, sender: Side, path: usize) -> u32 {
        self.firsts[flow as usize][sender.index()] + path as u32
    }

    /// The index of a route's first hop.
    pub(super) fn first_hop(&self, route: u32) -> u32 {
        self.starts[route as usize]
    }

    /// The flow and the side at which packets of a route arrive.
    pub(super) fn receiver(&self, route: u32) -> (usize, Side) {
        let (flow, side) = self.receivers[route as usize];
        (flow as usize, side)
    }

    /// The label by which queue disciplines distinguish the packets of a route.
    pub(super) fn label(&self, route: u32) -> Label {
        self.labels[route as usize]
    }

    /// Sets when each hop is computed. A crossing can be computed ahead of time where everything that
    /// enters the link's direction comes, in order, from one and the same place, and the link itself does
    /// not depend on what else happens until then.
    /// `fuse = false` gives every hop an event: slower, and the same results.
    pub(super) fn set_turns(&mut self, links: &[DuplexLink], fuse: bool) {
        let mut feeders: Vec<[Vec<Feeder>; 2]> = links.iter().map(|_| Default::default()).collect();
        self.for_each_hop(|feeder, hop| {
            let known = &mut feeders[hop.link as usize][hop.direction.index()];
            if !known.contains(&feeder) {
                known.push(feeder);
            }
        });
        self.for_each_hop(|feeder, hop| {
            let link = &links[hop.link as usize];
            if link.has_medium(hop.direction) {
                hop.turn = Turn::Held;
                return;
            }
            let Feeder::Link { link: before, direction, .. } = feeder else { return };
            let feeders = &feeders[hop.link as usize][hop.direction.index()];
            let is_fed_in_order = fuse && feeders.len() == 1 && links[before as usize].keeps_order(direction);
            hop.turn = if is_fed_in_order && link.can_run_ahead() { Turn::Ahead } else { Turn::Waits };
        });
    }

    fn for_each_hop(&mut self, mut visit: impl FnMut(Feeder, &mut Hop)) {
        let (mut route, mut feeder) = (0, Feeder::Hosts);
        for hop in &mut self.hops {
            visit(feeder, hop);
            feeder = Feeder::Link { link: hop.link, direction: hop.direction, route };
            if hop.is_last {
                (route, feeder) = (route + 1, Feeder::Hosts);
            }
        }
    }

    fn add_flow(
        &mut self,
        scenario: &Scenario,
        name: &str,
        flow: &FlowConfig,
        hosts: [u8; 2],
    ) -> Result<(), ScenarioError> {
        let error = |what: String| Err(ScenarioError::new(format!("flows.{name}.{what}")));
        if flow.from == flow.to {
            return error(format!("to: `{}` is where the flow comes from; use another node", flow.to));
        }
        let nodes: IndexSet<&str> =
            scenario.links.values().flat_map(|link| &link.ends).map(String::as_str).collect();
        for (key, node) in [("from", &flow.from), ("to", &flow.to)] {
            if !nodes.contains(node.as_str()) {
                let nodes: Vec<_> = nodes.into_iter().collect();
                return error(format!("{key}: no link ends at `{node}`; {}", instead(node, &nodes)));
            }
        }
        if flow.paths.is_empty() {
            return error("paths: the list is empty; name at least one path".into());
        }
        if flow.paths.len() > MAX_PATHS {
            let count = flow.paths.len();
            return error(format!("paths: {count} paths are too many; at most {MAX_PATHS} are allowed"));
        }
        if let Some((index, path)) =
            flow.paths.iter().enumerate().find(|(index, path)| flow.paths[..*index].contains(path))
        {
            return error(format!("paths.{index}: `{path}` is there already; use each path once"));
        }
        let mut sides: [Vec<Vec<Hop>>; 2] = Default::default();
        for path_name in &flow.paths {
            let Some(path) = scenario.paths.get(path_name) else {
                return error(format!(
                    "paths: there is no path `{path_name}`; {}",
                    instead_in(path_name, &scenario.paths)
                ));
            };
            if flow.ip == IpVersion::Ipv6
                && let Some((link, mtu)) = path.fragmenting_link(&scenario.links)
            {
                // RFC 8200 section 5: only the source may fragment packets.
                return error(format!(
                    "ip: \"ipv6\" packets are not fragmented on their way, but links.{link}.mtu = \"{mtu}\" is less \
                     than paths.{path_name}.mtu = \"{}\"; make the two alike, or use \"ipv4\"",
                    path.mtu
                ));
            }
            let ways = path_hops(scenario, path_name, path, [&flow.from, &flow.to])?;
            for (side, hops) in sides.iter_mut().zip(ways) {
                side.push(hops);
            }
        }
        self.add_sides(sides, name, &flow.paths, hosts, flow.dscp);
        Ok(())
    }

    /// Adds a portal for each path: a pair of routes on which packets of real programs travel. Portals follow
    /// the flows.
    pub(super) fn add_portals(&mut self, scenario: &Scenario) -> Result<(), ScenarioError> {
        let flows = scenario.flows.values().flat_map(|flow| [&flow.from, &flow.to]);
        let mut nodes: IndexSet<&str> = flows.map(String::as_str).collect();
        for (name, path) in &scenario.paths {
            let [from, to] = path_ends(scenario, name, path)?;
            let hosts = [from, to].map(|node| nodes.insert_full(node).0 as u8);
            let sides = path_hops(scenario, name, path, [from, to])?.map(|hops| vec![hops]);
            // No flow's name contains a slash, so this one is unique.
            self.add_sides(sides, "/portal", std::slice::from_ref(name), hosts, Dscp::CS0);
        }
        Ok(())
    }

    /// Adds the routes of a flow, for each side one for each of its paths.
    fn add_sides(
        &mut self,
        sides: [Vec<Vec<Hop>>; 2],
        name: &str,
        paths: &[String],
        hosts: [u8; 2],
        dscp: Dscp,
    ) {
        let [from, to] = hosts;
        let index = self.firsts.len() as u32;
        let mut receivers = [Side::B, Side::A].into_iter();
        self.firsts.push(sides.map(|hops_of_paths| {
            let first = self.starts.len() as u32;
            let receiver = receivers.next().expect("one for each side");
            let hosts = if receiver == Side::B { [from, to] } else { [to, from] };
            for (hops, path) in hops_of_paths.into_iter().zip(paths) {
                let names = format!("{name}/{}/{path}", receiver.peer().name());
                self.labels.push(Label { flow: fnv1a(names.as_bytes()) as u32, hosts, dscp });
                self.starts.push(self.hops.len() as u32);
                self.receivers.push((index, receiver));
                self.hops.extend(hops);
            }
            first
        }));
    }
}

/// The links that packets of a path cross, from each of its ends to the other.
fn path_hops(
    scenario: &Scenario,
    name: &str,
    path: &PathConfig,
    [from, to]: [&str; 2],
) -> Result<[Vec<Hop>; 2], ScenarioError> {
    let links = &scenario.links;
    let forward = Walk { links, path: name, key: "via", from, to };
    let backward = Walk { from: to, to: from, ..forward };
    let there = forward.hops(path.via.iter())?;
    let back = match &path.back {
        Some(back) => Walk { key: "back", ..backward }.hops(back.iter())?,
        None => backward.hops(path.via.iter().rev())?,
    };
    Ok([there, back])
}

/// The nodes that a path joins: those of the first flow that uses it, else those at which its links begin and
/// end, where a single link begins at the first of its ends.
pub(super) fn path_ends<'a>(
    scenario: &'a Scenario,
    name: &str,
    path: &'a PathConfig,
) -> Result<[&'a str; 2], ScenarioError> {
    let uses_it = |flow: &&FlowConfig| flow.paths.iter().any(|used| used == name);
    if let Some(flow) = scenario.flows.values().find(uses_it) {
        return Ok([&flow.from, &flow.to]);
    }
    let error = |what: String| Err(ScenarioError::new(format!("paths.{name}.via: {what}")));
    let Some(first) = path.via.first() else {
        return error("the list is empty; name at least one link".into());
    };
    let Some(link) = scenario.links.get(first) else {
        return error(format!("there is no link `{first}`; {}", instead_in(first, &scenario.links)));
    };
    // The node to which the links lead from this one, if they can be followed from it.
    let follow = |start: &'a str| {
        path.via.iter().try_fold(start, |node, name| {
            let [one, other] = &scenario.links.get(name)?.ends;
            (one == node).then_some(other).or_else(|| (other == node).then_some(one)).map(String::as_str)
        })
    };
    let ends = link.ends.iter().find_map(|start| Some([start.as_str(), follow(start)?]));
    match ends {
        Some([from, to]) if from != to => Ok([from, to]),
        Some([from, _]) => error(format!("the path leads from `{from}` back to it; leave out a link")),
        None => error("these links do not follow one another; name them in the order of the way".into()),
    }
}

/// Paths are numbered in eight bits.
const MAX_PATHS: usize = 255;

/// The place from which packets enter a link's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeder {
    /// The hosts themselves: packets enter when they are sent, always in order.
    Hosts,
    /// Another link, on one route. Two routes through one link are two feeders: their packets leave the link
    /// in order, but each route is computed ahead by itself.
    Link { link: u32, direction: Direction, route: u32 },
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    links: &'a IndexMap<String, LinkConfig>,
    path: &'a str,
    key: &'a str,
    from: &'a str,
    to: &'a str,
}

impl Walk<'_> {
    /// Follows the links from node to node.
    fn hops<'b>(&self, via: impl Iterator<Item = &'b String>) -> Result<Vec<Hop>, ScenarioError> {
        let error =
            |what: String| Err(ScenarioError::new(format!("paths.{}.{}: {what}", self.path, self.key)));
        let mut node = self.from;
        let mut hops = Vec::new();
        for name in via {
            let Some((index, _, link)) = self.links.get_full(name) else {
                return error(format!("there is no link `{name}`; {}", instead_in(name, self.links)));
            };
            let [first, second] = &link.ends;
            let (direction, next) = if first == node {
                (Direction::Forward, second)
            } else if second == node {
                (Direction::Reverse, first)
            } else {
                return error(format!(
                    "link `{name}` joins `{first}` and `{second}`, but the path is at `{node}` there"
                ));
            };
            hops.push(Hop { link: index as u32, direction, turn: Turn::Ahead, is_last: false });
            node = next;
        }
        if node != self.to {
            return error(format!("the path from `{}` leads to `{node}`, not to `{}`", self.from, self.to));
        }
        let last = hops.last_mut().expect("the hosts differ, so a path that joins them has a link");
        last.is_last = true;
        Ok(hops)
    }
}

/// What there is in place of a name that is not among these: the one that was meant, and ten at most.
fn instead(given: &str, names: &[&str]) -> String {
    let mut list: Vec<String> = names.iter().take(10).map(|name| format!("`{name}`")).collect();
    if names.len() > 10 {
        list.push(format!("and {} more", names.len() - 10));
    }
    let there = if names.is_empty() { "none".into() } else { list.join(", ") };
    match closest(given, names) {
        Some(name) => format!("did you mean `{name}`? There is {there}"),
        None => format!("there is {there}"),
    }
}

/// The same of the names of a section.
fn instead_in<T>(given: &str, section: &IndexMap<String, T>) -> String {
    instead(given, &section.keys().map(String::as_str).collect::<Vec<_>>())
}

/// Checks what can be wrong with a path even if no flow uses it.
pub(super) fn check_path(scenario: &Scenario, name: &str, path: &PathConfig) -> Result<(), ScenarioError> {
    let error = |what: String| Err(ScenarioError::new(format!("paths.{name}.{what}")));
    if !(576..=65_535).contains(&path.mtu.0) {
        return error(format!("mtu: {} is not from 576 B to 65535 B", path.mtu));
    }
    let ways = [("via", Some(&path.via)), ("back", path.back.as_ref())];
    for (key, link) in ways
        .iter()
        .flat_map(|(key, way)| way.iter().flat_map(move |way| way.iter().map(move |link| (key, link))))
    {
        if !scenario.links.contains_key(link) {
            return error(format!("{key}: there is no link `{link}`; {}", instead_in(link, &scenario.links)));
        }
    }
    Ok(())
}
