//! When received data is acknowledged (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2; Linux's
//! `__tcp_ack_snd_check`).
//!
//! Known deviation from Linux: the delay is `ack_delay`, 40 ms, where Linux's follows the pauses between
//! segments and grows with each acknowledgement that no data has carried (`icsk_ack.ato`).
//!
//! Known deviations from Linux where acknowledgements of a gap are held back: its timer may be 100 us late
//! (`tcp_comp_sack_slack_ns`), and is on an idle machine; and it sends what it holds back at once when a
//! segment belongs to none of the two latest blocks of SACK, without that segment (`tcp_sack_new_ofo_skb`,
//! `TCP_SACK_BLOCKS_EXPECTED`), which takes a third gap within that time.

use super::connection::Connection;
use super::parameters::{MIN_MSS, Parameters};
use crate::time::{Duration, Time};

/// This many duplicate acknowledgements are never held back (Linux: `TCP_FASTRETRANS_THRESH`).
const PROMPT_DUPLICATES: u32 = 3;
/// At most this many acknowledgements are held back (Linux: `net.ipv4.tcp_comp_sack_nr`).
const MOST_COMPRESSED: u32 = 44;

/// The state of delayed acknowledgements.
#[expect(clippy::struct_excessive_bools, reason = "flags that are independent of each other")]
#[derive(Debug)]
pub(super) struct DelayedAck {
    timer: Time,
    /// RCV.NXT in the last acknowledgement sent (RFC 7323: Last.ACK.sent).
    pub(super) acknowledged: u64,
    /// Whether something has arrived that has not been acknowledged.
    is_pending: bool,
    is_now: bool,
    out_of_order: bool,
    /// How many of the next acknowledgements are not delayed (Linux: `icsk_ack.quick`).
    quick: u32,
    /// Whether data goes both ways, so that acknowledgements travel with it (Linux: pingpong mode).
    is_interactive: bool,
    has_data: bool,
    last_data_at: Time,
    /// The size of the peer's segments (Linux: `icsk_ack.rcv_mss`).
    pub(super) segment_size: u32,
    max_segment_size: u32,
    /// The size of the last segment, if it was smaller than the others (Linux: `last_seg_size`).
    small_size: u32,
    /// Whether the sender seems to have no more for now, so that what arrived is acknowledged once the
    /// application has read all of it (Linux: `ICSK_ACK_PUSHED`, and `ICSK_ACK_PUSHED2` when small segments
    /// followed each other).
    pushed: bool,
    pushed_again: bool,
    /// Duplicate acknowledgements for `duplicates_of`: the number sent at once, then the number held back.
    duplicates: u32,
    duplicates_of: u64,
    compressed: u32,
    compressed_timer: Time,
}

impl Default for DelayedAck {
    fn default() -> Self {
        Self {
            timer: Time::NEVER,
            acknowledged: 0,
            is_pending: false,
            is_now: false,
            out_of_order: false,
            quick: 0,
            is_interactive: false,
            has_data: false,
            last_data_at: Time::ZERO,
            segment_size: 0,
            max_segment_size: 0,
            small_size: 0,
            pushed: false,
            pushed_again: false,
            duplicates: 0,
            duplicates_of: 0,
            compressed: 0,
            compressed_timer: Time::NEVER,
        }
    }
}

impl DelayedAck {
    /// The state of a connection that has acknowledged up to this number; a segment holds `mss` bytes at
    /// most.
    pub(super) fn new(acknowledged: u64, mss: u32) -> Self {
        // Linux, tcp_initialize_rcv_mss: TCP_MSS_DEFAULT until a larger one is seen.
        Self { acknowledged, segment_size: mss.min(536), max_segment_size: mss, ..Self::default() }
    }

    /// Whether something has arrived that has not been acknowledged.
    pub(super) const fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// The latest time for the next acknowledgement.
    #[inline]
    pub(super) fn timer(&self) -> Time {
        self.timer.min(self.compressed_timer)
    }

