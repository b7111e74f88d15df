//! Prague: DCTCP for the Internet, over queues that mark early and often (L4S).
//!
//! draft-briscoe-iccrg-prague-congestion-control-04; the code of its authors: `tcp_prague.c` of the Linux
//! tree for L4S, and UDP Prague (`prague_cc.cpp`). Like DCTCP it takes half of the share of marked segments
//! off the window, at most once per round trip. What is different:
//!
//! - The window has a fraction, and grows with every segment that is acknowledged without a mark, also
//!   while it is being reduced, so that marks need not saturate to hold it (section 2.3.3).
//! - On a path shorter than `target_rtt` it grows as if the path were that long, so that flows of unequal
//!   paths share evenly (section 2.4.4). A flow begins with that after `transition_rounds` rounds.
//! - It paces at the window per round trip, twice that in slow start, in bursts of 1/4096 s (section 2.4.1).
//! - A loss halves the window, as in Reno (section 2.3.4). So does a mark where the peer does not count
//!   them (RFC 9331 section 4.3).
//!
//! With Linux's rules the window that lets segments out follows the fractional one by one segment per
//! acknowledgement, a reduction that comes too soon holds off the next one for a round trip, and the pace
//! counts headers, as in `tcp_prague.c`; otherwise as in UDP Prague, which also keeps its rate instead of its
//! window when the round-trip time changes below 2 ms. With `queue_growth` it grows faster after a long time
//! without a mark, which neither the draft nor Linux has.
//!
//! Known deviations: round trips are not rounded to 128 us, alpha and window are fractions where Linux
//! counts in 2^-20. The share is updated before the window, as in UDP Prague; in Linux a reduction comes
//! before both. The detection of classic queues, which is off in both, is not there. A window below one
//! segment does not make segments smaller, as UDP Prague does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::Round;
use super::window::{INFINITE, LEAST};
use super::{
    AckEvent, CongestionControl, CongestionEvent, CongestionKind, ControlState, IdleEvent, RecoveryEndEvent,
    Response, Rules, SendLimits, Setup, UndoEvent, check_range,
};
use crate::time::{Duration, Time};
use crate::units::Rate;

/// Settings of Prague.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "PragueConfig")]
pub struct Config {
    /// How much the growth depends on the round-trip time; default "rate".
    pub rtt_control: RttControl,
    /// The round-trip time as which shorter ones count, from 1 ms to 1 s; default 25 ms.
    pub target_rtt: Duration,
    /// Rounds after slow start before shorter round-trip times count as the target; default 500. UDP Prague
    /// has 0.
    pub transition_rounds: u32,
    /// Weight of the last round in the estimated share of marks; default 1/16.
    pub g: f64,
    /// The estimate at the beginning; default 1, which makes the first mark halve the window. UDP Prague has
    /// 0.
    pub initial_alpha: f64,
    /// What a round trip adds to the queue once no mark has come for 7 round trips and one more for each
    /// 15.36 Mbit/s: what the rate sends in this time, instead of a segment. From 0 s, which is the default
    /// and leaves it out, to 100 ms; UDP Prague has 1 ms.
    pub queue_growth: Duration,
}

