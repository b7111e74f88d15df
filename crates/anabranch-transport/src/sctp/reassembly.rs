//! Fragments become messages, and ordered messages wait for those before them
//! (RFC 9260 sections 6.5 to 6.9; RFC 3758 section 3.6 for what a FORWARD TSN releases).

use std::collections::BTreeMap;

use super::message::Whole;
use super::tsn;
use super::tsn_map::TsnMap;
use crate::endpoint::{Event, Part};
use crate::flow::Payload;
use crate::wire::sctp::chunk::{Data, SkippedStream};

/// For at most this many fragments, memory is kept from one message to the next: those of 64 KiB in packets
/// of 1500 bytes.
const KEPT_FRAGMENTS: usize = 64;

/// Fragments and messages that wait.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// A message whose fragments so far have arrived in order.
    run: Run,
    /// Other fragments by TSN. None of them continues the run.
    fragments: TsnMap<Data>,
    streams: Vec<Stream>,
    /// The message that is delivered in parts.
    partial: Option<Box<Partial>>,
    /// The TSN up to which a FORWARD TSN has passed everything, and the fragments behind it whose beginning
    /// it has passed.
    dropped_to: u64,
    /// Bytes that wait.
    pub(super) bytes: u64,
}

/// A message of which the application has been given the first part.
#[derive(Debug)]
struct Partial {
    /// The last fragment that was delivered, and its TSN.
    last: Data,
    tsn: u64,
    /// The messages that wait for its end.
    held: Vec<Whole>,
}

/// The first fragments of a message, with TSNs that follow each other.
#[derive(Debug, Default)]
struct Run {
    first_tsn: u64,
    fragments: Vec<Data>,
    bytes: u32,
}

impl Run {
    /// The fragment with this TSN.
    fn get(&self, tsn: u64) -> Option<&Data> {
        self.fragments.get(tsn.wrapping_sub(self.first_tsn) as usize)
    }

    /// The TSN of the fragment that would be next.
    const fn end(&self) -> u64 {
        self.first_tsn + self.fragments.len() as u64
    }

    /// Whether a fragment is the next one, or begins a message where there is no run.
    #[inline]
    fn is_next(&self, tsn: u64, data: &Data) -> bool {
        match self.fragments.last() {
            Some(last) => tsn == self.end() && is_next(last, data),
            None => data.beginning,
        }
    }

    #[inline]
    fn push(&mut self, tsn: u64, data: Data) {
        if self.fragments.is_empty() {
            self.first_tsn = tsn;
        }
        self.fragments.push(data);
        self.bytes += data.payload.length;
    }

    /// Adds the next fragments from among those that wait. Returns whether the message is complete.
    #[inline]
    fn take_from(&mut self, fragments: &mut TsnMap<Data>) -> bool {
        while let next = self.end()
            && let Some(&waiting) = fragments.get(next)
            && self.is_next(next, &waiting)
        {
            fragments.remove(next);
            self.push(next, waiting);
            if waiting.ending {
                return true;
            }
        }
        false
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &Data)> {
        (self.first_tsn..).zip(&self.fragments)
    }

    fn clear(&mut self) {
        self.fragments.clear();
        self.fragments.shrink_to(KEPT_FRAGMENTS);
        self.bytes = 0;
    }
}

/// One inbound stream.
#[derive(Clone, Debug)]
struct Stream {
    /// The stream sequence number to deliver next.
    next_ssn: u64,
    /// Complete messages that came too early, with their first and last TSN.
    early: BTreeMap<u64, (Whole, [u64; 2])>,
}

impl Default for Stream {
    fn default() -> Self {
        // One wrap away from zero, so that a step back stays positive.
        Self { next_ssn: 1 << 16, early: BTreeMap::new() }
    }
}

impl Stream {
    fn unwrap(&self, ssn: u16) -> u64 {
        // Stream sequence numbers have sixteen bits; moved to the upper half of 32, the arithmetic of TSNs
        // applies to them.
        let difference = ssn.wrapping_sub(self.next_ssn as u16) as i16;
        self.next_ssn.wrapping_add(i64::from(difference) as u64)
    }
}

impl Reassembly {
    /// Whether a chunk is the first one of its message, or one that fits behind the one with the TSN before,
    /// where that waits (section 6.9).
    #[inline(always)]
    pub(super) fn continues(&self, tsn: u64, data: &Data) -> bool {
        data.beginning || self.run.is_next(tsn, data) || self.continues_another(tsn, data)
    }

