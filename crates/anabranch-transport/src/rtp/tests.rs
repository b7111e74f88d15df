//! Two ends and a network between them that takes 10 ms and drops what a test names.

use std::collections::VecDeque;

use super::{Config, RtpEndpoint};
use crate::cc::media::{self, cbr};
use crate::endpoint::{Command, Endpoint as _, Event, Input, Message, Output, Site, Transport as _};
use crate::flow::{Ecn, IpVersion, PathId, Payload, Side};
use crate::observed::Observed as _;
use crate::report::Row;
use crate::rng::Streams;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};
use crate::wire::rtcp::{self, CongestionFeedback, Metric, Nack, StreamReport};
use crate::wire::{Body, Packet};

const DELAY: Duration = Duration::from_millis(10);

struct Pair {
    now: Time,
    ends: [RtpEndpoint; 2],
    timeouts: [Time; 2],
    network: VecDeque<(Time, Side, Box<Packet>)>,
    sent: Vec<(Time, Side, Packet)>,
    events: Vec<(Time, Side, Event)>,
    /// Which packets of media get lost, by their place among those of side A.
    lost: fn(usize, &Packet) -> bool,
}

impl Pair {
    fn new(config: &Config, lost: fn(usize, &Packet) -> bool) -> Self {
        let end = |side| {
            let streams = Streams { seed: 1, replication: 0 };
            let site = Site { side, mtus: &[1_500], ip: IpVersion::Ipv4, streams, connection: "flow/x" };
            config.build(&site).expect("the settings are possible")
        };
        let ends = [Side::A, Side::B].map(end);
        let (sent, events) = (Vec::new(), Vec::new());
        Self {
            now: Time::ZERO,
            ends,
            timeouts: [Time::NEVER; 2],
            network: VecDeque::new(),
            sent,
            events,
            lost,
        }
    }

