//! Cross traffic that only loads a link: generated when a packet of interest meets the queue.
//!
//! It loads one link and leaves the simulation behind it; traffic over several hops is an ordinary flow.
//! Poisson arrivals come one after the other: that is cheaper than counting them by blocks of time and
//! placing them only where they are needed, as long as queues are not full all the time. The others are
//! sequences of on and off periods, the n-th pair from the n-th block of a counter-based generator.

mod on_off;
mod poisson;

use anabranch_transport::report::declare;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capacity::UNITS_PER_BYTE;

pub(crate) use on_off::OnOff;
pub(crate) use poisson::Poisson;

declare! {
    /// The scalars of cross traffic, which only loads a queue.
    SCALARS:
    /// Packets of cross traffic that came to the queue.
    CROSS_ARRIVED_PACKETS = "cross_arrived_packets": One;
    /// Packets of cross traffic dropped because the queue had no room.
    CROSS_QUEUE_FULL_PACKETS = "cross_queue_full_packets": One;
    /// Packets of cross traffic lost because the link was down.
    CROSS_DOWN_PACKETS = "cross_down_packets": One;
    /// Packets of cross traffic dropped by the queue's active management; only where the queue may have one.
    CROSS_AQM_PACKETS = "cross_aqm_packets": One;
}

/// A load of one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CrossTrafficConfig {
    /// Equal packets at equal distances; the first one at a random time within the first distance.
    Cbr(CbrConfig),
    /// Equal packets at equal distances during on periods; on and off periods have exponential lengths.
    OnOff(OnOffConfig),
    /// As `on_off`, with Pareto lengths: many such sources together are self-similar (Willinger et al.,
    /// "Self-similarity through high-variability", 1997).
    ParetoOnOff(ParetoOnOffConfig),
    /// Equal packets at exponential distances.
    Poisson(PoissonConfig),
}

/// Which directions of a link are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrossTrafficDirection {
    /// Both, independently.
    Both,
    /// From the link's first end to its second.
    #[default]
    Forward,
    /// From the link's second end to its first.
    Reverse,
}

/// Equal packets at exponential distances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PoissonConfig {
    /// The direction that is loaded: `forward`, `reverse` or `both`. Default: `forward`.
    pub direction: CrossTrafficDirection,
    /// Size of a packet on the wire. Default: 500 B.
    pub packet: Bytes,
    /// Offered load. Either this or `mean_wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The offered load is the one at which an M/D/1 queue has this mean wait W: a utilisation of 2 W / (2 W
    /// + S), where S is the transmission time of a packet. Needs a link with one constant rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_wait: Option<Duration>,
    /// Load of the flows of interest, subtracted from the offered load. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minus: Option<Rate>,
    /// No arrivals before this time. Default: 0 s.
    pub start: Duration,
    /// No arrivals from this time on. By default, they never stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
}

/// Equal packets at equal distances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CbrConfig {
    /// The direction that is loaded: `forward`, `reverse` or `both`. Default: `forward`.
    pub direction: CrossTrafficDirection,
    /// Size of a packet on the wire. Default: 500 B.
    pub packet: Bytes,
    /// Offered load; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// No arrivals before this time. Default: 0 s.
    pub start: Duration,
    /// No arrivals from this time on. By default, they never stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
}

/// Equal packets at equal distances during on periods of exponential length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnOffConfig {
    /// The direction that is loaded: `forward`, `reverse` or `both`. Default: `forward`.
    pub direction: CrossTrafficDirection,
    /// Size of a packet on the wire. Default: 500 B.
    pub packet: Bytes,
    /// Offered load during an on period; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Mean length of an on period. Default: 0.5 s.
    pub on: Duration,
    /// Mean length of an off period. Default: 0.5 s.
    pub off: Duration,
    /// The first on period starts here. Default: 0 s.
    pub start: Duration,
    /// No arrivals from this time on. By default, they never stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
}

/// Equal packets at equal distances during on periods of Pareto length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ParetoOnOffConfig {
    /// The direction that is loaded: `forward`, `reverse` or `both`. Default: `forward`.
    pub direction: CrossTrafficDirection,
    /// Size of a packet on the wire. Default: 500 B.
    pub packet: Bytes,
    /// Offered load during an on period; required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Mean length of an on period. Default: 0.5 s.
    pub on: Duration,
    /// Mean length of an off period. Default: 0.5 s.
    pub off: Duration,
    /// Shape of both lengths, above 1 and at most 10; below 2 their variance is infinite. Default: 1.5.
    pub shape: f64,
    /// The first on period starts here. Default: 0 s.
    pub start: Duration,
    /// No arrivals from this time on. By default, they never stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
}

