//! The periods of a link over satellites in low orbit, as timetables.

use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Probability, Rate};

use super::config::{LeoBorder, LeoConfig, LeoWay, PerPeriod};
use crate::net::capacity::RateConfig;
use crate::schedule::{Schedule, Timetable};

/// Rate, delay and loss of one direction over time, and when it works.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeoSchedules {
    pub(crate) rate: RateConfig,
    pub(crate) delay: Schedule<Duration>,
    pub(crate) loss: Schedule<Probability>,
    pub(crate) up: Schedule<bool>,
}

/// After so many periods they start over: ten hours of 15 s.
const MOST_PERIODS: u64 = 2_400;
/// A border's delay falls in steps of a millisecond, and in at most so many.
const MOST_STEPS: u64 = 256;
const STEP: Duration = Duration::from_millis(1);
const LEAST_PERIOD: Duration = Duration::from_secs(1);
const MOST_PERIOD: Duration = Duration::from_secs(3_600);
const MOST_DELAY: Duration = Duration::from_secs(10);
/// The delays at the beginning and before the end of a period (arXiv:2601.08439).
const BORDER_DELAYS: [Duration; 2] = [Duration::from_millis(140), Duration::from_millis(75)];

/// What can stand in a file.
trait Quantity: Copy + PartialOrd + std::fmt::Display {
    /// The value of a line of a file, if it can be one.
    fn of_line(number: u64) -> Option<Self>;
    /// A value drawn evenly between two.
    fn drawn(rng: &mut Rng, between: [Self; 2]) -> Self;
}

impl Quantity for Duration {
    fn of_line(number: u64) -> Option<Self> {
        Some(Self::from_nanos(number.saturating_mul(1_000)))
    }

    fn drawn(rng: &mut Rng, [low, high]: [Self; 2]) -> Self {
        rng.duration_between(low, high)
    }
}

impl Quantity for Rate {
    fn of_line(number: u64) -> Option<Self> {
        (number > 0).then(|| Self::from_bits_per_sec(number.saturating_mul(1_000)))
    }

    fn drawn(rng: &mut Rng, between: [Self; 2]) -> Self {
        let [low, high] = between.map(Self::bits_per_sec);
        Self::from_bits_per_sec(low + rng.below(high - low + 1))
    }
}

/// The values of so many periods.
fn values<T: Quantity>(
    quantity: &PerPeriod<T>,
    count: usize,
    mut rng: Rng,
    key: &str,
) -> Result<Vec<T>, String> {
    Ok(match quantity {
        PerPeriod::Same(value) => vec![*value; count],
        PerPeriod::Between([low, high]) if low > high => {
            return Err(format!(
                "{key}.between is from {low} to {high}, the first one has to be the lower one"
            ));
        }
        PerPeriod::Between(between) => (0..count).map(|_| T::drawn(&mut rng, *between)).collect(),
        PerPeriod::Values(values) if values.is_empty() => {
            return Err(format!("{key}.values is empty, it needs at least one value"));
        }
        PerPeriod::Values(values) => values.iter().copied().cycle().take(count).collect(),
        PerPeriod::File(file) => {
            let lines = file.numbers().iter().map(|&number| T::of_line(number));
            let all: Option<Vec<T>> = lines.cycle().take(count).collect();
            all.ok_or_else(|| format!("{key}.file has a 0, and a rate has to be above that"))?
        }
    })
}

