//! Handover by measured throughput (H. Mitsuie, X. Liu, Y. Zhao, K. Morita, "A study on switching the
//! primary path in SCTP"): at a checkpoint a window of new data goes to the alternate path in one burst,
//! and the paths change places when the alternate one is faster.
//!
//! Throughput is cwnd / SRTT (equation 1), SRTT a moving average of its own (equation 2). A fast
//! retransmit on the primary path asks for a checkpoint if the throughput before the loss is below that of
//! the alternate path when it was last known; while that is below what the application requires, a timer
//! asks again and again. Failures are handled as by the standard.
//!
//! Where the paper is silent: with more than two paths the alternate one is the next usable one after the one
//! probed last, so that all take turns; a retransmission timeout on the primary path cancels a request that
//! waits for the end of recovery; a measurement without a sample of the round-trip time counts as no
//! throughput; no checkpoint begins while data goes elsewhere than to the primary path.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failover::{Failover, Settings};
use super::{Basis, ErrorLimits, PathEvent, PathSelector, PathStatus, Reason, Request, Selection};
use crate::flow::PathId;
use crate::time::{Duration, Time};
use crate::units::{Rate, check_range};

/// Settings of handover by measured throughput; defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ThroughputCheckpointConfig")]
pub struct Config {
    /// The rate that the application requires: below it, the alternate path is measured every `retry`;
    /// default 2 Mbit/s.
    pub required_rate: Rate,
    /// Losses ask for no checkpoint within this time after the first loss on the primary path, which ends the
    /// initial slow start; default 10 s.
    pub hold: Duration,
    /// The time from a checkpoint to the next one while the path not in use is below `required_rate`, above 0
    /// s; default 10 s.
    pub retry: Duration,
    /// The alternate path takes over if its throughput is above this many times the primary path's, from 0 to
    /// 100; default 1.
    pub weight: f64,
    /// How many checkpoints must be in favour of the alternate path before it takes over, from 1 to 100;
    /// default 1.
    pub hits: u32,
    /// The time within which these checkpoints must be; default 60 s.
    pub hits_within: Duration,
    /// No checkpoint begins within this time after a retransmission timeout on the primary path; default 0 s.
    pub ignore_after_timeout: Duration,
    /// Whether, after a timeout, no checkpoint begins before cwnd has regained ssthresh; default false.
    pub ignore_below_ssthresh: bool,
    /// A checkpoint begins only when the window holds this many packets of the path's MTU; default 0.
    pub min_probe_packets: u32,
    /// A checkpoint decides only with this many samples of the alternate path's round-trip time since the
    /// primary path changed last; default 0. One that does not is repeated after `retry`.
    pub min_rtt_samples: u32,
    /// The part of the old smoothed round-trip time in the new one, from 0 to 1 (a of equation 2); default
    /// 7/8.
    pub srtt_weight: f64,
    /// Whether a checkpoint's data leaves in one burst, whatever Max.Burst; default true.
    pub one_burst: bool,
    /// What happens when the primary path fails.
    pub failover: super::failover::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            required_rate: Rate::from_bits_per_sec(2_000_000),
            hold: Duration::from_secs(10),
            retry: Duration::from_secs(10),
            weight: 1.0,
            hits: 1,
            hits_within: Duration::from_secs(60),
            ignore_after_timeout: Duration::ZERO,
            ignore_below_ssthresh: false,
            min_probe_packets: 0,
            min_rtt_samples: 0,
            srtt_weight: 0.875,
            one_burst: true,
            failover: super::failover::Config::default(),
        }
    }
}

impl Config {
    /// Checks that the settings are possible together with the endpoint's own.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self, limits: ErrorLimits) -> Result<(), String> {
        check_range("weight", self.weight, 0.0, 100.0)?;
        check_range("hits", f64::from(self.hits), 1.0, 100.0)?;
        check_range("srtt_weight", self.srtt_weight, 0.0, 1.0)?;
        if self.retry.is_zero() {
            return Err("retry = 0 s is too small; it must be above 0 s".into());
        }
        self.failover.check(limits).map_err(|error| format!("failover.{error}"))
    }
}