/// How much the growth depends on the round-trip time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RttControl {
    /// One segment more per round trip, whatever its length, as DCTCP.
    Off,
    /// Below `target_rtt`, flows with unequal round-trip times get the same rate.
    #[default]
    Rate,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rtt_control: RttControl::default(),
            target_rtt: Duration::from_millis(25),
            transition_rounds: 500,
            g: 1.0 / 16.0,
            initial_alpha: 1.0,
            queue_growth: Duration::ZERO,
        }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let target = self.target_rtt;
        if !(Duration::from_millis(1)..=Duration::from_secs(1)).contains(&target) {
            return Err(format!("target_rtt = {target} is out of range; it must be from 1 ms to 1 s"));
        }
        let growth = self.queue_growth;
        if growth > Duration::from_millis(100) {
            return Err(format!("queue_growth = {growth} is out of range; it must be from 0 s to 100 ms"));
        }
        check_range("g", self.g, 0.000_1, 1.0)?;
        check_range("initial_alpha", self.initial_alpha, 0.0, 1.0)
    }

    pub(super) fn build(&self, setup: &Setup) -> Prague {
        let mss = setup.mss.max(1);
        let cwnd = (setup.initial_cwnd / mss).clamp(1, MAX_BYTES / mss);
        Prague {
            config: *self,
            mss,
            headers: if setup.rules == Rules::Linux6 { setup.headers } else { 0 },
            steps: setup.rules == Rules::Linux6,
            initial: cwnd,
            window: cwnd.into(),
            cwnd,
            ssthresh: INFINITE,
            srtt: None,
            is_short: false,
            share: Share {
                alpha: self.initial_alpha,
                has_seen_mark: false,
                acked: 0,
                marked: 0,
                round: Round::default(),
                updated: Time::ZERO,
            },
            rounds: 0,
            rounds_to_growth: None,
            reduced: None,
            has_lost: false,
            prior: None,
        }
    }
}

/// The largest window in bytes, which is the most that TCP's window field can express (RFC 7323 section 2.3).
const MAX_BYTES: u32 = 1 << 30;

/// Virtual round trips without a mark before the window grows by `queue_growth`, and bytes per second for
/// each of which it is one more (UDP Prague: `MIN_STEP`, `RATE_STEP`).
const LEAST_ROUNDS_TO_GROWTH: f64 = 7.0;
const RATE_STEP: f64 = 1_920_000.0;

/// Up to this round-trip time a queue does not tell of itself, and the rate is kept instead of the window.
const SHORT: Duration = Duration::from_millis(2);

/// Bursts take 1/4096 s at the pace (Linux: `prague_burst_shift`).
const BURST: f64 = 4096.0;

/// Prague.
#[derive(Debug)]
pub struct Prague {
    config: Config,
    mss: u32,
    /// Bytes of headers that the pace counts for each segment.
    headers: u32,
    /// Whether the window that lets segments out follows the fractional one step by step.
    steps: bool,
    initial: u32,
    /// The window in segments, with its fraction (Linux: `frac_cwnd`).
    window: f64,
    /// The whole segments that may be on their way.
    cwnd: u32,
    ssthresh: u32,
    srtt: Option<Duration>,
    /// Whether the rate is kept instead of the window when it changes.
    is_short: bool,
    share: Share,
    /// Rounds since slow start.
    rounds: u32,
    /// Virtual round trips without a mark that are left before it grows by `queue_growth`; none before the
    /// first acknowledgement.
    rounds_to_growth: Option<f64>,
    /// The last reduction because of a mark: when it was, and what has to be acknowledged before the next
    /// one.
    reduced: Option<(Time, u64)>,
    /// Whether a loss is being repaired, so that the window neither grows nor shrinks again.
    has_lost: bool,
    /// What was before the last loss.
    prior: Option<Prior>,
}

/// What an undone loss gives back.
#[derive(Debug)]
struct Prior {
    window: f64,
    cwnd: u32,
    ssthresh: u32,
    /// Round trips by which the loss put off the growth.
    put_off: f64,
}

/// The estimated share of marked segments.
#[derive(Debug)]
struct Share {
    alpha: f64,
    /// Whether any mark has come: before, there may be no queue that marks (Linux: `saw_ce`).
    has_seen_mark: bool,
    /// Bytes since the last update.
    acked: u64,
    marked: u64,
    round: Round,
    updated: Time,
}

impl Prague {
    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The round-trip time as which the path counts, and its real one as a share of that.
    fn virtual_rtt(&self) -> (Duration, f64) {
        let is_independent = self.config.rtt_control == RttControl::Rate
            && !self.in_slow_start()
            && self.rounds >= self.config.transition_rounds;
        let target = self.config.target_rtt;
        match self.srtt {
            Some(srtt) if is_independent && srtt < target => {
                (target, srtt.as_secs_f64() / target.as_secs_f64())
            }
            _ => (Duration::ZERO, 1.0),
        }
    }

