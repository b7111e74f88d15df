//! Settings of Linux, and the settings of a profile to which they correspond here. A script that sets what is
//! not in these tables stops with `Stop::Needs`.

use anabranch_transport::cc;
use anabranch_transport::cc::slow_start::SlowStart;
use anabranch_transport::tcp::config::{EcnMode, InitialWindow, Nagle};
use anabranch_transport::tcp::{self, Profile};
use anabranch_transport::time::Time;
use anabranch_transport::units::Bytes;

use super::end::End;
use super::fast_open_settings::{self, FastOpen};
use super::writing::Limits;
use crate::verdict::{Step, Stop};

/// The third number of `tcp_wmem`.
const LARGEST_SEND_BUFFER: u64 = 4 << 20;
/// Linux's limit (`MPTCP_PM_ADDR_MAX`).
const MOST_ENDPOINTS: u8 = 8;

/// The system's settings for MPTCP (`ip mptcp`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Endpoints {
    /// How many further addresses are announced to peers.
    pub(super) signalled: u8,
    /// How many addresses that a peer announces are joined.
    pub(super) accepted: u8,
}

/// Settings of a socket, or of the system for new sockets.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    config: tcp::Config,
    /// The least number of segments that leave together, and what share of the window they must be.
    least_burst: u32,
    window_divisor: u32,
    /// The path's MTU, if it was set.
    mtu: Option<u32>,
    /// `TCP_MAXSEG`, as the application reads it.
    pub(super) max_segment: Option<u32>,
    /// `SO_SNDBUF`, doubled as Linux does.
    pub(super) send_buffer: Option<u64>,
    /// The second number of `tcp_wmem`.
    first_send_buffer: u64,
    /// `TCP_NOTSENT_LOWAT`, if it was set, and the system's value.
    pub(super) unsent_limit: Option<u64>,
    system_unsent_limit: u64,
    pub(super) has_no_delay: bool,
    /// The ECN that a connection asks for which this end opens.
    asked_ecn: EcnMode,
    /// Whether the socket is one of MPTCP.
    pub(super) is_multipath: bool,
    pub(super) endpoints: Endpoints,
    pub(super) fast_open: FastOpen,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: tcp::Config::default(),
            least_burst: 1,
            window_divisor: 3,
            mtu: None,
            max_segment: None,
            send_buffer: None,
            first_send_buffer: 16_384,
            unsent_limit: None,
            system_unsent_limit: u64::from(u32::MAX),
            has_no_delay: false,
            asked_ecn: EcnMode::Off,
            is_multipath: false,
            endpoints: Endpoints::default(),
            fast_open: FastOpen::default(),
        }
    }
}

impl Settings {
    pub(super) fn new(profile: Option<&str>) -> Step<Self> {
        let profile = match profile.unwrap_or("linux_6") {
            "linux_2_6_20" => Profile::Linux2620,
            "linux_6" => Profile::Linux6,
            "rfc" => Profile::Rfc,
            other => return Err(Stop::needs(format!("a profile of TCP instead of {other}"))),
        };
        // Linux, net.ipv4.tcp_ecn: 2 is the default, which only answers; in the other profiles it is off.
        let ecn = (profile == Profile::Linux6).then_some(EcnMode::Rfc3168);
        let config = tcp::Config { profile, ecn, ..tcp::Config::default() };
        Ok(Self { config, ..Self::default() })
    }

