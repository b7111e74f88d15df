//! RFC 9293 section 3.5, RFC 7323, RFC 6298 section 5.

use super::*;
use crate::endpoint::{CloseReason, Command, Event};
use crate::ground::Side;
use crate::tcp::testing::{Pair, config, ms};
use crate::time::{Duration, Time};
use crate::units::Bytes;
use crate::wire::tcp::Flags;

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
