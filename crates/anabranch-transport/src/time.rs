//! Simulated time: nanoseconds in 64 bits, 584 years of them.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// A point in time: nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than everything: "never", for a timer that is not running.
    pub const NEVER: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the start of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `millis` milliseconds after the start of the run.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// The point `secs` seconds after the start of the run.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// Nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether this is [`Time::NEVER`].
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// Time since `earlier`, zero when `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest length of time.
    pub const MAX: Self = Self(u64::MAX);

    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// `secs` seconds, rounded to the nearest nanosecond; zero for negative numbers.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round() as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Milliseconds.
    pub const fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference of the two, zero when `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Twice the length, for a timer that backs off; it stays at the longest length of time.
    #[must_use]
    pub const fn doubled(self) -> Self {
        Self(self.0.saturating_mul(2))
    }

    /// This length times a factor, rounded to the nearest nanosecond.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    /// A sum beyond the end of time is [`Time::NEVER`].
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, rhs: Self) -> Duration {
        debug_assert!(self.0 >= rhs.0, "time runs backwards: {self} - {rhs}");
        Duration(self.0.wrapping_sub(rhs.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        debug_assert!(self.0 >= rhs.0, "negative duration: {self} - {rhs}");
        Self(self.0.wrapping_sub(rhs.0))
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, rhs: Self) {
        *self = *self - rhs;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_never() {
            return f.write_str("never");
        }
        Duration(self.0).fmt(f)
    }
}

impl fmt::Display for Duration {
    /// The largest unit that needs no more digits than the value has: `20 ms`, `1.5 s`, `3 us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0 => return f.write_str("0 s"),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let whole = self.0 / scale;
        let rest = self.0 % scale;
        if rest == 0 {
            return write!(f, "{whole} {unit}");
        }
        let digits = scale.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        write!(f, "{whole}.{} {unit}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_the_shortest_exact_form() {
        assert_eq!(Duration::from_millis(20).to_string(), "20 ms");
        assert_eq!(Duration::from_millis(1500).to_string(), "1.5 s");
        assert_eq!(Duration::from_nanos(1_000_001).to_string(), "1.000001 ms");
        assert_eq!(Duration::ZERO.to_string(), "0 s");
        assert_eq!(Time::NEVER.to_string(), "never");
    }

    #[test]
    fn sums_saturate_at_never() {
        assert!((Time::from_secs(1) + Duration::MAX).is_never());
        assert_eq!(Time::from_secs(2) - Time::from_secs(1), Duration::from_secs(1));
    }
}
