//! The wideband E-model: ITU-T G.107.1 (06/2019), 50-7000 Hz.
//!
//! R = Ro,WB - Is,WB - Id,WB - Ie,eff,WB + A on a scale from 0 to 129; MOS by Annex A, which maps
//! R / 1.29 with the narrowband curve. G.107.1 leaves noise, loudness and sidetone for further study
//! (Ro,WB is 129, Is,WB is 0), and has no burst ratio in Ie,eff,WB.
//!
//! Known deviation: equation 7-6 needs the noise sum No, which G.107.1 does not define; it is that
//! of G.107 with the wideband noise floor of -96 dBmp, which gives Roe = 106. It matters to Idte
//! alone: Roe = 129 would add 1.1 at 400 ms and the default TELR. The text was available only through
//! implementations that cite it equation by equation; Corrigendum 1 (01/2020), which replaces that
//! equation, was not.

use super::Term;
use super::emodel::{self, absolute_delay_impairment, effective_equipment_impairment, mos_from_r};
use super::planning::{self, Value};

/// Ro,WB, equation 7-2.
const RO: f64 = 129.0;
/// The wideband scale over the narrowband scale (Annex A and equation 7-13).
const SCALE: f64 = 1.29;

/// The planning values that G.107.1 evaluates, with their default values (Table 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Receive loudness rating RLR in dB; default 2.
    pub rlr: f64,
    /// Talker echo loudness rating TELR in dB; default 65.
    pub telr: f64,
    /// Weighted echo path loss WEPL in dB; default 110.
    pub wepl: f64,
    /// Mean one-way delay of the echo path T in ms; default 0.
    pub t: f64,
    /// Round-trip delay in a 4-wire loop Tr in ms; default 0.
    pub tr: f64,
    /// Absolute delay in echo-free connections Ta in ms; default 0.
    pub ta: f64,
    /// Equipment impairment factor on the wideband scale, Ie,WB; default 0.
    pub ie: f64,
    /// Packet-loss robustness factor Bpl; default 4.3.
    pub bpl: f64,
    /// Random packet-loss probability Ppl in percent; default 0.
    pub ppl: f64,
    /// Noise floor at the receive side Nfor in dBmp; default -96.
    pub nfor: f64,
    /// Advantage factor A; default 0.
    pub a: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            rlr: 2.0,
            telr: 65.0,
            wepl: 110.0,
            t: 0.0,
            tr: 0.0,
            ta: 0.0,
            ie: 0.0,
            bpl: 4.3,
            ppl: 0.0,
            nfor: -96.0,
            a: 0.0,
        }
    }
}

impl Parameters {
    /// The same connection with this one-way delay in ms throughout: T = Ta and Tr = 2 T.
    #[must_use]
    pub fn with_delay(self, ms: f64) -> Self {
        Self { t: ms, ta: ms, tr: 2.0 * ms, ..self }
    }

    /// Sets a planning value by its symbol in the recommendation, in upper or lower case.
    ///
    /// # Errors
    /// One sentence with symbol, value and what is allowed.
    pub fn set(&mut self, symbol: &str, value: f64) -> Result<(), String> {
        planning::set(&mut self.values(), symbol, value)
    }

    pub(super) fn values(&mut self) -> [Value<'_>; 11] {
        [
            ("RLR", &mut self.rlr, planning::RLR),
            ("TELR", &mut self.telr, planning::TELR),
            ("WEPL", &mut self.wepl, planning::WEPL),
            ("T", &mut self.t, planning::T),
            ("Tr", &mut self.tr, planning::TR),
            ("Ta", &mut self.ta, planning::T),
            ("Ie", &mut self.ie, planning::IE),
            ("Bpl", &mut self.bpl, planning::BPL),
            ("Ppl", &mut self.ppl, planning::PPL),
            ("Nfor", &mut self.nfor, planning::NFOR),
            ("A", &mut self.a, planning::A),
        ]
    }

