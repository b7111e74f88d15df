//! Packets that are sent again: how many may be, and what they leave to the encoder.

use std::collections::VecDeque;

use crate::time::{Duration, Time};
use crate::units::Rate;

/// How much may be sent again: a share of the target rate, at most half a second's worth at once.
#[derive(Debug)]
pub(super) struct Budget {
    share: f64,
    bits: f64,
    filled: Option<Time>,
}

/// For so long a budget that is not used grows, in s.
const DEPTH_S: f64 = 0.5;

impl Budget {
    pub(super) const fn new(share: f64) -> Self {
        Self { share, bits: 0.0, filled: None }
    }

    /// Takes so many bytes from the budget, if it has as many.
    pub(super) fn take(&mut self, now: Time, size: u32, target: Rate) -> bool {
        let rate = self.share * target.bits_per_sec() as f64;
        let since = self.filled.map_or(DEPTH_S, |before| now.saturating_since(before).as_secs_f64());
        self.bits = (self.bits + rate * since).min(rate * DEPTH_S);
        self.filled = Some(now);
        let wanted = f64::from(size) * 8.0;
        let has_enough = self.bits >= wanted;
        if has_enough {
            self.bits -= wanted;
        }
        has_enough
    }
}

/// What has been sent within the last second, padding and copies left out.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// When, how many bytes, and whether they were sent again.
    packets: VecDeque<(Time, u32, bool)>,
    /// Bytes of what was sent for the first time, and of what was sent again.
    bytes: [u64; 2],
}

/// libwebrtc's `FecControllerDefault`: no more than this is taken off.
const MOST_TAKEN: f64 = 0.5;

impl Recent {
    pub(super) fn on_sent(&mut self, now: Time, size: u32, is_again: bool) {
        self.packets.push_back((now, size, is_again));
        self.bytes[usize::from(is_again)] += u64::from(size);
        self.forget(now);
    }

    /// What a target leaves to the encoder (libwebrtc: `FecControllerDefault::UpdateFecRates`): the next
    /// second is expected to have the same share of packets that are sent again.
    pub(super) fn of_encoder(&mut self, now: Time, target: Rate) -> Rate {
        self.forget(now);
        let [first, again] = self.bytes.map(|bytes| bytes as f64);
        if again == 0.0 {
            return target;
        }
        let share = (again / (first + again)).min(MOST_TAKEN);
        Rate::from_bits_per_sec((target.bits_per_sec() as f64 * (1.0 - share)) as u64)
    }

    fn forget(&mut self, now: Time) {
        while let Some(&(at, size, is_again)) = self.packets.front()
            && at + Duration::from_secs(1) < now
        {
            self.bytes[usize::from(is_again)] -= u64::from(size);
            self.packets.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(1_000_000);

    #[test]
    fn a_budget_is_a_share_of_the_rate() {
        let mut budget = Budget::new(0.1);
        // Half a second of 100 kbit/s are 6250 bytes.
        assert!(budget.take(Time::ZERO, 6_000, RATE));
        assert!(!budget.take(Time::ZERO, 1_000, RATE));
        assert!(budget.take(Time::from_millis(60), 1_000, RATE));
        assert!(!Budget::new(0.0).take(Time::ZERO, 1, RATE));
    }

    #[test]
    fn what_is_sent_again_is_taken_off() {
        let mut recent = Recent::default();
        let kbit_per_s = |recent: &mut Recent, millis| {
            recent.of_encoder(Time::from_millis(millis), RATE).bits_per_sec() / 1_000
        };
        assert_eq!(kbit_per_s(&mut recent, 0), 1_000);
        recent.on_sent(Time::ZERO, 3_000, false);
        assert_eq!(kbit_per_s(&mut recent, 100), 1_000);
        recent.on_sent(Time::from_millis(200), 1_000, true);
        assert_eq!(kbit_per_s(&mut recent, 1_000), 750);
        assert_eq!(kbit_per_s(&mut recent, 1_001), 500, "a half at most");
        assert_eq!(kbit_per_s(&mut recent, 1_201), 1_000);
        assert_eq!((recent.packets.len(), recent.bytes), (0, [0, 0]));
    }
}
