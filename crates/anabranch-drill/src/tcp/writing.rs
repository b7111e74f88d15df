//! Writing: how much of what an application hands over Linux takes at once, and what of it is pushed.
//!
//! The kernel copies into packets of many segments and asks for memory only when it begins another one, so
//! that a write may exceed the send buffer by a packet (`tcp_sendmsg_locked`). The endpoint counts bytes;
//! what a packet takes besides its data is an estimate here.

use anabranch_transport::time::Time;

use super::connection::Connection;
use super::events::WRITABLE;

/// Kernel memory that a packet of one segment takes at most: a power of two with its data, headers
/// (`MAX_TCP_HEADER`) and `skb_shared_info`, and an `sk_buff`, in bytes.
fn packet_memory(mss: u32) -> u64 {
    u64::from((mss + 320 + 320).next_power_of_two() + 256)
}

/// The kernel memory of a packet besides its data, in bytes (`struct sk_buff`, its head and fragments).
const PACKET_OVERHEAD: u64 = 1_280;
/// Bytes of data in the largest packet (`GSO_LEGACY_MAX_SIZE` less the largest header).
const LARGEST_PACKET: u64 = 65_535 - 320;

/// The limits on how much of a write is accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// `sk_sndbuf`, in bytes of kernel memory.
    pub(super) send_buffer: u64,
    /// How far it follows the congestion window: 0 if the application has set it (`SOCK_SNDBUF_LOCK`).
    pub(super) grows_to: u64,
    /// No data is accepted while this many bytes have not been sent (`TCP_NOTSENT_LOWAT`).
    pub(super) unsent: u64,
}

/// The options of a write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// Whether more data follows (`MSG_MORE`).
    pub(super) more: bool,
    /// Whether the write ends a record (`MSG_EOR`).
    pub(super) is_record: bool,
}

/// The start of the packet that is being filled, and the end of pushed data, as positions in the stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    tail: u64,
    pushed: u64,
}

impl Connection {
    /// Bytes of data in a packet that is being filled (`tcp_xmit_size_goal`).
    fn packet_size(&self) -> u64 {
        let info = self.end.info();
        let mss = u64::from(info.send_mss);
        (LARGEST_PACKET.min(info.largest_window / 2) / mss * mss).max(mss)
    }

    /// Kernel memory that is in use (`sk_wmem_queued`).
    fn memory(&self) -> u64 {
        let info = self.end.info();
        let burst = u64::from(info.send_mss) * u64::from((info.cwnd / 2).max(1));
        let sent = info.unacknowledged.saturating_sub(info.unsent);
        let packets = sent.div_ceil(burst) + info.unsent.div_ceil(self.packet_size());
        info.unacknowledged + packets * PACKET_OVERHEAD
    }

    /// Whether another packet may be started (`sk_stream_memory_free`).
    fn has_memory(&self) -> bool {
        self.memory() < self.limits.send_buffer && self.end.info().unsent < self.limits.unsent
    }

    /// Whether a waiting writer is woken: a third of the buffer is free, and not half of what may be unsent
    /// is (`__sk_stream_is_writeable`).
    pub(super) fn is_writable(&self) -> bool {
        let memory = self.memory();
        self.limits.send_buffer.saturating_sub(memory) >= memory / 2
            && 2 * self.end.info().unsent < self.limits.unsent
    }

    /// Makes the send buffer large enough for two congestion windows (`tcp_sndbuf_expand`).
    pub(super) fn expand_send_buffer(&mut self) {
        let info = self.end.info();
        // The peer's MSS is without options.
        let mss = info.send_mss + if info.timestamps { 12 } else { 0 };
        let segments = info.cwnd.max(10).max(info.reordering + 1);
        let wanted = 2 * u64::from(segments) * packet_memory(mss);
        self.limits.send_buffer = self.limits.send_buffer.max(wanted.min(self.limits.grows_to));
    }

    /// A packet has arrived, and a writer or a poll has found no room before (`SOCK_NOSPACE`): the buffer
    /// grows unless the congestion window is full, and the writer is woken if there is room
    /// (`tcp_check_space`).
    pub(super) fn check_space(&mut self) {
        if !self.lacks_space {
            return;
        }
        let info = self.end.info();
        let in_flight = info.outstanding + info.retransmitted - info.sacked - info.lost;
        if in_flight < info.cwnd {
            self.expand_send_buffer();
        }
        if self.is_writable() {
            self.lacks_space = false;
            self.woken |= WRITABLE;
        }
    }

    /// Takes as many bytes as there is room for, and returns how many.
    pub(super) fn write_some(&mut self, now: Time, length: u64, manner: Manner) -> u64 {
        let mut taken = 0;
        while taken < length {
            let (size, info) = (self.packet_size(), self.end.info());
            let begins = self.progress.tail.max(self.written - info.unsent);
            let filled = self.written - begins;
            let mut room = size.saturating_sub(filled);
            if filled == 0 || room == 0 {
                if !self.has_memory() {
                    break;
                }
                (self.progress.tail, room) = (self.written, size);
            } else {
                self.end.extend_buffer();
            }
            let part = room.min(length - taken);
            if part == room {
                self.end.end_buffer(part);
            }
            let is_end = taken + part == length;
            self.end.set_more(!is_end || manner.more);
            if is_end && manner.is_record {
                self.end.end_record(part);
                self.progress.tail = self.written + part;
            }
            // `forced_push`: a piece that fills half of the largest window.
            let is_forced = self.written + part > self.progress.pushed + info.largest_window / 2;
            if !is_end && is_forced {
                self.end.mark_push(part);
            }
            if is_forced || (is_end && !manner.more) {
                self.progress.pushed = self.written + part;
            }
            let done = self.write(now, part);
            self.end.end_write();
            taken += done;
            if done < part {
                break;
            }
        }
        taken
    }
}
