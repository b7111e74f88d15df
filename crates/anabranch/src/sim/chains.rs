//! Chains of idle links, which a packet crosses in one step.
//!
//! Behind the first link of a route there are often links in a row that serve packets of this route alone, at
//! constant rates, and most packets find all of them idle. Such a packet arrives after all their delays and
//! its own transmission times:
//!
//! ```text
//! at ─► link 1 ─► link 2 ─► ... ─► link n ─► at + total       if at >= clear
//! ```
//!
//! where `clear` is the time from which on a packet that enters the chain finds each link idle. What links
//! keep of such packets is their numbers and the one that came last, since their state follows from that one;
//! [`Chain::settle`] tells them when somebody asks.

use anabranch_transport::time::{Duration, Time};

use super::topology::{Hop, Routes, Turn};
use crate::net::{Direction, DuplexLink, Pass, PlainService};

/// The chains of a run.
#[derive(Debug, Default)]
pub(super) struct Chains {
    list: Vec<Chain>,
    /// For each link and direction in which a chain begins, the chain's number.
    begins: Vec<[u32; 2]>,
    /// Links are not asked what they have counted before this time, so that it does not matter which packets
    /// they have been told of. Zero, as long as nothing is known of it, keeps all packets out of chains.
    pub(super) asked_from: Time,
}

/// Links in a row, from the second of a route on, with packets of that route alone.
#[derive(Debug)]
struct Chain {
    links: Vec<Member>,
    /// The hop of its last link.
    last_hop: u32,
    /// The sum of the links' delays, in nanoseconds.
    delay: u64,
    /// A size of packets in bytes, and how long the links take to send such a packet: all of them together,
    /// and the slowest, in nanoseconds.
    size: u32,
    services: u64,
    longest_service: u64,
    /// From when on a packet certainly finds all links idle, in nanoseconds: one that is no smaller than the
    /// last one, and one that is. `None` if the last packets have not crossed the links in one step.
    clear: Option<[u64; 2]>,
    /// Packets of which the links have not been told, and their bytes.
    packets: u64,
    bytes: u64,
    /// When the last packet came that crossed the links in one step, and its size in bytes.
    last_at: Time,
    last_size: u32,
}

/// A link of a chain.
#[derive(Clone, Copy, Debug)]
struct Member {
    link: u32,
    direction: Direction,
    service: PlainService,
    /// How long after its entry into the chain a packet of the size at hand gets here, if all links are idle,
    /// in nanoseconds.
    offset: u64,
}

impl Chains {
    const NONE: u32 = u32::MAX;

    /// Finds the chains of these routes, whose turns have been set, and marks the hops at which they begin.
    pub(super) fn find(routes: &mut Routes, links: &[DuplexLink]) -> Self {
        let mut chains = Self { begins: vec![[Self::NONE; 2]; links.len()], ..Self::default() };
        let mut first = 0;
        while first < routes.hops.len() {
            let count = routes.hops[first..].iter().position(|hop| hop.is_last).map_or(1, |last| last + 1);
            chains.find_in_route(&mut routes.hops[first..first + count], first as u32, links);
            first += count;
        }
        chains
    }

    fn find_in_route(&mut self, hops: &mut [Hop], first_hop: u32, links: &[DuplexLink]) {
        // Hosts feed the first link, and it may be that several routes do.
        let mut next = 1;
        while next < hops.len() {
            let member = |hop: &Hop| {
                let (service, _) = links[hop.link as usize].plain_service(hop.direction)?;
                let link = Member { link: hop.link, direction: hop.direction, service, offset: 0 };
                (hop.turn == Turn::Ahead).then_some(link)
            };
            let members: Vec<Member> = hops[next..].iter().map_while(member).collect();
            let behind = next + members.len();
            if members.len() >= 2 {
                let Hop { link, direction, .. } = hops[next];
                hops[next].turn = Turn::Chain;
                self.begins[link as usize][direction.index()] = self.list.len() as u32;
                self.list.push(Chain::new(members, first_hop + behind as u32 - 1));
            }
            next = behind + 1;
        }
    }

    /// Takes a packet of `size` bytes that comes to the chain which begins at this hop, if it finds all links
    /// idle. Returns the last hop of the chain and the packet's arrival behind it.
    #[inline]
    pub(super) fn cross(
        &mut self,
        links: &mut [DuplexLink],
        hop: Hop,
        at: Time,
        size: u32,
    ) -> Option<(u32, Time)> {
        let number = self.begins[hop.link as usize][hop.direction.index()];
        let chain = &mut self.list[number as usize];
        let is_smaller = size < chain.last_size;
        if size != chain.size {
            chain.take_size(size);
        }
        let arrival = at + Duration::from_nanos(chain.delay + chain.services);
        let is_clear = chain.clear.is_some_and(|clear| at.as_nanos() >= clear[usize::from(is_smaller)]);
        if arrival > self.asked_from || !(is_clear || chain.asks_links(links, at)) {
            chain.settle(links);
            chain.clear = None;
            return None;
        }
        chain.packets += 1;
        chain.bytes += u64::from(size);
        (chain.last_at, chain.last_size) = (at, size);
        chain.clear = Some([chain.longest_service, chain.services].map(|service| at.as_nanos() + service));
        Some((chain.last_hop, arrival))
    }

    /// Tells all links of the packets that have crossed them in chains.
    pub(super) fn settle(&mut self, links: &mut [DuplexLink]) {
        self.list.iter_mut().for_each(|chain| chain.settle(links));
    }
}

impl Chain {
    fn new(links: Vec<Member>, last_hop: u32) -> Self {
        let delay = links.iter().map(|link| link.service.delay).sum();
        Self {
            links,
            last_hop,
            delay,
            size: 0,
            services: 0,
            longest_service: 0,
            clear: None,
            packets: 0,
            bytes: 0,
            last_at: Time::ZERO,
            last_size: 0,
        }
    }

    /// Computes what depends on the size of a packet.
    fn take_size(&mut self, size: u32) {
        (self.size, self.services, self.longest_service) = (size, 0, 0);
        let mut delay = 0;
        for Member { service, offset, .. } in &mut self.links {
            *offset = delay + self.services;
            let time = service.time_for(size);
            self.services += time;
            self.longest_service = self.longest_service.max(time);
            delay += service.delay;
        }
    }

    /// Asks the links whether a packet of the size at hand that comes at `at` finds all of them idle.
    #[inline(never)]
    fn asks_links(&mut self, links: &mut [DuplexLink], at: Time) -> bool {
        self.settle(links);
        self.links.iter().all(|&Member { link, direction, offset, .. }| {
            let service = links[link as usize].plain_service(direction);
            service.is_some_and(|(_, idle_from)| idle_from <= at.as_nanos() + offset)
        })
    }

    /// Tells the links of the packets that have crossed them.
    fn settle(&mut self, links: &mut [DuplexLink]) {
        let packets = std::mem::take(&mut self.packets);
        if packets == 0 {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes) - u64::from(self.last_size);
        let mut at = self.last_at;
        for &Member { link, direction, .. } in &self.links {
            let link = &mut links[link as usize];
            link.count_delivered(direction, packets - 1, bytes);
            let Pass::Arrives(arrival) = link.pass(at, direction, self.last_size) else {
                unreachable!("the link was idle");
            };
            at = arrival;
        }
    }
}
