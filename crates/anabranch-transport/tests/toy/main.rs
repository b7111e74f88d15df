//! The interfaces suffice for a transport that the crate does not know: streams with ends, packet numbers,
//! and every congestion control.

#[path = "../support/pair.rs"]
#[allow(dead_code, reason = "a small transport needs a part of it")]
mod pair;
mod transport;

use std::collections::BTreeMap;

use anabranch_transport::cc;
use anabranch_transport::endpoint::{
    Command, Endpoint as _, Event, Keeper as _, Message, Multipath as _, Service, Site, StreamId,
    Transport as _,
};
use anabranch_transport::flow::{IpVersion, PathId, Payload, Side};
use anabranch_transport::observed::Observed as _;
use anabranch_transport::report::Row;
use anabranch_transport::rng::Streams;
use anabranch_transport::secret::{Secret, SecretNumbers};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::Packet;

use anabranch_transport as engine;
use pair::{Tested, Wire};
use transport::{Config, End, PACKETS_LOST};

type Pair = pair::Pair<End>;

const BYTES: u32 = 300_000;

impl Tested for End {
    type Wires = Wire;
    type Logged = ();
    type Filter = ();
    const WRITES_AGAIN: bool = false;

    fn wire(wire: &Wire, _path: PathId, _from: Side) -> Wire {
        *wire
    }

    fn keep_all() {}

    fn drops((): &mut (), (): &(), _packet: &Packet) -> bool {
        false
    }

    fn logged(_at: Time, _from: Side, _packet: &Packet) {}

    fn check(&self) {}
}

/// Two ends over a network that takes 10 ms and loses this share of packets.
fn pair(config: &Config, loss: f64) -> Pair {
    let streams = Streams { seed: 1, replication: 0 };
    let end = |side| {
        let site = Site { side, mtus: &[1_500], ip: IpVersion::Ipv4, streams, connection: "flow/x" };
        config.build(&site).expect("the settings are possible")
    };
    let wire = Wire { delay: Duration::from_millis(10), loss, ..Wire::default() };
    Pair::between([end(Side::A), end(Side::B)], wire, streams)
}

fn config(cc: cc::Config) -> Config {
    Config { cc, send_buffer: 1 << 20 }
}

fn send(pair: &mut Pair, side: Side, stream: u64, payload: Payload, ends_stream: bool) {
    let message = Message { stream: StreamId(stream), ends_stream, ..Message::new(payload) };
    pair.command(side, Command::Send(message));
}

/// What has come of each stream, and whether it has ended; what comes is in order.
fn received(pair: &Pair, side: Side) -> BTreeMap<u64, (u64, bool)> {
    let mut streams: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    for (_, event) in &pair.events[side.index()] {
        if let Event::Received(received) = event {
            let (next, has_ended) = streams.entry(received.stream.0).or_default();
            assert!(received.payload.offset == *next && !*has_ended, "{received:?}");
            *next += u64::from(received.payload.length);
            *has_ended = received.ends_stream;
        }
    }
    streams
}

fn lost(pair: &Pair, side: Side) -> f64 {
    let mut row = Row::default();
    pair.ends[side.index()].report(&mut row.section("toy"));
    row.value(&format!("toy.{}", PACKETS_LOST.name)).expect("it is reported")
}

#[test]
fn streams_arrive_in_order_and_end_under_every_control() {
    for control in cc::Config::tcp() {
        let mut pair = pair(&config(control.clone()), 0.02);
        for end in &mut pair.ends {
            end.draw_from(SecretNumbers::new(Secret([7; 32])));
        }
        pair.command(Side::A, Command::Connect);
        for stream in [0, 4] {
            send(&mut pair, Side::A, stream, Payload { offset: 0, length: BYTES }, stream == 0);
        }
        // A stream can end with a payload that has no bytes.
        send(&mut pair, Side::A, 4, Payload { offset: BYTES.into(), length: 0 }, true);
        pair.command(Side::A, Command::Shutdown);
        pair.run_until(Time::from_secs(120), |_| false);
        let all = (u64::from(BYTES), true);
        assert_eq!(received(&pair, Side::B), BTreeMap::from([(0, all), (4, all)]), "{control:?}");
        assert!(pair.closed(Side::A).is_some(), "{control:?}");
        assert!(lost(&pair, Side::A) > 0.0, "{control:?}: the network loses packets");
        let mut samples = Vec::new();
        pair.ends[0].sample_paths(&mut samples);
        let [sample] = samples[..] else { panic!("{samples:?}") };
        assert!(sample.outstanding == 0 && sample.repairs.fast_recoveries > 0, "{control:?}: {sample:?}");
    }
}

#[test]
fn without_losses_the_window_grows_by_packet_numbers() {
    for control in cc::Config::tcp() {
        let mut pair = pair(&config(control.clone()), 0.0);
        pair.command(Side::A, Command::Connect);
        send(&mut pair, Side::A, 0, Payload { offset: 0, length: BYTES }, true);
        pair.run_until(Time::from_secs(10), |_| false);
        assert_eq!(received(&pair, Side::B), BTreeMap::from([(0, (BYTES.into(), true))]), "{control:?}");
        let mut samples = Vec::new();
        pair.ends[0].sample_paths(&mut samples);
        assert!(samples[0].cwnd > 10 * 1_460, "{control:?}: {samples:?}");
        assert_eq!(lost(&pair, Side::A), 0.0, "{control:?}");
    }
}

#[test]
fn a_full_buffer_refuses_and_its_streams_are_writable_again() {
    let settings = Config { send_buffer: 10_000, ..config(cc::Config::tcp().remove(0)) };
    let mut pair = pair(&settings, 0.0);
    pair.command(Side::A, Command::Connect);
    send(&mut pair, Side::A, 8, Payload { offset: 0, length: 12_000 }, true);
    let rest = Payload { offset: 10_000, length: 2_000 };
    assert!(pair.heard(Side::A, &Event::Refused(rest)));
    let mut kept = 0;
    pair.ends[0].payloads_to_send(&mut |payload| kept += payload.length);
    assert_eq!(kept, 10_000);
    pair.run_for(Duration::from_millis(100));
    assert!(pair.heard(Side::A, &Event::StreamWritable(StreamId(8))));
    send(&mut pair, Side::A, 8, rest, true);
    pair.run_until(Time::from_secs(1), |_| false);
    assert_eq!(received(&pair, Side::B), BTreeMap::from([(8, (12_000, true))]));
    for end in &pair.ends {
        end.payloads_to_send(&mut |payload| panic!("{payload:?} is not needed any more"));
        end.payloads_that_wait(&mut |payload| panic!("{payload:?} waits"));
    }
}

#[test]
fn what_it_does_not_have_it_says() {
    let mut pair = pair(&config(cc::Config::tcp().remove(0)), 0.0);
    assert_eq!(pair.ends[0].service(), Service::Streams { longest_datagram: 0 });
    assert!(pair.ends[0].add_path(Time::ZERO, 1_500).unwrap_err().contains("\"toy\" has one"));
    assert!(pair.ends[0].enable_reconfiguration(&[]).unwrap_err().contains("\"toy\""));
    pair.command(Side::A, Command::PauseReading);
    assert_eq!(pair.events[0], [(Time::ZERO, Event::Unsupported("pause_reading"))]);
}