/// The background packets of the paper behind `voip-sctp` and of many studies since.
const DEFAULT_PACKET: Bytes = Bytes(500);
/// ns-2's defaults for `Application/Traffic/Exponential` and `Pareto`: 0.5 s each, shape 1.5.
const DEFAULT_PERIOD: Duration = Duration::from_millis(500);
const DEFAULT_SHAPE: f64 = 1.5;

impl Default for PoissonConfig {
    fn default() -> Self {
        Self {
            direction: CrossTrafficDirection::default(),
            packet: DEFAULT_PACKET,
            rate: None,
            mean_wait: None,
            minus: None,
            start: Duration::ZERO,
            stop: None,
        }
    }
}

impl Default for CbrConfig {
    fn default() -> Self {
        Self {
            direction: CrossTrafficDirection::default(),
            packet: DEFAULT_PACKET,
            rate: None,
            start: Duration::ZERO,
            stop: None,
        }
    }
}

impl Default for OnOffConfig {
    fn default() -> Self {
        Self {
            direction: CrossTrafficDirection::default(),
            packet: DEFAULT_PACKET,
            rate: None,
            on: DEFAULT_PERIOD,
            off: DEFAULT_PERIOD,
            start: Duration::ZERO,
            stop: None,
        }
    }
}

impl Default for ParetoOnOffConfig {
    fn default() -> Self {
        Self {
            direction: CrossTrafficDirection::default(),
            packet: DEFAULT_PACKET,
            rate: None,
            on: DEFAULT_PERIOD,
            off: DEFAULT_PERIOD,
            shape: DEFAULT_SHAPE,
            start: Duration::ZERO,
            stop: None,
        }
    }
}

impl PoissonConfig {
    /// Packets per second. `link_rate` is the link's rate in bit/s where it has one constant rate.
    fn packets_per_sec(&self, link_rate: Option<u64>, key: &str) -> Result<f64, String> {
        let packet_bits = (self.packet.0 * 8) as f64;
        let offered = match (self.rate, self.mean_wait) {
            (Some(rate), None) => rate.bits_per_sec() as f64,
            (None, Some(wait)) => {
                let link_rate = link_rate.ok_or_else(|| {
                    format!("{key}.mean_wait is {wait}, which needs a link with one constant rate")
                })? as f64;
                // Pollaczek-Khinchine for deterministic service: W = rho S / (2 (1 - rho)).
                let service = packet_bits / link_rate;
                let twice = 2.0 * wait.as_secs_f64();
                link_rate * twice / (twice + service)
            }
            _ => return Err(format!("{key} has to have either `rate` or `mean_wait`, and not both")),
        };
        let load = offered - self.minus.map_or(0.0, |rate| rate.bits_per_sec() as f64);
        if load < 0.0 {
            return Err(format!(
                "{key}.minus is {}, allowed is at most the offered load of {offered:.0} bit/s",
                self.minus.expect("only a subtraction makes it negative")
            ));
        }
        Ok(load / packet_bits)
    }
}

impl CrossTrafficConfig {
    /// The direction that is loaded.
    pub fn direction(&self) -> CrossTrafficDirection {
        match self {
            Self::Cbr(config) => config.direction,
            Self::OnOff(config) => config.direction,
            Self::ParetoOnOff(config) => config.direction,
            Self::Poisson(config) => config.direction,
        }
    }

    /// Size of a packet on the wire.
    fn packet(&self) -> Bytes {
        match self {
            Self::Cbr(config) => config.packet,
            Self::OnOff(config) => config.packet,
            Self::ParetoOnOff(config) => config.packet,
            Self::Poisson(config) => config.packet,
        }
    }

