//! Talk spurts and pauses, frame by frame.

use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::Duration;

use super::TalkSpurtsConfig;

/// Alternating talk spurts and pauses of exponential lengths, starting with talk.
#[derive(Debug)]
pub(super) struct TalkSpurts {
    means: TalkSpurtsConfig,
    period: Duration,
    is_talk: bool,
    /// The rest of the current spurt or pause.
    left: Duration,
    rng: Rng,
}

impl TalkSpurts {
    pub(super) fn new(means: TalkSpurtsConfig, period: Duration, mut rng: Rng) -> Self {
        let left = means.talk.scaled(rng.exponential());
        Self { means, period, is_talk: true, left, rng }
    }

    /// Whether the speaker talks in the next frame period.
    pub(super) fn next_is_talk(&mut self) -> bool {
        let is_talk = self.is_talk;
        let mut period = self.period;
        while self.left <= period {
            period -= self.left;
            self.is_talk = !self.is_talk;
            let mean = if self.is_talk { self.means.talk } else { self.means.pause };
            self.left = mean.scaled(self.rng.exponential());
        }
        self.left -= period;
        is_talk
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;

    use super::*;

    #[test]
    fn the_share_of_talk_is_that_of_the_means() {
        let means = TalkSpurtsConfig::default();
        let rng = Streams { seed: 1, replication: 0 }.stream("talk");
        let mut spurts = TalkSpurts::new(means, Duration::from_millis(20), rng);
        let frames = 1_000_000;
        let talk = (0..frames).filter(|_| spurts.next_is_talk()).count();
        let share = talk as f64 / f64::from(frames);
        // ITU-T P.59: 1.004 s of talk, 1.587 s of pause.
        assert!((share - 1.004 / 2.591).abs() < 0.01, "{share}");
    }
}
