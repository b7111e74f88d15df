//! A call over two lossy paths, through the public interface only: what an engine does with two
//! associations. Under callgrind, the instructions of the protocol alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_transport::endpoint::{Command, Endpoint, Event, Input, Message, Output, Reliability};
use anabranch_transport::flow::{IpVersion, Payload, Side};
use anabranch_transport::observed::Observed as _;
use anabranch_transport::report::Row;
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::sctp::{Association, Config};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::Packet;

const DELAY: Duration = Duration::from_millis(60);
const TICK: Duration = Duration::from_millis(20);

struct Network {
    ends: [Association; 2],
    timeouts: [Time; 2],
    /// When, in which order, into which slot.
    arrivals: BinaryHeap<Reverse<(Time, u64, usize)>>,
    slots: Vec<Option<(Side, Box<Packet>)>>,
    free: Vec<usize>,
    sequence: u64,
    loss: f64,
    rng: Rng,
    received: u64,
}

impl Network {
    fn input(&mut self, now: Time, side: Side, input: Input) {
        let end = &mut self.ends[side.index()];
        end.handle_input(now, input);
        loop {
            match end.poll_output(now) {
                Output::Event(Event::Received(_)) => self.received += 1,
                Output::Event(_) => {}
                Output::Timeout(at) => {
                    self.timeouts[side.index()] = at;
                    return;
                }
                Output::Transmit(packet) => {
                    self.sequence += 1;
                    if self.rng.bernoulli(self.loss) {
                        continue;
                    }
                    let slot = self.free.pop().unwrap_or_else(|| {
                        self.slots.push(None);
                        self.slots.len() - 1
                    });
                    self.slots[slot] = Some((side.peer(), packet));
                    self.arrivals.push(Reverse((now + DELAY, self.sequence, slot)));
                }
            }
        }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let arrival = self.arrivals.peek().map_or(Time::NEVER, |Reverse((at, _, _))| *at);
            let timer = self.timeouts[0].min(self.timeouts[1]);
            if arrival.min(timer) > end {
                return;
            }
            if timer <= arrival {
                let side = if self.timeouts[0] == timer { Side::A } else { Side::B };
                self.input(timer, side, Input::Timeout);
            } else if let Some(Reverse((at, _, slot))) = self.arrivals.pop() {
                let (side, packet) = self.slots[slot].take().expect("the slot is in use");
                self.free.push(slot);
                self.input(at, side, Input::Packet(packet));
            }
        }
    }
}

/// Messages received, and the counters of both ends.
fn call(loss: f64) -> (u64, Row) {
    let config: Config = serde_json::from_str(
        r#"{"profile": "ns2", "path_max_retrans": 1, "rto_min": "20 ms", "rto_max": "0.1 s",
            "hb_interval": "0.1 s", "policy": {"kind": "delay_centric"}}"#,
    )
    .expect("these are settings");
    let parameters = config.resolve().expect("and they are possible");
    let streams = Streams { seed: 1, replication: 0 };
    let end = |side: Side| {
        let name = format!("flow/call/sctp/{}", side.name());
        Association::new(&parameters, side, &[1500, 1500], IpVersion::Ipv4, streams, &name)
    };
    let mut network = Network {
        ends: [end(Side::A), end(Side::B)],
        timeouts: [Time::NEVER; 2],
        arrivals: BinaryHeap::new(),
        slots: Vec::new(),
        free: Vec::new(),
        sequence: 0,
        loss,
        rng: streams.stream("network"),
        received: 0,
    };
    network.input(Time::ZERO, Side::A, Input::Command(Command::Connect));
    let mut now = Time::from_secs(15);
    network.run_until(now);
    for number in 0..6_000 {
        let payload = Payload { offset: number * 160, length: 160 };
        let reliability = Reliability::LimitedRetransmissions(0);
        let message = Message { unordered: true, reliability, ..Message::new(payload) };
        network.input(now, Side::A, Input::Command(Command::Send(message)));
        now += TICK;
        network.run_until(now);
    }
    network.run_until(now + Duration::from_secs(1));
    let mut row = Row::default();
    for side in [Side::A, Side::B] {
        network.ends[side.index()].report(&mut row.section(side.name()));
    }
    println!("{} packets, {} messages received", network.sequence, network.received);
    // Data, SACK and FORWARD TSN for each message, and a heartbeat and its answer per path, end and RTO.Max.
    // No number may be a multiple of this.
    assert!(network.sequence < 3 * 6_000 + 2 * 4 * 10 * 150, "{} packets", network.sequence);
    (network.received, row)
}

#[test]
fn a_call_without_losses_is_complete() {
    let (received, row) = call(0.0);
    assert_eq!(row.value("a.data_chunks_sent"), Some(6_000.0));
    // RTO.Max below the round trip of 120 ms: data is given up although nothing is lost, and arrives.
    assert_eq!(received, 6_000);
    assert_eq!(row.value("a.duplicates_reported"), Some(0.0));
}

#[test]
fn a_call_with_losses_loses_what_is_lost() {
    let (received, row) = call(0.1);
    assert!((5_000..5_700).contains(&received), "{received}");
    let abandoned = row.value("a.messages_abandoned").expect("it is counted");
    assert!(received as f64 + abandoned >= 6_000.0, "{abandoned} given up");
}
