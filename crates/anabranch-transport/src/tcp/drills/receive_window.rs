//! The receive window that tunes itself, and the acknowledgements that go with it: Linux's `tcp_grow_window`,
//! `tcp_rcv_space_adjust`, `tcp_measure_rcv_mss` and `tcp_cleanup_rbuf`; PSH as `__tcp_transmit_skb` sets it.

use super::*;
use crate::endpoint::{Command, Input};
use crate::flow::{Ecn, Side};
use crate::tcp::testing::{Drill, Pair, drop_at, ms};
use crate::units::Bytes;
use crate::wire::tcp::Flags;

const PUSH: Flags = Flags::ACK.with(Flags::PSH);

/// Settings in which acknowledgements are delayed from the beginning.
fn slow() -> Config {
    Config { quick_acks: Some(0), ..linux() }
}

/// A connection whose window has opened as far as it can, and the position from which the drill counts.
fn open_wide(settings: &Config) -> (Drill, u32) {
    let mut drill = Drill::open(settings, false);
    for index in 0..20 {
        drill.data(index * SIZE, SIZE);
    }
    assert_eq!(drill.acks().last(), Some(&(20 * SIZE)));
    (drill, 20 * SIZE)
}

#[test]
fn tcp_select_initial_window_half_the_first_buffer_in_whole_segments() {
    let mut pair = Pair::new(&linux());
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(200));
    let [syn, syn_ack, ack] = [0, 1, 2].map(|index| &pair.log[index].segment);
    assert_eq!((syn.window, syn.window_scale), (44 * 1_460, Some(7)));
    assert_eq!((syn_ack.window, syn_ack.window_scale), (45 * 1_448, Some(7)));
    // Room for one segment is kept back, 65536 - 1448; the 64240 stay, rounded up: 502 units.
    assert_eq!(u32::from(ack.window) << 7, (44 * 1_460_u32).next_multiple_of(128));
    // The setting is the largest window that is ever offered.
    let small = Config { receive_buffer: Some(Bytes(30_000)), ..linux() };
    let mut pair = Pair::new(&small);
    pair.command(Side::A, Command::Connect);
    assert_eq!((pair.log[0].segment.window, pair.log[0].segment.window_scale), (20 * 1_460, Some(0)));
}

#[test]
fn tcp_grow_window_each_segment_opens_it_and_is_acknowledged_at_once() {
    let mut drill = Drill::open(&slow(), false);
    let mut windows = Vec::new();
    for index in 0..12 {
        drill.data(index * SIZE, SIZE);
        windows.push(drill.announced());
    }
    // The first segment of 1500 B, which take 2304 B, makes the buffer 131072 x 162 / 256 wide. It opens by
    // two segments each time, as far as there is room besides the segment itself, from what half of the
    // memory allows on.
    let most = 131_072 * (1_460 * 256 / 2_304) / 256 - SIZE;
    let first = 65_536 - SIZE;
    let expected: Vec<u32> =
        (1..=12).map(|count| (first + count * 2 * SIZE).min(most).next_multiple_of(128)).collect();
    assert_eq!(windows, expected);
    let growing = (most - first).div_ceil(2 * SIZE);
    let acks: Vec<u32> =
        (1..=12).filter(|count| *count <= growing || (count - growing).is_multiple_of(2)).collect();
    assert_eq!(drill.acks(), acks.iter().map(|count| count * SIZE).collect::<Vec<_>>());
}

#[test]
fn tcp_grow_window_the_quick_ones_are_counted_after_it() {
    let mut drill = Drill::open(&linux(), false);
    for index in 0..30 {
        drill.data(index * SIZE, SIZE);
    }
    // Six acknowledgements open the window; sixteen more are quick.
    let expected: Vec<u32> = (1..=22).chain([24, 26, 28, 30]).map(|count| count * SIZE).collect();
    assert_eq!(drill.acks(), expected);
}

#[test]
fn tcp_rcv_space_adjust_the_buffer_grows_with_what_is_read() {
    let mut pair = Pair::open(&linux());
    pair.write(Side::A, 2_000_000);
    pair.run_for(ms(1_000));
    assert_eq!(pair.received_bytes(Side::B), 2_000_000);
    let window = |index: usize| u32::from(pair.acks(Side::B)[index].segment.window) << 7;
    let last = pair.acks(Side::B).len() - 1;
    assert!(window(last) > 8 * window(0), "{} and {}", window(0), window(last));
    assert!(window(last) <= 6 << 20);
    // The setting limits it.
    let mut pair = Pair::open(&Config { receive_buffer: Some(Bytes(100_000)), ..linux() });
    pair.write(Side::A, 2_000_000);
    pair.run_for(ms(3_000));
    assert_eq!(pair.received_bytes(Side::B), 2_000_000);
    let widest = pair.acks(Side::B).iter().map(|logged| u32::from(logged.segment.window) << 1).max();
    assert_eq!(widest, Some(100_000 - 1_448), "room for the segment that opens it");
}

