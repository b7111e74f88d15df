//! Two ends of a connection and a deterministic network between them, for the tests of every transport.

use std::collections::BTreeMap;

use super::engine::endpoint::{
    CloseReason, Command, Endpoint, Event, Input, Message, Output, Response, StreamId,
};
use super::engine::flow::{Ecn, PathId, Payload, Side};
use super::engine::rng::{Draw as _, Rng, Streams};
use super::engine::time::{Duration, Time};
use super::engine::wire::Packet;

/// Inputs that one call of [`Pair::run_until`] may take; more are ends that talk for ever.
const MOST_STEPS: u32 = 3_000_000;

/// What happens to packets on one path in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(crate) delay: Duration,
    /// Packets take up to this much longer, uniformly distributed, so that they overtake each other.
    pub(crate) jitter: Duration,
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    /// Share of ECN-capable packets that are marked.
    pub(crate) marks: f64,
    /// Whether nothing arrives.
    pub(crate) is_dead: bool,
    /// The rate in bit/s; without one, packets take no time.
    pub(crate) rate: Option<u64>,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(20),
            jitter: Duration::ZERO,
            loss: 0.0,
            duplication: 0.0,
            marks: 0.0,
            is_dead: false,
            rate: None,
        }
    }
}

/// An endpoint whose tests need a pair.
pub(crate) trait Tested: Endpoint {
    /// The wires, by path or direction or both.
    type Wires;
    /// What the log keeps of a packet.
    type Logged;
    /// What decides which packets to drop.
    type Filter;
    /// Whether the pair writes again what an end has refused, once there is room.
    const WRITES_AGAIN: bool = true;

    fn wire(wires: &Self::Wires, path: PathId, from: Side) -> Wire;

    /// The filter that drops nothing.
    fn keep_all() -> Self::Filter;

    fn drops(filter: &mut Self::Filter, logged: &Self::Logged, packet: &Packet) -> bool;

    /// Checks a packet that is sent, and gives what the log keeps of it.
    fn logged(at: Time, from: Side, packet: &Packet) -> Self::Logged;

    /// Checks that the end's counters match a recount.
    fn check(&self);
}

/// Takes the outputs of an end up to its timeout, which it gives.
pub(crate) fn drain(end: &mut impl Endpoint, now: Time, mut each: impl FnMut(Output)) -> Time {
    loop {
        match end.poll_output(now) {
            Output::Timeout(at) => return at,
            output => each(output),
        }
    }
}

/// What something between the ends does with the packets of each side.
pub(crate) type Meddle = Box<dyn FnMut(Side, &mut Packet)>;

/// Two endpoints and the wires between them.
pub(crate) struct Pair<E: Tested> {
    pub(crate) now: Time,
    pub(crate) ends: [E; 2],
    pub(crate) wires: E::Wires,
    pub(crate) log: Vec<E::Logged>,
    pub(crate) events: [Vec<(Time, Event)>; 2],
    pub(crate) drop_if: E::Filter,
    pub(crate) meddle: Meddle,
    /// Whether packets take the short way of [`Endpoint::respond`] where they can.
    pub(crate) takes_short_way: bool,
    /// How many packets have taken it.
    pub(crate) answered: u64,
    /// What each end still has to write, and where in its stream that begins.
    pub(crate) to_write: [Payload; 2],
    /// Whether each end closes once everything is written.
    pub(crate) finishes: [bool; 2],
    timeouts: [Time; 2],
    in_flight: BTreeMap<(Time, u64), (Side, Packet)>,
    /// When a wire with a rate is free again, by path and direction.
    free_at: BTreeMap<(u8, usize), Time>,
    sequence: u64,
    rng: Rng,
}

