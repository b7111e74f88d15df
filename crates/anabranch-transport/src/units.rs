//! Quantities as people write them: `"20 ms"`, `"1 Mbit/s"`, `"500 B"`, `"2 %"`.
//!
//! Units are also taken as `tc` of iproute2 spells them (tc(8), "PARAMETERS"), where they mean one thing:
//! `10Mbit`, `500kbit`, `20usec`. Its `mbps` are bytes, and its `kb` and `k` are 1024 bytes, so they are no
//! units here.
//!
//! A quantity without its unit is an error, except a probability, which may also be a number from 0
//! to 1. Parsing is the only way from text to a quantity, so a value that exists is a valid one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::{Duration, Time};

/// Gives one sentence if a setting is not from `low` to `high`.
pub(crate) fn check_range(key: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is out of range; it must be from {low} to {high}"))
    }
}

/// A rate in bits per second, from 1 bit/s to 10 Tbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    const MAX_BITS_PER_SEC: f64 = 1e13;

    /// A rate of `bits` bits per second; at least 1.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        assert!(bits > 0, "a rate is positive");
        Self(bits)
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A probability or a share, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// The probability of what never happens.
    pub const ZERO: Self = Self(0.0);
    /// The probability of what always happens.
    pub const ONE: Self = Self(1.0);

    /// A probability from a number from 0 to 1.
    ///
    /// # Errors
    /// When the number is not from 0 to 1.
    pub fn new(value: f64) -> Result<Self, UnitError> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(UnitError::new::<Self>(&value.to_string()))
        }
    }

    /// The number from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// An error: the text is not the quantity that was wanted. Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {wanted}")]
pub struct UnitError {
    found: String,
    wanted: &'static str,
}

impl UnitError {
    fn new<Q: Quantity>(found: &str) -> Self {
        Self { found: found.to_owned(), wanted: Q::WANTED }
    }
}

/// A kind of quantity: its units and what a message says is allowed.
trait Quantity: Sized {
    /// Completes the sentence "... is not ".
    const WANTED: &'static str;
    /// A pattern for editors: JSON Schema's regular expression.
    const PATTERN: &'static str;
    const NAME: &'static str;
    const EXAMPLE: &'static str;
    /// Unit and its size in the base unit.
    const UNITS: &'static [(&'static str, f64)];
    fn from_base(value: f64) -> Option<Self>;
}

fn parse<Q: Quantity>(text: &str) -> Result<Q, UnitError> {
    let error = || UnitError::new::<Q>(text);
    let (number, unit) = split(text).ok_or_else(error)?;
    let (_, scale) = Q::UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
    let value = number * scale;
    if !value.is_finite() {
        return Err(error());
    }
    Q::from_base(value).ok_or_else(error)
}

/// The number at the beginning of a text and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    let trimmed = text.trim();
    let split = trimmed
        .char_indices()
        .find(|&(i, c)| {
            let exponent = matches!(c, 'e' | 'E')
                && trimmed[i + 1..]
                    .starts_with(|next: char| next.is_ascii_digit() || next == '-' || next == '+');
            !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-') || exponent)
        })
        .map_or(trimmed.len(), |(i, _)| i);
    let (number, unit) = trimmed.split_at(split);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// The units of each kind of quantity; probabilities without one are plain numbers.
const UNITS: [&[(&str, f64)]; 4] = [Duration::UNITS, Rate::UNITS, Bytes::UNITS, Probability::UNITS];

/// A number with a unit of any kind.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// The number of units.
    pub number: f64,
    /// The unit as it is written.
    pub unit: &'static str,
    units: &'static [(&'static str, f64)],
    scale: f64,
}

impl Measure {
    /// The number and unit that a text is; [`None`] if it is not one, or has no unit.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let of_kind = |units: &&'static [(&'static str, f64)]| {
            let (unit, scale) = units.iter().find(|(name, _)| !name.is_empty() && *name == unit)?;
            number.is_finite().then_some(Self { number, unit, units, scale: *scale })
        };
        UNITS.iter().find_map(of_kind)
    }

    /// The same in another unit; `None` if that is of another kind.
    pub fn number_in(&self, unit: &str) -> Option<f64> {
        let (_, scale) = self.units.iter().find(|(name, _)| *name == unit)?;
        Some(if *scale == self.scale { self.number } else { self.number * self.scale / scale })
    }
}

/// The longest unit with which a text begins, if there is one.
pub fn unit_at(text: &str) -> Option<&'static str> {
    let units = UNITS.iter().flat_map(|units| units.iter().map(|(name, _)| *name));
    units.filter(|name| !name.is_empty() && text.starts_with(name)).max_by_key(|name| name.len())
}

