//! ECHO (J. Fitzpatrick, S. Murphy, M. Atiquzzaman, J. Murphy, "ECHO: a quality of service based endpoint
//! centric handover scheme for `VoIP`", WCNC 2008): the path on which a call would be rated highest by the
//! E-model is the primary one. Failures are handled as by the standard.
//!
//! The rating R of a path follows from half its smoothed round-trip time and from its loss: that of data over
//! a window, or of heartbeats where no data was sent. Paths without data are known by their heartbeats only
//! (`hb_interval`).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failover::{Failover, Settings};
use super::hysteresis::Dwell;
use super::{Basis, ErrorLimits, PathEvent, PathSelector, PathStatus, Reason, Selection};
use crate::flow::PathId;
use crate::quality::simplified::Simplified;
use crate::quality::{Band, Codec};
use crate::time::{Duration, Time};
use crate::units::check_range;

/// Settings of ECHO.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "EchoConfig")]
pub struct Config {
    /// The codec, a narrowband one with Ie and Bpl in ITU-T G.113; default "g711+plc".
    pub codec: Codec,
    /// Delay in codec and jitter buffer on top of the network's; default 0.08 s.
    pub playout_delay: Duration,
    /// The time between decisions, above 0 s; default 1 s.
    pub interval: Duration,
    /// The length of time in which losses count, at least `interval`; default 10 s.
    pub window: Duration,
    /// How much higher the other path's R must be, from 0 to 100; default 3.
    pub margin: f64,
    /// How long a new primary path is kept at least, while it is active; default 5 s.
    pub dwell: Duration,
    /// What happens when the primary path fails.
    pub failover: super::failover::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            codec: Codec::default(),
            playout_delay: Duration::from_millis(80),
            interval: Duration::from_secs(1),
            window: Duration::from_secs(10),
            margin: 3.0,
            dwell: Duration::from_secs(5),
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
        self.impairment()?;
        check_range("margin", self.margin, 0.0, 100.0)?;
        if self.interval.is_zero() {
            return Err("interval = 0 s is too small; it must be above 0 s".into());
        }
        if self.window < self.interval {
            let Self { window, interval, .. } = self;
            return Err(format!("window = {window} is too short; it must be at least interval = {interval}"));
        }
        self.failover.check(limits).map_err(|error| format!("failover.{error}"))
    }

    /// Ie and Bpl of the codec.
    fn impairment(&self) -> Result<(f64, f64), String> {
        let data = self.codec.data();
        match (data.band, data.ie, data.bpl) {
            (Band::Narrow, Some(ie), Some(bpl)) => Ok((ie, bpl)),
            _ => Err(format!(
                "codec = \"{}\" has no Ie and Bpl for narrowband calls; it must be one with both, such as \
                 \"g711+plc\" or \"g729\"",
                data.name
            )),
        }
    }
}

const HIGHER_RATING: Basis = Basis::compared("higher rating R", '>', "");

/// The counters of a path at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent_bytes: u64,
    lost_bytes: u64,
    heartbeats_sent: u64,
    heartbeats_lost: u64,
}

impl Counts {
    const fn of(status: &PathStatus) -> Self {
        let PathStatus { sent_bytes, lost_bytes, heartbeats_sent, heartbeats_lost, .. } = *status;
        Self { sent_bytes, lost_bytes, heartbeats_sent, heartbeats_lost }
    }

    /// Loss in percent since `before`.
    fn loss_percent(self, before: Self) -> f64 {
        // A path whose address comes back is a new one, so its counts begin at zero.
        let since = u64::saturating_sub;
        let mut sent = since(self.sent_bytes, before.sent_bytes);
        let mut lost = since(self.lost_bytes, before.lost_bytes);
        if sent == 0 {
            sent = since(self.heartbeats_sent, before.heartbeats_sent);
            lost = since(self.heartbeats_lost, before.heartbeats_lost);
        }
        // Packets that were lost may have been sent earlier.
        if sent == 0 { 0.0 } else { 100.0 * (lost as f64 / sent as f64).min(1.0) }
    }
}

/// ECHO.
#[derive(Clone, Debug)]
pub struct Echo {
    config: Config,
    /// Ie and Bpl.
    impairment: (f64, f64),
    /// The counts of all paths at past ticks within the window, the oldest first.
    history: VecDeque<Vec<Counts>>,
    timer: Time,
    dwell: Dwell,
    failover: Failover,
}

impl Echo {
    /// A policy with these settings.
    ///
    /// # Panics
    /// When [`Config::check`] would refuse them.
    pub fn new(config: &Config, profile: Settings) -> Self {
        Self {
            config: *config,
            impairment: config.impairment().expect("the settings were checked"),
            history: VecDeque::new(),
            timer: Time::NEVER,
            dwell: Dwell::new(config.dwell),
            failover: Failover::new(&config.failover, profile),
        }
    }