    /// Whether a fragment that does not continue the run fits behind the one before.
    fn continues_another(&self, tsn: u64, data: &Data) -> bool {
        let partial = self.partial.as_ref().filter(|partial| partial.tsn == tsn - 1);
        let before = self.run.get(tsn - 1).or_else(|| self.fragments.get(tsn - 1));
        before.or(partial.map(|partial| &partial.last)).is_none_or(|before| is_next(before, data))
    }

    /// Takes a DATA chunk that has not arrived before; calls `deliver` with what it completes.
    #[inline(always)]
    pub(super) fn insert(&mut self, tsn: u64, data: Data, mut deliver: impl FnMut(Whole)) {
        let (message, tsns) = if data.beginning && data.ending {
            (message_of(&data, data.payload.length), [tsn; 2])
        } else if let Some(whole) = self.insert_fragment(tsn, data) {
            whole
        } else {
            return;
        };
        self.complete(data.ssn, message, tsns, &mut deliver);
    }

    /// Keeps a fragment and returns the message that it completes, if it does, with its first and last TSN.
    #[inline(always)]
    fn insert_fragment(&mut self, tsn: u64, data: Data) -> Option<(Whole, [u64; 2])> {
        self.bytes += u64::from(data.payload.length);
        if self.run.is_next(tsn, &data) { self.continue_run(tsn, data) } else { self.insert_apart(tsn, data) }
    }

    /// Keeps a fragment that does not continue the run.
    fn insert_apart(&mut self, tsn: u64, data: Data) -> Option<(Whole, [u64; 2])> {
        self.fragments.insert(tsn, data);
        if tsn == self.dropped_to + 1 {
            self.drop_headless();
        }
        let (first, last) = self.whole_message(tsn)?;
        let mut part = |tsn| self.fragments.remove(tsn).expect("the run is complete");
        let beginning = part(first);
        let mut message = message_of(&beginning, beginning.payload.length);
        for fragment in first + 1..=last {
            message.payload.length += part(fragment).payload.length;
        }
        self.bytes -= u64::from(message.payload.length);
        Some((message, [first, last]))
    }

    /// Adds its next fragment to the run, and those that have waited for it. Returns the message as
    /// [`Reassembly::insert_fragment`] does.
    #[inline]
    fn continue_run(&mut self, tsn: u64, data: Data) -> Option<(Whole, [u64; 2])> {
        let Self { run, fragments, .. } = self;
        run.push(tsn, data);
        if !data.ending && !run.take_from(fragments) {
            return None;
        }
        let tsns = [run.first_tsn, run.end() - 1];
        let message = message_of(&run.fragments[0], run.bytes);
        run.clear();
        self.bytes -= u64::from(message.payload.length);
        Some((message, tsns))
    }

    /// Whether a message is delivered in parts.
    #[inline(always)]
    pub(super) const fn delivers_parts(&self) -> bool {
        self.partial.is_some()
    }

    /// Begins to deliver the first message that waits in parts, where no TSN is missing. Returns whether that
    /// is possible: otherwise its peer has not kept to the order of fragments and messages.
    pub(super) fn begin_parts(&mut self, tell: &mut dyn FnMut(Event)) -> bool {
        if self.partial.is_some() {
            return true;
        }
        self.spread_run();
        let Some((tsn, &first)) = self.fragments.first() else { return true };
        let stream = self.stream(first.stream);
        if !first.beginning || !(first.unordered || stream.unwrap(first.ssn) == stream.next_ssn) {
            return false;
        }
        // As if the fragment before it had been delivered.
        let last = Data { beginning: false, ending: false, ..first };
        self.partial = Some(Box::new(Partial { last, tsn: tsn - 1, held: Vec::new() }));
        if let Some(first) = self.fragments.get_mut(tsn) {
            first.beginning = false;
        }
        self.continue_parts(tell);
        true
    }

    /// Takes a DATA chunk that has not arrived before while a message is delivered in parts.
    pub(super) fn insert_beside_parts(&mut self, tsn: u64, data: Data, tell: &mut dyn FnMut(Event)) {
        if self
            .partial
            .as_ref()
            .is_some_and(|partial| tsn == partial.tsn + 1 && is_next(&partial.last, &data))
        {
            self.fragments.insert(tsn, data);
            self.bytes += u64::from(data.payload.length);
            self.continue_parts(tell);
            return;
        }
        let mut whole = Vec::new();
        self.insert(tsn, data, |message| whole.push(message));
        self.hold(whole);
    }

