//! The two windows: what this end announces, what the peer announced, and how a closed one is probed (RFC
//! 9293 section 3.8.6).

use super::connection::{Connection, State};
use crate::time::{Duration, Time};
use crate::wire::tcp::Segment;

impl Connection {
    /// Bytes that the peer may send now.
    pub(super) fn receiver_window(&self) -> u64 {
        self.receiver.edge.saturating_sub(self.receiver.next)
    }

    /// The window field of the next segment. The window's right edge moves only if that gives the peer room
    /// worth using, and never back (RFC 9293 section 3.8.6.2.2).
    #[inline]
    pub(super) fn select_window(&mut self) -> u16 {
        let scale = self.receiver.window_scale;
        if let Some(window) = self.tuned_window() {
            // The window is a multiple of the scale.
            let before = self.receiver_window();
            let window = if window >= before { window } else { before.next_multiple_of(1 << scale) };
            self.receiver.edge = self.receiver.next + window;
            return (self.receiver_window() >> scale).min(65_535) as u16;
        }
        let buffer = self.parameters.receive_buffer;
        let largest = 65_535 << scale;
        let free = buffer.saturating_sub(self.receiver.unread).min(largest);
        let edge = self.receiver.next + (free >> scale << scale);
        let step = (buffer / 2).min(u64::from(self.mss));
        if edge >= self.receiver.edge + step {
            self.receiver.edge = edge;
        }
        (self.receiver_window() >> scale).min(65_535) as u16
    }

    /// The window that a buffer announces that tunes itself (Linux: `tcp_select_window`).
    #[inline]
    pub(super) fn tuned_window(&mut self) -> Option<u64> {
        let buffer = self.receiver.buffer.as_ref()?;
        match buffer.unfilled() {
            Some(window) if self.receiver.held() == 0 => Some(window),
            _ => self.tuned_window_of_filled(),
        }
    }

    #[inline(never)]
    fn tuned_window_of_filled(&mut self) -> Option<u64> {
        let (held, last) = (self.receiver.held(), self.last_window());
        let (size, scale) = (self.delayed_ack.segment_size, self.receiver.window_scale);
        let (window, is_short) = self.receiver.buffer.as_ref()?.window(held, size, last, scale);
        if is_short {
            self.delayed_ack.end_quick_mode();
        }
        Some(window)
    }

    /// The application reads again.
    pub(super) fn resume_reading(&mut self, now: Time) {
        self.receiver.is_paused = false;
        if self.receiver.unread > 0 {
            self.read(now);
        }
    }

    /// Gives the application what the last connection has left unread, even if it reads nothing for the time
    /// being: the next connection takes the place of the last one.
    pub(super) fn hand_over_unread(&mut self, now: Time) {
        if self.receiver.unread > 0 {
            self.deliver(now);
            if self.receiver.has_ended() {
                self.report_finished();
            }
        }
    }

    /// The application reads what waits, and the peer is told of the room if that has at least doubled
    /// (Linux: `tcp_cleanup_rbuf`).
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn read(&mut self, now: Time) {
        self.deliver(now);
        if self.receiver.has_ended() {
            self.report_finished();
        }
        let may_come = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        if !may_come && self.state != State::CloseWait {
            return;
        }
        let is_due = self.is_ack_due_to_reading();
        let is_update = !is_due && may_come && self.has_much_more_room();
        if is_due || is_update {
            self.stats.window_updates += u64::from(is_update);
            self.send_ack(now);
        }
    }

    /// Whether the window could be twice what the peer knows of.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    fn has_much_more_room(&mut self) -> bool {
        let before = self.receiver_window();
        let after = match self.tuned_window() {
            Some(window) => window,
            None => self.parameters.receive_buffer.min(65_535 << self.receiver.window_scale),
        };
        after > 0 && after >= 2 * before
    }

    /// Takes the window that a segment announces (RFC 9293 section 3.10.7.4). Whether it is another one.
    pub(super) fn update_window(
        &mut self,
        now: Time,
        segment: &Segment,
        start: u64,
        acknowledged: u64,
    ) -> bool {
        let window = self.offered_window(segment);
        let sender = &mut self.sender;
        let (by_start, by_ack) = sender.window_by;
        // Linux, tcp_may_update_window: newer by its acknowledgement, its number, or by what it offers; one
        // that is as new may only widen the window or close it.
        let is_newer = acknowledged > by_ack
            || start > by_start
            || (start == by_start && acknowledged == by_ack && (window > sender.window || window == 0));
        if !is_newer && acknowledged <= sender.unacknowledged {
            return false;
        }
        sender.window_by = (start, acknowledged);
        let has_changed = window != sender.window;
        sender.set_window(window);
        if has_changed && self.sender.has_unsent() && self.parameters.procedures.idle_ends_with_window {
            self.restart_after_idle(now);
        }
        has_changed
    }

    /// Starts the persist timer if no timer runs (RFC 9293 section 3.8.6.1; Linux: `tcp_check_probe_timer`).
    pub(super) fn start_persist_timer(&mut self, now: Time) {
        if self.timer.is_off() {
            let length = self.persist_period();
            let deadline = self.schedule(now, length);
            self.timer.start_persist(deadline);
        }
    }

    /// The retransmission timeout, doubled with every probe (Linux: `tcp_probe0_when`).
    fn persist_period(&self) -> Duration {
        let base = self.rtt.rto().max(self.parameters.rto_min);
        let factor = 1_u64 << self.timer.probes.min(20);
        (base * factor).min(self.parameters.rto_max)
    }

    /// The persist timer expires: as much as fits is sent, or else a probe (Linux: `tcp_write_wakeup`).
    #[cold]
    pub(super) fn on_persist_timer(&mut self, now: Time) {
        if !self.board.is_empty() || !self.sender.has_unsent() {
            self.timer.probes = 0;
            return;
        }
        self.timer.probes += 1;
        self.stats.window_probes += 1;
        let room = self.sender.window_end().saturating_sub(self.sender.next);
        let unsent = self.sender.unsent();
        if room > 0 {
            let length = unsent.min(room).min(u64::from(self.segment_limit()));
            if self.sender.marks.more_follows {
                // Linux, tcp_write_wakeup: it is pushed all the same.
                let end = self.sender.next + length;
                self.sender.marks.add(self.sender.unacknowledged, end, false);
            }
            self.send_fragment(now, length as u32);
            return;
        }
        self.send_window_probe(now);
        self.start_persist_timer(now);
    }

    /// An acknowledgement came while nothing was outstanding (Linux: `tcp_ack_probe`).
    #[inline]
    pub(super) fn on_probe_answered(&mut self, now: Time) {
        if !self.sender.has_unsent() || !self.timer.is_persist() {
            self.timer.probes = 0;
            return;
        }
        let length = self.sender.unsent().min(u64::from(self.segment_limit())).max(1);
        if self.sender.next + length <= self.sender.window_end() {
            self.timer.probes = 0;
            self.timer.stop();
        } else {
            let length = self.persist_period();
            let deadline = self.schedule(now, length);
            self.timer.start_persist(deadline);
        }
    }
}
