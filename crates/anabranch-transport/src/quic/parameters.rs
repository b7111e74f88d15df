//! The settings of an endpoint, all of them known.

use super::bucket::Burst;
use super::config::{AckFrequency, AckPath, Config, EarlyData, Handshake, Migration};
use super::congestion::Pace;
use super::space::AckRule;
use crate::cc;
use crate::cc::coupled;
use crate::flow::{IpVersion, Side};
use crate::path::scheduler;
use crate::recovery::rtt::{Limits, MOST_DOUBLINGS, Rtt, Rule};
use crate::time::Duration;
use crate::timer::Clock;
use crate::units::{Bytes, check_range};
use crate::wire::quic::MAX_CONNECTION_ID_BYTES;
use crate::wire::udp::HEADER_BYTES;

/// The least datagram that a path must carry (RFC 9000 section 14).
pub(super) const LEAST_DATAGRAM: u32 = 1_200;
const MOST_BYTES: u64 = 1 << 30;
/// The granularity of timers (RFC 9002 section 6.1.2: kGranularity).
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);
/// Packets that may be sealed with one key of AES-GCM (RFC 9001 section 6.6), and after how many it is
/// updated.
const MOST_PACKETS_OF_A_KEY: u32 = 1 << 23;
const KEY_UPDATE: u32 = MOST_PACKETS_OF_A_KEY / 2;
/// RFC 9002 section 7.2.
const INITIAL_WINDOW_BYTES: u32 = 14_720;

/// The settings of an endpoint.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Parameters {
    pub(super) cc: cc::Config,
    pub(super) max_datagram: Option<u32>,
    /// The largest payload that a search for the MTU would find, if `max_datagram` is not set.
    found_datagram: u32,
    pub(super) initial_rtt: Duration,
    pub(super) ack_rule: AckRule,
    pub(super) ack_frequency: Option<AckFrequency>,
    pub(super) min_ack_delay: Option<Duration>,
    pub(super) packet_threshold: u64,
    pub(super) time_threshold: f64,
    pub(super) persistent_congestion: u32,
    /// In datagrams, if it is set.
    initial_window: Option<u32>,
    /// In bytes, if the profile says so.
    initial_window_bytes: Option<u32>,
    pub(super) pace: Pace,
    pub(super) burst: Option<Burst>,
    pub(super) ecn: bool,
    pub(super) is_l4s: bool,
    pub(super) send_buffer: u64,
    pub(super) max_data: u64,
    pub(super) max_stream_data: u64,
    pub(super) window_parts: u64,
    pub(super) max_streams: u64,
    pub(super) datagrams: bool,
    pub(super) idle_timeout: Duration,
    pub(super) keep_alive: Option<Duration>,
    pub(super) connection_id_bytes: usize,
    pub(super) retry: bool,
    pub(super) early_data: Option<EarlyData>,
    /// Packets under one key.
    pub(super) key_update: u64,
    pub(super) migration: Migration,
    pub(super) multipath: bool,
    pub(super) scheduler: scheduler::Config,
    pub(super) coupling: coupled::Config,
    pub(super) ack_path: AckPath,
    pub(super) reinjection: bool,
    pub(super) path_idle_timeout: Option<Duration>,
    pub(super) pin_streams: bool,
    pub(super) backup: Vec<u8>,
    pub(super) handshake: Handshake,
    source_port: u16,
    destination_port: u16,
    pub(super) path: u8,
}

