//! NADA: Network-Assisted Dynamic Adaptation (RFC 8698), with all computation at the sender.
//!
//! The receiver's part (section 4.2) is computed here from reports about single packets, as section 6.4
//! allows: queueing delay, loss and marks become one congestion signal, from which the rate follows (section
//! 4.3).
//!
//! Known deviations: encoder and pacer follow the reference rate, without the shift of at most 5 % that a
//! full rate-shaping buffer brings (section 5.2.2); the pacer has one and a half times the rate. A loss
//! interval begins at each lost packet. The base delay is the minimum since the beginning; section 5.1.1
//! would estimate it again after tens of minutes.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss_interval::LossIntervals;
use super::{Feedback, Limits, MediaControl, PacketReport, ms_between};
use crate::flow::Ecn;
use crate::time::{Duration, Time};
use crate::units::{Rate, check_range};

/// Settings of NADA, with the defaults of RFC 8698 table 2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "NadaConfig")]
pub struct Config {
    /// The weight of the flow among others (PRIO), from 0.01 to 100; default 1.
    pub priority: f64,
    /// The least rate that the encoder makes (RMIN); default "150 kbit/s".
    pub min_rate: Rate,
    /// The highest rate that the encoder makes (RMAX); default "1.5 Mbit/s".
    pub max_rate: Rate,
    /// The rate at the start; default "150 kbit/s", which is `min_rate`.
    pub initial_rate: Rate,
    /// The congestion signal of a flow at its highest rate (XREF); default "10 ms".
    pub reference_delay: Duration,
    /// How strongly the rate follows the congestion signal (KAPPA), from 0.001 to 10; default 0.5.
    pub kappa: f64,
    /// The weight of a change of the signal beside its value (ETA), from 0 to 100; default 2.
    pub eta: f64,
    /// The longest round trip for which the rate is stable (TAU); default "500 ms".
    pub tau: Duration,
    /// Over which time losses, marks and the receiving rate are counted (LOGWIN); default "500 ms".
    pub log_window: Duration,
    /// A queueing delay below this is none, and the rate may ramp up (QEPS); default "10 ms".
    pub no_queue: Duration,
    /// The delay that filters add to feedback, which slows the ramp-up down (DFILT); default "120 ms".
    pub filter_delay: Duration,
    /// The most that one step of the ramp-up adds, as a share of the receiving rate (`GAMMA_MAX`), from 0 to
    /// 10; default 0.5.
    pub max_ramp_up: f64,
    /// The queueing delay that the ramp-up may cause by itself (QBOUND); default "50 ms".
    pub ramp_up_delay: Duration,
    /// For how many mean loss intervals a loss is remembered (MULTILOSS), from 0 to 1000; default 7.
    pub loss_memory: f64,
    /// After a loss, queueing delays beyond this count less and less (QTH); default "50 ms".
    pub warp_delay: Duration,
    /// How fast they count less (LAMBDA), from 0 to 100; default 0.5.
    pub warp: f64,
    /// The share of losses that counts as much as `loss_delay` (PLRREF), from 0.0001 to 1; default 0.01.
    pub reference_loss: f64,
    /// The share of marks that counts as much as `mark_delay` (PMRREF), from 0.0001 to 1; default 0.01.
    pub reference_marks: f64,
    /// The delay for which losses stand (DLOSS); default "10 ms".
    pub loss_delay: Duration,
    /// The delay for which marks stand (DMARK); default "2 ms".
    pub mark_delay: Duration,
    /// The weight of the share of losses and of marks that the latest packet shows (ALPHA), from 0.001 to 1;
    /// default 0.1.
    pub smoothing: f64,
}

