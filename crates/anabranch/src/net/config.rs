//! The schema of a link, and what follows from its settings.

use anabranch_transport::rng::Streams;
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capacity::{RateConfig, Varying};
use super::cross_traffic::{CrossTrafficConfig, CrossTrafficDirection, Source};
use super::impairments::JitterShape;
use super::loss::{BernoulliConfig, LossConfig, LossPlace};
use super::packets::Direction;
use super::qdisc::QueueConfig;
use super::radio::{LeoConfig, LeoSchedules, RadioConfig};
use crate::schedule::{Schedule, Timeline};

/// A duplex link between two nodes. What is said holds for both directions; `reverse` says what is
/// different from the second end to the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// Names of the nodes at its two ends; forward is from the first to the second.
    pub ends: [String; 2],
    /// Rate: a value, a timetable, or `{ mahimahi = "file" }`. Default: no limit, and no queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateConfig>,
    /// A radio that serves the link, instead of a rate. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radio: Option<RadioConfig>,
    /// The largest IP packet that the link carries, from 68 B on: a larger one enters it as fragments, which
    /// the destination host puts together (RFC 791 section 3.2). Default: every packet of its paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
    /// Bytes that the link adds to each packet, such as 2 of PPP or 14 of an Ethernet header, up to 1000 B;
    /// they count in its queue, on its wire and in its counters. Default: 0 B.
    #[serde(skip_serializing_if = "is_zero")]
    pub overhead: Bytes,
    /// Constant part of the delay, added after transmission; may follow a timetable. Default: 0 s.
    pub delay: Schedule<Duration>,
    /// Random part of the delay, from 0 to this; may follow a timetable. Default: 0 s.
    pub jitter: Schedule<Duration>,
    /// How the random part is distributed: `uniform`, or `truncated_normal` around its middle. Default:
    /// `uniform`.
    #[serde(skip_serializing_if = "is_uniform")]
    pub jitter_shape: JitterShape,
    /// Whether packets may overtake each other when delays differ; otherwise a packet waits for the one
    /// before it. Default: false.
    pub reorder: bool,
    /// Probability that a packet arrives twice; may follow a timetable. Default: 0.
    pub duplicate: Schedule<Probability>,
    /// Probability that a packet arrives damaged and is thrown away; may follow a timetable. Default: 0.
    pub corrupt: Schedule<Probability>,
    /// Queue discipline. Default: `drop_tail` with 50 packets.
    pub queue: QueueConfig,
    /// Loss. Default: none.
    pub loss: LossConfig,
    /// Whether the link is up; a timetable of true and false. Default: true.
    pub up: Schedule<bool>,
    /// What happens while it is down. Default: `hold`.
    pub down: WhenDown,
    /// Traffic that loads this link only. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cross_traffic: Vec<CrossTrafficConfig>,
    /// What is different from the second end to the first. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse: Option<ReverseConfig>,
}

/// Zero is the default, which is left out so that studies keep their hash.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(bytes: &Bytes) -> bool {
    bytes.0 == 0
}

/// The differences from a link's second end to its first; keys that are left out are as forward.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReverseConfig {
    /// Rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateConfig>,
    /// Constant part of the delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Schedule<Duration>>,
    /// Random part of the delay, from 0 to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Schedule<Duration>>,
    /// How the random part is distributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_shape: Option<JitterShape>,
    /// Whether packets may overtake each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<bool>,
    /// Probability that a packet arrives twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Schedule<Probability>>,
    /// Probability that a packet arrives damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Schedule<Probability>>,
    /// Queue discipline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueConfig>,
    /// Loss; not with a loss that both directions share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossConfig>,
    /// Whether the link is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<Schedule<bool>>,
}

/// The uniform distribution is the default, which is left out so that studies keep their hash.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_uniform(shape: &JitterShape) -> bool {
    *shape == JitterShape::Uniform
}

/// What happens to packets while a link is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenDown {
    /// The link takes packets and sends them, but they do not arrive anywhere.
    Blackhole,
    /// What is in the queue is lost, and what arrives is dropped.
    Drop,
    /// The server stands still and the queue fills.
    #[default]
    Hold,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            ends: Default::default(),
            rate: None,
            radio: None,
            mtu: None,
            overhead: Bytes(0),
            delay: Schedule::default(),
            jitter: Schedule::default(),
            jitter_shape: JitterShape::default(),
            reorder: false,
            duplicate: Schedule::default(),
            corrupt: Schedule::default(),
            queue: QueueConfig::default(),
            loss: LossConfig::default(),
            up: Schedule::Constant(true),
            down: WhenDown::default(),
            cross_traffic: Vec::new(),
            reverse: None,
        }
    }
}

