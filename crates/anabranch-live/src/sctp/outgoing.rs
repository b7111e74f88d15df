//! The bytes of messages that may have to be sent, or sent again.

use std::collections::VecDeque;

use anabranch_transport::endpoint::Endpoint;
use anabranch_transport::ground::Payload;

/// So much is forgotten only with what comes after, in bytes: looking for it costs time.
const LEAST_SWEPT: usize = 256 * 1024;

/// Messages by their offset in the stream of all that the application has handed over.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    messages: VecDeque<Kept>,
    /// Bytes of them.
    bytes: usize,
    /// So many bytes are kept before it is asked what of them is still needed.
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

impl Outgoing {
    /// Keeps a message.
    pub(super) fn push(&mut self, bytes: Vec<u8>) -> Payload {
        let payload = Payload { offset: self.next, length: bytes.len() as u32 };
        self.next += bytes.len() as u64;
        self.bytes += bytes.len();
        self.messages.push_back(Kept { offset: payload.offset, bytes, is_needed: false });
        payload
    }

    /// Gives back the message that was kept last.
    pub(super) fn take_back(&mut self) -> Vec<u8> {
        let kept = self.messages.pop_back().expect("it was kept just now");
        self.next = kept.offset;
        self.bytes -= kept.bytes.len();
        kept.bytes
    }

    /// Appends the bytes of a message or of a part of it.
    pub(super) fn read(&self, payload: Payload, out: &mut Vec<u8>) {
        let kept = &self.messages[self.position(payload.offset).expect("what may be sent is kept")];
        let start = (payload.offset - kept.offset) as usize;
        out.extend_from_slice(&kept.bytes[start..start + payload.length as usize]);
    }

    /// Forgets what the endpoint needs no longer, now and then.
    pub(super) fn sweep(&mut self, end: &impl Endpoint) {
        if self.bytes < self.sweep_at.max(LEAST_SWEPT) {
            return;
        }
        end.payloads_to_send(&mut |payload| {
            if let Some(position) = self.position(payload.offset) {
                self.messages[position].is_needed = true;
            }
        });
        self.messages.retain_mut(|kept| std::mem::take(&mut kept.is_needed));
        self.bytes = self.messages.iter().map(|kept| kept.bytes.len()).sum();
        self.sweep_at = 2 * self.bytes;
    }

    /// The position of the message in which this byte is.
    fn position(&self, offset: u64) -> Option<usize> {
        let after = self.messages.partition_point(|kept| kept.offset <= offset);
        let position = after.checked_sub(1)?;
        let kept = &self.messages[position];
        (offset - kept.offset < kept.bytes.len() as u64).then_some(position)
    }
}
