//! The host's interface for ends of MPTCP: several paths, whose segments tell where in the stream their bytes
//! belong.

use anabranch_transport::flow::PathId;
use anabranch_transport::mptcp::{Config, Connection, Listener, Profile};
use anabranch_transport::secret::SecretNumbers;
use anabranch_transport::tcp;
use anabranch_transport::wire::tcp::Segment;
use anabranch_transport::wire::{Body, Packet};

use super::StreamEnd;

impl StreamEnd for Connection {
    type Config = Config;
    type Listener = Listener;

    fn at_ports(config: &Config, [own, peers]: [u16; 2]) -> Config {
        let of_subflows = config.tcp.clone().unwrap_or_else(|| tcp::Config {
            profile: match config.profile {
                Profile::KheirkhahV1 => tcp::Profile::KheirkhahV1,
                Profile::Linux6 => tcp::Profile::Linux6,
                Profile::Rfc8684 => tcp::Profile::Rfc,
            },
            ..tcp::Config::default()
        });
        let of_subflows =
            tcp::Config { source_port: Some(own), destination_port: Some(peers), ..of_subflows };
        Config { tcp: Some(of_subflows), ..config.clone() }
    }

    /// A key is used only once, so fresh numbers are taken.
    fn numbers(_by_addresses: SecretNumbers, fresh: SecretNumbers) -> SecretNumbers {
        fresh
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn gives_way_to(&self, path: PathId, segment: &Segment) -> bool {
        let over = |subflow: &tcp::Connection| self.is_over() && subflow.gives_way_to(segment);
        self.subflow(path).is_some_and(over)
    }

    fn receive_buffer(&self) -> u64 {
        self.receive_buffer()
    }

    fn unread(&self) -> u64 {
        self.info().unread
    }

    fn position_of(&self, path: PathId, sequence: u32) -> Option<u64> {
        self.subflow(path)?.position_of(sequence)
    }

    fn missing(&self, path: PathId, start: u64, end: u64, each: &mut dyn FnMut(u64, u64)) {
        if let Some(subflow) = self.subflow(path) {
            subflow.missing(start, end, each);
        }
    }

    fn place(&self, packet: &Packet) -> Option<u64> {
        match &packet.body {
            Body::Mptcp(segment) if !self.has_fallen_back() => segment.options.data_position,
            body => self.has_fallen_back().then(|| body.tcp().map(|segment| segment.payload.offset))?,
        }
    }

    fn source(&self, packet: &Packet) -> u64 {
        match &packet.body {
            // An infinite mapping is of a path that is the stream.
            Body::Mptcp(segment) => segment.options.data_position.unwrap_or(segment.tcp.payload.offset),
            body => body.tcp().map_or(0, |segment| segment.payload.offset),
        }
    }

    fn multipath(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn as_multipath(&self) -> Option<&Self> {
        Some(self)
    }
}