    /// Changes a setting of the system (`sysctl`).
    pub(super) fn set(&mut self, name: &str, value: &str) -> Step<()> {
        let needs = || Stop::needs(format!("the setting {name}={value}"));
        if (name, value) == ("net.mptcp.enabled", "1") {
            return Ok(());
        }
        let Some(key) = name.strip_prefix("net.ipv4.") else { return Err(needs()) };
        // Settings that are several numbers, of which the last may count.
        let words: Vec<&str> = value.split_whitespace().collect();
        let number = |index: usize| -> Option<u64> {
            let text = words.get(index)?;
            text.strip_prefix("0x")
                .map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
        };
        let first = number(0);
        let is_on = || match first {
            Some(number) => Ok(number != 0),
            None => Err(needs()),
        };
        let config = &mut self.config;
        match (key, first) {
            ("tcp_congestion_control", _) => {
                let kind = serde_json::json!({ "kind": value });
                config.cc = Some(serde_json::from_value(kind).map_err(|_| needs())?);
            }
            ("tcp_dsack", _) => config.dsack = Some(is_on()?),
            ("tcp_early_retrans", Some(0 | 3 | 4)) => config.tail_loss_probe = Some(is_on()?),
            // Linux, `Documentation/networking/ip-sysctl.rst`: what is agreed to, and what is asked for.
            ("tcp_ecn", Some(mode @ 0..=5)) => {
                let [agrees, asks] = match mode {
                    0 => [EcnMode::Off; 2],
                    1 => [EcnMode::Rfc3168; 2],
                    2 => [EcnMode::Rfc3168, EcnMode::Off],
                    3 => [EcnMode::Accurate; 2],
                    4 => [EcnMode::Accurate, EcnMode::Rfc3168],
                    _ => [EcnMode::Accurate, EcnMode::Off],
                };
                (config.ecn, self.asked_ecn) = (Some(agrees), asks);
            }
            ("tcp_frto", _) => config.f_rto = Some(is_on()?),
            ("tcp_min_tso_segs", Some(least)) => self.least_burst = least as u32,
            ("tcp_rmem", _) => {
                config.first_receive_buffer = Some(Bytes(number(1).ok_or_else(needs)?));
                config.receive_buffer = Some(Bytes(number(2).ok_or_else(needs)?));
            }
            ("tcp_sack", _) => config.sack = Some(is_on()?),
            ("tcp_slow_start_after_idle", _) => config.idle_restart = Some(is_on()?),
            ("tcp_synack_retries" | "tcp_syn_retries", Some(retries)) => {
                config.syn_retries = Some(retries as u32);
            }
            ("tcp_fastopen", Some(bits)) => self.fast_open.bits = bits,
            ("tcp_fastopen_key", _) => {
                self.fast_open.key = fast_open_settings::key(value).ok_or_else(needs)?;
            }
            ("tcp_notsent_lowat", Some(bytes)) => self.system_unsent_limit = bytes,
            ("tcp_retries2", Some(retries)) => config.retries = Some(retries as u32),
            ("tcp_timestamps", _) => config.timestamps = Some(is_on()?),
            ("tcp_tso_win_divisor", Some(divisor @ 1..)) => self.window_divisor = divisor as u32,
            ("tcp_window_scaling", _) => config.window_scaling = Some(is_on()?),
            ("tcp_wmem", _) => {
                self.first_send_buffer = number(1).ok_or_else(needs)?;
                config.send_buffer = Some(Bytes(number(2).ok_or_else(needs)?));
            }
            ("tcp_ecn_option", Some(kind)) => {
                config.ecn_option = Some(kind > 0);
                config.procedures.get_or_insert_default().repeats_ecn_option = Some(kind > 1);
            }
            // Settings that exist only with this value, or that make no difference unless a script uses them:
            // SYN cookies of a flood.
            ("tcp_recovery", Some(1))
            | ("tcp_reordering", Some(3))
            | ("tcp_fack" | "tcp_fastopen_blackhole_timeout_sec", Some(0))
            | ("tcp_pacing_ss_ratio", Some(200))
            | ("tcp_pacing_ca_ratio", Some(120))
            | ("tcp_syncookies", _) => {}
            _ => return Err(needs()),
        }
        Ok(())
    }

    /// Carries out another command that sets the system up.
    pub(super) fn command(&mut self, words: &[&str]) -> Step<()> {
        match words {
            // The kernel's counters are not compared. TCP makes packets of several segments in any case
            // (since Linux 4.17); here they are seen as single segments. Addresses are names here, which the
            // script introduces where they first occur.
            ["nstat"]
            | ["nstat", "|", "grep", _]
            | ["ethtool", "-K", "tun0", "gso" | "tso", "off", "gso" | "tso", "off"]
            | ["ip", "addr", "add", _, "dev", _] => {}
            ["ip", "mptcp", "endpoint", "flush"] => self.endpoints.signalled = 0,
            ["ip", "mptcp", "endpoint", "add", _, "signal"] if self.endpoints.signalled < MOST_ENDPOINTS => {
                self.endpoints.signalled += 1;
            }
            ["ip", "mptcp", "limits", "set", "add_addr_accepted", accepted, "subflows", subflows] => {
                let needs = || Stop::needs(format!("the command \"{}\"", words.join(" ")));
                let number = |text: &str| text.parse::<u8>().map_err(|_| needs());
                self.endpoints.accepted = number(accepted)?.min(number(subflows)?);
            }
            ["tc", "qdisc", "add" | "replace", "dev", "tun0", "root", "pfifo"] => {
                self.config.pacing = Some(false);
            }
            ["tc", "qdisc", "add" | "replace", "dev", "tun0", "root", "fq"] => {
                self.config.pacing = Some(true);
            }
            ["echo", mask, ">", "/sys/module/tcp_cubic/parameters/hystart_detect"] => {
                let slow_start = match *mask {
                    "3" => SlowStart::Hystart,
                    "0" => SlowStart::Standard,
                    _ => return Err(Stop::needs(format!("hystart_detect = {mask}"))),
                };
                let Some(cc::Config::Cubic(cubic)) = &mut self.config.cc else {
                    return Err(Stop::needs("HyStart of another control than CUBIC"));
                };
                cubic.slow_start = Some(slow_start);
            }
            ["ip", "route", "change", rest @ ..] | ["ip", "-6", "route", "change", rest @ ..] => {
                self.route(rest)?;
            }
            _ => return Err(Stop::needs(format!("the command \"{}\"", words.join(" ")))),
        }
        Ok(())
    }

