//! Concrete values for every setting: profile and overrides resolved and checked.

use super::config::{
    Config, EcnMode, InitialWindow, LossDetection, Nagle, Profile, RtoEstimator, WindowReduction,
};
use super::procedures::Procedures;
use crate::cc;
use crate::flow::{IpVersion, Side};
use crate::recovery::linux_rtt::LinuxRtt;
use crate::recovery::rtt::{Limits, Rtt, Rule};
use crate::time::Duration;
use crate::timer::Clock;
use crate::units::Bytes;
use crate::wire::tcp::HEADER_BYTES;

/// The largest buffer: what a scaled window can say (RFC 7323 section 2.3).
const MAX_BUFFER_BYTES: u64 = 1 << 30;
/// The smallest segment size that is accepted (Linux: `TCP_MIN_MSS`).
pub(super) const MIN_MSS: u32 = 88;
/// The smallest first receive buffer in bytes of memory (Linux: `SOCK_MIN_RCVBUF`).
const MIN_FIRST_BUFFER_BYTES: u64 = 2_304;

/// A TCP endpoint's settings, all of them set and possible. Made by [`Config::resolve`].
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    pub(super) cc: cc::Config,
    pub(super) rules: cc::Rules,
    pub(super) send_buffer: u64,
    pub(super) receive_buffer: u64,
    pub(super) receive_autotuning: bool,
    pub(super) first_receive_buffer: u64,
    pub(super) mss_clamp: u32,
    pub(super) initial_window: InitialWindow,
    pub(super) nagle: Nagle,
    pub(super) timestamps: bool,
    pub(super) sack: bool,
    pub(super) dsack: bool,
    pub(super) window_scaling: bool,
    pub(super) ack_delay: Duration,
    pub(super) ack_every: u32,
    pub(super) quick_acks: u32,
    pub(super) compressed_ack_delay: Duration,
    pub(super) rto_initial: Duration,
    pub(super) rto_min: Duration,
    pub(super) rto_max: Duration,
    pub(super) rto_estimator: RtoEstimator,
    pub(super) clock: Clock,
    pub(super) syn_retries: u32,
    /// How many of SYN's first timeouts do not back off (Linux: `tcp_syn_linear_timeouts`).
    pub(super) syn_linear_timeouts: u32,
    pub(super) retries: u32,
    pub(super) loss_detection: LossDetection,
    pub(super) window_reduction: WindowReduction,
    pub(super) limited_transmit: bool,
    pub(super) tail_loss_probe: bool,
    pub(super) f_rto: bool,
    pub(super) undo: bool,
    pub(super) ecn: EcnMode,
    pub(super) ecn_option: bool,
    pub(super) fast_open: bool,
    pub(super) pacing: bool,
    pub(super) idle_restart: bool,
    pub(super) byte_counting: bool,
    pub(super) measure: bool,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) path: u8,
    /// Bytes of options without meaning in every segment.
    pub(super) padding: u8,
    /// How many segments leave together at least, whatever the pace.
    pub(super) least_burst: u32,
    /// A packet does not wait for more segments once one of this many parts of the window is free (Linux:
    /// `net.ipv4.tcp_tso_win_divisor`).
    pub(super) window_divisor: u32,
    pub(super) procedures: Procedures,
}

