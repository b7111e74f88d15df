//! A deterministic network between two associations, for tests.

use std::collections::BTreeMap;

use super::answers::Answers;
use super::path::Acked;
use super::{Association, Config, Profile, tsn};
use crate::endpoint::{
    CloseReason, Command, Endpoint, Event, Input, Message, Output, Part, Received, Reliability, Response,
    StreamId,
};
use crate::flow::{IpVersion, PathId, Payload, Side};
use crate::path::PathState;
use crate::rng::{Draw, Rng, Streams};
pub(super) use crate::testing::ms;
use crate::time::{Duration, Time};
use crate::wire::sctp::chunk::Chunk;
use crate::wire::{Body, Packet};

/// What happens to packets on one path in one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) delay: Duration,
    /// Packets take up to this much longer, uniformly distributed, so that they overtake each other.
    pub(super) jitter: Duration,
    pub(super) loss: f64,
    pub(super) duplication: f64,
    pub(super) is_up: bool,
}

impl Default for Wire {
    fn default() -> Self {
        Self { delay: ms(20), jitter: Duration::ZERO, loss: 0.0, duplication: 0.0, is_up: true }
    }
}

/// A packet that was sent.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) at: Time,
    pub(super) from: Side,
    pub(super) path: u8,
    pub(super) size: u32,
    pub(super) chunks: Vec<Chunk>,
}

impl Logged {
    pub(super) fn tsns(&self) -> Vec<u32> {
        let tsn = |chunk: &Chunk| match chunk {
            Chunk::Data(data) => Some(data.tsn),
            Chunk::IData(data) => Some(data.tsn),
            _ => None,
        };
        self.chunks.iter().filter_map(tsn).collect()
    }

    pub(super) fn has(&self, kind: &str) -> bool {
        self.chunks.iter().any(|chunk| name(chunk) == kind)
    }
}

/// A filter that decides which packets to drop, by what is in them.
pub(super) type Filter = Box<dyn FnMut(Time, Side, &Packet) -> bool>;

/// Two associations and the wires between them.
pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) ends: [Association; 2],
    /// `wires[path][direction]`, direction 0 is from A.
    pub(super) wires: Vec<[Wire; 2]>,
    pub(super) log: Vec<Logged>,
    pub(super) events: [Vec<(Time, Event)>; 2],
    /// Says of each packet whether to drop it.
    pub(super) drop_if: Filter,
    /// Whether packets take the short way of [`Association::respond`] where they can.
    pub(super) takes_short_way: bool,
    /// How many packets have taken it.
    pub(super) answered: u64,
    timeouts: [Time; 2],
    in_flight: BTreeMap<(Time, u64), (Side, Packet)>,
    sequence: u64,
    rng: Rng,
    offset: u64,
}

pub(super) fn config(profile: Profile) -> Config {
    Config { profile, ..Config::default() }
}

impl Pair {
    pub(super) fn new(config: &Config, paths: usize) -> Self {
        Self::seeded(config, paths, 1)
    }

    pub(super) fn seeded(config: &Config, paths: usize, seed: u64) -> Self {
        let parameters = config.resolve().expect("the configuration is possible");
        let streams = Streams { seed, replication: 0 };
        let end = |side: Side| {
            let name = format!("flow/test/sctp/{}", side.name());
            Association::new(&parameters, side, &vec![1500; paths], IpVersion::Ipv4, streams, &name)
        };
        Self {
            now: Time::ZERO,
            ends: [end(Side::A), end(Side::B)],
            wires: vec![[Wire::default(); 2]; paths],
            log: Vec::new(),
            events: [Vec::new(), Vec::new()],
            drop_if: Box::new(|_, _, _| false),
            takes_short_way: false,
            answered: 0,
            timeouts: [Time::NEVER; 2],
            in_flight: BTreeMap::new(),
            sequence: 0,
            rng: streams.stream("network"),
            offset: 0,
        }
    }

    /// A pair with an open association; the log begins after that.
    pub(super) fn open(config: &Config, paths: usize) -> Self {
        let mut pair = Self::new(config, paths);
        pair.connect();
        pair
    }

    pub(super) fn connect(&mut self) {
        self.command(Side::A, Command::Connect);
        self.run_for(ms(500));
        assert!(self.heard(Side::A, &Event::Connected) && self.heard(Side::B, &Event::Connected));
        self.log.clear();
        self.events = [Vec::new(), Vec::new()];
    }

