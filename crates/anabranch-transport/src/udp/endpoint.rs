//! One end of a UDP flow.

use std::collections::VecDeque;

use super::Config;
use crate::endpoint::{
    CloseReason, Command, Endpoint, Event, Input, Message, Multipath, Output, Received, Service, Site,
    Transport,
};
use crate::flow::{Ecn, IpVersion, PathId, Payload, Side};
use crate::observed::{Observed, PathSample};
use crate::report::{Parts, Report, declare};
use crate::time::Time;
use crate::wire::udp::Datagram;
use crate::wire::{Body, Packet, rtp};

/// The largest payload of an IP packet, in bytes (RFC 791, RFC 8200): longer messages are refused.
const MAX_IP_PACKET_BYTES: u32 = 65_535;

/// The first dynamic payload type of RTP (RFC 3551 section 6).
const DYNAMIC: u8 = 96;

declare! {
    LIST:
    /// Datagrams sent, without copies on another path.
    DATAGRAMS_SENT = "datagrams_sent": One;
    /// Bytes of payload sent, without copies on another path.
    BYTES_SENT = "bytes_sent": Bytes;
    /// Datagrams that arrived.
    DATAGRAMS_RECEIVED = "datagrams_received": One;
    /// Bytes of payload that arrived, which is when the application gets them.
    BYTES_DELIVERED = "bytes_delivered": Bytes;
    /// Messages refused because no IP packet has room for them.
    REFUSED = "refused": One;
    /// Copies sent on a second path (`duplicate_on`).
    COPIES_SENT = "copies_sent": One;
    /// Datagrams that arrived with the mark of congestion (`ecn`).
    CE_RECEIVED = "ce_received": One;
}

/// The scalars of an end; of copies and of marks, where there are any.
pub const SCALARS: Parts = &[("", &[LIST])];

/// One end of a UDP flow.
#[derive(Debug)]
pub struct UdpEndpoint {
    path: PathId,
    /// Where a copy of every datagram is sent, too.
    duplicate_on: Option<PathId>,
    /// How many paths there are.
    paths: usize,
    source_port: u16,
    destination_port: u16,
    /// Headers of all layers in front of a payload, in bytes.
    overhead_bytes: u32,
    rtp: bool,
    ecn: Ecn,
    outputs: VecDeque<Output>,
    sent: u64,
    sent_bytes: u64,
    received: u64,
    received_bytes: u64,
    refused: u64,
    marked: u64,
}

impl UdpEndpoint {
    /// The end `side` of a flow.
    pub fn new(config: &Config, side: Side, paths: usize, ip: IpVersion) -> Self {
        let (source_port, destination_port) = match side {
            Side::A => (config.source_port, config.destination_port),
            Side::B => (config.destination_port, config.source_port),
        };
        Self {
            path: PathId(config.path),
            duplicate_on: config.duplicate_on.map(PathId),
            paths,
            source_port,
            destination_port,
            overhead_bytes: ip.header_bytes() + config.header_bytes(),
            rtp: config.rtp,
            ecn: config.ecn.field(),
            // One input gives one output, or a copy more; 4 leaves room for a driver that drains late.
            outputs: VecDeque::with_capacity(4),
            sent: 0,
            sent_bytes: 0,
            received: 0,
            received_bytes: 0,
            refused: 0,
            marked: 0,
        }
    }

    fn send(&mut self, payload: Payload) {
        let size = u64::from(self.overhead_bytes) + u64::from(payload.length);
        if size > u64::from(MAX_IP_PACKET_BYTES) {
            self.refused += 1;
            self.outputs.push_back(Output::Event(Event::Refused(payload)));
            return;
        }
        self.sent += 1;
        self.sent_bytes += u64::from(payload.length);
        let packet = Packet {
            path: self.path,
            ecn: self.ecn,
            size: size as u32,
            body: Body::Udp(Datagram {
                source_port: self.source_port,
                destination_port: self.destination_port,
                offset: payload.offset,
                length: payload.length,
                rtp: self.rtp.then(|| rtp::Header {
                    marker: false,
                    payload_type: DYNAMIC,
                    sequence: (self.sent - 1) as u16,
                    // This transport knows no media: a capture puts in what the application sends.
                    timestamp: payload.offset as u32,
                    // Each port has a stream of its own.
                    ssrc: self.source_port.into(),
                    original_sequence: None,
                }),
            }),
        };
        let copy = self.duplicate_on.map(|path| Packet { path, ..packet.clone() });
        for packet in std::iter::once(packet).chain(copy) {
            self.outputs.push_back(Output::Transmit(Box::new(packet)));
        }
    }

