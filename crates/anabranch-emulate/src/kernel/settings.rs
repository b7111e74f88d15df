//! Translates a scenario's settings for a kernel: to options of each socket and sysctls of each node, or to a
//! sentence that says what this kernel lacks.
//!
//! A setting that is left out is the kernel's own affair, whatever the profile, but for the congestion
//! control: that is the scenario's, cubic if it names none.

use std::collections::BTreeMap;

use anabranch::scenario::FlowConfig;
use anabranch::transports::TransportConfig;
use anabranch_transport::dscp::Dscp;
use anabranch_transport::flow::{IpVersion, Side};
use anabranch_transport::mptcp::{self, Rejoin};
use anabranch_transport::path::scheduler;
use anabranch_transport::tcp::config::{
    EcnMode, InitialWindow, LossDetection, Nagle, RtoEstimator, WindowReduction,
};
use anabranch_transport::time::Duration;
use anabranch_transport::units::{Bytes, Limit};
use anabranch_transport::wire::tcp::{HEADER_BYTES, TIMESTAMPS_BYTES};
use anabranch_transport::{cc, sctp, tcp, udp};
use schemars::JsonSchema;
use serde::Serialize;

use super::unsupported::{first_unknown, shown};
use super::usrsctp::ProgramOptions;
use super::usrsctp_settings;

/// The options of a TCP or Multipath TCP socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamOptions {
    /// The name of the settings in messages: `flows.bulk.transport`.
    pub(crate) key: String,
    /// The name of the congestion control, and whether the scenario names it.
    pub(crate) congestion: (String, bool),
    pub(crate) mss: Option<u32>,
    pub(crate) is_nodelay: bool,
    /// Bytes of data that may be written ahead of what is acknowledged.
    pub(crate) send_buffer: Option<u64>,
    /// The memory of a receive buffer without autotuning.
    pub(crate) receive_buffer: Option<u64>,
    pub(crate) syn_retries: Option<u32>,
    pub(crate) is_paced: bool,
    /// The ports at this end and at the other one, if the scenario names them.
    pub(crate) ports: [Option<u16>; 2],
    /// The first path, by its position among those of the flow.
    pub(crate) path: u8,
    /// Paths that stand by (Multipath TCP).
    pub(crate) backup: Vec<u8>,
    pub(crate) dscp: Dscp,
}

/// The options of an SCTP socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageOptions {
    /// The name of the settings in messages: `flows.call.transport`.
    pub(crate) key: String,
    pub(crate) is_nodelay: bool,
    /// The number of outbound streams, and the most inbound ones.
    pub(crate) streams: Option<[u16; 2]>,
    pub(crate) sack_frequency: Option<u32>,
    /// The memory of the send buffer, as the profile `linux` counts it.
    pub(crate) send_buffer: Option<u64>,
    /// The window that is advertised first, which is half of the memory.
    pub(crate) receive_buffer: Option<u64>,
    pub(crate) dscp: Dscp,
}

/// The implementation and options of a flow's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndOptions {
    Datagrams(udp::Config),
    /// SCTP.
    Messages(MessageOptions),
    /// SCTP on usrsctp.
    Program(ProgramOptions),
    /// TCP, or with `is_multipath` Multipath TCP.
    Stream {
        options: StreamOptions,
        is_multipath: bool,
    },
}

/// A sysctl that a flow wants in the namespace of one of its nodes. Without a value, any value will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) sysctl: &'static str,
    /// The key in the scenario: `flows.bulk.transport.sack`.
    pub(crate) key: String,
    /// The value as the scenario writes it, and as the sysctl takes it.
    pub(crate) value: Option<[String; 2]>,
}

/// Reads the settings of one end.
struct Reader {
    key: String,
    /// The largest IP packet on the flow's paths, in bytes, and the size of IP's header.
    packet: [u32; 2],
    wishes: Vec<Wish>,
}

impl Reader {
    /// The sentence about a key whose value is not available.
    fn refused(&self, key: &str, value: &impl Serialize, there_is: &str) -> String {
        format!("{}.{key} = {}: {there_is}", self.key, shown(value))
    }

    /// Checks a setting of which a kernel has only one value.
    fn fixed<T: PartialEq + Serialize>(&self, key: &str, value: Option<&T>, own: &T) -> Result<(), String> {
        match value {
            Some(value) if value != own => {
                Err(self.refused(key, value, &format!("a kernel always has {}", shown(own))))
            }
            _ => Ok(()),
        }
    }

