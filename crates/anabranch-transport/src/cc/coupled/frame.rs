//! Windows in bytes, one per path, and the frame around the couplings that steer them.
//!
//! The frame ([`Frame`]) knows what the couplings have in common: when a window may grow, and what a
//! loss, a timeout, an undo and idleness do (RFC 5681; RFC 9260 section 7.2). A [`Coupling`] says how much
//! a window grows and what is left of it after a loss.
//!
//! Known deviation: windows are not inflated in fast recovery (RFC 5681 section 3.2), as SCTP and TCP with
//! selective acknowledgements do not need it; RFC 6356 section 3 asks for the uninflated one.
//!
//! With [`Rules::Inflated`] the windows are those of the ns-3 model of MPTCP by Kheirkhah, Wakeman and
//! Parisis ("Multipath-TCP in ns-3", 2014; `mp-tcp-socket-base.cc`), which names the functions below:
//! inflated in fast recovery (RFC 6582), halved to half of what is in flight whatever the coupling, and grown
//! by whole bytes whether they are used or not. An acknowledgement grows them once, however much it
//! acknowledges. Known deviation: a partial acknowledgement leaves at least a segment; in the model the
//! difference wraps.

use std::fmt;

use super::{CoupledCongestionControl, PathSetup};
use crate::cc::{
    AckEvent, CongestionEvent, CongestionKind, ControlState, DuplicateEvent, IdleEvent, RecoveryEndEvent,
    RttEvent, Rules, SendLimits, UndoEvent,
};
use crate::flow::PathId;
use crate::time::Duration;

/// The largest window in bytes, which is the most that TCP's window field can express (RFC 7323 section 2.3).
const MAX_BYTES: u32 = 1 << 30;

/// The model's `MpTcpSubFlow`: the first threshold in bytes, the round-trip time before the first sample in
/// seconds, and the gain of its estimator.
const MODEL_SSTHRESH: u32 = 65_535;
const MODEL_FIRST_SRTT: f64 = 1.5;
const MODEL_GAIN: f64 = 0.1;

/// A rule for how windows depend on each other.
pub trait Coupling: fmt::Debug {
    /// Bytes to grow by in slow start for `acked` bytes, at most a segment of them per acknowledged
    /// segment; uncoupled unless a coupling says otherwise (RFC 6356 section 3).
    fn slow_start(&self, _windows: &Windows, _path: PathId, acked: u32) -> f64 {
        f64::from(acked)
    }

    /// Bytes to grow by in congestion avoidance for `acked` bytes; a negative number shrinks the window.
    fn avoidance(&self, windows: &Windows, path: PathId, acked: u32) -> f64;

    /// What a loss or a mark leaves of the window in bytes: half of it unless a coupling says otherwise, and
    /// `least` bytes unless its source has another least.
    fn reduced(&self, windows: &Windows, path: PathId, least: u32) -> f64 {
        (f64::from(windows.at(path).cwnd) / 2.0).max(f64::from(least))
    }

    /// The slow-start threshold in bytes of a window that has just changed by this many bytes. If it has
    /// shrunk without a loss, slow start must not give the bytes back at once.
    fn adjusted_threshold(&self, window: &Window, _path: PathId, bytes: f64) -> u32 {
        if bytes < 0.0 { window.ssthresh.min(window.cwnd) } else { window.ssthresh }
    }

    /// Notes that data was acknowledged on this path, in recovery or not; called before the window grows.
    fn on_acked(&mut self, _windows: &Windows, _path: PathId, _event: &AckEvent) {}

    /// Notes that a round-trip time was measured on this path.
    fn on_rtt(&mut self, _path: PathId, _rtt: Duration) {}

    /// Notes that a loss was noticed on this path.
    fn on_loss(&mut self, _path: PathId) {}

    /// Notes that a path begins or ends.
    fn on_path(&mut self, _path: PathId) {}
}

