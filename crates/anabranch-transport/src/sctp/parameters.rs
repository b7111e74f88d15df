//! Concrete values for every setting: profile and overrides resolved and checked.

use super::config::{
    Buffer, Config, HeartbeatPeriod, HeartbeatRule, MissingReportsPer, Profile, RtoBackoff, RtoRule,
    RttSampling, SackPath,
};
use super::load_sharing::Config as LoadSharingConfig;
use super::procedures::Procedures;
use super::stream_scheduler;
use crate::cc::sctp::{IdleRule, InitialWindow};
use crate::path::failover::{self, Dormant, RetransmitOn, TakeOverBy};
use crate::recovery::linux_rtt::LinuxRtt;
use crate::recovery::peak_hopper::PeakHopper;
use crate::recovery::rtt::{Limits, Rule, Weights};
use crate::time::Duration;
use crate::timer::Clock;
use crate::units::{Limit, check_range};
use crate::{cc, path};

/// An SCTP endpoint's settings, all of them set and possible. Made by [`Config::resolve`].
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    pub(super) rto: Limits,
    pub(super) rto_rule: Rule,
    pub(super) valid_cookie_life: Duration,
    pub(super) association_max_retrans: Option<u32>,
    pub(super) path_max_retrans: u32,
    pub(super) pf_max_retrans: Option<u32>,
    pub(super) max_init_retransmits: u32,
    pub(super) max_init_timeout: Option<Duration>,
    pub(super) heartbeat: HeartbeatParameters,
    pub(super) path_verification: bool,
    pub(super) max_burst: Option<u32>,
    pub(super) sack_delay: Duration,
    pub(super) sack_frequency: u32,
    pub(super) sack_forward_tsn: bool,
    pub(super) sack_path: SackPath,
    pub(super) missing_reports: u32,
    pub(super) missing_reports_per: MissingReportsPer,
    pub(super) samples_every_sack: bool,
    pub(super) primary_path: u8,
    pub(super) send_buffer: u64,
    pub(super) receive_buffer: u32,
    pub(super) streams: u16,
    pub(super) max_inbound_streams: u16,
    pub(super) stream_scheduler: stream_scheduler::Config,
    pub(super) interleaving: bool,
    pub(super) nr_sack: bool,
    pub(super) bundle_max: u32,
    pub(super) nagle: bool,
    pub(super) partial_reliability: bool,
    pub(super) send_on_timeout: bool,
    pub(super) credit_abandoned: bool,
    pub(super) deliver_overtaken: bool,
    /// Whether an acknowledgement of data that was sent on several paths leaves a path suspect (RFC 7829
    /// section 3.2).
    pub(super) asks_for_sure_acks: bool,
    /// Whether a path that is no longer potentially failed begins with a window of one segment.
    pub(super) restarts_after_suspicion: bool,
    pub(super) procedures: Procedures,
    /// The rules that congestion control follows.
    pub(super) rules: cc::Rules,
    pub(super) accounting: Accounting,
    pub(super) cc: cc::Config,
    pub(super) policy: path::Config,
    pub(super) failover: failover::Settings,
    pub(super) load_sharing: Option<LoadSharingConfig>,
}

/// What congestion windows count. The receiver's window counts user data in all profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accounting {
    pub(super) segment: Segment,
    pub(super) flight: Flight,
}

/// What the rules for congestion windows call a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// The path MTU: RFC 2960 and RFC 4960 section 7.2, Linux (`pathmtu` in net/sctp/transport.c), FreeBSD
    /// (`net->mtu`; known deviation: it takes the common header off for the initial window only, 36 bytes).
    Mtu,
    /// The largest DATA chunk with its header that fits into a packet: RFC 9260's PMDCS, ns-2's
    /// `uiMaxDataSize`.
    Pmdcs,
}

/// What counts as outstanding on a path, and as acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    /// DATA chunks with header and padding: RFC 9260 section 7.2, ns-2 (`sHdr.usLength` in `GenOneDataChunk`)
    /// and FreeBSD (`book_size`; known deviation: these two leave the padding out). RFC 2960 and RFC 4960
    /// speak of DATA chunks, too.
    Chunks,
    /// The user data in them: Linux (`sctp_data_size`).
    UserData,
}

