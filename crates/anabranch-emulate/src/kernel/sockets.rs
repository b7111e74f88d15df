//! The sockets of all flows.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use anabranch::scenario::FlowConfig;
use anabranch::sim::Emulation;
use anabranch_transport::endpoint::{Command, Event};
use anabranch_transport::flow::{IpVersion, Side};
use anabranch_transport::report::{Report, declare};
use anabranch_transport::time::{Duration, Time};
use rustix::event::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::datagrams::Datagrams;
use super::messages::{self, Messages};
use super::pattern::{PIECE, Pattern};
use super::place::{Home, release};
use super::settings::{EndOptions, StreamOptions, Wish, agree, read};
use super::stream::Stream;
use super::usrsctp::Usrsctp;
use crate::plan::{Node, Plan};
use crate::space::configure;

declare! {
    /// The scalars of all sockets together.
    SCALARS:
    /// Pieces that differed from what had been sent.
    CORRUPTED_READS = "corrupted_reads": One;
}

/// What the flows of a scenario need from the system, before anything has been set up.
#[derive(Debug)]
pub(crate) struct Flows {
    /// Name and settings of each flow, and what each of its ends runs on.
    all: Vec<(String, FlowConfig, [EndOptions; 2])>,
    /// The sysctls by node.
    sysctls: BTreeMap<String, BTreeMap<&'static str, Wish>>,
    /// For each node that Multipath TCP flows lead to: the key of one of these flows, and its paths after the
    /// first, each with whether it is a backup path.
    announced: BTreeMap<String, (String, Vec<(String, bool)>)>,
    /// The nodes that open connections of Multipath TCP.
    openers: Vec<String>,
    interval: Duration,
    /// The program of an end on usrsctp, if flows of SCTP run on usrsctp.
    usrsctp: Option<PathBuf>,
}

/// The most addresses that Multipath TCP in Linux announces or accepts (`MPTCP_PM_ADDR_MAX`).
const MOST_ADDRESSES: usize = 8;

impl Flows {
    /// The flows of a testbed; `interval` is how often connections are asked for their state, and `usrsctp`
    /// is the program of an end on usrsctp, if flows of SCTP run on that.
    ///
    /// # Errors
    /// A sentence about what no kernel has, or usrsctp does not have.
    pub(crate) fn of(
        emulation: &Emulation,
        interval: Duration,
        usrsctp: Option<PathBuf>,
    ) -> Result<Self, String> {
        let mut found = Self {
            all: Vec::new(),
            sysctls: BTreeMap::new(),
            announced: BTreeMap::new(),
            openers: Vec::new(),
            interval,
            usrsctp,
        };
        let on_usrsctp = found.usrsctp.is_some();
        let mut wishes: BTreeMap<String, Vec<Wish>> = BTreeMap::new();
        for (name, flow) in emulation.flows().map_err(|error| error.to_string())? {
            let of_flow = emulation.paths().iter().filter(|path| flow.paths.contains(&path.name));
            let mtu = of_flow.map(|path| path.mtu).min().expect("a flow has paths");
            let of_side = |side: Side| read(&name, &flow, side, mtu, on_usrsctp);
            let [(one, of_one), (other, of_other)] = [of_side(Side::A)?, of_side(Side::B)?];
            wishes.entry(flow.from.clone()).or_default().extend(of_one);
            wishes.entry(flow.to.clone()).or_default().extend(of_other);
            if let EndOptions::Stream { options, is_multipath: true } = &other {
                found.announce(&name, &flow, options)?;
            }
            found.all.push((name, flow, [one, other]));
        }
        let is_program = |ends: &[EndOptions; 2]| matches!(ends[0], EndOptions::Program(_));
        if on_usrsctp && !found.all.iter().any(|(_, _, ends)| is_program(ends)) {
            return Err(
                "flows: none of them is SCTP (transport.kind = \"sctp\"), which alone usrsctp has".into()
            );
        }
        for (node, wishes) in wishes {
            let agreed = agree(&node, &wishes)?;
            found.sysctls.insert(node, agreed);
        }
        Ok(found)
    }