const THROUGHPUT: Basis = Basis::compared("measured throughput", '>', "Mbit/s");

/// A round-trip time by equation 2.
#[derive(Clone, Copy, Debug, Default)]
struct Srtt {
    secs: Option<f64>,
    samples: u32,
}

/// A checkpoint that was asked for or is under way.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    /// The primary path that the others are compared with.
    primary: PathId,
    /// The window of the primary path in bytes, which is what is sent on the alternate path.
    window: u32,
    /// The throughput of the primary path in bit/s.
    primary_rate: f64,
}

/// Handover by measured throughput.
#[derive(Clone, Debug)]
pub struct ThroughputCheckpoint {
    config: Config,
    srtts: Vec<Srtt>,
    /// The last known throughput of the path that is not in use, in bit/s; infinite before it has been
    /// measured.
    last_rate: f64,
    /// The time until which losses ask for nothing; never before the first loss.
    hold_until: Time,
    ignore_until: Time,
    is_below_ssthresh: bool,
    /// A checkpoint that waits for the end of recovery.
    asked: Option<Checkpoint>,
    under_way: Option<Checkpoint>,
    probed_last: PathId,
    timer: Time,
    /// The times of recent checkpoints in favour of the alternate path.
    hits: VecDeque<Time>,
    request: Option<Request>,
    failover: Failover,
}

impl ThroughputCheckpoint {
    /// A policy with these settings.
    pub fn new(config: &Config, profile: Settings) -> Self {
        Self {
            config: *config,
            srtts: Vec::new(),
            last_rate: f64::INFINITY,
            hold_until: Time::NEVER,
            ignore_until: Time::ZERO,
            is_below_ssthresh: false,
            asked: None,
            under_way: None,
            probed_last: PathId(0),
            timer: Time::NEVER,
            hits: VecDeque::new(),
            request: None,
            failover: Failover::new(&config.failover, profile),
        }
    }

    /// Equation 1, in bit/s.
    fn rate(&self, path: PathId, window: u32) -> Option<f64> {
        let srtt = self.srtts.get(path.index())?.secs.filter(|&secs| secs > 0.0)?;
        Some(f64::from(window) * 8.0 / srtt)
    }

    /// Equation 2.
    fn sample(&mut self, path: PathId, rtt: Duration, paths: usize) {
        self.srtts.resize_with(paths, Srtt::default);
        let own = &mut self.srtts[path.index()];
        let (weight, rtt) = (self.config.srtt_weight, rtt.as_secs_f64());
        own.secs = Some(own.secs.map_or(rtt, |old| weight * old + (1.0 - weight) * rtt));
        own.samples += 1;
    }

    /// Whether losses and ticks are ignored because of a recent timeout.
    fn is_ignored(&mut self, now: Time, primary: &PathStatus) -> bool {
        self.is_below_ssthresh &= primary.cwnd < primary.ssthresh;
        now < self.ignore_until || (self.config.ignore_below_ssthresh && self.is_below_ssthresh)
    }

    fn on_fast_retransmit(&mut self, now: Time, window: u32, paths: &[PathStatus], primary: PathId) {
        if self.hold_until.is_never() {
            self.hold_until = now + self.config.hold;
        }
        if self.is_ignored(now, &paths[primary.index()]) || now < self.hold_until || self.under_way.is_some()
        {
            return;
        }
        if let Some(primary_rate) = self.rate(primary, window)
            && primary_rate < self.last_rate
        {
            self.asked = Some(Checkpoint { primary, window, primary_rate });
        }
    }

    fn on_timeout(&mut self, now: Time) {
        if self.hold_until.is_never() {
            self.hold_until = now + self.config.hold;
        }
        self.ignore_until = now + self.config.ignore_after_timeout;
        self.is_below_ssthresh = true;
        self.asked = None;
    }