    /// Computes the rating and all its terms.
    pub fn terms(&self) -> Terms {
        let p = *self;
        let no = emodel::Parameters { nfor: p.nfor, rlr: p.rlr, ..emodel::Parameters::default() }.terms().no;
        let roe = -1.5 * (no - p.rlr);
        let k = if p.t < 100.0 { 0.08 * p.t + 10.0 } else { 18.0 };
        let terv = p.telr + k - 40.0 * libm::log10((1.0 + p.t / 10.0) / (1.0 + p.t / 150.0))
            + 6.0 * libm::exp(-0.3 * p.t * p.t);
        let re = 80.0 + 3.0 * (terv - 14.0);
        let half = (roe - re) / 2.0;
        let idte = (half + libm::sqrt(half * half + 100.0) - 1.0) * (1.0 - libm::exp(-p.t));
        let rle = 10.5 * (p.wepl + 7.0) * libm::pow(p.tr + 1.0, -0.25);
        let half = (RO - rle) / 2.0;
        let idle = half + libm::sqrt(half * half + 169.0);
        let idd = SCALE * absolute_delay_impairment(p.ta, 1.0, 100.0);
        let id = idte + idle + idd;
        let ie_eff = effective_equipment_impairment(p.ie, p.bpl, p.ppl, 1.0);
        let r = RO - id - ie_eff + p.a;
        Terms {
            no,
            roe,
            k,
            terv,
            re,
            idte,
            rle,
            idle,
            idd,
            id,
            ie_eff,
            a: p.a,
            r,
            mos: mos_from_r_wideband(r),
        }
    }
}

/// MOS from R on the wideband scale: G.107.1 Annex A.
pub fn mos_from_r_wideband(r: f64) -> f64 {
    mos_from_r(r / SCALE)
}

/// The rating and every term it is made of, under the symbols of G.107.1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the symbols are the recommendation's; `entries` explains each")]
pub struct Terms {
    pub no: f64,
    pub roe: f64,
    pub k: f64,
    pub terv: f64,
    pub re: f64,
    pub idte: f64,
    pub rle: f64,
    pub idle: f64,
    pub idd: f64,
    pub id: f64,
    pub ie_eff: f64,
    pub a: f64,
    pub r: f64,
    pub mos: f64,
}

impl Terms {
    /// The model's name as output shows it.
    pub const MODEL: &'static str = "ITU-T G.107.1 (06/2019), wideband";

    /// Symbol, value and meaning of every term, in the order of the recommendation.
    pub fn entries(&self) -> [Term; 16] {
        [
            ("Ro,WB", RO, "basic signal-to-noise ratio"),
            ("Is,WB", 0.0, "impairments simultaneous with speech, for further study"),
            ("No", self.no, "sum of all noise, dBm0p"),
            ("Roe", self.roe, "auxiliary to Idte,WB"),
            ("K", self.k, "auxiliary to TERV,WB, dB"),
            ("TERV,WB", self.terv, "talker echo rating corrected for delay, dB"),
            ("Re,WB", self.re, "auxiliary to Idte,WB"),
            ("Idte,WB", self.idte, "impairment by talker echo"),
            ("Rle,WB", self.rle, "auxiliary to Idle,WB"),
            ("Idle,WB", self.idle, "impairment by listener echo"),
            ("Idd,WB", self.idd, "impairment by absolute delay"),
            ("Id,WB", self.id, "delay impairments: Idte,WB + Idle,WB + Idd,WB"),
            ("Ie,eff,WB", self.ie_eff, "effective equipment impairment: codec and loss"),
            ("A", self.a, "advantage factor"),
            ("R", self.r, "transmission rating factor, 0 to 129"),
            ("MOS", self.mos, "mean opinion score, MOS-CQEW"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-4, "{value} is not {expected}");
    }

    #[test]
    fn the_defaults_give_129() {
        let terms = Parameters::default().terms();
        // G.107.1 section 7.7 states 129; the rest is the listener echo of a finite WEPL.
        assert_eq!(terms.r.round(), 129.0);
        close(terms.r, 128.846_315);
        close(terms.mos, 4.499_152);
    }

    #[test]
    fn values_of_an_independent_implementation() {
        // github.com/bgrewell/loom, core/rtp/emodel, TestWideband and TestWidebandKBelow100.
        let terms = Parameters::default().with_delay(50.0).terms();
        close(terms.idte, 0.092_907);
        close(terms.idle, 0.652_075);
        close(terms.r, 128.255_018);
        close(terms.mos, 4.495_632);
        let terms = Parameters { ie: 5.0, ..Parameters::default() }.with_delay(150.0).terms();
        close(terms.idte, 0.355_448);
        close(terms.idle, 1.012_266);
        close(terms.idd, 0.210_955);
        close(terms.r, 122.421_331);
        close(terms.mos, 4.439_743);
    }

    #[test]
    fn loss_and_the_wideband_scale() {
        // The tests of sipnab's `emodel_wb`, from equations 7-15, A-1 and A-2.
        close(effective_equipment_impairment(20.0, 4.3, 2.0, 1.0), 43.809_524);
        for (r, mos) in [(128.0, 4.4940), (116.0, 4.3371), (88.0, 3.5123), (73.0, 2.9220)] {
            assert!((mos_from_r_wideband(r) - mos).abs() < 5e-5, "{r}");
        }
    }
}