impl<E: Tested> Pair<E> {
    pub(crate) fn between(ends: [E; 2], wires: E::Wires, streams: Streams) -> Self {
        Self {
            now: Time::ZERO,
            ends,
            wires,
            log: Vec::new(),
            events: [Vec::new(), Vec::new()],
            drop_if: E::keep_all(),
            meddle: Box::new(|_, _| {}),
            takes_short_way: false,
            answered: 0,
            to_write: [Payload::default(); 2],
            finishes: [false; 2],
            timeouts: [Time::NEVER; 2],
            in_flight: BTreeMap::new(),
            free_at: BTreeMap::new(),
            sequence: 0,
            rng: streams.stream("network"),
        }
    }

    pub(crate) fn command(&mut self, side: Side, command: Command) {
        self.input(side, Input::Command(command));
    }

    /// Lets an end do something of which the next input takes care.
    pub(crate) fn act<T>(&mut self, side: Side, act: impl FnOnce(&mut E) -> T) -> T {
        let result = act(&mut self.ends[side.index()]);
        self.input(side, Input::Timeout);
        result
    }

    /// Makes an end write this many more bytes, now and whenever there is room.
    pub(crate) fn write(&mut self, side: Side, length: u32) {
        let left = &mut self.to_write[side.index()];
        let had_nothing = left.length == 0;
        left.length += length;
        if had_nothing {
            self.write_left(side);
        }
    }

    /// Makes an end write this many more bytes, and close after that.
    pub(crate) fn write_and_close(&mut self, side: Side, length: u32) {
        self.finishes[side.index()] = true;
        self.write(side, length);
    }

    fn write_left(&mut self, side: Side) {
        let left = &mut self.to_write[side.index()];
        let payload = Payload { offset: left.offset, length: std::mem::take(&mut left.length) };
        left.offset += u64::from(payload.length);
        self.command(side, Command::Send(Message::new(payload)));
        if self.to_write[side.index()].length == 0 && std::mem::take(&mut self.finishes[side.index()]) {
            self.command(side, Command::Shutdown);
        }
    }

    /// Gives an end one input and drains it.
    pub(crate) fn input(&mut self, side: Side, input: Input) {
        let now = self.now;
        let input = match input {
            Input::Packet(packet) if self.takes_short_way => {
                match self.ends[side.index()].respond(now, packet) {
                    Ok(answer) => return self.take_answer(side, answer),
                    Err(packet) => Input::Packet(packet),
                }
            }
            input => input,
        };
        let end = &mut self.ends[side.index()];
        end.handle_input(now, input);
        let mut outputs = Vec::new();
        self.timeouts[side.index()] = drain(end, now, |output| outputs.push(output));
        end.check();
        let mut is_writable = false;
        for output in outputs {
            match output {
                Output::Event(event) => {
                    match event {
                        Event::Refused(rest) if E::WRITES_AGAIN => {
                            let left = &mut self.to_write[side.index()];
                            left.offset = rest.offset;
                            left.length += rest.length;
                        }
                        Event::Writable | Event::StreamWritable(StreamId(0)) => is_writable = E::WRITES_AGAIN,
                        _ => {}
                    }
                    self.events[side.index()].push((now, event));
                }
                Output::Transmit(packet) => self.transmit(side, &packet),
                Output::Timeout(_) => {}
            }
        }
        if is_writable && self.to_write[side.index()].length > 0 {
            self.write_left(side);
        }
    }

    /// Does what an end's answer asks for, after which it wants nothing else.
    fn take_answer(&mut self, side: Side, Response { event, packet }: Response) {
        self.answered += 1;
        self.events[side.index()].extend(event.map(|event| (self.now, event)));
        self.transmit(side, &packet);
        let end = &mut self.ends[side.index()];
        assert_eq!(end.poll_output(self.now), Output::Timeout(self.timeouts[side.index()]));
        end.check();
    }

