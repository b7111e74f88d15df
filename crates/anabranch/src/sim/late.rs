//! Crossings that are left for later: the last hop of a route over a link that can be asked late
//! ([`Turn::Late`](super::topology::Turn::Late)).
//!
//! It is known when such a packet comes to its last hop, and when it can have crossed it at the earliest.
//! Whether it crosses it, and when, also depends on a process of loss, which packets of both directions move
//! on in the order of their times. So the packet's event is put at its earliest arrival, and the hop is
//! computed when its result is needed: by that event, or by a packet of the other direction that comes to the
//! link.

use anabranch_transport::ground::Ecn;
use anabranch_transport::time::Time;
use anabranch_transport::wire::Body;

use super::event_queue::Class;
use super::fragments::Loss;
use super::network::{AtEnd, Network, Traveller};
use super::packets::{InFlight, Progress};
use crate::net::{Direction, Ring, Step};

/// The packets that were left for later.
pub(super) struct Late {
    /// For each link, the crossings that have not been computed, in the order in which they come to it.
    waiting: Vec<Ring<LateCrossing>>,
    /// The number of lost packets whose events are still to come.
    lost: u64,
}

/// A packet at the last hop of its route.
#[derive(Clone, Copy, Debug)]
struct LateCrossing {
    /// When the packet comes there.
    at: Time,
    slot: u32,
    size: u32,
    direction: Direction,
}

impl Default for LateCrossing {
    fn default() -> Self {
        Self { at: Time::ZERO, slot: 0, size: 0, direction: Direction::Forward }
    }
}

impl Late {
    pub(super) fn new(links: usize) -> Self {
        Self { waiting: (0..links).map(|_| Ring::default()).collect(), lost: 0 }
    }

    /// Number of packets in flight that are already lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        self.waiting.iter().map(Ring::memory).sum()
    }
}

impl Network {
    /// A packet will come to the last hop of its route at `at`, which lies ahead.
    #[inline]
    pub(super) fn leave_for_later(
        &mut self,
        traveller: Traveller,
        link: u32,
        direction: Direction,
        at: Time,
    ) {
        let Traveller { slot, size, .. } = traveller;
        self.packets.get_mut(slot).progress = Progress::Late(link);
        let earliest = self.links[link as usize].earliest_arrival(at, direction, size);
        self.late.waiting[link as usize].push_back(LateCrossing { at, slot, size, direction });
        self.arrive(traveller, earliest);
    }

    /// What the event of a packet that was left for later turns out to be if the packet has not arrived at
    /// this time. If it arrives later, it gets another event.
    pub(super) fn has_not_arrived(&mut self, slot: u32) -> Option<AtEnd> {
        if let Progress::Late(link) = self.packets.get_mut(slot).progress {
            self.resolve_late(link, self.now);
        }
        let in_flight = self.packets.get_mut(slot);
        let Progress::Resolved(at) = in_flight.progress else {
            unreachable!("it has been resolved by its event");
        };
        if at <= self.now {
            return None;
        }
        if at.is_never() {
            let InFlight { packet, route, .. } = self.packets.remove(slot);
            self.late.lost -= 1;
            let (flow, side) = self.routes.receiver(route);
            return Some(AtEnd::Lost(packet, flow, side.peer()));
        }
        in_flight.progress = Progress::ToEvent;
        self.queue.push_packet(at, Class::Endpoint, in_flight.route, slot);
        Some(AtEnd::Waits)
    }

    /// Computes the crossings of packets that come to this link by `until`.
    #[inline]
    pub(super) fn resolve_late(&mut self, link: u32, until: Time) {
        while let Some(&mut packet) = self.late.waiting[link as usize].front_mut()
            && packet.at <= until
        {
            self.late.waiting[link as usize].pop_front();
            self.resolve(link, packet);
        }
    }

    /// Computes the last hop of a packet.
    #[inline]
    fn resolve(&mut self, link: u32, LateCrossing { at, slot, size, direction }: LateCrossing) {
        // Such a link ignores the ECN field.
        let step = self.links[link as usize].accept(at, direction, size, Ecn::NotEct);
        if self.trace.is_some() {
            let route = self.packets.get_mut(slot).route;
            self.trace_hop(slot, self.routes.last_hop(route), at, step);
        }
        match step {
            Step::Deliver { at: arrival, .. } => {
                self.packets.get_mut(slot).progress = Progress::Resolved(arrival);
            }
            Step::Drop(cause) => {
                let in_flight = self.packets.get_mut(slot);
                in_flight.progress = Progress::Resolved(Time::NEVER);
                let (trace_row, body) = (in_flight.trace_row, &in_flight.packet.body);
                let fragment = if let Body::Fragment(fragment) = *body { Some(fragment) } else { None };
                self.late.lost += 1;
                self.lose(trace_row, fragment, Loss { at, link, cause });
            }
            Step::Cross { .. } | Step::Stays => unreachable!("such a link is not left for later"),
        }
    }

    /// Computes all crossings that were left for later and begin by `until`, and tells links what they have
    /// not been told, so that they can report.
    pub(super) fn catch_up(&mut self, until: Time) {
        for medium in 0..self.media.list.len() as u32 {
            self.catch_up_medium(medium, until);
        }
        for link in 0..self.links.len() as u32 {
            self.resolve_late(link, until);
        }
    }
}