    pub(super) fn command(&mut self, side: Side, command: Command) {
        self.input(side, Input::Command(command));
    }

    /// Sends one message and returns its payload.
    pub(super) fn send(&mut self, side: Side, length: u32, how: Reliability, unordered: bool) -> Payload {
        let payload = Payload { offset: self.offset, length };
        self.offset += u64::from(length);
        let message = Message { unordered, reliability: how, ..Message::new(payload) };
        self.command(side, Command::Send(message));
        payload
    }

    pub(super) fn send_reliable(&mut self, count: usize, length: u32) -> Vec<Payload> {
        (0..count).map(|_| self.send(Side::A, length, Reliability::Reliable, false)).collect()
    }

    /// Gives an end one input and drains it.
    pub(super) fn input(&mut self, side: Side, input: Input) {
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
        self.ends[side.index()].handle_input(now, input);
        loop {
            match self.ends[side.index()].poll_output(now) {
                Output::Event(event) => self.events[side.index()].push((now, event)),
                Output::Timeout(at) => {
                    self.timeouts[side.index()] = at;
                    break;
                }
                Output::Transmit(packet) => self.transmit(side, &packet),
            }
        }
        self.ends[side.index()].check_accounts();
    }

    /// Does what an end's answer asks for, after which it wants nothing else.
    fn take_answer(&mut self, side: Side, Response { event, packet }: Response) {
        self.answered += 1;
        self.events[side.index()].extend(event.map(|event| (self.now, event)));
        self.transmit(side, &packet);
        let end = &mut self.ends[side.index()];
        assert_eq!(end.poll_output(self.now), Output::Timeout(self.timeouts[side.index()]));
        end.check_accounts();
    }

    fn transmit(&mut self, from: Side, packet: &Packet) {
        let Body::Sctp(body) = &packet.body else { panic!("SCTP sends SCTP") };
        assert!(packet.size <= 1500);
        self.log.push(Logged {
            at: self.now,
            from,
            path: packet.path.0,
            size: packet.size,
            chunks: body.chunks().cloned().collect(),
        });
        let wire = self.wires[packet.path.index()][from.index()];
        let copies = 1 + usize::from(self.rng.bernoulli(wire.duplication));
        for _ in 0..copies {
            let lost = self.rng.bernoulli(wire.loss) || !wire.is_up;
            if lost || (self.drop_if)(self.now, from, packet) {
                continue;
            }
            let jitter = self.rng.duration_between(Duration::ZERO, wire.jitter);
            self.sequence += 1;
            let at = self.now + wire.delay + jitter;
            self.in_flight.insert((at, self.sequence), (from.peer(), packet.clone()));
        }
    }

