//! What rows name by its number: interfaces, places, hosts, comments; and what has been left out. A file
//! cannot let them grow without bound.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::IpAddr;

use indexmap::{IndexMap, IndexSet};

use crate::link::Vlans;
use crate::source::Damage;

/// How many entries each of the tables has at most.
const MOST: usize = 1 << 16;
/// How many addresses are told apart.
const MOST_ADDRESSES: usize = 1 << 22;
/// How many bytes of comments are kept.
const MOST_COMMENT_BYTES: usize = 1 << 24;
/// How many kinds of what is left out are told apart.
const MOST_KINDS: usize = 1 << 8;

/// An interface of the file.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// How many frames it has.
    pub frames: u64,
    /// The number of the first one.
    pub(crate) first: u64,
    /// When the last one was seen.
    last_ns: Option<i64>,
    /// Whether places of it can be wanted.
    pub(crate) is_wanted: bool,
}

/// Where packets are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The interface's name with what tells the place from others of the interface.
    pub name: String,
    /// The interface's name.
    pub interface: String,
    is_wanted: bool,
}

/// What is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    Block(u32),
    Comments,
    Cut,
    Damaged,
    Fragments,
    Hosts,
    Link(u32),
    Names,
    NoIp,
    Other,
    Places,
    Untimed,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(kind) => write!(f, "blocks of the unknown type {kind:#x}"),
            Self::Comments => write!(f, "comments beyond the first {MOST_COMMENT_BYTES} bytes of them"),
            Self::Cut => write!(f, "packets whose headers are cut off"),
            Self::Damaged => write!(f, "packets whose lengths contradict each other"),
            Self::Fragments => {
                write!(f, "fragments other than the first of their packet, but for their lengths")
            }
            Self::Hosts => write!(f, "packets of hosts beyond the first {MOST_ADDRESSES} addresses"),
            Self::Link(kind) if *kind > 0xffff => {
                write!(f, "ERF records of type {}, which is not read", kind & 0xffff)
            }
            Self::Link(kind) => write!(f, "frames of link type {kind}, which is not read"),
            Self::Names => write!(f, "names of hosts beyond the first {MOST}"),
            Self::NoIp => write!(f, "frames without an IP packet"),
            Self::Other => write!(f, "frames and blocks of other kinds that are not read"),
            Self::Places => write!(f, "packets of VLANs and interfaces beyond the first {MOST}"),
            Self::Untimed => write!(f, "packets without a time (simple packet blocks)"),
        }
    }
}

/// The tables of a file.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// The interface or place that is wanted, if not all are.
    wanted: Option<String>,
    /// By their names, or their numbers.
    pub(crate) interfaces: IndexMap<String, Interface>,
    pub(crate) places: IndexMap<Key, Place>,
    last_place: Option<(Key, usize)>,
    pub(crate) addresses: IndexSet<IpAddr>,
    /// The last source and destination.
    last_addresses: [Option<(IpAddr, i32)>; 2],
    pub(crate) comments: IndexSet<Vec<u8>>,
    comment_bytes: usize,
    pub(crate) names: BTreeMap<IpAddr, Vec<u8>>,
    pub(crate) left_out: BTreeMap<LeftOut, u64>,
    pub(crate) steps_back: u64,
    pub(crate) largest_step_back_ns: i64,
    #[cfg(feature = "quic")]
    pub(crate) quic: crate::quic::Decoder,
}

/// What tells a place from others: interface of the file, interface of the host, VLANs.
type Key = (usize, Option<u32>, Vlans);

impl Tables {
    pub(crate) fn new(wanted: Option<String>) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// The number of the interface with this name.
    pub(crate) fn interface(&mut self, name: &str) -> Result<usize, Damage> {
        if let Some(number) = self.interfaces.get_index_of(name) {
            return Ok(number);
        }
        if self.interfaces.len() >= MOST {
            return Err(Damage(format!("there are more than {MOST} interfaces; the file is damaged")));
        }
        let is_wanted = self.wanted.as_ref().is_none_or(|wanted| {
            wanted.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
        });
        let interface = Interface { is_wanted, ..Interface::default() };
        Ok(self.interfaces.insert_full(name.to_owned(), interface).0)
    }

