//! Packets on links that a medium serves ([`Turn::Held`](super::topology::Turn::Held)): they wait in the
//! medium until one of its events releases them.

use anabranch_transport::time::Time;

use super::alarm::Rung;
use super::event_queue::Class;
use super::fragments::HEADER_BYTES;
use super::network::{Network, Traveller};
use super::packets::{InFlight, Progress};
use super::topology::{Hop, Label};
use crate::net::{Held, Medium, Release, Treatment};

impl Network {
    /// Handles the event of a medium: the packets that it releases are forwarded.
    pub(super) fn on_medium_event(&mut self, medium: u32) {
        match self.media_alarms[medium as usize].ring(self.now) {
            Rung::Due => {}
            Rung::Later(time) => return self.queue.push(time, Class::Medium, medium),
            Rung::Stale => return,
        }
        let mut releases = std::mem::take(&mut self.releases);
        self.media.list[medium as usize].handle_event(self.now, &mut releases);
        self.forward(releases);
        self.set_medium_alarm(medium);
    }

    /// Lets everything happen in all media up to this time, if that is put off, so that links can report.
    pub(super) fn catch_up(&mut self, until: Time) {
        for medium in 0..self.media.list.len() as u32 {
            self.catch_up_medium(medium, until);
        }
    }

    /// Lets everything happen in a medium up to this time, if that is put off.
    pub(super) fn catch_up_medium(&mut self, medium: u32, until: Time) {
        let mut releases = std::mem::take(&mut self.releases);
        self.media.list[medium as usize].catch_up(until, &mut releases);
        self.forward(releases);
        self.set_medium_alarm(medium);
    }

    /// Forwards the packets that a medium releases.
    fn forward(&mut self, mut releases: Vec<Release>) {
        for release in releases.drain(..) {
            let slot = release.packet.slot;
            let in_flight = self.packets.get_mut(slot);
            let InFlight { route, hop, .. } = *in_flight;
            let size = in_flight.packet.size;
            let traveller = Traveller { slot, route, size };
            let step = self.links[release.link as usize].release(&release);
            if self.trace.is_some() {
                self.trace_release(&release, step);
            }
            if let Some(at) = self.take_step(traveller, hop, Time::from_nanos(release.at), step) {
                self.leave_hop(traveller, hop, at);
            }
        }
        self.releases = releases;
    }

    /// Gives a packet that comes to a link now to the medium that serves the link.
    pub(super) fn hold(&mut self, traveller: Traveller, hop: u32) {
        let Hop { link, .. } = self.routes.hops[hop as usize];
        match self.links[link as usize].mtu() {
            Some(mtu) if traveller.size > mtu => self.hold_fragments(traveller, hop, mtu),
            _ => self.hold_whole(traveller, hop),
        }
    }

    /// The packet is cut into fragments, each of which is held.
    #[cold]
    fn hold_fragments(&mut self, Traveller { slot, route, .. }: Traveller, hop: u32, mtu: u32) {
        let InFlight { packet, trace_row, .. } = self.packets.remove(slot);
        let whole = self.capture.as_mut().and_then(|capture| capture.cut(slot));
        let fragments = self.datagrams.cut(packet, trace_row, mtu);
        let mut start = 0;
        // Each release is as much work as an event.
        self.until_check = self.until_check.saturating_sub(fragments.len() as u64).max(1);
        for packet in fragments {
            let (size, packet, progress) = (packet.size, Box::new(packet), Progress::ToEvent);
            let slot = self.packets.insert(InFlight { packet, route, hop, progress, trace_row });
            let end = start + size - HEADER_BYTES;
            if let (Some(capture), Some(whole)) = (&mut self.capture, &whole) {
                capture.cut_off(self.now, whole, slot, start, end);
            }
            start = end;
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
        let foreign = in_flight.packet.body.foreign();
        let duplex = &mut self.links[link as usize];
        if let Err(step) = duplex.hold(now, direction, size) {
            if self.trace.is_some() {
                self.trace_hop(slot, hop, now, step);
            }
            self.take_step(traveller, hop, now, step);
            return;
        }
        let (medium, port) = self.media.port(link, direction).expect("a link that holds has a medium");
        let arrived = now.as_nanos();
        let Label { mut flow, hosts, mut dscp } = self.routes.label(route);
        if let Some(of_others) = foreign {
            (flow, dscp) = (of_others.flow, of_others.dscp);
        }
        let size = duplex.wire_size(direction, size);
        let held =
            Held { slot, arrived, size, ecn, flow, hosts, treatment: Treatment::new(dscp), found_units: 0 };
        if self.trace.is_some() {
            self.trace_held(slot, hop);
        }
        let mut releases = std::mem::take(&mut self.releases);
        self.media.list[medium as usize].accept(port, held, &mut releases);
        self.forward(releases);
        self.set_medium_alarm(medium);
    }

    /// A medium serves its queue at the rate of `other` from now on: the same one, built anew.
    #[cold]
    pub(super) fn take_rate(&mut self, medium: u32, other: Medium) {
        let mut releases = std::mem::take(&mut self.releases);
        self.media.list[medium as usize].take_rate(self.now, other, &mut releases);
        self.forward(releases);
        self.set_medium_alarm(medium);
    }

    /// Sets the alarm of a medium after a call, which may have changed its next event.
    fn set_medium_alarm(&mut self, medium: u32) {
        let next = self.media.list[medium as usize].next_event();
        if let Some(time) = self.media_alarms[medium as usize].set(next) {
            self.queue.push(time, Class::Medium, medium);
        }
    }
}
