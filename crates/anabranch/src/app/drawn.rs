//! Sizes and pauses that are drawn anew each time.
//!
//! They are written as one value, `"10 kB"`, or as a distribution, `{ kind = "pareto", mean = "10 kB" }`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A size or a length of time: one value, or a distribution to draw it from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drawn<Q> {
    /// The same value each time.
    Constant(Q),
    /// A value that is drawn anew each time.
    Distribution(Distribution<Q>),
}

/// What a size or a length of time is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "{Q}Distribution")]
pub enum Distribution<Q> {
    /// Exponentially distributed.
    Exponential {
        /// The mean.
        mean: Q,
    },
    /// The logarithm of the values is normally distributed.
    Lognormal {
        /// The mean.
        mean: Q,
        /// Standard deviation of the natural logarithm, above 0 and up to 5; default 1.318, that of the
        /// body of web file sizes (P. Barford, M. Crovella, SIGMETRICS 1998).
        #[serde(default = "default_sigma")]
        sigma: f64,
    },
    /// Pareto-distributed: a few large values make up most of the total.
    Pareto {
        /// The mean.
        mean: Q,
        /// The shape, above 1 and up to 10; default 1.2, between the 1.0 and 1.3 of file transfers on
        /// the web (M. Crovella, A. Bestavros, IEEE/ACM Transactions on Networking 5(6), 1997).
        #[serde(default = "default_shape")]
        shape: f64,
    },
    /// Uniform between two values.
    Uniform {
        /// The smallest.
        from: Q,
        /// The largest.
        to: Q,
    },
}

const fn default_sigma() -> f64 {
    1.318
}

const fn default_shape() -> f64 {
    1.2
}

/// A quantity that can be drawn.
pub trait Amount: Copy + PartialOrd + fmt::Display {
    /// The least that makes sense.
    const LEAST: Self;
    /// The value that larger draws are cut to.
    const MOST: Self;

    /// Converts to a number in the base unit.
    fn to_number(self) -> f64;

    /// Converts from a number in the base unit, rounded.
    fn from_number(number: f64) -> Self;
}

impl Amount for Bytes {
    const LEAST: Self = Self(1);
    const MOST: Self = Self(1_000_000_000_000);

    fn to_number(self) -> f64 {
        self.0 as f64
    }

    fn from_number(number: f64) -> Self {
        Self(number.round() as u64)
    }
}

impl Amount for Duration {
    const LEAST: Self = Self::ZERO;
    const MOST: Self = Self::from_secs(1_000_000_000);

    fn to_number(self) -> f64 {
        self.as_nanos() as f64
    }

    fn from_number(number: f64) -> Self {
        Self::from_nanos(number.round() as u64)
    }
}

impl<Q: Amount> Drawn<Q> {
    /// Checks that it can be drawn; `key` names it in the message.
    pub(super) fn check(&self, key: &str) -> Result<(), String> {
        let within = |name: &str, value: Q| {
            if value >= Q::LEAST && value <= Q::MOST {
                return Ok(());
            }
            Err(format!("{key}{name} = \"{value}\" is not from {} to {}", Q::LEAST, Q::MOST))
        };
        match *self {
            Self::Constant(value) => within("", value),
            Self::Distribution(Distribution::Exponential { mean }) => within(".mean", mean),
            Self::Distribution(Distribution::Lognormal { mean, sigma }) => {
                if !(sigma > 0.0 && sigma <= 5.0) {
                    return Err(format!("{key}.sigma = {sigma} is not above 0 and up to 5"));
                }
                within(".mean", mean)
            }
            Self::Distribution(Distribution::Pareto { mean, shape }) => {
                if !(shape > 1.0 && shape <= 10.0) {
                    return Err(format!("{key}.shape = {shape} is not above 1 and up to 10"));
                }
                within(".mean", mean)
            }
            Self::Distribution(Distribution::Uniform { from, to }) => {
                if from > to {
                    return Err(format!("{key}.from = \"{from}\" is above {key}.to = \"{to}\""));
                }
                within(".from", from)?;
                within(".to", to)
            }
        }
    }