    /// Counts a frame of an interface.
    pub(crate) fn count(&mut self, interface: usize, index: u64, time_ns: i64) {
        let interface = &mut self.interfaces[interface];
        if interface.frames == 0 {
            interface.first = index;
        }
        interface.frames += 1;
        if let Some(last_ns) = interface.last_ns.replace(time_ns)
            && time_ns < last_ns
        {
            let step_ns = last_ns.saturating_sub(time_ns);
            self.steps_back += 1;
            self.largest_step_back_ns = self.largest_step_back_ns.max(step_ns);
        }
    }

    /// The number of a place; [`None`] if it is not wanted.
    pub(crate) fn place(
        &mut self,
        interface: usize,
        within: Option<u32>,
        vlans: Vlans,
    ) -> Result<Option<i32>, LeftOut> {
        let key = (interface, within, vlans);
        let number = match self.last_place {
            Some((last, number)) if last == key => number,
            _ => match self.places.get_index_of(&key) {
                Some(number) => number,
                None if self.places.len() >= MOST => return Err(LeftOut::Places),
                None => self.add_place(key),
            },
        };
        self.last_place = Some((key, number));
        Ok(self.places[number].is_wanted.then_some(number as i32))
    }

    fn add_place(&mut self, key: Key) -> usize {
        let (interface, within, vlans) = key;
        let (interface, _) = self.interfaces.get_index(interface).expect("a frame has an interface");
        let mut name = interface.clone();
        if let Some(within) = within {
            let _ = write!(name, ":if{within}");
        }
        for vlan in vlans.iter() {
            let _ = write!(name, ".{vlan}");
        }
        let is_wanted = self.wanted.as_ref().is_none_or(|wanted| *wanted == name || wanted == interface);
        let place = Place { name, interface: interface.clone(), is_wanted };
        self.places.insert_full(key, place).0
    }

    /// The numbers of a packet's addresses.
    pub(crate) fn hosts(&mut self, addresses: [IpAddr; 2]) -> Result<[i32; 2], LeftOut> {
        let mut numbers = [0; 2];
        for (at, address) in addresses.into_iter().enumerate() {
            let last = self.last_addresses.iter().flatten().find(|(last, _)| *last == address);
            numbers[at] = match last {
                Some((_, number)) => *number,
                None => self.host(address)?,
            };
        }
        self.last_addresses = [0, 1].map(|at| Some((addresses[at], numbers[at])));
        Ok(numbers)
    }

    fn host(&mut self, address: IpAddr) -> Result<i32, LeftOut> {
        if let Some(number) = self.addresses.get_index_of(&address) {
            return Ok(number as i32);
        }
        if self.addresses.len() >= MOST_ADDRESSES {
            return Err(LeftOut::Hosts);
        }
        Ok(self.addresses.insert_full(address).0 as i32)
    }

    /// The number of a comment, or -1 if there is no room for it.
    pub(crate) fn comment(&mut self, comment: &[u8]) -> i32 {
        if let Some(number) = self.comments.get_index_of(comment) {
            return number as i32;
        }
        if self.comments.len() >= MOST || self.comment_bytes + comment.len() > MOST_COMMENT_BYTES {
            self.leave_out(LeftOut::Comments);
            return -1;
        }
        self.comment_bytes += comment.len();
        self.comments.insert_full(comment.to_vec()).0 as i32
    }

    /// Keeps the first name of a host.
    pub(crate) fn name(&mut self, address: &[u8], name: &[u8]) {
        let address = match *address {
            [a, b, c, d] => IpAddr::from([a, b, c, d]),
            _ => match <[u8; 16]>::try_from(address) {
                Ok(octets) => IpAddr::from(octets),
                Err(_) => return,
            },
        };
        if self.names.len() < MOST {
            self.names.entry(address).or_insert_with(|| name[..name.len().min(255)].to_vec());
        } else {
            self.leave_out(LeftOut::Names);
        }
    }

    pub(crate) fn leave_out(&mut self, what: LeftOut) {
        let is_known = self.left_out.len() < MOST_KINDS || self.left_out.contains_key(&what);
        *self.left_out.entry(if is_known { what } else { LeftOut::Other }).or_default() += 1;
    }
}