    /// The next usable path after the one probed last.
    fn alternate(&self, paths: &[PathStatus], primary: PathId) -> Option<PathId> {
        let count = paths.len();
        (1..=count)
            .map(|step| (self.probed_last.index() + step) % count)
            .find(|&index| index != primary.index() && paths[index].is_usable())
            .map(|index| PathId(index as u8))
    }

    /// Begins a checkpoint if it can be, and otherwise tries again later.
    fn begin(&mut self, now: Time, checkpoint: Checkpoint, paths: &[PathStatus], selection: &Selection) {
        let packets = u64::from(self.config.min_probe_packets);
        let is_large =
            u64::from(checkpoint.window) >= packets * u64::from(paths[selection.primary.index()].mtu);
        let alternate = self.alternate(paths, selection.primary);
        let Some(path) = alternate.filter(|_| is_large && selection.current == selection.primary) else {
            self.timer = now + self.config.retry;
            return;
        };
        self.probed_last = path;
        self.under_way = Some(checkpoint);
        self.timer = Time::NEVER;
        let (bytes, is_burst) = (checkpoint.window, self.config.one_burst);
        self.request = Some(Request::Probe { path, bytes, is_burst });
    }

    fn on_tick(&mut self, now: Time, paths: &[PathStatus], selection: &Selection) {
        if now < self.timer {
            return;
        }
        self.timer = now + self.config.retry;
        let primary = selection.primary;
        let window = paths[primary.index()].cwnd;
        if self.under_way.is_some() || self.is_ignored(now, &paths[primary.index()]) {
            return;
        }
        if let Some(primary_rate) = self.rate(primary, window) {
            self.asked = None;
            self.begin(now, Checkpoint { primary, window, primary_rate }, paths, selection);
        }
    }

    fn on_probe_done(
        &mut self,
        now: Time,
        (path, bytes, lost): (PathId, u32, u32),
        paths: &[PathStatus],
        selection: &mut Selection,
    ) {
        let Some(checkpoint) = self.under_way.take() else { return };
        let samples = self.srtts.get(path.index()).map_or(0, |srtt| srtt.samples);
        let is_whole = bytes >= checkpoint.window && checkpoint.primary == selection.primary;
        if !is_whole || samples < self.config.min_rtt_samples {
            // A path has failed or another one has become primary meanwhile, or too little is known.
            self.timer = now + self.config.retry;
            return;
        }
        let window = if lost > 0 { checkpoint.window / 2 } else { checkpoint.window };
        let rate = self.rate(path, window).unwrap_or(0.0);
        let is_faster =
            rate > self.config.weight * checkpoint.primary_rate && paths[path.index()].is_usable();
        if is_faster && self.is_enough(now) {
            let reason = Reason::compared(&THROUGHPUT, rate / 1e6, checkpoint.primary_rate / 1e6);
            selection.switch(path, reason);
            self.last_rate = checkpoint.primary_rate;
            self.hits.clear();
            for srtt in &mut self.srtts {
                srtt.samples = 0;
            }
        } else {
            self.last_rate = rate;
        }
        self.timer = if self.last_rate < self.config.required_rate.bits_per_sec() as f64 {
            now + self.config.retry
        } else {
            Time::NEVER
        };
    }

    /// Counts another checkpoint in favour of the alternate path; gives whether these are enough.
    fn is_enough(&mut self, now: Time) -> bool {
        self.hits.push_back(now);
        while self.hits.front().is_some_and(|&at| now - at > self.config.hits_within) {
            self.hits.pop_front();
        }
        self.hits.len() >= self.config.hits as usize
    }
}