    /// Notes a flow of Multipath TCP whose server announces its other addresses.
    fn announce(&mut self, name: &str, flow: &FlowConfig, options: &StreamOptions) -> Result<(), String> {
        let key = format!("flows.{name}.paths");
        if flow.paths.len() > MOST_ADDRESSES + 1 {
            let count = flow.paths.len();
            return Err(format!(
                "{key}: {count} paths are too many for a kernel, which has at most 9 subflows"
            ));
        }
        let stands_by = |path: usize| options.backup.contains(&(path as u8));
        if stands_by(0) {
            return Err(format!(
                "{}.backup: a kernel's first subflow cannot stand by, so let path 0 not be in it",
                options.key
            ));
        }
        let paths = flow.paths.iter().enumerate();
        let others: Vec<_> = paths.skip(1).map(|(index, path)| (path.clone(), stands_by(index))).collect();
        let first = self.announced.entry(flow.to.clone()).or_insert_with(|| (key.clone(), others.clone()));
        if first.1 != others {
            return Err(format!(
                "{key}: the node `{}` announces the same addresses to all its peers, so its flows have the same \
                 paths behind the first; {} has others",
                flow.to, first.0
            ));
        }
        self.openers.push(flow.from.clone());
        if let Some(both) = self.openers.iter().find(|node| self.announced.contains_key(*node)) {
            return Err(format!(
                "{key}: the node `{both}` opens connections of Multipath TCP and accepts others, which would mix \
                 up their subflows; let one side open all"
            ));
        }
        Ok(())
    }

    /// Opens the sockets of the flows in the networks of the nodes, one network for each node of the plan.
    /// After this, the calling thread is in another network.
    ///
    /// # Errors
    /// A sentence about what this kernel does not have.
    pub(crate) fn open(&self, plan: &Plan, networks: &[&OwnedFd]) -> Result<Sockets, String> {
        let mut flows = Vec::new();
        for (number, (name, flow, ends)) in self.all.iter().enumerate() {
            let homes = [
                Home::of(network(plan, networks, &flow.from))?,
                Home::of(network(plan, networks, &flow.to))?,
            ];
            let paths = flow.paths.iter().map(|path| addresses(plan, name, flow, path));
            let paths = paths.collect::<Result<Vec<_>, _>>()?;
            flows.push(match ends {
                [EndOptions::Datagrams(one), EndOptions::Datagrams(other)] => {
                    if one.path != other.path {
                        return Err(format!(
                            "flows.{name}.transport_to.path = {}: the sockets of a testbed are both on one path, {}",
                            other.path, one.path
                        ));
                    }
                    let path = paths[usize::from(one.path)];
                    Flow::Datagrams(Datagrams::open(&homes, path, [*one, *other], flow)?)
                }
                [EndOptions::Messages(one), EndOptions::Messages(other)] => {
                    Flow::Messages(Box::new(Messages::open(homes, [one.clone(), other.clone()], paths)?))
                }
                [EndOptions::Program(one), EndOptions::Program(other)] => {
                    let file = self.usrsctp.as_deref().expect("with a program of usrsctp");
                    let options = [one.clone(), other.clone()];
                    Flow::Usrsctp(Box::new(Usrsctp::open(
                        file,
                        number,
                        &homes,
                        &options,
                        &paths,
                        least_mtu(plan, flow),
                    )?))
                }
                [
                    EndOptions::Stream { options: one, is_multipath },
                    EndOptions::Stream { options: other, is_multipath: other_is },
                ] if is_multipath == other_is => {
                    let options = [one.clone(), other.clone()];
                    Flow::Stream(Box::new(Stream::open(homes, options, *is_multipath, paths)?))
                }
                _ => {
                    return Err(format!(
                        "flows.{name}.transport_to: both ends of a flow of a testbed have the same protocol"
                    ));
                }
            });
        }
        let (pattern, buffer) = (Pattern::default(), vec![0; PIECE]);
        let (interval, next_sample) = (self.interval, Time::ZERO);
        Ok(Sockets { flows, pattern, buffer, interval, next_sample, corrupted: 0 })
    }

