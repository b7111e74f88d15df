//! The duration of frames (IEEE 802.11-2020).

use anabranch_transport::units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Physical layer and channel access of a Wi-Fi.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WifiStandard {
    /// 802.11a: OFDM in 20 MHz at 5 GHz (clause 17), distributed coordination (DIFS).
    #[default]
    A,
    /// 802.11g: the same at 2.4 GHz (clause 18), with short slots, among stations that all support it.
    G,
    /// 802.11n: one spatial stream in 20 MHz at 5 GHz, mixed format, long guard interval (clause 19), best
    /// effort (EDCA, AIFSN 3), frames one by one.
    N,
}

/// Durations in nanoseconds, and the overhead of a frame besides its packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phy {
    standard: WifiStandard,
    pub(super) slot: u64,
    sifs: u64,
    /// The idle time before a backoff: DIFS, or AIFS of best effort.
    pub(super) ifs: u64,
    /// The time before the symbols of a data frame.
    preamble: u64,
    /// The time after every OFDM frame at 2.4 GHz: aSignalExtension (section 18.3.2.4).
    extension: u64,
    /// Bytes of MAC header, LLC and SNAP headers, and frame check sequence.
    header_bytes: u64,
}

/// The least and the greatest contention window (tables 17-21, 18-5, 19-25: aCWmin, aCWmax).
pub(super) const CW_MIN: u32 = 15;
pub(super) const CW_MAX: u32 = 1_023;

/// The largest IP packet: an MSDU of 2304 bytes (section 9.2.4.7.1) less 8 of LLC and SNAP.
pub(crate) const MOST_PACKET_BYTES: u64 = 2_296;

/// Rates in kbit/s of clauses 17 and 18 (table 17-4), and of clause 19 (table 19-27).
const OFDM_KBPS: [u64; 8] = [6_000, 9_000, 12_000, 18_000, 24_000, 36_000, 48_000, 54_000];
const HT_KBPS: [u64; 8] = [6_500, 13_000, 19_500, 26_000, 39_000, 52_000, 58_500, 65_000];

/// The mandatory rates, at which frames are acknowledged (section 10.6.6.5.2).
const CONTROL_BPS: [u64; 3] = [24_000_000, 12_000_000, 6_000_000];

const SYMBOL_NANOS: u64 = 4_000;
/// Preamble and signal field (section 17.4.3), and those of the mixed format after them: HT-SIG, HT-STF and
/// one HT-LTF (section 19.4.3).
const LEGACY_PREAMBLE_NANOS: u64 = 20_000;
const HT_PREAMBLE_NANOS: u64 = 8_000 + 4_000 + 4_000;
const ACK_BYTES: u64 = 14;

impl Phy {
    pub(super) fn new(standard: WifiStandard) -> Self {
        // Slot and SIFS of 5 GHz (table 17-21) and of 2.4 GHz (table 18-5, short slot).
        let (slot, sifs, extension) = match standard {
            WifiStandard::A | WifiStandard::N => (9_000, 16_000, 0),
            WifiStandard::G => (9_000, 10_000, 6_000),
        };
        // DIFS = SIFS + 2 slots (section 10.3.2.3.5); AIFS = SIFS + AIFSN slots (section 10.23.2.4). A header
        // of 24 bytes, or 26 with QoS control (section 9.3.2.1), LLC and SNAP 8, FCS 4.
        let (slots, preamble, header_bytes) = match standard {
            WifiStandard::A | WifiStandard::G => (2, LEGACY_PREAMBLE_NANOS, 36),
            WifiStandard::N => (3, LEGACY_PREAMBLE_NANOS + HT_PREAMBLE_NANOS, 38),
        };
        Self { standard, slot, sifs, ifs: sifs + slots * slot, preamble, extension, header_bytes }
    }

    /// The highest rate.
    pub(super) fn highest(self) -> Rate {
        Rate::from_bits_per_sec(self.rates()[7] * 1_000)
    }

