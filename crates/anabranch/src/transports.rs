//! The transports by name, and an end of any of them: this is all that the engine knows about protocols.

use anabranch_transport::cc::Controller;
use anabranch_transport::endpoint::{
    Endpoint, HeadOfLine, Input, Missing, Multipath, Observed, Output, PathLimit, PathSample, Response,
    Service, Site, Transmission, Transport,
};
use anabranch_transport::flow::PathId;
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
    /// SCTP (RFC 9260), multi-homed, with partial reliability.
    Sctp: sctp,
    /// TCP (RFC 9293), with the congestion control of one's choice.
    Tcp: tcp,
    /// UDP (RFC 768), with or without RTP.
    Udp: udp,
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

    fn report(&self, report: &mut Report<'_>) {
        dispatch!(self, end => end.report(report));
    }
}