    fn transmit(&mut self, from: Side, packet: &Packet) {
        let logged = E::logged(self.now, from, packet);
        let wire = E::wire(&self.wires, packet.path, from);
        let copies = 1 + usize::from(self.rng.bernoulli(wire.duplication));
        for _ in 0..copies {
            let is_lost = self.rng.bernoulli(wire.loss) || wire.is_dead;
            if is_lost || E::drops(&mut self.drop_if, &logged, packet) {
                continue;
            }
            let mut packet = packet.clone();
            if packet.ecn != Ecn::NotEct && self.rng.bernoulli(wire.marks) {
                packet.ecn = Ecn::Ce;
            }
            let jitter = self.rng.duration_between(Duration::ZERO, wire.jitter);
            self.sequence += 1;
            let at = self.leaves_at(from, &packet, wire.rate) + wire.delay + jitter;
            (self.meddle)(from, &mut packet);
            self.in_flight.insert((at, self.sequence), (from.peer(), packet));
        }
        self.log.push(logged);
    }

    /// When the last byte of a packet has been put on the wire.
    fn leaves_at(&mut self, from: Side, packet: &Packet, rate: Option<u64>) -> Time {
        let Some(rate) = rate else { return self.now };
        let free = self.free_at.entry((packet.path.0, from.index())).or_insert(Time::ZERO);
        *free = (*free).max(self.now) + Duration::from_nanos(u64::from(packet.size) * 8_000_000_000 / rate);
        *free
    }

    /// Takes the packet that would arrive next off the wire.
    pub(crate) fn take_packet(&mut self) -> Option<Packet> {
        self.in_flight.pop_first().map(|(_, (_, packet))| packet)
    }

    /// Lets this much time pass.
    pub(crate) fn run_for(&mut self, length: Duration) {
        self.run_until(self.now + length, |_| false);
    }

    /// Lets time pass until `end`, or until `is_enough` is true, or until nothing happens any more.
    pub(crate) fn run_until(&mut self, end: Time, mut is_enough: impl FnMut(&Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if is_enough(self) {
                return;
            }
            let arrival = self.in_flight.keys().next().map_or(Time::NEVER, |&(at, _)| at);
            let timer = self.timeouts[0].min(self.timeouts[1]);
            let next = arrival.min(timer);
            if next > end || next.is_never() {
                self.now = if end.is_never() { self.now } else { end.max(self.now) };
                return;
            }
            assert!(next >= self.now, "a timeout in the past: {next} at {}", self.now);
            self.now = next;
            if timer <= arrival {
                let side = if self.timeouts[0] == timer { Side::A } else { Side::B };
                self.input(side, Input::Timeout);
                // The contract of `endpoint::Endpoint`.
                assert!(self.timeouts[side.index()] > self.now, "no progress at {}", self.now);
            } else {
                let (_, (to, packet)) = self.in_flight.pop_first().expect("there is one");
                self.input(to, Input::Packet(Box::new(packet)));
            }
        }
        panic!("the ends talk for ever");
    }

    /// Runs until both ends have closed, or this many seconds have passed.
    pub(crate) fn run_to_the_end(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        self.run_until(end, |pair| pair.closed(Side::A).is_some() && pair.closed(Side::B).is_some());
    }

    /// Forgets what has been logged and heard.
    pub(crate) fn forget(&mut self) {
        self.log.clear();
        self.events = [Vec::new(), Vec::new()];
    }

    pub(crate) fn heard(&self, side: Side, wanted: &Event) -> bool {
        self.events[side.index()].iter().any(|(_, event)| event == wanted)
    }

    /// Bytes that an end has received on the first stream, each once and in order.
    pub(crate) fn received_bytes(&self, side: Side) -> u64 {
        let mut next = 0;
        for (_, event) in &self.events[side.index()] {
            if let Event::Received(received) = event
                && received.stream == StreamId(0)
                && !received.unordered
            {
                assert_eq!(received.payload.offset, next, "bytes come once and in order");
                next += u64::from(received.payload.length);
            }
        }
        next
    }

    /// When and why an end has closed.
    pub(crate) fn closed_at(&self, side: Side) -> Option<(Time, CloseReason)> {
        self.events[side.index()].iter().find_map(|&(at, event)| match event {
            Event::Closed(reason) => Some((at, reason)),
            _ => None,
        })
    }

    pub(crate) fn closed(&self, side: Side) -> Option<CloseReason> {
        self.closed_at(side).map(|(_, reason)| reason)
    }
}