    /// Lets this much time pass.
    pub(super) fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            let arrival = self.in_flight.keys().next().map_or(Time::NEVER, |&(at, _)| at);
            let timer = self.timeouts[0].min(self.timeouts[1]);
            if arrival.min(timer) > end {
                break;
            }
            if timer <= arrival {
                assert!(timer >= self.now, "a timeout in the past: {timer} at {}", self.now);
                self.now = timer;
                let side = if self.timeouts[0] == timer { Side::A } else { Side::B };
                self.input(side, Input::Timeout);
                // The contract of `endpoint::Endpoint`.
                assert!(self.timeouts[side.index()] > self.now, "no progress at {}", self.now);
            } else {
                let ((at, _), (to, packet)) = self.in_flight.pop_first().expect("there is one");
                self.now = at;
                self.input(to, Input::Packet(Box::new(packet)));
            }
        }
        self.now = end;
    }

    /// Takes the packet that would arrive next off the wire.
    pub(super) fn take_packet(&mut self) -> Option<Packet> {
        self.in_flight.pop_first().map(|(_, (_, packet))| packet)
    }

    pub(super) fn set_up(&mut self, path: usize, is_up: bool) {
        for wire in &mut self.wires[path] {
            wire.is_up = is_up;
        }
    }

    pub(super) fn heard(&self, side: Side, wanted: &Event) -> bool {
        self.events[side.index()].iter().any(|(_, event)| event == wanted)
    }

    pub(super) fn received(&self, side: Side) -> Vec<Payload> {
        self.deliveries(side).into_iter().map(|(_, payload)| payload).collect()
    }

    /// The messages that have been delivered, those in parts at their end.
    ///
    /// # Panics
    /// When the parts of a message do not follow each other, or another one comes between them that should
    /// not.
    pub(super) fn deliveries(&self, side: Side) -> Vec<(Time, Payload)> {
        let interleaves = self.ends[side.index()].sender.interleaves;
        let mut partial: BTreeMap<(StreamId, bool), Payload> = BTreeMap::new();
        let mut delivered = Vec::new();
        for &(at, event) in &self.events[side.index()] {
            match event {
                Event::Received(Received { stream, unordered, payload, .. }) => {
                    let may_come = if interleaves {
                        unordered || !partial.contains_key(&(stream, false))
                    } else {
                        partial.is_empty()
                    };
                    assert!(may_come, "{payload:?} comes between the parts of another message");
                    delivered.push((at, payload));
                }
                Event::ReceivedPart(Part { stream, unordered, is_last, payload, .. }) => {
                    let Payload { offset, length } = payload;
                    let key = (stream, unordered);
                    let whole = partial.entry(key).or_insert(Payload { offset, length: 0 });
                    assert_eq!(whole.offset + u64::from(whole.length), offset, "parts follow each other");
                    whole.length += length;
                    let whole = *whole;
                    assert!(interleaves || partial.len() == 1, "{partial:?}");
                    if is_last {
                        partial.remove(&key);
                        delivered.push((at, whole));
                    }
                }
                Event::PartialDeliveryAborted { stream, unordered } => {
                    assert!(partial.remove(&(stream, unordered)).is_some(), "no part of it was delivered");
                }
                _ => {}
            }
        }
        delivered
    }

    pub(super) fn abandoned(&self, side: Side) -> Vec<Payload> {
        self.events[side.index()]
            .iter()
            .filter_map(
                |(_, event)| if let Event::Abandoned(payload) = event { Some(*payload) } else { None },
            )
            .collect()
    }

    /// When this end was told that the path has this state.
    pub(super) fn path_change(&self, side: Side, path: u8, state: PathState) -> Option<Time> {
        let wanted = Event::PathChanged { path: PathId(path), state };
        self.events[side.index()].iter().find(|(_, event)| *event == wanted).map(|&(at, _)| at)
    }

    pub(super) fn closed(&self, side: Side) -> Option<(Time, CloseReason)> {
        self.events[side.index()].iter().find_map(|&(at, event)| match event {
            Event::Closed(reason) => Some((at, reason)),
            _ => None,
        })
    }

    /// Packets from this end that hold a chunk of this kind.
    pub(super) fn sent(&self, side: Side, kind: &str) -> Vec<&Logged> {
        self.log.iter().filter(|packet| packet.from == side && packet.has(kind)).collect()
    }
}

pub(super) fn name(chunk: &Chunk) -> &'static str {
    chunk.describe().0
}

/// Whether a packet holds a chunk of this kind.
pub(super) fn holds(packet: &Packet, kind: &str) -> bool {
    let Body::Sctp(body) = &packet.body else { return false };
    body.chunks().any(|chunk| name(chunk) == kind)
}

/// Drops the first `count` packets that hold a chunk of this kind.
pub(super) fn drop_first(kind: &'static str, count: usize) -> Filter {
    let mut left = count;
    Box::new(move |_, _, packet| {
        let drop = left > 0 && holds(packet, kind);
        left -= usize::from(drop);
        drop
    })
}

