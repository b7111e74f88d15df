//! Ranges: numbers and quantities at equal distances or ratios.

use anabranch_transport::units::Measure;
use serde_json::Value;

use super::config::{Level, LogRange, Range};

/// The spacing of values between two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Whole,
    Number,
    Unit(&'static str),
}

/// The numbers between two ends, in the unit of the first.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    form: Form,
    is_logarithmic: bool,
}

/// The most values of an axis, more than a person or a script asks for.
const MOST_VALUES: u64 = 100_000;
/// Digits of a value: more than any setting resolves, and fewer than rounding errors reach.
const DIGITS: usize = 12;

impl Scale {
    /// # Errors
    /// Key and sentence.
    pub(super) fn linear(range: &Range) -> Result<Self, String> {
        Self::new(&range.from, &range.to, false)
    }

    /// # Errors
    /// Key and sentence.
    pub(super) fn logarithmic(range: &LogRange) -> Result<Self, String> {
        Self::new(&range.from, &range.to, true)
    }

    fn new(from: &Level, to: &Level, is_logarithmic: bool) -> Result<Self, String> {
        let form = form(from).map_err(|error| format!("from: {error}"))?;
        let low = in_form(from, form).map_err(|error| format!("from: {error}"))?;
        let high = in_form(to, form).map_err(|error| format!("to: {error}"))?;
        // If one end has a fraction, all values may have one.
        let form = if matches!((form, to), (Form::Whole, Level::Number(_))) { Form::Number } else { form };
        if low > high {
            return Err(format!(
                "from: `{}` is above `to`, which is `{}`; swap them",
                shown(from),
                shown(to)
            ));
        }
        if is_logarithmic && low <= 0.0 {
            return Err(format!("from: `{}` has no logarithm; use more than 0", shown(from)));
        }
        Ok(Self { low, high, form, is_logarithmic })
    }

    /// Values that are `step` apart.
    ///
    /// # Errors
    /// Key and sentence.
    pub(super) fn steps(mut self, step: &Level) -> Result<Vec<Value>, String> {
        if matches!((self.form, step), (Form::Whole, Level::Number(_))) {
            self.form = Form::Number;
        }
        let size = in_form(step, self.form).map_err(|error| format!("step: {error}"))?;
        if size <= 0.0 {
            return Err(format!("step: `{}` leads nowhere; use more than 0", shown(step)));
        }
        let steps = (self.high - self.low) / size;
        // Except for rounding, the last value is `to`.
        let last = (steps + 1e-9 * steps.max(1.0)).floor();
        if last >= MOST_VALUES as f64 {
            return Err(format!("step: more than {MOST_VALUES} values; use a longer one"));
        }
        let number = |index: u64| {
            let number = self.low + index as f64 * size;
            // A remainder near zero is rounding, and so is a value slightly beyond `to`.
            if number.abs() <= 1e-9 * size { 0.0 } else { number.min(self.high) }
        };
        Ok((0..=last as u64).map(|index| self.value(number(index))).collect())
    }

    /// This many values, both ends among them.
    ///
    /// # Errors
    /// Key and sentence.
    pub(super) fn count(&self, count: u64) -> Result<Vec<Value>, String> {
        let is_fine = if self.low < self.high { count >= 2 } else { count == 1 };
        if !is_fine || count > MOST_VALUES {
            let allowed = if self.low < self.high {
                format!("2 to {MOST_VALUES}")
            } else {
                "1, as `from` is `to`".into()
            };
            return Err(format!("count: {count} is not possible; use {allowed}"));
        }
        if self.form == Form::Whole && (count - 1) as f64 > self.high - self.low {
            let most = self.high - self.low + 1.0;
            return Err(format!(
                "count: there are only {most} whole numbers; use at most {most}, or `from = {}.0`",
                self.low
            ));
        }
        let last = (count - 1).max(1) as f64;
        let mut values: Vec<Value> =
            (0..count).map(|index| self.value(self.number(index as f64 / last))).collect();
        values.dedup();
        if values.len() as u64 != count {
            return Err(format!(
                "count: {count} whole numbers at equal ratios are not all different; use fewer"
            ));
        }
        Ok(values)
    }

    /// The first and the last value.
    pub(super) fn ends(&self) -> Vec<Value> {
        let mut ends = vec![self.value(self.low), self.value(self.high)];
        ends.dedup();
        ends
    }

    /// The value at a share of the way, from 0 to below 1. In a linear range, each whole number has an equal
    /// part of it.
    pub(super) fn at(&self, share: f64) -> Value {
        if self.form == Form::Whole && !self.is_logarithmic {
            let whole = (share * (self.high - self.low + 1.0)).floor();
            return self.value((self.low + whole).min(self.high));
        }
        self.value(self.number(share))
    }

