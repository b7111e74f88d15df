//! Header prediction: a short way for the two segments that a transfer consists of while nothing goes wrong,
//! data in order for an end that only receives and an acknowledgement of data for an end that only sends (V.
//! Jacobson, "4BSD header prediction", CCR 20(1), 1990; Linux: `tcp_rcv_established`).
//!
//! What TCP does is said in [`Connection::on_segment_synchronised`] and what it calls. For a segment that is
//! predicted, this does the same and leaves out what would find nothing to do; `properties.rs` compares the
//! two.

use super::acknowledgement::Report;
use super::connection::{Connection, State};
#[cfg(test)]
use super::prediction_switch::predicts as is_on;
use super::recovery::CongestionState;
use super::send::Push;
use crate::cc::Cumulative;
use crate::recovery::rate_sample::OpenSample;
use crate::time::Time;
use crate::wire::tcp::{Flags, Segment};

/// Whether segments are predicted, which changes nothing; tests compare with the long way.
#[cfg(not(test))]
const fn is_on() -> bool {
    true
}

impl Connection {
    /// Takes a segment that is predicted. Returns whether it was; if not, nothing has been done.
    #[inline]
    pub(super) fn take_predicted(&mut self, now: Time, segment: &Segment) -> bool {
        is_on()
            && self.is_predicted(segment)
            && if segment.payload.length > 0 {
                self.take_predicted_data(now, segment)
            } else {
                self.take_predicted_acknowledgement(now, segment)
            }
    }

    /// Whether the header of a segment is that of the next one in order, with nothing besides its
    /// acknowledgement and its data, of a connection in which nothing is under way but one of the two.
    #[inline]
    fn is_predicted(&self, segment: &Segment) -> bool {
        self.state == State::Established
            && segment.flags.without(Flags::PSH) == Flags::ACK
            && segment.sequence == self.peer_numbers.wire(self.receiver.next)
            && segment.destination_port == self.ports[0]
            && segment.source_port == self.ports[1]
            && segment.sack.is_empty()
            && self.offered_window(segment) == self.sender.window
            && self.age(segment) <= 0
            && self.rack.probe.is_none()
            && !self.receiver.has_runs()
            && !self.ecn.is_on()
    }

    /// Takes data in order whose acknowledgement says nothing new.
    #[inline]
    fn take_predicted_data(&mut self, now: Time, segment: &Segment) -> bool {
        let start = self.receiver.next;
        let end = start + u64::from(segment.payload.length);
        let acknowledged = self.sender.unacknowledged;
        let is_plain = segment.acknowledgement == self.own_numbers.wire(acknowledged)
            && end <= self.receiver.edge
            && self.receiver.takes_all()
            && self.board.is_empty()
            && !self.sender.has_unsent();
        if !is_plain {
            return false;
        }
        self.record_timestamp(segment, start);
        let (by_start, by_ack) = self.sender.window_by;
        if acknowledged > by_ack || start > by_start {
            self.sender.window_by = (start, acknowledged);
        }
        self.heard_at = now;
        self.report_arrival(now, None, false);
        self.timer.probes = 0;
        self.take_in_order(now, end, segment);
        self.acknowledge(now);
        if self.receiver.unread > 0 {
            self.read(now);
        }
        true
    }

    /// Takes an acknowledgement of whole segments, all of them sent once, where nothing else is known to have
    /// arrived or to be lost.
    #[inline]
    fn take_predicted_acknowledgement(&mut self, now: Time, segment: &Segment) -> bool {
        let prior = self.sender.unacknowledged;
        let Some(number) = self.own_numbers.number(segment.acknowledgement, prior) else { return false };
        let is_plain = number > prior
            && number <= self.sender.next
            && self.recovery.state == CongestionState::Open
            && self.board.is_clean()
            && self.board.highest_sacked <= prior
            && self.has_sack
            && !self.timer.is_reordering()
            && !self.delayed_ack.is_pending()
            && self.receiver.unread == 0;
        if !is_plain {
            return false;
        }
        let Some((count, &first, &last)) = self.board.whole_below(number) else { return false };
        if last.rate.is_delivered() {
            // The peer has taken its SACK back (RFC 2018 section 8).
            return false;
        }
        let prior_in_flight = self.board.in_flight();
        self.timer.timeouts = 0;
        self.stats.bytes_acknowledged += number - prior;
        self.record_timestamp(segment, self.receiver.next);
        self.sender.window_by = (self.receiver.next, number);
        self.sender.unacknowledged = number;
        self.heard_at = now;

        self.board.pop_clean(count);
        let delivered_bytes = last.end() - first.start;
        self.rate.delivered += delivered_bytes;
        self.rate.delivered_segments += count as u64;
        self.rack.advance(now, last.departure, last.order, false, None);
        let mut sample = OpenSample::default();
        self.rate.on_delivered(&mut sample, &mut { last.rate }, last.departure, last.end());
        let rtt = now - last.departure;
        self.take_rtt_sample(now, now - first.departure, rtt);
        self.rack.adapt(sample.prior_delivered(), self.rate.delivered);
        self.report_arrival(now, Some(rtt), false);
        let rate = self.rate.close(now, &sample, true, self.rtt.min_rtt());
        let report = Report {
            prior_in_flight,
            cumulative: Cumulative { segments: count as u32, was_open: true, was_in_recovery: false },
            delivered: count as u32,
            delivered_bytes: delivered_bytes as u32,
            lost_bytes: 0,
            marks: 0,
            rtt: Some(rtt),
            rate,
            holds_window: false,
        };
        self.report_to_control(now, &report, true, false);
        self.report_writable();
        self.send_and_restart_timer(now);
        true
    }

    /// Sends what may be sent, and starts the timer anew for what is outstanding: once, where what is sent
    /// starts it again.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    fn send_and_restart_timer(&mut self, now: Time) {
        if self.board.is_empty() {
            self.timer.stop();
        }
        if self.is_subflow() {
            // The connection above asks for this.
            if !self.board.is_empty() {
                self.restart_timer(now);
            }
            self.timer.record_acknowledgement();
        }
        let is_sender = self.sender.has_unsent() || !self.board.is_empty();
        let has_probe_timer = is_sender && self.push(now, Push::Normal) && self.timer.is_loss_probe();
        if !has_probe_timer && !self.board.is_empty() {
            self.restart_timer(now);
        }
    }
}
