//! The configuration of a call.

use anabranch_transport::quality::{Band, Codec, EModel, JitterBuffer, planning};
use anabranch_transport::time::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::{Direction, ReliabilityConfig, Start};

/// A telephone call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VoipConfig {
    /// The codec; default "g711+plc".
    pub codec: Codec,
    /// Speech per packet, a whole number of the codec's frames, at most 200 ms; default "20 ms".
    pub packetisation: Duration,
    /// When the association is opened, before the call starts; default "0 s".
    pub connect: Duration,
    /// When the call starts: a time, or a range to draw it from; default from "10 s" to "20 s".
    pub start: Start,
    /// How long the call lasts; default "120 s".
    pub duration: Duration,
    /// Which end talks; default `"a_to_b"`.
    pub direction: Direction,
    /// Talk spurts and pauses; by default there are no pauses.
    pub talk_spurts: Option<TalkSpurtsConfig>,
    /// How hard the transport tries to deliver each message (SCTP); default `{ limited_retransmissions = 0
    /// }`, which is once.
    pub reliability: ReliabilityConfig,
    /// Whether messages are delivered without regard to their order (SCTP); default true.
    pub unordered: bool,
    /// The stream of the messages (SCTP); default 0.
    pub stream: u16,
    /// The jitter buffer at the listener's end; default fixed with a depth of "100 ms".
    pub jitter_buffer: JitterBuffer,
    /// Which E-model rates the call; default "simplified".
    pub emodel: EModel,
    /// Which delay the E-model uses; default "network".
    pub delay: DelayBasis,
    /// Which burst ratio the E-model uses; default "random".
    pub burst_ratio: BurstRatio,
    /// Equipment impairment factor Ie, from 0 to 95, instead of the codec's own.
    pub ie: Option<f64>,
    /// Packet-loss robustness factor Bpl, from 1 to 40, instead of the codec's own.
    pub bpl: Option<f64>,
    /// How long to wait for frames after the last one was sent, or longer if the jitter buffer could still
    /// play them then; default "1 s".
    pub grace: Duration,
}

impl Default for VoipConfig {
    fn default() -> Self {
        Self {
            codec: Codec::default(),
            packetisation: Duration::from_millis(20),
            connect: Duration::ZERO,
            start: Start::Between { from: Duration::from_secs(10), to: Duration::from_secs(20) },
            duration: Duration::from_secs(120),
            direction: Direction::AToB,
            talk_spurts: None,
            reliability: ReliabilityConfig::LimitedRetransmissions(0),
            unordered: true,
            stream: 0,
            jitter_buffer: JitterBuffer::default(),
            emodel: EModel::default(),
            delay: DelayBasis::default(),
            burst_ratio: BurstRatio::default(),
            ie: None,
            bpl: None,
            grace: Duration::from_secs(1),
        }
    }
}

/// Talk spurts and pauses with exponentially distributed lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TalkSpurtsConfig {
    /// Mean length of a talk spurt, from 1 ms on; default "1.004 s" (ITU-T P.59, Table 1).
    pub talk: Duration,
    /// Mean length of a pause, from 1 ms on; default "1.587 s" (ITU-T P.59, Table 1).
    pub pause: Duration,
}

impl Default for TalkSpurtsConfig {
    fn default() -> Self {
        Self { talk: Duration::from_millis(1_004), pause: Duration::from_millis(1_587) }
    }
}

/// The delay that the E-model uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DelayBasis {
    /// From mouth to ear: packetisation, look-ahead, network and jitter buffer.
    MouthToEar,
    /// The mean one-way delay of the packets that are played, as studies of networks use it.
    #[default]
    Network,
}

/// The burst ratio that the E-model uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BurstRatio {
    /// The ratio measured in this call. G.113 Appendix I advises it only for codecs whose
    /// concealment has Bpl 16 or more. ITU-T G.107.1 has no burst ratio.
    Measured,
    /// The ratio 1, which independent losses have.
    #[default]
    Random,
}

impl VoipConfig {
    /// Ie and Bpl of this call.
    pub(super) fn impairment(&self) -> Result<(f64, f64), String> {
        let data = self.codec.data();
        if data.band != self.emodel.band() && self.ie.is_none() {
            let allowed = match data.band {
                Band::Narrow => "\"simplified\" or \"g107\"",
                Band::Wide => "\"g107_1\"",
            };
            return Err(format!(
                "emodel = \"{}\" does not rate codec {}: its Ie is for {allowed}; set ie to rate it all the same",
                self.emodel.name(),
                data.name
            ));
        }
        let value = |key: &str, own: Option<f64>, codec: Option<f64>| {
            own.or(codec)
                .ok_or_else(|| format!("{key} is missing: codec {} has none ({})", data.name, data.source))
        };
        let (ie, bpl) = (value("ie", self.ie, data.ie)?, value("bpl", self.bpl, data.bpl)?);
        planning::check("ie", ie, &planning::IE)?;
        planning::check("bpl", bpl, &planning::BPL)?;
        Ok((ie, bpl))
    }
}