impl Accounting {
    const fn of(profile: Profile) -> Self {
        let (segment, flight) = match profile {
            Profile::FreeBsd10 | Profile::Rfc2960 | Profile::Rfc4960 => (Segment::Mtu, Flight::Chunks),
            Profile::Linux => (Segment::Mtu, Flight::UserData),
            Profile::Ns2 | Profile::Rfc9260 => (Segment::Pmdcs, Flight::Chunks),
        };
        Self { segment, flight }
    }

    /// Bytes of a segment.
    pub(super) const fn segment_bytes(self, mtu: u32, headers: u32) -> u32 {
        match self.segment {
            Segment::Mtu => mtu,
            Segment::Pmdcs => mtu - headers,
        }
    }

    /// The bytes of a window taken by a chunk with `length` bytes of user data and `wire` bytes on the wire.
    #[inline(always)]
    pub(super) const fn chunk_bytes(self, length: u32, wire: u32) -> u32 {
        match self.flight {
            Flight::Chunks => wire,
            Flight::UserData => length,
        }
    }
}

/// The times and rules of heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeartbeatParameters {
    pub(super) enabled: bool,
    pub(super) interval: Duration,
    pub(super) max_burst: u32,
    pub(super) rule: HeartbeatRule,
    pub(super) period: HeartbeatPeriod,
    pub(super) after_timeout: bool,
    pub(super) after_failure: bool,
}

