//! Planning values of the E-model that people give: their symbols and permitted ranges.
//!
//! The ranges are those of ITU-T G.107 Table 2. They are wider where a call through a simulated network
//! (the `voip-sctp` study's, for one) or a codec of G.113 leaves the table; each such constant says why.

use std::ops::RangeInclusive;

/// A planning value: its symbol in the recommendation, the place where it is kept, and its range.
pub(super) type Value<'a> = (&'static str, &'a mut f64, RangeInclusive<f64>);

pub(super) const RLR: RangeInclusive<f64> = -5.0..=14.0;
pub(super) const TELR: RangeInclusive<f64> = 5.0..=65.0;
pub(super) const WEPL: RangeInclusive<f64> = 5.0..=110.0;
pub(super) const A: RangeInclusive<f64> = 0.0..=20.0;

/// One-way delay in ms. Table 2 ends at 500 ms; queues that are too long have delays of seconds.
pub const T: RangeInclusive<f64> = 0.0..=10_000.0;
/// Round-trip delay in ms: twice [`T`], as section 7.4 relates them. Table 2 ends at 1000 ms.
pub(super) const TR: RangeInclusive<f64> = 0.0..=20_000.0;
/// Equipment impairment factor. Table 2 ends at 40, but G.113 Table I.1 has 50 (G.726 at 16 kbit/s) and
/// its wideband scale more; above 95 equation 7-29 would turn losses into a gain.
pub const IE: RangeInclusive<f64> = 0.0..=95.0;
/// Packet-loss robustness. Table 2 begins at 4.3, that of G.711; its editions before 2011 begin at 1.
pub const BPL: RangeInclusive<f64> = 1.0..=40.0;
/// Loss in percent. Table 2 ends at 20 %; a call whose paths all fail loses everything.
pub(super) const PPL: RangeInclusive<f64> = 0.0..=100.0;
/// Burst ratio. Table 2 has 1 to 8; a failover makes one burst of hundreds of frames, and losses more
/// regular than random ones have less than 1. What `run` measured can be given here.
pub const BURST_R: RangeInclusive<f64> = 1e-3..=1e3;
/// Noise floor in dBmp. Table 2 has -64 alone, G.107.1 has -96; up to the table's limit of circuit noise.
pub(super) const NFOR: RangeInclusive<f64> = -96.0..=-40.0;

/// Sets one of the values by its symbol, in upper or lower case.
pub(super) fn set(values: &mut [Value<'_>], symbol: &str, value: f64) -> Result<(), String> {
    let Some((name, target, range)) = values.iter_mut().find(|(name, ..)| name.eq_ignore_ascii_case(symbol))
    else {
        let names: Vec<&str> = values.iter().map(|(name, ..)| *name).collect();
        return Err(format!("`{symbol}` is not a parameter of this form; it has {}", names.join(", ")));
    };
    check(name, value, range)?;
    **target = value;
    Ok(())
}

/// Gives one sentence if a value is not in its range; NaN is in none.
///
/// # Errors
/// Key, value and what is allowed.
pub fn check(key: &str, value: f64, range: &RangeInclusive<f64>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("{key} = {} is not from {} to {}", shown(value), range.start(), range.end()))
}

/// A number as a message shows it. `Debug` writes exponents, so that 1e300 does not become 301 digits.
pub(super) fn shown(value: f64) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use crate::quality::{emodel, wideband};

    #[test]
    fn a_value_is_taken_by_its_symbol_and_only_within_its_range() {
        let mut parameters = emodel::Parameters::default();
        parameters.set("TELR", 5.0).unwrap();
        parameters.set("burstr", 2.0).unwrap();
        parameters.set("sT", 0.4).unwrap();
        assert_eq!((parameters.telr, parameters.burst_r, parameters.st), (5.0, 2.0, 0.4));
        let before = parameters;
        for (symbol, value, message) in [
            ("telr", -1e300, "TELR = -1e300 is not from 5 to 65"),
            ("qdu", 0.0, "qdu = 0 is not from 1 to 14"),
            ("mT", f64::NAN, "mT = NaN is not from 100 to 150"),
            ("Nc", f64::INFINITY, "Nc = inf is not from -80 to -40"),
            ("Ie", 95.1, "Ie = 95.1 is not from 0 to 95"),
        ] {
            assert_eq!(parameters.set(symbol, value), Err(message.to_owned()));
        }
        assert_eq!(parameters, before);
        let message = wideband::Parameters::default().set("SLR", 8.0).unwrap_err();
        assert!(message.starts_with("`SLR` is not a parameter of this form; it has RLR, TELR"), "{message}");
    }

    #[test]
    fn the_defaults_are_within_their_ranges_and_every_corner_has_a_rating() {
        let mut narrow = emodel::Parameters::default();
        for (symbol, value, range) in narrow.values() {
            assert!(range.contains(value), "{symbol}");
        }
        let mut wide = wideband::Parameters::default();
        for (symbol, value, range) in wide.values() {
            assert!(range.contains(value), "{symbol}");
        }
        for number in 0..22 {
            for is_high in [false, true] {
                let mut corner = emodel::Parameters::default().with_delay(200.0);
                let (_, value, range) = &mut corner.values()[number];
                **value = if is_high { *range.end() } else { *range.start() };
                assert!(corner.terms().entries().iter().all(|(_, value, _)| value.is_finite()));
            }
        }
    }
}