impl Config {
    /// Resolves every setting to a value.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub fn resolve(&self) -> Result<Parameters, String> {
        let profile = self.profile;
        self.check()?;
        if profile == Profile::KheirkhahV1 {
            return self.resolve_as_model();
        }
        let (old, new) = (profile == Profile::Linux2620, profile == Profile::Linux6);
        let rfc = !old && !new;
        let millis = Duration::from_millis;
        let pick = |of_rfc: u64, of_linux: u64| if rfc { of_rfc } else { of_linux };
        Parameters {
            // Linux since 2.6.19, and what RFC 9438 recommends.
            cc: self.cc.clone().unwrap_or_else(|| cc::Config::Cubic(cc::cubic::Config::default())),
            rules: match (old, new) {
                (true, _) => cc::Rules::Linux2620,
                (_, true) => cc::Rules::Linux6,
                _ => cc::Rules::Rfc,
            },
            // Linux: net.ipv4.tcp_wmem and tcp_rmem, the last of their three numbers.
            send_buffer: self.send_buffer.map_or(pick(1 << 20, 4 << 20), |size| size.0),
            receive_buffer: self.receive_buffer.map_or(pick(1 << 20, 6 << 20), |size| size.0),
            receive_autotuning: self.receive_autotuning.unwrap_or(new),
            first_receive_buffer: self.first_receive_buffer.map_or(131_072, |size| size.0),
            mss_clamp: self.mss.map_or(u32::MAX, |size| size.0 as u32),
            initial_window: self.initial_window.unwrap_or(match (old, new) {
                (true, _) => InitialWindow::Rfc3390,
                // TCP_INIT_CWND.
                (_, true) => InitialWindow::Segments(10),
                _ => InitialWindow::Rfc6928,
            }),
            nagle: self.nagle.unwrap_or(if rfc { Nagle::Rfc896 } else { Nagle::Minshall }),
            timestamps: self.timestamps.unwrap_or(true),
            sack: self.sack.unwrap_or(true),
            dsack: self.dsack.unwrap_or(true),
            window_scaling: self.window_scaling.unwrap_or(true),
            // Linux: TCP_DELACK_MIN.
            ack_delay: self.ack_delay.unwrap_or(millis(pick(200, 40))),
            ack_every: self.ack_every.unwrap_or(2),
            // Linux: TCP_MAX_QUICKACKS.
            quick_acks: self.quick_acks.unwrap_or(pick(0, 16) as u32),
            // Linux: net.ipv4.tcp_comp_sack_delay_ns, since 4.18.
            compressed_ack_delay: self.compressed_ack_delay.unwrap_or(millis(u64::from(new))),
            rto_initial: self.rto_initial.unwrap_or(millis(if old { 3_000 } else { 1_000 })),
            rto_min: self.rto_min.unwrap_or(millis(pick(1_000, 200))),
            rto_max: self.rto_max.unwrap_or(millis(pick(60_000, 120_000))),
            rto_estimator: self.rto_estimator.unwrap_or(if rfc {
                RtoEstimator::Rfc6298
            } else {
                RtoEstimator::Linux
            }),
            clock: Clock::new(self.clock_granularity.unwrap_or(millis(u64::from(!rfc)))),
            syn_retries: self.syn_retries.unwrap_or(if old { 5 } else { 6 }),
            // Linux: net.ipv4.tcp_syn_linear_timeouts, since 6.5.
            syn_linear_timeouts: if new { 4 } else { 0 },
            retries: self.retries.unwrap_or(15),
            loss_detection: self.loss_detection.unwrap_or(if old {
                LossDetection::Fack
            } else {
                LossDetection::Rack
            }),
            window_reduction: self.window_reduction.unwrap_or(if old {
                WindowReduction::RateHalving
            } else {
                WindowReduction::Prr
            }),
            limited_transmit: self.limited_transmit.unwrap_or(true),
            tail_loss_probe: self.tail_loss_probe.unwrap_or(!old),
            f_rto: self.f_rto.unwrap_or(!old),
            undo: self.undo.unwrap_or(true),
            ecn: self.ecn.unwrap_or(match &self.cc {
                Some(cc::Config::Prague(_)) => EcnMode::L4s,
                _ => EcnMode::Off,
            }),
            ecn_option: self.ecn_option.unwrap_or(true),
            fast_open: self.fast_open.unwrap_or(false),
            pacing: self.pacing.unwrap_or(false),
            idle_restart: self.idle_restart.unwrap_or(true),
            byte_counting: self.byte_counting.unwrap_or(new),
            measure: self.measure.unwrap_or(false),
            source_port: self.source_port.unwrap_or(49_152),
            destination_port: self.destination_port.unwrap_or(5_001),
            path: self.path.unwrap_or(0),
            padding: 0,
            least_burst: 1,
            window_divisor: 3,
            procedures: self.procedures.unwrap_or_default().resolve(match (old, new) {
                (true, _) => 1,
                (_, true) => 2,
                _ => 0,
            }),
        }
        .checked()
    }

    fn check(&self) -> Result<(), String> {
        for (key, value) in
            [("rto_min", self.rto_min), ("rto_max", self.rto_max), ("rto_initial", self.rto_initial)]
        {
            if let Some(value) = value.filter(|value| *value < Duration::from_millis(1)) {
                return Err(format!("{key} = {value} is too small; it must be at least 1 ms"));
            }
        }
        if let Some(delay) = self.ack_delay.filter(|delay| *delay > Duration::from_millis(500)) {
            // RFC 9293 section 3.8.6.3: MUST be less than 0.5 seconds.
            return Err(format!("ack_delay = {delay} is too long; it must be at most 500 ms"));
        }
        let delay = self.compressed_ack_delay.filter(|delay| *delay > Duration::from_millis(500));
        if let Some(delay) = delay {
            return Err(format!("compressed_ack_delay = {delay} is too long; it must be at most 500 ms"));
        }
        let most = Duration::from_secs(1);
        if let Some(tick) = self.clock_granularity.filter(|tick| *tick > most) {
            return Err(format!("clock_granularity = {tick} is too long; it must be at most 1 s"));
        }
        if let Some(0) = self.ack_every {
            return Err("ack_every = 0 is too small; it must be at least 1".into());
        }
        if let Some(InitialWindow::Segments(count)) = self.initial_window
            && !(1..=1_000).contains(&count)
        {
            return Err(format!(
                "initial_window.segments = {count} is out of range; it must be from 1 to 1000"
            ));
        }
        for (key, value) in [("source_port", self.source_port), ("destination_port", self.destination_port)] {
            if value == Some(0) {
                return Err(format!("{key} = 0 is not a port from 1 to 65535"));
            }
        }
        if let Some(size) = self.mss.filter(|size| !(u64::from(MIN_MSS)..=65_535).contains(&size.0)) {
            return Err(format!("mss = {size} is out of range; it must be from {MIN_MSS} B to 65535 B"));
        }
        let first = MIN_FIRST_BUFFER_BYTES..=MAX_BUFFER_BYTES;
        if let Some(size) = self.first_receive_buffer.filter(|size| !first.contains(&size.0)) {
            return Err(format!(
                "first_receive_buffer = {size} is out of range; it must be from {} to {MAX_BUFFER_BYTES} B",
                Bytes(MIN_FIRST_BUFFER_BYTES)
            ));
        }
        if self.fast_open == Some(true) && matches!(self.profile, Profile::Linux2620 | Profile::KheirkhahV1) {
            return Err("fast_open = true is not in this profile; use profile \"linux_6\" or \"rfc\"".into());
        }
        match &self.cc {
            Some(cc::Config::Sctp(_)) => {
                Err("cc.kind = \"sctp\" is SCTP's own control; use one of TCP's, such as \"cubic\"".into())
            }
            Some(cc::Config::Prague(_)) if self.ecn == Some(EcnMode::Off) => {
                Err("ecn = \"off\" leaves cc.kind = \"prague\" without the marks that steer it; use \"l4s\""
                    .into())
            }
            Some(cc::Config::Cubic(cubic)) if cubic.connections != 1 && self.profile != Profile::Rfc => Err(
                format!("cc.connections = {} is not in this profile; use profile \"rfc\"", cubic.connections),
            ),
            Some(config) => config.check().map_err(|error| format!("cc.{error}")),
            None => Ok(()),
        }
    }
}

