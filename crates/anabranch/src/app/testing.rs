//! A connection to test applications with: it takes what fits into its send buffers, as whole messages or as
//! pieces of a stream, delivers in pieces of any size, and answers as the contract of [`Event`] says.

use std::collections::VecDeque;

use anabranch_transport::endpoint::{CloseReason, Command, Event, Message, Received, Service, StreamId};
use anabranch_transport::flow::{Payload, Side};
use anabranch_transport::time::{Duration, Time};

use super::{App, Commands};

/// The sending half of one end.
#[derive(Debug, Default)]
struct Half {
    /// Bytes in the send buffer, as messages or pieces.
    queue: VecDeque<Payload>,
    taken: u64,
    delivered: u64,
    has_refused: bool,
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
            && let Some(front) = half.queue.front_mut()
        {
            let length = match self.service {
                Service::Stream | Service::Streams { .. } => u64::from(front.length).min(left),
                _ => u64::from(front.length),
            };
            arrived.push(Payload { offset: half.delivered, length: length as u32 });
            half.delivered += length;
            left = left.saturating_sub(length);
            front.length -= length as u32;
            if front.length == 0 {
                half.queue.pop_front();
            }
        }
        // As in Linux, a third of the buffer makes it writable.
        let is_writable = half.has_refused && self.buffer - half.buffered() >= self.buffer.div_ceil(3);
        half.has_refused &= !is_writable;
        for payload in arrived {
            self.received[from.peer().index()] += u64::from(payload.length);
            let received = Received::new(payload);
            self.tell(from.peer(), Event::Received(received));
        }
        if is_writable {
            let event = match self.service {
                Service::Streams { .. } => Event::StreamWritable(StreamId(0)),
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
        assert_eq!(offset, half.taken, "the stream has no gap");
        assert!(!half.is_shut, "nothing comes after the end");
        let room = self.buffer - half.buffered();
        let taken = match self.service {
            Service::Stream | Service::Streams { .. } => u64::from(length).min(room),
            _ if u64::from(length) <= room => u64::from(length),
            _ => 0,
        };
        if taken > 0 {
            half.taken += taken;
            half.queue.push_back(Payload { offset, length: taken as u32 });
        }
        if taken < u64::from(length) {
            half.has_refused = true;
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
