//! Drill tests of draft-natarajan-tsvwg-sctp-nrsack: when NR-SACKs take the place of SACKs, and what becomes
//! of chunks that they acknowledge for good.

use std::cell::RefCell;
use std::rc::Rc;

use crate::endpoint::{Input, Reliability};
use crate::flow::Side;
use crate::sctp::Config;
use crate::sctp::config::Profile;
use crate::sctp::outstanding::SentState;
use crate::sctp::procedures;
use crate::sctp::testing::{Pair, config, drop_first, holds, ms};
use crate::wire::sctp::chunk::{Chunk, GapBlock, NrSack};
use crate::wire::{Body, Packet};

fn wanting() -> Config {
    Config { nr_sack: Some(true), ..config(Profile::Rfc9260) }
}

/// The first NR-SACK in a packet.
fn nr_sack(packet: &mut Packet) -> &mut NrSack {
    let Body::Sctp(sctp) = &mut packet.body else { panic!("SCTP sends SCTP") };
    let Chunk::NrSack(_, nr_sack) = &mut sctp.first else { panic!("it comes first") };
    nr_sack
}

/// Four chunks leave and the first is lost. The NR-SACKs for the others, none of which arrives.
fn with_gap(config: &Config) -> (Pair, Vec<Packet>) {
    let mut pair = Pair::open(config, 1);
    let kept = Rc::new(RefCell::new(Vec::new()));
    let (mut is_first, copies) = (true, Rc::clone(&kept));
    pair.drop_if = Box::new(move |_, from, packet| {
        let is_nr_sack = holds(packet, "nr_sack");
        if is_nr_sack {
            copies.borrow_mut().push(packet.clone());
        }
        is_nr_sack || (from == Side::A && std::mem::take(&mut is_first))
    });
    // Of the ordered ones none can be delivered.
    pair.send(Side::A, 1_000, Reliability::Reliable, false);
    pair.send(Side::A, 1_000, Reliability::Reliable, false);
    pair.send(Side::A, 1_000, Reliability::Reliable, true);
    pair.send(Side::A, 1_000, Reliability::Reliable, false);
    pair.run_for(ms(100));
    (pair, kept.take())
}

fn states(pair: &Pair) -> Vec<SentState> {
    pair.ends[0].sender.outstanding.chunks.iter().map(|chunk| chunk.state).collect()
}

#[test]
fn section_3_nr_sacks_are_sent_where_both_ends_want_them() {
    for (wants, kind) in [(true, "nr_sack"), (false, "sack")] {
        let mut pair = Pair::new(&wanting(), 1);
        pair.ends[1].parameters.nr_sack = wants;
        pair.connect();
        pair.send_reliable(2, 100);
        pair.run_for(ms(300));
        assert!(!pair.sent(Side::B, kind).is_empty(), "{kind}");
        assert_eq!(pair.sent(Side::B, "sack").is_empty(), wants);
        assert!(pair.ends[0].sender.outstanding.chunks.is_empty(), "it is acknowledged");
    }
}

#[test]
fn section_5_what_is_final_leaves_the_send_buffer_and_is_never_sent_again() {
    let (mut pair, mut kept) = with_gap(&wanting());
    let mut last = kept.pop().expect("one was sent");
    let known = nr_sack(&mut last);
    assert!(known.sack.gap_blocks.is_empty());
    assert_eq!(*known.final_blocks, [GapBlock { start: 2, end: 4 }]);
    pair.input(Side::A, Input::Packet(Box::new(last.clone())));
    let (lost, known) = (SentState::InFlight, SentState::Final);
    assert_eq!(states(&pair), [lost, known, known, known]);
    assert_eq!(pair.ends[0].sender.outstanding.held_bytes, 1_000, "the others have left the send buffer");
    // Section 5.2: what the receiver said it would keep it cannot withdraw.
    nr_sack(&mut last).final_blocks = Box::default();
    pair.input(Side::A, Input::Packet(Box::new(last)));
    assert_eq!(states(&pair), [lost, known, known, known]);
    pair.drop_if = Box::new(|_, _, _| false);
    pair.run_for(ms(3_000));
    assert_eq!(pair.ends[0].stats.data_chunks_retransmitted, 1, "only the lost one");
    assert_eq!(pair.received(Side::B).len(), 4);
}

