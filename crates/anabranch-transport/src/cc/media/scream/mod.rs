//! SCReAM version 2: Self-Clocked Rate Adaptation for Multimedia (draft-ietf-ccwg-rfc8298bis-screamv2, as of
//! August 2026).
//!
//! A window bounds what is in flight. Losses, marks and an estimate of the queueing delay lower it, bytes
//! that arrive raise it, and the encoder's target is the window over the round trip. Names are those of the
//! draft; section titles stand for its numbers, which move from one revision to the next.
//!
//! Known deviations:
//! - A packet counts as lost as soon as a later one has arrived: the history of the sender decides, without
//!   the reordering window of "Detecting Lost Data Units".
//! - `frame_period` is measured, as the reference (EricssonResearch/scream) does; the draft says 20 ms.
//! - Where nothing has been sent for half a second, what was in flight counts as gone. The draft is silent,
//!   and without that a window that is full of lost packets would stay full; the reference has the same rule.
//! - The window is lowered at most once within `min(VIRTUAL_RTT, s_rtt)`, as the pseudo-code has it; a
//!   sentence before it says once in a round trip.
//! - Limits for rate policers are left out. The window is not limited further once the target has reached its
//!   maximum, which the draft leaves to the reference.

mod config;
mod delay;
mod media_rate;
mod window;

use std::collections::VecDeque;

use super::{Feedback, Frame, Limits, MediaControl};
use crate::flow::Ecn;
use crate::time::{Duration, Time};

pub use config::Config;

use delay::Delays;
use media_rate::MediaRate;
use window::{Acked, ReferenceWindow};

impl Config {
    /// Packets that are ECT(1) are answered as L4S is (RFC 9331 section 4.3).
    pub(super) fn build(&self, ecn: Ecn) -> Scream {
        Scream {
            config: *self,
            outstanding: VecDeque::new(),
            in_flight: 0,
            last_sent: Time::ZERO,
            delays: Delays::new(self),
            window: ReferenceWindow::new(self, ecn == Ecn::Ect1),
            rate: MediaRate::new(self),
        }
    }
}

/// Where nothing has been sent for so long, what was in flight counts as gone (`isOkToTransmit` in the
/// reference).
const STALL: Duration = Duration::from_millis(500);

/// SCReAM.
#[derive(Debug)]
pub struct Scream {
    config: Config,
    /// What was sent after the last packet that is known to have arrived: when, and its bytes.
    outstanding: VecDeque<(Time, u32)>,
    /// The bytes in `outstanding` (`bytes_in_flight`).
    in_flight: u64,
    last_sent: Time,
    delays: Delays,
    window: ReferenceWindow,
    rate: MediaRate,
}

impl Scream {
    /// "Status Update on Receiving Feedback": lost packets count as acknowledged once a later one has
    /// arrived.
    fn acknowledge(&mut self, up_to: Time) -> u64 {
        let before = self.in_flight;
        while let Some(&(_, size)) = self.outstanding.front().filter(|(sent, _)| *sent <= up_to) {
            self.in_flight -= u64::from(size);
            self.outstanding.pop_front();
        }
        before - self.in_flight
    }
}

impl MediaControl for Scream {
    fn on_sent(&mut self, now: Time, size: u32) {
        self.outstanding.push_back((now, size));
        self.in_flight += u64::from(size);
        self.last_sent = now;
        self.window.on_in_flight(self.in_flight);
    }

    fn on_frame(&mut self, frame: &Frame) {
        self.rate.on_frame(frame);
        self.rate.update(&self.window, &self.delays, frame.now);
    }

    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        let now = feedback.now;
        let mut acked = Acked::default();
        let mut last = None;
        for packet in feedback.packets {
            let Some((arrival, ecn)) = packet.arrival else {
                acked.on_loss();
                continue;
            };
            acked.on_arrival(packet.size, ecn == Ecn::Ce);
            self.delays.on_packet(now, packet.sent, arrival);
            last = Some(packet.sent);
        }
        let Some(sent) = last else { return };
        acked.bytes = self.acknowledge(sent);
        self.delays.on_feedback(now, now.saturating_since(sent), acked.has_loss());
        let is_below_arriving = self.rate.on_acked(now, acked.bytes, self.delays.rtt());
        let is_at_most = self.rate.is_at_most();
        self.window.update(now, &acked, &self.delays, is_below_arriving, is_at_most);
        self.rate.update(&self.window, &self.delays, now);
    }

    fn timeout(&self) -> Time {
        if self.in_flight == 0 { Time::NEVER } else { self.last_sent + STALL }
    }

    fn on_timeout(&mut self, now: Time) {
        if self.timeout() <= now {
            self.outstanding.clear();
            self.in_flight = 0;
        }
    }

    /// "Send Window Calculation". A packet that is larger than the whole window leaves alone.
    fn limits(&self) -> Limits {
        let window = if self.in_flight == 0 {
            u64::MAX
        } else {
            self.window.send_limit(&self.delays).saturating_sub(self.in_flight)
        };
        Limits { target: self.rate.target(), pacing: self.rate.pacing(&self.config), window, pads: false }
    }
}

#[cfg(test)]
mod tests;
