//! Acknowledgements and the receive window: RFC 9293 sections 3.8.6.2.2 and 3.8.6.3, RFC 5681 section 4.2,
//! RFC 2018, RFC 2883.

use super::*;
use crate::endpoint::{Command, Event, Input, Received};
use crate::flow::Ecn;
use crate::flow::{Payload, Side};
use crate::tcp::procedures;
use crate::tcp::testing::{Drill, Pair, ms};
use crate::time::Duration;
use crate::units::Bytes;
use crate::wire::tcp::Flags;

/// Settings without quick acknowledgements.
fn slow() -> Config {
    Config { quick_acks: Some(0), compressed_ack_delay: Some(Duration::ZERO), ..untuned() }
}

/// Settings in which the window is the whole buffer from the beginning.
fn untuned() -> Config {
    Config { receive_autotuning: Some(false), ..linux() }
}

#[test]
fn rfc5681_4_2_every_second_segment_is_acknowledged_at_once() {
    let mut drill = Drill::open(&slow(), false);
    drill.data(0, SIZE);
    assert_eq!(drill.acks(), [0; 0]);
    drill.data(SIZE, SIZE);
    assert_eq!(drill.acks(), [2 * SIZE]);
    drill.data(2 * SIZE, SIZE).data(3 * SIZE, SIZE);
    assert_eq!(drill.acks(), [4 * SIZE]);
}

#[test]
fn rfc9293_3_8_6_3_a_lone_segment_after_the_delay() {
    for (settings, delay) in [(slow(), 40), (Config { ack_delay: Some(ms(200)), ..slow() }, 200)] {
        let mut drill = Drill::open(&settings, false);
        drill.data(0, SIZE).at(100 + delay - 1);
        assert_eq!(drill.acks(), [0; 0]);
        drill.at(100 + delay);
        assert_eq!(drill.acks(), [SIZE]);
    }
}

#[test]
fn linux_does_not_delay_the_first_acknowledgements() {
    let mut drill = Drill::open(&untuned(), false);
    for index in 0..20 {
        drill.data(index * SIZE, SIZE);
    }
    let expected: Vec<u32> = (1..=16).chain([18, 20]).map(|index| index * SIZE).collect();
    assert_eq!(drill.acks(), expected);
}

#[test]
fn rfc5681_4_2_out_of_order_data_is_acknowledged_at_once() {
    let mut drill = Drill::open(&slow(), false);
    drill.data(SIZE, SIZE);
    assert_eq!(drill.acks(), [0]);
    assert_eq!(drill.last_sack(), [(SIZE, 2 * SIZE)]);
    // Section 4.2 also asks for it when a gap is filled.
    drill.data(0, SIZE);
    assert_eq!(drill.acks(), [2 * SIZE]);
    assert_eq!(drill.last_sack(), []);
    let whole = Received::new(Payload { offset: 0, length: 2 * SIZE });
    assert_eq!(drill.events, [Event::Received(whole)]);
}

#[test]
fn rfc2018_4_the_latest_block_comes_first() {
    let mut drill = Drill::open(&slow(), false);
    for index in [2, 4, 6, 8, 10] {
        drill.data(index * SIZE, SIZE);
    }
    let block = |index: u32| (index * SIZE, (index + 1) * SIZE);
    assert_eq!(drill.last_sack(), [10, 8, 6, 4].map(block));
    drill.data(5 * SIZE, SIZE);
    assert_eq!(drill.last_sack(), [(4 * SIZE, 7 * SIZE), block(10), block(8)]);
}

#[test]
fn rfc2883_4_a_duplicate_is_reported_first() {
    let mut drill = Drill::open(&slow(), false);
    drill.data(0, SIZE).data(SIZE, SIZE).data(3 * SIZE, SIZE);
    drill.data(0, SIZE);
    assert_eq!(drill.last_sack(), [(0, SIZE), (3 * SIZE, 4 * SIZE)]);
    drill.data(3 * SIZE, SIZE);
    assert_eq!(drill.last_sack(), [(3 * SIZE, 4 * SIZE), (3 * SIZE, 4 * SIZE)]);
    let mut drill = Drill::open(&Config { dsack: Some(false), ..slow() }, false);
    drill.data(0, SIZE).data(0, SIZE);
    assert_eq!(drill.last_sack(), []);
}

#[test]
fn rfc2883_4_data_in_order_that_was_reported_already_is_a_duplicate() {
    for settings in [slow(), Config { profile: Profile::Rfc, ..slow() }] {
        let mut drill = Drill::open(&settings, false);
        drill.data(200, 100).data(0, 400);
        assert_eq!((drill.acks(), drill.last_sack()), (vec![0, 400], vec![(200, 300)]));
        // Up to where the segment reaches; the rest of the run waited only once.
        drill.data(600, 100).acks();
        drill.data(400, 250);
        assert_eq!((drill.acks(), drill.last_sack()), (vec![700], vec![(600, 650)]));
        // Of several runs the first one (Linux: tcp_dsack_extend).
        drill.data(800, 100).data(1_000, 100).data(1_200, 100).acks();
        drill.data(700, 500);
        assert_eq!((drill.acks(), drill.last_sack()), (vec![1_300], vec![(800, 900)]));
        // The duplicate at the beginning comes before that of what waited.
        drill.data(1_400, 100).acks();
        drill.data(1_250, 300);
        assert_eq!((drill.acks(), drill.last_sack()), (vec![1_550], vec![(1_250, 1_300)]));
    }
    let mut drill = Drill::open(&Config { dsack: Some(false), ..slow() }, false);
    drill.data(200, 100).data(0, 400);
    assert_eq!(drill.last_sack(), []);
}