    pub(super) fn stop(&mut self) {
        (self.timer, self.compressed_timer) = (Time::NEVER, Time::NEVER);
        (self.is_pending, self.is_now) = (false, false);
        (self.pushed, self.pushed_again) = (false, false);
    }

    /// Notes that data has arrived (Linux: `tcp_event_data_recv`).
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn on_data(&mut self, parameters: &Parameters, now: Time, length: u32, window: u64) {
        self.is_pending = true;
        if length >= self.segment_size {
            self.segment_size = length.min(self.max_segment_size);
        }
        let pause = now.saturating_since(self.last_data_at);
        // With the first data, and with data after a long pause, the sender may be in slow start.
        if !self.has_data || pause > Duration::from_millis(200).max(parameters.rto_min) {
            self.raise_quick(window, parameters.quick_acks);
        }
        self.has_data = true;
        self.last_data_at = now;
    }

    /// Notes that data has arrived in order, with PSH or without (Linux: `tcp_measure_rcv_mss`, since 6.7).
    pub(super) fn record_push(&mut self, length: u32, has_push: bool) {
        let last = std::mem::take(&mut self.small_size);
        if length >= self.segment_size {
            self.pushed |= has_push;
            return;
        }
        // Linux: TCP_MSS_DEFAULT, and TCP_MIN_MSS for a segment that is not the last one of a write.
        if length >= 536 || (length >= MIN_MSS && !has_push) {
            self.small_size = length;
            if length == last {
                // Two segments of one size show the size of the sender's segments.
                self.segment_size = length;
                return;
            }
        }
        self.pushed_again |= self.pushed;
        self.pushed = true;
    }

    /// Has the segment that arrived acknowledged at once.
    pub(super) fn quicken(&mut self) {
        self.quick |= 1;
    }

    /// Notes that this end answers at once with data (Linux: pingpong mode).
    pub(super) fn answer_with_data(&mut self) {
        self.is_interactive = true;
    }

    /// Notes that the peer has finished: the application may answer with its own FIN (Linux: `tcp_fin`, which
    /// enters pingpong mode).
    pub(super) fn await_answer_to_fin(&mut self) {
        self.is_pending = true;
        self.is_interactive = true;
    }

    /// Notes that something has arrived that is to be acknowledged.
    pub(super) fn record_pending(&mut self) {
        self.is_pending = true;
    }

    pub(super) fn end_quick_mode(&mut self) {
        self.quick = 0;
    }

    /// Acknowledges the next segments at once, `most` of them at most, unless data goes both ways (Linux:
    /// `tcp_incr_quickack`).
    fn raise_quick(&mut self, window: u64, most: u32) {
        let segments = (window / (2 * u64::from(self.segment_size.max(1)))).max(2);
        let quick = segments.min(u64::from(most)) as u32;
        self.quick = self.quick.max(quick);
    }

    /// Acknowledges the next segments at once, `most` of them at most (Linux: `tcp_enter_quickack_mode`).
    pub(super) fn enter_quick_mode(&mut self, window: u64, most: u32) {
        self.raise_quick(window, most);
        self.is_interactive = false;
    }

    pub(super) fn on_out_of_order(&mut self) {
        self.is_pending = true;
        self.out_of_order = true;
    }

    pub(super) fn acknowledge_now(&mut self) {
        self.is_pending = true;
        self.is_now = true;
    }

    /// Notes that data is sent. It may be the answer to what has arrived within the delay of an
    /// acknowledgement, whether that has been acknowledged by itself or not (Linux: `tcp_event_data_sent`,
    /// with `net.ipv4.tcp_pingpong_thresh` at its 1).
    #[inline]
    pub(super) fn record_data_sent(&mut self, now: Time, delay: Duration) {
        self.is_interactive |= self.has_data && now < self.last_data_at + delay;
    }

