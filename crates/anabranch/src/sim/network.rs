//! The packets of a run and the links that they cross.
//!
//! A packet crosses as many links as can be computed at once; an event exists only where its order among
//! other packets or a random draw of a shared process decides something, and at the end of its route. What
//! decides is the [`Turn`] of each hop, which [`Routes::set_turns`] sets. Three links, from left to right in
//! simulated time; `●` is an event of the packet:
//!
//! ```text
//! every hop Ahead    send ─1──2──3──────────────────────● arrival
//! hop 2 Waits        send ─1──────● comes to 2 ─2──3────● arrival
//! hop 2 Held         send ─1──────● comes to 2 ▒▒ the medium's events ▒▒ ─3──● arrival
//! hop 2 draws the    send ─1──2───● leaves 2's server ─3──● arrival
//! loss on its wire
//! in time (Step::Cross)
//! ```
//!
//! While it waits for an event, its [`Progress`] says how far it has been computed. `held.rs` has the media.

use anabranch_transport::flow::{Ecn, Side};
use anabranch_transport::time::Time;
use anabranch_transport::wire::{Body, Foreign, Fragment, Packet};

use super::alarm::Alarm;
use super::event_queue::{Class, EventQueue};
use super::fragments::{Datagrams, Loss, Lost};
use super::packets::{InFlight, PacketSlab, Progress};
use super::tally::Tally;
use super::topology::{Hop, Routes, Turn};
use crate::capture::Capture;
use crate::net::{Direction, DropCause, DuplexLink, Media, Pass, Release, Step};
use crate::trace::Trace;

/// Links, packets in flight, and the events to come.
pub(super) struct Network {
    pub(super) now: Time,
    pub(super) queue: EventQueue,
    pub(super) links: Vec<DuplexLink>,
    pub(super) tally: Tally,
    pub(super) trace: Option<Box<Trace>>,
    /// A capture of the packets. Where there is one, every hop has an event.
    pub(super) capture: Option<Box<Capture>>,
    pub(super) packets: PacketSlab,
    pub(super) datagrams: Datagrams,
    pub(super) routes: Routes,
    /// Events until the run's limits are checked again, at least 1. An event with much work counts as
    /// several.
    pub(super) until_check: u64,
    /// The latest end of the run.
    pub(super) end: Time,
    pub(super) media: Media,
    /// When each medium acts next.
    pub(super) media_alarms: Vec<Alarm>,
    pub(super) releases: Vec<Release>,
    /// The fates of packets of real programs ([`Foreign`]), in the order of time.
    pub(super) exits: Vec<Exit>,
}

/// Something has become of a packet of a real program ([`Foreign`]), which an emulation carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// A link has made a copy of it.
    Copied { handle: u32 },
    /// The packet reaches the end of its route at the present time.
    Delivered { at: Time, portal: usize, side: Side, handle: u32, ecn: Ecn },
    /// A link drops it.
    Dropped { handle: u32 },
}

/// What the event of a packet at the end of its route turns out to be.
pub(super) enum AtEnd {
    /// The packet arrives at this side of this flow.
    Arrives(Box<Packet>, usize, Side),
    /// Fragments of it are missing.
    Waits,
}

/// A packet in flight, as it is known on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traveller {
    pub(super) slot: u32,
    pub(super) route: u32,
    pub(super) size: u32,
}

impl Network {
    pub(super) fn new(
        links: Vec<DuplexLink>,
        media: Media,
        routes: Routes,
        end: Time,
        trace: Option<Box<Trace>>,
        capture: Option<Box<Capture>>,
    ) -> Self {
        Self {
            now: Time::ZERO,
            queue: EventQueue::new(2 * links.len()),
            links,
            tally: Tally::default(),
            trace,
            capture,
            packets: PacketSlab::default(),
            datagrams: Datagrams::default(),
            routes,
            until_check: 1,
            end,
            media_alarms: vec![Alarm::OFF; media.list.len()],
            media,
            releases: Vec::new(),
            exits: Vec::new(),
        }
    }

    /// Tells that links are not asked for their counters before this time.
    pub(super) fn expect_no_report_before(&mut self, time: Time) {
        self.links.iter_mut().for_each(|link| link.expect_no_report_before(time));
    }

