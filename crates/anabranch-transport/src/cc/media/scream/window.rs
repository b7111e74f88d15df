//! The reference window ("Reference Window Update").

use super::config::Config;
use super::delay::Delays;
use crate::time::{Duration, Time};

/// "Receiving ECN-CE for L4S": the share of marks is taken at least so often, in s.
const ALPHA_INTERVAL: f64 = 0.01;
/// After so many round trips without congestion, the window is brought back to what was in flight.
const LONG_RTTS: f64 = 100.0;

/// What one feedback message says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acked {
    /// By how many bytes the highest acknowledged packet has advanced, with those that are lost.
    pub(super) bytes: u64,
    /// Bytes of marked packets among those that arrived.
    marked_bytes: u64,
    arrived: u64,
    marked: u64,
    lost: u64,
}

impl Acked {
    pub(super) const fn on_loss(&mut self) {
        self.lost += 1;
    }

    pub(super) fn on_arrival(&mut self, size: u32, is_marked: bool) {
        self.arrived += 1;
        if is_marked {
            self.marked += 1;
            self.marked_bytes += u64::from(size);
        }
    }

    pub(super) const fn has_loss(&self) -> bool {
        self.lost > 0
    }
}

/// The mean share of marks in a round trip (`l4s_alpha`).
#[derive(Debug)]
struct Alpha {
    value: f64,
    gains: [f64; 2],
    updated: Time,
    arrived: u64,
    marked: u64,
}

impl Alpha {
    fn on_acked(&mut self, now: Time, acked: &Acked, rtt: f64) {
        self.arrived += acked.arrived;
        self.marked += acked.marked;
        if now.saturating_since(self.updated).as_secs_f64() < rtt.min(ALPHA_INTERVAL) || self.arrived == 0 {
            return;
        }
        let share = self.marked as f64 / self.arrived as f64;
        let [up, down] = self.gains;
        self.value = if share >= self.value {
            up * share + (1.0 - up) * self.value
        } else {
            (1.0 - down) * self.value
        };
        (self.updated, self.arrived, self.marked) = (now, 0, 0);
    }
}

/// The most that was in flight in this round trip and in the one before it, in bytes.
#[derive(Debug, Default)]
struct MostInFlight {
    now: u64,
    before: u64,
    since: Time,
}

impl MostInFlight {
    fn on_rtt(&mut self, now: Time, rtt: f64) {
        if now.saturating_since(self.since).as_secs_f64() >= rtt {
            *self = Self { now: 0, before: self.now, since: now };
        }
    }
}

/// Why the window is lowered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Congestion {
    Loss,
    Marks,
    /// The delay, as if this share of packets had been marked (`l4s_alpha_v_t`).
    Delay(f64),
}

/// The reference window.
#[derive(Debug)]
pub(super) struct ReferenceWindow {
    config: Config,
    /// Whether marks are those of L4S (`IS_L4S`).
    is_l4s: bool,
    /// `ref_wnd` in bytes.
    bytes: f64,
    /// The window at the last congestion (`ref_wnd_i`).
    inflection: f64,
    may_set_inflection: bool,
    alpha: Alpha,
    /// The mean share of losses (`loss_rate`).
    loss_rate: f64,
    /// Packets that were lost, and that were marked, since the window was last lowered.
    lost: u64,
    marked: u64,
    /// When packets were last lost or marked, and when the window was last lowered.
    detected: Option<Time>,
    reacted: Option<Time>,
    most: MostInFlight,
}

impl ReferenceWindow {
    pub(super) fn new(config: &Config, is_l4s: bool) -> Self {
        let gains = [config.l4s_avg_g_up, config.l4s_avg_g_down];
        Self {
            config: *config,
            is_l4s,
            bytes: config.min_ref_wnd.0 as f64,
            inflection: 1.0,
            may_set_inflection: true,
            alpha: Alpha { value: 0.0, gains, updated: Time::ZERO, arrived: 0, marked: 0 },
            loss_rate: 0.0,
            lost: 0,
            marked: 0,
            detected: None,
            reacted: None,
            most: MostInFlight::default(),
        }
    }

    /// `ref_wnd` in bytes.
    pub(super) const fn bytes(&self) -> f64 {
        self.bytes
    }

    /// `ref_wnd_ratio`: a packet as a share of the window, at most 1.
    pub(super) fn packet_share(&self) -> f64 {
        (self.config.mss.0 as f64 / self.bytes).min(1.0)
    }

    /// How much may be in flight ("Send Window Calculation").
    pub(super) fn send_limit(&self, delays: &Delays) -> u64 {
        let [min, max] = [self.config.ref_wnd_overhead_min, self.config.ref_wnd_overhead_max];
        (self.bytes * (min + (max - min) * delays.scale())) as u64
    }

    pub(super) fn on_in_flight(&mut self, bytes: u64) {
        self.most.now = self.most.now.max(bytes);
    }

