//! The packets of a run and the links that they cross.
//!
//! A packet crosses as many links as possible in one computation; an event exists only where its order
//! among other packets or a random draw of a shared process decides something (see
//! [`Routes::set_turns`]), and at the end of its route.

use anabranch_transport::ground::{Ecn, Side};
use anabranch_transport::time::Time;
use anabranch_transport::wire::{Body, Fragment, Packet};

use super::event_queue::{Class, EventQueue};
use super::flow::{self, Alarm};
use super::fragments::{Datagrams, Loss, Lost};
use super::packets::{InFlight, PacketSlab, Progress};
use super::topology::{Hop, Label, Routes, Turn};
use crate::net::{Direction, DropCause, DuplexLink, Held, Media, Release, Ring, Step};
use crate::trace::Trace;

/// Links, packets in flight, and the events to come.
pub(super) struct Network {
    pub(super) now: Time,
    pub(super) queue: EventQueue,
    pub(super) links: Vec<DuplexLink>,
    pub(super) counters: Counters,
    pub(super) trace: Option<Box<Trace>>,
    packets: PacketSlab,
    datagrams: Datagrams,
    routes: Routes,
    /// Events until the run's limits are looked at again, at least 1. What makes an event long brings that nearer.
    pub(super) until_check: u64,
    /// When the run ends at the latest.
    end: Time,
    /// For each link, the packets that came to it at the end of their routes and are left for later, in
    /// order.
    late: Vec<Ring<LatePacket>>,
    /// Packets lost there whose events have not come up.
    lost_late: u64,
    /// Times after `now` at which links drop packets that were carried there ahead, and some earlier ones.
    drops_ahead: Vec<Time>,
    pub(super) media: Media,
    /// When each medium acts next.
    media_alarms: Vec<Alarm>,
    releases: Vec<Release>,
}

/// A packet in flight, as it is known on its way.
#[derive(Clone, Copy, Debug)]
struct Traveller {
    slot: u32,
    route: u32,
    size: u32,
}

/// A packet at the last hop of its route, which is computed later.
#[derive(Clone, Copy, Debug)]
struct LatePacket {
    /// When it came there.
    at: Time,
    slot: u32,
    size: u32,
    direction: Direction,
}

impl Default for LatePacket {
    fn default() -> Self {
        Self { at: Time::ZERO, slot: 0, size: 0, direction: Direction::Forward }
    }
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
    pub(super) fn new(
        links: Vec<DuplexLink>,
        media: Media,
        routes: Routes,
        end: Time,
        trace: Option<Box<Trace>>,
    ) -> Self {
        Self {
            now: Time::ZERO,
            queue: EventQueue::default(),
            late: links.iter().map(|_| Ring::default()).collect(),
            lost_late: 0,
            links,
            counters: Counters::default(),
            trace,
            packets: PacketSlab::default(),
            datagrams: Datagrams::default(),
            routes,
            until_check: 1,
            end,
            drops_ahead: Vec::new(),
            media_alarms: vec![Alarm::OFF; media.list.len()],
            media,
            releases: Vec::new(),
        }
    }

    /// Bytes of memory in use by what grows with time.
    pub(super) fn memory(&self) -> usize {
        let trace = self.trace.as_ref().map_or(0, |trace| {
            trace.memory() + self.links.iter().map(DuplexLink::trace_memory).sum::<usize>()
        });
        let late: usize = self.late.iter().map(Ring::memory).sum();
        let drops = self.drops_ahead.capacity() * size_of::<Time>();
        let packets = self.packets.memory() + self.datagrams.memory();
        packets + self.queue.memory() + late + drops + trace + self.media.memory()
    }

    /// The event of a packet at the end of its route: the packet, if it has arrived, the flow and the side
    /// that it arrives at.
    #[inline]
    pub(super) fn take_delivered(&mut self, slot: u32) -> Option<(Box<Packet>, usize, Side)> {
        if self.packets.get_mut(slot).progress != Progress::OnTime && !self.has_arrived(slot) {
            return None;
        }
        let InFlight { packet, route, trace_row, .. } = self.packets.remove(slot);
        if let Body::Fragment(fragment) = packet.body {
            let (packet, trace_row) = self.datagrams.arrive(fragment, packet.ecn)?;
            return Some(self.deliver(packet, route, trace_row));
        }
        Some(self.deliver(packet, route, trace_row))
    }

    /// An IP packet has come to the end of its route: itself, the flow and the side that it arrives at.
    #[inline]
    fn deliver(&mut self, packet: Box<Packet>, route: u32, trace_row: u32) -> (Box<Packet>, usize, Side) {
        self.counters.delivered += 1;
        if let Some(trace) = &mut self.trace {
            trace.packets.delivered(self.now, trace_row);
        }
        let (flow, side) = self.routes.receiver(route);
        (packet, flow, side)
    }

