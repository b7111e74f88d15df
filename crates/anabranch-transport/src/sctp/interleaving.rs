//! Reassembles messages whose fragments alternate with those of others (RFC 8260 section 2.2), and drops what
//! an I-FORWARD-TSN gives up (section 2.3).
//!
//! The messages of one stream leave one after the other, so when one is given up, those before it are
//! complete or given up.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::message::Whole;
use super::tsn;
use crate::endpoint::{Event, Part};
use crate::flow::Payload;
use crate::wire::sctp::chunk::{IData, SkippedMessage};

/// The first Message Identifier of a stream, one wrap away from zero, so that a step back stays positive.
const FIRST: u64 = 1 << 32;

/// Fragments and messages that wait.
#[derive(Debug, Default)]
pub(super) struct Interleaved {
    /// By stream, U bit and Message Identifier.
    messages: BTreeMap<(u16, bool, u64), Incomplete>,
    /// By stream and U bit: the next message to deliver; with unordered ones, the first that has not been
    /// given up.
    next: BTreeMap<(u16, bool), u64>,
}

/// A message of which a part has arrived.
#[derive(Debug, Default)]
struct Incomplete {
    /// By Fragment Sequence Number.
    fragments: BTreeMap<u32, Payload>,
    /// The number of fragments that the application has been given, if it gets the message in parts.
    delivered: u64,
    /// The payload protocol identifier, which the first fragment has.
    ppid: u32,
    /// The number of the last fragment, once that has arrived.
    last: Option<u32>,
}

impl Incomplete {
    fn bytes(&self) -> u64 {
        self.fragments.values().map(|payload| u64::from(payload.length)).sum()
    }

    /// The whole message, if all of it has arrived and nothing was delivered.
    fn message(&self, stream: u16, unordered: bool) -> Option<Whole> {
        let (_, first) = self.fragments.first_key_value()?;
        let (last, _) = self.fragments.last_key_value()?;
        // The highest fragment is the last one, and none before it is missing.
        let is_complete = self.last == Some(*last) && self.fragments.len() as u64 == u64::from(*last) + 1;
        let payload = Payload { offset: first.offset, length: self.bytes() as u32 };
        is_complete.then_some(Whole { stream, ppid: self.ppid, unordered, payload })
    }

    /// Nothing more of it will be taken: delivers it if it is whole, and otherwise says so to whoever has had
    /// a part.
    fn end(&self, stream: u16, unordered: bool, tell: &mut dyn FnMut(Event)) {
        if self.delivered > 0 {
            tell(Event::PartialDeliveryAborted { stream: stream.into(), unordered });
        } else if let Some(whole) = self.message(stream, unordered) {
            tell(Event::Received(whole.into()));
        }
    }

    /// Takes the fragments that are next for the application, if there are any.
    fn take_part(&mut self, stream: u16, unordered: bool) -> Option<Part> {
        let mut payload: Option<Payload> = None;
        while let Some(first) = self.fragments.first_entry()
            && u64::from(*first.key()) == self.delivered
        {
            let Payload { offset, length } = first.remove();
            payload.get_or_insert(Payload { offset, length: 0 }).length += length;
            self.delivered += 1;
        }
        let is_last = self.last.is_some_and(|last| u64::from(last) + 1 == self.delivered);
        payload.map(|payload| Part { stream: stream.into(), ppid: self.ppid, unordered, is_last, payload })
    }
}

impl Interleaved {
    /// Takes an I-DATA chunk that has not arrived before; `bytes` counts what waits, and `tell` is called
    /// with what the chunk completes.
    pub(super) fn insert(&mut self, data: &IData, bytes: &mut u64, tell: &mut dyn FnMut(Event)) {
        let IData { stream, unordered, payload, .. } = *data;
        let next = *self.next.entry((stream, unordered)).or_insert(FIRST);
        let mid = tsn::unwrap_near(next, data.mid);
        if mid < next {
            // The message has been given up.
            return;
        }
        let key = (stream, unordered, mid);
        let message = self.messages.entry(key).or_default();
        if u64::from(data.fsn) < message.delivered {
            // There was such a fragment, too.
            return;
        }
        let Entry::Vacant(place) = message.fragments.entry(data.fsn) else {
            // The peer breaks the protocol: there is such a fragment already, with another TSN.
            return;
        };
        place.insert(payload);
        *bytes += u64::from(payload.length);
        if data.beginning {
            message.ppid = data.ppid;
        }
        if data.ending {
            message.last = Some(data.fsn);
        }
        if message.delivered > 0 {
            self.deliver_part(key, bytes, tell);
            return;
        }
        let Some(whole) = message.message(stream, unordered) else { return };
        if unordered {
            self.messages.remove(&key);
            *bytes -= u64::from(whole.payload.length);
            tell(Event::Received(whole.into()));
        } else {
            self.release(stream, bytes, tell);
        }
    }