impl Config {
    /// Fills in what is left to the profile.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub fn resolve(&self) -> Result<Parameters, String> {
        self.check()?;
        let values = self.profile.values();
        let mut cc = self.cc.clone().unwrap_or(values.cc);
        if let cc::Config::Cubic(cubic) = &mut cc
            && values.plain_slow_start
        {
            cubic.slow_start.get_or_insert(cc::slow_start::SlowStart::Standard);
        }
        let of_bbr = values.initial_window_of_bbr.filter(|_| matches!(cc, cc::Config::Bbr(_)));
        let is_l4s = matches!(cc, cc::Config::Prague(_));
        let max_ack_delay = self.max_ack_delay.unwrap_or(values.max_ack_delay);
        let usual_min_ack_delay = self.ack_frequency.map(|_| GRANULARITY.min(max_ack_delay));
        if let Some(delay) = self.min_ack_delay.filter(|delay| *delay > max_ack_delay) {
            return Err(format!(
                "min_ack_delay = {delay} is too long; it must be at most max_ack_delay, which is {max_ack_delay}"
            ));
        }
        Ok(Parameters {
            cc,
            max_datagram: self.max_datagram.map(|size| size.0 as u32),
            found_datagram: values.found_datagram,
            initial_rtt: self.initial_rtt.unwrap_or(values.initial_rtt),
            ack_rule: AckRule { every: self.ack_every.unwrap_or(2), delay: max_ack_delay, reordering: None },
            ack_frequency: self.ack_frequency,
            min_ack_delay: self.min_ack_delay.or(usual_min_ack_delay),
            packet_threshold: self.packet_threshold.unwrap_or(3).into(),
            time_threshold: self.time_threshold.unwrap_or(1.125),
            persistent_congestion: self.persistent_congestion.unwrap_or(3),
            initial_window: self.initial_window,
            initial_window_bytes: of_bbr.or(values.initial_window),
            pace: if self.pacing == Some(false) { Pace::Own } else { values.pace },
            burst: values.burst,
            ecn: self.ecn.unwrap_or(is_l4s),
            is_l4s,
            send_buffer: self.send_buffer.map_or(values.send_buffer, |size| size.0),
            max_data: self.max_data.map_or(values.max_data, |size| size.0),
            max_stream_data: self.max_stream_data.map_or(values.max_stream_data, |size| size.0),
            window_parts: values.window_parts,
            max_streams: self.max_streams.map_or(values.max_streams, u64::from),
            datagrams: self.datagrams.unwrap_or(false),
            idle_timeout: self.idle_timeout.unwrap_or(Duration::from_secs(30)),
            keep_alive: self.keep_alive,
            connection_id_bytes: self.connection_id_bytes.map_or(values.connection_id_bytes, usize::from),
            retry: self.retry.unwrap_or(false),
            early_data: self.early_data,
            key_update: self.key_update.unwrap_or(KEY_UPDATE).into(),
            migration: self.migration.unwrap_or_default(),
            multipath: self.multipath.unwrap_or(false),
            scheduler: self.scheduler.clone().unwrap_or(scheduler::Config::MinRtt),
            coupling: self.coupling.clone().unwrap_or_default(),
            ack_path: self.ack_path.unwrap_or_default(),
            reinjection: self.reinjection.unwrap_or(true),
            path_idle_timeout: self.path_idle_timeout,
            pin_streams: self.pin_streams.unwrap_or(false),
            backup: self.backup.clone(),
            handshake: self.handshake.unwrap_or_default(),
            source_port: self.source_port.unwrap_or(49_152),
            destination_port: self.destination_port.unwrap_or(443),
            path: self.path.unwrap_or(0),
        })
    }

    fn check_several_paths(&self) -> Result<(), String> {
        let is_multipath = self.multipath == Some(true);
        if is_multipath && self.migration == Some(Migration::OnFailure) {
            return Err(
                "migration = \"on_failure\" is for a connection with one path at a time; with multipath = \
                        true leave it out"
                    .into(),
            );
        }
        for (key, is_set) in [
            ("scheduler", self.scheduler.is_some()),
            ("coupling", self.coupling.is_some()),
            ("ack_path", self.ack_path.is_some()),
            ("reinjection", self.reinjection.is_some()),
            ("path_idle_timeout", self.path_idle_timeout.is_some()),
            ("pin_streams", self.pin_streams.is_some()),
            ("backup", !self.backup.is_empty()),
        ] {
            if is_set && !is_multipath {
                return Err(format!("{key} has an effect with multipath = true only"));
            }
        }
        if self.pin_streams == Some(true) && self.scheduler == Some(scheduler::Config::Redundant) {
            return Err(
                "pin_streams = true is against scheduler = \"redundant\", which sends each packet on \
                        all paths; leave one of them out"
                    .into(),
            );
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let count = |key: &str, value: Option<u32>, low: u32, high: u32| {
            value.map_or(Ok(()), |value| check_range(key, value.into(), low.into(), high.into()))
        };
        count("ack_every", self.ack_every, 1, 1_000)?;
        count("packet_threshold", self.packet_threshold, 3, 10_000)?;
        count("persistent_congestion", self.persistent_congestion, 1, 100)?;
        count("initial_window", self.initial_window, 2, 1_000)?;
        count("key_update", self.key_update, 1, MOST_PACKETS_OF_A_KEY)?;
        count("max_streams", self.max_streams, 1, 65_536)?;
        count(
            "connection_id_bytes",
            self.connection_id_bytes.map(u32::from),
            4,
            MAX_CONNECTION_ID_BYTES as u32,
        )?;
        if let Some(threshold) = self.time_threshold {
            check_range("time_threshold", threshold, 1.0, 10.0)?;
        }
        let least = |key: &str, value: Option<Duration>, least: Duration| match value {
            Some(value) if value < least => {
                Err(format!("{key} = {value} is too short; it must be at least {least}"))
            }
            _ => Ok(()),
        };
        least("initial_rtt", self.initial_rtt, Duration::from_millis(1))?;
        least("idle_timeout", self.idle_timeout, Duration::from_secs(1))?;
        least("keep_alive", self.keep_alive, Duration::from_millis(100))?;
        least("path_idle_timeout", self.path_idle_timeout, Duration::from_millis(100))?;
        // RFC 9000 section 18.2: 2^14 ms or more is invalid.
        let asked = self.ack_frequency.unwrap_or_default();
        for (key, delay) in
            [("max_ack_delay", self.max_ack_delay), ("ack_frequency.max_ack_delay", asked.max_ack_delay)]
        {
            if let Some(delay) = delay.filter(|delay| *delay >= Duration::from_millis(1 << 14)) {
                return Err(format!("{key} = {delay} is too long; it must be below 16.384 s"));
            }
        }
        count("ack_frequency.threshold", Some(asked.threshold), 0, 1_000)?;
        count("ack_frequency.reordering_threshold", asked.reordering_threshold, 0, 10_000)?;
        let sizes = [
            ("send_buffer", self.send_buffer),
            ("max_data", self.max_data),
            ("max_stream_data", self.max_stream_data),
        ];
        for (key, size) in sizes {
            let allowed = u64::from(LEAST_DATAGRAM)..=MOST_BYTES;
            if let Some(size) = size.filter(|size| !allowed.contains(&size.0)) {
                return Err(format!(
                    "{key} = {size} is out of range; it must be from {LEAST_DATAGRAM} B to {MOST_BYTES} B"
                ));
            }
        }
        let messages = self.handshake.unwrap_or_default();
        for (key, size) in [
            ("client_hello", messages.client_hello),
            ("server_hello", messages.server_hello),
            ("certificate", messages.certificate),
            ("server_rest", messages.server_rest),
            ("client_finished", messages.client_finished),
        ] {
            if !(1..=65_536).contains(&size.0) {
                return Err(format!(
                    "handshake.{key} = {size} is out of range; it must be from 1 B to 65536 B"
                ));
            }
        }
        for (key, port) in [("source_port", self.source_port), ("destination_port", self.destination_port)] {
            if port == Some(0) {
                return Err(format!("{key} = 0 is not a port from 1 to 65535"));
            }
        }
        self.check_several_paths()?;
        match &self.cc {
            Some(cc::Config::Sctp(_)) => {
                Err("cc.kind = \"sctp\" is SCTP's own control; use one of TCP's, such as \"cubic\"".into())
            }
            Some(cc::Config::Prague(_)) if self.ecn == Some(false) => {
                Err("ecn = false leaves cc.kind = \"prague\" without the marks that steer it; use true"
                    .into())
            }
            Some(config) => config.check().map_err(|error| format!("cc.{error}")),
            None => Ok(()),
        }
    }
}

