//! Rates a call with the chosen E-model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codecs::Band;
use super::simplified::Simplified;
use super::{Term, emodel, wideband};

/// The E-model that rates a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EModel {
    /// ITU-T G.107 (06/2015): all terms, default values where the call says nothing.
    G107,
    /// ITU-T G.107.1 (06/2019), wideband: all terms, R from 0 to 129, no burst ratio.
    #[serde(rename = "g107_1")]
    G107Wideband,
    /// R = 93.2 - Id - Ie,eff, with Id after Cole and Rosenbluth (2001).
    #[default]
    Simplified,
}

/// The inputs of an E-model that come from a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallParameters {
    /// One-way delay in ms; echo paths are as long (T = Ta, Tr = 2 T).
    pub delay_ms: f64,
    /// Share of the frames not played, Ppl, in percent.
    pub loss_percent: f64,
    /// Burst ratio.
    pub burst_ratio: f64,
    /// Equipment impairment factor Ie of the codec.
    pub ie: f64,
    /// Packet-loss robustness factor Bpl of the codec.
    pub bpl: f64,
}

/// A rating with all its terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rating {
    /// By ITU-T G.107.
    G107(emodel::Terms),
    /// By ITU-T G.107.1.
    G107Wideband(wideband::Terms),
    /// By the simplified form.
    Simplified(Simplified),
}

impl EModel {
    /// Rates a call.
    pub fn rate(self, call: CallParameters) -> Rating {
        let CallParameters { delay_ms, loss_percent: ppl, burst_ratio: burst_r, ie, bpl } = call;
        match self {
            Self::G107 => {
                let p = emodel::Parameters { ie, bpl, ppl, burst_r, ..emodel::Parameters::default() };
                Rating::G107(p.with_delay(delay_ms).terms())
            }
            Self::G107Wideband => {
                let p = wideband::Parameters { ie, bpl, ppl, ..wideband::Parameters::default() };
                Rating::G107Wideband(p.with_delay(delay_ms).terms())
            }
            Self::Simplified => Rating::Simplified(Simplified::rate(delay_ms, ppl, burst_r, ie, bpl)),
        }
    }

    /// The band whose scale this model's Ie is on.
    pub const fn band(self) -> Band {
        match self {
            Self::G107 | Self::Simplified => Band::Narrow,
            Self::G107Wideband => Band::Wide,
        }
    }

    /// The configured name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::G107 => "g107",
            Self::G107Wideband => "g107_1",
            Self::Simplified => "simplified",
        }
    }
}

impl Rating {
    /// The model's name as output shows it.
    pub const fn model(&self) -> &'static str {
        match self {
            Self::G107(_) => emodel::Terms::MODEL,
            Self::G107Wideband(_) => wideband::Terms::MODEL,
            Self::Simplified(_) => Simplified::MODEL,
        }
    }

    /// Symbol, value and meaning of every term, the result last.
    pub fn entries(&self) -> Vec<Term> {
        match self {
            Self::G107(terms) => terms.entries().to_vec(),
            Self::G107Wideband(terms) => terms.entries().to_vec(),
            Self::Simplified(rating) => rating.entries().to_vec(),
        }
    }

    /// Delay impairment factor Id.
    pub const fn id(&self) -> f64 {
        match self {
            Self::G107(terms) => terms.id,
            Self::G107Wideband(terms) => terms.id,
            Self::Simplified(rating) => rating.id,
        }
    }

    /// Effective equipment impairment factor Ie,eff.
    pub const fn ie_eff(&self) -> f64 {
        match self {
            Self::G107(terms) => terms.ie_eff,
            Self::G107Wideband(terms) => terms.ie_eff,
            Self::Simplified(rating) => rating.ie_eff,
        }
    }

    /// Transmission rating factor R.
    pub const fn r(&self) -> f64 {
        match self {
            Self::G107(terms) => terms.r,
            Self::G107Wideband(terms) => terms.r,
            Self::Simplified(rating) => rating.r,
        }
    }

    /// Mean opinion score, from 1 to 4.5.
    pub const fn mos(&self) -> f64 {
        match self {
            Self::G107(terms) => terms.mos,
            Self::G107Wideband(terms) => terms.mos,
            Self::Simplified(rating) => rating.mos,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_agree_where_they_must() {
        let call = CallParameters { delay_ms: 0.0, loss_percent: 0.0, burst_ratio: 1.0, ie: 0.0, bpl: 25.1 };
        let (full, simple) = (EModel::G107.rate(call), EModel::Simplified.rate(call));
        // The simplified form's 93.2 is G.107's result for the same call.
        assert!((full.r() - simple.r()).abs() < 0.01);
        let lossy = CallParameters { loss_percent: 3.0, ..call };
        assert_eq!(EModel::G107.rate(lossy).ie_eff(), EModel::Simplified.rate(lossy).ie_eff());
        assert_eq!(EModel::G107Wideband.rate(lossy).ie_eff(), full.ie_eff() + 95.0 * 3.0 / 28.1);
        assert_ne!(full.model(), simple.model());
    }

    #[test]
    fn the_last_entry_is_the_mos_and_names_are_configured_ones() {
        let call = CallParameters { delay_ms: 63.0, loss_percent: 2.0, burst_ratio: 1.0, ie: 0.0, bpl: 25.1 };
        for model in [EModel::G107, EModel::G107Wideband, EModel::Simplified] {
            let rating = model.rate(call);
            assert_eq!(rating.entries().last().unwrap().1, rating.mos());
            assert_eq!(serde_json::to_string(&model).unwrap(), format!("\"{}\"", model.name()));
        }
    }
}