    pub(super) fn check_conservation(&self) {
        let Counters { sent, duplicated, delivered, dropped } = self.counters;
        let whole = self.packets.len() as u64 - self.lost_late - self.datagrams.fragments() as u64;
        let in_flight = whole + self.datagrams.in_flight() as u64;
        assert_eq!(sent + duplicated, delivered + dropped + in_flight, "packets are conserved");
        for (index, link) in self.links.iter().enumerate() {
            for direction in Direction::BOTH.into_iter().filter(|&direction| link.has_medium(direction)) {
                let in_medium = self.media.holds(index as u32, direction);
                assert_eq!(link.held(direction), in_medium, "a medium has what its links hold");
            }
        }
    }

    /// Takes a packet that an endpoint sends now as far as nothing has to be waited for.
    #[inline]
    pub(super) fn transmit(&mut self, flow: u32, sender: Side, packet: Box<Packet>) {
        self.counters.sent += 1;
        let trace_row =
            self.trace.as_mut().map_or(0, |trace| trace.packets.sent(self.now, flow, sender, &packet));
        let route = self.routes.route(flow, sender, packet.path.index());
        let hop = self.routes.first_hop(route);
        let size = packet.size;
        let progress = Progress::OnTime;
        let slot = self.packets.insert(InFlight { packet, route, hop, progress, trace_row });
        self.travel(Traveller { slot, route, size }, hop, self.now, false);
    }

    /// The event of a packet at a link.
    pub(super) fn go_on(&mut self, slot: u32) {
        let now = self.now;
        let in_flight = self.packets.get_mut(slot);
        let InFlight { route, hop, .. } = *in_flight;
        let Packet { size, ecn, .. } = *in_flight.packet;
        let traveller = Traveller { slot, route, size };
        if in_flight.progress != Progress::Crossing {
            return self.travel(traveller, hop, now, true);
        }
        in_flight.progress = Progress::OnTime;
        let Hop { link, direction, .. } = self.routes.hops[hop as usize];
        let step = self.links[link as usize].resume(now, direction, size, ecn);
        if let Some(at) = self.take_step(traveller, hop, now, step) {
            self.leave_hop(traveller, hop, at);
        }
    }

    /// The event of a medium: packets that it releases go on.
    pub(super) fn act(&mut self, medium: u32) {
        match self.media_alarms[medium as usize].ring(self.now) {
            flow::Ring::Due => {}
            flow::Ring::Later(time) => return self.queue.push(time, Class::Medium, medium),
            flow::Ring::Stale => return,
        }
        let mut releases = std::mem::take(&mut self.releases);
        self.media.list[medium as usize].handle_event(self.now, &mut releases);
        self.let_go(releases);
        self.wind(medium);
    }

    /// Packets that a medium releases go on.
    fn let_go(&mut self, mut releases: Vec<Release>) {
        for release in releases.drain(..) {
            let slot = release.packet.slot;
            let in_flight = self.packets.get_mut(slot);
            let InFlight { route, hop, .. } = *in_flight;
            let size = in_flight.packet.size;
            let traveller = Traveller { slot, route, size };
            let step = self.links[release.link as usize].release(&release);
            if let Some(at) = self.take_step(traveller, hop, Time::from_nanos(release.at), step) {
                self.leave_hop(traveller, hop, at);
            }
        }
        self.releases = releases;
    }

    /// A packet comes to a link that a medium serves, now.
    fn hold(&mut self, traveller: Traveller, hop: u32) {
        let Hop { link, .. } = self.routes.hops[hop as usize];
        match self.links[link as usize].mtu() {
            Some(mtu) if traveller.size > mtu => self.hold_fragments(traveller, hop, mtu),
            _ => self.hold_whole(traveller, hop),
        }
    }

    /// It is cut into fragments.
    #[cold]
    fn hold_fragments(&mut self, Traveller { slot, route, .. }: Traveller, hop: u32, mtu: u32) {
        let InFlight { packet, trace_row, .. } = self.packets.remove(slot);
        let fragments = self.datagrams.cut(packet, trace_row, mtu);
        // Each of them is as much work as an event.
        self.until_check = self.until_check.saturating_sub(fragments.len() as u64).max(1);
        for packet in fragments {
            let (size, packet, progress) = (packet.size, Box::new(packet), Progress::OnTime);
            let slot = self.packets.insert(InFlight { packet, route, hop, progress, trace_row });
            self.hold_whole(Traveller { slot, route, size }, hop);
        }
    }

