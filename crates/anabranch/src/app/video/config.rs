//! The settings of video.

use anabranch_transport::endpoint::Service;
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{Direction, ReliabilityConfig, Start};
use crate::schedule::Schedule;

/// The most frames in one direction: about 6 days at 30 a second.
const MAX_FRAMES: u64 = 1 << 24;

/// Video whose source follows RFC 8593 section 5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VideoConfig {
    /// Which end sends; default `"a_to_b"`.
    pub direction: Direction,
    /// When the first frame is made, if the connection is open by then: a time, or a range to draw it from;
    /// default "0 s".
    pub start: Start,
    /// How long frames are made; default "60 s".
    pub duration: Duration,
    /// Whether frames are made meanwhile: a timetable of true and false pauses the source, and the first
    /// frame after a pause is a key frame; default true.
    #[serde(skip_serializing_if = "is_always")]
    pub sending: Schedule<bool>,
    /// How long the run waits for the last frames; default "1 s".
    pub grace: Duration,
    /// The mean time between frames; default "33 ms".
    pub frame_interval: Duration,
    /// The rate until the transport says another one; default "1 Mbit/s". Only "rtp" says any.
    pub rate: Rate,
    /// The least rate that the encoder makes; default "150 kbit/s".
    pub min_rate: Rate,
    /// The highest rate that the encoder makes; default "1.5 Mbit/s".
    pub max_rate: Rate,
    /// The time after a change of the rate during which the encoder makes no other one; default "200 ms".
    pub reaction: Duration,
    /// By how much the sizes of frames vary: the scale of a Laplace distribution, as a share of the mean
    /// size, from 0 to 1; default 0.15.
    pub size_deviation: f64,
    /// By how much the times between frames vary: the scale of a Laplace distribution, as a share of
    /// `frame_interval`, from 0 to 1; default 0.15.
    pub interval_deviation: f64,
    /// The size of a key frame in mean frames, from 1 to 50; default 3.24, which are RFC 8593's 13.5 kB at
    /// its reference rate.
    pub key_frame_ratio: f64,
    /// Over how many frames a key frame is made up for by smaller ones, itself included, from 1 to 300;
    /// default 8.
    pub transient_frames: u32,
    /// A change of the rate by this share or more begins with a key frame, from 0 to 100; default 0.5.
    pub large_change: f64,
    /// The time between key frames that nobody has asked for; by default there are none but the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_frame_interval: Option<Duration>,
    /// The largest payload of a packet, from 100 B to 65000 B; default "1200 B".
    pub packet_size: Bytes,
    /// How long the receiver waits for a frame that is missing before it asks for a key frame; default "500
    /// ms".
    pub key_frame_after: Duration,
    /// The delay from making a frame to showing it beyond which it is late; default "400 ms", the limit of
    /// ITU-T G.114 for conversations.
    pub deadline: Duration,
    /// How hard the transport tries to deliver each packet (SCTP); default "reliable".
    pub reliability: ReliabilityConfig,
}

/// A source without pauses is the default, which is left out so that studies keep their hash.
fn is_always(sending: &Schedule<bool>) -> bool {
    *sending == Schedule::Constant(true)
}

impl Default for VideoConfig {
    fn default() -> Self {
        Self {
            direction: Direction::AToB,
            start: Start::At(Duration::ZERO),
            duration: Duration::from_secs(60),
            sending: Schedule::Constant(true),
            grace: Duration::from_secs(1),
            frame_interval: Duration::from_millis(33),
            rate: Rate::from_bits_per_sec(1_000_000),
            min_rate: Rate::from_bits_per_sec(150_000),
            max_rate: Rate::from_bits_per_sec(1_500_000),
            reaction: Duration::from_millis(200),
            size_deviation: 0.15,
            interval_deviation: 0.15,
            key_frame_ratio: 3.24,
            transient_frames: 8,
            large_change: 0.5,
            key_frame_interval: None,
            packet_size: Bytes(1_200),
            key_frame_after: Duration::from_millis(500),
            deadline: Duration::from_millis(400),
            reliability: ReliabilityConfig::Reliable,
        }
    }
}

impl VideoConfig {
    pub(super) fn check(&self, service: Service) -> Result<(), String> {
        let range = |key: &str, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("{key} = {value} is out of range; it must be from {low} to {high}"))
            }
        };
        range("size_deviation", self.size_deviation, 0.0, 1.0)?;
        range("interval_deviation", self.interval_deviation, 0.0, 1.0)?;
        range("key_frame_ratio", self.key_frame_ratio, 1.0, 50.0)?;
        range("transient_frames", self.transient_frames.into(), 1.0, 300.0)?;
        range("large_change", self.large_change, 0.0, 100.0)?;
        let times = Duration::from_millis(1)..=Duration::from_secs(10);
        for (key, value) in [
            ("frame_interval", self.frame_interval),
            ("reaction", self.reaction),
            ("key_frame_after", self.key_frame_after),
            ("deadline", self.deadline),
        ] {
            if !times.contains(&value) {
                return Err(format!("{key} = \"{value}\" is out of range; it must be from 1 ms to 10 s"));
            }
        }
        if let Some(interval) = self.key_frame_interval.filter(|interval| *interval < self.frame_interval) {
            let frame = self.frame_interval;
            return Err(format!("key_frame_interval = \"{interval}\" is below frame_interval = \"{frame}\""));
        }
        let frames = self.duration.as_nanos() / self.frame_interval.as_nanos();
        if !(1..=MAX_FRAMES).contains(&frames) {
            let (duration, interval) = (self.duration, self.frame_interval);
            return Err(format!(
                "duration = \"{duration}\" is {frames} frames of {interval}, allowed are 1 to {MAX_FRAMES}"
            ));
        }
        let (min, rate, max) = (self.min_rate, self.rate, self.max_rate);
        if min > max {
            return Err(format!("min_rate = \"{min}\" is above max_rate = \"{max}\""));
        }
        if !(min..=max).contains(&rate) {
            return Err(format!(
                "rate = \"{rate}\" is not from min_rate = \"{min}\" to max_rate = \"{max}\""
            ));
        }
        let longest = match service {
            // A longer one would be delivered in parts.
            Service::Messages { longest, whole, .. } => longest.min(whole),
            Service::Streams { longest_datagram } => longest_datagram.into(),
            Service::Datagrams | Service::Stream => u64::MAX,
        };
        let longest = longest.min(65_000);
        if !(100..=longest).contains(&self.packet_size.0) {
            return Err(format!("packet_size = \"{}\" is not from 100 B to {longest} B", self.packet_size));
        }
        Ok(())
    }
}