/// The window of one path.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Bytes of data in a full segment.
    pub mss: u32,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes.
    pub ssthresh: u32,
    /// The least threshold after a loss, in bytes.
    pub floor: u32,
    /// Smoothed round-trip time in seconds (RFC 6298 section 2); [`None`] before the first sample.
    pub srtt: Option<f64>,
    /// Whether fast recovery inflates the window, and whether it is inflated now.
    inflates: bool,
    is_inflated: bool,
    has_sample: bool,
    initial: u32,
    holds_ssthresh: bool,
    /// The least window that marks leave, in bytes.
    marked_floor: u32,
    /// Whether a timeout has expired and nothing has been acknowledged since.
    has_timed_out: bool,
    /// The part of the growth that is less than a byte.
    fraction: f64,
    /// The window and threshold that an undo restores.
    prior: Option<(u32, u32)>,
}

impl Window {
    fn new(setup: &PathSetup) -> Self {
        let mss = setup.setup.mss.clamp(1, MAX_BYTES);
        let initial = setup.setup.initial_cwnd.clamp(mss, MAX_BYTES);
        let inflates = setup.setup.rules == Rules::Inflated;
        // The threshold is never zero, as the path's share of the sum is computed from it.
        let ssthresh = if inflates { MODEL_SSTHRESH } else { setup.initial_ssthresh.max(1) };
        let floor = setup.ssthresh_floor.saturating_mul(mss);
        // RFC 3168 section 6.1.2: marks that go on take a window of TCP to one segment. In Linux, and in SCTP
        // (RFC 9260 section 7.2.3), it has the threshold's least.
        let is_of_rfc3168 = setup.holds_ssthresh && setup.setup.rules == Rules::Rfc;
        Self {
            mss,
            cwnd: initial,
            ssthresh,
            floor,
            marked_floor: if is_of_rfc3168 { mss } else { floor },
            srtt: inflates.then_some(MODEL_FIRST_SRTT),
            inflates,
            is_inflated: false,
            has_sample: false,
            initial,
            holds_ssthresh: setup.holds_ssthresh,
            has_timed_out: false,
            fraction: 0.0,
            prior: None,
        }
    }

    /// Window over round-trip time in bytes per second, if the latter is known.
    pub fn rate(&self) -> Option<f64> {
        self.srtt.map(|srtt| f64::from(self.cwnd) / srtt)
    }

    /// Bytes that a standard connection would grow by in congestion avoidance for `acked` bytes: a segment
    /// per round (RFC 5681 equation 3).
    pub fn standard_growth(&self, acked: u32) -> f64 {
        f64::from(acked) * f64::from(self.mss) / f64::from(self.cwnd)
    }

    /// The window's size in the sum over all paths, without the inflation of fast recovery (model:
    /// `calculateTotalCWND`).
    pub fn counted(&self) -> u32 {
        if self.is_inflated { self.ssthresh } else { self.cwnd }
    }

    /// If window and threshold are equal, either phase is allowed (RFC 5681 section 3.1); growth is coupled
    /// then.
    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    fn add(&mut self, bytes: f64) {
        self.fraction += bytes;
        let whole = self.fraction.floor();
        self.fraction -= whole;
        let grown = f64::from(self.cwnd) + whole;
        self.cwnd = (grown as u32).clamp(self.mss, MAX_BYTES);
    }

    /// Deflates the window for a partial acknowledgement of `acked` bytes and inflates it by one segment (RFC
    /// 6582 section 3.2 step 3; model: `NewAckNewReno`).
    fn deflate(&mut self, acked: u32) {
        self.cwnd = self.cwnd.saturating_sub(acked).saturating_add(self.mss).min(MAX_BYTES);
    }

