//! RFC 9293 section 3.5, RFC 7323, RFC 6298 section 5.

use super::*;
use crate::endpoint::{CloseReason, Command, Event, Site};
use crate::flow::{Ecn, IpVersion, PathId, Side};
use crate::listener::{Answer, Listen as _, Listener as _};
use crate::rng::Streams;
use crate::tcp::connection::State;
use crate::tcp::testing::{Drill, Logged, Pair, config, ms};
use crate::time::{Duration, Time};
use crate::units::Bytes;
use crate::wire::tcp::{Flags, Segment};
use crate::wire::{Body, Packet};

const ALL: [Profile; 3] = [Profile::Linux6, Profile::Linux2620, Profile::Rfc];

#[test]
fn rfc9293_3_5_takes_one_round_trip_and_a_half() {
    for profile in ALL {
        let mut pair = Pair::new(&config(profile));
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(200));
        assert_eq!(pair.events[0], [(Time::from_millis(40), Event::Connected)]);
        assert_eq!(pair.events[1], [(Time::from_millis(60), Event::Connected)]);
        let flags: Vec<Flags> = pair.log.iter().map(|logged| logged.segment.flags).collect();
        assert_eq!(flags, [Flags::SYN, Flags::SYN.with(Flags::ACK), Flags::ACK]);
    }
}

#[test]
fn rfc7323_2_2_the_window_of_syn_is_not_scaled() {
    let untuned = Config { receive_autotuning: Some(false), ..linux() };
    let mut pair = Pair::new(&untuned);
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(200));
    let [syn, syn_ack, ack] = [0, 1, 2].map(|index| &pair.log[index].segment);
    assert_eq!((syn.window, syn.window_scale), (65_535, Some(7)));
    assert_eq!((syn_ack.window, syn_ack.window_scale), (65_535, Some(7)));
    assert_eq!(u32::from(ack.window) << 7, (6 << 20) / 128 * 128, "all of the buffer, scaled");
    let small = Config { receive_buffer: Some(Bytes(30_000)), ..untuned };
    let mut pair = Pair::new(&small);
    pair.command(Side::A, Command::Connect);
    assert_eq!((pair.log[0].segment.window, pair.log[0].segment.window_scale), (30_000, Some(0)));
}

#[test]
fn rfc9293_3_7_1_segments_have_the_smaller_size_less_the_options() {
    for (mss, timestamps, expected) in
        [(None, true, 1_448), (None, false, 1_460), (Some(Bytes(1_000)), true, 988)]
    {
        let settings = Config { mss, timestamps: Some(timestamps), ..linux() };
        let mut pair = Pair::seeded([&linux(), &settings], 1);
        pair.command(Side::A, Command::Connect);
        pair.run_for(ms(100));
        pair.write(Side::A, 20_000);
        pair.run_for(ms(100));
        let longest = pair.data(Side::A).iter().map(|logged| logged.segment.payload.length).max();
        assert_eq!(longest, Some(expected));
    }
}

fn syn_times(settings: &Config, until: Duration) -> Vec<u64> {
    let settings = Config { clock_granularity: Some(Duration::ZERO), ..settings.clone() };
    let mut pair = Pair::new(&settings);
    pair.drop_if = Box::new(|_, _, _| true);
    pair.command(Side::A, Command::Connect);
    pair.run_for(until);
    pair.log.iter().map(|logged| logged.at_ms() / 1_000).collect()
}

#[test]
fn rfc6298_5_5_syn_is_sent_again_with_doubled_timeouts() {
    let until = Duration::from_secs(20);
    assert_eq!(syn_times(&rfc(), until), [0, 1, 3, 7, 15]);
    assert_eq!(syn_times(&config(Profile::Linux2620), until), [0, 3, 9]);
    // Linux since 6.5: the timeout doubles only after four timeouts.
    assert_eq!(syn_times(&linux(), until), [0, 1, 2, 3, 4, 5, 7, 11, 19]);
}