impl Config {
    /// Resolves every setting to a value.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub fn resolve(&self) -> Result<Parameters, String> {
        let profile = self.profile;
        let linux = profile == Profile::Linux;
        let ns2 = profile == Profile::Ns2;
        let freebsd = profile == Profile::FreeBsd10;
        let old = matches!(profile, Profile::Rfc2960 | Profile::Ns2);
        self.check(linux)?;
        let receive_buffer = self.receive_buffer();
        let cc = self.cc.clone().unwrap_or_default();
        let cc = congestion_control(cc, cc_defaults(profile, receive_buffer, self.load_sharing.is_some()))?;
        Ok(Parameters {
            rto: self.rto(),
            rto_rule: self.rto_rule(),
            valid_cookie_life: self.valid_cookie_life.unwrap_or(Duration::from_secs(60)),
            // The study: Association.Max.Retrans must not end the call.
            association_max_retrans: self
                .association_max_retrans
                .unwrap_or(if ns2 { Limit::Off } else { Limit::At(10) })
                .count(),
            path_max_retrans: self.path_max_retrans.unwrap_or(5),
            // Linux: net.sctp.pf_retrans 0, pf_enable 1.
            pf_max_retrans: self
                .pf_max_retrans
                .unwrap_or(if linux { Limit::At(0) } else { Limit::Off })
                .count(),
            max_init_retransmits: self.max_init_retransmits.unwrap_or(8),
            max_init_timeout: self.max_init_timeout,
            heartbeat: HeartbeatParameters {
                enabled: self.hb_enabled.unwrap_or(true),
                interval: self.hb_interval.unwrap_or(Duration::from_secs(30)),
                // FreeBSD: net.inet.sctp.hb_max_burst.
                max_burst: self.hb_max_burst.unwrap_or(if freebsd { 4 } else { 1 }),
                rule: self.hb_rule.unwrap_or(match profile {
                    Profile::Linux => HeartbeatRule::Linux,
                    Profile::Ns2 => HeartbeatRule::OneTimer,
                    _ => HeartbeatRule::PerPath,
                }),
                period: self.hb_period.unwrap_or_default(),
                after_timeout: self.hb_after_timeout.unwrap_or(ns2),
                after_failure: self.hb_after_failure.unwrap_or(ns2),
            },
            path_verification: self.path_verification.unwrap_or(!old),
            max_burst: self.max_burst.unwrap_or(if ns2 { Limit::Off } else { Limit::At(4) }).count(),
            sack_delay: self.sack_delay.unwrap_or(Duration::from_millis(if ns2 { 0 } else { 200 })),
            sack_frequency: self.sack_frequency.unwrap_or(2),
            sack_forward_tsn: self.sack_forward_tsn.unwrap_or(!ns2),
            sack_path: self.sack_path.unwrap_or(if linux {
                SackPath::SourceUnlessFailed
            } else {
                SackPath::Source
            }),
            missing_reports: self.missing_reports.unwrap_or(if profile == Profile::Rfc2960 { 4 } else { 3 }),
            missing_reports_per: self.missing_reports_per.unwrap_or(
                if freebsd || self.load_sharing.is_some() {
                    // `sctp_strike_gap_ack_chunks`.
                    MissingReportsPer::Path
                } else {
                    MissingReportsPer::Association
                },
            ),
            samples_every_sack: self.rtt_sampling == Some(RttSampling::Sack),
            primary_path: self.primary_path.unwrap_or(0),
            send_buffer: match self.send_buffer {
                Some(Buffer::At(size)) => size.0,
                Some(Buffer::Off) => u64::MAX,
                None if ns2 => u64::MAX,
                // net.inet.sctp.sendspace.
                None if freebsd => 233_016,
                // Linux: net.core.wmem_default.
                None => 212_992,
            },
            receive_buffer,
            streams: self.streams.unwrap_or(10),
            max_inbound_streams: self.max_inbound_streams.or(self.streams).unwrap_or(10),
            stream_scheduler: self.stream_scheduler.clone().unwrap_or_default(),
            interleaving: self.interleaving.unwrap_or(false),
            nr_sack: self.nr_sack.unwrap_or(false),
            bundle_max: match (self.bundling.unwrap_or(true), self.bundle_max) {
                (false, _) => 1,
                (true, Some(limit)) => limit.count().unwrap_or(u32::MAX),
                (true, None) => {
                    if ns2 {
                        8
                    } else {
                        u32::MAX
                    }
                }
            },
            nagle: self.nagle.unwrap_or(false),
            partial_reliability: self.partial_reliability.unwrap_or(true),
            send_on_timeout: self.send_on_timeout.unwrap_or(!ns2),
            credit_abandoned: self.credit_abandoned.unwrap_or(ns2),
            deliver_overtaken: self.deliver_overtaken.unwrap_or(ns2),
            asks_for_sure_acks: !linux && self.pf_max_retrans.and_then(Limit::count).is_some(),
            // `sctp_cwnd_update_exit_pf_common`, and the paths of CMT-PF in ns-2. The drafts of RFC 7829 had
            // this rule; the RFC and Linux have dropped it.
            restarts_after_suspicion: freebsd || ns2,
            procedures: self.procedures.unwrap_or_default().resolve(column(profile)),
            rules: if linux { cc::Rules::Linux6 } else { cc::Rules::Rfc },
            accounting: Accounting::of(profile),
            cc,
            policy: self.policy.clone().unwrap_or_default(),
            load_sharing: self.load_sharing.clone(),
            failover: failover_defaults(profile, self.load_sharing.is_some()),
        })
    }

    fn receive_buffer(&self) -> u32 {
        let usual = match self.profile {
            // net.inet.sctp.recvspace.
            Profile::FreeBsd10 => 233_016,
            // ns-2: initialRwnd_ 65536.
            Profile::Ns2 => 65_536,
            // Linux: half of net.core.rmem_default is advertised.
            _ => 106_496,
        };
        self.receive_buffer.map_or(usual, |size| size.0 as u32)
    }

    fn rto(&self) -> Limits {
        Limits {
            // RFC 9260 section 16: 1 s; RFC 4960 and RFC 2960: 3 s.
            initial: self.rto_initial.unwrap_or(Duration::from_secs(if self.profile == Profile::Rfc9260 {
                1
            } else {
                3
            })),
            min: self.rto_min.unwrap_or(Duration::from_secs(1)),
            max: self.rto_max.unwrap_or(Duration::from_secs(60)),
            most_backed_off: match self.rto_backoff.unwrap_or_default() {
                RtoBackoff::Exponential => u64::MAX,
                RtoBackoff::None => 1,
            },
            clock: Clock::new(
                self.clock_granularity
                    .unwrap_or(Duration::from_millis(u64::from(self.profile == Profile::Linux))),
            ),
            ..Limits::default()
        }
    }

    fn rto_rule(&self) -> Rule {
        let weights = Weights {
            alpha: per_65536(self.rto_alpha.unwrap_or(0.125)),
            beta: per_65536(self.rto_beta.unwrap_or(0.25)),
        };
        match self.rto_rule.unwrap_or_default() {
            RtoRule::LinuxTcp => Rule::Linux(LinuxRtt::default()),
            RtoRule::PeakHopper => Rule::PeakHopper(weights, PeakHopper::default()),
            RtoRule::Rfc => Rule::Rfc9260(weights),
        }
    }

    fn check(&self, linux: bool) -> Result<(), String> {
        let min = self.rto_min.unwrap_or(Duration::from_secs(1));
        let max = self.rto_max.unwrap_or(Duration::from_secs(60));
        if min < Duration::from_millis(1) {
            return Err(format!("rto_min = {min} is too small; it must be at least 1 ms"));
        }
        if min > max {
            return Err(format!("rto_min = {min} is above rto_max = {max}; it must be at most rto_max"));
        }
        if let Some(initial) = self.rto_initial.filter(|initial| *initial < Duration::from_millis(1)) {
            return Err(format!("rto_initial = {initial} is too small; it must be at least 1 ms"));
        }
        for (key, value) in [("rto_alpha", self.rto_alpha), ("rto_beta", self.rto_beta)] {
            if let Some(value) = value {
                check_range(key, value, 0.0, 1.0)?;
            }
        }
        if let Some(delay) = self.sack_delay.filter(|delay| *delay > Duration::from_millis(500)) {
            // RFC 9260 section 6.2: MUST NOT be delayed by more than 500 ms.
            return Err(format!("sack_delay = {delay} is too long; it must be at most 500 ms"));
        }
        let counts = [
            ("sack_frequency", self.sack_frequency),
            ("missing_reports", self.missing_reports),
            ("hb_max_burst", self.hb_max_burst),
            ("streams", self.streams.map(u32::from)),
            ("max_inbound_streams", self.max_inbound_streams.map(u32::from)),
            ("bundle_max", self.bundle_max.and_then(Limit::count)),
            ("max_burst", self.max_burst.and_then(Limit::count)),
        ];
        for (key, value) in counts {
            if value == Some(0) {
                return Err(format!("{key} = 0 is too small; it must be at least 1"));
            }
        }
        if linux && self.path_max_retrans == Some(0) {
            return Err("path_max_retrans = 0 is too small; with profile linux it must be at least 1".into());
        }
        if let Some(size) = self.receive_buffer.filter(|size| !(1_500..=1 << 30).contains(&size.0)) {
            // RFC 9260 section 5.1: the window must be at least 1500 bytes.
            return Err(format!(
                "receive_buffer = {size} is out of range; it must be from 1500 B to 1073741824 B"
            ));
        }
        if let Some(config) = &self.cc {
            config.check().map_err(|error| format!("cc.{error}"))?;
        }
        if let Some(scheduler) = &self.stream_scheduler {
            let streams = self.streams.unwrap_or(10);
            scheduler.check(streams).map_err(|error| format!("stream_scheduler.{error}"))?;
        }
        let limits = path::ErrorLimits {
            pf_max_retrans: self.pf_max_retrans.map_or(linux.then_some(0), Limit::count),
            path_max_retrans: self.path_max_retrans.unwrap_or(5),
        };
        if self.load_sharing.is_some() && matches!(self.policy, Some(path::Config::ThroughputCheckpoint(_))) {
            return Err(
                "policy.kind = \"throughput_checkpoint\" probes a path that carries no data, and with \
                        load_sharing all do; use another kind, or no load_sharing"
                    .into(),
            );
        }
        match &self.policy {
            Some(config) => config.check(limits).map_err(|error| format!("policy.{error}")),
            None => Ok(()),
        }
    }
}