impl Default for Config {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            priority: 1.0,
            min_rate: Rate::from_bits_per_sec(150_000),
            max_rate: Rate::from_bits_per_sec(1_500_000),
            initial_rate: Rate::from_bits_per_sec(150_000),
            reference_delay: ms(10),
            kappa: 0.5,
            eta: 2.0,
            tau: ms(500),
            log_window: ms(500),
            no_queue: ms(10),
            filter_delay: ms(120),
            max_ramp_up: 0.5,
            ramp_up_delay: ms(50),
            loss_memory: 7.0,
            warp_delay: ms(50),
            warp: 0.5,
            reference_loss: 0.01,
            reference_marks: 0.01,
            loss_delay: ms(10),
            mark_delay: ms(2),
            smoothing: 0.1,
        }
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), String> {
        for (key, value, low, high) in [
            ("priority", self.priority, 0.01, 100.0),
            ("kappa", self.kappa, 0.001, 10.0),
            ("eta", self.eta, 0.0, 100.0),
            ("max_ramp_up", self.max_ramp_up, 0.0, 10.0),
            ("loss_memory", self.loss_memory, 0.0, 1_000.0),
            ("warp", self.warp, 0.0, 100.0),
            ("reference_loss", self.reference_loss, 0.000_1, 1.0),
            ("reference_marks", self.reference_marks, 0.000_1, 1.0),
            ("smoothing", self.smoothing, 0.001, 1.0),
        ] {
            check_range(key, value, low, high)?;
        }
        let times = Duration::from_millis(1)..=Duration::from_secs(10);
        for (key, value) in [
            ("reference_delay", self.reference_delay),
            ("tau", self.tau),
            ("log_window", self.log_window),
            ("no_queue", self.no_queue),
            ("filter_delay", self.filter_delay),
            ("ramp_up_delay", self.ramp_up_delay),
            ("warp_delay", self.warp_delay),
            ("loss_delay", self.loss_delay),
            ("mark_delay", self.mark_delay),
        ] {
            if !times.contains(&value) {
                return Err(format!("{key} = \"{value}\" is out of range; it must be from 1 ms to 10 s"));
            }
        }
        super::check_rates(self.min_rate, self.initial_rate, self.max_rate)
    }

    pub(super) fn build(&self, _ecn: Ecn) -> Nada {
        Nada {
            config: *self,
            reference: self.initial_rate.bits_per_sec() as f64,
            base_delay: None,
            delays: VecDeque::with_capacity(DELAYS),
            delay: 0.0,
            log: VecDeque::new(),
            counts: [0; 2],
            intervals: LossIntervals::default(),
            loss: 0.0,
            marks: 0.0,
            signal: 0.0,
            updated: None,
        }
    }
}

/// RFC 8698 section 5.1.1: delays pass through a minimum filter of so many samples.
const DELAYS: usize = 15;

/// A packet within the window of observation.
#[derive(Clone, Copy, Debug)]
struct Logged {
    /// When it arrived; for a lost packet, when the one before it did.
    at: Time,
    bits: u64,
    is_lost: bool,
    is_marked: bool,
    /// Whether it arrived while there was a queue.
    is_queued: bool,
}

/// NADA.
#[derive(Debug)]
pub struct Nada {
    config: Config,
    /// The reference rate (`r_ref`) in bit/s.
    reference: f64,
    /// The least one-way delay (`d_base`) in ms, by clocks that need not agree.
    base_delay: Option<f64>,
    /// The last queueing delays in ms, before the filter.
    delays: VecDeque<f64>,
    /// The queueing delay (`d_queue`) in ms.
    delay: f64,
    /// What arrived within the window of observation, and how many of it were lost and how many marked.
    log: VecDeque<Logged>,
    counts: [u32; 2],
    intervals: LossIntervals,
    /// The smoothed share of losses (`p_loss`).
    loss: f64,
    /// The smoothed share of marks (`p_mark`).
    marks: f64,
    /// The congestion signal (`x_curr`) in ms.
    signal: f64,
    /// When the rate was last updated.
    updated: Option<Time>,
}

impl Nada {
    /// Section 4.2: for each packet, its delay and its place among those observed. A loss is noticed by the
    /// next packet that arrives.
    fn observe(&mut self, packet: &PacketReport) {
        let Some((arrival, ecn)) = packet.arrival else {
            let at = self.log.back().map_or(packet.sent, |last| last.at);
            self.intervals.on_loss();
            self.push(Logged { at, bits: 0, is_lost: true, is_marked: false, is_queued: false });
            return;
        };
        let forward = ms_between(packet.sent, arrival);
        let base = self.base_delay.map_or(forward, |base| base.min(forward));
        self.base_delay = Some(base);
        if self.delays.len() == DELAYS {
            self.delays.pop_front();
        }
        self.delays.push_back(forward - base);
        self.delay = self.delays.iter().copied().fold(f64::INFINITY, f64::min);
        self.intervals.on_arrival();
        self.push(Logged {
            at: arrival,
            bits: u64::from(packet.size) * 8,
            is_lost: false,
            is_marked: ecn == Ecn::Ce,
            is_queued: self.delay >= self.config.no_queue.as_millis_f64(),
        });
        self.forget(arrival);
        self.smooth();
    }

    fn push(&mut self, logged: Logged) {
        self.log.push_back(logged);
        self.counts[0] += u32::from(logged.is_lost);
        self.counts[1] += u32::from(logged.is_marked);
    }

    /// Drops what was observed before the window that ends with this arrival.
    fn forget(&mut self, arrival: Time) {
        let window = self.config.log_window;
        while let Some(&first) = self.log.front().filter(|it| arrival.saturating_since(it.at) >= window) {
            self.log.pop_front();
            self.counts[0] -= u32::from(first.is_lost);
            self.counts[1] -= u32::from(first.is_marked);
        }
    }

