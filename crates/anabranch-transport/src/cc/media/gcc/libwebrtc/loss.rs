//! The rate by losses: `loss_based_bwe_v2.cc` with its defaults.
//!
//! Losses are thought to have two causes: an inherent share, and sending faster than a bandwidth. Of some
//! candidates for both the likeliest is taken, with a bias towards more bandwidth.
//!
//! Rules and defaults are those of 2025 (commit 068e6ba). libwebrtc of April 2024 (M125) had other defaults:
//! a bias up to 15 % of losses (`BIAS_THRESHOLD`), a balance of 75 kbit/s, 20 observations, shares of
//! packets, not bytes, and neither ramp-up bounds, holding, padding, a start phase nor bounds by what
//! arrives.
//!
//! Known deviation: a packet that was taken for lost stays so. libwebrtc takes it back if it arrives while
//! the observation goes on; here each packet's fate is reported once.

use super::super::super::{PacketReport, ms_between};
use crate::time::{Duration, Time};

const CANDIDATES: [f64; 3] = [1.02, 1.0, 0.95];
const RAMP_UP: f64 = 1.5;
const RAMP_UP_IN_HOLD: f64 = 1.2;
const HOLD_THRESHOLD: f64 = 1.3;
const HIGHER_BIAS: f64 = 0.000_2;
const HIGHER_LOG_BIAS: f64 = 0.02;
const BIAS_THRESHOLD: f64 = 0.2;
const BIAS_SMOOTHING: f64 = 0.002;
const INHERENT_LOWER: f64 = 1e-3;
/// `inherent_loss_upper_bound_offset`, `instant_upper_bound_loss_offset`.
const LOSS_OFFSET: f64 = 0.05;
/// `..._bandwidth_balance` of both, in bit/s.
const BALANCE: f64 = 100e3;
const INHERENT_INITIAL: f64 = 0.01;
const NEWTON_STEP: f64 = 0.75;
const OBSERVATION: Duration = Duration::from_millis(250);
const OBSERVATIONS: usize = 15;
const MIN_OBSERVATIONS: u64 = 3;
/// `temporal_weight_factor`, which is that of the instant upper bound, too.
const WEIGHT: f64 = 0.9;
/// The weights of observations, by their age.
const WEIGHTS: [f64; OBSERVATIONS] = {
    let mut weights = [1.0; OBSERVATIONS];
    let mut age = 1;
    while age < OBSERVATIONS {
        weights[age] = WEIGHT * weights[age - 1];
        age += 1;
    }
    weights
};
const MAX_INCREASE: f64 = 1.3;
const DELAYED_INCREASE: Duration = Duration::from_millis(300);
const FIRST_HOLD: Duration = Duration::from_millis(300);
const MAX_HOLD: Duration = Duration::from_secs(60);
const PADDING: Duration = Duration::from_secs(2);
const MEDIAN_FACTOR: f64 = 2.0;
/// `kCongestionControllerMinBitrate` in bit/s.
const LEAST: f64 = 5e3;

/// Packets that were sent within 250 ms or more.
#[derive(Clone, Copy, Debug, Default)]
struct Observation {
    /// How many observations there were before it.
    id: u64,
    /// In kB.
    size: f64,
    lost: f64,
    /// In bit/s.
    sending_rate: f64,
}

/// What an observation is explained with.
#[derive(Clone, Copy, Debug)]
struct Channel {
    inherent_loss: f64,
    /// In bit/s.
    bandwidth: f64,
}

impl Channel {
    /// `GetLossProbability`.
    fn loss(&self, sending_rate: f64) -> f64 {
        let inherent = self.inherent_loss.clamp(0.0, 1.0);
        let excess = ((sending_rate - self.bandwidth) / sending_rate).max(0.0);
        (inherent + (1.0 - inherent) * excess).clamp(1e-6, 1.0 - 1e-6)
    }

    /// `GetFeasibleInherentLoss`.
    fn feasible(mut self) -> Self {
        let upper = (LOSS_OFFSET + BALANCE / self.bandwidth.max(1.0)).min(1.0);
        self.inherent_loss = self.inherent_loss.max(INHERENT_LOWER).min(upper);
        self
    }
}

/// Whether losses limit the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossState {
    /// They do not.
    DelayBased,
    Decreasing,
    /// They do, and the rate grows (`kIncreaseUsingPadding`).
    Increasing,
}