#[test]
fn tcp_measure_rcv_mss_a_full_segment_with_push_is_acknowledged_once_read() {
    let (mut drill, start) = open_wide(&slow());
    drill.data(start, SIZE);
    assert_eq!(drill.acks(), [0; 0]);
    let (mut drill, start) = open_wide(&slow());
    drill.data_marked(start, SIZE, Ecn::NotEct, PUSH);
    assert_eq!(drill.acks(), [start + SIZE]);
    // Nothing is acknowledged before it is read.
    let (mut drill, start) = open_wide(&slow());
    drill.input(Input::Command(Command::PauseReading));
    drill.data_marked(start, SIZE, Ecn::NotEct, PUSH);
    assert_eq!(drill.acks(), [0; 0]);
    drill.input(Input::Command(Command::ResumeReading));
    assert_eq!(drill.acks(), [start + SIZE]);
    assert_eq!(drill.end.stats().window_updates, 0);
}

#[test]
fn tcp_measure_rcv_mss_a_small_segment_too_unless_all_are_that_small() {
    let (mut drill, start) = open_wide(&slow());
    drill.data(start, 1_000);
    assert_eq!(drill.acks(), [start + 1_000]);
    // The second segment of the same size shows the size of the sender's segments. From then on, every second
    // one is acknowledged.
    drill.data(start + 1_000, 1_000);
    assert_eq!(drill.acks(), [0; 0]);
    drill.data(start + 2_000, 1_000);
    assert_eq!(drill.acks(), [start + 3_000]);
}

#[test]
fn tcp_cleanup_rbuf_nothing_is_pushed_where_data_goes_both_ways() {
    let (mut drill, start) = open_wide(&slow());
    drill.data(start, SIZE).write(100);
    assert_eq!(drill.sent().len(), 1, "the acknowledgement travels with the answer");
    drill.ack(100, &[]).data_marked(start + SIZE, SIZE, Ecn::NotEct, PUSH);
    assert_eq!(drill.acks(), [0; 0]);
}

#[test]
fn tcp_transmit_skb_the_last_of_several_that_leave_together_has_push() {
    // 20 segments in 100 ms are less than two in a millisecond: two leave together.
    let mut drill = Drill::open(&linux(), false);
    drill.write(60 * SIZE);
    let pushed = |drill: &mut Drill| -> Vec<bool> {
        drill.sent().iter().map(|logged| logged.segment.flags.has(Flags::PSH)).collect()
    };
    assert_eq!(pushed(&mut drill), [false, true].repeat(5));
    // When one segment is acknowledged and the window does not grow, a single one leaves.
    let mut drill = Drill::open_with(&linux(), false, 10);
    drill.write(60 * SIZE).sent();
    drill.at(200).ack(SIZE, &[]);
    assert_eq!(pushed(&mut drill), [false]);
    drill.ack(3 * SIZE, &[]);
    assert_eq!(pushed(&mut drill), [false, true]);
    // Other profiles push what the application wrote last.
    let mut drill = Drill::open(&rfc(), false);
    drill.write(10 * SIZE);
    assert_eq!(pushed(&mut drill), [vec![false; 9], vec![true]].concat());
}

#[test]
fn tcp_transmit_skb_what_is_sent_again_together_has_push_at_its_end() {
    // Ten segments leave in pairs. Of the first pair one is acknowledged, of the second one has arrived, the
    // third is lost; the first two that are sent again are alone in their packets, the third pair is not.
    let mut drill = Drill::open(&linux(), false);
    drill.write(10 * SIZE).sent();
    drill.at(200).ack(SIZE, &[(3 * SIZE, 4 * SIZE), (6 * SIZE, 10 * SIZE)]);
    let pushed: Vec<(u64, bool)> = drill
        .sent()
        .iter()
        .map(|logged| {
            let payload = logged.segment.payload;
            (payload.offset / u64::from(SIZE), logged.segment.flags.has(Flags::PSH))
        })
        .collect();
    assert_eq!(pushed, [(1, false), (2, false), (4, false), (5, true)]);
}