impl LinkConfig {
    /// The largest IP packet that the link carries whole, if there is a limit.
    pub(crate) fn largest_packet(&self) -> Option<Bytes> {
        self.mtu.or_else(|| self.radio.as_ref()?.most_packet_bytes().map(Bytes))
    }

    /// The link with the settings of `reverse` put in place: the parameters from the second end to the first.
    pub(crate) fn reversed(&self) -> Self {
        let mut link = self.clone();
        let Some(reverse) = link.reverse.take() else { return link };
        let ReverseConfig { rate, delay, jitter, jitter_shape, reorder, duplicate, corrupt, queue, loss, up } =
            reverse;
        link.rate = rate.or(link.rate);
        link.delay = delay.unwrap_or(link.delay);
        link.jitter = jitter.unwrap_or(link.jitter);
        link.jitter_shape = jitter_shape.unwrap_or(link.jitter_shape);
        link.reorder = reorder.unwrap_or(link.reorder);
        link.duplicate = duplicate.unwrap_or(link.duplicate);
        link.corrupt = corrupt.unwrap_or(link.corrupt);
        link.queue = queue.unwrap_or(link.queue);
        link.loss = loss.unwrap_or(link.loss);
        link.up = up.unwrap_or(link.up);
        link
    }

    /// The link over satellites in low orbit as one that follows timetables, for a run of this length;
    /// [`None`] if it is another link.
    ///
    /// # Errors
    /// One sentence that names the key, what was found and what is allowed.
    pub(crate) fn of_periods(
        &self,
        name: &str,
        streams: Streams,
        length: Duration,
    ) -> Result<Option<Self>, String> {
        let Some(RadioConfig::Leo(leo)) = &self.radio else { return Ok(None) };
        self.check_periods(leo, name)?;
        let [downlink, uplink] = LeoSchedules::draw(leo, name, streams, length)?;
        let loss = |probability: Schedule<Probability>| match probability {
            Schedule::Constant(_) => None,
            Schedule::Timetable(_) => {
                Some(LossConfig::Bernoulli(BernoulliConfig { probability, ..BernoulliConfig::default() }))
            }
        };
        let mut link = self.clone();
        link.radio = None;
        link.rate = Some(downlink.rate);
        link.delay = downlink.delay;
        let reverse = link.reverse.get_or_insert_default();
        reverse.rate = Some(uplink.rate);
        reverse.delay = Some(uplink.delay);
        if [&downlink.up, &uplink.up].iter().any(|up| **up != Schedule::Constant(true)) {
            link.up = downlink.up;
            reverse.up = Some(uplink.up);
        }
        let [downlink, uplink] = [downlink.loss, uplink.loss].map(loss);
        if downlink.is_some() || uplink.is_some() {
            link.loss = downlink.unwrap_or_default();
            reverse.loss = Some(uplink.unwrap_or_default());
        }
        Ok(Some(link))
    }

