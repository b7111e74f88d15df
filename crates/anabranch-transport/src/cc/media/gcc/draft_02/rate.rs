//! The rate by delay (section 5.5).

use std::collections::VecDeque;

use super::super::Signal;
use crate::time::{Duration, Time};

/// The rate after over-use, as a share of what arrives.
const BETA: f64 = 0.85;
/// The growth in a second, far from the capacity.
const ETA: f64 = 1.08;
/// Over which time the incoming rate is measured; the draft says 0.5 to 1 s.
const WINDOW: Duration = Duration::from_millis(500);
/// How much of the mean incoming rate at decreases stays with each new one.
const SMOOTHING: f64 = 0.95;
/// The most by which the target exceeds what arrives.
const HEAD_ROOM: f64 = 1.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Decrease,
    Hold,
    Increase,
}

/// The incoming rate when it was too much: mean and variance, which say how near the capacity is.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    mean: f64,
    variance: f64,
}

/// The rate by delay.
#[derive(Debug)]
pub(super) struct DelayBased {
    state: State,
    /// The target (A) in bit/s.
    target: f64,
    arrivals: VecDeque<(Time, u64)>,
    /// Bits in `arrivals`.
    bits: u64,
    capacity: Option<Capacity>,
    updated: Option<Time>,
    /// Whether there was over-use since the last update.
    has_over_use: bool,
}

impl DelayBased {
    pub(super) const fn new(target: f64) -> Self {
        Self {
            state: State::Increase,
            target,
            arrivals: VecDeque::new(),
            bits: 0,
            capacity: None,
            updated: None,
            has_over_use: false,
        }
    }

    pub(super) const fn target(&self) -> f64 {
        self.target
    }

    pub(super) fn on_arrival(&mut self, at: Time, size: u32) {
        let bits = u64::from(size) * 8;
        self.arrivals.push_back((at, bits));
        self.bits += bits;
        while self.arrivals.front().is_some_and(|(first, _)| at.saturating_since(*first) >= WINDOW) {
            self.bits -= self.arrivals.pop_front().map_or(0, |(_, bits)| bits);
        }
    }

    /// What arrives (R) in bit/s.
    fn incoming(&self) -> f64 {
        self.bits as f64 / WINDOW.as_secs_f64()
    }

    /// The table of section 5.5.
    pub(super) fn on_signal(&mut self, signal: Signal) {
        self.state = match (signal, self.state) {
            (Signal::OverUse, _) => {
                self.has_over_use = true;
                State::Decrease
            }
            (Signal::Normal, State::Hold | State::Increase) => State::Increase,
            (Signal::Normal, State::Decrease) | (Signal::UnderUse, _) => State::Hold,
        };
    }

    /// Follows the signals since the last update.
    pub(super) fn update(&mut self, now: Time, rtt: Duration, [min, max]: [f64; 2]) {
        let since =
            self.updated.replace(now).map_or(0.0, |before| now.saturating_since(before).as_secs_f64());
        let incoming = self.incoming();
        if std::mem::take(&mut self.has_over_use) {
            self.target = BETA * incoming;
            let capacity = self.capacity.get_or_insert(Capacity { mean: incoming, variance: 0.0 });
            let distance = incoming - capacity.mean;
            capacity.mean += (1.0 - SMOOTHING) * distance;
            capacity.variance = SMOOTHING * (capacity.variance + (1.0 - SMOOTHING) * distance * distance);
        } else if self.state == State::Increase {
            self.increase(since, rtt, incoming);
        }
        self.target = self.target.clamp(min, max);
    }

    fn increase(&mut self, since: f64, rtt: Duration, incoming: f64) {
        // Near the capacity, within three standard deviations of it, the rate grows by half a packet in a
        // response time; beyond, the capacity has changed.
        if let Some(Capacity { mean, variance }) = self.capacity
            && (incoming - mean).abs() > 3.0 * libm::sqrt(variance).max(mean * LEAST_DEVIATION)
        {
            self.capacity = None;
        }
        let grown = if self.capacity.is_some() {
            let bits_per_frame = self.target / 30.0;
            let packets = (bits_per_frame / (1_200.0 * 8.0)).ceil().max(1.0);
            let response = rtt.as_secs_f64() + 0.1;
            let alpha = 0.5 * (since / response).min(1.0);
            self.target + (alpha * bits_per_frame / packets).max(1_000.0)
        } else {
            self.target * libm::pow(ETA, since.min(1.0))
        };
        // Only growth is bounded: a target that is above what arrives stays.
        self.target = grown.min((HEAD_ROOM * incoming).max(self.target));
    }
}

/// The deviation of the capacity before there were several decreases, as a share of it.
const LEAST_DEVIATION: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const BOUNDS: [f64; 2] = [1e5, 1e7];

    /// A second of 1 Mbit/s until this time.
    fn arrive(rate: &mut DelayBased, until_ms: u64) {
        (until_ms.saturating_sub(1_000)..until_ms).step_by(8).for_each(|ms| {
            rate.on_arrival(Time::from_millis(ms), 1_000);
        });
    }

    #[test]
    fn over_use_takes_the_target_to_85_percent_of_what_arrives() {
        let mut rate = DelayBased::new(1.2e6);
        arrive(&mut rate, 1_000);
        assert!((rate.incoming() - 1e6).abs() < 1e4, "{}", rate.incoming());
        rate.on_signal(Signal::OverUse);
        rate.update(Time::from_millis(1_000), RTT, BOUNDS);
        let incoming = rate.incoming();
        assert_eq!(rate.target, 0.85 * incoming);
        // It holds until the signal is normal twice.
        rate.on_signal(Signal::Normal);
        rate.update(Time::from_millis(1_100), RTT, BOUNDS);
        assert_eq!((rate.state, rate.target), (State::Hold, 0.85 * incoming));
        rate.on_signal(Signal::Normal);
        rate.update(Time::from_millis(1_200), RTT, BOUNDS);
        // 850 kbit/s are 28.3 kbit a frame, three packets of 9.4 kbit: a quarter of one in half a response
        // time.
        let packet = 0.85 * incoming / 30.0 / 3.0;
        assert!((rate.target - (0.85 * incoming + 0.25 * packet)).abs() < 1e-6, "{}", rate.target);
    }

    #[test]
    fn under_use_holds() {
        let mut rate = DelayBased::new(1e6);
        rate.on_signal(Signal::UnderUse);
        rate.update(Time::from_millis(100), RTT, BOUNDS);
        rate.update(Time::from_millis(1_100), RTT, BOUNDS);
        assert_eq!(rate.target, 1e6);
    }

    #[test]
    fn the_target_is_at_most_half_above_what_arrives() {
        let mut rate = DelayBased::new(1.49e6);
        arrive(&mut rate, 1_000);
        rate.update(Time::from_millis(1_000), RTT, BOUNDS);
        rate.update(Time::from_millis(2_000), RTT, BOUNDS);
        assert_eq!(rate.target, 1.5 * rate.incoming());
    }
}