impl PathSelector for ThroughputCheckpoint {
    #[inline(never)]
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        match event {
            PathEvent::FastRetransmit { path, cwnd_before } if path == selection.primary => {
                self.on_fast_retransmit(now, cwnd_before, paths, path);
            }
            PathEvent::ProbeDone { path, bytes, lost } => {
                self.on_probe_done(now, (path, bytes, lost), paths, selection);
            }
            PathEvent::RecoveryEnded(path) if path == selection.primary => {
                // A result that was asked for while another path was primary says nothing about this one.
                if let Some(checkpoint) = self.asked.take_if(|asked| asked.primary == path) {
                    self.begin(now, checkpoint, paths, selection);
                }
            }
            PathEvent::SrttUpdated { path, rtt } => self.sample(path, rtt, paths.len()),
            PathEvent::Tick => self.on_tick(now, paths, selection),
            PathEvent::TimerExpired(path) => {
                if path == selection.primary {
                    self.on_timeout(now);
                }
                self.failover.select(now, event, paths, selection);
            }
            _ => self.failover.select(now, event, paths, selection),
        }
    }

    super::retransmits_by_failover!();

    fn measures(&self) -> bool {
        true
    }

    fn next_tick(&self) -> Time {
        self.timer
    }

    fn next_request(&mut self) -> Option<Request> {
        self.request.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FIRST, SECOND};
    use super::*;

    /// Two paths, and the policy after samples of 100 ms on both and a first loss at 1 s.
    struct Bench {
        policy: ThroughputCheckpoint,
        paths: [PathStatus; 2],
        selection: Selection,
    }

    impl Bench {
        fn new(config: &Config) -> Self {
            let mut bench = Self {
                policy: ThroughputCheckpoint::new(config, Settings::default()),
                paths: [PathStatus::default(); 2],
                selection: Selection::new(FIRST),
            };
            bench.rtt(FIRST, 100);
            bench.rtt(SECOND, 100);
            assert_eq!(bench.loss(1, 100_000), None, "the first loss ends the initial slow start");
            bench
        }

        fn tell(&mut self, secs: u64, event: PathEvent) -> Option<Request> {
            self.policy.select(Time::from_secs(secs), event, &self.paths, &mut self.selection);
            self.policy.next_request()
        }

        fn rtt(&mut self, path: PathId, ms: u64) {
            self.tell(0, PathEvent::SrttUpdated { path, rtt: Duration::from_millis(ms) });
        }

        /// Simulates a fast retransmit on the primary path; gives the request when recovery ends.
        fn loss(&mut self, secs: u64, cwnd_before: u32) -> Option<Request> {
            let path = self.selection.primary;
            assert_eq!(self.tell(secs, PathEvent::FastRetransmit { path, cwnd_before }), None);
            self.tell(secs, PathEvent::RecoveryEnded(path))
        }

        fn done(&mut self, secs: u64, path: PathId, lost: u32) {
            assert_eq!(self.tell(secs, PathEvent::ProbeDone { path, bytes: 50_000, lost }), None);
        }
    }

    const fn probe(path: PathId, bytes: u32) -> Request {
        Request::Probe { path, bytes, is_burst: true }
    }

    #[test]
    fn the_steps_of_the_paper() {
        let mut bench = Bench::new(&Config::default());
        assert_eq!(bench.loss(10, 50_000), None, "within 10 s of the end of slow start");
        // 50,000 B in 100 ms are 4 Mbit/s.
        assert_eq!(bench.loss(11, 50_000), Some(probe(SECOND, 50_000)));
        assert_eq!(bench.loss(12, 10_000), None, "one is under way");
        bench.done(12, SECOND, 1_452);
        assert_eq!(bench.selection.primary, FIRST, "with a loss it is half: 2 Mbit/s");
        assert_eq!(bench.policy.next_tick(), Time::NEVER, "as much as is required");
        assert_eq!(bench.loss(13, 25_000), None, "not below what the other path had");
        assert_eq!(bench.loss(14, 20_000), Some(probe(SECOND, 20_000)));
        // Equation 2: 7/8 100 ms + 1/8 20 ms = 90 ms.
        bench.rtt(SECOND, 20);
        bench.done(15, SECOND, 0);
        let reason = bench.selection.reason.to_string();
        assert_eq!(reason, "measured throughput: 1.778 Mbit/s > 1.6 Mbit/s");
        assert_eq!((bench.selection.primary, bench.selection.current), (SECOND, SECOND));
        assert_eq!(bench.policy.next_tick(), Time::from_secs(25), "1.6 Mbit/s is less than required");
        bench.paths[1].cwnd = 30_000;
        assert_eq!(bench.tell(25, PathEvent::Tick), Some(probe(FIRST, 30_000)), "whatever the last decision");
    }

    #[test]
    fn a_timeout_cancels_the_request_and_may_silence_losses() {
        let config = Config {
            ignore_after_timeout: Duration::from_secs(5),
            ignore_below_ssthresh: true,
            ..Config::default()
        };
        let mut bench = Bench::new(&config);
        bench.paths[0].ssthresh = 1;
        let path = FIRST;
        bench.tell(20, PathEvent::FastRetransmit { path, cwnd_before: 50_000 });
        bench.tell(20, PathEvent::TimerExpired(FIRST));
        assert_eq!(bench.tell(21, PathEvent::RecoveryEnded(FIRST)), None);
        assert_eq!(bench.loss(24, 50_000), None);
        assert_eq!(bench.loss(26, 50_000), None, "the window has not regained the threshold");
        bench.paths[0].cwnd = 1;
        assert_eq!(bench.loss(27, 50_000), Some(probe(SECOND, 50_000)));
    }

    #[test]
    fn it_takes_enough_hits_packets_and_samples() {
        let config = Config { hits: 2, min_probe_packets: 4, min_rtt_samples: 1, ..Config::default() };
        let mut bench = Bench::new(&config);
        assert_eq!(bench.loss(20, 5_999), None, "not four packets");
        assert_eq!(bench.policy.next_tick(), Time::from_secs(30));
        assert_eq!(bench.loss(21, 6_000), Some(probe(SECOND, 6_000)));
        bench.rtt(SECOND, 10);
        bench.done(21, SECOND, 0);
        assert_eq!(bench.selection.primary, FIRST, "the first hit");
        assert_eq!(bench.loss(22, 6_000), Some(probe(SECOND, 6_000)));
        bench.done(22, SECOND, 0);
        assert_eq!(bench.selection.primary, SECOND, "the second hit");
        assert_eq!(bench.loss(23, 3_000), None);
        bench.paths[1].cwnd = 6_000;
        assert_eq!(bench.tell(33, PathEvent::Tick), Some(probe(FIRST, 6_000)));
        bench.done(34, FIRST, 0);
        assert_eq!(bench.selection.primary, SECOND, "no sample since the change");
    }

    #[test]
    fn a_measurement_counts_for_the_primary_path_it_was_begun_with_only() {
        let mut bench = Bench::new(&Config::default());
        let primary = |path| PathEvent::PrimaryRequested(path);
        assert_eq!(bench.loss(20, 50_000), Some(probe(SECOND, 50_000)));
        // The user changes the primary path to the other one and back, and the rate of the first path is
        // still its own.
        bench.tell(20, primary(SECOND));
        bench.rtt(SECOND, 10);
        bench.done(21, SECOND, 0);
        assert_eq!(bench.selection.primary, SECOND);
        assert_eq!(bench.policy.next_tick(), Time::from_secs(31), "it is repeated");
        bench.tell(22, PathEvent::FastRetransmit { path: SECOND, cwnd_before: 20_000 });
        bench.tell(22, primary(FIRST));
        assert_eq!(bench.tell(23, PathEvent::RecoveryEnded(FIRST)), None, "asked of the other path");
    }

    #[test]
    fn alternates_take_turns_and_failed_ones_are_passed_over() {
        let mut policy = ThroughputCheckpoint::new(&Config::default(), Settings::default());
        let mut paths = [PathStatus::default(); 4];
        paths[2].confirmed = false;
        let mut turn = || {
            policy.probed_last = policy.alternate(&paths, FIRST).expect("there is one");
            policy.probed_last.0
        };
        assert_eq!([turn(), turn(), turn()], [1, 3, 1]);
    }
}
