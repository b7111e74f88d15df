//! The receiving part of a stream (RFC 9000 section 3.2).

use super::errors::{Violation, code, violation};
use super::flow_control::{FlowControl, Window};
use super::ranges::Ranges;

/// The receiving part of a stream.
#[derive(Debug)]
pub(super) struct ReceiveStream {
    /// Everything before this has been delivered.
    pub(super) next: u64,
    /// What has arrived and has not been delivered.
    waiting: Ranges,
    /// The end of what has arrived furthest into the stream.
    pub(super) highest: u64,
    /// The size of the stream, once it is known (section 4.5).
    final_size: Option<u64>,
    /// What the peer has been told that it may send.
    offered: u64,
    window: Window,
    pub(super) end: End,
    /// The application wants nothing more of it: the code, and whether the peer has been told.
    pub(super) stopped: Option<u64>,
}

/// How far the end of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// The application has been told of the end.
    Told,
    /// The peer has given the stream up.
    Reset,
}

impl ReceiveStream {
    pub(super) fn new(window: Window) -> Self {
        Self {
            next: 0,
            waiting: Ranges::default(),
            highest: 0,
            final_size: None,
            offered: window.bytes,
            window,
            end: End::Open,
            stopped: None,
        }
    }

    /// Takes the data of a frame.
    pub(super) fn on_data(
        &mut self,
        position: u64,
        length: u64,
        fin: bool,
        flow: &mut FlowControl,
    ) -> Result<(), Violation> {
        let end = position + length;
        if self.end == End::Reset {
            return Ok(());
        }
        self.grow(end, fin, flow)?;
        if self.stopped.is_some() {
            self.discard(flow);
            return Ok(());
        }
        if end > self.next {
            self.waiting.insert(position.max(self.next), end);
        }
        Ok(())
    }

    /// The peer has given the stream up, which has this size (section 4.5).
    pub(super) fn on_reset(&mut self, final_size: u64, flow: &mut FlowControl) -> Result<(), Violation> {
        if self.end == End::Reset {
            return self.check_size(final_size, true);
        }
        self.grow(final_size, true, flow)?;
        if self.end == End::Open {
            self.end = End::Reset;
            self.discard(flow);
        }
        Ok(())
    }

    fn check_size(&self, end: u64, fin: bool) -> Result<(), Violation> {
        let is_other = match self.final_size {
            Some(size) => end > size || (fin && end != size),
            None => fin && end < self.highest,
        };
        if is_other {
            return Err(violation(code::FINAL_SIZE_ERROR, "the size of a stream has changed"));
        }
        Ok(())
    }

    /// The stream reaches at least up to there (sections 4.1 and 4.5).
    fn grow(&mut self, end: u64, fin: bool, flow: &mut FlowControl) -> Result<(), Violation> {
        self.check_size(end, fin)?;
        if end > self.offered {
            return Err(violation(code::FLOW_CONTROL_ERROR, "more data came than the stream may have"));
        }
        if fin {
            self.final_size = Some(end);
        }
        if end > self.highest {
            flow.on_received(end - self.highest)?;
            self.highest = end;
        }
        Ok(())
    }

    /// Nobody will read what has come.
    fn discard(&mut self, flow: &mut FlowControl) {
        self.waiting.clear();
        flow.consumed += self.highest - self.next;
        self.next = self.highest;
    }

    /// The application wants nothing more.
    pub(super) fn stop(&mut self, code: u64, flow: &mut FlowControl) {
        self.stopped = Some(code);
        self.discard(flow);
    }

    /// The next run to deliver, which from now on counts as delivered: its position and its length.
    pub(super) fn deliver(&mut self, flow: &mut FlowControl) -> Option<(u64, u64)> {
        let (start, end) = self.waiting.first().filter(|run| run.0 == self.next)?;
        self.waiting.pop_first();
        self.next = end;
        flow.consumed += end - start;
        Some((start, end - start))
    }

    /// Whether the stream ends there.
    pub(super) fn ends_at(&self, position: u64) -> bool {
        self.final_size == Some(position)
    }

    /// Whether all of it has been delivered, and the application is to be told of the end, which it has been
    /// afterwards.
    pub(super) fn take_end(&mut self) -> bool {
        let ends = self.end == End::Open && self.final_size == Some(self.next);
        if ends {
            self.end = End::Told;
        }
        ends
    }

