//! Speech codecs: sizes, delays, and the E-model's equipment impairment of each.
//!
//! Sizes are RTP payloads (RFC 3551, RFC 4867). Ie and Bpl are the provisional planning values of
//! ITU-T G.113: Appendix I (narrowband) and Appendix IV (wideband scale, two ears). A codec or mode
//! without a value there has none here, and a call with it needs `ie` and `bpl` in its configuration;
//! none is borrowed from a neighbour, except where the algorithm is the same one.
//!
//! G.113 has no value for Opus. Those of its constant-bit-rate modes are of Alahmadi, Pocta and Melvin (An
//! Adaptive Bitrate Switching Algorithm for Speech Applications in Context of WebRTC, ACM TOMM 17(4), 2021,
//! doi 10.1145/3458751), derived with an instrumental model rather than listeners: narrowband on the scale
//! of G.107, wideband on that of G.107.1. Theirs for super-wideband are on the scale of G.107.2, which is
//! no model of ours.
//!
//! Known deviations: the tables of Appendix IV were available only as transcribed by implementations that
//! cite them table by table; those of Opus only as the authors' program that goes with their paper
//! (`Opus_emodel.js`), rounded here to two digits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Duration;

/// A speech codec, by the name under which it is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Codec {
    /// AMR at 4.75 kbit/s.
    #[serde(rename = "amr-4.75")]
    Amr475,
    /// AMR at 7.4 kbit/s.
    #[serde(rename = "amr-7.4")]
    Amr74,
    /// AMR at 12.2 kbit/s, the algorithm of GSM-EFR.
    #[serde(rename = "amr-12.2")]
    Amr122,
    /// AMR-WB (G.722.2) at 12.65 kbit/s, wideband.
    #[serde(rename = "amr-wb-12.65")]
    AmrWb1265,
    /// AMR-WB (G.722.2) at 23.05 kbit/s, wideband.
    #[serde(rename = "amr-wb-23.05")]
    AmrWb2305,
    /// AMR-WB (G.722.2) at 23.85 kbit/s, wideband.
    #[serde(rename = "amr-wb-23.85")]
    AmrWb2385,
    /// G.711 at 64 kbit/s without concealment of lost packets.
    #[serde(rename = "g711")]
    G711,
    /// G.711 at 64 kbit/s with the packet-loss concealment of its Appendix I.
    #[default]
    #[serde(rename = "g711+plc")]
    G711Plc,
    /// G.722 at 64 kbit/s, wideband.
    #[serde(rename = "g722")]
    G722,
    /// G.723.1 at 5.3 kbit/s.
    #[serde(rename = "g723.1-5.3")]
    G7231At53,
    /// G.723.1 at 6.3 kbit/s, values for use with voice activity detection.
    #[serde(rename = "g723.1-6.3")]
    G7231At63,
    /// G.726 at 32 kbit/s.
    #[serde(rename = "g726-32")]
    G726At32,
    /// G.729 at 8 kbit/s.
    #[serde(rename = "g729")]
    G729,
    /// G.729 Annex A at 8 kbit/s, values for use with voice activity detection.
    #[serde(rename = "g729a+vad")]
    G729aVad,
    /// GSM enhanced full rate at 12.2 kbit/s.
    #[serde(rename = "gsm-efr")]
    GsmEfr,
    /// GSM full rate at 13 kbit/s.
    #[serde(rename = "gsm-fr")]
    GsmFr,
    /// Opus-like packets: 24 kbit/s, constant bit rate, wideband speech; needs `ie` and `bpl`.
    #[serde(rename = "opus-24")]
    Opus24,
    /// Opus at a constant 11 kbit/s, narrowband.
    #[serde(rename = "opus-nb-11")]
    OpusNb11,
    /// Opus at a constant 8 kbit/s, narrowband.
    #[serde(rename = "opus-nb-8")]
    OpusNb8,
    /// Opus at a constant 12 kbit/s, wideband.
    #[serde(rename = "opus-wb-12")]
    OpusWb12,
    /// Opus at a constant 15 kbit/s, wideband.
    #[serde(rename = "opus-wb-15")]
    OpusWb15,
}

