//! The pattern of losses: how many, how clustered, how long.

/// Counts losses in the order of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossPattern {
    /// Frames seen.
    pub frames: u64,
    /// Frames not heard.
    pub lost: u64,
    /// Runs of frames not heard.
    pub bursts: u64,
    /// The longest of these runs, in frames.
    pub longest: u64,
    run: u64,
}

impl LossPattern {
    /// Counts the next frame, which was heard or not.
    #[inline]
    pub fn push(&mut self, is_lost: bool) {
        self.frames += 1;
        if is_lost {
            self.lost += 1;
            self.bursts += u64::from(self.run == 0);
            self.run += 1;
            self.longest = self.longest.max(self.run);
        } else {
            self.run = 0;
        }
    }

    /// Share of frames not heard, in percent; 0 without frames.
    pub fn loss_percent(&self) -> f64 {
        if self.frames == 0 { 0.0 } else { 100.0 * self.lost as f64 / self.frames as f64 }
    }

    /// The burst ratio of G.107 section 7.5: mean length of the observed bursts over the mean length
    /// 1/(1-p) that independent losses of the same ratio p would give. 1 without loss, and 1 when
    /// everything is lost, where independent losses would leave one burst as well.
    pub fn burst_ratio(&self) -> f64 {
        if self.bursts == 0 || self.lost == self.frames {
            return 1.0;
        }
        let mean_burst = self.lost as f64 / self.bursts as f64;
        let loss_ratio = self.lost as f64 / self.frames as f64;
        mean_burst * (1.0 - loss_ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Draw as _, Streams};

    fn pattern(text: &str) -> LossPattern {
        let mut pattern = LossPattern::default();
        text.chars().for_each(|frame| pattern.push(frame == 'x'));
        pattern
    }

    #[test]
    fn counts_bursts() {
        let p = pattern("..xx.x...xxx..");
        assert_eq!((p.lost, p.bursts, p.longest), (6, 3, 3));
        // Mean burst 2, expected 1/(1 - 6/14).
        assert!((p.burst_ratio() - 2.0 * 8.0 / 14.0).abs() < 1e-12);
        assert_eq!(pattern("....").burst_ratio(), 1.0);
        assert_eq!(pattern("xxxx").burst_ratio(), 1.0);
        assert_eq!(pattern("x.x.x.x.").burst_ratio(), 0.5);
    }

    #[test]
    fn random_loss_has_burst_ratio_one() {
        for (name, loss) in [("a", 0.01), ("b", 0.1), ("c", 0.5)] {
            let mut rng = Streams { seed: 1, replication: 0 }.stream(name);
            let mut pattern = LossPattern::default();
            (0..1_000_000).for_each(|_| pattern.push(rng.bernoulli(loss)));
            assert!((pattern.burst_ratio() - 1.0).abs() < 0.01, "{loss}: {}", pattern.burst_ratio());
        }
    }
}