    /// Section 5.1.2, equation 10: shares within the window, smoothed exponentially with each packet that
    /// arrives (section 4.2: "on receiving a media packet").
    fn smooth(&mut self) {
        let [loss, marks] = self.counts.map(|count| f64::from(count) / self.log.len().max(1) as f64);
        let alpha = self.config.smoothing;
        self.loss = alpha * loss + (1.0 - alpha) * self.loss;
        self.marks = alpha * marks + (1.0 - alpha) * self.marks;
    }

    /// Section 5.1.3: the receiving rate (`r_recv`) in bit/s.
    fn receiving(&self) -> f64 {
        let bits: u64 = self.log.iter().map(|logged| logged.bits).sum();
        bits as f64 / self.config.log_window.as_secs_f64()
    }

    /// Section 4.2, equation 1: after a loss, long queueing delays count less and less, so that the flow
    /// holds its own beside those that react to losses alone. When the loss is no longer recent, this ends
    /// bit by bit within a mean loss interval.
    fn warped(&self) -> f64 {
        let threshold = self.config.warp_delay.as_millis_f64();
        let recent = self.intervals.since_loss().zip(self.intervals.mean());
        let Some((since, mean)) = recent.filter(|_| self.delay >= threshold) else { return self.delay };
        let warped = threshold * libm::exp(-self.config.warp * (self.delay - threshold) / threshold);
        let over = ((since as f64 - self.config.loss_memory * mean) / mean).clamp(0.0, 1.0);
        warped + over * (self.delay - warped)
    }

    /// Section 4.2, equation 2: the congestion signal (`x_curr`) in ms.
    fn aggregate(&self) -> f64 {
        let config = &self.config;
        let (marks, loss) = (self.marks / config.reference_marks, self.loss / config.reference_loss);
        self.warped()
            + config.mark_delay.as_millis_f64() * marks * marks
            + config.loss_delay.as_millis_f64() * loss * loss
    }

    /// Section 4.2: accelerated ramp-up, if nothing was lost and no queue built up within the window.
    fn is_ramping_up(&self) -> bool {
        !self.log.iter().any(|logged| logged.is_lost || logged.is_queued)
    }

    /// Section 4.3, equations 3 and 4.
    fn ramp_up(&mut self, rtt: Duration) {
        let config = &self.config;
        let response = rtt.as_millis_f64() + DELTA + config.filter_delay.as_millis_f64();
        let gamma = config.max_ramp_up.min(config.ramp_up_delay.as_millis_f64() / response);
        self.reference = self.reference.max((1.0 + gamma) * self.receiving());
    }

    /// Section 4.3, equations 5 to 7.
    fn update_gradually(&mut self, signal: f64, delta: f64) {
        let config = &self.config;
        let tau = config.tau.as_millis_f64();
        let max = config.max_rate.bits_per_sec() as f64;
        let wanted = config.priority * config.reference_delay.as_millis_f64() * max / self.reference;
        let (offset, diff) = (signal - wanted, signal - self.signal);
        self.reference -= config.kappa * (delta / tau) * (offset / tau) * self.reference
            + config.kappa * config.eta * (diff / tau) * self.reference;
    }
}

/// Table 2: the target interval of reports (DELTA) in ms, which is also taken where there was only one.
const DELTA: f64 = 100.0;