impl LeoSchedules {
    /// The schedules of downlink and uplink for a run of this length; the link is called `name`.
    ///
    /// # Errors
    /// One sentence that names the key, what was found and what is allowed.
    pub(crate) fn draw(
        config: &LeoConfig,
        name: &str,
        streams: Streams,
        length: Duration,
    ) -> Result<[Self; 2], String> {
        let key = format!("links.{name}.radio");
        let LeoConfig { period, offset, .. } = *config;
        if !(LEAST_PERIOD..=MOST_PERIOD).contains(&period) {
            return Err(format!("{key}.period is \"{period}\", allowed is {LEAST_PERIOD} to {MOST_PERIOD}"));
        }
        if offset >= period {
            return Err(format!(
                "{key}.offset is \"{offset}\", it has to be less than the period of {period}"
            ));
        }
        let count = (length.as_nanos() / period.as_nanos()).saturating_add(1).min(MOST_PERIODS);
        let periods = Periods { period, offset, count };
        let of = |direction: &str, way: &LeoWay, [rates, delays]: [[u64; 2]; 2]| {
            let [rate, delay] =
                ["rate", "delay"].map(|what| streams.stream(&format!("link/{name}/leo/{direction}/{what}")));
            let key = format!("{key}.{direction}");
            let usual = PerPeriod::Between(rates.map(|mbps| Rate::from_bits_per_sec(mbps * 1_000_000)));
            let rates = way.rate.as_ref().unwrap_or(&usual);
            let rates = values(rates, count as usize, rate, &format!("{key}.rate"))?;
            let usual = PerPeriod::Between(delays.map(Duration::from_millis));
            let delays = way.delay.as_ref().unwrap_or(&usual);
            let delays = values(delays, count as usize, delay, &format!("{key}.delay"))?;
            periods.schedules(Borders::of(way), &rates, &delays, &key)
        };
        Ok([
            of("downlink", &config.downlink, [[50, 200], [14, 20]])?,
            of("uplink", &config.uplink, [[10, 25], [20, 30]])?,
        ])
    }
}

/// The times of all periods: the first one ends at `offset`, and is the end of the one that begins last.
#[derive(Clone, Copy)]
struct Periods {
    period: Duration,
    offset: Duration,
    count: u64,
}

impl Periods {
    fn schedules(
        self,
        borders: Borders,
        rates: &[Rate],
        delays: &[Duration],
        key: &str,
    ) -> Result<LeoSchedules, String> {
        borders.check(self.period, delays, key)?;
        let mut written = Written::default();
        // The period number `at` ends `at` whole periods after the offset. The first values are those of the
        // first one that takes any time.
        let none_before = u64::from(self.offset.is_zero());
        for at in none_before..=self.count {
            let place = ((at - none_before) % self.count) as usize;
            let begin = (at > 0).then(|| self.offset + self.period * (at - 1));
            let end = self.offset + self.period * at;
            borders.write(Span { begin, end, rate: rates[place], delay: delays[place] }, &mut written);
        }
        let all = self.period * self.count;
        let Written { rate, delay, loss, up } = written;
        Ok(LeoSchedules {
            rate: RateConfig::Scheduled(rate.schedule(all)),
            delay: delay.schedule(all),
            loss: loss.schedule(all),
            up: up.schedule(all),
        })
    }
}

/// A period, which may have begun before the run.
#[derive(Clone, Copy)]
struct Span {
    begin: Option<Duration>,
    end: Duration,
    rate: Rate,
    delay: Duration,
}

/// What has been written of a direction.
#[derive(Default)]
struct Written {
    rate: Steps<Rate>,
    delay: Steps<Duration>,
    loss: Steps<Probability>,
    up: Steps<bool>,
}

/// A border with its delay.
#[derive(Clone, Copy)]
struct Border {
    delay: Duration,
    length: Option<Duration>,
    loss: Probability,
}

impl Border {
    fn of(config: &LeoBorder, usual: Duration) -> Self {
        Self { delay: config.delay.unwrap_or(usual), length: config.length, loss: config.loss }
    }

    /// How long it lasts in a period of this delay.
    fn length_over(self, delay: Duration) -> Duration {
        self.length.unwrap_or(self.delay.saturating_sub(delay))
    }

    /// How long before the end of a period it begins. After a pause there is as much time again in which what
    /// has waited can leave before the next one.
    fn before_end(self, delay: Duration) -> Duration {
        if self.length.is_some() { self.length_over(delay) } else { self.length_over(delay).doubled() }
    }

    /// Writes what happens from a time on, in a period of this delay.
    fn write(self, from: Duration, delay: Duration, written: &mut Written) {
        let length = self.length_over(delay);
        if self.length.is_none() {
            written.up.set(from, false);
            written.up.set(from + length, true);
        } else {
            let extra = self.delay.saturating_sub(delay);
            let steps = length.as_nanos().div_ceil(STEP.as_nanos()).clamp(1, MOST_STEPS);
            for step in 0..steps {
                let share = step as f64 / steps as f64;
                written.delay.set(from + length.scaled(share), delay + extra.scaled(1.0 - share));
            }
            written.delay.set(from + length, delay);
        }
        written.loss.set(from, self.loss);
        written.loss.set(from + length, Probability::ZERO);
    }
}

/// What happens at the borders of a direction's periods.
#[derive(Clone, Copy)]
struct Borders {
    begin: Border,
    end: Border,
}

