//! The receiving half of an association: the TSNs that have arrived, what waits to be delivered, and the SACK
//! that is due.

use smallvec::SmallVec;

use super::delayed_sack::DelayedSack;
use super::interleaving::Interleaved;
use super::parameters::Parameters;
use super::reassembly::{Reassembly, unwrap_tsn};
use super::received_tsns::ReceivedTsns;
use crate::endpoint::Event;
use crate::flow::{PathId, Payload};
use crate::observed::HeadOfLine;
use crate::wire::sctp::chunk::{Data, IData, Sack, SkippedMessage, SkippedStream};

/// The state of the receiving half.
#[derive(Debug)]
pub(super) struct Receiver {
    /// The receive window that the last SACK advertised, in bytes.
    pub(super) advertised: u32,
    pub(super) received: ReceivedTsns,
    /// Streams that the peer may send on.
    pub(super) inbound_streams: u16,
    pub(super) reassembly: Reassembly,
    /// Reassembly with interleaving; what waits there is counted above.
    interleaved: Interleaved,
    pub(super) delayed_sack: DelayedSack,
}

/// The kinds of arriving TSNs.
pub(super) enum Arrival {
    New(u64),
    Old(u64),
    Refused,
}

impl Receiver {
    pub(super) fn new(parameters: &Parameters, peer_initial_tsn: u32, inbound_streams: u16) -> Self {
        Self {
            advertised: parameters.receive_buffer,
            received: ReceivedTsns::new(peer_initial_tsn),
            inbound_streams,
            reassembly: Reassembly::default(),
            interleaved: Interleaved::default(),
            delayed_sack: DelayedSack::new(parameters.procedures.first_sack_at_once),
        }
    }

    /// Bytes that are free of a receive buffer in which the application has not read `unread`.
    #[inline(always)]
    pub(super) fn free_space(&self, receive_buffer: u32, unread: u64) -> u32 {
        u64::from(receive_buffer).saturating_sub(self.reassembly.bytes + unread) as u32
    }

    /// User data with this TSN has arrived on a path; RFC 7053: `immediate` is the I bit, which asks for a
    /// SACK at once.
    #[inline(always)]
    pub(super) fn take_tsn(&mut self, path: PathId, tsn: u32, immediate: bool, is_full: bool) -> Arrival {
        self.delayed_sack.packet_has_data = true;
        self.delayed_sack.source = path;
        self.delayed_sack.immediate |= immediate;
        let tsn = unwrap_tsn(self.received.cumulative, tsn);
        // RFC 9260 section 6.2: with the window closed, what lies beyond everything that has arrived is
        // dropped.
        if self.received.is_too_far(tsn) || (is_full && tsn > self.received.highest()) {
            self.delayed_sack.immediate = true;
            return Arrival::Refused;
        }
        if self.received.insert(tsn) {
            self.delayed_sack.packet_has_new_data = true;
            Arrival::New(tsn)
        } else {
            self.delayed_sack.packet_has_duplicates = true;
            Arrival::Old(tsn)
        }
    }

    /// Takes an I-DATA chunk that has not arrived before.
    pub(super) fn insert_i_data(&mut self, data: &IData, tell: &mut dyn FnMut(Event)) {
        self.interleaved.insert(data, &mut self.reassembly.bytes, tell);
    }

    /// Gives up what a FORWARD TSN names, as far as its streams exist.
    pub(super) fn skip_streams(
        &mut self,
        new_cumulative: u64,
        streams: &[SkippedStream],
        tell: &mut dyn FnMut(Event),
    ) {
        let count = self.inbound_streams;
        let skipped = streams.iter().filter(|skip| skip.stream < count);
        self.reassembly.forward(new_cumulative, skipped, tell);
    }

    /// Gives up what an I-FORWARD-TSN names, as far as its streams exist.
    pub(super) fn skip_messages(&mut self, messages: &[SkippedMessage], tell: &mut dyn FnMut(Event)) {
        for skip in messages.iter().filter(|skip| skip.stream < self.inbound_streams) {
            self.interleaved.forward(*skip, &mut self.reassembly.bytes, tell);
        }
    }

    /// Begins to deliver parts of messages; returns whether the fragments that wait keep to the protocol.
    pub(super) fn begin_parts(&mut self, interleaves: bool, tell: &mut dyn FnMut(Event)) -> bool {
        if interleaves {
            self.interleaved.begin_parts(&mut self.reassembly.bytes, tell);
            return true;
        }
        self.reassembly.begin_parts(tell)
    }

    /// Restarts these streams.
    pub(super) fn reset(&mut self, is_reset: impl Fn(u16) -> bool, tell: &mut dyn FnMut(Event)) {
        self.reassembly.reset(&is_reset, tell);
        self.interleaved.reset(&is_reset, &mut self.reassembly.bytes, tell);
    }

    /// Whether this chunk is the next one where nothing is missing, and `is_full` is not true.
    #[inline(always)]
    pub(super) fn is_next(&self, data: &Data, is_full: bool) -> bool {
        let tsn = self.received.cumulative + 1;
        data.tsn == tsn as u32
            && !self.received.has_gaps()
            && data.stream < self.inbound_streams
            && !is_full
            && self.reassembly.continues(tsn, data)
    }

    /// Takes in a chunk that is the next one and came over this path, and makes the SACK for it, which has
    /// nothing to report.
    #[inline]
    pub(super) fn take_next(&mut self, path: PathId, a_rwnd: u32) -> Sack {
        self.received.cumulative += 1;
        self.delayed_sack.source = path;
        self.delayed_sack.sent();
        self.advertised = a_rwnd;
        let cumulative_tsn = self.received.cumulative as u32;
        Sack { cumulative_tsn, a_rwnd, gap_blocks: SmallVec::new(), duplicates: Box::default() }
    }

    /// The SACK that is due, with at most `most_blocks` gap blocks and `entries` entries in all. After this
    /// call none is due any more.
    #[inline(always)]
    pub(super) fn take_sack(&mut self, most_blocks: usize, entries: usize, a_rwnd: u32) -> Sack {
        self.delayed_sack.sent();
        // Section 6.2: no more gap blocks than fit into the path MTU, the lowest first.
        let gap_blocks = self.received.gap_blocks(most_blocks);
        let duplicates = self.received.take_duplicates(entries - gap_blocks.len());
        self.advertised = a_rwnd;
        Sack { cumulative_tsn: self.received.cumulative as u32, a_rwnd, gap_blocks, duplicates }
    }

    /// The fragments and messages that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Payload> {
        self.reassembly.waiting().chain(self.interleaved.waiting())
    }

    /// The data that waits above a gap. For unordered messages, only incomplete ones wait.
    pub(super) fn head_of_line(&self) -> Option<HeadOfLine> {
        let waiting = self.reassembly.bytes;
        let missing = u64::from((self.received.cumulative + 1) as u32);
        (waiting > 0 && self.received.has_gaps()).then_some(HeadOfLine { waiting, missing: missing.into() })
    }
}
