//! Congestion control of media: from reports about single packets to a rate for an encoder.
//!
//! A control is told what is sent and what feedback says of it, and says how fast the encoder and the pacer
//! may be. Packets are in the order in which they were sent; sizes are those of IP packets.

pub mod cbr;
mod controller;
pub mod gcc;
mod loss_interval;
pub mod nada;
pub mod plugin;
#[cfg(test)]
mod properties;
pub mod scream;

use std::fmt;

use crate::flow::Ecn;
use crate::time::{Duration, Time};
use crate::units::Rate;

pub use controller::{Config, Controller};

/// A congestion control of media.
pub trait MediaControl: fmt::Debug {
    /// A packet of so many bytes leaves.
    fn on_sent(&mut self, _now: Time, _size: u32) {}

    /// The encoder has handed over a frame.
    fn on_frame(&mut self, _frame: &Frame) {}

    /// Takes the reports of one feedback message.
    fn on_feedback(&mut self, feedback: &Feedback<'_>);

    /// When [`on_timeout`](Self::on_timeout) is due; [`Time::NEVER`] if it is not.
    fn timeout(&self) -> Time {
        Time::NEVER
    }

    /// Time has passed. It may be called earlier than [`timeout`](Self::timeout) says; after the call that
    /// lies later.
    fn on_timeout(&mut self, _now: Time) {}

    /// How fast encoder and pacer may be from now on.
    fn limits(&self) -> Limits;
}

/// A frame of the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When it was handed over.
    pub now: Time,
    /// Its bytes, without headers.
    pub bytes: u64,
    /// For how long the first packet of media has waited for the pacer.
    pub waiting: Duration,
}

/// What a feedback message says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback<'a> {
    /// When it came.
    pub now: Time,
    /// The round trip of the last packet that it reports to have arrived, without the receiver's delay.
    pub rtt: Duration,
    /// Packets whose fate is news.
    pub packets: &'a [PacketReport],
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketReport {
    /// When it was sent.
    pub sent: Time,
    /// The size of the IP packet in bytes.
    pub size: u32,
    /// When it arrived by the receiver's clock, and its ECN field then; [`None`] if it is lost.
    pub arrival: Option<(Time, Ecn)>,
}

/// How fast encoder and pacer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What the encoder is to make.
    pub target: Rate,
    /// How fast packets may leave.
    pub pacing: Rate,
    /// How many bytes may leave until the next call of the control; [`u64::MAX`] without a window.
    pub window: u64,
    /// Whether packets of media that were sent last are sent again where none waits, so that packets leave at
    /// the pace: a probe.
    pub pads: bool,
}

impl Limits {
    /// Packets leave at one and a half times the target, so that a frame is sent before the next one is made.
    pub fn paced(target: Rate) -> Self {
        let pacing = Rate::from_bits_per_sec(target.bits_per_sec().saturating_mul(3) / 2 + 1);
        Self { target, pacing, window: u64::MAX, pads: false }
    }
}

/// From one time to another in ms, negative if that is earlier: the clocks of the ends need not agree.
pub(crate) fn ms_between(earlier: Time, later: Time) -> f64 {
    (later.as_nanos() as f64 - earlier.as_nanos() as f64) / 1e6
}

/// Gives one sentence if the rate at the start is not between the others.
fn check_rates(min: Rate, initial: Rate, max: Rate) -> Result<(), String> {
    if min > max {
        return Err(format!("min_rate = \"{min}\" is above max_rate = \"{max}\""));
    }
    if (min..=max).contains(&initial) {
        Ok(())
    } else {
        Err(format!("initial_rate = \"{initial}\" is not from \"{min}\" to \"{max}\""))
    }
}
