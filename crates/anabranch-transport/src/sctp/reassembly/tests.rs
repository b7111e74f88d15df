//! Fragments and messages in any order.

use super::*;

fn data(ssn: u16, offset: u64, (beginning, ending): (bool, bool)) -> Data {
    Data {
        tsn: 0,
        stream: 1,
        ssn,
        ppid: 0,
        unordered: false,
        beginning,
        ending,
        immediate: false,
        payload: Payload { offset, length: 10 },
    }
}

fn offset(event: &Event) -> u64 {
    let Event::Received(message) = event else { panic!("{event:?} is no message") };
    message.payload.offset
}

fn insert(reassembly: &mut Reassembly, tsn: u64, data: Data) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    reassembly.insert(tsn, data, |m| out.push((m.payload.offset, m.payload.length)));
    out
}

#[test]
fn fragments_in_any_order_become_one_message() {
    let mut reassembly = Reassembly::default();
    assert_eq!(insert(&mut reassembly, 7, data(0, 20, (false, true))), []);
    assert_eq!(insert(&mut reassembly, 5, data(0, 0, (true, false))), []);
    assert_eq!(reassembly.bytes, 20);
    assert_eq!(insert(&mut reassembly, 6, data(0, 10, (false, false))), [(0, 30)]);
    assert_eq!(reassembly.bytes, 0);
}

#[test]
fn order_is_kept_per_stream() {
    let mut reassembly = Reassembly::default();
    assert_eq!(insert(&mut reassembly, 6, data(1, 10, (true, true))), []);
    assert_eq!(insert(&mut reassembly, 7, data(2, 20, (true, true))), []);
    let unordered = Data { unordered: true, ..data(0, 99, (true, true)) };
    assert_eq!(insert(&mut reassembly, 8, unordered), [(99, 10)]);
    assert_eq!(insert(&mut reassembly, 5, data(0, 0, (true, true))), [(0, 10), (10, 10), (20, 10)]);
    assert_eq!(reassembly.bytes, 0);
}

#[test]
fn a_stream_sequence_number_before_the_first_one_is_an_old_one() {
    let mut reassembly = Reassembly::default();
    let mut out = Vec::new();
    reassembly.forward(4, &[SkippedStream { stream: 1, ssn: u16::MAX }], &mut |event| {
        out.push(offset(&event));
    });
    assert_eq!(out, [0_u64; 0]);
    assert_eq!(insert(&mut reassembly, 5, data(u16::MAX, 0, (true, true))), []);
    assert_eq!(reassembly.bytes, 0, "nothing waits for it");
    assert_eq!(insert(&mut reassembly, 6, data(0, 10, (true, true))), [(10, 10)]);
}

#[test]
fn a_forward_tsn_drops_fragments_and_releases_what_waited() {
    let mut reassembly = Reassembly::default();
    insert(&mut reassembly, 5, data(0, 0, (true, false)));
    insert(&mut reassembly, 7, data(1, 20, (true, true)));
    insert(&mut reassembly, 9, data(3, 40, (true, true)));
    let mut out = Vec::new();
    reassembly.forward(6, &[SkippedStream { stream: 1, ssn: 0 }], &mut |event| out.push(offset(&event)));
    assert_eq!(out, [20]);
    assert_eq!(reassembly.bytes, 10);
    assert_eq!(insert(&mut reassembly, 8, data(2, 30, (true, true))), [(30, 10), (40, 10)]);
}

