//! RFC 7413.

use super::*;
use crate::endpoint::{CloseReason, Command, Event, Keeper as _};
use crate::flow::Side;
use crate::tcp::testing::{Logged, Pair, ms};
use crate::time::{Duration, Time};
use crate::wire::tcp::Flags;

fn fast() -> Config {
    Config { fast_open: Some(true), ..linux() }
}

/// A pair whose first connection, which is over, has brought the client a cookie.
fn acquainted() -> Pair {
    let mut pair = Pair::new(&fast());
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(200));
    pair.command(Side::A, Command::Shutdown);
    pair.run_for(ms(800));
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
    pair.log.clear();
    pair.events = [Vec::new(), Vec::new()];
    pair.to_write = Default::default();
    pair
}

fn open(pair: &mut Pair, length: u32) {
    pair.command(Side::A, Command::Connect);
    pair.write(Side::A, length);
}

#[test]
fn rfc7413_4_1_the_first_connection_brings_a_cookie() {
    let mut pair = Pair::new(&fast());
    open(&mut pair, 100);
    pair.run_for(ms(200));
    let option = |index: usize| {
        let rare = pair.log[index].segment.rare.as_ref().expect("there is an option");
        rare.fast_open.clone().expect("it is that of Fast Open")
    };
    assert!(option(0).cookie.is_empty(), "a request");
    assert_eq!(option(1).cookie.len(), 8);
    assert_eq!(pair.log[0].segment.payload.length, 0);
    assert_eq!(pair.received_bytes(Side::B), 100);
}

#[test]
fn rfc7413_4_2_data_in_the_syn_arrives_a_round_trip_earlier() {
    let mut pair = acquainted();
    let start = pair.now;
    open(&mut pair, 500);
    pair.run_for(ms(20));
    assert_eq!(pair.received_bytes(Side::B), 500);
    assert_eq!(pair.log[0].segment.flags, Flags::SYN);
    // The server answers before the handshake is over.
    pair.write(Side::B, 700);
    pair.run_for(ms(20));
    assert_eq!(pair.received_bytes(Side::A), 700);
    assert_eq!(pair.now, start + ms(40));
    assert_eq!(pair.ends[1].info().state, "SYN-RECEIVED");
    pair.run_for(ms(20));
    assert_eq!(pair.ends[1].info().state, "ESTABLISHED");
    assert!(pair.ends.iter().all(|end| end.info().syn_data));
}

#[test]
fn rfc7413_4_2_what_does_not_fit_follows() {
    let mut pair = acquainted();
    open(&mut pair, 50_000);
    pair.run_for(ms(500));
    // The segment size less all the room for options.
    assert_eq!(pair.log[0].segment.payload.length, 1_420);
    assert_eq!(pair.received_bytes(Side::B), 50_000);
    assert!(pair.data(Side::A).iter().skip(1).all(|logged| logged.segment.payload.offset >= 1_420));
}

#[test]
fn rfc7413_4_2_a_syn_goes_without_data_if_the_application_writes_nothing() {
    let mut pair = acquainted();
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(100));
    assert_eq!(pair.ends[0].info().state, "ESTABLISHED");
    assert!(!pair.ends[0].info().syn_data);
    pair.write(Side::B, 300);
    pair.run_for(ms(100));
    assert_eq!(pair.received_bytes(Side::A), 300);
}

#[test]
fn rfc7413_4_2_1_a_lost_syn_is_sent_again_without_data() {
    let mut pair = acquainted();
    let mut left = 1;
    pair.drop_if = Box::new(move |_, _, _| std::mem::replace(&mut left, 0) == 1);
    open(&mut pair, 600);
    pair.run_for(Duration::from_secs(3));
    let [lost, again] = [0, 1].map(|index| &pair.log[index].segment);
    assert_eq!((lost.payload.length, again.payload.length), (600, 0));
    assert_eq!((again.flags, again.rare.is_none()), (Flags::SYN, true));
    assert_eq!(pair.received_bytes(Side::B), 600);
    assert!(!pair.ends[0].info().syn_data);
}

#[test]
fn rfc7413_4_2_2_a_wrong_cookie_brings_the_right_one() {
    let mut pair = acquainted();
    let remembered = pair.ends[0].remembered().expect("it opens fast").clone();
    // The server has another key now.
    pair.ends[1] = Pair::seeded([&fast(), &fast()], 2).ends.into_iter().nth(1).expect("there are two");
    open(&mut pair, 600);
    pair.run_for(ms(300));
    let answer = &pair.log[1].segment;
    assert_eq!(answer.acknowledgement, pair.log[0].segment.sequence.wrapping_add(1), "of SYN only");
    assert!(answer.rare.is_some());
    assert_eq!(pair.received_bytes(Side::B), 600);
    assert_ne!(pair.ends[0].remembered(), Some(&remembered));
    assert_eq!(pair.ends[0].info().congestion_state, "Open");
}

#[test]
fn rfc7413_4_2_2_a_lost_syn_ack_is_sent_again_before_data() {
    let mut pair = acquainted();
    let mut left = 3;
    pair.drop_if = Box::new(move |_, from, _| {
        let drops = from == Side::B && left > 0;
        left -= u32::from(drops);
        drops
    });
    open(&mut pair, 600);
    pair.run_for(ms(20));
    pair.write(Side::B, 2_000);
    pair.command(Side::B, Command::Shutdown);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.received_bytes(Side::B), 600);
    assert_eq!(pair.received_bytes(Side::A), 2_000);
    assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
    let from_b: Vec<_> = pair.log.iter().filter(|logged| logged.from == Side::B).collect();
    let is_syn_ack = |logged: &&&Logged| logged.segment.flags.has(Flags::SYN);
    assert!(from_b.iter().filter(is_syn_ack).count() >= 2, "{from_b:?}");
    // Data waits for the handshake before it is sent again.
    let second = from_b.iter().skip(1).position(|logged| is_syn_ack(&logged)).expect("there is one");
    let data = from_b[1..=second].iter().map(|logged| logged.segment.payload);
    let offsets: Vec<u64> = data.filter(|data| data.length > 0).map(|data| data.offset).collect();
    assert_eq!(offsets, [0, 1_448]);
}

#[test]
fn rfc7413_4_2_2_a_reset_ends_a_connection_before_its_handshake() {
    let mut pair = acquainted();
    open(&mut pair, 600);
    pair.run_for(ms(20));
    pair.command(Side::A, Command::Abort);
    assert_eq!(pair.received_bytes(Side::B), 600);
    // In SYN-SENT nothing is sent; the answer to the SYN-ACK is a reset.
    pair.run_for(ms(100));
    assert_eq!(pair.closed(Side::B), Some(CloseReason::Aborted));
}

#[test]
fn connections_to_strangers_are_not_opened_fast() {
    use crate::secret::{Secret, SecretNumbers};
    let mut pair = Pair::new(&fast());
    for end in &mut pair.ends {
        end.draw_from(SecretNumbers::new(Secret([7; 32])));
    }
    pair.command(Side::A, Command::Connect);
    pair.run_for(ms(100));
    assert!(pair.heard(Side::A, &Event::Connected));
    assert!(pair.log.iter().all(|logged| logged.segment.rare.is_none()));
    assert!(pair.now > Time::ZERO);
}
