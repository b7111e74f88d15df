//! The bytes of a peer's stream that have arrived and have not been delivered.

use std::collections::VecDeque;

use anabranch_transport::ground::Payload;

/// Bytes by their position in the stream, from the first one that has not been delivered. Which of them have
/// arrived the endpoint knows: what lies in gaps means nothing.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    first: u64,
    bytes: VecDeque<u8>,
}

impl Incoming {
    /// Keeps bytes that the endpoint has taken. Those that were delivered before, and those that lie `most`
    /// behind them or farther, are left out: no endpoint offers a window so wide.
    pub(super) fn put(&mut self, position: u64, bytes: &[u8], most: u64) {
        let known = self.first.saturating_sub(position).min(bytes.len() as u64) as usize;
        let bytes = &bytes[known..];
        let start = position.max(self.first) - self.first;
        if bytes.is_empty() || start.saturating_add(bytes.len() as u64) > most {
            return;
        }
        let (start, end) = (start as usize, start as usize + bytes.len());
        if start == self.bytes.len() {
            self.bytes.extend(bytes);
            return;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let (front, back) = self.bytes.as_mut_slices();
        let split = front.len();
        let in_front = end.min(split).saturating_sub(start);
        if in_front > 0 {
            front[start..start + in_front].copy_from_slice(&bytes[..in_front]);
        }
        if in_front < bytes.len() {
            let from = (start + in_front) - split;
            back[from..from + bytes.len() - in_front].copy_from_slice(&bytes[in_front..]);
        }
    }

    /// The next bytes of the stream, which are delivered; none where they are not those.
    pub(super) fn take(&mut self, payload: Payload) -> Option<Vec<u8>> {
        let length = payload.length as usize;
        if payload.offset != self.first || length > self.bytes.len() {
            return None;
        }
        self.first += u64::from(payload.length);
        Some(self.bytes.drain(..length).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_in_any_order_and_leave_in_that_of_the_stream() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let mut incoming = Incoming::default();
        let put = |incoming: &mut Incoming, from: usize, to: usize| {
            incoming.put(from as u64, &bytes[from..to], 8_000);
        };
        put(&mut incoming, 3_000, 5_000);
        put(&mut incoming, 0, 1_500);
        let payload = |offset, length| Payload { offset, length };
        assert_eq!(incoming.take(payload(0, 1_000)).as_deref(), Some(&bytes[..1_000]));
        // Delivered before, overlapping, and around the end of what is allocated.
        put(&mut incoming, 500, 3_100);
        put(&mut incoming, 4_000, 8_500);
        put(&mut incoming, 900, 950);
        assert_eq!(incoming.take(payload(1_000, 7_500)).as_deref(), Some(&bytes[1_000..8_500]));
        put(&mut incoming, 8_500, 10_000);
        assert_eq!(incoming.take(payload(8_500, 1_500)).as_deref(), Some(&bytes[8_500..]));
        assert_eq!(incoming.take(payload(10_000, 1)), None);
    }

    #[test]
    fn what_lies_too_far_ahead_costs_nothing() {
        let mut incoming = Incoming::default();
        incoming.put(1 << 40, &[1; 1_000], 65_536);
        incoming.put(u64::MAX - 10, &[1; 5], 65_536);
        incoming.put(65_000, &[1; 1_000], 65_536);
        assert_eq!(incoming.bytes.len(), 0);
    }
}
