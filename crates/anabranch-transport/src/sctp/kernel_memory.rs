//! The memory that Linux charges to the send buffer on top of a message's bytes, for each of its DATA chunks
//! (`sctp_set_owner_w`). The default of 212,992 bytes holds 139 messages of 500 bytes, not 425.
//!
//! Source: Linux 6.12, `net/sctp/socket.c` and `net/core/skbuff.c` on x86-64 as distributions configure it.
//! Known deviation: data given up is charged no longer at once, not when the cumulative TSN passes it.

/// Header of a DATA chunk, which lies in the same memory as its data (`_sctp_make_chunk`).
const CHUNK_HEADER_BYTES: u64 = 16;
/// `SMP_CACHE_BYTES`: data takes up whole cache lines.
const CACHE_LINE_BYTES: u64 = 64;
/// `struct skb_shared_info` after the data.
const SHARED_INFO_BYTES: u64 = 320;
/// The smallest piece of memory that holds packet data (`SKB_SMALL_HEAD_CACHE_SIZE`).
const SMALL_HEAD_BYTES: u64 = 704;
/// `struct sk_buff` in whole cache lines, and `struct sctp_chunk`.
const DESCRIPTORS_BYTES: u64 = 256 + 256;

/// The memory that chunks take in the send buffer besides the bytes of their data.
#[derive(Debug, Default)]
pub(super) struct KernelMemory {
    is_charged: bool,
    /// The memory in bytes; 0 if it is not charged.
    pub(super) overhead: u64,
}

impl KernelMemory {
    /// The profile linux charges it.
    pub(super) const fn new(is_charged: bool) -> Self {
        Self { is_charged, overhead: 0 }
    }

    pub(super) const fn is_charged(&self) -> bool {
        self.is_charged
    }

    /// Charges a message of `length` bytes that is handed over, which leaves in chunks of up to
    /// `fragment_limit` bytes.
    #[inline(always)]
    pub(super) fn charge_message(&mut self, length: u32, fragment_limit: u32) {
        if self.is_charged {
            self.overhead += self.of_message(length, fragment_limit);
        }
    }

    /// Releases a message, or the rest of one, that is not sent.
    pub(super) fn release_message(&mut self, length: u32, fragment_limit: u32) {
        self.overhead -= self.of_message(length, fragment_limit);
    }

    /// Releases a chunk that has been acknowledged or given up.
    #[inline(always)]
    pub(super) fn release_chunk(&mut self, length: u32) {
        if self.is_charged {
            self.overhead -= overhead_of_chunk(length);
        }
    }

    /// The memory that a message takes.
    #[cold]
    pub(super) fn of_message(&self, length: u32, fragment_limit: u32) -> u64 {
        if !self.is_charged {
            return 0;
        }
        let last = length % fragment_limit;
        let whole = u64::from(length / fragment_limit) * overhead_of_chunk(fragment_limit);
        whole + if last > 0 { overhead_of_chunk(last) } else { 0 }
    }
}

/// `sk_buff::truesize` and `sizeof(struct sctp_chunk)`, less the data (`kmalloc_reserve`).
#[cold]
fn overhead_of_chunk(length: u32) -> u64 {
    let data =
        (u64::from(length) + CHUNK_HEADER_BYTES).next_multiple_of(CACHE_LINE_BYTES) + SHARED_INFO_BYTES;
    let head = if data <= SMALL_HEAD_BYTES { SMALL_HEAD_BYTES } else { data.next_power_of_two() };
    head + DESCRIPTORS_BYTES - u64::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_a_power_of_two_and_its_descriptors() {
        let memory = |length: u32| u64::from(length) + overhead_of_chunk(length);
        let expected = [
            (1, 1_216),
            (368, 1_216),
            (369, 1_536),
            (500, 1_536),
            (688, 1_536),
            (689, 2_560),
            (1_452, 2_560),
        ];
        for (length, bytes) in expected {
            assert_eq!(memory(length), bytes, "{length}");
        }
    }

    #[test]
    fn a_message_is_charged_by_chunk() {
        let memory = KernelMemory::new(true);
        assert_eq!(memory.of_message(3_000, 1_452), 2 * overhead_of_chunk(1_452) + overhead_of_chunk(96));
        assert_eq!(memory.of_message(2_904, 1_452), 2 * overhead_of_chunk(1_452));
        assert_eq!(KernelMemory::new(false).of_message(3_000, 1_452), 0);
    }
}
