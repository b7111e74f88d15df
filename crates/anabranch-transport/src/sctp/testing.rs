//! A deterministic network between two associations, for tests.

use std::collections::BTreeMap;

use super::answers::Answers;
use super::path::Acked;
use super::{Association, Config, Profile, tsn};
use crate::endpoint::{Command, Event, Message, Part, Received, Reliability, StreamId};
use crate::flow::{IpVersion, PathId, Payload, Side};
use crate::path::PathState;
use crate::rng::Streams;
use crate::testing::Tested;
pub(super) use crate::testing::{Wire, ms};
use crate::time::Time;
use crate::wire::sctp::chunk::Chunk;
use crate::wire::{Body, Packet};

/// A packet that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
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
pub(crate) type Filter = Box<dyn FnMut(Time, Side, &Packet) -> bool>;

/// Two associations and the wires between them, by path and direction; direction 0 is from A.
pub(super) type Pair = crate::testing::Pair<Association>;

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
        Self::between([end(Side::A), end(Side::B)], vec![[Wire::default(); 2]; paths], streams)
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
        self.forget();
    }

    /// Sends one message and returns its payload.
    pub(super) fn send(&mut self, side: Side, length: u32, how: Reliability, unordered: bool) -> Payload {
        // Messages of both ends follow each other in one numbering.
        let payload = Payload { offset: self.to_write[0].offset, length };
        self.to_write[0].offset += u64::from(length);
        let message = Message { unordered, reliability: how, ..Message::new(payload) };
        self.command(side, Command::Send(message));
        payload
    }

    pub(super) fn send_reliable(&mut self, count: usize, length: u32) -> Vec<Payload> {
        (0..count).map(|_| self.send(Side::A, length, Reliability::Reliable, false)).collect()
    }

    pub(super) fn set_up(&mut self, path: usize, is_up: bool) {
        for wire in &mut self.wires[path] {
            wire.is_dead = !is_up;
        }
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

    /// Packets from this end that hold a chunk of this kind.
    pub(super) fn sent(&self, side: Side, kind: &str) -> Vec<&Logged> {
        self.log.iter().filter(|packet| packet.from == side && packet.has(kind)).collect()
    }
}

impl Tested for Association {
    type Wires = Vec<[Wire; 2]>;
    type Logged = Logged;
    type Filter = Filter;
    const WRITES_AGAIN: bool = false;

    fn wire(wires: &Vec<[Wire; 2]>, path: PathId, from: Side) -> Wire {
        wires[path.index()][from.index()]
    }

    fn keep_all() -> Filter {
        Box::new(|_, _, _| false)
    }

    fn drops(filter: &mut Filter, logged: &Logged, packet: &Packet) -> bool {
        filter(logged.at, logged.from, packet)
    }

    fn logged(at: Time, from: Side, packet: &Packet) -> Logged {
        let Body::Sctp(body) = &packet.body else { panic!("SCTP sends SCTP") };
        assert!(packet.size <= 1500);
        let chunks = body.chunks().cloned().collect();
        Logged { at, from, path: packet.path.0, size: packet.size, chunks }
    }

    fn check(&self) {
        self.check_accounts();
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
