use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::report::Row;

use super::*;
use crate::app::testing::Loopback;
use proptest::prelude::*;

const STREAMS: Streams = Streams { seed: 1, replication: 0 };
const STREAMS_OF_BYTES: Service = Service::Streams { longest_datagram: 0 };
const MESSAGES: Service = Service::Messages { longest: 100_000, whole: 100_000, is_limited: true };

fn requests(json: &str, service: Service) -> Result<Exchanges, String> {
    serde_json::from_str::<requests::RequestsConfig>(json).unwrap().build(STREAMS, "x", service)
}

fn pages(json: &str, service: Service) -> Exchanges {
    serde_json::from_str::<web::WebConfig>(json).unwrap().build(STREAMS, "x", service).unwrap()
}

fn web(json: &str) -> Exchanges {
    pages(json, Service::Stream)
}

fn probes(json: &str) -> Exchanges {
    let config: responsiveness::ResponsivenessConfig = serde_json::from_str(json).unwrap();
    config.build(STREAMS, "x", Service::Stream).unwrap()
}

fn value(loopback: &Loopback<Exchanges>, name: &str) -> f64 {
    let mut row = Row::default();
    loopback.app.report(loopback.now, &mut row.section("x"));
    row.value(&format!("x.{name}")).unwrap()
}

/// Delivers everything that is on its way, 10 ms after it was sent, until the application is done.
fn run_with_delay(loopback: &mut Loopback<Exchanges>) {
    for _ in 0..10_000 {
        if loopback.app.is_done() {
            return;
        }
        let side = if loopback.sends.last().is_some_and(|(_, side, _)| *side == Side::B) {
            Side::B
        } else {
            Side::A
        };
        loopback.wake(loopback.now + Duration::from_millis(10));
        loopback.deliver(side, u64::MAX);
    }
    panic!("not done");
}