    fn number(&self, share: f64) -> f64 {
        if share <= 0.0 {
            return self.low;
        }
        if share >= 1.0 {
            return self.high;
        }
        if self.is_logarithmic {
            return self.low * libm::exp(share * libm::log(self.high / self.low));
        }
        let number = self.low + share * (self.high - self.low);
        // A remainder near zero is rounding.
        if number.abs() <= 1e-12 * (self.high - self.low) { 0.0 } else { number }
    }

    fn value(&self, number: f64) -> Value {
        match self.form {
            Form::Whole => Value::from(number.round() as i64),
            Form::Number => Value::from(rounded(number)),
            Form::Unit(unit) => Value::from(format!("{} {unit}", rounded(number))),
        }
    }
}

fn rounded(number: f64) -> f64 {
    format!("{number:.*e}", DIGITS - 1).parse().expect("a number's text is a number")
}

fn form(level: &Level) -> Result<Form, String> {
    Ok(match level {
        Level::Whole(_) => Form::Whole,
        Level::Number(_) => Form::Number,
        Level::Quantity(text) => Form::Unit(measure(text)?.unit),
    })
}

fn in_form(level: &Level, form: Form) -> Result<f64, String> {
    let number = match (level, form) {
        (Level::Whole(number), Form::Whole | Form::Number) => *number as f64,
        (Level::Number(number), Form::Whole | Form::Number) => *number,
        (Level::Quantity(text), Form::Unit(unit)) => measure(text)?
            .number_in(unit)
            .map(rounded)
            .ok_or_else(|| format!("`{text}` cannot be in `{unit}`, the unit of `from`"))?,
        (Level::Quantity(text), _) => return Err(format!("`{text}` has a unit and `from` has none")),
        (level, Form::Unit(unit)) => {
            return Err(format!("`{}` has no unit and `from` is in `{unit}`", shown(level)));
        }
    };
    // Beyond this, whole numbers are not exact.
    if number.abs() <= 9e15 { Ok(number) } else { Err(format!("`{number}` is too large; use at most 9e15")) }
}

fn measure(text: &str) -> Result<Measure, String> {
    Measure::parse(text)
        .ok_or_else(|| format!("`{text}` is not a quantity such as \"20 ms\" or \"1 Mbit/s\""))
}

