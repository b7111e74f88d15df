//! Profile `kheirkhah_v1`: what the ns-3 model of MPTCP by Kheirkhah, Wakeman and Parisis does on a subflow.
//! Tests name the model's functions (`mp-tcp-socket-base.cc`).

use super::*;
use crate::cc::CongestionControl as _;
use crate::flow::Ecn;
use crate::tcp::testing::{Drill, Logged, ms};
use crate::units::Bytes;
use crate::wire::tcp::Flags;

const MSS: u32 = 1_400;

fn model() -> Config {
    Config { mss: Some(Bytes(u64::from(MSS))), ..config(Profile::KheirkhahV1) }
}

fn open() -> Drill {
    let mut drill = Drill::open(&model(), false);
    drill.window(65_535).ack(0, &[]).segments(MSS);
    drill
}

/// A drill in which, from 200 ms on, this many segments have been acknowledged one by one. The window has
/// grown to one segment more than that.
fn grown(acks: u32) -> Drill {
    let mut drill = open();
    drill.write(200 * MSS).at(200);
    for count in 1..=acks {
        drill.ack(count * MSS, &[]);
    }
    drill.segments(MSS);
    drill
}

/// Advances time to the timeout of what was last acknowledged at 200 ms.
fn time_out(drill: &mut Drill) {
    let rto = drill.end.rtt.rto().as_nanos().div_ceil(1_000_000);
    drill.at(199 + rto);
    assert_eq!(drill.end.stats().timeouts, 0);
    drill.at(200 + rto);
}

/// Window and threshold in bytes.
fn window(drill: &Drill) -> (u32, u32) {
    let state = drill.end.cc.state();
    (state.cwnd, state.ssthresh)
}

#[test]
fn mp_tcp_sub_flow_starts_with_one_segment_and_a_threshold_of_65535() {
    let mut drill = open();
    drill.write(100 * MSS);
    assert_eq!(drill.segments(MSS), [0]);
    assert_eq!(window(&drill), (MSS, 65_535));
}

#[test]
fn available_window_has_room_for_whole_segments_up_to_65535() {
    let drill = grown(60);
    // 46 of 1400 B make 64400 B.
    assert_eq!(drill.end.board.in_flight(), 46);
    assert!(window(&drill).0 > 65_535 - MSS);
    let mut last = open();
    last.write(MSS / 2);
    assert_eq!(last.sent().last().expect("one segment").segment.payload.length, MSS / 2);
    last.write(MSS / 2).at(200).ack(MSS / 2, &[]);
    assert_eq!(last.sent().len(), 1, "a short one goes when nothing else waits");
}

#[test]
fn received_data_acknowledges_every_packet() {
    let mut drill = open();
    drill.data(0, MSS).data(MSS, MSS).data(3 * MSS, MSS).data(4 * MSS, MSS).data(0, MSS).data(2 * MSS, MSS);
    assert_eq!(drill.acks(), [1, 2, 2, 2, 2, 5].map(|count| count * MSS));
}

#[test]
fn send_data_packet_has_a_header_of_forty_bytes_and_no_other_options() {
    let mut drill = open();
    drill.write(MSS).data(0, MSS);
    for Logged { segment, .. } in drill.sent() {
        assert_eq!(segment.wire_size(), segment.payload.length + 40);
        assert_eq!((segment.timestamps, segment.sack.len(), segment.padding), (None, 0, 20));
    }
    let syn = drill.first_sent();
    assert!(!syn.sack_permitted && syn.timestamps.is_none() && syn.window_scale.is_none());
    assert_eq!((syn.mss, syn.window), (Some(1_400), 65_535));
}

#[test]
fn open_cwnd_adds_a_segment_per_new_acknowledgement() {
    let mut drill = grown(7);
    assert_eq!(window(&drill).0, 8 * MSS);
    drill.at(300).ack(12 * MSS, &[]);
    assert_eq!(window(&drill).0, 9 * MSS, "however much it acknowledges");
    // The application has nothing more to say: the window grows although it is not used.
    let mut idle = open();
    for count in 1..=5_u32 {
        idle.write(MSS).at(100 + 100 * u64::from(count)).ack(count * MSS, &[]);
    }
    assert_eq!(window(&idle).0, 6 * MSS);
    idle.at(60_000).write(10 * MSS);
    assert_eq!(window(&idle).0, 6 * MSS, "nor does it shrink when idle");
}