    /// Reacts to a loss or a timeout with this many bytes in flight (RFC 5681 section 3.1 equation 4 and
    /// section 3.2; model: `ReduceCWND`, `Retransmit`).
    fn reduce_as_model(&mut self, kind: CongestionKind, flight: u32) {
        self.ssthresh = (flight / 2).max(2 * self.mss);
        self.is_inflated = kind == CongestionKind::FastRetransmit;
        self.cwnd = match kind {
            CongestionKind::FastRetransmit => self.ssthresh.saturating_add(3 * self.mss),
            CongestionKind::Timeout => self.mss,
            CongestionKind::Ecn | CongestionKind::Restart => self.ssthresh,
        };
    }
}

/// The windows of all paths.
#[derive(Debug, Default)]
pub struct Windows(Vec<Option<Window>>);

impl Windows {
    /// The window of this path.
    ///
    /// # Panics
    /// When the path has not joined.
    pub fn at(&self, path: PathId) -> &Window {
        self.0[path.index()].as_ref().expect("the path has joined")
    }

    fn at_mut(&mut self, path: PathId) -> &mut Window {
        self.0[path.index()].as_mut().expect("the path has joined")
    }

    /// All windows with their paths.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &Window)> {
        let windows = self.0.iter().enumerate();
        windows.filter_map(|(index, window)| window.as_ref().map(|window| (PathId(index as u8), window)))
    }

    /// The sum of all rates in bytes per second. A path without a round-trip time does not carry anything
    /// yet.
    pub fn total_rate(&self) -> f64 {
        self.iter().filter_map(|(_, window)| window.rate()).sum()
    }

    /// The largest rate over round-trip time, and the sum of all rates: the former over the square of the
    /// latter is `alpha / cwnd_total` of RFC 6356 equation 2.
    pub fn linked(&self) -> (f64, f64) {
        let (mut best, mut sum) = (0.0_f64, 0.0);
        for (_, window) in self.iter() {
            if let (Some(rate), Some(srtt)) = (window.rate(), window.srtt) {
                best = best.max(rate / srtt);
                sum += rate;
            }
        }
        (best, sum)
    }
}

/// Windows that do not depend on each other.
#[derive(Debug)]
pub struct Alone;

impl Coupling for Alone {
    fn avoidance(&self, windows: &Windows, path: PathId, acked: u32) -> f64 {
        windows.at(path).standard_growth(acked)
    }
}

/// Windows and what couples them: a congestion control.
#[derive(Debug)]
pub struct Frame<C> {
    windows: Windows,
    coupling: C,
}

impl<C: Coupling> Frame<C> {
    /// A control without paths.
    pub fn new(coupling: C) -> Self {
        Self { windows: Windows::default(), coupling }
    }

    /// The model's `NewAckNewReno` and `OpenCWND`.
    fn on_ack_as_model(&mut self, path: PathId, event: &AckEvent) {
        if !event.cumulative_advanced {
            return;
        }
        let window = self.windows.at_mut(path);
        let mss = window.mss;
        if window.is_inflated {
            return window.deflate(event.newly_acked);
        }
        let bytes = if window.in_slow_start() {
            self.coupling.slow_start(&self.windows, path, mss)
        } else {
            self.coupling.avoidance(&self.windows, path, mss)
        };
        let bytes = if bytes < 0.0 { bytes.floor() } else { bytes.floor().max(1.0) };
        self.grow(path, bytes);
    }

    fn grow(&mut self, path: PathId, bytes: f64) {
        self.windows.at_mut(path).add(bytes);
        let ssthresh = self.coupling.adjusted_threshold(self.windows.at(path), path, bytes);
        self.windows.at_mut(path).ssthresh = ssthresh;
    }
}

impl<C: Coupling> CoupledCongestionControl for Frame<C> {
    fn add_path(&mut self, path: PathId, setup: &PathSetup) {
        let windows = &mut self.windows.0;
        if windows.len() <= path.index() {
            windows.resize(path.index() + 1, None);
        }
        windows[path.index()] = Some(Window::new(setup));
        self.coupling.on_path(path);
    }