impl Quantity for Duration {
    const WANTED: &'static str =
        "a length of time such as \"20 ms\", from 0 to 1e9 s (units: ns, us, ms, s, min, h)";
    const PATTERN: &'static str = r"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*(ns|us|µs|ms|s|min|h|[um]?secs?)\s*$";
    const NAME: &'static str = "Duration";
    const EXAMPLE: &'static str = "20 ms";
    const UNITS: &'static [(&'static str, f64)] = &[
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 60e9),
        ("h", 3600e9),
        ("usec", 1e3),
        ("usecs", 1e3),
        ("msec", 1e6),
        ("msecs", 1e6),
        ("sec", 1e9),
        ("secs", 1e9),
    ];
    fn from_base(nanos: f64) -> Option<Self> {
        (0.0..=1e18).contains(&nanos).then(|| Self::from_nanos(nanos.round() as u64))
    }
}

impl Quantity for Rate {
    const WANTED: &'static str = "a rate such as \"1 Mbit/s\", from 1 bit/s to 10 Tbit/s (units: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s; also tc's bit, kbit, mbit, gbit, tbit)";
    const PATTERN: &'static str =
        r"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*([kMGT]?bit/s|[kMG]?bps|[kKmMgGtT]?bit)\s*$";
    const NAME: &'static str = "Rate";
    const EXAMPLE: &'static str = "1 Mbit/s";
    const UNITS: &'static [(&'static str, f64)] = &[
        ("bit/s", 1.0),
        ("kbit/s", 1e3),
        ("Mbit/s", 1e6),
        ("Gbit/s", 1e9),
        ("Tbit/s", 1e12),
        ("bps", 1.0),
        ("kbps", 1e3),
        ("Mbps", 1e6),
        ("Gbps", 1e9),
        ("bit", 1.0),
        ("kbit", 1e3),
        ("Kbit", 1e3),
        ("mbit", 1e6),
        ("Mbit", 1e6),
        ("gbit", 1e9),
        ("Gbit", 1e9),
        ("tbit", 1e12),
        ("Tbit", 1e12),
    ];
    fn from_base(bits: f64) -> Option<Self> {
        (1.0..=Self::MAX_BITS_PER_SEC).contains(&bits).then(|| Self(bits.round() as u64))
    }
}

impl Quantity for Bytes {
    const WANTED: &'static str =
        "a size such as \"500 B\", from 0 B to 1e15 B (units: B, kB, MB, GB, KiB, MiB, GiB)";
    const PATTERN: &'static str = r"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*(B|kB|MB|GB|KiB|MiB|GiB)\s*$";
    const NAME: &'static str = "Bytes";
    const EXAMPLE: &'static str = "500 B";
    const UNITS: &'static [(&'static str, f64)] = &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    fn from_base(bytes: f64) -> Option<Self> {
        (0.0..=1e15).contains(&bytes).then(|| Self(bytes.round() as u64))
    }
}

impl Quantity for Probability {
    const WANTED: &'static str = "a probability such as \"2 %\" or 0.02, from 0 to 1 (0 % to 100 %)";
    const PATTERN: &'static str = r"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*%?\s*$";
    const NAME: &'static str = "Probability";
    const EXAMPLE: &'static str = "2 %";
    const UNITS: &'static [(&'static str, f64)] = &[("%", 0.01), ("", 1.0)];
    fn from_base(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0..1_000 => (1.0, "bit/s"),
            1_000..1_000_000 => (1e3, "kbit/s"),
            1_000_000..1_000_000_000 => (1e6, "Mbit/s"),
            _ => (1e9, "Gbit/s"),
        };
        write!(f, "{} {unit}", self.0 as f64 / scale)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! quantity_as_text {
    ($($quantity:ty),+) => {$(
        impl FromStr for $quantity {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                parse(text)
            }
        }

        impl Serialize for $quantity {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $quantity {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(QuantityVisitor(std::marker::PhantomData))
            }
        }

        impl JsonSchema for $quantity {
            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed(<$quantity as Quantity>::NAME)
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schema_of::<$quantity>()
            }
        }
    )+};
}

quantity_as_text!(Duration, Rate, Bytes, Probability);

fn schema_of<Q: Quantity>() -> Schema {
    let text = json_schema!({
        "type": "string",
        "description": format!("{}{}", Q::WANTED[..1].to_uppercase(), &Q::WANTED[1..]),
        "pattern": Q::PATTERN,
        "examples": [Q::EXAMPLE],
    });
    if Q::NAME == Probability::NAME {
        json_schema!({ "anyOf": [text, { "type": "number", "minimum": 0, "maximum": 1 }] })
    } else {
        text
    }
}

struct QuantityVisitor<Q>(std::marker::PhantomData<Q>);

impl<Q: Quantity> QuantityVisitor<Q> {
    /// A bare number: only a probability has no unit.
    fn bare<E: de::Error>(number: f64) -> Result<Q, E> {
        parse(&number.to_string()).map_err(E::custom)
    }
}