/// `HoldInfo`: until then the rate may not exceed this one.
#[derive(Clone, Copy, Debug)]
struct Hold {
    until: Option<Time>,
    duration: Duration,
    rate: f64,
}

const NO_HOLD: Hold = Hold { until: None, duration: FIRST_HOLD, rate: f64::INFINITY };

/// The rate by losses.
#[derive(Debug)]
pub(super) struct LossBased {
    bounds: [f64; 2],
    /// A ring: each is at the place of its number modulo their greatest count.
    observations: Vec<Observation>,
    count: u64,
    partial: Observation,
    /// When the last packet of the last observation was sent.
    last_sent: Option<Time>,
    /// Its bandwidth is that of the delay at the first observation, and not finite until then.
    best: Channel,
    result: f64,
    state: LossState,
    hold: Hold,
    /// `last_padding_info_`: when the rate began to grow, and to which one.
    padding: Option<(Time, f64)>,
    recovering: Option<Time>,
    limit_in_window: f64,
    average_loss: f64,
    throughput: Option<f64>,
    by_delay: f64,
}

impl LossBased {
    pub(super) const fn new(bounds: [f64; 2]) -> Self {
        Self {
            bounds,
            observations: Vec::new(),
            count: 0,
            partial: Observation { id: 0, size: 0.0, lost: 0.0, sending_rate: 0.0 },
            last_sent: None,
            best: Channel { inherent_loss: INHERENT_INITIAL, bandwidth: f64::NEG_INFINITY },
            result: 0.0,
            state: LossState::DelayBased,
            hold: NO_HOLD,
            padding: None,
            recovering: None,
            limit_in_window: f64::INFINITY,
            average_loss: 0.0,
            throughput: None,
            by_delay: f64::INFINITY,
        }
    }

    /// The rate in bit/s and why, once there are enough observations (`IsReady`).
    pub(super) fn result(&self) -> Option<(f64, LossState)> {
        let is_ready = self.best.bandwidth.is_finite() && self.count >= MIN_OBSERVATIONS;
        is_ready.then_some((self.result, self.state))
    }

    pub(super) const fn set_throughput(&mut self, throughput: f64) {
        self.throughput = Some(throughput);
    }

    /// `UpdateBandwidthEstimate`.
    pub(super) fn update(&mut self, packets: &[PacketReport], by_delay: f64, in_alr: bool) {
        self.by_delay = by_delay;
        let Some(sent) = self.observe(packets) else { return };
        if !self.best.bandwidth.is_finite() {
            if !by_delay.is_finite() {
                return;
            }
            (self.best.bandwidth, self.result) = (by_delay, by_delay);
        }
        let mut best = self.best;
        let mut most = f64::NEG_INFINITY;
        for candidate in self.candidates(sent, in_alr) {
            let candidate = self.newton(candidate);
            let objective = self.objective(&candidate);
            if objective > most {
                (most, best) = (objective, candidate);
            }
        }
        if self.average_loss > best.inherent_loss {
            best.bandwidth = best.bandwidth.min(self.best.bandwidth);
        }
        if self.is_limited() {
            self.bound_growth(sent, &mut best);
        }
        let lower = self.lower_bound();
        let bounded = lower.max(best.bandwidth.min(self.upper_bound()).min(by_delay));
        if bounded < best.bandwidth {
            self.best = Channel { inherent_loss: 0.0, bandwidth: bounded };
        } else {
            self.best = Channel { bandwidth: best.bandwidth.max(lower), ..best };
        }
        self.decide(sent, bounded);
    }

    /// Adds packets to the observation, and returns when the last one was sent if that makes it whole.
    fn observe(&mut self, packets: &[PacketReport]) -> Option<Time> {
        for packet in packets {
            let size = f64::from(packet.size) / 1e3;
            self.partial.size += size;
            self.partial.lost += if packet.arrival.is_none() { size } else { 0.0 };
        }
        let first = packets.iter().map(|packet| packet.sent).min()?;
        let last = packets.iter().map(|packet| packet.sent).max()?;
        let duration = last.saturating_since(*self.last_sent.get_or_insert(first));
        if duration < OBSERVATION {
            return None;
        }
        self.last_sent = Some(last);
        let mut observation = std::mem::take(&mut self.partial);
        observation.sending_rate = observation.size * 8e3 / duration.as_secs_f64();
        observation.id = self.count;
        let place = self.count as usize % OBSERVATIONS;
        if place < self.observations.len() {
            self.observations[place] = observation;
        } else {
            self.observations.push(observation);
        }
        self.count += 1;
        self.average_loss = self.average_loss();
        Some(last)
    }