/// The band a codec carries, which decides the E-model's scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// 300-3400 Hz: ITU-T G.107.
    Narrow,
    /// 50-7000 Hz: ITU-T G.107.1.
    Wide,
}

/// The properties of a codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodecData {
    /// The configured name.
    pub name: &'static str,
    /// The band.
    pub band: Band,
    /// Length of a codec frame.
    pub frame: Duration,
    /// Bits of a codec frame, with the per-frame bits of the RTP payload format.
    pub frame_bits: u32,
    /// Bits that the RTP payload format adds once per packet.
    pub packet_bits: u32,
    /// Look-ahead of the encoder.
    pub look_ahead: Duration,
    /// Equipment impairment factor Ie, on the wideband scale for wideband codecs.
    pub ie: Option<f64>,
    /// Packet-loss robustness factor Bpl.
    pub bpl: Option<f64>,
    /// The source of `ie` and `bpl`, or why there is none.
    pub source: &'static str,
}

impl CodecData {
    /// Bytes of an RTP payload that carries `packetisation` of speech; [`None`] unless that is a whole number
    /// of codec frames.
    pub fn payload_bytes(&self, packetisation: Duration) -> Option<u32> {
        let (frame, length) = (self.frame.as_nanos(), packetisation.as_nanos());
        if length == 0 || !length.is_multiple_of(frame) {
            return None;
        }
        let bits = u64::from(self.packet_bits) + length / frame * u64::from(self.frame_bits);
        u32::try_from(bits.div_ceil(8)).ok()
    }
}

/// Per-frame table-of-contents entry of the AMR payload format, bandwidth-efficient mode (RFC 4867
/// section 4.3.2), and its codec mode request, once per packet (section 4.3.1).
const AMR_TOC_BITS: u32 = 6;
const AMR_CMR_BITS: u32 = 4;

const G113_I1: &str = "ITU-T G.113 Appendix I, Table I.1 (Ie), which has no Bpl";
const G113_I4: &str = "ITU-T G.113 Appendix I, Table I.4 (Ie and Bpl)";
const G113_IV: &str = "ITU-T G.113 Appendix IV, Tables IV.3 (Ie) and IV.4 (Bpl), wideband, two ears";

impl Codec {
    /// Every codec, in the order of the names.
    pub const ALL: [Self; 21] = [
        Self::Amr475,
        Self::Amr74,
        Self::Amr122,
        Self::AmrWb1265,
        Self::AmrWb2305,
        Self::AmrWb2385,
        Self::G711,
        Self::G711Plc,
        Self::G722,
        Self::G7231At53,
        Self::G7231At63,
        Self::G726At32,
        Self::G729,
        Self::G729aVad,
        Self::GsmEfr,
        Self::GsmFr,
        Self::Opus24,
        Self::OpusNb11,
        Self::OpusNb8,
        Self::OpusWb12,
        Self::OpusWb15,
    ];