    /// Whether a `MAX_STREAM_DATA` frame is due (section 4.2); not once the size is known (section 19.10).
    pub(super) const fn wants_update(&self) -> bool {
        self.final_size.is_none()
            && self.stopped.is_none()
            && self.window.wants_update(self.offered, self.next)
    }

    /// The limit of a `MAX_STREAM_DATA` frame that is sent now.
    pub(super) fn offer(&mut self) -> u64 {
        self.offered = self.offered.max(self.next + self.window.bytes);
        self.offered
    }

    /// Whether the peer's frames about it mean nothing more (section 3.2: "Data Recvd" and later).
    pub(super) const fn is_done(&self) -> bool {
        !matches!(self.end, End::Open)
    }

    pub(super) const fn has_final_size(&self) -> bool {
        self.final_size.is_some()
    }

    /// What waits for earlier data, or for the application.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.waiting.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn halves(bytes: u64) -> Window {
        Window { bytes, parts: 2 }
    }

    #[test]
    fn data_is_delivered_once_and_in_order() {
        let mut flow = FlowControl::new(halves(10_000));
        let mut stream = ReceiveStream::new(halves(5_000));
        stream.on_data(1_000, 500, true, &mut flow).unwrap();
        assert_eq!(stream.deliver(&mut flow), None);
        stream.on_data(0, 600, false, &mut flow).unwrap();
        assert_eq!(stream.deliver(&mut flow), Some((0, 600)));
        stream.on_data(300, 900, false, &mut flow).unwrap();
        assert_eq!(stream.deliver(&mut flow), Some((600, 900)));
        assert!(stream.take_end() && !stream.take_end() && stream.is_done());
        assert_eq!((flow.received(), flow.consumed), (1_500, 1_500));
    }

    /// RFC 9000 section 4.5.
    #[test]
    fn the_size_of_a_stream_does_not_change() {
        let fresh = || (FlowControl::new(halves(10_000)), ReceiveStream::new(halves(5_000)));
        let (mut flow, mut stream) = fresh();
        stream.on_data(0, 500, true, &mut flow).unwrap();
        let error = Err(violation(code::FINAL_SIZE_ERROR, "the size of a stream has changed"));
        assert_eq!(stream.on_data(0, 501, false, &mut flow), error);
        assert_eq!(stream.on_data(0, 499, true, &mut flow), error);
        assert_eq!(stream.on_reset(499, &mut flow), error);
        assert_eq!(stream.on_data(0, 500, true, &mut flow), Ok(()));
        let (mut flow, mut stream) = fresh();
        stream.on_data(0, 500, false, &mut flow).unwrap();
        assert_eq!(stream.on_reset(400, &mut flow), error);
        assert_eq!(stream.on_reset(700, &mut flow), Ok(()));
        assert_eq!(stream.on_reset(701, &mut flow), error);
        // What was lost on the way counts for the connection, too.
        assert_eq!((flow.received(), flow.consumed), (700, 700));
    }

    /// RFC 9000 section 4.1.
    #[test]
    fn limits_are_kept_and_moved() {
        let mut flow = FlowControl::new(halves(3_000));
        let mut stream = ReceiveStream::new(halves(2_000));
        let error = stream.on_data(1_500, 501, false, &mut flow).unwrap_err();
        assert_eq!(error.code, code::FLOW_CONTROL_ERROR);
        let mut flow = FlowControl::new(halves(3_000));
        let mut stream = ReceiveStream::new(halves(2_000));
        stream.on_data(0, 1_001, false, &mut flow).unwrap();
        assert!(!stream.wants_update(), "nothing has been read");
        stream.deliver(&mut flow).unwrap();
        assert!(stream.wants_update() && !flow.wants_update());
        assert_eq!(stream.offer(), 3_001);
        let mut other = ReceiveStream::new(halves(2_000));
        other.on_data(0, 1_999, false, &mut flow).unwrap();
        let error = other.on_data(1_999, 1, false, &mut flow).unwrap_err();
        assert_eq!(error.code, code::FLOW_CONTROL_ERROR);
        other.deliver(&mut flow).unwrap();
        assert!(flow.wants_update());
        assert_eq!(flow.offer(), 6_000);
    }
}