    fn remove_path(&mut self, path: PathId) {
        if let Some(window) = self.windows.0.get_mut(path.index()) {
            *window = None;
        }
        self.coupling.on_path(path);
    }

    fn on_ack(&mut self, path: PathId, event: &AckEvent) {
        self.coupling.on_acked(&self.windows, path, event);
        if self.windows.at(path).inflates {
            return self.on_ack_as_model(path, event);
        }
        if event.cumulative_advanced {
            self.windows.at_mut(path).has_timed_out = false;
        }
        if event.in_recovery || !event.is_window_limited {
            return;
        }
        let window = self.windows.at(path);
        let bytes = if window.in_slow_start() {
            // RFC 9260 section 7.2.1 asks for an advancing cumulative TSN.
            if !event.cumulative_advanced {
                return;
            }
            let most = event.segments_acked.saturating_mul(window.mss);
            self.coupling.slow_start(&self.windows, path, event.newly_acked.min(most))
        } else {
            self.coupling.avoidance(&self.windows, path, event.newly_acked)
        };
        self.grow(path, bytes);
    }

    fn on_congestion(&mut self, path: PathId, event: &CongestionEvent) {
        if event.kind == CongestionKind::Restart {
            // FreeBSD `sctp_cwnd_update_exit_pf_common`: a path back from potentially failed starts with one
            // segment.
            let window = self.windows.at_mut(path);
            window.cwnd = window.mss;
            return;
        }
        let window = self.windows.at_mut(path);
        if window.inflates {
            window.reduce_as_model(event.kind, event.outstanding);
            return self.coupling.on_loss(path);
        }
        let is_timeout = event.kind == CongestionKind::Timeout;
        if std::mem::replace(&mut window.has_timed_out, is_timeout) && is_timeout && window.holds_ssthresh {
            // RFC 5681 section 3.1: a retransmission has timed out again.
            window.cwnd = window.mss.saturating_add(event.remaining);
            return;
        }
        let (floor, marked_floor) = (window.floor, window.marked_floor);
        let threshold = self.coupling.reduced(&self.windows, path, floor);
        let marked = self.coupling.reduced(&self.windows, path, marked_floor);
        self.coupling.on_loss(path);
        let window = self.windows.at_mut(path);
        window.prior = Some((window.cwnd, window.ssthresh));
        window.ssthresh = (threshold as u32).max(window.mss);
        window.fraction = 0.0;
        window.cwnd = match event.kind {
            // RFC 5681 section 3.1, RFC 9260 section 7.2.3; what a timeout leaves on its way (RFC 8985
            // section 6.3) does not need the window.
            CongestionKind::Timeout => window.mss.saturating_add(event.remaining),
            CongestionKind::Ecn => (marked as u32).max(window.mss),
            CongestionKind::FastRetransmit | CongestionKind::Restart => window.ssthresh,
        };
    }

    fn is_only_window(&self, _path: PathId) -> bool {
        true
    }

    fn limits(&self, path: PathId) -> SendLimits {
        SendLimits::window(self.windows.at(path).cwnd)
    }

    fn state(&self, path: PathId) -> ControlState {
        let window = self.windows.at(path);
        let phase = match () {
            () if window.is_inflated => "recovery",
            () if window.in_slow_start() => "slow_start",
            () => "congestion_avoidance",
        };
        ControlState { cwnd: window.cwnd, ssthresh: window.ssthresh, phase }
    }

    fn on_duplicate(&mut self, path: PathId, _event: &DuplicateEvent) {
        // RFC 5681 section 3.2 step 4; model: DupAck.
        let window = self.windows.at_mut(path);
        if window.is_inflated {
            window.cwnd = window.cwnd.saturating_add(window.mss).min(MAX_BYTES);
        }
    }

