//! The E-model, complete: ITU-T G.107 (06/2015), narrowband.
//!
//! R = Ro - Is - Id - Ie,eff + A on a scale from 0 to 100, from the 22 planning values of
//! [`Parameters`]; every intermediate value stays readable in [`Terms`]. Symbols and numbering of
//! equations are the recommendation's. MOS and its inverse: Annex B and Appendix I.
//!
//! Known deviations: none. [`Parameters::set`] keeps to the permitted ranges of Table 2, widened where
//! calls of simulated networks need it; what a call itself measured is computed whatever it is.

use super::Term;
use super::planning::{self, Value};

/// The planning values of G.107 Table 2, with its default values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Send loudness rating SLR in dB; default 8.
    pub slr: f64,
    /// Receive loudness rating RLR in dB; default 2.
    pub rlr: f64,
    /// Sidetone masking rating STMR in dB; default 15.
    pub stmr: f64,
    /// D-value of the telephone, send side, Ds; default 3.
    pub ds: f64,
    /// D-value of the telephone, receive side, Dr; default 3. The listener sidetone rating is
    /// LSTR = STMR + Dr.
    pub dr: f64,
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
    /// Number of quantisation distortion units qdu; default 1.
    pub qdu: f64,
    /// Equipment impairment factor Ie; default 0.
    pub ie: f64,
    /// Packet-loss robustness factor Bpl; default 4.3.
    pub bpl: f64,
    /// Random packet-loss probability Ppl in percent; default 0.
    pub ppl: f64,
    /// Burst ratio `BurstR`; default 1.
    pub burst_r: f64,
    /// Circuit noise referred to the 0 dBr point Nc in dBm0p; default -70.
    pub nc: f64,
    /// Noise floor at the receive side Nfor in dBmp; default -64.
    pub nfor: f64,
    /// Room noise at the send side Ps in dB(A); default 35.
    pub ps: f64,
    /// Room noise at the receive side Pr in dB(A); default 35.
    pub pr: f64,
    /// Advantage factor A; default 0.
    pub a: f64,
    /// Delay sensitivity sT; default 1.
    pub st: f64,
    /// Minimum perceivable delay mT in ms; default 100.
    pub mt: f64,
}

impl Default for Parameters {
    /// G.107 Table 2; sT and mT from Table 1 (default class). Bpl 4.3 is that of G.711 (G.113
    /// Appendix I), which is what the table's default refers to; at Ppl 0 it has no effect.
    fn default() -> Self {
        Self {
            slr: 8.0,
            rlr: 2.0,
            stmr: 15.0,
            ds: 3.0,
            dr: 3.0,
            telr: 65.0,
            wepl: 110.0,
            t: 0.0,
            tr: 0.0,
            ta: 0.0,
            qdu: 1.0,
            ie: 0.0,
            bpl: 4.3,
            ppl: 0.0,
            burst_r: 1.0,
            nc: -70.0,
            nfor: -64.0,
            ps: 35.0,
            pr: 35.0,
            a: 0.0,
            st: 1.0,
            mt: 100.0,
        }
    }
}

impl Parameters {
    /// The same connection with this one-way delay in ms throughout: T = Ta and Tr = 2 T, the relation of
    /// G.107 section 7.4 for a single delay.
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

    /// Table 2 of G.107 with its permitted ranges, and why a range is not the table's.
    pub(super) fn values(&mut self) -> [Value<'_>; 22] {
        [
            ("SLR", &mut self.slr, 0.0..=18.0),
            ("RLR", &mut self.rlr, planning::RLR),
            // Section 7.4 has other equations below 9 and above 20 dB.
            ("STMR", &mut self.stmr, 5.0..=25.0),
            ("Ds", &mut self.ds, -3.0..=3.0),
            ("Dr", &mut self.dr, -3.0..=3.0),
            ("TELR", &mut self.telr, planning::TELR),
            ("WEPL", &mut self.wepl, planning::WEPL),
            ("T", &mut self.t, planning::T),
            ("Tr", &mut self.tr, planning::TR),
            ("Ta", &mut self.ta, planning::T),
            ("qdu", &mut self.qdu, 1.0..=14.0),
            ("Ie", &mut self.ie, planning::IE),
            ("Bpl", &mut self.bpl, planning::BPL),
            ("Ppl", &mut self.ppl, planning::PPL),
            ("BurstR", &mut self.burst_r, planning::BURST_R),
            ("Nc", &mut self.nc, -80.0..=-40.0),
            ("Nfor", &mut self.nfor, planning::NFOR),
            ("Ps", &mut self.ps, 35.0..=85.0),
            ("Pr", &mut self.pr, 35.0..=85.0),
            ("A", &mut self.a, planning::A),
            // Table 1: the classes of delay sensitivity, from very low to the default.
            ("sT", &mut self.st, 0.4..=1.0),
            ("mT", &mut self.mt, 100.0..=150.0),
        ]
    }