    fn input(&mut self, side: Side, input: Input) {
        let end = &mut self.ends[side.index()];
        end.handle_input(self.now, input);
        loop {
            match end.poll_output(self.now) {
                Output::Transmit(packet) => {
                    let of_a = self.sent.iter().filter(|(_, from, _)| *from == Side::A).count();
                    if side == Side::B || !(self.lost)(of_a, &packet) {
                        self.network.push_back((self.now + DELAY, side.peer(), packet.clone()));
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

    fn run_until(&mut self, end: Time) {
        loop {
            let arrival = self.network.front().map_or(Time::NEVER, |(at, ..)| *at);
            let next = arrival.min(self.timeouts[0]).min(self.timeouts[1]);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if arrival == next {
                let (_, to, packet) = self.network.pop_front().expect("there is one");
                self.input(to, Input::Packet(packet));
            } else {
                let side = if self.timeouts[0] == next { Side::A } else { Side::B };
                self.input(side, Input::Timeout);
            }
        }
    }

    /// A frame of so many packets of 1000 bytes, from this place in the stream on.
    fn send(&mut self, offset: u64, packets: u64) {
        for packet in 0..packets {
            let payload = Payload { offset: offset + packet * 1_000, length: 1_000 };
            let message = Message { more: packet + 1 < packets, ..Message::new(payload) };
            self.input(Side::A, Input::Command(Command::Send(message)));
        }
    }

    fn received(&self) -> Vec<u64> {
        let offset = |(_, _, event): &(Time, Side, Event)| match event {
            Event::Received(received) => Some(received.payload.offset),
            _ => None,
        };
        self.events.iter().filter_map(offset).collect()
    }

    fn value(&self, side: Side, name: &str) -> f64 {
        let mut row = Row::default();
        self.ends[side.index()].report(&mut row.section("x"));
        row.value(&format!("x.{name}")).expect("it is reported")
    }

    fn rtcp(&self, side: Side, name: &str) -> Vec<Time> {
        let is_it = |packet: &Packet| match &packet.body {
            Body::Rtcp(datagram) => datagram.packets.iter().any(|packet| packet.name() == name),
            _ => false,
        };
        self.sent.iter().filter(|(_, from, p)| *from == side && is_it(p)).map(|(at, ..)| *at).collect()
    }
}

fn cbr() -> Config {
    let cc = media::Config::Cbr(cbr::Config { rate: Rate::from_bits_per_sec(1_000_000) });
    Config { cc, ..Config::default() }
}

#[test]
fn a_frame_is_paced_and_ends_with_the_marker() {
    let mut pair = Pair::new(&cbr(), |_, _| false);
    pair.input(Side::A, Input::Command(Command::Connect));
    assert!(matches!(pair.events[..], [(_, _, Event::Connected), (_, _, Event::TargetRate(_))]));
    pair.send(0, 3);
    pair.run_until(Time::from_millis(50));
    assert_eq!(pair.received(), [0, 1_000, 2_000]);
    let header = |packet: &Packet| match packet.body {
        Body::Udp(datagram) => datagram.rtp,
        _ => None,
    };
    let headers: Vec<_> = pair.sent.iter().filter_map(|(at, _, p)| Some((*at, header(p)?))).collect();
    assert_eq!(headers.iter().map(|(_, rtp)| rtp.marker).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(headers.iter().map(|(_, rtp)| rtp.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    // At 1.5 Mbit/s, 1040 bytes take 5.547 ms.
    assert_eq!(headers[1].0.as_nanos() / 1_000, 5_546);
}

#[test]
fn what_is_lost_is_asked_for_and_comes_again() {
    let mut pair = Pair::new(&cbr(), |number, _| number == 1);
    pair.send(0, 3);
    pair.run_until(Time::from_millis(90));
    assert_eq!(pair.received(), [0, 2_000, 1_000]);
    assert_eq!(pair.rtcp(Side::B, "nack").len(), 1);
    assert_eq!(pair.value(Side::A, "retransmissions_sent"), 1.0);
    assert_eq!(pair.value(Side::B, "packets_recovered"), 1.0);
    pair.run_until(Time::from_millis(200));
    assert_eq!(pair.value(Side::A, "packets_lost"), 1.0);
    let sample = pair.ends[0].sample_media().unwrap();
    assert_eq!(sample.rtt.unwrap().as_nanos().abs_diff(20_000_000) / 1_000_000, 0, "{sample:?}");
    // An offset has a resolution of 1/1024 s.
    assert!((sample.one_way_delay_ms - 10.0).abs() < 1.0, "{sample:?}");
    assert!((sample.loss - 0.25).abs() < 1e-9, "three packets and one again: {sample:?}");
}

#[test]
fn a_packet_that_never_comes_is_given_up() {
    let config = Config { nack_limit: 3, ..cbr() };
    let mut pair = Pair::new(&config, |number, packet| {
        number == 0 && matches!(packet.body, Body::Udp(_)) || packet.body.describe().0 == "retransmission"
    });
    pair.send(0, 1);
    pair.send(1_000, 1);
    pair.run_until(Time::from_millis(20));
    assert_eq!(pair.received(), [1_000], "what is lost before the first arrival is unknown");
    pair.send(2_000, 1);
    pair.run_until(Time::from_secs(2));
    assert_eq!(pair.value(Side::B, "nacks_sent"), 0.0);
    let mut pair =
        Pair::new(&config, |number, packet| number == 1 || packet.body.describe().0 == "retransmission");
    pair.send(0, 3);
    pair.run_until(Time::from_secs(2));
    assert_eq!(pair.rtcp(Side::B, "nack").len(), 3);
    assert_eq!(pair.received(), [0, 2_000]);
}

#[test]
fn feedback_comes_at_its_interval_and_stops_with_the_media() {
    let mut pair = Pair::new(&cbr(), |_, _| false);
    for frame in 0..10 {
        pair.send(frame * 1_000, 1);
        pair.run_until(Time::from_millis(40 * (frame + 1)));
    }
    pair.run_until(Time::from_secs(10));
    let feedback = pair.rtcp(Side::B, "feedback");
    let gaps: Vec<_> = feedback.windows(2).map(|two| (two[1] - two[0]).as_nanos() / 1_000_000).collect();
    assert_eq!((feedback.len(), &gaps[..]), (4, &[100, 100, 100][..]), "{feedback:?}");
    assert!(pair.rtcp(Side::B, "receiver_report").len() >= 5);
    assert_eq!(pair.rtcp(Side::A, "sender_report").len(), 1, "it has sent media in the first second only");
}

#[test]
fn feedback_comes_with_the_last_packet_of_each_frame() {
    let config = Config { feedback_per_frame: true, ..cbr() };
    let mut pair = Pair::new(&config, |_, _| false);
    for frame in 0..3 {
        pair.send(frame * 2_000, 2);
        pair.run_until(Time::from_millis(40 * (frame + 1)));
    }
    // The second packet of each frame leaves 5.547 ms after the first, and takes 10 ms.
    let feedback: Vec<_> =
        pair.rtcp(Side::B, "feedback").iter().map(|at| at.as_nanos() / 1_000_000).collect();
    assert_eq!(feedback, [15, 55, 95]);
}

/// A control with a window sends no more than it, and goes on when all of that is lost.
#[test]
fn a_window_bounds_what_is_in_flight() {
    let cc = media::Config::Scream(media::scream::Config::default());
    let mut pair =
        Pair::new(&Config { cc, ..Config::default() }, |_, packet| matches!(packet.body, Body::Udp(_)));
    pair.send(0, 30);
    pair.run_until(Time::from_millis(490));
    let sent = |pair: &Pair| pair.value(Side::A, "packets_sent");
    // Three windows of 3000 bytes.
    assert_eq!(sent(&pair), 8.0);
    pair.run_until(Time::from_secs(2));
    assert!(sent(&pair) >= 16.0, "{}", sent(&pair));
}

/// A probe is padded with what was sent last, which the receiver knows already.
#[test]
fn a_probe_sends_packets_again_where_no_media_waits() {
    let cc = media::Config::Gcc(media::gcc::Config::default());
    let mut pair = Pair::new(&Config { cc, ..Config::default() }, |_, _| false);
    pair.send(0, 1);
    pair.run_until(Time::from_millis(400));
    // Five packets at 450 kbit/s, of which one is media, five at 900, and as those arrive well, five at 1500.
    assert_eq!(pair.value(Side::A, "padding_sent"), 14.0);
    assert_eq!(pair.value(Side::B, "duplicates_received"), 14.0);
    assert_eq!(pair.received(), [0]);
    assert!(pair.ends[0].sample_media().unwrap().target.bits_per_sec() > 600_000);
}

#[test]
fn a_key_frame_is_asked_for() {
    let mut pair = Pair::new(&cbr(), |_, _| false);
    pair.send(0, 1);
    pair.input(Side::B, Input::Command(Command::RequestKeyFrame));
    pair.run_until(Time::from_millis(30));
    assert!(pair.events.contains(&(Time::from_millis(10), Side::A, Event::KeyFrameRequested)));
}

#[test]
fn more_than_the_buffer_holds_is_refused() {
    let config = Config { send_buffer: Bytes(2_500), ..cbr() };
    let mut pair = Pair::new(&config, |_, _| false);
    // The first one leaves at once.
    pair.send(0, 4);
    assert_eq!(pair.value(Side::A, "refused"), 1.0);
    let payload = Payload { offset: 0, length: u32::MAX };
    pair.input(Side::A, Input::Command(Command::Send(Message::new(payload))));
    assert_eq!(pair.value(Side::A, "refused"), 2.0);
}

#[test]
fn marks_are_reported() {
    let config = Config { ecn: crate::udp::UdpEcn::Ect1, ..cbr() };
    let mut pair = Pair::new(&config, |_, _| false);
    pair.send(0, 2);
    for (_, _, packet) in &mut pair.network {
        assert_eq!(packet.ecn, Ecn::Ect1);
        packet.ecn = Ecn::Ce;
    }
    pair.run_until(Time::from_millis(300));
    assert_eq!(pair.value(Side::A, "ce_reported"), 1.0, "the second one was still waiting");
}

/// RTCP that no peer would send is dropped and counted, and a storm of NACKs costs no more than the budget.
#[test]
fn hostile_reports_do_no_harm() {
    let config = Config { retransmission_share: 0.02, ..cbr() };
    let mut pair = Pair::new(&config, |_, _| false);
    pair.send(0, 50);
    pair.run_until(Time::from_secs(1));
    let before = pair.value(Side::A, "strangers");
    let (a, b) = (49_152, 5_004);
    let deliver = |pair: &mut Pair, packet: rtcp::Packet| {
        let datagram = rtcp::Datagram { source_port: 5_004, destination_port: 49_152, packets: vec![packet] };
        let body = Body::Rtcp(Box::new(datagram));
        let packet = Packet { path: PathId(0), ecn: Ecn::NotEct, size: 100, body };
        pair.input(Side::A, Input::Packet(Box::new(packet)));
    };
    let feedback = |sender, ssrc, begin, count, timestamp| {
        let metrics = vec![Metric::arrived(Ecn::NotEct, 0x1fff); count];
        let streams = vec![StreamReport { ssrc, begin, metrics }];
        rtcp::Packet::CongestionFeedback(CongestionFeedback { sender, streams, timestamp })
    };
    deliver(&mut pair, feedback(7, a, 0, 10, 0));
    deliver(&mut pair, feedback(b, 7, 0, 10, 0));
    assert_eq!(pair.value(Side::A, "strangers") - before, 2.0);
    deliver(&mut pair, feedback(b, a, 0, 16_384, u32::MAX));
    deliver(&mut pair, feedback(b, a, 40_000, 16_384, 1 << 31));
    assert_eq!(pair.value(Side::A, "unknown_reports"), 32_718.0);
    for _ in 0..100 {
        deliver(&mut pair, rtcp::Packet::Nack(Nack::of(b, a, (0..u16::MAX).step_by(7))));
    }
    pair.run_until(Time::from_secs(2));
    // 2 % of 1 Mbit/s, half a second at first, and one more second.
    assert!(pair.value(Side::A, "retransmissions_sent") <= 2.0);
    assert!(pair.value(Side::A, "retransmissions_denied") > 1_000.0);
}

#[test]
fn settings_out_of_range_are_one_sentence() {
    let message = |config: Config| config.check(1).unwrap_err();
    assert_eq!(Config::default().check(1), Ok(()));
    let path = message(Config { path: 1, ..Config::default() });
    assert_eq!(path, "path = 1 is not one of the flow's paths, 0 to 0");
    let kind = message(Config { payload_type: 72, ..Config::default() });
    assert_eq!(kind, "payload_type = 72 is out of range; it must be from 96 to 126");
    let interval = message(Config { feedback_interval: Duration::ZERO, ..Config::default() });
    assert_eq!(interval, "feedback_interval = \"0 s\" is out of range; it must be from 1 ms to 10 s");
}