impl Parameters {
    /// Whether an association with a path per MTU (bytes, IP header included) can have these settings.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub fn check_paths(&self, mtus: &[u32]) -> Result<(), String> {
        if mtus.is_empty() || mtus.len() > 255 {
            return Err(format!("paths = {} is out of range; there must be from 1 to 255", mtus.len()));
        }
        if usize::from(self.primary_path) >= mtus.len() {
            return Err(format!(
                "primary_path = {} is no path of this flow; it must be from 0 to {}",
                self.primary_path,
                mtus.len() - 1
            ));
        }
        if let Some(sharing) = &self.load_sharing {
            let checked = sharing.scheduler.check(mtus.len());
            checked.map_err(|error| format!("load_sharing.scheduler.{error}"))?;
        }
        // RFC 9260 section 6.9 leaves it open; 576 bytes is what every IPv4 host takes (RFC 791).
        match mtus.iter().find(|&&mtu| !(576..=65_535).contains(&mtu)) {
            Some(mtu) => Err(format!("mtu = {mtu} is out of range; it must be from 576 to 65535 bytes")),
            None => Ok(()),
        }
    }
}

fn congestion_control(config: cc::Config, defaults: cc::sctp::Config) -> Result<cc::Config, String> {
    match config {
        cc::Config::Sctp(config) => Ok(cc::Config::Sctp(config.or(defaults))),
        class @ cc::Config::Python(_) => Ok(class),
        other => {
            let kind = other.kind();
            Err(format!("cc.kind = \"{kind}\" is a control of TCP; with SCTP it must be \"sctp\""))
        }
    }
}

