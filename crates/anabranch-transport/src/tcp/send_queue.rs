//! The memory of a subflow's send queue, where data waits for the congestion window as in Linux: data is
//! handed to a subflow while its queue has memory, and the memory follows the congestion window
//! (`tcp_sndbuf_expand`).
//!
//! Known deviations: a packet in flight is taken for as large as packets are now; a piece that waits shares
//! its packet's memory with those before it.

use super::connection::Connection;
use crate::cc;

/// Memory of a packet besides its data (Linux: `tcp_stream_alloc_skb`, an `sk_buff` of 256 B, a
/// `skb_shared_info` of 320 B and the smallest head that holds `MAX_TCP_HEADER`, 384 B).
const PACKET_BYTES: u64 = 960;
/// Bytes of data in a packet that waits (Linux: `MPTCP_MAX_GSO_SIZE`, 64 KiB less `MAX_TCP_HEADER` and one).
const WAITING_PACKET_BYTES: u64 = 65_536 - 257;
/// The fewest segments that the memory is for (Linux: `TCP_INIT_CWND`).
const LEAST_SEGMENTS: u32 = 10;
/// Congestion windows that the memory is for (Linux: `tcp_sndbuf_expand`, for BBR `bbr_sndbuf_expand`).
const WINDOWS: u64 = 2;
const WINDOWS_OF_BBR: u64 = 3;

/// The memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendQueue {
    limit: u64,
    /// What it may grow to.
    most: u64,
}

impl SendQueue {
    /// A queue with this much memory from the beginning.
    pub(crate) const fn fixed(memory: u64) -> Self {
        Self { limit: memory, most: memory }
    }

    /// A queue whose memory follows the congestion window, up to this much.
    pub(crate) const fn growing(most: u64) -> Self {
        Self { limit: 0, most }
    }

    /// Whether its memory follows the congestion window, which it has reached this much of.
    pub(crate) const fn grows(&self) -> bool {
        self.limit < self.most
    }
}

impl Connection {
    /// The memory that the send queue has at least, by its congestion window: each segment may be a packet.
    fn memory_for_window(&self) -> u64 {
        // The largest segment with MAX_TCP_HEADER and skb_shared_info, and an sk_buff.
        let of_segment = u64::from((self.mss + 256 + 320).next_power_of_two() + 256);
        let segments = self.cwnd().max(LEAST_SEGMENTS).max(self.recovery.reordering + 1);
        let windows = if matches!(self.parameters.cc, cc::Config::Bbr(_)) { WINDOWS_OF_BBR } else { WINDOWS };
        windows * u64::from(segments) * of_segment
    }

    /// Gives the queue of a new connection its first memory (Linux: `tcp_init_buffer_space`).
    pub(super) fn begin_send_queue(&mut self) {
        let least = self.memory_for_window();
        if let Some(queue) = &mut self.send_queue
            && queue.limit < queue.most
        {
            queue.limit = least.min(queue.most);
        }
    }

    /// The application waits for room, and an acknowledgement has been handled: the memory follows the
    /// congestion window if that is not full (Linux: `tcp_new_space`). Gives whether there is more of it.
    pub(crate) fn grow_send_queue(&mut self) -> bool {
        let Some(queue) = self.send_queue.filter(|queue| queue.limit < queue.most) else { return false };
        if self.board.in_flight() >= self.cwnd() {
            return false;
        }
        let limit = self.memory_for_window().min(queue.most);
        if limit > queue.limit {
            self.send_queue = Some(SendQueue { limit, ..queue });
        }
        limit > queue.limit
    }

    /// The memory of the send queue in bytes, if data waits there.
    pub(crate) fn send_memory(&self) -> Option<u64> {
        self.send_queue.map(|queue| queue.limit)
    }

    /// The memory of the data that waits in the send queue or is on its way, if there is such a queue.
    pub(crate) fn queued(&self) -> Option<u64> {
        self.send_queue.map(|_| self.queued_memory())
    }

    /// The memory that data takes until it is acknowledged.
    pub(crate) fn queued_memory(&self) -> u64 {
        let data = self.sender.written + 1 - self.sender.unacknowledged.clamp(1, self.sender.written + 1);
        let largest = self.largest_burst(self.cwnd()).of(self);
        let packets = u64::from(self.board.len().div_ceil(largest))
            + self.sender.unsent().div_ceil(WAITING_PACKET_BYTES);
        data + packets * PACKET_BYTES
    }
}
