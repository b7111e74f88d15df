//! Two ends of any transport, and a network that takes 10 ms and loses packets.

use std::collections::BTreeMap;

use anabranch_transport::endpoint::{Command, Endpoint, Event, Input, Output, Site, Transport};
use anabranch_transport::flow::{IpVersion, Side};
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::Packet;

const DELAY: Duration = Duration::from_millis(10);
/// Packets that a network may carry in a test; more are a test that does not end.
const MOST_PACKETS: u64 = 100_000;

pub(crate) struct Pair<E> {
    pub now: Time,
    pub ends: [E; 2],
    pub events: [Vec<Event>; 2],
    timeouts: [Time; 2],
    network: BTreeMap<(Time, u64), (Side, Box<Packet>)>,
    packets: u64,
    loss: f64,
    rng: Rng,
}

impl<E: Endpoint> Pair<E> {
    pub(crate) fn new<T: Transport<Endpoint = E>>(transport: &T, loss: f64) -> Self {
        let streams = Streams { seed: 1, replication: 0 };
        let end = |side| {
            let site = Site { side, mtus: &[1_500], ip: IpVersion::Ipv4, streams, connection: "flow/x" };
            transport.build(&site).expect("the settings are possible")
        };
        Self {
            now: Time::ZERO,
            ends: [end(Side::A), end(Side::B)],
            events: Default::default(),
            timeouts: [Time::NEVER; 2],
            network: BTreeMap::new(),
            packets: 0,
            loss,
            rng: streams.stream("network"),
        }
    }

    pub(crate) fn command(&mut self, side: Side, command: Command) {
        self.input(side, Input::Command(command));
    }

    fn input(&mut self, side: Side, input: Input) {
        let end = &mut self.ends[side.index()];
        end.handle_input(self.now, input);
        loop {
            match end.poll_output(self.now) {
                Output::Event(event) => self.events[side.index()].push(event),
                Output::Timeout(at) => {
                    self.timeouts[side.index()] = at;
                    return;
                }
                Output::Transmit(packet) => {
                    self.packets += 1;
                    assert!(self.packets < MOST_PACKETS, "{} packets", self.packets);
                    if self.rng.uniform() >= self.loss {
                        self.network.insert((self.now + DELAY, self.packets), (side.peer(), packet));
                    }
                }
            }
        }
    }

    /// Lets everything happen up to this time.
    pub(crate) fn run_until(&mut self, end: Time) {
        loop {
            let arrival = self.network.first_key_value().map_or(Time::NEVER, |(&(at, _), _)| at);
            let next = arrival.min(self.timeouts[0]).min(self.timeouts[1]);
            if next > end {
                break;
            }
            assert!(next >= self.now, "time goes on");
            self.now = next;
            if next == arrival {
                let (_, (side, packet)) = self.network.pop_first().expect("it arrives");
                assert!(self.ends[side.index()].owns(&packet));
                self.input(side, Input::Packet(packet));
            } else {
                let side = if next == self.timeouts[0] { Side::A } else { Side::B };
                self.input(side, Input::Timeout);
                assert!(self.timeouts[side.index()] > self.now, "the timeout lies ahead");
            }
        }
        self.now = end;
    }
}
