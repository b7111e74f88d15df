//! Concrete values for every setting: profile and overrides resolved and checked.

use super::config::{Config, Profile, Receiver, Rejoin};
use crate::cc::{self, coupled};
use crate::flow::{IpVersion, PathId};
use crate::path::scheduler;
use crate::tcp;
use crate::tcp::send_queue::SendQueue;
use crate::tcp::subflow::OptionSpace;
use crate::time::Duration;
use crate::units::Bytes;

/// An MPTCP endpoint's settings, all of them set and possible. Made by [`Config::resolve`].
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The parameters of a subflow, including the connection's buffers.
    pub(super) tcp: tcp::Parameters,
    pub(super) scheduler: scheduler::Config,
    pub(super) coupling: coupled::Config,
    pub(super) receiver: Receiver,
    /// The peer's window on the connection level in bytes, where it does not follow from what the peer says.
    pub(super) data_window: Option<u64>,
    pub(super) reinjection: bool,
    pub(super) opportunistic_retransmission: bool,
    pub(super) penalisation: bool,
    /// Where data waits for the windows of its subflow: in a queue of the subflow, with this memory, or if
    /// there is none, above.
    pub(super) send_queue: Option<SendQueue>,
    pub(super) stale_after: u32,
    pub(super) stale_counts: StaleCounts,
    pub(super) rejoin: Option<Duration>,
    pub(super) close_timeout: Duration,
    pub(super) checksums: bool,
    pub(super) backup: Vec<u8>,
    /// Bytes of a DSS option, padded to whole words: with a mapping and without. If both are 0, there is no
    /// option on the wire.
    pub(super) space: OptionSpace,
    /// Whether the number of a mapping has 4 bytes, not 8.
    pub(super) has_short_numbers: bool,
    /// Bytes of the option in a pure acknowledgement whose data acknowledgement has 4 bytes, and how many
    /// more an option with data takes if it has 8.
    pub(super) short_ack: u32,
    pub(super) longer_ack: u32,
}

/// What the setting `stale_after` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StaleCounts {
    /// Expiries of the connection's timer, with data outstanding on the subflow, since the subflow last heard
    /// anything (Linux: `mptcp_pm_subflow_chk_stale`). It fails after more than that many, if another subflow
    /// works.
    Intervals,
    /// The subflow's own timeouts in a row (the first Linux implementation's `pf`).
    Timeouts,
}