    /// Computes the rating and all its terms.
    pub fn terms(&self) -> Terms {
        let p = *self;

        // Section 7.2: basic signal-to-noise ratio.
        let olr = p.slr + p.rlr;
        let lstr = p.stmr + p.dr;
        let nos = p.ps - p.slr - p.ds - 100.0 + 0.004 * square(p.ps - olr - p.ds - 14.0);
        let pre = p.pr + 10.0 * libm::log10(1.0 + decibel((10.0 - lstr) / 10.0));
        let nor = p.rlr - 121.0 + pre + 0.008 * square(pre - 35.0);
        let nfo = p.nfor + p.rlr;
        let no = 10.0
            * libm::log10(
                decibel(p.nc / 10.0) + decibel(nos / 10.0) + decibel(nor / 10.0) + decibel(nfo / 10.0),
            );
        let ro = 15.0 - 1.5 * (p.slr + no);

        // Section 7.3: simultaneous impairments.
        let xolr = olr + 0.2 * (64.0 + no - p.rlr);
        let iolr = 20.0 * (smooth(xolr / 8.0, 8.0) - xolr / 8.0);
        let stmro =
            -10.0 * libm::log10(decibel(-p.stmr / 10.0) + libm::exp(-p.t / 4.0) * decibel(-p.telr / 10.0));
        let ist = 12.0 * smooth((stmro - 13.0) / 6.0, 8.0)
            - 28.0 * smooth((stmro + 1.0) / 19.4, 35.0)
            - 13.0 * smooth((stmro - 3.0) / 33.0, 13.0)
            + 29.0;
        let q = 37.0 - 15.0 * libm::log10(p.qdu);
        let g = 1.07 + 0.258 * q + 0.0602 * q * q;
        let y = (ro - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
        let z = 46.0 / 30.0 - g / 40.0;
        let iq = 15.0 * libm::log10(1.0 + decibel(y) + decibel(z));

        // Section 7.4: delay impairments. TERVs and Idtes where sidetone is below 9 or above 20 dB.
        let mut terv = p.telr - 40.0 * libm::log10((1.0 + p.t / 10.0) / (1.0 + p.t / 150.0))
            + 6.0 * libm::exp(-0.3 * p.t * p.t);
        if p.stmr < 9.0 {
            terv += ist / 2.0;
        }
        let roe = -1.5 * (no - p.rlr);
        let re = 80.0 + 2.5 * (terv - 14.0);
        let mut idte = if p.t < 1.0 {
            0.0 // "For values of T < 1 ms the talker echo should be considered as sidetone."
        } else {
            let half = (roe - re) / 2.0;
            (half + libm::sqrt(half * half + 100.0) - 1.0) * (1.0 - libm::exp(-p.t))
        };
        if p.stmr > 20.0 {
            idte = libm::sqrt(idte * idte + ist * ist);
        }
        let rle = 10.5 * (p.wepl + 7.0) * libm::pow(p.tr + 1.0, -0.25);
        let idle = {
            let half = (ro - rle) / 2.0;
            half + libm::sqrt(half * half + 169.0)
        };
        let idd = absolute_delay_impairment(p.ta, p.st, p.mt);

        let iss = iolr + ist + iq;
        let id = idte + idle + idd;
        let ie_eff = effective_equipment_impairment(p.ie, p.bpl, p.ppl, p.burst_r);
        let r = ro - iss - id - ie_eff + p.a;
        Terms {
            nos,
            pre,
            nor,
            nfo,
            no,
            ro,
            xolr,
            iolr,
            stmro,
            ist,
            q,
            g,
            y,
            z,
            iq,
            is: iss,
            terv,
            roe,
            re,
            idte,
            rle,
            idle,
            idd,
            id,
            ie_eff,
            a: p.a,
            r,
            mos: mos_from_r(r),
        }
    }
}

/// The rating and every term it is made of, under the symbols of G.107.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the symbols are the recommendation's; `entries` explains each")]
pub struct Terms {
    pub nos: f64,
    pub pre: f64,
    pub nor: f64,
    pub nfo: f64,
    pub no: f64,
    pub ro: f64,
    pub xolr: f64,
    pub iolr: f64,
    pub stmro: f64,
    pub ist: f64,
    pub q: f64,
    pub g: f64,
    pub y: f64,
    pub z: f64,
    pub iq: f64,
    pub is: f64,
    pub terv: f64,
    pub roe: f64,
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
    pub const MODEL: &'static str = "ITU-T G.107 (06/2015)";

