//! The transports by name, and an end of any of them: this is all that the engine knows about protocols.

use anabranch_transport::capabilities::{Capabilities, Messages};
use anabranch_transport::cc::{Controller, media};
use anabranch_transport::endpoint::{Endpoint, Input, Multipath, Output, Response, Service, Site, Transport};
use anabranch_transport::flow::PathId;
use anabranch_transport::observed::{
    HeadOfLine, MediaSample, Missing, Observed, PathLimit, PathSample, Transmission,
};
use anabranch_transport::path::Selector;
use anabranch_transport::report::{Parts, Report};
use anabranch_transport::time::Time;
use anabranch_transport::wire::Packet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outside::Outside;

macro_rules! transports {
    ($($(#[$doc:meta])* $name:ident: $module:ident,)*) => {
        use anabranch_transport::{$($module),*};

        /// The transport protocol and its settings.
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum TransportConfig {
            $($(#[$doc])* $name(Box<$module::Config>),)*
        }

        impl Transport for TransportConfig {
            type Endpoint = AnyEndpoint;

            fn build(&self, site: &Site<'_>) -> Result<AnyEndpoint, String> {
                Ok(match self {
                    $(Self::$name(config) => AnyEndpoint::$name(Box::new(config.build(site)?)),)*
                })
            }
        }

        /// The scalars of each kind of transport.
        pub(crate) const SCALARS: [(&str, Parts); [$(stringify!($module)),*].len()] =
            [$((stringify!($module), $module::SCALARS)),*];

        /// What each kind of transport can do.
        pub const CAPABILITIES: [(&str, Capabilities); [$(stringify!($module)),*].len()] =
            [$((stringify!($module), $module::CAPABILITIES)),*];

        /// An end of a connection, dispatched statically.
        #[derive(Debug)]
        pub enum AnyEndpoint {
            $($(#[$doc])* $name(Box<<$module::Config as Transport>::Endpoint>),)*
            /// An end that is run outside the simulation.
            Outside(Box<Outside>),
        }

        macro_rules! dispatch {
            ($self:expr, $end:ident => $call:expr) => {
                match $self {
                    $(AnyEndpoint::$name($end) => $call,)*
                    AnyEndpoint::Outside($end) => $call,
                }
            };
        }
    };
}

transports! {
    /// Multipath TCP (RFC 8684), with the coupling and the scheduler of one's choice.
    Mptcp: mptcp,
    /// QUIC (RFC 9000) on one path, with the congestion control of one's choice.
    Quic: quic,
    /// RTP (RFC 3550) with feedback, a pacer and a congestion control of media.
    Rtp: rtp,
    /// SCTP (RFC 9260), multi-homed, with partial reliability.
    Sctp: sctp,
    /// TCP (RFC 9293), with the congestion control of one's choice.
    Tcp: tcp,
    /// UDP (RFC 768), with or without RTP.
    Udp: udp,
}

/// What the transport of this name can do.
pub(crate) fn capabilities(protocol: &str) -> Option<Capabilities> {
    CAPABILITIES.iter().find(|(kind, _)| *kind == protocol).map(|(_, can)| *can)
}

/// The transports that can do this, as a choice in a sentence: `"mptcp" or "sctp"`.
pub(crate) fn choice(can: impl Fn(&Capabilities) -> bool) -> String {
    let kinds: Vec<_> = CAPABILITIES.iter().filter(|kind| can(&kind.1)).map(|kind| quoted(kind.0)).collect();
    or(&kinds)
}

/// The transports that keep messages apart, as a choice in a sentence.
pub(crate) fn choice_of_messages() -> String {
    let kinds: Vec<_> = CAPABILITIES
        .iter()
        .filter_map(|(kind, can)| match can.messages {
            Messages::Always => Some(quoted(kind)),
            Messages::Never => None,
            Messages::With(setting) => Some(format!("{} with {setting} = true", quoted(kind))),
        })
        .collect();
    or(&kinds)
}

fn quoted(kind: &str) -> String {
    format!("\"{kind}\"")
}

fn or(words: &[String]) -> String {
    match words {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => words.concat(),
    }
}

impl Endpoint for AnyEndpoint {
    fn protocol(&self) -> &'static str {
        dispatch!(self, end => end.protocol())
    }

    fn understands(&self, protocol: &str) -> bool {
        dispatch!(self, end => end.understands(protocol))
    }

    fn service(&self) -> Service {
        dispatch!(self, end => end.service())
    }

    fn owns(&self, packet: &Packet) -> bool {
        dispatch!(self, end => end.owns(packet))
    }

    #[inline]
    fn may_respond(&self, packet: &Packet) -> bool {
        dispatch!(self, end => end.may_respond(packet))
    }

    #[inline]
    fn respond(&mut self, now: Time, packet: Box<Packet>) -> Result<Response, Box<Packet>> {
        dispatch!(self, end => end.respond(now, packet))
    }

    // This only jumps: each end's function is `inline(never)`, since otherwise all would have the largest of
    // their stack frames.
    #[inline]
    fn handle_input(&mut self, now: Time, input: Input) {
        dispatch!(self, end => end.handle_input(now, input));
    }

    #[inline]
    fn poll_output(&mut self, now: Time) -> Output {
        dispatch!(self, end => end.poll_output(now))
    }
}

impl Multipath for AnyEndpoint {
    fn set_congestion_control(&mut self, path: PathId, control: Controller) -> bool {
        dispatch!(self, end => end.set_congestion_control(path, control))
    }

    fn set_media_control(&mut self, path: PathId, control: media::Controller) -> bool {
        dispatch!(self, end => end.set_media_control(path, control))
    }

    fn set_path_selector(&mut self, selector: Selector) -> bool {
        dispatch!(self, end => end.set_path_selector(selector))
    }

    fn enable_reconfiguration(&mut self, absent: &[PathId]) -> Result<(), String> {
        dispatch!(self, end => end.enable_reconfiguration(absent))
    }

    fn add_path(&mut self, now: Time, mtu: u32) -> Result<PathId, String> {
        dispatch!(self, end => end.add_path(now, mtu))
    }
}

impl Observed for AnyEndpoint {
    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        dispatch!(self, end => end.sample_paths(samples));
    }

    fn sample_limits(&self, now: Time, limits: &mut Vec<PathLimit>) {
        dispatch!(self, end => end.sample_limits(now, limits));
    }

    fn head_of_line(&self) -> Option<HeadOfLine> {
        dispatch!(self, end => end.head_of_line())
    }

    fn transmission(&self, missing: Missing) -> Option<Transmission> {
        dispatch!(self, end => end.transmission(missing))
    }

    fn sample_media(&self) -> Option<MediaSample> {
        dispatch!(self, end => end.sample_media())
    }

    fn report(&self, report: &mut Report<'_>) {
        dispatch!(self, end => end.report(report));
    }
}

#[cfg(test)]
mod tests {
    use anabranch_transport::endpoint::{Command, Event};
    use anabranch_transport::flow::{IpVersion, Side};
    use anabranch_transport::rng::Streams;

    use super::*;

    fn end(kind: &str, mtus: &[u32]) -> AnyEndpoint {
        let tree = serde_json::json!({ "kind": kind });
        let config: TransportConfig = serde_json::from_value(tree).expect("the kind is one of the table");
        let streams = Streams { seed: 1, replication: 0 };
        let site = Site { side: Side::A, mtus, ip: IpVersion::Ipv4, streams, connection: "flow/x" };
        config.build(&site).expect("the defaults are possible")
    }

    /// Whether an end takes this command.
    fn takes(mut end: AnyEndpoint, command: Command) -> bool {
        end.handle_input(Time::ZERO, Input::Command(command));
        loop {
            match end.poll_output(Time::ZERO) {
                Output::Event(Event::Unsupported(_)) => return false,
                Output::Timeout(_) => return true,
                _ => {}
            }
        }
    }

    #[test]
    fn every_transport_can_do_what_it_says() {
        for (kind, can) in CAPABILITIES {
            let service = end(kind, &[1_500]).service();
            assert_eq!(service != Service::Datagrams, can.flow_control, "{kind}");
            let is_apart = matches!(service, Service::Datagrams | Service::Messages { .. });
            assert_eq!(is_apart, can.messages == Messages::Always, "{kind}");
            assert_eq!(end(kind, &[1_500]).add_path(Time::ZERO, 1_500).is_ok(), can.several_paths, "{kind}");
            let changing = end(kind, &[1_500, 1_500]).enable_reconfiguration(&[PathId(1)]).is_ok();
            assert_eq!(changing, can.changing_addresses, "{kind}");
            let rebind = Command::Rebind { path: PathId(0), address: false };
            assert_eq!(takes(end(kind, &[1_500]), rebind), can.rebinding, "{kind}");
            assert_eq!(takes(end(kind, &[1_500]), Command::PauseReading), can.pauses_reading, "{kind}");
        }
    }

    #[test]
    fn a_choice_is_a_list_for_a_sentence() {
        assert_eq!(choice(|can| can.several_paths), "\"mptcp\" or \"sctp\"");
        assert_eq!(choice(|can| !can.flow_control), "\"rtp\" or \"udp\"");
        assert_eq!(choice_of_messages(), "\"quic\" with datagrams = true, \"rtp\", \"sctp\" or \"udp\"");
    }
}