    /// Refuses settings that no kernel has.
    fn known<C: Serialize + JsonSchema>(&self, config: &C, there_is: &str) -> Result<(), String> {
        first_unknown(config, "kernel")
            .map_or(Ok(()), |(key, value)| Err(self.refused(&key, &value, there_is)))
    }

    /// Adds a sysctl to the wishes.
    fn wish<T: Serialize>(
        &mut self,
        sysctl: &'static str,
        key: &str,
        value: Option<&T>,
        text: impl Fn(&T) -> String,
    ) {
        let value = value.map(|value| [shown(value), text(value)]);
        self.wishes.push(Wish { sysctl, key: format!("{}.{key}", self.key), value });
    }

    /// The kernel's name of a congestion control, and whether the scenario names it.
    fn control(&self, control: Option<&cc::Config>) -> Result<(String, bool), String> {
        let Some(control) = control else { return Ok(("cubic".into(), false)) };
        if !cc::Config::tcp().contains(control) {
            let kind = control.kind();
            let what = format!("a kernel's \"{kind}\" takes no settings here, so leave all but its kind out");
            return Err(self.refused("cc", control, &what));
        }
        // Linux uses the same names.
        Ok((control.kind().to_owned(), true))
    }

    fn tcp(&mut self, config: &tcp::Config) -> Result<StreamOptions, String> {
        let on_or_off = |on: &bool| u8::from(*on).to_string();
        let millis = Duration::from_millis;
        self.fixed("first_receive_buffer", config.first_receive_buffer.as_ref(), &Bytes(131_072))?;
        self.fixed("initial_window", config.initial_window.as_ref(), &InitialWindow::Segments(10))?;
        self.fixed("ack_delay", config.ack_delay.as_ref(), &millis(40))?;
        self.fixed("ack_every", config.ack_every.as_ref(), &2)?;
        self.fixed("quick_acks", config.quick_acks.as_ref(), &16)?;
        self.fixed("rto_initial", config.rto_initial.as_ref(), &millis(1000))?;
        self.fixed("rto_estimator", config.rto_estimator.as_ref(), &RtoEstimator::Linux)?;
        self.fixed("window_reduction", config.window_reduction.as_ref(), &WindowReduction::Prr)?;
        self.fixed("limited_transmit", config.limited_transmit.as_ref(), &true)?;
        self.fixed("undo", config.undo.as_ref(), &true)?;
        self.fixed("byte_counting", config.byte_counting.as_ref(), &true)?;
        self.known(config, "a kernel has no such setting")?;
        self.fixed("fast_open", config.fast_open.as_ref(), &false)?;
        if config.nagle == Some(Nagle::Rfc896) {
            return Err(self.refused("nagle", &config.nagle, "a kernel has \"minshall\" and \"off\""));
        }
        if config.loss_detection == Some(LossDetection::Fack) {
            let what = "a kernel has \"rack\" and \"dupacks\"";
            return Err(self.refused("loss_detection", &config.loss_detection, what));
        }
        if config.ecn == Some(EcnMode::L4s) {
            let what = "a kernel has \"off\", \"rfc3168\" and \"dctcp\", and from 6.18 on \"accurate\"";
            return Err(self.refused("ecn", &config.ecn, what));
        }
        let congestion = self.control(config.cc.as_ref())?;
        if config.ecn == Some(EcnMode::Dctcp) && congestion.0 != "dctcp" {
            let what = "in a kernel it goes with the congestion control \"dctcp\"";
            return Err(self.refused("ecn", &config.ecn, what));
        }
        self.wish("net.ipv4.tcp_timestamps", "timestamps", config.timestamps.as_ref(), on_or_off);
        self.wish("net.ipv4.tcp_sack", "sack", config.sack.as_ref(), on_or_off);
        self.wish("net.ipv4.tcp_dsack", "dsack", config.dsack.as_ref(), on_or_off);
        self.wish("net.ipv4.tcp_window_scaling", "window_scaling", config.window_scaling.as_ref(), on_or_off);
        self.wish(
            "net.ipv4.tcp_slow_start_after_idle",
            "idle_restart",
            config.idle_restart.as_ref(),
            on_or_off,
        );
        let probes = |on: &bool| if *on { "3" } else { "0" }.to_owned();
        self.wish("net.ipv4.tcp_early_retrans", "tail_loss_probe", config.tail_loss_probe.as_ref(), probes);
        let f_rto = |on: &bool| if *on { "2" } else { "0" }.to_owned();
        self.wish("net.ipv4.tcp_frto", "f_rto", config.f_rto.as_ref(), f_rto);
        let rack = |kind: &LossDetection| u8::from(*kind == LossDetection::Rack).to_string();
        self.wish("net.ipv4.tcp_recovery", "loss_detection", config.loss_detection.as_ref(), rack);
        let ecn = |mode: &EcnMode| match mode {
            EcnMode::Off => "0",
            EcnMode::Rfc3168 | EcnMode::Dctcp => "1",
            EcnMode::Accurate | EcnMode::L4s => "3",
        };
        self.wish("net.ipv4.tcp_ecn", "ecn", config.ecn.as_ref(), |mode| ecn(mode).to_owned());
        self.wish("net.ipv4.tcp_retries2", "retries", config.retries.as_ref(), ToString::to_string);
        let nanos = |time: &Duration| time.as_nanos().to_string();
        let delay = config.compressed_ack_delay.as_ref();
        self.wish("net.ipv4.tcp_comp_sack_delay_ns", "compressed_ack_delay", delay, nanos);
        let micros = |time: &Duration| (time.as_nanos() / 1000).to_string();
        self.wish("net.ipv4.tcp_rto_min_us", "rto_min", config.rto_min.as_ref(), micros);
        let millis = |time: &Duration| (time.as_nanos() / 1_000_000).to_string();
        self.wish("net.ipv4.tcp_rto_max_ms", "rto_max", config.rto_max.as_ref(), millis);
        let receive_buffer = self.receive_buffer(config, config.receive_buffer);
        Ok(StreamOptions {
            key: self.key.clone(),
            congestion,
            mss: config.mss.map(|size| size.0 as u32),
            is_nodelay: config.nagle == Some(Nagle::Off),
            send_buffer: config.send_buffer.map(|size| size.0),
            receive_buffer,
            syn_retries: config.syn_retries,
            is_paced: config.pacing == Some(true),
            ports: [config.source_port, config.destination_port],
            path: config.path.unwrap_or(0),
            backup: Vec::new(),
            dscp: Dscp::CS0,
        })
    }

