//! Records of the trace of hops: when packets come to links, leave their servers and arrive after them.

use anabranch_transport::time::Time;

use super::network::Network;
use crate::net::{DropCause, Fate, Release, Step};
use crate::trace::{Hop, HopEnd};

impl Network {
    /// Records what the link of this hop does with a packet that entered it at `entered`.
    #[cold]
    pub(super) fn trace_hop(&mut self, slot: u32, hop: u32, entered: Time, step: Step) {
        let super::topology::Hop { link, direction, .. } = self.routes.hops[hop as usize];
        let service = self.links[link as usize].take_service(direction);
        let (begun, left) = (service.map(|(begun, _)| begun), service.map(|(_, left)| left));
        let end = match step {
            Step::Cross { .. } | Step::Stays => HopEnd::OnLink,
            Step::Deliver { at, .. } => HopEnd::Arrived(at),
            Step::Drop(cause) => HopEnd::Dropped(cause, left.unwrap_or(entered)),
        };
        self.links[link as usize].record_loss_state(left.unwrap_or(entered), direction);
        let packet = self.packets.get_mut(slot).trace_row;
        let Some(trace) = &mut self.trace else { return };
        let row = trace.hops.record(Hop { packet, number: hop, link, direction, entered, begun, left, end });
        if matches!(step, Step::Cross { .. }) {
            trace.hops.keep_open(slot, row);
        }
    }

    /// Records that a packet is lost before the queue of a link.
    #[cold]
    pub(super) fn trace_loss(&mut self, slot: u32, hop: u32, entered: Time) {
        self.trace_hop(slot, hop, entered, Step::Drop(DropCause::Lost));
    }

    /// Records that a medium has taken a packet, now.
    #[cold]
    pub(super) fn trace_held(&mut self, slot: u32, hop: u32) {
        let super::topology::Hop { link, direction, .. } = self.routes.hops[hop as usize];
        let packet = self.packets.get_mut(slot).trace_row;
        let entered = self.now;
        let Some(trace) = &mut self.trace else { return };
        let end = HopEnd::OnLink;
        let row = trace.hops.record(Hop {
            packet,
            number: hop,
            link,
            direction,
            entered,
            begun: None,
            left: None,
            end,
        });
        trace.hops.keep_open(slot, row);
    }

    /// Records that a medium releases a packet, and what the link does with it.
    #[cold]
    pub(super) fn trace_release(&mut self, release: &Release, step: Step) {
        let at = Time::from_nanos(release.at);
        let is_served = matches!(
            release.fate,
            Fate::Copied | Fate::Delivered | Fate::Dropped(DropCause::Corrupted | DropCause::Lost)
        );
        self.links[release.link as usize].record_loss_state(at, release.direction);
        let begun = release.begun.map(Time::from_nanos);
        self.trace_end(release.packet.slot, begun, is_served.then_some(at), at, step);
    }

    /// Records the end of a packet's stay at a link or in its medium, which lasted until `at`.
    #[cold]
    pub(super) fn trace_end(
        &mut self,
        slot: u32,
        begun: Option<Time>,
        left: Option<Time>,
        at: Time,
        step: Step,
    ) {
        let Some(trace) = &mut self.trace else { return };
        let end = match step {
            Step::Cross { .. } | Step::Stays => HopEnd::OnLink,
            Step::Deliver { at, .. } => HopEnd::Arrived(at),
            Step::Drop(cause) => HopEnd::Dropped(cause, at),
        };
        trace.hops.close(slot, begun, left, end);
    }
}