impl MediaControl for Nada {
    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        if feedback.packets.is_empty() {
            return;
        }
        feedback.packets.iter().for_each(|packet| self.observe(packet));
        let signal = self.aggregate();
        let delta =
            self.updated.map_or(DELTA, |before| feedback.now.saturating_since(before).as_millis_f64());
        if self.is_ramping_up() {
            self.ramp_up(feedback.rtt);
        } else {
            self.update_gradually(signal, delta);
        }
        let [min, max] = [self.config.min_rate, self.config.max_rate].map(|rate| rate.bits_per_sec() as f64);
        self.reference = self.reference.clamp(min, max);
        self.signal = signal;
        self.updated = Some(feedback.now);
    }

    fn limits(&self) -> Limits {
        Limits::paced(Rate::from_bits_per_sec(self.reference as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of ten packets of 1250 bytes, one each 10 ms from `start` ms on, each this long under way.
    fn packets(start: u64, delay_ms: u64) -> Vec<PacketReport> {
        let report = |number: u64| {
            let sent = Time::from_millis(start + 10 * number);
            let arrival = Some((sent + Duration::from_millis(delay_ms), Ecn::NotEct));
            PacketReport { sent, size: 1_250, arrival }
        };
        (0..10).map(report).collect()
    }

    fn report(nada: &mut Nada, at_ms: u64, packets: &[PacketReport]) {
        let rtt = Duration::from_millis(100);
        nada.on_feedback(&Feedback { now: Time::from_millis(at_ms), rtt, packets });
    }

    /// A control that has seen half a second at 1 Mbit/s with a one-way delay of 50 ms.
    fn seasoned() -> Nada {
        let mut nada = Config::default().build(Ecn::NotEct);
        for round in 0..5 {
            report(&mut nada, 100 * round + 200, &packets(100 * round, 50));
        }
        nada
    }

    #[test]
    fn without_a_queue_the_rate_ramps_up_by_what_50_ms_of_queue_allow() {
        let nada = seasoned();
        assert_eq!(nada.receiving(), 1e6);
        // Equation 3: 50 / (100 + 100 + 120), below 0.5.
        assert!((nada.reference - (1.0 + 50.0 / 320.0) * 1e6).abs() < 1.0, "{}", nada.reference);
        assert_eq!(nada.limits().pacing.bits_per_sec(), (nada.limits().target.bits_per_sec() * 3) / 2 + 1);
    }

    #[test]
    fn a_queue_lowers_the_rate_by_its_delay_and_by_its_growth() {
        let mut nada = seasoned();
        let before = nada.reference;
        // The minimum of 15 samples is 0 until the sixteenth.
        report(&mut nada, 700, &packets(500, 80));
        assert_eq!((nada.delay, nada.reference), (0.0, before));
        report(&mut nada, 800, &packets(600, 80));
        assert_eq!((nada.delay, nada.signal), (30.0, 30.0));
        let wanted = 10.0 * 1.5e6 / before;
        let change = 0.5 * (100.0 / 500.0) * ((30.0 - wanted) / 500.0) + 0.5 * 2.0 * (30.0 / 500.0);
        assert!((nada.reference - before * (1.0 - change)).abs() < 1e-6, "{}", nada.reference);
    }

    #[test]
    fn the_signal_counts_losses_and_marks_by_their_squares() {
        let mut nada = seasoned();
        let mut reports = packets(500, 50);
        reports[3].arrival = None;
        for report in &mut reports[5..7] {
            report.arrival.as_mut().unwrap().1 = Ecn::Ce;
        }
        report(&mut nada, 700, &reports);
        // Of 50 packets within half a second, with each that arrives.
        let smoothed =
            |seen: &[u32]| seen.iter().fold(0.0, |old, &now| 0.9 * old + 0.1 * f64::from(now) / 50.0);
        let (loss, marks) = (smoothed(&[1; 6]), smoothed(&[1, 2, 2, 2, 2]));
        assert!((nada.loss - loss).abs() < 1e-12 && (nada.marks - marks).abs() < 1e-12);
        let signal = 2.0 * (marks / 0.01) * (marks / 0.01) + 10.0 * (loss / 0.01) * (loss / 0.01);
        assert!((nada.signal - signal).abs() < 1e-12, "{}", nada.signal);
        assert!(!nada.is_ramping_up());
    }

    #[test]
    fn after_a_loss_long_delays_count_less() {
        let mut nada = seasoned();
        nada.delay = 150.0;
        assert_eq!(nada.warped(), 150.0);
        nada.intervals.on_loss();
        assert!((nada.warped() - 50.0 * libm::exp(-0.5 * 100.0 / 50.0)).abs() < 1e-12);
        nada.delay = 49.0;
        assert_eq!(nada.warped(), 49.0);
        // Beyond seven mean intervals a loss is forgotten: there is one, which grows.
        nada.intervals.on_loss();
        nada.intervals.on_loss();
        nada.delay = 150.0;
        (0..1_000).for_each(|_| nada.intervals.on_arrival());
        assert!(nada.warped() < 50.0, "the current interval is among the mean");
        // Losses each ten packets: the last one counts for 70, and less and less for ten more.
        (0..9).for_each(|_| {
            nada.intervals.on_loss();
            (1..10).for_each(|_| nada.intervals.on_arrival());
        });
        nada.intervals.on_loss();
        let mut last = 0.0;
        for since in 1..200 {
            nada.intervals.on_arrival();
            let warped = nada.warped();
            assert!(warped >= last && warped <= 150.0, "{since}");
            last = warped;
        }
    }

    #[test]
    fn settings_out_of_range_are_one_sentence() {
        let message = |config: Config| config.check().unwrap_err();
        let default = Config::default();
        assert_eq!(default.check(), Ok(()));
        let kappa = message(Config { kappa: 0.0, ..default });
        assert_eq!(kappa, "kappa = 0 is out of range; it must be from 0.001 to 10");
        let rates = message(Config { min_rate: Rate::from_bits_per_sec(2_000_000), ..default });
        assert_eq!(rates, "min_rate = \"2 Mbit/s\" is above max_rate = \"1.5 Mbit/s\"");
        let tau = message(Config { tau: Duration::ZERO, ..default });
        assert_eq!(tau, "tau = \"0 s\" is out of range; it must be from 1 ms to 10 s");
    }
}