    /// Follows one feedback message. `is_below_arriving` says that the target is well below what arrives, and
    /// `is_at_most` that it is as high as it may be.
    pub(super) fn update(
        &mut self,
        now: Time,
        acked: &Acked,
        delays: &Delays,
        is_below_arriving: bool,
        is_at_most: bool,
    ) {
        self.most.on_rtt(now, delays.rtt());
        self.alpha.on_acked(now, acked, delays.rtt());
        self.count_losses(acked);
        self.lost += acked.lost;
        self.marked += acked.marked;
        if acked.lost > 0 || acked.marked > 0 {
            self.detected = Some(now);
        }
        // How near the window is to its last value before congestion (`scl_t`).
        let distance = 8.0 * (self.bytes - self.inflection) / self.inflection;
        let nearness = (distance * distance).clamp(0.1, 1.0);
        if let Some(congestion) = self.congestion(now, delays) {
            if std::mem::take(&mut self.may_set_inflection) {
                self.inflection = self.bytes;
            }
            self.reduce(now, congestion, delays, nearness, is_below_arriving);
            self.reacted = Some(now);
            (self.lost, self.marked) = (0, 0);
        }
        self.increase(now, acked, delays, nearness, is_at_most);
    }

    /// "Link layer losses and rate policers".
    fn count_losses(&mut self, acked: &Acked) {
        let alpha = (self.config.loss_rate_threshold / 4.0).min(self.packet_share() / 2.0);
        for share in std::iter::repeat_n(1.0, acked.lost as usize)
            .chain(std::iter::repeat_n(0.0, acked.arrived as usize))
        {
            self.loss_rate += alpha * (share - self.loss_rate);
        }
    }

    fn congestion(&self, now: Time, delays: &Delays) -> Option<Congestion> {
        let interval = Duration::from_secs_f64(delays.virtual_rtt().min(delays.rtt()));
        if self.reacted.is_some_and(|last| now.saturating_since(last) < interval) {
            return None;
        }
        let (delay, target) = (delays.qdelay_avg, delays.target);
        let threshold = self.config.loss_rate_threshold;
        if self.lost > 0 {
            // Few losses without a queue are those of the link.
            let counts = threshold == 0.0 || self.loss_rate > threshold || delay > target / 4.0;
            counts.then_some(Congestion::Loss)
        } else if self.marked > 0 {
            Some(Congestion::Marks)
        } else {
            let share = ((delay - target / 2.0) / (target / 2.0)).min(1.0);
            (share > 0.0).then_some(Congestion::Delay(share))
        }
    }

    /// "Reference Window Reduction".
    fn reduce(
        &mut self,
        now: Time,
        congestion: Congestion,
        delays: &Delays,
        nearness: f64,
        is_below_arriving: bool,
    ) {
        let (rtt, virtual_rtt) = (delays.rtt(), delays.virtual_rtt());
        // It is lowered every virtual round trip, so a long one has several reactions.
        let per_rtt = (rtt / virtual_rtt).max(1.0);
        // "Reference window undershoot at congestion".
        let undershoot = if is_below_arriving { self.config.backoff_scale_low_target_rate } else { 1.0 };
        let reduced = match congestion {
            Congestion::Loss => self.bytes * self.config.beta_loss,
            Congestion::Marks if !self.is_l4s => self.bytes * self.config.beta_ecn,
            Congestion::Marks => {
                let mut backoff = self.alpha.value / 2.0 / per_rtt * undershoot;
                if delays.qdelay < delays.target * 0.25 {
                    backoff *= nearness.max(0.25) * delays.scale().max(0.25);
                }
                let long = Duration::from_secs_f64(LONG_RTTS * rtt.max(virtual_rtt));
                let is_first = self.reacted.is_none_or(|last| now.saturating_since(last) > long);
                let most = self.most.before as f64;
                let bytes = if is_first && most > 0.0 { self.bytes.min(most) } else { self.bytes };
                (1.0 - backoff) * bytes
            }
            Congestion::Delay(share) => (1.0 - share / 2.0 / per_rtt * undershoot) * self.bytes,
        };
        self.bytes = reduced.max(self.config.min_ref_wnd.0 as f64);
    }

    /// "Reference Window Increase".
    fn increase(&mut self, now: Time, acked: &Acked, delays: &Delays, nearness: f64, is_at_most: bool) {
        let (config, mss) = (&self.config, self.config.mss.0 as f64);
        let (rtt, virtual_rtt) = (delays.rtt(), delays.virtual_rtt());
        let cautious = config.post_congestion_delay_rtt * rtt.max(virtual_rtt);
        let calm =
            self.detected.map_or(1.0, |last| (now.saturating_since(last).as_secs_f64() / cautious).min(1.0));
        let unmarked = acked.bytes.saturating_sub(acked.marked_bytes) as f64;
        let multiplicative = config.mul_increase_factor * self.bytes / mss * calm * nearness;
        let increment = unmarked
            * self.packet_share()
            * (rtt / virtual_rtt).min(1.0)
            * nearness.max(0.25)
            * delays.scale().max(0.1)
            * (1.0 + multiplicative);
        let allowed = mss + self.most.now.max(self.most.before) as f64 * config.bytes_in_flight_head_room;
        if self.bytes + increment <= allowed && !is_at_most && increment > 0.0 {
            self.bytes += increment;
            self.may_set_inflection = true;
        }
    }
}