impl Association {
    /// Bytes that have arrived and wait to be delivered.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.state.receiver().map_or(0, |receiver| receiver.reassembly.bytes)
    }

    /// The last TSN that has arrived in sequence, with all its bits.
    pub(super) fn cumulative_received(&self) -> u64 {
        self.state.receiver().expect("there is a peer").received.cumulative
    }

    /// Forgets how much may be sent in answer to the last packet.
    pub(super) fn forget_last_packet(&mut self) {
        self.outbox.answers = Answers::default();
    }

    /// Checks that the byte counters match a recount.
    pub(super) fn check_accounts(&self) {
        use super::outstanding::{Buffered, SentState};
        let chunks = &self.sender.outstanding.chunks;
        let bytes = |wanted: &dyn Fn(&super::outstanding::Sent) -> bool| -> u64 {
            chunks.iter().filter(|chunk| wanted(chunk)).map(|chunk| u64::from(chunk.length)).sum()
        };
        let in_window = |wanted: &dyn Fn(&super::outstanding::Sent) -> bool| -> u64 {
            chunks.iter().filter(|chunk| wanted(chunk)).map(|chunk| u64::from(chunk.window_bytes)).sum()
        };
        let in_flight = bytes(&|chunk| chunk.state == SentState::InFlight);
        assert_eq!(self.sender.outstanding.bytes(), in_flight, "bytes in flight");
        for (index, path) in self.routing.paths.iter().enumerate() {
            let own = in_window(&|c| c.state == SentState::InFlight && c.path.index() == index);
            assert_eq!(
                u64::from(self.sender.outstanding.on(PathId(index as u8))),
                own,
                "bytes in flight on path {index}"
            );
            // A timeout that spares its data leaves its timer off while another one runs.
            let runs = !path.t3.is_never()
                || self.parameters.procedures.timeouts_spare_young_data
                    && self.routing.paths.iter().any(|other| !other.t3.is_never());
            assert!(own == 0 || runs || self.is_over(), "T3-rtx of path {index} stands still");
        }
        let mut buffered = vec![Buffered::default(); self.routing.paths.len()];
        for chunk in chunks {
            let Buffered { sender, receiver, in_flight } =
                chunk.buffered(self.sender.outstanding.releases_acked);
            buffered[chunk.path.index()].in_flight += in_flight;
            buffered[chunk.path.index()].sender += sender;
            buffered[chunk.path.index()].receiver += receiver;
        }
        let held: u64 = buffered.iter().map(|own| own.sender).sum();
        assert_eq!(self.sender.outstanding.held_bytes, held, "held bytes");
        let memory = &self.sender.outstanding.memory;
        let held = chunks.iter().filter(|c| !matches!(c.state, SentState::Abandoned | SentState::Final));
        let sent: u64 = held.map(|chunk| memory.of_message(chunk.length, chunk.length.max(1))).sum();
        assert_eq!(memory.overhead, sent + self.sender.memory_of_queue(), "kernel memory");
        if self.parts.sharing.is_some() {
            assert_eq!(self.sender.outstanding.buffered, buffered, "bytes in the buffers by path");
        }
        self.sender.outstanding.check_positions();
        let count = |state: SentState| chunks.iter().filter(|c| c.state == state).count();
        assert_eq!(self.sender.outstanding.lost() as usize, count(SentState::Lost), "lost chunks");
        assert_eq!(
            self.sender.outstanding.abandoned() as usize,
            count(SentState::Abandoned),
            "abandoned chunks"
        );
        if let Some(sharing) = &self.parts.sharing {
            sharing.check_accounts();
            self.check_views(sharing);
            self.check_settled_paths();
        }
        assert!(
            self.routing.next_of_paths.is_none_or(|first| first == self.routing.first_timeout()),
            "timers"
        );
        let waiting: u64 = self.sender.queue.iter().map(|m| u64::from(m.remaining())).sum();
        assert_eq!(self.sender.queue.bytes, waiting, "bytes that wait");
    }

    /// Checks that a SACK that concerns no data of a path that counts as settled would change nothing there.
    fn check_settled_paths(&self) {
        use super::outstanding::SentState;
        for (index, path) in self.routing.paths.iter().enumerate() {
            let id = PathId(index as u8);
            if self.sender.outstanding.unsettled.contains(id) || self.is_over() {
                continue;
            }
            assert_eq!(path.acked, Acked::default(), "path {index}");
            assert_eq!(path.t3.is_never(), self.sender.outstanding.on(id) == 0, "T3-rtx of path {index}");
            if let Some(exit) = path.fast_recovery_exit {
                assert!(tsn::at_or_before(self.sender.outstanding.first_tsn, exit), "path {index}");
                let mut until =
                    self.sender.outstanding.chunks.iter().take(self.sender.outstanding.index(exit) + 1);
                let is_pending = |state| matches!(state, SentState::InFlight | SentState::Lost);
                assert!(until.any(|chunk| chunk.path == id && is_pending(chunk.state)), "path {index}");
            }
        }
    }
}