    fn on_idle(&mut self, path: PathId, event: &IdleEvent) {
        // RFC 9260 section 7.2.1, RFC 2861: halved once per RTO, not below the initial window.
        let window = self.windows.at_mut(path);
        let mut left = event.idle;
        if event.rto.is_zero() || left < event.rto || window.cwnd <= window.initial {
            return;
        }
        window.ssthresh = window.ssthresh.max(window.cwnd);
        while left >= event.rto && window.cwnd > window.initial {
            window.cwnd = (window.cwnd / 2).max(window.initial);
            left = left.saturating_sub(event.rto);
        }
    }

    fn on_recovery_end(&mut self, path: PathId, event: &RecoveryEndEvent) {
        // RFC 6582 section 3.2 step 3, a full acknowledgement, option 1; model: NewAckNewReno.
        let window = self.windows.at_mut(path);
        if std::mem::take(&mut window.is_inflated) {
            window.cwnd = event.outstanding.saturating_add(window.mss).min(window.ssthresh);
        }
    }

    fn owns_recovery(&self, path: PathId) -> bool {
        self.windows.at(path).inflates
    }

    fn on_undo(&mut self, path: PathId, event: &UndoEvent) {
        let window = self.windows.at_mut(path);
        if let Some((cwnd, ssthresh)) = window.prior.take() {
            (window.cwnd, window.ssthresh) = match event.response {
                Some(response) => (response.cwnd.clamp(window.mss, MAX_BYTES), response.ssthresh),
                None => (window.cwnd.max(cwnd), window.ssthresh.max(ssthresh)),
            };
        }
    }