#[test]
fn rfc9293_3_8_3_an_unreachable_peer_is_given_up() {
    let mut pair = Pair::new(&Config { syn_retries: Some(2), ..linux() });
    pair.drop_if = Box::new(|_, _, _| true);
    pair.command(Side::A, Command::Connect);
    pair.run_for(Duration::from_secs(6));
    assert_eq!(pair.closed(Side::A), None);
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Lost));
    // Linux since 6.5: the four timeouts without back-off do not count, but two with it take seven seconds.
    assert_eq!(pair.log.len(), 6);
    let mut pair = Pair::new(&Config { syn_retries: Some(2), ..rfc() });
    pair.drop_if = Box::new(|_, _, _| true);
    pair.command(Side::A, Command::Connect);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Lost));
    assert_eq!(pair.log.len(), 3);
}

#[test]
fn rfc9293_3_5_a_lost_ack_is_made_up_for_by_data() {
    let mut pair = Pair::new(&linux());
    let mut left = 1;
    pair.drop_if = Box::new(move |_, from, segment| {
        let drop = left > 0 && from == Side::A && segment.flags == Flags::ACK;
        left -= usize::from(drop);
        drop
    });
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(50));
    pair.write(Side::A, 1_000);
    pair.run_for(ms(100));
    assert_eq!(pair.received_bytes(Side::B), 1_000);
}

#[test]
fn rfc9293_3_5_both_ends_may_open_at_the_same_time() {
    let mut pair = Pair::new(&linux());
    pair.command(Side::A, Command::Connect);
    pair.command(Side::B, Command::Connect);
    pair.run_for(ms(200));
    assert!(pair.heard(Side::A, &Event::Connected) && pair.heard(Side::B, &Event::Connected));
    pair.write(Side::A, 5_000);
    pair.write(Side::B, 5_000);
    pair.run_for(ms(500));
    assert_eq!((pair.received_bytes(Side::A), pair.received_bytes(Side::B)), (5_000, 5_000));
}

const RST: Flags = Flags::RST;
const ACK: Flags = Flags::ACK;

/// What has been sent since the last call: flags, and how far behind our SYN and the peer's it lies and
/// acknowledges.
fn sent(drill: &mut Drill) -> Vec<(Flags, u32, u32)> {
    let (own, peer) = (drill.own, drill.peer);
    let numbers = |logged: &Logged| {
        let Segment { flags, sequence, acknowledgement, .. } = logged.segment;
        let acknowledges = if flags.has(ACK) { acknowledgement.wrapping_sub(peer) } else { 0 };
        (flags, sequence.wrapping_sub(own), acknowledges)
    };
    drill.sent().iter().map(numbers).collect()
}

#[test]
fn linux_sends_a_syn_again_at_once_after_a_wrong_acknowledgement() {
    for (settings, at) in [(rfc(), 1_000), (config(Profile::Linux2620), 3_000), (linux(), 102)] {
        let mut drill = Drill::opening(&settings, false);
        drill.at(100).segment(1_000, 5_000, ACK);
        assert_eq!(sent(&mut drill), [(RST, 5_000, 0)]);
        drill.at(at - 1);
        assert_eq!(sent(&mut drill), []);
        drill.at(at);
        assert_eq!(sent(&mut drill), [(Flags::SYN, 0, 0)]);
    }
    let mut drill = Drill::opening(&linux(), false);
    drill.at(100).segment(1_000, 5_000, RST.with(ACK)).at(102);
    assert_eq!(sent(&mut drill), [(Flags::SYN, 0, 0)], "a reset is not answered, but the same holds");
    drill.at(200).segment(1_000, 5_000, ACK).at(300);
    assert_eq!(sent(&mut drill), [(RST, 5_000, 0)], "only the first SYN");
}

