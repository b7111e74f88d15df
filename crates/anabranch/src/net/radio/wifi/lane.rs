//! One direction of a link on the channel.

use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::units::Probability;

use super::super::buffer::Buffer;
use super::phy::{CW_MAX, CW_MIN, Phy};
use crate::net::packets::{DropCause, Fate, Held, Release};
use crate::schedule::Timeline;

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) buffer: Buffer,
    /// The rate in bit/s.
    pub(super) rate: Timeline<u64>,
    pub(super) frame_error_rate: Timeline<Probability>,
    pub(super) retry_limit: u32,
    /// The number of its entries among the turns.
    pub(super) turns: u64,
    pub(super) backoff: Rng,
    pub(super) errors: Rng,
    /// Bytes of the packet that was sent last, and the end of its acknowledgement.
    pub(super) serving: u64,
    pub(super) serving_until: u64,
    pub(super) counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) frames: u64,
    pub(super) frame_errors: u64,
    pub(super) collisions: u64,
    pub(super) air_lost: u64,
    pub(super) released: u64,
    pub(super) held_ns: u128,
}

impl Lane {
    /// Sends a packet from now on until it is acknowledged or given up. Returns its release, and when the
    /// channel is free again.
    pub(super) fn send(&mut self, phy: Phy, packet: Held, now: u64) -> (Release, u64) {
        let rate = self.rate.at(now);
        let (mut free_at, mut window) = (now, CW_MIN);
        let mut tries = 0;
        let (at, fate) = loop {
            // Section 10.3.4.3: after the idle time, a backoff of whole slots.
            let backoff = self.backoff.below(u64::from(window) + 1);
            let end = free_at + phy.ifs + backoff * phy.slot + phy.data(packet.size, rate);
            tries += 1;
            self.counters.frames += 1;
            if !self.is_damaged(now) {
                free_at = end + phy.acknowledgement(rate);
                break (end, Fate::Delivered);
            }
            self.counters.frame_errors += 1;
            free_at = end + phy.failure();
            if tries == self.retry_limit {
                break (end, Fate::Dropped(DropCause::Lost));
            }
            // Section 10.3.3: the window doubles with every failure.
            window = (2 * window + 1).min(CW_MAX);
        };
        self.serving = u64::from(packet.size);
        self.serving_until = free_at;
        (self.release(packet, at, fate), free_at)
    }

    /// Whether a frame that is sent now gets damaged in the air.
    pub(super) fn is_damaged(&mut self, now: u64) -> bool {
        let error_rate = self.frame_error_rate.at(now).get();
        self.errors.bernoulli(error_rate)
    }

    /// The release of a packet that leaves at this time, in nanoseconds.
    pub(super) fn release(&mut self, packet: Held, at: u64, fate: Fate) -> Release {
        self.counters.air_lost += u64::from(fate == Fate::Dropped(DropCause::Lost));
        self.counters.released += 1;
        self.counters.held_ns += u128::from(at - packet.arrived);
        self.buffer.release(packet, at, fate)
    }
}