    /// Bytes of memory in use by everything that grows with time.
    pub(super) fn memory(&self) -> usize {
        let trace = self.trace.as_ref().map_or(0, |trace| {
            trace.memory() + self.links.iter().map(DuplexLink::trace_memory).sum::<usize>()
        });
        let capture = self.capture.as_ref().map_or(0, |capture| capture.memory());
        let packets = self.packets.memory() + self.datagrams.memory() + capture;
        packets + self.queue.memory() + self.tally.memory() + trace + self.media.memory()
    }

    /// Handles the event of a packet at the end of its route.
    #[inline]
    pub(super) fn take_delivered(&mut self, slot: u32) -> AtEnd {
        let InFlight { packet, route, trace_row, .. } = self.packets.remove(slot);
        if let Some(capture) = &mut self.capture {
            capture.arrives(self.now, slot, packet.ecn);
        }
        if let Body::Fragment(fragment) = packet.body {
            let Some((packet, trace_row)) = self.datagrams.arrive(fragment, packet.ecn) else {
                return AtEnd::Waits;
            };
            return self.deliver(packet, route, trace_row);
        }
        self.deliver(packet, route, trace_row)
    }

    /// A packet of a real program has come to the end of its path, now.
    #[cold]
    pub(super) fn leave_by_portal(&mut self, portal: usize, side: Side, packet: &Packet) {
        if let Body::Foreign(Foreign { handle, .. }) = packet.body {
            self.exits.push(Exit::Delivered { at: self.now, portal, side, handle, ecn: packet.ecn });
        }
    }

    /// Takes an IP packet that has come whole to the end of its route.
    #[inline]
    fn deliver(&mut self, packet: Box<Packet>, route: u32, trace_row: u32) -> AtEnd {
        self.tally.delivered += 1;
        if let Some(trace) = &mut self.trace {
            trace.packets.delivered(self.now, trace_row, packet.ecn);
        }
        let (flow, side) = self.routes.receiver(route);
        AtEnd::Arrives(packet, flow, side)
    }

    pub(super) fn check_conservation(&self) {
        let whole = self.packets.len() as u64 - self.datagrams.fragments() as u64;
        self.tally.check(whole + self.datagrams.in_flight() as u64);
        for (index, link) in self.links.iter().enumerate() {
            for direction in Direction::BOTH.into_iter().filter(|&direction| link.has_medium(direction)) {
                let in_medium = self.media.holds(index as u32, direction);
                assert_eq!(link.held(direction), in_medium, "a medium has what its links hold");
            }
        }
    }

    /// Takes a packet that an endpoint sends now, and computes its way as far as nothing has to be waited
    /// for.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "its callers are two, and both are on the path of most packets")]
    pub(super) fn transmit(&mut self, flow: u32, sender: Side, packet: Box<Packet>) {
        self.tally.sent += 1;
        let trace_row =
            self.trace.as_mut().map_or(0, |trace| trace.packets.sent(self.now, flow, sender, &packet));
        let route = self.routes.route(flow, sender, packet.path.index());
        let hop = self.routes.first_hop(route);
        let size = packet.size;
        let progress = Progress::ToEvent;
        let slot = self.packets.insert(InFlight { packet, route, hop, progress, trace_row });
        if self.capture.is_some() {
            self.capture_sent(slot, flow, sender);
        }
        self.travel(Traveller { slot, route, size }, hop, self.now, false);
    }

    /// Handles the event of a packet at a link.
    pub(super) fn on_link_event(&mut self, slot: u32) {
        let now = self.now;
        let in_flight = self.packets.get_mut(slot);
        let InFlight { route, hop, .. } = *in_flight;
        let Packet { size, ecn, .. } = *in_flight.packet;
        let traveller = Traveller { slot, route, size };
        if in_flight.progress != Progress::OnWire {
            if let Some(capture) = &mut self.capture {
                let Hop { link, direction, .. } = self.routes.hops[hop as usize];
                capture.enters(now, slot, link, direction, ecn);
            }
            return self.travel(traveller, hop, now, true);
        }
        in_flight.progress = Progress::ToEvent;
        let Hop { link, direction, .. } = self.routes.hops[hop as usize];
        let step = self.links[link as usize].resume(now, direction, size, ecn);
        if self.trace.is_some() {
            self.links[link as usize].record_loss_state(now, direction);
            self.trace_end(slot, None, Some(now), now, step);
        }
        if let Some(at) = self.take_step(traveller, hop, now, step) {
            self.leave_hop(traveller, hop, at);
        }
    }

