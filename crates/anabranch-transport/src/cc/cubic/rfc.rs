//! CUBIC as RFC 9438 has it. It counts in fractions of a segment and in nanoseconds.
//!
//! A stage of congestion avoidance begins after each reduction and after each slow start, that of a sender
//! that was idle included (RFC 5681 section 4.1). Time in which the window does not limit the sender does not
//! count (section 5.8).
//!
//! Known deviation: the share of the window that a reduction leaves is one of the window, not of what is
//! outstanding (section 4.6 allows it, as this window does not grow while it is not used).

use super::super::used_time::UsedTime;
use super::super::window::{Algorithm, State, Window};
use super::super::{AckEvent, CongestionEvent};
use super::Config;
use crate::time::{Duration, Time};

/// CUBIC as in RFC 9438.
#[derive(Debug)]
pub struct Rfc {
    c: f64,
    /// What a loss leaves of the window of all connections.
    beta: f64,
    fast_convergence: bool,
    tcp_friendliness: bool,
    connections: f64,
    curve: Curve,
    used: UsedTime,
    /// The variables before the last reduction (section 4.9.2).
    undo: Option<Undo>,
}

/// The curve on which the window moves (section 4.1.2). Windows are in segments.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// `W_max`, where the curve is flat. It is undefined before the first reduction and after a timeout, and
    /// then becomes the window at the beginning of the next stage (sections 4.8 and 4.10).
    w_max: Option<f64>,
    /// `cwnd_prior`: the window before the last reduction, which fast convergence does not lower.
    cwnd_prior: f64,
    /// The present stage of congestion avoidance; [`None`] outside of one.
    stage: Option<Stage>,
    /// The part of the window below one segment.
    fraction: f64,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// `t_epoch`: when it began. It moves by the time that does not count.
    epoch: Time,
    /// K in seconds.
    k: f64,
    /// `W_max`.
    w_max: f64,
    /// `W_est`: Reno's window.
    w_est: f64,
}

/// What an undo restores.
#[derive(Clone, Copy, Debug)]
struct Undo {
    ssthresh: u32,
    curve: Curve,
}

impl Rfc {
    pub(super) fn new(config: &Config) -> Self {
        let connections = f64::from(config.connections);
        // Section 4.6, for one of the connections.
        let beta = config.beta.unwrap_or(0.7);
        Self {
            c: config.c,
            beta: (connections - 1.0 + beta) / connections,
            fast_convergence: config.fast_convergence,
            tcp_friendliness: config.tcp_friendliness,
            connections,
            curve: Curve::default(),
            used: UsedTime::default(),
            undo: None,
        }
    }

    /// Moves the curve by time that does not count (section 4.2: "MUST NOT include").
    fn skip(&mut self, unused: Duration) {
        if let Some(stage) = &mut self.curve.stage {
            stage.epoch += unused;
        }
    }

    /// The stage of congestion avoidance that begins now (section 4.2, Figure 2).
    fn begin(&mut self, now: Time, cwnd: f64) -> Stage {
        let w_max = *self.curve.w_max.get_or_insert(cwnd);
        Stage { epoch: now, k: libm::cbrt((w_max - cwnd) / self.c), w_max, w_est: cwnd }
    }

    /// The window of congestion avoidance when `acked` segments are acknowledged, which count as `counted`
    /// acknowledgements (sections 4.2 to 4.5).
    fn avoid(&mut self, event: &AckEvent, cwnd: f64, acked: f64, counted: f64) -> f64 {
        let mut stage = self.curve.stage.unwrap_or_else(|| self.begin(event.now, cwnd));
        // Section 4.3, Figure 4: it counts segments, whether acknowledgements are delayed or not. For several
        // connections as Chromium has it (`CubicBytes::Alpha`).
        let is_past = stage.w_est >= self.curve.cwnd_prior;
        let n = self.connections;
        let alpha = if is_past { n } else { 3.0 * n * n * (1.0 - self.beta) / (1.0 + self.beta) };
        stage.w_est += alpha * acked / cwnd;
        self.curve.stage = Some(stage);

        let t = event.now.saturating_since(stage.epoch).as_secs_f64();
        let w_cubic = |t: f64| {
            let offset = t - stage.k;
            self.c * offset * offset * offset + stage.w_max
        };
        if self.tcp_friendliness && w_cubic(t) < stage.w_est {
            return cwnd.max(stage.w_est);
        }
        // Sections 4.4 and 4.5: for each acknowledgement.
        let rtt = event.srtt.map_or(0.0, Duration::as_secs_f64);
        let target = w_cubic(t + rtt).clamp(cwnd, 1.5 * cwnd);
        cwnd + (target - cwnd) * counted / cwnd
    }
}

impl Algorithm for Rfc {
    fn on_acked(&mut self, _window: &mut Window, event: &AckEvent) {
        let unused = self.used.unused_at_ack(event);
        self.skip(unused);
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if window.in_slow_start() {
            self.curve.stage = None;
        }
        let Some(counted) = window.beyond_slow_start(event) else { return };
        let cwnd = f64::from(window.cwnd) + self.curve.fraction;
        let of_slow_start = event.segments_acked.saturating_sub(counted);
        let acked = f64::from(event.newly_acked) / f64::from(window.mss) - f64::from(of_slow_start);
        let grown = self.avoid(event, cwnd, acked.max(0.0), f64::from(counted));
        let whole = grown.floor();
        window.set(whole as u32);
        self.curve.fraction = if window.cwnd == whole as u32 { grown - whole } else { 0.0 };
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        self.undo = Some(Undo { ssthresh: window.ssthresh, curve: self.curve });
        let cwnd = f64::from(window.cwnd) + self.curve.fraction;
        // Section 4.7.
        let shrinks = self.fast_convergence && self.curve.w_max.is_some_and(|w_max| cwnd < w_max);
        let w_max = if shrinks { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd };
        self.curve = Curve { w_max: Some(w_max), cwnd_prior: cwnd, stage: None, fraction: 0.0 };
        (cwnd * self.beta) as u32
    }

    fn on_state(&mut self, _window: &mut Window, state: State, _now: Time) {
        if state == State::Loss {
            // Section 4.8.
            self.curve = Curve { w_max: None, stage: None, fraction: 0.0, ..self.curve };
        }
    }

    fn on_undo(&mut self, window: &mut Window) {
        // Section 4.9.2; the frame restores the window itself.
        if let Some(undo) = self.undo.take() {
            window.ssthresh = undo.ssthresh;
            self.curve = undo.curve;
        }
    }

    fn on_start(&mut self, _window: &Window, now: Time, _idle: Duration) {
        let unused = self.used.unused_at(now);
        self.skip(unused);
    }
}
