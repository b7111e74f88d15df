//! A connection to test applications with: it takes what fits into its send buffers, as whole messages or as
//! pieces of a stream, delivers in pieces of any size, and answers as the contract of [`Event`] says.

use std::collections::{BTreeMap, VecDeque};

use anabranch_transport::endpoint::{CloseReason, Command, Event, Message, Received, Service, StreamId};
use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::time::{Duration, Time};

use super::{App, Commands};

/// The sending half of one end.
#[derive(Debug, Default)]
struct Half {
    /// What is in the send buffer, as messages or pieces, with its stream and whether that ends with it.
    queue: VecDeque<(Payload, StreamId, bool)>,
    taken: u64,
    delivered: u64,
    /// Bytes of each stream that were taken and delivered.
    streams: BTreeMap<StreamId, [u64; 2]>,
    has_refused: Option<StreamId>,
    /// Whether writing has ended.
    is_shut: bool,
}

impl Half {
    fn buffered(&self) -> u64 {
        self.taken - self.delivered
    }
}

/// Both ends of a connection and their application.
pub(crate) struct Loopback<A> {
    pub(crate) app: A,
    pub(crate) now: Time,
    service: Service,
    buffer: u64,
    halves: [Half; 2],
    is_open: bool,
    pub(crate) connections: u32,
    /// Every `Send` as it was ordered.
    pub(crate) sends: Vec<(Time, Side, Payload)>,
    /// Bytes delivered to each side, over all connections.
    pub(crate) received: [u64; 2],
    commands: Commands,
}

impl<A: App> Loopback<A> {
    pub(crate) fn new(app: A, service: Service, buffer: u64) -> Self {
        Self {
            app,
            now: Time::ZERO,
            service,
            buffer,
            halves: Default::default(),
            is_open: false,
            connections: 0,
            sends: Vec::new(),
            received: [0; 2],
            commands: Commands::default(),
        }
    }

    /// Calls the application for everything that is due up to `until`.
    pub(crate) fn wake(&mut self, until: Time) {
        while self.app.next_wakeup() <= until {
            let at = self.app.next_wakeup();
            assert!(at >= self.now, "a wake-up lies in the past");
            self.now = at;
            self.app.handle_wakeup(at, &mut self.commands);
            self.execute();
            assert!(self.app.next_wakeup() > at, "time goes on");
        }
        self.now = self.now.max(until);
    }

    /// Delivers up to `bytes` of what this side has sent, at the present time.
    pub(crate) fn deliver(&mut self, from: Side, bytes: u64) {
        let half = &mut self.halves[from.index()];
        let mut left = bytes;
        let mut arrived = Vec::new();
        while left > 0
            && let Some((front, stream, ends)) = half.queue.front_mut()
        {
            let length = match self.service {
                Service::Stream | Service::Streams { .. } => u64::from(front.length).min(left),
                _ => u64::from(front.length),
            };
            let [_, delivered] = half.streams.entry(*stream).or_default();
            let payload = Payload { offset: *delivered, length: length as u32 };
            *delivered += length;
            half.delivered += length;
            left = left.saturating_sub(length);
            front.length -= length as u32;
            let ends_stream = *ends && front.length == 0;
            arrived.push(Received { stream: *stream, ends_stream, ..Received::new(payload) });
            if front.length == 0 {
                half.queue.pop_front();
            }
        }
        // As in Linux, a third of the buffer makes it writable.
        let has_room = self.buffer - half.buffered() >= self.buffer.div_ceil(3);
        let writable = if has_room { half.has_refused.take() } else { None };
        for received in arrived {
            self.received[from.peer().index()] += u64::from(received.payload.length);
            self.tell(from.peer(), Event::Received(received));
        }
        if let Some(stream) = writable {
            let event = match self.service {
                Service::Streams { .. } => Event::StreamWritable(stream),
                _ => Event::Writable,
            };
            self.tell(from, event);
        }
        self.close_if_drained();
        self.execute();
    }

    /// Tells the application about an event and carries out its commands.
    pub(crate) fn event(&mut self, side: Side, event: Event) {
        self.tell(side, event);
        self.execute();
    }

    /// Wakes and delivers pieces of these sizes, in turns, 1 ms apart, until the application is done.
    pub(crate) fn run(&mut self, pieces: &[u64], turns: usize) {
        for turn in 0..turns {
            if self.app.is_done() {
                return;
            }
            self.wake(self.now + Duration::from_millis(1));
            self.deliver(Side::A, pieces[turn % pieces.len()]);
            self.deliver(Side::B, pieces[(turn / 2) % pieces.len()]);
        }
        panic!("not done after {turns} turns");
    }

    fn tell(&mut self, side: Side, event: Event) {
        self.app.handle_event(self.now, side, &event, &mut self.commands);
    }

    fn execute(&mut self) {
        let mut next = 0;
        while let Some(&(side, command)) = self.commands.list.get(next) {
            next += 1;
            match command {
                Command::Connect => {
                    assert!(!self.is_open, "the connection is open already");
                    self.is_open = true;
                    self.connections += 1;
                    self.halves = Default::default();
                    self.tell(Side::B, Event::Connected);
                    self.tell(Side::A, Event::Connected);
                }
                Command::Send(message) => self.send(side, message),
                Command::Shutdown => {
                    self.halves[side.index()].is_shut = true;
                    self.close_if_drained();
                }
                Command::Abort => self.close(CloseReason::Aborted),
                _ => panic!("{command:?} is not for this test"),
            }
        }
        self.commands.list.clear();
    }

    fn send(&mut self, side: Side, message: Message) {
        let Payload { offset, length } = message.payload;
        assert!(self.is_open && length > 0, "{message:?}");
        self.sends.push((self.now, side, message.payload));
        let half = &mut self.halves[side.index()];
        let room = self.buffer - half.buffered();
        let [written, _] = half.streams.entry(message.stream).or_default();
        assert_eq!(offset, *written, "the stream has no gap");
        assert!(!half.is_shut, "nothing comes after the end");
        let taken = match self.service {
            Service::Stream | Service::Streams { .. } => u64::from(length).min(room),
            _ if u64::from(length) <= room => u64::from(length),
            _ => 0,
        };
        if taken > 0 {
            half.taken += taken;
            *written += taken;
            let ends = message.ends_stream && taken == u64::from(length);
            half.queue.push_back((Payload { offset, length: taken as u32 }, message.stream, ends));
        }
        if taken < u64::from(length) {
            half.has_refused = Some(message.stream);
            let rest = Payload { offset: offset + taken, length: length - taken as u32 };
            self.tell(side, Event::Refused(rest));
        }
    }

    fn close_if_drained(&mut self) {
        let is_drained = |half: &Half| half.buffered() == 0;
        let is_shut = self.halves.iter().any(|half| half.is_shut);
        if self.is_open && is_shut && self.halves.iter().all(is_drained) {
            self.close(CloseReason::Shutdown);
        }
    }

    fn close(&mut self, reason: CloseReason) {
        if std::mem::take(&mut self.is_open) {
            self.tell(Side::A, Event::Closed(reason));
            self.tell(Side::B, Event::Closed(reason));
        }
    }
}