impl Parameters {
    /// Checks that the settings go together.
    fn checked(self) -> Result<Self, String> {
        let (min, max) = (self.rto_min, self.rto_max);
        if min > max {
            return Err(format!("rto_min = {min} is above rto_max = {max}; it must be at most rto_max"));
        }
        Ok(self)
    }

    /// The estimator of round-trip times and of the retransmission timeout, without a sample.
    pub(super) fn rtt(&self) -> Rtt {
        let (rule, most_backed_off) = match self.rto_estimator {
            RtoEstimator::Linux => (Rule::Linux(LinuxRtt::default()), u64::MAX),
            // ns-3: `RttEstimator`, `MaxMultiplier`.
            RtoEstimator::MeanDeviation => (Rule::MeanDeviation, 64),
            RtoEstimator::Rfc6298 => (Rule::Rfc6298, u64::MAX),
        };
        let (initial, min, max, clock) = (self.rto_initial, self.rto_min, self.rto_max, self.clock);
        Rtt::new(rule, Limits { initial, min, max, most_backed_off, clock, ..Limits::default() })
    }

    /// The port of this side, and its peer's.
    pub(crate) const fn ports(&self, side: Side) -> [u16; 2] {
        match side {
            Side::A => [self.source_port, self.destination_port],
            Side::B => [self.destination_port, self.source_port],
        }
    }