impl Config {
    /// Resolves every setting to a value.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub fn resolve(&self) -> Result<Parameters, String> {
        self.check()?;
        if self.profile == Profile::KheirkhahV1 {
            return self.resolve_as_model();
        }
        let linux = self.profile == Profile::Linux6;
        let pick = |rfc, of_linux| if linux { of_linux } else { rfc };
        let mut tcp = self.tcp.clone().unwrap_or_else(|| tcp::Config {
            profile: if linux { tcp::Profile::Linux6 } else { tcp::Profile::Rfc },
            ..tcp::Config::default()
        });
        tcp.cc.clone_from(&self.cc);
        let size = |bytes: Option<Bytes>, default| Some(bytes.unwrap_or(Bytes(default)));
        tcp.send_buffer = size(self.send_buffer, pick(1 << 20, 4 << 20));
        tcp.receive_buffer = size(self.receive_buffer, pick(1 << 20, 6 << 20));
        let tcp = tcp.resolve().map_err(|error| {
            // The control is one of our own keys.
            if error.starts_with("cc.") { error } else { format!("tcp.{error}") }
        })?;
        let scheduler = self.scheduler.clone().unwrap_or(if linux {
            scheduler::Config::Linux
        } else {
            scheduler::Config::MinRtt
        });
        let coupling = self.coupling.clone().unwrap_or_else(|| {
            if linux { coupled::Config::default() } else { coupled::Config::Lia(coupled::lia::Config {}) }
        });
        if matches!(self.cc, Some(cc::Config::Prague(_))) && !matches!(coupling, coupled::Config::PerPath(_))
        {
            return Err(
                "cc.kind = \"prague\" has no effect with this coupling; use coupling = \"per_path\"".into()
            );
        }
        let rejoin =
            self.rejoin.unwrap_or(if linux { Rejoin::Never } else { Rejoin::After(Duration::from_secs(1)) });
        // Only the scheduler of Linux chooses among subflows whose windows are full.
        let queues = linux && scheduler == scheduler::Config::Linux;
        let send_queue = queues.then(|| match self.send_autotuning {
            None | Some(true) => SendQueue::growing(tcp.send_buffer()),
            Some(false) => SendQueue::fixed(tcp.send_buffer()),
        });
        if let (Some(value), false) = (self.send_autotuning, queues) {
            return Err(format!(
                "send_autotuning = {value} is for profile \"linux_6\" with scheduler \"linux\" only; leave it out"
            ));
        }
        Ok(Parameters {
            tcp,
            send_queue,
            scheduler,
            coupling,
            receiver: Receiver::Textbook,
            data_window: None,
            reinjection: self.reinjection.unwrap_or(true),
            opportunistic_retransmission: self.opportunistic_retransmission.unwrap_or(!linux),
            penalisation: self.penalisation.unwrap_or(!linux),
            stale_after: self.stale_after.unwrap_or(pick(1, 4) as u32),
            stale_counts: if linux { StaleCounts::Intervals } else { StaleCounts::Timeouts },
            rejoin: match rejoin {
                Rejoin::After(delay) => Some(delay),
                Rejoin::Never => None,
            },
            close_timeout: self.close_timeout.unwrap_or(Duration::from_secs(60)),
            checksums: self.checksums.unwrap_or(false),
            backup: self.backup.clone(),
            has_short_numbers: !linux,
            short_ack: 8,
            // 4 bytes more in the acknowledgement, of which 2 were padding, and 2 of padding.
            longer_ack: if linux { 4 } else { 0 },
            space: if linux {
                // Linux, mptcp_established_options_dss: 4 bytes, a data sequence number of 8, subflow
                // sequence number 4, length 2, checksum or padding 2, and a data acknowledgement, which has 8
                // bytes where it answers such a mapping: 12 bytes in a pure acknowledgement, and in a mapping
                // 4 bytes more.
                OptionSpace { data: 24, ack: 12 }
            } else {
                // RFC 8684 section 3.3: 4 bytes, data acknowledgement 4, data sequence number 4, subflow
                // sequence number 4, length 2, and the checksum or padding, 2.
                OptionSpace { data: 20, ack: 8 }
            },
        })
    }

    fn check(&self) -> Result<(), String> {
        if let Some(tcp) = &self.tcp {
            if tcp.fast_open == Some(true) {
                return Err("tcp.fast_open = true is not possible over MPTCP; leave it out".into());
            }
            let set = [
                ("cc", tcp.cc.is_some()),
                ("path", tcp.path.is_some()),
                ("receive_buffer", tcp.receive_buffer.is_some()),
                ("send_buffer", tcp.send_buffer.is_some()),
            ];
            if let Some((key, _)) = set.iter().find(|(_, is_set)| *is_set) {
                let instead = if *key == "path" { "the flow's paths" } else { key };
                return Err(format!(
                    "tcp.{key} is not a subflow's own; set {instead} of the connection instead"
                ));
            }
        }
        if let Some(size) = self.receive_buffer.filter(|_| self.profile == Profile::KheirkhahV1) {
            return Err(format!(
                "receive_buffer = {size} is not in profile kheirkhah_v1, which has no limit; leave it out"
            ));
        }
        if self.checksums == Some(true) && self.profile == Profile::KheirkhahV1 {
            return Err("checksums = true is not in profile kheirkhah_v1; leave it out".into());
        }
        if self.receiver == Some(Receiver::AsCited) && self.profile != Profile::KheirkhahV1 {
            return Err("receiver = \"as_cited\" is only in profile kheirkhah_v1; use \"textbook\"".into());
        }
        if let Some(count) = self.stale_after.filter(|count| !(1..=100).contains(count)) {
            return Err(format!("stale_after = {count} is out of range; it must be from 1 to 100"));
        }
        if let Some(Rejoin::After(delay)) = self.rejoin
            && delay < Duration::from_millis(1)
        {
            return Err(format!("rejoin.after = {delay} is too small; it must be at least 1 ms"));
        }
        Ok(())
    }
}