    fn hold_whole(&mut self, traveller: Traveller, hop: u32) {
        let Traveller { slot, route, size } = traveller;
        let Hop { link, direction, .. } = self.routes.hops[hop as usize];
        let now = self.now;
        let in_flight = self.packets.get_mut(slot);
        in_flight.hop = hop;
        let ecn = in_flight.packet.ecn;
        let duplex = &mut self.links[link as usize];
        if let Err(step) = duplex.hold(now, direction, size) {
            self.take_step(traveller, hop, now, step);
            return;
        }
        let (medium, port) = self.media.port(link, direction).expect("a link that holds has a medium");
        let arrived = now.as_nanos();
        let Label { flow, hosts } = self.routes.label(route);
        let size = duplex.wire_size(direction, size);
        let held = Held { slot, arrived, size, ecn, flow, hosts, found_units: 0, is_marked: false };
        let mut releases = std::mem::take(&mut self.releases);
        self.media.list[medium as usize].accept(port, held, &mut releases);
        self.let_go(releases);
        self.wind(medium);
    }

    /// Sets the alarm of a medium that was called.
    fn wind(&mut self, medium: u32) {
        let next = self.media.list[medium as usize].next_event();
        if let Some(time) = self.media_alarms[medium as usize].set(next) {
            self.queue.push(time, Class::Medium, medium);
        }
    }