    /// Changes the settings of a route: `advmss 600 mtu lock 640 initcwnd 11`.
    fn route(&mut self, words: &[&str]) -> Step<()> {
        let needs = || Stop::needs(format!("the route \"{}\"", words.join(" ")));
        let mut words_left = words.iter().copied();
        while let Some(word) = words_left.next() {
            let mut number = || words_left.next().and_then(|text| text.parse::<u32>().ok()).ok_or_else(needs);
            match word {
                "advmss" => self.config.mss = Some(Bytes(u64::from(number()?))),
                "initcwnd" => self.config.initial_window = Some(InitialWindow::Segments(number()?)),
                "lock" => self.mtu = Some(number()?),
                "mtu" | "dev" | "via" => {
                    if word != "mtu" {
                        words_left.next();
                    }
                }
                destination if destination.contains(['.', ':']) => {}
                _ => return Err(needs()),
            }
        }
        Ok(())
    }

    /// The path's MTU in bytes.
    pub(super) fn mtu(&self, mtu: u32) -> u32 {
        self.mtu.unwrap_or(mtu)
    }

    /// The settings of an endpoint.
    pub(super) fn config(&self) -> tcp::Config {
        tcp::Config { nagle: self.has_no_delay.then_some(Nagle::Off), ..self.config.clone() }
    }

    /// The settings of an endpoint that opens a connection.
    pub(super) fn opening_config(&self) -> tcp::Config {
        let config = self.config();
        tcp::Config { ecn: config.ecn.map(|_| self.asked_ecn), ..config }
    }

    /// Applies a changed setting to a living endpoint.
    pub(super) fn apply(&self, end: &mut End, _now: Time) {
        end.set_bursts(self.least_burst, self.window_divisor);
    }

    /// The limits on how much of an application's write is accepted.
    pub(super) fn limits(&self) -> Limits {
        let largest = self.config.send_buffer.map_or(LARGEST_SEND_BUFFER, |bytes| bytes.0);
        Limits {
            send_buffer: self.send_buffer.unwrap_or(self.first_send_buffer),
            grows_to: self.send_buffer.map_or(largest, |_| 0),
            unsent: self.unsent_limit.unwrap_or(self.system_unsent_limit),
        }
    }

    pub(super) fn set_syn_retries(&mut self, retries: u32) {
        self.config.syn_retries = Some(retries);
    }

    pub(super) fn set_receive_buffer(&mut self, bytes: u64) {
        (self.config.receive_buffer, self.config.receive_autotuning) = (Some(Bytes(bytes)), Some(false));
    }

    pub(super) fn set_mss(&mut self, bytes: u32) {
        self.config.mss = Some(Bytes(u64::from(bytes)));
        self.max_segment = Some(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::{given, settings_of_scripts};

    #[test]
    fn what_a_script_can_set_is_declared_at_the_setting() {
        let mut settings = Settings::new(None).expect("it is a profile");
        for (name, value) in [
            ("tcp_congestion_control", "cubic"),
            ("tcp_dsack", "0"),
            ("tcp_early_retrans", "0"),
            ("tcp_ecn", "3"),
            ("tcp_ecn_option", "1"),
            ("tcp_frto", "0"),
            ("tcp_retries2", "5"),
            ("tcp_rmem", "4096 131072 6291456"),
            ("tcp_sack", "0"),
            ("tcp_slow_start_after_idle", "0"),
            ("tcp_syn_retries", "3"),
            ("tcp_timestamps", "0"),
            ("tcp_window_scaling", "0"),
            ("tcp_wmem", "4096 16384 4194304"),
        ] {
            settings.set(&format!("net.ipv4.{name}"), value).expect(name);
        }
        let pacing = ["tc", "qdisc", "add", "dev", "tun0", "root", "fq"];
        settings.command(&pacing).expect("it sets the pacing");
        settings.route(&["advmss", "600", "initcwnd", "11"]).expect("it is a route");
        settings.set_receive_buffer(65_536);
        settings.has_no_delay = true;
        assert_eq!(given(&settings.config()), settings_of_scripts::<tcp::Config>());
    }
}
