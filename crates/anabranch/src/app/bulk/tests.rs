use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::report::Row;

use super::*;
use crate::app::testing::Loopback;

use proptest::prelude::*;

const STREAMS: Streams = Streams { seed: 1, replication: 0 };
const MESSAGES: Service = Service::Messages { longest: 100_000, whole: 100_000, is_limited: true };

fn config(json: &str) -> BulkConfig {
    serde_json::from_str(json).unwrap()
}

fn loopback(json: &str, service: Service, buffer: u64) -> Loopback<Bulk> {
    Loopback::new(config(json).build(STREAMS, "x", service).unwrap(), service, buffer)
}

fn value(loopback: &Loopback<Bulk>, name: &str) -> f64 {
    let mut row = Row::default();
    loopback.app.report(loopback.now, &mut row.section("x"));
    row.value(&format!("x.{name}")).unwrap()
}

#[test]
fn a_stream_is_offered_whole_and_resumed_where_it_was_refused() {
    for service in [Service::Stream, Service::Streams { longest_datagram: 0 }] {
        let mut transfer = loopback(r#"{"bytes": "100 kB"}"#, service, 30_000);
        transfer.wake(Time::from_millis(1));
        transfer.deliver(Side::A, 9_999);
        assert_eq!(transfer.sends.len(), 1, "below a third of the buffer, nothing is writable");
        transfer.deliver(Side::A, 1);
        transfer.deliver(Side::A, 30_000);
        let sends: Vec<_> =
            transfer.sends.iter().map(|(_, _, payload)| (payload.offset, payload.length)).collect();
        assert_eq!(sends, [(0, 100_000), (30_000, 70_000), (40_000, 60_000)]);
    }
}

#[test]
fn messages_are_offered_one_by_one_and_again_as_a_whole() {
    let mut transfer = loopback(r#"{"bytes": "25 kB", "write_size": "10 kB"}"#, MESSAGES, 15_000);
    transfer.wake(Time::from_millis(1));
    assert_eq!(transfer.sends.len(), 2);
    transfer.deliver(Side::A, 10_000);
    transfer.wake(Time::from_millis(2));
    transfer.deliver(Side::A, 10_000);
    transfer.wake(Time::from_millis(3));
    let sends: Vec<_> =
        transfer.sends.iter().map(|(_, _, payload)| (payload.offset, payload.length)).collect();
    // The second write is refused once; the third fits together with it.
    assert_eq!(sends, [(0, 10_000), (10_000, 10_000), (10_000, 10_000), (20_000, 5_000)]);
}

#[test]
fn writes_that_take_time_are_so_far_apart() {
    let json = r#"{"bytes": "3500 B", "write_size": "1 kB", "write_cost": "5 us"}"#;
    let mut transfer = loopback(json, Service::Stream, 1_000_000);
    transfer.wake(Time::from_millis(1));
    let sends: Vec<_> =
        transfer.sends.iter().map(|(at, _, payload)| (at.as_nanos(), payload.length)).collect();
    assert_eq!(sends, [(0, 1_000), (5_000, 1_000), (10_000, 1_000), (15_000, 500)]);
}

#[test]
fn a_duration_ends_writing_but_not_what_was_taken() {
    let mut transfer = loopback(r#"{"duration": "10 ms"}"#, Service::Stream, 5_000);
    transfer.wake(Time::from_millis(4));
    transfer.deliver(Side::A, 5_000);
    transfer.wake(Time::from_millis(10));
    assert!(!transfer.app.is_done());
    transfer.wake(Time::from_millis(15));
    transfer.deliver(Side::A, 5_000);
    assert!(transfer.app.is_done());
    assert_eq!(transfer.received, [0, 10_000]);
    assert_eq!(value(&transfer, "goodput_kbit_per_s"), 10_000.0 * 8.0 / 15.0);
    assert!(value(&transfer, "completion_s").is_nan(), "there was no size to complete");
    transfer.wake(Time::from_millis(50));
    assert_eq!(value(&transfer, "goodput_kbit_per_s"), 10_000.0 * 8.0 / 15.0, "the transfer's own time");
}

#[test]
fn a_background_load_never_holds_the_run() {
    let mut transfer = loopback("{}", Service::Stream, 5_000);
    assert!(transfer.app.is_done());
    transfer.wake(Time::from_millis(1));
    for _ in 0..100 {
        transfer.deliver(Side::A, 2_000);
    }
    assert_eq!(transfer.received[1], 200_000);
    assert_eq!(value(&transfer, "sent_bytes"), 205_000.0);
}

#[test]
fn a_lost_connection_ends_the_transfer() {
    let mut transfer = loopback(r#"{"bytes": "100 kB", "start": "2 ms"}"#, Service::Stream, 30_000);
    transfer.wake(Time::from_millis(5));
    transfer.deliver(Side::A, 30_000);
    transfer.wake(Time::from_millis(8));
    transfer.event(Side::A, Event::Closed(CloseReason::Lost));
    assert!(transfer.app.is_done());
    transfer.wake(Time::from_millis(100));
    assert_eq!(value(&transfer, "goodput_kbit_per_s"), 30_000.0 * 8.0 / 6.0);
    assert_eq!(value(&transfer, "stalled_s"), 0.003);
    assert!(value(&transfer, "completion_s").is_nan());
}

#[test]
fn impossible_values_are_named() {
    let check = |json: &str, service| config(json).build(STREAMS, "x", service).unwrap_err();
    assert_eq!(
        check("{}", Service::Datagrams),
        "kind = \"bulk\" needs a transport with flow control; use \"mptcp\", \"quic\", \"sctp\" or \"tcp\""
    );
    assert_eq!(
        check(r#"{"write_size": "0 B"}"#, Service::Stream),
        "write_size = \"0 B\" is not from 1 B to 1073741824 B"
    );
    assert_eq!(
        check(r#"{"write_size": "101 kB"}"#, MESSAGES),
        "write_size = \"101000 B\" is not from 1 B to 100000 B"
    );
    assert_eq!(
        check(r#"{"bytes": "0 B"}"#, MESSAGES),
        "bytes = \"0 B\" is nothing to send; use at least 1 B"
    );
    assert_eq!(
        check(r#"{"interval": "0 s"}"#, MESSAGES),
        "interval = \"0 s\" is not a length of time from 1 ms on"
    );
    let unlimited = Service::Messages { longest: 100_000, whole: 100_000, is_limited: false };
    assert!(check("{}", unlimited).contains("without bytes fills a send buffer without limit"));
}

proptest! {
    /// Whatever the size of the buffer and of the pieces in which it empties, what was to be sent arrives
    /// once and in order (the connection checks this), and the transfer ends.
    #[test]
    fn everything_arrives(
        bytes in 1..200_000_u64,
        write_size in 1..3_000_u64,
        write_cost in prop_oneof![Just(""), Just(r#", "write_cost": "0 s""#), Just(r#", "write_cost": "20 us""#)],
        direction in prop_oneof![Just("a_to_b"), Just("b_to_a"), Just("both")],
        is_stream in any::<bool>(),
        buffer in 3_000..100_000_u64,
        pieces in proptest::collection::vec(1..20_000_u64, 1..5),
    ) {
        let json = format!(
            r#"{{"bytes": "{bytes} B", "write_size": "{write_size} B", "direction": "{direction}"{write_cost}}}"#
        );
        let service = if is_stream { Service::Stream } else { MESSAGES };
        let mut transfer = loopback(&json, service, buffer);
        transfer.run(&pieces, 500_000);
        let expected = match direction {
            "a_to_b" => [0, bytes],
            "b_to_a" => [bytes, 0],
            _ => [bytes, bytes],
        };
        prop_assert_eq!(transfer.received, expected);
        for side in [Side::A, Side::B] {
            let intervals = transfer.app.intervals(side, transfer.now);
            prop_assert_eq!(intervals.iter().map(|i| i.bytes).sum::<u64>(), expected[side.peer().index()]);
            prop_assert!(intervals.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
