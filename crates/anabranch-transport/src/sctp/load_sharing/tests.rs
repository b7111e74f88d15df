//! Load sharing between two ends.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::endpoint::{Command, Input, Reliability};
use crate::flow::Side;
use crate::path::PathState;
use crate::sctp::testing::{Pair, holds, ms};
use crate::wire::sctp::chunk::Chunk;
use crate::wire::{Body, Packet};

fn sharing(config: Config) -> crate::sctp::Config {
    crate::sctp::Config { load_sharing: Some(config), ..crate::sctp::Config::default() }
}

#[test]
fn new_data_leaves_on_all_paths_at_once() {
    let mut pair = Pair::open(&sharing(Config::default()), 3);
    pair.run_for(ms(2_000));
    pair.log.clear();
    pair.send_reliable(12, 1_400);
    for path in 0..3 {
        let sent = pair.sent(Side::A, "data").iter().filter(|packet| packet.path == path).count();
        assert_eq!(sent, 4, "the initial window of path {path}");
    }
}

#[test]
fn a_path_that_may_have_failed_carries_no_new_data() {
    let settings = crate::sctp::Config {
        pf_max_retrans: Some(crate::units::Limit::At(0)),
        ..sharing(Config::default())
    };
    let mut pair = Pair::open(&settings, 2);
    pair.run_for(ms(2_000));
    pair.set_up(1, false);
    pair.send_reliable(8, 1_400);
    pair.run_for(ms(1_500));
    assert!(pair.path_change(Side::A, 1, PathState::PotentiallyFailed).is_some());
    pair.log.clear();
    pair.send_reliable(8, 1_400);
    pair.run_for(ms(1_000));
    assert!(pair.sent(Side::A, "data").iter().all(|packet| packet.path == 0));
    assert_eq!(pair.received(Side::B).len(), 16, "what was lost there was sent again");
}

/// What the flags of the SACKs say that arrive before the first chunk, which is lost, is sent again.
fn sacks_before_fast_retransmit(delayed_ack: bool) -> Vec<u8> {
    let mut pair = Pair::open(&sharing(Config { delayed_ack, ..Config::default() }), 1);
    let mut first = None;
    pair.drop_if =
        Box::new(move |_, _, packet| first.is_none() && holds(packet, "data") && first.replace(()).is_none());
    pair.send_reliable(12, 1_400);
    pair.run_for(ms(190));
    let lost = pair.sent(Side::A, "data")[0].tsns()[0];
    let data = pair.sent(Side::A, "data");
    let again = data.iter().rfind(|packet| packet.tsns()[0] == lost).expect("it was sent").at;
    let sacks = pair.sent(Side::B, "sack");
    sacks
        .iter()
        .filter(|packet| packet.at < again)
        .map(|packet| if let Chunk::Sack(packets, _) = packet.chunks[0] { packets } else { 0 })
        .collect()
}

#[test]
fn a_delayed_sack_reports_a_chunk_missing_once_per_packet() {
    // Iyengar et al. 2006, section 3.3.
    assert_eq!(sacks_before_fast_retransmit(true), [2, 2]);
    assert_eq!(sacks_before_fast_retransmit(false), [0, 0, 0]);
}

#[test]
fn a_sack_that_travels_with_data_reports_its_packets_too() {
    let mut pair = Pair::open(&sharing(Config { delayed_ack: true, ..Config::default() }), 1);
    pair.send_reliable(1, 1_400);
    pair.run_for(ms(30));
    assert!(pair.sent(Side::B, "sack").is_empty(), "it is delayed");
    pair.send(Side::B, 100, Reliability::Reliable, false);
    let sent = pair.sent(Side::B, "data");
    assert!(matches!(sent[0].chunks[0], Chunk::Sack(1, _)), "{:?}", sent[0].chunks);
}

/// Six chunks leave on two paths and the first is lost; the SACKs for the others, in their order.
fn with_sacks_of_five_chunks() -> (Pair, Vec<Packet>) {
    let mut pair = Pair::open(&sharing(Config { delayed_ack: false, ..Config::default() }), 2);
    let kept = Rc::new(RefCell::new(Vec::new()));
    let (mut is_first, sacks) = (true, Rc::clone(&kept));
    pair.drop_if = Box::new(move |_, from, packet| {
        if from == Side::B {
            sacks.borrow_mut().push(packet.clone());
        }
        from == Side::B || std::mem::take(&mut is_first)
    });
    pair.send_reliable(6, 1_400);
    pair.run_for(ms(100));
    (pair, kept.take())
}

fn sender(pair: &Pair) -> (u64, Vec<u32>) {
    let sender = &pair.ends[0];
    let windows = sender.routing.paths.iter().map(|path| path.cc.limits().cwnd).collect();
    (sender.sender.outstanding.bytes(), windows)
}

#[test]
fn a_sack_that_a_later_one_has_overtaken_revokes_nothing() {
    let (mut pair, sacks) = with_sacks_of_five_chunks();
    assert_eq!(sacks.len(), 5);
    pair.input(Side::A, Input::Packet(Box::new(sacks[4].clone())));
    let known = sender(&pair);
    assert_eq!(known.0, 1_400, "the first chunk is outstanding");
    for old in [3, 0, 2, 1] {
        pair.input(Side::A, Input::Packet(Box::new(sacks[old].clone())));
        assert_eq!(sender(&pair), known, "after SACK {old}");
    }
}

#[test]
fn a_sack_with_news_that_lacks_what_was_known_revokes_it() {
    let (mut pair, sacks) = with_sacks_of_five_chunks();
    pair.input(Side::A, Input::Packet(Box::new(sacks[1].clone())));
    assert_eq!(sender(&pair).0, 4 * 1_400);
    let mut newer = sacks[4].clone();
    if let Body::Sctp(packet) = &mut newer.body
        && let Chunk::Sack(_, sack) = &mut packet.first
    {
        sack.gap_blocks[0].start = 4;
    }
    pair.input(Side::A, Input::Packet(Box::new(newer)));
    assert_eq!(sender(&pair).0, 3 * 1_400, "the first chunk, and the two that were dropped");
}

#[test]
fn the_user_still_names_the_primary_path() {
    let mut pair = Pair::open(&sharing(Config::default()), 2);
    pair.command(Side::A, Command::SetPrimary(PathId(1)));
    assert_eq!(pair.ends[0].routing.selection.primary, PathId(1));
}