    /// Updates the share of marks once per round trip, real and virtual (section 2.3.2).
    fn update_share(&mut self, event: &AckEvent, at_least: Duration) {
        let share = &mut self.share;
        share.acked += u64::from(event.newly_acked);
        share.marked += u64::from(event.marked);
        share.has_seen_mark |= event.marked > 0;
        let is_early = event.now.saturating_since(share.updated) < at_least;
        if is_early || !share.round.reached(event) {
            return;
        }
        if !self.steps {
            share.updated = event.now;
        }
        if let Some(rounds) = &mut self.rounds_to_growth {
            *rounds = (*rounds - 1.0).max(0.0);
        }
        if share.has_seen_mark && share.acked > 0 {
            let marked = (share.marked as f64 / share.acked as f64).min(1.0);
            share.alpha += (marked - share.alpha) * self.config.g;
            share.updated = event.now;
        }
        (share.acked, share.marked) = (0, 0);
        if !self.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// Grows the window for what came without a mark (section 2.3.3).
    fn grow(&mut self, event: &AckEvent, ratio: f64) {
        let is_halved =
            !event.counts_marks && self.reduced.is_some_and(|(_, end)| event.acknowledged_to < end);
        let is_used = event.is_window_limited || event.has_unsent;
        if self.has_lost || is_halved || !is_used {
            return;
        }
        let mut segments = f64::from(event.newly_acked.saturating_sub(event.marked)) / f64::from(self.mss);
        if self.in_slow_start() && self.window < f64::from(self.ssthresh) {
            let grown = (self.window + segments).min(f64::from(self.ssthresh));
            segments -= grown - self.window;
            self.window = grown;
            self.cwnd = self.cwnd.max(grown as u32);
        }
        self.window += segments * self.increment() * ratio * ratio / self.window;
        self.window = self.window.min(f64::from(MAX_BYTES / self.mss));
    }

    /// Segments by which a round trip in which all is acknowledged without a mark makes the window larger.
    fn increment(&self) -> f64 {
        match (self.rounds_to_growth, self.rate()) {
            (Some(0.0), Some(rate)) => {
                (rate * self.config.queue_growth.as_secs_f64() / f64::from(self.mss)).max(1.0)
            }
            _ => 1.0,
        }
    }

    /// Takes the round-trip time that is measured now. A short one changes the window, not the rate; so does
    /// the first that is no longer short.
    fn measure(&mut self, srtt: Duration) {
        if let (false, Some(last)) = (self.steps, self.srtt)
            && !self.in_slow_start()
            && last > Duration::ZERO
        {
            let is_short = srtt <= SHORT;
            if is_short || self.is_short {
                self.window = (self.window * srtt.as_secs_f64() / last.as_secs_f64()).max(1.0);
                // A smaller one is no slow start.
                self.ssthresh = self.ssthresh.min(self.whole_window());
            }
            self.is_short = is_short;
        }
        self.srtt = Some(srtt);
        if self.rounds_to_growth.is_none() {
            self.rounds_to_growth = self.rounds_without_mark();
        }
    }

    /// How many virtual round trips have to bring no mark before the window grows faster.
    fn rounds_without_mark(&self) -> Option<f64> {
        self.rate().map(|rate| libm::floor(rate / RATE_STEP) + LEAST_ROUNDS_TO_GROWTH)
    }

    /// Shrinks the window by half the share of marks, at most once per round trip, real and virtual.
    fn reduce(&mut self, event: &AckEvent, at_least: Duration) {
        if event.marked == 0 || self.has_lost {
            return;
        }
        if let Some((then, end)) = self.reduced {
            if event.acknowledged_to <= end {
                return;
            }
            if event.now.saturating_since(then) < at_least {
                if self.steps {
                    // Linux, prague_enter_cwr: the state holds for one more round trip and changes nothing.
                    self.reduced = Some((then, event.sent_to));
                }
                return;
            }
        }
        self.reduced = Some((event.now, event.sent_to));
        self.rounds_to_growth = self.rounds_without_mark();
        let share = if event.counts_marks { self.share.alpha } else { 1.0 };
        self.window = (self.window * (1.0 - share / 2.0)).max(1.0);
        // The whole window may still be on its way up, which is no slow start.
        self.ssthresh = self.whole_window().min(self.cwnd);
    }

    /// The window in whole segments: rounded up with Linux's rules, else with room for the pace to go on
    /// while an acknowledgement is late (UDP Prague: `m_packet_window`).
    fn whole_window(&self) -> u32 {
        let segments =
            if self.steps { libm::ceil(self.window) } else { libm::floor(self.window * 1.03) + 1.0 };
        (segments as u32).max(LEAST)
    }

    /// Lets the whole window follow the fractional one.
    fn follow(&mut self) {
        let target = self.whole_window();
        if target > self.cwnd {
            self.cwnd += 1;
        } else if target < self.cwnd {
            self.cwnd = if self.steps { self.cwnd - 1 } else { target };
        }
    }

    fn on_loss(&mut self) {
        if !self.has_lost {
            let put_off = self.put_off_growth();
            let (window, cwnd, ssthresh) = (self.window, self.cwnd, self.ssthresh);
            self.prior = Some(Prior { window, cwnd, ssthresh, put_off });
            self.window = (self.window / 2.0).max(1.0);
            self.ssthresh = self.whole_window();
            self.has_lost = true;
        }
    }

    /// After a loss the growth waits for as long as a flow with the target's round-trip time takes to lose
    /// again; gives by how much longer than before.
    fn put_off_growth(&mut self) -> f64 {
        let (Some(rate), Some(srtt), Some(before)) = (self.rate(), self.srtt, self.rounds_to_growth) else {
            return 0.0;
        };
        let target = self.config.target_rtt.as_secs_f64();
        let segments = rate / 2.0 / f64::from(self.mss);
        let rounds = libm::floor(segments * target / srtt.as_secs_f64().max(target) * target);
        self.rounds_to_growth = Some(rounds);
        rounds - before
    }

    /// The window per round trip, in bytes per second.
    fn rate(&self) -> Option<f64> {
        let rate = self.window * f64::from(self.mss) / self.srtt?.as_secs_f64();
        rate.is_finite().then_some(rate)
    }

    /// Bytes per second.
    fn pace(&self) -> Option<f64> {
        let srtt = self.srtt?.as_secs_f64();
        let gain = if self.cwnd < self.ssthresh / 2 { 2.0 } else { 1.0 };
        let rate = self.window * f64::from(self.mss + self.headers) * gain / srtt;
        rate.is_finite().then_some(rate)
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, event: &AckEvent) {
        if let Some(srtt) = event.srtt {
            self.measure(srtt);
        }
        let (at_least, ratio) = self.virtual_rtt();
        self.update_share(event, at_least);
        self.grow(event, ratio);
        self.reduce(event, at_least);
        self.follow();
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        match event.kind {
            // Acknowledgements say it.
            CongestionKind::Ecn => {}
            CongestionKind::FastRetransmit => self.on_loss(),
            CongestionKind::Restart => (self.window, self.cwnd) = (1.0, 1),
            CongestionKind::Timeout => {
                self.on_loss();
                // Linux, tcp_enter_loss.
                self.cwnd = event.remaining / self.mss + 1;
            }
        }
    }

    fn limits(&self) -> SendLimits {
        let rate = self.pace().map(|rate| (rate * 8.0).clamp(1.0, 1e13) as u64);
        SendLimits {
            cwnd: self.cwnd.saturating_mul(self.mss).min(MAX_BYTES.max(self.mss)),
            pacing_rate: rate.map(Rate::from_bits_per_sec),
        }
    }

    fn state(&self) -> ControlState {
        let phase = match (self.has_lost, self.in_slow_start()) {
            (true, _) => "recovery",
            (false, true) => "slow_start",
            (false, false) => "congestion_avoidance",
        };
        let bytes = |segments: u32| segments.saturating_mul(self.mss);
        ControlState { cwnd: bytes(self.cwnd), ssthresh: bytes(self.ssthresh), phase }
    }

    fn on_idle(&mut self, event: &IdleEvent) {
        // RFC 5681 section 4.1. Linux leaves the window of a control that owns recovery as it is.
        if !self.steps && event.idle > event.rto && self.cwnd > self.initial {
            self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
            (self.window, self.cwnd) = (self.initial.into(), self.initial);
        }
    }

    fn on_recovery_end(&mut self, _event: &RecoveryEndEvent) {
        self.has_lost = false;
    }

    fn on_undo(&mut self, event: &UndoEvent) {
        if let Some(Prior { window, cwnd, ssthresh, put_off }) = self.prior.take() {
            self.rounds_to_growth = self.rounds_to_growth.map(|rounds| (rounds - put_off).max(0.0));
            self.window = self.window.max(window);
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
            if let Some(Response { cwnd, ssthresh }) = event.response {
                self.cwnd = (cwnd / self.mss).clamp(1, MAX_BYTES / self.mss);
                self.window = self.cwnd.into();
                self.ssthresh = if ssthresh == u32::MAX { INFINITE } else { ssthresh / self.mss };
            }
        }
        self.has_lost = false;
    }

    fn least_burst(&self) -> u32 {
        1
    }

    fn most_burst(&self) -> Option<u32> {
        let rate = self.pace()?;
        Some((rate / f64::from(self.mss + self.headers) / BURST) as u32)
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn answers_loss_after_mark(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::Controller;
    use super::super::testing::{MSS, Path, Rounds, Sender, build, cwnd, lose, ssthresh};
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn off() -> Config {
        Config { rtt_control: RttControl::Off, ..Config::default() }
    }

    /// Feeds the control as `validation/oracles/udp_prague.cpp` feeds that of UDP Prague; gives the window
    /// after each 1000 acknowledgements, in segments.
    fn windows(rtt: u64, gap: u64, share: u64, longer: u64) -> Vec<f64> {
        const SIZE: u32 = 1400;
        let config = Config {
            transition_rounds: 0,
            initial_alpha: 0.0,
            queue_growth: Duration::from_millis(1),
            ..Config::default()
        };
        let mut control = config.build(&Setup {
            mss: SIZE,
            initial_cwnd: 10 * SIZE,
            rules: Rules::Rfc,
            seed: 1,
            is_paced: false,
            headers: 0,
        });
        // It begins in congestion avoidance, with the window of 10 Mbit/s.
        control.window = 1.25e6 * rtt as f64 / 1e6 / f64::from(SIZE);
        (control.cwnd, control.ssthresh) = (2, 2);
        let mut draw = 1_u64;
        let mut srtt = rtt;
        let mut now = Time::ZERO + Duration::from_micros(1 + rtt);
        let mut windows = Vec::new();
        for count in 1..=10_000_u64 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let is_marked = (draw >> 33) % 1_000_000 < share;
            let measured = rtt + longer * ((count - 1) / 500 % 2);
            srtt = srtt.saturating_add_signed((measured.cast_signed() - srtt.cast_signed()) >> 3);
            control.on_ack(&AckEvent {
                marked: if is_marked { SIZE } else { 0 },
                srtt: Some(Duration::from_micros(srtt)),
                acknowledged_to: count * u64::from(SIZE),
                sent_to: (count + rtt / gap) * u64::from(SIZE),
                ..AckEvent::new(now, SIZE, SIZE)
            });
            if count % 1_000 == 0 {
                windows.push(control.window);
            }
            now += Duration::from_micros(gap);
        }
        windows
    }

    /// Round trip and gap between acknowledgements in microseconds, marks in a million, by how much the round
    /// trip is longer in every second 500 acknowledgements, and the windows.
    const UDP_PRAGUE: [(u64, u64, u64, u64, [f64; 10]); 8] = [
        (
            10_000,
            500,
            30_000,
            0,
            [17.975, 22.944, 24.763, 25.039, 25.980, 28.500, 29.733, 31.002, 32.200, 30.739],
        ),
        (
            25_000,
            500,
            20_000,
            0,
            [46.367, 60.867, 68.572, 74.447, 77.346, 84.708, 90.698, 95.433, 99.570, 103.240],
        ),
        (
            160_000,
            2_000,
            30_000,
            0,
            [140.034, 135.234, 127.136, 115.709, 106.839, 105.446, 102.938, 100.603, 101.085, 97.089],
        ),
        (
            10_000,
            500,
            100,
            0,
            [23.084, 32.845, 43.122, 52.777, 61.560, 77.555, 93.551, 109.547, 125.543, 141.540],
        ),
        (
            25_000,
            500,
            200,
            0,
            [57.946, 82.501, 108.492, 132.703, 154.142, 194.128, 234.115, 274.104, 303.444, 327.465],
        ),
        (
            160_000,
            2_000,
            100,
            0,
            [149.630, 156.079, 162.247, 168.240, 174.146, 180.318, 186.489, 192.660, 198.832, 205.003],
        ),
        (1_500, 300, 20_000, 800, [4.115, 5.406, 6.201, 6.740, 7.103, 7.611, 8.160, 8.609, 8.975, 9.294]),
        (1_200, 400, 10_000, 300, [2.932, 3.866, 4.556, 5.076, 5.630, 6.142, 6.656, 7.014, 7.345, 7.664]),
    ];

    /// The windows of UDP Prague (commit e8e3435, February 2026), fed with the same marks: on a short path,
    /// on one of the target's length, and on a long one; the same with hardly any mark; and where the round
    /// trip is about 2 ms or less. A round trip ends there with one packet more, so that the faster growth,
    /// where there is hardly any mark, begins up to a round trip later.
    #[test]
    fn the_window_is_that_of_udp_prague() {
        for (rtt, gap, share, longer, expected) in UDP_PRAGUE {
            let windows = windows(rtt, gap, share, longer);
            for (number, (window, expected)) in windows.iter().zip(expected).enumerate() {
                let bound = if share < 1_000 && number < 9 { 0.015 } else { 0.01 };
                assert!((window / expected - 1.0).abs() < bound, "{rtt} us: {windows:?}");
            }
        }
    }

    #[test]
    fn slow_start_doubles_and_the_first_mark_halves() {
        let mut control = build(Config::default(), Rules::Linux6, 10);
        let mut rounds = Rounds::new(RTT);
        rounds.round(&mut control);
        assert_eq!(cwnd(&control), 20);
        assert_eq!(pace(&control), 2.0 * 20.0 * f64::from(MSS) / 0.05);
        let mark = AckEvent { marked: MSS, srtt: Some(RTT), ..AckEvent::new(rounds.now, MSS, 20 * MSS) };
        control.on_ack(&mark);
        assert_eq!((ssthresh(&control), cwnd(&control)), (10, 19), "Linux goes there step by step");
        let mut control = build(Config::default(), Rules::Rfc, 20);
        control.on_ack(&mark);
        assert_eq!(cwnd(&control), 11, "ten, 3 % and one");
        assert_eq!(pace(&control), 10.0 * f64::from(MSS) / 0.05, "without them");
    }

    /// The pace in bytes per second.
    fn pace(control: &Controller) -> f64 {
        control.limits().pacing_rate.map_or(0.0, |rate| rate.bits_per_sec() as f64 / 8.0)
    }

    /// RFC 9331 section 4.3: where the peer does not count marks, a mark is answered as a loss is.
    #[test]
    fn a_mark_that_is_not_counted_halves_as_a_loss_does() {
        let config = Config { initial_alpha: 0.0, ..Config::default() };
        let mut control = build(config, Rules::Linux6, 40);
        let event = AckEvent {
            marked: MSS,
            counts_marks: false,
            sent_to: 40_000,
            acknowledged_to: 1_000,
            ..AckEvent::new(Time::from_secs(1), MSS, 40 * MSS)
        };
        control.on_ack(&event);
        assert_eq!(ssthresh(&control), 20);
        // The echo goes on for the round, and the window neither grows nor shrinks.
        control.on_ack(&AckEvent { acknowledged_to: 20_000, ..event });
        assert_eq!(ssthresh(&control), 20);
        let mut control = build(config, Rules::Linux6, 40);
        lose(&mut control, Time::from_secs(1));
        assert_eq!(ssthresh(&control), 20);
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_grows_back_to_half() {
        let mut control = build(off(), Rules::Linux6, 20);
        let now = Time::from_secs(1);
        control.on_congestion(&CongestionEvent::new(now, CongestionKind::Timeout, 20 * MSS));
        control.on_congestion(&CongestionEvent::new(now, CongestionKind::Timeout, MSS));
        assert_eq!((cwnd(&control), ssthresh(&control)), (1, 10), "halved once");
        for _ in 0..20 {
            control.on_ack(&AckEvent::new(now, MSS, MSS));
        }
        assert_eq!(cwnd(&control), 10);
        control.on_undo(&UndoEvent::new(now));
        assert_eq!(cwnd(&control), 20);
    }

    /// Marks that go on, and losses that go on, leave two segments.
    #[test]
    fn the_least_window_is_two_segments() {
        for rules in [Rules::Linux6, Rules::Rfc] {
            for is_marked in [true, false] {
                let mut control = build(off(), rules, 60);
                for second in 1..=200 {
                    let now = Time::from_secs(second);
                    if !is_marked {
                        lose(&mut control, now);
                    }
                    control.on_ack(&AckEvent {
                        marked: MSS,
                        acknowledged_to: second * u64::from(MSS),
                        sent_to: second * u64::from(MSS),
                        ..AckEvent::new(now, MSS, MSS)
                    });
                }
                assert_eq!(cwnd(&control), 2, "{rules:?} {is_marked}");
            }
        }
    }

    /// A window that nothing limits but the application does not grow.
    #[test]
    fn an_unused_window_stays() {
        let mut control = build(off(), Rules::Linux6, 10);
        let unused = AckEvent { is_window_limited: false, ..AckEvent::new(Time::ZERO, MSS, MSS) };
        control.on_ack(&unused);
        assert_eq!(cwnd(&control), 10);
        control.on_ack(&AckEvent { has_unsent: true, ..unused });
        assert_eq!(cwnd(&control), 11, "the pace holds back what waits");
    }

    /// Over a queue that marks above 10 packets, the link stays busy and the queue short; on a path of 10 ms
    /// marks are rarer with the control of round-trip times than without.
    #[test]
    fn holds_the_queue_at_the_marking_threshold() {
        for rules in [Rules::Linux6, Rules::Rfc] {
            let path = Path { mark_above: 10, ..Path::new(5_000.0, Duration::from_millis(20), 1_000) };
            let mut sender = Sender::new(build(Config::default(), rules, 10), path);
            sender.run(Duration::from_secs(60));
            let skip = Duration::from_secs(30);
            assert!(sender.goodput_after(skip) > 4_900.0, "{}", sender.goodput_after(skip));
            let rtt = sender.mean_after(skip, |sample| sample.rtt.as_secs_f64());
            assert!((0.020..0.0225).contains(&rtt), "{rtt}");
            assert_eq!(sender.drops, 0);
        }
    }

    #[test]
    fn settings_that_are_not_possible_are_said() {
        let second = Duration::from_secs(1);
        let cases = [
            (
                Config { target_rtt: second * 2, ..Config::default() },
                "target_rtt = 2 s is out of range; it must be from 1 ms to 1 s",
            ),
            (
                Config { queue_growth: second, ..Config::default() },
                "queue_growth = 1 s is out of range; it must be from 0 s to 100 ms",
            ),
        ];
        for (config, sentence) in cases {
            assert_eq!(config.check().unwrap_err(), sentence);
        }
    }
}