    /// Takes a packet along its route from this hop on, as far as nothing has to be waited for. `has_turn`: its
    /// arrival there has had its event.
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
                duplex.runs_ahead_by(direction, at - self.now);
            }
            if duplex.loses_on_arrival(at, direction, size) {
                return self.drop_packet(slot, DropCause::Lost, link, at);
            }
            let arrival = match duplex.accept_surely(at, direction, size) {
                Some(arrival) => arrival,
                None => match self.accept(traveller, hop, at) {
                    Some(arrival) => arrival,
                    None => return,
                },
            };
            if is_last {
                return self.arrive(traveller, arrival);
            }
            at = arrival;
            hop += 1;
        }
    }

    /// Whether a packet that comes to a hop which is not computed ahead goes on at once.
    #[inline]
    fn takes_turn(&mut self, traveller: Traveller, hop: u32, at: Time, has_turn: bool) -> bool {
        let Traveller { slot, route, size } = traveller;
        let Hop { link, direction, turn, .. } = self.routes.hops[hop as usize];
        match turn {
            Turn::Ahead => true,
            Turn::AfterLate => {
                self.resolve_late(link, at);
                true
            }
            Turn::Late if has_turn => {
                self.resolve_late(link, at);
                true
            }
            // What is sent in the other direction by the event at work comes before a packet that comes now.
            Turn::Late if at > self.now => {
                if at <= self.end {
                    self.packets.get_mut(slot).progress = Progress::Late(link);
                    let earliest = self.links[link as usize].earliest_arrival(at, direction, size);
                    self.late[link as usize].push_back(LatePacket { at, slot, size, direction });
                    self.arrive(traveller, earliest);
                }
                false
            }
            // What its host sends comes now, in the order of the events that send it.
            Turn::Held if has_turn || hop == self.routes.first_hop(route) => {
                self.hold(traveller, hop);
                false
            }
            Turn::Held | Turn::Late | Turn::Waits => {
                if !has_turn {
                    self.packets.get_mut(slot).hop = hop;
                    self.queue.push_packet(at, Class::Link, route, slot);
                }
                has_turn
            }
        }
    }

    /// The link of this hop takes a packet about which there is something to decide. Returns its arrival
    /// at the other end if it goes on at once.
    fn accept(&mut self, traveller: Traveller, hop: u32, at: Time) -> Option<Time> {
        let Hop { link, direction, .. } = self.routes.hops[hop as usize];
        let ecn = self.packets.get_mut(traveller.slot).packet.ecn;
        let step = self.links[link as usize].accept_arrived(at, direction, traveller.size, ecn);
        self.take_step(traveller, hop, at, step)
    }

    /// What a link that a packet entered at `entered` does with it. Returns its arrival at the other end if
    /// it goes on at once.
    #[inline]
    fn take_step(&mut self, traveller: Traveller, hop: u32, entered: Time, step: Step) -> Option<Time> {
        let Traveller { slot, route, .. } = traveller;
        let in_flight = self.packets.get_mut(slot);
        match step {
            Step::Deliver { at, ecn, copy } => {
                in_flight.packet.ecn = ecn;
                let Some(copy_at) = copy else { return Some(at) };
                // The copy follows at once, before any later packet.
                let copy = self.duplicate(slot, entered);
                self.leave_hop(traveller, hop, at);
                self.leave_hop(Traveller { slot: copy, ..traveller }, hop, copy_at);
            }
            Step::Cross { at, ecn } => {
                in_flight.hop = hop;
                in_flight.progress = Progress::Crossing;
                in_flight.packet.ecn = ecn;
                self.queue.push_packet(at, Class::Link, route, slot);
            }
            Step::Drop(cause) => {
                let Hop { link, .. } = self.routes.hops[hop as usize];
                self.drop_packet(slot, cause, link, entered);
            }
            Step::Held => {}
        }
        None
    }

    /// Takes a packet on from the link that it has just left.
    fn leave_hop(&mut self, traveller: Traveller, hop: u32, at: Time) {
        if self.routes.hops[hop as usize].is_last {
            self.arrive(traveller, at);
        } else {
            self.travel(traveller, hop + 1, at, false);
        }
    }

    /// A packet comes to the end of its route at this time.
    #[inline]
    fn arrive(&mut self, Traveller { slot, route, .. }: Traveller, at: Time) {
        self.queue.push_packet(at, Class::Endpoint, route, slot);
    }

    /// Whether a packet whose last hop was left for later has arrived by its event, now. If it arrives
    /// later, it gets another event.
    fn has_arrived(&mut self, slot: u32) -> bool {
        if let Progress::Late(link) = self.packets.get_mut(slot).progress {
            self.resolve_late(link, self.now);
        }
        let in_flight = self.packets.get_mut(slot);
        match in_flight.progress {
            Progress::Arriving(at) if at > self.now => {
                in_flight.progress = Progress::OnTime;
                self.queue.push_packet(at, Class::Endpoint, in_flight.route, slot);
                false
            }
            Progress::Lost => {
                self.packets.remove(slot);
                self.lost_late -= 1;
                false
            }
            Progress::OnTime | Progress::Arriving(_) => true,
            Progress::Crossing | Progress::Late(_) => unreachable!("it has been resolved by its event"),
        }
    }

    /// Computes what has come to this link by `until` and was left for later.
    #[inline]
    fn resolve_late(&mut self, link: u32, until: Time) {
        while let Some(&mut packet) = self.late[link as usize].front_mut()
            && packet.at <= until
        {
            self.late[link as usize].pop_front();
            self.resolve(link, packet);
        }
    }

    /// Computes the last hop of a packet.
    #[inline]
    fn resolve(&mut self, link: u32, LatePacket { at, slot, size, direction }: LatePacket) {
        // Such a link does not look at the ECN field.
        match self.links[link as usize].accept(at, direction, size, Ecn::NotEct) {
            Step::Deliver { at: arrival, .. } => {
                self.packets.get_mut(slot).progress = Progress::Arriving(arrival);
            }
            Step::Drop(cause) => {
                let in_flight = self.packets.get_mut(slot);
                in_flight.progress = Progress::Lost;
                let (trace_row, body) = (in_flight.trace_row, &in_flight.packet.body);
                let fragment = if let Body::Fragment(fragment) = *body { Some(fragment) } else { None };
                self.lost_late += 1;
                self.lose(trace_row, fragment, Loss { at, link, cause });
            }
            Step::Cross { .. } | Step::Held => unreachable!("such a link is not left for later"),
        }
    }

    /// Computes everything that has happened by now.
    pub(super) fn settle(&mut self, now: Time) {
        for link in 0..self.late.len() as u32 {
            self.resolve_late(link, now);
        }
    }

    fn drop_packet(&mut self, slot: u32, cause: DropCause, link: u32, at: Time) {
        let InFlight { packet, trace_row, .. } = self.packets.remove(slot);
        let fragment = if let Body::Fragment(fragment) = packet.body { Some(fragment) } else { None };
        self.lose(trace_row, fragment, Loss { at, link, cause });
    }

    /// A packet is lost, or a fragment and perhaps its packet.
    fn lose(&mut self, trace_row: u32, fragment: Option<Fragment>, loss: Loss) {
        let Some(fragment) = fragment else { return self.note_drop(trace_row, loss) };
        let Some(Lost { trace_row, loss, corrects }) = self.datagrams.lose(fragment, loss) else { return };
        if let Some(before) = corrects {
            self.counters.dropped -= 1;
            if let Some(index) = self.drops_ahead.iter().position(|&at| at == before) {
                self.drops_ahead.swap_remove(index);
            }
        }
        self.note_drop(trace_row, loss);
    }

    fn note_drop(&mut self, trace_row: u32, Loss { at, link, cause }: Loss) {
        if let Some(trace) = &mut self.trace {
            trace.packets.dropped(trace_row, cause.name(), link, at);
        }
        self.count_drop(at);
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
        let original = self.packets.get_mut(slot);
        let mut copy = InFlight { packet: original.packet.clone(), ..*original };
        if let Body::Fragment(fragment) = copy.packet.body {
            copy.packet.body = self.datagrams.duplicate(fragment);
            return self.packets.insert(copy);
        }
        self.counters.duplicated += 1;
        if let Some(trace) = &mut self.trace {
            copy.trace_row = trace.packets.duplicated(copy.trace_row, at);
        }
        self.packets.insert(copy)
    }
}