    /// Checks that a link over satellites has nothing of its own that these give it.
    fn check_periods(&self, leo: &LeoConfig, name: &str) -> Result<(), String> {
        let reverse = self.reverse.as_ref();
        let given = [
            ("rate", self.rate.is_some()),
            ("reverse.rate", reverse.is_some_and(|reverse| reverse.rate.is_some())),
            ("delay", self.delay != Schedule::default()),
            ("reverse.delay", reverse.is_some_and(|reverse| reverse.delay.is_some())),
        ];
        if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(format!(
                "links.{name}.{key} is given although the link has a `leo` radio; leave it out, and set the \
                 radio's downlink or uplink"
            ));
        }
        let borders = [&leo.downlink, &leo.uplink].map(|way| [&way.begin, &way.end]);
        let borders = borders.as_flattened();
        if self.may_be_down() && borders.iter().any(|border| border.length.is_none()) {
            return Err(format!(
                "links.{name}.up is given although the radio stands still at its borders; give these a `length`, or \
                 put `up` on a link of its own"
            ));
        }
        let loses = borders.iter().any(|border| border.loss != Probability::ZERO);
        let has_losses =
            self.loss != LossConfig::None || reverse.is_some_and(|reverse| reverse.loss.is_some());
        if loses && has_losses {
            return Err(format!(
                "links.{name}.loss is given although the radio loses packets at its borders; put the loss on a \
                 link of its own"
            ));
        }
        Ok(())
    }

    /// The settings of a direction's queue, and how messages name it. They call the link `name`.
    pub(super) fn queue(&self, direction: Direction, name: &str) -> (&QueueConfig, String) {
        match (direction, &self.reverse) {
            (Direction::Reverse, Some(reverse)) => {
                (reverse.queue.as_ref().unwrap_or(&self.queue), format!("links.{name}.reverse.queue"))
            }
            _ => (&self.queue, format!("links.{name}.queue")),
        }
    }

    /// Whether either direction is down at any time.
    pub(super) fn may_be_down(&self) -> bool {
        let is_down = |up: &Schedule<bool>| up.values().any(|is_up| !is_up);
        is_down(&self.up)
            || self.reverse.as_ref().and_then(|reverse| reverse.up.as_ref()).is_some_and(is_down)
    }

    /// Whether a medium serves this direction.
    pub(super) fn has_medium(&self, direction: Direction) -> bool {
        self.radio.is_some()
            || match direction {
                Direction::Forward => self.is_queued(),
                Direction::Reverse => self.reversed().is_queued(),
            }
    }

    /// The rate in bit/s if it is one constant rate. This and the functions below are about one direction; on
    /// [`LinkConfig::reversed`], they are about the one from the second end to the first.
    pub(super) fn constant_rate(&self) -> Option<u64> {
        match &self.rate {
            Some(RateConfig::Scheduled(Schedule::Constant(rate))) => Some(rate.bits_per_sec()),
            _ => None,
        }
    }

    /// Whether a medium of its own holds its queue: one whose discipline acts packet by packet, or which
    /// packets enter in pieces.
    pub(super) fn is_queued(&self) -> bool {
        let has_own_queue = self.mtu.is_some() || self.queue.needs_departures();
        self.radio.is_none() && self.rate.is_some() && has_own_queue
    }

    /// What its server can send over time if it has this rate and is up at these times; `key` names the link
    /// in messages.
    pub(super) fn varying(
        &self,
        rate: &RateConfig,
        key: &str,
        up: &Timeline<bool>,
    ) -> Result<Varying, String> {
        let is_always_up = up.is_constant() && up.value();
        let stops = self.down != WhenDown::Blackhole && !is_always_up;
        Ok(Varying {
            rate: rate.timeline(&format!("{key}.rate"))?,
            up: if stops { up.clone() } else { Timeline::constant(true) },
            flush_when_down: stops && self.down == WhenDown::Drop,
        })
    }

    /// The sources that load it in this direction. `name` is the link's, `component` names the direction in
    /// random streams.
    pub(super) fn sources(
        &self,
        direction: Direction,
        streams: Streams,
        name: &str,
        component: &str,
    ) -> Result<Vec<Source>, String> {
        let mut sources = Vec::new();
        for (index, traffic) in self.cross_traffic.iter().enumerate() {
            let key = format!("links.{name}.cross_traffic.{index}");
            let loads = match traffic.direction() {
                CrossTrafficDirection::Both => true,
                CrossTrafficDirection::Forward => direction == Direction::Forward,
                CrossTrafficDirection::Reverse => direction == Direction::Reverse,
            };
            if !loads {
                continue;
            }
            if self.rate.is_none() {
                return Err(format!("{key} loads a link without a `rate`; give the link one"));
            }
            let is_lossy_before_queue =
                self.loss != LossConfig::None && self.loss.place() == LossPlace::Ingress;
            if is_lossy_before_queue || self.loss.is_moved_by_packets() {
                return Err(format!(
                    "{key} is on a link whose `loss` is at the ingress or moved by packets, which lazy cross traffic \
                     cannot cross; put the loss on a link of its own, or use loss at the wire with clock \"slot\""
                ));
            }
            let component = format!("{component}/cross_traffic/{index}");
            sources.push(traffic.build(streams, &component, self.constant_rate(), &key)?);
        }
        Ok(sources)
    }
}