#[test]
fn fragments_whose_beginning_was_passed_are_dropped() {
    // Those that are there, those that come later, and what had waited behind these.
    for order in [[6, 7, 8], [8, 7, 6], [7, 6, 8], [7, 8, 6], [6, 8, 7], [8, 6, 7]] {
        for forward_after in 0..=3 {
            let mut reassembly = Reassembly::default();
            insert(&mut reassembly, 5, data(0, 0, (true, false)));
            for (count, tsn) in (0..).zip(order) {
                if count == forward_after {
                    reassembly.forward(5, &[], &mut |event| panic!("{event:?}"));
                }
                assert_eq!(insert(&mut reassembly, tsn, data(0, tsn, (false, tsn == 9))), []);
            }
            if forward_after == 3 {
                reassembly.forward(5, &[], &mut |event| panic!("{event:?}"));
            }
            assert_eq!(reassembly.bytes, 0, "{order:?}, passed after {forward_after}");
            assert_eq!(reassembly.waiting_tsns(), [0_u64; 0]);
            // A message behind them is whole.
            let unordered = |place| Data { unordered: true, ..data(0, 90, place) };
            assert_eq!(insert(&mut reassembly, 9, unordered((true, false))), []);
            assert_eq!(insert(&mut reassembly, 10, unordered((false, true))), [(90, 20)]);
        }
    }
}

/// The events of a step as text: a message, a part, the last part or an end.
fn told(act: impl FnOnce(&mut dyn FnMut(Event))) -> Vec<String> {
    let mut told = Vec::new();
    act(&mut |event| {
        told.push(match event {
            Event::Received(message) => format!("whole {}", message.payload.offset),
            Event::ReceivedPart(Part { is_last, payload: Payload { offset, length }, .. }) => {
                format!("{} {offset}+{length}", if is_last { "last" } else { "part" })
            }
            event => event.describe().0.to_owned(),
        });
    });
    told
}

#[test]
fn parts_are_delivered_and_others_wait() {
    let mut reassembly = Reassembly::default();
    insert(&mut reassembly, 5, data(0, 0, (true, false)));
    insert(&mut reassembly, 6, data(0, 10, (false, false)));
    assert_eq!(told(|tell| assert!(reassembly.begin_parts(tell))), ["part 0+20"]);
    assert_eq!(reassembly.bytes, 0);
    let other = Data { unordered: true, ..data(0, 90, (true, true)) };
    assert_eq!(told(|tell| reassembly.insert_beside_parts(9, other, tell)), [""; 0]);
    assert_eq!(told(|tell| reassembly.insert_beside_parts(10, data(1, 95, (true, true)), tell)), [""; 0]);
    assert_eq!(told(|tell| reassembly.insert_beside_parts(8, data(0, 30, (false, true)), tell)), [""; 0]);
    assert_eq!(reassembly.bytes, 30);
    assert!(reassembly.waiting().any(|payload| payload.offset == 90), "its bytes are kept");
    assert_eq!(
        told(|tell| reassembly.insert_beside_parts(7, data(0, 20, (false, false)), tell)),
        ["last 20+20", "whole 90", "whole 95"]
    );
    assert_eq!(reassembly.bytes, 0);
    assert!(!reassembly.delivers_parts());
}

#[test]
fn a_forward_tsn_ends_the_message_in_parts_that_it_passes() {
    for passed in [5, 6, 7] {
        let mut reassembly = Reassembly::default();
        insert(&mut reassembly, 5, data(0, 0, (true, false)));
        told(|tell| assert!(reassembly.begin_parts(tell)));
        let other = Data { unordered: true, ..data(0, 90, (true, true)) };
        told(|tell| reassembly.insert_beside_parts(9, other, tell));
        told(|tell| reassembly.insert_beside_parts(7, data(0, 20, (false, false)), tell));
        let skip = [SkippedStream { stream: 1, ssn: 0 }];
        let expected = ["partial_delivery_aborted", "whole 90"];
        let skipped = if passed == 5 { &skip[..0] } else { &skip };
        assert_eq!(
            told(|tell| reassembly.forward(passed, skipped, tell)),
            expected[..if passed == 5 { 0 } else { 2 }]
        );
        if passed > 5 {
            assert_eq!(
                told(|tell| report_all(&mut reassembly, 8, data(0, 30, (false, true)), tell)),
                [""; 0]
            );
            assert_eq!(reassembly.bytes, 0, "the rest of it is dropped");
            assert_eq!(insert(&mut reassembly, 10, data(1, 95, (true, true))), [(95, 10)]);
        }
    }
}

