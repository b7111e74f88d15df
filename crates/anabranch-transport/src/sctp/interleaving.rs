//! Reassembles messages whose fragments alternate with those of others (RFC 8260 section 2.2), and drops what
//! an I-FORWARD-TSN gives up (section 2.3).
//!
//! The messages of one stream leave one after the other, so when one is given up, those before it are
//! complete or given up.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::tsn;
use crate::endpoint::Received;
use crate::ground::Payload;
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
    /// The payload protocol identifier, which the first fragment has.
    ppid: u32,
    /// The number of the last fragment, once that has arrived.
    last: Option<u32>,
}

impl Incomplete {
    fn bytes(&self) -> u64 {
        self.fragments.values().map(|payload| u64::from(payload.length)).sum()
    }

    /// The whole message, if all of it has arrived.
    fn message(&self, stream: u16, unordered: bool) -> Option<Received> {
        let (_, first) = self.fragments.first_key_value()?;
        let (last, _) = self.fragments.last_key_value()?;
        // The highest fragment is the last one, and none before it is missing.
        let is_complete = self.last == Some(*last) && self.fragments.len() as u64 == u64::from(*last) + 1;
        let payload = Payload { offset: first.offset, length: self.bytes() as u32 };
        is_complete.then_some(Received { stream, ppid: self.ppid, unordered, payload })
    }
}

impl Interleaved {
    /// Takes an I-DATA chunk that has not arrived before; `bytes` counts what waits, and `deliver` is called
    /// with what the chunk completes.
    pub(super) fn insert(&mut self, data: &IData, bytes: &mut u64, mut deliver: impl FnMut(Received)) {
        let IData { stream, unordered, payload, .. } = *data;
        let next = *self.next.entry((stream, unordered)).or_insert(FIRST);
        let mid = tsn::unwrap_near(next, data.mid);
        if mid < next {
            // The message has been given up.
            return;
        }
        let key = (stream, unordered, mid);
        let message = self.messages.entry(key).or_default();
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
        let Some(whole) = message.message(stream, unordered) else { return };
        if unordered {
            self.messages.remove(&key);
            *bytes -= u64::from(whole.payload.length);
            deliver(whole);
        } else {
            self.release(stream, bytes, &mut deliver);
        }
    }

    /// Drops what an I-FORWARD-TSN gives up; calls `deliver` with the messages that this releases.
    pub(super) fn forward(
        &mut self,
        skip: SkippedMessage,
        bytes: &mut u64,
        mut deliver: impl FnMut(Received),
    ) {
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
            if let Some(whole) = message.message(stream, unordered) {
                deliver(whole);
            }
        }
        if !unordered {
            self.release(stream, bytes, &mut deliver);
        }
    }

    /// Restarts streams, with both kinds of Message Identifiers (RFC 8260 section 2.3.2). `deliver` is called
    /// with whole messages that still waited for others that never came.
    pub(super) fn reset(
        &mut self,
        is_reset: impl Fn(u16) -> bool,
        bytes: &mut u64,
        deliver: &mut impl FnMut(Received),
    ) {
        self.next.retain(|&(stream, _), _| !is_reset(stream));
        self.messages.retain(|&(stream, unordered, _), message| {
            if !is_reset(stream) {
                return true;
            }
            *bytes -= message.bytes();
            if let Some(whole) = message.message(stream, unordered) {
                deliver(whole);
            }
            false
        });
    }

    /// The fragments that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Payload> {
        self.messages.values().flat_map(|message| message.fragments.values().copied())
    }

    /// Delivers whole messages whose turn has come.
    fn release(&mut self, stream: u16, bytes: &mut u64, deliver: &mut impl FnMut(Received)) {
        let next = self.next.entry((stream, false)).or_insert(FIRST);
        while let Some(whole) =
            self.messages.get(&(stream, false, *next)).and_then(|message| message.message(stream, false))
        {
            self.messages.remove(&(stream, false, *next));
            *next += 1;
            *bytes -= u64::from(whole.payload.length);
            deliver(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    struct Receiver(Interleaved, u64);

    impl Receiver {
        fn take(&mut self, data: IData) -> Vec<(u64, u32)> {
            let mut out = Vec::new();
            self.0.insert(&data, &mut self.1, |m| out.push((m.payload.offset, m.payload.length)));
            out
        }

        fn forward(&mut self, stream: u16, unordered: bool, mid: u32) -> Vec<u64> {
            let mut out = Vec::new();
            let skip = SkippedMessage { stream, unordered, mid };
            self.0.forward(skip, &mut self.1, |m| out.push(m.payload.offset));
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
}
