//! SCTP's own congestion control, one per path: RFC 9260 section 7.2, with what RFC 4960, RFC 2960,
//! Linux and ns-2 do differently as settings.
//!
//! A segment is what the association says (`sctp::parameters::Accounting`), and so are the bytes of the
//! events: whole DATA chunks, or the user data in them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AckEvent, CongestionControl, CongestionEvent, CongestionKind, ControlState, IdleEvent, ProbeEvent,
    SendLimits, Setup,
};
use crate::flow::IpVersion;

/// Settings of SCTP's own congestion control. A setting that is left out has the association
/// profile's value. The profile says what a segment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SctpCongestionControlConfig")]
pub struct Config {
    /// The rule for the initial congestion window; default "rfc9260", in profiles rfc4960 and linux
    /// "rfc4960", in profiles rfc2960 and ns2 "rfc2960", in profile `freebsd_10` 3 segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<InitialWindow>,
    /// The initial slow-start threshold in bytes, 65536 in profile ns2, the receive buffer in profile
    /// `freebsd_10`; by default there is none, and slow start goes on until the first loss or until the
    /// peer's window is filled (RFC 9260 section 7.2.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_ssthresh: Option<u32>,
    /// In slow start a SACK opens the window by at most this many segments, L of RFC 3465; default 1
    /// (RFC 9260 section 7.2.1), in profile `freebsd_10` 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start_limit: Option<u32>,
    /// The slow-start threshold after a loss and the window of an idle path are at least this many segments;
    /// default 4 (RFC 9260 sections 7.2.1 and 7.2.3), in profiles rfc2960 and ns2 2 (RFC 2960, the same
    /// sections).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssthresh_floor: Option<u32>,
    /// Whether the window of an idle path is halved once per RTO (RFC 9260 section 7.2.1); default true, in
    /// profile `freebsd_10` false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_decay: Option<bool>,
    /// What halving the window of an idle path does to the slow-start threshold; default "rfc9260", in
    /// profiles rfc2960, rfc4960 and ns2 "rfc4960", in profile linux "linux".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_rule: Option<IdleRule>,
    /// Whether only a SACK that advances the cumulative TSN opens the window; default false, in profiles
    /// rfc2960, rfc4960, `freebsd_10` and ns2 true (RFC 4960 sections 7.2.1 and 7.2.2), and with load
    /// sharing, which has its own rule for what advances.
    #[serde(skip_serializing_if = "Option::is_none", alias = "avoidance_needs_cumulative")]
    pub growth_needs_cumulative: Option<bool>,
}

/// Rules for the initial congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SctpInitialWindow")]
pub enum InitialWindow {
    /// Two segments (RFC 2960 section 7.2.1).
    Rfc2960,
    /// min(4 segments, max(2 segments, 4380 bytes)) (RFC 4960 section 7.2.1).
    Rfc4960,
    /// min(4 segments, max(2 segments, 4404 bytes)), over IPv6 4344 bytes (RFC 9260 section 7.2.1).
    #[default]
    Rfc9260,
    /// As many segments as given.
    Segments(u32),
}

impl InitialWindow {
    /// The window in bytes for segments of `mss` bytes.
    pub fn bytes(self, mss: u32, ip: IpVersion) -> u32 {
        let at_most_four = |bytes: u32| (4 * mss).min((2 * mss).max(bytes));
        match (self, ip) {
            (Self::Rfc2960, _) => 2 * mss,
            (Self::Rfc4960, _) => at_most_four(4_380),
            (Self::Rfc9260, IpVersion::Ipv4) => at_most_four(4_404),
            (Self::Rfc9260, IpVersion::Ipv6) => at_most_four(4_344),
            (Self::Segments(segments), _) => segments * mss,
        }
    }
}

/// What happens to the window and the threshold of an idle path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdleRule {
    /// Linux, with a heartbeat instead of every RTO: the threshold is what is left of the window, and a
    /// window below the floor is raised to it (`sctp_transport_lower_cwnd`).
    Linux,
    /// The threshold stays as it is (RFC 4960 section 7.2.1).
    Rfc4960,
    /// The threshold is the window before the first adjustment (RFC 9260 section 7.2.1).
    #[default]
    Rfc9260,
}