    /// Begins to deliver messages in parts: of each stream the ordered one whose turn it is, and the first
    /// unordered one.
    pub(super) fn begin_parts(&mut self, bytes: &mut u64, tell: &mut dyn FnMut(Event)) {
        let mut firsts: Vec<(u16, bool, u64)> = self.messages.keys().copied().collect();
        firsts.dedup_by_key(|&mut (stream, unordered, _)| (stream, unordered));
        for key in firsts {
            let (stream, unordered, mid) = key;
            if unordered || self.next.get(&(stream, false)) == Some(&mid) {
                self.deliver_part(key, bytes, tell);
            }
        }
    }

    /// Delivers the fragments of a message that are next.
    fn deliver_part(
        &mut self,
        key @ (stream, unordered, _): (u16, bool, u64),
        bytes: &mut u64,
        tell: &mut dyn FnMut(Event),
    ) {
        let message = self.messages.get_mut(&key);
        let Some(part) = message.and_then(|message| message.take_part(stream, unordered)) else { return };
        *bytes -= u64::from(part.payload.length);
        tell(Event::ReceivedPart(part));
        if part.is_last {
            self.messages.remove(&key);
            if !unordered {
                *self.next.entry((stream, false)).or_insert(FIRST) += 1;
                self.release(stream, bytes, tell);
            }
        }
    }

    /// Drops what an I-FORWARD-TSN gives up; calls `tell` with the messages that this releases.
    pub(super) fn forward(&mut self, skip: SkippedMessage, bytes: &mut u64, tell: &mut dyn FnMut(Event)) {
        let SkippedMessage { stream, unordered, mid } = skip;
        let next = self.next.entry((stream, unordered)).or_insert(FIRST);
        let past = tsn::unwrap_near(*next, mid) + 1;
        if past <= *next {
            return;
        }
        let from = std::mem::replace(next, past);
        let skipped: Vec<_> = self
            .messages
            .range((stream, unordered, from)..(stream, unordered, past))
            .map(|(&key, _)| key)
            .collect();
        for key in skipped {
            let message = self.messages.remove(&key).expect("it was there");
            *bytes -= message.bytes();
            message.end(stream, unordered, tell);
        }
        if !unordered {
            self.release(stream, bytes, tell);
        }
    }

    /// Restarts streams, with both kinds of Message Identifiers (RFC 8260 section 2.3.2). `tell` is called
    /// with whole messages that still waited for others that never came.
    pub(super) fn reset(
        &mut self,
        is_reset: impl Fn(u16) -> bool,
        bytes: &mut u64,
        tell: &mut dyn FnMut(Event),
    ) {
        self.next.retain(|&(stream, _), _| !is_reset(stream));
        self.messages.retain(|&(stream, unordered, _), message| {
            if !is_reset(stream) {
                return true;
            }
            *bytes -= message.bytes();
            message.end(stream, unordered, tell);
            false
        });
    }

