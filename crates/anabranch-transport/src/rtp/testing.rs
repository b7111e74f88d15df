//! Two ends and a network between them whose paths take 10 ms or what a test says, and drop what it names.

use std::collections::BTreeMap;

use super::{Config, RtpEndpoint};
use crate::cc::media::{self, cbr};
use crate::endpoint::{Command, Endpoint as _, Event, Input, Message, Output, Site, Transport as _};
use crate::flow::{IpVersion, PathId, Payload, Side};
use crate::observed::Observed as _;
use crate::report::Row;
use crate::rng::Streams;
use crate::time::{Duration, Time};
use crate::units::Rate;
use crate::wire::{Body, Packet};

/// Says of a packet whether it gets lost: who sends it, and when.
pub(super) type Lost = Box<dyn FnMut(Time, Side, &Packet) -> bool>;

pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) ends: [RtpEndpoint; 2],
    timeouts: [Time; 2],
    /// What is on its way, by the time of its arrival.
    pub(super) network: BTreeMap<(Time, usize), (Side, Box<Packet>)>,
    pub(super) sent: Vec<(Time, Side, Packet)>,
    pub(super) events: Vec<(Time, Side, Event)>,
    /// How long a packet takes on each path.
    pub(super) delays: Vec<Duration>,
    lost: Lost,
}

impl Pair {
    /// Ends with one path, which loses these packets of side A, given by their place among its packets.
    pub(super) fn new(config: &Config, lost: fn(usize, &Packet) -> bool) -> Self {
        let mut of_a = 0;
        let lost = move |_: Time, side: Side, packet: &Packet| {
            of_a += usize::from(side == Side::A);
            side == Side::A && lost(of_a - 1, packet)
        };
        Self::with_paths(config, &[10], Box::new(lost))
    }

    /// Ends with paths that take so many ms.
    pub(super) fn with_paths(config: &Config, delays_ms: &[u64], lost: Lost) -> Self {
        let mtus = vec![1_500; delays_ms.len()];
        let end = |side| {
            let streams = Streams { seed: 1, replication: 0 };
            let site = Site { side, mtus: &mtus, ip: IpVersion::Ipv4, streams, connection: "flow/x" };
            config.build(&site).expect("the settings are possible")
        };
        Self {
            now: Time::ZERO,
            ends: [Side::A, Side::B].map(end),
            timeouts: [Time::NEVER; 2],
            network: BTreeMap::new(),
            sent: Vec::new(),
            events: Vec::new(),
            delays: delays_ms.iter().map(|&ms| Duration::from_millis(ms)).collect(),
            lost,
        }
    }

    pub(super) fn input(&mut self, side: Side, input: Input) {
        self.ends[side.index()].handle_input(self.now, input);
        loop {
            match self.ends[side.index()].poll_output(self.now) {
                Output::Transmit(packet) => {
                    if !(self.lost)(self.now, side, &packet) {
                        let at = self.now + self.delays[packet.path.index()];
                        self.network.insert((at, self.sent.len()), (side.peer(), packet.clone()));
                    }
                    self.sent.push((self.now, side, *packet));
                }
                Output::Event(event) => self.events.push((self.now, side, event)),
                Output::Timeout(at) => {
                    assert!(at > self.now, "a timeout lies later");
                    self.timeouts[side.index()] = at;
                    break;
                }
            }
        }
    }

    pub(super) fn run_until(&mut self, end: Time) {
        loop {
            let arrival = self.network.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
            let next = arrival.min(self.timeouts[0]).min(self.timeouts[1]);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if arrival == next {
                let (_, (to, packet)) = self.network.pop_first().expect("there is one");
                self.input(to, Input::Packet(packet));
            } else {
                let side = if self.timeouts[0] == next { Side::A } else { Side::B };
                self.input(side, Input::Timeout);
            }
        }
    }

    /// A frame of so many packets of 1000 bytes, from this place in the stream on.
    pub(super) fn send(&mut self, offset: u64, packets: u64) {
        for packet in 0..packets {
            let payload = Payload { offset: offset + packet * 1_000, length: 1_000 };
            let message = Message { more: packet + 1 < packets, ..Message::new(payload) };
            self.input(Side::A, Input::Command(Command::Send(message)));
        }
    }

    /// Sends a packet each 10 ms from now until this time.
    pub(super) fn send_until(&mut self, end: Time) {
        let mut offset = self.now.as_nanos() / 10_000;
        while self.now < end {
            self.send(offset, 1);
            offset += 1_000;
            self.run_until((self.now + Duration::from_millis(10)).min(end));
        }
    }

    pub(super) fn received(&self) -> Vec<u64> {
        let offset = |(_, _, event): &(Time, Side, Event)| match event {
            Event::Received(received) => Some(received.payload.offset),
            _ => None,
        };
        self.events.iter().filter_map(offset).collect()
    }

    pub(super) fn value(&self, side: Side, name: &str) -> f64 {
        let mut row = Row::default();
        self.ends[side.index()].report(&mut row.section("x"));
        row.value(&format!("x.{name}")).expect("it is reported")
    }

    pub(super) fn rtcp(&self, side: Side, name: &str) -> Vec<Time> {
        let is_it = |packet: &Packet| match &packet.body {
            Body::Rtcp(datagram) => datagram.packets.iter().any(|packet| packet.name() == name),
            _ => false,
        };
        self.sent.iter().filter(|(_, from, p)| *from == side && is_it(p)).map(|(at, ..)| *at).collect()
    }

    /// Packets of media and retransmissions that were sent on each path from this time on.
    pub(super) fn media_on(&self, from: Time) -> Vec<usize> {
        let mut counts = vec![0; self.delays.len()];
        for (_, _, packet) in self.sent.iter().filter(|(at, ..)| *at >= from) {
            counts[packet.path.index()] += usize::from(matches!(packet.body, Body::Udp(_)));
        }
        counts
    }
}

/// A constant rate of 1 Mbit/s.
pub(super) fn cbr() -> Config {
    let cc = media::Config::Cbr(cbr::Config { rate: Rate::from_bits_per_sec(1_000_000) });
    Config { cc, ..Config::default() }
}

/// The path of a packet, where it is one of media or a retransmission.
pub(super) fn media_path(packet: &Packet) -> Option<PathId> {
    matches!(packet.body, Body::Udp(_)).then_some(packet.path)
}