    /// Observations with their weights.
    fn weighted(&self) -> impl Iterator<Item = (f64, &Observation)> {
        let weight = |one: &Observation| WEIGHTS[(self.count - 1 - one.id) as usize];
        self.observations.iter().map(move |one| (weight(one), one))
    }

    /// `CalculateAverageReportedByteLossRatio`: without the observations with the most and the least losses;
    /// of equal ones that which the ring has first.
    fn average_loss(&self) -> f64 {
        let (mut size, mut lost) = (0.0, 0.0);
        let (mut least, mut most) = ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0));
        let mut rate_of_most = 0.0;
        for (weight, observation) in self.weighted() {
            let (part, gone) = (weight * observation.size, weight * observation.lost);
            size += part;
            lost += gone;
            let share = observation.lost / observation.size;
            if self.count > 3 {
                if share > most.0 {
                    most = (share, gone, part);
                    rate_of_most = observation.sending_rate;
                }
                if share < least.0 {
                    least = (share, gone, part);
                }
            }
        }
        let rest = size - most.2 - least.2;
        // After a sudden rise of the sending rate the losses are no spike.
        if self.median_rate() * MEDIAN_FACTOR <= rate_of_most || rest <= 0.0 {
            return lost / size;
        }
        (lost - most.1 - least.1) / rest
    }

    fn median_rate(&self) -> f64 {
        let mut rates: Vec<f64> = self.observations.iter().map(|one| one.sending_rate).collect();
        rates.sort_by(f64::total_cmp);
        let middle = rates.len() / 2;
        match rates.len() {
            0 => 0.0,
            count if count % 2 == 0 => f64::midpoint(rates[middle - 1], rates[middle]),
            _ => rates[middle],
        }
    }

    fn candidates(&self, sent: Time, in_alr: bool) -> impl Iterator<Item = Channel> + use<> {
        let best = self.best;
        let is_padding = self.padding.is_some_and(|(since, _)| since + PADDING >= sent);
        let throughput = self.throughput.filter(|_| !in_alr || is_padding);
        let by_delay = Some(self.by_delay).filter(|&rate| rate.is_finite() && rate > best.bandwidth);
        let has_limit = self.is_limited() && self.limit_in_window.is_finite();
        // `GetCandidateBandwidthUpperBound`: it may lie above the highest rate.
        let upper = if has_limit { self.limit_in_window } else { self.bounds[1] };
        let most = best.bandwidth.max(upper);
        let rates = CANDIDATES.into_iter().map(move |factor| factor * best.bandwidth);
        rates
            .chain(throughput)
            .chain(by_delay)
            .map(move |rate| Channel { bandwidth: rate.min(most), ..best }.feasible())
    }

    /// `NewtonsMethodUpdate`, one step.
    fn newton(&self, mut channel: Channel) -> Channel {
        let (mut first, mut second) = (0.0, 0.0);
        for (weight, observation) in self.weighted() {
            let loss = channel.loss(observation.sending_rate);
            let received = observation.size - observation.lost;
            first += weight * (observation.lost / loss - received / (1.0 - loss));
            second -= weight * (observation.lost / (loss * loss) + received / ((1.0 - loss) * (1.0 - loss)));
        }
        channel.inherent_loss -= NEWTON_STEP * first / second.min(-1e-6);
        channel.feasible()
    }

    /// `GetObjective`: the logarithm of the likelihood, with a bias.
    fn objective(&self, channel: &Channel) -> f64 {
        let bias = self.bias(channel.bandwidth);
        let term = |(weight, one): (f64, &Observation)| {
            let loss = channel.loss(one.sending_rate);
            let received = one.size - one.lost;
            weight * (one.lost * libm::log(loss) + received * libm::log(1.0 - loss) + bias * one.size)
        };
        self.weighted().map(term).sum()
    }

    /// `GetHighBandwidthBias`.
    fn bias(&self, bandwidth: f64) -> f64 {
        let kbit = bandwidth / 1e3;
        let distance = BIAS_THRESHOLD - self.average_loss;
        (HIGHER_BIAS * kbit + HIGHER_LOG_BIAS * libm::log(1.0 + kbit)) * distance
            / (BIAS_SMOOTHING + distance.abs())
    }

    fn is_limited(&self) -> bool {
        self.state != LossState::DelayBased
    }

    fn is_growing(&self, before: f64, after: f64) -> bool {
        (before < after || before == after && self.state == LossState::Increasing) && self.is_limited()
    }

    fn bound_growth(&self, sent: Time, best: &mut Channel) {
        if self.recovering.is_some_and(|since| since + DELAYED_INCREASE > sent) {
            best.bandwidth = best.bandwidth.min(self.limit_in_window);
        }
        let before = self.best.bandwidth;
        if let Some(throughput) = self.throughput.filter(|_| self.is_growing(before, best.bandwidth)) {
            let holds = self.hold.rate.is_finite() && throughput < HOLD_THRESHOLD * self.hold.rate;
            let factor = if holds { RAMP_UP_IN_HOLD } else { RAMP_UP };
            best.bandwidth = before.max(best.bandwidth.min(factor * throughput));
            if self.state == LossState::Decreasing && best.bandwidth == before {
                best.bandwidth = before + 1.0;
            }
        }
    }

    /// `GetInstantUpperBound` and `GetInstantLowerBound`.
    fn upper_bound(&self) -> f64 {
        if self.average_loss > LOSS_OFFSET {
            BALANCE / (self.average_loss - LOSS_OFFSET)
        } else {
            self.bounds[1]
        }
    }

    fn lower_bound(&self) -> f64 {
        self.throughput.unwrap_or(0.0).max(self.bounds[0])
    }

    /// The state that follows, and the result.
    fn decide(&mut self, sent: Time, bounded: f64) {
        let is_below = bounded < self.by_delay;
        if self.state == LossState::Decreasing
            && self.hold.until.is_some_and(|until| until > sent)
            && is_below
        {
            self.hold.rate = self.hold.rate.max(self.lower_bound());
            self.result = bounded.min(self.hold.rate);
            return;
        }
        let may_grow = self.state != LossState::Increasing
            || self.padding.is_none_or(|(since, rate)| since + PADDING >= sent || rate < bounded);
        let is_limit = is_below && bounded < self.bounds[1];
        if self.is_growing(self.result, bounded) && may_grow && is_limit {
            if self.padding.is_none_or(|(_, rate)| bounded > rate) {
                self.padding = Some((sent, bounded));
            }
            self.state = LossState::Increasing;
        } else if is_limit {
            if self.state != LossState::Decreasing {
                let duration = self.hold.duration;
                let longer = duration.doubled().min(MAX_HOLD);
                self.hold = Hold { until: Some(sent + duration), duration: longer, rate: bounded };
            }
            self.padding = None;
            self.state = LossState::Decreasing;
        } else {
            self.hold = NO_HOLD;
            self.padding = None;
            self.state = LossState::DelayBased;
        }
        self.result = bounded;
        let is_over = |since: Time| ms_between(since + DELAYED_INCREASE, sent) > 0.0;
        if self.is_limited() && self.recovering.is_none_or(is_over) {
            self.limit_in_window = (self.best.bandwidth * MAX_INCREASE).max(LEAST);
            self.recovering = Some(sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Ecn;

    /// A quarter of a second of reports at so many bit/s, of which each n-th is lost.
    fn report(loss: &mut LossBased, number: u64, rate: f64, each: usize, by_delay: f64) -> f64 {
        let count = (rate * 0.25 / 1e4) as usize;
        let packets: Vec<_> = (0..count)
            .map(|index| {
                let sent = Time::from_nanos(250_000_000 * number + 250_000_000 * index as u64 / count as u64);
                let arrival = (index % each != each - 1).then_some((sent, Ecn::NotEct));
                PacketReport { sent, size: 1_250, arrival }
            })
            .collect();
        loss.set_throughput(rate * (1.0 - 1.0 / each as f64));
        loss.update(&packets, by_delay, false);
        loss.result().map_or(f64::NAN, |(rate, _)| rate)
    }

    #[test]
    fn without_losses_the_delay_decides() {
        let mut loss = LossBased::new([150e3, 10e6]);
        assert_eq!(loss.result(), None);
        for number in 0..10 {
            report(&mut loss, number, 1e6, usize::MAX, 1.2e6);
        }
        assert_eq!(loss.result(), Some((1.2e6, LossState::DelayBased)));
    }

    #[test]
    fn a_fifth_of_losses_takes_the_rate_to_what_arrives() {
        let mut loss = LossBased::new([150e3, 10e6]);
        let mut rate = 0.0;
        for number in 0..20 {
            rate = report(&mut loss, number, 2e6, 5, 3e6);
        }
        assert!((rate / 1.6e6 - 1.0).abs() < 0.06, "{rate}");
        assert_eq!(loss.state, LossState::Decreasing);
        // Losses end: it grows to what the delay allows, no more than 1.3 times in 300 ms.
        let before = rate;
        rate = report(&mut loss, 20, 1.6e6, usize::MAX, 3e6);
        assert!(rate <= 1.3 * before, "{rate}");
        for number in 21..60 {
            rate = report(&mut loss, number, rate, usize::MAX, 3e6);
        }
        assert_eq!(loss.result(), Some((3e6, LossState::DelayBased)));
    }

    #[test]
    fn a_small_share_of_losses_is_inherent_and_holds_the_rate() {
        let mut loss = LossBased::new([150e3, 10e6]);
        report(&mut loss, 0, 1e6, 25, 1e6);
        report(&mut loss, 1, 1e6, 25, 1e6);
        let rate = (2..20).map(|number| report(&mut loss, number, 1e6, 25, 1.2e6)).last().unwrap();
        // The mean share approaches that of the losses from below, so there is no growth.
        assert_eq!(rate, 1e6);
        assert!((loss.average_loss - 0.04).abs() < 1e-9, "{}", loss.average_loss);
        assert!((loss.best.inherent_loss - 0.04).abs() < 1e-3, "{:?}", loss.best);
    }

    #[test]
    fn it_begins_with_the_rate_by_delay_of_the_first_observation() {
        let mut loss = LossBased::new([150e3, 10e6]);
        for number in 0..5 {
            report(&mut loss, number, 1e6, 10, f64::INFINITY);
        }
        assert_eq!((loss.count, loss.result()), (4, None), "there is no rate by delay yet");
        report(&mut loss, 5, 1e6, 10, 2e6);
        assert!(loss.result().is_some_and(|(rate, _)| (1e6..=2e6).contains(&rate)), "{:?}", loss.result());
    }

    #[test]
    fn of_observations_with_equal_losses_the_first_of_the_ring_leaves_the_mean() {
        let mut loss = LossBased::new([150e3, 10e6]);
        // The first report makes no whole observation. Of the next four only the fourth has losses.
        for number in 0..4 {
            report(&mut loss, number, 1e6, usize::MAX, 1e6);
        }
        report(&mut loss, 4, 1e6, 10, 1e6);
        // 25 kB each, and 2.5 of them lost; the one with losses is left out, and the oldest one.
        assert_eq!(loss.observations.len(), 4);
        assert_eq!(loss.average_loss, 0.0);
        report(&mut loss, 5, 1e6, 20, 1e6);
        let parts: Vec<f64> =
            [3, 2, 0].iter().map(|&age| WEIGHTS[age] * loss.observations[4 - age].size).collect();
        let lost = WEIGHTS[0] * loss.observations[4].lost;
        let wanted = lost / (parts[0] + parts[1] + parts[2]);
        assert!((loss.average_loss / wanted - 1.0).abs() < 1e-9, "{} {wanted}", loss.average_loss);
    }

    #[test]
    fn the_loss_of_a_channel_is_inherent_and_by_excess() {
        let channel = Channel { inherent_loss: 0.1, bandwidth: 1e6 };
        assert_eq!(channel.loss(5e5), 0.1);
        assert_eq!(channel.loss(2e6), 0.1 + 0.9 * 0.5);
        // At 1 Mbit/s inherent losses are at most 5 % and 100 kbit/s over it.
        assert!((channel.feasible().inherent_loss - 0.1).abs() < 1e-12);
        let wide = Channel { inherent_loss: 0.5, bandwidth: 1e6 };
        assert!((wide.feasible().inherent_loss - 0.15).abs() < 1e-12);
    }
}