    fn mptcp(&mut self, config: &mptcp::Config) -> Result<StreamOptions, String> {
        self.known(config, "a kernel has no such setting")?;
        if let Some(coupling) = &config.coupling
            && *coupling != cc::coupled::Config::default()
        {
            let what = "a kernel's subflows do not depend on each other, so use \"per_path\"";
            return Err(self.refused("coupling", coupling, what));
        }
        self.fixed("receiver", config.receiver.as_ref(), &mptcp::Receiver::Textbook)?;
        self.fixed("reinjection", config.reinjection.as_ref(), &true)?;
        self.fixed("opportunistic_retransmission", config.opportunistic_retransmission.as_ref(), &false)?;
        self.fixed("penalisation", config.penalisation.as_ref(), &false)?;
        self.fixed("rejoin", config.rejoin.as_ref(), &Rejoin::Never)?;
        let name = |scheduler: &scheduler::Config| match scheduler {
            scheduler::Config::Linux => "default".to_owned(),
            other => shown(other).trim_matches('"').to_owned(),
        };
        self.wish("net.mptcp.scheduler", "scheduler", config.scheduler.as_ref(), name);
        let stale = config.stale_after.as_ref();
        self.wish("net.mptcp.stale_loss_cnt", "stale_after", stale, ToString::to_string);
        let seconds = |time: &Duration| (time.as_nanos() / 1_000_000_000).to_string();
        self.wish("net.mptcp.close_timeout", "close_timeout", config.close_timeout.as_ref(), seconds);
        let on_or_off = |on: &bool| u8::from(*on).to_string();
        self.wish("net.mptcp.checksum_enabled", "checksums", config.checksums.as_ref(), on_or_off);
        // Every subflow has these settings; the others belong to the connection.
        let mut of_subflows =
            Reader { key: format!("{}.tcp", self.key), packet: self.packet, wishes: Vec::new() };
        let tcp = config.tcp.clone().unwrap_or_default();
        let options = of_subflows.tcp(&tcp)?;
        let of_connection = |wish: &Wish| wish.sysctl != "net.ipv4.tcp_rmem";
        self.wishes.extend(of_subflows.wishes.into_iter().filter(of_connection));
        Ok(StreamOptions {
            key: self.key.clone(),
            congestion: self.control(config.cc.as_ref())?,
            send_buffer: self.send_buffer_of_mptcp(config),
            receive_buffer: self.receive_buffer(&tcp, config.receive_buffer),
            path: 0,
            backup: config.backup.clone(),
            ..options
        })
    }