#[test]
fn tcp_tso_should_defer_a_single_one_waits_for_another() {
    let mut drill = Drill::open_with(&linux(), false, 10);
    drill.write(60 * SIZE).segments(SIZE);
    drill.at(200).ack(3 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [10, 11], "the third waits: two have just left");
    drill.ack(4 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [12, 13]);
    drill.at(201).ack(5 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [0; 0]);
    assert!(drill.end.is_window_limited(), "it is the window that has it wait");
    // After more than a millisecond, nothing waits any longer.
    drill.at(203).ack(5 * SIZE, &[(6 * SIZE, 7 * SIZE)]);
    assert_eq!(drill.segments(SIZE), [14, 15]);
    drill.at(205).ack(5 * SIZE, &[(6 * SIZE, 8 * SIZE)]);
    assert_eq!(drill.segments(SIZE), [16]);
    // Nothing waits either where the next acknowledgement is more than a millisecond away.
    let mut drill = Drill::open_with(&linux(), false, 10);
    drill.write(5 * SIZE).at(130).write(55 * SIZE);
    assert_eq!(drill.segments(SIZE), (0..10).collect::<Vec<_>>());
    drill.at(200).ack(5 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), (10..15).collect::<Vec<_>>(), "segment 5's is expected at 230 ms");
    // Other profiles do not wait.
    let mut drill = Drill::open_with(&rfc(), false, 10);
    drill.write(60 * SIZE).segments(SIZE);
    drill.at(200).ack(3 * SIZE, &[]);
    assert_eq!(drill.segments(SIZE), [10, 11, 12]);
}

#[test]
fn tcp_tso_autosize_more_leave_together_where_the_round_trip_is_short() {
    let mut pair = Pair::open(&linux());
    for wire in &mut pair.wires {
        wire.delay = ms(1);
    }
    pair.write(Side::A, 3_000_000);
    pair.run_for(ms(300));
    let data = pair.data(Side::A);
    let mut longest = 0;
    let mut burst = 0;
    for logged in data {
        burst += 1;
        if logged.segment.flags.has(Flags::PSH) {
            longest = longest.max(burst);
            burst = 0;
        }
    }
    // 65215 B hold 45 segments of 1448 B each.
    assert!((3..=45).contains(&longest), "{longest}");
}

#[test]
fn tcp_rcv_established_what_has_just_arrived_takes_room_until_it_is_acknowledged() {
    let (mut drill, start) = open_wide(&slow());
    let full = 131_072 * (SIZE * 256 / 2_304) / 256;
    let open = (full - SIZE).next_multiple_of(128);
    for index in 1..=10 {
        drill.data(start + index * SIZE, SIZE);
        assert_eq!(drill.announced(), open, "duplicates do not change it");
    }
    drill.data(start, SIZE);
    assert_eq!(drill.acks().last(), Some(&(start + 11 * SIZE)));
    assert_eq!(drill.announced(), (full - 11 * SIZE).next_multiple_of(128));
    // The application reads once the gap's end is acknowledged.
    assert_eq!(drill.end.receiver.held(), 0);
    drill.data(start + 11 * SIZE, SIZE).data(start + 12 * SIZE, SIZE);
    assert_eq!(drill.acks(), [start + 13 * SIZE]);
    assert_eq!(drill.announced(), open);
}

#[test]
fn tcp_select_window_an_edge_that_stays_is_rounded_up() {
    let (mut drill, start) = open_wide(&slow());
    drill.input(Input::Command(Command::PauseReading));
    let announced_edges = (1..=20).map(|count| {
        let end = start + count * SIZE;
        drill.data(end - SIZE, SIZE).at(500 + 50 * u64::from(count));
        assert_eq!(drill.acks(), [end]);
        end + drill.announced()
    });
    let edges: Vec<u32> = announced_edges.collect();
    assert!(edges.is_sorted(), "{edges:?}");
}

#[test]
fn tcp_select_window_what_waits_out_of_order_takes_room() {
    let mut pair = Pair::open(&Config { receive_buffer: Some(Bytes(60_000)), ..linux() });
    pair.drop_if = drop_at(&[0]);
    pair.write(Side::A, 200_000);
    pair.run_for(ms(5_000));
    assert_eq!(pair.received_bytes(Side::B), 200_000);
    assert_eq!(pair.ends[1].receiver.waiting, 0);
    assert_eq!(pair.ends[0].stats().timeouts, 0);
}