impl Parameters {
    /// The estimator of a path's round-trip times and of its probe timeout, without a sample: half of the
    /// initial round-trip time is the variation then (RFC 9002 section 6.2.2).
    pub(super) fn rtt(&self) -> Rtt {
        let variation = Duration::from_nanos(self.initial_rtt.as_nanos() / 2);
        let unlimited = Duration::from_nanos(u64::MAX);
        let limits = Limits {
            initial: self.initial_rtt + (variation * 4).max(GRANULARITY),
            min: Duration::ZERO,
            max: unlimited,
            most_backed_off: 1 << MOST_DOUBLINGS,
            clock: Clock::new(GRANULARITY),
            min_rtt_window: unlimited,
        };
        Rtt::new(Rule::Rfc9002, limits)
    }

    /// Checks that an endpoint with a path per MTU (bytes, IP header included) can have these settings.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub fn check_paths(&self, mtus: &[u32], ip: IpVersion) -> Result<(), String> {
        let Some(&first) = mtus.get(usize::from(self.path)) else {
            return Err(format!(
                "path = {} is not one of the flow's paths, 0 to {}",
                self.path,
                mtus.len().saturating_sub(1)
            ));
        };
        if self.multipath {
            self.scheduler.check(mtus.len()).map_err(|error| format!("scheduler.{error}"))?;
            if let Some(path) = self.backup.iter().find(|path| usize::from(**path) >= mtus.len()) {
                let last = mtus.len() - 1;
                return Err(format!("backup = [{path}] is not one of the flow's paths, 0 to {last}"));
            }
        }
        let mtu = self.least_mtu(mtus).min(first);
        let most = mtu.saturating_sub(ip.header_bytes() + HEADER_BYTES);
        if most < LEAST_DATAGRAM {
            // RFC 9000 section 14: QUIC must not be used there.
            let least = LEAST_DATAGRAM + ip.header_bytes() + HEADER_BYTES;
            return Err(format!("an MTU of {mtu} B is too small for QUIC; it must be at least {least} B"));
        }
        match self.max_datagram {
            Some(size) if !(LEAST_DATAGRAM..=most).contains(&size) => Err(format!(
                "max_datagram = {} is out of range; it must be from {LEAST_DATAGRAM} B to {most} B",
                Bytes(size.into())
            )),
            _ => Ok(()),
        }
    }

    /// The least MTU of the paths that may be used.
    fn least_mtu(&self, mtus: &[u32]) -> u32 {
        match self.migration {
            _ if self.multipath => mtus.iter().copied().min().unwrap_or_default(),
            Migration::Never => mtus[usize::from(self.path)],
            Migration::OnFailure => mtus.iter().copied().min().unwrap_or_default(),
        }
    }

    /// The longest UDP payload on paths with these MTUs.
    pub(super) fn datagram_bytes(&self, mtus: &[u32], ip: IpVersion) -> u32 {
        let mtu = self.least_mtu(mtus);
        let most = mtu - ip.header_bytes() - HEADER_BYTES;
        self.max_datagram.unwrap_or_else(|| self.found_datagram.min(most))
    }

    /// The first congestion window in bytes (RFC 9002 section 7.2).
    pub(super) fn initial_cwnd(&self, datagram: u32) -> u32 {
        match (self.initial_window, self.initial_window_bytes) {
            (Some(count), _) => count * datagram,
            (None, Some(bytes)) => bytes,
            (None, None) => (10 * datagram).min(INITIAL_WINDOW_BYTES.max(2 * datagram)),
        }
    }

    /// The port of this side, and its peer's.
    pub(super) const fn ports(&self, side: Side) -> [u16; 2] {
        match side {
            Side::A => [self.source_port, self.destination_port],
            Side::B => [self.destination_port, self.source_port],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::slow_start::SlowStart;
    use crate::quic::Profile;

    fn error(json: &str) -> String {
        let config: Config = serde_json::from_str(json).expect("the settings can be read");
        let resolved = config.resolve();
        resolved
            .and_then(|parameters| parameters.check_paths(&[1_500], IpVersion::Ipv4))
            .expect_err("the settings are impossible")
    }

    #[test]
    fn an_impossible_value_is_one_sentence() {
        let cases = [
            (r#"{"ack_every": 0}"#, "ack_every = 0 is out of range; it must be from 1 to 1000"),
            (
                r#"{"packet_threshold": 2}"#,
                "packet_threshold = 2 is out of range; it must be from 3 to 10000",
            ),
            (r#"{"max_ack_delay": "17 s"}"#, "max_ack_delay = 17 s is too long; it must be below 16.384 s"),
            (r#"{"initial_rtt": "0 s"}"#, "initial_rtt = 0 s is too short; it must be at least 1 ms"),
            (
                r#"{"max_data": "1 kB"}"#,
                "max_data = 1000 B is out of range; it must be from 1200 B to 1073741824 B",
            ),
            (
                r#"{"handshake": {"certificate": "0 B"}}"#,
                "handshake.certificate = 0 B is out of range; it must be from 1 B to 65536 B",
            ),
            (
                r#"{"max_datagram": "1473 B"}"#,
                "max_datagram = 1473 B is out of range; it must be from 1200 B to 1472 B",
            ),
            (r#"{"path": 1}"#, "path = 1 is not one of the flow's paths, 0 to 0"),
            (r#"{"multipath": true, "backup": [1]}"#, "backup = [1] is not one of the flow's paths, 0 to 0"),
            (r#"{"scheduler": "blest"}"#, "scheduler has an effect with multipath = true only"),
            (
                r#"{"multipath": true, "scheduler": {"weighted": [1, 2]}}"#,
                "scheduler.weighted = 2 values are too many; the flow has 1 paths",
            ),
            (
                r#"{"multipath": true, "migration": "on_failure"}"#,
                "migration = \"on_failure\" is for a connection with one path at a time; with multipath = true \
                 leave it out",
            ),
            (
                r#"{"cc": {"kind": "prague"}, "ecn": false}"#,
                "ecn = false leaves cc.kind = \"prague\" without the marks that steer it; use true",
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(error(json), expected);
        }
        let parameters = Config::default().resolve().expect("possible");
        assert_eq!(
            parameters.check_paths(&[1_227], IpVersion::Ipv4).unwrap_err(),
            "an MTU of 1227 B is too small for QUIC; it must be at least 1228 B"
        );
    }

    #[test]
    fn the_first_window_is_that_of_the_rfc() {
        let parameters = Config::default().resolve().expect("possible");
        assert_eq!([1_200, 1_472, 9_000].map(|size| parameters.initial_cwnd(size)), [12_000, 14_720, 18_000]);
        assert_eq!(parameters.datagram_bytes(&[1_500], IpVersion::Ipv6), 1_200);
        let of = |profile| Config { profile, ..Config::default() }.resolve().expect("possible");
        let quinn = of(Profile::Quinn);
        assert_eq!([1_500, 1_400].map(|mtu| quinn.datagram_bytes(&[mtu], IpVersion::Ipv4)), [1_452, 1_372]);
        let windows = [Profile::Quinn, Profile::Noq, Profile::QuicGo, Profile::Picoquic];
        assert_eq!(windows.map(|one| of(one).initial_cwnd(1_440)), [12_000, 12_000, 40_960, 15_360]);
        let bbr = Some(cc::Config::Bbr(cc::bbr::Config::default()));
        let [quinn, noq] = [Profile::Quinn, Profile::Noq].map(|profile| {
            Config { profile, cc: bbr.clone(), ..Config::default() }.resolve().expect("possible")
        });
        assert_eq!([quinn.initial_cwnd(1_440), noq.initial_cwnd(1_440)], [240_000, 12_000]);
    }

    #[test]
    fn what_is_asked_for_goes_before_the_profile() {
        let of = |json: &str| {
            let config: Config = serde_json::from_str(json).expect("the settings can be read");
            let parameters = config.resolve().expect("possible");
            let cc::Config::Cubic(cubic) = parameters.cc else { panic!("it is CUBIC") };
            (cubic.slow_start, parameters.pace)
        };
        assert_eq!(of("{}"), (None, Pace::Usual));
        assert_eq!(of(r#"{"profile": "noq"}"#), (Some(SlowStart::Standard), Pace::Usual));
        assert_eq!(of(r#"{"profile": "quinn"}"#), (Some(SlowStart::Standard), Pace::Window));
        let asked =
            r#"{"profile": "quinn", "cc": {"kind": "cubic", "slow_start": "hystart++"}, "pacing": false}"#;
        assert_eq!(of(asked), (Some(SlowStart::HystartPlusPlus), Pace::Own));
    }
}
