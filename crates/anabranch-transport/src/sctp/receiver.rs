//! The receiving half of an association: the TSNs that have arrived, what waits to be delivered, and the SACK
//! that is due.

use super::delayed_sack::DelayedSack;
use super::interleaving::Interleaved;
use super::parameters::Parameters;
use super::reassembly::Reassembly;
use super::received_tsns::ReceivedTsns;
use crate::endpoint::HeadOfLine;
use crate::ground::Payload;

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
    pub(super) interleaved: Interleaved,
    pub(super) delayed_sack: DelayedSack,
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

    /// The fragments and messages that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Payload> {
        self.reassembly.waiting().chain(self.interleaved.waiting())
    }

    /// The data that waits above a gap. For unordered messages, only incomplete ones wait.
    pub(super) fn head_of_line(&self) -> Option<HeadOfLine> {
        let waiting = self.reassembly.bytes;
        let missing = u64::from((self.received.cumulative + 1) as u32);
        (waiting > 0 && self.received.has_gaps()).then_some(HeadOfLine { waiting, missing })
    }
}