    /// Prepares the network of a node, which must be that of the calling thread.
    ///
    /// # Errors
    /// A sentence about what this kernel does not have.
    pub(crate) fn prepare(&self, node: &Node) -> Result<(), String> {
        let is_sctp = |ends: &[EndOptions; 2]| match ends {
            [EndOptions::Messages(options), _] => Some(options.key.clone()),
            _ => None,
        };
        if let Some(key) = self.all.iter().find_map(|(_, _, ends)| is_sctp(ends)) {
            // The sysctls of SCTP are there once it has been used.
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::SCTP))
                .map_err(|error| messages::absent(&key, &error))?;
        }
        self.set_sysctls(&node.name)?;
        let lines = self.batch(node);
        if lines.is_empty() { Ok(()) } else { configure("-4", &(lines.join("\n") + "\n")) }
    }

    /// The commands for `ip` at a node for Multipath TCP. The server announces its addresses on all paths but
    /// the first, and the client joins each of them from its own address there.
    fn batch(&self, node: &Node) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((_, paths)) = self.announced.get(&node.name) {
            lines.push(format!("mptcp limits set subflows {MOST_ADDRESSES} add_addr_accepted 0"));
            for (path, stands_by) in paths {
                let interface = node.interfaces.iter().find(|interface| interface.path_name == *path);
                let Some(interface) = interface else { continue };
                let flag = if *stands_by { " backup" } else { "" };
                for version in self.versions(&node.name) {
                    if let Some(address) = pick(&interface.own, version) {
                        let device = &interface.device;
                        lines.push(format!("mptcp endpoint add {address} dev {device} signal{flag}"));
                    }
                }
            }
        }
        if self.openers.contains(&node.name) {
            let most = MOST_ADDRESSES;
            lines.push(format!("mptcp limits set subflows {most} add_addr_accepted {most}"));
        }
        lines
    }

    /// The versions of IP of the connections of Multipath TCP to a node.
    fn versions(&self, node: &str) -> Vec<IpVersion> {
        let is_multipath =
            |ends: &[EndOptions; 2]| matches!(ends[1], EndOptions::Stream { is_multipath: true, .. });
        let flows = self.all.iter().filter(|(_, flow, ends)| flow.to == node && is_multipath(ends));
        let mut versions: Vec<IpVersion> = flows.map(|(_, flow, _)| flow.ip).collect();
        versions.dedup();
        versions
    }

    /// Sets the sysctls of a node.
    fn set_sysctls(&self, node: &str) -> Result<(), String> {
        let agreed = self.sysctls.get(node).into_iter().flatten();
        // All are set twice, since the range of some depends on others: RTO.Max must be at least RTO.Min.
        for (sysctl, Wish { value, .. }) in agreed.clone() {
            if let Some([_, text]) = value {
                let _ = set_sysctl(sysctl, text);
            }
        }
        for (sysctl, Wish { key, value, .. }) in agreed {
            let Some([said, text]) = value else { continue };
            set_sysctl(sysctl, text)
                .map_err(|what| format!("{key} = {said}: this kernel ({}) {what}", release()))?;
        }
        Ok(())
    }
}

/// Sets a sysctl in the network of the calling thread. The error says what the kernel lacks.
fn set_sysctl(sysctl: &str, text: &str) -> Result<(), String> {
    let file = format!("/proc/sys/{}", sysctl.replace('.', "/"));
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("has no {sysctl} of a network namespace"),
        _ => format!("does not take {text} as {sysctl}: {error}"),
    };
    if sysctl == "net.mptcp.scheduler" {
        let there = fs::read_to_string("/proc/sys/net/mptcp/available_schedulers");
        let there = there.unwrap_or_else(|_| "default".into());
        let there: Vec<&str> = there.split_whitespace().collect();
        if !there.contains(&text) {
            let names: Vec<&str> =
                there.iter().map(|&name| if name == "default" { "linux" } else { name }).collect();
            return Err(format!("has the schedulers {}", names.join(", ")));
        }
        if text == "default" {
            // Older kernels offer no choice, and have no such sysctl.
            return Ok(());
        }
    }
    let whole = if matches!(sysctl, "net.ipv4.tcp_rmem" | "net.ipv4.tcp_wmem") {
        // The smallest, the first and the largest size.
        let now = fs::read_to_string(&file).map_err(|error| failed(&error))?;
        let sizes: Vec<u64> = now.split_whitespace().filter_map(|size| size.parse().ok()).collect();
        let most: u64 = text.parse().unwrap_or(u64::MAX);
        let [least, first, _] = sizes[..] else { return Err(format!("has no {sysctl} as it is known here")) };
        format!("{} {} {most}", least.min(most), first.min(most))
    } else {
        text.to_owned()
    };
    fs::write(&file, whole).map_err(|error| failed(&error))
}

