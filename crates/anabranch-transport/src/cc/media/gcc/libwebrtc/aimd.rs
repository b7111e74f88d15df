//! The rate by delay: additive increase, multiplicative decrease (`aimd_rate_control.cc`), and the capacity
//! of the link at over-use (`link_capacity_estimator.cc`).

use super::super::Signal;
use crate::time::{Duration, Time};

/// `kDefaultBackoffFactor` and `kDefaultRtt`.
const BETA: f64 = 0.85;
const FIRST_RTT: Duration = Duration::from_millis(200);
/// What a decrease takes off besides, in bit/s.
const DRAIN: f64 = 5e3;
/// The most that an increase leaves above what arrives: this factor and so many bit/s.
const HEAD_ROOM: f64 = 1.5;
const HEAD_ROOM_BASE: f64 = 10e3;
/// The growth of a second far from the capacity, and the least one of an update in bit/s.
const GROWTH: f64 = 1.08;
const LEAST_GROWTH: f64 = 1e3;
/// `GetNearMaxIncreaseRateBpsPerSecond`: an average packet of 30 frames a second per response time.
const FRAME_S: f64 = 1.0 / 30.0;
const PACKET_BITS: f64 = 1_200.0 * 8.0;
const OVER_USE_DELAY_S: f64 = 0.1;
const LEAST_GROWTH_PER_S: f64 = 4e3;

/// The weight of a rate at over-use, and the range of the deviation in kbit/s, relative to the estimate.
const CAPACITY_WEIGHT: f64 = 0.05;
const DEVIATIONS: [f64; 2] = [0.4, 2.5];

/// What arrives at over-use, in kbit/s: mean and relative deviation.
#[derive(Debug)]
struct Capacity {
    estimate: Option<f64>,
    deviation: f64,
}

impl Capacity {
    /// The estimate with so many standard deviations, in bit/s.
    fn bound(&self, deviations: f64) -> Option<f64> {
        self.estimate.map(|kbit| (kbit + deviations * libm::sqrt(self.deviation * kbit)).max(0.0) * 1e3)
    }

    fn on_over_use(&mut self, throughput: f64) {
        let sample = throughput / 1e3;
        let estimate =
            self.estimate.map_or(sample, |old| (1.0 - CAPACITY_WEIGHT) * old + CAPACITY_WEIGHT * sample);
        self.estimate = Some(estimate);
        let error = estimate - sample;
        self.deviation =
            (1.0 - CAPACITY_WEIGHT) * self.deviation + CAPACITY_WEIGHT * error * error / estimate.max(1.0);
        self.deviation = self.deviation.clamp(DEVIATIONS[0], DEVIATIONS[1]);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Decrease,
    Hold,
    Increase,
}

/// The rate by delay.
#[derive(Debug)]
pub(super) struct Aimd {
    min: f64,
    /// In bit/s.
    rate: f64,
    /// The last throughput, which stands in where there is none.
    throughput: f64,
    state: State,
    capacity: Capacity,
    changed: Option<Time>,
    rtt: Duration,
}

impl Aimd {
    pub(super) const fn new(initial: f64, min: f64) -> Self {
        Self {
            min,
            rate: initial,
            throughput: initial,
            state: State::Hold,
            capacity: Capacity { estimate: None, deviation: DEVIATIONS[0] },
            changed: None,
            rtt: FIRST_RTT,
        }
    }

    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) const fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    /// A probe's result is the rate (`SetEstimate`).
    pub(super) fn set_rate(&mut self, now: Time, rate: f64) {
        self.rate = rate.max(self.min);
        self.changed = Some(now);
    }

    /// `TimeToReduceFurther`: once a round trip, or at once if what arrives is below half of the rate.
    pub(super) fn may_reduce(&self, now: Time, throughput: f64) -> bool {
        let interval = self.rtt.clamp(Duration::from_millis(10), Duration::from_millis(200));
        self.changed.is_none_or(|last| now.saturating_since(last) >= interval) || throughput < 0.5 * self.rate
    }

    pub(super) fn update(&mut self, now: Time, usage: Signal, throughput: Option<f64>) {
        let throughput = throughput.unwrap_or(self.throughput);
        self.throughput = throughput;
        match usage {
            Signal::Normal if self.state == State::Hold => {
                self.changed = Some(now);
                self.state = State::Increase;
            }
            Signal::Normal => {}
            Signal::OverUse => self.state = State::Decrease,
            Signal::UnderUse => self.state = State::Hold,
        }
        match self.state {
            State::Hold => {}
            State::Increase => self.increase(now, throughput),
            State::Decrease => self.decrease(now, throughput),
        }
        self.rate = self.rate.max(self.min);
    }