    /// Keeps messages until the one that is delivered in parts has ended.
    fn hold(&mut self, messages: Vec<Whole>) {
        if let Some(partial) = &mut self.partial {
            self.bytes += messages.iter().map(|message| u64::from(message.payload.length)).sum::<u64>();
            partial.held.extend(messages);
        }
    }

    /// Delivers the fragments that are next in the message that is delivered in parts.
    fn continue_parts(&mut self, tell: &mut dyn FnMut(Event)) {
        let Self { partial, fragments, bytes, .. } = self;
        let Some(partial) = partial else { return };
        let mut whole: Option<Payload> = None;
        while let Some(&next) = fragments.get(partial.tsn + 1)
            && is_next(&partial.last, &next)
        {
            partial.tsn += 1;
            fragments.remove(partial.tsn);
            partial.last = next;
            let Payload { offset, length } = next.payload;
            whole.get_or_insert(Payload { offset, length: 0 }).length += length;
            *bytes -= u64::from(length);
        }
        let Data { stream, ppid, unordered, ending: is_last, .. } = partial.last;
        if let Some(payload) = whole {
            tell(Event::ReceivedPart(Part { stream: stream.into(), ppid, unordered, is_last, payload }));
        }
        if is_last {
            let last = partial.last;
            self.end_parts(tell);
            if !last.unordered {
                self.stream(last.stream).next_ssn += 1;
                self.release(last.stream, &mut |message| tell(Event::Received(message.into())));
            }
        }
    }

    /// Nothing is delivered in parts any more: delivers what has waited for that.
    fn end_parts(&mut self, tell: &mut dyn FnMut(Event)) {
        for message in self.partial.take().map(|partial| partial.held).unwrap_or_default() {
            self.bytes -= u64::from(message.payload.length);
            tell(Event::Received(message.into()));
        }
    }

    /// The message that is delivered in parts has been given up.
    fn abort_parts(&mut self, tell: &mut dyn FnMut(Event)) {
        if let Some(partial) = &self.partial {
            let Data { stream, unordered, .. } = partial.last;
            tell(Event::PartialDeliveryAborted { stream: stream.into(), unordered });
            self.end_parts(tell);
        }
    }

    /// Lets the fragments of the run wait as the others do.
    fn spread_run(&mut self) {
        self.run.iter().for_each(|(tsn, data)| self.fragments.insert(tsn, *data));
        self.run.clear();
    }

    /// Drops the fragments whose beginning a FORWARD TSN has passed: their message can never be complete.
    fn drop_headless(&mut self) {
        while let Some(&data) = self.fragments.get(self.dropped_to + 1)
            && !data.beginning
        {
            self.dropped_to += 1;
            self.fragments.remove(self.dropped_to);
            self.bytes -= u64::from(data.payload.length);
        }
    }