/// The address of this version of IP.
fn pick(addresses: &[IpAddr], version: IpVersion) -> Option<IpAddr> {
    addresses.iter().copied().find(|address| address.is_ipv4() == (version == IpVersion::Ipv4))
}

/// The sockets of all flows.
#[derive(Debug)]
pub(crate) struct Sockets {
    flows: Vec<Flow>,
    pattern: Pattern,
    buffer: Vec<u8>,
    /// How often connections are asked for their state, and when this is next done.
    interval: Duration,
    next_sample: Time,
    /// Number of pieces that differed from what had been sent.
    corrupted: u64,
}

#[derive(Debug)]
enum Flow {
    Datagrams(Datagrams),
    Messages(Box<Messages>),
    Stream(Box<Stream>),
    Usrsctp(Box<Usrsctp>),
}

/// A socket that is watched: its flow, and which of the flow's sockets it is.
pub(crate) type Watched = (usize, usize);

/// The most sockets of a flow.
const MOST_SOCKETS: usize = 3;

impl Sockets {
    /// When something has to be done here without an event at a socket.
    pub(crate) const fn next_event(&self) -> Time {
        self.next_sample
    }

    /// Calls `each` with the sockets, the events to wait for, and their keys.
    pub(crate) fn watch<'a>(&'a self, each: &mut impl FnMut(BorrowedFd<'a>, PollFlags, Watched)) {
        for (index, flow) in self.flows.iter().enumerate() {
            let mut number = 0;
            let mut watch = |socket: BorrowedFd<'a>, interest: PollFlags| {
                if !interest.is_empty() {
                    each(socket, interest, (index, number));
                }
                number += 1;
            };
            match flow {
                Flow::Datagrams(flow) => flow.watch(&mut watch),
                Flow::Messages(flow) => flow.watch(&mut watch),
                Flow::Stream(flow) => flow.watch(&mut watch),
                Flow::Usrsctp(flow) => flow.watch(&mut watch),
            }
        }
    }

    /// Handles these sockets, those of a flow one after another, since something is to be done at them.
    pub(crate) fn handle(&mut self, ready: &[(Watched, PollFlags)], emulation: &mut Emulation) {
        for of_flow in ready.chunk_by(|one, other| one.0.0 == other.0.0) {
            let index = of_flow[0].0.0;
            let mut found = [PollFlags::empty(); MOST_SOCKETS];
            for ((_, number), flags) in of_flow {
                found[*number] = *flags;
            }
            let Self { flows, pattern, buffer, corrupted, .. } = self;
            let mut tell = |side: Side, event: Event| emulation.tell(index, side, event);
            match &mut flows[index] {
                Flow::Datagrams(flow) => flow.handle(&found, pattern, buffer, &mut tell),
                Flow::Messages(flow) => flow.handle(&found, pattern, buffer, &mut tell),
                Flow::Stream(flow) => flow.handle(&found, pattern, buffer, corrupted, &mut tell),
                Flow::Usrsctp(flow) => flow.handle(&found, pattern, &mut tell),
            }
            self.execute(emulation);
        }
    }

    /// Carries out the commands of the applications, until they give no more.
    pub(crate) fn execute(&mut self, emulation: &mut Emulation) {
        let mut orders: Vec<(usize, Side, Command)> = Vec::new();
        loop {
            emulation.take_commands(&mut |flow, side, command| orders.push((flow, side, command)));
            if orders.is_empty() {
                return;
            }
            let Self { flows, pattern, .. } = self;
            let now = emulation.now();
            for (index, side, command) in orders.drain(..) {
                let mut tell = |side: Side, event: Event| emulation.tell(index, side, event);
                match &mut flows[index] {
                    Flow::Datagrams(flow) => flow.execute(now, side, command, pattern, &mut tell),
                    Flow::Messages(flow) => flow.execute(side, command, pattern, &mut tell),
                    Flow::Stream(flow) => flow.execute(side, command, pattern, &mut tell),
                    Flow::Usrsctp(flow) => flow.execute(side, command, pattern, &mut tell),
                }
            }
        }
    }

    /// Sees which connections have ended and, now and then, what state the others are in.
    pub(crate) fn look(&mut self, now: Time, emulation: &mut Emulation) {
        // Samples are taken first, as a program may report events while it answers.
        if now >= self.next_sample {
            self.observe(emulation);
            // The next sample counts from when this one was due, unless that is long ago.
            let due = self.next_sample + self.interval;
            self.next_sample = if due > now { due } else { now + self.interval };
        }
        let Self { flows, pattern, .. } = self;
        for (index, flow) in flows.iter_mut().enumerate() {
            let mut tell = |side: Side, event: Event| emulation.tell(index, side, event);
            match flow {
                Flow::Datagrams(_) => {}
                Flow::Messages(flow) => flow.close_finished(&mut tell),
                Flow::Stream(flow) => {
                    flow.report_writable(&mut tell);
                    flow.close_finished(&mut tell);
                }
                Flow::Usrsctp(flow) => flow.hear(pattern, &mut tell),
            }
        }
        self.execute(emulation);
    }

    /// Tells the emulation the state of all ends.
    pub(crate) fn observe(&mut self, emulation: &mut Emulation) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            for side in [Side::A, Side::B] {
                let (samples, counters) = match flow {
                    Flow::Datagrams(flow) => (Vec::new(), flow.counters(side)),
                    Flow::Messages(flow) => flow.observe(side),
                    Flow::Stream(flow) => flow.observe(side),
                    Flow::Usrsctp(flow) => flow.observe(side),
                };
                emulation.observe(index, side, &samples, counters);
            }
        }
    }

    /// Writes how many pieces differed from what had been sent.
    pub(crate) fn report(&self, report: &mut Report<'_>) {
        report.count(CORRUPTED_READS, self.corrupted);
    }
}