    /// Notes that an acknowledgement has been sent, with data or without.
    fn on_sent(&mut self, next: u64) {
        if self.is_pending {
            self.quick = self.quick.saturating_sub(1);
        }
        self.acknowledged = next;
        self.is_pending = false;
        self.is_now = false;
        self.out_of_order = false;
        (self.pushed, self.pushed_again) = (false, false);
        self.timer = Time::NEVER;
        self.compressed = 0;
        self.compressed_timer = Time::NEVER;
    }
}

impl Connection {
    pub(super) fn record_ack_sent(&mut self) {
        self.delayed_ack.on_sent(self.receiver.next);
        self.ecn.record_ack_sent();
    }

    /// Acknowledges what has arrived, now or later.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, now: Time) {
        if !self.delayed_ack.is_pending {
            return;
        }
        let is_due = self.has_enough_to_acknowledge()
            && (self.receiver.unread == 0 || self.tuned_window() >= Some(self.last_window()));
        let ack = &self.delayed_ack;
        if is_due || self.is_push_due() || ack.is_now || (ack.quick > 0 && !ack.is_interactive) {
            return self.send_ack(now);
        }
        if ack.out_of_order || self.receiver.has_gaps() {
            return self.acknowledge_out_of_order(now);
        }
        if ack.timer.is_never() {
            // Linux: `icsk_ack.ato` is 0 before the first data, so that a FIN waits for the next tick only.
            let delay = if ack.has_data { self.parameters.ack_delay } else { Duration::from_nanos(1) };
            self.delayed_ack.timer = self.deadline(now, delay);
        }
    }

    /// Whether more than n - 1 full segments have arrived.
    fn has_enough_to_acknowledge(&self) -> bool {
        let ack = &self.delayed_ack;
        let fresh = self.receiver.next.saturating_sub(ack.acknowledged);
        fresh > u64::from(self.parameters.ack_every - 1) * u64::from(ack.segment_size)
    }

    /// Whether the application's reading causes what waits to be acknowledged (Linux: `tcp_cleanup_rbuf`).
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn is_ack_due_to_reading(&self) -> bool {
        self.parameters.procedures.reading_acknowledges
            && self.delayed_ack.is_pending
            && (self.has_enough_to_acknowledge() || self.is_push_due())
    }

    /// Whether the application has read all there is, and the sender seems to have no more for now (Linux:
    /// `tcp_cleanup_rbuf`).
    fn is_push_due(&self) -> bool {
        let ack = &self.delayed_ack;
        let is_pushed = ack.pushed_again || (ack.pushed && !ack.is_interactive);
        is_pushed && self.receiver.held() == 0
    }

    /// Acknowledges at once what shows a gap (RFC 5681 section 4.2); with compression, the later ones of many
    /// acknowledgements wait a little (Linux: `__tcp_ack_snd_check`).
    fn acknowledge_out_of_order(&mut self, now: Time) {
        let (next, delay) = (self.receiver.next, self.parameters.compressed_ack_delay);
        let ack = &mut self.delayed_ack;
        if delay.is_zero() || !self.has_sack || ack.compressed >= MOST_COMPRESSED {
            return self.send_ack(now);
        }
        if ack.duplicates_of != next {
            ack.duplicates_of = next;
            ack.duplicates = 0;
        }
        if ack.duplicates < PROMPT_DUPLICATES {
            ack.duplicates += 1;
            return self.send_ack(now);
        }
        ack.compressed += 1;
        if ack.compressed_timer.is_never() {
            // A twentieth of the round-trip time, or the limit if none has been measured.
            let srtt = self.rtt.srtt().map_or(u64::MAX, Duration::as_nanos);
            let delay = delay.min(Duration::from_nanos(srtt / 20));
            ack.compressed_timer = now + delay.max(Duration::from_nanos(1));
        }
    }

    pub(super) fn on_delayed_ack_timer(&mut self, now: Time) {
        if self.delayed_ack.is_pending {
            if self.delayed_ack.timer <= now {
                // Linux, tcp_delack_timer_handler: no answer came in time that could carry it.
                self.delayed_ack.is_interactive = false;
            }
            self.send_ack(now);
        } else {
            self.delayed_ack.stop();
        }
    }
}