    /// Drops what a FORWARD TSN gives up; calls `tell` with the messages that this releases.
    pub(super) fn forward<'a>(
        &mut self,
        new_cumulative: u64,
        skipped: impl IntoIterator<Item = &'a SkippedStream>,
        tell: &mut dyn FnMut(Event),
    ) {
        if self.partial.as_ref().is_some_and(|partial| partial.tsn < new_cumulative) {
            self.abort_parts(tell);
        }
        // A message whose first fragment is passed can never be complete.
        if !self.run.fragments.is_empty() && self.run.first_tsn <= new_cumulative {
            self.spread_run();
        }
        while let Some((tsn, &Data { payload, .. })) = self.fragments.first()
            && tsn <= new_cumulative
        {
            self.fragments.remove(tsn);
            self.bytes -= u64::from(payload.length);
        }
        self.dropped_to = new_cumulative;
        self.drop_headless();
        let mut released = Vec::new();
        let mut deliver = |message| released.push(message);
        for skip in skipped {
            let stream = self.stream(skip.stream);
            let past = stream.unwrap(skip.ssn) + 1;
            if past <= stream.next_ssn {
                continue;
            }
            stream.next_ssn = past;
            let later = stream.early.split_off(&past);
            let early = std::mem::replace(&mut stream.early, later);
            for (message, _) in early.into_values() {
                self.bytes -= u64::from(message.payload.length);
                deliver(message);
            }
            self.release(skip.stream, &mut deliver);
        }
        if self.partial.is_some() {
            self.hold(released);
        } else {
            for message in released {
                tell(Event::Received(message.into()));
            }
        }
    }

    /// Restarts streams. `tell` is called with the messages that still waited in them for others that never
    /// came.
    pub(super) fn reset(&mut self, is_reset: impl Fn(u16) -> bool, tell: &mut dyn FnMut(Event)) {
        if self.partial.as_ref().is_some_and(|partial| is_reset(partial.last.stream)) {
            self.abort_parts(tell);
        }
        for (number, stream) in self.streams.iter_mut().enumerate() {
            if is_reset(number as u16) {
                for (message, _) in std::mem::take(stream).early.into_values() {
                    self.bytes -= u64::from(message.payload.length);
                    tell(Event::Received(message.into()));
                }
            }
        }
    }

    /// What waits: fragments, and messages that came too early.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Payload> {
        let early = self.streams.iter().flat_map(|stream| stream.early.values());
        let fragments = self.run.iter().chain(self.fragments.iter()).map(|(_, data)| data.payload);
        let held = self.partial.iter().flat_map(|partial| &partial.held);
        fragments.chain(early.map(|(message, _)| message.payload)).chain(held.map(|message| message.payload))
    }

    /// The TSNs of what waits, in order.
    pub(super) fn waiting_tsns(&self) -> Vec<u64> {
        let early = self.streams.iter().flat_map(|stream| stream.early.values());
        let early = early.flat_map(|&(_, [first, last])| first..=last);
        let fragments = self.run.iter().chain(self.fragments.iter()).map(|(tsn, _)| tsn);
        let mut tsns: Vec<u64> = fragments.chain(early).collect();
        tsns.sort_unstable();
        tsns
    }

    #[inline(always)]
    fn complete(&mut self, ssn: u16, message: Whole, tsns: [u64; 2], deliver: &mut impl FnMut(Whole)) {
        let Whole { stream, payload, .. } = message;
        if message.unordered {
            deliver(message);
            return;
        }
        let inbound = self.stream(stream);
        let ssn = inbound.unwrap(ssn);
        if ssn == inbound.next_ssn {
            inbound.next_ssn += 1;
            let others_wait = !inbound.early.is_empty();
            deliver(message);
            if others_wait {
                self.release(stream, deliver);
            }
        } else if ssn > inbound.next_ssn && inbound.early.insert(ssn, (message, tsns)).is_none() {
            self.bytes += u64::from(payload.length);
        }
    }

    /// Delivers early messages whose turn has come.
    fn release(&mut self, stream: u16, deliver: &mut impl FnMut(Whole)) {
        let inbound = &mut self.streams[usize::from(stream)];
        while let Some((message, _)) = inbound.early.remove(&inbound.next_ssn) {
            inbound.next_ssn += 1;
            self.bytes -= u64::from(message.payload.length);
            deliver(message);
        }
    }

    fn stream(&mut self, stream: u16) -> &mut Stream {
        let index = usize::from(stream);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, Stream::default);
        }
        &mut self.streams[index]
    }

    /// First and last TSN of the message that the fragment belongs to, if all of it has arrived.
    fn whole_message(&self, tsn: u64) -> Option<(u64, u64)> {
        // One step in each direction at a time: a fragment that is missing on one side is found however many
        // wait on the other, so that in a message without end each further fragment costs no more than the
        // one before.
        let (mut first, mut last) = (tsn, tsn);
        let [mut front, mut back] = [self.fragments.get(tsn)?; 2];
        loop {
            if front.beginning && back.ending {
                return Some((first, last));
            }
            if !front.beginning {
                first -= 1;
                let before = self.fragments.get(first).filter(|before| is_next(before, front))?;
                front = before;
            }
            if !back.ending {
                last += 1;
                let behind = self.fragments.get(last).filter(|behind| is_next(back, behind))?;
                back = behind;
            }
        }
    }
}

/// Whether a fragment can follow another one in a message: RFC 9260 section 6.9 has the same stream, number
/// and U bit in all of them.
const fn is_next(before: &Data, data: &Data) -> bool {
    !before.ending
        && !data.beginning
        && before.stream == data.stream
        && before.unordered == data.unordered
        && (data.unordered || before.ssn == data.ssn)
}

/// The message of this many bytes that begins with this chunk.
const fn message_of(first: &Data, length: u32) -> Whole {
    let &Data { stream, ppid, unordered, payload: Payload { offset, .. }, .. } = first;
    Whole { stream, ppid, unordered, payload: Payload { offset, length } }
}

/// The TSN with all its bits.
pub(super) const fn unwrap_tsn(cumulative: u64, wire: u32) -> u64 {
    tsn::unwrap_near(cumulative, wire)
}

#[cfg(test)]
mod tests;