    /// The source. `component` names its random stream, `link_rate` is the link's rate in bit/s where it
    /// has one constant rate.
    pub(crate) fn build(
        &self,
        streams: Streams,
        component: &str,
        link_rate: Option<u64>,
        key: &str,
    ) -> Result<Source, String> {
        let packet = self.packet();
        if !(20..=65_535).contains(&packet.0) {
            return Err(format!("{key}.packet is {packet}, allowed is 20 B to 65535 B"));
        }
        let stream_key = streams.key(component);
        let period_key = format!("{key}.rate");
        let arrivals = match self {
            Self::Poisson(config) => {
                let stop = stop_nanos(config.start, config.stop, key)?;
                let rate = config.packets_per_sec(link_rate, key)?;
                if rate > Poisson::MAX_PACKETS_PER_SEC {
                    return Err(format!("{key} has {rate:e} packets/s, allowed are at most 1e9"));
                }
                let start = config.start.as_nanos();
                Arrivals::Poisson(Box::new(Poisson::new(stream_key, rate, start, stop)))
            }
            Self::Cbr(config) => {
                let stop = stop_nanos(config.start, config.stop, key)?;
                let rate = config.rate.ok_or_else(|| format!("{period_key} is missing, it is required"))?;
                Arrivals::OnOff(Box::new(OnOff::cbr(stream_key, packet, rate, config.start, stop)))
            }
            Self::OnOff(config) => {
                let stop = stop_nanos(config.start, config.stop, key)?;
                let rate = config.rate.ok_or_else(|| format!("{period_key} is missing, it is required"))?;
                check_period(config.on, &format!("{key}.on"))?;
                Arrivals::OnOff(Box::new(OnOff::exponential(
                    stream_key,
                    packet,
                    rate,
                    config.start,
                    stop,
                    [config.on, config.off],
                )))
            }
            Self::ParetoOnOff(config) => {
                let stop = stop_nanos(config.start, config.stop, key)?;
                let rate = config.rate.ok_or_else(|| format!("{period_key} is missing, it is required"))?;
                check_period(config.on, &format!("{key}.on"))?;
                if !(config.shape > 1.0 && config.shape <= 10.0) {
                    return Err(format!(
                        "{key}.shape is {}, allowed is above 1 and at most 10",
                        config.shape
                    ));
                }
                Arrivals::OnOff(Box::new(OnOff::pareto(
                    stream_key,
                    packet,
                    rate,
                    config.start,
                    stop,
                    [config.on, config.off],
                    config.shape,
                )))
            }
        };
        Ok(Source { arrivals, size: packet.0 as u32, units: packet.0 * UNITS_PER_BYTE })
    }
}

fn stop_nanos(start: Duration, stop: Option<Duration>, key: &str) -> Result<u64, String> {
    match stop {
        Some(stop) if stop < start => {
            Err(format!("{key}.stop is {stop}, allowed is at least its start, {start}"))
        }
        Some(stop) => Ok(stop.as_nanos()),
        None => Ok(u64::MAX),
    }
}

fn check_period(on: Duration, key: &str) -> Result<(), String> {
    if on < Duration::from_micros(1) {
        return Err(format!("{key} is {on}, allowed is at least 1 us"));
    }
    Ok(())
}

/// A source of background packets.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) arrivals: Arrivals,
    /// Bytes per packet.
    pub(crate) size: u32,
    /// Work per packet.
    pub(crate) units: u64,
}

/// The arrival times of background packets.
#[derive(Clone, Debug)]
pub(crate) enum Arrivals {
    OnOff(Box<OnOff>),
    Poisson(Box<Poisson>),
}

impl Source {
    /// The next arrival in nanoseconds, which is not taken; `u64::MAX` if there is none.
    pub(crate) fn peek(&self) -> u64 {
        match &self.arrivals {
            Arrivals::OnOff(on_off) => on_off.peek(),
            Arrivals::Poisson(poisson) => poisson.peek(),
        }
    }

    /// Takes the arrival that [`Source::peek`] showed.
    pub(crate) fn pop(&mut self) {
        match &mut self.arrivals {
            Arrivals::OnOff(on_off) => on_off.pop(),
            Arrivals::Poisson(poisson) => poisson.pop(),
        }
    }
}

/// Background packets at one queue, all sources together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CrossCounters {
    pub(crate) arrived: u64,
    pub(crate) dropped_full: u64,
    pub(crate) dropped_down: u64,
    pub(crate) dropped_aqm: u64,
}

/// The source with the earliest arrival up to `now`; of several at the same time, the first one.
pub(crate) fn earliest(sources: &mut [Source], now: u64) -> Option<(u64, &mut Source)> {
    earliest_index(sources, now).map(|(time, index)| (time, &mut sources[index]))
}

/// The index of the source with the earliest arrival.
pub(crate) fn earliest_index(sources: &mut [Source], now: u64) -> Option<(u64, usize)> {
    let mut best: Option<(u64, usize)> = None;
    for (index, source) in sources.iter_mut().enumerate() {
        let time = source.peek();
        if time <= now && best.is_none_or(|(earlier, _)| time < earlier) {
            best = Some((time, index));
        }
    }
    best
}