#[test]
fn a_request_is_answered_when_all_of_it_is_there() {
    let app = requests(r#"{"request_size": "300 B", "response_size": "1 kB", "count": 2}"#, Service::Stream);
    let mut exchange = Loopback::new(app.unwrap(), Service::Stream, 10_000);
    exchange.wake(Time::from_millis(1));
    exchange.deliver(Side::A, 299);
    assert_eq!(exchange.sends.len(), 1);
    exchange.deliver(Side::A, 1);
    let (_, side, payload) = exchange.sends[1];
    assert_eq!((side, payload.length), (Side::B, 1_000));
    exchange.wake(Time::from_millis(7));
    exchange.deliver(Side::B, 999);
    assert_eq!(exchange.app.exchanges().len(), 1);
    exchange.deliver(Side::B, 1);
    assert_eq!(exchange.app.exchanges().len(), 2, "without a pause the next one begins at once");
    assert_eq!(exchange.app.exchanges()[0].time(), Some(Duration::from_millis(7)));
    exchange.run(&[10_000], 10);
    assert_eq!(exchange.received, [2_000, 600]);
    assert_eq!((value(&exchange, "completed"), value(&exchange, "started")), (2.0, 2.0));
}

#[test]
fn pauses_lie_between_a_response_and_the_next_request() {
    let app = requests(r#"{"think_time": "1 s", "count": 3, "start": "2 s"}"#, Service::Stream).unwrap();
    let mut exchange = Loopback::new(app, Service::Stream, 100_000);
    run_with_delay(&mut exchange);
    let exchanges = exchange.app.exchanges();
    assert_eq!(exchanges[0].asked, Time::from_secs(2));
    for pair in exchanges.windows(2) {
        assert_eq!(pair[1].asked, pair[0].finished + Duration::from_secs(1));
    }
}

#[test]
fn each_exchange_can_have_a_connection_of_its_own() {
    let json = r#"{"count": 5, "connection": "per_request", "think_time": "3 ms"}"#;
    let mut exchange = Loopback::new(requests(json, Service::Stream).unwrap(), Service::Stream, 4_000);
    exchange.run(&[3_000], 1_000);
    assert_eq!(exchange.connections, 5);
    assert_eq!(exchange.received, [50_000, 500]);
    assert!(exchange.app.exchanges().iter().all(|one| one.connected == one.asked));
}

#[test]
fn an_exchange_that_fails_is_counted_and_the_next_one_begins() {
    let json = r#"{"count": 3, "connection": "per_request"}"#;
    let mut exchange = Loopback::new(requests(json, Service::Stream).unwrap(), Service::Stream, 4_000);
    exchange.wake(Time::from_millis(1));
    exchange.event(Side::A, Event::Closed(CloseReason::Lost));
    exchange.run(&[3_000], 1_000);
    assert_eq!(["started", "completed", "failed"].map(|name| value(&exchange, name)), [3.0, 2.0, 1.0]);
    let persistent = requests(r#"{"count": 3}"#, Service::Stream).unwrap();
    let mut exchange = Loopback::new(persistent, Service::Stream, 4_000);
    exchange.wake(Time::from_millis(1));
    exchange.event(Side::A, Event::Closed(CloseReason::Lost));
    assert!(exchange.app.is_done(), "the only connection is gone");
    assert_eq!(["started", "completed", "failed"].map(|name| value(&exchange, name)), [1.0, 0.0, 1.0]);
}

#[test]
fn a_page_is_its_main_object_and_then_all_others() {
    let json = r#"{"main_size": "1 kB", "objects": 3, "object_size": "2 kB", "request_size": "50 B", "pages": 2, "think_time": "1 s"}"#;
    let mut page = Loopback::new(web(json), Service::Stream, 100_000);
    run_with_delay(&mut page);
    let sends: Vec<_> = page.sends.iter().take(4).map(|(_, side, payload)| (*side, payload.length)).collect();
    assert_eq!(sends, [(Side::A, 50), (Side::B, 1_000), (Side::A, 150), (Side::B, 6_000)]);
    // This takes two round trips.
    assert_eq!(value(&page, "mean_page_load_ms"), 40.0);
    assert_eq!(page.app.exchanges()[1].bytes, 7_000);
}

#[test]
fn probes_count_round_trips_per_minute() {
    let mut probe = Loopback::new(probes(r#"{"count": 20}"#), Service::Stream, 100_000);
    run_with_delay(&mut probe);
    assert_eq!(value(&probe, "rpm"), 60_000.0 / 20.0);
    let json = r#"{"count": 20, "connection": "per_request"}"#;
    let mut probe = Loopback::new(probes(json), Service::Stream, 100_000);
    run_with_delay(&mut probe);
    // This connection opens in no time; the other two take a round trip of 20 ms each.
    assert_eq!(["connect_ms", "tls_ms", "fetch_ms"].map(|name| value(&probe, name)), [0.0, 20.0, 20.0]);
    assert_eq!(value(&probe, "rpm"), 60_000.0 / (40.0 / 3.0));
}

#[test]
fn impossible_values_are_named() {
    let check = |json: &str, service| requests(json, service).unwrap_err();
    assert_eq!(
        check("{}", Service::Datagrams),
        "kind = \"requests\" needs a transport with flow control; use \"mptcp\", \"quic\", \"sctp\" or \"tcp\""
    );
    assert!(check(r#"{"connection": "per_request"}"#, MESSAGES).starts_with("connection = \"per_request\""));
    assert_eq!(check(r#"{"count": 0}"#, MESSAGES), "count = 0 asks for nothing; use at least 1");
    assert_eq!(
        check(r#"{"response_size": "0 B"}"#, MESSAGES),
        "response_size = \"0 B\" is not from 1 B to 1000000000000 B"
    );
    assert_eq!(
        check(r#"{"think_time": {"kind": "pareto", "mean": "1 s", "shape": 0.5}}"#, MESSAGES),
        "think_time.shape = 0.5 is not above 1 and up to 10"
    );
}

proptest! {
    /// Whatever the sizes, the buffer and the pieces in which it empties, every exchange finishes with the
    /// bytes that it asked for.
    #[test]
    fn every_exchange_finishes(
        count in 1..20_u64,
        request in 1..5_000_u64,
        response in 1..30_000_u64,
        think_time in prop_oneof![Just("0 s"), Just("700 us"), Just("5 ms")],
        kind in 0..6,
        buffer in 100..20_000_u64,
        pieces in proptest::collection::vec(1..20_000_u64, 1..5),
    ) {
        let sizes = format!(r#""request_size": "{request} B", "think_time": "{think_time}""#);
        let drawn = format!(r#"{{"kind": "exponential", "mean": "{response} B"}}"#);
        let (app, service, connections) = match kind {
            0 => {
                let json = format!(r#"{{{sizes}, "count": {count}, "response_size": {drawn}}}"#);
                let service = Service::Messages { longest: buffer, whole: buffer, is_limited: true };
                (requests(&json, service).unwrap(), service, 1)
            }
            1 => {
                let json = format!(r#"{{{sizes}, "count": {count}, "connection": "per_request", "response_size": {drawn}}}"#);
                (requests(&json, Service::Stream).unwrap(), Service::Stream, count)
            }
            2 => {
                let json = format!(r#"{{{sizes}, "pages": {count}, "object_size": {drawn}, "objects": 3}}"#);
                (web(&json), Service::Stream, 1)
            }
            3 => {
                let json = format!(r#"{{{sizes}, "count": {count}, "connection": "per_request", "response_size": {drawn}}}"#);
                (requests(&json, STREAMS_OF_BYTES).unwrap(), STREAMS_OF_BYTES, count)
            }
            4 => {
                let json = format!(r#"{{{sizes}, "pages": {count}, "object_size": {drawn}, "objects": 7}}"#);
                (pages(&json, STREAMS_OF_BYTES), STREAMS_OF_BYTES, 1)
            }
            _ => {
                let json = format!(r#"{{{sizes}, "pages": {count}, "object_size": {drawn}, "objects": 2, "connection": "per_request"}}"#);
                (web(&json), Service::Stream, count)
            }
        };
        let mut loopback = Loopback::new(app, service, buffer);
        loopback.run(&pieces, 3_000_000);
        let exchanges = loopback.app.exchanges();
        prop_assert_eq!(exchanges.len() as u64, count);
        prop_assert!(exchanges.iter().all(|one| one.time().is_some()));
        prop_assert_eq!(exchanges.iter().map(|one| one.bytes).sum::<u64>(), loopback.received[0]);
        prop_assert_eq!(u64::from(loopback.connections), connections);
    }
}