    fn sctp(&mut self, config: &sctp::Config) -> Result<MessageOptions, String> {
        self.known(config, "a kernel's SCTP has no such setting here")?;
        let millis = |time: &Duration| (time.as_nanos() / 1_000_000).to_string();
        for (sysctl, key, value) in [
            ("net.sctp.rto_initial", "rto_initial", &config.rto_initial),
            ("net.sctp.rto_min", "rto_min", &config.rto_min),
            ("net.sctp.rto_max", "rto_max", &config.rto_max),
            ("net.sctp.valid_cookie_life", "valid_cookie_life", &config.valid_cookie_life),
            ("net.sctp.hb_interval", "hb_interval", &config.hb_interval),
            ("net.sctp.sack_timeout", "sack_delay", &config.sack_delay),
        ] {
            self.wish(sysctl, key, value.as_ref(), millis);
        }
        // The kernel's counter has 16 bits.
        let limit = |limit: &Limit| match limit {
            Limit::At(most) => most.to_string(),
            Limit::Off => u16::MAX.to_string(),
        };
        let association = config.association_max_retrans.as_ref();
        self.wish("net.sctp.association_max_retrans", "association_max_retrans", association, limit);
        self.wish("net.sctp.pf_retrans", "pf_max_retrans", config.pf_max_retrans.as_ref(), limit);
        let text = |count: &u32| count.to_string();
        self.wish("net.sctp.path_max_retrans", "path_max_retrans", config.path_max_retrans.as_ref(), text);
        let init = config.max_init_retransmits.as_ref();
        self.wish("net.sctp.max_init_retransmits", "max_init_retransmits", init, text);
        let send_buffer = match config.send_buffer {
            Some(sctp::config::Buffer::At(size)) => Some(size.0),
            None => None,
            Some(sctp::config::Buffer::Off) => {
                return Err(self.refused("send_buffer", &config.send_buffer, "a kernel's has a size"));
            }
        };
        let streams = (config.streams.is_some() || config.max_inbound_streams.is_some())
            .then(|| [config.streams.unwrap_or(10), config.max_inbound_streams.unwrap_or(u16::MAX)]);
        Ok(MessageOptions {
            key: self.key.clone(),
            is_nodelay: config.nagle == Some(false),
            streams,
            sack_frequency: config.sack_frequency,
            send_buffer,
            receive_buffer: config.receive_buffer.map(|size| size.0),
            dscp: Dscp::CS0,
        })
    }

    /// The size of a send buffer without autotuning. With autotuning, the limit is a setting of the whole
    /// node.
    fn send_buffer_of_mptcp(&mut self, config: &mptcp::Config) -> Option<u64> {
        let is_tuned = config.send_autotuning != Some(false);
        let largest = config.send_buffer.as_ref().filter(|_| is_tuned);
        self.wish("net.ipv4.tcp_wmem", "send_buffer", largest, |size| size.0.to_string());
        // Without a given size, it is that of the simulated Multipath TCP.
        (!is_tuned).then(|| config.send_buffer.map_or(4 << 20, |size| size.0))
    }

    /// The memory of a receive buffer without autotuning. With autotuning, the limit is a setting of the
    /// whole node. A scenario says the largest window, a kernel the memory that segments of that much data
    /// take.
    fn receive_buffer(&mut self, tcp: &tcp::Config, window: Option<Bytes>) -> Option<u64> {
        let is_fixed = tcp.receive_autotuning == Some(false);
        let [packet, ip_header] = self.packet;
        let options = if tcp.timestamps == Some(false) { 0 } else { TIMESTAMPS_BYTES };
        let most = packet - ip_header - HEADER_BYTES;
        let segment = tcp.mss.map_or(most, |mss| most.min(mss.0 as u32));
        let header = ip_header + HEADER_BYTES;
        let memory =
            |window: u64| tcp::memory_for_window(window, header + segment, segment.saturating_sub(options));
        let largest = window.as_ref().filter(|_| !is_fixed);
        self.wish("net.ipv4.tcp_rmem", "receive_buffer", largest, |window| memory(window.0).to_string());
        // A window begins with half of the memory, and is not taken back where segments leave less of it for
        // data.
        let memory = |window: u64| memory(window).min(2 * window);
        // Without a given size, it is that of the simulated TCP.
        is_fixed.then(|| memory(window.map_or(6 << 20, |window| window.0)))
    }
}

