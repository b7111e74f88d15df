//! The packets of a run and the links that they cross.
//!
//! A packet crosses as many links as possible in one computation; an event exists only where its order
//! among other packets or a random draw of a shared process decides something (see
//! [`Routes::mark_waiting_hops`]), and at the end of its route.

use super::event_queue::{Class, EventQueue};
use super::packets::{InFlight, PacketSlab};
use super::topology::{Hop, Routes};
use crate::net::{DuplexLink, Step};
use crate::packet::{Packet, Side};
use crate::time::Time;
use crate::trace::Trace;

/// Links, packets in flight, and the events to come.
pub(super) struct Network {
    pub(super) now: Time,
    pub(super) queue: EventQueue,
    pub(super) links: Vec<DuplexLink>,
    pub(super) counters: Counters,
    pub(super) trace: Option<Box<Trace>>,
    packets: PacketSlab,
    routes: Routes,
    /// When the run ends at the latest.
    end: Time,
    /// Times after `now` at which links drop packets that were carried there ahead, and some earlier ones.
    drops_ahead: Vec<Time>,
}

/// What became of the packets that endpoints sent: sent + duplicated = delivered + dropped + in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: u64,
    duplicated: u64,
    pub(super) delivered: u64,
    dropped: u64,
}

impl Network {
    pub(super) fn new(links: Vec<DuplexLink>, routes: Routes, end: Time, trace: Option<Box<Trace>>) -> Self {
        Self {
            now: Time::ZERO,
            queue: EventQueue::default(),
            links,
            counters: Counters::default(),
            trace,
            packets: PacketSlab::default(),
            routes,
            end,
            drops_ahead: Vec::new(),
        }
    }

    /// Bytes of memory in use by what grows with time.
    pub(super) fn memory(&self) -> usize {
        let trace = self.trace.as_ref().map_or(0, |trace| {
            trace.memory() + self.links.iter().map(DuplexLink::trace_memory).sum::<usize>()
        });
        self.packets.memory() + self.queue.memory() + trace
    }

    /// A packet has reached the end of its route.
    pub(super) fn take_delivered(&mut self, slot: u32) -> InFlight {
        let in_flight = self.packets.remove(slot);
        self.counters.delivered += 1;
        if let Some(trace) = &mut self.trace {
            trace.packets.delivered(self.now, in_flight.trace_row);
        }
        in_flight
    }

    pub(super) fn check_conservation(&self) {
        let Counters { sent, duplicated, delivered, dropped } = self.counters;
        let in_flight = self.packets.len() as u64;
        assert_eq!(sent + duplicated, delivered + dropped + in_flight, "packets are conserved");
    }

    /// Takes a packet that an endpoint sends now as far as nothing has to be waited for.
    pub(super) fn transmit(&mut self, flow: u32, sender: Side, packet: Packet) {
        self.counters.sent += 1;
        let trace_row =
            self.trace.as_mut().map_or(0, |trace| trace.packets.sent(self.now, flow, sender, &packet));
        let route = self.routes.route(flow, sender, packet.path.index());
        let hop = self.routes.first_hop(route);
        let slot =
            self.packets.insert(InFlight { packet, flow, sender, route, hop, crossing: false, trace_row });
        self.travel(slot, self.now, false);
    }

    /// Takes a packet along its route from the hop it is at, as far as nothing has to be waited for.
    /// `has_arrived`: its arrival at that hop has had its event.
    pub(super) fn travel(&mut self, slot: u32, mut at: Time, mut has_arrived: bool) {
        let in_flight = self.packets.get_mut(slot);
        let size = in_flight.packet.size;
        let component = in_flight.route;
        loop {
            let Hop { link, direction, waits, is_last } = self.routes.hops[in_flight.hop as usize];
            if waits && !has_arrived {
                self.queue.push_packet(at, Class::Link, component, slot);
                return;
            }
            if at > self.end {
                return;
            }
            has_arrived = false;
            let ecn = in_flight.packet.ecn;
            let duplex = &mut self.links[link as usize];
            if at > self.now + DuplexLink::AHEAD_LIMIT {
                duplex.runs_ahead_by(direction, at - self.now);
            }
            let entered = at;
            let step = if std::mem::take(&mut in_flight.crossing) {
                duplex.resume(at, direction, size, ecn)
            } else {
                duplex.accept(at, direction, size, ecn)
            };
            match step {
                Step::Deliver { at: arrival, ecn, copy } => {
                    at = arrival;
                    in_flight.packet.ecn = ecn;
                    if !is_last {
                        in_flight.hop += 1;
                    }
                    if let Some(copy_at) = copy {
                        // The copy follows at once, before any later packet.
                        let copy = self.duplicate(slot, entered);
                        self.proceed(slot, at, is_last);
                        return self.proceed(copy, copy_at, is_last);
                    }
                    if is_last {
                        return self.queue.push_packet(at, Class::Endpoint, component, slot);
                    }
                }
                Step::Cross { at, ecn } => {
                    in_flight.crossing = true;
                    in_flight.packet.ecn = ecn;
                    return self.queue.push_packet(at, Class::Link, component, slot);
                }
                Step::Drop(cause) => {
                    let dropped = self.packets.remove(slot);
                    if let Some(trace) = &mut self.trace {
                        trace.packets.dropped(dropped.trace_row, cause.name(), link, at);
                    }
                    return self.count_drop(at);
                }
                Step::Held => return,
            }
        }
    }

    /// Takes a packet on from the link it has just left.
    fn proceed(&mut self, slot: u32, at: Time, is_last: bool) {
        if is_last {
            let component = self.packets.get_mut(slot).route;
            self.queue.push_packet(at, Class::Endpoint, component, slot);
        } else {
            self.travel(slot, at, false);
        }
    }

    /// How many packets have been dropped by this time.
    pub(super) fn dropped(&self, now: Time) -> u64 {
        self.counters.dropped - self.drops_ahead.iter().filter(|&&at| at > now).count() as u64
    }

    /// A packet is dropped at this time, which may lie ahead of the run's end.
    fn count_drop(&mut self, at: Time) {
        self.counters.dropped += 1;
        if at > self.now {
            if self.drops_ahead.len() == self.drops_ahead.capacity() {
                let now = self.now;
                self.drops_ahead.retain(|&at| at > now);
                self.drops_ahead.reserve(self.drops_ahead.len().max(16));
            }
            self.drops_ahead.push(at);
        }
    }

    /// A copy of a packet in flight, made by a link that it entered at `at`; returns its slot.
    fn duplicate(&mut self, slot: u32, at: Time) -> u32 {
        self.counters.duplicated += 1;
        let original = self.packets.get_mut(slot);
        let mut copy = InFlight { packet: original.packet.clone(), ..*original };
        if let Some(trace) = &mut self.trace {
            copy.trace_row = trace.packets.duplicated(copy.trace_row, at);
        }
        self.packets.insert(copy)
    }
}