impl Parameters {
    /// Whether an endpoint with one path for each MTU (bytes, IP header included) can have these settings.
    ///
    /// # Errors
    /// One sentence that names the key, the value found and what is allowed.
    pub fn check_paths(&self, mtus: &[u32], ip: IpVersion) -> Result<(), String> {
        self.scheduler.check(mtus.len()).map_err(|error| format!("scheduler.{error}"))?;
        for path in 0..mtus.len() {
            self.tcp.of_subflow(path as u8).check_paths(mtus, ip)?;
        }
        if let Some(path) = self.backup.iter().find(|path| usize::from(**path) >= mtus.len()) {
            let last = mtus.len().saturating_sub(1);
            return Err(format!("backup = [{path}] is not one of the flow's paths, 0 to {last}"));
        }
        Ok(())
    }

    /// Whether a path is a backup from the beginning.
    pub(super) fn is_backup(&self, path: PathId) -> bool {
        self.backup.contains(&path.0)
    }

    /// Whether options are on the wire.
    pub(super) const fn has_options(&self) -> bool {
        self.space.ack > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Config {
        serde_json::from_str(json).expect("the settings can be read")
    }

    #[test]
    fn profiles_have_the_numbers_of_their_sources() {
        let of = |profile| Config { profile, ..Config::default() }.resolve().expect("possible");
        let (rfc, linux, model) = (of(Profile::Rfc8684), of(Profile::Linux6), of(Profile::KheirkhahV1));
        assert_eq!([rfc.space.data, linux.space.data, model.space.data], [20, 24, 0]);
        assert_eq!([rfc.space.ack, linux.space.ack, model.space.ack], [8, 12, 0]);
        assert_eq!([rfc.stale_after, linux.stale_after], [1, 4]);
        assert_eq!(linux.tcp.receive_buffer(), 6 << 20);
        assert!(rfc.reinjection && linux.reinjection && !model.reinjection);
        assert_eq!(rfc.rejoin, Some(Duration::from_secs(1)));
        assert_eq!(linux.scheduler, scheduler::Config::Linux);
        assert_eq!(model.scheduler, scheduler::Config::RoundRobin);
    }

    #[test]
    fn an_impossible_value_is_one_sentence() {
        let cases = [
            (r#"{"stale_after": 0}"#, "stale_after = 0 is out of range; it must be from 1 to 100"),
            (r#"{"rejoin": {"after": "0 s"}}"#, "rejoin.after = 0 s is too small; it must be at least 1 ms"),
            (
                r#"{"tcp": {"cc": {"kind": "reno"}}}"#,
                "tcp.cc is not a subflow's own; set cc of the connection instead",
            ),
            (
                r#"{"tcp": {"path": 0}}"#,
                "tcp.path is not a subflow's own; set the flow's paths of the connection instead",
            ),
            (
                r#"{"profile": "kheirkhah_v1", "checksums": true}"#,
                "checksums = true is not in profile kheirkhah_v1; leave it out",
            ),
            (r#"{"tcp": {"ack_every": 0}}"#, "tcp.ack_every = 0 is too small; it must be at least 1"),
            (r#"{"backup": [2]}"#, "backup = [2] is not one of the flow's paths, 0 to 1"),
            (
                r#"{"receive_buffer": "1 kB"}"#,
                "receive_buffer = 1000 B is out of range; it must be from one MSS, 1460 B, to 1073741824 B",
            ),
            (
                r#"{"cc": {"kind": "sctp"}}"#,
                "cc.kind = \"sctp\" is SCTP's own control; use one of TCP's, such as \"cubic\"",
            ),
            (
                r#"{"scheduler": {"weighted": [1, 0]}}"#,
                "scheduler.weighted = 0 is too small; each must be at least 1",
            ),
        ];
        for (json, expected) in cases {
            let resolved = parse(json).resolve();
            let error = resolved.and_then(|it| it.check_paths(&[1_500, 1_500], IpVersion::Ipv4));
            assert_eq!(error.expect_err("the settings are impossible"), expected);
        }
    }

    #[test]
    fn settings_survive_writing_and_reading() {
        let config = parse(
            r#"{"profile": "linux_6", "scheduler": "blest", "coupling": {"kind": "olia"}, "rejoin": "never",
                "tcp": {"profile": "rfc"}, "backup": [1]}"#,
        );
        let text = serde_json::to_string(&config).expect("it can be written");
        assert_eq!(parse(&text), config);
        assert!(serde_json::from_str::<Config>(r#"{"window": 3}"#).is_err());
    }
}
