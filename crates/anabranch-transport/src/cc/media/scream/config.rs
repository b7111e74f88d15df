//! The settings of SCReAM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::check_rates;
use crate::time::Duration;
use crate::units::{Bytes, Rate, check_range};

/// Settings of SCReAM, with the names and values of draft-ietf-ccwg-rfc8298bis-screamv2. The parts that the
/// draft calls optional are off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ScreamConfig")]
pub struct Config {
    /// The least target (`TARGET_BITRATE_MIN`); default "150 kbit/s".
    pub min_rate: Rate,
    /// The highest target (`TARGET_BITRATE_MAX`); default "1.5 Mbit/s".
    pub max_rate: Rate,
    /// The target until there is feedback; default "150 kbit/s". From then on it follows the window.
    pub initial_rate: Rate,
    /// The least target of the queueing delay (`QDELAY_TARGET_LO`); default "60 ms". The window shrinks from
    /// half of it on.
    pub qdelay_target_lo: Duration,
    /// The highest target of the queueing delay, which only `compete` may set (`QDELAY_TARGET_HI`); default
    /// "400 ms".
    pub qdelay_target_hi: Duration,
    /// Whether the target of the queueing delay grows beside flows that fill the queue ("Competing Flows
    /// Compensation"); default false.
    pub compete: bool,
    /// The least window (`MIN_REF_WND`); default "3 kB".
    pub min_ref_wnd: Bytes,
    /// The largest packet (MSS); default "1 kB".
    pub mss: Bytes,
    /// By how much the window may exceed what is in flight (`BYTES_IN_FLIGHT_HEAD_ROOM`), from 1 to 10;
    /// default 1.5.
    pub bytes_in_flight_head_room: f64,
    /// What a loss leaves of the window (`BETA_LOSS`), from 0.1 to 1; default 0.7.
    pub beta_loss: f64,
    /// What a mark leaves of the window unless packets are ECT(1) (`BETA_ECN`), from 0.1 to 1; default 0.8.
    pub beta_ecn: f64,
    /// For how many round trips the window grows with care after a mark or a loss
    /// (`POST_CONGESTION_DELAY_RTT`), from 1 to 10000; default 100.
    pub post_congestion_delay_rtt: f64,
    /// The most that the window grows in a round trip besides one packet, as a share of it
    /// (`MUL_INCREASE_FACTOR`), from 0 to 1; default 0.02.
    pub mul_increase_factor: f64,
    /// Flows with shorter round trips get no more than one with this (`VIRTUAL_RTT`); default "25 ms".
    pub virtual_rtt: Duration,
    /// How fast the mean share of marks rises (`L4S_AVG_G_UP`), from 0.001 to 1; default 0.125. It counts
    /// where packets are ECT(1).
    pub l4s_avg_g_up: f64,
    /// How fast it falls (`L4S_AVG_G_DOWN`), from 0.001 to 1; default 0.0078125, which is 1/128.
    pub l4s_avg_g_down: f64,
    /// By how much what is in flight may exceed the window while delays vary (`REF_WND_OVERHEAD_MIN`), from 1
    /// to 10; default 1.5.
    pub ref_wnd_overhead_min: f64,
    /// The same while they do not, or without `reduce_jitter` (`REF_WND_OVERHEAD_MAX`), from 1 to 10; default
    /// 3.
    pub ref_wnd_overhead_max: f64,
    /// The pace of packets as a multiple of the target (`PACKET_PACING_HEADROOM`), from 1 to 10; default 1.5.
    pub packet_pacing_headroom: f64,
    /// By how much the pace grows as the target nears `max_rate` (`MAX_RELAXED_PACING_FACTOR`), from 1 to 10;
    /// default 4.
    pub max_relaxed_pacing_factor: f64,
    /// Whether the window reacts less while delays vary without congestion (`REDUCE_JITTER`); default false.
    pub reduce_jitter: bool,
    /// Losses below this mean share lower the window only where there is a queue (`LOSS_RATE_THRESHOLD`),
    /// from 0 to 1; default 0, so that each loss does. The draft suggests 0.01.
    pub loss_rate_threshold: f64,
    /// How much of a reaction to marks and delays remains if the target is below 0.8 of what arrives
    /// (`BACKOFF_SCALE_LOW_TARGET_RATE`), from 0 to 1; default 1. The draft suggests 0.25.
    pub backoff_scale_low_target_rate: f64,
}