impl Config {
    /// These settings, and `defaults` for those that are not set.
    #[must_use]
    pub fn or(self, defaults: Self) -> Self {
        Self {
            initial_window: self.initial_window.or(defaults.initial_window),
            initial_ssthresh: self.initial_ssthresh.or(defaults.initial_ssthresh),
            slow_start_limit: self.slow_start_limit.or(defaults.slow_start_limit),
            ssthresh_floor: self.ssthresh_floor.or(defaults.ssthresh_floor),
            idle_decay: self.idle_decay.or(defaults.idle_decay),
            idle_rule: self.idle_rule.or(defaults.idle_rule),
            growth_needs_cumulative: self.growth_needs_cumulative.or(defaults.growth_needs_cumulative),
        }
    }

    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let initial = match self.initial_window {
            Some(InitialWindow::Segments(segments)) => Some(segments),
            _ => None,
        };
        for (key, value) in [
            ("initial_window.segments", initial),
            ("slow_start_limit", self.slow_start_limit),
            ("ssthresh_floor", self.ssthresh_floor),
        ] {
            if let Some(value @ (0 | 65..)) = value {
                return Err(format!("{key} = {value} is out of range; it must be from 1 to 64 segments"));
            }
        }
        Ok(())
    }
}

/// SCTP's own congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Sctp {
    mss: u32,
    cwnd: u32,
    ssthresh: u32,
    partial_bytes_acked: u32,
    /// In bytes, like the floor.
    slow_start_limit: u32,
    ssthresh_floor: u32,
    idle_decay: bool,
    idle_rule: IdleRule,
    growth_needs_cumulative: bool,
}

impl Sctp {
    /// A control for a new path.
    pub fn new(config: &Config, setup: &Setup) -> Self {
        let mss = setup.mss;
        Self {
            mss,
            cwnd: setup.initial_cwnd,
            ssthresh: config.initial_ssthresh.unwrap_or(u32::MAX),
            partial_bytes_acked: 0,
            slow_start_limit: config.slow_start_limit.unwrap_or(1) * mss,
            ssthresh_floor: config.ssthresh_floor.unwrap_or(4) * mss,
            idle_decay: config.idle_decay.unwrap_or(true),
            idle_rule: config.idle_rule.unwrap_or_default(),
            growth_needs_cumulative: config.growth_needs_cumulative.unwrap_or(false),
        }
    }
}