    fn increase(&mut self, now: Time, throughput: f64) {
        if self.capacity.bound(3.0).is_some_and(|upper| throughput > upper) {
            self.capacity.estimate = None;
        }
        let limit = HEAD_ROOM * throughput + HEAD_ROOM_BASE;
        if self.rate < limit {
            let since = self.changed.map(|last| now.saturating_since(last).as_secs_f64());
            let growth = if self.capacity.estimate.is_some() {
                self.growth_near_capacity() * since.unwrap_or(0.0)
            } else {
                let factor = since.map_or(GROWTH, |s| libm::pow(GROWTH, s.min(1.0)));
                (self.rate * (factor - 1.0)).max(LEAST_GROWTH)
            };
            self.rate = (self.rate + growth).min(limit);
        }
        self.changed = Some(now);
    }

    /// In bit/s per second.
    fn growth_near_capacity(&self) -> f64 {
        let frame = self.rate * FRAME_S;
        let packet = frame / libm::ceil(frame / PACKET_BITS);
        let response = 2.0 * (self.rtt.as_secs_f64() + OVER_USE_DELAY_S);
        (packet / response).max(LEAST_GROWTH_PER_S)
    }

    fn decrease(&mut self, now: Time, throughput: f64) {
        let mut rate = BETA * throughput;
        if rate > DRAIN {
            rate -= DRAIN;
        }
        if rate > self.rate
            && let Some(kbit) = self.capacity.estimate
        {
            rate = BETA * kbit * 1e3;
        }
        if self.capacity.bound(-3.0).is_some_and(|lower| throughput < lower) {
            self.capacity.estimate = None;
        }
        // Over-use never raises the rate.
        self.rate = self.rate.min(rate);
        self.capacity.on_over_use(throughput);
        self.state = State::Hold;
        self.changed = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn far_from_the_capacity_it_grows_by_8_percent_a_second_up_to_its_head_room() {
        let mut aimd = Aimd::new(1e6, 1e5);
        aimd.update(ms(0), Signal::Normal, Some(1e6));
        assert_eq!(aimd.rate(), 1e6 + LEAST_GROWTH);
        aimd.update(ms(1_000), Signal::Normal, Some(1e6));
        assert!((aimd.rate() - 1.001e6 * 1.08).abs() < 1e-3);
        for second in 2..60 {
            aimd.update(ms(1_000 * second), Signal::Normal, Some(1e6));
        }
        assert_eq!(aimd.rate(), 1.51e6);
    }

    #[test]
    fn over_use_takes_it_to_85_percent_of_what_arrives_and_growth_is_slow_after() {
        let mut aimd = Aimd::new(1.2e6, 1e5);
        aimd.set_rtt(Duration::from_millis(100));
        aimd.update(ms(0), Signal::OverUse, Some(1e6));
        assert_eq!(aimd.rate(), 0.85e6 - 5e3);
        assert!(!aimd.may_reduce(ms(50), 1e6) && aimd.may_reduce(ms(100), 1e6));
        assert!(aimd.may_reduce(ms(50), 4e5), "less than half of it arrives");
        aimd.update(ms(100), Signal::UnderUse, Some(1e6));
        assert_eq!(aimd.rate(), 0.845e6);
        aimd.update(ms(200), Signal::Normal, Some(1e6));
        aimd.update(ms(1_200), Signal::Normal, Some(1e6));
        // 845 kbit/s are 28.2 kbit a frame, three packets; one of them in 400 ms.
        assert!((aimd.rate() - (0.845e6 + 0.845e6 / 30.0 / 3.0 / 0.4)).abs() < 1e-3, "{}", aimd.rate());
        // What arrives is far above the capacity, so that is forgotten.
        aimd.update(ms(2_200), Signal::Normal, Some(3e6));
        assert!(aimd.rate() > 0.9e6);
    }

    #[test]
    fn the_capacity_is_a_mean_with_a_deviation() {
        let mut capacity = Capacity { estimate: None, deviation: 0.4 };
        capacity.on_over_use(1e6);
        assert_eq!(capacity.bound(0.0), Some(1e6));
        assert!(
            (capacity.bound(3.0).unwrap() - 1e3 * (1_000.0 + 3.0 * libm::sqrt(0.4 * 1_000.0))).abs() < 1e-6
        );
        capacity.on_over_use(2e6);
        assert_eq!(capacity.bound(0.0), Some(1.05e6));
    }
}