    /// R of every path; [`None`] if the delay of the path is not known.
    fn ratings(&self, paths: &[PathStatus]) -> Vec<Option<f64>> {
        let (ie, bpl) = self.impairment;
        let rate = |(index, status): (usize, &PathStatus)| {
            let before =
                self.history.front().and_then(|counts| counts.get(index)).copied().unwrap_or_default();
            let delay_ms = status.srtt?.as_millis_f64() / 2.0 + self.config.playout_delay.as_millis_f64();
            let loss = Counts::of(status).loss_percent(before);
            Some(Simplified::rate(delay_ms, loss, 1.0, ie, bpl).r)
        };
        paths.iter().enumerate().map(rate).collect()
    }

    fn on_tick(&mut self, now: Time, paths: &[PathStatus], selection: &mut Selection) {
        if now < self.timer {
            return;
        }
        self.timer = now + self.config.interval;
        let ratings = self.ratings(paths);
        self.history.push_back(paths.iter().map(Counts::of).collect());
        let kept = (self.config.window.as_nanos() / self.config.interval.as_nanos()) as usize;
        if self.history.len() > kept {
            self.history.pop_front();
        }
        let primary = selection.primary.index();
        if self.dwell.holds(now) || !paths[primary].is_usable() {
            return;
        }
        let best = (0..paths.len())
            .filter(|&index| paths[index].is_usable())
            .filter_map(|index| ratings[index].map(|r| (index, r)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        if let (Some((index, new)), Some(old)) = (best, ratings[primary])
            && new > old + self.config.margin
        {
            selection.switch(PathId(index as u8), Reason::compared(&HIGHER_RATING, new, old));
            self.dwell.start(now);
        }
    }
}

impl PathSelector for Echo {
    #[inline(never)]
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        match event {
            PathEvent::Opened => self.timer = now + self.config.interval,
            PathEvent::Tick => self.on_tick(now, paths, selection),
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
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FIRST, SECOND, delays};
    use super::*;

    /// The paths after ticks every second, between which the first path loses `lost` of every 100 bytes.
    fn after(policy: &mut Echo, secs: u64, lost: u64, paths: &mut [PathStatus; 2]) -> Selection {
        let mut selection = Selection::new(FIRST);
        policy.select(Time::ZERO, PathEvent::Opened, paths, &mut selection);
        for second in 1..=secs {
            paths[0].sent_bytes += 100;
            paths[0].lost_bytes += lost;
            paths[1].heartbeats_sent += 1;
            assert_eq!(policy.next_tick(), Time::from_secs(second));
            policy.select(Time::from_secs(second), PathEvent::Tick, paths, &mut selection);
        }
        selection
    }

    #[test]
    fn loss_and_delay_decide_by_their_weight_in_the_e_model() {
        let policy = || Echo::new(&Config::default(), Settings::default());
        assert_eq!(after(&mut policy(), 3, 0, &mut delays(60, 100)).primary, FIRST);
        // 1 % of loss costs 3.6 with this codec, 40 ms of round trip 0.5.
        let selection = after(&mut policy(), 3, 1, &mut delays(60, 100));
        assert_eq!((selection.primary, selection.reason.basis), (SECOND, &HIGHER_RATING));
        assert_eq!(after(&mut policy(), 3, 1, &mut delays(60, 400)).primary, FIRST, "too slow");
    }

    #[test]
    fn loss_is_forgotten_after_the_window() {
        let config = Config { window: Duration::from_secs(2), margin: 100.0, ..Config::default() };
        let mut policy = Echo::new(&config, Settings::default());
        let mut paths = delays(60, 60);
        after(&mut policy, 5, 50, &mut paths);
        let lossy = policy.ratings(&paths)[0].expect("its delay is known");
        paths[0].sent_bytes += 100;
        policy.select(Time::from_secs(6), PathEvent::Tick, &paths, &mut Selection::new(FIRST));
        paths[0].sent_bytes += 100;
        policy.select(Time::from_secs(7), PathEvent::Tick, &paths, &mut Selection::new(FIRST));
        let ratings = policy.ratings(&paths);
        assert!(lossy < 50.0);
        assert_eq!(ratings[0], ratings[1]);
    }

    #[test]
    fn a_codec_without_values_is_one_sentence() {
        let limits = ErrorLimits { pf_max_retrans: None, path_max_retrans: 5 };
        let config = Config { codec: Codec::G722, ..Config::default() };
        let message = config.check(limits).expect_err("it is wideband");
        assert!(message.starts_with("codec = \"g722\" has no Ie and Bpl for narrowband calls"), "{message}");
    }
}