impl Borders {
    fn of(way: &LeoWay) -> Self {
        let [begin, end] = BORDER_DELAYS;
        Self { begin: Border::of(&way.begin, begin), end: Border::of(&way.end, end) }
    }

    /// Checks that they have room in a period.
    fn check(self, period: Duration, delays: &[Duration], key: &str) -> Result<(), String> {
        let least = delays.iter().min().copied().unwrap_or_default();
        for (border, name) in [(self.begin, "begin"), (self.end, "end")] {
            let delay = border.delay;
            if delay > MOST_DELAY {
                return Err(format!("{key}.{name}.delay is \"{delay}\", allowed is at most {MOST_DELAY}"));
            }
            if border.loss != Probability::ZERO && border.length_over(least).is_zero() {
                return Err(format!(
                    "{key}.{name}.loss is given for a border that takes no time; give it a `length`"
                ));
            }
        }
        let (begin, end) = (self.begin.length_over(least), self.end.before_end(least));
        if begin > period || end > period - begin {
            return Err(format!(
                "{key}: begin takes {begin} and end {end}, together more than the period of {period}"
            ));
        }
        Ok(())
    }

    /// Writes a period.
    fn write(self, span: Span, written: &mut Written) {
        let start = span.begin.unwrap_or_default();
        written.rate.set(start, span.rate);
        written.delay.set(start, span.delay);
        written.loss.set(start, Probability::ZERO);
        written.up.set(start, true);
        if let Some(begin) = span.begin {
            self.begin.write(begin, span.delay, written);
        }
        self.end.write(span.end.saturating_sub(self.end.before_end(span.delay)), span.delay, written);
    }
}