fn network<'a>(plan: &Plan, networks: &[&'a OwnedFd], node: &str) -> &'a OwnedFd {
    let index = plan.nodes.iter().position(|other| other.name == node);
    networks[index.expect("a flow's nodes are at the ends of its paths")]
}

/// The smallest MTU of a flow's paths, in bytes.
fn least_mtu(plan: &Plan, flow: &FlowConfig) -> u32 {
    let interfaces = plan.nodes.iter().flat_map(|node| &node.interfaces);
    let own = interfaces.filter(|interface| flow.paths.contains(&interface.path_name));
    own.map(|interface| interface.mtu).min().expect("a flow has paths")
}

/// The addresses of a flow's sides on one of its paths.
fn addresses(plan: &Plan, name: &str, flow: &FlowConfig, path: &str) -> Result<[IpAddr; 2], String> {
    let node = plan.nodes.iter().find(|node| node.name == flow.from);
    let interfaces = node.into_iter().flat_map(|node| &node.interfaces);
    let interface = interfaces
        .clone()
        .find(|interface| interface.path_name == *path)
        .expect("a flow's paths begin at its nodes");
    match (pick(&interface.own, flow.ip), pick(&interface.remote, flow.ip)) {
        (Some(own), Some(remote)) => Ok([own, remote]),
        _ => Err(format!(
            "flows.{name}.ip = \"ipv6\": the path `{path}` carries {} B, and IPv6 needs 1280 B (RFC 8200)",
            interface.mtu
        )),
    }
}