    fn receive(&mut self, packet: &Packet) {
        // RFC 1122 section 4.1.3.1: a datagram to a port without a listener is discarded.
        let Body::Udp(Datagram { destination_port, offset, length, .. }) = packet.body else { return };
        if destination_port != self.source_port {
            return;
        }
        self.received += 1;
        self.received_bytes += u64::from(length);
        self.marked += u64::from(packet.ecn == Ecn::Ce);
        let received = Received::unordered(Payload { offset, length });
        self.outputs.push_back(Output::Event(Event::Received(received)));
    }
}

impl Transport for Config {
    type Endpoint = UdpEndpoint;

    fn build(&self, site: &Site<'_>) -> Result<UdpEndpoint, String> {
        self.check(site.mtus.len())?;
        Ok(UdpEndpoint::new(self, site.side, site.mtus.len(), site.ip))
    }
}

impl Endpoint for UdpEndpoint {
    fn protocol(&self) -> &'static str {
        "udp"
    }

    fn service(&self) -> Service {
        Service::Datagrams
    }

    fn owns(&self, packet: &Packet) -> bool {
        let Body::Udp(datagram) = &packet.body else { return false };
        [datagram.destination_port, datagram.source_port] == [self.source_port, self.destination_port]
    }

    #[inline(never)]
    fn handle_input(&mut self, _now: Time, input: Input) {
        match input {
            Input::Command(Command::Send(Message { payload, .. })) => self.send(payload),
            Input::Packet(packet) => self.receive(&packet),
            Input::Command(Command::Connect) => self.outputs.push_back(Output::Event(Event::Connected)),
            Input::Command(Command::Abort) => {
                self.outputs.push_back(Output::Event(Event::Closed(CloseReason::Aborted)));
            }
            Input::Command(Command::Shutdown) => {
                self.outputs.push_back(Output::Event(Event::Closed(CloseReason::Shutdown)));
            }
            Input::Command(Command::SetPrimary(path)) if path.index() < self.paths => self.path = path,
            Input::Command(
                command @ (Command::AddAddress(_)
                | Command::DeleteAddress(_)
                | Command::PauseReading
                | Command::Rebind { .. }
                | Command::RequestKeyFrame
                | Command::ResumeReading
                | Command::SetPeerPrimary(_)
                | Command::SetPrimary(_)),
            ) => self.outputs.push_back(Output::Event(Event::Unsupported(command.name()))),
            Input::Timeout => {}
        }
    }

    fn poll_output(&mut self, _now: Time) -> Output {
        self.outputs.pop_front().unwrap_or(Output::Timeout(Time::NEVER))
    }
}

impl Multipath for UdpEndpoint {}

impl Observed for UdpEndpoint {
    /// UDP knows nothing about its path.
    fn sample_paths(&self, _samples: &mut Vec<PathSample>) {}

