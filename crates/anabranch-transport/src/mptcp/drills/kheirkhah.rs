//! Drills and properties of profile `kheirkhah_v1`, the ns-3 model of MPTCP by Kheirkhah, Wakeman and
//! Parisis, one for each of its rules on the connection level; tests name the model's functions
//! (`mp-tcp-socket-base.cc`). Those of a subflow are in `tcp/drills/kheirkhah.rs`, those of the couplings in
//! `cc/coupled/`.

use proptest::prelude::*;

use crate::cc::coupled;
use crate::endpoint::{CloseReason, Command, Event};
use crate::flow::Side;
use crate::mptcp::testing::{Logged, Pair, Wire, config, ms};
use crate::mptcp::{Config, Profile, Receiver};
use crate::tcp;
use crate::time::{Duration, Time};
use crate::units::Bytes;

const MSS: u32 = 1_400;

fn model() -> Config {
    let subflow = tcp::Config {
        profile: tcp::Profile::KheirkhahV1,
        mss: Some(Bytes(u64::from(MSS))),
        ..tcp::Config::default()
    };
    Config { tcp: Some(subflow), ..config(Profile::KheirkhahV1) }
}

fn wire(millis: u64) -> Wire {
    Wire { delay: ms(millis), ..Wire::default() }
}

/// Data that A has sent: paths, and positions on the connection level in segments behind the first byte, in
/// the order of these positions.
fn sent(pair: &mut Pair) -> Vec<(u8, u64)> {
    let log = std::mem::take(&mut pair.log);
    let data = log.iter().filter(|logged| logged.from == Side::A && logged.payload.length > 0);
    let mut placed: Vec<(u8, u64)> = data
        .map(|logged| {
            let position = logged.options.data_position.expect("data has a place");
            (logged.path, (position - 1) / u64::from(MSS))
        })
        .collect();
    placed.sort_by_key(|&(_, position)| position);
    placed
}

/// Bytes outstanding on each subflow of A.
fn outstanding(pair: &Pair) -> Vec<u32> {
    pair.end(Side::A).subflows.iter().map(|subflow| subflow.tcp.outstanding_bytes()).collect()
}

#[test]
fn send_pending_data_takes_turns_where_there_is_room() {
    let mut pair = Pair::open(&model(), vec![wire(20), wire(50)]);
    // The byte that opened the connection went on path 0, whose window it has doubled.
    pair.write(Side::A, 20 * MSS);
    assert_eq!(sent(&mut pair), [(1, 0), (0, 1), (0, 2)], "path 1 has one window, path 0 two");
    // The two segments on path 0 are acknowledged after 40 ms, one by one, and each acknowledgement lets two
    // out.
    pair.run_for(ms(45));
    assert_eq!(sent(&mut pair), [(0, 3), (0, 4), (0, 5), (0, 6)]);
    pair.run_for(ms(35));
    assert_eq!(sent(&mut pair), [(0, 7), (0, 8), (0, 9), (0, 10), (0, 11), (0, 12), (0, 13), (0, 14)]);
    pair.run_for(ms(25));
    assert_eq!(sent(&mut pair), [(1, 15), (1, 16)]);
}

#[test]
fn send_pending_data_waits_for_the_room_of_a_full_segment() {
    let mut pair = Pair::open(&model(), vec![wire(20)]);
    pair.write(Side::A, 3 * MSS / 2);
    let sizes: Vec<u32> = pair.log.iter().map(|logged| logged.payload.length).collect();
    assert_eq!(sizes, [MSS, MSS / 2], "what is left goes at the end");
}

#[test]
fn available_window_is_65535_of_each_subflow_and_not_shared() {
    let mut pair = Pair::open(&model(), vec![wire(200), wire(300)]);
    pair.write(Side::A, 4_000_000);
    pair.run_for(ms(8_000));
    assert_eq!(outstanding(&pair), [46 * MSS; 2]);
}

#[test]
fn a_gap_of_the_connection_holds_nothing_up_and_nothing_is_sent_again_elsewhere() {
    let mut pair = Pair::open(&model(), vec![wire(20), wire(20)]);
    pair.wires[1].is_dead = true;
    pair.write(Side::A, 2_000_000);
    pair.run_for(Duration::from_secs(20));
    assert_eq!(pair.received_bytes(Side::B), 1, "the first segment is on path 1");
    assert!(pair.bytes_on(Side::A, 0) > 1_900_000, "more than any window of the connection");
    assert_eq!(pair.end(Side::A).stats().bytes_reinjected, 0);
    pair.wires[1].is_dead = false;
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.received_bytes(Side::B), 2_000_001);
    assert_eq!(pair.end(Side::A).stats().bytes_reinjected, 0);
}

#[test]
fn send_data_packet_has_forty_bytes_of_header_and_so_has_send_empty_packet() {
    let mut pair = Pair::open(&model(), vec![wire(20), wire(20)]);
    pair.write(Side::A, 100 * MSS);
    pair.run_for(ms(1_000));
    assert!(pair.log.len() > 190);
    for Logged { size, payload, .. } in &pair.log {
        // The two bytes of PPP are added by the links.
        assert_eq!(*size, payload.length + 60);
    }
}