    fn on_rtt_sample(&mut self, path: PathId, event: &RttEvent) {
        self.coupling.on_rtt(path, event.rtt);
        let window = self.windows.at_mut(path);
        // Rates are divided by it, so it must not be zero.
        let rtt = event.rtt.as_secs_f64().max(1e-9);
        if window.inflates {
            // RttMeanDeviation::Measurement of ns-3.
            let srtt = window.srtt.filter(|_| window.has_sample).unwrap_or(rtt);
            (window.srtt, window.has_sample) = (Some(srtt + MODEL_GAIN * (rtt - srtt)), true);
            return;
        }
        window.srtt = Some(window.srtt.map_or(rtt, |srtt| 0.875 * srtt + 0.125 * rtt));
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::super::Controller;
    use super::*;
    use crate::cc::{self, Rules, Setup};
    use crate::time::{Duration, Time};

    pub(in crate::cc::coupled) const NOW: Time = Time::from_secs(1);
    pub(in crate::cc::coupled) const MSS: u32 = 1_000;

    /// A path whose window starts with this many segments.
    pub(in crate::cc::coupled) fn setup(segments: u32) -> PathSetup {
        PathSetup {
            own: cc::Config::Reno(cc::reno::Config::default()),
            setup: Setup {
                mss: MSS,
                initial_cwnd: segments * MSS,
                rules: Rules::Rfc,
                seed: 0,
                is_paced: false,
                headers: 0,
            },
            initial_ssthresh: 1_000_000,
            ssthresh_floor: 2,
            holds_ssthresh: true,
        }
    }

    pub(in crate::cc::coupled) fn measure(control: &mut Controller, path: PathId, millis: u64) {
        control.on_rtt_sample(path, &RttEvent::new(NOW, Duration::from_millis(millis)));
    }

    pub(in crate::cc::coupled) fn lose(control: &mut Controller, path: PathId) {
        let event = CongestionEvent::new(NOW, CongestionKind::FastRetransmit, 0);
        control.on_congestion(path, &event);
    }

    /// Windows that have these sizes in segments, after a loss each, and these round-trip times.
    pub(in crate::cc::coupled) fn avoiding(
        config: &super::super::Config,
        paths: &[(u32, u64)],
    ) -> Controller {
        let mut control = config.build();
        for (index, &(segments, rtt)) in paths.iter().enumerate() {
            let path = PathId(index as u8);
            control.add_path(path, &PathSetup { initial_ssthresh: 1, ..setup(segments) });
            measure(&mut control, path, rtt);
        }
        control
    }

    /// Acknowledges one window, segment by segment; gives the growth of the window in segments.
    pub(in crate::cc::coupled) fn round(control: &mut Controller, path: PathId) -> f64 {
        let before = control.limits(path).cwnd;
        for _ in 0..before / MSS {
            control.on_ack(path, &AckEvent::new(NOW, MSS, control.limits(path).cwnd));
        }
        (f64::from(control.limits(path).cwnd) - f64::from(before)) / f64::from(MSS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, kheirkhah, lia};
    use super::testing::{MSS, NOW, measure, setup};
    use super::*;

    const PATH: PathId = PathId(0);

    #[test]
    fn one_path_alone_is_a_standard_sender() {
        // RFC 6356 section 3: alpha is 1; OLIA's and resource pooling's shares are 1; BALIA's factors are 1.
        // Weighted Vegas is a Vegas alone, and a loss is no other to it.
        for config in Config::all() {
            if matches!(config, Config::Wvegas(_)) {
                continue;
            }
            let mut control = config.build();
            control.add_path(PATH, &setup(10));
            measure(&mut control, PATH, 100);
            assert!((testing::round(&mut control, PATH) - 10.0).abs() < 1e-9, "{config:?}: slow start");
            testing::lose(&mut control, PATH);
            assert_eq!(control.limits(PATH).cwnd, 10 * MSS, "{config:?}");
            let grown = testing::round(&mut control, PATH);
            assert!((0.9..=1.0).contains(&grown), "{config:?}: {grown} segments per round");
            let timeout = CongestionEvent::new(NOW, CongestionKind::Timeout, 0);
            control.on_congestion(PATH, &timeout);
            assert_eq!(control.limits(PATH).cwnd, MSS);
            control.on_undo(PATH, &UndoEvent::new(NOW));
            assert!(control.limits(PATH).cwnd > 10 * MSS);
        }
    }

    /// Windows of the model in avoidance with these sizes in segments, and these round-trip times in ms.
    fn model(config: &Config, paths: &[(u32, u64)]) -> super::super::Controller {
        let mut control = config.build();
        for (index, &(segments, rtt)) in paths.iter().enumerate() {
            let path = PathId(index as u8);
            let mut setup = setup(segments);
            setup.setup.rules = Rules::Inflated;
            control.add_path(path, &setup);
            assert_eq!(control.state(path).ssthresh, 65_535);
            measure(&mut control, path, rtt);
            lose(&mut control, path, 2 * segments);
            end(&mut control, path, 2 * segments);
            assert_eq!(control.limits(path).cwnd, segments * MSS);
        }
        control
    }

    fn lose(control: &mut super::super::Controller, path: PathId, flight: u32) {
        let event = CongestionEvent::new(NOW, CongestionKind::FastRetransmit, flight * MSS);
        control.on_congestion(path, &event);
    }

    fn end(control: &mut super::super::Controller, path: PathId, flight: u32) {
        control.on_recovery_end(path, &RecoveryEndEvent::new(NOW, flight * MSS));
    }

    #[test]
    fn the_model_counts_the_threshold_in_recovery_and_shows_the_inflated_window() {
        let mut control = model(&Config::Lia(lia::Config {}), &[(10, 100), (10, 100)]);
        lose(&mut control, PATH, 10);
        assert_eq!(control.limits(PATH).cwnd, 8 * MSS);
        let windows = match &control {
            super::super::Controller::Lia(frame) => &frame.windows,
            _ => unreachable!("it is linked increases"),
        };
        assert_eq!(windows.iter().map(|(_, window)| window.counted()).sum::<u32>(), 15 * MSS);
        assert_eq!(control.state(PATH).phase, "recovery");
        // MSS x MSS / 15 MSS.
        let mut full = model(&Config::FullyCoupled(kheirkhah::Config {}), &[(10, 100), (10, 100)]);
        lose(&mut full, PATH, 10);
        full.on_ack(PathId(1), &AckEvent::new(NOW, MSS, 10 * MSS));
        assert_eq!(full.limits(PathId(1)).cwnd, 10 * MSS + 66);
        control.on_congestion(PATH, &CongestionEvent::new(NOW, CongestionKind::Timeout, 10 * MSS));
        control.on_duplicate(PATH, &DuplicateEvent::new(NOW));
        assert_eq!(control.limits(PATH).cwnd, MSS, "a timeout ends recovery");
    }

    #[test]
    fn the_model_grows_by_whole_bytes_and_at_least_one() {
        let ack = AckEvent { is_window_limited: false, ..AckEvent::new(NOW, 2 * MSS, 20 * MSS) };
        // 2 paths of 10 segments each: MSS x MSS / (4 x 10 MSS) = 25 B, 24 where the other is larger.
        let mut control = model(&Config::Lia(lia::Config {}), &[(10, 100), (10, 100)]);
        control.on_ack(PATH, &ack);
        assert_eq!(control.limits(PATH).cwnd, 10 * MSS + 25);
        control.on_ack(PATH, &ack);
        assert_eq!(control.limits(PATH).cwnd, 10 * MSS + 25 + 24);
        let mut large = model(&Config::Lia(lia::Config {}), &[(10, 10_000), (2_000, 10)]);
        large.on_ack(PATH, &ack);
        assert_eq!(large.limits(PATH).cwnd, 10 * MSS + 1);
    }

    #[test]
    fn the_model_deflates_by_what_is_acknowledged_to_one_segment_at_least() {
        let mut control = model(&Config::Lia(lia::Config {}), &[(10, 100)]);
        lose(&mut control, PATH, 10);
        control.on_ack(PATH, &AckEvent { in_recovery: true, ..AckEvent::new(NOW, 3 * MSS, 10 * MSS) });
        assert_eq!(control.limits(PATH).cwnd, 6 * MSS);
        control.on_ack(PATH, &AckEvent { in_recovery: true, ..AckEvent::new(NOW, 8 * MSS, 10 * MSS) });
        assert_eq!(control.limits(PATH).cwnd, MSS);
    }

    #[test]
    fn the_model_smooths_with_a_tenth_after_one_and_a_half_seconds() {
        let mut control = Config::Lia(lia::Config {}).build();
        let mut setup = setup(10);
        setup.setup.rules = Rules::Inflated;
        control.add_path(PATH, &setup);
        let srtt = |control: &super::super::Controller| match control {
            super::super::Controller::Lia(frame) => frame.windows.at(PATH).srtt.expect("it is known"),
            _ => unreachable!("it is linked increases"),
        };
        assert!((srtt(&control) - 1.5).abs() < 1e-12);
        for (millis, expected) in [(100, 0.1), (200, 0.11)] {
            measure(&mut control, PATH, millis);
            assert!((srtt(&control) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow_and_idleness_halves_it() {
        let mut control = Config::Lia(lia::Config {}).build();
        control.add_path(PATH, &setup(10));
        let unused = AckEvent { is_window_limited: false, ..AckEvent::new(NOW, MSS, MSS) };
        let recovering = AckEvent { in_recovery: true, ..AckEvent::new(NOW, MSS, 10 * MSS) };
        for event in [unused, recovering] {
            control.on_ack(PATH, &event);
            assert_eq!(control.limits(PATH).cwnd, 10 * MSS);
        }
        testing::round(&mut control, PATH);
        let rto = Duration::from_secs(1);
        control.on_idle(PATH, &IdleEvent::new(Duration::from_millis(1_500), rto));
        assert_eq!(control.limits(PATH).cwnd, 10 * MSS);
    }
}