#[test]
fn rfc5961_3_2_a_reset_in_syn_received_must_have_the_number_that_is_expected() {
    for settings in [rfc(), linux()] {
        let mut drill = Drill::accepting(&settings, false);
        drill.segment(1_000, 0, RST);
        assert_eq!(sent(&mut drill), [(ACK, 1, 1)], "a challenge");
        drill.segment(100_000, 0, RST).segment(0, 0, RST);
        assert_eq!(sent(&mut drill), [], "beside the window");
        assert_eq!(drill.end.state, State::SynReceived);
        drill.segment(1, 1, ACK);
        assert_eq!(drill.events, [Event::Connected]);
        let mut drill = Drill::accepting(&settings, false);
        drill.segment(1, 0, RST);
        assert_eq!((drill.end.state, drill.events.as_slice()), (State::Closed, &[][..]));
        drill.segment(1, 1, ACK);
        assert_eq!(sent(&mut drill), [(RST, 1, 0)]);
    }
}

#[test]
fn a_reset_with_a_wrong_acknowledgement_ends_no_request_of_linux() {
    for (settings, state) in [(rfc(), State::Closed), (linux(), State::SynReceived)] {
        let mut drill = Drill::accepting(&settings, false);
        drill.segment(1, 9, RST.with(ACK));
        assert_eq!((drill.end.state, sent(&mut drill)), (state, vec![]));
    }
    for settings in [rfc(), linux()] {
        let mut drill = Drill::accepting(&settings, false);
        drill.segment(1, 9, ACK);
        assert_eq!(sent(&mut drill), [(RST, 9, 0)]);
        assert_eq!(drill.end.state, State::SynReceived);
    }
}

#[test]
fn rfc9293_3_10_7_4_segments_beside_the_window_open_nothing() {
    for (settings, answers) in [(rfc(), 3), (linux(), 1)] {
        let mut drill = Drill::accepting(&settings, false);
        drill.segment(100_000, 1, ACK).segment(0, 1, ACK).segment(0, 1, Flags::SYN.with(ACK));
        assert_eq!(sent(&mut drill), vec![(ACK, 1, 1); answers]);
        assert_eq!(drill.end.state, State::SynReceived);
        // RFC 7323 section 5.3: what is older than the SYN.
        let mut drill = Drill::accepting(&settings, true);
        drill.stamp(0).segment(1, 1, ACK);
        assert_eq!((sent(&mut drill), drill.end.state), (vec![(ACK, 1, 1)], State::SynReceived));
        drill.stamp(1).segment(1, 1, ACK);
        assert_eq!(drill.end.state, State::Established);
    }
}

#[test]
fn another_syn_ends_a_request() {
    for (settings, answer) in [(rfc(), None), (linux(), Some((RST.with(ACK), 501)))] {
        let mut drill = Drill::accepting(&settings, false);
        drill.segment(500, 0, Flags::SYN);
        assert_eq!(sent(&mut drill).first().map(|(flags, _, to)| (*flags, *to)), answer);
        assert_eq!(drill.end.state, State::Closed);
    }
    // The same SYN is answered again, by Linux once in half a second.
    for (settings, answers) in [(rfc(), 2), (linux(), 1)] {
        let mut drill = Drill::accepting(&settings, false);
        drill.at(100).segment(0, 0, Flags::SYN).segment(0, 0, Flags::SYN);
        assert_eq!(sent(&mut drill), vec![(Flags::SYN.with(ACK), 0, 1); answers]);
    }
}

#[test]
fn rfc5961_4_after_a_simultaneous_open_another_syn_is_challenged() {
    for settings in [rfc(), linux()] {
        let mut drill = Drill::opening(&settings, false);
        drill.segment(0, 0, Flags::SYN);
        assert_eq!(sent(&mut drill), [(Flags::SYN.with(ACK), 0, 1)]);
        drill.segment(500, 0, Flags::SYN);
        assert_eq!(sent(&mut drill), [(ACK, 1, 1)]);
        drill.segment(0, 1, Flags::SYN.with(ACK));
        assert_eq!(drill.events, [Event::Connected]);
        let mut drill = Drill::opening(&settings, false);
        drill.segment(0, 0, Flags::SYN).segment(1, 0, RST);
        assert_eq!(drill.events, [Event::Closed(CloseReason::Aborted)]);
    }
}