fn shown(level: &Level) -> String {
    match level {
        Level::Whole(number) => number.to_string(),
        Level::Number(number) => number.to_string(),
        Level::Quantity(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> Result<Vec<String>, String> {
        let range: Range = toml::from_str(text).map_err(|error| error.to_string())?;
        let scale = Scale::linear(&range)?;
        let values = match (&range.step, range.count) {
            (Some(step), _) => scale.steps(step)?,
            (None, count) => scale.count(count.unwrap())?,
        };
        Ok(values.iter().map(Value::to_string).collect())
    }

    fn log_range(text: &str) -> Result<Vec<String>, String> {
        let range: LogRange = toml::from_str(text).map_err(|error| error.to_string())?;
        let values = Scale::logarithmic(&range)?.count(range.count.unwrap())?;
        Ok(values.iter().map(Value::to_string).collect())
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is compared with results")]
    fn texts(values: &[&str]) -> Result<Vec<String>, String> {
        Ok(values.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn ranges_keep_units_and_whole_numbers() {
        assert_eq!(range("from = 1\nto = 5\nstep = 2"), texts(&["1", "3", "5"]));
        assert_eq!(range("from = 1\nto = 6\nstep = 2"), texts(&["1", "3", "5"]));
        assert_eq!(range("from = 1\nto = 2\nstep = 0.5"), texts(&["1.0", "1.5", "2.0"]));
        assert_eq!(range("from = 0.1\nto = 0.3\nstep = 0.1"), texts(&["0.1", "0.2", "0.3"]));
        assert_eq!(range("from = 0\nto = 10\ncount = 4"), texts(&["0", "3", "7", "10"]));
        assert_eq!(range("from = 0.0\nto = 1\ncount = 3"), texts(&["0.0", "0.5", "1.0"]));
        assert_eq!(range("from = 3\nto = 3\ncount = 1"), texts(&["3"]));
        assert_eq!(range("from = -0.3\nto = 0.3\nstep = 0.1").unwrap()[3], "0.0");
        assert_eq!(range("from = -0.3\nto = 0.3\ncount = 7").unwrap()[3], "0.0");
        // Not beyond `to`, which it reaches within rounding.
        assert_eq!(range("from = 0.0\nto = 1.0\nstep = 0.33333333335").unwrap()[3], "1.0");
        let ms = texts(&[r#""10 ms""#, r#""20 ms""#, r#""30 ms""#]);
        assert_eq!(range("from = '10 ms'\nto = '0.03 s'\nstep = '0.01 s'"), ms);
        assert_eq!(range("from = '10 ms'\nto = '30 ms'\ncount = 3"), ms);
        assert_eq!(
            range("from = '1 %'\nto = '2 %'\ncount = 3"),
            texts(&[r#""1 %""#, r#""1.5 %""#, r#""2 %""#])
        );
        assert_eq!(log_range("from = 1\nto = 1000\ncount = 4"), texts(&["1", "10", "100", "1000"]));
        assert_eq!(
            log_range("from = '0.1 s'\nto = '10 s'\ncount = 3"),
            texts(&[r#""0.1 s""#, r#""1 s""#, r#""10 s""#])
        );
    }

    #[test]
    fn mistakes_name_key_and_value() {
        let message = |text: &str| range(text).unwrap_err();
        assert_eq!(
            message("from = 2\nto = 1\ncount = 2"),
            "from: `2` is above `to`, which is `1`; swap them"
        );
        assert_eq!(message("from = 1\nto = 2\ncount = 0"), "count: 0 is not possible; use 2 to 100000");
        assert_eq!(
            message("from = 1\nto = 1\ncount = 2"),
            "count: 2 is not possible; use 1, as `from` is `to`"
        );
        assert_eq!(
            message("from = 1\nto = 3\ncount = 9"),
            "count: there are only 3 whole numbers; use at most 3, or `from = 1.0`"
        );
        assert_eq!(message("from = 1\nto = 2\nstep = 0"), "step: `0` leads nowhere; use more than 0");
        assert_eq!(message("from = 1\nto = 2\nstep = -1"), "step: `-1` leads nowhere; use more than 0");
        assert_eq!(
            message("from = 0.0\nto = 2\nstep = 1e-9"),
            "step: more than 100000 values; use a longer one"
        );
        assert_eq!(message("from = 1\nto = '2 s'\ncount = 2"), "to: `2 s` has a unit and `from` has none");
        assert_eq!(message("from = '1 s'\nto = 2\ncount = 2"), "to: `2` has no unit and `from` is in `s`");
        assert_eq!(
            message("from = '1 s'\nto = '2 B'\ncount = 2"),
            "to: `2 B` cannot be in `s`, the unit of `from`"
        );
        assert_eq!(
            message("from = 'soon'\nto = '2 B'\ncount = 2"),
            "from: `soon` is not a quantity such as \"20 ms\" or \"1 Mbit/s\""
        );
        assert!(message("from = nan\nto = 2\ncount = 2").contains("too large"));
        assert!(message("from = inf\nto = 2\ncount = 2").contains("too large"));
        let message = |text: &str| log_range(text).unwrap_err();
        assert_eq!(message("from = 0\nto = 2\ncount = 2"), "from: `0` has no logarithm; use more than 0");
        assert!(message("from = 1\nto = 10\ncount = 10").contains("not all different; use fewer"));
    }

    proptest! {
        #[test]
        fn values_increase_from_end_to_end(low in 0_u32..1000, width in 1_u32..1000, count in 2_u64..50, unit in "ms|kB|Mbit/s|%") {
            let (from, to) = (Level::Quantity(format!("{low} {unit}")), Level::Quantity(format!("{} {unit}", low + width)));
            let scales = [Scale::new(&from, &to, false), Scale::new(&from, &to, true)];
            for scale in scales.into_iter().flatten() {
                let values = scale.count(count).unwrap();
                let numbers: Vec<f64> = values.iter().map(|value| Measure::parse(value.as_str().unwrap()).unwrap().number).collect();
                prop_assert_eq!(numbers.len() as u64, count);
                prop_assert!(numbers.is_sorted());
                prop_assert_eq!((numbers[0], numbers[numbers.len() - 1]), (f64::from(low), f64::from(low + width)));
            }
        }

        #[test]
        fn shares_give_each_whole_number_its_part(low in -50_i64..50, width in 0_i64..50, share in 0.0..1.0_f64) {
            let scale = Scale::new(&Level::Whole(low), &Level::Whole(low + width), false).unwrap();
            let value = scale.at(share).as_i64().unwrap();
            prop_assert!((low..=low + width).contains(&value));
            let part = (value - low) as f64 / (width + 1) as f64;
            prop_assert!(part <= share + 1e-12 && share < part + 1.0 / (width + 1) as f64 + 1e-12);
        }
    }
}