    /// Takes a packet along its route from this hop on, as far as nothing has to be waited for. `has_turn`:
    /// its arrival there has had its event.
    fn travel(&mut self, traveller: Traveller, mut hop: u32, mut at: Time, mut has_turn: bool) {
        let Traveller { slot, size, .. } = traveller;
        let known = self.end.min(self.now + DuplexLink::AHEAD_LIMIT);
        loop {
            let Hop { link, direction, turn, is_last } = self.routes.hops[hop as usize];
            if turn != Turn::Ahead && !self.takes_turn(traveller, hop, at, has_turn) {
                return;
            }
            has_turn = false;
            let duplex = &mut self.links[link as usize];
            if at > known {
                if at > self.end {
                    return;
                }
                duplex.runs_ahead(direction, at, self.now);
            }
            let arrival = match duplex.pass(at, direction, size) {
                Pass::Arrives(arrival) => arrival,
                Pass::Lost => {
                    if self.trace.is_some() {
                        self.trace_loss(slot, hop, at);
                    }
                    return self.drop_packet(slot, DropCause::Lost, link, at);
                }
                Pass::Undecided => match self.decide(traveller, hop, at) {
                    Some(arrival) => arrival,
                    None => return,
                },
            };
            if is_last {
                return self.arrive(traveller, link, direction, arrival);
            }
            at = arrival;
            hop += 1;
        }
    }

    /// Whether a packet that comes to a hop which is not computed ahead continues at once.
    #[inline]
    fn takes_turn(&mut self, traveller: Traveller, hop: u32, at: Time, has_turn: bool) -> bool {
        let Traveller { slot, route, .. } = traveller;
        match self.routes.hops[hop as usize].turn {
            Turn::Ahead => true,
            // A packet comes to its first hop now, in the order of the events that send packets, so it needs
            // no event of its own.
            Turn::Held if has_turn || hop == self.routes.first_hop(route) => {
                self.hold(traveller, hop);
                false
            }
            Turn::Held | Turn::Waits => {
                if !has_turn {
                    self.packets.get_mut(slot).hop = hop;
                    self.queue.push_packet(at, Class::Link, route, slot);
                }
                has_turn
            }
        }
    }

    /// Hands a packet, about which there is something to decide, to the link of this hop. Returns its arrival
    /// at the other end if it continues at once.
    fn decide(&mut self, traveller: Traveller, hop: u32, at: Time) -> Option<Time> {
        let Hop { link, direction, .. } = self.routes.hops[hop as usize];
        let ecn = self.packets.get_mut(traveller.slot).packet.ecn;
        let step = self.links[link as usize].decide(at, direction, traveller.size, ecn);
        if self.trace.is_some() {
            self.trace_hop(traveller.slot, hop, at, step);
        }
        if let Step::Deliver { at, ecn, copy: None } = step {
            self.packets.get_mut(traveller.slot).packet.ecn = ecn;
            return Some(at);
        }
        self.take_step(traveller, hop, at, step)
    }

    /// Handles the step of a link that a packet entered at `entered`. Returns its arrival at the other end if
    /// it continues at once.
    #[inline]
    pub(super) fn take_step(
        &mut self,
        traveller: Traveller,
        hop: u32,
        entered: Time,
        step: Step,
    ) -> Option<Time> {
        let Traveller { slot, route, .. } = traveller;
        let in_flight = self.packets.get_mut(slot);
        match step {
            Step::Deliver { at, ecn, copy } => {
                in_flight.packet.ecn = ecn;
                let Some(copy_at) = copy else { return Some(at) };
                // The copy follows immediately, before any later packet.
                let copy = self.duplicate(slot, entered);
                let copied_row = self.packets.get_mut(copy).trace_row;
                if let Some(trace) = &mut self.trace {
                    trace.hops.copied(copied_row, copy_at);
                }
                self.leave_hop(traveller, hop, at);
                self.leave_hop(Traveller { slot: copy, ..traveller }, hop, copy_at);
            }
            Step::Cross { at, ecn } => {
                in_flight.hop = hop;
                in_flight.progress = Progress::OnWire;
                in_flight.packet.ecn = ecn;
                self.queue.push_packet(at, Class::Link, route, slot);
            }
            Step::Drop(cause) => {
                let Hop { link, .. } = self.routes.hops[hop as usize];
                self.drop_packet(slot, cause, link, entered);
            }
            Step::Stays => {}
        }
        None
    }