    /// The codec of this configured name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.data().name == name)
    }

    /// Sizes, delays and E-model values.
    pub fn data(self) -> CodecData {
        match self {
            Self::Amr475 => CodecData { ie: None, bpl: None, source: NO_AMR_VALUE, ..amr("amr-4.75", 95) },
            Self::Amr74 => CodecData {
                ie: Some(10.0),
                bpl: None,
                source: "ITU-T G.113 Appendix I, Table I.1, IS-641: the same algorithm (3GPP TS 26.071); no Bpl",
                ..amr("amr-7.4", 148)
            },
            Self::Amr122 => CodecData {
                source: "ITU-T G.113 Appendix I, Table I.4, GSM-EFR: the same algorithm (3GPP TS 26.071)",
                ..amr("amr-12.2", 244)
            },
            Self::AmrWb1265 => amr_wb("amr-wb-12.65", 253, 20.0, 4.3),
            Self::AmrWb2305 => amr_wb("amr-wb-23.05", 461, 8.0, 4.6),
            Self::AmrWb2385 => amr_wb("amr-wb-23.85", 477, 10.0, 4.9),
            Self::G711 => CodecData { bpl: Some(4.3), ..G711_PLC.named("g711") },
            Self::G711Plc => G711_PLC,
            Self::G722 => CodecData {
                name: "g722",
                band: Band::Wide,
                look_ahead: Duration::ZERO,
                ie: Some(13.0),
                bpl: None,
                source: "ITU-T G.113 Appendix IV, Table IV.1 (Ie), wideband, one ear; no Bpl",
                ..G711_PLC
            },
            Self::G7231At53 => CodecData {
                frame_bits: 160,
                ie: Some(19.0),
                bpl: None,
                source: G113_I1,
                ..G723_1.named("g723.1-5.3")
            },
            Self::G7231At63 => G723_1,
            Self::G726At32 => CodecData {
                frame_bits: 4,
                ie: Some(7.0),
                bpl: None,
                source: G113_I1,
                ..G711_PLC.named("g726-32")
            },
            Self::G729 => CodecData { ie: Some(10.0), bpl: None, source: G113_I1, ..G729A.named("g729") },
            Self::G729aVad => G729A,
            Self::GsmEfr => GSM_EFR,
            Self::GsmFr => CodecData {
                frame_bits: 33 * 8,
                ie: Some(20.0),
                bpl: None,
                source: G113_I1,
                ..GSM_EFR.named("gsm-fr")
            },
            Self::Opus24 => CodecData {
                name: "opus-24",
                band: Band::Wide,
                frame: Duration::from_micros(2_500),
                frame_bits: 60,
                packet_bits: 0,
                look_ahead: OPUS_LOOK_AHEAD,
                ie: None,
                bpl: None,
                source: "ITU-T G.113 has no value for Opus, nor has doi 10.1145/3458751 for wideband at 24 kbit/s",
            },
            Self::OpusNb11 => opus("opus-nb-11", Band::Narrow, 110, 2.03, 15.95),
            Self::OpusNb8 => opus("opus-nb-8", Band::Narrow, 80, 19.25, 15.13),
            Self::OpusWb12 => opus("opus-wb-12", Band::Wide, 120, 29.76, 24.81),
            Self::OpusWb15 => opus("opus-wb-15", Band::Wide, 150, 18.06, 18.74),
        }
    }
}

const NO_AMR_VALUE: &str = "ITU-T G.113 has no value for this AMR mode";

