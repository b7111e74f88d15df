//! The differentiated services codepoint of the IP header (RFC 2474): which treatment a packet asks for.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A codepoint, of six bits. A scenario has its name, such as `"ef"`, or its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(u8);

/// The codepoints that have names: class selectors (RFC 2474 section 4.2.2), assured forwarding (RFC 2597
/// section 6), expedited forwarding (RFC 3246 section 2.7), voice with admission control (RFC 5865 section 4)
/// and lower effort (RFC 8622 section 3).
const NAMES: [(&str, u8); 23] = [
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

impl Dscp {
    /// The default: no treatment is asked for.
    pub const CS0: Self = Self(0);

    /// The codepoint of this number, whose upper two bits do not count.
    pub const fn new(number: u8) -> Self {
        Self(number & 0x3f)
    }

    /// The number, below 64.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether it is the default, which serialised settings leave out.
    pub fn is_default(&self) -> bool {
        *self == Self::CS0
    }

    /// Its name, if it has one.
    fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, number)| *number == self.0).map(|(name, _)| *name)
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Dscp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.name() {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_u8(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Dscp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a codepoint from 0 to 63, or its name such as \"ef\", \"af41\", \"cs1\" or \"le\"",
                )
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Dscp, E> {
                let codepoint = u8::try_from(number).ok().filter(|number| *number < 64);
                codepoint.map(Dscp).ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Dscp, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dscp, E> {
                let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
                named
                    .map(|(_, number)| Dscp(*number))
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Dscp {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Dscp")
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "string", "enum": NAMES.map(|(name, _)| name) },
                { "type": "integer", "minimum": 0, "maximum": 63 },
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read_and_written() {
        for (text, number) in [("\"ef\"", 46), ("\"AF41\"", 34), ("\"le\"", 1), ("8", 8), ("45", 45)] {
            let dscp: Dscp = serde_json::from_str(text).unwrap();
            assert_eq!(dscp.number(), number);
            let again = serde_json::to_string(&dscp).unwrap();
            assert_eq!(serde_json::from_str::<Dscp>(&again).unwrap(), dscp, "{text} as {again}");
        }
        assert_eq!(serde_json::to_string(&Dscp::new(46)).unwrap(), "\"ef\"");
        assert_eq!(serde_json::to_string(&Dscp::new(45)).unwrap(), "45");
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["64", "-1", "\"af44\"", "1.5", "true"] {
            let error = serde_json::from_str::<Dscp>(text).unwrap_err().to_string();
            assert!(error.contains("a codepoint from 0 to 63"), "{error}");
        }
    }

    /// RFC 2597 section 6, RFC 2474 section 4.2.2.
    #[test]
    fn classes_have_the_numbers_of_their_rfcs() {
        for (name, number) in NAMES {
            let digits: Vec<u8> = name.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
            match (&name[..2], &digits[..]) {
                ("cs", [class]) => assert_eq!(number, class << 3),
                ("af", [class, drop]) => assert_eq!(number, class << 3 | drop << 1),
                _ => assert!(["le", "va", "ef"].contains(&name)),
            }
        }
    }
}