#[test]
fn open_cwnd_in_avoidance_adds_whole_bytes() {
    let mut drill = grown(9);
    for _ in 0..3 {
        drill.ack(9 * MSS, &[]);
    }
    // Ten in flight: the threshold is five, and the whole flight is acknowledged at once.
    drill.at(300).ack(19 * MSS, &[]);
    let first = 5 * MSS + MSS * MSS / (5 * MSS);
    assert_eq!(window(&drill), (first, 5 * MSS), "the full acknowledgement counts too");
    drill.ack(20 * MSS, &[]);
    assert_eq!(window(&drill).0, first + MSS * MSS / first);
}

#[test]
fn dup_ack_the_third_sends_the_hole_again_and_inflates() {
    let mut drill = grown(9);
    drill.ack(9 * MSS, &[]).ack(9 * MSS, &[]);
    assert_eq!(drill.segments(MSS), [0; 0], "no limited transmit");
    drill.ack(9 * MSS, &[]);
    assert_eq!(drill.segments(MSS), [9]);
    assert_eq!(window(&drill), (8 * MSS, 5 * MSS), "half of what is in flight and three");
    drill.ack(9 * MSS, &[]).ack(9 * MSS, &[]);
    assert_eq!(window(&drill).0, 10 * MSS);
    assert_eq!(drill.segments(MSS), [0; 0], "ten are in flight");
    drill.ack(9 * MSS, &[]);
    assert_eq!(drill.segments(MSS), [19]);
    assert_eq!(drill.end.stats().fast_retransmits, 1);
}

#[test]
fn reduce_cwnd_leaves_two_segments_at_least() {
    // Three segments are in flight.
    let mut drill = grown(2);
    for _ in 0..3 {
        drill.ack(2 * MSS, &[]);
    }
    assert_eq!(window(&drill), (5 * MSS, 2 * MSS));
}

#[test]
fn new_ack_new_reno_a_partial_acknowledgement_deflates_and_sends_the_next_hole() {
    let mut drill = grown(9);
    for _ in 0..5 {
        drill.ack(9 * MSS, &[]);
    }
    assert_eq!(window(&drill).0, 10 * MSS);
    drill.segments(MSS);
    drill.at(300).ack(12 * MSS, &[]);
    assert_eq!(window(&drill), (8 * MSS, 5 * MSS), "three fewer, one more");
    assert_eq!(drill.segments(MSS), [12, 19], "the hole, and what the window has room for: eight");
    // Nothing more was lost, so the full acknowledgement ends recovery.
    drill.at(400).ack(19 * MSS, &[]);
    assert_eq!(drill.end.stats().fast_retransmits, 1);
    assert_eq!(window(&drill).0, 5 * MSS + MSS / 5);
}

#[test]
fn new_ack_new_reno_a_full_acknowledgement_leaves_no_more_than_the_flight() {
    // Two of three segments are acknowledged already; the one in flight and two more make the window.
    let mut drill = grown(2);
    for _ in 0..3 {
        drill.ack(2 * MSS, &[]);
    }
    drill.segments(MSS);
    drill.at(300).ack(7 * MSS, &[]);
    assert_eq!(window(&drill), (2 * MSS + MSS / 2, 2 * MSS));
}

#[test]
fn retransmit_goes_back_n() {
    let mut drill = grown(9);
    time_out(&mut drill);
    assert_eq!(drill.segments(MSS), [9], "the first");
    assert_eq!(window(&drill), (MSS, 5 * MSS));
    drill.ack(10 * MSS, &[]);
    assert_eq!(drill.segments(MSS), [10, 11], "then those behind it, by slow start");
    drill.ack(11 * MSS, &[]);
    assert_eq!(drill.segments(MSS), [12, 13]);
    // The other segments had arrived.
    drill.ack(19 * MSS, &[]);
    assert_eq!(drill.segments(MSS), [19, 20, 21, 22]);
    assert_eq!(drill.end.stats().timeouts, 1);
}

