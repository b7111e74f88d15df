//! Key updates (RFC 9001 section 6): the key phase in which an end sends, and that in which its peer does.
//! The phases of a direction follow each other; a packet says by one bit which of two neighbours it is of.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::connection::{Connection, State};
use super::errors::{Violation, code, violation};
use crate::time::Time;
use crate::wire::quic::Packet;

/// The key phases of both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyPhases {
    /// How many times this end has changed its phase, and the peer its own.
    sending: u64,
    receiving: u64,
    /// The number of this end's first packet in its phase, by path ID, 0 where it is not said.
    first_sent: SmallVec<[u64; 1]>,
    /// The lowest number that came in the peer's, without several paths.
    first_received: u64,
    /// When the peer's phase began.
    received_since: Time,
    /// When the peer acknowledged the first packet of this end's phase.
    acknowledged_at: Option<Time>,
}

impl KeyPhases {
    /// The key phase bit of packets that leave.
    pub(super) const fn bit(&self) -> bool {
        self.sending % 2 == 1
    }

    fn first_sent(&self, place: usize) -> u64 {
        self.first_sent.get(place).copied().unwrap_or(0)
    }

    /// The peer acknowledges a packet with this number.
    pub(super) fn on_acknowledged(&mut self, now: Time, place: usize, number: u64) {
        if number >= self.first_sent(place) {
            self.acknowledged_at.get_or_insert(now);
        }
    }
}

impl Connection {
    /// Takes the key phase of a packet with a short header; whether its key is still there.
    ///
    /// Section 6.3: the bit and the number say of which phase it is. Section 6.5: the keys of the phase
    /// before are kept for three probe timeouts. With several paths a number says nothing on a path on which
    /// nothing has come in this phase; who has keys tries them.
    pub(super) fn take_key_phase(&mut self, now: Time, packet: &Packet) -> Result<bool, Violation> {
        let phases = &self.key_phases;
        let order = if self.multipath.is_some() {
            u64::from(packet.key_updates).cmp(&phases.receiving)
        } else if packet.key_phase == (phases.receiving % 2 == 1) {
            Ordering::Equal
        } else {
            packet.number.cmp(&phases.first_received).then(Ordering::Greater)
        };
        match order {
            Ordering::Equal => {
                self.key_phases.first_received = phases.first_received.min(packet.number);
                return Ok(true);
            }
            Ordering::Less => return Ok(now < phases.received_since + self.longest_timeout() * 3),
            Ordering::Greater => {}
        }
        let follows = phases.sending == phases.receiving;
        if follows && phases.sending > 0 && self.sent_in_phase() == 0 {
            // Section 6.2: no packet of the phase before has acknowledged anything.
            return Err(violation(
                code::KEY_UPDATE_ERROR,
                "a key is updated again before its update is known",
            ));
        }
        let phases = &mut self.key_phases;
        phases.receiving += 1;
        (phases.first_received, phases.received_since) = (packet.number, now);
        if follows {
            // Section 6.2: this end follows before it acknowledges the packet.
            self.begin_key_phase();
        }
        Ok(true)
    }

    /// How many packets have left in this end's phase, on all paths.
    fn sent_in_phase(&self) -> u64 {
        let places = self.paths.iter().enumerate();
        places.map(|(place, path)| path.space.next - self.key_phases.first_sent(place)).sum()
    }

    fn begin_key_phase(&mut self) {
        self.stats.key_updates += 1;
        let phases = &mut self.key_phases;
        phases.sending += 1;
        phases.first_sent = self.paths.iter().map(|path| path.space.next).collect();
        phases.acknowledged_at = None;
    }

    /// Updates the keys once so many packets have left under one, three probe timeouts after the peer was
    /// heard to have the update before (section 6.5), so that no packet is late for its key.
    pub(super) fn update_keys_when_due(&mut self, now: Time) {
        let phases = &self.key_phases;
        if self.sent_in_phase() < self.parameters.key_update {
            return;
        }
        let wait = if phases.sending == 0 { 0 } else { 3 };
        let is_known = |at: Time| now >= at + self.longest_timeout() * wait;
        if phases.acknowledged_at.is_some_and(is_known) {
            self.update_keys();
        }
    }

    /// Updates the keys if the handshake is confirmed, the peer has acknowledged a packet under those in use,
    /// and it has followed the update before (section 6.1). Returns whether it has.
    pub fn update_keys(&mut self) -> bool {
        let phases = &self.key_phases;
        let may = self.state == State::Open
            && self.handshake.is_confirmed
            && phases.sending == phases.receiving
            && phases.acknowledged_at.is_some();
        if may {
            self.begin_key_phase();
        }
        may
    }

    /// How many times the keys of this connection have been updated.
    pub const fn key_updates(&self) -> u64 {
        self.key_phases.sending
    }
}