    fn report(&self, report: &mut Report<'_>) {
        report.count(DATAGRAMS_SENT, self.sent);
        report.count(BYTES_SENT, self.sent_bytes);
        report.count(DATAGRAMS_RECEIVED, self.received);
        report.count(BYTES_DELIVERED, self.received_bytes);
        report.count(REFUSED, self.refused);
        if self.duplicate_on.is_some() {
            report.count(COPIES_SENT, self.sent);
        }
        if self.ecn != Ecn::NotEct {
            report.count(CE_RECEIVED, self.marked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::UdpEcn;

    const PAYLOAD: Payload = Payload { offset: 320, length: 160 };

    fn send(payload: Payload) -> Input {
        let message = Message { unordered: true, ..Message::new(payload) };
        Input::Command(Command::Send(message))
    }

    fn drain(endpoint: &mut UdpEndpoint, input: Input) -> Vec<Output> {
        endpoint.handle_input(Time::ZERO, input);
        let mut outputs = Vec::new();
        loop {
            match endpoint.poll_output(Time::ZERO) {
                Output::Timeout(at) => {
                    assert!(at.is_never());
                    return outputs;
                }
                output => outputs.push(output),
            }
        }
    }

    #[test]
    fn sizes_add_up_and_messages_arrive() {
        for (rtp, ip, size) in [
            (false, IpVersion::Ipv4, 20 + 8 + 160),
            (true, IpVersion::Ipv4, 20 + 8 + 12 + 160),
            (true, IpVersion::Ipv6, 40 + 8 + 12 + 160),
        ] {
            let config = Config { rtp, path: 1, ..Config::default() };
            let mut a = UdpEndpoint::new(&config, Side::A, 1, ip);
            let mut b = UdpEndpoint::new(&config, Side::B, 1, ip);
            assert_eq!(drain(&mut a, Input::Command(Command::Connect)), [Output::Event(Event::Connected)]);
            let mut outputs = drain(&mut a, send(PAYLOAD));
            let Some(Output::Transmit(packet)) = outputs.pop() else { panic!("{outputs:?}") };
            assert_eq!((packet.size, packet.path), (size, PathId(1)));
            let received = Received::unordered(PAYLOAD);
            assert_eq!(
                drain(&mut b, Input::Packet(packet.clone())),
                [Output::Event(Event::Received(received))]
            );
            // Its sender does not listen at the destination's port.
            assert_eq!(drain(&mut a, Input::Packet(packet)), []);
        }
    }

    /// RFC 8085 section 3.1.7: a sender says what it is capable of in each packet, and a receiver sees marks.
    #[test]
    fn packets_say_what_they_are_and_marks_are_counted() {
        for (ecn, field) in [(UdpEcn::Off, Ecn::NotEct), (UdpEcn::Ect0, Ecn::Ect0), (UdpEcn::Ect1, Ecn::Ect1)]
        {
            let config = Config { ecn, ..Config::default() };
            let mut a = UdpEndpoint::new(&config, Side::A, 1, IpVersion::Ipv4);
            let mut b = UdpEndpoint::new(&config, Side::B, 1, IpVersion::Ipv4);
            for mark in [field, Ecn::Ce] {
                let [Output::Transmit(packet)] = &mut drain(&mut a, send(PAYLOAD))[..] else { panic!() };
                assert_eq!(packet.ecn, field);
                packet.ecn = mark;
                drain(&mut b, Input::Packet(packet.clone()));
            }
            assert_eq!((b.received, b.marked), (2, 1));
        }
    }

    #[test]
    fn a_message_longer_than_a_packet_is_refused() {
        let mut a = UdpEndpoint::new(&Config::default(), Side::A, 1, IpVersion::Ipv4);
        let longest = Payload { offset: 0, length: 65_535 - 28 };
        assert!(matches!(drain(&mut a, send(longest))[..], [Output::Transmit(_)]));
        let longer = Payload { offset: 0, length: u32::MAX };
        assert_eq!(drain(&mut a, send(longer)), [Output::Event(Event::Refused(longer))]);
    }

    #[test]
    fn a_copy_with_the_same_header_leaves_on_the_other_path() {
        let config = Config { rtp: true, duplicate_on: Some(1), ..Config::default() };
        let mut a = UdpEndpoint::new(&config, Side::A, 2, IpVersion::Ipv4);
        for _ in 0..2 {
            let outputs = drain(&mut a, send(PAYLOAD));
            let [Output::Transmit(packet), Output::Transmit(copy)] = &outputs[..] else {
                panic!("{outputs:?}")
            };
            assert_eq!((packet.path, copy.path), (PathId(0), PathId(1)));
            assert_eq!((&packet.body, packet.size), (&copy.body, copy.size));
        }
        let message = |other| Config { duplicate_on: Some(other), ..Config::default() }.check(2).unwrap_err();
        for other in [0, 2] {
            let sentence = "is not another one of the flow's paths, 0 to 1, than path = 0";
            assert_eq!(message(other), format!("duplicate_on = {other} {sentence}"));
        }
        assert_eq!(config.check(2), Ok(()));
    }

    #[test]
    fn a_path_to_nowhere_is_an_error() {
        let message = Config { path: 2, ..Config::default() }.check(2).unwrap_err();
        assert_eq!(message, "path = 2 is not one of the flow's paths, 0 to 1");
        assert_eq!(Config::default().check(1), Ok(()));
    }
}
