//! The host's interface for ends of TCP: one path, which carries the stream itself.

use anabranch_transport::flow::PathId;
use anabranch_transport::secret::SecretNumbers;
use anabranch_transport::tcp::{Config, Connection, Listener};
use anabranch_transport::wire::Packet;
use anabranch_transport::wire::tcp::Segment;

use super::StreamEnd;

impl StreamEnd for Connection {
    type Config = Config;
    type Listener = Listener;

    fn at_ports(config: &Config, [own, peers]: [u16; 2]) -> Config {
        Config { source_port: Some(own), destination_port: Some(peers), path: None, ..config.clone() }
    }

    /// RFC 6528 section 3: numbers are a function of addresses, ports and a secret, so that a connection that
    /// follows another one between the same ports has later numbers and timestamps.
    fn numbers(by_addresses: SecretNumbers, _fresh: SecretNumbers) -> SecretNumbers {
        by_addresses
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn gives_way_to(&self, _path: PathId, segment: &Segment) -> bool {
        self.gives_way_to(segment)
    }

    fn receive_buffer(&self) -> u64 {
        self.receive_buffer()
    }

    fn unread(&self) -> u64 {
        self.info().unread
    }

    fn position_of(&self, _path: PathId, sequence: u32) -> Option<u64> {
        self.position_of(sequence)
    }

    fn missing(&self, _path: PathId, start: u64, end: u64, each: &mut dyn FnMut(u64, u64)) {
        self.missing(start, end, each);
    }

    fn place(&self, packet: &Packet) -> Option<u64> {
        packet.body.tcp().map(|segment| segment.payload.offset)
    }

    fn source(&self, packet: &Packet) -> u64 {
        packet.body.tcp().map_or(0, |segment| segment.payload.offset)
    }
}
