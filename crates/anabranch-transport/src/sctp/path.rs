//! The endpoint's state of a path besides what policies see ([`PathStatus`](crate::path::PathStatus)).

use super::parameters::Parameters;
use crate::cc::sctp::InitialWindow;
use crate::cc::{self, Controller, Setup};
use crate::flow::IpVersion;
use crate::observed::Repairs;
use crate::recovery::rtt::Rtt;
use crate::rng::Rng;
use crate::time::{Duration, Time};
use crate::wire::sctp::COMMON_HEADER_BYTES;

/// One path.
#[derive(Debug)]
pub(super) struct Path {
    /// Largest IP packet in bytes.
    pub(super) mtu: u32,
    pub(super) rtt: Rtt,
    pub(super) cc: Controller,
    /// What the congestion control of this path calls a segment, in bytes.
    pub(super) segment: u32,
    /// When T3-rtx expires; [`Time::NEVER`] when it is stopped.
    pub(super) t3: Time,
    /// The chunk whose round-trip time is being measured.
    pub(super) rtt_probe: Option<u32>,
    /// When data was last sent here; [`Time::NEVER`] before the first.
    pub(super) last_data: Time,
    pub(super) heartbeat: PathHeartbeat,
    /// The effects of the SACK being processed; empty between SACKs.
    pub(super) acked: Acked,
    /// The exit point of fast recovery (RFC 9260 section 7.2.4).
    pub(super) fast_recovery_exit: Option<u32>,
    /// The last TSN that was outstanding at the latest expiry of T3-rtx.
    pub(super) timeout_exit: Option<u32>,
    /// The SACK being processed reports chunks of this path missing up to this TSN, exclusive.
    pub(super) missing_below: Option<u32>,
    /// Whether missing reports in the SACK being processed have shown a loss.
    pub(super) reported_missing: bool,
    pub(super) first_inactive: Option<Time>,
    pub(super) first_potentially_failed: Option<Time>,
    pub(super) repairs: Repairs,
}

/// Heartbeats of one path.
#[derive(Debug)]
pub(super) struct PathHeartbeat {
    /// When the next heartbeat is due; [`Time::NEVER`] with the one-timer rule.
    pub(super) timer: Time,
    /// How long the timer that is due then runs.
    pub(super) length: Duration,
    /// When T3-rtx was to expire as that timer was started.
    pub(super) t3_before: Time,
    /// When the current period began.
    pub(super) period_start: Time,
    /// When the heartbeat in flight counts as unanswered.
    pub(super) timeout: Time,
    /// Whether a heartbeat is unanswered so far (Linux: `hb_sent`).
    pub(super) unanswered: bool,
    /// When data or a heartbeat was last sent.
    pub(super) idle_since: Time,
    pub(super) nonce: u32,
}

/// What the heartbeats of all paths share.
#[derive(Clone, Debug)]
pub(super) struct HeartbeatScheduler {
    pub(super) rng: Rng,
    /// The one timer of rule [`HeartbeatRule::OneTimer`](super::config::HeartbeatRule).
    pub(super) timer: Time,
    pub(super) started_at: Time,
}

impl HeartbeatScheduler {
    pub(super) const fn new(rng: Rng) -> Self {
        Self { rng, timer: Time::NEVER, started_at: Time::ZERO }
    }
}

/// The chunks that one SACK acknowledges on one path.
#[expect(clippy::struct_excessive_bools, reason = "each says something else of the SACK")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acked {
    /// Bytes that are acknowledged for the first time, as windows count them.
    pub(super) bytes: u32,
    /// Bytes that had been acknowledged and no longer are.
    pub(super) reneged_bytes: u32,
    /// Whether it clears the error counter.
    pub(super) clears_errors: bool,
    /// Whether some of the acknowledged data was sent on this path alone.
    pub(super) is_sure: bool,
    /// Whether the earliest outstanding chunk is among them.
    pub(super) earliest: bool,
    /// With load sharing: whether the path's pseudo-cumulative TSN advances.
    pub(super) pseudo_cumulative: bool,
    /// When the chunk of the round-trip measurement was sent, if it is among them.
    pub(super) probe_sent_at: Option<Time>,
}

impl Path {
    pub(super) fn new(parameters: &Parameters, mtu: u32, ip: IpVersion, nonce: u32) -> Self {
        let setup = Self::control_setup(parameters, mtu, ip, nonce);
        Self {
            mtu,
            rtt: Rtt::new(parameters.rto_rule, parameters.rto),
            cc: parameters.cc.build(&setup),
            segment: setup.mss,
            t3: Time::NEVER,
            rtt_probe: None,
            last_data: Time::NEVER,
            heartbeat: PathHeartbeat {
                timer: Time::NEVER,
                length: Duration::ZERO,
                t3_before: Time::NEVER,
                period_start: Time::ZERO,
                timeout: Time::NEVER,
                unanswered: false,
                idle_since: Time::ZERO,
                nonce,
            },
            acked: Acked::default(),
            fast_recovery_exit: None,
            timeout_exit: None,
            missing_below: None,
            reported_missing: false,
            first_inactive: None,
            first_potentially_failed: None,
            repairs: Repairs::default(),
        }
    }

    /// The set-up of a path's congestion control, which has the path's nonce for a seed.
    pub(super) fn control_setup(parameters: &Parameters, mtu: u32, ip: IpVersion, nonce: u32) -> Setup {
        let mss = parameters.accounting.segment_bytes(mtu, ip.header_bytes() + COMMON_HEADER_BYTES);
        let initial_window = match &parameters.cc {
            cc::Config::Sctp(config) => config.initial_window.unwrap_or_default(),
            _ => InitialWindow::default(),
        };
        let initial_cwnd = initial_window.bytes(mss, ip);
        Setup {
            mss,
            initial_cwnd,
            rules: parameters.rules,
            seed: nonce.into(),
            is_paced: false,
            headers: mtu.saturating_sub(mss),
        }
    }
}