/// What happens when these segments of the connection are lost once: the segments of path 0 that reach B
/// again, those that A's subflow 0 sends again, and its timeouts.
fn lossy(receiver: Receiver, lost: &'static [u64]) -> (u64, u64, u64) {
    let settings = Config { receiver: Some(receiver), ..model() };
    let mut pair = Pair::open(&settings, vec![wire(20), wire(50)]);
    let mut left = lost.to_vec();
    pair.drop_if = Box::new(move |logged| {
        let position = logged.options.data_position.filter(|_| logged.payload.length > 0);
        let index = position.and_then(|at| left.iter().position(|lost| 1 + lost * u64::from(MSS) == at));
        index.map(|index| left.remove(index)).is_some()
    });
    pair.write(Side::A, 60 * MSS);
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.received_bytes(Side::B), u64::from(60 * MSS) + 1);
    let [a, b] = [Side::A, Side::B].map(|side| pair.end(side).subflows[0].tcp.stats());
    (b.duplicates_received, a.data_segments_retransmitted, a.timeouts)
}

#[test]
fn received_data_as_cited_has_segments_sent_again_that_are_there() {
    // Segment 0 is the first one on path 1, which has measured nothing yet and waits for a timeout of 1.5 s;
    // segment 9 is on path 0, in a window of eight.
    assert_eq!(lossy(Receiver::Textbook, &[0, 9]), (0, 1, 0));
    let (duplicates, retransmitted, timeouts) = lossy(Receiver::AsCited, &[0, 9]);
    assert!(duplicates > 0 && retransmitted > 1, "{duplicates} duplicates, {retransmitted} again");
    assert!(timeouts > 0, "a duplicate is not counted, so that only a timeout is left");
    // Without a loss on the subflow there is no gap to move over.
    assert_eq!(lossy(Receiver::AsCited, &[0]), (0, 0, 0));
}

#[test]
fn read_unordered_data_moves_over_what_waits_when_the_gap_of_the_connection_is_filled() {
    let settings = Config { receiver: Some(Receiver::AsCited), ..model() };
    // With one path, what fills the gap of the subflow also fills that of the connection.
    let mut pair = Pair::open(&settings, vec![wire(20)]);
    let mut left = 1;
    pair.drop_if = Box::new(move |logged| {
        let is_lost = left > 0 && logged.options.data_position == Some(1 + 9 * u64::from(MSS));
        left -= u32::from(is_lost);
        is_lost
    });
    pair.write(Side::A, 60 * MSS);
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.received_bytes(Side::B), u64::from(60 * MSS) + 1);
    let [a, b] = [Side::A, Side::B].map(|side| pair.end(side).subflows[0].tcp.stats());
    assert_eq!((b.duplicates_received, a.data_segments_retransmitted, a.timeouts), (0, 1, 0));
}

#[test]
fn an_impossible_setting_is_one_sentence() {
    let error = |json: &str| {
        let config: Config = serde_json::from_str(json).expect("the settings can be read");
        config.resolve().expect_err("the settings are impossible")
    };
    assert_eq!(
        error(r#"{"profile": "kheirkhah_v1", "receive_buffer": "64 KiB"}"#),
        "receive_buffer = 65536 B is not in profile kheirkhah_v1, which has no limit; leave it out"
    );
    assert_eq!(
        error(r#"{"receiver": "as_cited"}"#),
        "receiver = \"as_cited\" is only in profile kheirkhah_v1; use \"textbook\""
    );
}

fn any_wire() -> impl Strategy<Value = Wire> {
    (1..200_u64, prop_oneof![Just(0.0), 0.0..0.2], prop_oneof![Just(0.0), 0.0..0.2], 0..80_u64).prop_map(
        |(delay, loss, duplication, jitter)| Wire {
            delay: ms(delay),
            jitter: ms(jitter),
            loss,
            duplication,
            ..Wire::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order(
        coupling in 0..coupled::Config::all().len(),
        receiver in prop_oneof![Just(Receiver::AsCited), Just(Receiver::Textbook)],
        wires in proptest::collection::vec(any_wire(), 1..4),
        length in prop_oneof![1..5_000_u32, 1..400_000_u32],
        answer in 0..20_000_u32,
        seed in any::<u64>(),
    ) {
        let coupling = Some(coupled::Config::all().swap_remove(coupling));
        let mut settings = Config { coupling, receiver: Some(receiver), ..model() };
        if let Some(subflow) = &mut settings.tcp {
            (subflow.rto_max, subflow.syn_retries) = (Some(ms(3_000)), Some(1_000));
        }
        let mut pair = Pair::seeded([&settings, &settings], wires, seed);
        pair.command(Side::A, Command::Connect);
        let deadline = Time::from_secs(10_000);
        pair.run_until(deadline, |pair| pair.heard(Side::B, &Event::Connected));
        pair.write(Side::B, answer);
        pair.write_and_close(Side::A, length);
        pair.run_to_the_end(20_000);
        prop_assert_eq!(pair.received_bytes(Side::B), u64::from(length));
        prop_assert_eq!(pair.received_bytes(Side::A), u64::from(answer));
        prop_assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown));
        prop_assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown));
    }
}