impl CodecData {
    const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

/// RFC 3551 section 4.5.14: one octet per sample at 8 kHz.
const G711_PLC: CodecData = CodecData {
    name: "g711+plc",
    band: Band::Narrow,
    frame: Duration::from_micros(125),
    frame_bits: 8,
    packet_bits: 0,
    look_ahead: Duration::ZERO,
    ie: Some(0.0),
    bpl: Some(25.1),
    source: G113_I4,
};

/// RFC 3551 section 4.5.3: 24 octets (6.3 kbit/s) or 20 (5.3 kbit/s) per 30 ms, look-ahead 7.5 ms.
const G723_1: CodecData = CodecData {
    name: "g723.1-6.3",
    band: Band::Narrow,
    frame: Duration::from_millis(30),
    frame_bits: 192,
    packet_bits: 0,
    look_ahead: Duration::from_micros(7_500),
    ie: Some(15.0),
    bpl: Some(16.1),
    source: G113_I4,
};

/// RFC 3551 section 4.5.6: 10 octets per 10 ms, look-ahead 5 ms.
const G729A: CodecData = CodecData {
    name: "g729a+vad",
    band: Band::Narrow,
    frame: Duration::from_millis(10),
    frame_bits: 80,
    packet_bits: 0,
    look_ahead: Duration::from_millis(5),
    ie: Some(11.0),
    bpl: Some(19.0),
    source: G113_I4,
};

/// RFC 3551 section 4.5.9: 31 octets per 20 ms, signature included.
const GSM_EFR: CodecData = CodecData {
    name: "gsm-efr",
    band: Band::Narrow,
    frame: Duration::from_millis(20),
    frame_bits: 31 * 8,
    packet_bits: 0,
    look_ahead: Duration::ZERO,
    ie: Some(5.0),
    bpl: Some(10.0),
    source: G113_I4,
};

/// AMR: 20 ms frames of `speech_bits` (3GPP TS 26.101 table 2), look-ahead 5 ms (TS 26.090).
const fn amr(name: &'static str, speech_bits: u32) -> CodecData {
    CodecData {
        name,
        frame_bits: speech_bits + AMR_TOC_BITS,
        packet_bits: AMR_CMR_BITS,
        look_ahead: Duration::from_millis(5),
        ..GSM_EFR
    }
}

/// AMR-WB: 20 ms frames of `speech_bits` (3GPP TS 26.201 table 2), look-ahead 5 ms (TS 26.190).
const fn amr_wb(name: &'static str, speech_bits: u32, ie: f64, bpl: f64) -> CodecData {
    CodecData { band: Band::Wide, ie: Some(ie), bpl: Some(bpl), source: G113_IV, ..amr(name, speech_bits) }
}

/// RFC 6716 section 2: SILK and the resampler, 5 ms + 1.5 ms.
const OPUS_LOOK_AHEAD: Duration = Duration::from_micros(6_500);

/// Opus as speech (SILK): frames of 10 ms (RFC 6716 section 2.1.4) of `bits`, with the octet of the table of
/// contents in them, as a constant bit rate has it (section 3.1).
const fn opus(name: &'static str, band: Band, bits: u32, ie: f64, bpl: f64) -> CodecData {
    CodecData {
        name,
        band,
        frame: Duration::from_millis(10),
        frame_bits: bits,
        packet_bits: 0,
        look_ahead: OPUS_LOOK_AHEAD,
        ie: Some(ie),
        bpl: Some(bpl),
        source: match band {
            Band::Narrow => {
                "Alahmadi, Pocta and Melvin 2021 (doi 10.1145/3458751), narrowband, CBR, random losses"
            }
            Band::Wide => {
                "Alahmadi, Pocta and Melvin 2021 (doi 10.1145/3458751), wideband, CBR, random losses"
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_sizes_of_their_rtp_formats() {
        let bytes = |codec: Codec, ms| codec.data().payload_bytes(Duration::from_millis(ms));
        assert_eq!(bytes(Codec::G711Plc, 20), Some(160));
        assert_eq!(bytes(Codec::G729aVad, 20), Some(20));
        assert_eq!(bytes(Codec::G7231At63, 30), Some(24));
        assert_eq!(bytes(Codec::G7231At63, 20), None);
        assert_eq!(bytes(Codec::Amr122, 20), Some(32));
        assert_eq!(bytes(Codec::AmrWb1265, 20), Some(33));
        assert_eq!(bytes(Codec::G722, 20), Some(160));
        assert_eq!(bytes(Codec::Opus24, 20), Some(60));
        assert_eq!(bytes(Codec::OpusNb8, 20), Some(20));
        assert_eq!(bytes(Codec::OpusNb11, 20), Some(28));
        assert_eq!(bytes(Codec::OpusWb15, 60), Some(113));
        assert_eq!(bytes(Codec::OpusWb15, 5), None);
        assert_eq!(bytes(Codec::G711, 0), None);
    }

    #[test]
    fn every_codec_takes_20_or_30_ms_at_the_rate_of_its_name() {
        for codec in Codec::ALL {
            let data = codec.data();
            let packetisation =
                Duration::from_millis(if data.frame == Duration::from_millis(30) { 30 } else { 20 });
            let kbit_per_s =
                f64::from(data.payload_bytes(packetisation).unwrap()) * 8.0 / packetisation.as_millis_f64();
            let named = data.name.rsplit(['-', '_']).next().and_then(|rate| rate.parse::<f64>().ok());
            // Payload headers and octets add at most 1.5 kbit/s.
            assert!(
                named.is_none_or(|rate| (0.0..1.5).contains(&(kbit_per_s - rate))),
                "{data:?}: {kbit_per_s}"
            );
            assert!(!data.source.is_empty());
        }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        for codec in Codec::ALL {
            let name = serde_json::to_string(&codec).unwrap();
            assert_eq!(name, format!("\"{}\"", codec.data().name));
            assert_eq!(Codec::by_name(codec.data().name), Some(codec));
        }
    }
}
