//! Two ends on one path.

use super::Config;
use super::testing::{Pair, cbr};
use crate::cc::media;
use crate::endpoint::{Command, Event, Input, Message};
use crate::flow::{Ecn, Payload, Side};
use crate::observed::Observed as _;
use crate::time::{Duration, Time};
use crate::units::Bytes;
use crate::wire::{Body, Packet};

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
    // Five packets at 450 kbit/s, of which one is media, and five at 900.
    assert_eq!(pair.value(Side::A, "padding_sent"), 9.0);
    // As those arrive well, five at 1500 kbit/s follow, the next packet of media first.
    pair.send(1_000, 1);
    pair.run_until(Time::from_millis(800));
    assert_eq!(pair.value(Side::A, "padding_sent"), 13.0);
    assert_eq!(pair.value(Side::B, "duplicates_received"), 13.0);
    assert_eq!(pair.received(), [0, 1_000]);
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
    for (_, packet) in pair.network.values_mut() {
        assert_eq!(packet.ecn, Ecn::Ect1);
        packet.ecn = Ecn::Ce;
    }
    pair.run_until(Time::from_millis(300));
    assert_eq!(pair.value(Side::A, "ce_reported"), 1.0, "the second one was still waiting");
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