    /// Symbol, value and meaning of every term, in the order of the recommendation.
    pub fn entries(&self) -> [Term; 28] {
        [
            ("Nos", self.nos, "room noise at the send side as circuit noise, dBm0p"),
            ("Pre", self.pre, "effective room noise at the receive side, dBm0p"),
            ("Nor", self.nor, "room noise at the receive side as circuit noise, dBm0p"),
            ("Nfo", self.nfo, "noise floor at the receive side, dBm0p"),
            ("No", self.no, "sum of all noise, dBm0p"),
            ("Ro", self.ro, "basic signal-to-noise ratio"),
            ("Xolr", self.xolr, "overall loudness rating corrected for noise, dB"),
            ("Iolr", self.iolr, "impairment by too low an overall loudness rating"),
            ("STMRo", self.stmro, "sidetone with early talker echo, dB"),
            ("Ist", self.ist, "impairment by non-optimum sidetone"),
            ("Q", self.q, "signal to quantisation distortion, dB"),
            ("G", self.g, "auxiliary to Iq"),
            ("Y", self.y, "auxiliary to Iq"),
            ("Z", self.z, "auxiliary to Iq"),
            ("Iq", self.iq, "impairment by quantising distortion"),
            ("Is", self.is, "impairments simultaneous with speech: Iolr + Ist + Iq"),
            ("TERV", self.terv, "talker echo rating corrected for delay, dB"),
            ("Roe", self.roe, "auxiliary to Idte"),
            ("Re", self.re, "auxiliary to Idte"),
            ("Idte", self.idte, "impairment by talker echo"),
            ("Rle", self.rle, "auxiliary to Idle"),
            ("Idle", self.idle, "impairment by listener echo"),
            ("Idd", self.idd, "impairment by absolute delay"),
            ("Id", self.id, "delay impairments: Idte + Idle + Idd"),
            ("Ie,eff", self.ie_eff, "effective equipment impairment: codec and loss"),
            ("A", self.a, "advantage factor"),
            ("R", self.r, "transmission rating factor"),
            ("MOS", self.mos, "mean opinion score, MOS-CQE"),
        ]
    }
}

/// Ie,eff of G.107 equation 7-29: equipment impairment `ie`, loss robustness `bpl`, loss `ppl` in
/// percent, burst ratio `burst_r`.
pub fn effective_equipment_impairment(ie: f64, bpl: f64, ppl: f64, burst_r: f64) -> f64 {
    if ppl <= 0.0 {
        return ie; // also for Bpl 0, where the formula is 0/0
    }
    // Section 7.5 defines BurstR from 1 (random) up; losses more regular than that count as random.
    ie + (95.0 - ie) * ppl / (ppl / burst_r.max(1.0) + bpl)
}

/// Idd of G.107 equations 7-27 and 7-28: absolute one-way delay `ta` and minimum perceivable delay
/// `mt` in ms, delay sensitivity `st`.
pub fn absolute_delay_impairment(ta: f64, st: f64, mt: f64) -> f64 {
    if ta <= mt {
        return 0.0;
    }
    let x = libm::log10(ta / mt) / libm::log10(2.0);
    25.0 * (smooth(x, 6.0 * st) - 3.0 * smooth(x / 3.0, 6.0 * st) + 2.0)
}

/// MOS from R: G.107 Annex B, equation B-4, never below 1.
///
/// The cubic dips to 0.99 between R = 0 and R = 6.5; the scale starts at 1, so the dip is cut off.
pub fn mos_from_r(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
    }
}