impl<Q: Quantity> de::Visitor<'_> for QuantityVisitor<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::WANTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Q, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Q, E> {
        Self::bare(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Q, E> {
        Self::bare(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Q, E> {
        Self::bare(number as f64)
    }
}

/// A count, or no limit: written as a number or "off".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this many.
    At(u32),
    /// No limit.
    Off,
}

impl Limit {
    /// The count, if there is one.
    pub const fn count(self) -> Option<u32> {
        match self {
            Self::At(count) => Some(count),
            Self::Off => None,
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(count) => serializer.serialize_u32(*count),
            Self::Off => serializer.serialize_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Limit;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count such as 5, or \"off\"")
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Limit, E> {
                u32::try_from(count)
                    .map(Limit::At)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(count), &self))
            }
            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Limit, E> {
                u32::try_from(count)
                    .map(Limit::At)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(count), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Limit, E> {
                if text == "off" {
                    Ok(Limit::Off)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Limit")
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "const": "off" }] })
    }
}

/// A point in time is written as the length of time since the start of the run.
impl From<Duration> for Time {
    fn from(since_start: Duration) -> Self {
        Time::ZERO + since_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_people_write() {
        assert_eq!("20 ms".parse(), Ok(Duration::from_millis(20)));
        assert_eq!("0.1s".parse(), Ok(Duration::from_millis(100)));
        assert_eq!("1e-3 s".parse(), Ok(Duration::from_millis(1)));
        assert_eq!("1 Mbit/s".parse(), Ok(Rate::from_bits_per_sec(1_000_000)));
        assert_eq!("2 %".parse(), Probability::new(0.02));
        assert_eq!("0.02".parse(), Probability::new(0.02));
        assert_eq!("1500 B".parse(), Ok(Bytes(1500)));
    }

    #[test]
    fn what_tc_prints_is_read_where_it_means_one_thing() {
        let rate = |text: &str| text.parse::<Rate>().map(Rate::bits_per_sec).ok();
        for (prefixes, bits) in [("kK", 1_000), ("mM", 1_000_000), ("gG", 1_000_000_000), ("tT", 1e12 as u64)]
        {
            for prefix in prefixes.chars() {
                assert_eq!(rate(&format!("3{prefix}bit")), Some(3 * bits), "{prefix}");
                assert_eq!(rate(&format!("0.5 {prefix}bit")), Some(bits / 2), "{prefix}");
            }
        }
        assert_eq!(rate("64bit"), Some(64));
        for (text, nanos) in [
            ("100ms", 100_000_000),
            ("100msec", 100_000_000),
            ("100msecs", 100_000_000),
            ("20us", 20_000),
            ("20usec", 20_000),
            ("20usecs", 20_000),
            ("2s", 2_000_000_000),
            ("2sec", 2_000_000_000),
            ("2secs", 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        // Bytes a second to tc, bits to most people; and a multiple of 1024 bytes to tc, of 1000 to others.
        for text in ["1mbps", "1gbps", "1kBps", "1mibit", "1", "1 Mb", "1 MBit", "1 mbit/s"] {
            let message = text.parse::<Rate>().unwrap_err().to_string();
            assert!(message.contains("Mbit/s") && message.contains("tc's bit, kbit, mbit"), "{message}");
        }
        for text in ["64kb", "64Kb", "64k", "64m", "1500b", "64kbit", "1mb", "64"] {
            let message = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(message.contains("units: B, kB, MB, GB, KiB"), "{message}");
        }
        for text in ["20", "20u", "20 Sec", "20 m"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_message_says_what_is_allowed() {
        let message = "-1 Mbit/s".parse::<Rate>().unwrap_err().to_string();
        assert!(
            message.starts_with("`-1 Mbit/s` is not a rate such as \"1 Mbit/s\", from 1 bit/s"),
            "{message}"
        );
        for bad in ["", "20", "ms", "20 parsecs", "-3 ms", "nan s", "inf s", "1e300 h", "2 0 ms"] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
        for bad in ["120 %", "-1 %", "1.5", "NaN", "e", "1e"] {
            assert!(bad.parse::<Probability>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_without_a_unit_are_probabilities_only() {
        assert_eq!(serde_json::from_str::<Probability>("0.5").unwrap(), Probability(0.5));
        assert_eq!(serde_json::from_str::<Probability>("1").unwrap(), Probability(1.0));
        assert!(serde_json::from_str::<Probability>("2").is_err());
        assert!(serde_json::from_str::<Duration>("20").is_err());
    }

    proptest::proptest! {
        #[test]
        fn text_and_back(nanos in 0u64..1_000_000_000_000_000, bits in 1u64..10_000_000_000_000) {
            let duration = Duration::from_nanos(nanos);
            proptest::prop_assert_eq!(duration.to_string().parse(), Ok(duration));
            let rate = Rate::from_bits_per_sec(bits);
            proptest::prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<Duration>();
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Probability>();
            let _ = text.parse::<Bytes>();
        }
    }
}