    /// Handles a packet that has just left this hop: it continues to the next one, or arrives.
    pub(super) fn leave_hop(&mut self, traveller: Traveller, hop: u32, at: Time) {
        let Hop { link, direction, is_last, .. } = self.routes.hops[hop as usize];
        if is_last {
            self.arrive(traveller, link, direction, at);
        } else {
            self.travel(traveller, hop + 1, at, false);
        }
    }

    /// Schedules that a packet comes to the end of its route at this time, mostly after all that have taken
    /// this link.
    #[expect(clippy::inline_always, reason = "one call per packet")]
    #[inline(always)]
    fn arrive(&mut self, traveller: Traveller, link: u32, direction: Direction, at: Time) {
        let Traveller { slot, route, .. } = traveller;
        let lane = 2 * link + direction.index() as u32;
        self.queue.push_in_lane(at, Class::Endpoint, route, slot, lane);
    }

    /// Captures a packet that its host sends now.
    #[cold]
    fn capture_sent(&mut self, slot: u32, flow: u32, sender: Side) {
        let Some(capture) = &mut self.capture else { return };
        let InFlight { packet, hop, .. } = &*self.packets.get_mut(slot);
        let Hop { link, direction, .. } = self.routes.hops[*hop as usize];
        capture.sent(self.now, slot, flow, sender, packet);
        capture.enters(self.now, slot, link, direction, packet.ecn);
    }

    fn drop_packet(&mut self, slot: u32, cause: DropCause, link: u32, at: Time) {
        if let Some(capture) = &mut self.capture {
            capture.dropped(slot, cause);
        }
        let InFlight { packet, trace_row, .. } = self.packets.remove(slot);
        let fragment = match packet.body {
            Body::Fragment(fragment) => Some(fragment),
            Body::Foreign(Foreign { handle, .. }) => {
                self.exits.push(Exit::Dropped { handle });
                None
            }
            _ => None,
        };
        self.lose(trace_row, fragment, Loss { at, link, cause });
    }

    /// A packet is lost; or a fragment, and with it its packet, unless that was lost before.
    pub(super) fn lose(&mut self, trace_row: u32, fragment: Option<Fragment>, loss: Loss) {
        let Some(fragment) = fragment else { return self.record_drop(trace_row, loss) };
        let Some(Lost { trace_row, loss, corrects }) = self.datagrams.lose(fragment, loss) else { return };
        if let Some(before) = corrects {
            self.tally.take_back_drop(before);
        }
        self.record_drop(trace_row, loss);
    }

    fn record_drop(&mut self, trace_row: u32, Loss { at, link, cause }: Loss) {
        if let Some(trace) = &mut self.trace {
            trace.packets.dropped(trace_row, cause.name(), link, at);
        }
        self.tally.count_drop(self.now, at);
    }

    /// Makes a copy of a packet in flight, for a link that the packet entered at `at`, and returns the slot
    /// of the copy.
    fn duplicate(&mut self, slot: u32, at: Time) -> u32 {
        let original = self.packets.get_mut(slot);
        let mut copy = InFlight { packet: original.packet.clone(), ..*original };
        if let Body::Fragment(fragment) = copy.packet.body {
            copy.packet.body = self.datagrams.duplicate(fragment);
            return self.insert_copy(slot, copy);
        }
        if let Body::Foreign(Foreign { handle, .. }) = copy.packet.body {
            self.exits.push(Exit::Copied { handle });
        }
        self.tally.duplicated += 1;
        if let Some(trace) = &mut self.trace {
            copy.trace_row = trace.packets.duplicated(copy.trace_row, at);
        }
        self.insert_copy(slot, copy)
    }

    fn insert_copy(&mut self, original: u32, copy: InFlight) -> u32 {
        let slot = self.packets.insert(copy);
        if let Some(capture) = &mut self.capture {
            capture.duplicated(original, slot);
        }
        slot
    }
}