#[test]
fn section_5_gap_ack_blocks_can_be_withdrawn() {
    let (mut pair, mut kept) = with_gap(&wanting());
    let mut last = kept.pop().expect("one was sent");
    let (all, part) = (GapBlock { start: 2, end: 4 }, GapBlock { start: 2, end: 2 });
    // The two kinds of blocks may overlap.
    nr_sack(&mut last).sack.gap_blocks = [all].into_iter().collect();
    nr_sack(&mut last).final_blocks = [part].into();
    pair.input(Side::A, Input::Packet(Box::new(last.clone())));
    let (out, known) = (SentState::InFlight, SentState::Final);
    assert_eq!(states(&pair), [out, known, SentState::Acked, SentState::Acked]);
    assert_eq!(pair.ends[0].sender.outstanding.held_bytes, 3_000);
    nr_sack(&mut last).sack.gap_blocks.clear();
    pair.input(Side::A, Input::Packet(Box::new(last)));
    assert_eq!(states(&pair), [out, known, out, out]);
}

#[test]
fn section_5_a_receiver_that_may_drop_what_waits_takes_for_final_what_was_delivered() {
    let rule = procedures::Config { only_delivered_is_final: Some(true), ..Default::default() };
    let (_, mut kept) = with_gap(&Config { procedures: Some(rule), ..wanting() });
    let last = nr_sack(kept.last_mut().expect("one was sent"));
    let single = |offset| GapBlock { start: offset, end: offset };
    assert_eq!(last.sack.gap_blocks[..], [single(2), single(4)]);
    assert_eq!(*last.final_blocks, [single(3)]);
}

#[test]
fn rfc_9260_section_3_2_nothing_is_read_behind_an_nr_sack_that_was_not_agreed_on() {
    let (_, mut kept) = with_gap(&wanting());
    let mut packet = kept.pop().expect("one was sent");
    let mut pair = Pair::open(&config(Profile::Rfc9260), 1);
    pair.drop_if = drop_first("data", 1);
    pair.send_reliable(1, 1_000);
    let Body::Sctp(sctp) = &mut packet.body else { panic!("SCTP sends SCTP") };
    let own = &pair.ends[0];
    sctp.verification_tag = own.local.numbers.tag;
    let Chunk::NrSack(_, nr_sack) = &mut sctp.first else { panic!("it comes first") };
    nr_sack.sack.cumulative_tsn = own.local.numbers.initial_tsn;
    sctp.rest.push(Chunk::Sack(0, nr_sack.to_sack()));
    own.cut_unread(sctp);
    pair.input(Side::A, Input::Packet(Box::new(packet)));
    assert_eq!(states(&pair), [SentState::InFlight]);
}

#[test]
fn rfc_3758_section_3_5_a_forward_tsn_passes_what_is_final_and_does_not_name_it() {
    let mut pair = Pair::open(&wanting(), 1);
    let second = pair.ends[0].local.numbers.initial_tsn.wrapping_add(1);
    pair.drop_if = Box::new(move |_, _, packet| {
        let Body::Sctp(sctp) = &packet.body else { panic!("SCTP sends SCTP") };
        sctp.chunks().any(|chunk| matches!(chunk, Chunk::Data(data) if data.tsn != second))
    });
    let timed = Reliability::Timed(ms(300));
    pair.send(Side::A, 1_000, timed, false);
    pair.send(Side::A, 1_000, Reliability::Reliable, false);
    pair.send(Side::A, 1_000, timed, false);
    pair.run_for(ms(5_000));
    let forwards = pair.sent(Side::A, "forward_tsn");
    let Chunk::ForwardTsn(last) = &forwards.last().expect("two were given up").chunks[0] else {
        panic!("it comes first")
    };
    assert_eq!(last.new_cumulative_tsn, pair.ends[0].local.numbers.initial_tsn.wrapping_add(2));
    assert_eq!(pair.received(Side::B).len(), 1);
}