/// R from MOS: the inverse of [`mos_from_r`] where that increases, for MOS from 1 to 4.5 (G.107
/// Appendix I solves the same cubic in closed form).
pub fn r_from_mos(mos: f64) -> f64 {
    let (mut low, mut high) = (6.5, 100.0);
    // 60 halvings of the interval: below the resolution of a double.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if mos_from_r(middle) < mos {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// (1 + x^n)^(1/n), the E-model's soft corner.
fn smooth(x: f64, n: f64) -> f64 {
    libm::pow(1.0 + libm::pow(x, n), 1.0 / n)
}

fn decibel(exponent: f64) -> f64 {
    libm::pow(10.0, exponent)
}

const fn square(x: f64) -> f64 {
    x * x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_give_93_2_and_4_41() {
        // G.107 section 7.7: "calculated with all parameter values set to the default values, R = 93.2".
        let terms = Parameters::default().terms();
        assert!((terms.r - 93.2).abs() < 0.05, "{}", terms.r);
        assert!((terms.mos - 4.41).abs() < 0.005, "{}", terms.mos);
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-4, "{value} is not {expected}");
    }

    #[test]
    fn default_terms() {
        // github.com/bgrewell/loom, core/rtp/emodel, TestDefaultsGolden; R also by
        // github.com/manucorporat/e-model, README.
        let terms = Parameters::default().terms();
        close(terms.no, -61.179_214);
        close(terms.ro, 94.768_822);
        close(terms.iolr, 0.440_178);
        close(terms.ist, -0.000_715);
        close(terms.iq, 0.974_105);
        close(terms.is, 1.413_568);
        close(terms.id, 0.149_046);
        close(terms.r, 93.206_208);
        close(terms.mos, 4.409_406);
    }

    #[test]
    fn delay() {
        // github.com/bgrewell/loom, core/rtp/emodel, TestVerificationPoints.
        for (ms, idte, idle, idd, r, mos) in [
            (100.0, 1.963_791, 0.727_733, 0.0, 90.663_730, 4.354_920),
            (150.0, 2.811_844, 0.840_747, 0.163_531, 89.539_132, 4.327_546),
            (250.0, 4.242_856, 1.018_587, 8.916_710, 79.177_101, 3.992_519),
        ] {
            let terms = Parameters::default().with_delay(ms).terms();
            close(terms.idte, idte);
            close(terms.idle, idle);
            close(terms.idd, idd);
            close(terms.r, r);
            close(terms.mos, mos);
        }
    }

    #[test]
    fn codec_and_loss() {
        // The same source; the second is exact: 11 + 84 x 2/21 = 19.
        let with =
            |ie, bpl, ppl, burst_r| Parameters { ie, bpl, ppl, burst_r, ..Parameters::default() }.terms();
        close(with(0.0, 25.1, 5.0, 1.0).r, 77.425_477);
        close(with(11.0, 19.0, 2.0, 1.0).ie_eff, 19.0);
        close(with(11.0, 19.0, 2.0, 1.0).mos, 3.787_558);
        close(with(0.0, 25.1, 5.0, 2.0).ie_eff, 17.210_145);
    }

    #[test]
    fn sidetone_outside_the_usual_range_changes_the_echo() {
        // Section 7.4: TERVs below 9 dB (equation 7-23), Idtes above 20 dB (equation 7-24).
        let with = |stmr| Parameters { stmr, ..Parameters::default() }.with_delay(100.0).terms();
        let (low, default, high) = (with(8.0), with(15.0), with(21.0));
        close(low.terv - low.ist / 2.0, default.terv);
        close(high.idte * high.idte - high.ist * high.ist, {
            let half = (high.roe - high.re) / 2.0;
            let idte = (half + (half * half + 100.0).sqrt() - 1.0) * (1.0 - libm::exp(-100.0));
            idte * idte
        });
    }

    #[test]
    fn mos_of_annex_b() {
        // Table B.1: the lower limits of the classes of user satisfaction.
        for (r, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            assert!((mos_from_r(r) - mos).abs() < 0.0065, "{r}: {}", mos_from_r(r));
        }
        assert_eq!(mos_from_r(-3.0), 1.0);
        assert_eq!(mos_from_r(3.0), 1.0);
        assert_eq!(mos_from_r(120.0), 4.5);
    }

    #[test]
    fn entries_repeat_no_symbol_and_end_with_the_result() {
        let terms = Parameters::default().terms();
        let entries = terms.entries();
        assert_eq!((entries[26].1, entries[27].1), (terms.r, terms.mos));
        let mut symbols: Vec<_> = entries.iter().map(|entry| entry.0).collect();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), entries.len());
    }

    proptest::proptest! {
        #[test]
        fn r_from_mos_inverts(r in 7.0..100.0) {
            proptest::prop_assert!((r_from_mos(mos_from_r(r)) - r).abs() < 1e-6);
        }

        #[test]
        fn more_delay_or_loss_is_never_better(
            delay in 0.0..2000.0, longer in 0.0..500.0, ppl in 0.0..100.0, more in 0.0..50.0,
            ie in 0.0..90.0, bpl in 1.0..50.0,
        ) {
            let p = Parameters { ie, bpl, ppl, ..Parameters::default() };
            let terms = p.terms();
            // The echo's "6 exp(-0.3 T^2)" makes Id dip by 0.1 around T = 2 ms: start beyond it.
            let (near, far) = (p.with_delay(10.0 + delay).terms(), p.with_delay(10.0 + delay + longer).terms());
            proptest::prop_assert!(far.r <= near.r + 1e-9);
            let lossier = Parameters { ppl: ppl + more, ..p }.terms();
            proptest::prop_assert!(lossier.r <= terms.r + 1e-9);
            proptest::prop_assert!((1.0..=4.5).contains(&near.mos));
        }
    }
}