impl Default for Config {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            min_rate: Rate::from_bits_per_sec(150_000),
            max_rate: Rate::from_bits_per_sec(1_500_000),
            initial_rate: Rate::from_bits_per_sec(150_000),
            qdelay_target_lo: ms(60),
            qdelay_target_hi: ms(400),
            compete: false,
            min_ref_wnd: Bytes(3_000),
            mss: Bytes(1_000),
            bytes_in_flight_head_room: 1.5,
            beta_loss: 0.7,
            beta_ecn: 0.8,
            post_congestion_delay_rtt: 100.0,
            mul_increase_factor: 0.02,
            virtual_rtt: ms(25),
            l4s_avg_g_up: 1.0 / 8.0,
            l4s_avg_g_down: 1.0 / 128.0,
            ref_wnd_overhead_min: 1.5,
            ref_wnd_overhead_max: 3.0,
            packet_pacing_headroom: 1.5,
            max_relaxed_pacing_factor: 4.0,
            reduce_jitter: false,
            loss_rate_threshold: 0.0,
            backoff_scale_low_target_rate: 1.0,
        }
    }
}

impl Config {
    pub(in super::super) fn check(&self) -> Result<(), String> {
        for (key, value, low, high) in [
            ("bytes_in_flight_head_room", self.bytes_in_flight_head_room, 1.0, 10.0),
            ("beta_loss", self.beta_loss, 0.1, 1.0),
            ("beta_ecn", self.beta_ecn, 0.1, 1.0),
            ("post_congestion_delay_rtt", self.post_congestion_delay_rtt, 1.0, 10_000.0),
            ("mul_increase_factor", self.mul_increase_factor, 0.0, 1.0),
            ("l4s_avg_g_up", self.l4s_avg_g_up, 0.001, 1.0),
            ("l4s_avg_g_down", self.l4s_avg_g_down, 0.001, 1.0),
            ("ref_wnd_overhead_min", self.ref_wnd_overhead_min, 1.0, 10.0),
            ("ref_wnd_overhead_max", self.ref_wnd_overhead_max, 1.0, 10.0),
            ("packet_pacing_headroom", self.packet_pacing_headroom, 1.0, 10.0),
            ("max_relaxed_pacing_factor", self.max_relaxed_pacing_factor, 1.0, 10.0),
            ("loss_rate_threshold", self.loss_rate_threshold, 0.0, 1.0),
            ("backoff_scale_low_target_rate", self.backoff_scale_low_target_rate, 0.0, 1.0),
        ] {
            check_range(key, value, low, high)?;
        }
        let times = Duration::from_millis(1)..=Duration::from_secs(10);
        for (key, value) in [
            ("qdelay_target_lo", self.qdelay_target_lo),
            ("qdelay_target_hi", self.qdelay_target_hi),
            ("virtual_rtt", self.virtual_rtt),
        ] {
            if !times.contains(&value) {
                return Err(format!("{key} = \"{value}\" is out of range; it must be from 1 ms to 10 s"));
            }
        }
        for (key, value) in [("min_ref_wnd", self.min_ref_wnd), ("mss", self.mss)] {
            if !(100..=1_000_000).contains(&value.0) {
                return Err(format!("{key} = \"{value}\" is out of range; it must be from 100 B to 1 MB"));
            }
        }
        if self.qdelay_target_lo > self.qdelay_target_hi {
            let (lo, hi) = (self.qdelay_target_lo, self.qdelay_target_hi);
            return Err(format!("qdelay_target_lo = \"{lo}\" is above qdelay_target_hi = \"{hi}\""));
        }
        if self.ref_wnd_overhead_min > self.ref_wnd_overhead_max {
            let (min, max) = (self.ref_wnd_overhead_min, self.ref_wnd_overhead_max);
            return Err(format!("ref_wnd_overhead_min = {min} is above ref_wnd_overhead_max = {max}"));
        }
        check_rates(self.min_rate, self.initial_rate, self.max_rate)
    }
}