/// A timetable that is written forwards.
struct Steps<T>(Vec<(Duration, T)>);

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + PartialEq> Steps<T> {
    /// From then on it has this value; what was set for the same time or for later ones is forgotten.
    fn set(&mut self, from: Duration, value: T) {
        while self.0.last().is_some_and(|(at, _)| *at >= from) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|(_, last)| *last != value) {
            self.0.push((from, value));
        }
    }

    /// The timetable, which starts over after this time.
    fn schedule(mut self, repeat: Duration) -> Schedule<T> {
        self.0.retain(|(from, _)| *from < repeat);
        match self.0.as_slice() {
            [(_, value)] => Schedule::Constant(*value),
            _ => Schedule::Timetable(Timetable { timetable: self.0, repeat: Some(repeat) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMS: Streams = Streams { seed: 1, replication: 0 };

    fn config(text: &str) -> LeoConfig {
        serde_json::from_str(text).unwrap()
    }

    fn drawn(text: &str, secs: u64) -> Result<[LeoSchedules; 2], String> {
        LeoSchedules::draw(&config(text), "l", STREAMS, Duration::from_secs(secs))
    }

    fn millis_at(schedule: &Schedule<Duration>, at: f64) -> f64 {
        schedule.timeline("delay").unwrap().at((at * 1e9) as u64).as_millis_f64()
    }

    #[test]
    fn a_border_without_a_length_is_a_pause() {
        let [_, uplink] = drawn(r#"{"uplink": {"delay": "20 ms", "rate": "10 Mbit/s"}}"#, 60).unwrap();
        assert_eq!(uplink.delay, Schedule::Constant(Duration::from_millis(20)));
        let mut up = uplink.up.timeline("up").unwrap();
        for begin in [12_000_u64, 27_000, 42_000, 57_000] {
            // It stands still for 55 ms and is over 55 ms before the border; then for 120 ms.
            for (from, works) in [(110, false), (56, false), (55, true), (1, true), (0, false)] {
                let at = (begin - from) * 1_000_000;
                assert_eq!(up.at(at), works, "{from} ms before {begin}");
            }
            assert_eq!(
                [119, 120, 7_000].map(|after| up.at((begin + after) * 1_000_000)),
                [false, true, true]
            );
        }
    }

    #[test]
    fn a_delay_falls_over_the_length_of_a_border() {
        let begin =
            r#"{"uplink": {"delay": "20 ms", "begin": {"length": "240 ms"}, "end": {"length": "55 ms"}}}"#;
        let [_, uplink] = drawn(begin, 60).unwrap();
        let delay = |at| millis_at(&uplink.delay, at);
        for (at, expected) in [
            (0.0, 20.0),
            (11.9440, 20.0),
            (11.9451, 75.0),
            (11.9991, 21.0),
            (12.0, 140.0),
            (12.0601, 110.0),
            (12.1201, 80.0),
            (12.2401, 20.0),
            (19.0, 20.0),
        ] {
            assert!((delay(at) - expected).abs() < 1e-3, "{at}: {}", delay(at));
        }
    }

    #[test]
    fn each_period_has_a_rate_of_its_own() {
        let values =
            r#"{"offset": "0 s", "downlink": {"rate": {"values": ["1 Mbit/s", "2 Mbit/s", "3 Mbit/s"]}}}"#;
        let [downlink, uplink] = drawn(values, 100).unwrap();
        let rate = |way: &LeoSchedules, at: u64| {
            let mut rate = way.rate.timeline("rate").unwrap();
            rate.at(at * 1_000_000_000) as f64 / 1e6
        };
        let seen = [0, 14, 15, 30, 45, 60].map(|at| rate(&downlink, at));
        assert_eq!(seen, [1.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
        let drawn: Vec<f64> = (0..6).map(|period| rate(&uplink, period * 15 + 1)).collect();
        assert!(drawn.iter().all(|rate| (10.0..=25.0).contains(rate)), "{drawn:?}");
        assert!(drawn.windows(2).all(|pair| pair[0].to_bits() != pair[1].to_bits()), "{drawn:?}");
    }

    #[test]
    fn values_that_never_change_are_constants() {
        let plain =
            r#"{"rate": "1 Mbit/s", "delay": "20 ms", "begin": {"delay": "0 s"}, "end": {"delay": "0 s"}}"#;
        let [downlink, _] = drawn(&format!(r#"{{"downlink": {plain}}}"#), 100).unwrap();
        assert_eq!(downlink.delay, Schedule::Constant(Duration::from_millis(20)));
        assert_eq!(downlink.loss, Schedule::Constant(Probability::ZERO));
    }

    #[test]
    fn packets_are_lost_at_borders() {
        let lossy = r#"{"uplink": {"begin": {"delay": "0 s", "length": "300 ms", "loss": 0.5}}}"#;
        let [_, uplink] = drawn(lossy, 40).unwrap();
        let mut loss = uplink.loss.timeline("loss").unwrap();
        let seen = [0, 11_999, 12_000, 12_299, 12_300, 27_100].map(|at| loss.at(at * 1_000_000).get());
        assert_eq!(seen, [0.0, 0.0, 0.5, 0.5, 0.0, 0.5]);
    }

    /// A day and a run without an end cost as much as ten hours.
    #[test]
    fn a_long_run_starts_over() {
        let [downlink, _] = drawn("{}", u64::MAX / 4_000_000_000).unwrap();
        let Schedule::Timetable(table) = downlink.delay else { panic!("it has borders") };
        assert_eq!(table.repeat, Some(Duration::from_secs(15 * MOST_PERIODS)));
        assert!(table.timetable.len() < 2_400 * 200, "{}", table.timetable.len());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            (r#"{"period": "500 ms"}"#, "links.l.radio.period is \"500 ms\", allowed is 1 s to 3600 s"),
            (r#"{"offset": "15 s"}"#, "offset is \"15 s\", it has to be less than the period of 15 s"),
            (
                r#"{"period": "1 s", "offset": "0 s", "uplink": {"begin": {"delay": "0 s", "length": "2 s"}}}"#,
                "links.l.radio.uplink: begin takes 2 s and end ",
            ),
            (
                r#"{"uplink": {"end": {"delay": "11 s"}}}"#,
                "uplink.end.delay is \"11 s\", allowed is at most 10 s",
            ),
            (r#"{"uplink": {"end": {"delay": "0 s", "loss": 0.1}}}"#, "takes no time; give it a `length`"),
            (
                r#"{"uplink": {"delay": {"between": ["2 ms", "1 ms"]}}}"#,
                "uplink.delay.between is from 2 ms to 1 ms",
            ),
            (r#"{"uplink": {"delay": {"values": []}}}"#, "uplink.delay.values is empty"),
        ] {
            let error = drawn(text, 10).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error =
            serde_json::from_str::<LeoConfig>(r#"{"uplink": {"delay": {}}}"#).unwrap_err().to_string();
        assert!(error.contains("one of `between`, `values` and `file`"), "{error}");
    }
}
