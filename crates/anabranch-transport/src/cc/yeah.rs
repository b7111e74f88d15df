//! YeAH: Scalable TCP while the queue is short, Reno while it is long.
//!
//! A. Baiocchi, A. Castellani and F. Vacirca, "YeAH-TCP: yet another highspeed TCP", 2007, as in Linux's
//! `tcp_yeah.c`, under all rules. The queue is the one that Vegas sees. In fast mode a queue of more than
//! alpha packets is taken out of the window at once; if that keeps failing, others are greedy, and it
//! stays Reno.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::RoundTrips;
use super::slow_start::SlowStart;
use super::window::{Algorithm, State, Window, Windowed};
use super::{AckEvent, CongestionEvent, Rules, Setup, check_count};
use crate::time::{Duration, Time};

/// Settings of YeAH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "YeahConfig")]
pub struct Config {
    /// Packets in the queue that are removed early; default 80.
    pub alpha: u32,
    /// The share of the queue that is removed per round, 1 / gamma; default 1.
    pub gamma: u32,
    /// The least share of the window that a loss takes, as 2^-delta; default 3.
    pub delta: u32,
    /// The largest share of the window that early removal takes, as 2^-epsilon; default 1.
    pub epsilon: u32,
    /// The largest delay of fast mode is 1 / phy of the smallest round-trip time; default 8.
    pub phy: u32,
    /// The rounds in slow mode after which a loss halves the window; default 16.
    pub rho: u32,
    /// The rounds in fast mode after which other flows count as gone; default 50.
    pub zeta: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { alpha: 80, gamma: 1, delta: 3, epsilon: 1, phy: 8, rho: 16, zeta: 50 }
    }
}

impl Config {
    /// Checks that the settings are possible.
    ///
    /// # Errors
    /// One sentence that names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        check_count("alpha", self.alpha, 1, 100_000)?;
        check_count("gamma", self.gamma, 1, 1_000)?;
        check_count("delta", self.delta, 1, 16)?;
        check_count("epsilon", self.epsilon, 1, 16)?;
        check_count("phy", self.phy, 1, 1_000)?;
        check_count("rho", self.rho, 1, 100_000)?;
        check_count("zeta", self.zeta, 1, 100_000)
    }

    pub(super) fn build(&self, setup: &Setup) -> Windowed<Yeah> {
        Windowed::new(setup, SlowStart::Standard, |_| Yeah {
            config: *self,
            times: RoundTrips::default(),
            queued: 0,
            slow_rounds: 0,
            reno_window: 2,
            fast_rounds: 0,
        })
    }
}

/// Linux: `TCP_SCALABLE_AI_CNT`.
const SCALABLE: u32 = 100;

/// YeAH.
#[derive(Debug)]
pub struct Yeah {
    config: Config,
    times: RoundTrips,
    /// Packets in the queue at the end of the last round.
    queued: u32,
    /// Rounds in slow mode without a break; 0 means fast mode.
    slow_rounds: u32,
    /// The least window that a greedy Reno would have (Linux: `reno_count`).
    reno_window: u32,
    fast_rounds: u32,
}

impl Yeah {
    /// Decides on the mode at the end of a round.
    fn decide(&mut self, window: &mut Window) {
        let (rtt, base) = (u64::from(self.times.min), u64::from(self.times.base));
        let queued = (u64::from(window.cwnd) * (rtt - base) / rtt) as u32;
        let many = queued > self.config.alpha;
        if many || rtt - base > base / u64::from(self.config.phy) {
            if many && window.cwnd > self.reno_window {
                let cut = (queued / self.config.gamma).min(window.cwnd >> self.config.epsilon);
                window.set((window.cwnd - cut).max(self.reno_window));
                window.ssthresh = window.cwnd;
            }
            if self.reno_window <= 2 {
                self.reno_window = window.half().max(2);
            } else {
                self.reno_window += 1;
            }
            self.slow_rounds += 1;
        } else {
            self.fast_rounds += 1;
            if self.fast_rounds > self.config.zeta {
                self.reno_window = 2;
                self.fast_rounds = 0;
            }
            self.slow_rounds = 0;
        }
        self.queued = queued;
    }
}

impl Algorithm for Yeah {
    fn on_acked(&mut self, window: &mut Window, event: &AckEvent) {
        self.times.on_ack(event, event.is_open && window.state == State::Open);
    }

    fn grow(&mut self, window: &mut Window, event: &AckEvent) {
        if !event.is_window_limited {
            return;
        }
        if let Some(acked) = window.beyond_slow_start(event) {
            let per = if self.slow_rounds == 0 { window.cwnd.min(SCALABLE) } else { window.cwnd };
            window.add_one_per(per, acked);
        }
        if self.times.passed(event) {
            if self.times.suffice() {
                self.decide(window);
            }
            self.times.next_round();
        }
    }

    fn reduced(&mut self, window: &Window, _event: &CongestionEvent) -> u32 {
        let half = window.half().max(2);
        let cut = if self.slow_rounds < self.config.rho {
            // Linux rounds the least share down, so that it leaves a window of a few segments as it is.
            let up = if window.rules == Rules::Rfc { (1 << self.config.delta) - 1 } else { 0 };
            self.queued.min(half).max(window.cwnd.saturating_add(up) >> self.config.delta)
        } else {
            half
        };
        self.fast_rounds = 0;
        self.reno_window = (self.reno_window / 2).max(2);
        window.cwnd.saturating_sub(cut)
    }

    fn on_start(&mut self, _window: &Window, _now: Time, _idle: Duration) {
        self.times.restart();
    }

    fn on_restart(&mut self, _window: &mut Window) {
        self.times.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::super::testing::{Path, Rounds, Sender, build, cwnd, lose};
    use super::*;

    #[test]
    fn grows_as_scalable_without_a_queue_and_as_reno_with_one() {
        let mut control = build(Config::default(), Rules::Linux6, 400);
        let mut rounds = Rounds::new(Duration::from_millis(100));
        rounds.ack(&mut control, 0, rounds.rtt);
        lose(&mut control, rounds.now);
        assert_eq!(cwnd(&control), 350, "an eighth, for there is no queue");
        let begin = cwnd(&control);
        rounds.round(&mut control);
        assert!((3..=4).contains(&(cwnd(&control) - begin)));
        for _ in 0..2 {
            rounds.round_with(&mut control, Duration::from_millis(115));
        }
        let begin = cwnd(&control);
        rounds.round_with(&mut control, Duration::from_millis(115));
        assert_eq!(cwnd(&control), begin + 1, "a delay of more than an eighth");
        lose(&mut control, rounds.now);
        // 360 x 15 / 115 = 46: more than an eighth.
        assert!((310..=318).contains(&cwnd(&control)), "{}", cwnd(&control));
    }

    #[test]
    fn keeps_the_queue_short_without_losses() {
        let path = Path::new(10_000.0, Duration::from_millis(100), 500);
        let bdp = path.bdp();
        let mut sender = Sender::new(build(Config::default(), Rules::Linux6, 10), path);
        sender.run(Duration::from_secs(20));
        let first_drops = sender.drops;
        sender.run(Duration::from_secs(60));
        assert_eq!(sender.drops, first_drops, "after slow start");
        let skip = Duration::from_secs(20);
        let most = sender.after(skip).map(|sample| sample.cwnd - bdp).fold(0.0, f64::max);
        // It sees the queue a round late, and grows by ten per round.
        assert!((60.0..120.0).contains(&most), "early removal starts at 80 packets: {most}");
        assert!(sender.goodput_after(skip) > 9_900.0);
    }
}
