//! The E-model in the simplified form of telephony studies: only delay, codec and loss vary.
//!
//! R = 93.2 - Id - Ie,eff with Id by R. Cole and J. Rosenbluth, "Voice over IP performance
//! monitoring", ACM SIGCOMM Computer Communication Review 31(2), 2001, and Ie,eff by ITU-T G.107
//! equation 7-29. 93.2 is Ro - Is of G.107 at its default values.

use super::Term;
use super::emodel::{effective_equipment_impairment, mos_from_r};

/// Ro - Is of G.107 with all other values at their defaults.
const R_DEFAULT: f64 = 93.2;
/// The delay in ms above which conversation suffers (Cole and Rosenbluth, equation 3).
const CONVERSATION_LIMIT_MS: f64 = 177.3;

/// A rating by the simplified form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simplified {
    /// Delay impairment Id.
    pub id: f64,
    /// Effective equipment impairment Ie,eff.
    pub ie_eff: f64,
    /// Transmission rating factor R; below 0 for hopeless calls.
    pub r: f64,
    /// Mean opinion score, from 1 to 4.5.
    pub mos: f64,
}

impl Simplified {
    /// The model's name as output shows it.
    pub const MODEL: &'static str = "simplified E-model (Cole and Rosenbluth 2001)";

    /// Rates a call: one-way delay in ms, loss in percent (`ppl`), burst ratio, codec's `ie` and
    /// `bpl`.
    pub fn rate(delay_ms: f64, ppl: f64, burst_r: f64, ie: f64, bpl: f64) -> Self {
        let id = 0.024 * delay_ms + 0.11 * (delay_ms - CONVERSATION_LIMIT_MS).max(0.0);
        let ie_eff = effective_equipment_impairment(ie, bpl, ppl, burst_r);
        let r = R_DEFAULT - id - ie_eff;
        Self { id, ie_eff, r, mos: mos_from_r(r) }
    }

    /// Symbol, value and meaning of every term.
    pub fn entries(&self) -> [Term; 5] {
        [
            ("Ro - Is", R_DEFAULT, "G.107 with default values"),
            ("Id", self.id, "delay impairment"),
            ("Ie,eff", self.ie_eff, "effective equipment impairment: codec and loss"),
            ("R", self.r, "transmission rating factor"),
            ("MOS", self.mos, "mean opinion score, MOS-CQE"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_call() {
        let perfect = Simplified::rate(0.0, 0.0, 1.0, 0.0, 4.3);
        assert_eq!(perfect.r, 93.2);
        assert!((perfect.mos - 4.41).abs() < 0.005);
    }

    #[test]
    fn delay_bends_at_177_ms() {
        let id = |ms| Simplified::rate(ms, 0.0, 1.0, 0.0, 4.3).id;
        assert!((id(177.3) - 4.2552).abs() < 1e-9);
        assert!((id(277.3) - (6.6552 + 11.0)).abs() < 1e-9);
    }

    #[test]
    fn calls_of_the_study() {
        // Figure 3 of the `voip-sctp` study, arithmetic by hand: d = 70 ms, Ppl = 2 %, Bpl = 25.1:
        // Id = 1.68, Ie,eff = 190/27.1 = 7.0111, R = 84.5089.
        let rating = Simplified::rate(70.0, 2.0, 1.0, 0.0, 25.1);
        assert!((rating.r - 84.508_930).abs() < 1e-5, "{}", rating.r);
        // Everything lost: R = 93.2 - 95 x 100/125.1 = 17.26.
        let rating = Simplified::rate(0.0, 100.0, 1.0, 0.0, 25.1);
        assert!((rating.r - 17.260_752).abs() < 1e-5, "{}", rating.r);
    }

    proptest::proptest! {
        #[test]
        fn more_delay_or_loss_is_never_better(
            delay in 0.0..2000.0, longer in 0.0..500.0, ppl in 0.0..100.0, more in 0.0..50.0,
            burst in 1.0..10.0,
        ) {
            let rating = Simplified::rate(delay, ppl, burst, 0.0, 25.1);
            proptest::prop_assert!(Simplified::rate(delay + longer, ppl, burst, 0.0, 25.1).r <= rating.r);
            proptest::prop_assert!(Simplified::rate(delay, ppl + more, burst, 0.0, 25.1).r <= rating.r);
            proptest::prop_assert!((1.0..=4.5).contains(&rating.mos));
        }
    }
}