/// What one end of a flow runs on, and which sysctls its node is to have; `mtu` is the least of its paths,
/// and `on_usrsctp` says whether flows of SCTP run on usrsctp.
///
/// # Errors
/// A sentence about what no kernel has, or usrsctp does not have.
pub(crate) fn read(
    name: &str,
    flow: &FlowConfig,
    side: Side,
    mtu: u32,
    on_usrsctp: bool,
) -> Result<(EndOptions, Vec<Wish>), String> {
    if !flow.addresses.is_empty() {
        let at = &flow.addresses[0].at;
        return Err(format!(
            "flows.{name}.addresses: from \"{at}\" on they change, and those of a testbed stay as they are"
        ));
    }
    let (key, transport) = match (&flow.transport_to, side) {
        (Some(transport), Side::B) => ("transport_to", transport),
        _ => ("transport", &flow.transport),
    };
    let packet = [mtu, flow.ip.header_bytes()];
    let mut reader = Reader { key: format!("flows.{name}.{key}"), packet, wishes: Vec::new() };
    let mut options = match transport {
        TransportConfig::Quic(_) => {
            return Err(format!(
                "{}.kind = \"quic\" is for simulations: no kernel has it; use \"tcp\", \"mptcp\", \"sctp\" or \"udp\"",
                reader.key
            ));
        }
        TransportConfig::Rtp(_) => {
            return Err(format!(
                "{}.kind = \"rtp\" is for simulations: no kernel has it; use \"udp\" with rtp = true",
                reader.key
            ));
        }
        TransportConfig::Udp(config) if config.duplicate_on.is_some() => {
            return Err(format!(
                "{}.duplicate_on is for simulations: a kernel's socket sends a datagram once",
                reader.key
            ));
        }
        TransportConfig::Udp(config) => {
            reader.known(&**config, "a kernel's socket has no such setting")?;
            EndOptions::Datagrams(**config)
        }
        TransportConfig::Tcp(config) => {
            EndOptions::Stream { options: reader.tcp(config)?, is_multipath: false }
        }
        TransportConfig::Mptcp(config) => {
            EndOptions::Stream { options: reader.mptcp(config)?, is_multipath: true }
        }
        TransportConfig::Sctp(config) if on_usrsctp => {
            EndOptions::Program(usrsctp_settings::read(&reader.key, config)?)
        }
        TransportConfig::Sctp(config) => EndOptions::Messages(reader.sctp(config)?),
    };
    match &mut options {
        EndOptions::Datagrams(_) => {}
        EndOptions::Messages(options) => options.dscp = flow.dscp,
        EndOptions::Program(_) if flow.dscp.is_default() => {}
        EndOptions::Program(_) => {
            return Err(format!(
                "flows.{name}.dscp is {}: usrsctp sends all its packets with cs0; leave it out",
                flow.dscp
            ));
        }
        EndOptions::Stream { is_multipath: true, .. }
            if !flow.dscp.is_default() && flow.ip == IpVersion::Ipv6 =>
        {
            return Err(format!(
                "flows.{name}.dscp is {}: a kernel's sockets of Multipath TCP have no IPV6_TCLASS; use ip = \"ipv4\", \
                 or leave it out",
                flow.dscp
            ));
        }
        EndOptions::Stream { options, .. } => options.dscp = flow.dscp,
    }
    Ok((options, reader.wishes))
}