    /// Draws one value.
    pub(super) fn draw(&self, rng: &mut Rng) -> Q {
        let distribution = match *self {
            Self::Constant(value) => return value,
            Self::Distribution(distribution) => distribution,
        };
        let number = match distribution {
            Distribution::Exponential { mean } => mean.to_number() * rng.exponential(),
            // The mean of exp(mu + sigma Z) is exp(mu + sigma^2/2).
            Distribution::Lognormal { mean, sigma } => {
                mean.to_number() * libm::exp(sigma * rng.normal() - sigma * sigma / 2.0)
            }
            // Inverse of the distribution function 1 - (scale/x)^shape, whose mean is
            // scale x shape/(shape - 1).
            Distribution::Pareto { mean, shape } => {
                let scale = mean.to_number() * (shape - 1.0) / shape;
                scale * libm::pow(rng.uniform_positive(), -1.0 / shape)
            }
            Distribution::Uniform { from, to } => {
                let (from, to) = (from.to_number(), to.to_number());
                from + (to - from) * rng.uniform()
            }
        };
        Q::from_number(number.clamp(Q::LEAST.to_number(), Q::MOST.to_number()))
    }
}

impl<Q: Serialize> Serialize for Drawn<Q> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(value) => value.serialize(serializer),
            Self::Distribution(distribution) => distribution.serialize(serializer),
        }
    }
}

impl<'de, Q: Deserialize<'de>> Deserialize<'de> for Drawn<Q> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DrawnVisitor(PhantomData))
    }
}

impl<Q: JsonSchema> JsonSchema for Drawn<Q> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Owned(format!("Drawn{}", Q::schema_name()))
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [generator.subschema_for::<Q>(), generator.subschema_for::<Distribution<Q>>()],
        })
    }
}

/// Tells a plain value from a distribution by its form, so that an error message is about the form that was
/// used.
struct DrawnVisitor<Q>(PhantomData<Q>);

impl<'de, Q: Deserialize<'de>> Visitor<'de> for DrawnVisitor<Q> {
    type Value = Drawn<Q>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a distribution such as { kind = \"exponential\", mean = ... }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Q::deserialize(text.into_deserializer()).map(Drawn::Constant)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Distribution::deserialize(MapAccessDeserializer::new(map)).map(Drawn::Distribution)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::rng::Streams;

    use super::*;

    fn parse(json: &str) -> Result<Drawn<Bytes>, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    fn mean(json: &str, draws: u32) -> f64 {
        let drawn = parse(json).unwrap();
        drawn.check("size").unwrap();
        let mut rng = Streams { seed: 1, replication: 0 }.stream("drawn");
        (0..draws).map(|_| drawn.draw(&mut rng).0 as f64).sum::<f64>() / f64::from(draws)
    }

    #[test]
    fn means_are_those_asked_for() {
        assert_eq!(mean(r#""10 kB""#, 10), 10_000.0);
        for json in [
            r#"{"kind": "exponential", "mean": "10 kB"}"#,
            r#"{"kind": "lognormal", "mean": "10 kB", "sigma": 1.0}"#,
            r#"{"kind": "uniform", "from": "5 kB", "to": "15 kB"}"#,
            // A shape with finite variance, so that the sample's mean settles.
            r#"{"kind": "pareto", "mean": "10 kB", "shape": 3.0}"#,
        ] {
            let mean = mean(json, 200_000);
            assert!((mean / 10_000.0 - 1.0).abs() < 0.01, "{json}: {mean}");
        }
    }

    #[test]
    fn a_pareto_tail_is_heavy() {
        let drawn = parse(r#"{"kind": "pareto", "mean": "12 kB"}"#).unwrap();
        let mut rng = Streams { seed: 1, replication: 0 }.stream("tail");
        let above = (0..100_000).filter(|_| drawn.draw(&mut rng).0 > 200_000).count() as f64 / 1e5;
        // P(x > 200 kB) = (2 kB / 200 kB)^1.2, the scale being 12 kB x 0.2/1.2.
        let expected = libm::pow(0.01, 1.2);
        assert!((above / expected - 1.0).abs() < 0.2, "{above}, {expected}");
    }

    #[test]
    fn impossible_values_are_named() {
        let check = |json: &str| parse(json).unwrap().check("size").unwrap_err();
        assert_eq!(check(r#""0 B""#), "size = \"0 B\" is not from 1 B to 1000000000000 B");
        assert_eq!(
            check(r#"{"kind": "pareto", "mean": "1 kB", "shape": 1.0}"#),
            "size.shape = 1 is not above 1 and up to 10"
        );
        assert_eq!(
            check(r#"{"kind": "lognormal", "mean": "1 kB", "sigma": 0.0}"#),
            "size.sigma = 0 is not above 0 and up to 5"
        );
        assert_eq!(
            check(r#"{"kind": "uniform", "from": "2 kB", "to": "1 kB"}"#),
            "size.from = \"2000 B\" is above size.to = \"1000 B\""
        );
        assert!(parse(r#"{"kind": "pareto", "maen": "1 kB"}"#).unwrap_err().contains("maen"));
        assert!(parse(r#""big""#).unwrap_err().contains("`big` is not"));
    }
}