fn report_all(reassembly: &mut Reassembly, tsn: u64, data: Data, tell: &mut dyn FnMut(Event)) {
    reassembly.insert(tsn, data, |message| tell(Event::Received(message.into())));
}

#[test]
fn a_peer_that_does_not_keep_to_the_order_gets_no_part() {
    for first in [data(0, 0, (false, false)), data(1, 0, (true, false))] {
        let mut reassembly = Reassembly::default();
        insert(&mut reassembly, 5, first);
        assert_eq!(told(|tell| assert!(!reassembly.begin_parts(tell))), [""; 0]);
    }
}

/// The whole message that a fragment completes, looked for among all that wait.
fn completed(waiting: &mut BTreeMap<u64, Data>, tsn: u64) -> Option<(u64, u32)> {
    let follows = |tsn: u64| is_next(&waiting[&(tsn - 1)], &waiting[&tsn]);
    let mut first = tsn;
    while waiting.contains_key(&(first - 1)) && follows(first) {
        first -= 1;
    }
    let mut last = tsn;
    while waiting.contains_key(&(last + 1)) && follows(last + 1) {
        last += 1;
    }
    if !waiting[&first].beginning || !waiting[&last].ending {
        return None;
    }
    let offset = waiting[&first].payload.offset;
    let fragments = (first..=last).filter_map(|tsn| waiting.remove(&tsn));
    Some((offset, fragments.map(|fragment| fragment.payload.length).sum()))
}

proptest::proptest! {
    #[test]
    fn fragments_wait_as_in_one_tree(
        steps in proptest::collection::vec((1_u64..24, 0_u8..12, proptest::bool::weighted(0.3)), 0..120),
    ) {
        let (mut reassembly, mut waiting) = (Reassembly::default(), BTreeMap::new());
        let mut arrived = std::collections::BTreeSet::new();
        let (mut in_order, mut dropped_to) = (100, 0);
        for (ahead, kind, is_next_one) in steps {
            let tsn = if is_next_one || ahead > 12 { in_order } else { in_order + ahead };
            if kind == 0 {
                reassembly.forward(tsn, &[], &mut |_| unreachable!("nothing waits for its turn"));
                waiting.retain(|&waiting, _| waiting > tsn);
                dropped_to = tsn;
                in_order = in_order.max(tsn + 1);
            } else if arrived.insert(tsn) && tsn >= in_order {
                // Messages are three TSNs long, unless a peer says something else.
                let place = if kind == 1 { ahead % 3 } else { tsn % 3 };
                let fragment =
                    Data { unordered: true, ..data(0, tsn * 10, (place == 0, place == 2)) };
                let continues = fragment.beginning
                    || waiting.get(&(tsn - 1)).is_none_or(|before| is_next(before, &fragment));
                proptest::prop_assert_eq!(reassembly.continues(tsn, &fragment), continues);
                waiting.insert(tsn, fragment);
                let expected: Vec<(u64, u32)> = completed(&mut waiting, tsn).into_iter().collect();
                proptest::prop_assert_eq!(insert(&mut reassembly, tsn, fragment), expected);
                while arrived.contains(&in_order) {
                    in_order += 1;
                }
            }
            while waiting.get(&(dropped_to + 1)).is_some_and(|fragment| !fragment.beginning) {
                dropped_to += 1;
                waiting.remove(&dropped_to);
            }
            let tsns: Vec<u64> = waiting.keys().copied().collect();
            proptest::prop_assert_eq!(reassembly.waiting_tsns(), tsns);
            proptest::prop_assert_eq!(reassembly.bytes, 10 * waiting.len() as u64);
        }
    }
}
