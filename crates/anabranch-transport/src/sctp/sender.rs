//! The sending half of an association: messages that wait, chunks that have left, and what limits them.

use super::outstanding::Outstanding;
use super::parameters::Parameters;
use super::send_queue::SendQueue;
use crate::flow::Payload;
use crate::wire::sctp::chunk::{DATA_HEADER_BYTES, I_DATA_HEADER_BYTES};

/// The state of the sending half. Messages may wait before there is a peer.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) queue: SendQueue,
    pub(super) outstanding: Outstanding,
    pub(super) advanced_peer_ack_point: u32,
    pub(super) peer_rwnd: u32,
    /// The next Message Identifier of every outbound stream; the Stream Sequence Number is its lower half.
    pub(super) next_mid: Vec<u32>,
    /// With interleaving, the identifiers of unordered messages.
    pub(super) next_unordered_mid: Vec<u32>,
    /// Whether user data travels in I-DATA chunks (RFC 8260).
    pub(super) interleaves: bool,
    /// Header of a chunk with user data in bytes.
    pub(super) data_header: u32,
    /// Largest payload of one DATA chunk in bytes.
    pub(super) fragment_limit: u32,
    /// Whether Nagle's algorithm is not applied, since it is not a write that lets data leave.
    pub(super) is_past_nagle: bool,
    /// The room in the send buffer that the application waits for since a message was refused, in bytes.
    pub(super) awaited_room: Option<u64>,
    /// The message that was refused last.
    pub(super) last_refused: Option<Payload>,
}

impl Sender {
    pub(super) fn new(initial_tsn: u32, parameters: &Parameters, paths: usize) -> Self {
        Self {
            queue: SendQueue::new(parameters.stream_scheduler.build()),
            outstanding: Outstanding::new(initial_tsn, parameters, paths),
            advanced_peer_ack_point: initial_tsn.wrapping_sub(1),
            peer_rwnd: 0,
            next_mid: vec![0; usize::from(parameters.streams)],
            next_unordered_mid: Vec::new(),
            interleaves: false,
            data_header: DATA_HEADER_BYTES,
            fragment_limit: 0,
            is_past_nagle: false,
            awaited_room: None,
            last_refused: None,
        }
    }

    /// Sets the TSN of the first chunk, before any is sent.
    pub(super) fn begin(&mut self, initial_tsn: u32) {
        self.outstanding.begin(initial_tsn);
        self.advanced_peer_ack_point = initial_tsn.wrapping_sub(1);
    }

    /// Whether everything has been sent and acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.queue.is_empty() && self.outstanding.chunks.is_empty()
    }

    /// Sends in I-DATA chunks from now on (RFC 8260 section 2.2.1).
    pub(super) fn interleave(&mut self) {
        self.interleaves = true;
        self.next_unordered_mid = vec![0; self.next_mid.len()];
        self.data_header = I_DATA_HEADER_BYTES;
        self.queue.interleave();
    }

    /// Bytes in the send buffer.
    pub(super) fn buffered(&self) -> u64 {
        self.queue.bytes + self.outstanding.held_bytes + self.outstanding.memory.overhead
    }

    /// The send buffer's memory for waiting messages, besides their bytes.
    #[cold]
    pub(super) fn memory_of_queue(&self) -> u64 {
        let (memory, limit) = (&self.outstanding.memory, self.fragment_limit);
        self.queue.iter().map(|waiting| memory.of_message(waiting.remaining(), limit)).sum()
    }

    /// Length of the next chunk of new data in bytes.
    pub(super) fn next_fragment(&self) -> u32 {
        self.queue.messages.front().map_or(0, |front| front.remaining().min(self.fragment_limit))
    }

    /// Begins the numbers of a stream anew (RFC 6525 section 5.2.7).
    pub(super) fn reset_stream(&mut self, stream: u16) {
        self.next_mid[usize::from(stream)] = 0;
        if let Some(next) = self.next_unordered_mid.get_mut(usize::from(stream)) {
            *next = 0;
        }
    }

    /// Records that no message which was refused is tried again: any room ends what counts as waiting.
    pub(super) fn await_no_message(&mut self) {
        self.awaited_room = self.awaited_room.map(|_| 1);
    }
}

/// The window for this occasion on a path with these bytes in flight, segment and congestion window.
#[inline(always)]
pub(super) fn limit_burst(max_burst: Option<u32>, in_flight: u32, segment: u32, cwnd: u32) -> u32 {
    match max_burst {
        Some(packets) => cwnd.min(in_flight.saturating_add(packets.saturating_mul(segment))),
        None => cwnd,
    }
}