impl CongestionControl for Sctp {
    fn on_ack(&mut self, event: &AckEvent) {
        let fully_used = event.outstanding_before >= self.cwnd;
        let may_grow = event.cumulative_advanced || !self.growth_needs_cumulative;
        if self.cwnd <= self.ssthresh {
            // RFC 9260 section 7.2.1: only when the window is fully utilised, and not in fast recovery.
            if fully_used && may_grow && !event.in_recovery {
                self.cwnd = self.cwnd.saturating_add(event.newly_acked.min(self.slow_start_limit));
            }
        } else if may_grow {
            // RFC 9260 section 7.2.2: one segment per window of acknowledged bytes.
            self.partial_bytes_acked = self.partial_bytes_acked.saturating_add(event.newly_acked);
            if self.partial_bytes_acked >= self.cwnd {
                if fully_used {
                    self.partial_bytes_acked -= self.cwnd;
                    self.cwnd = self.cwnd.saturating_add(self.mss);
                } else {
                    self.partial_bytes_acked = self.cwnd;
                }
            }
        }
        if event.outstanding == 0 {
            // RFC 9260 section 7.2.2: reset when all data has been acknowledged.
            self.partial_bytes_acked = 0;
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        // RFC 9260 section 7.2.3.
        self.partial_bytes_acked = 0;
        match event.kind {
            CongestionKind::Ecn | CongestionKind::FastRetransmit => {
                self.ssthresh = (self.cwnd / 2).max(self.ssthresh_floor);
                self.cwnd = self.ssthresh;
            }
            CongestionKind::Timeout => {
                self.ssthresh = (self.cwnd / 2).max(self.ssthresh_floor);
                self.cwnd = self.mss;
            }
            // FreeBSD `sctp_cwnd_update_exit_pf_common`.
            CongestionKind::Restart => self.cwnd = self.mss,
        }
    }

    fn limits(&self) -> SendLimits {
        SendLimits::window(self.cwnd)
    }

    fn on_probe(&mut self, event: &ProbeEvent) {
        self.partial_bytes_acked = 0;
        (self.cwnd, self.ssthresh) = (event.window, event.window);
    }

    fn state(&self) -> ControlState {
        let phase = if self.cwnd <= self.ssthresh { "slow_start" } else { "congestion_avoidance" };
        ControlState { cwnd: self.cwnd, ssthresh: self.ssthresh, phase }
    }

    fn on_idle(&mut self, event: &IdleEvent) {
        // RFC 9260 section 7.2.1: max(cwnd / 2, 4 PMDCS) once per RTO. That must not undo what a timeout did,
        // so a smaller window stays as it is, except in Linux.
        let floor = self.ssthresh_floor;
        let raises = self.idle_rule == IdleRule::Linux;
        if !self.idle_decay || event.idle < event.rto || (self.cwnd <= floor && !raises) {
            return;
        }
        if self.idle_rule == IdleRule::Rfc9260 {
            self.ssthresh = self.cwnd;
        }
        let mut left = event.idle;
        while left >= event.rto && self.cwnd != floor {
            self.cwnd = (self.cwnd / 2).max(floor);
            left = left.saturating_sub(event.rto);
        }
        if raises {
            self.partial_bytes_acked = 0;
            self.ssthresh = self.cwnd;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Duration, Time};

    const NOW: Time = Time::from_secs(1);
    const MSS: u32 = 1_000;

    fn with(config: &Config) -> Sctp {
        let initial_cwnd = config.initial_window.unwrap_or_default().bytes(MSS, IpVersion::Ipv4);
        Sctp::new(
            config,
            &Setup {
                mss: MSS,
                initial_cwnd,
                rules: crate::cc::Rules::Rfc,
                seed: 0,
                is_paced: false,
                headers: 0,
            },
        )
    }

    fn control() -> Sctp {
        with(&Config::default())
    }

    #[test]
    fn initial_window_by_rfc() {
        use IpVersion::{Ipv4, Ipv6};
        assert_eq!(control().limits().cwnd, 4_000);
        for (rule, mss, ip, bytes) in [
            (InitialWindow::Rfc2960, 1_500, Ipv4, 3_000),
            (InitialWindow::Rfc4960, 1_500, Ipv4, 4_380),
            (InitialWindow::Rfc9260, 1_468, Ipv4, 4_404),
            // Three chunks that fill packets of 1500 bytes, over IPv6 too.
            (InitialWindow::Rfc9260, 1_448, Ipv6, 4_344),
            (InitialWindow::Segments(20), 1_468, Ipv4, 29_360),
        ] {
            assert_eq!(rule.bytes(mss, ip), bytes, "{rule:?}");
        }
    }

    #[test]
    fn slow_start_grows_by_at_most_one_segment_and_only_when_full() {
        let mut control = control();
        control.on_ack(&AckEvent::new(NOW, 2_000, 4_000));
        assert_eq!(control.limits().cwnd, 5_000);
        control.on_ack(&AckEvent::new(NOW, 500, 5_000));
        assert_eq!(control.limits().cwnd, 5_500);
        control.on_ack(&AckEvent::new(NOW, 1_000, 5_499));
        assert_eq!(control.limits().cwnd, 5_500, "not fully used");
        control.on_ack(&AckEvent { in_recovery: true, ..AckEvent::new(NOW, 1_000, 5_500) });
        assert_eq!(control.limits().cwnd, 5_500, "in fast recovery");
    }

    #[test]
    fn slow_start_waits_for_the_cumulative_tsn_in_rfc_4960_only() {
        // RFC 9260 section 7.2.1 has dropped the condition, as Linux has.
        for (needed, window) in [(true, 4_000), (false, 5_000)] {
            let mut control = with(&Config { growth_needs_cumulative: Some(needed), ..Config::default() });
            let no_advance = AckEvent { cumulative_advanced: false, ..AckEvent::new(NOW, 1_000, 4_000) };
            control.on_ack(&no_advance);
            assert_eq!(control.limits().cwnd, window);
        }
    }

    #[test]
    fn slow_start_grows_by_the_limit_of_rfc_3465() {
        let config = Config {
            initial_window: Some(InitialWindow::Segments(3)),
            slow_start_limit: Some(2),
            ..Config::default()
        };
        let mut control = with(&config);
        assert_eq!(control.limits().cwnd, 3_000);
        control.on_ack(&AckEvent::new(NOW, 1_500, 3_000));
        assert_eq!(control.limits().cwnd, 4_500);
        control.on_ack(&AckEvent::new(NOW, 3_000, 4_500));
        assert_eq!(control.limits().cwnd, 6_500);
    }

    #[test]
    fn congestion_avoidance_grows_by_one_segment_per_window() {
        let mut control = Sctp { cwnd: 10_000, ssthresh: 8_000, ..control() };
        for _ in 0..9 {
            control.on_ack(&AckEvent::new(NOW, 1_000, 10_000));
        }
        assert_eq!(control.limits().cwnd, 10_000);
        control.on_ack(&AckEvent::new(NOW, 1_000, 10_000));
        assert_eq!(control.limits().cwnd, 11_000);
        assert_eq!(control.partial_bytes_acked, 0);
    }

    #[test]
    fn loss_halves_and_timeout_restarts() {
        let mut control = Sctp { cwnd: 20_000, ..control() };
        control.on_congestion(&CongestionEvent::new(NOW, CongestionKind::FastRetransmit, 0));
        assert_eq!((control.cwnd, control.ssthresh), (10_000, 10_000));
        control.on_congestion(&CongestionEvent::new(NOW, CongestionKind::Timeout, 0));
        assert_eq!((control.cwnd, control.ssthresh), (1_000, 5_000));
        control.on_congestion(&CongestionEvent::new(NOW, CongestionKind::Timeout, 0));
        assert_eq!((control.cwnd, control.ssthresh), (1_000, 4_000), "the floor is 4 segments");
    }

    #[test]
    fn an_idle_window_is_halved_once_per_rto() {
        let mut control = Sctp { cwnd: 40_000, ssthresh: 8_000, ..control() };
        let rto = Duration::from_secs(1);
        control.on_idle(&IdleEvent::new(Duration::from_millis(999), rto));
        assert_eq!(control.cwnd, 40_000);
        control.on_idle(&IdleEvent::new(Duration::from_millis(2_500), rto));
        assert_eq!((control.cwnd, control.ssthresh), (10_000, 40_000));
        control.on_idle(&IdleEvent::new(Duration::from_secs(60), rto));
        assert_eq!(control.cwnd, 4_000);
    }

    #[test]
    fn the_threshold_of_an_idle_path_by_rule() {
        let rto = Duration::from_secs(1);
        for (rule, before, after) in [
            // Section 7.2.1: the threshold is set to the window, even where that is less.
            (IdleRule::Rfc9260, (20_000, 90_000), (10_000, 20_000)),
            (IdleRule::Rfc9260, (1_000, 90_000), (1_000, 90_000)),
            (IdleRule::Rfc4960, (20_000, 90_000), (10_000, 90_000)),
            (IdleRule::Linux, (20_000, 90_000), (10_000, 10_000)),
            (IdleRule::Linux, (1_000, 90_000), (4_000, 4_000)),
        ] {
            let (cwnd, ssthresh) = before;
            let config = Config { idle_rule: Some(rule), ..Config::default() };
            let mut control = Sctp { cwnd, ssthresh, ..with(&config) };
            control.on_idle(&IdleEvent::new(rto, rto));
            assert_eq!((control.cwnd, control.ssthresh), after, "{rule:?}");
        }
    }

    #[test]
    fn an_impossible_floor_is_one_sentence() {
        let config = Config { ssthresh_floor: Some(0), ..Config::default() };
        let message = config.check().unwrap_err();
        assert_eq!(message, "ssthresh_floor = 0 is out of range; it must be from 1 to 64 segments");
    }
}