#[test]
fn compressed_acknowledgements_wait_a_little_after_the_third() {
    let mut drill = Drill::open(&Config { quick_acks: Some(0), ..linux() }, false);
    for index in 1..=10 {
        drill.data(index * SIZE, SIZE);
    }
    assert_eq!(drill.acks(), [0, 0, 0]);
    drill.at(101);
    assert_eq!(drill.acks(), [0], "one for the other seven");
    assert_eq!(drill.last_sack(), [(SIZE, 11 * SIZE)]);
}

#[test]
fn rfc9293_3_8_6_a_reader_that_pauses_closes_the_window() {
    let settings = Config { receive_buffer: Some(Bytes(10_000)), ..slow() };
    let mut drill = Drill::open(&settings, false);
    drill.input(Input::Command(Command::PauseReading));
    for index in 0..6 {
        drill.data(index * SIZE, SIZE);
    }
    drill.at(200);
    assert_eq!(drill.announced(), 10_000 - 6 * SIZE);
    assert_eq!(drill.events, [], "it waits in the buffer");
    drill.data(6 * SIZE, SIZE).at(300);
    assert_eq!(drill.acks().last(), Some(&10_000), "what lies beyond the window is cut off");
    assert_eq!(drill.announced(), 0);
    // The window update leaves.
    drill.input(Input::Command(Command::ResumeReading));
    assert_eq!(drill.announced(), 10_000);
    assert_eq!(drill.end.stats().window_updates, 1);
    let whole = Received::new(Payload { offset: 0, length: 10_000 });
    assert_eq!(drill.events, [Event::Received(whole)]);
}

#[test]
fn rfc9293_3_8_6_2_2_the_window_moves_in_steps_worth_a_segment() {
    let settings =
        Config { profile: Profile::Rfc, receive_buffer: Some(Bytes(10_000)), ack_every: Some(1), ..slow() };
    let mut drill = Drill::open(&settings, false);
    let mut edges = Vec::new();
    for index in 0..20 {
        drill.data(index * 100, 100);
        let acknowledged = drill.acks().last().copied().unwrap_or(index * 100);
        edges.push(acknowledged + drill.announced());
    }
    assert!(edges.windows(2).all(|pair| pair[1] == pair[0] || pair[1] >= pair[0] + SIZE), "{edges:?}");
    assert!(edges.last() > edges.first());
}

#[test]
fn a_slow_reader_gets_everything_in_the_end() {
    let settings = Config { receive_buffer: Some(Bytes(8_000)), ..linux() };
    let mut pair = Pair::open(&settings);
    pair.write(Side::A, 100_000);
    for _ in 0..20 {
        pair.command(Side::B, Command::PauseReading);
        pair.run_for(ms(700));
        pair.command(Side::B, Command::ResumeReading);
        pair.run_for(ms(100));
    }
    assert_eq!(pair.received_bytes(Side::B), 100_000);
    assert_eq!(pair.ends[0].stats().timeouts, 0);
}

/// How far the peer has acknowledged, in segments, after an acknowledgement whose timestamp is `age` ms older
/// than the one before, and how many answers it got. With `advances`, it acknowledges more than before.
fn acknowledge_from_before(settings: &Config, age: u32, advances: bool) -> (u64, usize) {
    const FULL: u32 = 1_448;
    let mut drill = Drill::open(settings, true);
    drill.write(4 * FULL).at(200).stamp(100).ack(FULL, &[]);
    drill.acks();
    let position = if advances { 2 * FULL } else { FULL };
    drill.stamp(100 - age).ack(position, &[]).stamp(100 - age).ack(position, &[]);
    (drill.end.sender.unacknowledged / u64::from(FULL), drill.acks().len())
}

#[test]
fn rfc7323_5_3_an_acknowledgement_from_before_does_not_count() {
    for age in [1, 10] {
        assert_eq!(acknowledge_from_before(&rfc(), age, true), (1, 2), "each is answered");
        assert_eq!(acknowledge_from_before(&rfc(), age, false), (1, 2));
    }
    // Linux, TCP_PAWS_WINDOW: an age of one tick does not count.
    assert_eq!(acknowledge_from_before(&linux(), 1, true), (2, 0));
    // Linux, tcp_oow_rate_limited: one answer in 500 ms.
    assert_eq!(acknowledge_from_before(&linux(), 10, true), (1, 1));
    // Linux, tcp_disordered_ack: a duplicate that says nothing new is taken.
    assert_eq!(acknowledge_from_before(&linux(), 10, false), (1, 0));
}