/// The sysctls of a node, from the wishes of all its flows, each with the place where it was made.
///
/// # Errors
/// A sentence about two flows that want different values.
pub(crate) fn agree(node: &str, wishes: &[Wish]) -> Result<BTreeMap<&'static str, Wish>, String> {
    let mut agreed: BTreeMap<&'static str, Wish> = BTreeMap::new();
    for wish in wishes.iter().filter(|wish| wish.value.is_some()) {
        let first = agreed.entry(wish.sysctl).or_insert_with(|| wish.clone());
        if first.value != wish.value {
            let [one, other] = [&*first, wish].map(|wish| wish.value.as_ref().map_or("", |value| &value[0]));
            return Err(format!(
                "{} = {other}: the node `{node}` has one value for all its flows ({}), and {} is {one}",
                wish.key, wish.sysctl, first.key
            ));
        }
    }
    for wish in wishes.iter().filter(|wish| wish.value.is_none()) {
        if let Some(first) = agreed.get(wish.sysctl) {
            return Err(format!(
                "{}: the node `{node}` has one value for all its flows ({}), so say what it is here too, as at {}",
                wish.key, wish.sysctl, first.key
            ));
        }
    }
    Ok(agreed)
}

#[cfg(test)]
mod tests {
    use anabranch::scenario::Scenario;

    use super::*;

    fn flow(transport: &str) -> FlowConfig {
        let text = format!(
            "links.wan = {{ ends = ['a', 'b'] }}\npaths.only.via = ['wan']\n\
             flows.x = {{ from = 'a', to = 'b', paths = ['only'], app.kind = 'bulk', transport = {{ {transport} }} }}"
        );
        Scenario::parse_network(&text, &[], ".".as_ref()).unwrap().flows["x"].clone()
    }

    fn refusal(transport: &str) -> String {
        read("x", &flow(transport), Side::A, 1500, false).unwrap_err()
    }

    #[test]
    fn what_no_kernel_has_is_refused_in_a_sentence() {
        for (transport, sentence) in [
            ("kind = 'tcp', ack_every = 4", "flows.x.transport.ack_every = 4: a kernel always has 2"),
            ("kind = 'tcp', nagle = 'rfc896'", "\"rfc896\": a kernel has \"minshall\" and \"off\""),
            ("kind = 'tcp', cc = { kind = 'cubic', beta = 0.5 }", "takes no settings here"),
            ("kind = 'mptcp', coupling = { kind = 'lia' }", "do not depend on each other"),
            ("kind = 'mptcp', tcp.nagle = 'rfc896'", "flows.x.transport.tcp.nagle"),
            ("kind = 'sctp', policy.kind = 'echo'", "flows.x.transport.policy = "),
            ("kind = 'sctp', send_buffer = 'off'", "a kernel's has a size"),
        ] {
            let said = refusal(transport);
            assert!(said.contains(sentence), "{said}");
        }
    }

    #[test]
    fn a_window_becomes_the_memory_that_it_needs() {
        let of = |transport: &str| read("x", &flow(transport), Side::A, 1500, false).unwrap();
        // 1448 B of data in 2304 B are 160 of 256, 488 B in 1280 B 97.
        let (_, wishes) = of("kind = 'tcp', receive_buffer = '160 kB'");
        let wish = wishes.iter().find(|wish| wish.sysctl == "net.ipv4.tcp_rmem").unwrap();
        assert_eq!(wish.value, Some(["\"160000 B\"".into(), "256000".into()]));
        let fixed = "receive_autotuning = false, receive_buffer = '97 kB', mss = '500 B'";
        let (options, _) = of(&format!("kind = 'tcp', {fixed}"));
        let EndOptions::Stream { options, .. } = options else { panic!("{options:?}") };
        assert_eq!(options.receive_buffer, Some(194_000), "at most twice the window");
    }

    #[test]
    fn flows_of_a_node_agree_or_are_refused() {
        let of = |transport: &str| read("x", &flow(transport), Side::A, 1500, false).unwrap().1;
        let [with, without, open] =
            ["kind = 'tcp', sack = true", "kind = 'tcp', sack = false", "kind = 'tcp'"].map(of);
        let agreed = agree("a", &[with.clone(), with.clone()].concat()).unwrap();
        assert_eq!(agreed["net.ipv4.tcp_sack"].value, Some(["true".into(), "1".into()]));
        assert_eq!(agreed.len(), 1);
        let said = agree("a", &[with.clone(), without].concat()).unwrap_err();
        assert!(said.contains("sack = false: the node `a` has one value for all its flows"), "{said}");
        assert!(agree("a", &[with, open.clone()].concat()).unwrap_err().contains("say what it is here too"));
        assert!(agree("a", &open).unwrap().is_empty());
    }
}