/// The column of a profile in the table of procedures.
const fn column(profile: Profile) -> usize {
    match profile {
        Profile::Linux => 1,
        Profile::FreeBsd10 => 2,
        _ => 0,
    }
}

/// `receive_buffer` is that of this end and, with the same settings, of the peer.
fn cc_defaults(profile: Profile, receive_buffer: u32, shares_load: bool) -> cc::sctp::Config {
    let old = matches!(profile, Profile::Rfc2960 | Profile::Ns2);
    cc::sctp::Config {
        initial_window: Some(match profile {
            // net.inet.sctp.initial_cwnd.
            Profile::FreeBsd10 => InitialWindow::Segments(3),
            // `sctp_assoc_add_peer`.
            Profile::Linux | Profile::Rfc4960 => InitialWindow::Rfc4960,
            Profile::Ns2 | Profile::Rfc2960 => InitialWindow::Rfc2960,
            Profile::Rfc9260 => InitialWindow::Rfc9260,
        }),
        initial_ssthresh: match profile {
            // `sctp_set_initial_cc_param`: the peer's window.
            Profile::FreeBsd10 => Some(receive_buffer),
            // initialSsthresh_ 65536.
            Profile::Ns2 => Some(65_536),
            _ => None,
        },
        // net.inet.sctp.abc_l_var.
        slow_start_limit: Some(if profile == Profile::FreeBsd10 { 2 } else { 1 }),
        ssthresh_floor: Some(if old { 2 } else { 4 }),
        // FreeBSD has none.
        idle_decay: Some(profile != Profile::FreeBsd10),
        idle_rule: Some(match profile {
            Profile::Linux => IdleRule::Linux,
            // ns-2: `CwndDegradeTimerExpiration`.
            Profile::Rfc2960 | Profile::Rfc4960 | Profile::Ns2 => IdleRule::Rfc4960,
            _ => IdleRule::Rfc9260,
        }),
        // With load sharing, the path's pseudo-cumulative TSN counts (Iyengar et al. 2006, section 3.2).
        growth_needs_cumulative: Some(
            old || shares_load || matches!(profile, Profile::FreeBsd10 | Profile::Rfc4960),
        ),
    }
}

fn failover_defaults(profile: Profile, shares_load: bool) -> failover::Settings {
    let ns2 = profile == Profile::Ns2;
    failover::Settings {
        dormant: if ns2 { Dormant::Hop } else { Dormant::Stay },
        take_returning: !ns2,
        primary_follows_failover: ns2,
        skip_failed: !ns2,
        primary_switchover_max_retrans: None,
        retransmit_on: match profile {
            // Iyengar et al. 2006, section 4: RTX-SSTHRESH is as good as any for concurrent transfer.
            _ if shares_load => RetransmitOn::LargestSsthresh,
            // `sctp_strike_gap_ack_chunks` and `sctp_t3rxt_timer`.
            Profile::FreeBsd10 => RetransmitOn::AlternateAfterTimeout,
            Profile::Linux => RetransmitOn::RoundRobin,
            _ => RetransmitOn::Alternate,
        },
        take_over_by: if profile == Profile::Linux {
            TakeOverBy::HeardLast
        } else {
            TakeOverBy::FewestErrors
        },
    }
}