/// Linux, `tcp_oow_rate_limited`, `tcp_send_challenge_ack`: what carries no data and lies outside the window
/// is answered once in 500 ms, challenges counted with it; data is always answered. RFC 5961 section 7 limits
/// challenges only, RFC 9293 section 3.10.7.4 has each of the others answered.
#[test]
fn linux_answers_what_lies_outside_the_window_once_in_half_a_second() {
    for (settings, answers) in [(rfc(), [2, 1, 1]), (linux(), [1, 0, 1])] {
        let mut drill = Drill::open(&settings, false);
        drill.data(0, SIZE).at(400).acks();
        // Bare segments before and, in Linux, behind the window are probes of it.
        for _ in 0..2 {
            drill.data_marked(SIZE - 1, 0, Ecn::NotEct, Flags::ACK);
        }
        assert_eq!(drill.acks().len(), answers[0], "{:?}", settings.profile);
        drill.at(899).data_marked(SIZE, 0, Ecn::NotEct, Flags::SYN);
        assert_eq!(drill.acks().len(), answers[1], "a challenge, {:?}", settings.profile);
        drill.data(0, SIZE).data(0, SIZE);
        assert_eq!(drill.acks(), [SIZE, SIZE], "data that comes again");
        drill.at(900).data_marked(SIZE - 1, 0, Ecn::NotEct, Flags::ACK);
        assert_eq!(drill.acks().len(), answers[2]);
    }
}

/// Linux, `tcp_event_data_sent`: data sent within the delay of an acknowledgement after data has come makes
/// both ends take turns, also where that data was acknowledged at once; `tcp_delack_timer_handler`: an
/// acknowledgement that no answer has carried in time ends it.
#[test]
fn linux_delays_acknowledgements_of_ends_that_take_turns() {
    for (answers_after, takes_turns) in [(10, true), (39, true), (40, false)] {
        let mut drill = Drill::open(&untuned(), false);
        drill.data(0, 100);
        assert_eq!(drill.acks(), [100], "the first data");
        drill.at(100 + answers_after).write(50).at(210).ack(50, &[]);
        drill.sent();
        drill.data(100, 100).at(249);
        assert_eq!(drill.acks().is_empty(), takes_turns, "{answers_after} ms");
        drill.at(250);
        assert_eq!(drill.acks(), if takes_turns { vec![200] } else { vec![] });
        drill.at(260).data(200, 100);
        assert_eq!(drill.acks(), [300], "at once again");
    }
}

/// Linux, `tcp_send_dupack`, `tcp_data_queue`: data that comes again is acknowledged at once, as is what
/// follows it, also by an end that takes turns; a bare segment outside the window changes nothing.
#[test]
fn linux_acknowledges_at_once_after_data_that_comes_again() {
    for (length, is_quick) in [(SIZE, true), (0, false)] {
        let mut drill = Drill::open(&untuned(), false);
        for index in 0..17 {
            drill.data(index * SIZE, SIZE);
        }
        drill.at(101).write(50).ack(50, &[]).at(145).acks();
        drill.data_marked(0, length, Ecn::NotEct, Flags::ACK);
        assert_eq!(drill.acks(), [17 * SIZE]);
        drill.data(17 * SIZE, SIZE);
        assert_eq!(drill.acks().len(), usize::from(is_quick), "{length}");
    }
}

/// A peer may contradict itself, but nothing follows its FIN, and its FIN comes behind everything that it has
/// sent.
#[test]
fn the_stream_ends_once() {
    let fin = Flags::ACK.with(Flags::FIN);
    let received = |drill: &Drill| -> Vec<Event> {
        drill.events.iter().filter(|event| !matches!(event, Event::Writable)).copied().collect()
    };
    let delivery = |offset, length| {
        let payload = Payload { offset, length };
        Event::Received(Received::new(payload))
    };
    let mut drill = Drill::open(&linux(), true);
    // The FIN comes before data that it should end, and then data comes that lies behind it.
    drill.data_marked(1_000, 1_000, Ecn::NotEct, fin).data(0, 3_000);
    assert_eq!(received(&drill), [delivery(0, 2_000), Event::PeerFinished]);
    let mut drill = Drill::open(&linux(), true);
    // Data waits behind a FIN that comes later.
    drill.data(2_000, 1_000).data_marked(1_000, 500, Ecn::NotEct, fin).data(0, 2_000);
    assert_eq!(received(&drill), [delivery(0, 3_000)]);
}

#[test]
fn rfc9293_3_10_7_4_an_acknowledgement_of_what_was_not_sent() {
    for (ignores, answers) in [(false, 1), (true, 0)] {
        let procedures =
            procedures::Config { ignores_unsent_acknowledgements: Some(ignores), ..Default::default() };
        let mut drill = Drill::open(&Config { procedures: Some(procedures), ..untuned() }, true);
        drill.stamp(900_000).ack(5 * SIZE, &[]);
        assert_eq!(drill.acks().len(), answers);
        // Where the segment is ignored, its timestamp is not taken either, so what comes later is not older
        // than it.
        drill.stamp(2).data(0, SIZE);
        assert_eq!(drill.acks(), if ignores { vec![SIZE] } else { vec![0] });
    }
}