#[test]
fn a_listener_answers_only_acknowledgements() {
    let site = Site {
        side: Side::B,
        mtus: &[1_500],
        ip: IpVersion::Ipv4,
        streams: Streams { seed: 1, replication: 0 },
        connection: "test",
    };
    for (settings, takes_fin) in [(rfc(), true), (config(Profile::Linux2620), true), (linux(), false)] {
        let mut listener = settings.listen(&site).expect("it is possible");
        let mut answer = |port, flags| {
            let segment =
                Segment { source_port: 9, destination_port: port, flags, window: 100, ..Segment::blank() };
            let body = Body::Tcp(segment);
            let packet = Packet { path: PathId(0), ecn: Ecn::NotEct, size: 40, body };
            match listener.handle_packet(Time::ZERO, Box::new(packet)) {
                Answer::Accepted(_) => "opens",
                Answer::Nothing => "nothing",
                Answer::Reply(reply) => {
                    assert!(reply.body.tcp().is_some_and(|segment| segment.flags.has(RST)));
                    "reset"
                }
            }
        };
        let fin = Flags::FIN;
        assert_eq!(answer(5_001, Flags::SYN), "opens");
        assert_eq!(answer(5_001, Flags::SYN.with(fin)), if takes_fin { "opens" } else { "nothing" });
        assert_eq!(answer(5_001, ACK), "reset");
        assert_eq!(answer(5_001, Flags::SYN.with(ACK)), "reset");
        assert_eq!(answer(5_001, fin), "nothing", "RFC 9293 section 3.10.7.2");
        assert_eq!(answer(5_001, RST), "nothing");
        assert_eq!(answer(5_002, fin), "reset", "another port, which is closed");
    }
}

#[test]
fn rfc5681_3_1_one_segment_after_lost_syns() {
    for (profile, lost, expected) in [(Profile::Rfc, 1, 1), (Profile::Linux6, 1, 10), (Profile::Linux6, 2, 1)]
    {
        let mut pair = Pair::new(&config(profile));
        let mut left = lost;
        pair.drop_if = Box::new(move |_, _, segment| {
            let drop = left > 0 && segment.flags == Flags::SYN;
            left -= usize::from(drop);
            drop
        });
        pair.command(Side::A, Command::Connect);
        pair.run_for(Duration::from_secs(10));
        assert_eq!(pair.ends[0].cwnd(), expected, "{profile:?} {lost}");
    }
}

#[test]
fn the_control_hears_of_the_handshake_s_round_trip() {
    // Linux, hybla_init: the window begins with RTT / 25 ms segments.
    let settings = Config { cc: Some(crate::cc::hybla::Config::default().into()), ..linux() };
    let mut pair = Pair::open(&settings);
    pair.write(Side::A, 20_000);
    assert_eq!(pair.data(Side::A).len(), 1, "40 ms");
}

#[test]
fn rfc6298_5_7_a_lost_syn_raises_the_timeout_of_data_and_never_lowers_it() {
    for (initial, expected) in [(1, 3), (5, 5)] {
        let initial = Some(Duration::from_secs(initial));
        let settings = Config { rto_initial: initial, ..config(Profile::Rfc) };
        let mut pair = Pair::seeded([&settings, &settings], 1);
        let mut is_first = true;
        pair.drop_if = Box::new(move |_, _, _| std::mem::take(&mut is_first));
        pair.command(Side::A, Command::Connect);
        pair.run_for(Duration::from_secs(6));
        assert_eq!(pair.ends[0].rtt.rto(), Duration::from_secs(expected));
    }
}