    /// The fragments that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Payload> {
        self.messages.values().flat_map(|message| message.fragments.values().copied())
    }

    /// Delivers whole messages whose turn has come.
    fn release(&mut self, stream: u16, bytes: &mut u64, tell: &mut dyn FnMut(Event)) {
        let next = self.next.entry((stream, false)).or_insert(FIRST);
        while let Some(whole) =
            self.messages.get(&(stream, false, *next)).and_then(|message| message.message(stream, false))
        {
            self.messages.remove(&(stream, false, *next));
            *next += 1;
            *bytes -= u64::from(whole.payload.length);
            tell(Event::Received(whole.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Received;

    fn data(stream: u16, unordered: bool, mid: u32, fsn: u32, ending: bool) -> IData {
        let offset = u64::from(mid) * 1_000 + u64::from(fsn) * 10;
        IData {
            tsn: 0,
            stream,
            mid,
            fsn,
            ppid: 0,
            unordered,
            beginning: fsn == 0,
            ending,
            immediate: false,
            payload: Payload { offset, length: 10 },
        }
    }

    /// Offset and length of a message.
    fn payload(event: &Event) -> (u64, u32) {
        let Event::Received(Received { payload, .. }) = event else { panic!("{event:?} is no message") };
        (payload.offset, payload.length)
    }

    struct Receiver(Interleaved, u64);

    impl Receiver {
        fn take(&mut self, data: IData) -> Vec<(u64, u32)> {
            let mut out = Vec::new();
            self.0.insert(&data, &mut self.1, &mut |event| out.push(payload(&event)));
            out
        }

        fn forward(&mut self, stream: u16, unordered: bool, mid: u32) -> Vec<u64> {
            let mut out = Vec::new();
            let skip = SkippedMessage { stream, unordered, mid };
            self.0.forward(skip, &mut self.1, &mut |event| out.push(payload(&event).0));
            out
        }
    }

    #[test]
    fn messages_of_two_streams_alternate() {
        let mut receiver = Receiver(Interleaved::default(), 0);
        assert_eq!(receiver.take(data(1, false, 0, 0, false)), []);
        assert_eq!(receiver.take(data(2, false, 0, 0, true)), [(0, 10)]);
        assert_eq!(receiver.take(data(1, false, 0, 2, true)), []);
        assert_eq!(receiver.1, 20);
        assert_eq!(receiver.take(data(1, false, 0, 1, false)), [(0, 30)]);
        assert_eq!(receiver.1, 0);
    }

    #[test]
    fn order_is_that_of_the_message_identifier() {
        let mut receiver = Receiver(Interleaved::default(), 0);
        assert_eq!(receiver.take(data(1, false, 1, 0, true)), []);
        assert_eq!(receiver.take(data(1, true, 1, 0, true)), [(1_000, 10)], "numbers of its own");
        assert_eq!(receiver.take(data(1, false, 0, 0, true)), [(0, 10), (1_000, 10)]);
    }

    #[test]
    fn numbers_that_nobody_would_send_break_nothing() {
        let mut receiver = Receiver(Interleaved::default(), 0);
        assert_eq!(receiver.take(data(1, false, 0, u32::MAX, true)), []);
        assert_eq!(
            receiver.take(data(1, false, 0, u32::MAX, true)),
            [],
            "the same fragment with another TSN"
        );
        assert_eq!(receiver.1, 10, "it is counted once");
        assert_eq!(receiver.take(data(1, false, u32::MAX, 0, true)), [], "it lies before the first message");
        assert_eq!(receiver.forward(1, false, u32::MAX), [0_u64; 0]);
        assert_eq!(receiver.1, 10);
        assert_eq!(receiver.forward(1, false, 0), [0_u64; 0]);
        assert_eq!(receiver.1, 0);
        // Two fragments, none of which is the first.
        receiver.take(data(2, false, 0, 1, true));
        assert_eq!(receiver.take(data(2, false, 0, 7, false)), []);
    }

    #[test]
    fn what_is_given_up_is_dropped_and_stays_away() {
        let mut receiver = Receiver(Interleaved::default(), 0);
        for unordered in [false, true] {
            receiver.take(data(1, unordered, 0, 0, false));
            assert_eq!(receiver.forward(1, unordered, 0), [0_u64; 0]);
            assert_eq!(receiver.take(data(1, unordered, 0, 1, true)), []);
            assert_eq!(receiver.1, 0);
        }
        receiver.take(data(1, false, 2, 0, true));
        assert_eq!(receiver.forward(1, false, 1), [2_000]);
        assert_eq!(receiver.1, 0);
    }

    #[test]
    fn a_message_of_each_stream_is_delivered_in_parts() {
        let mut receiver = Interleaved::default();
        let mut bytes = 0;
        let mut told = Vec::new();
        let mut tell = |event: Event| {
            told.push(match event {
                Event::Received(message) => format!("whole {}", message.payload.offset),
                Event::ReceivedPart(Part { is_last, payload: Payload { offset, length }, .. }) => {
                    format!("{} {offset}+{length}", if is_last { "last" } else { "part" })
                }
                event => event.describe().1,
            });
        };
        // Two messages of stream 1, one of which waits for the other, an unordered one there, and one that
        // lacks its beginning.
        for data in [
            data(1, false, 0, 0, false),
            data(1, false, 1, 0, true),
            data(1, true, 3, 0, false),
            data(1, true, 3, 1, false),
            data(2, false, 0, 1, false),
        ] {
            receiver.insert(&data, &mut bytes, &mut tell);
        }
        receiver.begin_parts(&mut bytes, &mut tell);
        assert_eq!(bytes, 20);
        // Again, which finds nothing; then what is next, and what is not.
        receiver.begin_parts(&mut bytes, &mut tell);
        for data in [data(1, true, 3, 3, true), data(1, false, 0, 0, true), data(1, true, 3, 2, false)] {
            receiver.insert(&data, &mut bytes, &mut tell);
        }
        receiver.insert(&data(1, false, 0, 1, true), &mut bytes, &mut tell);
        assert_eq!(bytes, 10, "that without a beginning");
        for (unordered, mid) in [(false, 2), (true, 4)] {
            receiver.insert(&data(1, unordered, mid, 0, false), &mut bytes, &mut tell);
            receiver.begin_parts(&mut bytes, &mut tell);
            receiver.insert(&data(1, unordered, mid, 2, false), &mut bytes, &mut tell);
            receiver.forward(SkippedMessage { stream: 1, unordered, mid }, &mut bytes, &mut tell);
        }
        assert_eq!(bytes, 10);
        assert_eq!(
            told,
            [
                "part 0+10",
                "part 3000+20",
                "last 3020+20",
                "last 10+10",
                "whole 1000",
                "part 2000+10",
                "stream 1",
                "part 4000+10",
                "stream 1"
            ]
        );
    }
}
