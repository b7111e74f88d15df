//! The bytes of messages, or of a stream, that may still have to be sent, or sent again.

use std::collections::VecDeque;

use anabranch_transport::endpoint::Keeper;
use anabranch_transport::flow::Payload;

/// With fewer bytes, there is no search for those that are no longer needed, as it costs time.
const LEAST_SWEPT: usize = 256 * 1024;
/// The most bytes in a piece; data that is written to a stream is kept in pieces, each of which is forgotten
/// as a whole.
const MOST_IN_PIECE: usize = 32 * 1024;

/// Messages, or pieces of a stream, by their offset in the stream of all that the application has handed
/// over.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    messages: VecDeque<Kept>,
    /// Number of bytes in them.
    bytes: usize,
    /// The number of kept bytes at which those no longer needed are searched for.
    sweep_at: usize,
    /// Where the next message begins.
    next: u64,
}

#[derive(Debug)]
struct Kept {
    offset: u64,
    bytes: Vec<u8>,
    is_needed: bool,
}

impl Kept {
    /// The position after the last byte.
    const fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl Outgoing {
    /// Keeps a message.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) -> Payload {
        let payload = Payload { offset: self.next, length: bytes.len() as u32 };
        self.next += bytes.len() as u64;
        self.bytes += bytes.len();
        self.messages.push_back(Kept { offset: payload.offset, bytes, is_needed: false });
        payload
    }

    /// Keeps the next bytes of a stream.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Payload {
        let payload = Payload { offset: self.next, length: bytes.len() as u32 };
        let mut rest = bytes;
        if let Some(last) = self.messages.back_mut().filter(|last| last.end() == self.next) {
            let (more, behind) =
                rest.split_at(rest.len().min(MOST_IN_PIECE.saturating_sub(last.bytes.len())));
            last.bytes.extend_from_slice(more);
            rest = behind;
        }
        self.next += (bytes.len() - rest.len()) as u64;
        self.bytes += bytes.len() - rest.len();
        for piece in rest.chunks(MOST_IN_PIECE) {
            self.push(piece.to_vec());
        }
        payload
    }

    /// Removes the last `bytes` bytes of a stream, which were not taken.
    pub(crate) fn cut(&mut self, bytes: u32) {
        self.next -= u64::from(bytes);
        self.bytes -= bytes as usize;
        while let Some(last) = self.messages.back_mut()
            && last.end() > self.next
        {
            last.bytes.truncate(self.next.saturating_sub(last.offset) as usize);
            if last.bytes.is_empty() {
                self.messages.pop_back();
            }
        }
    }

    /// Gives back the message that was kept last.
    pub(crate) fn take_back(&mut self) -> Vec<u8> {
        let kept = self.messages.pop_back().expect("it was kept just now");
        self.next = kept.offset;
        self.bytes -= kept.bytes.len();
        kept.bytes
    }

    /// Appends the bytes of a message or of a part of it, or of a part of a stream.
    pub(crate) fn read(&self, payload: Payload, out: &mut Vec<u8>) {
        let Payload { mut offset, length } = payload;
        let end = offset + u64::from(length);
        while offset < end {
            let kept = &self.messages[self.position(offset).expect("what may be sent is kept")];
            let until = end.min(kept.end());
            out.extend_from_slice(
                &kept.bytes[(offset - kept.offset) as usize..(until - kept.offset) as usize],
            );
            offset = until;
        }
    }

    /// Forgets whole messages or pieces before this position.
    #[cfg(feature = "quic")]
    pub(crate) fn forget_before(&mut self, position: u64) {
        while let Some(first) = self.messages.front().filter(|first| first.end() <= position) {
            self.bytes -= first.bytes.len();
            self.messages.pop_front();
        }
    }

    /// Forgets, now and then, what the endpoint no longer needs.
    pub(crate) fn sweep(&mut self, end: &impl Keeper) {
        if self.bytes < self.sweep_at.max(LEAST_SWEPT) {
            return;
        }
        end.payloads_to_send(&mut |payload| {
            let end = payload.offset + u64::from(payload.length);
            let first = self.position(payload.offset).unwrap_or(self.messages.len());
            let needed = self.messages.iter_mut().skip(first).take_while(|kept| kept.offset < end);
            needed.for_each(|kept| kept.is_needed = true);
        });
        self.messages.retain_mut(|kept| std::mem::take(&mut kept.is_needed));
        self.bytes = self.messages.iter().map(|kept| kept.bytes.len()).sum();
        self.sweep_at = 2 * self.bytes;
    }

    /// The position of the message that contains this byte.
    fn position(&self, offset: u64) -> Option<usize> {
        let after = self.messages.partition_point(|kept| kept.offset <= offset);
        let position = after.checked_sub(1)?;
        let kept = &self.messages[position];
        (offset - kept.offset < kept.bytes.len() as u64).then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(outgoing: &Outgoing, offset: u64, length: u32) -> Vec<u8> {
        let mut out = Vec::new();
        outgoing.read(Payload { offset, length }, &mut out);
        out
    }

    #[test]
    fn a_stream_is_kept_in_pieces_and_read_across_them() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let mut outgoing = Outgoing::default();
        for part in bytes.chunks(7_001) {
            outgoing.append(part);
        }
        assert_eq!(outgoing.messages.len(), bytes.len().div_ceil(MOST_IN_PIECE));
        assert_eq!(read(&outgoing, 0, 100_000), bytes);
        assert_eq!(read(&outgoing, 32_760, 40_000), bytes[32_760..72_760]);
        outgoing.cut(60_000);
        assert_eq!((outgoing.next, outgoing.bytes), (40_000, 40_000));
        assert_eq!(outgoing.append(&bytes[40_000..]), Payload { offset: 40_000, length: 60_000 });
        assert_eq!(read(&outgoing, 0, 100_000), bytes);
    }
}
