//! Application-limited regions: much less is sent than the target allows (`alr_detector.cc`,
//! `interval_budget.cc`).

use crate::time::Time;

/// `bandwidth_usage_ratio`: so much of the target is expected to be used.
const USED: f64 = 0.65;
/// `start_budget_level_ratio` and `stop_budget_level_ratio`.
const START: f64 = 0.8;
const STOP: f64 = 0.5;
/// The budget holds as much as this time gives, in s.
const WINDOW_S: f64 = 0.5;

/// A budget that sending uses up.
#[derive(Debug)]
pub(super) struct Alr {
    /// In bit/s.
    rate: f64,
    /// In bit.
    budget: f64,
    last_sent: Option<Time>,
    since: Option<Time>,
}

impl Alr {
    pub(super) fn new(target: f64) -> Self {
        Self { rate: USED * target, budget: 0.0, last_sent: None, since: None }
    }

    /// Since when the application is the limit; `None` if it is not.
    pub(super) const fn since(&self) -> Option<Time> {
        self.since
    }

    pub(super) fn set_target(&mut self, target: f64) {
        self.rate = USED * target;
        let most = self.rate * WINDOW_S;
        self.budget = self.budget.clamp(-most, most);
    }

    pub(super) fn on_sent(&mut self, now: Time, size: u32) {
        let Some(last) = self.last_sent.replace(now) else { return };
        let most = self.rate * WINDOW_S;
        self.budget = (self.budget - f64::from(size) * 8.0).max(-most);
        self.budget = (self.budget + self.rate * now.saturating_since(last).as_secs_f64()).min(most);
        let level = self.budget / most;
        if level > START {
            self.since = self.since.or(Some(now));
        } else if level < STOP {
            self.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_target_is_a_region_and_all_of_it_is_none() {
        let mut alr = Alr::new(1e6);
        let mut send = |from: u64, until: u64, gap: u64| {
            (from..until).step_by(gap as usize).for_each(|ms| alr.on_sent(Time::from_millis(ms), 1_250));
            alr.since()
        };
        let since = send(0, 2_000, 40).expect("it is limited");
        // 650 kbit/s less 250 fill 0.8 x 325 kbit in 650 ms.
        assert!((600..=720).contains(&(since.as_nanos() / 1_000_000)), "{since:?}");
        assert_eq!(send(2_000, 2_800, 10), None);
    }
}