fn per_65536(value: f64) -> u32 {
    (value * 65_536.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Config {
        serde_json::from_str(json).expect("the settings can be read")
    }

    fn error(json: &str) -> String {
        parse(json).resolve().expect_err("the settings are impossible")
    }

    #[test]
    fn defaults_are_those_of_rfc_9260_section_16() {
        let parameters = Config::default().resolve().expect("the defaults are possible");
        assert_eq!(parameters.rto.initial, Duration::from_secs(1));
        assert_eq!(parameters.rto.min, Duration::from_secs(1));
        assert_eq!(parameters.rto.max, Duration::from_secs(60));
        assert_eq!(parameters.rto_rule, Rule::Rfc9260(Weights { alpha: 8_192, beta: 16_384 }));
        assert_eq!(parameters.max_burst, Some(4));
        assert_eq!(parameters.valid_cookie_life, Duration::from_secs(60));
        assert_eq!(parameters.association_max_retrans, Some(10));
        assert_eq!(parameters.path_max_retrans, 5);
        assert_eq!(parameters.max_init_retransmits, 8);
        assert_eq!(parameters.heartbeat.interval, Duration::from_secs(30));
        assert_eq!(parameters.heartbeat.max_burst, 1);
        assert_eq!(parameters.sack_delay, Duration::from_millis(200));
        assert_eq!(parameters.pf_max_retrans, None);
    }

    #[test]
    fn an_impossible_value_is_one_sentence() {
        let cases = [
            (
                r#"{"rto_min": "2 s", "rto_max": "1 s"}"#,
                "rto_min = 2 s is above rto_max = 1 s; it must be at most rto_max",
            ),
            (r#"{"rto_min": "0 s"}"#, "rto_min = 0 s is too small; it must be at least 1 ms"),
            (r#"{"rto_alpha": 1.5}"#, "rto_alpha = 1.5 is out of range; it must be from 0 to 1"),
            (r#"{"sack_delay": "1 s"}"#, "sack_delay = 1 s is too long; it must be at most 500 ms"),
            (
                r#"{"cc": {"kind": "cubic"}}"#,
                "cc.kind = \"cubic\" is a control of TCP; with SCTP it must be \"sctp\"",
            ),
            (r#"{"max_burst": 0}"#, "max_burst = 0 is too small; it must be at least 1"),
            (
                r#"{"profile": "linux", "path_max_retrans": 0}"#,
                "path_max_retrans = 0 is too small; with profile linux it must be at least 1",
            ),
            (
                r#"{"receive_buffer": "1 kB"}"#,
                "receive_buffer = 1000 B is out of range; it must be from 1500 B to 1073741824 B",
            ),
            (
                r#"{"cc": {"kind": "sctp", "ssthresh_floor": 0}}"#,
                "cc.ssthresh_floor = 0 is out of range; it must be from 1 to 64 segments",
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(error(json), expected);
        }
    }

    #[test]
    fn what_cannot_be_read_says_what_could() {
        for (json, expected) in [
            (r#"{"pf_max_retrans": "none"}"#, "expected a count such as 5, or \"off\""),
            (r#"{"send_buffer": "lots"}"#, ", or \"off\""),
            (r#"{"profile": "bsd"}"#, "unknown variant `bsd`"),
            (r#"{"rto_minimum": "1 s"}"#, "unknown field `rto_minimum`"),
            (r#"{"policy": {"kind": "fastest"}}"#, "unknown variant `fastest`"),
        ] {
            let message = serde_json::from_str::<Config>(json).expect_err("it cannot be read").to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn settings_survive_writing_and_reading() {
        let config = parse(
            r#"{"profile": "ns2", "association_max_retrans": "off", "pf_max_retrans": 1,
                "send_buffer": "64 KiB", "max_burst": "off", "policy": {"kind": "delay_centric"}}"#,
        );
        let text = serde_json::to_string(&config).expect("it can be written");
        assert_eq!(parse(&text), config);
        assert_eq!(parse(&text).resolve(), config.resolve());
    }

    #[test]
    fn the_primary_path_must_be_there() {
        let parameters = parse(r#"{"primary_path": 2}"#).resolve().expect("possible with enough paths");
        let message = parameters.check_paths(&[1_500; 2]).expect_err("there are two");
        assert_eq!(message, "primary_path = 2 is no path of this flow; it must be from 0 to 1");
        assert_eq!(parameters.check_paths(&[1_500; 3]), Ok(()));
        assert!(parameters.check_paths(&[]).is_err());
        assert!(parameters.check_paths(&[1_500, 100, 1_500]).is_err());
    }
}