#[test]
fn retransmit_ends_recovery_and_duplicates_can_begin_another() {
    let mut drill = grown(9);
    drill.at(250);
    for _ in 0..4 {
        drill.ack(9 * MSS, &[]);
    }
    // The timer has run since the last new acknowledgement, not since the retransmission.
    time_out(&mut drill);
    assert_eq!(drill.segments(MSS), [9, 9]);
    assert_eq!(window(&drill), (MSS, 5 * MSS));
    for _ in 0..4 {
        drill.ack(9 * MSS, &[]);
    }
    assert_eq!(window(&drill).0, MSS, "only the third after a new acknowledgement counts");
    drill.ack(10 * MSS, &[]).segments(MSS);
    for _ in 0..3 {
        drill.ack(10 * MSS, &[]);
    }
    // Nine segments of 1400 B lie between there and the highest number that was sent.
    assert_eq!(window(&drill), (9 * MSS / 2 + 3 * MSS, 9 * MSS / 2));
    assert_eq!(drill.segments(MSS), [10, 12, 13, 14, 15, 16], "seven in flight");
}

#[test]
fn rtt_mean_deviation_has_gains_of_a_tenth() {
    let mut drill = open();
    let times = |drill: &mut Drill| drill.sent().iter().map(Logged::at_ms).collect::<Vec<_>>();
    assert_eq!(drill.end.rtt.rto(), ms(1_500), "the handshake is not measured");
    drill.write(MSS).at(200).ack(MSS, &[]);
    assert_eq!(drill.end.rtt.rto(), ms(500), "100 ms and four times that");
    drill.write(MSS).at(400).ack(2 * MSS, &[]);
    // 100 + 100/10 and 100 + (100 - 100)/10.
    assert_eq!((drill.end.rtt.srtt(), drill.end.rtt.rto()), (Some(ms(110)), ms(510)));
    times(&mut drill);
    drill.write(MSS).at(400 + 510 * (1 + 2 + 4 + 8 + 16 + 32 + 64 + 64));
    let back_offs = [0, 1, 3, 7, 15, 31, 63, 127, 191].map(|multiple| 400 + 510 * multiple);
    assert_eq!(times(&mut drill), back_offs, "doubled up to 64 times");
    // Karn's rule: what was sent twice is not measured and does not end the back-off.
    drill.ack(3 * MSS, &[]);
    assert_eq!(drill.end.rtt.rto(), ms(64 * 510));
}

#[test]
fn rtt_estimator_is_at_least_200_ms() {
    let mut drill = open();
    for count in 1..=60_u32 {
        drill.write(MSS).at(100 + 10 * u64::from(count)).ack(count * MSS, &[]);
    }
    assert_eq!(drill.end.rtt.rto(), ms(200));
}

#[test]
fn received_data_moves_over_one_segment_only_where_the_connection_has_a_gap_elsewhere() {
    let mut drill = open();
    drill.data(MSS, MSS).data(2 * MSS, MSS);
    assert_eq!(drill.acks(), [0, 0]);
    drill.end.set_stepwise(true);
    drill.data(0, MSS);
    assert_eq!(drill.acks(), [MSS], "1 and 2 are there");
    // So the sender sends it again, which changes nothing.
    drill.data(MSS, MSS);
    assert_eq!(drill.acks(), [MSS]);
    assert_eq!(drill.end.stats().duplicates_received, 1);
    drill.data(4 * MSS, MSS);
    assert_eq!(drill.acks(), [MSS]);
    // ReadUnOrderedData: the gap of the connection is filled on another subflow.
    let now = drill.now;
    drill.end.skip_stored(now);
    assert_eq!(drill.acks(), [0; 0]);
    drill.data(3 * MSS, MSS);
    assert_eq!(drill.acks(), [4 * MSS]);
    drill.data(5 * MSS, MSS);
    drill.end.set_stepwise(false);
    drill.data(4 * MSS, MSS);
    assert_eq!(drill.acks(), [4 * MSS, 6 * MSS]);
    assert_eq!(drill.end.stats().bytes_delivered, u64::from(6 * MSS));
}

#[test]
fn received_data_behind_a_gap_may_end_the_stream() {
    let mut drill = open();
    drill.data_marked(MSS, MSS, Ecn::NotEct, Flags::ACK.with(Flags::FIN));
    drill.end.set_stepwise(true);
    drill.data(0, MSS);
    let now = drill.now;
    drill.end.skip_stored(now);
    drill.at(101).data(0, MSS);
    // Our FIN, and the acknowledgement of the duplicate.
    assert_eq!(drill.acks(), [0, MSS, 2 * MSS + 1, 2 * MSS + 1]);
}