    /// Checks that an endpoint with a path per MTU (bytes, IP header included) can have these settings.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub fn check_paths(&self, mtus: &[u32], ip: IpVersion) -> Result<(), String> {
        let Some(&mtu) = mtus.get(usize::from(self.path)) else {
            return Err(format!(
                "path = {} is not one of the flow's paths, 0 to {}",
                self.path,
                mtus.len().saturating_sub(1)
            ));
        };
        let mss = self.mss(mtu, ip);
        for (key, size) in [("send_buffer", self.send_buffer), ("receive_buffer", self.receive_buffer)] {
            if !(u64::from(mss)..=MAX_BUFFER_BYTES).contains(&size) {
                return Err(format!(
                    "{key} = {} is out of range; it must be from one MSS, {mss} B, to {MAX_BUFFER_BYTES} B",
                    Bytes(size)
                ));
            }
        }
        Ok(())
    }

    /// The maximum segment size that this end announces, in bytes (RFC 9293 section 3.7.1).
    pub(super) fn mss(&self, mtu: u32, ip: IpVersion) -> u32 {
        (mtu - ip.header_bytes() - HEADER_BYTES - u32::from(self.padding)).min(self.mss_clamp)
    }

    /// The set-up of a congestion control with segments of `mss` bytes and this initial window in bytes.
    pub(super) const fn control_setup(
        &self,
        mss: u32,
        initial_cwnd: u32,
        seed: u64,
        headers: u32,
    ) -> cc::Setup {
        cc::Setup { mss, initial_cwnd, rules: self.rules, seed, is_paced: self.pacing, headers }
    }

    /// The initial congestion window in bytes for segments of `mss` bytes of data.
    pub(super) fn initial_cwnd(&self, mss: u32) -> u32 {
        match self.initial_window {
            // RFC 3390 section 1: min(4 MSS, max(2 MSS, 4380)).
            InitialWindow::Rfc3390 => (4 * mss).min((2 * mss).max(4_380)) / mss * mss,
            // RFC 6928 section 2: min(10 MSS, max(2 MSS, 14600)).
            InitialWindow::Rfc6928 => (10 * mss).min((2 * mss).max(14_600)),
            InitialWindow::Segments(count) => count.saturating_mul(mss),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Config {
        serde_json::from_str(json).expect("the settings can be read")
    }

    fn error(json: &str) -> String {
        let resolved = parse(json).resolve();
        resolved
            .and_then(|parameters| parameters.check_paths(&[1_500], IpVersion::Ipv4))
            .expect_err("the settings are impossible")
    }

    #[test]
    fn profiles_have_the_numbers_of_their_sources() {
        let of = |profile| Config { profile, ..Config::default() }.resolve().expect("possible");
        let (new, old, rfc) = (of(Profile::Linux6), of(Profile::Linux2620), of(Profile::Rfc));
        let millis = Duration::from_millis;
        assert_eq!([new.rto_initial, old.rto_initial, rfc.rto_initial], [1_000, 3_000, 1_000].map(millis));
        assert_eq!([new.rto_min, old.rto_min, rfc.rto_min], [200, 200, 1_000].map(millis));
        assert_eq!([new.ack_delay, old.ack_delay, rfc.ack_delay], [40, 40, 200].map(millis));
        assert_eq!([new.initial_cwnd(1_448), old.initial_cwnd(1_448)], [14_480, 4_344]);
        assert_eq!(rfc.initial_cwnd(1_460), 14_600);
        assert_eq!(old.loss_detection, LossDetection::Fack);
        assert_eq!(new.cc, cc::Config::Cubic(cc::cubic::Config::default()));
    }

    #[test]
    fn the_segment_size_follows_from_mtu_and_version() {
        let parameters = Config::default().resolve().expect("possible");
        assert_eq!(parameters.mss(1_500, IpVersion::Ipv4), 1_460);
        assert_eq!(parameters.mss(1_500, IpVersion::Ipv6), 1_440);
        let clamped = parse(r#"{"mss": "1024 B"}"#).resolve().expect("possible");
        assert_eq!(clamped.mss(1_500, IpVersion::Ipv4), 1_024);
    }

    #[test]
    fn an_impossible_value_is_one_sentence() {
        let cases = [
            (
                r#"{"rto_min": "2 s", "rto_max": "1 s"}"#,
                "rto_min = 2 s is above rto_max = 1 s; it must be at most rto_max",
            ),
            (r#"{"rto_initial": "0 s"}"#, "rto_initial = 0 s is too small; it must be at least 1 ms"),
            (r#"{"ack_delay": "1 s"}"#, "ack_delay = 1 s is too long; it must be at most 500 ms"),
            (r#"{"ack_every": 0}"#, "ack_every = 0 is too small; it must be at least 1"),
            (
                r#"{"initial_window": {"segments": 0}}"#,
                "initial_window.segments = 0 is out of range; it must be from 1 to 1000",
            ),
            (r#"{"mss": "40 B"}"#, "mss = 40 B is out of range; it must be from 88 B to 65535 B"),
            (
                r#"{"first_receive_buffer": "1 kB"}"#,
                "first_receive_buffer = 1000 B is out of range; it must be from 2304 B to 1073741824 B",
            ),
            (
                r#"{"profile": "linux_2_6_20", "fast_open": true}"#,
                "fast_open = true is not in this profile; use profile \"linux_6\" or \"rfc\"",
            ),
            (r#"{"source_port": 0}"#, "source_port = 0 is not a port from 1 to 65535"),
            (r#"{"path": 1}"#, "path = 1 is not one of the flow's paths, 0 to 0"),
            (
                r#"{"send_buffer": "1 kB"}"#,
                "send_buffer = 1000 B is out of range; it must be from one MSS, 1460 B, to 1073741824 B",
            ),
            (
                r#"{"receive_buffer": "0 B"}"#,
                "receive_buffer = 0 B is out of range; it must be from one MSS, 1460 B, to 1073741824 B",
            ),
            (
                r#"{"profile": "kheirkhah_v1", "cc": {"kind": "reno", "slow_start": "limited"}}"#,
                "cc.slow_start = \"limited\" is not in profile kheirkhah_v1; use \"standard\"",
            ),
            (
                r#"{"profile": "linux_6", "cc": {"kind": "cubic", "connections": 2}}"#,
                "cc.connections = 2 is not in this profile; use profile \"rfc\"",
            ),
            (
                r#"{"profile": "rfc", "cc": {"kind": "cubic", "connections": 0}}"#,
                "cc.connections = 0 is out of range; it must be from 1 to 100",
            ),
            (
                r#"{"cc": {"kind": "sctp"}}"#,
                "cc.kind = \"sctp\" is SCTP's own control; use one of TCP's, such as \"cubic\"",
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(error(json), expected);
        }
    }

    #[test]
    fn settings_survive_writing_and_reading() {
        let config = parse(
            r#"{"profile": "linux_2_6_20", "cc": {"kind": "reno"}, "initial_window": {"segments": 2},
                "nagle": "off", "ecn": "accurate", "send_buffer": "64 KiB"}"#,
        );
        let text = serde_json::to_string(&config).expect("it can be written");
        assert_eq!(parse(&text), config);
        assert!(serde_json::from_str::<Config>(r#"{"cc": {"kind": "quick"}}"#).is_err());
        assert!(serde_json::from_str::<Config>(r#"{"delayed": true}"#).is_err());
    }
}