    /// Checks that the standard has this rate.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn check(self, rate: Rate, key: &str) -> Result<(), String> {
        if self.rates().iter().any(|kbps| kbps * 1_000 == rate.bits_per_sec()) {
            return Ok(());
        }
        let rates: Vec<String> = self.rates().iter().map(|kbps| (*kbps as f64 / 1e3).to_string()).collect();
        Err(format!("{key} is {rate}, allowed is one of {} Mbit/s", rates.join(", ")))
    }

    fn rates(self) -> &'static [u64; 8] {
        match self.standard {
            WifiStandard::A | WifiStandard::G => &OFDM_KBPS,
            WifiStandard::N => &HT_KBPS,
        }
    }

    /// The duration of a data frame with an IP packet of this many bytes, at this many bit/s (TXTIME,
    /// sections 17.4.3 and 19.4.3).
    pub(super) fn data(self, bytes: u32, rate: u64) -> u64 {
        self.preamble + symbols(u64::from(bytes) + self.header_bytes, rate) * SYMBOL_NANOS + self.extension
    }

    /// The time from the end of a data frame at this rate to the end of its acknowledgement.
    pub(super) fn acknowledgement(self, rate: u64) -> u64 {
        // The lowest mandatory rate is the lowest rate of all.
        let control = CONTROL_BPS.into_iter().find(|&control| control <= rate).unwrap_or(6_000_000);
        let symbols = symbols(ACK_BYTES, control);
        self.sifs + LEGACY_PREAMBLE_NANOS + symbols * SYMBOL_NANOS + self.extension
    }

    /// The time from the end of a data frame that was not understood until stations count the idle time
    /// again: EIFS - DIFS (section 10.3.2.3.7), an acknowledgement at the lowest rate. The sender's timeout
    /// is assumed to be as long.
    pub(super) fn failure(self) -> u64 {
        self.acknowledgement(0)
    }
}

/// Symbols of 4 us for this many bytes, 16 service and 6 tail bits.
fn symbols(bytes: u64, rate: u64) -> u64 {
    let bits_per_symbol = rate * SYMBOL_NANOS / 1_000_000_000;
    (16 + 8 * bytes + 6).div_ceil(bits_per_symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBPS: u64 = 1_000_000;

    /// 20 us + 4 us ceil((22 + 8 (bytes + 36)) / (4 rate)), and an acknowledgement of 44 us at 6 Mbit/s.
    #[test]
    fn frames_of_802_11a() {
        let phy = Phy::new(WifiStandard::A);
        assert_eq!((phy.ifs, phy.slot), (34_000, 9_000));
        // 12310 bits: 513 symbols of 24.
        assert_eq!(phy.data(1_500, 6 * MBPS), 2_072_000);
        assert_eq!(phy.data(1_500, 54 * MBPS), 248_000);
        assert_eq!(phy.acknowledgement(6 * MBPS), 16_000 + 44_000);
        assert_eq!(phy.acknowledgement(54 * MBPS), 16_000 + 28_000);
        assert_eq!(phy.acknowledgement(18 * MBPS), 16_000 + 32_000);
        assert_eq!(phy.failure(), 60_000);
    }

    #[test]
    fn frames_of_802_11g_and_n() {
        let phy = Phy::new(WifiStandard::G);
        assert_eq!((phy.ifs, phy.slot), (28_000, 9_000));
        assert_eq!(phy.data(1_500, 54 * MBPS), 254_000);
        assert_eq!(phy.acknowledgement(54 * MBPS), 10_000 + 34_000);
        let phy = Phy::new(WifiStandard::N);
        assert_eq!(phy.ifs, 43_000);
        // 12326 bits: 48 symbols of 260.
        assert_eq!(phy.data(1_500, 65 * MBPS), 36_000 + 48 * 4_000);
        assert_eq!(phy.acknowledgement(65 * MBPS), 44_000);
    }
}
